"""Read a response's body as it comes: a few bytes at once, and many in one piece.

An API server sends each log line as a chunk of its own. urllib3's ``stream`` gives them one by one,
at several times the cost of all else; so the chunks are taken apart here, from the buffered socket
below. Where that can't be had, ``stream`` does.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from jupyter_jax_trainer.messages import cluster as say

PIECE = 64 << 10
_SIZE_LINE = 1024  # bytes that the line before a chunk may have


class BodyCutError(Exception):
    """The connection ended before the body did."""


def pieces(response: Any) -> Iterator[bytes]:
    """Return the body of an urllib3 response as it comes, until its regular end.

    Raises
    ------
    BodyCutError, OSError, urllib3.exceptions.HTTPError
        It was cut off; or silence, for longer than the timeout.
    """
    file = _file(response)
    plain = not response.headers.get("Content-Encoding")
    chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
    if plain and chunked and hasattr(file, "read1"):
        return _dechunked(partial(_read, file))
    return iter(response.stream(PIECE, decode_content=True))


def interrupt(response: Any) -> None:
    """Make a read that waits in another thread return."""
    sock = getattr(getattr(_file(response), "raw", None), "_sock", None)
    if sock is None:
        sock = getattr(getattr(response, "connection", None), "sock", None)
    if sock is not None:
        with contextlib.suppress(OSError):
            # Not SSLSocket's own, which takes its state away from the thread that reads.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _file(response: Any) -> Any:
    """Return the buffered socket from which http.client reads the body."""
    return getattr(getattr(response, "_fp", None), "fp", None)


def _read(file: Any, most: int) -> bytes:
    """Read what there is, waiting for the first of it.

    Over TLS one read gives one record, and an API server makes a record of each line.
    """
    data = file.read1(most)
    sock = getattr(file.raw, "_sock", None)
    if sock is None or not data or len(data) == most:
        return bytes(data)
    ready = select.poll()
    ready.register(sock, select.POLLIN)
    found, count = [data], len(data)
    while data and count < most and (_decrypted(sock) or ready.poll(0)):
        data = file.read1(most - count)  # at the end nothing; the next read finds that again
        found.append(data)
        count += len(data)
    return b"".join(found)


def _decrypted(sock: Any) -> bool:
    """Return whether a TLS connection has bytes ready that the kernel knows nothing of."""
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0


def _dechunked(read: Callable[[int], bytes]) -> Iterator[bytes]:
    left = 0  # bytes to come of the chunk, with its end of line
    rest = b""
    while True:
        data = read(PIECE)
        if not data:
            raise BodyCutError(say.CUT_OFF())
        if rest:
            data = rest + data
        found = []
        at, size = 0, len(data)
        ended = False
        while at < size:
            if left:
                # The last two bytes of what is left end the line.
                found.append(data[at : max(at, min(size, at + left - 2))])
                taken = min(left, size - at)
                left -= taken
                at += taken
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            try:  # here, not in a function: there may be a chunk for each line
                length = int(data[at:end], 16)
            except ValueError:
                length = _length(data[at:end])
            if length <= 0:
                if length < 0:
                    raise BodyCutError(say.BODY_DAMAGED())
                ended = True
                break
            start = end + 2
            at = start + length + 2
            if at <= size:  # nearly always
                found.append(data[start : at - 2])
            else:
                at, left = start, length + 2
        rest = b"" if ended else data[at:]
        if len(rest) > _SIZE_LINE:
            raise BodyCutError(say.BODY_DAMAGED())
        if piece := b"".join(found):
            yield piece
        if ended:
            return


def _length(line: bytes) -> int:
    """Read the line before a chunk that holds more than a number."""
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise BodyCutError(say.BODY_DAMAGED()) from None
