"""docs/background/faults.md names a test for each fault, and the test exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    """Return the cells of each row of a table that is no head."""
    page = (ROOT / "docs" / "background" / "faults.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\|---.*\n((?:\| .*\n)+)", page, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@functools.cache
def functions(file: str) -> set[str]:
    trees = [
        ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").glob(f"*/{file}")
    ]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_rows():
    assert len(rows()) > 90


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:50])
def test_a_row_says_what_happens_and_names_tests_that_exist(row):
    assert len(row) in (2, 3) and all(row)
    found = REFERENCE.findall(row[-1])
    assert found, "no test is named"
    for file, name in found:
        assert name in functions(file)
