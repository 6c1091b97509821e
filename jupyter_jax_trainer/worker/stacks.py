"""Where a thread is, read from another thread."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

_one_at_a_time = threading.Lock()


def frame_of(thread: int) -> FrameType | None:
    """Return the innermost frame of a thread; None if it has ended.

    Up to Python 3.11 a garbage collection within ``sys._current_frames()`` can deadlock with a
    thread that starts another one (CPython issue 106883): jax's callback lets go of the GIL while
    the interpreter's list of threads is locked. Later versions collect no garbage there.
    """
    if sys.version_info >= (3, 12):
        return sys._current_frames().get(thread)
    with _one_at_a_time:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames().get(thread)
        finally:
            if collects:
                gc.enable()
