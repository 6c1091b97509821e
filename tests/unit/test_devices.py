"""From the words for GPUs and TPUs to nodes, labels and amounts, without a cluster."""

from __future__ import annotations

import _ctypes
import ctypes
import math
import os
import re
import subprocess
import sys
import types

import podruns
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.objects import Resources, TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import choosing, devices, runtimes, trainjob
from jupyter_jax_trainer.backends.kubernetes.submit.devices import Node
from jupyter_jax_trainer.devices import KINDS
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import Text
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.messages import worker as say_of_worker
from jupyter_jax_trainer.options import topology
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.worker.exceptions import WorkerError
from jupyter_jax_trainer.worker.pod import devices as of_pod
from jupyter_jax_trainer.worker.pod import tpu

GKE_GPU, FOUND_GPU = "cloud.google.com/gke-accelerator", "nvidia.com/gpu.product"
GKE_TPU, SHAPE = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
SIDE = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16])
SHAPES = st.lists(SIDE, min_size=2, max_size=3).map(lambda sides: "x".join(map(str, sides)))


def test_the_tables_have_all_kinds():
    kinds = {kind for kind in KINDS if kind != "cpu"}
    assert devices.RESOURCES.keys() == kinds == of_pod.CHECKS.keys()


# ---- topologies


# As on Google's page "Plan TPUs in GKE".
@pytest.mark.parametrize(
    ("line", "nodes", "each"),
    [
        ("1x1", 1, 1),
        ("2x2", 1, 4),
        ("2x2x1", 1, 4),
        ("2x4", 1, 8),
        ("4x4", 4, 4),
        ("4x8", 8, 4),
        ("16x16", 64, 4),
        ("2x2x2", 2, 4),
        ("2x2x4", 4, 4),
        ("4x4x4", 16, 4),
        ("1x1x1", 1, 1),
        ("2x4 -n 2", 2, 4),
        ("2x4 --devices-per-node 4", 2, 4),
        ("2x4 --devices-per-node 8", 1, 8),
        ("2x4 -n 1", 1, 8),
        ("4x4 -n 4", 4, 4),
        ("2x4 -n 4 --devices-per-node 2", 4, 2),
    ],
)
def test_a_topology_says_how_many_nodes_there_are(line, nodes, each):
    spec = parse_cell_line(f"-d tpu --topology {line}")
    assert spec.nodes == nodes
    assert devices.place(spec, "tpu", Resources({}), {}, None).per_node == each


@pytest.mark.parametrize(
    ("line", "message", "named"),
    [
        ("4x4 -n 2", "other-shape", "16 chips.*--nodes 2.*-n 4 --devices-per-node 4"),
        ("2x4 -n 8", "other-shape", "-n 1 --devices-per-node 8 or -n 2 --devices-per-node 4"),
        ("4x4 --devices-per-node 8", "other-shape", "--devices-per-node 8"),
        ("4x4 -n 2 --devices-per-node 4", "other-product", "-n.* 2 .*--devices-per-node 4.* 8"),
        ("3x3", "no-machines", "9 chips.*v5e"),
    ],
)
def test_what_contradicts_the_topology_is_refused(line, message, named):
    with pytest.raises(UsageError) as refused:
        parse_cell_line(f"--topology {line}")
    assert refused.value.id == f"options.slice-of-{message}"
    assert re.search(named, str(refused.value), re.DOTALL)


@given(SHAPES)
def test_the_nodes_of_a_slice_have_all_its_chips(shape):
    chips = math.prod(map(int, shape.split("x")))
    ways = topology.hosts(shape)
    assert all(nodes * each == chips for nodes, each in ways)
    assert bool(ways) == (chips <= 4 or chips % 4 == 0)
    for nodes, each in ways:  # however it is asked for, it is the same
        assert topology.fit(shape, nodes, None) == topology.fit(shape, None, each) == (nodes, each)
        assert topology.fit(shape, nodes, each) == (nodes, each)


@given(SHAPES, st.none() | st.integers(1, 64), st.none() | st.integers(1, 64))
def test_a_slice_is_what_was_asked_for_or_refused(shape, nodes, each):
    try:
        made = topology.fit(shape, nodes, each)
    except UsageError:
        return
    assert math.prod(made) == math.prod(map(int, shape.split("x")))
    assert nodes in (None, made[0]) and each in (None, made[1])


@given(SHAPES)
def test_a_spec_with_a_topology_can_be_written_and_read_again(shape):
    try:
        spec = parse_cell_line(f"--topology {shape}")
    except UsageError:
        return
    assert parse_cell_line(spec.to_line()) == spec == JobSpec.from_json(spec.to_json())
    # Of a default another topology may be made.
    assert parse_cell_line("--topology 2x2x2", spec).nodes == 2


# ---- accelerators


def node(name: str = "n", labels: dict[str, str] | None = None, **amounts: int) -> Node:
    resources = {"gpu": "nvidia.com/gpu", "tpu": "google.com/tpu"}
    return Node(name, labels or {}, {resources[kind]: str(n) for kind, n in amounts.items()})


def place(line: str, nodes: list[Node] | None, own: dict[str, str] | None = None, **limits: str):
    spec = parse_cell_line(line)
    asked = {"limits": {devices.RESOURCES[kind]: amount for kind, amount in limits.items()}}
    return devices.place(spec, devices.kind(spec) or "cpu", Resources(asked), own or {}, nodes)


H100 = node("a", {FOUND_GPU: "NVIDIA-H100-80GB-HBM3"}, gpu=8)
SXM = node("c", {FOUND_GPU: "NVIDIA-A100-SXM4-80GB"}, gpu=8)
A100 = node("b", {GKE_GPU: "nvidia-tesla-a100"}, gpu=4)


def test_nodes_that_take_no_pods_have_nothing_to_offer():
    def item(name: str, ready: str = "True", **spec: bool) -> dict:
        return {
            "metadata": {"name": name},
            "spec": spec,
            "status": {
                "allocatable": {"nvidia.com/gpu": "8"},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }

    class Nodes:
        def request(self, *_: str) -> dict:
            return {
                "items": [
                    item("drained", unschedulable=True),
                    item("lost", "Unknown"),
                    item("well"),
                ]
            }

    found = devices.list_nodes(Nodes())
    assert [each.name for each in found] == ["well"]
    assert not devices.enough(found, "nvidia.com/gpu", 2, 8)


@pytest.mark.parametrize(
    ("word", "nodes", "label"),
    [
        ("h100", [H100], (FOUND_GPU, "NVIDIA-H100-80GB-HBM3")),
        ("nvidia-h100-80gb-hbm3", [H100], (FOUND_GPU, "NVIDIA-H100-80GB-HBM3")),
        ("a100", [A100, H100], (GKE_GPU, "nvidia-tesla-a100")),
        ("nvidia-tesla-a100", [A100], (GKE_GPU, "nvidia-tesla-a100")),
        ("b200", [A100], (GKE_GPU, "nvidia-b200")),  # may be added
        ("NVIDIA-B200", [H100], (FOUND_GPU, "NVIDIA-B200")),  # as NVIDIA would label it
        ("a100-80gb", [SXM, H100], (FOUND_GPU, "NVIDIA-A100-SXM4-80GB")),
        ("h100", [SXM, H100], (FOUND_GPU, "NVIDIA-H100-80GB-HBM3")),
        ("h200", None, (GKE_GPU, "nvidia-h200-141gb")),
        ("nvidia-new", None, (GKE_GPU, "nvidia-new")),
        ("example.com/gpu=big", [H100], ("example.com/gpu", "big")),
        ("v5e", None, (GKE_TPU, "tpu-v5-lite-podslice")),
        ("tpu-v6e-slice", [], (GKE_TPU, "tpu-v6e-slice")),
        (f"{GKE_TPU}=x", [], (GKE_TPU, "x")),
    ],
)
def test_a_word_for_a_type_becomes_the_label_that_nodes_carry(word, nodes, label):
    placed = place(f"--accelerator {word}", nodes)
    assert placed.selector == dict([label])
    guessed = any(note.id == "submit.label-guessed" for note in placed.notes)
    assert guessed == (nodes is None and "=" not in word)


def test_a_word_that_fits_several_types_is_refused():
    nodes = [H100, node("c", {FOUND_GPU: "NVIDIA-H100-NVL"}, gpu=1)]
    with pytest.raises(UsageError, match="NVIDIA-H100-80GB-HBM3, NVIDIA-H100-NVL") as refused:
        place("--accelerator h100", nodes)
    assert refused.value.id == "submit.ambiguous-accelerator"
    # Both labels on one node mean the same.
    both = node("d", {FOUND_GPU: "NVIDIA-H100-80GB-HBM3", GKE_GPU: "nvidia-h100-80gb"}, gpu=8)
    assert place("--accelerator h100", [both]).selector == {GKE_GPU: "nvidia-h100-80gb"}
    # But one of them does not hide that there are two types by the other.
    l40 = node("e", {FOUND_GPU: "NVIDIA-L40-48GB", GKE_GPU: "nvidia-l40"}, gpu=1)
    with pytest.raises(UsageError, match="NVIDIA-L40-24GB, NVIDIA-L40-48GB"):
        place("--accelerator l40", [l40, node("f", {FOUND_GPU: "NVIDIA-L40-24GB"}, gpu=1)])


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("", None),
        ("-d cpu", "cpu"),
        ("--topology 2x2", "tpu"),
        ("--accelerator v6e", "tpu"),
        ("--accelerator tpu7x", "tpu"),
        ("--accelerator h100", "gpu"),
        ("-d gpu", "gpu"),
        ("--accelerator a.b/c=v5e", "tpu"),
        (f"--accelerator {GKE_TPU}=any", "tpu"),
    ],
)
def test_the_words_say_which_kind_of_device_is_meant(line, kind):
    assert devices.kind(parse_cell_line(line)) == kind


@pytest.mark.parametrize(
    "line", ["--accelerator v5p --topology 4x4", "--accelerator v5e --topology 2x2x2"]
)
def test_shapes_have_the_sides_of_their_type(line):
    with pytest.raises(UsageError, match="tpu-v5") as refused:
        place(line, None)
    assert refused.value.id == "submit.wrong-dimensions"


# ---- what the nodes offer


@pytest.mark.parametrize(
    ("line", "nodes", "said"),
    [
        ("-d gpu -n 2 --devices-per-node 4", [H100], None),
        (
            "-d gpu -n 3 --devices-per-node 4",
            [H100],
            say.TOO_FEW_NODES(nodes=3, each=4, resource="nvidia.com/gpu", room=2),
        ),
        (
            "-d gpu --devices-per-node 16",
            [H100, A100],
            say.NODES_TOO_SMALL(each=16, resource="nvidia.com/gpu", count=2, most=8),
        ),
        ("-d gpu", [], say.NO_NODE_WITH(resource="nvidia.com/gpu")),
        (
            "-d gpu --accelerator a100",
            [node("e", A100.labels)],
            "submit.no-labelled-node-with: .*a100.* with nvidia.com/gpu",
        ),
        ("-d gpu --devices-per-node 99", None, None),
        ("-d cpu", [H100], None),
        ("--topology 4x4", [node("t", {SHAPE: "4x4"}, tpu=4)] * 4, None),
        ("--topology 4x4", [node("t", {SHAPE: "4x4"}, tpu=4)] * 3, "room for 3"),
        (
            "--topology 4x4",
            [node("t", {SHAPE: "2x4"}, tpu=4)],
            "submit.no-node-labelled-but: .*=2x4",
        ),
    ],
)
def test_what_has_to_wait_is_said(line, nodes, said):
    (*notes,) = place(line, nodes).notes
    assert len(notes) == (said is not None)
    if isinstance(said, Text):
        assert notes == [said]
    elif said:
        assert re.search(said, f"{notes[0].id}: {notes[0]}"), notes


def test_who_names_no_value_of_nvidias_label_learns_how_they_are_written():
    hint, waits = place("-d gpu --accelerator b200", [H100]).notes
    assert hint.id == "submit.unknown-product" and "NVIDIA-B200" in hint
    assert waits.id == "submit.no-node-labelled-but"
    assert re.search(f"labelled {FOUND_GPU}=b200 .*H100", waits)


@pytest.mark.parametrize(
    ("line", "nodes", "labels", "resource"),
    [
        (
            "-d gpu --accelerator a100 --devices-per-node 8",
            [A100, H100],
            f"{GKE_GPU}=nvidia-tesla-a100",
            "nvidia.com/gpu",
        ),
        (
            "--topology 2x4",
            [node("t", {SHAPE: "2x4"}, tpu=4)],
            f"{SHAPE}=2x4",
            "google.com/tpu",
        ),
    ],
)
def test_what_no_node_can_do_now_waits_for_larger_ones(line, nodes, labels, resource):
    """One label is that of machines of several sizes: larger ones may come."""
    (note,) = place(line, nodes).notes
    assert note.id == "submit.labelled-nodes-too-small"
    assert note == say.LABELLED_NODES_TOO_SMALL(
        labels=labels, each=8, resource=resource, count=1, most=4
    )


def test_amounts_of_memory_and_cores_are_no_devices():
    limits = {
        "volcano.sh/vgpu-cores": "50",
        "volcano.sh/vgpu-number": "2",
        "nvidia.com/gpumem": "3000",
    }
    own = Resources({"limits": limits})
    assert devices.resource("gpu", own) == "volcano.sh/vgpu-number"
    assert devices.brought("gpu", own, {}) == 2


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("nvidia.com/gpu", "gpu"),
        ("nvidia.com/gpu.shared", "gpu"),
        ("nvidia.com/mig-1g.10gb", "gpu"),
        ("amd.com/gpu", "gpu"),
        ("google.com/tpu", "tpu"),
    ],
)
def test_what_the_runtime_calls_its_devices_is_asked_for(name, device):
    own = {"limits": {name: "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    item = TrainingRuntime(a_runtime("r", "", resources=own))
    assert runtimes.device_of(item) == device
    there = item.container.resources
    assert devices.resource(device, there) == name and devices.brought(device, there, {}) == 2
    spec = parse_cell_line("--devices-per-node 4")
    asked = trainjob._resources(spec, {"resources": own, "device": device, "devices_per_node": 4})
    assert asked.limits == {name: "4", "memory": "1Gi"}
    nodes = [Node("n", {}, {name: "8"})]
    two = parse_cell_line(f"-d {device} -n 2")
    assert devices.place(two, device, there, {}, nodes).notes == ()


def test_amounts_and_labels_of_the_runtime_count():
    assert place("-d tpu", None, tpu="4").per_node == 4
    assert place("-d tpu --devices-per-node 1", None, tpu="4").per_node == 1
    assert place("-d gpu", None).per_node == 1
    with pytest.raises(UsageError, match="--topology 4x4 .*--nodes 2") as refused:
        place("-d tpu -n 2", None, {SHAPE: "4x4"})
    assert refused.value.id == "options.slice-of-other-shape"
    assert place("-d tpu -n 4", None, {SHAPE: "4x4"}).selector == {}  # it is there already


def test_all_amounts_are_given_since_trainer_replaces_those_of_the_runtime():
    own = {
        "requests": {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "2", "nvidia.com/gpu": "1"},
    }

    def resources(line, **plan):
        spec = parse_cell_line(line)
        return trainjob._resources(spec, {"resources": own, "devices_per_node": 2, **plan}).json

    assert resources("", device="cpu") == {}  # the runtime's own stay
    assert resources("--cpu 4", device="gpu") == {
        "requests": {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "2"},
        "limits": {"cpu": "4", "nvidia.com/gpu": "2"},
    }
    assert resources("--memory 1Gi", device="cpu")["requests"]["memory"] == "1Gi"


# ---- which runtime


class Cluster:
    namespace = "me"

    def __init__(self, *items: dict, nodes: list[dict] | None = None) -> None:
        self._items, self._nodes = list(items), nodes

    def trainer(self, resource: str) -> str:
        return f"/{resource}"

    def request(self, verb: str, path: str) -> dict:
        if path.endswith("/nodes"):
            if self._nodes is None:
                raise ApiError(403, "Forbidden", "no")
            return {"items": self._nodes}
        if path == "/trainingruntimes":
            return {"items": []}
        *_, name = path.split("/")
        if name == "clustertrainingruntimes":
            return {"items": self._items}
        for item in self._items:
            if item["metadata"]["name"] == name and "cluster" in path:
                return item
        raise ApiError(404, "NotFound", "no")


def a_runtime(
    name: str, device: str, *, once: bool = True, resources: dict | None = None, **labels: str
) -> dict:
    pod = {"restartPolicy": "Never", "containers": [{"name": "node", "resources": resources or {}}]}
    job = {"backoffLimit": 0 if once else 6, "template": {"spec": pod}}
    return {
        "metadata": {"name": name, "labels": {"jupyter-jax-trainer/device": device, **labels}},
        "spec": {
            "mlPolicy": {"jax": {}},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": job}}]}},
        },
    }


FOUR = {"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
CPU, GPU = a_runtime("c", "cpu"), a_runtime("g", "gpu")
EIGHT = a_runtime("g8", "gpu", resources={"limits": {"nvidia.com/gpu": "8"}})


@pytest.mark.parametrize(
    ("cluster", "line", "name", "said"),
    [
        (Cluster(CPU, GPU, nodes=[FOUR]), "-n 4", "g", "on GPU"),
        (
            Cluster(CPU, GPU, nodes=[FOUR]),
            "-n 2 --devices-per-node 3",
            "c",
            "2 × 3 GPUs would be needed",
        ),
        (Cluster(CPU, EIGHT, nodes=[FOUR]), "", "c", "1 × 8 GPUs would be needed"),
        (Cluster(CPU, GPU, nodes=[FOUR]), "-d cpu", "c", ""),
        (Cluster(CPU, GPU, nodes=[]), "", "c", ""),
        (Cluster(CPU, GPU), "", "c", ""),  # who may not look at nodes gets no GPUs unasked
        (Cluster(CPU, nodes=[FOUR]), "", "c", ""),
        (Cluster(CPU, GPU), "--accelerator h100", "g", ""),
        (Cluster(CPU, GPU, nodes=[FOUR]), "-r c", "c", ""),
    ],
)
def test_the_runtime_fits_the_device(cluster, line, name, said):
    found, words = choosing.runtime(cluster, parse_cell_line(line))
    assert found.name == name and said in words and bool(said) == bool(words)


@pytest.mark.parametrize(
    ("most", "name", "said"),
    [
        ({"cpu": 8}, "c", say.QUEUE_WITHOUT_GPUS(queue="team")),
        ({"nvidia.com/gpu": 0}, "c", say.QUEUE_WITHOUT_GPUS(queue="team")),
        (
            {"nvidia.com/gpu": 2},
            "c",
            say.QUEUE_TOO_SMALL(nodes=3, each=1, queue="team", count=2),
        ),
        ({"nvidia.com/gpu": 3}, "g", "on GPU"),
        ({"nvidia.com/gpu": None}, "g", "on GPU"),
        (None, "g", "on GPU"),  # it may not be read
    ],
)
def test_a_queue_without_gpus_gets_no_job_for_them_unasked(monkeypatch, most, name, said):
    monkeypatch.setattr(choosing.quota, "most", lambda client, queue: most)
    line = parse_cell_line("-n 3 --queue team")
    found, words = choosing.runtime(Cluster(CPU, GPU, nodes=[FOUR]), line)
    assert found.name == name and said in words


def test_a_runtime_for_gpus_that_fits_is_taken_unasked_though_it_is_not_the_first():
    found, words = choosing.runtime(Cluster(CPU, EIGHT, GPU, nodes=[FOUR]), parse_cell_line(""))
    assert found.name == "g" and "on GPU" in words


@pytest.mark.parametrize(
    "label",
    [
        {"jupyter-jax-trainer/python": "3.99"},
        {"trainer.kubeflow.org/support": "deprecated"},
    ],
)
def test_a_worse_runtime_for_gpus_is_not_taken_unasked_because_the_best_does_not_fit(label):
    worse = a_runtime("worse", "gpu", **label)
    found, words = choosing.runtime(Cluster(CPU, EIGHT, worse, nodes=[FOUR]), parse_cell_line(""))
    assert found.name == "c" and "1 × 8 GPUs would be needed" in words
    found, _ = choosing.runtime(Cluster(CPU, worse, nodes=[FOUR]), parse_cell_line(""))
    assert found.name == "worse"


def test_gpus_on_nodes_that_the_runtime_does_not_go_to_are_none_for_it():
    narrow = a_runtime("narrow", "gpu")
    job = narrow["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]
    job["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "big"}
    in_pool = {**FOUR, "metadata": {"name": "m", "labels": {"pool": "big"}}}
    for nodes, name in ([FOUR], "c"), ([FOUR, in_pool], "narrow"):
        found, _ = choosing.runtime(Cluster(CPU, narrow, nodes=nodes), parse_cell_line(""))
        assert found.name == name


def test_the_best_of_several_runtimes_is_taken():
    here, other = runtimes.PYTHON, "3.99"
    python, support = "jupyter-jax-trainer/python", "trainer.kubeflow.org/support"
    old = a_runtime("old", "cpu", **{python: here, support: "deprecated"})
    again = a_runtime("again", "cpu", once=False, **{python: here})
    elsewhere = a_runtime("elsewhere", "cpu", **{python: other})
    slim = a_runtime("slim", "cpu", **{python: here, "jupyter-jax-trainer/slim": "true"})
    best = a_runtime("best", "cpu", **{python: here})
    order = [best, slim, elsewhere, again, old]
    while order:
        found, _ = choosing.runtime(Cluster(*reversed(order)), parse_cell_line(""))
        assert found.name == order.pop(0)["metadata"]["name"]
    assert runtimes.deprecation(TrainingRuntime(best)) is None
    assert runtimes.deprecation(TrainingRuntime(old)) == say.DEPRECATED(name="old")


def test_a_runtime_for_another_device_is_refused():
    with pytest.raises(UsageError) as refused:
        choosing.runtime(Cluster(CPU, GPU), parse_cell_line("-r c -d gpu"))
    assert refused.value.message == say.WRONG_DEVICE(runtime="c", device="cpu", wanted="gpu")
    unsaid = a_runtime("u", "")
    found, _ = choosing.runtime(Cluster(unsaid), parse_cell_line("-r u -d gpu"))
    assert found.json == {**unsaid, "kind": "ClusterTrainingRuntime"}
    with pytest.raises(UsageError, match="for tpu.*: c, g") as refused:
        choosing.runtime(Cluster(CPU, GPU), parse_cell_line("-d tpu"))
    assert refused.value.id == "submit.no-runtime-among"
    assert "jaxtrain runtimes install --device tpu" in refused.value.hint
    with pytest.raises(UsageError) as refused:
        choosing.runtime(Cluster(), parse_cell_line("-d tpu"))
    assert refused.value.id == "submit.no-runtime"


# ---- the rank on a TPU slice


@pytest.mark.parametrize(
    ("rank", "nodes", "hosts", "place", "refusal"),
    [
        (1, 2, "a,b", "1", None),
        (1, 2, "a,b", None, None),
        (0, 1, "localhost", "0", None),
        (1, 2, "localhost", "0", None),  # one machine each: no order
        (1, 2, None, None, None),
        (1, 2, "a,b", "0", say_of_worker.SLICE_ORDER(rank=1, host="0")),
        (1, 2, "a,b,c,d", "1", say_of_worker.SLICE_SIZE(hosts=4, nodes=2)),
    ],
)
def test_trainers_rank_has_to_be_the_place_in_the_slice(
    monkeypatch, rank, nodes, hosts, place, refusal
):
    for name, value in (("TPU_WORKER_HOSTNAMES", hosts), ("TPU_WORKER_ID", place)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    if refusal is None:
        tpu.check(rank, nodes)
        return
    with pytest.raises(WorkerError) as refused:
        tpu.check(rank, nodes)
    assert (refused.value.id, str(refused.value)) == (refusal.id, refusal)
    assert "--topology" in refused.value.hint


def test_a_worker_stops_before_jax_where_the_slice_is_another(tmp_path):
    done = podruns.run(tmp_path, "print('runs')", TPU_WORKER_HOSTNAMES="a,b", TPU_WORKER_ID="0")
    assert say_of_worker.SLICE_SIZE(hosts=2, nodes=1) in done.text
    assert "runs" not in done.text.splitlines() and "joined" not in done.kinds()


def test_labels_are_patched_in_only_where_there_are_any():
    nothing = dict.fromkeys(("scratch", "mesh", "restricted"), False)
    packed = types.SimpleNamespace(mounted=False)

    def patch(**plan):
        return trainjob._patch(parse_cell_line(""), {"patches": nothing, **plan}, packed, "s")

    assert patch(selector={}) is None is patch()
    made = patch(selector={SHAPE: "4x4"})
    (job,) = made.json["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["template"] == {"spec": {"nodeSelector": {SHAPE: "4x4"}}}


@pytest.mark.parametrize(
    ("device", "limits", "labels", "each"),
    [
        ("gpu", {"nvidia.com/gpu": "8"}, {}, 8),
        ("gpu", {"nvidia.com/gpu": 4}, {}, 4),
        ("gpu", {}, {}, None),
        ("tpu", {"google.com/tpu": "1"}, {SHAPE: "4x4"}, 4),
        ("tpu", {"google.com/tpu": "4"}, {}, 4),
        ("tpu", {}, {SHAPE: "odd"}, None),
        ("cpu", {"cpu": "8"}, {}, None),
    ],
)
def test_a_runtime_says_how_many_devices_its_nodes_have(device, limits, labels, each):
    assert devices.brought(device, Resources({"limits": limits}), labels) == each
    node = {"name": "node", "resources": {"limits": limits}}
    pod = {"containers": [node], "nodeSelector": labels}
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    item = {
        "kind": "TrainingRuntime",
        "metadata": {"name": "a", "labels": {"jupyter-jax-trainer/device": device}},
        "spec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    found = runtimes.describe(TrainingRuntime(item))
    assert (found.device, found.devices) == (device, each)


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(has_driver(), reason="this machine has NVIDIA's driver")
def test_a_worker_does_not_go_on_with_the_cpu_in_silence(tmp_path):
    def said(**more):
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        done = podruns.run(folder, "print('runs')", **{"JAX_PLATFORMS": None, **more})
        assert done.has("joined") == ("runs" in done.text.splitlines())
        return done.text

    assert say_of_worker.NO_GPU_PLUGIN() in said(JAXTRAIN_DEVICE="gpu")
    assert say_of_worker.NO_LIBTPU() in said(JAXTRAIN_DEVICE="tpu")
    assert "runs" in said(JAXTRAIN_DEVICE="gpu", JAX_PLATFORMS="")
    assert "runs" in said(JAXTRAIN_DEVICE="cpu")
    (tmp_path / "libtpu.so").touch()
    assert say_of_worker.NO_LIBTPU() in said(JAXTRAIN_DEVICE="tpu", TPU_LIBRARY_PATH="/nowhere.so")
    check = "from jupyter_jax_trainer.worker.pod import devices; devices.check('tpu')"
    environment = {**os.environ, "TPU_LIBRARY_PATH": str(tmp_path / "libtpu.so")}
    environment.pop("JAX_PLATFORMS", None)
    subprocess.run([sys.executable, "-c", check], env=environment, check=True)
    # A plugin, and no driver.
    plugin = tmp_path / "plugins" / "jax_plugins" / "xla_cuda13"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").touch()
    told = said(JAXTRAIN_DEVICE="gpu", PYTHONPATH=str(plugin.parents[1]))
    assert "no driver for them: libcuda.so.1" in told
    plugin.rename(plugin.with_name("xla_rocm7"))
    assert "runs" in said(JAXTRAIN_DEVICE="gpu", PYTHONPATH=str(plugin.parents[1]))
    plugin.with_name("xla_rocm7").rename(plugin)
    # With both, JAX is asked (and, with these, takes the CPU).
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "libcuda.so.1").symlink_to(_ctypes.__file__)  # some library
    found = said(
        JAXTRAIN_DEVICE="gpu", PYTHONPATH=str(plugin.parents[1]), LD_LIBRARY_PATH=str(driver)
    )
    assert "runs" in found
