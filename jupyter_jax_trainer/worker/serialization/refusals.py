"""What cannot travel between processes, said in the user's terms.

Types are recognised by name, so nothing has to be imported to be refused.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from typing import Any

from jupyter_jax_trainer.messages import Message, Text
from jupyter_jax_trainer.messages import worker as say


class CannotTravel(pickle.PicklingError):
    """An object that must not be pickled was met; `culprit` is that object."""

    def __init__(self, what: Text, culprit: Any) -> None:
        super().__init__(what)
        self.what = what
        self.culprit = culprit


# (top-level package, name of a class in the type's mro) → what it is
_CLASSES: dict[tuple[str, str], Message] = {
    ("jax", "Mesh"): say.MESH,
    ("jax", "Sharding"): say.SHARDING,
    ("jax", "Device"): say.DEVICE,
    ("jax", "Client"): say.JAX_BACKEND,
    ("jax", "Tracer"): say.TRACER,
    ("jax", "Compiled"): say.COMPILED,
    ("jax", "Lowered"): say.LOWERED,
    ("jax", "Traced"): say.TRACED,
    ("jax", "LoadedExecutable"): say.COMPILED,
    ("_thread", "lock"): say.LOCK,
    ("_thread", "RLock"): say.LOCK,
    ("_thread", "_local"): say.THREAD_LOCAL,
    ("threading", "Thread"): say.THREAD,
    ("threading", "Condition"): say.CONDITION,
    ("threading", "Event"): say.EVENT,
    ("threading", "Semaphore"): say.SEMAPHORE,
    ("threading", "Barrier"): say.BARRIER,
    ("queue", "Queue"): say.QUEUE,
    ("_queue", "SimpleQueue"): say.QUEUE,
    ("concurrent", "Executor"): say.EXECUTOR,
    ("concurrent", "Future"): say.FUTURE,
    ("asyncio", "Future"): say.ASYNCIO_FUTURE,
    ("_asyncio", "Future"): say.ASYNCIO_FUTURE,
    ("asyncio", "AbstractEventLoop"): say.EVENT_LOOP,
    ("subprocess", "Popen"): say.PROCESS,
    ("_socket", "socket"): say.SOCKET,
    ("ssl", "SSLContext"): say.SSL_CONTEXT,
    ("sqlite3", "Connection"): say.DATABASE,
    ("sqlite3", "Cursor"): say.DATABASE_CURSOR,
    ("mmap", "mmap"): say.MAPPED_FILE,
    ("IPython", "InteractiveShell"): say.SHELL,
    ("IPython", "HistoryManager"): say.HISTORY,
    ("jupyter_jax_trainer", "Job"): say.JOB,
}

_TYPES: list[tuple[type | tuple[type, ...], Message]] = [
    ((types.GeneratorType, types.AsyncGeneratorType), say.GENERATOR),
    (types.CoroutineType, say.COROUTINE),
    (types.FrameType, say.FRAME),
    (types.TracebackType, say.TRACEBACK),
    (
        (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper),
        say.OPEN_FILE,
    ),
]


def refusal_for(value: Any) -> Text | None:
    """Return why `value` itself can't travel, or None."""
    cls = type(value)
    if issubclass(cls, type):
        return None
    for base in cls.__mro__:
        package = base.__module__.partition(".")[0] if isinstance(base.__module__, str) else ""
        refusal = _CLASSES.get(("jax" if package == "jaxlib" else package, base.__name__))
        if refusal is not None:
            return refusal()
        if package == "multiprocessing" and base.__name__ != "AuthenticationString":
            return say.MULTIPROCESSING(type=cls.__name__)
    for kinds, refusal in _TYPES:
        if isinstance(value, kinds) and value not in (sys.stdout, sys.stderr):
            return refusal()
    return None


def explain(error: BaseException, culprit: Any) -> tuple[Text, str]:
    """Put an error of the pickling itself in the same form: what can't travel, and the way out."""
    what = _explained(error, culprit)
    return what, what.hint or ""


def _explained(error: BaseException, culprit: Any) -> Text:
    if isinstance(error, CannotTravel):
        return error.what
    if isinstance(error, RecursionError) or "recursion" in str(error):
        return say.TOO_DEEP()
    cls = type(culprit)
    name = cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
    text = str(error).rstrip(".") or type(error).__name__
    return say.CANNOT_PICKLE(type=name, error=text)
