"""A job as a widget: its summary, kept up to date over the kernel's comm."""

from __future__ import annotations

import threading
from typing import Any

import anywidget
import traitlets

from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import plain_json
from jupyter_jax_trainer.queries.summary import INTERVAL, SummaryReader
from jupyter_jax_trainer.widget.built import STATIC


class JobWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """A live view of a job.

    A view never asks for anything: it draws `summary`, so it shows the state though the kernel is
    busy, and a saved notebook has the last one.

    Parameters
    ----------
    job
        The job.
    """

    _esm = STATIC / "job.js"
    _css = STATIC / "job.css"
    summary = traitlets.Dict().tag(sync=True)
    printed = traitlets.Bool(False).tag(sync=True)  # rank 0's lines stand in the cell's output

    def __init__(self, job: Job) -> None:
        self._name = job.name
        self._reader = SummaryReader(job)
        self._over = threading.Event()
        super().__init__(summary=self._reader.read())
        self.on_msg(self._hear)
        threading.Thread(target=self._run, name=f"jaxtrain {job.name}", daemon=True).start()

    def close(self) -> None:
        """End the view, here and in the pages."""
        self._over.set()
        super().close()

    def _run(self) -> None:
        while self.summary["row"]["active"] and not self._over.wait(INTERVAL):
            found = self._reader.read()
            if not self._over.is_set():
                self.summary = dict(found)

    def _hear(self, _: Any, message: Any, __: Any) -> None:
        if isinstance(message, dict) and message.get("op") == "act":
            # Ending a job takes a while, and the kernel has other things to do.
            words = [str(message.get("action")), message.get("uid")]
            threading.Thread(target=self._act, args=words).start()

    def _act(self, action: str, uid: Any) -> None:
        from jupyter_jax_trainer.queries.requests import act, trust

        try:
            if action == "trust":
                trust(self._name, uid)
            else:
                act(self._name, action)
        except JaxTrainError as error:
            self.send(plain_json({"kind": "error", "message": error.message, "hint": error.hint}))
