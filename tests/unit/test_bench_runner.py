"""``make bench`` runs all benchmarks, whatever one of them does."""

from __future__ import annotations

import runpy
import sys
from types import SimpleNamespace
from typing import Any

from docblocks import ROOT


def test_a_benchmark_that_fails_is_said_and_the_others_still_run(monkeypatch, capsys):
    def fails(runs: int) -> list[Any]:
        raise TimeoutError("not within 180 s")

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    run = runpy.run_path(str(ROOT / "benchmarks" / "run.py"))
    names = {"one_that_fails": fails, "one_that_works": lambda runs: [SimpleNamespace(ok=True)]}
    for name, measure in names.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(measure=measure))
    monkeypatch.setattr(sys, "argv", ["run.py", *names])
    assert run["main"]() == 1
    said = capsys.readouterr().out
    assert "FAILED one_that_fails" in said and "not within 180 s" in said
    assert "namespace(ok=True)" in said, "the other one"
