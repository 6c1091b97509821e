"""The user's own modules: which they are, and their files, so that they can travel with a job."""

from __future__ import annotations

import ast
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType

from jupyter_jax_trainer.capture.secretfiles import is_named_so, leads_out, looks_secret
from jupyter_jax_trainer.errors import CaptureError

MAX_DATA_FILE = 1 << 20
MAX_TOTAL = 64 << 20
_SKIPPED = {"__pycache__", "node_modules", "build", "dist", "venv", "site-packages"}
_THIS_PACKAGE = __name__.partition(".")[0]


def is_own(module: ModuleType) -> bool:
    """Say whether a module is the user's own: one that a worker will not have.

    True for modules in source files, except those of the standard library, of installed
    distributions, of this package, and the notebook's ``__main__``.
    """
    return _own_spec(getattr(module, "__spec__", None)) is not None or (
        getattr(module, "__spec__", None) is None
        and module.__name__ not in ("__main__", "__mp_main__")
        and bool(getattr(module, "__file__", None))
        and _own_file(str(module.__file__))
    )


def collect(
    roots: Iterable[str], tree: ast.Module | None = None, left_out: list[str] | None = None
) -> dict[str, bytes]:
    """Read the files of all own modules that are reachable from some names and from a cell.

    Parameters
    ----------
    roots
        Names of modules, those of other people among them.
    tree
        Code whose import statements count, too.
    left_out
        Gets the paths of files that look like secrets, or are links that lead out of their
        package: these stay here.

    Returns
    -------
    Path in the archive → content. What is sent is what is on disk now. Packages go whole, with
    their small data files.
    """
    queue = [name for name in roots if name]
    if tree is not None:
        queue.extend(_imports(tree))
    seen: set[str] = set()
    files: dict[str, bytes] = {}
    while queue:
        top = queue.pop().partition(".")[0]
        if top in seen or top in sys.stdlib_module_names or top == _THIS_PACKAGE:
            continue
        seen.add(top)
        spec = _own_spec(_find_spec(top))
        if spec is None:
            continue
        for arcname, path, stays in _files(spec):
            if stays:
                if left_out is not None:
                    left_out.append(arcname)
                continue
            files[arcname] = path.read_bytes()
            if path.suffix == ".py":
                queue.extend(_imports_of(files[arcname]))
        total = sum(map(len, files.values()))
        if total > MAX_TOTAL:
            raise CaptureError(
                f"your own modules are {total >> 20} MB, more than the {MAX_TOTAL >> 20} MB that "
                f"can be sent (the last one: {top}).",
                "Install them in the image, or keep data out of the package.",
            )
    return files


def _find_spec(name: str) -> ModuleSpec | None:
    loaded = sys.modules.get(name)
    try:
        spec = getattr(loaded, "__spec__", None) or importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None and loaded is not None and getattr(loaded, "__file__", None):
        return importlib.util.spec_from_file_location(name, str(loaded.__file__))
    return spec


def _own_spec(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Give the spec back if it is that of an own module."""
    if spec is None or spec.name in ("__main__", "__mp_main__"):
        return None
    top = spec.name.partition(".")[0]
    if top == _THIS_PACKAGE or top in sys.stdlib_module_names:
        return None
    if spec.submodule_search_locations is not None and not spec.has_location:
        places = list(spec.submodule_search_locations)  # a namespace package
        return spec if places and all(_own_file(place) for place in places) else None
    if not spec.has_location or spec.origin is None:
        return None
    return spec if _own_file(spec.origin) else None


def _own_file(name: str) -> bool:
    path = Path(name)
    if not path.exists() or any(part in ("site-packages", "dist-packages") for part in path.parts):
        return False
    resolved = path.resolve()
    if any(resolved.is_relative_to(place) for place in _library_places()):
        return False
    # ipykernel names the files of cells like this; a module of that place is no one's.
    return not any(part.startswith("ipykernel_") for part in path.parts)


@cache
def _library_places() -> tuple[Path, ...]:
    keys = ("stdlib", "platstdlib", "purelib", "platlib")
    names = {sysconfig.get_path(key) for key in keys}
    names.update(site.getsitepackages() if hasattr(site, "getsitepackages") else [])
    names.add(site.getusersitepackages())
    return tuple(Path(name).resolve() for name in names if name)


def _files(spec: ModuleSpec) -> Iterator[tuple[str, Path, bool]]:
    """Give the files of a top-level module or package: path in the archive, file, if it stays."""
    if spec.submodule_search_locations is None:
        path = Path(str(spec.origin))
        _refuse_compiled(path, spec.name)
        yield spec.name + path.suffix, path, False
        return
    for place in map(Path, spec.submodule_search_locations):
        for path in sorted(place.rglob("*")):
            inner = path.relative_to(place)
            if not path.is_file() or any(map(_is_skipped, inner.parts[:-1])):
                continue
            if _is_skipped(path.name):
                if is_named_so(path):
                    yield f"{spec.name}/{inner.as_posix()}", path, True
                continue
            _refuse_compiled(path, spec.name)
            if path.suffix == ".py" or path.stat().st_size < MAX_DATA_FILE:
                stays = leads_out(path, place) or looks_secret(path, place)
                yield f"{spec.name}/{inner.as_posix()}", path, stays


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED or name.endswith((".dist-info", ".egg-info"))


def _refuse_compiled(path: Path, module: str) -> None:
    if path.name.endswith((*EXTENSION_SUFFIXES, ".pyd", ".dylib")) or ".so." in path.name:
        raise CaptureError(
            f"your module {module!r} can't be sent: {path} is compiled, and may not run on the "
            "workers.",
            "Install it there: as a package (--package) or in the image.",
        )


def _imports_of(source: bytes) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # a template or code for another Python: it can't be imported here either
    yield from _imports(tree)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Give the modules that code imports; the package of a relative import is there anyway."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
