"""What a user asks for: the options of a job, from a magic's line, a command line or Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NotRequired, TypedDict, cast

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.devices import KINDS, Device
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import options as say
from jupyter_jax_trainer.options.amounts import NEVER
from jupyter_jax_trainer.options.checks import nearest, shown
from jupyter_jax_trainer.options.table import (
    BY_FIELD,
    CLUSTER_ONLY,
    OPTIONS,
    Given,
    HelpRequested,
    Kind,
    Option,
    Value,
    read_words,
    split,
)
from jupyter_jax_trainer.text import joined

__all__ = [
    "CLUSTER_ONLY",
    "HelpRequested",
    "JobSpec",
    "checked",
    "make_spec",
    "parse_cell_line",
    "parse_words",
    "refuse_for_local",
    "spec_from_options",
    "with_name",
]


class SpecRecord(TypedDict):
    """A `JobSpec` as JSON; other versions have other fields."""

    nodes: int
    name: NotRequired[str | None]
    device: NotRequired[Device | None]
    devices_per_node: NotRequired[int | None]
    accelerator: NotRequired[str | None]
    topology: NotRequired[str | None]
    runtime: NotRequired[str | None]
    out: NotRequired[list[str]]
    use: NotRequired[list[str]]
    files: NotRequired[list[str]]
    allow_large: NotRequired[bool]
    backend: NotRequired[str]
    context: NotRequired[str | None]
    namespace: NotRequired[str | None]
    cpu: NotRequired[str | None]
    memory: NotRequired[str | None]
    image: NotRequired[str | None]
    env: NotRequired[dict[str, str]]
    env_from_secret: NotRequired[list[str]]
    package: NotRequired[list[str]]
    package_from_pods: NotRequired[bool]
    no_packages: NotRequired[bool]
    volume: NotRequired[list[str]]
    store: NotRequired[str | None]
    service_account: NotRequired[str | None]
    queue: NotRequired[str | None]
    priority: NotRequired[str | None]
    timeout: NotRequired[float | None]
    hang_timeout: NotRequired[float | None]
    max_restarts: NotRequired[int | None]
    dataset: NotRequired[str | None]
    model: NotRequired[str | None]
    stop_on_nan: NotRequired[bool]
    profile: NotRequired[str | None]
    no_compile_cache: NotRequired[bool]
    detach: NotRequired[bool]
    session: NotRequired[str | None]
    idle: NotRequired[float | None]
    rank: NotRequired[str | None]
    dry_run: NotRequired[bool]
    show_secrets: NotRequired[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The options of one job, checked.

    Create one with `parse_cell_line` or `spec_from_options`: these check, the class does not.
    `explicit` names the fields that were given, as opposed to defaults; comparisons ignore it.
    """

    name: str | None = None
    nodes: int = 1
    device: Device | None = None
    devices_per_node: int | None = None
    accelerator: str | None = None
    topology: str | None = None
    runtime: str | None = None
    out: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    allow_large: bool = False
    backend: str = "auto"
    context: str | None = None
    namespace: str | None = None
    cpu: str | None = None
    memory: str | None = None
    image: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    env_from_secret: tuple[str, ...] = ()
    package: tuple[str, ...] = ()
    package_from_pods: bool = False
    no_packages: bool = False
    volume: tuple[str, ...] = ()
    store: str | None = None
    service_account: str | None = None
    queue: str | None = None
    priority: str | None = None
    timeout: float | None = None
    hang_timeout: float | None = None
    max_restarts: int | None = None
    dataset: str | None = None
    model: str | None = None
    stop_on_nan: bool = False
    profile: str | None = None
    no_compile_cache: bool = False
    detach: bool = False
    session: str | None = None
    idle: float | None = None
    rank: str | None = None
    dry_run: bool = False
    show_secrets: bool = False
    explicit: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def __repr__(self) -> str:
        """Show the options without what may be secret: a notebook keeps the output of a cell."""
        shown = masked(self)
        values = (f"{one.name}={getattr(shown, one.name)!r}" for one in fields(self) if one.repr)
        return f"{type(self).__name__}({', '.join(values)})"

    def given(self) -> Given:
        """Return the options that are not at their defaults, in the order of the help."""
        return Given(
            (name, value)
            for name in BY_FIELD
            if (value := getattr(self, name)) != getattr(_DEFAULT, name)
        )

    def json_values(self) -> dict[str, JsonValue]:
        """Return all options by their fields as JSON's types, defaults filled in."""
        data: dict[str, JsonValue] = {}
        for name in BY_FIELD:
            value = getattr(self, name)
            data[name] = list(value) if isinstance(value, tuple) else value
        environment: dict[str, JsonValue] = dict(self.env)
        return {**data, "env": environment}

    def to_json(self) -> SpecRecord:
        """Return all options as JSON, defaults filled in."""
        return cast(SpecRecord, self.json_values())

    @classmethod
    def from_json(cls, data: SpecRecord) -> JobSpec:
        """Read what `to_json` gave, from this version or another: unknown fields are left out.

        Raises
        ------
        UsageError
            A field has a value of the wrong type.
        """
        values: dict[str, Any] = {}
        for name, value in data.items():
            if name not in BY_FIELD or value is None:
                continue
            if not _right_type(name, value):
                raise UsageError(say.NOT_A_FIELD(name=name, value=shown(value)))
            if isinstance(value, dict):
                value = tuple(value.items())
            values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values, explicit=frozenset(values))

    def to_line(self) -> str:
        """Return the shortest line of options that means the same."""
        import shlex

        given = self.given()
        words = [str(given.pop("name"))] if "name" in given else []
        for name, value in given.items():
            words += _words(BY_FIELD[name], value)
        return shlex.join(words)


_DEFAULT = JobSpec()
TIMES = tuple(option.field for option in OPTIONS if option.input is Kind.DURATION)  # seconds


def parse_cell_line(line: str, defaults: JobSpec | Mapping[str, Value] | None = None) -> JobSpec:
    """Read the line of ``%%jaxtrain``.

    Parameters
    ----------
    line
        What stands after ``%%jaxtrain``.
    defaults
        Options that hold where the line doesn't say otherwise (``%jaxtrain use``). What may be
        repeated adds up: the line's ``--out b`` comes on top of the default's ``--out a``.

    Raises
    ------
    HelpRequested
        The line has ``--help``.
    UsageError
        An option or a value is wrong, said in a sentence.
    """
    return parse_words(split(line), defaults)


def parse_words(
    words: Sequence[str], defaults: JobSpec | Mapping[str, Value] | None = None
) -> JobSpec:
    """Read the words of a line, as `parse_cell_line` does."""
    values, names = read_words(words, OPTIONS)
    return make_spec(with_name(values, names), defaults)


def with_name(values: Mapping[str, Value], words: Sequence[str]) -> Given:
    """Put the words that belong to no option, one at most, into the values: as the name."""
    if len(words) > 1:
        raise UsageError(say.EXTRA_WORD(word=shown(words[1]), name=shown(words[0])))
    if not words:
        return Given(values)
    name = BY_FIELD["name"].read(words[0])
    if values.get("name", name) != name:
        raise UsageError(say.TWO_NAMES(name=shown(name), other=shown(values["name"])))
    return Given({**values, "name": name})


def spec_from_options(
    defaults: JobSpec | Mapping[str, Value] | None = None, /, **options: Any
) -> JobSpec:
    """Make a spec from keywords, with the same checks as a line. None means not given.

    Examples
    --------
    >>> spec_from_options(nodes=2, out=["loss", "params"], timeout="1h").timeout
    3600.0
    """
    for name in options:
        if name not in BY_FIELD:
            close = nearest(name, BY_FIELD)
            raise UsageError(
                say.UNKNOWN(option=name),
                say.DID_YOU_MEAN(name=close) if close else say.KNOWN(names=", ".join(BY_FIELD)),
            )
    values = {
        name: BY_FIELD[name].read(value) for name, value in options.items() if value is not None
    }
    return make_spec(values, defaults)


def checked(data: Mapping[str, JsonValue]) -> JobSpec:
    """Make a spec of what somebody else says that `to_json` gave, with the checks of a line.

    Unknown fields are left out, as they may be those of another version.

    Raises
    ------
    UsageError
        A value is none that its option takes.
    """
    spec = make_spec(
        {
            name: option.read(data[name])
            for name, option in BY_FIELD.items()
            if data.get(name) is not None
        }
    )
    BY_FIELD["nodes"].read(spec.nodes)  # a topology may ask for any number
    return spec


def make_spec(
    values: Mapping[str, Value], defaults: JobSpec | Mapping[str, Value] | None = None
) -> JobSpec:
    """Put checked values on top of checked defaults, and check what they mean together."""
    given: dict[str, Any] = dict(values)
    if isinstance(defaults, JobSpec):
        defaults = {name: getattr(defaults, name) for name in defaults.explicit}
    merged: dict[str, Any] = dict(defaults or {})
    for name, value in given.items():
        if BY_FIELD[name].repeat:
            value = tuple(dict.fromkeys((*merged.get(name, ()), *value)))
        merged[name] = value
    if "env" in merged:
        merged["env"] = tuple(dict(merged["env"]).items())  # of two values the last one holds
    spec = JobSpec(**merged, explicit=frozenset(merged))
    _check_together(spec)
    if spec.topology is not None:
        from jupyter_jax_trainer.options import topology

        nodes, _ = topology.fit(spec.topology, merged.get("nodes"), spec.devices_per_node)
        spec = replace(spec, nodes=nodes)  # not explicit: of the next line another may be made
    return spec


def refuse_for_local(spec: JobSpec) -> None:
    """Raise `UsageError` where an option has no meaning for a job on this machine."""
    if spec.device and not KINDS[spec.device].local:
        raise UsageError(say.DEVICE_NEEDS_KUBERNETES(device=spec.device))
    refused = [name for name in spec.given() if BY_FIELD[name].cluster]
    if not refused:
        return
    named = [f"{BY_FIELD[name].flag} ({BY_FIELD[name].cluster})" for name in refused]
    if len(named) > 1:
        raise UsageError(say.SEVERAL_ONLY_ON_KUBERNETES(options=joined(named)))
    raise UsageError(say.ONLY_ON_KUBERNETES(option=named[0]))


def _check_together(spec: JobSpec) -> None:
    if spec.device == "cpu":
        for name in ("accelerator", "topology"):
            if getattr(spec, name) is not None:
                raise UsageError(say.NOT_WITH_CPU(option=f"--{name}"))
    elif spec.device not in (None, "tpu") and spec.topology is not None:
        raise UsageError(say.TOPOLOGY_OF_OTHERS(device=spec.device))
    places: dict[str, str] = {}
    for item in spec.volume:
        claim, _, path = item.partition(":")
        if places.setdefault(path, claim) != claim:
            raise UsageError(say.TWO_CLAIMS(path=path, claim=places[path], other=claim))


def _words(option: Option, value: Any) -> Iterable[str]:
    flag = f"-{option.short}" if option.short else option.flag
    if value is True or value == option.alone:
        return [flag]
    if option.field == "env":
        items = [f"{name}={setting}" for name, setting in value]
    elif option.field in TIMES:
        items = [_time(value) if value else NEVER]
    elif option.commas:
        items = [",".join(value)]
    else:
        items = list(value) if option.repeat else [str(value)]
    words: list[str] = []
    for item in items:
        # A value that looks like an option has to be tied to its own.
        words += [f"{option.flag}={item}"] if item.startswith("-") else [flag, item]
    return words


def _time(seconds: float) -> str:
    if seconds != int(seconds) or seconds < 60:
        # Positional notation: the parser takes no exponents.
        from decimal import Decimal

        return f"{int(seconds)}s" if seconds == int(seconds) else f"{Decimal(repr(seconds)):f}"
    rest, text = int(seconds), ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        text += f"{count}{unit}" if count else ""
    return text


def _right_type(name: str, value: Any) -> bool:
    kinds: dict[str, type | tuple[type, ...]] = {"env": dict}
    kinds.update(dict.fromkeys(TIMES, (int, float)))
    default = getattr(_DEFAULT, name)
    if name in ("nodes", "devices_per_node", "max_restarts"):
        kind: type | tuple[type, ...] = int
    else:
        kind = list if default == () else bool if default is False else str
    kind = kinds.get(name, kind)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    parts = value.items() if isinstance(value, dict) else ()
    texts = value if isinstance(value, list) else [text for pair in parts for text in pair]
    return all(isinstance(text, str) for text in texts)


def masked(given: JobSpec) -> JobSpec:
    """Return the options of a job as they may be shown; they are not fit to submit."""
    texts: dict[str, Any] = {
        name: masking.text(value) for name, value in given.given().items() if isinstance(value, str)
    }
    texts["env"] = tuple((name, masking.variable(name, value)) for name, value in given.env)
    texts["package"] = tuple(map(masking.text, given.package))
    return replace(given, **texts)


assert {item.name for item in fields(JobSpec)} == {*BY_FIELD, "explicit"}
