"""Take the test cluster down: its processes, mounts, networks, control groups and files.

What was built stays in the cache, and so do the Debian packages that were installed for it.
"""

from __future__ import annotations

import shutil
import sys

import cgroups
import layout
import space
from layout import STATE, ClusterError, Stopwatch, say


def clean(watch: Stopwatch | None = None) -> None:
    """Remove what is left of a cluster, running or not."""
    if not STATE.exists():
        return
    complete = space.CABLED.exists()
    watch = watch or Stopwatch()
    space.unmake()
    watch.step("processes ended, with their mounts and networks")
    if complete:  # before, there were no control groups of ours
        cgroups.remove()
    shutil.rmtree(STATE)


def main() -> None:
    """Take the cluster down."""
    layout.require_root()
    with layout.only_one():
        if not STATE.exists():
            say("there is none.")
            return
        watch = Stopwatch()
        clean(watch)
        watch.step("the cluster is down")


if __name__ == "__main__":
    try:
        main()
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
