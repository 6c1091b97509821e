"""``doctor``: the checks of all backends, and their report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.doctor.finding import FAIL, OK, Finding
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.text import plain, table


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
    """Write the findings for people: a line each, what to do below."""
    found = list(findings)
    rows = [(one.status, one.subject, masking.text(one.detail)) for one in found]
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
