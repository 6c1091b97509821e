"""The files that a job brings along (``--files``): they are its working directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.exceptions import WorkerError
from jupyter_jax_trainer.worker.serialization.archive import Archive

PREFIX = "job-files/"  # no name of a package: the bundle is on the path of the imports


class FilesError(WorkerError):
    """The files that a job brings along can't be put down."""


def enter(archive: Archive, scratch: Path | None, place: Path | None = None) -> Path | None:
    """Write the files into a directory and go there; without files, stay.

    Parameters
    ----------
    archive
        The bundle.
    scratch
        Where to make a new directory; None for wherever temporary files are.
    place
        A directory to take instead, in which files may be replaced.

    Returns
    -------
    Path or None
        The directory; None where there are no files.

    Raises
    ------
    FilesError
        There is no place to write, or a name leads out of the directory.
    """
    names = [name for name in archive.manifest["members"] if name.startswith(PREFIX)]
    if not names:
        return place
    try:
        place = place or Path(tempfile.mkdtemp(prefix="jaxtrain-files-", dir=scratch))
    except FileNotFoundError:
        raise FilesError(say.NO_FILES_DIRECTORY()) from None
    executable = set(archive.manifest["executable"])
    for name in names:
        inner = name.removeprefix(PREFIX)
        if {"", ".", ".."} & set(inner.split("/")) or "\0" in inner:
            raise FilesError(say.FILE_OUTSIDE(file=inner))
        path = Path(place, inner)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with path.open("xb") as file:  # never through a link, or over another file
            file.write(archive.read(name))
        if inner in executable:
            path.chmod(0o700)
    os.chdir(place)
    return place
