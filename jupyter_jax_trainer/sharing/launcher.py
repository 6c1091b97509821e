#!/usr/bin/env python3
"""Run the job in this folder again, on this machine: ``python3 run.py``.

It needs Python and JAX, and no other part of jupyter-jax-trainer. ``job.json`` says how many
processes it has and with which environment; the processes find each other through JAX's own
variables.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
GRACE = 30.0  # seconds in which the others end by themselves once one has failed


def main() -> int:
    """Start all processes, wait for them, and return the status of the first one that failed."""
    job = json.loads((HERE / "job.json").read_text(encoding="utf-8"))
    missing = [name for name in job["needed"] if name not in os.environ]
    if missing:
        print(f"Set these variables first: {', '.join(missing)}.", file=sys.stderr)
        return 2
    nodes, each = job["nodes"], job["devices_per_node"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    left = []
    for rank in range(nodes):
        own = {
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
            "JAX_NUM_PROCESSES": str(nodes),
            "JAX_PROCESS_ID": str(rank),
            "JAXTRAIN_CHECKPOINT_DIR": str(HERE / "checkpoints"),
        }
        if job["device"] == "cpu":
            own.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(each))
        elif nodes > 1:
            devices = range(rank * each, (rank + 1) * each)
            own["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))
        environment = {**os.environ, **job["environment"], **own}
        left.append(subprocess.Popen([sys.executable, str(HERE / "job.pyz")], env=environment))
    status, deadline = 0, None
    try:
        while left:
            for process in [one for one in left if one.poll() is not None]:
                left.remove(process)
                if process.returncode and not status:
                    status = process.returncode if process.returncode > 0 else 1
                    deadline = time.monotonic() + GRACE
            if deadline is not None and time.monotonic() > deadline:
                break
            time.sleep(0.05)
    finally:
        for process in left:
            process.kill()
    return status


if __name__ == "__main__":
    sys.exit(main())
