"""Notices ranks of which nothing is heard: no report, no output, and each stays at its line."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.jobdir.failure import Failure, RankEnd, positions
from jupyter_jax_trainer.messages import backends as say
from jupyter_jax_trainer.messages import jobs
from jupyter_jax_trainer.text import joined, ranks_text, span
from jupyter_jax_trainer.worker.records import Position

_STEPS = 16  # intervals between reports that are remembered
_TIMES = 10  # usual intervals without a report that count as silence
_FEW = 3  # the same, where ranks may hang
_AGAIN = 5.0  # seconds between questions to silent ranks whether they still are


@dataclass(frozen=True)
class Silence:
    """Ranks are silent.

    Attributes
    ----------
    text, hint
        Where they are, and what to do about it.
    is_news
        It has not been said yet.
    failure
        Why the job ends, where it is to end because of this.
    """

    text: str
    hint: str | None
    is_news: bool
    failure: Failure | None


class SilenceWatch:
    """For how long nothing was heard of the ranks that run a cell.

    All times are differences of one clock: of this process, or of the rank that tells for how long
    it has been at its line. Clocks of two machines are never compared.

    Parameters
    ----------
    limit
        Seconds of silence after which the job is to end; None for never.

    Attributes
    ----------
    said
        What is said of the ranks as long as they are silent.
    """

    def __init__(self, limit: float | None) -> None:
        self.said: Silence | None = None
        self._limit = limit
        self._gaps: deque[float] = deque(maxlen=_STEPS)
        self._known = (0, 0)
        self._reported_at: float | None = None
        self._told: str | None = None
        self._doubts = False
        self.hear()

    def hear(self) -> None:
        """Take note of a sign of life, or that there is none to be expected now."""
        self._heard = time.monotonic()
        self._ask_at = 0.0
        self.said = None

    def look(self, printed: int, reported: int) -> None:
        """Take note of how much the ranks have printed, and how often they have reported."""
        if (printed, reported) == self._known:
            return
        now, more = time.monotonic(), reported - self._known[1]
        if more > 0:
            if self._reported_at is not None:
                self._gaps.append((now - self._reported_at) / more)
            self._reported_at = now
        self._known = printed, reported
        self.hear()

    @property
    def _usual(self) -> float:
        """The usual time between two reports, in seconds."""
        from statistics import median

        return median(self._gaps) if self._gaps else 0.0

    @property
    def _patience(self) -> float:
        """How many seconds of silence pass before it is reported."""
        found = max(timeouts.STUCK.seconds, _TIMES * self._usual)
        return found if self._limit is None else min(found, self._limit)

    def asks(self, doubts: bool = False) -> bool:
        """Return whether it is time to ask the ranks where they are.

        Parameters
        ----------
        doubts
            Some have compiled a program that others have not, and may wait for them in vain: they
            are asked earlier.
        """
        self._doubts, patience, now = doubts, self._patience, time.monotonic()
        if doubts:
            patience = min(patience, max(timeouts.PROGRAMS.seconds, _FEW * self._usual))
        if now - self._heard < patience or now < self._ask_at:
            return False
        self._ask_at = now + _AGAIN
        return True

    def take(self, ranks: Sequence[tuple[RankEnd, Position | None]]) -> Silence | None:
        """Take the answers of the ranks.

        Parameters
        ----------
        ranks
            Of each, what is known of its end, and where it is; None where it does not answer.

        Returns
        -------
        Silence or None
            What there is to say; None where a rank gets on, or runs no cell.
        """
        now, patience = time.monotonic(), self._patience
        asked = [(end, where) for end, where in ranks if not end.finished]
        known = [where for _, where in asked if where is not None]
        since = [where["seconds"] for where in known if where["seconds"] is not None]
        quiet = min(now - self._heard, *since) if since else now - self._heard
        stands = any(where["cell_line"] is not None for where in known) or not known
        if quiet < patience or not stands:
            self.said = None
            self._ask_at = now + (_AGAIN if self._doubts else max(1.0, patience - quiet))
            return None
        self._ask_at = now + _AGAIN
        where_text = self._where(ranks, [end.rank for end, where in asked if where is None])
        compiles = any(where.get("compiles") for where in known)
        failure = None
        if self._limit is not None and not compiles:
            if quiet >= self._limit:
                message = say.HUNG(time=span(self._limit), where=where_text)
                stuck = any(end.finished for end, _ in ranks)
                hint = jobs.WAITED_FOR_FINISHED() if stuck else message.hint
                failure = Failure(kind="hang", message=message, hint=hint)
            self._ask_at = min(self._ask_at, now + max(0.0, self._limit - quiet))
        if self.said is None or failure is not None:
            words = say.SILENT(time=span(patience), where=where_text)
            hint = None if compiles else words.hint
            self.said = Silence(words, hint, words != self._told, failure)
            self._told = words
            return self.said
        return Silence(self.said.text, self.said.hint, is_news=False, failure=None)

    @staticmethod
    def _where(ranks: Sequence[tuple[RankEnd, Position | None]], mute: Sequence[int]) -> str:
        """Return where the ranks are, and which do not answer."""
        places = [positions(ranks)]
        if mute:
            places.append(say.NO_ANSWER(ranks=ranks_text(mute)))
        return joined(filter(None, places))
