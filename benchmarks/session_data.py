"""What a session's cell costs that reads 1 GB of the notebook which has not changed."""

from __future__ import annotations

import hashlib
import time
from typing import Any

from common import Measured, in_turn, ratio_of, sized, spread

SIZE = sized(1_000_000_000, 1_000_000)  # bytes
BOUND = 50  # milliseconds for an array of jax
CELL = "total = data.sum()\n"


def measure(runs: int) -> list[Measured]:
    """Capture a cell of which the session has all: with an array of jax, and one of NumPy."""
    import jax.numpy as jnp
    import numpy as np

    hosted = np.random.default_rng(0).integers(0, 255, SIZE, dtype=np.uint8)
    one_pass, ours = in_turn(runs, lambda: _hash(hosted), _again(hosted))
    (on_device,) = in_turn(runs, _again(jnp.zeros(SIZE, jnp.uint8)))
    ratio, middle = ratio_of(ours, one_pass), 1e3 * sorted(on_device)[len(on_device) // 2]
    return [
        Measured(
            "unchanged 1 GB of NumPy, against one pass of the hash",
            ratio,
            "<= 1.5",
            f"{spread(ours)}; one pass {spread(one_pass)}",
            ratio <= 1.5,
        ),
        Measured(
            "unchanged 1 GB of jax, ms",
            middle,
            f"<= {BOUND}",
            spread(on_device, "ms", 1e3),
            middle <= BOUND,
        ),
    ]


def _hash(array: Any) -> float:
    began = time.perf_counter()
    hashlib.sha256(memoryview(array).cast("B")).digest()
    return time.perf_counter() - began


def _again(array: Any) -> Any:
    """Return what captures the cell once more, after its variable was sent."""
    from jupyter_jax_trainer.capture import capture_cell
    from jupyter_jax_trainer.capture.ledger import Ledger
    from jupyter_jax_trainer.worker.session import _described

    namespace, ledger = {"data": array}, Ledger()
    first = capture_cell(CELL, namespace, ledger=ledger)
    ledger.sent(first.selection, first.names, first.binds)
    ledger.look({"data": _described(array, 1, first.tokens()["data"])})
    del first

    def ours() -> float:
        began = time.perf_counter()
        found = capture_cell(CELL, namespace, ledger=ledger)
        spent = time.perf_counter() - began
        assert found.kept == ["data"] and not found.names
        return spent

    return ours
