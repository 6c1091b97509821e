"""A supervisor gives signs of life, for machines that don't see its lock."""

from __future__ import annotations

import os
from pathlib import Path

from harness import run

from jupyter_jax_trainer import machine


def test_a_supervisor_touches_its_lock(start, store):
    job = run("x = 1", line=f"beats-{start}")
    manifest, folder = job.manifest, Path(job.directory)
    assert {name: manifest[name] for name in ("host", "machine", "boot")} == vars(machine.this())
    # The lock is made before all else, and empty: only a sign of life can have touched it since.
    assert os.stat(folder / "lock").st_mtime_ns > os.stat(folder / "manifest.json").st_mtime_ns
