"""What the benchmarks on a cluster share: the cluster, a namespace, pods, a follower, the SDK."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import delete_jobs, job_home, sized
from needs import Missing

from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api.client import MERGE_PATCH, ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.submit.launch import follower_directory, start_follower

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "tests/cluster/harness")]
import layout  # noqa: E402
from procfs import open_files, processes_of  # noqa: E402

SDK = "kubeflow==0.5.0"
RUNTIME = "jax-cpu"
FOLLOWER = "kubernetes.follow.follower"  # in its command line
JOB_SET = "jobset.sigs.k8s.io/jobset-name"
_PATIENCE = sized(180.0, 90.0)  # seconds for what takes a few on an idle machine


@dataclass(frozen=True)
class Cluster:
    """A cluster, and how kubectl speaks to it."""

    kubectl: tuple[str, ...]
    kubeconfig: Path


def find() -> Cluster:
    """Find the cluster that KUBECONFIG names, else that of ``make cluster``."""
    named = os.environ.get("KUBECONFIG")
    kubeconfig = Path(named) if named else layout.KUBECONFIG
    own = kubeconfig.resolve() == layout.KUBECONFIG
    tool = str(layout.KUBECTL) if own else shutil.which("kubectl")
    if not kubeconfig.exists():
        raise Missing("there is no cluster: `make cluster` starts one, KUBECONFIG names another")
    if tool is None:
        raise Missing("there is no kubectl")
    found = Cluster((tool,) if own else (tool, "--kubeconfig", str(kubeconfig)), kubeconfig)
    asked = [*found.kubectl, "get", "clustertrainingruntime", RUNTIME, "--request-timeout=10s"]
    done = subprocess.run(asked, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise Missing(f"the cluster of {kubeconfig} can't be used: {' '.join(last)}")
    return found


class Place:
    """A namespace of its own in the cluster.

    Attributes
    ----------
    client
        Speaks to it as this package does.
    options
        With which jobs run there.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.client = Client(None, name)
        self.options = f"--backend kubernetes --namespace {name}"
        self.kubectl = [*cluster.kubectl, "--namespace", name]

    def patch(self, path: str, body: dict[str, Any]) -> float:
        """Patch an object; give the time just before."""
        began = time.time()
        self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        return began

    def trainjob(self, name: str, sub: str = "") -> str:
        return self.client.trainer("trainjobs", name, sub)

    def pods(self, job: str) -> list[dict[str, Any]]:
        query = {"labelSelector": f"{JOB_SET}={job}"}
        found = self.client.request("GET", self.client.core("pods"), query=query)["items"]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def ended(self, job: str, count: int) -> list[dict[str, Any]]:
        """Wait until all pods of a job have ended, and give them."""

        def check() -> list[dict[str, Any]] | None:
            found = self.pods(job)
            done = [pod for pod in found if pod["status"]["phase"] in ("Succeeded", "Failed")]
            return found if len(done) == count else None

        return until(check, 0.25)

    def log(self, pod: str) -> str:
        response = self.client.open(self.client.core("pods", pod, "log"), None, 60.0)
        with contextlib.closing(response):
            return str(response.read().decode(errors="replace"))

    def create(self, text: str) -> None:
        """Create objects as people do who have them in a file."""
        subprocess.run(
            [*self.kubectl, "create", "-f", "-"],
            input=text,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def kill(self, pod: str, grace: int = 0) -> None:
        """Take a pod away: at once, as a node that is lost does, or after so many seconds."""
        asked = {"gracePeriodSeconds": grace}
        self.client.request("DELETE", self.client.core("pods", pod), body=asked)

    def delete(self, job: str) -> None:
        """Delete a TrainJob and wait until its pods are gone, so that runs don't overlap."""
        with contextlib.suppress(ApiError):
            self.client.request("DELETE", self.trainjob(job))

        def gone() -> bool:
            found = self.pods(job)
            for pod in found:
                with contextlib.suppress(ApiError):  # it is gone
                    self.kill(pod["metadata"]["name"], 1)  # some take no notice for half a minute
            return not found

        until(gone, 0.25)

    def began(self, job: str, nodes: int) -> float:
        """Wait for a job; give when the last of its ranks has printed ``began TIME``."""
        found = [began_in(self.log(pod["metadata"]["name"])) for pod in self.ended(job, nodes)]
        times = [each for each in found if each is not None]
        assert len(times) == len(found), f"a rank of {job} has not begun"
        return max(times)

    def follower(self) -> int | None:
        """Return the process id of the follower, if there is one."""
        with contextlib.suppress(OSError, ValueError):
            lock = follower_directory(self.client.identity) / "lock"
            pid = int(lock.read_text())
            if str(lock) in open_files(pid):
                return pid
        return None

    def start_follower(self) -> int:
        """See that there is a follower; give its process id."""
        plan = {
            "cluster": self.client.identity,
            "context": self.client.context,
            "namespace": self.name,
            "kubeconfig": str(self.cluster.kubeconfig),
        }

        def start() -> int | None:
            start_follower(plan)  # does nothing while the lock of a dying one is held
            return self.follower()

        return int(until(start, 0.1))

    def stop_follower(self) -> None:
        """Kill the follower, also one that has only just been started and has no lock yet."""
        home = Path(os.environ["JAXTRAIN_HOME"])

        def killed() -> bool:
            running = [pid for pid, command in processes_of(home).items() if FOLLOWER in command]
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not running and self.follower() is None

        until(killed)


def began_in(text: str) -> float | None:
    """Return when a rank has begun, which its log says as ``began TIME``."""
    match = re.search(r"began (\d+\.\d+)", text)
    return float(match[1]) if match else None


def until(check: Callable[[], Any], pause: float = 0.01) -> Any:
    """Wait until `check` gives something true, and give that."""
    deadline = time.monotonic() + _PATIENCE
    while not (found := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_PATIENCE:g} s")
        time.sleep(pause)
    return found


@contextmanager
def place() -> Iterator[Place]:
    """Make a namespace and a job home; delete both, and the follower, in the end."""
    cluster = find()
    name = f"jaxtrain-bench-{uuid.uuid4().hex[:8]}"
    with job_home(warm=False):
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        subprocess.run(
            [*cluster.kubectl, "create", "namespace", name], check=True, capture_output=True
        )
        with ExitStack() as after:
            gone = [*cluster.kubectl, "delete", "namespace", name, "--wait=false"]
            after.callback(subprocess.run, gone, check=False, capture_output=True)
            after.callback(connection._clients.clear)
            made = Place(cluster, name)
            after.callback(made.stop_follower)
            after.callback(delete_jobs)  # to cancel one starts a follower
            yield made


def objects_of(cell: str, line: str) -> tuple[str, str]:
    """Return the name of a new job, and its objects as the dry run prints them."""
    import yaml

    from jupyter_jax_trainer import api
    from jupyter_jax_trainer.capture import capture_cell
    from jupyter_jax_trainer.options.spec import parse_cell_line

    spec = parse_cell_line(f"{line} --dry-run --show-secrets")
    backend, plan = api.prepare(spec)
    text = api.dry_run(spec, backend, plan, capture_cell(cell, {}))
    found = [each for each in yaml.safe_load_all(text) if each["kind"] == "TrainJob"]
    return str(found[0]["metadata"]["name"]), text


# ---- the SDK


def sdk_python() -> Path:
    """Return a Python with the SDK in an environment of its own: it asks for an older client."""
    folder = ROOT / ".venvs" / SDK.replace("==", "-")
    python, stamp = folder / "bin/python", folder / "installed"
    if not stamp.exists():
        folder.parent.mkdir(exist_ok=True)
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", SDK],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:]
                raise Missing(f"{SDK} can't be installed: {' '.join(last)}")
        stamp.touch()
    return python


class Sdk:
    """The SDK in a process that goes on (warm): one line in, one line out, both JSON."""

    def __init__(self, place: Place, nodes: int = 1) -> None:
        program = Path(__file__).parent / "sdk.py"
        self._process = subprocess.Popen(
            [str(sdk_python()), str(program), place.name, str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def ask(self, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the SDK's process has ended")
        return json.loads(line)

    def call(self, *words: object) -> Any:
        self.ask(*words)
        return self.answer()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


# ---- what a process takes


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and its threads have used, to the nanosecond."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int(task.joinpath("schedstat").read_text().split()[0])
    return total / 1e9


def memory(pid: int, field: str = "VmRSS") -> float:
    """Return the memory of a process in MB; ``VmHWM`` is its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)
