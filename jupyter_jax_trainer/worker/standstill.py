"""Whether a rank waits for others: its main thread is in jax, and nothing is computed meanwhile."""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import inspect
import linecache
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_KNOWN = 4096  # places that are remembered
_TRIES, _MOMENT = 3, 0.005  # how often threads are looked at, and seconds in between
_BUSY = 0.2  # of a core: whoever uses more computes something
_BLOCK = "block_until_ready"
_UNSEEN = object()  # in place of a variable that can't be looked at; most are compiled functions
_WAITING = ("acquire", "get", "read", "readinto", "readline", "recv", "wait")  # for data


class Effort:
    """How much processor time this process uses, from one look to the next."""

    def __init__(self) -> None:
        self._looked = (time.monotonic(), time.process_time())

    def is_idle(self) -> bool:
        """Return whether it has used next to none since the last look."""
        before, self._looked = self._looked, (time.monotonic(), time.process_time())
        wall, used = (now - then for now, then in zip(self._looked, before, strict=True))
        return used < _BUSY * wall


def others_sleep() -> bool:
    """Return whether all other threads of this process sleep; false where that can't be told.

    One that computes, or waits for a processor or a disk, does not; nor does one for a moment that
    only looks at something, so there is more than one try.
    """
    for _ in range(_TRIES):
        if _all_sleep(str(threading.get_native_id())):
            return True
        time.sleep(_MOMENT)
    return False


def _all_sleep(but: str) -> bool:
    try:
        tasks = [task for task in os.listdir("/proc/self/task") if task != but]
        stats = [Path("/proc/self/task", task, "stat").read_text() for task in tasks]
    except OSError:  # there is no such thing, or a thread has ended
        return False
    return all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats)


def waits_for_others(frame: FrameType | None, idle: bool) -> bool:
    """Return whether a thread waits in jax for what other ranks have to do, too.

    Parameters
    ----------
    frame
        The innermost frame of the thread.
    idle
        This process uses no processor time. While it waits for a GPU it may use some.
    """
    if frame is None or "jax" not in sys.modules or not _is_in_jax(frame, _local):
        return False
    try:
        pending = _pending()
    except Exception:  # an array was deleted meanwhile
        return False
    return any(pending) if pending else idle


class Spots:
    """Places in code of which it is known whether a thread there is in jax."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeType, int], bool] = {}

    def is_in_jax(self, frame: FrameType) -> bool:
        """Return whether a frame is jax's own, or calls what jax has in native code."""
        if "jax" not in sys.modules:
            return False
        spot = frame.f_code, frame.f_lasti
        found = self._known.get(spot)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[spot] = _is_in_jax(frame, _peek)
        return found


def _pending() -> list[bool]:
    """Return of all arrays that are being computed whether other ranks have parts of them."""
    import jax

    found = [array for array in jax.live_arrays() if not array.is_deleted()]
    return [not array.is_fully_addressable for array in found if not array.is_ready()]


def _is_in_jax(frame: FrameType, local: Callable[[FrameType, str], Any]) -> bool:
    """Return whether a frame is jax's own, or calls what jax has in native code.

    Parameters
    ----------
    local
        Gives a local variable of a frame.
    """
    import jax
    import jaxlib

    places = (os.path.dirname(module.__file__ or "") + os.sep for module in (jax, jaxlib))
    if frame.f_code.co_filename.startswith(tuple(places)):
        return True
    called = _called(frame)
    if isinstance(called, ast.Attribute) and called.attr == _BLOCK:
        return True
    # A function that was compiled is called without any frame of jax.
    value = None if called is None else _value(called, frame, local)
    return value is _UNSEEN or type(value).__name__ == "PjitFunction"


def _called(frame: FrameType) -> ast.expr | None:
    """Return the expression that a frame is calling, from its source; None if unknown."""
    try:
        first, last, begin, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        if first is None or last is None or begin is None or end is None:
            return None
        lines = [
            linecache.getline(frame.f_code.co_filename, number).encode()
            for number in range(first, last + 1)
        ]
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][begin:]
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (IndexError, SyntaxError, ValueError):
        return None
    return call.func if isinstance(call, ast.Call) else None


def _value(expression: ast.expr, frame: FrameType, local: Callable[[FrameType, str], Any]) -> Any:
    """Return what a name or an attribute stands for, without running any code."""
    match expression:
        case ast.Name(id=name):
            with contextlib.suppress(KeyError):
                return local(frame, name)
            for names in (frame.f_globals, vars(builtins)):
                if name in names:
                    return names[name]
        case ast.Attribute(value=value, attr=attr):
            found = _value(value, frame, local)
            if found is _UNSEEN:
                return None if attr in _WAITING else _UNSEEN
            return inspect.getattr_static(found, attr, None)
    return None


def _local(frame: FrameType, name: str) -> Any:
    """Return a local variable of a frame."""
    return frame.f_locals[name]


def _peek(frame: FrameType, name: str) -> Any:
    """Return a local variable of a frame, without keeping it.

    Before Python 3.13 the locals of a function are a copy that lives as long as its frame, and
    arrays would live with it. Python 3.11 has no other way: there what a variable is stays unseen.
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED or sys.version_info >= (3, 13):
        return frame.f_locals[name]
    if name not in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        raise KeyError(name)
    if sys.version_info < (3, 12):
        return _UNSEEN
    try:
        get = ctypes.pythonapi.PyFrame_GetVarString
        get.restype, get.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_char_p]
        return get(frame, name.encode())
    except NameError:  # it is bound no more
        return None
