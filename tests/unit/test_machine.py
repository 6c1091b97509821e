"""Machines that share a home directory, and whose locks don't reach each other."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from typing import Any

import pytest
from made_jobs import make_job

from jupyter_jax_trainer import machine
from jupyter_jax_trainer.backends.local import doctor as local
from jupyter_jax_trainer.doctor.finding import OK
from jupyter_jax_trainer.jobdir import files, layout
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.machine import Machine

HERE = Machine("laptop", "1111", "aaaa")


@pytest.fixture(autouse=True)
def here(home, monkeypatch):
    """Be a machine that sees no lock of others."""
    monkeypatch.setattr(machine, "this", lambda: HERE)
    return home


def running(of: dict[str, Any], silent: float = 0.0) -> Job:
    """Make a job that runs on a machine, whose last sign of life is so old."""
    directory = make_job("fit", "Running", ranks=[{"rank": 0, "state": "Running", "exit": None}])
    manifest = json.loads(directory.manifest.read_text())
    files.write_json(directory.manifest, {**manifest, **of})
    directory.lock.touch()
    then = time.time() - silent
    os.utime(directory.lock, (then, then))
    return Job(directory)


@pytest.mark.parametrize(
    "of",
    [
        replace(HERE, host="other"),
        replace(HERE, machine="2222", boot="bbbb"),
        replace(HERE, boot="bbbb"),  # a copy of this machine, or a container from the same image
        replace(HERE, machine="", boot="bbbb"),
    ],
)
def test_a_look_leaves_the_job_of_another_machine_alone(of):
    job = running(asdict(of))
    assert job.state == "Running" and job.active
    assert json.loads((job.directory / "state.json").read_text())["state"] == "Running"


@pytest.mark.parametrize(
    ("of", "silent"),
    [
        (HERE, 0),
        (replace(HERE, boot="bbbb"), 600),  # this machine was restarted
        (replace(HERE, boot=""), 0),
    ],
)
def test_a_job_of_this_machine_that_nobody_runs_has_failed(of, silent):
    assert running(asdict(of), silent).state == "Failed"


def test_doctor_does_not_advise_to_delete_what_another_machine_runs():
    running(asdict(replace(HERE, boot="bbbb")))
    assert local._directories().status == OK
    running(asdict(HERE))
    assert "jaxtrain delete fit" in (local._directories().advice or "")


def test_a_manifest_of_0_1_has_the_name_alone():
    assert running({"host": "laptop"}).state == "Failed"
    assert running({"host": "other"}).state == "Running"


def test_a_submission_on_another_machine_is_not_cleared_away(monkeypatch):
    there = replace(HERE, boot="bbbb")
    monkeypatch.setattr(machine, "this", lambda: there)
    directory, lock = layout.create()
    os.close(lock)  # as its lock looks from here
    then = time.time() - 600
    os.utime(directory.path, (then, then))
    monkeypatch.setattr(machine, "this", lambda: HERE)
    layout._sweep(layout.jobs_directory())
    assert directory.path.exists()
    files.write_json(
        directory.manifest,
        {
            "format": 1,
            "name": "fit",
            "uid": "u",
            "created": 0,
            "spec": {"nodes": 1},
            "plan": {},
            "sent": [],
            "returns": False,
            **asdict(there),
        },
    )
    directory = layout.publish(directory, "fit")
    assert not directory.remove_cut_off()
    monkeypatch.setattr(machine, "this", lambda: there)
    assert directory.remove_cut_off()


def test_this_machine_is_told_by_more_than_its_name(monkeypatch):
    monkeypatch.undo()
    found = machine.this()
    assert found.host == os.uname().nodename
    with open("/proc/sys/kernel/random/boot_id") as file:
        assert found.boot == file.read().strip()


def test_free_memory_is_bounded_by_control_groups_of_both_versions(tmp_path):
    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def free() -> int | None:
        return machine.free_memory(tmp_path)

    assert free() is None
    write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n")
    assert free() == 8000 * 1024
    group = "sys/fs/cgroup/user.slice/session.scope"
    write("proc/self/cgroup", "0::/user.slice/session.scope\n")
    write(f"{group}/memory.max", "max\n")
    write(f"{group}/memory.current", "5\n")
    assert free() == 8000 * 1024
    write("sys/fs/cgroup/user.slice/memory.max", "5000\n")  # of a group above
    write("sys/fs/cgroup/user.slice/memory.current", "3000\n")
    assert free() == 2000
    write("sys/fs/cgroup/user.slice/memory.stat", "anon 7\ninactive_file 500\n")
    assert free() == 2500
    # Version 1, seen from within a container: the path is the host's.
    write("proc/self/cgroup", "7:cpu:/docker/1\n4:memory:/docker/1\n")
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n")
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "3900\n")
    write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n")
    assert free() == 300
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{1 << 62}\n")
    assert free() == 8000 * 1024
