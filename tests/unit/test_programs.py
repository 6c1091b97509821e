"""Programs that ranks compile: which are told, and when they are different ones."""

from __future__ import annotations

import itertools

import pytest

from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.programs import ProgramWatch
from jupyter_jax_trainer.jobdir.state import new_rank, program_record
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.worker import programs
from jupyter_jax_trainer.worker.records import PROGRAMS

ALL = (0, 1, 2)


def program(digest, ranks=ALL, *, name="step", line=12, number=0, runs=True):
    return {
        "ranks": list(ranks),
        "number": number,
        "runs": runs,
        "name": name,
        "digest": digest,
        "cell": "Cell",
        "cell_line": line,
    }


def told(*said):
    """Take what ranks say, one after another; return what is said of it."""
    watch = ProgramWatch()
    return [text for rank, one in said if (text := watch.take(rank, one)) is not None]


def test_the_same_programs_in_any_interleaving_are_no_difference():
    lines = [[(rank, program(digest)) for digest in "ab"] for rank in (0, 1)]
    for order in set(itertools.permutations([0, 0, 1, 1])):
        left = [iter(line) for line in lines]
        assert told(*(next(left[rank]) for rank in order)) == []


def test_a_difference_is_said_once_with_ranks_functions_and_lines():
    (said,) = told(
        (0, program("a", name="step")),
        (2, program("a", name="step")),
        (1, program("b", name="evaluate", line=15)),
        (1, program("c", name="more", line=16)),
    )
    assert said.id == "jobs.programs-differ"
    assert "`step` (cell line 12) on ranks 0 and 2" in said
    assert "`evaluate` (cell line 15) on rank 1" in said


def test_one_function_with_other_shapes_is_said_so():
    (said,) = told((0, program("a")), (1, program("b")))
    assert said.id == "jobs.same-function-differs"


def test_another_order_is_a_difference():
    assert len(told((0, program("a")), (1, program("b")), (0, program("b")))) == 1


@pytest.mark.parametrize(
    "said",
    [
        # One rank compiles for itself, by design, what it alone runs: the others never do.
        [(0, program("a")), (0, program("b")), (1, program("b")), (2, program("b"))],
        # It has compiled ahead of time what it runs later on, or never.
        [(0, program("b", runs=False)), (0, program("a")), (1, program("a")), (1, program("b"))],
        # Stages of a pipeline: each has programs of its own.
        [(0, program("a", (0, 1))), (2, program("b", (2, 3))), (1, program("a", (0, 1)))],
        # Who has nothing to do with it says so.
        [(0, program("a", (0, 1))), (2, program("b", (0, 1)))],
        # After so many a rank tells of no more.
        [(0, program("a", number=PROGRAMS - 1)), (1, program("b"))],
    ],
)
def test_no_false_alarms(said):
    assert told(*said) == []


@pytest.fixture
def record(tmp_path):
    return Recorder(JobDir(tmp_path), [new_rank(0), new_rank(1)])


def test_it_is_on_the_card_until_the_ranks_start_again(record):
    for _ in range(2):
        record.program(0, program("a", (0, 1)))
        record.program(1, program("b", (0, 1)))
    assert len(record.state["warnings"]) == 1
    record.restart(3, "rank 0 was killed")
    assert "warnings" not in record.state
    record.program(0, program("a", (0, 1)))
    record.program(1, program("b", (0, 1)))
    assert len(record.state["warnings"]) == 1


@pytest.mark.parametrize("change", [{"ranks": 3}, {"number": "x"}, {"cell_line": "x"}])
def test_what_is_no_program_is_refused(change):
    with pytest.raises(TypeError):
        program_record({**program("a"), **change})


class Told:
    def __init__(self):
        self.sent = []

    def send(self, kind, **fields):
        self.sent.append((kind, fields))


@pytest.fixture
def watched(monkeypatch):
    """Hear of the programs of this process, as if other processes ran them, too."""
    from jax._src import compiler

    channel = Told()
    monkeypatch.setattr(compiler, "compile_or_get_cached", compiler.compile_or_get_cached)
    found = programs.Programs(channel, lambda: ("Cell", 3))
    monkeypatch.setattr(programs, "_processes", lambda devices: (0, 1))
    found.watch()
    return found, channel.sent


def test_a_rank_tells_of_each_program_once_and_without_what_differs_by_itself(watched):
    import jax

    found, sent = watched

    def step(x):
        jax.debug.print("{x}", x=x)  # a pointer, which is another one in each process
        return x * 41

    jax.jit(step)(1.0)
    told = [fields for _, fields in sent if fields["name"] == "step"]
    jax.jit(lambda x: step(x)).lower(1.0).compile()
    jax.clear_caches()
    jax.jit(step)(1.0)
    assert [fields for _, fields in sent if fields["name"] == "step"] == told
    assert [one["runs"] for one in told] == [True]
    assert [fields["runs"] for _, fields in sent if fields["name"] == "_lambda"] == [False]
    assert [fields["number"] for _, fields in sent] == list(range(len(sent)))
    assert found.current() is None


def test_what_is_being_compiled_is_known(watched):
    import jax

    found, _ = watched
    seen = []
    found._place = lambda: seen.append(found.current()) or ("Cell", 3)

    def slow(x):
        return x * 43

    jax.jit(slow)(1.0)
    assert "slow" in seen


def test_what_one_process_runs_by_itself_is_not_told(watched, monkeypatch):
    import jax

    monkeypatch.setattr(programs, "_processes", lambda devices: (0,))
    jax.jit(lambda x: x * 47)(1.0)
    assert watched[1] == []
