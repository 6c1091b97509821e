"""Data of any size on its way into pods: through the first one, and from pod to pod."""

from __future__ import annotations

import errno
import io
import itertools
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import podruns
import pytest
from harness import eventually, pattern
from podruns import PodRun
from policy import skip_or_fail
from relays import Relays

from jupyter_jax_trainer.backends.kubernetes.follow import sending as follow_sending
from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Target
from jupyter_jax_trainer.backends.kubernetes.follow.sending import Progress, Sending, Waiting
from jupyter_jax_trainer.backends.kubernetes.submit import payload
from jupyter_jax_trainer.jobdir import pieces
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.messages import worker as say_of_worker
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.worker.pod import parcel as parcels
from jupyter_jax_trainer.worker.pod import peer
from jupyter_jax_trainer.worker.pod.parcel import Parcel, TransferError
from jupyter_jax_trainer.worker.pod.transfer import Transfer
from jupyter_jax_trainer.worker.pod.wire import Owner, WireError, digest_of

KEY = podruns.KEY
CELL = "print('sum', int(data.sum()))\n"


class Loopback:
    """A cluster that forwards ports of pods, all of them on this machine.

    Parameters
    ----------
    cut_after
        Bytes into a pod after which a connection is cut, one for each; None for never.
    answers
        They are those out of a pod.
    """

    def __init__(self, *cut_after: int, answers: bool = False) -> None:
        self._answers = answers
        self.opened: list[str] = []
        self.sent = 0
        self._cuts = list(cut_after)

    @contextmanager
    def forward(self, pod: str, port: int) -> Iterator[Any]:
        self.opened.append(pod)
        left = self._cuts.pop(0) if self._cuts else None
        with socket.create_connection(("127.0.0.1", port)) as end:
            yield (_AnswerEnd if self._answers else _End)(end, self, left)


class _End:
    def __init__(self, end: socket.socket, cluster: Loopback, left: int | None) -> None:
        self._end, self._cluster, self._left = end, cluster, left
        self.settimeout, self.recv = end.settimeout, end.recv

    def sendall(self, data: bytes) -> None:
        self._cluster.sent += len(data)
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._end.sendall(bytes(data)[: max(0, self._left + len(data))])
                self._end.close()
                raise ConnectionResetError("cut")
        self._end.sendall(data)


class _AnswerEnd(_End):
    def __init__(self, end: socket.socket, cluster: Loopback, left: int | None) -> None:
        super().__init__(end, cluster, None)
        self._to_come, self.recv = left, self._recv

    def _recv(self, size: int) -> bytes:
        if self._to_come is None:
            return self._end.recv(size)
        data = self._end.recv(min(size, max(1, self._to_come)))
        self._to_come -= len(data)
        if self._to_come < 0:  # the pod has said it, and nobody has heard it
            self._end.close()
            raise ConnectionResetError("cut")
        return data


def bytes_of(size: int) -> bytes:
    return np.random.default_rng(7).bytes(size)


def root_of(path: Path) -> str:
    with path.open("rb") as file:
        return parcels.root_of(parcels.digests_of(file))


def send(
    cluster: Any,
    bundle: Path,
    ports: list[int],
    waits: Callable[[], set[int]],
    problems: list[str] | None = None,
) -> Sending:
    """Start to send a bundle to those that wait, as the follower does."""
    said = problems if problems is not None else []
    look = lambda: waiting_for(ports, waits())  # noqa: E731
    sending = Sending(cluster, Owner("ab" * 16, 1), bundle, look, lambda: None, said.append)
    sending.start()
    return sending


def waiting_for(ports: list[int], ranks: set[int]) -> Waiting | None:
    """Return which pods wait, as the follower does."""
    addresses = {rank: ("127.0.0.1", ports[rank]) for rank in ranks if rank}
    target = Target(pod="pod-0", port=ports[0], key=KEY, addresses=addresses)
    pods = {rank: f"pod-{rank}" for rank in range(len(ports))}
    return Waiting(target, pods) if ranks else None


# ---- many pods in one process


class Swarm:
    """Process 1 of each of many pods, all in one thread.

    Parameters
    ----------
    ranks, data
        How many there are, and what they wait for.
    """

    def __init__(self, ranks: int, data: bytes, folder: Path) -> None:
        self.bundle = folder / "bundle"
        self.bundle.write_bytes(data)
        self.sent: Counter[int] = Counter()
        self.problems: list[str] = []
        self.parcels = [self.parcel(rank, folder) for rank in range(ranks)]
        self.relays = Relays(ranks)
        self.ports = self.relays.ports
        for rank, relay in enumerate(self.relays.relays):
            of_loop = self.relays.selector
            relay.transfer = Transfer(KEY.encode(), rank, of_loop, self.parcels[rank])

    def parcel(self, rank: int, folder: Path) -> Parcel:
        return Parcel(root_of(self.bundle), self.bundle.stat().st_size, folder / f"rank-{rank}")

    def waiting(self) -> set[int]:
        return {rank for rank, one in enumerate(self.parcels) if not one.is_whole}

    def send(self, cluster: Any = None, among: Callable[[], set[int]] | None = None) -> Sending:
        cluster = cluster or Loopback()
        return send(cluster, self.bundle, self.ports, among or self.waiting, self.problems)

    def wait(self) -> None:
        eventually(lambda: not self.waiting(), seconds=60)


@pytest.fixture
def swarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Swarm]]:
    """Make pods that count what they send to each other."""
    made: list[Swarm] = []
    of: list[int] = []

    class Counting(socket.socket):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self._of = of[-1] if of else None

        def sendmsg(self, buffers: Any, *more: Any) -> int:
            count = super().sendmsg(buffers, *more)
            if self._of is not None:
                made[-1].sent[self._of] += count
            return count

    dial = Transfer._dial

    def counted(self: Transfer, child: Any) -> None:
        of.append(self._rank)
        try:
            dial(self, child)
        finally:
            of.pop()

    monkeypatch.setattr(peer.socket, "socket", Counting)
    monkeypatch.setattr(Transfer, "_dial", counted)

    def make(ranks: int, size: int = 3_000_000) -> Swarm:
        made.append(Swarm(ranks, bytes_of(size), tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.relays.close()


@pytest.mark.parametrize("note", ["right", "wrong"])
def test_what_was_hashed_at_submission_is_not_hashed_again_unless_it_is_wrong(swarm, note):
    pods, cluster = swarm(2), Loopback()
    pieces.note(pods.bundle)
    if note == "wrong":
        pods.bundle.with_suffix(".pieces").write_bytes(bytes(3 * 32))
    pods.send(cluster)
    pods.wait()
    size = pods.bundle.stat().st_size
    assert (cluster.sent > size + 10_000) == (note == "wrong"), "it was used, and given up"


@pytest.mark.parametrize(
    ("ranks", "size"),
    [
        (1, 0),
        (2, 1),
        (3, 3_000_000),
        (64, 1_000_000),
        pytest.param(256, 1_000_000, marks=pytest.mark.release),
        pytest.param(8, 100_000_000, marks=pytest.mark.release),
    ],
)
def test_all_pods_get_it_and_none_sends_it_more_than_twice(swarm, ranks, size):
    pods, cluster = swarm(ranks, max(1, size)), Loopback()
    sending = pods.send(cluster)
    pods.wait()
    sending.join(10)
    assert not sending.is_alive() and pods.problems == []
    data = pods.bundle.read_bytes()
    assert all(Path(one.path).read_bytes() == data for one in pods.parcels)
    overhead = 5_000 + 20 * 64
    assert cluster.sent < 1.01 * len(data) + overhead * ranks, "the API carries it once"
    assert bool(pods.sent) == (ranks > 1)
    assert max(pods.sent.values(), default=0) < 2.01 * len(data) + 60 * ranks + 2 * overhead


def test_what_was_cut_goes_on_where_it_stopped(swarm, monkeypatch):
    monkeypatch.setattr("jupyter_jax_trainer.backends.kubernetes.follow.sending._PAUSE", 0.01)
    pods = swarm(3, 6_000_000)
    cluster = Loopback(50, 200, 2_500_000, 1_000_000, 1_500_000)
    pods.send(cluster)
    pods.wait()
    assert len(cluster.opened) == 6
    # What was not acknowledged goes again.
    assert cluster.sent < 6_000_000 + 5 * 2_200_000
    assert pods.problems == [], "each time it went on at once"


def test_how_far_it_has_come_is_said_meanwhile(swarm, monkeypatch):
    """By the pod that has least of it."""
    monkeypatch.setattr(follow_sending, "_INTERVAL", 0.0)
    pods = swarm(2, 20_000_000)
    shares: list[int] = []
    words = pattern(say.SENDING_SHARE(size="20 MB", share="SHARE"), SHARE=r"(\d+)")

    def note() -> None:
        found = re.fullmatch(words, sending.doing)
        assert found is not None, sending.doing
        shares.append(int(found[1]))
        least = min(one.have for one in pods.parcels)
        assert 0 <= shares[-1] <= 100 * least // 20_000_000

    sending = Sending(
        Loopback(),
        Owner("ab" * 16, 1),
        pods.bundle,
        lambda: waiting_for(pods.ports, pods.waiting()),
        note,
        pods.problems.append,
    )
    assert sending.doing == say.SENDING(size="20 MB")
    sending.start()
    pods.wait()
    sending.join(10)
    assert shares == sorted(shares) and len({*shares}) > 3 and pods.problems == []


def test_what_keeps_from_sending_is_said_when_it_lasts(swarm, monkeypatch):
    monkeypatch.setattr("jupyter_jax_trainer.backends.kubernetes.follow.sending._PAUSE", 0.01)
    monkeypatch.setenv("JAXTRAIN_SILENCE_TIMEOUT", "0.2")
    pods = swarm(1)
    sending = pods.send(Loopback(*[10] * 100))
    eventually(lambda: pods.problems)
    assert pods.problems[0] == sending.doing == say.SEND_FAILED(error="cut")
    pods.wait()


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_wherever_it_is_cut_the_whole_arrives(swarm, monkeypatch, seed, answers):
    """Between any two bytes: of the proofs, of a question, of a part, of the last answer."""
    monkeypatch.setattr("jupyter_jax_trainer.backends.kubernetes.follow.sending._PAUSE", 0.01)
    pods, chance = swarm(3, 3_000_000), random.Random(seed)
    many = 1_500 if answers else 3_000_000
    cuts = [chance.choice((chance.randrange(400), chance.randrange(many))) for _ in range(6)]
    sending = pods.send(Loopback(*cuts, answers=answers))
    pods.wait()
    sending.join(10)
    data = pods.bundle.read_bytes()
    assert all(Path(one.path).read_bytes() == data for one in pods.parcels)


KILLED = """
import sys, time
from pathlib import Path
from test_transfer import Loopback, _End, send

_End.sendall = (lambda whole: lambda self, data: (time.sleep(0.02), whole(self, data)))(_End.sendall)
ports = [int(port) for port in sys.argv[2:]]
send(Loopback(), Path(sys.argv[1]), ports, lambda: {*range(len(ports))}).join()
"""


@pytest.mark.slow
def test_a_follower_that_is_killed_while_it_sends_is_followed_by_another(swarm):
    size = 60_000_000
    pods = swarm(3, size)
    path = os.pathsep.join((str(Path(__file__).parent), str(Path(__file__).parent.parent)))
    first = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(pods.bundle), *map(str, pods.ports)],
        env={**os.environ, "PYTHONPATH": path},
    )
    eventually(lambda: pods.parcels[0].have > size // 4, seconds=40)
    first.kill()
    first.wait()
    assert pods.parcels[0].have < size
    cluster = Loopback()
    pods.send(cluster)
    pods.wait()
    assert cluster.sent < 0.9 * size
    assert root_of(Path(pods.parcels[2].path)) == root_of(pods.bundle)


@pytest.mark.slow
def test_pods_that_come_later_get_it_from_those_that_have_it(swarm):
    pods = swarm(12)
    there = {0, 1}
    pods.send(among=lambda: pods.waiting() & there or there - {*range(12)})
    for rank in range(2, 12):
        eventually(lambda: not pods.waiting() & there, seconds=20)
        there.add(rank)
        sending = pods.send(among=lambda: pods.waiting() & there)
        eventually(lambda: not pods.waiting() & there, seconds=20)
        sending.join(10)
    assert not pods.waiting()
    assert max(pods.sent.values()) < 4.1 * 3_000_000


@pytest.mark.slow
def test_a_pod_that_comes_while_it_is_sent_does_not_wait_for_the_end(swarm):
    pods = swarm(2, 40_000_000)
    there = {0}

    class Watched(Loopback):
        """The other pod comes in the midst of it; it has some before the first one has all."""

        early = False

        @contextmanager
        def forward(self, pod: str, port: int) -> Iterator[Any]:
            with super().forward(pod, port) as end:
                whole = end.sendall

                def sendall(data: bytes) -> None:
                    time.sleep(0.03)
                    first, second = pods.parcels
                    if first.have > 5_000_000:
                        there.add(1)
                    self.early |= second.have > 0 and not first.is_whole
                    whole(data)

                end.sendall = sendall
                yield end

    cluster = Watched()
    pods.send(cluster, among=lambda: pods.waiting() & there)
    pods.wait()
    assert cluster.early and cluster.opened == ["pod-0"]


@pytest.mark.slow
def test_a_pod_that_others_cannot_reach_gets_it_through_the_api(swarm):
    pods = swarm(4)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        there = pods.ports[2]

        class Cluster(Loopback):
            def forward(self, pod: str, port: int) -> Any:
                return super().forward(pod, there if pod == "pod-2" else port)

        pods.ports[2] = nobody.getsockname()[1]
        cluster = Cluster()
        pods.send(cluster)
        pods.wait()
    assert "pod-2" in cluster.opened and {"pod-1", "pod-3"}.isdisjoint(cluster.opened)
    assert any("rank 2" in text for text in pods.problems)


@pytest.mark.slow
def test_another_pod_takes_the_place_of_one_that_is_gone(swarm):
    """The first in a part of the tree is dead: those behind it get the bundle all the same."""
    pods = swarm(8)
    dead = pods.relays.relays[1]
    pods.relays.selector.unregister(dead._socket)
    dead._socket.close()
    pods.send()
    eventually(lambda: pods.waiting() == {1}, seconds=30)
    pods.parcels[1].is_whole = True


@pytest.mark.parametrize(
    "head",
    [
        {"have": -1, "least": -1},
        {"have": 5, "least": 6},
        {"have": 11, "least": 0},
        {"have": True, "least": 0},
        {"have": "5", "least": 0},
        {"least": 0},
        {"have": 5, "least": 5, "error": "owner"},
    ],
)
def test_what_a_pod_says_of_itself_is_bounded(head):
    with pytest.raises(WireError):
        Progress(10).take(head)


# ---- real pods


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Callable[..., list[PodRun]]]:
    """Start ranks that wait for their bundle, as in pods of one job."""
    started: list[PodRun] = []

    def begin(data: Any, nodes: int = 1, cell: str = CELL, **more: Any) -> list[PodRun]:
        bundle, digest = podruns.bundle(tmp_path, cell, {"data": data})
        packed = payload.pack(bundle, "secret", "uid", digest, JobSpec(), KEY)
        awaited = {one.name: one.value for one in packed.env}[parcels.AWAITED_VARIABLE]
        assert packed.later == bundle.stat().st_size
        worker = tmp_path / "worker.pyz"
        worker.write_bytes(payload._worker_of(bundle))
        more = {"JAXTRAIN_CHANNEL_PORT": "0", parcels.AWAITED_VARIABLE: awaited, **more}
        for rank in range(nodes):
            started.append(podruns.start(tmp_path, worker, digest, rank=rank, nodes=nodes, **more))
        for run in started:
            run.read(lambda run: run.has("awaits"))
        return started

    yield begin
    podruns.kill(*started)


def ports(runs: list[PodRun]) -> list[int]:
    return [run.get("awaits")["channel"] for run in runs]


DATA = np.arange(3_000_000)  # 24 MB


def test_ranks_start_when_their_bundle_is_there(pods, tmp_path):
    runs = pods(DATA, nodes=2)
    assert not any(run.has("hello") for run in runs)
    waits = {0, 1}
    sending = send(Loopback(), tmp_path / "job.pyz", ports(runs), lambda: waits)
    for run in runs:
        run.read(lambda run: run.has("hello"))
    waits.clear()
    assert [run.end() for run in runs] == [0, 0]
    assert all(f"sum {DATA.sum()}" in run.text for run in runs)
    sending.join(10)
    assert not sending.is_alive()


def test_a_pod_that_waits_can_be_ended(pods):
    (run,) = pods(DATA)
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM


@pytest.mark.slow
def test_pods_that_wait_can_be_asked_where_they_are(pods):
    runs = pods(DATA, nodes=2)
    at = {1: ("127.0.0.1", ports(runs)[1])}
    line = Line(Loopback(), Owner("ab" * 16, 1))
    found = line.where(Target(pod="pod-0", port=ports(runs)[0], key=KEY, addresses=at))
    assert sorted((one["rank"], one["where"]) for one in found) == [(0, None), (1, None)]
    line.close()


def test_a_bundle_that_never_comes_is_a_failure_that_says_so(pods):
    (run,) = pods(DATA, JAXTRAIN_BUNDLE_TIMEOUT="0.5")
    assert run.end() == 1
    error = run.get("error")
    assert error["type"] == "TransferError" and "nothing more for 0.5 s" in error["message"]
    assert "JAXTRAIN_BUNDLE_TIMEOUT" in error["hint"]
    assert not run.has("hello")


def test_another_bundle_is_not_run(pods, tmp_path):
    (run,) = pods(DATA)
    other = tmp_path / "other"
    data = bytearray((tmp_path / "job.pyz").read_bytes())
    data[5_000_000] ^= 1
    other.write_bytes(data)
    send(Loopback(), other, ports([run]), lambda: {0})
    assert run.end() == 1
    assert say_of_worker.BUNDLE_DAMAGED() in run.get("error")["message"]


def test_a_container_that_starts_again_has_the_bundle(pods, tmp_path):
    cell = "import time; print('here'); time.sleep(600)"
    (run,) = pods(DATA, cell=f"data; {cell}", JAXTRAIN_MAX_RESTARTS="1")
    waits = {0}
    send(Loopback(), tmp_path / "job.pyz", ports([run]), lambda: waits)
    run.read(lambda run: "here" in run.text)
    waits.clear()
    podruns.kill(run)
    (kept,) = (tmp_path / "scratch-0").glob(".jaxtrain-bundle-*")
    again = Parcel(root_of(kept), kept.stat().st_size, kept)
    assert again.is_whole
    with kept.open("r+b") as file:
        file.write(b"?")
    swapped = Parcel(again.root, again.size, kept)
    assert not swapped.is_whole and swapped.have == 0, "a file that was changed is not used"


# ---- room for it


def test_what_does_not_fit_on_the_disk_is_refused_before_it_is_sent(tmp_path):
    with pytest.raises(TransferError, match="1000000 MB, but"):
        Parcel("0" * 64, 10**12, tmp_path / "kept")


def test_what_a_container_before_has_left_behind_takes_no_room(tmp_path, monkeypatch):
    """A container that starts again in mid-transfer begins anew: its own part makes way."""

    class Disk:
        def __init__(self, folder: Path) -> None:
            self.free = 150 - sum(one.stat().st_size for one in folder.iterdir())

    monkeypatch.setattr(parcels.shutil, "disk_usage", Disk)
    first = Parcel("0" * 64, 100, tmp_path / "kept")
    first.add(bytes(60), b"")
    assert Parcel("0" * 64, 100, tmp_path / "kept").have == 0


@pytest.mark.parametrize("version", [1, 2])
def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch, version):
    files = [tmp_path / name for name in ("max", "current", "stat")]
    files[0].write_text("500000000\n")
    files[1].write_text("450000000\n")
    files[2].write_text("anon 400000000\ninactive_file 1000000\n")
    absent = ("/nowhere",) * 3
    limits = (tuple(map(str, files)), absent) if version == 2 else (absent, tuple(map(str, files)))
    monkeypatch.setattr(parcels, "_LIMITS", limits)
    no_room = say_of_worker.NO_ROOM_IN_MEMORY(size="100 MB", free="51 MB")
    with pytest.raises(TransferError, match=re.escape(no_room)):
        Parcel("0" * 64, 100_000_000, None)
    if os.path.isdir("/dev/shm"):  # counts as memory, too
        with pytest.raises(TransferError, match="51 MB"):
            Parcel("0" * 64, 60_000_000, Path("/dev/shm/jaxtrain-test"))
    assert Parcel("0" * 64, 50_000_000, None).path.startswith("/proc/self/fd/")
    files[0].write_text("max\n")
    Parcel("0" * 64, 100_000_000, None)


@pytest.mark.parametrize("sizes", [[1, 2, 3 << 19], [(1 << 20) - 1], [(1 << 20) + 1], [1 << 20]])
def test_pieces_of_any_size_make_the_same_whole(tmp_path, sizes):
    """A whole piece comes with its digest, that of others is taken when they are together."""
    whole = random.Random(5).randbytes(3_000_000)
    parcel = Parcel(
        parcels.root_of(parcels.digests_of(io.BytesIO(whole))), len(whole), tmp_path / "kept"
    )
    for size in itertools.chain(sizes, itertools.repeat(1 << 20)):
        piece = whole[parcel.have : parcel.have + size]
        parcel.add(piece, digest_of(piece))
        if parcel.is_whole:
            break
    assert (tmp_path / "kept").read_bytes() == whole


def test_more_than_the_whole_is_not_written(tmp_path):
    parcel = Parcel("0" * 64, 100, tmp_path / "kept")
    with pytest.raises(TransferError, match=re.escape(say_of_worker.BUNDLE_DAMAGED())):
        parcel.add(bytes(101), b"")
    assert parcel.have == 0


def test_a_disk_that_fills_meanwhile_is_said(tmp_path, monkeypatch):
    parcel = Parcel("0" * 64, 1000, tmp_path / "kept")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jupyter_jax_trainer.worker.pod.parcel.write_all", full)
    said = say_of_worker.POD_DISK_FULL(size="0 MB", error="No space left on device")
    with pytest.raises(TransferError, match=re.escape(said)) as caught:
        parcel.add(b"x" * 1000, b"")
    assert "--store" in caught.value.hint


def test_memory_that_fills_meanwhile_is_said(monkeypatch):
    parcel = Parcel("0" * 64, 3 << 20, None)
    parcel.add(bytes(1 << 20), b"")

    def full(*_: object) -> int:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr("jupyter_jax_trainer.worker.pod.parcel.write_all", full)
    said = say_of_worker.POD_MEMORY_FULL(size="3 MB", error=os.strerror(errno.ENOMEM))
    with pytest.raises(TransferError, match=re.escape(said)) as caught:
        parcel.add(bytes(1 << 20), b"")
    assert "--memory" in caught.value.hint and parcel.have == 1 << 20
    parcel.close()


@pytest.fixture
def volume_in_memory(tmp_path: Path) -> Iterator[Path]:
    """Mount 40 MB of memory, as an emptyDir of a pod."""
    path = tmp_path / "memory"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "none", str(path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        skip_or_fail("mount", f"a small file system can't be mounted: {mounted.stderr}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_volume_in_memory_that_fills_while_the_bundle_comes_is_a_failure_that_says_so(
    pods, tmp_path, volume_in_memory
):
    (run,) = pods(DATA, JAXTRAIN_SCRATCH=str(volume_in_memory))
    (volume_in_memory / "others").write_bytes(bytes(20 << 20))
    problems: list[str] = []
    waits = {0}
    sending = send(Loopback(), tmp_path / "job.pyz", ports([run]), lambda: waits, problems)
    assert run.end() == 1
    waits.clear()
    sending.join(10)
    error = run.get("error")
    assert error["type"] == "TransferError" and "is full" in error["message"]
    assert "memory" in error["hint"] and not run.has("hello")
