"""The rows of all jobs, as they are kept for the pages of a server."""

import shutil
import time

import pytest
from made_jobs import make_job

from jupyter_jax_trainer.jobdir import files, formats, layout
from jupyter_jax_trainer.queries import jobs as table
from jupyter_jax_trainer.queries.jobs import Table


@pytest.fixture
def jobs(store, monkeypatch):
    """A table that looks at all jobs whenever it is asked; there are none yet."""
    shutil.rmtree(store / "jobs", ignore_errors=True)
    monkeypatch.setattr(table, "_FRESH", 0)
    monkeypatch.setattr(table, "_SLOW", 0)
    return Table(None)


def test_tells_what_is_new_changed_and_gone(jobs):
    for name in "abc":
        make_job(name)
    version, rows = jobs.rows()
    assert {row["key"] for row in rows} == {"a", "b", "c"}
    assert jobs.since(version) == (version, [], [])
    make_job("d")
    layout.JobDir(layout.jobs_directory() / "a").remove()
    state = layout.JobDir(layout.jobs_directory() / "b").state
    values = files.read_json(state, formats.STATE)
    values["reason"] = "because"
    files.write_json(state, values)
    _, rows, gone = jobs.since(version)
    assert {row["key"]: row["reason"] for row in rows} == {"b": "because", "d": None}
    assert gone == ["a"]


def test_a_job_that_takes_the_name_of_another_is_seen(jobs):
    make_job("a", created=time.time() - 1000)
    version, (before,) = jobs.rows()
    layout.JobDir(layout.jobs_directory() / "a").remove()
    make_job("a", created=time.time())
    _, (row,), gone = jobs.since(version)
    assert row["created"] > before["created"] and gone == []


def test_paths_are_made_once_for_a_job(jobs, monkeypatch):
    made = []

    class Counted(layout.JobDir):
        def __init__(self, path):
            made.append(path)
            super().__init__(path)

    for name in "abc":
        make_job(name)
    monkeypatch.setattr(layout, "JobDir", Counted)
    monkeypatch.setattr(table, "JobDir", Counted)
    version, rows = jobs.rows()
    assert len(rows) == len(made) == 3
    jobs.since(version)
    assert len(made) == 3  # with hundreds of jobs that would be most of the work
