"""Samples the resources that this rank uses, in a thread of its own.

It costs a step next to nothing, starts no backend of jax by itself, and whatever goes wrong in it
is said once and does the job no harm.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.worker import rendezvous, timeouts
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.records import DeviceSample, Sample
from jupyter_jax_trainer.worker.usage import UsageReader

if TYPE_CHECKING:
    from jupyter_jax_trainer.worker.nvml import Gpus, Load

TIGHT = 0.8  # of memory: from here on samples are sent at once, and arrays are named
_FIRST = 0.125  # seconds before the first sample; it is twice as long before each one after
_RANKS = 32.0  # samples a second that a reader gets of all ranks together
_BATCHES = 10.0  # intervals of the channel between two messages
_ARRAYS = 10.0  # seconds between two looks at all arrays
_MAX_DEVICES = 16
_MAX_PROBLEM = 200  # characters


class Sampler:
    """Tells what this rank uses.

    Parameters
    ----------
    channel
        Where it is told.
    nodes
        How many ranks tell the same reader.
    contained
        This rank has a container of its own.
    """

    def __init__(self, channel: Channel, nodes: int, *, contained: bool) -> None:
        self._channel = channel
        self._pause = max(timeouts.SAMPLE.seconds, nodes / _RANKS)
        self._batch = _BATCHES * channel.interval if contained else 0.0
        self._usage = UsageReader(contained=contained)
        self._gpus: Gpus | None = None
        self._main = threading.main_thread().ident or 0
        self._namespace: Namespace = {}
        self._lock = threading.Lock()
        self._waiting: list[Sample] = []
        self._sent_at = self._named_at = float("-inf")
        self._problem: str | None = None

    def start(self, namespace: Namespace) -> None:
        """Sample from now on.

        Parameters
        ----------
        namespace
            The variables of the cell, which name arrays.
        """
        self._namespace = namespace
        threading.Thread(target=self._run, name="jaxtrain-sampler", daemon=True).start()

    def look_at(self, error: BaseException) -> None:
        """Take a sample with the arrays that are there, if memory is what an error is about."""
        with contextlib.suppress(Exception):  # there may be no memory for it, or no text
            if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):
                return
            from jupyter_jax_trainer.worker.livearrays import frames_in

            self._add(self._sample(), frames_in(error.__traceback__))

    def flush(self) -> None:
        """Send what waits."""
        with self._lock:
            samples, self._waiting = self._waiting, []
            self._sent_at = time.monotonic()
        if samples:
            self._channel.send("resources", samples=samples, problem=None)

    def _run(self) -> None:
        pause = _FIRST
        while True:
            time.sleep(min(pause, self._pause))
            pause *= 2
            try:
                self._look()
            except Exception as error:
                self._say(f"{type(error).__name__}: {error}"[:_MAX_PROBLEM])

    def _look(self) -> None:
        sample = self._sample()
        if _share(sample) < TIGHT:
            self._add(sample)
            return
        frames: Iterable[FrameType] | None = None
        if time.monotonic() - self._named_at > _ARRAYS:
            from jupyter_jax_trainer.worker.livearrays import frames_of

            self._named_at, frames = time.monotonic(), frames_of(self._main)
        self._add(sample, frames)
        self.flush()

    def _add(self, sample: Sample, frames: Iterable[FrameType] | None = None) -> None:
        """Keep a sample until it is time to send some; with `frames` it names arrays."""
        if frames is not None:
            from jupyter_jax_trainer.worker.livearrays import largest

            sample["arrays"] = largest(self._namespace, frames)
        with self._lock:
            self._waiting.append(sample)
            due = time.monotonic() - self._sent_at >= self._batch
        if due or frames is not None:
            self.flush()

    def _say(self, problem: str) -> None:
        if self._problem is None:
            self._problem = problem
            self._channel.send("resources", samples=[], problem=problem)

    def _sample(self) -> Sample:
        now = round(time.time(), 3)
        return cast(Sample, {"time": now, **self._usage.read(), "devices": self._devices()})

    def _devices(self) -> list[DeviceSample]:
        found = rendezvous.devices_in_use()[:_MAX_DEVICES]
        loads: list[Load] = [(None, None)] * len(found)
        if found and found[0].platform in ("gpu", "cuda"):
            numbers = [getattr(device, "local_hardware_id", None) or 0 for device in found]
            loads = self._ask_driver(numbers)
        samples: list[DeviceSample] = []
        for device, (use, power) in zip(found, loads, strict=True):
            stats = _statistics(device)
            samples.append(
                {
                    "memory": stats.get("bytes_in_use"),
                    "peak": stats.get("peak_bytes_in_use"),
                    "limit": stats.get("bytes_limit"),
                    "use": use,
                    "power": power,
                }
            )
        return samples if any(any(v is not None for v in one.values()) for one in samples) else []

    def _ask_driver(self, numbers: Sequence[int]) -> list[Load]:
        from jupyter_jax_trainer.worker.nvml import Gpus

        self._gpus = self._gpus or Gpus(self._pause)
        return self._gpus.read(numbers)


def _statistics(device: Any) -> dict[str, int]:
    """Return what a device says of its memory; nothing for one that has no statistics."""
    try:
        return device.memory_stats() or {}
    except Exception:  # of some kinds they are not implemented
        return {}


def _share(sample: Sample) -> float:
    """Return the part that is in use of the memory that is fullest."""
    bounds = [(sample["used"], sample["limit"])]
    bounds += [(device["memory"], device["limit"]) for device in sample["devices"]]
    return max((used / limit for used, limit in bounds if used and limit), default=0.0)
