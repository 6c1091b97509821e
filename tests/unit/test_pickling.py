"""What a notebook holds, captured here and used in a fresh process."""

# Lines of the cases are lines of cells.

from __future__ import annotations

import fractions
import io
import pickle
import sys
import types

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.errors import CaptureError
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.messages import worker as say_of_worker
from jupyter_jax_trainer.worker.serialization.pickling import Pickler, Unpickler, load_pairs
from jupyter_jax_trainer.worker.serialization.refusals import CannotTravel

from fresh import run_fresh  # isort: skip

# name: (earlier cells, the cell). The cell's asserts run in the fresh process; `back` comes back.
CASES = {
    "lambda": ("f = lambda x: x + 1", "assert f(1) == 2"),
    "closure": (
        "def make(n):\n def add(x): return x + n\n return add\nf = make(2)",
        "assert f(1) == 3",
    ),
    "recursion": ("def fac(n): return n * fac(n - 1) if n else 1", "assert fac(4) == 24"),
    "mutual": (
        "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n and even(n - 1)",
        "assert even(4) and not even(3)",
    ),
    "rebinding": ("G = 10\ndef f(): return G", "assert f() == 10\nG = 20\nassert f() == 20"),
    "rebinding in methods": (
        "G = 10\nclass A:\n def m(self): return G\na = A()",
        "G = 20\nassert a.m() == 20",
    ),
    "late name": ("def f(): return later", "later = 5\nassert f() == 5"),
    "global statement": (
        "n = 0\ndef count():\n global n\n n += 1",
        "count()\ncount()\nassert n == 2",
    ),
    "shared": ("a = [1]\nb = {'a': a}", "assert b['a'] is a"),
    "shared by a function": ("a = [1]\ndef f(): return a", "assert f() is a"),
    "dataclass": (
        "from dataclasses import dataclass, field\n@dataclass\nclass P:\n x: int\n"
        " y: list = field(default_factory=list)\np = P(1)",
        "assert p == P(1) and p.y == [] and isinstance(p, P)",
    ),
    "slots": (
        "from dataclasses import dataclass\n@dataclass(slots=True, frozen=True)\nclass P:\n"
        " x: int\np = P(1)",
        "assert p == P(1) and not hasattr(p, '__dict__')",
    ),
    "enum": (
        "import enum\nclass E(enum.Enum):\n A = 1\n B = 2\n ONE = 1\n"
        " def up(self): return self.name\nclass F(enum.Flag):\n R = 1\n W = 2\n"
        "e = {E.A: F.R | F.W}",
        "assert e[E.A] == F.R | F.W and E.B.up() == 'B' and E(1) is E.A",
    ),
    "named tuples": (
        "import collections, typing\nT = collections.namedtuple('T', 'a b')\n"
        "class N(typing.NamedTuple):\n x: int = 3\nt, n = T(1, 2), N()",
        "assert t.b == 2 and isinstance(n, N) and N().x == 3",
    ),
    "generic": (
        "from typing import Generic, TypeVar\nX = TypeVar('X')\nclass G(Generic[X]):\n"
        " def get(self): return X\ng = G[int]()",
        "assert isinstance(g, G) and G[str]",
    ),
    "inheritance": (
        "import abc\nclass A(abc.ABC):\n @abc.abstractmethod\n def m(self): ...\n"
        "class B(A):\n def m(self): return super().__class__.__name__\nb = B()",
        "assert isinstance(b, A) and b.m()",
    ),
    "properties": (
        "class A:\n @property\n def p(self): return 1\n @staticmethod\n def s(): return 2\n"
        " @classmethod\n def c(cls): return cls",
        "assert A().p == 1 and A.s() == 2\nassert A.c() is A",
    ),
    "generator factory": (
        "def batches(n):\n for i in range(n): yield i",
        "assert list(batches(3)) == [0, 1, 2]",
    ),
    "async": ("async def f(): return 3", "import asyncio\nassert asyncio.run(f()) == 3"),
    "partial": (
        "from functools import partial, lru_cache\nf = partial(int, base=2)\n",
        "assert f('11') == 3",
    ),
    "stdout": ("import sys\nout = sys.stdout", "import sys\nassert out is sys.stdout"),
    "numpy": (
        "a = np.arange(6.)\nb = np.arange(10000).reshape(100, 100)[:, ::2]\n"
        "c = np.asfortranarray(np.ones((300, 4)))\nd = np.array(['2020-01-01'] * 99, 'M8[D]')\n"
        "e = np.array([{}, 1], object)\nf = np.zeros((0, 3))\ng = np.array(5)\n"
        "h = np.zeros(200, [('x', 'f4'), ('y', 'i8')])\ni = np.float32(2)",
        "import numpy as np\nassert a.sum() == 15 and b.shape == (100, 50) and b[1, 1] == 102\n"
        "for x in (a, b, c, f, g, h): x.flags.writeable or 1/0\nassert c.flags.f_contiguous\n"
        "assert d.dtype == 'M8[D]' and e[0] == {} and g == 5 and h['y'].sum() == 0 and i == 2",
    ),
    "bfloat16": (
        "a = jnp.ones(1000, jnp.bfloat16)\nb = np.asarray(a)",
        "assert a.dtype == b.dtype == 'bfloat16' and a.sum() == 1000",
    ),
    "jax arrays": (
        "a = jnp.arange(1000.)\nb = jnp.float32(1)\nc = {'w': a}\nd = jnp.asarray(1.)",
        "import jax\nassert isinstance(a, jax.Array) and a[3] == 3 and c['w'] is a\n"
        "assert d.weak_type and not b.weak_type",
    ),
    "keys": (
        "k = jax.random.key(3)\nks = jax.random.split(jax.random.key(1, impl='rbg'), 4)\n"
        "n = float(jax.random.normal(k))",
        "import jax\nassert float(jax.random.normal(k)) == n and ks.shape == (4,)\n"
        "assert str(jax.random.key_impl(ks)) == 'rbg'",
    ),
    "jit": (
        "G = 2.\n@jax.jit\ndef step(x): return x * G\n"
        "power = jax.jit(lambda x, n: x ** n, static_argnums=1)\n"
        "g = jax.grad(step)\nv = jax.vmap(step)\nvg = jax.jit(jax.value_and_grad(step))",
        "G = 3.\nassert step(1.) == 3 and g(1.) == 3 and v(jax.numpy.ones(2)).sum() == 6\n"
        "assert power(2., 3) == 8 and vg(1.)[1] == 3",
    ),
    "jit recursion": (
        "@jax.jit\ndef f(x): return x if x.ndim == 0 else f(x[0])",
        "assert f(jax.numpy.ones((2, 2))) == 1\nassert f.__wrapped__.__globals__['f'] is f",
    ),
    "checkpoint, scan": (
        "f = jax.checkpoint(lambda x: jnp.sin(x))\n"
        "def loop(x): return jax.lax.scan(lambda c, _: (f(c), None), x, None, 3)[0]",
        "assert abs(jax.grad(loop)(1.)) < 1",
    ),
    "library functions": (
        "act = jnp.tanh\nrelu = jax.nn.relu\nadd = jnp.add\ngelu = jax.nn.gelu",
        "import jax\nassert relu is jax.nn.relu and act is jax.numpy.tanh\n"
        "assert add(1, 2) == 3 and gelu is jax.nn.gelu",
    ),
    "custom_vjp": (
        "@jax.custom_vjp\ndef f(x): return x\ndef fwd(x): return f(x), K\n"
        "def bwd(k, g): return (g * k,)\nK = 7.\nf.defvjp(fwd, bwd)",
        "assert jax.grad(f)(1.) == 7\nK = 8.\nassert jax.grad(f)(1.) == 8",
    ),
    "custom_vjp options": (
        "from functools import partial\n@partial(jax.custom_vjp, "
        "nondiff_argnums=(1,))\ndef f(x, n): return x * n\n"
        "f.defvjp(lambda x, n: (f(x, n), None), lambda n, r, g: (g * n * 10,))",
        "assert jax.grad(f)(1., 2.) == 20 and f.nondiff_argnums == (1,)",
    ),
    "custom_jvp": (
        "@jax.custom_jvp\ndef f(x): return x\n@f.defjvp\ndef rule(p, t):\n return f(*p), 5. * t[0]",
        "assert jax.grad(f)(1.) == 5",
    ),
    "custom_jvps": (
        "@jax.custom_jvp\ndef f(x): return x\nf.defjvps(lambda t, y, x: 5. * t)",
        "assert jax.grad(f)(1.) == 5",
    ),
    "optax": (
        "import optax\ntx = optax.chain(optax.clip(1.), optax.adamw(optax.cosine_decay_schedule"
        "(1e-3, 10)))\nparams = {'w': jnp.ones(3)}\nstate = tx.init(params)",
        "u, state = tx.update({'w': params['w']}, state, params)\nassert u['w'].shape == (3,)",
    ),
    "flax linen": (
        "import optax\nfrom flax import linen as nn\nfrom flax.training.train_state "
        "import TrainState\nclass Net(nn.Module):\n width: int = 4\n @nn.compact\n"
        " def __call__(self, x): return nn.Dense(1)(nn.relu(nn.Dense(self.width)(x)))\n"
        "net = Net()\nx = jnp.ones((2, 3))\nts = TrainState.create(apply_fn=net.apply, "
        "params=net.init(jax.random.key(0), x)['params'], tx=optax.adam(1e-3))\n"
        "y = np.asarray(net.apply({'params': ts.params}, x))",
        "assert (ts.apply_fn({'params': ts.params}, x) == y).all()\n"
        "ts = ts.apply_gradients(grads=ts.params)\nassert ts.step == 1\n"
        "assert Net(width=2).init(jax.random.key(0), x)",
    ),
    "flax nnx": (
        "import optax\nfrom flax import nnx\nclass Net(nnx.Module):\n"
        " def __init__(self, rngs): self.a = nnx.Linear(3, 1, rngs=rngs)\n"
        " def __call__(self, x): return nnx.relu(self.a(x))\nnet = Net(nnx.Rngs(0))\n"
        "opt = nnx.Optimizer(net, optax.sgd(.1), wrt=nnx.Param)\nx = jnp.ones((2, 3))\n"
        "y = np.asarray(net(x))",
        "assert (net(x) == y).all() and isinstance(net, Net)\n"
        "g = nnx.grad(lambda m: m(x).sum())(net)\nopt.update(net, g)\nassert Net(nnx.Rngs(1))",
    ),
    "equinox": (
        "import equinox as eqx\nclass Net(eqx.Module):\n a: eqx.nn.Linear\n"
        " def __init__(self, key): self.a = eqx.nn.Linear(3, 1, key=key)\n"
        " def __call__(self, x): return self.a(x)\nnet = Net(jax.random.key(0))\n"
        "x = jnp.ones(3)\ny = np.asarray(net(x))\n"
        "@eqx.filter_jit\ndef step(m, x): return m(x).sum()",
        "assert (net(x) == y).all() and step(net, x) == y.sum()\n"
        "assert eqx.filter_grad(step)(net, x) and Net(jax.random.key(1))(x).shape == (1,)",
    ),
    "pytree class": (
        "@jax.tree_util.register_pytree_node_class\nclass P:\n"
        " def __init__(self, x): self.x = x\n def tree_flatten(self): return (self.x,), None\n"
        " @classmethod\n def tree_unflatten(cls, aux, c): return cls(*c)\np = P(1.)",
        "assert jax.tree.map(lambda v: v * 2, p).x == 2 and jax.jit(lambda q: q.x)(p) == 1",
    ),
    "registered dataclass": (
        "from dataclasses import dataclass, field\n@jax.tree_util.register_dataclass\n"
        "@dataclass\nclass P:\n x: float\n n: str = field(default='', "
        "metadata=dict(static=True))\np = P(1., 'a')",
        "q = jax.tree.map(lambda v: v * 2, p)\nassert q == P(2., 'a')",
    ),
    "registered with keys": (
        "class P:\n def __init__(self, x): self.x = x\n"
        "jax.tree_util.register_pytree_with_keys(P, lambda p: (((jax.tree_util."
        "GetAttrKey('x'), p.x),), None), lambda a, c: P(*c))\np = P(1.)",
        "assert jax.tree.map(lambda v: v * 2, p).x == 2\n"
        "[(path, _)] = jax.tree_util.tree_flatten_with_path(p)[0]\n"
        "assert jax.tree_util.keystr(path) == '.x'",
    ),
    "flax struct": (
        "from flax import struct\n@struct.dataclass\nclass P:\n x: float\n"
        " f: str = struct.field(pytree_node=False, default='')\np = P(1.)",
        "assert jax.tree.map(lambda v: v * 2, p).replace(f='q') == P(2., 'q')",
    ),
    "train state": (
        "import optax\nfrom flax.training import train_state\n"
        "class State(train_state.TrainState):\n stats: dict\n"
        "s = State.create(apply_fn=None, params={'w': 1.}, tx=optax.sgd(.1), stats={'m': 2.})",
        "assert len(jax.tree.leaves(s)) == 3, jax.tree.leaves(s)\nassert isinstance(s, State)\n"
        "s = jax.jit(lambda s: s.apply_gradients(grads={'w': 1.}))(s)\nassert s.stats['m'] == 2",
    ),
    "equinox fields": (
        "import equinox as eqx\nclass Base(eqx.Module):\n w: jax.Array\n"
        " name: str = eqx.field(static=True, default='n')\nclass Net(Base):\n b: float = 2.\n"
        " def __call__(self, x): return self.w * x + self.b\nnet = Net(jnp.ones(2))",
        "assert len(jax.tree.leaves(net)) == 2 and net.name == 'n'\n"
        "assert eqx.filter_jit(net)(1.).sum() == 6 and Net(net.w, b=1.)(1.).sum() == 4",
    ),
    "commands": (
        "word = 'hi'",
        "out = !echo {word} $word\nassert out == ['hi hi'], out\n"
        "%time x = 1\nassert x == 1\n%matplotlib inline\n!true",
    ),
    "report": (
        "from jupyter_jax_trainer.worker.serialization.describe import type_name as report",
        "assert report(1) == 'int'",
    ),
    "cached functions": (
        "import functools\nG = 2\n@functools.lru_cache(maxsize=7, typed=True)\n"
        "def sq(x): return x * G\nsq.note = [G]\n@functools.cache\n"
        "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "class A:\n @functools.lru_cache\n def m(self): return G\n"
        "p = functools.partial(sq, 3)\nimport textwrap\nlocal = fib.__wrapped__",
        "assert fib(80) == 23416728348467685 and p() == 6 and sq.note == [2]\n"
        "assert sq.cache_parameters() == {'maxsize': 7, 'typed': True}\n"
        "assert fib.cache_info().hits > 70 and local.__globals__['fib'] is fib\n"
        "G = 5\nassert sq(4) == 20 and A().m() == 5 and A.m.cache_info().misses == 1",
    ),
    "cached library function": (
        "import functools, re\ncached = functools.lru_cache(re.compile)\n"
        "theirs = jnp.dtype, re._compile_repl if hasattr(re, '_compile_repl') else re.escape",
        "assert cached('a') is cached('a')",
    ),
    "singledispatch": (
        "import functools\nclass P: pass\n@functools.singledispatch\n"
        "def show(x): return 'any'\n@show.register\ndef _(x: int): return 'int'\n"
        "@show.register(list)\ndef _(x): return [show(v) for v in x]\n"
        "show.register(np.ndarray, lambda x: 'array')\nshow.register(P, lambda x: 'P')\n"
        "class D:\n @functools.singledispatchmethod\n def m(self, x): return 'any'\n"
        " @m.register\n def _(self, x: str): return show(x) + '!'\n"
        "part = functools.partial(show, 1)",
        "import numpy as np\nassert show([1, 'a', np.ones(2), P()]) == ['int', 'any', 'array', 'P']\n"
        "assert part() == 'int' and D().m('a') == 'any!' and D().m(1) == 'any'\n"
        "@show.register\ndef _(x: dict): return 'dict'\nassert show({}) == 'dict'\n"
        "assert show.__name__ == 'show'",
    ),
    "wraps": (
        "import functools\nK = 2\ndef twice(f):\n @functools.wraps(f)\n"
        " def inner(*a): return f(*a) * K\n return inner\n@twice\n@functools.lru_cache\n"
        "def g(x): return x\n@functools.lru_cache\n@twice\ndef h(x): return x",
        "K = 3\nassert g(1) == 3 == h(1) and g.__name__ == 'g' and h.__wrapped__.__name__ == 'h'",
    ),
    "cached_property": (
        "import functools\nclass A:\n @functools.cached_property\n def p(self):\n"
        "  'doc'\n  return [1]\n q = functools.cached_property(lambda self: 2)\n"
        "a = A()",
        "assert a.p is a.p and a.p == [1] and A.p.__doc__ == 'doc' and a.q == 2",
    ),
    "names of types": (
        "import typing\nU = typing.NewType('U', int)\nP = typing.ParamSpec('P')\n"
        "V = typing.NewType('V', U)\ndef f(x: U) -> V: return V(x)",
        "assert f(3) == 3 and U(2) == 2 and V.__supertype__ is U and P.__name__ == 'P'",
    ),
    "64 bits": (
        "with jax.enable_x64(True):\n wide = jnp.ones(3, 'float64')",
        "assert wide.dtype == 'float64'",
    ),
}


def notebook(code: str) -> dict:
    import jax
    import jax.numpy as jnp

    namespace = {"__name__": "__main__", "jax": jax, "jnp": jnp, "np": np}
    exec(compile(code, "<notebook>", "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    captures, failed = {}, {}
    for name, (earlier, cell) in CASES.items():
        try:
            captures[name] = (capture_cell(cell, notebook(earlier)), [])
        except Exception as error:
            failed[name] = repr(error)
    return {**run_fresh(captures, tmp_path_factory.mktemp("fresh")), **failed}


@pytest.mark.parametrize("name", CASES)
def test_travels(name, outcomes):
    assert not isinstance(outcomes[name], str), outcomes[name]


def test_code_keeps_its_file(monkeypatch):
    """Tracebacks name it; cloudpickle 3.1.3 writes another name in its place."""
    usual = cloudpickle.Pickler.dispatch_table[types.CodeType]

    def without(code):
        make, arguments = usual(code)
        return make, tuple(
            "<dynamic-code>" if one == code.co_filename else one for one in arguments
        )

    monkeypatch.setattr(Pickler, "dispatch_table", {types.CodeType: without}, raising=False)
    code = compile("def f(): ...", "a-cell.py", "exec")
    file = io.BytesIO()
    Pickler(file).dump(code)
    assert pickle.loads(file.getvalue()).co_filename == "a-cell.py"


def test_classes_come_back_as_they_are(tmp_path):
    earlier = (
        "import enum\nfrom dataclasses import dataclass\nG = 1\n@dataclass\nclass P:\n x: int\n"
        " def m(self): return G\nclass E(enum.Enum):\n A = 1\n"
    )
    namespace = notebook(earlier)
    cell = (
        "P.touched = True\nP.m = lambda self: 'changed'\nback = [P(2), E.A, P]\nG = 5\n"
        "class New:\n v = 3\nnew = New()\ndef f(): return G\n"
    )
    capture = capture_cell(cell, namespace)
    outcome = run_fresh({"x": (capture, ["back", "new", "f"])}, tmp_path)["x"]
    assert not isinstance(outcome, str), outcome
    stream, buffers = outcome

    def load():
        return Unpickler(io.BytesIO(stream), buffers=map(bytearray, buffers)).load()

    (p, e, cls), new, f = load()
    assert cls is namespace["P"] and type(p) is cls and p.x == 2 and e is namespace["E"].A
    assert not hasattr(cls, "touched") and p.m() == 1
    assert new.v == 3 and type(load()[1]) is type(new)
    assert f() == 5 and f.__globals__ is not namespace and namespace["G"] == 1


def roundtrip(*values, main=None):
    file = io.BytesIO()
    pickler = Pickler(file, main_globals=main)
    for value in values:
        pickler.dump(("v", value))
    buffers = [bytearray(b) for b in pickler.buffers]
    return [v for _, v in load_pairs(file.getvalue(), buffers, main)]


leaves = st.one_of(
    st.none(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.builds(lambda n: np.arange(n), st.integers(0, 400)),
)
trees = st.recursive(
    leaves,
    lambda t: st.one_of(
        st.lists(t, max_size=4),
        st.dictionaries(st.text(max_size=3), t, max_size=4),
        st.tuples(t, t),
        t.map(lambda v: [v, v]),
    ),
    max_leaves=15,
)


def same(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and b.flags.writeable and np.array_equal(a, b)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def shape_of_sharing(value):
    """Which objects of a tree are the same: the order of first meetings of identities."""
    order, found = {}, []

    def walk(v):
        if isinstance(v, list | dict | np.ndarray):
            found.append(order.setdefault(id(v), len(order)))
        for child in (
            v.values() if isinstance(v, dict) else v if isinstance(v, list | tuple) else ()
        ):
            walk(child)

    walk(value)
    return found


@settings(max_examples=150)
@given(st.lists(trees, min_size=1, max_size=4))
def test_values_and_what_they_share(values):
    values = [*values, values[0]]
    loaded = roundtrip(*values)
    assert same(values, loaded)
    assert shape_of_sharing(values) == shape_of_sharing(loaded)


def test_large_arrays_are_not_copied():
    array = np.zeros(1 << 20)
    file, seen = io.BytesIO(), []
    pickler = Pickler(file, on_size=seen.append)
    pickler.dump(array)
    assert np.shares_memory(np.frombuffer(pickler.buffers[0]), array)
    assert len(file.getvalue()) < 500 and pickler.total == array.nbytes + len(file.getvalue())
    assert max(seen) >= array.nbytes


def test_the_size_is_told_before_anything_is_copied():
    def stop(size):
        if size > 1 << 20:
            raise ValueError("too much")

    strided = np.lib.stride_tricks.as_strided(np.zeros(4), (1 << 40,), (0,))  # 8 TB, if copied
    for value in (strided, b"x" * (2 << 20)):
        with pytest.raises(ValueError, match="too much"):
            Pickler(io.BytesIO(), on_size=stop).dump(value)


def test_rollback():
    file = io.BytesIO()
    pickler = Pickler(file)
    shared = [1]
    pickler.dump(("v", shared))
    mark = pickler.mark()
    with pytest.raises(CannotTravel):
        pickler.dump(("v", [shared, np.zeros(1000), (i for i in ())]))
    pickler.rollback(mark)
    pickler.dump(("v", {"again": shared}))
    first, second = (v for _, v in load_pairs(file.getvalue(), pickler.buffers))
    assert second["again"] is first and pickler.buffers == []


def test_facts_about_what_was_pickled():
    namespace = notebook("def f(): return 1")
    pickler = Pickler(io.BytesIO(), main_globals=namespace)
    pickler.dump([1, "a", np.ones(3), types.SimpleNamespace(), fractions.Fraction])
    assert not pickler.has_code and "fractions" in pickler.modules
    pickler.dump(namespace["f"])
    assert pickler.has_code


def test_deleted_arrays():
    import jax

    gone = jax.numpy.ones(3)
    gone.delete()
    with pytest.raises(CannotTravel) as refused:
        roundtrip(gone)
    assert refused.value.what.id == "worker.deleted-array"


def test_refusals_are_not_for_classes():
    import threading

    assert roundtrip(threading.Thread, sys.stdout)[0] is threading.Thread


def test_what_goes_by_reference_into_the_notebook_is_refused():
    namespace = notebook(
        "class Missing:\n def __reduce__(self): return 'MISSING'\nMISSING = Missing()\n"
        "import copyreg\nclass Other: pass\nother = Other()\n"
        "copyreg.pickle(Other, lambda o: 'other')\nx = {'a': [MISSING]}\ny = (other,)"
    )
    main = types.ModuleType("__main__")
    main.__dict__.update(namespace)
    for name, part, what in (
        ("x", "x['a'][0]", say_of_worker.BY_NAME(type="Missing", name="MISSING")),
        ("y", "y[0]", say_of_worker.BY_NAME(type="Other", name="other")),
    ):
        with pytest.raises(CaptureError) as e:
            capture_cell(name, namespace)
        assert e.value.message == say.CANNOT_SEND_PART(name=name, part=part, what=what)
        assert e.value.hint == what.hint


def test_cached_functions_come_back(tmp_path):
    cell = (
        "import functools\n@functools.cache\ndef fib(n): return n if n < 2 else fib(n-1) + fib(n-2)\n"
        "@functools.singledispatch\ndef show(x): return 'any'\n"
        "@show.register\ndef _(x: list): return [show(v) for v in x]\n"
    )
    outcome = run_fresh({"x": (capture_cell(cell, notebook("")), ["fib", "show"])}, tmp_path)["x"]
    assert not isinstance(outcome, str), outcome
    fib, show = Unpickler(io.BytesIO(outcome[0]), buffers=map(bytearray, outcome[1])).load()
    assert fib(60) == 1548008755920 and fib.__wrapped__.__globals__["fib"] is fib
    assert show([1, [2]]) == ["any", ["any"]]


def test_cached_functions_of_own_modules_go_by_reference(tmp_path, monkeypatch):
    (tmp_path / "mine_cached.py").write_text(
        "import functools\n@functools.lru_cache\ndef f(): return 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    capture = capture_cell("assert f() == 1", notebook("from mine_cached import f"))
    del sys.modules["mine_cached"]
    assert set(capture.modules) == {"mine_cached.py"} and capture.python_bound == []
