"""Bring results back: out of the log's messages, from a store, or from the pod that holds them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.logs.messages import File, Part
from jupyter_jax_trainer.backends.kubernetes.submit import payload
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.files import LineReader, LineWriter
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import ResultInfo
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.text import size
from jupyter_jax_trainer.trust import policy
from jupyter_jax_trainer.worker.durable import put_in_place, sync_folder, write_all

RESULT = "result.jtz"  # in a job's folder of a store
_PIECE = 1 << 20
_PAUSE = 1.0  # seconds between tries
_MOST_OF_OTHERS = 16 << 30  # bytes


class Held(File):
    """The results that a rank holds: by whom, and from which moment on, for so many seconds."""

    rank: int
    port: int
    seconds: float
    since: float


def _parts(directory: JobDir) -> Path:
    return directory.path / "result.parts"


def add_part(directory: JobDir, part: Part) -> None:
    """Keep a part of the results that came with the log; the same one may come twice."""
    LineWriter(_parts(directory)).write(part)


def settle(directory: JobDir, table: list[ResultInfo], stored: File | None) -> list[ResultInfo]:
    """Put the result file together, and say in the table what did not come.

    Parameters
    ----------
    table
        What the job said it sends.
    stored
        What the job said of its file in the store, if it is there.
    """
    problem = None
    if not directory.result.exists() and any("error" not in entry for entry in table):
        try:
            if stored is not None:
                _from_store(directory, stored)
            else:
                _from_parts(directory)
        except (JaxTrainError, OSError, LookupError, ValueError, TypeError) as error:
            problem = str(error) or type(error).__name__
    _parts(directory).unlink(missing_ok=True)
    if problem is None:
        return table
    return [
        entry
        if "error" in entry
        else {"name": entry["name"], "error": say.NOT_BACK(name=entry["name"], reason=problem)}
        for entry in table
    ]


def _from_parts(directory: JobDir) -> None:
    parts = {line["index"]: line for line in LineReader[Part](_parts(directory)).read()}
    if not parts:
        if not policy.standing(directory, directory.read_manifest()).complete:
            raise ValueError(say.UNTRUSTED())
        raise ValueError(say.NEVER_SENT())
    first = next(iter(parts.values()))
    missing = sorted(set(range(first["count"])) - parts.keys())
    if missing:
        raise ValueError(say.PARTS_MISSING(missing=len(missing), count=first["count"]))
    data = b"".join(base64.b64decode(parts[n]["data"]) for n in range(first["count"]))
    _write(directory, data, first)


def _from_store(directory: JobDir, stored: File) -> None:
    """Read the results from where the job's own options say; what a message says is not read."""
    manifest = directory.read_manifest()
    store = manifest["spec"].get("store")
    if not store or not policy.standing(directory, manifest).mine:
        raise ValueError(say.NOT_YOUR_STORE())
    _write(directory, payload.read(payload.url_of(store, manifest["uid"], RESULT)), stored)


def _write(directory: JobDir, data: bytes, expected: File) -> None:
    if len(data) != expected["size"] or hashlib.sha256(data).hexdigest() != expected["sha256"]:
        raise ValueError(say.DAMAGED())
    part = directory.result.with_name(f"{directory.result.name}.{os.getpid()}.part")
    part.touch(mode=0o600)
    part.write_bytes(data)
    put_in_place(part, directory.result)


class Fetch(threading.Thread):
    """Fetches what a pod holds, such as the results of rank 0, which waits for that.

    Parameters
    ----------
    client, pod
        Where they are.
    held
        What the worker said.
    key
        The job's key, with which we show that we may have them.
    target
        Where they go: a file in a job's directory.
    problem
        Called with a sentence when it can't be done.
    mine
        Whether the user submitted the job. Somebody else's pod is not told that it may go: whoever
        submitted it may not have the results yet.
    on_taken
        Called when it is here, before the pod is told that it may go.
    on_end
        Called when nothing more is done.

    Attributes
    ----------
    doing, trouble
        What is done, and what keeps from it, in plain words.
    """

    def __init__(
        self,
        client: Client,
        pod: str,
        held: Held,
        key: str,
        target: Path,
        problem: Callable[[str], None],
        *,
        mine: bool,
        on_taken: Callable[[], object] = lambda: None,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name=f"fetch-{pod}", daemon=True)
        self._client = client
        self._pod = pod
        self._held = held
        self._mac = hmac.new(
            key.encode(), b"result " + held["sha256"].encode(), hashlib.sha256
        ).hexdigest()
        self._target = target
        self._on_taken, self._on_end = on_taken, on_end
        self._problem = problem
        self._mine = mine
        self.doing: str = say.FETCHING()
        self.trouble: str | None = None
        self._hopeless = False

    def give_up(self) -> None:
        """Try no more once a try has failed: the pod has ended."""
        self._hopeless = True

    def run(self) -> None:
        """Try until it is here or the time is over, going on where the last try stopped."""
        try:
            self._run()
        finally:
            self._on_end()

    def _run(self) -> None:
        if self._target.exists():  # a follower before this one has not said so
            sync_folder(self._target.parent)
            self._on_taken()
            self._let_go()
            return
        if not self._mine and self._held["size"] > _MOST_OF_OTHERS:
            self._note(say.TOO_LARGE(size=size(self._held["size"]), most=size(_MOST_OF_OTHERS)))
            return
        part = self._target.with_name(f"{self._target.stem}.fetched.part")
        until = self._held["since"] + self._held["seconds"]
        while time.time() < until and not (self._hopeless and self.trouble):
            try:
                self._more(part)
                self._take(part)
                self._on_taken()
                self._let_go()
                return
            except ApiError as error:
                right = f"{error.verb} {error.resource}"
                words: str = (
                    say.NO_FETCH_RIGHT(right=right)
                    if error.status == 403
                    else say.FETCH_REFUSED(right=right, error=error.message)
                )
                if error.status == 404:
                    return
            except ValueError as error:
                part.unlink(missing_ok=True)
                words = str(error)
            except (Unreachable, OSError) as error:
                words = say.FETCH_FAILED(error=error)
            self._note(words)
            time.sleep(_PAUSE)

    def _note(self, words: str) -> None:
        if words != self.trouble:
            self.trouble = words
            self._problem(words)

    def _more(self, part: Path) -> None:
        """Fetch what is not there yet."""
        have = part.stat().st_size if part.exists() else 0
        if have >= self._held["size"]:
            return
        left, free = self._held["size"] - have, shutil.disk_usage(self._target.parent).free
        if 0 < free < left:  # rather than fill the disk, and with it every other job's directory
            raise OSError(say.NO_ROOM(needed=size(left), free=size(free)))
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, file)
            end = stack.enter_context(self._client.forward(self._pod, self._held["port"]))
            end.settimeout(timeouts.TRANSFER.seconds)
            # In pieces, after which the pod does not end the connection: an end may overtake what
            # is on its way.
            while left := min(_PIECE, self._held["size"] - have):
                end.sendall(f"{self._mac} {have} {left}\n".encode())
                have += left
                while left:
                    data = end.recv(left)
                    if not data:
                        raise OSError(say.POD_CUT_OFF())
                    write_all(file, data)
                    left -= len(data)

    def _take(self, part: Path) -> None:
        """Check what was fetched, and put it in place durably: the pod ends after that."""
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != self._held["sha256"]:
            raise ValueError(say.DAMAGED())
        put_in_place(part, self._target)

    def _let_go(self) -> None:
        """Tell a pod of the user's own that it may go."""
        self.trouble = None
        if not self._mine:
            self.doing = say.FETCHED_FOR_OTHERS()
            return
        with (
            contextlib.suppress(Exception),
            self._client.forward(self._pod, self._held["port"]) as end,
        ):
            end.settimeout(timeouts.TRANSFER.seconds)
            end.sendall(f"{self._mac} done\n".encode())
            end.recv(1)
