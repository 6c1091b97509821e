"""Whether widgets can be made here: their scripts are built, and not in every clone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from jupyter_jax_trainer.errors import UsageError

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
        raise UsageError(
            "The widget is not there: its script has not been built.",
            "`make labextension` builds it in a clone; a wheel has it.",
        )
