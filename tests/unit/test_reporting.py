"""report() outside of a job, and what it takes."""

from __future__ import annotations

import pytest

from jupyter_jax_trainer import report


@pytest.mark.parametrize(("arguments", "metrics", "printed"), [
    ((), {"step": 10, "total": 100, "loss": 0.25}, "step 10/100  loss 0.25\n"),
    ((10, 100), {"loss": 0.25}, "step 10/100  loss 0.25\n"),
    ((10,), {"total": 100}, "step 10/100\n"),
    (({"eval/loss": 2},), {"step": 3}, "step 3  eval/loss 2\n"),
    ((), {"loss": float("nan")}, "loss nan\n"),
])
def test_it_prints_outside_of_a_job(capsys, arguments, metrics, printed):
    report(*arguments, **metrics)
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(("arguments", "metrics", "words"), [
    ((1, 2, 3), {}, "a step, a total"),
    ((0.5,), {}, "integer"),
    ((), {"loss": [1, 2]}, "'loss' is list, not a number"),
])
def test_what_it_cannot_take_is_named(arguments, metrics, words):
    with pytest.raises(TypeError, match=words):
        report(*arguments, **metrics)
