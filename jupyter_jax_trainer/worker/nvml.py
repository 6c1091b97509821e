"""How busy NVIDIA GPUs are, and what they draw, where pynvml can be imported.

A call of the driver may take any time, or hang: it runs in a thread of its own, and its last answer
counts for a while.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

_LASTS = 3  # intervals for which an answer counts

Load = tuple[float | None, float | None]
"""The part of the time in which a GPU computed, and watts."""

UNKNOWN: Load = (None, None)


class Gpus:
    """Asks the driver again and again.

    Parameters
    ----------
    interval
        Seconds between two questions.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._found: dict[int, Load] = {}
        self._asked: Sequence[int] = ()
        self._answered = 0.0
        self._started = False

    def read(self, numbers: Sequence[int]) -> list[Load]:
        """Return what was heard last of GPUs, by their places among those that jax sees."""
        self._asked = numbers
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="jaxtrain-nvml", daemon=True).start()
        late = time.monotonic() - self._answered > _LASTS * self._interval
        return [UNKNOWN if late else self._found.get(number, UNKNOWN) for number in numbers]

    def _run(self) -> None:
        try:
            pynvml: Any = importlib.import_module("pynvml")
            pynvml.nvmlInit()
        except Exception:  # not installed, or there is no driver
            return
        while True:
            self._found = {number: _load(pynvml, number) for number in self._asked}
            self._answered = time.monotonic()
            time.sleep(self._interval)


def _load(pynvml: Any, number: int) -> Load:
    """Ask for one GPU; part of one (MIG) says nothing of its own."""
    try:
        handle = _handle(pynvml, number)
    except Exception:
        return UNKNOWN
    use = power = None
    with contextlib.suppress(Exception):
        use = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    with contextlib.suppress(Exception):
        power = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
    return use, power


def _handle(pynvml: Any, number: int) -> Any:
    """Return the driver's GPU for one that jax sees: it may see some only, in any order."""
    visible = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    name = visible[number] if visible else str(number)
    if name.isdecimal():
        return pynvml.nvmlDeviceGetHandleByIndex(int(name))
    return pynvml.nvmlDeviceGetHandleByUUID(name)
