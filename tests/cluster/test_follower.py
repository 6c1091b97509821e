"""The follower: one for all jobs, of which none harms another, and that can always be begun anew."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from harness import eventually, text

from cluster.faults import LONG_S, PROMISED_S, begin, end, says
from cluster.jobs import followers, run, stop_followers, submit
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.messages import jobs as say_of_jobs

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_the_name_of_a_deleted_job_can_be_used_again_at_once(place, store, namespace):
    first = submit("print('begins', 1)", place, "fit --image nowhere.invalid/none:1")
    says(first, "nowhere.invalid/none:1")
    (follower,) = followers(store)
    first.delete()
    eventually(lambda: not namespace.get("trainjobs")["items"], LONG_S)
    second = run("print('begins', 2)", place, "fit")
    assert (second.name, text(second)) == ("fit", "begins 2")
    assert followers(store) == [follower]


def removed(directory):
    """Remove a directory into which its follower may just be writing."""
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def test_a_directory_that_is_removed_by_hand_ends_the_job(place, namespace):
    job = begin(place)
    eventually(lambda: removed(job.directory))
    eventually(lambda: not namespace.get("trainjobs,secrets,pods")["items"], 40)
    assert (job.state, job.reason) == ("Cancelled", say_of_jobs.DIRECTORY_DELETED())


def test_a_job_that_has_gone_while_nobody_followed_it(place, store, namespace, tmp_path):
    told = tmp_path / "told"
    (store / "settings.toml").write_text(f"[on_end]\ncommand = 'cat >> {told}'")
    job = begin(place)
    stop_followers(store)
    # Its pods go some time later: on a cluster whose API was just killed, many seconds.
    namespace("delete", "trainjob", job.name, "--wait=false")
    eventually(lambda: not namespace.get("trainjobs,pods")["items"], LONG_S)
    end(job, 2 * PROMISED_S)
    assert (job.state, job.reason) == ("Cancelled", say.DELETED())
    assert text(job) == "begins"
    eventually(lambda: any(one["kind"] == "on-end" for one in job.events()))
    (line,) = told.read_text().splitlines()
    assert json.loads(line)["reason"] == say.DELETED()
    (store / "settings.toml").unlink()


@pytest.mark.parametrize("part", ["spec", "uid", "plan", "state"])
def test_a_directory_that_makes_no_sense_does_not_stop_the_others(part, place, store):
    model = run("print('begins')", place)
    odd = model.directory.with_name(f"odd-{part}")
    shutil.copytree(model.directory, odd)
    for file in ("state.json", "lock"):
        (odd / file).unlink()
    manifest = json.loads((odd / "manifest.json").read_text())
    if part == "state":
        (odd / "state.json").write_text('{"format": 1, "state": "Queued", "ranks": 7}')
    else:
        manifest[part] = {"cluster": manifest["plan"]["cluster"], "nodes": "many"}
    (odd / "manifest.json").write_text(json.dumps(manifest))
    job = run("print('begins')", place)
    assert text(job) == "begins" and len(followers(store)) == 1


def test_of_many_that_are_started_at_once_one_follows(place, store):
    job = submit("print('begins')", place)
    stop_followers(store)
    plan = job.manifest["plan"]
    starts = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import json, sys; from jupyter_jax_trainer.backends.kubernetes.submit import launch; "
                "launch.start_follower(json.loads(sys.argv[1]))",
                json.dumps(plan),
            ]
        )
        for _ in range(4)
    ]
    assert [start.wait(60) for start in starts] == [0] * 4
    end(job, LONG_S)
    assert len(followers(store)) == 1


def test_a_follower_without_jobs_leaves(place, store, monkeypatch):
    job = run("print('begins')", place)
    stop_followers(store)
    monkeypatch.setenv("JAXTRAIN_FOLLOWER_IDLE", "0.5")
    launch.start_follower(job.manifest["plan"])
    assert launch.has_follower(job.manifest["plan"]["cluster"])
    eventually(lambda: not launch.has_follower(job.manifest["plan"]["cluster"]), LONG_S)
    assert job.state == "Succeeded"
    assert not followers(store)  # to ask for an ended job starts none
