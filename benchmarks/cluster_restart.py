"""From a killed pod to the first line of all ranks again, against bare jax.distributed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import yaml
from common import Measured, in_turn, ratio_of, run_job, sized, spread
from kube import Place, began_in, objects_of, place, until

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError

NODES = sized(2, 1)
CELL = "import time\nprint('began', time.time(), flush=True)\ntime.sleep(600)\n"
BARE = """
import os, jax
jax.distributed.initialize(
    os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_NUM_PROCESSES"]),
    int(os.environ["JAX_PROCESS_ID"]), cluster_detection_method="deactivate",
)
"""


def measure(runs: int) -> list[Measured]:
    """Compare both in turn."""
    with place() as there:
        ours, bare = in_turn(
            runs, lambda: _restarted(there, _ours), lambda: _restarted(there, _bare)
        )
    ratio = ratio_of(ours, bare)
    return [
        Measured(
            f"killed pod to the first line again, {NODES} nodes, against bare jax.distributed",
            ratio,
            "<= 1.05",
            f"ours {spread(ours)}, bare {spread(bare)}",
            ratio <= 1.05,
        )
    ]


def _line(there: Place) -> str:
    return f"-n {NODES} --max-restarts 1 {there.options}"


def _ours(there: Place) -> str:
    job, _ = run_job(CELL, _line(there))
    return str(job.name)


def _bare(there: Place) -> str:
    """Send the same objects, whose ranks run a program without anything of this project."""
    name, text = objects_of(CELL, _line(there))
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        if document["kind"] == "TrainJob":
            document["spec"]["trainer"]["command"] = ["python3", "-u", "-c", BARE + CELL]
            document["spec"]["trainer"].pop("args", None)
    there.create(yaml.safe_dump_all(documents))
    return name


def _restarted(there: Place, send: Callable[[Place], str]) -> float:
    """Start a job, kill its last pod; give the seconds until all ranks have begun again."""
    name = send(there)
    before = until(lambda: _began(there, name, set()), 0.1)
    killed = time.time()
    there.kill(sorted(before)[-1])
    after = until(lambda: _began(there, name, set(before)), 0.1)
    there.delete(name)
    return max(after.values()) - killed


def _began(there: Place, name: str, gone: set[str]) -> dict[str, float]:
    """Return when the pods of a job began, save those that are gone; nothing before all have."""
    found = {}
    for pod in (each["metadata"]["name"] for each in there.pods(name)):
        with suppress(ApiError):  # its container is not there yet
            if pod not in gone and (began := began_in(there.log(pod))):
                found[pod] = began
    return found if len(found) == NODES else {}
