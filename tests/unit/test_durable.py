"""What can't be had again is on the disk before anybody relies on it."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from made_jobs import make_job

from jupyter_jax_trainer.backends.kubernetes.api import identity
from jupyter_jax_trainer.backends.kubernetes.follow import fetch
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.worker.durable import sync_folder, write_all
from jupyter_jax_trainer.worker.pod import delivery
from jupyter_jax_trainer.worker.results import collect


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note what is forced to the disk, and what is renamed, in order."""
    seen: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(file: int) -> None:
        seen.append(f"sync {Path(os.readlink(f'/proc/self/fd/{file}')).name}")
        fsync(file)

    def noted_replace(self: Path, target: Any) -> Path:
        seen.append(f"rename {Path(target).name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    return seen


def test_a_result_is_on_the_disk_before_the_pod_may_go(home, happened):
    directory = make_job("fit")
    data = b"x" * 5000

    class End:
        def __enter__(self) -> End:
            return self

        def __exit__(self, *_: Any) -> None: ...

        def settimeout(self, seconds: float) -> None: ...

        def sendall(self, wish: bytes) -> None:
            happened.append("done" if wish.endswith(b" done\n") else "asked")
            self.left = data

        def recv(self, size: int) -> bytes:
            piece, self.left = self.left[:size], self.left[size:]
            return piece

    class Client:
        def forward(self, pod: str, port: int) -> End:
            return End()

    held = {
        "port": 1,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "seconds": 60,
        "since": 9e9,
    }
    happened.clear()
    where = Client(), "pod", held, "key", directory.result
    fetching = fetch.Fetch(*where, happened.append, mine=True)  # type: ignore[arg-type]
    fetching.run()
    assert happened == [
        "asked",
        "sync result.fetched.part",
        "rename result.jtz",
        "sync fit",
        "done",
    ]
    assert directory.result.read_bytes() == data
    happened.clear()
    fetching.run()  # a follower after one that was killed before it could say so
    assert happened == ["sync fit", "done"]


def test_results_that_came_with_the_log_are_on_the_disk(home, happened):
    directory = make_job("fit")
    happened.clear()
    data = b"abc"
    fetch._write(directory, data, {"size": 3, "sha256": hashlib.sha256(data).hexdigest()})
    assert [word.partition(" ")[0] for word in happened] == ["sync", "rename", "sync"]


def test_a_result_of_this_machine_is_on_the_disk(home, happened):
    directory = make_job("fit")
    happened.clear()
    collect(["x"], {"x": 1}, 0, 1, directory.result)
    assert happened == ["sync result.jtz.part", "rename result.jtz", "sync fit"]


def test_a_result_in_a_store_is_on_the_disk_before_it_is_said(tmp_path, monkeypatch, happened):
    monkeypatch.setenv(delivery.STORE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(delivery.UID_VARIABLE, "job")
    with delivery.open_file() as file:
        file.write(b"x" * 5000)
        assert delivery._store(file) == f"{tmp_path}/job/result.jtz"
    assert happened == ["sync result.jtz.part", "rename result.jtz", "sync job"]


def test_which_trainjob_is_the_job_s_is_on_the_disk(home, happened):
    directory = make_job("fit")
    happened.clear()
    identity.note(directory, "k8s-1")
    assert [word.partition(" ")[0] for word in happened] == ["sync", "rename", "sync"]


def test_only_the_last_state_waits_for_the_disk(home, happened):
    directory = make_job("fit")
    recorder = Recorder(directory, [])
    happened.clear()
    recorder.change(State.RUNNING)
    assert happened == ["rename state.json"]
    happened.clear()
    recorder.end(State.SUCCEEDED)
    kinds = [word.partition(" ")[0] for word in happened]
    assert kinds == ["sync", "rename", "sync"] and happened[1:] == ["rename state.json", "sync fit"]


def test_a_disk_that_is_full_leaves_the_old_file(home, monkeypatch):
    directory = JobDir(make_job("fit").path)
    before = directory.state.read_bytes()

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        files.write_json(directory.state, {"format": 1}, durable=True)
    assert directory.state.read_bytes() == before
    assert not list(directory.path.glob("*.part"))


@pytest.mark.parametrize(("code", "raised"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_file_system_that_cannot_sync_folders_is_no_error(tmp_path, monkeypatch, code, raised):
    def fails(file: int) -> None:
        raise OSError(code, "x")

    monkeypatch.setattr(os, "fsync", fails)
    if raised:
        with pytest.raises(OSError):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)


def test_all_is_written_though_the_system_takes_less_at_a_time(tmp_path, monkeypatch):
    data, write = os.urandom(1_000_001), os.write
    monkeypatch.setattr(os, "write", lambda file, view: write(file, view[:100_000]))
    with (tmp_path / "file").open("wb", buffering=0) as file:
        write_all(file.fileno(), b"before")
        write_all(file.fileno(), memoryview(data))
        write_all(file.fileno(), b"")
    assert (tmp_path / "file").read_bytes() == b"before" + data
