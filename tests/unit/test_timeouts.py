from __future__ import annotations

import re
from pathlib import Path

import pytest

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.errors import UsageError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("timeout", timeouts.ALL, ids=lambda each: each.variable)
def test_each_is_in_the_guide_with_what_it_is_without_a_variable(timeout):
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    (row,) = [line for line in guide.splitlines() if line.startswith(f"| `{timeout.variable}` |")]
    assert f"| {timeout.usual:g} |" in row


@pytest.mark.parametrize(
    "name", [n for n, v in vars(timeouts).items() if isinstance(v, timeouts.Timeout)]
)
def test_each_is_used_and_can_be_set(name, monkeypatch):
    timeout = getattr(timeouts, name)
    assert timeout in timeouts.ALL
    used = re.compile(rf"\btimeouts\.{name}\b")
    package = (ROOT / "jupyter_jax_trainer").rglob("*.py")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in package)
    monkeypatch.delenv(timeout.variable, raising=False)
    assert timeout.seconds == timeout.usual
    monkeypatch.setenv(timeout.variable, "0.25")
    assert timeout.seconds == 0.25


def test_what_a_job_is_given_is_checked_too():
    timeouts.check({"JAXTRAIN_TRANSFER_TIMEOUT": "5"})
    with pytest.raises(UsageError, match="JAXTRAIN_TRANSFER_TIMEOUT is a number of seconds"):
        timeouts.check({"JAXTRAIN_TRANSFER_TIMEOUT": "-5"})
