"""A compile cache in an object store, which pods have behind their own.

Whoever can write a compiled program can run code in the jobs that load it, and a store doesn't say
who has written an object. So each entry has a mac, by a key that only jobs of one user have: those
of others are never loaded. Whatever is wrong with the store fails no job, and holds up none for
long.
"""

from __future__ import annotations

import hmac
import queue
import re
import threading
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.compilecache import Entry, Seal

URL_VARIABLE = "JAXTRAIN_COMPILE_STORE"
KEY_VARIABLE = "JAXTRAIN_COMPILE_KEY"
_MAGIC = b"jaxtrain-mac-1\n\0"
_OURS = re.compile(r"[0-9a-f]{64}")
_OLD = 86_400.0  # seconds after which one that is used is written again: stores know no last use


class CompileStore:
    """Entries of one user in an object store; uploads go on in the background.

    Parameters
    ----------
    url
        The folder, in the words of fsspec: ``s3://bucket/folder``.
    key
        The user's key for entries.
    most
        Bytes of all; the oldest ones go first.

    Attributes
    ----------
    problem
        What is wrong with the store, which is not used from then on.
    """

    def __init__(self, url: str, key: bytes, most: int) -> None:
        self._url, self._most = url, most
        self._seal = Seal(_MAGIC, lambda: hmac.new(key, digestmod="sha256"))
        self.problem: str | None = None
        self._listed = threading.Event()
        self._there: dict[str, tuple[float, int]] = {}  # when it was written, and bytes
        self._waiting: queue.Queue[tuple[str, bytes]] = queue.Queue()
        threading.Thread(target=self._run, name="jaxtrain-compilestore", daemon=True).start()

    def read(self, name: str) -> Entry | None:
        """Return an entry; None where there is none of this user, or the store does not answer."""
        known = self._there.get(name) if self._is_listed() else None
        if known is None or known[1] > self._most:
            return None
        found: list[bytes] = []
        reader = threading.Thread(
            target=self._try, args=(lambda: found.append(self._fetch(name)),), daemon=True
        )
        reader.start()
        reader.join(timeouts.STORE.seconds)
        if reader.is_alive():
            self._fail(say.STORE_SILENT(seconds=f"{timeouts.STORE.seconds:g}"))
        entry = self._seal.unpack(name, found[0]) if found else None
        if entry is None:
            self._there.pop(name, None)
        elif time.time() - known[0] > _OLD:
            self.add(name, entry)
        return entry

    def has(self, name: str) -> bool:
        """Return whether there is an object of that name, not known to be somebody else's."""
        return self._is_listed() and name in self._there

    def add(self, name: str, entry: Entry) -> None:
        """Have an entry written soon."""
        if self.problem is None:
            self._waiting.put((name, self._seal.pack(name, entry)))

    def flush(self) -> None:
        """Wait until all is written, for as long as the store may take to answer."""
        end = time.monotonic() + timeouts.STORE.seconds
        while self._waiting.unfinished_tasks and self.problem is None and time.monotonic() < end:
            time.sleep(0.01)

    def _is_listed(self) -> bool:
        """Wait until it is known what is there; tell whether it is."""
        if self.problem is None and not self._listed.wait(timeouts.STORE.seconds):
            self._fail(say.STORE_SILENT(seconds=f"{timeouts.STORE.seconds:g}"))
        return self.problem is None

    def _run(self) -> None:
        self._try(self._list)
        self._listed.set()
        while self.problem is None:
            name, data = self._waiting.get()
            self._try(partial(self._write, name, data))
            self._waiting.task_done()

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ImportError as error:
            self._fail(say.STORE_LACKS_PACKAGE(error=error))
        except Exception as error:  # of whatever library talks to the store
            from jupyter_jax_trainer import masking  # a pod starts without it

            self._fail(masking.text(f"{type(error).__name__}: {error}"))

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _list(self) -> None:
        import fsspec  # type: ignore[import-untyped,unused-ignore]

        self._system, self._path = fsspec.core.url_to_fs(self._url)
        try:
            found = self._system.ls(self._path, detail=True)
        except FileNotFoundError:
            self._system.makedirs(self._path, exist_ok=True)
            return
        for one in found:
            name = str(one["name"]).rstrip("/").rpartition("/")[2]
            if _OURS.fullmatch(name):
                self._there[name] = _written(one), int(one.get("size") or 0)

    def _fetch(self, name: str) -> bytes:
        data: bytes = self._system.cat_file(f"{self._path}/{name}")
        return data

    def _write(self, name: str, data: bytes) -> None:
        if len(data) > self._most:
            return
        self._make_room(len(data))
        self._system.pipe_file(f"{self._path}/{name}", data)
        self._there[name] = time.time(), len(data)

    def _make_room(self, size: int) -> None:
        """Remove the oldest, so that a tenth is free, where there is no room."""
        total = size + sum(length for _, length in self._there.values())
        if total <= self._most:
            return
        for name, (_, length) in sorted(self._there.items(), key=lambda one: one[1][0]):
            if total <= self._most * 9 // 10:
                break
            del self._there[name]
            total -= length
            try:
                self._system.rm_file(f"{self._path}/{name}")
            except FileNotFoundError:  # another pod has removed it
                continue


def _written(info: dict[str, Any]) -> float:
    """Return when an object was written, as far as its store says so."""
    for word in ("LastModified", "last_modified", "updated", "mtime", "created"):
        value = info.get(word)
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value.replace("Z", "+00:00"))
            except ValueError:
                continue
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, (int, float)):
            return float(value)
    return 0.0
