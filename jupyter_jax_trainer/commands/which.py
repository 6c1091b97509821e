"""Which jobs the words of a command mean."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from jupyter_jax_trainer.errors import JobNotFound, UsageError
from jupyter_jax_trainer.messages import commands as say

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job


def named(words: Sequence[str]) -> Job:
    """Return the job that the words name, or the newest one, if possible one's own."""
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.trust import policy

    if words:
        return api.job(words[0])
    found = api.jobs()
    if not found:
        raise JobNotFound(say.NO_JOBS_YET())
    return next(filter(policy.is_mine, found), found[0])


def named_anywhere(
    words: Sequence[str],
    context: str | None,
    namespace: str | None,
    *,
    here: bool,
    exact: bool = False,
) -> Job:
    """Return a job of this machine (only with `here`), or one that only the cluster knows.

    With `exact` it is never a namesake: what is trusted has to be the one that was named.
    """
    from jupyter_jax_trainer.backends import registry
    from jupyter_jax_trainer.jobdir import layout
    from jupyter_jax_trainer.jobdir.job import Job

    try:
        if here:
            return Job(layout.find(words[0])) if exact else named(words)
    except JobNotFound:
        if not words or not registry.has_clusters():
            raise
    if not words:
        raise UsageError(say.ATTACH_WHICH())
    return Job(registry.cluster().attach(words[0], context, namespace))


def all_named(words: Sequence[str]) -> list[Job]:
    """Find all jobs before anything is done to one: a wrong name changes nothing."""
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.jobdir import layout
    from jupyter_jax_trainer.jobdir.job import Job

    found: dict[str, Job] = {}
    for word in words:
        if not set(word) & set("*?["):
            # Not the newest of that name: what goes away has to be the one that was named.
            jobs = [Job(layout.find(word))]
        elif not (jobs := [job for job in api.jobs() if fnmatchcase(job.name, word)]):
            raise JobNotFound(say.NO_MATCH(pattern=word))
        found.update({job.name: job for job in jobs})
    return list(found.values())
