"""A machine that never saw a job shows it from what the cluster holds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import yaml
from harness import eventually, text, wait_for, wait_for_text

from cluster.faults import LONG_S
from cluster.jobs import stop_followers, submit
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.follow.attach import attach
from jupyter_jax_trainer.errors import BackendError, JobNotFound
from jupyter_jax_trainer.jobdir import layout
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.trust import policy, signing
from jupyter_jax_trainer.trust.policy import Trust
from jupyter_jax_trainer.views.source import Source

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
CELL = """
import jax, time
from pathlib import Path
from jupyter_jax_trainer import report
for step in range(3):
    report(step, 3, loss=step / 2)
print("rank", jax.process_index())
if WAIT:
    time.sleep(6)
big = list(range(WAIT, 10))
"""
FAILS = "def f():\n    raise ValueError('no')\nf()"


@pytest.fixture
def elsewhere(tmp_path_factory, monkeypatch):
    """Be on another machine from now on: another home."""
    homes = []

    def go():
        home = tmp_path_factory.mktemp("elsewhere")
        home.chmod(0o700)
        monkeypatch.setenv("JAXTRAIN_HOME", str(home))
        homes.append(home)
        return home

    yield go
    for home in homes:
        stop_followers(home)


def test_running_and_ended_jobs_are_rebuilt(place, namespace, elsewhere, tmp_path):
    ended = submit(CELL, place, "ended -n 2 -o big", {"WAIT": 0, "__name__": "__main__"}).wait(90)
    running = submit(CELL, place, "running -n 2 -o big", {"WAIT": 1, "__name__": "__main__"})
    wait_for_text(running, "rank 1")
    signing.export_keys(tmp_path / "key")
    elsewhere()
    signing.import_keys(tmp_path / "key")
    assert layout.list_all() == []
    for original, wait in ((running, 1), (ended, 0)):
        job = Job(attach(original.name, None, namespace.name))
        assert job.active or not wait
        job.wait(90)
        assert job.uid == original.uid and job.code.strip() == CELL.strip()
        assert job.spec.nodes == 2 and job.sent == original.sent
        assert [text(job, rank).strip() for rank in (0, 1)] == ["rank 0", "rank 1"]
        assert [m["values"]["loss"] for m in job.metrics() if m["rank"] == 0] == [0, 0.5, 1]
        assert job.trusted and job.result("big") == list(range(wait, 10))
        assert [rank.state for rank in job.ranks] == ["Finished"] * 2
        assert all(rank.pod for rank in job.ranks)
        assert attach(original.name, None, namespace.name).path == job.directory, "once only"
    with pytest.raises(JobNotFound, match="no TrainJob nothere in namespace"):
        attach("nothere", None, namespace.name)


BLOCKED = """
import time, jax
from jax.experimental import multihost_utils
if jax.process_index() == 1:
    time.sleep(600)
multihost_utils.sync_global_devices("end")
"""


def test_another_store_of_mine_takes_the_channel_over(
    place, namespace, elsewhere, tmp_path, monkeypatch
):
    """Until then the ranks answer to the store that submitted the job, and afterwards not to it."""
    first, home = submit(BLOCKED, place, "-n 2"), os.environ["JAXTRAIN_HOME"]
    wait_for(first, "Running")
    eventually(lambda: [one.line for one in first.where()] == [7, 6], LONG_S)
    signing.export_keys(tmp_path / "key")
    elsewhere()
    signing.import_keys(tmp_path / "key")
    second = Job(attach(first.name, None, namespace.name))
    wait_for(second, "Running")

    def reasons(job):
        return [one.unasked for one in job.where()]

    elsewhere_asked = say.ASKED_ELSEWHERE(job=second.name)
    eventually(lambda: reasons(second) == [elsewhere_asked] * 2, LONG_S)
    second.take_over()
    eventually(lambda: [one.line for one in second.where() if one.answered] == [7, 6], LONG_S)
    monkeypatch.setenv("JAXTRAIN_HOME", home)
    taken = say.TAKEN_OVER(job=first.name)
    eventually(lambda: reasons(first) == [taken] * 2, LONG_S)
    first.cancel()


SHOWS = """
class Page:
    def _repr_html_(self):
        return "<script>alert(1)</script>"
    def __repr__(self):
        return "a page"
print("printed")
back = [1, 2]
Page()
"""


class View:
    """Keeps what is displayed."""

    def __init__(self):
        self.data = []

    def log(self, lines, unfinished):
        pass

    def show(self, data, metadata, name, update):
        self.data.append(data)


def test_a_job_of_another_store_is_somebody_elses_until_its_key_is_here(
    place, namespace, elsewhere, tmp_path
):
    submit(SHOWS, place, "theirs -o back").wait(90)
    signing.export_keys(tmp_path / "key")
    home = elsewhere()
    environment = {**os.environ, "JAXTRAIN_HOME": str(home)}

    def jaxtrain(*words):
        return subprocess.run(
            [sys.executable, "-m", "jupyter_jax_trainer", *words],
            text=True,
            capture_output=True,
            env=environment,
            timeout=60,
        )

    seen = jaxtrain("attach", "theirs", "--namespace", namespace.name)
    assert seen.returncode == 0 and "printed" in seen.stdout and "alert" not in seen.stdout
    assert "`jaxtrain attach theirs --trust`" in seen.stderr
    job = Job(layout.find("theirs"))
    assert job.state == "Succeeded" and policy.of(job) is Trust.FOREIGN
    assert "@" in policy.claimed_maker(job)
    assert displayed(job) == [{"text/plain": "a page"}]
    refused = jaxtrain("result", "theirs")
    assert (
        refused.returncode == 1 and "withheld" in refused.stderr and "[1, 2]" not in refused.stdout
    )
    assert jaxtrain("key", "import", str(tmp_path / "key")).returncode == 0
    assert policy.of(job) is Trust.SIGNED
    assert "script" in displayed(job)[0]["text/html"]
    assert "[1, 2]" in jaxtrain("result", "theirs").stdout
    signing.key_file().unlink()
    assert policy.of(job) is Trust.FOREIGN
    assert jaxtrain("attach", "theirs", "--trust").returncode == 0
    assert policy.of(job) is Trust.GRANTED and job.result("back") == [1, 2]
    environment[policy.ALLOW] = "0"
    assert jaxtrain("result", "theirs").returncode == 1


def displayed(job):
    view = View()
    Source(job).pump(view, job.snapshot())
    return view.data


def test_a_failed_job_is_rebuilt_with_its_traceback(place, namespace, elsewhere):
    job = submit(FAILS, place, "fails")
    eventually(lambda: not job.active, LONG_S)
    elsewhere()
    found = Job(attach("fails", None, namespace.name))
    eventually(lambda: not found.active, LONG_S)
    assert found.state == "Failed"
    assert found.failure.message == job.failure.message, found.snapshot()
    assert "raise ValueError('no')" in found.failure.error["traceback"]


def test_what_failed_is_known_from_the_others_when_its_pod_is_gone(place, namespace, elsewhere):
    """The controllers delete pods that still end when the first of a job has failed."""
    job = submit(
        f"import jax, time\nif jax.process_index(): time.sleep({LONG_S})\n{FAILS}",
        place,
        "gone -n 2 --env JAXTRAIN_LEAVE_TIMEOUT=15",
    )
    eventually(lambda: not job.active, LONG_S)
    pod = job.snapshot()["ranks"][0]["pod"]
    namespace("delete", "pod", pod, "--ignore-not-found", "--grace-period=0", "--force")
    elsewhere()
    found = Job(attach("gone", None, namespace.name))
    eventually(lambda: not found.active, LONG_S)
    assert found.reason == "rank 0 failed first: ValueError: no"


def test_what_others_made_is_not_taken_for_ours(place, namespace):
    namespace(
        "create",
        "-f",
        "-",
        stdin={
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "theirs"},
            "spec": {"runtimeRef": {"name": "jax-cpu"}, "suspend": True},
        },
    )
    with pytest.raises(BackendError) as refused:
        attach("theirs", None, namespace.name)
    assert refused.value.id == "cluster.not-ours"


def as_reader(namespace, tmp_path):
    """Make a kubeconfig of somebody who may read all but Secrets."""
    namespace("create", "serviceaccount", "reader")
    namespace(
        "create",
        "role",
        "reader",
        "--verb=get,list,watch",
        "--resource=trainjobs.trainer.kubeflow.org,pods,pods/log,events,jobs.batch",
    )
    namespace(
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        f"--serviceaccount={namespace.name}:reader",
    )
    token = namespace("create", "token", "reader").strip()
    config = yaml.safe_load(namespace.cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def test_without_the_right_to_read_secrets_there_are_logs_only(
    place, namespace, elsewhere, tmp_path, monkeypatch
):
    cell = "from jupyter_jax_trainer import report\nreport(1, loss=1)\nprint('shown')\nx = 1"
    submit(cell, place, "seen -o x").wait(90)
    elsewhere()
    monkeypatch.setenv("KUBECONFIG", str(as_reader(namespace, tmp_path)))
    connection._clients.clear()
    job = Job(attach("seen", None, namespace.name)).wait(60)
    assert text(job) == "shown" and job.metrics() == []
    assert "can't be read" in job.code
    assert any("secrets" in event["message"] for event in job.events()), job.events()
