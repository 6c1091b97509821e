"""Sessions on this machine: cells that run on ranks which stay. Real processes, real cells."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from harness import (
    at_line,
    eventually,
    ranks_of,
    run_in_kernel,
    submit,
    text,
    wait_for,
    wait_for_text,
)
from pace import slowness, within

from jupyter_jax_trainer import api, bundle, commands, magic, timeouts
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.commands.completion import complete
from jupyter_jax_trainer.errors import JobFailed, ResultError, UsageError
from jupyter_jax_trainer.jobdir import session as records
from jupyter_jax_trainer.jobdir.describe import used_text
from jupyter_jax_trainer.jobdir.failure import CANCELLED
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import cell as in_cell
from jupyter_jax_trainer.messages import commands as say_of_commands
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import session as say
from jupyter_jax_trainer.messages import views as say_of_views
from jupyter_jax_trainer.messages import worker as say_of_worker
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.sessions import session
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.views import card, grouped
from jupyter_jax_trainer.views.card import Facts

pytestmark = [pytest.mark.usefixtures("store"), pytest.mark.slow]  # together


class Notebook:
    """A kernel as far as sessions look at it: variables, and the cells that have run."""

    def __init__(self):
        self.user_ns = {"__name__": "__main__", "In": [""]}

    def transform_cell(self, source):
        return source

    def kernel(self, source):
        """Run a cell in the kernel."""
        run_in_kernel(source, self.user_ns)

    def cell(self, source, line="-s lab -n 2"):
        """Run a cell of the session as the magic does, and give its job."""
        self.user_ns["In"].append(f"get_ipython().run_cell_magic('jaxtrain', {line!r}, {source!r})")
        magic.run_cell(line, source, self)
        return newest()

    def fails(self, source, line="-s lab -n 2"):
        with pytest.raises(JobFailed):
            self.cell(source, line)
        return newest()

    def __getitem__(self, name):
        return self.user_ns[name]


def newest():
    return api.jobs()[0]


def of_session(name="lab"):
    return api.job(name)


def known(name="lab"):
    return records.read(JobDir(of_session(name).directory))


@pytest.fixture(scope="module", autouse=True)
def _sessions_end(_module_store):
    yield
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXTRAIN_HOME", str(_module_store))
        for job in api.jobs():
            if job.active and job.is_session:
                job.cancel()


@pytest.fixture(scope="module")
def agree_s():
    """Half as long as usual, so that the tests are short; as long as usual on a slow machine."""
    return min(2 * slowness(), timeouts.AGREE.usual)


@pytest.fixture
def book(monkeypatch, agree_s):
    monkeypatch.setattr(api, "_ledgers", {})  # another kernel
    monkeypatch.setenv("JAXTRAIN_AGREE_TIMEOUT", str(agree_s))
    return Notebook()


PIDS = "import os\nprint('pid', os.getpid())"


def pids(job):
    return sorted(int(line.split()[1]) for line in text(job).splitlines() if "pid" in line)


def displays(job):
    path = JobDir(job.directory).displays  # it is there once there is one
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["data"] for line in lines]


@contextmanager
def touched(file):
    """Have the file by the end, whatever happens: a cell waits for it."""
    try:
        yield
    finally:
        file.touch()


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def test_the_next_cell_runs_at_once_on_the_same_ranks_with_what_was_there(book):
    first = book.cell(
        f"{PIDS}\nimport jax, jax.numpy as jnp\n"
        "@jax.jit\ndef twice(x):\n    print('traced')\n    return 2 * x\n"
        "weights = twice(jnp.arange(3.0))"
    )
    second = book.cell(f"{PIDS}\nloss = twice(weights).sum()", "-s lab -n 2 -o loss")
    assert pids(first) == pids(second) == sorted(ranks_of(of_session()))
    assert "traced" in text(first) and "traced" not in text(second)
    assert book["loss"] == 12.0
    assert second.manifest["cell_of"]["session"] == of_session().name
    book.cell("tree = {'a': jnp.ones(4), 'b': [jnp.ones(2), 5]}\ngone = jnp.ones(8)\ngone.delete()")
    variables = known()["variables"]
    assert variables["gone"]["deleted"] and not variables["tree"]["deleted"]
    assert (variables["tree"]["size"], variables["tree"]["device_size"]) == (24, 24)
    assert second.spec.nodes == 2 and second.state == "Succeeded"
    assert not JobDir(second.directory).bundle.exists()  # sessions go on for long
    assert "sent nothing new; kept twice and weights (session, 12 B)" in card.text(
        Facts.of(second), second.snapshot()
    )
    assert of_session().state == "Running" and of_session().is_session
    assert [m["step"] for m in second.metrics()] == []


def test_each_cell_has_the_log_the_reports_and_the_failure_that_are_its_own(book):
    one = book.cell("from jupyter_jax_trainer import report\nreport(loss=1)\nprint('one')\nx = 5")
    two = book.fails("print('two')\nreport(loss=2)\n1 / 0")
    three = book.cell("print(x)")
    assert [line.text for line in one.logs(0)] == ["one"]
    assert [m["values"]["loss"] for m in one.metrics()] == [1, 1]
    assert [(m["step"], m["values"]["loss"]) for m in two.metrics()] == [(0, 2), (0, 2)]
    assert two.state == "Failed"
    assert two.failure.error["type"] == "ZeroDivisionError" and two.failure.error["cell_line"] == 4
    assert not two.failure.others
    assert [line.text for line in three.logs()] == ["5", "5"]
    assert "[jaxtrain: cell" in text(of_session(), 0)


def test_a_profile_is_that_of_the_cell_that_runs(book, tmp_path):
    line = "import jax.numpy as jnp\nimport time\n"
    one = book.cell(f"{line}x = float((jnp.ones(9) * 2).sum())", "-s lab -n 2 --profile")
    assert [profile.name for profile in one.profiles] == ["cell"]
    with pytest.raises(UsageError, match="no cell runs"):
        api.job("lab").profile(1)
    go = tmp_path / "go"
    with ThreadPoolExecutor(1) as thread, touched(go):
        ran = thread.submit(
            book.cell,
            f"{line}from pathlib import Path\n"
            f"while not Path({str(go)!r}).exists(): jnp.ones(9).sum()",
        )
        eventually(lambda: newest().name != one.name and newest().state == "Running")
        profile = api.job("lab").profile(0.3)
        go.touch()
        assert profile.job == newest().name and not any(r["problem"] for r in profile.ranks)
        assert ran.result().profiles[0].name == profile.name == "1"


def test_a_profile_asked_for_while_ranks_load_what_came_with_the_cell_is_that_cells(book, tmp_path):
    before = book.cell("pass", "-s lab -n 2 --profile")
    go = tmp_path / "go"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    book.kernel(f"class Slow:\n    def __reduce__(self): return exec, ({waits!r},)\nslow = Slow()")
    with ThreadPoolExecutor(1) as thread, touched(go):
        ran = thread.submit(book.cell, "slow", "-s lab -n 2")
        eventually(lambda: newest().name != before.name and newest().state == "Running")
        taken = newest().profile(0.3)
        go.touch()
        assert [rank["problem"] for rank in taken.ranks] == [None, None]
        assert ran.result().profiles[0].directory == taken.directory
        assert len([path for path in taken.directory.iterdir() if path.is_dir()]) == 2


def test_what_its_ranks_use_is_sampled_once_and_shown_of_each_cell(book):
    cell = book.cell("import time\ntime.sleep(3)")
    samples = cell.resources()
    assert {one["rank"] for one in samples} == {0, 1}
    assert all(cell.created <= one["time"] <= cell.ended for one in samples)
    assert len(of_session().resources()) >= len(samples)
    assert not JobDir(cell.directory).resources.exists()
    assert "memory" in used_text({**cell.snapshot(), "state": State.RUNNING})


def test_a_cell_that_closes_its_output_closes_that_of_no_other(book):
    assert (
        book.cell("import sys\nprint('one', flush=True)\nsys.stdout.close()").state == "Succeeded"
    )
    after = book.cell("print('two')\nprint('three', file=sys.stderr)")
    assert [line.text for line in after.logs(0)] == ["two", "three"]


def test_an_array_that_has_been_replaced_takes_no_room(book):
    book.kernel("import numpy as np\ndata = np.zeros(1 << 20)")
    look = """
import gc
gc.disable()
data.sum()
with open('/proc/self/maps') as maps:
    mapped = sum('bundle.pyz' in line for line in maps)
"""
    for number in (1.0, 2.0, 3.0):
        book.kernel(f"data[0] = {number}")
        book.cell(look, "-s lab -n 2 -o mapped")
    assert book["mapped"] == 1


def test_a_function_of_an_earlier_cell_shows_its_own_lines_in_a_traceback(book):
    first = book.cell("def halve(x):\n    return x / 0  # so wrong")
    failed = book.fails("\n\n\nhalve(1)")
    assert "# so wrong" in failed.failure.error["traceback"]
    assert f"Cell {first.name}, line 3, in halve" in failed.failure.error["traceback"]


def test_other_options_on_a_later_cell_are_refused(book):
    book.cell("pass")
    number = len(api.jobs())
    with pytest.raises(UsageError) as refused:
        book.cell("pass", "-s lab -n 3 --env A=1")
    assert refused.value.id == "backends.session-has-options"
    assert "--nodes" in str(refused.value) and "--env" in str(refused.value)
    assert len(api.jobs()) == number


def test_run_all_twice_gives_equal_numbers(book):
    def run_all():
        book.kernel("import numpy as np\nw = np.ones(3)\nlr, step = 0.5, 0\nhistory = []")
        for _ in range(2):
            book.cell("w = w - lr * w\nstep = step + 1\nhistory.append(step)\n")
        book.cell("loss = float(w.sum())", "-s lab -n 2 -o loss -o step -o history")
        return book["loss"], book["step"], book["history"]

    assert run_all() == run_all() == (0.75, 2, [1, 2])


def test_what_was_edited_is_sent_and_what_was_not_keeps_its_program(book):
    book.kernel(
        "import jax\ndef loss(x):\n    return 2 * x\n"
        "@jax.jit\ndef step(x):\n    print('traced step')\n    return loss(x) + 1\n"
        "@jax.jit\ndef other(x):\n    print('traced other')\n    return x"
    )
    call = "value = float(step(1.0)) + float(other(0.0))"
    first = book.cell(call, "-s lab -n 2 -o value")
    assert book["value"] == 3 and "traced step" in text(first)
    second = book.cell(call, "-s lab -n 2 -o value")
    assert "traced" not in text(second) and second.sent == []
    book.kernel("def loss(x):\n    return 3 * x")
    third = book.cell(call, "-s lab -n 2 -o value")
    assert book["value"] == 4
    assert "traced step" in text(third) and "traced other" not in text(third)
    shown = card.text(Facts.of(third), third.snapshot())
    again = in_cell.SENT_AGAIN(type="jitted function", why=in_cell.USES_CHANGED())
    assert say_of_views.SENT(things=f"step {again}") in shown


def test_a_class_that_is_defined_again_leaves_its_instances_as_a_notebook_does(book):
    source = (
        "class Model:\n    def __init__(self, w):\n        self.w = w\n"
        "    def apply(self, x):\n        return self.w * x\n"
        "def make(w):\n    return Model(w)\n"
    )
    look = (
        "print(old.apply(3), own.apply(3), isinstance(old, Model), isinstance(own, Model))\n"
        "new = make(2)\nprint(new.apply(3), isinstance(new, Model), type(old) is type(own))"
    )
    book.kernel(f"{source}old = Model(2)")
    book.cell("own = make(2)")
    assert text(book.cell(look), 0) == "6 6 True True\n6 True True"
    book.kernel(source.replace("self.w * x", "self.w + x"))
    here = book["old"].apply(3), isinstance(book["old"], book["Model"])
    assert here == (6, False)
    again = book.cell(look)
    assert text(again, 0) == "6 6 False False\n5 True True"
    assert {sent["name"] for sent in again.sent} == {"Model", "make"}
    book.kernel("old = Model(2)")
    assert text(book.cell(look), 0) == "5 6 True False\n5 True False"
    assert book.cell("print(old.apply(3), new.apply(3))").sent == []


def test_a_class_that_the_notebook_changes_changes_in_the_session_with_its_instances(book):
    book.kernel(
        "import jax\nfrom functools import partial\ndef loss(x):\n    return 2 * x\n"
        "class Model:\n    scale = 1\n    def apply(self):\n        return self.scale\n"
        "    @staticmethod\n    @jax.jit\n    def step(x):\n        return loss(x)\n"
        "model = Model()"
    )
    look = "print(model.apply(), Model.scale, float(Model.step(1.0)), isinstance(model, Model))"
    assert text(book.cell(look), 0) == "1 1 2.0 True"
    book.cell("Model.scale = 7")
    assert text(book.cell(look), 0) == "7 7 2.0 True"
    book.kernel("Model.scale = 5\nModel.apply = lambda self: -self.scale")
    assert text(book.cell(look), 0) == "-5 5 2.0 True"
    book.kernel("def loss(x):\n    return 3 * x")
    assert text(book.cell(look), 0) == "-5 5 3.0 True"


def test_modules_of_the_user_stay_and_are_replaced_when_their_files_change(
    book, tmp_path, monkeypatch
):
    file = tmp_path / "own_numbers.py"
    file.write_text("def number():\n    return 1\n")
    (tmp_path / "own_later.py").write_text("there = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    book.kernel("import own_numbers, own_later\nfrom own_numbers import number")
    source = "found = number(), own_numbers.number()"
    book.cell(f"{source}, own_later.there", "-s lab -n 2 -o found").delete()
    assert book["found"] == (1, 1, True)
    again = book.cell(source, "-s lab -n 2 -o found")
    assert book["found"] == (1, 1) and again.sent == []
    file.write_text("def number():\n    return 22\n")
    book.kernel("import importlib\nimportlib.reload(own_numbers)\nnumber = own_numbers.number")
    book.cell(source, "-s lab -n 2 -o found")
    assert book["found"] == (22, 22)


@pytest.fixture
def usual_times(monkeypatch):
    """What is promised with the time-outs as they are."""
    for name in ("AGREE", "MEET"):
        monkeypatch.delenv(f"JAXTRAIN_{name}_TIMEOUT", raising=False)


def found_after(job, word):
    """Return how many seconds after a rank printed a word and the time the job has ended."""
    said = [line.text.split() for line in job.logs() if line.text.startswith(word)]
    return job.ended - max(float(time) for _, time in said)


def test_a_rank_that_fails_alone_is_found_in_time(book, usual_times):
    line = "-s usual -n 2"
    book.cell("import jax, time\nfrom jax.experimental import multihost_utils as m", line)
    failed = book.fails(
        "if jax.process_index() == 1:\n    print('fails', time.time())\n"
        "    raise ValueError('alone')\nm.sync_global_devices('x')",
        line,
    )
    assert within(found_after(failed, "fails"), 5)
    of_session("usual").cancel()


def test_a_rank_that_fails_alone_is_found_and_what_is_lost_is_named(book):
    book.cell("import jax\nmodel = 1\nfrom jax.experimental import multihost_utils as m")
    before = ranks_of(of_session())
    failed = book.fails(
        "if jax.process_index() == 1:\n    raise ValueError('alone')\nm.sync_global_devices('x')"
    )
    (_, began), (_, ended) = failed.history[-2:]
    assert within(ended - began, 5.5)
    assert failed.failure.error["type"] == "ValueError" and failed.failure.rank == 1
    assert "model" in failed.failure.hint
    with pytest.raises(UsageError) as refused:
        book.cell("print(model)")
    assert refused.value.id == "cell.lost-in-session"
    after = book.cell(PIDS)
    assert set(pids(after)).isdisjoint(before)
    assert known()["lost"] and "model" in known()["lost"]


@pytest.mark.parametrize(
    "code",
    [
        "if jax.process_index(): raise ValueError",
        "raise (ValueError if jax.process_index() else TypeError)",
        "if jax.process_index(): raise ValueError\nraise ValueError",
        "if jax.process_index(): raise ValueError\nwhile True: time.sleep(0.01)",
    ],
)
def test_ranks_that_end_a_cell_differently_are_started_anew(book, code):
    book.cell("data = 1")
    before = ranks_of(of_session())
    failed = book.fails(f"import jax, time\n{code}")
    assert "data" in failed.failure.hint
    assert set(pids(book.cell(PIDS))).isdisjoint(before)


def test_an_error_of_what_was_dispatched_belongs_to_its_cell_and_to_no_other(book):
    book.cell("import jax, jax.numpy as jnp, numpy as np\ngood = 1")
    before = ranks_of(of_session())
    failed = book.fails(
        "def fail(x):\n    raise ValueError('too late')\n"
        "later = jax.jit(lambda x: jax.pure_callback(fail, x, x))\n"
        "bad = later(jnp.ones(3))"
    )
    assert "too late" in failed.failure.message
    assert book.cell("print(good)").state == "Succeeded"
    assert ranks_of(of_session()) == before


@pytest.mark.parametrize("rank", [0, 1])
def test_a_program_that_only_one_rank_started_is_found(book, rank, usual_times):
    """It would meet the next program of the other rank, and both would compute nonsense."""
    failed = book.fails(
        "import jax, numpy as np, threading, time\n"
        "from jax.sharding import Mesh, PartitionSpec as P\n"
        "mesh = Mesh(jax.devices(), 'i')\n"
        "total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh,"
        " in_specs=P(), out_specs=P()))\n"
        f"if jax.process_index() == {rank}:\n"
        "    threading.Thread(target=total, args=(np.ones(3),), daemon=True).start()\n"
        "    time.sleep(0.3)\n"
        "print('over', time.time())\n",
        "-s hasty -n 2",
    )
    assert failed.failure.kind in ("error", "aborted", "crashed")
    assert within(found_after(failed, "over"), 5)
    assert book.cell("print('fine')", "-s hasty").state == "Succeeded"
    of_session("hasty").cancel()


def test_ranks_that_wait_for_others_in_vain_are_found_and_slow_ones_are_not(book, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_COLLECTIVE_TIMEOUT", "1")
    line = "-s stalls -n 2"
    slow = (
        "import jax, numpy as np, time\n"
        "from jax.sharding import NamedSharding, Mesh, PartitionSpec as P\n"
        "mesh = Mesh(jax.devices(), 'i')\n"
        "total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh,"
        " in_specs=P('i'), out_specs=P()))\n"
        "x = jax.make_array_from_process_local_data(NamedSharding(mesh, P('i')), np.ones((1, 3)))\n"
        "y = total(x)\n"
        "if jax.process_index() == 0:\n    time.sleep(2.5)\n"
    )
    assert book.cell(slow, line).state == "Succeeded"
    job = detached(book, "if jax.process_index() == 1:\n    total(x)", line)
    place = at_line(3)
    waits = say_of_jobs.RANK_WAITS(rank=1, place=place)
    finished = say_of_jobs.RANK_FINISHED(rank=0)
    eventually(lambda: f"{finished}, {waits}" in (job.reason or ""))
    eventually(lambda: not job.active)
    assert job.failure.kind == "timeout" and waits in job.reason
    assert say_of_jobs.WAITED_FOR_FINISHED() in job.failure.hint
    assert "x" in job.failure.hint
    hung = book.fails("import time\ntime.sleep(600)", line + " --hang-timeout 2s")
    assert hung.failure.kind == "hang"
    assert place in hung.failure.message
    book.cell("print(1)", line)  # on new ranks
    of_session("stalls").cancel()


@pytest.mark.parametrize("code", ["pass", "import os\nos._exit(3)"])
def test_a_rank_that_dies_is_started_anew_with_the_others(book, code):
    book.cell("big = 1")
    before = ranks_of(of_session())
    if code == "pass":
        os.kill(before[1], signal.SIGKILL)
    else:
        failed = book.fails(code)
        assert failed.failure.kind == "exit" and "big" in failed.failure.hint
    eventually(
        lambda: of_session().state == "Running" and set(before) != set(ranks_of(of_session()))
    )
    assert book.cell(PIDS).state == "Succeeded"


def test_a_cell_that_fills_memory_fails_and_leaves_the_session_as_it_is(book):
    book.cell("kept = 7")
    before = ranks_of(of_session())
    failed = book.fails(
        "import jax.numpy as jnp\n"
        "def fill():\n    w = jnp.ones((512, 512))\n    return w, bytearray(1 << 60)\n"
        "fill()"
    )
    assert failed.failure.kind == "memory" and "MemoryError" in failed.failure.message
    assert any("w in fill() float32[512,512]" in line for line in failed.failure.usage)
    assert text(book.cell("print(kept)")) == "7\n7"
    assert ranks_of(of_session()) == before


def test_ranks_that_idle_for_longer_than_jax_waits_for_a_sign_of_life_stay_in_touch(
    book, monkeypatch
):
    """An idle hour, with time-outs of jax that are as much shorter."""
    monkeypatch.setenv("JAXTRAIN_HEARTBEAT_TIMEOUT", "4")
    line = "-s idles -n 2"
    total = (
        "from jax.experimental import multihost_utils as m\n"
        "print(int(m.process_allgather(np.ones(1)).sum()), kept)"
    )
    book.cell(f"import numpy as np\nkept = 1\n{total}", line)
    ranks = ranks_of(of_session("idles"))
    time.sleep(10)
    assert text(book.cell(total, line)) == "2 1\n2 1"
    assert ranks_of(of_session("idles")) == ranks and of_session("idles").restarts == 0
    os.kill(ranks[1], signal.SIGSTOP)  # without a sign of life, the time-out does end them
    eventually(lambda: not set(ranks) & set(ranks_of(of_session("idles"))))
    of_session("idles").cancel()


def test_a_cell_can_be_cancelled_and_the_session_goes_on(book):
    book.cell("kept = 7\nimport time")
    job = detached(book, "print('waits', flush=True)\nwhile True: time.sleep(0.01)")
    wait_for_text(job, "waits", times=2)
    job.cancel()
    assert job.state == "Cancelled"
    book.cell("pass", "-s lab -n 2 -o kept")
    assert book["kept"] == 7


def test_a_cell_that_does_not_stop_is_waited_for_until_its_ranks_are_started_anew(
    book, monkeypatch
):
    for name, seconds in (("INTERRUPT", "2"), ("AGREE", "2"), ("CANCEL", "3")):
        monkeypatch.setenv(f"JAXTRAIN_{name}_TIMEOUT", seconds)
    line = "-s stubborn -n 2"
    book.cell("import time\nfrom jupyter_jax_trainer import report\nkept = 1", line)
    job = detached(
        book,
        "report(loss=1)\nprint('waits', flush=True)\n"
        "while True:\n    try:\n        time.sleep(600)\n    except KeyboardInterrupt:\n        pass",
        line,
    )
    wait_for_text(job, "waits")
    job.cancel()
    assert job.state == "Cancelled" and "kept" in job.reason
    of_session("stubborn").cancel()


def test_a_cell_of_some_ranks_stops_at_a_report_and_one_in_its_handler_goes_on(book):
    book.cell("import time\nfrom jupyter_jax_trainer import report\ndone = 0")
    job = detached(
        book,
        "try:\n    while True:\n        time.sleep(0.02)\n        done += 1\n"
        "        report(step=done)\n        if done == 3: print('begun', flush=True)\nfinally:\n    report(step=done + 1)\n    print('over', done)",
        "-s lab -n 2 --rank 1",
    )
    wait_for_text(job, "begun")
    job.cancel()
    assert job.state == "Cancelled" and job.reason == CANCELLED
    assert "over" in text(job)
    alone = detached(
        book,
        # On one line: ranks that are interrupted on different lines are out of step.
        "import jax\nn = 0\ntry:\n"
        "    while True: time.sleep(0.02); jax.process_index() or report(loss=1);"
        " n += 1; n == 2 and print('both loop')\n"
        "except KeyboardInterrupt:\n    report(loss=2)\n    raise",
    )
    wait_for_text(alone, "both loop", times=2)
    eventually(lambda: alone.steps)
    alone.cancel()
    assert alone.state == "Cancelled" and alone.reason == CANCELLED
    book.cell("print(done > 0)", "-s lab -n 2 --rank 1")


def test_ranks_that_report_stop_at_one_step_with_all_variables(book):
    book.cell(
        "import time, jax, jax.numpy as jnp\nfrom jax.experimental import multihost_utils as m\n"
        "from jupyter_jax_trainer import report"
    )
    before = ranks_of(of_session())
    job = detached(
        book,
        "done = 0\nwhile True:\n    time.sleep(0.02 * jax.process_index())\n"
        "    m.process_allgather(jnp.ones(1))\n    done += 1\n    report(done)",
    )
    eventually(lambda: job.steps and job.steps > 3)
    job.cancel()
    assert job.state == "Cancelled" and job.reason == CANCELLED
    after = book.cell("print('done', done)")
    counts = {line.text for line in after.logs()}
    assert len(counts) == 1 and after.state == "Succeeded"
    assert ranks_of(of_session()) == before


def test_cells_behind_one_that_fails_are_handed_back(book, tmp_path):
    go = tmp_path / "go"
    book.cell("import time\nfrom pathlib import Path")
    wait = f"value = 1\nwhile not Path({str(go)!r}).exists(): time.sleep(0.01)\n1 / 0"
    first, second = detached(book, wait), detached(book, "print(value)")
    assert first.name in second.reason
    go.touch()
    eventually(lambda: not second.active)
    assert (first.state, second.state) == ("Failed", "Cancelled")
    assert first.name in second.reason and second.started is None


def test_who_waits_sees_whose_cell_runs_and_what_is_taken_back_takes_what_follows_it_along(
    book, tmp_path, monkeypatch
):
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/train.ipynb")
    go = tmp_path / "go"
    book.cell("import time\nfrom pathlib import Path\nvalue = 1")
    runs = detached(book, f"while not Path({str(go)!r}).exists(): time.sleep(0.01)")
    next_ = detached(book, "value += 1")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("JPY_SESSION_NAME", "/home/me/eval.ipynb")
        elsewhere.setattr(api, "_ledgers", {})
        elsewhere.setattr(api, "_KERNEL", "another")
        other = detached(Notebook(), "print(value)")
    last = detached(book, "print(value)")
    assert next_.reason == say.BEHIND_CELLS(names=runs.name)
    there = [say.OF_ANOTHER(cell=cell.name, place="train.ipynb") for cell in (runs, next_)]
    assert other.reason == say.BEHIND_CELLS(names=" and ".join(there))
    next_.cancel()
    eventually(lambda: not last.active)
    assert (next_.state, last.state, other.state) == ("Cancelled", "Cancelled", "Queued")
    assert last.reason == say.CELL_TAKEN_BACK(cell=next_.name)
    go.touch()
    eventually(lambda: not other.active)
    assert (runs.state, other.state, text(other)) == ("Succeeded", "Succeeded", "1\n1")


def test_what_the_notebook_assigned_again_is_not_lost_with_a_cell_that_never_ran(book, tmp_path):
    go = tmp_path / "go"
    book.kernel("step = 0")
    book.cell("import time\nfrom pathlib import Path\nstep = step + 1\nw = 2")
    book.kernel("step = 0\nw = 3")
    first = detached(book, f"while not Path({str(go)!r}).exists(): time.sleep(0.01)\n1 / 0")
    unrun = detached(book, "w = 4\nstep = step + 1")
    go.touch()
    eventually(lambda: not unrun.active)
    assert (first.state, unrun.state, unrun.started) == ("Failed", "Cancelled", None)
    again = book.cell("step = step + 1\nprint(w, step)")
    assert text(again) == "3 1\n3 1"


def test_what_a_cell_did_before_it_failed_counts_and_what_it_did_not_does_not(book):
    book.kernel("step, w = 0, 1")
    book.cell("step = step + 1\nw = 2")
    book.kernel("step, w = 0, 3")
    book.fails("step = step + 5\n1 / 0\nw = 4")
    assert text(book.cell("print(step, w)")) == "5 3\n5 3"
    book.kernel("step = 0")
    book.fails(
        "import jax\nstep = step + 7\ndef fail(x):\n    raise ValueError('too late')\n"
        "later = jax.jit(lambda x: jax.pure_callback(fail, x, x))\nlate = later(jax.numpy.ones(3))"
    )
    assert text(book.cell("print(step, w)")) == "7 3\n7 3"


DONATES = (
    "import time, jax, jax.numpy as jnp\nfrom functools import partial\nx, y = jnp.ones(3), 1\n"
    "@partial(jax.jit, donate_argnums=0)\ndef step(x):\n    return x + 1"
)


def test_what_a_failed_cell_has_donated_is_named_there_and_where_it_is_read(book, capsys):
    book.cell(DONATES)
    failed = book.fails("step(x)\n1 / 0\nx = y")
    assert known()["variables"]["x"]["deleted"]
    assert say.DONATED(names="x") in failed.failure.hint
    assert say.DONATED(names="x") in card.text(Facts.of(failed), failed.snapshot())
    capsys.readouterr()
    reads = book.fails("print(y)\nx + 1")
    assert in_cell.DELETED_IN_SESSION(name="x") in capsys.readouterr().err
    shown = card.text(Facts.of(reads), reads.snapshot())
    assert in_cell.DELETED_IN_SESSION(name="x") in shown
    assert say.READ_DONATED(names="x") in reads.failure.hint
    assert say.DONATED(names="x") not in reads.failure.hint
    other = book.fails("1 / 0")
    assert other.failure.hint is None and "buffer" not in card.text(
        Facts.of(other), other.snapshot()
    )
    again = book.cell("x = jnp.ones(3)\nx = step(x)")
    assert "buffer" not in card.text(Facts.of(again), again.snapshot())


def test_what_an_interrupted_cell_has_donated_is_named(book):
    book.cell(DONATES)
    job = detached(book, "step(x)\nprint('waits', flush=True)\nwhile True: time.sleep(0.01)")
    wait_for_text(job, "waits", times=2)
    job.cancel()
    eventually(lambda: not job.active)
    assert job.state == "Cancelled" and job.reason == CANCELLED
    assert say.DONATED(names="x") in card.text(Facts.of(job), job.snapshot())
    in_call = book.fails("import jax\nx = jnp.ones(3)\nstep(x)\nstep(x)")
    assert say.DONATED(names="x") in in_call.failure.hint


FAILS_LATE = (
    "from functools import partial\n"
    "@partial(jax.jit, donate_argnums=0)\n"
    "def grow(x):\n    return x + 1, jnp.arange(1 << 48, dtype='float32')\n"
    "x, large = grow(x)"
)


def test_what_a_failed_call_was_to_compute_is_named_and_not_saved(book):
    line = "-s late"  # with large arrays: calls on small ones fail at once
    book.cell("import jax, jax.numpy as jnp\nx, y = jnp.ones(1 << 20), jnp.ones(4)", line)
    failed = book.fails(FAILS_LATE, line)
    assert "Out of memory" in failed.failure.message
    assert say.DONATED(names="large and x") in failed.failure.hint
    variables = session("late").vars()
    assert {name for name, one in variables.items() if one["deleted"]} == {"large", "x"}
    reads = book.fails("print(x)", line)
    assert say.READ_DONATED(names="x") in reads.failure.hint
    before = ranks_of(session("late").job)
    saved = session("late").save()
    assert (saved["names"], saved["left_out"]) == (["y"], ["large", "x"])
    assert ranks_of(session("late").job) == before
    session("late").end()


def test_that_there_is_nothing_to_save_is_said_without_code_of_ours(book):
    book.cell("x = 1", "-s bare -n 2")
    with pytest.raises(JobFailed) as failed:
        session("bare").save()
    session("bare").end()
    assert say_of_worker.NOTHING_TO_SAVE() in str(failed.value)
    assert "__import__" not in str(failed.value) and "cell line" not in str(failed.value)


def test_what_is_sent_again_and_no_longer_shared_with_what_stays_is_said(book):
    def parted(job):
        (words,) = [*job.snapshot().get("warnings", []), ""][:1]
        return words and card.text(Facts.of(job), job.snapshot()).count(words) and words

    book.kernel(
        "import logging\nclass Model:\n    w = 1\nmodel, lr, tags = Model(), 0.1, ['a']\n"
        "both = {'tags': tags}\nlog, logs = logging.getLogger('x'), [logging.getLogger('x')]"
    )
    book.cell("def hold(model):\n    return lambda: model.w\nprint(lr, tags, both, log, logs)")
    book.cell("optimizer = hold(model)")
    book.kernel("lr = 0.2\nlogs = [log]")
    assert not parted(book.cell("print(lr, logs, log)"))
    book.kernel("model.w = 2")
    job = book.cell("print(model.w, optimizer())")
    assert text(job, 0) == "2 1"
    assert parted(job) == say.NO_LONGER_SHARED(others="optimizer", names="model")
    book.kernel("tags.append('b')")
    assert not parted(book.cell("print(tags, both)"))
    book.kernel("tags.append('c')")
    both = say.NO_LONGER_SHARED(others="both", names="tags")
    assert parted(book.cell("print(tags)")) == both
    assert not parted(book.cell("print(model, tags)"))


def test_the_card_says_how_large_is_what_stays(book):
    line = "-s wide -n 1 -d cpu --devices-per-node 4"
    book.cell(
        "import jax, jax.numpy as jnp, numpy as np\n"
        "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
        "spread = NamedSharding(Mesh(jax.devices(), 'i'), P('i'))\n"
        "model = {'w': jax.device_put(jnp.ones((4, 250)), spread)}\nrate, host = 0.1, np.ones(2)",
        line,
    )
    job = book.cell("model, rate;", line)
    assert "kept model and rate (session, 4 kB on 4 devices)" in card.text(
        Facts.of(job), job.snapshot()
    )
    job = book.cell("print(rate, host)", line)
    assert "kept rate and host (session, 16 B)" in card.text(Facts.of(job), job.snapshot())
    job = book.cell("print(rate)", line)
    assert "kept rate (session)" in card.text(Facts.of(job), job.snapshot())
    of_session("wide").cancel()


def test_a_name_in_both_places_that_may_differ_is_said(book):
    def differs(job):
        return "step may differ in the notebook" in card.text(Facts.of(job), job.snapshot())

    book.kernel("step, w = 0, 'a'")
    assert not differs(book.cell("step = step + 1\nprint(w)"))
    assert differs(book.cell("print(step, w)"))
    book.cell("pass", "-s lab -n 2 -o step")
    same = book.cell("print(step, w)")
    assert not differs(same) and text(same) == "1 a\n1 a"
    book.cell("step = step + 1")
    assert differs(book.cell("print(step, w)"))
    book.kernel("step = 7")
    assert not differs(book.cell("print(step, w)"))


def detached(book, source, line="-s lab -n 2"):
    book.cell(source, f"{line} --detach")
    return newest()


def test_cancel_ends_the_session_and_its_cell_and_the_next_one_starts_anew(book):
    job = detached(book, "import time\nprint('waits', flush=True)\ntime.sleep(600)")
    wait_for_text(job, "waits")
    with session("lab") as lab:
        ended = lab.job
    eventually(lambda: not job.active)
    assert (ended.state, job.state) == ("Cancelled", "Cancelled")
    assert book.cell("pass").state == "Succeeded"
    assert of_session().name != ended.name


def test_it_ends_by_itself_when_it_is_idle(book):
    book.cell("pass", "-s brief --idle 2")
    job = of_session("brief")
    eventually(lambda: not job.active)
    assert (job.state, job.reason) == ("Succeeded", "idle for 2.0 s")
    assert [rank.exit for rank in job.ranks] == [0]


def test_the_idle_limit_holds_without_the_kernel_and_by_a_clock_that_nobody_sets(store):
    code = (
        "import os\nfrom jupyter_jax_trainer import session\n"
        "session('orphan', idle=2).run(int).wait()\nos.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    job = of_session("orphan")
    eventually(lambda: not job.active)
    assert (job.state, job.reason) == ("Succeeded", "idle for 2.0 s")


def test_it_says_before_that_it_ends_and_can_be_prolonged(book, capsys):
    book.cell("pass", "-s prolonged --idle 4")
    job, lab = of_session("prolonged"), session("prolonged")
    eventually(lambda: say.ENDS_SOON.text.partition("{")[0] in (job.reason or ""))
    assert "%jaxtrain prolong prolonged" in job.hint
    commands.run_command(["prolong", "prolonged", "1h"], commands.Context(print=print))
    eventually(lambda: job.reason is None)
    assert known("prolonged")["idle_ends"] > time.time() + 3590
    assert any(event["kind"] == "idle" for event in job.events())
    lab.prolong()
    assert known("prolonged")["idle_ends"] < time.time() + 5
    eventually(lambda: not job.active)
    assert job.state == "Succeeded"


def test_what_was_saved_comes_back_after_a_restart(book, capsys):
    def command(line):
        commands.run_command(line.split(), commands.Context(print=print, width=200))
        return capsys.readouterr().out

    book.cell("pass")
    with pytest.raises(UsageError) as refused:
        session("lab").restore()
    assert refused.value.id == "api.nothing-saved"
    book.cell(
        "import jax, jax.numpy as jnp, numpy as np, optax\n"
        "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
        "spread = NamedSharding(Mesh(jax.devices(), 'i'), P('i'))\n"
        "both = jax.make_array_from_process_local_data(spread,"
        " np.full((1, 2), 1.0 + jax.process_index(), 'float32'))\n"
        "params = {'w': both, 'own': jnp.full(2, jax.process_index()), 'rate': 0.5}\n"
        "state = optax.adam(0.1).init(params['own'])\n"
        "key, host = jax.random.key(3), np.arange(4)\n"
        "step, data, gone = 7, ['x'], jnp.ones(1)\ngone.delete()"
    )
    capsys.readouterr()
    kept, lost = "both, host, key, params and state", "data, goneMORE"
    said = command("save lab")
    assert say_of_commands.SAVED(names=kept, size="SIZE").partition("SIZE")[0] in said
    words = say_of_commands.NOT_SAVED(names=lost)
    assert words.partition("MORE")[0] in said and "step" in said
    failed = book.fails("import os\nif jax.process_index(): os._exit(3)")
    words = say.LAST_SAVE(session="lab", names="both, hostMORE", time="")
    assert words.partition("MORE")[0] in failed.failure.hint
    said = command("restore lab")
    words = say_of_commands.RESTORED(names=kept, time="TIME", age="")
    assert words.partition("TIME")[0] in said
    words = say_of_commands.NOT_RESTORED(names=lost)
    assert words.partition("MORE")[0] in said and "step" in said
    after = book.cell(
        "import jax, numpy as np\nassert both.sharding.spec == jax.sharding.PartitionSpec('i')\n"
        "assert (np.asarray(both.addressable_data(0)) == 1 + jax.process_index()).all()\n"
        "assert (params['own'] == jax.process_index()).all() and params['rate'] == 0.5\n"
        "assert type(state[0]).__name__ == 'ScaleByAdamState' and (host == np.arange(4)).all()\n"
        "print(jax.random.uniform(key), params['w'].shape)\n"
        "del both, params, state, key, host"
    )
    assert after.state == "Succeeded" and "(2, 2)" in text(after)
    saves = JobDir(of_session().directory).checkpoints / "session"
    (rank,) = [one / "rank-1" for one in saves.iterdir()]
    rank.write_bytes(rank.read_bytes()[:-1] + b"x")
    with pytest.raises(JobFailed, match="was changed"):
        session("lab").restore()


def test_what_is_restored_is_as_wide_and_as_free_to_move_as_it_was(book):
    line = "-s wide -n 2"
    make = (
        "import jax, jax.numpy as jnp, numpy as np\n"
        "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
        "spread = NamedSharding(Mesh(jax.devices(), 'i'), P())\n"
        "both = jax.make_array_from_process_local_data(spread, np.ones(2, 'float32'))\n"
    )
    book.cell(
        f"{make}key, count = jax.random.key(0), jnp.zeros((), int)\n"
        "jax.config.update('jax_enable_x64', True)\nwide = jnp.float64(1) / 3\n"
        "each = NamedSharding(spread.mesh, P('i'))\n"
        "parts = jax.make_array_from_process_local_data(each, np.full(1, 1 / 3))",
        line,
    )
    session("wide").save()
    session("wide").restart()
    eventually(lambda: not known("wide")["variables"])
    session("wide").restore()
    after = book.cell(
        f"{make}def step(x, key, count): return x + jax.random.normal(key, x.shape), count + 1\n"
        "jax.block_until_ready(jax.jit(step)(both, key, count))\n"
        "part = parts.addressable_data(0)\nassert not jax.config.jax_enable_x64\n"
        "print(wide.dtype, float(wide) == 1 / 3, parts.dtype, float(part[0]) == 1 / 3)",
        line,
    )
    assert [line.text for line in after.logs()] == ["float64 True float64 True"] * 2
    session("wide").end()


def test_what_is_restored_counts_as_later_than_what_the_kernel_had(book, monkeypatch):
    line = "-s later -n 1"
    monkeypatch.setattr(sys.modules["__main__"], "In", book.user_ns["In"], raising=False)
    book.cell("import jax.numpy as jnp\nparams = jnp.ones(2)", line)
    session("later").save()
    book.kernel("import numpy as np\nparams = np.zeros(2)")
    session("later").restore()
    after = book.cell("print(params.sum())", line)
    assert text(after) == "2.0"
    session("later").end()


def test_what_an_earlier_session_of_the_name_has_saved_comes_back(book):
    line = "-s earlier -n 2"
    book.cell("import jax.numpy as jnp\nw, name = jnp.arange(3.0), 'lost'", line)
    first = session("earlier").job
    saved = session("earlier").save()
    assert (saved["names"], saved["left_out"]) == (["w"], ["name"])
    os.kill(parent_of(ranks_of(first)[0]), signal.SIGKILL)
    eventually(lambda: not first.active)
    book.cell("pass", line)
    assert session("earlier").job.uid != first.uid
    assert session("earlier").restore() == saved
    after = book.cell("print(int(w.sum()), 'name' in globals())", line)
    assert [line.text for line in after.logs()] == ["3 False"] * 2
    session("earlier").end()
    book.cell("pass", "-s earlier -n 1")
    with pytest.raises(UsageError) as refused:
        session("earlier").restore()
    assert refused.value.id == "api.saved-by-others"
    session("earlier").end()


def test_settings_of_jax_that_a_cell_made_outlive_the_notebook_s_import_of_jax(book, monkeypatch):
    line, settings = "-s set -n 1", bundle._settings()
    monkeypatch.setattr(bundle, "_settings", dict)
    book.cell("import jax, jax.numpy as jnp\njax.config.update('jax_enable_x64', True)", line)
    monkeypatch.setattr(bundle, "_settings", lambda: {**settings, "jax_enable_x64": False})
    after = book.cell("print(jnp.zeros(1).dtype)", line)
    monkeypatch.setattr(bundle, "_settings", dict)
    book.cell("pass", line)
    monkeypatch.setattr(bundle, "_settings", lambda: {**settings, "jax_enable_x64": False})
    again = book.cell("print(jnp.zeros(1).dtype)", line)
    assert [text(after), text(again)] == ["float64"] * 2
    changed = {**settings, "jax_enable_x64": True, "jax_numpy_rank_promotion": "raise"}
    monkeypatch.setattr(bundle, "_settings", lambda: changed)
    book.cell("jax.config.update('jax_enable_x64', False)", line)
    monkeypatch.setattr(bundle, "_settings", lambda: {**changed, "jax_enable_x64": False})
    assert text(book.cell("print(jnp.zeros(1).dtype)", line)) == "float32"
    session("set").end()


def test_ranks_meet_whatever_a_cell_forbids_itself(book):
    book.cell(
        "import jax\njax.config.update('jax_numpy_rank_promotion', 'raise')\n"
        "jax.config.update('jax_transfer_guard', 'disallow')\n"
        "jax.config.update('jax_disable_jit', True)\nkept = 1"
    )
    book.cell(
        "jax.config.update('jax_numpy_rank_promotion', 'allow')\n"
        "jax.config.update('jax_transfer_guard', 'allow')\n"
        "jax.config.update('jax_disable_jit', False)\nassert kept == 1"
    )


def test_what_only_one_rank_can_meet_in_the_way_of_results_ends_no_session(book):
    odd = (
        "import weakref\nclass Model: pass\nmodel = Model()\nproxy = weakref.proxy(model)\n"
        "model, kept = None, 7\nglobals()[5] = 'a number for a name'\n"
        "from IPython.display import JSON\nimport numpy as np\nJSON({np.int64(1): 2})"
    )
    shown = book.cell(odd)
    assert "on display" in displays(shown)[0]["text/plain"]
    with pytest.raises(ResultError, match="No space left"):
        book.cell(
            "import jupyter_jax_trainer.worker.results as results\n"
            "def write(*_): raise OSError(28, 'No space left on device')\n"
            "before, results._write = results._write, write",
            "-s lab -n 2 -o kept",
        )
    book.cell("results._write = before\ndel globals()[5]", "-s lab -n 2 -o kept")
    assert book["kept"] == 7


def test_a_save_that_one_rank_can_not_write_ends_no_session(book, monkeypatch):
    book.cell(
        "import jax, jax.numpy as jnp, pathlib\nw = jnp.ones(2)\n"
        "write = pathlib.Path.write_bytes\n"
        "def fails(path, data):\n"
        "    if path.name == 'rank-1.part': raise OSError(5, 'Input/output error')\n"
        "    return write(path, data)\n"
        "pathlib.Path.write_bytes = fails"
    )
    with pytest.raises(JobFailed, match=re.escape(say_of_worker.NOT_WRITTEN())):
        session("lab").save()
    book.cell("pathlib.Path.write_bytes = write\nassert w.sum() == 2")
    assert session("lab").save()["names"] == ["w"]


def test_figures_of_a_cell_that_fails_are_its_own(book):
    pytest.importorskip("matplotlib")
    line = "-s plots -n 1"
    failed = book.fails("import matplotlib.pyplot as plt\nplt.plot([1, 2])\n1 / 0", line)
    after = book.cell("plt.plot([2, 1])\nassert len(plt.gca().lines) == 1", line)
    for job in (failed, after):
        assert ["image/png" in one for one in displays(job)] == [True]
    session("plots").end()
    line = "-s plots -n 2"
    assert not displays(book.fails("import matplotlib.pyplot as plt\nplt.plot([1])\n1 / 0", line))
    book.cell("assert plt.get_fignums() == []", line)
    session("plots").end()


def test_what_a_call_has_brought_and_returned_is_gone_with_it(book):
    with session("calls", nodes=2) as calls:
        with pytest.raises(JobFailed):
            calls.run(lambda x: x / 0, 2).wait()
        left = "print([name for name in globals() if name.startswith('__jaxtrain_')])"
        assert text(book.cell(left, "-s calls -n 2")) == "[]\n[]"
        assert calls.run(lambda x: x + 1, 2).result() == 3
        with pytest.raises(ResultError):
            calls.run(lambda: __import__("sys").exit()).result()
        assert text(book.cell(left, "-s calls -n 2")) == "[]\n[]"


def test_what_a_cell_leaves_behind_harms_no_other(book):
    first = book.cell(
        "import asyncio, os, sys, threading, time\nimport jax\n"
        "kept = 1\nif os.fork() == 0:\n    kept = 2\n    1 / 0\n"
        "os.wait()\n"
        "threading.Thread(target=lambda: (time.sleep(1), print('late')), daemon=True).start()\n"
        "await asyncio.sleep(0)\ntask = asyncio.create_task(asyncio.sleep(600))\n"
        "await asyncio.sleep(0)\npass"
    )
    before = ranks_of(of_session())
    assert "ZeroDivisionError" in text(first) and first.state == "Succeeded"
    eventually(lambda: text(of_session()).count("late") == 2)  # each rank
    second = book.cell(
        "assert task.cancelled() and kept == 1\n"
        "del sys.modules['jax'], jax\nsys.stdout = None\nsys.stderr = object()"
    )
    third = book.cell("import jax\nprint(jax.process_count(), jax.numpy.ones(2).sum())")
    assert [line.text for line in third.logs()] == ["2 2.0", "2 2.0"]
    assert "late" not in text(first) + text(second) + text(third)
    assert ranks_of(of_session()) == before


def test_processes_that_were_stopped_for_a_while_go_on(book, monkeypatch, tmp_path):
    monkeypatch.setenv("JAXTRAIN_MEET_TIMEOUT", "2")
    monkeypatch.setenv("JAXTRAIN_AGREE_TIMEOUT", "2")
    line = "-s sleepy -n 2"
    book.cell("kept = 1\nimport os, time", line)
    ranks = ranks_of(of_session("sleepy"))
    everybody = [*ranks, parent_of(ranks[0])]
    seen = [tmp_path / "first", tmp_path / "second"]
    waits = "while not os.path.exists({!r}): time.sleep(0.01)\ntime.sleep(0.3)\n"
    jobs = [
        detached(book, waits.format(str(seen[0])) + "print(kept)", line),
        detached(book, waits.format(str(seen[1])) + "1 / 0", line),
    ]
    for job, file in zip(jobs, seen, strict=True):
        wait_for(job, "Running")
        file.touch()
        time.sleep(0.3)  # so that some are stopped as they meet
        for pid in everybody:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        for pid in everybody:
            os.kill(pid, signal.SIGCONT)
        eventually(lambda job=job: not job.active)
    assert [job.state for job in jobs] == ["Succeeded", "Failed"]
    assert ranks_of(of_session("sleepy")) == ranks and known("sleepy")["variables"]["kept"]
    of_session("sleepy").cancel()


def test_clients_that_send_at_the_same_moment_are_served_one_after_another(book):
    book.cell("order = []")
    sent = []
    for number in range(6):
        spec = api.in_session(parse_cell_line("-s lab"))
        submission, plan = api.prepare(spec)
        capture = capture_cell(f"order.append({number})", {}, ledger=api.ledger(submission))
        sent.append((spec, submission, plan, capture))
    with ThreadPoolExecutor(3) as pool:
        jobs = list(pool.map(lambda one: api.submit(*one), sent))
    assert [job.wait().state for job in jobs] == ["Succeeded"] * 6
    assert len({job.name for job in jobs}) == 6
    book.cell("pass", "-s lab -o order")
    assert sorted(book["order"]) == list(range(6))


def test_restart_and_interrupt_and_what_the_commands_show(book, capsys):
    def command(line):
        commands.run_command(line.split(), commands.Context(print=print, width=200))
        return capsys.readouterr().out

    book.cell("import jax.numpy as jnp, time\nweights = jnp.ones((4, 2))\nname = 'x'")
    capsys.readouterr()
    shown = command("session")
    assert shown.splitlines()[0].split() == ["SESSION", "STATE", "NODES", "CELL", "IDLE"]
    assert "lab" in shown and "Running" in shown
    row = next(line for line in command("vars lab").splitlines() if "weights" in line)
    assert row.split()[:2] == ["weights", "float32[4,2]"] and "32 B" in row
    before = ranks_of(of_session())
    assert all(str(pid) in command("session lab") for pid in before)
    assert f"Session    {of_session().name}" in command(f"show {newest().name}")
    job = detached(book, "print('waits', flush=True)\nwhile True: time.sleep(0.01)")
    wait_for_text(job, "waits", times=2)
    command("interrupt lab")
    assert job.state == "Cancelled" and "weights" in known()["variables"]
    with pytest.raises(UsageError) as refused:
        command("interrupt lab")
    assert refused.value.id == "api.nothing-runs"
    command("restart lab")
    assert set(pids(book.cell(PIDS))).isdisjoint(before)  # though it was sent at once
    assert "weights" in known()["lost"] and "weights" not in known()["variables"]
    assert "weights" in command("session lab")


def test_a_session_in_python(book):
    with pytest.raises(UsageError) as refused:
        session("other").get("x")
    assert refused.value.id == "api.no-session"
    lab = session("lab", nodes=2)
    assert lab.run(add, 1, name="added").result() == 3
    assert lab.run(add, 2, rank=1).result() == 4
    lab.run(bind, 5).wait()
    assert lab.vars()["kept"]["type"] == "int" and lab.get("kept") == 5
    assert not any("__" in name for name in lab.vars())
    assert str(lab) == "<Session lab: Running>"


def add(x):
    import jax

    return x + jax.process_count()


def bind(x):
    import __main__

    __main__.kept = x


def test_lines_complete_sessions_and_their_variables(book):
    book.cell("weights = 1")
    assert "lab" in complete("%%jaxtrain -s la", 16)
    assert complete("%jaxtrain vars la", 17) == ["lab"]
    assert complete("%%jaxtrain -s lab -o weigh", 26) == ["weights"]


def test_what_a_long_cell_took_does_not_count_as_idle(book):
    line = "-s long --idle 3"
    book.fails("import os, time\ntime.sleep(3.1)\nos._exit(3)", line)
    uid = of_session("long").uid
    assert book.cell("pass", line).manifest["cell_of"]["uid"] == uid
    of_session("long").cancel()


def test_two_that_start_one_session_at_once_share_it():
    both = []
    for _ in range(2):
        spec = parse_cell_line("-s shared")
        submission, plan = api.prepare(spec)
        capture = capture_cell("", {}, ledger=api.ledger(submission))
        both.append((spec, submission, plan, capture))
    jobs = [api.submit(*one) for one in both]
    assert [job.wait().state for job in jobs] == ["Succeeded", "Succeeded"]
    assert len({job.manifest["cell_of"]["uid"] for job in jobs}) == 1
    of_session("shared").cancel()


def test_a_session_takes_cores_while_a_cell_runs_and_else_none(book, monkeypatch, tmp_path):
    book.cell("import time\nfrom pathlib import Path")
    monkeypatch.setenv("JAXTRAIN_CORES", "2")
    assert submit("pass").wait().state == "Succeeded"
    go = tmp_path / "go"
    busy = detached(book, f"print('runs')\nwhile not Path({str(go)!r}).exists(): time.sleep(0.01)")
    wait_for_text(busy, "runs")
    book.cell("pass", "-s later -n 2 --detach")
    job = newest()
    eventually(lambda: "cores" in (job.reason or ""))
    assert job.state == "Queued" and "in use by lab" in job.reason
    job.cancel()
    assert job.state == "Cancelled"
    of_session("later").cancel()
    go.touch()
    busy.wait()


def test_a_name_of_a_job_that_runs_is_refused():
    job = submit("import time\ntime.sleep(600)", line="busy -n 1")
    with pytest.raises(UsageError) as refused:
        api.in_session(parse_cell_line("-s busy"))
    assert refused.value.id == "backends.name-of-job"
    job.cancel()


def test_when_its_supervisor_is_killed_the_session_and_its_cell_have_failed(book):
    job = detached(book, "import time\nprint('waits', flush=True)\ntime.sleep(600)")
    wait_for_text(job, "waits")
    ended = of_session()
    os.kill(parent_of(ranks_of(ended)[0]), signal.SIGKILL)
    eventually(lambda: not ended.active and not job.active)
    assert (ended.state, job.state) == ("Failed", "Failed")


def test_a_cell_runs_on_some_ranks_only_and_shows_what_they_say(book, capsys):
    book.cell("import jax, jax.numpy as jnp\nboth = 1\nout = jnp.ones(3)")
    capsys.readouterr()
    one = book.cell(
        "mine = jax.process_index()\nboth = 'new'\nprint('from', mine)", "-s lab --rank 1"
    )
    assert "rank 1 of 2 nodes" in card.text(Facts.of(one), one.snapshot())
    assert [line.text for line in one.logs()] == ["from 1"] and "from 1" in capsys.readouterr().out
    variables = known()["variables"]
    assert (variables["mine"]["ranks"], variables["mine"]["type"]) == ([1], "int")
    assert (variables["both"]["bound_on"], variables["both"]["type"]) == ([1], "str")
    assert "ranks" not in variables["both"] and "bound_on" not in variables["jax"]
    with pytest.raises(UsageError) as refused:
        book.cell("print(mine)")
    assert refused.value.id == "cell.on-some-ranks" and "--rank 1" in refused.value.hint
    book.cell("print(mine)", "-s lab --rank 1 -o mine")
    assert book["mine"] == 1
    del book.user_ns["mine"]
    commands.run_command(["vars", "lab"], commands.Context(print=print, width=200))
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert rows["mine"][-1] == "1" and rows["both"][-3:] == ["differs", "on", "1"]
    assert rows["out"][-1].isdecimal()  # the cell: all ranks have it


def test_the_same_output_of_ranks_is_shown_once(book, capsys, monkeypatch):
    monkeypatch.setattr(grouped, "_TOGETHER", 60)
    book.cell("import jax")
    capsys.readouterr()
    book.cell("print('same')\nprint('I am', jax.process_index())\n0.123", "-s lab --rank all")
    assert capsys.readouterr().out.splitlines() == [
        "ranks 0–1: same",
        "rank 0: I am 0",
        "rank 1: I am 1",
        "ranks 0–1: 0.123",
    ]
    book.cell("0.123")
    assert capsys.readouterr().out.splitlines() == ["0.123"]


@pytest.mark.parametrize("cached", [True, False])
def test_a_collective_that_lacks_ranks_is_refused_and_nothing_is_lost(book, cached):
    book.cell(
        "import jax, jax.numpy as jnp, numpy as np\n"
        "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n"
        "mesh = Mesh(jax.devices(), 'i')\n"
        "total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, 'i'), mesh=mesh,"
        " in_specs=P('i'), out_specs=P()))\n"
        "spread = jax.make_array_from_process_local_data(NamedSharding(mesh, P('i')), np.ones((1, 3)))\n"
        + ("total(spread)" if cached else "")
    )
    before = ranks_of(of_session())
    failed = book.fails("\ntotal(spread)", "-s lab --rank 1")
    assert failed.failure.error["type"] == "OthersNeeded" and failed.failure.rank == 1
    assert failed.failure.error["cell_line"] == 3 and "--rank" in failed.failure.hint
    book.cell("own = (spread + 1).addressable_data(0).sum()", "-s lab --rank 1 -o own")
    assert book["own"] == 6  # a program without a collective
    del book.user_ns["own"]
    book.cell("result = total(spread).sum()", "-s lab -o result")
    assert book["result"] == 6 and ranks_of(of_session()) == before


def test_an_error_on_the_only_rank_that_runs_leaves_the_session_as_it_is(book):
    book.cell("kept = 1")
    before = ranks_of(of_session())
    failed = book.fails("1 / 0", "-s lab --rank 1")
    assert failed.failure.rank == 1 and failed.state == "Failed"
    job = detached(book, "import time\nwhile True: time.sleep(0.01)", "-s lab --rank 1")
    wait_for(job, "Running")
    job.cancel()
    assert job.state == "Cancelled" and book.cell("print(kept)").state == "Succeeded"
    assert ranks_of(of_session()) == before


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ("--rank 1", "backends.rank-without-session"),
        ("-s lab --rank 2", "backends.no-such-rank"),
        ("-s new -n 2 --rank 0,2", "backends.no-such-rank"),
    ],
)
def test_ranks_that_are_not_there_are_refused(book, line, id):
    book.cell("pass")
    with pytest.raises(UsageError) as refused:
        book.cell("pass", line)
    assert refused.value.id == id
