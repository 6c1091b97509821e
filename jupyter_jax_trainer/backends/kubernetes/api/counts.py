"""What a follower counts of its work, and the file in which others read it.

The file is in Prometheus' text format; the server extension exports it
(docs/reference/server.md), and so can node_exporter's textfile collector.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

FILE = "metrics.prom"
_EVERY = 10.0  # seconds between writes
_PREFIX = "jaxtrain_follower_"
# Name, type and help; a name with a label has it as the reader will see it.
_FAMILIES = (
    ("jobs", "gauge", "Jobs that are followed now."),
    ("log_bytes_total", "counter", "Bytes of logs that were written into job directories."),
    (
        "log_lag_seconds",
        "gauge",
        "The longest time, since the last write, between a line's stamp and its arrival here.",
    ),
    (
        "reconnects_total",
        "counter",
        "Connections made again: of watches (each five minutes, if nothing is wrong) and of logs.",
    ),
    ("errors_total", "counter", "Errors that nobody foresaw; the follower's log has them."),
    ("cluster_silent", "gauge", "1 while the cluster does not answer."),
    ("start_time_seconds", "gauge", "When the follower started, since the epoch."),
)


class Counts:
    """Numbers that any thread may change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = {"start_time_seconds": time.time()}
        self._written = 0.0

    def add(self, name: str, amount: float = 1, label: str = "") -> None:
        """Count; `label` is as in ``what="log"``."""
        key = f"{name}{{{label}}}" if label else name
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def put(self, name: str, value: float) -> None:
        """Set a number."""
        with self._lock:
            self._values[name] = value

    def stretch(self, name: str, value: float) -> None:
        """Keep the greatest since the last write."""
        with self._lock:
            self._values[name] = max(value, self._values.get(name, 0))

    def save(self, directory: Path, labels: str, *, now: bool = False) -> None:
        """Write the file, at most every few seconds.

        Parameters
        ----------
        labels
            Which stand at each number, as in ``namespace="a"``.
        now
            Write it, however short ago that was.
        """
        if not now and time.monotonic() - self._written < _EVERY:
            return
        self._written = time.monotonic()
        text = self._text(labels)
        part = directory / f"{FILE}.{os.getpid()}.part"
        part.touch(mode=0o600)
        part.write_text(text)
        part.replace(directory / FILE)

    def _text(self, labels: str) -> str:
        with self._lock:
            values = dict(self._values)
            self._values.pop("log_lag_seconds", None)
        lines = []
        for family, kind, what in _FAMILIES:
            lines += [f"# HELP {_PREFIX}{family} {what}", f"# TYPE {_PREFIX}{family} {kind}"]
            found = {key: n for key, n in values.items() if key.partition("{")[0] == family}
            for key, number in (found or {family: 0}).items():
                own = key.partition("{")[2].rstrip("}")
                both = ",".join(filter(None, (labels, own)))
                lines.append(f"{_PREFIX}{family}{{{both}}} {number:.15g}")
        return "\n".join([*lines, ""])


COUNTS = Counts()  # a process is one follower at most
