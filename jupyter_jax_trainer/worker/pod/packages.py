"""Packages that a job brings along, or takes from an index, before jax is imported."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.pod.parcel import is_in_memory, memory_left
from jupyter_jax_trainer.worker.pod.wheel import PackageError, Wheel
from jupyter_jax_trainer.worker.serialization.archive import Archive

PIP_VARIABLE = "JAXTRAIN_PIP"
_SHARED_MEMORY = Path("/dev/shm")  # of the pod
_OF_SHARED, _OF_MEMORY = 2, 8  # parts of what is free there, and of the container's memory
_LAST_LINES = 12
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def add(archive: Archive, scratch: Path | None, offered: Collection[str] = ()) -> None:
    """Install the packages of a job into a directory of its own, and put that on ``sys.path``.

    Parameters
    ----------
    archive
        The bundle, with the wheels that travel with it.
    scratch
        Where they can be written.
    offered
        Those of its offers that are to be installed, by their file names.

    Raises
    ------
    PackageError
        A wheel is for another Python or machine, pip has failed, or there is no place to write.
    """
    left = {one["file"] for one in archive.manifest.get("offers", ())}.difference(offered)
    wheels = [name for name in archive.packages if name not in left]
    wanted = json.loads(os.environ.get(PIP_VARIABLE) or "[]")
    if not wheels and not wanted:
        return
    found = None if wanted else _in_memory(archive, wheels)
    folder, opened = found or (_folder(scratch, f"packages-{os.getpid()}"), _open(archive, wheels))
    # After the worker's own code, before what the image has.
    sys.path.insert(1, str(folder))
    for wheel in opened:
        wheel.unpack(folder)
    if wanted:
        _install(wanted, folder)


def bring(archive: Archive, scratch: Path | None, number: int) -> None:
    """Install the packages of a session's later cell, which the ranks lack.

    Raises
    ------
    PackageError
        A wheel is for another Python or machine, or there is no place to write.
    """
    folder = _folder(scratch, f"packages-{os.getpid()}-{number}")
    sys.path.insert(1, str(folder))
    for wheel in _open(archive, archive.packages):
        wheel.unpack(folder)


def _folder(scratch: Path | None, name: str) -> Path:
    if scratch is None:
        raise PackageError(say.NO_PACKAGE_DIRECTORY())
    folder = scratch / name
    folder.mkdir(exist_ok=True)
    return folder


def _open(archive: Archive, wheels: Iterable[str]) -> Iterator[Wheel]:
    """Read wheels one by one: together they may be larger than the memory."""
    for name in wheels:
        yield Wheel(name, archive.read_package(name))


def _in_memory(archive: Archive, wheels: Sequence[str]) -> tuple[Path, list[Wheel]] | None:
    """Make a folder in the pod's memory, where a thousand small files take no time.

    For modules alone, as nothing there can be executed, and where they take little of it. Libraries
    of GPUs need it for themselves.
    """
    pure = all(name.endswith("-none-any.whl") for name in wheels)
    if "JAXTRAIN_DEVICE" in os.environ or not pure:  # it is there where CPUs are not meant
        return None
    uid, rank = os.environ.get("JAXTRAIN_JOB_UID", ""), os.environ.get("JAX_PROCESS_ID", "")
    folder = _SHARED_MEMORY / f".jaxtrain-packages-{uid}-{rank}"
    with contextlib.suppress(OSError):
        shutil.rmtree(folder, ignore_errors=True)  # of this rank, before it was started again
        free = shutil.disk_usage(_SHARED_MEMORY).free // _OF_SHARED
        most = min(free, memory_left() // _OF_MEMORY)
        most -= sum(archive.packages[name]["size"] for name in wheels)
        if is_in_memory(_SHARED_MEMORY) and most >= 0:
            opened = list(_open(archive, wheels))
            if sum(wheel.unpacked_size for wheel in opened) <= most:
                folder.mkdir(mode=0o700)
                return folder, opened
    return None


def _install(wanted: list[str], folder: Path) -> None:
    """Install what the image lacks, and no more.

    ``pip install --target`` alone would fetch all dependencies again, jax among them, for another
    kind of device maybe. So pip first says what is missing, and gets only that.
    """
    report = folder / ".report.json"
    _pip(["install", "--dry-run", "--quiet", "--report", str(report), *wanted], wanted)
    missing = [_requirement(item) for item in json.loads(report.read_text())["install"]]
    report.unlink()
    if missing:
        _pip(["install", "--no-deps", "--target", str(folder), *missing], wanted)


def _requirement(item: dict[str, Any]) -> str:
    """Return the requirement for one package of pip's report, to get just this."""
    meta, source = item["metadata"], item["download_info"]
    if not item.get("is_direct"):
        return f"{meta['name']}=={meta['version']}"
    if "vcs_info" in source:
        return f"{source['vcs_info']['vcs']}+{source['url']}@{source['vcs_info']['commit_id']}"
    return str(source["url"])


def _pip(arguments: list[str], wanted: list[str]) -> None:
    """Run pip; what it says goes to the log."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    # Without the bundle on its path: pip is to see the image's packages, not the worker's.
    with subprocess.Popen(
        [*_PIP, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last.append(line)
    if process.returncode:
        from jupyter_jax_trainer import masking  # a pod starts without it

        named = masking.text(" ".join(wanted))
        raise PackageError(say.PIP_FAILED(packages=named, output="".join(last).rstrip()))
