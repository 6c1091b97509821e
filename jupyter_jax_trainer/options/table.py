"""The options of a job: one table, from which parser, checks, help and docs come."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.devices import ACCELERATORS, DEVICES
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import options as say
from jupyter_jax_trainer.options import amounts, checks
from jupyter_jax_trainer.text import joined
from jupyter_jax_trainer.worker.profiling import WHOLE

if TYPE_CHECKING:
    import argparse

MAX_NODES = 4096
PYTHONS = ("3.11", "3.12", "3.13")  # for which images/ are made


Item: TypeAlias = bool | int | float | str | tuple[str, str]
"""What the check of an option gives; the pair is a variable of the environment and its value."""

Value: TypeAlias = Item | tuple[Item, ...]
"""What an option has: one item, or where it may be repeated any number of them."""


class Given(dict[str, Value]):
    """The options that somebody gave, checked, by their names as Python keywords."""

    def flag(self, name: str) -> bool:
        """Return whether a switch is on."""
        return bool(self.get(name))

    def text(self, name: str) -> str | None:
        """Return a text; None where it is not given."""
        value = self.get(name)
        assert value is None or isinstance(value, str)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of an option that may be repeated."""
        value = self.get(name, ())
        assert isinstance(value, tuple)
        return tuple(map(str, value))

    def whole(self, name: str) -> int | None:
        """Return a whole number; None where it is not given."""
        value = self.get(name)
        assert value is None or isinstance(value, int)
        return value

    def number(self, name: str) -> float | None:
        """Return a number; None where it is not given."""
        value = self.get(name)
        assert value is None or isinstance(value, int | float)
        return value


class HelpRequested(UsageError):  # noqa: N818
    """``--help`` was among the words: who has them shows the help."""


class Kind(StrEnum):
    """How a form asks for an option."""

    SWITCH = "switch"
    CHOICE = "choice"
    NUMBER = "number"
    DURATION = "duration"
    NAMES = "names"
    LINES = "lines"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of the magic or of a command.

    Attributes
    ----------
    name
        The long name without its hyphens; `field` is the same as a Python keyword.
    metavar
        What stands for the value in the help; None for a switch.
    repeat
        May be given several times. The values add up.
    commas
        Several values may be given at once, with commas between them.
    cluster
        What it sets, for an option that only means something on a cluster.
    alone
        What it has without a value, if it may be without one: then only a word with an ``=`` is
        its value.
    input
        How a form asks for a single value; switches, choices and repeated options follow from the
        rest.
    """

    name: str
    help: str
    group: str = ""
    short: str | None = None
    metavar: str | None = None
    check: checks.Check[Item] = checks.flag
    repeat: bool = False
    commas: bool = False
    choices: tuple[str, ...] = ()
    cluster: str | None = None
    alone: str | None = None
    input: Kind = Kind.TEXT

    @property
    def field(self) -> str:
        """The option as a Python keyword."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name}"

    @property
    def opposite(self) -> str:
        """What turns a switch off, which a default may have turned on."""
        negated = self.name.removeprefix("no-")
        return f"--no-{self.name}" if negated == self.name else f"--{negated}"

    @property
    def kind(self) -> Kind:
        """How a form asks for it."""
        if self.metavar is None:
            return Kind.SWITCH
        if self.choices:
            return Kind.CHOICE
        if self.repeat:
            return Kind.NAMES if self.commas else Kind.LINES
        return self.input

    @property
    def usage(self) -> str:
        """The option as the help shows it, with its value."""
        head = f"-{self.short}, {self.flag}" if self.short else self.flag
        return f"{head} {self.metavar}" if self.metavar else head

    def read(self, value: Any) -> Value:
        """Check a value, from a line or from Python, and give it as a `JobSpec` keeps it."""
        if not self.repeat:
            return self.check(self.flag, value)
        items = checks.listed(self.flag, value, commas=self.commas)
        if len(items) > checks.MAX_ITEMS:
            raise UsageError(
                say.TOO_MANY(option=self.flag, most=checks.MAX_ITEMS, count=len(items))
            )
        return tuple(dict.fromkeys(self.check(self.flag, item) for item in items))


def one_of(choices: Iterable[str]) -> str:
    """Return the metavar of an option that takes one of these."""
    return f"{{{','.join(choices)}}}"


_JOB, _VARIABLES, _RUN = "The job", "Variables", "While it runs"
_KUBERNETES = "Kubernetes"
_BACKENDS = ("auto", *registry.BACKENDS)
_ACCELERATOR = joined(ACCELERATORS, last="or")

OPTIONS: tuple[Option, ...] = (
    Option(
        name="name",
        metavar="NAME",
        group=_JOB,
        check=checks.job_name,
        help="The job's name, like the NAME at the beginning. Generated if omitted.",
    ),
    Option(
        name="nodes",
        short="n",
        metavar="N",
        group=_JOB,
        check=amounts.whole(1, MAX_NODES),
        input=Kind.NUMBER,
        help="Number of processes (nodes of the TrainJob). Default: 1.",
    ),
    Option(
        name="device",
        short="d",
        metavar=one_of(DEVICES),
        group=_JOB,
        choices=DEVICES,
        check=checks.one_of(*DEVICES),
        help="Device type. Default: GPUs if there are enough, else the CPU.",
    ),
    Option(
        name="devices-per-node",
        metavar="K",
        group=_JOB,
        check=amounts.whole(1, 1024),
        input=Kind.NUMBER,
        help="Devices per process. CPU devices are virtual.",
    ),
    Option(
        name="runtime",
        short="r",
        metavar="NAME",
        group=_JOB,
        check=checks.subdomain(),
        help="Runtime; `runtimes` lists them.",
    ),
    Option(
        name="backend",
        metavar=one_of(_BACKENDS),
        group=_JOB,
        choices=_BACKENDS,
        check=checks.one_of(*_BACKENDS),
        help="Where the job runs. auto: on this machine, unless the runtime is a cluster's.",
    ),
    Option(
        name="cpu",
        metavar="CORES",
        group=_JOB,
        check=amounts.cpu,
        help="Cores per node, such as 4 or 500m. On this machine, the queue counts them.",
    ),
    Option(
        name="env",
        metavar="NAME=VALUE",
        group=_JOB,
        check=checks.environment,
        repeat=True,
        help="Environment variable of the job. Repeatable.",
    ),
    Option(
        name="out",
        short="o",
        metavar="NAME[,NAME]",
        group=_VARIABLES,
        check=checks.identifier,
        repeat=True,
        commas=True,
        help="Variables to bring back into the notebook. Repeatable.",
    ),
    Option(
        name="use",
        metavar="NAME[,NAME]",
        group=_VARIABLES,
        check=checks.identifier,
        repeat=True,
        commas=True,
        help="Also send these variables; those that the cell reads are sent anyway.",
    ),
    Option(
        name="files",
        metavar="PATTERN[,PATTERN]",
        group=_VARIABLES,
        check=checks.files,
        repeat=True,
        commas=True,
        help="Files and folders from the notebook's folder, such as `configs`, `data/*.csv` or "
        "`**/*.txt`, for the job's working directory. Repeatable.",
    ),
    Option(
        name="allow-large",
        group=_VARIABLES,
        help="Don't warn when more than 10 MB are sent, and lift the limits of --files.",
    ),
    Option(
        name="timeout",
        metavar="TIME",
        group=_RUN,
        check=amounts.timeout,
        input=Kind.DURATION,
        help="Stop the job after this time: 90s, 1h30m, 2d, or a number of seconds.",
    ),
    Option(
        name="hang-timeout",
        metavar="TIME",
        group=_RUN,
        check=amounts.timeout,
        input=Kind.DURATION,
        help="Stop the job if no rank reports, prints, compiles or moves to another line for this "
        "long. Without it, the card only warns, after 2 minutes.",
    ),
    Option(
        name="max-restarts",
        metavar="K",
        group=_RUN,
        check=amounts.whole(0, 1000),
        input=Kind.NUMBER,
        help="Restart all processes, up to K times, when one was killed or its node was lost; "
        "never after an error in the cell. Default: 0.",
    ),
    Option(
        name="stop-on-nan",
        group=_RUN,
        help="Fail at the first metric that is reported as NaN or infinite.",
    ),
    Option(
        name="profile",
        metavar="[steps=A:B]",
        group=_RUN,
        check=checks.profile,
        alone=WHOLE,
        help="Profile all ranks: the whole cell, up to a minute, or steps A to B-1, as report() "
        "counts them. `profile NAME` shows what took the time.",
    ),
    Option(
        name="no-compile-cache",
        group=_RUN,
        help="Recompile everything, and cache none of it for later jobs.",
    ),
    Option(name="detach", group=_RUN, help="Start the job and return at once."),
    Option(
        name="session",
        short="s",
        metavar="NAME",
        group=_RUN,
        check=checks.job_name,
        help="Run the cell in this session, on ranks that stay and keep their variables. The first "
        "cell starts it; `cancel NAME` ends it.",
    ),
    Option(
        name="idle",
        metavar="TIME",
        group=_RUN,
        check=amounts.idle,
        input=Kind.DURATION,
        help="End the session when no cell has run for this time, or `never`. Default: 30m.",
    ),
    Option(
        name="rank",
        metavar="RANKS",
        group=_RUN,
        check=amounts.ranks,
        help="Run the cell of a session only on these ranks, such as 2, 0,3 or 0-3; all shows the "
        "output of each.",
    ),
    Option(
        name="dry-run",
        group=_RUN,
        help="Start nothing; show what would be sent and, on Kubernetes, the TrainJob as YAML.",
    ),
    Option(
        name="show-secrets",
        group=_RUN,
        cluster="the values in the YAML of --dry-run",
        help="With --dry-run: print YAML that kubectl can apply, with the cell, its key and all "
        "values that are otherwise masked. Pipe it; don't save it in a notebook.",
    ),
    Option(
        name="context",
        metavar="NAME",
        group=_KUBERNETES,
        check=checks.word,
        cluster="the cluster",
        help="Context of the kubeconfig.",
    ),
    Option(
        name="namespace",
        metavar="NAME",
        group=_KUBERNETES,
        check=checks.label,
        cluster="the TrainJob's namespace",
        help="Namespace of the TrainJob.",
    ),
    Option(
        name="memory",
        metavar="BYTES",
        group=_KUBERNETES,
        check=amounts.memory,
        cluster="memory per node",
        help="Memory per node, such as 16Gi.",
    ),
    Option(
        name="accelerator",
        metavar="TYPE",
        group=_KUBERNETES,
        check=checks.accelerator,
        cluster=f"the type of {_ACCELERATOR}",
        help=f"Type of {_ACCELERATOR}: h100, v5e, the value of the nodes' label, or LABEL=VALUE.",
    ),
    Option(
        name="topology",
        metavar="AxB[xC]",
        group=_KUBERNETES,
        check=checks.topology,
        cluster="the shape of the TPU slice",
        help="Shape of the TPU slice, such as 4x4; it determines the number of nodes.",
    ),
    Option(
        name="image",
        metavar="IMAGE",
        group=_KUBERNETES,
        check=checks.image,
        cluster="the container image",
        help="Container image; any image with Python and JAX works.",
    ),
    Option(
        name="package",
        metavar="REQUIREMENT",
        group=_KUBERNETES,
        check=checks.package,
        repeat=True,
        cluster="packages to install in the containers",
        help="Package for the job: a pip requirement or the path of a wheel. Wheels come from "
        "this machine's index and are bundled with the job. Repeatable.",
    ),
    Option(
        name="package-from-pods",
        group=_KUBERNETES,
        cluster="where packages may come from",
        help="Let pip in the pods install packages that can't be bundled, from the index there.",
    ),
    Option(
        name="no-packages",
        group=_KUBERNETES,
        cluster="which packages are sent",
        help="Don't send the packages that the job imports and its image lacks.",
    ),
    Option(
        name="env-from-secret",
        metavar="SECRET",
        group=_KUBERNETES,
        check=checks.subdomain(),
        repeat=True,
        cluster="environment variables from a Secret",
        help="Keys of a Secret as environment variables. Repeatable.",
    ),
    Option(
        name="volume",
        metavar="PVC:/PATH",
        group=_KUBERNETES,
        check=checks.volume,
        repeat=True,
        cluster="a volume to mount",
        help="Mount a PersistentVolumeClaim. Repeatable; checkpoint_dir() is on the first one.",
    ),
    Option(
        name="store",
        metavar="URL",
        group=_KUBERNETES,
        check=checks.store,
        cluster="where large data goes on its way",
        help="Where to put data too large for a Secret: a URL, or a path on all nodes.",
    ),
    Option(
        name="service-account",
        metavar="NAME",
        group=_KUBERNETES,
        check=checks.subdomain(),
        cluster="the pods' service account",
        help="Service account of the pods.",
    ),
    Option(
        name="queue",
        metavar="NAME",
        group=_KUBERNETES,
        check=checks.subdomain(63),
        cluster="the Kueue queue",
        help="Kueue LocalQueue of the job.",
    ),
    Option(
        name="priority",
        metavar="CLASS",
        group=_KUBERNETES,
        check=checks.subdomain(63),
        cluster="the priority class",
        help="Kueue priority class of the job; needs --queue.",
    ),
    Option(
        name="dataset",
        metavar="URI",
        group=_KUBERNETES,
        check=checks.initializer,
        cluster="Trainer's dataset initializer",
        help="Dataset to fetch before the job starts: hf:// or s3://.",
    ),
    Option(
        name="model",
        metavar="URI",
        group=_KUBERNETES,
        check=checks.initializer,
        cluster="Trainer's model initializer",
        help="Model to fetch before the job starts: hf:// or s3://.",
    ),
)

BY_FIELD = {option.field: option for option in OPTIONS}
CLUSTER_ONLY = {o.name: o.cluster for o in OPTIONS if o.cluster is not None}


def split(line: str) -> list[str]:
    """Take a line apart into words; quotes are honoured.

    A ``#`` that is a word of its own begins a comment; elsewhere it is a character like others.
    """
    import contextlib
    import re
    import shlex

    for comment in re.finditer(r"(?<!\S)(?<!\\\s)#(?!\S)", line):
        with contextlib.suppress(ValueError):  # within quotes: these have no end before it
            return shlex.split(line[: comment.start()], comments=False)
    try:
        return shlex.split(line, comments=False)
    except ValueError as error:
        raise UsageError(say.UNREADABLE_LINE(line=checks.shown(line), error=error)) from None


@functools.cache
def _parser(options: tuple[Option, ...]) -> argparse.ArgumentParser:
    """Return a parser of options: made once, for it is full of cycles that wait to be collected.

    Words that belong to no option are not sorted out by argparse, whose rules for optional
    positionals between options differ from one Python to the next.
    """
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageError(f"{message[:1].upper()}{message[1:]}.")

    parser = Parser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-h", "--help", action="store_true", default=None)
    for option in options:
        flags = ([f"-{option.short}"] if option.short else []) + [option.flag]
        action = "append" if option.repeat else "store"
        if option.metavar is None:
            action = "store_true"
            parser.add_argument(
                option.opposite, dest=option.field, action="store_false", default=None
            )
        parser.add_argument(*flags, dest=option.field, action=action, default=None)
    return parser


def read_words(words: Sequence[str], options: Iterable[Option]) -> tuple[Given, list[str]]:
    """Parse words into the values of the options that were given, checked, and the other words.

    Raises
    ------
    HelpRequested
        ``-h`` or ``--help`` is among them.
    UsageError
        An option is unknown or lacks its value, or a value is wrong.
    """
    import argparse

    options = tuple(options)
    try:
        found, rest = _parser(options).parse_known_args(_with_values(words, options))
    except argparse.ArgumentError as error:
        name = (error.argument_name or "").split("/")[-1]
        if "expected one argument" in error.message:
            raise UsageError(say.NEEDS_VALUE(option=name)) from None
        raise UsageError(say.REFUSED(option=name, error=error.message)) from None
    given = {name: value for name, value in vars(found).items() if value is not None}
    if given.pop("help", False):
        raise HelpRequested(say.HELP_REQUESTED())
    values = Given((o.field, o.read(given[o.field])) for o in options if o.field in given)
    return values, _positionals(rest, options)


def _with_values(words: Sequence[str], options: Iterable[Option]) -> list[str]:
    """Give its usual value to each option that is without one, and may be."""
    alone = {option.flag: option.alone for option in options if option.alone is not None}
    ends = words.index("--") if "--" in words else len(words)
    return [
        f"{word}={alone[word]}"
        if word in alone and number < ends and "=" not in "".join(words[number + 1 : number + 2])
        else word
        for number, word in enumerate(words)
    ]


def _positionals(words: list[str], options: Sequence[Option]) -> list[str]:
    if "--" in words:
        end = words.index("--")
        return _positionals(words[:end], options) + words[end + 1 :]
    for word in words:
        if word.startswith("-") and word != "-":
            raise unknown_option(word.split("=")[0], [option.flag for option in options])
    return words


def unknown_option(flag: str, known: Iterable[str]) -> UsageError:
    """Return the error for an option that there is not, with the nearest one that there is."""
    close = checks.nearest(flag, [*known, "--help"])
    return UsageError(say.UNKNOWN(option=flag), say.DID_YOU_MEAN(name=close) if close else None)
