"""Run all benchmarks, or those named: ``python benchmarks/run.py [--runs N] [NAME …]``.

``local``, ``face`` and ``cluster`` stand for those that need nothing else, those that need a
browser and the built JupyterLab extension, and those that need a cluster; ``queues`` puts Kueue
there for a while.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys

from needs import Missing

GROUPS = {
    "local": ("loading", "start", "step", "capture", "logs", "follow_logs", "log_pages"),
    "face": ("face_start", "face_log", "face_live", "face_jobs", "face_others"),
    "cluster": (
        "cluster_start", "cluster_restart", "cluster_status", "cluster_log", "cluster_list",
    ),
    "queues": ("queue_fifty",),
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
        if (missing := _missing(name)) is not None:
            print(f"left out {name}: {missing}", flush=True)
            over += bool(given.names)
            continue
        for measured in importlib.import_module(name).measure(given.runs):
            print(measured, flush=True)
            over += not measured.ok
    return 1 if over else 0


def _missing(name: str) -> str | None:
    """Say what a benchmark needs and does not find; None where nothing is missing."""
    if name in GROUPS["local"]:
        return None
    try:
        if name in GROUPS["cluster"] + GROUPS["queues"]:
            importlib.import_module("kube").find()
        else:
            importlib.import_module("browser").find()
            if name == "face_others":
                importlib.import_module(name).find_tools()
    except Missing as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
