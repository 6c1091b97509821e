"""How many bytes a cache may have, as an environment says it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import worker as say

_BYTES = re.compile(r"([0-9]{1,18})(?:([kMGT])(i?))?")


def bound(environment: Mapping[str, str], variable: str, usual: int) -> int:
    """Return how many bytes an environment allows a cache; 0 for none at all.

    Raises
    ------
    UsageError
        It is no number of bytes.
    """
    text = environment.get(variable)
    if not text:
        return usual
    found = _BYTES.fullmatch(text)
    if found is None:
        raise UsageError(say.INVALID_BYTES(variable=variable, value=text))
    base, power = (1024 if found[3] else 1000), " kMGT".index(found[2] or " ")
    return int(found[1]) * int(base**power)
