"""Log lines by position, filters and searches over the whole log, on the WebSocket."""

from __future__ import annotations

import json
import random
import re
import time
from string import Formatter

import pytest
from harness import submit
from made_jobs import held, make_job
from pace import within

from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.options.spec import JobSpec

LINES = 5000


def grow(directory, count, begin=0, seed=0):
    """Add lines of four ranks to a job's logs, in pieces; give them in the merged order."""
    chance, merged = random.Random(seed), []
    sizes = {
        rank: directory.log(rank).stat().st_size if directory.log(rank).exists() else 0
        for rank in range(4)
    }
    with directory.log_index.open("a") as index:
        while begin < count:
            rank, some = chance.randrange(4), min(chance.randrange(1, 30), count - begin)
            piece = [f"rank {rank} line {n}" for n in range(begin, begin + some)]
            data = "".join(f"{line}\n" for line in piece).encode()
            with directory.log(rank).open("ab") as file:
                file.write(data)
            sizes[rank] += len(data)
            index.write(json.dumps([rank, sizes[rank], 1000.0 + begin]) + "\n")
            merged += [(rank, line) for line in piece]
            begin += some
    return merged


@pytest.fixture
def directory(server):
    directory = make_job("one", "Running", spec=JobSpec(nodes=4))
    directory.log_index.write_text("")
    with held(directory):
        yield directory


@pytest.fixture
def page(server, directory):
    with server.page() as page:
        yield page


def log(page, number=1, complete=True, **more):
    """Open a view, and wait until all of it is known."""
    page.say(op="open", id=number, topic="log", key="one", **more)
    return until(page, number, lambda found: found["complete"] or not complete)


def until(page, number, check):
    while True:
        found = page.hear("log", number)
        if check(found):
            return found


def lines(page, start, count, view=1):
    page.say(op="lines", id=99, view=view, start=start, count=count)
    return page.hear("lines", 99)["lines"]


def test_lines_are_paged_by_position(page, directory):
    merged = grow(directory, LINES)
    assert log(page)["length"] == LINES
    for start in (0, 1234, LINES - 10):
        found = lines(page, start, 20)
        assert [line[0] for line in found] == list(range(start, min(start + 20, LINES)))
        assert [(line[1], line[3]) for line in found] == merged[start : start + 20]
    assert lines(page, LINES, 5) == []


def test_a_page_knows_which_logs_there_are_before_their_lines(page, directory):
    grow(directory, 10)
    page.say(op="open", id=1, topic="log", key="one")
    told = [json.loads(page.socket.recv()) for _ in range(2)]
    assert told[0] == {"id": 1, "kind": "logs", "name": "one", "logs": [0, 1, 2, 3]}
    assert told[1]["kind"] == "log"
    (directory.logs / "init.log").write_text("a\n")
    grow(directory, 20, 10)
    assert page.hear("logs", 1)["logs"] == [0, 1, 2, 3, "init"]


def test_what_comes_later_has_the_next_positions_in_every_view(page, server, directory):
    merged = grow(directory, 1000)
    log(page)
    log(page, 2, sources=[2], include={"pattern": "7"})
    first = lines(page, 0, 1000, view=2)
    merged += grow(directory, 2000, 1000, seed=1)
    wanted = [(rank, line) for rank, line in merged if rank == 2 and "7" in line]
    lengths = {}
    while lengths != {1: 2000, 2: len(wanted)}:
        found = page.hear("log")
        lengths[found["id"]] = found["length"]
    again = lines(page, 0, 2000, view=2)
    assert [(line[1], line[3]) for line in again] == wanted and again[: len(first)] == first
    with server.page() as other:  # after a reload, or a restart of the server
        log(other, 5, sources=[2], include={"pattern": "7"})
        assert lines(other, 0, 2000, view=5) == again


def test_a_search_over_the_whole_log(page, directory):
    merged = grow(directory, LINES)
    log(page)
    page.say(op="search", id=2, view=1, pattern="LINE [0-9]*99$", regex=True, **{"from": 2500})
    wanted = [n for n, (_, line) in enumerate(merged) if line.endswith("99")]
    while not (found := page.hear("hits", 2))["complete"]:
        pass
    assert found["count"] == len(wanted) and found["near"] == wanted
    page.say(op="hit", id=3, search=2, **{"from": 2500})
    after = next(n for n in wanted if n > 2500)
    found = page.hear("hit", 3)
    assert (found["position"], found["number"]) == (after, wanted.index(after) + 1)
    page.say(op="hit", id=4, search=2, back=True, **{"from": wanted[0]})
    assert page.hear("hit", 4)["position"] == wanted[-1]  # round the end
    page.say(op="search", id=5, view=1, pattern="LINE 1", case=True)
    while not (found := page.hear("hits", 5))["complete"]:
        pass
    assert found["count"] == 0
    page.say(op="hit", id=6, search=5)
    assert page.hear("hit", 6)["position"] is None


def test_where_lines_match_is_told_for_what_a_page_shows(page, directory):
    grow(directory, 10)
    log(page)
    page.say(op="search", id=2, view=1, pattern=r"(?:\d+ )?LINE", regex=True)
    page.say(op="marks", id=3, search=2, texts=["rank 12 line line", "none", "\U0001f600line"])
    assert page.hear("marks", 3)["marks"] == [[[5, 12], [13, 17]], [], [[2, 6]]]
    for texts in (None, "a", [1], {"a": 1}):
        page.say(op="marks", id=4, search=2, texts=texts)
        assert page.hear("error", 4)["message"] == say.NOT_TEXTS()


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "(.*a){20}!"])
def test_no_expression_keeps_the_server_busy(page, directory, pattern):
    long = "a" * (64 << 10) + "x"  # to go back and try again would take longer than there is time
    directory.log(0).write_text(f"{long}\n" * 40)
    directory.log_index.write_text(json.dumps([0, 40 * (len(long) + 1), 1.0]) + "\n")
    began = time.monotonic()
    log(page, include={"pattern": pattern, "regex": True})
    log(page, 2)
    page.say(op="search", id=3, view=2, pattern=pattern, regex=True)
    while not (found := page.hear("hits", 3))["complete"]:
        pass
    assert found["count"] == 0
    page.say(op="marks", id=4, search=3, texts=[long[-4096:]] * 40)
    assert page.hear("marks", 4)["marks"] == [[]] * 40
    assert within(time.monotonic() - began, 60)


def test_the_first_error_and_a_time(page, directory):
    merged = grow(directory, 1000)
    trace = b"Traceback (most recent call last):\nKeyError: 'labels'\n"
    with directory.log(3).open("ab") as file:
        file.write(trace)
    with directory.log_index.open("a") as index:
        index.write(json.dumps([3, directory.log(3).stat().st_size, 9000.0]) + "\n")
    log(page, sources=[3])
    page.say(op="find", id=2, view=1, what="error")
    found = page.hear("found", 2)
    assert found["position"] == 1000
    assert found["index"] == sum(rank == 3 for rank, _ in merged)
    page.say(op="find", id=3, view=1, what="time", time=8999)
    assert page.hear("found", 3)["position"] == 1000


def test_a_long_line_is_cut_in_the_list_and_whole_when_asked_for(page, directory):
    text = "x" * 100_000
    directory.log(0).write_text(text + "\nhalf")
    directory.log_index.write_text(json.dumps([0, len(text) + 1, 1.0]) + "\n")
    found = log(page)
    assert found["length"] == 1 and found["open"] == {"0": "half"}
    [[_, _, _, shown, size]] = lines(page, 0, 1)
    assert len(shown) == 4096 and size == 100_000
    page.say(op="line", id=2, view=1, position=0)
    assert page.hear("line", 2)["text"] == text


def test_of_a_line_that_is_longer_than_that_it_is_told_how_long_it_is(page, directory):
    directory.log(0).write_text("x" * 1_500_000 + "\n")
    directory.log_index.write_text(json.dumps([0, 1_500_001, 1.0]) + "\n")
    assert log(page)["length"] == 1
    page.say(op="line", id=2, view=1, position=0)
    found = page.hear("line", 2)
    assert (len(found["text"]), found["bytes"]) == (1 << 20, 1_500_000)


def test_other_containers(page, directory):
    (directory.logs / "rank-0.proxy.log").write_text("a\nb\n")
    with directory.log_index.open("a") as index:
        index.write(json.dumps(["rank-0.proxy", 4, 1.0]) + "\n")
    assert log(page, sources=["rank-0.proxy"])["length"] == 2
    assert [line[1:4:2] for line in lines(page, 0, 9)] == [
        ["rank-0.proxy", "a"],
        ["rank-0.proxy", "b"],
    ]


def test_the_end_of_a_job_brings_the_last_line_without_an_end(page, directory):
    directory.log(0).write_text("a\nno newline")
    assert log(page, complete=False)["length"] == 0
    state = directory.read_state()
    files.write_json(
        directory.state,
        {**state, "state": "Succeeded", "history": [{"state": "Succeeded", "time": 5.0}]},
    )
    assert until(page, 1, lambda found: found["ended"] and found["complete"])["length"] == 2
    assert [line[3] for line in lines(page, 0, 9)] == ["a", "no newline"]


@pytest.mark.slow
def test_a_real_job_while_it_prints(server, tmp_path):
    go = tmp_path / "go"
    with server.page() as page:
        job = submit(
            "import time\nfrom pathlib import Path\nfor n in range(300):\n    print('line', n)\n"
            f"    while n == 149 and not Path({str(go)!r}).exists(): time.sleep(0.01)",
            line="-n 2",
        )
        page.say(op="open", id=1, topic="log", key=job.name)
        assert not until(page, 1, lambda found: found["length"] == 300)["ended"]
        go.touch()
        found = until(page, 1, lambda found: found["ended"] and found["complete"])
        assert found["length"] == 600
        texts = [(line[1], line[3]) for line in lines(page, 0, 600)]
        for rank in (0, 1):
            assert [text for who, text in texts if who == rank] == [f"line {n}" for n in range(300)]


def test_what_can_t_be_asked_of_a_log(page, directory):
    grow(directory, 10)
    log(page)
    for message, said in (
        ({"op": "open", "topic": "log", "key": "one", "sources": [4]}, say.NO_SUCH_LOGS),
        (
            {"op": "open", "topic": "log", "key": "one", "sources": ["../manifest"]},
            say.NO_SUCH_LOGS,
        ),
        ({"op": "open", "topic": "log", "key": "one", "sources": [True]}, say.NO_SUCH_LOGS),
        ({"op": "open", "topic": "log", "key": "one", "sources": {"a": [0]}}, say.NO_SUCH_LOGS),
        (
            {"op": "open", "topic": "log", "key": "one", "sources": ["no"] * 30_000},
            say.NO_SUCH_LOGS,
        ),
        (
            {
                "op": "open",
                "topic": "log",
                "key": "one",
                "include": {"pattern": "(", "regex": True},
            },
            say.BAD_PATTERN,
        ),
        ({"op": "lines", "view": 77, "start": 0, "count": 1}, say.LOG_NOT_OPEN),
        ({"op": "lines", "view": [1], "start": 0, "count": 1}, say.LOG_NOT_OPEN),
        ({"op": "lines", "view": 1, "start": -1, "count": 1}, say.NOT_A_LINE_NUMBER),
        ({"op": "line", "view": 1, "position": 10}, say.NO_LINE),
        ({"op": "search", "view": 1, "pattern": ""}, say.NOTHING_TO_SEARCH),
        ({"op": "search", "view": 1, "pattern": "a" * 2000}, say.PATTERN_TOO_LONG),
        ({"op": "search", "view": 1, "pattern": r"(a)\1", "regex": True}, say.BAD_PATTERN),
        (
            {"op": "search", "view": 1, "pattern": "a(?=b)", "regex": True},
            say.BAD_PATTERN,
        ),
        ({"op": "marks", "search": 1, "texts": ["a"]}, say.SEARCH_NOT_OPEN),
        ({"op": "find", "view": 1, "what": "me"}, say.CANNOT_LOOK_FOR),
        ({"op": "hit", "search": 1}, say.SEARCH_NOT_OPEN),
    ):
        page.say(id=50, **message)
        found = page.hear("error", 50)
        # The fixed words of the message, with anything for its parameters.
        words = [re.escape(words) for words, *_ in Formatter().parse(said.text)]
        assert re.fullmatch(".*".join([*words, ""]), found["message"], re.DOTALL), found
    assert lines(page, 0, 1)  # the page goes on
