"""The workflows of GitHub, and what a release makes of the runtimes."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import policy
import pytest
import yaml

from jupyter_jax_trainer.backends.kubernetes.submit import manifests
from jupyter_jax_trainer.options.table import PYTHONS

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CI, RELEASE = (ROOT / ".github" / "workflows" / f"{name}.yml" for name in ("ci", "release"))
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
SLIM_DIGEST = DIGEST.replace("0", "f")

workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text())["jobs"])


@workflows
def test_modules_that_a_step_imports_exist(path):
    for module, name in re.findall(r"from (jupyter_jax_trainer\S*) import (\w+)", path.read_text()):
        found = importlib.import_module(module)
        assert hasattr(found, name) or importlib.import_module(f"{module}.{name}")


@pytest.mark.slow
@pytest.mark.timeout(300)  # it is built first
def test_actionlint_finds_nothing():
    go = shutil.which("go")
    if not go:
        policy.skip_or_fail("go", "there is no Go to run actionlint with")
    command = [go, "run", ACTIONLINT, "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "GOFLAGS": ""}
    )
    assert done.returncode == 0, done.stdout + done.stderr


@workflows
def test_workflows_may_read_only_but_where_they_say_more(path):
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in jobs(path).items() if "permissions" in job}
    assert more == (
        {}
        if path.stem == "ci"
        else {
            "images": {"contents": "read", "packages": "write"},
            "publish": {"id-token": "write"},
            "release": {"contents": "write"},
        }
    )


@workflows
def test_nothing_from_outside_becomes_code(path):
    for job in jobs(path).values():
        assert "timeout-minutes" in job
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_root_owns_the_caches_while_it_runs_what_ci_runs():
    steps = [step.get("run", "") for step in jobs(CI)["all"]["steps"]]
    (given,) = (at for at, text in enumerate(steps) if "chown -R root ~/.cache" in text)
    (ran,) = (at for at, text in enumerate(steps) if ".ci/run" in text)
    (given_back,) = (at for at, text in enumerate(steps) if 'chown -R "$USER" ~/.cache' in text)
    assert given < ran < given_back
    assert "mkdir -p ~/.cache/pip" in steps[given]  # pip looks at the owner of what is there


def test_images_come_with_sbom_and_provenance_and_what_is_published_with_attestations():
    def of(action: str) -> list[dict[str, Any]]:
        steps = [step for job in jobs(RELEASE).values() for step in job["steps"]]
        return [step["with"] for step in steps if step.get("uses", "").startswith(f"{action}@")]

    images, (package,) = of("docker/build-push-action"), of("pypa/gh-action-pypi-publish")
    assert {image["target"] for image in images} == {"slim", "standard"}
    for image in images:
        assert (image["push"], image["sbom"], image["provenance"]) == (True, True, "mode=max")
    assert package["attestations"] is True and "password" not in package


def test_a_release_has_its_images_first_and_publishes_only_what_was_tried():
    order = {name: job.get("needs") for name, job in jobs(RELEASE).items()}
    assert order == {
        "tests": None,
        "images": "tests",
        "build": "images",
        "wheel": "build",
        "publish": "wheel",
        "release": "publish",
    }
    matrix = jobs(RELEASE)["images"]["strategy"]["matrix"]
    assert (matrix["kind"], matrix["python"]) == (["cpu", "cuda", "tpu"], list(PYTHONS))
    assert jobs(RELEASE)["wheel"]["strategy"]["matrix"]["python"] == list(PYTHONS)


def run_step(text: str, folder: Path, **variables: str) -> None:
    """Run a step's commands as GitHub does, with this Python."""
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=folder,
        env={**os.environ, "PATH": path, **variables},
        check=True,
    )


def test_a_release_pins_all_images_before_it_builds(pin, tmp_path):
    _, folder = pin
    steps = [step.get("run", "") for step in jobs(RELEASE)["build"]["steps"]]
    (at,) = (at for at, text in enumerate(steps) if "images/pin.py" in text)
    assert at < steps.index("python -m build")
    pushed = [
        f"ghcr.io/team/{re.sub('-py.*', '', image)}-py{python}@{DIGEST}"
        for image in (CPU, GPU, TPU)
        for python in PYTHONS
    ]
    for number, image in enumerate(pushed):
        (tmp_path / "pushed" / str(number)).mkdir(parents=True)
        (tmp_path / "pushed" / str(number) / "image").write_text(f"{image}\n{slim_of(image)}\n")
    pushed += [slim_of(image) for image in pushed]
    run_step(steps[at], tmp_path, TAG="v1")
    for device in ("cpu", "gpu", "tpu"):
        assert images_of(folder, device)[0]["digest"] == DIGEST
        assert images_of(folder, device, slim=True)[0]["digest"] == SLIM_DIGEST
    with tarfile.open(tmp_path / "assets" / "runtimes-v1.tar.gz") as archive:
        assert (
            archive.extractfile("runtimes/images.json").read()
            == (folder / "images.json").read_bytes()
        )
    assert sorted(json.loads((tmp_path / "assets" / "images.json").read_text()).values()) == sorted(
        pushed
    )


def test_images_are_built_on_a_base_by_its_digest(tmp_path):
    steps = {step.get("id"): step for step in jobs(RELEASE)["images"]["steps"]}
    arguments = "BASE=${{ steps.base.outputs.image }}\nKIND=${{ matrix.kind }}\n"
    for stage in ("slim", "standard"):
        assert steps[stage]["with"]["build-args"] == arguments
    (tmp_path / "docker").write_text(f"#!/bin/sh\necho {DIGEST}\n")
    (tmp_path / "docker").chmod(0o755)
    run_step(steps["base"]["run"], tmp_path, BASE="python:3.11-slim-bookworm", GITHUB_OUTPUT="said")
    assert (tmp_path / "said").read_text() == f"image=python:3.11-slim-bookworm@{DIGEST}\n"


def test_what_builds_a_release_is_installed_by_its_hashes():
    folder = ROOT / ".github"
    (install,) = (
        step["run"]
        for step in jobs(RELEASE)["build"]["steps"]
        if "pip install" in step.get("run", "")
    )
    assert install.endswith("--require-hashes --requirement .github/requirements.txt")
    wanted = re.findall(r"(?m)^[a-z-]+", (folder / "requirements.in").read_text())
    listed = re.findall(
        r"(?m)^([a-z0-9-]+)==\S+ \\\n    --hash=sha256:", (folder / "requirements.txt").read_text()
    )
    assert {"build", "twine"} == set(wanted) <= set(listed), "run `make requirements`"


@pytest.fixture
def pin(tmp_path):
    """Give what pins images in a copy of the runtimes, and the folder of these."""
    for name in ("runtimes", "images"):
        shutil.copytree(ROOT / name, tmp_path / name)

    def make(*images: str) -> int:
        command = [sys.executable, tmp_path / "images" / "pin.py", *images]
        return subprocess.run(command, capture_output=True).returncode

    return make, tmp_path / "runtimes"


def slim_of(image: str) -> str:
    """Return the slim image that goes with a standard one, by its digest."""
    return image.replace(f"@{DIGEST}", f"-slim@{SLIM_DIGEST}")


def usual(name: str) -> str:
    """Return an image as its runtime names it, with its tag."""
    (found,) = (
        image
        for path in (ROOT / "runtimes").glob("*/jax-*.yaml")
        for image in re.findall(rf"image: ({name}:\S+)", path.read_text())
    )
    return str(found)


CPU, GPU, TPU = map(
    usual, ("jupyter-jax-trainer-cpu", "jupyter-jax-trainer-cuda", "jupyter-jax-trainer-tpu")
)


def images_of(folder: Path, device: str, *, slim: bool = False) -> list[dict[str, str]]:
    name = f"jax-{device}-slim" if slim else f"jax-{device}"
    text = (folder / ("slim" if slim else "") / device / "kustomization.yaml").read_text()
    found = yaml.safe_load(text)
    assert found["resources"] == [f"{name}.yaml"]
    return list(found.get("images", []))


def test_runtimes_are_pinned_to_digests(pin):
    make, folder = pin
    other, before = DIGEST.replace("0", "f"), images_of(folder, "tpu")
    for digest in (other, DIGEST):  # the second time it replaces what the first has written
        assert make(f"ghcr.io/team/{CPU}@{digest}", f"localhost:5000/a/{GPU}@{digest}") == 0
    assert images_of(folder, "cpu") == [
        {
            "name": "jupyter-jax-trainer-cpu",
            "digest": DIGEST,
            "newName": "ghcr.io/team/jupyter-jax-trainer-cpu",
        }
    ]
    assert images_of(folder, "gpu")[0]["newName"] == "localhost:5000/a/jupyter-jax-trainer-cuda"
    assert images_of(folder, "tpu") == before


def test_slim_images_are_pinned_apart_from_the_others(pin, monkeypatch):
    make, folder = pin
    image = f"ghcr.io/team/{CPU}@{DIGEST}"
    assert make(slim_of(image)) == 0
    assert not images_of(folder, "cpu")
    assert images_of(folder, "cpu", slim=True)[0]["digest"] == SLIM_DIGEST
    assert make(image) == 0
    assert images_of(folder, "cpu")[0]["digest"] == DIGEST
    assert images_of(folder, "cpu", slim=True)[0]["digest"] == SLIM_DIGEST
    monkeypatch.setattr(manifests, "_PLACES", (folder,))
    assert manifests.manifest("cpu", slim=True).container.image == slim_of(image)


def test_the_wheel_is_tried_for_all_images_that_are_pinned(pin, monkeypatch):
    make, folder = pin
    (text,) = (step["run"] for step in jobs(RELEASE)["wheel"]["steps"] if "run" in step)
    (program,) = re.findall(r"<<'IMAGES'\n(.*?)\nIMAGES\n", text, re.DOTALL)
    monkeypatch.setattr(manifests, "_PLACES", (folder,))
    monkeypatch.setattr(sys, "argv", ["images.py", "3.12"])
    pushed = [
        f"ghcr.io/team/{image.replace('-py3.11', '-py3.12')}@{DIGEST}" for image in (CPU, GPU, TPU)
    ]
    assert make(*pushed) == 0
    with pytest.raises(AssertionError, match="-slim"):
        exec(program, {})
    assert make(*map(slim_of, pushed)) == 0
    exec(program, {})


def test_install_names_pinned_images_by_their_digests_for_each_python(pin, monkeypatch):
    make, folder = pin
    newer = CPU.replace("-py3.11", "-py3.13")
    assert (
        make(f"ghcr.io/team/{newer}@{DIGEST}", f"ghcr.io/team/{CPU}@{DIGEST.replace('0', 'f')}")
        == 0
    )
    assert images_of(folder, "cpu")[0]["digest"] == DIGEST.replace(
        "0", "f"
    )  # that of the runtime's Python
    monkeypatch.setattr(manifests, "_PLACES", (folder,))
    item = manifests.manifest("cpu", python="3.13")
    assert item.container.image == f"ghcr.io/team/{newer}@{DIGEST}"
    assert item.labels["jupyter-jax-trainer/python"] == "3.13"
    usual = manifests.manifest("cpu").container.image
    assert usual.startswith(f"ghcr.io/team/{CPU}@sha256:f")
    for own in (
        {"registry": "mine"},
        {"image": f"mine/{CPU}"},
    ):  # they may have been built by others
        assert manifests.manifest("cpu", **own).container.image == f"mine/{CPU}"


@pytest.mark.parametrize(
    "image",
    [
        f"ghcr.io/team/{CPU}",
        f"ghcr.io/team/other:1@{DIGEST}",
        f"ghcr.io/a\nb:1@{DIGEST}",
        f"{CPU}@{DIGEST}",
        f"ghcr.io/team/jupyter-jax-trainer-cpu@{DIGEST}",
        f"ghcr.io/team/jupyter-jax-trainer-cpu:jax0.1-py3.11@{DIGEST}",
        f"ghcr.io/team/{CPU}-small@{DIGEST}",
        f"ghcr.io/team/{CPU}-slim-slim@{DIGEST}",
    ],
)
def test_what_is_no_image_of_ours_by_its_digest_changes_nothing(pin, image):
    make, folder = pin
    before = {path: path.read_text() for path in folder.rglob("*.*")}
    assert make(f"ghcr.io/team/{TPU}@{DIGEST}", image) == 1
    assert {path: path.read_text() for path in folder.rglob("*.*")} == before


def test_both_images_of_a_kind_are_named_by_what_was_pushed(tmp_path):
    (named,) = (
        step for step in jobs(RELEASE)["images"]["steps"] if ">>image" in step.get("run", "")
    )
    assert set(named["env"]) == {"IMAGE", "SLIM", "STANDARD"}
    run_step(named["run"], tmp_path, IMAGE=f"r/{CPU}", STANDARD=DIGEST, SLIM=SLIM_DIGEST)
    said = (tmp_path / "image").read_text().split()
    assert set(said) == {f"r/{CPU}@{DIGEST}", slim_of(f"r/{CPU}@{DIGEST}")}


def test_an_image_of_a_runtime_has_the_name_that_is_pinned():
    for device in ("cpu", "gpu", "tpu"):
        text = (ROOT / "runtimes" / device / f"jax-{device}.yaml").read_text()
        (name,) = set(re.findall(r"image: ([\w-]+):", text))
        assert name in (ROOT / "images" / "pin.py").read_text()


def test_forms_of_issues_ask_each_thing_once():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        if path.stem == "config":
            continue
        form = yaml.safe_load(path.read_text())
        assert form["name"] and form["description"]
        asked = [field["id"] for field in form["body"] if field["type"] != "markdown"]
        assert asked and len(set(asked)) == len(asked)
