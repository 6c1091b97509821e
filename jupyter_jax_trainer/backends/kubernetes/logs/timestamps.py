"""Timestamps that the kubelet puts before each line of a log: read them, take them off."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

SECOND = 10**9  # nanoseconds, in which all times are counted here
_STAMP = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-]\d\d):(\d\d))(?: |$)"
)
_USUAL = b"0000-00-00T00:00:00.000000000Z "  # what nearly all nodes write, each digit as a 0
_WIDTH = len(_USUAL)
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")


def stamp_of(line: bytes) -> int | None:
    """Return the time at the start of a line in nanoseconds since the epoch; None without one."""
    found = _STAMP.match(line)
    if found is None:
        return None
    zone = UTC
    if found[3]:
        ahead = timedelta(hours=int(found[3][1:]), minutes=int(found[4]))
        if ahead >= timedelta(days=1):
            return None
        zone = timezone(-ahead if found[3].startswith(b"-") else ahead)
    try:
        moment = datetime.fromisoformat(found[1].decode()).replace(tzinfo=zone)
    except ValueError:
        return None
    return round(moment.timestamp()) * SECOND + int((found[2] or b"").ljust(9, b"0"))


def last_stamp(lines: bytes) -> int | None:
    """Return the time of the last line that has one."""
    end = len(lines)
    while end > 0:
        start = lines.rfind(b"\n", 0, end - 1) + 1
        stamp = stamp_of(lines[start : min(end, start + 40)])
        if stamp is not None:
            return stamp
        end = start
    return None


def without_stamps(lines: bytes) -> tuple[bytes, list[bytes]]:
    """Take the timestamps off.

    Parameters
    ----------
    lines
        Whole lines; the last one may lack its newline.

    Returns
    -------
    bytes
        The text.
    list of bytes
        Lines without a timestamp. The container has not written them: the node complains so, and
        gives the end of a line that began before the time asked for.
    """
    split = lines.split(b"\n")
    ended = not split[-1]
    if ended:
        split.pop()
    heads = b"".join([line[:_WIDTH] for line in split])
    if heads.translate(_AS_ZEROS) == _USUAL * len(split):
        text = b"\n".join([line[_WIDTH:] for line in split])
        return (text + b"\n" if ended else text), []
    kept, strays = [], []
    for line in split:
        found = _STAMP.match(line)
        if found is None or stamp_of(line) is None:
            strays.append(line)
        else:
            kept.append(line[found.end() :])
    text = b"\n".join(kept)
    unended = not ended and (not strays or strays[-1] is not split[-1])
    return (text if unended or not kept else text + b"\n"), strays


def since_time(seconds: int) -> str:
    """Write a time as a request wants it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
