"""What of a session's variables is saved, in one process."""

from __future__ import annotations

import re
import sys

import pytest

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import saving
from jupyter_jax_trainer.worker.reporting import CHECKPOINTS_VARIABLE


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv(CHECKPOINTS_VARIABLE, str(tmp_path / "checkpoints"))
    monkeypatch.setattr(saving, "last", None)
    monkeypatch.setattr(saving, "_claimed", None)


def test_arrays_and_trees_of_them_are_saved_and_the_rest_is_named():
    import jax.numpy as jnp
    import numpy as np

    space = {
        "__name__": "__main__",
        "params": {"w": jnp.ones((2, 3)), "deep": [jnp.zeros(()), None, 3]},
        "host": np.arange(5),
        "objects": np.array([object()]),
        "step": 4,
        "names": ["a"],
        "mixed": {"w": jnp.ones(1), "name": "x"},
        "np": np,
        "function": len,
    }
    assert saving.save(space) == ["host", "params"]
    saved = saving.last
    assert saved["left_out"] == ["mixed", "names", "objects", "step"] and saved["nodes"] == 1
    fresh = {}
    assert saving.restore(fresh, saved["folder"], saved["digest"]) == ["host", "params"]
    assert (fresh["params"]["w"] == 1).all() and fresh["params"]["deep"][1:] == [None, 3]
    assert (fresh["host"] == np.arange(5)).all()


def test_what_is_of_a_class_of_the_notebook_is_named_and_only_the_last_saves_stay(monkeypatch):
    import jax
    import jax.numpy as jnp

    class Own(tuple):
        pass

    Own.__module__ = "__main__"
    jax.tree_util.register_pytree_node(
        Own, lambda own: (list(own), None), lambda _, items: Own(items)
    )
    for _ in range(4):
        assert saving.save({"own": Own([jnp.ones(2)]), "w": jnp.ones(2)}) == ["w"]
    assert saving.last["left_out"] == ["own"]
    assert len(list((saving.checkpoint_dir() / "session").iterdir())) == 2


def test_ranks_whose_place_others_have_taken_save_nothing(monkeypatch):
    """A node that was cut off has them end when it is back: their save would be the newest."""
    import numpy as np

    saving.claim()
    before = saving._claimed
    saving.save({"w": np.zeros(2)})
    saving.claim()
    saving.save({"w": np.ones(2)})
    after = saving.last
    monkeypatch.setattr(saving, "_claimed", before)
    with pytest.raises(saving.SaveError, match=re.escape(say.OTHERS_GO_ON())):
        saving.save({"w": np.zeros(2)})
    assert saving.last == after
    (saving.checkpoint_dir() / "session.owner").unlink()  # nobody knows: rather twice than never
    assert saving.save({"w": np.zeros(2)}) == ["w"]


def test_what_is_gone_or_was_changed_is_not_loaded(monkeypatch):
    import numpy as np

    saving.save({"w": np.ones(2)})
    saved = saving.last
    file = saving.checkpoint_dir() / saved["folder"] / "rank-0"
    data = file.read_bytes()
    monkeypatch.setattr(saving.pickle, "loads", lambda data: pytest.fail("unpickled"))
    for change in (lambda: file.write_bytes(data + b"x"), file.unlink):
        change()
        with pytest.raises(saving.SaveError) as refused:
            saving.restore({}, saved["folder"], saved["digest"])
        assert refused.value.id == "worker.save-is-gone"


def test_where_orbax_is_missing_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(saving.SaveError, match="Orbax") as refused:
        saving._orbax()
    assert "--package orbax-checkpoint" in refused.value.hint
