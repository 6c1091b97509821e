"""A rank of a session by itself: what it says of its variables, and ranks that can't meet."""

from __future__ import annotations

import collections
import dataclasses
import time
import types
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from jupyter_jax_trainer.jobdir.failure import RankEnd, diagnose
from jupyter_jax_trainer.worker import exceptions, rendezvous
from jupyter_jax_trainer.worker import session as ranks
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.compiling import Meter
from jupyter_jax_trainer.worker.display import Displayer
from jupyter_jax_trainer.worker.profiling import Profiler
from jupyter_jax_trainer.worker.reporting import Reporter
from jupyter_jax_trainer.worker.sampler import Sampler
from jupyter_jax_trainer.worker.shared import Shared
from jupyter_jax_trainer.worker.timing import Timing
from jupyter_jax_trainer.worker.whereabouts import Lookout


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(ranks.signal, "signal", lambda *_: None)
    channel = Channel(None)
    own = Lookout(), Reporter(channel), Displayer(None), Meter(channel), Profiler(channel, None)
    own = *own, Sampler(channel, 2, contained=False), Timing(channel)
    return ranks.Session(0, 2, channel, *own, {"given": 1}, None)


def test_ranks_that_can_not_meet_at_the_start_fail_as_a_start(session, monkeypatch):
    monkeypatch.setattr(rendezvous, "in_step", lambda number: False)
    with pytest.raises(ranks.SessionError) as failed:
        session.meet()
    failure = diagnose([RankEnd(rank=0, error=exceptions.describe(failed.value, "", {}))])
    assert failure.kind == "start" and failure.hint


class Rude:
    def __len__(self):
        raise ValueError

    @property
    def dtype(self):
        raise ValueError


def test_what_is_said_of_variables(session):
    session._namespace.update(
        array=np.ones((2, 3), np.float32),
        tree={"a": np.ones(4), "b": [np.ones(2), "text"]},
        huge=[0] * 20_000,
        number=5,
        function=len,
        rude=Rude(),
        __hidden__=1,
    )
    found = session._holdings(7)["variables"]
    assert set(found) == {"array", "tree", "huge", "number", "function", "rude"}
    assert (found["array"]["type"], found["array"]["size"]) == ("float32[2,3]", 24)
    assert (found["tree"]["size"], found["tree"]["device_size"]) == (48, 48)
    assert found["huge"]["size"] is None and found["number"]["size"] is None
    assert found["function"]["kind"] == "function"
    session._namespace["number"] = 10_000_000
    del session._namespace["huge"]
    told = session._holdings(8)
    again = told["variables"]
    assert (again["array"]["cell"], again["number"]["cell"]) == (7, 8)
    assert (told["bound"], told["gone"]) == (["number"], ["huge"])
    for number in (9, 10):  # in the same place in memory, perhaps
        del session._namespace["array"]
        session._namespace["array"] = np.ones((2, 3), np.float32)
        assert session._holdings(number)["bound"] == ["array"]
    session._rank, session._chosen = 1, [1]
    session._namespace["new"] = 1
    assert set(session._holdings(11)["variables"]) == {"new"}  # rank 0 tells the others


def test_what_came_with_a_cell_is_told_from_what_the_session_has_assigned(session):
    import jax.numpy as jnp

    session._namespace.update(sent=[1], made=jnp.ones(2))
    session._brought["sent"] = ranks._Binding(session._namespace["sent"], 3)
    found = session._holdings(3)["variables"]
    assert (found["sent"]["brought"], found["sent"]["own"]) == (3, False)
    assert found["made"]["own"] and "brought" not in found["made"]
    assert found["made"]["devices"] == 1 and "devices" not in found["sent"]
    session._namespace["sent"] = [2]
    found = session._holdings(4)["variables"]["sent"]
    assert (found["brought"], found["own"], found["cell"]) == (3, True, 4)


class Slots:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


@dataclasses.dataclass(frozen=True)
class Frozen:
    held: Any


class Model:
    def __init__(self, held=None):
        self.held = held


def closed_over(value):
    return lambda: value


@pytest.mark.parametrize(
    "holder",
    [
        Model,
        Slots,
        Frozen,
        closed_over,
        partial(partial, print),
        lambda one: {"a": [(one, 1)]},
        lambda one: collections.namedtuple("Pair", "a b")(1, one),
        lambda one: types.MethodType(print, one),
    ],
)
@pytest.mark.parametrize("make", [Model, list, dict, set, lambda: np.ones(3)])
def test_what_holds_a_variable_that_is_replaced_is_found(make, holder):
    one = make()
    values = {"one": one, "other": holder(one), "none": holder(make())}
    shared = Shared(["one"], ["other", "none"], values)
    assert shared.parted(values) == ([], [])
    assert shared.parted({**values, "one": make()}) == (["one"], ["other"])


def test_what_can_not_be_changed_or_has_no_end_is_no_matter():
    import jax.numpy as jnp

    for one in (1, "text", (1, 2), Frozen(1), print, Model, types, jnp.ones(3), np.dtype("int8")):
        values = {"one": (one,), "held": [one]}
        assert Shared(["one"], ["held"], values).parted({"one": None}) == ([], []), one
    cycle = Model()
    cycle.held = [cycle]
    shared = Shared(["new", "cycle"], ["held"], {"cycle": cycle, "held": cycle.held})
    assert shared.parted({"new": 1, "cycle": 1}) == (["cycle"], ["held"])
    others = {f"v{n}": [{} for _ in range(10_000)] for n in range(30)}
    large = {"one": [[] for _ in range(1_000_000)], **others}
    before = time.process_time()
    assert Shared(["one"], others, large).parted({"one": 1}) == ([], [])
    assert time.process_time() - before < 1


def test_models_of_libraries_are_shared_where_they_can_be_changed():
    import equinox as eqx
    import jax
    import optax
    from flax import linen, nnx

    tx, dense = optax.adam(0.1), linen.Dense(3)
    mlp = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))
    model, other = nnx.Linear(2, 2, rngs=nnx.Rngs(0)), nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    values = {
        "tx": tx,
        "mlp": mlp,
        "dense": dense,
        "model": model,
        "optimizer": nnx.ModelAndOptimizer(model, tx, wrt=nnx.Param),
        "state": (tx, dense.apply, tx.init(eqx.filter(mlp, eqx.is_array)), mlp),
        "other": other,
    }
    for name in values:
        shared = Shared([name], [one for one in values if one != name], values)
        parted = {"model": ["optimizer"], "optimizer": ["model"]}.get(name, [])
        assert shared.parted({**values, name: None}) == ([name] if parted else [], parted)


class Device(NamedTuple):
    process_index: int
    platform: str


class Program:
    """A compiled program, as far as one looks at it."""

    def __init__(self, ranks, text, platform="cpu"):
        devices = {Device(rank, platform) for rank in ranks}
        self.in_handler = types.SimpleNamespace(in_shardings=[])
        self.out_handler = types.SimpleNamespace(
            out_shardings=[types.SimpleNamespace(device_set=devices)]
        )
        modules = [types.SimpleNamespace(to_string=lambda: text)]
        self.xla_executable = types.SimpleNamespace(hlo_modules=lambda: modules)


@pytest.mark.parametrize(
    ("program", "others"),
    [
        (Program([0, 1, 2], "%all-reduce.1 = f32[3] all-reduce(%p), channel_id=1"), {0, 2}),
        (Program([0, 1], "%s = (f32[3], f32[3]) all-gather-start(%p), x"), {0}),
        (Program([1, 2], "%c = f32[3] collective-permute(%p)"), {2}),
        (Program([1], "%a = f32[3] all-reduce(%p)"), set()),
        (Program([0, 1], "%all_reduced = f32[3] add(%p, %p)"), set()),
        (Program([0, 1], "%a = f32[3] add(%p, %p)", "tpu"), {0}),
    ],
)
def test_a_program_needs_the_ranks_with_which_it_communicates(program, others):
    assert rendezvous._others_of(program, [1]) == others


def test_a_jax_that_is_built_otherwise_is_left_alone(monkeypatch):
    monkeypatch.setattr("jax._src.interpreters.pxla.ExecuteReplicated", None)
    with rendezvous.alone([1], 2):
        pass
