"""Unpack archives that somebody else may have made, in bounded memory.

`worker.archive` reads them in a job, with `zipimport`, which inflates a member to its end whatever
the archive says of its size.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import BinaryIO

from jupyter_jax_trainer.messages import results as say

# Of other methods `zipfile` unpacks a whole block of input at once, however large it becomes.
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PIECE = 1 << 20


def read_member(path: Path, name: str, most: int | None = None) -> bytes:
    """Return a member of an archive, as `copy_member` writes it."""
    file = io.BytesIO()
    copy_member(path, name, file, most)
    return file.getvalue()


def copy_member(path: Path, name: str, to: BinaryIO, most: int | None = None) -> int:
    """Write a member of an archive to a file, never more of it than the directory says.

    Parameters
    ----------
    path
        The archive.
    name
        The member.
    to
        The file.
    most
        Refuse more bytes than these.

    Returns
    -------
    int
        How many bytes it has.

    Raises
    ------
    Exception
        It is missing, too large, or damaged in any way; or it can't be written.
    """
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
        if member.compress_type not in _BOUNDED:
            raise ValueError(say.UNKNOWN_COMPRESSION())
        if most is not None and member.file_size > most:
            raise ValueError(say.TOO_LARGE(size=member.file_size))
        left = member.file_size
        with archive.open(member) as file:
            while piece := file.read(min(left, _PIECE)):
                to.write(piece)
                left -= len(piece)
    if left:
        raise ValueError(say.CUT_OFF())
    return member.file_size
