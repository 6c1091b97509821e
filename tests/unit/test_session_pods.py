"""A session in its pods: real ranks and their process 1, told through the channel on loopback."""

from __future__ import annotations

import io
import itertools
import os
import signal
import socket
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import podruns
import pytest
from harness import alive, eventually
from podruns import PodRun, start
from relays import Loopback

from jupyter_jax_trainer.backends.kubernetes.follow.asker import reason_of
from jupyter_jax_trainer.backends.kubernetes.follow.errands import Tell
from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Target, Unready
from jupyter_jax_trainer.backends.kubernetes.follow.sending import Sending
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.bundle import Part, write_bundle
from jupyter_jax_trainer.capture import Capture, capture_cell
from jupyter_jax_trainer.capture.files import Files
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.worker.pod.wire import Owner
from jupyter_jax_trainer.worker.processes import descendants

pytestmark = pytest.mark.slow  # together


def file(folder: Path, text: str) -> Files:
    """Give a file with a text, to be sent along."""
    path = folder / text
    path.write_text(text)
    return Files({"data/given.txt": path}, len(text))


class Pods:
    """The pods of a session, and a way to them."""

    def __init__(self, folder: Path, nodes: int, idle: str, **more: str) -> None:
        path = folder / "session.pyz"
        first = Capture("", files=file(folder, "first"))
        digest = write_bundle(path, "lab", first, part=Part.SESSION)
        scratch = tempfile.mkdtemp(dir=folder)  # of these pods, not of those before
        more |= {"JAXTRAIN_CHANNEL_PORT": "0", "JAXTRAIN_IDLE": idle, "JAXTRAIN_SCRATCH": scratch}
        self.folder = folder
        self.runs = [
            start(folder, path, digest, rank=rank, nodes=nodes, **more) for rank in range(nodes)
        ]
        self.line = Line(Loopback(), Owner("ab" * 16, 1))
        self._numbers = itertools.count(1)
        self.wait("running")

    def wait(self, kind: str, times: int = 1) -> list[dict[str, Any]]:
        """Wait until each rank has said something so often, and give its last words of that."""
        for run in self.runs:
            run.read(lambda run: run.kinds().count(kind) >= times)
        return [run.get(kind) for run in self.runs]

    @property
    def target(self) -> Target:
        ports = [run.get("hello")["channel"] for run in self.runs]
        others = {rank: ("127.0.0.1", port) for rank, port in enumerate(ports) if rank}
        return Target(pod="pod-0", port=ports[0], key=podruns.KEY, addresses=others)

    @property
    def processes(self) -> dict[int, str]:
        return {rank: run.get("hello")["frame"][0] for rank, run in enumerate(self.runs)}

    def cell(
        self,
        source: str,
        names: Mapping[str, Any] | None = None,
        files: Files | None = None,
        wheels: Mapping[str, bytes] | None = None,
    ) -> Tell:
        """Have a cell run; give the errand, with which it can be told once more."""
        number = next(self._numbers)
        path = self.folder / f"{number}.pyz"
        capture = capture_cell(source, {"__name__": "__main__", **(names or {})})
        capture.files = files or capture.files
        name = f"lab-cell-{number}"
        digest = write_bundle(path, name, capture, part=Part.CELL, wheels=wheels)
        told = {"kind": "cell", "cell": number, "order": 8 * number, "digest": digest}
        self.errand = Tell({**told, "name": name}, self.processes, path)
        self.errand.run(self.line, self.target)
        return self.errand

    def tell(self, **told: Any) -> None:
        self.line.tell(self.target, self.processes, told, b"")

    def rank(self, number: int) -> int:
        """Return the process of a rank itself."""
        pid = self.runs[number].process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0])


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Any]:
    made: list[Pods] = []

    def begin(nodes: int = 1, idle: str = "600", **more: str) -> Pods:
        made.append(Pods(tmp_path, nodes, idle, **more))
        return made[-1]

    yield begin
    for one in made:
        one.line.close()
        podruns.kill(*one.runs)


def printed(run: PodRun, number: int) -> list[str]:
    """Return what a rank printed between its two messages about a cell."""
    began, ended = (
        next(m for m in run.messages if m["kind"] == kind and m["cell"] == number)
        for kind in ("began", "ended")
    )
    return run.text.encode()[began["at_byte"] : ended["at_byte"]].decode().splitlines()


def test_cells_small_and_large_run_once_on_all_ranks_with_what_was_there(pods):
    session = pods(nodes=2)
    first = session.cell("kept = 20\nprint('one', end='')")
    session.wait("ended")
    first.run(session.line, session.target)  # as the next follower does
    session.cell("print('two', globals()['kept'], len(large))", {"large": os.urandom(3 << 20)})
    ends = session.wait("ended", 2)
    assert [end["error"] for end in ends] == [None, None]
    for run in session.runs:
        assert printed(run, 1) == ["one"] and printed(run, 2) == [f"two 20 {3 << 20}"]
        assert run.kinds().count("began") == 2
    assert ends[0]["variables"]["kept"]["cell"] == 1 and ends[1]["variables"] == {}
    told = messages.read(ends[0])
    assert isinstance(told, messages.Ended)
    kept, large = told.variables["kept"], told.variables["large"]
    assert (kept["own"], large["own"], large["brought"]) == (True, False, 2)
    assert "brought" not in kept and told.parted == [[], []]
    assert messages.read({**ends[0], "parted": [["a"], 5]}).parted == []


# Notes what each process imports and unpickles, those that it forks, too.
HOOK = """
import os, sys
notes = os.open({notes!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(event, given):
    if event in ("import", "pickle.find_class"):
        name = given[0] if event == "import" else "unpickles " + ".".join(given)
        os.write(notes, f"{{os.getpid()}} {{name}}\\n".encode())
sys.addaudithook(note)
"""


def test_process_1_imports_neither_jax_nor_code_of_the_user_and_unpickles_nothing(pods, tmp_path):
    """It passes on what is in a cell, small or large, and never looks into it."""
    notes = tmp_path / "notes"
    (tmp_path / "sitecustomize.py").write_text(HOOK.format(notes=str(notes)))
    session = pods(nodes=2, PYTHONPATH=str(tmp_path))
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("own.py", "here = 7")
    wheels = {"own-1-py3-none-any.whl": wheel.getvalue()}
    for number, size in enumerate((0, 3 << 20), 1):
        given = {"some": np.arange(3), "odd": Fraction(1, 3), "large": os.urandom(size)}
        session.cell("import own\nprint(own.here, some, odd, len(large))", given, wheels=wheels)
        assert session.wait("ended", number)[0]["error"] is None
    session.line.where(session.target)
    session.line.restart(session.target, "again")
    session.wait("running", 2)
    found: dict[int, set[str]] = {}
    for line in notes.read_text().splitlines():
        pid, _, name = line.partition(" ")
        found.setdefault(int(pid), set()).add(name)
    for run in session.runs:
        seen = found.pop(run.process.pid)
        assert "jupyter_jax_trainer.worker.pod.parent" in seen
        roots = {name.partition(".")[0] for name in seen}
        assert roots.isdisjoint({"jax", "jaxlib", "numpy", "own"})
        assert not [name for name in seen if name.startswith("unpickles")]
    others = set().union(*found.values())
    assert {"jax", "numpy", "own", "unpickles fractions.Fraction"} <= others, "all are noted"


def test_what_was_meant_for_a_process_before_is_left_out_by_the_next(pods):
    session = pods()
    session.cell("print('one')")
    session.wait("ended")
    before = session.processes
    session.line.restart(session.target, "again")
    session.wait("running", 2)
    assert session.processes != before
    told = {"kind": "check", "cell": 1, "order": 12}
    session.line.tell(session.target, before, told, b"")
    session.cell("print('two')")
    session.wait("ended", 2)
    assert not session.runs[0].has("checked")


def test_a_rank_that_dies_leaves_its_pod_to_the_next_and_files_of_the_start_come_back(
    pods, tmp_path
):
    session = pods()
    session.cell("import os\nprint('last', flush=True)\nos.kill(os.getpid(), 9)")
    (gone,) = session.wait("gone")
    assert gone["exit"] == -signal.SIGKILL and alive(session.runs[0].process.pid)
    session.line.restart(session.target, "again")
    session.wait("running", 2)
    session.cell("print(open('data/given.txt').read())", files=file(tmp_path, "second"))
    session.wait("ended")
    session.cell("print(open('data/given.txt').read())")
    session.wait("ended", 2)
    assert [printed(session.runs[0], number) for number in (2, 3)] == [["second"]] * 2
    session.line.restart(session.target, "once more")
    session.wait("running", 3)
    session.cell("print(open('data/given.txt').read())")
    session.wait("ended", 3)
    assert printed(session.runs[0], 4) == ["first"]
    session.runs[0].process.terminate()
    assert session.runs[0].end() == 128 + signal.SIGTERM


def test_what_a_rank_has_compiled_is_there_for_the_next_one_in_its_pod(pods):
    session = pods()
    cell = "import jax\nprint(jax.jit(lambda x: x + 1)(1))"
    found = []
    for times in (1, 2):
        session.wait("running", times)
        session.cell(cell)
        session.wait("ended", times)
        found.append(session.runs[0].get("compiled"))
        session.line.restart(session.target, "again")
    assert found[0]["hits"] == 0 < found[0]["misses"] == found[1]["hits"]
    assert found[1]["misses"] == 0


def test_a_later_cell_brings_packages(pods):
    session = pods()
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("late.py", "here = 7")
    session.cell(
        "import late\nprint(late.here)", wheels={"late-1-py3-none-any.whl": wheel.getvalue()}
    )
    session.wait("ended")
    session.cell("import late\nprint(late.here)")
    session.wait("ended", 2)
    assert [printed(session.runs[0], number) for number in (1, 2)] == [["7"]] * 2


def test_a_cell_that_closes_or_replaces_its_output_does_so_for_no_other(pods):
    session = pods()
    sources = (
        "print('one')\nsys.stdout.close()\nprint('closed', file=sys.stderr)",
        "print('two')\nsys.stdout = None",
        "sys.stderr.close()\nsys.stderr = None\nsys.stdout = object()",
        "kept = sys.stdout\nprint('three', file=kept)",
        "print('four')\nsys.stderr = None\nsys.stdout.close()\nprint(1)",
        "print('five', file=sys.stderr)\nprint('six')",
    )
    for number, source in enumerate(sources, 1):
        session.cell(f"import sys\n{source}")
        (ended,) = session.wait("ended", number)
        assert (ended["error"] or {"type": None})["type"] == ("ValueError" if number == 5 else None)
    (run,) = session.runs
    shown = [printed(run, number) for number in range(1, 7)]
    assert shown == [["one", "closed"], ["two"], [], ["three"], ["four"], ["five", "six"]]
    end_all(session)
    assert run.get("lines")["count"] == len(run.text.splitlines())


def test_an_interrupt_is_for_the_cell_that_it_names(pods):
    session = pods()
    session.cell("import time\nprint('waits', flush=True)\ntime.sleep(600)")
    session.runs[0].read(lambda run: "waits" in run.text)
    session.tell(kind="interrupt", cell=1, order=11)
    (ended,) = session.wait("ended")
    assert ended["error"]["type"] == "KeyboardInterrupt"
    session.cell("import time\ntime.sleep(0.2)\nprint('whole')")
    session.tell(kind="interrupt", cell=1, order=19)
    (ended,) = session.wait("ended", 2)
    assert ended["error"] is None


def test_a_rank_that_takes_nothing_for_a_while_hears_all_that_it_was_told(pods):
    """It is stopped, and more comes than the system keeps for it."""
    session = pods()
    stopped = session.rank(0)
    os.kill(stopped, signal.SIGSTOP)
    for _ in range(600):
        session.tell(kind="hold", cell=0)
    session.cell("import time\nprint('waits', flush=True)\ntime.sleep(600)")
    session.tell(kind="interrupt", cell=1, order=11)
    os.kill(stopped, signal.SIGCONT)
    (ended,) = session.wait("ended")
    assert ended["error"]["type"] == "KeyboardInterrupt"


def test_what_a_rank_can_not_be_told_between_two_processes_is_said(pods):
    session = pods()
    line = session.line
    line._ask(session.target, {"ask": "stop", "id": "one"})
    with pytest.raises(Unready, match="0"):
        session.tell(kind="check", cell=1, order=12)
    line._ask(session.target, {"ask": "start", "id": "one"})
    session.wait("running", 2)
    session.tell(kind="check", cell=1, order=12)
    session.wait("checked")


def test_a_pod_that_rank_0_can_not_reach_is_said_and_a_large_cell_begins_nowhere_before(
    pods, monkeypatch
):
    session = pods(nodes=2)
    told: list[bool] = []
    tell = Line.tell
    monkeypatch.setattr(Line, "tell", lambda *args: told.append(True) or tell(*args))
    with socket.socket() as nobody, monkeypatch.context() as patch:
        nobody.bind(("127.0.0.1", 0))
        patch.setattr(Pods, "target", replace(session.target, addresses={1: nobody.getsockname()}))
        with pytest.raises(Unready) as caught:
            session.cell("print(len(large))", {"large": os.urandom(3 << 20)})
        assert not told and say.NOT_REACHED(ranks="rank 1") in reason_of(caught.value)
        with pytest.raises(Unready, match="`jaxtrain doctor`"):
            session.tell(kind="hold", cell=0)
    session.errand.run(session.line, session.target)
    session.wait("ended")
    assert [printed(run, 1) for run in session.runs] == [[str(3 << 20)]] * 2


def test_a_large_cell_that_is_dropped_while_it_is_sent_begins_nowhere(pods, tmp_path):
    session = pods(nodes=2)
    slow = session.runs[1].process.pid
    os.kill(slow, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(session.cell, "print(len(large))", {"large": os.urandom(20 << 20)})
        eventually(lambda: [*tmp_path.rglob("cell-*.pyz")], 10)  # one pod has all of it
        session.errand.dropped = True
        os.kill(slow, signal.SIGCONT)
        sent.result()
    session.cell("print(len(large))", {"large": os.urandom(20 << 20)})
    session.wait("ended")
    assert [printed(run, 2) for run in session.runs] == [[str(20 << 20)]] * 2
    assert [run.kinds().count("began") for run in session.runs] == [1, 1]


def test_it_is_not_idle_while_a_cell_is_being_sent(pods, monkeypatch):
    session = pods(nodes=2, idle="6")
    monkeypatch.setattr(Sending, "_digest", lambda *_: time.sleep(0.4) or b"")  # of each piece
    began = time.monotonic()
    session.cell("print(len(large))", {"large": os.urandom(20 << 20)})
    assert time.monotonic() - began > 6, "it took longer than the session may be idle"
    assert [end["error"] for end in session.wait("ended")] == [None, None]


def test_it_ends_when_it_is_idle_without_anybody_and_not_while_a_cell_runs(pods):
    session = pods(nodes=2, idle="2")
    session.cell("import jax, time\ntime.sleep(2.5 * jax.process_index())\nprint('whole')")
    for run in session.runs:
        assert run.end() == 0
        assert run.get("ended")["error"] is None and run.has("finished")
    assert session.runs[0].get("idle")["seconds"] == 2.0


@pytest.mark.parametrize("slow", [0, 1])
def test_a_rank_that_has_ended_its_part_waits_for_the_others_for_as_long_as_they_need(pods, slow):
    session = pods(nodes=2, idle="2", JAXTRAIN_UNREACHED_TIMEOUT="1")
    session.cell(
        f"import jax, time\nif jax.process_index() == {slow}: time.sleep(4.5)\n"
        "print(time.monotonic())"
    )
    session.runs[slow].read(lambda run: run.has("ended"))
    last = float(printed(session.runs[slow], 1)[0])
    for run in (session.runs[1 - slow], session.runs[slow]):
        run.read(lambda run: run.has("finished"))
        assert time.monotonic() - last > 2, "it counts from the end of the last rank"
        assert run.end() == 0 and run.get("ended")["error"] is None


def test_ranks_that_meet_in_vain_say_so(pods):
    session = pods(nodes=2)
    session.cell(
        "import jax, numpy as np, threading, time\n"
        "from jax.sharding import Mesh, PartitionSpec as P\n"
        "total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'i'),"
        " mesh=Mesh(jax.devices(), 'i'), in_specs=P(), out_specs=P()))\n"
        "if jax.process_index():\n"
        "    threading.Thread(target=total, args=(np.ones(3),), daemon=True).start()\n"
        "    time.sleep(0.5)"
    )
    session.wait("ended")
    session.tell(kind="check", cell=1, order=12)

    def meets():
        found = [one["where"] for one in session.line.where(session.target)]
        return len(found) == 2 and all(one and one["meets"] for one in found)

    eventually(meets)


def test_pods_hear_for_how_long_the_session_may_be_idle(pods):
    session = pods(nodes=2, idle="2", JAXTRAIN_UNREACHED_TIMEOUT="1")
    session.cell("pass")
    session.wait("ended")
    for _ in range(2):  # the next follower says it again
        told = time.monotonic()
        session.tell(kind="prolong", seconds=4)
    for run in reversed(session.runs):
        run.read(lambda run: run.has("finished"))
        assert time.monotonic() - told > 4
        assert run.end() == 0


def test_a_pod_that_does_not_answer_may_be_at_work_and_is_asked_again(pods):
    short = {"JAXTRAIN_PROOF_TIMEOUT": "0.3", "JAXTRAIN_UNREACHED_TIMEOUT": "30"}
    session = pods(nodes=2, idle="1", **short)
    session.cell("import jax, time\nif jax.process_index(): time.sleep(5)")
    session.runs[0].read(lambda run: run.has("ended"))
    pod = session.runs[1].process
    pod.send_signal(signal.SIGSTOP)
    time.sleep(3)
    pod.send_signal(signal.SIGCONT)
    session.wait("ended")
    session.cell("print('next')")
    session.wait("ended", 2)
    assert [printed(run, 2) for run in session.runs] == [["next"]] * 2
    assert [run.end() for run in session.runs] == [0, 0]


def test_it_ends_though_a_pod_hangs(pods):
    short = {"JAXTRAIN_PROOF_TIMEOUT": "0.3", "JAXTRAIN_UNREACHED_TIMEOUT": "2"}
    session = pods(nodes=2, idle="2", **short)
    session.cell("pass")
    session.wait("ended")
    session.runs[1].process.send_signal(signal.SIGSTOP)
    assert session.runs[0].end() == 0
    session.runs[1].process.send_signal(signal.SIGCONT)
    assert session.runs[1].end() == 0


def test_pods_without_ranks_or_without_the_first_pod_end_too(pods):
    session = pods(nodes=2, idle="2", JAXTRAIN_UNREACHED_TIMEOUT="2")
    session.cell("pass")
    session.wait("ended")
    podruns.kill(session.runs[0])
    assert session.runs[1].end() == 0
    alone = pods(idle="2")
    alone.cell("import os\nos.kill(os.getpid(), 9)")
    alone.wait("gone")
    assert alone.runs[0].end() == 0 and alone.runs[0].has("idle")


def test_a_session_that_ends_takes_no_more(pods):
    session = pods(idle="0.5")
    target, processes = session.target, session.processes
    eventually(lambda: session.runs[0].read(lambda run: run.has("idle")))
    with pytest.raises(OSError):
        session.line.tell(target, processes, {"kind": "check", "cell": 9, "order": 76}, b"")
    assert session.runs[0].end() == 0
    assert not descendants(session.runs[0].process.pid)


def end_all(session: Pods) -> None:
    """Tell one pod to end: all ranks hear of it; and then the other."""
    for run in reversed(session.runs):
        run.process.terminate()
        assert run.end() == 128 + signal.SIGTERM


def test_pods_that_are_told_to_end_save_and_the_next_ones_begin_with_that(pods, tmp_path):
    kept = {"JAXTRAIN_CHECKPOINT_DIR": str(tmp_path / "volume")}
    session = pods(nodes=2, **kept)
    session.cell(
        "import time, jax, jax.numpy as jnp\nfrom jupyter_jax_trainer import report\n"
        "from jax.experimental import multihost_utils as m\n"
        "own, text, done = jnp.full(2, jax.process_index()), 'lost', jnp.zeros((), int)\n"
        "while True:\n    time.sleep(0.02 * jax.process_index())\n"
        "    m.process_allgather(jnp.ones(1))\n    done = done + 1\n    report(int(done))"
    )
    session.wait("reports")
    end_all(session)
    saved = session.runs[0].get("saved")["saved"]
    assert saved["names"] == ["done", "own"] and "text" in saved["left_out"]
    done = {run.get("reports")["reports"][-1]["step"] for run in session.runs}
    assert len(done) == 1 and not session.runs[0].has("ended")
    stranger = tmp_path / "volume" / "session" / ("9" * 20)
    stranger.mkdir()
    (stranger / "saved.json").write_text('{"saved": "{}", "mac": "0"}')

    after = pods(nodes=2, **kept)
    told = after.wait("restored")
    assert told[0]["saved"] == saved and sorted(told[1]["bound"]) == ["done", "own"]
    after.cell("print(*(str(globals().get(one)) for one in ('done', 'own', 'text')))")
    after.wait("ended")
    shown = [printed(run, 1) for run in after.runs]
    assert shown == [[f"{max(done)} [{rank} {rank}] None"] for rank in (0, 1)]
    after.line.restart(after.target, "again")
    after.wait("running", 2)
    assert [run.kinds().count("restored") for run in after.runs] == [1, 1]
    after.cell("import numpy as np\nhost = np.ones(2)")
    after.wait("ended", 2)
    after.tell(kind="check", cell=2, order=20)
    after.wait("checked")
    end_all(after)
    assert after.runs[0].get("saved")["saved"]["names"] == ["host"]
