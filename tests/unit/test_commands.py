"""The commands on job directories as they are on disk; tests/local has those with processes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from apiscene import TRAINER, Scene
from made_jobs import held, made_cell, make_job, uid_of

import jupyter_jax_trainer
from jupyter_jax_trainer import cli
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api import identity
from jupyter_jax_trainer.backends.kubernetes.submit import trainjob
from jupyter_jax_trainer.commands import COMMANDS, Context, run_command
from jupyter_jax_trainer.commands.completion import complete, fragment
from jupyter_jax_trainer.devices import DEVICES
from jupyter_jax_trainer.errors import (
    BackendError,
    JobDetached,
    JobFailed,
    JobNotFound,
    ResultError,
    UsageError,
)
from jupyter_jax_trainer.jobdir import files, layout, session
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.jobdir.store import about_the_store
from jupyter_jax_trainer.messages import channel
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.messages import follow as say_of_cluster
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import options as say_of_options
from jupyter_jax_trainer.messages import results as say_of_results
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.options.table import OPTIONS


def run(line: str, **context: Any) -> str:
    out = io.StringIO()
    run_command(line.split(), Context(print=lambda text: print(text, file=out), **context))
    return out.getvalue()


@pytest.fixture
def calls(monkeypatch: Any) -> list[Any]:
    """Stand in for what only a running job does, and keep what was asked of it."""
    from jupyter_jax_trainer.jobdir.job import Job

    seen: list[Any] = []
    monkeypatch.setattr(Job, "cancel", lambda job: seen.append(("cancel", job.name)))
    monkeypatch.setattr(Job, "delete", lambda job: seen.append(("delete", job.name)))
    monkeypatch.setattr(Job, "active", property(lambda job: job.state == "Running"))
    monkeypatch.setattr(
        Job,
        "result",
        lambda job, name=None: {"loss": 0.5} if name is None else {"loss": 0.5}[name],
    )
    monkeypatch.setattr(Job, "_state", lambda job: job._dir.read_state())
    return seen


# ---------------------------------------------------------------------------- jobs, show, logs


def test_jobs_lists_the_newest_first_in_an_aligned_table(home):
    make_job("older", created=time.time() - 4000)
    make_job("newer", "Failed", reason="rank 1: ValueError: no", progress=None)
    lines = run("jobs", width=120).splitlines()
    assert lines[0].split() == ["NAME", "STATE", "AGE", "TOOK", "NODES", "PROGRESS", "REASON"]
    assert lines[1].startswith("newer") and "2 m 14 s" in lines[1] and "ValueError" in lines[1]
    assert lines[2].startswith("older") and "120/500 24 % loss 0.2312" in lines[2]
    assert lines[1].index("Failed") == lines[2].index("Succeeded")


def test_jobs_of_one_state_and_none_at_all(home):
    assert run("jobs") == f"{say.NO_JOBS()}\n"
    make_job("a")
    assert run("jobs --state Failed") == f"{say.NO_JOBS_IN_STATE(state='Failed')}\n"
    assert "a" in run("jobs --state Succeeded")
    assert "a" in run("jobs --state succeeded")
    with pytest.raises(UsageError) as caught:
        run("jobs --state faild")
    assert caught.value.hint == say_of_options.DID_YOU_MEAN(name="Failed")


def test_jobs_leaves_out_what_is_old_and_says_so(home):
    for number in range(23):
        make_job(f"j{number}", created=1000 + number)
    text = run("jobs")
    assert "j22" in text and "j2 " not in text
    assert say.OLDER_JOBS(count=3) in text
    assert "j2 " in run("jobs --all")


def test_a_session_is_listed_once_with_its_cells_that_have_not_ended(home):
    make_job("fit", created=1000)
    lab = make_job("lab", "Running", created=1001)
    for number in range(30):
        made_cell(make_job(f"lab-cell-{number}", created=2000 + number), "lab")
    running = made_cell(make_job("lab-cell-30", "Running", created=3000), "lab")
    session.write(lab, {**session.first(None), "running": "lab-cell-30"})
    with held(lab), held(running):
        names = [line.split("  ")[0] for line in run("jobs", width=120).splitlines()]
        assert names == ["NAME", "lab", "└ lab-cell-30", "fit"]
        assert "31 cells" in run("jobs", width=120)
        assert "└ lab-cell-7 " in run("jobs --all", width=120)
        assert run("jobs --state Succeeded", width=120).count("lab-cell") == 20
    lab.remove()
    assert run("jobs", width=120).count("lab-cell") == 20  # jobs like others


def test_a_damaged_job_is_a_line_like_others_and_can_be_deleted(home):
    make_job("good")
    make_job("bad").state.write_text("{")
    assert "damaged" in run("jobs", width=200)
    assert "good" in run("jobs")
    assert run("delete bad") == f"{say.DELETED(name='bad')}\n"
    assert "bad" not in run("jobs")


def test_the_table_fits_the_terminal(home):
    make_job("a", "Failed", reason="long " * 50)
    assert all(len(line) <= 90 for line in run("jobs", width=90).splitlines())


def test_show_tells_all(home):
    failure = {"kind": "error", "message": "ValueError: no", "rank": 1, "others": [0]}
    make_job("a", "Failed", failure=failure)
    text = run("show a")
    for part in ("Failed", "-n 2 -o loss", "120/500", "float32[10]", "never set", "123"):
        assert part in text
    assert "rank 1" in text and "ValueError: no" in text


def test_without_a_name_the_newest_job_is_meant(home):
    with pytest.raises(JobNotFound) as caught:
        run("show")
    assert caught.value.id == "commands.no-jobs-yet"
    make_job("older", created=1000)
    make_job("newer", created=2000)
    assert "newer" in run("show").splitlines()[0]


def test_a_wrong_name_gets_the_nearest_one(home):
    make_job("digits")
    with pytest.raises(JobNotFound, match="digits"):
        run("show digit")


def test_logs_are_marked_with_their_rank_and_made_harmless(home):
    hostile = "1%\r100%\x1b[2J\x1b]0;title\x07 \x1b[31mred"
    make_job("a", logs={0: ["one", "two"], 1: [hostile]})
    assert run("logs a").splitlines() == ["[0] one", "[0] two", "[1] 100% \x1b[31mred\x1b[0m"]
    assert run("logs a --rank 0 --tail 1") == "two\n"
    assert run("logs a -r0 -n1 -f") == "two\n"
    clock, rest = run("logs a --rank 0 -n 1 --timestamps").split()
    assert len(clock) == 8 and clock.count(":") == 2 and rest == "two"
    make_job("alone", spec=JobSpec())
    for job, id in (("a", "jobs.no-rank"), ("alone", "jobs.only-rank-0")):
        with pytest.raises(UsageError) as caught:
            run(f"logs {job} --rank 7")
        assert caught.value.id == id


def test_the_logs_of_other_containers(home):
    directory = make_job("a", logs={0: ["one"]})
    (directory.logs / "dataset-initializer.log").write_text("fetched\n")
    assert run("logs a") == "[0] one\n"
    assert run("logs a --container dataset-initializer") == "fetched\n"
    assert "OTHER CONTAINER" in run("show a") and "dataset-initializer" in run("show a")
    with pytest.raises(UsageError, match="'model'") as error:
        run("logs a --container model")
    assert error.value.id == "jobs.no-container-log" and "dataset-initializer" in str(error.value)
    with pytest.raises(UsageError) as error:
        run("logs a --container dataset-initializer --rank 0")
    assert error.value.id == "commands.rank-and-container"
    assert complete("%jaxtrain logs a --container d", 30) == ["dataset-initializer"]
    assert complete("%jaxtrain logs --container d", 28) == ["dataset-initializer"]
    quiet = make_job("quiet", logs={})
    (quiet.logs / "rank-0.init.log").write_text("x\n")
    assert "--container rank-0.init" in run("logs quiet")


def test_a_notebook_shows_the_last_lines_only(home):
    make_job("a", logs={0: [str(n) for n in range(5000)]}, spec=JobSpec())
    text = run("logs a", in_notebook=True)
    assert len(text.splitlines()) == 1001
    assert say.LAST_LINES(count=1000) in text and "4999" in text
    assert len(run("logs a").splitlines()) == 5000
    make_job("silent", logs={})
    assert run("logs silent") == f"{say.NOTHING_PRINTED(name='silent')}\n"


# ---------------------------------------------------------------------------- doing things


def test_result_puts_variables_into_the_notebook(home, calls):
    make_job("a")
    namespace: dict[str, Any] = {}
    text = run("result a", namespace=namespace, in_notebook=True)
    assert namespace == {"loss": 0.5}
    assert "loss" in text and "float" in text
    assert run("result a loss") == "loss = 0.5\n"


def test_cancel_and_delete_take_several_and_a_wrong_name_changes_nothing(home, calls):
    make_job("a", "Running")
    make_job("b")
    assert run("cancel a b").splitlines() == [
        say.CANCELLED(name="a"),
        say.ENDED_ALREADY(name="b", state="Succeeded"),
    ]
    make_job("b-2", "Running", spec=JobSpec(name="b"))
    assert run("cancel b").splitlines() == [
        say.ENDED_ALREADY(name="b", state="Succeeded"),
        say.NAMESAKE_ACTIVE(name="b-2"),
    ]
    run("delete b a --yes")
    assert calls == [("cancel", "a"), ("delete", "b"), ("delete", "a")]
    with pytest.raises(JobNotFound):
        run("delete a nothere")
    assert len(calls) == 3


def test_deleting_a_running_job_asks_in_a_terminal_and_needs_a_word_elsewhere(home, calls):
    make_job("a", "Running")
    questions = []

    def ask(question: str) -> bool:
        questions.append(question)
        return len(questions) > 1

    assert run("delete a", ask=ask) == f"{say.NOT_DELETED(name='a')}\n"
    assert calls == []
    run("delete a", ask=ask)
    assert calls == [("delete", "a")]
    with pytest.raises(UsageError, match="--yes"):
        run("delete a")


def test_delete_takes_patterns(home, calls):
    for name in ("fib", "fib-2", "fob"):
        make_job(name)
    run("delete fib*")
    assert sorted(calls) == [("delete", "fib"), ("delete", "fib-2")]
    with pytest.raises(JobNotFound, match=r"'x\*'") as caught:
        run("delete fob x*")
    assert caught.value.id == "commands.no-match"
    assert len(calls) == 2


def test_delete_all_means_ended_jobs_and_asks_with_their_number_and_size(home, calls):
    make_job("runs", "Running")
    assert run("delete --all") == f"{say.NONE_ENDED()}\n"
    make_job("a").log(0).write_bytes(b"x" * 3_000_000)
    make_job("b")
    questions = []

    def ask(question: str) -> bool:
        questions.append(question)
        return len(questions) > 1

    assert run("delete --all", ask=ask) == f"{say.NOTHING_DELETED()}\n"
    assert calls == [] and questions == [
        say.ASK_DELETE_ENDED(jobs=say.ENDED_JOBS(count=2), size="3 MB")
    ]
    with pytest.raises(UsageError, match="--all --yes"):
        run("delete --all", in_notebook=True)
    run("delete --all", ask=ask)
    assert sorted(calls) == [("delete", "a"), ("delete", "b")]
    run("delete --all --yes")
    assert len(calls) == 4
    for line in ("delete", "delete a --all"):
        with pytest.raises(UsageError) as caught:
            run(line)
        assert caught.value.id == "commands.delete-which"


def test_all_jobs_are_listed_with_their_size(home):
    make_job("a").log(0).write_bytes(b"x" * 3_000_000)
    header, row = run("jobs --all", width=200).splitlines()
    assert "SIZE" in header and "3 MB" in row
    assert "SIZE" not in run("jobs", width=200)


def test_suspend_and_resume_are_refused_here(home):
    make_job("a")
    for verb in ("suspend", "resume"):
        with pytest.raises(UsageError, match=f"`{verb}`") as refused:
            run(f"{verb} a")
        assert refused.value.id == "local.suspend-needs-cluster"


def watched(monkeypatch: Any, follow: Any) -> None:
    monkeypatch.setattr("jupyter_jax_trainer.views.follow.follow", follow)


def test_attach_follows_and_fails_as_the_job_does(home, monkeypatch):
    seen = []

    def follow(job: Any, interrupts: Any) -> None:
        seen.append(job.name)
        job.raise_for_state()

    watched(monkeypatch, follow)
    make_job("good")
    make_job("bad", "Failed", failure={"kind": "error", "message": "ValueError", "rank": 0})
    run("attach good")
    with pytest.raises(JobFailed, match="ValueError"):
        run("attach bad")
    assert seen == ["good", "bad"]
    assert cli.main(["attach", "good"]) == 0
    assert cli.main(["attach", "bad"]) == 1


def test_attach_binds_the_results_in_a_notebook_and_names_the_command_in_a_terminal(
    home, monkeypatch, capsys
):
    watched(monkeypatch, lambda job, interrupts: None)
    monkeypatch.setattr(
        "jupyter_jax_trainer.jobdir.results.load_available", lambda job: ({"loss": 0.5}, {})
    )
    make_job("a", results=[{"name": "loss", "type": "float", "size": 8}])
    namespace: dict[str, Any] = {}
    text = run("attach a", namespace=namespace, in_notebook=True)
    assert text == f"{say.LOADED_IN_NOTEBOOK(names='loss')}\n"
    assert namespace == {"loss": 0.5}
    assert run("attach a") == ""  # standard output is the job's own
    assert capsys.readouterr().err == f"{say.HOW_TO_PRINT(name='a', names='loss')}\n"
    make_job("b", results=None, spec=JobSpec(nodes=2))
    assert run("attach b", namespace=namespace) == run("attach b") == ""


def test_results_that_never_came_are_an_error(home, monkeypatch):
    """As where a user may not read the log in which they come."""
    watched(monkeypatch, lambda job, interrupts: None)
    make_job("c", results=None, spec=JobSpec(nodes=2, out=("loss",)))
    for more in ({}, {"namespace": {}, "in_notebook": True}):
        with pytest.raises(ResultError) as caught:
            run("attach c", **more)
        assert say_of_results.NEVER_CAME(name="loss", job="c") in str(caught.value)


def test_an_interrupt_as_the_job_ends_keeps_its_results_and_stops_run_all(home, monkeypatch):
    watched(monkeypatch, lambda job, interrupts: interrupts.times.append(1.0))
    monkeypatch.setattr(
        "jupyter_jax_trainer.jobdir.results.load_available", lambda job: ({"loss": 0.5}, {})
    )
    make_job("a")
    namespace: dict[str, Any] = {}
    with pytest.raises(JobDetached) as caught:
        run("attach a", namespace=namespace, in_notebook=True)
    assert caught.value.id == "views.ended-meanwhile"
    assert namespace == {"loss": 0.5}


@pytest.fixture
def in_pods(home):
    """Return a job of this store that runs in a cluster, and is followed."""
    running = [{**new_rank(rank), "state": "Running"} for rank in (0, 1)]
    directory = make_job("fit", "Running", spec=JobSpec(nodes=2), ranks=running, results=[])
    manifest = directory.read_manifest()
    plan = {**manifest["plan"], "namespace": "ns", "context": "ctx", "cluster": "c"}
    changed = {**manifest, "plan": plan, "backend": "kubernetes", "frame_key": "0" * 64}
    files.write_json(directory.manifest, changed)
    with held(directory):
        yield directory


def test_attach_takes_over_the_channel_where_that_is_wanted(in_pods, monkeypatch, capsys):
    watched(monkeypatch, lambda job, interrupts: None)
    run("attach fit")
    assert not in_pods.take_over.exists()
    assert run("attach fit --take-over") == "", "standard output is the job's own"
    assert in_pods.take_over.exists()
    assert capsys.readouterr().err == f"{say.TAKES_OVER(name='fit')}\n"
    said = run("attach fit --take-over", in_notebook=True, namespace={})
    assert said == f"{say.TAKES_OVER(name='fit')}\n"


def test_only_ones_own_jobs_in_a_cluster_are_taken_over_while_they_run(in_pods, monkeypatch):
    watched(monkeypatch, lambda job, interrupts: None)

    def refused(line: str) -> str:
        with pytest.raises(UsageError) as found:
            run(line)
        return found.value.id

    assert refused("attach --take-over") == "commands.attach-needs-name"
    make_job("over")
    assert refused("attach over --take-over") == "jobs.has-ended"
    with held(make_job("here", "Running")):
        assert refused("attach here --take-over") == "channel.one-owner"
    own = in_pods.read_manifest()
    files.write_json(in_pods.manifest, {**own, "origin": {"attached": 1.0}})
    assert refused("attach fit --take-over") == "channel.not-to-be-taken"
    Job(in_pods).trust()
    assert refused("attach fit --take-over") == "channel.not-to-be-taken"
    files.write_json(in_pods.manifest, {k: v for k, v in own.items() if k != "frame_key"})
    assert refused("attach fit --take-over") == "channel.not-to-be-taken"
    assert not in_pods.take_over.exists()


def test_where_says_why_ranks_could_not_be_asked(in_pods):
    lines = run("where fit").splitlines()
    assert lines[1].split()[:2] == ["0-1", "Running"]
    assert lines[2] == channel.UNASKED(ranks="the ranks", reason=channel.NO_FOLLOWER())


def test_attach_says_which_results_did_not_come(home, monkeypatch):
    watched(monkeypatch, lambda job, interrupts: None)
    monkeypatch.setattr(
        "jupyter_jax_trainer.jobdir.results.load_available",
        lambda job: ({"loss": 0.5}, {"acc": "never set"}),
    )
    make_job("a")
    namespace: dict[str, Any] = {}
    with pytest.raises(ResultError, match="never set"):
        run("attach a", namespace=namespace)
    assert namespace == {"loss": 0.5}


def test_a_giant_message_is_cut_wherever_it_is_shown(home):
    giant = "x" * 1_000_000
    error = {
        "type": "ValueError",
        "message": giant,
        "secondary": False,
        "traceback": f"Traceback (most recent call last):\n  Cell, line 2\nValueError: {giant}",
    }
    failure = {"kind": "error", "message": f"ValueError: {giant}", "rank": 1, "error": error}
    directory = make_job("a", "Failed", reason=f"rank 1: ValueError: {giant}", failure=failure)
    directory.events.write_text(
        json.dumps({"time": 1.0, "kind": "error", "rank": 1, "message": giant}) + "\n"
    )
    with pytest.raises(JobFailed) as caught:
        Job(directory).raise_for_state()
    told = str(caught.value)
    for text, most in ((run("show a"), 25_000), (told, 23_000)):
        assert len(text) < most
        assert f"characters; {say_of_jobs.REST_IN_LOG(rank=1)}" in text
        assert "Cell, line 2" in text
    assert len(told.splitlines()[0]) < 2_200
    assert caught.value.failure.message.endswith("xxx")


def test_an_interrupt_while_attached_leaves_the_job_alone(home, monkeypatch, capsys):
    def interrupted(job: Any, interrupts: Any) -> None:
        raise KeyboardInterrupt

    watched(monkeypatch, interrupted)
    make_job("a", "Running")
    assert cli.main(["attach", "a"]) == 0
    assert say.DETACHED(name="a") in capsys.readouterr().out


def test_runtimes_lists_this_machine(home):
    text = run("runtimes", width=200)
    assert "local-cpu" in text and f"{sys.version_info[0]}.{sys.version_info[1]}." in text


# ---------------------------------------------------------------------------- use


def test_use_keeps_defaults_until_reset():
    defaults: dict[str, Any] = {}
    assert "-n 4 --env A=1" in run("use --nodes 4 --env A=1", defaults=defaults)
    assert run("use -d cpu", defaults=defaults).split(": ")[1] == "-n 4 -d cpu --env A=1\n"
    assert defaults == {"nodes": 4, "device": "cpu", "env": (("A", "1"),)}
    with pytest.raises(UsageError):
        run("use --nodes 0", defaults=defaults)
    assert defaults["nodes"] == 4
    assert "-n 4 -d cpu" in run("use", defaults=defaults)
    assert run("use --reset", defaults=defaults) == f"{say.NO_DEFAULTS()}\n"
    assert defaults == {}


class Cells:
    session: str | None = None


def test_use_says_where_all_cells_run():
    defaults: dict[str, Any] = {}
    cells = Cells()

    def use(line: str) -> str:
        return run(f"use {line}", defaults=defaults, all_cells=cells)

    with pytest.raises(UsageError) as refused:
        use("-n 2 --all-cells")
    assert refused.value.id == "commands.all-cells-without-session" and defaults == {}
    assert say.ALL_CELLS_ON(session="lab") in use("-s lab --all-cells") and cells.session == "lab"
    assert say.ALL_CELLS_ON(session="lab") in use("") and cells.session == "lab"
    assert say.ALL_CELLS_ON(session="big") in use("-s big -n 4") and cells.session == "big"
    assert say.ALL_CELLS_OFF() in use("--no-all-cells") and cells.session is None
    assert defaults["session"] == "big" and say.ALL_CELLS_OFF() not in use("")
    use("--all-cells")
    assert say.ALL_CELLS_OFF() in use("--reset") and cells.session is None
    assert say.ALL_CELLS_ON(session="new") in use("--reset -s new --all-cells")


def test_use_takes_no_name_and_needs_a_notebook():
    with pytest.raises(UsageError, match="--name"):
        run("use --name x", defaults={})
    with pytest.raises(UsageError, match="'x'"):
        run("use x", defaults={})
    with pytest.raises(UsageError, match="notebook"):
        run("use --nodes 2")


# ---------------------------------------------------------------------------- doctor


def test_doctor_finds_all_well_and_says_what_is_not(home, monkeypatch):
    text = run("doctor")
    assert "jax" in text and "flock works" in text
    make_job("bad").manifest.write_text("{")
    dead = make_job("dead", "Running")
    text = run("doctor")
    assert "damaged: 1; abandoned" in text
    assert "jaxtrain delete dead" in text and "bad" in text
    lock = dead.take_lock()
    assert lock is not None
    assert "abandoned" not in run("doctor")
    os.close(lock)


def test_doctor_fails_where_jobs_cannot_be_kept(home, tmp_path, monkeypatch, capsys):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("JAXTRAIN_HOME", str(file / "below"))
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "FAIL" in out and "Set JAXTRAIN_HOME" in out


@pytest.mark.parametrize("place", ["/proc/foo", "file", "file/below"])
def test_a_store_that_cannot_be_used_is_one_sentence(tmp_path, monkeypatch, capsys, place):
    (tmp_path / "file").write_text("")
    script = tmp_path / "train.py"
    script.write_text("1\n")
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / place))
    for words in (["jobs"], ["show", "a"], ["run", str(script)], ["delete", "a"]):
        code = cli.main(words)
        error = capsys.readouterr().err
        if code == 2:  # nothing there: no such job
            assert say_of_jobs.NO_JOB(job="a") in error or say.NO_JOBS_YET() in error
        elif code:
            first, hint = error.splitlines()
            unusable = say_of_jobs.STORE_UNUSABLE(path=tmp_path / place, error="…").partition("…")[
                0
            ]
            assert first.startswith(f"jaxtrain: {unusable}")
            assert "JAXTRAIN_HOME" in hint
    assert cli.main(["run", str(script)]) == 1


def test_errors_of_other_files_are_not_taken_for_the_stores(home, tmp_path):
    with pytest.raises(FileNotFoundError), about_the_store():
        (tmp_path / "other").read_text()
    with pytest.raises(BackendError, match="job store"), about_the_store():
        (home / "jobs" / "x").read_text()


def test_doctor_never_imports_jax(home):
    code = (
        "import sys; from jupyter_jax_trainer.cli import main; main(['doctor']); "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


# ---------------------------------------------------------------------------- words


def test_an_unknown_command_or_option_names_the_nearest_one():
    with pytest.raises(UsageError) as caught:
        run("job")
    assert caught.value.id == "commands.unknown-command"
    assert caught.value.hint == say_of_options.DID_YOU_MEAN(name="jobs")
    with pytest.raises(UsageError, match=re.escape(say.UNKNOWN_COMMAND(name="lst").hint)):
        run("lst")
    with pytest.raises(UsageError, match="follow a `--`"):
        run("run train.py --lr 0.1")
    with pytest.raises(UsageError) as caught:
        run("logs --rnk 0")
    assert caught.value.message == say_of_options.UNKNOWN(option="--rnk")
    assert caught.value.hint == say_of_options.DID_YOU_MEAN(name="--rank")
    with pytest.raises(UsageError, match="%%jaxtrain --nodes 2"):
        run("--nodes 2")
    with pytest.raises(UsageError, match="cancel NAME") as caught:
        run("cancel")
    assert caught.value.id == "commands.too-few-words"
    with pytest.raises(UsageError, match="'b'") as caught:
        run("show a b")
    assert caught.value.id == "commands.too-many-words"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_text(command):
    text = run(f"{command} --help")
    assert text.startswith(f"jaxtrain {command}")
    assert COMMANDS[command].help.split()[0] in text


def test_the_help_begins_with_examples_and_names_everything():
    text = run("")
    assert text == run("--help")
    assert text.count("%%jaxtrain", 0, 600) >= 3
    for option in OPTIONS:
        assert f"--{option.name}" in text
    for command in COMMANDS:
        assert f"\n  {command}" in text
    assert all(len(line) <= 100 for line in text.splitlines())


# ---------------------------------------------------------------------------- the command line


def test_exit_codes(home, capsys):
    make_job("a")
    assert cli.main(["jobs"]) == 0
    assert cli.main(["jobs", "--staet"]) == 2
    assert cli.main(["show", "nothere"]) == 2
    assert cli.main(["run", "nothere.py"]) == 2
    assert cli.main(["--help"]) == 0
    assert cli.main(["--version"]) == 0
    streams = capsys.readouterr()
    assert f"jaxtrain {jupyter_jax_trainer.__version__}" in streams.out
    unknown = say_of_options.UNKNOWN(option="--staet")
    assert f"jaxtrain: {unknown}\n{say_of_options.DID_YOU_MEAN(name='--state')}" in streams.err
    assert "Traceback" not in streams.err


def test_run_refuses_before_anything_starts(home, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print('hello'\n")
    with pytest.raises(UsageError) as caught:
        run(f"run {script}")
    assert caught.value.id == "cell.syntax-error"
    with pytest.raises(UsageError, match="from 1 to 4096"):
        run(f"run {script} -n 0")
    with pytest.raises(UsageError) as caught:
        run(f"run {script} --image x")
    assert caught.value.id == "options.only-on-kubernetes"
    with pytest.raises(UsageError, match="No such file") as caught:
        run(f"run {tmp_path / 'nothere.py'}")
    assert caught.value.id == "commands.cannot-read"
    script.write_text("print('hello')\n")
    assert "2 nodes" in run(f"run {script} demo -n 2 --dry-run")
    assert layout.list_all() == []


def test_run_gives_the_rest_of_the_line_to_the_script(home, tmp_path, monkeypatch):
    from jupyter_jax_trainer import api

    (tmp_path / "beside.py").write_text("x = 1\n")
    script = tmp_path / "tr.py"
    script.write_text("import beside, sys\nprint(beside.x, sys.argv, __file__)\n")
    seen: dict[str, Any] = {}

    def submit(spec: JobSpec, backend: Any, plan: Any, capture: Any, **more: Any) -> Any:
        seen.update(more, spec=spec, capture=capture)
        return Job(make_job("tr"))

    monkeypatch.setattr(api, "submit", submit)
    before = list(sys.path)
    run(f"run {script} -n 2 demo --detach -- --lr 0.5 -n 7 --")
    assert seen["argv"] == [str(script), "--lr", "0.5", "-n", "7", "--"]
    assert seen["spec"].nodes == 2 and seen["spec"].name == "demo"
    assert seen["capture"].modules == {"beside.py": b"x = 1\n"}
    assert "__file__" in seen["capture"].names
    assert sys.path == before
    run(f"run {script} --detach")
    assert seen["argv"] == [str(script)]


def module(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jupyter_jax_trainer", *words]
    return subprocess.run(command, capture_output=True, text=True, **more)


def test_python_dash_m_is_the_command_line(home):
    make_job("a", logs={0: ["grün"]}, spec=JobSpec())
    assert module("logs", "a").stdout == "grün\n"
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    assert module("logs", "a", env=ascii_only).stdout == "gr?n\n"
    assert module("nothing").returncode == 2


def test_a_reader_that_leaves_early_is_no_error(home):
    make_job("a", logs={0: ["x" * 100] * 20_000}, spec=JobSpec())
    command = f"{sys.executable} -m jupyter_jax_trainer logs a | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout == "x" * 100 + "\n"
    assert done.stderr == ""


def test_an_interrupt_of_any_command_ends_it_quietly(home):
    directory = make_job("a", "Running", logs={0: ["one"]}, spec=JobSpec())
    lock = directory.take_lock()
    assert lock is not None
    # A signal that comes while coverage holds its lock would make it wait for itself for ever.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")}
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_jax_trainer", "logs", "a", "--follow"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What runs in the background of a script has it ignored, and its children with it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "one\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    os.close(lock)
    assert process.returncode == 130
    assert errors == ""


# ---------------------------------------------------------------------------- completion


def at_end(line: str, **more: Any) -> list[str]:
    return complete(line, len(line), **more)


def test_completion_of_the_cell_magic():
    assert at_end("%%jaxtrain --dev") == ["--device", "--devices-per-node"]
    assert at_end("%%jaxtrain -n 2 --device ") == list(DEVICES)
    assert at_end("%%jaxtrain --device=g") == ["gpu"]
    assert at_end("%%jaxtrain -d c") == ["cpu"]
    assert at_end("%%jaxtrain --backend k") == ["kubernetes"]
    assert "local-cpu" in at_end("%%jaxtrain --runtime ")
    assert "--nodes" in at_end("%%jaxtrain ")
    assert at_end("%%jaxtrain --nodes ") == []


def test_completion_of_variables_name_by_name():
    namespace = {"params": 1, "parts": 2, "_hidden": 3, "loss": 4}
    assert at_end("%%jaxtrain --out par", variables=namespace) == ["params", "parts"]
    assert at_end("%%jaxtrain --out loss,par", variables=namespace) == ["params", "parts"]
    assert at_end("%%jaxtrain --use=", variables=namespace) == ["loss", "params", "parts"]
    assert at_end("%%jaxtrain --out ") == []
    assert fragment("%%jaxtrain --out loss,par", 25) == "par"


def test_completion_of_the_line_magic(home):
    assert at_end("%jaxtrain ca") == ["cancel"]
    assert "run" in at_end("%jaxtrain ")
    make_job("digits")
    assert at_end("%jaxtrain logs ") == ["digits"]
    assert at_end("%jaxtrain delete digits d") == ["digits"]
    assert at_end("%jaxtrain logs --fo") == ["--follow"]
    assert "Running" in at_end("%jaxtrain jobs --state ")
    assert at_end("%jaxtrain use --dev") == ["--device", "--devices-per-node"]
    assert at_end("%jaxtrain nothing ") == []


@pytest.mark.parametrize("line", ["", "x = 1", "%%jaxtrain", "jaxtrainer ", "%timeit jaxtrain "])
def test_completion_keeps_out_of_other_lines(line):
    assert at_end(line) == []


def test_completion_minds_the_cursor():
    assert complete("%%jaxtrain --dev --detach", 16) == ["--device", "--devices-per-node"]
    for cursor in range(30):
        complete("%jaxtrain logs --rank= 'x", cursor)


def test_paths_in_messages_are_those_of_the_user(home):
    assert str(Path(home)) in run("doctor")


@pytest.mark.parametrize("name", ["state.json.123.part", "result.jtz.part", ".reserve"])
def test_what_the_dead_left_half_written_goes_with_the_end_of_their_job(home, name):
    make_job("a", "Running")
    directory = layout.find("a")
    (directory.path / name).write_bytes(b"half")
    assert layout.end_abandoned(directory)["state"] == "Failed"
    assert not (directory.path / name).exists()


def test_a_check_that_fails_without_advice_is_not_well():
    from jupyter_jax_trainer.doctor.finding import FAIL, OK, Finding
    from jupyter_jax_trainer.doctor.report import report

    text = report([Finding(OK, "jax", "0.10"), Finding(FAIL, "Cluster", "answers nonsense")], 100)
    assert say.NO_PROBLEMS() not in text and say.CHECKS_FAILED(failed=1, count=2) in text
    assert say.NO_PROBLEMS() in report([Finding(OK, "jax", "0.10")], 100)


def test_what_a_check_found_is_told_whole():
    from jupyter_jax_trainer.backends.kubernetes.doctor import namespace
    from jupyter_jax_trainer.doctor.finding import OK, Finding
    from jupyter_jax_trainer.doctor.report import report

    unseen = "namespaces, resourcequotas, limitranges and networkpolicies"
    told = namespace.NOTHING_SEEN_IN_THE_WAY(what=unseen)
    text = report([Finding(OK, "Namespace settings", told), Finding(OK, "jax", "0.10")], 60)
    lines = text.splitlines()
    assert " ".join(text.partition("\nOK  jax")[0].split()).endswith(told) and "…" not in text
    assert all(len(line) <= 60 for line in lines)
    assert lines[1].startswith(" " * len("OK  Namespace settings  ")), "below the first"


# ---------------------------------------------------------------------------- in the cluster


@pytest.fixture
def scene(home, tmp_path, monkeypatch):
    found = Scene()
    monkeypatch.setenv("KUBECONFIG", str(found.kubeconfig(tmp_path / "config")))
    yield found
    connection._clients.clear()
    found.close()


def has_trainjob(scene: Scene, name: str, **annotations: str) -> None:
    found = {
        "metadata": {
            "name": name,
            "uid": f"k8s-{name}",
            "creationTimestamp": "2026-11-24T10:00:00Z",
            "annotations": annotations,
        },
        "spec": {"suspend": True, "trainer": {"numNodes": 3}},
    }
    path = f"{TRAINER}/namespaces/default/trainjobs"
    scene.answers[f"{path}/{name}"] = found
    scene.answers[path] = {"metadata": {"resourceVersion": "1"}, "items": [found]}


def test_show_takes_a_trainjob_of_the_cluster(scene):
    has_trainjob(scene, "theirs")
    shown = run("show theirs --backend kubernetes")
    assert re.search(r"State +Suspended", shown) and re.search(r"Nodes +3", shown)
    assert "other tools" in shown and "attach" not in shown
    has_trainjob(scene, "ours", **{trainjob.UID: "a" * 32})
    assert "`jaxtrain attach ours`" in run("show ours --namespace default")
    scene.answers[f"{TRAINER}/namespaces/default/trainjobs/gone"] = 404
    with pytest.raises(JobNotFound) as gone:
        run("show gone --backend kubernetes")
    said = say_of_cluster.NO_TRAINJOB(name="gone", namespace="default")
    assert gone.value.message == said
    with pytest.raises(UsageError) as caught:
        run("show --backend kubernetes")
    assert caught.value.id == "commands.show-which"


def test_show_takes_the_job_that_this_machine_has_of_a_trainjob(scene):
    client = connection.get_client(None, None)
    plan = {"namespace": "default", "server": client.server, "cluster": client.identity}
    directory = make_job("fit")
    manifest = {**directory.read_manifest(), "backend": "kubernetes", "plan": plan}
    files.write_json(directory.manifest, {**manifest, "trainjob": "run-7"})
    has_trainjob(scene, "run-7", **{trainjob.UID: uid_of("fit")})
    identity.note(directory, "k8s-run-7")
    shown = run("show run-7 --backend kubernetes")
    assert re.search(r"Job +fit", shown) and str(directory.path) in shown
