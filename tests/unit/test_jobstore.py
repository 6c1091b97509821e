"""The job store is this user's alone; its locks; what lies there and is no file of ours."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from made_jobs import held, make_job
from nolocks import without_flock

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.backends.local import doctor as local
from jupyter_jax_trainer.backends.local.backend import LocalBackend
from jupyter_jax_trainer.backends.local.slots import Ticket, Turn
from jupyter_jax_trainer.errors import BackendError, JobDirError, JobNotFound
from jupyter_jax_trainer.jobdir import files, layout, locks, store
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.waiting import Waiting, is_waited_for
from jupyter_jax_trainer.logs.reader import LogReader, last_lines
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.queries.jobs import Table
from jupyter_jax_trainer.server import routes

STRANGER = 12345  # a user that nobody is, and a group that is nobody's own
ACL_VERSION = 2
# Tag, rights and id: u::rwx, u:12345:rwx, g::r-x, m::rwx, o::---
ACL = (0x01, 7, -1), (0x02, 7, STRANGER), (0x04, 5, -1), (0x10, 7, -1), (0x20, 0, -1)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o002)
    yield
    os.umask(before)


# ---- who may write and read there


def test_each_level_that_is_made_is_private(tmp_path, monkeypatch, umask):
    root = tmp_path / "share" / "jaxtrain"
    monkeypatch.setenv("JAXTRAIN_HOME", str(root))
    directory, lock = layout.create()
    os.close(lock)
    store.private_directory(launch.follower_directory("abc"))
    for path in (
        root.parent,
        root,
        root / "jobs",
        root / "followers",
        root / "followers/abc",
        directory.path,
        directory.logs,
    ):
        assert mode(path) == 0o700, path


def test_each_file_of_a_job_is_private(home, umask):
    job = api.train(lambda: print("hello"), name="files", detach=True, device="cpu")
    job.wait()
    folder = Path(job.directory)
    assert mode(folder / "modules") == 0o700  # what is in it is as its own bundle made it
    found = [
        path
        for path in folder.rglob("*")
        if path.is_file() and folder / "modules" not in path.parents
    ]
    assert {"cell.py", "bundle.pyz", "manifest.json"} <= {path.name for path in found}
    assert {path.name: oct(mode(path)) for path in found if mode(path) & 0o077} == {}


def test_levels_that_0_1_made_readable_are_closed(home, tmp_path, monkeypatch):
    monkeypatch.delenv("JAXTRAIN_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for level in (tmp_path, tmp_path / "jaxtrain", tmp_path / "jaxtrain" / "jobs"):
        level.mkdir(exist_ok=True)
        level.chmod(0o755)
    assert layout.names() == set()
    assert [
        mode(level) for level in (tmp_path, tmp_path / "jaxtrain", tmp_path / "jaxtrain/jobs")
    ] == [0o755, 0o700, 0o700]


def test_a_directory_that_jaxtrain_home_names_stays_readable(home):
    home.chmod(0o755)
    make_job("fit")
    assert layout.names() == {"fit"}
    assert mode(home) == 0o755 and mode(home / "jobs") == 0o700


@pytest.mark.parametrize("level", [".", "jobs"])
@pytest.mark.parametrize(
    "look",
    [
        layout.names,
        layout.create,
        layout.list_all,
        lambda: layout.find("fit"),
        lambda: Table(None).rows(),
    ],
)
def test_a_store_that_others_can_write_to_is_refused(home, level, look):
    make_job("fit")
    path = home / level
    path.chmod(0o777)
    with pytest.raises(BackendError) as refused:
        look()
    command = (refused.value.hint or "").partition(": ")[2]
    assert command.startswith("chmod go-w ") and shlex.split(command)[-1] == str(path)
    subprocess.run(command, shell=True, check=True)
    look()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_whose_store_and_whose_group(home, monkeypatch):
    jobs = home / "jobs"
    make_job("fit")
    os.chown(jobs, -1, STRANGER)
    jobs.chmod(0o770)
    with pytest.raises(BackendError) as refused:
        layout.names()
    assert refused.value.id == "jobs.store-writable"
    os.chown(jobs, -1, os.getgid())  # root's own group: nobody else is in it
    assert layout.names() == {"fit"} and mode(jobs) == 0o700
    os.chown(jobs, STRANGER, -1)
    with pytest.raises(BackendError, match="12345") as refused:
        layout.names()
    assert "JAXTRAIN_HOME" in (refused.value.hint or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_volume_that_the_kubelet_opened_to_its_group(home, monkeypatch):
    make_job("fit")
    os.chown(home / "jobs", -1, STRANGER)
    (home / "jobs").chmod(0o2770)
    with pytest.raises(BackendError):
        layout.names()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert layout.names() == {"fit"} and mode(home / "jobs") & 0o077 == 0


def test_a_store_by_a_link_and_one_that_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("disk")
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "link"))
    make_job("fit")
    assert layout.names() == {"fit"} and (tmp_path / "disk/jobs/fit").is_dir()
    (tmp_path / "disk").chmod(0o777)
    with pytest.raises(BackendError):
        layout.names()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "file"))
    with pytest.raises(NotADirectoryError):
        store.private_directory(store.home())


def test_an_acl_may_give_the_rights_of_the_group_to_anybody(home, monkeypatch):
    make_job("fit")
    monkeypatch.setattr(store, "_is_own_group", lambda group: True)
    jobs = home / "jobs"
    jobs.chmod(0o770)
    assert layout.names() == {"fit"}
    entries = b"".join(struct.pack("<HHi", *one) for one in ACL)
    os.setxattr(jobs, "system.posix_acl_access", struct.pack("<I", ACL_VERSION) + entries)
    assert mode(jobs) == 0o770
    with pytest.raises(BackendError) as refused:
        layout.names()
    assert refused.value.id == "jobs.store-writable"
    jobs.chmod(0o750)  # what the hint says: it takes the right from all that the ACL names
    assert layout.names() == {"fit"}


# ---- who may write above it


@pytest.fixture
def above(tmp_path, monkeypatch):
    """Give a directory above the store, which is not in a container."""
    monkeypatch.setattr(store, "_CONTAINER_FILES", ())
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "above" / "between" / "store"))
    (tmp_path / "above").mkdir(mode=0o755)
    return tmp_path / "above"


@pytest.mark.parametrize("look", [layout.names, layout.create])
def test_a_store_that_others_could_exchange_is_refused(above, look):
    make_job("fit")
    above.chmod(0o777)
    with pytest.raises(BackendError, match=rf"{above}, .*0777") as refused:
        look()
    assert refused.value.id == "jobs.store-path-writable"
    command = (refused.value.hint or "").partition(": ")[2]
    assert shlex.split(command) == ["chmod", "go-w", str(above)]
    subprocess.run(command, shell=True, check=True)
    look()
    assert mode(above) == 0o755
    above.chmod(0o1777)  # as /tmp
    look()


def test_nothing_is_made_where_others_could_exchange_it(above):
    above.chmod(0o777)
    with pytest.raises(BackendError) as refused:
        layout.create()
    assert refused.value.id == "jobs.store-path-writable"
    assert list(above.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_whose_directories_are_above(above, monkeypatch):
    make_job("fit")
    os.chown(above, -1, STRANGER)
    above.chmod(0o775)
    with pytest.raises(BackendError) as refused:
        layout.names()
    assert refused.value.id == "jobs.store-path-writable"
    os.chown(above, -1, os.getgid())  # root's own group: nobody else is in it
    assert layout.names() == {"fit"} and mode(above) == 0o775
    os.chown(above, STRANGER, -1)
    with pytest.raises(BackendError, match=f"{above}, .* 12345") as refused:
        layout.names()
    assert "JAXTRAIN_HOME" in (refused.value.hint or "")
    # Where this user isn't root: what is root's is trusted, and can't be mended.
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    os.chown(above.parent, 0, STRANGER)
    store._check_way(above / "store")
    above.parent.chmod(0o775)
    with pytest.raises(BackendError) as refused:
        store._check_way(above / "store")
    assert refused.value.id == "jobs.store-path-writable"
    assert "JAXTRAIN_HOME" in (refused.value.hint or "") and "chmod" not in (
        refused.value.hint or ""
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_in_a_container_images_have_directories_of_others(above, monkeypatch):
    make_job("fit")
    os.chown(above, STRANGER, STRANGER)
    above.chmod(0o775)
    with pytest.raises(BackendError):
        layout.names()
    monkeypatch.setattr(store, "_CONTAINER_FILES", ("/",))
    assert layout.names() == {"fit"}
    above.chmod(0o777)
    with pytest.raises(BackendError) as refused:
        layout.names()
    assert refused.value.id == "jobs.store-path-writable"


def test_links_on_the_way_are_followed_one_by_one(above, tmp_path, monkeypatch):
    for name in ("open", "closed"):
        (tmp_path / name).mkdir(mode=0o700)
    (above / "one").symlink_to(tmp_path / "open" / "two")
    (tmp_path / "open" / "two").symlink_to("../closed")
    monkeypatch.setenv("JAXTRAIN_HOME", str(above / "one" / "store"))
    make_job("fit")
    assert (tmp_path / "closed/store/jobs/fit").is_dir() and layout.names() == {"fit"}
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(BackendError, match=f"{tmp_path}/open,") as refused:
        layout.names()
    assert refused.value.id == "jobs.store-path-writable"
    if os.geteuid() == 0:  # who owns a link in a sticky directory can make another of it
        (tmp_path / "open").chmod(0o1777)
        assert layout.names() == {"fit"}
        os.chown(tmp_path / "open" / "two", STRANGER, STRANGER, follow_symlinks=False)
        with pytest.raises(BackendError, match=f"{tmp_path}/open/two, .* 12345"):
            layout.names()
    (above / "loop").symlink_to("loop")
    monkeypatch.setenv("JAXTRAIN_HOME", str(above / "loop" / "store"))
    for look in (layout.names, layout.create):
        with pytest.raises(OSError, match="symbolic links"):
            look()


# ---- locks


CHECKS = """
import sys
from pathlib import Path
from jupyter_jax_trainer.jobdir.layout import JobDir

directory = JobDir(Path(sys.argv[1]))
print("begun", flush=True)
while True:
    directory.is_live()
"""


def test_checking_whether_a_job_is_live_keeps_nobody_from_its_lock():
    directory = make_job("fit", "Running")
    command = [sys.executable, "-c", CHECKS, str(directory.path)]
    checking = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in checking:
            assert process.stdout.readline() == b"begun\n"
        for _ in range(300):
            lock = directory.take_lock()
            assert lock is not None
            assert directory.take_lock() is None
            os.close(lock)
    finally:
        for process in checking:
            process.kill()
            process.communicate()


def test_a_lock_that_somebody_shares_for_good_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(locks, "_CHECKS", 5)
    directory = make_job("fit", "Running")
    with directory.lock.open("w") as shared:
        assert locks.try_lock(shared.fileno(), fcntl.LOCK_SH)
        assert directory.take_lock() is None


# ---- a file system without locks


@pytest.fixture
def nolocks(home, tmp_path, monkeypatch):
    without_flock(monkeypatch, home, tmp_path / "locks")
    (tmp_path / "locks").mkdir()
    return tmp_path / "locks"


def test_without_flock_a_job_is_locked_by_a_stand_in(nolocks, capfd):
    directory = make_job("fit", "Running")
    assert not directory.is_live()
    with held(directory):
        assert directory.is_live() and directory.take_lock() is None
        child = os.fork()
        if not child:
            os._exit(0 if directory.is_live() else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert not directory.is_live()
    assert mode(locks.folder()) == 0o700 and locks.folder().parent == nolocks
    assert capfd.readouterr().err.count("No locks available") == 1


def test_without_flock_a_cut_off_submission_is_cleared_away(nolocks):
    directory, lock = layout.create()
    directory = layout.publish(directory, "fit")
    assert not directory.remove_cut_off()
    os.close(lock)
    assert directory.remove_cut_off() and not directory.path.exists()


def test_without_flock_jobs_wait_for_their_turn(nolocks, home):
    first = Ticket(home / "queue", "first", 2, limit=2)
    assert isinstance(first.turn(), Turn)
    second = Ticket(home / "queue", "second", 2, limit=2)
    assert "first" in str(second.turn())
    first.close()
    assert isinstance(second.turn(), Turn)
    second.close()


def test_without_flock_others_see_that_a_cell_waits(nolocks):
    directory = make_job("fit", "Running")
    with Waiting(directory) as waiting:
        waiting.say("is interrupted")
        assert is_waited_for(directory) == (True, "is interrupted")
    assert is_waited_for(directory) == (False, None)


def test_where_nothing_can_be_locked_a_sentence_says_so(nolocks, monkeypatch):
    monkeypatch.setattr(locks, "_PLACES", ("/proc",))
    with pytest.raises(BackendError, match="No locks available") as refused:
        layout.create()
    assert "JAXTRAIN_HOME" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "left, said",
    [
        (lambda place: place.symlink_to(place.parent / "target"), "are-a-link"),
        (lambda place: place.write_text(""), "are-no-directory"),
        (lambda place: (place.mkdir(), place.chmod(0o777)), "writable"),
        pytest.param(
            lambda place: (place.mkdir(), os.chown(place, STRANGER, STRANGER)),
            "belong-to",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
        ),
    ],
)
def test_what_others_left_where_the_locks_go_is_refused(nolocks, left, said):
    (nolocks / "target").mkdir()
    (nolocks / "target").chmod(0o755)
    left(locks.folder())
    with pytest.raises(BackendError, match=str(locks.folder())) as refused:
        layout.create()
    assert refused.value.id == f"jobs.locks-{said}"
    assert "Remove it" in (refused.value.hint or "")
    assert mode(nolocks / "target") == 0o755
    finding = local._locks()
    assert finding.detail == refused.value.message and "Remove it" in str(finding.advice)


# ---- links and pipes in the store


def within(seconds: float, task: Any) -> Any:
    """Do something that a pipe could hold up for ever."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(task()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "it hangs"
    return found[0]


def test_a_log_that_is_a_link_or_a_pipe_is_none(home, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    directory = make_job("fit", logs={1: ["a line"]})
    directory.log(0).symlink_to(secret)
    directory.log("link").symlink_to(secret)
    os.mkfifo(directory.log("pipe"))
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(directory.logs / "socket.log"))
    assert directory.containers() == []
    assert within(5, lambda: last_lines(directory.log(0), 5)) == []
    assert within(5, lambda: list(LogReader(directory.log("pipe")).read())) == []
    assert last_lines(directory.log(1), 5) == ["a line"]
    for source in (0, "pipe", "socket"):
        assert within(5, lambda s=source: _refused(directory.log(s)))
    with (tmp_path / "packed").open("wb") as packed:
        within(5, lambda: routes._pack(Job(directory), packed) or True)
    assert b"secret" not in (tmp_path / "packed").read_bytes()
    assert b"rank-1" in (tmp_path / "packed").read_bytes()
    for name in ("link", "pipe"):
        with pytest.raises(JobNotFound):
            routes._log(Job(directory), name)


def _refused(path: Path) -> bool:
    with pytest.raises(FileNotFoundError):
        files.open_regular(path)
    return True


def test_a_directory_that_is_linked_is_no_job(home, tmp_path):
    outside = make_job("real").path.rename(tmp_path / "outside")
    (layout.jobs_directory() / "link").symlink_to(outside)
    assert layout.names() == set() and layout.list_all() == []
    with pytest.raises(JobNotFound):
        layout.find("link")


def test_a_store_has_one_id_wherever_it_is_mounted(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "one"))
    found = store.own_id()
    assert re.fullmatch("[0-9a-f]{32}", found) and store.own_id() == found
    (tmp_path / "one").rename(tmp_path / "two")
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "two"))
    assert store.own_id() == found
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["id"]
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "three"))
    assert store.own_id() != found


def test_an_id_that_is_damaged_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "one"))
    store.own_id()
    path = tmp_path / "one" / "id"
    path.write_text("")
    with pytest.raises(BackendError, match=re.escape(say.STORE_ID_DAMAGED(path=path))):
        store.own_id()


def test_a_job_that_ends_while_its_state_is_read_is_not_taken_for_abandoned(home, monkeypatch):
    make_job("one", "Running")

    def ends(_self: layout.JobDir) -> bool:
        make_job("one", "Succeeded")  # the end is written, then the lock is given free
        return False

    def never(*_: object) -> None:
        raise AssertionError("the backend is asked about a job that has ended")

    monkeypatch.setattr(layout.JobDir, "is_live", ends)
    monkeypatch.setattr(LocalBackend, "state", never)
    assert Job(layout.find("one")).state == "Succeeded"


# ---- a state that is looked at all the time


@pytest.fixture
def running(home):
    directory = make_job("lab", state="Running")
    with held(directory):
        yield directory


def test_a_state_is_read_again_when_its_file_was_exchanged(running, tmp_path):
    job, long_ago = Job(running), 1e9
    os.utime(running.state, (long_ago, long_ago))
    assert job.state == "Running"
    before = files.stamp_of(running.state)
    other = tmp_path / "state.json"
    other.write_text(running.state.read_text().replace('"Running"', '"Pending"'))
    os.utime(other, (long_ago, long_ago))
    other.replace(running.state)
    assert files.stamp_of(running.state)._replace(inode=before.inode) == before
    assert job.state == "Pending"
    running.state.write_text("{")
    with pytest.raises(JobDirError, match="damaged"):
        _ = job.state


def test_a_state_that_was_just_written_may_be_written_again_at_the_same_moment(running):
    job, text = Job(running), running.state.read_text()
    now = time.time_ns()
    os.utime(running.state, ns=(now, now))
    assert job.state == "Running"
    running.state.write_text(text.replace('"Running"', '"Pending"'))
    os.utime(running.state, ns=(now, now))
    assert job.state == "Pending"


def test_a_state_that_stays_as_it_is_is_read_once(running, monkeypatch):
    os.utime(running.state, (1e9, 1e9))
    job, read = Job(running), []
    monkeypatch.setattr(
        layout, "read_json", lambda path, shape: read.append(path) or files.read_json(path, shape)
    )
    assert {job.state for _ in range(20)} == {"Running"}
    assert read == [running.state]
