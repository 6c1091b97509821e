"""Files of a job directory: what is opened for them is closed again."""

from __future__ import annotations

import json
import os
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest

from jupyter_jax_trainer.backends.kubernetes.follow import fetch
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.jobdir import files, formats
from jupyter_jax_trainer.jobdir.files import LinePages, LineReader
from jupyter_jax_trainer.jobdir.layout import JobDir


def test_parts_of_results_leave_no_file_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for index in range(50):
        fetch.add_part(JobDir(tmp_path), {"index": index})
    assert len(os.listdir("/proc/self/fd")) == before
    assert [part["index"] for part in LineReader(tmp_path / "result.parts").read()] == [*range(50)]


# -- the format of documents -----------------------------------------------------------------------


def test_the_format_of_a_document_is_on_disk_alone(tmp_path):
    files.write_json(tmp_path / "state.json", {"state": "Running"})
    assert json.loads((tmp_path / "state.json").read_text()) == {"format": 1, "state": "Running"}
    assert files.read_json(tmp_path / "state.json", {"state": str}) == {"state": "Running"}


def test_a_document_of_an_older_format_is_upgraded_before_its_shape_is_checked(
    tmp_path, monkeypatch
):
    """A rename on disk takes an upgrade and nothing else."""

    def renamed(state):
        state["reason"] = state.pop("why")

    path = tmp_path / "state.json"
    path.write_text('{"format": 1, "why": "no room"}')
    monkeypatch.setattr(formats, "FORMAT", 2)
    monkeypatch.setattr(formats, "READABLE", (1, 2))
    monkeypatch.setitem(formats._UPGRADES, "state.json", (renamed,))
    state = files.read_json(path, {"reason": str})
    files.write_json(path, state)
    assert json.loads(path.read_text()) == {"format": 2, "reason": "no room"}
    path.write_text('{"format": 3, "reason": "no room"}')
    with pytest.raises(JobDirError) as refused:
        files.read_json(path, {"reason": str})
    assert refused.value.id == "jobs.other-format"


# -- pages of a long file --------------------------------------------------------------------------

MOST = 20_000


def report(step: int) -> str:
    return (
        json.dumps({"time": 1.0, "rank": 0, "step": step, "total": None, "values": {"loss": 1.0}})
        + "\n"
    )


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    path = tmp_path_factory.mktemp("reports") / "metrics.jsonl"
    path.write_text("".join(map(report, range(300_000))))
    return path


def bytes_read() -> int:
    """Return how many bytes this process has read in all."""
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


def test_what_lies_before_a_page_is_not_parsed(long, monkeypatch):
    parsed: list[int] = []
    real = files._value
    monkeypatch.setattr(
        files, "_value", lambda line, shape: (parsed.append(1), real(line, shape))[1]
    )
    pages = LinePages(long)
    for start in (290_000, 200_000, 299_999):
        parsed.clear()
        found, more = pages.page(start, 10)
        assert found[0]["step"] == start and len(found) == len(parsed) == min(10, 300_000 - start)
        assert more == (start < 299_990)
    assert pages.page(300_000, 10) == ([], False)


def in_pages(pages: LinePages, most: int) -> list[int]:
    found, start, more = [], 0, True
    while more:
        page, more = pages.page(start, most)
        found += [line["step"] for line in page]
        start += most
    return found


def test_all_pages_are_the_lines_that_a_reader_gives(tmp_path):
    path = tmp_path / "metrics.jsonl"
    pages = LinePages(path)
    assert pages.page(0, 5) == ([], False) == (list(LineReader(path).read()), False)
    lines = [report(step) + ("damaged\n{}\n" if step % 3 == 0 else "") for step in range(12_000)]
    path.write_text("".join(lines) + report(12_000)[:-5])  # of which the end is not written yet
    assert [line["step"] for line in LineReader(path).read()] == [*range(12_000)]
    for most in (20_000, 20_001, 7_000, 4_999, 100_000):
        assert in_pages(pages, most) == in_pages(LinePages(path), most) == [*range(12_000)]
    assert [line["step"] for line in pages.page(5, 5)[0]] == [3, 4, 5]
    assert pages.page(20_000, 1) == ([], False) and pages.page(19_998, 1)[1]
    with path.open("a") as file:
        file.write(report(12_000)[-5:] + report(12_001))
    assert [line["step"] for line in pages.page(20_000, 5)[0]] == [12_000, 12_001]
    path.write_text(report(7))  # another job's, under the same name
    assert [line["step"] for line in pages.page(0, 5)[0]] == [7]
    assert pages.page(10_000, 5) == ([], False)
