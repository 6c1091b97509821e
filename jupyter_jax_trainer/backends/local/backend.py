"""The machine that this runs on, as a backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jupyter_jax_trainer import machine
from jupyter_jax_trainer.backends.base import Backend, Capabilities, Submission, Target
from jupyter_jax_trainer.errors import JobDirError, JobNotFound, UsageError
from jupyter_jax_trainer.jobdir import endrunner, layout, store
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, machine_of
from jupyter_jax_trainer.jobdir.state import JobState, cut_off, submitting
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.options.spec import JobSpec, refuse_for_local

if TYPE_CHECKING:
    from jupyter_jax_trainer.channel.protocol import ProfileName, RankPlace
    from jupyter_jax_trainer.doctor.finding import Finding
    from jupyter_jax_trainer.runtime import Runtime


class LocalBackend(Backend):
    """Processes of this machine, each job under a supervisor of its own."""

    name = "local"
    capabilities = Capabilities(where=True, profiles=True, sessions=True)
    runtime_prefix = "local-"

    def check(self, spec: JobSpec) -> None:
        """Refuse options that only mean something in a cluster."""
        refuse_for_local(spec)

    def submission(self, spec: JobSpec) -> Submission:
        """Begin a submission."""
        from jupyter_jax_trainer.backends.local.submission import LocalSubmission

        return LocalSubmission()

    def targets(self) -> list[Target]:
        """Return this machine."""
        return [Target("local", self.name, say.THIS_MACHINE())]

    def in_namespace(self, target: Target, namespace: str) -> Target:
        """Refuse it: there are none."""
        raise UsageError(say.NO_NAMESPACES())

    def runtimes(
        self, context: str | None = None, namespace: str | None = None
    ) -> Sequence[Runtime]:
        """List the CPU, and the GPUs where there are any."""
        from jupyter_jax_trainer.backends.local.runtimes import local_runtimes

        return local_runtimes()

    def runtime_yaml(self, target: Target, name: str) -> str:
        """Refuse it: there is none."""
        raise UsageError(say.RUNTIMES_HAVE_NO_YAML())

    def examine(
        self, context: str | None, namespace: str | None, *, asked: bool
    ) -> Iterator[Finding]:
        """Check this machine."""
        from jupyter_jax_trainer.backends.local.doctor import examine

        return examine()

    def state(self, directory: JobDir, state: JobState | None) -> JobState:
        """Return the state of a job whose supervisor is gone; what is left of it is ended."""
        try:
            manifest = directory.read_manifest()
        except JobDirError:
            manifest = None
        # Locks of other machines can't be seen.
        if manifest is not None and machine.runs_elsewhere(machine_of(manifest), directory.lock):
            return state or submitting()
        if state is None:
            return submitting() if directory.is_live() else cut_off()
        from jupyter_jax_trainer.backends.local.processes import end_strays

        if manifest is not None:
            end_strays(str(manifest["uid"]))
        state = layout.end_abandoned(directory) or state
        endrunner.start(store.home())
        return state

    def set_suspended(self, directory: JobDir, suspended: bool) -> None:
        """Refuse it: processes of this machine can't make way and come back."""
        verb = "suspend" if suspended else "resume"
        raise UsageError(say.SUSPEND_NEEDS_CLUSTER(verb=verb, job=directory.path.name))

    def where(self, directory: JobDir) -> Sequence[RankPlace]:
        """Ask the supervisor of the job, or of the session that runs the cell."""
        from jupyter_jax_trainer.channel import asking

        return asking.where(_writer_of(directory), directory.path.name)

    def profile(self, directory: JobDir, seconds: float) -> ProfileName:
        """Ask the supervisor of the job, or of the session that runs the cell."""
        from jupyter_jax_trainer.channel import asking

        return asking.profile(_writer_of(directory), directory.path.name, seconds)

    def run_in_session(self, session: JobDir, cell: JobDir, lock: int) -> None:
        """Hand a cell to the session's supervisor, as soon as that listens."""
        from jupyter_jax_trainer.backends import cells

        def has_ended() -> str | None:
            state = session.read_state()
            if (state is not None and state["state"].ended) or not session.is_live():
                return (state and state["reason"]) or say.SUPERVISOR_CRASHED(
                    log=session.supervisor_log
                )
            return None

        cells.hand_over(session, cell, lock, has_ended)

    def restart_session(self, session: JobDir) -> None:
        """Have the session's supervisor restart its ranks."""
        from jupyter_jax_trainer.backends import cells

        cells.restart(session)

    def prolong_session(self, session: JobDir, seconds: float | None) -> None:
        """Have the session's supervisor wait for longer."""
        from jupyter_jax_trainer.backends import cells

        cells.prolong(session, seconds)

    def place(self, manifest: Manifest) -> str:
        """Return where a job runs."""
        return say.THIS_MACHINE()

    def job_yaml(self, directory: JobDir) -> str:
        """Refuse it: there is none."""
        raise JobNotFound(say.JOB_HAS_NO_TRAINJOB(job=directory.path.name))


def _writer_of(directory: JobDir) -> str:
    """Return the uid by which the supervisor of a job is asked, or that of its session."""
    manifest = directory.read_manifest()
    return manifest["cell_of"]["uid"] if "cell_of" in manifest else manifest["uid"]
