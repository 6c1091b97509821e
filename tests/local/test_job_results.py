"""--out: what comes back, from which rank, and what is said of what does not."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from harness import run, submit, text

from jupyter_jax_trainer import api
from jupyter_jax_trainer.errors import JobFailed, ResultError
from jupyter_jax_trainer.jobdir.results import load_available
from jupyter_jax_trainer.messages import worker as say

SHARDED = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), "d")
def spread(value, spec):
    return jax.make_array_from_callback(
        value.shape, NamedSharding(mesh, spec), lambda index: value[index])
"""


def test_sharded_arrays_are_gathered_in_place_and_inside_of_containers(start):
    cell = (
        SHARDED
        + """
whole = np.arange(16.0).reshape(8, 2)
rows, same = spread(whole, P("d")), spread(whole, P())
tree = {"rows": rows, "step": 3, "plain": whole, "again": [rows]}
"""
    )
    job = run(cell, line="-n 2 --devices-per-node 2 -o rows,same,tree")
    result = job.result()
    whole = np.arange(16.0).reshape(8, 2)
    for array in (
        result["rows"],
        result["same"],
        result["tree"]["rows"],
        result["tree"]["plain"],
        result["tree"]["again"][0],
    ):
        np.testing.assert_array_equal(array, whole)
    assert result["tree"]["step"] == 3
    assert [(entry["name"], entry["type"]) for entry in job.results_info] == [
        ("rows", "float32[8,2]"),
        ("same", "float32[8,2]"),
        ("tree", "dict of 4"),
    ]


def test_a_variable_that_was_never_set_is_an_error_and_the_others_still_come(store):
    job = run("good = 1\nif len([]):\n    bad = 2\nalso = 3", line="-n 2 -o good,bad,also")
    assert job.state == "Succeeded"
    values, errors = load_available(job)
    assert values == {"good": 1, "also": 3}
    assert errors.keys() == {"bad"} and say.NEVER_SET(name="bad") in errors["bad"]
    with pytest.raises(ResultError, match=re.escape(say.NEVER_SET(name="bad"))) as raised:
        job.result()
    assert "good, also came back" in str(raised.value)
    assert job.result("also") == 3
    with pytest.raises(ResultError, match="was not asked for|no variable|brought back"):
        job.result("else")


def test_what_cannot_come_back_is_said_and_the_others_still_come(store):
    job = run(
        "import threading\nlock = threading.Lock()\nx = 1\ndef f(): return x",
        line="-n 2 -o lock,x,f",
    )
    values, errors = load_available(job)
    assert values["x"] == 1 and values["f"]() == 1
    assert "lock" in errors["lock"]


def test_a_variable_of_rank_0_alone_comes_back(store):
    cell = "import jax\nif jax.process_index() == 0:\n    best = 7"
    assert run(cell, line="-n 3 -o best").result("best") == 7


def test_of_a_variable_that_differs_rank_0s_comes_back(store):
    assert run("import jax\nme = jax.process_index()", line="-n 2 -o me").result("me") == 0


@pytest.mark.parametrize(
    ("zero", "one"),
    [
        ("x = rows", "x = 1"),
        ("x = 1", "x = rows"),
        ("x = rows", "x = rows[:4] * 1"),
        ("x = rows", "pass"),
        ("pass", "x = rows"),
    ],
)
def test_ranks_that_hold_different_things_do_not_wait_for_each_other(store, zero, one):
    cell = (
        SHARDED
        + f"""
rows = spread(np.ones((4, 2)), P("d"))
part = rows[:2] * 1
if jax.process_index() == 0:
    {zero}
else:
    {one.replace("rows[:4] * 1", "part")}
y = 5
"""
    )
    job = run(cell, line="-n 2 -o x,y")
    values, errors = load_available(job)
    assert values["y"] == 5
    # A plain value of rank 0 is its own; an array that not all ranks hold can't be gathered.
    assert (values.get("x") == 1) if zero == "x = 1" else ("x" in errors), (values, errors)


def test_a_result_is_read_in_another_process(store):
    run("import jax\nw = jax.numpy.arange(3.0)\nc = {'lr': 0.1}", line="elsewhere -n 2 -o w,c")
    program = (
        "from jupyter_jax_trainer import api\n"
        "r = api.job('elsewhere').result()\nprint(type(r['w']).__module__, r['w'], r['c'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "[0. 1. 2.] {'lr': 0.1}" in done.stdout


def test_a_job_that_failed_has_no_result(store):
    job = submit("x = 1\n1 / 0", line="-n 2 -o x")
    with pytest.raises(JobFailed, match="ZeroDivisionError"):
        job.result("x")
    assert not (job.directory / "result.jtz").exists()


# ---------------------------------------------------------------------------- report, checkpoints


def test_reports_are_kept_with_time_and_step_and_make_the_progress(start):
    cell = """
from jupyter_jax_trainer import report
import jax
for step in range(5):
    report(step=step + 1, total=5, loss=jax.numpy.float32(1 / (step + 1)), acc=step)
report({"eval/loss": float("nan")}, step=5)
"""
    job = run(cell)
    lines = [line for line in job.metrics() if line["rank"] == 0]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 5]
    assert lines[1]["values"] == {"loss": 0.5, "acc": 1}
    assert all(job.created < line["time"] < job.ended for line in lines)
    assert (job.progress.step, job.progress.total, job.progress.fraction) == (5, 5, 1.0)
    assert job.progress.metrics["acc"] == 4
    assert {line["rank"] for line in job.metrics()} == {0, 1}


def test_a_report_outside_of_a_job_prints(capsys):
    from jupyter_jax_trainer import report

    report(step=3, total=10, loss=0.25)
    assert capsys.readouterr().out == "step 3/10  loss 0.25\n"
    words = say.NOT_A_NUMBER(name="loss", what=say.ARRAY(shape=(3,)))
    with pytest.raises(TypeError, match=re.escape(words)):
        report(loss=np.ones(3))


def test_the_checkpoint_directory_belongs_to_the_job_and_outlives_it(start):
    cell = """
from jupyter_jax_trainer import checkpoint_dir
import jax
(checkpoint_dir() / f"rank-{jax.process_index()}").write_text("kept")
print(checkpoint_dir())
"""
    job = run(cell)
    files = sorted(path.name for path in (job.directory / "checkpoints").iterdir())
    assert files == ["rank-0", "rank-1"]
    assert text(job, 0) == text(job, 1) == str(job.directory / "checkpoints")


ORBAX = (
    SHARDED
    + """
import os, pathlib
import orbax.checkpoint as ocp
from jupyter_jax_trainer import checkpoint_dir
directory = pathlib.Path(os.environ.get("RESUME") or checkpoint_dir())
abstract = spread(np.zeros((8, 2), np.float32), P("d"))
with ocp.CheckpointManager(directory, options=ocp.CheckpointManagerOptions(create=True)) as manager:
    begun = manager.latest_step()
    state = abstract
    if begun is not None:
        state = manager.restore(begun, args=ocp.args.StandardRestore({"w": abstract}))["w"]
    step = 0 if begun is None else begun
    for step in range(step + 1, step + 3):
        state = jax.jit(lambda w: w + 1)(state)
        manager.save(step, args=ocp.args.StandardSave({"w": state}))
    manager.wait_until_finished()
"""
)


@pytest.mark.slow
def test_orbax_saves_from_all_ranks_and_a_second_job_goes_on(store):
    options = "-n 2 --devices-per-node 2 -o begun,step,state"
    first = run(ORBAX, line=options)
    assert first.result("begun") is None and first.result("step") == 2
    second = run(ORBAX, line=f"{options} --env RESUME={first.directory / 'checkpoints'}")
    result = second.result()
    assert (result["begun"], result["step"]) == (2, 4)
    np.testing.assert_array_equal(result["state"], np.full((8, 2), 4.0))
    assert api.job(first.name).state == "Succeeded"


def test_what_variables_share_stays_shared(store, start):
    job = submit("import numpy as np\na = np.zeros(3)\nb = {'a': a}\nc = a", {}, "-o a,b,c").wait()
    found = job.result()
    assert found["b"]["a"] is found["a"] is found["c"]


def test_a_variable_that_cannot_be_read_here_does_not_take_the_others_along(store, start):
    cell = (
        "import numpy as np\nclass Odd:\n    def __reduce__(self): return (eval, ('1/0',))\n"
        "a, odd, z = np.ones(100_000), Odd(), np.arange(100_000)\nz2 = [z, z]"
    )
    job = submit(cell, {}, "-o a,odd,z,z2").wait()
    assert job.result("z").sum() == sum(range(100_000))
    assert job.result("z2")[0].shape == (100_000,)
    assert job.result("a").sum() == 100_000
    with pytest.raises(ResultError, match="ZeroDivisionError"):
        job.result("odd")


# ---------------------------------------------------------------------------- without pickle


TRAINED = """
import equinox as eqx, flax, jax, jax.numpy as jnp, numpy as np, optax
params = {"w": jnp.ones((300, 2), jnp.bfloat16), "b": jnp.zeros(2)}
tx = optax.chain(optax.clip(1.0), optax.adamw(1e-3))
opt_state = tx.init(params)
updates, opt_state = tx.update(params, opt_state, params)
linear = eqx.nn.Linear(20, 40, key=jax.random.key(0))
struct = flax.struct.dataclass
frozen = Frozen(step=3, params=params, name="a")
key, best, history = jax.random.key(7), np.float32(0.5), [{"loss": 0.1}, None]
mlp = eqx.nn.MLP(2, 2, 4, 1, key=key)
@struct
class Own:
    a: int
own = Own(1)
class Plain: pass
plain = Plain()
"""


@pytest.mark.slow
def test_states_of_optax_flax_and_equinox_come_back_without_pickle(store, start, monkeypatch):
    import equinox as eqx
    import flax
    import jax
    import optax

    namespace = {"__name__": "__main__", "flax": flax}
    exec(
        "@flax.struct.dataclass\nclass Frozen:\n    step: int\n    params: dict\n"
        "    name: str = flax.struct.field(pytree_node=False)",
        namespace,
    )
    frozen = namespace["Frozen"]
    monkeypatch.setattr(sys.modules["__main__"], "Frozen", frozen, raising=False)
    names = ["params", "opt_state", "linear", "frozen", "key", "best", "history"]
    pickled = ["mlp", "own", "plain"]
    job = submit(TRAINED, namespace, f"-o {','.join(names + pickled)}").wait()
    formats = {entry["name"]: entry["format"] for entry in job.results_info}
    assert formats == {**dict.fromkeys(names, "plain"), **dict.fromkeys(pickled, "pickle")}

    monkeypatch.setenv("JAXTRAIN_ALLOW_PICKLED_RESULTS", "0")
    values, errors = load_available(job)
    assert sorted(values) == sorted(names) and sorted(errors) == sorted(pickled)
    assert type(values["frozen"]) is frozen and values["frozen"].params is values["params"]
    assert values["frozen"].name == "a" and values["params"]["w"].dtype == "bfloat16"
    adam = values["opt_state"][1][0]
    assert isinstance(adam, optax.ScaleByAdamState) and int(adam.count) == 1
    assert isinstance(values["linear"], eqx.nn.Linear)
    assert values["linear"](jax.numpy.ones(20)).shape == (40,)
    assert jax.tree.structure(values["frozen"]).num_leaves == 3
    assert values["key"] == jax.random.key(7) and type(values["best"]) is np.float32

    monkeypatch.delenv("JAXTRAIN_ALLOW_PICKLED_RESULTS")
    values, errors = load_available(job)
    assert not errors and values["own"].a == 1 and values["mlp"](jax.numpy.ones(2)).shape == (2,)


def test_sharded_arrays_keep_their_type_and_their_width(start):
    cell = (
        SHARDED
        + """
jax.config.update("jax_enable_x64", True)
half = spread(np.arange(16.0).reshape(8, 2), P("d")).astype("bfloat16")
wide = spread(np.arange(16.0).reshape(8, 2) / 3, P("d"))
keys = jax.random.split(jax.random.key(5), 4)
tree = [half, (wide, lambda: 1)]
"""
    )
    job = run(cell, line="-n 2 --devices-per-node 2 -o half,wide,tree,keys")
    values, errors = load_available(job)
    assert not errors
    assert values["half"].dtype == "bfloat16" and values["wide"].dtype == "float64"
    assert (np.asarray(values["wide"]) == np.arange(16.0).reshape(8, 2) / 3).all()
    assert values["tree"][0] is values["half"] and values["tree"][1][0] is values["wide"]
    assert values["keys"].shape == (4,)
    formats = [entry["format"] for entry in job.results_info]
    assert formats == ["plain", "plain", "pickle", "plain"]
