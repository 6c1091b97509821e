"""Packages that later cells of a session take along."""

from __future__ import annotations

import sys

import pytest
from made_jobs import make_job

from jupyter_jax_trainer.backends.kubernetes.submit import images, latepackages
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.capture.ledger import Ledger
from jupyter_jax_trainer.errors import CaptureError
from jupyter_jax_trainer.jobdir import session
from jupyter_jax_trainer.options.spec import JobSpec

PYTHON = "{}.{}".format(*sys.version_info)
CELL = "import os, jax, iniconfig"


@pytest.fixture
def lab(home):
    return make_job("lab", "Running", spec=JobSpec(session="lab"))


def know(lab, python=PYTHON, **distributions):
    has = {"jax": "0.10.0", **distributions}
    platform = {"python": python, "machine": images.machine(), "glibc": "2.36"}
    images.note(lab, "image", images.Contents(**platform, distributions=has))


def captured(ledger, source=CELL):
    return capture_cell(source, {"__name__": "__main__"}, ledger=ledger)


def test_what_the_image_lacks_goes_along_once(lab):
    ledger = Ledger()
    assert latepackages.add(lab, captured(ledger)) == {}  # nobody knows the image
    know(lab)
    capture = captured(ledger)
    (file,) = latepackages.add(lab, capture)
    assert file.startswith("iniconfig-")
    (sent,) = [one for one in capture.sent if one.kind == "package"]
    session.write(lab, {**session.first(None), "packages": {sent.name: sent.type}})
    assert latepackages.add(lab, captured(ledger)) == {} and "iniconfig" in ledger.there
    ledger.note_restarts(1, ())
    session.write(lab, session.first(None))
    assert [*latepackages.add(lab, captured(ledger))] == [file]
    know(lab, iniconfig="0.1")  # of another version: it may be in use
    assert latepackages.add(lab, captured(Ledger())) == {}


def test_what_can_not_go_is_refused_before_the_cell_runs(lab, monkeypatch):
    know(lab, python="3.99")
    monkeypatch.setattr(latepackages.wheels, "Index", lambda: None)  # it would ask one
    with pytest.raises(CaptureError) as refused:
        latepackages.add(lab, captured(Ledger(), "import yaml"))
    assert "--package pyyaml" in refused.value.hint
