"""What may be skipped, and where.

A test that lacks a part of its surroundings calls ``skip_or_fail(part, reason)``. On a developer's
machine that skips, with the reason; where the part is required, it fails. Required is what
``JAXTRAIN_REQUIRE`` names ("all", or parts with commas between them); in CI everything is, save the
parts that no CI machine can be expected to have.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

MAY_LACK = {
    "gpu": "an NVIDIA GPU",
    "macos": "macOS",
    "memory-cgroup": "a writable memory cgroup",
}


def named() -> set[str]:
    """Return the parts that ``JAXTRAIN_REQUIRE`` names."""
    return {part.strip() for part in os.environ.get("JAXTRAIN_REQUIRE", "").split(",")} - {""}


def strict() -> bool:
    """Return whether a skip must be justified here: in CI, or when all parts are required."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false") or "all" in named()


def required(part: str) -> bool:
    """Return whether tests that need ``part`` must run here."""
    return part in named() or (strict() and part not in MAY_LACK)


def skip_or_fail(part: str, reason: str) -> NoReturn:
    """Skip the running test because ``part`` is missing, or fail it where ``part`` is required."""
    if required(part):
        pytest.fail(f"{part} is required here, but: {reason}", pytrace=False)
    pytest.skip(f"[{part}] {reason}")


def allowed(reason: str) -> bool:
    """Return whether a skip with this reason may stay a skip."""
    part = reason.partition("]")[0].rpartition("[")[2] if "[" in reason else ""
    return not strict() or (part in MAY_LACK and not required(part))
