"""The WebSocket: what a page has opened, looked at by a thread as long as the page is there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_jax_trainer.errors import JaxTrainError, UsageError
from jupyter_jax_trainer.server import logtopics
from jupyter_jax_trainer.server.access import is_from_here
from jupyter_jax_trainer.server.logtopics import LogTopic, SearchTopic
from jupyter_jax_trainer.server.logviews import LogView
from jupyter_jax_trainer.server.table import Table
from jupyter_jax_trainer.server.topics import JobsTopic, JobTopic, Message, Topic

MAX_TOPICS = 64  # that one page may have open
MAX_WAITING = 256  # messages of a page that are not worked off yet
MAX_MESSAGE = 256 << 10  # bytes
_IDLE = 5.0  # seconds that the thread sleeps when nothing is open
_SHORTEST = 0.02


class Page:
    """One page's topics.

    Parameters
    ----------
    table, root
        The jobs, and Jupyter's root directory.
    send
        Sends messages, and returns when they are on their way; called in this page's thread.
    """

    def __init__(self, table: Table, root: Path, send: Callable[[list[Message]], None]) -> None:
        self._table, self._root, self._send = table, root, send
        self._asked: queue.Queue[Message | None] = queue.Queue(MAX_WAITING)
        self._topics: dict[int, Topic] = {}
        self._due: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, name="jaxtrain page", daemon=True)
        self._thread.start()

    def ask(self, message: Message) -> bool:
        """Take a message of the page; False when it has sent too many."""
        try:
            self._asked.put_nowait(message)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """End the thread soon."""
        with contextlib.suppress(queue.Full):
            self._asked.put_nowait(None)
        self._topics = {}

    def _run(self) -> None:
        while True:
            try:
                message = self._asked.get(timeout=self._pause())
            except queue.Empty:
                pass
            else:
                if message is None or not self._tell(message.get("id"), self._answer, message):
                    return
            now = time.monotonic()
            for number, topic in list(self._topics.items()):
                if now >= self._due[number]:
                    if not self._tell(number, topic.look):
                        return
                    self._due[number] = time.monotonic() + topic.every

    def _pause(self) -> float:
        """Give the seconds until something has to be looked at."""
        if not self._due:
            return _IDLE
        return max(_SHORTEST, min(self._due.values()) - time.monotonic())

    def _tell(
        self, number: Any, task: Callable[..., Iterable[Message]], *args: Any
    ) -> bool:
        """Send what a task gives, or its error; False when the page is gone."""
        try:
            found = [{"id": number, **message} for message in task(*args)]
        except JaxTrainError as error:
            found = [_error(number, error.message, error.hint)]
            self._close_topic(number)
        except Exception:
            traceback.print_exc()
            found = [_error(number, "Something went wrong; the server's log has it.", None)]
            self._close_topic(number)
        try:
            if found:
                self._send(found)
        except (WebSocketClosedError, RuntimeError, asyncio.CancelledError):
            return False
        return True

    def _close_topic(self, number: Any) -> None:
        self._topics.pop(number, None)
        self._due.pop(number, None)

    def _answer(self, message: Message) -> Iterable[Message]:
        number, op = message.get("id"), message.get("op")
        if type(number) is not int:
            raise UsageError("A message needs a number as its id.")
        if op == "close":
            self._close_topic(number)
        elif op == "open":
            self._add(number, self._opened(message))
        elif op == "search":
            self._add(number, SearchTopic(self._view(message), message))
        elif op == "hit":
            return [self._search(message).hit(message)]
        elif op in _ASKED:
            return _ASKED[op](self._view(message), message)
        else:
            raise UsageError(f"{op!r} is nothing that can be asked here.")
        return []

    def _add(self, number: int, topic: Topic) -> None:
        if len(self._topics) >= MAX_TOPICS:
            raise UsageError(f"A page may have {MAX_TOPICS} things open.")
        self._topics[number], self._due[number] = topic, 0.0

    def _opened(self, message: Message) -> Topic:
        topic = message.get("topic")
        if topic == "jobs":
            return JobsTopic(self._table)
        if topic == "job":
            return JobTopic(str(message.get("key")), self._root)
        if topic == "log":
            return LogTopic(message)
        raise UsageError(f"{topic!r} can't be opened.")

    def _topic(self, number: object) -> Topic | None:
        return self._topics.get(number) if isinstance(number, int) else None

    def _view(self, message: Message) -> LogView:
        topic = self._topic(message.get("view"))
        if not isinstance(topic, LogTopic):
            raise UsageError("That log is not open (any more).")
        return topic.view

    def _search(self, message: Message) -> SearchTopic:
        topic = self._topic(message.get("search"))
        if not isinstance(topic, SearchTopic):
            raise UsageError("That search is not open (any more).")
        return topic


_ASKED = {"lines": logtopics.lines, "line": logtopics.line, "find": logtopics.found}


def _error(number: Any, message: str, hint: str | None) -> Message:
    return {"id": number, "kind": "error", "message": message, "hint": hint}


class LiveHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """The connection."""

    auth_resource = "jaxtrain"
    _page: Page | None = None

    @property
    def max_message_size(self) -> int:
        """Bytes that a page may send at once."""
        return MAX_MESSAGE

    def check_origin(self, origin: str | None = None) -> bool:
        """Refuse pages of other servers."""
        return is_from_here(self.request.headers, self.settings["jaxtrain_origins"])

    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Make the connection, for those who may read."""
        if self.current_user is None or not self.check_origin():
            raise web.HTTPError(403)
        allowed = self.authorizer.is_authorized(self, self.current_user, "read", self.auth_resource)
        if asyncio.iscoroutine(allowed):
            allowed = await allowed
        if not allowed:
            raise web.HTTPError(403)
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Begin."""
        super().open(*args, **kwargs)
        loop = asyncio.get_running_loop()

        def send(messages: list[Message]) -> None:
            asyncio.run_coroutine_threadsafe(self._write(messages), loop).result()

        table = self.settings["jaxtrain_table"]
        self._page = Page(table, table.root, send)

    async def _write(self, messages: list[Message]) -> None:
        for message in messages:
            await self.write_message(json.dumps(message))

    def on_message(self, message: str | bytes) -> None:
        """Take what the page says."""
        try:
            found = json.loads(message)
        except ValueError:
            found = None
        if not isinstance(found, dict) or self._page is None or not self._page.ask(found):
            self.close(1008, "not understood, or too much at once")

    def on_close(self) -> None:
        """End."""
        super().on_close()
        if self._page is not None:
            self._page.close()
