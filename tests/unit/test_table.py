"""The rows of all jobs, as they are kept for the pages of a server."""

import shutil
import time

import pytest
from made_jobs import held, make_job

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


@pytest.fixture
def read(monkeypatch):
    """The names of the files that have been read since the last time that somebody looked."""
    found, read = [], layout.read_json
    monkeypatch.setattr(
        layout, "read_json", lambda path, shape: found.append(path.name) or read(path, shape)
    )

    def since():
        names = sorted(found)
        found.clear()
        return names

    return since


def test_what_is_as_before_is_not_read_again(jobs, read):
    make_job("a")
    version, _ = jobs.rows()
    assert read() == ["manifest.json", "state.json"]
    jobs.since(version)
    assert read() == []


def test_a_step_of_an_active_job_has_its_state_read_alone(jobs, read):
    job = make_job("a", "Running")
    with held(job):
        version, _ = jobs.rows()
        read()
        state = files.read_json(job.state, formats.STATE)
        state["progress"] = {**state["progress"], "step": 7}
        files.write_json(job.state, state)
        _, (row,), _ = jobs.since(version)
        assert row["progress"]["step"] == 7 and read() == ["state.json"]


def test_a_manifest_that_is_written_anew_is_read_again(jobs):
    job = make_job("a", "Running")
    with held(job):
        version, _ = jobs.rows()
        manifest = files.read_json(job.manifest, formats.MANIFEST)
        files.write_json(job.manifest, {**manifest, "uid": "another"})
        _, (row,), _ = jobs.since(version)
        assert row["uid"] == "another"


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
