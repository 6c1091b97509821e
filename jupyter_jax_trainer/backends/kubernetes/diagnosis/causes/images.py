"""Causes for which an image does not come to its node."""

from __future__ import annotations

import re
from collections.abc import Callable

from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod, Waiting
from jupyter_jax_trainer.backends.kubernetes.api.observed import Seen
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.cause import Cause, Words, of_pods

_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "RegistryUnavailable",
    "ErrImageNeverPull",
    "InvalidImageName",
    "SignatureValidationFailed",
)
_WHERE = "container waits: `ErrImagePull`, `ImagePullBackOff`"


def _message(seen: Seen, pod: Pod, waiting: Waiting) -> str:
    """Return what is said about the pull, without the image's own name.

    Older kubelets keep the cause of a back-off to an event.
    """
    message = waiting.message
    if waiting.reason == "ImagePullBackOff" and "ErrImagePull" not in message:
        events = [event.message for event in seen.events_of(pod, "Failed")]
        failed = [said for said in events if said.startswith("Failed to pull")]
        message = failed[-1] if failed else message
    image = pod.of.trainer.image
    return message.replace(image, "") if image else message


def _finder(pattern: str, *reasons: str) -> Callable[[Seen], Words | None]:
    compiled = re.compile(pattern, re.IGNORECASE)

    def find(seen: Seen) -> Words | None:
        def look(pod: Pod) -> Words | None:
            waiting, image = pod.waiting, pod.of.trainer.image
            if waiting is None or waiting.reason not in (reasons or _REASONS):
                return None
            message = _message(seen, pod, waiting)
            if not compiled.search(message):
                return None
            said = message.rsplit(": ", 1)[-1]
            registry, slash, _ = image.partition("/")
            named = slash and ("." in registry or ":" in registry)
            return {
                "image": image,
                "said": said,
                "registry": registry if named else "docker.io",
            }

        return of_pods(seen, look)

    return find


IMAGES = (
    Cause(
        id="image-name",
        where="container waits: `InvalidImageName`",
        sentence="{image} is not a valid image name",
        hint="Check --image: registry/name:tag, all in lower case.",
        find=_finder("", "InvalidImageName"),
    ),
    Cause(
        id="image-not-on-node",
        where="container waits: `ErrImageNeverPull`",
        sentence="the image {image} is not on the node, and the runtime does not allow pulling it",
        hint="Load it onto the nodes, or change the runtime's imagePullPolicy.",
        find=_finder("", "ErrImageNeverPull"),
    ),
    Cause(
        id="image-disk-full",
        where=_WHERE,
        sentence="the node has no disk space for the image {image}",
        hint="Tell a cluster administrator: the disk of the node is full.",
        find=_finder("no space left on device"),
    ),
    Cause(
        id="image-rate-limit",
        where=_WHERE,
        sentence="the registry's rate limit blocks pulls of the image {image}",
        hint="Wait (the pull is retried automatically), or use a mirror of the image (--image).",
        find=_finder(r"\b429\b|toomanyrequests|rate limit"),
    ),
    Cause(
        id="image-denied",
        where=_WHERE,
        sentence="the registry denies access to the image {image}",
        hint="It is private or does not exist. Check --image; pull credentials belong to the "
        "runtime (imagePullSecrets) or the service account (--service-account).",
        find=_finder(
            r"\b40[13]\b|unauthori[sz]ed|authentication required|denied|authorization failed|"
            r"insufficient_scope|no basic auth|forbidden"
        ),
    ),
    Cause(
        id="image-unreachable",
        where=_WHERE,
        sentence="the registry of the image {image} can't be reached",
        hint="Check the name in --image. If it is right, tell a cluster administrator that the "
        "nodes can't reach {registry}: {said}.",
        find=_finder(
            r"dial tcp|no such host|i/o timeout|connection (?:refused|reset)|no route to host|"
            r"network is unreachable|tls handshake|x509|deadline exceeded|\bEOF\b|proxyconnect|"
            r"server gave HTTP response to HTTPS client"
        ),
    ),
    Cause(
        id="image-platform",
        where=_WHERE,
        sentence="the image {image} does not support the CPU architecture of the node",
        hint="Choose an image for the node's architecture, or nodes that fit the image.",
        find=_finder("no match for platform|no matching manifest"),
    ),
    Cause(
        id="image-missing",
        where=_WHERE,
        sentence="the image {image} does not exist",
        hint="Check --image and its tag.",
        find=_finder("not ?found|manifest unknown|name unknown|does not exist"),
    ),
    Cause(
        id="image-registry-trouble",
        where=_WHERE,
        sentence="the registry of the image {image} returned an error: {said}",
        hint="The pull is retried automatically.",
        find=_finder(r"\b50[0-4]\b"),
    ),
    Cause(
        id="image",
        where=_WHERE,
        sentence="the image {image} can't be pulled: {said}",
        hint="The pull is retried automatically. Check --image, and show this to a cluster "
        "administrator.",
        find=_finder(""),
    ),
)
