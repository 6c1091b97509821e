"""The documentation: generated pages are up to date, and each code block is run or says why not."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from types import ModuleType

import docblocks
import pytest
import yaml
from docblocks import DOCS, ROOT

from jupyter_jax_trainer import errors
from jupyter_jax_trainer.backends.kubernetes.api.rights import RIGHTS
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes import SECTIONS
from jupyter_jax_trainer.cli import main
from jupyter_jax_trainer.commands import COMMANDS
from jupyter_jax_trainer.commands.helptext import EXAMPLES
from jupyter_jax_trainer.jobdir.failure import Failure
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.options.table import OPTIONS
from jupyter_jax_trainer.server.extension import JaxTrain

SCHEMAS = ROOT / "labextension" / "schema"
BLOCKS = [block for page in docblocks.pages() for block in docblocks.blocks(page)]


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    return generate


GENERATOR = _generator()


# -- generated pages ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GENERATOR.PAGES, ids=lambda path: path.stem)
def test_a_generated_page_is_up_to_date(path):
    assert path.read_text(encoding="utf-8") == GENERATOR.PAGES[path](), (
        f"{path.relative_to(ROOT)} is out of date; run: python docs/generate.py"
    )


def tables(page: str, columns: int) -> list[str]:
    """Return the rows of a page's tables, heads included; each has as many columns."""
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert all(row.replace("\\|", "").count("|") == columns + 1 for row in rows)
    return rows


def test_the_reference_has_every_option():
    rows = tables(GENERATOR.magic(), 2)
    assert all(any(f"--{option.name}" in row for row in rows) for option in OPTIONS)


def test_the_reference_has_every_command():
    page = GENERATOR.command_line()
    tables(page, 2)
    for command in COMMANDS.values():
        assert f"\n## {command.name}\n" in page


def test_the_page_about_causes_has_every_cause():
    causes = [cause for causes in SECTIONS.values() for cause in causes]
    assert len({cause.id for cause in causes}) == len(causes)
    assert len(tables(GENERATOR.causes(), 3)) == len(causes) + len(SECTIONS)


def test_the_examples_of_the_help_are_right():
    for line, _ in EXAMPLES:
        if line.startswith("%%jaxtrain"):
            parse_cell_line(line.removeprefix("%%jaxtrain"))
        else:
            assert line.split()[1] in COMMANDS


# -- code blocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_a_block_is_run_or_says_why_not(block):
    if block.language.startswith("{"):  # a directive of the site
        return
    assert block.language in (*docblocks.CODE, *docblocks.OTHER), "name the block's language"
    if block.language in docblocks.CODE and block.page not in docblocks.RUNNERS:
        assert block.why_not, "name a test in docblocks.RUNNERS, or <!-- not run: REASON -->"
    assert block.why_not != "", "give a reason: <!-- not run: REASON -->"
    if block.language in ("yaml", "json"):
        list(yaml.safe_load_all(block.text))


@pytest.mark.parametrize("page", docblocks.RUNNERS)
def test_the_test_that_runs_a_page_exists(page):
    path, _, name = docblocks.RUNNERS[page].partition("::")
    text = (ROOT / "tests" / path).read_text(encoding="utf-8")
    functions = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    assert name in [one.name for one in functions]
    assert page.removeprefix("docs/") in text, "the test does not name the page"
    assert list(docblocks.code(page)), "nothing of it is run"


# -- settings -------------------------------------------------------------------------------------

SETTINGS = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")


def test_every_setting_of_the_server_is_in_the_table():
    names = [name for name, trait in JaxTrain.class_own_traits().items() if trait.help]
    assert len(names) >= 6
    for name in names:
        assert re.search(rf"^\| .*`c\.JaxTrain\.{name}`", SETTINGS, re.MULTILINE), name


def test_every_setting_of_jupyterlab_is_in_the_table():
    schemas = [json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")]
    names = [name for schema in schemas for name in schema.get("properties", {})]
    assert names
    for name in names:
        assert re.search(rf"^\| \w+ \| `{name}` \|", SETTINGS, re.MULTILINE), name


def test_every_exception_is_in_the_table():
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    for name, kind in vars(errors).items():
        public = isinstance(kind, type) and kind.__module__ == errors.__name__
        if public and name != "JaxTrainError":
            assert f"\n| `{name}`" in page, name


def test_every_kind_of_failure_is_in_the_table():
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    listed = page.partition("## Kinds of failures")[2]
    told = str(Failure.__doc__).partition("kind\n")[2].partition("message\n")[0]
    kinds = re.findall(r"``(\w+)``", told)
    assert len(kinds) > 10
    assert all(f"`{kind}`" in listed for kind in kinds)


def test_every_right_is_in_the_table():
    page = (DOCS / "guides" / "platform-engineer" / "setup.md").read_text(encoding="utf-8")
    first = [row.split("|")[1].lower() for row in page.splitlines() if row.startswith("| ")]
    named = [set(re.findall(r"[\w/]+", part)) for cell in first for part in cell.split(";")]
    for right in RIGHTS:
        assert any({right.verb, right.resource} <= words for words in named), right


# -- pages that need neither processes nor a cluster ----------------------------------------------


def test_the_page_about_jaxjobs_is_true(capsys, monkeypatch, home):
    """docs/guides/platform-engineer/jaxjob.md."""
    monkeypatch.chdir(ROOT)
    (block,) = docblocks.code("docs/guides/platform-engineer/jaxjob.md")
    words = block.text.split()
    assert words[0] == "jaxtrain"
    assert main(words[1:]) == 0
    kinds = [one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds.count("TrainJob") == 2 and kinds.count("TrainingRuntime") == 2


# -- links and paths that Sphinx does not see -------------------------------------------------------

LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"\bdocs/[\w/.-]*\w\.(?:md|ipynb|py|yaml|png)\b")
NAMED_IN = (
    "jupyter_jax_trainer",
    "labextension/src",
    "runtimes",
    "images",
    "benchmarks",
    ".github",
)


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_of_a_page_outside_the_site_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_paths_of_docs_that_files_name_exist():
    files = [path for folder in NAMED_IN for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [ROOT / "Makefile", *(ROOT / "tests").rglob("*.py")]
    files += [path for kind in ("md", "yaml") for path in DOCS.rglob(f"*.{kind}")]
    named = 0
    for path in files:
        if path.suffix in (".py", ".ts", ".tsx", ".md", ".yaml", ".yml") or path.name == "Makefile":
            for found in PATH.findall(path.read_text(encoding="utf-8")):
                assert (ROOT / found).exists(), f"{path.relative_to(ROOT)} names {found}"
                named += 1
    assert named > 40


def test_every_page_of_the_site_is_in_the_menu():
    menu = (DOCS / "index.md").read_text(encoding="utf-8").splitlines()
    pages = [path for kind in ("md", "ipynb") for path in DOCS.rglob(f"*.{kind}")]
    names = {str(path.relative_to(DOCS).with_suffix("")) for path in pages}
    assert names - {"index"} <= set(menu)


def test_every_picture_that_a_page_shows_has_a_dark_twin():
    pictures = {
        (page.parent / target).resolve()
        for page in DOCS.rglob("*.md")
        for target in re.findall(r"!\[[^]]*\]\((\S+)\)", page.read_text(encoding="utf-8"))
    }
    assert pictures
    for light in pictures:
        assert light.exists() and "-light-" in light.name, light
        assert light.with_name(light.name.replace("-light-", "-dark-")).exists(), light


def test_the_changelog_has_a_line_for_each_change():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("## "))
    for line in filter(None, lines[head:]):
        assert line.startswith(("## ", "### ", "- ")), line
