"""The REST routes as Jupyter Server has them. All of their work is done in threads."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import APIHandler
from tornado import web

from jupyter_jax_trainer.errors import JaxTrainError, JobNotFound
from jupyter_jax_trainer.jobdir.files import is_regular, open_regular
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import profiles
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.queries.details import find, profile_of
from jupyter_jax_trainer.queries.requests import KEY, PROFILE, Asked, refusal, route, status_of
from jupyter_jax_trainer.server.access import RESOURCE, check_right, is_from_here

_PIECE = 1 << 20
# What takes long has threads of its own, so that many silent clusters keep nothing else waiting;
# so has what somebody waits for, such as to cancel a job: many pages may ask about such clusters.
SLOW = ThreadPoolExecutor(32, "jaxtrain slow")
_DEEDS = ThreadPoolExecutor(16, "jaxtrain deeds")


class Handler(APIHandler):
    """What all routes have in common: who may ask, and how errors are told."""

    auth_resource = RESOURCE

    async def prepare(self) -> None:  # type: ignore[override]
        """Refuse pages of other servers."""
        await super().prepare()
        if not is_from_here(self.request.headers, self.settings["jaxtrain_origins"]):
            raise web.HTTPError(403, say.FOREIGN_PAGE())

    async def work(
        self, task: Callable[..., Any], *args: Any, threads: Executor | None = None
    ) -> Any:
        """Do something in a thread; errors of ours become answers."""
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, task, *args)
        except JaxTrainError as error:
            self.set_status(status_of(error))
            self.finish(json.dumps(refusal(error)))
            raise web.Finish from None

    async def _send(self, file: Any, name: str, kind: str) -> None:
        self.set_header("Content-Type", kind)
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        self.set_header("X-Content-Type-Options", "nosniff")
        while data := await self.work(file.read, _PIECE):
            self.write(data)
            await self.flush()
        self.finish()


class Rest(Handler):
    """Everything that is asked and answered in JSON."""

    async def _answer(self, path: str) -> None:
        found = route(self.request.method or "", path)
        await check_right(self, found[0].right if found else "read")
        if found is None:
            raise web.HTTPError(404)
        one, names = found
        query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
        settings = self.settings
        asked = Asked(
            settings["jaxtrain_table"], names, query, self._body(), settings["jaxtrain_allowed"]
        )
        waiting = SLOW if one.right == "read" else _DEEDS
        threads = waiting if one.waits else None
        # As text already: to write a large answer down would hold up the server's loop.
        self.finish(await self.work(lambda: json.dumps(one.answer(asked)), threads=threads))

    def _body(self) -> Any:
        try:
            return self.get_json_body()
        except UnicodeDecodeError:
            raise web.HTTPError(400, say.BODY_NOT_TEXT()) from None

    # `_answer` says no to those who are not known, and to those who may not do this.
    get = post = delete = allow_unauthenticated(_answer)


class Log(Handler):
    """The logs of a job as files."""

    @allow_unauthenticated  # but `check_right` says no
    async def get(self, key: str) -> None:
        """Give one log, or all of them in a zip file."""
        await check_right(self, "read")
        source = self.get_query_argument("source", None)
        job = await self.work(find, key)
        with tempfile.TemporaryFile() as packed:
            if source is None:
                await self.work(_pack, job, packed, threads=_DEEDS)
                packed.seek(0)
                await self._send(packed, f"{key}-logs.zip", "application/zip")
                return
            path = await self.work(_log, job, source)
            try:
                file = open_regular(path)
            except FileNotFoundError:
                raise web.HTTPError(404, say.NOTHING_PRINTED()) from None
            with file:
                await self._send(file, f"{key}-{path.name}", "text/plain; charset=utf-8")


class Trace(Handler):
    """What a rank has recorded for a profile, for ui.perfetto.dev."""

    @allow_unauthenticated  # but `check_right` says no
    async def get(self, key: str, name: str) -> None:
        """Give it as a file."""
        await check_right(self, "read")
        rank = self.get_query_argument("rank", "0")
        job = await self.work(find, key)
        path = await self.work(_perfetto, job, name, rank)
        with open_regular(path) as file:
            await self._send(file, f"{key}-{name}-rank-{rank}.{path.name}", "application/gzip")


def _perfetto(job: Job, name: str, rank: str) -> Path:
    if rank not in {str(number) for number in range(job.spec.nodes)}:
        raise JobNotFound(profiles.NO_FILE(name=name, job=job.name, rank=rank))
    return profile_of(job, name).perfetto(int(rank))


def _log(job: Job, source: str) -> Path:
    """Return the file of a log, by a name that the job has."""
    directory = JobDir(job.directory)
    ranks = {str(rank): rank for rank in range(job.spec.nodes)}
    if source in ranks:
        return directory.log(ranks[source])
    if source in directory.containers():
        return directory.log(source)
    raise JobNotFound(say.NO_LOG(job=job.name, source=source))


def _pack(job: Job, file: Any) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as pack:
        for path in filter(is_regular, sorted(JobDir(job.directory).logs.glob("*.log"))):
            with open_regular(path) as log, pack.open(path.name, "w", force_zip64=True) as member:
                shutil.copyfileobj(log, member, _PIECE)


ROUTES: list[tuple[str, type[Handler]]] = [
    (rf"jaxtrain/api/jobs/{KEY}/log", Log),
    (rf"jaxtrain/api/jobs/{KEY}/profiles/{PROFILE}/trace", Trace),
    (r"jaxtrain/api/(?!live$)(.+)", Rest),
]
