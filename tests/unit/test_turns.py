import fcntl
import subprocess
import sys
import textwrap
from pathlib import Path

from cluster.turns import Turn
from harness import eventually

ROOT = Path(__file__).parents[1]


def other(folder, alone):
    """Start a process that takes a turn, says so, and gives it back when told."""
    code = f"""
        import sys
        from pathlib import Path
        from cluster.turns import Turn
        with Turn(Path({str(folder)!r})).held(alone={alone}):
            print("there", flush=True)
            sys.stdin.readline()
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def waits(process):
    try:
        process.wait(0.3)
    except subprocess.TimeoutExpired:
        return True
    return False


def is_shut(folder):
    """Return whether somebody waits at the gate to be alone."""
    with (folder / "gate").open() as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def ends(process):
    process.communicate("go\n", timeout=20)
    return process.returncode == 0


def test_many_at_a_time_or_one_alone(tmp_path):
    turn = Turn(tmp_path)
    with turn.held(alone=False):
        beside = other(tmp_path, alone=False)
        assert beside.stdout.readline() == "there\n"
        assert ends(beside)
        lonely = other(tmp_path, alone=True)
        eventually(lambda: is_shut(tmp_path))
        assert waits(lonely)
        late = other(
            tmp_path, alone=False
        )  # behind the one that waits, or that would wait for ever
        assert waits(late)
    assert lonely.stdout.readline() == "there\n"
    assert waits(late)
    assert ends(lonely)
    assert late.stdout.readline() == "there\n" and ends(late)


def test_alone_for_a_part_of_a_turn(tmp_path):
    turn = Turn(tmp_path)
    with turn.held(alone=False):
        with turn.alone():
            beside = other(tmp_path, alone=False)
            assert waits(beside)
        assert beside.stdout.readline() == "there\n"
        assert ends(beside)


def test_a_process_that_dies_gives_its_turn_back(tmp_path):
    lonely = other(tmp_path, alone=True)
    assert lonely.stdout.readline() == "there\n"
    lonely.kill()
    lonely.communicate()
    with Turn(tmp_path).held(alone=True):
        pass
