"""pip on a machine without Node: what it installs has the JupyterLab extension."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import policy
import pytest
import without_node

ROOT = Path(__file__).parents[2]

# 20 s, 90 s beside other tests; minutes where neither Node nor its packages are cached.
pytestmark = [pytest.mark.release, pytest.mark.timeout(1200)]


def run(*command: str | Path, env: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_git_url_installs_with_the_extension(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        policy.skip_or_fail("git", "this is no clone")
    environment = without_node.environment(tmp_path / "programs")
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", python.parents[1], env=environment, cwd=tmp_path)
    run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        f"git+file://{ROOT}",
        env=environment,
        cwd=tmp_path,
    )
    extension = python.parents[1] / "share" / "jupyter" / "labextensions" / "jupyter-jax-trainer"
    assert (extension / "package.json").exists()
    assert list(extension.glob("static/remoteEntry.*.js"))
    assert (extension / "static" / "third-party-licenses.json").exists()
    where = "from importlib.util import find_spec; print(find_spec('jupyter_jax_trainer').origin)"
    package = Path(run(python, "-I", "-c", where, env=environment, cwd=tmp_path).strip()).parent
    widgets = {path.name for path in (package / "widget" / "static").iterdir()}
    assert widgets == {"job.js", "job.css", "panel.js", "panel.css", "third-party-licenses.json"}

    # What asks for an extra names this commit.
    ask = (
        "from jupyter_jax_trainer.installation import install_command as c; print(c('kubernetes'))"
    )
    commit = run("git", "rev-parse", "HEAD", env=environment, cwd=ROOT).strip()
    said = run(python, "-I", "-c", ask, env=environment, cwd=tmp_path).strip()
    assert said == f"pip install 'jupyter-jax-trainer[kubernetes] @ git+file://{ROOT}@{commit}'"
