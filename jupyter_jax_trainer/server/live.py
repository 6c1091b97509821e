"""The WebSocket: a page's messages, to its topics and back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.queries.page import Page, PageGoneError
from jupyter_jax_trainer.queries.protocol import Sent
from jupyter_jax_trainer.server.access import RESOURCE, check_right, is_from_here

MAX_MESSAGE = 256 << 10  # bytes


class LiveHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """The connection."""

    auth_resource = RESOURCE
    _page: Page | None = None

    @property
    def max_message_size(self) -> int:
        """Bytes that a page may send at once."""
        return MAX_MESSAGE

    def check_origin(self, origin: str | None = None) -> bool:
        """Refuse pages of other servers."""
        return is_from_here(self.request.headers, self.settings["jaxtrain_origins"])

    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Make the connection, for those who may read, while there is room."""
        if not self.check_origin():
            raise web.HTTPError(403)
        await check_right(self, "read")
        if len(self.settings["jaxtrain_pages"]) >= self.settings["jaxtrain_max_pages"]:
            raise web.HTTPError(503, reason=say.TOO_MANY_PAGES())
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Begin."""
        super().open(*args, **kwargs)
        self.set_nodelay(True)  # else the second of two short messages waits for 40 ms
        loop = asyncio.get_running_loop()

        def send(messages: list[Sent]) -> None:
            # Here, in the page's thread: to write down many lines would hold up the server's loop.
            texts = [json.dumps(message) for message in messages]
            try:
                asyncio.run_coroutine_threadsafe(self._write(texts), loop).result()
            except (WebSocketClosedError, RuntimeError, asyncio.CancelledError):
                raise PageGoneError from None

        self._page = Page(self.settings["jaxtrain_table"], send)
        self.settings["jaxtrain_pages"].add(self._page)

    async def _write(self, texts: list[str]) -> None:
        for text in texts:
            await self.write_message(text)

    def on_message(self, message: str | bytes) -> None:
        """Take what the page says."""
        try:
            found = json.loads(message)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or self._page is None or not self._page.ask(found):
            self.close(1008, say.NOT_UNDERSTOOD())

    def on_close(self) -> None:
        """End."""
        super().on_close()
        if self._page is not None:
            self.settings["jaxtrain_pages"].discard(self._page)
            self._page.close()
