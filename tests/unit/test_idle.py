"""How long a session may be idle, and its clock."""

from __future__ import annotations

import pytest

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends import idle
from jupyter_jax_trainer.backends.idle import IdleClock, Limits
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import runtimes
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.options.spec import spec_from_options


def limits(usual=None, most=None):
    return Limits.read(("USUAL", usual), ("MOST", most))


@pytest.mark.parametrize(
    "usual, most, asked, given",
    [
        (None, None, None, 1800),
        (None, None, 0.0, 0),
        (None, None, 7200.0, 7200),
        ("1h", None, None, 3600),
        ("never", None, None, 0),
        ("never", "2h", None, 7200),
        (None, "10m", None, 600),
        (None, "2h", 7200.0, 7200),
        (None, "2h", 7201.0, None),
        (None, "2h", 0.0, None),
    ],
)
def test_a_platform_sets_and_caps_it(usual, most, asked, given):
    if given is not None:
        assert limits(usual, most).check(asked) == given
        return
    with pytest.raises(UsageError) as refused:
        limits(usual, most).check(asked)
    assert refused.value.id == "backends.idle-too-long" and "2 h" in str(refused.value)


def test_a_limit_that_makes_no_sense_is_refused_by_its_name():
    for given in (("soon", None), (None, "never")):
        with pytest.raises(UsageError, match="USUAL" if given[0] else "MOST"):
            limits(*given)


def test_the_environment_and_a_runtime_say_it(home, monkeypatch):
    monkeypatch.setenv(idle.MOST, "1h")
    spec = spec_from_options(session="lab", nodes=1)
    _, plan = api.prepare(spec)
    assert (plan["idle"], plan["idle_most"]) == (1800, 3600)
    assert "idle" not in api.prepare(spec_from_options(nodes=1))[1]
    with pytest.raises(UsageError):
        api.prepare(spec_from_options(session="lab", nodes=1, idle="never"))
    said = {runtimes.IDLE: "15m", runtimes.IDLE_MOST: "2h"}
    item = TrainingRuntime({"metadata": {"name": "jax", "annotations": said}})
    assert runtimes.idle_limits(item) == Limits(900, 7200)
    assert runtimes.idle_limits(TrainingRuntime({"metadata": {"name": "jax"}})).most is None


@pytest.fixture
def clock(monkeypatch):
    """The time as it goes by, and as somebody may set it."""
    now = {"monotonic": 1000.0, "time": 5e9}
    for name in now:
        monkeypatch.setattr(idle.time, name, lambda name=name: now[name])
    return now


def test_it_warns_once_and_ends(clock):
    one = IdleClock(1800, None)
    clock["monotonic"] += 1499
    assert not one.warns()
    clock["monotonic"] += 2
    assert one.warns() and not one.warns() and one.spent < one.allowed
    clock["monotonic"] += 300
    assert one.spent > one.allowed
    one.begin()
    assert one.spent < one.allowed and not one.warns()
    short = IdleClock(10, None)
    clock["monotonic"] += 5.1
    assert short.warns()
    never = IdleClock(0, None)
    clock["monotonic"] += 1e9
    assert not never.warns() and never.allowed == 0 and never.ends is None


def test_it_is_prolonged_within_what_is_allowed(clock):
    one = IdleClock(1800, 3600)
    clock["monotonic"] += 1700
    assert one.warns() and one.prolong(None) is None and round(one.left) == 1800
    assert not one.warns()
    assert one.prolong(3600) is None and round(one.left) == 3600
    for more in (3601, 0):
        assert "1 h at most" in one.prolong(more)
    assert IdleClock(1800, None).prolong(0) is None
    one.begin()
    assert round(one.left) == 1800


def test_the_clock_of_the_machine_does_not_matter(clock):
    one = IdleClock(1800, None)
    clock["time"] += 1e6
    assert one.spent < one.allowed and one.ends == clock["time"] + 1800
