"""The Python interface: submit a cell or a function, find jobs and runtimes."""

from __future__ import annotations

import os
import platform
import random
import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jupyter_jax_trainer
from jupyter_jax_trainer import files, jobdir
from jupyter_jax_trainer.errors import BackendError, JaxTrainError, JobDirError, UsageError
from jupyter_jax_trainer.handle import Job
from jupyter_jax_trainer.jobdir import JobDir
from jupyter_jax_trainer.spec import JobSpec, spec_from_options

if TYPE_CHECKING:
    from jupyter_jax_trainer.backends.base import Backend
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.runtime import Runtime

_LETTERS = "bcdfghjkmnpqrstvwxz23456789"  # no vowels, no words; nothing that looks like another


def train(
    func: Callable[..., Any],
    *args: Any,
    func_args: Mapping[str, Any] | None = None,
    **options: Any,
) -> Job:
    """Run a function as a job: every rank calls it, and rank 0's value is the result.

    Parameters
    ----------
    func
        The function; what it uses of the notebook comes along.
    *args
        Its positional arguments.
    func_args
        Its keyword arguments.
    **options
        The options of ``%%jaxtrain`` as keywords: ``nodes=4``, ``devices_per_node=2``,
        ``timeout="2h"``, and so on.

    Returns
    -------
    Job
        The job, which has been started; ``.wait()`` waits, ``.result()`` gives the value.

    Raises
    ------
    UsageError, CaptureError, BackendError
        Before anything is started.

    Examples
    --------
    >>> job = train(fit, 0.1, nodes=2)      # doctest: +SKIP
    >>> params = job.result()               # doctest: +SKIP
    """
    if not callable(func):
        raise UsageError(
            f"train() takes a function, and got {type(func).__name__}.",
            "For a cell's text use %%jaxtrain.",
        )
    from jupyter_jax_trainer.capture import capture_call

    spec = spec_from_options(**options)
    backend, plan = prepare(spec)
    capture = capture_call(
        func, args, dict(func_args or {}), on_size=lambda total: backend.check_size(total, spec)
    )
    stem = getattr(func, "__name__", "call")
    return submit(spec, backend, plan, capture, stem=stem, returns=True)


def prepare(spec: JobSpec) -> tuple[Backend, dict[str, Any]]:
    """Choose the backend of a spec and let it check the spec, before anything is captured.

    Raises
    ------
    UsageError
        The backend can't do what is asked for, or the name is taken.
    """
    if spec.backend == "kubernetes":
        raise UsageError(
            "This version of jupyter_jax_trainer has no Kubernetes backend yet.",
            "Leave --backend out to train on this machine.",
        )
    from jupyter_jax_trainer.backends.local.backend import LocalBackend

    backend = LocalBackend()
    plan = backend.plan(spec)
    if spec.name is not None:
        _free_name(spec.name)
    return backend, plan


def submit(
    spec: JobSpec,
    backend: Backend,
    plan: dict[str, Any],
    capture: Capture,
    *,
    cell: str | None = None,
    stem: str = "cell",
    origin: Mapping[str, Any] | None = None,
    returns: bool = False,
    before_start: Callable[[], None] = lambda: None,
) -> Job:
    """Write the job's directory and start it.

    The directory appears under the job's name when it is complete, and locked; the lock then goes
    to whoever runs the job. If this process dies on the way, nothing runs and nothing is left that
    the next submission does not clear away. `before_start` is called when all is written and the
    job is about to get its name and be started.
    """
    from jupyter_jax_trainer.bundle import write_bundle

    directory, lock = jobdir.create()
    try:
        name = _free_name(spec.name) if spec.name else _new_name(stem)
        out = (jobdir.RETURNED,) if returns else spec.out
        digest = write_bundle(
            directory.bundle, name, capture, out, travels=backend.bundle_travels
        )
        directory.cell.write_text(cell if cell is not None else capture.code)
        manifest = {
            "format": files.FORMAT,
            "name": name,
            "uid": uuid.uuid4().hex,
            "backend": "local",
            "host": platform.node(),
            "created": time.time(),
            "spec": spec.to_json(),
            "plan": plan,
            "sent": [vars(sent) for sent in capture.sent],
            "origin": dict(origin or {}),
            "returns": returns,
            "digest": digest,
            "python": ".".join(map(str, sys.version_info[:3])),
            "package": jupyter_jax_trainer.__version__,
        }
        files.write_json(directory.manifest, manifest)
        before_start()
        directory = _publish(directory, name, manifest)
        backend.start(directory, lock, manifest)
    except OSError as error:
        directory.remove()
        raise BackendError(
            f"The job's directory can't be written: {error.strerror or error} ({directory.path}).",
            "`jaxtrain delete NAME` removes old jobs; JAXTRAIN_HOME can name another disk.",
        ) from None
    except BaseException:
        directory.remove()
        raise
    finally:
        os.close(lock)
    return Job(directory)


def _publish(directory: JobDir, name: str, manifest: dict[str, Any]) -> JobDir:
    """Give the job its name; another submission may have taken it a moment ago."""
    while True:
        try:
            return jobdir.publish(directory, name)
        except FileExistsError:
            name = manifest["name"] = _free_name(name)
            files.write_json(directory.manifest, manifest)


def _new_name(stem: str) -> str:
    """Make up a name that is free."""
    clean = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40] or "cell"
    clean = clean if clean[0].isalpha() else f"job-{clean}"
    while True:
        # Not the global generator: the user may have seeded it, and would get the same names.
        name = f"{clean}-{''.join(random.SystemRandom().choices(_LETTERS, k=4))}"
        if not (jobdir.jobs_directory() / name).exists():
            return name


def _free_name(name: str) -> str:
    """Give the name, or the name with a number where an ended job has it.

    Running a cell again is the commonest thing in a notebook, so the name of a job that has ended
    can be used again; that job keeps its directory.

    Raises
    ------
    UsageError
        A job of this name is active.
    """
    stem, number = name, 1
    while (directory := JobDir(jobdir.jobs_directory() / name)).path.exists():
        if directory.remove_cut_off():
            return name
        try:
            active = Job(directory).active
        except JobDirError:
            active = directory.is_live()
        if active:
            raise UsageError(
                f"There is an active job {name!r}.",
                f"`%jaxtrain attach {name}` follows it, `%jaxtrain cancel {name}` ends it; "
                "or choose another --name.",
            )
        number += 1
        name = f"{stem[: 62 - len(str(number))]}-{number}"
    return name


def jobs() -> list[Job]:
    """List all jobs of this user on this machine, the newest first.

    Returns
    -------
    list of Job
        Directories that can't be read are listed last; their state raises `JobDirError`.
    """

    def created(job: Job) -> float:
        try:
            return -job.created
        except JaxTrainError:
            return 0.0

    return sorted((Job(directory) for directory in jobdir.list_all()), key=created)


def job(name: str) -> Job:
    """Find a job by its name.

    Raises
    ------
    JobNotFound
        There is none; the nearest name is given.
    """
    return Job(jobdir.find(name))


def runtimes() -> Sequence[Runtime]:
    """List what jobs can run on."""
    from jupyter_jax_trainer.runtime import local_runtimes

    return local_runtimes()


def notebook_origin() -> dict[str, Any]:
    """Say which notebook is at work, as far as its environment tells."""
    session = os.environ.get("JPY_SESSION_NAME")
    return {"notebook": session, "cwd": str(Path.cwd())} if session else {"cwd": str(Path.cwd())}
