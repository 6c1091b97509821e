"""A job on the cluster as it looks in a notebook: real kernels, real pods.

The same cells, run as local jobs, say what has to come out.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docblocks
import kernels
import nbformat
import pytest
from conftest import end_processes_of
from harness import eventually, pattern
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from pace import within

from cluster.jobs import PATIENCE, stop_followers
from cluster.kubernetes_cluster import Cluster
from jupyter_jax_trainer.messages import cluster as say_of_cluster
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.messages import views as say_of_views
from jupyter_jax_trainer.messages import worker as say_of_worker
from jupyter_jax_trainer.states import ENDED

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # of the kernel's client, not of this package
]

ROOT = Path(__file__).resolve().parents[2]
ON = "--backend kubernetes"
COUNTDOWN = pattern(say_of_views.INTERRUPT_AGAIN(seconds="SECONDS"), SECONDS="[1-3]")


@dataclass(frozen=True)
class Desk:
    """Where somebody works: a job store, a folder, and a kubeconfig that names a namespace."""

    home: Path
    cwd: Path
    cluster: Cluster
    namespace: str

    def has(self, job: str) -> bool:
        """Return whether the cluster has a TrainJob."""
        words = ("--namespace", self.namespace, "get", "trainjob", job, "--output=name")
        return bool(self.cluster(*words, check=False))

    def state(self, job: str) -> str:
        return json.loads((self.home / "jobs" / job / "state.json").read_text())["state"]

    def log(self, job: str) -> str:
        return (self.home / "jobs" / job / "logs" / "rank-0.log").read_text()


@pytest.fixture(scope="module")
def desk(cluster, tmp_path_factory) -> Iterator[Desk]:
    home, cwd = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
    home.chmod(0o700)
    name = f"jaxtrain-notebook-{home.name[-1]}{int(time.time()) % 10**6}"
    strict = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": name, "labels": strict}
    cluster(
        "create", "-f", "-", stdin={"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    )
    kubeconfig = cwd / "kubeconfig"
    kubeconfig.write_text(cluster("config", "view", "--raw", "--flatten"))
    cluster(
        "--kubeconfig", str(kubeconfig), "config", "set-context", "--current", f"--namespace={name}"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig))
        patch.setenv("JAXTRAIN_HOME", str(home))
        patch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
        patch.setenv("IPYTHONDIR", str(cwd / "ipython"))
        yield Desk(home, cwd, cluster, name)
    cluster("delete", "namespace", name, "--wait=false")
    stop_followers(home)
    assert end_processes_of(home) == {}


@pytest.fixture(scope="module")
def kernel(desk) -> Iterator[kernels.Kernel]:
    """Give a kernel without widgets: the card itself moves, as where nobody could draw them."""
    with kernels.running(desk.home, desk.cwd) as kernel, kernel.without_widgets():
        yield kernel


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# ---------------------------------------------------------------------------- whole notebooks


@pytest.mark.parametrize(
    "path",
    [
        "docs/start/quickstart.ipynb",
        pytest.param("tests/notebooks/optax_linear_regression.ipynb", marks=pytest.mark.release),
        pytest.param("tests/notebooks/equinox_mlp.ipynb", marks=pytest.mark.release),
    ],
)
def test_a_notebook_runs_with_nothing_changed_but_that_option(desk, path):
    notebook = nbformat.read(ROOT / path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.source.startswith("%%jaxtrain")]
    for cell in cells:
        first, _, rest = cell.source.partition("\n")
        cell.source = f"{first} {ON}\n{rest}"
    before = set(desk.home.glob("jobs/*"))
    resources = {"metadata": {"path": str(desk.cwd)}}
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources)
    client.execute()  # raises with the cell and its traceback; the notebooks assert their outcome
    jobs = {path.name for path in set(desk.home.glob("jobs/*")) - before}
    assert [desk.state(job) for job in jobs - {"lab"}] == ["Succeeded"] * len(cells)
    assert "lab" not in jobs or desk.state("lab") == "Cancelled"  # the session, at its end
    for output in (output for cell in cells for output in cell.outputs):
        data = output.get("data", {})
        if "text/html" in data and not data["text/plain"].startswith("<Job "):
            assert ": Succeeded · " in data["text/plain"]


def test_run_all_stops_at_a_failed_job(desk):
    sources = [
        "%load_ext jupyter_jax_trainer",
        f"%%jaxtrain stops {ON}\n1 / 0",
        f"%%jaxtrain never {ON}\n3",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(notebook, kernel_name="python3", timeout=PATIENCE).execute()
    assert desk.state("stops") == "Failed" and not (desk.home / "jobs" / "never").exists()
    assert "Failed" in notebook.cells[1].outputs[0]["data"]["text/plain"]  # what is saved


# ---------------------------------------------------------------------------- the same cell


EARLIER = """
import jax, jax.numpy as jnp, numpy as np
from pathlib import Path
jax.config.update("jax_enable_x64", True)
Path("beside.py").write_text("FACTOR = 3\\ndef triple(x): return FACTOR * x\\n")
import beside
key, old_key = jax.random.key(7), jax.random.PRNGKey(1)
wide = jnp.arange(3, dtype=jnp.float64) / 3
def inner(a): return a + 1
def helper(a): return beside.triple(inner(a))
"""
CELL = r"""
import os, subprocess, sys, threading, time, multiprocessing
print("one")
class Picture:
    def _repr_png_(self): return b"\x89PNG\r\n\x1a\n" + bytes(50)
    def __repr__(self): return "a picture"
class Page:
    def _repr_html_(self): return "<b>bold</b>"
    def __repr__(self): return "a page"
display(Picture())
print("two", end="")
display(Page(), Page())
print("three")
shown = display("first", display_id=True)
print("between", flush=True)
shown.update("second")
subprocess.run([sys.executable, "-c", "print('from a child')"])
subprocess.run("echo of a shell; echo its error >&2", shell=True)
!echo bang
thread = threading.Thread(target=lambda: print("of a thread"))
thread.start(); thread.join()
with multiprocessing.get_context("spawn").Pool(2) as pool:
    print(pool.map(abs, [-1, 2]))
# What looks like the worker's own messages, and what is no text.
print("\x1ejaxtrain1 deadbeef 1 1/1 eJyrVkrOz0vOSVWyUkrOSM3JUaoFADmUBhE= " + "0" * 32)
print("mid \x1ejaxtrain1 ", flush=True)
os.write(1, b"bad \xff\xfe nul \x00 \x1b[31mred\x1b[0m\n")
for step in range(1000):
    sys.stderr.write(f"\r{step + 1:5}/1000 |" + "#" * 40 + "|")
print()
print(jnp.ones(1).dtype, wide.dtype, jax.random.normal(key, (2,)), old_key, helper(wide))
keys, doubled, count = jax.random.split(key), helper(wide) * 2, jax.device_count()
{"last": "expression"}
"""


def test_the_same_cell_does_the_same_as_on_this_machine(kernel):
    kernel.run(EARLIER)
    seen = []
    for name, place in (("here", ""), ("there", ON)):
        cell = kernel.run(
            f"%%jaxtrain {name} -n 2 -o keys,doubled,count {place}{CELL}", timeout=PATIENCE
        )
        assert f"{name}: Succeeded · 2 nodes" in cell.card["text/plain"]
        kinds = [sorted(output.get("data", {})) for output in cell.outputs[1:]]
        back = kernel.value(
            "(jax.random.key_data(keys).tolist(), doubled, str(doubled.dtype), count)"
        )
        logs = kernel.run(f"%jaxtrain logs {name} --rank 1").text
        seen.append((cell.shown[1:], kinds, back, logs))
    for here, there in zip(*seen, strict=True):
        assert there == here, f"here: {here}\nthere: {there}"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys\nsys.exit(3)", say_of_worker.CALLED_EXIT(code=3)),
        ("name = input('name? ')", "EOFError"),
        ("def pick(batch):\n    return batch['labels']\nprint('before')\npick({})", "KeyError"),
        ("import os\nprint('x', flush=True)\nos._exit(4)", "exit code 4"),
    ],
)
def test_a_cell_that_fails_fails_as_on_this_machine(kernel, code, said):
    errors = []
    for place in ("", ON):
        cell = kernel.run(f"%%jaxtrain {place}\n{code}", fails=True, timeout=PATIENCE)
        name = re.match(r"\S+(?=: Failed)", cell.card["text/plain"])[0]
        assert said in cell.text and said not in cell.card["text/plain"]
        errors.append("\n".join([plain(t) for t in cell.shown[1:]]).replace(name, "NAME"))
    assert errors[1] == errors[0]
    assert errors[0].count("Traceback") <= 1


def test_a_module_that_the_image_lacks_is_named_with_the_way_to_it(kernel):
    cell = kernel.run(f"%%jaxtrain {ON}\nimport no_such_module", fails=True, timeout=PATIENCE)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in cell.text
    assert "with --package no_such_module" in cell.text


def test_files_beside_the_notebook_are_there_when_they_are_sent(kernel, desk):
    """Those that are not sent are named; the namespace allows no write to the pods' root."""
    (desk.cwd / "tables/deep").mkdir(parents=True)
    (desk.cwd / "tables/x.csv").write_text("1,2")
    (desk.cwd / "tables/deep/run.sh").write_text("#!/bin/sh\necho ran $(cat tables/x.csv)")
    (desk.cwd / "tables/deep/run.sh").chmod(0o755)
    (desk.cwd / "tables/.hidden").write_text("no")
    code = (
        "import os, subprocess\n"
        "print(sorted(os.listdir('tables')), open('tables/x.csv').read(), flush=True)\n"
        "open('written', 'w').close()\n"
        "subprocess.run(['tables/deep/run.sh'], check=True)"
    )
    cell = kernel.run(f"%%jaxtrain {ON}\n{code}", fails=True, timeout=PATIENCE)
    assert "FileNotFoundError" in cell.text and "with `--files tables`" in cell.text
    line = f"%%jaxtrain tables -n 2 {ON} --files tables"
    cell = kernel.run(f"{line}\n{code}", timeout=PATIENCE)
    said = desk.log("tables")
    assert "['deep', 'x.csv'] 1,2\n" in said and "ran 1,2\n" in said
    manifest = json.loads((desk.home / "jobs/tables/manifest.json").read_text())
    assert [one["type"] for one in manifest["sent"]] == ["2 files"]
    assert not (desk.cwd / "written").exists()


# ---------------------------------------------------------------------------- while it runs


def test_lines_and_progress_arrive_while_it_runs(kernel):
    cell = kernel.start(
        f"%%jaxtrain moves {ON}\nimport time\nfrom jupyter_jax_trainer import report\n"
        "for i in range(12):\n    print('at', time.time(), flush=True)\n"
        "    report(step=i + 1, total=12, loss=1 / (i + 1))\n    time.sleep(0.3)\n"
    )
    late = []
    for _ in range(12):
        message = cell.until(
            lambda m: m["msg_type"] == "stream" and "at " in m["content"]["text"], PATIENCE
        )
        late += [
            time.time() - float(t) for t in re.findall(r"at (\S+)", message["content"]["text"])
        ]
        if len(late) == 12:
            break
    cell.finish(PATIENCE)
    print("seconds from print to cell:", [round(s, 2) for s in sorted(late)])
    assert sorted(late)[6] < 1.0, late  # hiccups of a busy machine are forgiven
    texts = [data["text/plain"].splitlines()[0] for _, data in cell.cards()]
    assert any(re.search(r"Running .* \d+/12  loss 0\.\d+", text) for text in texts), texts
    assert any("left" in text for text in texts)
    assert re.fullmatch(r"moves: Succeeded · 1 node · .* · 12/12  loss 0\.08333", texts[-1])
    for states in cell.updates().values():  # four a second, and what comes at start and end
        assert len(states) <= 4 * (states[-1][0] - states[0][0]) + 3


def test_a_burst_of_lines_comes_whole(kernel, desk):
    cell = kernel.run(
        f"%%jaxtrain burst {ON}\nfor i in range(200_000): print('line', i)", timeout=PATIENCE
    )
    assert "line 199999" in cell.text and "not shown" in cell.text
    assert desk.log("burst") == "".join(f"line {i}\n" for i in range(200_000))


# ---------------------------------------------------------------------------- waiting, leaving


def test_an_image_that_does_not_exist(kernel, desk):
    """The reason is there within 5 s; a first interrupt leaves, two cancel, and nothing stays."""
    cell = kernel.start(f"%%jaxtrain noimage {ON} --image nowhere.invalid/nothing:1\nprint(1)")
    cell.until_text("nowhere.invalid/nothing:1 can't be reached", PATIENCE)
    states = json.loads((desk.home / "jobs" / "noimage" / "state.json").read_text())
    assert within(time.time() - states["history"][0]["time"], 5)
    assert "Pending" in cell.card["text/plain"] and "in --image." in cell.card["text/html"]
    kernel.interrupt()
    cell.finish(10)
    assert cell.reply["ename"] == "JobDetached" and desk.has("noimage")
    notes = [m[0] for _, data in cell.cards() if (m := re.search(COUNTDOWN, data["text/plain"]))]
    left = [int(re.search("[1-3]", note)[0]) for note in dict.fromkeys(notes)]
    assert left[0] == 3 and left == sorted(left, reverse=True) and len(left) > 1, notes

    again = kernel.start("%jaxtrain attach noimage")
    again.until_text("be reached", 10)
    kernel.interrupt()
    again.until_text("interrupt again", 3)
    kernel.interrupt()
    again.finish(20)
    assert "Job 'noimage' was cancelled" in again.text
    assert "Cancelled" in again.card["text/plain"] and desk.state("noimage") == "Cancelled"
    eventually(lambda: not desk.has("noimage"), 30)


@pytest.mark.parametrize(
    ("options", "reason", "hint"),
    [
        (
            "--runtime jax-distributed --device gpu --devices-per-node 4",
            r"the pod can't be scheduled: 0/\d+ nodes have 4 nvidia.com/gpu",
            "--device cpu",
        ),
        ("--volume nosuch:/data", "there is no PersistentVolumeClaim nosuch", "Check --volume"),
    ],
)
def test_what_the_cluster_lacks_is_said_in_the_cell(kernel, desk, options, reason, hint):
    cell = kernel.start(f"%%jaxtrain lacks {ON} {options}\n1")
    cell.until(lambda m: re.search(reason, str(m["content"])) is not None, PATIENCE)
    assert hint in cell.card["text/plain"] and hint in cell.card["text/html"]
    name = cell.card["text/plain"].partition(":")[0]
    kernel.interrupt()
    cell.until_text("interrupt again", 10)
    kernel.interrupt()
    cell.finish(20)
    assert desk.state(name) == "Cancelled"


REFUSED = {
    "--context nope": say_of_cluster.UNKNOWN_CONTEXT(context="'nope'"),
    "--runtime nope": "No runtime nope",
    "--device tpu --runtime jax-cpu": "jax-cpu is for cpu",
    "--env-from-secret nosuch": "no Secret nosuch",
    "--name Upper": "'Upper' is not a valid job name",
}


def test_lines_that_can_not_be_are_refused_before_anything_starts(kernel, desk):
    before = sorted(desk.home.glob("jobs/*"))
    for options, said in REFUSED.items():
        cell = kernel.run(f"%%jaxtrain {ON} {options}\n1", fails=True)
        assert said in plain(cell.text) and len(cell.outputs[-1]["traceback"]) <= 3, cell.text
    cell = kernel.run("%%jaxtrain --backend local --namespace x\n1", fails=True)
    assert "on Kubernetes" in plain(cell.text)
    kernel.run("file = open('/etc/hostname')")
    assert "`file` can't be sent" in plain(
        kernel.run(f"%%jaxtrain {ON}\nfile.read()", fails=True).text
    )
    assert sorted(desk.home.glob("jobs/*")) == before


def test_a_job_outlives_its_kernel_and_its_notebook(desk, tmp_path):
    """Started and left by one kernel, which is killed; followed from another, with its results."""
    code = (
        f"%%jaxtrain lasting -n 2 {ON} -o out --detach\nimport time\nprint('first', flush=True)\n"
        "from jupyter_jax_trainer import report\nfor i in range(8):\n"
        "    report(step=i + 1, total=8)\n    time.sleep(1)\nprint('last')\nout = 7"
    )
    with kernels.running(desk.home, tmp_path) as one:
        cell = one.run(code)
        assert desk.state("lasting") not in ENDED
        assert "`%jaxtrain attach lasting` follows it" in cell.text
        one.manager.shutdown_kernel(now=True)
    with kernels.running(desk.home, tmp_path) as other:
        attached = other.start("%jaxtrain attach lasting")
        attached.until_text("first", PATIENCE)
        attached.finish(PATIENCE)
        # On a busy machine Trainer's status server may take too long, and the job says so.
        said = [line for line in attached.shown[-1].splitlines() if "status server" not in line]
        assert said == ["first", "last", say.LOADED_IN_NOTEBOOK(names="out")]
        assert "lasting: Succeeded · 2 nodes" in attached.card["text/plain"]
        assert other.value("out") == "7"
        shown = other.run("%jaxtrain show lasting").text
        assert re.search(rf"^Where +namespace {desk.namespace} of https", shown, re.MULTILINE), (
            shown
        )
        assert re.search(r"^RANK +STATE +EXIT +RESTARTS +POD +NODE$", shown, re.MULTILINE), shown
        assert re.search(r"^ +1 +Finished +0 +lasting-node-0-1-\w+ +\S+$", shown, re.MULTILINE), (
            shown
        )
        assert "out     int" in shown
        listed = other.run("%jaxtrain jobs").text
        assert re.search(r"^lasting +Succeeded .* 2 +8/8 100 %", listed, re.MULTILINE), listed
        assert "[0] first" in other.run("%jaxtrain logs lasting").text


# ---------------------------------------------------------------------------- the user guide

CELLS = list(docblocks.code("docs/guides/data-scientist/cluster.md"))
EXPECTED = [
    "Kubeflow Trainer",
    "I am process 0 of 2",
    say.DEFAULTS(line=""),
    "Job greedy was started",
    "be scheduled",
    "was deleted",
    "",
    "brought back",
    "0.1",
    "499500",
    "Job long was started",
    "step 20",
    "Job long was deleted",
    "KeyError: 'labels'",
]


@pytest.mark.release
def test_the_user_guide_is_true(desk, tmp_path):
    assert len(CELLS) == len(EXPECTED)
    with kernels.running(desk.home, tmp_path) as kernel:
        for block, expected in zip(CELLS, EXPECTED, strict=True):
            kind, _, detail = block.mark.partition(": ")
            cell = kernel.run(block.text, fails=kind == "fails", timeout=PATIENCE)
            assert expected in cell.text, cell.text
            if kind == "waits":
                name = re.search(r"Job (\S+) was started", cell.text)[1]
                state = desk.home / "jobs" / name / "state.json"
                eventually(lambda s=state, d=detail: d in str(json.loads(s.read_text())["reason"]))
    for name in ("greedy", "long"):
        eventually(lambda n=name: not desk.has(n), 30)
