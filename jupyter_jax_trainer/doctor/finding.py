"""What a check of ``doctor`` found."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_jax_trainer.messages import Text

OK, WARN, FAIL = "OK", "WARN", "FAIL"


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    status
        ``OK``, ``WARN`` (jobs run, something doesn't) or ``FAIL`` (jobs don't run).
    subject, detail
        What was looked at, and what was seen.
    advice
        What to do about it: the hint of the detail, where none is given.
    notable
        A page that lists problems lists it even if all is well.
    """

    status: str
    subject: str
    detail: str
    advice: str | None = None
    notable: bool = False

    def __post_init__(self) -> None:
        if self.advice is None and isinstance(self.detail, Text):
            object.__setattr__(self, "advice", self.detail.hint)
