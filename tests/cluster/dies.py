"""Submit a cell again and again, each time killed a step later: ``dies.py LINE``.

A step is a request, or a part of one; a file of the job store that is opened for writing, renamed
or removed; or a program that is started. Each job has its step's number in its name. One line is
printed for each: the number, and what the submitter was about to do. The last one lives.
"""

from __future__ import annotations

import http.client
import math
import os
import signal
import sys
import threading
import types
from pathlib import Path
from typing import Any

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.jobdir import layout, store
from jupyter_jax_trainer.options.spec import parse_cell_line

CELL = "print('begins')"


def step(event: str, arguments: tuple[Any, ...], store: str) -> str | None:
    """Return what is about to be done; None if it is no step."""
    if event == "http.client.send":
        return f"send {bytes(arguments[1])[:150]!r}"
    if event == "answer":
        return "wait for the answer"
    if event == "subprocess.Popen":
        return f"start {arguments[0]}"
    if event == "open":
        path, _, flags = arguments
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        return f"write {path}" if writes and str(path).startswith(store) else None
    if event in ("os.rename", "os.remove") and str(arguments[0]).startswith(store):
        return f"{event} {arguments[0]}"
    return None


def submit(line: str, number: int) -> None:
    """Submit the cell, and die before a step."""
    root, count, name = str(store.home()), 0, f"dies-{number:03}"

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        found = step(event, arguments, root) if counting else None
        if found is None:
            return
        count += 1
        if count > number:
            os.write(1, f"{number} {found}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    answer = http.client.HTTPConnection.getresponse

    def wait_for_answer(connection: Any) -> Any:
        look("answer", ())
        return answer(connection)

    http.client.HTTPConnection.getresponse = wait_for_answer
    # So that each has the same steps; a follower without the lock leaves at once.
    launch.has_follower = lambda cluster: False
    launch.locks = types.SimpleNamespace(try_lock=lambda lock: True)
    layout._FRESH = math.inf  # what those before have left is not looked at
    counting = False
    sys.addaudithook(look)
    spec = parse_cell_line(f"{name} {line}")
    found, plan = api.prepare(spec)  # nothing is made by this
    capture = capture_cell(CELL, {})
    counting = True
    api.submit(spec, found, plan, capture, cell=CELL)
    counting = False
    os.write(1, f"{number} nothing\n".encode())


def main(line: str) -> None:
    """Fork for each step: what takes long, the imports, is done once."""
    connection.get_client(None, None)
    assert threading.active_count() == 1 and Path(store.home()).is_absolute()
    number = 0
    while True:
        child = os.fork()
        if child == 0:
            connection._clients.clear()
            try:
                submit(line, number)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return
        number += 1


if __name__ == "__main__":
    main(sys.argv[1])
