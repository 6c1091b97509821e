"""The way of the results out of a pod: through the log, into a store, or held until fetched."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import io
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.durable import put_in_place
from jupyter_jax_trainer.worker.pod.podchannel import PodChannel
from jupyter_jax_trainer.worker.records import ResultInfo

UID_VARIABLE = "JAXTRAIN_JOB_UID"
STORE_VARIABLE = "JAXTRAIN_RESULT_STORE"
_IN_LOG = 4 << 20  # bytes
_PART = 5_400  # bytes of one message: they make two full frames
_PIECE = 1 << 20


def open_file() -> io.FileIO:
    """Open a nameless file for the results, in memory where no directory can be written."""
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError:
        return io.FileIO(os.memfd_create("jaxtrain-results"), "r+")


def deliver(channel: PodChannel, file: io.FileIO, table: list[ResultInfo]) -> Held | None:
    """Send the results, small ones in the log, large ones into the store if there is one.

    Parameters
    ----------
    channel
        Where the messages go.
    file
        The archive.
    table
        What is in it.

    Returns
    -------
    Held or None
        Results that have to be fetched from this pod.
    """
    size = file.seek(0, os.SEEK_END)
    digest = _sha256(file)
    if size <= _IN_LOG:
        _send_parts(channel, file, size, digest)
    else:
        url = _store(file)
        if url is None:
            return Held(channel, file, table, size, digest)
        channel.send("result_stored", url=url, size=size, sha256=digest)
    channel.send("results", results=table)
    return None


def _send_parts(channel: PodChannel, file: io.FileIO, size: int, digest: str) -> None:
    count = -(-size // _PART)
    for index in range(count):
        data = base64.b64encode(os.pread(file.fileno(), _PART, index * _PART)).decode()
        channel.send("result_part", index=index, count=count, size=size, sha256=digest, data=data)


def _store(file: io.FileIO) -> str | None:
    """Copy the archive into the store, and say where; None where that is not possible."""
    store = os.environ.get(STORE_VARIABLE)
    if not store:
        return None
    url = f"{store.rstrip('/')}/{os.environ.get(UID_VARIABLE, 'job')}/result.jtz"
    shown = masking.text(url)
    file.seek(0)
    try:
        if "://" in url:
            import fsspec  # type: ignore[import-untyped,unused-ignore]

            system, path = fsspec.core.url_to_fs(url)
            system.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            with system.open(path, "wb") as target:
                shutil.copyfileobj(file, target, _PIECE)
        else:
            place = Path(url)
            place.parent.mkdir(parents=True, exist_ok=True)
            part = place.with_name(place.name + ".part")
            with part.open("wb") as target:
                shutil.copyfileobj(file, target, _PIECE)
            put_in_place(part, place)  # the pod goes once this has been said
    except ImportError as error:
        print(say.STORE_NEEDS_PACKAGE(url=shown, error=error))
    except Exception as error:  # of whatever library talks to the store
        said = masking.text(f"{type(error).__name__}: {error}")
        print(say.STORE_FAILED(url=shown, error=said))
    else:
        return url
    return None


class Held:
    """Results that wait in this pod until they are fetched through the cluster's API.

    Parameters
    ----------
    channel
        Where the messages go.
    file, table
        The archive, and what is in it.
    size, digest
        The archive's size and sha256.
    """

    def __init__(
        self,
        channel: PodChannel,
        file: io.FileIO,
        table: list[ResultInfo],
        size: int,
        digest: str,
    ) -> None:
        self._channel = channel
        self._file = file
        self._table = table
        self._size = size
        self._digest = digest
        self._mac = channel.sign(b"result " + digest.encode())

    def serve(self) -> bool:
        r"""Wait for those who know the job's key; tell whether the results were fetched.

        A client sends ``MAC OFFSET\n`` and gets all that follows that offset, or as often as it
        likes ``MAC OFFSET LENGTH\n`` for a piece, or ``MAC done\n``.
        """
        seconds = timeouts.RESULT_HOLD.seconds
        # A port-forward comes from within the pod.
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._channel.send(
                "result_held",
                port=server.getsockname()[1],
                size=self._size,
                sha256=self._digest,
                seconds=seconds,
            )
            self._channel.send("results", results=self._table)
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                server.settimeout(left)
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        connection.settimeout(timeouts.TRANSFER.seconds)
                        while wish := self._read_wish(connection):
                            if wish == "done":
                                return True
                            if not self._give(connection, *wish.split(" ")):
                                break
                            until = max(until, time.monotonic() + timeouts.RECONNECT.seconds)
        self._channel.send("result_lost", seconds=seconds)
        return False

    def _give(self, connection: socket.socket, offset: str, length: str = "", *_: str) -> bool:
        """Send what is wanted; tell whether the client may want more."""
        if not offset.isdecimal() or int(offset) > self._size:
            return False
        if not length.isdecimal() or not int(length):
            connection.sendfile(self._file, int(offset))
            return False
        connection.sendfile(self._file, int(offset), int(length))
        return True

    def _read_wish(self, connection: socket.socket) -> str:
        """Read what a client wants; nothing where it doesn't know the key."""
        line = b""
        while not line.endswith(b"\n") and len(line) < 200:
            data = connection.recv(200 - len(line))
            if not data:
                break
            line += data
        mac, _, wish = line.strip().partition(b" ")
        return wish.decode("ascii", "replace") if hmac.compare_digest(mac, self._mac) else ""


def _sha256(file: io.FileIO) -> str:
    found = hashlib.sha256()
    file.seek(0)
    while piece := file.read(_PIECE):
        found.update(piece)
    return found.hexdigest()
