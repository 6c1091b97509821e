"""A job in a notebook cell: a card that changes, rank 0's log, what rank 0 displayed.

Jupyter drops output beyond 1000 messages or 1 MB a second, and a page with a million lines is of
no use to anybody. So the first lines are printed as they come, and after that a short window shows
the last ones; the log on disk has them all.
"""

from __future__ import annotations

import re
import sys
import time
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython
from IPython.display import display

from jupyter_jax_trainer.datatypes import MimeBundle
from jupyter_jax_trainer.jobdir.state import Snapshot
from jupyter_jax_trainer.logs.reader import readable
from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.text import closed
from jupyter_jax_trainer.views import card
from jupyter_jax_trainer.views.bundle import (
    JOB,
    WIDGET,
    as_json,
    last_of,
    reference,
    widget_view,
)
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.widget.built import available

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_INTERVAL = 0.25  # seconds between updates of the card or the window
_HEAD_LINES = 500
_HEAD_CHARACTERS = 200_000
_LINE = 2_000  # characters of one line that a cell shows
_WINDOW = 20  # lines in the window
_DISPLAYS = 200  # figures and values that a cell shows
_CUT_COLOUR = re.compile(r"\x1b[\[0-9;:]*$")


class NotebookView:
    """Shows a job in the output of the running cell."""

    def __init__(self) -> None:
        self._card = _Live()
        self._log = LogPane()
        self._facts: Facts | None = None
        self._job: Job | None = None
        self._widget: Any = None
        self._serving: Any = None
        self._unfinished = b""
        self._displays = 0
        self._named: dict[str, _Live] = {}
        self._prefix = uuid.uuid4().hex  # ids of the cell's own choice are not those of others
        self._note: str | None = None

    def begin(self, facts: Facts, snapshot: Snapshot, job: Job | None = None) -> None:
        """Show the card."""
        first, self._facts = self._facts is None, facts
        self._log.where = facts.log
        if first and job is not None:
            # An update tells open pages that this cell prints the log: a page loaded later has
            # the card, but gets none of the printed lines.
            self._show_card(snapshot, None)
        self._job = job
        self._show_card(snapshot, None)

    def status(self, snapshot: Snapshot, note: str | None) -> None:
        """Show the state, a few times a second at most; an answer to the user at once.

        Where there are widgets, the state goes there and not into the notebook's document.
        """
        self._log.flush()
        self._flush_updates()
        if self._serving is not None:
            self._serving.serve([self._widget.model_id])
        elif self._job is not None and self._card.due() and available():
            self._begin_widget(self._job)
            self._show_card(snapshot, note)
        if note != self._note or (self._widget is None and self._card.due()):
            self._show_card(snapshot, note)

    def _begin_widget(self, job: Job) -> None:
        from jupyter_jax_trainer.widget.serving import Serving

        self._widget = job.widget()
        self._widget.printed = True
        self._serving = Serving(get_ipython().kernel)

    def log(self, lines: list[bytes], unfinished: bytes) -> None:
        """Take lines; `status` shows them."""
        self._unfinished = unfinished
        self._log.add(lines)

    def show(self, data: MimeBundle, metadata: MimeBundle, name: str | None, update: bool) -> None:
        """Show a figure or a value as if the cell had displayed it."""
        if update:
            if live := self._named.get(name or ""):
                live.later = (data, metadata)
            return
        self._displays += 1
        if self._displays <= _DISPLAYS:
            self._log.interrupt()
            if name is None:
                display(data, metadata=metadata, raw=True)
            else:
                live = self._named[name] = _Live(f"{self._prefix}-{name}")
                live.show(data, metadata)
        elif self._displays == _DISPLAYS + 1:
            self._log.interrupt()
            print(say.DISPLAYS_LEFT_OUT(count=_DISPLAYS))

    def close(self, snapshot: Snapshot, note: str | None) -> None:
        """Show the last state and the last lines."""
        self._unfinished = b""
        self._flush_updates(now=True)
        self._log.interrupt()
        self._show_card(snapshot, note, last=True)
        if self._widget is not None:
            self._widget.printed = False
            if snapshot["state"] in ENDED:
                self._widget.close()

    def _flush_updates(self, now: bool = False) -> None:
        for live in self._named.values():
            if live.later and (now or live.due()):
                live.show(*live.later)

    def _show_card(self, snapshot: Snapshot, note: str | None, last: bool = False) -> None:
        assert self._facts is not None
        self._note = note
        unfinished = _clipped(readable(self._unfinished))
        meant = reference(self._job)
        data: MimeBundle = {}
        summary = last_of(self._job) if last and self._job is not None else None
        if summary:
            meant["last"] = summary
        if snapshot["state"] == State.FAILED:
            snapshot = snapshot.copy()
            snapshot["reason"] = None  # the error that ends the cell says it
        if snapshot["state"] in ENDED:
            meant["printed"] = True
            if summary:
                summary["tail"] = []  # these lines stand below
        else:
            if self._job is not None and not last:
                meant["printing"] = True
            if self._widget is not None:
                data[WIDGET] = widget_view(self._widget)
        data[JOB] = as_json(meant)
        spark = summary["spark"] if summary else None
        data["text/html"] = card.render(self._facts, snapshot, note, unfinished, spark)
        data["text/plain"] = card.text(self._facts, snapshot, note)
        self._card.show(data)


class _Live:
    """A part of the output that is replaced again and again.

    Attributes
    ----------
    later
        What will replace it (data, metadata) when it is due.
    """

    def __init__(self, name: str | None = None) -> None:
        self.later: tuple[MimeBundle, MimeBundle] | None = None
        self._name = name or True
        self._handle: Any = None
        self._at = 0.0

    def due(self) -> bool:
        """Return whether it may be replaced without flooding the page."""
        return time.monotonic() - self._at >= _INTERVAL

    def show(self, data: MimeBundle, metadata: MimeBundle | None = None) -> None:
        """Show it for the first time, or replace it."""
        self._at, self.later = time.monotonic(), None
        if self._handle is None:
            self._handle = display(data, metadata=metadata, raw=True, display_id=self._name)
        else:
            self._handle.update(data, metadata=metadata, raw=True)


class LogPane:
    """The lines of a log: the first ones in full, then a window with the last ones.

    Attributes
    ----------
    where
        What holds all lines.
    """

    def __init__(self) -> None:
        self.where = ""
        self._head: list[str] = []
        self._lines_left = _HEAD_LINES
        self._characters_left = _HEAD_CHARACTERS
        self._begin_window()

    def _begin_window(self) -> None:
        self._window = _Live()
        self._last: deque[bytes] = deque(maxlen=_WINDOW)
        self._count = self._shown = 0

    def add(self, lines: list[bytes]) -> None:
        """Take lines."""
        taken = 0
        if not self._count:
            for line in lines[: self._lines_left]:
                if self._characters_left <= 0:
                    break
                text = _clipped(readable(line))
                self._head.append(text)
                self._characters_left -= len(text)
                taken += 1
            self._lines_left -= taken
        self._last.extend(lines[taken:] if taken else lines)
        self._count += len(lines) - taken

    def flush(self, now: bool = False) -> None:
        """Show what has come; the window a few times a second, or at once."""
        if self._head:
            sys.stdout.write("\n".join(self._head) + "\n")
            sys.stdout.flush()
            self._head = []
        if self._count != self._shown and (now or self._window.due()):
            self._shown = self._count
            lines = [_clipped(readable(line)) for line in self._last]
            if between := self._count - len(lines):
                lines.insert(0, say.LINES_LEFT_OUT(count=between, where=self.where))
            self._window.show({"text/plain": "\n".join(lines)})

    def interrupt(self) -> None:
        """Show all of it now: what comes later belongs below something else."""
        self.flush(now=True)
        if self._count:
            self._begin_window()


def _clipped(line: str) -> str:
    if len(line) > _LINE:
        line = _CUT_COLOUR.sub("", line[:_LINE]) + " …"
    return closed(line)
