"""A job that counts while page, kernel and server come and go."""

from __future__ import annotations

from pathlib import Path

from harness import eventually
from playwright.sync_api import expect

from jupyter_jax_trainer import api
from jupyter_jax_trainer.jobdir.layout import JobDir
from ui.cells import is_state, job_summary, moves
from ui.pages import LOAD, LabPage

# Numbers its lines until the file is there.
CODE = """%%jaxtrain counting -r local-cpu
import os, time
from jupyter_jax_trainer import report
number = 0
while not os.path.exists({end!r}):
    print(f"number {{number}}")
    if number % 10 == 0:
        report(step=number, total=1000000, loss=1 / (number + 1))
    number += 1
    time.sleep(0.02)
print("all numbers", number)
"""
NAME = "counting"
SILENT = "Disconnected: this may be out of date."

# What requests of JupyterLab and of ours say while the server is away. After that its kernels are
# unknown.
AWAY = (
    "net::ERR_CONNECTION_REFUSED",
    "WebSocket connection to",
    r"404 .*/api/kernels/",
    r"(?s)^raised: TypeError: Failed to fetch(?!.*jupyter-jax-trainer)",
)


def cells(end: Path) -> tuple[str, str]:
    """Return the cells of a job that counts until this file is there."""
    return LOAD, CODE.format(end=str(end))


class Counting:
    """A page in which a job counts: its cell and its log."""

    def __init__(self, lab: LabPage, end: Path) -> None:
        """Run the cells of a notebook that the page has open: those of `cells`."""
        self._end = end
        lab.run(0)
        lab.has_run(0)
        lab.run(1)
        is_state(job_summary(lab.cell(1)), "Running")
        lab.command("docmanager:save")  # else the page would ask before it goes
        self.shown_in(lab)

    def shown_in(self, lab: LabPage) -> None:
        """Open what there is of the job in a page that has its notebook open."""
        self.lab = lab
        self.log = lab.log(NAME)
        self.card = job_summary(lab.cell(1))
        self.open()
        self.sees_more()

    def open(self) -> None:
        """Open the log."""
        self.lab.command("jaxtrain:open-log", key=NAME, split=True)

    def printed(self) -> int:
        """Return how much the job has printed."""
        return JobDir(api.job(NAME).directory).log(0).stat().st_size

    def prints_more(self) -> None:
        """Wait until the job has printed some fifty lines more."""
        goal = self.printed() + 600
        eventually(lambda: self.printed() > goal)

    def sees_more(self) -> None:
        """Wait until the viewer shows lines that have been printed from now on."""
        self.prints_more()
        self._shows_after(self._shows_after(0) + 50)

    def _shows_after(self, number: int) -> int:
        """Wait until the viewer shows a higher number; return the highest."""
        highest = self.lab.page.wait_for_function(
            """([list, number]) => {
                const rows = [...list.querySelectorAll('.jaxtrain-log-text')];
                const numbers = rows.map(row => Number(row.textContent.split(' ')[1]));
                return Math.max(...numbers.filter(each => each > number), 0); // NaN: not loaded
            }""",
            arg=[self.log.list.element_handle(), number],
            timeout=90_000,
        )
        return int(highest.json_value())

    def lives(self) -> None:
        """Wait until the cell's view has changed by itself."""
        moves(self.card)
        expect(self.card).not_to_contain_text(SILENT)
        is_state(self.card, "Running")

    def check(self) -> None:
        """End the job; the viewer has all its lines, and the cell's view knows of the end."""
        self.lives()
        self._end.touch()
        self.log.last_is("all numbers")
        count = int(self.log.rows.last.inner_text().split()[-1])
        assert self.log.lines() == [*(f"number {n}" for n in range(count)), f"all numbers {count}"]
        is_state(self.card, "Succeeded")
        assert api.job(NAME).state == "Succeeded"


class CountingBeside(Counting):
    """A page of JupyterLab with all views of the job beside each other."""

    def open(self) -> None:
        self.lab.command("jaxtrain:show-jobs")
        self.lab.command("jaxtrain:open-job", key=NAME, split=True)
        super().open()

    def check(self) -> None:
        """End the job; list and view know of that, too."""
        expect(self.lab.job(NAME).locator("header .jaxtrain-state")).to_have_text("Running")
        super().check()
        expect(self.lab.row(NAME).locator(".jaxtrain-state")).to_have_text("Succeeded")
        expect(self.lab.job(NAME).locator("header .jaxtrain-state")).to_have_text("Succeeded")
