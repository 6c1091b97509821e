"""The distributions that are installed here: by the modules that they have, and by their names."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from jupyter_jax_trainer.capture.modules import find_spec, own_spec
from jupyter_jax_trainer.jobdir.files import Stamps, stamp_of

_INFO = (".dist-info", ".egg-info")
_READ = ("RECORD", "METADATA", "PKG-INFO", "WHEEL", "direct_url.json")
_SUFFIXES = (".py", *EXTENSION_SUFFIXES)


class Installed:
    """A distribution that is installed here.

    Parameters
    ----------
    found
        What ``importlib.metadata`` knows of it.

    Attributes
    ----------
    place
        The folder that it is in, with its files and its metadata.
    """

    def __init__(self, found: metadata.Distribution) -> None:
        self._found = found
        self.place = Path(str(found.locate_file("")))

    @cached_property
    def name(self) -> str:
        """Its name, normalized as PEP 503 has it."""
        return str(canonicalize_name(self._found.name or ""))

    @cached_property
    def version(self) -> str:
        """Its version."""
        return str(self._found.version)

    @cached_property
    def files(self) -> list[str] | None:
        """The files of its RECORD that are in its folder; None where it has no RECORD."""
        record = self._found.read_text("RECORD")
        if not record:
            return None
        rows = (row[0] for row in csv.reader(record.splitlines()) if row)
        return [name for name in rows if _is_inside(name)]

    @cached_property
    def size(self) -> int:
        """Bytes of its files, without byte code."""
        found = 0
        for name in self.files or ():
            with suppress(OSError):
                found += 0 if name.endswith(".pyc") else (self.place / name).stat().st_size
        return found

    @cached_property
    def requirements(self) -> list[Requirement]:
        """What it needs, with markers."""
        found = []
        for line in self._found.requires or ():
            try:
                found.append(Requirement(line))
            except InvalidRequirement:  # of long ago: pip passes over it, too
                continue
        return found

    @cached_property
    def requires_python(self) -> str | None:
        """The versions of Python that it is for."""
        said = self._found.metadata.get_all("Requires-Python")
        return str(said[0]) if said else None

    @cached_property
    def tags(self) -> list[str]:
        """The tags of the wheel that it was installed from."""
        lines = (self._found.read_text("WHEEL") or "").splitlines()
        return [line[4:].strip() for line in lines if line.startswith("Tag:")]

    @property
    def is_from_conda(self) -> bool:
        """Whether conda has installed it."""
        return (self._found.read_text("INSTALLER") or "").strip() == "conda"

    @cached_property
    def _direct_url(self) -> Mapping[str, Any]:
        try:
            said = json.loads(self._found.read_text("direct_url.json") or "{}")
        except ValueError:
            said = {}
        return said if isinstance(said, dict) else {}

    @property
    def is_editable(self) -> bool:
        """Whether its modules are in a folder of the user's, and travel as own modules."""
        info = self._direct_url.get("dir_info")
        return isinstance(info, dict) and info.get("editable") is True

    @property
    def folder(self) -> Path | None:
        """The folder with its modules, if it is editable."""
        url = urlsplit(str(self._direct_url.get("url", "")))
        if not self.is_editable or url.scheme != "file":
            return None
        return Path(unquote(url.path)).resolve()

    @property
    def is_own(self) -> bool:
        """Whether it is from a folder or a repository, so that its version says little of it.

        What conda has built is from a folder, too, of the machine that built it.
        """
        own = "dir_info" in self._direct_url or "vcs_info" in self._direct_url
        return own and not self.is_from_conda

    @property
    def is_in_index(self) -> bool:
        """Whether an index may have it: not if pip installed it from a URL or a folder."""
        return not self._direct_url or self.is_from_conda

    def provides(self, top: str) -> bool:
        """Return whether it seems to have a top-level module, where no RECORD says it."""
        listed = (self._found.read_text("top_level.txt") or "").split()
        return top in listed or self.name == canonicalize_name(top)


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/") and "\\" not in name


# What was read of a distribution, as long as its files are the same: there are hundreds, and each
# submission asks about most of them.
_KNOWN: dict[Path, tuple[Stamps, Installed]] = {}


def _known(found: metadata.Distribution, info: Path | None) -> Installed:
    """Return what was read of a distribution before, or a new one to read."""
    if info is None:
        return Installed(found)
    stamp = _stamps(info, *(info / name for name in _READ))
    before = _KNOWN.get(info)
    if before is not None and before[0] == stamp:
        return before[1]
    new = Installed(found)
    _KNOWN[info] = stamp, new
    return new


def _stamps(*paths: Path) -> Stamps:
    """Return what changes when somebody writes to files, or exchanges them."""
    return tuple(map(stamp_of, paths))


def by_name(name: str) -> Installed | None:
    """Find a distribution by its name."""
    try:
        found = metadata.distribution(name)
        # Where it is, it says in no other way; without that it is read each time.
        info = getattr(found, "_path", None)
        return _known(found, info if isinstance(info, Path) else None)
    except (metadata.PackageNotFoundError, ValueError, OSError):
        return None


def same_version(one: str, other: str) -> bool:
    """Return whether two versions are the same one, however they are written."""
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def editable(modules: Iterable[str]) -> list[Installed]:
    """Find the distributions whose folders have own modules, by the modules' top-level names."""
    files = [file for name in modules for file in _files_of(name)]
    found = []
    for one in map(Installed, metadata.distributions()) if files else ():
        folder = one.folder
        if folder is not None and any(file.is_relative_to(folder) for file in files):
            found.append(one)
    return found


def _files_of(top: str) -> list[Path]:
    spec = find_spec(top)
    return [] if spec is None else [file.resolve() for file in _folders(spec)]


def by_modules(names: Iterable[str]) -> dict[str, Installed]:
    """Find the distributions that have modules.

    What a name has in a package of another distribution counts, too, so that of a namespace only
    the parts are found that are named. The user's own modules and the standard library's have none.

    Parameters
    ----------
    names
        Dotted names; what they end in may be a name in a module.

    Returns
    -------
    Normalized name → distribution, in the order of the names.
    """
    found: dict[str, Installed] = {}
    for name in sorted(names):
        for place, file in _places(name):
            for one in _owners(place, file, name.partition(".")[0]):
                found.setdefault(one.name, one)
    return found


def _places(name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files that importing a name reads: their folder of installed packages, and path."""
    top, *rest = name.split(".")
    if top in sys.stdlib_module_names:
        return
    spec = find_spec(top)
    if spec is None or own_spec(spec) is not None:
        return
    for folder in _folders(spec):
        if spec.submodule_search_locations is None:
            yield folder.parent, folder.name
            continue
        place = folder.parent
        while True:
            yield from _in_folder(place, folder)
            if not rest:
                break
            part = folder / rest[0]
            if not part.is_dir():
                files = (f"{part.name}{suffix}" for suffix in _SUFFIXES)
                there = [folder / file for file in files if (folder / file).is_file()]
                yield from ((place, file.relative_to(place).as_posix()) for file in there)
                break
            folder, rest = part, rest[1:]


def _in_folder(place: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    for suffix in _SUFFIXES:
        file = folder / f"__init__{suffix}"
        if file.is_file():
            yield place, file.relative_to(place).as_posix()


def _folders(spec: ModuleSpec) -> Sequence[Path]:
    if spec.submodule_search_locations is not None:
        return [Path(place) for place in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.has_location and spec.origin else []


_OWNERS: dict[tuple[Path, str, str], tuple[Stamps, list[Path]]] = {}


def _owners(place: Path, file: str, top: str) -> list[Installed]:
    """Return the distributions that have a file; where no RECORD has it, those that may."""
    likely = by_name(top)
    if likely is not None and likely.place == place and file in (likely.files or ()):
        return [likely]
    infos = _infos(place)
    stamp = _stamps(*(info / "RECORD" for info in infos), *infos)
    before = _OWNERS.get((place, file, top))
    if before is None or before[0] != stamp:
        before = stamp, _search(infos, file, top)
        _OWNERS[place, file, top] = before
    return [_at(info) for info in before[1]]


def _infos(place: Path) -> list[Path]:
    try:
        return sorted(info for info in place.iterdir() if info.name.endswith(_INFO))
    except OSError:
        return []


def _search(infos: Iterable[Path], file: str, top: str) -> list[Path]:
    """Look for a file in RECORDs."""
    wanted = re.compile(rf'^"?{re.escape(file)}"?,', re.MULTILINE)
    silent: list[Path] = []
    for info in infos:
        try:
            record = (info / "RECORD").read_text(encoding="utf-8")
        except (OSError, ValueError):
            record = ""
        if wanted.search(record):
            return [info]
        if not record and _at(info).provides(top):
            silent.append(info)
    return silent


def _at(info: Path) -> Installed:
    return _known(metadata.Distribution.at(info), info)
