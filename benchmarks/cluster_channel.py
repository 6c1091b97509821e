"""The channel into pods: where ranks are, and how fast data of any size gets to them.

Data is compared with the same bytes through one bare port-forward of the official client, which is
what there is without this package, and shown beside a bare one of our own. What the notebook does
before, with or without a cluster, is measured in `capture.py`.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
from common import Measured, ratio_of, run_job, sized, spread
from kube import Place, began_in, memory, place, until
from session import run_cell

NODES = sized(2, 1)
SIZE = sized(1_000_000_000, 12_000_000)  # bytes
ASKED = sized(20, 1)  # times in a run
CELL = "import time; print('began', time.time())\n"
WITH_DATA = f"data.sum(); {CELL}"
BLOCKED = """
import time
import jax
from jax.experimental import multihost_utils
if jax.process_index() == jax.process_count() - 1:
    time.sleep(600)
multihost_utils.sync_global_devices("x")
"""
# A pod that takes bytes and says when all are there.
SINK = f"""
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print("port", server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        left, room = {SIZE}, bytearray(1 << 20)
        while left and (count := connection.recv_into(room)):
            left -= count
        connection.sendall(b"x")
        connection.close()
"""


def measure(runs: int) -> list[Measured]:
    """Ask ranks, and send data in turn with the bare way."""
    with place() as there:
        there.start_follower()
        return [_where(there, runs), *_data(there, runs)]


def _where(there: Place, runs: int) -> Measured:
    job, _ = run_job(BLOCKED, f"-n {NODES} {there.options}")
    until(lambda: all(rank.state == "Running" for rank in job.ranks), 0.1)
    times: list[float] = []
    job.where()  # opens the connection
    for _ in range(runs * ASKED):
        began = time.perf_counter()
        places = job.where()
        times.append(1e3 * (time.perf_counter() - began))
        assert all(one.answered for one in places)
    job.cancel()
    there.delete(job.name)
    middle = statistics.median(times)
    name = f"where are {NODES} ranks in pods, ms"
    return Measured(name, middle, "<= 100", spread(times, "ms"), middle <= 100)


def _data(there: Place, runs: int) -> list[Measured]:
    data = np.random.default_rng(1).integers(0, 255, SIZE, dtype=np.uint8)
    sink, _ = run_job(SINK, f"-n 1 {there.options}")
    until(lambda: _port(there, sink.name), 0.1)
    bare, own, ours, peak = [], [], [], 0.0
    for _ in range(runs):
        bare.append(_bare(there, sink.name, data.data, partial(_official, there)))
        own.append(_bare(there, sink.name, data.data, there.client.forward))
        ours.append(_job(there, WITH_DATA, data) - _job(there, CELL, None))
        if (follower := there.follower()) is not None:
            peak = max(peak, memory(follower, "VmHWM"))
    changed = _changed(there, runs, sink.name, data)
    sink.cancel()
    there.delete(sink.name)
    ratio = ratio_of(ours, bare)
    rates = [spread([SIZE / each for each in taken], "MB/s", 1e-6) for taken in (ours, bare, own)]
    return [
        Measured(
            f"{SIZE / 1e6:.0f} MB into {NODES} pods, against a bare port-forward",
            ratio,
            "<= 1.5",
            f"ours {rates[0]}, bare {rates[1]}, bare through our end {rates[2]}",
            ratio <= 1.5,
        ),
        Measured("... the follower's peak, MB", peak, "<= 150", "", peak <= 150),
        changed,
    ]


def _changed(there: Place, runs: int, sink: str, data: np.ndarray[Any, Any]) -> Measured:
    """Send data again to a session, changed in place, in turn with the bare way."""
    line = f"-s again -n {NODES} {there.options}"
    _cell(line, CELL, None)
    bare, ours = [], []
    for _ in range(runs):
        data[0] ^= 1
        bare.append(_bare(there, sink, data.data, partial(_official, there)))
        ours.append(_cell(line, WITH_DATA, data) - _cell(line, CELL, None))
    there.delete("again")
    ratio = ratio_of(ours, bare)
    rates = [spread([SIZE / each for each in taken], "MB/s", 1e-6) for taken in (ours, bare)]
    shown = f"ours {rates[0]}, bare {rates[1]}"
    return Measured("... changed, to a session", ratio, "<= 1.5", shown, ratio <= 1.5)


def _job(there: Place, cell: str, data: object) -> float:
    """Return the seconds from the TrainJob to the cell on all ranks."""
    namespace = {} if data is None else {"data": data}
    job, _ = run_job(cell, f"-n {NODES} {there.options}", namespace)
    created = time.time()
    taken = there.began(job.name, NODES) - created
    job.wait(60)
    there.delete(job.name)
    job.delete()
    return taken


def _cell(line: str, cell: str, data: object) -> float:
    """Return the seconds from when a session's cell is sent to the cell on all ranks."""
    job, _ = run_cell(line, cell, None if data is None else {"data": data})
    job.wait(60)
    times = [began_in(one.text) for one in job.logs()]
    found = [each for each in times if each is not None]
    assert len(found) == NODES, "a rank has not begun"
    return float(max(found) - job.created)


def _port(there: Place, job: str) -> int | None:
    pods = there.pods(job)
    running = pods and pods[0]["status"]["phase"] == "Running"
    found = re.search(r"^port (\d+)$", _text(there, pods[0]), re.MULTILINE) if running else None
    return int(found[1]) if found else None


def _text(there: Place, pod: dict[str, dict[str, str]]) -> str:
    lines = there.log(pod["metadata"]["name"]).splitlines()
    return "\n".join(line[line.find("port ") :] for line in lines if "port " in line)


@contextmanager
def _official(there: Place, pod: str, port: int) -> Iterator[Any]:
    """Open a port-forward of the official client."""
    from kubernetes import client, config
    from kubernetes.stream import portforward

    config.load_kube_config(str(there.cluster.kubeconfig))
    ask = client.CoreV1Api().connect_get_namespaced_pod_portforward
    end = portforward(ask, pod, there.name, ports=str(port)).socket(port)
    end.setblocking(True)
    try:
        yield end
    finally:
        end.close()


def _bare(
    there: Place,
    job: str,
    data: memoryview,
    forward: Callable[[str, int], AbstractContextManager[Any]],
) -> float:
    (pod,) = there.pods(job)
    port = _port(there, job)
    assert port is not None
    began = time.perf_counter()
    with forward(pod["metadata"]["name"], port) as end:
        for start in range(0, SIZE, 1 << 20):
            end.sendall(data[start : start + (1 << 20)])
        assert end.recv(1) == b"x"
    return time.perf_counter() - began
