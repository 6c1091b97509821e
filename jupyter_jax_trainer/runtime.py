"""What a job can run on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Something that can run jobs.

    Attributes
    ----------
    nodes
        The smallest and the largest number of nodes.
    python, jax
        Versions in the runtime, None where they are not known.
    devices
        How many devices it has; None where that is not known or a matter of choice.
    image
        The container image; None on this machine.
    deprecated
        Those who run the cluster say that another one should be used.
    problem
        Why it can't be used as things are, and what to do; None when it can.
    """

    name: str
    backend: str
    device: str
    nodes: tuple[int, int]
    description: str
    python: str | None = None
    jax: str | None = None
    devices: int | None = None
    image: str | None = None
    deprecated: bool = False
    problem: str | None = None


def installed(distribution: str) -> str | None:
    """Return the version of an installed distribution, without importing it."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
