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
from collections.abc import Callable
from pathlib import Path

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.durable import put_in_place
from jupyter_jax_trainer.worker.pod.podchannel import PodChannel
from jupyter_jax_trainer.worker.records import ResultInfo

UID_VARIABLE = "JAXTRAIN_JOB_UID"
STORE_VARIABLE = "JAXTRAIN_RESULT_STORE"
IN_LOG = 4 << 20  # bytes
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
    digest = sha256(file)
    if size <= IN_LOG:
        send_parts(channel, file, size, digest, kind="result_part")
    else:
        url = _store(file)
        if url is None:

            def announce(port: int, seconds: float) -> None:
                channel.send("result_held", port=port, size=size, sha256=digest, seconds=seconds)
                channel.send("results", results=table)

            def lose(seconds: float) -> None:
                channel.send("result_lost", seconds=seconds)

            return Held(channel, file, size, digest, announce, lose)
        channel.send("result_stored", url=url, size=size, sha256=digest)
    channel.send("results", results=table)
    return None


def send_parts(
    channel: PodChannel, file: io.FileIO, size: int, digest: str, *, kind: str, **more: str
) -> None:
    """Send a file in the log, in messages of a kind; with each goes what else there is to say."""
    count = -(-size // _PART)
    for index in range(count):
        data = base64.b64encode(os.pread(file.fileno(), _PART, index * _PART)).decode()
        part = {"index": index, "count": count, "size": size, "sha256": digest, "data": data}
        channel.send(kind, **part, **more)


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
    """A file that waits in this pod until it is fetched through the cluster's API.

    Parameters
    ----------
    channel
        Knows the job's key.
    file, size, digest
        The file, its size and its sha256.
    announce
        Says at which port it is, and for how many seconds.
    lose
        Says that nobody has fetched it in so many seconds.
    """

    def __init__(
        self,
        channel: PodChannel,
        file: io.FileIO,
        size: int,
        digest: str,
        announce: Callable[[int, float], None],
        lose: Callable[[float], None],
    ) -> None:
        self._file = file
        self._size = size
        self._announce, self._lose = announce, lose
        self._mac = channel.sign(b"result " + digest.encode())

    def serve(self) -> bool:
        r"""Wait for those who know the job's key; tell whether the file was fetched.

        A client sends ``MAC OFFSET\n`` and gets all that follows that offset, or as often as it
        likes ``MAC OFFSET LENGTH\n`` for a piece, or ``MAC done\n``.
        """
        seconds = timeouts.RESULT_HOLD.seconds
        # A port-forward comes from within the pod.
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._announce(server.getsockname()[1], seconds)
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
        self._lose(seconds)
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


def sha256(file: io.FileIO) -> str:
    """Return the sha256 of a file in hex."""
    found = hashlib.sha256()
    file.seek(0)
    while piece := file.read(_PIECE):
        found.update(piece)
    return found.hexdigest()
