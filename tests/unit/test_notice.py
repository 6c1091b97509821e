"""How far the ranks of a session go when a pod is about to end, as one of two takes it."""

from __future__ import annotations

import threading

import pytest

from jupyter_jax_trainer.worker import rendezvous
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.pod.notice import Notice
from jupyter_jax_trainer.worker.reporting import Reporter


@pytest.fixture
def reporter():
    return Reporter(Channel(None))


@pytest.fixture
def given(monkeypatch, reporter):
    """Give a notice of this rank, while the other one is at the given place."""
    monkeypatch.setenv("JAXTRAIN_NOTICE_TIMEOUT", "0.05")
    monkeypatch.setattr(rendezvous, "watch_notice", lambda take: None)

    def give(runs, reports, other):
        monkeypatch.setattr(rendezvous, "share", lambda key, rank, nodes, own: [own, other])
        notice = Notice(0, 2, reporter, lambda: None)
        notice.may_begin(3)
        if not runs:
            notice.note_end()
            notice.note_done(3)
        for step in range(reports):
            reporter.add(step, None, {})
        notice.give()
        return notice

    return give


def test_ranks_that_rest_save_what_they_hold(given):
    notice = given(False, 0, {"cell": 3, "reports": None})
    assert notice.due
    notice.end()
    assert not notice.due


def test_a_rank_that_has_not_begun_the_last_cell_runs_it_before_and_none_after_it(given):
    notice = given(False, 0, {"cell": 4, "reports": None})
    assert not notice.due
    assert notice.may_begin(4) and not notice.may_begin(5)
    notice.note_done(4)
    assert notice.due


def test_ranks_that_report_stop_at_the_report_after_the_last_one_of_any(given, reporter):
    notice = given(True, 2, {"cell": 3, "reports": 3})
    assert notice.stops and not notice.due
    reporter.add(2, None, {})
    with pytest.raises(KeyboardInterrupt):
        reporter.add(3, None, {})


@pytest.mark.parametrize("other", [(3, 0), (3, None), (2, 5)], ids=str)
def test_a_cell_that_does_not_report_everywhere_is_not_waited_for(given, reporter, other):
    notice = given(True, 2, {"cell": other[0], "reports": other[1]})
    assert not notice.stops and not notice.due and notice.may_begin(4)
    reporter.add(2, None, {})  # nothing holds it


def test_pods_end_without_a_rank_that_does_not_answer(given, monkeypatch):
    begun = threading.Event()
    monkeypatch.setattr(rendezvous, "give_notice", begun.set)
    notice = given(False, 0, {"cell": 3, "reports": None})
    assert begun.is_set() and notice.due  # the time was over before somebody has saved
