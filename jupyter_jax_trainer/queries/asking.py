"""Ask for what may take long: not longer than a page waits, and not again for some seconds."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.errors import BackendUnavailable, JaxTrainError
from jupyter_jax_trainer.messages import queries as say

T = TypeVar("T")
FRESH = 15.0  # seconds for which an answer is given again


class _Answer:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.began = self.until = 0.0
        self.value: Any = None
        self.error: JaxTrainError | None = None


_answers: dict[Hashable, _Answer] = {}
_answers_lock = threading.Lock()


def in_time(make: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Yield things as they are made, for some seconds.

    Signing in may run a program that waits for somebody, and a request may wait for long: the
    thread that does it is then left to itself.

    Raises
    ------
    BackendUnavailable
        It took too long.
    """
    made: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def work() -> None:
        try:
            for item in make():
                made.put((True, item))
            made.put((False, None))
        except Exception as error:
            made.put((False, error))

    threading.Thread(target=work, daemon=True).start()
    patience = timeouts.PLACES.seconds
    deadline = time.monotonic() + patience
    while True:
        try:
            is_item, found = made.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise BackendUnavailable(say.CLUSTER_TIMED_OUT(seconds=patience)) from None
        if is_item:
            yield found
        elif found is None:
            return
        elif isinstance(found, JaxTrainError):
            again = type(found)(found.message, found.hint)
            again.id = found.id
            raise again
        else:
            raise found


def kept(key: Hashable, make: Callable[[], T], fresh: bool = False) -> T:
    """Return what was made for this key some seconds ago, or make it; an error is kept as well.

    What is asked for as `fresh` is made anew. Of several threads that ask at the same time one
    makes it, and the others wait for it.
    """
    now = time.monotonic()
    with _answers_lock:
        for old in [k for k, answer in _answers.items() if 0 < answer.until < now]:
            del _answers[old]
        answer = _answers.setdefault(key, _Answer())
    with answer.lock:
        if answer.until < time.monotonic() or (fresh and answer.began < now):
            answer.value = answer.error = None
            answer.began = time.monotonic()
            try:
                answer.value = make()
            except JaxTrainError as error:
                answer.error = error
            answer.until = time.monotonic() + FRESH
        if answer.error is not None:
            raise answer.error.with_traceback(None)
        value: T = answer.value
        return value
