"""Follows the log of one attempt of a container, from its first line to its last, into a spool."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import httpbody, rights
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.api.counts import COUNTS
from jupyter_jax_trainer.backends.kubernetes.logs.spool import Spool
from jupyter_jax_trainer.messages import follow as say

_RANDOM = random.Random()  # the global one is the notebook's, which may have seeded it
_GATHER = 0.03  # seconds in which small pieces are let become one
_SMALL = 16 << 10
_BEGINNING = 4096  # bytes by which the last line is known again
# Seconds between one try and the next: after an error, of a container that has not started, and of
# a log that may not be read.
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
_STARTING_WAIT = 0.2
_FORBIDDEN_WAIT = 30.0
# Seconds after the last piece of a log until its end is read once more: a container counts as ended
# while its node still writes down what it printed last.
_SETTLES = 0.5
_SETTLES_AFTER_LAST_WORD = 0.1  # of a worker, which prints nothing after it


class _NotWrittenError(Exception):
    """The spool could not write, or the message handler failed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a container.

    Attributes
    ----------
    pod, uid
        The pod's name and uid.
    container
        The container's name; an init container's, too.
    number
        Its restart count: how many attempts came before.
    """

    pod: str
    uid: str
    container: str
    number: int = 0

    @property
    def stream(self) -> str:
        """The name of its stream."""
        return f"{self.uid}-{self.container}-{self.number}"


class LogStream(threading.Thread):
    """Reads the log of an attempt until it is over, whatever happens to connections.

    Parameters
    ----------
    client
        The cluster.
    spool
        Where the log goes; it is closed when all of it has come.
    attempt
        Whose log.
    is_over
        Tells whether the attempt is known to have ended: its container terminated, or started
        again, or its pod gone. May be called in this thread at any time.
    on_problem
        Called with a sentence about what stands in the way, once for each.
    ended_well
        Tells whether it is known that a worker has ended by itself, without an error.

    Attributes
    ----------
    finished
        Whether the log is over, and this has nothing more to do.
    complete
        Whether its end was read, too; not if the cluster did not have it any more.
    refused
        Whether the right to read it was missing.
    """

    def __init__(
        self,
        client: Client,
        spool: Spool,
        attempt: Attempt,
        is_over: Callable[[], bool],
        on_problem: Callable[[str], None],
        ended_well: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(name=f"log of {attempt.stream}", daemon=True)
        self.finished = False
        self.complete = False
        self.refused = False
        self._client = client
        self._spool = spool
        self._attempt = attempt
        self._is_over = is_over
        self._on_problem = on_problem
        self._ended_well = ended_well
        self._said: set[str] = set()
        self._wait = _FIRST_WAIT
        self._stopped = False
        self._woken = threading.Event()
        self._guard = threading.Lock()
        self._response: Any = None
        self._over_since: float | None = None
        self._fed_at = 0.0
        self._last = b""
        self._connected = False  # ever
        self._rest: bytes | None = None  # a last line without its end, when all else was read
        self._was_previous = False  # which log that was

    def wake(self) -> None:
        """Look again at once: the attempt may have ended."""
        self._woken.set()

    def stop(self) -> None:
        """End soon; another stream can go on where this one was. Join the thread after it."""
        with self._guard:
            self._stopped = True
            if self._response is not None:
                httpbody.interrupt(self._response)
        self._woken.set()

    def run(self) -> None:
        """Read until the attempt is over and all of its log is written, or `stop`."""
        while not self._stopped and not self.finished:
            self._woken.clear()
            over = self._is_over()  # before the request: what it gives then is all
            if over and self._over_since is None:
                self._over_since = time.monotonic()
            try:
                wait = self._once(over)
            except ApiError as error:
                wait = self._refused(error, over)
            except _NotWrittenError as error:
                self._problem(str(error))
                if isinstance(error.__cause__, FileNotFoundError):
                    return  # the job's directory was deleted
                wait = self._later(error)
            except Exception as error:  # urllib3, http.client and ssl have many
                wait = self._later(error)
            if not self.finished and not self._stopped:
                self._woken.wait(wait)

    def _once(self, over: bool) -> float:
        """Read one connection to its end; give the seconds to wait before the next."""
        if over and self._rest is not None and self._is_settled():
            self._give_up()
            return 0.0
        later = self._later_attempts() if over else 0
        if later not in (0, 1):
            self._give_up()
            return 0.0
        previous = later == 1
        with _writing():
            since = self._spool.begin(last=over)
        more = {} if since is None else {"sinceTime": since}
        if not previous and not over:
            more["follow"] = "true"
        began = time.monotonic()
        response = self._open(previous, **more)
        COUNTS.add("reconnects_total", int(self._connected), 'what="log"')
        self._connected = True
        try:
            with self._guard:
                self._response = response
                if self._stopped:
                    return 0.0
            ours = self._read(response, previous)
        finally:
            with self._guard:
                self._response = None
            with contextlib.suppress(Exception):
                response.close()
        if ours and over and not self._stopped:
            settled_at = max(self._over_since or 0.0, self._fed_at) + self._settles
            if began < settled_at:
                self._rest, self._was_previous = self._spool.take_unfinished(), previous
                return max(0.0, settled_at - time.monotonic())
            with _writing():
                self._spool.finish()
            self._end(complete=True)
        wait = self._wait
        self._wait = min(2 * wait, _LONGEST_WAIT)
        return wait

    def _open(self, previous: bool, **more: str) -> Any:
        """Ask for the log."""
        query = {"container": self._attempt.container, "timestamps": "true", **more}
        if previous:
            query["previous"] = "true"
        path = self._client.core("pods", self._attempt.pod, "log")
        return self._client.open(path, query, timeouts.LOG_SILENCE.seconds)

    def _read(self, response: Any, previous: bool) -> bool:
        """Feed what comes; tell whether it was this attempt's log, and came to a clean end."""
        held: bytes | None = b""  # until it is sure whose log this is
        for data in httpbody.pieces(response):
            self._note_last(data)
            if held is not None:
                held += data
                if b"\n" not in held and len(held) < httpbody.PIECE:
                    continue
                if not self._spool.knows(held) and not self._is_ours(previous):
                    return False
                data, held = held, None
            self._feed(data)
            if self._stopped:
                return False
            if len(data) < _SMALL:
                time.sleep(_GATHER)
        if held:
            if not self._is_ours(previous):
                return False
            self._feed(held)
        return True

    def _feed(self, data: bytes) -> None:
        with _writing():
            if self._spool.feed(data):
                self._wait, self._fed_at = _FIRST_WAIT, time.monotonic()

    @property
    def _settles(self) -> float:
        if self._spool.had_last_word:
            return _SETTLES_AFTER_LAST_WORD
        # Of a worker that ended well the last word has to come.
        return timeouts.LOG_END.seconds if self._ended_well() else _SETTLES

    def _note_last(self, data: bytes) -> None:
        """Keep the beginning of the last line, finished or not."""
        at = data.rfind(b"\n", 0, -1) + 1
        first = b"" if at or self._last.endswith(b"\n") else self._last
        self._last = (first + data[at : at + _BEGINNING])[:_BEGINNING]

    def _is_settled(self) -> bool:
        """Return whether the last line of the log is still that which came last.

        With its time, it is no other attempt's: whose log that is need not be asked first.
        """
        try:
            response = self._open(self._was_previous, tailLines="1")
        except ApiError:
            return False
        try:
            last = b"".join(httpbody.pieces(response))
        finally:
            with contextlib.suppress(Exception):
                response.close()
        return bool(last) and last[:_BEGINNING] == self._last

    def _give_up(self) -> None:
        """Give up on a log that the cluster no longer has, or does not return."""
        if self._rest is not None:  # all was read, and no more came: it has only not settled
            with _writing():
                self._spool.feed(self._rest)
                self._spool.finish()
        self._end(complete=self._rest is not None)

    def _end(self, complete: bool) -> None:
        """Be done with the log."""
        if complete and self._ended_well() and not self._spool.had_last_word:
            self._problem(say.NO_END_MARKER(log=say.POD(pod=self._attempt.pod)))
        with contextlib.suppress(OSError):  # then the next follower finds the end again
            self._spool.close()
        self.complete = complete
        self.finished = True

    # -- whose log it is ---------------------------------------------------------------------

    def _later_attempts(self) -> int | None:
        """Return how many attempts have come after this one.

        Asked for each time: what a watch tells may be old by now. 0 where it can't be had, None
        when the pod is gone and another has its name.
        """
        try:
            pod = self._pod()
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.status == 403:
                self._problem(rights.find(error.verb, error.resource).lack)
            return 0
        if pod.get("metadata", {}).get("uid") != self._attempt.uid:
            return None
        status = pod.get("status", {})
        for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
            for found in status.get(kind) or ():
                if found.get("name") == self._attempt.container:
                    return max(0, int(found.get("restartCount", 0)) - self._attempt.number)
        return 0

    def _is_ours(self, previous: bool) -> bool:
        """Return whether the log that is open belongs to this attempt.

        A container that was started again has another log under the same name.
        """
        return self._later_attempts() == int(previous)

    def _is_gone(self) -> bool:
        """Return whether the pod is gone.

        "Not found" says it of the pod, or a kubelet that has just been started again says it of
        a pod that it does not know yet.
        """
        try:
            pod = self._pod()
        except ApiError as error:
            return error.status == 404
        except Unreachable:
            return False
        return bool(pod.get("metadata", {}).get("uid") != self._attempt.uid)

    def _pod(self) -> dict[str, Any]:
        return self._client.request("GET", self._client.core("pods", self._attempt.pod))

    # -- what stands in the way ----------------------------------------------------------------

    def _refused(self, error: ApiError, over: bool) -> float:
        """Deal with an answer that is none; give the seconds to wait."""
        if error.status == 404 and self._is_gone():
            self._give_up()
        elif error.status == 400:
            # It has not started yet, or never will; or the log of the previous one is gone.
            if not over:
                return _STARTING_WAIT
            late = self._tried_for(timeouts.LOG_END.seconds)
            if late or "waiting to start" in error.message:
                self._give_up()
        elif error.status == 403:
            self.refused = True
            self._problem(rights.find(error.verb, error.resource).lack)
            if not over:
                return _FORBIDDEN_WAIT
            self._give_up()
        return self._later(error)

    def _later(self, error: Exception) -> float:
        """Return the seconds to wait after an error, more each time; give up in the end."""
        if self._tried_for(timeouts.LOG.seconds) and not self.finished:
            self._problem(say.LOG_END_UNREADABLE(error=error))
            self._give_up()
        wait = self._wait * _RANDOM.uniform(0.5, 1.5)
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
        return wait

    def _tried_for(self, seconds: float) -> bool:
        since = self._over_since
        return since is not None and time.monotonic() - since > seconds

    def _problem(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._on_problem(text)


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Turn errors in writing into `_NotWrittenError`, to tell them from errors in reading."""
    try:
        yield
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise _NotWrittenError(say.LOG_NOT_WRITTEN(error=words)) from error
