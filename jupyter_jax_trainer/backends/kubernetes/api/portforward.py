"""One port of a pod, through a WebSocket of the API.

The official client's end of it takes a thread and a dozen copies of each byte, and masks them as
one long number: five seconds of a core for each GB. This one takes less than one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from typing import Any

_DATA, _ERROR = 0, 1  # channels: each message begins with the one that it belongs to
_MOST = 1 << 17  # bytes of one message: more do not fit into a core's own cache
_MASKED_ALONE = 1 << 12  # bytes that need no numpy
_FINAL_BINARY = 0x82
_MASKED = 0x80


class PortForward:
    """The end here of a connection to a port, for one thread; the part of a socket that we use.

    Parameters
    ----------
    websocket
        An open one, of the ``websocket-client`` package.

    Attributes
    ----------
    error
        What the node says, if it could not connect to the port.
    """

    def __init__(self, websocket: Any) -> None:
        self.error = ""
        self._websocket = websocket
        self._unread = memoryview(b"")
        self._begun: set[int] = set()  # channels
        self.settimeout(None)

    def settimeout(self, seconds: float | None) -> None:
        """Set for how long to wait for anything; None waits for ever."""
        self._websocket.settimeout(seconds)

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it.

        Raises
        ------
        OSError
            The connection was cut, or took nothing for too long.
        """
        whole = memoryview(data)
        for at in range(0, len(whole), _MOST):
            if self._websocket.sock is None:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            self._websocket.sock.sendall(_message(whole[at : at + _MOST]))

    def recv(self, most: int) -> bytes:
        """Return what comes next; nothing where the connection has ended.

        Raises
        ------
        OSError
            The connection was cut, or nothing came for too long.
        """
        while not self._unread and not self.error:
            if not self._receive():
                break
        data, self._unread = self._unread[:most], self._unread[most:]
        return bytes(data)

    def close(self) -> None:
        """Say that it ends, and close the connection."""
        with contextlib.suppress(Exception):
            self.settimeout(0)  # it waits for nobody
            self._websocket.send_close()
        self._websocket.shutdown()

    def _receive(self) -> bool:
        """Take a message; return whether another one may come."""
        from websocket import (
            ABNF,
            WebSocketConnectionClosedException,
            WebSocketException,
            WebSocketTimeoutException,
        )

        try:
            kind, message = self._websocket.recv_data_frame()
        except WebSocketTimeoutException as error:
            raise TimeoutError(str(error)) from None
        except WebSocketConnectionClosedException:
            return False
        except WebSocketException as error:
            raise OSError(str(error)) from None
        if kind != ABNF.OPCODE_BINARY or not message.data:
            return False
        channel, data = message.data[0], memoryview(message.data)[1:]
        if channel not in self._begun:  # the first message of each says the port again
            self._begun.add(channel)
        elif channel == _DATA:
            self._unread = data
        elif channel == _ERROR:
            self.error += bytes(data).decode(errors="replace")
        return True


def _message(data: memoryview) -> bytes | memoryview:
    """Return a WebSocket frame with data for the port, masked with a random key.

    Masking is for proxies that take what they pass on for HTTP.
    """
    size, key = 1 + len(data), os.urandom(4)
    if size < 126:
        head = struct.pack(">BB", _FINAL_BINARY, _MASKED | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", _FINAL_BINARY, _MASKED | 126, size)
    else:
        head = struct.pack(">BBQ", _FINAL_BINARY, _MASKED | 127, size)
    start = b"".join((head, key, bytes([_DATA ^ key[0]])))
    turned = key[1:] + key[:1]  # the first byte is that of the channel
    if size > _MASKED_ALONE:
        with contextlib.suppress(ImportError):
            return _masked(start, data, turned)
    from websocket import ABNF

    return start + bytes(ABNF.mask(turned, bytes(data)))


def _masked(start: bytes, data: memoryview, key: bytes) -> memoryview:
    """Return what comes first and then data xor a key, which is the only copy of it."""
    import numpy as np

    before = len(start) + -len(start) % 4  # numpy is slow with words at odd places
    whole: Any = np.empty(before // 4 + (len(data) + 3) // 4, np.uint32)
    words, found = len(data) // 4, memoryview(whole).cast("B")
    found[before - len(start) : before] = start
    mask = np.frombuffer(key, np.uint32)
    given = np.frombuffer(data, np.uint32, words)
    np.bitwise_xor(given, mask, out=whole[before // 4 :][:words])
    rest = bytes(byte ^ one for byte, one in zip(data[4 * words :], key, strict=False))
    end = before + len(data)
    found[end - len(rest) : end] = rest
    return found[before - len(start) : end]
