r"""Find the lines of a text that match, by plain words or by RE2's regular expressions.

Both take time in proportion to the text, whatever the pattern: a page must not be able to keep the
server busy with a few characters.

What is matched is what people see: UTF-8 with broken bytes replaced, without colours, and without
the ``\r`` of an ``\r\n``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import queries as say

LONGEST = 1_000  # characters of a pattern
LOOKED_AT = 4096  # characters of a text in which matches are told
_MOST = 50  # matches of a text that are told
_MEMORY = 8 << 20  # bytes that RE2 may use for one of the three programs of a pattern
_MANY = 4  # lines in a row that match, for which looking for runs is faster
_SET = re.compile(rb"\x01+")
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)|\\(.)", re.DOTALL)


def visible(text: bytes) -> bytes:
    """Return text as people see it; lines stay lines."""
    if b"\r" in text and b"\r\n" in text:  # one byte is looked for much faster than two
        text = text.replace(b"\r\n", b"\n")
    if b"\x1b" in text:
        text = _COLOUR.sub(b"", text)
    return text if text.isascii() else text.decode(errors="replace").encode()


class Pattern:
    """What to look for in lines.

    Parameters
    ----------
    pattern
        Words, or a regular expression.
    regex
        Whether it is a regular expression, in RE2's syntax. It sees one line.
    case
        Whether upper and lower case differ.

    Raises
    ------
    UsageError
        It is empty, too long, or not valid; or RE2 is not installed.
    """

    def __init__(self, pattern: str, regex: bool = False, case: bool = False) -> None:
        if not pattern:
            raise UsageError(say.NO_PATTERN())
        if len(pattern) > LONGEST:
            raise UsageError(say.PATTERN_TOO_LONG(count=len(pattern), most=LONGEST))
        if "\n" in pattern or "\r" in pattern:
            raise UsageError(say.LINE_BREAK_IN_PATTERN())
        self._case = case
        self._alone: Any
        self._words: bytes | None = None
        if regex:
            self._alone, self._line, self._run = _compile(pattern, case)
        else:
            self._alone = re.compile(re.escape(pattern), re.NOFLAG if case else re.IGNORECASE)
            # A lone surrogate is no text; it matches nothing.
            words = pattern if case else pattern.casefold()
            self._words = words.encode(errors="surrogatepass")
        self._ascii = pattern.isascii()
        self._in_runs = False

    def any(self, text: bytes) -> bool:
        """Return whether a line matches, in text as `visible` gives it."""
        if self._words is None:
            return self._line.search(text) is not None
        return self._words in self._folded(text)

    def runs(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Return the lines that match, as runs of line numbers, begin and end, in `visible` text.

        All lines of the text have an end.
        """
        return self._regex_runs(text) if self._words is None else self._word_runs(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return begin and end of the first matches in a text, in units of UTF-16, as pages count.

        Nothing is told of what comes after its first characters.
        """
        # Half a character, as a page may cut it out, becomes a sign that counts as much.
        text = text[:LOOKED_AT].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        # What may match nothing could do so at each place, each time after a look at all the rest.
        found = (match.span() for match in islice(self._alone.finditer(text), 4 * _MOST))
        some = list(islice((span for span in found if span[0] < span[1]), _MOST))
        if text and max(text) > "\uffff":
            some = [(_units(text[:begin]), _units(text[:end])) for begin, end in some]
        return some

    def _folded(self, text: bytes) -> bytes:
        if self._case:
            return text
        if self._ascii and text.isascii():
            return text.lower()
        return text.decode(errors="replace").casefold().encode()

    def _word_runs(self, text: bytes) -> Iterator[tuple[int, int]]:
        words = self._words
        assert words is not None
        lines = self._folded(text).split(b"\n")
        del lines[-1]
        # Faster than to go from match to match where there are many of them.
        hits = bytes([words in line for line in lines])
        return (found.span() for found in _SET.finditer(hits))

    def _regex_runs(self, text: bytes) -> Iterator[tuple[int, int]]:
        line, begin, hits, gaps = 0, 0, 0, 1
        count_of, length = text.count, len(text)
        for match in (self._run if self._in_runs else self._line).finditer(text):
            start, end = match.span()
            if start == length:
                break
            if start < begin:
                continue  # nothing, found at the end of a line that matched already
            before = count_of(b"\n", begin, start)
            if self._in_runs:
                begin, count = end, count_of(b"\n", start, end)
            else:
                begin, count = end + 1, 1  # a match ends before its line's newline
            line += before
            yield line, line + count
            line += count
            gaps += before > 0
            hits += count
        # Matches of single lines are found faster alone, and those of many in a row as one.
        self._in_runs = hits > _MANY * gaps


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _compile(pattern: str, case: bool) -> tuple[Any, Any, Any]:
    """Make what finds a match, one line that has one, and as many in a row as there are."""
    try:
        import re2
    except ImportError:
        raise UsageError(say.NO_RE2()) from None
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    options.case_sensitive = case
    options.never_nl = True  # a match stays within a line
    options.never_capture = True  # without groups RE2 is many times faster
    try:
        alone = re2.compile(pattern, options)  # before something around it can make it valid
        body = _QUOTED.sub(_for_lines, pattern)
        line = re2.compile(f"(?m:(?:{body}).*)", options)
        # \C is any byte: after the end of a line that is its newline, which nothing else matches.
        run = re2.compile(rf"(?m:^.*(?:{body}).*$\C)+", options)
    except (re2.error, UnicodeEncodeError) as error:
        raise UsageError(say.BAD_PATTERN(error=_words(error))) from None
    finally:
        re2.purge()  # it would keep the last 128, each with some megabytes
    return alone, line, run


def _for_lines(match: re.Match[str]) -> str:
    r"""Make of one escape what means the same for a line in a text as for the line alone."""
    if match[2] is None:
        return re.escape(match[1])
    return {"A": "^", "z": "$", "C": "."}.get(match[2], match[0])


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else error
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return text.rstrip(".")[:300]
