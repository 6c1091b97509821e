"""Runtimes and jobs as a widget: the side panel's views, served by the kernel over its comm."""

from __future__ import annotations

import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import anywidget
import traitlets

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.messages import Text, plain_json
from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.queries.jobs import Table
from jupyter_jax_trainer.queries.page import Page, PageGoneError
from jupyter_jax_trainer.queries.protocol import Sent
from jupyter_jax_trainer.queries.requests import Asked, refusal, route, status_of
from jupyter_jax_trainer.widget.built import STATIC

_MAX_PAGES = 32  # views that have not said that they are gone


class Panel(anywidget.AnyWidget):  # type: ignore[misc]
    """Runtimes, jobs, and each job with its log.

    Every view of it is a page of its own, and says and hears what the server's pages do.
    """

    _esm = STATIC / "panel.js"
    _css = STATIC / "panel.css"
    patience = traitlets.Float().tag(sync=True)  # seconds, then a view says that we are silent

    def __init__(self) -> None:
        super().__init__(patience=timeouts.KERNEL.seconds)
        self._table = Table(None)
        self._pages: dict[str, Page] = {}
        self._workers = ThreadPoolExecutor(4, "jaxtrain panel")
        self.on_msg(self._hear)

    def close(self) -> None:
        """End the views, here and in the pages."""
        for page in self._pages.values():
            page.close()
        self._pages = {}
        self._workers.shutdown(wait=False, cancel_futures=True)
        super().close()

    def _hear(self, _: Any, message: Any, __: Any) -> None:
        if not isinstance(message, dict) or not isinstance(page := message.get("page"), str):
            return
        if "say" in message:
            self._page(page).ask(message["say"] if isinstance(message["say"], dict) else {})
        elif "ask" in message:
            self._workers.submit(self._answer, page, message)
        elif message.get("end") and page in self._pages:
            self._pages.pop(page).close()

    def _page(self, name: str) -> Page:
        """Return a view's page; that of a view long gone makes room."""
        if name not in self._pages:
            if len(self._pages) >= _MAX_PAGES:
                self._pages.pop(next(iter(self._pages))).close()
            self._pages[name] = Page(self._table, lambda heard: self._tell(name, heard))
        return self._pages[name]

    def _tell(self, page: str, heard: list[Sent]) -> None:
        if self.comm is None or page not in self._pages:
            raise PageGoneError
        self.send(plain_json({"page": page, "hear": heard}))

    def _answer(self, page: str, message: dict[str, Any]) -> None:
        status, body = self._done(message)
        said = {"page": page, "answer": message["ask"], "status": status, "body": body}
        self.send(plain_json(said))

    def _done(self, message: dict[str, Any]) -> tuple[int, object]:
        parts = urlsplit(str(message.get("path")))
        path = unquote(parts.path)
        if path == "next-cell":
            return _put_into_next_cell(message.get("body"))
        found = route(str(message.get("method")), path)
        if found is None:
            return 404, _refusal(say.UNKNOWN_PATH(path=path))
        one, names = found
        try:
            query = dict(parse_qsl(parts.query))
            return 200, one.answer(Asked(self._table, names, query, message.get("body")))
        except JaxTrainError as error:
            return status_of(error), refusal(error)
        except Exception:
            traceback.print_exc()
            return 500, _refusal(say.INTERNAL_ERROR())


def _put_into_next_cell(body: Any) -> tuple[int, object]:
    from IPython.core.getipython import get_ipython

    shell, source = get_ipython(), body.get("source") if isinstance(body, dict) else None
    if shell is None or not hasattr(shell, "kernel") or not isinstance(source, str):
        return 501, _refusal(say.CANNOT_INSERT_CELL())
    shell.set_next_input(source)
    return 200, {"when": say.INSERTED_LATER()}


def _refusal(said: Text) -> dict[str, str | None]:
    return {"message": said, "hint": said.hint}
