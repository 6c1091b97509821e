"""Where the time of a job goes, and which rank the others wait for: what is said, and measured."""

from __future__ import annotations

import json
import linecache
import re
import sys
import time
from pathlib import Path

import pytest
from lineless import without_lines
from made_jobs import make_job

from jupyter_jax_trainer import api
from jupyter_jax_trainer.commands import listing
from jupyter_jax_trainer.jobdir import timing
from jupyter_jax_trainer.jobdir.describe import pulse, remarks
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import compiled_record, new_rank, spent_record
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.queries import details
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.worker import standstill
from jupyter_jax_trainer.worker import timing as measured
from jupyter_jax_trainer.worker.records import KINDS


def rank(number, host=0.0, *, steps=10, seconds=10.0, **more):
    pace = {"steps": steps, "seconds": seconds, "host": host}
    return {**new_rank(number), "pace": pace, **more}


# ---- stragglers


def test_how_late_each_rank_comes_is_counted_from_the_first():
    found = timing.lateness([rank(0, 1.0), rank(1, 3.0), rank(2, 0.5)])
    assert [(one.rank, one.step) for one in found] == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert [one.late for one in found] == pytest.approx([0.05, 0.25, 0.0])


def test_a_rank_costs_what_it_is_later_than_the_last_of_the_others():
    number, words = timing.straggler([rank(0, 1.0), rank(1, 3.0), rank(2, 0.5)])
    assert number == 1 and "20 %" in words and "200 ms" in words
    assert timing.straggler([rank(0, 3.0), rank(1, 3.0), rank(2, 0.5)]) is None
    assert timing.straggler([rank(0, 1.0), rank(1, 1.9)]) is None


def test_ranks_that_do_not_report_take_the_steps_of_those_that_do():
    number, words = timing.straggler([rank(0, 1.0), rank(1, 15.0, steps=0, seconds=30.0)])
    assert number == 1 and "40 %" in words


@pytest.mark.parametrize(
    "ranks",
    [
        [rank(0, 5.0)],
        [rank(0, 5.0), new_rank(1)],  # it has not said anything yet
        [rank(0, 5.0), {**new_rank(1), "pace": None}],
        [rank(0, 5.0, steps=0), rank(1, 1.0, steps=0)],
        [rank(0, 5.0, seconds=0.0), rank(1, 1.0, seconds=0.0)],
    ],
)
def test_what_can_not_be_told_is_not(ranks):
    assert timing.lateness(ranks) == [] and timing.straggler(ranks) is None


def test_it_is_said_once_and_on_the_card(tmp_path):
    record = Recorder(JobDir(tmp_path), [new_rank(0), new_rank(1)])
    spent = dict.fromkeys(KINDS, 1.0)
    for host in (4.0, 5.0, 6.0):
        record.spent(0, spent, rank(0, 1.0)["pace"])
        record.spent(1, spent, rank(1, host)["pace"])
    (words,) = record.state["warnings"]
    assert words in remarks(record.state) and "rank 1" in words
    (told,) = JobDir(tmp_path).events.read_text().splitlines()
    assert json.loads(told)["message"] == words and json.loads(told)["rank"] is None
    record.restart(1, "killed")
    assert "spent" not in record.state["ranks"][0] and "warnings" not in record.state


def lines_of(table):
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


LATE = [
    ["RANK", "STEP", "OUTSIDE JAX", "LATE"],
    ["0", "1.0 s", "100 ms", "50 ms"],
    ["1", "1.0 s", "300 ms", "250 ms"],
    ["2", "1.0 s", "50 ms", "0 ms"],
]


def test_show_has_a_table_of_how_late_each_rank_comes(home):
    ranks = [rank(0, 1.0), rank(1, 3.0), rank(2, 0.5)]
    make_job("late", ranks=ranks)
    make_job("alone", ranks=ranks[:1])
    shown = listing.details(api.job("late"))
    (table,) = (part for part in shown.split("\n\n") if "OUTSIDE JAX" in part)
    assert lines_of(table) == LATE
    assert "OUTSIDE JAX" not in listing.details(api.job("alone"))


def test_the_page_has_the_same(home):
    spent = dict.fromkeys(KINDS, 1.0)
    make_job("late", ranks=[rank(0, 1.0, spent=spent), rank(1, 3.0), rank(2, 0.5)])
    found = details.detail(details.find("late"), None)["spending"]
    assert found["parts"].keys() >= {"steps", "compiling"} and 0 < found["goodput"] < 1
    assert [list(one) for one in found["late"]] == [["rank", "step", "host", "late"]] * 3
    values = [pytest.approx(tuple(one.values())) for one in found["late"]]
    assert values == [(0, 1.0, 0.1, 0.05), (1, 1.0, 0.3, 0.25), (2, 1.0, 0.05, 0.0)]


# ---- where the time goes


def snapshot(ranks, *entries):
    history = [{"state": state, "time": at} for state, at in entries]
    return {"state": entries[-1][0], "history": history, "ranks": ranks}


SPENT = {
    "importing": 1.0,
    "compiling": 20.0,
    "data": 3.0,
    "host": 1.0,
    "steps": 60.0,
    "checkpoints": 5.0,
}


def test_the_time_is_that_of_the_rank_that_steps_least():
    faster = {**dict.fromkeys(KINDS, 0.0), "steps": 90.0}
    ranks = [{**new_rank(0), "spent": faster}, {**new_rank(1), "spent": SPENT}]
    shown = snapshot(
        ranks,
        (State.QUEUED, 101.0),
        (State.PENDING, 103.0),
        (State.STARTING, 105.0),
        (State.RUNNING, 110.0),
        (State.SUCCEEDED, 202.0),
    )
    found = timing.timeline(shown, created=100.0, now=999.0)
    assert found.parts == {"waiting": 5.0, "starting": 5.0, **SPENT, "other": 2.0}
    assert found.goodput == pytest.approx(60 / 102)
    words = timing.timeline_text(found)
    assert "59 %" in words and "compiling 20 s, data 3.0 s, other Python 1.0 s" in words
    assert "compiling 20 s" in pulse(shown)


def test_parts_are_never_more_than_the_whole():
    ranks = [{**new_rank(0), "spent": {**SPENT, "steps": 1e9}}]
    shown = snapshot(ranks, (State.RUNNING, 100.0))
    found = timing.timeline(shown, created=200.0, now=150.0)  # a clock that was set
    assert sum(found.parts.values()) == 50.0 and 0.0 <= found.goodput <= 1.0


def test_ranks_that_say_nothing_of_it_have_no_timeline():
    assert timing.timeline(snapshot([new_rank(0)], (State.RUNNING, 1.0)), 1.0, 9.0) is None
    assert timing.timeline({"state": "x", "history": [], "ranks": []}, 1.0, 9.0) is None


def test_functions_are_those_that_took_longest_in_any_rank():
    def of(**seconds):
        functions = [{"name": n, "count": 1, "seconds": s} for n, s in seconds.items()]
        return {"hits": 0, "misses": 1, "saved": 0.0, "seconds": 1.0, "functions": functions}

    ranks = [
        {**new_rank(0), "compiled": of(step=3.0, init=0.5)},
        {**new_rank(1), "compiled": of(step=4.0, tiny=0.01)},
    ]
    assert [one["name"] for one in timing.functions_of(ranks)] == ["step", "init", "tiny"]
    words = timing.functions_text(ranks)
    assert "`step` 4.0 s" in words and "tiny" not in words
    assert timing.functions_text([new_rank(0)]) == ""


@pytest.mark.parametrize(
    "said",
    [
        {"spent": 3, "pace": None},
        {"spent": {"steps": "x"}, "pace": None},
        {"spent": {}, "pace": {"steps": "x", "seconds": 1.0, "host": 1.0}},
        {"spent": {}, "pace": {}},
    ],
)
def test_what_a_rank_may_not_say_is_refused(said):
    with pytest.raises((TypeError, KeyError)):
        spent_record(said)


def test_what_is_said_of_functions_is_bounded():
    more = [{"name": "x" * 999, "count": 1, "seconds": 1}] * 99
    found = compiled_record({"hits": 0, "misses": 0, "saved": 0, "seconds": 0, "functions": more})[
        "functions"
    ]
    assert len(found) == 10 and len(found[0]["name"]) == 80


# ---- looks at a thread


class Told:
    def __init__(self):
        self.sent = []

    def send(self, kind, **fields):
        self.sent.append((kind, fields))


def kinds_in(source, file="<cell>", **names):
    """Return what looks find in code of a file, at each `probe()`; `report()` ends a step."""
    found = []
    watch = measured.Timing(Told())
    watch.begin()
    names["probe"] = lambda: found.append(watch._kind(sys._getframe(1)))
    names["report"] = watch.step
    exec(compile(source, file, "exec"), names)
    watch.end()
    return found


def kind_in(file, name):
    """Return what a look finds in code of a file, in a function of that name."""
    return kinds_in(f"def {name}():\n    probe()\n{name}()", file)[0]


@pytest.mark.parametrize(
    ("file", "name", "kind"),
    [
        ("/x/jax/_src/compiler.py", "compile_or_get_cached", "compiling"),
        ("/x/jax/_src/interpreters/partial_eval.py", "trace_to_jaxpr_dynamic", "compiling"),
        ("/x/orbax/checkpoint/x.py", "save", "checkpoints"),
        ("/x/numpy/lib/_npyio_impl.py", "savez", "checkpoints"),
        ("/x/numpy/lib/_npyio_impl.py", "load", "data"),
        ("/x/numpy/lib/_polynomial_impl.py", "polyfit", "host"),
        ("/x/site-packages/grain/_src/python/dataset/dataset.py", "_get", "data"),
        ("/x/site-packages/torch/utils/data/dataloader.py", "_next_data", "data"),
        ("/x/site-packages/torch/nn/modules/module.py", "__call__", "host"),
        ("<frozen importlib._bootstrap>", "exec_module", "importing"),
        ("<cell>", "load_batch", "data"),
        ("<cell>", "get_train_data", "data"),
        ("<cell>", "__getitem__", "data"),
        ("<cell>", "train_on_batch", "host"),
        ("<cell>", "load_model", "host"),
        ("/x/site-packages/flax/nnx/statelib.py", "__getitem__", "host"),
    ],
)
def test_code_is_known_by_where_it_is_or_what_it_is_called(file, name, kind):
    assert kind_in(file, name) == kind


@pytest.mark.parametrize("library", ["orbax", "grain"])
def test_a_library_is_imported_not_used(library):
    inner = compile("probe()", f"/x/site-packages/{library}/__init__.py", "exec")
    source = "def exec_module():\n    exec(inner)\nexec_module()"
    assert kinds_in(source, "<frozen importlib._bootstrap>", inner=inner) == ["importing"]


def test_a_generator_gives_data():
    source = "def batches():\n    probe()\n    yield 1\nfor batch in batches():\n    probe()"
    assert kinds_in(source) == ["data", "host"]
    assert kinds_in("list(probe() for _ in range(1))") == ["host"]


def test_what_reports_trains_and_gives_no_data():
    source = """
def load_data():
    probe()

def epochs():
    for step in range(2):
        probe()
        load_data()
        report()
        yield step

list(epochs())
"""
    assert kinds_in(source) == ["data", "data", "host", "data"]


def test_a_function_of_jax_is_a_step():
    import jax

    compiled = jax.jit(lambda x: x)
    spots, found = measured.Spots(), []
    source = "def train(step):\n    step(wrong)\ntrain(step)\n"
    linecache.cache["<steps>"] = (len(source), None, source.splitlines(True), "<steps>")
    try:
        exec(compile(source, "<steps>", "exec"), {"step": compiled, "wrong": object()})
    except TypeError as error:
        trace = error.__traceback__
        while trace.tb_frame.f_code.co_name != "train":
            trace = trace.tb_next
        found = [spots.is_in_jax(trace.tb_frame) for _ in range(2)]
    assert found == [True, True]


def test_code_without_a_line_is_no_step_in_a_worker_either():
    import jax  # noqa: F401  # nothing is a step before

    code = compile(Path(standstill.__file__).read_text(), "<travels>", "exec", optimize=2)
    travels = {"__name__": "travels"}
    exec(code, travels)

    def fails():
        raise ValueError

    without_lines(fails)
    try:
        fails()
    except ValueError as error:
        frame = error.__traceback__.tb_next.tb_frame
    assert (None,) * 4 in list(frame.f_code.co_positions())
    assert not travels["Spots"]().is_in_jax(frame)


def test_a_cell_s_time_is_summed_up_and_told(monkeypatch):
    monkeypatch.setenv("JAXTRAIN_PACE_INTERVAL", "0.3")
    channel = Told()
    watch = measured.Timing(channel)
    watch.begin()
    for _ in range(8):
        time.sleep(0.1)
        watch.step()
    watch.end()
    watch.end()
    kinds = {kind for kind, _ in channel.sent}
    last = channel.sent[-1][1]
    assert kinds == {"spent"} and last["spent"].keys() == set(KINDS)
    assert 0.4 < last["spent"]["host"] < 5
    assert last["pace"]["steps"] >= 1 and last["pace"]["host"] > 0.5 * last["pace"]["seconds"]
    told = len(channel.sent)
    watch.begin()  # another cell
    watch.end()
    assert channel.sent[told][1]["spent"]["host"] < last["spent"]["host"]


def test_who_loads_data_is_outside_of_jax_too(monkeypatch):
    monkeypatch.setenv("JAXTRAIN_PACE_INTERVAL", "0.3")
    channel = Told()
    watch = measured.Timing(channel)

    def load_batch():
        time.sleep(0.1)

    watch.begin()
    for _ in range(8):
        load_batch()
        watch.step()
    watch.end()
    last = channel.sent[-1][1]
    assert last["spent"]["data"] > 0.4 > last["spent"]["host"]
    assert last["pace"]["host"] > 0.5 * last["pace"]["seconds"]
