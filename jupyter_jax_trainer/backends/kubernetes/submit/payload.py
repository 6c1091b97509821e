"""How the bundle gets into the pods.

In Secrets, or by way of a store that both sides see, or through the channel: then the pods start
with the worker alone, which takes the bundle.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import secrets
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.api.objects import EnvVar, Mount, Secret, Volume
from jupyter_jax_trainer.capture.room import Room
from jupyter_jax_trainer.errors import BackendError, CaptureError
from jupyter_jax_trainer.jobdir import pieces
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.text import size
from jupyter_jax_trainer.worker.pod.parcel import AWAITED_VARIABLE, WITHOUT_PACKAGES
from jupyter_jax_trainer.worker.serialization.archive import DIGEST_VARIABLE, SHEBANG

KEY = "frame-key"
MARKER = "jaxtrain-job"  # in a job's folder of a store; holds our own id of the job
SIGNATURE = "signature"  # of the submitter's own key; no pod gets it

VOLUME, FOLDER = "jaxtrain-bundle", "/jaxtrain-bundle"  # with the parts, and where it is mounted
_CHUNK = 120_000  # characters of one environment variable; Linux allows 131,071
_IN_ENVIRONMENT = 1_040_000 * 3 // 4  # bytes, four characters for three: a Secret holds 1 MiB
_PART = 1_000_000  # bytes of one Secret in the volume
_IN_VOLUME = 8 << 20
MOST_SECRETS = 1 + -(-_IN_VOLUME // _PART)
_WORKER = 204 << 10  # bytes of a bundle with nothing captured and without byte code, at most
_BYTE_CODE = 344 << 10  # bytes of that, at most
# Members of a bundle: the worker, and what another machine that attaches the job shows of it.
_OF_WORKER = ("__main__.py", "jupyter_jax_trainer/", "cloudpickle/", "manifest.json", "cell.py")

# What the command of a pod says for itself, before there is a worker, and its exit code then.
SAID = "jaxtrain: "
NOT_STARTED = 69  # EX_UNAVAILABLE of sysexits.h

# Run by whatever Python the image has. It checks what it was sent before it runs it. A read-only
# root without any scratch space leaves memory as the place for the file.
BOOTSTRAP = f"""
import base64, glob, hashlib, os, sys, tempfile
def stop(words):
    print({SAID!r} + words, file=sys.stderr)
    sys.exit({NOT_STARTED})
e = os.environ
if "JAXTRAIN_BUNDLE_URL" in e:
    url = e["JAXTRAIN_BUNDLE_URL"]
    if "://" in url:
        try:
            import fsspec
        except ImportError:
            stop("the image lacks fsspec, which reads the bundle from its store")
        with fsspec.open(url, "rb") as f:
            data = f.read()
    else:
        with open(url, "rb") as f:
            data = f.read()
elif "JAXTRAIN_BUNDLE_FILES" in e:
    data = b""
    for name in sorted(glob.glob(e["JAXTRAIN_BUNDLE_FILES"] + "/part-*")):
        with open(name, "rb") as f:
            data += f.read()
else:
    names = sorted(n for n in e if n.startswith("JAXTRAIN_BUNDLE_") and n[16:].isdigit())
    data = base64.b64decode("".join(e[n] for n in names))
if hashlib.sha256(data).hexdigest() != e["JAXTRAIN_FILE_SHA256"]:
    stop("the bundle that arrived is not the one that was sent")
try:
    fd, path = tempfile.mkstemp(suffix=".pyz", prefix="jaxtrain-")
except OSError:
    fd = os.memfd_create("jaxtrain.pyz")
    path = "/proc/self/fd/%d" % fd
with os.fdopen(fd, "wb", closefd=not path.startswith("/proc")) as f:
    f.write(data)
del data
sys.argv = [path]
sys.path[0] = path
import runpy
runpy.run_path(path, run_name="__main__")
""".strip()

# A constant: nothing of the user's is ever put into a shell's text.
COMMAND = [
    "sh",
    "-c",
    "for p in python3 python python3.14 python3.13 python3.12 python3.11; do "
    'command -v "$p" >/dev/null 2>&1 && exec "$p" -u -c "$JAXTRAIN_BOOT"; done; '
    "for p in /opt/*/bin/python3 /usr/local/bin/python3* /usr/bin/python3*; do "
    '[ -x "$p" ] && exec "$p" -u -c "$JAXTRAIN_BOOT"; done; '
    f'echo "{SAID}this image has no Python (no python3 or python was found)"; exit {NOT_STARTED}',
]


@dataclass
class Payload:
    """A bundle on its way.

    Attributes
    ----------
    key
        With this the worker signs what it says to us.
    env
        Environment variables of the pods.
    data
        The contents of the Secrets, each a mapping of keys to text in base64.
    mounted
        The Secrets are mounted, so that their volume has to be patched into the runtime.
    upload
        Where the bundle has to be copied to, if anywhere.
    later
        Bytes that the pods wait for, and get through the channel.
    """

    key: str
    env: list[EnvVar]
    data: list[dict[str, str]] = field(default_factory=list)
    mounted: bool = False
    upload: str | None = None
    later: int = 0

    def secrets(self, name: str, labels: dict[str, str], namespace: str) -> list[Secret]:
        """Return the Secrets, without an owner."""
        return [
            _secret(secret_name(name, number), labels, namespace, data)
            for number, data in enumerate(self.data)
        ]


def _secret(name: str, labels: dict[str, str], namespace: str, data: dict[str, str]) -> Secret:
    return Secret(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": labels, "namespace": namespace},
            "type": "Opaque",
            "immutable": True,
            "data": data,
        }
    )


def secret_name(name: str, number: int) -> str:
    """Name one of a job's Secrets."""
    return name if number == 0 else f"{name}-{number}"


def room(spec: JobSpec, mounts: bool, has_channel: Callable[[], bool]) -> Room:
    """Return how much may travel besides the worker.

    Parameters
    ----------
    spec
        What was asked for: a store takes any amount.
    mounts
        A volume can be patched into the runtime: no queue of an old Kueue drops it.
    has_channel
        Asks whether the channel can take what Secrets can't.
    """
    return Room(None if spec.store is not None else _bound(mounts) - _worker(mounts), has_channel)


def _worker(mounts: bool) -> int:
    """Return how many bytes the worker has, at most; its byte code goes where there is room."""
    return _WORKER + (_BYTE_CODE if mounts else 0)


def _bound(mounts: bool) -> int:
    return _IN_VOLUME if mounts else _IN_ENVIRONMENT


def check_size(total: int, spec: JobSpec, mounts: bool, has_channel: Callable[[], bool]) -> None:
    """Refuse what will not fit through.

    Parameters
    ----------
    total
        The size of the cell's variables in bytes.
    spec, mounts, has_channel
        As of `room`.

    Raises
    ------
    CaptureError
        With the sizes and the way out.
    """
    if not room(spec, mounts, has_channel).fits(total - _worker(mounts)):
        what = say.TOO_LARGE if mounts else say.TOO_LARGE_IN_QUEUE
        raise CaptureError(what(size=size(total), most=size(_bound(mounts))))


def pack(
    bundle: Path,
    secret: str,
    uid: str,
    digest: str,
    spec: JobSpec,
    key: str | None = None,
    *,
    mounts: bool = True,
    omitted: int = 0,
    more: Mapping[str, str] | None = None,
) -> Payload:
    """Decide how a bundle travels, and pack it.

    Parameters
    ----------
    bundle
        The file.
    secret
        The name of the (first) Secret.
    uid
        The job's id, its folder in a store.
    digest
        The sha256 of the bundle's manifest.
    spec
        What was asked for.
    key
        The job's key, if it has one already.
    mounts
        As of `room`.
    omitted
        Bytes of the bundle's packages, where the pods most likely have all of them in a cache; what
        is not there they get through the channel.
    more
        Variables of the pods that only a Secret may have.
    """
    length = bundle.stat().st_size
    in_secrets = length - omitted <= _bound(mounts)
    later = not (in_secrets or spec.store is not None)
    made = _worker_of(bundle) if later else _without(omitted, bundle) if in_secrets else b""
    started = hashlib.sha256(made).hexdigest() if made else _sha256(bundle)
    key = key or secrets.token_hex(32)
    data = {KEY: as_data(key)} | {name: as_data(value) for name, value in (more or {}).items()}
    env = [
        variable("JAXTRAIN_BOOT", BOOTSTRAP),
        variable(DIGEST_VARIABLE, digest),
        variable("JAXTRAIN_FILE_SHA256", started),
        from_secret("JAXTRAIN_FRAME_KEY", secret, KEY),
        *(from_secret(name, secret, name) for name in more or ()),
    ]
    packed = Payload(key, env, [data], later=length if later else 0)
    if later or (omitted and in_secrets):
        awaited = f"{pieces.note(bundle)}:{length}"
        env.append(variable(AWAITED_VARIABLE, awaited + ("" if later else WITHOUT_PACKAGES)))
    if not made:
        assert spec.store is not None
        packed.upload = url_of(spec.store, uid)
        env.append(variable("JAXTRAIN_BUNDLE_URL", packed.upload))
    elif not mounts:
        env += _chunks(made, secret, data)
    else:  # also what variables would hold: they go through all that starts a container
        packed.mounted = True
        env.append(variable("JAXTRAIN_BUNDLE_FILES", FOLDER))
        parts = [made[start : start + _PART] for start in range(0, len(made), _PART)]
        packed.data += [{f"part-{n:03}": _base64(part)} for n, part in enumerate(parts)]
    return packed


def _chunks(bundle: bytes, secret: str, data: dict[str, str]) -> list[EnvVar]:
    """Put a bundle into the data of a Secret, and return the variables that have it from there."""
    text, env = _base64(bundle), []
    for number, start in enumerate(range(0, len(text), _CHUNK)):
        chunk = f"bundle-{number:03}"
        data[chunk] = _base64(text[start : start + _CHUNK].encode())
        env.append(from_secret(f"JAXTRAIN_BUNDLE_{number:03}", secret, chunk))
    return env


def _without(packages: int, bundle: Path) -> bytes:
    """Return a bundle without so many bytes of packages, which come first."""
    with bundle.open("rb") as file:
        begin = file.read(len(SHEBANG))
        file.seek(packages, os.SEEK_CUR)
        return begin + file.read()


def _worker_of(bundle: Path) -> bytes:
    """Return a bundle without what is large: the worker, and the code of the cell."""
    made = io.BytesIO()
    with (
        zipfile.ZipFile(bundle) as whole,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as worker,
    ):
        for member in whole.infolist():
            if member.filename.startswith(_OF_WORKER):
                worker.writestr(member, whole.read(member))
    return made.getvalue()


def volume(secret: str, count: int) -> tuple[Volume, Mount]:
    """Return the volume that holds the parts of a bundle, and its mount."""
    sources = [{"secret": {"name": secret_name(secret, n)}} for n in range(1, count)]
    projected = {"name": VOLUME, "projected": {"sources": sources, "defaultMode": 0o444}}
    mount = {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
    return Volume(projected), Mount(mount)


def variable(name: str, value: str) -> EnvVar:
    """Return a variable with a value.

    An empty one is left out, as Go does it: Kueue writes a TrainJob back, and what then differs
    from what it was is refused.
    """
    return EnvVar({"name": name, "value": value} if value else {"name": name})


def from_secret(name: str, secret: str, key: str) -> EnvVar:
    """Return a variable whose value a Secret has."""
    return EnvVar({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})


def upload(bundle: Path, url: str, uid: str) -> None:
    """Copy a bundle into the store; it appears under its name when it is whole.

    A file beside it says first whose folder it is: `remove` demands that.

    Raises
    ------
    BackendError
        The store can't be written from here.
    """
    try:
        if "://" in url:
            system = _file_system(url)
            system.pipe_file(_marker(url), uid.encode())
            system.put_file(str(bundle), url)
            return
        target = Path(url)
        store = target.parent.parent
        store.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(exist_ok=True)
        # As open as the store itself: the pods run as another user, and write their results here.
        target.parent.chmod(store.stat().st_mode & 0o7777)
        Path(_marker(url)).write_text(uid)
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            part.write_bytes(bundle.read_bytes())
            part.chmod(store.stat().st_mode & 0o666)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise BackendError(say.STORE_NOT_WRITABLE(url=url, error=error.strerror or error)) from None


def remove(url: str, uid: str) -> str | None:
    """Remove a job's folder from the store, if the file in it says that it is the job's.

    Returns
    -------
    str or None
        Why it was left; None where nothing is left.
    """
    import shutil

    folder = url.rsplit("/", 1)[0]
    try:
        if "://" in folder:
            system = _file_system(folder)
            if not system.exists(folder):
                return None
            if system.cat_file(_marker(url)).decode(errors="replace") != uid:
                return say.FOLDER_NOT_DELETED(folder=folder, reason=say.ANOTHER_JOBS_FOLDER())
            system.rm(folder, recursive=True)
        else:
            if not os.path.lexists(folder):
                return None
            if Path(_marker(url)).read_text(errors="replace") != uid:
                return say.FOLDER_NOT_DELETED(folder=folder, reason=say.ANOTHER_JOBS_FOLDER())
            shutil.rmtree(folder)
    except FileNotFoundError:
        return say.FOLDER_NOT_DELETED(folder=folder, reason=say.UNMARKED_FOLDER(name=MARKER))
    except Exception as error:  # of whatever library talks to the store
        return say.FOLDER_NOT_DELETED(folder=folder, reason=str(error) or type(error).__name__)
    return None


def _marker(url: str) -> str:
    """Return the file that says whose folder in the store it is."""
    return f"{url.rsplit('/', 1)[0]}/{MARKER}"


def read(url: str) -> bytes:
    """Read a file of a store.

    Raises
    ------
    BackendError
        What is needed for this kind of store is not installed.
    OSError
        It can't be read from here.
    """
    if "://" not in url:
        return Path(url).read_bytes()
    with _file_system(url).open(url, "rb") as file:
        return bytes(file.read())


def url_of(store: str, uid: str, name: str = "bundle.pyz") -> str:
    """Return where in a store a file of a job is, its bundle for one."""
    return f"{store.rstrip('/')}/{uid}/{name}"


def _file_system(url: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise BackendError(say.NO_FSSPEC(url=url)) from None
    return fsspec.core.url_to_fs(url)[0]


def as_data(text: str) -> str:
    """Return a text as the data of a Secret holds it."""
    return _base64(text.encode())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
