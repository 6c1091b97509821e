"""The programs that a rank compiles: which one now, and those that it runs together with others.

jax has no public place to learn of either: what is private here is looked up with care, and where
it is missing nothing is known. Whatever is wrong with it fails no job.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.records import PROGRAMS


class Programs:
    """Tells of each program that several processes run, before it is compiled.

    Such programs run in the same order on all of these processes, or they hang. What a rank
    compiles for itself alone is its own business.

    Parameters
    ----------
    channel
        Where it is told.
    place
        Gives the label of the cell, and the line that the main thread is at.
    """

    def __init__(self, channel: Channel, place: Callable[[], tuple[str, int | None]]) -> None:
        self._channel, self._place = channel, place
        self._lock = threading.Lock()
        self._current: dict[int, str] = {}
        self._known: dict[tuple[int, ...], dict[str, None]] = {}

    def current(self) -> str | None:
        """Return the function that the main thread compiles; None for none."""
        return self._current.get(threading.main_thread().ident or 0)

    def watch(self) -> None:
        """Hear of programs from now on."""
        with contextlib.suppress(ImportError, AttributeError, ValueError):  # another jax
            from jax._src import compiler

            compile_it = compiler.compile_or_get_cached
            named = inspect.signature(compile_it)
            if not {"computation", "devices"} <= named.parameters.keys():
                return

            def compile_or_get_cached(*args: Any, **kwargs: Any) -> Any:
                given = named.bind(*args, **kwargs).arguments
                thread, name = threading.get_ident(), "?"
                with contextlib.suppress(Exception):
                    name = _name(given["computation"])
                before = self._current.get(thread)
                self._current[thread] = name
                try:
                    with contextlib.suppress(Exception):
                        self._note(name, given["computation"], given["devices"])
                    return compile_it(*args, **kwargs)
                finally:
                    self._current.pop(thread, None)
                    if before is not None:
                        self._current[thread] = before

            compiler.compile_or_get_cached = compile_or_get_cached

    def _note(self, name: str, module: Any, devices: Any) -> None:
        """Tell of a program, if others run it, too, and it is new."""
        ranks = _processes(devices)
        if len(ranks) < 2:
            return
        digest = _digest(module)
        with self._lock:
            known = self._known.setdefault(ranks, {})
            if digest in known or len(known) >= PROGRAMS:
                return
            number = len(known)
            known[digest] = None
        cell, line = self._place()
        self._channel.send(
            "program",
            ranks=ranks,
            number=number,
            runs=not _is_ahead_of_time(),
            name=name,
            digest=digest,
            cell=cell,
            cell_line=line,
        )


def _processes(devices: Any) -> tuple[int, ...]:
    """Return the processes that have some devices."""
    return tuple(sorted({device.process_index for device in devices.flat}))


def _name(module: Any) -> str:
    """Return the function that became a module: ``step`` of ``jit_step``."""
    found: str = module.operation.attributes["sym_name"].value
    return found.removeprefix("jit_")


def _digest(module: Any) -> str:
    """Hash a module without where its operations come from, and without pointers to callbacks."""
    from jax._src import cache_key

    data: bytes = cache_key._canonicalize_ir(module, cache_key.IgnoreCallbacks.ALL)
    return hashlib.sha256(data).hexdigest()[:16]


def _is_ahead_of_time() -> bool:
    """Return whether the user compiles without running it: a rank may do so by itself."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "compile" and code.co_filename.endswith("jax/_src/stages.py"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
