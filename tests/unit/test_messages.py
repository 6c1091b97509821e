"""What ranks say is taken in its form alone, and others' results are left to their makers."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_jobs import made_elsewhere, make_job

from jupyter_jax_trainer.backends.kubernetes.follow import fetch, followed, messages
from jupyter_jax_trainer.backends.kubernetes.follow.ranks import Ranks
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.jobdir.summary import results_text
from jupyter_jax_trainer.options.spec import JobSpec

DATA = b"x" * 5000
SHA = hashlib.sha256(DATA).hexdigest()
HELD = {"port": 1, "size": len(DATA), "sha256": SHA, "seconds": 60.0}
ERROR = {
    "type": "E",
    "message": "m",
    "traceback": "t",
    "cell": "Cell",
    "cell_line": None,
    "secondary": False,
    "hint": None,
    "time": 1.0,
}
SOUND: list[tuple[str, dict[str, Any]]] = [
    ("result_held", HELD),
    ("result_stored", {"url": "/x", "size": 1, "sha256": SHA}),
    ("result_part", {"index": 0, "count": 1, "size": 1, "sha256": SHA, "data": "eA=="}),
    (
        "results",
        {
            "results": [
                {"name": "x", "type": "int", "size": 8, "format": "plain"},
                {"name": "y", "error": "never set"},
            ]
        },
    ),
    ("error", ERROR),
    ("where", {"cell": "Cell", "cell_line": 3, "doing": None}),
    ("reports", {"reports": [{"time": 1.0, "step": 1, "total": None, "values": {"loss": "nan"}}]}),
    ("finished", {}),
    ("running", {"size": None, "sha256": 5}),
]
ODD: list[tuple[str, dict[str, Any]]] = [
    *(
        ("result_held", {**HELD, name: value})
        for name, value in [
            ("sha256", None),
            ("sha256", "0"),
            ("sha256", SHA.upper()),
            ("size", "1"),
            ("size", -1),
            ("size", 1 << 70),
            ("port", 0),
            ("port", 1 << 16),
            ("seconds", float("nan")),
            ("seconds", float("inf")),
            ("seconds", None),
        ]
    ),
    ("result_held", {}),
    ("result_part", {"index": 0, "count": 10**12, "size": 1, "sha256": SHA, "data": ""}),
    ("result_stored", {"size": 1}),
    *(
        ("results", {"results": odd})
        for odd in [
            5,
            None,
            {},
            [5],
            [{}],
            [{"name": "x"}],
            [{"name": "x", "type": "int"}],
            [{"name": "x", "type": "int", "size": "8"}],
            [{"name": "x", "error": 5}],
            [{"name": "x", "type": "int", "size": float("nan")}],
        ]
    ),
    ("error", {**ERROR, "secondary": None}),
    ("error", {"type": "E", "message": "m"}),
    ("where", {"cell": "Cell", "cell_line": "3"}),
    ("reports", {"reports": [[1.0, 1]]}),
    ("reports", {"reports": [{"step": 1, "total": "x", "values": {}, "time": 1.0}]}),
]


@pytest.fixture
def directory(home) -> JobDir:
    ranks = [{**new_rank(0), "pod": "fit-node-0-0-x"}]
    return make_job("fit", "Running", spec=JobSpec(nodes=1), results=None, ranks=ranks)


def told(directory: JobDir, kind: str, message: dict[str, Any]) -> Ranks:
    ranks = Ranks(directory, 1, threading.RLock(), print)
    ranks.take(0, {"kind": kind, **message}, 0)
    ranks.record._save_now()
    return ranks


@pytest.mark.parametrize(("kind", "message"), SOUND)
def test_what_workers_say_is_taken(directory, kind, message):
    told(directory, kind, message)
    assert "can't be read" not in "".join(event["message"] for event in Job(directory).events())


@pytest.mark.parametrize(("kind", "message"), ODD)
def test_what_has_another_form_is_left_out_and_said(directory, kind, message):
    ranks = told(directory, kind, message)
    assert (
        ranks.kept.held is None and ranks.kept.stored is None and ranks.kept.ends[0].error is None
    )
    assert [event["message"] for event in Job(directory).events()] == [
        "a record can't be read; left out"
    ]
    assert results_text(json.loads(directory.state.read_text())["results"]) == ""
    assert directory.read_state() is not None


@settings(deadline=None, max_examples=500)
@given(
    st.sampled_from([kind for kind, _ in SOUND]),
    st.dictionaries(
        st.sampled_from(sorted({name for _, message in SOUND for name in message})),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(
                    st.sampled_from(["name", "type", "size", "error"]), inner, max_size=3
                )
            ),
            max_leaves=5,
        ),
    ),
)
def test_any_message_has_the_form_or_not(kind, message):
    if messages.fits(kind, message) and kind == "results":
        results_text(message["results"])


# ---------------------------------------------------------------------------- results of others


class Pod:
    """A pod that holds results; it notes what it was asked for."""

    def __init__(self) -> None:
        self.wishes: list[str] = []

    def forward(self, pod: str, port: int) -> Pod:
        return self

    def __enter__(self) -> Pod:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def settimeout(self, seconds: float) -> None: ...

    def sendall(self, wish: bytes) -> None:
        self.wishes.append("done" if wish.endswith(b" done\n") else "asked")
        self.left = DATA

    def recv(self, most: int) -> bytes:
        piece, self.left = self.left[:most], self.left[most:]
        return piece


def fetched(directory: JobDir, pod: Pod, **more: Any) -> followed.Followed:
    """Look once at a job that holds results, and wait for what that begins."""
    manifest = directory.read_manifest()
    plan = {**manifest["plan"], "namespace": "ns", "runs_once": True}
    files.write_json(directory.manifest, {**manifest, "frame_key": "k" * 64, "plan": plan})
    pod.trainer = lambda *_: ""  # type: ignore[attr-defined]
    found = followed.Followed(directory, -1, pod)  # type: ignore[arg-type]
    found.ranks.take(0, {"kind": "result_held", **HELD, **more}, 0)
    found._fetch_held()
    if found._fetching is not None:
        found._fetching.join(10)
    return found


def test_the_results_of_ones_own_job_are_fetched_and_the_pod_may_go(directory):
    pod = Pod()
    fetched(directory, pod)
    assert pod.wishes == ["asked", "done"] and directory.result.read_bytes() == DATA


def test_who_only_looks_at_a_job_takes_nothing_and_ends_nothing(directory):
    pod = Pod()
    found = fetched(made_elsewhere(directory), pod)
    assert pod.wishes == [] and not directory.result.exists()
    assert "not trusted" in directory.events.read_text()
    table = fetch.settle(directory, [{"name": "x", "type": "int", "size": 1}], None)
    assert "not trusted" in table[0]["error"]
    Job(directory).trust()  # while they are held
    found._fetch_held()
    assert found._fetching is not None
    found._fetching.join(10)
    assert pod.wishes == ["asked"] and directory.result.read_bytes() == DATA
    assert "whoever submitted it" in found._fetching.doing


def test_a_pod_of_somebody_else_is_never_told_that_it_may_go(directory):
    Job(made_elsewhere(directory)).trust()
    pod = Pod()
    fetched(directory, pod)
    fetched(directory, pod)  # the next follower finds them here
    assert pod.wishes == ["asked"] and directory.result.read_bytes() == DATA


def test_the_administrator_forbids_to_fetch_them(directory, monkeypatch):
    Job(made_elsewhere(directory)).trust()
    monkeypatch.setenv("JAXTRAIN_ALLOW_FOREIGN_RESULTS", "0")
    pod = Pod()
    fetched(directory, pod)
    assert pod.wishes == [] and not directory.result.exists()


def test_somebody_elses_results_have_a_bound(directory):
    Job(made_elsewhere(directory)).trust()
    pod = Pod()
    fetched(directory, pod, size=fetch._MOST_OF_OTHERS + 1)
    assert pod.wishes == [] and "no more than" in directory.events.read_text()


def test_results_that_the_disk_has_no_room_for_are_not_begun(directory, monkeypatch):
    monkeypatch.setattr(
        fetch.shutil, "disk_usage", lambda _: fetch.shutil._ntuple_diskusage(9, 8, 1)
    )
    pod = Pod()
    fetched(directory, pod, seconds=0.1)
    assert pod.wishes == [] and "1 B are free" in directory.events.read_text()
