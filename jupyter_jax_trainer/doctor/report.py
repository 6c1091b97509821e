"""``doctor``: the checks of all backends, and their report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.doctor.finding import FAIL, OK, Finding
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.text import plain, table, width


def examine(
    backend: str = "auto", context: str | None = None, namespace: str | None = None
) -> Iterator[Finding]:
    """Make all checks, one after the other; those of clusters last."""
    for one in registry.all_backends():
        if backend in ("auto", one.name):
            of_cluster = one.capabilities.clusters and bool(context or namespace)
            asked = backend == one.name or of_cluster
            yield from one.examine(context, namespace, asked=asked)


def report(findings: Iterable[Finding], columns: int) -> str:
    """Write the findings for people: all that was found, and what to do below."""
    found = list(findings)
    rows = list(_rows(found, columns))
    lines = [table(rows, ("", "CHECK", "FOUND"), columns=columns).partition("\n")[2]]
    advice = [f"{one.subject}: {masking.text(one.advice)}" for one in found if one.advice]
    bad = sum(finding.status == FAIL for finding in found)
    if advice:
        lines += ["", say.WHAT_TO_DO(), *(f"  {plain(text)}" for text in advice)]
    elif all(finding.status == OK for finding in found):
        lines += ["", say.NO_PROBLEMS()]
    if bad:
        lines += ["", say.CHECKS_FAILED(failed=bad, count=len(found))]
    return "\n".join(lines)


def _rows(findings: list[Finding], columns: int) -> Iterator[tuple[str, str, str]]:
    """Give the rows of the table, several for what it would have to cut."""
    taken = max((width(one.status) for one in findings), default=0)
    taken += max((width(one.subject) for one in findings), default=0)
    room = max(24, columns - taken - 4)  # two gaps of two
    for one in findings:
        first, *rest = textwrap.wrap(masking.text(one.detail), room) or [""]
        yield one.status, one.subject, first
        yield from (("", "", line) for line in rest)
