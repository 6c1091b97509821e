"""The REST routes: lists, details and actions. All of their work is done in threads."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from jupyter_jax_trainer.errors import BackendError, JaxTrainError, JobNotFound, UsageError
from jupyter_jax_trainer.handle import Job
from jupyter_jax_trainer.jobdir import JobDir
from jupyter_jax_trainer.server import cellline, places
from jupyter_jax_trainer.server.access import is_from_here
from jupyter_jax_trainer.server.details import detail, find
from jupyter_jax_trainer.server.table import actions

_KEY = r"(?P<key>[A-Za-z0-9][A-Za-z0-9._-]{0,252})"
_PIECE = 1 << 20
_MAX_SOURCE = 4 << 20  # characters of a cell


class Handler(APIHandler):
    """What all routes have in common: who may ask, and how errors are told."""

    auth_resource = "jaxtrain"

    async def prepare(self) -> None:  # type: ignore[override]
        """Refuse pages of other servers."""
        await super().prepare()
        if not is_from_here(self.request.headers, self.settings["jaxtrain_origins"]):
            raise web.HTTPError(403, "This request comes from a page of another server.")

    async def work(self, task: Callable[..., Any], *args: Any) -> Any:
        """Do something in a thread; errors of ours become answers."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, task, *args)
        except JaxTrainError as error:
            self.set_status(_status(error))
            self.finish(json.dumps({"message": error.message, "hint": error.hint}))
            raise web.Finish from None

    async def answer(self, task: Callable[..., Any], *args: Any) -> None:
        """Answer with what a task gives."""
        self.finish(json.dumps(await self.work(task, *args)))

    def body(self) -> dict[str, Any]:
        """Give the request's JSON object."""
        found = self.get_json_body()
        if not isinstance(found, dict):
            raise web.HTTPError(400, "The request is no JSON object.")
        return found

    @property
    def root(self) -> Path:
        """Jupyter's root directory."""
        return Path(self.settings["jaxtrain_table"].root)


def _status(error: JaxTrainError) -> int:
    if isinstance(error, JobNotFound):
        return 404
    if isinstance(error, UsageError):
        return 400
    return 502 if isinstance(error, BackendError) else 500


class Jobs(Handler):
    """The list."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Give all rows."""
        await self.answer(lambda: {"jobs": self.settings["jaxtrain_table"].rows()[1]})


class OneJob(Handler):
    """A job."""

    @web.authenticated
    @authorized
    async def get(self, key: str) -> None:
        """Give all about it."""
        await self.answer(lambda: detail(find(key), self.root))

    @web.authenticated
    @authorized
    async def delete(self, key: str) -> None:
        """Delete it with its files."""
        await self.work(lambda: find(key).delete())
        self.finish("{}")


class Part(Handler):
    """A part of what is known about a job."""

    @web.authenticated
    @authorized
    async def get(self, key: str, part: str) -> None:
        """Give it."""
        tasks: dict[str, Callable[[Job], dict[str, Any]]] = {
            "metrics": lambda job: {"points": job.metrics()},
            "events": lambda job: {"events": job.events()},
            "yaml": lambda job: {"yaml": places.trainjob_yaml(job)},
        }
        await self.answer(lambda: tasks[part](find(key)))


class Action(Handler):
    """Something that is done with a job."""

    @web.authenticated
    @authorized("execute")  # type: ignore[untyped-decorator]
    async def post(self, key: str, action: str) -> None:
        """Do it."""
        await self.work(self._do, key, action)
        self.finish("{}")

    def _do(self, key: str, action: str) -> None:
        job = find(key)
        state = job.state
        if action not in actions(job.manifest["backend"], state):
            raise UsageError(f"Job {key} is {state}: it can't be {_done(action)} now.")
        getattr(job, action)()


def _done(action: str) -> str:
    return {"cancel": "cancelled", "suspend": "suspended", "resume": "resumed"}[action]


class Log(Handler):
    """The logs of a job as files."""

    @web.authenticated
    @authorized
    async def get(self, key: str) -> None:
        """Give one log, or all of them in a zip file."""
        source = self.get_query_argument("source", None)
        job = await self.work(find, key)
        with tempfile.TemporaryFile() as packed:
            if source is None:
                await self.work(_pack, job, packed)
                packed.seek(0)
                await self._send(packed, f"{key}-logs.zip", "application/zip")
                return
            path = await self.work(_log, job, source)
            try:
                file = path.open("rb")
            except FileNotFoundError:
                raise web.HTTPError(404, "Nothing has been printed there yet.") from None
            with file:
                await self._send(file, f"{key}-{path.name}", "text/plain; charset=utf-8")

    async def _send(self, file: Any, name: str, kind: str) -> None:
        self.set_header("Content-Type", kind)
        self.set_header("Content-Disposition", f'attachment; filename="{name}"')
        self.set_header("X-Content-Type-Options", "nosniff")
        while data := await self.work(file.read, _PIECE):
            self.write(data)
            await self.flush()
        self.finish()


def _log(job: Job, source: str) -> Path:
    """Give the file of a log, by a name that the job has."""
    directory = JobDir(job.directory)
    if source.isdecimal() and int(source) < job.spec.nodes:
        return directory.log(int(source))
    if source in directory.containers():
        return directory.log(source)
    raise JobNotFound(f"Job {job.name} has no log {source!r}.")


def _pack(job: Job, file: Any) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as pack:
        for path in sorted(JobDir(job.directory).logs.glob("*.log")):
            with path.open("rb") as log, pack.open(path.name, "w", force_zip64=True) as member:
                shutil.copyfileobj(log, member, _PIECE)


class Places(Handler):
    """Where jobs can run."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List the places."""
        await self.answer(lambda: {"places": places.places()})


class PlacePart(Handler):
    """What there is to know about a place."""

    @web.authenticated
    @authorized
    async def get(self, part: str) -> None:
        """Give its health, or its runtimes."""
        name = self.get_query_argument("place")
        namespace = self.get_query_argument("namespace", None)
        tasks = {
            "health": lambda: {"findings": places.health(places.find(name, namespace))},
            "runtimes": lambda: {"runtimes": places.runtimes(places.find(name, namespace))},
        }
        await self.answer(tasks[part])


class RuntimeYaml(Handler):
    """A runtime as the cluster has it."""

    @web.authenticated
    @authorized
    async def get(self, name: str) -> None:
        """Give its YAML."""
        where = self.get_query_argument("place")
        namespace = self.get_query_argument("namespace", None)
        await self.answer(
            lambda: {"yaml": places.runtime_yaml(places.find(where, namespace), name)}
        )


class Options(Handler):
    """The options of a job."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Describe them."""
        self.finish(json.dumps({"options": cellline.options()}))


class Line(Handler):
    """The line of a cell, read or written by Python's own parser."""

    @web.authenticated
    @authorized("read")  # type: ignore[untyped-decorator]
    async def post(self, verb: str) -> None:
        """Read or write it."""
        body = self.body()
        source, changes = body.get("source"), body.get("changes") or {}
        if not isinstance(source, str) or len(source) > _MAX_SOURCE:
            raise web.HTTPError(400, "The text of a cell is missing, or too long.")
        if not isinstance(changes, dict):
            raise web.HTTPError(400, "The changes are no JSON object.")
        if verb == "read":
            await self.answer(cellline.read, source)
        else:
            await self.answer(cellline.write, source, changes)


_API = r"jaxtrain/api"
ROUTES: list[tuple[str, type[Handler]]] = [
    (rf"{_API}/jobs", Jobs),
    (rf"{_API}/jobs/{_KEY}", OneJob),
    (rf"{_API}/jobs/{_KEY}/(?P<part>metrics|events|yaml)", Part),
    (rf"{_API}/jobs/{_KEY}/log", Log),
    (rf"{_API}/jobs/{_KEY}/(?P<action>cancel|suspend|resume)", Action),
    (rf"{_API}/places", Places),
    (rf"{_API}/(?P<part>health|runtimes)", PlacePart),
    (rf"{_API}/runtimes/(?P<name>[a-z0-9][a-z0-9.-]{{0,252}})/yaml", RuntimeYaml),
    (rf"{_API}/options", Options),
    (rf"{_API}/line/(?P<verb>read|write)", Line),
]
