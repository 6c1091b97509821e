"""The other end: ask the writer of a job."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.channel import protocol
from jupyter_jax_trainer.channel.protocol import ProfileName, RankPlace, Reply, Request
from jupyter_jax_trainer.channel.sockets import is_same_user, path_of, socket_at
from jupyter_jax_trainer.errors import BackendError, UsageError
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


def run(uid: str, session: str, cell: str, lock: int) -> str | None:
    """Hand a cell to the writer of a session; give why it refuses, if it does.

    Parameters
    ----------
    uid, session
        The session's own id, and its job's name.
    cell
        The name of the cell's job.
    lock
        The open file with the lock of that job; the writer gets it.

    Raises
    ------
    BackendError
        The writer does not answer.
    """
    request: Request = {"version": protocol.VERSION, "number": 1, "ask": "run", "cell": cell}
    return _ask(uid, session, request, [lock]).get("refused")


def restart(uid: str, session: str) -> str | None:
    """Have the ranks of a session restarted; give why that is refused, if it is.

    Raises
    ------
    BackendError
        The writer does not answer.
    """
    request: Request = {"version": protocol.VERSION, "number": 1, "ask": "restart"}
    return _ask(uid, session, request).get("refused")


def prolong(uid: str, session: str, seconds: float | None) -> str | None:
    """Let a session be idle for longer; give why that is refused, if it is.

    Parameters
    ----------
    uid, session
        The session's own id, and its job's name.
    seconds
        From now; 0 for ever, None for as long as its limit is.

    Raises
    ------
    BackendError
        The writer does not answer.
    """
    request: Request = {"version": protocol.VERSION, "number": 1, "ask": "prolong"}
    if seconds is not None:
        request["seconds"] = seconds
    return _ask(uid, session, request).get("refused")


def profile(uid: str, job: str, seconds: float) -> ProfileName:
    """Have a profile taken of all ranks of a job, from now on; don't wait for it.

    Parameters
    ----------
    uid, job
        The own id of the job, or of the session that runs it, and its name.
    seconds
        For how long.

    Raises
    ------
    UsageError
        It is refused.
    BackendError
        The writer does not answer.
    """
    reply = _ask(
        uid,
        job,
        {"version": protocol.VERSION, "number": 1, "ask": "profile", "seconds": seconds},
    )
    if "profile" not in reply:
        raise UsageError(say.NO_PROFILE(job=job, reason=reply.get("refused", say.OLD_WRITER())))
    return reply["profile"]


def _ask(uid: str, job: str, request: Request, files: Sequence[int] = ()) -> Reply:
    until = time.monotonic() + timeouts.ASK.seconds
    data = bytearray()
    try:
        with socket_at(path_of(uid)) as (connection, address):
            connection.settimeout(timeouts.ASK.seconds)
            connection.connect(address)
            if not is_same_user(connection):
                raise OSError(say.ANOTHER_USER())
            line = protocol.write(request)
            if files:
                sent = socket.send_fds(connection, [line], files)
                line = line[sent:]
            connection.sendall(line)
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
