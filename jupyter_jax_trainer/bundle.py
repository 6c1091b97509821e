"""Pack what a cell needs, and the worker that runs it, into one file."""

from __future__ import annotations

import importlib.util
import json
import marshal
import sys
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import cache, partial
from pathlib import Path
from types import ModuleType

import jupyter_jax_trainer
from jupyter_jax_trainer.capture import Capture
from jupyter_jax_trainer.capture.distributions import by_name
from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.jobdir.pieces import Hashing
from jupyter_jax_trainer.worker.files import PREFIX
from jupyter_jax_trainer.worker.pod.offers import FOLDER
from jupyter_jax_trainer.worker.serialization.archive import BundleManifest, write_archive

CELL_FILE = "<Cell>"


class Part(Enum):
    """The kind of a bundle: a session's has the worker but no cell, its cells' have no worker."""

    JOB = auto()
    SESSION = auto()
    CELL = auto()


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
# Other jobs go without: a Secret is small.
_FOR_OFFERS = "jupyter_jax_trainer/worker/pod/offers.py"
_FOR_SESSIONS = (
    "jupyter_jax_trainer/worker/saving.py",
    "jupyter_jax_trainer/worker/session.py",
    "jupyter_jax_trainer/worker/shared.py",
    "jupyter_jax_trainer/worker/pod/cells.py",
    "jupyter_jax_trainer/worker/pod/notice.py",
)
# What no job needs before its cell's first line: its byte code stays here when a bundle travels.
_OF_LATER = (
    "worker/figures.py",
    "worker/livearrays.py",
    "worker/nvml.py",
    "worker/pod/delivery.py",
    "worker/results.py",
    "worker/serialization/[b-z]*.py",  # all but the archive
    "worker/session.py",
    "worker/shared.py",
)
# Captured bytes: up to _FEW a Secret has room for the byte code, too; from _MANY on
# the bundle never goes as variables of a pod anyway.
_FEW, _MANY = 200 << 10, 1 << 20
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
    part: Part = Part.JOB,
    ranks: Sequence[int] | None = None,
    nodes: int = 1,
    stop_on_nan: bool = False,
    profile: str | None = None,
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
        It leaves this machine, so that each byte counts, and all of them are checked where it
        arrives: the hashes of its large buffers are noted.
    argv
        What ``sys.argv`` is in the job, for a script.
    wheels
        Packages that travel with it, by their file names.
    part
        What of a job it is.
    ranks
        The ranks that run the cell; None for all.
    nodes
        How many processes run it.
    stop_on_nan
        A metric that is not finite ends it.
    profile
        What of it is profiled: ``cell``, or ``steps=10:15``.

    Returns
    -------
    str
        The bundle's digest, which the worker checks before it reads anything else.
    """
    cell_file = f"<Cell {name}>" if part == Part.CELL else CELL_FILE
    captured = capture.total + sum(map(len, (wheels or {}).values()))
    byte_code = not _FEW < captured < _MANY if travels else True
    fixed: dict[str, bytes] = {}
    if part != Part.CELL:
        fixed |= _worker_code(byte_code=byte_code, travels=travels)
    if capture.offers:
        fixed |= _checks()
    members = {
        "__main__.py": _MAIN,
        "cell.py": capture.code.encode(),
        "variables.pkl": capture.stream,
        "sources.json": json.dumps({f: text for f, (_, text) in capture.sources.items()}).encode(),
        **{f"modules/{name}": data for name, data in capture.modules.items()},
        **{f"{PREFIX}{name}": data for name, data in capture.files.read().items()},
    }
    manifest: BundleManifest = {
        "name": name,
        "python": list(sys.version_info[:2]),
        "python_bound": capture.python_bound,
        "versions": _versions(),
        "jax_config": _jax_config(nodes, travels=travels),
        "names": capture.names,
        "outside": capture.outside,
        "out": list(out),
        "argv": list(argv),
        "executable": capture.files.executable(),
        "cell_file": cell_file,
        "labels": {
            cell_file: capture.label,
            **{file: label for file, (label, _) in capture.sources.items()},
        },
    }
    if stop_on_nan:
        manifest["stop_on_nan"] = True
    if profile is not None:
        manifest["profile"] = profile
    if part == Part.JOB:
        for name in _FOR_SESSIONS:
            fixed.pop(name)
            fixed.pop(f"{name}c", None)
    elif part == Part.SESSION:
        manifest["stays"] = True
    elif part == Part.CELL:
        manifest["tokens"] = capture.tokens()
    if ranks is not None:
        manifest["ranks"] = list(ranks)
    if capture.offers is None:
        fixed.pop(_FOR_OFFERS, None)  # a cell has nothing of the worker
        fixed.pop(f"{_FOR_OFFERS}c", None)
    else:
        manifest["offers"] = capture.offers
    write = partial(
        write_archive,
        path,
        members,
        capture.buffers,
        manifest,
        packages=wheels,
        fixed=fixed,
        travels=travels,
    )
    if not travels:
        return write()
    with Hashing() as hashing:
        digest = write(on_buffer=hashing.take)
        hashing.note(path)
    return digest


def _versions() -> dict[str, str]:
    """Look up versions without importing anything."""
    found = {"jupyter_jax_trainer": jupyter_jax_trainer.__version__}
    for package in ("jax", "jaxlib", "numpy", "cloudpickle"):
        if (installed := by_name(package)) is not None:
            found[package] = installed.version
    return found


# Settings of jax that change what a cell computes; others (platforms) are the job's own.
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


# On this machine, the notebook's own compile cache is the job's, too.
_OF_THIS_MACHINE = ("jax_enable_compilation_cache", "jax_compilation_cache_dir")


# When one process finds a NaN or inf, jax reruns the program in that process alone: if it has
# collectives, all ranks hang.
_ALONE = ("jax_debug_nans", "jax_debug_infs")


def held_back(nodes: int) -> list[str]:
    """Return the notebook's jax settings that a multi-process job does not get."""
    return [] if nodes == 1 else [name for name in _ALONE if _settings().get(name)]


def _jax_config(nodes: int, *, travels: bool) -> dict[str, JsonValue]:
    """Read the settings that the notebook gave to jax, if it uses jax at all."""
    wanted = _JAX_SETTINGS if travels else (*_JAX_SETTINGS, *_OF_THIS_MACHINE)
    values, kept = _settings(), held_back(nodes)
    return {name: values[name] for name in wanted if name in values and name not in kept}


def _settings() -> Mapping[str, JsonValue]:
    jax = sys.modules.get("jax")
    found: Mapping[str, JsonValue] = getattr(getattr(jax, "config", None), "values", {})
    return found


@cache
def _worker_code(*, byte_code: bool, travels: bool) -> dict[str, bytes]:
    """Collect the worker's part of this package, and cloudpickle, as source.

    Byte code saves a worker with the same Python the compilation (0.1 s); another Python passes
    over it and takes the source. Of a bundle that travels each byte counts: it has that of a job's
    start alone, without docstrings and assertions, or none.
    """
    import cloudpickle

    members: dict[str, bytes] = {}
    for package, wanted in (
        (jupyter_jax_trainer, _OF_WORKER),
        (cloudpickle, ("*.py",)),
    ):
        root = Path(_file(package)).parent
        later = {file for one in _OF_LATER for file in root.glob(one)} if travels else set()
        for pattern in wanted:
            for file in sorted(root.glob(pattern)):
                arcname = f"{root.name}/{file.relative_to(root).as_posix()}"
                source = file.read_bytes()
                members[arcname] = source
                if byte_code and file not in later:
                    members[f"{arcname}c"] = _byte_code(
                        source, arcname, optimize=2 if travels else 0
                    )
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


def _byte_code(source: bytes, arcname: str, *, optimize: int) -> bytes:
    """Compile to an unchecked hash-based ``.pyc``, used whatever the source's date."""
    unchecked = (1).to_bytes(4, "little")
    made = compile(source, arcname, "exec", dont_inherit=True, optimize=optimize)
    code = marshal.dumps(made)
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + code
