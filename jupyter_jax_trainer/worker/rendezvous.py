"""How the ranks of a job find each other, and how they learn that one of them failed.

Everything that touches private parts of jax is in this module.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jupyter_jax_trainer.datatypes import JsonValue
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.channel import Channel
from jupyter_jax_trainer.worker.exceptions import WorkerError

# The supervisor ends a rendezvous that takes too long, with a sentence that names the ranks that
# are missing; where there is none, this rank says it. Left to itself jax aborts the process; its
# bound is so many seconds later.
_MARGIN = 30
_SHORT, _LONG = 0.005, 0.1  # seconds between looks for the coordinator
_ROUND = 86_400_000  # milliseconds between two calls of the store while no rank has failed
_PROXIES = ("grpc_proxy", "http_proxy", "https_proxy")
_FIRST_ERROR = "jaxtrain/first_error"
_FINISHED = "jaxtrain/finished"


class PortTaken(WorkerError):  # noqa: N818
    """The coordinator's port belongs to another process."""


class RendezvousTimeout(WorkerError):  # noqa: N818
    """The ranks of the job did not find each other in time."""


def import_jax() -> None:
    """Import jax without looking for garbage meanwhile, which would take a tenth of the time.

    What there is then stays as long as the process, so no later search looks at it either.
    """
    if "jax" in sys.modules:
        return
    searches = gc.isenabled()
    gc.disable()
    try:
        import jax  # noqa: F401
    finally:
        gc.freeze()
        if searches:
            gc.enable()


def configure(settings: Mapping[str, JsonValue]) -> None:
    """Give jax the settings of the notebook, save those that the job's environment sets itself."""
    import_jax()
    import jax

    for name, value in settings.items():
        if name.upper() not in os.environ and getattr(jax.config, name, value) != value:
            jax.config.update(name, value)


def join(
    rank: int, nodes: int, channel: Channel, give_up: Callable[[BaseException], object]
) -> None:
    """Bring jax.distributed up on this rank.

    Parameters
    ----------
    rank, nodes
        This process, of how many.
    channel
        How rank 0 tells its address where the environment does not say it.
    give_up
        Ends this process with a `RendezvousTimeout`; called in another thread, because this one
        hangs in jax then.

    Raises
    ------
    PortTaken
        The port that was asked for is in use.
    RendezvousTimeout
        Rank 0 did not come in time.
    """
    import jax

    channel.send("arrived")
    timeout = (timeouts.RENDEZVOUS if channel.supervised else timeouts.RENDEZVOUS_OF_PODS).seconds
    since = time.monotonic()
    address, reached = _address(rank, timeout, channel)
    late = threading.Timer(
        since + timeout - time.monotonic(),
        lambda: give_up(
            RendezvousTimeout(
                say.RANKS_MISSING(
                    rank=rank,
                    timeout=timeout,
                    address=address,
                    nodes=nodes,
                    variable=timeouts.RENDEZVOUS.variable,
                )
            )
        ),
    )
    late.daemon = True
    if not channel.supervised:
        late.start()
    with _without_proxy(reached):
        jax.distributed.initialize(
            coordinator_address=reached,
            num_processes=nodes,
            process_id=rank,
            cluster_detection_method="deactivate",
            coordinator_bind_address=address if address.startswith("127.") else None,
            initialization_timeout=int(timeout) + _MARGIN,
            shutdown_timeout_seconds=math.ceil(timeouts.FINISH.seconds),
        )
    late.cancel()
    _accept_second_initialize(rank)


@contextlib.contextmanager
def _without_proxy(address: str) -> Iterator[None]:
    """Have gRPC go to an address itself; it would look for it behind a proxy, and wait in vain."""
    if not any(name.lower() in _PROXIES for name in os.environ):
        yield
        return
    name, host = "no_grpc_proxy", address.rsplit(":", 1)[0].strip("[]")
    before = os.environ.get(name)
    others = os.environ.get("no_proxy") if before is None else before
    os.environ[name] = ",".join(filter(None, [others, host]))
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _address(rank: int, timeout: float, channel: Channel) -> tuple[str, str]:
    """Agree on the coordinator's address; give also the one at which this rank reaches it.

    Rank 0 chooses the port at the last moment, and the others connect when it answers: jax's own
    retries back off for up to a second. What is reached has no name: that of a pod which is new may
    still mean the one before it, and gRPC asks for a name every 30 seconds only.
    """
    given = os.environ.get("JAX_COORDINATOR_ADDRESS")
    if given is None:
        if rank == 0:
            given = f"127.0.0.1:{_port()}"
            channel.send("coordinator", address=given)
        else:
            given = str(channel.receive()["address"])
        os.environ["JAX_COORDINATOR_ADDRESS"] = given
    host, port = given.rsplit(":", 1)
    reached = given if host.startswith("127.") else _own(port)
    if rank > 0:
        name = host.strip("[]")
        deadline = time.monotonic() + timeout
        pause = _SHORT
        while True:
            try:
                # The next try looks the name up again: it may have another address by then.
                patience = timeouts.PEER.seconds
                with socket.create_connection((name, int(port)), patience) as connection:
                    reached = _text(connection.getpeername())
                break
            except OSError as error:  # no address yet, nobody there yet, or a network that fails
                problem = error.strerror or str(error)
            if time.monotonic() > deadline:
                if channel.supervised:
                    return given, given
                raise RendezvousTimeout(
                    say.NO_ANSWER(
                        rank=rank,
                        timeout=timeout,
                        address=given,
                        problem=problem,
                        variable=timeouts.RENDEZVOUS.variable,
                    )
                )
            time.sleep(pause)
            if not channel.supervised:
                pause = min(2 * pause, _LONG)
    return given, reached


def _own(port: str) -> str:
    """Return the address at which rank 0 reaches the service that it starts."""
    bound = os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", "").rsplit(":", 1)[0]
    return f"127.0.0.1:{port}" if bound in ("", "0.0.0.0", "[::]") else f"{bound}:{port}"


def _text(address: tuple[Any, ...]) -> str:
    """Return the address of a socket as gRPC takes it."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _port() -> int:
    """Find a port for the coordinator: the one that was asked for, or any free one."""
    wanted = int(os.environ.get("JAX_COORDINATOR_PORT") or 0)
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            raise PortTaken(say.PORT_TAKEN(port=wanted)) from None
        return int(probe.getsockname()[1])


def _accept_second_initialize(rank: int) -> None:
    """Make the cell's own ``jax.distributed.initialize()`` a no-op: it is done already."""
    import jax
    import jax._src.distributed as internal

    def initialize(*_args: Any, **_kwargs: Any) -> None:
        if rank == 0:
            print(say.ALREADY_INITIALIZED())

    jax.distributed.initialize = initialize
    internal.initialize = initialize


def _client() -> Any:
    """Return the coordination service's client, or None where this jax keeps it elsewhere."""
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return None
    return getattr(global_state, "client", None)


def announce_error(rank: int, summary: str, status: int) -> bool:
    """Tell the other ranks that this one failed, and with which exit code it ends.

    The key-value store refuses to overwrite, so the first writer is the rank that failed first,
    whatever the clocks say.

    Returns
    -------
    bool
        True when this rank was the first.
    """
    client = _client()
    if client is None:
        return True
    try:
        told = {"rank": rank, "summary": summary, "status": status}
        client.key_value_set(_FIRST_ERROR, json.dumps(told))
    except Exception:
        return False
    return True


def first_status() -> int | None:
    """Return the exit code of the rank that failed first; None where none has said so."""
    try:
        text = _client().blocking_key_value_get(_FIRST_ERROR, _milliseconds(timeouts.PEER))
        return int(json.loads(text)["status"])
    except Exception:
        return None  # the service is gone, and with it what was said


def watch_errors(rank: int, stop: Callable[[int, str, int], None]) -> None:
    """Call `stop` from a thread as soon as another rank has failed, inside a collective or not.

    Parameters
    ----------
    rank
        This rank, whose own failure is no news.
    stop
        Gets the rank that failed first, a line about it, and its exit code.
    """
    client = _client()
    if client is None:
        return

    def wait() -> None:
        while True:
            try:
                text = client.blocking_key_value_get(_FIRST_ERROR, _ROUND)
            except Exception as error:
                if "DEADLINE_EXCEEDED" in str(error):
                    continue
                return  # the service is gone: whoever took it down reports that
            first = json.loads(text)
            if first["rank"] != rank:
                stop(first["rank"], first["summary"], first["status"])
            return

    threading.Thread(target=wait, name="jaxtrain-first-error", daemon=True).start()


def finish() -> None:
    """Wait for the other ranks, then leave jax.distributed together with them.

    A rank that ends late must not fail a good job: the time is long.
    """
    client = _client()
    if client is None:
        return
    client.wait_at_barrier(_FINISHED, _milliseconds(timeouts.FINISH))


def dissolve() -> None:
    """Take jax.distributed down, on all ranks together, for a rank that stays long after the rest.

    Its service would count those that left as lost, and abort.
    """
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return
    global_state.shutdown()


class _NotedManager:
    """jax's preemption manager, which remembers whether the cell asks it."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self.asked = False

    def reached_sync_point(self, *args: Any) -> Any:
        self.asked = True
        return self._manager.reached_sync_point(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


def watch_preemption() -> Callable[[], bool]:
    """Return a function that tells whether the cell looks for jax's notices of preemption."""
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return bool
    manager = getattr(global_state, "preemption_sync_manager", None)
    if manager is None:
        return bool
    noted = _NotedManager(manager)
    global_state.preemption_sync_manager = noted
    return lambda: noted.asked


def exchange(key: str, rank: int, value: str) -> None:
    """Put a small value of this rank where the others can read it."""
    client = _client()
    if client is not None:
        client.key_value_set(f"jaxtrain/{key}/{rank}", value)


def read(key: str, rank: int) -> str | None:
    """Wait for a value that another rank exchanges; None where there is no service."""
    client = _client()
    if client is None:
        return None
    patience = _milliseconds(timeouts.FINISH)
    return str(client.blocking_key_value_get(f"jaxtrain/{key}/{rank}", patience))


def _milliseconds(timeout: timeouts.Timeout) -> int:
    return math.ceil(1000 * timeout.seconds)
