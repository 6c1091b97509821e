"""While a cell waits, the kernel's main thread takes no messages; buttons of our views need it to.

JupyterLab sends a widget's messages past a busy cell (by subshells); other front ends don't. So
whoever waits in the main thread takes our widgets' messages out of the kernel's queue, and lets
all others through in their order. That needs parts of ipykernel that are not public: where they
are missing, messages wait until the cell has ended.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection
from typing import Any

_DELIMITER = b"<IDS|MSG>"


class Serving:
    """Serves our widgets' messages in the main thread.

    Parameters
    ----------
    kernel
        The IPython kernel.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._stream: Any = None
        if threading.current_thread() is threading.main_thread():
            with contextlib.suppress(AttributeError):
                thread = getattr(kernel, "shell_channel_thread", None)
                # ipykernel 7 hands the main thread's messages over by a pair of sockets.
                stream = (
                    thread.manager._shell_channel_to_main.to_stream
                    if thread
                    else (kernel.shell_stream)
                )
                if callable(stream._recv_callback) and callable(stream._run_callback):
                    self._stream = stream

    def serve(self, comms: Collection[str]) -> None:
        """Work off what has come.

        Parameters
        ----------
        comms
            The ids of our widgets' comms.
        """
        if self._stream is None:
            return
        from zmq.constants import Flag
        from zmq.error import Again

        while True:
            try:
                frames = self._stream.socket.recv_multipart(Flag.DONTWAIT, copy=False)
            except Again:
                return
            if not self._is_ours(frames, comms):
                # It only queues them: they are worked off when the cell has ended.
                self._stream._run_callback(self._stream._recv_callback, frames)
                continue
            idents, rest = self._kernel.session.feed_identities(frames, copy=False)
            message = self._kernel.session.deserialize(rest, copy=False)
            self._kernel.comm_manager.comm_msg(self._stream, idents, message)

    def _is_ours(self, frames: list[Any], comms: Collection[str]) -> bool:
        """Look at a message without taking it in: a signature counts only once."""
        with contextlib.suppress(ValueError, LookupError, TypeError):
            parts = [frame.bytes for frame in frames]
            _, header, _, _, content = parts[parts.index(_DELIMITER) + 1 :][:5]
            unpack = self._kernel.session.unpack
            return unpack(header)["msg_type"] == "comm_msg" and unpack(content)["comm_id"] in comms
        return False
