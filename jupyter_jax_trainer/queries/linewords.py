"""The line ``%%jaxtrain`` of a cell, taken apart without a change: where each option stands.

What a word means is asked of the parser that the magic has; shlex tells where words end. So there
is no second grammar here that could differ from the first one.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import StringIO
from itertools import islice
from typing import Any, NamedTuple, cast

from jupyter_jax_trainer.errors import JaxTrainError, UsageError
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.options.table import OPTIONS, HelpRequested, read_words, split

MAGIC = "%%jaxtrain"
_LINE = re.compile(rf"\s*{MAGIC}(?=\s|$)")
_AROUND = re.compile(r"\s*%%(?:time|capture)(?=\s|$)")  # magics whose cell is run as a cell again


def _as_it_is(_flag: str, value: Any) -> Any:
    return value


_LISTS = {option.field for option in OPTIONS if option.commas}
# The options without their checks: what is a value, and of which option, whatever it is.
_UNCHECKED = tuple(replace(o, check=_as_it_is, repeat=False, commas=False) for o in OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An option as it stands in a line, or another word.

    Attributes
    ----------
    start, end
        Where it stands in the line, with its value.
    option
        The option's field; ``name`` for a name without ``--name``; None for what is no option,
        ``--`` for instance, and for what may be a name or something else.
    value
        What was given, not checked; None where it is missing.
    words
        Where its words stand: one or two.
    head
        What the word with the value begins with: ``--nodes=``, ``-n``, or nothing.
    error
        Why it can't be read.
    """

    start: int
    end: int
    option: str | None
    value: str | bool | None
    words: tuple[tuple[int, int], ...]
    head: str = ""
    error: JaxTrainError | None = None

    @property
    def is_bare(self) -> bool:
        """Whether it is a name without ``--name``."""
        return self.option == "name" and len(self.words) == 1 and not self.head and not self.error


def locate(source: str) -> tuple[int, int] | None:
    """Find what follows ``%%jaxtrain`` in a cell, up to the last word; None where there is none.

    As IPython does: it has to be the first line that is not blank, and after ``%%time`` or
    ``%%capture`` the first one of the rest.
    """
    at = 0
    for line in source.splitlines(keepends=True):
        if found := _LINE.match(line):
            start = at + found.end()
            return start, start + len(line[found.end() :].rstrip())
        if not line.isspace() and not _AROUND.match(line):
            return None
        at += len(line)
    return None


def parts(line: str) -> list[Part]:
    """Take a line apart into its options and other words, in their order.

    Raises
    ------
    UsageError
        It has no words, since a quote has no end.
    """
    # A comment is not among the words of `split`, and comes after all of them.
    places = list(islice(_places(line), len(split(line))))
    found: list[Part] = []
    doubtful = False
    while places:
        place = places.pop(0)
        start, end, word = place
        if word == "--":
            found += [_single(place, None), *(_single(other, "name") for other in places)]
            break
        meaning = _meaning(word)
        takes = meaning.kind in ("value follows", "option")
        if takes and places and _takes(word, places[0][2]):
            second = places.pop(0)
            part = Part(
                start=start,
                end=second[1],
                option=meaning.option,
                value=second[2],
                words=((start, end), second[:2]),
            )
        elif meaning.kind == "name" and doubtful:
            found.append(_single(place, None))
            continue
        else:
            value = meaning.value
            tied = isinstance(value, str) and word.endswith(value)
            head = word.removesuffix(str(value)) if tied else ""
            part = replace(
                _single(place, meaning.option), value=value, head=head, error=meaning.error
            )
        found.append(part)
        # Words after an unknown option are perhaps its values, those after `--out a,` perhaps of
        # the list, and perhaps one is the job's name.
        doubtful = (meaning.kind == "unknown" and "=" not in word) or (
            isinstance(part.value, str) and part.option in _LISTS and part.value.endswith(",")
        )
    return found


def _single(place: tuple[int, int, str], option: str | None) -> Part:
    start, end, word = place
    return Part(start=start, end=end, option=option, value=word, words=((start, end),))


def _places(line: str) -> Iterator[tuple[int, int, str]]:
    """Yield each word of a line with its place there."""
    text = StringIO(f"{line}\n")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""  # as shlex.split has them
    at = 0
    while (word := lexer.get_token()) is not None:
        end = text.tell() - 1  # it has read the blank after the word, too
        while line[at] in lexer.whitespace:
            at += 1
        yield at, end, word
        at = end


class _Meaning(NamedTuple):
    """What a word is by itself."""

    kind: str  # option, name, value follows, unknown or wrong
    option: str | None = None
    value: str | bool | None = None
    error: JaxTrainError | None = None


@functools.lru_cache(4096)
def _meaning(word: str) -> _Meaning:
    try:
        values, _ = read_words([word], _UNCHECKED)
    except HelpRequested:
        return _Meaning("wrong", error=UsageError(say.HELP_IN_LINE()))
    except UsageError as wrong:
        return _meaning_of_half(word, wrong.with_traceback(None))
    for option, value in values.items():
        return _Meaning("option", option, cast("str | bool", value))  # it is not checked
    return _Meaning("name", "name", word)


def _meaning_of_half(word: str, wrong: UsageError) -> _Meaning:
    try:
        values, _ = read_words([word, "value"], _UNCHECKED)
    except UsageError:
        flag = word.partition("=")[0]
        known = next((o.field for o in OPTIONS if flag in (o.flag, o.opposite)), None)
        return _Meaning("wrong" if known else "unknown", known, error=wrong)
    return _Meaning("value follows", next(iter(values)), error=wrong)


@functools.lru_cache(4096)
def _takes(head: str, word: str) -> bool:
    """Return whether a word is the value of the option before it, and not an option itself."""
    try:
        values, rest = read_words([head, word], _UNCHECKED)
    except UsageError:
        return False
    return word in values.values() and not rest
