"""The archive: one file that holds code, a manifest and large buffers.

It is a zip application with the raw buffers in front of the zip part (a zip file may have any
prefix)::

    #!/usr/bin/env python3
    package, package, …            wheels, as they are
    buffer 0, buffer 1, …          each at a multiple of 64 bytes, uncompressed
    zip: manifest.json, members    compressed, if the archive leaves its machine

So ``python3 job.pyz`` runs it, any zip tool opens it, and a reader maps the buffers into memory
without copying a byte. ``manifest.json`` holds the sha256 of every member and package, and of the
buffers unless the file is checked as a whole; the sha256 of the manifest is the digest of the
archive. Packages come first and in one piece: who has them already, from another archive, needs
only what follows.
"""

# No `annotations` from `__future__`: TypedDicts would take ten times as long to import.

import functools
import hashlib
import io
import json
import mmap
import os
import zipimport
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import JobDirError
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.durable import put_in_place, write_all
from jupyter_jax_trainer.worker.records import ResultInfo

if TYPE_CHECKING:
    import zipfile

FORMAT = 1
DIGEST_VARIABLE = "JAXTRAIN_BUNDLE_SHA256"  # of the bundle
_UNREADABLE = (OSError, EOFError, zipimport.ZipImportError, zlib.error)  # of a damaged file
_ALIGN = 64  # what XLA on CPU wants to use an array in place
SHEBANG = b"#!/usr/bin/env python3\n"
_PIECE = 16 << 20  # bytes under one hash, so that several threads can hash a large buffer
_HASHERS = 4
_READ = 1 << 20
_BLANK = bytes(_ALIGN)


class Buffer(TypedDict):
    """Where a buffer is in the file, and the hashes of its pieces where it has some."""

    offset: int
    size: int
    sha256: NotRequired[list[str]]


class Package(TypedDict):
    """Where a package is in the file, and the sha256 of its wheel."""

    offset: int
    size: int
    sha256: str


class Contents(TypedDict):
    """What the manifest of any archive says: the sha256 of its members, and its buffers.

    Attributes
    ----------
    packages
        By the file names of their wheels, in the order of their offsets.
    """

    format: int
    members: dict[str, str]
    packages: NotRequired[dict[str, Package]]
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
    stop_on_nan
        A metric that is not finite ends the cell.
    profile
        What of the cell is profiled: all of it, or some steps.
    stays
        The job is a session: its ranks stay, and run the cells that come.
    tokens
        Of a session's cell: for each variable that it brings, what stands for its content.
    ranks
        Of such a cell: the ranks that run it, where not all do so, or all show what they display.
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
    stop_on_nan: NotRequired[bool]
    profile: NotRequired[str]
    stays: NotRequired[bool]
    tokens: NotRequired[dict[str, str]]
    ranks: NotRequired[list[int]]


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
    packages: Mapping[str, bytes] | None = None,
    fixed: Mapping[str, bytes] | None = None,
    travels: bool = True,
    on_buffer: Callable[[int, memoryview], None] | None = None,
    durable: bool = False,
) -> str:
    """Write an archive; it appears under its name only when it is whole.

    Parameters
    ----------
    path
        Where to.
    members, buffers, manifest, packages, fixed, travels, on_buffer
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
            digest = write_archive_to(
                file,
                members,
                buffers,
                manifest,
                packages=packages,
                fixed=fixed,
                travels=travels,
                on_buffer=on_buffer,
            )
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
    packages: Mapping[str, bytes] | None = None,
    fixed: Mapping[str, bytes] | None = None,
    travels: bool = True,
    on_buffer: Callable[[int, memoryview], None] | None = None,
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
    packages
        Wheels by their file names.
    fixed
        More members: the same ones in most archives, so they are hashed and compressed once only.
    travels
        It leaves this machine: members are compressed, and the manifest has the sha256 of the
        buffers, too. Both take longer than writing, so an archive that stays here goes without.
    on_buffer
        Called with the offset of each buffer, and the buffer, before it is written: whoever hashes
        the file need not read it. The manifest has no sha256 of the buffers then.

    Returns
    -------
    str
        The sha256 of the manifest, in hex.
    """
    import zipfile

    write_all(file.fileno(), SHEBANG)
    wheels = _write_packages(file, packages or {})
    table = _write_buffers(file, buffers, travels, on_buffer)
    known, ready = _packed(tuple((fixed or {}).items()), travels)
    hashes = {name: _sha256(data) for name, data in members.items()} | known
    listed = {"packages": wheels} if wheels else {}
    whole = {"format": FORMAT, **manifest, "members": hashes, **listed, "buffers": table}
    text = json.dumps(whole, indent=1).encode()
    # The zip part is built apart, so that its offsets count from its own start: zipimport before
    # Python 3.13 reads no zip64, and needs none this way, however long the prefix.
    packed = io.BytesIO()
    packed.write(ready)
    with zipfile.ZipFile(packed, "a") as archive:
        _add(archive, {"manifest.json": text, **members}, travels)
    write_all(file.fileno(), packed.getbuffer())
    return _sha256(text)


@functools.lru_cache(4)
def _packed(members: tuple[tuple[str, bytes], ...], travels: bool) -> tuple[dict[str, str], bytes]:
    """Return the hashes of members, and an archive of them to which more can be added."""
    import zipfile

    packed = io.BytesIO()
    if members:
        with zipfile.ZipFile(packed, "w") as archive:
            _add(archive, dict(members), travels)
    return {name: _sha256(data) for name, data in members}, packed.getvalue()


def _add(archive: "zipfile.ZipFile", members: Mapping[str, bytes], travels: bool) -> None:
    import zipfile

    how = zipfile.ZIP_DEFLATED if travels else zipfile.ZIP_STORED
    for name, data in members.items():
        archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, how)


def _write_packages(file: io.FileIO, packages: Mapping[str, bytes]) -> dict[str, Package]:
    if not packages:
        return {}
    from concurrent.futures import ThreadPoolExecutor

    table: dict[str, Package] = {}
    with ThreadPoolExecutor(_HASHERS, "hash-packages") as hashers:
        hashes = hashers.map(_sha256, packages.values())
        for (name, data), digest in zip(packages.items(), hashes, strict=True):
            table[name] = {"offset": file.tell(), "size": len(data), "sha256": digest}
            write_all(file.fileno(), data)
    return table


def _write_buffers(
    file: io.FileIO,
    buffers: Sequence[memoryview],
    travels: bool,
    on_buffer: Callable[[int, memoryview], None] | None,
) -> list[Buffer]:
    """Write the buffers while other threads hash them, in pieces: hashing is the slower part."""
    hashed = travels and on_buffer is None
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
            if on_buffer is not None:
                on_buffer(offset, buffer)
            write_all(file.fileno(), _BLANK[: offset - position])
            write_all(file.fileno(), buffer)
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


def file_pieces(path: Path, offset: int, size: int) -> Iterator[bytes]:
    """Yield a part of a file, in pieces that memory always has room for."""
    with path.open("rb") as file:
        file.seek(offset)
        while size and (piece := file.read(min(_READ, size))):
            size -= len(piece)
            yield piece


class Archive:
    """The archive of a bundle, opened for reading.

    Members are checked against the manifest as they are read; packages and buffers, which are
    mapped, private and writable, are not: on one machine the file can't have changed on a way that
    it did not travel, and what comes to a pod is checked as a whole. `resultfile` checks the
    buffers of results.

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

    def forget(self) -> None:
        """Drop what Python remembers of the file, which it would for as long as the process."""
        zipimport._zip_directory_cache.pop(str(self.path), None)  # type: ignore[attr-defined]

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

    @property
    def packages(self) -> dict[str, Package]:
        """The packages, by the file names of their wheels."""
        return self.manifest.get("packages") or {}

    def read_package(self, name: str) -> bytes:
        """Return the wheel of a package."""
        return b"".join(self.package_pieces(name))

    def package_pieces(self, name: str) -> Iterator[bytes]:
        """Yield the wheel of a package, piece by piece."""
        package = self.packages[name]
        return file_pieces(self.path, package["offset"], package["size"])

    def buffers(self) -> list[memoryview]:
        """Map the buffers: writable and private to this process, read from disk when touched."""
        table = self.manifest["buffers"]
        if not table:
            return []
        with self.path.open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        return [mapped[entry["offset"] : entry["offset"] + entry["size"]] for entry in table]
