"""What a TrainJob says of itself in its annotations: anybody may have written it.

Nothing of it is used before `read` has checked all of it, field by field.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypedDict

from jupyter_jax_trainer.backends.kubernetes.api import marks
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainJob
from jupyter_jax_trainer.backends.kubernetes.api.observed import line
from jupyter_jax_trainer.devices import DEVICES
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.jobdir.manifest import Plan as PlanBase
from jupyter_jax_trainer.jobdir.manifest import SentRecord
from jupyter_jax_trainer.messages import cluster as say
from jupyter_jax_trainer.options import amounts, checks, spec
from jupyter_jax_trainer.options.spec import JobSpec, SpecRecord

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PYTHON = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){1,2}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,63}")
_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
_LATEST = 253_402_300_799.0  # the last second of the year 9999: `datetime` ends there
_MOST_BYTES = 1 << 60
_WORDS = 200  # characters of a text for people


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One thing that was sent with the job, as in a manifest."""

    name: str
    kind: str
    type: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the submitter's backend made of the options, as far as others have to know it."""

    runtime: str
    runtime_kind: str
    runs_once: bool
    device: str
    devices_per_node: int
    note: str | None


class PlanRecord(PlanBase):
    """A `Plan` as a manifest has it."""

    runtime_kind: str
    runs_once: bool


class AboutRecord(TypedDict):
    """What of a manifest a TrainJob tells."""

    uid: str
    created: float
    spec: SpecRecord
    plan: PlanRecord
    sent: list[SentRecord]
    returns: bool
    digest: str
    python: str
    package: str
    maker: str | None


@dataclass(frozen=True, kw_only=True)
class About:
    """What a TrainJob says of its job.

    Attributes
    ----------
    uid
        Our own id of the job.
    created
        Seconds since the epoch.
    digest
        The sha256 of the bundle's manifest.
    python, package
        Versions of the submitting side.
    maker
        Who submitted it, as it says; None for a job of version 0.1.
    """

    uid: str
    created: float
    spec: JobSpec
    plan: Plan
    sent: tuple[Sent, ...]
    returns: bool
    digest: str
    python: str
    package: str
    maker: str | None

    def to_manifest(self) -> AboutRecord:
        """Return the fields of a job's manifest that come from here."""
        return {
            "uid": self.uid,
            "created": self.created,
            "spec": self.spec.to_json(),
            "plan": {
                "runtime": self.plan.runtime,
                "runtime_kind": self.plan.runtime_kind,
                "runs_once": self.plan.runs_once,
                "device": self.plan.device,
                "devices_per_node": self.plan.devices_per_node,
                "note": self.plan.note,
            },
            "sent": [
                {"name": one.name, "kind": one.kind, "type": one.type, "size": one.size}
                for one in self.sent
            ],
            "returns": self.returns,
            "digest": self.digest,
            "python": self.python,
            "package": self.package,
            "maker": self.maker,
        }


def read(found: TrainJob) -> About:
    """Read and check the annotations of a TrainJob.

    Raises
    ------
    BackendError
        The TrainJob isn't one of ours, or a field is not what we would have written.
    """
    name, annotations = line(found.name, 63), found.annotations
    try:
        said = json.loads(annotations.get(marks.ABOUT, ""))
        if not isinstance(said, dict) or said.get("format") != marks.ABOUT_FORMAT:
            raise ValueError
    except (ValueError, RecursionError):
        raise BackendError(say.NOT_OURS(name=name)) from None
    try:
        return _checked(annotations.get(marks.UID, ""), said)
    except (UsageError, RecursionError) as error:
        why = error.message if isinstance(error, UsageError) else say.NESTED_TOO_DEEPLY()
        raise BackendError(say.INVALID_ANNOTATION(name=name, reason=line(why, _WORDS))) from None


def _checked(uid: str, said: dict[str, Any]) -> About:
    """Check all fields; `UsageError` says which one is wrong."""
    if not marks.UID_FORM.fullmatch(uid):
        raise _wrong("uid", uid)
    options = said.get("spec")
    if not isinstance(options, dict):
        raise _wrong("spec", options)
    return About(
        uid=uid,
        created=_time(said.get("created")),
        spec=spec.checked(options),
        plan=_plan(said.get("plan")),
        sent=_sent(said.get("sent")),
        returns=_bool("returns", said.get("returns")),
        digest=_like(_DIGEST, "digest", said.get("digest")),
        python=_like(_PYTHON, "python", said.get("python")),
        package=_like(_VERSION, "package", said.get("package")),
        maker=None if said.get("maker") is None else _text("maker", said["maker"]),
    )


def _plan(said: Any) -> Plan:
    """Check the plan; what else is in it, an own runtime for instance, is not read."""
    if not isinstance(said, dict):
        raise _wrong("plan", said)
    note = said.get("note")
    return Plan(
        runtime=checks.subdomain()("plan.runtime", said.get("runtime")),
        runtime_kind=checks.one_of(*_KINDS)("plan.runtime_kind", said.get("runtime_kind")),
        runs_once=_bool("plan.runs_once", said.get("runs_once")),
        device=checks.one_of(*DEVICES)("plan.device", said.get("device")),
        devices_per_node=amounts.whole(1, 1024)(
            "plan.devices_per_node", said.get("devices_per_node")
        ),
        note=None if note is None else _text("plan.note", note),
    )


def _sent(said: Any) -> tuple[Sent, ...]:
    if not isinstance(said, list) or not all(isinstance(one, dict) for one in said):
        raise _wrong("sent", said)
    return tuple(
        Sent(
            name=_text("sent.name", one.get("name")),
            kind=_text("sent.kind", one.get("kind")),
            type=_text("sent.type", one.get("type")),
            size=amounts.whole(0, _MOST_BYTES)("sent.size", one.get("size")),
        )
        for one in said
    )


def _time(value: Any) -> float:
    fine = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fine or not 0 <= value <= _LATEST:  # NaN is refused here, too
        raise _wrong("created", value)
    return float(value)


def _bool(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(field, value)
    return value


def _like(form: re.Pattern[str], field: str, value: Any) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise _wrong(field, value)
    return value


def _text(field: str, value: Any) -> str:
    """Check a text for people: it is shown, so it becomes one harmless line."""
    if not isinstance(value, str):
        raise _wrong(field, value)
    return line(value, _WORDS)


def _wrong(field: str, value: Any) -> UsageError:
    return UsageError(say.INVALID_FIELD(field=field, value=checks.shown(value)))
