"""Sessions in pods: cells that run on ranks which stay, on the real cluster.

The tests share a session, and come in this order: each has to work whatever those before have left.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from harness import eventually, run_in_kernel, text, wait_for_text
from policy import skip_or_fail

from cluster import made_runtimes
from cluster.conftest import STRICT
from cluster.faults import LONG_S, given_up_soon, lost_node, process_of, require_own, stopped
from cluster.jobs import CAUSES, SLIM, followers, stop_followers
from cluster.kubernetes_cluster import Namespace
from jupyter_jax_trainer import api, commands, magic
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.follow.attach import attach
from jupyter_jax_trainer.errors import BackendError, JobFailed, JobNotFound, UsageError
from jupyter_jax_trainer.jobdir import session as records
from jupyter_jax_trainer.jobdir.failure import CANCELLED
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import commands as say_of_commands
from jupyter_jax_trainer.messages import jobs as say_of_jobs
from jupyter_jax_trainer.messages import session as say
from jupyter_jax_trainer.sessions import session
from jupyter_jax_trainer.trust import signing
from jupyter_jax_trainer.worker.processes import descendants

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PIDS = "import os\nprint('pid', os.getpid(), os.uname()[1])"


class Notebook:
    """A kernel as far as sessions look at it."""

    def __init__(self, place, store):
        self.user_ns = {"__name__": "__main__", "In": [""]}
        self.place, self.store = place, store
        self.runtime = SLIM

    def transform_cell(self, source):
        return source

    def cell(self, source, more="", line="-s lab -n 2"):
        """Run a cell of the session as the magic does, and give its job."""
        self.user_ns["In"].append(f"get_ipython().run_cell_magic('jaxtrain', '', {source!r})")
        magic.run_cell(f"{line} {self.runtime} {self.place} {more}", source, self)
        return api.jobs()[0]

    def kernel(self, source):
        run_in_kernel(source, self.user_ns)

    def fails(self, source):
        with pytest.raises(JobFailed):
            self.cell(source)
        return api.jobs()[0]

    def detached(self, source):
        return self.cell(source, "--detach")

    def __getitem__(self, name):
        return self.user_ns[name]


@pytest.fixture(scope="module")
def namespace(cluster):
    """Give the tests of this module a namespace that they share."""
    name = f"jaxtrain-test-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "labels": STRICT}
    cluster(
        "create", "-f", "-", stdin={"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    )
    yield Namespace(cluster, name)
    cluster("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module", autouse=True)
def _follower_ends(_module_store):
    yield
    connection._clients.clear()
    stop_followers(_module_store)


@pytest.fixture(scope="module")
def shared(cluster, namespace, tmp_path_factory):
    """Give the tests a folder that is on this machine and a volume of the namespace."""
    if not made_runtimes.reachable(cluster):
        skip_or_fail("own cluster", "this machine and the nodes have no folder in common")
    found = made_runtimes.Shared(namespace, tmp_path_factory.mktemp("volume"))
    yield found
    found.remove()


@pytest.fixture
def book(cluster, namespace, store, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    monkeypatch.setattr(api, "_ledgers", {})  # another kernel
    return Notebook(f"--backend kubernetes --namespace {namespace.name}", store)


def of_session(name="lab"):
    return api.job(name)


def known(name="lab"):
    return records.read(JobDir(of_session(name).directory))


def words(job, rank=None):
    return sorted(line.text for line in job.logs(rank))


def kill_follower(store):
    (pid,) = followers(store)
    os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def at_rest(*pids):
    """Stop processes for a while."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def large_cells(pid):
    """Return what a pod has received of large cells, by its process 1."""
    found = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if "/cell-" in (name := os.readlink(file)) and file.stat().st_size > 20_000_000:
                found.add(name.removesuffix(".part"))
    return found


def test_the_next_cell_runs_on_the_same_ranks_with_what_was_there(book):
    one = book.cell(f"{PIDS}\nimport jax, jax.numpy as jnp\nweights = jnp.arange(3.0)")
    two = book.cell(f"{PIDS}\nloss = 2 * weights.sum()", "-o loss")
    assert words(one) == words(two) and len(words(one)) == 2
    assert book["loss"] == 6.0
    assert known()["variables"]["weights"]["type"] == "float32[3]"
    assert of_session().state == "Running" and two.manifest["cell_of"]["session"] == "lab"


def test_each_cell_has_the_log_the_reports_the_display_and_the_failure_that_are_its_own(book):
    one = book.cell(
        "from jupyter_jax_trainer import report\nreport(loss=1)\nprint('one', end='')\nx = 5\n'shown'"
    )
    two = book.fails("print('two')\nreport(loss=2)\n1 / 0")
    late = book.fails("import no_such_package")
    assert "--package" in late.failure.hint
    sent = book.cell("import iniconfig\nprint(iniconfig.__name__)")  # the image lacks it
    assert words(sent) == ["iniconfig"] * 2 and known()["packages"].keys() == {"iniconfig"}
    again = book.cell("import iniconfig")
    assert [one["name"] for job in (sent, again) for one in job.manifest["sent"]] == ["iniconfig"]
    three = book.cell("print(x)")
    assert words(one, 0) == ["one"] and words(three) == ["5", "5"]
    assert [m["values"]["loss"] for m in one.metrics()] == [1, 1]
    assert [(m["step"], m["values"]["loss"]) for m in two.metrics()] == [(0, 2), (0, 2)]
    assert two.failure.error["type"] == "ZeroDivisionError" and two.failure.error["cell_line"] == 4
    assert words(two, 1)[-1] == "two"
    shown = text(of_session(), 0)
    assert shown.count("[jaxtrain: cell") >= 3 and "two" in shown


@pytest.mark.release
def test_a_cell_is_profiled_and_asked_for_a_profile_while_it_runs(book):
    busy = (
        "import time\nimport jax, jax.numpy as jnp\nuntil = time.time() + SECONDS\n"
        "while time.time() < until: jax.jit(jnp.sin)(jnp.ones(9)).block_until_ready()"
    )
    whole = book.cell(busy.replace("SECONDS", "0.5"), "--profile")
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(lambda: eventually(lambda: _profile_of("lab")))
        asked = book.cell(busy.replace("SECONDS", "8"))
        assert running.result().job == asked.name
    for job, name in ((whole, "cell"), (asked, "1")):
        (profile,) = job.profiles
        assert profile.name == name and [one["problem"] for one in profile.ranks] == [None, None]
        found = profile.summary()["ranks"]  # a rank may have run nothing in so short a time
        assert any(one["operations"] for one in found)
        assert {one["platform"] for one in found} == {"cpu"}
    with pytest.raises(UsageError, match="no cell runs"):
        of_session().profile(1)


def _profile_of(session):
    with contextlib.suppress(UsageError, BackendError, JobNotFound):  # there is no cell yet
        return of_session(session).profile(0.5)


def test_run_all_twice_gives_equal_numbers(book):
    def run_all():
        book.kernel("import numpy as np\nw = np.ones(3)\nlr, step = 0.5, 0\nhistory = []")
        for _ in range(2):
            book.cell("w = w - lr * w\nstep = step + 1\nhistory.append(step)\n")
        book.cell("loss = float(w.sum())", "-o loss -o step -o history")
        return book["loss"], book["step"], book["history"]

    assert run_all() == run_all() == (0.75, 2, [1, 2])


def test_a_session_of_that_name_elsewhere_is_said(book, monkeypatch):
    monkeypatch.setenv("JAXTRAIN_WARM", "0")
    before = len(api.jobs())
    magic.run_cell("-s elsewhere -n 1", "here = 1", book)  # on this machine
    with pytest.raises(UsageError) as refused:
        book.cell("print(here)", line="-s elsewhere -n 1")
    of_session("elsewhere").cancel()
    assert refused.value.id == "backends.session-has-options"
    assert "elsewhere" in refused.value.message and "--backend" in refused.value.message
    assert len(api.jobs()) == before + 2, "the session and its cell"


def test_large_variables_travel_both_ways(book):
    book.user_ns["big"] = np.random.default_rng(0).random(700_000)  # more than a log takes
    book.cell("twice = big * 2", "-o twice")
    assert (book["twice"] == 2 * book["big"]).all()
    book.cell("import jax\nthrice = big * 3 + jax.process_index()", "--rank 1 -o thrice")
    assert (book["thrice"] == 3 * book["big"] + 1).all()


def test_a_rank_that_fails_alone_is_found_and_what_is_lost_is_named(book):
    before = words(book.cell(f"{PIDS}\nimport jax\nmodel = 1"))
    failed = book.fails("if jax.process_index() == 1:\n    raise ValueError('alone')")
    assert failed.failure.error["type"] == "ValueError" and failed.failure.rank == 1
    assert "model" in failed.failure.hint
    with pytest.raises(UsageError) as refused:
        book.cell("print(model)")
    assert refused.value.id == "cell.lost-in-session"
    after = words(book.cell(PIDS))
    assert set(before).isdisjoint(after)
    assert {line.split()[2] for line in before} == {line.split()[2] for line in after}  # the pods


def test_a_rank_that_dies_is_started_anew_with_the_others(book):
    book.cell("import os, jax\nbig = 1")
    failed = book.fails(
        "print('last words')\nif jax.process_index() == 1: os._exit(3)\nwhile True: pass"
    )
    assert failed.failure.kind == "exit" and "big" in failed.failure.hint
    assert words(failed, 1) == ["last words"]
    assert book.cell("print('fine')").state == "Succeeded"


def test_a_rank_that_fills_its_memory_is_killed_and_all_are_started_anew_in_the_same_pods(book):
    line = "-s fills -n 2"
    before = words(book.cell(f"{PIDS}\nkept = 7", "--memory 400Mi", line))
    job = book.cell(
        "import jax, time\nif jax.process_index() == 1:\n"
        "    held = [b'x' * (1 << 20) for _ in range(4096)]\ntime.sleep(300)",
        "--detach",
        line,
    )
    eventually(lambda: not job.active)
    failure = job.failure
    assert (job.state, failure.kind, failure.rank, failure.others) == ("Failed", "memory", 1, [0])
    assert job.reason == "rank 1 was killed: out of memory at its limit of 400Mi"
    cause = CAUSES["out-of-memory"]
    assert failure.hint.startswith(cause.hint) and failure.hint.endswith("its variables: kept.")
    minute = say_of_jobs.LAST_MINUTE(rank=1, seconds="SECONDS", course="", limit="")
    assert failure.usage and failure.usage[0].startswith(minute.partition("SECONDS")[0])
    assert "of 400 MiB" in failure.usage[0]
    after = words(book.cell(PIDS, line=line))
    assert set(before).isdisjoint(after)
    assert {line.split()[2] for line in before} == {line.split()[2] for line in after}  # the pods
    of_session("fills").cancel()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_while_a_large_cell_is_sent_is_started_anew_with_the_others(
    book, cluster, rank
):
    require_own(cluster)
    book.kernel(
        f"import numpy as np\nlarge = np.random.default_rng({rank}).random(5_000_000)"
    )  # 40 MB
    before = words(book.cell(f"{PIDS}\nkept = 7"))
    pods = [process_of(of_session(), each) for each in (0, 1)]
    (killed,) = descendants(pods[rank])
    earlier = large_cells(pods[0])
    with at_rest(pods[1]):  # so that it is on its way, for as long as it takes
        job = book.detached("print('runs', int(large.sum()), flush=True)")
        behind = book.detached("print('behind')")
        eventually(lambda: large_cells(pods[0]) - earlier)
        os.kill(killed, signal.SIGKILL)
    eventually(lambda: not job.active and not behind.active)
    assert (job.state, behind.state, behind.started) == ("Failed", "Cancelled", None)
    assert (job.failure.kind, job.failure.rank) == ("killed", rank)
    assert "kept" in job.failure.hint and "lab" in behind.reason
    again = book.cell(f"{PIDS}\nprint('runs', int(large.sum()))")
    total = f"runs {int(book['large'].sum())}"
    after = words(again)
    assert after[2:] == [total] * 2 and set(before).isdisjoint(after)
    assert {line.split()[2] for line in before} == {line.split()[2] for line in after[:2]}
    assert text(job).count("runs") <= 1 and "behind" not in text(of_session())


@pytest.mark.parametrize(
    "size", [50_000_000, pytest.param(1_000_000_000, marks=pytest.mark.release)]
)
def test_a_large_array_is_sent_again_and_again_whoever_sends_it(book, cluster, size):
    require_own(cluster)
    book.kernel(f"import numpy as np\nlarge = np.ones({size}, np.uint8)\nlarge[::1000] = 3")
    total = int(book["large"].sum())
    look = (
        "import gc\ngc.disable()\ntotal = int(large.sum())\nwith open('/proc/self/maps') as maps:\n"
        "    old = sum('/cell-' in line for line in maps)\nprint(total, old)"
    )
    book.cell("pass")  # the session runs
    for times in range(1, 4):
        book.kernel("large[0] += 1")
        job = _sent_by_two_followers(book, look)
        assert words(job) == [f"{total + times} 1"] * 2, (job.state, job.reason)


def _sent_by_two_followers(book, source):
    """Run a cell that brings large variables; the follower is killed while it sends them."""
    pods = [process_of(of_session(), each) for each in (0, 1)]
    earlier = large_cells(pods[0])
    with at_rest(pods[1]):
        job = book.detached(source)
        eventually(lambda: large_cells(pods[0]) - earlier)
        kill_follower(book.store)
    eventually(lambda: not job.active)
    return job


def test_what_a_cell_leaves_behind_harms_no_other(book):
    first = book.cell(
        f"{PIDS}\nimport sys, jax\nkept = 1\nif os.fork() == 0:\n    kept = 2\n    1 / 0\n"
        "_, status = os.wait()\nprint('child', status)\nsys.stdout.close()"
    )
    closed = text(first)
    assert closed.count("ZeroDivisionError") == closed.count("child 256") == 2
    book.cell("del sys.modules['jax'], jax\nsys.stdout = None\nsys.stderr = object()")
    broken = book.fails("print('then', kept)\nsys.stdout.close()\nsys.stderr = None\n1 / 0")
    assert broken.failure.error["type"] == "ZeroDivisionError"
    assert [line for line in words(broken) if "then" in line] == ["then 1"] * 2
    after = book.cell(f"{PIDS}\nimport jax\nprint(jax.process_count(), jax.numpy.ones(2).sum())")
    ranks = [line for line in words(first) if line.startswith("pid")]
    assert words(after) == ["2 2.0", "2 2.0", *ranks]
    assert words(book.cell("print(kept)")) == ["1", "1"]


def test_pods_whose_processes_were_all_stopped_for_a_while_go_on(book, cluster):
    require_own(cluster)
    ranks = words(book.cell(f"{PIDS}\nimport time\nkept, runs = 7, 0"))
    lab = of_session()
    pods = [process_of(lab, rank) for rank in (0, 1)]
    everybody = [*pods, *descendants(*pods)]
    assert len(everybody) == 4
    restarts = lab.restarts
    with at_rest(*everybody):
        job = book.detached("runs += 1\nprint('begins', flush=True)\ntime.sleep(1)\nprint('ends')")
        time.sleep(6)  # longer than anybody waits for an answer
        assert job.active and "begins" not in text(job)
    wait_for_text(job, "begins")
    with at_rest(*everybody):
        time.sleep(1.5)
    assert job.wait().state == "Succeeded"
    assert words(job) == ["begins", "begins", "ends", "ends"]
    assert words(book.cell(f"{PIDS}\nprint(kept, runs)")) == ["7 1", "7 1", *ranks]
    assert lab.state == "Running" and lab.restarts == restarts


@pytest.mark.release
def test_pods_that_idle_for_longer_than_jax_waits_for_a_sign_of_life_stay_in_touch(book):
    """An idle hour, with time-outs of jax that are as much shorter."""
    line = "-s idles -n 2"
    total = (
        "from jax.experimental import multihost_utils as m\n"
        "print(int(m.process_allgather(np.ones(1)).sum()), kept)"
    )
    first = f"import numpy as np\nkept = 1\n{total}"
    book.cell(first, "--env JAXTRAIN_HEARTBEAT_TIMEOUT=4", line)
    time.sleep(10)
    assert words(book.cell(total, line=line)) == ["2 1", "2 1"]
    assert of_session("idles").restarts == 0
    of_session("idles").cancel()


def test_ranks_that_report_stop_at_one_step_and_others_at_once(book):
    book.cell(
        "import time, jax, jax.numpy as jnp\nfrom jax.experimental import multihost_utils as m\n"
        "from jupyter_jax_trainer import report\nkept = 7"
    )
    job = book.detached(
        "done = 0\nwhile True:\n    time.sleep(0.02 * jax.process_index())\n"
        "    m.process_allgather(jnp.ones(1))\n    done += 1\n    report(done)"
    )
    eventually(lambda: job.steps and job.steps > 3)
    job.cancel()
    eventually(lambda: not job.active)
    assert (job.state, job.reason) == ("Cancelled", CANCELLED)
    after = book.cell("print('done', done, kept)")
    assert len(set(words(after))) == 1
    job = book.detached("print('waits', flush=True)\nwhile True: time.sleep(0.01)")
    behind = book.detached("print(kept)")
    wait_for_text(job, "waits", times=2)
    assert job.name in behind.reason
    session("lab").interrupt()
    eventually(lambda: not behind.active)
    assert job.state == behind.state == "Cancelled" and behind.started is None
    book.cell("pass", "-o kept")
    assert book["kept"] == 7


def test_the_next_follower_goes_on_in_a_cell_and_between_cells(book):
    book.cell("import time, jax\ncount = 0")
    job = book.detached(
        "print('begins', flush=True)\ncount += 1\ntime.sleep(2)\nprint('ends', count)"
    )
    behind = book.detached("count += 1\nprint('behind', count)")
    wait_for_text(job, "begins")
    kill_follower(book.store)
    eventually(lambda: not behind.active)
    assert (job.state, behind.state) == ("Succeeded", "Succeeded")
    assert words(job, 0) == ["begins", "ends 1"] and words(behind) == ["behind 2"] * 2
    kill_follower(book.store)
    after = book.cell("print('after', count)", "-o count")
    assert words(after) == ["after 2"] * 2 and book["count"] == 2


def test_restart_and_what_the_commands_show(book, capsys):
    def command(line):
        commands.run_command(line.split(), commands.Context(print=print, width=200))
        return capsys.readouterr().out

    before = words(book.cell(f"{PIDS}\nimport jax.numpy as jnp\nweights = jnp.ones((4, 2))"))
    capsys.readouterr()
    assert "lab" in command("session") and "Running" in command("session lab")
    assert "float32[4,2]" in command("vars lab")
    command("restart lab")
    assert set(words(book.cell(PIDS))).isdisjoint(before)
    assert "weights" in known()["lost"] and "weights" not in known()["variables"]


def test_other_pods_are_an_empty_session_and_no_cell_runs_twice(book):
    book.cell("import time\nkept = 7")
    job = book.detached("print('waits', flush=True)\nwhile True: time.sleep(0.01)")
    behind = book.detached("print(kept)")
    wait_for_text(job, "waits")
    lab = of_session()
    lab.suspend()
    eventually(lambda: not job.active and not behind.active)
    assert (job.state, behind.state) == ("Failed", "Cancelled")
    assert behind.started is None and "lab" in behind.reason
    eventually(lambda: lab.state == "Suspended")
    after = book.detached("print('kept' in globals())")
    eventually(lambda: after.state == "Queued" and "stopped" in (after.reason or ""))
    assert "%jaxtrain resume lab" in after.hint
    with pytest.raises(UsageError, match="resume lab"):
        session("lab").restart()
    lab.resume()
    assert after.wait().state == "Succeeded"
    assert words(after) == ["False", "False"] and known()["variables"] == {}


WAITS = "import time\nprint('waits', flush=True)\nwhile True: time.sleep(0.01)"
WHY = "rank 1 was terminated: its pod was deleted"


def lose_a_pod(job, namespace):
    pod = str(job.ranks[1].pod)
    namespace("delete", "pod", pod, "--force", "--grace-period=0", "--wait=false")


class Interrupted:
    """A session that is to lose its pods in a cell, another behind it; saved is `w`, and not `name`.

    Parameters
    ----------
    book
        The notebook.
    name
        Of the session.
    shared
        The volume that it saves to.
    options
        Further ones of its first cell.
    """

    def __init__(self, book, name, shared, options):
        first = f"{options} --volume {shared.claim}:{shared.path} --env JAXTRAIN_NOTICE_TIMEOUT=3"
        self.book, self.name, self.line = book, name, f"-s {name} -n 2"
        book.cell("import jax.numpy as jnp\nw, name = jnp.arange(3.0), 'lost'", first, self.line)
        self.saved = session(name).save()
        self.job = book.cell(WAITS, "--detach", self.line)
        self.behind = book.cell("print(w)", "--detach", self.line)
        wait_for_text(self.job, "waits")
        self.session = session(name).job

    def fails(self, why):
        """Wait for the end of the cells: one has failed, and one has not begun."""
        job, behind = self.job, self.behind
        eventually(lambda: not job.active and not behind.active)
        assert job.state == "Failed" and re.fullmatch(why, job.reason)
        saved = say.COMES_BACK(names="w", time=self._clock)
        with pytest.raises(JobFailed) as failed:  # what ends the cell in the notebook
            job.result()
        assert f"{say.LOST(names='name and w')} {saved}" in str(failed.value)
        assert (behind.state, behind.started) == ("Cancelled", None)
        assert job.reason in behind.reason

    def goes_on(self):
        """Wait for the ranks that come in the place of those, with what was saved and no more."""
        book, line = self.book, self.line
        eventually(lambda: known(self.name).get("restored") or not self.session.active, LONG_S)
        assert known(self.name)["restored"] == self.saved and self.saved["names"] == ["w"]
        assert known(self.name)["lost"] == ["name"]
        after = book.cell("print(int(w.sum()), 'name' in globals())", line=line)
        assert words(after) == ["3 False"] * 2 and self.session.restarts == 1
        with pytest.raises(UsageError) as refused:
            book.cell("print(name)", line=line)
        assert refused.value.id == "cell.lost-in-session"
        told = " ".join(event["message"] for event in self.session.events())
        begins = say.BEGINS_AS_SAVED(names="w", time=self._clock)
        assert f"{begins} {say.DID_NOT_COME_BACK(names='name')}" in told
        for rank in (0, 1):
            assert text(self.job, rank).count("waits") == 1  # it did not run again
        self.session.cancel()

    @property
    def _clock(self):
        return time.strftime("%H:%M", time.localtime(self.saved["time"]))


def test_with_restarts_a_session_that_loses_a_pod_goes_on_with_what_was_saved(
    book, namespace, shared
):
    returns = Interrupted(book, "returns", shared, "--max-restarts 2")
    lose_a_pod(returns.session, namespace)
    returns.fails(re.escape(WHY))
    returns.goes_on()


@pytest.mark.disruptive
@pytest.mark.timeout(420)
def test_with_restarts_a_session_that_loses_its_node_goes_on_with_what_was_saved(
    book, namespace, shared, cluster, capsys
):
    """Its cells end while the node is away; one that is sent then runs on the next ranks."""
    require_own(cluster)
    runtime = made_runtimes.make(namespace, "spot", given_up_soon, like="jax-cpu-slim")
    book.runtime = f"-r {runtime}"
    remains = Interrupted(book, "remains", shared, "--max-restarts 1")
    with lost_node(cluster, namespace, remains.session):
        remains.fails("rank [01] was lost with its node node0")
        late = book.cell("print('w' in globals(), 'name' in globals())", "--detach", remains.line)
        eventually(lambda: remains.job.reason in (late.reason or ""))
        assert late.state == "Queued"
    eventually(lambda: not late.active)
    assert words(late) == ["True False"] * 2
    capsys.readouterr()
    commands.run_command(["session", "remains"], commands.Context(print=print, width=200))
    told = capsys.readouterr().out
    assert re.search(r"^Restored +w, as saved .+ ago$", told, re.MULTILINE)
    assert re.search(r"^Lost +name$", told, re.MULTILINE)
    remains.goes_on()


def test_what_a_lost_session_has_saved_comes_back_in_the_next_one_of_its_name(
    book, namespace, shared, capsys
):
    def command(line):
        commands.run_command(line.split(), commands.Context(print=print, width=200))
        return capsys.readouterr().out

    line = "-s saves -n 2"
    first = f"--volume {shared.claim}:{shared.path} --env JAXTRAIN_NOTICE_TIMEOUT=3"
    book.cell("import jax.numpy as jnp\nw, name = jnp.arange(3.0), 'lost'", first, line)
    capsys.readouterr()
    said = command("save saves")
    assert "Saved w" in said and say_of_commands.NOT_SAVED(names="name") in said
    job = book.cell(WAITS, "--detach", line)
    wait_for_text(job, "waits")
    lost = session("saves").job
    lose_a_pod(lost, namespace)
    eventually(lambda: not lost.active and not job.active, LONG_S)
    assert (lost.state, job.state, job.reason) == ("Failed", "Failed", WHY)
    assert "`%jaxtrain restore saves` in a new session of that name" in job.failure.hint
    book.cell("import jax", first, line)
    assert session("saves").job.uid != lost.uid
    capsys.readouterr()
    said = command("restore saves")
    assert "Restored w as of" in said and say_of_commands.NOT_RESTORED(names="name") in said
    assert words(book.cell("print(int(w.sum()))", line=line)) == ["3"] * 2
    session("saves").end()


def test_a_lost_pod_fails_the_session_and_its_cell_and_what_waits_is_handed_back(book, namespace):
    job = book.detached("import time\nprint('waits', flush=True)\nwhile True: time.sleep(0.01)")
    behind = book.detached("print(1)")
    wait_for_text(job, "waits")
    lab = of_session()
    namespace("delete", "pod", str(lab.ranks[1].pod), "--wait=false", "--grace-period=1")
    eventually(lambda: not lab.active and not behind.active)
    assert (lab.state, job.state, behind.state) == ("Failed", "Failed", "Cancelled")
    assert behind.started is None and "lab" in behind.reason


def test_a_pod_whose_rank_rests_for_longer_than_the_limit_waits_for_the_others(book):
    line = "-s uneven -n 2"
    short = "--idle 4 --env JAXTRAIN_UNREACHED_TIMEOUT=4"
    book.cell("import jax, time\nif jax.process_index() == 0: time.sleep(15)", short, line)
    assert words(book.cell("print('whole')", line=line)) == ["whole", "whole"]
    of_session("uneven").cancel()


# What Python in the pods takes for the time of day: off by as many seconds as a link names.
CLOCK = """
import os, time
def put_off(clock, unit):
    def read():
        try:
            return clock() + unit * int(os.readlink("/tmp/clock"))
        except OSError:
            return clock()
    return read
time.time, time.time_ns = put_off(time.time, 1), put_off(time.time_ns, 10**9)
"""


def _with_clock(pod):
    pod.setdefault("volumes", []).append({"name": "clock", "configMap": {"name": "clock"}})
    container = pod["containers"][0]
    container.setdefault("volumeMounts", []).append({"name": "clock", "mountPath": "/clock"})
    container.setdefault("env", []).append({"name": "PYTHONPATH", "value": "/clock"})


def test_clocks_of_pods_that_are_set_change_nothing(book, namespace):
    clock = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "clock"}}
    namespace("create", "-f", "-", stdin={**clock, "data": {"sitecustomize.py": CLOCK}})
    book.runtime = f"--runtime {made_runtimes.make(namespace, 'clock', _with_clock)}"
    line = "-s clock -n 2 --idle 8"
    book.cell("import os, time, jax\nkept, rank = 0, jax.process_index()", line=line)
    for hours in (5, -30):  # each pod's by another time, in a cell
        job = book.cell(
            "from jupyter_jax_trainer import report\nbefore = time.time()\n"
            "if os.path.lexists('/tmp/clock'):\n    os.remove('/tmp/clock')\n"
            f"os.symlink(str({hours} * 3600 * (rank + 1)), '/tmp/clock')\n"
            "print('set', rank, round((time.time() - before) / 3600))\n"
            "kept += 1\nreport(step=kept, loss=0.5)",
            "-o kept",
            line=line,
        )
        earlier = 5 if hours < 0 else 0
        steps = [(hours - earlier) * (rank + 1) for rank in (0, 1)]
        assert words(job) == [f"set {rank} {step}" for rank, step in enumerate(steps)]
        assert 0 <= job.ended - job.started < 60
        reports = [report["values"] for report in job.metrics()]
        assert reports == [{"loss": 0.5}] * len(reports) and reports
        began = time.monotonic()
        assert words(book.cell("print('then', kept)", line=line)) == [f"then {book['kept']}"] * 2
    assert book["kept"] == 2
    eventually(lambda: not of_session("clock").active)
    assert time.monotonic() - began > 5, "a clock ended it"
    assert of_session("clock").reason == "idle for 8.0 s"


def test_it_ends_by_itself_when_it_is_idle_though_nobody_looks(book, namespace):
    job = book.cell("print('here')", line="-s brief -n 2 --idle 4")
    kill_follower(book.store)
    namespace.until_condition("brief", "Complete", 60)
    assert job.state == "Succeeded"
    eventually(lambda: not of_session("brief").active)
    assert (of_session("brief").state, of_session("brief").reason) == (
        "Succeeded",
        "idle for 4.0 s",
    )


@pytest.mark.release
def test_another_store_that_takes_over_runs_cells_and_the_one_before_does_not(
    book, namespace, monkeypatch, tmp_path
):
    book.cell("import jax, jax.numpy as jnp\nw = jnp.arange(3.0)\nown = jax.process_index()")
    lab, home = of_session(), tmp_path / "elsewhere"

    def told_by_all() -> bool:
        variables = (known() or {"variables": {}})["variables"]
        return "w" in variables and "ranks" not in variables["w"]

    signing.export_keys(tmp_path / "key")
    home.mkdir(mode=0o700)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("JAXTRAIN_HOME", str(home))
        elsewhere.setattr(api, "_ledgers", {})
        signing.import_keys(tmp_path / "key")
        attached = Job(attach(lab.name, None, namespace.name))
        eventually(told_by_all)
        with pytest.raises(UsageError) as refused:
            book.cell("print(w)")
        assert "--take-over" in refused.value.message
        attached.take_over()
        eventually(lambda: not JobDir(attached.directory).take_over.exists())
        job = book.cell("print(float(w.sum()), own)", "-o w")
        assert words(job) == ["3.0 0", "3.0 1"] and list(book["w"]) == [0, 1, 2]
        assert words(book.cell("print('again', own)"), 1) == ["again 1"]
    failed = book.fails("print(w)")
    assert "--take-over" in failed.reason
    with pytest.raises(UsageError):
        book.cell("print(w)")
    stop_followers(home)
    lab.cancel()


@pytest.mark.release
def test_what_it_begins_with_may_come_through_a_store(book, shared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (shared.path / "store").mkdir()
    (shared.path / "store").chmod(0o777)
    data = np.random.default_rng(0).random(1_200_000)  # 9.6 MB: no Secret holds it
    np.save("numbers.npy", data)
    line = "-s stored -n 2"
    first = f"--volume {shared.claim}:{shared.path} --store {shared.path}/store"
    reads = "import numpy as np\ntotal = float(np.load('numbers.npy').sum())"
    book.cell(reads, f"-o total --files numbers.npy {first}", line)
    assert book["total"] == pytest.approx(data.sum())
    folder = shared.path / "store" / of_session("stored").uid
    assert "bundle.pyz" in {path.name for path in folder.iterdir()}
    book.user_ns["data"] = data  # by the channel, as in each later cell
    book.cell("back = data * 2", "-o back", line)
    np.testing.assert_array_equal(book["back"], data * 2)
    of_session("stored").cancel()
    of_session("stored").delete()
    assert not folder.exists()


@pytest.mark.release
@pytest.mark.disruptive
def test_its_cells_go_on_while_the_api_server_is_away(book, cluster):
    require_own(cluster)
    book.cell(f"{PIDS}\nkept, runs = 1, 0", line="-s away -n 2")
    counts = "import time\nfor n in range(50):\n    print('line', n)\n    time.sleep(0.2)\n"
    runs = book.cell(f"runs += 1\n{counts}kept += 1", "--detach", "-s away")
    wait_for_text(runs, "line 1")
    with stopped("kube-apiserver", cluster):
        eventually(lambda: of_session("away").reason)
        with pytest.raises(BackendError):
            book.cell("runs += 1", "--detach --idle 1h", "-s another -n 1")
        waits = book.cell("runs += 1\nprint('then', kept, runs)", "--detach", "-s away")
    assert (runs.wait(120).state, waits.wait(120).state) == ("Succeeded", "Succeeded")
    assert words(runs, 1) == sorted(f"line {number}" for number in range(50))
    assert words(waits) == ["then 2 2"] * 2
    assert of_session("away").state == "Running" and of_session("away").restarts == 0
    of_session("away").cancel()


def test_cancel_ends_the_session_and_its_cell(book, namespace):
    job = book.detached("import time\nprint('waits', flush=True)\ntime.sleep(600)")
    wait_for_text(job, "waits")
    with session("lab") as lab:
        ended = lab.job
    eventually(lambda: not job.active)
    assert (ended.state, job.state) == ("Cancelled", "Cancelled")
