"""Data that goes from one module to another has a type: no dictionary of anything crosses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import jupyter_jax_trainer

ROOT = Path(jupyter_jax_trainer.__file__).parent
MAPPINGS = {"dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"}
ANYTHING = {"Any", "object"}

# By modules, or by names in them. The list may only get shorter.
ALLOWED = {
    "datatypes.Namespace": "what a notebook's names stand for nobody knows",
    "backends.kubernetes.api.client": "where the JSON of a cluster's API comes in",
    "backends.kubernetes.api.objects": "the types around that JSON",
}


def is_loose(annotation: ast.AST) -> bool:
    """Return whether there is a dictionary of anything in an annotation."""
    return any(_is_anything(node) for node in ast.walk(annotation))


def _is_anything(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            inside = node.slice
            values = inside.elts[-1] if isinstance(inside, ast.Tuple) and inside.elts else inside
            return name in MAPPINGS and isinstance(values, ast.Name) and values.id in ANYTHING
        case ast.Constant(value=str(text)):
            try:
                return is_loose(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return False
    return False


def is_public(name: str) -> bool:
    return not name.startswith("_") or name.startswith("__")


def signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """Return the annotations of what goes into a function and comes out of it."""
    given = function.args
    several = [given.vararg, given.kwarg]
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, several)]
    found = [function.returns, *(parameter.annotation for parameter in parameters)]
    return [annotation for annotation in found if annotation is not None]


def crossings(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    """Yield the public names of a module, or of a class in it, that let anything through."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if is_public(name) and any(map(is_loose, signature(node))):
                    yield prefix + name
                for attribute, annotation in own_attributes(node):
                    if is_public(attribute) and is_loose(annotation):
                        yield prefix + attribute
            case ast.ClassDef(name=name) if is_public(name):
                if is_all_optional(node):
                    yield prefix + name
                yield from crossings(node.body, f"{prefix}{name}.")
            case ast.AnnAssign(target=ast.Name(id=name)) if is_public(name):
                # The value of an alias is its annotation.
                if is_loose(node.annotation) or (is_alias(node) and is_loose(node)):
                    yield prefix + name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript()) if is_public(name):
                if is_loose(node.value):
                    yield prefix + name


def own_attributes(method: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the attributes that a method annotates, as in ``self.items: list[int] = []``."""
    for node in ast.walk(method):
        match node:
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                yield name, node.annotation


def is_alias(node: ast.AnnAssign) -> bool:
    return ast.unparse(node.annotation).endswith("TypeAlias")


def is_all_optional(node: ast.ClassDef) -> bool:
    """Return whether nothing is sure to be in a ``TypedDict``: it is as good as any dictionary."""
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if [ast.unparse(base) for base in node.bases] != ["TypedDict"]:
        return False
    kinds = [ast.unparse(one.annotation) for one in node.body if isinstance(one, ast.AnnAssign)]
    if keywords.get("total") == "False":
        return not any(kind.startswith("Required[") for kind in kinds)
    return all(kind.startswith("NotRequired[") for kind in kinds)


def all_crossings() -> set[str]:
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.update(crossings(ast.parse(path.read_text()).body, f"{module}."))
    return found


def allowance(crossing: str) -> str | None:
    """Return the entry of the list that allows it."""
    return next((one for one in ALLOWED if f"{crossing}.".startswith(f"{one}.")), None)


def test_dictionaries_of_anything_are_found():
    code = """
Loose = dict[str, Any]
Also: TypeAlias = Mapping[str, object]
Bundle: TypeAlias = dict[str, JsonValue]
_Own = dict[str, Any]
TABLE: list[dict[str, Any]] = []

def take(first: int, **more: Any) -> dict[str, str]: ...
def give() -> "dict[str, Any] | None": ...
def call(back: Callable[[dict[str, object]], None]) -> None: ...
def _own() -> dict[str, Any]: ...

class Thing:
    item: Mapping[str, Any]
    _kept: dict[str, Any]

    def __init__(self, item: dict[str, Any]) -> None:
        self.again: dict[str, Any] = item
        self._item: dict[str, Any] = item

    async def wait(self) -> list[collections.abc.Mapping[str, Any]]: ...

class _Hidden:
    item: dict[str, Any]

class Wish(TypedDict, total=False):
    color: str

class Order(TypedDict):
    color: NotRequired[str]

class Fact(TypedDict):
    color: str
    size: NotRequired[int]
"""
    assert {*crossings(ast.parse(code).body, "")} == {
        "Loose",
        "Also",
        "TABLE",
        "give",
        "call",
        "Thing.item",
        "Thing.__init__",
        "Thing.again",
        "Thing.wait",
        "Wish",
        "Order",
    }


def test_no_dictionary_of_anything_crosses_a_module():
    """Give it a `TypedDict`, a dataclass, or the type of its values: `datatypes` has JSON's."""
    assert {crossing for crossing in all_crossings() if allowance(crossing) is None} == set()


def test_what_is_allowed_is_still_there():
    assert {allowance(crossing) for crossing in all_crossings()} - {None} == ALLOWED.keys()
