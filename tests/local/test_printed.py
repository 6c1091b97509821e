"""What ranks print, however much and however odd, comes through and changes nothing else."""

from __future__ import annotations

import json

import pytest
from harness import run, submit, text

from jupyter_jax_trainer.logs.reader import MAX_LINE
from jupyter_jax_trainer.views import follow as display

pytestmark = pytest.mark.usefixtures("store")


def shown(job, capsys) -> str:
    """Follow an ended job as a terminal does, and give what it showed."""
    capsys.readouterr()
    display.follow(job)
    return capsys.readouterr().out


@pytest.mark.slow
def test_a_burst_of_a_million_lines(capsys):
    job = run("for n in range(10**6):\n    print('line', n)\nprint('end')", line="-n 2")
    assert job.state == "Succeeded"
    for rank in range(2):
        data = (job.directory / "logs" / f"rank-{rank}.log").read_bytes()
        lines = [line for line in data.splitlines() if not line.startswith(b"[Gloo]")]
        assert lines == [*(b"line %d" % n for n in range(10**6)), b"end"]
    assert [line.text for line in job.logs(tail=2, rank=0)] == ["line 999999", "end"]
    assert sum(1 for _ in job.logs(1)) == 10**6 + 1


def test_a_line_of_50_megabytes(capsys):
    job = run("import jax\nif jax.process_index() == 1:\n    print('x' * 50_000_000)\nprint('end')")
    assert (job.directory / "logs" / "rank-1.log").stat().st_size > 50_000_000
    long, end = job.logs(1)
    assert len(long.text) < 2 * MAX_LINE
    assert long.text.endswith("cut)")
    assert end.text == "end"
    assert "end" in shown(job, capsys)


ODD = {
    "invalid UTF-8": (b"caf\xe9 \xff\xfe ok\n", "caf\ufffd \ufffd\ufffd ok"),
    "NUL bytes": (b"a\x00b\x00\x00c\n", "a\x00b\x00\x00c"),
    "no newline at the end": (b"the last words", "the last words"),
    "a surrogate": ("print('\\ud800')", "\\ud800"),
    "frames": (
        b'{"kind": "finished"}\n{"kind":"error","type":"E","message":"m","traceback":"",'
        b'"secondary":false}\n',
        '{"kind": "finished"}',
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_bytes_are_kept_and_shown_harmlessly(what, capsys):
    printed, expected = ODD[what]
    cell = printed if isinstance(printed, str) else f"import os\nos.write(1, {printed!r})\n"
    job = run(cell + ("" if isinstance(printed, str) else "os.write(2, b'')\n"))
    assert job.state == "Succeeded"
    assert job.failure is None
    assert [rank.state for rank in job.ranks] == ["Finished", "Finished"]
    if isinstance(printed, bytes):
        assert printed in (job.directory / "logs" / "rank-1.log").read_bytes()
    assert expected in text(job, 1)
    out = shown(job, capsys)
    assert "\x00" not in out


def test_records_that_a_cell_forges_on_its_output_do_not_count():
    forged = [
        {"kind": "reports", "reports": [{"time": 0, "step": 9, "total": 9, "values": {}}]},
        {"kind": "results", "results": [{"name": "x", "type": "int", "size": 1}]},
        {"kind": "stopped", "because": 0},
    ]
    lines = "\n".join(json.dumps(record) for record in forged)
    job = run(f"print({lines!r})")
    assert job.state == "Succeeded"
    assert job.progress is None
    assert job.results_info == []
    assert job.metrics() == []


def test_what_a_cell_writes_into_files_that_it_did_not_open_does_no_harm():
    noise = b'noise\n[1]\n{}\n{"kind": "reports"}\n{"kind": "unheard"}\n'
    cell = (
        f"import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, {noise!r})\n"
        "    except OSError:\n        pass\n"
    )
    job = run(cell)
    assert job.state == "Succeeded"
    assert [event["kind"] for event in job.events()].count("warning") >= 2


def test_what_was_printed_last_is_there_whatever_ended_the_rank():
    import contextlib

    from jupyter_jax_trainer.errors import JobFailed

    for last in ("os._exit(3)", "os.abort()", "sys.exit(3)", "1 / 0"):
        job = submit(f"import os, sys\nprint('last words', end='')\n{last}")
        with contextlib.suppress(JobFailed):
            job.wait(60)
        assert "last words" in text(job, 0) or "last words" in text(job, 1), last


def test_what_child_processes_print_comes_in_its_order():
    job = run(
        "import os, subprocess\n"
        "for n in range(40):\n"
        "    print('ours', n)\n"
        "    os.system(f'echo a shell {n}')\n"
        "    print('ours again', n)\n"
        "    subprocess.run(['echo', f'a program {n}'])\n"
        "print('before')\n"
        "if os.fork() == 0:\n"
        "    print('a fork')\n"
        "    import sys; sys.stdout.flush(); os._exit(0)\n"
        "os.wait()\n",
        line="-n 1",
    )
    wanted = [
        line
        for n in range(40)
        for line in (f"ours {n}", f"a shell {n}", f"ours again {n}", f"a program {n}")
    ]
    assert text(job, 0).splitlines() == [*wanted, "before", "a fork"]
