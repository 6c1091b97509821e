"""Packages that a job brings in case its image lacks them: which of them are installed.

They come with jobs for an image of which nothing is known. What the image has stays, unless objects
of another version are sent; and nothing is installed that breaks what is there.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.exceptions import WorkerError
from jupyter_jax_trainer.worker.serialization.archive import Archive, Offer

if TYPE_CHECKING:
    from packaging.requirements import Requirement

FOLDER = "checks"  # of the bundle: `packaging`, where nobody else imports it


class OfferError(WorkerError):
    """The image lacks a package that could not be sent, or has some that don't fit it."""


def choose(archive: Archive) -> tuple[list[str], list[str]]:
    """Return the files of the wheels that have to be installed, and lines for the log.

    Raises
    ------
    OfferError
        What the job certainly imports would fail.
    """
    offers = archive.manifest.get("offers") or []
    if not offers:
        return [], []
    files = {offer["file"] for offer in offers}
    there = distributions(sys.path)
    for file in archive.packages:
        if file not in files:  # it is installed in any case
            name, version = file.split("-")[:2]
            there[_normal(name)] = version
    with _packaging(archive.path):
        return _Choice(offers, there).made()


def distributions(paths: Sequence[str]) -> dict[str, str]:
    """Return what is installed below some entries of ``sys.path``: normalized name → version."""
    found: dict[str, str] = {}
    for one in metadata.distributions(path=list(paths)):
        with suppress(Exception):  # half of one that somebody has removed
            found.setdefault(_normal(one.metadata["Name"]), one.version)
    return found


def look() -> dict[str, JsonValue]:
    """Return what this image has, for the next job with it.

    What is on a volume, or comes by a variable of the pod, may be another's next time.
    """
    others = set(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    root = os.stat("/").st_dev
    paths = []
    for path in sys.path:
        with suppress(OSError):
            if path not in others and os.stat(path).st_dev == root:
                paths.append(path)
    return {
        "python": "{}.{}".format(*sys.version_info),
        "machine": platform.machine(),
        "glibc": platform.libc_ver()[1],
        "distributions": {**distributions(paths)},
    }


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@contextmanager
def _packaging(archive: Path) -> Iterator[None]:
    """Have the bundle's own `packaging` be there, and leave the image's as it is."""
    place = f"{archive}/{FOLDER}"
    before = {name: sys.modules.pop(name) for name in _modules()}
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
        sys.path_importer_cache.pop(place, None)
        for name in _modules():
            del sys.modules[name]
        sys.modules.update(before)


def _modules() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "packaging"]


class _Choice:
    """Works out what has to be installed; `packaging` is there as long as it is used.

    Parameters
    ----------
    offers
        What came along.
    there
        What the pod has: normalized name → version.
    """

    def __init__(self, offers: Iterable[Offer], there: Mapping[str, str]) -> None:
        from packaging.tags import sys_tags

        self._offers = {offer["name"]: offer for offer in offers}
        self._there = there
        self._tags = frozenset(sys_tags())
        self._chosen: dict[str, Offer] = {}
        self._seen: set[tuple[str, frozenset[str]]] = set()
        self._lines: list[str] = []

    def made(self) -> tuple[list[str], list[str]]:
        """Return the files, and lines for the log."""
        self._add([one for one in self._offers.values() if one["use"] == "certain"])
        self._check()
        for offer in self._offers.values():
            if offer["use"] == "possible":
                self._try(offer)
        files = [offer["file"] for offer in self._chosen.values() if offer["file"] is not None]
        if self._chosen:
            packages = ", ".join(map(_shown, self._chosen.values()))
            self._lines.append(say.INSTALLED(packages=packages))
        return files, self._lines

    def _try(self, offer: Offer) -> None:
        """Add what the job may import, if that can be installed."""
        chosen, seen = dict(self._chosen), set(self._seen)
        self._add([offer])
        try:
            self._check()
        except OfferError as error:
            self._chosen, self._seen = chosen, seen
            self._lines.append(say.NOT_INSTALLED(package=_shown(offer), problem=str(error)))

    def _add(self, roots: Iterable[Offer]) -> None:
        for offer in roots:
            if self._lacks(offer):
                self._chosen[offer["name"]] = offer
        for offer in list(self._chosen.values()):
            self._follow(offer, frozenset([""]))

    def _lacks(self, offer: Offer) -> bool:
        there = self._there.get(offer["name"])
        if there is None:
            return True
        differs = not _same(there, offer["version"])
        if offer["replaces"] == "none" or (offer["replaces"] == "others" and not differs):
            return False
        if self._problem(offer) is None:
            return True
        if differs:
            self._lines.append(
                say.VERSION_DIFFERS(package=offer["name"], version=offer["version"], there=there)
            )
        return False

    def _follow(self, offer: Offer, extras: frozenset[str]) -> None:
        if (offer["name"], extras) in self._seen:
            return
        self._seen.add((offer["name"], extras))
        for wanted in _requirements(offer["requires"], extras):
            name = _normal(wanted.name)
            other = self._offers.get(name)
            if other is None:
                continue
            there = self._there.get(name)
            if name not in self._chosen and (there is None or not _allows(wanted, there)):
                self._chosen[name] = other
            more = frozenset(wanted.extras) | ({""} if name in self._chosen else set())
            if more:
                self._follow(other, more)

    def _problem(self, offer: Offer) -> str | None:
        """Return why an offer can't be installed."""
        from packaging.tags import parse_tag

        if offer["file"] is None:
            return offer["problem"] or ""
        tag = "-".join(offer["file"].removesuffix(".whl").split("-")[-3:])
        if self._tags.isdisjoint(parse_tag(tag)):
            return say.FOR_OTHERS(
                tag=tag, python=platform.python_version(), machine=platform.machine()
            )
        return None

    def _check(self) -> None:
        """Refuse what can't be installed, or would break what is there or comes with it."""
        lacking = {
            _shown(one): problem
            for one in self._chosen.values()
            if (problem := self._problem(one)) is not None
        }
        if lacking:
            problems = "; ".join(f"{package} {problem}" for package, problem in lacking.items())
            options = " ".join(f"--package {one.replace(' ', '==')}" for one in lacking)
            raise OfferError(say.LACKS_PACKAGES(problems=problems, options=options))
        versions = {name: one["version"] for name, one in self._chosen.items()}
        merged = {**self._there, **versions}
        for one in self._chosen.values():
            for wanted in _requirements(one["requires"], [""]):
                name = _normal(wanted.name)
                got, fine = merged.get(name), one["unmet"].get(name)
                if got is None or _allows(wanted, got):
                    continue
                if fine is None or not _same(got, fine):
                    raise OfferError(
                        say.NEEDS_OTHER(
                            package=_shown(one),
                            needed=f"{wanted.name}{wanted.specifier}",
                            there=f"{name} {got}",
                        )
                    )
        if self._there.keys() & versions.keys():
            self._check_image(versions)

    def _check_image(self, versions: Mapping[str, str]) -> None:
        for one in metadata.distributions():
            name = _normal(one.metadata["Name"] or "")
            if name in versions:
                continue
            for wanted in _requirements(one.requires or (), [""]):
                needed = _normal(wanted.name)
                before, after = self._there.get(needed), versions.get(needed)
                if before is None or after is None or _allows(wanted, after):
                    continue
                if _allows(wanted, before):
                    raise OfferError(
                        say.BREAKS_OTHER(
                            package=f"{needed} {after}",
                            other=f"{name} {one.version}",
                            needed=f"{wanted.name}{wanted.specifier}",
                        )
                    )


def _requirements(lines: Iterable[str], extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements that hold here."""
    from packaging.requirements import InvalidRequirement, Requirement

    for line in lines:
        with suppress(InvalidRequirement, ValueError):
            wanted = Requirement(line)
            marker = wanted.marker
            if any(marker is None and not extra for extra in extras) or (
                marker is not None and any(marker.evaluate({"extra": extra}) for extra in extras)
            ):
                yield wanted


def _allows(wanted: Requirement, version: str) -> bool:
    from packaging.version import InvalidVersion

    try:
        return wanted.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return True  # nobody can tell


def _same(one: str, other: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def _shown(offer: Offer) -> str:
    return f"{offer['name']} {offer['version']}"
