"""Time-outs of a worker, and what all time-outs have in common: each is a setting."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import worker as say


@dataclass(frozen=True)
class Timeout:
    """A time-out that a variable of the environment sets.

    Parameters
    ----------
    variable
        The variable.
    usual
        Seconds, where it is not set.
    """

    variable: str
    usual: float

    @property
    def seconds(self) -> float:
        """How long to wait: what this process's environment says, or else what is usual.

        Raises
        ------
        UsageError
            The variable is no number of seconds.
        """
        given = self.given(os.environ)
        return self.usual if given is None else given

    def given(self, environment: Mapping[str, str]) -> float | None:
        """Return what an environment says, in seconds; None where it says nothing.

        Raises
        ------
        UsageError
            It is no number of seconds.
        """
        text = environment.get(self.variable)
        if not text:
            return None
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise UsageError(
                say.INVALID_TIMEOUT(variable=self.variable, value=text, usual=self.usual)
            )
        return seconds


RENDEZVOUS = Timeout("JAXTRAIN_RENDEZVOUS_TIMEOUT", 300.0)
# Other pods may wait for a node, and pull an image.
RENDEZVOUS_OF_PODS = Timeout(RENDEZVOUS.variable, 1800.0)
HEARTBEAT = Timeout("JAXTRAIN_HEARTBEAT_TIMEOUT", 604800.0)
PEER = Timeout("JAXTRAIN_PEER_TIMEOUT", 2.0)
FINISH = Timeout("JAXTRAIN_FINISH_TIMEOUT", 86400.0)
LEAVE = Timeout("JAXTRAIN_LEAVE_TIMEOUT", 1.0)
CAUSE = Timeout("JAXTRAIN_CAUSE_TIMEOUT", 5.0)
KILL = Timeout("JAXTRAIN_KILL_TIMEOUT", 10.0)
STORE = Timeout("JAXTRAIN_STORE_TIMEOUT", 10.0)
RESULT_HOLD = Timeout("JAXTRAIN_RESULT_HOLD", 600.0)
TRANSFER = Timeout("JAXTRAIN_TRANSFER_TIMEOUT", 30.0)
BUNDLE = Timeout("JAXTRAIN_BUNDLE_TIMEOUT", 900.0)
RECONNECT = Timeout("JAXTRAIN_RECONNECT_TIMEOUT", 60.0)
STATUS = Timeout("JAXTRAIN_STATUS_TIMEOUT", 5.0)
PROOF = Timeout("JAXTRAIN_PROOF_TIMEOUT", 5.0)
LAST_WORDS = Timeout("JAXTRAIN_LAST_WORDS_TIMEOUT", 2.0)
WHERE = Timeout("JAXTRAIN_WHERE_INTERVAL", 60.0)
PROFILE = Timeout("JAXTRAIN_PROFILE_TIMEOUT", 60.0)
SAMPLE = Timeout("JAXTRAIN_SAMPLE_INTERVAL", 2.0)
PACE = Timeout("JAXTRAIN_PACE_INTERVAL", 30.0)
PIPE = Timeout("JAXTRAIN_PIPE_TIMEOUT", 10.0)
UNREACHED = Timeout("JAXTRAIN_UNREACHED_TIMEOUT", 300.0)
NOTICE = Timeout("JAXTRAIN_NOTICE_TIMEOUT", 25.0)
