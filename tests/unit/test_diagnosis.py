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

from jupyter_jax_trainer.backends.kubernetes.api.observed import event_time
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes import SECTIONS
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import (
    Seen,
    explain_api_error,
    judge,
    rank_ends,
)
from jupyter_jax_trainer.jobdir.failure import RankEnd, diagnose, summary

RECORDED = Path(__file__).with_name("recorded")

EXPECTED = {
    "claim-not-found": (
        "Pending",
        "claim-missing",
        "the pod can't be scheduled: there is no PersistentVolumeClaim training-data",
    ),
    "claim-unbound": (
        "Pending",
        "claim-unbound",
        "the pod can't be scheduled: the PersistentVolumeClaim unbound has no volume yet",
    ),
    "crash-loop": (
        "Pending",
        "crash-loop",
        "crash loop in the pod: it ended with exit code 3, and waits for its restart",
    ),
    "deadline": (
        "Failed",
        "deadline",
        "took longer than its --timeout of 6 s",
    ),
    "deleted-pod-later": (
        "Failed",
        "failed",
        "cluster: jobset failed due to reaching max number of restarts (first failed job: del-node-0)",
    ),
    "deleted-pod": (
        "Failed",
        "pod-deleted",
        "rank 1 was terminated: its pod was deleted",
    ),
    "env-secret-key-missing": (
        "Pending",
        "key-missing",
        "the Secret half has no key token",
    ),
    "env-secret-missing": (
        "Pending",
        "secret-missing",
        "there is no Secret wandb in this namespace",
    ),
    "env-secret-own": (
        "Pending",
        "payload",
        "the job's code and data are being sent",
    ),
    "evicted-api-later": (
        "Failed",
        "failed",
        "cluster: jobset failed due to reaching max number of restarts (first failed job: evict-node-0)",
    ),
    "evicted-api": (
        "Failed",
        "drained",
        "rank 1 was evicted: its node node0 is being drained",
    ),
    "evicted-restart": (
        "Pending",
        "pods-coming",
        "waits for the pods of rank 1, while 1 other runs and waits",
    ),
    "evicted-storage": (
        "Failed",
        "evicted-disk",
        "rank 0 was evicted: Pod ephemeral local storage usage exceeds the total limit of containers 10Mi",
    ),
    "exit-3": (
        "Failed",
        "exit",
        "rank 1 ended with exit code 3 before the cell was finished",
    ),
    "exit-abort": (
        "Failed",
        "exit",
        "rank 0 was ended by signal 11 (SIGSEGV)",
    ),
    "exit-segv": (
        "Failed",
        "exit",
        "rank 0 was ended by signal 11 (SIGSEGV)",
    ),
    "gated": (
        "Pending",
        "gated",
        "the pod can't be scheduled yet: scheduling gate example.com/quota",
    ),
    "image-invalid-name": (
        "Pending",
        "image-name",
        "UPPER/case image is not a valid image name",
    ),
    "image-never": (
        "Pending",
        "image-not-on-node",
        "the image team/jax:none is not on the node, and the runtime does not allow pulling it",
    ),
    "image-not-found": (
        "Pending",
        "image-missing",
        "the image localhost:5599/team/jax:nope does not exist",
    ),
    "image-rate-limit": (
        "Pending",
        "image-rate-limit",
        "the registry's rate limit blocks pulls of the image localhost:5599/limited/jax:1",
    ),
    "image-registry-busy": (
        "Pending",
        "image-registry-trouble",
        "the registry of the image localhost:5599/broken/jax:1 returned an error: 503 Service Unavailable",
    ),
    "image-registry-refuses": (
        "Pending",
        "image-unreachable",
        "the registry of the image localhost:5598/team/jax:1 can't be reached",
    ),
    "image-unauthorised": (
        "Pending",
        "image-denied",
        "the registry denies access to the image localhost:5599/private/jax:1",
    ),
    "image-unreachable": (
        "Pending",
        "image-unreachable",
        "the registry of the image registry.example.com/team/jax:1 can't be reached",
    ),
    "initializer-failed": (
        "Failed",
        "initializer-failed",
        "the dataset initializer failed with exit code 3",
    ),
    "job-refused": (
        "Pending",
        "invalid",
        'the cluster rejects the job\'s parts as invalid: spec.template.spec.containers[0].volumeMounts[2].name: Not found: "nope"',
    ),
    "jobset-quota": (
        "Pending",
        "quota",
        "the quota counts has no room for the job's parts: JobSets: 1 asked for, 0 of 0 used",
    ),
    "kueue-drops-patches": (
        "Pending",
        "kueue-drops-patches",
        "Kueue admitted the job 14 s ago, but it is still suspended",
    ),
    "kueue-held": (
        "Queued",
        "kueue-inadmissible",
        "the queue team accepts no jobs: ClusterQueue diag is inactive",
    ),
    "kueue-inadmissible": (
        "Queued",
        "kueue-inadmissible",
        "the queue nowhere accepts no jobs: LocalQueue nowhere doesn't exist",
    ),
    "kueue-pending": (
        "Queued",
        "kueue-pending",
        "waits in the queue team: it takes 100m CPUs more than the queue has free (flavor diag-default)",
    ),
    "kueue-preempted": (
        "Queued",
        "kueue-preempted",
        "preempted by a job with higher priority; waits in the queue team again",
    ),
    "kueue-readmitted": (
        "Starting",
        "starting",
        "Python and JAX are starting",
    ),
    "kueue-suspended": (
        "Suspended",
        "suspended",
        "its pods are stopped until it is resumed",
    ),
    "kueue-too-large": (
        "Queued",
        "kueue-too-large",
        "the queue team can never admit it: 4 CPUs asked for, 300m in all (flavor diag-default)",
    ),
    "limit-range": (
        "Pending",
        "limit-range",
        "the namespace's LimitRange refuses the pod: maximum memory per Container is 512Mi, but 2Gi was requested",
    ),
    "made-config": (
        "Pending",
        "config",
        'the container can\'t be set up: cannot find volume "x" to mount into container "node"',
    ),
    "made-configmap-env": (
        "Pending",
        "configmap-missing",
        "there is no ConfigMap settings in this namespace",
    ),
    "made-creating": (
        "Pending",
        "creating",
        "the container of the pod is being created",
    ),
    "made-disrupted": (
        "Failed",
        "disrupted",
        "rank 1 was terminated by the cluster: Somebody: had to",
    ),
    "made-evicted-memory": (
        "Failed",
        "evicted",
        "rank 0 was evicted: The node was low on resource: memory",
    ),
    "made-gpus-in-use": (
        "Pending",
        "no-accelerators",
        "2 of 2 pods can't be scheduled: 0/3 nodes fit: 2 without nvidia.com/gpu free, 1 tainted (node-role.kubernetes.io/control-plane)",
    ),
    "made-image-denied-old-kubelet": (
        "Pending",
        "image-denied",
        "the registry denies access to the image team/denied-not-found:1",
    ),
    "made-image-disk-full": (
        "Pending",
        "image-disk-full",
        "the node has no disk space for the image localhost:5599/private/jax:1",
    ),
    "made-image-platform": (
        "Pending",
        "image-platform",
        "the image localhost:5599/private/jax:1 does not support the CPU architecture of the node",
    ),
    "made-image": (
        "Pending",
        "image",
        "the image localhost:5599/private/jax:1 can't be pulled: unexpected media type text/html",
    ),
    "made-initializing": (
        "Pending",
        "initializing",
        "waits for its dataset initializer",
    ),
    "made-jobset-silent": (
        "Pending",
        "jobset-silent",
        "JobSet has created no Jobs for 34 s",
    ),
    "made-kueue-stopped": (
        "Suspended",
        "kueue-stopped",
        "Kueue deactivated it: exceeding the maximum number of re-queuing retries",
    ),
    "made-mount": (
        "Pending",
        "mount",
        'the pod can\'t mount a volume: volume "data" : mount failed: exit status 32',
    ),
    "made-no-nodes": (
        "Pending",
        "no-nodes",
        "2 of 2 pods can't be scheduled: the cluster has no nodes at the moment",
    ),
    "made-node-lost": (
        "Failed",
        "node-lost",
        "rank 1 was lost with its node node0",
    ),
    "made-node-refused": (
        "Failed",
        "node-refused",
        "rank 0 was rejected by its node node0: Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 1900, capacity: 2000",
    ),
    "made-node-shutdown": (
        "Failed",
        "node-lost",
        "rank 1 was lost with its node node0",
    ),
    "made-node-silent": (
        "Starting",
        "node-silent",
        "the node node0 does not answer (1 of 2 pods)",
    ),
    "made-nodes-are-added": (
        "Pending",
        "nodes-are-added",
        "2 of 2 pods can't be scheduled yet: the cluster is adding nodes",
    ),
    "made-nodes-are-cordoned": (
        "Pending",
        "nodes-are-cordoned",
        "2 of 2 pods can't be scheduled: nodes are cordoned",
    ),
    "made-nodes-are-full": (
        "Pending",
        "nodes-are-full",
        "2 of 2 pods can't be scheduled: 0/2 nodes fit: 2 at their maximum number of pods",
    ),
    "made-not-started": (
        "Failed",
        "not-started",
        "rank 0 could not start: exec /bin/sh: argument list too long",
    ),
    "made-other-processor": (
        "Pending",
        "other-processor",
        "the image jupyter-jax-trainer-cpu:jax0.10.2-py3.11 does not support the CPU architecture of the node",
    ),
    "made-payload-lost": (
        "Pending",
        "payload-lost",
        "the job's Secret own-jaxtrain is missing after 5 m 04 s: its submission was interrupted, or the Secret was deleted",
    ),
    "made-pulling": (
        "Pending",
        "pulling",
        "the image team/jax:1 is being pulled (40 s)",
    ),
    "made-queued": (
        "Queued",
        "queued",
        "waits in the queue team-queue",
    ),
    "made-runtime-unsupported": (
        "Failed",
        "runtime-unsupported",
        "Kubeflow Trainer can't use the runtime: runtime group kind not supported: ClusterTrainingRuntime.trainer.kubeflow.org",
    ),
    "made-start": (
        "Pending",
        "start",
        "the container can't be started: exec /bin/sh: argument list too long",
    ),
    "made-tainted": (
        "Pending",
        "tainted",
        "2 of 2 pods can't be scheduled: the nodes are tainted (nvidia.com/gpu)",
    ),
    "made-trainer-silent": (
        "Pending",
        "trainer-silent",
        "Kubeflow Trainer has not acted on the job for 35 s",
    ),
    "made-trainjob-deleted": (
        "Starting",
        "trainjob-deleted",
        "its TrainJob is being deleted",
    ),
    "made-unschedulable": (
        "Pending",
        "unschedulable",
        "2 of 2 pods can't be scheduled: node(s) didn't match pod topology spread constraints",
    ),
    "made-volume-in-use": (
        "Pending",
        "volume-in-use",
        "the pod waits for a volume that is in use on another node",
    ),
    "made-wrong-processor": (
        "Failed",
        "wrong-processor",
        "rank 0 could not start: the image jupyter-jax-trainer-cpu:jax0.10.2-py3.11 does not support the CPU architecture of its node",
    ),
    "mount-configmap-missing": (
        "Pending",
        "configmap-missing",
        "there is no ConfigMap no-such-map in this namespace",
    ),
    "mount-secret-missing": (
        "Pending",
        "secret-missing",
        "there is no Secret no-such-secret in this namespace",
    ),
    "oom-restarts": (
        "Starting",
        "started-again",
        "rank 0 was restarted: it was killed: out of memory at its limit of 100Mi",
    ),
    "oom": (
        "Failed",
        "out-of-memory",
        "rank 1 was killed: out of memory at its limit of 100Mi",
    ),
    "pod-security": (
        "Pending",
        "pod-security",
        "PodSecurity restricted of the namespace refuses the pod: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
    ),
    "preempted-later": (
        "Failed",
        "failed",
        "cluster: jobset failed due to reaching max number of restarts (first failed job: low-node-0)",
    ),
    "preempted-winner": (
        "Pending",
        "no-room",
        "the pod can't be scheduled: 0/1 nodes have 14Gi memory free",
    ),
    "preempted": (
        "Failed",
        "preempted",
        "rank 0 was preempted by a pod with a higher priority",
    ),
    "priority-missing": (
        "Pending",
        "priority-missing",
        "there is no priority class no-such-priority",
    ),
    "quota-pods-partly": (
        "Pending",
        "quota",
        "the quota team has no room for 1 of 3 pods: requests.memory: 400Mi asked for, 800Mi of 1Gi used, while 2 others run and wait",
    ),
    "quota-pods-unset": (
        "Pending",
        "quota-wants-amounts",
        "the quota team refuses the pod: requests.cpu and requests.memory must be set",
    ),
    "quota-pods": (
        "Pending",
        "quota",
        "the quota team has no room for 2 of 2 pods: requests.memory: 2Gi asked for, 0 of 1Gi used",
    ),
    "resumed": (
        "Starting",
        "starting",
        "Python and JAX are starting",
    ),
    "run-as-root": (
        "Pending",
        "root-image",
        "the image jupyter-jax-trainer-cpu:jax0.10.2-py3.11 would run as root, which the runtime or the namespace forbids",
    ),
    "running": (
        "Starting",
        "starting",
        "Python and JAX are starting",
    ),
    "sandbox": (
        "Pending",
        "sandbox",
        'the node can\'t set up the pod: failed to get sandbox runtime: no runtime for "nope" is configured',
    ),
    "service-account-missing": (
        "Pending",
        "service-account-missing",
        "the service account no-such-account does not exist in this namespace",
    ),
    "start-no-program-loop-later": (
        "Pending",
        "no-program",
        "the image jupyter-jax-trainer-cpu:jax0.10.2-py3.11 has no nopython",
    ),
    "start-no-program": (
        "Failed",
        "program-missing",
        "rank 0 could not start: the image jupyter-jax-trainer-cpu:jax0.10.2-py3.11 has no nopython",
    ),
    "succeeded": (
        "Succeeded",
        None,
        None,
    ),
    "suspended-later": (
        "Suspended",
        "suspended",
        "its pods are stopped until it is resumed",
    ),
    "suspended": (
        "Suspended",
        "suspended",
        "its pods are stopped until it is resumed",
    ),
    "unschedulable-cpu": (
        "Pending",
        "no-room",
        "the pod can't be scheduled: 0/1 nodes have 64 CPUs",
    ),
    "unschedulable-gpu": (
        "Pending",
        "no-accelerators",
        "2 of 2 pods can't be scheduled: 0/1 nodes have nvidia.com/gpu",
    ),
    "unschedulable-memory-partly": (
        "Pending",
        "no-room",
        "2 of 4 pods can't be scheduled: 0/1 nodes have 9Gi memory free, while 2 others run and wait",
    ),
    "unschedulable-selector": (
        "Pending",
        "no-such-nodes",
        "the pod can't be scheduled: no suitable node is labelled cloud.google.com/gke-tpu-topology=2x4",
    ),
}
REFUSED = {
    "unauthorized": "The cluster does not accept your credentials.",
    "forbidden": "No permission to create trainjobs in the namespace jaxtrain-diag-e.",
    "forbidden-list": "No permission to list pods in the namespace jaxtrain-diag-e.",
    "quota-trainjobs": "The quota jobs has no room for the TrainJob: TrainJobs: 1 asked for, 0 of 0 used.",
    "quota-secrets": "The quota jobs has no room for the Secret: Secrets: 1 asked for, 0 of 0 used.",
    "namespace-missing": "The namespace jaxtrain-diag-none does not exist.",
    "kind-missing": "This cluster has no trainjobs: Kubeflow Trainer is missing or too old.",
    "runtime-missing": "There is no runtime nope in the cluster.",
    "webhook-patch-env": "The cluster's webhook validator.trainjob.trainer.kubeflow.org refuses the TrainJob: spec.runtimePatches: must not have envs for the dataset-initializer, model-initializer, node containers.",
    "name-too-long": "The cluster rejects the TrainJob as invalid: Invalid value: metadata.name must be no more than 63 characters.",
    "name-invalid": "The cluster rejects the TrainJob as invalid: [metadata.name: Invalid value: \"Upper\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and…",
    "wrong-type": "The cluster's webhook defaulter.trainjob.trainer.kubeflow.org refuses the TrainJob: json: cannot unmarshal string into Go struct field Trainer.spec.trainer.numNodes of type int32.",
    "bad-quantity": "The cluster's webhook defaulter.trainjob.trainer.kubeflow.org refuses the TrainJob: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'.",
    "not-found": "There is no TrainJob gone1.",
    "exists": "A Secret half already exists in this namespace.",
    "secret-too-large": "The cluster does not accept that much at once: Too long: may not be more than 1048576 bytes.",
    "too-large": "The cluster does not accept that much at once: Request entity too large: limit is 3145728.",
    "not-json": "The cluster rejects the TrainJob as invalid: the object provided is unrecognized (must be of type TrainJob): couldn't get version/kind; json parse error: invalid character 'n' looking…",
    "immutable": "The cluster rejects the TrainJob as invalid: spec.runtimeRef: Invalid value: field is immutable.",
    "namespace-terminating": "The namespace jaxtrain-diag-t is being deleted.",
    "webhook-down": "The cluster's webhook hook.jaxtrain-diag.example does not answer, so the TrainJob can't be created.",
    "policy": "The cluster's policy jaxtrain-diag-pol refuses the TrainJob: jobs need a label team.",
}


def recorded(name, **changes):
    return Seen(**{**json.loads((RECORDED / f"{name}.json").read_text()), **changes})


@pytest.mark.parametrize("name", EXPECTED)
def test_the_cause_is_named(name):
    verdict = judge(recorded(name), {})
    assert (verdict.state, verdict.cause, verdict.reason) == EXPECTED[name]
    if verdict.reason is not None:
        assert len(verdict.reason) <= 160


def test_every_recording_is_expected_and_every_row_is_reached():
    names = {path.stem for path in RECORDED.glob("*.json")} - {"api-errors"}
    assert names == set(EXPECTED)
    told = {cause for _, cause, _ in EXPECTED.values()}
    waits = {cause.id for causes in SECTIONS.values() for cause in causes if cause.match is None}
    # Tested below: what the workers say, and a TrainJob that is not there yet.
    others = {"pods-coming", "rendezvous", "joining", "trainjob-missing", "job-failed"}
    assert waits - told <= others


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
        (
            429,
            "too many requests",
            "The cluster is busy and accepts no more requests at the moment.",
        ),
        (504, "Gateway Timeout", "The cluster took too long to answer."),
        (
            500,
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
            "The cluster took too long to answer.",
        ),
        (503, "etcdserver: no leader", "The cluster has an internal error: etcdserver: no leader."),
        (
            409,
            "the object has been modified; please apply your changes to the latest version",
            "Somebody else changed it at the same time.",
        ),
        (403, "Forbidden", "No permission to create trainjobs."),
        (418, "teapot", "The cluster refuses the TrainJob: teapot."),
        (
            404,
            "the server could not find the requested resource",
            "This cluster has no trainjobs: Kubeflow Trainer is missing or too old.",
        ),
        (
            500,
            'Internal error occurred: failed calling webhook "validator.trainjob.trainer.kubeflow.org": '
            'Post "https://a.b.svc:443/x?timeout=10s": context deadline exceeded',
            "The cluster's webhook validator.trainjob.trainer.kubeflow.org does not answer, so the TrainJob "
            "can't be created.",
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
    verdict = judge(recorded("evicted-api-later", pods=before.pods, jobs=before.jobs), {})
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
    assert summary(failure) == "rank 1 was evicted: its node node0 is being drained"
    assert failure.kind == "cluster" and failure.hint == end.hint


# -- what a job does ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "state", "reason"),
    [
        (["Starting", "Waiting"], "Starting", "Python and JAX are starting"),
        (["Arrived", "Starting"], "Starting", "waits at the rendezvous for rank 1"),
        (["Arrived", "Arrived"], "Starting", "the ranks are connecting to each other"),
        (["Running", "Joined"], "Starting", "the ranks are connecting to each other"),
        (["Running", "Running"], "Running", None),
        (["Finished", "Running"], "Running", None),
    ],
)
def test_what_the_ranks_say_tells_starting_from_running(states, state, reason):
    verdict = judge(recorded("running"), {}, states)
    assert (verdict.state, verdict.reason) == (state, reason)


def test_a_running_job_tells_of_a_silent_node():
    verdict = judge(recorded("made-node-silent"), {}, ["Running", "Running"])
    assert (verdict.state, verdict.cause) == ("Running", "node-silent")


def test_a_sidecar_that_is_not_ready_does_not_make_its_node_a_silent_one():
    seen = recorded("made-node-silent")
    for pod in seen.pods:
        for condition in pod["status"]["conditions"]:
            if condition["type"] in ("Ready", "ContainersReady"):
                condition.update(status="False", reason="ContainersNotReady")
    assert judge(seen, {}, ["Running", "Running"]).cause != "node-silent"


def test_no_trainjob_is_no_failure():
    verdict = judge(recorded("running", trainjob=None, jobs=[], pods=[], events=[]), {})
    assert (verdict.state, verdict.cause) == ("Pending", "trainjob-missing")


def test_without_the_jobset_a_failed_job_counts_unless_it_may_be_restarted():
    seen = recorded("exit-3", jobset=None)
    seen.trainjob["status"]["conditions"] = []
    assert judge(seen, {"max_restarts": None}).state == "Failed"
    assert judge(seen, {"max_restarts": 2}).state != "Failed"


def test_a_job_whose_pods_are_gone_gives_the_cluster_the_word():
    seen = recorded("deleted-pod", pods=[])
    assert judge(seen, {}).reason == "cluster: Job has reached the specified backoff limit"


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
    pods = {pod["metadata"]["uid"] for pod in running.pods}
    for event in events[: len(stale.events)]:
        thing = event["involvedObject"]
        others = running.pods if thing["kind"] == "Pod" else running.jobs
        thing["uid"] = others[0]["metadata"]["uid"]
    assert pods
    seen = recorded("running", events=events)
    assert judge(seen, {}, ["Running", "Running"]).reason is None
    assert judge(seen, {}, ["Starting", "Starting"]).reason == "Python and JAX are starting"


def test_events_of_a_namesake_are_left_out():
    seen = recorded("preempted")
    old = [event for event in seen.events if event["reason"] == "FailedCreate"]
    uids = {job["metadata"]["uid"] for job in seen.jobs}
    assert old and all(event["involvedObject"]["uid"] not in uids for event in old)
    assert judge(seen, {}).cause == "preempted"


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
    assert event_time(event) == expected


# -- hostile text ------------------------------------------------------------------------------

TEXT = st.text(max_size=200) | st.text("{}[]():;\"'\\\x1b\x07\u202e\n 0/1", max_size=300)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(EXPECTED)), TEXT, st.randoms(use_true_random=False))
def test_any_text_of_the_cluster_gives_one_harmless_line(name, text, chance):
    known = json.loads((RECORDED / f"{name}.json").read_text())
    _spoil(known, text, chance)
    seen = Seen(**known)
    verdict = judge(seen, {})
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


@settings(max_examples=150, deadline=None)
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
        known = json.loads((RECORDED / f"{name}.json").read_text())
        for pod in known["pods"]:
            for state in pod["status"].get("containerStatuses", []):
                state["state"] = {"waiting": {"reason": "ErrImagePull", "message": piece * 100_000}}
            for condition in pod["status"]["conditions"]:
                condition["message"] = piece * 100_000
        for event in known["events"]:
            event["message"] = piece * 100_000
        judge(Seen(**known), {})
    assert time.monotonic() - begun < 2
