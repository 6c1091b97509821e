"""A notebook whose loss is edited again and again, in a session and as jobs; and its step.

The notebook learns a vocabulary, makes a model, trains it for ten epochs, and then tries another
loss on it: a few more steps, an evaluation and a sample. In a session only that runs again. A job
begins from nothing, with what the compile cache has of the jobs before; or, where somebody has
gone to the trouble, with data and weights that the notebook has kept. No loss comes twice, for the
second one would be found in the cache. The step with the new loss compiles in all three.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from common import Measured, job_home, run_job, sized, spread
from session import run_cell
from step import STEP

EDITS, JOBS = sized((10, 3), (1, 1))  # in the session; of each kind of job, in turn with those
BOUND = 10
LONG = 1800  # seconds that a job may take on a busy machine
MERGES, BASE, MORE = sized((256, 10, 10), (2, 0, 1))  # of the vocabulary; epochs, steps of an edit
EPOCHS = "{epochs} * len(data) // (16 * LENGTH)"
IMPORTS = """
from collections import Counter
from pydoc_data.topics import topics
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
"""
DATA = """
text = "".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")[:200_000]
ids, vocabulary = list(text), {{n: bytes([n]) for n in range(256)}}
for new in range(256, 256 + {merges}):
    (a, b), _ = Counter(zip(ids, ids[1:])).most_common(1)[0]
    vocabulary[new] = vocabulary[a] + vocabulary[b]
    merged, at = [], 0
    while at < len(ids):
        pair = ids[at] == a and ids[at + 1 : at + 2] == [b]
        merged.append(new if pair else ids[at])
        at += 2 if pair else 1
    ids = merged
data = np.array(ids, np.int32)
"""
MODEL = """
LENGTH = 64
mesh = Mesh(jax.devices(), ("data",))
everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)
    def __call__(self, x):
        x = x + self.attention(self.norm(x), mask=nnx.make_causal_mask(x[..., 0]))
        return x + self.down(nnx.gelu(self.up(x)))

class Model(nnx.Module):
    def __init__(self, rngs, width=64, layers=4):
        self.embed = nnx.Embed(len(vocabulary), width, rngs=rngs)
        self.place = nnx.Embed(LENGTH, width, rngs=rngs)
        @nnx.split_rngs(splits=layers)
        @nnx.vmap(in_axes=0, out_axes=0)
        def blocks(rngs):
            return Block(width, rngs)
        self.blocks = blocks(rngs)
        self.out = nnx.Linear(width, len(vocabulary), rngs=rngs)
    def __call__(self, tokens):
        x = self.embed(tokens) + self.place(jnp.arange(tokens.shape[1]))
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def through(x, block):
            return block(x)
        return self.out(through(x, self.blocks))

@nnx.jit
def make():
    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
    state = nnx.state((model, optimizer))
    nnx.update((model, optimizer), jax.lax.with_sharding_constraint(state, everywhere))
    return model, optimizer

def batch(seed, count=8):
    draw = np.random.default_rng((seed, jax.process_index()))
    starts = draw.integers(len(data) - LENGTH - 1, size=count)
    rows = np.stack([data[start : start + LENGTH + 1] for start in starts])
    return jax.make_array_from_process_local_data(split, rows)

@nnx.jit
def evaluate(model, tokens):
    print("compiled evaluate")
    losses = optax.softmax_cross_entropy_with_integer_labels(model(tokens[:, :-1]), tokens[:, 1:])
    return losses.mean()

@nnx.jit
def following(model, tokens, at, key):
    print("compiled following")
    return jax.random.categorical(key, model(tokens)[0, at])

def sample(model, count=32):
    tokens = np.zeros((1, LENGTH), np.int32)
    for at in range(count):
        tokens[0, at + 1] = following(model, tokens, at, jax.random.key(at))
    return b"".join(vocabulary[token] for token in tokens[0, 1 : count + 1].tolist())

model, optimizer = make()
"""
TRAIN = """
def loss(model, tokens):
    logits, labels = model(tokens[:, :-1]), tokens[:, 1:]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return {loss}

@nnx.jit
def step(model, optimizer, tokens):
    value, gradients = nnx.value_and_grad(loss)(model, tokens)
    optimizer.update(model, gradients)
    return value

for number in range({steps}):
    value = float(step(model, optimizer, batch(number)))
print(np.mean([float(evaluate(model, batch(10_000 + number))) for number in range(8)]))
print(sample(model))
"""
KEEP = """
kept = jax.tree.map(np.asarray, nnx.state((model, optimizer)))
"""
RESTORE = """
nnx.update((model, optimizer), jax.device_put(kept, everywhere))
"""
LOSSES = (
    "losses.mean() + {weight} * (jax.nn.logsumexp(logits, axis=-1) ** 2).mean()",
    "losses.mean() - {weight} * jax.nn.log_softmax(logits).mean()",
    "(losses * (1 - jnp.exp(-losses)) ** {weight}).mean()",
    "losses.mean() + {weight} * losses.std()",
    "optax.softmax_cross_entropy_with_integer_labels(logits / (1 + {weight}), labels).mean()",
)
TURNS_EACH, BEFORE_TURNS = sized((60, 10), (3, 1))  # of five steps; and those that don't count
TURNS = (
    STEP
    + """
import json, pathlib
folder, me, times = pathlib.Path({folder!r}), {me}, []
for turn in range({turns}):
    while jax.process_index() == 0 and not (folder / f"{{me}}-{{turn}}").exists():
        time.sleep(0.001)
    timed_step()  # it waits for the end of the others' turn
    times += [timed_step() for _ in range(5)]
    if jax.process_index() == 0:
        (folder / f"{{1 - me}}-{{turn + me}}").touch()
if jax.process_index() == 0:
    (folder / f"times-{{me}}").write_text(json.dumps(times))
"""
)


def measure(runs: int) -> list[Measured]:
    """Run each edit in a session, as the notebook from its top, and with what it has kept."""
    losses = _losses()
    data = IMPORTS + DATA.format(merges=MERGES)
    trained = data + MODEL + TRAIN.format(loss="losses.mean()", steps=EPOCHS.format(epochs=BASE))
    ours: list[float] = []
    whole: list[float] = []
    kept: list[float] = []
    again = 0
    with job_home(warm=True):
        run_cell(cell=trained)[0].wait(LONG)
        values = run_job(trained + KEEP, "-n 2 -o data,vocabulary,kept")[0].wait(LONG).result()
        for number in range(EDITS):
            edit = TRAIN.format(loss=next(losses), steps=MORE)
            took, job = _timed(run_cell(cell=edit))
            ours.append(took)
            again += "compiled" in _text(job)
            if number < JOBS:
                cell = trained + TRAIN.format(loss=next(losses), steps=MORE)
                whole.append(_timed(run_job(cell, "-n 2"))[0])
                cell = IMPORTS + MODEL + RESTORE + TRAIN.format(loss=next(losses), steps=MORE)
                kept.append(_timed(run_job(cell, "-n 2", values))[0])
    middle = statistics.median(ours)
    ratio, other = statistics.median(whole) / middle, statistics.median(kept) / middle
    return [
        Measured(
            f"{EDITS} edits of a loss in a session, times faster than the notebook as a job",
            ratio,
            f">= {BOUND}, nothing else compiles",
            f"{spread(whole)} : {spread(ours)}; {again} compiled something else",
            ratio >= BOUND and not again,
        ),
        Measured(
            "... than a job with the data and weights that the notebook has kept",
            other,
            "none",
            f"{spread(kept)} : {spread(ours)}",
            True,
        ),
        _step(runs),
    ]


def _losses() -> Iterator[str]:
    """Give losses for ever, each only once."""
    for number, loss in enumerate(cycle(LOSSES), start=1):
        yield loss.format(weight=number / 1000)


def _timed(started: tuple[Any, float]) -> tuple[float, Any]:
    """Wait for a job; give its seconds, and it."""
    job, began = started
    job.wait(LONG)
    return time.time() - began, job


def _text(job: Any) -> str:
    return "\n".join(line.text for line in job.logs())


def _step(runs: int) -> Measured:
    """Compare a step of a session and a job that are both live, and take turns every five steps.

    So both see the same weather; and the fastest tenth of the steps is what each takes while other
    work leaves the machine alone.
    """
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(runs):
        with job_home(warm=False), tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            session, job = (TURNS.format(folder=name, me=me, turns=TURNS_EACH) for me in (0, 1))
            running = [run_cell(cell=session)[0], run_job(job, "-n 2")[0]]
            (folder / "0-0").touch()
            for one in running:
                one.wait(LONG)
            a, b = (json.loads((folder / f"times-{me}").read_text()) for me in (0, 1))
            ours += a[5 * BEFORE_TURNS :]
            theirs += b[5 * BEFORE_TURNS :]
    fast, other = (statistics.quantiles(times, n=10)[0] for times in (ours, theirs))
    ratio = fast / other
    return Measured(
        "a training step in a session, against one in a job",
        ratio,
        "1.00 +- 0.02",
        f"fastest tenth {1e3 * fast:.2f} : {1e3 * other:.2f} ms of {len(ours)} steps each; "
        f"all {spread(ours, 'ms', 1e3)} : {spread(theirs, 'ms', 1e3)}",
        0 < ratio <= 1.02,
    )
