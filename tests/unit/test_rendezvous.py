"""Where a rank reaches the coordinator, whatever its address looks like."""

from __future__ import annotations

import socket

import pytest

from jupyter_jax_trainer.worker import rendezvous
from jupyter_jax_trainer.worker.channel import Channel

GIVEN, BOUND = "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_BIND_ADDRESS"


@pytest.mark.parametrize(
    ("given", "bound", "reached"),
    [
        ("job-node-0-0.job:29500", None, "127.0.0.1:29500"),
        ("job-node-0-0.job:29500", "[::]:29500", "127.0.0.1:29500"),
        ("job-node-0-0.job:29500", "0.0.0.0:29500", "127.0.0.1:29500"),
        ("job-node-0-0.job:29500", "10.1.2.3:29500", "10.1.2.3:29500"),
        ("job-node-0-0.job:29500", "[fd00::3]:29500", "[fd00::3]:29500"),
        ("127.0.0.2:29500", None, "127.0.0.2:29500"),
    ],
)
def test_rank_0_reaches_the_service_that_it_starts(monkeypatch, given, bound, reached):
    monkeypatch.setenv(GIVEN, given)
    if bound:
        monkeypatch.setenv(BOUND, bound)
    else:
        monkeypatch.delenv(BOUND, raising=False)
    assert rendezvous._address(0, 1, Channel(None)) == (given, reached)


def test_another_rank_reaches_an_address_of_either_kind(monkeypatch):
    for family, host, address in (
        (socket.AF_INET, "localhost", "127.0.0.1"),
        (socket.AF_INET6, "[::1]", "[::1]"),
    ):
        with socket.create_server((host.strip("[]"), 0), family=family) as service:
            port = service.getsockname()[1]
            monkeypatch.setenv(GIVEN, f"{host}:{port}")
            assert rendezvous._address(1, 5, Channel(None)) == (
                f"{host}:{port}",
                f"{address}:{port}",
            )


def test_ranks_that_somebody_watches_over_may_be_silent_for_long(monkeypatch):
    monkeypatch.setenv("JAXTRAIN_HEARTBEAT_TIMEOUT", "1000.5")
    channel = Channel(None)
    assert rendezvous._heartbeat(channel) == {"heartbeat_timeout_seconds": 1001}
    monkeypatch.setattr(channel, "supervised", False)
    assert rendezvous._heartbeat(channel) == {}


class _FailedToken:
    """What jax keeps of a callback that has failed on a GPU, and waits for again and again."""

    def block_until_ready(self) -> None:
        raise ValueError("on the host")


def test_the_error_of_a_callback_on_a_gpu_is_told_once():
    import jax
    from jax._src.dispatch import runtime_tokens

    runtime_tokens.set_output_runtime_token(jax.devices()[0], _FailedToken())
    with pytest.raises(ValueError, match="on the host"):
        rendezvous.settle([])
    rendezvous.settle([])
