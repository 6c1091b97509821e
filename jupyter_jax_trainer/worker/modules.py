"""The user's own modules as files, so that what they read beside themselves is there, too."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from jupyter_jax_trainer.worker.serialization.archive import Archive

_PREFIX = "modules/"


def unpack(archive: Archive, directory: Path | None) -> str | None:
    """Write the modules of a bundle to disk, and give the directory to import them from.

    Parameters
    ----------
    archive
        The bundle.
    directory
        The job's directory. The ranks there share one copy, which appears when it is whole.
        Without one, every process has a copy among the temporary files.

    Returns
    -------
    The directory; None if the bundle has no modules.
    """
    names = [name for name in archive.manifest["members"] if name.startswith(_PREFIX)]
    if not names:
        return None
    shared = directory if directory is not None and directory.is_dir() else None
    if shared is not None and (shared / "modules").is_dir():
        return str(shared / "modules")
    try:
        place = Path(
            tempfile.mkdtemp(prefix=".modules-" if shared else "jaxtrain-modules-", dir=shared)
        )
    except FileNotFoundError:  # no directory can be written: they can be imported, if not opened
        return f"{archive.path}/{_PREFIX.rstrip('/')}"
    for name in names:
        path = place / name.removeprefix(_PREFIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive.read(name))
    if shared is None:
        return str(place)
    with suppress(OSError):  # another rank was first
        os.rename(place, shared / "modules")
    shutil.rmtree(place, ignore_errors=True)
    return str(shared / "modules")
