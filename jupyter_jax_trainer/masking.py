"""Mask what may be secret before it is shown: in options, commands, variables, addresses and text.

Two rules, applied by everything that shows a job:

- A variable of the environment and an annotation may hold anything. Their values are masked unless
  the name is known to be harmless or the value is a number or a switch.
- Arguments, addresses and sentences are shown, without what looks like a credential.

Processes that have only the standard library use this, too. Each pattern is tried at the beginning
of a word alone and never goes back (possessive quantifiers), so that time grows with the length of
a text and not with its square.
"""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.devices import KINDS

HIDDEN = "…"

# Words of a name that say what it holds, as in HF_TOKEN or --api-key.
_STRONG = frozenset(
    (
        "token",
        "secret",
        "secrets",
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "credential",
        "credentials",
        "creds",
        "apikey",
        "accesskey",
        "secretkey",
        "privatekey",
        "authorization",
        "signature",
        "sig",
        "jwt",
        "bearer",
        "cookie",
        "dsn",
    )
)
# Words that say it of a variable, and in a sentence only as a part of a longer name.
_WEAK = frozenset(
    (
        "key",
        "keys",
        "tokens",
        "pass",
        "auth",
        "oauth",
        "cred",
        "private",
        "pw",
        "pat",
    )
)
# Words that say it at the end of a name alone: pin_memory is none.
_LAST = frozenset(("pin", "otp", "passcode"))
_PLURAL = frozenset(("keys", "tokens"))  # of a number they are a count: MAX_TOKENS=2048
_ENDINGS = (
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "authkey",
    "encryptionkey",
    "masterkey",
    "sharedkey",
    "signingkey",
    "storagekey",
    "subscriptionkey",
    "passcode",
)
_OWN = (["from", "secret"], ["show", "secrets"])  # our own options that end so
_HEADERS = frozenset(("authorization", "cookie"))  # their values have blanks
_OF_DEVICES = [prefix for kind in KINDS.values() for prefix in kind.variables]
# These have no use for a secret; unless their names say so: NVIDIA_API_KEY is one.
_HARMLESS_VARIABLE = re.compile(
    f"({'|'.join(('JAX', 'JAXTRAIN', 'XLA', *_OF_DEVICES, 'OMP', 'TF_CPP', 'LC'))})_.*"
    "|PYTHON[A-Z]*|HOME|PATH|LD_LIBRARY_PATH|TMPDIR|LANG|TZ"
)
_HARMLESS_ANNOTATION = re.compile(
    r"(?:[a-z0-9-]+\.)*(?:kubernetes\.io|k8s\.io|x-k8s\.io|kubeflow\.org|istio\.io)/.*"
    r"|jupyter-jax-trainer/.*"
)
# Copies of a whole object, or of a job's options.
_COPIES = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "jupyter-jax-trainer/job",
    )
)
_PLAIN_VALUE = re.compile(
    r"[-+]?[0-9]{1,12}(?:\.[0-9]{0,12})?(?:[eE][-+]?[0-9]{1,3})?|true|false|yes|no|on|off|none",
    re.IGNORECASE,
)
_PARTS = re.compile(r"[^A-Za-z0-9]+")
_ENTROPY, _LONG = 3.5, 24  # bits per character, and characters, from which a value looks random

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_USER_INFO = re.compile(r"(?<=//)(?:[^/\s\"'<>@]*+@)+")
# Without a scheme, as proxies are named: jo:hunter2@proxy:3128, but not image:tag@sha256:….
_LOGIN = re.compile(
    r"(?<![\w/.%+-])[\w.%+-]++:[^\s:@/\"'<>]++@(?!sha\d+:)(?=[\w-]++(?:\.[\w-]++)*:\d)"
)
_USER_OPTION = re.compile(r"(?<!\S)(?P<option>-u|--user|--proxy-user)[ =](?P<user>[^\s:]++):\S++")
_QUERY = re.compile(r"(?P<name>[?&;](?:code|jsessionid|sid)=)(?P<value>[^\s&#\"']++)", re.I)
_WEBHOOK = re.compile(
    r"(?P<place>hooks\.slack\.com/(?:services|workflows)/|discord\.com/api/webhooks/)[^\s\"']++"
)
_JWT = re.compile(r"(?<![\w-])[\w-]{11,}+\.[\w-]++(?:\.[\w-]++)?")
_JWT_START = re.compile(r"(?<![A-Za-z0-9])eyJ")
_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[opsur]_|github_pat_|hf_|sk-|sk_live_|rk_live_|glpat-|gldt-|xox[abeoprs]-"
    r"|AKIA|ASIA|AIza|ya29\.|pypi-|npm_|dop_v1_|SG\.)[\w.-]{8,}+"
)
_RUNS = re.compile(r"[A-Za-z0-9]{10,}")  # the random part of a token has one, a name seldom
_SCHEME = re.compile(r"\b(?P<scheme>bearer|basic)\s++(?P<value>[^\s\"',]++)", re.IGNORECASE)
# A name with what parts it from its value: NAME=, "name": or --name followed by a blank.
_NAMED = re.compile(
    r"(?<![\w.%-])(?P<name>[\w.%-]++)(?:[\"']?[ \t]*+[:=][ \t]*+|(?P<blank>[ \t]++))"
)
_QUOTED = re.compile(r"(?P<quote>[\"'])(?P<value>(?:\\[^\n]|(?!(?P=quote))[^\n\\])*)")
# A comma or semicolon ends a value where a blank or another name follows.
_BARE = re.compile(r"(?:[^\s\"',&;)}\]]|[,;](?=[^\s\"'&)}\]])(?![\w.%-]*+[:=]))*")
_TO_END = re.compile(r"[^\"'\n]*+")


def is_secret_name(name: str, value: str | None = None) -> bool:
    """Return whether a variable, an option or a key of this name holds a secret.

    Parameters
    ----------
    name
        The name: ``HF_TOKEN``, ``--api-key``, ``X-Amz-Signature``.
    value
        Its value, where it is known: ``MAX_TOKENS=2048`` is a count.
    """
    words = _words(name)
    if not words or words[-2:] in _OWN:
        return False
    if value is not None and words[-1] in _PLURAL and _PLAIN_VALUE.fullmatch(value):
        return _is_strong(words[:-1])
    return bool(_WEAK.intersection(words)) or words[-1] in _LAST or _is_strong(words)


def is_secret_value(value: str) -> bool:
    """Return whether a value looks like a secret by itself: a token, a key, random characters."""
    return text(value) != value or looks_random(value)


def looks_random(value: str) -> bool:
    """Return whether a word looks like a row of random characters."""
    if len(value) < _LONG or not re.fullmatch(r"[A-Za-z0-9+/=_-]+", value):
        return False
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    if not mixed or value.count("/") > 3 or value.count("-") > 4:  # a path, a name made of words
        return False
    share = [count / len(value) for count in Counter(value).values()]
    return -sum(part * math.log2(part) for part in share) >= _ENTROPY


def has_token(said: str) -> bool:
    """Return whether there is a token in a text that is known by its prefix: ``hf_…``, ``gho_…``.

    Unlike `text`, which rather masks too much, this takes no name with such a prefix for one.
    """
    return any(
        any(map(str.isdigit, run)) and any(map(str.isalpha, run))
        for found in _PREFIXED.finditer(said)
        for run in _RUNS.findall(found[0])
    )


def variable(name: str, value: str) -> str:
    """Return a variable of the environment as it may be shown."""
    if not value:
        return value
    if is_secret_name(name, value):
        return HIDDEN
    if _PLAIN_VALUE.fullmatch(value):
        return value
    return text(value) if _HARMLESS_VARIABLE.fullmatch(name) else HIDDEN


def annotation(name: str, value: str) -> str:
    """Return an annotation as it may be shown."""
    if name in _COPIES or is_secret_name(name.rpartition("/")[2], value):
        return HIDDEN
    if not value or _PLAIN_VALUE.fullmatch(value):
        return value
    return text(value) if _HARMLESS_ANNOTATION.fullmatch(name) else HIDDEN


def arguments(words: Sequence[str]) -> list[str]:
    """Return the words of a command as they may be shown: ``--token=…``, ``--password …``."""
    shown: list[str] = []
    flag = False
    for word in words:
        hide = flag and not word.startswith("--")
        name, equals, value = word.partition("=")
        flag = word.startswith("-") and not equals and is_secret_name(word)
        if hide:
            shown.append(HIDDEN)
        elif value.strip("=") and re.fullmatch(r"[\w.-]+", name):
            hide = is_secret_name(name, value) or is_secret_value(value)
            shown.append(f"{name}={HIDDEN}" if hide else text(word))
        else:
            shown.append(HIDDEN if looks_random(word) else text(word))
    return shown


def text(said: str) -> str:
    """Return text as it may be shown, with dots for what looks like a token or a password."""
    if len(said) < 4:
        return said
    if "PRIVATE KEY" in said:
        said = _PEM.sub(HIDDEN, said)
    if "@" in said:
        said = _USER_INFO.sub(f"{HIDDEN}@", said)
        said = _LOGIN.sub(f"{HIDDEN}@", said)
    if "://" in said:
        said = _QUERY.sub(_without_query, said)
        said = _WEBHOOK.sub(rf"\g<place>{HIDDEN}", said)
    said = _USER_OPTION.sub(rf"\g<option> \g<user>:{HIDDEN}", said)
    if "eyJ" in said:
        said = _JWT.sub(_without_jwt, said)
    said = _PREFIXED.sub(_without_prefixed, said)
    said = _SCHEME.sub(_without_scheme, said)
    return "".join(_without_named(said))


def environment_notes(given: Sequence[tuple[str, str | None]], *, secrets: bool) -> list[str]:
    """Say which variables look like secrets, and how to give them instead.

    Parameters
    ----------
    given
        The variables of ``--env``.
    secrets
        Whether the job runs where there is ``--env-from-secret``.
    """
    names = [
        name
        for name, value in given
        if value and (is_secret_name(name, value) or is_secret_value(value))
    ]
    if not names:
        return []
    # Here: this module travels with the worker, and the words do not.
    from jupyter_jax_trainer.messages import trust as say

    advice = say.USE_SECRET() if secrets else say.USE_ENVIRONMENT()
    if len(names) == 1:
        return [say.SECRET_IN_ENV(name=names[0], advice=advice)]
    return [say.SECRETS_IN_ENV(names=", ".join(names), advice=advice)]


@dataclass(frozen=True, slots=True)
class Shown:
    """An object of a cluster as it may be shown.

    Attributes
    ----------
    item
        A copy without what may be secret.
    hidden
        Something was left out.
    """

    item: dict[str, JsonValue]
    hidden: bool


def manifest(item: Mapping[str, JsonValue]) -> Shown:
    """Return an object of a cluster as it may be shown."""
    shown: dict[str, Any] = _masked(copy.deepcopy(dict(item)))
    if shown.get("kind") == "Secret":
        for part in ("data", "stringData"):
            if isinstance(shown.get(part), dict):
                shown[part] = dict.fromkeys(shown[part], HIDDEN)
    return Shown(shown, shown != dict(item))


# -- names and values ------------------------------------------------------------------------------


def _words(name: str) -> list[str]:
    return [word for word in _PARTS.split(name.lower()) if word]


def _is_strong(words: Sequence[str]) -> bool:
    return any(word in _STRONG or word.endswith(_ENDINGS) for word in words)


def _is_secret_in_text(name: str, value: str) -> bool:
    """Return whether what follows this name in a sentence is a secret: ``key`` is too common."""
    words = _words(name)
    return is_secret_name(name, value) if len(words) > 1 else _is_strong(words)


# -- text ------------------------------------------------------------------------------------------


def _without_jwt(found: re.Match[str]) -> str:
    start = _JWT_START.search(found[0])
    return found[0] if start is None else found[0][: start.start()] + HIDDEN


def _without_prefixed(found: re.Match[str]) -> str:
    # Words alone are a name: sk-learn-extra, hf_tokenizer.
    return HIDDEN if any(sign.isdigit() or sign.isupper() for sign in found[0]) else found[0]


def _without_query(found: re.Match[str]) -> str:
    number = _PLAIN_VALUE.fullmatch(found["value"])  # the code of an error, say
    return found[0] if number else found["name"] + HIDDEN


def _without_scheme(found: re.Match[str]) -> str:
    scheme, value = found["scheme"], found["value"]
    if scheme.lower() == "basic" and value.islower():  # "basic training"
        return found[0]
    return f"{scheme} {HIDDEN}"


def _without_named(said: str) -> Iterator[str]:
    """Yield the text in pieces, without the values whose names say that they are secret."""
    at = 0
    for found in _NAMED.finditer(said):
        if found.start() < at or not is_secret_name(found["name"]):
            continue
        if found["blank"] and not found["name"].startswith("-"):
            continue
        value, quote = _value(said, found)
        if value.endswith(":") and not quote:
            if "=" not in found[0]:  # a word that says what follows: "no credentials: exec: …"
                continue
            value = value.rstrip(":")
        if not value or (found["blank"] and value.startswith("--")):
            continue
        if _is_secret_in_text(found["name"], value):
            yield said[at : found.end()] + quote + HIDDEN
            at = found.end() + len(quote) + len(value)
    yield said[at:]


def _value(said: str, found: re.Match[str]) -> tuple[str, str]:
    """Return the value that follows a name, and the quote before it."""
    if quoted := _QUOTED.match(said, found.end()):
        return quoted["value"], quoted["quote"]
    header = _HEADERS.intersection(_words(found["name"]))
    value = (_TO_END if header else _BARE).match(said, found.end())
    return (value[0] if value else ""), ""


# -- objects of a cluster --------------------------------------------------------------------------


def _masked(node: Any, key: str = "") -> Any:
    """Mask what is below a key of an object, in place where that can be."""
    if isinstance(node, dict):
        if key == "annotations":
            return {
                name: annotation(name, value) if isinstance(value, str) else value
                for name, value in node.items()
            }
        return {name: _entry(name, value) for name, value in node.items()}
    if isinstance(node, list):
        if key in ("command", "args") and all(isinstance(word, str) for word in node):
            return arguments(node)
        return [_named(_masked(one), variables=key == "env") for one in node]
    return text(node) if isinstance(node, str) else node


def _entry(name: str, value: Any) -> Any:
    if isinstance(value, str) and value and _is_secret_in_text(name, value):
        return HIDDEN
    return _masked(value, name)


def _named(item: Any, *, variables: bool) -> Any:
    """Mask an item of a list that is a name with a value: a variable, a header of a request."""
    if not isinstance(item, dict) or not isinstance(item.get("value"), str):
        return item
    name, value = str(item.get("name")), item["value"]
    if variables:
        return {**item, "value": variable(name, value)}
    return {**item, "value": HIDDEN} if value and is_secret_name(name, value) else item
