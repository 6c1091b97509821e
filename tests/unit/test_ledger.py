"""What goes with a cell of a session: what is new, rebound, changed, or code that uses such."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

from jupyter_jax_trainer import api
from jupyter_jax_trainer.capture import Capture, capture_call, capture_cell, ledger
from jupyter_jax_trainer.capture.ledger import Ledger, fingerprint
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.session import Variable
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.options.spec import parse_cell_line


class Kernel:
    """A kernel and a session, of which only the names are there."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {"__name__": "__main__", "In": [""]}
        self.ledger = Ledger()
        self.session: dict[str, Variable] = {}

    def run(self, source: str) -> None:
        """Run a cell in the kernel."""
        self.values["In"].append(source)
        file = f"<kernel {len(self.values['In'])}>"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        exec(compile(source, file, "exec"), self.values)

    def send(self, source: str, cell: str | None = None) -> Capture:
        """Send a cell, which is settled later if it has a name."""
        self.values["In"].append(f"get_ipython().run_cell_magic('jaxtrain', '-s a', {source!r})")
        self.ledger.look(self.session)
        found = capture_cell(source, self.values, ledger=self.ledger)
        self.ledger.sent(found.selection, found.names, found.binds, cell)
        return found

    def cell(self, source: str) -> dict[str, str]:
        """Send a cell that succeeds; give what goes with it, and how it is shown."""
        found = self.send(source)
        tokens = found.tokens()
        for name in (*found.names, *found.binds):
            before = self.session.get(name)
            token = tokens.get(name, before["token"] if before else None)
            self.session[name] = variable(token)
        shown = {sent.name: sent.type for sent in found.sent}
        return {name: shown.get(name, "") for name in found.names}


def variable(token: str | None) -> Variable:
    return {
        "kind": "value",
        "type": "",
        "size": None,
        "sharding": None,
        "device_size": None,
        "cell": 1,
        "token": token,
        "deleted": False,
    }


@pytest.fixture
def kernel():
    return Kernel()


def test_a_call_brings_its_function_and_arguments_though_another_waits(kernel):
    first = capture_call(abs, (-1,), ledger=kernel.ledger)
    tokens = first.tokens()
    kernel.ledger.sent(first.selection, first.names, first.binds)
    kernel.ledger.look({}, [(first.names, None)], tokens)
    second = capture_call(abs, (-1,), ledger=kernel.ledger)
    assert "__jaxtrain_0__" in second.names and set(first.names) == set(second.names)


def test_it_is_said_when_it_takes_long_to_see_whether_a_variable_has_changed(kernel, monkeypatch):
    kernel.run("import numpy as np\nlarge, small = np.ones(9), 1")
    real, clock = ledger.fingerprint, [0.0]

    def slow(value, values):
        clock[0] += 0.6 if isinstance(value, np.ndarray) else 0.01
        return real(value, values)

    monkeypatch.setattr(ledger, "fingerprint", slow)
    monkeypatch.setattr(ledger.time, "thread_time", lambda: clock[0])
    found = capture_cell("print(large, small)", kernel.values, ledger=kernel.ledger)
    (note,) = found.notes
    assert note.id == "cell.comparing-took" and "0.6 s" in note and "whether large" in note
    assert not capture_cell("print(small)", kernel.values, ledger=kernel.ledger).notes


def test_what_is_unchanged_is_sent_once(kernel):
    kernel.run("lr = 0.1\ndata = {'x': [1, 2]}")
    assert set(kernel.cell("print(lr, data)")) == {"lr", "data"}
    kernel.run("other = 1")
    assert kernel.cell("print(lr, data)") == {}


def test_what_is_assigned_again_is_sent_though_it_is_equal(kernel):
    kernel.run("step = 0")
    kernel.cell("step = step + 1")
    assert kernel.cell("print(step)") == {}
    kernel.run("step = 0")
    assert kernel.cell("print(step)") == {"step": "int (assigned again)"}
    kernel.values["In"].append("get_ipython().run_cell_magic('time', '', 'step = 0\\n')")
    assert kernel.cell("print(step)") == {"step": "int (assigned again)"}


def test_what_is_changed_in_place_is_sent(kernel):
    kernel.run("import numpy as np\nw = np.ones(200)\nd = {'a': [1]}")
    kernel.cell("print(w, d)")
    kernel.run("w[3] = 7")
    assert kernel.cell("print(w, d)") == {"w": "float64[200] (changed)"}
    kernel.run("d['a'].append(2)")
    assert list(kernel.cell("print(w, d)")) == ["d"]


def test_what_the_session_assigned_stays_though_the_notebook_has_the_name(kernel):
    kernel.run("loss = 5")
    kernel.cell("loss = 1")
    assert kernel.cell("print(loss)") == {}
    kernel.run("loss = 5")
    assert list(kernel.cell("print(loss)")) == ["loss"]


def test_what_came_back_is_not_sent_until_it_changes(kernel):
    kernel.run("w = [1]")
    kernel.cell("w = w + [2]")
    kernel.values["w"] = [1, 2]
    kernel.ledger.brought_back(["w"], kernel.values)
    assert kernel.cell("print(w)") == {}
    kernel.run("w.append(3)")
    assert list(kernel.cell("print(w)")) == ["w"]


@pytest.mark.parametrize("first", ["print(w)", "w = 2"])
def test_what_did_not_arrive_is_sent_again(kernel, first):
    """Also in place of what the session made."""
    kernel.run("w = 1")
    kernel.cell(first)
    before = dict(kernel.session)
    kernel.run("w = 3")
    kernel.cell("print(w)")
    kernel.session = before  # the cell was taken back
    assert list(kernel.cell("print(w)")) == ["w"]


@pytest.mark.parametrize("number", [0, 7, None])
def test_a_cell_that_did_nothing_undoes_nothing(kernel, number):
    """It never began, or failed before anything arrived; or its directory is gone."""
    kernel.run("step = 0")
    kernel.cell("step = step + 1\nw = 2")
    kernel.run("step = 0\nw = 3")
    kernel.send("w = 4", "one")
    kernel.send("step = step + 1", "two")
    assert kernel.ledger.going == ["one", "two"]
    kernel.ledger.look(kernel.session)
    for cell in ("one", "two"):
        kernel.ledger.settle(cell, number, succeeded=False)
    assert kernel.cell("print(step, w)") == {
        "step": "int (assigned again)",
        "w": "int (assigned again)",
    }
    assert kernel.cell("print(step, w)") == {}


def test_what_a_cell_brought_and_assigned_before_it_failed_counts(kernel):
    kernel.run("step, w, v = 0, 1, 1")
    kernel.cell("step = step + 1\nw, v = 2, 2")
    kernel.run("step, w, v = 0, 3, 3")
    kernel.send("step = step + 1\nw = 4\nv = 4", "one")
    kernel.session["step"].update(cell=3, brought=3)
    kernel.session["w"].update(cell=3)
    kernel.ledger.look(kernel.session)
    kernel.ledger.settle("one", 3, succeeded=False)
    assert list(kernel.cell("print(step, w, v)")) == ["v"]


@pytest.mark.parametrize("number", [3, None])
def test_a_cell_that_succeeded_has_done_all(kernel, number):
    kernel.run("w = 1")
    kernel.cell("w = 2")
    kernel.run("w = 3")
    kernel.send("w = 2", "one")  # the same object: the ranks see no difference
    assert kernel.send("print(w)", "two").names == []
    kernel.ledger.settle("one", number, succeeded=True)
    kernel.ledger.settle("two", number, succeeded=True)
    assert kernel.cell("print(w)") == {}


def test_what_came_back_counts_more_than_cells_that_have_not_ended(kernel):
    kernel.run("w = [1]")
    kernel.send("w = w + [2]", "one")
    kernel.values["w"] = [1, 2]
    kernel.ledger.brought_back(["w"], kernel.values)
    kernel.session["w"] = variable("t")
    assert kernel.cell("print(w)") == {}
    kernel.ledger.settle("one", 1, succeeded=True)
    assert kernel.cell("print(w)") == {}


def test_after_a_restart_of_the_kernel_what_is_assigned_again_is_sent(kernel):
    kernel.run("lr = 1")
    kernel.cell("print(lr)")
    again = Kernel()
    again.session = kernel.session
    again.run("other = 2")
    assert again.cell("print(lr)") == {}
    again.run("lr = 3")
    assert list(again.cell("print(lr)")) == ["lr"]


def test_code_that_is_the_same_stays_though_its_cell_ran_again(kernel):
    source = "def f(x, n=2):\n    return [x + n for _ in range(3)]"
    kernel.run(source)
    kernel.cell("f(1)")
    kernel.run("# a comment\n\n" + source)
    assert kernel.cell("f(1)") == {}
    kernel.run(source.replace("n=2", "n=3"))
    assert list(kernel.cell("f(1)")) == ["f"]


def test_code_is_sent_when_what_it_uses_has_changed_even_in_a_cell_before(kernel):
    kernel.run(
        "scale = 2\ndef loss(x):\n    return scale * x\n"
        "def step(x):\n    return loss(x)\ndef other(x):\n    return x"
    )
    kernel.cell("step(1), other(1)")
    kernel.run("def loss(x):\n    return x")
    assert list(kernel.cell("loss(1)")) == ["loss"]
    sent = say.SENT_AGAIN(type="function", why=say.USES_CHANGED())
    assert kernel.cell("step(1), other(1)") == {"step": sent}
    assert kernel.cell("step(1), other(1)") == {}


def test_what_the_session_made_after_a_restart_of_its_ranks_stays(kernel):
    kernel.run("w = 1")
    kernel.cell("print(w)")
    kernel.session.clear()
    kernel.ledger.note_restarts(1, ["w"])
    kernel.cell("w = 2")
    assert kernel.session["w"]["token"] is None
    assert kernel.cell("print(w)") == {}


def test_arrays_of_jax_are_told_by_identity(kernel):
    kernel.run("import jax.numpy as jnp\na = jnp.ones(3)\nd = {'a': a}")
    kernel.cell("print(a, d)")
    assert kernel.cell("print(a, d)") == {}
    kernel.values["d"]["a"] = kernel.values["a"] + 0
    assert list(kernel.cell("print(a, d)")) == ["d"]


def ids(found):
    return [note.id for note in found.remarks]


def test_a_name_in_both_places_may_differ_where_the_session_has_assigned_it(kernel):
    kernel.run("w, v = 1, 2\nfrom functools import partial")
    kernel.cell("print(w, v)")
    assert ids(kernel.send("print(w, v, partial)")) == []
    kernel.session["w"].update(cell=3, own=True)
    kernel.session["partial"] = {**variable(None), "kind": "class", "own": True}
    found = kernel.send("print(w, v, partial)")
    assert ids(found) == ["cell.may-differ"] and found.remarks[0].startswith("w may")
    assert found.notes == []
    kernel.send("w = 5", "one")
    assert ids(kernel.send("print(w)")) == []  # nobody knows yet
    kernel.ledger.settle("one", 0, succeeded=False)
    kernel.ledger.brought_back(["w"], kernel.values, 3)
    assert ids(kernel.send("print(w)")) == []
    kernel.session["w"].update(cell=4)
    assert ids(kernel.send("print(w)")) == ["cell.may-differ"]


def test_what_another_notebook_sent_may_differ(kernel):
    kernel.values["w"] = 1  # no cell assigns it
    kernel.session["w"] = {**variable(fingerprint(1, {})), "own": False}
    assert ids(kernel.send("print(w)")) == []
    kernel.session["w"]["token"] = fingerprint(2, {})
    assert ids(kernel.send("print(w)")) == ["cell.may-differ"]


def test_how_large_is_what_stays(kernel):
    kernel.session |= {
        "w": {**variable(None), "size": 800, "devices": 4},
        "host": {**variable(None), "size": 16},
        "rate": variable(None),
    }
    assert kernel.send("print(w, host, rate)").held == {"size": 816, "devices": 4}
    assert kernel.send("print(host)").held == {"size": 16, "devices": 0}
    assert kernel.send("print(rate)").held is None


def test_a_variable_whose_buffers_are_gone_is_named(kernel):
    kernel.cell("w = 1")
    kernel.session["w"]["deleted"] = True
    kernel.ledger.look(kernel.session)
    found = capture_cell("print(w)", kernel.values, ledger=kernel.ledger)
    assert [note.id for note in found.notes] == ["cell.deleted-in-session"]
    assert found.remarks == found.notes
    assert capture_cell("w = 2", kernel.values, ledger=kernel.ledger).notes == []


def test_a_name_that_only_the_session_has_is_defined(kernel):
    kernel.cell("model = 1")
    assert kernel.cell("print(model)") == {}
    kernel.run("def show():\n    return model")
    assert list(kernel.cell("show()")) == ["show"]
    with pytest.raises(UsageError):
        kernel.cell("print(modle)")


def test_a_function_does_not_bring_what_the_session_has(kernel):
    """It would overwrite that there."""
    kernel.run("w = [0]\ndef f():\n    return w")
    kernel.cell("w = [1]")
    kernel.ledger.look(kernel.session)
    found = capture_cell("f()", kernel.values, ledger=kernel.ledger)
    assert found.names == ["f"] and found.kept == ["w"]
    names: dict[str, Any] = {}
    from jupyter_jax_trainer.worker.serialization.pickling import load_pairs

    dict(load_pairs(found.stream, found.buffers, names))
    assert "w" not in names


@pytest.mark.parametrize("at", [0, (16 << 20) - 1, 16 << 20, 39_999_999])
def test_a_change_anywhere_in_a_large_array_is_one(at):
    values = np.zeros(40_000_000, np.uint8)
    before = fingerprint(values, {})
    assert fingerprint(values.copy(), {}) == before
    values[at] = 1
    assert fingerprint(values, {}) != before
    if at == 0:
        assert fingerprint(np.roll(values, 16 << 20), {}) != fingerprint(values, {})


NET = """
import functools
class Base:
    factor = 1
class Net(Base):
    scale = 2
    def __init__(self, k): self.k = k
    def __call__(self, x): return self.help(self.k * x)
    @staticmethod
    def help(x): return super and x
    @functools.cached_property
    def name(self): return 'net'
    def again(self): return Net(self.k)
"""


def test_a_class_counts_by_its_code_where_something_else_is_of_it(kernel):
    def content(source):
        kernel.run(f"{source}\nnet = Net(2)\ndef forward(x): return net(x)")
        return fingerprint(kernel.values["net"], kernel.values)

    before = content(NET)
    assert content(f"# moved\n{NET}") == before
    for old, new in (
        ("self.k * x)", "self.k * x + 100)"),
        ("super and x", "super and -x"),
        ("'net'", "'other'"),
        ("scale = 2", "scale = 3"),
        ("factor = 1", "factor = 2"),
    ):
        assert content(NET.replace(old, new)) != before
    assert content(NET) == before
    source = NET.replace("    def again(self): return Net(self.k)\n", "") + "net = Net(2)"
    kernel.run(source)
    assert set(kernel.cell("forward(1)")) == {"forward", "net"}
    kernel.run(source)
    assert set(kernel.cell("forward(1)")) == {"net"}
    kernel.run(source.replace("self.k * x)", "self.k * x + 100)"))
    assert set(kernel.cell("forward(1)")) == {"forward", "net"}


def test_what_a_try_covers_is_of_the_code(kernel):
    kernel.run(
        "def f(p):\n    try:\n        d = a(p)\n    except E: return 0\n    else: return b(d)"
    )
    before = fingerprint(kernel.values["f"], kernel.values)
    kernel.run("def f(p):\n    try:\n        d = a(p); return b(d)\n    except E: return 0")
    assert fingerprint(kernel.values["f"], kernel.values) != before


def test_a_function_that_the_session_has_rebound_comes_again_with_its_cell(kernel):
    source = "def f(x): return x + 1"
    kernel.run(source)
    assert set(kernel.cell("f = wrap(f) if 'wrap' in globals() else f")) == {"f"}
    kernel.run(source)
    kernel.session["f"]["own"] = False
    assert set(kernel.cell("f(0)")) == set()
    kernel.cell("f = f")
    kernel.session["f"]["own"] = True
    assert set(kernel.cell("f(0)")) == set()
    kernel.run(source)
    assert set(kernel.cell("f(0)")) == {"f"}


def test_fingerprints_of_equal_contents_are_equal():
    def counter():
        count = 0

        def add():
            nonlocal count
            count += 1
            return add

        return add

    one = counter()
    one.__module__ = "__main__"
    assert fingerprint(one, {}) == fingerprint(one, {})
    before = fingerprint(one, {})
    one()
    assert fingerprint(one, {}) != before
    assert fingerprint(np.arange(3), {}) == fingerprint(np.arange(3), {})
    assert fingerprint(np.arange(3), {}) != fingerprint(np.arange(3.0), {})


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ("--idle 1h", "backends.idle-without-session"),
        ("-s lab --timeout 1h", "backends.not-with-session"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(line, id, home):
    spec = parse_cell_line(line)
    with pytest.raises(UsageError) as refused:
        api.prepare(spec)
    assert refused.value.id == id
    assert api.jobs() == []


def on_ranks(cell: int, **more: Any) -> Variable:
    return {**variable(None), "cell": cell, **more}


def test_what_only_some_ranks_have_is_not_there_for_a_cell_on_others(kernel):
    session = {"x": on_ranks(1, ranks=[1, 2]), "w": on_ranks(2, bound_on=[1])}
    kernel.ledger.look(session)
    with pytest.raises(UsageError) as refused:
        capture_cell("print(x)", kernel.values, ledger=kernel.ledger)
    assert refused.value.id == "cell.on-some-ranks" and "--rank 1-2" in refused.value.hint
    assert capture_cell("x = 1\nprint(x)", kernel.values, ledger=kernel.ledger).kept == []
    [note] = capture_cell("print(w)", kernel.values, ledger=kernel.ledger).notes
    assert note.id == "cell.differs-in-session"
    kernel.ledger.look(session, ranks=[1])
    found = capture_cell("print(x, w)", kernel.values, ledger=kernel.ledger)
    assert found.kept == ["x", "w"] and found.notes == []
    kernel.run("x = 5")
    kernel.ledger.look(session)
    assert capture_cell("print(x)", kernel.values, ledger=kernel.ledger).names == ["x"]


def test_what_waiting_cells_will_bind_on_some_ranks(kernel):
    kernel.ledger.look({}, [(["x"], [1]), (["y"], None)])
    assert set(kernel.ledger.has) == {"y"} and set(kernel.ledger.elsewhere) == {"x"}
    kernel.ledger.look({}, [(["x"], [1])], ranks=[1])
    assert set(kernel.ledger.has) == {"x"}
