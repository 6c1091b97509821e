"""Bounds in seconds, on a machine that keeps pace and on one that doesn't."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pace
import pytest


def test_a_bound_is_longer_only_where_the_machine_is_slower(monkeypatch):
    monkeypatch.setattr(pace, "slowness", lambda: 3.0)
    assert [pace.within(took, 10) for took in (9, 29, 31)] == [True, True, False]


def test_the_machine_is_measured_once_and_only_when_a_deadline_seems_to_have_passed(monkeypatch):
    measured = []
    monkeypatch.setattr(pace, "slowness", lambda: measured.append(1) or 4.0)
    now = 100.0
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now))
    deadline = pace.Deadline(1.0)
    now += 0.5
    assert deadline.left == 0.5 and not deadline.passed and not measured
    now += 1.0
    assert deadline.left == 2.5 and not deadline.passed
    now += 3.0
    assert deadline.passed and deadline.left == 0 and measured == [1]


@pytest.mark.parametrize(
    ("takes", "load", "factor"),
    [(1e9, 0.1, 1.0), (1e9, 2 * pace.BUSY, 2.0), (1e-9, 0.1, pace.MOST)],
    ids=["fast and idle", "busy", "slow"],
)
def test_bounds_are_never_shorter_and_not_longer_than_that(monkeypatch, takes, load, factor):
    monkeypatch.setattr(pace, "TAKES_S", takes)
    monkeypatch.setattr("os.getloadavg", lambda: (load * (os.cpu_count() or 1), 0.0, 0.0))
    assert pace.slowness() == factor
