"""Fetch the wheels that a job takes along, so that its pods need neither pip nor an index."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.submit import images
from jupyter_jax_trainer.capture.environment import OF_IMAGE
from jupyter_jax_trainer.capture.packing import CannotPack, Platform
from jupyter_jax_trainer.capture.room import Room
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.text import size

_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
_TROUBLE = (OSError, subprocess.SubprocessError, ValueError, LookupError)
_OLDEST_GLIBC = 17  # 2.17; pip takes wheels for older ones with those of manylinux2014


@dataclass
class Wheels:
    """What a job takes along.

    Attributes
    ----------
    files
        The wheels, by their file names.
    pip
        What pip has to install in the pods instead.
    note
        What the user should know about that.
    problem
        Why the wheels of what pip has to install can't travel.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    pip: list[str] = field(default_factory=list)
    note: str | None = None
    problem: str | None = None


class _Project(TypedDict):
    name: str
    version: str


class _Archive(TypedDict):
    hashes: NotRequired[dict[str, str]]
    hash: NotRequired[str]  # of pip before 23.1: ``sha256=…``


class _Source(TypedDict):
    url: str
    archive_info: NotRequired[_Archive]


class _Entry(TypedDict):
    """A file that pip would install, in its report."""

    metadata: _Project
    download_info: _Source
    requested: NotRequired[bool]
    is_direct: NotRequired[bool]


def gather(wanted: Sequence[str], python: str, room: Room, *, from_pods: bool = False) -> Wheels:
    """Get the wheels of packages and of what they need, but for what an image for JAX has anyway.

    They come from the index of this machine, with the hashes that it has said. An index of the pods
    may have another package of the same name, so it is used only where somebody asks for it.

    Parameters
    ----------
    wanted
        Requirements, or paths of wheels.
    python
        The minor version of the pods' Python.
    room
        How much may travel.
    from_pods
        Pip in the pods may install what can't travel, from an index of theirs.

    Raises
    ------
    UsageError
        There is no such file, it is no wheel, or what can't travel may not come from elsewhere.
    """
    if not wanted:
        return Wheels()
    local = {name: _read(name) for name in wanted if is_path(name)}
    own = {Path(name).name: data for name, data in local.items()}
    with tempfile.TemporaryDirectory() as folder:
        try:
            files = {**_fetch(wanted, python, Path(folder)), **own}
            problem = None
        except _TROUBLE as error:
            files, problem = own, _words(error)
    length = sum(map(len, files.values()))
    if problem is None and not room.fits(length):
        problem = say.WHEELS_TOO_LARGE(size=size(length), most=size(room.most or 0))
        files = own if room.fits(sum(map(len, own.values()))) else {}
    if problem is None:
        return Wheels(files)
    rest = [name for name in wanted if not is_path(name)]
    if len(files) < len(local):
        raise UsageError(say.WHEEL_NOT_BUNDLED(packages=" ".join(local), problem=problem))
    if not rest:
        note = say.DEPENDENCIES_NOT_BUNDLED(packages=" ".join(wanted), problem=problem)
        return Wheels(files, note=note)
    if not from_pods:
        raise UsageError(say.NOT_BUNDLED(packages=" ".join(rest), problem=problem))
    note = say.PIP_IN_PODS(packages=", ".join(rest), problem=problem)
    return Wheels(files, rest, note, problem)


def named(wanted: Sequence[str]) -> dict[str, str]:
    """Return the packages that wheels and requirements name, with the versions of the wheels.

    Where no version is known, it is empty.
    """
    found: dict[str, str] = {}
    for one in wanted:
        if is_path(one):
            with suppress(InvalidWheelFilename):
                name, version, _, _ = parse_wheel_filename(Path(one).name)
                found[name] = str(version)
        else:
            with suppress(InvalidRequirement):
                found.setdefault(str(canonicalize_name(Requirement(one).name)), "")
    return found


def is_path(wanted: str) -> bool:
    """Return whether this is the path of a wheel, and not what pip calls a requirement."""
    return wanted.endswith(".whl") and "://" not in wanted


def _read(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise UsageError(say.UNREADABLE_WHEEL(path=path, error=error.strerror)) from None


class Index:
    """The index that this machine's pip is configured for, asked for wheels of exact versions.

    All that one submission asks takes no longer than pip may take once.
    """

    def __init__(self) -> None:
        self._until: float | None = None

    def __call__(self, pins: Mapping[str, str], platform: Platform) -> dict[str, bytes]:
        """Fetch the wheels of distributions for a platform, and nothing that they need.

        Parameters
        ----------
        pins
            Normalized name → version.
        platform
            Where they have to run.

        Returns
        -------
        Their contents, by their file names.

        Raises
        ------
        CannotPack
            One is not to be had; the text says why.
        """
        now = time.monotonic()
        self._until = self._until or now + timeouts.PIP.seconds
        wanted = [f"{name}=={version}" for name, version in pins.items()]
        tags = _manylinux(platform.machine, platform.glibc[1])
        python = platform.python or f"{sys.version_info[0]}.{sys.version_info[1]}"
        with tempfile.TemporaryDirectory() as folder:
            try:
                # The user waits, perhaps for a package that the job does not need.
                more = ["--no-deps", "--retries", "1"]
                left = max(0.0, self._until - now)
                return _download([*wanted, *more], python, tags, Path(folder), left)
            except _TROUBLE as error:
                raise CannotPack(_words(error)) from None


def _fetch(wanted: Sequence[str], python: str, folder: Path) -> dict[str, bytes]:
    """Let pip work out what is needed, and download what an image lacks."""
    # Of an image nothing is known but its Python; the nodes are taken to have this machine's kind
    # of processor, where this machine is of their kind at all.
    machine = images.machine()
    tags = [*_manylinux(machine, 28), f"linux_{machine}"]
    named = [str(Path(name).expanduser()) if is_path(name) else name for name in wanted]
    return _download(named, python, tags, folder, timeouts.PIP.seconds)


def _manylinux(machine: str, glibc: int) -> list[str]:
    """Return the platforms of wheels that run with a version of glibc, the newest first."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(glibc, _OLDEST_GLIBC - 1, -1)]
    return [*tags, f"manylinux2014_{machine}"]


def _download(
    wanted: Sequence[str], python: str, platforms: Sequence[str], folder: Path, seconds: float
) -> dict[str, bytes]:
    """Download the files that pip would install, each with the hash that its report has."""
    choice = ["--only-binary", ":all:", "--python-version", python, "--implementation", "cp"]
    for tag in platforms:
        choice += ["--platform", tag]
    report = folder / "report.json"
    until = time.monotonic() + seconds
    _run(
        [
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
            "--target",
            str(folder),
            "--report",
            str(report),
            *choice,
            *wanted,
        ],
        seconds,
    )
    found: list[_Entry] = json.loads(report.read_text())["install"]
    lines = [line for item in found if (line := _requirement(item))]
    if lines:
        listed = folder / "requirements.txt"
        listed.write_text("\n".join(lines))
        _run(
            [
                "download",
                "--no-deps",
                "--require-hashes",
                "--quiet",
                "--dest",
                str(folder),
                *choice,
                "--requirement",
                str(listed),
            ],
            max(0.0, until - time.monotonic()),
        )
    return {path.name: path.read_bytes() for path in folder.glob("*.whl")}


def _requirement(item: _Entry) -> str | None:
    """Return what to ask pip for to get just one file of its report; None where it is not needed.

    Raises
    ------
    ValueError
        The report has no hash of it, so that another file could come in its place.
    """
    meta, source = item["metadata"], item["download_info"]
    url, name = source["url"], re.sub(r"[-_.]+", "-", meta["name"]).lower()
    own = url.startswith("file:") and item.get("is_direct")  # a wheel that was given by its path
    if own or (OF_IMAGE.fullmatch(name) and not item.get("requested")):
        return None
    archive = source.get("archive_info", {})
    before = archive.get("hash", "").partition("sha256=")[2]
    digest = archive.get("hashes", {}).get("sha256", before)
    if not digest:
        raise ValueError(say.NO_HASH(name=meta["name"], version=meta["version"]))
    wanted = f"{name} @ {url}" if item.get("is_direct") else f"{meta['name']}=={meta['version']}"
    return f"{wanted} --hash=sha256:{digest}"


def _run(arguments: list[str], seconds: float) -> None:
    done = subprocess.run(
        [*_PIP, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")]
        last = (errors or lines or [say.PIP_FAILED()])[-1]
        raise ValueError(last.removeprefix("ERROR:").strip())


def _words(error: BaseException) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return say.PIP_TIMED_OUT(seconds=timeouts.PIP.seconds)
    return str(error).rstrip(".") or type(error).__name__
