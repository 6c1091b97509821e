"""What ``display`` of a job passes on."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_jax_trainer.worker.display import Displayer


@pytest.fixture
def sent() -> list[tuple[Any, ...]]:
    return []


@pytest.fixture
def displayer(sent: list[tuple[Any, ...]]) -> Displayer:
    return Displayer(lambda data, metadata, **more: sent.append((data, metadata, more)))


def test_a_handle_updates_and_displays_again(displayer, sent):
    assert displayer.display("plain") is None
    handle = displayer.display("one", display_id=True)
    handle.update("two")
    handle.display("three", metadata={"text/plain": {"a": 1}})
    handle.update({"text/plain": "raw"}, raw=True)
    name = handle.display_id
    assert [(data["text/plain"], metadata, more) for data, metadata, more in sent] == [
        ("'plain'", {}, {}),
        ("'one'", {}, {"id": name}),
        ("'two'", {}, {"id": name, "update": True}),
        ("'three'", {"text/plain": {"a": 1}}, {"id": name}),
        ("raw", {}, {"id": name, "update": True}),
    ]
    assert displayer.display("x", display_id="mine").display_id == "mine"
    assert displayer.display(display_id=True).display_id != name
    displayer.clear_output(wait=True)
    with pytest.raises(TypeError, match="display_id"):
        displayer.display("x", update=True)


def test_other_ranks_print_and_get_handles_as_well(capsys):
    handle = Displayer(None).display("one", display_id=True)
    handle.update("two")
    assert capsys.readouterr().out == "'one'\n'two'\n"
