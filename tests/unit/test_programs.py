"""Programs that ranks compile: which are told, and when they are different ones."""

from __future__ import annotations

import itertools

import pytest

from jupyter_jax_trainer.jobdir.failure import RankEnd
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


def looks(watch, *waiting):
    """Return what is said at looks that show these ranks waiting."""
    return [text for ranks in waiting if (text := watch.look(ranks)) is not None]


def compiled(*said):
    watch = ProgramWatch()
    assert [watch.take(rank, one) for rank, one in said] == [None] * len(said)
    return watch


def test_ranks_that_wait_beside_a_new_program_hang():
    both = [(rank, program("a")) for rank in ALL]
    watch = compiled(*both, (1, program("b", line=14)))
    assert watch.has_doubts
    (said,) = looks(watch, ALL, ALL, ALL)
    assert "`step` (cell line 14) on rank 1 but not on ranks 0 and 2" in said
    assert watch.withdraw() is None
    for rank in (0, 2):
        watch.take(rank, program("b"))
    assert watch.withdraw() == said and watch.withdraw() is None
    assert not watch.has_doubts and looks(watch, ALL, ALL) == []


@pytest.mark.parametrize(
    "waiting",
    [
        [ALL],  # a rank may be about to go on
        [ALL, (1,), ALL],
        [(0, 1), (0, 1)],  # rank 2 loads a batch
        [(), ()],
    ],
)
def test_who_may_still_come_to_a_program_does_not_hang(waiting):
    assert looks(compiled((1, program("b"))), *waiting) == []


@pytest.mark.parametrize(
    "said",
    [
        [(rank, program("a")) for rank in ALL],
        [(0, program("b", runs=False))],
        [(0, program("a", number=PROGRAMS - 1))],
    ],
)
def test_without_a_program_of_some_there_is_no_doubt(said):
    watch = compiled(*said)
    assert not watch.has_doubts and looks(watch, ALL, ALL) == []


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


SAME = [(rank, program("a")) for rank in ALL]


def passed(watch, *reports):
    """Return what is said when ranks report, one after another."""
    return [text for rank in reports if (text := watch.pass_step(rank, 1)) is not None]


def test_a_function_that_one_rank_runs_for_other_shapes_is_said_when_all_go_on():
    watch = compiled(*SAME)
    assert passed(watch, *ALL, *ALL, *ALL) == []
    watch.take(1, program("b"))
    assert passed(watch, 0, 1, 2, 0, 0, 0) == []
    (said,) = passed(watch, 1, 2, *ALL, *ALL)
    assert "`step` (cell line 12) on rank 1, while rank 0 ran another `step`" in said


@pytest.mark.parametrize(
    ("said", "reports"),
    [
        ([*SAME, (1, program("b"))], [0, 2, 0, 2]),  # rank 1 does not report, or waits
        ([*SAME, (1, program("b"))], [1, 1, 1]),  # it is ahead
        ([*SAME, (0, program("b", name="mean"))], [*ALL, *ALL]),  # its own business
        ([*SAME, (1, program("b", runs=False))], [*ALL, *ALL]),
        ([*SAME, *((rank, program("b")) for rank in ALL)], [*ALL, *ALL]),
    ],
)
def test_ranks_that_may_still_run_the_same_are_not_said_to_differ(said, reports):
    assert passed(compiled(*said), *reports) == []


def at(rank, **more):
    place = {"cell": "Cell", "cell_line": 3, "doing": None, "frame": None, "seconds": 9.0}
    return RankEnd(rank=rank), {**place, **more}


def test_ranks_that_hang_are_said_until_that_proves_wrong(record):
    record.warn("straggler", "rank 1 is late")
    record.program(1, program("a", (0, 1)))
    assert record.has_doubts
    for _ in range(2):
        record.look_at_programs([at(0, waits=True, compiles="step"), at(1, waits=True)])
        record.look_at_programs([(RankEnd(rank=0), None), at(1, waits=True)])
    assert len(record.state["warnings"]) == 1
    for _ in range(3):
        record.look_at_programs([at(0, waits=True), at(1, waits=True)])
    _, said = record.state["warnings"]
    assert "on rank 1 but not on rank 0" in said
    record.program(0, program("a", (0, 1)))
    assert record.state["warnings"] == ["rank 1 is late"] and not record.has_doubts


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
