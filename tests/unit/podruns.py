"""Run a bundle as a pod does: one pipe, messages in frames."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.bundle import write_bundle
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.capture.files import Files
from jupyter_jax_trainer.worker.pod import frames
from jupyter_jax_trainer.worker.processes import descendants

KEY = "0123456789abcdef" * 4


def bundle(
    folder: Path,
    cell: str,
    namespace: dict[str, Any] | None = None,
    out: tuple[str, ...] = (),
    beside: Files | None = None,
    wheels: Mapping[str, bytes] | None = None,
    profile: str | None = None,
) -> tuple[Path, str]:
    """Write a bundle; give its path and digest."""
    path = folder / "job.pyz"
    capture = capture_cell(cell, {"__name__": "__main__", **(namespace or {})}, out=out)
    capture.files = beside or capture.files
    return path, write_bundle(path, "podded", capture, out, wheels=wheels, profile=profile)


@dataclass
class PodRun:
    """A rank that runs as in a pod, and what came from it."""

    process: subprocess.Popen[bytes]
    rank: int = 0
    raw: bytes = b""
    text: str = ""
    lines: int = 0
    size: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._decoder = frames.Decoder(frames.key_from(KEY), self.rank)
        self._rest = b""

    def read(self, until: Callable[[PodRun], Any] = lambda _: False, seconds: float = 40) -> PodRun:
        """Read until something has come, or to the end."""
        assert self.process.stdout is not None
        limit = time.monotonic() + seconds
        while not until(self):
            ready, _, _ = select.select(
                [self.process.stdout], [], [], max(0, limit - time.monotonic())
            )
            assert ready, self
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            self.raw += data
            if not data:
                self.text += self._rest.decode(errors="replace")
                odd = [
                    one
                    for one in map(messages.read, self.messages)
                    if isinstance(one, messages.Odd)
                ]
                assert not odd, "the follower would leave them out"
                return self
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                text, newline, message = self._decoder.decode(line)
                self.text += text.decode(errors="replace") + "\n" * newline
                self.lines += newline
                self.size += len(text) + newline
                if message is not None:
                    self.messages.append({**message, "at": self.lines, "at_byte": self.size})
        return self

    def end(self) -> int:
        """Read to the end, and give the exit code."""
        self.read()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(10)

    def kinds(self) -> list[str]:
        """Return the kinds of messages in their order, without those that may come at any time."""
        at_any_time = ("lines", "spent", "resources")
        return [m["kind"] for m in self.messages if m["kind"] not in at_any_time]

    def get(self, kind: str) -> dict[str, Any]:
        """Return the last message of a kind."""
        return [m for m in self.messages if m["kind"] == kind][-1]

    def has(self, kind: str) -> bool:
        return kind in [m["kind"] for m in self.messages]


def start(
    folder: Path,
    path: Path,
    digest: str,
    *,
    rank: int = 0,
    nodes: int = 1,
    prefix: tuple[str, ...] = (),
    **more: str | None,
) -> PodRun:
    """Start a rank."""
    environment: dict[str, str | None] = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JAX", "KUBEFLOW"))
    }
    scratch = folder / f"scratch-{rank}"
    scratch.mkdir(exist_ok=True)
    environment.update(
        JAX_PROCESS_ID=str(rank),
        JAX_NUM_PROCESSES=str(nodes),
        JAX_PLATFORMS="cpu",
        JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{port_of(folder)}",
        JAXTRAIN_JOB="podded",
        JAXTRAIN_JOB_UID=uid_of(folder),
        JAXTRAIN_BUNDLE_SHA256=digest,
        JAXTRAIN_FRAME_KEY=KEY,
        JAXTRAIN_BOOT="x" * 1000,
        JAXTRAIN_BUNDLE_000="y" * 100_000,
        JAXTRAIN_SCRATCH=str(scratch),
        PYTHONUNBUFFERED="1",
        PYTHONFAULTHANDLER="1",
    )
    environment.update(more)
    process = subprocess.Popen(
        [*prefix, sys.executable, "-u", str(path)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={k: v for k, v in environment.items() if v is not None},
    )
    return PodRun(process, rank)


def run(
    folder: Path,
    cell: str,
    namespace: dict[str, Any] | None = None,
    out: tuple[str, ...] = (),
    **more: Any,
) -> PodRun:
    """Run a cell on one rank to its end."""
    done = start(folder, *bundle(folder, cell, namespace, out), **more)
    done.end()
    return done


def uid_of(folder: Path) -> str:
    """Return the job of a test an id that no other has: its marker may come to be in /dev/shm."""
    return hashlib.sha256(f"{os.getpid()} {folder}".encode()).hexdigest()[:20]


_ports: dict[Path, int] = {}


def port_of(folder: Path) -> int:
    """Find a free port for the coordinator of a test."""
    if folder not in _ports:
        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            _ports[folder] = probe.getsockname()[1]
    return _ports[folder]


def kill(*runs: PodRun) -> None:
    """End what is left."""
    for run in runs:
        for pid in (*descendants(run.process.pid), run.process.pid):  # a rank may be stopped
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.process.wait()
        if run.process.stdout is not None:
            run.process.stdout.close()
