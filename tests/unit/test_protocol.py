"""The protocol of pages is typed twice, in Python and in TypeScript, and both say the same."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from jupyter_jax_trainer.backends import base
from jupyter_jax_trainer.jobdir import records, rows, state
from jupyter_jax_trainer.profiles import summary
from jupyter_jax_trainer.queries import protocol
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.trust.policy import Trust

SOURCES = Path(__file__).parents[2] / "labextension/src"
# By the names of the interfaces; what a page has no use for may be missing there.
SAME: dict[str, tuple[type, set[str]]] = {
    "Row": (rows.Row, set()),
    "Progress": (state.ProgressState, set()),
    "SessionState": (rows.SessionState, set()),
    "SessionOf": (rows.SessionOf, set()),
    "ShownVariable": (protocol.ShownVariable, set()),
    "ShownSave": (protocol.ShownSave, set()),
    "SessionDetail": (protocol.SessionDetail, set()),
    "SessionLook": (protocol.SessionLook, set()),
    "JobState": (
        state.JobState,
        {
            "restarts",
            "paused_at",
            "submitting",
            "not_finite",
            "usage",
            "tight",
            "warnings",
            "no_channel",
            "cell",
        },
    ),
    "ProfileState": (state.ProfileState, set()),
    "SharedOperation": (summary.SharedOperation, set()),
    "Allocation": (summary.Allocation, set()),
    "RankSummary": (summary.RankSummary, set()),
    "ProfileSummary": (protocol.ShownProfile, set()),
    "Rank": (state.RankState, {"where", "compiled", "spent", "pace"}),
    "Failure": (state.FailureState, {"log", "container", "hint"}),
    "Detail": (protocol.Detail, set()),
    "Spending": (protocol.Spending, set()),
    "LateRank": (protocol.LateRank, set()),
    "CacheUse": (protocol.CacheUse, set()),
    "Point": (records.Metric, {"frame"}),
    "JobEvent": (records.Event, {"frame"}),
    "Course": (protocol.Course, set()),
    "CourseLine": (protocol.CourseLine, set()),
    "JobSummary": (protocol.JobSummary, set()),
    "Place": (protocol.Place, set()),
    "PlaceGroup": (protocol.PlaceGroup, set()),
    "RankPlaces": (protocol.RankPlaces, set()),
    "Finding": (protocol.FindingRecord, set()),
    "Runtime": (protocol.RuntimeRecord, set()),
    "Queue": (base.Queue, set()),
    "Kueue": (base.Queues, set()),
    "Option": (protocol.OptionRecord, set()),
    "LineError": (protocol.LineError, set()),
    "Amounts": (protocol.Amounts, set()),
    "Line": (protocol.Line, set()),
}

# What is said on the WebSocket, besides the `id` of what it answers.
SAID: dict[str, type] = {
    "LogState": protocol.LogState,
    "Hits": protocol.Hits,
    "Hit": protocol.Hit,
    "FullLine": protocol.FullLine,
    "Found": protocol.Found,
    "Here": protocol.Here,
}


@pytest.fixture(scope="module")
def text():
    return "\n".join(path.read_text() for path in sorted(SOURCES.rglob("*.ts")))


def fields(text: str, interface: str) -> list[set[str]]:
    """Return the fields of the interfaces of a name: a chart has lines, too."""
    found = re.findall(rf"^export interface {interface} {{\n(.*?)^}}", text, re.M | re.S)
    return [set(re.findall(r"^  (?:readonly )?(\w+)\??:", one, re.M)) for one in found]


@pytest.mark.parametrize("interface", SAME)
def test_an_interface_has_the_fields_of_its_type(interface, text):
    kind, unused = SAME[interface]
    here = set(typing.get_type_hints(kind))
    assert unused <= here
    assert here - unused in fields(text, interface)


@pytest.mark.parametrize("interface", SAID)
def test_a_message_has_the_fields_of_its_type(interface, text):
    assert {"id", *typing.get_type_hints(SAID[interface])} in fields(text, interface)


def words(text: str, union: str) -> set[str]:
    (found,) = re.findall(rf"^export type {union} =(.*?);", text, re.M | re.S)
    return set(re.findall(r"'([^']+)'", found))


def test_the_unions_have_the_same_words(text):
    assert words(text, "State") == {*State, rows.DAMAGED}
    assert words(text, "Action") == {*typing.get_args(rows.Action), "detach", "profile"}
    assert words(text, "Trust") == {*Trust}
