"""The interface of a backend, which is a way of running jobs; `registry` lists the backends.

All code that shows or controls a job goes through its backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypedDict

from jupyter_jax_trainer.errors import JobNotFound, UsageError
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, Plan
from jupyter_jax_trainer.jobdir.state import JobState
from jupyter_jax_trainer.messages import backends as say
from jupyter_jax_trainer.messages import channel
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.timeouts import CANCEL
from jupyter_jax_trainer.worker.timeouts import Timeout

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.channel.protocol import ProfileName, RankPlace
    from jupyter_jax_trainer.doctor.finding import Finding
    from jupyter_jax_trainer.runtime import Runtime


@dataclass(frozen=True)
class Target:
    """Where jobs can run.

    Attributes
    ----------
    id
        A stable identifier.
    backend
        The name of its backend.
    context, namespace
        Its cluster and namespace; the context is None for the cluster in which this process runs
        as a pod, and both are None for backends without clusters.
    label
        What people call it.
    current
        Whether it is the default cluster.
    problem, hint
        Why it can't be used, and what to do; None where no problem is known.
    """

    id: str
    backend: str
    label: str
    context: str | None = None
    namespace: str | None = None
    current: bool = False
    problem: str | None = None
    hint: str | None = None


class FreeQuota(TypedDict):
    """What is left of a queue's own quota of a resource, and how much there is in all."""

    flavor: str
    resource: str
    total: str
    free: str


class Queue(TypedDict):
    """A queue, for people to choose.

    Attributes
    ----------
    problem
        Why it takes no jobs; None where it does.
    waiting, admitted
        How many jobs.
    free
        None where that may not be read.
    """

    name: str
    problem: str | None
    waiting: int
    admitted: int
    free: list[FreeQuota] | None


class Priority(TypedDict):
    """A class of priorities."""

    name: str
    value: int | None
    description: str | None


class Queues(TypedDict):
    """The queues of a target.

    Attributes
    ----------
    version
        The version of the queueing system; None if unknown.
    keeps_patches
        It is known to keep what is patched into a job's runtime.
    """

    version: str | None
    keeps_patches: bool
    queues: list[Queue]
    priorities: list[Priority]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a backend can do beyond running jobs.

    Attributes
    ----------
    suspend
        Suspend a job and resume it.
    clusters
        It has contexts and namespaces: ``--context`` and ``--namespace`` choose among them.
    where
        Ask the ranks where they are.
    profiles
        Profile the ranks of a job that runs.
    sessions
        Keep the ranks of a job, and run cells on them.
    """

    suspend: bool = False
    clusters: bool = False
    where: bool = False
    profiles: bool = False
    sessions: bool = False


@dataclass(frozen=True, kw_only=True)
class ClusterJob:
    """What a list shows of a job of a cluster, whoever made it.

    Attributes
    ----------
    uid
        Our own id of the job; None for one that was made with other tools.
    created
        Seconds since the epoch.
    """

    name: str
    state: State
    reason: str | None
    hint: str | None
    nodes: int
    created: float | None
    uid: str | None


@dataclass(frozen=True, kw_only=True)
class RuntimeReport:
    """What is known of a runtime, with its YAML."""

    title: str
    findings: Sequence[Finding]
    yaml: str


@dataclass(frozen=True, kw_only=True)
class InstallRequest:
    """The options of ``runtimes install``."""

    devices: Sequence[str]
    slim: bool = False
    python: str | None = None
    registry: str | None = None
    image: str | None = None
    volume: str | None = None
    context: str | None = None
    namespace: str | None = None
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Converted:
    """Jobs converted from another tool's format.

    Attributes
    ----------
    yaml
        The jobs for this backend; empty where none is left.
    reports
        For each job, what to know before applying the YAML.
    """

    yaml: str
    reports: Sequence[str]


class Submission(Protocol):
    """One submission: checks a spec and starts the job, which is then all in its directory.

    Attributes
    ----------
    backend
        The name of its backend.
    bundle_travels
        The bundle is sent to other machines.
    wheels
        Packages that the bundle takes along, by their file names.
    """

    backend: str
    bundle_travels: bool
    wheels: Mapping[str, bytes]

    def plan(self, spec: JobSpec) -> Plan:
        """Check a spec against what is there, and return what the job will get.

        Raises
        ------
        UsageError
            The spec asks for what this backend can't give.
        """

    def check_size(self, total: int, spec: JobSpec) -> None:
        """Refuse what can't be sent.

        Raises
        ------
        CaptureError
            With the sizes and the way out.
        """

    def check_capture(self, capture: Capture, spec: JobSpec, plan: Plan) -> None:
        """Refuse what can't be used where the job will run, and add to the notes for the user.

        Raises
        ------
        CaptureError
            With what it is and the way out.
        """

    def is_free(self, name: str) -> bool:
        """Return whether no job that has ended has this name where the job will run.

        Raises
        ------
        UsageError
            An active job has it.
        """

    def dry_run(
        self,
        spec: JobSpec,
        plan: Plan,
        capture: Capture,
        manifest: Manifest,
        write: Callable[[Path], str],
    ) -> str:
        """Return what would be started; `write` writes the bundle and returns its digest.

        Raises
        ------
        BackendError
            It would be refused.
        """

    def start(self, directory: JobDir, lock: int, manifest: Manifest) -> None:
        """Start the job whose directory is complete; the lock is handed over.

        Raises
        ------
        BackendError
            It could not be started.
        """


class Backend(ABC):
    """A way of running jobs.

    Attributes
    ----------
    name
        As in ``--backend`` and in manifests.
    capabilities
        What it can do beyond running jobs.
    cancel_timeout
        How long a job may take to end when it is cancelled.
    runtime_prefix
        How the names of all its runtimes begin, where no other backend has such names.
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities] = Capabilities()
    runtime_prefix: ClassVar[str | None] = None
    cancel_timeout: ClassVar[Timeout] = CANCEL

    # -- before a job ------------------------------------------------------------------------

    def check(self, spec: JobSpec) -> None:  # noqa: B027 (most refuse nothing)
        """Reject options that mean nothing to this backend, without contacting a cluster.

        Raises
        ------
        UsageError
            The spec has such an option.
        """

    def device_of(self, spec: JobSpec) -> str | None:
        """Return the kind of device that a job asks for, by whichever option; None for any."""
        return spec.device

    @abstractmethod
    def submission(self, spec: JobSpec) -> Submission:
        """Begin a submission."""

    @abstractmethod
    def targets(self) -> list[Target]:
        """List where it can run jobs; a target that can't be used says why."""

    def has_targets(self) -> bool:
        """Tell, quickly, whether there is any."""
        return True

    def in_namespace(self, target: Target, namespace: str) -> Target:
        """Return a target in another namespace.

        Raises
        ------
        UsageError
            It has no namespaces.
        """
        raise UsageError(say.NO_NAMESPACES(backend=self.name))

    @abstractmethod
    def runtimes(
        self, context: str | None = None, namespace: str | None = None
    ) -> Sequence[Runtime]:
        """List what jobs can run on.

        Raises
        ------
        BackendError
            That can't be had.
        """

    def has_runtime(self, name: str) -> bool:
        """Return whether a runtime is of this backend, as far as its name alone tells."""
        return self.runtime_prefix is not None and name.startswith(self.runtime_prefix)

    def runtime_yaml(self, target: Target, name: str) -> str:
        """Return a runtime as its cluster has it, without what may be secret.

        Raises
        ------
        UsageError, BackendError
            There is none of that name, or the cluster does not answer.
        """
        raise UsageError(say.RUNTIMES_HAVE_NO_YAML(backend=self.name))

    def runtime_reports(
        self, names: Sequence[str], context: str | None, namespace: str | None
    ) -> Iterator[RuntimeReport]:
        """Check runtimes: those that are named, else all.

        Raises
        ------
        UsageError, BackendError
            No runtime has a given name, there are none at all, or they can't be read.
        """
        raise UsageError(say.CHECKS_NO_RUNTIMES(backend=self.name))

    def install_runtimes(self, asked: InstallRequest) -> Iterator[str]:
        """Install our runtimes, all of them or none; yield lines that say what changed.

        Raises
        ------
        UsageError, BackendError
            The options don't go together, or the cluster refuses it.
        """
        raise UsageError(say.INSTALLS_NO_RUNTIMES(backend=self.name))

    def convert(self, text: str, source: str, runtime: str | None, *, ended: bool) -> Converted:
        """Convert jobs that were written for another tool.

        Parameters
        ----------
        text
            YAML.
        source
            What people call the text: the name of its file.
        runtime
            The runtime to build on; without it, each job gets one of its own.
        ended
            Convert jobs that have ended, too.

        Raises
        ------
        UsageError
            There is no such job in it, or one that the other tool would refuse.
        """
        raise UsageError(say.CONVERTS_NOTHING(backend=self.name))

    def queues(self, target: Target) -> Queues | None:
        """Return the queues of a target and what is free in them; None where there are none."""
        return None

    @abstractmethod
    def examine(
        self, context: str | None, namespace: str | None, *, asked: bool
    ) -> Iterator[Finding]:
        """Make the checks of ``doctor``.

        Parameters
        ----------
        asked
            The user named this backend, so it is an error if it is missing.
        """

    def metrics(self) -> list[Path]:
        """Return files in Prometheus' text format, one of each helper process that lives."""
        return []

    def stamp(self) -> object:
        """Return a value that changes when information about the targets may be outdated."""
        return None

    # -- a job -------------------------------------------------------------------------------

    @abstractmethod
    def state(self, directory: JobDir, state: JobState | None) -> JobState:
        """Return the state of a job whose writer is gone; restart the writer, or end the job.

        Parameters
        ----------
        state
            The last one on disk; None where the job was being submitted.
        """

    def cancel(self, directory: JobDir) -> None:  # noqa: B027 (the mark may be enough)
        """Do what cancelling takes beyond the directory's mark, which its writer looks for.

        Raises
        ------
        BackendError
            It was refused.
        """

    def set_suspended(self, directory: JobDir, suspended: bool) -> None:
        """Suspend or resume a job.

        Raises
        ------
        UsageError
            That makes no sense for it.
        BackendError
            It was refused.
        """
        raise UsageError(say.CANNOT_SUSPEND(backend=self.name, job=directory.path.name))

    def take_over(self, directory: JobDir) -> None:
        """Have the ranks of a running job answer to this job store, and to no other.

        Raises
        ------
        UsageError
            Jobs of this backend know no other store, or it is somebody else's job.
        """
        raise UsageError(channel.ONE_OWNER(backend=self.name, job=directory.path.name))

    def where(self, directory: JobDir) -> Sequence[RankPlace]:
        """Ask where each rank of a running job is.

        Raises
        ------
        UsageError
            This backend can't tell.
        BackendError
            The writer of the job does not answer.
        """
        raise UsageError(channel.NO_CHANNEL(backend=self.name))

    def packages_for_cell(self, session: JobDir, capture: Capture) -> Mapping[str, bytes]:
        """Return the packages to send with a session's later cell because its ranks lack them.

        Raises
        ------
        CaptureError
            Something can't be sent.
        """
        return {}

    def profile(self, directory: JobDir, seconds: float) -> ProfileName:
        """Have a profile taken of all ranks of a running job; don't wait for it.

        Raises
        ------
        UsageError
            It is refused, or this backend can't.
        BackendError
            The writer of the job does not answer.
        """
        raise UsageError(channel.CANNOT_PROFILE(backend=self.name))

    def run_in_session(self, session: JobDir, cell: JobDir, lock: int) -> None:
        """Hand a cell, whose directory is complete, to the process that holds its session's ranks.

        From then on, that process holds the directory's lock and writes the directory.

        Raises
        ------
        UsageError
            This backend has no sessions, or the session ends.
        BackendError
            Nobody answers.
        """
        raise UsageError(say.NO_SESSIONS(backend=self.name))

    def restart_session(self, session: JobDir) -> None:
        """Restart the ranks of a session.

        Raises
        ------
        UsageError
            This backend has no sessions, or the session ends.
        BackendError
            Nobody answers.
        """
        raise UsageError(say.NO_SESSIONS(backend=self.name))

    def prolong_session(self, session: JobDir, seconds: float | None) -> None:
        """Let a session stay idle for `seconds` from now: 0 for ever, None for its own limit.

        Raises
        ------
        UsageError
            This backend has no sessions, or it is refused.
        BackendError
            Nobody answers.
        """
        raise UsageError(say.NO_SESSIONS(backend=self.name))

    def delete(self, directory: JobDir) -> None:  # noqa: B027 (there may be nothing)
        """Delete what a job has left outside its directory; errors are no hindrance."""

    @abstractmethod
    def place(self, manifest: Manifest) -> str:
        """Return where a job runs, in a few words for a list."""

    def cluster_of(self, manifest: Manifest) -> tuple[str | None, str | None]:
        """Return the context and the namespace of a job; None for what it has not."""
        return None, None

    def place_in_full(self, manifest: Manifest) -> str:
        """Return where a job runs, in full."""
        return self.place(manifest)

    def job_yaml(self, directory: JobDir) -> str:
        """Return a job as its cluster has it, without what may be secret.

        Raises
        ------
        JobNotFound
            There is no such object.
        UsageError, BackendError
            The cluster can't be found, or does not answer.
        """
        raise JobNotFound(say.JOB_HAS_NO_YAML(job=directory.path.name))

    # -- jobs that this machine does not know ----------------------------------------------------

    def attach(self, name: str, context: str | None, namespace: str | None) -> JobDir:
        """Make a job of a cluster known on this machine.

        Raises
        ------
        JobNotFound
            There is none.
        UsageError, BackendError
            It can't be followed.
        """
        raise JobNotFound(say.ONLY_JOBS_OF_THIS_MACHINE(backend=self.name))

    def cluster_jobs(
        self, context: str | None, namespace: str | None
    ) -> tuple[str, Sequence[ClusterJob]]:
        """List all jobs of a namespace, whoever made them, with the namespace's name."""
        raise JobNotFound(say.ONLY_JOBS_OF_THIS_MACHINE(backend=self.name))

    def cluster_job(
        self, name: str, context: str | None, namespace: str | None
    ) -> JobDir | tuple[str, ClusterJob]:
        """Find a job in a namespace: return its directory here if it has one, else its list entry.

        Raises
        ------
        JobNotFound
            There is none.
        """
        raise JobNotFound(say.ONLY_JOBS_OF_THIS_MACHINE(backend=self.name))
