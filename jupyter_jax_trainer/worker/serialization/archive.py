"""The archive: one file that holds code, a manifest and large buffers.

It is a zip application with the raw buffers in front of the zip part (a zip file may have any
prefix)::

    #!/usr/bin/env python3
    buffer 0, buffer 1, …          each at a multiple of 64 bytes, uncompressed
    zip: manifest.json, members    compressed

So ``python3 job.pyz`` runs it, any zip tool opens it, and a reader maps the buffers into memory
without copying a byte. ``manifest.json`` holds the sha256 of every member and buffer; the sha256 of
the manifest is the digest of the whole archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import zipimport
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.durable import put_in_place
from jupyter_jax_trainer.worker.records import ResultInfo

FORMAT = 1
_UNREADABLE = (OSError, EOFError, zipimport.ZipImportError, zlib.error)  # of a damaged file
_ALIGN = 64  # what XLA on CPU wants to use an array in place
_SHEBANG = b"#!/usr/bin/env python3\n"
_PIECE = 16 << 20  # bytes under one hash, so that several threads can hash a large buffer
_HASHERS = 4
_BLANK = bytes(_ALIGN)


class Buffer(TypedDict):
    """Where a buffer is in the file, and the hashes of its pieces where it has some."""

    offset: int
    size: int
    sha256: NotRequired[list[str]]


class Contents(TypedDict):
    """What the manifest of any archive says: the sha256 of its members, and its buffers."""

    format: int
    members: dict[str, str]
    buffers: list[Buffer]


class Offer(TypedDict):
    """A package that goes along in case the image lacks it.

    Attributes
    ----------
    name, version
        Of its distribution; the name is normalized.
    file
        The wheel; None where it can't be sent.
    problem
        Why it can't.
    use
        Whether the job certainly imports it, or may do so; or others need it.
    replaces
        Which versions in the image it replaces: ``others``, where objects of it are sent.
    requires
        Its requirements, with markers.
    unmet
        Normalized name → version of what it does not want and works with all the same.
    """

    name: str
    version: str
    file: str | None
    problem: str | None
    use: Literal["certain", "possible", "needed"]
    replaces: Literal["none", "others", "all"]
    requires: list[str]
    unmet: dict[str, str]


class BundleManifest(TypedDict):
    """What the manifest of a job's bundle says besides.

    Attributes
    ----------
    python, python_bound
        The minor version of the notebook's Python, and the variables that no other one can read.
    versions
        Of packages.
    jax_config
        The settings that the notebook gave to jax.
    names, outside, out
        The variables that were sent, those that were not (not all, if many), and those that are
        wanted back.
    argv
        ``sys.argv`` of a script.
    executable
        Files of the job that can be run as programs.
    cell_file, labels
        The file name under which the cell is compiled, and what tracebacks call such files.
    offers
        Packages for an image of which nothing is known.
    """

    name: str
    python: list[int]
    python_bound: list[str]
    versions: dict[str, str]
    jax_config: dict[str, JsonValue]
    names: list[str]
    outside: list[str]
    out: list[str]
    argv: list[str]
    executable: list[str]
    cell_file: str
    labels: dict[str, str]
    offers: NotRequired[list[Offer]]


class Bundle(BundleManifest, Contents):
    """The whole manifest of a bundle."""


class ResultGroup(TypedDict):
    """Variables in one pickle, and its buffers: the first one, and how many there are."""

    names: list[str]
    first: int
    buffers: int


class ResultManifest(TypedDict):
    """What the manifest of a job's results says besides.

    Attributes
    ----------
    python
        The minor version of the job's Python.
    plain
        What stands for the variables in the plain format.
    groups
        The others.
    results
        A table of all.
    """

    results_format: int
    python: list[int]
    plain: dict[str, JsonValue]
    groups: list[ResultGroup]
    results: list[ResultInfo]


def write_archive(
    path: Path,
    members: Mapping[str, bytes],
    buffers: Sequence[memoryview],
    manifest: BundleManifest | ResultManifest,
    *,
    hash_buffers: bool = True,
    durable: bool = False,
) -> str:
    """Write an archive; it appears under its name only when it is whole.

    Parameters
    ----------
    path
        Where to.
    members, buffers, manifest, hash_buffers
        See :func:`write_archive_to`.
    durable
        It is on the disk when this returns, and a loss of power does not take it.

    Returns
    -------
    str
        The sha256 of the manifest, in hex.

    Raises
    ------
    OSError
        The disk is full, or the path can't be written. Nothing is left behind.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb", buffering=0) as file:
            os.fchmod(file.fileno(), 0o600)
            digest = write_archive_to(file, members, buffers, manifest, hash_buffers=hash_buffers)
        if durable:
            put_in_place(part, path)
        else:
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return digest


def write_archive_to(
    file: io.FileIO,
    members: Mapping[str, bytes],
    buffers: Sequence[memoryview],
    manifest: BundleManifest | ResultManifest,
    *,
    hash_buffers: bool = True,
) -> str:
    """Write an archive into an open, empty file.

    Parameters
    ----------
    file
        Where to.
    members
        Zip members by name.
    buffers
        Contiguous byte views, written in place of copies.
    manifest
        What else the manifest says.
    hash_buffers
        Put the sha256 of the buffers into the manifest, too. It takes longer than writing them, so
        an archive that stays on its machine, where nobody would check it, goes without.

    Returns
    -------
    str
        The sha256 of the manifest, in hex.
    """
    import zipfile

    table = _write_buffers(file, buffers, hash_buffers)
    hashes = {name: _sha256(data) for name, data in members.items()}
    whole = {"format": FORMAT, **manifest, "members": hashes, "buffers": table}
    text = json.dumps(whole, indent=1).encode()
    # The zip part is built apart, so that its offsets count from its own start: zipimport before
    # Python 3.13 reads no zip64, and needs none this way, however long the prefix.
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in (("manifest.json", text), *members.items()):
            archive.writestr(
                zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED
            )
    _write_all(file, packed.getbuffer())
    return _sha256(text)


def _write_buffers(file: io.FileIO, buffers: Sequence[memoryview], hashed: bool) -> list[Buffer]:
    """Write the buffers while other threads hash them, in pieces: hashing is the slower part."""
    _write_all(file, _SHEBANG)
    if not buffers:
        return []
    from concurrent.futures import ThreadPoolExecutor

    table: list[Buffer] = []
    digests = []
    with ThreadPoolExecutor(_HASHERS, "hash-buffers") as hashers:
        for buffer in buffers:
            if hashed:
                digests.append([hashers.submit(_sha256, piece) for piece in pieces(buffer)])
            position = file.tell()
            offset = -(-position // _ALIGN) * _ALIGN
            _write_all(file, _BLANK[: offset - position])
            _write_all(file, buffer)
            table.append({"offset": offset, "size": buffer.nbytes})
    for entry, found in zip(table, digests, strict=False):
        entry["sha256"] = [piece.result() for piece in found]
    return table


def pieces(buffer: memoryview) -> Iterator[memoryview]:
    """Cut a buffer into the pieces whose hashes the manifest holds."""
    for start in range(0, buffer.nbytes, _PIECE):
        yield buffer[start : start + _PIECE]


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _write_all(file: io.FileIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view.nbytes:
        view = view[file.write(view) :]


class Archive:
    """The archive of a bundle, opened for reading.

    Members are checked against the manifest as they are read; buffers are mapped, private and
    writable, and not checked: on one machine the file can't have changed on a way that it did not
    travel, and what comes to a pod is checked as a whole. `resultfile` checks those of results.

    Parameters
    ----------
    path
        The file.
    digest
        The expected sha256 of the manifest; None takes what is there.

    Raises
    ------
    JobDirError
        Not an archive, damaged, of a later format, or not the one that was sent.
    """

    def __init__(self, path: str | os.PathLike[str], digest: str | None = None) -> None:
        self.path = Path(path)
        try:
            self._zip = zipimport.zipimporter(str(self.path))
            # It remembers the directories of archives by their paths; another job may have had it.
            self._zip.invalidate_caches()
            text = self._zip.get_data("manifest.json")
            self.manifest: Bundle = json.loads(text)
            if not isinstance(self.manifest, dict):
                raise ValueError(say.MANIFEST_NO_OBJECT())
        except (*_UNREADABLE, ValueError) as error:
            raise JobDirError(say.ARCHIVE_DAMAGED(path=self.path, error=error)) from None
        if digest is not None and _sha256(text) != digest:
            raise JobDirError(say.ARCHIVE_DIFFERS(path=self.path))
        if self.manifest.get("format") != FORMAT:
            raise JobDirError(
                say.ARCHIVE_FORMAT(path=self.path, format=self.manifest.get("format"), known=FORMAT)
            )

    def read(self, name: str) -> bytes:
        """Return a member's bytes, checked against the manifest."""
        try:
            data: bytes = self._zip.get_data(name)
        except _UNREADABLE as error:
            said = say.MEMBER_UNREADABLE(path=self.path, name=name, error=error)
            raise JobDirError(said) from None
        if _sha256(data) != self.manifest["members"].get(name):
            raise JobDirError(say.MEMBER_CHANGED(path=self.path, name=name))
        return data

    def buffers(self) -> list[memoryview]:
        """Map the buffers: writable and private to this process, read from disk when touched."""
        table = self.manifest["buffers"]
        if not table:
            return []
        with self.path.open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        return [mapped[entry["offset"] : entry["offset"] + entry["size"]] for entry in table]
