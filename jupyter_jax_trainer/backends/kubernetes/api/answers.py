"""What the API answers when it does not give what was asked for, and the words for it."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any
from urllib.parse import urlsplit

from jupyter_jax_trainer.messages import cluster as say

_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
# Answers after which the same request may succeed: the API or a webhook is starting.
_TRANSIENT = (429, 500, 502, 503, 504)
_LONGEST = 1000  # characters of an answer that isn't the API's


class ApiError(Exception):
    """The API refused a request.

    Attributes
    ----------
    status
        The HTTP status code.
    reason
        Kubernetes' word for it (``NotFound``, ``Forbidden``, ...), or HTTP's.
    message
        The sentence of the server.
    verb, resource
        What was asked for, in the words of rights: ``create``, ``trainjobs``.
    retry_after
        Seconds after which the server wants to be asked again; 0 where it didn't say.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        verb: str = "",
        resource: str = "",
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.verb = verb
        self.resource = resource
        self.retry_after = retry_after

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _TRANSIENT


class Unreachable(Exception):  # noqa: N818
    """The API did not answer: no connection, a broken one, silence, or something in between."""


class SignInFailed(Unreachable):
    """There are no credentials to ask with."""


def is_page(response: Any) -> bool:
    """Return whether an answer is a web page: the API has none."""
    return str(response.headers.get("Content-Type", "")).startswith("text/html")


def refusal(response: Any, text: bytes, method: str, path: str, watch: bool) -> Exception:
    """Make the error for an answer other than success."""
    status = int(response.status)
    if status < 400:
        target = urlsplit(str(response.headers.get("Location", ""))).netloc
        return Unreachable(say.REDIRECTS_TO(target=target) if target else say.REDIRECTS())
    found: dict[str, Any] = {}
    message = text.decode(errors="replace").strip()
    if is_page(response):
        title = re.search(r"<title>\s*([^<]{1,200})", message, re.IGNORECASE)
        message = (
            say.REFUSED_BY_TITLED_PAGE(title=title[1].strip()) if title else say.REFUSED_BY_PAGE()
        )
    else:
        with contextlib.suppress(ValueError):
            read = json.loads(text)
            found = read if isinstance(read, dict) else {}
        message = str(found.get("message") or message[:_LONGEST])
    verb, resource = right_for(method, path, watch)
    return ApiError(
        status,
        str(found.get("reason") or ""),
        message or say.NO_REASON(),
        verb,
        resource,
        _seconds(response.headers.get("Retry-After")),
    )


def forward_refusal(words: str) -> Exception:
    """Make the error of a port-forward out of the words of the official client."""
    status = re.search(r"Handshake status (\d{3})", words)
    if status is None:
        return Unreachable(words or say.NO_CONNECTION())
    said = re.search(r"\bcannot (\w+) resource", words)
    # Kubernetes 1.35 and later want the right to create as well as that to get, and don't say so.
    verb = said[1] if said else "create"
    reason = re.search(r"Handshake status \d{3} ([\w ]*)", words)
    why = reason[1].strip() if reason else status[1]
    message = say.FORWARD_REFUSED(reason=why)
    return ApiError(int(status[1]), "", message, verb, "pods/portforward")


def _seconds(text: str | None) -> float:
    return float(text) if text and re.fullmatch(r"\d{1,4}", text) else 0.0


def right_for(method: str, path: str, watch: bool) -> tuple[str, str]:
    """Return the RBAC verb and resource that a request needs."""
    words = path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    if words[:1] == ["namespaces"] and len(words) > 2:
        words = words[2:]
    verb = _VERBS.get(method) or ("watch" if watch else "get" if len(words) > 1 else "list")
    resource = words[0] if words else path
    return verb, f"{resource}/{words[2]}" if len(words) > 2 else resource


def plain_words(error: BaseException) -> str:
    """Say in plain words why there was no answer; `error` is one of urllib3's, or what is below."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    text = str(error) or type(error).__name__
    text = re.sub(
        r"^<[^>]*>: |^\w*Connection(?:Pool)?\([^)]*\): |<[^>]* object at [^>]*>[:,]? ?", "", text
    )
    if "NameResolutionError" in kinds:
        return say.UNKNOWN_HOST()
    if "NewConnectionError" in kinds:
        return re.sub(r"^.*\[Errno -?\d+\] ", "", text).lower() or say.NO_CONNECTION()
    if "ConnectTimeoutError" in kinds:
        return say.CONNECT_TIMEOUT()
    if "TimeoutError" in kinds or "ReadTimeoutError" in kinds:
        return say.ANSWER_TIMEOUT()
    if "SSLError" in kinds:
        return _about_tls(text)
    if "ProxyError" in kinds:
        return say.PROXY_UNREACHABLE(error=text)
    if "ProtocolError" in kinds:
        return say.CUT_OFF()
    return text


def _about_tls(text: str) -> str:
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER" in text:
        return say.NO_TLS()
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = re.sub(r"^.*certificate verify failed: |\s*\(_ssl\.c:\d+\).*$", "", text)
        return say.UNTRUSTED_CERTIFICATE(error=why)
    why = re.sub(r"\s*\(_ssl\.c:\d+\).*$|\[SSL[^\]]*\] ", "", text)
    return say.TLS_FAILED(error=why)
