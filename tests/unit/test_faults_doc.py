"""docs/background/faults.md names tests that exist, and quotes what they check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    """Give the cells of each row that is no heading."""
    lines = (ROOT / "docs" / "background" / "faults.md").read_text(encoding="utf-8").splitlines()
    tables = [line for line in lines if line.startswith("|")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in tables
        if not line.startswith(("|---", "| what |"))
    ]


def tree_of(file: str) -> ast.Module:
    found = [ROOT / "tests" / kind / file for kind in ("local", "cluster", "unit")]
    (path,) = [path for path in found if path.exists()]
    return ast.parse(path.read_text(encoding="utf-8"))


def literals(file: str) -> str:
    """Give all string literals of a test file; those that are written in pieces are whole here."""
    tree = tree_of(file)
    return "\n".join(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def functions(file: str) -> set[str]:
    return {node.name for node in tree_of(file).body if isinstance(node, ast.FunctionDef)}


def test_there_are_rows():
    assert len(rows()) > 90


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:50])
def test_a_row_names_tests_that_exist_and_quotes_them(row):
    found = REFERENCE.findall(row[-1])
    assert found, "no test is named"
    for file, name in found:
        assert name in functions(file)
    checked = "\n".join(literals(file) for file, _ in found)
    for quoted in re.findall(r"`([^`]+)`", row[1]) if len(row) > 2 else ():
        if " " in quoted:
            assert quoted in checked, f"no test checks for {quoted!r}"
