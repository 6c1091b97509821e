"""Process 1 of a pod: how it ends, and what it answers on the channel, alone and with others."""

from __future__ import annotations

import errno
import os
import re
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import podruns
import pytest
from harness import alive, eventually
from podruns import PodRun, bundle, start
from policy import skip_or_fail
from relays import Loopback, Relays, knows_nothing, serving

from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Target, Unready, Unsupported
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.worker.pod import relay
from jupyter_jax_trainer.worker.pod.peer import Peer
from jupyter_jax_trainer.worker.pod.relay import Relay
from jupyter_jax_trainer.worker.pod.wire import MAGIC, Owner, Wire
from jupyter_jax_trainer.worker.processes import descendants

SLEEPS = "import time\n\n\ntime.sleep(600)\n"
MINE = Owner("ab" * 16, 1)


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Any]:
    """Start ranks as in pods of one job, which don't outlive the test."""
    started: list[PodRun] = []

    def begin(cell: str = SLEEPS, nodes: int = 1, **more: Any) -> list[PodRun]:
        path, digest = bundle(tmp_path, cell)
        more = {"JAXTRAIN_CHANNEL_PORT": "0", **more}
        started.extend(
            start(tmp_path, path, digest, rank=rank, nodes=nodes, **more) for rank in range(nodes)
        )
        for run in started:
            run.read(lambda run: run.has("running"))
            eventually(lambda run=run: is_asleep(run))
        return started

    yield begin
    podruns.kill(*started)


def rank_of(run: PodRun) -> int:
    """Return the process of the rank itself."""
    (child,) = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
    return int(child)


def is_asleep(run: PodRun) -> bool:
    """Return whether the cell has come to its last line."""
    wait = Path(f"/proc/{rank_of(run)}/wchan").read_text()
    return "nanosleep" in wait or "hrtimer" in wait


def target(runs: list[PodRun], key: str = podruns.KEY) -> Target:
    ports = [run.get("hello")["channel"] for run in runs]
    others = {rank: ("127.0.0.1", port) for rank, port in enumerate(ports) if rank}
    return Target(pod="pod-0", port=ports[0], key=key, addresses=others)


def test_all_ranks_are_asked_through_the_first(pods):
    runs = pods(nodes=3)
    cluster = Loopback()
    line = Line(cluster, MINE)
    found = sorted(line.where(target(runs)), key=lambda one: one["rank"])
    assert [one["rank"] for one in found] == [0, 1, 2]
    assert [one["where"]["cell_line"] for one in found] == [5, 5, 5]
    assert all(one["memory"] > 1 << 20 and one["process"] == "sleeping" for one in found)
    line.where(target(runs))
    asked = line.profile(target(runs), "1", 0.2)
    line.profile(target(runs), "1", 0.2)  # it is taken once
    assert {one["rank"] for one in asked if one["process"]} == {0, 1, 2}
    for run in runs:
        run.read(lambda run: run.has("profiled"))
        assert run.get("profiled")["name"] == "1" and run.get("profiled")["problem"] is None
        assert run.kinds().count("profiled") == 1
    assert cluster.opened == 1, "one connection for all questions"
    line.close()


def test_ranks_that_do_not_answer_are_told_apart(pods):
    """One is stopped, the pod of another one can't be reached."""
    runs = pods(nodes=3, JAXTRAIN_LAST_WORDS_TIMEOUT="0.5")
    stopped = rank_of(runs[1])
    os.kill(stopped, signal.SIGSTOP)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        found = target(runs)
        found.addresses[2] = nobody.getsockname()
        line = Line(Loopback(), MINE)
        by_rank = {one["rank"]: one for one in line.where(found)}
    assert by_rank[0]["where"]["cell_line"] == 5
    assert (by_rank[1]["where"], by_rank[1]["process"]) == (None, "stopped")
    assert (by_rank[2]["where"], by_rank[2]["process"]) == (None, None)
    os.kill(stopped, signal.SIGCONT)
    line.close()


def test_who_asks_at_once_is_answered_at_once(pods):
    runs = pods(nodes=2)
    answers: list[int] = []

    def ask() -> None:
        line = Line(Loopback(), MINE)
        answers.append(len(line.where(target(runs))))
        line.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [2] * 8


def test_a_line_that_was_cut_is_opened_again(pods):
    runs = pods()
    cluster = Loopback()
    line = Line(cluster, MINE)
    line.where(target(runs))
    line._connection._end.shutdown(socket.SHUT_RDWR)
    assert line.where(target(runs))[0]["where"]["cell_line"] == 5
    assert cluster.opened == 2
    line.close()


def test_a_line_is_kept_alive_and_closed_when_it_is_not_needed(pods, monkeypatch):
    runs = pods()
    line = Line(Loopback(), MINE)
    line.where(target(runs))
    monkeypatch.setenv("JAXTRAIN_KEEP_ALIVE_INTERVAL", "0.001")
    heard = line._connection.heard
    time.sleep(0.01)
    line.keep()
    assert line._connection.heard > heard
    monkeypatch.setenv("JAXTRAIN_CHANNEL_IDLE", "0.001")
    line.keep()
    assert line._connection is None


def test_a_sign_of_life_opens_no_other_line(pods, monkeypatch):
    runs = pods()
    cluster = Loopback()
    line = Line(cluster, MINE)
    line.where(target(runs))
    line._connection._end.shutdown(socket.SHUT_RDWR)
    monkeypatch.setenv("JAXTRAIN_KEEP_ALIVE_INTERVAL", "0.001")
    time.sleep(0.01)
    line.keep()
    assert line._connection is None and cluster.opened == 1
    assert line.where(target(runs)) and cluster.opened == 2
    line.close()


def test_another_key_gets_nothing(pods):
    runs = pods()
    line = Line(Loopback(), MINE)
    with pytest.raises(OSError):
        line.where(target(runs, key="f" * 64))


def connect(run: PodRun) -> socket.socket:
    end = socket.create_connection(("127.0.0.1", run.get("hello")["channel"]))
    end.settimeout(10)
    return end


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 5000])
def test_a_stranger_is_sent_a_nonce_and_cut_off(pods, data):
    (run,) = pods(JAXTRAIN_PROOF_TIMEOUT="0.3")
    with closing(connect(run)) as end:
        end.sendall(data)
        received = b""
        with suppress(ConnectionResetError):  # it did not read all of it
            while piece := end.recv(1000):
                received += piece
    assert len(received) == 48
    line = Line(Loopback(), MINE)
    assert line.where(target([run])), "others are answered meanwhile"
    line.close()


def test_strangers_do_not_keep_out_the_owner_for_long(pods):
    (run,) = pods(JAXTRAIN_PROOF_TIMEOUT="0.3")
    strangers = [connect(run) for _ in range(40)]
    line = Line(Loopback(), MINE)
    assert eventually(lambda: answered(line, target([run])))
    for one in strangers:
        one.close()
    line.close()


class Stranger(threading.Thread):
    """Holds as many connections as it can, and opens another one for each that is closed."""

    def __init__(self, port: int, host: str) -> None:
        super().__init__(daemon=True)
        self.opened, self._address, self._host = 0, ("127.0.0.1", port), host
        self._ends = threading.Event()

    def run(self) -> None:
        with selectors.DefaultSelector() as held:
            while not self._ends.is_set():
                while len(held.get_map()) < 40:
                    end = socket.create_connection(self._address, source_address=(self._host, 0))
                    held.register(end, selectors.EVENT_READ)
                    self.opened += 1
                for key, _ in held.select(0.01):
                    with suppress(OSError):
                        if key.fileobj.recv(100):
                            continue
                    held.unregister(key.fileobj)
                    key.fileobj.close()
            for key in [*held.get_map().values()]:
                key.fileobj.close()

    def close(self) -> None:
        self._ends.set()
        self.join()


@pytest.mark.parametrize("host", ["127.0.0.2", "127.0.0.1"])
def test_strangers_that_come_again_and_again_do_not_keep_out_the_owner(host):
    """From a pod of their own, or from where the owner's port-forward comes out, too."""
    with Relays(1) as relays:
        stranger = Stranger(relays.ports[0], host)
        stranger.start()
        eventually(lambda: stranger.opened > 200)
        for _ in range(5):
            line = Line(Loopback(), MINE)
            if host == "127.0.0.2":
                assert line.where(relays.target), "at once"
            assert eventually(lambda line=line: answered(line, relays.target), seconds=4)
            line.close()
        stranger.close()


def test_a_connection_that_another_one_has_closed_meanwhile_is_left_alone():
    """Both were ready when the loop looked."""
    selector = selectors.DefaultSelector()
    ended: list[Peer] = []
    pairs = [socket.socketpair() for _ in range(2)]
    peers = [
        Peer(ours, Wire(b"k" * 64, 0), selector, lambda *_: None, ended.append) for ours, _ in pairs
    ]
    for _, theirs in pairs:
        theirs.close()
    for key, _ in selector.select(1):
        key.data()
        for peer in peers:
            peer.close()
    assert len(ended) == 2
    selector.close()


def answered(line: Line, asked: Target) -> bool:
    try:
        return bool(line.where(asked))
    except OSError:
        return False


def test_a_later_owner_takes_over(pods):
    runs = pods()
    first, early = Line(Loopback(), MINE), Line(Loopback(), Owner("cd" * 16, 1))
    first.where(target(runs))
    with pytest.raises(OSError, match="taken over"):
        early.where(target(runs))
    later = Line(Loopback(), Owner("cd" * 16, 2))
    assert later.where(target(runs))
    with pytest.raises(OSError, match="taken over"):
        first.where(target(runs))
    later.close()


def test_what_an_older_worker_does_not_know_is_said_and_the_line_stays_open():
    cluster = Loopback()
    with Relays(1) as relays:
        line = Line(cluster, MINE)
        with pytest.raises(Unsupported, match="older version, which does not know 'fly'"):
            line._ask(relays.target, {"ask": "fly"})
        assert line.where(relays.target)[0]["where"]["cell_line"] == 0
        assert cluster.opened == 1
        line.close()


def test_a_worker_that_knows_no_question_is_asked_once():
    cluster = Loopback()
    with serving(knows_nothing) as port:
        line = Line(cluster, MINE)
        with pytest.raises(Unsupported):
            line.where(Target(pod="pod-0", port=port, key=podruns.KEY, addresses={}))
        line.close()
    assert cluster.opened == 1


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        (MAGIC.replace(b"3", b"9") + bytes(32), say.OTHER_VERSION()),
        (b"SSH-2.0-OpenSSH_9.7\r\n" + bytes(40), say.NOT_PROVEN()),
        (b"", say.CONNECTION_CLOSED()),
    ],
)
def test_what_is_no_worker_of_this_version_is_told_apart(greeting, words):
    with serving(lambda connection: connection.sendall(greeting)) as port:
        line = Line(Loopback(), MINE)
        with pytest.raises(OSError, match=re.escape(words)):
            line.where(Target(pod="pod-0", port=port, key=podruns.KEY, addresses={}))


def test_where_a_port_is_taken_another_one_does(tmp_path):
    path, digest = bundle(tmp_path, SLEEPS)
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        run = start(tmp_path, path, digest, rank=1, JAXTRAIN_CHANNEL_PORT=str(port))
        run.read(lambda run: run.has("hello"))
        other = run.get("hello")["channel"]
        assert other not in (None, port)
        with socket.create_connection(("127.0.0.1", other), 5) as end:
            assert end.recv(16).startswith(b"jaxtrain")
        podruns.kill(run)


# ---- many ranks, and addresses of both kinds


def by_rank(line: Line, asked: Target) -> dict[int, Any]:
    return {one["rank"]: one for one in line.where(asked)}


def test_64_ranks_are_asked_a_bounded_number_at_a_time(monkeypatch):
    """Connections to many pods at once would use up the files of process 1."""
    monkeypatch.setattr(relay, "_MOST_DIALLED", 8)
    dialled, most = Relay._dial, []

    def dial(self: Relay, call: Any, *args: Any) -> None:
        dialled(self, call, *args)
        most.append(len(call.dialled))

    monkeypatch.setattr(Relay, "_dial", dial)
    with Relays(64) as relays:
        line = Line(Loopback(), MINE)
        for _ in range(2):
            found = by_rank(line, relays.target)
            assert {rank: one["where"]["cell_line"] for rank, one in found.items()} == {
                rank: rank for rank in range(64)
            }
        line.close()
    assert max(most) == 8 and len(most) == 126


def test_pods_that_can_not_be_reached_do_not_take_the_turn_of_others(monkeypatch):
    """They take a connection, as a node does that drops packets, and say nothing."""
    monkeypatch.setattr(relay, "_MOST_DIALLED", 4)
    monkeypatch.setattr(relay, "_TURN", 0.1)
    with Relays(12) as relays, socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        asked = relays.target
        asked.addresses.update(dict.fromkeys(range(1, 9), silent.getsockname()))
        line = Line(Loopback(), MINE)
        found = by_rank(line, asked)
        line.close()
    assert [rank for rank in range(12) if found[rank]["where"] is None] == list(range(1, 9))


def test_without_more_files_the_other_ranks_are_answered_for(monkeypatch):
    with Relays(4) as relays:
        line = Line(Loopback(), MINE)
        line.where(relays.target)

        def full(*_: object) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(relay.socket, "socket", full)
        found = by_rank(line, relays.target)
        monkeypatch.undo()
        line.close()
    assert found[0]["where"]["cell_line"] == 0
    assert [found[rank]["process"] for rank in (1, 2, 3)] == [None] * 3


def test_ranks_are_reached_by_ipv6():
    """On clusters with IPv6 alone, or with both; the relay listens for both."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        skip_or_fail("ipv6", "there is no loopback address of IPv6")
    with Relays(3) as relays:
        asked = relays.target
        asked.addresses[1] = ("::1", relays.ports[1])
        line = Line(Loopback(), MINE)
        found = by_rank(line, asked)
        line.close()
    assert [found[rank]["where"]["cell_line"] for rank in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("address", ["", "localhost", "::zz", "fe80::1%nowhere", "256.1.1.1"])
def test_what_is_no_address_is_a_rank_that_can_not_be_reached(address):
    with Relays(2) as relays:
        asked = relays.target
        asked.addresses[1] = (address, relays.ports[1])
        line = Line(Loopback(), MINE)
        assert by_rank(line, asked)[1]["where"] is None
        line.close()


# ---- how it ends


@pytest.mark.parametrize(
    ("cell", "status"),
    [
        ("import os; os._exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os; os.abort()", 134),
    ],
)
def test_it_ends_as_the_rank_does(tmp_path, cell, status):
    done = podruns.run(tmp_path, cell)
    assert done.process.returncode == status
    killed = [m for m in done.messages if m["kind"] == "killed"]
    assert [(m["signal"], m["out_of_memory"]) for m in killed] == (
        [(status - 128, False)] if status > 128 else []
    )


@pytest.mark.slow
def test_a_rank_ends_with_its_parent(pods):
    (run,) = pods()
    rank = rank_of(run)
    run.process.kill()
    eventually(lambda: not Path(f"/proc/{rank}").exists())


def test_the_death_of_a_child_of_the_cell_is_not_the_ranks(tmp_path):
    """Orphans fall to process 1, which takes note of their end and goes on."""
    done = podruns.run(
        tmp_path,
        "import os, time\n"
        "if os.fork() == 0:\n    os.fork()\n    os._exit(3)\n"
        "time.sleep(0.2)\nprint('goes on')",
    )
    assert done.process.returncode == 0 and "goes on" in done.text


# ---- all ranks start anew


def pids(runs: list[PodRun]) -> list[int]:
    return [rank_of(run) for run in runs]


def runs_again(run: PodRun, times: int) -> None:
    run.read(lambda run: run.kinds().count("running") == times)


@pytest.mark.slow
def test_all_ranks_start_anew_in_their_pods_and_only_once_for_an_id(pods):
    runs = pods("import subprocess\nsubprocess.Popen(['sleep', '600'])\n" + SLEEPS, nodes=3)
    before, all_before = pids(runs), [descendants(run.process.pid) for run in runs]
    assert all(len(found) == 2 for found in all_before)
    line = Line(Loopback(), MINE)
    line.restart(target(runs), "one")
    for run in runs:
        runs_again(run, 2)
    after = pids(runs)
    assert set(before).isdisjoint(after)
    assert not any(alive(pid) for found in all_before for pid in found)
    line.restart(target(runs), "one")
    assert pids(runs) == after, "asked for twice, done once"
    for run in runs:
        eventually(lambda run=run: is_asleep(run))
    assert {one["where"]["cell_line"] for one in line.where(target(runs))} == {7}
    line.close()
    runs[0].process.send_signal(signal.SIGTERM)
    assert runs[0].process.wait(30) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_no_rank_is_stopped_where_one_cannot_be_reached(pods):
    runs = pods(nodes=3)
    before = pids(runs)
    line = Line(Loopback(), MINE)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        found = target(runs)
        found.addresses[2] = nobody.getsockname()
        with pytest.raises(Unready, match="2"):
            line.restart(found, "one")
    assert pids(runs) == before
    line.restart(target(runs), "one")
    for run in runs:
        runs_again(run, 2)
    line.close()


@pytest.mark.slow
def test_a_rank_that_is_stopped_waits_and_its_pod_can_be_ended(pods):
    (run,) = pods()
    line = Line(Loopback(), MINE)
    for _ in range(2):
        assert line._ask(target([run]), {"ask": "stop", "id": "one"})["stopped"] is True
    assert descendants(run.process.pid) == []
    assert [one["where"] for one in line.where(target([run]))] == [None]
    line.close()
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGTERM
