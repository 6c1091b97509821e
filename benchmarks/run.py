"""Run all benchmarks, or those named: ``python benchmarks/run.py [--runs N] [NAME …]``.

``local`` and ``cluster`` stand for all that need no cluster, and all that need one.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys

GROUPS = {
    "local": ("loading", "start", "step", "capture", "logs", "follow_logs", "log_pages"),
    "cluster": ("cluster_start", "cluster_status", "cluster_log", "cluster_list"),
}
ALL = [name for names in GROUPS.values() for name in names]


def main() -> int:
    """Print a line for each ratio; fail when one is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*GROUPS, *ALL]))
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"load {os.getloadavg()[0]:.1f}; median of {given.runs} pairs in turn", flush=True)
    over = 0
    for name in [name for word in given.names or ALL for name in GROUPS.get(word, (word,))]:
        if name in GROUPS["cluster"] and (missing := _missing()) is not None:
            print(f"left out {name}: {missing}", flush=True)
            over += bool(given.names)
            continue
        for measured in importlib.import_module(name).measure(given.runs):
            print(measured, flush=True)
            over += not measured.ok
    return 1 if over else 0


def _missing() -> str | None:
    """Say what is missing for benchmarks on a cluster; None where nothing is."""
    import kube

    try:
        kube.find()
    except kube.Missing as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
