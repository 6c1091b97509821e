"""Checks of the values that options take: each gives the value as a `JobSpec` keeps it.

A check accepts the word from a command line and the Python value of `train(...)` alike, and raises
`UsageError` with a sentence that begins with the option's name. Nothing here looks at the machine
or the cluster: these are the mistakes that can be seen from the words alone.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import options as say
from jupyter_jax_trainer.worker import profiling

T = TypeVar("T")
Check: TypeAlias = Callable[[str, object], T]

MAX_TEXT = 4096  # characters of a value
MAX_SETTING = 100_000  # of an environment variable; Linux starts nothing with 128 KiB in one
MAX_ITEMS = 1000  # of an option that may be repeated
_LABEL_LENGTH = 63
_SUBDOMAIN_LENGTH = 253
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?/)?"  # registry
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[A-Za-z0-9._,\s-]*\]\s*)?"
    r"(?:[(<>=!~;@].*)?"
)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` was probably meant to be, or None."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the hint for a word that is not known: the nearest one, or all of a few."""
    names = sorted(known)
    if close := nearest(word, names):
        return say.DID_YOU_MEAN(name=close)
    return say.KNOWN(names=", ".join(names)) if 0 < len(names) <= 16 else None


def one_of(*choices: str, any_case: bool = False) -> Check[str]:
    """Check a word out of a few; with `any_case`, however it is written."""

    def check(option: str, value: Any) -> str:
        if value in choices:
            return str(value)
        for choice in choices if any_case else ():
            if choice.lower() == str(value).lower():
                return choice
        raise UsageError(
            say.NOT_A_CHOICE(option=option, choices=", ".join(choices), value=shown(value)),
            did_you_mean(str(value), choices) if nearest(str(value), choices) else None,
        )

    return check


def job_name(option: str, value: Any) -> str:
    """Check a job's name: an RFC 1035 label of at most 63 characters."""
    text = text_of(option, value)
    if fault := _label_fault(text, digit_first=False):
        raise UsageError(
            say.NOT_A_JOB_NAME(
                name=shown(text), fault=fault, most=_LABEL_LENGTH, valid=valid_name(text)
            )
        )
    return text


def valid_name(text: str) -> str:
    """Make a valid job name out of any text."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "-", ascii_text.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"job-{name}" if name else "job"
    return name[:_LABEL_LENGTH].rstrip("-")


def label(option: str, value: Any) -> str:
    """Check an RFC 1123 label, such as a namespace's name."""
    text = text_of(option, value)
    if fault := _label_fault(text, digit_first=True):
        raise UsageError(say.NOT_A_LABEL(option=option, value=shown(text), fault=fault))
    return text


def subdomain(limit: int = 253) -> Check[str]:
    """Check an RFC 1123 subdomain, as most objects on Kubernetes are named."""

    def check(option: str, value: Any) -> str:
        text = text_of(option, value)
        if len(text) > limit or not _SUBDOMAIN.fullmatch(text):
            raise UsageError(say.NOT_A_SUBDOMAIN(option=option, value=shown(text), most=limit))
        return text

    return check


def accelerator(option: str, value: Any) -> str:
    """Check a type of device: the value of a node's label, or LABEL=VALUE."""
    text = text_of(option, value)
    key, equals, last = text.rpartition("=")
    prefix, slash, name = key.rpartition("/")
    fine = _LABEL_VALUE.fullmatch(last) and (
        not equals or (_LABEL_VALUE.fullmatch(name) and (not slash or _SUBDOMAIN.fullmatch(prefix)))
    )
    if not fine or len(prefix) > _SUBDOMAIN_LENGTH:
        raise UsageError(say.NOT_A_LABEL_VALUE(option=option, value=shown(text)))
    return text


def profile(option: str, value: Any) -> str:
    """Check what of a cell is profiled: all of it, or some steps."""
    if value is True or value == profiling.WHOLE:
        return profiling.WHOLE
    text = text_of(option, value)
    found = profiling.STEPS.fullmatch(text)
    if found is None or int(found[1]) >= int(found[2]):
        raise UsageError(say.NOT_STEPS(option=option, value=shown(text)))
    return text


def word(option: str, value: Any) -> str:
    """Check any printable text without blanks around it."""
    text = text_of(option, value)
    if not text.isprintable() or text != text.strip():
        raise UsageError(say.NOT_A_WORD(option=option, value=shown(text)))
    return text


def identifier(option: str, value: Any) -> str:
    """Check the name of a Python variable."""
    text = unicodedata.normalize("NFKC", text_of(option, value))  # as Python reads identifiers
    if not text.isidentifier() or keyword.iskeyword(text):
        raise UsageError(
            say.NOT_A_VARIABLE(option=option, value=shown(text)),
            say.NAME_THE_VALUE(option=option) if any(sign in text for sign in ".[(") else None,
        )
    return text


def topology(option: str, value: Any) -> str:
    """Check a TPU topology, ``AxB`` or ``AxBxC``."""
    joined = "x".join(map(str, value)) if isinstance(value, (tuple, list)) else value
    text = text_of(option, joined)
    if not re.fullmatch(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}", text):
        raise UsageError(say.NOT_A_TOPOLOGY(option=option, value=shown(text)))
    return text


def environment(option: str, value: Any) -> tuple[str, str]:
    """Check one environment variable, ``NAME=VALUE``, and give it as a pair."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        name, setting = str(value[0]), str(value[1])
    else:
        name, equals, setting = text_of(option, value, MAX_SETTING).partition("=")
        if not equals:
            if not name.isidentifier():  # it may be a secret that was given alone
                raise UsageError(say.NOT_AN_ASSIGNMENT(option=option, value=masking.HIDDEN))
            raise UsageError(
                say.NOT_AN_ASSIGNMENT(option=option, value=shown(value)),
                say.EMPTY_ASSIGNMENT(option=option, assignment=f"{name}="),
            )
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise UsageError(say.NOT_AN_ENVIRONMENT_VARIABLE(option=option, name=shown(name)))
    if len(name) > MAX_TEXT or len(setting) > MAX_SETTING:
        raise UsageError(say.SETTING_TOO_LONG(option=option, name=shown(name)))
    if "\0" in setting or any("\ud800" <= sign <= "\udfff" for sign in setting):
        raise UsageError(say.SETTING_UNFIT(option=option, name=name))
    return name, setting


def volume(option: str, value: Any) -> str:
    """Check a volume, ``PVC:/path``."""
    claim, _, path = text_of(option, value).partition(":")
    segments = path.split("/")[1:]
    fine = path.startswith("/") and path.isprintable() and ":" not in path
    if not fine or not all(segments) or {".", ".."} & set(segments):
        raise UsageError(say.NOT_A_VOLUME(option=option, value=shown(value)))
    return f"{subdomain()(option, claim)}:{path}"


def files(option: str, value: Any) -> str:
    """Check a pattern for files below the notebook's folder, ``data/*.csv``."""
    text = word(option, value)
    if text.startswith(("/", "~")) or "\\" in text or ".." in text.split("/"):
        raise UsageError(say.NOT_FILES(option=option, value=shown(text)))
    return text


def store(option: str, value: Any) -> str:
    """Check where large payloads are kept: a URL or an absolute path."""
    text = word(option, value)
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/].*|file:///\S.*|/.*", text):
        raise UsageError(say.NOT_A_STORE(option=option, value=shown(text)))
    return text


def initializer(option: str, value: Any) -> str:
    """Check the URI of a dataset or model for Trainer's initializers."""
    text = word(option, value)
    if not re.fullmatch(r"(hf|s3)://[^\s/]\S*", text):
        raise UsageError(say.NOT_AN_INITIALIZER(option=option, value=shown(text)))
    return text


def image(option: str, value: Any) -> str:
    """Check the reference of a container image."""
    text = text_of(option, value)
    if len(text) > 500 or not _IMAGE.fullmatch(text):
        raise UsageError(say.NOT_AN_IMAGE(option=option, value=shown(text)))
    return text


def package(option: str, value: Any) -> str:
    """Check a requirement as pip takes it, or a wheel's path; never one of pip's own options."""
    text = word(option, value)
    if text.endswith(".whl") and not text.startswith("-") and "://" not in text:
        return text
    if not (_REQUIREMENT.fullmatch(text) or re.fullmatch(r"(git\+)?https://[^\s/]\S*", text)):
        raise UsageError(say.NOT_A_PACKAGE(option=option, value=shown(text)))
    return text


def flag(option: str, value: Any) -> bool:
    """Check a yes or no."""
    if isinstance(value, bool):
        return value
    raise UsageError(say.NOT_A_FLAG(option=option, value=shown(value)))


def listed(option: str, value: Any, *, commas: bool) -> list[Any]:
    """Take apart the value of an option that may be repeated."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, str):
        if not commas:
            return [value]
        words = [part.strip() for part in value.split(",")]
        if not all(words):
            raise UsageError(say.EXTRA_COMMA(option=option, value=shown(value)))
        return words
    if isinstance(value, Iterable):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)
        if commas:
            return [part for item in items for part in listed(option, item, commas=True)]
        return items
    raise UsageError(say.NOT_A_LIST(option=option, value=shown(value)))


def text_of(option: str, value: Any, most: int = MAX_TEXT) -> str:
    """Check that a value is text, not empty, and of at most so many characters."""
    if not isinstance(value, str):
        raise UsageError(say.NOT_TEXT(option=option, value=shown(value)))
    if not value:
        raise UsageError(say.EMPTY(option=option))
    if len(value) > most:
        raise UsageError(say.TOO_LONG(option=option, most=most, length=len(value)))
    return value


def _label_fault(text: str, *, digit_first: bool) -> str | None:
    for place, sign in enumerate(text, start=1):
        if sign not in "abcdefghijklmnopqrstuvwxyz0123456789-":
            return say.FAULT_CHARACTER(place=place, character=shown(sign))
    if text[0] == "-" or (text[0].isdigit() and not digit_first):
        first = say.FAULT_FIRST if digit_first else say.FAULT_NO_LETTER_FIRST
        return first(character=shown(text[0]))
    if text.endswith("-"):
        return say.FAULT_LAST()
    if len(text) > _LABEL_LENGTH:
        return say.FAULT_LENGTH(length=len(text), most=_LABEL_LENGTH)
    return None


def shown(value: Any) -> str:
    """Return a value as a message shows it: its repr, without what may be secret, cut short."""
    text = masking.text(repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."
