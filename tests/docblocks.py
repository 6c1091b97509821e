"""The code blocks of the documentation, and the tests that run them.

A comment before a block says what is special about it: ``<!-- not run: REASON -->``,
``<!-- fails -->`` (the cell raises) or ``<!-- waits: TEXT -->`` (the job says so).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CODE = ("python", "sh")  # what somebody runs
OTHER = ("text", "toml", "yaml", "json")
_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]+?) -->\n)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)

# The test that runs the code of a page, from top to bottom.
RUNNERS = {
    "README.md": "local/test_guide.py::test_a_page_is_true",
    "docs/start/index.md": "local/test_guide.py::test_a_page_is_true",
    "docs/guides/data-scientist/notebook.md": "local/test_guide.py::test_a_page_is_true",
    "docs/guides/data-scientist/diagnosis.md": "ui/test_docs_diagnosis_pictures.py::test_three_cases",
    "docs/guides/data-scientist/sessions.md": "local/test_guide.py::test_a_page_is_true",
    "docs/guides/data-scientist/jupyterlab.md": "local/test_guide.py::test_a_page_is_true",
    "docs/guides/data-scientist/cluster.md": "cluster/test_notebook.py::test_the_user_guide_is_true",
    "docs/guides/research-scientist/checkpoints.md": "local/test_guide.py::test_a_page_is_true",
    "docs/guides/research-scientist/experiments.md": "local/test_guide.py::test_a_page_is_true",
    "docs/guides/platform-engineer/kind.md": "cluster/test_kind_page.py::test_the_page_about_kind",
    "docs/guides/platform-engineer/setup.md": "cluster/test_platform_page.py::test_the_platform_guide",
    "docs/guides/platform-engineer/runtimes.md": "cluster/test_platform_page.py::test_the_platform_guide",
    "docs/guides/platform-engineer/operations.md": "cluster/test_platform_page.py::test_the_platform_guide",
    "docs/guides/platform-engineer/queues.md": "cluster/test_queues.py::guided",
    "docs/guides/platform-engineer/jaxjob.md": "unit/test_docs.py::test_the_page_about_jaxjobs_is_true",
}


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    language: str
    text: str
    mark: str

    @property
    def why_not(self) -> str | None:
        """Why no test runs it."""
        return self.mark.partition("not run:")[2].strip() if self.mark[:7] == "not run" else None


def pages() -> list[str]:
    """Return all pages, as paths from the root of the repository."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found]


def blocks(page: str) -> Iterator[Block]:
    """Return the fenced blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        yield Block(page, line, found["language"], found["text"], found["mark"] or "")


def code(page: str) -> Iterator[Block]:
    """Return the blocks of a page that are run."""
    return (b for b in blocks(page) if b.language in CODE and b.why_not is None)
