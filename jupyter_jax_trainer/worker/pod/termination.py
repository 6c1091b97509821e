"""The end of a worker in a pod that is told to end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.pod.podchannel import PodChannel

_TERMINATED = 128 + signal.SIGTERM

_leave_at_once = os._exit


class EndingPod(Protocol):
    """What the end of a pod needs to know and to say of it."""

    finished: bool
    before_end: Callable[[], None] | None
    channel: PodChannel

    def note_end(self, status: int) -> None:
        """Note the exit code."""


class Termination:
    """Ends the process on SIGTERM.

    Python runs handlers in the main thread only, which may hang in native code; so a thread waits
    for the signal's number in a pipe. A handler of the cell's own goes first: then only that runs.

    Parameters
    ----------
    pod
        The pod.
    tell
        Says where this rank is.
    ending
        Held by whoever ends this process.
    """

    def __init__(self, pod: EndingPod, tell: Callable[[], None], ending: threading.Lock) -> None:
        self._pod = pod
        self._tell = tell
        self._ending = ending
        self._uses_preemption: Callable[[], bool] = bool
        self._native: int | None = None
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        signal.signal(signal.SIGTERM, self._handle)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._mask = threading.local()
        os.register_at_fork(
            before=self._hold_back, after_in_parent=self._let_through, after_in_child=self._forget
        )
        threading.Thread(target=self._wait, name="jaxtrain-sigterm", daemon=True).start()

    def _handle(self, number: int, _frame: object) -> None:
        """Wake the thread where the cell has taken the wake-up pipe for itself (asyncio does)."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, bytes([number]))

    def _hold_back(self) -> None:
        self._mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def _let_through(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask.before)

    def _forget(self) -> None:
        """Let a forked child end by its own SIGTERM, not this process by the child's."""
        handler = signal.getsignal(signal.SIGTERM)
        if signal.set_wakeup_fd(-1) in (-1, self._writer) and handler == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._let_through()

    def take_back(self, uses_preemption: Callable[[], bool]) -> None:
        """Put the handler back in the place of jax's own, which is kept for cells that use it."""
        self._uses_preemption = uses_preemption
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            swap = ctypes.CDLL(None).signal
            swap.restype, swap.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
            self._native = swap(signal.SIGTERM, int(signal.SIG_IGN))
        signal.signal(signal.SIGTERM, self._handle)

    def _wait(self) -> None:
        while number := os.read(self._reader, 1):
            if number[0] != signal.SIGTERM:
                continue
            if signal.getsignal(signal.SIGTERM) != self._handle:
                continue
            if self._native and self._uses_preemption():
                import ctypes

                ctypes.CFUNCTYPE(None, ctypes.c_int)(self._native)(signal.SIGTERM)
                continue
            self._end()

    def _end(self) -> None:
        if self._pod.before_end is not None and not self._pod.finished:
            self._pod.before_end()
        status = 0 if self._pod.finished else _TERMINATED
        last_words = threading.Thread(target=self._say, daemon=True)
        last_words.start()
        last_words.join(timeouts.LAST_WORDS.seconds)  # a log that is stuck must not keep the pod
        self._pod.note_end(status)
        _leave_at_once(status)

    def _say(self) -> None:
        if self._pod.finished:
            return
        print(say.TERMINATED(), file=sys.stderr)
        self._tell()
        self._pod.channel.send_count()
        # The others fail without this rank: what they then say is not to be taken for the cause.
        self._ending.acquire()
