"""`IPython.display` in an image without IPython."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import jupyter_jax_trainer

# Run by a Python that sees the standard library and this package, and nothing else.
PROGRAM = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from jupyter_jax_trainer.worker.display import Displayer
from jupyter_jax_trainer.worker.standin import StandIn
shown = []
displayer = Displayer(lambda data, metadata, /, **more: shown.append([data, metadata, more]))
displayer.install({})
StandIn(displayer, lambda: "shell").install()
exec(sys.argv[2])
print(json.dumps(shown))
"""


def shown_by(code: str) -> list:
    root = str(Path(jupyter_jax_trainer.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, root, code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("code", "mime", "content"),
    [
        ("HTML('<b>x</b>')", "text/html", "<b>x</b>"),
        ("Markdown('*x*')", "text/markdown", "*x*"),
        ("Latex('$x$')", "text/latex", "$x$"),
        ("Math('x^2')", "text/latex", "$\\displaystyle x^2$"),
        ("SVG('<svg/>')", "image/svg+xml", "<svg/>"),
        ("JSON({'a': [1]})", "application/json", {"a": [1]}),
        ("Image(b'abc', format='png')", "image/png", "YWJj"),
        ("Code('a < b')", "text/html", "<pre>a &lt; b</pre>"),
        ("Pretty('as it is')", "text/plain", "as it is"),
    ],
)
def test_what_notebooks_display_is_displayed(code, mime, content):
    ((data, _, _),) = shown_by(
        f"from IPython.display import *\nfrom IPython.display import display\ndisplay({code})"
    )
    assert data[mime] == content and "text/plain" in data


def test_a_handle_updates_what_it_displayed():
    first, second = shown_by(
        "from IPython.display import HTML, display\n"
        "handle = display(HTML('1'), display_id=True)\nhandle.update(HTML('2'))"
    )
    assert first[2]["id"] == second[2]["id"] and second[2]["update"] is True


def test_the_shell_and_the_older_homes_of_the_names_are_there():
    code = (
        "import IPython\nassert IPython.get_ipython() == 'shell'\n"
        "from IPython.core.display import HTML as one\nfrom IPython.display import HTML\n"
        "assert one is HTML\nIPython.display.display(HTML('x'))"
    )
    ((data, _, _),) = shown_by(code)
    assert data["text/html"] == "x"


def test_what_is_not_there_is_an_ordinary_error():
    code = (
        "try:\n    import IPython.lib.pretty\nexcept ModuleNotFoundError as error:\n"
        "    assert 'IPython.lib' in str(error)\nelse:\n    raise AssertionError"
    )
    assert shown_by(code) == []


def test_where_ipython_is_installed_it_is_used():
    pytest.importorskip("IPython")
    code = PROGRAM.replace(
        "print(json", "assert 'site-packages' in __import__('IPython').__file__; print(json"
    )
    root = str(Path(jupyter_jax_trainer.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code, root, "import IPython"], check=False)
    assert done.returncode == 0


def test_a_library_that_finds_it_and_defines_magics_can_be_imported():
    """As treescope does, which flax imports, whether the cell or the library imports it first."""
    code = """
import sys
from types import SimpleNamespace
from jupyter_jax_trainer.worker.standin import StandIn
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "IPython":
            return found(name, path, target)
found = StandIn(SimpleNamespace(display=print, update_display=print, clear_output=print), None).find_spec
sys.meta_path.insert(0, Nothing())
import treescope
import IPython
print(type(IPython.__spec__.loader).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("StandIn\n", 0), done.stderr
