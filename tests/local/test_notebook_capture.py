"""What a real kernel's cells send: only what they need."""

import kernels
import pytest
from conftest import end_processes_of

from jupyter_jax_trainer.messages import cell as say_of_cell
from jupyter_jax_trainer.messages import worker as say

pytestmark = pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of this package


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def kernel(work, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with kernels.running(home, work) as kernel:
        kernel.run("import jax, jax.numpy as jnp, numpy as np")
        yield kernel
    assert end_processes_of(home) == {}


@pytest.mark.slow
def test_only_what_a_cell_needs_is_sent(kernel):
    kernel.run("import threading\nlock = threading.Lock()\ndef unrelated():\n    with lock: pass")
    kernel.run("big = np.ones(100_000_000 // 8)\ndef other():\n    return big.sum()")
    cell = kernel.run("%%jaxtrain modules -n 2\nprint(jax.process_index(), np.pi, jnp.pi)")
    assert "Succeeded" in cell.card["text/plain"]
    shown = kernel.run("%jaxtrain show modules").text
    assert "lock" not in shown and "big" not in shown and "via" not in shown, shown
    kernel.run("from jupyter_jax_trainer import train")
    kernel.run("print(train(lambda: jax.process_index(), nodes=1).result())")
    refused = kernel.run("%%jaxtrain\nunrelated()", fails=True)
    assert "unrelated -> global lock: a thread lock" in refused.text


def test_cached_and_dispatched_functions(kernel):
    kernel.run(
        "import functools\n@functools.cache\ndef fib(n):\n"
        "    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "@functools.singledispatch\ndef show(x):\n    return 'any'\n"
        "@show.register\ndef _(x: int):\n    return 'int'"
    )
    cell = kernel.run("%%jaxtrain -n 1\nprint(fib(50), show(1), show('a'))")
    assert "12586269025 int any" in cell.text


def test_data_files_and_changes_of_own_packages(kernel, work):
    package = work / "minedata"
    package.mkdir()
    (package / "__init__.py").write_text("LR = 1\n")
    (package / "data.txt").write_text("from a file")
    kernel.run("import os, minedata\nminedata.LR = 99")
    cell = kernel.run(
        "%%jaxtrain data -n 2\nimport importlib.resources\n"
        "with open(os.path.join(os.path.dirname(minedata.__file__), 'data.txt')) as file:\n"
        "    print(file.read(), importlib.resources.read_text('minedata', 'data.txt'))\n"
    )
    assert "from a file from a file" in cell.text


def test_what_a_job_could_not_find_by_name_is_refused_before_it_starts(kernel):
    kernel.run(
        "class Missing:\n    def __reduce__(self): return 'MISSING'\nMISSING = Missing()\n"
        "def f(x=MISSING):\n    return x"
    )
    refused = kernel.run("%%jaxtrain\nf()", fails=True)
    what = say.BY_NAME(type="Missing", name="MISSING")
    assert (
        say_of_cell.CANNOT_SEND_PART(name="f", part="f -> default of x", what=what) in refused.text
    )
    assert say.BY_NAME.hint in refused.text


def test_classes_of_the_notebook_and_of_what_it_has_imported_come_back(kernel):
    kernel.run("import flax\n@flax.struct.dataclass\nclass State:\n    step: int\n    w: jax.Array")
    cell = (
        "%%jaxtrain back -o state,opt_state\nimport optax\nstate = State(3, jnp.ones(4))\n"
        "opt_state = optax.adam(1e-3).init(state.w)"
    )
    said = kernel.run(cell).text
    assert "optax._src.transform.ScaleByAdamState" in said and "import optax" in said
    kernel.run(
        "assert type(state) is State and state.w.sum() == 4 and state.replace(step=4).step == 4"
    )
    kernel.run(
        "import sys\nassert 'optax' not in sys.modules and set(opt_state[0]) >= {'count', 'mu'}"
    )
    shown = [line.split() for line in kernel.run("%jaxtrain show back").text.splitlines()]
    assert {
        (line[0], line[-1]) for line in shown if line and line[0] in ("state", "opt_state")
    } == {("state", "plain"), ("opt_state", "plain")}
    kernel.run("import optax")
    assert "optax" not in kernel.run("%jaxtrain result back opt_state").text.partition("RESULT")[0]
    kernel.run("assert isinstance(opt_state[0], optax.ScaleByAdamState)")
