"""What a page's thread does, in which order, and what it looks at."""

import queue
import threading
import time

import pytest
from made_jobs import make_job

from jupyter_jax_trainer.errors import JobNotFound
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.logs.search import Search
from jupyter_jax_trainer.logs.view import LogView
from jupyter_jax_trainer.queries import page as page_module
from jupyter_jax_trainer.queries.jobs import Table
from jupyter_jax_trainer.queries.logtopics import LogTopic, SearchTopic
from jupyter_jax_trainer.queries.page import Page
from jupyter_jax_trainer.queries.topics import JobTopic, SummaryTopic


class LongLook:
    """A topic that always has something to tell; its first look takes long."""

    every = 0.0

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()

    def look(self):
        self.begun.set()
        assert self.may_end.wait(20)
        yield {"kind": "look"}


def test_questions_that_wait_are_answered_before_the_next_look(monkeypatch):
    topic = LongLook()
    monkeypatch.setattr(Page, "_opened", lambda self, message: topic)
    sent = queue.Queue()
    page = Page(Table(None), lambda messages: [sent.put(one) for one in messages])
    try:
        page.ask({"op": "open", "id": 1})
        assert topic.begun.wait(20)
        for number in (2, 3, 4):
            page.ask({"op": "lines", "id": number, "view": 99})
        topic.may_end.set()
        kinds = [sent.get(timeout=20)["kind"] for _ in range(5)]
    finally:
        page.close()
    assert kinds == ["look", "error", "error", "error", "look"]


def test_a_page_that_has_been_quiet_says_that_it_is_there(monkeypatch, home):
    monkeypatch.setenv("JAXTRAIN_PAGE_TIMEOUT", "0.5")
    monkeypatch.setattr(page_module, "_IDLE", 0.05)
    sent = queue.Queue()
    began = time.monotonic()
    page = Page(Table(None), lambda messages: [sent.put(one) for one in messages])
    try:
        assert [sent.get(timeout=20) for _ in range(3)] == [{"id": None, "kind": "alive"}] * 3
        assert time.monotonic() - began > 0.5
        page.ask({"op": "open", "id": 1, "topic": "jobs"})
        while (kind := sent.get(timeout=20)["kind"]) != "jobs":
            assert kind == "alive"
    finally:
        page.close()


def test_a_page_that_goes_with_much_unanswered_takes_its_thread_along(monkeypatch):
    topic = LongLook()
    monkeypatch.setattr(Page, "_opened", lambda self, message: topic)
    page = Page(Table(None), lambda messages: None)
    page.ask({"op": "open", "id": 1})
    assert topic.begun.wait(20)
    while page.ask({"op": "close", "id": 2}):
        pass  # until no more is taken
    page.close()
    topic.may_end.set()
    page._thread.join(20)
    assert not page._thread.is_alive()


@pytest.mark.parametrize("what", [LogView, Search])
def test_what_is_opened_tells_something_before_all_is_known(what, store, monkeypatch):
    make_job("long", "Succeeded", logs={0: ["hello"]})
    given = []

    def advance(self, seconds):
        given.append(seconds)
        return False

    topic = LogTopic({"key": "long"})
    if what is Search:
        topic = SearchTopic(topic.view, {"pattern": "hello"})
    monkeypatch.setattr(what, "advance", advance)
    assert [one["complete"] for one in topic.look() if "complete" in one] == [False]
    list(topic.look())
    assert given[0] < given[1] / 2


def test_a_log_that_is_costly_to_look_at_is_looked_at_less_often(store, monkeypatch):
    make_job("long", "Running", logs={0: ["hello"]})
    topic = LogTopic({"key": "long"})
    cheap = [(list(topic.look()), topic.every)[1] for _ in range(5)]
    advance = LogView.advance

    def slow(self, seconds):
        time.sleep(0.02)
        return advance(self, seconds)

    monkeypatch.setattr(LogView, "advance", slow)
    list(topic.look())
    assert min(cheap) < 0.15 < topic.every <= 0.25


@pytest.mark.parametrize(
    "opened",
    [
        lambda key: JobTopic(key, None),
        lambda key: SummaryTopic(key, None),
        lambda key: LogTopic({"key": key}),
    ],
    ids=["job", "summary", "log"],
)
@pytest.mark.parametrize("again", [False, True], ids=["deleted", "deleted and made anew"])
def test_a_job_that_was_deleted_is_not_shown_any_more(opened, again, store):
    directory = make_job("fit", "Succeeded", logs={0: ["old"]})
    topic = opened("fit")
    assert list(topic.look())
    manifest = directory.read_manifest()
    directory.remove()
    if again:
        files.write_json(make_job("fit", "Failed").manifest, {**manifest, "uid": "of another one"})
    with pytest.raises(JobNotFound, match="'fit'") as gone:
        list(topic.look())
    assert gone.value.id == "jobs.no-longer-exists"


def test_a_topic_that_has_failed_is_not_looked_at_again_and_again(monkeypatch):
    class Gone:
        every = 0.0

        def look(self):
            raise JobNotFound("one")

    monkeypatch.setattr(Page, "_opened", lambda self, message: Gone())
    sent = queue.Queue()
    page = Page(Table(None), sent.put)
    try:
        page.ask({"op": "open", "id": 1})
        assert sent.get(timeout=20)[0]["kind"] == "error"
        page.ask({"op": "lines", "id": 2, "view": 99})
        sent.get(timeout=20)  # by then the look is over
        assert page._due == {}
    finally:
        page.close()
