"""JAXJobs of the training operator become TrainJobs, and nothing of them is lost without a word."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jupyter_jax_trainer.backends.kubernetes import jaxjob
from jupyter_jax_trainer.cli import main
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import jaxjob as say

SIMPLE = """
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata:
  name: mnist
  namespace: team-a
  labels: {team: vision, kueue.x-k8s.io/queue-name: gpus}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    owner: jo
spec:
  runPolicy:
    activeDeadlineSeconds: 3600
    suspend: true
  jaxReplicaSpecs:
    Worker:
      replicas: 3
      restartPolicy: Never
      template:
        metadata:
          annotations: {sidecar.istio.io/inject: "false"}
        spec:
          containers:
            - name: jax
              image: example.org/train:1
              command: [python3, train.py]
              args: [--epochs, "3"]
              env: [{name: LR, value: "0.1"}]
              ports: [{containerPort: 6666, name: jaxjob-port}]
              resources: {limits: {nvidia.com/gpu: 2}}
"""


def job(**worker: Any) -> dict[str, Any]:
    """Return the simple JAXJob; `pod`, `container`, `policy` and `metadata` change parts of it."""
    found: dict[str, Any] = yaml.safe_load(SIMPLE)
    replica = found["spec"]["jaxReplicaSpecs"]["Worker"]
    pod = replica["template"]["spec"]
    pod["containers"][0] |= worker.pop("container", {})
    pod |= worker.pop("pod", {})
    found["spec"]["runPolicy"] |= worker.pop("policy", {})
    found["metadata"] |= worker.pop("metadata", {})
    replica |= worker
    return found


def convert(given: Any, runtime: str | None = None, *, ended: bool = False) -> jaxjob.Conversion:
    """Convert what somebody wrote."""
    return jaxjob.convert(jaxjob.read(given), runtime, ended=ended)


def written(conversion: jaxjob.Conversion) -> list[dict[str, Any]]:
    """Return what a JAXJob has become, as it is written."""
    return [dict(one.json) for one in conversion.documents]


def parts(conversion):
    """Return the runtime's JobSet, its Job, its pod, and the TrainJob's spec."""
    runtime, trainjob = written(conversion)
    jobset = runtime["spec"]["template"]["spec"]
    (replicated,) = jobset["replicatedJobs"]
    inner = replicated["template"]["spec"]
    return jobset, inner, inner["template"]["spec"], trainjob["spec"]


def test_a_simple_job():
    given = job()
    before = copy.deepcopy(given)
    found = convert(given)
    assert given == before
    runtime, trainjob = written(found)
    assert runtime["kind"] == "TrainingRuntime" and trainjob["kind"] == "TrainJob"
    assert runtime["metadata"]["name"] == "mnist" and runtime["metadata"]["namespace"] == "team-a"
    assert runtime["spec"]["mlPolicy"] == {"numNodes": 1, "jax": {}}
    assert trainjob["metadata"] == {
        "name": "mnist",
        "namespace": "team-a",
        "annotations": {"owner": "jo"},
        "labels": {"team": "vision", "kueue.x-k8s.io/queue-name": "gpus"},
    }
    jobset, inner, pod, spec = parts(found)
    assert spec["runtimeRef"]["kind"] == "TrainingRuntime" and spec["runtimeRef"]["name"] == "mnist"
    assert spec["activeDeadlineSeconds"] == 3600 and spec["suspend"] is True
    assert spec["trainer"]["numNodes"] == 3 and spec["trainer"]["command"] == [
        "python3",
        "train.py",
    ]
    assert spec["trainer"]["resourcesPerNode"] == {"limits": {"nvidia.com/gpu": 2}}
    assert jobset["failurePolicy"] == {"maxRestarts": 0} and inner["backoffLimit"] == 0
    assert pod["restartPolicy"] == "Never" and pod["containers"] == [{"name": "node"}]
    assert inner["template"]["metadata"] == {"annotations": {"sidecar.istio.io/inject": "false"}}
    assert any("29500" in line for line in found.changed) and not found.lost
    labels = jobset["replicatedJobs"][0]["template"]["metadata"]["labels"]
    assert labels == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def test_the_old_variables_are_there_and_ones_own_come_first():
    _, _, _, spec = parts(convert(job(container={"env": [{"name": "PROCESS_ID", "value": "7"}]})))
    env = {one["name"]: one.get("value") or one["valueFrom"] for one in spec["trainer"]["env"]}
    assert env == {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_ADDRESS": "mnist-node-0-0.mnist",
        "COORDINATOR_PORT": "29500",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": "7",
    }
    _, _, _, spec = parts(convert(job()))
    rank = next(one for one in spec["trainer"]["env"] if one["name"] == "PROCESS_ID")
    assert "job-completion-index" in rank["valueFrom"]["fieldRef"]["fieldPath"]
    assert spec["trainer"]["env"][-1] == {"name": "LR", "value": "0.1"}


@pytest.mark.parametrize(
    ("policy", "limit", "times", "said"),
    [
        ("Never", 4, 0, say.BACKOFF_UNUSED()),
        ("OnFailure", 4, 4, say.ALL_RESTART(policy="OnFailure", most=4)),
        ("OnFailure", None, 6, say.WAS_UNLIMITED(most=6)),
        ("Always", 2, 2, say.SUCCESS_IS_FINAL()),
        ("ExitCode", 3, 3, say.ALL_RESTART(policy="ExitCode", most=3)),
    ],
)
def test_when_a_job_begins_anew(policy, limit, times, said):
    given = job(restartPolicy=policy, policy={} if limit is None else {"backoffLimit": limit})
    found = convert(given)
    jobset, inner, _, _ = parts(found)
    assert jobset["failurePolicy"]["maxRestarts"] == times and inner["backoffLimit"] == 0
    assert said in found.changed
    if policy == "ExitCode":
        (rule,) = inner["podFailurePolicy"]["rules"]
        assert rule["action"] == "FailJob" and rule["onExitCodes"]["values"] == [*range(1, 128)]
        assert jobset["failurePolicy"]["rules"][0]["action"] == "FailJobSet"
    else:
        assert "podFailurePolicy" not in inner


def test_without_a_restart_policy_it_is_never():
    given = job()
    del given["spec"]["jaxReplicaSpecs"]["Worker"]["restartPolicy"]
    assert parts(convert(given))[0]["failurePolicy"]["maxRestarts"] == 0


def test_what_has_no_counterpart_is_said():
    found = convert(
        job(
            policy={
                "ttlSecondsAfterFinished": 60,
                "cleanPodPolicy": "All",
                "schedulingPolicy": {"queue": "batch", "minAvailable": 3},
            },
            container={"args": ["--coordinator", "mnist-worker-0:6666"]},
        )
    )
    text = found.report()
    for word in (
        "ttlSecondsAfterFinished",
        "cleanPodPolicy",
        "schedulingPolicy.queue",
        "schedulingPolicy.minAvailable",
        "mnist-worker-0",
        ":6666",
    ):
        assert word in text
    assert convert(job(policy={"cleanPodPolicy": "Running"})).lost == []
    assert convert(job(policy={"managedBy": "kubeflow.org/training-operator"})).lost == []
    assert parts(convert(job(policy={"managedBy": "kueue.x-k8s.io/multikueue"})))[3]["managedBy"]


def test_all_else_of_the_pod_stays():
    more = {
        "nodeSelector": {"pool": "a"},
        "hostNetwork": True,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [{"name": "fetch", "image": "x"}],
        "restartPolicy": "OnFailure",
    }
    given = job(
        pod=more, container={"volumeMounts": [{"name": "v", "mountPath": "/v"}], "workingDir": "/w"}
    )
    given["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["spec"]["containers"].append(
        {"name": "log", "image": "y"}
    )
    _, _, pod, _ = parts(convert(given))
    assert (
        pod["hostNetwork"] is True
        and pod["initContainers"]
        and pod["nodeSelector"] == {"pool": "a"}
    )
    assert [one["name"] for one in pod["containers"]] == ["node", "log"]
    assert pod["containers"][0]["workingDir"] == "/w" and pod["containers"][0]["volumeMounts"]
    assert pod["restartPolicy"] == "Never"


def test_ports_have_names():
    """Trainer would put its own in the place of one without."""
    ports = [
        {"containerPort": 6666},
        {"containerPort": 8080, "hostPort": 80},
        {"containerPort": 1, "name": "a"},
    ]
    found = convert(job(container={"ports": ports}))
    assert parts(found)[2]["containers"][0]["ports"] == [
        {"containerPort": 8080, "hostPort": 80, "name": "port-8080"},
        {"containerPort": 1, "name": "a"},
    ]
    assert any("port-8080" in line for line in found.changed)


def test_names_of_ports_are_not_given_twice():
    ports = [
        {"containerPort": 53},
        {"containerPort": 53, "protocol": "UDP"},
        {"containerPort": 1, "name": "port-2"},
        {"containerPort": 2},
    ]
    made = parts(convert(job(container={"ports": ports})))[2]["containers"][0]["ports"]
    assert [port["name"] for port in made] == ["port-53", "port-53-udp", "port-2", "port-2-tcp"]


def test_on_a_runtime_that_others_use():
    given = job(
        pod={"nodeSelector": {"pool": "a"}, "hostNetwork": True},
        container={"workingDir": "/w", "securityContext": {"runAsUser": 1}},
    )
    found = convert(given, "jax-cpu")
    (trainjob,) = written(found)
    assert trainjob["spec"]["runtimeRef"] == {
        "apiGroup": "trainer.kubeflow.org",
        "kind": "ClusterTrainingRuntime",
        "name": "jax-cpu",
    }
    (patch,) = trainjob["spec"]["runtimePatches"]
    (replicated,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = replicated["template"]["spec"]["template"]["spec"]
    assert pod == {
        "nodeSelector": {"pool": "a"},
        "containers": [{"name": "node", "securityContext": {"runAsUser": 1}}],
    }
    text = found.report()
    assert "spec.hostNetwork" in text and "workingDir" in text and "restartPolicy" in text
    given = job()
    del given["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["metadata"]
    assert "runtimePatches" not in written(convert(given, "jax-cpu"))[0]["spec"]


def broken(path: str, value: Any) -> dict[str, Any]:
    found = job()
    *way, last = path.split(".")
    at: Any = found
    for step in way:
        at = at[int(step) if step.isdecimal() else step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return found


WORKER = "spec.jaxReplicaSpecs.Worker"


def test_what_a_queue_would_drop_is_said():
    def lost(runtime, **labels):
        job = broken("metadata.labels", labels)
        job["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
        return " ".join(convert(job, runtime).lost)

    queue = {"kueue.x-k8s.io/queue-name": "team"}
    drops = say.QUEUE_DROPS_PATCHES(label="kueue.x-k8s.io/queue-name", runtime="jax-cpu")
    assert drops in lost("jax-cpu", **queue)
    assert "drops" not in lost(None, **queue) and "drops" not in lost("jax-cpu")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "PyTorchJob", "apiVersion": "kubeflow.org/v1"}, "PyTorchJob"),
        ([], "jaxjob.no-object"),
        ({"apiVersion": "v1"}, "jaxjob.no-object"),
        (broken("apiVersion", "trainer.kubeflow.org/v1alpha1"), "jaxjob.another-kind"),
        (broken("metadata.name", None), "jaxjob.incomplete"),
        (broken("metadata.name", "Mnist_1"), "Mnist_1"),
        (broken("metadata.name", "a" * 60), "jaxjob.name-too-long"),
        (broken("spec.jaxReplicaSpecs", {"Master": {}}), "jaxjob.only-worker"),
        (broken(f"{WORKER}.replicas", 0), "jaxjob.bad-replicas"),
        (broken(f"{WORKER}.replicas", "two"), "jaxjob.bad-replicas"),
        (broken(f"{WORKER}.template", None), "jaxjob.incomplete"),
        (broken(f"{WORKER}.template.spec.containers", []), "jaxjob.no-container"),
        (
            broken(f"{WORKER}.template.spec.containers", [{"name": "a"}, {"name": "b"}]),
            "jaxjob.no-jax-container",
        ),
        (broken(f"{WORKER}.template.spec.containers", ["jax"]), "jaxjob.incomplete"),
        (
            broken(
                f"{WORKER}.template.spec.containers", [{"name": "jax", "args": ["--steps", 100]}]
            ),
            "container's args",
        ),
        (
            broken(
                f"{WORKER}.template.spec.containers", [{"name": "jax", "command": "python a.py"}]
            ),
            "jaxjob.not-strings",
        ),
        (
            broken(
                f"{WORKER}.template.spec.containers", [{"name": "jax", "env": [{"value": "1"}]}]
            ),
            "jaxjob.unnamed-variable",
        ),
    ],
)
def test_what_can_t_be_turned(given, said):
    with pytest.raises(UsageError) as caught:
        convert(given)
    assert said in f"{caught.value.id}: {caught.value}"


NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(NAMES, NAMES),
        "hostNetwork": st.booleans(),
        "serviceAccountName": NAMES,
        "terminationGracePeriodSeconds": st.integers(0, 60),
        "volumes": st.lists(st.fixed_dictionaries({"name": NAMES})),
    },
)
CONTAINERS = st.fixed_dictionaries(
    {"name": st.just("jax"), "image": NAMES},
    optional={
        "args": st.lists(NAMES),
        "workingDir": NAMES,
        "imagePullPolicy": st.just("Always"),
        "env": st.lists(st.fixed_dictionaries({"name": NAMES, "value": NAMES})),
        "volumeMounts": st.lists(st.fixed_dictionaries({"name": NAMES, "mountPath": NAMES})),
    },
)


@given(NAMES, st.integers(1, 99), PODS, CONTAINERS, st.sampled_from([None, "jax-cpu"]))
def test_every_word_of_a_job_is_somewhere(name, nodes, pod, container, runtime):
    given = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "JAXJob",
        "metadata": {"name": name},
        "spec": {
            "jaxReplicaSpecs": {
                "Worker": {
                    "replicas": nodes,
                    "template": {"spec": {**pod, "containers": [container]}},
                }
            }
        },
    }
    found = convert(given, runtime)
    text, report = str(written(found)), found.report()
    for part in (pod, container):
        for what, value in part.items():
            if value and what != "name":
                assert repr(value).strip("[]{}") in text or what in report, what
    assert written(found)[-1]["spec"]["trainer"]["numNodes"] == nodes


def test_the_command_reads_files_lists_and_pipes(tmp_path, capsys, monkeypatch):
    file = tmp_path / "job.yaml"
    file.write_text(
        f"{SIMPLE}---\nkind: ConfigMap\n---\n"
        + yaml.safe_dump({"kind": "List", "items": [job(metadata={"name": "second"})]})
    )
    assert main(["convert", str(file)]) == 0
    out, err = capsys.readouterr()
    kinds = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(out)]
    assert kinds == [
        ("TrainingRuntime", "mnist"),
        ("TrainJob", "mnist"),
        ("TrainingRuntime", "second"),
        ("TrainJob", "second"),
    ]
    assert f"JAXJob mnist\n{say.CHANGED()}" in err
    with file.open() as piped:
        monkeypatch.setattr("sys.stdin", piped)
        assert main(["convert", "-", "--runtime", "jax-cpu"]) == 0
    assert [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)] == ["TrainJob"] * 2


def seen(name: str, **conditions: str) -> dict[str, Any]:
    """Return a JAXJob as a cluster shows it."""
    found = [{"type": one, "status": status} for one, status in conditions.items()]
    return {**job(metadata={"name": name, "labels": {}}), "status": {"conditions": found}}


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_what_has_ended_is_not_run_again(end):
    ended = seen("old", Created="True", Running="False", **{end: "True"})
    found = convert(ended)
    assert not found.documents
    assert found.lost == [say.HAS_ENDED(end=end.lower())]
    kinds = [one.kind for one in convert(ended, ended=True).documents]
    assert kinds == ["TrainingRuntime", "TrainJob"]
    # Kept from before it was started again.
    assert convert(seen("old", Created="True", **{end: "False"})).documents


@pytest.mark.parametrize("state", ["Created", "Running", "Restarting"])
def test_both_would_run_and_that_is_said(state):
    found = convert(seen("old", **{state: "True"}))
    assert len(found.documents) == 2
    assert found.before == [say.DELETE_OR_SUSPEND(name="old")]
    assert f"{say.BEFORE()}\n  - {found.before[0]}" in found.report()


def test_what_does_not_run_by_itself_has_no_such_line():
    suspended = seen("old", Created="True", Running="False", Suspended="True")
    assert not convert(suspended).before and not convert(job()).before
    suspended["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpus"
    assert convert(suspended).before == [say.DELETE(name="old")]  # Kueue resumes it
    for broken in ({}, None, "odd", {"conditions": None}, {"conditions": ["odd"]}):
        assert convert({**job(), "status": broken}).documents


def test_the_command_leaves_out_what_has_ended(tmp_path, capsys):
    file = tmp_path / "jobs.yaml"
    items = [
        seen("done", Created="True", Succeeded="True"),
        seen("runs", Created="True", Running="True"),
    ]
    file.write_text(yaml.safe_dump({"kind": "List", "items": items}))

    def names(*more: str) -> tuple[list[str], str]:
        assert main(["convert", str(file), *more]) == 0
        out, err = capsys.readouterr()
        return [
            one["metadata"]["name"] for one in yaml.safe_load_all(out) if one["kind"] == "TrainJob"
        ], err

    made, said = names()
    lost = say.HAS_ENDED(end="succeeded")
    assert made == ["runs"] and f"JAXJob done\n{say.LOST()}\n  - {lost}" in said
    assert names("--all")[0] == ["done", "runs"]
    file.write_text(yaml.safe_dump(items[0]))
    assert names()[0] == []


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (None, "commands.cannot-read"),
        ("a: [", "jaxjob.not-yaml"),
        ("kind: Pod", "jaxjob.no-jaxjob"),
        ("", "jaxjob.no-jaxjob"),
    ],
)
def test_a_file_that_is_none(tmp_path, capsys, text, id):
    file = tmp_path / "job.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError) as caught:
        run_command(["convert", str(file)], Context(print=print))
    assert caught.value.id == id and str(file) in caught.value.message
    assert "Errno" not in caught.value.message
    assert main(["convert", str(file)]) != 0
    assert caught.value.message.splitlines()[0] in capsys.readouterr().err
