"""GPUs and TPUs: where pods of a job go, and what they ask for. The node only says that it has them."""

from __future__ import annotations

import json
import shutil
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import eventually, text, wait_for_text

from cluster import people
from cluster.faults import evict
from cluster.jobs import PATIENCE, fails, run, submit
from cluster.made_runtimes import image, make
from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.doctor import checkup
from jupyter_jax_trainer.backends.kubernetes.submit.images import known
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.messages import worker as say_of_worker
from jupyter_jax_trainer.options.spec import parse_cell_line

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
REPOSITORY = Path(__file__).parents[2]
SMALL = "--cpu 50m --memory 400Mi --env JAX_PLATFORMS=cpu"  # there are no such devices
RANK = "import jax\nprint('rank', jax.process_index(), 'of', jax.process_count())"
TPU, TOPOLOGY = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
H100 = "NVIDIA-H100-80GB-HBM3"


def install(namespace, line: str = "") -> str:
    """Install runtimes into the test's namespace, and give what was printed."""
    said: list[str] = []
    run_command(
        ["runtimes", "install", "--namespace", namespace.name, *line.split()],
        Context(print=said.append),
    )
    return "\n".join(said)


def plan(place: str, line: str) -> dict[str, Any]:
    return api.prepare(parse_cell_line(f"{place} {line}"))[1]


def asked(pod: dict[str, Any]) -> dict[str, Any]:
    return pod["spec"]["containers"][0]["resources"]


# ---- GPUs


def test_pods_with_gpus_are_where_the_accelerator_is(place, namespace, cluster, pretend):
    install(namespace, f"--device gpu --image {image(cluster)}")
    pretend("nvidia.com/gpu", 4, **{"nvidia.com/gpu.product": H100})
    job = submit(RANK, place, f"{SMALL} -d gpu -n 2 --devices-per-node 2 --accelerator h100")
    assert job.wait(PATIENCE).state == "Succeeded"
    assert "rank 1 of 2" in text(job)
    pods = namespace.pods(job.name)
    assert len(pods) == 2
    for pod in pods:
        assert asked(pod)["limits"] == {"memory": "400Mi", "nvidia.com/gpu": "2"}
        assert asked(pod)["requests"] == {"cpu": "50m", "memory": "400Mi", "nvidia.com/gpu": "2"}
        assert pod["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": H100}

    # Larger nodes of that type may come, and others.
    large = parse_cell_line(f"{place} -d gpu --devices-per-node 8 --accelerator h100")
    chosen, made = api.prepare(large)
    assert made["selector"] == {"nvidia.com/gpu.product": H100}
    (note,) = chosen._notes
    assert note.id == "submit.labelled-nodes-too-small" and "8 of nvidia.com/gpu" in note
    named = plan(place, "-d gpu --accelerator NVIDIA-B200")
    assert named["selector"] == {"nvidia.com/gpu.product": "NVIDIA-B200"}

    # Nobody says which device.
    chosen = plan(place, "-n 2 --devices-per-node 2")
    assert (chosen["device"], chosen["runtime"]) == ("gpu", "jax-gpu")
    assert chosen["note"].endswith(say.ON_GPU())
    chosen = plan(place, "-n 3 --devices-per-node 2")
    assert chosen["device"] == "cpu"
    assert chosen["note"].endswith(say.CLUSTER_TOO_SMALL(nodes=3, each=2, count=4))


def test_the_taint_of_devices_is_tolerated_on_a_runtime_that_knows_nothing_of_it(
    place, namespace, cluster, pretend
):
    team = {"key": "team", "operator": "Exists", "effect": "NoSchedule"}
    pretend("nvidia.com/gpu", 2)
    for runtime, own in (("jax-distributed", []), ("tolerant", [team])):
        if own:
            change = partial(dict.update, tolerations=[team])
            make(namespace, "tolerant", change, like="jax-distributed")
        line = f"{SMALL} -d gpu -n 2 --runtime {runtime} --image {image(cluster)}"
        job = submit(RANK, place, line)
        assert job.wait(PATIENCE).state == "Succeeded", job.reason
        for pod in namespace.pods(job.name):
            usual = [t for t in pod["spec"]["tolerations"] if "node.kubernetes.io" not in t["key"]]
            assert usual == [*own, {**team, "key": "nvidia.com/gpu"}]


def test_a_job_that_asked_for_gpus_does_not_go_on_with_the_cpu(place, namespace, cluster, pretend):
    """Neither with an image that has no plugin, as here, nor on a node whose driver is missing."""
    pretend("nvidia.com/gpu", 2)
    line = f"-d gpu -n 2 --cpu 50m --memory 400Mi --image {image(cluster)}"
    _, failure = fails(RANK, place, f"{line} --runtime jax-distributed")
    assert say_of_worker.NO_GPU_PLUGIN() in failure.message, failure
    assert "--device cpu" in failure.hint

    def chooses(pod: dict[str, Any]) -> None:
        pod["containers"][0]["env"] = [{"name": "JAX_PLATFORMS", "value": "cpu"}]

    make(namespace, "chooses", chooses, like="jax-distributed")
    assert "rank 1 of 2" in text(run(RANK, place, f"{line} --runtime chooses"))


# ---- TPUs


def test_a_topology_makes_the_nodes_of_its_slice(place, namespace, cluster, pretend):
    install(namespace, f"--device tpu --image {image(cluster)}")
    pretend("google.com/tpu", 16, **{TPU: "tpu-v5-lite-podslice", TOPOLOGY: "4x4"})
    job = run(RANK, place, f"{SMALL} --accelerator v5e --topology 4x4")
    assert "rank 3 of 4" in text(job)
    pods = namespace.pods(job.name)
    assert len(pods) == 4
    for pod in pods:
        assert asked(pod)["limits"]["google.com/tpu"] == "4"
        assert pod["spec"]["nodeSelector"] == {TPU: "tpu-v5-lite-podslice", TOPOLOGY: "4x4"}
        index = pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
        env = {e["name"]: e for e in pod["spec"]["containers"][0]["env"]}
        source = env["JAX_PROCESS_ID"]["valueFrom"]["fieldRef"]["fieldPath"]
        # What GKE takes TPU_WORKER_ID from, too.
        assert "batch.kubernetes.io/job-completion-index" in source and index.isdecimal()


def test_a_slice_with_another_number_of_hosts_stops_before_jax(place, namespace, cluster, pretend):
    install(namespace, f"--device tpu --image {image(cluster)}")
    pretend("google.com/tpu", 16, **{TPU: "tpu-v5-lite-podslice", TOPOLOGY: "2x4"})
    # Which GKE sets in the pods.
    line = f"{SMALL} --accelerator v5e --topology 2x4 -n 2 --env TPU_WORKER_HOSTNAMES="
    assert "rank 1 of 2" in text(run(RANK, place, f"{line}a,b"))
    _, failure = fails(RANK, place, f"{line}a,b,c")
    assert "3 hosts" in failure.message, failure
    _, failure = fails(RANK, place, f"{line}a,b --env TPU_WORKER_ID=1")  # of each of both ranks
    assert "TPU_WORKER_ID" in failure.message, failure


def test_runtimes_are_shown_and_checked(place, namespace, cluster):
    def command(*words: str) -> tuple[str, bool]:
        said: list[str] = []
        context = Context(print=said.append)
        run_command(["runtimes", *words, "--namespace", namespace.name], context)
        return "\n".join(said), context.failed

    shown, _ = command("show", "jax-cpu")
    assert "kind: ClusterTrainingRuntime" in shown and image(cluster) in shown
    checked, failed = command("check", "jax-cpu")
    assert checkup.RUNS_ONCE() in checked and not failed

    def lacking(pod: dict[str, Any]) -> None:
        del pod["containers"][0]["image"]

    make(namespace, "broken", lacking)
    checked, failed = command("check", "broken")
    assert checkup.NAME_AN_IMAGE() in checked and failed


def test_a_job_without_amounts_asks_for_those_of_the_runtime(place, namespace):
    job = run(RANK, place)
    assert asked(namespace.pods(job.name)[0])["requests"] == {"cpu": "100m", "memory": "256Mi"}


# ---- what the cluster takes away


def test_an_eviction_is_told_from_a_broken_cell(place, namespace, cluster):
    install(namespace, f"--device cpu --image {image(cluster)}")
    job = submit("print('begun', flush=True)\nimport time\ntime.sleep(600)", place)
    wait_for_text(job, "begun")
    (pod,) = namespace.pods(job.name)
    evict(namespace, pod["metadata"]["name"])
    eventually(lambda: job.state == "Failed", PATIENCE)
    broken = submit("1 / 0", place, "--name broken")
    eventually(lambda: broken.state == "Failed", PATIENCE)
    for one, reason in ((job, "PodFailurePolicy"), (broken, "BackoffLimitExceeded")):
        found = eventually(
            lambda name=one.name: [
                c["reason"]
                for c in namespace.get("job", f"{name}-node-0")["status"].get("conditions", [])
                if c["type"] == "Failed"
            ]
        )
        assert found == [reason]
    assert text(job).count("begun") == 1 and len(namespace.pods(job.name)) <= 1


# ---- runtimes install


def test_runtimes_are_installed_and_it_is_said_what_changed(place, namespace, cluster):
    shown = install(namespace, "--dry-run")
    assert "# TrainingRuntime jax-tpu: would be created" in shown and "google.com/tpu" in shown
    assert not namespace.get("trainingruntimes")["items"]
    assert install(namespace).count(": created, jupyter-jax-trainer-") == 3
    assert install(namespace).count(": unchanged, ") == 3
    moved = install(namespace, "--device cpu --registry ghcr.io/team")
    assert "jax-cpu: configured, ghcr.io/team/jupyter-jax-trainer-cpu:" in moved
    assert "].image: jupyter-jax-trainer-cpu:" in moved and "→ ghcr.io/team/" in moved
    install(namespace, "--device cpu --python 3.12")
    names = [item["metadata"]["name"] for item in namespace.get("trainingruntimes")["items"]]
    assert sorted(names) == ["jax-cpu", "jax-cpu-py3.12", "jax-gpu", "jax-tpu"]

    # What others have changed is not set back in silence; and of several none is changed then.
    labels = '{"metadata": {"labels": {"jupyter-jax-trainer/device": "cpu"}}}'
    namespace("patch", "trainingruntime", "jax-gpu", "--type=merge", "-p", labels)
    with pytest.raises(BackendError, match="jax-gpu was changed by others.*kubectl") as refused:
        install(namespace, "--device cpu,gpu")
    assert "--force" in refused.value.hint
    assert "ghcr.io/team" in json.dumps(namespace.get("trainingruntime", "jax-cpu"))
    assert "labels.jupyter-jax-trainer/device: cpu → gpu" in install(namespace, "--force")


def test_kubectl_takes_the_same_for_all_devices_or_one(cluster):
    named = "images: [{name: jupyter-jax-trainer-cuda, newName: ghcr.io/team/cuda, newTag: '1'}]"
    folder = REPOSITORY / "build" / f"kustomize-{uuid.uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    try:
        for below, names in (
            ("", ["cpu", "gpu", "tpu"]),
            ("/cpu", ["cpu"]),
            ("/gpu", ["gpu"]),
            ("/tpu", ["tpu"]),
        ):
            (folder / "kustomization.yaml").write_text(
                f"resources: [../../runtimes{below}]\n{named}\n"
            )
            found = list(yaml.safe_load_all(cluster("kustomize", str(folder))))
            assert [item["metadata"]["name"] for item in found] == [f"jax-{name}" for name in names]
            all_runtimes = [TrainingRuntime(item) for item in found]
            images = [item.container.image for item in all_runtimes if item.name == "jax-gpu"]
            assert images == ["ghcr.io/team/cuda:1"] * ("gpu" in names)
            assert all(known(item, item.container.image) for item in all_runtimes)
            cluster(
                "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", str(folder)
            )
        for below, kinds in (("network", ["Ingress"]), ("network-closed", ["Egress", "Ingress"])):
            (folder / "kustomization.yaml").write_text(
                f"namespace: default\ncomponents: [../../runtimes/{below}]\n"
            )
            found = list(yaml.safe_load_all(cluster("kustomize", str(folder))))
            assert sorted(kind for item in found for kind in item["spec"]["policyTypes"]) == kinds
            assert {item["metadata"]["namespace"] for item in found} == {"default"}
            cluster("apply", "--server-side", "--dry-run=server", "-k", str(folder))
    finally:
        shutil.rmtree(folder)


def test_who_names_a_deprecated_runtime_is_told(place, namespace, cluster):
    install(namespace, "--device cpu")
    namespace("label", "trainingruntime", "jax-cpu", "trainer.kubeflow.org/support=deprecated")
    said: list[str] = []
    run_command(["runtimes", "--namespace", namespace.name], Context(print=said.append, width=200))
    assert "deprecated; TrainingRuntime" in said[0]
    notes = []
    for line in ("-r jax-cpu", ""):
        spec = parse_cell_line(f"{place} {line}")
        chosen, made = api.prepare(spec)
        capture = capture_cell("1", {})
        chosen.check_capture(capture, spec, made)
        notes.append([note for note in capture.notes if "deprecated" in note])
    assert notes[0] == [say.DEPRECATED(name="jax-cpu")]
    assert not notes[1] and made["runtime_kind"] == "ClusterTrainingRuntime"  # it is not chosen


def test_who_may_not_install_is_told_so(place, namespace, tmp_path, monkeypatch):
    people.create(namespace, people.objects(namespace.name, "user", *people.minimal()))
    kubeconfig = people.kubeconfig(
        tmp_path / "user.kubeconfig",
        people.about(namespace.cluster),
        {"token": people.token(namespace, "user")},
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    connection._clients.clear()
    try:
        with pytest.raises(BackendError, match="permission to patch trainingruntimes"):
            install(namespace)
        with pytest.raises(
            BackendError, match="permission to .* clustertrainingruntimes"
        ) as refused:
            run_command(["runtimes", "install"], Context(print=lambda text: None))
        assert "--namespace" in refused.value.hint
        # Nor may this user list nodes: what a word means is a guess then, and is said to be one.
        monkeypatch.setenv("KUBECONFIG", str(namespace.cluster.kubeconfig))
        connection._clients.clear()
        install(namespace, "--device gpu")
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        connection._clients.clear()
        spec = parse_cell_line(f"{place} -d gpu --accelerator h100 --devices-per-node 512")
        chosen, made = api.prepare(spec)
        assert made["selector"] == {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
        assert "submit.label-guessed" in [note.id for note in chosen._notes]
    finally:
        people.forget(namespace)
