"""JAXJobs that were converted run on the cluster: the old variables mean what they meant."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path

import pytest
import yaml
from harness import eventually

from cluster.jobs import PATIENCE
from cluster.made_runtimes import image
from jupyter_jax_trainer.backends.kubernetes.jaxjob import convert

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "jaxjobs.yaml"
RESTRICTED = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip


def jaxjob(name, namespace, code, **more):
    """Give a JAXJob in the form of the training operator's own examples."""
    policy = more.pop("policy", {})
    container = {
        "name": "jax", "image": image(namespace.cluster), "command": ["python3", "-c", code],
        "imagePullPolicy": "IfNotPresent", "securityContext": RESTRICTED,
        "ports": [{"containerPort": 6666, "name": "jaxjob-port"}],
        "env": [{"name": "JAX_PLATFORMS", "value": "cpu"}], **more.pop("container", {}),
    }  # fmt: skip
    pod = {"containers": [container], **more.pop("pod", {})}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "JAXJob",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": {"runPolicy": policy, "jaxReplicaSpecs": {"Worker": {
            "replicas": 2, "restartPolicy": "Never", **more, "template": {"spec": pod}}}},
    }  # fmt: skip


def apply(namespace, job, runtime=None):
    for document in convert(job, runtime).documents:
        namespace("apply", "--server-side", "-f", "-", stdin=document)


def log(namespace, job, rank=0):
    (pod,) = [one for one in namespace.pods(job)
              if one["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(rank)]
    return namespace("logs", pod["metadata"]["name"])


@pytest.mark.parametrize("runtime", [None, "jax-cpu"])
def test_the_examples_of_the_docs_run(namespace, runtime):
    """They use the variables of the training operator, which mean what they meant."""
    jobs = list(yaml.safe_load_all(EXAMPLES.read_text()))
    for job in jobs:
        container = job["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        assert container["image"] == image(namespace.cluster)
        apply(namespace, job, runtime)
    for job, said in zip(jobs, ("ranks [0, 1]", "w 3.0"), strict=True):
        name = job["metadata"]["name"]
        namespace.until_condition(name, "Complete", PATIENCE)
        assert said in log(namespace, name) and said in log(namespace, name, 1)


def test_volumes_a_second_container_and_the_end_of_time(namespace):
    job = jaxjob(
        "more", namespace, "import time; print(open('/v/said').read(), flush=True); time.sleep(600)",
        policy={"activeDeadlineSeconds": 25},
        container={"volumeMounts": [{"name": "v", "mountPath": "/v"}], "workingDir": "/v"},
        pod={
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [{
                "name": "say", "image": image(namespace.cluster), "command": ["sh", "-c", "echo it was said > /v/said"],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}], "securityContext": RESTRICTED,
            }],
        },
    )  # fmt: skip
    apply(namespace, job)
    found = namespace.until_condition("more", "Failed", PATIENCE)
    assert any(one.get("reason") == "DeadlineExceeded" for one in found["status"]["conditions"])


@pytest.mark.parametrize(("policy", "code", "attempts"), [
    ("OnFailure", 3, 2), ("ExitCode", 3, 1), ("ExitCode", 137, 2), ("Never", 3, 1),
])
def test_how_often_it_begins_anew(namespace, policy, code, attempts):
    """A job that always fails has as many attempts as its policy says."""
    job = jaxjob("fails", namespace, f"import os; os._exit({code})", restartPolicy=policy,
                 policy={"backoffLimit": 1}, replicas=1)  # fmt: skip
    apply(namespace, job)
    namespace.until_condition("fails", "Failed", PATIENCE)
    jobset = namespace.get("jobset", "fails")
    assert jobset["status"].get("restarts", 0) == attempts - 1


def test_what_is_printed_can_be_applied(namespace, tmp_path):
    from jupyter_jax_trainer.cli import main

    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(jaxjob("file", namespace, "print('hello', flush=True)", replicas=1)))
    out = tmp_path / "out.yaml"
    with out.open("w") as stream, contextlib.redirect_stdout(stream):
        assert main(["convert", str(file)]) == 0
    namespace("apply", "--server-side", "-f", str(out))
    namespace.until_condition("file", "Complete", PATIENCE)
    assert "hello" in log(namespace, "file")


# What the twenty differ in: the worker, the container, the pod, and the run policy.
VARIED = [
    {},
    {"replicas": 1},
    {"replicas": 5, "restartPolicy": "OnFailure"},
    {"restartPolicy": "Always", "policy": {"backoffLimit": 4}},
    {"restartPolicy": "ExitCode", "policy": {"backoffLimit": 0}},
    {"policy": {"activeDeadlineSeconds": 600, "cleanPodPolicy": "All"}},
    {"policy": {"ttlSecondsAfterFinished": 60, "cleanPodPolicy": "None"}},
    {"policy": {"schedulingPolicy": {"queue": "gpus", "minAvailable": 2}}},
    {"container": {"command": ["sh", "-c"], "args": ["python3 -c 'print(1)'"]}},
    {"container": {"workingDir": "/tmp", "imagePullPolicy": "Always"}},
    {"container": {"env": [{"name": "A", "value": "1"},
                           {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}},
    {"container": {"envFrom": [{"secretRef": {"name": "keys", "optional": True}}]}},
    {"container": {"resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}}},
    {"container": {"resources": {"limits": {"nvidia.com/gpu": "2"}}},
     "pod": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}},
    {"container": {"resources": {"limits": {"google.com/tpu": "4"}}},
     "pod": {"nodeSelector": {"cloud.google.com/gke-tpu-topology": "2x4"}}},
    {"container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
     "pod": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}},
    {"container": {"livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 30}}},
    {"pod": {"serviceAccountName": "default", "priorityClassName": "", "hostNetwork": False}},
    {"pod": {"schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 5,
             "dnsPolicy": "ClusterFirst"}},
    {"pod": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}]}}}},
]  # fmt: skip


def within(given, found):
    """Tell whether all that is given is in what the cluster has, which adds its defaults."""
    if isinstance(given, dict):
        return all(name in found and within(value, found[name]) for name, value in given.items())
    if isinstance(given, list):
        return all(any(within(one, other) for other in found) for one in given)
    return given == found


def jobsets(namespace):
    return {item["metadata"]["name"]: item for item in namespace.get("jobsets")["items"]}


def test_twenty_varied_jobs_are_what_they_were(namespace):
    """The cluster takes each of them, and makes of it what the training operator made."""
    assert len(VARIED) == 20
    jobs = {}
    for number, change in enumerate(VARIED):
        policy = {"suspend": True, **change.get("policy", {})}  # no pod has to run for this
        jobs[f"job-{number}"] = jaxjob(
            f"job-{number}", namespace, "print(1)", **copy.deepcopy({**change, "policy": policy})
        )
    for job in jobs.values():
        apply(namespace, job)
    made = eventually(lambda: len(found := jobsets(namespace)) == len(jobs) and found)
    for name, job in jobs.items():
        worker = job["spec"]["jaxReplicaSpecs"]["Worker"]
        (replicated,) = made[name]["spec"]["replicatedJobs"]
        inner = replicated["template"]["spec"]
        assert made[name]["spec"]["suspend"] and inner["parallelism"] == worker["replicas"], name
        pod = worker["template"]["spec"]
        (container,) = pod.pop("containers")
        assert container.pop("name") == "jax" and container.pop("ports")
        (found,) = inner["template"]["spec"]["containers"]
        assert within({k: v for k, v in pod.items() if v}, inner["template"]["spec"]), name
        assert within(container, found), name
