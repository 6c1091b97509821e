"""The channel's connections: both ends prove that they know the key, and nothing else passes."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_jax_trainer.worker.pod.wire import (
    MAGIC,
    MAX_BODY,
    Message,
    Owner,
    VersionError,
    Wire,
    WireError,
)

KEY = b"k" * 64
OWNER = Owner("ab" * 16, 7)


def carry(source: Wire, target: Wire, size: int = 1 << 20) -> list[Message]:
    """Carry what is to be sent, in pieces."""
    data = source.unsent.take()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return [message for piece in pieces for message in target.receive(piece)]


def connected(client_key: bytes = KEY, server_key: bytes = KEY, rank: int = 3, size: int = 1 << 20):
    client, server = Wire(client_key, 3, OWNER), Wire(server_key, rank)
    carry(server, client, size)
    carry(client, server, size)
    carry(server, client, size)
    return client, server


def test_both_ends_are_proven_and_the_server_knows_the_owner():
    client, server = connected()
    assert client.is_proven and server.is_proven
    assert server.owner == OWNER


@given(
    st.lists(st.tuples(st.booleans(), st.binary(max_size=300)), max_size=20),
    st.integers(1, 200),
)
def test_messages_arrive_in_order_however_the_bytes_are_cut(messages, size):
    client, server = connected(size=size)
    for number, (to_server, body) in enumerate(messages):
        source, target = (client, server) if to_server else (server, client)
        source.send(Message({"number": number}, body))
        assert carry(source, target, size) == [Message({"number": number}, body)]


@given(st.lists(st.binary(max_size=300), max_size=5), st.data())
def test_bodies_may_be_written_where_they_are_awaited(bodies, data):
    """And be sent in any number of calls."""
    client, server = connected()
    for body in bodies:
        client.send(Message({}, body))
    found: list[Message] = []
    while client.unsent:
        sent = b"".join(client.unsent.first())[: data.draw(st.integers(1, 400))]
        client.unsent.drop(len(sent))
        while sent:
            if server.awaited and data.draw(st.booleans()):
                count = min(len(sent), len(server.awaited))
                server.awaited[:count] = sent[:count]
                found += server.fill(count)
            else:
                count = min(len(sent), 50)
                found += server.receive(sent[:count])
            sent = sent[count:]
    assert [message.body for message in found] == bodies


@pytest.mark.parametrize(
    ("client_key", "server_key", "rank"),
    [(b"other", KEY, 3), (KEY, b"other", 3), (KEY, KEY, 4)],
)
def test_another_key_or_another_rank_fails(client_key, server_key, rank):
    with pytest.raises(WireError):
        connected(client_key, server_key, rank)


def test_before_the_proof_a_peer_is_sent_a_nonce_alone_and_little_is_read_of_it():
    server = Wire(KEY, 3)
    assert len(server.unsent) == len(MAGIC) + 32
    with pytest.raises(WireError):
        list(server.receive(b"x" * 1000))
    server = Wire(KEY, 3)
    with pytest.raises(WireError):
        server.send(Message({"number": 1}))


def test_a_server_that_does_not_know_the_key_is_found_out():
    """It repeats what the client said."""
    client = Wire(KEY, 3, OWNER)
    assert not list(client.receive(MAGIC + b"n" * 32))
    said = client.unsent.take()
    with pytest.raises(WireError):
        list(client.receive(said[-32:]))


def introduction(client: Wire, server: Wire) -> bytes:
    """Return what a client sends to prove itself."""
    carry(server, client)
    return client.unsent.take()


def test_a_proof_that_was_overheard_opens_no_other_connection():
    said = introduction(Wire(KEY, 3, OWNER), Wire(KEY, 3))
    another = Wire(KEY, 3)
    with pytest.raises(WireError):
        list(another.receive(said))
    assert not another.is_proven


def test_a_proof_for_one_rank_is_none_for_another():
    """Somebody between both ends passes on all that they say."""
    client, server = Wire(KEY, 3, OWNER), Wire(KEY, 4)
    with pytest.raises(WireError):
        list(server.receive(introduction(client, server)))


@given(st.data())
def test_who_passes_a_proof_on_can_change_neither_owner_nor_epoch(data):
    server = Wire(KEY, 3)
    said = bytearray(introduction(Wire(KEY, 3, OWNER), server))
    at = data.draw(st.integers(len(MAGIC) + 32, len(said) - 1))
    said[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        list(server.receive(said))
    assert server.owner is None


def test_a_proof_is_not_sent_back_to_its_sender_as_the_other_ends():
    client = Wire(KEY, 3, OWNER)
    said = introduction(client, Wire(KEY, 3))
    with pytest.raises(WireError):
        list(client.receive(said))


def test_the_other_version_is_told_by_both_ends():
    later = MAGIC.replace(b"3", b"4")
    client, server = Wire(KEY, 3, OWNER), Wire(KEY, 3)
    with pytest.raises(VersionError):
        list(client.receive(later + bytes(32)))
    assert not client.unsent, "it says nothing to one that it does not understand"
    with pytest.raises(VersionError):
        list(server.receive(introduction(Wire(KEY, 3, OWNER), Wire(KEY, 3)).replace(MAGIC, later)))
    with pytest.raises(WireError) as stranger:
        list(Wire(KEY, 3, OWNER).receive(b"SSH-2.0-OpenSSH_9.7\r\n" + bytes(40)))
    assert not isinstance(stranger.value, VersionError)


@given(st.data())
def test_a_changed_byte_is_found(data):
    client, server = connected()
    client.send(Message({"ask": "where", "number": 1}, b"body" * 10))
    sent = bytearray(client.unsent.take())
    at = data.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(WireError):
        assert not list(server.receive(sent)), "it may wait for more"


@given(st.integers(0, 2), st.integers(0, 2))
def test_what_is_repeated_or_left_out_or_of_another_connection_does_not_fit(first, second):
    client, server = connected()
    sent = []
    for number in range(3):
        client.send(Message({"number": number}))
        sent.append(client.unsent.take())
    if (first, second) != (0, 1):
        with pytest.raises(WireError):
            list(server.receive(sent[first] + sent[second]))
    _, other = connected()
    with pytest.raises(WireError):
        list(other.receive(sent[0]))
    with pytest.raises(WireError):
        list(client.receive(sent[0]))  # back to its sender


def test_a_message_has_the_digest_of_its_body_and_is_not_taken_with_another():
    client, server = connected()
    client.send(Message({}, b"body"))
    (found,) = carry(client, server)
    assert found.digest == hashlib.blake2b(b"body", digest_size=32).digest()
    client.send(Message({}, b"body", found.digest))
    assert carry(client, server) == [found]
    client.send(Message({}, b"other", found.digest))
    with pytest.raises(WireError):
        carry(client, server)


def test_sizes_are_bounded():
    client, server = connected()
    with pytest.raises(WireError):
        client.send(Message({}, b"x" * (MAX_BODY + 1)))
    with pytest.raises(WireError):
        list(server.receive(b"\xff" * 8))


@pytest.mark.parametrize("head", [b"[]", b"[" * 5000, b"{", b"\xff\xfe"])
def test_a_head_that_is_no_object_is_refused(head, monkeypatch):
    client, server = connected()
    monkeypatch.setattr("json.dumps", lambda *_, **__: head.decode("latin-1"))
    client.send(Message({}))
    with pytest.raises(WireError):
        carry(client, server)
