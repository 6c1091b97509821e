"""What a backend is: a place where jobs run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.options.spec import JobSpec

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture


class Backend(Protocol):
    """Starts jobs. Everything after that is in the job directory.

    Attributes
    ----------
    name
        ``local`` or ``kubernetes``.
    bundle_travels
        The bundle is sent to other machines.
    wheels
        Packages that the bundle takes along, by their file names.
    """

    name: str
    bundle_travels: bool
    wheels: Mapping[str, bytes]

    def plan(self, spec: JobSpec) -> dict[str, Any]:
        """Check a spec against what is there and say what the job will get.

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

    def check_capture(self, capture: Capture, spec: JobSpec, plan: dict[str, Any]) -> None:
        """Refuse what can't be used where the job will run, and add to the notes for the user.

        Raises
        ------
        CaptureError
            With what it is and the way out.
        """

    def is_free(self, name: str) -> bool:
        """Tell whether no job that has ended has this name where the job will run.

        Raises
        ------
        UsageError
            A job that goes on has it.
        """

    def dry_run(
        self,
        spec: JobSpec,
        plan: dict[str, Any],
        capture: Capture,
        manifest: dict[str, Any],
        write: Callable[[Path], str],
    ) -> str:
        """Say what would be started; `write` writes the bundle and gives its digest.

        Raises
        ------
        BackendError
            It would be refused.
        """

    def start(self, directory: JobDir, lock: int, manifest: dict[str, Any]) -> None:
        """Start the job whose directory is complete; the lock is handed over.

        Raises
        ------
        BackendError
            It could not be started.
        """
