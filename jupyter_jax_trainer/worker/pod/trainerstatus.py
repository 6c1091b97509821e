"""Progress for Kubeflow Trainer's status server, where the cluster offers one to the pod."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import threading
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import NotRequired, TypedDict

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import timeouts

URL_VARIABLE = "KUBEFLOW_TRAINER_SERVER_URL"
_CA_VARIABLE = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
_TOKEN_VARIABLE = "KUBEFLOW_TRAINER_SERVER_TOKEN"
_INTERVAL = 5.0  # seconds between posts: the server wants no more
_MAX_METRICS, _MAX_LENGTH = 256, 64  # the server's bounds


class _Metric(TypedDict):
    name: str
    value: str


class Status(TypedDict):
    """What the server is told."""

    metrics: list[_Metric]
    lastUpdatedTime: str
    progressPercentage: NotRequired[int]
    estimatedRemainingSeconds: NotRequired[int]


class Body(TypedDict):
    """What is posted."""

    trainerStatus: Status


class TrainerStatus:
    """Posts the last report every few seconds, and once more at the end.

    What goes wrong here is not the job's error: it is said once, in the log.

    Parameters
    ----------
    url
        Where to.
    interval
        Seconds between posts.
    """

    def __init__(self, url: str, interval: float = _INTERVAL) -> None:
        self._url = url
        self._interval = interval
        self._metrics: dict[str, float | int] = {}
        self._step = 0
        self._total: int | None = None
        self._first: tuple[float, int] | None = None  # time and step of the first report
        self._lock = threading.Lock()  # of a post, so that the last one is the last
        self._news = threading.Event()
        self._complained = False
        threading.Thread(target=self._run, name="jaxtrain-status", daemon=True).start()

    @classmethod
    def from_environment(cls) -> TrainerStatus | None:
        """Return one where the cluster has a status server for this job."""
        url = os.environ.get(URL_VARIABLE)
        return cls(url) if url else None

    def add(self, step: int, total: int | None, values: dict[str, float | int]) -> None:
        """Take a report."""
        self._step, self._total = step, total or self._total
        self._metrics.update(values)
        if self._first is None:
            self._first = time.monotonic(), step
        self._news.set()

    def close(self) -> None:
        """Post what was not posted yet."""
        if self._news.is_set():
            self._post()

    def body(self) -> Body:
        """Return what is posted."""
        metrics = {"step": self._step, **self._metrics.copy()}
        status: Status = {
            "metrics": [
                {"name": name[:_MAX_LENGTH], "value": _text(value)}
                for name, value in list(metrics.items())[:_MAX_METRICS]
                if name
            ],
            "lastUpdatedTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if self._total:
            status["progressPercentage"] = max(0, min(100, 100 * self._step // self._total))
            left = self._seconds_left()
            if left is not None:
                status["estimatedRemainingSeconds"] = left
        return {"trainerStatus": status}

    def _seconds_left(self) -> int | None:
        if self._first is None or self._total is None or self._step <= self._first[1]:
            return None
        pace = (time.monotonic() - self._first[0]) / (self._step - self._first[1])
        return max(0, round(pace * (self._total - self._step)))

    def _run(self) -> None:
        while True:
            self._news.wait()
            self._post()
            time.sleep(self._interval)

    def _post(self) -> None:
        with self._lock:
            self._news.clear()
            try:
                self._send(json.dumps(self.body()).encode())
            except Exception as error:
                if not self._complained:
                    self._complained = True
                    print(say.STATUS_SERVER(error=error))

    def _send(self, data: bytes) -> None:
        request = urllib.request.Request(
            self._url, data, {"Content-Type": "application/json"}, method="POST"
        )
        context = None
        if self._url.startswith("https:"):
            context = ssl.create_default_context(cafile=os.environ.get(_CA_VARIABLE))
        token = os.environ.get(_TOKEN_VARIABLE)
        if token:  # both files change while a job runs
            request.add_header("Authorization", f"Bearer {Path(token).read_text().strip()}")
        # The server is in the cluster: no proxy leads there.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            *([urllib.request.HTTPSHandler(context=context)] if context else []),
        )
        with contextlib.closing(opener.open(request, timeout=timeouts.STATUS.seconds)):
            pass


def _text(value: float | int) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:_MAX_LENGTH]
