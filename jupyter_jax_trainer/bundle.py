"""Pack what a cell needs, and the worker that runs it, into one file."""

from __future__ import annotations

import importlib.util
import json
import marshal
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import jupyter_jax_trainer
from jupyter_jax_trainer.capture import Capture
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.worker.files import PREFIX
from jupyter_jax_trainer.worker.pod.offers import FOLDER
from jupyter_jax_trainer.worker.serialization.archive import BundleManifest, write_archive

CELL_FILE = "<Cell>"
_OF_WORKER = (
    "__init__.py",
    "datatypes.py",
    "devices.py",
    "errors.py",
    "masking.py",
    "messages/__init__.py",
    "messages/worker.py",
    "worker/**/*.py",
)
_FOR_OFFERS = "jupyter_jax_trainer/worker/pod/offers.py"  # others go without: a Secret is small
_MAIN = b"from jupyter_jax_trainer.worker.main import main\n\nmain()\n"


def write_bundle(
    path: Path,
    name: str,
    capture: Capture,
    out: Sequence[str] = (),
    *,
    travels: bool = True,
    argv: Sequence[str] = (),
    wheels: Mapping[str, bytes] | None = None,
) -> str:
    """Write the bundle of a job.

    Parameters
    ----------
    path
        Where to.
    name
        The job's name.
    capture
        What the cell needs.
    out
        Variables to bring back.
    travels
        It leaves this machine, so that its buffers have to be checked where it arrives, and each
        byte counts.
    argv
        What ``sys.argv`` is in the job, for a script.
    wheels
        Packages that travel with it, by their file names.

    Returns
    -------
    str
        The bundle's digest, which the worker checks before it reads anything else.
    """
    members = {
        "__main__.py": _MAIN,
        "cell.py": capture.code.encode(),
        "variables.pkl": capture.stream,
        "sources.json": json.dumps({f: text for f, (_, text) in capture.sources.items()}).encode(),
        **_worker_code(byte_code=not travels),
        **{f"modules/{name}": data for name, data in capture.modules.items()},
        **{f"{PREFIX}{name}": data for name, data in capture.files.read().items()},
        **{f"wheels/{name}": data for name, data in (wheels or {}).items()},
        **(_checks() if capture.offers else {}),
    }
    manifest: BundleManifest = {
        "name": name,
        "python": list(sys.version_info[:2]),
        "python_bound": capture.python_bound,
        "versions": _versions(),
        "jax_config": _jax_config(),
        "names": capture.names,
        "outside": capture.outside,
        "out": list(out),
        "argv": list(argv),
        "executable": capture.files.executable(),
        "cell_file": CELL_FILE,
        "labels": {
            CELL_FILE: capture.label,
            **{file: label for file, (label, _) in capture.sources.items()},
        },
    }
    if capture.offers is None:
        del members[_FOR_OFFERS]
    else:
        manifest["offers"] = capture.offers
    return write_archive(path, members, capture.buffers, manifest, hash_buffers=travels)


def _versions() -> dict[str, str]:
    """Look up versions without importing anything."""
    found = {"jupyter_jax_trainer": jupyter_jax_trainer.__version__}
    for package in ("jax", "jaxlib", "numpy", "cloudpickle"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


# Settings of jax that change what a cell computes; others (platforms, caches) are the job's own.
_JAX_SETTINGS = (
    "jax_enable_x64",
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
    "jax_disable_jit",
)


def _jax_config() -> dict[str, JsonValue]:
    """Read the settings that the notebook gave to jax, if it uses jax at all."""
    jax = sys.modules.get("jax")
    values = getattr(getattr(jax, "config", None), "values", {})
    return {name: values[name] for name in _JAX_SETTINGS if name in values}


@cache
def _worker_code(*, byte_code: bool) -> dict[str, bytes]:
    """Collect the worker's part of this package, and cloudpickle, as source.

    Byte code saves a worker with the same Python the compilation (0.1 s); another Python passes
    over it and takes the source. A bundle that travels goes without: it would be three times as
    large, and a Secret is small.
    """
    import cloudpickle

    members: dict[str, bytes] = {}
    for package, wanted in (
        (jupyter_jax_trainer, _OF_WORKER),
        (cloudpickle, ("*.py",)),
    ):
        root = Path(_file(package)).parent
        for pattern in wanted:
            for file in sorted(root.glob(pattern)):
                arcname = f"{root.name}/{file.relative_to(root).as_posix()}"
                source = file.read_bytes()
                members[arcname] = source
                if byte_code:
                    members[f"{arcname}c"] = _byte_code(source, arcname)
    return members


@cache
def _checks() -> dict[str, bytes]:
    """Collect `packaging`, with which the worker looks at versions and tags as pip does."""
    import packaging

    root = Path(_file(packaging)).parent
    return {
        f"{FOLDER}/{root.name}/{file.name}": file.read_bytes() for file in sorted(root.glob("*.py"))
    }


def _file(package: ModuleType) -> str:
    assert package.__file__ is not None
    return package.__file__


def _byte_code(source: bytes, arcname: str) -> bytes:
    """Compile to the form that is used without a look at the source's date."""
    unchecked = (1).to_bytes(4, "little")
    code = marshal.dumps(compile(source, arcname, "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + code
