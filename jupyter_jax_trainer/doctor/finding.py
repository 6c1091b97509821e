"""What a check of ``doctor`` found."""

from __future__ import annotations

from dataclasses import dataclass

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
        What to do about it.
    """

    status: str
    subject: str
    detail: str
    advice: str | None = None
