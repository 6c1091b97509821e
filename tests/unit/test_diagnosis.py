"""Why a job waits or failed, told from what real clusters gave.

The objects in ``recorded/`` are from a real cluster (Kubernetes 1.36, JobSet 0.12, Trainer 2.3, Kueue
0.16), cut to what may be read. Those that one machine can't give are written by hand: ``made-*.json``.
"""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    Event,
    Job,
    JobSet,
    Pod,
    TrainJob,
    Workload,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes import SECTIONS
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import (
    Seen,
    explain_api_error,
    judge,
    rank_ends,
)
from jupyter_jax_trainer.jobdir.failure import RankEnd, diagnose, summary
from jupyter_jax_trainer.messages import follow, jobs

RECORDED = Path(__file__).with_name("recorded")

CAUSES = {cause.id: cause for causes in SECTIONS.values() for cause in causes}


def told(state, cause, rank=None, others=0, **facts):
    """Return the state, the cause and its sentence; ``others`` pods run while some are kept."""
    reason = CAUSES[cause].say(facts)
    if rank is not None:
        reason = jobs.RANK_ENDED(rank=rank, how=reason)
    if others:
        also = follow.ONE_OTHER() if others == 1 else follow.OTHERS(count=others)
        reason = f"{reason}, {also}"
    return state, cause, reason


def refused(cause, **facts):
    """Return the sentence of a cause as the answer to a request."""
    sentence = CAUSES[cause].say(facts)
    end = "" if sentence.endswith("…") else "."
    return f"{sentence[0].upper()}{sentence[1:]}{end}"


EXPECTED = {
    "claim-not-found": told("Pending", "claim-missing", who="the pod", claim="training-data"),
    "claim-unbound": told("Pending", "claim-unbound", who="the pod", claim="unbound"),
    "crash-loop": told("Pending", "crash-loop", who="the pod", how=jobs.EXITED(code=3)),
    "deadline": told("Failed", "deadline", time="6 s"),
    "deleted-pod-later": told(
        "Failed",
        "failed",
        what="jobset failed due to reaching max number of restarts (first failed job: del-node-0)",
    ),
    "deleted-pod": told("Failed", "pod-deleted", rank=1),
    "env-secret-key-missing": told(
        "Pending", "key-missing", kind="Secret", name="half", key="token"
    ),
    "env-secret-missing": told("Pending", "secret-missing", name="wandb"),
    "env-secret-own": told("Pending", "payload"),
    "evicted-api-later": told(
        "Failed",
        "failed",
        what="jobset failed due to reaching max number of restarts (first failed job: evict-node-0)",
    ),
    "evicted-api": told("Failed", "drained", rank=1, node="node0"),
    "evicted-restart": told("Pending", "pods-coming", others=1, ranks="rank 1"),
    "evicted-storage": told(
        "Failed",
        "evicted-disk",
        rank=0,
        what="Pod ephemeral local storage usage exceeds the total limit of containers 10Mi",
    ),
    "exit-3": ("Failed", "exit", jobs.RANK_ENDED(rank=1, how=jobs.EXITED_IN_CELL(code=3))),
    "exit-abort": (
        "Failed",
        "exit",
        jobs.RANK_ENDED(rank=0, how=jobs.ENDED_BY_SIGNAL(number=11, name="SIGSEGV")),
    ),
    "exit-segv": (
        "Failed",
        "exit",
        jobs.RANK_ENDED(rank=0, how=jobs.ENDED_BY_SIGNAL(number=11, name="SIGSEGV")),
    ),
    "gated": told("Pending", "gated", who="the pod", gates="example.com/quota"),
    "image-invalid-name": told("Pending", "image-name", image="UPPER/case image"),
    "image-never": told("Pending", "image-not-on-node", image="team/jax:none"),
    "image-not-found": told("Pending", "image-missing", image="localhost:5599/team/jax:nope"),
    "image-rate-limit": told("Pending", "image-rate-limit", image="localhost:5599/limited/jax:1"),
    "image-registry-busy": told(
        "Pending",
        "image-registry-trouble",
        image="localhost:5599/broken/jax:1",
        said="503 Service Unavailable",
    ),
    "image-registry-refuses": told(
        "Pending", "image-unreachable", image="localhost:5598/team/jax:1"
    ),
    "image-unauthorised": told("Pending", "image-denied", image="localhost:5599/private/jax:1"),
    "image-unreachable": told(
        "Pending", "image-unreachable", image="registry.example.com/team/jax:1"
    ),
    "initializer-failed": told(
        "Failed", "initializer-failed", what="the dataset initializer", code="3"
    ),
    "job-refused": told(
        "Pending",
        "invalid",
        who="the job's parts",
        what='spec.template.spec.containers[0].volumeMounts[2].name: Not found: "nope"',
    ),
    "jobset-quota": told(
        "Pending",
        "quota",
        quota="counts",
        who="the job's parts",
        what="JobSets: 1 asked for, 0 of 0 used",
    ),
    "kueue-drops-patches": told("Pending", "kueue-drops-patches", time="14 s"),
    "kueue-held": told(
        "Queued", "kueue-inadmissible", queue="team", what="ClusterQueue diag is inactive"
    ),
    "kueue-inadmissible": told(
        "Queued", "kueue-inadmissible", queue="nowhere", what="LocalQueue nowhere doesn't exist"
    ),
    "kueue-pending": told(
        "Queued",
        "kueue-pending",
        queue="team",
        what="it takes 100m CPUs more than the queue has free (flavor diag-default)",
    ),
    "kueue-preempted": told(
        "Queued", "kueue-preempted", to="a job with higher priority", queue="team"
    ),
    "kueue-readmitted": told("Starting", "starting"),
    "kueue-suspended": told("Suspended", "suspended"),
    "kueue-too-large": told(
        "Queued",
        "kueue-too-large",
        queue="team",
        what="4 CPUs asked for, 300m in all (flavor diag-default)",
    ),
    "limit-range": told(
        "Pending",
        "limit-range",
        who="the pod",
        bound="maximum",
        resource="memory",
        per="Container",
        allowed="512Mi",
        asked="2Gi",
    ),
    "made-config": told(
        "Pending", "config", what='cannot find volume "x" to mount into container "node"'
    ),
    "made-configmap-env": told("Pending", "configmap-missing", name="settings"),
    "made-creating": told("Pending", "creating", who="the pod"),
    "made-disrupted": told("Failed", "disrupted", rank=1, what="Somebody: had to"),
    "made-evicted-memory": told(
        "Failed", "evicted", rank=0, what="The node was low on resource: memory"
    ),
    "made-gpus-in-use": told(
        "Pending",
        "no-accelerators",
        who="2 of 2 pods",
        why="0/3 nodes fit: 2 without nvidia.com/gpu free, 1 tainted (node-role.kubernetes.io/control-plane)",
    ),
    "made-image-denied-old-kubelet": told(
        "Pending", "image-denied", image="team/denied-not-found:1"
    ),
    "made-image-disk-full": told(
        "Pending", "image-disk-full", image="localhost:5599/private/jax:1"
    ),
    "made-image-platform": told("Pending", "image-platform", image="localhost:5599/private/jax:1"),
    "made-image": told(
        "Pending",
        "image",
        image="localhost:5599/private/jax:1",
        said="unexpected media type text/html",
    ),
    "made-initializing": told("Pending", "initializing", what="dataset initializer"),
    "made-jobset-silent": told("Pending", "jobset-silent", time="34 s"),
    "made-kueue-stopped": told(
        "Suspended", "kueue-stopped", what="exceeding the maximum number of re-queuing retries"
    ),
    "made-mount": told(
        "Pending", "mount", who="the pod", what='volume "data" : mount failed: exit status 32'
    ),
    "made-no-nodes": told("Pending", "no-nodes", who="2 of 2 pods"),
    "made-node-lost": told("Failed", "node-lost", rank=1, node="node0"),
    "made-node-refused": told(
        "Failed",
        "node-refused",
        rank=0,
        node="node0",
        what="Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 1900, capacity: 2000",
    ),
    "made-node-shutdown": told("Failed", "node-lost", rank=1, node="node0"),
    "made-node-silent": told("Starting", "node-silent", node="node0", who="1 of 2 pods"),
    "made-nodes-are-added": told("Pending", "nodes-are-added", who="2 of 2 pods"),
    "made-nodes-are-cordoned": told("Pending", "nodes-are-cordoned", who="2 of 2 pods"),
    "made-nodes-are-full": told(
        "Pending",
        "nodes-are-full",
        who="2 of 2 pods",
        why="0/2 nodes fit: 2 at their maximum number of pods",
    ),
    "made-not-started": told(
        "Failed", "not-started", rank=0, what="exec /bin/sh: argument list too long"
    ),
    "made-other-processor": told(
        "Pending", "other-processor", image="jupyter-jax-trainer-cpu:jax0.10.2-py3.11"
    ),
    "made-payload-lost": told("Pending", "payload-lost", name="own-jaxtrain", time="5 m 04 s"),
    "made-pulling": told("Pending", "pulling", image="team/jax:1", time="40 s"),
    "made-queued": told("Queued", "queued", queue="team-queue"),
    "made-runtime-unsupported": told(
        "Failed",
        "runtime-unsupported",
        what="runtime group kind not supported: ClusterTrainingRuntime.trainer.kubeflow.org",
    ),
    "made-start": told("Pending", "start", what="exec /bin/sh: argument list too long"),
    "made-tainted": told("Pending", "tainted", who="2 of 2 pods", taint="(nvidia.com/gpu)"),
    "made-trainer-silent": told("Pending", "trainer-silent", time="35 s"),
    "made-trainjob-deleted": told("Starting", "trainjob-deleted"),
    "made-unschedulable": told(
        "Pending",
        "unschedulable",
        who="2 of 2 pods",
        message="node(s) didn't match pod topology spread constraints",
    ),
    "made-volume-in-use": told("Pending", "volume-in-use", who="the pod"),
    "made-wrong-processor": told(
        "Failed", "wrong-processor", rank=0, image="jupyter-jax-trainer-cpu:jax0.10.2-py3.11"
    ),
    "mount-configmap-missing": told("Pending", "configmap-missing", name="no-such-map"),
    "mount-secret-missing": told("Pending", "secret-missing", name="no-such-secret"),
    "oom-restarts": told(
        "Starting",
        "started-again",
        ranks="rank 0",
        how=CAUSES["out-of-memory"].say({"limit": "its limit of 100Mi"}),
    ),
    "oom": told("Failed", "out-of-memory", rank=1, limit="its limit of 100Mi"),
    "pod-security": told(
        "Pending",
        "pod-security",
        level="restricted",
        who="the pod",
        what="allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
    ),
    "preempted-later": told(
        "Failed",
        "failed",
        what="jobset failed due to reaching max number of restarts (first failed job: low-node-0)",
    ),
    "preempted-winner": told(
        "Pending", "no-room", who="the pod", why="0/1 nodes have 14Gi memory free"
    ),
    "preempted": told("Failed", "preempted", rank=0),
    "priority-missing": told("Pending", "priority-missing", name="no-such-priority"),
    "quota-pods-partly": told(
        "Pending",
        "quota",
        others=2,
        quota="team",
        who="1 of 3 pods",
        what="requests.memory: 400Mi asked for, 800Mi of 1Gi used",
    ),
    "quota-pods-unset": told(
        "Pending",
        "quota-wants-amounts",
        quota="team",
        who="the pod",
        what="requests.cpu and requests.memory",
    ),
    "quota-pods": told(
        "Pending",
        "quota",
        quota="team",
        who="2 of 2 pods",
        what="requests.memory: 2Gi asked for, 0 of 1Gi used",
    ),
    "resumed": told("Starting", "starting"),
    "run-as-root": told("Pending", "root-image", image="jupyter-jax-trainer-cpu:jax0.10.2-py3.11"),
    "running": told("Starting", "starting"),
    "sandbox": told(
        "Pending",
        "sandbox",
        who="the pod",
        what='failed to get sandbox runtime: no runtime for "nope" is configured',
    ),
    "service-account-missing": told("Pending", "service-account-missing", name="no-such-account"),
    "start-no-program-loop-later": told(
        "Pending",
        "no-program",
        image="jupyter-jax-trainer-cpu:jax0.10.2-py3.11",
        program="nopython",
    ),
    "start-no-program": told(
        "Failed",
        "program-missing",
        rank=0,
        image="jupyter-jax-trainer-cpu:jax0.10.2-py3.11",
        program="nopython",
    ),
    "succeeded": ("Succeeded", None, None),
    "suspended-later": told("Suspended", "suspended"),
    "suspended": told("Suspended", "suspended"),
    "unschedulable-cpu": told("Pending", "no-room", who="the pod", why="0/1 nodes have 64 CPUs"),
    "unschedulable-gpu": told(
        "Pending", "no-accelerators", who="2 of 2 pods", why="0/1 nodes have nvidia.com/gpu"
    ),
    "unschedulable-memory-partly": told(
        "Pending", "no-room", others=2, who="2 of 4 pods", why="0/1 nodes have 9Gi memory free"
    ),
    "unschedulable-selector": told(
        "Pending", "no-such-nodes", who="the pod", labels="cloud.google.com/gke-tpu-topology=2x4"
    ),
}
REFUSED = {
    "unauthorized": refused("signed-out"),
    "forbidden": refused(
        "right-missing",
        verb="create",
        resource="trainjobs",
        where="in the namespace jaxtrain-diag-e",
    ),
    "forbidden-list": refused(
        "right-missing", verb="list", resource="pods", where="in the namespace jaxtrain-diag-e"
    ),
    "quota-trainjobs": refused(
        "quota", quota="jobs", who="the TrainJob", what="TrainJobs: 1 asked for, 0 of 0 used"
    ),
    "quota-secrets": refused(
        "quota", quota="jobs", who="the Secret", what="Secrets: 1 asked for, 0 of 0 used"
    ),
    "namespace-missing": refused("namespace-missing", name="jaxtrain-diag-none"),
    "kind-missing": refused("trainer-missing", resource="trainjobs"),
    "runtime-missing": refused("runtime-missing", name="nope"),
    "webhook-patch-env": refused(
        "webhook-refuses",
        name="validator.trainjob.trainer.kubeflow.org",
        who="the TrainJob",
        what="spec.runtimePatches: must not have envs for the dataset-initializer, model-initializer, node containers",
    ),
    "name-too-long": refused(
        "invalid",
        who="the TrainJob",
        what="Invalid value: metadata.name must be no more than 63 characters",
    ),
    "name-invalid": refused(
        "invalid",
        who="the TrainJob",
        what="[metadata.name: Invalid value: \"Upper\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and…",
    ),
    "wrong-type": refused(
        "webhook-refuses",
        name="defaulter.trainjob.trainer.kubeflow.org",
        who="the TrainJob",
        what="json: cannot unmarshal string into Go struct field Trainer.spec.trainer.numNodes of type int32",
    ),
    "bad-quantity": refused(
        "webhook-refuses",
        name="defaulter.trainjob.trainer.kubeflow.org",
        who="the TrainJob",
        what="quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "not-found": refused("not-found", kind="TrainJob", name="gone1"),
    "exists": refused("exists", kind="Secret", name="half"),
    "secret-too-large": refused("too-large", what="Too long: may not be more than 1048576 bytes"),
    "too-large": refused("too-large", what="Request entity too large: limit is 3145728"),
    "not-json": refused(
        "invalid",
        who="the TrainJob",
        what="the object provided is unrecognized (must be of type TrainJob): couldn't get version/kind; json parse error: invalid character 'n' looking…",
    ),
    "immutable": refused(
        "invalid", who="the TrainJob", what="spec.runtimeRef: Invalid value: field is immutable"
    ),
    "namespace-terminating": refused("namespace-ends", name="jaxtrain-diag-t"),
    "webhook-down": refused("webhook-down", name="hook.jaxtrain-diag.example", who="the TrainJob"),
    "policy": refused(
        "policy-refuses",
        name="jaxtrain-diag-pol",
        who="the TrainJob",
        what="jobs need a label team",
    ),
}


def read(name):
    return json.loads((RECORDED / f"{name}.json").read_text())


def seen_of(known, **changes):
    """Return what a recording shows."""
    lists = {"jobs": Job, "pods": Pod, "events": Event, "workloads": Workload, "others": Workload}
    made = {key: [kind(one) for one in known.get(key, [])] for key, kind in lists.items()}
    made |= {
        key: kind(known[key]) if known[key] else None
        for key, kind in (("trainjob", TrainJob), ("jobset", JobSet))
    }
    return Seen(**{**known, **made, **changes})


def recorded(name, **changes):
    return seen_of(read(name), **changes)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_cause_is_named(name):
    verdict = judge(recorded(name))
    assert (verdict.state, verdict.cause, verdict.reason) == EXPECTED[name]
    if verdict.reason is not None:
        assert len(verdict.reason) <= 160


def test_every_recording_is_expected_and_every_row_is_reached():
    names = {path.stem for path in RECORDED.glob("*.json")} - {"api-errors"}
    assert names == set(EXPECTED)
    reached = {cause for _, cause, _ in EXPECTED.values()}
    waits = {cause.id for causes in SECTIONS.values() for cause in causes if cause.match is None}
    # Tested below: what the workers say, and a TrainJob that is not there yet.
    others = {"pods-coming", "rendezvous", "joining", "trainjob-missing", "job-failed"}
    assert waits - reached <= others


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_of_the_api_become_sentences(name):
    [found] = [
        item
        for item in json.loads((RECORDED / "api-errors.json").read_text())
        if item.pop("name") == name
    ]
    sentence, hint = explain_api_error(**found)
    assert sentence == REFUSED[name]
    assert hint


@pytest.mark.parametrize(
    ("status", "message", "said"),
    [
        (429, "too many requests", refused("too-many-requests")),
        (504, "Gateway Timeout", refused("api-timeout")),
        (
            500,
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
            refused("api-timeout"),
        ),
        (503, "etcdserver: no leader", refused("api-down", what="etcdserver: no leader")),
        (
            409,
            "the object has been modified; please apply your changes to the latest version",
            refused("changed-meanwhile"),
        ),
        (403, "Forbidden", refused("right-missing", verb="create", resource="trainjobs")),
        (418, "teapot", refused("refused", who=follow.THE_TRAINJOB(), what="teapot")),
        (
            404,
            "the server could not find the requested resource",
            refused("trainer-missing", resource="trainjobs"),
        ),
        (
            500,
            'Internal error occurred: failed calling webhook "validator.trainjob.trainer.kubeflow.org": '
            'Post "https://a.b.svc:443/x?timeout=10s": context deadline exceeded',
            refused(
                "webhook-down",
                name="validator.trainjob.trainer.kubeflow.org",
                who=follow.THE_TRAINJOB(),
            ),
        ),
    ],
)
def test_other_refusals(status, message, said):
    assert explain_api_error(status, "", message, "create", "trainjobs")[0] == said


# -- ranks -------------------------------------------------------------------------------------


def ends(name, **changes):
    return {end.rank: end for end in rank_ends(recorded(name, **changes))}


@pytest.mark.parametrize(
    ("name", "exit", "kind"),
    [
        ("exit-3", 3, None),
        ("exit-segv", -11, None),
        ("oom", -9, "out-of-memory"),
        ("evicted-storage", -9, "evicted-disk"),
        ("start-no-program", 128, "program-missing"),
        ("succeeded", 0, None),
    ],
)
def test_the_end_of_a_rank(name, exit, kind):
    end = list(ends(name).values())[-1]
    assert (end.exit, end.kind, end.earlier, end.running) == (exit, kind, False, False)
    assert end.pod.endswith(f"-{end.pod[-5:]}") and end.uid and end.node == "node0"


def test_a_container_that_was_started_again_keeps_its_earlier_end():
    [end] = ends("oom-restarts").values()
    assert (end.exit, end.earlier, end.running, end.restarts) == (-9, True, True, 1)
    assert end.out_of_memory


@pytest.mark.parametrize("name", ["deleted-pod", "evicted-api", "exit-3", "oom"])
def test_pods_that_their_job_deletes_are_not_the_cause(name):
    found = ends(name)
    assert found[0].stopped and found[0].cause is None
    assert not found[1].stopped


@pytest.mark.parametrize("name", ["suspended-later", "deadline"])
def test_pods_that_end_with_their_job_were_deleted_by_nobody(name):
    assert all(end.stopped and end.cause is None for end in ends(name).values())


def test_the_last_version_of_pods_that_are_gone_still_tells_the_cause():
    before = recorded("evicted-api")
    assert not recorded("evicted-api-later").pods
    verdict = judge(recorded("evicted-api-later", pods=before.pods, jobs=before.jobs))
    assert verdict.cause == "drained"


def test_a_newer_pod_of_a_rank_counts():
    seen = recorded("resumed")
    assert len(seen.pods) == 4
    found = rank_ends(seen)
    assert [end.rank for end in found] == [0, 1]
    assert all(end.running and not end.stopped and end.restarts == 1 for end in found)


def test_what_the_cluster_says_of_a_rank_becomes_the_first_cause():
    end = ends("evicted-api")[1]
    lost = {"type": "XlaRuntimeError", "message": "connection closed by peer", "secondary": True}
    failure = diagnose(
        [
            RankEnd(rank=0, exit=1, order=1, error=lost, joined=True),
            RankEnd(rank=1, order=2, joined=True, stopped=True, cause=end.cause, hint=end.hint),
        ]
    )
    assert summary(failure) == told("Failed", "drained", rank=1, node="node0")[2]
    assert failure.kind == "cluster" and failure.hint == end.hint


# -- what a job does ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["Starting", "Waiting"], told("Starting", "starting")),
        (["Arrived", "Starting"], told("Starting", "rendezvous", ranks="rank 1")),
        (["Arrived", "Arrived"], told("Starting", "joining")),
        (["Running", "Joined"], told("Starting", "joining")),
        (["Running", "Running"], ("Running", None, None)),
        (["Finished", "Running"], ("Running", None, None)),
    ],
)
def test_what_the_ranks_say_tells_starting_from_running(states, expected):
    verdict = judge(recorded("running"), states)
    assert (verdict.state, verdict.cause, verdict.reason) == expected


def test_a_running_job_tells_of_a_silent_node():
    verdict = judge(recorded("made-node-silent"), ["Running", "Running"])
    assert (verdict.state, verdict.cause) == ("Running", "node-silent")


def test_a_sidecar_that_is_not_ready_does_not_make_its_node_a_silent_one():
    seen = recorded("made-node-silent")
    for pod in seen.pods:
        for condition in pod.json["status"]["conditions"]:
            if condition["type"] in ("Ready", "ContainersReady"):
                condition.update(status="False", reason="ContainersNotReady")
    assert judge(seen, ["Running", "Running"]).cause != "node-silent"


def test_no_trainjob_is_no_failure():
    verdict = judge(recorded("running", trainjob=None, jobs=[], pods=[], events=[]))
    assert (verdict.state, verdict.cause) == ("Pending", "trainjob-missing")


def test_without_the_jobset_a_failed_job_counts_unless_it_may_be_restarted():
    for most, failed in ((0, True), (2, False)):
        seen = recorded("exit-3", jobset=None, max_restarts=most)
        seen.trainjob.json["status"]["conditions"] = []
        assert (judge(seen).state == "Failed") == failed


def test_a_job_whose_pods_are_gone_gives_the_cluster_the_word():
    seen = recorded("deleted-pod", pods=[])
    verdict = judge(seen)
    assert (verdict.state, verdict.cause, verdict.reason) == told(
        "Failed", "job-failed", what="Job has reached the specified backoff limit"
    )


@pytest.mark.parametrize(
    "name",
    [
        "unschedulable-gpu",
        "mount-secret-missing",
        "image-not-found",
        "quota-pods",
        "sandbox",
        "made-volume-in-use",
    ],
)
def test_a_running_job_shows_no_stale_warning(name):
    stale, running = recorded(name), recorded("running")
    events = copy.deepcopy([*stale.events, *running.events])
    for event in events[: len(stale.events)]:
        thing = event.json["involvedObject"]
        others = running.pods if thing["kind"] == "Pod" else running.jobs
        thing["uid"] = others[0].uid
    assert running.pods
    seen = recorded("running", events=events)
    assert judge(seen, ["Running", "Running"]).reason is None
    assert judge(seen, ["Starting", "Starting"]).cause == "starting"


def test_events_of_a_namesake_are_left_out():
    seen = recorded("preempted")
    old = [event for event in seen.events if event.reason == "FailedCreate"]
    uids = {job.uid for job in seen.jobs}
    assert old and all(event.about.uid not in uids for event in old)
    assert judge(seen).cause == "preempted"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {
                "series": {"lastObservedTime": "1970-01-01T00:00:05.000000Z"},
                "eventTime": "1970-01-01T00:00:01Z",
            },
            5,
        ),
        ({"eventTime": "1970-01-01T00:00:04.5Z", "firstTimestamp": None}, 4.5),
        (
            {
                "eventTime": None,
                "firstTimestamp": "1970-01-01T00:00:01Z",
                "lastTimestamp": "1970-01-01T00:00:03Z",
            },
            3,
        ),
        ({"firstTimestamp": "1970-01-01T00:00:01Z"}, 1),
        ({"metadata": {"creationTimestamp": "1970-01-01T00:00:02Z"}}, 2),
        ({"eventTime": "soon"}, 0),
    ],
)
def test_the_time_of_an_event(event, expected):
    assert Event(event).time == expected


# -- hostile text ------------------------------------------------------------------------------

TEXT = st.text(max_size=200) | st.text("{}[]():;\"'\\\x1b\x07\u202e\n 0/1", max_size=300)


@settings(max_examples=150)
@given(st.sampled_from(sorted(EXPECTED)), TEXT, st.randoms(use_true_random=False))
def test_any_text_of_the_cluster_gives_one_harmless_line(name, text, chance):
    known = read(name)
    _spoil(known, text, chance)
    seen = seen_of(known)
    verdict = judge(seen)
    for said in (verdict.reason, verdict.hint, *(end.cause for end in rank_ends(seen))):
        if said is not None:
            assert said.isprintable() and len(said) <= 450


def _spoil(value, text, chance):
    """Replace some of the free texts."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if key in ("message", "image", "nodeName", "claimName") and chance.random() < 0.7:
            cut = chance.randrange(len(item or "") + 1)
            value[key] = (item or "")[:cut] + text
        elif isinstance(item, (dict, list)):
            _spoil(item, text, chance)


@settings(max_examples=150)
@given(st.sampled_from([0, 400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 504]), TEXT, TEXT)
def test_any_answer_of_the_api_gives_one_harmless_line(status, reason, message):
    sentence, hint = explain_api_error(status, reason, message, "create", "trainjobs")
    assert sentence.isprintable() and len(sentence) <= 210
    assert hint is None or hint.isprintable()


@pytest.mark.parametrize(
    "piece",
    [
        "Invalid value: {",
        " (",
        'admission webhook "a" denied the request: ',
        "0/1 nodes are available: 1 ",
        "desc = ",
        'exec: "',
        "is forbidden: ",
        "ValidatingAdmissionPolicy 'a' ",
        " ",
        ", 1 a",
    ],
)
def test_long_messages_take_no_time(piece):
    begun = time.monotonic()
    explain_api_error(422, "", piece * (1_000_000 // len(piece)), "create", "trainjobs")
    for name in ("unschedulable-gpu", "image-not-found", "env-secret-missing", "sandbox"):
        known = read(name)
        for pod in known["pods"]:
            for state in pod["status"].get("containerStatuses", []):
                state["state"] = {"waiting": {"reason": "ErrImagePull", "message": piece * 100_000}}
            for condition in pod["status"]["conditions"]:
                condition["message"] = piece * 100_000
        for event in known["events"]:
            event["message"] = piece * 100_000
        judge(seen_of(known))
    assert time.monotonic() - begun < 2
