"""Jobs in a terminal: plain IPython and the command line, on a real pseudo-terminal or in pipes."""

import json
import os
import re
import subprocess
import sys
import time

import pexpect
import pytest
from harness import eventually

WAITS = (
    "import time\nfrom pathlib import Path\nfrom jupyter_jax_trainer import report\n"
    "print('running', flush=True)\nreport(step=1, total=4, loss=0.5)\n"
    "while not Path({!r}).exists(): time.sleep(0.05)\nprint('seen')\n"
)


def jaxtrain(*words, cwd=None, **options):
    return subprocess.run(
        [sys.executable, "-m", "jupyter_jax_trainer", *map(str, words)],
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
        **options,
    )


def spawn(*words, cwd):
    return pexpect.spawn(
        sys.executable,
        ["-m", *map(str, words)],
        cwd=str(cwd),
        timeout=30,
        encoding="utf-8",
        dimensions=(30, 100),
        env={**os.environ, "TERM": "xterm"},
    )


@pytest.fixture
def waiting(home, tmp_path):
    """A job `bg` that goes on until `tmp_path / "gate"` exists."""
    (tmp_path / "wait.py").write_text(WAITS.format(str(tmp_path / "gate")))
    done = jaxtrain("run", "wait.py", "bg", "-n", "2", "--detach", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    yield done
    jaxtrain("cancel", "bg")


def state(home, name):
    return json.loads((home / "jobs" / name / "state.json").read_text())["state"]


def test_run_a_file_in_pipes(home, tmp_path):
    (tmp_path / "fit.py").write_text(
        "import jax, sys\nfrom jupyter_jax_trainer import report\n"
        "report(step=3, total=3, loss=0.25)\nprint('hello from', jax.process_index())\n"
        "x = 5\nx * 2\n"
    )
    done = jaxtrain("run", "fit.py", "-n", "2", "-o", "x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello from 0\n10\n"  # the log alone: fit for a pipe
    lines = done.stderr.splitlines()
    assert re.fullmatch(r"fit-\w{4}: Succeeded · 2 nodes · .* · 3/3  loss 0\.25", lines[-3]), lines
    assert lines[-2].startswith("brought back x int") and lines[-1].endswith("` prints x.")
    name = lines[-3].partition(":")[0]
    assert jaxtrain("result", name).stdout == "x = 5\n"
    shown = jaxtrain("show").stdout
    assert name in shown and "Succeeded" in shown


def test_run_is_as_python_runs_a_script(home, tmp_path):
    (tmp_path / "beside.py").write_text("factor = 3\n")
    (tmp_path / "tr.py").write_text(
        "import sys\nfrom pathlib import Path\nimport beside\n"
        "print(sys.argv, Path(__file__).name, beside.factor)\n"
    )
    done = jaxtrain("run", tmp_path / "tr.py", "-n", "2", "--", "--lr", "0.5", cwd="/")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"['{tmp_path}/tr.py', '--lr', '0.5'] tr.py 3\n"


@pytest.mark.slow
def test_exit_codes(home, tmp_path):
    (tmp_path / "bad.py").write_text("def f():\n    raise ValueError('no')\nf()\n")
    failed = jaxtrain("run", "bad.py", "bad", cwd=tmp_path)
    assert failed.returncode == 1
    assert "ValueError: no" in failed.stderr and "raise ValueError('no')" in failed.stderr
    assert failed.stderr.count("Traceback") == 1 and "Traceback" not in failed.stdout
    assert jaxtrain("attach", "bad").returncode == 1
    for words in (["run", "none.py"], ["logs", "none"], ["nonsense"], ["run", "bad.py", "-n", "0"]):
        done = jaxtrain(*words, cwd=tmp_path)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert jaxtrain("logs", "bad").returncode == 0


def test_detached_says_how_to_come_back(home, waiting):
    assert "Job bg was started." in waiting.stdout
    assert "`jaxtrain attach bg`" in waiting.stdout and "%jaxtrain" not in waiting.stdout


@pytest.mark.slow
def test_attach_on_a_terminal_and_leave_with_ctrl_c(home, waiting, tmp_path):
    watch = spawn("jupyter_jax_trainer", "attach", "bg", cwd=tmp_path)
    watch.expect("running\r\n")
    watch.expect(r"bg: Running · 2 nodes · [\d.]+ s · .*1/4  loss 0\.5")  # the moving status line
    watch.sendcontrol("c")
    watch.expect("Detached. Job bg ")
    watch.expect("jaxtrain attach bg")
    watch.expect(pexpect.EOF)
    watch.close()
    assert watch.exitstatus == 0 and state(home, "bg") == "Running"

    again = spawn("jupyter_jax_trainer", "attach", "bg", cwd=tmp_path)
    again.expect("running\r\n")
    (tmp_path / "gate").touch()
    again.expect("seen\r\n")
    again.expect("bg: Succeeded")
    again.expect(pexpect.EOF)
    again.close()
    assert again.exitstatus == 0


@pytest.mark.slow
def test_ctrl_c_in_run_leaves_the_job_running(home, tmp_path):
    (tmp_path / "wait.py").write_text(WAITS.format(str(tmp_path / "gate")))
    run = spawn("jupyter_jax_trainer", "run", "wait.py", "fg", cwd=tmp_path)
    run.expect("running\r\n")
    run.sendcontrol("c")
    run.expect("`jaxtrain cancel fg` cancels it")
    run.expect(pexpect.EOF)
    assert state(home, "fg") == "Running"
    assert jaxtrain("cancel", "fg").stdout == "Job fg was cancelled.\n"
    assert state(home, "fg") == "Cancelled"


@pytest.mark.slow
def test_logs_follow_to_the_end(home, waiting, tmp_path):
    follow = subprocess.Popen(
        [sys.executable, "-m", "jupyter_jax_trainer", "logs", "bg", "-f", "--rank", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with follow:
        assert follow.stdout.readline() == "running\n"
        (tmp_path / "gate").touch()
        assert follow.stdout.read() == "seen\n"
        assert follow.wait(10) == 0


@pytest.mark.slow
def test_ctrl_c_in_logs_follow_is_quiet(home, waiting, tmp_path):
    follow = spawn("jupyter_jax_trainer", "logs", "bg", "--follow", cwd=tmp_path)
    follow.expect("running")
    follow.sendcontrol("c")
    follow.expect(pexpect.EOF)
    assert "Traceback" not in follow.before
    follow.close()
    assert follow.exitstatus == 130
    eventually(lambda: state(home, "bg") == "Running")


@pytest.mark.slow
def test_head_is_enough(home, tmp_path):
    (tmp_path / "many.py").write_text("for i in range(200_000): print(i)\n")
    assert jaxtrain("run", "many.py", "many", cwd=tmp_path).returncode == 0
    done = subprocess.run(
        f"set -o pipefail; {sys.executable} -m jupyter_jax_trainer logs many | head -3",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "0\n1\n2\n" and done.stderr == "" and done.returncode == 0


@pytest.mark.slow
def test_plain_ipython(home, tmp_path):
    shell = spawn("IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", cwd=tmp_path)

    def enter(text):  # a cell magic ends with two empty lines
        shell.sendline(f"{text}\n\n" if text.startswith("%%") else text)

    prompt = r"In \[\d+\]: "
    shell.expect(prompt)
    enter("%load_ext jupyter_jax_trainer")
    shell.expect(prompt)
    enter("factor = 21")
    shell.expect(prompt)
    enter("%%jaxtrain tty -n 2 -o y\nprint('from the job')\ny = 2 * factor")
    shell.expect("sending factor int")
    shell.expect("from the job\r\n")
    shell.expect(r"tty: Succeeded · 2 nodes")
    shell.expect(r"brought back y int")
    shell.expect(prompt)
    enter("y")
    shell.expect(r"Out\[\d+\]: 42")
    shell.expect(prompt)
    enter("%%jaxtrain long\nimport time\nprint('be' + 'gun', flush=True)\ntime.sleep(60)")
    shell.expect("begun")
    shell.sendcontrol("c")
    shell.expect("interrupt again")
    time.sleep(0.2)
    shell.sendcontrol("c")
    shell.expect("JobFailed.*cancelled")
    shell.expect(prompt)
    enter("exit")
    shell.expect(pexpect.EOF)
    assert state(home, "long") == "Cancelled"
