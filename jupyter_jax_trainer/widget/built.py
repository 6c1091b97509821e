"""Whether widgets can be made here: their scripts are built, and not in every clone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import views as say

STATIC = Path(__file__).parent / "static"


def available() -> bool:
    """Return whether widgets can be made here."""
    return (STATIC / "job.js").exists() and find_spec("anywidget") is not None


def require() -> None:
    """Say it where widgets can't be made here.

    Raises
    ------
    UsageError
        They were not built.
    """
    if not available():
        raise UsageError(say.NO_WIDGET())
