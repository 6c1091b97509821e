"""Following a container's log over real HTTP, with all that happens to connections."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from logserver import LogServer, PlainClient, Pod, Run
from prometheus_client.parser import text_string_to_metric_families

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import httpbody
from jupyter_jax_trainer.backends.kubernetes.api.counts import COUNTS, FILE
from jupyter_jax_trainer.backends.kubernetes.logs import logstream
from jupyter_jax_trainer.backends.kubernetes.logs.logstream import Attempt, LogStream
from jupyter_jax_trainer.backends.kubernetes.logs.messages import Message
from jupyter_jax_trainer.backends.kubernetes.logs.spool import ContainerLog, Spool
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import cluster
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.worker.pod.frames import encode

KEY = b"6" * 64
FIRST = Attempt("pod", "uid", "node")


def stamped(text: bytes, ns: int | None = None) -> bytes:
    ns = time.time_ns() if ns is None else ns
    moment = datetime.fromtimestamp(ns // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z ".encode() + text + b"\n"


def numbered(count: int, step: int = 10**6, begin: int = 0) -> list[bytes]:
    return [stamped(b"line %d" % i, 1_795_268_098 * 10**9 + i * step) for i in range(begin, count)]


def counted(folder: Path) -> dict[str, float]:
    """Return what the follower that this process would be has counted."""
    COUNTS.save(folder, "", now=True)
    families = text_string_to_metric_families((folder / FILE).read_text())
    return {
        sample.name.removeprefix("jaxtrain_follower_"): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("what") in (None, "log")
    }


def text_of(lines: list[bytes]) -> bytes:
    return b"".join(line[31:] for line in lines)


class Following:
    """One stream into a job directory."""

    def __init__(self, server: LogServer, path: Path) -> None:
        self.directory = JobDir(path)
        self.directory.logs.mkdir(parents=True, exist_ok=True)
        self.client = PlainClient(server.url)
        self.log = ContainerLog(self.directory, 0, KEY)
        self.over = threading.Event()
        self.problems: list[str] = []
        self.messages: list[Message] = []
        self.streams: list[LogStream] = []

    def start(self, attempt: Attempt = FIRST, over=None, well=False) -> LogStream:
        spool = Spool(self.log, attempt.stream, lambda message, _: self.messages.append(message))
        stream = LogStream(
            self.client,
            spool,
            attempt,
            over or self.over.is_set,
            self.problems.append,
            lambda: well,
        )
        self.streams.append(stream)
        stream.start()
        return stream

    @property
    def text(self) -> bytes:
        return self.directory.log(0).read_bytes()

    def until(self, text: bytes, seconds: float = 10) -> None:
        wait_for(lambda: len(self.text) >= len(text), seconds)
        assert self.text == text


def wait_for(done, seconds: float = 10) -> None:
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.002)


@pytest.fixture
def server():
    server = LogServer()
    server.pods["pod"] = Pod()
    yield server
    server.close()


@pytest.fixture
def following(server, tmp_path, monkeypatch):
    monkeypatch.setattr(logstream, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(logstream, "_LONGEST_WAIT", 0.05)
    following = Following(server, tmp_path / "job")
    yield following
    for stream in following.streams:
        stream.stop()
    for stream in following.streams:
        stream.join(5)
        assert not stream.is_alive()


def test_to_the_end(server, following):
    run = server.pods["pod"].now
    run.lines += numbered(100)
    stream = following.start()
    following.until(text_of(run.lines))
    run.lines += numbered(130, begin=100)
    following.until(text_of(run.lines))
    run.lines.append(stamped(b"no newline")[:-1])
    run.ended = True
    following.over.set()
    stream.wake()
    stream.join(5)
    assert stream.finished and stream.complete and not following.problems
    assert following.text == text_of(run.lines)
    assert "follow" not in server.asked[-1]
    assert stream._spool.done


def test_few_requests_to_the_end(server, following):
    """Of a thousand pods each one counts."""
    run = server.pods["pod"].now
    run.lines += numbered(3)
    stream = following.start()
    following.until(text_of(run.lines))
    run.ended = True
    following.over.set()
    stream.wake()
    stream.join(5)
    assert stream.complete
    assert [one.get("follow", one.get("tailLines")) for one in server.asked] == ["true", None, "1"]
    assert server.looks == 2  # whose log it is, and whether the container has started again


def test_a_container_that_starts_again_while_its_log_settles(server, following):
    pod = server.pods["pod"]
    pod.now.lines += numbered(3)
    pod.now.ended = True
    following.over.set()
    stream = following.start()
    following.until(text_of(numbered(3)))
    pod.now.lines += numbered(6, begin=3)
    pod.runs.append(Run(numbered(105, begin=100)))
    stream.join(5)
    assert stream.complete and following.text == text_of(numbered(6))


def test_a_line_is_on_disk_at_once(server, following):
    run = server.pods["pod"].now
    following.start()
    taken, text = [], b""
    for i in range(20):
        time.sleep(random.uniform(0.01, 0.09))
        began = time.monotonic()
        run.lines.append(stamped(b"line %d" % i))
        text += b"line %d\n" % i
        following.until(text)
        taken.append(time.monotonic() - began)
    assert sorted(taken)[10] < 0.05, taken


@pytest.mark.parametrize("word", ["cut", "eof", "stall"])
def test_connections_that_end(server, following, monkeypatch, word, tmp_path):
    monkeypatch.setenv(timeouts.LOG_SILENCE.variable, "0.05")
    before = counted(tmp_path)
    run = server.pods["pod"].now
    run.lines += numbered(2000, step=3 * 10**6)
    size = len(b"".join(run.lines))
    chance = random.Random(1)
    # Each connection begins a second or two before the last one's end.
    server.faults = [(word, chance.randrange(size // 8, size // 3)) for _ in range(8)]
    server.faults += [503, 500, (word, 1), (word, 31)]
    following.start()
    following.until(text_of(run.lines))
    assert len(server.asked) > 8
    seen: list[dict[str, float]] = []
    size = before["log_bytes_total"] + len(following.text)
    # They are counted a moment after they were written.
    wait_for(lambda: seen.append(counted(tmp_path)) or seen[-1]["log_bytes_total"] == size)
    assert seen[-1]["reconnects_total"] - before["reconnects_total"] >= 8
    assert max(one["log_lag_seconds"] for one in seen) > 0  # the lines were stamped long ago


def test_a_rotation_leaves_a_mark(server, following):
    run = server.pods["pod"].now
    frames = [
        encode(KEY, 0, "0123abcd", n, message)[0][:-1]
        for n, message in ((1, {"kind": "hello"}), (2, {"kind": "lines", "count": 40}))
    ]
    lines = numbered(40)
    run.lines += [lines[0][:31] + frames[0] + b"\n", *lines[:10]]
    server.faults = [("cut", sum(map(len, run.lines)))]
    following.start()
    following.until(text_of(lines[:10]))
    run.lines += [*lines[10:], lines[-1][:31] + frames[1] + b"\n"]
    run.rotated = 21
    mark = f"[jaxtrain: {say.LINES_LOST_HERE(lines='10 lines')}]\n".encode()
    following.until(text_of(lines[:10] + lines[20:]) + mark)
    wait_for(lambda: len(following.messages) == 3)
    assert [m.kind for m in following.messages] == ["hello", "gap", "lines"]


def test_a_container_that_starts_again(server, following):
    """The log of the next attempt is never taken for this one's."""
    pod = server.pods["pod"]
    pod.now.lines += numbered(10)
    first = following.start()
    following.until(text_of(numbered(10)))
    pod.now.lines += numbered(20, begin=10)
    # The container ends and is started again, before anybody here knows.
    server.faults = [("cut", 1), ("cut", 1)]
    pod.runs.append(Run(numbered(105, begin=100)))
    pod.runs[0].ended = True
    wait_for(lambda: len(server.asked) > 3)
    following.over.set()
    first.wake()
    first.join(5)
    assert first.complete and following.text == text_of(numbered(20))
    assert any("previous" in query for query in server.asked)
    second = following.start(Attempt("pod", "uid", "node", 1), lambda: pod.now.ended)
    following.until(text_of(numbered(20)) + text_of(numbered(105, begin=100)))
    pod.now.ended = True
    second.join(5)
    assert second.complete


def test_an_attempt_that_nobody_has_seen(server, following):
    pod = server.pods["pod"]
    pod.runs = [Run(numbered(3), True), Run(numbered(6, begin=3), True), Run(numbered(9, begin=6))]
    following.over.set()
    gone, previous = (following.start(Attempt("pod", "uid", "node", n)) for n in (0, 1))
    gone.join(5)
    previous.join(5)
    assert (gone.complete, previous.complete) == (False, True)
    assert following.text == text_of(numbered(6, begin=3))


def test_another_pod_of_the_same_name(server, following):
    server.pods["pod"].now.lines += numbered(3)
    server.pods["pod"].uid = "another"
    stream = following.start()
    wait_for(lambda: len(server.asked) > 2)
    following.over.set()
    stream.wake()
    stream.join(5)
    assert stream.finished and not stream.complete and following.text == b""


def test_a_pod_that_is_gone(server, following):
    pod = server.pods["pod"]
    pod.now.lines += numbered(3)
    stream = following.start()
    following.until(text_of(numbered(3)))
    del server.pods["pod"]
    pod.now.ended = True
    stream.join(5)
    assert stream.finished and not stream.complete and stream._spool.done


def test_what_a_node_writes_down_when_the_container_has_ended(server, following):
    """It counts as ended before all that it printed is in the node's file."""
    run = server.pods["pod"].now
    run.lines += [*numbered(3), stamped(b"pre")[:-1]]
    run.ended = True
    following.over.set()
    stream = following.start()
    following.until(text_of(numbered(3)))
    time.sleep(0.2)
    assert not stream.finished
    run.lines[3:] = numbered(1000, begin=3)
    stream.join(5)
    assert stream.complete and following.text == text_of(run.lines)


@pytest.mark.slow
def test_the_last_word_of_a_worker_that_ended_well_is_waited_for(server, following):
    """However long a busy node needs to write it down."""
    word = encode(KEY, 0, "0123abcd", 1, {"kind": "finished"})[0][:-1]
    run = server.pods["pod"].now
    run.lines += numbered(3)
    run.ended = True
    following.over.set()
    stream = following.start(well=True)
    time.sleep(1.5)
    assert not stream.finished
    run.lines += [stamped(b"done"), stamped(word)]
    stream.join(6)
    assert stream.complete and following.text.endswith(b"done\n")


@pytest.mark.slow
def test_a_log_without_the_last_word_of_a_worker_that_ended_well_is_told(server, following):
    """A busy node drops what it has not taken when the container has ended."""
    run = server.pods["pod"].now
    run.lines += numbered(3)
    run.ended = True
    following.over.set()
    stream = following.start(well=True)
    stream.join(8)
    assert stream.complete and following.text == text_of(run.lines)
    (problem,) = following.problems
    assert problem == say.NO_END_MARKER(log=say.POD(pod="pod"))


def test_after_a_workers_last_word_the_log_settles_sooner(server, following, monkeypatch):
    monkeypatch.setattr(logstream, "_SETTLES", 60)
    word = encode(KEY, 0, "0123abcd", 1, {"kind": "finished"})[0][:-1]
    run = server.pods["pod"].now
    run.lines += [stamped(b"done"), stamped(word)]
    run.ended = True
    following.over.set()
    stream = following.start()
    stream.join(5)
    assert stream.complete and following.text == b"done\n"


def test_a_pod_that_goes_before_its_log_has_settled(server, following):
    run = server.pods["pod"].now
    run.lines += [*numbered(3), stamped(b"no newline")[:-1]]
    run.ended = True
    following.over.set()
    stream = following.start()
    following.until(text_of(numbered(3)))
    del server.pods["pod"]
    stream.join(5)
    assert stream.complete and following.text == text_of(run.lines)


def test_a_node_that_does_not_know_its_pod_yet(server, following):
    """So answers a kubelet that has just been started again."""
    run = server.pods["pod"].now
    run.lines += numbered(3)
    server.faults = [("cut", 40), 404, 404, 404]
    stream = following.start()
    run.lines += numbered(6, begin=3)
    following.until(text_of(run.lines))
    server.faults = [404, 404]
    run.ended = True
    following.over.set()
    stream.wake()
    stream.join(5)
    assert stream.complete and not following.problems
    assert following.text == text_of(run.lines)


def test_waiting_to_start(server, following, monkeypatch):
    monkeypatch.setattr(logstream, "_STARTING_WAIT", 0.02)
    pod = server.pods["pod"]
    pod.waiting = True
    following.start()
    wait_for(lambda: len(server.asked) > 3)
    pod.now.lines += numbered(3)
    pod.waiting = False
    following.until(text_of(numbered(3)))
    assert not following.problems


def test_never_started(server, following):
    server.pods["pod"].waiting = True
    following.over.set()
    stream = following.start()
    stream.join(5)
    assert stream.finished and not stream.complete


def test_no_right(server, following, monkeypatch):
    monkeypatch.setattr(logstream, "_FORBIDDEN_WAIT", 0.02)
    server.faults = [403] * 4
    server.pods["pod"].now.lines += numbered(3)
    following.start()
    following.until(text_of(numbered(3)))
    (problem,) = following.problems
    assert problem.startswith(cluster.NO_PERMISSION(right="get pods/log", lost=""))


def test_who_takes_messages_fails_once(server, following):
    frame = encode(KEY, 0, "0123abcd", 1, {"kind": "hello"})[0][:-1]
    server.pods["pod"].now.lines += [stamped(b"a"), stamped(b"b" + frame), stamped(b"c")]
    taken = []

    def take(message, place):
        taken.append(place)
        if len(taken) == 1:
            raise OSError(28, "No space left on device")

    spool = Spool(following.log, "uid-node-0", take)
    stream = LogStream(
        following.client,
        spool,
        Attempt("pod", "uid", "node"),
        following.over.is_set,
        following.problems.append,
    )
    following.streams.append(stream)
    stream.start()
    following.until(b"a\nbc\n")
    wait_for(lambda: len(taken) == 2)
    assert taken == [3, 3] and "No space left" in following.problems[0]


def test_stop_returns_from_a_silent_connection(server, following):
    stream = following.start()
    wait_for(lambda: stream._response is not None)
    time.sleep(0.05)
    began = time.monotonic()
    stream.stop()
    stream.join(5)
    assert time.monotonic() - began < 1 and not stream.finished


@pytest.mark.parametrize("sizes", [[1], [2, 3], [7], [5000]])
def test_bodies_in_any_pieces(sizes):
    body = [os.urandom(n) for n in (1, 2, 10, 1000, 70_000)]
    raw = b"".join(b"%x\r\n%s\r\n" % (len(b), b) for b in body) + b"0\r\n\r\n"
    reads = iter(random.Random(1).choices(sizes, k=len(raw)))

    def read(limit):
        nonlocal raw
        size = min(limit, next(reads))
        piece, raw = raw[:size], raw[size:]
        return piece

    assert b"".join(httpbody._dechunked(read)) == b"".join(body)


@pytest.mark.parametrize(
    "raw", [b"", b"5\r\nab", b"zz\r\n", b"-5\r\nabc", b"1" * 3000, b"1\r\na\r\n"]
)
def test_damaged_bodies(raw):
    pieces = iter([raw, b""])
    with pytest.raises(httpbody.BodyCutError):
        list(httpbody._dechunked(lambda _: next(pieces)))


FOLLOWER = """
import sys, threading
sys.path[:0] = [{tests!r}]
from logserver import PlainClient
from jupyter_jax_trainer.backends.kubernetes.logs.logstream import Attempt, LogStream
from jupyter_jax_trainer.backends.kubernetes.logs.spool import ContainerLog, Spool
from jupyter_jax_trainer.jobdir.files import LineReader, LineWriter
from jupyter_jax_trainer.jobdir.layout import JobDir
directory, client = JobDir({path!r}), PlainClient({url!r})
streams = []
for rank in range({ranks}):
    events = directory.path / f"events-{{rank}}.jsonl"
    applied = {{}}
    for line in LineReader(events).read():
        applied[line["frame"][0]] = line["frame"][1]
    writer = LineWriter(events)
    log = ContainerLog(directory, rank, {key!r})
    spool = Spool(log, f"uid-node-{{rank}}", lambda m, _, w=writer: w.write({{"frame": m.frame}}), applied)
    if not spool.done:
        streams.append(LogStream(client, spool, Attempt(f"pod-{{rank}}", "uid", "node"),
                                 lambda: {over}, print))
print("ready", flush=True)
for stream in streams:
    stream.start()
for stream in streams:
    stream.join()
"""


@pytest.mark.slow
def test_killed_twenty_times(server, tmp_path):
    """8 pods print 20,000 lines each, with messages among them; the follower is killed -9."""
    directory = JobDir(tmp_path / "job")
    directory.logs.mkdir(parents=True)
    ranks, chance = 8, random.Random(5)
    expected, messages = {}, {}
    server.chunk = 20
    for rank in range(ranks):
        lines, text, number = [], b"", 0
        for i in range(20_000):
            now = 1_795_268_098 * 10**9 + (i // 3) * 10**6  # several lines at a time
            words = b"rank %d line %d" % (rank, i)
            text += words + b"\n"
            if i % 500 == 250:  # a frame within a line
                number += 1
                frame = encode(KEY, rank, "0123abcd", number, {"kind": "x", "i": i})[0][:-1]
                lines += [stamped(words[:5] + frame, now), stamped(words[5:], now)]
            else:
                lines.append(stamped(words, now))
        server.pods[f"pod-{rank}"] = Pod(runs=[Run()])
        expected[rank], messages[rank] = (lines, text), number

    def play() -> None:
        for at in range(0, 21_000, 100):
            for rank in range(ranks):
                server.pods[f"pod-{rank}"].now.lines += expected[rank][0][at : at + 100]
            time.sleep(0.03)
        for rank in range(ranks):
            server.pods[f"pod-{rank}"].now.ended = True

    def follower(over: bool) -> subprocess.Popen:
        program = FOLLOWER.format(
            tests=str(Path(__file__).parent),
            path=str(directory.path),
            url=server.url,
            ranks=ranks,
            key=KEY,
            over=over,
        )
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    player = threading.Thread(target=play)
    player.start()
    for kill in range(20):
        process = follower(over=False)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, 0.4) if kill % 2 else chance.uniform(0, 0.06))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    player.join()
    process = follower(over=True)
    assert process.communicate(timeout=60)[0] == b"ready\n"
    for rank in range(ranks):
        assert directory.log(rank).read_bytes() == expected[rank][1]
        events = (directory.path / f"events-{rank}.jsonl").read_text().splitlines()
        numbers = [int(line.split('"0123abcd", ')[1].split("]")[0]) for line in events]
        assert numbers == list(range(1, messages[rank] + 1))
