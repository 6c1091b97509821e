"""The bundle as a program: in other environments, and after somebody changed it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from jupyter_jax_trainer.bundle import write_bundle
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.messages import worker as say

PLAIN = "total = sum(numbers['a'])\nprint('total', total, flush=True)"
CODE = "print('twice', twice(4), flush=True)"
ARRAYS = "import numpy as np\nprint('mean', float(np.mean(weights)), weights.dtype, flush=True)"


def bundle(path: Path, cell: str, namespace: dict) -> tuple[Path, str]:
    capture = capture_cell(cell, {"__name__": "__main__", **namespace})
    return path, write_bundle(path, "alone", capture)


def functions() -> dict:
    namespace: dict = {"__name__": "__main__"}
    exec("def twice(x): return 2 * x", namespace)
    return namespace


def run_bundle(python: Path | str, path: Path, digest: str | None = None, **more: str):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JAX"))}
    environment.update(JAX_PROCESS_ID="0", JAX_NUM_PROCESSES="1", JAX_PLATFORMS="cpu", **more)
    if digest:
        environment["JAXTRAIN_BUNDLE_SHA256"] = digest
    return subprocess.run(
        [python, path],
        capture_output=True,
        text=True,
        timeout=110,
        env=environment,
        stdin=subprocess.DEVNULL,
        cwd=path.parent,
    )


def test_it_runs_alone(tmp_path):
    path, digest = bundle(tmp_path / "job.pyz", CODE, functions())
    done = run_bundle(sys.executable, path, digest)
    assert (done.returncode, done.stdout) == (0, "twice 8\n"), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_it_runs_where_there_is_only_jax(tmp_path, jax_only_python):
    for cell, namespace, said in (
        (CODE, functions(), "twice 8\n"),
        (ARRAYS, {"weights": np.ones(3, "f4")}, "mean 1.0 float32\n"),
    ):
        path, digest = bundle(tmp_path / "job.pyz", cell, namespace)
        done = run_bundle(jax_only_python, path, digest)
        assert (done.returncode, done.stdout) == (0, said), done.stderr
        path.unlink()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_plain_data_runs_under_another_python(tmp_path, other_python):
    path, digest = bundle(tmp_path / "job.pyz", PLAIN, {"numbers": {"a": [1, 2, 3]}})
    done = run_bundle(other_python, path, digest)
    assert (done.returncode, done.stdout) == (0, "total 6\n"), done.stderr
    path, digest = bundle(tmp_path / "arrays.pyz", ARRAYS, {"weights": np.ones(3, "f4")})
    done = run_bundle(other_python, path, digest)
    assert (done.returncode, done.stdout) == (0, "mean 1.0 float32\n"), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_functions_are_refused_under_another_python_with_a_sentence(tmp_path, other_python):
    path, digest = bundle(tmp_path / "job.pyz", CODE, functions())
    done = run_bundle(other_python, path, digest)
    assert done.returncode == 1
    words = say.ANOTHER_PYTHON(names="twice", sent=f"3.{sys.version_info.minor}", here="3.HERE")
    assert words.partition("HERE")[0] in done.stderr
    assert "define them" in done.stderr
    assert "twice 8" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("member", ["manifest.json", "variables.pkl", "cell.py", "sources.json"])
def test_a_bundle_that_was_changed_is_refused_before_anything_is_unpickled(tmp_path, member):
    class Trap:
        def __reduce__(self):
            return (os.system, ("echo unpickled",))

    path, digest = bundle(tmp_path / "job.pyz", "trap", {"trap": Trap(), "numbers": 1})
    assert "unpickled" in run_bundle(sys.executable, path, digest).stdout  # as it was sent
    # Rewritten whole, so that only the sha256 can tell; a zip's own checksum is right.
    changed = tmp_path / "changed.pyz"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            data = bytearray(old.read(name))
            if name == member:
                data[len(data) // 2] ^= 1
            new.writestr(name, bytes(data))
    done = run_bundle(sys.executable, changed, digest)
    assert done.returncode == 1
    assert "sha256 differs" in done.stderr or "not match" in done.stderr
    assert "unpickled" not in done.stdout


def test_one_byte_on_the_disk_is_enough(tmp_path):
    path, digest = bundle(tmp_path / "job.pyz", CODE, functions())
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        offset = archive.getinfo("variables.pkl").header_offset
    data[offset + 60] ^= 0x10  # in the member's compressed bytes
    path.write_bytes(data)
    done = run_bundle(sys.executable, path, digest)
    assert done.returncode != 0
    assert "variables.pkl" in done.stderr
    assert "twice" not in done.stdout


def test_a_rank_tells_only_its_supervisor(tmp_path):
    """Records travel over a socket of their own, and end with the process."""
    ours, theirs = socket.socketpair()
    path, digest = bundle(tmp_path / "job.pyz", 'print(\'{"kind": "finished"}\')\n1 / 0', {})
    environment = {
        **os.environ,
        "JAX_PROCESS_ID": "0",
        "JAX_NUM_PROCESSES": "1",
        "JAX_PLATFORMS": "cpu",
        "JAXTRAIN_BUNDLE_SHA256": digest,
        "JAXTRAIN_CHANNEL_FD": str(theirs.fileno()),
    }
    with ours:
        process = subprocess.Popen(
            [sys.executable, path],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        process.communicate(timeout=60)
        records = b""
        while data := ours.recv(1 << 16):
            records += data
    assert b'"kind": "finished"' not in records
    assert records.count(b'"kind": "error"') == 1
