"""Numbers for Prometheus, among those that Jupyter Server exports at ``/metrics``.

They are worked out when somebody asks for them, in a thread: Jupyter's handler is called in the
server's loop, which must not wait for many jobs or a slow disk.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterator

from prometheus_client import REGISTRY, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends import registry
from jupyter_jax_trainer.queries.jobs import Table
from jupyter_jax_trainer.states import State

_MAX_FILE = 1 << 20  # bytes; a follower writes about two thousand


class Numbers(Collector):
    """What is known of jobs, pages and followers.

    Parameters
    ----------
    table
        The jobs.
    pages
        What has a page's connection each; the number of them counts.
    """

    def __init__(self, table: Table, pages: Collection[object]) -> None:
        self._table, self._pages = table, pages
        self._worker: threading.Thread | None = None
        self._found: list[Metric] = []

    def describe(self) -> list[Metric]:
        """Say nothing: to register these numbers must not work them out."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers of now, or those of last time where they take long."""
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._work, name="jaxtrain numbers", daemon=True)
            self._worker.start()
        self._worker.join(timeouts.METRICS.seconds)
        yield from self._found

    def _work(self) -> None:
        """Work them out; what can't be had must not cost others theirs."""
        found: list[Metric] = []
        for part in (self._jobs, self._open_pages, self._followers):
            try:
                found += part()
            except Exception:
                logging.getLogger(__name__).exception("Numbers for Prometheus can't be had")
        self._found = found

    def _jobs(self) -> list[Metric]:
        found = GaugeMetricFamily(
            "jaxtrain_jobs", "Jobs in this user's job store, by state.", labels=["backend", "state"]
        )
        counted = Counter((row["backend"], row["state"]) for row in self._table.rows()[1])
        known = {(backend, state) for backend in registry.BACKENDS for state in State}
        for backend, state in sorted(known | counted.keys()):
            found.add_metric([backend, state], counted[backend, state])
        return [found]

    def _open_pages(self) -> list[Metric]:
        what = "Pages that are connected to the jaxtrain extension."
        return [GaugeMetricFamily("jaxtrain_pages", what, value=len(self._pages))]

    def _followers(self) -> list[Metric]:
        """Pass on what the followers that live have written; one that left would count for ever."""
        written = [path for backend in registry.all_backends() for path in backend.metrics()]
        families: dict[str, Metric] = {}
        for path in written:
            try:
                with path.open(encoding="utf-8") as file:
                    found = list(text_string_to_metric_families(file.read(_MAX_FILE)))
            except (OSError, ValueError):
                continue
            for family in found:
                families.setdefault(family.name, family)
                if families[family.name] is not family:
                    families[family.name].samples += family.samples
        what = "Followers of clusters that are alive."
        return [
            GaugeMetricFamily("jaxtrain_followers", what, value=len(written)),
            *families.values(),
        ]


_registered: Numbers | None = None


def export(table: Table, pages: Collection[object]) -> None:
    """Make the numbers appear at ``/metrics``; of two extensions in a process the last one's."""
    global _registered
    if _registered is not None:
        REGISTRY.unregister(_registered)
    _registered = Numbers(table, pages)
    REGISTRY.register(_registered)
