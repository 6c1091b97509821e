"""The Python interface: submit a cell or a function, find jobs and runtimes."""

from __future__ import annotations

import contextlib
import getpass
import glob
import inspect
import os
import platform
import random
import re
import reprlib
import sys
import time
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jupyter_jax_trainer
from jupyter_jax_trainer import machine, masking, timeouts
from jupyter_jax_trainer.backends import cells, registry
from jupyter_jax_trainer.backends.cells import CellSubmission
from jupyter_jax_trainer.datatypes import JsonValue, Namespace
from jupyter_jax_trainer.errors import (
    BackendError,
    JaxTrainError,
    JobDirError,
    JobNotFound,
    UsageError,
)
from jupyter_jax_trainer.jobdir import endrunner, files, layout, retention, store
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, Plan, SentRecord, Submitted
from jupyter_jax_trainer.messages import api as say
from jupyter_jax_trainer.messages import backends as backend_words
from jupyter_jax_trainer.messages import cell as cell_words
from jupyter_jax_trainer.messages import local as local_words
from jupyter_jax_trainer.options.amounts import ranks_in
from jupyter_jax_trainer.options.spec import JobSpec, spec_from_options
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.text import joined, plain, size
from jupyter_jax_trainer.trust import policy

if TYPE_CHECKING:
    from jupyter_jax_trainer.backends.base import Submission
    from jupyter_jax_trainer.bundle import Part
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.capture.ledger import Ledger
    from jupyter_jax_trainer.runtime import Runtime

_KERNEL = uuid.uuid4().hex  # this process, among those that send cells to a session
_ledgers: dict[str, Ledger] = {}  # by the uid of the session
_IMPORTS = 1000  # names that are noted
_WARN_SIZE = 10_000_000  # bytes of variables from which there is a warning
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"  # no vowels, no words; nothing that looks like another


def train(
    func: Callable[..., Any],
    *args: Any,
    func_args: Namespace | None = None,
    **options: Any,
) -> Job:
    """Run a function as a job: every rank calls it, and the value on rank 0 is the result.

    Parameters
    ----------
    func
        The function; whatever it uses from the notebook is sent with it.
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
        The job, already started; ``.wait()`` waits for it, ``.result()`` returns the value.

    Raises
    ------
    UsageError, CaptureError, BackendError
        The job can't be started; nothing was.

    Examples
    --------
    >>> job = train(fit, 0.1, nodes=2)      # doctest: +SKIP
    >>> params = job.result()               # doctest: +SKIP
    """
    if not callable(func):
        raise UsageError(say.NOT_A_FUNCTION(type=type(func).__name__))
    from jupyter_jax_trainer.capture import capture_call

    _check_keywords(func, args, options)
    spec = in_session(spec_from_options(**options))
    submission, plan = prepare(spec)
    capture = capture_call(
        func,
        args,
        dict(func_args or {}),
        on_size=lambda total: submission.check_size(total, spec),
        ledger=ledger(submission),
    )
    check(spec, submission, plan, capture)
    say_notes(capture, allow_large=spec.allow_large)
    stem = getattr(func, "__name__", "call")
    return submit(spec, submission, plan, capture, stem=stem, returns=True)


def _check_keywords(
    func: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Find arguments of the function among the options of the job."""
    try:
        parameters = inspect.signature(func).parameters
    except (TypeError, ValueError):
        return
    fields = JobSpec.__dataclass_fields__
    found = {name: options[name] for name in options if name in parameters and name not in fields}
    if found:
        function = getattr(func, "__name__", "func")
        call = ", ".join([function, *map(reprlib.repr, args), f"func_args={reprlib.repr(found)}"])
        raise UsageError(say.ARGUMENT_OF_FUNCTION(name=next(iter(found)), call=call))


def prepare(spec: JobSpec) -> tuple[Submission, Plan]:
    """Begin a submission: its backend checks the spec, before anything is captured.

    Raises
    ------
    UsageError
        The backend can't do what is asked for, or the name is taken; an option lacks another.
    """
    retention.Bounds.of_environment()
    timeouts.check(dict(spec.env))
    if spec.show_secrets and not spec.dry_run:
        raise UsageError(say.ONLY_WITH_DRY_RUN())
    holder = _holder(spec)
    backend = registry.choose(spec) if holder is None else holder.backend
    cells.check(spec, backend)
    backend.check(spec)
    submission = backend.submission(spec)
    if spec.session is not None:
        submission = CellSubmission(backend, submission, holder, _ranks(spec))
    plan = submission.plan(spec)
    if spec.name is not None:
        _free_name(spec.name, submission, plan)
    return submission, plan


def _ranks(spec: JobSpec) -> list[int] | None:
    """Return the ranks that run a cell; None for all, of which rank 0 shows what it displays."""
    return None if spec.rank is None else ranks_in(spec.rank, spec.nodes)


def in_session(spec: JobSpec) -> JobSpec:
    """Return a cell's options, with those of its session if that exists already.

    Raises
    ------
    UsageError
        Its options conflict with the session's, or an ordinary job has the session's name.
    """
    holder = _holder(spec)
    return spec if holder is None else cells.of_cell(spec, holder)


def _holder(spec: JobSpec) -> Job | None:
    """Return the job of the session in which a cell is to run; None where there is none yet."""
    if spec.session is None:
        return None
    found = live_session(spec.session)
    if found is None:
        with contextlib.suppress(JobNotFound, JobDirError):  # damaged: not active
            if job(spec.session).active:
                raise UsageError(backend_words.NAME_OF_JOB(session=spec.session))
    else:
        policy.require_session(found)
    return found


def live_session(name: str) -> Job | None:
    """Return the job of a session that has not ended; None where there is none of that name."""
    with contextlib.suppress(JobNotFound, JobDirError):
        found = job(name)
        if found.active and found.is_session:
            return found
    return None


def ledger(submission: Submission) -> Ledger | None:
    """Return what a session has, for the capture of its next cell; None for a job."""
    if not isinstance(submission, CellSubmission):
        return None
    from jupyter_jax_trainer.capture.ledger import Ledger

    uid = "" if submission.holder is None else submission.holder.uid
    found = _ledgers.get(uid) or Ledger()
    ended = _ended(found)  # before the look: what a cell has left is written before its end
    record, pending = submission.known(), submission.pending()
    found.look(
        record["variables"] if record is not None else {},
        [(one.get("binds", []), _ranks(JobSpec.from_json(one["spec"]))) for one in pending],
        {name: token for one in pending for name, token in one.get("tokens", {}).items()},
        submission.ranks,
    )
    for cell, number, succeeded in ended:
        found.settle(cell, number, succeeded=succeeded)
    if record is not None:
        found.note_restarts(record["restarts"], record["lost"])
    return found


def _ended(ledger: Ledger) -> list[tuple[Hashable, int | None, bool]]:
    """Return which cells of a ledger have ended, as `Ledger.settle` has it."""
    found: list[tuple[Hashable, int | None, bool]] = []
    for cell in ledger.going:
        directory, uid = cast(tuple[JobDir, str], cell)
        number, succeeded = None, False
        with contextlib.suppress(JobDirError):  # damaged or deleted: the variables tell
            if directory.read_manifest()["uid"] == uid:
                state = directory.read_state()
                if state is None or not state["state"].ended:
                    continue
                began = any(one["state"] == State.RUNNING for one in state["history"])
                number = state.get("cell") if began else 0
                succeeded = state["state"] == State.SUCCEEDED
        found.append((cell, number, succeeded))
    return found


def take(job: Job, namespace: Namespace) -> list[str]:
    """Put a job's results into the notebook and name them; those of a session are known to it.

    Raises
    ------
    ResultError
        Some are not there.
    """
    from jupyter_jax_trainer.jobdir.results import take_results

    names = take_results(job, namespace)
    cell_of = job.manifest.get("cell_of")
    if cell_of is not None and (known := _ledgers.get(cell_of["uid"])) is not None:
        known.brought_back(names, namespace, job.snapshot().get("cell", 0))
    return names


def check(spec: JobSpec, submission: Submission, plan: Plan, capture: Capture) -> None:
    """Add the files that go along to what was captured, and let the backend look at it.

    Raises
    ------
    UsageError, CaptureError
        There is nothing to send, or it can't be sent.
    """
    from jupyter_jax_trainer.bundle import held_back

    if names := held_back(spec.nodes):
        note = say.DEBUG_NOT_SENT(names=joined(names), nodes=spec.nodes)
        capture.notes.append(f"{note} {note.hint}")
    if spec.files:
        _add_files(spec, submission, capture)
    submission.check_capture(capture, spec, plan)


def _add_files(spec: JobSpec, submission: Submission, capture: Capture) -> None:
    from jupyter_jax_trainer.capture.capture import Sent
    from jupyter_jax_trainer.capture.files import check_bounds, gather, left_out_note

    found = gather(spec.files, _folder())
    if note := left_out_note(found.left_out):
        capture.notes.append(note)
    if not submission.bundle_travels:
        capture.notes.append(cell_words.FILES_IN_PLACE(count=found.count, size=size(found.size)))
        return
    check_bounds(found, allow_large=spec.allow_large)
    capture.files = found
    capture.sent.append(Sent("files", "files", found.count, found.size))
    submission.check_size(capture.total, spec)


def _folder() -> Path:
    """Return the notebook's folder, which is where its kernel is at work."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError(local_words.DIRECTORY_GONE()) from None


def dry_run(
    spec: JobSpec,
    submission: Submission,
    plan: Plan,
    capture: Capture,
    *,
    stem: str = "cell",
    argv: Sequence[str] = (),
) -> str:
    """Return what a job would be and what would be sent, on Kubernetes as YAML.

    Raises
    ------
    BackendError
        The cluster would refuse it.
    """
    from jupyter_jax_trainer.bundle import write_bundle

    name = _choose_name(spec, submission, plan, stem)
    manifest = _manifest(name, spec, submission, plan, capture)

    def write(path: Path) -> str:
        return write_bundle(
            path,
            name,
            capture,
            spec.out,
            argv=argv,
            wheels=submission.wheels,
            nodes=spec.nodes,
            stop_on_nan=spec.stop_on_nan,
            profile=spec.profile,
        )

    return submission.dry_run(spec, plan, capture, manifest, write)


def say_notes(capture: Capture, *, allow_large: bool = False) -> None:
    """Print what the user should know about what is sent: its size, modules that differ, …."""
    for note in (None if allow_large else size_warning(capture), *capture.notes):
        if note:
            note = masking.text(note if note.endswith(".") else f"{note}.")
            print(plain(note), file=sys.stderr)


def size_warning(capture: Capture) -> str | None:
    """Return what is large among the variables that are sent; None when nothing is."""
    if capture.total < _WARN_SIZE:
        return None
    large = sorted(capture.sent, key=lambda sent: -sent.size)[:3]
    names = ", ".join(f"{sent.name} {sent.type} {size(sent.size)}" for sent in large)
    return say.LARGE(size=size(capture.total), variables=names)


def submit(
    spec: JobSpec,
    submission: Submission,
    plan: Plan,
    capture: Capture,
    *,
    cell: str | None = None,
    stem: str = "cell",
    origin: Submitted | None = None,
    returns: bool = False,
    argv: Sequence[str] = (),
    before_start: Callable[[], None] = lambda: None,
) -> Job:
    """Write the job's directory and start it.

    The directory appears under the job's name when it is complete, and locked; the lock then goes
    to whoever runs the job. If this process dies on the way, nothing runs and nothing is left that
    the next submission does not clear away. `before_start` is called when all is written and the
    job is about to get its name and be started.
    """
    from jupyter_jax_trainer.bundle import write_bundle

    if isinstance(submission, CellSubmission) and submission.holder is None:
        submission.holder = _start_session(spec, submission, plan, capture, origin, before_start)
    endrunner.start(store.home())  # of jobs that ended with the machine
    directory, lock = layout.create()
    try:
        name = _choose_name(spec, submission, plan, stem)
        out = (layout.RETURNED,) if returns else spec.out
        digest = write_bundle(
            directory.bundle,
            name,
            capture,
            out,
            travels=submission.bundle_travels,
            argv=argv,
            wheels=submission.wheels,
            part=_part(spec, submission),
            ranks=_ranks(spec),
            nodes=spec.nodes,
            stop_on_nan=spec.stop_on_nan,
            profile=spec.profile,
        )
        files.write_private(directory.cell, (cell if cell is not None else capture.code).encode())
        manifest = _manifest(name, spec, submission, plan, capture, origin, returns)
        manifest["digest"] = digest
        files.write_json(directory.manifest, manifest)
        before_start()
        directory = _publish(
            directory, manifest, lambda: _choose_name(spec, submission, plan, stem)
        )
        submission.start(directory, lock, manifest)
        if capture.ledger is not None:
            _ledgers[manifest["cell_of"]["uid"]] = capture.ledger
            cell_key = directory, manifest["uid"]
            capture.ledger.sent(capture.selection, capture.names, capture.binds, cell_key)
    except OSError as error:
        directory.remove()
        raise BackendError(
            say.CANNOT_WRITE(error=error.strerror or error, path=directory.path)
        ) from None
    except BaseException:
        if not directory.cancel.exists():  # if it exists, the follower still has to clean up
            directory.remove()
        raise
    finally:
        os.close(lock)
    # The job has been started: nothing that fails from here on is an error.
    with contextlib.suppress(OSError):
        _note_packages(directory, capture)
    with contextlib.suppress(OSError, JaxTrainError):
        retention.apply_environment()
    return Job(directory)


def _note_packages(directory: JobDir, capture: Capture) -> None:
    """Note what is installed here, for those who want to run the job again one day."""
    from jupyter_jax_trainer.capture.versions import installed

    found = {*capture.imports.certain, *capture.imports.possible}
    others = {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names}
    packages: dict[str, JsonValue] = {**installed()}
    imports: list[JsonValue] = [*sorted(others)[:_IMPORTS]]
    files.write_json(directory.packages, {"packages": packages, "imports": imports})


def _start_session(
    spec: JobSpec,
    submission: CellSubmission,
    plan: Plan,
    capture: Capture,
    origin: Submitted | None,
    before_start: Callable[[], None],
) -> Job:
    """Start the session of a first cell, or return the one that somebody started meanwhile.

    Files and offered packages go with the session that is started, and no more with the cell: its
    pods have them when the cell comes, and when their ranks are restarted.
    """
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.capture.files import Files

    first = Capture("", offers=capture.offers, files=capture.files)
    first.sent = [one for one in capture.sent if one.kind in ("package", "files")]
    capture.offers = None
    whole = cells.of_session(spec, plan)
    assert whole.name is not None, "a session has a name"
    try:
        made = submit(
            whole,
            submission.inner,
            plan,
            first,
            origin=origin,
            before_start=before_start,
        )
    except UsageError:
        if (found := live_session(whole.name)) is not None:
            return found
        raise
    capture.files = Files()
    return made


def _manifest(
    name: str,
    spec: JobSpec,
    submission: Submission,
    plan: Plan,
    capture: Capture,
    origin: Submitted | None = None,
    returns: bool = False,
) -> Manifest:
    here = machine.this()
    manifest: Manifest = {
        "name": name,
        "uid": uuid.uuid4().hex,
        "backend": submission.backend,
        "host": here.host,
        "machine": here.machine,
        "boot": here.boot,
        "created": time.time(),
        "spec": spec.to_json(),
        "plan": plan,
        "sent": sent_records(capture),
        "origin": origin or {"cwd": str(_folder())},
        "returns": returns,
        "digest": "",
        "python": ".".join(map(str, sys.version_info[:3])),
        "package": jupyter_jax_trainer.__version__,
        "maker": _maker(),
    }
    if isinstance(submission, CellSubmission) and submission.holder is not None:
        holder = submission.holder
        manifest["cell_of"] = {"session": holder.name, "uid": holder.uid, "kernel": _KERNEL}
        manifest["kept"], manifest["held"] = capture.kept, capture.held
        manifest["remarks"] = [masking.text(one) for one in capture.remarks]
        manifest["binds"] = sorted({*capture.binds, *capture.names})
        manifest["tokens"] = capture.tokens()
    return manifest


def sent_records(capture: Capture) -> list[SentRecord]:
    """Return what is sent, as a manifest has it."""
    return [
        {"name": sent.name, "kind": sent.kind, "type": sent.type, "size": sent.size}
        for sent in capture.sent
    ]


def _maker() -> str:
    """Return who submits a job, for those who see it on a cluster."""
    try:
        return f"{getpass.getuser()}@{platform.node()}"
    except (OSError, KeyError):  # a uid without a name, in a container for instance
        return f"{os.getuid()}@{platform.node()}"


def _part(spec: JobSpec, submission: Submission) -> Part:
    """Return the kind of a job's bundle: a whole job's, a session's, or a session cell's."""
    from jupyter_jax_trainer.bundle import Part

    if spec.session is None:
        return Part.JOB
    return Part.CELL if isinstance(submission, CellSubmission) else Part.SESSION


def _publish(directory: JobDir, manifest: Manifest, choose: Callable[[], str]) -> JobDir:
    """Return the job its name; another submission may have taken it a moment ago."""
    while True:
        try:
            return layout.publish(directory, manifest["name"])
        except FileExistsError:
            manifest["name"] = choose()
            files.write_json(directory.manifest, manifest)


def _choose_name(spec: JobSpec, submission: Submission, plan: Plan, stem: str) -> str:
    """Return a name that is free: the one that was asked for, or else one that is made up."""
    if spec.name:
        return _free_name(spec.name, submission, plan)
    if isinstance(submission, CellSubmission) and submission.holder is not None:
        return cells.cell_name(submission.holder.name, layout.names())
    return _new_name(stem, plan)


def _new_name(stem: str, plan: Plan) -> str:
    """Make up a name that is free."""
    clean = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "cell"
    clean = clean if clean[0].isalpha() else f"job-{clean}"
    clean = clean[: min(44, plan.get("max_name", 63) - 5)].rstrip("-")
    while True:
        # Not the global generator: the user may have seeded it, and would get the same names.
        name = f"{clean}-{''.join(random.SystemRandom().choices(_LETTERS, k=4))}"
        if not (layout.jobs_directory() / name).exists():
            return name


def _free_name(name: str, submission: Submission, plan: Plan) -> str:
    """Return the name, or the name with a number where an ended job has it.

    Running a cell again is the commonest thing in a notebook, so the name of a job that has ended
    can be used again; that job keeps its directory.

    Raises
    ------
    UsageError
        A job of this name is active.
    """
    stem, number, longest = name, 1, plan.get("max_name", 63)
    while (
        directory := JobDir(layout.jobs_directory() / name)
    ).path.exists() or not submission.is_free(name):
        if directory.remove_cut_off():
            continue
        try:
            active = Job(directory).active
        except JobDirError:
            active = directory.is_live()
        if active:
            raise UsageError(say.NAME_ACTIVE(name=name))
        number += 1
        name = f"{stem[: longest - 1 - len(str(number))]}-{number}"
    return name


def jobs() -> list[Job]:
    """List all jobs of this user on this machine, newest first.

    Returns
    -------
    list of Job
        Directories that can't be read are listed last; their state raises `JobDirError`.
    """
    return sorted((Job(directory) for directory in layout.list_all()), key=_newest_first)


def job(name: str) -> Job:
    """Find a job by name: the newest one that was given this name.

    A name that is used again gets a number (``fit``, ``fit-2``); ``fit`` is always the last run,
    ``fit-1`` the first. A job that somebody else submitted is found only by the name that it has
    here, and only if you gave that name to no job of your own.

    Raises
    ------
    JobNotFound
        There is none; the message has the nearest name.
    """
    root = layout.jobs_directory()
    again = [Job(JobDir(path)) for path in root.glob(f"{glob.escape(name)}-[0-9]*")]
    namesakes = [one for one in again if _given_name(one) == name and policy.is_mine(one)]
    first = root / name.removesuffix("-1")
    if name.endswith("-1") and first.is_dir() and not (root / name).exists():
        return Job(JobDir(first))
    if not namesakes:
        return Job(layout.find(name))
    if (root / name).is_dir() and policy.is_mine(named := Job(layout.find(name))):
        namesakes.append(named)
    return min(namesakes, key=_newest_first)


def _given_name(job: Job) -> str | None:
    try:
        return job.spec.name
    except JaxTrainError:
        return None


def _newest_first(job: Job) -> float:
    try:
        return -job.created
    except JaxTrainError:
        return 0.0


def runtimes(
    backend: str = "auto", *, context: str | None = None, namespace: str | None = None
) -> Sequence[Runtime]:
    """List the runtimes that jobs can use.

    Parameters
    ----------
    backend
        The name of a backend; ``auto`` is this machine and the cluster, if a kubeconfig names one
        or this is a pod.
    context, namespace
        The cluster and the namespace.

    Raises
    ------
    BackendError
        The cluster does not answer, and was asked for by name.
    """
    if backend != "auto":
        return registry.get(backend).runtimes(context, namespace)
    found: list[Runtime] = []
    for one in registry.all_backends():
        if one.has_targets() or (one.capabilities.clusters and context):
            found += one.runtimes(context, namespace)
    return found


def notebook_origin() -> Submitted:
    """Return which notebook is at work, as far as its environment tells."""
    found: Submitted = {"cwd": str(Path.cwd())}
    if session := os.environ.get("JPY_SESSION_NAME"):
        found["notebook"] = session
    if cell := _cell_id():
        found["cell"] = cell
    return found


def _cell_id() -> str | None:
    """Return the id of the notebook's cell that runs, where the front end sends it along."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    try:
        return str(kernel.get_parent()["metadata"]["cellId"]) if kernel else None
    except (AttributeError, KeyError, TypeError):
        return None
