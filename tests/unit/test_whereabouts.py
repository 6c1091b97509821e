"""Which frame of the main thread is the user's own."""

from __future__ import annotations

from lineless import without_lines

from jupyter_jax_trainer.worker.whereabouts import Lookout


def through(file, call, *, has_lines=True):
    """Call from code of a file that does not exist."""
    names = {}
    exec(compile("def generated(call):\n    return call()\n", file, "exec"), names)
    if not has_lines:
        without_lines(names["generated"])
    return names["generated"](call)


def test_generated_code_of_libraries_is_not_the_users():
    place = through("<string>", Lookout().tell)
    assert place["frame"].startswith("test_whereabouts.py:")


def test_a_cell_is_the_users_whatever_its_file_is_called():
    lookout = Lookout()
    lookout.start("<cell>", {"<ipython-input-3>": "Cell 3"})
    assert through("<ipython-input-3>", lookout.tell)["frame"] == "Cell 3:2 in generated"
    place = through("<cell>", lambda: through("<string>", lookout.tell))
    assert (place["cell_line"], place["doing"]) == (2, "<lambda>")


def test_code_without_a_line_is_named_without_one():
    lookout = Lookout()
    lookout.start("<cell>", {"<ipython-input-3>": "Cell 3"})
    place = through("<ipython-input-3>", lookout.tell, has_lines=False)
    assert place["frame"] == "Cell 3 in generated"
    assert through("<cell>", lookout.tell, has_lines=False)["cell_line"] is None


def test_what_is_compiled_is_told():
    assert Lookout(lambda: "step").tell()["compiles"] == "step"
    assert Lookout().tell()["compiles"] is None
