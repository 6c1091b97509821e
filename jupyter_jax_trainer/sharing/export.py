"""A folder that runs a job again without this package: script, YAML, requirements, hashes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.files import is_regular
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import SentRecord
from jupyter_jax_trainer.messages import sharing as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.sharing import environment, manifests
from jupyter_jax_trainer.worker.serialization.archive import Archive, Bundle, file_pieces

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_LAUNCHER = Path(__file__).with_name("launcher.py")
_README = """\
# {name}

This was a job of jupyter-jax-trainer; here it runs again without it, on Python {python} with JAX.

| File | |
|---|---|
| `cell.py` | the code, to read |
| `job.pyz` | a program: the code and all that was sent with it, **values of variables, too** |
| `run.py`, `job.json` | starts {nodes} of these processes on this machine |
| `kubernetes.yaml` | the same as an indexed Job; it needs Kubernetes alone |
| `requirements.txt` | what the code imports, in the versions of then |
| `constraints.txt` | all that was installed |
| `data.json` | what was sent, with its sha256, and data sets that were named |
| `SHA256SUMS` | of these files: `sha256sum -c SHA256SUMS` |

On this machine:

```sh
python3 -m venv venv
venv/bin/pip install -r requirements.txt -c constraints.txt
venv/bin/python run.py
```

On a cluster, {cluster}:

```sh
kubectl apply --server-side -f kubernetes.yaml
kubectl logs -f -l job-name={again} --prefix
```

What `report()` and `display()` get is printed; variables of `--out` are not written.
{needed}"""


class _Launch(TypedDict):
    """What ``job.json`` says: all that the launcher has to know."""

    nodes: int
    device: str
    devices_per_node: int
    environment: dict[str, str]
    needed: list[str]


def export_job(job: Job | str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Write a folder with what anyone needs to run a job again without this package.

    Variables that look like secrets are named and left out; the values that the code reads from
    the notebook are in it.

    Parameters
    ----------
    job
        The job, or its name.
    folder
        A new or empty folder; default: ``NAME`` in the working directory.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    UsageError
        It can't be written, or the job can't run by itself.
    """
    from jupyter_jax_trainer import api

    found = api.job(job) if isinstance(job, str) else job
    place = Path(folder).expanduser() if folder is not None else Path(found.name)
    if found.spec.session is not None:
        raise UsageError(say.IS_SESSION(job=found.name))
    bundle = JobDir(found.directory).bundle
    if not is_regular(bundle):
        raise UsageError(say.NO_BUNDLE(job=found.name))
    try:
        place.mkdir(parents=True, exist_ok=True)
        if any(place.iterdir()):
            raise UsageError(say.NOT_EMPTY(path=place))
        _write(found, Archive(bundle), place)
    except OSError as error:
        raise UsageError(say.CANNOT_WRITE(path=place, error=error.strerror or error)) from None
    return place


def _write(job: Job, archive: Archive, place: Path) -> None:
    launch = _launch(job)
    known = environment.known(job)
    everything = known.packages or {
        name.replace("_", "-"): version for name, version in archive.manifest["versions"].items()
    }
    wanted = known.requirements or {
        name: everything[name] for name in ("jax", "jaxlib", "numpy") if name in everything
    }
    packed = _packed(archive.path)
    yaml, cluster = manifests.write(job, launch["environment"], launch["needed"], packed)
    python = ".".join(map(str, archive.manifest["python"]))
    files = {
        "cell.py": job.code.encode(),
        "job.pyz": packed,
        "run.py": _LAUNCHER.read_bytes(),
        "job.json": _json(launch),
        "kubernetes.yaml": yaml.encode(),
        "requirements.txt": _pins(wanted),
        "constraints.txt": _pins(everything),
        "data.json": _json(_data(job.sent, job.spec, archive)),
        "README.md": _README.format(
            name=job.name,
            again=manifests.name_of(job),
            python=python,
            nodes=launch["nodes"],
            cluster=cluster,
            needed=_needed(launch["needed"]),
        ).encode(),
    }
    for name, data in files.items():
        (place / name).write_bytes(data)
    sums = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    (place / "SHA256SUMS").write_text("".join(sums))


def _launch(job: Job) -> _Launch:
    spec, plan = job.spec, job.manifest["plan"]
    given = dict(spec.env)
    secret = [
        name
        for name, value in given.items()
        if masking.is_secret_name(name, value) or masking.is_secret_value(value)
    ]
    return {
        "nodes": spec.nodes,
        "device": plan["device"],
        "devices_per_node": plan["devices_per_node"],
        "environment": {name: value for name, value in given.items() if name not in secret},
        "needed": secret,
    }


def _packed(path: Path) -> bytes:
    """Return a bundle with its members compressed, and without byte code: any Python reads it.

    What stands before the members stays where it is, as the manifest says where that is.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(packed, "w") as target:
        start = min(member.header_offset for member in source.infolist())
        for member in source.infolist():
            if not member.filename.endswith(".pyc"):
                info = zipfile.ZipInfo(member.filename, member.date_time)
                target.writestr(info, source.read(member), zipfile.ZIP_DEFLATED)
    return b"".join([*file_pieces(path, 0, start), packed.getvalue()])


def _data(sent: list[SentRecord], spec: JobSpec, archive: Archive) -> Mapping[str, object]:
    """Return what the job got, with hashes: the variables together, and each large array."""
    manifest: Bundle = archive.manifest
    arrays = [
        {"bytes": len(one), "sha256": hashlib.sha256(one).hexdigest()} for one in archive.buffers()
    ]
    own = ("modules/", "files/", "cell.py", "variables.pkl")
    return {
        "sent": sent,
        "sha256": {n: d for n, d in sorted(manifest["members"].items()) if n.startswith(own)},
        "arrays": arrays,
        "dataset": spec.dataset,
        "model": spec.model,
        "volumes": list(spec.volume),
    }


def _pins(packages: Mapping[str, str]) -> bytes:
    return "".join(f"{name}=={version}\n" for name, version in packages.items()).encode()


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode() + b"\n"


def _needed(names: list[str]) -> str:
    if not names:
        return ""
    return f"\nSet these variables first, which look like secrets: `{'`, `'.join(names)}`.\n"
