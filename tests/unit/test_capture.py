"""What is captured of a notebook, what is refused, and in which words."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import linecache
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import types
import weakref
from pathlib import Path

import numpy as np
import pytest

from jupyter_jax_trainer import api
from jupyter_jax_trainer.capture import capture_call, capture_cell
from jupyter_jax_trainer.errors import CaptureError, UsageError
from jupyter_jax_trainer.jobdir.layout import RETURNED
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.messages import options
from jupyter_jax_trainer.messages import worker as say_of_worker
from jupyter_jax_trainer.worker import reporting
from jupyter_jax_trainer.worker.serialization.pickling import Unpickler

from fresh import ROOT, run_fresh  # isort: skip


def notebook(code: str = "", **values) -> dict:
    namespace = {"__name__": "__main__", "np": np, **values}
    exec(compile(code, "<earlier>", "exec"), namespace)
    return namespace


def test_much_data_is_warned_about_unless_it_is_allowed(capsys):
    capture = capture_cell("x.sum()", notebook(x=np.zeros(2_000_000)))
    api.say_notes(capture)
    assert "x float64[2000000]" in capsys.readouterr().err
    api.say_notes(capture, allow_large=True)
    assert capsys.readouterr().err == ""


def test_what_is_sent():
    namespace = notebook(
        "G = 10\ndata = np.ones((100, 3))\nunused = np.ones(10 ** 6)\n"
        "def helper(x): return x * G + data\ndef train(p): return helper(p)\n"
        "class Net: pass\nnet = Net()\nparams = {'w': 1, 'b': 2}"
    )
    namespace.update(dumps=json.dumps, report=reporting.report, Path=Path)
    capture = capture_cell("y = train(params)\nnp.sum(y), net, dumps, report, Path", namespace)
    table = {s.name: (s.kind, s.type) for s in capture.sent}
    assert table == {
        "train": ("function", "function"),
        "params": ("value", "dict of 2"),
        "data": ("array", "float64[100,3] (via helper)"),
        "G": ("value", "int (via helper)"),
        "net": ("value", "Net"),
    }  # and nothing that the job imports by its name
    assert {"np", "dumps", "report", "Path"} <= set(capture.names)
    sizes = {s.name: s.size for s in capture.sent}
    assert 2400 <= sizes["data"] < 2800 and sizes["train"] < 1500
    assert capture.total >= 2400 and capture.total < 10_000
    assert {"train", "net"} <= set(capture.python_bound) and "data" not in capture.python_bound
    assert capture.modules == {}


def test_what_was_captured_is_freed_without_the_garbage_collector():
    class Data:  # of which there are weak references
        pass

    values = {"one": Data(), "big": np.ones(100_000), "f": lambda: 0}
    gone = [weakref.ref(values["one"]), weakref.ref(values["big"])]
    gc.collect()
    gc.disable()
    try:
        capture_cell("print(one, big, f())", values, on_size=lambda size: None)
        values.clear()
        assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()


def test_line_numbers_are_the_notebooks():
    for cell, line in [("x = 1\n1 / 0", 3), ("\n\n1 / 0", 4), ("!true\n%time 1\n1 / 0", 4)]:
        namespace = {
            "get_ipython": lambda: types.SimpleNamespace(
                system=lambda c: 0, run_line_magic=lambda n, a: 0
            )
        }
        with pytest.raises(ZeroDivisionError) as error:
            exec(compile(capture_cell(cell, {}).code, "<cell>", "exec"), namespace)
        assert error.traceback[-1].lineno + 1 == line


def test_names_that_the_cell_binds_first_stay():
    lock = threading.Lock()
    namespace = notebook("def f(): return mesh", mesh=lock, loss=lock, step=lock, n=3)
    capture = capture_cell(
        "mesh = 1\nfor i in range(n):\n    loss = i\nprint(f(), loss)\ndef step(): pass\nstep()",
        namespace,
    )
    assert set(capture.names) == {"n", "f"}


def test_mesh_of_a_function_that_the_cell_builds(tmp_path):
    import jax

    namespace = notebook(
        "def f(): return mesh", jax=jax, mesh=jax.sharding.Mesh(jax.devices()[:1], ("d",))
    )
    with pytest.raises(CaptureError, match=f"f -> global mesh: {say_of_worker.MESH()}"):
        capture_cell("f()", namespace)
    capture = capture_cell("mesh = 'built here'\nassert f() == mesh", namespace)
    assert not isinstance(run_fresh({"x": (capture, [])}, tmp_path)["x"], str)


@pytest.mark.parametrize(
    ("cell", "message", "named"),
    [
        ("x = 1\ny = [\n", "syntax-error", r"ine 3 .*\n    y = \["),
        ("return 1", "syntax-error", "'return' outside function"),
        ("x = pramas + 1", "misspelt", r"ine 2 .*'pramas'.*'params'\?\n    x = "),
        ("report(1)", "not-imported", r"ine 2 .*jupyter_jax_trainer import report\n    report"),
        ("x = nothing_like_it", "undefined", r"ine 2 .*'nothing_like_it'.*\n    x = "),
        ("x = pramas\nnothing_like_it", "several-undefined", r"ine 2 .*'pramas'(.|\n)*ine 3 "),
        ("%pip install x", "installs", "ine 2 .*`%pip install x`(.|\n)*--package"),
        ("a = 1\n%load_ext x", "line-magic", "ine 3 .*`%load_ext x`"),
        ("%%bash\nls", "cell-magic", "%%bash"),
        ("params?", "asks-for-help", r"`params\?`"),
        ("Out[3]", "history", "`Out`"),
        ("_ + 1", "history", "`_`"),
        ("x = '\0'", "(cannot-compile|syntax-error)", "(?i)null bytes"),
    ],
)
def test_wrong_cells(cell, message, named):
    with pytest.raises(UsageError, match=named) as caught:
        capture_cell(cell, notebook(params=1, Out={}, _=2))
    assert re.fullmatch(f"cell.{message}", caught.value.id or "")


def test_wrong_names_in_options():
    namespace = notebook(params=1)
    with pytest.raises(UsageError) as caught:
        capture_cell("1", namespace, use=["parms"])
    assert caught.value.message == say.USE_UNDEFINED(name="parms")
    assert caught.value.hint == options.DID_YOU_MEAN(name="'params'")
    with pytest.raises(UsageError) as caught:
        capture_cell("params = 1", namespace, out=["parms"])
    assert caught.value.message == say.OUT_NEVER_SET(name="parms")
    assert caught.value.hint == options.DID_YOU_MEAN(name="'params'")
    assert capture_cell("1", namespace, use=["params"], out=["params"]).names == ["params"]
    assert capture_cell("if params: q = 1", namespace, out=["q"]).names == ["params"]


def test_top_level_await_is_allowed():
    assert capture_cell("import asyncio\nawait asyncio.sleep(0)", {}).names == []


def test_names_in_commands():
    namespace = notebook(word="a", other=1, folder="b")
    capture = capture_cell("!ls {folder} $word $HOME {print}\nx = %time other + 1", namespace)
    assert set(capture.names) == {"word", "folder", "other"}


class Job:
    pass


Job.__module__ = "jupyter_jax_trainer.job"


def refused_values():
    import jax

    devices = jax.devices()[:1]
    mesh = jax.sharding.Mesh(devices, ("d",))
    compiled = jax.jit(lambda x: x).lower(1.0).compile()
    donated = jax.numpy.ones(3)
    donated.delete()
    with socket.socket() as sock, sqlite3.connect(":memory:") as database, open(os.devnull) as file:
        yield "mesh", mesh, say_of_worker.MESH()
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        yield "sharding", sharding, say_of_worker.SHARDING()
        yield "device", devices[0], say_of_worker.DEVICE()
        yield "compiled", compiled, say_of_worker.COMPILED()
        yield "donated", donated, say_of_worker.DELETED_ARRAY()
        yield "file", file, say_of_worker.OPEN_FILE()
        yield "generator", (i for i in ()), say_of_worker.GENERATOR()
        yield "lock", threading.Lock(), say_of_worker.LOCK()
        yield "rlock", threading.RLock(), say_of_worker.LOCK()
        yield "event", threading.Event(), say_of_worker.EVENT()
        yield "thread", threading.Thread(), say_of_worker.THREAD()
        yield "sock", sock, say_of_worker.SOCKET()
        yield "db", database, say_of_worker.DATABASE()
        yield "job", Job(), say_of_worker.JOB()
    database.close()
    import multiprocessing

    shared = multiprocessing.Value("i")
    yield "shared", shared, say_of_worker.MULTIPROCESSING(type=type(shared).__name__)


def test_refusals():
    for name, value, what in refused_values():
        with pytest.raises(CaptureError) as error:
            capture_cell(f"print({name})", notebook(**{name: value}))
        assert error.value.id in ("cell.cannot-send", "cell.cannot-send-part")
        assert f"`{name}`" in error.value.message and error.value.message.endswith(f"{what}.")
        assert error.value.hint == what.hint, name


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("x = {'a': [1, {'b': lock}]}", r"x\['a'\]\[1\]\['b'\]"),
        ("x = (1, [lock])", r"x\[1\]\[0\]"),
        ("class A: pass\nx = A()\nx.data = {'k': lock}", r"x\.data\['k'\]"),
        ("class S:\n __slots__ = ('s',)\nx = S()\nx.s = lock", r"x\.s"),
        (
            "def make(v):\n def x(): return v\n return x\nx = make([lock])",
            r"x -> closure variable v\[0\]",
        ),
        ("c = {'q': lock}\ndef x(): return c", r"x -> global c\['q'\]"),
        ("c = [lock]\ndef g(): return c\ndef x(): return g()", r"x -> global g -> global c\[0\]"),
        ("def x(a, b=lock): pass", r"x -> default of b"),
        ("def x(*, b=lock): pass", r"x -> default of b"),
        ("import functools\nx = functools.partial(print, lock)", r"x\.args\[0\]"),
        (
            "class A:\n def __init__(self): self.l = lock\n def m(self): pass\nx = A().m",
            r"x\.__self__\.l",
        ),
        ("class x:\n l = lock", r"x\.l"),
        ("import typing\nclass N(typing.NamedTuple):\n f: object\nx = [N(lock)]", r"x\[0\]\.f"),
    ],
)
def test_the_culprits_path(code, path):
    namespace = notebook(code, lock=LOCK)
    del namespace["lock"]
    with pytest.raises(CaptureError, match=rf"`x` .*: {path}: {say_of_worker.LOCK()}\."):
        capture_cell("print(x)", namespace)


def test_errors_of_the_users_own_pickling():
    code = "class A:\n def __reduce__(self): raise ValueError('not today')\nx = {'k': A()}"
    with pytest.raises(CaptureError) as caught:
        capture_cell("x", notebook(code))
    what = say_of_worker.CANNOT_PICKLE(type="__main__.A", error="not today")
    assert caught.value.message == say.CANNOT_SEND_PART(name="x", part="x['k']", what=what)


def test_deep_nesting():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CaptureError) as caught:
        capture_cell("deep", notebook(deep=deep))
    assert say_of_worker.TOO_DEEP() in caught.value.message
    while deep:
        deep = deep[0]


def test_the_size_hook_stops_the_capture():
    def stop(size):
        if size > 1000:
            raise UsageError("too large")

    with pytest.raises(UsageError, match="too large"):
        capture_cell("a", notebook(a=np.ones(1000)), on_size=stop)


def test_the_shell_stays_behind():
    from IPython.core import interactiveshell
    from IPython.core.interactiveshell import InteractiveShell

    shell = types.SimpleNamespace()
    namespace = notebook(
        "def f(): return open, get_ipython",
        open=interactiveshell._modified_open,
        get_ipython=InteractiveShell.run_cell,
        shell=shell,
    )
    assert capture_cell("open('x'); f(); get_ipython()", namespace).names == ["f"]


def test_sources_of_earlier_cells():
    text = "def f():\n    return 1\n"
    linecache.cache["<earlier>"] = (len(text), None, text.splitlines(True), "<earlier>")
    shell = types.SimpleNamespace(
        transform_cell=lambda c: c,
        compile=types.SimpleNamespace(format_code_name=lambda f: ("Cell", "In[3]")),
    )
    try:
        capture = capture_cell("f()", notebook(text), shell=shell)
    finally:
        del linecache.cache["<earlier>"]
    assert capture.sources == {"<earlier>": ("Cell In[3]", text)}


def test_what_only_notebooks_have():
    from jupyter_jax_trainer.capture import capture_cell as train

    with pytest.raises(CaptureError) as caught:
        capture_cell("train", notebook(train=train))
    name = f"{train.__module__}.{train.__qualname__}"
    assert caught.value.message == say.CANNOT_SEND(
        name="train", what=say_of_worker.NOTEBOOK_CODE(name=name)
    )


def test_report_travels():
    reporting = pytest.importorskip("jupyter_jax_trainer.worker.reporting")
    capture = capture_cell("report(step=1)", notebook(report=reporting.report))
    assert b"jupyter_jax_trainer.worker.reporting" in capture.stream
    assert capture.python_bound == []


def test_own_modules_come_along(tmp_path, monkeypatch):
    (tmp_path / "my_layers.py").write_text(
        "import my_utils\ndef dense(x): return my_utils.two() * x"
    )
    (tmp_path / "my_utils.py").write_text("def two(): return 2\ndef make():\n return lambda: two()")
    monkeypatch.syspath_prepend(tmp_path)
    namespace = notebook(
        "from my_layers import dense\nfrom my_utils import make\ng = make()\n"
        "def f(x): return dense(x)"
    )
    capture = capture_cell("assert f(3) == 6 and g() == 2", namespace)
    assert set(capture.modules) == {"my_layers.py", "my_utils.py"}
    folder = tmp_path / "job"
    folder.mkdir()
    assert not isinstance(run_fresh({"x": (capture, [])}, folder)["x"], str)
    for name in ("my_layers", "my_utils"):
        del sys.modules[name]


def test_calls(tmp_path):
    namespace = notebook(
        "K = 3\ndef f(a, *, b): return a * b + K\ndef g(func, result): return func(result)"
    )
    calls = {
        "function": (capture_call(namespace["f"], (2,), {"b": 5}), [RETURNED]),
        "lambda": (capture_call(lambda a: a + 1, (1,)), [RETURNED]),
        "library": (capture_call(np.linalg.norm, (np.ones(4),)), [RETURNED]),
        "names": (capture_call(namespace["g"], (), {"func": len, "result": "abc"}), [RETURNED]),
    }
    assert [s.name for s in calls["function"][0].sent] == ["f", "K", "argument 1", "argument b"]
    outcomes = run_fresh(calls, tmp_path)
    results = {
        name: Unpickler(io.BytesIO(o[0]), buffers=map(bytearray, o[1])).load()
        for name, o in outcomes.items()
        if not isinstance(o, str)
    }
    wanted = {"function": [13], "lambda": [2], "library": [2.0], "names": [3]}
    assert results == wanted, outcomes
    with pytest.raises(CaptureError, match=r"`argument 1` .*: argument 1\[0\]: a thr"):
        capture_call(namespace["f"], ([LOCK],))


SHARDED = """
import sys, jax, numpy as np
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.worker.serialization.pickling import load_pairs
mesh = jax.make_mesh((4,), ("d",))
s = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
a = jax.device_put(np.arange(800.), s)
keys = jax.device_put(jax.random.split(jax.random.key(0), 4), s)
c = capture_cell("a, keys", {"__name__": "__main__", "a": a, "keys": keys})
back = dict(load_pairs(c.stream, map(bytearray, c.buffers)))
assert len(a.devices()) == 4 and (back["a"] == np.arange(800.)).all()
assert (jax.random.key_data(back["keys"]) == jax.random.key_data(keys)).all()
print("fine")
"""


@pytest.mark.slow
def test_sharded_arrays():
    environment = {
        **os.environ,
        "JAX_NUM_CPU_DEVICES": "4",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SHARDED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "fine\n", done.stderr


def test_memory_stays_flat():
    import tracemalloc

    data = np.ones(30_000_000 // 8)
    namespace = notebook(data=data)
    capture_cell("data", namespace)
    with contextlib.ExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        capture = capture_cell("data", namespace)
        _, peak = tracemalloc.get_traced_memory()
    assert peak < 5_000_000 and capture.total > data.nbytes


def test_modules_and_the_shell_are_not_searched():
    shell = types.SimpleNamespace(lock=LOCK)
    library = types.ModuleType("some_library")  # in a kernel, modules lead to the shell
    sys.modules["some_library"] = library
    namespace = notebook(
        "def unrelated():\n with lock: return big\ndef f(): return lib.x + K\nholder = {'f': [f]}",
        lock=LOCK,
        lib=library,
        shell=shell,
        K=3,
    )
    library.shell = types.SimpleNamespace(ns=namespace, f=namespace["unrelated"])
    try:
        assert capture_cell("lib.f", namespace).names == ["lib"]
        assert sorted(capture_cell("holder", namespace).names) == ["K", "holder", "lib"]
        call = capture_call(eval("lambda: lib.f()", namespace))
        assert set(call.names) == {"lib", "__jaxtrain_func__"}
    finally:
        del sys.modules["some_library"]


def test_names_that_were_not_sent():
    namespace = notebook("def f(): pass", data=1, other=2, _hidden=3, In=[])
    capture = capture_cell("eval('data')\nother", namespace)
    assert {"data", "f", "np"} <= set(capture.outside)
    assert not {"other", "_hidden", "In"} & set(capture.outside)
    namespace.update({f"v{i}": i for i in range(600)})
    assert len(capture_cell("other", namespace).outside) == 500


def test_the_note_on_virtual_devices():
    capture = capture_cell(
        "import os\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=4'", {}
    )
    assert capture.notes == [say.VIRTUAL_DEVICES()]
    assert capture_cell("1", {}).notes == []


def test_messages_end_with_one_full_stop():
    code = "class A:\n def __reduce__(self): raise ValueError('not today.')\nx = A()"
    with pytest.raises(CaptureError, match=r"\(not today\)\.\n"):
        capture_cell("x", notebook(code))


def test_modules_that_differ_from_their_files(tmp_path, monkeypatch):
    (tmp_path / "mine_lr.py").write_text(
        "LR = 1\nSAME = (1, 'a')\nTWICE = 1\nTWICE = 2\ncount = 0\n"
        "def bump():\n global count\n count += 1\n"
        "def f(): return 1\nclass A:\n def m(self): return 1\n def n(self): return lambda: 2\n"
        "import functools\n@functools.cache\ndef g(): return 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    namespace = notebook("import mine_lr")
    try:
        module = sys.modules["mine_lr"]
        module.bump()
        assert capture_cell("mine_lr", namespace).notes == []
        module.LR = 99
        assert capture_cell("mine_lr", namespace).notes == [
            say.CONSTANT_DIFFERS(module="mine_lr", name="LR", there=1, here=99)
        ]
        module.LR = 1
        text = (tmp_path / "mine_lr.py").read_text()
        (tmp_path / "mine_lr.py").write_text("'moved down'\n\n" + text)
        assert capture_cell("mine_lr", namespace).notes == []
        (tmp_path / "mine_lr.py").write_text(text.replace("return 1", "return 2"))
        assert capture_cell("mine_lr", namespace).notes == [
            say.FUNCTIONS_DIFFER(module="mine_lr", functions="f() and A.m()")
        ]
    finally:
        del sys.modules["mine_lr"]
