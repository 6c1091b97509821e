"""Tab and ? in a real kernel."""

import kernels
import pytest
from conftest import end_processes_of

from jupyter_jax_trainer.commands.helptext import help_text

pytestmark = pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of this package


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with kernels.running(home, tmp_path_factory.mktemp("work")) as kernel:
        kernel.run("params, params_best, _hidden = 1, 2, 3")
        kernel.run("%%jaxtrain digits\n1;")
        kernel.run("%%jaxtrain digital\n1;")
        yield kernel
    assert end_processes_of(home) == {}


def complete(kernel, code, cursor=None):
    """The line as it would be with each of the matches."""
    cursor = len(code) if cursor is None else cursor
    reply = kernel.ask("complete", code, cursor)
    assert reply["cursor_end"] == cursor
    return [code[: reply["cursor_start"]] + match for match in reply["matches"]]


@pytest.mark.parametrize(
    ("code", "completed"),
    [
        (
            "%%jaxtrain -n 2 --de",
            {
                "%%jaxtrain -n 2 --detach",
                "%%jaxtrain -n 2 --device",
                "%%jaxtrain -n 2 --devices-per-node",
            },
        ),
        (
            "%%jaxtrain --device ",
            {"%%jaxtrain --device cpu", "%%jaxtrain --device gpu", "%%jaxtrain --device tpu"},
        ),
        ("%%jaxtrain --device=g", {"%%jaxtrain --device=gpu"}),
        ("%%jaxtrain -r local-c", {"%%jaxtrain -r local-cpu"}),
        (
            "%%jaxtrain -n 2 --out par",
            {"%%jaxtrain -n 2 --out params", "%%jaxtrain -n 2 --out params_best"},
        ),
        ("%%jaxtrain --out params,params_", {"%%jaxtrain --out params,params_best"}),
        ("%jaxtrain lo", {"%jaxtrain logs"}),
        ("%jaxtrain logs ", {"%jaxtrain logs digits", "%jaxtrain logs digital"}),
        ("%jaxtrain attach digit", {"%jaxtrain attach digits", "%jaxtrain attach digital"}),
        ("%jaxtrain logs digits --f", {"%jaxtrain logs digits --follow"}),
        ("%jaxtrain use --no", {"%jaxtrain use --nodes", "%jaxtrain use --no-allow-large"}),
    ],
)
def test_completions(kernel, code, completed):
    found = complete(kernel, code)
    if code.endswith("--no"):
        assert completed & set(found)
    else:
        assert set(found) == completed


def test_completion_in_the_first_line_of_a_cell(kernel):
    code = "%%jaxtrain -n 2 --deta\nx = params\n"
    assert complete(kernel, code, code.index("\n")) == ["%%jaxtrain -n 2 --detach"]


@pytest.mark.slow
def test_names_below_the_first_line_are_completed_as_ever(kernel):
    assert "%%jaxtrain\nparams_best" in complete(kernel, "%%jaxtrain\nparams_b")


def test_magic_itself(kernel):
    assert complete(kernel, "%%jaxtr") == ["%%jaxtrain"]
    assert complete(kernel, "%jaxtr") == ["%jaxtrain", "%%jaxtrain"]


@pytest.mark.parametrize("code", ["%jaxtrain", "%%jaxtrain"])
def test_question_mark_shows_the_help(kernel, code):
    reply = kernel.ask("inspect", code, len(code))
    assert reply["found"]
    text = reply["data"]["text/plain"]
    assert help_text().partition(":")[0] in text
    assert "-n, --nodes N" in text and "attach [NAME]" in text
    page = kernel.run(f"{code}?").reply["payload"][0]["data"]["text/plain"]
    assert "-n, --nodes N" in page


def test_help_options(kernel):
    assert "-n, --nodes N" in kernel.run("%%jaxtrain --help\n1").text
    assert "--follow" in kernel.run("%jaxtrain logs --help").text
