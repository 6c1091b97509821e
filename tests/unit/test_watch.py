"""Listing and watching against a real HTTP server that does what a real API does rarely."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from harness import eventually
from logserver import PlainClient

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import watch
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Unreachable
from jupyter_jax_trainer.backends.kubernetes.api.objects import ApiObject
from jupyter_jax_trainer.backends.kubernetes.api.watch import Watch
from jupyter_jax_trainer.messages import cluster as say

SOON = 20.0


def item(name: str, version: int, **more: object) -> dict:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, **more}


def event(kind: str, name: str, version: int) -> bytes:
    return json.dumps({"type": kind, "object": item(name, version)}).encode() + b"\n"


def error(code: int, reason: str = "Expired") -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "too old"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class Server(ThreadingHTTPServer):
    """Answers lists with what is there, and watches with the next of what was prepared.

    Attributes
    ----------
    there
        The objects: names and versions.
    watches
        What each watch answers: a status, or pieces of a stream, of which None is a wait for
        `go`, and "cut" an end without the end of the stream.
    asked
        The queries of the watches.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.there: dict[str, int] = {}
        self.version = 1
        self.lists = 0
        self.watches: list[int | list[bytes | str | None]] = []
        self.asked: list[dict[str, str]] = []
        self.go = threading.Event()
        self.ended = threading.Event()
        self.list_status = 200


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        if "watch" not in query:
            self.server.lists += 1
            if self.server.list_status != 200:
                self.refuse(self.server.list_status)
            else:
                self.list(query)
            return
        self.server.asked.append(query)
        answer = self.server.watches.pop(0) if self.server.watches else [None]
        if isinstance(answer, int):
            self.refuse(answer)
        else:
            self.stream(answer)

    def list(self, query: dict[str, str]) -> None:
        """Give two objects a page."""
        start = int(query.get("continue", 0))
        found = sorted(self.server.there.items())
        page = [item(*pair) for pair in found[start : start + 2]]
        going_on = str(start + 2) if start + 2 < len(found) else ""
        metadata = {"resourceVersion": str(self.server.version), "continue": going_on}
        self.answer(200, {"metadata": metadata, "items": page})

    def refuse(self, status: int) -> None:
        self.answer(status, {"kind": "Status", "code": status, "reason": "No", "message": "no"})

    def answer(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, pieces: list[bytes | str | None]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            if piece is None:
                while not (self.server.go.wait(0.05) or self.server.ended.is_set()):
                    pass
            elif piece == "cut":
                self.close_connection = True
                return
            else:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def server():
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=[0.01])
    thread.start()
    yield made
    made.ended.set()
    made.shutdown()
    thread.join()
    made.server_close()


class Heard:
    """A watch of a server, and what it told."""

    def __init__(self, server: Server) -> None:
        self.changes: list[tuple[str, str, str]] = []
        self.problems: list[Exception | None] = []
        self.synced = 0
        client = PlainClient(f"http://127.0.0.1:{server.server_port}")
        path = "/api/v1/namespaces/ns/things"
        Watch(client, path, ApiObject, self.change, self.sync, self.problems.append).start()

    def change(self, kind: str, found: ApiObject) -> None:
        self.changes.append((kind, found.name, found.metadata.text("resourceVersion")))

    def sync(self) -> None:
        self.synced += 1

    def until(self, *changes: tuple[str, str, str]) -> None:
        eventually(lambda: self.changes[-len(changes) :] == list(changes), SOON)


def test_a_list_comes_in_pages_and_then_the_changes(server):
    server.there, server.version = {"a": 1, "b": 2, "c": 3}, 7
    server.watches = [[event("ADDED", "d", 8), event("DELETED", "a", 9), None]]
    heard = Heard(server)
    heard.until(
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("ADDED", "c", "3"),
        ("ADDED", "d", "8"),
        ("DELETED", "a", "9"),
    )
    assert heard.synced == 1 and heard.problems == []
    assert server.asked[0]["resourceVersion"] == "7"
    assert server.asked[0]["allowWatchBookmarks"] == "true"


def test_events_may_be_cut_anywhere_and_half_a_line_at_the_end_is_left_out(server):
    whole = event("ADDED", "a", 2) + event("ADDED", "b", 3)
    pieces = [whole[n : n + 7] for n in range(0, len(whole), 7)]
    server.watches = [[*pieces, event("ADDED", "c", 4)[:-9], "cut"], [event("ADDED", "c", 4), None]]
    heard = Heard(server)
    heard.until(("ADDED", "a", "2"), ("ADDED", "b", "3"), ("ADDED", "c", "4"))
    assert [query["resourceVersion"] for query in server.asked] == ["1", "3"]
    assert server.lists == 1
    assert isinstance(heard.problems[0], Unreachable) and heard.problems[1:] == [None]


def test_a_bookmark_moves_the_place_from_which_it_goes_on(server):
    server.watches = [[event("ADDED", "a", 2), event("BOOKMARK", "", 50)], [None]]
    heard = Heard(server)
    eventually(lambda: len(server.asked) == 2, SOON)
    assert server.asked[1]["resourceVersion"] == "50"
    assert heard.changes == [("ADDED", "a", "2")] and heard.problems == []


@pytest.mark.parametrize("answer", [410, [error(410)]], ids=["status", "event"])
def test_after_410_it_lists_again_and_tells_what_has_gone_meanwhile(server, answer):
    server.there = {"a": 1, "b": 1, "c": 1}
    server.watches = [[event("ADDED", "b", 2), None], answer, [event("ADDED", "d", 30), None]]
    heard = Heard(server)
    heard.until(("ADDED", "b", "2"))
    server.there, server.version = {"a": 1, "b": 9, "e": 5}, 20
    server.go.set()
    eventually(lambda: heard.changes[-1] == ("ADDED", "d", "30"), SOON)
    assert set(heard.changes[4:]) == {
        ("DELETED", "c", "1"),
        ("ADDED", "b", "9"),
        ("ADDED", "e", "5"),
        ("ADDED", "d", "30"),
    }  # and "a" is not told again
    assert server.asked[2]["resourceVersion"] == "20" and heard.problems == []


def test_a_server_that_always_says_410_is_not_asked_in_a_loop(server, monkeypatch):
    server.watches = [410] * 100
    Heard(server)
    time.sleep(1.0)
    assert 1 < server.lists < 8


def test_a_server_that_ends_each_watch_at_once_is_not_asked_in_a_loop(server):
    server.watches = [[]] * 100
    Heard(server)
    time.sleep(1.0)
    assert 1 < len(server.asked) < 8


def test_an_error_that_goes_on_is_told_until_it_is_over(server):
    server.watches = [500, [error(500, "InternalError")], [event("ADDED", "a", 2), None]]
    heard = Heard(server)
    heard.until(("ADDED", "a", "2"))
    assert [getattr(problem, "status", None) for problem in heard.problems] == [
        500,
        None,
        500,
        None,
    ]
    assert server.lists == 1


@pytest.mark.parametrize(
    "odd",
    [
        b"no json\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": {"metadata": {}}}\n',
        b"[]\n",
    ],
)
def test_an_answer_in_another_form_is_told_and_begun_anew(server, odd):
    server.there = {"a": 1}
    server.watches = [[odd], [event("ADDED", "b", 2), None]]
    heard = Heard(server)
    heard.until(("ADDED", "a", "1"), ("ADDED", "b", "2"))
    assert heard.problems[0].args[0].id == say.UNEXPECTED_ANSWER.id and heard.problems[1:] == [None]
    assert server.lists == 2


def test_where_watching_is_forbidden_it_lists_again_and_again(server, monkeypatch):
    monkeypatch.setattr(watch, "_POLL", 0.05)
    server.there, server.watches = {"a": 1}, [403] * 100
    heard = Heard(server)
    heard.until(("ADDED", "a", "1"))
    server.there["a"] = 2
    heard.until(("ADDED", "a", "1"), ("ADDED", "a", "2"))
    del server.there["a"]
    heard.until(("DELETED", "a", "2"))
    assert isinstance(heard.problems[0], ApiError) and heard.problems[0].verb == "watch"


def test_where_listing_is_forbidden_it_is_told_once_in_a_while(server):
    server.list_status = 403
    heard = Heard(server)
    eventually(lambda: heard.problems, SOON)
    assert heard.problems[0].verb == "list" and heard.synced == 0
    time.sleep(0.3)
    assert server.lists == 1


def test_a_server_that_is_away_is_told_and_then_gone_on_with(server, monkeypatch):
    monkeypatch.setattr(watch, "_LONGEST_PAUSE", 0.2)
    server.watches = [
        [event("ADDED", "a", 2), "cut"],
        503,
        503,
        503,
        [event("ADDED", "b", 3), None],
    ]
    heard = Heard(server)
    heard.until(("ADDED", "a", "2"), ("ADDED", "b", "3"))
    assert heard.problems[-1] is None and len(heard.problems) == 5
    assert [query["resourceVersion"] for query in server.asked] == ["1", "2", "2", "2", "2"]


def test_a_connection_that_has_died_in_silence_is_made_anew(server, monkeypatch):
    monkeypatch.setenv(timeouts.WATCH.variable, "0.3")
    server.watches = [[event("ADDED", "a", 2), None], [event("ADDED", "b", 3), None]]
    heard = Heard(server)
    heard.until(("ADDED", "a", "2"), ("ADDED", "b", "3"))
    assert server.asked[1]["resourceVersion"] == "2"
