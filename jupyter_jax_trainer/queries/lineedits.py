"""Change one option in the ``%%jaxtrain`` line of a cell, and leave all else as it is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.options.spec import JobSpec, spec_from_options
from jupyter_jax_trainer.options.table import Option, split
from jupyter_jax_trainer.queries.linewords import MAGIC, Part, locate, parts


def changed(source: str, option: Option, value: JsonValue, values: Mapping[str, JsonValue]) -> str:
    """Return the text of a cell with one option changed.

    Parameters
    ----------
    source
        The text. A line is put before it where it has none.
    option, value
        The new value; None takes the option away, and so does an empty list.
    values
        What the line says now, as JSON.

    Returns
    -------
    str
        The text as it is, where the line says so already, or where a quote of it has no end.

    Raises
    ------
    UsageError
        The option can't have this value, or can't be changed as things are.
    """
    wanted: JsonValue = None
    if value is not None:
        wanted = spec_from_options(**{option.field: value}).json_values()[option.field]
    remove = wanted in (None, [], {})
    place = locate(source)
    if place is None:
        if remove:
            return source
        source, place = f"{MAGIC}\n{source}", (len(MAGIC), len(MAGIC))
    start, end = place
    line = source[start:end]
    try:
        found = parts(line)
    except UsageError:
        return source
    own = _own(found, option, remove)
    fine = not any(part.error for part in own)
    if not remove and fine and values.get(option.field) == wanted:
        return source
    texts = [] if remove else _texts(option, value, wanted, own, line)
    edited = _edited(line, found, own, option, texts)
    others = [_Word(line[p.start : p.end], p.option) for p in found if p not in own]
    if not _has(edited.rstrip(), others, len(others) + len(texts)):
        raise UsageError(say.CANNOT_CHANGE(option=option.flag))
    return source[:start] + edited + source[end:]


class _Word(NamedTuple):
    text: str
    option: str | None


def _has(line: str, others: list[_Word], count: int) -> bool:
    """Return whether a line has these words in their order, and how many in all.

    Without `--name x` the next word may be the value that an option before it lacks; and the end of
    a line is no place for a blank that belongs to a word.
    """
    try:
        words = [_Word(line[part.start : part.end], part.option) for part in parts(line)]
    except UsageError:
        return False
    rest = iter(words)
    return len(words) == count and all(
        any(word.text == other.text and other.option in (word.option, None) for word in rest)
        for other in others
    )


def _own(found: list[Part], option: Option, remove: bool) -> list[Part]:
    """Return the parts that are certainly the option's.

    Of several names that stand alone only the user knows which is too many. The first one can be
    changed; if it were taken away, the next would be the name.
    """
    own = [part for part in found if part.option == option.field]
    bare = [part for part in own if part.is_bare]
    taken_away = remove or len(own) > len(bare)  # with --name that one is changed
    doubtful = bare if taken_away and len(bare) > 1 else bare[1:]
    return [part for part in own if part not in doubtful]


def _edited(line: str, found: list[Part], own: list[Part], option: Option, texts: list[str]) -> str:
    """Put texts in the place of an option's parts; a name else comes first, and the others last."""
    text = " ".join(texts)
    if text and not own:
        before = [] if option.field == "name" else list(takewhile(_is_no_end, found))
        at = before[-1].end if before else 0
        return f"{line[:at]} {text}{line[at:]}"
    for index in reversed(range(len(found))):
        part = found[index]
        if text and part is own[0]:
            line = line[: part.start] + text + line[part.end :]
        elif part in own:
            # With the blanks before it. rstrip() would take those that belong to a word: "A=\\ ".
            line = line[: found[index - 1].end if index else 0] + line[part.end :]
    return line if line[:1] in ("", " ") else f" {line}"  # IPython takes no tab there


def _is_no_end(part: Part) -> bool:
    return part.option is not None or part.value != "--"


def _texts(option: Option, value: Any, wanted: Any, own: list[Part], line: str) -> list[str]:
    """Write an option's words, in the manner in which the line has them."""
    if option.metavar is None:
        return [option.flag if wanted else option.opposite]
    items = _items(option, value, wanted)
    if items == [option.alone]:
        return [option.flag]
    model = own[0] if own else None
    if option.field == "name" and (model is None or model.is_bare):
        return items  # a name needs no quotes
    if model and model.head:
        return [model.head + shlex.quote(item) for item in items]
    flag = f"-{option.short}" if option.short else option.flag
    if model and len(model.words) == 2:
        flag = line[slice(*model.words[0])]
    # A value that looks like an option has to be tied to its own.
    return [
        (f"{option.flag}=" if item.startswith("-") else f"{flag} ") + shlex.quote(item)
        for item in items
    ]


def _items(option: Option, value: Any, wanted: Any) -> list[str]:
    """Return the value as the line has it: several where the option is repeated for them."""
    if isinstance(value, str) and not option.repeat:
        items = [value]  # as it is typed: 90m, and not 1h30m
    elif option.field == "env":
        items = [f"{name}={setting}" for name, setting in wanted.items()]
    elif option.field in ("timeout", "hang_timeout"):
        items = split(JobSpec(timeout=wanted).to_line())[1:]
    elif option.commas:
        items = [",".join(wanted)]
    else:
        items = [str(item) for item in wanted] if option.repeat else [str(wanted)]
    if any(len(f"{item}.".splitlines()) > 1 for item in items):
        raise UsageError(say.LINE_BREAK_IN_VALUE(option=option.flag))
    return items
