"""What the server costs while nobody looks: nothing."""

from __future__ import annotations

import ctypes
import os
import select
import time
from pathlib import Path

import pytest
from harness import eventually
from made_jobs import make_job

from jupyter_jax_trainer.jobdir import files

LONG = 3.0  # seconds; a page that is open looks five times a second
OPENED, NONBLOCK = 0x20, os.O_NONBLOCK


class Opened:
    """Sees each opening of a file or a directory below a folder, by whomever (inotify)."""

    def __init__(self, folder: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.inotify_init1(NONBLOCK)
        for path in (folder, *(one for one in folder.rglob("*") if one.is_dir())):
            watch = self._libc.inotify_add_watch(self._file, os.fsencode(path), OPENED)
            assert watch >= 0, os.strerror(ctypes.get_errno())

    def within(self, seconds: float) -> bool:
        """Return whether something is opened within some seconds from now on."""
        while select.select([self._file], [], [], 0)[0]:
            os.read(self._file, 1 << 16)
        return bool(select.select([self._file], [], [], seconds)[0])

    def close(self) -> None:
        os.close(self._file)


def cpu(server) -> float:
    """Return the seconds of a core that the server has used."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(server, opened):
    """Look whether it does nothing for a while."""
    before = cpu(server)
    began = time.monotonic()
    read = opened.within(LONG)
    return not read and (cpu(server) - before) / (time.monotonic() - began) < 0.02


@pytest.mark.slow
def test_nothing_is_read_and_no_core_is_used_while_no_page_is_open(server, store):
    for number in range(500):
        make_job(f"job-{number}")
    pod = make_job("pod", "Running")  # nobody follows it, and nobody has asked for it
    manifest = pod.read_manifest()
    plan = {**manifest["plan"], "cluster": "c", "context": "none", "namespace": "default"}
    files.write_json(pod.manifest, {**manifest, "backend": "kubernetes", "plan": plan})
    opened = Opened(store)
    try:
        eventually(lambda: idle(server, opened), 20)
        assert not (store / "followers").exists()
        pod.remove()
        with server.page() as page, server.page() as other:
            page.say(op="open", id=1, topic="jobs")
            assert len(page.hear("jobs")["rows"]) == 500
            for number, topic in enumerate(("job", "summary", "log"), 1):
                other.say(op="open", id=number, topic=topic, key="job-7")
                other.hear(topic, number)
            assert opened.within(LONG)  # so it could be seen
            other.say(op="close", id=1)
        eventually(lambda: idle(server, opened), 20)
    finally:
        opened.close()


def test_no_thread_is_left_of_a_page(server):
    make_job("one")
    tasks = Path(f"/proc/{server.process.pid}/task")
    with server.page() as page:
        page.say(op="open", id=1, topic="jobs")
        page.hear("jobs")
        during = len(list(tasks.iterdir()))
    eventually(lambda: len(list(tasks.iterdir())) < during, 10)
