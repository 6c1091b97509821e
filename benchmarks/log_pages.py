"""10^6 log lines of 256 ranks as a page reads them: against MergedReader, and against grep.

The index has a line for ten lines of a log, as where ranks print faster than the supervisor looks;
and, harder, one for each line, as where all ranks print a line now and then.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from common import Measured, in_turn, ratio_of, sized, spread

from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.logs.book import LogBook
from jupyter_jax_trainer.logs.first_error import first_error
from jupyter_jax_trainer.logs.patterns import Pattern
from jupyter_jax_trainer.logs.reader import MergedReader
from jupyter_jax_trainer.logs.search import Search
from jupyter_jax_trainer.logs.view import LogView

LINES, RANKS = sized(1_000_000, 5_120), 256
NEEDLE = "loss is not a number"
GLOO = b"[Gloo] Rank %d is connected to 255 peer ranks\n"


@contextmanager
def job(each: int) -> Iterator[JobDir]:
    """Make a job whose pieces have `each` lines."""
    with tempfile.TemporaryDirectory(prefix="jaxtrain-bench-") as name:
        directory = JobDir(name)
        directory.logs.mkdir()
        fill(directory, each)
        yield directory


def fill(directory: JobDir, each: int) -> None:
    """Write the logs of all ranks, and their index."""
    order = random.Random(1)
    files = [directory.log(rank).open("wb") for rank in range(RANKS)]
    index, lengths, moment = [], [0] * RANKS, 1.7e9
    for number in range(0, LINES, RANKS * each):
        for rank in order.sample(range(RANKS), RANKS):
            step = number // RANKS
            text = b"".join(
                b"11-21 13:%02d:%02d [rank %3d] step %7d loss 0.12345%d accuracy 0.987 %s\n"
                % (step // 60 % 60, step % 60, rank, step + n, n % 10, b"images/s 1234.5 " * 3)
                for n in range(min(each, -(-LINES // RANKS) - step))
            )
            if number == 0:
                text = GLOO % rank + text
            if number // each // RANKS == LINES // RANKS // each // 2 and rank == 77:
                text += b"%s\n" % NEEDLE.encode()
            lengths[rank] += files[rank].write(text)
            index.append(b"[%d, %d, %.3f]\n" % (rank, lengths[rank], moment))
        moment += 0.05
    for file in files:
        file.close()
    directory.log_index.write_bytes(b"".join(index))


def clock(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def opened(directory: JobDir, raw: bool) -> LogView:
    """Do what it takes to show the last page of a log."""
    book = LogBook(directory, range(RANKS))
    book.refresh()
    view = LogView(book, raw=raw)
    view.advance()
    assert len(view.lines(view.length - 100, 100)) == 100
    return view


def found(view: LogView, pattern: Pattern, expected: int | None = None) -> Search:
    """Search from the middle on: to the first hit, or to all that are expected."""
    search = Search(view, pattern, view.book.length // 2)
    while not search.advance(0.0) and (expected is not None or not search.count):
        pass
    assert expected is None or search.count == expected, search.count
    return search


def merged(directory: JobDir) -> None:
    """Read all lines as `job.logs()` does."""
    assert sum(1 for _ in MergedReader(directory, range(RANKS), raw=True).read()) >= LINES


def grep(directory: JobDir, *words: str) -> None:
    subprocess.run(["grep", "-rh", *words, str(directory.logs)], stdout=subprocess.PIPE, check=True)


def memory(path: str) -> None:
    """Print by how many MB the process grows when it does all of this."""

    def peak() -> float:
        found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    before = peak()
    view = opened(JobDir(path), raw=False)
    shown = peak()
    found(view, Pattern(NEEDLE), 1)
    found(view, Pattern("step"), view.length - 1)
    print(shown - before, peak() - before)


def measure(runs: int) -> list[Measured]:
    """Compare with plain readers."""
    return [one for each in (10, 1) for one in _measure(each, runs)]


def _measure(each: int, runs: int) -> Iterator[Measured]:
    words = f"{each} lines a piece" if each > 1 else "a line a piece"

    def against(
        name: str, bound: float, ours: Callable[[], object], theirs: Callable[[], object], what: str
    ) -> Measured:
        a, b = in_turn(runs, partial(clock, ours), partial(clock, theirs))
        return Measured(
            f"{name}, {words}",
            ratio_of(a, b),
            f"<= {bound}",
            f"ours {spread(a, 'ms', 1e3)}, {what} {spread(b, 'ms', 1e3)}",
            ratio_of(a, b) <= bound,
        )

    with job(each) as directory:
        view = opened(directory, raw=True)
        quiet = opened(directory, raw=False)
        count = view.length
        assert quiet.length == count - RANKS
        rare, every = partial(grep, directory, "-F", NEEDLE), partial(grep, directory, "-F", "step")
        regex = partial(grep, directory, "-E", "step +[0-9]+")
        if each > 1:
            yield against(
                "10^6 lines opened at the end, chatter too",
                0.2,
                lambda: opened(directory, True),
                partial(merged, directory),
                "MergedReader",
            )
        for name, bound, work, theirs in (
            ("opened at the end, chatter too", 15, lambda: opened(directory, True), rare),
            ("opened at the end, without chatter", 25, lambda: opened(directory, False), rare),
            (
                "a page in the middle",
                0.5,
                lambda: LogView(view.book, raw=True).lines(random.randrange(count), 200),
                rare,
            ),
            ("the first hit of many", 1, lambda: found(view, Pattern("step")), rare),
            ("the only hit", 2, lambda: found(view, Pattern(NEEDLE)), rare),
            ("all counted, one hit", 15, lambda: found(view, Pattern(NEEDLE), 1), rare),
            (
                "all counted, every line",
                12,
                lambda: found(view, Pattern("step"), count - RANKS - 1),
                every,
            ),
            (
                "all counted, every line, with case",
                12,
                lambda: found(view, Pattern("step", case=True), count - RANKS - 1),
                every,
            ),
            (
                "all counted, a regex for every line",
                8,
                lambda: found(view, Pattern(r"step +\d+", regex=True), count - RANKS - 1),
                regex,
            ),
            (
                "all counted, a regex for half the lines",
                12,
                lambda: found(view, Pattern(r"step +\d*[02468] ", regex=True)).advance(),
                regex,
            ),
            (
                "lines of one rank",
                40,
                lambda: LogView(view.book, raw=True, sources=[7]).advance(),
                rare,
            ),
            ("where the first error is", 30, lambda: first_error(view), rare),
        ):
            yield against(name, bound, work, theirs, "grep")
        done = subprocess.run(
            [sys.executable, __file__, str(directory.path)],
            check=True,
            capture_output=True,
            text=True,
        )
        shown, searched = map(float, done.stdout.split())
        yield Measured(
            f"MB for all of this, {words}",
            searched,
            "<= 40",
            f"{shown:.1f} MB to open",
            searched <= 40,
        )


if __name__ == "__main__":
    memory(sys.argv[1])
