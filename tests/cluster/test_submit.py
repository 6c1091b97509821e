"""What comes to the cluster: names, options, all kinds of runtimes, and what is refused."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness import eventually, processes_of_job, text, wait_for_text
from pace import within

from cluster import made_runtimes
from cluster.jobs import fails, run, stop_followers, submit
from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.doctor import readiness
from jupyter_jax_trainer.backends.kubernetes.follow.attach import attach
from jupyter_jax_trainer.backends.kubernetes.submit import payload, runtimes
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import WARN
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.messages import submit as say_of_submit
from jupyter_jax_trainer.options.spec import parse_cell_line

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def quota(namespace, **hard):
    namespace(
        "create",
        "-f",
        "-",
        stdin={
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": hard},
        },
    )
    eventually(lambda: namespace.get("resourcequota", "q")["status"].get("used"))


def dry_run(cell, place, line="", variables=None):
    spec = parse_cell_line(f"{place} --dry-run --show-secrets {line}")
    backend, plan = api.prepare(spec)
    return api.dry_run(spec, backend, plan, capture_cell(cell, variables or {}, out=spec.out))


# ---- --dry-run


def test_what_a_dry_run_prints_can_be_applied_and_is_the_job(place, namespace):
    written = dry_run("made = given + 1\nprint('applied')", place, "applied -o made", {"given": 2})
    assert written.startswith("# Nothing was started.") and "# given " in written
    assert not namespace.get("trainjobs")["items"] and not namespace.get("secrets")["items"]
    command = [*namespace.cluster.kubectl, "--namespace", namespace.name]
    apply = [*command, "apply", "--server-side", "-f", "-"]
    trainjob, *secrets = written.split("\n---\n")
    subprocess.run(apply, input=trainjob, text=True, check=True)
    with pytest.raises(BackendError) as refused:
        attach("applied", None, namespace.name)
    assert refused.value.id == "follow.waits-for-secret"
    subprocess.run(apply, input="\n---\n".join(secrets), text=True, check=True)
    namespace.until_condition("applied", "Complete", 60)
    job = Job(attach("applied", None, namespace.name)).wait(30)
    assert text(job) == "applied" and not job.trusted  # nobody could sign what kubectl applied
    assert job.trust().result("made") == 3
    assert job.code.strip() == "made = given + 1\nprint('applied')"
    job.delete()  # whose it is can't be told, so only what is here goes
    assert namespace.get("trainjob", "applied")["metadata"]["name"] == "applied"
    remove = [*command, "delete", "-f", "-"]  # the Secret has no owner that would take it along
    subprocess.run(remove, input=written, text=True, check=True)
    assert not namespace.get("secrets")["items"]


def test_a_dry_run_shows_what_admission_says(place, namespace):
    quota(namespace, **{"count/trainjobs.trainer.kubeflow.org": "0"})
    for refused in (dry_run, submit):
        with pytest.raises(BackendError, match="quota"):
            refused("1", place)
    assert not namespace.get("trainjobs")["items"] and not namespace.get("secrets")["items"]


def test_a_priority_is_of_a_queue(place):
    with pytest.raises(UsageError) as refused:
        submit("1", place, "--priority high")
    assert refused.value.id == "submit.priority-needs-queue"


# ---- names


def test_the_longest_name_runs_and_a_longer_one_is_refused(place, namespace):
    longest = "n" * (63 - len("-node-0-0-abcde"))
    job = run("print('ran')", place, longest)
    assert text(job) == "ran"
    assert len(namespace.pods(longest)[0]["metadata"]["name"]) == 63
    with pytest.raises(UsageError, match="has 49 characters.* allows 48"):
        submit("1", place, f"{longest}n")
    with pytest.raises(UsageError, match="allows 48 with --nodes 10"):
        submit("1", place, f"{longest}n -n 10")
    with pytest.raises(UsageError, match="allows 47 with --nodes 11"):
        submit("1", place, f"{longest} -n 11")
    again = run("print('again')", place, longest)
    assert again.name == f"{longest[:-2]}-2"


def test_with_initializers_the_names_are_shorter(place, namespace):
    runtime = made_runtimes.make(namespace, "prepares", initializer=True)
    longest = "n" * (63 - len("-dataset-initializer-0-0-abcde"))
    with pytest.raises(UsageError, match="allows 33"):
        submit("1", place, f"{longest}n --runtime {runtime}")
    job = run("print('ran')", place, f"{longest} --runtime {runtime}")
    assert text(job, 0) == "ran"


def test_a_name_can_be_used_again_when_its_job_has_ended(place, tmp_path, monkeypatch):
    first = run("print(1)", place, "fit")
    second = submit("import time\nprint(2)\ntime.sleep(100)", place, "fit")
    assert (first.name, second.name) == ("fit", "fit-2")
    with pytest.raises(UsageError, match="active job 'fit-2'"):
        submit("1", place, "fit-2")
    with monkeypatch.context() as patched:
        patched.setenv("JAXTRAIN_HOME", str(tmp_path))  # another machine
        with pytest.raises(UsageError, match="fit-2") as refused:
            submit("1", place, "fit-2")
        assert refused.value.id == "submit.name-is-active"
    second.cancel()


# ---- options


def test_options_reach_the_pods(place, namespace):
    namespace("create", "serviceaccount", "me")
    namespace(
        "create",
        "secret",
        "generic",
        "creds",
        "--from-literal=TOKEN=abc",
        "--from-literal=WORD=theirs",
    )
    job = run(
        "import os\nprint(os.environ['TOKEN'], os.environ['WORD'], os.environ['EMPTY'] == '')\n"
        "print([n for n in os.environ if n.startswith('JAXTRAIN_BUNDLE') or 'KEY' in n])",
        place,
        "--env WORD=mine --env EMPTY= --env-from-secret creds --service-account me "
        "--cpu 200m --memory 400Mi --timeout 5m",
    )
    assert text(job).splitlines()[0] == "abc mine True"
    assert "FRAME_KEY" not in text(job)
    (pod,) = namespace.pods(job.name)
    assert pod["spec"]["serviceAccountName"] == "me"
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "200m", "memory": "400Mi"},
        "limits": {"memory": "400Mi"},
    }
    assert namespace.get("trainjob", job.name)["spec"]["activeDeadlineSeconds"] == 300
    with pytest.raises(UsageError) as told:
        submit("1", place, "--env-from-secret nothere")
    assert told.value.id == "submit.no-secret" and "nothere" in told.value.message
    assert told.value.hint == say_of_submit.NO_SECRET(name="nothere", namespace=namespace.name).hint


def test_a_job_ends_with_its_time(place, namespace):
    job, failure = fails("import time\ntime.sleep(100)", place, "--timeout 8s")
    assert failure.kind == "timeout" and "longer than its --timeout of 8 s" in job.reason
    assert job.ended - job.created < 8 + 20


# ---- runtimes and images

FACTS = """
import os, tempfile, pathlib, jax
from jupyter_jax_trainer import checkpoint_dir
assert os.getuid() != 0 and int(data.sum()) == 4950
pathlib.Path.home().joinpath("x").write_text("home")
tempfile.NamedTemporaryFile().write(b"tmp")
(pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home())) / "c").mkdir(parents=True)
print("rank", jax.process_index(), "of", jax.process_count())
back = data * 2
"""


def variables():
    import numpy as np

    return {"data": np.arange(100), "__name__": "__main__"}


def test_the_stock_runtime_takes_any_image_with_jax(place, namespace, cluster):
    job = run(
        FACTS,
        place,
        f"-n 2 -o back --runtime jax-distributed --image {made_runtimes.image(cluster)}",
        variables(),
    )
    assert int(job.result("back").sum()) == 9900 and "rank 1 of 2" in text(job, 1)
    for pod in namespace.pods(job.name):
        assert pod["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
        assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert not job.manifest["plan"]["runs_once"]


def test_a_read_only_root_without_any_volume_is_enough(place, namespace, monkeypatch):
    def bare(pod):
        pod["volumes"] = []
        pod["containers"][0]["volumeMounts"] = []

    runtime = made_runtimes.make(namespace, "bare", bare)
    # As in a queue of a Kueue that drops patches: there is no scratch space either.
    nothing = dict.fromkeys(("scratch", "mesh", "restricted"), False)
    no_volume = {"mounts": False}
    monkeypatch.setattr(runtimes, "patches", lambda item, **_: nothing)
    pack = payload.pack
    monkeypatch.setattr(payload, "pack", lambda *given, **more: pack(*given, **more | no_volume))
    job = run(FACTS, place, f"-n 2 -o back --runtime {runtime}", variables())
    assert int(job.result("back").sum()) == 9900
    assert "runtimePatches" not in namespace.get("trainjob", job.name)["spec"]


def with_tools(namespace, runtime, tools, hide=()):
    """Make a runtime whose PATH has these tools and nothing else."""
    namespace(
        "create",
        "configmap",
        runtime,
        *(f'--from-literal={name}=#!/bin/sh\nexec {to} "$@"\n' for name, to in tools.items()),
    )

    def change(pod):
        container = pod["containers"][0]
        container["env"].append({"name": "PATH", "value": "/tools"})
        pod["volumes"].append(
            {"name": "tools", "configMap": {"name": runtime, "defaultMode": 0o555}}
        )
        container["volumeMounts"].append({"name": "tools", "mountPath": "/tools"})
        if not hide:
            return
        pod["volumes"] += [
            {"name": "hidden", "emptyDir": {}},
            {"name": "no-program", "configMap": {"name": runtime, "defaultMode": 0o444}},
        ]
        for place in hide:
            file = (
                {"name": "no-program", "subPath": "sh"} if "python" in place else {"name": "hidden"}
            )
            container["volumeMounts"].append({**file, "mountPath": place})

    return made_runtimes.make(namespace, runtime, change)


def test_python_is_found_whatever_it_is_called(place, namespace):
    python = with_tools(namespace, "python", {"sh": "/bin/sh", "python": "/opt/jax/bin/python3"})
    jobs = [submit("import jax; print('found')", place, f"--runtime {python}")]
    nowhere = with_tools(namespace, "nowhere", {"sh": "/bin/sh"})
    jobs += [submit("import jax; print('found')", place, f"--runtime {nowhere}")]
    for job in jobs:
        assert text(job.wait(60)) == "found"


def test_an_image_that_lacks_something_is_told_in_a_sentence(place, namespace, cluster):
    plain = with_tools(namespace, "plain", {"sh": "/bin/sh", "python3": "/usr/bin/python3"})
    job, failure = fails("print('no')", place, f"--runtime {plain}")
    assert "jax" in failure.message and "image" in f"{failure.message} {failure.hint}", failure
    found = [
        one
        for one in report.examine("kubernetes", namespace=namespace.name)
        if one.subject == "Image"
    ]
    said = readiness.NO_JAX(name=job.name, image="")
    assert [one.status for one in found] == [WARN] and found[0].detail.startswith(said)
    nothing = with_tools(
        namespace, "nothing", {"sh": "/bin/sh"}, ["/opt", "/usr/local/bin", "/usr/bin/python3.11"]
    )
    _, failure = fails("print('no')", place, f"--runtime {nothing}")
    assert "no Python" in failure.message and failure.kind == "start", failure


# ---- a cell that fails runs once, in the stock runtime too


COUNTED = """
import time
from pathlib import Path
def note(word):
    with open(FOLDER + "/notes", "a") as file:
        file.write(word + chr(10))
note("begin")
print("begun", flush=True)
"""


def start_counted(cell, place, cluster, shared):
    return submit(
        COUNTED + cell,
        place,
        "--runtime jax-distributed --image "
        f"{made_runtimes.image(cluster)} --volume {shared.claim}:{shared.path}",
        {"FOLDER": str(shared.path), "__name__": "__main__"},
    )


def ended_once(job, namespace, shared):
    """Check that a job has failed, that it is suspended and marked, and ran its cell once."""
    eventually(lambda: not job.active)
    assert job.state == "Failed", job.reason
    found = namespace.get("trainjob", job.name)
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["annotations"]["jupyter-jax-trainer/failed"]
    eventually(lambda: not namespace.pods(job.name))
    return (shared.path / "notes").read_text().split()


def test_a_cell_that_raises_runs_once(place, namespace, cluster, shared):
    job = start_counted("raise ValueError('no')", place, cluster, shared)
    assert ended_once(job, namespace, shared) == ["begin"]
    assert job.failure.message == "ValueError: no (cell line 10)"
    assert "ValueError" in job.failure.error["traceback"]
    (running,) = [at for state, at in job.history if state == "Running"] or [job.created]
    assert within(job.ended - running, 5)


def test_a_cell_whose_worker_is_killed_runs_once(place, namespace, cluster, shared):
    job = start_counted("time.sleep(100)\nnote('end')", place, cluster, shared)
    wait_for_text(job, "begun")
    for pid in processes_of_job(job):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it ended with the first
            if b"JAXTRAIN_BOOT=" in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGKILL)
    assert ended_once(job, namespace, shared) == ["begin"]
    assert say.KILLED() in job.reason, job.reason


def test_a_cell_whose_pod_is_deleted_does_not_run_to_its_end_in_another(
    place, namespace, cluster, shared
):
    job = start_counted("time.sleep(20)\nnote('end')", place, cluster, shared)
    wait_for_text(job, "begun")
    (pod,) = namespace.pods(job.name)
    namespace("delete", "pod", pod["metadata"]["name"], "--wait=false")
    assert "end" not in ended_once(job, namespace, shared)
    assert "deleted" in job.reason, job.reason


def test_a_cell_that_fails_while_nobody_looks_runs_once(place, namespace, cluster, shared, store):
    job = start_counted(
        "while not Path(FOLDER, 'gate').exists(): time.sleep(0.1)\nraise ValueError('no')",
        place,
        cluster,
        shared,
    )
    wait_for_text(job, "begun")
    stop_followers(store)
    (shared.path / "gate").touch()

    def restarts():
        (pod,) = namespace.pods(job.name)
        return pod["status"]["containerStatuses"][0]["restartCount"]

    eventually(lambda: restarts() >= 2)
    assert (shared.path / "notes").read_text().split() == ["begin"]
    assert ended_once(job, namespace, shared) == ["begin"]


# ---- a submission that is cut short leaves nothing


STEPS = {
    "before the dry run": (0, False),
    "after the dry run": (0, True),
    "before the TrainJob": (1, False),
    "after the TrainJob": (1, True),
    "before the Secret": (2, False),
    "after the Secret": (2, True),
}


def interrupt(monkeypatch, at, after, again=False):
    """Interrupt this process at one of its requests; again, when it takes things back."""
    real, seen = Client.request, []

    def request(self, method, path, **options):
        if method == "DELETE" and again:
            raise KeyboardInterrupt
        if method != "POST":
            return real(self, method, path, **options)
        seen.append(path)
        if len(seen) == at + 1 and not after:
            raise KeyboardInterrupt
        found = real(self, method, path, **options)
        if len(seen) == at + 1:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Client, "request", request)


def test_an_interrupted_submission_leaves_nothing(place, namespace, store, monkeypatch):
    def left():
        return namespace.get("trainjobs")["items"] + namespace.get("secrets")["items"]

    for number, (at, after) in enumerate(STEPS.values()):
        with monkeypatch.context() as patched:
            interrupt(patched, at, after)
            with pytest.raises(KeyboardInterrupt):
                submit("1", place, f"cut-{number}")
        assert not (store / "jobs" / f"cut-{number}").exists()
        eventually(lambda: not left())
    with monkeypatch.context() as patched:
        interrupt(patched, 1, True, again=True)
        with pytest.raises(KeyboardInterrupt):
            submit("1", place, "twice")
    job = api.job("twice")  # what could not be taken back, the follower takes back
    eventually(lambda: job.state == "Cancelled")
    eventually(lambda: not left())
    assert within(time.time() - job.created, 60)
