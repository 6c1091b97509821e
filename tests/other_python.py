"""Environments apart from that of the tests: with only jax in them, or with a wheel of this package.

They are made once, in ``.venvs``, and kept. Needs a network the first time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

VENVS = Path(__file__).resolve().parent.parent / ".venvs"
OLDEST = (3, 11)
INSTALL_S = 900


class Unavailable(Exception):
    """There is no such Python here, or its environment could not be made."""


def jax_only() -> Path:
    """Return the running minor's Python with only jax, at the version installed here."""
    return _made(Path(sys.executable), VENVS / "only-jax", [f"jax=={version('jax')}"])


def other() -> Path:
    """Return another minor's Python with only jax."""
    minor, python = find_other()
    return _made(python, VENVS / f"py3.{minor}-jax", ["jax"])


def with_wheel(wheel: Path, extras: str, *pinned: str) -> Path:
    """Return the running minor's Python with a wheel and what it asks for, some of it pinned.

    The environment is one for these extras. Another wheel takes the place of the one in it; that must not happen
    while another process uses it, so all that run at a time bring the same.
    """
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        asks = re.findall(r"^Requires-Dist: (.*)", archive.read(name).decode(), re.MULTILINE)
    venv = VENVS / f"with-wheel-{extras.replace(',', '-')}"
    wanted = [f"{wheel}[{extras}]", *pinned]
    python = _made(Path(sys.executable), venv, wanted, stamp="\n".join([extras, *pinned, *asks]))
    there, digest = venv / "wheel", sha256(wheel.read_bytes()).hexdigest()
    with _only_one(venv):
        if not there.exists() or there.read_text() != digest:
            there.unlink(missing_ok=True)
            _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
            there.write_text(digest)
    return python


def find_other() -> tuple[int, Path]:
    """Find the Python whose minor version is nearest to the running one, the newer of two."""
    here = sys.version_info.minor
    found: dict[int, Path] = {}
    for candidate in _candidates():
        minor = _minor(candidate)
        if minor is not None and minor != here:
            found.setdefault(minor, candidate)
    if not found:
        raise Unavailable(
            f"there is no other Python than 3.{here} (3.{OLDEST[1]} or newer) on PATH or in pyenv"
        )
    minor = min(found, key=lambda m: (abs(m - here), -m))
    return minor, found[minor]


def _candidates() -> list[Path]:
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], OLDEST[1] + 10))]
    found = [Path(at) for name in names if (at := shutil.which(name))]
    root = os.environ.get("PYENV_ROOT") or _output("pyenv", "root")
    if root:
        found += sorted(Path(root).glob("versions/3.*/bin/python3"))
    return found


def _minor(python: Path) -> int | None:
    """Return the minor version of a Python that runs and can make environments, else None."""
    code = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    try:
        major, minor = map(int, (_output(str(python), "-c", code) or "").split())
    except ValueError:
        return None
    return minor if (major, minor) >= OLDEST else None


def _output(*command: str) -> str | None:
    """Return what a command prints, or None when it fails (a pyenv shim without a version, say)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _made(python: Path, venv: Path, wanted: list[str], stamp: str | None = None) -> Path:
    """Return the Python of an environment with these packages; it is made where ``stamp`` is new."""
    stamp = "\n".join(wanted) if stamp is None else stamp
    made, stamped = venv / "bin" / "python", venv / "installed"
    with _only_one(venv):
        if stamped.exists() and stamped.read_text() == stamp and made.exists():
            return made
        shutil.rmtree(venv, ignore_errors=True)
        _run(python, "-m", "venv", venv)
        # Most of it is never imported, and what is, Python compiles then.
        _run(made, "-m", "pip", "install", "--quiet", "--no-compile", *wanted)
        stamped.write_text(stamp)
    return made


@contextlib.contextmanager
def _only_one(venv: Path) -> Iterator[None]:
    """Let no other process change an environment meanwhile."""
    VENVS.mkdir(exist_ok=True)
    with (VENVS / f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*command: str | Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(map(str, command))} took more than {INSTALL_S} s") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Unavailable(f"{' '.join(map(str, command))} failed: {' '.join(last)}")
