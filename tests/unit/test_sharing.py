"""A job for other people: the report, and the folder that runs it again."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml
from made_jobs import make_job

import jupyter_jax_trainer
from jupyter_jax_trainer.bundle import write_bundle
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.capture.versions import installed
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.sharing.export import export_job
from jupyter_jax_trainer.sharing.plots import Series, plot, series
from jupyter_jax_trainer.sharing.report import page, save_report

TOKEN = "hf_aBcDeFgHiJkLmNoPqRsT0123456789"
PLAIN = "correct horse battery"  # looks like no secret by itself


class Elements(HTMLParser):
    """Collects what a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def reports(directory, values):
    lines = [
        {"time": 1.0, "rank": rank, "step": step, "total": None, "values": {"loss": value}}
        for rank in (0, 1)
        for step, value in enumerate(values)
    ]
    directory.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def job(home):
    spec = parse_cell_line(f"-n 2 --env 'MY_PASSWORD={PLAIN}' --env HF_TOKEN={TOKEN} --env LR=0.1")
    failure = Failure(
        kind="error",
        message=f"ValueError: token={TOKEN}",
        rank=1,
        exit=1,
        error={
            "type": "ValueError",
            "message": f"{PLAIN} <script>alert(1)</script>",
            "traceback": f"Cell, line 3\nValueError: {PLAIN} <script>alert(1)</script>",
            "cell": "Cell",
            "cell_line": 3,
            "secondary": False,
            "hint": None,
        },
    )
    logs = {
        0: ["first", f"Authorization: Bearer {TOKEN}"],
        1: [f"password is {PLAIN}", "\x1b[31m<img src=x onerror=alert(1)>\x1b[0m", "last line"],
    }
    directory = make_job("fit", "Failed", spec=spec, logs=logs, failure=failure.to_json())
    directory.events.write_text(json.dumps({"time": 1.0, "kind": "x", "message": PLAIN}) + "\n")
    reports(directory, [1.0, 0.5, "nan", 0.25])
    noted = {"packages": {"jax": "9.8.7", "numpy": "2.0"}, "imports": ["numpy.linalg"]}
    files.write_json(directory.packages, noted)
    return Job(directory)


def test_a_report_has_all_there_is_to_see_and_loads_nothing(job):
    text = page(job)
    for there in ("fit", "Failed", "last line", "ValueError", "float32[10]", "9.8.7", "--env"):
        assert there in text
    found = Elements(text)
    assert found.tags.count("svg") == 1 and found.tags.count("polyline") == 4, "a gap in each rank"
    assert not {"script", "img", "link", "iframe", "object", "image", "use"} & {*found.tags}
    loading = {"src", "href", "xlink:href", "srcset", "action", "data", "background"}
    assert not loading & {name for name, _ in found.attributes}
    assert not any(name.startswith("on") for name, _ in found.attributes)
    assert "url(" not in text and "@import" not in text
    assert re.search(r"Content-Security-Policy[^>]+default-src 'none'", text)
    assert "\x1b" not in text


def test_a_report_has_nothing_secret(job):
    text = page(job)
    assert TOKEN not in text and PLAIN not in text
    assert "LR=0.1" in text, "what is no secret is there"


def test_a_report_of_a_job_that_has_done_nothing_yet(home):
    job = Job(make_job("new", "Queued", results=None, progress=None, ranks=[]))
    assert "new" in page(job) and "<svg" not in page(job)


@pytest.mark.parametrize("front", ["python", "command"])
def test_where_a_report_goes(front, job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    for output in (None, "other.html"):
        if front == "python":
            assert jupyter_jax_trainer.save_report("fit", output).exists()
        else:
            words = ["report", "fit", *(["-o", output] if output else [])]
            run_command(words, Context(print=said.append))
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["fit.html", "other.html"]
    assert len(said) == (0 if front == "python" else 2)
    with pytest.raises(UsageError) as caught:
        save_report(job, tmp_path / "no" / "folder.html")
    assert caught.value.id == "sharing.cannot-write"


def test_plots_are_bounded():
    one = Series()
    for step in range(100_000):
        one.add(step, step / 7)
    assert 100 < len(one.whole()) <= 401 and one.whole()[-1][0] == 99_999
    many = [
        {"time": 1.0, "rank": rank, "step": 1, "total": None, "values": {"a": 1, "b": "x", "c": []}}
        for rank in range(300)
    ]
    found = series(many)
    assert set(found) == {"a", "b"} and len(found["a"]) == 8
    assert plot("b", found["b"]) == ""
    assert "&lt;b&gt;" in plot("<b>", found["a"]) and "<b><b>" not in plot("<b>", found["a"])


# ---- the folder that runs a job again

CELL = """
import jax, numpy as np
from jupyter_jax_trainer import report, checkpoint_dir
total = jax.jit(lambda x: x.sum())(weights)
report(step=1, loss=float(total))
print("rank", jax.process_index(), "of", jax.process_count(), jax.device_count(), flush=True)
import os
print(os.environ["LR"], os.environ["HF_TOKEN"], flush=True)
"shown"
"""


def sent(spec: JobSpec, *, travels: bool = False) -> Job:
    """Make a job that has run, with all that was sent."""
    directory = make_job("fit", spec=spec)
    weights = np.arange(100_000, dtype=np.float32)
    capture = capture_cell(CELL, {"__name__": "__main__", "weights": weights})
    write_bundle(directory.bundle, "fit", capture, travels=travels)
    directory.cell.write_text(CELL)
    noted = {"packages": {**installed(), "jax": "9.8.7"}, "imports": ["jax", "numpy.linalg"]}
    files.write_json(directory.packages, noted)
    return Job(directory)


SPEC = parse_cell_line(f"-n 2 --env LR=0.1 --env HF_TOKEN={TOKEN}")


def test_what_is_installed_here_is_known_without_opening_anything():
    from importlib.metadata import version

    assert installed()["jax"] == version("jax") and installed()["numpy"] == version("numpy")


@pytest.mark.parametrize("front", ["python", "command"])
def test_an_export_is_whole_and_its_hashes_are_right(front, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sent(SPEC)
    if front == "python":
        place = jupyter_jax_trainer.export_job("fit")
    else:
        run_command(["export", "fit", "again"], Context(print=lambda _: None))
        place = tmp_path / "again"
    assert place.name == ("fit" if front == "python" else "again")
    text = {path.name: path.read_bytes() for path in place.iterdir()}
    sums = dict(line.split()[::-1] for line in text.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in text.items()}
    assert text["cell.py"].decode() == CELL
    assert "jax==9.8.7" in text["requirements.txt"].decode()
    assert b"numpy==" in text["requirements.txt"] and b"pytest" not in text["requirements.txt"]
    assert b"pytest==" in text["constraints.txt"]
    data = json.loads(text["data.json"])
    array = np.arange(100_000, dtype=np.float32).tobytes()
    assert data["arrays"] == [{"bytes": 400_000, "sha256": hashlib.sha256(array).hexdigest()}]
    assert {"cell.py", "variables.pkl"} <= {*data["sha256"]}
    assert not [name for name, found in text.items() if TOKEN.encode() in found]
    assert b"`HF_TOKEN`" in text["README.md"]
    launch = json.loads(text["job.json"])
    assert launch["needed"] == ["HF_TOKEN"] and launch["environment"] == {"LR": "0.1"}


@pytest.mark.parametrize("line", ["-n 3 --cpu 2 --memory 4Gi --volume claim:/data", "-n 1 -d gpu"])
def test_the_yaml_has_what_the_job_had(line, home, tmp_path):
    spec = replace(parse_cell_line(line), env=SPEC.env)
    place = export_job(sent(spec, travels=True), tmp_path / "fit")
    config, service, job = yaml.safe_load_all((place / "kubernetes.yaml").read_text())
    assert base64.b64decode(config["binaryData"]["job.pyz"]) == (place / "job.pyz").read_bytes()
    inner = job["spec"]["template"]["spec"]
    (node,) = inner["containers"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == spec.nodes
    assert job["spec"]["completionMode"] == "Indexed" and inner["subdomain"] == "fit-again"
    assert service["spec"]["selector"] == {"job-name": "fit-again"}
    environment = {one["name"]: one for one in node["env"]}
    assert environment["JAX_COORDINATOR_ADDRESS"]["value"].startswith("fit-again-0.fit-again:")
    reference = environment["HF_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert reference == {"name": "fit-again-secrets", "key": "HF_TOKEN"}
    mounts = {mount["mountPath"] for mount in node["volumeMounts"]}
    assert mounts == ({"/job", "/data"} if spec.volume else {"/job"})
    assert len(inner["volumes"]) == len(mounts)
    if spec.memory:
        assert node["resources"]["limits"] == {"memory": "4Gi"}
        assert node["resources"]["requests"] == {"memory": "4Gi", "cpu": "2"}


def clean(**more: str) -> dict[str, str]:
    """Return an environment in which this package can't be found."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JAX"))}
    return {**kept, "JAX_PLATFORMS": "cpu", **more}


def started(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=clean(**more), cwd="/", capture_output=True, text=True, timeout=110
    )


def test_it_asks_for_what_was_left_out(home, tmp_path):
    place = export_job(sent(SPEC), tmp_path / "fit")
    done = started([sys.executable, str(place / "run.py")])
    assert done.returncode == 2 and "HF_TOKEN" in done.stderr


@pytest.mark.slow
def test_it_runs(home, tmp_path):
    place = export_job(sent(SPEC), tmp_path / "fit")
    # What happens to be set elsewhere does not change the job.
    done = started([sys.executable, str(place / "run.py")], HF_TOKEN="given", LR="9")
    assert done.returncode == 0, done.stderr
    for line in ("rank 0 of 2 2", "rank 1 of 2 2", "0.1 given", "step 1  loss", "'shown'"):
        assert line in done.stdout
    (place / "job.json").write_text((place / "job.json").read_text().replace("LR", "OTHER"))
    done = started([sys.executable, str(place / "run.py")], HF_TOKEN="given")
    assert done.returncode == 1 and "KeyError: 'LR'" in done.stderr


@pytest.mark.slow
def test_its_yaml_runs(home, tmp_path):
    place = export_job(sent(replace(SPEC, nodes=1), travels=True), tmp_path / "fit")
    *_, job = yaml.safe_load_all((place / "kubernetes.yaml").read_text())
    (node,) = job["spec"]["template"]["spec"]["containers"]
    *shell, command = node["command"]
    command = command.replace("python3 /job/", f"{sys.executable} {place}/")
    given = {one["name"]: one["value"] for one in node["env"] if "value" in one}
    done = started([*shell, command], HF_TOKEN="given", JOB_COMPLETION_INDEX="0", **given)
    assert done.returncode == 0, done.stderr
    assert "rank 0 of 1 1" in done.stdout


@pytest.mark.parametrize("what", ["session", "no bundle", "folder"])
def test_what_can_not_be_exported_is_said(what, home, tmp_path):
    spec = replace(SPEC, session="lab") if what == "session" else SPEC
    job = sent(spec)
    place = tmp_path / "place"
    if what == "no bundle":
        (job.directory / "bundle.pyz").unlink()
    elif what == "folder":
        place.mkdir()
        (place / "precious").touch()
    with pytest.raises(UsageError) as caught:
        export_job(job, place)
    wanted = {"session": "is-session", "no bundle": "no-bundle", "folder": "not-empty"}[what]
    assert caught.value.id == f"sharing.{wanted}"
    assert not place.exists() or [path.name for path in place.iterdir()] == ["precious"]
