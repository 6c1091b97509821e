"""The user's key: what this user's other machines submitted can be told by its signature.

The key lies in the job store. A signature covers the TrainJob's own uid, so a copied one proves
nothing of another job; and it covers what the TrainJob says of the job, and the key of its
messages, so neither can be exchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.jobdir.store import check, home, owner_name, private_directory
from jupyter_jax_trainer.messages import trust as say

_DOMAIN = b"jupyter-jax-trainer job signature v1\0"
_NAMED = b"jupyter-jax-trainer key id v1\0"
_DERIVED = b"jupyter-jax-trainer derived key v1\0"
_PREFIX = "jaxtrain-key-v1:"
_LINE = re.compile(rf"{_PREFIX}(?P<key>[0-9a-f]{{64}})")
_SIGNATURE = re.compile(r"v1:(?P<id>[0-9a-f]{12}):(?P<mac>[0-9a-f]{64})")
_MOST = 1 << 16  # bytes of a file of keys


@dataclass(frozen=True)
class Statement:
    """What a signature vouches for.

    Attributes
    ----------
    trainjob_uid
        The uid that the cluster gave to the TrainJob.
    uid, namespace, trainjob
        The job's own id, and where its TrainJob is.
    about
        The sha256 of what the TrainJob says of the job, the digest of its bundle among it.
    frame_key
        The sha256 of the key with which its ranks sign what they say.
    """

    trainjob_uid: str
    uid: str
    namespace: str
    trainjob: str
    about: str
    frame_key: str

    @classmethod
    def of(
        cls,
        *,
        trainjob_uid: str,
        uid: str,
        namespace: str,
        trainjob: str,
        about: str,
        frame_key: str,
    ) -> Self:
        """Make the statement from the texts themselves."""
        return cls(trainjob_uid, uid, namespace, trainjob, _sha256(about), _sha256(frame_key))

    @classmethod
    def from_json(cls, value: Any) -> Self | None:
        """Read what `to_json` gave; None for anything else."""
        names = set(cls.__dataclass_fields__)
        if not isinstance(value, dict) or set(value) != names:
            return None
        return cls(**value) if all(isinstance(each, str) for each in value.values()) else None

    def to_json(self) -> dict[str, str]:
        """Return it as a JSON object."""
        return asdict(self)

    def _bytes(self) -> bytes:
        return _DOMAIN + json.dumps(self.to_json(), sort_keys=True).encode()

    def signed_with(self, key: str) -> str:
        """Return the signature that a key makes."""
        mac = hmac.digest(bytes.fromhex(key), self._bytes(), "sha256")
        return f"v1:{key_id(key)}:{mac.hex()}"


def key_id(key: str) -> str:
    """Name a key; the name tells nothing of the key."""
    return hashlib.sha256(_NAMED + bytes.fromhex(key)).hexdigest()[:12]


def signer(signature: str) -> str | None:
    """Return the name of the key with which something claims to be signed."""
    found = _SIGNATURE.fullmatch(signature)
    return found["id"] if found else None


def sign(statement: Statement) -> str:
    """Sign with the key of this store, which is made if there is none.

    Raises
    ------
    UsageError
        The file of the key is damaged or somebody else's, or others can read it.
    BackendError
        The store can't be trusted.
    OSError
        It can't be written.
    """
    return statement.signed_with(ensure_key())


def derive(purpose: str) -> str:
    """Derive a key for another purpose from the signing key, without revealing that.

    Raises
    ------
    UsageError
        The file of the key is damaged or somebody else's, or others can read it.
    BackendError
        The store can't be trusted.
    """
    text = _DERIVED + purpose.encode()
    return hmac.digest(bytes.fromhex(ensure_key()), text, "sha256").hex()


def is_mine(statement: Statement, signature: str) -> bool:
    """Return whether a key of this store has signed a statement; a damaged store has none."""
    with contextlib.suppress(UsageError, BackendError, OSError):
        return any(
            hmac.compare_digest(statement.signed_with(key).encode(), signature.encode())
            for key in _keys()
        )
    return False


def key_file() -> Path:
    """Return the file of the user's keys: the first one signs, all of them are the user's."""
    return home() / "signing-keys"


def ensure_key() -> str:
    """Return the key that signs; of two processes that make one at once both use the same.

    Raises
    ------
    UsageError
        The file is damaged or somebody else's, or others can read it.
    BackendError
        The store can't be trusted.
    """
    if not (found := _keys()):
        _write([secrets.token_hex(32)], replace=False)
        found = _keys()
    return found[0]


def export_keys(path: Path) -> list[str]:
    """Write the keys to a new file that only this user can read; give their names.

    Raises
    ------
    UsageError
        There is such a file, or it can't be written.
    """
    ensure_key()
    keys = _keys()
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(say.KEY_FILE_EXISTS(path=path)) from None
    except OSError as error:
        raise UsageError(say.KEYS_UNWRITABLE(path=path, error=error.strerror)) from None
    with open(file, "w") as stream:
        stream.write(_text(keys))
    return [key_id(key) for key in keys]


def import_keys(path: Path) -> list[str]:
    """Take the keys of another store as one's own; give the names of those that are new.

    A key that is here goes on to sign: with somebody else's, who has it could change what is
    signed, and pass it for this user's.

    Raises
    ------
    UsageError
        The file has no keys, or can't be read.
    """
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(_MOST)
    except OSError as error:
        raise UsageError(say.KEYS_UNREADABLE(path=path, error=error.strerror)) from None
    except ValueError:  # not ASCII
        raise UsageError(say.NO_KEYS(path=path)) from None
    given = _parse(text, path)
    if not given:
        raise UsageError(say.NO_KEYS(path=path))
    known = _keys()
    new = [key for key in given if key not in known]
    _write([*known, *new], replace=True)
    return [key_id(key) for key in new]


def _keys() -> list[str]:
    path = key_file()
    check(path.parent)
    try:
        with path.open(encoding="ascii") as file:
            found = os.fstat(file.fileno())
            if found.st_uid not in (os.geteuid(), 0):
                owner = owner_name(found.st_uid)
                raise UsageError(say.KEYS_BELONG_TO(path=path, owner=owner))
            if found.st_mode & _of_others():
                raise UsageError(say.KEYS_READABLE(path=path))
            return _parse(file.read(_MOST), path)
    except FileNotFoundError:
        return []
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise _damaged(path) from None


def _of_others() -> int:
    """Return the permissions that nobody else may have."""
    # The kubelet opens the volumes of a pod to its fsGroup, at each mount.
    return 0o007 if "KUBERNETES_SERVICE_HOST" in os.environ else 0o077


def _parse(text: str, path: Path) -> list[str]:
    found = [_LINE.fullmatch(line) for line in text.splitlines() if line]
    if not all(found):
        raise _damaged(path)
    return list(dict.fromkeys(match["key"] for match in found if match))


def _damaged(path: Path) -> UsageError:
    return UsageError(say.KEYS_DAMAGED(path=path, keys=key_file()))


def _write(keys: Iterable[str], *, replace: bool) -> None:
    """Write the file of the keys in one step; without `replace` another's stays as it is."""
    path = key_file()
    private_directory(path.parent)
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "w") as stream:
            stream.write(_text(keys))
            stream.flush()
            os.fsync(stream.fileno())
        if replace:
            part.replace(path)
            return
        with contextlib.suppress(FileExistsError):
            try:
                path.hardlink_to(part)
            except PermissionError:  # a file system without hard links
                part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _text(keys: Iterable[str]) -> str:
    return "".join(f"{_PREFIX}{key}\n" for key in keys)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
