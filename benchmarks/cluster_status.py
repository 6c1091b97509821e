"""From a change in the cluster to the status line of a view, and to the SDK's wait.

Changes are made through the API. What counts is the time from just before the request to the call
that makes a view show it; so the API's own time and the view's interval are in it.
"""

from __future__ import annotations

import contextlib
import random
import re
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from common import Measured, ratio_of, run_job, spread
from kube import Place, Sdk, place, until

from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.views.follow import follow

BOUND = 0.1  # seconds
CELL = "import time; print('began', time.time(), flush=True); time.sleep(2)"
NEVER = "-n 1 --cpu 10000"  # no node has as many: the pod waits, and nobody else changes it
WAITING = ("ErrImagePull", "CreateContainerConfigError", "InvalidImageName")


class Seen:
    """A view that notes when it is told what."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.said: list[tuple[float, str, str]] = []
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        with contextlib.suppress(JaxTrainError):
            follow(self._job, view=self)

    def begin(self, facts: Facts, snapshot: dict[str, Any], job: Job | None = None) -> None:
        self.status(snapshot, None)

    def status(self, snapshot: dict[str, Any], note: str | None) -> None:
        words = (snapshot["state"], snapshot["reason"] or "")
        if not self.said or self.said[-1][1:] != words:
            self.said.append((time.time(), *words))

    def close(self, snapshot: dict[str, Any], note: str | None) -> None:
        self.status(snapshot, note)

    def log(self, lines: list[bytes], unfinished: bytes) -> None:
        pass

    def show(self, *_args: Any) -> None:
        pass

    def after(self, began: float, check: Callable[[str, str], bool]) -> float:
        """Wait until the view shows something; give the seconds since `began`."""

        def look() -> float | None:
            return next((at for at, *words in self.said if at > began and check(*words)), None)

        return float(until(look)) - began


def measure(runs: int) -> list[Measured]:
    """Change each thing `runs` times."""
    with place() as there, closing(Sdk(there)) as sdk:
        there.start_follower()
        taken: dict[str, list[float]] = {}
        theirs: list[float] = []
        for number in range(runs):
            for name, seconds in _waiting_job(there, WAITING[number % len(WAITING)]):
                taken.setdefault(name, []).append(seconds)
            taken.setdefault("a rank runs", []).append(_runs(there))
            ours, other = _pod_runs(there, sdk)
            taken.setdefault("a pod runs", []).append(ours)
            theirs.append(other)
    found = []
    for name, values in taken.items():
        middle = statistics.median(values)
        found.append(
            Measured(
                f"change to status line: {name}, s", middle, "none", spread(values, "ms", 1e3), True
            )
        )
    every = [value for values in taken.values() for value in values]
    middle = statistics.median(every)
    found.append(
        Measured(
            "change to status line: all, s",
            middle,
            f"<= {BOUND}",
            spread(every, "ms", 1e3),
            middle <= BOUND,
        )
    )
    ratio = ratio_of(taken["a pod runs"], theirs)
    found.append(
        Measured(
            "a pod runs, against the SDK's wait",
            ratio,
            "< 1",
            f"ours {spread(taken['a pod runs'])}, the SDK {spread(theirs)}",
            ratio < 1,
        )
    )
    return found


def _waiting_job(there: Place, reason: str) -> list[tuple[str, float]]:
    """Change a job whose pod waits, and delete it in the end."""
    job, view = _wait_for_pod(there)
    before = view.said[-1][2]
    began = there.patch(
        _pod_status(there, job),
        {
            "status": {
                "conditions": [{"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [
                    {
                        "name": "node",
                        "image": "x",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 0,
                        "state": {"waiting": {"reason": reason, "message": "as a test"}},
                    }
                ],
            }
        },
    )
    found = [("a pod's reason to wait", view.after(began, lambda _, words: words != before))]
    began = there.patch(there.trainjob(job.name), {"spec": {"suspend": True}})
    found.append(("suspended", view.after(began, lambda state, _: state == "Suspended")))
    began = time.time()
    there.client.request("DELETE", there.trainjob(job.name))
    found.append(("deleted", view.after(began, lambda state, _: state == "Cancelled")))
    return found


def _runs(there: Place) -> float:
    """Run a cell: its first line says when the rank has begun it."""
    job, _ = run_job(CELL, f"-n 1 {there.options}")
    view = Seen(job)
    shown = view.after(0, lambda state, _: state == "Running")
    job.wait(120)
    text = "\n".join(line.text for line in job.logs(0))
    match = re.search(r"began (\d+\.\d+)", text)
    assert match is not None, text
    there.delete(job.name)
    return shown - float(match[1])


def _pod_runs(there: Place, sdk: Sdk) -> tuple[float, float]:
    """Let a pod run, for a view and for the SDK's wait; give the seconds of both."""
    job, view = _wait_for_pod(there)
    sdk.ask("wait", job.name, "Running")
    time.sleep(1 + 2 * random.random())  # at any moment of the SDK's interval
    began = there.patch(
        _pod_status(there, job),
        {
            "status": {
                "phase": "Running",
                "conditions": [{"type": "PodScheduled", "status": "True"}],
                "containerStatuses": [
                    {
                        "name": "node",
                        "image": "x",
                        "imageID": "",
                        "ready": True,
                        "restartCount": 0,
                        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                    }
                ],
            }
        },
    )
    theirs = float(sdk.answer()) - began
    ours = view.after(began, lambda state, _: state == "Starting")
    there.delete(job.name)
    return ours, theirs


def _wait_for_pod(there: Place) -> tuple[Job, Seen]:
    """Start a job whose pod waits for a node."""
    job, _ = run_job("1", f"{NEVER} {there.options}")
    view = Seen(job)
    view.after(0, lambda _, words: "scheduled" in words)
    return job, view


def _pod_status(there: Place, job: Job) -> str:
    pod = there.pods(job.name)[0]["metadata"]["name"]
    return there.client.core("pods", pod, "status")
