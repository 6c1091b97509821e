"""The packages that go along for an image of which nothing is known, in case it lacks them.

The worker installs those that the image lacks, and leaves the others (`worker.pod.offers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from packaging.requirements import Requirement

from jupyter_jax_trainer.capture.distributions import Installed, by_modules, by_name
from jupyter_jax_trainer.capture.environment import (
    Image,
    Needs,
    Packed,
    allows,
    elsewhere,
    left_out,
    own_metadata,
    packed,
)
from jupyter_jax_trainer.capture.imports import Imports
from jupyter_jax_trainer.capture.packing import CannotPack, Platform, Wheel
from jupyter_jax_trainer.capture.room import Room
from jupyter_jax_trainer.messages import environment as say
from jupyter_jax_trainer.text import joined, size
from jupyter_jax_trainer.worker.serialization.archive import Offer

# As installed: so much is packed in seconds. Most images have what is larger.
_MOST = 256 << 20
# What else the bundle has then: `packaging`, code of the worker, and what is said of the packages.
BESIDES = 192 << 10


@dataclass
class Offered(Packed):
    """What goes along, and what the worker has to know of it.

    Attributes
    ----------
    offers
        Those that can't be sent, too: the worker says so where the image lacks them.
    """

    offers: list[Offer] = field(default_factory=list)


def offer(
    imports: Imports,
    platform: Platform,
    given: Mapping[str, str],
    room: Room,
    own: Iterable[str] = (),
    *,
    large: bool = False,
) -> Offered:
    """Pack what a job imports and what that needs, but for what an image for JAX has anyway.

    Parameters
    ----------
    imports, given, room, own
        As of `environment.gather`.
    platform
        What the pods are taken to have; the worker looks at the tags of the wheels again.
    large
        Any size goes along.

    Raises
    ------
    CaptureError
        Something doesn't fit what somebody has named for the job.
    """
    needs = Needs(Image(distributions={}, platform=platform), given)
    needs.add(imports.certain, imports.objects)
    needs.check(needs.found)
    needs.add(imports.possible, ())
    certain = by_modules(elsewhere(imports.certain))
    possible = by_modules(elsewhere(imports.possible))
    sent = by_modules(elsewhere(imports.objects))
    found = Offered()
    left = None if large else _MOST
    for one in needs.found.values():
        wheel, problem = _try(one, platform, left, room.without(found.total))
        if wheel is not None:
            found.wheels.append(wheel)
            left = None if left is None else left - one.size
        found.offers.append(
            {
                "name": one.name,
                "version": one.version,
                "file": None if wheel is None else wheel.file,
                "problem": problem,
                "use": "certain"
                if one.name in certain
                else "possible"
                if one.name in possible
                else "needed",
                "replaces": "all" if one.is_own else "others" if one.name in sent else "none",
                "requires": list(map(str, _requirements(one))),
                "unmet": dict(_unmet(one)),
            }
        )
    problems = [
        say.ONE_PROBLEM(package=f"{one['name']} {one['version']}", problem=one["problem"])
        for one in found.offers
        if one["problem"]
    ]
    if problems:
        found.notes.append(say.NOT_OFFERED(problems=joined(problems, most=6)))
    found.notes += left_out(found.wheels)
    found.wheels += own_metadata(own, given, platform)
    return found


def _try(
    one: Installed, platform: Platform, left: int | None, room: Room
) -> tuple[Wheel | None, str | None]:
    """Pack a distribution, or say why it can't go."""
    if left is not None and one.size > left:
        return None, say.EXCEEDS(size=size(one.size), most=size(_MOST))
    try:
        wheel = packed(one, platform)
    except CannotPack as error:
        return None, str(error)
    if not room.fits(len(wheel.data)):
        return None, say.NO_ROOM(size=size(len(wheel.data)))
    return wheel, None


def _requirements(one: Installed) -> Iterator[Requirement]:
    """Yield what a distribution needs, but for what it would need for an extra and is not here."""
    for wanted in one.requirements:
        marker = str(wanted.marker or "")
        if "extra" not in marker or by_name(wanted.name) is not None:
            yield wanted


def _unmet(one: Installed) -> Iterator[tuple[str, str]]:
    """Yield what is here in a version that a distribution does not want: all is well with it."""
    for wanted in one.requirements:
        here = by_name(wanted.name)
        if here is not None and not allows(wanted, here.version):
            yield here.name, here.version
