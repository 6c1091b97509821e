"""Each plugin can be left out; an installed wheel is all that is needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from harness import submit
from playwright.sync_api import expect

from ui.labs import BUILT, MEASURING, ROOT

PLUGINS = {
    "jobs": "jaxtrain:show-jobs",
    "runtimes": "jaxtrain:show-runtimes",
    "logs": "jaxtrain:open-log",
}


@pytest.fixture
def without(lab_server):
    yield lab_server.disable
    lab_server.disable()


@pytest.mark.parametrize("plugin", [*PLUGINS, "mime", "status"])
def test_one_plugin_is_left_out(plugin, without, open_page):
    without(f"jupyter-jax-trainer:{plugin}")
    job = submit("print('hello')", line="-n 1").wait(60)
    lab = open_page()
    there = lab.evaluate(
        "names => names.filter(name => window.jupyterapp.commands.hasCommand(name))",
        list(PLUGINS.values()),
    )
    assert there == [command for name, command in PLUGINS.items() if name != plugin]
    if plugin != "jobs":
        lab.command("jaxtrain:show-jobs")
        expect(lab.row(job.name)).to_be_visible()
        lab.row(job.name).click()
        expect(lab.job(job.name).locator("header .jaxtrain-state")).to_have_text("Succeeded")
    if plugin != "logs":
        lab.command("jaxtrain:open-log", key=job.name)
        lab.log(job.name).last_is("hello")
    if plugin != "runtimes":
        lab.command("jaxtrain:show-runtimes")
        expect(lab.picker.get_by_role("radio", name="local-cpu")).to_be_visible()


@pytest.mark.slow
def test_an_installed_wheel_is_found(lab_server, tmp_path):
    """Build the wheel, install it where nothing else of ours is, and ask Jupyter for it."""
    def run(*command, **more):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert (BUILT / "package.json").exists()
    environment = {k: v for k, v in os.environ.items() if k not in (*MEASURING, "PYTHONPATH")}
    environment |= {"HOME": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "venv"
    venv.create(place, system_site_packages=True, with_pip=True)
    python = str(place / "bin" / "python")
    # The packages of the environment that runs the tests are seen, but for this one.
    others = next(path for path in sys.path if path.endswith("site-packages"))
    site = run(python, "-c", "import site; print(site.getsitepackages()[0])").strip()
    with open(f"{site}/others.pth", "w") as file:
        file.write(others)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel))
    # These are `jupyter labextension list` and `jupyter server extension list` of that Python.
    listed = run(python, "-c", "from jupyterlab.labextensions import main; main()", "list")
    assert any("jupyter-jax-trainer" in line and "OK" in line for line in listed.splitlines()), listed
    listed = run(python, "-m", "jupyter_server.extension.serverextension", "list")
    plain = re.sub(r"\x1b\[\d+m", "", listed)
    assert re.search(r"^ +jupyter_jax_trainer\.server +enabled", plain, re.M), plain
    assert re.search(r"^ +jupyter_jax_trainer\.server +OK", plain, re.M), plain
    found = run(python, "-c", "import jupyter_jax_trainer; print(jupyter_jax_trainer.__file__)")
    assert str(place) in found
    static = Path(found.strip()).parent / "widget" / "static"
    assert {"job.js", "job.css", "panel.js", "panel.css"} <= {path.name for path in static.iterdir()}
