"""The other end: ask the writer of a job."""

from __future__ import annotations

import json
import time

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.channel import protocol
from jupyter_jax_trainer.channel.protocol import RankPlace, Reply, Request
from jupyter_jax_trainer.channel.sockets import is_same_user, path_of, socket_at
from jupyter_jax_trainer.errors import BackendError
from jupyter_jax_trainer.messages import channel as say


def where(uid: str, job: str) -> list[RankPlace]:
    """Ask where each rank of a job is.

    Parameters
    ----------
    uid, job
        The job's own id, and its name.

    Raises
    ------
    BackendError
        Its writer does not answer.
    """
    reply = _ask(uid, job, {"version": protocol.VERSION, "number": 1, "ask": "where"})
    return [RankPlace.from_json(one) for one in reply["answer"]]


def _ask(uid: str, job: str, request: Request) -> Reply:
    until = time.monotonic() + timeouts.ASK.seconds
    data = bytearray()
    try:
        with socket_at(path_of(uid)) as (connection, address):
            connection.settimeout(timeouts.ASK.seconds)
            connection.connect(address)
            if not is_same_user(connection):
                raise OSError(say.ANOTHER_USER())
            connection.sendall(protocol.write(request))
            while not data.endswith(b"\n"):
                connection.settimeout(max(0.001, until - time.monotonic()))
                piece = connection.recv(1 << 16)
                if not piece or len(data) > protocol.MAX_ANSWER:
                    raise OSError(say.CONNECTION_CLOSED())
                data += piece
        reply: Reply = json.loads(data)
    except TimeoutError:
        raise BackendError(say.SILENT(job=job, seconds=f"{timeouts.ASK.seconds:g}")) from None
    except (OSError, ValueError) as error:
        raise BackendError(say.NOBODY_ANSWERS(job=job, error=error)) from None
    return reply
