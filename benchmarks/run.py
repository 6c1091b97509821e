"""Run all benchmarks, or those named: ``python benchmarks/run.py [--runs N] [NAME …]``."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys

ALL = ("loading", "start", "step", "capture", "logs")


def main() -> int:
    """Print a line for each ratio; fail when one is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
          f"median of {given.runs} pairs in turn")
    over = 0
    for name in given.names or ALL:
        for measured in importlib.import_module(name).measure(given.runs):
            print(measured, flush=True)
            over += not measured.ok
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
