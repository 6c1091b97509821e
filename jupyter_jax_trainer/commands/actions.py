"""What the commands of ``%jaxtrain`` and ``jaxtrain`` do."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.commands.context import Context
from jupyter_jax_trainer.commands.which import all_named, named, named_anywhere
from jupyter_jax_trainer.errors import ResultsWithheld, UsageError
from jupyter_jax_trainer.options import checks
from jupyter_jax_trainer.options.spec import masked
from jupyter_jax_trainer.states import ENDED, State
from jupyter_jax_trainer.text import duration, plain
from jupyter_jax_trainer.trust import policy

if TYPE_CHECKING:
    from jupyter_jax_trainer.backends.base import Backend
    from jupyter_jax_trainer.jobdir.job import Job

_NEWEST = 20
_NOTEBOOK_TAIL = 1000


def jobs(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """List jobs."""
    if (cluster := _cluster(values)) is not None:
        _cluster_jobs(cluster, context, values)
        return
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.commands.listing import jobs_table, view

    sizes = values.get("all", False)
    views = [view(job, sized=sizes) for job in api.jobs()]
    found = [job for job in views if job.state == values.get("state", job.state)]
    if not found:
        state = f" in state {values['state']}" if "state" in values else ""
        context.print(f"There are no jobs{state}.")
        return
    kept = found
    if not values.get("all"):
        kept = [job for index, job in enumerate(found) if index < _NEWEST or job.active]
    context.print(jobs_table(kept, context.width, sizes=sizes))
    if left := len(found) - len(kept):
        context.print(f"… and {left} older; `jobs --all` lists them.")


def _cluster(values: dict[str, Any]) -> Backend | None:
    """Return the backend whose cluster a command is about; None where it is about this machine."""
    if named := values.get("backend", "auto").replace("auto", ""):
        backend = registry.get(named)
        return backend if backend.capabilities.clusters else None
    place = values.get("context") or values.get("namespace")
    return registry.cluster() if place else None


def _cluster_jobs(cluster: Backend, context: Context, values: dict[str, Any]) -> None:
    """List all jobs of a namespace, whoever made them."""
    from jupyter_jax_trainer.commands.listing import trainjobs_table

    namespace, found = cluster.cluster_jobs(**context.place(values))
    kept = [row for row in found if row.state == values.get("state", row.state)]
    if not kept:
        context.print(f"There are no such TrainJobs in namespace {namespace}.")
        return
    context.print(trainjobs_table(kept, context.width))


def show(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Show one job in full."""
    from jupyter_jax_trainer.commands.listing import details

    cluster = _cluster(values)
    if cluster is None:
        context.print(details(named(words)))
    elif words:
        _show_cluster_job(cluster, context, values, words[0])
    else:
        raise UsageError("show needs the name of a TrainJob: `jobs --backend kubernetes` has them.")


def _show_cluster_job(
    cluster: Backend, context: Context, values: dict[str, Any], name: str
) -> None:
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


def logs(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Print what the ranks printed."""
    from jupyter_jax_trainer.commands.listing import log_lines

    job = named(words)
    rank, follow = values.get("rank"), values.get("follow", False)
    tail = values.get("tail")
    bounded = tail is None and context.in_notebook
    container = values.get("container")
    if container is not None and rank is not None:
        raise UsageError("--rank and --container exclude each other.")
    found = job.logs(
        rank,
        container=container,
        tail=_NOTEBOOK_TAIL if bounded else tail,
        follow=follow,
        raw=values.get("raw", False),
    )
    lines = log_lines(
        found,
        ranks=rank is None and container is None and job.spec.nodes > 1,
        times=values.get("timestamps", False),
    )
    if follow:
        show_lines(lines, context, str(job.directory / "logs"))
        return
    text = list(lines)
    if not text:
        context.print(f"Nothing has been printed by job {job.name} yet.")
        if job.containers and container is None:
            context.print(f"Other containers have: --container {' or '.join(job.containers)}")
        return
    if bounded and len(text) == _NOTEBOOK_TAIL:
        context.print(f"The last {_NOTEBOOK_TAIL} lines; --tail N shows more.")
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


def attach(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Watch a job to its end."""
    if values.get("trust") and not words:
        raise UsageError("--trust needs a job name.")
    given = any(values.get(name) for name in ("context", "namespace"))
    trusts = values.get("trust", False)
    job = named_anywhere(words, **context.place(values), here=not given, exact=trusts)
    if trusts:
        job.trust()
    watch(job, context)


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
            context.print(
                f"\nDetached; job {job.name} goes on.\n"
                f"Come back: jaxtrain attach {job.name}    Stop it: jaxtrain cancel {job.name}"
            )
            return
        _take_results(job, context)
    if interrupts.times:  # Run All should stop here all the same
        raise display.ended_meanwhile(job)


def _take_results(job: Job, context: Context) -> None:
    """Put the results into the notebook, as the cell would have; in a terminal say how to."""
    from jupyter_jax_trainer.jobdir.results import take_results

    names = [entry["name"] for entry in job.results_info if "error" not in entry]
    if job.manifest["returns"] or not job.results_info:
        return
    if context.namespace is not None:
        taken = take_results(job, context.namespace)
        place = "notebook" if context.in_notebook else "session"
        context.print(f"In this {place} now: {', '.join(taken)}")
    elif names and not job.trusted:
        try:
            policy.require(job)
        except ResultsWithheld as withheld:  # the job itself has ended well
            print(plain(str(withheld)).replace("`%jaxtrain ", "`jaxtrain "), file=sys.stderr)
    elif names:  # standard output is the job's own
        words = f"`jaxtrain result {job.name}` prints {', '.join(names)}."
        print(plain(words), file=sys.stderr)


def result(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Bring variables back."""
    from jupyter_jax_trainer.commands.listing import results_table

    job = named(words[:1])
    wanted = words[1:]
    if job.active:
        policy.require(job)
        context.print(f"Job {job.name} is {job.state}; waiting for its end.")
    if job.manifest["returns"] and not wanted:
        if context.namespace is not None:
            raise UsageError(
                f"Job {job.name} was started by train(), so its result has no name.",
                f"value = jupyter_jax_trainer.job({job.name!r}).result()",
            )
        context.print(repr(job.result()))
        return
    found = {name: job.result(name) for name in wanted} if wanted else job.result()
    if context.namespace is not None:
        context.namespace.update(found)
        context.print(results_table(job, found) if found else "The job brought nothing back.")
        return
    for name, value in found.items():
        context.print(f"{name} = {value!r}")


def cancel(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Stop jobs."""
    for job in all_named(words):
        if not job.active:
            context.print(f"Job {job.name} has ended already: {job.state}.")
        elif (
            job.state == State.RUNNING
            and not values.get("yes")
            and context.ask(f"Job {job.name} runs for {duration(job.elapsed)}. Cancel it?") is False
        ):
            context.print(f"Job {job.name} is left alone.")
        else:
            job.cancel()
            context.print(f"Job {job.name} is cancelled.")


def delete(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Remove jobs and their files."""
    from jupyter_jax_trainer.commands.listing import view

    if bool(words) == bool(values.get("all")):
        raise UsageError("delete takes NAME..., or --all for all jobs that have ended.")
    for job in all_named(words) if words else _ended(context, values):
        mine = policy.is_mine(job)
        if mine and view(job).active and not values.get("yes"):
            answer = context.ask(f"Job {job.name} is {job.state}. Cancel and delete it?")
            if answer is None:
                raise UsageError(
                    f"Job {job.name} is {job.state}; deleting it would end it.",
                    f"If that is meant: delete {job.name} --yes",
                )
            if not answer:
                context.print(f"Job {job.name} is left alone.")
                continue
        job.delete()
        context.print(
            f"Job {job.name} is deleted."
            if mine
            else f"Job {job.name} is deleted here. Somebody else submitted it: its TrainJob stays."
        )


def _ended(context: Context, values: dict[str, Any]) -> list[Job]:
    """Return all jobs that have ended, if the user means that."""
    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.commands.listing import space, view
    from jupyter_jax_trainer.text import size

    found = [job for job in api.jobs() if view(job).state in ENDED]
    if not found:
        context.print("There are no jobs that have ended.")
        return []
    if values.get("yes"):
        return found
    jobs = "job that has" if len(found) == 1 else f"{len(found)} jobs that have"
    what = f"the {jobs} ended, {size(space(found))} in all"
    answer = context.ask(f"Delete {what}?")
    if answer is None:
        raise UsageError(f"This would delete {what}.", "If that is meant: delete --all --yes")
    if not answer:
        context.print("Nothing was deleted.")
    return found if answer else []


def suspend(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Let the pods of a job end until it is resumed."""
    job = named(words)
    job.suspend()
    context.print(
        f"Job {job.name} is suspended: its pods end. `resume {job.name}` starts it again, from the "
        "beginning of its cell."
    )


def resume(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Start a suspended job again."""
    job = named(words)
    job.resume()
    context.print(f"Job {job.name} starts again.")


def use(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Set, show or forget the defaults of a notebook."""
    from jupyter_jax_trainer.options.spec import make_spec

    defaults = context.defaults
    if defaults is None:
        raise UsageError(
            "`use` sets defaults for a notebook, and there is none here.",
            "In a terminal, give the options with every command.",
        )
    start = {} if values.pop("reset", False) else dict(defaults)
    spec = make_spec(values, start)  # refused as a whole, or taken as a whole
    defaults.clear()
    defaults.update({name: getattr(spec, name) for name in spec.explicit})
    line = masked(spec).to_line()
    context.print(f"Defaults of this notebook: {line}" if line else "No defaults are set.")


def doctor(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Check this machine, and the cluster where there is one."""
    from jupyter_jax_trainer.doctor.report import examine, report

    findings = list(examine(values.get("backend", "auto"), **context.place(values)))
    context.print(report(findings, context.width))
    context.failed = any(finding.status == "FAIL" for finding in findings)


def key(context: Context, values: dict[str, Any], words: list[str]) -> None:
    """Take the key that signs a user's jobs to another machine."""
    from jupyter_jax_trainer.trust import signing

    verb, file = words
    if verb not in ("export", "import"):
        raise UsageError(
            f"key can't {checks.shown(verb)}.", "`jaxtrain key export FILE` or `key import FILE`."
        )
    path = Path(file).expanduser()
    if verb == "export":
        names = signing.export_keys(path)
        context.print(
            f"Wrote key {', '.join(names)} to {path}. Who has it can make jobs that count as "
            "yours: copy it to your other machines only, then delete it."
        )
        return
    if not policy.allowed():
        raise UsageError(
            f"No key can be imported: the administrator forbids results of others' jobs "
            f"({policy.ALLOW}), and all that a key has signed counts as yours.",
        )
    names = signing.import_keys(path)
    if not names:
        context.print("There was no new key in it.")
        return
    signs = signing.key_id(signing.ensure_key())
    context.print(
        f"Imported key {', '.join(names)}: all jobs that it signed, or will sign, count as yours "
        "here. Their results are loaded and their HTML is shown unasked, and both may run code. "
        f"If it is not your own, remove it from {signing.key_file()}.\n"
        + (
            "Your jobs from here are signed with it, too: who has it can make jobs that count as "
            "yours."
            if signs in names
            else f"Your jobs from here are still signed with key {signs}; `key export` takes "
            "that one to your other machines."
        )
    )
