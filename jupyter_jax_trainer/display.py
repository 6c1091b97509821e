"""Follow a job: in a notebook as a card, its log and its displays; elsewhere as plain lines."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_jax_trainer import card
from jupyter_jax_trainer.errors import JobDetached
from jupyter_jax_trainer.jobdir import ENDED, JobDir, LineReader
from jupyter_jax_trainer.logs import LogReader
from jupyter_jax_trainer.text import collapse_carriage_returns, plain, size

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.job import Job
    from jupyter_jax_trainer.spec import JobSpec

_POLL = 0.05  # seconds between looks at the job's directory
_COUNTDOWN = 3.0  # seconds after an interrupt in which a second one cancels
_WARN_SIZE = 10_000_000  # bytes of variables from which there is a warning


class View(Protocol):
    """Shows one job."""

    def status(self, snapshot: dict[str, Any], note: str | None) -> None:
        """Show the state; called often, with the same state, too."""

    def log(self, lines: list[str], unfinished: str) -> None:
        """Show new lines of rank 0, and the line that is being written (a progress bar, say)."""

    def show(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Show what rank 0 displayed."""

    def close(self, snapshot: dict[str, Any]) -> None:
        """Show the end."""


class _Source:
    """What a job has printed and displayed since the last look, in its order."""

    def __init__(self, job: Job) -> None:
        directory = JobDir(job.directory)
        self._log = LogReader(directory.log(0))
        self._displays = LineReader(directory.displays)

    def pump(self, view: View, last: bool = False) -> None:
        """Give to `view` what is new."""
        for entry in self._displays.read():
            # A figure belongs after the lines that were printed before it.
            self._print(view, end=entry["log_offset"])
            view.show(entry["data"], entry["metadata"])
        self._print(view)
        if last:
            view.log([_readable(line) for line in self._log.finish()], "")

    def _print(self, view: View, end: int | None = None) -> None:
        for lines in self._log.read(end):
            view.log([_readable(line) for line in lines], "")
        view.log([], _readable(self._log.unfinished))


def _readable(line: bytes) -> str:
    text = line.decode(errors="replace")
    return plain(collapse_carriage_returns(text.removesuffix("\r")))


def follow(job: Job, *, interruptible: bool = False) -> None:
    """Show a job until it ends.

    Parameters
    ----------
    job
        The job.
    interruptible
        An interrupt starts a countdown: nothing more detaches, a second one cancels the job.
        Otherwise an interrupt is passed on at once.

    Raises
    ------
    JobFailed
        The job failed or was cancelled.
    JobDetached
        The wait was interrupted; the job goes on.
    """
    view: View = _notebook_view(job) if in_notebook() else _terminal_view(job)
    source = _Source(job)
    interrupted: float | None = None
    while True:
        try:
            snapshot = job.snapshot()
            ended = snapshot["state"] in ENDED
            source.pump(view, last=ended)
            if ended:
                view.close(snapshot)
                break
            if interrupted is not None:
                left = interrupted + _COUNTDOWN - time.monotonic()
                if left <= 0:
                    view.status(snapshot, "detached; the job goes on")
                    raise _detached(job)
                view.status(
                    snapshot, f"interrupt again within {left:.0f} s to cancel the job; "
                    "otherwise it goes on without this cell"
                )
            else:
                view.status(snapshot, None)
            time.sleep(_POLL)
        except KeyboardInterrupt:
            if not interruptible:
                raise
            if interrupted is not None:
                view.status(job.snapshot(), "is being cancelled")
                job.cancel()
            interrupted = time.monotonic()
    job.raise_for_state()


def _detached(job: Job) -> JobDetached:
    return JobDetached(
        f"Detached: job {job.name!r} goes on.",
        f"`%jaxtrain attach {job.name}` follows it again, `%jaxtrain cancel {job.name}` ends it.",
    )


def announce_detached(job: Job) -> None:
    """Say how to come back to a job that was started with ``--detach``."""
    print(
        f"Job {job.name} was started.\n"
        f"`%jaxtrain attach {job.name}` follows it, `%jaxtrain cancel {job.name}` ends it."
    )


def in_notebook() -> bool:
    """Tell whether output goes to a Jupyter front end."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


def _notebook_view(job: Job) -> View:
    from jupyter_jax_trainer.notebook_view import NotebookView

    return NotebookView(job)


def _terminal_view(job: Job) -> View:
    from jupyter_jax_trainer.terminal_view import TerminalView

    return TerminalView(job)


def size_warning(capture: Capture) -> str | None:
    """Say what is large among the variables that are sent; None when nothing is."""
    if capture.total < _WARN_SIZE:
        return None
    large = sorted(capture.sent, key=lambda sent: -sent.size)[:3]
    names = ", ".join(f"{sent.name} {sent.type} {size(sent.size)}" for sent in large)
    return (
        f"Sending {size(capture.total)} with the cell: {names}. "
        "Data that the cell loads itself need not be sent."
    )


def dry_run(spec: JobSpec, plan: dict[str, Any], capture: Capture) -> str:
    """Say what a job would be and what would be sent."""
    lines = [
        "Nothing was started. The job would be:",
        f"  {card.shape(spec.to_json(), plan)} on this machine ({plan['runtime']})",
        f"  sent, {size(capture.total)} in all:",
        *(f"    {s.name}  {s.kind}  {s.type}  {size(s.size)}" for s in capture.sent),
        *(f"    {name}  module file" for name in capture.modules),
    ]
    if spec.out:
        lines.append(f"  brought back: {', '.join(spec.out)}")
    return "\n".join(lines)
