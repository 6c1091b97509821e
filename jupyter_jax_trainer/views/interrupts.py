"""Ctrl-C (the notebook's ■) while a job is submitted and followed."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """Takes interrupts while it is entered: raises `KeyboardInterrupt`, or only counts.

    An exception can come between any two steps: a job that was just started would be forgotten,
    lines that were just read would be lost. So from `hold` on interrupts are only noted, and
    whoever waits looks at `times`.

    Attributes
    ----------
    times
        When the held interrupts came, by ``time.monotonic()``.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self._held = False
        self._before: Any = None

    def __enter__(self) -> Self:
        # Signals come to the main thread alone; in others there is nothing to take.
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def hold(self) -> None:
        """Only note interrupts from now on."""
        self._held = True

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if not self._held:
            raise KeyboardInterrupt
        self.times.append(time.monotonic())
