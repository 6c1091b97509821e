"""Files of a job directory: what is opened for them is closed again."""

from __future__ import annotations

import os

from jupyter_jax_trainer.backends.kubernetes import fetch
from jupyter_jax_trainer.files import LineReader
from jupyter_jax_trainer.jobdir import JobDir


def test_parts_of_results_leave_no_file_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for index in range(50):
        fetch.add_part(JobDir(tmp_path), {"index": index})
    assert len(os.listdir("/proc/self/fd")) == before
    assert [part["index"] for part in LineReader(tmp_path / "result.parts").read()] == [*range(50)]
