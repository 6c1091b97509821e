"""The spool of a pod's log: nothing lost, nothing doubled, wherever it is cut or killed."""

import errno
import os
import random
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.backends.kubernetes.logs import linebuffer, spool, timestamps, wal
from jupyter_jax_trainer.backends.kubernetes.logs.messages import Gap, Message
from jupyter_jax_trainer.jobdir.files import LineReader
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.logs.reader import MergedReader
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.worker.pod.frames import encode

KEY, RANK, WHO = b"6" * 64, 3, "0123abcd"
BEGAN = 1_795_268_098  # seconds


class Killed(BaseException):
    pass


def stamp(ns: int, zone: str = "Z") -> bytes:
    moment = datetime.fromtimestamp(BEGAN + ns // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}{zone}".encode()


def log_of(*lines: bytes, step: int = 10**8) -> list[bytes]:
    return [stamp(i * step) + b" " + line + b"\n" for i, line in enumerate(lines)]


def lost(lines: str) -> bytes:
    """Return the line that stands in a log where something is missing."""
    return f"[jaxtrain: {say.LINES_LOST_HERE(lines=lines)}]\n".encode()


class Node:
    """What a kubelet does with a log: all lines from a whole second on, in the file's order."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines

    def read(self, since: str | None) -> bytes:
        if since is None:
            return b"".join(self.lines)
        at = datetime.fromisoformat(since).timestamp() * 10**9
        return b"".join(line for line in self.lines if timestamps.stamp_of(line) >= at)


class Follower:
    """Followers one after another on one job directory."""

    def __init__(self, path: Path, rank: int = RANK) -> None:
        self.directory = JobDir(path)
        self.directory.logs.mkdir(parents=True, exist_ok=True)
        self.messages: list[Message] = []
        self.places: list[int] = []
        self.applied: dict[str, int] = {}
        self.rank = rank
        self.start()

    def start(self) -> None:
        self.log = spool.ContainerLog(self.directory, self.rank, KEY)
        self.spool = self.stream("uid-node-0")

    def stream(self, name: str) -> spool.Spool:
        return spool.Spool(self.log, name, self.take, self.applied)

    def take(self, message: Message, place: int) -> None:
        assert self.directory.log(self.rank).stat().st_size >= place
        self.messages.append(message)
        self.places.append(place)
        if message.number:
            self.applied[message.incarnation] = message.number

    @property
    def text(self) -> bytes:
        return self.directory.log(self.rank).read_bytes()

    @property
    def index(self) -> list[list]:
        return list(LineReader(self.directory.log_index).read())

    def read_all(self, node: Node) -> None:
        self.spool.feed(node.read(self.spool.begin()))


def reference(lines: list[bytes]) -> tuple[bytes, list]:
    """All in one go, in memory: what must come of it."""
    from jupyter_jax_trainer.backends.kubernetes.logs.textreader import TextReader

    text, messages = TextReader(KEY, RANK).read(b"".join(lines), False)
    return text, [(m.frame, place) for m, place in messages if m.frame]


@pytest.fixture
def follower(tmp_path):
    return Follower(tmp_path / "job")


# -- the parts -----------------------------------------------------------------------------------


def test_stamps():
    base = BEGAN * 10**9
    assert timestamps.stamp_of(stamp(123456789) + b" x") == base + 123456789
    assert timestamps.stamp_of(b"2026-11-21T13:34:58Z x") == base
    assert timestamps.stamp_of(b"2026-11-21T15:34:58.5+02:00 x") == base + 5 * 10**8
    assert timestamps.stamp_of(b"2026-11-21T08:04:58-05:30 ") == base
    for line in (
        b"",
        b"text",
        b"2026-13-41T13:34:58Z x",
        b"2026-11-21T13:34:58Zx",
        b"2026-11-21T13:34:58+99:00 x",
        b"failed to create fsnotify watcher: too many\n",
    ):
        assert timestamps.stamp_of(line) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Z", "+02:00", "short", "none"]),
            st.binary(max_size=50).filter(lambda b: b"\n" not in b),
        ),
        min_size=1,
    ),
    st.booleans(),
)
@example([("short", b"12345678 apples")], True)
def test_stamps_are_taken_off(lines, ended):
    made = {
        "Z": stamp(5) + b" ",
        "+02:00": stamp(5, "+02:00") + b" ",
        "short": b"2026-11-21T13:34:58.1Z ",
        "none": b"error: ",
    }
    raw = b"\n".join(made[kind] + text for kind, text in lines) + b"\n" * ended
    text = b"".join(t + b"\n" for kind, t in lines if kind != "none")
    if not ended and lines[-1][0] != "none":
        text = text[:-1]
    strays = [made["none"] + t for kind, t in lines if kind == "none"]
    assert timestamps.without_stamps(raw) == (text, strays)
    stamped = [timestamps.stamp_of(made[kind]) for kind, _ in lines if kind != "none"]
    assert timestamps.last_stamp(raw) == (stamped[-1] if stamped else None)


@given(st.lists(st.binary(max_size=30)), st.lists(st.integers(0, 300)))
def test_lines_do_not_depend_on_the_cuts(pieces, cuts):
    whole = b"\n".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linebuffer, "MAX_LINE", 20)
        once = linebuffer.LineBuffer()
        expected = once.add(whole) + once.rest()
        cut = linebuffer.LineBuffer()
        edges = [0, *sorted(c for c in cuts if c < len(whole)), len(whole)]
        given_lines = [cut.add(whole[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
        assert all(not line or line.endswith(b"\n") for line in given_lines)
        assert b"".join(given_lines) + cut.rest() == expected


def test_long_lines_are_cut_in_bounded_memory():
    frame = encode(KEY, RANK, WHO, 1, {"kind": "hello"})[0]
    for size in (linebuffer.MAX_LINE, linebuffer.MAX_LINE + 1, 20 << 20):
        buffer = linebuffer.LineBuffer()
        tracemalloc.start()
        piece = b"x" * 4096
        for _ in range(size // 4096):
            assert buffer.add(piece) == b""
        buffer.add(b"x" * (size % 4096))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 << 20
        line = buffer.add(frame)
        more = size - linebuffer.MAX_LINE
        whole = b"x" * min(size, linebuffer.MAX_LINE)
        cut = f"… ({more} bytes more, cut)".encode() if more else b""
        assert line == whole + cut + frame


# -- text, index, messages -----------------------------------------------------------------------


def test_text_index_and_messages(follower):
    frame = encode(KEY, RANK, WHO, 1, {"kind": "hello", "x": 1})[0][:-1]
    follower.read_all(Node(log_of(b"one", b"", b"50%" + frame, b"60%\r\x0b", "é\u2028".encode())))
    assert follower.text == "one\n\n50%60%\r\x0b\né\u2028\n".encode()
    assert follower.places == [8] and follower.applied == {WHO: 1}
    assert follower.index == [[RANK, len(follower.text), BEGAN + 0.4]]
    assert oct(follower.directory.log(RANK).stat().st_mode)[-3:] == "600"
    assert [line.text for line in MergedReader(follower.directory, [RANK]).finish()][0] == "one"


def test_lines_that_come_again(follower):
    same = [stamp(10**9) + b" tick\n"] * 3
    more = [stamp(10**9) + b" tick\n"] * 2 + [stamp(2 * 10**9) + b" end\n"]
    follower.read_all(Node(same))
    follower.read_all(Node(same + more))
    follower.read_all(Node(same + more))
    assert follower.text == b"tick\n" * 5 + b"end\n"


def test_a_cut_within_a_line_leaves_nothing(follower):
    lines = log_of(b"first", b"second")
    follower.spool.begin()
    follower.spool.feed(b"".join(lines)[:-3])
    assert follower.text == b"first\n"
    follower.read_all(Node(lines))
    assert follower.text == b"first\nsecond\n"


def test_a_last_line_without_a_newline(follower):
    lines = log_of(b"first", b"last")
    lines[-1] = lines[-1][:-1]
    for _ in range(2):
        follower.read_all(Node(lines))
        follower.spool.finish()
    assert follower.text == b"first\nlast"
    following = follower.stream("uid-node-1")
    following.begin()
    following.feed(log_of(b"again")[0])
    assert follower.text == b"first\nlast\nagain\n"
    follower.spool.close()
    assert follower.spool.done and not following.done
    spool.remove_wal(follower.directory)
    assert not (follower.directory.logs / ".wal").exists()


def test_what_the_node_says_is_no_text(follower):
    tail = b"the end of a line from before\n"
    lines = log_of(b"one", b"two")
    follower.read_all(Node(lines))
    follower.spool.begin()
    follower.spool.feed(tail + b"".join(lines) + b"failed to create fsnotify watcher\n")
    assert follower.text == b"one\ntwo\n"
    assert [m.text for m in follower.messages] == ["failed to create fsnotify watcher"]


def test_the_last_look_finds_what_a_step_back_has_hidden(follower):
    """The node leaves out what is older than the time asked for, in what it follows, too."""
    lines = log_of(*(b"%d" % i for i in range(100)))
    lines += [stamp(-(10**12)) + b" hidden\n", stamp(-(10**12)) + b" as well\n"]
    follower.read_all(Node(lines[:100]))
    follower.read_all(Node(lines))
    assert follower.text.endswith(b"99\n")
    assert follower.spool.begin(last=True) is None
    follower.spool.feed(Node(lines).read(None))
    assert follower.text.splitlines()[98:] == [b"98", b"99", b"hidden", b"as well"]


@pytest.mark.parametrize("segment", [100, 1000, 512 << 10])
@pytest.mark.parametrize("back", [1, 30, 4000])
def test_a_clock_that_steps_back(follower, monkeypatch, back, segment):
    """Lines older than the last one are kept; a reconnect just then loses and doubles nothing."""
    monkeypatch.setattr(spool, "SEGMENT", segment)
    second = 10**9
    times = [5000 * second + i * second // 4 for i in range(20)]
    times += [t + (6 - back) * second for t in times]
    times += [t + 6 * second for t in times[20:]]
    lines = [stamp(t) + b" line %d\n" % i for i, t in enumerate(times)]
    for count in (22, 25, 39, 40, 45, 60, 60):
        follower.read_all(Node(lines[:count]))
        follower.start()
    expected = [b"line %d" % i for i in range(60)]
    assert follower.text.splitlines() == expected


def test_a_window_shorter_than_what_comes_again(follower, monkeypatch):
    """A burst: the last seconds are more than what is kept."""
    monkeypatch.setattr(spool, "SEGMENT", 2000)
    lines = log_of(*(b"%d" % (i // 3) for i in range(3000)), step=10**5)
    for end in range(0, 3001, 100):
        follower.read_all(Node(lines[:end]))
        files = list(follower.log.wal.glob("*"))
        assert sum(f.stat().st_size for f in files) < 20_000 and len(files) <= 2
    assert follower.text == reference(lines)[0]


def test_a_rotation_while_disconnected(follower, monkeypatch):
    monkeypatch.setattr(spool, "SEGMENT", 2000)
    lines = log_of(*(b"%d" % i for i in range(900)), step=10**6)
    follower.read_all(Node(lines[:300]))
    follower.read_all(Node(lines[500:600]))
    follower.read_all(Node(lines[590:]))
    assert follower.text == reference(lines[:300] + lines[500:])[0]


def test_offsets_and_short_times(follower):
    lines = [
        b"2026-11-21T15:34:58.5+02:00 a\n",
        b"2026-11-21T15:34:59+02:00 b\n",
        b"2026-11-21T15:34:59.25+02:00 c\n",
    ]
    for end in (1, 2, 3, 3):
        follower.read_all(Node(lines[:end]))
    assert follower.text == b"a\nb\nc\n"
    assert follower.spool.begin() == "2026-11-21T13:34:58Z"


# -- what is missing -----------------------------------------------------------------------------


def counted(number: int, count: int, size: int | None = None) -> bytes:
    message = {"kind": "lines", "count": count} | ({} if size is None else {"bytes": size})
    return encode(KEY, RANK, WHO, number, message)[0][:-1]


def test_lost_lines_are_marked(follower):
    hello = encode(KEY, RANK, WHO, 1, {"kind": "hello"})[0][:-1]
    lines = log_of(
        b"shell",
        hello,
        b"a",
        b"b",
        b"native",
        counted(2, 2),
        b"c",
        counted(3, 10),
        b"d",
        b"50%" + counted(4, 14),
        b"e",
        counted(7, 14),
    )
    kinds = []
    take = follower.take
    follower.spool._on_message = lambda m, p: (
        kinds.append((m.kind, m.lines if isinstance(m, Gap) else None)),
        take(m, p),
    )
    follower.read_all(Node(lines))
    # No line is cut.
    assert follower.text == (
        b"shell\na\nb\nnative\nc\n" + lost("7 lines") + b"d\n50%e\n" + lost("3 lines")
    )
    assert kinds == [
        ("hello", None),
        ("lines", None),
        ("gap", 7),
        ("lines", None),
        ("gap", 3),
        ("lines", None),
        ("frames_lost", None),
        ("lines", None),
    ]
    frames = follower.messages[6]
    assert (frames.first, frames.last, frames.frame) == (5, 6, [WHO, 6])


def test_a_loss_is_marked_where_the_last_line_never_ends(follower):
    finished = encode(KEY, RANK, WHO, 3, {"kind": "finished"})[0][:-1]
    lines = log_of(counted(1, 0), b"x", b"80%" + counted(2, 9), finished)
    follower.read_all(Node(lines))
    assert follower.text.endswith(b"80%\n" + lost("8 lines"))


def test_a_lost_part_of_a_line_is_marked(follower):
    """A node that rotates its file cuts the line that is being written, and may lose one half."""
    hello = encode(KEY, RANK, WHO, 1, {"kind": "hello"})[0][:-1]
    cut = b"x" * (2 * linebuffer.MAX_LINE)  # by us: that is said in its place, and no loss
    lines = log_of(
        b"shell",
        hello,
        b"a",
        b"50%" + counted(2, 1, 5),
        b"",
        cut,
        counted(3, 3, 7 + len(cut)),
        b"of a line",
        counted(4, 4, 27 + len(cut)),
        b"b",
        counted(5, 7, 30 + len(cut)),
        b"c",
        b"native",
        counted(6, 8, 43 + len(cut)),
    )
    follower.read_all(Node(lines))
    before, _, after = follower.text.partition(b" bytes more, cut)\n")
    assert before.startswith(b"shell\na\n50%\nxxx")
    assert after == b"".join(
        (
            b"of a line\n" + lost(say.PART_OF_LINE(size="10 bytes")),
            b"b\n" + lost("2 lines"),
            b"c\nnative\n" + lost(say.PART_OF_LINE(size="4 bytes")),
        )
    )
    gaps = [(m.lines, m.size) for m in follower.messages if isinstance(m, Gap)]
    assert gaps == [(0, 10), (2, 2), (0, 4)]


def test_a_log_whose_begin_is_gone(follower):
    follower.read_all(Node(log_of(b"x", counted(9, 100))))
    assert follower.text == b"x\n" + lost("99 lines")


def test_the_callers_own_gap(follower):
    gone = say.LOG_GONE(number=1)
    follower.spool.gap(gone)
    follower.read_all(Node(log_of(b"x")))
    assert follower.text == f"[jaxtrain: {gone}]\nx\n".encode()


def test_no_key_no_messages(tmp_path):
    directory = JobDir(tmp_path)
    directory.logs.mkdir()
    log = spool.ContainerLog(directory, RANK, None)
    stream = spool.Spool(log, "u-node-0", pytest.fail)
    stream.begin()
    stream.feed(log_of(b"a" + counted(1, 1), b"b")[0] + log_of(b"b")[0])
    assert directory.log(RANK).read_bytes() == b"ab\n"


# -- cuts and kills ------------------------------------------------------------------------------

part = st.binary(max_size=12).map(lambda b: b.replace(b"\n", b""))
texts = st.sampled_from([b"", b"tick", b"a\rb", b"\x0b", "é\u2028".encode(), b"\xff\xfe"]) | part


@st.composite
def logs(draw):
    """A log as a node has it: times that repeat, frames anywhere, messages of many parts."""
    lines, now, number = [], 0, 0
    for _ in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0, 0, 1, 10**8, 10**9, 4 * 10**9]))
        kind = draw(st.sampled_from(["text"] * 4 + ["frame", "frame", "parts", "lines"]))
        if kind == "text":
            lines.append(stamp(now) + b" " + draw(texts) + b"\n")
            continue
        number += draw(st.sampled_from([1, 1, 1, 2]))
        message = {"kind": "x"}
        if kind == "parts":
            message["data"] = random.Random(number).randbytes(4500).hex()
        elif kind == "lines":
            message = {"kind": "lines", "count": draw(st.integers(0, 20))}
            if draw(st.booleans()):
                message["bytes"] = draw(st.integers(0, 200))
        before = draw(texts) if draw(st.booleans()) else b""
        for frame in encode(KEY, RANK, WHO, number, message):
            lines.append(stamp(now) + b" " + before + frame)
            before = b""
            if draw(st.integers(0, 4)) == 0:
                lines.append(stamp(now) + b" " + draw(texts) + b"\n")
    return lines


class Disk:
    """os.write that dies at its n-th call, after some of the bytes."""

    def __init__(self, at: int, part: float, error: type[BaseException] = Killed) -> None:
        self.left, self.part, self.error = at, part, error
        self.write = os.write

    def __call__(self, file: int, data: bytes) -> int:
        self.left -= 1
        if self.left == 0:
            self.write(file, data[: int(len(data) * self.part)])
            raise self.error(errno.ENOSPC, "full")
        return self.write(file, data)


def expected_of(lines, follower):
    text, messages = reference(lines)
    assert follower.text == text
    both = zip(follower.messages, follower.places, strict=True)
    assert [(m.frame, place) for m, place in both if m.frame] == messages
    ends = [row[1] for row in follower.index]
    assert ends == sorted(set(ends)) and (not text or ends[-1] == len(text))


@given(logs(), st.data())
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_cuts_and_kills_anywhere(tmp_path_factory, lines, data):
    follower = Follower(tmp_path_factory.mktemp("job"))
    whole = Node(lines)
    size = len(whole.read(None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "SEGMENT", data.draw(st.sampled_from([300, 3000, 512 << 10])))
        patch.setattr(spool, "PARTED", 1000)  # no log has two megabytes of one nanosecond
        for _ in range(data.draw(st.integers(0, 6))):
            # A connection that breaks after some bytes, and a process that dies at some write.
            dies = data.draw(st.integers(0, 9))
            disk = Disk(
                dies,
                data.draw(st.sampled_from([0, 0.3, 0.5, 0.99, 1])),
                data.draw(st.sampled_from([Killed, OSError])),
            )
            with pytest.MonkeyPatch.context() as deadly:
                deadly.setattr(os, "write", disk)
                try:
                    stream = whole.read(follower.spool.begin())
                    end = data.draw(st.integers(0, min(size, len(stream))))
                    while stream and end > 0:
                        step = data.draw(st.sampled_from([1, 40, 200, 5000]))
                        follower.spool.feed(stream[: min(step, end)])
                        stream, end = stream[step:], end - step
                except (Killed, OSError):
                    pass
            if disk.error is Killed:
                follower.start()
        follower.read_all(whole)
    expected_of(lines, follower)


def test_killed_at_every_byte_of_every_write(tmp_path):
    """Each write of a small log is cut at each of its bytes."""
    frames = encode(KEY, RANK, WHO, 1, {"kind": "x", "d": random.Random(1).randbytes(4000).hex()})
    lines = log_of(b"one", b"50%" + frames[0][:-1], frames[1][:-1], b"two", counted(2, 9), b"end")
    pieces = [b"".join(lines[:2]), b"".join(lines[2:4]), b"".join(lines[4:])]
    number = 0
    while True:
        number += 1
        wrote = 0
        for part in [0.0, *(i / 13 for i in range(1, 13)), 0.999, 1.0]:
            follower = Follower(tmp_path / f"{number}-{part}")
            disk = Disk(number, part)
            with pytest.MonkeyPatch.context() as deadly:
                deadly.setattr(os, "write", disk)
                try:
                    follower.spool.begin()
                    for piece in pieces:
                        follower.spool.feed(piece)
                except Killed:
                    wrote += 1
            follower.start()
            follower.read_all(Node(lines))
            expected_of(lines, follower)
        if not wrote:
            break
    assert number > 8


def test_killed_between_messages(tmp_path):
    """Messages of the last piece are given once more, from the first that was not applied."""
    lines = log_of(*(encode(KEY, RANK, WHO, n, {"kind": "x"})[0][:-1] for n in range(1, 6)))
    for dies in range(1, 6):
        follower = Follower(tmp_path / str(dies))
        take = follower.take

        def deadly(message, place, take=take, dies=dies):
            if message.number == dies:
                raise Killed
            take(message, place)

        follower.spool._on_message = deadly
        with pytest.raises(Killed):
            follower.read_all(Node(lines))
        follower.start()
        follower.read_all(Node(lines))
        assert [m.number for m in follower.messages] == [1, 2, 3, 4, 5]


def test_a_stream_that_died_is_mended_before_the_next_one_writes(tmp_path):
    for error in (Killed, OSError):
        follower = Follower(tmp_path / error.__name__)
        follower.spool.begin()
        with pytest.MonkeyPatch.context() as deadly:
            deadly.setattr(os, "write", Disk(3, 0.5, error))
            with pytest.raises(error):
                follower.spool.feed(b"".join(log_of(b"one", b"two", b"three")))
        assert follower.text not in (b"", b"one\ntwo\nthree\n")
        if error is Killed:
            follower.start()
        second = follower.stream("uid-node-1")
        second.begin()
        second.feed(log_of(b"next")[0])
        assert follower.text == b"one\ntwo\nthree\nnext\n"
        assert [row[1] for row in follower.index] == [14, 19]


def test_two_ranks_share_the_index(tmp_path):
    one, two = Follower(tmp_path, 0), Follower(tmp_path, 1)
    for n in range(3):
        one.read_all(Node(log_of(*[b"a"] * (n + 1))))
        two.read_all(Node(log_of(*[b"b"] * (n + 1))))
    with one.directory.log_index.open("ab") as file:
        file.write(b"[0, 9")  # cut off by a kill
    third = Follower(tmp_path, 0)
    third.read_all(Node(log_of(*[b"a"] * 4)))
    assert [row[:2] for row in third.index] == [
        [0, 2],
        [1, 2],
        [0, 4],
        [1, 4],
        [0, 6],
        [1, 6],
        [0, 8],
    ]


def test_a_deleted_job_does_not_come_back(follower):
    import shutil

    shutil.rmtree(follower.directory.path)
    follower.spool.begin()
    with pytest.raises(FileNotFoundError):
        follower.spool.feed(log_of(b"x")[0])
    assert not follower.directory.path.exists()


def test_streams_of_a_wal_are_told_apart(tmp_path):
    for name in ("u-node-1", "u-node-10", "u-node-1.x"):
        segments = wal.Wal(tmp_path, name)
        segments.rotate(b"s")
        segments.close()
    assert wal.streams_in(tmp_path) == ["u-node-1", "u-node-1.x", "u-node-10"]
    assert len(wal.Wal(tmp_path, "u-node-1")._paths()) == 1
