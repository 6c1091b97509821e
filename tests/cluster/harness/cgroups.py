"""The control group that all pods are in, so that nothing of them is left behind."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import layout
from layout import ClusterError

ROOT = Path("/sys/fs/cgroup")


def _unified() -> bool:
    return (ROOT / "cgroup.controllers").exists()


def _tops() -> list[Path]:
    """Return our group in each hierarchy."""
    if _unified():
        return [ROOT / layout.CGROUP]
    names = [path for path in ROOT.iterdir() if path.is_dir() and not path.is_symlink()]
    return [path / layout.CGROUP for path in names if (path / "cgroup.procs").exists()]


def make() -> None:
    """Make the group; the kubelet wants it to exist."""
    for top in _tops():
        top.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # an empty set admits no process
            if (top / name).exists() and not _unified():
                (top / name).write_text((top.parent / name).read_text())
        if _unified():
            wanted = {"cpu", "cpuset", "memory", "pids", "io", "hugetlb"}
            there = (top / "cgroup.controllers").read_text().split()
            for name in wanted.intersection(there):
                (top / "cgroup.subtree_control").write_text(f"+{name}")


def _processes() -> set[str]:
    files = [file for top in _tops() for file in top.rglob("cgroup.procs")]
    return {pid for file in files for pid in file.read_text().split()}


def remove() -> None:
    """Remove the group, once the processes in it have ended."""
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError):
            if not _processes():
                break
        if time.monotonic() > deadline:
            raise ClusterError(f"Processes {', '.join(sorted(_processes()))} of pods do not end.")
        time.sleep(0.1)
    for top in _tops():
        for folder in sorted(top.rglob("*/"), key=lambda path: -len(path.parts)):
            if folder.is_dir():
                folder.rmdir()
        if top.exists():
            top.rmdir()
