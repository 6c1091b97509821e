"""Read what a job brought back."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from jupyter_jax_trainer.errors import ResultError
from jupyter_jax_trainer.jobdir import RETURNED, JobDir
from jupyter_jax_trainer.worker.archive import Archive

if TYPE_CHECKING:
    from jupyter_jax_trainer.handle import Job



def load_results(job: Job, name: str | None) -> Any:
    """Read one variable, or all; a function's value where the job is a function's.

    Raises
    ------
    ResultError
        A variable was not asked for, or could not be brought back. The message names those that
        can be had.
    """
    if job.manifest["returns"] and name is None:
        name = RETURNED
    if name is not None:
        return _load(job, job.results_info, name)
    values, errors = load_available(job)
    if errors:
        raise missing(job, errors, list(values))
    return values


def load_available(job: Job) -> tuple[dict[str, Any], dict[str, str]]:
    """Read what can be had; give the values, and for the others why not."""
    info = job.results_info
    values, errors = {}, {}
    for name in [entry["name"] for entry in info]:
        try:
            values[name] = _load(job, info, name)
        except ResultError as error:
            errors[name] = error.message
    return values, errors


def missing(job: Job, errors: dict[str, str], others: list[str]) -> ResultError:
    """Make the error for variables that did not come."""
    came = f"{', '.join(others)} came back." if others else None
    return ResultError("\n".join(errors.values()), came)


def _load(job: Job, info: list[dict[str, Any]], name: str) -> Any:
    entries = {entry["name"]: entry for entry in info}
    if name not in entries:
        had = ", ".join(n for n in entries if n != RETURNED) or "nothing"
        raise ResultError(
            f"Job {job.name!r} has no result {name!r}; it brought back: {had}.",
            "`-o NAME` brings a variable back; run the cell again with it.",
        )
    if "error" in entries[name]:
        raise ResultError(f"Job {job.name!r}: {entries[name]['error']}.")
    path = JobDir(job.directory).result
    if not path.exists():
        raise ResultError(f"{path} is missing: the results of job {job.name!r} are gone.")
    archive = Archive(path)
    here, there = list(sys.version_info[:2]), archive.manifest["python"]
    if here != there and entries[name]["has_code"]:
        raise ResultError(
            f"{name!r} holds functions or classes of Python {there[0]}.{there[1]}, and this is "
            f"Python {here[0]}.{here[1]}."
        )
    try:
        return _unpickle(archive, info, name)
    except (ImportError, AttributeError) as error:
        raise ResultError(f"{name!r} can't be read here: {error}.") from error


def _unpickle(archive: Archive, info: list[dict[str, Any]], name: str) -> Any:
    """Read a variable's own buffers: first those of gathered arrays, then the rest."""
    from jupyter_jax_trainer.worker.pickling import Unpickler

    buffers = iter(archive.buffers())
    for entry in info:
        if entry["name"] == name or "error" in entry:
            break
        for _ in range(entry["buffers"]):
            next(buffers)
    ours = list(buffers)
    entry = next(entry for entry in info if entry["name"] == name)
    split = entry["arrays"]
    arrays = Unpickler(io.BytesIO(archive.read(f"{name}.arrays")), buffers=ours[:split]).load()

    class WithArrays(Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            import jax.numpy

            return jax.numpy.asarray(arrays[pid])

    return WithArrays(
        io.BytesIO(archive.read(f"{name}.pkl")), buffers=ours[split : entry["buffers"]]
    ).load()
