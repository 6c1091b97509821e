"""The commands of ``%jaxtrain`` and of ``jaxtrain``: the same words, the same code."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_jax_trainer.commands import (
    actions,
    converting,
    history,
    profiling,
    script,
    sessions,
    sharing,
)
from jupyter_jax_trainer.commands.context import Handler
from jupyter_jax_trainer.commands.runtimes import runtimes
from jupyter_jax_trainer.devices import DEVICES
from jupyter_jax_trainer.options import amounts, checks
from jupyter_jax_trainer.options.table import BY_FIELD, OPTIONS, PYTHONS, Option, one_of
from jupyter_jax_trainer.states import State


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command: its words, its options and what it does.

    Attributes
    ----------
    words
        The least and the largest number of words that are not options; None is any number.
    takes
        What those words are, for completion: ``job``, ``session``, ``file``, ``key`` or nothing.
    """

    name: str
    usage: str
    summary: str
    help: str
    handler: Handler
    options: tuple[Option, ...] = ()
    words: tuple[int, int | None] = (0, 0)
    takes: str = ""


_YES = Option(name="yes", short="y", help="Don't ask.")
_PLACE = tuple(BY_FIELD[name] for name in ("backend", "context", "namespace"))
_ALL_CELLS = Option(
    name="all-cells",
    help="Run every cell of this notebook in the session, as if it began with %%jaxtrain. Magics, "
    "`!` and `?` at its top run in the kernel, and so does a cell below %%here.",
)
_RESET = Option(name="reset", help="Forget earlier defaults.")
_COMMANDS = (
    Command(
        name="jobs",
        usage="jobs [--all] [--state STATE]",
        summary="list jobs, newest first",
        help="List jobs, newest first: those that have not ended, and the last twenty. A session "
        "counts as one, with its cells that have not ended below it. With --backend kubernetes, "
        "all TrainJobs in the namespace, whoever created them.",
        handler=actions.jobs,
        options=(
            *_PLACE,
            Option(name="all", short="a", help="List all jobs and cells, with their sizes."),
            Option(
                name="state",
                metavar="STATE",
                choices=tuple(State),
                check=checks.one_of(*State, any_case=True),
                help=f"Only jobs in this state: {', '.join(State)}.",
            ),
        ),
    ),
    Command(
        name="show",
        usage="show [NAME]",
        summary="show one job in full",
        handler=actions.show,
        help="Show a job's state with its reason, ranks, what was sent and came back, and "
        "events. With --backend kubernetes, a TrainJob in the namespace, whoever created it.",
        words=(0, 1),
        takes="job",
        options=_PLACE,
    ),
    Command(
        name="logs",
        usage="logs [NAME] [--rank R] [--follow]",
        summary="print what the ranks printed",
        help="Print the logs of all ranks in the order written, of one rank, or of another "
        "container of a job on Kubernetes, such as an initializer or sidecar. Without --tail, a "
        "notebook shows the last 1000 lines; with --follow, the first 500 and the last 20.",
        handler=actions.logs,
        words=(0, 1),
        takes="job",
        options=(
            Option(
                name="rank",
                short="r",
                metavar="R",
                check=amounts.whole(0, 4095),
                help="Only this rank.",
            ),
            Option(
                name="container",
                short="c",
                metavar="NAME",
                check=checks.word,
                help="Only this container, not the ranks; `show` lists a job's containers.",
            ),
            Option(name="follow", short="f", help="Keep printing until the job ends."),
            Option(
                name="tail",
                short="n",
                metavar="N",
                check=amounts.whole(0, 10**9),
                help="Only the last N lines.",
            ),
            Option(name="timestamps", short="t", help="Start each line with its time."),
            Option(name="raw", help="Include noise from libraries."),
        ),
    ),
    Command(
        name="where",
        usage="where [NAME]",
        summary="show which line each rank is on",
        help="Ask each rank of a running job which line of the cell it is on, for how long, and "
        "how much memory it uses. Ranks in the same place are grouped, outliers first: others may "
        "be waiting for them. Works even while ranks wait in a collective.",
        handler=actions.where,
        words=(0, 1),
        takes="job",
    ),
    Command(
        name="report",
        usage="report [NAME] [-o FILE]",
        summary="write one HTML file that shows a job",
        help="Write one HTML file with a job's card, plots, failure, environment and the end of "
        "its log. It opens anywhere and loads nothing. What looks like a secret is hidden.",
        handler=sharing.report,
        words=(0, 1),
        takes="job",
        options=(
            Option(
                name="output",
                short="o",
                metavar="FILE",
                check=checks.word,
                help="The file. Default: NAME.html.",
            ),
        ),
    ),
    Command(
        name="export",
        usage="export NAME [FOLDER]",
        summary="write a folder that runs a job again without this package",
        help="Write what anyone needs to run a job again without this package: the code and all "
        "that was sent with it, a launcher, YAML for a cluster, requirements, hashes. Default: a "
        "folder NAME. Environment variables that look like secrets are left out; values that the "
        "code reads from the notebook are included.",
        handler=sharing.export,
        words=(1, 2),
        takes="job",
    ),
    Command(
        name="profile",
        usage="profile NAME [--seconds N]",
        summary="show where a job's time goes, or record a profile while it runs",
        help="Show a job's last profile: the operations that took longest, how busy the devices "
        "were, the share of collectives and what holds memory, by rank. With --seconds, profile "
        "all ranks of a running job first, or the cell that runs in a session.",
        handler=profiling.profile,
        words=(0, 1),
        takes="job",
        options=(
            Option(
                name="seconds",
                metavar="N",
                check=amounts.timeout,
                help="Profile a running job for this many seconds.",
            ),
            Option(
                name="profile",
                metavar="NAME",
                check=checks.word,
                help="Which of several profiles to show; those by --profile are named `cell` or "
                "`steps`, others 1, 2, ….",
            ),
        ),
    ),
    Command(
        name="attach",
        usage="attach [NAME] [--trust] [--take-over]",
        summary="watch a job to its end",
        help="Watch a job to its end; a notebook then loads its results into variables. "
        "Interrupting leaves the job running. A job that this machine does not know is looked "
        "up in the cluster; its results and HTML are withheld unless it is signed with your "
        "key, or you trust its submitter.",
        handler=actions.attach,
        words=(0, 1),
        takes="job",
        options=(
            *_PLACE[1:],
            Option(
                name="trust",
                help="Load results and show HTML of a job that somebody else submitted. Both "
                "can run code with your permissions.",
            ),
            Option(
                name="take-over",
                help="Ask your job's ranks from this machine, such as for `where`. The "
                "previous machine still shows state, log and results.",
            ),
        ),
    ),
    Command(
        name="result",
        usage="result NAME [VARIABLE...]",
        summary="bring back a job's variables",
        help="Bring back the --out variables, or some of them. A notebook loads them into "
        "variables; a terminal prints them.",
        handler=actions.result,
        words=(1, None),
        takes="job",
    ),
    Command(
        name="cancel",
        usage="cancel NAME... [--yes]",
        summary="stop jobs, but keep their files",
        help="Stop jobs with all their processes; on Kubernetes, the TrainJob is deleted. Logs "
        "and checkpoints are kept. In a terminal, it asks before it stops a running job.",
        handler=actions.cancel,
        words=(1, None),
        takes="job",
        options=(_YES,),
    ),
    Command(
        name="delete",
        usage="delete NAME...|--all [--yes]",
        summary="delete jobs with all their files",
        help="Delete jobs with their logs, results and checkpoints. A name may be a pattern in "
        "quotes, such as 'fit*'. Running jobs are cancelled first; in a terminal, it asks first. "
        "A session's cells are deleted with it, except those marked with `keep`. "
        "For somebody else's job, only the local files are deleted; its TrainJob is kept.",
        handler=actions.delete,
        words=(0, None),
        takes="job",
        options=(
            Option(
                name="all",
                short="a",
                help="All jobs that have ended; asks first in a terminal.",
            ),
            _YES,
        ),
    ),
    Command(
        name="keep",
        usage="keep NAME... [--off]",
        summary="protect jobs from prune",
        help="Protect jobs from `prune`, JAXTRAIN_KEEP_DAYS and JAXTRAIN_KEEP_BYTES, not from "
        "`delete`.",
        handler=history.keep,
        words=(1, None),
        takes="job",
        options=(Option(name="off", help="Stop protecting them."),),
    ),
    Command(
        name="prune",
        usage="prune [--older-than TIME] [--larger-than BYTES] [--dry-run] [--yes]",
        summary="delete old jobs, or the oldest ones to free space",
        help="Delete the files of jobs that ended long ago, or of the oldest until all fit a "
        "size. Jobs that have not ended and those marked with `keep` stay, and nothing changes "
        "in the cluster. Without options, JAXTRAIN_KEEP_DAYS and JAXTRAIN_KEEP_BYTES apply. "
        "In a terminal, it asks first.",
        handler=history.prune,
        options=(
            Option(
                name="older-than",
                metavar="TIME",
                check=amounts.timeout,
                help="Jobs that ended longer ago, such as 30d.",
            ),
            Option(
                name="larger-than",
                metavar="BYTES",
                check=amounts.size,
                help="The oldest jobs, until the rest fit in this size, such as 10G.",
            ),
            Option(name="dry-run", help="Only show what would be deleted."),
            _YES,
        ),
    ),
    Command(
        name="compare",
        usage="compare NAME... [--metric NAME]",
        summary="show metrics and options of several jobs side by side",
        help="Compare jobs: state, steps, time, last value of each metric, and options that "
        "differ. A name may be a pattern in quotes, such as 'fit*'.",
        handler=history.compare,
        words=(1, None),
        takes="job",
        options=(
            Option(
                name="metric",
                short="m",
                metavar="NAME",
                check=checks.word,
                help="Only this metric, with its lowest and highest value.",
            ),
        ),
    ),
    Command(
        name="session",
        usage="session [NAME]",
        summary="list sessions, or show one",
        help="List the sessions that have not ended; with a name, show that session's state, idle "
        "limit, ranks with their memory, and last cells.",
        handler=sessions.session,
        words=(0, 1),
        takes="session",
    ),
    Command(
        name="vars",
        usage="vars SESSION",
        summary="list the variables of a session",
        help="List the variables of a session: type, sharding, bytes per device, the cell that "
        "last bound each, and, where ranks differ, which ranks have it.",
        handler=sessions.variables,
        words=(1, 1),
        takes="session",
    ),
    Command(
        name="restart",
        usage="restart SESSION",
        summary="restart the ranks of a session",
        help="Restart all ranks of a session; its variables are lost. A running cell is cancelled.",
        handler=sessions.restart,
        words=(1, 1),
        takes="session",
    ),
    Command(
        name="save",
        usage="save SESSION",
        summary="save the arrays of a session",
        help="Save the variables of a session that are arrays, or trees of arrays and numbers such "
        "as parameters and optimizer states, into its checkpoint_dir(). Names what it leaves out.",
        handler=sessions.save,
        words=(1, 1),
        takes="session",
    ),
    Command(
        name="restore",
        usage="restore SESSION",
        summary="bring back what a session has saved",
        help="Bring back the arrays last saved by a session, or an earlier one of the same name.",
        handler=sessions.restore,
        words=(1, 1),
        takes="session",
    ),
    Command(
        name="prolong",
        usage="prolong SESSION [TIME]",
        summary="let a session be idle for longer",
        help="Let an idle session stay for this long from now on, such as 2h or `never`; without a "
        "time, for as long as its --idle.",
        handler=sessions.prolong,
        words=(1, 2),
        takes="session",
    ),
    Command(
        name="interrupt",
        usage="interrupt SESSION",
        summary="stop the cell that runs in a session",
        help="Stop the cell that runs in a session. If the ranks don't stop in sync, they are "
        "restarted.",
        handler=sessions.interrupt,
        words=(1, 1),
        takes="session",
    ),
    Command(
        name="suspend",
        usage="suspend NAME",
        summary="stop a job's pods until it is resumed (Kubernetes)",
        help="Suspend a job on Kubernetes: its pods are stopped until it is resumed.",
        handler=actions.suspend,
        words=(1, 1),
        takes="job",
    ),
    Command(
        name="resume",
        usage="resume NAME",
        summary="restart a suspended job (Kubernetes)",
        help="Restart a suspended job on Kubernetes, from the beginning of its cell.",
        handler=actions.resume,
        words=(1, 1),
        takes="job",
    ),
    Command(
        name="runtimes",
        usage="runtimes [show NAME | check [NAME...] | install]",
        summary="list what jobs can run on",
        help="List the runtimes of this machine and, if a kubeconfig names one, of the "
        "cluster, with their versions. `show` prints one with its YAML. `check` checks whether "
        "the cluster's runtimes meet the needs of jobs. `install`, for cluster administrators, "
        "installs ours for all namespaces or, with --namespace, for one, and reports what it "
        "changes.",
        handler=runtimes,
        words=(0, None),
        options=(
            *_PLACE,
            Option(
                name="device",
                short="d",
                metavar=one_of(DEVICES),
                choices=DEVICES,
                check=checks.one_of(*DEVICES),
                repeat=True,
                commas=True,
                help="install: only for these devices.",
            ),
            Option(
                name="slim",
                help="install: use images without flax, pandas and the like, in separate runtimes.",
            ),
            Option(
                name="python",
                metavar="VERSION",
                choices=PYTHONS,
                check=checks.one_of(*PYTHONS),
                help=f"install: only for images with this Python: {', '.join(PYTHONS)}.",
            ),
            Option(
                name="registry",
                metavar="PREFIX",
                check=checks.image,
                help="install: where your images are, such as ghcr.io/team.",
            ),
            Option(
                name="image",
                metavar="IMAGE",
                check=checks.image,
                help="install: this image, for one --device.",
            ),
            Option(
                name="volume",
                metavar="PVC:/PATH",
                check=checks.volume,
                help="install: mount this claim of the --namespace, and keep checkpoints there.",
            ),
            Option(name="force", help="install: overwrite what others have changed."),
            Option(name="dry-run", help="install: only show the YAML and what would change."),
        ),
    ),
    Command(
        name="use",
        usage="use [options] [--all-cells] [--reset]",
        summary="set defaults for this notebook",
        help="Set defaults for the cells of this notebook, in addition to earlier ones; "
        "without options, show them. A cell's options override them. With -s and --all-cells, "
        "cells need no %%jaxtrain.",
        handler=actions.use,
        options=(*(option for option in OPTIONS if option.name != "name"), _ALL_CELLS, _RESET),
    ),
    Command(
        name="doctor",
        usage="doctor",
        summary="check what jobs need, and how to fix problems",
        help="Check whether this machine and, if a kubeconfig names one, the cluster have what "
        "jobs need, and tell how to fix what is wrong.",
        handler=actions.doctor,
        options=_PLACE,
    ),
    Command(
        name="key",
        usage="key export FILE | key import FILE",
        summary="recognize your jobs from your other machines",
        help="Your key, kept in the job store, signs your jobs on Kubernetes. `export` writes "
        "it to a new file, `import` adds it to another machine's job store: when you attach to "
        "your jobs there, they count as yours, and their results are loaded. Never import "
        "somebody else's key: whatever it signed would count as yours. A job store that already "
        "has a key keeps signing with its own.",
        handler=actions.key,
        words=(2, 2),
        takes="key",
    ),
    Command(
        name="convert",
        usage="convert FILE [--runtime NAME] [--all]",
        summary="convert a JAXJob of the training operator into a TrainJob",
        help="Convert the JAXJobs (kubeflow.org/v1) in a YAML file into TrainJobs, each with "
        "its own TrainingRuntime for pods and restarts; - reads standard input. Jobs that have "
        "ended according to their status are left out. Prints YAML for `kubectl apply "
        "--server-side -f -`; reports on standard error what changes, and what has no "
        "counterpart.",
        handler=converting.convert,
        words=(1, 1),
        options=(
            Option(
                name="runtime",
                short="r",
                metavar="NAME",
                check=checks.subdomain(),
                help="Use this ClusterTrainingRuntime instead of creating a runtime for each job.",
            ),
            Option(name="all", help="Also convert jobs that have ended; they would run again."),
        ),
    ),
    Command(
        name="run",
        usage="run FILE [NAME] [options] [-- ARGUMENTS]",
        summary="run a Python file like a cell",
        help="Run a Python file as if it were the cell, with the options of %%jaxtrain. The "
        "job's name may follow the file. Arguments after -- are passed to the file in sys.argv.",
        handler=script.run,
        words=(1, 2),
        takes="file",
        options=OPTIONS,
    ),
)

COMMANDS = {command.name: command for command in _COMMANDS}
