"""A job in the output of a cell, as tests begin and watch it."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, expect

from ui.pages import LOAD, LabPage

SLOW = 60_000  # milliseconds; a job starts, on a busy machine

# What is unpickled before the job counts as running; so the test says when that is.
GATE = """
%load_ext jupyter_jax_trainer
def opened(path):
    import os, time
    while not os.path.exists(path):
        time.sleep(0.02)
class Gate:
    def __reduce__(self):
        return opened, ({gate!r},)
gate = Gate()
"""

# Counts until the file is there. It prints the last line only, since a printed line changes the
# document, as anybody's output does.
CODE = """%%jaxtrain {name} -r local-cpu {options}
import os, time
from jupyter_jax_trainer import report
{first}
number = 0
while not os.path.exists({end!r}):
    number += 1
    report(step=number, total=1000000, loss=1 / number)
    time.sleep(0.02)
print("all numbers", flush=True)
"""

PANEL = "import jupyter_jax_trainer\njupyter_jax_trainer.panel()"


class Job:
    """The cells of a job that waits for the test."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._end = folder / f"{name}-end"
        self._gate = folder / f"{name}-gate"

    def code(self, options: str = "", first: str = 'print("first line")') -> str:
        return CODE.format(name=self.name, options=options, first=first, end=str(self._end))

    @property
    def gate(self) -> str:
        return GATE.format(gate=str(self._gate))

    def open_gate(self) -> None:
        self._gate.touch()

    def end(self) -> None:
        self._end.touch()


def job_summary(place: Locator) -> Locator:
    return place.locator(".jaxtrain-job-summary")


def is_state(view: Locator, state: str) -> None:
    view.scroll_into_view_if_needed()  # one that nobody sees rests
    expect(view.locator(".jaxtrain-state")).to_have_text(state, timeout=SLOW)


def button(view: Locator, name: str) -> Locator:
    return view.get_by_role("button", name=name, exact=True)


def moves(view: Locator) -> None:
    """Wait until a view of a running job has changed by itself, twice."""
    spark = view.get_by_role("img", name=re.compile(r"^loss is .* at step \d+"))
    progress = view.locator(".jaxtrain-job-summary-numbers")
    view.scroll_into_view_if_needed()
    expect(progress).to_contain_text(re.compile(r"\d+/1000000"), timeout=SLOW)
    for _ in range(2):
        line, text = spark.locator("path").get_attribute("d"), progress.text_content()
        expect(spark.locator("path")).not_to_have_attribute("d", line or "", timeout=SLOW)
        expect(progress).not_to_have_text(text or "", timeout=SLOW)


def begin_waiting(lab: LabPage, name: str, job: Job) -> Locator:
    """Run a job's cell in a new notebook, behind its gate; give its view while the job starts."""
    lab.notebook(name, job.gate, job.code(first="gate\nprint('first line')"))
    lab.run(0)
    lab.has_run(0)
    lab.run(1)
    view = job_summary(lab.cell(1))
    is_state(view, "Starting")
    return view


def begin(lab: LabPage, job: Job, *cells: str, options: str = "") -> Locator:
    """Run a job's cell in a new notebook; give its view once the job runs."""
    lab.notebook(job.name, LOAD, job.code(options), *cells)
    lab.run(0)
    lab.has_run(0)
    lab.run(1)
    view = job_summary(lab.cell(1))
    is_state(view, "Running")
    return view
