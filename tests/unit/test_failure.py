"""Which rank failed first, and what is said about it."""

from __future__ import annotations

import pytest

from jupyter_jax_trainer.jobdir.failure import (
    Failure,
    RankEnd,
    diagnose,
    format_failure,
)
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.text import ranks_text


def error(text="KeyError: 'x'", secondary=False, line=3):
    kind, message = text.split(": ", 1)
    return {
        "type": kind,
        "message": message,
        "traceback": f"Traceback\n{text}",
        "cell_line": line,
        "secondary": secondary,
    }


GLOO = error("XlaRuntimeError: Gloo all-reduce failed: Connection closed by peer", secondary=True)


def end(rank, **fields):
    return RankEnd(rank=rank, joined=True, **fields)


CASES = {
    "the error that came first": (
        [end(0, exit=1, order=2, error=error()), end(1, exit=1, order=1, error=error())],
        1,
        "error",
    ),
    "an error that only lost a peer is not first": (
        [end(0, exit=1, order=1, error=GLOO), end(1, exit=1, order=2, error=error())],
        1,
        "error",
    ),
    "a kill comes before the loss of a peer, though it is seen later": (
        [end(0, exit=1, order=1, error=GLOO), end(1, exit=-9, order=2)],
        1,
        "killed",
    ),
    "a kill by the system for lack of memory": (
        [end(0, stopped=True, exit=1), end(1, exit=-9, order=1, out_of_memory=True)],
        1,
        "memory",
    ),
    "an abort is suspected after everything else": (
        [end(0, exit=-6, order=1), end(1, exit=3, order=2)],
        1,
        "exit",
    ),
    "ranks that were stopped are not first": (
        [end(0, exit=-9, order=1, stopped=True), end(1, exit=1, order=2, error=error())],
        1,
        "error",
    ),
    "a rank that finished is not first": (
        [end(0, exit=-6, order=1, finished=True), end(1, exit=-11, order=2)],
        1,
        "crashed",
    ),
    "only lost peers": (
        [end(0, exit=1, order=1, error=GLOO), end(1, exit=1, order=2, error=GLOO)],
        0,
        "error",
    ),
    "an error that the others were told is its rank's": (
        [end(0, told="KeyError: 'x'", stopped=True), end(1, exit=1, order=1, stopped=True)],
        0,
        "error",
    ),
    "a kill comes before what the others were told": (
        [end(0, exit=1, told="JaxRuntimeError: Gloo"), end(1, exit=-9, order=2)],
        1,
        "killed",
    ),
    "a full disk": (
        [end(0, exit=1, order=1, error=error("OSError: [Errno 28] No space left on device"))],
        0,
        "disk",
    ),
    "no memory in Python": ([end(0, exit=1, order=1, error=error("MemoryError: no"))], 0, "memory"),
}


@pytest.mark.parametrize(("ends", "rank", "kind"), CASES.values(), ids=CASES)
def test_the_first_cause_is_named(ends, rank, kind):
    failure = diagnose(ends)
    assert (failure.rank, failure.kind) == (rank, kind)


def test_a_device_without_memory_names_the_kernel_that_may_hold_it():
    text = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"
    failure = diagnose([end(0, exit=1, order=1, error=error(text))])
    assert (failure.kind, failure.hint) == ("memory", say.USE_LESS_DEVICE_MEMORY())
    failure = diagnose([end(0, exit=1, order=1, error=error("MemoryError: no"))])
    assert (failure.kind, failure.hint) == ("memory", say.USE_LESS_MEMORY())


def test_the_text_names_the_rank_the_line_and_the_others():
    ends = [
        end(0, exit=1, order=2, stopped=True),
        end(1, exit=1, order=1, error=error()),
        end(2, exit=-9, order=3, stopped=True),
    ]
    text = format_failure(diagnose(ends), "digits")
    assert say.RANK_FAILED_FIRST(rank=1, error="KeyError: 'x' (cell line 3)") in text
    assert "Traceback" in text
    assert say.STOPPED_BECAUSE_OF_IT(ranks="Ranks 0 and 2") in text
    assert "%jaxtrain logs digits" in text


def test_what_the_others_were_told_stands_for_a_log_that_is_gone():
    text = format_failure(diagnose([end(0, told="KeyError: 'x'"), end(1, stopped=True)]), "digits")
    told = say.TOLD_BY_OTHERS(error="KeyError: 'x'")
    first, *_ = text.splitlines()
    assert first == say.JOB_FAILED(job="digits", failure=say.RANK_ENDED(rank=0, how=told))
    assert told.hint in text and say.STOPPED_BECAUSE_OF_IT(ranks="Rank 1") in text


def test_an_exit_before_the_rendezvous_says_so():
    failure = diagnose([RankEnd(rank=0, exit=-11, order=1)])
    assert failure.message == say.CRASHED_EARLY()


def test_it_survives_json():
    failure = diagnose([end(0, exit=3, order=1)])
    assert Failure.from_json({**failure.to_json(), "later": 1}) == failure


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([2], "rank 2"),
        ([0, 1], "ranks 0 and 1"),
        ([3, 0, 2], "ranks 0, 2 and 3"),
        (range(1, 64), "ranks 1 to 63"),
        ([0, 2, 4, 6, 8, 10, 12, 14, 16], "9 ranks"),
    ],
)
def test_ranks_are_listed_as_people_do(ranks, text):
    assert ranks_text(list(ranks)) == text
