"""A worker that runs as in a pod: what it says, how it ends, and how its results come out."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import json
import os
import platform
import select
import shutil
import signal
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import podruns
import pytest
from harness import eventually
from podruns import PodRun, bundle, port_of, run, start, uid_of

from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.capture.files import Files
from jupyter_jax_trainer.jobdir.resultfile import ResultFile
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.exceptions import TRY_AGAIN
from jupyter_jax_trainer.worker.pod import packages
from jupyter_jax_trainer.worker.pod.drain import wait_for_reader
from jupyter_jax_trainer.worker.serialization.archive import Archive, write_archive


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Any]:
    """Start ranks that don't outlive the test."""
    started: list[PodRun] = []

    def begin(
        cell: str,
        *,
        nodes: int = 1,
        out: tuple[str, ...] = (),
        only: tuple[int, ...] = (),
        **more: Any,
    ) -> list[PodRun]:
        path, digest = bundle(tmp_path, cell, out=out)
        started.extend(
            start(tmp_path, path, digest, rank=rank, nodes=nodes, **more)
            for rank in only or range(nodes)
        )
        return started

    yield begin
    podruns.kill(*started)


def test_a_start_compiles_nothing_of_the_worker(tmp_path):
    """Each of a thousand pods would do so."""
    cell = """
import sys
files = {name: getattr(module, "__file__", "") or "" for name, module in sys.modules.items()}
print("compiled", [name for name, file in files.items() if ".pyz" in file and file[-3:] == ".py"])
"""
    assert "compiled []" in run(tmp_path, cell).text


def test_files_beside_the_notebook_are_where_the_cell_runs(tmp_path):
    (tmp_path / "x.csv").write_text("1,2")
    beside = Files({"data/x.csv": tmp_path / "x.csv"})
    cell = "import os\nprint(open('data/x.csv').read(), os.getcwd())\nopen('own', 'w').close()"
    done = start(tmp_path, *bundle(tmp_path, cell, beside=beside))
    assert done.end() == 0, done.text
    assert f"1,2 {tmp_path}/scratch-0/jaxtrain-files-" in done.text
    assert not (tmp_path / "own").exists()


COMPILES = """
import os
import jax, jax.numpy as jnp
for n in range(int(os.environ["PROGRAMS"])):
    assert jax.jit(lambda x: jnp.sin(x) * (n + 1))(0.0) == 0.0
"""


def test_what_it_compiles_is_kept_in_its_pod_in_bounds_for_when_it_is_started_again(tmp_path):
    folder = tmp_path / "scratch-0" / "compiled"
    folder.mkdir(0o700, parents=True)

    def of_before(name: str, size: int, used: int) -> None:
        file = folder / (name * 64)
        file.touch()
        os.truncate(file, size)  # with holes: it takes no room on the disk
        os.utime(file, (used, used))

    for used, name in enumerate("abc", 1):
        of_before(name, 85 << 20, used)
    path, digest = bundle(tmp_path, COMPILES)
    found = []
    for programs, left in ((1, "abc"), (2, "bcd")):
        again = {"JAXTRAIN_MAX_RESTARTS": "1", "PROGRAMS": str(programs)}
        done = start(tmp_path, path, digest, **again)
        assert done.end() == 0, done.text
        found.append(done.get("compiled"))
        names = sorted(file.name for file in folder.iterdir() if file.stat().st_size >= 1 << 20)
        assert names == [name * 64 for name in left]
        of_before("d", 1 << 20, 4)  # with this one there are more than 256 MiB
    assert found[0]["hits"] == 0 < found[0]["misses"] == found[1]["hits"]
    assert found[1]["misses"] > 0 and {one["problem"] for one in found} == {None}


# ---- what it says


CELL = """
import os, subprocess, sys
from jupyter_jax_trainer import report
print("50%", end="\\r")
display("in the middle of a line")
print("100%", end="")
report(1, 2, loss=0.5)
print(" done", file=sys.stderr)
subprocess.run(["env"])
os.write(1, b"native, ")
print("then Python")
"""


def test_what_it_prints_and_says(tmp_path):
    done = run(tmp_path, CELL)
    assert done.process.returncode == 0
    assert done.text.startswith("50%\r100% done\n")
    assert done.text.endswith("native, then Python\n")
    assert "JAXTRAIN_FRAME_KEY" not in done.text and "BUNDLE_0" not in done.text
    assert "JAXTRAIN_BOOT" not in done.text and "JAXTRAIN_JOB=podded" in done.text
    assert done.kinds() == [
        "hello",
        "arrived",
        "joined",
        "running",
        "display",
        "reports",
        "finished",
    ]
    hello = done.get("hello")
    assert (hello["python"], hello["again"]) == (platform.python_version(), False)
    assert hello["host"] == socket.gethostname()
    assert "log_offset" not in done.get("display")
    assert [m["frame"][1] for m in done.messages] == list(range(1, len(done.messages) + 1))


def test_proc_does_not_show_the_key_and_the_bundle(tmp_path):
    done = run(
        tmp_path,
        """
import os, subprocess
shown = subprocess.run(["cat", f"/proc/{os.getpid()}/environ"], capture_output=True).stdout
print(shown.replace(b"\\0", b"\\n").decode())
print("same" if dict(os.environ) == dict(line.split("=", 1) for line in
      subprocess.run(["env", "-0"], capture_output=True, text=True).stdout.split("\\0")[:-1])
      else "other")
""",
    )
    assert done.process.returncode == 0 and done.text.endswith("same\n")
    assert "JAXTRAIN_JOB=podded" in done.text and "JAXTRAIN_FRAME_KEY=" in done.text
    assert podruns.KEY not in done.text and podruns.KEY.encode() not in done.raw
    assert "yyyyyyyy" not in done.text and "xxxxxxxx" not in done.text


@pytest.mark.slow
def test_the_counts_of_lines_fit_their_places(tmp_path):
    done = run(
        tmp_path,
        """
import threading, sys
from jupyter_jax_trainer import report
def work(stream):
    for i in range(40_000):
        print(i, file=stream)
threads = [threading.Thread(target=work, args=(s,)) for s in (sys.stdout, sys.stderr)]
for t in threads: t.start()
for i in range(20):
    import time; time.sleep(0.06); report(i)
for t in threads: t.join()
print("last")
time.sleep(1.5)
""",
    )
    counts = [m for m in done.messages if m["kind"] == "lines"]
    assert all((m["count"], m["bytes"]) == (m["at"], m["at_byte"]) for m in counts)
    assert counts[-1]["count"] == 80_001 and len(counts) >= 2
    assert [m["kind"] for m in done.messages][-2:] == ["lines", "finished"]
    # Said before, and again at the end: what stands between may be rotated away.
    assert [m["count"] for m in counts].count(80_001) == 2
    assert len([m for m in done.messages if m["kind"] == "reports"]) <= 4


@pytest.mark.slow
def test_it_ends_when_its_node_has_taken_what_it_printed(tmp_path):
    """A busy node drops what it has not taken soon after the end."""
    ended = tmp_path / "ended"
    cell = f"print('last')\nfrom pathlib import Path\nPath({str(ended)!r}).touch()"
    begun = start(tmp_path, *bundle(tmp_path, cell))
    eventually(ended.exists)
    time.sleep(1)
    assert begun.process.poll() is None
    assert begun.read().text == "last\n" and begun.end() == 0


def test_what_is_behind_a_full_pipe_is_waited_for():
    """A busy node takes a pipe's content at once, and then has as much again in a second pipe."""
    with pipe_of(64 << 10) as (source, target):
        taken = threading.Event()

        def gulp() -> None:
            time.sleep(0.2)
            os.read(source, 64 << 10)
            time.sleep(0.2)
            taken.set()

        node = threading.Thread(target=gulp)
        node.start()
        wait_for_reader(target, 5)
        assert taken.is_set()
        node.join()


def test_a_slow_node_is_waited_for_while_it_reads():
    with pipe_of(8 << 10) as (source, target):

        def sip() -> None:
            for _ in range(8):
                time.sleep(0.2)
                os.read(source, 1 << 10)

        node = threading.Thread(target=sip)
        node.start()
        wait_for_reader(target, 1)
        assert not select.select([source], [], [], 0)[0]
        node.join()


@contextlib.contextmanager
def pipe_of(size: int) -> Iterator[tuple[int, int]]:
    """Give both ends of a pipe that holds some bytes."""
    ends = os.pipe()
    try:
        os.write(ends[1], bytes(size))
        yield ends
    finally:
        for end in ends:
            os.close(end)


def test_a_node_that_takes_nothing_does_not_keep_it(tmp_path):
    begun = start(tmp_path, *bundle(tmp_path, "print('last')"), JAXTRAIN_PIPE_TIMEOUT="0.1")
    assert begun.process.wait(30) == 0 and begun.read().text == "last\n"
    begun.end()


def test_what_a_cell_leads_elsewhere_is_not_counted(tmp_path):
    done = run(
        tmp_path,
        f"""
import os, sys
log, other = os.dup(1), os.open({str(tmp_path / "other")!r}, os.O_WRONLY | os.O_CREAT)
print("one", flush=True)
os.dup2(other, 1)
print("two" * 1000, flush=True)
os.dup2(log, 1)
print("three")
""",
    )
    assert done.text == "one\nthree\n"
    assert (tmp_path / "other").stat().st_size == 3001
    assert (done.get("lines")["count"], done.get("lines")["bytes"]) == (2, 10)


def test_what_is_too_large_for_a_message_is_told(tmp_path):
    done = run(
        tmp_path,
        """
from jupyter_jax_trainer import report
display({"text/plain": "x" * 9_000_000}, raw=True)
for i in range(300):
    report({"a" * 50_000: 1})
""",
    )
    assert done.get("display")["data"]["text/plain"] == say.DISPLAY_TOO_LARGE(megabytes=9)
    steps = [r["step"] for m in done.messages if m["kind"] == "reports" for r in m["reports"]]
    assert steps == list(range(300))


# ---- how it ends


@pytest.mark.slow
def test_a_container_that_is_started_again_does_not_run_the_cell(tmp_path):
    path, digest = bundle(tmp_path, "import sys; print('runs'); sys.exit(7)")

    def attempt(**more: str) -> PodRun:
        done = start(tmp_path, path, digest, **more)
        assert done.end() == 7
        return done

    first = attempt()
    assert "runs" in first.text and first.get("error")["type"] == "SystemExit"
    second = attempt()
    assert second.kinds() == ["hello"] and second.get("hello")["again"]
    assert say.ALREADY_RUN() in second.text and "runs\n" not in second.text
    assert "runs" in attempt(JAXTRAIN_MAX_RESTARTS="1").text
    assert "runs" in attempt(JAXTRAIN_JOB_UID="def456").text


def test_an_attempt_that_was_killed_counts_as_one(tmp_path):
    path, digest = bundle(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert start(tmp_path, path, digest).end() == 137
    second = start(tmp_path, path, digest)
    assert (second.end(), second.get("hello")["again"]) == (1, True)


@pytest.mark.slow
def test_sigterm_ends_it_even_in_native_code(ranks):
    # A mutex that is held is waited for whatever signals come, other than in sleep(3).
    (rank,) = ranks("""import ctypes, jax, threading; mutex = ctypes.create_string_buffer(64)
threading.Timer(1, print, ["sleeps"], {"flush": True}).start()
[ctypes.CDLL(None).pthread_mutex_lock(mutex) for _ in range(2)]""")
    rank.read(lambda r: "sleeps" in r.text)
    rank.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert rank.end() == 143
    assert time.monotonic() - began < 1
    assert rank.get("where")["cell_line"] == 4  # the magic is line 1
    assert say.TERMINATED() in rank.text and rank.messages[-1]["kind"] == "lines"


def test_a_rank_that_stands_still_says_in_which_function_of_the_user(ranks, tmp_path):
    (tmp_path / "slow.py").write_text("import time\n\n\ndef nap():\n    time.sleep(600)\n")
    cell = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n__import__('slow').nap()"
    (rank,) = ranks(cell, JAXTRAIN_WHERE_INTERVAL="0.2")
    rank.read(lambda r: r.has("where"))
    said = messages.read(rank.get("where"))
    assert isinstance(said, messages.Located)
    assert said.where["cell_line"] == 4 and said.where["frame"].endswith("slow.py:5 in nap")


def test_the_cells_own_handler_goes_first(ranks):
    (rank,) = ranks("""
import os, signal, sys, time
child = os.fork()
if not child:
    time.sleep(100)
os.kill(child, signal.SIGTERM)  # ends the child, and nothing else
assert os.waitpid(child, 0)[1] == signal.SIGTERM
signal.signal(signal.SIGTERM, lambda *_: sys.exit("mine"))
print("sleeps", flush=True)
while True:  # a signal that comes just before a sleep begins is handled after it
    time.sleep(0.1)
""")
    rank.read(lambda r: "sleeps" in r.text)
    rank.process.send_signal(signal.SIGTERM)
    assert rank.end() == 1
    assert "mine" in rank.get("error")["message"] and not rank.has("where")


@pytest.mark.slow
def test_jaxs_notice_of_preemption_still_works(ranks):
    (rank,) = ranks("""
import itertools, time
from jax.experimental import multihost_utils
for step in itertools.count():
    if multihost_utils.reached_preemption_sync_point(step):
        break
    if step == 0:
        print("trains", flush=True)
    time.sleep(0.01)
print("saved a checkpoint")
""")
    rank.read(lambda r: "trains" in r.text)
    rank.process.send_signal(signal.SIGTERM)
    assert rank.end() == 0
    assert rank.text.endswith("saved a checkpoint\n")


# ---- the other ranks


@pytest.mark.slow
def test_a_rank_that_only_lost_another_one_asks_for_another_attempt(ranks):
    both = ranks(
        """
import jax, os, signal
from jax.experimental import multihost_utils
multihost_utils.sync_global_devices("begin")
if jax.process_index():
    os.kill(os.getpid(), signal.SIGKILL)
multihost_utils.sync_global_devices("end")
""",
        nodes=2,
    )
    assert both[1].end() == 137
    assert both[0].end() == TRY_AGAIN
    assert both[0].get("error")["secondary"]


@pytest.mark.slow
def test_two_ranks_find_each_other_and_one_failure_is_told_once(ranks):
    both = ranks(
        "import jax\nprint(jax.process_count())\nif jax.process_index(): 1 / 0\n"
        "import time; time.sleep(100)",
        nodes=2,
        JAXTRAIN_RENDEZVOUS_TIMEOUT="60",
    )
    assert [rank.end() for rank in both] == [1, 1]
    assert both[1].get("error")["type"] == "ZeroDivisionError"
    assert both[0].get("stopped")["because"] == 1 and not both[0].has("error")
    assert all("2\n" in rank.text for rank in both)


@pytest.mark.slow
def test_rank_0_says_that_the_others_do_not_come(ranks):
    (rank,) = ranks("1", nodes=2, only=(0,), JAXTRAIN_RENDEZVOUS_TIMEOUT="2")
    began = time.monotonic()
    assert rank.end() == 1
    assert time.monotonic() - began < 15
    error = rank.get("error")
    assert (error["type"], error["secondary"]) == ("RendezvousTimeout", False)
    assert error["message"].startswith("Rank 0 waited 2 s at 127.0.0.1:")
    assert "2 ranks" in error["message"] and "logs" in error["hint"]


@pytest.mark.slow
def test_another_rank_says_for_whom_it_waits(ranks):
    (rank,) = ranks(
        "1",
        nodes=2,
        only=(1,),
        JAXTRAIN_RENDEZVOUS_TIMEOUT="1",
        JAX_COORDINATOR_ADDRESS="job-node-0-0.job.invalid:29500",
    )
    assert rank.end() == 1
    error = rank.get("error")
    assert error["type"] == "RendezvousTimeout"
    said, _, _ = say.NO_ANSWER(
        rank=1,
        timeout=1,
        address="job-node-0-0.job.invalid:29500",
        problem="…",
        variable="JAXTRAIN_RENDEZVOUS_TIMEOUT",
    ).partition("…")
    assert error["message"].startswith(said)


NAMES = """
import socket
real = socket.getaddrinfo
def getaddrinfo(host, *rest, **more):
    return real("127.0.0.1" if host == "job-node-0-0.job.invalid" else host, *rest, **more)
socket.getaddrinfo = getaddrinfo
"""


def test_ranks_find_each_other_while_grpc_knows_no_name(ranks, tmp_path):
    """It asks for a name every 30 seconds; that of a new pod may still mean the one before it."""
    (tmp_path / "sitecustomize.py").write_text(NAMES)
    both = ranks(
        "import jax\nprint(jax.process_count(), 'ranks')",
        nodes=2,
        PYTHONPATH=str(tmp_path),
        JAXTRAIN_RENDEZVOUS_TIMEOUT="20",
        JAX_COORDINATOR_ADDRESS=f"job-node-0-0.job.invalid:{port_of(tmp_path)}",
    )
    assert [rank.end() for rank in both] == [0, 0]
    assert all("2 ranks" in rank.text for rank in both)


def test_a_proxy_is_not_asked_for_the_coordinator_and_the_cell_has_its_own(ranks):
    proxies = {"http_proxy": "http://127.0.0.1:1", "no_grpc_proxy": "example.org"}
    both = ranks(
        "import os\nprint('no proxy for', os.environ['no_grpc_proxy'])",
        nodes=2,
        JAXTRAIN_RENDEZVOUS_TIMEOUT="20",
        **proxies,
    )
    assert [rank.end() for rank in both] == [0, 0]
    assert all("no proxy for example.org\n" in rank.text for rank in both)


@pytest.mark.slow
def test_ranks_that_were_waited_for_in_vain_are_worth_another_attempt(ranks):
    (rank,) = ranks(
        "1", nodes=2, only=(0,), JAXTRAIN_RENDEZVOUS_TIMEOUT="1", JAXTRAIN_MAX_RESTARTS="1"
    )
    assert rank.end() == TRY_AGAIN
    assert rank.get("error")["type"] == "RendezvousTimeout"


# ---- results


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def names_of(data: bytes, tmp_path: Path) -> list[str]:
    path = tmp_path / "fetched.jtz"
    path.write_bytes(data)
    file = ResultFile(path)
    file.check(range(len(file.manifest["buffers"])))
    return list(file.manifest["plain"])


def test_small_results_come_with_the_log(tmp_path):
    import base64

    done = run(
        tmp_path,
        "import numpy as np\nx = np.random.bytes(100_000)\nif not x: y = 1",
        out=("x", "y"),
    )
    parts = [m for m in done.messages if m["kind"] == "result_part"]
    data = b"".join(base64.b64decode(p["data"]) for p in parts)
    assert [p["index"] for p in parts] == list(range(parts[0]["count"]))
    assert (len(data), digest_of(data)) == (parts[0]["size"], parts[0]["sha256"])
    assert names_of(data, tmp_path) == ["x"]
    assert [entry["name"] for entry in done.get("results")["results"]] == ["x", "y"]
    assert done.kinds()[-2:] == ["results", "finished"]
    assert len(done.raw) < 1.5 * len(data) + 10_000


LARGE = "import os\nx = os.urandom(5_000_000)"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_large_results_go_into_the_store(tmp_path, scheme):
    store = tmp_path / "store"
    done = run(tmp_path, LARGE, out=("x",), JAXTRAIN_RESULT_STORE=f"{scheme}{store}/")
    stored = done.get("result_stored")
    data = (store / podruns.uid_of(tmp_path) / "result.jtz").read_bytes()
    assert stored["url"] == f"{scheme}{store}/{podruns.uid_of(tmp_path)}/result.jtz"
    assert (len(data), digest_of(data)) == (stored["size"], stored["sha256"])
    assert names_of(data, tmp_path) == ["x"] and not done.has("result_part")
    assert os.listdir(store / podruns.uid_of(tmp_path)) == ["result.jtz"]


def ask(held: dict[str, Any], wish: str, key: bytes = podruns.KEY.encode()) -> bytes:
    mac = hmac.digest(key, b"result " + held["sha256"].encode(), "sha256").hex()
    with socket.create_connection(("127.0.0.1", held["port"]), 10) as connection:
        connection.sendall(f"{mac} {wish}\n".encode())
        data = b""
        while piece := connection.recv(1 << 20):
            data += piece
    return data


def test_without_a_store_they_are_held_until_fetched(ranks, tmp_path):
    both = ranks(LARGE, nodes=2, out=("x",), JAXTRAIN_RESULT_STORE="s3-like://nowhere/x")
    reader = threading.Thread(target=both[1].end)
    reader.start()
    both[0].read(lambda r: r.has("results"))
    reader.join(30)
    assert both[1].process.returncode == 0 and both[1].has("finished")  # nobody waits for it
    said, _, _ = say.STORE_FAILED(url="s3-like://nowhere/x/…", error="").partition("…")
    assert said in both[0].text
    held = both[0].get("result_held")
    assert held["seconds"] == 600
    data = ask(held, "0")
    assert (len(data), digest_of(data)) == (held["size"], held["sha256"])
    assert names_of(data, tmp_path) == ["x"]
    assert ask(held, "4000000") == data[4_000_000:]
    for wish, key in (("0", b"other"), ("-1", b""), ("99999999999", podruns.KEY.encode())):
        assert ask(held, wish, key) == b""
    with socket.create_connection(("127.0.0.1", held["port"]), 10) as connection:
        connection.sendall(b"\xff\x00" * 300)  # not a client of ours
    assert not both[0].has("finished")
    ask(held, "done")
    assert both[0].end() == 0
    assert both[0].kinds()[-3:] == ["result_held", "results", "finished"]


def test_held_results_are_given_up_aloud(ranks):
    (rank,) = ranks(LARGE, out=("x",), JAXTRAIN_RESULT_HOLD="0.5")
    assert rank.end() == 0
    assert rank.get("result_lost")["seconds"] == 0.5
    assert rank.kinds()[-1] == "finished"


# ---- progress for Kubeflow


@pytest.mark.slow
def test_progress_goes_to_the_status_server(tmp_path):
    posted: list[tuple[str, dict[str, Any]]] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append((self.headers["Authorization"], json.loads(body)["trainerStatus"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    token = tmp_path / "token"
    token.write_text("secret\n")
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        done = run(
            tmp_path,
            """
import time
from jupyter_jax_trainer import report
for step in range(1, 4):
    report(step, 4, loss=0.1 * step, **{f"m{i}": i for i in range(300)}, bad=float("nan"))
    time.sleep(0.2)
report({"n" * 100: 7}, step=4)
""",
            KUBEFLOW_TRAINER_SERVER_URL=f"http://127.0.0.1:{server.server_port}/status",
            KUBEFLOW_TRAINER_SERVER_TOKEN=str(token),
            http_proxy="http://127.0.0.1:1",
        )
        server.shutdown()
        thread.join()
    assert done.process.returncode == 0 and "status server" not in done.text
    assert len(posted) == 2 and {authorization for authorization, _ in posted} == {"Bearer secret"}
    (_, first), (_, last) = posted
    assert (first["progressPercentage"], last["progressPercentage"]) == (25, 100)
    assert last["estimatedRemainingSeconds"] == 0
    metrics = {m["name"]: m["value"] for m in last["metrics"]}
    assert len(last["metrics"]) == 256 and metrics["loss"] == "0.3" and metrics["step"] == "4"
    assert all(1 <= len(text) <= 64 for pair in metrics.items() for text in pair)
    assert last["lastUpdatedTime"].endswith("Z")


def test_a_status_server_that_fails_is_no_error(tmp_path):
    done = run(
        tmp_path,
        "from jupyter_jax_trainer import report\nimport time\nreport(1)\n"
        "time.sleep(0.2)\nreport(2)",
        KUBEFLOW_TRAINER_SERVER_URL="https://127.0.0.1:1/",
        KUBEFLOW_TRAINER_SERVER_CA_CERT="/nonexistent",
    )
    assert done.process.returncode == 0
    said, _, _ = say.STATUS_SERVER(error="…").partition("…")
    assert done.text.count(said) == 1


# ---- directories and packages


ROOM = """
import os, tempfile
from jupyter_jax_trainer import checkpoint_dir
print(os.environ["HOME"], os.environ["XDG_CACHE_HOME"], tempfile.gettempdir(), checkpoint_dir())
checkpoint_dir()
"""


def test_it_finds_room_where_the_root_is_read_only(tmp_path):
    done = run(tmp_path, ROOM, HOME="/nonexistent", TMPDIR="/nonexistent/tmp")
    scratch = tmp_path / "scratch-0"
    note, found = done.text.splitlines()
    assert note == say.CHECKPOINTS_OF_POD(folder=f"{scratch}/checkpoints")
    assert found == f"{scratch}/home {scratch}/home/.cache {scratch} {scratch}/checkpoints"


def wheel(name: str = "aid-1.0-py3-none-any.whl") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("aid/__init__.py", "word = 'from a wheel'")
        file.writestr("aid-1.0.data/purelib/aid_more.py", "word = 'more'")
        file.writestr("aid-1.0.data/scripts/aid", "#!python")
        file.writestr(
            "aid-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: aid\nVersion: 1.0\n"
        )
        file.writestr(
            "aid-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr("aid-1.0.dist-info/RECORD", "")
    return data.getvalue()


def unpacked(data: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return [file.read(name) for name in file.namelist()]


def with_wheel(folder: Path, name: str, cell: str) -> tuple[Path, str]:
    path, _ = bundle(folder, cell)
    with zipfile.ZipFile(path) as old:
        members = {n: old.read(n) for n in old.namelist() if n != "manifest.json"}
        manifest = json.loads(old.read("manifest.json"))
    for own in ("format", "members", "buffers"):
        del manifest[own]
    return path, write_archive(path, members, [], manifest, packages={name: wheel()})


USE = """
from importlib import import_module
from importlib.metadata import version
print(import_module('aid').word, version('aid'))
"""


def test_wheels_travel_in_the_bundle(tmp_path):
    path, digest = with_wheel(
        tmp_path, "aid-1.0-py3-none-any.whl", USE + "import_module('aid_more')"
    )
    done = start(tmp_path, path, digest)
    assert (done.end(), done.text) == (0, "from a wheel 1.0\n")


@pytest.mark.parametrize(
    ("more", "place"), [({}, "/dev/shm/"), ({"JAXTRAIN_DEVICE": "gpu"}, "{scratch}/")]
)
def test_modules_are_unpacked_in_memory_that_no_library_of_the_device_needs(tmp_path, more, place):
    path, digest = with_wheel(
        tmp_path, "aid-1.0-py3-none-any.whl", "import aid\nprint(aid.__file__)"
    )
    done = start(tmp_path, path, digest, **more)
    ended = done.end()
    shutil.rmtree(f"/dev/shm/.jaxtrain-packages-{uid_of(tmp_path)}-0", ignore_errors=True)
    assert ended == 0 and done.text.startswith(place.format(scratch=tmp_path / "scratch-0"))


def test_modules_that_would_take_much_of_the_memory_are_unpacked_on_disk(tmp_path, monkeypatch):
    path, digest = with_wheel(tmp_path, "aid-1.0-py3-none-any.whl", "1")
    left = sum(-(-len(part) // 4096) * 4096 for part in unpacked(wheel())) * 2
    for free, there in ((left + len(wheel()) * 2, True), (left, False)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        monkeypatch.setattr(sys, "path", sys.path[:])
        packages.add(Archive(path, digest), tmp_path)
        assert sys.path[1].startswith("/dev/shm/") == there
        shutil.rmtree(sys.path[1])


def test_a_wheel_for_another_python_is_refused(tmp_path):
    path, digest = with_wheel(tmp_path, "aid-1.0-cp27-cp27m-win32.whl", USE)
    done = start(tmp_path, path, digest)
    assert done.end() == 1
    assert done.get("error")["type"] == "PackageError"
    wheel = "aid-1.0-cp27-cp27m-win32.whl"
    said, _, _ = say.WRONG_WHEEL(wheel=wheel, version="…", machine="").partition("…")
    assert done.get("error")["message"].startswith(said)


@pytest.mark.slow
def test_pip_installs_what_the_image_lacks(tmp_path):
    file = tmp_path / "aid-1.0-py3-none-any.whl"
    file.write_bytes(wheel())
    done = run(
        tmp_path, USE, JAXTRAIN_PIP=json.dumps([str(file), "jax", "numpy"]), PIP_NO_INDEX="1"
    )
    assert done.process.returncode == 0, done.text
    assert done.text.endswith("from a wheel 1.0\n")
    (folder,) = (tmp_path / "scratch-0").glob("packages-*")
    assert not (folder / "jax").exists()


def test_pip_that_fails_is_told(tmp_path):
    done = run(tmp_path, "1", JAXTRAIN_PIP='["jaxtrain-no-such-package"]', PIP_NO_INDEX="1")
    assert done.process.returncode == 1
    error = done.get("error")
    assert (error["type"], error["hint"]) == ("PackageError", say.PIP_FAILED.hint)
    assert "No matching distribution found for jaxtrain-no-such-package" in error["message"]
