"""How a job has ended: what to say of it, from what its ranks and the cluster have shown."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions
from pathlib import PurePosixPath

from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.endings import broken_before
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import Verdict
from jupyter_jax_trainer.backends.kubernetes.submit.payload import NOT_STARTED, SAID
from jupyter_jax_trainer.capture.distributions import by_modules
from jupyter_jax_trainer.jobdir.failure import Failure, RankEnd, diagnose, positions
from jupyter_jax_trainer.jobdir.layout import RETURNED, JobDir
from jupyter_jax_trainer.jobdir.manifest import submitted_of
from jupyter_jax_trainer.jobdir.state import ResultInfo
from jupyter_jax_trainer.logs.reader import last_lines
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.worker.records import ErrorRecord, Position

_LAST_WORDS = 20
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '(\w+(?:\.\w+)*)'$", re.MULTILINE)
# As Python says it, and as numpy does.
_NO_FILE = re.compile(
    r"\[Errno 2\] No such file or directory: "
    r"(?P<quoted>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<bare>[^\n]+) not found\.$"
)


def failure_of(
    directory: JobDir,
    ends: Sequence[RankEnd],
    where: Mapping[int, Position],
    verdict: Verdict,
    pods: Sequence[Pod],
) -> Failure:
    """Name the first cause: a rank's, where one has failed, else the cluster's.

    Parameters
    ----------
    directory
        The job's.
    ends, where
        How each rank ended, and what it said last of where it was.
    verdict
        What the cluster shows.
    pods
        The pods; one that had to do something first may be what has failed.
    """
    told = any(end.error or end.exit or end.cause for end in ends)
    if not told or verdict.cause == "deadline":
        message = verdict.reason or say.FAILED()
        if places := positions([(end, where.get(end.rank)) for end in ends]):
            message += f"; {places}"
        failure = Failure(
            kind="timeout" if verdict.cause == "deadline" else "cluster",
            message=message,
            hint=verdict.hint,
        )
        if verdict.cause == "initializer-failed" and (found := broken_before(pods)):
            failure.container, failure.hint = str(found.source), None  # the log is shown here
            failure.log = last_lines(directory.log(found.source), _LAST_WORDS)
        elif verdict.cause in (None, "failed") and not any(end.joined for end in ends):
            # JobSet may delete the pod of an initializer before anybody sees how it ended; a job
            # that was marked as failed, so that it isn't run again, has the words of the mark.
            others = directory.containers()
            if len(others) == 1 and not any(directory.log(end.rank).exists() for end in ends):
                failure.container = others[0]
                failure.log = last_lines(directory.log(others[0]), _LAST_WORDS)
        return failure
    failure = diagnose(ends)
    if failure.error is None and failure.rank is not None:
        failure.log = last_lines(directory.log(failure.rank), _LAST_WORDS)
        joined = any(end.rank == failure.rank and end.joined for end in ends)
        if failure.exit == NOT_STARTED and not joined and failure.log:  # there was no worker yet
            failure.kind, failure.hint = "start", None
            failure.message = failure.log[-1].removeprefix(SAID)
    error = failure.error
    if error is not None and not failure.hint:
        failure.hint = _missing(error, directory) or _not_sent(error, directory)
    return failure


def _missing(error: ErrorRecord, directory: JobDir) -> str | None:
    """Return what to do about a module that is missing, by the name of the package that has it.

    Libraries that look for another one often raise an `ImportError` from the error of Python.
    """
    text = f"{error['type']}: {error['message']}"
    found = _NO_MODULE.fullmatch(text)
    if found is None and error["type"] == "ImportError":
        found = next(_NO_MODULE.finditer(error["traceback"]), None)
    if found is None:
        return None
    module = found[1]
    top = module.partition(".")[0]
    origin = submitted_of(directory.read_manifest())
    folder = origin["cwd"] if origin is not None else None
    if folder and any(os.path.exists(f"{folder}/{top}{end}") for end in (".py", "/__init__.py")):
        return say.OWN_MODULE_NOT_SENT(module=module)
    # Of a namespace each part may be another package's.
    package = next(iter(by_modules([module])), None)
    package = package or next(iter(packages_distributions().get(top, ())), top)
    return say.NO_MODULE(package=package)


def _not_sent(error: ErrorRecord, directory: JobDir) -> str | None:
    """Return what to do about a file that is missing in the job, and is beside the notebook.

    A job that was submitted elsewhere has no notebook here.
    """
    found = _NO_FILE.match(error["message"])
    if found is None or error["type"] != "FileNotFoundError":
        return None
    origin = submitted_of(directory.read_manifest())
    try:
        name = ast.literal_eval(found["quoted"]) if found["quoted"] else found["bare"]
    except (SyntaxError, ValueError):
        return None
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        return None
    if origin is None or not os.path.exists(f"{origin['cwd']}/{path}"):
        return None
    # A comma would end the pattern.
    return say.FILE_NOT_SENT(file=path, pattern=shlex.quote(str(path).replace(",", "?")))


def nothing_came(spec: JobSpec, returns: bool, why: str | None) -> list[ResultInfo]:
    """Make the results table of a job that succeeded, but whose message about them was lost.

    The ranks always say what they send; nothing of that was heard.
    """
    why = why or say.LOG_END_LOST()
    names = [RETURNED] if returns else spec.out
    return [{"name": name, "error": say.NOT_BACK(name=name, reason=why)} for name in names]
