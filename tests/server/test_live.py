"""The WebSocket: what has been opened changes at once, whatever page and server go through."""

from __future__ import annotations

import json
import time

import pytest
import websocket
from harness import eventually, submit
from made_jobs import make_job, running_job

from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.waiting import Waiting
from jupyter_jax_trainer.messages import jobs
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.queries.page import MAX_WAITING
from jupyter_jax_trainer.server.live import MAX_MESSAGE
from server.servers import Server


def change(directory, **fields):
    files.write_json(directory.state, {**directory.read_state(), **fields})


@pytest.mark.slow
def test_the_list_of_jobs_lives(server):
    with running_job("first") as first, server.page() as page:
        page.say(op="open", id=1, topic="jobs")
        found = page.hear("jobs")
        assert found["id"] == 1 and found["all"] and [r["key"] for r in found["rows"]] == ["first"]
        make_job("second")
        found = page.hear("jobs")
        assert not found["all"] and [row["key"] for row in found["rows"]] == ["second"]
        assert abs(found["now"] - time.time()) < 10
        change(first, state="Succeeded", history=[{"state": "Succeeded", "time": 5.0}])
        assert page.hear("jobs")["rows"][0]["state"] == "Succeeded"
        first.remove()
        found = page.hear("jobs")
        assert (found["rows"], found["gone"]) == ([], ["first"])


def test_a_real_job_from_its_start_to_its_end(server):
    with server.page() as page:
        page.say(op="open", id=1, topic="jobs")
        page.hear("jobs")
        job = submit(
            "from jupyter_jax_trainer import report\nfor n in range(5): report(step=n, loss=n)\n",
            line="-n 1",
        )
        page.say(op="open", id=2, topic="job", key=job.name)
        states = []
        while "Succeeded" not in states:
            found = page.hear("jobs", 1)
            states += [row["state"] for row in found["rows"]]
        with server.page() as other:  # a second view shows everything, too
            other.say(op="open", id=7, topic="job", key=job.name)
            points = other.hear("metrics", 7)
            assert points["from"] == 0 and len(points["points"]) == 5
            assert other.hear("events", 7)["events"]
            detail = other.hear("job", 7)["detail"]  # the last one: a page can show all of it then
            assert detail["state"]["state"] == "Succeeded"


def test_a_compact_view_and_the_cell_that_waits(server):
    with (
        running_job("one", logs={0: ["a", "b"]}) as directory,
        Waiting(directory) as waiting,
        server.page() as page,
    ):
        page.say(op="open", id=1, topic="summary", key="one")
        found = page.hear("summary")["summary"]
        while not found["awaited"]:  # the lock may be seen a look later
            found = page.hear("summary")["summary"]
        assert found["row"]["key"] == "one" and [text for _, _, text in found["tail"]] == ["a", "b"]
        assert "float32[10]" in found["sent"] and found["note"] is None
        waiting.say("interrupt again")
        assert page.hear("summary")["summary"]["note"] == "interrupt again"
        assert server.ask("POST", "jobs/one/detach", {})[0] == 200
        assert waiting.over()
        change(directory, state="Succeeded")
        assert not page.hear("summary")["summary"]["awaited"]


def test_the_last_lines_of_a_job(server):
    lines = [f"line {n}" for n in range(30)]
    with running_job("one", logs={0: lines}) as directory, server.page() as page:
        page.say(op="open", id=3, topic="job", key="one")
        kinds = [json.loads(page.socket.recv())["kind"] for _ in range(4)]
        assert kinds == ["metrics", "events", "tail", "job"]  # all of it is there when it is shown
        page.say(op="open", id=4, topic="job", key="one")
        lines = page.hear("tail", 4)["lines"]
        assert [text for _, _, text in lines] == [f"line {n}" for n in range(20, 30)]
        with directory.log(0).open("a") as file, directory.log_index.open("a") as index:
            file.write("another line\u202e\n")
            index.write(json.dumps([0, file.tell(), 9.0]) + "\n")
        assert page.hear("tail", 4)["lines"][-1] == [0, 9.0, "another line"]


def test_what_a_job_reports_comes_once(server):
    directory = make_job("one")
    point = {"time": 1.0, "rank": 0, "step": 0, "total": None, "values": {"loss": 1.0}}
    with server.page() as page:
        page.say(op="open", id=3, topic="job", key="one")
        assert page.hear("metrics", 3)["points"] == page.hear("events", 3)["events"] == []
        page.hear("job")
        seen = 0
        for count in (1, 2500, 3):
            with directory.metrics.open("a") as file:
                file.writelines(json.dumps({**point, "step": n}) + "\n" for n in range(count))
            upto = seen + count
            while seen < upto:
                found = page.hear("metrics", 3)
                assert found["from"] == seen
                seen += len(found["points"])
        page.say(op="close", id=3)
        page.say(op="fly", id=9)  # once that is answered, it is closed
        page.hear("error", 9)
        with directory.metrics.open("a") as file:
            file.write(json.dumps(point) + "\n")
        with pytest.raises(websocket.WebSocketTimeoutException):
            page.hear("metrics", 3, seconds=1)


@pytest.mark.slow
def test_a_page_opens_its_things_again_when_the_server_was_restarted(server):
    make_job("one")
    server.stop()
    server.start()
    with server.page() as page:
        page.say(op="open", id=1, topic="jobs")
        assert page.hear("jobs")["rows"][0]["key"] == "one"


def test_what_can_t_be_asked(server):
    with server.page() as page:
        for message, said in (
            ({"op": "open", "id": 1, "topic": "job", "key": "none"}, jobs.NO_JOB(job="none")),
            ({"op": "open", "id": 1, "topic": "job", "key": "../etc"}, jobs.NO_JOB(job="../etc")),
            ({"op": "open", "id": 1, "topic": "weather"}, say.UNKNOWN_TOPIC(topic="weather")),
            ({"op": "fly", "id": 1}, say.UNKNOWN_OPERATION(operation="fly")),
            ({"op": "open"}, say.NO_ID()),
            ({"op": "open", "id": [1]}, say.NO_ID()),
            ({"op": "close", "id": {"a": 1}}, say.NO_ID()),
        ):
            page.say(**message)
            assert page.hear("error")["message"] == said
        make_job("one")
        for number in range(65):
            page.say(op="open", id=number, topic="job", key="one")
        assert page.hear("error", 64)["message"] == say.TOO_MANY_TOPICS(most=64)
    for text in ("no json", "[]", "[" * 100_000, "1" * 10_000, '{"id": 1}\xff'.encode("latin-1")):
        with server.page() as page:
            page.socket.send(text)
            with pytest.raises((ConnectionError, websocket.WebSocketConnectionClosedException)):
                page.hear("jobs")
    assert "Traceback" not in server.log.read_text()


def test_a_message_has_a_bound(server):
    make_job("one")
    empty = len(json.dumps({"op": "", "id": 1}))
    with server.page() as page, server.page() as other:
        page.say(op="x" * (MAX_MESSAGE - empty), id=1)
        assert "Unknown operation" in page.hear("error", 1)["message"]
        with pytest.raises((ConnectionError, websocket.WebSocketException)):
            page.say(op="x" * (MAX_MESSAGE - empty + 1), id=2)
            page.hear("error", 2)
        other.say(op="open", id=1, topic="jobs")  # it cost nobody else anything
        assert other.hear("jobs")["rows"]


def test_a_page_that_asks_and_does_not_listen_is_cut_off(server):
    make_job("long", logs={0: ["x" * 4000] * 5000})  # more than what is on its way can hold
    with server.page() as page, server.page() as other:
        page.say(op="open", id=1, topic="log", key="long")
        while not page.hear("log")["complete"]:
            pass
        asked = range(2, MAX_WAITING + 10)
        for number in asked:
            page.say(op="lines", id=number, view=1, start=0, count=5000)
        other.say(op="open", id=1, topic="jobs")  # it costs nobody else anything
        assert other.hear("jobs")["rows"]
        heard, (opcode, data) = 0, page.socket.recv_data(control_frame=True)
        while opcode != websocket.ABNF.OPCODE_CLOSE:
            heard += b'"lines"' in data[:100]
            opcode, data = page.socket.recv_data(control_frame=True)
        assert int.from_bytes(data[:2], "big") == 1008 and b"too much at once" in data
        assert heard < 5, "answers have piled up"


@pytest.fixture
def small(store, tmp_path):
    server = Server(tmp_path, store, "--JaxTrain.max_pages=2")
    yield server
    server.stop()


@pytest.mark.slow
def test_no_more_pages_are_let_in_than_the_server_takes(small):
    make_job("one")
    with small.page() as first:
        with small.page() as second:
            with pytest.raises(websocket.WebSocketBadStatusException) as refused, small.page():
                pass
            assert refused.value.status_code == 503
            assert say.TOO_MANY_PAGES() in str(refused.value)
            for page in (first, second):
                page.say(op="open", id=1, topic="jobs")
                assert page.hear("jobs")["rows"]
            assert small.get("jobs")["jobs"]  # requests have nothing to do with it
        eventually(lambda: comes_in(small))  # when there is room again
    assert "Traceback" not in small.log.read_text()


def comes_in(server):
    try:
        with server.page() as page:
            page.say(op="open", id=1, topic="jobs")
            return page.hear("jobs")["rows"]
    except websocket.WebSocketBadStatusException:
        return False


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Authorization": "token wrong"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_foreign_pages_are_not_let_in(server, headers):
    with pytest.raises(websocket.WebSocketBadStatusException) as refused, server.page(**headers):
        pass
    assert refused.value.status_code == 403
