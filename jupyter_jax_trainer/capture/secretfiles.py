"""Files that look like secrets: they stay here when the package that they are in is sent."""

from __future__ import annotations

import re
from pathlib import Path

from jupyter_jax_trainer import masking

# Code is never taken for a secret: a module without which its package can't be imported.
_CODE = (".py", ".pyi")
_MOST = 1 << 16  # bytes of a file that are looked at
_FORMATS = "json|ya?ml|toml|ini|cfg|conf|xml|enc"
_BACKUP = re.compile(r"(?:~|[._-](?:bak|backup|old|orig|save|copy|swp))+$", re.IGNORECASE)
_NAMES = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|.*\.(?:p12|pfx|jks|keystore|kdbx|ppk|key|netrc|htpasswd|pypirc|npmrc|pgpass|env|kubeconfig"
    r"|tfstate|tfvars)"
    r"|(?:.*[._-])?kube[._-]?config(?:[._-].*)?|[._]?netrc|\.?htpasswd|\.pypirc|\.npmrc"
    r"|\.env\..*|env\.(?:local|dev|development|staging|prod|production)|[._]?pgpass(?:\.conf)?"
    r"|\.git-credentials|\.dockercfg|\.dockerconfigjson"
    r"|(?:.*[._-])?(?:credentials?|client[._-]secrets?|service[._-]?account)(?:[._-].*)?"
    r"|(?:.*[._-])?(?:secrets?|passwords?|passwd|passphrase|creds?|o?auth|cookies|token"
    r"|(?:api|access|secret|private)[._-]?keys?"
    # Other lists of tokens are vocabularies, or say which tokens of one are special.
    r"|(?:access|api|auth|bearer|refresh|session)[._-]?tokens)"
    rf"(?:\.(?:{_FORMATS}|csv|txt|pickle))?"
    rf"|tokens\.(?:{_FORMATS})",
    re.IGNORECASE,
)
_FOLDERS = re.compile(
    r"secrets?|credentials?|creds|passwords?|ssh|gnupg|(?:api|private)[._-]?keys?", re.IGNORECASE
)
_TOKEN_LISTS = re.compile(r"tokens(?:\.(?:csv|txt))?", re.IGNORECASE)
_CERTIFICATES = re.compile(r".*\.(?:pem|crt|cer)", re.IGNORECASE)
_AWS = "aws_(?:secret_access_key|session_token)"
_INSIDE = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|\"private_key\"[ ]?:[ ]?\"-----BEGIN"
    r"|(?:^|[\s{,\"'-])client-key-data[\"']?[ ]?:[ ]?[\"']?[A-Za-z0-9+/=]"
    rf"|^[ \t]{{0,8}}(?:export[ ])?{_AWS}[ ]?[=:][ ]?[\"']?[A-Za-z0-9+/=]"
    rf"|[\"']{_AWS}[\"']\s?:\s?[\"'][A-Za-z0-9+/=]"
    r"|\"auths\"\s{0,20}:\s{0,20}\{\s{0,200}\"",  # of Docker
    re.MULTILINE | re.IGNORECASE,
)
_KUBECONFIG = re.compile(r"(?:^|[{,\s\"'])kind[\"']?[ ]?:[ ]?[\"']?Config\b", re.MULTILINE)
_SIGNS_IN = re.compile(
    r"(?:^|[{,\s\"'-])(?:(?:id-|access-|refresh-)?token|password)[\"']?[ ]?:[ ]?[\"']?[^\s\"'$<{]",
    re.MULTILINE,
)


def is_named_so(path: Path) -> bool:
    """Tell whether a file has a name that secrets have, or copies of them: ``id_rsa.bak``."""
    name = _BACKUP.sub("", path.name)
    return path.suffix not in _CODE and _NAMES.fullmatch(name) is not None


def looks_secret(path: Path, package: Path) -> bool:
    """Tell whether a file of a package looks like a secret.

    Its name may say so, a folder that it is in, or its first 64 kB. A file of certificates alone
    is none; a ``.pem`` that can't be read as one is.
    """
    if path.suffix in _CODE:
        return False
    if is_named_so(path) or any(map(_FOLDERS.fullmatch, path.relative_to(package).parts[:-1])):
        return True
    try:
        with path.open("rb") as file:
            text = file.read(_MOST).decode("latin-1")  # any bytes are text in it
    except OSError:
        return True
    if _CERTIFICATES.fullmatch(path.name) and "-----BEGIN CERTIFICATE-----" not in text:
        return True
    if _TOKEN_LISTS.fullmatch(path.name) and _has_random_words(text):
        return True
    return _has_secret(text)


def _has_secret(text: str) -> bool:
    if _INSIDE.search(text) or masking.has_token(text):
        return True
    return bool(_KUBECONFIG.search(text) and _SIGNS_IN.search(text))


def _has_random_words(text: str) -> bool:
    """Tell tokens that sign in from the words of a vocabulary, few of which look random."""
    words = text.split()
    return sum(map(masking.looks_random, words)) * 4 >= len(words) > 0


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
