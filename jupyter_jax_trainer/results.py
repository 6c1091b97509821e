"""Read what a job brought back."""

from __future__ import annotations

import io
import sys
from collections.abc import MutableMapping
from itertools import islice
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
    values, errors = load_available(job)
    if name is None:
        if errors:
            raise missing(errors, list(values))
        return values
    if name in errors:
        raise ResultError(errors[name])
    if name not in values:
        had = ", ".join(values) or "nothing"
        raise ResultError(
            f"Job {job.name!r} has no result {name!r}; it brought back: {had}.",
            "`-o NAME` brings a variable back; run the cell again with it.",
        )
    return values[name]


def load_available(job: Job) -> tuple[dict[str, Any], dict[str, str]]:
    """Read what can be had; give the values, and for the others why not."""
    table = job.results_info
    errors = {entry["name"]: entry["error"] for entry in table if "error" in entry}
    values: dict[str, Any] = {}
    if len(errors) < len(table):
        _load(job, values, errors)
    order = [entry["name"] for entry in table]
    return {name: values[name] for name in order if name in values}, errors


def take_results(job: Job, namespace: MutableMapping[str, Any]) -> list[str]:
    """Put a job's results into the notebook and name them; give an error for those not there."""
    values, errors = load_available(job)
    namespace.update(values)
    if errors:
        raise missing(errors, list(values))
    return list(values)


def missing(errors: dict[str, str], others: list[str]) -> ResultError:
    """Make the error for variables that did not come."""
    came = f"{', '.join(others)} came back." if others else None
    return ResultError("\n".join(errors.values()), came)


def _file(job: Job) -> Archive:
    path = JobDir(job.directory).result
    if not path.exists():
        raise ResultError(f"{path} is missing: the results of job {job.name!r} are gone.")
    return Archive(path)


def _load(job: Job, values: dict[str, Any], errors: dict[str, str]) -> None:
    """Unpickle the variables, those that share objects together."""
    from jupyter_jax_trainer.worker.pickling import Unpickler

    archive = _file(job)
    manifest = archive.manifest
    buffers = iter(archive.buffers())
    split = list(islice(buffers, manifest["array_buffers"]))
    arrays = Unpickler(io.BytesIO(archive.read("arrays.pkl")), buffers=split).load()
    known: dict[int, Any] = {}

    class WithArrays(Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            import jax.numpy

            if pid not in known:
                known[pid] = jax.numpy.asarray(arrays[pid])
            return known[pid]

    here, there = list(sys.version_info[:2]), manifest["python"]
    code = {entry["name"] for entry in manifest["results"] if entry.get("has_code")}
    for number, group in enumerate(manifest["groups"]):
        own = list(islice(buffers, group["buffers"]))
        waiting = list(group["names"])
        try:
            if here != there and code & set(waiting):
                raise ResultError(
                    f"it holds functions or classes of Python {there[0]}.{there[1]}, and this is "
                    f"Python {here[0]}.{here[1]}"
                )
            reader = WithArrays(io.BytesIO(archive.read(f"group-{number}.pkl")), buffers=own)
            while waiting:
                values[waiting[0]] = reader.load()
                waiting.pop(0)
        except Exception as error:  # whatever the classes of the user do
            kind = "" if isinstance(error, ResultError) else f"{type(error).__name__}: "
            for name in waiting:
                errors[name] = f"{name!r} can't be read here: {kind}{error}"
