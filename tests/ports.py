"""Ports for servers that are about to start."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_BELOW = range(20_000, 29_000)  # Linux gives connections ports from 32768 on


def free_port() -> int:
    """Return a free port that no connection gets by chance before the server listens there."""
    for port in random.sample(_BELOW, 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no port is free")
