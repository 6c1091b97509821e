"""Which pods are a job's present ranks: a suspension, and a restart, make way for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import Seen
from jupyter_jax_trainer.backends.kubernetes.follow.ranks import Ranks
from jupyter_jax_trainer.backends.kubernetes.logs.streams import Streams
from jupyter_jax_trainer.backends.kubernetes.submit.restarts import attempt_of


class Attempts:
    """The pods of a followed job, with those of earlier attempts kept apart.

    Parameters
    ----------
    ranks, streams
        What is told of the pods, and what they print.
    most
        How often all ranks may start again.
    on_leave
        Called while pods leave, before the ranks are forgotten.

    Attributes
    ----------
    pods
        All that were ever seen, by uid.
    leaving
        Those that a suspension or a restart ends, until all that they printed is read; else None.
    """

    def __init__(
        self, ranks: Ranks, streams: Streams, most: int, on_leave: Callable[[], None]
    ) -> None:
        self.pods: dict[str, Pod] = {}
        self.leaving: set[str] | None = None
        self._ranks = ranks
        self._streams = streams
        self._most = most
        self._on_leave = on_leave
        self._past: set[str] = set()

    def look(self, seen: Seen, present: Mapping[str, Pod], suspended: bool) -> None:
        """Take over what the pods show and print; forget the ranks when others take their places.

        Parameters
        ----------
        seen
            What the cluster shows.
        present
            The pods that are there now.
        suspended
            The job is suspended.
        """
        number = self._number(seen)
        again = number > self._ranks.record.restarts
        if suspended:
            self.leaving = self.pods.keys() - self._past
        elif again and self.leaving is None:
            older = {uid for uid, pod in self.pods.items() if attempt_of(pod) < number}
            self.leaving = older - self._past
            self._ranks.note_pods(seen, [self.pods[uid] for uid in self.leaving])
        if self.leaving is not None:
            self._on_leave()
        if self._have_left(present):
            self._forget(number if again else None)
            if not suspended:
                self.leaving = None
        if self.leaving is None:  # else they end because of that
            self._ranks.note_pods(seen, self.present_ones())
            self._streams.sync(self.pods, present)
        else:  # nothing is read of others before that, even if they are there at once
            self._streams.sync({uid: self.pods[uid] for uid in self.leaving}, present)

    def present_ones(self) -> list[Pod]:
        """Return the pods since the last suspension, or the last restart."""
        now = self._ranks.record.restarts if self._most else 0
        return [
            pod
            for uid, pod in self.pods.items()
            if uid not in self._past and attempt_of(pod) >= now
        ]

    def _number(self, seen: Seen) -> int:
        """Return how often the cluster has started all ranks again, where the job may.

        Capped at the job's limit, whatever labels say: each restart is written down.
        """
        found = max(map(attempt_of, (*seen.jobs, *self.pods.values())), default=0)
        return min(found, self._most)

    def _have_left(self, present: Mapping[str, Pod]) -> bool:
        gone = self.leaving is not None and self.leaving.isdisjoint(present)
        return gone and self._streams.idle

    def _forget(self, restart: int | None) -> None:
        self._past |= self.leaving or set()
        if restart is not None:
            self._ranks.start_again(restart, self._most)
        elif self._ranks.begun:
            self._ranks.begin_anew()
