"""The commands of ``%jaxtrain`` and of ``jaxtrain``: the same words, the same code."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_jax_trainer.commands import actions, converting, history, script
from jupyter_jax_trainer.commands.context import Handler
from jupyter_jax_trainer.commands.runtimes import runtimes
from jupyter_jax_trainer.options import amounts, checks
from jupyter_jax_trainer.options.table import (
    BY_FIELD,
    DEVICES,
    OPTIONS,
    PYTHONS,
    Option,
)
from jupyter_jax_trainer.states import State


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command: its words, its options and what it does.

    Attributes
    ----------
    words
        The least and the largest number of words that are not options; None is any number.
    takes
        What those words are, for completion: ``job``, ``file``, ``key`` or nothing.
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
_RESET = Option(name="reset", help="Forget the defaults that were set before.")
_COMMANDS = (
    Command(
        name="jobs",
        usage="jobs [--all] [--state STATE]",
        summary="list the jobs, newest first",
        help="List the jobs, the newest first: those that have not ended, and the last twenty. "
        "With --backend kubernetes, all TrainJobs of the namespace, whoever made them.",
        handler=actions.jobs,
        options=(
            *_PLACE,
            Option(name="all", short="a", help="List all jobs, however old, and their sizes."),
            Option(
                name="state",
                metavar="STATE",
                choices=tuple(State),
                check=checks.one_of(*State, any_case=True),
                help=f"Only those in this state: {', '.join(State)}.",
            ),
        ),
    ),
    Command(
        name="show",
        usage="show [NAME]",
        summary="all about one job",
        handler=actions.show,
        help="Show a job's state and why, its ranks, what was sent, what came back, its events. "
        "With --backend kubernetes, a TrainJob of the namespace, whoever made it.",
        words=(0, 1),
        takes="job",
        options=_PLACE,
    ),
    Command(
        name="logs",
        usage="logs [NAME] [--rank R] [--follow]",
        summary="what the ranks printed",
        help="Print the logs of all ranks in the order in which they were written, or of one; or "
        "of another container of a job on Kubernetes: an initializer, a sidecar. "
        "A notebook shows the last 1000 lines when --tail is left out.",
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
                help="Instead of ranks, this container; `show` lists those that a job has.",
            ),
            Option(name="follow", short="f", help="Go on until the job ends."),
            Option(
                name="tail",
                short="n",
                metavar="N",
                check=amounts.whole(0, 10**9),
                help="Only the last N lines.",
            ),
            Option(name="timestamps", short="t", help="Begin each line with its time."),
            Option(name="raw", help="With the chatter of libraries, which is left out else."),
        ),
    ),
    Command(
        name="attach",
        usage="attach [NAME] [--trust]",
        summary="watch a job to its end",
        help="Watch a job to its end. In a notebook, its results are then loaded into the "
        "variables. Interrupting leaves the job running. A job that this machine does not know is "
        "looked up in the cluster; its results and HTML are withheld unless it is signed with "
        "your key, or you trust its maker.",
        handler=actions.attach,
        words=(0, 1),
        takes="job",
        options=(
            *_PLACE[1:],
            Option(
                name="trust",
                help="Load the results and show the HTML of a job that somebody else "
                "submitted; both can run code with your permissions.",
            ),
        ),
    ),
    Command(
        name="result",
        usage="result NAME [VARIABLE...]",
        summary="bring its variables back",
        help="Bring back the variables that --out named, or some of them: into the notebook, or "
        "printed in a terminal.",
        handler=actions.result,
        words=(1, None),
        takes="job",
    ),
    Command(
        name="cancel",
        usage="cancel NAME... [--yes]",
        summary="stop jobs; their files stay",
        help="Stop jobs with all their processes; on Kubernetes the TrainJob is deleted. Logs and "
        "checkpoints stay. A terminal asks before it stops a job that runs.",
        handler=actions.cancel,
        words=(1, None),
        takes="job",
        options=(_YES,),
    ),
    Command(
        name="delete",
        usage="delete NAME...|--all [--yes]",
        summary="remove jobs with all their files",
        help="Remove jobs with their logs, results and checkpoints. A name may be a pattern in "
        "quotes, as in 'fit*'. A job that runs is cancelled first; a terminal asks before. "
        "Of a job that somebody else submitted only what is here goes; its TrainJob stays.",
        handler=actions.delete,
        words=(0, None),
        takes="job",
        options=(
            Option(name="all", short="a", help="All jobs that have ended; a terminal asks before."),
            _YES,
        ),
    ),
    Command(
        name="keep",
        usage="keep NAME... [--off]",
        summary="never prune these jobs",
        help="Keep jobs: neither `prune` nor JAXTRAIN_KEEP_DAYS and JAXTRAIN_KEEP_BYTES delete "
        "them; `delete` does.",
        handler=history.keep,
        words=(1, None),
        takes="job",
        options=(Option(name="off", help="Keep them no longer."),),
    ),
    Command(
        name="prune",
        usage="prune [--older-than TIME] [--larger-than BYTES] [--dry-run] [--yes]",
        summary="delete old jobs, or as many as take too much space",
        help="Delete the files of jobs that ended long ago, or of the oldest until all jobs "
        "together are within a size. Jobs that have not ended and those under `keep` stay; the "
        "cluster is left alone. Without bounds those of JAXTRAIN_KEEP_DAYS and "
        "JAXTRAIN_KEEP_BYTES hold. A terminal asks before.",
        handler=history.prune,
        options=(
            Option(
                name="older-than",
                metavar="TIME",
                check=amounts.timeout,
                help="Jobs that ended longer ago than this, as in 30d.",
            ),
            Option(
                name="larger-than",
                metavar="BYTES",
                check=amounts.size,
                help="The oldest, until all jobs together take no more than this, as in 10G.",
            ),
            Option(name="dry-run", help="Only show what would be deleted."),
            _YES,
        ),
    ),
    Command(
        name="compare",
        usage="compare NAME... [--metric NAME]",
        summary="metrics and options of several jobs beside each other",
        help="Compare jobs: state, steps, time, the last value of each metric, and the options in "
        "which they differ; with --metric the lowest and the highest value of one, too. A name may "
        "be a pattern in quotes, as in 'fit*'.",
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
        name="suspend",
        usage="suspend NAME",
        summary="release its nodes (Kubernetes)",
        help="Suspend a job on Kubernetes: its pods end, the job waits.",
        handler=actions.suspend,
        words=(1, 1),
        takes="job",
    ),
    Command(
        name="resume",
        usage="resume NAME",
        summary="let it go on (Kubernetes)",
        help="Let a suspended job on Kubernetes start again.",
        handler=actions.resume,
        words=(1, 1),
        takes="job",
    ),
    Command(
        name="runtimes",
        usage="runtimes [show NAME | check [NAME...] | install]",
        summary="what jobs can run on",
        help="List what jobs can run on, with the versions there: this machine, and the cluster of "
        "the kubeconfig where there is one. `show` gives one with its YAML, `check` looks at those "
        "of the cluster for what jobs need of them, and `install` puts ours there, for those who "
        "run it: for all namespaces, or with --namespace for one. What it changes is said.",
        handler=runtimes,
        words=(0, None),
        options=(
            *_PLACE,
            Option(
                name="device",
                short="d",
                metavar="{cpu,gpu,tpu}",
                choices=DEVICES,
                check=checks.one_of(*DEVICES),
                repeat=True,
                commas=True,
                help="install: only for these devices.",
            ),
            Option(
                name="python",
                metavar="VERSION",
                choices=PYTHONS,
                check=checks.one_of(*PYTHONS),
                help=f"install: for images with this Python: {', '.join(PYTHONS)}.",
            ),
            Option(
                name="registry",
                metavar="PREFIX",
                check=checks.image,
                help="install: where your images are, as in ghcr.io/team.",
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
                help="install: with this claim of the --namespace, where checkpoints go then.",
            ),
            Option(name="force", help="install: set back what others have changed."),
            Option(name="dry-run", help="install: only show the YAML, and what would change."),
        ),
    ),
    Command(
        name="use",
        usage="use [options] [--reset]",
        summary="set defaults for this notebook",
        help="Set defaults for the cells of this notebook, on top of those set before; without "
        "options it shows them. What a cell's own line says comes first.",
        handler=actions.use,
        options=(*(option for option in OPTIONS if option.name != "name"), _RESET),
    ),
    Command(
        name="doctor",
        usage="doctor",
        summary="check what jobs need, and say what to do",
        help="Check this machine for what jobs need, and the cluster of the kubeconfig where there "
        "is one; say what to do where something is wrong.",
        handler=actions.doctor,
        options=_PLACE,
    ),
    Command(
        name="key",
        usage="key export FILE | key import FILE",
        summary="know your jobs from your other machines",
        help="Jobs on Kubernetes are signed with a key of yours, which lies in the job store. "
        "`export` writes it to a new file, `import` takes it into the job store of another "
        "machine: attached there, your jobs are your own, and their results are loaded. Never "
        "import somebody else's key: whatever it signed would count as yours. A job store that has "
        "a key goes on to sign with that one.",
        handler=actions.key,
        words=(2, 2),
        takes="key",
    ),
    Command(
        name="convert",
        usage="convert FILE [--runtime NAME] [--all]",
        summary="turn a JAXJob of the training operator into a TrainJob",
        help="Turn the JAXJobs (kubeflow.org/v1) in a YAML file into TrainJobs, each with a "
        "TrainingRuntime of its own for its pods and restarts; - reads what is piped in. Those "
        "that have ended, by their status, are left out. The YAML "
        "is printed, for `kubectl apply --server-side -f -`; what changes, and what has no "
        "counterpart, is said beside it.",
        handler=converting.convert,
        words=(1, 1),
        options=(
            Option(
                name="runtime",
                short="r",
                metavar="NAME",
                check=checks.subdomain(),
                help="Build on this ClusterTrainingRuntime instead of one of the job's own.",
            ),
            Option(name="all", help="Those that have ended, too: they would run again."),
        ),
    ),
    Command(
        name="run",
        usage="run FILE [NAME] [options] [-- ARGUMENTS]",
        summary="run a Python file like a cell",
        help="Run a Python file as if it were the cell, with the options of %%jaxtrain; the name "
        "of the job may follow the file's. What follows -- is for the file: its sys.argv.",
        handler=script.run,
        words=(1, 2),
        takes="file",
        options=OPTIONS,
    ),
)

COMMANDS = {command.name: command for command in _COMMANDS}
