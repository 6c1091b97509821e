"""Ranks of which nothing is heard: when that is said, in which words, and when a job ends of it."""

from __future__ import annotations

import pytest
from harness import at_line, cell_line

from jupyter_jax_trainer.backends import silence
from jupyter_jax_trainer.backends.silence import SilenceWatch
from jupyter_jax_trainer.jobdir.failure import RankEnd
from jupyter_jax_trainer.messages import backends as say
from jupyter_jax_trainer.messages import jobs


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(silence, "time", found)
    return found


def at(line, seconds, **more):
    place = {"cell": "Cell", "cell_line": line, "doing": None, "frame": None, "seconds": seconds}
    return {**place, **more}


def ranks(*places, ended=()):
    return [(RankEnd(rank=n, finished=n in ended), place) for n, place in enumerate(places)]


def passes(clock, watch, seconds):
    """Let time go by; return whether the ranks are asked then."""
    clock.now += seconds
    return watch.asks()


def test_it_is_said_once_where_each_rank_is(clock):
    watch = SilenceWatch(None)
    assert not passes(clock, watch, 119) and passes(clock, watch, 1)
    places = ranks(*[at(15, 130, waits=True)] * 3, at(12, 130, doing="load"))
    found = watch.take(places)
    assert found is not None and found.is_news and found.failure is None and found.hint
    assert jobs.RANKS_WAIT(ranks="0, 1 and 2", place=at_line(15)) in found.text
    place = jobs.IN_CALL(call="load", line=cell_line(12))
    assert jobs.RANK_IS_AT(rank=3, place=place) in found.text
    assert watch.said == found
    assert not watch.asks() and passes(clock, watch, 5)
    again = watch.take(places)
    assert again is not None and not again.is_news and again.text == found.text


def test_who_may_hang_is_asked_earlier_but_said_no_earlier(clock):
    watch = SilenceWatch(None)
    clock.now += 19
    assert not watch.asks(doubts=True)
    clock.now += 1
    assert watch.asks(doubts=True) and watch.take(ranks(at(15, 30, waits=True))) is None
    clock.now += 5
    assert watch.asks(doubts=True), "a second look follows"
    watch = SilenceWatch(None)
    for n in range(8):  # a job with slow steps
        clock.now += 30
        watch.look(0, n + 1)
    clock.now += 89
    assert not watch.asks(doubts=True)
    clock.now += 1
    assert watch.asks(doubts=True)


@pytest.mark.parametrize("sign", ["prints", "reports", "gets on"])
def test_a_sign_of_life_ends_it(clock, sign):
    watch = SilenceWatch(None)
    passes(clock, watch, 120)
    assert watch.take(ranks(at(3, 120)))
    clock.now += 5
    if sign == "gets on":
        assert watch.take(ranks(at(4, 2))) is None
    else:
        watch.look(*((1, 0) if sign == "prints" else (0, 1)))
    assert watch.said is None
    assert not passes(clock, watch, 110) and passes(clock, watch, 10)
    # A job that is silent by design for longer, again and again: one event for one place.
    found = watch.take(ranks(at(3, 120)))
    assert found is not None and not found.is_news


def test_one_rank_that_gets_on_is_enough(clock):
    watch = SilenceWatch(None)
    passes(clock, watch, 200)
    assert watch.take(ranks(at(3, 200, waits=True), at(9, 50))) is None
    assert not passes(clock, watch, 69) and passes(clock, watch, 1)  # when it may have stood still


def test_steps_that_take_long_by_design_have_ten_times_their_time(clock):
    watch = SilenceWatch(None)
    for number in range(6):
        watch.look(0, number)
        clock.now += 60
    assert not passes(clock, watch, 530) and passes(clock, watch, 10)
    many = SilenceWatch(None)
    many.look(0, 1)
    clock.now += 60
    many.look(0, 61)  # one second each
    assert passes(clock, many, 120)


def test_compiling_is_named_and_never_ended(clock):
    watch = SilenceWatch(600)
    passes(clock, watch, 5000)
    found = watch.take(ranks(at(9, 5000, compiles="step"), at(9, 5000, waits=True)))
    assert found is not None and found.failure is None and found.hint is None
    assert jobs.RANK_COMPILES(rank=0, function="step", place=at_line(9)) in found.text


def test_hang_timeout_ends_it_with_the_places(clock):
    watch = SilenceWatch(1200)
    passes(clock, watch, 120)
    assert watch.take(ranks(at(3, 120)))
    assert passes(clock, watch, 1079) and watch.take(ranks(at(3, 1199))).failure is None
    assert passes(clock, watch, 1)
    failure = watch.take(ranks(at(3, 1200))).failure
    assert failure is not None and failure.kind == "hang"
    where = jobs.RANK_IS_AT(rank=0, place=at_line(3))
    assert failure.message == say.HUNG(time="20 m", where=where)


def test_a_hang_timeout_below_the_usual_patience_is_kept(clock):
    watch = SilenceWatch(30)
    assert passes(clock, watch, 30)
    assert watch.take(ranks(at(3, 30))).failure is not None


def test_ranks_that_do_not_answer_are_named_and_finished_ones_do_not_count(clock):
    watch = SilenceWatch(120)
    passes(clock, watch, 120)
    found = watch.take(ranks(None, at(3, 120), None, ended=(0,)))
    assert found is not None and found.failure is not None
    assert say.NO_ANSWER(ranks="rank 2") in found.text
    assert jobs.RANK_FINISHED(rank=0) in found.text
    assert found.failure.hint


def test_ranks_that_are_outside_of_the_cell_are_not_stuck_in_it(clock):
    watch = SilenceWatch(120)
    passes(clock, watch, 500)
    assert watch.take(ranks(at(None, 500))) is None


def test_a_rank_that_does_not_say_for_how_long_counts_as_silent(clock):
    watch = SilenceWatch(None)
    passes(clock, watch, 120)
    assert watch.take(ranks(at(3, None)))
