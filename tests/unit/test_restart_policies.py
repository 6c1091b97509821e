"""The runtime that is made for a job that may start again, and who may."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import restarts, trainjob
from jupyter_jax_trainer.jobdir.failure import (
    RankEnd,
    after_restarts,
    diagnose,
    may_run_again,
    summary,
)
from jupyter_jax_trainer.worker.exceptions import TRY_AGAIN

KEYS = st.sampled_from(["backoffLimit", "podFailurePolicy", "restartPolicy", "containers", "other"])
PART = st.dictionaries(KEYS, st.integers(0, 9), max_size=3)


@st.composite
def replicated(draw: st.DrawFn) -> dict[str, Any]:
    """Make a replicated Job; some lack parts, as those do that a platform engineer wrote by hand."""
    found: dict[str, Any] = {
        "name": draw(st.sampled_from(["node", "dataset-initializer", "launcher"]))
    }
    if draw(st.booleans()):
        job: dict[str, Any] = draw(PART)
        if draw(st.booleans()):
            job["template"] = {"spec": draw(PART)} if draw(st.booleans()) else {}
        found["template"] = {"spec": job}
    return found


@st.composite
def runtimes(draw: st.DrawFn) -> TrainingRuntime:
    job_set: dict[str, Any] = {"replicatedJobs": draw(st.lists(replicated(), max_size=3))}
    if draw(st.booleans()):
        job_set["failurePolicy"] = {
            "maxRestarts": draw(st.integers(0, 9)),
            "rules": [{"name": "x"}],
        }
    spec = {"mlPolicy": {"jax": {}}, "template": {"spec": job_set}}
    return TrainingRuntime({"metadata": {"name": "any"}, "spec": spec})


@given(runtimes(), st.integers(1, 1000))
def test_the_copy_differs_in_its_policies_alone(runtime, most):
    before = copy.deepcopy(runtime)
    made = restarts.spec_from(runtime, most)
    assert runtime == before
    assert made.json["mlPolicy"] == runtime.spec.json["mlPolicy"]
    job_set, was = made.json["template"]["spec"], runtime.job_set.json
    assert job_set["failurePolicy"]["maxRestarts"] == most
    for new, old in zip(job_set["replicatedJobs"], was["replicatedJobs"], strict=True):
        if old["name"] != "node":
            assert new == old
            continue
        job = new["template"]["spec"]
        assert job["backoffLimit"] == 0 and job["template"]["spec"]["restartPolicy"] == "Never"
        kept = {"containers", "other"}
        old_pod = old.get("template", {}).get("spec", {}).get("template", {}).get("spec", {})
        for key in kept & old_pod.keys():
            assert job["template"]["spec"][key] == old_pod[key]
    again = TrainingRuntime({"spec": made.json})
    assert restarts.spec_from(again, most) == made  # one made of a made one is the same


def fails_for_good(code: int, *, disrupted: bool = False) -> bool:
    """Read the policy as the Job controller does: the first rule that fits."""
    job_set = {"replicatedJobs": [{"name": "node"}]}
    made = restarts.spec_from(TrainingRuntime({"spec": {"template": {"spec": job_set}}}), 1)
    (node,) = made.json["template"]["spec"]["replicatedJobs"]
    for rule in node["template"]["spec"]["podFailurePolicy"]["rules"]:
        if "onPodConditions" in rule:
            fits = disrupted
        else:
            assert rule["onExitCodes"]["operator"] == "NotIn"
            assert len(rule["onExitCodes"]["values"]) <= 255
            fits = code != 0 and code not in rule["onExitCodes"]["values"]
        if fits:
            return str(rule["action"]) == "FailJob"
    return False


@given(st.integers(1, 192), st.booleans())
def test_the_cluster_and_the_card_judge_an_exit_alike(code, joined):
    signal_or_code = 128 - code if code > 128 else code
    failure = diagnose([RankEnd(rank=0, exit=signal_or_code, order=1, joined=joined)])
    if code != 128:  # "no signal": a container that could not be started
        assert fails_for_good(code) is not may_run_again(failure)
    assert not fails_for_good(code, disrupted=True)


@pytest.mark.parametrize(
    ("end", "again"),
    [
        ({"exit": -9}, True),
        ({"exit": -9, "out_of_memory": True}, True),
        ({"exit": 143, "cause": "was evicted: the node is short of memory"}, True),
        ({"exit": TRY_AGAIN, "error": {"type": "XlaRuntimeError", "secondary": True}}, True),
        ({"exit": TRY_AGAIN, "error": {"type": "SystemExit", "secondary": False}}, True),
        # It had said so, and was too slow to leave by itself.
        ({"exit": -9, "error": {"type": "SystemExit", "secondary": False, "status": 75}}, True),
        ({"exit": -9, "error": {"type": "SystemExit", "secondary": False, "status": 3}}, False),
        ({"exit": 1, "error": {"type": "ValueError", "secondary": False}}, False),
        ({"exit": 1, "error": {"type": "MemoryError", "secondary": False}}, False),
        ({"exit": 3}, False),
        ({"exit": 0}, False),
        ({"exit": None}, False),
    ],
)
def test_who_starts_again(end, again):
    if "error" in end:
        end = {**end, "error": {"message": "m", "traceback": "", "hint": None, **end["error"]}}
    failure = diagnose([RankEnd(rank=0, order=1, joined=True, **end)])
    assert may_run_again(failure) is again
    told = summary(failure)
    assert summary(after_restarts(failure, 0)) == told
    assert ("after 2 restarts" in summary(after_restarts(failure, 2))) is again


def test_the_trainjob_names_the_runtime_of_its_own():
    manifest = {
        "name": "fit",
        "uid": "0123456789abcdef",
        "plan": {"own_runtime": {"mlPolicy": {}}, "namespace": "team"},
    }
    made = restarts.runtime_of(manifest)
    assert made is not None
    assert made.name == trainjob.own_name(manifest) == "fit-01234567"
    other = TrainingRuntime({"metadata": {"name": "jax-cpu"}})
    assert restarts.is_own(made) and not restarts.is_own(other)
    assert restarts.runtime_of({**manifest, "plan": {}}) is None
