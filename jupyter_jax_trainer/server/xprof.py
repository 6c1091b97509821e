"""XProf beside the notebook: a route that opens a profile, and one for the pages of XProf.

The pages are in a frame without an origin, so that nothing in them can ask Jupyter or read what it
stores. Such a frame sends no cookies: what lets it in is the secret in its address, which is of one
profile and of nothing else.
"""

from __future__ import annotations

import asyncio
import email
from collections.abc import Sequence
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from jupyter_server.auth.decorator import allow_unauthenticated
from tornado import web
from tornado.iostream import StreamClosedError

from jupyter_jax_trainer.channel.sockets import socket_at
from jupyter_jax_trainer.messages import profiles as say
from jupyter_jax_trainer.profiles.xprof import Viewer, Viewers
from jupyter_jax_trainer.queries.details import find, profile_of
from jupyter_jax_trainer.queries.requests import KEY, PROFILE
from jupyter_jax_trainer.server.access import check_right
from jupyter_jax_trainer.server.routes import SLOW, Handler

_PIECE = 1 << 18
_HEAD = 1 << 16  # bytes of an answer's head
_ROOT = "/data/plugin/profile"  # XProf's pages look for it in their address
_REFUSED = ("capture_profile", "generate_cache")  # these write, or ask other machines
_FOREIGN = ("session_path", "run_path")  # these name folders anywhere
_FREE = ("event_name", "search_prefix", "node_name")  # these may look like paths
_PASSED = ("Content-Type", "Content-Encoding", "Content-Disposition", "Cache-Control")
# Where XProf loads its charts and what draws its graphs from, if it can.
_CHARTS, _GRAPHS = "https://www.gstatic.com", "https://cdn.jsdelivr.net/npm/"

# A page of this server may frame them. It is not said of pages within those, whose own page has no
# origin that could be named.
_FRAMED = "frame-ancestors 'self'"


class Open(Handler):
    """Opens a profile."""

    @allow_unauthenticated  # but `check_right` says no
    async def post(self, key: str, name: str) -> None:
        """Start XProf where it does not run, and say where its page is."""
        await check_right(self, "execute")
        job = await self.work(find, key)
        profile = await self.work(profile_of, job, name)
        viewers: Viewers = self.settings["jaxtrain_viewers"]
        origin = self.request.headers.get("Origin")  # `prepare` has looked at it
        viewer = await self.work(viewers.open, profile, origin, threads=SLOW)
        self.finish({"path": f"jaxtrain/xprof/{viewer.secret}{_ROOT}/"})


class Page(web.RequestHandler):
    """What XProf answers, for whoever knows the secret."""

    def set_default_headers(self) -> None:
        """Deny pages all rights of the origin, error pages included."""
        self._restrict(None)

    def _restrict(self, viewer: Viewer | None) -> None:
        place = f"{self.settings['base_url']}jaxtrain/xprof/"
        origins = viewer.origins if viewer else []
        own = [f"{origin}{place}{viewer.secret}/" for origin in origins] if viewer else []
        framed = self.request.headers.get("Sec-Fetch-Dest") != "iframe" or self._is_first
        for name, value in {
            "Content-Security-Policy": policy(own or ["'self'"], framed),
            "Access-Control-Allow-Origin": "null",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }.items():
            self.set_header(name, value)
        self.clear_header("Server")

    @property
    def _is_first(self) -> bool:
        """Whether it is the page itself, which is in a frame of JupyterLab."""
        return self.request.path.endswith(f"{_ROOT}/")

    async def _answer(self, secret: str, path: str) -> None:
        viewers: Viewers = self.settings["jaxtrain_viewers"]
        viewer = viewers.find(secret)
        if viewer is None:
            raise web.HTTPError(404, say.XPROF_GONE())
        self._restrict(viewer)
        target = f"{_ROOT}{quote(path)}"
        if query := checked(viewer, path, self.request.query):
            target += f"?{query}"
        try:
            await self._pass_on(viewer, target)
        except StreamClosedError:
            pass  # nobody waits any more
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            if self._headers_written:
                raise  # the page must not take it for whole
            raise web.HTTPError(502, say.XPROF_GONE()) from None

    get = head = allow_unauthenticated(_answer)

    async def _pass_on(self, viewer: Viewer, target: str) -> None:
        with socket_at(viewer.socket) as (connection, address):
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, address)
            reader, writer = await asyncio.open_connection(sock=connection, limit=_HEAD)
            try:
                asked = f"{self.request.method} {target} HTTP/1.0\r\nHost: localhost\r\n\r\n"
                writer.write(asked.encode())
                status, fields = read_head(await reader.readuntil(b"\r\n\r\n"))
                self.set_status(status)
                for name in _PASSED:
                    if name in fields:
                        self.set_header(name, fields[name])
                while data := await reader.read(_PIECE):
                    self.write(data)
                    await self.flush()
            finally:
                writer.close()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Say why, as text: Jupyter's own page of errors has links into Jupyter."""
        _, error, _ = kwargs.get("exc_info", (None, None, None))
        said = error.log_message if isinstance(error, web.HTTPError) else None
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(said or self._reason)


def policy(own: Sequence[str], framed: bool) -> str:
    """Return what pages of XProf may do: run scripts, and load what is under their own address.

    Parameters
    ----------
    own
        That address, as each origin has it.
    framed
        Whether only pages of this server may frame it.
    """
    here = " ".join(own)
    parts = [
        "sandbox allow-scripts allow-downloads allow-popups",
        "default-src 'none'",
        f"script-src {here} 'unsafe-inline' 'unsafe-eval' blob: {_CHARTS} {_GRAPHS}",
        f"style-src {here} 'unsafe-inline' {_CHARTS} https://fonts.googleapis.com",
        f"font-src {here} data: https://fonts.gstatic.com",
        f"img-src {here} data: blob:",
        f"connect-src {here} data: blob:",
        f"worker-src {here} blob:",
        f"frame-src {here}",
        f"base-uri {here}",
        "form-action 'none'",
    ]
    return "; ".join([*parts, _FRAMED] if framed else parts)


def checked(viewer: Viewer, path: str, query: str) -> str:
    """Return the query of a request, which must stay in its profile: XProf would read any folder.

    Raises
    ------
    tornado.web.HTTPError
        It does not, or writes.
    """
    last = path.strip("/").split("/")[-1]
    if last in _REFUSED:
        raise web.HTTPError(403)
    if "." in last:
        return ""  # a file of XProf itself: what else stands there is for its scripts
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=100, errors="strict")
    except ValueError:  # UnicodeDecodeError, too
        raise web.HTTPError(400) from None
    for name, value in pairs:
        away = ".." in value.split("/") or value.startswith(("/", "~")) or "://" in value
        if (
            name in _FOREIGN
            or (name == "run" and value != viewer.run)
            or (away and name not in _FREE)
        ):
            raise web.HTTPError(403)
    return urlencode(pairs)


def read_head(data: bytes) -> tuple[int, Message]:
    """Read the head of an answer.

    Raises
    ------
    ValueError
        It is none.
    """
    line, _, rest = data.partition(b"\r\n")
    status = int(line.split()[1]) if line.startswith(b"HTTP/1.") and b" " in line else 0
    if not 200 <= status < 600:
        raise ValueError("no status")
    return status, email.message_from_bytes(rest)


ROUTES: list[tuple[str, type[web.RequestHandler]]] = [
    (rf"jaxtrain/api/jobs/{KEY}/profiles/{PROFILE}/xprof", Open),
    (rf"jaxtrain/xprof/([A-Za-z0-9_-]{{1,200}}){_ROOT}(/.*)", Page),
]
