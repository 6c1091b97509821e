"""A job in a notebook cell: a card that changes, rank 0's log, what rank 0 displayed.

Jupyter drops output beyond 1000 messages or 1 MB of text a second, and a page with a million lines
is of no use to anybody. So the first lines are printed as they come, and after that a short window
shows the last ones; the log on disk has them all.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

from IPython.display import display

from jupyter_jax_trainer import card
from jupyter_jax_trainer.job import Job
from jupyter_jax_trainer.jobdir import ENDED

_INTERVAL = 0.25  # seconds between updates of the card or the window
_HEAD_LINES = 500
_HEAD_BYTES = 200_000
_LINE = 2_000  # characters of one line that a cell shows
_WINDOW = 20  # lines in the window


class NotebookView:
    """Shows a job in the output of the running cell.

    Parameters
    ----------
    job
        The job.
    """

    def __init__(self, job: Job) -> None:
        self._name, self._created = job.name, job.created
        manifest = job.manifest
        self._shape = card.shape(manifest["spec"], manifest["plan"])
        self._plan_note = manifest["plan"].get("note")
        self._sent = card.sent_text(manifest["sent"])
        self._handle: Any = None
        self._window_handle: Any = None
        self._window: deque[str] = deque(maxlen=_WINDOW)
        self._lines = 0
        self._bytes = 0
        self._hidden = 0
        self._unfinished = ""
        self._updated = self._window_updated = 0.0
        self._shown: tuple[Any, ...] = ()
        self._pending: list[str] = []

    def status(self, snapshot: dict[str, Any], note: str | None) -> None:
        """Show the state, a few times a second at most."""
        now = time.monotonic()
        self._flush_head()
        self._update_window(now)
        key = (snapshot["state"], snapshot["reason"], note)
        if key == self._shown and now - self._updated < _INTERVAL:
            return
        self._shown, self._updated = key, now
        if note is None and snapshot["reason"] is None:
            note_shown = self._plan_note if snapshot["state"] not in ENDED else None
        else:
            note_shown = note
        facts = (self._name, self._created, self._shape)
        bundle = {
            "text/html": card.render(
                *facts, self._sent, snapshot, note_shown, self._unfinished
            ),
            "text/plain": card.line(*facts, snapshot, note_shown),
        }
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def log(self, lines: list[str], unfinished: str) -> None:
        """Print the first lines; keep the last ones of the rest for the window."""
        self._unfinished = unfinished[-_LINE:]
        for line in lines:
            self._lines += 1
            text = line if len(line) <= _LINE else line[:_LINE] + " …"
            if self._lines <= _HEAD_LINES and self._bytes < _HEAD_BYTES and not self._hidden:
                self._bytes += len(text)
                self._pending.append(text)
            else:
                self._hidden += 1
                self._window.append(text)

    def show(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Show a figure or a value as if the cell had displayed it."""
        self._flush_head()
        display(data, metadata=metadata, raw=True)

    def close(self, snapshot: dict[str, Any]) -> None:
        """Show the last state and the last lines."""
        self._unfinished = ""
        self._shown = ()
        self._window_updated = 0.0
        self.status(snapshot, None)

    def _flush_head(self) -> None:
        if self._pending:
            sys.stdout.write("\n".join(self._pending) + "\n")
            sys.stdout.flush()
            self._pending = []

    def _update_window(self, now: float) -> None:
        if not self._hidden or now - self._window_updated < _INTERVAL:
            return
        self._window_updated = now
        between = self._hidden - len(self._window)
        skipped = f"… {between:,} lines not shown; %jaxtrain logs {self._name} has them all\n"
        text = (skipped if between else "") + "\n".join(self._window)
        bundle = {"text/plain": text}
        if self._window_handle is None:
            self._window_handle = display(bundle, raw=True, display_id=True)
        else:
            self._window_handle.update(bundle, raw=True)
