"""Logs from Kubernetes: spooling them, against a reader that writes the same bytes to a file.

A server in a process of its own replays a log as API servers send it: in chunks of a line, or of
up to 4 KiB. `cluster_log.py` reads from a real cluster, against kubectl.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from common import Measured, in_turn, ratio_of, sized, spread
from kube import memory

from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.logs.logstream import Attempt, LogStream
from jupyter_jax_trainer.backends.kubernetes.logs.spool import ContainerLog, Spool
from jupyter_jax_trainer.jobdir.layout import JobDir

LINES = sized(200_000, 2_000)
SOME, MOST = sized(((64, 10_000), (256, 2_000)), ((4, 100), (8, 100)))  # streams, lines of each
_SETTLE = sized(1.5, 0.3)  # seconds without a line after which there is no more
KEY = b"6" * 64


class PlainClient(Client):
    """The project's client, without a kubeconfig."""

    def __init__(self, server: str) -> None:
        self.server = server
        super().__init__(namespace="default")

    def _connect(self) -> None:
        import urllib3

        self._pool = urllib3.PoolManager(maxsize=300, retries=False)
        self._own_namespace = "default"
        self._configuration = self

    def auth_settings(self) -> dict[str, Any]:
        return {}

    def request(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        return {"metadata": {"uid": "uid"}}


def serve() -> None:
    """Replay a log; the name of the pod says how many lines, and whether more might come."""
    lines = [
        b"2026-11-21T13:%02d:%02d.%09dZ step %08d loss 0.123456 accuracy 0.987 %s\n"
        % (i // 6_000_000, i // 100_000 % 60, i % 100_000 * 10_000, i, b"x" * 82)
        for i in range(LINES)
    ]
    bodies = {size: _chunks(lines, size) for size in (1, 4096)}

    def answer(connection: socket.socket) -> None:
        with connection:
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += connection.recv(4096)
            word, count, size = asked.split(b"/pods/")[1].split(b"/")[0].split(b"-")
            chunks = bodies[int(size)]
            if b"tailLines=1" in asked:
                chunks, count = _chunks(lines[-1:], 1), str(LINES).encode()
            body = b"".join(chunks[: -(-len(chunks) * int(count) // LINES)])
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head + body + (b"0\r\n\r\n" if word == b"ended" else b""))
            connection.recv(1)

    listener = socket.create_server(("127.0.0.1", 0), backlog=300)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def _chunks(lines: list[bytes], size: int) -> list[bytes]:
    """Make chunks of at most so many bytes, and at least a line."""
    chunks, chunk = [], b""
    for line in [*lines, b""]:
        if chunk and (not line or len(chunk) + len(line) > size):
            chunks.append(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            chunk = b""
        chunk += line
    return chunks


@contextmanager
def server() -> Iterator[str]:
    """Run the server; give its address."""
    process = subprocess.Popen(
        [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def raw(client: Client, pod: str, path: Path) -> float:
    """Write a log to a file as it comes; give the CPU seconds."""
    began = time.process_time()
    query = {"container": "node", "timestamps": "true", "follow": "true"}
    response = client.open(client.core("pods", pod, "log"), query, 60.0)
    with path.open("wb", buffering=0) as file:
        for piece in response.stream(65536, decode_content=False):
            file.write(piece)
    response.close()
    return time.process_time() - began


def spooled(client: Client, pod: str, container: str, uid: str, path: Path) -> float:
    """Spool a log; give the CPU seconds."""
    path.joinpath("logs").mkdir(parents=True)
    began = time.process_time()
    attempt = Attempt(pod, uid, container)
    spool = Spool(ContainerLog(JobDir(path), 0, KEY), attempt.stream, lambda *_: None)
    stream = LogStream(client, spool, attempt, lambda: True, print)
    stream.start()
    stream.join()
    assert stream.complete
    return time.process_time() - began


def follow(url: str, streams: int, lines: int, home: str) -> None:
    """Follow many logs at once, and print lines, CPU seconds and memory."""
    directory, client = JobDir(home), PlainClient(url)
    directory.logs.mkdir(parents=True)
    began = time.process_time()
    followed = []
    for rank in range(streams):
        attempt = Attempt(f"open-{lines}-4096", "uid", "node")
        log = ContainerLog(directory, rank, KEY)
        spool = Spool(log, f"{attempt.stream}-{rank}", lambda *_: None)
        followed.append(LogStream(client, spool, attempt, lambda: False, print))
        followed[-1].start()
    size, used = -1, 0.0
    while size != (size := sum(directory.log(rank).stat().st_size for rank in range(streams))):
        used = time.process_time() - began
        time.sleep(_SETTLE)
    count = sum(directory.log(rank).read_bytes().count(b"\n") for rank in range(streams))
    # ru_maxrss would count what the process that started this one has used, too.
    peak = memory(os.getpid(), "VmHWM")
    print(json.dumps({"lines": count, "cpu": used, "peak": peak}), flush=True)
    os._exit(0)


def many(url: str, streams: int, lines: int) -> dict[str, float]:
    """Follow many logs in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        done = subprocess.run(
            [sys.executable, __file__, "follow", url, str(streams), str(lines), f"{name}/job"],
            check=True,
            capture_output=True,
            text=True,
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(runs: int) -> list[Measured]:
    """Compare CPU time for one log; then many logs at once."""
    with server() as url, tempfile.TemporaryDirectory() as name:
        client, home = PlainClient(url), Path(name)

        def ours(size: int) -> float:
            taken = spooled(client, f"ended-{LINES}-{size}", "node", "uid", home / "job")
            assert (home / "job/logs/rank-0.log").stat().st_size > 100 * LINES
            shutil.rmtree(home / "job")
            return taken

        def theirs(size: int) -> float:
            return raw(client, f"ended-{LINES}-{size}", home / "raw")

        pairs = [in_turn(runs, partial(theirs, size), partial(ours, size)) for size in (1, 4096)]
        some = [many(url, *SOME) for _ in range(max(1, runs // 2))]
        rates = sorted(one["lines"] / one["cpu"] for one in some)
        rate = rates[len(rates) // 2]
        most = many(url, *MOST)
    found = [
        Measured(
            f"one pod's log in {words}, lines per CPU second, against a raw reader",
            ratio_of(a, b),
            bound,
            f"ours {spread([LINES / t for t in b], 'k/s', 1e-3)}, "
            f"raw {spread([LINES / t for t in a], 'k/s', 1e-3)}",
            ratio_of(a, b) >= float(bound.split()[1]),
        )
        for words, bound, (a, b) in zip(
            ("chunks of a line", "chunks of 4 KiB"), (">= 1.0", ">= 0.3"), pairs, strict=True
        )
    ]
    found += [
        Measured(
            "64 streams, thousand lines per CPU second",
            rate / 1e3,
            ">= 120",
            f"{some[0]['lines']:.0f} lines, {some[0]['peak']:.0f} MB",
            rate >= 120_000,
        ),
        Measured(
            "256 streams, peak MB",
            most["peak"],
            "<= 150",
            f"{most['lines'] / most['cpu'] / 1e3:.0f} k lines per CPU second",
            most["peak"] <= 150,
        ),
    ]
    return found


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        follow(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
