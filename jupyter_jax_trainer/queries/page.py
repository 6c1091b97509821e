"""What a page has opened, looked at by a thread as long as the page is there.

It knows nothing of connections: the server's pages and the widget of a kernel are served alike.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, cast

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.errors import JaxTrainError, UsageError
from jupyter_jax_trainer.logs.view import LogView
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.queries import logtopics
from jupyter_jax_trainer.queries.jobs import Table
from jupyter_jax_trainer.queries.logtopics import LogTopic, SearchTopic
from jupyter_jax_trainer.queries.protocol import Failed, Message, Request, Sent
from jupyter_jax_trainer.queries.topics import HereTopic, JobsTopic, JobTopic, SummaryTopic, Topic

MAX_TOPICS = 64  # that one page may have open
MAX_WAITING = 256  # messages of a page that are not worked off yet
_IDLE = 5.0  # seconds that the thread sleeps when nothing is open
_SHORTEST = 0.005
# Share of the silence after which a page takes its connection for dead, though nobody closed it:
# after that much, a keep-alive message is sent.
_QUIET = 0.375


class PageGoneError(Exception):
    """Nobody is there any more to send to."""


class Page:
    """One page's topics.

    Parameters
    ----------
    table
        The jobs.
    send
        Sends messages, and returns when they are on their way; called in this page's thread.
        It raises `PageGoneError` when there is no page any more.
    """

    def __init__(self, table: Table, send: Callable[[list[Sent]], None]) -> None:
        self._table, self._root, self._send = table, table.root, send
        self._asked: queue.Queue[Request | None] = queue.Queue(MAX_WAITING)
        self._topics: dict[int, Topic] = {}
        self._due: dict[int, float] = {}
        self._closed = False
        self._quiet = _QUIET * timeouts.PAGE.seconds
        self._quiet_until = time.monotonic() + self._quiet
        self._thread = threading.Thread(target=self._run, name="jaxtrain page", daemon=True)
        self._thread.start()

    def ask(self, message: Request) -> bool:
        """Take a message of the page; False when it has sent too many."""
        try:
            self._asked.put_nowait(message)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """End the thread soon."""
        self._closed = True
        with contextlib.suppress(queue.Full):  # then it has no need to be woken
            self._asked.put_nowait(None)

    def _run(self) -> None:
        while not self._closed:
            try:
                message = self._asked.get(timeout=self._pause())
            except queue.Empty:
                pass
            else:
                if message is None or not self._tell(message.get("id"), self._answer, message):
                    return
                if not self._asked.empty():
                    continue  # somebody waits for an answer, and a look may take long
            now = time.monotonic()
            if now >= self._quiet_until and not self._tell(None, lambda: [{"kind": "alive"}]):
                return
            for number, topic in list(self._topics.items()):
                if now >= self._due[number]:
                    if not self._tell(number, topic.look):
                        return
                    if number in self._topics:  # an error has closed it
                        self._due[number] = time.monotonic() + topic.every

    def _pause(self) -> float:
        """Return the seconds until something has to be looked at."""
        if not self._due:
            return _IDLE
        return max(_SHORTEST, min(self._due.values()) - time.monotonic())

    def _tell(self, number: JsonValue, task: Callable[..., Iterable[Message]], *args: Any) -> bool:
        """Send what a task gives, each as it comes, or its error; False when the page is gone."""
        try:
            error = self._send_all(number, task, *args)
            if error:
                self._close_topic(number)
                self._say(number, error)
        except PageGoneError:
            return False
        return True

    def _send_all(
        self, number: JsonValue, task: Callable[..., Iterable[Message]], *args: Any
    ) -> Failed | None:
        """Send what a task gives; give what to say when it can't go on."""
        try:
            for message in task(*args):
                self._say(number, message)
        except PageGoneError:
            raise
        except JaxTrainError as error:
            return {"kind": "error", "message": error.message, "hint": error.hint}
        except Exception:
            traceback.print_exc()
            return {"kind": "error", "message": say.INTERNAL_ERROR(), "hint": None}
        return None

    def _say(self, number: JsonValue, message: Message) -> None:
        self._send([cast(Sent, {"id": number, **message})])
        self._quiet_until = time.monotonic() + self._quiet

    def _close_topic(self, number: JsonValue) -> None:
        if type(number) is int:  # a page can send anything, and a list can't be looked up
            self._topics.pop(number, None)
            self._due.pop(number, None)

    def _answer(self, message: Request) -> Iterable[Message]:
        number, op = message.get("id"), message.get("op")
        if type(number) is not int:
            raise UsageError(say.NO_ID())
        if op == "close":
            self._close_topic(number)
        elif op == "open":
            self._add(number, self._opened(message))
        elif op == "search":
            self._add(number, SearchTopic(self._view(message), message))
        elif op == "hit":
            return [self._search(message).hit(message)]
        elif op == "marks":
            return [self._search(message).marks(message)]
        elif isinstance(op, str) and op in _ASKED:
            return _ASKED[op](self._view(message), message)
        else:
            raise UsageError(say.UNKNOWN_OPERATION(operation=op))
        return []

    def _add(self, number: int, topic: Topic) -> None:
        if len(self._topics) >= MAX_TOPICS:
            raise UsageError(say.TOO_MANY_TOPICS(most=MAX_TOPICS))
        self._topics[number], self._due[number] = topic, 0.0

    def _opened(self, message: Request) -> Topic:
        topic = message.get("topic")
        if topic == "jobs":
            return JobsTopic(self._table)
        if topic == "here":
            return HereTopic()
        if topic == "job":
            return JobTopic(str(message.get("key")), self._root)
        if topic == "summary":
            return SummaryTopic(str(message.get("key")), self._root)
        if topic == "log":
            return LogTopic(message)
        raise UsageError(say.UNKNOWN_TOPIC(topic=topic))

    def _topic(self, number: object) -> Topic | None:
        return self._topics.get(number) if isinstance(number, int) else None

    def _view(self, message: Request) -> LogView:
        topic = self._topic(message.get("view"))
        if not isinstance(topic, LogTopic):
            raise UsageError(say.LOG_NOT_OPEN())
        return topic.view

    def _search(self, message: Request) -> SearchTopic:
        topic = self._topic(message.get("search"))
        if not isinstance(topic, SearchTopic):
            raise UsageError(say.SEARCH_NOT_OPEN())
        return topic


_ASKED = {"lines": logtopics.lines, "line": logtopics.line, "find": logtopics.found}
