"""Read the sentences with which servers refuse something."""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Refused, Words
from jupyter_jax_trainer.text import joined

_KINDS = {
    "trainjobs": "TrainJob",
    "secrets": "Secret",
    "pods": "pod",
    "jobs": "Job",
    "jobsets": "JobSet",
    "configmaps": "ConfigMap",
    "trainingruntimes": "TrainingRuntime",
    "clustertrainingruntimes": "ClusterTrainingRuntime",
}
_NO_REASON = ("", "Forbidden", "no reason given")


def quota(refused: Refused) -> Words | None:
    """Read that a quota is used up."""
    found = re.search(
        r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>\S+), used: (?P<used>\S+), "
        r"limited: (?P<most>\S+)",
        refused.message,
    )
    if found is None:
        return None
    asked, used, most = (_pairs(found[part]) for part in ("asked", "used", "most"))
    what = [
        f"{_resource(name)}: {amount} asked for, "
        f"{used.get(name, '0')} of {most.get(name, '?')} used"
        for name, amount in asked.items()
    ]
    return {"who": refused.who, "quota": found["quota"], "what": "; ".join(what)}


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in text.split(","))


def _resource(name: str) -> str:
    if not name.startswith("count/"):
        return name
    kind = name.removeprefix("count/").split(".")[0]
    return f"{_KINDS.get(kind, kind)}s"


def security(refused: Refused) -> Words | None:
    """Read that PodSecurity refuses pods."""
    pattern = r'violates PodSecurity "(?P<level>[^":]+)[^"]*": (?P<what>.*)'
    found = re.search(pattern, refused.message)
    if found is None:
        return None
    # What stands in brackets is detail: which container should set what.
    what = re.sub(r" ?\([^()]*\)", "", found["what"])
    return {"who": refused.who, "level": found["level"], "what": what}


def missing_right(refused: Refused) -> Words | None:
    """Read that a right is missing."""
    found = re.search(
        r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)".*?(?:in the namespace '
        r'"(?P<namespace>[^"]+)"|$)',
        refused.message,
    )
    if found is None and (refused.status != 403 or refused.message not in _NO_REASON):
        return None
    facts = found.groupdict() if found else {}
    verb, resource = facts.get("verb") or refused.verb, facts.get("resource") or refused.resource
    space = facts.get("namespace")
    where = f"in the namespace {space}" if space else ""
    return {"verb": verb, "resource": resource, "where": where}


def wanted(refused: Refused) -> Words | None:
    """Read that a quota wants amounts."""
    found = re.search(r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.*)", refused.message)
    if found is None:
        return None
    names = [part.partition(" for:")[0].strip() for part in found["what"].split(";")]
    return {"who": refused.who, "quota": found["quota"], "what": joined(names)}


def webhook(refused: Refused) -> Words | None:
    """Read that a webhook refuses."""
    found = re.search(
        r'admission webhook "(?P<name>[^"]+)" denied the request(?P<what>.*)',
        refused.message,
        re.DOTALL,
    )
    if found is None:
        return None
    # The value that was wrong may be a whole object; what is wrong with it comes after it.
    what = re.sub(r"Invalid value: [\[{].*[\]}]: ", "", found["what"], flags=re.DOTALL)
    what = what.lstrip(": ") or "no reason given"
    return {"who": refused.who, "name": found["name"], "what": what}


def named(words: str, status: int) -> Callable[[Refused], Words | None]:
    """Match ``secrets "data" <words>``."""
    pattern = re.compile(rf'(?P<kind>[a-z]+)[\w.]* "(?P<name>[^"]+)" {words}')

    def match(refused: Refused) -> Words | None:
        found = pattern.search(refused.message) if refused.status == status else None
        if found is None:
            return None
        return {"kind": _KINDS.get(found["kind"], found["kind"]), "name": found["name"]}

    return match


def invalid(refused: Refused) -> Words | None:
    """Read that something is not valid."""
    if refused.status not in (0, 400, 422):
        return None
    _, mark, what = refused.message.partition('" is invalid: ')
    if not mark and refused.status == 0:
        return None
    return {"who": refused.who, "what": what.removeprefix("<nil>: ") or refused.message}


def no_kind(refused: Refused) -> Words | None:
    """Match an answer that knows not even the kind of object."""
    words = ("page not found", "could not find the requested resource")
    if refused.status != 404 or not any(text in refused.message for text in words):
        return None
    return {"resource": refused.resource}


def slow(refused: Refused) -> Words | None:
    """Read that an answer took too long."""
    slow = re.search("timed? ?out|deadline exceeded", refused.message, re.IGNORECASE)
    return {} if refused.status == 504 or (refused.status == 500 and slow) else None


def other(refused: Refused) -> Words:
    """Read whatever it says."""
    hands = "is forbidden|[Ee]rror creating|failed with error|failed"
    what = re.sub(f"^.*?(?:{hands}): ", "", refused.message)
    return {"who": refused.who, "what": what}
