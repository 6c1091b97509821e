"""The workflows of GitHub, and what a release makes of the runtimes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import policy
import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"

workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text())["jobs"])


@pytest.mark.slow
@pytest.mark.timeout(300)  # it is built first
def test_actionlint_finds_nothing():
    go = shutil.which("go")
    if not go:
        policy.skip_or_fail("go", "there is no Go to run actionlint with")
    command = [go, "run", ACTIONLINT, "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "GOFLAGS": ""})
    assert done.returncode == 0, done.stdout + done.stderr


@workflows
def test_workflows_may_read_only_but_where_they_say_more(path):
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in jobs(path).items() if "permissions" in job}
    assert more == ({} if path.stem == "ci" else {
        "images": {"contents": "read", "packages": "write"},
        "publish": {"id-token": "write"},
        "release": {"contents": "write"},
    })  # fmt: skip


@workflows
def test_nothing_from_outside_becomes_code(path):
    for job in jobs(path).values():
        assert "timeout-minutes" in job
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_root_owns_the_caches_while_it_runs_what_ci_runs():
    steps = [step.get("run", "") for step in jobs(ROOT / ".github" / "workflows" / "ci.yml")["all"]["steps"]]
    (given,) = (at for at, text in enumerate(steps) if "chown -R root ~/.cache" in text)
    (ran,) = (at for at, text in enumerate(steps) if ".ci/run" in text)
    (given_back,) = (at for at, text in enumerate(steps) if 'chown -R "$USER" ~/.cache' in text)
    assert given < ran < given_back
    assert "mkdir -p ~/.cache/pip" in steps[given]  # pip looks at the owner of what is there


def test_images_come_with_sbom_and_provenance_and_what_is_published_with_attestations():
    steps = {step["uses"].partition("@")[0]: step.get("with", {})
             for job in jobs(ROOT / ".github" / "workflows" / "release.yml").values()
             for step in job["steps"] if "uses" in step}  # fmt: skip
    image, package = steps["docker/build-push-action"], steps["pypa/gh-action-pypi-publish"]
    assert (image["sbom"], image["provenance"], package["attestations"]) == (True, "mode=max", True)
    assert "password" not in package


@pytest.fixture
def pin(tmp_path):
    """Give what pins images in a copy of the runtimes, and the folder of these."""
    for name in ("runtimes", "images"):
        shutil.copytree(ROOT / name, tmp_path / name)

    def make(*images: str) -> int:
        command = [sys.executable, tmp_path / "images" / "pin.py", *images]
        return subprocess.run(command, capture_output=True).returncode

    return make, tmp_path / "runtimes"


def images_of(folder: Path, device: str) -> list[dict[str, str]]:
    text = (folder / device / "kustomization.yaml").read_text()
    found = yaml.safe_load(text)
    assert found["resources"] == [f"jax-{device}.yaml"]
    return list(found.get("images", []))


def test_runtimes_are_pinned_to_digests(pin):
    make, folder = pin
    other = DIGEST.replace("0", "f")
    for digest in (other, DIGEST):  # the second time it replaces what the first has written
        assert make(f"ghcr.io/team/jupyter-jax-trainer-cpu:jax1-py3.11@{digest}",
                    f"localhost:5000/a/jupyter-jax-trainer-cuda@{digest}") == 0  # fmt: skip
    assert images_of(folder, "cpu") == [{"name": "jupyter-jax-trainer-cpu", "digest": DIGEST,
                                         "newName": "ghcr.io/team/jupyter-jax-trainer-cpu"}]  # fmt: skip
    assert images_of(folder, "gpu")[0]["newName"] == "localhost:5000/a/jupyter-jax-trainer-cuda"
    assert images_of(folder, "tpu") == []


@pytest.mark.parametrize("image", [
    "ghcr.io/team/jupyter-jax-trainer-cpu:latest", f"ghcr.io/team/other@{DIGEST}", f"ghcr.io/a\nb@{DIGEST}",
    f"jupyter-jax-trainer-cpu@{DIGEST}",
])  # fmt: skip
def test_what_is_no_image_of_ours_by_its_digest_changes_nothing(pin, image):
    make, folder = pin
    assert make(f"ghcr.io/team/jupyter-jax-trainer-tpu@{DIGEST}", image) == 1
    assert images_of(folder, "tpu") == []


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
