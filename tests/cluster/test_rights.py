"""With the least rights all works; with one less, one thing is lost, and it is said which and why."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import eventually, text, wait_for, wait_for_text

from cluster import made_runtimes, people
from cluster.conftest import STRICT
from cluster.jobs import PATIENCE, stop_followers, submit
from cluster.kubernetes_cluster import Cluster, Namespace
from jupyter_jax_trainer.backends.kubernetes import connection, control
from jupyter_jax_trainer.backends.kubernetes.api.rights import RIGHTS, Right
from jupyter_jax_trainer.backends.kubernetes.follow.attach import attach
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import OK
from jupyter_jax_trainer.errors import BackendError, ResultError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import follow as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

# What a Kubeflow notebook's user has: ClusterRole kubeflow-trainer-edit of Trainer's manifests
# (overlays/kubeflow-platform), kubeflow-trainer-view-cluster-runtimes, and Kubernetes' own `edit`.
KUBEFLOW_EDIT = [
    {
        "apiGroups": ["trainer.kubeflow.org"],
        "resources": ["trainingruntimes"],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["trainer.kubeflow.org"],
        "resources": ["trainjobs"],
        "verbs": ["create", "patch", "get", "list", "watch", "delete"],
    },
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/log", "events"],
        "verbs": ["get", "list", "watch"],
    },
    # What docs/guides/platform-engineer/setup.md adds to these.
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["get"]},
]
KUBEFLOW_RUNTIMES = [
    {
        "apiGroups": ["trainer.kubeflow.org"],
        "resources": ["clustertrainingruntimes"],
        "verbs": ["get", "list", "watch"],
    }
]
CELL = """
import jax, numpy
from jupyter_jax_trainer import report
report(0, 1, loss=0.5)
print("rank", jax.process_index())
large = numpy.random.default_rng(1).random(700_000)
"""
WAITS = "print('begun', flush=True)\nimport time\ntime.sleep(600)"


@dataclasses.dataclass
class Person:
    """A user of the cluster, with a store of jobs of its own."""

    namespace: str
    home: Path
    kubeconfig: Path
    token: str

    @property
    def place(self) -> str:
        return f"--backend kubernetes --namespace {self.namespace}"

    @contextlib.contextmanager
    def at_work(self) -> Iterator[str]:
        """Be this person, and give the options for a job."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(self.kubeconfig))
            patch.setenv("JAXTRAIN_HOME", str(self.home))
            connection._clients.clear()
            yield self.place
            connection._clients.clear()


@pytest.fixture(scope="module")
def space(cluster: Cluster) -> Iterator[Namespace]:
    """Give a namespace for all tests here."""
    name = f"jaxtrain-test-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "labels": STRICT}
    cluster(
        "create", "-f", "-", stdin={"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    )
    found = Namespace(cluster, name)
    yield found
    people.forget(found)
    cluster("delete", "namespace", name, "--wait=false")


def person(space: Namespace, folder: Path, name: str) -> Person:
    """Find a user that has been created."""
    home = folder / name
    home.mkdir(mode=0o700)
    token = people.token(space, name)
    kubeconfig = people.kubeconfig(
        folder / f"{name}.kubeconfig", people.about(space.cluster), {"token": token}
    )
    return Person(space.name, home, kubeconfig, token)


def named(right: Right) -> str:
    return f"{right.verb}-{right.resource.replace('/', '.')}"


# -- enough ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["minimal", "kubeflow-edit"])
def test_these_rights_are_enough_for_everything(which, space, tmp_path, tmp_path_factory):
    if which == "minimal":
        items = people.objects(space.name, which, *people.minimal())
    else:
        items = people.objects(space.name, which, KUBEFLOW_EDIT, KUBEFLOW_RUNTIMES, ["edit"])
    people.create(space, items)
    someone = person(space, tmp_path, which)
    account = f"system:serviceaccount:{space.name}:{which}"
    for verb, resource in (
        ("update", "trainjobs.trainer.kubeflow.org"),
        ("list", "jobsets.jobset.x-k8s.io"),
        ("list", "nodes"),
    ):
        told = space.cluster(
            "auth", "can-i", verb, resource, "-n", space.name, "--as", account, check=False
        )
        assert told.strip() == "no"
    other = tmp_path_factory.mktemp("other")
    try:
        with someone.at_work() as place:
            (finding,) = [
                f
                for f in report.examine("kubernetes", namespace=space.name)
                if f.subject == "Rights"
            ]
            assert finding.status == OK
            waiting = submit(WAITS, place, f"--name waits-{which}")
            job = submit(CELL, place, "-n 2 -o large")  # 5.6 MB come by port-forward
            wait_for_text(waiting, "begun")
            waiting.suspend()
            wait_for(waiting, "Suspended")
            np.testing.assert_array_equal(
                job.wait(PATIENCE).result("large"), np.random.default_rng(1).random(700_000)
            )
            assert [m["values"] for m in job.metrics() if m["rank"] == 0] == [{"loss": 0.5}]
            assert {"rank 0", "rank 1"} <= set(text(job).splitlines())
            waiting.resume()
            eventually(lambda: text(waiting).count("begun") == 2, PATIENCE)
        with dataclasses.replace(someone, home=other).at_work():
            elsewhere = Job(attach(f"waits-{which}", None, space.name))
            wait_for_text(elsewhere, "begun")
            assert elsewhere.code.strip() == WAITS
            elsewhere.cancel()
            assert elsewhere.state == "Cancelled"
        with someone.at_work():
            eventually(lambda: waiting.state == "Cancelled")
        assert not [e for e in job.events() + waiting.events() if "permission" in e["message"]]
        assert not people.seen_in(someone.token, someone.home, other)
    finally:
        stop_followers(someone.home)
        stop_followers(other)


# -- one less -------------------------------------------------------------------------------------

# Those without which the job has to be started in another way, or shows something else.
LINES = {
    "get-trainingruntimes": "-r jax-cpu",
    "list-clustertrainingruntimes": "-r jax-cpu",
    "get-pods.portforward": "-o large",
    "create-pods.portforward": "-o large",
}
TINY = "import os\nanswer = 42\nprint('hello')\nlarge = os.urandom(6_000_000)"


@pytest.fixture(scope="module")
def crowd(space: Namespace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Create a user for each right, who lacks it, and start a job of each who can."""
    folder = tmp_path_factory.mktemp("crowd")
    rules, wide = map(people.single, people.minimal())
    items = []
    for right in RIGHTS:
        less = (right.group, right.resource, right.verb)
        assert less in rules + wide
        items += people.objects(
            space.name,
            named(right),
            people.rules_of([r for r in rules if r != less]),
            people.rules_of([r for r in wide if r != less]),
        )
    people.create(space, items)
    found: dict[str, Any] = {}
    try:
        for right in RIGHTS:
            name = named(right)
            someone = person(space, folder, name)
            found[name] = (someone, None)
            if right.needed or name == "get-clustertrainingruntimes":
                continue
            with someone.at_work() as place:
                line = LINES.get(name, "-o answer")
                job = submit(TINY, place, f"{line} --name {name.replace('.', '-')}")
            found[name] = (someone, job)
        yield found
    finally:
        for someone, _ in found.values():
            stop_followers(someone.home)


def lacking(*, needed: bool) -> Any:
    rights = [right for right in RIGHTS if right.needed == needed]
    return pytest.mark.parametrize("right", rights, ids=named)


@lacking(needed=True)
def test_without_this_right_the_job_is_refused(right, crowd, space):
    someone, _ = crowd[named(right)]
    with someone.at_work() as place, pytest.raises(BackendError) as refused:
        submit(TINY, place, "--name refused")
    assert f"permission to {right.verb} {right.resource}" in str(refused.value)
    left = space("get", "trainjobs,secrets", "--output=name").splitlines()
    assert not [name for name in left if "refused" in name]


@lacking(needed=False)
def test_without_this_right_one_thing_is_lost_and_it_is_said(right, crowd, space, tmp_path):
    name = named(right)
    someone, job = crowd[name]
    with someone.at_work() as place:
        if job is None:  # a runtime of the cluster can't be had by its name, but is found
            with pytest.raises(BackendError, match=f"permission to {right.verb} {right.resource}"):
                submit(TINY, place, "-r jax-cpu")
            job = submit(TINY, place, "-o answer")
        if right.resource == "pods/portforward":
            reason = eventually(
                lambda: (job.reason or "") if "permission" in (job.reason or "") else "", PATIENCE
            )
            assert say.NO_FETCH_RIGHT(right=right.words) in reason
            job.cancel()
        else:
            job.wait(PATIENCE)
        eventually(lambda: right.lack in [event["message"] for event in job.events()])
        unseen = (right.verb, right.resource) in {
            ("list", "pods"),
            ("get", "pods/log"),
            ("list", "jobs"),
            ("get", "jobsets"),
        }
        if unseen:
            with pytest.raises(ResultError, match=re.escape(right.lack)):
                job.result("answer")
        elif right.resource != "pods/portforward":
            assert job.result("answer" if name not in LINES else None) in (42, {})
            assert "hello" in text(job)
        if name in ("patch-trainjobs", "delete-trainjobs"):
            act = (
                control.cancel
                if right.verb == "delete"
                else (lambda *job: control.set_suspended(*job, True))
            )
            with pytest.raises(BackendError, match=f"permission to {right.words}"):
                act(job.manifest, JobDir(job.directory))
        if name == "list-clustertrainingruntimes":
            with pytest.raises(BackendError, match=f"permission to {right.words}"):
                submit(TINY, place)
        (finding,) = [
            f for f in report.examine("kubernetes", namespace=space.name) if f.subject == "Rights"
        ]
        assert finding.detail == f"missing: {right.words}"
        assert finding.advice and f"{right.without} ({right.words})" in finding.advice
    if name == "get-secrets":
        other = dataclasses.replace(someone, home=tmp_path)
        with other.at_work():
            elsewhere = Job(attach(job.name, None, space.name))
            wait_for_text(elsewhere, "hello")
            assert say.CELL_FORBIDDEN() in elsewhere.code
        stop_followers(tmp_path)


def test_tokens_are_nowhere(crowd):
    for someone, _ in crowd.values():
        assert not people.seen_in(someone.token, someone.home)


# -- what no right is needed for ------------------------------------------------------------------

SHOWN = """
import subprocess
shown = subprocess.run(["cat", "/proc/1/environ"], capture_output=True).stdout
print(shown.replace(b"\\0", b"\\n").decode())
"""


def test_a_foreign_runtime_meets_restricted_once_a_refusal_was_seen(space, tmp_path):
    def crowd(pod: dict[str, Any]) -> None:
        node = pod["containers"][0]
        del pod["securityContext"], node["securityContext"]
        image = {"image": node["image"]}
        pod["containers"].append({"name": "beside", "command": ["true"], **image})
        pod["initContainers"] = [{"name": "before", "command": ["true"], **image}]

    runtime = made_runtimes.make(space, "loose", crowd)
    people.create(space, people.objects(space.name, "nobody", *people.minimal()))
    someone = person(space, tmp_path, "nobody")
    try:
        with someone.at_work() as place:
            refused = submit("pass", f"{place} --runtime {runtime}", "--name refused")
            eventually(lambda: "PodSecurity restricted" in (refused.reason or ""), PATIENCE)
            refused.cancel()
            job = submit(SHOWN, f"{place} --runtime {runtime}", "--name taken").wait(PATIENCE)
            (pod,) = space.pods("taken")
            every = pod["spec"]["containers"] + pod["spec"]["initContainers"]
            assert {one["name"] for one in every} == {"node", "beside", "before"}
            assert all(one["securityContext"]["capabilities"]["drop"] == ["ALL"] for one in every)
            # The worker is process 1, and what started it had the key in its environment.
            printed = text(job)
            assert "JAXTRAIN_JOB=taken" in printed and "JAXTRAIN_FRAME_KEY=" in printed
            assert job.manifest["frame_key"] not in printed
            assert max(map(len, printed.splitlines())) < 20_000  # nor is the bundle there
    finally:
        stop_followers(someone.home)
