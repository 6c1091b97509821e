"""Findings out of the catalogue: the hint of a message is the advice."""

from __future__ import annotations

from jupyter_jax_trainer.doctor.finding import Finding
from jupyter_jax_trainer.messages import Text


def finding(status: str, subject: str, detail: Text, advice: str | None = None) -> Finding:
    """Return a finding; the advice is the detail's hint, if no other is given."""
    return Finding(status, subject, detail, advice or detail.hint)
