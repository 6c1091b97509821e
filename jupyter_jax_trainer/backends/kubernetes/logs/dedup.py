"""Recognise the lines that the cluster sends again after a reconnect."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator

from jupyter_jax_trainer.backends.kubernetes.logs.timestamps import SECOND, since_time, stamp_of
from jupyter_jax_trainer.backends.kubernetes.logs.wal import LINES, STATE, Record, Wal

# When all connections break at once, the windows of all streams are not held in memory together.
_READING = threading.Lock()


class Repeated:
    """The lines that were seen lately: each is recognised as often as it was seen.

    Counting lines would fail after a rotation, and comparing times alone where lines have the
    same one, or where a clock was set back.

    Parameters
    ----------
    wal
        Where the last lines are.
    since
        The time asked for, in seconds.
    """

    def __init__(self, wal: Wal, since: int) -> None:
        self._forgotten = -1  # the newest time of the lines that the wal has no more
        self._newest = -1
        self._met = False
        self._first = True
        records = wal.window()
        first = next(records, None)
        if first is not None and first.kind == STATE:
            _, self._forgotten = json.loads(first.data.partition(b"\0")[0])
        with _READING:
            self._left = Counter(map(hash, self._lines(records, since)))
        self._expected = self._left.total()

    @property
    def over(self) -> bool:
        """Whether no more lines can be expected again."""
        return self._expected == 0

    def _lines(self, records: Iterator[Record], since: int) -> Iterator[bytes]:
        """Yield the lines that the cluster will send again, if it still has them."""
        earliest = since_time(since)[:-1].encode()  # sorts before this second's fractions
        for record in records:
            if record.kind != LINES:
                continue
            last = b""
            for line in record.data.split(b"\n"):
                if line[29:31] == b"Z " and line[19:20] == b".":
                    wanted = line >= earliest
                else:
                    stamp = stamp_of(line)
                    wanted = stamp is not None and stamp >= since * SECOND
                if wanted:
                    last = line
                    yield line
            self._newest = max(self._newest, stamp_of(last) or -1)

    def knows(self, data: bytes) -> bool:
        """Return whether there is a line among whole lines that was seen before."""
        return any(hash(line) in self._left for line in data.split(b"\n"))

    def without(self, lines: bytes) -> bytes:
        """Leave out what was seen before."""
        split = lines.split(b"\n")
        ended = not split[-1]
        if ended:
            split.pop()
        new = []
        for number, line in enumerate(split):
            if self.over:
                new += split[number:]
                break
            if not self._was_seen(line):
                new.append(line)
            self._first = False
        if not new:
            return b""
        # The last one lacks its newline only if the stream ends there.
        return b"\n".join(new) + (b"\n" if ended or new[-1] is not split[-1] else b"")

    def _was_seen(self, line: bytes) -> bool:
        key = hash(line)
        count = self._left.get(key, 0)
        if count:
            self._met = True
            self._expected -= 1
            if count == 1:
                del self._left[key]
            else:
                self._left[key] = count - 1
            return True
        stamp = stamp_of(line)
        if stamp is None:
            # The end of a line that began before the time asked for.
            return self._first
        if not self._met and stamp <= self._forgotten:
            return True  # older than what the wal holds
        if stamp > self._newest + SECOND:
            self._expected = 0  # what was expected is gone: the log was rotated
        return False
