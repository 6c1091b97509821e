"""A job in a terminal, or wherever there is no notebook: the log, and lines about the state."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from jupyter_jax_trainer import card
from jupyter_jax_trainer.job import Job
from jupyter_jax_trainer.text import clip

_INTERVAL = 0.25  # seconds between updates of the status line of a terminal


class TerminalView:
    """Prints a job's log; its status is the last line of a terminal, else a line per state.

    Parameters
    ----------
    job
        The job.
    """

    def __init__(self, job: Job) -> None:
        self._facts = (job.name, job.created, card.shape(job.manifest["spec"],
                                                         job.manifest["plan"]))
        self._live = sys.stderr.isatty()
        self._status_shown = False
        self._updated = 0.0
        self._said: tuple[Any, ...] = ()

    def status(self, snapshot: dict[str, Any], note: str | None) -> None:
        """Show the state."""
        now = time.monotonic()
        said = (snapshot["state"], snapshot["reason"], note and note[:9])
        if self._live:
            if said == self._said and now - self._updated < _INTERVAL:
                return
            self._updated = now
            text = card.line(*self._facts, snapshot, note)
            self._erase()
            sys.stderr.write(clip(text, shutil.get_terminal_size().columns - 1))
            sys.stderr.flush()
            self._status_shown = True
        elif said != self._said:
            print(card.line(*self._facts, snapshot, note), file=sys.stderr, flush=True)
        self._said = said

    def log(self, lines: list[str], unfinished: str) -> None:
        """Print lines."""
        if not lines:
            return
        self._erase()
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()

    def show(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Print the plain text of what was displayed."""
        self.log(str(data.get("text/plain", "")).splitlines(), "")

    def close(self, snapshot: dict[str, Any]) -> None:
        """Print the last state."""
        self._erase()
        print(card.line(*self._facts, snapshot, None), file=sys.stderr, flush=True)
        if back := card.results_text(snapshot["results"]):
            print(f"brought back {back}", file=sys.stderr, flush=True)

    def _erase(self) -> None:
        if self._status_shown:
            sys.stderr.write("\r\x1b[K")
            self._status_shown = False
