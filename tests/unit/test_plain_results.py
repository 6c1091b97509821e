"""Results without pickle: what goes comes back exactly, and nothing that comes back runs."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import math
import random
import struct
import sys
import tracemalloc
import types
import zipfile
from typing import Any, NamedTuple

import flax
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from made_jobs import make_job

from jupyter_jax_trainer.errors import ResultError, ResultWarning
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.plainreader import PlainReader
from jupyter_jax_trainer.jobdir.results import load_available, take_results
from jupyter_jax_trainer.messages import results as say
from jupyter_jax_trainer.trust.pickles import ALLOW
from jupyter_jax_trainer.trust.unpacking import read_member
from jupyter_jax_trainer.worker.results import collect
from jupyter_jax_trainer.worker.serialization.archive import write_archive
from jupyter_jax_trainer.worker.serialization.plain import (
    FORMAT,
    MAX_NODES,
    MEMBER,
    PICKLE,
    PLAIN,
    NotPlain,
    PlainWriter,
)


class Point(NamedTuple):
    x: Any
    y: Any


@flax.struct.dataclass
class State:
    step: Any
    params: Any
    name: str = flax.struct.field(pytree_node=False, default="")

    def __post_init__(self) -> None:
        if self.name == "no init":
            raise RuntimeError("__post_init__ was run")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    a: Any
    b: Any = 3


@dataclasses.dataclass
class Unregistered:
    a: int


class Shouting(NamedTuple):
    a: int

    def __reduce__(self) -> Any:
        return eval, ("1/0",)


def finished_job(name: str = "fit", **variables: Any) -> Job:
    """Make a job that has brought these variables back."""
    directory = make_job(name)
    table = collect(list(variables), variables, 0, 1, directory.result)
    make_job(name, results=table)
    return Job(directory)


def formats(job: Job) -> dict[str, str]:
    return {entry["name"]: entry["format"] for entry in job.results_info}


def through(value: Any) -> Any:
    """Write a value in the plain format, and read it."""
    writer = PlainWriter()
    root = json.loads(json.dumps(writer.write(value)))
    return reader_of(writer).read(root)


def reader_of(writer: PlainWriter) -> PlainReader:
    buffers = [bytearray(buffer or b"") for buffer in writer.buffers]
    return PlainReader([node.text for node in writer.nodes], lambda n: memoryview(buffers[n]))


def same(a: Any, b: Any) -> bool:
    """Return whether two values are alike to the bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, jax.Array):
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            return a.dtype == b.dtype and same(jax.random.key_data(a), jax.random.key_data(b))
        return a.weak_type == b.weak_type and same(np.asarray(a), np.asarray(b))
    if isinstance(a, np.ndarray | np.generic):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes("A") == b.tobytes("A")
            and a.flags.f_contiguous == b.flags.f_contiguous
        )
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, dict):
        return all(map(same, [*a, *a.values()], [*b, *b.values()])) and len(a) == len(b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, set | frozenset):
        return in_order(a) == in_order(b)
    return bool(a == b)


def in_order(value: Any) -> str:
    """Write a value of a set: nan is not itself, and equal sets may list what they hold differently."""
    if isinstance(value, set | frozenset | tuple):
        held = [in_order(each) for each in value]
        return f"{type(value).__name__}{held if isinstance(value, tuple) else sorted(held)}"
    return repr(value)


DTYPES = nps.nested_dtypes(max_itemsize=200)
FLAT = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=1 << 62),
    st.floats(),
    st.complex_numbers(),
    st.text(st.characters(), max_size=20),
    st.binary(max_size=20),
    st.text(min_size=600, max_size=700),
    st.binary(min_size=600, max_size=700),
)
ARRAYS = nps.arrays(DTYPES, nps.array_shapes(min_dims=0, min_side=0, max_side=6))
KEYS = st.one_of(FLAT, st.tuples(FLAT, FLAT), st.frozensets(FLAT, max_size=3))
VALUES = st.recursive(
    FLAT | ARRAYS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(KEYS, max_size=4),
        st.builds(Point, inner, inner),
        st.builds(Slotted, inner, inner),
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(VALUES)
def test_values_come_back_to_the_bit(value):
    assert same(through(value), value)


@settings(max_examples=200)
@given(ARRAYS, st.sampled_from(["C", "F", "strided", "read-only"]))
def test_arrays_come_back_to_the_bit_in_their_order_and_writable(array, form):
    if form == "F":
        array = np.asfortranarray(array)
    elif form == "strided" and array.ndim:
        array = np.repeat(array, 2, axis=0)[::2]
    array.flags.writeable = form != "read-only"
    found = through(array)
    if array.flags.c_contiguous or array.flags.f_contiguous:
        assert same(found, array)
    assert found.dtype == array.dtype and found.tobytes() == array.tobytes()
    assert found.flags.writeable


EXTENDED = [
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
]


@pytest.mark.parametrize("name", EXTENDED)
def test_the_small_types_of_jax_come_back(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    array = np.arange(1, 700).astype(dtype) if "uint" not in name else np.ones(700, dtype)
    assert same(through(array), array)
    assert same(through(array[:5]), array[:5]) and same(through(array[3]), array[3])
    assert same(through(jnp.asarray(array)), jnp.asarray(array))


@pytest.mark.parametrize(
    "value",
    [
        np.float32(1.5),
        np.float64(2),
        np.bool_(True),
        np.int8(-3),
        np.uint64(1 << 63),
        np.str_("é"),
        np.bytes_(b"ab"),
        np.datetime64("2020-01-01", "25s"),
        np.timedelta64(3, "ms"),
        np.complex64(1j),
        np.longdouble("1.1"),
        np.zeros((), [("a", ">f4"), ("b", "i2", (2,))])[()],
        np.void(b"xyz"),
        np.array(3.0),
        np.array("2020", "M8[Y]"),
        np.zeros((0, 3), ">c8"),
        np.array(["ab", ""]),
        np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
        np.dtype("<M8[ns]"),
        np.zeros(2, {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]}),
    ],
    ids=lambda value: f"{type(value).__name__}-{value.dtype if hasattr(value, 'dtype') else value}",
)
def test_scalars_and_rare_arrays_keep_type_and_bits(value):
    assert same(through(value), value)


def test_values_of_jax_come_back():
    values = [
        jnp.arange(1000.0),
        jnp.float32(3),
        jnp.asarray(1.0),
        jnp.zeros((0, 2), jnp.int8),
        jnp.ones((3, 2), bool),
        jnp.arange(300, dtype=jnp.complex64),
        jax.random.key(3),
        jax.random.split(jax.random.key(1, impl="rbg"), 4),
        jax.random.PRNGKey(1),
    ]
    assert jnp.asarray(1.0).weak_type
    assert same(through(values), values)
    with jax.enable_x64(True):
        wide = jnp.arange(3, dtype="float64") / 3
    assert same(through(wide), wide)


def test_containers_and_records_come_back_without_their_constructors():
    lists: Any = collections.defaultdict(list, {"a": [1]})
    state = State(3, {"w": np.ones(200)})
    object.__setattr__(state, "name", "no init")
    values = [
        Point(1, [2]),
        state,
        Slotted(1, 2),
        lists,
        collections.OrderedDict(b=1, a=2),
        {1, 2},
        frozenset({(1, "a")}),
        bytearray(b"x" * 600),
        {1: "a", True and 2: "b", None: 0, (1, 2): 3},
        optax.adamw(1e-3).init({"w": jnp.ones(3)}),
    ]
    found = through(values)
    assert same(found, values)
    assert found[3].default_factory is list and type(found[4]) is collections.OrderedDict


def test_what_variables_share_is_shared_afterwards(home):
    a = np.zeros(300)
    inner = [a, {"a": a}]
    job = finished_job(a=a, b={"inner": inner, "again": inner}, f=lambda: (a, inner), c=(inner,))
    assert formats(job) == {"a": PLAIN, "b": PLAIN, "f": PICKLE, "c": PLAIN}
    values, errors = load_available(job)
    assert not errors
    assert values["b"]["inner"] is values["b"]["again"] is values["c"][0]
    assert values["b"]["inner"][0] is values["b"]["inner"][1]["a"] is values["a"]
    assert values["f"]()[0] is values["a"] and values["f"]()[1] is values["c"][0]


def test_an_object_that_a_pickle_shares_goes_with_the_pickle(home):
    # A dictionary in place of an object whose class is missing must not get into the pickled one.
    state = State(1, {"w": np.ones(300)})
    job = finished_job(state=state, both=(state, print), params=state.params)
    assert formats(job) == {"state": PICKLE, "both": PICKLE, "params": PLAIN}
    values, _ = load_available(job)
    assert values["both"][0] is values["state"]
    assert values["state"].params is values["params"]


def test_what_holds_itself_needs_pickle(home):
    ring: list[Any] = [1]
    ring.append(ring)
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    job = finished_job(ring=ring, deep=deep, shallow=[[1]])
    assert formats(job) == {"ring": PICKLE, "deep": PICKLE, "shallow": PLAIN}
    values, _ = load_available(job)
    assert values["ring"][1] is values["ring"] and values["deep"] == deep


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}], object),
        np.zeros(2, [("o", object)]),
        np.ma.masked_array([1, 2], [0, 1]),
        np.array(["a"], np.dtypes.StringDType()),
        print,
        int,
        Unregistered(1),
        Shouting(1),
        {Point(1, 2): 3},
        range(3),
        types.SimpleNamespace(a=1),
        collections.defaultdict(lambda: 1),
        type("Local", (tuple,), {"_fields": ("a",)})((1,)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_plain_form_is_left_to_pickle(value):
    writer = PlainWriter()
    with pytest.raises(NotPlain):
        writer.write([1, [2], value])
    assert (writer.nodes, writer.buffers) == ([], [])
    assert writer.write([5]) == [0]


def test_plain_results_are_loaded_without_any_unpickler(home, monkeypatch):
    import jupyter_jax_trainer.worker.serialization.pickling as pickling

    job = finished_job(w=jnp.ones(500), o=optax.adam(1e-3).init({"w": jnp.ones(3)}), c={"lr": 0.1})
    monkeypatch.setattr(pickling, "Unpickler", None)
    values, errors = load_available(job)
    assert not errors and values["c"] == {"lr": 0.1}
    assert isinstance(values["o"][0], optax.ScaleByAdamState)
    assert formats(job) == dict.fromkeys("woc", PLAIN)


# ---- classes


def nodes(words: list[list[Any]], values: dict[str, Any], path: Any, **more: Any) -> None:
    """Write a file of results by hand."""
    text = b"\n".join(json.dumps(line).encode() for line in words)
    manifest = {
        "results_format": FORMAT,
        "python": list(sys.version_info[:2]),
        "plain": values,
        "groups": [],
        "results": [{"name": name} for name in values],
        **more,
    }
    write_archive(path, {MEMBER: text}, [], manifest)


def forged(words: list[list[Any]], value: Any = None) -> Job:
    directory = make_job("forged", results=[{"name": "v", "type": "t", "size": 1, "format": PLAIN}])
    nodes(words, {"v": [len(words) - 1] if value is None else value}, directory.result)
    return Job(directory)


def test_a_class_that_is_not_imported_gives_a_dictionary_and_a_note(home, monkeypatch):
    module = types.ModuleType("team_models")
    module.Mine = Mine = collections.namedtuple("Mine", "a b", module="team_models")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "team_models", module)
    job = finished_job(m=[Mine(1, 2)], n=3)
    assert formats(job) == {"m": PLAIN, "n": PLAIN}
    monkeypatch.delitem(sys.modules, "team_models")
    with pytest.warns(ResultWarning, match="^m: .*team_models.Mine.*import team_models"):
        values, errors = load_available(job)
    assert values == {"m": [{"a": 1, "b": 2}], "n": 3} and not errors
    assert "team_models" not in sys.modules
    monkeypatch.setitem(sys.modules, "team_models", module)
    assert load_available(job)[0]["m"] == [Mine(1, 2)]
    assert type(load_available(job)[0]["m"][0]) is Mine


class Loud:
    loaded: list[str] = []


class Cleaner(NamedTuple):
    a: int

    def __del__(self) -> None:
        Loud.loaded.append("__del__")


@flax.struct.dataclass
class WithSetter:
    a: int = 1


WithSetter.a = property(lambda self: 1, lambda self, value: Loud.loaded.append("set"))  # type: ignore[assignment, method-assign]


@pytest.mark.parametrize(
    ("kind", "module", "name", "fields"),
    [
        ("dataclass", __name__, "Unregistered", ["a"]),
        ("dataclass", __name__, "State", ["step"]),
        ("dataclass", __name__, "WithSetter", ["a"]),
        ("dataclass", "subprocess", "Popen", ["args"]),
        ("dataclass", "os", "_Environ", []),
        ("dataclass", "antigravity", "fly", []),
        ("namedtuple", "antigravity", "fly", []),
        ("namedtuple", __name__, "Cleaner", ["a"]),
        ("namedtuple", __name__, "Shouting", ["a"]),
        ("namedtuple", __name__, "State", ["step", "params", "name"]),
        ("namedtuple", "builtins", "tuple", []),
        ("namedtuple", "time", "struct_time", []),
        ("dataclass", "builtins", "object", []),
        ("dataclass", __name__, "finished_job", []),
        ("dataclass", __name__, "State.__class__", []),
    ],
)
def test_no_other_class_is_used(home, kind, module, name, fields):
    job = forged([[kind, module, name, fields, *fields]])
    with pytest.warns(ResultWarning):
        assert load_available(job)[0] == {"v": {field: field for field in fields}}
    assert not Loud.loaded and "antigravity" not in sys.modules


def test_a_lazy_module_is_not_loaded(home, monkeypatch):
    class Lazy(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("it was asked")

    monkeypatch.setitem(sys.modules, "lazy_one", Lazy("lazy_one"))
    with pytest.warns(ResultWarning):
        assert load_available(forged([["namedtuple", "lazy_one", "A", ["a"], 1]]))[0]


def test_what_a_file_calls_its_classes_reaches_no_terminal_raw(home):
    osc = "\x1b]52;c;aGk=\x07\x1b[31m\u202e"
    names = [f"a{osc}\nb", "x" * 100_000, *(f"m{number}" for number in range(5_000))]
    words = [["namedtuple", f"team{osc}", name, ["a"], 1] for name in names]
    with pytest.warns(ResultWarning) as warned:
        load_available(forged([*words, ["list", *([number] for number in range(len(words)))]]))
    text = str(warned[0].message)
    assert text.isprintable() and len(text) < 2_000
    assert "team.a b" in text and "4,992 more" in text and "import team" not in text


class Nosy(type):
    """Notes whatever a class is asked for."""

    def __getattribute__(cls, name: str) -> Any:
        Loud.loaded.append(name)
        return super().__getattribute__(name)

    def __getattr__(cls, name: str) -> Any:
        Loud.loaded.append(name)
        raise AttributeError(name)

    def __hash__(cls) -> int:
        Loud.loaded.append("hash")
        return 1

    def __bool__(cls) -> bool:
        Loud.loaded.append("bool")
        return True


class Lazy:
    """Stands in for a class that is imported when it is asked what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        Loud.loaded.append("__class__")
        return type


class LazyModule(types.ModuleType):
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        Loud.loaded.append("__dict__")
        return {}


@pytest.mark.parametrize("kind", ["dataclass", "namedtuple"])
def test_nothing_in_a_module_is_asked_what_it_is(home, monkeypatch, kind):
    module = types.ModuleType("lazy_parts")
    module.Nosy = Nosy("Nosy", (), {})  # type: ignore[attr-defined]
    module.Pair = Nosy("Pair", (tuple,), {"a": 1})  # type: ignore[attr-defined]
    module.proxy = Lazy()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lazy_parts", module)
    monkeypatch.setitem(sys.modules, "lazy_module", LazyModule("lazy_module"))
    monkeypatch.setitem(sys.modules, "lazy_object", Lazy())  # type: ignore[misc]
    names = [
        "lazy_parts Nosy",
        "lazy_parts Nosy.a",
        "lazy_parts Pair",
        "lazy_parts proxy",
        "lazy_module A",
        "lazy_object A",
    ]
    Loud.loaded.clear()
    reader = PlainReader(
        [json.dumps([kind, *name.split(), ["a"], 1]).encode() for name in names],
        lambda n: memoryview(b""),
    )
    for number in range(len(names)):
        assert reader.read([number]) == {"a": 1}
    assert Loud.loaded == []


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Bits:
    a: Any

    @property
    def shape(self) -> Any:
        Loud.loaded.append("shape")
        return (2,)

    ndim = dtype = size = shape


def test_a_key_is_made_of_an_array_alone(home):
    Loud.loaded.clear()
    key = ["key", "threefry2x32", [0]]
    for bits in (
        ["dataclass", __name__, "Bits", ["a"], 1],
        ["scalar", "<u4", "AAAAAA=="],
        ["list", 1, 2],
        ["ndarray", "<i4", [2], "C", SIZE],
        ["ndarray", "<f4", [2], "C", SIZE],
    ):
        assert "v" in load_available(forged([bits, key]))[1]
    assert Loud.loaded == []
    values, _ = load_available(forged([["ndarray", "<u4", [2], "C", SIZE], key]))
    assert same(values["v"], jax.random.wrap_key_data(np.zeros(2, "u4")))


# ---- hostile files


SIZE = base = "AAAAAAAAAAA="  # 8 bytes
LAUGHS = [["tuple", 1, 1], *(["tuple", [n], [n]] for n in range(90))]
HOSTILE = {
    "itself": [["list", [0]]],
    "what comes later": [["list", [1]], ["list", [0]]],
    "a negative node": [["list", [-1]]],
    "a fraction": [["list", [0.0]]],
    "true": [["list", 1], ["list", [True]]],
    "two numbers": [["list", 1], ["list", [0, 0]]],
    "an object": [["list", {"a": 1}]],
    "no kind": [[]],
    "a kind that is none": [["eval", "1/0"]],
    "a kind that is a list": [[["list"]]],
    "no list": [{"kind": "list"}],
    "too short": [["ndarray", "<f8"]],
    "too long": [["int", "0x1", 2]],
    "laughs": LAUGHS,
    "laughs as keys": [*LAUGHS[:60], ["dict", [59], 1]],
    "depth": [["list"], *(["list", [n]] for n in range(200))],
    "half a pair": [["dict", 1]],
    "a list as key": [["list"], ["dict", [0], 1]],
    "an array as key": [["ndarray", "<f8", [], "C", SIZE], ["set", [0]]],
    "a record as key": [["dataclass", __name__, "Slotted", ["a", "b"], 1, 2], ["set", [0]]],
    "a factory": [["defaultdict", "eval"]],
    "a number of a text": [["int", "__import__('os')"]],
    "half a float": [["float", "00"]],
    "no base64": [["bytes", "%%%"]],
    "no utf-8": [["str", "/w=="]],
    "no such buffer": [["bytes", 0]],
    "a buffer before the first": [["bytes", -1]],
    "objects": [["ndarray", "|O", [1], "C", SIZE]],
    "objects by letter": [["ndarray", "O", [1], "C", SIZE]],
    "a dtype to evaluate": [["ndarray", "i4,__import__('os').system('x')", [1], "C", SIZE]],
    "a dtype of ml_dtypes that is none": [["ndarray", "finfo", [1], "C", SIZE]],
    "objects in a structure": [
        [
            "ndarray",
            {
                "names": ["a"],
                "formats": ["|O"],
                "offsets": [0],
                "titles": [None],
                "itemsize": 8,
                "aligned": False,
            },
            [1],
            "C",
            SIZE,
        ]
    ],
    "a field outside": [
        [
            "ndarray",
            {
                "names": ["a"],
                "formats": ["<f8"],
                "offsets": [4],
                "titles": [None],
                "itemsize": 8,
                "aligned": False,
            },
            [1],
            "C",
            SIZE,
        ]
    ],
    "an array that is too large": [["ndarray", "<f8", [1 << 40], "C", SIZE]],
    "a size that runs over": [["ndarray", "<f8", [1 << 61, 1 << 61, 1 << 6], "C", SIZE]],
    "a negative size": [["ndarray", "<f8", [-1], "C", SIZE]],
    "too many dimensions": [["ndarray", "<f8", [1] * 100, "C", SIZE]],
    "nothing, very often": [["ndarray", "|V0", [1 << 40], "C", ""]],
    "no bytes": [["ndarray", "|S0", [1 << 40], "C", ""]],
    "no letters": [["ndarray", "<U0", [1 << 40], "C", ""]],
    "no fields": [
        [
            "ndarray",
            {
                "names": [],
                "formats": [],
                "offsets": [],
                "titles": [],
                "itemsize": 0,
                "aligned": False,
            },
            [1 << 40],
            "C",
            "",
        ]
    ],
    "arrays of nothing": [
        [
            "ndarray",
            {
                "names": ["a"],
                "formats": [{"base": "<f4", "shape": [0]}],
                "offsets": [0],
                "titles": [None],
                "itemsize": 8,
                "aligned": False,
            },
            [1],
            "C",
            SIZE,
        ]
    ],
    "an array of arrays": [["ndarray", {"base": "<f4", "shape": [2]}, [1], "C", SIZE]],
    "a scalar that is an array": [["scalar", {"base": "<f4", "shape": [2]}, SIZE]],
    "an array that is too small": [["ndarray", "<f4", [1], "C", SIZE]],
    "an order": [["ndarray", "<f8", [1], "Z", SIZE]],
    "text in jax": [["jax", "<U2", [1], False, SIZE]],
    "dates in jax": [["jax", "<M8[s]", [1], False, SIZE]],
    "a scalar that is too long": [["scalar", "<f4", SIZE]],
    "a key of no kind": [["jax", "<u4", [2], False, SIZE], ["key", "eval", [0]]],
    "a key of a text": [["key", "threefry2x32", "x"]],
    "fields that are not there": [["namedtuple", __name__, "Point", ["x", "y"], 1]],
    "fields that are numbers": [["namedtuple", __name__, "Point", [1, 2], 1, 2]],
    "a module that is a number": [["namedtuple", 1, "Point", ["x", "y"], 1, 2]],
    "very deep JSON": "[" * 100_000,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_forged_file_gives_an_error_that_names_the_variable(home, case):
    words = HOSTILE[case]
    if isinstance(words, str):
        directory = make_job(
            "forged", results=[{"name": "v", "type": "t", "size": 1, "format": PLAIN}]
        )
        manifest = {
            "results_format": FORMAT,
            "python": [3, 11],
            "plain": {"v": [0]},
            "groups": [],
            "results": [],
        }
        write_archive(directory.result, {MEMBER: words.encode()}, [], manifest)
        job = Job(directory)
    else:
        job = forged(words)
    values, errors = load_available(job)
    assert values == {} and "'v'" in errors["v"]


@pytest.mark.parametrize("kind", ["bytes", "str", "bytearray"])
def test_a_buffer_is_copied_once(kind):
    words = [[kind, 0], [kind, 0], ["list", [0], [1]]]
    reader = PlainReader(
        [json.dumps(line).encode() for line in words], lambda n: memoryview(b"a" * 600)
    )
    with pytest.raises(ValueError, match=str(say.BUFFER_USED_TWICE(number=0))):
        reader.read([2])
    assert len(reader.read([0])) == 600


def test_a_dtype_of_arrays_is_a_value(home):
    dtype = np.dtype(("<f4", (2,)))
    assert through(dtype) == dtype


def test_buffers_may_not_overlap(home):
    directory = make_job("forged", results=[{"name": "v", "type": "t", "size": 1, "format": PLAIN}])
    text = b'["bytes",0]\n["bytes",1]\n["list",[0],[1]]'
    manifest = {
        "results_format": FORMAT,
        "python": [3, 11],
        "plain": {"v": [2]},
        "groups": [],
        "results": [],
    }
    write_archive(
        directory.result, {MEMBER: text}, [memoryview(b"a" * 640), memoryview(b"a" * 640)], manifest
    )
    job, data = Job(directory), directory.result.read_bytes()
    assert load_available(job)[0] == {"v": [b"a" * 640] * 2}
    shared = json.loads(read_member(directory.result, "manifest.json"))
    shared["buffers"][1] = shared["buffers"][0]
    with zipfile.ZipFile(directory.result, "w") as archive:
        archive.writestr("manifest.json", json.dumps(shared))
        archive.writestr(MEMBER, text)
        archive.writestr("buffers", data)
    with pytest.raises(ResultError, match=str(say.BUFFERS_OVERLAP())):
        load_available(job)


def test_a_table_of_empty_lines_fills_no_memory(home):
    directory = make_job("forged", results=[{"name": "v", "type": "t", "size": 1, "format": PLAIN}])
    manifest = {
        "results_format": FORMAT,
        "python": [3, 11],
        "plain": {"v": [0]},
        "groups": [],
        "results": [],
    }
    write_archive(directory.result, {MEMBER: b"\n" * (MAX_NODES + 1)}, [], manifest)
    tracemalloc.start()
    try:
        assert "nodes" in load_available(Job(directory))[1]["v"]
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_NODES
    finally:
        tracemalloc.stop()


def test_more_nodes_than_a_reader_takes_are_left_to_pickle(monkeypatch):
    monkeypatch.setattr("jupyter_jax_trainer.worker.serialization.plain.MAX_NODES", 10)
    assert PlainWriter().write([[] for _ in range(9)]) == [9]
    with pytest.raises(NotPlain):
        PlainWriter().write([[] for _ in range(10)])


@pytest.mark.parametrize("value", [[99], [], [[0]], {"a": 1}, ["0"]])
def test_a_forged_root_is_refused(home, value):
    assert "v" in load_available(forged([["list"]], value))[1]


@pytest.mark.parametrize(
    "more",
    [
        {"results_format": 3},
        {"groups": 1},
        {"groups": [{}]},
        {"plain": [1]},
        {"plain": None},
        {"groups": [{"names": [{}], "first": 0, "buffers": 0}]},
        {"groups": [{"names": ["v"], "first": -5, "buffers": 2}], "plain": {}},
        {"groups": [{"names": ["v"], "first": 0, "buffers": 1 << 60}], "plain": {}},
        {"groups": [{"names": ["v"], "first": 0, "buffers": 0}], "plain": {}},
    ],
)
def test_a_forged_manifest_gives_a_result_error(home, more):
    directory = make_job("forged", results=[{"name": "v", "type": "t", "size": 1, "format": PLAIN}])
    nodes([["list"]], {"v": [0]}, directory.result, **more)
    with contextlib.suppress(ResultError):
        assert load_available(Job(directory))[1].keys() == {"v"}


def test_an_archive_that_unpacks_to_more_than_it_may_is_refused(home, monkeypatch):
    monkeypatch.setattr("jupyter_jax_trainer.jobdir.results.MAX_TEXT", 1000)
    job = forged([["list", *range(10_000)]])
    assert "'v'" in load_available(job)[1]["v"]


WORDS = [
    "list",
    "tuple",
    "dict",
    "set",
    "ndarray",
    "jax",
    "scalar",
    "key",
    "bytes",
    "str",
    "int",
    "namedtuple",
    "dataclass",
    "defaultdict",
    "dtype",
    "<f8",
    "|O",
    "bfloat16",
    "C",
    "F",
    SIZE,
    __name__,
    "Point",
    "State",
    "eval",
    "os",
    "",
    None,
    True,
    0,
    1,
    -1,
    1 << 70,
    1.5,
    [0],
    [1],
    [],
    {},
    ["x"],
    [1 << 40],
]
_watched: list[str] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched is not None and event in (
        "import",
        "exec",
        "compile",
        "os.system",
        "pickle.find_class",
        "subprocess.Popen",
        "marshal.loads",
        "os.exec",
    ):
        _watched.append(f"{event} {arguments[:1]}")


sys.addaudithook(_audit)


@contextlib.contextmanager
def nothing_runs():
    """Fail if anything is imported, compiled, executed or unpickled."""
    global _watched
    _watched = seen = []
    try:
        yield
    finally:
        _watched = None
    assert seen == []


def _samples() -> dict[str, Any]:
    return {
        "w": jnp.arange(600.0),
        "n": np.arange(900).reshape(30, 30).T,
        "s": State(1, {"w": np.ones(3)}),
        "p": [Point(1, {"a": np.float32(2)}), {(1, 2): b"x" * 700}],
        "k": jax.random.key(1),
        "t": np.zeros(3, [("a", ">f4")]),
        "c": {"lr": 0.1, "name": "a", "l": [1.5, None, 1 << 80]},
    }


@pytest.mark.filterwarnings("ignore::jupyter_jax_trainer.errors.ResultWarning")
def test_mutated_tables_give_an_error_or_a_value_and_run_nothing(home):
    randoms = random.Random(7)
    writer = PlainWriter()
    roots = {name: writer.write(value) for name, value in _samples().items()}
    original = [json.loads(node.text) for node in writer.nodes]
    buffers = [bytearray(buffer or b"") for buffer in writer.buffers]
    refused = 0
    for _ in range(3000):
        words = json.loads(json.dumps(original))
        for _ in range(randoms.choice([1, 1, 2, 5])):
            line = randoms.choice(words)
            spot = randoms.randrange(len(line))
            what = randoms.random()
            if what < 0.7:
                line[spot] = randoms.choice(WORDS)
            elif what < 0.85:
                line.insert(spot, randoms.choice(WORDS))
            elif len(line) > 1:
                del line[spot]
        lines = [json.dumps(line).encode() for line in words]
        reader = PlainReader(lines, lambda n: memoryview(buffers[n]))
        with nothing_runs():
            for root in roots.values():
                try:
                    reader.buffers_of(root)
                    reader.read(root)
                    reader.strange_classes(root)
                except Exception:
                    refused += 1
    assert refused > 1000


def test_a_file_with_changed_bytes_gives_errors_or_the_right_values(home):
    randoms = random.Random(11)
    samples = _samples()
    job = finished_job(**samples, f=_samples)
    values, errors = load_available(job)
    assert not errors and same({name: values[name] for name in samples}, samples)
    data = (job.directory / "result.jtz").read_bytes()
    wrong = 0
    for _ in range(400):
        changed = bytearray(data)
        what = randoms.random()
        if what < 0.8:
            for _ in range(randoms.choice([1, 1, 3])):
                changed[randoms.randrange(len(data))] ^= 1 << randoms.randrange(8)
        elif what < 0.9:
            del changed[randoms.randrange(len(data)) :]
        else:
            start = randoms.randrange(len(data))
            del changed[start : start + randoms.randrange(1, 100)]
        (job.directory / "result.jtz").write_bytes(changed)
        try:
            values, errors = load_available(job)
        except ResultError:
            wrong += 1
            continue
        assert values.keys() | errors.keys() == {*samples, "f"}
        assert all(same(values[name], samples[name]) for name in values if name != "f")
        wrong += bool(errors)
    assert wrong > 200


@pytest.mark.parametrize("pickled", [False, True])
def test_a_flipped_byte_of_an_array_is_an_error_that_names_the_variable(home, pickled):
    array = np.arange(1000.0)
    job = finished_job(w=(array, print) if pickled else array, other=np.ones(500))
    path = job.directory / "result.jtz"
    data = bytearray(path.read_bytes())
    data[data.index(np.arange(1000.0).tobytes()) + 8 * 500 + 7] ^= 0x40
    path.write_bytes(data)
    values, errors = load_available(job)
    assert values.keys() == {"other"} and errors.keys() == {"w"}
    assert "sha256" in errors["w"]
    assert job.result("other").sum() == 500
    with pytest.raises(ResultError, match="'w'"):
        job.result("w")


def test_each_buffer_is_hashed_once_a_load_and_only_those_that_are_wanted(home, monkeypatch):
    import jupyter_jax_trainer.jobdir.resultfile as resultfile

    job = finished_job(a=np.ones(1000), b=[np.zeros(2000)] * 3, c=(np.ones(10), "x"))
    job_b = job.results_info
    hashed: list[int] = []
    real = resultfile._sha256
    monkeypatch.setattr(resultfile, "_sha256", lambda v: (hashed.append(v.nbytes), real(v))[1])
    assert len(load_available(job)[0]) == 3
    assert sorted(hashed) == [8000, 16000]
    hashed.clear()
    job.result("a")
    assert hashed == [8000] and len(job_b) == 3


# ---- the setting


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        (None, True),
        ("", True),
        ("1", True),
        ("yes", True),
        ("0", False),
        ("off", False),
        ("False", False),
        ("nonsense", False),
    ],
)
def test_a_setting_refuses_pickles(home, monkeypatch, setting, allowed):
    job = finished_job(w=np.ones(3), f=len, g=Unregistered(1))
    if setting is not None:
        monkeypatch.setenv(ALLOW, setting)
    values, errors = load_available(job)
    assert set(values) == ({"w", "f", "g"} if allowed else {"w"})
    if not allowed:
        assert set(errors) == {"f", "g"} and all(ALLOW in text for text in errors.values())
        namespace: dict[str, Any] = {}
        with pytest.raises(ResultError, match=ALLOW):
            take_results(job, namespace)
        assert set(namespace) == {"w"}


def test_the_table_of_results_says_which_are_pickled(home):
    from jupyter_jax_trainer.commands.listing import results_table

    job = finished_job(w=np.ones(3), f=len)
    rows = [line.split() for line in results_table(job).splitlines()]
    assert rows[0] == ["RESULT", "TYPE", "SIZE", "FORMAT"]
    assert [(row[0], row[-1]) for row in rows[1:]] == [("w", PLAIN), ("f", PICKLE)]


def test_what_is_kept_otherwise_than_the_table_says_is_not_loaded(home, monkeypatch):
    import jupyter_jax_trainer.worker.serialization.pickling as pickling

    job = finished_job(w=np.ones(3), f=len)
    table = [
        {**entry, "format": PICKLE if entry["name"] == "w" else PLAIN} for entry in job.results_info
    ]
    job = Job(make_job("fit", results=table))
    monkeypatch.setattr(pickling, "Unpickler", None)
    values, errors = load_available(job)
    assert values == {} and errors.keys() == {"w", "f"}
    assert {error.id for error in errors.values()} == {"results.other-kind"}
    assert f" is {PICKLE}," in errors["f"] and f" is {PLAIN}," in errors["w"]


def test_what_is_kept_in_both_forms_is_pickled(home):
    directory = make_job("forged", results=[{"name": "v", "type": "t", "size": 1, "format": PLAIN}])
    nodes(
        [["list"]],
        {"v": [0]},
        directory.result,
        groups=[{"names": ["v"], "first": 0, "buffers": 0}],
    )
    values, errors = load_available(Job(directory))
    assert values == {} and errors["v"].id == "results.other-kind"


def test_sizes_are_those_of_the_data(home):
    w = np.ones((100, 10))
    job = finished_job(w=w, both=[w, jnp.ones(1000)], text="a" * 5000, n=1, f=lambda: w)
    sizes = {entry["name"]: entry["size"] for entry in job.results_info}
    assert 8000 <= sizes["w"] < 8200 and 12000 <= sizes["both"] < 12400 and sizes["n"] < 10
    assert 5000 <= sizes["text"] < 5200 and sizes["f"] > 8000
    assert math.isclose(load_available(job)[0]["f"]().sum(), 1000)


# ---- what version 0.1 wrote


def test_results_of_version_0_1_are_read_and_checked(home, monkeypatch):
    """The archive holds `arrays` (gathered, jax) and groups of pickles, in the format of 0.1."""
    import io

    from jupyter_jax_trainer.worker.serialization.pickling import Pickler

    class Old(Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return 0 if obj is spread else None

    spread = object()
    arrays, group = io.BytesIO(), io.BytesIO()
    first, second = Pickler(arrays), Old(group)
    whole, own = np.arange(16.0).reshape(8, 2).repeat(100, axis=0), np.arange(1000.0)
    first.dump([whole.astype("float32")])
    second.dump({"w": spread, "own": own})
    second.dump([own])
    directory = make_job(
        "old",
        results=[
            {"name": "a", "type": "dict of 2", "size": 1, "has_code": False, "spread": True},
            {"name": "b", "type": "list of 1", "size": 1, "has_code": False, "spread": False},
        ],
    )
    write_archive(
        directory.result,
        {"arrays.pkl": arrays.getvalue(), "group-0.pkl": group.getvalue()},
        [*first.buffers, *second.buffers],
        {
            "python": list(sys.version_info[:2]),
            "array_buffers": 1,
            "groups": [{"names": ["a", "b"], "buffers": 1}],
            "results": [],
        },
    )
    job = Job(directory)
    values, errors = load_available(job)
    assert not errors and values["b"][0] is values["a"]["own"]
    assert isinstance(values["a"]["w"], jax.Array)
    np.testing.assert_array_equal(values["a"]["w"], whole)
    with monkeypatch.context() as context:
        context.setenv(ALLOW, "0")
        assert load_available(job)[1].keys() == {"a", "b"}
    data = bytearray(directory.result.read_bytes())
    data[data.index(own.tobytes()) + 100] ^= 1
    directory.result.write_bytes(data)
    assert load_available(job)[1].keys() == {"a", "b"}
