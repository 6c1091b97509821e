from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.errors import UsageError

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_jax_trainer"

AGAIN = "an interval: then it looks, tells or tries again"
FRESH = "how long something known is used again"
WORK = "bounds its own work, and waits for nobody"
# Numbers of seconds with which nothing is given up.
NO_TIMEOUTS = {
    ("channel/sockets.py", "_OLD"): "a file of that age",
    ("worker/pod/compilestore.py", "_OLD"): "an entry of that age",
    ("backends/kubernetes/api/client.py", "_FRESH"): FRESH,
    ("backends/kubernetes/api/objects.py", "_SKEW"): "a clock that is off by less is right",
    ("backends/kubernetes/control.py", "_AGAIN"): AGAIN,
    ("backends/kubernetes/api/counts.py", "_EVERY"): AGAIN,
    ("backends/kubernetes/follow/answering.py", "_TICK"): AGAIN,
    ("backends/kubernetes/follow/asker.py", "_AGAIN"): AGAIN,
    ("backends/kubernetes/follow/asker.py", "_LASTS"): "what is over sooner is not said",
    ("backends/kubernetes/follow/errands.py", "_KEEP"): AGAIN,
    ("backends/kubernetes/follow/session.py", "_LATE"): "this process was held up meanwhile",
    ("backends/kubernetes/follow/follower.py", "_AGAIN"): AGAIN,
    ("backends/kubernetes/follow/follower.py", "_ASK_AGAIN"): AGAIN,
    ("backends/kubernetes/follow/follower.py", "_POLL"): AGAIN,
    ("backends/kubernetes/follow/follower.py", "_TICK"): AGAIN,
    ("backends/kubernetes/follow/sending.py", "_INTERVAL"): AGAIN,
    ("backends/kubernetes/follow/sending.py", "_LOOK"): AGAIN,
    ("backends/kubernetes/follow/steering.py", "_PAUSE"): AGAIN,
    (
        "backends/kubernetes/api/watch.py",
        "_STEADY",
    ): "a connection that lasted longer ends a back-off",
    ("backends/local/supervisor.py", "_STARTED"): "imports wait for it; nothing ends",
    ("backends/local/supervisor.py", "_TICK"): AGAIN,
    ("capture/values.py", "SECONDS"): WORK,
    ("jobdir/job.py", "5.0"): WORK,
    ("jobdir/usage.py", "1.0"): "a rate of growth is over that at least",
    ("jobdir/writer.py", "_UNFINISHED"): "a line is indexed then, with or without its end",
    ("jobdir/writer.py", "_USAGE_INTERVAL"): AGAIN,
    ("worker/output.py", "_MOMENT"): "a fork goes on after it; nothing ends",
    ("worker/sampler.py", "_ARRAYS"): AGAIN,
    ("worker/usage.py", "_SEARCH"): AGAIN,
    ("jobdir/writer.py", "_SAVE_INTERVAL"): AGAIN,
    ("views/grouped.py", "_TOGETHER"): "output is shown then",
    ("queries/asking.py", "FRESH"): FRESH,
    ("queries/logtopics.py", "_ERROR_BUDGET"): WORK,
    ("queries/jobs.py", "_CHECK"): AGAIN,
    ("queries/jobs.py", "_FRESH"): FRESH,
    ("queries/jobs.py", "_SLOW"): AGAIN,
    ("queries/topics.py", "INTERVAL"): AGAIN,
    ("queries/topics.py", "_CHECK"): AGAIN,
    ("sharing/launcher.py", "GRACE"): "it runs without this package, and without its settings",
    ("views/follow.py", "_LONG"): "a note about ranks that have finished; nothing ends",
    ("views/notebook.py", "_INTERVAL"): AGAIN,
    ("views/terminal.py", "_INTERVAL"): AGAIN,
    ("widget/job.py", "INTERVAL"): AGAIN,
    ("worker/cachefolder.py", "_OLD"): "a file of that age",
    ("worker/pod/parent.py", "_RECENT"): "what is forgotten then; nothing ends",
    ("worker/pod/parent.py", "_TICK"): AGAIN,
    ("worker/pod/relay.py", "_TURN"): "others are asked meanwhile; nothing is given up",
    ("worker/pod/transfer.py", "_INTERVAL"): AGAIN,
    ("worker/rendezvous.py", "_ROUND"): AGAIN,
    ("backends/silence.py", "_AGAIN"): AGAIN,
}


@pytest.mark.parametrize("timeout", timeouts.ALL, ids=lambda each: each.variable)
def test_each_is_in_the_settings_with_what_it_is_without_a_variable(timeout):
    guide = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    (row,) = [line for line in guide.splitlines() if line.startswith(f"| `{timeout.variable}` |")]
    usual = row.split("|")[2]
    assert f"{timeout.usual:g}" in re.findall(r"[\d.]+", usual)


@pytest.mark.parametrize(
    "name", [n for n, v in vars(timeouts).items() if isinstance(v, timeouts.Timeout)]
)
def test_each_is_used_and_can_be_set(name, monkeypatch):
    timeout = getattr(timeouts, name)
    assert timeout in timeouts.ALL
    used = re.compile(rf"\btimeouts\.{name}\b")
    package = PACKAGE.rglob("*.py")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in package)
    monkeypatch.delenv(timeout.variable, raising=False)
    assert timeout.seconds == timeout.usual
    monkeypatch.setenv(timeout.variable, "0.25")
    assert timeout.seconds == 0.25


def test_what_a_job_is_given_is_checked_too():
    timeouts.check({"JAXTRAIN_TRANSFER_TIMEOUT": "5"})
    with pytest.raises(UsageError, match="JAXTRAIN_TRANSFER_TIMEOUT"):
        timeouts.check({"JAXTRAIN_TRANSFER_TIMEOUT": "-5"})


# ---- nothing waits for so long as a number in the code says


def test_no_number_in_the_code_is_a_timeout():
    found = {
        (str(path.relative_to(PACKAGE)), wait)
        for path in PACKAGE.rglob("*.py")
        for wait in waits(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found - NO_TIMEOUTS.keys() == set(), "a time-out belongs into timeouts.py"
    assert NO_TIMEOUTS.keys() - found == set(), "these are gone: take them off the list"


@pytest.mark.parametrize(
    "code",
    [
        "thread.join(5)",
        "event.wait(1 + 1)",
        "lock.acquire(timeout=2)",
        "lock.acquire(True, 2)",
        "end.settimeout(5)",
        "select.select([], [1], [], 1)",
        "poll.poll(1000)",
        "client.request(timeout=5.0)",
        "Live(shutdown_timeout_seconds=30)",
        "inbox.get(timeout=5)",
        "socket.create_connection(address, 2)",
        "client.blocking_key_value_get(key, 1000)",
        "client.wait_at_barrier(name, 1000)",
        "channel.wait_for_leave(1)",
        "thread.join(given or 5)",
        "def ask(timeout: float = 30.0): ...",
        "def ask(*, patience=30): ...",
        "end = time.monotonic() + 10",
        "old = now - since > 10",
        "late = 60 < waited",
        "FEW = 5.0\nthread.join(FEW)",
        "_A, _B = 1.0, 5.0\nthread.join(_B)",
    ],
)
def test_a_number_that_is_a_timeout_is_found(code):
    assert list(waits(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "thread.join()",
        "event.wait(timeouts.EXIT.seconds)",
        "', '.join(WORDS)",
        "poll.poll(0)",
        "lock.acquire(blocking=False)",
        "client.request(timeout=timeouts.API.seconds)",
        "def ask(timeout: float | None = None): ...",
        "small = length - known < 5",
        "WORDS = 'a', 'b'\nseparator.join(WORDS)",
    ],
)
def test_what_is_no_number_of_seconds_is_none(code):
    assert not list(waits(ast.parse(code)))


# Which argument of a method says how long it waits; what is called with a keyword is found by it.
PLACES = {
    "join": 0,
    "wait": 0,
    "wait_for_leave": 0,
    "settimeout": 0,
    "poll": 0,
    "select": -1,
    "acquire": 1,
    "create_connection": 1,
    "wait_at_barrier": 1,
    "blocking_key_value_get": 1,
}
BOUND = re.compile("timeout|patience|seconds")
CLOCK = re.compile(r"\b(now|waited|_age\(\w+\)|monotonic\(\)|time\.time\(\))")


def waits(tree: ast.AST) -> Iterator[str]:
    """Yield the numbers in a module that say how long to wait, as they are written there."""
    numbers = constants(tree)
    for node in ast.walk(tree):
        candidates: list[ast.AST | None] = []
        if isinstance(node, ast.Call):
            candidates += [word.value for word in node.keywords if BOUND.search(word.arg or "")]
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            place = PLACES.get(name)
            if place is not None and len(node.args) > max(place, 0):
                candidates.append(node.args[place])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            last = [*given.posonlyargs, *given.args][::-1]
            pairs = [
                *zip(last, given.defaults[::-1], strict=False),
                *zip(given.kwonlyargs, given.kw_defaults, strict=True),
            ]
            candidates += [value for arg, value in pairs if BOUND.search(arg.arg)]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            if CLOCK.search(ast.unparse(node.left)):
                candidates.append(node.right)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(CLOCK.search(ast.unparse(side)) for side in sides):
                candidates += sides
        yield from (ast.unparse(one) for one in candidates if one and is_number(one, numbers))


def constants(tree: ast.AST) -> set[str]:
    """Return the names of numbers that a module has, or imports from another one."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            known = constants_of(ROOT.joinpath(*str(node.module).split(".")).with_suffix(".py"))
            found |= {name.asname or name.name for name in node.names if name.name in known}
        elif isinstance(node, ast.Assign):
            (target,) = node.targets
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for name, value in zip(names, values, strict=False):
                if isinstance(name, ast.Name) and is_number(value, set()):
                    found.add(name.id)
    return found


@functools.cache
def constants_of(path: Path) -> set[str]:
    return constants(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else set()


def is_number(node: ast.AST, names: set[str]) -> bool:
    """Return whether something is a number, other than 0, whatever happens at run time."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float) and node.value != 0
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.BinOp):
        return is_number(node.left, names) and is_number(node.right, names)
    return isinstance(node, ast.BoolOp) and any(is_number(one, names) for one in node.values)
