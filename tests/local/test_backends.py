"""A third backend is a folder and a line in the registry; all that shows or steers jobs follows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_jax_trainer.backends import registry

HERE = Path(__file__).parent
# Fresh, as after the line was added: some modules make tables of the backends when imported.
BEGIN = """
import json, sys
from jupyter_jax_trainer.backends import registry
registry.BACKENDS["toy"] = "toy.backend:ToyBackend"
from jupyter_jax_trainer import api
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.commands.completion import complete
from jupyter_jax_trainer.jobdir import rows
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.queries import cellline, requests, targets

def submit(cell, line):
    spec = parse_cell_line("--backend toy " + line)
    submission, plan = api.prepare(spec)
    capture = capture_cell(cell, {})
    api.check(spec, submission, plan, capture)
    return api.submit(spec, submission, plan, capture, cell=cell)

def command(line):
    said = []
    run_command(line.split(), Context(print=said.append))
    return "\\n".join(said)

"""


def with_toy(code: str) -> dict[str, object]:
    """Run code where there is the toy; it leaves what it found in `found`."""
    program = f"{BEGIN}\n{code}\nprint(json.dumps(found))"
    path = [str(HERE), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{program}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_all_that_lists_backends_has_it(home):
    found = with_toy(
        """
found = {
    "form": next(o for o in cellline.options() if o["name"] == "backend")["choices"],
    "completion": complete("%%jaxtrain --backend t", 22),
    "targets": [t["label"] for t in targets.places()],
    "health": targets.health(targets.find("toy")),
    "runtimes": [r["name"] for r in targets.runtimes(targets.find("toy"))],
    "all runtimes": [r.name for r in api.runtimes()],
    "doctor": command("doctor --backend toy"),
    "table": command("runtimes"),
}
"""
    )
    assert found["form"] == ["auto", *registry.BACKENDS, "toy"]
    assert found["completion"] == ["toy"]
    assert found["targets"][0] == "this machine" and found["targets"][-1] == "toy box"
    assert found["health"] == []
    assert found["runtimes"] == ["box"] and "box" in found["all runtimes"]
    assert "there are enough" in found["doctor"] and "A toy box" in found["table"]


@pytest.mark.slow
def test_files_beside_the_notebook_are_where_its_jobs_run(home, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.csv").write_text("1,2")
    (tmp_path / "other.csv").write_text("3")
    found = with_toy(
        f"""
import os
os.chdir({str(tmp_path)!r})
job = submit("import os; print(open('data/x.csv').read(), os.listdir())", "--files data")
job.wait()
found = {{"said": [line.text for line in job.logs()], "sent": job.sent}}
"""
    )
    assert found["said"] == ["1,2 ['data']"]
    assert found["sent"] == [{"name": "files", "kind": "files", "type": "1 file", "size": 3}]


@pytest.mark.slow
def test_its_jobs_are_jobs_like_others(home):
    found = with_toy(
        """
job = submit("print('boxed', 6 * 7)", "ok").wait(60)
broken = submit("raise SystemExit(3)", "broken")
while broken.active: pass
endless = submit("import time; time.sleep(600)", "endless")
while endless.state != "Running": pass
requests.act("endless", "cancel")
row = rows.row_of(job, None)
try:
    submit("1", "-n 2")
except Exception as error:
    refused = str(error)
try:
    job.suspend()
except Exception as error:
    steered = error.id
found = {
    "log": [line.text for line in job.logs(0)],
    "row": [row["backend"], row["place"], row["state"], row["actions"]],
    "broken": [broken.state, broken.failure.exit],
    "cancelled": endless.state,
    "refused": refused,
    "steered": steered,
    "jobs": command("jobs"),
    "show": command("show ok"),
}
job.delete()
found["left"] = [job.name for job in api.jobs()]
"""
    )
    assert found["log"] == ["boxed 42"]
    assert found["row"] == ["toy", "in a toy box", "Succeeded", ["delete"]]
    assert found["broken"] == ["Failed", 3] and found["cancelled"] == "Cancelled"
    assert "holds one node" in found["refused"] and found["steered"] == "backends.cannot-suspend"
    assert "Succeeded" in found["jobs"] and "in a toy box" in found["show"]
    assert sorted(found["left"]) == ["broken", "endless"]


def test_a_job_of_a_backend_that_is_not_here_is_shown_and_can_be_deleted(home):
    from made_jobs import make_job

    from jupyter_jax_trainer.jobdir import rows
    from jupyter_jax_trainer.jobdir.files import write_json
    from jupyter_jax_trainer.jobdir.job import Job

    directory = make_job("old")
    manifest = {**directory.read_manifest(), "backend": "toy"}
    write_json(directory.manifest, manifest)
    job = Job(directory)
    row = rows.row_of(job, None)
    assert row["state"] == "damaged" and "Unknown backend 'toy'" in row["reason"]
    job.delete()
    assert not directory.path.exists()
