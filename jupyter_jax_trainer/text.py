"""Text for people: spans of time, sizes, tables, and log lines made harmless."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable, Sequence

from jupyter_jax_trainer.messages import jobs as say

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Each matches a whole escape sequence, so that no part of one is left behind as text.
_SEQUENCE = (
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x9c|\x1b\\)?"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x9c|\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: the cursor, erasing
    r"|\x1b[ -/]*[0-~]?"
)
_COLOUR = r"\x1b\[[0-9;:]{0,64}m"
_COLOURS = re.compile(_COLOUR)
_HARMFUL = re.compile(
    rf"(?P<colour>{_COLOUR})|{_SEQUENCE}|(?P<nul>\x00)|(?P<surrogate>[\ud800-\udfff])"
    rf"|[\x01-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}]"
)
_CURSOR = re.compile(
    rf"(?P<colour>{_COLOUR})|\x1b\[(?P<erase>[0-2]?)K|(?P<move>[\r\b])|{_SEQUENCE}"
    r"|(?P<text>[^\x1b\r\b\x90\x98\x9b\x9d-\x9f]+)"
)
_MOVES = re.compile(r"[\r\b]")
RED, GREEN, RESET = "\x1b[31m", "\x1b[32m", "\x1b[0m"
_STYLES = 16
MAX_REASON = 500  # characters of a reason that are shown
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*%?")


def duration(seconds: float) -> str:
    """Return a span of time as people say it: ``0.4 s``, ``14 s``, ``2 m 14 s``, ``1 h 05 m``."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = int(seconds + 0.5) if seconds < 60 else int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} m"
    return f"{hours // 24} d {hours % 24:02d} h"


def span(seconds: float) -> str:
    """Return a span of time without its last part where that is zero: ``30 m``, ``1 h``."""
    return duration(seconds).removesuffix(" 00 s").removesuffix(" 00 m").removesuffix(" 00 h")


def age(since: float, now: float | None = None) -> str:
    """Return how long ago a time was, in whole seconds at the finest."""
    seconds = int(max(0.0, (time.time() if now is None else now) - since))
    return f"{seconds} s" if seconds < 60 else duration(seconds)


def size(count: float) -> str:
    """Return a number of bytes in decimal units with two or three digits: ``188 MB``."""
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    value, unit = float(max(0, count)), 0
    while unit < len(units) - 1 and value >= 999.5:
        value, unit = value / 1000, unit + 1
    text = f"{value:.1f}" if unit and value < 9.95 else f"{value:.0f}"
    return f"{text.removesuffix('.0')} {units[unit]}"


def memory(count: float) -> str:
    """Return a number of bytes in binary units, as memory is counted: ``15.8 GiB``, ``16 GiB``."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    value, unit = float(max(0, count)), 0
    while unit < len(units) - 1 and value >= 999.5:
        value, unit = value / 1024, unit + 1
    text = f"{value:.1f}" if unit and value < 99.95 else f"{value:.0f}"
    return f"{text.removesuffix('.0')} {units[unit]}"


def metric(value: object) -> str:
    """Return a metric's value in at most five significant digits; whole numbers as they are."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 or abs(value) >= 1e7 else f"{value:.1f}"
    return str(value)


def joined(words: Iterable[str], *, most: int | None = None, last: str = "and") -> str:
    """Return words as a list in a sentence: ``a``, ``a and b``, ``a, b and c``.

    Parameters
    ----------
    words
        What is listed.
    most
        Of more words than that, one fewer are listed, and how many more there are is said.
    last
        The word before the last one.
    """
    listed = list(words)
    if most is not None and len(listed) > most:
        shown = listed[: most - 1]
        return f"{', '.join(shown)} {last} {len(listed) - len(shown):,} more"
    return f" {last} ".join(part for part in (", ".join(listed[:-1]), *listed[-1:]) if part)


def counted(count: int, noun: str) -> str:
    """Return a number of things: ``1 job``, ``2 jobs``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def ranks_text(ranks: Iterable[int]) -> str:
    """Name ranks: ``rank 1``, ``ranks 0, 2 and 3``, ``ranks 1 to 63``."""
    listed = sorted(ranks)
    if len(listed) == 1:
        return f"rank {listed[0]}"
    if len(listed) > 8 and not _is_run(listed):
        return f"{len(listed)} ranks"
    return f"ranks {numbers_text(listed)}"


def numbers_text(numbers: Sequence[int]) -> str:
    """List numbers in their order: ``0, 2 and 3``, ``1 to 63``, and how many more than eight."""
    if _is_run(numbers):
        return f"{numbers[0]} to {numbers[-1]}"
    return joined(map(str, numbers), most=8)


def runs_text(numbers: Iterable[int]) -> str:
    """List numbers as runs, for a table: ``0-2, 5``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _is_run(numbers: Sequence[int]) -> bool:
    return len(numbers) > 4 and list(numbers) == list(range(numbers[0], numbers[-1] + 1))


def version_numbers(text: str | None) -> tuple[int, ...]:
    """Return the two or three numbers that a version begins with; none if it is not a version."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    return tuple(int(part) for part in found.groups() if part) if found else ()


def plain(text: str) -> str:
    """Make text from a job harmless to show.

    Colours stay (SGR sequences), and newlines and tabs. Every other escape sequence, control
    character and bidi control goes; a NUL is shown as ``␀``.
    """
    return text if text.isprintable() else _HARMFUL.sub(_harmless, text)


def _harmless(match: re.Match[str]) -> str:
    if match["colour"]:
        return match["colour"]
    return "␀" if match["nul"] else "\N{REPLACEMENT CHARACTER}" if match["surrogate"] else ""


def one_line(text: object) -> str:
    """Make text harmless and one line, without its colours."""
    return " ".join(uncoloured(str(text)).split("\n"))


def uncoloured(text: str) -> str:
    """Make text harmless as `plain` does, without its colours: they could hide what follows."""
    return _COLOURS.sub("", plain(text))


def closed(line: str) -> str:
    """Return a line, with a reset at its end if it may have left a colour on."""
    return line + RESET if "\x1b" in line and not line.endswith(RESET) else line


def collapse_carriage_returns(line: str) -> str:
    r"""Return a line as a terminal shows it in the end: what follows ``\r`` overwrites.

    Backspaces and "erase to the end of the line" count, too, since progress bars use them.
    """
    if not _MOVES.search(line):
        return line
    cells: list[tuple[str, tuple[str, ...]]] = []
    style: tuple[str, ...] = ()
    at = 0
    for part in _CURSOR.finditer(_last_layers(line)):
        if text := part["text"]:
            cells += [(" ", ())] * (at - len(cells))
            cells[at : at + len(text)] = [(sign, style) for sign in text]
            at += len(text)
        elif part["move"]:
            at = 0 if part["move"] == "\r" else max(0, at - 1)
        elif colour := part["colour"]:
            # The bound keeps a line of nothing but colours from costing the square of its length.
            style = () if colour in ("\x1b[m", RESET) else (*style, colour)[-_STYLES:]
        elif part["erase"] in ("", "0"):
            cells = cells[:at]
        elif part["erase"] == "2":
            cells = []
    return _drawn(cells)


def _last_layers(line: str) -> str:
    """Leave out what is overwritten whole, so that a long-lived progress bar costs little."""
    kept: list[str] = []
    covered = -1
    for segment in reversed(line.split("\r")):
        simple = "\x1b" not in segment and "\b" not in segment
        if simple and len(segment) <= covered:
            continue
        kept.append(segment)
        if simple:
            covered = len(segment)
    return "\r".join(reversed(kept))


def _drawn(cells: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    pieces: list[str] = []
    current: tuple[str, ...] = ()
    for sign, style in cells:
        if style != current:
            pieces.append((RESET if current else "") + "".join(style))
            current = style
        pieces.append(sign)
    return "".join(pieces) + (RESET if current else "")


_TRACEBACK = (
    (re.compile(r'^  (?:File "[^"]*"|Cell[^,]*), line \d+'), GREEN),
    (re.compile(r"^ *[~^]+$"), RED),
    (re.compile(r"^[A-Za-z_][\w.]*(?=$|: )"), RED),
)
_TRACEBACK_BEGINS = "Traceback (most recent call last):\n"


def coloured(text: str) -> list[str]:
    """Return the lines of a formatted failure, its traceback coloured as in IPython."""
    head, begin, rest = plain(text).partition(_TRACEBACK_BEGINS)
    lines = rest.splitlines()
    for pattern, colour in _TRACEBACK:
        lines = [pattern.sub(rf"{colour}\g<0>{RESET}", line) for line in lines]
    return [*(head + begin).splitlines(), *lines]


def width(text: str) -> int:
    """Return the columns that text takes in a terminal, colours not counted."""
    text = _HARMFUL.sub("", text) if "\x1b" in text else text
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def clip(text: str, columns: int) -> str:
    """Cut text to a number of columns, with an ellipsis where something was cut."""
    if width(text) <= columns:
        return text
    taken = ""
    for sign in text:
        if width(taken) + width(sign) > columns - 1:
            break
        taken += sign
    return taken + "…" if columns > 0 else ""


def shorten(text: str, most: int, rest: str = "") -> str:
    """Cut text that is longer than `most` characters, say so, and say where the rest is.

    The beginning stays and, of several lines, some of the end.
    """
    if len(text) <= most:
        return text
    cut = f"({say.LEFT_OUT(count=len(text) - most)}{rest and f'; {rest}'})"
    if "\n" not in text:
        return f"{text[:most]} … {cut}"
    head, tail = text[: most * 3 // 4], text[len(text) - most // 4 :]
    return f"{head} …\n{cut}\n… {tail}"


def table(
    rows: Iterable[Sequence[object]], headers: Sequence[str], columns: int | None = None
) -> str:
    """Lay out rows under headers; numbers stand to the right.

    Parameters
    ----------
    rows, headers
        The cells; None is an empty one.
    columns
        Width to stay within: the widest columns of text are cut, never below eight.
    """
    cells = [["" if cell is None else uncoloured(str(cell)) for cell in row] for row in rows]
    values = [list(row) for row in zip(list(headers), *cells, strict=True)]
    widths = [max(map(width, column)) for column in values]
    if columns is not None:
        widths = [min(space, columns) for space in widths]
    right = [
        len(column) > 1
        and all(_NUMBER.fullmatch(cell) for cell in column[1:] if cell)
        and any(column[1:])
        for column in values
    ]
    while columns is not None and sum(widths) + 2 * (len(widths) - 1) > columns:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= 8:
            break
        widths[widest] -= 1
    lines = []
    for row in [list(headers), *cells]:
        parts = []
        for cell, space, to_right in zip(row, widths, right, strict=True):
            cut = clip(" ".join(cell.split()), space)
            gap = " " * (space - width(cut))
            parts.append(gap + cut if to_right else cut + gap)
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)
