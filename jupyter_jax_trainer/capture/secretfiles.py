"""Files that look like secrets: they stay here when the package that they are in is sent."""

from __future__ import annotations

import re
from pathlib import Path

# Code is never taken for a secret: a module without which its package can't be imported.
_CODE = (".py", ".pyi")
_NAMES = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|.*\.(?:p12|pfx|jks|keystore|kdbx|ppk|key|netrc|htpasswd|pypirc|npmrc|pgpass|env|kubeconfig)"
    r"|(?:.*[._-])?kubeconfig(?:[._-].*)?|[._]?netrc|\.?htpasswd|\.env\..*|\.pypirc|\.npmrc|\.pgpass"
    r"|\.git-credentials|\.dockercfg|\.dockerconfigjson"
    r"|(?:.*[._-])?(?:credentials?|client[._-]secrets?|service[._-]?account)(?:[._-].*)?"
    r"|(?:.*[._-])?(?:secrets?|api[._-]?key|access[._-]?token|token)"
    r"(?:\.(?:json|ya?ml|toml|ini|cfg|conf|csv|txt|enc|pickle))?",
    re.IGNORECASE,
)
_CERTIFICATES = re.compile(r".*\.(?:pem|crt|cer)", re.IGNORECASE)
_INSIDE = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    rb"|\"private_key\"[ ]?:[ ]?\"-----BEGIN"
    rb"|^[ ]{0,8}client-key-data:[ ]?[A-Za-z0-9+/=]"
    rb"|^[ ]{0,8}aws_secret_access_key[ ]?=",
    re.MULTILINE,
)


def is_named_so(path: Path) -> bool:
    """Tell whether a file has a name that secrets have."""
    return path.suffix not in _CODE and _NAMES.fullmatch(path.name) is not None


def looks_secret(path: Path) -> bool:
    """Tell whether a file looks like a secret, by its name or by what is in it.

    A file of certificates alone is none; a ``.pem`` that can't be read as one is.
    """
    if path.suffix in _CODE:
        return False
    if is_named_so(path):
        return True
    try:
        data = path.read_bytes()
    except OSError:
        return True
    if _CERTIFICATES.fullmatch(path.name) and b"-----BEGIN CERTIFICATE-----" not in data:
        return True
    return _INSIDE.search(data) is not None


def leads_out(path: Path, package: Path) -> bool:
    """Tell whether a file of a package is a link to something outside of it; code may be."""
    if path.suffix in _CODE:
        return False
    return not path.resolve().is_relative_to(package.resolve())


def note(names: list[str]) -> str | None:
    """Say what was left out; None where nothing was."""
    if not names:
        return None
    return (
        "Left out of your modules, as they look like secrets or lie elsewhere: "
        f"{', '.join(names)}. Give a file another name and place if it is none; a secret is "
        "loaded from a mounted Secret, or set with --env-from-secret"
    )
