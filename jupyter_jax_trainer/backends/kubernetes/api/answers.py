"""What the API answers when it does not give what was asked for, and the words for it."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any
from urllib.parse import urlsplit

A_PAGE = (
    "it answers with a web page instead of the API: the address is wrong, or a login page or a "
    "proxy is in between"
)
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
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


class Unreachable(Exception):  # noqa: N818
    """The API did not answer: no connection, a broken one, silence, or something in between."""


def is_page(response: Any) -> bool:
    """Return whether an answer is a web page: the API has none."""
    return str(response.headers.get("Content-Type", "")).startswith("text/html")


def refusal(response: Any, text: bytes, method: str, path: str, watch: bool) -> Exception:
    """Make the error for an answer other than success."""
    status = int(response.status)
    if status < 400:
        target = urlsplit(str(response.headers.get("Location", ""))).netloc
        there = f" to {target}" if target else ""
        return Unreachable(f"it redirects{there}: a login page or a proxy may be in between")
    found: dict[str, Any] = {}
    message = text.decode(errors="replace").strip()
    if is_page(response):
        title = re.search(r"<title>\s*([^<]{1,200})", message, re.IGNORECASE)
        message = f"a web page{f' ({title[1].strip()})' if title else ''} instead of the API"
    else:
        with contextlib.suppress(ValueError):
            read = json.loads(text)
            found = read if isinstance(read, dict) else {}
        message = str(found.get("message") or message[:_LONGEST])
    verb, resource = right_for(method, path, watch)
    return ApiError(
        status,
        str(found.get("reason") or ""),
        message or "no reason given",
        verb,
        resource,
        _seconds(response.headers.get("Retry-After")),
    )


def forward_refusal(words: str) -> Exception:
    """Make the error of a port-forward out of the words of the official client."""
    status = re.search(r"Handshake status (\d{3})", words)
    if status is None:
        return Unreachable(words or "no connection")
    said = re.search(r"\bcannot (\w+) resource", words)
    # Kubernetes 1.35 and later want the right to create as well as that to get, and don't say so.
    verb = said[1] if said else "create"
    reason = re.search(r"Handshake status \d{3} ([\w ]*)", words)
    why = reason[1].strip() if reason else status[1]
    message = f"the connection to the pod was refused ({why})"
    return ApiError(int(status[1]), "", message, verb, "pods/portforward")


def _seconds(text: str | None) -> float:
    return float(text) if text and re.fullmatch(r"\d{1,4}", text) else 0.0


def right_for(method: str, path: str, watch: bool) -> tuple[str, str]:
    """Say what a request needs in the words of rights: a verb and a resource."""
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
        return "its name is not known here"
    if "NewConnectionError" in kinds:
        return re.sub(r"^.*\[Errno -?\d+\] ", "", text).lower() or "no connection"
    if "ConnectTimeoutError" in kinds:
        return "no connection within the time for it"
    if "TimeoutError" in kinds or "ReadTimeoutError" in kinds:
        return "it took too long to answer"
    if "SSLError" in kinds:
        return _about_tls(text)
    if "ProxyError" in kinds:
        return f"the proxy that is set for it can't be reached: {text}"
    if "ProtocolError" in kinds:
        return "the connection was cut off"
    return text


def _about_tls(text: str) -> str:
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER" in text:
        return "it does not speak TLS (is it http://, not https://?)"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = re.sub(r"^.*certificate verify failed: |\s*\(_ssl\.c:\d+\).*$", "", text)
        return f"its certificate can't be trusted: {why}"
    why = re.sub(r"\s*\(_ssl\.c:\d+\).*$|\[SSL[^\]]*\] ", "", text)
    return f"TLS failed: {why}"
