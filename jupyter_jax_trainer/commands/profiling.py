"""The command ``profile``."""

from __future__ import annotations

from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.which import named
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import profiles as say
from jupyter_jax_trainer.options.table import Given
from jupyter_jax_trainer.profiles.profile import Profile
from jupyter_jax_trainer.profiles.summary import ProfileSummary
from jupyter_jax_trainer.text import plain, shorten, size
from jupyter_jax_trainer.text import table as lay_out

_WIDTH = 60  # columns of a name
_OPERATIONS, _ALLOCATIONS = 15, 8  # lines


def profile(context: Context, values: Given, words: list[str]) -> None:
    """Show a profile, or take one and show it."""
    job, seconds = named(words), values.number("seconds")
    found = _chosen(job, values.text("profile")) if seconds is None else job.profile(seconds)
    context.print(plain(text(found, context.width)))


def _chosen(job: Job, name: str | None) -> Profile:
    """Return one of the profiles that there are."""
    known = {one.name: one for one in job.profiles}
    if not known:
        raise UsageError(say.NO_PROFILES(job=job.name))
    if name is None:
        return [*known.values()][-1]
    if name not in known:
        raise UsageError(say.NO_SUCH_PROFILE(job=job.name, name=name, names=", ".join(known)))
    return known[name]


def text(profile: Profile, columns: int) -> str:
    """Lay out what a profile says."""
    found = profile.summary()
    taken = max((one["seconds"] for one in found["ranks"]), default=0.0)
    platforms = {one["platform"] for one in found["ranks"]} - {None}
    platform = ", ".join(sorted(str(one).upper() for one in platforms)) or "–"
    title = say.TITLE(name=profile.name, job=profile.job, seconds=taken, platform=platform)
    parts = [title, *found["notes"], _ranks(found, columns)]
    if found["operations"]:
        parts.append(_operations(found, columns))
    if any(one["allocations"] for one in found["ranks"]):
        parts.append(_allocations(found, columns))
    return "\n\n".join([*parts, str(profile.directory)])


def _ranks(found: ProfileSummary, columns: int) -> str:
    rows = [
        (
            one["rank"],
            f"{one['seconds']:.1f} s" if one["seconds"] else None,
            one["devices"] or None,
            _share(one["busy"], one["seconds"]),
            _share(one["seconds"] - one["busy"], one["seconds"]),
            _share(one["collectives"], one["busy"]),
            one["problem"],
        )
        for one in found["ranks"]
    ]
    headers = ("RANK", "TOOK", "DEVICES", "BUSY", "IDLE", "COLLECTIVES", "PROBLEM")
    return lay_out(rows, headers, columns=columns)


def _operations(found: ProfileSummary, columns: int) -> str:
    busy = sum(one["busy"] * one["devices"] for one in found["ranks"])
    read = sum(one["problem"] is None for one in found["ranks"]) or 1
    rows = [
        (
            shorten(one["name"], _WIDTH),
            shorten(one["module"], _WIDTH),
            f"{1000 * one['seconds']:.1f} ms",
            _share(one["seconds"] * read, busy),
            f"{1000 * one['most']:.1f} ms (rank {one['rank']})",
            one["count"],
        )
        for one in found["operations"][:_OPERATIONS]
    ]
    headers = ("OPERATION", "PROGRAM", "PER RANK", "SHARE", "MOST", "COUNT")
    return lay_out(rows, headers, columns=columns)


def _allocations(found: ProfileSummary, columns: int) -> str:
    rows = [
        (one["rank"], shorten(held["where"], _WIDTH), held["device"], size(held["size"]))
        for one in found["ranks"]
        for held in one["allocations"][:_ALLOCATIONS]
    ]
    return lay_out(rows, ("RANK", "ALLOCATED BY", "DEVICE", "SIZE"), columns=columns)


def _share(part: float, whole: float) -> str | None:
    return f"{100 * part / whole:.0f} %" if whole else None
