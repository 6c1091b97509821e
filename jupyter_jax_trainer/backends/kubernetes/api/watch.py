"""List one kind of object, then hear of each change, whatever happens to connections."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.api.counts import COUNTS
from jupyter_jax_trainer.backends.kubernetes.api.objects import ApiObject, mappings
from jupyter_jax_trainer.messages import cluster as say

ADDED, GONE = "ADDED", "DELETED"
_RANDOM = random.Random()  # the global one is the notebook's, which may have seeded it
_RENEWAL = 270  # seconds between connections: the next one goes on where the server ended one
_PAGE = 500
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds between tries
_STEADY = 5.0  # seconds that a silent connection has to last, or the pauses go on growing
_POLL = 2.0  # seconds between lists, where listing is allowed and watching is not
_FORBIDDEN_PAUSE = 30.0  # seconds between tries, where neither is

_Found = TypeVar("_Found", bound=ApiObject)


class Watch(threading.Thread, Generic[_Found]):
    """Follows one kind of object in a thread.

    Parameters
    ----------
    client, path
        What to list and to watch.
    kind
        What is there.
    on_change
        Called with ``ADDED`` or ``DELETED`` and the object, in this thread; a change of an object
        is an ``ADDED`` of its new form.
    on_synced
        Called after the first list.
    on_problem
        Called with an error that goes on (an `ApiError` or `Unreachable`), and with None when it
        is over.
    labels
        A label selector.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        kind: type[_Found],
        on_change: Callable[[str, _Found], None],
        on_synced: Callable[[], None] = lambda: None,
        on_problem: Callable[[Exception | None], None] = lambda error: None,
        labels: str | None = None,
    ) -> None:
        super().__init__(name=f"watch-{path.rsplit('/', 1)[-1]}", daemon=True)
        self._client = client
        self._path = path
        self._kind = kind
        self._on_change = on_change
        self._on_synced = on_synced
        self._on_problem = on_problem
        self._query: dict[str, str | int] = {"labelSelector": labels} if labels else {}
        self._known: dict[str, dict[str, Any]] = {}
        self._version = ""
        self._pause = _FIRST_PAUSE
        self._troubled = False
        self._heard = False  # something since the connection was made
        self._connected = False  # ever

    def run(self) -> None:
        """List and watch for ever; the thread dies with its process."""
        while True:
            try:
                if not self._version:
                    self._list()
                    self._on_synced()
                self._heard = False
                self._watch()
                if not self._heard:  # a server that ends each connection is not asked in a loop
                    self._wait()
            except ApiError as error:
                if error.status != 410:
                    self._bear(error)
                    continue
                self._version = ""  # it has been too long: restart
                if not self._heard:
                    self._wait()
            except Unreachable as error:
                self._bear(error)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                self._version = ""
                self._bear(Unreachable(say.UNEXPECTED_ANSWER(error=type(error).__name__)))

    def _bear(self, error: ApiError | Unreachable) -> None:
        self._troubled = True
        self._on_problem(error)
        if isinstance(error, ApiError) and error.status == 403:
            if error.verb == "watch":
                self._version = ""
                time.sleep(_POLL)
            else:
                time.sleep(_FORBIDDEN_PAUSE)
            return
        self._wait(error.retry_after if isinstance(error, ApiError) else 0.0)

    def _wait(self, least: float = 0.0) -> None:
        """Wait, longer each time until something is heard."""
        time.sleep(max(least, self._pause * _RANDOM.uniform(0.5, 1.0)))
        self._pause = min(_LONGEST_PAUSE, self._pause * 2)

    def _well(self) -> None:
        if self._troubled:
            self._troubled = False
            self._on_problem(None)

    def _list(self) -> None:
        """Take over what is there now, and tell what has gone meanwhile."""
        found: dict[str, dict[str, Any]] = {}
        for page in _pages(self._client, self._path, self._query):
            found.update({item["metadata"]["uid"]: item for item in page.get("items") or []})
        for uid in self._known.keys() - found.keys():
            self._on_change(GONE, self._kind(self._known[uid]))
        for uid, item in found.items():
            before = self._known.get(uid)
            if before is None or _version(before) != _version(item):
                self._on_change(ADDED, self._kind(item))
        self._known = {uid: _stub(item) for uid, item in found.items()}
        self._version = page["metadata"]["resourceVersion"]

    def _watch(self) -> None:
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": _RENEWAL,
            "resourceVersion": self._version,
        }
        # The server sends a bookmark each minute; a dead connection is silent.
        response = self._client.open(self._path, query, timeouts.WATCH.seconds)
        COUNTS.add("reconnects_total", int(self._connected), 'what="watch"')
        self._connected = True
        self._well()
        opened = time.monotonic()
        try:
            for line in _lines(response):
                self._take(json.loads(line))
        finally:
            if time.monotonic() - opened > _STEADY:
                self._heard, self._pause = True, _FIRST_PAUSE
            response.close()

    def _take(self, event: dict[str, Any]) -> None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            raise ApiError(
                int(item.get("code") or 500),
                str(item.get("reason")),
                str(item.get("message")),
                "watch",
                self._path.rsplit("/", 1)[-1],
            )
        self._version = item["metadata"]["resourceVersion"]
        self._heard, self._pause = True, _FIRST_PAUSE
        if kind == "BOOKMARK":
            return
        uid = item["metadata"]["uid"]
        if kind == "DELETED":
            self._known.pop(uid, None)
            self._on_change(GONE, self._kind(item))
        else:
            self._known[uid] = _stub(item)
            self._on_change(ADDED, self._kind(item))


def list_all(
    client: Client, path: str, kind: type[_Found], labels: str | None = None
) -> Iterator[_Found]:
    """List objects, some hundreds at a time.

    Raises
    ------
    ApiError, Unreachable
        They can't be listed.
    """
    for page in _pages(client, path, {"labelSelector": labels} if labels else {}):
        yield from (kind(one) for one in mappings(page.get("items")))


def _pages(client: Client, path: str, query: Mapping[str, str | int]) -> Iterator[dict[str, Any]]:
    asked = {**query, "limit": _PAGE}
    while True:
        page = client.request("GET", path, query=asked)
        yield page
        going_on = page["metadata"].get("continue")
        if not going_on:
            return
        asked["continue"] = going_on


def _version(item: dict[str, Any]) -> str:
    return str(item["metadata"]["resourceVersion"])


def _stub(item: dict[str, Any]) -> dict[str, Any]:
    """Keep what is needed to tell, after a new list, that an object has changed or gone."""
    kept = ("uid", "name", "namespace", "resourceVersion", "labels", "ownerReferences")
    metadata = item["metadata"]
    return {"metadata": {name: metadata[name] for name in kept if name in metadata}}


def _lines(response: Any) -> Iterator[bytes]:
    """Yield the lines of a stream as they come, however they are cut."""
    import urllib3

    rest = b""
    try:
        for piece in response.stream(1 << 16, decode_content=False):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise Unreachable(say.WATCH_CUT_OFF(error=type(error).__name__)) from None
