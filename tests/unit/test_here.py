"""What a page is told of the machine of its server."""

from __future__ import annotations

from jupyter_jax_trainer.queries.topics import HereTopic
from jupyter_jax_trainer.worker.usage import UsageReader

GIB = 1 << 30


def test_it_is_told_when_it_has_changed_so_that_it_is_seen(monkeypatch):
    now = {"cpu": 0.501, "cores": 2.0, "used": 3 * GIB, "limit": 16 * GIB}
    monkeypatch.setattr(UsageReader, "read", lambda _: now)
    topic = HereTopic()
    (found,) = topic.look()
    assert found == {**now, "kind": "here", "cpu": 0.5}
    now["used"] += 1 << 20
    assert [*topic.look()] == []
    now["used"] += GIB
    assert len([*topic.look()]) == 1


def test_it_is_of_this_machine():
    (found,) = HereTopic().look()
    assert 0 < found["used"] < found["limit"]
