"""How long a session may be idle: what the user asks for, within what a platform allows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.manifest import Plan
from jupyter_jax_trainer.jobdir.session import IDLE, WARNING
from jupyter_jax_trainer.messages import backends as say
from jupyter_jax_trainer.options import amounts
from jupyter_jax_trainer.text import span

if TYPE_CHECKING:  # supervisors start faster without this import
    from jupyter_jax_trainer.options.spec import JobSpec

USUAL, MOST = "JAXTRAIN_SESSION_IDLE", "JAXTRAIN_SESSION_IDLE_MAX"


@dataclass(frozen=True)
class Limits:
    """What holds for sessions somewhere.

    Attributes
    ----------
    usual
        Seconds, where the user says nothing; 0 for ever.
    most
        Seconds that a user may ask for; None for any, and for ever.
    """

    usual: float
    most: float | None

    @classmethod
    def read(cls, usual: tuple[str, str | None], most: tuple[str, str | None]) -> Limits:
        """Read the limits, each as the name of its setting and its value, if that is set.

        Raises
        ------
        UsageError
            One is no span of time.
        """
        least = amounts.timeout(most[0], most[1]) if most[1] else None
        given = amounts.idle(usual[0], usual[1]) if usual[1] else IDLE
        return cls(_within(given, least), least)

    @classmethod
    def of_environment(cls) -> Limits:
        """Read those of this machine.

        Raises
        ------
        UsageError
            One is no span of time.
        """
        return cls.read((USUAL, os.environ.get(USUAL)), (MOST, os.environ.get(MOST)))

    def check(self, idle: float | None) -> float:
        """Return how many seconds a session may be idle; 0 for ever.

        Parameters
        ----------
        idle
            What the user asks for; None for the default.

        Raises
        ------
        UsageError
            It is more than is allowed.
        """
        if idle is None:
            return self.usual
        if _within(idle, self.most) != idle:
            assert self.most is not None, "nothing else is a bound"
            raise UsageError(say.IDLE_TOO_LONG(most=span(self.most)))
        return idle


def put_into(plan: Plan, spec: JobSpec, limits: Callable[[], Limits]) -> None:
    """Note in the plan of a session how long it may be idle; nothing in that of a job.

    Raises
    ------
    UsageError
        More is asked for than is allowed, or a limit makes no sense.
    """
    if spec.session is not None:
        here = limits()
        plan["idle"], plan["idle_most"] = here.check(spec.idle), here.most


def _within(idle: float, most: float | None) -> float:
    """Return the shorter one; 0 is the longest."""
    return idle if most is None or 0 < idle <= most else most


class IdleClock:
    """How long a session has run no cell, on the monotonic clock.

    Parameters
    ----------
    limit
        Seconds after which it ends; 0 for never.
    most
        Seconds by which it can be prolonged at once; None for any.
    """

    def __init__(self, limit: float, most: float | None) -> None:
        self._limit, self._most = limit, most
        self.begin()

    def begin(self) -> None:
        """Count from now."""
        self._since, self._from = time.monotonic(), time.time()
        self._allowed = self._limit
        self._warned = False

    def resume(self, since: float, allowed: float | None) -> None:
        """Go on where another clock counted.

        Parameters
        ----------
        since
            From when, in seconds since the epoch.
        allowed
            For how long the session may be idle, if it was prolonged: as `allowed` gives it.
        """
        self.begin()
        self._since -= max(self._from - since, 0.0)
        self._from = since
        self._allowed = self._limit if allowed is None else allowed

    @property
    def since(self) -> float:
        """From when it counts, in seconds since the epoch."""
        return self._from

    @property
    def ends(self) -> float | None:
        """When the session ends, in seconds since the epoch; None for never."""
        return time.time() + self.left if self._allowed else None

    @property
    def left(self) -> float:
        """Seconds until the session ends, where it does."""
        return self._allowed - self.spent

    @property
    def spent(self) -> float:
        """For how long the session has been idle, in seconds."""
        return time.monotonic() - self._since

    @property
    def allowed(self) -> float:
        """For how long it may be, in seconds; 0 for ever."""
        return self._allowed

    @property
    def is_prolonged(self) -> bool:
        """Whether the idle time now allowed differs from the limit."""
        return self._allowed != self._limit

    def warns(self) -> bool:
        """Return whether the end is near; true once."""
        near = self._allowed > 0 and self.left <= min(WARNING, self._allowed / 2)
        first, self._warned = near and not self._warned, near
        return first

    def prolong(self, seconds: float | None) -> str | None:
        """Let the session stay idle for `seconds` from now; return why, if that is refused.

        Parameters
        ----------
        seconds
            0 for ever; None for as long as its limit is.
        """
        wanted = self._limit if seconds is None else seconds
        if _within(wanted, self._most) != wanted:
            assert self._most is not None, "nothing else is a bound"
            return say.IDLE_TOO_LONG(most=span(self._most))
        self._allowed = wanted and wanted + self.spent
        return None
