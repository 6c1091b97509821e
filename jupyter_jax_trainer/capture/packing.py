"""Pack an installed distribution as a wheel again, from its files: no index is needed for that."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.util
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import PurePosixPath

from packaging.tags import Tag, parse_tag

from jupyter_jax_trainer.capture.distributions import Installed
from jupyter_jax_trainer.jobdir.files import Stamps, stamp_of
from jupyter_jax_trainer.messages import environment as say

_DATE = (1980, 1, 1, 0, 0, 0)  # the same files are the same bytes
_PURE = "py3-none-any"
# About this machine: by whom it was installed here, from which folder or address.
_STAYS = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "RECORD.jws", "RECORD.p7s")
_HEADER = 16  # bytes before the code in a .pyc file
_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: by the hash of the source, which is not read
_COMPILED = (*EXTENSION_SUFFIXES, ".so", ".pyd", ".dll", ".dylib", ".a")
_SHARED_OBJECT = re.compile(r"\.so(\.[0-9]+)+$")
_GLIBC = re.compile(r"manylinux_([0-9]+)_([0-9]+)_(\w+)")
_OLD_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


class CannotPack(ValueError):  # noqa: N818
    """A distribution can't be packed; its text is a phrase that says why."""


@dataclass(frozen=True, kw_only=True)
class Platform:
    """Where compiled code is to run: a Linux.

    Attributes
    ----------
    python
        Its minor version, such as ``3.11``; None where it is not known.
    glibc
        The version of the C library, or one before it.
    """

    python: str | None
    machine: str
    glibc: tuple[int, int] = (2, 28)

    def takes(self, tag: Tag) -> bool:
        """Return whether what a wheel with this tag holds can be used there."""
        if tag.platform == "any":
            return tag.abi == "none"
        return self._takes_python(tag) and self._takes_libraries(tag.platform)

    def _takes_python(self, tag: Tag) -> bool:
        if tag.abi == "none" and tag.interpreter == "py3":
            return True
        if self.python is None:
            return False
        minor = int(self.python.partition(".")[2])
        if tag.abi == "abi3" and (found := re.fullmatch("cp3([0-9]+)", tag.interpreter)):
            return int(found[1]) <= minor
        return tag.interpreter == f"cp3{minor}" and tag.abi in (f"cp3{minor}", "none")

    def _takes_libraries(self, platform: str) -> bool:
        if found := _GLIBC.fullmatch(platform):
            needed, machine = (int(found[1]), int(found[2])), found[3]
        else:
            name, _, machine = platform.partition("_")
            # What is built for one Linux alone may want libraries that no image has.
            needed = _OLD_GLIBC.get(name, (99, 0))
        return machine == self.machine and needed <= self.glibc


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A distribution on its way.

    Attributes
    ----------
    file
        Its file name, with the tags that it has.
    left_out
        Files that stay here, though they are in its folder: ``.pth`` files, which Python would
        run at each start.
    is_fetched
        It is from an index, and not from the installed files.
    """

    name: str
    version: str
    file: str
    data: bytes
    left_out: Sequence[str] = ()
    is_fetched: bool = False


# Wheels with what changes when their files do: to read and compress them takes long, and a notebook
# submits the same packages again and again. Those used last are kept.
_PACKED: dict[tuple[str, str, Platform], tuple[Stamps, Wheel]] = {}
_MOST_KEPT = 64 << 20


def pack(one: Installed, platform: Platform) -> Wheel:
    """Pack a distribution.

    Its modules, data, and metadata with entry points are packed; scripts and other files outside
    its folder are not. Of an editable one only the metadata is: its modules travel as own modules.
    For the same Python existing byte code goes along, since compiling takes long.

    Raises
    ------
    CannotPack
        It does not say which files it has, or it is compiled for something else.
    """
    if one.files is None:
        raise CannotPack(say.NO_RECORD())
    key, stamp = (str(one.place), one.name, platform), _stamps(one, one.files)
    before = _PACKED.pop(key, None)
    wheel = before[1] if before and before[0] == stamp else _pack(one, one.files, platform)
    _PACKED[key] = stamp, wheel
    kept = sum(len(known.data) for _, known in _PACKED.values())
    while kept > _MOST_KEPT:
        kept -= len(_PACKED.pop(next(iter(_PACKED)))[1].data)
    return wheel


def _stamps(one: Installed, files: Iterable[str]) -> Stamps:
    """Return what changes with files, or with their byte code."""
    paths = [f"{one.place}/{name}" for name in files]
    compiled = [_cache_of(path) for path in paths if path.endswith(".py")]
    return tuple(map(stamp_of, (*paths, *compiled)))


def _pack(one: Installed, files: Sequence[str], platform: Platform) -> Wheel:
    left_out = [name for name in files if name.endswith(".pth") and not one.is_editable]
    # Strings: of a thousand files, paths would cost more time than reading does.
    place, members = str(one.place), dict[str, bytes]()
    info = f"{one.name.replace('-', '_')}-{one.version}.dist-info"
    for name in files:
        path = PurePosixPath(name)
        if path.suffix in (".pyc", ".pyo", ".pth"):
            continue
        top, *rest = path.parts
        if one.is_editable and not (top.endswith(".dist-info") and rest):
            continue  # what leads to its modules, which are the user's own
        if top.endswith(".dist-info") and rest:
            if rest[0] in _STAYS:
                continue
            info = top
        try:
            members[name] = _read(f"{place}/{name}")
        except (FileNotFoundError, IsADirectoryError):
            continue  # somebody has taken it away, and all is well here without it
        except OSError as error:
            raise CannotPack(say.UNREADABLE_FILE(file=name, error=error.strerror)) from None
    tags = _tags(one, members, platform)
    if platform.python == f"{sys.version_info[0]}.{sys.version_info[1]}":
        members |= _byte_code(place, members)
    members[f"{info}/RECORD"] = _record(members, info)
    version = re.sub(r"[^\w.+!]+", "_", one.version)
    file = f"{one.name.replace('-', '_')}-{version}-{tags}.whl"
    return Wheel(
        name=one.name,
        version=one.version,
        file=file,
        data=_compressed(members),
        left_out=left_out,
    )


def _byte_code(place: str, members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the byte code that is here for modules, as good wherever they are unpacked.

    Another release of this Python passes over it.
    """
    found: dict[str, bytes] = {}
    tag = sys.implementation.cache_tag
    for name, source in members.items():
        if not name.endswith(".py"):
            continue
        path = f"{place}/{name}"
        try:
            compiled = _read(_cache_of(path))
            changed = int(os.stat(path).st_mtime)
        except OSError:
            continue
        # By time and size; what another program has made by hash may be anything.
        stamp = b"".join(
            (number & 0xFFFFFFFF).to_bytes(4, "little") for number in (0, changed, len(source))
        )
        if compiled[:_HEADER] == importlib.util.MAGIC_NUMBER + stamp:
            head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
            # Where it would be without a folder for all byte code (PYTHONPYCACHEPREFIX).
            folder, slash, file = name.rpartition("/")
            cache = f"{folder}{slash}__pycache__/{file.removesuffix('.py')}.{tag}.pyc"
            found[cache] = head + compiled[_HEADER:]
    return found


@functools.lru_cache(1 << 14)
def _cache_of(path: str) -> str:
    """Return where the byte code of a module is."""
    return importlib.util.cache_from_source(path)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _tags(one: Installed, files: Iterable[str], platform: Platform) -> str:
    """Return the tags for the name of a wheel, after a look at what the other side takes."""
    compiled = [name for name in files if _is_compiled(name)]
    if not compiled:
        return _PURE
    if one.is_from_conda:
        raise CannotPack(say.COMPILED_BY_CONDA())
    for line in one.tags:
        for tag in parse_tag(line):
            if tag.platform != "any" and platform.takes(tag):
                return f"{tag.interpreter}-{tag.abi}-{tag.platform}"
    if not one.tags:
        raise CannotPack(say.COMPILED_FOR_UNKNOWN())
    raise CannotPack(
        say.COMPILED_FOR_OTHERS(
            tags=", ".join(one.tags[:2]), python=platform.python or "3", machine=platform.machine
        )
    )


def _is_compiled(name: str) -> bool:
    return name.endswith(_COMPILED) or _SHARED_OBJECT.search(name) is not None


def _record(members: dict[str, bytes], info: str) -> bytes:
    return "".join([*_rows(members), f"{info}/RECORD,,\n"]).encode()


def _rows(members: dict[str, bytes]) -> Iterator[str]:
    for name, data in sorted(members.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        quoted = '"{}"'.format(name.replace('"', '""')) if {",", '"'} & set(name) else name
        yield f"{quoted},sha256={digest},{len(data)}\n"


def _compressed(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as wheel:
        for name, data in sorted(members.items()):
            wheel.writestr(zipfile.ZipInfo(name, _DATE), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
