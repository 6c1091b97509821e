"""Nothing waits for what takes long: silent clusters, and large logs that are packed."""

from __future__ import annotations

import io
import os
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import eventually
from made_jobs import make_job
from pace import within

from server.servers import TOKEN, Server
from server.silent import Silent

BOUND = 2.0  # seconds; where something waits for a cluster it takes 25
CONTEXTS = [f"cluster-{n}" for n in range(10)]  # more questions than there are threads for them
QUESTIONS = [
    f"{what}?place=context:{name}"
    for name in CONTEXTS
    for what in ("health", "runtimes", "runtimes/jax-cpu/yaml", "queues")
]


@pytest.fixture
def cluster() -> Iterator[Silent]:
    cluster = Silent()
    yield cluster
    cluster.close()


@pytest.fixture
def waiting(
    cluster: Silent, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    cluster.kubeconfig(tmp_path / "kubeconfig", "team-a", *CONTEXTS)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    server = Server(tmp_path, store)
    yield server
    cluster.close()  # so that nothing holds up the end
    server.stop()


@pytest.mark.slow
def test_lists_and_other_extensions_are_answered_all_the_time(waiting, cluster):
    directory = make_job("one")
    for rank in range(3):
        write_log(directory.log(rank))
    status = waiting.url.removesuffix("jaxtrain/api/") + f"api/status?token={TOKEN}"
    with ThreadPoolExecutor(len(QUESTIONS) + 1) as pages, waiting.page() as page:
        asked = [pages.submit(waiting.ask, "GET", path) for path in QUESTIONS]
        eventually(lambda: len(cluster.asked) >= len(CONTEXTS) // 2, 20)
        packed = pages.submit(waiting.ask, "GET", "jobs/one/log")
        times, rounds = [], 0
        page.say(op="open", id=1, topic="jobs")
        assert page.hear("jobs")["rows"]
        while rounds < 5 or not packed.done():
            rounds += 1
            make_job(f"other-{rounds}")
            for question in (
                lambda: urllib.request.urlopen(status, timeout=30).close(),
                lambda: waiting.get("jobs"),
                lambda: waiting.get("jobs/one"),
                lambda: waiting.ask("POST", "jobs/one/detach", {}),
                lambda: page.hear("jobs"),
            ):
                began = time.monotonic()
                question()
                times.append(time.monotonic() - began)
        assert within(max(times), BOUND), times
        assert not any(one.done() for one in asked)  # all of them waited all the time
        cluster.close()
        # That nothing could be reached is no refusal: pages ask again.
        assert {one.result()[0] for one in asked} == {200, 503}
        with zipfile.ZipFile(io.BytesIO(packed.result()[1])) as pack:
            assert [one.file_size for one in pack.infolist()] == [SIZE] * 3


LINES, REPORTS = 3_000_000, 300_000


@pytest.mark.slow
def test_others_are_answered_while_a_large_log_is_filtered_and_searched(server):
    directory = make_job("large")
    report = '{"time": 1.0, "rank": 0, "step": 1, "total": null, "values": {"loss": 0.5}}\n'
    directory.metrics.write_text(report * REPORTS)
    piece, ends = 10_000, [0, 0]
    with (
        directory.log(0).open("wb") as one,
        directory.log(1).open("wb") as two,
        directory.log_index.open("wb") as index,
    ):
        for begin in range(0, LINES, piece):
            rank = begin // piece % 2
            file = (one, two)[rank]
            file.write(b"".join(b"step %d loss 0.5\n" % n for n in range(begin, begin + piece)))
            ends[rank] = file.tell()
            index.write(b"[%d, %d, %d]\n" % (rank, ends[rank], 1000 + begin))
    status = server.url.removesuffix("jaxtrain/api/") + f"api/status?token={TOKEN}"

    def look() -> float:
        with server.page() as page:
            began = time.monotonic()
            page.say(op="open", id=1, topic="log", key="large", include={"pattern": "7"})
            while not page.hear("log", 1)["complete"]:
                pass
            page.say(op="search", id=2, view=1, pattern="1.*9 loss", regex=True)
            while not page.hear("hits", 2)["complete"]:
                pass
            assert len(server.get("jobs/large/metrics")["points"]) == 20_000
            return time.monotonic() - began

    times = []
    with ThreadPoolExecutor(1) as pages:
        looks = pages.submit(look)
        while not looks.done():
            began = time.monotonic()
            urllib.request.urlopen(status, timeout=30).close()
            server.get("jobs/large")
            times.append(time.monotonic() - began)
    assert max(times) < looks.result() / 2, f"{max(times)} of {looks.result()} s"


SIZE = 48 << 20


def write_log(path):
    line = (os.urandom(48).hex() + "\n").encode()
    path.write_bytes((line * (SIZE // len(line) + 1))[:SIZE])
