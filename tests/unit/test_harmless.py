"""Nothing that a job or a cluster says reaches a terminal as a command to it."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from made_jobs import make_job

from jupyter_jax_trainer import cli
from jupyter_jax_trainer.capture import Capture
from jupyter_jax_trainer.capture.capture import Sent
from jupyter_jax_trainer.commands import Context, actions, listing, run_command
from jupyter_jax_trainer.doctor.finding import WARN, Finding
from jupyter_jax_trainer.doctor.report import report
from jupyter_jax_trainer.errors import JaxTrainError, UsageError
from jupyter_jax_trainer.jobdir import describe, files
from jupyter_jax_trainer.jobdir.failure import Failure, failed
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.runtime import Runtime
from jupyter_jax_trainer.states import Unstarted
from jupyter_jax_trainer.views import card
from jupyter_jax_trainer.views import follow as display
from jupyter_jax_trainer.views.terminal import TerminalView

OSC = "\x1b]52;c;cm0gLXJmIH4=\x07"  # puts something into the clipboard
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
STATUS_LINE = "\r\x1b[K"  # our own
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

signs = st.sampled_from(
    [
        "\x1b",
        "]52;c;eA==\x07",
        "\x9b",
        "\x9d",
        "\x90",
        "\x1b[2J",
        "\x1b[31m",
        "\x1b[",
        "\n",
        "\r",
        "\x08",
        "\u202e",
        "\u2028",
        "a",
        "\x00",
        "\x1b\\\\",
        "P",
        "é",
    ]
)
said = st.lists(signs, min_size=1, max_size=8).map("".join)


def harmless(text: str) -> bool:
    return not HARMFUL.search(COLOUR.sub("", text.replace(STATUS_LINE, "")))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def heard(terminal: bool = False) -> Any:
    """Hear all that is printed, to either stream."""
    out = Terminal() if terminal else io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        yield out


def snapshot(evil: str, state: str = "Running", **more: Any) -> dict[str, Any]:
    return {
        "state": state,
        "reason": evil,
        "hint": evil,
        "ranks": [],
        "failure": None,
        "history": [{"state": state, "time": 1.0}],
        "progress": {"step": 1, "total": 2, "fraction": 0.5, "metrics": {evil: 0.5}, "time": 1.0},
        "results": [{"name": evil, "type": evil, "size": 1}, {"name": evil, "error": evil}],
        **more,
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXTRAIN_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@settings(max_examples=60)
@given(said, st.booleans())
@example(OSC, False)
@example("a" + OSC, True)
def test_the_view_of_a_job_in_a_terminal(evil, terminal):
    with heard(terminal) as out:
        view = TerminalView()
        facts = card.Facts(
            name="a",
            created=0.0,
            shape=evil,
            notes=(evil,),
            sent=describe.things_text([{"name": evil, "kind": evil, "type": evil, "size": 1}]),
        )
        view.begin(facts, snapshot(evil))
        view.begin(facts, snapshot(evil, Unstarted.SENDING))
        view.status(snapshot(evil), evil)
        view.log([evil.encode(errors="replace")], b"")
        view.show({"text/plain": evil}, {}, None, False)
        view.close(snapshot(evil, "Succeeded"), evil)
    assert harmless(out.getvalue())
    assert harmless(card.text(facts, snapshot(evil), evil))
    # A name is one word of one line: it makes no lines of its own.
    assert "\n" not in describe.results_text([{"name": evil, "type": evil, "size": 1}])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said)
@example(OSC)
def test_the_commands(store, evil):
    failure = Failure(
        kind="error",
        message=evil,
        rank=0,
        hint=evil,
        error={"type": evil, "message": evil, "traceback": evil},
    )
    info = snapshot(
        evil,
        "Failed",
        failure=failure.to_json(),
        ranks=[{"rank": 0, "state": "Failed", "exit": 1, "host": evil, "pid": 1}],
    )
    info["history"] = [{"state": "Failed", "time": 2.0}]
    directory = make_job(
        "one",
        spec=JobSpec(dataset=evil, env=(("A", evil),)),
        logs={0: [evil]},
        **{name: value for name, value in info.items() if name != "state"},
    )
    make_job("two")
    manifest = directory.read_manifest()
    manifest["sent"] = [{"name": evil, "type": evil, "kind": evil, "size": 1}]
    manifest["plan"] |= {"note": evil, "runtime": evil}
    files.write_json(directory.manifest, manifest)
    directory.events.unlink(missing_ok=True)
    event = {"time": 1.0, "kind": "x", "message": evil}
    files.LineWriter(directory.events).write(event)
    directory.metrics.unlink(missing_ok=True)
    files.LineWriter(directory.metrics).write(
        {"time": 1.0, "rank": 0, "step": 1, "total": None, "values": {evil: 1.0}}
    )
    with heard() as out:
        for line in (
            "jobs",
            "show one",
            "logs one",
            "logs one --raw",
            "compare one two",
            "jobs --all",
        ):
            run_command(line.split(), Context())
        actions._take_results(Job(directory), Context())
        Context().print(
            listing.runtimes_table(
                [
                    Runtime(
                        name=evil,
                        backend="kubernetes",
                        device="cpu",
                        devices=1,
                        nodes=(1, 1),
                        python=evil,
                        jax=evil,
                        description=evil,
                        problem=evil,
                    )
                ],
                100,
            )
        )
        Context().print(report([Finding(WARN, evil, evil, evil)], 100))
        for error in (failed(evil, failure), UsageError(evil, evil), JaxTrainError(evil)):
            print("\n".join(error._render_traceback_()))
            cli._fail(error, 1)
    assert harmless(out.getvalue())


@settings(max_examples=40)
@given(said)
@example(OSC)
def test_what_is_said_before_a_job_starts(evil):
    capture = Capture(
        "x", sent=[Sent(evil, "value", evil, 10**8)], stream=bytes(10**7), notes=[evil]
    )
    plan = {"devices_per_node": 1, "device": "cpu", "runtime": evil, "note": evil}
    with heard() as out:
        display.announce(TerminalView(), JobSpec(), plan, capture)
        display.announce(TerminalView(), JobSpec(detach=True), plan, capture)
    assert harmless(out.getvalue())
