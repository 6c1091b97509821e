"""Profiles on their way from the pods of a job into its directory."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from pathlib import Path

from jupyter_jax_trainer.backends.kubernetes.follow.fetch import Held
from jupyter_jax_trainer.backends.kubernetes.logs.messages import Part
from jupyter_jax_trainer.jobdir.files import LineReader, LineWriter, open_private, write_private
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import ProfileOfRank, profile_record
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.trust import policy, unpacking
from jupyter_jax_trainer.worker.bounds import bound
from jupyter_jax_trainer.worker.profiling import BYTES, BYTES_VARIABLE
from jupyter_jax_trainer.worker.records import Profiled

_PARTS = 16 << 20  # bytes of a file of parts


class HeldProfile(Held):
    """A profile that a rank holds, and of which job: the one followed, or a cell on its ranks."""

    job: str
    taken: Profiled


def most() -> int:
    """Return how large a profile of one rank may be."""
    return bound(os.environ, BYTES_VARIABLE, BYTES)


def archive_of(directory: JobDir, rank: int, name: str) -> Path:
    """Return where the archive of a profile is until it is unpacked."""
    return directory.path / f"profile-{name}-{rank}.zip"


def add_part(directory: JobDir, rank: int, name: str, part: Part) -> None:
    """Keep a part of a profile that came with the log; the same one may come twice."""
    path = _parts(directory, rank, name)
    if not path.exists() or path.stat().st_size < _PARTS:
        LineWriter(path).write(part)


def settle(directory: JobDir, rank: int, taken: Profiled) -> ProfileOfRank:
    """Put the parts of a profile together; say so where that is not possible."""
    found = profile_record(rank, taken)
    path = _parts(directory, rank, taken["name"])
    if not found["files"]:
        path.unlink(missing_ok=True)
        return found
    try:
        if not policy.standing(directory, directory.read_manifest()).complete:
            raise ValueError(say.UNTRUSTED())
        parts = {line["index"]: line for line in LineReader[Part](path).read()}
        first = next(iter(parts.values()))
        data = b"".join(base64.b64decode(parts[n]["data"]) for n in range(first["count"]))
        if hashlib.sha256(data).hexdigest() != first["sha256"]:
            raise ValueError(say.DAMAGED())
        write_private(archive_of(directory, rank, taken["name"]), data)
    except (OSError, LookupError, ValueError, StopIteration) as error:
        archive_of(directory, rank, taken["name"]).unlink(missing_ok=True)  # half of it, perhaps
        return {**found, "files": {}, "problem": str(error) or type(error).__name__}
    finally:
        path.unlink(missing_ok=True)
    return unpack(directory, rank, taken)


def unpack(directory: JobDir, rank: int, taken: Profiled) -> ProfileOfRank:
    """Unpack the archive of a profile, in bounds; say so where that is not possible."""
    found = profile_record(rank, taken)
    archive = archive_of(directory, rank, taken["name"])
    folder = directory.profiles / taken["name"] / f"rank-{rank}"
    left = most()
    try:
        shutil.rmtree(folder, ignore_errors=True)  # of an attempt before this one
        folder.mkdir(mode=0o700, parents=True)
        for name in found["files"]:
            with open_private(folder / name) as file:
                size = unpacking.copy_member(archive, name, file, left)
            found["files"][name] = size
            left -= size
    except Exception as error:  # of whatever was made of it
        shutil.rmtree(folder, ignore_errors=True)
        return {**found, "files": {}, "problem": str(error)[:200] or type(error).__name__}
    finally:
        archive.unlink(missing_ok=True)
    return found


def _parts(directory: JobDir, rank: int, name: str) -> Path:
    return directory.path / f"profile-{name}-{rank}.parts"
