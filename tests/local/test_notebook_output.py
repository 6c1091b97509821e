"""What a job looks like in a notebook: real kernels, real jobs."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import kernels
import pytest
from conftest import end_processes_of

from jupyter_jax_trainer.messages import api as say_of_api
from jupyter_jax_trainer.messages import commands as say_of_commands
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.messages import views as say_of_views

pytestmark = pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of this package


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with kernels.running(home, tmp_path_factory.mktemp("work")) as kernel:
        yield kernel
    assert end_processes_of(home) == {}


@pytest.fixture
def no_widgets(kernel):
    """As in a clone in which the widgets' scripts were not built: the card itself moves."""
    with kernel.without_widgets():
        yield


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# ---------------------------------------------------------------------------- the card


@pytest.mark.slow
def test_card_comes_first_moves_and_stays(kernel, no_widgets, tmp_path):
    go = tmp_path / "go"
    cell = kernel.start(
        "%%jaxtrain steps -n 2 --devices-per-node 2\n"
        "import time\n"
        "from pathlib import Path\n"
        "from jupyter_jax_trainer import report\n"
        "print('hello')\n"
        "for i in range(30):\n"
        "    report(step=i + 1, total=30, loss=1 / (i + 1))\n"
        "    time.sleep(0.05)\n"
        f"    while i == 9 and not Path({str(go)!r}).exists(): time.sleep(0.05)\n"
    )
    cell.until_text("10/30")
    go.touch()
    cell.finish()
    assert cell.reply["status"] == "ok"
    outputs = [
        m["msg_type"] for _, m in cell.messages if m["msg_type"] in ("display_data", "stream")
    ]
    assert outputs[0] == "display_data"
    texts = [data["text/plain"].splitlines()[0] for _, data in cell.cards()]
    assert texts[0].startswith("steps: Sending · 2 nodes × 2 CPU devices")
    assert any(re.search(r"Running .* 1?\d/30  loss 0\.\d+", text) for text in texts)
    assert any(re.search(r"width:\d+\.\d%", data["text/html"]) for _, data in cell.cards())
    assert any("about" in text and "left" in text for text in texts)
    assert re.fullmatch(
        r"steps: Succeeded · 2 nodes × 2 CPU devices · [\d.]+ s · 30/30  loss 0\.03333", texts[-1]
    )
    assert "Succeeded" in cell.card["text/html"] and "width:100.0%" in cell.card["text/html"]
    assert "attach" not in cell.card["text/html"]  # it is over
    for states in cell.updates().values():  # four a second, and what comes at start and end
        assert len(states) <= 4 * (states[-1][0] - states[0][0]) + 3


def test_card_says_what_is_sent_before_it_is_and_show_says_it_later(kernel):
    kernel.run("import numpy as np\nbig = np.ones((1000, 300))\ndef double(x):\n    return 2 * x")
    cell = kernel.run("%%jaxtrain sent -o total\ntotal = double(big).sum()")
    first = cell.cards()[0][1]
    for kind in ("text/html", "text/plain"):
        data = first[kind]
        assert "sending big float64[1000,300] 2.4 MB, double function" in data
    text = cell.card["text/plain"]
    assert re.search(r"^brought back total \S+ \d+ B$", text, re.MULTILINE), text
    assert "big" not in text  # once it is over, `show` has it
    shown = kernel.run("%jaxtrain show sent").text
    assert re.search(r"big +float64\[1000,300\] +2\.4 MB", shown)
    assert re.search(r"double +function +\d", shown)


def test_warning_from_ten_megabytes(kernel):
    kernel.run("import numpy as np\nlarge = np.zeros(1_500_000)\nsmall = np.zeros(1_000_000)")
    cell = kernel.run("%%jaxtrain\nlarge.sum();")
    large = say_of_api.LARGE(size="12 MB", variables="large float64[1500000] 12 MB")
    assert cell.shown[0].startswith(large)
    assert "with the cell" not in kernel.run("%%jaxtrain\nsmall.sum();").text


def test_dry_run_says_what_would_be_sent_and_starts_nothing(kernel):
    before = sorted(kernel.home.glob("jobs/*"))
    kernel.run("step = 3")
    cell = kernel.run("%%jaxtrain dry -n 2 -o y --dry-run\ny = step + 1")
    assert say.DRY_RUN.text.partition(".")[0] in cell.text and "2 nodes" in cell.text
    assert re.search(r"step +value +int", cell.text) and "brought back: y" in cell.text
    assert sorted(kernel.home.glob("jobs/*")) == before


def test_name_of_an_ended_job_is_numbered_and_the_cell_says_so(kernel):
    kernel.run("%%jaxtrain twice\n1;")
    for cell in (kernel.run("%%jaxtrain twice\n1;"), kernel.run("%%jaxtrain twice --detach\n1;")):
        name = re.search(r"twice is taken .*(twice-\d)", cell.text)
        assert name is not None, cell.text
        assert (kernel.home / "jobs" / name[1]).is_dir()


def test_hostile_text_is_harmless(kernel):
    cell = kernel.run(
        "%%jaxtrain\n"
        "from jupyter_jax_trainer import report\n"
        "import time\n"
        "evil = '<script>alert(1)</script>\\x1b]52;c;aGk=\\x07\\x1b]8;;http://x\\x07\\x1b[2J\\u202e'\n"
        "report({evil: 1.0, '<img src=x>': 2}, step=1, total=2)\n"
        "print(evil, end='', flush=True)\n"
        "time.sleep(0.8)\n"
        "print()\n"
        "raise ValueError(evil)\n",
        fails=True,
    )
    for _, data in cell.cards():
        assert "<script" not in data["text/html"] and "<img" not in data["text/html"]
    assert any("&lt;script&gt;alert(1)" in data["text/html"] for _, data in cell.cards())
    # What a terminal or a page could take for a command is in none of the messages.
    for _, message in cell.messages:
        text = json.dumps(
            message["content"].get("data")
            or message["content"].get("traceback")
            or message["content"].get("text")
            or "",
            ensure_ascii=False,
        )
        assert not re.search(r"\\u001b(?!\[[0-9;]*m)|\u202e|\x9b|\\u0007", text), text


# ---------------------------------------------------------------------------- the log


@pytest.mark.slow
def test_lines_arrive_while_the_job_runs(kernel):
    cell = kernel.start(
        "%%jaxtrain\nimport time\nfor i in range(12):\n    print('at', time.time(), flush=True)\n"
        "    time.sleep(0.4)\n"
    )
    late = []
    while len(late) < 12:
        message = cell.until(lambda m: m["msg_type"] == "stream" and "at " in m["content"]["text"])
        late += [
            time.time() - float(t) for t in re.findall(r"at (\S+)", message["content"]["text"])
        ]
    cell.finish()
    assert sorted(late)[5] < 0.5, late  # hiccups of a busy machine are forgiven


def test_figures_and_displays_stand_between_the_lines_around_them(kernel):
    cell = kernel.run(
        "%%jaxtrain\n"
        "import matplotlib.pyplot as plt\n"
        "from IPython.display import display, HTML, Markdown\n"
        "print('one')\n"
        "plt.plot([1, 2])\n"
        "plt.show()\n"
        "print('two', end='')\n"
        "display(HTML('<b>bold</b>'), Markdown('*m*'))\n"
        "print('three')\n"
        "class Table:\n"
        "    def _repr_html_(self):\n"
        "        return '<table></table>'\n"
        "display(Table())\n"
        "print('four')\n"
        "plt.plot([3])\n"  # never closed
        "figure, axes = plt.subplots()\n"
        "{'a': 1}\n"
    )
    kinds = []
    for output in cell.outputs[1:]:
        data = output.get("data", {})
        extra = [m for m in ("image/png", "text/html", "text/markdown") if m in data]
        kinds.append(output.get("text") or (extra[0] if extra else data["text/plain"]))
    assert kinds == [
        "one\n",
        "image/png",
        "two\n",
        "text/html",
        "text/markdown",
        "three\n",
        "text/html",
        "four\n",
        "{'a': 1}",
        "image/png",
        "image/png",
    ]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("1 + 1", ["2"]),
        ("1 + 1;", []),
        ("None", []),
        ("x = 1", []),
        ("display('a'); 3", ["'a'", "3"]),
    ],
)
def test_last_expression(kernel, code, shown):
    assert kernel.run(f"%%jaxtrain\n{code}").shown[1:] == shown


def test_figure_as_last_expression(kernel):
    cell = kernel.run("%%jaxtrain\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nfig")
    pictures = [o for o in cell.outputs if "image/png" in o.get("data", {})]
    assert len(pictures) == 2  # as in a notebook: the value, and the figure that was left open


def test_progress_bars_are_one_line(kernel, no_widgets, tmp_path):
    kernel.run(f"folder = {str(tmp_path)!r}")
    cell = kernel.start(
        "%%jaxtrain\n"
        "import os, sys, time\n"
        "for i in range(2000):\n"
        "    sys.stderr.write(f'\\r{i + 1:5}/2000 |' + '#' * 80 + '|')\n"
        "    sys.stderr.flush()\n"
        "    while i in (500, 1500) and not os.path.exists(f'{folder}/seen-{i}'): time.sleep(0.01)\n"
        "print()\n"
        "for i in range(5):\n"
        "    print(f'{i}\\r', end='')\n"
        "sys.stderr.write('\\rend of it')\n"  # like tqdm, without a newline
    )
    for number in (500, 1500):
        cell.until_text(f"{number + 1:5}/2000 |")
        (tmp_path / f"seen-{number}").touch()
    cell.finish()
    assert cell.shown[1].splitlines() == [" 2000/2000 |" + "#" * 80 + "|", "end of it"]
    live = [
        m[1]
        for _, d in cell.cards()
        if (m := re.search(r"<pre[^>]*> *(\d+)/2000 ", d["text/html"]))
    ]
    assert "1501" in live and "501" in live, live  # in the card while it moves
    assert "<pre" not in cell.card["text/html"]


def test_colours_stay(kernel):
    cell = kernel.run("%%jaxtrain\nprint('\\x1b[32mgreen\\x1b[0m \\x1b[1;31mred')\nprint('plain')")
    assert cell.shown[1] == "\x1b[32mgreen\x1b[0m \x1b[1;31mred\x1b[0m\nplain\n"


@pytest.mark.slow
def test_a_million_lines_are_bounded(kernel):
    cell = kernel.run(
        "%%jaxtrain million\n"
        "import time\n"
        "for i in range(1_000_000):\n"
        "    print('line', i)\n"
        "    if i % 100_000 == 0: time.sleep(0.2)\n"
        "display('a figure')\n"
        "print('after it')\n"
    )
    times = [at for at, _ in cell.messages]
    sizes = [len(json.dumps(m["content"])) for _, m in cell.messages]
    for at in times:
        within = [size for t, size in zip(times, sizes, strict=True) if at <= t < at + 1]
        assert len(within) < 200 and sum(within) < 1_000_000
    head, window, figure, after = cell.shown[1:]
    assert head.splitlines()[0] == "line 0" and head.splitlines()[-1] == "line 499"
    first, *last = window.splitlines()
    log = kernel.home / "jobs" / "million" / "logs" / "rank-0.log"
    assert first == say_of_views.LINES_LEFT_OUT(count=999_480, where=log)
    assert last == [f"line {i}" for i in range(999_980, 1_000_000)]
    assert (figure, after) == ("'a figure'", "after it")
    assert log.read_text().count("\n") == 1_000_001


def test_giant_line_bad_bytes_and_many_displays(kernel):
    cell = kernel.run(
        "%%jaxtrain\n"
        "import sys\n"
        "print('x' * 50_000_000)\n"
        "sys.stdout.flush()\n"
        "sys.stdout.buffer.write(b'bad \\xff\\xfe nul \\x00 end\\n')\n"
        "sys.stdout.buffer.flush()\n"
        "for i in range(1000): display(i)\n"
    )
    assert sum(len(json.dumps(m["content"])) for _, m in cell.messages) < 300_000
    giant, bad = cell.shown[1].splitlines()
    assert giant.startswith("xxx") and giant.endswith(" …") and len(giant) < 2100
    assert bad == "bad \ufffd\ufffd nul ␀ end"
    assert cell.shown[-2:] == ["199", f"{say_of_views.DISPLAYS_LEFT_OUT(count=200)}\n"]


def test_what_is_displayed_keeps_its_place_though_the_supervisor_is_late(kernel):
    cell = kernel.run(
        "%%jaxtrain\n"
        "import os, signal, time\n"
        "print('two', end='', flush=True)\n"
        "os.kill(os.getppid(), signal.SIGSTOP)\n"
        "display('between')\n"
        "print('three', end='', flush=True)\n"
        "time.sleep(0.5)\n"
        "os.kill(os.getppid(), signal.SIGCONT)\n"
    )
    assert cell.shown[1:] == ["two\n", "'between'", "three\n"]


def test_logs_command_follows_within_bounds(kernel):
    kernel.run(
        "%%jaxtrain chatty --detach\nimport time\nfor i in range(300_000): print(i)\n"
        "time.sleep(1)\nprint('last')"
    )
    for _ in ("while it runs", "after its end"):
        cell = kernel.run("%jaxtrain logs chatty --follow")
        assert len(cell.messages) < 700 and sum(len(str(m)) for _, m in cell.messages) < 1_500_000
        head, window = cell.shown
        assert head.startswith("0\n1\n") and window.splitlines()[-1] == "last"
        assert "not shown" in window and f"in {kernel.home}/jobs/chatty/logs" in window


def test_display_ids_update_what_was_shown(kernel):
    cell = kernel.run(
        "%%jaxtrain\n"
        "h = display('one', display_id=True)\n"
        "print('between')\n"
        "h.update('two')\n"
        "from IPython.display import DisplayHandle, HTML, clear_output, update_display\n"
        "other = DisplayHandle()\n"
        "other.display(HTML('<b>1</b>'))\n"
        "update_display(HTML('<b>2</b>'), display_id=other.display_id)\n"
        "clear_output(wait=True)\n"
        "display('three', display_id='mine').display('four')\n"
        "update_display('five', display_id='mine')\n"
        "update_display('of nothing', display_id='unknown')\n"
        "print('end')\n"
    )
    assert cell.shown[1] == "'two'" and cell.shown[2] == "between\n"
    assert cell.outputs[3]["data"]["text/html"] == "<b>2</b>"
    assert cell.shown[4:] == ["'five'", "'five'", "end\n"]
    again = kernel.run("%%jaxtrain\ndisplay('mine too', display_id='mine');")
    names = {o["transient"]["display_id"] for c in (cell, again) for o in c.outputs if "data" in o}
    assert len(names) == 6  # of two jobs none is the other's


def test_many_updates_of_a_display_are_bounded(kernel):
    cell = kernel.run(
        "%%jaxtrain\nh = display(0, display_id=True)\n"
        "for i in range(3000): h.update(i)\nprint('done')\n"
    )
    assert len(cell.messages) < 100 and cell.shown[1:] == ["2999", "done\n"]


# ---------------------------------------------------------------------------- failures, results


def test_failure_shows_the_first_rank_and_the_cells_lines_in_colour(kernel):
    cell = kernel.run(
        "%%jaxtrain broken -n 3\nimport jax\ndef pick(batch):\n    return batch['labels']\n\n"
        "if jax.process_index() == 1:\n    pick({})\n",
        fails=True,
    )
    assert cell.reply["ename"] == "JobFailed"
    error = "\n".join(cell.outputs[-1]["traceback"])
    lines = plain(error).splitlines()
    assert lines[0] == (
        "JobFailed: Job 'broken' failed: rank 1 failed first: KeyError: 'labels' (cell line 4)"
    )
    assert "  Cell, line 7, in <module>" in lines and "    return batch['labels']" in lines
    assert "KeyError: 'labels'" in lines
    assert say_of_jobs.STOPPED_BECAUSE_OF_IT(ranks="Ranks 0 and 2") in lines
    assert "\x1b[31mKeyError\x1b[0m" in error and "\x1b[32m  Cell, line 7\x1b[0m" in error
    assert "site-packages" not in error and "jupyter_jax_trainer" not in error
    assert "Failed" in cell.card["text/html"] and "KeyError" not in cell.card["text/html"]


@pytest.mark.parametrize("nodes", [1, 2])
def test_failure_of_rank_0_is_told_once(kernel, nodes):
    cell = kernel.run(
        f"%%jaxtrain -n {nodes}\nimport time, traceback\n"
        "try:\n    {}['caught']\nexcept KeyError:\n    traceback.print_exc()\n"
        "print('before')\nfrom jax.experimental import multihost_utils\n"
        "multihost_utils.sync_global_devices('all have printed')\ntime.sleep(0.3)\n1 / 0",
        fails=True,
    )
    card, log, error = cell.shown
    assert "Traceback" not in card and "ZeroDivisionError" not in card
    assert "KeyError: 'caught'" in log and log.endswith("before\n") and "Zero" not in log
    assert plain(error).count("Traceback (most recent") == 1
    name = re.search(r"Job '(.*?)'", plain(error))[1]
    assert "ZeroDivisionError" in kernel.run(f"%jaxtrain logs {name} --rank 0").text


def test_giant_exception_is_bounded(kernel):
    cell = kernel.run("%%jaxtrain giant\nraise ValueError('x' * 1_000_000)", fails=True)
    said = [m["content"] for _, m in cell.messages if m["msg_type"] != "comm_open"]  # its script
    assert sum(len(json.dumps(content)) for content in said) < 100_000
    assert all(len(data["text/plain"]) < 1000 for _, data in cell.cards())
    assert len(kernel.run("%jaxtrain show giant").text) < 30_000


def test_unusable_store_is_one_sentence(kernel):
    kernel.run(
        "import os; kept = os.environ['JAXTRAIN_HOME']; os.environ['JAXTRAIN_HOME'] = '/proc/foo'"
    )
    try:
        cell = kernel.run("%%jaxtrain\n1", fails=True)
        error = plain("\n".join(cell.outputs[-1]["traceback"])).splitlines()
        words = say_of_jobs.STORE_UNUSABLE(path="/proc/foo", error="ERROR").partition("ERROR")[0]
        assert len(error) == 2 and error[0].startswith(f"BackendError: {words}")
        kernel.run("os.environ['JAXTRAIN_HOME'] = '/dev/null'")
        cell = kernel.run("%jaxtrain jobs", fails=True)
        words = say_of_jobs.STORE_UNUSABLE(path="/dev/null", error="Not a directory")
        assert words in plain(cell.text)
        assert len(cell.outputs[-1]["traceback"]) == 2
    finally:
        kernel.run("os.environ['JAXTRAIN_HOME'] = kept")


@pytest.mark.slow
def test_run_all_stops_at_a_failed_job(tmp_path, home, monkeypatch):
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    sources = [
        "%load_ext jupyter_jax_trainer",
        "%%jaxtrain one\n1",
        "%%jaxtrain two\n1 / 0",
        "%%jaxtrain three\n3",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    assert sorted(path.name for path in home.glob("jobs/*")) == ["one", "two"]
    assert "Succeeded" in notebook.cells[1].outputs[0]["data"]["text/plain"]  # what is saved
    assert "Failed" in notebook.cells[2].outputs[0]["data"]["text/plain"]


@pytest.mark.slow
def test_results_come_back_and_can_be_had_later_elsewhere(kernel, tmp_path):
    cell = kernel.run(
        "%%jaxtrain kept -n 2 -o weights,name\nimport jax.numpy as jnp\n"
        "weights = {'w': jnp.ones((3, 2))}\nname = 'n'"
    )
    assert re.search(
        r"brought back weights dict of 1 \d+ B, name str \d+ B", cell.card["text/plain"]
    )
    assert kernel.value("(weights['w'].shape, name)") == "((3, 2), 'n')"
    with kernels.running(kernel.home, tmp_path) as other:
        shown = other.run("%jaxtrain result kept").text
        assert re.search(r"weights +dict of 1", shown)
        assert other.value("(name, float(weights['w'].sum()))") == "('n', 6.0)"


def test_variable_that_was_never_set_is_an_error_and_the_others_come(kernel):
    cell = kernel.run("%%jaxtrain -o here,gone\nhere = 5\nif here > 9:\n    gone = 1\n", fails=True)
    assert cell.reply["ename"] == "ResultError"
    error = plain("\n".join(cell.outputs[-1]["traceback"]))
    assert "gone" in error and "never set" in error and "here came back" in error
    assert kernel.value("here") == "5"


def test_report_and_checkpoints_inside_and_outside(kernel):
    outside = kernel.run(
        "from jupyter_jax_trainer import report, checkpoint_dir\nreport(step=1, total=4, loss=0.5)"
    )
    assert outside.text == "step 1/4  loss 0.5\n"
    cell = kernel.run(
        "%%jaxtrain nan -o where\n"
        "report(step=1, total=4, loss=float('nan'))\n"
        "(checkpoint_dir() / 'file').write_text('x')\n"
        "where = str(checkpoint_dir())\n"
    )
    assert "1/4  loss nan" in cell.card["text/plain"] and "loss nan" in cell.card["text/html"]
    kept = kernel.home / "jobs" / "nan" / "checkpoints"
    assert kernel.value("where") == repr(str(kept)) and (kept / "file").read_text() == "x"


def test_detached_jobs_run_side_by_side_and_are_attached(kernel, tmp_path):
    code = (
        "%%jaxtrain {0} --detach -o out\nimport os, time\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "print('{0} here')\nout = 1"
    )
    cells = [kernel.run(code.format(name)) for name in ("left", "right")]
    (tmp_path / "go").touch()  # neither cell has waited for its job
    assert "Job left was started." in cells[0].text and "%jaxtrain attach left" in cells[0].text
    for name in ("left", "right"):
        attached = kernel.run(f"%jaxtrain attach {name}")
        assert "Succeeded" in attached.card["text/plain"]
        loaded = say_of_commands.LOADED_IN_NOTEBOOK(names="out")
        assert attached.shown[-1] == f"{name} here\n{loaded}\n"
        assert kernel.value("out") == "1"
        kernel.run("del out")


# ---------------------------------------------------------------------------- other ways to run


def run_tool(arguments, home, cwd):
    import os

    environment = {**os.environ, "JAXTRAIN_HOME": str(home), "JUPYTER_PREFER_ENV_PATH": "1"}
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        text=True,
        capture_output=True,
        timeout=100,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["nbconvert", "papermill"])
def test_headless_tools(tool, tmp_path, home):
    import nbformat

    sources = [
        "%load_ext jupyter_jax_trainer",
        "%%jaxtrain job -n 2 -o x\nfrom jupyter_jax_trainer import report\n"
        "print('hello')\nreport(step=2, total=2)\nx = 7",
        "assert x == 7",
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "in.ipynb")
    arguments = {
        "nbconvert": ["nbconvert", "--to", "notebook", "--execute", "--output", "out", "in.ipynb"],
        "papermill": ["papermill", "-k", "python3", "in.ipynb", "out.ipynb"],
    }[tool]
    done = run_tool(arguments, home, tmp_path)
    assert done.returncode == 0, done.stderr
    card, text = nbformat.read(tmp_path / "out.ipynb", 4).cells[1].outputs
    assert (
        "job: Succeeded · 2 nodes" in card["data"]["text/plain"]
        and "2/2" in card["data"]["text/html"]
    )
    assert text["text"] == "hello\n"
    page = run_tool(["nbconvert", "--to", "html", "out.ipynb"], home, tmp_path)
    assert page.returncode == 0, page.stderr
    assert "Succeeded" in (tmp_path / "out.html").read_text()


def test_loading_imports_nothing_large():
    code = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\nbefore = set(sys.modules)\n"
        "shell.run_line_magic('load_ext', 'jupyter_jax_trainer')\n"
        "loaded = set(sys.modules) - before\n"
        "names = {name.partition('.')[0] for name in loaded}\n"
        "print(sorted(names & {'jax', 'numpy', 'kubernetes', 'ipywidgets', 'pandas', 'cloudpickle'}))\n"
        "print('jupyter_jax_trainer.commands' in loaded)\n"
        "print(shell.object_inspect('%jaxtrain')['docstring'])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    large, commands, *docstring = done.stdout.splitlines()
    assert (large, commands) == ("[]", "False")
    assert "  attach [NAME]" in "\n".join(docstring), "what `%jaxtrain?` shows"
