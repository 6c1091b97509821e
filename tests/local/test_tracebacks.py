"""The traceback that the notebook shows, wherever the error comes from."""

from __future__ import annotations

import linecache

import pytest
from harness import fails

from jupyter_jax_trainer.jobdir.failure import format_failure

EARLIER = """\
def scale(x):
    factor = x["factor"]
    return 2 * factor

class Model:
    def __call__(self, x):
        return scale(x)
"""
EARLIER_FILE = "/tmp/ipykernel_1/3.py"


@pytest.fixture
def notebook(store) -> dict:
    """Give a namespace in which an earlier cell has been run."""
    linecache.cache[EARLIER_FILE] = (
        len(EARLIER),
        None,
        EARLIER.splitlines(keepends=True),
        EARLIER_FILE,
    )
    namespace = {"__name__": "__main__"}
    exec(compile(EARLIER, EARLIER_FILE, "exec"), namespace)
    return namespace


def told(cell: str, namespace: dict) -> str:
    failure = fails(cell, namespace)
    text = format_failure(failure, "j")
    for inner in ("jupyter_jax_trainer", "worker/", "site-packages/jax", "linecache"):
        assert inner not in text, text
    return text


def test_in_the_cell_itself(notebook):
    text = told("x = 1\n\ny = [][x]\n", notebook)
    assert "Cell, line 4" in text and "    y = [][x]\n" in text
    assert text.startswith("Job 'j' failed: rank ")
    assert "IndexError: list index out of range (cell line 4)" in text


def test_in_a_function_of_another_cell(notebook):
    text = told("model = Model()\nmodel({})", notebook)
    assert "Cell, line 3" in text and "    model({})\n" in text
    assert "3.py, line 2, in scale" in text or 'File "<3.py>", line 2, in scale' in text, text
    assert '    factor = x["factor"]\n' in text
    assert "KeyError: 'factor' (cell line 3)" in text


def test_in_a_jitted_function(notebook):
    text = told("import jax\n@jax.jit\ndef step(x):\n    return x @ x\nstep(1.0)", notebook)
    assert "    return x @ x\n" in text
    assert "Cell, line 5, in step" in text


def test_what_jax_tells_of_an_error_stands_there_once(notebook):
    text = told("import jax\n@jax.jit\ndef step(x):\n    return x @ x\nstep(1.0)", notebook)
    assert text.count("    return x @ x\n") == 1
    assert "stack trace" not in text


@pytest.mark.parametrize("waits", ["", ".block_until_ready()"])
def test_an_error_in_a_callback_of_a_jitted_function(notebook, waits):
    text = told(
        "import jax, jax.numpy as jnp\ndef bad(a):\n    raise ValueError('on the host')\n"
        "call = jax.jit(lambda x: jax.pure_callback(bad, x, x) + 1)\n"
        f"y = call(jnp.ones((64, 64))){waits}",
        notebook,
    )
    first, rest = text.split("\n", 1)
    assert first.endswith(
        "CpuCallback error calling callback: ValueError: on the host (cell line 6)"
    )
    assert "  Cell, line 4, in bad\n" in rest
    assert "runpy" not in rest and "<string>" not in rest


def test_an_exception_with_its_cause_and_its_context(notebook):
    text = told(
        "try:\n    {}['a']\nexcept KeyError as error:\n    raise RuntimeError('outer') from error",
        notebook,
    )
    assert "KeyError: 'a'" in text and "    {}['a']\n" in text
    assert "The above exception was the direct cause" in text
    assert "RuntimeError: outer (cell line 5)" in text
    text = told("try:\n    1 / 0\nfinally:\n    [].missing", notebook)
    assert "During handling of the above exception" in text
    assert "ZeroDivisionError" in text and "AttributeError" in text


def test_a_syntax_error_in_code_that_the_cell_runs(notebook):
    text = told("exec('x = = 1')", notebook)
    assert "SyntaxError: invalid syntax" in text
    assert "x = = 1" in text
    assert "    exec('x = = 1')\n" in text


def test_a_group_of_exceptions(notebook):
    text = told(
        "def bad(): raise ValueError('first of two')\n"
        "errors = []\n"
        "for n in range(2):\n"
        "    try:\n        bad() if n else {}['k']\n"
        "    except Exception as error:\n        errors.append(error)\n"
        "raise ExceptionGroup('both', errors)",
        notebook,
    )
    assert "both (2 sub-exceptions)" in text
    assert "ValueError: first of two" in text and "KeyError: 'k'" in text
    assert "def bad(): raise ValueError" in text


def test_an_assertion_a_keyboard_interrupt_and_a_string_of_many_lines(notebook):
    assert "AssertionError (cell line 2)" in told("assert False", notebook)
    assert "KeyboardInterrupt" in told("raise KeyboardInterrupt", notebook)
    text = told("raise ValueError('one\\ntwo')", notebook)
    assert text.splitlines()[0].endswith("ValueError: one")
    assert "\ntwo" in text


def test_a_recursion_without_end(notebook):
    text = told("def f(n): return f(n + 1)\nf(0)", notebook)
    assert "RecursionError: maximum recursion depth exceeded" in text
    assert "Previous line repeated" in text
    assert len(text) < 5000
