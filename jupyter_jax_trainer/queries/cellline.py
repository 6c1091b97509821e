"""Read and change the ``%%jaxtrain`` line of a cell, for the form that a page shows of it.

The magic's own parser decides what is valid. `write` touches the words of the options that change,
and nothing else of the cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.backends.cells import OF_CELL
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import JaxTrainError, UsageError
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.options import amounts, topology
from jupyter_jax_trainer.options.checks import did_you_mean, shown
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line, with_name
from jupyter_jax_trainer.options.table import BY_FIELD, OPTIONS, Given
from jupyter_jax_trainer.queries.lineedits import changed
from jupyter_jax_trainer.queries.linewords import MAGIC, Part, locate, parts
from jupyter_jax_trainer.queries.protocol import (
    Amounts,
    Line,
    LineError,
    OptionRecord,
    WrittenLine,
)
from jupyter_jax_trainer.text import size

_DEFAULTS = JobSpec().json_values()
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def options() -> list[OptionRecord]:
    """Describe all options of a job, in the order in which a form shows them."""
    return [
        {
            "name": option.field,
            "flag": option.flag,
            "short": option.short,
            "kind": option.kind,
            "metavar": option.metavar,
            "help": option.help,
            "choices": list(option.choices),
            "group": option.group,
            "cluster_only": option.cluster is not None,
            "repeated": option.repeat,
            "of_cell": option.field in OF_CELL,
            "default": _DEFAULTS[option.field],
        }
        for option in OPTIONS
    ]


def read(source: str) -> Line:
    """Read the ``%%jaxtrain`` line of a cell.

    Returns
    -------
    dict
        ``found``: whether there is one; ``line``: what follows ``%%jaxtrain``; ``values``: the
        options that were given, as `JobSpec.to_json` has them; ``errors``: all that is wrong, each
        with ``option``, ``value`` (what was given), ``message`` and ``hint``; ``ask``: what the
        job asks for: ``nodes``, ``device``, ``each`` (devices of a node), and as words ``rest``,
        the amounts of all nodes together; None where anything is wrong.
    """
    place = locate(source)
    if place is None:
        return {"found": False, "line": "", "values": {}, "errors": [], "ask": None}
    line = source[slice(*place)]
    spec, errors = _read(line.lstrip(" \t"))
    if line and not line.startswith(" "):
        # IPython takes a tab, or a blank that is pasted from a web page, for a part of the name.
        errors.append(_told(UsageError(say.SPACE_NEEDED(magic=MAGIC))))
    return {
        "found": True,
        "line": line.strip(),
        "values": _given(spec),
        "errors": errors,
        "ask": None if errors else _ask(spec),
    }


def write(source: str, changes: Mapping[str, JsonValue]) -> WrittenLine:
    """Change options in the ``%%jaxtrain`` line of a cell; put one before it where it has none.

    Parameters
    ----------
    source
        The text of the cell.
    changes
        New values of options by their names, as `read` gives them or as they are typed. None and
        an empty list take an option away.

    Returns
    -------
    dict
        What `read` gives of the new text, and the text itself as ``source``. A change to a value
        that can't be is not made, and is among the ``errors``; nor is any where a quote of the line
        has no end.

    Raises
    ------
    UsageError
        There is no option of that name.
    """
    for name in changes:
        if name not in BY_FIELD:
            hint = did_you_mean(name, BY_FIELD)
            raise UsageError(say.UNKNOWN_OPTION(name=shown(name)), hint)
    refused = []
    found = read(source)
    for option in OPTIONS:
        if option.field in changes:
            try:
                source = changed(source, option, changes[option.field], found["values"])
            except UsageError as error:
                refused.append(_told(error, option.field, changes[option.field]))
    found = read(source)
    errors = refused + found["errors"]
    return {
        "source": source,
        "found": found["found"],
        "line": found["line"],
        "values": found["values"],
        "errors": errors,
        "ask": found["ask"],
    }


# -- reading ---------------------------------------------------------------------------------------


def _read(line: str) -> tuple[JobSpec, list[LineError]]:
    """Return what a line says, and what is wrong with it."""
    try:
        spec = parse_cell_line(line)
        if spec.backend != "auto":
            registry.get(spec.backend).check(spec)
    except UsageError as error:
        return _read_piecewise(line, error)
    return spec, []


def _read_piecewise(line: str, first: UsageError) -> tuple[JobSpec, list[LineError]]:
    """Read what can be read of a line that is refused with the error `first`."""
    try:
        found = parts(line)
    except UsageError as error:
        return JobSpec(), [_told(error)]
    errors = [_told(part.error, part.option) for part in found if part.error]
    values: dict[str, Any] = {}
    for option in OPTIONS:
        own = [p for p in found if p.option == option.field and p.value is not None]
        written: list[JsonValue] = [part.value for part in own]
        try:
            if option.field == "name":
                values |= _name(own)
            elif own:
                values[option.field] = option.read(written if option.repeat else written[-1])
        except UsageError as error:
            given: JsonValue = written if len(written) > 1 else written[0]
            errors.append(_told(error, option.field, given))
    # Where each is right by itself, what is wrong is that they stand together.
    return JobSpec(**values, explicit=frozenset(values)), errors or [_told(first)]


def _name(own: list[Part]) -> Given:
    options = [part.value for part in own if not part.is_bare]
    values = Given(name=BY_FIELD["name"].read(options[-1])) if options else Given()
    return with_name(values, [str(part.value) for part in own if part.is_bare])


def _given(spec: JobSpec) -> dict[str, JsonValue]:
    return {name: value for name, value in spec.json_values().items() if name in spec.explicit}


def _told(error: JaxTrainError, option: str | None = None, value: JsonValue = None) -> LineError:
    return {"option": option, "value": value, "message": error.message, "hint": error.hint}


def _ask(spec: JobSpec) -> Amounts:
    """Return what a job asks for in all, as far as its line says it."""
    asked = registry.all_backends() if spec.backend == "auto" else [registry.get(spec.backend)]
    device = next((kind for one in asked if (kind := one.device_of(spec))), None)
    each = spec.devices_per_node
    if spec.topology:
        _, each = topology.fit(spec.topology, spec.nodes, each)
    rest = []
    if spec.cpu:
        rest.append(f"{_total(spec.nodes, spec.cpu).normalize():f} CPU")
    if spec.memory:
        total = _total(spec.nodes, spec.memory)
        # In units of the kind in which it is given: 16Gi are 16 GiB, 16G are 16 GB.
        rest.append(_binary(total) if spec.memory.endswith("i") else size(float(total)))
    return {"nodes": spec.nodes, "device": device, "each": each, "rest": rest}


def _total(nodes: int, text: str) -> Decimal:
    return nodes * (amounts.quantity(text) or Decimal(0))


def _binary(count: Decimal) -> str:
    power = 0
    while count >= 1024 and power < len(_BINARY) - 1:
        count, power = count / 1024, power + 1
    return f"{float(count):.4g} {_BINARY[power]}"
