"""What the commands of ``%jaxtrain`` and ``jaxtrain`` do."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.channel.places import notes
from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.which import all_named, named, named_anywhere
from jupyter_jax_trainer.errors import ResultsWithheld, UsageError
from jupyter_jax_trainer.messages import channel
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options import checks
from jupyter_jax_trainer.options.spec import masked
from jupyter_jax_trainer.options.table import Given
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.text import duration, plain
from jupyter_jax_trainer.trust import policy

if TYPE_CHECKING:
    from jupyter_jax_trainer.backends.base import Backend
    from jupyter_jax_trainer.jobdir.job import Job

_NEWEST = 20
_NOTEBOOK_TAIL = 1000


def jobs(context: Context, values: Given, words: list[str]) -> None:
    """List jobs."""
    if (cluster := _cluster(values)) is not None:
        _cluster_jobs(cluster, context, values)
        return
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.commands.listing import jobs_table, view, views

    sizes, state = values.flag("all"), values.text("state")
    if state:
        every = (view(job, sized=sizes) for job in api.jobs())
        found = [[job] for job in every if job.state == state]
    else:
        found = list(views(api.jobs(), all_cells=sizes))
    if not found:
        context.print(say.NO_JOBS_IN_STATE(state=state) if state else say.NO_JOBS())
        return
    kept = found
    if not sizes:
        kept = [one for index, one in enumerate(found) if index < _NEWEST or one[0].active]
    rows = itertools.chain.from_iterable(kept)
    context.print(jobs_table(rows, context.width, sizes=sizes))
    if left := len(found) - len(kept):
        context.print(say.OLDER_JOBS(count=left))


def _cluster(values: Given) -> Backend | None:
    """Return the backend whose cluster a command is about; None where it is about this machine."""
    named = values.text("backend") or "auto"
    if named != "auto":
        backend = registry.get(named)
        return backend if backend.capabilities.clusters else None
    place = values.text("context") or values.text("namespace")
    return registry.cluster() if place else None


def _cluster_jobs(cluster: Backend, context: Context, values: Given) -> None:
    """List all jobs of a namespace, whoever made them."""
    from jupyter_jax_trainer.commands.listing import trainjobs_table

    namespace, found = cluster.cluster_jobs(**context.place(values))
    kept = [row for row in found if values.text("state") in (None, row.state)]
    if not kept:
        context.print(say.NO_TRAINJOBS(namespace=namespace))
        return
    context.print(trainjobs_table(kept, context.width))


def show(context: Context, values: Given, words: list[str]) -> None:
    """Show one job in full."""
    from jupyter_jax_trainer.commands.listing import details

    cluster = _cluster(values)
    if cluster is None:
        context.print(details(named(words)))
    elif words:
        _show_cluster_job(cluster, context, values, words[0])
    else:
        raise UsageError(say.SHOW_WHICH())


def _show_cluster_job(cluster: Backend, context: Context, values: Given, name: str) -> None:
    """Show a job of a cluster: in full where this machine has it, else what the cluster says."""
    from jupyter_jax_trainer.commands.listing import details, trainjob_details
    from jupyter_jax_trainer.jobdir.job import Job
    from jupyter_jax_trainer.jobdir.layout import JobDir

    found = cluster.cluster_job(name, **context.place(values))
    if isinstance(found, JobDir):
        context.print(details(Job(found)))
    else:
        namespace, row = found
        context.print(trainjob_details(row, namespace))


def where(context: Context, values: Given, words: list[str]) -> None:
    """Say where each rank is."""
    from jupyter_jax_trainer.commands.listing import places_table

    job = named(words)
    places = job.where()
    context.print(plain(places_table(places)))
    for note in notes(places):
        context.print(plain(note))
    if job.backend.capabilities.clusters and not all(one.answered for one in places):
        context.print(channel.ON_CLUSTERS(seconds=timeouts.WHERE.seconds))


def logs(context: Context, values: Given, words: list[str]) -> None:
    """Print what the ranks printed."""
    from jupyter_jax_trainer.commands.listing import log_lines

    job = named(words)
    rank, follow = values.whole("rank"), values.flag("follow")
    tail = values.whole("tail")
    bounded = tail is None and not follow and context.in_notebook
    container = values.text("container")
    if container is not None and rank is not None:
        raise UsageError(say.RANK_AND_CONTAINER())
    found = job.logs(
        rank,
        container=container,
        tail=_NOTEBOOK_TAIL if bounded else tail,
        follow=follow,
        raw=values.flag("raw"),
    )
    lines = log_lines(
        found,
        ranks=rank is None and container is None and job.spec.nodes > 1,
        times=values.flag("timestamps"),
    )
    if follow:
        show_lines(lines, context, str(job.directory / "logs"))
        return
    text = list(lines)
    if not text:
        context.print(say.NOTHING_PRINTED(name=job.name))
        if job.containers and container is None:
            context.print(say.OTHER_CONTAINERS(names=" or ".join(job.containers)))
        return
    if bounded and len(text) == _NOTEBOOK_TAIL:
        context.print(say.LAST_LINES(count=_NOTEBOOK_TAIL))
    context.print("\n".join(text))


def show_lines(lines: Iterable[str], context: Context, where: str) -> None:
    """Show lines as they come; a notebook shows the first ones, and then the last ones.

    Parameters
    ----------
    lines
        The lines.
    context
        Where the command runs.
    where
        What holds all of them.
    """
    if not context.in_notebook:
        for line in lines:
            context.print(line)
        return
    from jupyter_jax_trainer.views.notebook import LogPane

    pane = LogPane()
    pane.where = where
    with contextlib.suppress(KeyboardInterrupt):
        for line in lines:
            pane.add([line.encode(errors="replace")])
            pane.flush()
    pane.flush(now=True)


def attach(context: Context, values: Given, words: list[str]) -> None:
    """Watch a job to its end."""
    trusts, takes_over = values.flag("trust"), values.flag("take_over")
    exact = trusts or takes_over
    if exact and not words:
        raise UsageError(say.ATTACH_NEEDS_NAME(option="--trust" if trusts else "--take-over"))
    given = any(values.text(name) for name in ("context", "namespace"))
    job = named_anywhere(words, **context.place(values), here=not given, exact=exact)
    if trusts:
        job.trust()
    if takes_over:
        job.take_over()
        _say(say.TAKES_OVER(name=job.name), context)
    watch(job, context)


def _say(text: str, context: Context) -> None:
    """Print something beside what a job prints: in a terminal, standard output is the job's own."""
    if context.in_notebook:
        context.print(text)
    else:
        print(plain(text), file=sys.stderr)


def watch(job: Job, context: Context) -> None:
    """Follow a job to its end; leaving is not an end.

    In a notebook an interrupt begins a countdown, as in the cell that started the job; in a
    terminal it leaves at once.

    Raises
    ------
    JobFailed
        It failed, or was cancelled.
    JobDetached
        In a notebook, which should not go on with its next cell.
    """
    from jupyter_jax_trainer.views import follow as display
    from jupyter_jax_trainer.views.interrupts import Interrupts

    with Interrupts() as interrupts:
        if context.in_notebook:
            interrupts.hold()
        try:
            display.follow(job, interrupts)
        except KeyboardInterrupt:
            context.print(f"\n{say.DETACHED(name=job.name)}")
            return
        _take_results(job, context)
    if interrupts.times:  # Run All should stop here all the same
        raise display.ended_meanwhile(job)


def _take_results(job: Job, context: Context) -> None:
    """Put the results into the notebook, as the cell would have; in a terminal say how to.

    Raises
    ------
    ResultError
        They did not come back.
    """
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.jobdir.results import missing, problems

    names = [entry["name"] for entry in job.results_info if "error" not in entry]
    lost = problems(job)
    if job.manifest["returns"] or not (names or lost):
        return
    if context.namespace is not None:
        taken = api.take(job, context.namespace)
        loaded = say.LOADED_IN_NOTEBOOK if context.in_notebook else say.LOADED_IN_SESSION
        context.print(loaded(names=", ".join(taken)))
    elif names and not job.trusted:
        try:
            policy.require(job)
        except ResultsWithheld as withheld:  # the job itself has ended well
            print(plain(str(withheld)).replace("`%jaxtrain ", "`jaxtrain "), file=sys.stderr)
    elif names:  # standard output is the job's own
        words = say.HOW_TO_PRINT(name=job.name, names=", ".join(names))
        print(plain(words), file=sys.stderr)
    elif not job.results_info and job.trusted:  # else the last status line has told
        raise missing(lost, names)


def result(context: Context, values: Given, words: list[str]) -> None:
    """Bring variables back."""
    from jupyter_jax_trainer.commands.listing import results_table

    job = named(words[:1])
    wanted = words[1:]
    if job.active:
        policy.require(job)
        context.print(say.WAITING_FOR_END(name=job.name, state=job.state))
    if job.manifest["returns"] and not wanted:
        if context.namespace is not None:
            raise UsageError(say.RESULT_HAS_NO_NAME(name=job.name))
        context.print(repr(job.result()))
        return
    found = {name: job.result(name) for name in wanted} if wanted else job.result()
    if context.namespace is not None:
        context.namespace.update(found)
        context.print(results_table(job, found) if found else say.NO_RESULTS())
        return
    for name, value in found.items():
        context.print(f"{name} = {value!r}")


def cancel(context: Context, values: Given, words: list[str]) -> None:
    """Stop jobs."""
    from jupyter_jax_trainer import api

    for one in all_named(words):
        # A session that was started again has a number, and goes by its name all the same.
        job = one if one.active else (api.live_session(one.name) or one)
        if not job.active:
            context.print(say.ENDED_ALREADY(name=job.name, state=job.state))
            if (last := api.job(one.name)).active:
                context.print(say.NAMESAKE_ACTIVE(name=last.name))
        elif (
            job.state == State.RUNNING
            and not values.flag("yes")
            and context.ask(say.ASK_CANCEL(name=job.name, time=duration(job.elapsed))) is False
        ):
            context.print(say.NOT_CANCELLED(name=job.name))
        else:
            job.cancel()
            context.print(say.CANCELLED(name=job.name))


def delete(context: Context, values: Given, words: list[str]) -> None:
    """Remove jobs and their files."""
    from jupyter_jax_trainer.commands.listing import view

    if bool(words) == values.flag("all"):
        raise UsageError(say.DELETE_WHICH())
    for job in all_named(words) if words else _ended(context, values):
        mine = policy.is_mine(job)
        if mine and view(job).active and not values.flag("yes"):
            answer = context.ask(say.ASK_DELETE_ACTIVE(name=job.name, state=job.state))
            if answer is None:
                raise UsageError(say.WOULD_DELETE_ACTIVE(name=job.name, state=job.state))
            if not answer:
                context.print(say.NOT_DELETED(name=job.name))
                continue
        job.delete()
        deleted = say.DELETED if mine else say.DELETED_HERE
        context.print(deleted(name=job.name))


def _ended(context: Context, values: Given) -> list[Job]:
    """Return all jobs that have ended, if the user means that."""
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.commands.listing import space, view
    from jupyter_jax_trainer.text import size

    found = [job for job in api.jobs() if view(job).state in ENDED]
    if not found:
        context.print(say.NONE_ENDED())
        return []
    if values.flag("yes"):
        return found
    jobs = say.ENDED_JOB() if len(found) == 1 else say.ENDED_JOBS(count=len(found))
    total = size(space(found))
    answer = context.ask(say.ASK_DELETE_ENDED(jobs=jobs, size=total))
    if answer is None:
        raise UsageError(say.WOULD_DELETE_ENDED(jobs=jobs, size=total))
    if not answer:
        context.print(say.NOTHING_DELETED())
    return found if answer else []


def suspend(context: Context, values: Given, words: list[str]) -> None:
    """Let the pods of a job end until it is resumed."""
    job = named(words)
    job.suspend()
    context.print(say.SUSPENDED(name=job.name))


def resume(context: Context, values: Given, words: list[str]) -> None:
    """Start a suspended job again."""
    job = named(words)
    job.resume()
    context.print(say.RESUMED(name=job.name))


def use(context: Context, values: Given, words: list[str]) -> None:
    """Set, show or forget the defaults of a notebook."""
    from jupyter_jax_trainer.options.spec import make_spec

    defaults = context.defaults
    if defaults is None:
        raise UsageError(say.USE_WITHOUT_NOTEBOOK())
    bare = context.all_cells
    reset = bool(values.pop("reset", False))
    wanted = values.pop("all_cells", None)
    start = Given() if reset else Given(defaults)
    spec = make_spec(values, start)  # refused as a whole, or taken as a whole
    was = None if bare is None else bare.session
    on = bool(wanted) if wanted is not None else was is not None and not reset
    if on and spec.session is None:
        raise UsageError(say.ALL_CELLS_WITHOUT_SESSION())
    defaults.clear()
    defaults.update({name: getattr(spec, name) for name in spec.explicit})
    line = masked(spec).to_line()
    context.print(say.DEFAULTS(line=line) if line else say.NO_DEFAULTS())
    if bare is not None:
        bare.session = spec.session if on else None
    if on:
        context.print(say.ALL_CELLS_ON(session=spec.session))
    elif was is not None:
        context.print(say.ALL_CELLS_OFF())


def doctor(context: Context, values: Given, words: list[str]) -> None:
    """Check this machine, and the cluster where there is one."""
    from jupyter_jax_trainer.doctor.report import examine, report

    findings = list(examine(values.text("backend") or "auto", **context.place(values)))
    context.print(report(findings, context.width))
    context.failed = any(finding.status == "FAIL" for finding in findings)


def key(context: Context, values: Given, words: list[str]) -> None:
    """Export or import the key that signs a user's jobs."""
    from jupyter_jax_trainer.trust import signing

    verb, file = words
    if verb not in ("export", "import"):
        unknown = say.UNKNOWN_ACTION(command="key", action=checks.shown(verb))
        raise UsageError(unknown, say.KEY_USAGE())
    path = Path(file).expanduser()
    if verb == "export":
        names = signing.export_keys(path)
        context.print(say.KEY_EXPORTED(keys=", ".join(names), file=path))
        return
    if not policy.allowed():
        raise UsageError(say.KEY_IMPORT_FORBIDDEN(setting=policy.ALLOW))
    names = signing.import_keys(path)
    if not names:
        context.print(say.NO_NEW_KEY())
        return
    signs = signing.key_id(signing.ensure_key())
    context.print(say.KEY_IMPORTED(keys=", ".join(names), file=signing.key_file()))
    context.print(
        say.SIGNED_WITH_IMPORTED() if signs in names else say.STILL_SIGNED_WITH(key=signs)
    )
