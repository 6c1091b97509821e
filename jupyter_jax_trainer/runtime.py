"""Runtimes: what jobs run on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A setup that jobs run on.

    Attributes
    ----------
    nodes
        The smallest and the largest number of nodes.
    python, jax
        Versions in the runtime; None if unknown.
    devices
        How many devices it has; None if unknown or for the job to choose.
    image
        The container image; None on this machine.
    deprecated
        Whether the cluster's administrators want another one to be used.
    problem
        Why it can't be used now, and what to do; None if it can.
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
