"""The log of a job on the WebSocket: views that grow, searches, and what is asked of both."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.logs.book import PAGE, Line, books
from jupyter_jax_trainer.logs.first_error import first_error
from jupyter_jax_trainer.logs.patterns import Pattern
from jupyter_jax_trainer.logs.search import Search
from jupyter_jax_trainer.logs.view import LogView
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.queries.details import OpenedJob
from jupyter_jax_trainer.queries.protocol import (
    Hit,
    Hits,
    LogState,
    Marks,
    Message,
    RawLine,
    Request,
)
from jupyter_jax_trainer.states import ENDED

_BUDGET = 0.05  # seconds of work at a look; whoever asks for lines waits for its end
_FIRST = 0.01  # … at the first one, so that there is something to see soon
_TO_HIT, _BREATH = 0.1, 0.005  # … and of a rest, as long as there is no hit: somebody waits for it
_BUSY, _QUIET = 0.02, 0.1  # seconds between looks, while there is work left and when there is none
_REST, _SELDOM = 8, 0.25  # so many times what a look took, up to so many seconds, until the next
_NEAR = 200  # hits that are told of, next to the line that is looked at
_ERROR_BUDGET = 10.0  # seconds of work for the first error of a log


class LogTopic:
    """Some lines of a job's log.

    Parameters
    ----------
    message
        ``key``, ``sources``, ``include``, ``exclude`` and ``raw`` as the page gave them.

    Raises
    ------
    UsageError, JobNotFound
        What is asked for can't be given.
    """

    every = _QUIET

    def __init__(self, message: Request) -> None:
        self._opened = OpenedJob(str(message.get("key")))
        self._job, self._directory = self._opened.job, self._opened.directory
        ranks, names = _sources(message.get("sources"), self._job, self._directory)
        every_rank = range(self._job.spec.nodes)
        book = books.get(self._directory, names or every_rank)
        self.view = LogView(
            book,
            _pattern(message.get("include")),
            _pattern(message.get("exclude")),
            raw=bool(message.get("raw")),
            sources=None if names else ranks,
        )
        self._last: LogState | None = None
        self._logs: list[int | str] = []

    def look(self) -> Iterator[Message]:
        """Say which logs the job has and how many lines there are, if that has changed."""
        self._opened.check()
        book, state = self.view.book, self._job.snapshot()
        ended = state["state"] in ENDED  # before the files are looked at: then they are whole
        budget, began = _FIRST if self._last is None else _BUDGET, time.monotonic()
        if book.refresh(budget) and ended and not book.ended:
            book.finish()
        left = max(0.0, began + budget - time.monotonic())
        complete = self.view.advance(left) and (book.ended or not ended)
        message: LogState = {
            "kind": "log",
            "length": self.view.length,
            "complete": complete,
            "ended": ended,
            "began": state["history"][0]["time"] if state["history"] else self._job.created,
            "open": {
                str(source): text.decode(errors="replace") for source, text in book.open().items()
            },
        }
        rest = min(_SELDOM, max(_QUIET, _REST * (time.monotonic() - began)))
        self.every = rest if complete else _BUSY
        if message != self._last:
            self._last = message
            logs: list[int | str] = [*range(self._job.spec.nodes), *self._directory.containers()]
            if logs != self._logs:  # before any line of them
                self._logs = logs
                yield {"kind": "logs", "name": self._job.name, "logs": logs}
            yield message


class SearchTopic:
    """A search in a view.

    Parameters
    ----------
    view
        Where.
    message
        ``pattern``, ``regex``, ``case`` and ``from`` as the page gave them.
    """

    every = _BUSY

    def __init__(self, view: LogView, message: Request) -> None:
        self._from = _number(message.get("from") or 0)
        pattern = _pattern(message)
        if pattern is None:
            raise UsageError(say.NOTHING_TO_SEARCH())
        self._pattern = pattern
        self.search = Search(view, pattern, self._from)
        self._last: Hits | None = None

    def look(self) -> Iterator[Message]:
        """Search on; say what was found."""
        waited_for = self._last is not None and self.search.count == 0
        budget = _FIRST if self._last is None else _TO_HIT if waited_for else _BUDGET
        complete = self.search.advance(budget)
        self.every = _QUIET if complete else _BUSY if self.search.count else _BREATH
        message: Hits = {
            "kind": "hits",
            "count": self.search.count,
            "complete": complete,
            "near": self.search.near(self._from, _NEAR),
            "before": self.search.before(self._from),
        }
        if message != self._last:
            self._last = message
            yield message

    def hit(self, message: Request) -> Hit:
        """Return the next hit, or the one before."""
        at, search = _number(message.get("from") or 0), self.search
        self._from = at
        position = search.previous(at) if message.get("back") else search.next(at)
        number = None if position is None else search.number(position)
        index = None if position is None else search.view.index(position)
        return {
            "kind": "hit",
            "position": position,
            "index": index,
            "number": number,
            "count": search.count,
        }

    def marks(self, message: Request) -> Marks:
        """Return where it matches in texts as the page shows them."""
        given = message.get("texts")
        texts = [text for text in given if isinstance(text, str)] if isinstance(given, list) else []
        if not isinstance(given, list) or len(texts) < len(given):
            raise UsageError(say.NOT_TEXTS())
        return {"kind": "marks", "marks": [self._pattern.spans(text) for text in texts]}


def lines(view: LogView, message: Request) -> Iterable[Message]:
    """Return lines by their numbers in a view."""
    start = _number(message.get("start"))
    count = min(_number(message.get("count")), PAGE)
    found = [_shown(line) for line in view.lines(start, count)]
    return [{"kind": "lines", "start": start, "lines": found}]


def line(view: LogView, message: Request) -> Iterable[Message]:
    """Return one line in full."""
    position = _number(message.get("position"))
    found = view.book.line(position)
    if found is None:
        raise UsageError(say.NO_LINE(position=position))
    return [
        {
            "kind": "line",
            "position": position,
            "source": found.source,
            "time": found.time,
            "text": found.text.decode(errors="replace"),
            "bytes": found.size,
        }
    ]


def found(view: LogView, message: Request) -> Iterable[Message]:
    """Return the first line with an error, or the one at a time."""
    what, moment = message.get("what"), message.get("time")
    whole = view.book.refresh(_FIRST)
    if what == "error":
        until = time.monotonic() + _ERROR_BUDGET
        position = first_error(view, _ERROR_BUDGET)
        complete = position is not None or (whole and time.monotonic() < until)
    elif what == "time" and isinstance(moment, int | float):
        view.advance(_TO_HIT)
        position = view.book.position_at(moment)
        complete = whole if position is None else view.scanned > position
    else:
        raise UsageError(say.CANNOT_LOOK_FOR(what=what))
    index = None if position is None or not complete else view.index(position)
    return [{"kind": "found", "position": position, "index": index, "complete": complete}]


def _shown(line: Line) -> RawLine:
    text = line.text.decode(errors="replace")
    return [line.position, line.source, line.time, text, line.size]


def _pattern(given: object) -> Pattern | None:
    """Read a pattern; None where there is none."""
    if not isinstance(given, Mapping) or not given.get("pattern"):
        return None
    return Pattern(str(given["pattern"]), bool(given.get("regex")), bool(given.get("case")))


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise UsageError(say.NOT_A_LINE_NUMBER(value=value))
    return value


def _sources(given: object, job: Job, directory: JobDir) -> tuple[list[int] | None, list[str]]:
    """Read which logs are wanted: some ranks, None for all of them, or names of containers."""
    if given is None:
        return None, []
    wanted = given if isinstance(given, list) else [given]
    nodes, containers = job.spec.nodes, directory.containers()
    ranks = [source for source in wanted if type(source) is int and 0 <= source < nodes]
    names = [source for source in wanted if source in containers]
    if not wanted or (len(ranks) != len(wanted) and len(names) != len(wanted)):
        raise UsageError(say.NO_SUCH_LOGS(job=job.name, sources=wanted))
    return (None, list(dict.fromkeys(names))) if names else (ranks, [])
