"""All that a page shows of one job, besides its log lines. Nothing in it is secret."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from jupyter_jax_trainer.channel.places import Group
from jupyter_jax_trainer.errors import JobDirError, JobNotFound
from jupyter_jax_trainer.jobdir import layout, timing
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import submitted_of
from jupyter_jax_trainer.jobdir.parts import Compiled
from jupyter_jax_trainer.jobdir.rows import row_of, session_record
from jupyter_jax_trainer.jobdir.session import Saved, Variable
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.messages import profiles
from jupyter_jax_trainer.options.spec import masked
from jupyter_jax_trainer.profiles.profile import Profile
from jupyter_jax_trainer.queries.protocol import (
    CacheUse,
    Detail,
    LogInfo,
    PlaceGroup,
    SessionDetail,
    ShownPlan,
    ShownSave,
    ShownVariable,
    Spending,
)

_PLAN = (
    "device",
    "devices_per_node",
    "runtime",
    "image",
    "context",
    "namespace",
    "note",
    "trainjob",
)


def find(key: str) -> Job:
    """Return the job with this key.

    Raises
    ------
    JobNotFound
        There is none: keys are looked up among those that there are.
    """
    for directory in layout.list_all():
        if directory.path.name == key:
            return Job(directory)
    raise JobNotFound(say.NO_JOB(job=key))


def uid_of(job: Job) -> str | None:
    """Return the uid of a job; None for one whose manifest can't be read."""
    try:
        return job.uid
    except (JobDirError, KeyError):
        return None


class OpenedJob:
    """A job that a page has opened, as long as it is there.

    Its name may be used again once it has been deleted.
    """

    def __init__(self, key: str) -> None:
        self.job = find(key)
        self.directory = JobDir(self.job.directory)
        self._uid = uid_of(self.job)

    def check(self) -> None:
        """Look whether it is there.

        Raises
        ------
        JobNotFound
            It was deleted.
        """
        if not self.directory.path.is_dir() or uid_of(Job(self.directory)) != self._uid:
            raise JobNotFound(say.NO_LONGER_EXISTS(job=self.job.name))


def detail(job: Job, root: Path | None) -> Detail:
    """Describe a job in full.

    Raises
    ------
    JobDirError
        Its files can't be read.
    """
    manifest = job.manifest
    made: Mapping[str, object] = manifest["plan"]
    plan = cast(ShownPlan, {name: made[name] for name in _PLAN if made.get(name)})
    spec = masked(job.spec)
    options = spec.to_json()
    options.pop("env", None)
    origin = submitted_of(manifest)
    code = ""
    with contextlib.suppress(JobDirError):  # an attached job may lack its code
        code = job.code
    return {
        "row": row_of(job, root),
        "spec": options,
        "line": spec.to_line(),
        "plan": plan,
        "sent": job.sent,
        "returns": bool(manifest["returns"]),
        "state": job.snapshot(),
        "logs": logs(job),
        "code": code,
        "script": origin and origin.get("script"),
        "session": session_detail(job) if job.is_session else None,
        "spending": _spending(job),
        "compile_cache": _compile_cache(job),
    }


def _spending(job: Job) -> Spending | None:
    """Return where the time of a job goes."""
    snapshot = job.snapshot()
    found = timing.timeline(snapshot, job.created, job.ended or time.time())
    if found is None:
        return None
    return {
        "parts": {name: seconds for name, seconds in found.parts.items() if seconds > 0},
        "goodput": found.goodput,
        "late": [
            {"rank": one.rank, "step": one.step, "host": one.host, "late": one.late}
            for one in timing.lateness(snapshot["ranks"])
        ],
        "functions": timing.functions_of(snapshot["ranks"]),
    }


def _compile_cache(job: Job) -> CacheUse | None:
    """Return what the compile cache had and had not."""
    ranks = job.snapshot()["ranks"]
    found = Compiled.of(rank for rank in ranks if rank.get("compiled", {}).get("cache", True))
    if not found.hits and not found.misses:
        return None
    return {"hits": found.hits, "misses": found.misses, "saved": found.saved}


def session_detail(job: Job) -> SessionDetail:
    """Describe what a session has; modules and what stands for content stay out."""
    record = session_record(job)
    return {
        "waiting": record["waiting"],
        "variables": [
            _shown(name, one)
            for name, one in record["variables"].items()
            if one["kind"] != "module"
        ],
        "restarts": record["restarts"],
        "lost": record["lost"],
        "saved": _saved(record.get("saved")),
    }


def _saved(saved: Saved | None) -> ShownSave | None:
    """Describe what was saved last; a rank can have said anything."""
    try:
        return saved and {"time": float(saved["time"]), "names": [*map(str, saved["names"])]}
    except (TypeError, ValueError, KeyError):
        return None


def _shown(name: str, one: Variable) -> ShownVariable:
    """Describe a variable; its rank, which may be somebody else's, can have said anything."""
    return {
        "name": name,
        "kind": str(one["kind"]),
        "type": str(one["type"]),
        "size": _number(one["size"]),
        "sharding": None if one["sharding"] is None else str(one["sharding"]),
        "device_size": _number(one["device_size"]),
        "cell": one["cell"],
        "deleted": bool(one["deleted"]),
        "ranks": one.get("ranks"),
    }


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def profile_of(job: Job, name: str) -> Profile:
    """Find a profile of a job.

    Raises
    ------
    JobNotFound
        There is none of that name.
    """
    known = {one.name: one for one in job.profiles}
    if name not in known:
        names = ", ".join(known) or "–"
        raise JobNotFound(profiles.NO_SUCH_PROFILE(job=job.name, name=name, names=names))
    return known[name]


def place_group(group: Group) -> PlaceGroup:
    """Describe ranks that are in one place."""
    one = group.first
    return {
        "ranks": group.ranks,
        "state": one.state,
        "answered": one.answered,
        "cell": one.cell,
        "line": one.line,
        "call": one.call,
        "frame": one.frame,
        "seconds": group.seconds,
        "process": group.process,
        "memory": group.memory,
    }


def logs(job: Job) -> list[LogInfo]:
    """List the logs of a job: its ranks', then those of other containers."""
    directory = JobDir(job.directory)
    sources: list[tuple[int | str, str]] = [(n, f"rank {n}") for n in range(job.spec.nodes)]
    sources += [(name, name) for name in directory.containers()]
    found: list[LogInfo] = []
    for source, label in sources:
        try:
            size = directory.log(source).stat().st_size
        except OSError:
            size = 0
        found.append({"source": source, "label": label, "size": size})
    return found
