"""What can be asked once: lists, details and actions, by path (docs/reference/server.md).

It knows nothing of connections: the server's pages and the widget of a kernel are served alike.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_jax_trainer.channel.places import grouped, notes
from jupyter_jax_trainer.errors import (
    BackendError,
    BackendUnavailable,
    JaxTrainError,
    JobDirError,
    JobNotFound,
    ResultsWithheld,
    UsageError,
)
from jupyter_jax_trainer.jobdir.files import LinePages
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.rows import Row, actions, session_state
from jupyter_jax_trainer.jobdir.waiting import let_go
from jupyter_jax_trainer.messages import jobs
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.profiles import xprof
from jupyter_jax_trainer.queries import cellline, targets
from jupyter_jax_trainer.queries.allowed import Allowed
from jupyter_jax_trainer.queries.details import (
    detail,
    find,
    place_group,
    profile_of,
    session_detail,
    uid_of,
)
from jupyter_jax_trainer.queries.jobs import Table
from jupyter_jax_trainer.queries.protocol import (
    Detail,
    FindingRecord,
    Line,
    Place,
    RankPlaces,
    Refusal,
    RuntimeRecord,
    SessionLook,
    ShownProfile,
    WrittenLine,
)
from jupyter_jax_trainer.sessions import Session
from jupyter_jax_trainer.worker.profiling import NAME

PROFILE = rf"(?P<name>{NAME.pattern})"
KEY = r"(?P<key>[A-Za-z0-9][A-Za-z0-9._-]{0,252})"
_MOST = 20_000  # reports or events in an answer
_KNOWN = 64  # files of reports and events of which it is remembered where their pages begin
_MAX_SOURCE = 4 << 20  # characters of a cell


class Asked(NamedTuple):
    """A request.

    Attributes
    ----------
    table
        The jobs.
    names
        The parts of the path that have names.
    query, body
        What came along.
    allowed
        Which clusters and namespaces may be asked about.
    """

    table: Table
    names: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    allowed: Allowed = Allowed()


class Route(NamedTuple):
    """Something that can be asked.

    Attributes
    ----------
    method, path
        How; the path as a regular expression.
    right
        What the user must be allowed to do: ``read``, ``write`` or ``execute``.
    answer
        Gives the answer, a JSON object.
    waits
        Whether it may wait for a cluster.
    """

    method: str
    path: re.Pattern[str]
    right: str
    answer: Callable[[Asked], object]
    waits: bool


def route(method: str, path: str) -> tuple[Route, Mapping[str, str]] | None:
    """Find what is asked for, and the named parts of its path; None if there is no such thing."""
    for one in ROUTES:
        if one.method == method and (match := one.path.fullmatch(path)):
            return one, match.groupdict()
    return None


def status_of(error: JaxTrainError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, JobNotFound):
        return 404
    if isinstance(error, UsageError | ResultsWithheld):
        return 400
    if isinstance(error, BackendUnavailable):
        return 503
    return 502 if isinstance(error, BackendError) else 500


def refusal(error: JaxTrainError) -> Refusal:
    """Return what a page is told of an error."""
    return {"message": error.message, "hint": error.hint}


# ---------------------------------------------------------------------------- jobs


def _jobs(asked: Asked) -> dict[str, list[Row]]:
    return {"jobs": asked.table.rows()[1]}


def _job(asked: Asked) -> Detail:
    return detail(find(asked.names["key"]), asked.table.root)


def _delete(asked: Asked) -> dict[str, str]:
    _allowed_job(asked).delete()
    return {}


def _metrics(asked: Asked) -> object:
    job = find(asked.names["key"])
    return _part("points", asked, _pages(JobDir(job.directory).metrics, uid_of(job)))


def _events(asked: Asked) -> object:
    job = find(asked.names["key"])
    return _part("events", asked, _pages(JobDir(job.directory).events, uid_of(job)))


@functools.lru_cache(_KNOWN)
def _pages(path: Path, uid: str | None) -> LinePages:
    """Return what reads a file of a job by pages, the same again: it knows where they begin."""
    return LinePages(path)


def _part(name: str, asked: Asked, pages: LinePages) -> object:
    """Return one page of reports or events: a job may have millions."""
    given = asked.query.get("from", "0")
    if not re.fullmatch("[0-9]{1,12}", given):
        raise UsageError(say.NOT_A_START(given=given))
    start = int(given)
    found, more = pages.page(start, _MOST)
    return {name: found, "next": start + _MOST if more else None}


def _job_yaml(asked: Asked) -> dict[str, str]:
    return {"yaml": targets.job_yaml(_allowed_job(asked))}


def _where(asked: Asked) -> RankPlaces:
    places = _allowed_job(asked).where()
    return {
        "groups": [place_group(group) for group in grouped(places)],
        "notes": [str(note) for note in notes(places)],
    }


def _profile(asked: Asked) -> ShownProfile:
    found = profile_of(find(asked.names["key"]), asked.names["name"]).summary()
    return {**found, "xprof": xprof.is_installed()}


def _session(asked: Asked) -> SessionLook:
    job = _allowed_job(asked)
    if not job.is_session:
        raise UsageError(say.NOT_A_SESSION(job=job.name))
    memory: dict[int, int | None] = {}
    with contextlib.suppress(JaxTrainError):  # there are no ranks, or they can't be asked
        memory = {place.rank: place.memory for place in job.where()}
    return {
        "session": session_detail(job),
        "memory": [memory.get(rank) for rank in range(job.spec.nodes)],
    }


def _act(asked: Asked) -> dict[str, str]:
    if asked.names["action"] in (*_DONE, "profile"):
        _allowed_job(asked)
    act(asked.names["key"], asked.names["action"])
    return {}


def _trust(asked: Asked) -> dict[str, str]:
    uid = asked.body.get("uid") if isinstance(asked.body, dict) else None
    trust(asked.names["key"], uid)
    return {}


def trust(key: str, uid: Any) -> None:
    """Trust whoever made a job, on the word of the user, who has seen the job with this uid.

    Raises
    ------
    JaxTrainError
        There is another job of that name by now, or the administrator forbids it.
    """
    job = find(key)
    if not isinstance(uid, str) or uid != job.uid:
        raise JobNotFound(jobs.NO_LONGER_EXISTS(job=key))
    job.trust()


def _allowed_job(asked: Asked) -> Job:
    """Return the job for what asks its cluster; refuse clusters that pages may not ask."""
    job = find(asked.names["key"])
    try:
        manifest = job.manifest
    except JobDirError:
        return job  # nobody knows of a cluster to ask; it can be deleted
    asked.allowed.check(*job.backend.cluster_of(manifest))
    return job


def act(key: str, action: str) -> None:
    """Do something to a job: ``cancel``, ``suspend``, ``resume``, ``detach`` or ``profile``.

    To a session also ``restart``, ``interrupt``, ``prolong``, ``save`` and ``restore``; the last
    two begin a cell, and don't wait for it.

    Raises
    ------
    JaxTrainError
        It can't be done, or not now.
    """
    job = find(key)
    if action == "detach":
        let_go(JobDir(job.directory))
        return
    if action == "profile":
        job.begin_profile()
        return
    if action not in _DONE:
        raise UsageError(say.UNKNOWN_ACTION(action=action))
    state = job.state
    if action not in actions(job, state, session_state(job)):
        raise UsageError(say.NOT_POSSIBLE_NOW(job=key, state=state, done=_DONE[action]))
    actor = Session(job.name, {}) if action in _OF_SESSIONS else job
    getattr(actor, _METHODS.get(action, action))()


_METHODS = {"save": "begin_save", "restore": "begin_restore"}
_OF_SESSIONS = {
    "restart": "restarted",
    "interrupt": "interrupted",
    "prolong": "prolonged",
    "save": "saved",
    "restore": "restored",
}
_DONE = {"cancel": "cancelled", "suspend": "suspended", "resume": "resumed", **_OF_SESSIONS}


# ---------------------------------------------------------------------------- places and lines


def _places(asked: Asked) -> dict[str, list[Place]]:
    return {"places": targets.places(asked.allowed)}


def _place(asked: Asked) -> Any:
    if "place" not in asked.query:
        raise UsageError(say.NO_PLACE())
    return targets.find(asked.query["place"], asked.query.get("namespace"), asked.allowed)


def _fresh(asked: Asked) -> bool:
    return asked.query.get("fresh") == "1"


def _health(asked: Asked) -> dict[str, list[FindingRecord]]:
    return {"findings": targets.health(_place(asked), _fresh(asked))}


def _runtimes(asked: Asked) -> dict[str, list[RuntimeRecord]]:
    return {"runtimes": targets.runtimes(_place(asked), _fresh(asked))}


def _queues(asked: Asked) -> object:
    return {"kueue": targets.queues(_place(asked), _fresh(asked))}


def _runtime_yaml(asked: Asked) -> dict[str, str]:
    return {"yaml": targets.runtime_yaml(_place(asked), asked.names["name"])}


def _options(_: Asked) -> object:
    return {"options": cellline.options()}


def _read_line(asked: Asked) -> Line:
    return cellline.read(_source(asked))


def _write_line(asked: Asked) -> WrittenLine:
    source, changes = _source(asked), asked.body.get("changes") or {}
    if not isinstance(changes, dict):
        raise UsageError(say.CHANGES_NOT_AN_OBJECT())
    return cellline.write(source, changes)


def _source(asked: Asked) -> str:
    if not isinstance(asked.body, dict):
        raise UsageError(say.REQUEST_NOT_AN_OBJECT())
    source = asked.body.get("source")
    if not isinstance(source, str) or len(source) > _MAX_SOURCE:
        raise UsageError(say.NO_CELL())
    return source


_WAIT = {
    _act,
    _delete,
    _job_yaml,
    _where,
    _session,
    _profile,
    _health,
    _runtimes,
    _runtime_yaml,
    _queues,
}

ROUTES = [
    Route(method, re.compile(path), right, answer, answer in _WAIT)
    for method, path, right, answer in (
        ("GET", "jobs", "read", _jobs),
        ("GET", f"jobs/{KEY}", "read", _job),
        ("DELETE", f"jobs/{KEY}", "write", _delete),
        ("GET", f"jobs/{KEY}/metrics", "read", _metrics),
        ("GET", f"jobs/{KEY}/events", "read", _events),
        ("GET", f"jobs/{KEY}/yaml", "read", _job_yaml),
        ("GET", f"jobs/{KEY}/where", "read", _where),
        ("GET", f"jobs/{KEY}/profiles/{PROFILE}", "read", _profile),
        ("GET", f"jobs/{KEY}/session", "read", _session),
        (
            "POST",
            f"jobs/{KEY}/(?P<action>cancel|suspend|resume|detach|restart|interrupt|prolong|save|restore|profile)",
            "execute",
            _act,
        ),
        ("POST", f"jobs/{KEY}/trust", "execute", _trust),
        ("GET", "places", "read", _places),
        ("GET", "health", "read", _health),
        ("GET", "runtimes", "read", _runtimes),
        ("GET", r"runtimes/(?P<name>[a-z0-9][a-z0-9.-]{0,252})/yaml", "read", _runtime_yaml),
        ("GET", "queues", "read", _queues),
        ("GET", "options", "read", _options),
        ("POST", "line/read", "read", _read_line),
        ("POST", "line/write", "read", _write_line),
    )
]
