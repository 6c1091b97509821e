"""--max-restarts on a cluster: who starts again, who does not, and from which step."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from harness import continues, eventually, text

from cluster import people
from cluster.faults import (
    LONG_S,
    STEPS,
    begin,
    evict,
    fail,
    given_up_soon,
    lost_node,
    process_of,
    require_own,
    stepped,
)
from cluster.jobs import CAUSES, followers, stop_followers, submit
from cluster.kubernetes_cluster import Namespace
from cluster.made_runtimes import image, make
from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import follow as say_of_follow
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.views import bundle

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def runtimes_left(namespace: Namespace) -> list[str]:
    return [item["metadata"]["name"] for item in namespace.get("trainingruntimes")["items"]]


def resumed(job: Job, why: str) -> None:
    """Check that a job that had come to step 8 went on from its last checkpoint, of step 6."""
    stepped(job)
    for rank in (0, 1):
        lines = text(job, rank).split("\n")
        (place,) = (n for n, line in enumerate(lines) if line.startswith("[jaxtrain: restart 1, "))
        assert "step 8" in lines[:place] and lines[place:].count("step 8") == 1
        assert "step 7" in lines[place:] and "step 6" not in lines[place:]
    assert job.restarts == 1 and [rank.restarts for rank in job.ranks] == [1, 1]
    told = [event["message"] for event in job.events() if event["kind"] == "restart"]
    assert told == [
        say_of_jobs.ALL_START_AGAIN(restart=say_of_jobs.RESTART(number=1, most=2, reason=why)),
        continues(step=7, reached=8),
    ]
    *_, running, end = [state for state, _ in job.history]
    assert (running, end) == ("Running", "Succeeded")


def test_a_pod_that_is_killed_and_no_step_before_the_last_checkpoint_is_lost(
    place, namespace, shared, store
):
    line = f"-n 2 --max-restarts 2 --volume {shared.claim}:{shared.path} -o begun,w"
    job = submit(STEPS, place, line)
    eventually(lambda: text(job).count("step 8") == 2, LONG_S)
    eventually(lambda: sum(line["step"] == 8 for line in job.metrics()) == 2)
    (name,) = runtimes_left(namespace)
    (owner,) = namespace.get("trainingruntime", name)["metadata"]["ownerReferences"]
    assert owner["uid"] == namespace.get("trainjob", job.name)["metadata"]["uid"]
    assert name not in [
        found.name for found in api.runtimes("kubernetes", namespace=namespace.name)
    ]
    pod = namespace.pods(job.name)[1]["metadata"]["name"]
    namespace("delete", "pod", pod, "--force", "--grace-period=0", "--wait=false")
    why = "rank 1 was terminated: its pod was deleted"
    eventually(lambda: (job.state, job.reason or "")[0] == "Starting", LONG_S)
    again = f"{why}; {say_of_follow.ALL_START_AGAIN()}"
    assert (job.reason or "").startswith((again, "restart 1 of 2"))
    stop_followers(store)  # the next one knows as much
    eventually(lambda: job.active and followers(store))
    resumed(job.wait(LONG_S), why)
    namespace("delete", "trainjob", job.name)
    eventually(lambda: not runtimes_left(namespace))


@pytest.mark.release
def test_a_pod_that_is_evicted_and_all_ranks_go_on_from_their_checkpoint(place, namespace, shared):
    job = submit(
        STEPS, place, f"-n 2 --max-restarts 2 --volume {shared.claim}:{shared.path} -o begun,w"
    )
    eventually(lambda: text(job).count("step 8") == 2, LONG_S)
    eventually(lambda: sum(line["step"] == 8 for line in job.metrics()) == 2)
    pod = namespace.pods(job.name)[1]
    evict(namespace, pod["metadata"]["name"])
    node = pod["spec"]["nodeName"]
    words = continues(step=7, reached=8)
    eventually(lambda: (job.state, job.reason) == ("Running", words), LONG_S)
    assert words in bundle.whole(job)["text/html"]  # the cell's output
    resumed(job.wait(LONG_S), f"rank 1 {CAUSES['drained'].say({'node': node})}")


@pytest.mark.release
def test_a_pod_that_gives_way_to_a_more_urgent_one_and_all_ranks_go_on_when_there_is_room(
    place, namespace, cluster, shared, pretend
):
    install = f"runtimes install --namespace {namespace.name} --device gpu --image {image(cluster)}"
    run_command(install.split(), Context(print=lambda text: None))
    pretend("nvidia.com/gpu", 2)
    small = "-d gpu -n 2 --devices-per-node 1 --cpu 50m --memory 400Mi --env JAX_PLATFORMS=cpu"
    job = submit(
        STEPS, place, f"{small} --max-restarts 2 --volume {shared.claim}:{shared.path} -o begun,w"
    )
    eventually(lambda: text(job).count("step 8") == 2, LONG_S)
    eventually(lambda: sum(line["step"] == 8 for line in job.metrics()) == 2)
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "value": 1000,
        "metadata": {"name": namespace.name},
    }
    cluster("create", "-f", "-", stdin=urgent)
    try:
        asks = {"limits": {"nvidia.com/gpu": "1", "memory": "50Mi"}}
        pod = namespace.pods(job.name)[0]["spec"]
        secure = {key: pod[key] for key in ("securityContext", "tolerations")}
        container = {
            "name": "urgent",
            "image": image(cluster),
            "command": ["sleep", "600"],
            "resources": asks,
            "securityContext": pod["containers"][0]["securityContext"],
        }
        namespace(
            "create",
            "-f",
            "-",
            stdin={
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "urgent"},
                "spec": {"priorityClassName": namespace.name, "containers": [container], **secure},
            },
        )
        eventually(lambda: namespace.get("pod", "urgent")["status"]["phase"] == "Running", LONG_S)
        eventually(lambda: job.restarts == 1 or not job.active, LONG_S)
        namespace("delete", "pod", "urgent", "--force", "--grace-period=0")
        job.wait(LONG_S)
    finally:
        cluster("delete", "priorityclass", namespace.name)
    (first, _) = [event["message"] for event in job.events() if event["kind"] == "restart"]
    (rank,) = re.findall(r"restart 1 of 2, rank (\d) ", first)
    resumed(job, f"rank {rank} {CAUSES['preempted'].sentence}")


@pytest.mark.disruptive
@pytest.mark.timeout(420)
def test_a_node_that_is_lost_and_comes_back(place, namespace, cluster, shared):
    """The pods are given up after a time that they say themselves; a node that is back ends them."""
    require_own(cluster)
    runtime = make(namespace, "spot", given_up_soon)
    line = f"--runtime {runtime} -n 2 --max-restarts 2 --volume {shared.claim}:{shared.path} -o begun,w"
    job = submit(STEPS, place, line)
    eventually(lambda: text(job).count("step 8") == 2, LONG_S)
    eventually(lambda: sum(line["step"] == 8 for line in job.metrics()) == 2)
    with lost_node(cluster, namespace, job):
        pass
    job.wait(LONG_S)
    stepped(job)
    assert job.restarts == 1
    (why, _) = [event["message"] for event in job.events() if event["kind"] == "restart"]
    assert "lost with its node node0" in why


def test_checkpoints_are_on_the_volume_that_the_runtime_brings_along(place, namespace, shared):
    """Nothing of it is in the job's line."""
    install = (
        f"runtimes install --namespace {namespace.name} --device cpu --volume {shared.claim}:/data"
    )
    run_command(install.split(), Context(print=lambda text: None))
    cell = "from jupyter_jax_trainer import checkpoint_dir\n(checkpoint_dir() / 'state').write_text('here')"
    submit(cell, place, "--name keeps").wait(LONG_S)
    assert (
        shared.path / "jaxtrain" / namespace.name / "keeps/checkpoints/state"
    ).read_text() == "here"


ORBAX = """
import jax, jax.numpy as jnp, time
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jupyter_jax_trainer import checkpoint_dir, report

spread = NamedSharding(Mesh(jax.devices(), ("data",)), P("data"))
add = jax.jit(lambda w, step: {"w": w["w"] + step})

with ocp.CheckpointManager(checkpoint_dir()) as manager:
    begun = manager.latest_step() or 0
    w = {"w": jax.jit(lambda: jnp.zeros(4), out_shardings=spread)()}
    if begun:
        w = manager.restore(begun, args=ocp.args.StandardRestore(w))
    for step in range(begun + 1, 10):
        w = add(w, step)
        report(step=step)
        if step % 3 == 0:
            manager.save(step, args=ocp.args.StandardSave(w))
            manager.wait_until_finished()
        print("step", step, flush=True)
        if step == 5 and not begun:
            time.sleep(600)  # until a pod is killed
w = w["w"]
"""


@pytest.mark.release
def test_orbax_goes_on_from_its_last_checkpoint_on_a_volume(place, namespace, shared):
    line = f"-n 2 --max-restarts 2 --volume {shared.claim}:{shared.path} -o begun,w"
    job = submit(ORBAX, place, line)
    eventually(lambda: text(job).count("step 5") == 2, LONG_S)
    pod = namespace.pods(job.name)[1]["metadata"]["name"]
    namespace("delete", "pod", pod, "--force", "--grace-period=0", "--wait=false")
    job.wait(LONG_S)
    assert job.result("begun") == 3 and list(job.result("w")) == [45.0] * 4
    assert job.restarts == 1
    (told,) = [event["message"] for event in job.events() if "continues" in event["message"]]
    assert told == continues(step=4, reached=5)


def test_a_worker_that_is_killed_takes_the_others_along_to_the_next_attempt(
    place, namespace, cluster
):
    require_own(cluster)
    job = begin(place, "-n 2 --max-restarts 1")
    os.kill(process_of(job, 0), signal.SIGKILL)
    eventually(lambda: text(job).count("begins") == 4, LONG_S)
    eventually(lambda: job.state == "Running")
    killed = say_of_jobs.KILLED()
    why = say_of_jobs.RANK_ENDED(rank=0, how=killed)
    assert job.reason == say_of_jobs.RESTART(number=1, most=1, reason=why)
    os.kill(process_of(job, 1), signal.SIGKILL)
    with contextlib.suppress(Exception):
        job.wait(LONG_S)
    assert job.state == "Failed"
    how = say_of_jobs.OUT_OF_RESTARTS(message=killed, restarts="1 restart (--max-restarts)")
    assert job.reason == say_of_jobs.RANK_ENDED(rank=1, how=how)
    assert text(job).count("begins") == 4


BROKEN = """
import jax, os
from jax.experimental import multihost_utils
print("begins", flush=True)
multihost_utils.sync_global_devices("begin")
if jax.process_index() == 1:
    {code}
multihost_utils.sync_global_devices("end")
"""


def test_a_cell_that_is_broken_runs_once(place):
    jobs = [
        submit(BROKEN.format(code=code), place, "-n 2 --cpu 50m --max-restarts 5")
        for code in ("1 / 0", "os._exit(3)")
    ]
    messages = ("ZeroDivisionError", say_of_jobs.EXITED_IN_CELL(code=3))
    for job, message in zip(jobs, messages, strict=True):
        failure = fail(job, LONG_S)  # which counts how often each rank began
        assert failure.rank == 1 and message in failure.message
        assert "restart" not in failure.message and job.restarts == 0


def test_who_may_not_make_runtimes_is_refused_before_anything_starts(
    cluster, namespace, tmp_path, monkeypatch
):
    people.create(namespace, people.objects(namespace.name, "plain", *people.minimal()))
    token = people.token(namespace, "plain")
    path = people.kubeconfig(tmp_path / "plain", people.about(cluster), {"token": token})
    monkeypatch.setenv("KUBECONFIG", str(path))
    connection._clients.clear()
    try:
        with pytest.raises(BackendError) as refused:
            submit("1", f"--backend kubernetes --namespace {namespace.name}", "--max-restarts 1")
    finally:
        connection._clients.clear()
        people.forget(namespace)
    assert refused.value.id == "submit.no-right-to-restart"
    assert "create, patch and delete trainingruntimes" in str(refused.value)
    assert "jupyter-jax-trainer-restarts" in str(refused.value)
    assert not namespace.get("trainjobs")["items"] and not runtimes_left(namespace)


DIES = """
import os, signal, sys
from cluster.jobs import submit
from jupyter_jax_trainer.backends.kubernetes.submit import restarts
at, place = sys.argv[1:]
known = getattr(restarts, at)
def die(*arguments):
    if at == "create":
        known(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(restarts, at, die)
submit("print('begins')", place, f"{at.replace('_', '-')} --max-restarts 1")
"""


def test_a_submitter_that_is_killed_leaves_no_runtime_that_nobody_owns(place, namespace, store):
    tests = Path(__file__).parents[1]
    for at in ("create", "hand_over"):  # before there is a TrainJob, and before that owns it
        done = subprocess.run([sys.executable, "-c", DIES, at, place], timeout=60, cwd=tests)
        assert done.returncode == -signal.SIGKILL
    lost, found = api.job("create"), api.job("hand-over")
    assert [name[:6] for name in runtimes_left(namespace)] == ["create", "hand-o"]
    found.wait(LONG_S)
    eventually(lambda: not lost.active, LONG_S)
    assert (lost.state, lost.reason) == ("Failed", launch.CUT_OFF)
    (name,) = runtimes_left(namespace)
    (owner,) = namespace.get("trainingruntime", name)["metadata"]["ownerReferences"]
    assert owner["uid"] == namespace.get("trainjob", found.name)["metadata"]["uid"]


def test_a_dry_run_shows_the_runtime_and_makes_nothing(place, namespace):
    spec = parse_cell_line(f"{place} shown --max-restarts 4")
    found, plan = api.prepare(spec)
    told = api.dry_run(spec, found, plan, capture_cell("1", {}))
    assert say.APPLY_AGAIN() in told
    runtime, job, *_ = yaml.safe_load_all(told)
    assert (runtime["kind"], job["kind"]) == ("TrainingRuntime", "TrainJob")
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert runtime["spec"]["template"]["spec"]["failurePolicy"]["maxRestarts"] == 4
    assert not namespace.get("trainjobs")["items"] and not runtimes_left(namespace)
