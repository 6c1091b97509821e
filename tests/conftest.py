"""Fixtures that all tests share, and the watch over skipped tests (see policy.py)."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import other_python as pythons
import policy
import pytest
from hypothesis import settings
from pace import Deadline
from procfs import open_files, processes_of

GRACE_S = 5.0  # in which processes of a job that has ended must be gone

_left_out: Counter[str] = Counter()

# No test fails because the machine was busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


# ---------------------------------------------------------------------------- skipped tests


def _refuse_skip(report: Any) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if not policy.allowed(reason):
        report.outcome = "failed"
        report.longrepr = (
            f"{report.nodeid} was skipped, and a skip is a failure here.\n{reason}\n"
            f"Only tests that lack one of these may be skipped: {', '.join(policy.MAY_LACK)}."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    _refuse_skip(report)
    return report


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        marked = (mark for mark in ("release", "slow") if item.get_closest_marker(mark))
        _left_out[next(marked, "not chosen")] += 1


# Of several processes each has the same tests before it, and the one that starts them tells of it.
def pytest_sessionfinish(session: pytest.Session) -> None:
    getattr(session.config, "workeroutput", {})["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _left_out.update(Counter(getattr(node, "workeroutput", {}).get("left_out")) - _left_out)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = Counter(
        re.sub(r"^Skipped: ", "", str(report.longrepr[2]))
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if not skipped and not _left_out:
        return
    terminalreporter.section("what did not run, and why")
    for reason, count in sorted(skipped.items()):
        terminalreporter.line(f"{count:4} skipped: {reason}")
    why = {
        "slow": "slow: `make test-all` runs them",
        "release": "for releases: `make test-release` runs them",
    }
    for reason, count in sorted(_left_out.items()):
        terminalreporter.line(f"{count:4} left out: {why.get(reason, 'not chosen by the options')}")


# ---------------------------------------------------------------------------- turns


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the time-out: waiting does not count
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Let a test that uses the cluster wait for its turn (cluster/turns.py)."""
    with contextlib.ExitStack() as stack:
        # Tests that start pytest do so within a turn of theirs.
        if item.get_closest_marker("cluster") and "JAXTRAIN_TURN" not in os.environ:
            from cluster import turns

            alone = item.get_closest_marker("disruptive") is not None
            stack.enter_context(turns.mine().held(alone=alone))
        return (yield)


# ---------------------------------------------------------------------------- home


def warm_starts(home: Path) -> set[int]:
    """Return the ids of the warm-start processes: those that listen on a socket under run/."""
    inodes = set()
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        listening = len(fields) == 8 and int(fields[3], 16) & 0x10000
        path = home / "run" / Path(fields[7]).name if len(fields) == 8 else home
        if listening and path.name.startswith("warm") and path.exists():
            inodes.add(f"socket:[{fields[6]}]")
    found = set()
    for pid in processes_of(home):
        with contextlib.suppress(OSError):
            if inodes & open_files(pid):
                found.add(pid)
    return found


def _end(pids: Iterable[int], how: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)


def end_processes_of(home: Path) -> dict[int, str]:
    """End the warm start of ``home``, and return what else runs on after a moment's grace.

    What is left is killed, so that it cannot disturb the next test.
    """
    deadline = Deadline(GRACE_S)
    while True:
        left = processes_of(home)
        if left:
            warm = warm_starts(home)
            _end(warm, signal.SIGTERM)
            left = {pid: command for pid, command in left.items() if pid not in warm}
        if not left or deadline.passed:
            break
        time.sleep(0.05)
    _end(processes_of(home), signal.SIGKILL)
    return left


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> Iterator[Path]:
    """Give the test a JAXTRAIN_HOME of its own; no process of it may outlive the test."""
    # Not under tmp_path, which holds the test's name: a Unix socket's path has 107 bytes at most.
    root = tmp_path_factory.mktemp("home")
    root.chmod(0o700)
    monkeypatch.setenv("JAXTRAIN_HOME", str(root))
    yield root
    left = end_processes_of(root) if Path("/proc").is_dir() else {}
    if left:
        lines = "\n".join(f"  {pid}: {command}" for pid, command in left.items())
        pytest.fail(f"processes outlived the test by {GRACE_S:.0f} s:\n{lines}", pytrace=False)


@pytest.fixture(scope="module")
def _module_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("store")
    root.chmod(0o700)
    yield root
    left = end_processes_of(root)
    assert not left, f"processes outlived the module: {left}"


@pytest.fixture
def store(_module_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a JAXTRAIN_HOME that the tests of a module share, and its warm process with it."""
    monkeypatch.setenv("JAXTRAIN_HOME", str(_module_store))
    monkeypatch.setenv("JAXTRAIN_CORES", "64")  # these tests do not wait for each other's jobs
    return _module_store


@pytest.fixture(params=["warm", pytest.param("cold", marks=pytest.mark.slow)])
def start(request: pytest.FixtureRequest, store: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with the warm start and, as a slow test, with the cold one."""
    monkeypatch.setenv("JAXTRAIN_WARM", "1" if request.param == "warm" else "0")
    return str(request.param)


# ---------------------------------------------------------------------------- other Pythons


@pytest.fixture(scope="session")
def jax_only_python() -> Path:
    """Return a Python of the running minor with jax, and nothing else, installed."""
    return _made("jax-only", pythons.jax_only)


@pytest.fixture(scope="session")
def other_python() -> Path:
    """Return a Python of another minor with jax, and nothing else, installed."""
    return _made("other-python", pythons.other)


def _made(part: str, make: Any) -> Path:
    try:
        return make()
    except pythons.Unavailable as error:
        policy.skip_or_fail(part, str(error))
