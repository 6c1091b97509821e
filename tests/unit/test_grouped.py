"""The output of several ranks as one: equal lines once, each with the ranks that printed it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_jax_trainer.views import grouped
from jupyter_jax_trainer.views.grouped import Grouped, label

RUNNING, ENDED = {"state": "Running"}, {"state": "Succeeded"}
FIGURE = {"text/plain": "<Figure>", "image/png": "abc"}


class Rank:
    """A rank: what it has to say at each look."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def pump(self, view, snapshot):
        for one in self.looks.pop(0) if self.looks else ():
            view.log([one], b"") if isinstance(one, bytes) else view.show(*one)


class Shown:
    """A view that keeps what it is given."""

    def __init__(self):
        self.all = []

    def log(self, lines, unfinished):
        self.all += [line.decode() for line in lines]

    def show(self, *display):
        self.all.append(display)


@pytest.fixture
def now(monkeypatch):
    time = [100.0]
    monkeypatch.setattr(grouped.time, "monotonic", lambda: time[0])
    return time


def shown(*ranks, snapshot=ENDED):
    view = Shown()
    Grouped({number: Rank(items) for number, items in enumerate(ranks)}).pump(view, snapshot)
    return view.all


def test_equal_lines_are_shown_once_and_others_with_their_ranks():
    assert shown([b"a", b"b"], [b"a", b"c"], [b"a", b"b"]) == [
        "ranks 0–2: a",
        "ranks 0, 2: b",
        "rank 1: c",
    ]


def test_a_line_more_on_one_rank_parts_no_others():
    more, less = [b"begin", b"more", b"end"], [b"begin", b"end"]
    for ranks, name in (((more, less), "rank 0"), ((less, more), "rank 1")):
        assert shown(*ranks) == ["ranks 0–1: begin", f"{name}: more", "ranks 0–1: end"]


def test_output_waits_a_moment_for_that_of_others(now):
    view, ranks = Shown(), {0: Rank([b"a"], [], [b"b"]), 1: Rank([], [b"a"])}
    merged = Grouped(ranks)
    merged.pump(view, RUNNING)
    assert view.all == []
    merged.pump(view, RUNNING)
    assert view.all == ["ranks 0–1: a"]
    merged.pump(view, RUNNING)
    now[0] += 1.1
    merged.pump(view, RUNNING)
    assert view.all[1:] == ["rank 0: b"]


def test_figures_are_shown_once_where_they_are_equal_and_updated_in_their_place():
    first, second = ((FIGURE, {}, name, False) for name in ("x", "y"))
    new = {"text/html": "new"}
    found = shown(
        [first, (new, {}, "x", True)],
        [second, ({"text/html": "other"}, {}, "y", True)],
    )
    assert found == [
        "ranks 0–1:",
        (FIGURE, {}, "0-x", False),
        (new, {}, "0-x", True),
        ({"text/html": "other"}, {}, "0-x", True),
    ]


def test_displayed_text_is_lines():
    value = ({"text/plain": "[1\n 2]"}, {}, None, False)
    assert shown([value], [value]) == ["ranks 0–1: [1", "ranks 0–1:  2]"]


OUTPUT = st.lists(st.sampled_from([b"a", b"b", b"c", b""]), max_size=12)


@given(st.lists(st.tuples(OUTPUT, OUTPUT), min_size=1, max_size=4), st.booleans())
def test_nothing_is_lost_doubled_or_out_of_order(outputs, late):
    view = Shown()
    merged = Grouped({number: Rank(*looks) for number, looks in enumerate(outputs)})
    merged.pump(view, RUNNING if late else ENDED)
    merged.pump(view, ENDED)
    each = {number: [] for number in range(len(outputs))}
    for line in view.all:
        ranks, text = re.fullmatch(r"ranks? ([^:]+): (.*)", line).groups()
        for run in ranks.split(", "):
            low, _, high = run.partition("–")
            for number in range(int(low), int(high or low) + 1):
                each[number].append(text.encode())
    assert each == {number: a + b for number, (a, b) in enumerate(outputs)}


def test_labels():
    assert [label(one) for one in ([2], [0, 1, 2], [0, 3])] == [
        "rank 2:",
        "ranks 0–2:",
        "ranks 0, 3:",
    ]
