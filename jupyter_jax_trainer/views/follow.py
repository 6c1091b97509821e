"""Follow a job: in a notebook as a card, its log and its displays; elsewhere as plain lines."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_jax_trainer.datatypes import MimeBundle
from jupyter_jax_trainer.errors import JobDetached
from jupyter_jax_trainer.jobdir.describe import renamed
from jupyter_jax_trainer.jobdir.files import LineReader, open_regular
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Plan
from jupyter_jax_trainer.jobdir.records import Display
from jupyter_jax_trainer.jobdir.state import JobState, Snapshot, announced
from jupyter_jax_trainer.jobdir.waiting import Waiting
from jupyter_jax_trainer.logs.reader import LogReader, is_noise
from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.states import ENDED, Phase, Unstarted
from jupyter_jax_trainer.text import plain, ranks_text, size
from jupyter_jax_trainer.trust.policy import harmless
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.views.frontend import in_notebook, running_shell
from jupyter_jax_trainer.worker.exceptions import STOPPED_LINE

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.jobdir.job import Job
    from jupyter_jax_trainer.options.spec import JobSpec
    from jupyter_jax_trainer.views.interrupts import Interrupts

_POLL = 0.05  # seconds between looks at the job's directory
_SETTLE = 0.1  # seconds after which a display that came before a line is surely known
_HOLD = 1.0  # seconds for which a traceback waits that may be the last word of the job
_TAIL = 1 << 16  # bytes at the end of the log among which it is looked for
_STOPPED = STOPPED_LINE.encode()
_LAST_WORDS = re.compile(
    rb"^(?:.*Traceback \(most recent call last\):|%s)$" % _STOPPED, re.MULTILINE
)
_LONG = 10.0  # seconds after which it is said that some ranks have finished
_COUNTDOWN = 3.0  # seconds after an interrupt in which a second one cancels


class View(Protocol):
    """Shows one job."""

    def begin(self, facts: Facts, snapshot: Snapshot, job: Job | None = None) -> None:
        """Show at once what the job is; called again, with the job, when there is one."""

    def status(self, snapshot: Snapshot, note: str | None) -> None:
        """Show the state; called often, with the same state, too."""

    def log(self, lines: list[bytes], unfinished: bytes) -> None:
        """Show new lines of rank 0, and the line that is being written (a progress bar, say)."""

    def show(self, data: MimeBundle, metadata: MimeBundle, name: str | None, update: bool) -> None:
        """Show what rank 0 displayed; an update replaces what it displayed under this name."""

    def close(self, snapshot: Snapshot, note: str | None) -> None:
        """Show the last of it, when the job has ended or the view is left."""


class _Source:
    """What a job has printed and displayed since the last look, in its order."""

    def __init__(self, job: Job) -> None:
        directory = JobDir(job.directory)
        self._job = job
        self._path = directory.log(0)
        self._log = LogReader(self._path)
        self._displays = LineReader[Display](directory.displays)
        self._sizes: deque[tuple[float, int]] = deque()
        self._index = (
            LineReader[list[Any]](directory.log_index)
            if job.backend.capabilities.index_is_final
            else None
        )
        self._indexed = 0

    def pump(self, view: View, snapshot: JobState) -> None:
        """Give to `view` what is new.

        The traceback of the failure is left out where it is rank 0's last word: the error that
        ends the cell has it.
        """
        last = snapshot["state"] in ENDED
        end = self._end(snapshot) if last else self._hold(self._settled(), snapshot)
        for entry in self._displays.read():
            data, metadata = entry["data"], entry["metadata"]
            if not self._job.trusted:
                data, metadata = harmless(data), {}
            name, update = entry.get("id"), entry.get("update") is True
            # A figure belongs after the lines that were printed before it.
            self._print(view, entry["log_offset"])
            if not update:
                view.log(self._log.finish(), b"")
            view.show(data, metadata, name if isinstance(name, str) else None, update)
        self._print(view, end)
        if last:
            view.log(self._log.finish(), b"")

    def _settled(self) -> int:
        """Return how far the log had come when every display before that was known.

        Where the index does not say it, it is true of what was there a moment ago.
        """
        now = time.monotonic()
        self._sizes.append((now, self._size()))
        while len(self._sizes) > 1 and self._sizes[1][0] <= now - _HOLD:
            self._sizes.popleft()
        if self._index is None:
            return self._size_before(_SETTLE)
        for row in self._index.read():
            if row[:1] == [0] and row[1:2]:
                self._indexed = max(self._indexed, int(row[1]))
        return self._indexed

    def _size_before(self, seconds: float) -> int:
        """Return how large the log was some time ago."""
        then = time.monotonic() - seconds
        return next((size for at, size in reversed(self._sizes) if at <= then), 0)

    def _hold(self, end: int, snapshot: JobState) -> int:
        """Return where something begins that may be the last word of rank 0, else `end`.

        From there on lines come a moment later, and only at the end when rank 0 has failed.
        """
        start = max(self._log.offset, end - _TAIL)
        found = _LAST_WORDS.search(self._read(start, end))
        if found is None:
            return end
        place = start + found.start()
        ended = any(
            rank["rank"] == 0 and rank["state"] in (Phase.FAILED, Phase.STOPPED)
            for rank in snapshot["ranks"]
        )
        return place if ended else max(place, self._size_before(_HOLD))

    def _end(self, snapshot: JobState) -> int | None:
        """Return where rank 0 says no more than how the job failed, if it ends so; else None.

        Ranks often fail alike, so it may be another rank that was the first.
        """
        failure = snapshot["failure"]
        if failure is None or failure["error"] is None or not failure["error"]["traceback"]:
            return None
        text = failure["error"]["traceback"]
        words = text.encode(errors="backslashreplace")
        size = self._size()
        start = max(0, size - len(words) - _TAIL)
        data = self._read(start, size)
        # It may stand behind a line that was left open, as by input().
        same = re.compile(rb"(?:%s|^%s)\n" % (re.escape(words), _STOPPED), re.MULTILINE)
        for found in same.finditer(data):
            if all(map(is_noise, data[found.end() :].splitlines())):
                return start + found.start()
        return None

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return self._path.stat().st_size
        return 0

    def _read(self, start: int, end: int) -> bytes:
        with contextlib.suppress(OSError), open_regular(self._path) as file:
            file.seek(start)
            return file.read(max(0, end - start))
        return b""

    def _print(self, view: View, end: int | None) -> None:
        for lines in self._log.read(end):
            view.log(lines, b"")
        view.log([], self._log.unfinished)


class Stragglers:
    """Notices ranks that go on long after others have finished."""

    def __init__(self) -> None:
        self._since: float | None = None

    def note(self, snapshot: JobState) -> str | None:
        """Name both, ten seconds after the first rank has finished."""
        done = [rank["rank"] for rank in snapshot["ranks"] if rank["state"] == Phase.FINISHED]
        others = [rank["rank"] for rank in snapshot["ranks"] if rank["state"] == Phase.RUNNING]
        if not done or not others:
            self._since = None
            return None
        if self._since is None:
            self._since = time.monotonic()
        if time.monotonic() - self._since < _LONG:
            return None
        return say.SOME_FINISHED(finished=ranks_text(done), running=ranks_text(others))


def open_view() -> View:
    """Make a view for where the output goes."""
    if in_notebook():
        from jupyter_jax_trainer.views.notebook import NotebookView

        return NotebookView()
    from jupyter_jax_trainer.views.terminal import TerminalView

    return TerminalView()


def announce(view: View, spec: JobSpec, plan: Plan, capture: Capture) -> None:
    """Show what will be sent, before it is."""
    facts, total = Facts.before(spec, plan, capture), size(capture.total)
    if spec.detach:
        things = facts.sent and say.SENDING_THINGS(size=total, things=facts.sent)
        print(plain(things or say.SENDING_SIZE(size=total)))
    else:
        view.begin(facts, announced(Unstarted.SENDING, say.TOTAL_SIZE(size=total)))


def not_started(view: View, spec: JobSpec) -> None:
    """Show that nothing came of what was announced."""
    if not spec.detach:
        view.close(announced(Unstarted.NOT_STARTED), None)


def follow(job: Job, interrupts: Interrupts | None = None, view: View | None = None) -> None:
    """Show a job until it ends.

    Parameters
    ----------
    job
        The job.
    interrupts
        Holds the interrupts: one starts a countdown, after which the job is left to itself; a
        second one within it cancels the job. Without it an interrupt is raised at once.
    view
        The view that has announced the job, if there is one.

    Raises
    ------
    JobFailed
        The job failed or was cancelled.
    JobDetached
        The wait was interrupted; the job goes on.
    """
    view = view or open_view()
    source, stragglers = _Source(job), Stragglers()
    snapshot = job.snapshot()
    with Waiting(JobDir(job.directory)) as waiting:
        view.begin(Facts.of(job), snapshot, job)
        while True:
            source.pump(view, snapshot)
            if snapshot["state"] in ENDED:
                view.close(snapshot, None)
                break
            times = list(interrupts.times) if interrupts else []  # more may come meanwhile
            left = times[0] + _COUNTDOWN - time.monotonic() if times else math.inf
            note: str | None = None
            if len(times) > 1:
                note = say.CANCELLING()
            elif left <= 0 or waiting.over():
                view.close(snapshot, say.LEFT_RUNNING())
                raise detached(job)
            elif times:
                note = say.INTERRUPT_AGAIN(seconds=math.ceil(left))
            else:
                note = stragglers.note(snapshot)
            view.status(snapshot, note)
            waiting.say(note)
            if len(times) > 1:
                job.cancel()
            time.sleep(_POLL)
            snapshot = job.snapshot()
    job.raise_for_state()


def detached(job: Job) -> JobDetached:
    """Make the error that ends a cell whose job goes on."""
    return JobDetached(say.DETACHED(name=job.name))


def ended_meanwhile(job: Job) -> JobDetached:
    """Make the error for an interrupt after which the job ended before its cell did."""
    return JobDetached(say.ENDED_MEANWHILE(name=job.name))


def announce_detached(job: Job) -> None:
    """Say how to come back to a job that was started with ``--detach``."""
    if in_notebook():
        from jupyter_jax_trainer.views.bundle import show

        show(job)
    if note := renamed(job.spec.name, job.name):
        print(plain(note))
    command = "%jaxtrain" if running_shell() else "jaxtrain"
    print(say.STARTED(name=job.name, command=command))
