"""Run the lines of a page of docs/, as somebody who follows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import docblocks
from docblocks import ROOT

from cluster.jobs import PATIENCE


def blocks(*pages: str) -> Iterator[tuple[str, str]]:
    """Return language and text of each block of some pages that is to be run."""
    for page in pages:
        for block in docblocks.code(f"docs/{page}"):
            yield block.language, block.text


class Terminal:
    """A terminal in a clone of the repository, whose `jaxtrain` is the one that is tested.

    Parameters
    ----------
    kubeconfig
        With whose rights commands run.
    home
        Where jobs are kept.
    here
        Words of the page, as patterns, and what stands for them here.
    """

    def __init__(self, kubeconfig: Path, home: Path, here: Mapping[str, str]) -> None:
        self._here = here
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._env = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "JAXTRAIN_HOME": str(home),
            "PATH": path,
        }

    def __call__(self, text: str) -> str:
        """Run lines, of which none may fail, and give what they printed."""
        for words, ours in self._here.items():
            text = re.sub(words, ours, text)
        done = subprocess.run(
            ["bash", "-euc", text],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=self._env,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout
