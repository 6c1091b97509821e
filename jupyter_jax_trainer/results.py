"""Read what a job brought back."""

from __future__ import annotations

import io
import sys
from typing import Any

from jupyter_jax_trainer.errors import ResultError
from jupyter_jax_trainer.jobdir import JobDir
from jupyter_jax_trainer.worker.archive import Archive

RETURNED = "__jaxtrain_result__"  # the variable that holds a function's value


def load_results(
    job: str, directory: JobDir, info: list[dict[str, Any]], name: str | None, returns: bool
) -> Any:
    """Read one variable, or all.

    Parameters
    ----------
    job
        The job's name, for errors.
    directory
        Its directory.
    info
        What the job said of its results.
    name
        One variable; None for all.
    returns
        The job is a function's: its value is the result.

    Raises
    ------
    ResultError
        A variable was not asked for, or could not be brought back. The message names those that
        can be had.
    """
    if returns and name is None:
        name = RETURNED
    if name is not None:
        return _load(job, directory, info, name)
    values, errors = load_available(job, directory, info)
    if errors:
        raise missing(job, errors, list(values))
    return values


def load_available(
    job: str, directory: JobDir, info: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read what can be had; give the values, and why the others can't."""
    errors = {entry["name"]: entry["error"] for entry in info if "error" in entry}
    values = {}
    for entry in info:
        if "error" in entry:
            continue
        try:
            values[entry["name"]] = _load(job, directory, info, entry["name"])
        except ResultError as error:
            errors[entry["name"]] = error.message
    return values, errors


def missing(job: str, errors: dict[str, str], others: list[str]) -> ResultError:
    """Make the error for variables that did not come."""
    rest = f" {', '.join(others)} came back." if others else ""
    return ResultError(f"Job {job!r}: {'; '.join(errors.values())}.{rest}")


def _load(job: str, directory: JobDir, info: list[dict[str, Any]], name: str) -> Any:
    entries = {entry["name"]: entry for entry in info}
    if name not in entries:
        had = ", ".join(n for n in entries if n != RETURNED) or "nothing"
        raise ResultError(
            f"Job {job!r} has no result {name!r}; it brought back: {had}.",
            "`-o NAME` brings a variable back; run the cell again with it.",
        )
    if "error" in entries[name]:
        raise ResultError(f"Job {job!r}: {entries[name]['error']}.")
    if not directory.result.exists():
        raise ResultError(f"{directory.result} is missing: the results of job {job!r} are gone.")
    archive = Archive(directory.result)
    here, there = list(sys.version_info[:2]), archive.manifest["python"]
    if here != there and entries[name].get("has_code"):
        raise ResultError(
            f"{name!r} holds functions or classes of Python {there[0]}.{there[1]}, and this is "
            f"Python {here[0]}.{here[1]}."
        )
    return _unpickle(archive, info, name)


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
