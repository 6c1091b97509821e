"""Sockets of the job store's private folder."""

from __future__ import annotations

import os
import socket
import time

import pytest

from jupyter_jax_trainer.channel import sockets
from jupyter_jax_trainer.jobdir import store


@pytest.fixture
def folder(home):
    return store.private_directory(home / "run")


def listening(path):
    with sockets.socket_at(path) as (_, address):
        found = socket.socket(socket.AF_UNIX)
        found.bind(address)
    found.listen()
    return found


def test_a_path_that_is_too_long_for_an_address_can_be_used(tmp_path):
    folder = tmp_path.joinpath(*["deep" * 10] * 4)
    folder.mkdir(parents=True)
    path = folder / "job-x.sock"
    with listening(path) as listener, sockets.socket_at(path) as (connection, address):
        connection.connect(address)
        served, _ = listener.accept()
        assert sockets.is_same_user(served)
        served.close()


def test_sockets_of_the_dead_are_deleted_and_those_of_the_living_stay(folder):
    paths = [folder / f"job-{name}.sock" for name in ("dead", "alive", "fresh")]
    kept = [listening(path) for path in paths]
    for number in (0, 2):
        kept[number].close()
    (folder / "warm-x").write_text("")
    old = time.time() - 7200
    for path in (*paths[:2], folder / "warm-x"):
        os.utime(path, (old, old))
    sockets.prune(folder)
    assert [path.exists() for path in paths] == [False, True, True]
    assert (folder / "warm-x").exists()
    kept[1].close()


def test_where_the_system_does_not_tell_who_connects_the_private_folder_decides(
    folder, monkeypatch
):
    monkeypatch.delattr(socket, "SO_PEERCRED")
    ours, theirs = socket.socketpair()
    assert sockets.is_same_user(ours)
    ours.close()
    theirs.close()
