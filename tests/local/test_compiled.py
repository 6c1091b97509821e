"""What one job has compiled, the next one loads: jobs of several ranks, and sessions."""

from __future__ import annotations

import pytest
from harness import run

from jupyter_jax_trainer import api
from jupyter_jax_trainer.views.card import Facts, text

CELL = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
ours = NamedSharding(Mesh(jax.devices(), ("ranks",)), P("ranks"))
x = jax.make_array_from_process_local_data(ours, np.ones((1, 8)))
jax.jit(lambda x: (x @ x.T).sum())(x).block_until_ready()
jax.jit(jnp.tanh)(jnp.ones(3)).block_until_ready()
"""


@pytest.mark.slow
def test_the_next_job_and_a_session_load_what_was_compiled(home, monkeypatch):
    first = run(CELL).compiled
    assert first.hits == 0 and first.misses > 4 and first.seconds > 0
    cell = run(CELL, line="-s lab -n 2")
    assert (cell.compiled.hits, cell.compiled.misses) == (first.misses, 0)
    assert cell.compiled.saved > 0
    assert "compile cache" in text(Facts.of(cell), cell.snapshot())
    api.job("lab").cancel()
    none = run(CELL, line="--no-compile-cache").compiled
    assert none.hits == 0
    # What the notebook has chosen is the job's, too.
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(home / "own"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    assert run(CELL, line="-n 1").compiled.hits == 0
    assert (home / "own").is_dir()
    assert run(CELL, line="-n 1").compiled.hits > 0
    assert run(CELL, line="-n 1 --no-compile-cache").compiled.hits == 0
