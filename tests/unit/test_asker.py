"""Who asks the ranks of a job in pods: one job store at a time; and what is said where none can."""

from __future__ import annotations

import errno
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from harness import eventually
from made_jobs import make_job
from relays import KEY, Loopback, Relays, knows_nothing, serving

from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Unreachable
from jupyter_jax_trainer.backends.kubernetes.follow import asker, ownership
from jupyter_jax_trainer.backends.kubernetes.follow.answering import Answering
from jupyter_jax_trainer.backends.kubernetes.follow.asker import Asker, reason_of
from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Reach, Target
from jupyter_jax_trainer.backends.kubernetes.follow.ownership import Ownership
from jupyter_jax_trainer.channel import asking
from jupyter_jax_trainer.channel.places import notes
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import RankState, new_rank
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.states import Phase


def ranks(count: int, state: Phase = Phase.RUNNING) -> list[RankState]:
    return [{**new_rank(rank), "state": state} for rank in range(count)]


@dataclass
class Store:
    """A job store that follows the job; `asker` is that of its follower, which may be a new one."""

    home: Path
    directory: JobDir
    reach: Reach
    monkeypatch: pytest.MonkeyPatch
    cluster: Loopback = field(default_factory=Loopback)
    events: list[tuple[str, str]] = field(default_factory=list)
    lacks: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start a follower."""
        self.monkeypatch.setenv("JAXTRAIN_HOME", str(self.home))
        manifest = self.directory.read_manifest()
        told = lambda kind, text: self.events.append((kind, text))  # noqa: E731
        self.owned = Ownership(self.directory, manifest, told)
        self.asker = Asker(self.cluster, lambda: self.reach, self.owned, self.lacks.append)

    def asks(self) -> list[str]:
        """Ask where the ranks are; return what is said of those that could not be asked."""
        return [str(note) for note in notes(self.asker.places())]

    def wants(self) -> None:
        """Want to take over."""
        self.directory.take_over.touch()

    def takes_over(self) -> None:
        """Take over."""
        self.wants()
        self.asker.tick()
        eventually(lambda: not self.directory.take_over.exists())


@pytest.fixture
def relays() -> Iterator[Relays]:
    with Relays(2) as found:
        yield found


@pytest.fixture
def make(home, tmp_path, monkeypatch, relays) -> Iterator[Callable[..., Store]]:
    """Make a job store that submitted the job, or attached it."""
    made: list[Store] = []

    def begin(name: str, *, attached: bool = False) -> Store:
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        monkeypatch.setenv("JAXTRAIN_HOME", str(folder))
        directory = make_job("fit", "Running")
        if attached:
            manifest = directory.read_manifest()
            files.write_json(directory.manifest, {**manifest, "origin": {"attached": 1.0}})
        made.append(Store(folder, directory, Reach(relays.target, ranks(2)), monkeypatch))
        return made[-1]

    yield begin
    for one in made:
        one.asker.close()


TAKEN = [say.UNASKED(ranks="the ranks", reason=say.TAKEN_OVER(job="fit"))]
ELSEWHERE = [say.UNASKED(ranks="the ranks", reason=say.ASKED_ELSEWHERE(job="fit"))]


# ---------------------------------------------------------------------------- who asks


def test_who_submitted_a_job_comes_before_who_attached_it(make):
    """To look at a job from another machine takes nothing from the first."""
    first, second = make("first"), make("second", attached=True)
    assert not second.asks(), "nobody has asked before"
    assert not first.asks()
    assert second.asks() == ELSEWHERE
    assert not first.asks()


def test_a_store_takes_over_and_the_other_becomes_a_reader(make, capfd):
    first, second = make("first"), make("second", attached=True)
    assert not first.asks() and second.asks() == ELSEWHERE
    second.takes_over()
    assert not second.asks()
    assert second.events[-1] == ("note", say.TOOK_OVER())
    assert first.asks() == TAKEN
    opened = first.cluster.opened
    assert first.asks() == TAKEN and first.cluster.opened == opened, "it asks no more"
    assert first.events == [("warning", say.TAKEN_OVER(job="fit"))], "once"
    assert capfd.readouterr().err.count(say.TAKEN_OVER(job="fit")) == 1
    first.takes_over()
    assert not first.asks() and second.asks() == TAKEN


def test_a_reader_stays_one_when_its_follower_and_the_pods_start_again(make, relays):
    """The pods have forgotten who may ask; the store that has taken over need not be there."""
    first, second = make("first"), make("second", attached=True)
    first.asks()
    second.takes_over()
    assert first.asks() == TAKEN
    with Relays(2) as others:
        first.reach = second.reach = Reach(others.target, ranks(2))
        first.start()
        assert first.asks() == TAKEN and first.events == [("warning", say.TAKEN_OVER(job="fit"))]
        second.start()
        assert not second.asks()


def test_a_store_that_knows_nothing_of_a_take_over_loses_to_it_when_pods_start_again(make):
    first, second = make("first"), make("second", attached=True)
    second.takes_over()
    with Relays(2) as others:
        first.reach = second.reach = Reach(others.target, ranks(2))
        assert not first.asks()
        assert not second.asks() and first.asks() == TAKEN


class Died(BaseException):
    """The follower was killed."""


@pytest.mark.parametrize("step", ["write", "claim", "claimed", "tidy"])
def test_a_follower_that_dies_while_it_takes_over_is_followed_by_one_that_does_it(
    make, monkeypatch, step
):
    first, second = make("first"), make("second", attached=True)
    first.asks()
    claim = Line.claim

    def die(*_: Any, **__: Any) -> None:
        raise Died

    def claim_and_die(*args: Any) -> None:
        claim(*args)
        raise Died

    second.wants()
    before = second.owned.epoch
    with monkeypatch.context() as patch:
        match step:
            case "write":
                patch.setattr(ownership.files, "write_json", die)
            case "claim":
                patch.setattr(Line, "claim", die)
            case "claimed":
                patch.setattr(Line, "claim", claim_and_die)
            case "tidy":
                patch.setattr(Path, "unlink", die)
        with pytest.raises(Died):
            second.owned.take_over(second.asker._line, second.reach.target)
    claimed = step in ("claimed", "tidy")
    assert (first.asks() == TAKEN) == claimed, "what the pods have heard, holds"
    second.start()
    assert (second.owned.epoch > before) == (step != "write")
    if claimed:
        assert not second.asks(), "the next one knows the epoch"
    second.takes_over()
    assert not second.asks() and first.asks() == TAKEN


def test_nothing_is_claimed_that_can_not_be_written(make, monkeypatch):
    first, second = make("first"), make("second", attached=True)
    first.asks()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ownership.files, "write_json", full)
        with pytest.raises(OSError, match="No space"):
            second.owned.take_over(second.asker._line, second.reach.target)
    assert not first.asks() and second.owned.epoch == 0


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(ownership.time, "time", lambda: seconds)


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 3600.0])
def test_a_clock_that_goes_wrong_keeps_nobody_from_taking_over(make, monkeypatch, ahead):
    first, second = make("first"), make("second", attached=True)
    now = time.time()
    for store, seconds in ((first, now), (second, now + ahead), (first, now), (second, now)):
        at(monkeypatch, seconds)
        store.takes_over()
        other = second if store is first else first
        assert not store.asks() and other.asks() == TAKEN


def test_of_two_that_take_over_at_once_one_has_the_channel_and_the_other_knows(make, monkeypatch):
    stores = [make("first"), make("second", attached=True), make("third", attached=True)]
    at(monkeypatch, 1000.0)
    for _ in range(10):
        threads = [threading.Thread(target=store.takes_over) for store in stores[1:]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = [store.asks() for store in stores]
        assert sorted(said, key=len) == [[], TAKEN, TAKEN], said


def test_a_take_over_waits_for_the_pods(make, relays):
    second = make("second", attached=True)
    second.reach = Reach(None, ranks(2, Phase.WAITING), say.NOT_SAID())
    second.wants()
    second.asker.tick()
    second.asker._thread.join()
    assert second.directory.take_over.exists() and second.owned.epoch == 0
    second.reach = Reach(relays.target, ranks(2))
    second.takes_over()
    assert not second.asks()


def test_what_is_kept_of_the_owner_goes_with_the_end_of_the_job(make):
    second = make("second", attached=True)
    second.takes_over()
    second.wants()
    assert second.directory.owner.exists()
    second.owned.forget()
    assert not second.directory.owner.exists() and not second.directory.take_over.exists()


@pytest.mark.parametrize("text", ["", "{", '{"format": 1, "epoch": "x"}', "[]"])
def test_a_damaged_note_of_the_owner_is_none(make, text):
    second = make("second", attached=True)
    second.directory.owner.write_text(text)
    second.start()
    assert second.owned.epoch == 0 and second.owned.refusal is None


# ---------------------------------------------------------------------------- who can't be asked


FORBIDDEN = ApiError(403, "", "refused (Forbidden)", "create", "pods/portforward")
BROKEN = ApiError(400, "", "refused (Bad Request)", "create", "pods/portforward")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FORBIDDEN, say.NO_RIGHT(right="create pods/portforward")),
        (BROKEN, say.NO_FORWARD(error="refused (Bad Request)")),
        (Unreachable("timed out"), say.NO_FORWARD(error="timed out")),
        (OSError("cut"), say.FAILED(error="cut")),
    ],
)
def test_a_way_that_is_closed_is_said_with_what_is_known_all_the_same(make, capfd, error, reason):
    first = make("first")
    heard = {"cell": "Cell", "cell_line": 4, "doing": "psum", "frame": None, "seconds": 60.0}
    first.reach.ranks[1]["where"] = {**heard, "time": time.time()}
    first.cluster.error = error
    for _ in range(2):
        places = first.asker.places()
        assert [one.line for one in places] == [None, 4]
        assert notes(places) == [say.UNASKED(ranks="the ranks", reason=reason)]
    assert capfd.readouterr().err.count(reason) == 1, "once"
    assert not first.events, "it is no fault of the job"
    first.cluster.error = None
    assert not first.asks()


@pytest.mark.parametrize("error", [FORBIDDEN, BROKEN, Unreachable("timed out"), OSError("cut")])
@pytest.mark.parametrize("asked", ["where", "silence", "profile"])
def test_a_channel_that_is_missing_is_on_the_card_until_it_is_there(
    make, monkeypatch, error, asked
):
    """Once it has lasted: pods come and go. Who has asked once need not ask again."""
    monkeypatch.setattr(asker, "_LASTS", 0.1)
    first = make("first")
    ask = {
        "where": first.asker.places,
        "silence": first.asker.positions,
        "profile": lambda: first.asker.profile("1", 1.0),
    }[asked]
    first.cluster.error = error
    ask()
    assert not first.lacks, "not at once"

    def looks(count: int) -> bool:
        first.asker.tick()
        return len(first.lacks) == count

    eventually(lambda: looks(1))
    assert first.lacks == [say.NO_CHANNEL_TO(ranks="the ranks", reason=reason_of(error))]
    for _ in range(3):
        first.asks()
    assert len(first.lacks) == 1, "once"
    first.cluster.error = None
    eventually(lambda: looks(2))
    assert first.lacks[-1] is None and not first.events
    opened = first.cluster.opened
    time.sleep(0.3)
    first.asker.tick()
    first.asker._thread.join()
    assert first.cluster.opened == opened, "no more looks"


def test_a_cut_that_is_soon_over_is_not_on_the_card(make):
    first = make("first")
    first.cluster.error = OSError("cut")
    first.asks()
    first.cluster.error = None
    first.asks()
    first.asker.tick()
    assert first.lacks == [] and first.asker._thread is None


def test_a_job_that_needs_no_channel_is_not_looked_at(make):
    first = make("first")
    first.cluster.error = FORBIDDEN
    first.asker.tick()
    assert first.lacks == [] and first.asker._thread is None


def test_ranks_behind_a_blocked_port_are_on_the_card(make, monkeypatch):
    monkeypatch.setattr(asker, "_LASTS", 0.0)
    with Relays(3) as others, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        target = others.target
        port = target.addresses[1] = nobody.getsockname()
        first = make("first")
        first.reach = Reach(target, ranks(3))
        first.asks()
        first.asker.close()
    reason = say.NO_WAY_THERE(port=port[1])
    assert first.lacks == [say.NO_CHANNEL_TO(ranks="rank 1", reason=reason)]


def test_who_is_no_owner_lacks_no_channel(make, monkeypatch):
    monkeypatch.setattr(asker, "_LASTS", 0.0)
    first, second = make("first"), make("second", attached=True)
    first.asks()
    assert second.asks() == ELSEWHERE and second.lacks == []
    first.reach.ranks[:] = ranks(2, Phase.FINISHED)
    first.cluster.error = FORBIDDEN
    first.asks()
    assert first.lacks == [], "nothing is to be asked"


def test_an_older_worker_is_told(make, capfd):
    first = make("first")
    with serving(knows_nothing) as port:
        first.reach = Reach(Target(pod="pod-0", port=port, key=KEY, addresses={}), ranks(1))
        (note,) = first.asks()
    assert "does not know 'where'" in note and "'where'" in capfd.readouterr().err


def test_ranks_that_the_first_can_not_reach_are_named_with_the_port(make):
    with Relays(6) as others, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        target, port = others.target, nobody.getsockname()[1]
        target.addresses.update(dict.fromkeys((1, 2, 3), ("127.0.0.1", port)))
        del target.addresses[5]
        first = make("first")
        first.reach = Reach(target, ranks(6))
        places = first.asker.places()
        first.asker.close()
    assert [one.rank for one in places if one.unasked is None] == [0, 4]
    assert notes(places) == [
        say.UNASKED(ranks="ranks 1, 2 and 3", reason=say.NO_WAY_THERE(port=port)),
        say.UNASKED(ranks="rank 5", reason=say.NOT_LISTENING()),
    ]


@pytest.mark.parametrize("state", [Phase.WAITING, Phase.STARTING, Phase.FINISHED, Phase.FAILED])
def test_nothing_is_said_of_ranks_that_have_not_begun_or_are_gone(make, state):
    first = make("first")
    first.reach = Reach(None, ranks(2, state), say.NOT_SAID())
    assert not first.asks()


def test_what_can_not_be_asked_reaches_who_asks(make):
    first = make("first")
    first.cluster.error = FORBIDDEN
    answering = Answering()
    answering.add("a" * 32, first.asker, lambda asker, _: (None, asker.profile("1", 1.0)[0]))
    answering.start()
    path = first.home / "run" / f"job-{'a' * 16}.sock"
    eventually(path.exists)
    (note,) = notes(asking.where("a" * 32, "fit"))
    reason = say.NO_RIGHT(right="create pods/portforward")
    assert reason in note
    with pytest.raises(UsageError, match=re.escape(reason)):
        asking.profile("a" * 32, "fit", 1.0)
    answering.remove("a" * 32)
    eventually(lambda: not path.exists())
