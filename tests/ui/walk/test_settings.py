"""The settings, in JupyterLab's own editor, by either hand."""

from __future__ import annotations

import re
from typing import Any

from harness import submit
from playwright.sync_api import expect

from ui.pages import LabPage

CLOCK, SINCE = re.compile(r"(?<![+\d])\d\d:\d\d:\d\d"), re.compile(r"\+00:0\d:\d\d")


def test_settings(hand: Any, lab: LabPage) -> None:
    field = lab.page.locator("select[id$='jupyter-jax-trainer:logs_times']")
    # A log that nobody has looked at: what is chosen for one stays.
    job = submit("print('A last line')", line=f"set-by-{hand.name} -n 1").wait(60)
    line = lab.log(job.name).rows.filter(has_text="A last line")
    lab.command("jaxtrain:open-log", key=job.name, split=True)
    expect(line).to_contain_text(CLOCK)
    for label, times in (("since", SINCE), ("clock", CLOCK)):
        hand.command("JAX Training Settings")
        hand.choose(field, label)
        lab.command("jaxtrain:open-log", key=job.name, split=True)
        expect(line).to_contain_text(times)
