"""Read what a job brought back."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import warn_explicit

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.errors import ResultError, ResultWarning
from jupyter_jax_trainer.jobdir.layout import RETURNED, JobDir
from jupyter_jax_trainer.jobdir.plainreader import PlainReader
from jupyter_jax_trainer.jobdir.resultfile import ResultFile
from jupyter_jax_trainer.messages import results as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import clip, joined, uncoloured
from jupyter_jax_trainer.trust import pickles, policy
from jupyter_jax_trainer.worker.serialization.plain import (
    FORMAT,
    MAX_NODES,
    MAX_TEXT,
    MEMBER,
    PICKLE,
    PLAIN,
)

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job
    from jupyter_jax_trainer.worker.serialization.pickling import Unpickler

_NAMES = 10  # that a warning lists
_WIDTH = 100  # columns of each


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
    values, errors = load_available(job, None if name is None else [name])
    if name is None:
        if errors:
            raise missing(errors, list(values))
        return values
    if name in errors:
        raise ResultError(errors[name])
    if name not in values:
        had = ", ".join(entry["name"] for entry in job.results_info if "error" not in entry)
        raise ResultError(
            say.NO_RESULT(job=job.name, name=name, names=had)
            if had
            else say.NO_RESULTS(job=job.name, name=name)
        )
    return values[name]


def load_available(
    job: Job, names: Collection[str] | None = None
) -> tuple[Namespace, dict[str, str]]:
    """Read what can be had; give the values, and for the others why not.

    Warns with `ResultWarning` where a class is not imported here, so that dictionaries came.

    Parameters
    ----------
    job
        Whose results.
    names
        Only these variables.

    Raises
    ------
    ResultsWithheld
        The job is somebody else's, and the user has not said that it is trusted.
    """
    policy.require(job)
    errors = problems(job)
    wanted = {
        entry["name"]: entry.get("format", PICKLE)
        for entry in job.results_info
        if "error" not in entry and (names is None or entry["name"] in names)
    }
    values = _Loader(job, errors).load(wanted) if wanted else {}
    return values, errors


def problems(job: Job) -> dict[str, str]:
    """Return the variables of ``--out`` that did not come back, and why, once the job has ended."""
    table = job.results_info
    if not table and job.state == State.SUCCEEDED:
        out = JobSpec.from_json(job.manifest["spec"]).out
        return {name: say.NEVER_CAME(name=name, job=job.name) for name in out}
    return {entry["name"]: entry["error"] for entry in table if "error" in entry}


def take_results(job: Job, namespace: Namespace) -> list[str]:
    """Put a job's results into the notebook and name them; give an error for those not there."""
    values, errors = load_available(job)
    namespace.update(values)
    if errors:
        raise missing(errors, list(values))
    return list(values)


def missing(errors: dict[str, str], others: list[str]) -> ResultError:
    """Make the error for variables that did not come."""
    came = say.OTHERS_CAME_BACK(names=", ".join(others)) if others else None
    return ResultError("\n".join(errors.values()), came)


def _few(names: Collection[str]) -> str:
    """List names from an untrusted file, bounding their length and number."""
    shown = [
        clip(" ".join(uncoloured(name[: 2 * _WIDTH]).split()), _WIDTH)
        for name in islice(names, _NAMES)
    ]
    more = len(names) - len(shown)
    return joined([*shown, f"{more:,} more"] if more else shown)


class _Group(NamedTuple):
    """Variables in one pickle, and the buffers of that."""

    names: list[str]
    buffers: range


class _Loader:
    """Reads variables out of a job's file of results.

    Parameters
    ----------
    job
        Whose.
    errors
        Takes a sentence for each variable that can't be had.
    """

    def __init__(self, job: Job, errors: dict[str, str]) -> None:
        self._job = job
        self._errors = errors
        self._file = ResultFile(JobDir(job.directory).result)
        self._strange: dict[str, list[str]] = {}
        self._jax_arrays: dict[int, Any] = {}

    def load(self, formats: Mapping[str, str]) -> Namespace:
        """Return the variables that can be had.

        Parameters
        ----------
        formats
            The variables, and how each is kept as far as the table of results says: users go by
            that before they load anything, and it is the word of the ranks.

        Raises
        ------
        ResultError
            The file can't be read at all.
        """
        try:
            plain, groups = self._contents()
            kept = dict.fromkeys(plain, PLAIN)
            kept.update((name, PICKLE) for group in groups for name in group.names)
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise ResultError(say.FILE_DAMAGED(path=self._file.path, error=error)) from None
        for name, said in formats.items():
            if kept.get(name, said) != said:
                self._errors[name] = say.OTHER_KIND(
                    name=name, path=self._file.path, found=kept[name], said=said
                )
        names = [name for name in formats if name not in self._errors]
        values: dict[str, Any] = {}
        for name in names:
            if name in plain:
                with self._noting([name]):
                    values[name] = self._read_plain(name, plain[name])
        for number, group in enumerate(groups):
            if not set(group.names).isdisjoint(names):
                self._read_group(number, group, values)
        for name in names:
            if name not in values and name not in self._errors:
                self._errors[name] = say.NOT_IN_FILE(name=name, path=self._file.path)
        if self._strange:
            warn_explicit(self._about_strange(), ResultWarning, f"<job {self._job.name}>", 1)
        return {name: values[name] for name in names if name in values}

    def _contents(self) -> tuple[dict[str, Any], list[_Group]]:
        """Return what the manifest says of the variables: those in the plain format, and groups."""
        manifest = self._file.manifest
        version = manifest.get("results_format", 1)
        if version not in (1, FORMAT):
            raise ValueError(say.OTHER_TABLE_FORMAT(found=version, known=FORMAT))
        first = manifest["array_buffers"] if version == 1 else 0
        groups = []
        for entry in manifest["groups"]:
            start = first if version == 1 else entry["first"]
            first = start + entry["buffers"]
            if not 0 <= start <= first <= len(manifest["buffers"]):
                raise ValueError(say.GROUP_BUFFERS_MISSING())
            groups.append(_Group(list(entry["names"]), range(start, first)))
        return dict(manifest.get("plain", {})), groups

    @contextlib.contextmanager
    def _noting(self, names: list[str]) -> Iterator[None]:
        """On an error, note why the variables still in `names` can't be read."""
        try:
            yield
        except Exception as error:  # of a file that was changed, or of classes of the user
            kind = "" if isinstance(error, ResultError) else f"{type(error).__name__}: "
            for name in names:
                self._errors[name] = say.CANNOT_READ(name=name, error=f"{kind}{error}")

    # ---- without pickle

    @cached_property
    def _reader(self) -> PlainReader:
        text = self._file.read(MEMBER, 2 * MAX_TEXT)
        if text.count(b"\n") >= MAX_NODES:  # a list of them takes many times their own memory
            raise ResultError(say.TOO_MANY_NODES(path=self._file.path, most=MAX_NODES))
        return PlainReader(text.split(b"\n") if text else [], self._file.buffer)

    def _read_plain(self, name: str, value: Any) -> Any:
        self._file.check(self._reader.buffers_of(value))
        found = self._reader.read(value)
        if strange := self._reader.strange_classes(value):
            self._strange[name] = strange
        return found

    def _about_strange(self) -> str:
        """Say for which classes dictionaries came, and what to do about it."""
        classes = dict.fromkeys(name for names in self._strange.values() for name in names)
        packages = dict.fromkeys(name.partition(".")[0] for name in classes)
        steps: list[str] = [
            f"import {name}" for name in packages if name.isidentifier() and name != "__main__"
        ]
        if "__main__" in packages:
            steps.append(say.RUN_DEFINING_CELL())
        names = [say.RETURN_VALUE() if name == RETURNED else name for name in self._strange]
        return say.CAME_AS_DICTIONARIES(
            names=_few(names),
            classes=_few(classes),
            steps=_few(steps or [say.IMPORT_PACKAGES()]),
            job=self._job.name,
        )

    # ---- with pickle

    def _read_group(self, number: int, group: _Group, values: dict[str, Any]) -> None:
        waiting = list(group.names)
        with self._noting(waiting):
            self._check_group(group)
            self._file.check(group.buffers)
            buffers = [self._file.buffer(n) for n in group.buffers]
            with self._unpickler(self._file.read(f"group-{number}.pkl"), buffers) as stream:
                while waiting:
                    values[waiting[0]] = stream.load()
                    waiting.pop(0)

    def _check_group(self, group: _Group) -> None:
        if not pickles.allowed():
            raise ResultError(say.NEEDS_PICKLE(variable=pickles.ALLOW))
        manifest = self._file.manifest
        code = {entry["name"] for entry in manifest["results"] if entry.get("has_code")}
        here, there = list(sys.version_info[:2]), manifest["python"]
        if here != there and code & set(group.names):
            raise ResultError(
                say.OTHER_PYTHON(there=f"{there[0]}.{there[1]}", here=f"{here[0]}.{here[1]}")
            )

    def _unpickler(self, stream: bytes, buffers: list[memoryview]) -> Unpickler:
        from jupyter_jax_trainer.worker.serialization.pickling import Unpickler

        find = self._array if "array_buffers" in self._file.manifest else self._node
        return Unpickler(io.BytesIO(stream), buffers=buffers, find=find)

    def _node(self, number: int) -> Any:
        return self._reader.read([number])

    # ---- format 1, of version 0.1

    @cached_property
    def _arrays(self) -> list[Any]:
        """The arrays that were gathered."""
        from jupyter_jax_trainer.worker.serialization.pickling import Unpickler

        own = [self._file.buffer(n) for n in range(self._file.manifest["array_buffers"])]
        with Unpickler(io.BytesIO(self._file.read("arrays.pkl")), buffers=own) as stream:
            found: list[Any] = stream.load()
        return found

    def _array(self, number: int) -> Any:
        from jupyter_jax_trainer.worker.serialization.jaxvalues import make_array

        if number not in self._jax_arrays:
            self._jax_arrays[number] = make_array(self._arrays[number], weak_type=False)
        return self._jax_arrays[number]
