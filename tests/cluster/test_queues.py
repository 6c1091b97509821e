"""Jobs in the queues of a real Kueue, which is installed for these tests and removed after them."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from harness import eventually, text, wait_for
from smoke import smoke

from cluster import people, turns
from cluster.faults import LONG_S, STEPS, begun, require_own, says, stepped
from cluster.jobs import CAUSES, submit, tell
from cluster.kubernetes_cluster import Cluster, Namespace
from cluster.made_runtimes import Shared
from cluster.pages import Terminal, blocks
from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api import rights
from jupyter_jax_trainer.backends.kubernetes.submit import quota
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import WARN
from jupyter_jax_trainer.errors import BackendError, CaptureError, UsageError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import cluster as say_of_cluster
from jupyter_jax_trainer.messages import follow as say_of_follow
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import session as say_of_session
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.queries import targets

# The first of them builds Kueue, where nobody has done so before.
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

KUEUE = Path(__file__).parent / "harness" / "kueue.py"
API = "kueue.x-k8s.io/v1beta2"
HALF = "-n 2 --cpu 100m"  # of a queue's quota this is more than half: two such jobs never fit
WHOLE = "-n 2 --cpu 150m"
QUOTA = "300m"
MEMORY = "64Gi"  # as the runtime asks for some
UNTIL_TOLD = (
    "import os, time\nprint('begins', flush=True)\nprint(time.time(), flush=True)\n"
    "while not os.path.exists('/tmp/go'): time.sleep(0.1)\nprint('ends')\nprint(time.time())"
)


def kueue(action: str) -> None:
    done = subprocess.run([sys.executable, KUEUE, action], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[None]:
    """Install Kueue, and remove it: other tests run without it."""
    require_own(cluster)
    kueue("build")
    try:
        with turns.mine().alone():
            kueue("up")
        yield
    finally:
        with turns.mine().alone():
            kueue("down")


@pytest.fixture
def queued(
    request: pytest.FixtureRequest,
    installed: None,
    cluster: Cluster,
    namespace: Namespace,
    place: str,
) -> Iterator[str]:
    """Give the options for a job in a queue of the test's own; its strategy may be the parameter."""
    made = [
        {"kind": "ResourceFlavor", "metadata": {"name": namespace.name}},
        {
            "kind": "ClusterQueue",
            "metadata": {"name": namespace.name},
            "spec": {
                "namespaceSelector": {},
                "queueingStrategy": getattr(request, "param", "BestEffortFIFO"),
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu", "memory"],
                        "flavors": [
                            {
                                "name": namespace.name,
                                "resources": [
                                    {"name": "cpu", "nominalQuota": QUOTA},
                                    {"name": "memory", "nominalQuota": MEMORY},
                                ],
                            },
                        ],
                    }
                ],
            },
        },
        {
            "kind": "LocalQueue",
            "metadata": {"name": "team", "namespace": namespace.name},
            "spec": {"clusterQueue": namespace.name},
        },
        {
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": f"{namespace.name}-urgent"},
            "value": 1000,
            "description": "for the tests",
        },
    ]
    items = [{"apiVersion": API, **item} for item in made]
    cluster("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": items})
    eventually(lambda: "Active" in str(namespace.get("localqueue", "team").get("status")), LONG_S)
    yield f"{place} --queue team"
    namespace("delete", "trainjobs", "--all")
    namespace("delete", "localqueue", "team")
    for item in made[:2]:
        cluster("delete", item["kind"], namespace.name, "--wait=false")
    cluster("delete", "workloadpriorityclass", f"{namespace.name}-urgent")


def times(job: Job) -> list[float]:
    """Return the times that rank 0 has printed."""
    return [float(line) for line in text(job, 0).split() if line[0].isdigit()]


def arrived(namespace: Namespace, name: str) -> float | None:
    """Return when Kueue has put a job into its queue."""
    for item in namespace.get("workloads")["items"]:
        if item["metadata"]["ownerReferences"][0]["name"] == name:
            return datetime.fromisoformat(item["metadata"]["creationTimestamp"]).timestamp()
    return None


def runs(job: Job, times: int = 1) -> None:
    eventually(lambda: begun(job) == [times] * job.spec.nodes or not job.active, LONG_S)
    assert job.active, f"{job.state}: {job.reason}\n{text(job)}"


def succeeds(job: Job) -> None:
    job.wait(LONG_S)
    assert job.state == "Succeeded"


def install_runtime(namespace: Namespace, shared: Shared) -> None:
    """Install a runtime with a volume: this Kueue would drop one of the job's own."""
    line = (
        f"runtimes install --namespace {namespace.name} --device cpu --volume {shared.claim}:/data"
    )

    def done() -> bool:
        with contextlib.suppress(BackendError):  # Trainer's webhook may be about to start again
            run_command(line.split(), Context(print=lambda text: None))
            return True
        return False

    eventually(done, LONG_S)


# -- before anything starts -----------------------------------------------------------------------


def test_what_a_queue_does_not_take_is_refused_before_anything_starts(
    queued, place, namespace, monkeypatch
):
    refused: dict[str, str] = {
        f"{place} --queue other": say.NO_QUEUE(queue="other", namespace=namespace.name),
        f"{queued} --priority nope": say.NO_PRIORITY(priority="nope"),
        f"{queued} --volume c:/data --service-account me": say.OPTIONS_NOT_IN_QUEUE(
            options="--volume and --service-account", kueue="Kueue v0.16.2"
        ),
        # The stock runtime does not meet what the namespace demands.
        f"{queued} --runtime jax-distributed": f"lacks {say.RESTRICTED_SETTINGS()}",
    }
    for line, words in refused.items():
        with pytest.raises(UsageError) as told:
            submit("1", line)
        assert words in str(told.value)
        assert told.value.hint
    data = {"data": b"x" * 1_200_000, "__name__": "__main__"}
    with monkeypatch.context() as without, pytest.raises(CaptureError, match="drops vol") as told:
        without.setattr(rights, "missing", lambda client, wanted: [*wanted])  # no port-forwards
        submit("len(data)", queued, "", data)
    assert "1.2 MB" in str(told.value) and "780 kB" in str(told.value)
    assert not namespace.get("trainjobs,secrets")["items"]

    found = {f.subject: f for f in report.examine("kubernetes", namespace=namespace.name)}
    assert (found["Kueue"].status, found["Kueue"].detail) == (WARN, "v0.16.2")
    assert found["Kueue"].advice.id == "doctor.drops-patches"
    assert found["Queues"].detail == "team"
    # So nobody gets GPUs unasked here.
    client = connection.get_client(namespace=namespace.name)
    assert set(quota.most(client, "team") or ()) == {"cpu", "memory"}
    where = next(one for one in targets.places() if one["current"])
    told = targets.queues(targets.find(where["id"], namespace.name))
    assert told["version"] == "v0.16.2" and not told["keeps_patches"]
    assert {
        "name": f"{namespace.name}-urgent",
        "value": 1000,
        "description": "for the tests",
    } in told["priorities"]
    assert told["queues"] == [
        {
            "name": "team",
            "problem": None,
            "waiting": 0,
            "admitted": 0,
            "free": [
                {"flavor": namespace.name, "resource": "cpu", "total": QUOTA, "free": QUOTA},
                {"flavor": namespace.name, "resource": "memory", "total": MEMORY, "free": MEMORY},
            ],
        }
    ]


# -- waiting --------------------------------------------------------------------------------------


def test_a_job_runs_whose_namespace_puts_it_into_a_queue(queued, namespace, cluster, place):
    item = {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": namespace.name},
        "spec": {"clusterQueue": namespace.name},
    }
    cluster("create", "-f", "-", stdin=item)
    try:
        eventually(lambda: "Active" in str(namespace.get("localqueue", "default").get("status")))
        job = submit("print('went through')", place, "unnamed --cpu 100m")
        succeeds(job)
        trainjob = namespace.get("trainjob", job.name)
        assert trainjob["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
        assert "runtimePatches" not in trainjob["spec"] and "went through" in text(job, 0)
    finally:
        namespace("delete", "localqueue", "default")


def test_jobs_that_each_fit_half_run_one_after_the_other(queued, namespace):
    """A queue starts all pods of a job or none, so that they never hold what the other needs."""
    # Kueue writes a TrainJob back without what is empty: that must not be a change.
    first = submit(UNTIL_TOLD, queued, f"first {HALF} --env EMPTY=")
    runs(first)
    second = submit(UNTIL_TOLD, queued, f"second {HALF}")
    third = submit("1", queued, f"third {HALF}")
    lacking = f"it takes 100m CPUs more than the queue has free (flavor {namespace.name})"
    says(third, "waits in the queue team (place 2 of 2 jobs of this namespace)", within=LONG_S)
    words = says(second, "waits in the queue team (place 1 of 2", lacking, within=LONG_S)
    assert CAUSES["kueue-pending"].hint in words
    assert (second.state, third.state) == ("Queued", "Queued")
    large = submit("1", queued, "large --cpu 4")
    says(large, "can never admit it: 4 CPUs asked for, 300m in all", within=LONG_S)
    for job in (third, large):
        job.cancel()
    assert not namespace.pods("second")

    tell(namespace, first)
    succeeds(first)
    runs(second)
    tell(namespace, second)
    succeeds(second)
    (*_, ended), (began, *_) = times(first), times(second)
    assert ended < began


@pytest.mark.release
def test_two_that_are_sent_at_once_and_each_fit_half_both_end(queued):
    """There is room for one pod of each: with these, none of the two could ever go on."""
    cell = "import time\nprint(time.time(), flush=True)\ntime.sleep(2)\nprint(time.time())"
    with ThreadPoolExecutor(2) as both:
        names = ("left", "right")
        jobs = list(both.map(lambda name: submit(cell, queued, f"{name} -n 2 --cpu 150m"), names))
    for job in jobs:
        succeeds(job)
    (_, ended), (began, _) = sorted(times(job) for job in jobs)
    assert ended < began


def test_a_preempted_job_says_so_and_goes_on_later(queued, namespace):
    low = submit(UNTIL_TOLD, queued, f"low {HALF}")
    runs(low)
    urgent = submit(UNTIL_TOLD, queued, f"urgent {HALF} --priority {namespace.name}-urgent")
    words = says(
        low,
        "preempted by a job with higher priority; waits in the queue team again",
        within=LONG_S,
    )
    assert CAUSES["kueue-preempted"].hint in words and low.state == "Queued"
    runs(urgent)
    tell(namespace, urgent)
    succeeds(urgent)
    runs(low, 2)
    # Kueue would resume a suspended TrainJob at once, so its Workload is stopped instead.
    low.suspend()
    wait_for(low, "Suspended")
    eventually(lambda: not namespace.pods("low"), LONG_S)
    with pytest.raises(UsageError, match="already suspended"):
        low.suspend()
    low.resume()
    runs(low, 3)
    tell(namespace, low)
    succeeds(low)
    states = [state for state, _ in low.history]
    assert states.count("Running") == 3 and "Suspended" in states
    assert text(low, 0).count("ends") == 1


@pytest.mark.release
def test_a_preempted_job_goes_on_from_its_last_checkpoint(queued, place, namespace, shared):
    install_runtime(namespace, shared)
    low = submit(STEPS, queued, f"low {HALF} -o begun,w")
    eventually(lambda: text(low).count("step 8") == 2 or not low.active, LONG_S)
    eventually(lambda: sum(line["step"] == 8 for line in low.metrics()) == 2)
    urgent = submit("1", queued, f"urgent {HALF} --priority {namespace.name}-urgent")
    says(low, "preempted by a job with higher priority", within=LONG_S)
    succeeds(urgent)
    succeeds(low)
    stepped(low)
    again = say_of_follow.STARTED_AGAIN(pod="low-")
    for rank in (0, 1):
        assert text(low, rank).count(f"[jaxtrain: {again}") == 1
    told = [event["message"] for event in low.events() if event["kind"] == "restart"]
    assert told == [say_of_jobs.RESUMED(step=7, reached=8)]


@pytest.mark.release
def test_a_preempted_session_saves_and_goes_on_with_that(queued, place, namespace, shared):
    install_runtime(namespace, shared)
    submit("import jax.numpy as jnp\nw, text = jnp.arange(3.0), 'lost'", queued, f"-s lab {HALF}")
    busy = submit(
        "import time\nfrom jupyter_jax_trainer import report\nstep = jnp.zeros((), int)\n"
        "while True:\n    time.sleep(0.05)\n    step = step + 1\n    report(int(step))",
        queued,
        "-s lab",
    )
    behind = submit("print(w)", queued, "-s lab")
    eventually(lambda: busy.steps or not busy.active, LONG_S)
    urgent = submit("1", queued, f"urgent {HALF} --priority {namespace.name}-urgent")
    eventually(lambda: not busy.active and not behind.active, LONG_S)
    assert (busy.state, behind.state, behind.started) == ("Failed", "Cancelled", None)
    assert "preempted" in busy.reason and "preempted" in behind.reason
    succeeds(urgent)
    after = submit("print(int(w.sum()), int(step), 'text' in globals())", queued, "-s lab")
    succeeds(after)
    made = {text(after, rank).strip() for rank in (0, 1)}
    assert len(made) == 1 and re.fullmatch(r"3 [1-9]\d* False", made.pop())
    told = " ".join(event["message"] for event in api.job("lab").events())
    assert say_of_session.SAVED_BEFORE_END(names="step and w") in told
    begins = say_of_session.BEGINS_AS_SAVED(names="step and w", time="TIME").partition("TIME")[0]
    assert begins in told and say_of_session.DID_NOT_COME_BACK(names="text") in told
    api.job("lab").cancel()


def test_a_queued_job_whose_pod_is_killed_starts_again(queued, namespace):
    job = submit(UNTIL_TOLD, queued, f"again {HALF} --max-restarts 1")
    runs(job)
    pod = namespace.pods("again")[1]["metadata"]["name"]
    namespace("delete", "pod", pod, "--force", "--grace-period=0", "--wait=false")
    runs(job, 2)
    assert job.restarts == 1
    tell(namespace, job)
    succeeds(job)


@pytest.mark.release
@pytest.mark.parametrize("queued", ["StrictFIFO"], indirect=True)
def test_a_queue_of_jobs_ends_in_order(queued, namespace):
    """Also a small job stays behind a large one, though there is room for it at once."""
    cell = "import time\nprint('ran')\nprint(time.time())"
    holds = submit(UNTIL_TOLD, queued, f"holds {HALF}")
    runs(holds)
    jobs = []
    for number, size in enumerate([WHOLE, "--cpu 0.1", HALF, "-n 2 --cpu 0.1"]):
        jobs.append(submit(cell, queued, f"job-{number} {size}"))
        came = eventually(lambda number=number: arrived(namespace, f"job-{number}"), LONG_S)
        # Kueue knows the second only; those of one second it lets in as it likes.
        eventually(lambda came=came: time.time() >= came + 1)
    says(jobs[1], "waits in the queue team (place 2 of 4 jobs of this namespace)", within=LONG_S)
    assert not namespace.pods("job-1")
    tell(namespace, holds)
    for job in (holds, *jobs):
        succeeds(job)
    began = [times(job)[0] for job in (holds, *jobs)]
    assert began == sorted(began)
    ran = [text(job).count("ran") for job in jobs]
    assert ran == [job.spec.nodes for job in jobs], "no rank ran twice, none was lost"


def test_without_rights_for_kueue_a_job_waits_with_fewer_words(queued, namespace, tmp_path):
    people.create(namespace, people.objects(namespace.name, "least", *people.minimal()))
    token = people.token(namespace, "least")
    config = people.kubeconfig(
        tmp_path / "least", people.about(namespace.cluster), {"token": token}
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", str(config))
            connection._clients.clear()
            job = submit("1", queued, f"large-{uuid.uuid4().hex[:4]} --cpu 4")
            words = says(job, "waits in the queue team", within=LONG_S)
            assert CAUSES["queued"].hint in words
            lack = say_of_cluster.NO_QUEUE_REASON()
            eventually(lambda: any(lack in e["message"] for e in job.events()), LONG_S)
            with pytest.raises(UsageError) as refused:
                submit("1", queued, "--volume c:/data")
            assert refused.value.id == "submit.options-not-in-queue"
            assert say.UNKNOWN_KUEUE() in refused.value.message
            job.cancel()
    finally:
        connection._clients.clear()
        people.forget(namespace)


def test_the_benchmark_of_queues_runs(installed, tmp_path_factory):
    smoke("queue_fifty", "own cluster", tmp_path_factory.mktemp("bench"))


ROLES = ("jupyter-jax-trainer-queues", "jupyter-jax-trainer-runtimes")
WIDE = {  # what the guides make for the whole cluster
    "clusterrole": ROLES,
    "clusterrolebinding": tuple(f"{role}-NAME" for role in ROLES),
    "clusterqueue,resourceflavor": ("jaxtrain",),
    "workloadpriorityclass": ("urgent",),
}


@pytest.fixture
def guided(
    installed, cluster, namespace, place, store, tmp_path, monkeypatch
) -> Iterator[Terminal]:
    """Follow docs/guides/platform-engineer/queues.md as the one who runs the cluster, and be a user with the rights of the guides."""
    namespace("create", "serviceaccount", "dora")
    user = {"token": people.token(namespace, "dora")}
    config = people.kubeconfig(tmp_path / "dora", people.about(cluster), user, namespace.name)
    name = f"system:serviceaccount:{namespace.name}:dora"
    here = {r"\bNAMESPACE\b": namespace.name, r"\bNAME\b": name}
    admin, dora = Terminal(cluster.kubeconfig, store, here), Terminal(config, store, here)
    try:
        for _, text in blocks("guides/platform-engineer/setup.md"):
            if "rolebinding" in text:
                admin(text)
        for _, text in blocks("guides/platform-engineer/queues.md"):
            if not text.startswith("jaxtrain"):
                admin(text)
        monkeypatch.setenv("KUBECONFIG", str(config))
        connection._clients.clear()
        yield dora
    finally:
        for kind in ("trainjobs", "localqueues"):
            cluster("--namespace", namespace.name, "delete", kind, "--all", check=False)
        for kinds, names in WIDE.items():
            own = (one.replace("NAME", name) for one in names)
            cluster("delete", kinds, *own, "--ignore-not-found", "--wait=false", check=False)


@pytest.mark.release
def test_who_has_the_rights_of_the_guides_has_all_that_queues_offer(guided, namespace, place):
    (asked,) = (
        text
        for _, text in blocks("guides/platform-engineer/queues.md")
        if text.startswith("jaxtrain")
    )
    told = guided(asked)
    assert "v0.16.2" in told and "team" in told and "may not" not in told, told
    line = f"{place} --queue team"
    for wrong, said in (
        ("--queue other", say.NO_QUEUE(queue="other", namespace=namespace.name)),
        ("--queue team --priority nope", say.NO_PRIORITY(priority="nope")),
    ):
        with pytest.raises(UsageError) as refused:
            submit("1", place, wrong)
        assert said in refused.value.message

    # It starts again when a pod of it is killed; what waits meanwhile says for what.
    first = submit(UNTIL_TOLD, line, f"first {HALF} --max-restarts 1")
    runs(first)
    large = submit("1", line, "large --cpu 1900m")
    says(
        large,
        "waits in the queue team: it takes 100m CPUs more than the queue has free",
        within=LONG_S,
    )
    large.cancel()
    pod = namespace.pods(first.name)[0]["metadata"]["name"]
    namespace("delete", "pod", pod, "--force", "--grace-period=0", "--wait=false")
    runs(first, 2)
    assert first.restarts == 1

    # It gives way to what is urgent, and can be suspended and resumed.
    first.suspend()
    wait_for(first, "Suspended")
    eventually(lambda: not namespace.pods(first.name), LONG_S)
    first.resume()
    runs(first, 3)
    urgent = submit(UNTIL_TOLD, line, "urgent -n 2 --cpu 950m --priority urgent")
    says(first, "preempted by a job with higher priority", within=LONG_S)
    urgent.cancel()
    runs(first, 4)
    tell(namespace, first)
    succeeds(first)
    lacking = [event["message"] for event in first.events() if "may not" in event["message"]]
    assert not lacking
