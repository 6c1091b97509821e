"""Run all benchmarks, or those named: ``python benchmarks/run.py [--runs N | --smoke] [NAME …]``.

``local``, ``face`` and ``cluster`` stand for those that need nothing else, those that need a
browser and the built JupyterLab extension, and those that need a cluster; ``queues`` puts Kueue
there for a while; ``gpu`` needs one of NVIDIA's, ``hour`` takes that long.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import traceback

from needs import Missing

GROUPS = {
    "local": (
        "loading",
        "start",
        "start_older",
        "step",
        "capture",
        "logs",
        "follow_logs",
        "log_pages",
        "where",
        "stuck",
        "session",
        "session_data",
        "session_edits",
        "session_many",
        "compile_cache",
        "profiles",
        "where_pods",
        "sampling",
    ),
    "face": ("face_start", "face_log", "face_live", "face_jobs", "face_machine", "face_others"),
    "cluster": (
        "cluster_start",
        "cluster_older",
        "cluster_packages",
        "cluster_restart",
        "cluster_status",
        "cluster_channel",
        "cluster_session",
        "cluster_log",
        "cluster_list",
    ),
    "queues": ("queue_fifty",),
    "gpu": ("gpu",),
    "hour": ("session_hour",),
}
ALL = [name for names in GROUPS.values() for name in names]


def main() -> int:
    """Print a line for each ratio; fail when one is over its bound, or a benchmark does not run.

    Returns
    -------
    int
        The exit status: 1 where one is over its bound or failed, ``EX_UNAVAILABLE`` where something
        is missing that a benchmark needs which was asked for.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*GROUPS, *ALL]))
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--runs", type=int, default=5)
    how.add_argument(
        "--smoke",
        action="store_true",
        help="once, with the smallest input, to see that they run; judges no bound",
    )
    parser.add_argument(
        "--against",
        metavar="PATH",
        help="a checkout of version 0.1, for what compares with it; else it is in the history",
    )
    given = parser.parse_args()
    # Users have byte code; `make env` compiles nothing, and some machines keep none.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if given.against:
        os.environ["BENCHMARK_AGAINST"] = given.against
    runs = 1 if given.smoke else given.runs
    how_often = f"median of {runs} pairs in turn"
    if given.smoke:
        os.environ["BENCHMARK_SMOKE"] = "1"  # before a benchmark is imported: see common.py
        how_often = "a smoke run, whose figures say nothing"
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}; {how_often}",
        flush=True,
    )
    over = failed = missing = False
    usual = [group for group in GROUPS if group != "hour"]
    for name in [name for word in given.names or usual for name in GROUPS.get(word, (word,))]:
        try:
            _need(name)
            for measured in importlib.import_module(name).measure(runs):
                print(measured, flush=True)
                over |= not (measured.ok or given.smoke)
        except Missing as error:
            print(f"left out {name}: {error}", flush=True)
            missing |= bool(given.names) or given.smoke
        except Exception:  # others still run: all of them take an hour
            print(f"FAILED {name}: {traceback.format_exc()}", flush=True)
            failed = True
    return 1 if over or failed else os.EX_UNAVAILABLE if missing else 0


def _need(name: str) -> None:
    """Raise `Missing` where something is not here that a benchmark needs."""
    if name in GROUPS["cluster"] + GROUPS["queues"]:
        importlib.import_module("kube").find()
    elif name in GROUPS["face"]:
        importlib.import_module("browser").find()
        if name == "face_others":
            importlib.import_module(name).find_tools()
    elif name in GROUPS["gpu"]:
        importlib.import_module(name).find()


if __name__ == "__main__":
    sys.exit(main())
