"""The log book: the merged order by position, as `MergedReader` gives it, however the logs grow."""

from __future__ import annotations

import json
import math
import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.logs import marks
from jupyter_jax_trainer.logs.book import FULL, PAGE, Books, LogBook
from jupyter_jax_trainer.logs.reader import MergedReader
from jupyter_jax_trainer.logs.span import GONE, HEAD


def finite(time):
    return None if time is None or not math.isfinite(time) else time


class Job:
    """A job whose logs grow, and the readers that have to agree."""

    def __init__(self, path, sources):
        (path / "logs").mkdir(exist_ok=True, parents=True)
        self.directory, self.sources, self.time = JobDir(path), sources, 1000.5
        self.lengths = dict.fromkeys(sources, 0)
        self.book = LogBook(self.directory, sources)
        self.reader = MergedReader(self.directory, sources, raw=True)
        self.expected = []

    def write(self, source, data, indexed=True):
        with self.directory.log(source).open("ab") as file:
            file.write(data)
        self.lengths[source] += len(data)
        if indexed:
            self.index(source, self.lengths[source])

    def index(self, source, end):
        self.time += 0.25
        self.raw_index(json.dumps([source, end, self.time]).encode() + b"\n")

    def raw_index(self, data):
        with self.directory.log_index.open("ab") as file:
            file.write(data)

    def check(self, ended=False):
        if ended:
            self.book.finish()
            self.expected += self.reader.finish()
        else:
            assert self.book.refresh()
            self.expected += self.reader.read()
        assert self.book.length == len(self.expected)
        found = self.book.lines(0, 10**9)
        assert [line.position for line in found] == [*range(len(self.expected))]
        assert [
            (
                line.source if isinstance(line.source, int) else None,
                line.time,
                line.text.decode(errors="replace"),
            )
            for line in found
        ] == [(line.rank, finite(line.time), line.text) for line in self.expected]
        assert all(line.size == len(line.text) for line in found)


BYTES = st.one_of(
    st.binary(max_size=30),
    st.lists(
        st.sampled_from([b"\n", b"a", b"\r", b"\xff", b"word ", b"\r\n", b"\x1b[1m"]), max_size=30
    ).map(b"".join),
)
SOURCES = [0, 1, 2, 10, "rank-0.proxy"]
ODD = [
    b"\n",
    b"[0, 1\n",
    b"{}\n",
    b"[0, 5, 1.0]\r[1, 7, 2.0]\n",
    b"null\n",
    b'["0", 3, 1.0]\n',
    b"[7, 1, 1.0]\n",
    b"[0, -5, 1.0]\n",
    b"[1, 99999999999999999999999, 3]\n",
    b"[2, 3, NaN]\n",
    b"[true, 9, 1.5]\n",
    b'["x", 3, 1.0]\n',
    b"[, , .]\n",
    b"[0, 2.0, 1]\n",
    b"[[[[\n",
    b"[2, 4, 1e999]\n",
    b"\xff\xfe\n",
]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(SOURCES), BYTES, st.booleans()),
        st.tuples(st.just("back"), st.sampled_from(SOURCES), st.integers(-20, 20)),
        st.tuples(st.just("odd"), st.sampled_from(ODD)),
        st.tuples(st.just("check")),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(
    STEPS,
    st.sampled_from([SOURCES, [1, 0], ["rank-0.proxy"], [0, 1, 2, 10]]),
    st.sampled_from([(1 << 20, 1 << 17), (7, 60), (40, 200), (1, 1)]),
)
def test_a_book_agrees_with_the_merged_reader(tmp_path_factory, steps, sources, sizes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "BLOCK_TEXT", sizes[0])
        patch.setattr(marks, "BLOCK_INDEX", sizes[1])
        job = Job(tmp_path_factory.mktemp("job"), SOURCES)
        job.book = LogBook(job.directory, sources)
        job.reader = MergedReader(job.directory, sources, raw=True)
        for name, *rest in steps:
            if name == "write":
                job.write(*rest)
            elif name == "back":
                job.index(rest[0], job.lengths[rest[0]] + rest[1])
            elif name == "odd":
                job.raw_index(rest[0])
            else:
                job.check()
        job.check()
        job.check(ended=True)
        fresh = LogBook(job.directory, sources)
        fresh.finish()
        reader = MergedReader(job.directory, sources, raw=True)
        assert [line.text.decode(errors="replace") for line in fresh.lines(0, 10**6)] == [
            line.text for line in reader.finish()
        ]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("block", [3, 1 << 20])
def test_an_odd_line_of_the_index_counts_as_for_the_merged_reader(
    tmp_path, monkeypatch, odd, block
):
    monkeypatch.setattr(marks, "BLOCK_TEXT", block)
    job = Job(tmp_path, [0, 1, 2])
    for rank in job.sources:
        job.write(rank, b"a%d\nb\n\nccc\nd" % rank, indexed=False)
    job.index(0, 3)
    job.raw_index(odd)
    job.check()
    for rank in job.sources:
        job.index(rank, 8)
    job.check()
    job.check(ended=True)


def test_an_index_that_goes_back_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "BLOCK_TEXT", 20)
    job = Job(tmp_path, [0, 1])
    job.write(0, b"line 1234\n" * 2)
    job.check()
    job.write(0, b"line 5\nline 6\n", indexed=False)
    for end in (18, 2, 27, 20, 34):
        job.index(0, end)
    job.check()
    assert [line.time for line in job.book.lines(0, 9)] == [1000.75, 1000.75, 1001.5, 1002.0]


def test_positions_stay_while_the_log_grows_across_marks(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "BLOCK_TEXT", 50)
    job = Job(tmp_path, [0, 1])
    for n in range(100):
        job.write(n % 2, b"line %d\nand hal" % n)
        job.write(n % 2, b"f a line\n", indexed=n % 3 == 0)
        job.check()
    assert [line.text for line in job.book.lines(0, 1)] == [b"line 0"]
    assert job.book.lines(37, 5) == job.book.lines(0, 1000)[37:42]
    assert job.book.lines(-3, 5) == job.book.lines(0, 2)
    assert job.book.lines(10**6, 5) == job.book.lines(5, 0) == job.book.lines(5, -1) == []
    job.check(ended=True)
    assert job.book.ended


def test_lines_that_are_long_are_cut_in_lists_and_whole_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "BLOCK_TEXT", 100_000)
    job = Job(tmp_path, [0])
    long = b"".join(b"%08d" % n for n in range(400_000))  # 3.2 MB
    middle = long[: HEAD + 50_000]
    job.write(0, b"short\r\n" + long + b"\r\n" + b"after\n" + middle + b"\n")
    book = job.book
    book.refresh()
    assert [(line.text, line.size) for line in book.lines(0, 9)] == [
        (b"short", 5),
        (long[:4096], len(long)),
        (b"after", 5),
        (middle[:4096], len(middle)),
    ]
    assert book.line(1).text == long[:FULL]
    assert book.line(1).size == len(long)
    assert book.line(3).text == middle
    assert book.line(0).text == b"short"
    assert book.line(4) is book.line(-1) is None


def test_other_ranks_and_containers_in_the_index_do_not_count(tmp_path):
    job = Job(tmp_path, [0, "rank-0.proxy"])
    job.write("rank-0.proxy", b"p\n")
    job.write(0, b"a\n")
    job.raw_index(b"[5, 100, 1.0]\n")
    for sources, expected in (
        ([0], [b"a"]),
        (["rank-0.proxy"], [b"p"]),
        ([0, 0], [b"a"]),
        ([3], []),
    ):
        book = LogBook(job.directory, sources)
        book.refresh()
        assert [line.text for line in book.lines(0, 9)] == expected
        assert [line.source for line in book.lines(0, 9)] == sources[: len(expected)]


def test_what_is_not_finished_is_told_by_source(tmp_path):
    job = Job(tmp_path, [0, 1, 2, 3])
    job.write(0, b"done\n 50%")
    job.write(1, b"done\n")
    job.write(2, b"x" * 10_000 + b"\r 70%", indexed=False)
    job.book.refresh()
    job.write(1, b"new line\nhalf", indexed=False)
    assert job.book.open() == {0: b" 50%", 1: b"half", 2: (b"x" * 10_000 + b"\r 70%")[-4096:]}
    job.book.finish()
    assert job.book.open() == {}
    assert [line.text[:9] for line in job.book.lines(0, 9)] == [
        b"done",
        b"done",
        b" 50%",
        b"new line",
        b"half",
        b"x" * 9,
    ]


def test_the_first_line_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "BLOCK_TEXT", 20)
    job = Job(tmp_path, [0, 1])
    for n in range(60):
        job.write(n % 2, [b"a\nb\n", b"half", b" whole\n", b""][n % 4])
    job.check()
    for moment in [0.0, 1000.75, 1001.0, 1005.1, 1015.5, 2000.0]:
        expected = [n for n, line in enumerate(job.expected) if line.time >= moment]
        assert job.book.position_at(moment) == (expected[0] if expected else None)
    job.write(0, b"late\n", indexed=False)
    job.check(ended=True)
    assert job.book.position_at(1000.0) == 0
    assert job.book.position_at(3000.0) is None


def test_a_log_that_is_shorter_than_the_index_says_grows_later(tmp_path):
    job = Job(tmp_path, [0])
    job.directory.log(0).write_bytes(b"one\ntw")
    job.raw_index(b"[0, 12, 1.0]\n")
    job.check()
    with job.directory.log(0).open("ab") as file:
        file.write(b"o\nthree\n")
    job.check()
    job.raw_index(b"[0, 14, 2.0]\n")
    job.check()
    assert [(line.text, line.time) for line in job.book.lines(0, 9)] == [
        (b"one", 1.0),
        (b"two", 2.0),
        (b"three", 2.0),
    ]


@pytest.mark.parametrize("harm", ["delete", "cut", "replace", "no index", "all"])
def test_lines_that_can_not_be_read_any_more_are_no_others(tmp_path, harm):
    job = Job(tmp_path, [0, 1])
    for n in range(20):
        job.write(n % 2, b"line %d\n" % n)
    job.book.refresh()
    if harm == "delete":
        job.directory.log(0).unlink()
    elif harm == "cut":
        os.truncate(job.directory.log(0), 20)
    elif harm == "replace":
        job.directory.log(0).write_bytes(b"\n" * job.lengths[0])
    elif harm == "no index":
        job.directory.log_index.unlink()
    else:
        shutil.rmtree(job.directory.path)
    found = job.book.lines(0, 100)
    assert [(line.position, line.source, line.text) for line in found] == [
        (n, None, GONE) for n in range(20)
    ]
    assert job.book.line(3).text == GONE
    assert job.book.span(0).unordered().count(b"\n") == 20
    job.book.refresh()
    job.book.open()
    job.book.finish()
    assert job.book.length >= 20


def test_an_index_line_without_end_and_of_great_length_stops_nothing(tmp_path):
    job = Job(tmp_path, [0])
    job.write(0, b"a\n")
    job.raw_index(b"x" * 1_000_000)
    job.check()
    job.raw_index(b"\n")
    job.write(0, b"b\n")
    job.check()
    assert job.book.length == 2


def test_refresh_stops_in_time_and_goes_on(tmp_path):
    job = Job(tmp_path, [0])
    job.directory.log(0).write_bytes(b"line\n" * 20_000)
    job.raw_index(b"".join(b"[0, %d, 1.5]\n" % (5 * n) for n in range(1, 20_001)))
    book = LogBook(job.directory, [0])
    steps = 1
    while not book.refresh(0.0):
        steps += 1
        assert len(book.lines(book.length - 3, 3)) == 3
    assert steps > 2
    assert book.length == 20_000
    assert len(book.lines(0, 20_000)) == PAGE
    assert [line.time for line in book.lines(19_999, 2)] == [1.5]


def test_books_are_shared_bounded_and_of_one_job(tmp_path):
    books = Books(2)
    first = Job(tmp_path / "a", [0]).directory
    first.manifest.write_text("{}")
    book = books.get(first, [0])
    assert books.get(JobDir(first.path), [0]) is book
    assert books.get(first, [0, 1]) is not book
    assert books.get(first, [0]) is book
    books.get(first, [2])
    books.get(first, [0])
    assert books.get(first, [0]) is book
    shutil.rmtree(first.path)
    first.path.mkdir()
    first.manifest.write_text("{}")
    again = books.get(first, [0])
    assert again is not book
    books.get(first, [1])
    books.get(first, [2])
    assert books.get(first, [0]) is not again
