"""The language model of the tutorial on one GPU: its step, NVML's figures, and a profile."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import Measured, in_turn, job_home, ratio_of, run_job, sized, spread
from needs import Missing

from jupyter_jax_trainer import commands

TUTORIAL = (
    Path(__file__).parents[1] / "docs" / "guides" / "research-scientist" / "language-model.ipynb"
)
COUNT, BEFORE = sized((400, 100), (5, 1))  # steps, and those of them that don't count
SECONDS = sized(5.0, 0.5)  # of the profile
WATCHED = sized(16.0, 4.0)  # seconds for which the card is asked
LATE = 5.0  # seconds
TRAIN = """
import itertools, json, time
PARTS, BATCH = 2, 256
mesh = Mesh(np.array(jax.devices()).reshape(1, 1), ("data", "model"))
params_layout, state_layout = shardings(mesh)
params = jax.jit(init, out_shardings=params_layout)(jax.random.key(0))
opt_state = jax.jit(optimizer.init, out_shardings=state_layout)(params)
times = []
for step in itertools.count():
    starts = np.random.default_rng(step).integers(len(data) - CONTEXT - 1, size=(PARTS, BATCH))
    tokens = np.stack([data[s : s + CONTEXT + 1] for s in starts.ravel()]).astype(np.int32)
    tokens = jnp.asarray(tokens.reshape(PARTS, BATCH, -1))
    began = time.perf_counter()
    params, opt_state, loss = train_step(params, opt_state, tokens)
    loss.block_until_ready()
    times.append(time.perf_counter() - began)
    REPORT
    if step == LAST:
        open(PATH, "w").write(json.dumps(times))
        break
"""


def find() -> None:
    """Raise `Missing` where there is no GPU of NVIDIA's that jax can use."""
    from jupyter_jax_trainer.backends.local.runtimes import gpu_plugin, local_gpus

    if not local_gpus() or gpu_plugin() is None or shutil.which("nvidia-smi") is None:
        raise Missing("it needs an NVIDIA GPU, its driver and `pip install 'jax[cuda13]'`")


def measure(runs: int) -> list[Measured]:
    """Compare steps in turn; then ask the card, and profile, while a job trains."""
    os.environ["JAX_PLATFORMS"] = "cpu"  # of this process: jobs have the GPU
    return [_steps(runs), *_watch()]


def _program(last: int | None, path: Path | None, report: str) -> str:
    cells = [
        "".join(cell["source"])
        for cell in json.loads(TUTORIAL.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    loop = TRAIN.replace("REPORT", report).replace("LAST", repr(last))
    loop = loop.replace("PATH", repr(str(path)))
    return "\n".join([*cells[1:3], loop])  # its text, and its model


REPORT = "report(step=step, loss=float(loss))"


def _steps(runs: int) -> Measured:
    with job_home(warm=False), tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "times")

        def median() -> float:
            return statistics.median(json.loads(path.read_text())[BEFORE:])

        def ours() -> float:
            job, _ = run_job(_program(COUNT, path, REPORT), "-n 1 --device gpu")
            job.wait(300)
            return median()

        def bare() -> float:
            script = Path(directory, "program.py")
            script.write_text(_program(COUNT, path, "float(loss)"))
            environment = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
            subprocess.run([sys.executable, str(script)], env=environment, check=True)
            return median()

        a, b = in_turn(runs, ours, bare)
    ratio = ratio_of(a, b)
    detail = f"ours, with report(), {spread(a, 'ms', 1e3)}, bare {spread(b, 'ms', 1e3)}"
    return Measured("a step on a GPU", ratio, "1.00 +- 0.02", detail, 0 < ratio <= 1.02)


def _watch() -> list[Measured]:
    """Ask the card what the ranks say of it, and profile."""
    with job_home(warm=False):
        job, _ = run_job(_program(None, None, REPORT), "-n 1 --device gpu")
        while len(job.metrics()) < BEFORE:
            time.sleep(0.1)
        time.sleep(2)  # the card averages over a second
        began, seen = time.time(), []
        while time.time() < began + WATCHED:
            seen.append(_ask_card())
            time.sleep(0.5)
        said = [
            line["devices"][0]
            for line in job.resources()
            if line["time"] >= began and line["devices"]
        ]
        shown: list[str] = []
        start = time.perf_counter()
        words = ["profile", job.name, "--seconds", f"{SECONDS:g}"]
        commands.run_command(words, commands.Context(print=shown.append))
        late = time.perf_counter() - start - SECONDS
        summary: Any = job.profiles[-1].summary()
        job.cancel()
    rank = summary["ranks"][0]
    assert rank["platform"] == "gpu", rank
    total = sum(one["seconds"] for one in rank["operations"])
    top = ", ".join(f"{one['name']} {one['seconds'] / total:.0%}" for one in rank["operations"][:3])
    detail = (
        f"busy {rank['busy'] / rank['seconds']:.0%} of {rank['seconds']:.2f} s, bound by its "
        f"{summary['bound']}; of the largest operations: {top}"
    )
    profiled = Measured("profile of a GPU, s after its end", late, "<= 5", detail, late <= LATE)
    return [*_compared(said, seen), profiled]


def _compared(said: list[Any], seen: list[tuple[float, float, float]]) -> Iterator[Measured]:
    """Compare what the rank says of its GPU with what the card says of itself."""
    uses, powers, taken = (list(values) for values in zip(*seen, strict=True))
    for field, scale, unit, card in (("use", 100, "%", uses), ("power", 1, "W", powers)):
        ours = [one[field] * scale for one in said if one[field] is not None]
        ratio = statistics.median(ours) / statistics.median(card) if ours else 0.0
        detail = f"ranks {spread(ours, unit)}, nvidia-smi {spread(card, unit)}" if ours else "none"
        yield Measured(f"{field} of a GPU", ratio, "1.0 +- 0.1", detail, 0.9 < ratio < 1.1)
    # jax takes most of the memory at once: the card can't tell what is in use.
    held = [one["memory"] / 2**20 for one in said if one["memory"] is not None]
    detail = f"in use {spread(held, 'MiB')}, taken {spread(taken, 'MiB')}" if held else "none"
    yield Measured("memory in use", len(held), "> 0", detail, bool(held))


def _ask_card() -> tuple[float, float, float]:
    """Return per cent of use, watts and MiB of memory, as the driver's own tool says them."""
    fields = "utilization.gpu,power.draw,memory.used"
    done = subprocess.run(
        ["nvidia-smi", "--id=0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    )
    use, power, memory = (float(word) for word in done.stdout.split(","))
    return use, power, memory
