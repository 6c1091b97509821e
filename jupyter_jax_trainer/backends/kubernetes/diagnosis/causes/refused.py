"""Causes that a server states when it refuses to make something.

It is the answer to our own request, or stands in the event of a controller that acts for the job.
"""

from __future__ import annotations

from dataclasses import replace

from jupyter_jax_trainer.backends.kubernetes.api.objects import MESSAGE
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import (
    Cause,
    Refused,
    Words,
    by_pattern,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.messages import (
    invalid,
    missing_right,
    named,
    no_kind,
    other,
    quota,
    security,
    slow,
    wanted,
    webhook,
)

_EVENT = "creation event"
_BOTH = f"the answer at submission; {_EVENT}"
_ANSWER = "the answer to the request"

REFUSED = (
    Cause(
        id="quota",
        where=_BOTH,
        sentence="the quota {quota} has no room for {who}: {what}",
        hint="Ask for less (--nodes, --cpu, --memory), wait for other jobs of the namespace to "
        "end, delete them, or have the ResourceQuota {quota} raised.",
        match=quota,
    ),
    Cause(
        id="quota-wants-amounts",
        where=_EVENT,
        sentence="the quota {quota} refuses {who}: {what} must be set",
        hint="Set what a node needs (--cpu, --memory). For limits.cpu, have a LimitRange set a "
        "default, or set it in the runtime.",
        match=wanted,
    ),
    Cause(
        id="limit-range",
        where=_EVENT,
        sentence="the namespace's LimitRange refuses {who}: {bound} {resource} per {per} is "
        "{allowed}, but {asked} was requested",
        hint="Stay within it with --cpu and --memory, or have the LimitRange changed.",
        match=by_pattern(
            r"(?P<bound>maximum|minimum) (?P<resource>\S+) usage per (?P<per>\w+) is "
            r"(?P<allowed>[^,\s]+)[,.] but (?:limit|request) is (?P<asked>[^,\s]+)"
        ),
    ),
    Cause(
        id="pod-security",
        where=_EVENT,
        sentence="PodSecurity {level} of the namespace refuses {who}: {what}",
        hint="If you can't read the namespace's labels, run the cell again; the job will now "
        "comply where it can. Otherwise use a runtime that complies, such as jax-cpu (--runtime), "
        "or ask for one.",
        match=security,
    ),
    Cause(
        id="service-account-missing",
        where=_EVENT,
        sentence="the service account {name} does not exist in this namespace",
        hint="Check --service-account, or have it created.",
        match=by_pattern(r'serviceaccounts? "(?P<name>[^"]+)" not found'),
    ),
    Cause(
        id="priority-missing",
        where=_BOTH,
        sentence="there is no priority class {name}",
        hint="Check --priority; `kubectl get priorityclasses` lists them.",
        match=by_pattern(r"no PriorityClass with name (?P<name>\S+) was found"),
    ),
    Cause(
        id="runtime-missing",
        where=_ANSWER,
        sentence="there is no runtime {name} in the cluster",
        hint="`%jaxtrain runtimes` lists the available runtimes; choose one with --runtime.",
        match=by_pattern(r'TrainingRuntime\S* "(?P<name>[^"]+)" not found'),
    ),
    Cause(
        id="webhook-down",
        where=f"HTTP 500 at submission; {_EVENT}",
        sentence="the cluster's webhook {name} does not answer, so {who} can't be created",
        hint="It often recovers within a minute; then run the cell again. If it doesn't, tell a "
        "cluster administrator: the controller behind that webhook is down.",
        match=by_pattern(r'failed calling webhook "(?P<name>[^"]+)"'),
    ),
    Cause(
        id="webhook-refuses",
        where=_BOTH,
        sentence="the cluster's webhook {name} refuses {who}: {what}",
        hint="If none of the cell's options explains it, show this to a cluster administrator.",
        match=webhook,
    ),
    Cause(
        id="policy-refuses",
        where=_BOTH,
        sentence="the cluster's policy {name} refuses {who}: {what}",
        hint="Ask a cluster administrator what the policy requires.",
        match=by_pattern(
            r"ValidatingAdmissionPolicy '(?P<name>[^']+)'.* denied request: (?P<what>.*)"
        ),
    ),
    Cause(
        id="namespace-ends",
        where=_BOTH,
        sentence="the namespace {name} is being deleted",
        hint="Choose another with --namespace.",
        match=by_pattern(r"create new content in namespace (?P<name>\S+) because it is being"),
    ),
    Cause(
        id="namespace-missing",
        where=_ANSWER,
        sentence="the namespace {name} does not exist",
        hint="Check --namespace and --context, or have it created.",
        match=by_pattern(r'namespaces "(?P<name>[^"]+)" not found', 404),
    ),
    Cause(
        id="signed-out",
        where="HTTP 401",
        sentence="the cluster does not accept your credentials",
        hint="Sign in again: a token may have expired. `kubectl auth whoami` shows whether it "
        "works.",
        match=by_pattern("", 401),
    ),
    Cause(
        id="right-missing",
        where=f"HTTP 403; {_EVENT}",
        sentence="no permission to {verb} {resource} {where}",
        hint="Ask for {verb} on {resource} in a Role, or for cluster-wide resources a ClusterRole.",
        match=missing_right,
    ),
    Cause(
        id="trainer-missing",
        where="HTTP 404 without a name",
        sentence="this cluster has no {resource}: Kubeflow Trainer is missing or too old",
        hint="Have Kubeflow Trainer 2.2 or later installed, or check --context.",
        match=no_kind,
    ),
    Cause(
        id="not-found",
        where="HTTP 404",
        sentence="there is no {kind} {name}",
        hint="It may have been deleted; check --namespace and --context.",
        match=named("not found", 404),
    ),
    Cause(
        id="exists",
        where="HTTP 409, `AlreadyExists`",
        sentence="a {kind} {name} already exists in this namespace",
        hint="Choose another --name, or delete the existing one.",
        match=named("already exists", 409),
    ),
    Cause(
        id="changed-meanwhile",
        where="HTTP 409, `Conflict`",
        sentence="somebody else changed the object at the same time",
        hint="Try again.",
        match=by_pattern("", 409),
    ),
    Cause(
        id="too-large",
        where="HTTP 413 or 422",
        sentence="the cluster does not accept that much at once: {what}",
        hint="Send less, read the data inside the cell, or use --volume or --store.",
        match=by_pattern(r"(?P<what>request entity too large.*|too long: may not be more.*)"),
    ),
    Cause(
        id="invalid",
        where=f"HTTP 400 or 422; {_EVENT}",
        sentence="the cluster rejects {who} as invalid: {what}",
        hint="An option of the cell or the runtime asks for something that is not possible.",
        match=invalid,
    ),
    Cause(
        id="too-many-requests",
        where="HTTP 429",
        sentence="the cluster is busy and accepts no more requests at the moment",
        hint="Try again in a minute.",
        match=by_pattern("", 429),
    ),
    Cause(
        id="api-timeout",
        where="HTTP 504, or 500 with a timeout",
        sentence="the cluster took too long to answer",
        hint="Try again; if it persists, tell a cluster administrator.",
        match=slow,
    ),
    Cause(
        id="api-down",
        where="HTTP 500, 502 or 503",
        sentence="the cluster has an internal error: {what}",
        hint="Try again in a minute; if it persists, tell a cluster administrator.",
        match=by_pattern("(?P<what>.*)", 500, 502, 503),
    ),
    Cause(
        id="refused",
        where=_BOTH,
        sentence="the cluster refuses {who}: {what}",
        hint="Show this to a cluster administrator.",
        match=other,
    ),
)


def explain(refused: Refused) -> tuple[Cause, Words]:
    """Find the row for a refusal: there is always one."""
    refused = replace(refused, message=refused.message[:MESSAGE])
    for cause in REFUSED:
        if cause.match is not None and (facts := cause.match(refused)) is not None:
            return cause, facts
    raise AssertionError("the last row takes everything")
