"""What runtimes/ says of an image is what images/ builds; and what is installed is what is there."""

from __future__ import annotations

import contextlib
import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import jupyter_jax_trainer
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.doctor import checkup
from jupyter_jax_trainer.backends.kubernetes.submit import images, manifests, runtimes
from jupyter_jax_trainer.backends.kubernetes.submit.devices import RESOURCES
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.devices import DEVICES
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import commands as say_of_commands
from jupyter_jax_trainer.messages import doctor as say_of_doctor
from jupyter_jax_trainer.messages import kubernetes as say
from jupyter_jax_trainer.messages import local
from jupyter_jax_trainer.options.table import PYTHONS

REPOSITORY = Path(__file__).parents[2]
IMAGES = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
# What is needed of glibc by the packages: Debian 12 has 2.36.
PLATFORMS = [
    "manylinux1",
    "manylinux2010",
    "manylinux2014",
    *(f"manylinux_2_{n}" for n in range(5, 37)),
]
# What notebooks for JAX commonly use, and slim images lack.
STANDARD = {
    "chex",
    "einops",
    "equinox",
    "flax",
    "grain",
    "ipython",
    "matplotlib",
    "pandas",
    "safetensors",
    "tqdm",
}
devices = pytest.mark.parametrize("device", DEVICES)
lists = pytest.mark.parametrize(
    "name", [*(f"{kind}/requirements" for kind in IMAGES.values()), "standard"]
)


def runtime_of(device: str, *, slim: bool = False) -> TrainingRuntime:
    path = REPOSITORY / "runtimes" / device / f"jax-{device}.yaml"
    if slim:
        path = REPOSITORY / "runtimes" / "slim" / device / f"jax-{device}-slim.yaml"
    return TrainingRuntime(yaml.safe_load(path.read_text()))


def node_of(item: TrainingRuntime) -> dict[str, Any]:
    """Return the replicated job of a runtime."""
    (job,) = item.json["spec"]["template"]["spec"]["replicatedJobs"]
    found: dict[str, Any] = job["template"]["spec"]
    return found


def pins(name: str) -> dict[str, str]:
    """Return the versions that a file of images/ pins."""
    lines = (REPOSITORY / "images" / name).read_text().splitlines()
    wanted = [line for line in lines if line and not line.lstrip().startswith(("#", "--hash="))]
    assert all("==" in line for line in wanted), "an image names exact versions"
    return dict(line.removesuffix(" \\").split("==") for line in wanted)


def pins_of(device: str) -> dict[str, str]:
    """Return the versions that the slim image for a device has."""
    return pins(f"{IMAGES[device]}/requirements.in")


# ---- the files


@devices
@pytest.mark.parametrize("slim", [False, True])
def test_labels_say_what_the_image_has(device, slim):
    item = runtime_of(device, slim=slim)
    labels = item.labels
    jax, python = (labels[f"jupyter-jax-trainer/{name}"] for name in ("jax", "python"))
    own = "-slim" if slim else ""
    assert item.name == f"jax-{device}{own}"
    assert labels["jupyter-jax-trainer/device"] == device == runtimes.device_of(item)
    assert labels["trainer.kubeflow.org/framework"] == "jax"
    assert jax == pins_of(device)["jax"] == pins_of(device)["jaxlib"]
    assert item.container.image == f"jupyter-jax-trainer-{IMAGES[device]}:jax{jax}-py{python}{own}"
    containerfile = (REPOSITORY / "images" / "Containerfile").read_text()
    assert re.search(rf"(?m)^ARG BASE=python:{re.escape(python)}-", containerfile)
    assert python in PYTHONS


@lists
def test_all_that_an_image_installs_has_hashes(name):
    pinned = REPOSITORY / "images" / f"{name}.txt"
    assert pins(f"{name}.txt") == pins(f"{name}.in"), "run `make requirements`"
    for each in re.split(r"(?m)^(?=\S+==)", pinned.read_text())[1:]:
        assert re.fullmatch(r"\S+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+\n", each)
    assert "--require-hashes" in (REPOSITORY / "images" / "Containerfile").read_text()


def test_images_differ_in_what_their_devices_need_only():
    cpu = pins_of("cpu").items()
    assert cpu <= pins_of("gpu").items() and cpu <= pins_of("tpu").items()


@devices
def test_a_standard_image_has_what_the_slim_one_has_and_what_notebooks_use(device):
    added = pins("standard.in")
    assert added.keys() >= STANDARD and not added.keys() & pins_of(device).keys()

    def said(item: TrainingRuntime) -> dict[str, str]:
        found = images.known(item, item.container.image)
        assert found is not None
        return dict(found.distributions)

    slim = said(runtime_of(device, slim=True))
    assert slim == pins_of(device)
    assert said(runtime_of(device)) == slim | added


def test_the_standard_image_is_the_slim_one_and_a_layer():
    text = (REPOSITORY / "images" / "Containerfile").read_text()
    # The last one is what a build without --target makes.
    stages = re.findall(r"(?m)^FROM (\S+) AS (\w+)$", text)
    assert stages == [("${BASE}", "build"), ("${BASE}", "slim"), ("slim", "standard")]


@devices
def test_the_runtime_for_the_slim_image_differs_in_nothing_else(device):
    standard, slim = runtime_of(device), runtime_of(device, slim=True)
    metadata = standard.json["metadata"]
    metadata["name"] += "-slim"
    metadata["labels"]["jupyter-jax-trainer/slim"] = "true"
    metadata["annotations"] = slim.json["metadata"]["annotations"]
    node_of(standard)["template"]["spec"]["containers"][0]["image"] += "-slim"
    assert standard == slim


def test_runtimes_differ_in_their_devices_only():
    """What all have in common is written three times, since plain YAML can't share it."""
    common = []
    for device in DEVICES:
        item = runtime_of(device)
        pod = node_of(item)["template"]["spec"]
        (container,) = pod["containers"]
        resource = RESOURCES.get(device)
        asked = container.pop("resources")
        assert set(asked["requests"]) - {resource} == {"cpu", "memory"}
        assert set(asked.get("limits", {})) == ({resource} if resource else set())
        assert [t["key"] for t in pod.pop("tolerations", [])] == ([resource] if resource else [])
        container.pop("image")
        container["volumeMounts"] = [
            m for m in container["volumeMounts"] if m["name"] != "shared-memory"
        ]
        pod["volumes"] = [v for v in pod["volumes"] if v["name"] != "shared-memory"]
        common.append(item.json["spec"])
    assert common[0] == common[1] == common[2]


@devices
def test_a_failing_cell_is_not_run_again_and_nothing_has_to_be_patched_in(device):
    item = runtime_of(device)
    assert runtimes.runs_once(item)
    assert not any(runtimes.patches(item, restricted=True, device=device).values())
    assert {finding.status for finding in checkup.examine(item)} <= {OK, WARN}
    assert {f.subject for f in checkup.examine(item) if f.status == WARN} <= {"Python"}


@pytest.mark.parametrize(
    "own",
    [
        [],
        [{"key": "team", "operator": "Exists"}],
        [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}],
    ],
)
def test_a_runtime_that_does_not_tolerate_the_taint_of_its_devices_is_told_and_mended(own):
    item = runtime_of("gpu")
    node_of(item)["template"]["spec"]["tolerations"] = own
    assert runtimes.patches(item, restricted=True, device="gpu")["tolerations"]
    added = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert [one.json for one in runtimes.tolerations(item, "gpu")] == [*own, added]
    (told,) = (found for found in checkup.examine(item) if found.subject == "Taints")
    assert told.status == WARN and told.detail.id == "doctor.not-tolerated"


@pytest.mark.parametrize(
    ("name", "taint"),
    [
        ("amd.com/gpu", "amd.com/gpu"),
        ("nvidia.com/mig-1g.10gb", "nvidia.com/gpu"),
        ("nvidia.com/gpu.shared", "nvidia.com/gpu"),
    ],
)
def test_the_taint_is_that_of_the_devices_that_the_runtime_names(name, taint):
    item = runtime_of("gpu")
    pod = node_of(item)["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {name: "1"}}
    pod["tolerations"] = []
    assert runtimes.taint(item, "gpu") == taint
    assert [one.json["key"] for one in runtimes.tolerations(item, "gpu")] == [taint]
    assert runtimes.patches(item, restricted=True, device="gpu")["tolerations"]
    pod["tolerations"] = [one.json for one in runtimes.tolerations(item, "gpu")]
    assert not runtimes.patches(item, restricted=True, device="gpu")["tolerations"]


@pytest.mark.parametrize(
    "own",
    [
        {"operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
    ],
)
def test_a_runtime_that_tolerates_it_is_left_alone(own):
    item = runtime_of("gpu")
    node_of(item)["template"]["spec"]["tolerations"] = [own]
    assert not runtimes.patches(item, restricted=True, device="gpu")["tolerations"]
    assert "tolerations" not in runtimes.patches(
        item, restricted=True
    )  # a job on the CPU needs none


@pytest.mark.parametrize(("below", "suffix"), [("", ""), ("slim", "-slim")])
def test_every_runtime_is_in_a_kustomization_and_all_are_in_one(below, suffix):
    folder = REPOSITORY / "runtimes" / below
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert tuple(listed) == DEVICES
    for device in DEVICES:
        own = yaml.safe_load((folder / device / "kustomization.yaml").read_text())
        assert own["resources"] == [f"jax-{device}{suffix}.yaml"]
        (naming,) = own["components"]
        assert (folder / device / naming).resolve() == REPOSITORY / "runtimes" / "naming"
    names = {path.name for path in folder.glob("*/jax-*.yaml")}
    assert names == {f"jax-{device}{suffix}.yaml" for device in DEVICES}


@pytest.mark.release
def test_the_packages_of_images_that_are_not_built_can_be_had(tmp_path):
    """No base has Python 3.12 where images are built, so that pip is asked for all that is pinned."""
    packages = [
        f"{name}=={version}"
        for pinned in (pins_of("gpu"), pins_of("tpu"), pins("standard.in"))
        for name, version in pinned.items()
    ]
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_x86_64")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--no-deps",
            "--target",
            tmp_path,
            "--only-binary",
            ":all:",
            "--python-version",
            "3.12",
            "--implementation",
            "cp",
            *platforms,
            *sorted(set(packages)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# ---- what is installed


@pytest.fixture(autouse=True)
def not_pinned(monkeypatch):
    """Know no digests, as a clone: a release's sdist has some."""
    monkeypatch.setattr(manifests, "_pinned", lambda folder: {})


def test_a_wheel_has_the_runtimes_where_they_are_looked_for():
    package = Path(jupyter_jax_trainer.__file__).parent
    assert (package / "manifests", package.parent / "runtimes") == manifests._PLACES


@devices
def test_the_manifest_is_the_file(device):
    assert manifests.manifest(device) == runtime_of(device)
    assert manifests.manifest(device, slim=True) == runtime_of(device, slim=True)
    own = manifests.manifest(device, namespace="team")
    assert (own.kind, own.namespace) == ("TrainingRuntime", "team")


def test_images_elsewhere_and_for_other_pythons():
    def made(**options):
        item = manifests.manifest("gpu", **options)
        labels = item.labels
        versions = tuple(labels.get(f"jupyter-jax-trainer/{name}") for name in ("jax", "python"))
        return item.name, item.container.image, *versions

    assert made(python="3.11") == made()
    assert made(python="3.12", registry="ghcr.io/team/") == (
        "jax-gpu-py3.12",
        "ghcr.io/team/jupyter-jax-trainer-cuda:jax0.10.2-py3.12",
        "0.10.2",
        "3.12",
    )
    assert made(python="3.12", slim=True) == (
        "jax-gpu-slim-py3.12",
        "jupyter-jax-trainer-cuda:jax0.10.2-py3.12-slim",
        "0.10.2",
        "3.12",
    )
    assert made(image="mine/jax:7") == ("jax-gpu", "mine/jax:7", None, None)
    assert made(image="mine/jax:jax0.11.0-py3.13")[2:] == ("0.11.0", "3.13")


def test_a_volume_for_checkpoints():
    item = manifests.manifest("cpu", namespace="team", volume="fast:/data/team")
    assert (
        runtimes.shared_folder(item) == "/data/team"
        and runtimes.shared_folder(runtime_of("cpu")) is None
    )
    pod = node_of(item)["template"]["spec"]
    assert pod["volumes"][-1] == {"name": "shared", "persistentVolumeClaim": {"claimName": "fast"}}
    assert pod["containers"][0]["volumeMounts"][-1] == {"name": "shared", "mountPath": "/data/team"}
    (told,) = [finding for finding in checkup.examine(item) if finding.subject == "Shared folder"]
    assert told.status == OK and "/data/team" in told.detail


@pytest.mark.parametrize(
    ("folder", "fine"),
    [
        ("/data", True),
        ("/data/", True),
        ("/data/jax", True),
        ("/database", False),
        ("/", None),
        ("data", None),
        ("/tmp/x", False),
        ("/nowhere", False),
    ],
)
def test_a_shared_folder_is_on_a_volume_that_stays(folder, fine):
    item = manifests.manifest("cpu", volume="claim:/data")
    item.json["metadata"]["annotations"] = {runtimes.SHARED: folder}
    told = [one.status for one in checkup.examine(item) if one.subject == "Shared folder"]
    assert told == ([] if fine is None else [OK if fine else WARN])


def test_a_shared_folder_that_goes_with_the_pod_is_told():
    for change in ({"ephemeral": {}}, {"configMap": {}}):
        item = manifests.manifest("cpu", volume="claim:/data")
        pod = node_of(item)["template"]["spec"]
        pod["volumes"][-1] = {"name": "shared", **change}
        assert not runtimes.is_on_volume(item, "/data")
    item = manifests.manifest("cpu", volume="claim:/data")
    node_of(item)["template"]["spec"]["containers"][0]["volumeMounts"][-1]["readOnly"] = True
    assert not runtimes.is_on_volume(item, "/data")


def test_a_volume_goes_where_nothing_is_yet():
    with pytest.raises(UsageError, match="/tmp") as caught:
        manifests.manifest("cpu", namespace="team", volume="claim:/tmp")
    assert caught.value.id == "kubernetes.path-is-mounted"


class Cluster:
    """Answers as the API does to server-side apply."""

    namespace = "me"

    def __init__(self, there: TrainingRuntime | None = None, conflict: str | None = None) -> None:
        self.there, self.conflict, self.asked = there, conflict, []

    def trainer(self, resource: str) -> str:
        return f"/namespaces/me/{resource}"

    def request(self, verb: str, path: str, *, query=None, body=None, content_type=None) -> Any:
        if verb == "GET":
            if self.there is None:
                raise ApiError(404, "NotFound", "no")
            return copy.deepcopy(self.there.json)
        self.asked.append((path, query, content_type))
        if self.conflict and query["force"] == "false":
            raise ApiError(409, "Conflict", self.conflict)
        return copy.deepcopy(body)


def test_what_applying_changed_is_said():
    item = manifests.manifest("cpu")
    assert manifests.apply(Cluster(), item).what == "created"
    assert manifests.apply(Cluster(item), item).what == "unchanged"
    older = copy.deepcopy(item)
    manifests._node(older.json)["image"] = "older"
    del older.json["metadata"]["labels"]["jupyter-jax-trainer/python"]
    older.json["metadata"]["resourceVersion"] = "7"  # of no interest
    done = manifests.apply(Cluster(older), item)
    assert done.what == "configured" and len(done.changes) == 2
    assert done.changes[0] == "labels.jupyter-jax-trainer/python: nothing → 3.11"
    assert done.changes[1].endswith("containers[node].image: older → " + item.container.image)


def test_hostile_words_in_a_changed_field_stay_in_their_line(monkeypatch):
    older = manifests.manifest("cpu")
    manifests._node(older.json)["image"] = "x\n---\nkind: Pod\x1b]52;c;eA==\x07"
    monkeypatch.setattr(connection, "get_client", lambda *_: Cluster(older))
    monkeypatch.setattr(connection, "said_plainly", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(runtimes, "check_trainer", lambda _: "2.3")
    said: list[str] = []
    run_command(["runtimes", "install", "-d", "cpu", "--dry-run"], Context(print=said.append))
    (line,) = [text for text in said if "x\\n---" in text]
    assert line.startswith("# ") and "\n" not in line and "\x1b" not in line


@pytest.mark.parametrize(("pinned", "hints"), [(None, 1), ("ghcr.io/team/jax@sha256:0", 0)])
def test_where_images_are_is_asked_for_only_where_no_registry_is_known(monkeypatch, pinned, hints):
    if pinned:
        usual = manifests.manifest("cpu").container.image
        monkeypatch.setattr(manifests, "_pinned", lambda folder: {usual: pinned})
    monkeypatch.setattr(connection, "get_client", lambda *_: Cluster())
    monkeypatch.setattr(connection, "said_plainly", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(runtimes, "check_trainer", lambda _: "2.3")
    said: list[str] = []
    run_command(["runtimes", "install", "-d", "cpu"], Context(print=said.append))
    assert said.count(say.IMAGES_MUST_BE_FOUND()) == hints


def test_what_others_set_is_not_taken_over_in_silence():
    item = manifests.manifest("cpu", namespace="me")
    cluster = Cluster(item, 'conflict with "kubectl": .spec')
    with pytest.raises(BackendError, match=r'"kubectl": \.spec') as refused:
        manifests.apply(cluster, item)
    assert refused.value.id == "kubernetes.changed-by-others"
    assert "--force" in refused.value.hint
    assert manifests.apply(cluster, item, force=True, dry_run=True).what == "unchanged"
    path, query, content_type = cluster.asked[-1]
    assert path == "/namespaces/me/trainingruntimes/jax-cpu"
    assert query == {"fieldManager": "jupyter-jax-trainer", "force": "true", "dryRun": "All"}
    assert content_type == "application/apply-patch+yaml"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("install --image x", "kubernetes.one-image"),
        ("install -d gpu --image x --python 3.12", "kubernetes.image-alone"),
        ("install -d gpu --image x --slim", "kubernetes.image-alone"),
        ("install --volume claim:/data", "kubernetes.volume-needs-namespace"),
        ("install --volume claim", "my-claim:/data"),
        ("check --volume claim:/data", say_of_commands.INSTALL_ONLY(option="--volume")),
        ("install jax-cpu", "commands.install-takes-no-names"),
        ("install -d npu", "cpu, gpu, tpu"),
        ("install --python 3.9", "3.11, 3.12, 3.13"),
        ("check --slim", say_of_commands.INSTALL_ONLY(option="--slim")),
        ("check --force", say_of_commands.INSTALL_ONLY(option="--force")),
        ("-d gpu", say_of_commands.INSTALL_ONLY(option="--device")),
        ("show", "commands.show-which-runtime"),
        (
            "remove jax-cpu",
            say_of_commands.UNKNOWN_ACTION(command="runtimes", action="'remove'"),
        ),
    ],
)
def test_a_line_that_makes_no_sense_is_refused(line, said):
    with pytest.raises(UsageError) as caught:
        run_command(["runtimes", *line.split()], Context(print=lambda text: None))
    assert said in f"{caught.value.id}: {caught.value}"


def test_a_runtime_of_this_machine_can_be_shown():
    shown: list[str] = []
    run_command(["runtimes", "show", "local-cpu"], Context(print=shown.append))
    assert "local-cpu" in shown[0] and local.CPU_RUNTIME() in shown[0]


# ---- what is wrong with a runtime


def broken(path: str, value: Any = None) -> TrainingRuntime:
    """Return our runtime with one thing of its pods or itself changed; None takes it away."""
    item = runtime_of("cpu")
    job = node_of(item)
    places = {
        "job": job,
        "pod": job["template"],
        "item": item.json,
        "node": job["template"]["spec"]["containers"][0],
    }
    first, *names, last = path.split("/")
    place = places[first]
    for name in names:
        place = place[name]
    place.pop(last, None)
    if value is not None:
        place[last] = value
    return item


@pytest.mark.parametrize(
    ("item", "subject", "status", "said"),
    [
        (broken("node/name", "jax"), "Container", FAIL, say_of_doctor.NO_NODE()),
        (broken("node/image"), "Image", FAIL, say_of_doctor.NONE()),
        (broken("item/spec/mlPolicy"), "Policy", WARN, checkup.NO_ML_POLICY()),
        (broken("job/backoffLimit", 6), "Restarts", WARN, checkup.RERUNS()),
        (broken("pod/spec/restartPolicy", "OnFailure"), "Restarts", WARN, checkup.RERUNS()),
        (
            broken("item/spec/template/spec/failurePolicy", {"maxRestarts": 3}),
            "Restarts",
            WARN,
            checkup.RERUNS(),
        ),
        (broken("node/volumeMounts"), "Scratch space", WARN, checkup.NO_SCRATCH()),
        (broken("pod/metadata"), "Service mesh", WARN, checkup.INSIDE_MESH()),
        (broken("node/securityContext"), "PodSecurity", WARN, checkup.NOT_RESTRICTED()),
        (
            broken("item/metadata/labels", {}),
            "Python",
            WARN,
            checkup.NO_PYTHON_LABEL(label="jupyter-jax-trainer/python"),
        ),
        (
            broken("item/metadata/labels", {"jupyter-jax-trainer/python": "3.99"}),
            "Python",
            WARN,
            checkup.ANOTHER_PYTHON(there="3.99", here=runtimes.PYTHON),
        ),
        (
            broken("item/metadata/labels", {"trainer.kubeflow.org/support": "deprecated"}),
            "Support",
            WARN,
            checkup.RUNTIME_DEPRECATED(),
        ),
    ],
)
def test_a_check_finds_what_is_wrong(item, subject, status, said):
    (found,) = [finding for finding in checkup.examine(item) if finding.subject == subject]
    assert (found.status, found.detail) == (status, said) and found.advice
    fine = [finding for finding in checkup.examine(runtime_of("cpu")) if finding.subject == subject]
    assert not [f for f in fine if f.status != OK and f.subject != "Python"]


@pytest.mark.parametrize(
    ("status", "line", "hints"), [(403, "", True), (403, "--namespace me", False), (409, "", False)]
)
def test_who_lacks_a_right_in_the_cluster_learns_of_the_namespace(monkeypatch, status, line, hints):
    def refuse(_: Any) -> str:
        raise ApiError(status, "Forbidden", "no", "create", "clustertrainingruntimes")

    monkeypatch.setattr(connection, "get_client", lambda *_: Cluster())
    monkeypatch.setattr(runtimes, "check_trainer", refuse)
    with pytest.raises(BackendError) as error:
        run_command(["runtimes", "install", *line.split()], Context())
    assert (say.FOR_ONE_NAMESPACE() in (error.value.hint or "")) == hints
