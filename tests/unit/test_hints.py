"""What a view says of a wait: the reason, and what to do about it."""

from __future__ import annotations

import io
import sys

from jupyter_jax_trainer.views import card
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.views.terminal import TerminalView

FACTS = Facts(name="a", created=0.0, shape="1 node", sent="")


def waiting(reason: str, hint: str | None, state: str = "Pending") -> dict:
    return {
        "state": state,
        "reason": reason,
        "hint": hint,
        "history": [],
        "progress": None,
        "results": None,
        "ranks": [],
    }


def test_the_hint_stands_below_the_reason_while_the_job_waits():
    snapshot = waiting("no room", "`%jaxtrain resume` <b>\x1b[2J")
    lines = card.text(FACTS, snapshot).splitlines()
    assert lines[0].endswith("no room") and lines[1] == "`%jaxtrain resume` <b>"
    html = card.render(FACTS, snapshot)
    assert "%jaxtrain resume</code> &lt;b&gt;" in html and "\x1b" not in html
    for state in ("Failed", "Cancelled", "Succeeded"):
        assert "resume" not in card.text(FACTS, waiting("no room", "`resume`", state))


def test_a_terminal_says_a_hint_once_and_what_counts_seconds_once(monkeypatch):
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    view = TerminalView()
    view.begin(FACTS, waiting("is being pulled (1 s)", None))
    for second in range(2, 90):
        view.status(waiting(f"is being pulled ({card.duration(second)})", None), None)
    for _ in range(3):
        view.status(waiting("no room", "Ask for less."), None)
    lines = said.getvalue().splitlines()
    assert [line.rpartition(" · ")[2] for line in lines] == [
        "is being pulled (1 s)",
        "no room",
        "  Ask for less.",
    ]
