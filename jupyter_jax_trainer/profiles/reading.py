"""The profiles of a job, and what they say."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.errors import BackendError, JobNotFound
from jupyter_jax_trainer.jobdir.files import is_regular
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import ProfileState
from jupyter_jax_trainer.messages import profiles as say
from jupyter_jax_trainer.profiles import summary
from jupyter_jax_trainer.profiles.child import EXPORT
from jupyter_jax_trainer.profiles.summary import ProfileSummary, RankSummary
from jupyter_jax_trainer.worker.bounds import bound
from jupyter_jax_trainer.worker.profiling import BYTES, BYTES_VARIABLE, TRACE

PERFETTO = "trace.json.gz"  # beside the trace
_CHILD = "jupyter_jax_trainer.profiles.child"
_LINE = 1 << 20  # bytes of what the child says of a rank
_KNOWN = 16  # profiles of which the summary is kept

_summaries: OrderedDict[tuple[str, float], ProfileSummary] = OrderedDict()


def summarize(directory: JobDir, profile: ProfileState) -> ProfileSummary:
    """Return what a profile says; what was read once is not read again.

    Parameters
    ----------
    directory
        The job. Whoever asks sees to it that it is trusted.
    profile
        Which of its profiles.
    """
    key = (f"{directory.path}/{profile['name']}", profile["time"])
    if profile["whole"] and key in _summaries:
        _summaries.move_to_end(key)
        return _summaries[key]
    found = {one["rank"]: one for one in profile["ranks"] if one["problem"]}
    ranks = {rank: summary.missing(rank, str(one["problem"])) for rank, one in found.items()}
    folders = {}
    most = bound(os.environ, BYTES_VARIABLE, BYTES)
    for one in profile["ranks"]:
        rank = one["rank"]
        if rank in ranks:
            continue
        path = folder_of(directory, profile["name"], rank)
        if not is_regular(path / TRACE):
            ranks[rank] = summary.missing(rank, say.NO_TRACE())
        elif (path / TRACE).stat().st_size > most:
            ranks[rank] = summary.missing(rank, say.TRACE_TOO_LARGE(variable=BYTES_VARIABLE))
        else:
            folders[rank] = path
    ranks.update(_read(folders))
    whole = summary.of_ranks(profile["name"], [ranks[rank] for rank in sorted(ranks)])
    if profile["whole"]:
        _summaries[key] = whole
        while len(_summaries) > _KNOWN:
            _summaries.popitem(last=False)
    return whole


def traces_of(directory: JobDir, profile: ProfileState) -> dict[int, Path]:
    """Return the traces that are there, of ranks whose trace is no larger than is read here."""
    most = bound(os.environ, BYTES_VARIABLE, BYTES)
    paths = {
        one["rank"]: folder_of(directory, profile["name"], one["rank"]) / TRACE
        for one in profile["ranks"]
    }
    return {
        rank: path
        for rank, path in paths.items()
        if is_regular(path) and path.stat().st_size <= most
    }


def perfetto(directory: JobDir, profile: ProfileState, rank: int) -> Path:
    """Return the trace of a rank as ui.perfetto.dev opens it, made when it is first asked for.

    Raises
    ------
    JobNotFound
        There is no trace of this rank, or none of a size that is read here.
    BackendError
        It can't be made into that.
    """
    path = folder_of(directory, profile["name"], rank) / PERFETTO
    if is_regular(path):
        return path
    trace = traces_of(directory, profile).get(rank)
    if trace is None:
        raise JobNotFound(say.NO_FILE(name=profile["name"], job=directory.path.name, rank=rank))
    try:
        with tempfile.TemporaryDirectory(prefix=f".{PERFETTO}-", dir=path.parent) as made:
            with _start_child(EXPORT, str(trace), made) as process:
                try:
                    process.wait(timeouts.SUMMARY.seconds)
                finally:
                    process.kill()
            found = [*Path(made).glob(f"plugins/profile/*/*.{PERFETTO}")]
            if process.returncode or len(found) != 1:
                raise OSError(say.ENDED_SILENTLY(code=process.returncode))
            found[0].replace(path)
    except subprocess.TimeoutExpired:
        limit = timeouts.SUMMARY
        late = say.READ_TOO_LONG(seconds=limit.seconds, variable=limit.variable)
        raise BackendError(say.NOT_EXPORTED(rank=rank, why=late, path=trace)) from None
    except OSError as error:  # of the disk, too
        raise BackendError(say.NOT_EXPORTED(rank=rank, why=error, path=trace)) from None
    return path


def folder_of(directory: JobDir, name: str, rank: int) -> Path:
    """Return where the files of a rank are."""
    return directory.profiles / name / f"rank-{rank}"


def _read(folders: Mapping[int, Path]) -> dict[int, RankSummary]:
    """Read profiles in another process, and again without the one at which that has ended."""
    left = dict(folders)
    found: dict[int, RankSummary] = {}
    until = time.monotonic() + timeouts.SUMMARY.seconds
    while left and time.monotonic() < until:
        for one in _ask_child(left, until):
            if left.pop(one["rank"], None) is not None:
                found[one["rank"]] = one
        if left and time.monotonic() < until:
            rank = next(iter(left))
            found[rank] = summary.missing(rank, say.TRACE_UNREADABLE())
            del left[rank]
    late = say.READ_TOO_LONG(seconds=timeouts.SUMMARY.seconds, variable=timeouts.SUMMARY.variable)
    return {**found, **{rank: summary.missing(rank, late) for rank in left}}


def _ask_child(folders: Mapping[int, Path], until: float) -> Iterator[RankSummary]:
    """Yield what the other process says, until it ends or the time is over."""
    process = _start_child(*(f"{rank}={folder}" for rank, folder in folders.items()))
    assert process.stdout is not None, "it is a pipe"
    unread = b""
    with process, process.stdout as output, selectors.DefaultSelector() as selector:
        try:
            selector.register(output, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0 and len(unread) <= _LINE:
                if not selector.select(left):
                    break
                data = os.read(output.fileno(), 1 << 16)
                if not data:
                    break
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    with contextlib.suppress(ValueError, RecursionError):
                        if (one := summary.read(json.loads(line))) is not None:
                            yield one
        finally:
            process.kill()


def _start_child(*words: str) -> subprocess.Popen[bytes]:
    # It needs no device; and what lies in the working directory is no module of ours.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _CHILD, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
