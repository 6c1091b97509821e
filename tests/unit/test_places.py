"""Ranks by where they are: how they are grouped, and what is known of those that can't be asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.channel import protocol
from jupyter_jax_trainer.channel.places import grouped, notes, rank_place
from jupyter_jax_trainer.channel.protocol import RankPlace
from jupyter_jax_trainer.jobdir.state import HeardPosition, RankState, new_rank
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.states import Phase
from jupyter_jax_trainer.text import runs_text

NOW = 1_000.0


def at(rank: int, line: int | None, seconds: float = 1.0, call: str | None = None) -> RankPlace:
    return RankPlace(
        rank=rank,
        state="Running",
        cell="Cell 3",
        line=line,
        call=call,
        seconds=seconds,
        answered=True,
    )


def test_the_odd_ones_come_first_the_silent_before_those_that_are_there_longest():
    silent = RankPlace(rank=5, state="Running", process="stopped")
    places = [at(0, 7), at(1, 9, 5), at(2, 7, 3), at(3, 8, 60), at(4, 7), silent]
    groups = grouped(places)
    assert [group.ranks for group in groups] == [[5], [3], [1], [0, 2, 4]]
    assert [group.seconds for group in groups] == [None, 60, 5, 3]


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([5, 0, 1, 2], "0-2, 5"), (range(256), "0-255"), ([3], "3"), ([1, 2], "1-2"), ([], "")],
)
def test_ranks_are_listed_as_runs(ranks, text):
    assert runs_text(ranks) == text


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=30))
def test_each_rank_is_in_one_group(found):
    places = [
        RankPlace(rank=rank, state="Running", cell="Cell", line=line, answered=answered)
        for rank, (line, answered) in enumerate(found)
    ]
    groups = grouped(places)
    assert sorted(rank for group in groups for rank in group.ranks) == list(range(len(found)))
    assert all(group.ranks == sorted(group.ranks) for group in groups)
    for group in groups:
        assert len({(one.line, one.answered) for one in group.places}) == 1


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (at(0, 12), "Cell 3 line 12"),
        (at(0, 12, call="psum"), "Cell 3 line 12 in psum"),
        (at(0, None), "Running"),
        (RankPlace(rank=0, state="Running", process="stopped"), "Running, no answer"),
        (RankPlace(rank=0, state="Finished"), "Finished"),
        (
            RankPlace(
                rank=0,
                state="Running",
                cell="Cell",
                line=2,
                call="fit",
                frame="model.py:40 in loss",
                answered=True,
            ),
            "Cell line 2 in fit, model.py:40 in loss",
        ),
    ],
)
def test_a_place_is_said_in_words(place, words):
    assert grouped([place])[0].where == words


# ---------------------------------------------------------------------------- on a cluster


def heard(age: float, state: Phase = Phase.RUNNING) -> RankState:
    where: HeardPosition = {
        "cell": "Cell",
        "cell_line": 4,
        "doing": "step",
        "frame": None,
        "seconds": 60.0,
        "time": NOW - age,
    }
    return {**new_rank(1), "state": state, "where": where}


def test_what_a_rank_said_a_moment_ago_holds_and_goes_on():
    place = rank_place(heard(10), NOW)
    assert (place.rank, place.line, place.call, place.seconds) == (1, 4, "step", 70)
    assert place.answered


def test_a_rank_that_does_not_say_it_again_has_got_on():
    place = rank_place(heard(2 * timeouts.WHERE.seconds + 1), NOW)
    assert (place.state, place.line, place.answered) == ("Running", None, False)
    assert grouped([place])[0].where == "Running"


def test_a_rank_that_has_ended_is_nowhere():
    assert rank_place(heard(1, Phase.FINISHED), NOW).line is None
    assert rank_place(new_rank(0), NOW).state == "Waiting"


@pytest.mark.parametrize(
    ("state", "said"),
    [(Phase.RUNNING, "why"), (Phase.JOINED, "why"), (Phase.WAITING, None), (Phase.FINISHED, None)],
)
def test_why_a_rank_was_not_asked_matters_while_it_runs(state, said):
    assert rank_place(heard(10, state), NOW, "why").unasked == said
    assert rank_place(heard(10, state), NOW).unasked is None


def test_each_reason_is_said_once_with_its_ranks():
    reasons = [None, "a", "a", "b"]
    places = [
        RankPlace(rank=rank, state="Running", unasked=why) for rank, why in enumerate(reasons)
    ]
    assert notes(places) == [
        say.UNASKED(ranks="ranks 1 and 2", reason="a"),
        say.UNASKED(ranks="rank 3", reason="b"),
    ]
    assert notes(places[1:3]) == [say.UNASKED(ranks="the ranks", reason="a")]
    assert not notes(places[:1])


# ---------------------------------------------------------------------------- the wire


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_what_is_no_request_is_none(data):
    assert protocol.read_request(data) is None


def test_a_request_is_read_as_it_was_written():
    request: protocol.Request = {"version": 1, "number": 7, "ask": "where"}
    assert protocol.read_request(protocol.write(request).rstrip()) == request


def test_fields_of_a_later_version_are_left_out():
    entry = {"rank": 3, "state": "Running", "later": 1}
    assert RankPlace.from_json(entry).rank == 3  # type: ignore[arg-type]
