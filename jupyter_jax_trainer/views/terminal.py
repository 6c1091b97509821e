"""A job in a terminal, or wherever there is no notebook: the log, and lines about the state."""

from __future__ import annotations

import re
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from jupyter_jax_trainer.datatypes import MimeBundle
from jupyter_jax_trainer.jobdir.describe import results_text
from jupyter_jax_trainer.jobdir.state import Snapshot
from jupyter_jax_trainer.logs.reader import readable
from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.states import ENDED, Unstarted
from jupyter_jax_trainer.text import clip, plain
from jupyter_jax_trainer.views import card
from jupyter_jax_trainer.views.card import Facts

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_INTERVAL = 0.25  # seconds between updates of the status line of a terminal
_SPAN = re.compile(r"(?:\d[\d.]* [smhd]\b ?)+")


class TerminalView:
    """Prints a job's log; its status is the last line of a terminal, else a line per state."""

    def __init__(self) -> None:
        self._facts: Facts | None = None
        self._live = sys.stderr.isatty()
        self._status_shown = False
        self._updated = 0.0
        self._said: tuple[Any, ...] = ()
        self._hint = ""

    def begin(self, facts: Facts, snapshot: Snapshot, job: Job | None = None) -> None:
        """Say what is sent, and then what is to be known of the job."""
        known, self._facts = self._facts, facts
        if snapshot["state"] not in ENDED:
            if facts.sent and known is None:
                sending = say.SENDING if snapshot["state"] == Unstarted.SENDING else say.SENT
                self._say(sending(things=facts.sent))
            for note in facts.notes:
                self._say(note)
        if snapshot["state"] != Unstarted.SENDING:
            self.status(snapshot, None)

    def status(self, snapshot: Snapshot, note: str | None) -> None:
        """Show the state."""
        assert self._facts is not None
        now = time.monotonic()
        # What counts seconds is worth one line where lines stay.
        reason = _SPAN.sub("", snapshot["reason"] or "")
        said = (snapshot["state"], reason, note and _SPAN.sub("", note))
        if self._live:
            if said == self._said and now - self._updated < _INTERVAL:
                return
            self._updated = now
            self._erase()
            text = card.line(self._facts, snapshot, note)
            sys.stderr.write(clip(text, shutil.get_terminal_size().columns - 1))
            sys.stderr.flush()
            self._status_shown = True
        elif said != self._said:
            self._say(card.line(self._facts, snapshot, note))
        self._said = said
        hint = card.hint(snapshot).replace("`%jaxtrain ", "`jaxtrain ")
        if hint and hint != self._hint:
            if self._live:  # where the status line may have no room for the reason
                self._say(card.line(self._facts, snapshot))
            self._say(f"  {hint}")
        self._hint = hint

    def log(self, lines: list[bytes], unfinished: bytes) -> None:
        """Print lines."""
        if lines:
            self._print("\n".join(map(readable, lines)))

    def show(self, data: MimeBundle, metadata: MimeBundle, name: str | None, update: bool) -> None:
        """Print the plain text of what was displayed, or of what replaces it."""
        self.log(str(data.get("text/plain", "")).encode(errors="replace").split(b"\n"), b"")

    def close(self, snapshot: Snapshot, note: str | None) -> None:
        """Print the last state."""
        assert self._facts is not None
        self._say(card.line(self._facts, snapshot, note))
        if back := results_text(snapshot["results"]):
            self._say(say.BROUGHT_BACK(things=back))

    def _say(self, text: str) -> None:
        self._erase()
        print(plain(text), file=sys.stderr, flush=True)

    def _print(self, text: str) -> None:
        self._erase()
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def _erase(self) -> None:
        if self._status_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._status_shown = False
