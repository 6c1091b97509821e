"""The packages that a job takes along: what it imports, and its image lacks.

JAX and what that depends on are the image's always: they fit each other and the devices there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from jupyter_jax_trainer.capture.distributions import (
    Installed,
    by_modules,
    by_name,
    editable,
    same_version,
)
from jupyter_jax_trainer.capture.imports import Imports
from jupyter_jax_trainer.capture.packing import CannotPack, Platform, Wheel, pack
from jupyter_jax_trainer.capture.room import Room
from jupyter_jax_trainer.devices import KINDS
from jupyter_jax_trainer.errors import CaptureError
from jupyter_jax_trainer.messages import environment as say
from jupyter_jax_trainer.text import joined, size

_OF_DEVICES = [pattern for kind in KINDS.values() for pattern in kind.packages]
# An image for JAX has these, in versions that fit each other and its devices.
OF_IMAGE = re.compile(
    "|".join(("jax", "jaxlib", "numpy", "scipy", "ml-dtypes", "opt-einsum", *_OF_DEVICES))
)
# The worker brings these itself, or what stands for them. Even `open` is IPython's in a notebook.
_OF_WORKER = ("cloudpickle", "jupyter_jax_trainer", "IPython", "ipykernel")
_MOST_SHRINKING = 8  # by compression; a matter of time, as packing tells the size
# Fetches wheels of exact versions (normalized name → version) for a platform, by their file names;
# `CannotPack` says why it can't.
Index = Callable[[Mapping[str, str], Platform], Mapping[str, bytes]]
# How many leading numbers of a version matter to objects that are sent.
_NUMBERS = {"jax": 2, "jaxlib": 2, "numpy": 1, "scipy": 2, "ml-dtypes": 2}


@dataclass(frozen=True, kw_only=True)
class Image:
    """What is known of the image of a job's pods.

    Attributes
    ----------
    distributions
        Normalized name → version.
    platform
        What compiled packages have to fit.
    """

    distributions: Mapping[str, str]
    platform: Platform


@dataclass
class Packed:
    """What goes along.

    Attributes
    ----------
    wheels
        Those that are imported themselves come first.
    notes
        What the user should know, a sentence each.
    """

    wheels: list[Wheel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Bytes of all."""
        return sum(len(wheel.data) for wheel in self.wheels)


def gather(
    imports: Imports,
    image: Image,
    given: Mapping[str, str] | None = None,
    room: Room | None = None,
    own: Iterable[str] = (),
    index: Index | None = None,
) -> Packed:
    """Pack what a job imports and its image lacks, in the versions that are installed here.

    Where objects of a package are sent, its version goes along, too, if the image has another one.
    What can't be packed from its installed files is taken from an index.

    Parameters
    ----------
    imports
        What the job imports.
    image
        What its pods have.
    given
        Packages that somebody has named for the job; they are not packed. Name → version.
    room
        How much may travel; None for any amount.
    own
        The user's own modules that are sent, by their top-level names. Of their distributions the
        metadata goes along: many ask for their own version.
    index
        Fetches what can't be packed; None refuses it.

    Raises
    ------
    CaptureError
        Something can't be packed, is too large, or doesn't fit what the image has.
    """
    given, room = given or {}, room or Room()
    needs = Needs(image, given)
    needs.add(imports.certain, imports.objects)
    needs.check(needs.found)
    found = Packed()
    found.wheels += _pack_all(list(needs.found.values()), image, room, index)
    _add_possible(found, imports, needs, room, index)
    found.wheels += own_metadata(own, given, image.platform)
    fetched = [f"{wheel.name} {wheel.version}" for wheel in found.wheels if wheel.is_fetched]
    if fetched:
        found.notes.append(say.FROM_INDEX(packages=joined(fetched)))
    found.notes += _differences(imports.objects, image)
    found.notes += left_out(found.wheels)
    return found


def own_metadata(own: Iterable[str], given: Collection[str], platform: Platform) -> Iterator[Wheel]:
    """Pack the metadata of the distributions that have own modules, but for those given."""
    for one in editable(own):
        if one.name not in given:
            with suppress(CannotPack):
                yield pack(one, platform)


def left_out(wheels: Iterable[Wheel]) -> Iterator[str]:
    """Say which files of what goes along stay here."""
    for wheel in wheels:
        if wheel.left_out:
            yield say.PTH_LEFT_OUT(package=wheel.name, files=joined(wheel.left_out))


def _add_possible(
    found: Packed, imports: Imports, needs: Needs, room: Room, index: Index | None
) -> None:
    """Pack what may be imported, each with what it needs, if it can go."""
    for name in sorted(imports.possible - imports.certain):
        more = needs.copy()
        more.add([name], ())
        new = [one for key, one in more.found.items() if key not in needs.found]
        if not new:
            continue
        try:
            more.check(more.found)
            found.wheels += _pack_all(new, needs.image, room.without(found.total), index)
            needs = more
        except CaptureError as error:
            problem = error.message.rstrip(".")
            found.notes.append(say.NOT_SENT(package=named(new[0]), problem=problem))


def _pack_all(
    found: Sequence[Installed], image: Image, room: Room, index: Index | None
) -> list[Wheel]:
    """Pack distributions; `CaptureError` says what can't be packed, or that all is too large."""
    if not room.fits(sum(one.size for one in found) / _MOST_SHRINKING):
        raise _too_large(found, room)
    wheels: dict[str, Wheel] = {}
    problems: dict[str, CannotPack] = {}
    for one in found:
        try:
            wheels[one.name] = packed(one, image.platform)
        except CannotPack as error:
            problems[one.name] = error
        if not room.fits(sum(len(wheel.data) for wheel in wheels.values())):
            raise _too_large(found, room)
    wanted = [one for one in found if one.name in problems]
    if wanted and (index is None or not all(_may_fetch(one, image) for one in wanted)):
        raise _unpacked(wanted, problems)
    if wanted and index is not None:
        try:
            wheels |= _fetch(wanted, image, index)
        except CannotPack as answer:
            raise _unpacked(wanted, problems, answer) from None
        if not room.fits(sum(len(wheel.data) for wheel in wheels.values())):
            raise _too_large(found, room)
    return [wheels[one.name] for one in found]


def _unpacked(
    wanted: Sequence[Installed],
    problems: Mapping[str, CannotPack],
    answer: CannotPack | None = None,
) -> CaptureError:
    """Say what can't be packed, and with the answer of an index that this does not have it."""
    said = [say.ONE_PROBLEM(package=named(one), problem=problems[one.name]) for one in wanted]
    listed = "; ".join(said)
    if answer is None:
        options = " ".join(f"--package {named(one, '==')}" for one in wanted)
        return CaptureError(say.CANNOT_PACK(problems=listed, options=options))
    options = " ".join(f"--package {one.name}" for one in wanted)
    return CaptureError(say.NOT_IN_INDEX(problems=listed, answer=answer, options=options))


def packed(one: Installed, platform: Platform) -> Wheel:
    """Pack a distribution for a platform; `CannotPack` also where it is for another Python."""
    if not _runs_on(one, platform.python):
        wanted, python = one.requires_python, platform.python
        raise CannotPack(say.OTHER_PYTHON(wanted=wanted, python=python))
    return pack(one, platform)


def _runs_on(one: Installed, python: str | None) -> bool:
    """Return whether a distribution is for a version of Python, as far as that is known."""
    if not one.requires_python or python is None:
        return True
    try:
        return SpecifierSet(one.requires_python).contains(f"{python}.99", prereleases=True)
    except InvalidSpecifier:
        return True


def _may_fetch(one: Installed, image: Image) -> bool:
    return one.is_in_index and _runs_on(one, image.platform.python)


def _fetch(wanted: Sequence[Installed], image: Image, index: Index) -> dict[str, Wheel]:
    """Take wheels from an index, in the versions that are installed here.

    Raises
    ------
    CannotPack
        It does not have all of them.
    """
    versions = {one.name: one.version for one in wanted}
    found: dict[str, Wheel] = {}
    for file, data in index(versions, image.platform).items():
        try:
            name, _, _, tags = parse_wheel_filename(file)
        except InvalidWheelFilename:
            continue
        if name in versions:
            if not any(map(image.platform.takes, tags)):
                raise CannotPack(say.WRONG_WHEEL(file=file))
            found[name] = Wheel(
                name=name, version=versions[name], file=file, data=data, is_fetched=True
            )
    for one in wanted:
        if one.name not in found:
            raise CannotPack(say.NO_WHEEL(package=named(one)))
    return found


class Needs:
    """Works out which distributions have to go along.

    Attributes
    ----------
    found
        Normalized name → distribution.
    """

    def __init__(self, image: Image, given: Mapping[str, str]) -> None:
        self.found: dict[str, Installed] = {}
        self.image, self._given = image, given
        self._markers = markers(image.platform)
        self._seen: set[tuple[str, frozenset[str]]] = set()

    def copy(self) -> Needs:
        """Return the same, to add more to it."""
        other = Needs(self.image, self._given)
        other.found = dict(self.found)
        return other

    def add(self, names: Iterable[str], objects: Iterable[str]) -> None:
        """Add what has the modules of some names, and what that needs."""
        sent = set(by_modules(elsewhere(objects)))
        roots = by_modules(elsewhere(names))
        for one in roots.values():
            if self._is_free(one.name) and self._lacks(one, strict=one.name in sent):
                self.found[one.name] = one
        for one in list(self.found.values()):
            self._follow(one, frozenset([""]))

    def check(self, found: Mapping[str, Installed]) -> None:
        """Refuse what breaks a requirement of a package that is sent, or of one in the image.

        A requirement that is unmet here, too, doesn't count: everything works here. Of the image's
        packages only those installed here are checked, by the requirements of the version here.
        """
        there = self.image.distributions
        merged = {**there, **self._given, **{one.name: one.version for one in found.values()}}
        for one in found.values():
            for wanted in self._requirements(one):
                name = str(canonicalize_name(wanted.name))
                got = merged.get(name)
                if got is None or allows(wanted, got):
                    continue
                here = by_name(name)
                if here is None or not same_version(here.version, got):
                    package, needed = named(one), _shown(wanted)
                    raise CaptureError(
                        say.NEEDS_ANOTHER(package=package, needed=needed, other=name, there=got)
                    )
        for name in there.keys() - self._given.keys() - found.keys() if found else ():
            other = by_name(name)
            for wanted in self._requirements(other, of=found) if other is not None else ():
                self._check_image(name, wanted, found)

    def _check_image(self, name: str, wanted: Requirement, found: Mapping[str, Installed]) -> None:
        """Refuse what makes a requirement of the image's false that is met there."""
        needed = str(canonicalize_name(wanted.name))
        before, sent = self.image.distributions.get(needed), found.get(needed)
        if before is None or sent is None or allows(wanted, sent.version):
            return
        if allows(wanted, before):
            raise CaptureError(
                say.BREAKS(
                    package=needed,
                    version=sent.version,
                    other=name,
                    there=self.image.distributions[name],
                    needed=_shown(wanted),
                )
            )

    def _requirements(
        self,
        one: Installed,
        extras: Collection[str] = ("",),
        of: Container[str] | None = None,
    ) -> Iterator[Requirement]:
        """Yield what a distribution needs in the pods, of some distributions or of any."""
        for wanted in one.requirements:
            if of is not None and canonicalize_name(wanted.name) not in of:
                continue  # to evaluate a marker takes longer
            marker = wanted.marker
            if marker is None:
                if "" in extras:
                    yield wanted
            elif any(self._holds(marker, extra) for extra in extras):
                yield wanted

    def _holds(self, marker: Marker, extra: str) -> bool:
        try:
            return marker.evaluate({**self._markers, "extra": extra})
        except ValueError:  # it compares what can't be compared, or an unknown variable
            return False

    def _follow(self, one: Installed, extras: frozenset[str]) -> None:
        if (one.name, extras) in self._seen:
            return
        self._seen.add((one.name, extras))
        for wanted in self._requirements(one, extras):
            name = str(canonicalize_name(wanted.name))
            other = by_name(name) if self._is_free(name) else None
            if other is None or other.is_editable:
                continue  # all is well here without it, or it is an own module
            there = self.image.distributions.get(name)
            more = frozenset(wanted.extras)
            if name not in self.found and (there is None or not allows(wanted, there)):
                self.found[name] = other
            if name in self.found:
                more |= {""}
            if more:
                self._follow(other, more)

    def _is_free(self, name: str) -> bool:
        return name not in self._given and not OF_IMAGE.fullmatch(name)

    def _lacks(self, one: Installed, *, strict: bool) -> bool:
        there = self.image.distributions.get(one.name)
        if there is None:
            return True
        return one.is_own or (strict and not same_version(one.version, there))


def elsewhere(names: Iterable[str]) -> list[str]:
    """Leave out modules that the worker brings."""
    return [name for name in names if name.partition(".")[0] not in _OF_WORKER]


def markers(platform: Platform) -> dict[str, str]:
    """Return the variables of markers as the pods have them."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    python = platform.python or here
    found: dict[str, str] = {name: str(value) for name, value in default_environment().items()}
    if python != here:
        found |= {"python_full_version": f"{python}.0", "implementation_version": f"{python}.0"}
    return found | {
        "python_version": python,
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": platform.machine,
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }


def allows(wanted: Requirement, version: str) -> bool:
    """Return whether a requirement is met by a version."""
    try:
        return wanted.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return True  # nobody can tell


def _differences(objects: Iterable[str], image: Image) -> Iterator[str]:
    """Say which objects are sent that the image's version of their package may not read."""
    for name, one in by_modules(elsewhere(objects)).items():
        there, most = image.distributions.get(name), _NUMBERS.get(name)
        if there is None or most is None:
            continue
        try:
            if Version(one.version).release[:most] == Version(there).release[:most]:
                continue
        except InvalidVersion:
            continue
        yield say.VERSIONS_DIFFER(package=name, here=one.version, there=there)


def _too_large(found: Iterable[Installed], room: Room) -> CaptureError:
    by_size = sorted(found, key=lambda one: -one.size)
    packages = joined([f"{named(one)} ({size(one.size)})" for one in by_size], most=4)
    return CaptureError(say.TOO_LARGE(packages=packages, most=size(max(0, room.most or 0))))


def named(one: Installed, between: str = " ") -> str:
    """Return a distribution's name and version."""
    return f"{one.name}{between}{one.version}"


def _shown(wanted: Requirement) -> str:
    return f"{wanted.name}{wanted.specifier}" if str(wanted.specifier) else wanted.name
