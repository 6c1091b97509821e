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
from jupyter_jax_trainer.backends.kubernetes.jaxjob import convert, read
from jupyter_jax_trainer.messages import jaxjob as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "jaxjobs.yaml"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def jaxjob(name, namespace, code, **more):
    """Return a JAXJob in the form of the training operator's own examples."""
    policy, metadata, about = (more.pop(key, {}) for key in ("policy", "metadata", "about"))
    container = {
        "name": "jax",
        "image": image(namespace.cluster),
        "command": ["python3", "-c", code],
        "imagePullPolicy": "IfNotPresent",
        "securityContext": RESTRICTED,
        "ports": [{"containerPort": 6666, "name": "jaxjob-port"}],
        "env": [{"name": "JAX_PLATFORMS", "value": "cpu"}],
        **more.pop("container", {}),
    }
    pod = {"containers": [container], **more.pop("pod", {})}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "JAXJob",
        "metadata": {"name": name, "namespace": namespace.name, **metadata},
        "spec": {
            "runPolicy": policy,
            "jaxReplicaSpecs": {
                "Worker": {
                    "replicas": 2,
                    "restartPolicy": "Never",
                    **more,
                    "template": {"spec": pod, **({"metadata": about} if about else {})},
                }
            },
        },
    }


def apply(namespace, job, runtime=None):
    for document in convert(read(job), runtime).documents:
        apply_again(namespace, "-", 1, document.json)


def apply_again(namespace, file, count, stdin=None):
    """Apply objects until all are taken: Trainer's webhook may hear of a new runtime later."""
    own = "--namespace", namespace.name, "apply", "--server-side", "-f", file

    def taken():
        said = namespace.cluster(*own, stdin=stdin, check=False)
        return said.count("serverside-applied") == count

    eventually(taken)


def log(namespace, job, rank=0):
    (pod,) = [
        one
        for one in namespace.pods(job)
        if one["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(rank)
    ]
    return namespace("logs", pod["metadata"]["name"])


@pytest.mark.parametrize("runtime", [pytest.param(None, marks=pytest.mark.release), "jax-cpu"])
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
        "more",
        namespace,
        "import time; print(open('/v/said').read(), flush=True); time.sleep(600)",
        policy={"activeDeadlineSeconds": 25},
        container={"volumeMounts": [{"name": "v", "mountPath": "/v"}], "workingDir": "/v"},
        pod={
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [
                {
                    "name": "say",
                    "image": image(namespace.cluster),
                    "command": ["sh", "-c", "echo it was said > /v/said"],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    "securityContext": RESTRICTED,
                }
            ],
        },
    )
    apply(namespace, job)
    found = namespace.until_condition("more", "Failed", PATIENCE)
    assert any(one.get("reason") == "DeadlineExceeded" for one in found["status"]["conditions"])


@pytest.mark.parametrize(
    ("policy", "code", "attempts"),
    [
        ("OnFailure", 3, 2),
        ("ExitCode", 3, 1),
        ("ExitCode", 137, 2),
        ("Never", 3, 1),
    ],
)
def test_how_often_it_begins_anew(namespace, policy, code, attempts):
    """A job that always fails has as many attempts as its policy says."""
    job = jaxjob(
        "fails",
        namespace,
        f"import os; os._exit({code})",
        restartPolicy=policy,
        policy={"backoffLimit": 1},
        replicas=1,
    )
    apply(namespace, job)
    namespace.until_condition("fails", "Failed", PATIENCE)
    jobset = namespace.get("jobset", "fails")
    assert jobset["status"].get("restarts", 0) == attempts - 1


@pytest.mark.parametrize(
    ("policy", "code"),
    [("OnFailure", 1), pytest.param("ExitCode", 137, marks=pytest.mark.release)],
)
def test_it_goes_on_from_its_checkpoint_and_ends_well(namespace, shared, policy, code):
    """One rank dies at step 3; both begin anew, and go on from the step that they had saved."""
    cell = f"""
import os, pathlib, time
import jax
rank = int(os.environ["PROCESS_ID"])
address = f"{{os.environ['COORDINATOR_ADDRESS']}}:{{os.environ['COORDINATOR_PORT']}}"
jax.distributed.initialize(address, int(os.environ["NUM_PROCESSES"]), rank)
saved = pathlib.Path("/data") / f"step-{{rank}}"
first = int(saved.read_text()) if saved.exists() else 0
print(f"from {{first}} of {{jax.process_count()}} ranks", flush=True)
for step in range(first, 6):
    saved.write_text(str(step))
    if (first, step, rank) == (0, 3, 1):
        os._exit({code})
    while first == 0 and step == 3:
        time.sleep(0.1)
print("ends")
"""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": shared.claim}}
    job = jaxjob(
        "again",
        namespace,
        cell,
        restartPolicy=policy,
        policy={"backoffLimit": 1},
        container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        pod={"volumes": [claim], "terminationGracePeriodSeconds": 1},
    )
    apply(namespace, job)
    namespace.until_condition("again", "Complete", PATIENCE)
    for rank in (0, 1):
        assert log(namespace, "again", rank).split("\n")[-3:-1] == ["from 3 of 2 ranks", "ends"]
    assert namespace.get("jobset", "again")["status"]["restarts"] == 1


def test_what_is_printed_can_be_applied(namespace, tmp_path):
    from jupyter_jax_trainer.cli import main

    file = tmp_path / "job.yaml"
    file.write_text(
        yaml.safe_dump(jaxjob("file", namespace, "print('hello', flush=True)", replicas=1))
    )
    out = tmp_path / "out.yaml"
    with out.open("w") as stream, contextlib.redirect_stdout(stream):
        assert main(["convert", str(file)]) == 0
    apply_again(namespace, str(out), 2)
    namespace.until_condition("file", "Complete", PATIENCE)
    assert "hello" in log(namespace, "file")


# Twenty that differ, and what is to come of each: how often all ranks may start again (`times`), whether exit codes
# decide that (`codes`), and what is said besides what all are told, a word of each line in its order (`said`).
VARIED = [
    ({}, {}),
    (
        {"replicas": 1, "policy": {"cleanPodPolicy": "Running", "backoffLimit": 3}},
        {"said": [say.BACKOFF_UNUSED()]},
    ),
    (
        {"replicas": 5, "restartPolicy": "OnFailure"},
        {
            "times": 6,
            "said": [
                say.WAS_UNLIMITED(most=6),
                say.ALL_RESTART(policy="OnFailure", most=6),
            ],
        },
    ),
    (
        {"restartPolicy": "Always", "policy": {"backoffLimit": 4}},
        {
            "times": 4,
            "said": [
                say.ALL_RESTART(policy="Always", most=4),
                say.SUCCESS_IS_FINAL(),
            ],
        },
    ),
    (
        {"restartPolicy": "ExitCode", "policy": {"backoffLimit": 0}},
        {"codes": True, "said": [say.ALL_RESTART(policy="ExitCode", most=0)]},
    ),
    (
        {"restartPolicy": "ExitCode", "policy": {"backoffLimit": 5, "activeDeadlineSeconds": 7200}},
        {
            "times": 5,
            "codes": True,
            "said": [say.ALL_RESTART(policy="ExitCode", most=5)],
        },
    ),
    (
        {"policy": {"activeDeadlineSeconds": 600, "cleanPodPolicy": "All"}},
        {"said": ["cleanPodPolicy: All"]},
    ),
    (
        {"policy": {"ttlSecondsAfterFinished": 60, "cleanPodPolicy": "None"}},
        {"said": ["ttlSecondsAfterFinished"]},
    ),
    (
        {"policy": {"schedulingPolicy": {"queue": "gpus", "minAvailable": 2}}},
        {"said": ["schedulingPolicy.queue", "schedulingPolicy.minAvailable"]},
    ),
    (
        {
            "container": {
                "command": ["sh", "-c"],
                "args": ["ping job-9-worker-0 && nc -z job-9-worker-0:6666"],
            }
        },
        {"said": ["job-9-worker-0", ":6666"]},
    ),
    ({"container": {"workingDir": "/tmp", "imagePullPolicy": "Always", "stdin": True}}, {}),
    (
        {
            "container": {
                "env": [
                    {"name": "NUM_PROCESSES", "value": "9"},
                    {"name": "EMPTY", "value": ""},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ]
            }
        },
        {},
    ),
    (
        {
            "container": {"envFrom": [{"secretRef": {"name": "keys", "optional": True}}]},
            "metadata": {"labels": {"team": "vision"}, "annotations": {"owner": "jo"}},
        },
        {},
    ),
    ({"container": {"resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}}}, {}),
    (
        {
            "container": {"resources": {"limits": {"nvidia.com/gpu": "2"}}},
            "pod": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
        },
        {},
    ),
    (
        {
            "container": {"resources": {"limits": {"google.com/tpu": "4"}}},
            "pod": {"nodeSelector": {"cloud.google.com/gke-tpu-topology": "2x4"}},
        },
        {},
    ),
    (
        {
            "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            "pod": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        },
        {},
    ),
    (
        {
            "container": {"livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 30}},
            "about": {"labels": {"app": "train"}, "annotations": {"example.org/note": "hello"}},
        },
        {},
    ),
    (
        {
            "pod": {
                "serviceAccountName": "default",
                "schedulerName": "default-scheduler",
                "dnsPolicy": "ClusterFirst",
                "terminationGracePeriodSeconds": 5,
            },
            "container": {
                "ports": [
                    {"containerPort": 6666},
                    {"containerPort": 8080},
                    {"containerPort": 9090, "name": "metrics"},
                ]
            },
        },
        {"said": [say.PORT_NAMED(number=8080, name="port-8080")]},
    ),
    (
        {
            "pod": {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"},
                            }
                        ]
                    }
                }
            }
        },
        {},
    ),
]
TOLD = [  # to all
    say.CONTAINER_RENAMED(old="jax", new="node"),
    say.PORT_MOVED(port=29500, old=6666),
]
RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def within(given, found):
    """Tell whether all that is given is in what the cluster has, which adds its defaults."""
    if isinstance(given, dict):
        return all(name in found and within(value, found[name]) for name, value in given.items())
    if isinstance(given, list):
        return all(any(within(one, other) for other in found) for one in given)
    return given == found


def by_name(namespace, kind):
    return {item["metadata"]["name"]: item for item in namespace.get(kind)["items"]}


def told(conversion, words):
    """Tell whether the report has a line for each of these, in their order, and no other."""
    lines = [*conversion.changed, *conversion.lost]
    return len(lines) == len(words) and all(w in line for w, line in zip(words, lines, strict=True))


def runs_as_it_did(job, trainjob, jobset, wanted):
    """Check what a job became: its pods, its variables, its end, and when it begins anew."""
    spec, name = job["spec"], job["metadata"]["name"]
    worker, policy = spec["jaxReplicaSpecs"]["Worker"], spec["runPolicy"]
    (replicated,) = jobset["spec"]["replicatedJobs"]
    inner = replicated["template"]["spec"]
    assert jobset["spec"]["suspend"] and inner["parallelism"] == worker["replicas"]
    assert within(job["metadata"], trainjob["metadata"])
    assert trainjob["spec"].get("activeDeadlineSeconds") == policy.get("activeDeadlineSeconds")
    assert not {"ttlSecondsAfterFinished", "activeDeadlineSeconds"} & {*jobset["spec"], *inner}

    failure = jobset["spec"].get("failurePolicy") or {}
    assert failure.get("maxRestarts", 0) == wanted.get("times", 0)  # 0 is left out
    assert inner["backoffLimit"] == 0 and inner["template"]["spec"]["restartPolicy"] == "Never"
    if wanted.get("codes"):
        (rule,) = inner["podFailurePolicy"]["rules"]
        assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == [*range(1, 128)]
        assert [rule["action"] for rule in failure["rules"]] == ["FailJobSet"]
    else:
        assert "podFailurePolicy" not in inner and "rules" not in failure

    pod = dict(worker["template"]["spec"])
    (container,) = ({**one} for one in pod.pop("containers"))
    (found,) = inner["template"]["spec"]["containers"]
    assert within(worker["template"].get("metadata", {}), inner["template"]["metadata"])
    assert within(pod, inner["template"]["spec"]) and container.pop("name") == "jax"
    given = {one["name"]: one for one in container.pop("env")}
    ports = [one for one in container.pop("ports") if one["containerPort"] != 6666]
    assert within(container, found) and within(ports, found.get("ports", []))
    env = {one["name"]: one for one in found["env"]}
    assert len(env) == len(found["env"]) and not any(
        p.get("containerPort") == 6666 for p in found.get("ports", [])
    )
    old = {
        "COORDINATOR_ADDRESS": f"{name}-node-0-0.{name}",
        "COORDINATOR_PORT": "29500",
        "NUM_PROCESSES": str(worker["replicas"]),
        "PYTHONUNBUFFERED": "1",
    }
    assert {one: env[one]["value"] for one in old} == {
        one: given.get(one, {"value": value})["value"] for one, value in old.items()
    }  # one's own word is the last
    assert env["PROCESS_ID"]["valueFrom"]["fieldRef"]["fieldPath"] == RANK
    assert all(
        within({k: v for k, v in one.items() if v}, env[one["name"]]) for one in given.values()
    )
    assert {"JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID"} < set(env)  # Trainer's own


@pytest.mark.release
def test_twenty_varied_jobs_are_what_they_were(namespace):
    """The cluster takes each of them, and makes of it what the training operator made."""
    assert len(VARIED) == 20
    jobs, runtimes, own, shared = {}, [], [], []
    for number, (change, wanted) in enumerate(VARIED):
        policy = {"suspend": True, **change.get("policy", {})}  # no pod has to run for this
        given = copy.deepcopy({**change, "policy": policy})
        job = jobs[f"job-{number}"] = jaxjob(f"job-{number}", namespace, "print(1)", **given)
        found = convert(read(job))
        assert told(found, [*TOLD, *wanted.get("said", [])]), (number, found.report())
        runtimes += found.documents[:1]
        own += found.documents[1:]
        shared += convert(read(job), "jax-cpu").documents

    def taken(items, *options):
        """Apply all, and tell whether the cluster and its webhooks took all."""
        every = {"apiVersion": "v1", "kind": "List", "items": [one.json for one in items]}
        said = namespace.cluster(
            "--namespace",
            namespace.name,
            "apply",
            "--server-side",
            *options,
            "-f",
            "-",
            stdin=every,
            check=False,
        )
        return said.count("serverside-applied") == len(items)

    assert taken(runtimes) and taken(shared, "--dry-run=server")
    eventually(lambda: taken(own))  # Trainer's webhook may learn of a runtime a moment later
    made = eventually(lambda: len(found := by_name(namespace, "jobsets")) == len(jobs) and found)
    trainjobs = by_name(namespace, "trainjobs")
    for number, (name, job) in enumerate(jobs.items()):
        try:
            runs_as_it_did(job, trainjobs[name], made[name], VARIED[number][1])
        except (AssertionError, KeyError) as error:
            raise AssertionError(f"{name}: {VARIED[number]}") from error
