"""The compile cache in the place of jax's own, and what it has saved.

jax's own keys cover the program, the options, the version of jaxlib and the topology; the names of
our files add the version of jax, the kind of device and the features of the machine's CPU. jax has
no public hook for another cache: private names are looked up with care, and without them there is
no cache. Errors in the cache fail no job.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import inspect
import os
import platform
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.compilecache import (
    FOLDER_VARIABLE,
    OFF,
    CompileCache,
    Entry,
    bound,
)

if TYPE_CHECKING:
    from jupyter_jax_trainer.worker.pod.compilestore import CompileStore

_OF_POD_BYTES = 256 << 20  # of the pod's own disk, which may be memory
_OF_POD = "compiled"
_FUNCTIONS, _NAMED = 1_000, 10  # that are counted, and told
_PAUSE = 1.0  # seconds between two messages
_ENABLED = "jax_enable_compilation_cache"
# Small programs count, too: a job has dozens, each of which takes longer to compile than to read.
# XLA's own caches beside it are off: nothing verifies them.
_SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_persistent_cache_enable_xla_caches": "none",
}


class Meter:
    """Counts what comes from the cache, and tells it: ours, or the one that the user has set up.

    Parameters
    ----------
    channel
        Where it is told, at most once a second.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._found = threading.local()
        self._open = False
        self.problem: str | None = None
        self.store: CompileStore | None = None
        self.begin()

    def begin(self) -> None:
        """Count from zero: a cell begins."""
        with self._lock:
            self._hits = self._asked = 0
            self._saved = self._seconds = 0.0
            self._functions: dict[str, tuple[int, float]] = {}
            self._changed, self._open = False, True

    def end(self) -> None:
        """Tell what was counted last; what is compiled from now on belongs to no cell."""
        self._tell()
        self._open = False

    def listen(self) -> None:
        """Hear of each program that jax compiles or finds."""
        from jax import monitoring

        monitoring.register_event_listener(self._on_event)
        monitoring.register_event_duration_secs_listener(self._on_duration)

    def flush(self) -> None:
        """Wait a moment until what was compiled is in the store: this process ends."""
        if self.store is not None:
            self.store.flush()

    def found(self, entry: Entry) -> None:
        """Note for how long jax would compile what it is about to load."""
        self._found.seconds = entry.seconds

    def _on_event(self, event: str, **_more: object) -> None:
        if event == "/jax/compilation_cache/compile_requests_use_cache":
            self._add(asked=1)
        elif event == "/jax/compilation_cache/cache_hits":
            self._add(hits=1)

    def _on_duration(self, event: str, seconds: float, **more: object) -> None:
        if event == "/jax/compilation_cache/compile_time_saved_sec":
            # jax keeps whole seconds of the time to compile; our own entries know it better.
            known = self._found.__dict__.pop("seconds", None)
            self._found.exact = known is not None
            self._add(saved=seconds if known is None else known)
        elif event == "/jax/compilation_cache/cache_retrieval_time_sec":
            self._add(saved=-seconds if self._found.__dict__.get("exact") else 0.0)
        elif event == "/jax/core/compile/backend_compile_duration":
            name = str(more.get("fun_name", "?"))
            self._count_function(name.removeprefix("jit(").removesuffix(")"), seconds)
            self._add(seconds=seconds)

    def _count_function(self, name: str, seconds: float) -> None:
        with self._lock:
            if name in self._functions or len(self._functions) < _FUNCTIONS:
                count, total = self._functions.get(name, (0, 0.0))
                self._functions[name] = count + 1, total + seconds

    def _add(self, hits: int = 0, asked: int = 0, saved: float = 0.0, seconds: float = 0.0) -> None:
        with self._lock:
            self._hits += hits
            self._asked += asked
            self._saved += saved
            self._seconds += seconds
            self._changed = True
            if self._timer is None and self._open:
                self._timer = threading.Timer(max(_PAUSE, self._channel.interval), self._tell)
                self._timer.daemon = True
                self._timer.start()

    def _tell(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if not self._changed or not self._open:
                return
            self._changed = False
            self._channel.send(
                "compiled",
                hits=self._hits,
                misses=self._asked - self._hits,
                saved=round(max(0.0, self._saved), 3),
                seconds=round(self._seconds, 3),
                cache=_has_cache(),
                problem=self.problem or (self.store and self.store.problem),
                functions=self._longest(),
            )

    def _longest(self) -> list[dict[str, str | int | float]]:
        """Return the functions for which it took longest."""
        found = sorted(self._functions.items(), key=lambda one: -one[1][1])[:_NAMED]
        return [
            {"name": name, "count": count, "seconds": round(seconds, 3)}
            for name, (count, seconds) in found
        ]


def _has_cache() -> bool:
    """Return whether jax has a folder for what it compiles: ours, or the user's."""
    import jax

    on = getattr(jax.config, _ENABLED, True)
    return bool(on and getattr(jax.config, "jax_compilation_cache_dir", None))


class _JaxCache:
    """Our cache in the place of jax's own; as long as the setting of its folder is ours.

    Parameters
    ----------
    cache
        Ours.
    folder
        Its folder, as jax has it.
    others
        jax's function for a cache in another folder, which a cell may choose later on.
    meter
        What counts.
    store
        An object store behind the cache.
    """

    def __init__(
        self,
        cache: CompileCache,
        folder: str,
        others: Any,
        meter: Meter,
        store: CompileStore | None = None,
    ) -> None:
        self._cache, self._folder, self._others, self._meter = cache, folder, others, meter
        self._store = store
        self._path = Path(folder)
        self._since: dict[str, float] = {}
        self._chosen: tuple[str | None, Any] = (None, _Nothing)

    def get(self, key: str) -> bytes | None:
        if (other := self._other()) is not None:
            found: bytes | None = other.get(key)
            return found
        entry = None
        try:
            entry = self._cache.read(_name(key))
        except OSError as error:
            self._note(error)
        if entry is None and self._store is not None:
            entry = self._store.read(_name(key))
            if entry is not None:
                self._keep(key, entry)
        if entry is None:
            self._since[key] = time.monotonic()
            return None
        self._meter.found(entry)
        return entry.data

    def put(self, key: str, value: bytes) -> None:
        if (other := self._other()) is not None:
            other.put(key, value)
            return
        now = time.monotonic()
        entry = Entry(value, now - self._since.pop(key, now))
        self._keep(key, entry)
        if self._store is not None:
            self._store.add(_name(key), entry)

    def _keep(self, key: str, entry: Entry) -> None:
        try:
            self._cache.add(_name(key), entry)
        except OSError as error:
            self._note(error)

    def has(self, key: str) -> bool:
        """Return whether there is no need to put an entry there."""
        if self._other() is not None:
            return True
        kept = self._cache if self._store is None else self._store
        return kept.has(_name(key))

    def _note(self, error: OSError) -> None:
        if error.errno != errno.EFBIG and self._meter.problem is None:
            self._meter.problem = error.strerror or str(error)

    def _other(self) -> Any:
        """Return the cache in the folder that a cell has chosen; None where it is ours."""
        import jax

        chosen = jax.config.jax_compilation_cache_dir
        if chosen == self._folder:
            return None
        if chosen != self._chosen[0]:
            found = self._others(chosen) if chosen else None
            self._chosen = (chosen, found[0] if found else _Nothing)
        return self._chosen[1]


class _Nothing:
    """A cache that keeps nothing: a cell has turned it off."""

    @staticmethod
    def get(_key: str) -> None:
        return None

    @staticmethod
    def put(_key: str, _value: bytes) -> None:
        return None


def install(
    channel: Channel, scratch: str | None = None, store: CompileStore | None = None
) -> Meter:
    """Have jax keep what it compiles, where the environment names a folder, and count it.

    A folder that the user has given to jax stays, with jax's own cache, unless the job is to have
    none.

    Parameters
    ----------
    channel
        Where it is told what was found.
    scratch
        A folder of this pod alone, for where the environment names none.
    store
        An object store behind the cache of this pod, if there is one.

    Raises
    ------
    UsageError
        The bound of the cache is no number of bytes.
    """
    import jax

    meter = Meter(channel)
    meter.listen()
    folder, most = os.environ.get(FOLDER_VARIABLE), bound(os.environ)
    config = jax.config
    if folder == OFF:
        if hasattr(config, _ENABLED):
            config.update(_ENABLED, False)
        return meter
    if not folder and scratch:
        folder, most = str(Path(scratch, _OF_POD)), min(most, _OF_POD_BYTES)
    if not folder or not most or getattr(config, "jax_compilation_cache_dir", None):
        return meter
    meter.store = store
    with contextlib.suppress(ImportError, AttributeError):  # another jax: no cache
        _put_into_jax(CompileCache(Path(folder), most), folder, meter)
        for name, value in _SETTINGS.items():
            if name.upper() not in os.environ and hasattr(config, name):
                config.update(name, value)
        config.update("jax_compilation_cache_dir", folder)
    return meter


def _put_into_jax(cache: CompileCache, folder: str, meter: Meter) -> None:
    """Have jax ask our cache, in the place of the one that it would make for the folder."""
    from jax._src import compilation_cache, compiler

    others, write = compilation_cache.get_file_cache, compiler._cache_write
    ours = _JaxCache(cache, folder, others, meter, meter.store)

    def get_file_cache(path: str) -> Any:
        return (ours, path) if path == folder else others(path)

    named = inspect.signature(write)

    def cache_write(*args: Any, **kwargs: Any) -> None:
        """Keep what this rank compiles for itself; jax does so on rank 0 alone.

        On CPUs each rank has keys of its own.
        """
        given = named.bind(*args, **kwargs).arguments
        if _is_rank_0() or given["backend"].platform != "cpu" or given["host_callbacks"]:
            write(*args, **kwargs)
        elif not ours.has(given["cache_key"]):
            with contextlib.suppress(Exception):
                compilation_cache.put_executable_and_time(
                    given["cache_key"],
                    given["module_name"],
                    given["executable"],
                    given["backend"],
                    int(given["compile_time_secs"]),
                )

    needed = {"cache_key", "module_name", "executable", "backend", "compile_time_secs"}
    compilation_cache.get_file_cache = get_file_cache
    if {*needed, "host_callbacks"} <= named.parameters.keys():
        compiler._cache_write = cache_write


def _is_rank_0() -> bool:
    from jax._src.distributed import global_state

    return bool(global_state.process_id == 0)


def _name(key: str) -> str:
    """Return the name of the file for one of jax's keys, on devices and a machine like these."""
    return hashlib.sha256(f"{_machine()}\n{key}".encode()).hexdigest()


@functools.cache
def _machine() -> str:
    """Describe what a program was compiled for and by; called when jax has its devices."""
    import jax
    import jaxlib

    kind = jax.local_devices()[0].device_kind
    return "\n".join((jax.__version__, jaxlib.__version__, kind, *cpu_features()))


def cpu_features(path: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Return what tells this machine's CPU from others: code for one may crash on another."""
    found = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError), path.open() as lines:
        for line in lines:
            if not line.strip():
                break  # the next processor
            name = line.partition(":")[0].strip()
            if name in ("vendor_id", "cpu family", "model", "flags", "Features", "CPU part"):
                found.append(line)
    return found
