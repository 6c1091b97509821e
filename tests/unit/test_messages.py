"""The catalogue of messages: each is used, with the parameters that it has, and reads well."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import jupyter_jax_trainer
from jupyter_jax_trainer import errors, messages
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import Label, Message, Text, plain_json

ROOT = Path(jupyter_jax_trainer.__file__).parent
TESTS = Path(__file__).parent.parent
PARAMETER = re.compile(r"\{[^}]*\}|\n")
AREAS = [module.name for module in pkgutil.iter_modules(messages.__path__)]
# The checks of `doctor` have their messages beside them.
CHECKS = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted(ROOT.glob("backends/**/*.py"))
    if "\nidentify(globals(), " in path.read_text()
]


def catalogue() -> dict[str, Message]:
    """Return all messages by area and name: ``cell.CANNOT_COMPILE``."""
    modules = {
        **{area: f"{messages.__name__}.{area}" for area in AREAS},
        **{module: f"{jupyter_jax_trainer.__name__}.{module}" for module in CHECKS},
    }
    return {
        f"{area}.{name}": message
        for area, module in modules.items()
        for name, message in vars(importlib.import_module(module)).items()
        if isinstance(message, Message)
    }


CATALOGUE = catalogue()


def test_only_checks_of_the_doctor_have_messages_of_their_own():
    assert "backends.local.doctor" in CHECKS
    assert all("doctor" in module.split(".") for module in CHECKS)


class Use(NamedTuple):
    """Where a message is used, and with which parameters; None where it is not called there."""

    where: str
    parameters: frozenset[str] | None


def uses() -> Iterator[tuple[str, Use]]:
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text())
        aliases = {
            alias.asname or alias.name: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == messages.__name__
            for alias in node.names
            if alias.name in AREAS
        }
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        called = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called[id(node.func)] = node
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in aliases:
                    used = f"{aliases[name]}.{attribute}"
                case ast.Name(id=name, ctx=ast.Load()) if f"{own}.{name}" in CATALOGUE:
                    used = f"{own}.{name}"
                case _:
                    continue
            call = called.get(id(node))
            found = None
            # `**values` says nothing of the names.
            if call is not None and all(word.arg for word in call.keywords):
                found = frozenset(word.arg or "" for word in call.keywords)
            yield used, Use(f"{path.relative_to(ROOT)}:{node.lineno}", found)


def test_each_message_is_used_with_its_parameters():
    used: dict[str, list[Use]] = defaultdict(list)
    for name, use in uses():
        used[name].append(use)
    assert set(used) <= set(CATALOGUE), "not in the catalogue"
    unused = set(CATALOGUE) - set(used)
    assert not unused
    for name, places in used.items():
        for use in places:
            if use.parameters is not None:
                assert use.parameters == CATALOGUE[name].parameters, f"{name} at {use.where}"


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_message_reads_well(name: str):
    message = CATALOGUE[name]
    # A sample that no rule minds, long enough to see that it is there.
    samples = {parameter: f"<{parameter}>" for parameter in message.parameters}
    said = filled(message, samples)
    area, _, own = name.rpartition(".")
    assert said.id == message.id and message.id.endswith(f".{kebab(own)}")
    assert area in CHECKS or message.id.startswith(f"{area}.")
    for parameter in message.parameters:
        assert f"<{parameter}>" in f"{said} {said.hint}"
    sentences = (
        [said] if isinstance(message, Label) else [said, *([said.hint] if said.hint else [])]
    )
    for text in sentences:
        assert text == text.strip("\n"), "no lines around it"
        assert not re.search(r"(?<=\S)  +(?=\S)|\.\.(?!\.)| [.,;:](?=\s|$)", text), text
        assert not re.search(r"'[^']*''|``", text), text
        if isinstance(message, Label) or text[0].islower():
            assert not text.endswith("."), f"a phrase has no full stop: {text}"
        elif not ends_open(text):
            assert text.endswith((".", "?", ":")), f"a sentence ends: {text}"
    if said.hint:
        assert not said.hint[0].islower() or said.hint.split()[0] in COMMANDS, said.hint


COMMANDS = ("pip", "kubectl", "jaxtrain", "make", "value")


def filled(message: Message, samples: dict[str, str]) -> Text:
    """Fill a template in, whatever form its parameters ask for."""

    class Sample(str):
        def __format__(self, form: str) -> str:
            return str(self)

        def __repr__(self) -> str:
            return str(self)

    return message(**{name: Sample(value) for name, value in samples.items()})


def ends_open(text: str) -> bool:
    """Return whether what ends a text is no word of ours: a parameter, an excerpt, a command."""
    last = text.splitlines()[-1]
    return text.endswith((">", "`", "…")) or last.startswith("    ") or last.split()[0] in COMMANDS


def kebab(name: str) -> str:
    return name.lower().replace("_", "-")


# What people read as errors and findings; the worker's errors are among them by their names.
SAYING = {
    *(name for name, value in vars(errors).items() if isinstance(value, type)),
    *("Finding", "FilesError", "PackageError", "PortTaken", "PythonMismatch", "RendezvousTimeout"),
    "WorkerError",
}


def words_of_its_own(tree: ast.AST) -> Iterator[int]:
    """Yield the lines in which an error or a finding gets words that are not in the catalogue."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in SAYING:
                for argument in (*node.args, *(word.value for word in node.keywords)):
                    text = "".join(
                        str(part.value)
                        for part in ast.walk(argument)
                        if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    )
                    literal = isinstance(argument, ast.Constant | ast.JoinedStr | ast.BinOp)
                    if literal and len(text.split()) >= 3:
                        yield node.lineno


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_errors_and_findings_take_their_words_from_the_catalogue(path: Path):
    assert list(words_of_its_own(ast.parse(path.read_text()))) == []


def test_words_outside_of_the_catalogue_are_found():
    code = "UsageError(f'There is no {name} here.')\nFinding(OK, subject(), 'all is well')\nError('a b c')"
    assert list(words_of_its_own(ast.parse(code))) == [1, 2]


def test_no_two_messages_are_the_same():
    seen: dict[str, str] = {}
    for name, message in CATALOGUE.items():
        other = seen.setdefault(message.text, name)
        assert other == name, f"{name} says the same as {other}"
    assert len({message.id for message in CATALOGUE.values()}) == len(CATALOGUE)


def test_tests_pin_few_wordings():
    """A wording changes in the catalogue alone: tests ask it, but for a few."""
    texts = {text for message in CATALOGUE.values() for text in (message.text, message.hint or "")}
    pieces = {piece for text in texts for piece in PARAMETER.split(text) if is_phrase(piece)}
    whole = "\n".join(texts)
    pinned = [
        f"{path.relative_to(TESTS)}:{node.lineno} {node.value}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_phrase(node.value)
        if node.value in whole or any(piece in node.value for piece in pieces)
    ]
    assert len(pinned) <= 40, "\n".join(pinned)


def is_phrase(text: str) -> bool:
    """Return whether a text is long enough to be a wording, and no program."""
    return len(text.strip()) >= 14 and len(text.split()) >= 3 and text.count("\n") < 3


def test_an_error_knows_its_message():
    message = Message("No {what} here.", "Bring a {what}.")
    message.id = "test.none"
    error = UsageError(message(what="cell"))
    assert (error.id, error.message, error.hint) == ("test.none", "No cell here.", "Bring a cell.")
    assert UsageError(message(what="cell"), "Wait.").hint == "Wait."
    assert UsageError("Somebody else's words.").id is None


def test_json_for_other_front_ends_has_strings_and_no_more():
    """The encoder of marimo takes a kind of string for an object."""
    message = Message("here")
    (found,) = plain_json([message()])
    assert type(found) is str and found == "here"
