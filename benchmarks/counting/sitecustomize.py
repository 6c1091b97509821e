"""Python runs this at its start in processes whose requests are counted: see `older.py`."""

from __future__ import annotations

import os
import re
import sys
import time

_REQUEST = re.compile(rb"[A-Z]+ \S+")
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_PATH = os.environ["BENCHMARK_REQUESTS"]


def _count(event: str, arguments: tuple[object, ...]) -> None:
    """Write a line for each request: when, by which process, its method and its path."""
    if event != "http.client.send" or not isinstance(data := arguments[1], bytes):
        return
    request, found, _ = data.partition(b" HTTP/1.1\r\n")
    if found and _REQUEST.fullmatch(request):  # else it is a body
        file = os.open(_PATH, _FLAGS, 0o600)
        os.write(file, f"{time.time()} {os.getpid()} {request.decode()}\n".encode())
        os.close(file)


sys.addaudithook(_count)
