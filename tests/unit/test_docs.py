from __future__ import annotations

import importlib.util
from pathlib import Path

from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import troubleshooting
from jupyter_jax_trainer.commands import COMMANDS
from jupyter_jax_trainer.commands.helptext import EXAMPLES, reference
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.options.table import OPTIONS

DOCS = Path(__file__).parents[2] / "docs"


def _generator():
    path = DOCS / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", path)
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    return generate


def test_the_committed_reference_is_what_the_parser_gives():
    assert _generator().REFERENCE.read_text(encoding="utf-8") == reference(), (
        "docs/reference.md is out of date; run: python docs/generate.py"
    )


def test_the_committed_page_about_trouble_is_what_the_table_of_causes_gives():
    assert _generator().TROUBLESHOOTING.read_text(encoding="utf-8") == troubleshooting(), (
        "docs/troubleshooting.md is out of date; run: python docs/generate.py"
    )


def test_the_reference_has_every_option_and_command():
    text = reference()
    for option in OPTIONS:
        assert f"--{option.name}" in text
    for command in COMMANDS.values():
        assert f"\n### {command.name}\n" in text
    tables = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(tables) > len(OPTIONS)
    assert all(line.replace("\\|", "").count("|") == 3 for line in tables)


def test_the_examples_of_the_help_are_right():
    for line, _ in EXAMPLES:
        if line.startswith("%%jaxtrain"):
            parse_cell_line(line.removeprefix("%%jaxtrain"))
        else:
            assert line.split()[1] in COMMANDS


def test_front_ends_that_nobody_has_tried_are_called_untested():
    page = " ".join((DOCS / "jupyterlab.md").read_text().split())
    assert "**VS Code and Colab are untested**" in page
