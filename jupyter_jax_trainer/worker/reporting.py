"""What a cell may import in a job: ``report`` and ``checkpoint_dir``."""

from __future__ import annotations

import math
import operator
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

from jupyter_jax_trainer.messages import worker as say

if TYPE_CHECKING:
    from jupyter_jax_trainer.worker.channel import Channel

CHECKPOINTS_VARIABLE = "JAXTRAIN_CHECKPOINT_DIR"
RESERVED = "jaxtrain/"  # names of metrics that begin so are those of resources
SCRATCH_VARIABLE = "JAXTRAIN_SCRATCH"  # set in pods, where something can be written

Also = Callable[[int, int | None, dict[str, float | int]], None]

_reporter: Reporter | None = None
_noted = False


def report(
    *values: Mapping[str, SupportsFloat] | int,
    step: int | None = None,
    total: int | None = None,
    **metrics: Any,
) -> None:
    """Report progress and metrics.

    In a job they go to the status line and ``metrics.jsonl`` of the job directory; elsewhere they
    are printed, so the same cell runs in both places.

    Parameters
    ----------
    *values
        The step and the total; or metrics as a mapping, for names that are not identifiers:
        ``report(10, 100, loss=x)``, ``report({"eval/loss": x}, step=10)``.
    step
        The step just done. If omitted: one more than in the last report.
    total
        How many steps there will be, for the progress bar and the time left.
    **metrics
        Numbers, or anything that ``float()`` takes; for a JAX scalar, it waits for the value.

    Raises
    ------
    TypeError
        A metric is not a number, or a step is not a whole number.
    ValueError
        The name of a metric begins with ``jaxtrain/``, as those of resources do.

    Examples
    --------
    >>> report(step=10, total=100, loss=0.25)
    step 10/100  loss 0.25
    """
    given: dict[str, Any] = {}
    steps: list[int | None] = []
    for value in values:
        if isinstance(value, Mapping):
            given.update(value)
        else:
            steps.append(operator.index(value))
    if len(steps) > 2:
        raise TypeError(say.REPORT_ARGUMENTS())
    step, total = (
        keyword if keyword is not None else at
        for keyword, at in zip((step, total), (*steps, None, None), strict=False)
    )
    numbers = {name: _number(name, value) for name, value in {**given, **metrics}.items()}
    if _reporter is not None:
        _reporter.add(step, total, numbers)
        return
    words = [] if step is None else [f"step {step}" + (f"/{total}" if total else "")]
    print("  ".join([*words, *(f"{name} {value:.4g}" for name, value in numbers.items())]))


def _number(name: str, value: Any) -> float | int:
    if isinstance(name, str) and name.startswith(RESERVED):
        raise ValueError(say.RESERVED_NAME(name=name, reserved=RESERVED))
    if isinstance(value, bool | int):
        return int(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        shape = getattr(value, "shape", None)
        what = say.ARRAY(shape=shape) if shape else type(value).__name__
        raise TypeError(say.NOT_A_NUMBER(name=name, what=what)) from None


def checkpoint_dir(job: str | None = None) -> Path:
    """Return the job's directory for checkpoints, which outlives its processes.

    All ranks see the same directory; pods need a volume for it (``--volume``, or one of the
    runtime's). A job that is restarted (``--max-restarts``) finds there what it saved. Outside a
    job it is ``jaxtrain-checkpoints`` in the working directory, so the same cell runs in both
    places.

    Parameters
    ----------
    job
        The exact name of another job, to resume from its directory. Outside a job, all share one.

    Returns
    -------
    pathlib.Path
        An existing directory.

    Raises
    ------
    FileNotFoundError
        The other job has none that is visible here.
    """
    given, scratch = os.environ.get(CHECKPOINTS_VARIABLE), os.environ.get(SCRATCH_VARIABLE)
    if not given and scratch:
        given = f"{scratch}/checkpoints"
        _note_the_end_of(given)
    if job is not None and given:
        return _checkpoints_beside(Path(given), job)
    path = Path(given or "jaxtrain-checkpoints").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def _checkpoints_beside(own: Path, job: str) -> Path:
    """Return the checkpoints of another job: its directory lies beside that of this one."""
    path = own.parent.with_name(job) / own.name if re.fullmatch("[a-z0-9-]+", job) else None
    if path is None or not path.is_dir():
        raise FileNotFoundError(say.NO_CHECKPOINTS(job=job, folder=own))
    return path


def _note_the_end_of(folder: str) -> None:
    global _noted
    if not _noted:
        _noted = True
        print(say.CHECKPOINTS_OF_POD(folder=folder))


class Reporter:
    """Sends reports in batches, so that a tight loop does not wait for a reader.

    Parameters
    ----------
    channel
        Where the batches go.
    *also
        Get each report at once: step, total and values.
    """

    def __init__(self, channel: Channel, *also: Also) -> None:
        self._channel = channel
        self._also = also
        self._lock = threading.Lock()
        self._waiting: list[dict[str, Any]] = []
        self._step = -1
        self._made = 0  # reports of this cell
        self._held = False
        self._stop_at: int | None = None
        self._stop_on_nan = False
        self._decided = threading.Condition()
        self._wake = threading.Event()
        threading.Thread(target=self._send_later, name="jaxtrain-report", daemon=True).start()

    def install(self) -> None:
        """Make ``report()`` use this reporter."""
        global _reporter
        _reporter = self

    def stop_on_nan(self, on: bool) -> None:
        """Have a report raise whose metrics are not all finite, or not."""
        self._stop_on_nan = on

    def begin(self) -> None:
        """Count steps from the start again: another cell begins."""
        with self._lock, self._decided:
            self._step = -1
            self._made, self._held, self._stop_at = 0, False, None
            self._decided.notify_all()

    def hold(self) -> int:
        """Let the next report wait for `stop_at`; give how many were made."""
        with self._decided:
            self._held = True
            return self._made

    def stop_at(self, number: int) -> None:
        """Have the report of this number raise `KeyboardInterrupt`; those before it go on."""
        with self._decided:
            self._held, self._stop_at = False, number
            self._decided.notify_all()

    def add(self, step: int | None, total: int | None, values: dict[str, float | int]) -> None:
        """Add one report with the time of now.

        Raises
        ------
        NotFiniteError
            A metric is not finite, and that is to end the job.
        """
        with self._lock:
            self._step = self._step + 1 if step is None else int(step)
            # JSON has no NaN: a diverged loss travels as its name.
            safe = {k: v if math.isfinite(v) else str(float(v)) for k, v in values.items()}
            self._waiting.append(
                {"time": time.time(), "step": self._step, "total": total, "values": safe}
            )
            full = len(self._waiting) >= self._channel.batch
            for also in self._also:
                also(self._step, total, values)
        if full:
            self.flush()
        else:
            self._wake.set()
        with self._decided:
            self._made += 1
            while self._held:
                self._decided.wait()
            if self._stop_at is not None and self._made >= self._stop_at:
                self._stop_at = None  # what handles the interrupt may report
                raise KeyboardInterrupt
        if self._stop_on_nan:
            self._stop_if_not_finite(values)

    def _stop_if_not_finite(self, values: Mapping[str, float | int]) -> None:
        from jupyter_jax_trainer.worker.exceptions import NotFiniteError

        for name, value in values.items():
            if not math.isfinite(value):
                self.flush()
                shown = "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
                raise NotFiniteError(say.NOT_FINITE(metric=name, value=shown, step=self._step))

    def flush(self) -> None:
        """Send what waits."""
        with self._lock:
            batch, self._waiting = self._waiting, []
            if batch:
                self._channel.send("reports", reports=batch)

    def _send_later(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            self.flush()
            time.sleep(self._channel.interval)
