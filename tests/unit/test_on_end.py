"""The hook on the end of a job: its setting, what it gets, and that it gets it once."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import docblocks
import pytest
from apiscene import EMPTY, TRAINER, Scene
from cluster.jobs import stop_followers
from harness import alive, eventually
from made_jobs import made_cell, make_job
from webserver import Quiet, WebServer

from jupyter_jax_trainer.backends.kubernetes.api.plan import plan_of
from jupyter_jax_trainer.backends.kubernetes.submit import launch, trainjob
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir import endhook, endrunner, layout
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.jobdir.files import LineReader
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.states import State

SECRET = "T0K3N-of-a-webhook"


class Hook(Quiet):
    """Notes what is posted; its address says what it answers."""

    posted: list[tuple[str, dict[str, object]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posted.append((self.path, json.loads(body)))
        if "silent" in self.path:
            time.sleep(0.6)
        status = int(self.path.rpartition("=")[2]) if "=" in self.path else 200
        elsewhere = {"Location": "/stolen"} if status == 302 else {}
        with contextlib.suppress(BrokenPipeError):
            self.give(status, elsewhere, b"ok")

    do_GET = do_POST


@pytest.fixture
def webhook():
    Hook.posted = []
    server = WebServer(Hook)
    yield f"{server.url}/{SECRET}"
    server.close()


def settings(home: Path, **table: object) -> None:
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    (home / "settings.toml").write_text("\n".join(["[on_end]", *lines]))


def running(name: str) -> JobDir:
    return make_job(name, "Running", history=[{"state": "Running", "time": time.time()}])


def end(job: JobDir, state=State.SUCCEEDED, reason=None, failure=None) -> None:
    Recorder(job, [], job.read_state()).end(state, reason, failure)


def events(job: JobDir) -> list[tuple[str, str]]:
    found = LineReader(job.events).read()
    return [(one["kind"], one["message"]) for one in found if one["kind"] in ("warning", "on-end")]


def notes(home: Path) -> list[str]:
    folder = home / endhook.NOTES
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_a_webhook_gets_what_happened_and_is_never_named(home, webhook):
    settings(home, url=webhook, link="https://hub.example/lab?jaxtrain-log={name}")
    job = running("fit")
    failure = Failure(kind="exception", message="it failed", hint="mend it")
    end(job, State.FAILED, "rank 1 said token=hunter2hunter2\nand more", failure)
    endrunner.tell_all(home)
    [(path, told)] = Hook.posted
    assert path == f"/{SECRET}"
    assert told.pop("duration") > 100
    text = told.pop("text")
    assert text.startswith("Job fit failed after 2 m 1") and text.endswith(told["reason"])
    assert told == {
        "name": "fit",
        "state": "Failed",
        "reason": "rank 1 said token=… and more",
        "link": "https://hub.example/lab?jaxtrain-log=fit",
    }
    assert [kind for kind, _ in events(job)] == ["on-end"]
    assert notes(home) == []
    written = [path.read_bytes() for path in job.path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in data for data in written)
    endrunner.tell_all(home)
    assert len(Hook.posted) == 1


@pytest.mark.parametrize(
    ("end_of_url", "message"),
    [
        ("?status=404", say.ON_END_ANSWER(status=404)),
        ("?status=302", say.ON_END_ANSWER(status=302)),
        ("/silent", say.ON_END_LATE(limit="0.2 s", variable="JAXTRAIN_ON_END_TIMEOUT")),
        (None, say.ON_END_NO_CONNECTION(error="Connection refused")),
    ],
    ids=["refused", "redirect", "silent", "nobody"],
)
def test_a_webhook_that_fails_is_an_event_without_its_address(
    home, webhook, monkeypatch, end_of_url, message
):
    if end_of_url == "/silent":
        monkeypatch.setenv("JAXTRAIN_ON_END_TIMEOUT", "0.2")
    settings(home, url=webhook + end_of_url if end_of_url else f"http://127.0.0.1:9/{SECRET}")
    job = running("fit")
    end(job)
    endrunner.tell_all(home)
    assert events(job) == [("warning", say.ON_END_FAILED(error=message))]
    assert len(Hook.posted) == (1 if end_of_url else 0), "a redirect is not followed"
    assert notes(home) == [] and job.read_state()["state"] == "Succeeded"


def test_a_command_gets_it_on_its_standard_input(home, tmp_path):
    settings(home, command=f"cat > {tmp_path}/told && echo done")
    job = running("fit")
    end(job)
    endrunner.tell_all(home)
    told = json.loads((tmp_path / "told").read_text())
    assert (told["name"], told["state"], told["reason"]) == ("fit", "Succeeded", None)
    assert [kind for kind, _ in events(job)] == ["on-end"]
    assert (home / endhook.NOTES / "output").read_text() == "done\n"


def test_a_command_that_fails_or_hangs_is_an_event(home, monkeypatch, tmp_path):
    job = running("fit")
    settings(home, command=f"echo {SECRET} >&2; exit 3")
    end(job)
    endrunner.tell_all(home)
    late = running("late")
    settings(home, command=f"sleep 60 & echo $! > {tmp_path}/pid; wait")
    monkeypatch.setenv("JAXTRAIN_ON_END_TIMEOUT", "0.5")
    end(late)
    endrunner.tell_all(home)
    output = home / endhook.NOTES / "output"
    failed = say.ON_END_FAILED(error=say.ON_END_EXIT(code=3, output=output))
    assert events(job) == [("warning", failed)]
    limit = say.ON_END_LATE(limit="0.5 s", variable="JAXTRAIN_ON_END_TIMEOUT")
    assert events(late) == [("warning", say.ON_END_FAILED(error=limit))]
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not alive(pid))


def test_only_what_was_asked_for_is_told(home, webhook):
    settings(home, url=webhook, states=["Failed"])
    end(running("well"))
    cell = made_cell(running("cell"), "lab")
    end(cell, State.FAILED)
    foreign = running("foreign")
    manifest = json.loads(foreign.manifest.read_text())
    foreign.manifest.write_text(json.dumps({**manifest, "origin": {"attached": 1.0}}))
    end(foreign, State.FAILED)
    assert notes(home) == []
    settings(home, url=webhook, cells=True)
    end(made_cell(running("other"), "lab"))
    endrunner.tell_all(home)
    assert [told["name"] for _, told in Hook.posted] == ["other"]


def test_an_administrator_can_forbid_it(home, webhook, monkeypatch):
    settings(home, url=webhook)
    end(running("before"))
    monkeypatch.setenv(endhook.ALLOW, "0")
    end(running("after"))
    assert len(notes(home)) == 1
    endrunner.tell_all(home)
    assert Hook.posted == [] and notes(home) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("on_end = 3", "jobs.on-end-unknown"),
        (f"[on_end]\nurl = 'https://x/{SECRET}'\nmail = 'jo'", "jobs.on-end-unknown"),
        ("[on_end]", "jobs.on-end-neither"),
        (f"[on_end]\nurl = 'https://x/{SECRET}'\ncommand = 'true'", "jobs.on-end-neither"),
        (f"[on_end]\nurl = 'file:///{SECRET}'", "jobs.on-end-wrong"),
        (f"[on_end]\nurl = 'https://x/{SECRET} y'", "jobs.on-end-wrong"),
        ("[on_end]\ncommand = 3", "jobs.on-end-wrong"),
        ("[on_end]\ncommand = 'true'\nstates = ['Running']", "jobs.on-end-wrong"),
        ("[on_end]\ncommand = 'true'\ncells = 'yes'", "jobs.on-end-wrong"),
        (f"url = https://x/{SECRET}", "jobs.settings-no-toml"),
    ],
)
def test_a_setting_that_makes_no_sense_is_said_and_fails_no_job(home, text, found):
    (home / "settings.toml").write_text(text)
    with pytest.raises(UsageError) as refused:
        endhook.read(home)
    assert refused.value.id == found and SECRET not in str(refused.value)
    job = running("fit")
    end(job)
    assert job.read_state()["state"] == "Succeeded"
    assert [kind for kind, _ in events(job)] == ["warning"]


def test_the_settings_in_the_documentation_are_read(home):
    found = docblocks.blocks("docs/reference/settings.md")
    blocks = [one for one in found if one.language == "toml"]
    assert len(blocks) == 3
    for block in blocks:
        (home / "settings.toml").write_text(block.text)
        assert endhook.read(home) is not None


def test_a_setting_that_others_can_write_is_refused(home):
    settings(home, command="true")
    (home / "settings.toml").chmod(0o666)
    with pytest.raises(UsageError) as refused:
        endhook.read(home)
    assert refused.value.id == "jobs.settings-writable"


def test_who_dies_before_the_end_is_written_leaves_nothing_to_tell_and_after_it_to_the_next(
    home, webhook
):
    settings(home, url=webhook)
    job = running("fit")
    endhook.note(job.path, job.read_manifest(), State.SUCCEEDED)  # and killed
    endrunner.tell_all(home)
    assert Hook.posted == [] and len(notes(home)) == 1
    assert endrunner.start(home) is None, "nothing is ready: no process is started"
    layout.end_abandoned(job)  # somebody looks
    endrunner.tell_all(home)
    assert [told["state"] for _, told in Hook.posted] == ["Failed"]


def test_a_note_of_a_job_that_is_gone_is_thrown_away(home, webhook):
    settings(home, url=webhook)
    job = running("fit")
    end(job)
    job.remove()
    endrunner.tell_all(home)
    assert Hook.posted == [] and notes(home) == []


def test_who_is_killed_while_it_tells_has_told_once_and_the_next_says_so(home, webhook):
    settings(home, command="kill -9 $PPID; sleep 0.1")
    job = running("fit")
    end(job)
    program = "import sys; from jupyter_jax_trainer.jobdir.endrunner import main; main(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, str(home)], check=False)
    assert done.returncode == -9
    [left] = [name for name in notes(home) if name != "output"]
    settings(home, url=webhook)
    with open(home / endhook.NOTES / left) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        endrunner.tell_all(home)
        assert events(job) == [], "who has the lock is alive"
    endrunner.tell_all(home)
    assert Hook.posted == []
    assert events(job) == [("warning", say.ON_END_CUT_OFF())]
    assert notes(home) == ["output"]


@pytest.fixture
def scene(home) -> Iterator[Scene]:
    found = Scene()
    yield found
    stop_followers(home)
    found.close()


def test_the_follower_of_a_cluster_tells_of_a_job_that_has_ended_there(home, scene, tmp_path):
    settings(home, command=f"cat > {tmp_path}/part && mv {tmp_path}/part {tmp_path}/told")
    job = running("fit")
    scene.adopt(job, tmp_path)
    metadata = {
        "name": "fit",
        "uid": "t",
        "annotations": {trainjob.UID: job.read_manifest()["uid"]},
    }
    failed = {"type": "Failed", "status": "True", "reason": "x", "message": "boom"}
    scene.answers[f"{TRAINER}/namespaces/default/trainjobs"] = {
        **EMPTY,
        "items": [{"metadata": metadata, "spec": {}, "status": {"conditions": [failed]}}],
    }
    launch.start_follower(plan_of(job.read_manifest()))
    eventually((tmp_path / "told").exists)
    told = json.loads((tmp_path / "told").read_text())
    assert (told["name"], told["state"]) == ("fit", "Failed") and told["reason"]
    eventually(lambda: notes(home) == ["output"])
    assert "on-end" in [kind for kind, _ in events(job)]


def test_of_many_that_tell_at_once_one_does(home, webhook):
    settings(home, url=webhook)
    for number in range(5):
        end(running(f"fit-{number}"))
    started = [endrunner.start(home) for _ in range(4)]
    eventually(lambda: not notes(home))
    assert started[0] is not None
    assert sorted(str(told["name"]) for _, told in Hook.posted) == [f"fit-{n}" for n in range(5)]
