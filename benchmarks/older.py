"""What the comparisons with version 0.1 share: both versions, each in a kernel and a job home."""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from common import Measured, spread
from needs import Missing

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.append(str(ROOT / "tests"))
from kernels import Kernel  # noqa: E402
from procfs import processes_of  # noqa: E402

LAST = "ae3c490"  # the last commit of version 0.1
BOUND = 1.05
CELL = "import time; print('began', time.time())"
_PATIENCE = 120.0


@contextmanager
def checkout() -> Iterator[Path]:
    """Return a folder with version 0.1: the one that --against names, else from the history."""
    if named := os.environ.get("BENCHMARK_AGAINST"):
        yield Path(named).resolve()
        return
    with TemporaryDirectory(prefix="jaxtrain-older-") as name:
        archive = Path(name, "older.tar")
        asked = ["git", "archive", f"--output={archive}", LAST, "jupyter_jax_trainer"]
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"{LAST} is not in this clone: name a checkout of it with --against")
        shutil.unpack_archive(archive, name, filter="data")
        yield Path(name)


class Version:
    """A version of the package in a kernel.

    Parameters
    ----------
    root
        The folder that has the package.
    requests
        A file for the requests that the kernel and what it starts make; None counts none.
    """

    def __init__(self, root: Path, requests: Path | None = None) -> None:
        self.home = Path(os.environ["JAXTRAIN_HOME"])
        self._requests = requests
        self._number = 0
        path = [str(root)] if requests is None else [str(HERE / "counting"), str(root)]
        before = dict(os.environ)
        os.environ.update(PYTHONPATH=os.pathsep.join(path), BENCHMARK_REQUESTS=str(requests))
        try:
            self._kernel = Kernel(self.home, self.home)
        finally:
            os.environ.clear()
            os.environ.update(before)
        self._kernel.run("%load_ext jupyter_jax_trainer\nfrom jupyter_jax_trainer import job")
        file = self._kernel.value("__import__('jupyter_jax_trainer').__file__")
        assert file.startswith(f"'{root}/"), file

    def run(self, options: str) -> tuple[str, float, list[str]]:
        """Run a cell as a job; return its name, the seconds to its first line, and the requests."""
        self._number += 1
        name, began = f"job-{self._number}", time.time()
        self._kernel.run(f"%%jaxtrain {name} {options}\n{CELL}", timeout=_PATIENCE)
        ended = time.time()
        said = self._kernel.value(f"[line.text for line in job({name!r}).logs()]")
        times = [float(found) for found in re.findall(r"began (\d+\.\d+)", said)]
        assert times, said
        return name, max(times) - began, self._sent(began, ended)

    def _sent(self, began: float, ended: float) -> list[str]:
        """Return the requests of a time, each as a method and what it is made to."""
        text = self._requests.read_text() if self._requests and self._requests.exists() else ""
        found = []
        for line in text.splitlines():
            when, _, method, path = line.split(maxsplit=3)
            if began <= float(when) <= ended:
                found.append(f"{method} {_kind(path)}")
        return found

    def delete(self, name: str) -> None:
        self._kernel.run(f"%jaxtrain delete {name} --yes", timeout=_PATIENCE)

    def close(self) -> None:
        """End the kernel, and what it has started."""
        self._kernel.stop()
        while left := processes_of(self.home):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def _kind(path: str) -> str:
    """Return what a request is made to: a kind of objects, and what is done with them."""
    plain, _, query = path.partition("?")
    words = plain.strip("/").split("/")
    at = words.index("namespaces") + 2 if "namespaces" in words[:-2] else 2 + (words[0] == "apis")
    kind, *rest = words[at:] or [plain]
    asked = [word for word in ("watch", "dryRun") if f"{word}=" in query]
    return " ".join([kind, *rest[1:], *asked])


def compared(what: str, ours: list[float], theirs: list[float]) -> Measured:
    """Compare the medians of two versions."""
    ratio = statistics.median(ours) / statistics.median(theirs)
    detail = f"now {spread(ours)}, 0.1 {spread(theirs)}"
    return Measured(what, ratio, f"<= {BOUND}", detail, ratio <= BOUND)
