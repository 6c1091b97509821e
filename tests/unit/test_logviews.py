"""Views of a log and searches in them: the same lines as a plain implementation finds."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from itertools import pairwise

import policy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.logs import marks
from jupyter_jax_trainer.logs.book import LogBook
from jupyter_jax_trainer.logs.first_error import first_error
from jupyter_jax_trainer.logs.intervals import Runs
from jupyter_jax_trainer.logs.patterns import Pattern, visible
from jupyter_jax_trainer.logs.reader import is_noise
from jupyter_jax_trainer.logs.search import Search
from jupyter_jax_trainer.logs.span import GONE
from jupyter_jax_trainer.logs.view import LogView
from jupyter_jax_trainer.queries import logtopics

try:
    import re2
except ImportError:
    re2 = None


@pytest.fixture
def needs_re2():
    if re2 is None:
        policy.skip_or_fail("re2", "google-re2 is not installed")


GLOO = b"[Gloo] Rank 3 is connected"
ABSL = b"I1121 17:00:00.123456   12345 service.cc:152] XLA service"
TORN = b"0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"
ENDS = [
    b"Additional GRPC error information from remote target coordination_service while calling "
    b"/xla.coordination.CoordinationService/WatchTasks:",
    b":CANCELLED:CANCELLED [type.googleapis.com/tensorflow.DerivedStatus='']",
    b":UNAVAILABLE:failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1",
    b"=== Source Location Trace: ===",
    b"external/xla+/xla/tsl/distributed_runtime/rpc/grpc_util.h:89",
    b"Current allocation summary follows.",
]
ABSL_BEGINS = b"WARNING: All log messages before absl::InitializeLog() is called"
NOISE = [GLOO, TORN, ABSL, ABSL_BEGINS, *ENDS]
NEARLY = [
    b"[Gloo] is mine",
    b"I1121 17:00 me",
    b"WARNING: All is well",
    b" [Gloo] Rank 1",
    b"0 is connected to 1 host",
    b"Additional GRPC error information from remote target x while calling /Barrier:",
    b":UNAVAILABLE: the disk",
    b"external/xla.txt was read",
    b"I",
    b"[",
]


class Job:
    """A job that is written line by line, from some ranks in turn."""

    def __init__(self, path, ranks=3):
        (path / "logs").mkdir(parents=True)
        self.directory, self.ranks = JobDir(path), ranks
        self.lengths = [0] * ranks
        self.book = LogBook(self.directory, [*range(ranks)])

    def write(self, *lines, rank=None, every=1):
        rank = sum(self.lengths) % self.ranks if rank is None else rank
        for line in lines:
            with self.directory.log(rank).open("ab") as file:
                self.lengths[rank] += file.write(line + b"\n")
            with self.directory.log_index.open("ab") as file:
                file.write(json.dumps([rank, self.lengths[rank], 1.5]).encode() + b"\n")
            rank = (rank + 1) % self.ranks
        self.book.refresh()


def whole(view):
    """Return what a view shows, by positions; its ways to ask must agree."""
    assert view.advance()
    found = view.lines(0, 10**6)
    assert len(found) == view.length
    positions = [line.position for line in found]
    assert positions == [n for a, b in view.within(0, 10**6) for n in range(a, b)]
    for n, line in enumerate(found):
        assert view.index(line.position) == n
    assert view.lines(1, 2) == found[1:3]
    return positions


def naive(pattern, regex, case):
    if regex:
        options = re2.Options()
        options.case_sensitive = case
        found = re2.compile(pattern, options)
        return lambda line: found.search(visible(line)) is not None
    fold = (lambda text: text) if case else str.casefold
    return lambda line: fold(pattern) in fold(visible(line).decode())


WORDS = st.lists(
    st.sampled_from(
        [
            b"a",
            b"A",
            b"loss",
            b"Loss ",
            b" ",
            b"1",
            b"22",
            "é".encode(),
            "É".encode(),
            b"\xff",
            b"\x1b[31m",
            b"\x1b[0m",
            b"\r",
            b"\t",
            "ß".encode(),
            b"\x00",
            b"(",
        ]
    ),
    max_size=6,
).map(b"".join)
LINES = st.lists(st.one_of(WORDS, WORDS, st.sampled_from(NOISE + NEARLY)), max_size=40)
REGEX = [
    "a",
    "^a",
    "a$",
    "^$",
    "loss|1",
    r"\d+",
    "a.*1",
    "[^a]",
    r"\s",
    r"a\s*1",
    "(a)(b|l)",
    "x*",
    r"\Aa",
    r"1\z",
    ".",
    r"\W$",
    "(?i)LOSS",
    "É",
    r"\Q(\E",
    r"\Q(",
    "(?s).a",
    r"\bloss\b",
    "[^a]$",
    r"\D\D",
    "a?$",
    r"\\A|A",
    "a{0,3}1",
    r"^\S+$",
    "^(a|1)+$",
    r"a\C",
    "\u2603",
]
PATTERN = st.one_of(
    st.tuples(
        st.sampled_from(
            ["a", "A", "loss", "É", "1", " ", "ss", "22", "[31m", "\u2603", "\ufffd", "aa"]
        ),
        st.just(False),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(REGEX), st.just(re2 is not None), st.booleans()),
)
SIZES = st.sampled_from([(1 << 20, 1 << 17), (30, 200), (1, 1)])


def small_blocks(patch, sizes):
    patch.setattr(marks, "BLOCK_TEXT", sizes[0])
    patch.setattr(marks, "BLOCK_INDEX", sizes[1])


@settings(max_examples=150)
@given(
    st.lists(LINES, max_size=4),
    st.none() | PATTERN,
    st.none() | PATTERN,
    st.booleans(),
    st.sampled_from([None, [1], [0, 2], [0, 1, 2], []]),
    SIZES,
)
def test_a_view_has_the_lines_that_it_should(
    tmp_path_factory, steps, include, exclude, raw, sources, sizes
):
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, sizes)
        job = Job(tmp_path_factory.mktemp("job") / "job")
        view = LogView(
            job.book, include and Pattern(*include), exclude and Pattern(*exclude), raw, sources
        )
        keep = naive(*include) if include else lambda _: True
        leave = naive(*exclude) if exclude else lambda _: False
        before = []
        for lines in steps:
            job.write(*lines)
            expected = [
                line.position
                for line in job.book.lines(0, 10**6)
                if keep(line.text)
                and not leave(line.text)
                and (raw or not is_noise(line.text))
                and (sources is None or line.source in sources)
            ]
            found = whole(view)
            assert found == expected
            assert found[: len(before)] == before
            before = found


@settings(max_examples=150)
@given(
    st.lists(LINES, min_size=1, max_size=4), PATTERN, st.none() | PATTERN, st.integers(0, 60), SIZES
)
def test_a_search_finds_what_it_should(tmp_path_factory, steps, pattern, include, start, sizes):
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, sizes)
        job = Job(tmp_path_factory.mktemp("job") / "job")
        job.write(*steps[0])
        view = LogView(job.book, include and Pattern(*include), raw=True)
        search = Search(view, Pattern(*pattern), start)
        hit = naive(*pattern)
        for lines in steps[1:] or [[]]:
            search.advance(0)
            job.write(*lines)
            while not search.advance(0):
                pass
            hits = [line.position for line in view.lines(0, 10**6) if hit(line.text)]
            assert search.count == len(hits)
            assert search.near(0, 10**6) == hits
            for at in range(0, job.book.length + 2, 3):
                assert search.next(at) == next(
                    (n for n in hits if n > at), hits[0] if hits else None
                )
                assert search.previous(at) == next(
                    (n for n in reversed(hits) if n < at), hits[-1] if hits else None
                )
            assert [search.number(n) for n in hits] == [*range(1, len(hits) + 1)]


def test_what_people_see_of_colours_and_line_ends():
    text = b"\x1b[1;31ma\x1b[0m\r\nb\r\x1b[m\n\xffc\n"
    assert visible(text) == "a\nb\r\n\ufffdc\n".encode()


@pytest.mark.parametrize(
    ("pattern", "lines", "expected"),
    [
        ("x*", "x||ax|", [0, 1, 2]),
        (r"a|\b$", "a|!|ba|?|", [0, 2]),
        ("^$", "|a||", [0, 2]),
        (".", "a|b|c|d|e||f|", [0, 1, 2, 3, 4, 6]),
    ],
)
def test_a_line_matches_once_wherever_it_does(needs_re2, pattern, lines, expected):
    text, found = lines.replace("|", "\n").encode(), Pattern(pattern, regex=True)
    for in_runs in (False, True):
        found._in_runs = in_runs
        assert [n for a, b in found.runs(text) for n in range(a, b)] == expected


def test_upper_and_lower_case_beyond_ascii():
    text = "caf\u00e9\nCAF\u00c9\ncafe\n".encode()
    assert [*Pattern("f\u00c9").runs(text)] == [(0, 2)]
    assert [*Pattern("AF\u00c9", case=True).runs(text)] == [(1, 2)]
    assert [*Pattern("CAF").runs(text)] == [(0, 3)]


def test_hits_near_a_line(tmp_path):
    job = Job(tmp_path / "job")
    job.write(*[b"hit" if n % 10 == 0 else b"no" for n in range(200)])
    search = Search(LogView(job.book, raw=True), Pattern("hit"), 100)
    assert search.near(100, 3) == []
    assert search.next(100) is search.previous(100) is None
    search.advance()
    assert search.near(95, 4) == [80, 90, 100, 110]
    assert search.near(0, 3) == [0, 10, 20]
    assert search.near(1000, 3) == [170, 180, 190]


def test_a_search_begins_where_the_page_is(tmp_path, monkeypatch):
    small_blocks(monkeypatch, (20, 100))
    job = Job(tmp_path / "job")
    job.write(*[b"line %d" % n for n in range(2000)])
    search = Search(LogView(job.book, raw=True), Pattern("line"), 1000)
    search.advance(0)
    assert 990 < search.near(0, 1)[0] <= 1000
    assert search.count < 200
    seen = {search.count}
    while not search.advance(0):
        seen.add(search.count)
    assert search.count == 2000
    assert len(seen) > 5


def test_who_looks_at_the_end_learns_of_the_last_hit_before_all_are_counted(tmp_path, monkeypatch):
    small_blocks(monkeypatch, (20, 100))
    job = Job(tmp_path / "job")
    job.write(*[b"line %d" % n for n in range(2000)], *[b"end"] * 3)
    view = LogView(job.book, raw=True)
    search = Search(view, Pattern("line"), 2002)
    assert search.before(2002) is None
    while search.before(2002) is None:
        search.advance(0)
    assert search.before(2002) == 1999 and not search.complete
    early = Search(view, Pattern("line 0"), 2002)
    while not early.advance(0):
        assert early.before(2002) is None  # a nearer one could come
    assert early.before(2002) is None  # it is not where the search began


def test_the_first_hit_is_told_before_the_rest_is_searched(tmp_path, monkeypatch):
    small_blocks(monkeypatch, (20, 100))
    job = Job(tmp_path / "job")
    job.write(*[b"line %d" % n for n in range(2000)], *[b"end"] * 3)
    search = Search(LogView(job.book, raw=True), Pattern("line 2"))
    assert not search.advance(600) and search.count > 0
    assert search.advance(600) and search.count == 111


def test_a_search_in_a_log_that_grows_faster_still_turns_to_the_begin(tmp_path, monkeypatch):
    small_blocks(monkeypatch, (20, 100))
    job = Job(tmp_path / "job")
    job.write(*[b"line %d" % n for n in range(300)])
    search = Search(LogView(job.book, raw=True), Pattern("line 0"), 299)
    for _ in range(40):
        search.advance(0)
        job.write(*[b"more"] * 40)
    assert search.near(0, 5) == [0]


def test_chatter_is_left_out_where_only_some_spans_have_it(tmp_path, monkeypatch):
    small_blocks(monkeypatch, (100, 1000))
    job = Job(tmp_path / "job")
    lines = [
        *NOISE * 3,
        *[b"line %d" % n for n in range(300)],
        GLOO + b"\r",
        *NEARLY,
        *[b"x"] * 300,
    ]
    job.write(*lines)
    view = LogView(job.book)
    assert not view.advance(0)
    assert 0 < view.scanned < job.book.length
    assert whole(view) == [n for n, line in enumerate(lines) if not is_noise(line)]


def test_a_damaged_log_is_searched_and_shown_without_an_error(tmp_path):
    job = Job(tmp_path / "job")
    job.write(*[b"line %d" % n for n in range(30)])
    view = LogView(job.book, include=Pattern("line"), sources=[1])
    job.directory.log(0).unlink()
    search = Search(view, Pattern("gone"))
    assert search.advance()
    assert {line.text for line in view.lines(0, 100)} == {GONE}
    assert first_error(view) is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"fine", b"ValueError: bad", b"Traceback (most recent call last):", b'  File "x"'], 2),
        (
            [
                b"fine",
                b"an Error of 3 %",
                b"loss error: 3",
                b"jax.errors.JaxRuntimeError: no",
                b"KeyError: 1",
            ],
            3,
        ),
        ([b"NoErrors: 0", b"KeyboardInterrupt", b"[rank 1] OSError: x"], 2),
        ([b"x", b"Fatal Python error: Segmentation fault"], 1),
        ([b"x", b"\x1b[31mValueError\x1b[0m: bad"], 1),
        (
            [
                b"E1121 17:00:00.1 12 cuda.cc:1] Unable to register cuDNN factory",
                b"RESOURCE_EXHAUSTED: Out of memory",
            ],
            1,
        ),
        ([b"F1121 17:00:00.1 12 a.cc:1] Check failed", b"x"], 0),
        ([b"BOOM", b"rank 3 OOMKilled"], 1),
        ([b"2026-11-21 - train - ERROR - no file"], 0),
        ([b"step 1 loss 0.5 error 0.1", b"errors=0", b"ERRORS"], None),
        ([b"AssertionError"], 0),
        ([], None),
    ],
)
def test_the_first_error(tmp_path, monkeypatch, lines, expected):
    small_blocks(monkeypatch, (40, 1000))
    job = Job(tmp_path / "job")
    job.write(*lines)
    assert first_error(LogView(job.book)) == expected


def test_the_first_error_of_a_view_is_a_line_that_it_has(tmp_path):
    job = Job(tmp_path / "job")
    job.write(
        b"Traceback (most recent call last):",
        b"x",
        b"ValueError: 2",
        b"Traceback (most recent call last):",
        b"a ValueError: 1",
    )
    assert first_error(LogView(job.book, sources=[1])) == 4
    assert first_error(LogView(job.book, include=Pattern("Value"))) == 2
    assert first_error(LogView(job.book), seconds=-1) is None


def test_a_time_is_told_when_the_lines_up_to_it_are_known(tmp_path, monkeypatch):
    small_blocks(monkeypatch, (40, 40))
    monkeypatch.setattr(logtopics, "_FIRST", 0.0)
    monkeypatch.setattr(logtopics, "_TO_HIT", 0.0)
    job = Job(tmp_path / "job", ranks=1)
    job.write(*(b"line %d" % n for n in range(200)))
    ends = [json.loads(line)[1] for line in job.directory.log_index.read_text().splitlines()]
    index = "".join(json.dumps([0, end, 1000.0 + n]) + "\n" for n, end in enumerate(ends))
    job.directory.log_index.write_text(index)
    for exclude, number in (None, 150), (Pattern("3"), sum("3" not in str(n) for n in range(150))):
        view = LogView(LogBook(job.directory, [0]), exclude=exclude)
        answers = []
        while not answers or not answers[-1]["complete"]:
            answers += logtopics.found(view, {"what": "time", "time": 1150.0})
        assert len(answers) > 2 and all(answer["index"] is None for answer in answers[:-1])
        assert (answers[-1]["position"], answers[-1]["index"]) == (150, number)
    (late,) = logtopics.found(view, {"what": "time", "time": 1e12})
    assert late == {"kind": "found", "position": None, "index": None, "complete": True}


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "a)(?:b",
        r"(a)\1",
        "(?=a)",
        "(?<!a)b",
        "a\\",
        "[",
        "a**",
        "((a{1000}){1000}){1000}",
        "x{1,1001}",
    ],
)
def test_patterns_that_re2_does_not_know_are_a_sentence(needs_re2, capfd, pattern):
    with pytest.raises(UsageError, match=": .+") as error:
        Pattern(pattern, regex=True)
    assert error.value.id == "queries.bad-pattern"
    assert "syntax" in error.value.hint.lower()
    assert Pattern(pattern)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("regex", [True, False])
@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "no-pattern"),
        ("x" * 1001, "pattern-too-long"),
        ("a\nb", "line-break-in-pattern"),
        ("a\r", "line-break-in-pattern"),
    ],
)
def test_patterns_that_are_empty_too_long_or_of_two_lines_are_refused(pattern, said, regex):
    with pytest.raises(UsageError) as error:
        Pattern(pattern, regex)
    assert error.value.id == f"queries.{said}"


def test_a_lone_surrogate_is_no_text(needs_re2):
    assert not Pattern("\ud800").any(b"x\n")
    with pytest.raises(UsageError):
        Pattern("\ud800", regex=True)


def test_without_re2_only_regular_expressions_are_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    assert Pattern("a").any(b"a\n")
    with pytest.raises(UsageError) as error:
        Pattern("a", regex=True)
    assert error.value.id == "queries.no-re2"
    assert "google-re2" in error.value.hint


def test_a_pattern_that_is_hard_is_quiet_and_right(needs_re2, capfd):
    text = b"".join(b"%s\n" % bytes(97 + (n * n * k) % 2 for k in range(120)) for n in range(300))
    pattern = Pattern("a[ab]{40}b[ab]{30}a", regex=True)
    expected = [
        n for n, line in enumerate(text.splitlines()) if re.search(rb"a[ab]{40}b[ab]{30}a", line)
    ]
    assert [n for a, b in pattern.runs(text) for n in range(a, b)] == expected
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("pattern", "regex", "case", "text", "expected"),
    [
        ("ab", False, False, "xAB ab", ["AB", "ab"]),
        ("ab", False, True, "xAB ab", ["ab"]),
        ("a.b", False, False, "a.b axb", ["a.b"]),
        (r"\d+", True, False, "1 é 23 \U0001f600 4", ["1", "23", "4"]),
        ("x*", True, False, "abc", []),
        ("(?i)É", True, True, "é", ["é"]),
        ("a", False, False, "a" * 5000, ["a"] * 50),
        (".+", True, False, "a" * 5000, ["a" * 4096]),
        ("b", True, False, "\ud83db", ["b"]),
    ],
)
def test_where_a_text_matches_is_counted_as_pages_count(
    needs_re2, pattern, regex, case, text, expected
):
    units = text.encode("utf-16-le", "surrogatepass")
    found = Pattern(pattern, regex, case).spans(text)
    assert [units[2 * begin : 2 * end].decode("utf-16-le") for begin, end in found] == expected


HOSTILE = [
    "(a+)+$",
    "(a|aa)+b",
    "(.*a){20}b",
    "(.*.*.*)*=",
    "(a?){100}a{100}b",
    "(a|a)*c|(x+x+)+y",
    "(([a-z])+.)+[0-9]([a-z])+$",
    "(.*=)?",
    "((.*a){20}b)?",
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_takes_longer_than_its_text(needs_re2, pattern):
    """What goes back and tries again needs more years than there are letters for one of these."""
    lines = [b"a" * (64 << 10) + end for end in (b"", b"!", b"x" * 5000)]
    found, began = Pattern(pattern, regex=True), time.thread_time()
    hits = [n for first, last in found.runs(b"\n".join([*lines, b""])) for n in range(first, last)]
    all_of_it = [0, 1, 2] if pattern.endswith(")?") else [0] if pattern == "(a+)+$" else []
    assert hits == all_of_it and found.any(lines[0]) is (0 in all_of_it)
    for line in lines:
        found.spans(line.decode())
    assert time.thread_time() - began < 10


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4))),
    st.integers(-2, 60),
    st.integers(-2, 60),
)
def test_runs_are_the_numbers_that_were_added(steps, begin, end):
    runs, numbers, at = Runs(), [], 0
    for gap, count in steps:
        at += gap
        runs.append(at, at + count)
        numbers += range(at, at + count)
        at += count
    assert len(runs) == len(numbers)
    assert all(b < c for (_, b), (c, _) in pairwise(runs.part(0, len(runs))))
    assert runs.below(begin) == sum(n < begin for n in numbers)
    assert [n for a, b in runs.within(begin, end) for n in range(a, b)] == [
        n for n in numbers if begin <= n < end
    ]
    start = max(0, begin)
    assert [n for a, b in runs.part(start, end) for n in range(a, b)] == numbers[
        start : start + max(0, end)
    ]


def test_many_threads_share_a_view_and_a_search_while_the_log_grows(tmp_path, monkeypatch):
    small_blocks(monkeypatch, (2000, 2000))
    job = Job(tmp_path / "job")
    view = LogView(job.book, include=Pattern("even"))
    search = Search(view, Pattern("7"))
    done, wrong = threading.Event(), []

    def look():
        while not done.is_set():
            try:
                search.advance(0.001)
                found = [line.position for line in view.lines(view.length - 20, 20)]
                assert found == [*range(found[0], found[0] + 2 * len(found), 2)] if found else True
                near = search.near(job.book.length, 10)
                assert near == sorted(set(near))
            except BaseException as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for n in range(60):
            job.write(
                *[
                    b"%s %d" % (b"odd" if (20 * n + k) % 2 else b"even", 20 * n + k)
                    for k in range(20)
                ]
            )
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert whole(view) == [*range(0, 1200, 2)]
    search.advance()
    assert search.near(0, 10**6) == [n for n in range(0, 1200, 2) if "7" in str(n)]
