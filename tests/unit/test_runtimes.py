"""What runtimes/ says of an image is what images/ builds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DEVICES = ("cpu",)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def runtime_of(device: str) -> str:
    return (REPOSITORY / "runtimes" / f"jax-{device}.yaml").read_text()


def pins_of(device: str) -> dict[str, str]:
    lines = (REPOSITORY / "images" / device / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in line for line in wanted), "an image names exact versions"
    return dict(line.split("==") for line in wanted)


def label(text: str, name: str) -> str:
    found = re.search(rf'(?m)^    {re.escape(name)}: "?([^"\n]+)"?$', text)
    assert found, f"the label {name} is missing"
    return found[1]


def test_labels_say_what_the_image_has(device: str) -> None:
    text = runtime_of(device)
    jax, python = (label(text, f"jupyter-jax-trainer/{name}") for name in ("jax", "python"))
    assert label(text, "jupyter-jax-trainer/device") == device
    assert label(text, "trainer.kubeflow.org/framework") == "jax"
    assert jax == pins_of(device)["jax"]
    assert re.findall(r"image: (\S+)", text) == [
        f"jupyter-jax-trainer-{device}:jax{jax}-py{python}"
    ]
    containerfile = (REPOSITORY / "images" / device / "Containerfile").read_text()
    assert re.search(rf"(?m)^ARG BASE=python:{re.escape(python)}-", containerfile)


def test_a_failing_cell_is_not_run_again(device: str) -> None:
    text = runtime_of(device)
    for line in ("maxRestarts: 0", "backoffLimit: 0", "restartPolicy: Never"):
        assert re.search(rf"(?m)^ +{line}$", text), line


def test_kustomize_lists_every_runtime(device: str) -> None:
    listed = re.findall(
        r"(?m)^  - (jax-\S+\.yaml)$", (REPOSITORY / "runtimes/kustomization.yaml").read_text()
    )
    assert sorted(listed) == sorted(
        path.name for path in (REPOSITORY / "runtimes").glob("jax-*.yaml")
    )
