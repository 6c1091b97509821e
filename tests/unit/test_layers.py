"""Imports of the package: no circles, and no arrow that goes up; lazy imports count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jupyter_jax_trainer

PACKAGE = jupyter_jax_trainer.__name__
ROOT = Path(jupyter_jax_trainer.__file__).parent

# From the bottom to the top. A module is on the floor that names it, or the longest part of its
# name from the left; it may import what is on its own floor and below.
FLOORS = (
    ("text", "installation", "states", "messages", "datatypes", "devices", "byname"),
    ("masking",),
    ("errors", "log", "backends.registry"),
    ("worker",),
    ("timeouts",),
    ("machine",),
    ("options",),
    ("runtime",),
    ("jobdir",),  # files, locks, the writer
    ("channel",),
    ("trust",),
    ("logs",),
    ("profiles",),
    # What is read from a job directory.
    (
        "jobdir.job",
        "jobdir.resultfile",
        "jobdir.results",
        "jobdir.rows",
        "jobdir.comparison",
        "jobdir.retention",
    ),
    ("capture",),
    ("bundle",),
    ("doctor.finding",),
    ("backends",),  # the protocol
    ("backends.local",),
    ("backends.kubernetes.api",),
    ("backends.kubernetes.submit",),
    ("backends.kubernetes.diagnosis",),
    ("backends.kubernetes.logs",),
    ("backends.kubernetes",),  # what stands in no folder of it: the backend itself, the overview
    ("backends.kubernetes.follow", "backends.kubernetes.control"),
    ("backends.kubernetes.doctor",),
    ("backends.kubernetes.backend",),  # the whole of it
    ("api", "sessions"),
    ("doctor",),
    ("queries",),
    ("widget",),
    ("views",),
    ("sharing",),
    ("commands",),
    ("magic", "allcells", "cli", "server", "__main__"),
)
APART = ("backends.local", "backends.kubernetes")  # neither knows the other

# A backend adds a line to the first; otherwise these lists may only get shorter.
BY_NAME = {
    ("backends.registry", "backends.kubernetes.backend"): "a backend is a folder and a line there",
    ("backends.registry", "backends.local.backend"): "as above",
    ("jobdir.job", "widget"): "Job.widget() is public, and the job is what the user has in hand",
}
KNOWN_TYPES = {
    ("jobdir.job", "backends.base"): "a job asks its backend, which it finds by name",
    ("backends.registry", "backends.base"): "it names what it finds",
    ("backends.registry", "options.spec"): "it chooses for a spec",
    ("errors", "jobdir.failure"): "an error of a job has its failure; all errors are in one module",
    ("jobdir.results", "jobdir.job"): "results are those of a job, which loads them when asked",
    ("trust.policy", "jobdir.job"): "who is trusted is asked of a job, and by a job",
}


class Arrow(NamedTuple):
    """One import; `typed` ones are for type checkers alone."""

    source: str
    target: str
    typed: bool


def modules() -> dict[str, Path]:
    """Return all modules, without the name of the package, which is itself ''."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(node: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a statement imports."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports are not used"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return
    for name in names:
        top, _, inner = name.partition(".")
        if top == PACKAGE:
            while inner not in known:  # a name of a module
                inner = inner.rpartition(".")[0]
            yield inner


def arrows_of(tree: ast.AST, source: str, known: Mapping[str, Path]) -> Iterator[Arrow]:
    """Yield the imports of a module, those in functions, too."""
    queue: list[tuple[ast.AST, bool]] = [(tree, False)]
    while queue:
        node, typed = queue.pop()
        # With every module Python imports the package itself, which imports nothing by that.
        yield from (
            Arrow(source, target, typed)
            for target in imported(node, known)
            if target not in ("", source)
        )
        guarded = (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and (node.test.id == "TYPE_CHECKING")
        )
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            inside = typed or (guarded and field == "body")
            queue += [(child, inside) for child in children if isinstance(child, ast.AST)]


def all_arrows() -> set[Arrow]:
    known = modules()
    return {
        arrow
        for name, path in known.items()
        if name  # the package's own names are imported when they are first used
        for arrow in arrows_of(ast.parse(path.read_text()), name, known)
    }


ARROWS = all_arrows()


def floor_of(module: str) -> int:
    floors = {name: number for number, names in enumerate(FLOORS) for name in names}
    name = module
    while name and name not in floors:
        name = name.rpartition(".")[0]
    assert name, f"{module} is on no floor: say in FLOORS where it belongs"
    return floors[name]


def is_known(arrow: Arrow) -> bool:
    return arrow.typed and (arrow.source, arrow.target) in KNOWN_TYPES


def circles(arrows: Iterable[Arrow]) -> list[list[str]]:
    """Return the modules that import one another, by Tarjan's algorithm."""
    targets: dict[str, set[str]] = {}
    for arrow in arrows:
        targets.setdefault(arrow.source, set()).add(arrow.target)
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for target in sorted(targets.get(module, ())):
            if target not in numbers:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in stack:
                lowest[module] = min(lowest[module], numbers[target])
        if lowest[module] == numbers[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(targets):
        if module not in numbers:
            visit(module)
    return found


def test_the_arrows_are_found():
    known = {"": ROOT, "a": ROOT, "b": ROOT, "b.c": ROOT}
    code = (
        "from __future__ import annotations\nimport os\n"
        f"import {PACKAGE}\nfrom {PACKAGE} import a as other\n"
        f"if TYPE_CHECKING:\n    from {PACKAGE}.b.c import d\nelse:\n    import {PACKAGE}.b\n"
        f"def f():\n    from {PACKAGE}.b import c\n"
    )
    found = set(arrows_of(ast.parse(code), "x", known))
    assert found == {
        Arrow("x", "a", False),
        Arrow("x", "b.c", True),
        Arrow("x", "b", False),
        Arrow("x", "b.c", False),
    }
    assert len(ARROWS) > 500
    assert circles([Arrow("a", "b", False), Arrow("b", "c", True), Arrow("c", "a", False)])


def test_no_module_imports_itself_by_way_of_others():
    assert circles(arrow for arrow in ARROWS if not is_known(arrow)) == []


def test_no_arrow_goes_up():
    wrong = {
        f"{arrow.source} -> {arrow.target}"
        for arrow in ARROWS
        if floor_of(arrow.target) > floor_of(arrow.source) and not is_known(arrow)
    }
    assert wrong == set()


def test_what_is_found_by_name_is_listed():
    """A name in a string hides an import."""
    place = re.compile(rf'"{PACKAGE}\.([a-z_.]+):\w+"')
    found = {
        (source, target)
        for source, path in modules().items()
        for target in place.findall(path.read_text())
    }
    assert found == BY_NAME.keys()
    assert {target for _, target in found} <= modules().keys()


def test_backends_do_not_know_each_other():
    wrong = {
        f"{arrow.source} -> {arrow.target}"
        for arrow in ARROWS
        for one in APART
        for other in APART
        if one != other and arrow.source.startswith(one) and arrow.target.startswith(other)
    }
    assert wrong == set()


def test_what_is_known_is_still_so():
    """An exception that is gone leaves its list; so does a floor whose modules are."""
    there = {(arrow.source, arrow.target) for arrow in ARROWS}
    assert KNOWN_TYPES.keys() <= there
    assert not {(a.source, a.target) for a in ARROWS if not a.typed} & KNOWN_TYPES.keys()
    assert {name for names in FLOORS for name in names} <= modules().keys()
