"""Carry captured values into a fresh process that runs code as ``__main__``, and results back."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from jupyter_jax_trainer.worker.ipython import Shell
from jupyter_jax_trainer.worker.serialization.pickling import Pickler, load_pairs

ROOT = Path(__file__).parents[2]


def run_fresh(cases: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run captures in one fresh process.

    `cases`: name → (capture, names to bring back). Gives for each the result's (stream, buffers),
    or the traceback as text.
    """
    packed = {}
    for name, (capture, out) in cases.items():
        packed[name] = {
            "stream": capture.stream,
            "buffers": [bytes(b) for b in capture.buffers],
            "code": capture.code,
            "out": list(out),
        }
        for path, content in capture.modules.items():
            (folder / "modules" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "modules" / path).write_bytes(content)
    (folder / "cases").write_bytes(pickle.dumps(packed))
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT), str(Path(__file__).parent), str(folder / "modules")]
        ),
    }
    environment.pop("JAX_NUM_CPU_DEVICES", None)
    program = "import fresh, sys; fresh.serve(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", program, str(folder)],
        env=environment,
        check=True,
        timeout=100,
        cwd=folder,
    )
    return pickle.loads((folder / "results").read_bytes())


def serve(folder: str) -> None:
    """Do in the fresh process what a worker does: load, run as ``__main__``, pickle results."""
    cases = pickle.loads(Path(folder, "cases").read_bytes())
    main = vars(sys.modules["__main__"])
    start = dict(main)
    results: dict[str, Any] = {}
    for name, case in cases.items():
        main.clear()
        main.update(start, get_ipython=lambda: Shell(main))
        try:
            main.update(load_pairs(case["stream"], map(bytearray, case["buffers"]), main))
            exec(compile(case["code"], "<cell>", "exec"), main)
            file = io.BytesIO()
            pickler = Pickler(file)
            pickler.dump([main[n] for n in case["out"]])
            results[name] = file.getvalue(), [bytes(b) for b in pickler.buffers]
        except BaseException:
            results[name] = traceback.format_exc()
    Path(folder, "results").write_bytes(pickle.dumps(results))
