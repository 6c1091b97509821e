"""The catalogue: what people read from Python, each message once, with an id.

A module here has the messages of one area. Code calls one with its parameters and gets a `Text`, an
ordinary string that knows its id and its hint::

    from jupyter_jax_trainer.messages import cell as say

    raise UsageError(say.CANNOT_COMPILE(error=error))

Tests check ids, so that a wording changes in one place; ``tests/unit/test_messages.py`` has the
rules. The checks of ``doctor`` have their messages beside them, in the same form. Three tables have
ids and texts of their own: options, commands, and the causes in
``backends/kubernetes/diagnosis/causes``.
"""

from __future__ import annotations

import json
from string import Formatter
from typing import TypeVar

from jupyter_jax_trainer.datatypes import Namespace

T = TypeVar("T")


class Text(str):
    """A message as people read it.

    Attributes
    ----------
    id
        Of its message, such as ``cell.cannot-compile``.
    hint
        What to do about it; None where there is nothing to say.
    """

    id: str
    hint: str | None


class Message:
    """One message: a sentence, or a phrase that becomes part of one.

    Parameters
    ----------
    text
        What happened and where, as a template of ``str.format``. A sentence begins with a capital
        letter and ends with a full stop; a phrase does neither.
    hint
        What to do about it, as sentences over the same parameters.
    """

    id = ""

    def __init__(self, text: str, hint: str | None = None) -> None:
        self.text = text
        self.hint = hint

    def __call__(self, **values: object) -> Text:
        """Return the message with its parameters filled in."""
        said = Text(self.text.format_map(values))
        said.id = self.id
        said.hint = self.hint and self.hint.format_map(values)
        return said

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of the parameters."""
        template = f"{self.text} {self.hint or ''}"
        return frozenset(name for _, name, _, _ in Formatter().parse(template) if name)


class Label(Message):
    """A heading, or the name of a thing: a capital letter, and no full stop."""


def plain_json(value: T) -> T:
    """Return JSON in which messages are strings and no more.

    Not every front end encodes a kind of string as a string: marimo writes its attributes.
    """
    plain: T = json.loads(json.dumps(value))
    return plain


def identify(module: Namespace, area: str = "") -> None:
    """Give the messages of a module their ids; its last line calls this with ``globals()``.

    Parameters
    ----------
    area
        How the ids begin, if not with the name of the module.
    """
    area = area or str(module["__name__"]).rpartition(".")[2]
    for name, message in module.items():
        if isinstance(message, Message):
            message.id = f"{area}.{name.lower().replace('_', '-')}"
