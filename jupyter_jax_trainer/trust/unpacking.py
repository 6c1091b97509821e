"""Unpack archives that somebody else may have made, in bounded memory.

`worker.archive` reads them in a job, with `zipimport`, which inflates a member to its end whatever
the archive says of its size.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from jupyter_jax_trainer.messages import results as say

# Of other methods `zipfile` unpacks a whole block of input at once, however large it becomes.
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_member(path: Path, name: str, most: int | None = None) -> bytes:
    """Return a member of an archive, never more of it than the directory says.

    Parameters
    ----------
    path
        The archive.
    name
        The member.
    most
        Refuse more bytes than these.

    Raises
    ------
    Exception
        It is missing, too large, or damaged in any way.
    """
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
        if member.compress_type not in _BOUNDED:
            raise ValueError(say.UNKNOWN_COMPRESSION())
        if most is not None and member.file_size > most:
            raise ValueError(say.TOO_LARGE(size=member.file_size))
        with archive.open(member) as file:
            data = file.read(member.file_size)
    if len(data) != member.file_size:
        raise ValueError(say.CUT_OFF())
    return data
