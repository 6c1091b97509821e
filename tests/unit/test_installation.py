"""How texts say that an extra can be had, by where this copy is from."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from jupyter_jax_trainer import installation
from jupyter_jax_trainer.installation import EXTRAS, install_command

ROOT = Path(__file__).parents[2]
PLAIN = "pip install 'kubernetes>=35,!=36.*,<38' 'pyyaml>=6'"
GIT = {"vcs": "git", "commit_id": "0123abc", "requested_revision": "main"}


class Installed:
    """What ``importlib.metadata`` gives for a package."""

    def __init__(self, noted: str | None) -> None:
        self.noted = noted

    def read_text(self, name: str) -> str | None:
        return self.noted if name == "direct_url.json" else None


@pytest.fixture
def command(monkeypatch):
    """Give what makes the command for a copy of which pip has noted this."""

    def make(noted: Any) -> str:
        text = noted if noted is None or isinstance(noted, str) else json.dumps(noted)
        monkeypatch.setattr(installation, "distribution", lambda name: Installed(text))
        return install_command("kubernetes")

    return make


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "a clone"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder


def test_a_clone_that_is_edited(command, clone):
    noted = {"url": clone.as_uri(), "dir_info": {"editable": True}}
    assert command(noted) == f"pip install -e '{clone}[kubernetes]'"


def test_a_clone(command, clone):
    assert command({"url": clone.as_uri(), "dir_info": {}}) == f"pip install '{clone}[kubernetes]'"


def test_a_folder_that_is_gone(command, tmp_path):
    assert command({"url": (tmp_path / "gone").as_uri(), "dir_info": {}}) == PLAIN
    assert command({"url": (tmp_path / "gone.whl").as_uri(), "archive_info": {}}) == PLAIN


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/team/it.git", "git+https://example.com/team/it.git@0123abc"),
        ("ssh://git@example.com/team/it", "git+ssh://git@example.com/team/it@0123abc"),
        (
            "https://${USER}:${TOKEN}@example.com/it",
            "git+https://${USER}:${TOKEN}@example.com/it@0123abc",
        ),
        ("https://me:secret@example.com/it", "git+https://****@example.com/it@0123abc"),
        ("https://secret@example.com/it", "git+https://****@example.com/it@0123abc"),
        ("ssh://git:secret@example.com/it", "git+ssh://****@example.com/it@0123abc"),
    ],
)
def test_a_repository(command, url, shown):
    found = command({"url": url, "vcs_info": GIT})
    assert found == f"pip install 'jupyter-jax-trainer[kubernetes] @ {shown}'"


def test_a_part_of_a_repository(command):
    noted = {"url": "https://example.com/it", "vcs_info": GIT, "subdirectory": "python"}
    assert command(noted).endswith("git+https://example.com/it@0123abc#subdirectory=python'")


def test_an_archive(command, tmp_path):
    shown = command({"url": "https://example.com/it.whl?token=secret", "archive_info": {}})
    assert (
        shown == "pip install 'jupyter-jax-trainer[kubernetes] @ https://example.com/it.whl?****'"
    )
    wheel = tmp_path / "it.whl"
    wheel.touch()
    shown = command({"url": wheel.as_uri(), "archive_info": {"hashes": {}}})
    assert shown == f"pip install 'jupyter-jax-trainer[kubernetes] @ {wheel.as_uri()}'"


@pytest.mark.parametrize("noted", [None, "", "{", "[]", {}, {"url": "https://example.com"}])
def test_a_copy_of_which_nothing_is_noted(command, noted):
    assert command(noted) == PLAIN


def test_a_copy_that_is_not_installed(monkeypatch):
    def missing(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", missing)
    assert install_command("kubernetes") == PLAIN


def test_the_packages_are_those_of_the_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for extra, packages in EXTRAS.items():
        assert [Requirement(each) for each in packages] == [
            Requirement(each) for each in extras[extra]
        ]


def test_no_text_asks_an_index_for_the_name():
    """It is not published; on an index, anybody may take it."""
    named = re.compile(
        r"\b(pip\d?|pipx|uvx?|conda|mamba)\b.* (install|add|run|download)\b.*"
        r"[ '\"]jupyter[-_]jax[-_]trainer(?![\w./-])(?!(\[[\w,]+\])? @ )"
    )
    for text in (
        "pip install jupyter-jax-trainer",
        "!uv pip install -U 'jupyter_jax_trainer[kubernetes]'",
    ):
        assert named.search(text)
    assert not named.search(
        "pip install 'jupyter-jax-trainer[kubernetes] @ git+https://example.com/it'"
    )
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "*.py",
            "*.ts",
            "*.tsx",
            "*.md",
            "*.ipynb",
            "*.yaml",
            "*.yml",
            "*.js",
            "*.json",
            "Makefile",
            "images/*",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wrong = []
    for name in filter(None, listed.stdout.split("\0")):
        if name != "tests/unit/test_installation.py" and (ROOT / name).exists():
            lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
            wrong += [
                f"{name}:{number}" for number, line in enumerate(lines, 1) if named.search(line)
            ]
    assert wrong == []
