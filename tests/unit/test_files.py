"""Files of a job directory: what is opened for them is closed again."""

from __future__ import annotations

import json
import os
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest

from jupyter_jax_trainer.backends.kubernetes import fetch
from jupyter_jax_trainer.files import LinePages, LineReader
from jupyter_jax_trainer.jobdir import JobDir


def test_parts_of_results_leave_no_file_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for index in range(50):
        fetch.add_part(JobDir(tmp_path), {"index": index})
    assert len(os.listdir("/proc/self/fd")) == before
    assert [part["index"] for part in LineReader(tmp_path / "result.parts").read()] == [*range(50)]


# -- pages of a long file --------------------------------------------------------------------------

MOST = 20_000


def report(step: int) -> str:
    return json.dumps({"time": 1.0, "rank": 0, "step": step, "total": None, "values": {"loss": 1.0}}) + "\n"


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    path = tmp_path_factory.mktemp("reports") / "metrics.jsonl"
    path.write_text("".join(map(report, range(300_000))))
    return path


def bytes_read() -> int:
    """Give how many bytes this process has read in all."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.slow
def test_a_page_costs_no_more_where_it_begins_late(long):
    pages, costs = LinePages(long), []
    for start in range(0, 300_000, MOST):
        before = bytes_read()
        found, more = pages.page(start, MOST)
        costs.append(bytes_read() - before)
        assert [line["step"] for line in found] == [*range(start, start + MOST)]
        assert more == (start + MOST < 300_000)
    page = long.stat().st_size / 15
    assert max(costs) < 1.5 * page and sum(costs) < 1.5 * long.stat().st_size
    before = bytes_read()
    assert pages.page(150_001, 2)[0][1]["step"] == 150_002  # nor in between, once it has been there
    assert bytes_read() - before < 0.5 * page


@pytest.mark.slow
def test_what_is_held_in_memory_is_a_page(long):
    tracemalloc.start()
    try:
        found, _ = LinePages(long).page(50_000, 10)
        assert len(found) == 10 and tracemalloc.get_traced_memory()[1] < 4_000_000
        tracemalloc.reset_peak()
        assert sum(1 for _ in islice(LineReader(long).read(), 50_000)) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_pages_are_those_of_the_lines_that_a_reader_gives(tmp_path):
    path = tmp_path / "metrics.jsonl"
    pages = LinePages(path)
    assert pages.page(0, 5) == ([], False) == (list(LineReader(path).read()), False)
    lines = [report(step) + ("damaged\n{}\n" if step % 3 == 0 else "") for step in range(12_000)]
    path.write_text("".join(lines) + report(12_000)[:-5])  # of which the end is not written yet
    whole = list(LineReader(path).read())
    assert [line["step"] for line in whole] == [*range(12_000)]
    for start, most in ((0, 7_000), (7_000, 7_000), (11_999, 5), (12_000, 5), (20_000, 5), (4_999, 3)):
        assert pages.page(start, most) == (whole[start : start + most], start + most < 12_000)
    with path.open("a") as file:
        file.write(report(12_000)[-5:] + report(12_001))
    assert [line["step"] for line in pages.page(11_999, 5)[0]] == [11_999, 12_000, 12_001]
    path.write_text(report(7))  # another job's, under the same name
    assert [line["step"] for line in pages.page(0, 5)[0]] == [7]
    assert pages.page(10_000, 5) == ([], False)
