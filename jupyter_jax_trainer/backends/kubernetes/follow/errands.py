"""Instructions to a session's ranks, sent one after another until each has arrived."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.follow.asker import reason_of
from jupyter_jax_trainer.backends.kubernetes.follow.line import (
    Line,
    NoRoom,
    Over,
    Refused,
    Target,
    Unready,
    owner_of,
)
from jupyter_jax_trainer.backends.kubernetes.follow.ownership import Ownership
from jupyter_jax_trainer.backends.kubernetes.follow.sending import Full, Sending
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir import pieces
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.worker.pod.wire import MAX_BODY, WireError
from jupyter_jax_trainer.worker.records import Whereabouts

_FIRST, _LONGEST = 0.05, 1.0  # seconds between tries
_KEEP = 1.0  # seconds between looks whether the line is still needed


class _Dropped(Exception):  # noqa: N818
    """What is sent is not needed any more."""


class Errand(Protocol):
    """Something to be done through the channel, as often as it takes."""

    def run(self, line: Line, target: Target) -> None:
        """Do it, or raise what `Line` does."""


@dataclass
class Tell:
    """Tell all ranks something, with a bundle or without.

    Attributes
    ----------
    to
        For which process of each rank it is.
    on_no_room
        Called where a pod can't keep the bundle, with whether ranks may have begun.
    may_be_known
        Whether a rank may have heard of it.
    dropped
        Whether nobody needs it any more: nothing large is sent to its end, and no cell begins.
    """

    told: Mapping[str, JsonValue]
    to: Mapping[int, str]
    bundle: Path | None = None
    on_no_room: Callable[[bool], None] = field(default=lambda _: None)
    may_be_known: bool = False
    dropped: bool = False
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def withdraw(self) -> bool:
        """Drop it, unless a rank may have heard of it; return whether it is dropped."""
        with self._turn:
            self.dropped = self.dropped or not self.may_be_known
            return self.dropped

    def run(self, line: Line, target: Target) -> None:
        """Tell it; a large bundle is sent before."""
        if self.dropped:
            return
        told, body = self.told, b""
        if self.bundle is not None and self.bundle.stat().st_size <= MAX_BODY:
            body = self.bundle.read_bytes()
        elif self.bundle is not None:
            try:
                told = {**told, "parcel": self._send(self.bundle, line, target)}
                self._go_on()
            except _Dropped:
                return
            except Full:
                self.on_no_room(False)
                return
        with self._turn:
            if self.dropped:
                return
            self.may_be_known = True
        try:
            line.tell(target, self.to, told, body)
        except NoRoom:
            self.on_no_room(True)
        except Over:
            pass  # its end is on its way

    def _go_on(self) -> None:
        if self.dropped:
            raise _Dropped

    def _send(self, bundle: Path, line: Line, target: Target) -> str:
        """Send a bundle to all pods; return its hash."""
        root = pieces.note(bundle)
        name = f"{root}:{bundle.stat().st_size}"
        sending = Sending(
            line.client, line.owner, bundle, lambda: None, self._go_on, lambda _: None, name
        )
        try:
            lost = sending.hand_out(target)
        except Full:
            raise
        except WireError:
            raise OSError(say.POD_CUT_OFF()) from None
        if lost:  # it could not tell them of the cell either
            raise Unready([*lost])
        return root


@dataclass
class Where:
    """Ask all ranks where they are.

    Attributes
    ----------
    on_done
        Called with what they say.
    """

    on_done: Callable[[Sequence[Whereabouts]], None]

    def run(self, line: Line, target: Target) -> None:
        """Ask them."""
        self.on_done(line.where(target))


@dataclass
class Restart:
    """Restart all ranks in their pods.

    Attributes
    ----------
    id
        Asked for again, it is not done twice.
    on_done
        Called when all have been stopped, and others start.
    """

    id: str
    on_done: Callable[[], None]

    def run(self, line: Line, target: Target) -> None:
        """Do it."""
        line.restart(target, self.id)
        self.on_done()


class Errands(threading.Thread):
    """Runs errands in order, each until it is done.

    Parameters
    ----------
    client, ownership
        The cluster, and whose the channel is.
    look
        Gives where it is; None while that is not known.

    Attributes
    ----------
    trouble
        What keeps from it, in plain words.
    """

    def __init__(
        self, client: Client, ownership: Ownership, look: Callable[[], Target | None]
    ) -> None:
        super().__init__(name="errands", daemon=True)
        self.trouble: str | None = None
        self._client, self._ownership, self._look = client, ownership, look
        self._epoch = ownership.epoch
        self._line = Line(client, owner_of(self._epoch))
        self._todo: deque[Errand] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, errand: Errand) -> None:
        """Add an errand."""
        with self._changed:
            self._todo.append(errand)
            self._changed.notify()

    def forget(self, bundle: Path) -> None:
        """Drop what is told of a cell that has ended: its bundle is about to be deleted."""
        with self._changed:
            for errand in self._todo:
                if isinstance(errand, Tell) and errand.bundle == bundle:
                    errand.dropped = True

    def clear(self) -> None:
        """Forget those that are not done: what they were for is gone."""
        with self._changed:
            for errand in self._todo:
                if isinstance(errand, Tell):
                    errand.dropped = True
            self._todo.clear()
            self.trouble = None
            self._changed.notify()

    def close(self) -> None:
        """End, and close the line."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Run errands until `close`."""
        pause = _FIRST
        while (errand := self._next()) is not None:
            self.trouble = self._try(errand)
            if self.trouble is None:
                pause = _FIRST
                with self._changed:
                    if self._todo and self._todo[0] is errand:
                        self._todo.popleft()
            else:
                with self._changed:
                    self._changed.wait(pause)
                pause = min(2 * pause, _LONGEST)
        self._line.close()

    def _next(self) -> Errand | None:
        """Wait for the next errand; None at the end."""
        with self._changed:
            while not self._closed:
                if self._todo:
                    return self._todo[0]
                self._changed.wait(_KEEP)
                self._line.keep()
        return None

    def _try(self, errand: Errand) -> str | None:
        """Try an errand; give what keeps from it."""
        if self._ownership.refusal is not None:
            return self._ownership.refusal
        if self._ownership.epoch != self._epoch:  # this store has taken over
            self._epoch = self._ownership.epoch
            self._line.close()
            self._line = Line(self._client, owner_of(self._epoch))
        target = self._look()
        if target is None:
            return ""
        try:
            errand.run(self._line, target)
        except Refused as refused:
            self._ownership.note_refusal(refused, self._epoch)
            return str(refused)
        except (OSError, ApiError, Unreachable) as error:
            return reason_of(error)
        return None
