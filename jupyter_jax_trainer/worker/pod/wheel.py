"""A wheel, unpacked as fast as the pod's Python can: a job may bring thousands of files."""

from __future__ import annotations

import io
import os
import platform
import sys
import zipfile
import zlib
from pathlib import Path

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.durable import write_all
from jupyter_jax_trainer.worker.exceptions import WorkerError

_PAGE = 4096  # bytes
_HEADER, _LENGTHS = 30, 26  # bytes of a member's header; where the lengths are of what follows it
_ENCRYPTED = 1


class PackageError(WorkerError):
    """A package that the job asked for could not be installed."""


class Wheel:
    """A wheel in memory.

    Parameters
    ----------
    name
        Its file name.
    data
        The file.
    """

    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        self._data = memoryview(data)
        self._zip = zipfile.ZipFile(io.BytesIO(data))

    @property
    def unpacked_size(self) -> int:
        """Bytes of its files, in whole pages."""
        return sum(-(-member.file_size // _PAGE) * _PAGE for member in self._zip.infolist())

    def unpack(self, folder: Path) -> None:
        """Unpack it into a folder, as pip would, but for its scripts.

        Raises
        ------
        PackageError
            It is for another Python or machine.
        OSError
            A file can't be written.
        """
        if not _fits(self._name):
            raise PackageError(
                say.WRONG_WHEEL(
                    wheel=self._name,
                    version=platform.python_version(),
                    machine=platform.machine(),
                )
            )
        made: set[str] = set()
        for member in self._zip.infolist():
            above, _, file = _path_of(member).rpartition("/")
            if above not in made:
                os.makedirs(f"{folder}/{above}", exist_ok=True)
                made.add(above)
            if file:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                opened = os.open(f"{folder}/{above}/{file}", flags, 0o666)
                try:
                    write_all(opened, self._read(member))
                finally:
                    os.close(opened)

    def _read(self, member: zipfile.ZipInfo) -> bytes | memoryview:
        """Return what a member holds.

        `zipfile` takes twice as long for small ones; what is unusual or damaged is left to it.
        """
        method, begin = member.compress_type, member.header_offset + _HEADER
        usual = method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if not usual or member.flag_bits & _ENCRYPTED:
            return self._zip.read(member)
        lengths = self._data[begin - _HEADER + _LENGTHS : begin]
        begin += int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        data: bytes | memoryview = self._data[begin : begin + member.compress_size]
        if method == zipfile.ZIP_DEFLATED:
            data = zlib.decompress(data, -zlib.MAX_WBITS, max(1, member.file_size))
        return data if zlib.crc32(data) == member.CRC else self._zip.read(member)


def _path_of(member: zipfile.ZipInfo) -> str:
    """Return where a member goes, below the folder whatever its name; nothing for scripts."""
    path = member.filename
    top, _, rest = path.partition("/")
    if top.endswith(".data"):
        scheme, _, rest = rest.partition("/")
        path = rest if scheme in ("purelib", "platlib") else ""
    *above, file = path.split("/")
    kept = [part for part in above if part not in ("", ".", "..")]
    return "/".join([*kept, "" if file in (".", "..") else file])


def _fits(name: str) -> bool:
    """Return whether the tags in a wheel's name are this Python's."""
    pythons, abis, platforms = name.removesuffix(".whl").split("-")[-3:]
    major, minor = sys.version_info[:2]
    right = {f"py{major}", f"py{major}{minor}", f"cp{major}{minor}"}
    if "abi3" in abis.split("."):
        right |= {f"cp{major}{older}" for older in range(2, minor)}
    return bool(right & set(pythons.split("."))) and any(
        tag == "any" or tag.endswith(platform.machine()) for tag in platforms.split(".")
    )
