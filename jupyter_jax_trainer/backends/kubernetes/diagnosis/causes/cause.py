"""What a row of the table of causes is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen, line
from jupyter_jax_trainer.states import State

Words = Mapping[str, str]  # what is found, by its name in the templates
_REASON = 200  # characters of a sentence
_HINT = 400
_FACT = 140


@dataclass(frozen=True, kw_only=True)
class Refused:
    """What was refused: by the API to us, or to a controller that acts for the job.

    Attributes
    ----------
    message
        The sentence of the server.
    status
        The HTTP status; 0 where a controller was told.
    reason
        Kubernetes' word for it.
    verb, resource
        What was asked for.
    who
        What could not be made: ``the TrainJob``, ``2 of 4 pods``.
    """

    message: str
    status: int = 0
    reason: str = ""
    verb: str = ""
    resource: str = ""
    who: str = "the TrainJob"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A row: how to find a cause, and what to say about it.

    Attributes
    ----------
    id
        Its name.
    where, symptom
        For the page about causes: which object shows it, and what happens, unless the sentence
        says it.
    sentence, hint
        Templates over the facts.
    state
        The state of a job in which this is the cause.
    find
        Finds it in what is seen, and gives the facts.
    match
        Finds it in a refusal, and gives the facts.
    ends
        It says how a rank has ended: its sentence goes on after ``rank 1``.
    """

    id: str
    where: str
    sentence: str
    hint: str = ""
    symptom: str = ""
    state: State = State.PENDING
    find: Callable[[Seen], Words | None] | None = None
    match: Callable[[Refused], Words | None] | None = None
    ends: bool = False

    def say(self, facts: Words) -> str:
        """Return the sentence."""
        return line(_filled(self.sentence, facts), _REASON)

    def advise(self, facts: Words) -> str | None:
        """Return the hint, if there is one."""
        return line(_filled(self.hint, facts), _HINT) or None


def _filled(template: str, facts: Words) -> str:
    """Fill a template; what the facts hold is never read as one."""
    return re.sub(r"\{(\w+)\}", lambda found: line(facts.get(found[1], ""), _FACT), template)


def by_pattern(pattern: str, *statuses: int) -> Callable[[Refused], Words | None]:
    """Match the message of a refusal; named groups are the facts."""
    compiled = re.compile(pattern, re.IGNORECASE | re.DOTALL)

    def match(refused: Refused) -> Words | None:
        if statuses and refused.status not in statuses:
            return None
        found = compiled.search(refused.message)
        return None if found is None else {"who": refused.who, **found.groupdict()}

    return match


def who(count: int, nodes: int) -> str:
    """Return how many of the pods: ``the pod``, ``2 of 4 pods``."""
    return "the pod" if nodes == 1 else f"{count} of {nodes} pods"


def of_pods(seen: Seen, look: Callable[[Pod], Words | None]) -> Words | None:
    """Return the facts of the first pod in which something is found, and say how many there are."""
    found = [facts for _, pod in sorted(seen.live.items()) if (facts := look(pod)) is not None]
    if not found:
        return None
    return {"who": who(len(found), seen.nodes), **found[0]}
