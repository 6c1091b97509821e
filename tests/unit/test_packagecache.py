"""Packages that pods keep on a volume they share, and take from there."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import random
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import podruns
import pytest
from harness import eventually
from podruns import PodRun
from relays import Relays
from test_transfer import Loopback, send

from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.backends.kubernetes.submit import packagecache, payload
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.pod import packagecache as caches
from jupyter_jax_trainer.worker.pod import parcel as parcels
from jupyter_jax_trainer.worker.pod.packagecache import ChangedPackageError, PackageCache
from jupyter_jax_trainer.worker.pod.parcel import Parcel, Source
from jupyter_jax_trainer.worker.pod.transfer import Transfer
from jupyter_jax_trainer.worker.serialization.archive import Archive, Package

# ---- the cache alone


def package(data: bytes) -> Package:
    return {"offset": 0, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def read(cache: PackageCache, data: bytes) -> bytes:
    return b"".join(cache.read(package(data)))


def wheel() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("aid/__init__.py", "word = 'from a wheel'")
        file.writestr("aid/ballast", random.Random(3).randbytes(400_000))
        info = "Metadata-Version: 2.1\nName: aid\nVersion: 1.0\n"
        file.writestr("aid-1.0.dist-info/METADATA", info)
    return data.getvalue()


WHEEL = wheel()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / ".jaxtrain-packages" / "me"


def file_of(folder: Path, data: bytes) -> Path:
    return folder / f"{hashlib.sha256(data).hexdigest()}.whl"


def test_what_was_put_there_is_there_for_this_user_alone(folder):
    cache = PackageCache(folder)
    with pytest.raises(FileNotFoundError):
        read(cache, b"one")
    cache.add(package(b"one"), [b"on", b"e"])
    cache.add(package(b"one"), ["it is not written again"])
    assert read(PackageCache(folder), b"one") == b"one"
    assert [path.name for path in folder.iterdir()] == [file_of(folder, b"one").name]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, file_of(folder, b"one"))]
    assert modes == [0o700, 0o600]
    assert folder.parent.stat().st_mode & stat.S_ISVTX, "others can't exchange the folder"


def grown(file: Path) -> None:
    file.write_bytes(b"onee")


def swapped(file: Path) -> None:
    file.write_bytes(b"two")


def linked(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(b"one")
    file.unlink()
    file.symlink_to(other)


def piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("change", [grown, swapped, linked, piped])
def test_a_file_that_was_exchanged_is_an_error_that_names_it(folder, change):
    cache = PackageCache(folder)
    cache.add(package(b"one"), [b"one"])
    change(file_of(folder, b"one"))
    with pytest.raises(ChangedPackageError) as caught:
        read(cache, b"one")
    assert str(file_of(folder, b"one")) in str(caught.value)
    aside = file_of(folder, b"one").name + ".changed"
    assert aside in caught.value.hint
    assert [path.name for path in folder.iterdir() if path.name != "other"] == [aside]
    cache.add(package(b"one"), [b"one"])
    assert read(cache, b"one") == b"one", "the next job works"


def test_a_link_in_place_of_the_folder_is_not_followed(folder, tmp_path):
    folder.parent.mkdir(parents=True)
    folder.symlink_to(tmp_path)
    with pytest.raises(OSError):
        PackageCache(folder).add(package(b"one"), [b"one"])
    with pytest.raises(OSError):
        read(PackageCache(folder), b"one")


def test_those_unused_for_the_longest_time_make_room(folder):
    cache = PackageCache(folder, 30)
    for number in range(3):
        cache.add(package(b"%010d" % number), [b"%010d" % number])
        os.utime(file_of(folder, b"%010d" % number), (number, number))
    (folder / "somebody's").write_bytes(bytes(100))
    old, new = (folder / f"{'0' * 64}.whl.{digit * 16}.part" for digit in "12")
    old.write_bytes(b"left by a killed pod")
    os.utime(old, (0, 0))
    assert read(cache, b"%010d" % 0) == b"%010d" % 0, "used now"
    cache.add(package(b"%010d" % 3), [b"%010d" % 3])
    assert not file_of(folder, b"%010d" % 1).exists() and not old.exists()
    assert sorted(path.stat().st_size for path in folder.iterdir()) == [10, 10, 10, 100]
    new.write_bytes(bytes(10))
    with pytest.raises(OSError) as caught:
        PackageCache(folder, 15).add(package(b"%010d" % 4), [b"%010d" % 4])
    assert caught.value.errno == errno.EDQUOT and new.exists(), "another pod is writing it"
    with pytest.raises(OSError) as caught:
        cache.add(package(bytes(31)), [bytes(31)])
    assert caught.value.errno == errno.EFBIG


def test_who_reads_a_package_that_is_removed_meanwhile_gets_it(folder):
    data = bytes(3 << 20)
    cache = PackageCache(folder, len(data))
    cache.add(package(data), [data])
    pieces = cache.read(package(data))
    got = next(pieces)
    cache.add(package(b"other"), [b"other"])
    assert not file_of(folder, data).exists()
    assert got + b"".join(pieces) == data


def test_many_that_write_one_package_at_once_leave_one(folder):
    data = random.Random(1).randbytes(300_000)
    pieces = [data[at : at + 1000] for at in range(0, len(data), 1000)]
    problems: list[BaseException] = []

    def work() -> None:
        try:
            PackageCache(folder, 3 * len(data)).add(package(data), iter(pieces))
            assert read(PackageCache(folder), data) == data
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    # More of them than there is room for: those say so.
    assert all(isinstance(one, OSError) and one.errno == errno.EDQUOT for one in problems)
    assert read(PackageCache(folder), data) == data
    assert len(list(folder.iterdir())) == 1


class Said(Channel):
    """What a rank says."""

    def __init__(self) -> None:
        super().__init__(None)
        self.messages: list[dict[str, Any]] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.messages.append({"kind": kind, **fields})


@pytest.mark.parametrize(("number", "call"), [(errno.ENOSPC, "fsync"), (errno.EROFS, "mkdir")])
def test_a_volume_that_takes_no_more_fails_no_job_and_keeps_no_half_of_it(
    folder, tmp_path, monkeypatch, number, call
):
    monkeypatch.setenv(caches.FOLDER_VARIABLE, str(folder))
    bundle, _ = podruns.bundle(tmp_path, "1", wheels={"aid-1.0-py3-none-any.whl": WHEEL})
    folder.parent.mkdir(parents=True)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refuse)
    said = Said()
    caches.keep(Archive(bundle), said)
    eventually(lambda: said.messages)
    assert said.messages == [{"kind": "cached", "problem": os.strerror(number)}]
    assert not folder.exists() or list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "most"), [("", 2 << 30), ("0", 0), ("5", 5), ("3k", 3000), ("2Gi", 2 << 30)]
)
def test_its_bound_is_a_setting(text, most):
    environment = {caches.BYTES_VARIABLE: text, caches.FOLDER_VARIABLE: "/data"}
    assert caches.bound(environment) == most
    assert (PackageCache.from_environment(environment) is None) == (most == 0)
    with pytest.raises(UsageError):
        caches.bound({caches.BYTES_VARIABLE: "much"})


# ---- what has not to be sent


WHOLE = random.Random(2).randbytes(5_000_000)
PARTS = [(23, 1_000_000), (1_000_023, 2_500_000), (3_500_023, 700_000)]


def sources(*there: int, fails: Callable[[], None] = lambda: None) -> list[Source]:
    def of(at: int, size: int) -> Iterator[bytes]:
        for start in range(at, at + size, 1 << 18):
            yield WHOLE[start : min(start + (1 << 18), at + size)]
            fails()

    parts = [PARTS[number] for number in there]
    return [Source(at, size, lambda at=at, size=size: of(at, size)) for at, size in parts]


class Pods:
    """Process 1 of some pods, each with what it has by itself."""

    def __init__(self, folder: Path, has: list[list[Source]]) -> None:
        self.bundle = folder / "bundle"
        self.bundle.write_bytes(WHOLE)
        digest = parcels.root_of(parcels.digests_of(io.BytesIO(WHOLE)))
        self.parcels = [
            Parcel(digest, len(WHOLE), folder / f"rank-{rank}") for rank in range(len(has))
        ]
        self.relays = Relays(len(has))
        for rank, (one, relay) in enumerate(zip(self.parcels, self.relays.relays, strict=True)):
            one.fill([Source(0, 23, lambda: iter([WHOLE[:23]])), *has[rank]])
            relay.transfer = Transfer(podruns.KEY.encode(), rank, self.relays.selector, one)

    def waiting(self) -> set[int]:
        return {rank for rank, one in enumerate(self.parcels) if not one.is_whole}

    def send(self) -> int:
        cluster, problems = Loopback(), list[str]()
        try:
            sending = send(cluster, self.bundle, self.relays.ports, self.waiting, problems)
            eventually(lambda: not self.waiting(), seconds=20)
            sending.join(10)
        finally:
            self.relays.close()
        assert not problems
        assert all(Path(one.path).read_bytes() == WHOLE for one in self.parcels)
        return cluster.sent


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_jax_trainer.backends.kubernetes.follow.sending._PAUSE", 0.01)


pytestmark = pytest.mark.usefixtures("soon")


def test_what_pods_have_is_not_sent(tmp_path):
    """Neither to the first one nor from there to the others."""
    pods = Pods(tmp_path, [sources(0, 1, 2) for _ in range(3)])
    assert {one.have for one in pods.parcels} == {4_200_023}
    assert pods.send() < 800_000 + 10_000


def test_a_part_that_is_gone_comes_from_the_sender(tmp_path):
    assert Pods(tmp_path, [sources(0, 2), sources(0, 1, 2)]).send() < 5_000_000


def test_the_first_pod_has_all_and_another_one_nothing(tmp_path):
    """It need not be the one that the others wait for: it hands on what it has."""
    all_of_it = [Source(0, len(WHOLE), lambda: iter([WHOLE]))]
    pods = Pods(tmp_path, [all_of_it, []])
    assert pods.waiting() == {1}
    assert pods.send() < 10_000


def test_a_volume_that_goes_away_while_it_is_read_costs_no_more_than_the_transfer(tmp_path):
    def fails() -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    pods = Pods(tmp_path, [sources(0, 1, 2, fails=fails)])
    assert pods.parcels[0].have == 23
    pods.send()


# ---- real pods


CELL = "import importlib; print(importlib.import_module('aid').word)\n"


class Jobs:
    """Jobs of one rank each, in pods that share a volume."""

    def __init__(self, folder: Path) -> None:
        self.volume = folder / "volume" / "me"
        self.runs: list[PodRun] = []
        self._folder = folder

    def start(self, *, known: bool, **more: str) -> PodRun:
        """Start one; `known` is what its sender takes to be on the volume."""
        folder = self._folder / f"job-{len(self.runs)}"
        folder.mkdir()
        bundle, digest = podruns.bundle(folder, CELL, wheels={"aid-1.0-py3-none-any.whl": WHEEL})
        self.bundle = bundle
        self.packed = payload.pack(
            bundle, "secret", "uid", digest, JobSpec(), podruns.KEY, omitted=len(WHEEL) * known
        )
        started = folder / "started.pyz"
        started.write_bytes(payload._without(len(WHEEL) * known, bundle))
        env = {one.name: one.value for one in self.packed.env}
        assert env["JAXTRAIN_FILE_SHA256"] == hashlib.sha256(started.read_bytes()).hexdigest()
        if parcels.AWAITED_VARIABLE in env:
            more[parcels.AWAITED_VARIABLE] = env[parcels.AWAITED_VARIABLE]
        more[caches.FOLDER_VARIABLE] = str(self.volume)
        self._last = partial(podruns.start, folder, started, digest, **more)
        return self.start_again()

    def start_again(self) -> PodRun:
        """Start the last one's container again, in its pod."""
        self.runs.append(self._last())
        return self.runs[-1]

    @property
    def file(self) -> Path:
        return file_of(self.volume, WHEEL)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path)
    yield made
    podruns.kill(*made.runs)


@pytest.mark.slow
def test_what_one_job_was_sent_the_next_one_has(jobs):
    first = jobs.start(known=False)
    assert (first.end(), first.text) == (0, "from a wheel\n")
    assert messages.read(first.get("cached")).problem is None
    assert jobs.file.read_bytes() == WHEEL
    whole = sum(len(text) for data in jobs.packed.data for text in data.values())
    second = jobs.start(known=True)
    assert (second.end(), second.text) == (0, "from a wheel\n")
    assert not second.has("awaits"), "nobody had to send anything"
    assert sum(len(text) for data in jobs.packed.data for text in data.values()) < 0.6 * whole


@pytest.mark.slow
def test_what_is_gone_is_sent_and_kept_again_and_is_there_for_a_restart(jobs):
    run = jobs.start(known=True, JAXTRAIN_MAX_RESTARTS="1")
    run.read(lambda run: run.has("awaits"))
    waits = {0}
    send(Loopback(), jobs.bundle, [run.get("awaits")["channel"]], lambda: waits)
    run.read(lambda run: run.has("hello"))
    waits.clear()
    assert (run.end(), run.text) == (0, "from a wheel\n")
    assert jobs.file.read_bytes() == WHEEL
    jobs.file.unlink()
    again = jobs.start_again()
    assert (again.end(), again.text) == (0, "from a wheel\n")
    assert not again.has("awaits"), "the pod has kept it by itself"


@pytest.mark.slow
def test_a_job_does_not_run_with_a_package_that_was_exchanged(jobs):
    cache = PackageCache(jobs.volume)
    cache.add(package(WHEEL), [WHEEL])
    jobs.file.write_bytes(bytes([WHEEL[0] ^ 1]) + WHEEL[1:])
    run = jobs.start(known=True)
    assert run.end() == 1
    error = run.get("error")
    assert error["type"] == "ChangedPackageError" and str(jobs.file) in error["message"]
    assert not run.has("hello") and "from a wheel" not in run.text


# ---- what is known of it


PLAN: Any = {"cluster": "one", "runtime_kind": "TrainingRuntime", "runtime": "jax", "shared": "/d"}


def environment(spec: JobSpec | None = None, **plan: Any) -> dict[str, str]:
    return packagecache.environment(spec or JobSpec(), {**PLAN, **plan})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_each_user_has_a_folder_on_the_volume_that_the_job_or_its_runtime_names(home, monkeypatch):
    found = environment()[caches.FOLDER_VARIABLE]
    assert found.startswith("/d/.jaxtrain-packages/") and environment() == environment()
    user = found.rpartition("/")[2]
    named = environment(JobSpec(volume=("claim:/mine/",)))[caches.FOLDER_VARIABLE]
    assert named == f"/mine/.jaxtrain-packages/{user}"
    assert environment(shared=None) == {}
    assert environment(JobSpec(env=((caches.BYTES_VARIABLE, "0"),))) == {}
    monkeypatch.setenv(caches.BYTES_VARIABLE, "5G")
    assert environment()[caches.BYTES_VARIABLE] == "5G"
    monkeypatch.setenv("JAXTRAIN_HOME", str(home.with_name("other")))
    assert environment()[caches.FOLDER_VARIABLE] != found
    monkeypatch.setenv(caches.BYTES_VARIABLE, "much")
    with pytest.raises(UsageError):
        environment()


def test_packages_are_left_out_once_a_job_has_said_that_they_are_there(home, tmp_path):
    wheels = {"aid-1.0-py3-none-any.whl": WHEEL}
    bundle, _ = podruns.bundle(tmp_path, "1", wheels=wheels)
    (more := tmp_path / "more").mkdir()
    other, _ = podruns.bundle(more, "1", wheels={**wheels, "b-1-py3-none-any.whl": b"b"})
    spec, plan = JobSpec(), KubernetesPlan(**PLAN)
    assert not packagecache.has(bundle, spec, plan)
    packagecache.note(bundle, spec, plan, there=True)
    assert packagecache.has(bundle, spec, plan)
    assert not packagecache.has(other, spec, plan), "one of them is another"
    elsewhere = KubernetesPlan(**{**PLAN, "cluster": "two"})
    assert not packagecache.has(bundle, spec, elsewhere)
    assert not packagecache.has(bundle, JobSpec(volume=("claim:/d",)), plan)
    packagecache.note(other, spec, plan, there=False)
    assert not packagecache.has(bundle, spec, plan)
    assert Archive(bundle).read_package("aid-1.0-py3-none-any.whl") == WHEEL


@pytest.mark.parametrize("odd", [{}, {"problem": 3}, {"problem": ["x"]}])
def test_what_a_job_says_of_it_has_a_form(odd):
    assert isinstance(messages.read({"kind": "cached", **odd}), messages.Odd)
    long = messages.read({"kind": "cached", "problem": "x" * 1000})
    assert isinstance(long, messages.Cached) and len(long.problem or "") == 200
