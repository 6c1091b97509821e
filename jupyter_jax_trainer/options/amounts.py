"""Checks of the amounts that options take: whole numbers, spans of time, cores and memory."""

from __future__ import annotations

import operator
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import options as say
from jupyter_jax_trainer.options.checks import Check, shown, text_of
from jupyter_jax_trainer.text import runs_text

ALL = "all"
MAX_RANK = 4095
_YEAR = 365 * 86400.0
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_QUANTITY = re.compile(
    r"\+?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?"
)
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?[dhms])+")
_RANKS = re.compile(r"[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?){0,999}")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def whole(low: int, high: int) -> Check[int]:
    """Check a whole number from ``low`` to ``high``."""

    def check(option: str, value: Any) -> int:
        refusal = UsageError(say.NOT_WHOLE(option=option, low=low, high=high, value=shown(value)))
        try:
            if isinstance(value, bool):
                raise refusal
            # int() also takes '1_000' and ' 3 ', which nobody means to write here.
            if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,18}", value, re.ASCII):
                raise refusal
            number = int(value) if isinstance(value, str) else operator.index(value)
        except TypeError:
            raise refusal from None
        if not low <= number <= high:
            raise refusal
        return number

    return check


def ranks(option: str, value: Any) -> str:
    """Check ranks: a number, several with commas, runs such as ``0-3``, or ``all``."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    text = ",".join(str(part) for part in parts if not isinstance(part, bool))
    if text == ALL:
        return ALL
    if not text or not _RANKS.fullmatch(text):
        raise UsageError(say.NOT_RANKS(option=option, value=shown(value)))
    found: set[int] = set()
    for run in text.split(","):
        low, _, high = run.partition("-")
        first, last = int(low), int(high or low)
        if not first <= last <= MAX_RANK:
            raise UsageError(say.NOT_RANKS(option=option, value=shown(value)))
        found.update(range(first, last + 1))
    return runs_text(found).replace(" ", "")


def ranks_in(text: str, nodes: int) -> list[int]:
    """Return the ranks that a checked text names, of so many."""
    if text == ALL:
        return list(range(nodes))
    runs = (run.partition("-") for run in text.split(","))
    return [rank for low, _, high in runs for rank in range(int(low), int(high or low) + 1)]


def quantity(text: str) -> Decimal | None:
    """Read a Kubernetes quantity (``500m``, ``2``, ``16Gi``); None where it is not one."""
    match = _QUANTITY.fullmatch(text)
    if not match:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix in _BINARY:
        return number * Decimal(1024 ** _BINARY[suffix])
    return number.scaleb(_SUFFIXES[suffix] if suffix in _SUFFIXES else int(suffix[1:]))


def cpu(option: str, value: Any) -> str:
    """Check a number of cores as Kubernetes writes it."""
    text = _number_text(option, value)
    amount = quantity(text)
    if amount is None or not Decimal("0.001") <= amount <= 100_000:
        raise UsageError(say.NOT_CORES(option=option, value=shown(value)))
    return text


def cores(text: str) -> float:
    """Return a checked number of cores as a number: ``500m`` is a half."""
    amount = quantity(text)
    if amount is None:
        raise ValueError(f"not a quantity: {text!r}")
    return float(amount)


def memory(option: str, value: Any) -> str:
    """Check an amount of memory as Kubernetes writes it."""
    text = _number_text(option, value)
    amount = quantity(text)
    if amount is None or amount <= 0 or amount > 2**63 - 1:
        plain = re.fullmatch(r"([0-9.]+)\s*([kKMGTP])i?[bB]?", text)
        raise UsageError(
            say.NOT_BYTES(option=option, value=shown(value)),
            say.DID_YOU_MEAN(name=f"{plain[1]}{plain[2].upper()}i") if plain else None,
        )
    if amount < 2**20:
        # '512m' is half a byte on Kubernetes: a classic, and the pod never starts.
        raise UsageError(
            say.TOO_FEW_BYTES(option=option, value=text),
            say.THOUSANDTHS(value=f"{text[:-1]}Mi") if text.endswith("m") else None,
        )
    return text


def size(option: str, value: Any) -> int:
    """Check an amount of memory or disk and give it in bytes."""
    amount = quantity(memory(option, value))
    assert amount is not None, "it was checked"
    return int(amount)


def timeout(option: str, value: Any) -> float:
    """Check a span of time and give it in seconds."""
    refusal = UsageError(say.NOT_A_DURATION(option=option, value=shown(value)))
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str) and len(value) < 100 and _DURATION.fullmatch(value):
        parts = re.findall(r"([0-9.]+)([dhms])", value)
        if len({unit for _, unit in parts}) < len(parts):
            raise refusal
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    elif isinstance(value, str) and len(value) < 100 and _NUMBER.fullmatch(value):
        seconds = float(value)
    elif isinstance(value, (str, bytes, bool)):
        raise refusal
    else:
        try:
            seconds = float(value)
        except (TypeError, ValueError, OverflowError):
            raise refusal from None
    if not 0 < seconds <= _YEAR:  # NaN is refused here, too
        raise refusal
    return seconds


NEVER = "never"


def idle(option: str, value: Any) -> float:
    """Check how long a session may be idle, and give it in seconds; 0 for ever."""
    if str(value) in (NEVER, "0", "0s", "0.0") and not isinstance(value, bool):
        return 0.0
    return timeout(option, value)


def _number_text(option: str, value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return text_of(option, value)
