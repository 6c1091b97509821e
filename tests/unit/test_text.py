from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_jax_trainer.text import (
    age,
    clip,
    collapse_carriage_returns,
    duration,
    joined,
    metric,
    plain,
    size,
    table,
    version_numbers,
    width,
)

SGR = re.compile(r"\x1b\[[0-9;:]*m")
BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
hostile = st.lists(
    st.one_of(
        st.text(max_size=6),
        st.sampled_from(
            [
                "\x1b[31m",
                "\x1b[0m",
                "\x1b[2J",
                "\x1b[K",
                "\x1b]0;t\x07",
                "\x1b]8;;http://x\x1b\\",
                "\x1bP",
                "\x9b",
                "\x1b",
                "[31m",
                "\x00",
                "\x07",
                "\u202e",
                "\ud800",
                "\r",
                "\b",
                "\n",
                "\t",
            ]
        ),
    )
).map("".join)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.42, "0.4 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.7, "1 m 00 s"),
        (134, "2 m 14 s"),
        (3599, "59 m 59 s"),
        (3900, "1 h 05 m"),
        (93784, "1 d 02 h"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_age_counts_whole_seconds_and_never_below_none():
    assert age(100, now=102.9) == "2 s"
    assert age(100, now=234) == "2 m 14 s"
    assert age(100, now=50) == "0 s"
    assert age(time.time()) == "0 s"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.2 kB"),
        (188_400_000, "188 MB"),
        (999_700, "1 MB"),
        (9_960_000, "10 MB"),
        (5 * 10**21, "5000 EB"),
    ],
)
def test_size(count, text):
    assert size(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (1e-7, "1e-07"),
        (12345.678, "12345.7"),
        (1e12, "1e+12"),
        (3, "3"),
        (float("nan"), "nan"),
        ("warm-up", "warm-up"),
        (True, "True"),
    ],
)
def test_metric(value, text):
    assert metric(value) == text


# ---------------------------------------------------------------------------- hostile text


@given(hostile)
@example("\x1b]0;title\x07\x1b\x1b[31mred")
@example("\x1b[\x1b[31m")
def test_plain_text_has_nothing_left_that_acts(text):
    shown = plain(text)
    rest = SGR.sub("", shown)
    assert "\x1b" not in rest
    assert all(sign >= " " or sign in "\n\t" for sign in rest)
    assert not any("\x7f" <= sign <= "\x9f" for sign in rest)
    assert not BIDI & set(rest)
    shown.encode()
    assert plain(shown) == shown


def test_every_control_character_is_harmless():
    for sign in [chr(code) for code in (*range(32), *range(127, 160))] + sorted(BIDI):
        expected = {"\n": "a\nb", "\t": "a\tb", "\0": "a␀b"}.get(sign)
        shown = plain(f"a{sign}b")
        assert shown == expected if expected else sign not in shown and shown.startswith("a")


@given(st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" \t\n")))
def test_plain_leaves_ordinary_text_alone(text):
    assert plain(text) == text


def test_plain_by_example():
    assert plain("a\x1b[1;31mred\x1b[0m\x00") == "a\x1b[1;31mred\x1b[0m␀"
    assert plain("x\x1b]52;c;ZXZpbA==\x07y\x1b[2Jz\x1b(B!") == "xyz!"
    assert plain("\x1b]0;never ended\nnext") == "\nnext"
    assert plain("caf\u0065\u0301 日本 👩‍🔬") == "caf\u0065\u0301 日本 👩‍🔬"


# ---------------------------------------------------------------------------- carriage returns


def terminal(line: str) -> str:
    cells: list[str] = []
    at = 0
    for sign in line:
        if sign == "\r":
            at = 0
        elif sign == "\b":
            at = max(0, at - 1)
        else:
            cells[at : at + 1] = [sign]
            at += 1
    return "".join(cells)


@given(st.text("ab\r\bcd 1", max_size=60))
def test_carriage_returns_act_as_in_a_terminal(line):
    assert collapse_carriage_returns(line) == terminal(line)


@given(hostile.filter(lambda text: "\r" not in text and "\b" not in text))
def test_a_line_without_them_stays_as_it_is(line):
    assert collapse_carriage_returns(line) == line


@given(hostile)
def test_nothing_is_left_to_move_the_cursor(line):
    assert not set("\r\b") & set(collapse_carriage_returns(line))


def test_progress_bars():
    bar = "".join(f"\r{n:3}%|{'#' * (n // 10):10}|" for n in range(101))
    assert collapse_carriage_returns(bar) == "100%|##########|"
    assert collapse_carriage_returns("long text\rab\x1b[K") == "ab"
    assert collapse_carriage_returns("long text\r\x1b[2Kab") == "ab"
    assert collapse_carriage_returns("done\r") == "done"
    assert collapse_carriage_returns("\x1b[1Aabc\rx\x1b]0;title\x07y") == "xyc"
    coloured = "\x1b[32m##\x1b[0m..\r\x1b[32m###\x1b[0m"
    assert collapse_carriage_returns(coloured) == "\x1b[32m###\x1b[0m."


def test_a_bar_of_many_updates_is_quick():
    line = "\r".join(f"{n} of 1000000" for n in range(200_000))
    began = time.perf_counter()
    assert collapse_carriage_returns(line) == "199999 of 1000000"
    assert time.perf_counter() - began < 5  # quadratic code would take minutes


# ---------------------------------------------------------------------------- tables


def test_a_table_is_aligned_with_numbers_to_the_right():
    text = table([("a", 5, None), ("long-name", 12, "why")], ("NAME", "NODES", "REASON"))
    assert text.splitlines() == [
        "NAME       NODES  REASON",
        "a              5",
        "long-name     12  why",
    ]


def test_wide_characters_and_colours_are_measured_as_shown():
    assert width("日本") == 4
    assert width("\x1b[31mab\x1b[0m") == 2
    assert width("e\u0301") == 1


@given(st.text(max_size=30), st.integers(1, 20))
def test_clipped_text_fits(text, columns):
    cut = clip(plain(text), columns)
    if "\x1b" not in cut:
        assert width(cut) <= columns


cells = st.text(st.characters(exclude_categories=["C"]), max_size=40)


@given(st.lists(st.tuples(cells, cells, st.integers()), max_size=5), st.integers(30, 80))
def test_a_table_stays_within_its_width(rows, columns):
    text = table(rows, ("NAME", "REASON", "N"), columns=columns)
    assert len(text.splitlines()) == len(rows) + 1
    assert all(width(line) <= max(columns, 28) for line in text.splitlines())


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c", "d"], "a, b, c and d"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_words_are_joined_as_in_a_sentence(words, text):
    assert joined(words, most=4) == text
    assert joined(iter("ab"), last="or") == "a or b"


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("2.2.1", (2, 2, 1)),
        ("v0.17.0-rc.1", (0, 17, 0)),
        ("0.7", (0, 7)),
        ("1.2.3.4", (1, 2, 3)),
        ("main", ()),
        ("20240101", ()),
        (None, ()),
    ],
)
def test_versions(version, numbers):
    assert version_numbers(version) == numbers
