"""Would a job start in this namespace? What ``doctor`` looks at beyond Trainer and rights."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.connection import said_plainly
from jupyter_jax_trainer.backends.kubernetes.doctor import namespace
from jupyter_jax_trainer.backends.kubernetes.submit import launch, podgroups, runtimes, trainjob
from jupyter_jax_trainer.doctor.finding import OK, WARN, Finding
from jupyter_jax_trainer.errors import JaxTrainError, JobDirError
from jupyter_jax_trainer.jobdir import layout
from jupyter_jax_trainer.messages import Label, Message, identify
from jupyter_jax_trainer.messages import doctor as say

_SKEW = 60.0  # seconds between two clocks that are no trouble yet
_PAST = 20  # jobs of the past that are looked at


def examine(client: Client, found: Sequence[TrainingRuntime], bad: str) -> Iterator[Finding]:
    """Make all checks; `found` are the runtimes for JAX, `bad` is the status of what is needed."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: _job_sets(client, bad),
        lambda: _each(found, bad),
        lambda: _gangs(client, found),
        lambda: _trial(client, found, bad),
        lambda: namespace.examine(client, found),
        lambda: _clock(client),
        lambda: _follower(client),
        lambda: _past(client),
    )
    for check in checks:
        try:
            with said_plainly(client):
                yield from check()
        except JaxTrainError as error:
            yield Finding(WARN, say.CLUSTER(), error.message, error.hint)


JOB_SET = Label("JobSet")
NO_JOB_SET = Message(
    "not installed, but Trainer needs it", "Have it installed: Trainer's manifests include it."
)
INSTALLED = Message("installed")


def _job_sets(client: Client, bad: str) -> Iterator[Finding]:
    try:
        client.request("GET", "/apis/jobset.x-k8s.io/v1alpha2")
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        if error.status == 404:
            yield Finding(bad, JOB_SET(), NO_JOB_SET())
        return
    yield Finding(OK, JOB_SET(), INSTALLED())


RUNTIME = Label("Runtime {name}")
DEPRECATED = Message("is deprecated", "Choose another with --runtime.")
RUNTIME_PYTHON = Message(
    "has Python {there}, but this is {here}",
    "It can't read functions and classes of a notebook: use Python {there} here or another "
    "--runtime, or define them inside the cell.",
)


def _each(found: Sequence[TrainingRuntime], bad: str) -> Iterator[Finding]:
    """Look at each runtime; only what is wrong gets a line."""
    usable = any(item.container.json for item in found)
    for item in found:
        subject = RUNTIME(name=item.name)
        if not item.container.json:
            yield Finding(WARN if usable else bad, subject, say.NO_NODE())
            continue
        if runtimes.describe(item).deprecated:
            yield Finding(WARN, subject, DEPRECATED())
        python = item.labels.get(f"{trainjob.PREFIX}/python")
        if python not in (None, runtimes.PYTHON):
            said = RUNTIME_PYTHON(there=python, here=runtimes.PYTHON)
            yield Finding(WARN, subject, said)


NO_GANG = Message(
    "has podGroupPolicy.{policy}, but {scheduler} is not installed",
    "Have it installed, or remove podGroupPolicy from the runtime: as it is, Trainer never creates "
    "the pods of its jobs.",
)


def _gangs(client: Client, found: Sequence[TrainingRuntime]) -> Iterator[Finding]:
    """Find runtimes whose pods the cluster can't start together."""
    for item in found:
        if (gang := podgroups.of_runtime(client, item)) and not gang.installed:
            subject = RUNTIME(name=item.name)
            said = NO_GANG(policy=gang.policy, scheduler=gang.by)
            yield Finding(WARN, subject, said)


TRIAL = Label("Trial")
REFUSED = Message("a job would be refused: {error}")
ACCEPTED = Message("a job of {runtime} would be accepted")


def _trial(client: Client, found: Sequence[TrainingRuntime], bad: str) -> Iterator[Finding]:
    """Have the cluster look at a job that is not made: webhooks and quotas have their say."""
    usable = next((item for item in found if item.container.json), None)
    if usable is None:
        return
    reference = {"name": usable.name, "kind": usable.kind, "apiGroup": "trainer.kubeflow.org"}
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"generateName": "jaxtrain-doctor-"},
        "spec": {"runtimeRef": reference, "trainer": {"numNodes": 1}},
    }
    path = client.trainer("trainjobs")
    try:
        with said_plainly(client):
            try:
                client.request("POST", path, query={"dryRun": "All"}, body=body)
            except ApiError as error:
                if "cannot create resource" in error.message:
                    return  # said among the rights
                raise
    except JaxTrainError as error:
        yield Finding(bad, TRIAL(), REFUSED(error=error.message), error.hint)
        return
    yield Finding(OK, TRIAL(), ACCEPTED(runtime=reference["name"]))


CLOCK = Label("Clock")
CLOCK_AHEAD = Message(
    "this clock is {seconds} s ahead of the cluster's",
    "Logs and events have the cluster's times, and credentials may count as expired: set this "
    "machine's clock.",
)
CLOCK_BEHIND = Message(
    "this clock is {seconds} s behind the cluster's",
    "Logs and events have the cluster's times, and credentials may count as expired: set this "
    "machine's clock.",
)


def _clock(client: Client) -> Iterator[Finding]:
    response = client.open("/version", None, timeouts.DOCTOR.seconds)
    try:
        date = response.headers.get("Date")
        response.read()
    finally:
        response.release_conn()
    with contextlib.suppress(TypeError, ValueError):
        ahead = time.time() - parsedate_to_datetime(date).timestamp()
        if abs(ahead) > _SKEW:
            differs = CLOCK_AHEAD if ahead > 0 else CLOCK_BEHIND
            yield Finding(WARN, CLOCK(), differs(seconds=f"{abs(ahead):.0f}"))


FOLLOWER = Label("Follower")
FOLLOWER_ENDED = Message(
    "ended with an error: {error}", "It restarts the next time a job is shown."
)


def _follower(client: Client) -> Iterator[Finding]:
    """Tell of a follower that could not go on."""
    with contextlib.suppress(OSError):
        words = (launch.follower_directory(client.identity) / "problem").read_text().splitlines()
        if words and not launch.has_follower(client.identity):
            said = FOLLOWER_ENDED(error=words[0])
            yield Finding(WARN, FOLLOWER(), said, " ".join(words[1:]) or None)


NO_JAX = Message(
    "job {name} found no jax in {image}",
    "Use an image that has Python and jax (--image, or another --runtime).",
)


def _past(client: Client) -> Iterator[Finding]:
    """Learn from jobs of the past that no JAX was found in an image."""
    images: dict[str, str] = {}
    for directory in layout.list_all()[:_PAST]:
        with contextlib.suppress(JobDirError):
            plan = directory.read_manifest()["plan"]
            state = directory.read_state()
            error = state["failure"]["error"] if state and state["failure"] else None
            lacking = (
                error is not None
                and error["type"] == "ModuleNotFoundError"
                and (error["message"].strip("'\"").endswith(("'jax", "'jaxlib")))
            )
            if plan.get("cluster") == client.identity and lacking:
                images.setdefault(str(plan.get("image")), directory.path.name)
    for image, name in images.items():
        yield Finding(WARN, say.IMAGE(), NO_JAX(name=name, image=image))


identify(globals(), "doctor")
