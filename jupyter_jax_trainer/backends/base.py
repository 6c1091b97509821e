"""What a backend is: a place where jobs run."""

from __future__ import annotations

from typing import Any, Protocol

from jupyter_jax_trainer.jobdir import JobDir
from jupyter_jax_trainer.spec import JobSpec


class Backend(Protocol):
    """Starts jobs. Everything after that is in the job directory.

    Attributes
    ----------
    bundle_travels
        The bundle is sent to other machines.
    """

    bundle_travels: bool

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

    def start(self, directory: JobDir, lock: int, manifest: dict[str, Any]) -> None:
        """Start the job whose directory is complete; the lock is handed over.

        Raises
        ------
        BackendError
            It could not be started.
        """
