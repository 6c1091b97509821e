"""What cannot travel between processes, said in the user's terms.

Types are recognised by name, so nothing has to be imported to be refused.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from typing import Any, NamedTuple


class Refusal(NamedTuple):
    """Why something can't travel.

    Attributes
    ----------
    what
        The thing, as a noun: ``a thread lock``.
    hint
        The way out, as a sentence.
    """

    what: str
    hint: str


class CannotTravel(pickle.PicklingError):
    """An object that must not be pickled was met; `culprit` is that object."""

    def __init__(self, refusal: Refusal, culprit: Any) -> None:
        super().__init__(refusal.what)
        self.what, self.hint = refusal
        self.culprit = culprit


_MESH = "Build the mesh, and shardings on it, inside the cell: devices belong to a process."
_OPEN = "Open it inside the cell."
_START = "Start it inside the cell."
_LOCK = "Create it inside the cell, or leave it out of the object's pickled state (__getstate__)."
_FUNCTION = "Send the function itself, and compile it inside the cell."

# (top-level package, name of a class in the type's mro) → refusal
_CLASSES: dict[tuple[str, str], Refusal] = {
    ("jax", "Mesh"): Refusal("a jax Mesh", _MESH),
    ("jax", "Sharding"): Refusal("a jax sharding", _MESH),
    ("jax", "Device"): Refusal("a jax device", "Ask for devices inside the cell (jax.devices())."),
    ("jax", "Client"): Refusal("a jax backend", "Ask for devices inside the cell (jax.devices())."),
    ("jax", "Tracer"): Refusal(
        "a jax tracer", "It leaked out of a transformed function; return the value from there."
    ),
    ("jax", "Compiled"): Refusal("a compiled function", _FUNCTION),
    ("jax", "Lowered"): Refusal("a lowered function", _FUNCTION),
    ("jax", "Traced"): Refusal("a traced function", _FUNCTION),
    ("jax", "LoadedExecutable"): Refusal("a compiled function", _FUNCTION),
    ("_thread", "lock"): Refusal("a thread lock", _LOCK),
    ("_thread", "RLock"): Refusal("a thread lock", _LOCK),
    ("_thread", "_local"): Refusal("thread-local data", _LOCK),
    ("threading", "Thread"): Refusal("a thread", _START),
    ("threading", "Condition"): Refusal("a thread condition", _LOCK),
    ("threading", "Event"): Refusal("a thread event", _LOCK),
    ("threading", "Semaphore"): Refusal("a semaphore", _LOCK),
    ("threading", "Barrier"): Refusal("a thread barrier", _LOCK),
    ("queue", "Queue"): Refusal("a queue between threads", _LOCK),
    ("_queue", "SimpleQueue"): Refusal("a queue between threads", _LOCK),
    ("concurrent", "Executor"): Refusal("a pool of workers", _START),
    ("concurrent", "Future"): Refusal("a future", "Send its result()."),
    ("asyncio", "Future"): Refusal("an asyncio future", "Send its result()."),
    ("_asyncio", "Future"): Refusal("an asyncio future", "Send its result()."),
    ("asyncio", "AbstractEventLoop"): Refusal("an event loop", _START),
    ("subprocess", "Popen"): Refusal("a running process", _START),
    ("_socket", "socket"): Refusal("a network connection", _OPEN),
    ("ssl", "SSLContext"): Refusal("an SSL context", _OPEN),
    ("sqlite3", "Connection"): Refusal("a database connection", _OPEN),
    ("sqlite3", "Cursor"): Refusal("a database cursor", _OPEN),
    ("mmap", "mmap"): Refusal("a memory-mapped file", _OPEN),
    ("IPython", "InteractiveShell"): Refusal(
        "the IPython shell", "The job has no shell; get_ipython() there knows !commands."
    ),
    ("IPython", "HistoryManager"): Refusal("the notebook's history", "Give the value a name."),
    ("jupyter_jax_trainer", "Job"): Refusal(
        "a Job of this notebook", "Send what is needed of it, its result() for example."
    ),
}

_TYPES: list[tuple[type | tuple[type, ...], Refusal]] = [
    (
        (types.GeneratorType, types.AsyncGeneratorType),
        Refusal("a generator", "Send the function that makes it, and call that inside the cell."),
    ),
    (
        types.CoroutineType,
        Refusal("a coroutine", "Send the async function, and call it inside the cell."),
    ),
    (types.FrameType, Refusal("a stack frame", "Leave it out.")),
    (types.TracebackType, Refusal("a traceback", "Send traceback.format_exc() instead.")),
    (
        (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper),
        Refusal("an open file", "Send its path, and open it inside the cell."),
    ),
]


def refusal_for(value: Any) -> Refusal | None:
    """Return why `value` itself can't travel, or None."""
    cls = type(value)
    if issubclass(cls, type):
        return None
    for base in cls.__mro__:
        package = base.__module__.partition(".")[0] if isinstance(base.__module__, str) else ""
        refusal = _CLASSES.get(("jax" if package == "jaxlib" else package, base.__name__))
        if refusal is not None:
            return refusal
        if package == "multiprocessing" and base.__name__ != "AuthenticationString":
            return Refusal(f"a multiprocessing {cls.__name__}", _START)
    for kinds, refusal in _TYPES:
        if isinstance(value, kinds) and value not in (sys.stdout, sys.stderr):
            return refusal
    return None


def explain(error: BaseException, culprit: Any) -> Refusal:
    """Put an error of the pickling itself in the same form."""
    if isinstance(error, CannotTravel):
        return Refusal(error.what, error.hint)
    if isinstance(error, RecursionError) or "recursion" in str(error):
        return Refusal("nested too deeply", "Flatten it, or build it inside the cell.")
    cls = type(culprit)
    name = cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
    text = str(error).rstrip(".") or type(error).__name__
    return Refusal(f"an object of type {name} ({text})", "Create it inside the cell.")
