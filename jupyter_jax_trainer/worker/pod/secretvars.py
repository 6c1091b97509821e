"""Variables that are secrets: taken out of the environment, and out of what /proc shows of it."""

from __future__ import annotations

import os


def take(name: str) -> str:
    """Take a variable out of this process's environment, and give its value.

    ``/proc/PID/environ`` shows the memory in which a process was given its variables, whatever
    has become of them since. So the value is overwritten there.

    Raises
    ------
    KeyError
        There is no such variable.
    """
    import ctypes

    get = ctypes.CDLL(None).getenv
    get.argtypes, get.restype = [ctypes.c_char_p], ctypes.c_void_p
    where = get(os.fsencode(name))
    value = os.environ.pop(name)  # from now on nothing in C points to it
    if where:
        ctypes.memset(where, 0, len(os.fsencode(value)))
    return value
