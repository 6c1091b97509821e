"""The user's own modules: which they are, and their files, so that they can travel with a job.

Files that look like secrets stay here. Where a module in memory is not what its file says, the
file is what is sent, and the user is told.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import site
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from jupyter_jax_trainer import masking, text
from jupyter_jax_trainer.capture.names import bound_by, global_bindings, scope_nodes
from jupyter_jax_trainer.errors import CaptureError
from jupyter_jax_trainer.messages import cell as say

MAX_DATA_FILE = 1 << 20
MAX_TOTAL = 64 << 20
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}
_OF_TOOLS = {"build", "dist", "venv"}  # unless they are packages
_THIS_PACKAGE = __name__.partition(".")[0]


def is_own(module: ModuleType) -> bool:
    """Return whether a module is the user's own: one that a worker will not have.

    True for modules in source files, except those of the standard library, of installed
    distributions, of this package, and the notebook's ``__main__``.
    """
    return own_spec(getattr(module, "__spec__", None)) is not None or (
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
        spec = own_spec(find_spec(top))
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
                say.MODULES_TOO_LARGE(size=total >> 20, most=MAX_TOTAL >> 20, module=top)
            )
    return files


def find_spec(name: str) -> ModuleSpec | None:
    """Return the spec of a top-level module; nothing is imported for it."""
    loaded = sys.modules.get(name)
    try:
        spec = getattr(loaded, "__spec__", None) or importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None and loaded is not None and getattr(loaded, "__file__", None):
        return importlib.util.spec_from_file_location(name, str(loaded.__file__))
    return spec


def own_spec(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Return the spec back if it is that of an own module."""
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
    """Return the files of a top-level module or package: path in the archive, file, if it stays."""
    if spec.submodule_search_locations is None:
        path = Path(str(spec.origin))
        _refuse_compiled(path, spec.name)
        yield spec.name + path.suffix, path, False
        return
    for place in map(Path, spec.submodule_search_locations):
        for path in sorted(place.rglob("*")):
            inner = path.relative_to(place)
            folders = [place / folder for folder in list(inner.parents)[:-1]]
            if not path.is_file() or any(map(_is_skipped_folder, folders)):
                continue
            if _is_skipped(path.name):
                if _is_named_so(path):
                    yield f"{spec.name}/{inner.as_posix()}", path, True
                continue
            _refuse_compiled(path, spec.name)
            if path.suffix == ".py" or path.stat().st_size < MAX_DATA_FILE:
                stays = _leads_out(path, place) or looks_secret(path, place)
                yield f"{spec.name}/{inner.as_posix()}", path, stays


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name in _SKIPPED or name.endswith((".dist-info", ".egg-info"))


def _is_skipped_folder(path: Path) -> bool:
    made = path.name in _OF_TOOLS and not (path / "__init__.py").is_file()
    return made or _is_skipped(path.name)


def _refuse_compiled(path: Path, module: str) -> None:
    if path.name.endswith((*EXTENSION_SUFFIXES, ".pyd", ".dylib")) or ".so." in path.name:
        raise CaptureError(say.COMPILED_MODULE(module=module, path=path))


def _imports_of(source: bytes) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # a template or code for another Python: it can't be imported here either
    yield from _imports(tree)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Return the modules that code imports; the package of a relative import is there anyway."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


# ---- files that look like secrets

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


def _is_named_so(path: Path) -> bool:
    """Return whether a file has a name that secrets have, or copies of them: ``id_rsa.bak``."""
    name = _BACKUP.sub("", path.name)
    return path.suffix not in _CODE and _NAMES.fullmatch(name) is not None


def looks_secret(path: Path, package: Path) -> bool:
    """Return whether a file of a package looks like a secret.

    Its name may say so, a folder that it is in, or its first 64 kB. A file of certificates alone
    is none; a ``.pem`` that can't be read as one is.
    """
    if path.suffix in _CODE:
        return False
    if _is_named_so(path) or any(map(_FOLDERS.fullmatch, path.relative_to(package).parts[:-1])):
        return True
    try:
        with path.open("rb") as file:
            content = file.read(_MOST).decode("latin-1")  # any bytes are text in it
    except OSError:
        return True
    if _CERTIFICATES.fullmatch(path.name) and "-----BEGIN CERTIFICATE-----" not in content:
        return True
    if _TOKEN_LISTS.fullmatch(path.name) and _has_random_words(content):
        return True
    return _has_secret(content)


def _has_secret(content: str) -> bool:
    if _INSIDE.search(content) or masking.has_token(content):
        return True
    return bool(_KUBECONFIG.search(content) and _SIGNS_IN.search(content))


def _has_random_words(content: str) -> bool:
    """Tell tokens that sign in from the words of a vocabulary, few of which look random."""
    words = content.split()
    return sum(map(masking.looks_random, words)) * 4 >= len(words) > 0


def _leads_out(path: Path, package: Path) -> bool:
    """Return whether a file of a package is a link to something outside of it; code may be."""
    if path.suffix in _CODE:
        return False
    return not path.resolve().is_relative_to(package.resolve())


# ---- modules that are not what their files say

_SIMPLE = (int, float, complex, str, bytes, bool, type(None))
_SHOWN = 40


def differences(files: Mapping[str, bytes]) -> list[str]:
    """Compare files of modules with what was imported from them; give a sentence for each finding.

    Only what can be told without running the file: constants, and the code of plain functions and
    methods. What the module itself may rebind is passed over.

    Parameters
    ----------
    files
        Path from the root of the imports → content.
    """
    notes: list[str] = []
    for path, source in files.items():
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = sys.modules.get(name)
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        # Other loaders (hooks that add checks of types, pytest's) change code on the way.
        if module is None or not path.endswith(".py") or type(loader) is not SourceFileLoader:
            continue
        try:
            tree = ast.parse(source)
            code = compile(tree, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        notes += [
            say.CONSTANT_DIFFERS(module=name, name=constant, there=there, here=here)
            for constant, there, here in _constants(tree, vars(module))
        ]
        changed = list(_functions(tree, code, vars(module), ""))
        if changed:
            functions = text.joined(changed, most=4)
            notes.append(
                say.FUNCTION_DIFFERS(module=name, function=functions)
                if len(changed) == 1
                else say.FUNCTIONS_DIFFER(module=name, functions=functions)
            )
    return notes


def _bound_once(tree: ast.Module | ast.ClassDef) -> set[str]:
    nodes = list(scope_nodes(tree.body))
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes):
        return set()
    count = Counter(name for node in nodes for name in bound_by(node))
    return {name for name, times in count.items() if times == 1} - global_bindings(tree)


def _constants(tree: ast.Module, here: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Return names with another value than in the file: the name, the file's value, ours."""
    once = _bound_once(tree)
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=expression):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as expression):
                pass
            case _:
                continue
        try:
            value = ast.literal_eval(expression)
        except (ValueError, TypeError, SyntaxError, RecursionError):
            continue
        if name in once and name in here and _is_simple(value) and not _same(value, here[name]):
            yield name, _short(value), _short(here[name])


def _is_simple(value: Any) -> bool:
    return type(value) in _SIMPLE or (type(value) is tuple and all(map(_is_simple, value)))


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and repr(value) == repr(other)


def _short(value: Any) -> str:
    shown = repr(value) if _is_simple(value) else f"a {type(value).__name__}"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _functions(
    tree: ast.Module | ast.ClassDef, code: CodeType, here: Mapping[str, Any], prefix: str
) -> Iterator[str]:
    """Return the functions whose code is another one; decorated ones may be anything."""
    once = _bound_once(tree)
    inner = {part.co_name: part for part in code.co_consts if isinstance(part, CodeType)}
    for node in tree.body:
        match node:
            case (
                ast.FunctionDef(name=name, decorator_list=[])
                | ast.AsyncFunctionDef(name=name, decorator_list=[])
            ):
                found = here.get(name)
                if (
                    name in once
                    and name in inner
                    and isinstance(found, FunctionType)
                    and (_facts(found.__code__) != _facts(inner[name]))
                ):
                    yield f"{prefix}{name}()"
            case ast.ClassDef(name=name, decorator_list=[]):
                found = here.get(name)
                if name in once and name in inner and isinstance(found, type):
                    yield from _functions(node, inner[name], vars(found), f"{prefix}{name}.")


def _facts(code: CodeType) -> tuple[Any, ...]:
    """Return what a function does, without where it stands."""
    constants = tuple(
        _facts(part)
        if isinstance(part, CodeType)
        else part
        if isinstance(part, frozenset)
        else (type(part), repr(part))
        for part in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars
