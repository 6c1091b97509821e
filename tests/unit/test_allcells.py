"""Every cell in a session: what of a cell is the kernel's, and what the session's."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_jax_trainer import magic
from jupyter_jax_trainer.allcells import BARE, AllCells, here, rewritten
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import commands as say


def parts(cell, is_automagic=lambda line: False):
    """Return what of a cell runs in the kernel, and in the session; None for nothing."""
    *head, last = rewritten(cell.splitlines(keepends=True), "lab", is_automagic) or [""]
    try:
        call = ast.parse(last).body[0].value
        name, _, body = map(ast.literal_eval, call.args)
    except (SyntaxError, AttributeError, IndexError, ValueError):
        return "".join([*head, last]), None
    assert (call.func.attr, name) == ("run_cell_magic", BARE)
    return "".join(head), body


@pytest.mark.parametrize(
    ("cell", "kernel", "session"),
    [
        ("x = 1\n", "", "x = 1\n"),
        ("x = 1", "", "x = 1"),
        ("\n# a comment\nx", "", "\n# a comment\nx"),
        (
            "%matplotlib inline\nimport jax\njax.devices()",
            "%matplotlib inline\n",
            "\nimport jax\njax.devices()",
        ),
        (
            "# setup\n%load_ext a\n\n!ls \\\n  -l\nx = 1",
            "# setup\n%load_ext a\n\n!ls \\\n  -l\n",
            "\n\n\n\n\nx = 1",
        ),
        ("x = !ls\n", "", "x = !ls\n"),
        ("x = 1\n!ls\n", "", "x = 1\n!ls\n"),
        ("%time f(x)", "", "%time f(x)"),
        ("%timeit f(x)", "", "%timeit f(x)"),
        ("def f(:\n", "", "def f(:\n"),
        ('"""What is this?\nno magic"""\n', "", '"""What is this?\nno magic"""\n'),
        ("x = a % \\\n  b", "", "x = a % \\\n  b"),
        ("%%timeit\nf(x)", "", "%%timeit\nf(x)"),
    ],
)
def test_code_goes_to_the_session_with_its_line_numbers(cell, kernel, session):
    assert parts(cell) == (kernel, session)


@pytest.mark.parametrize(
    "cell",
    [
        "",
        "\n \n",
        "# only a comment\n\n  # another",
        "%load_ext autoreload\n%autoreload 2",
        "!ls\n# that is all",
        "?print",
        "print??",
        "np.ones?\n",
        "%pinfo x",
        "%pip list",
        "%jaxtrain use --reset\nx = 1",
        "%%bash\nls",
        "%%writefile a.py\nx = 1",
        "%%jaxtrain --rank 1\nx",
        "\n%%jaxtrain -o x\nx = 1",
        "%%time\n%%here\nx",
        "%%time\n%%jaxtrain\nx",
        "%%time\n# nothing",
        "%%capture",
    ],
)
def test_the_rest_is_the_kernels(cell):
    assert parts(cell) == (cell, None)


@pytest.mark.parametrize("magic", ["%%time", "%%capture out"])
def test_what_a_magic_runs_as_a_cell_runs_in_the_session(magic):
    assert parts(f"{magic}\n\nx = 1") == (f"{magic}\n%%jaxtrain\n\nx = 1", None)


def test_a_cell_below_here_keeps_its_line_numbers():
    assert here(["\n", "%%here\n", "x\n"]) == ["\n", "# %%here\n", "x\n"]
    assert here(["%%here now\n", "x\n"]) == ["%%here now\n", "x\n"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%pip install flax", say.INSTALLS_HERE),
        ("!python -m pip install flax\nimport flax", say.INSTALLS_HERE),
        ("!uv pip install flax", say.INSTALLS_HERE),
        ("%cd /data\n", say.CHANGES_KERNEL),
        ("%env A=1", say.CHANGES_KERNEL),
    ],
)
def test_what_changes_the_kernel_says_that_the_session_does_not_change(cell, message):
    kernel, _ = parts(cell)
    first = cell.splitlines()[0]
    assert kernel.startswith(f"{first}\n") and message(line=first, session="lab") in kernel
    ast.parse(kernel.removeprefix(f"{first}\n"))  # a print
    assert len(kernel.splitlines()) == 2


def test_a_magic_without_its_percent_sign_is_the_kernels():
    automagic = ["pip install flax", "history"].__contains__
    assert parts("pip install flax", automagic) == ("pip install flax", None)
    assert parts("history", automagic) == ("", "history")  # it may be a variable of the session


LINES = st.sampled_from(
    [
        "",
        "# c",
        "x = 1",
        "%magic",
        "!ls",
        "!a \\",
        "y?",
        "?y",
        "%%time",
        "%%here",
        "%pip install a",
        "  %m",
        "'''",
        "f(",
        "%time x",
        "\ud800",
    ]
)


@given(st.lists(LINES, max_size=6).map("\n".join) | st.text(max_size=40))
def test_each_line_is_the_kernels_or_the_sessions(cell):
    lines = cell.splitlines(keepends=True)
    found = rewritten(lines, "lab")
    kernel, session = parts(cell)
    if session is None:
        left = [line for line in found if not line.startswith(("print(", "%%jaxtrain"))]
        assert "".join(left).rstrip("\n") == cell.rstrip("\n")
        return
    own = [line for line in kernel.splitlines(keepends=True) if not line.startswith("print(")]
    assert own + session.splitlines(keepends=True)[len(own) :] == lines
    assert "".join(session.splitlines()[: len(own)]) == ""


# -- in a shell ----------------------------------------------------------------------------------


class Shell:
    """IPython with the transformer, and a session that notes what it gets."""

    def __init__(self):
        config = Config({"HistoryManager": {"enabled": False}})
        self.ipython = InteractiveShell(config=config)
        self.cells = AllCells(self.ipython)
        self.cells.install()
        self.sent = []
        self.ipython.register_magic_function(self._send, "cell", BARE)
        self.ipython.register_magic_function(self._send, "line_cell", "jaxtrain")

    def _send(self, line, cell=None):
        with self.cells.submitting():
            self.sent.append(self.ipython.transform_cell(cell))

    def run(self, cell, **options):
        result = self.ipython.run_cell(cell, store_history=False, **options)
        result.raise_error()
        return result.result


@pytest.fixture(scope="module")
def a_shell():
    return Shell()


@pytest.fixture
def shell(a_shell):
    a_shell.sent.clear()
    a_shell.cells.session, a_shell.ipython.kernel = "lab", None
    a_shell.ipython.reset(new_session=False)
    return a_shell


def test_cells_run_in_the_session_and_those_below_here_do_not(shell):
    shell.run("x = 1")
    assert shell.sent == ["x = 1\n"] and "x" not in shell.ipython.user_ns
    assert shell.run("%%here\ny = 2\ny + 1") == 3
    assert shell.sent == ["x = 1\n"]
    shell.cells.session = None
    assert shell.run("z = 1\nz") == 1 and shell.run("%%here\nz") == 1


def test_code_that_a_cell_runs_in_the_shell_stays_there(shell):
    shell.run("%%here\nget_ipython().run_cell('inner = 1', store_history=False)")
    assert shell.ipython.user_ns["inner"] == 1 and shell.sent == []
    shell.run("%%time\nx = 1")
    assert [cell.strip() for cell in shell.sent] == ["x = 1"]


def test_here_means_nothing_within_a_cell_of_a_job(shell):
    shell.run("%%jaxtrain\n%%here\nx = 1")
    assert "run_cell_magic('here'" in shell.sent[0]  # which is refused there


def test_asking_whether_a_cell_is_complete_changes_nothing(shell):
    assert shell.ipython.check_complete("x = 1") == ("complete", "")
    assert shell.ipython.check_complete("for a in b:")[0] == "incomplete"
    assert shell.sent == []


def test_code_of_a_front_end_is_no_cell(shell):
    asked = {"code": "x = 1", "silent": False, "store_history": True}
    shell.ipython.kernel = SimpleNamespace(get_parent=lambda: {"content": asked})
    shell.run("x = 1")
    assert len(shell.sent) == 1
    for other in ({"silent": True}, {"store_history": False}, {"code": "y = 1"}):
        before, found = dict(asked), list(shell.sent)
        asked.update(other)
        shell.run("x = 1")
        assert shell.sent == found, other
        asked.update(before)
    asked.clear()  # a message that is no request
    shell.run("x = 1")
    assert len(shell.sent) == 2


def test_the_extension_can_be_unloaded(shell, monkeypatch):
    monkeypatch.setattr(magic, "_all_cells", None)
    shell.cells.remove()
    assert shell.run("w = 1\nw") == 1 and shell.sent == []
    shell.cells.install()
    before = list(shell.ipython.input_transformers_cleanup)
    magic.register(shell.ipython)
    magic.register(shell.ipython)
    assert len(shell.ipython.input_transformers_cleanup) == len(before) + 1
    magic._all_cells.session = "lab"
    magic.unregister(shell.ipython)
    magic.register(shell.ipython)
    assert magic._all_cells.session == "lab"  # %reload_ext
    magic.unregister(shell.ipython)
    magic.unregister(shell.ipython)
    assert shell.ipython.input_transformers_cleanup == before
    assert not {BARE, "here"} & shell.ipython.magics_manager.magics["cell"].keys()
    shell.ipython.register_magic_function(shell._send, "cell", BARE)


# -- what only works in the kernel ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "id"),
    [
        ("name = input('?')", "cell.asks-user"),
        ("def ask():\n    return input()", "cell.asks-user"),
        ("import getpass\ngetpass.getpass()", "cell.asks-user"),
        ("from getpass import getpass\ngetpass()", "cell.asks-user"),
        ("import ipywidgets as w", "cell.uses-widgets"),
        ("from ipywidgets import interact", "cell.uses-widgets"),
        ("widgets.IntSlider()", "cell.uses-widgets"),
        ("slider.value", "cell.uses-widgets"),
    ],
)
def test_cells_that_ask_or_show_widgets_are_refused(cell, id):
    import ipywidgets

    values = {"widgets": ipywidgets, "slider": ipywidgets.IntSlider()}
    with pytest.raises(UsageError) as refused:
        capture_cell(f"x = 1\n{cell}", values, bare=True)
    assert refused.value.id == id and "%%here" in refused.value.hint
    if "def" not in cell:
        assert "Line 2" in str(refused.value) or "Line 3" in str(refused.value)


def test_a_function_of_ones_own_may_have_the_name():
    assert capture_cell("def input(): return 1\ninput()", {}, bare=True).names == []
    assert "await" in capture_cell("import asyncio\nawait asyncio.sleep(0)", {}, bare=True).code
    assert capture_cell("x = input()", {}).binds == ["x"]  # in a job it finds an end of file


def test_lines_of_a_bare_cell_count_from_its_first():
    with pytest.raises(UsageError) as refused:
        capture_cell("y = 1\nprint(x)", {}, bare=True)
    assert "Line 2" in str(refused.value)
