"""What a job on this machine gets."""

from __future__ import annotations

from typing import cast

from jupyter_jax_trainer.jobdir.manifest import Manifest, Plan


class LocalPlan(Plan):
    """The plan of a job on this machine.

    `cores` and `gpus` are those of all ranks together, `limit` is of all jobs of the machine.
    """

    cores: float
    limit: int
    gpus: int
    all_gpus: list[str]
    cwd: str
    rendezvous_timeout: float


def plan_of(manifest: Manifest) -> LocalPlan:
    """Return the plan of a job of this backend."""
    return cast(LocalPlan, manifest["plan"])
