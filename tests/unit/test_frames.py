"""Messages in a stream of text come out again, and the text stays as it was."""

from __future__ import annotations

import base64
import json
import os
import random
import select
import threading
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.worker.pod import frames
from jupyter_jax_trainer.worker.pod.frames import MARK, Decoder, encode

KEY = b"5" * 64
INCARNATION = "0123abcd"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
messages = st.builds(
    lambda kind, rest: {**rest, "kind": kind},
    st.text(min_size=1),
    st.dictionaries(st.text().filter(lambda k: k != "frame"), json_values),
)
# Text that is likely to be mistaken for something.
parts_of_frames = st.sampled_from(
    [
        MARK,
        MARK[:-1],
        b"\x1e",
        b"\r",
        b"\n",
        b"\xff\x00",
        b" 1/1 ",
        b"0123abcd 1 1/1 aaaa",
        MARK + b"0123abcd 1 1/1 aaaa " + b"0" * 32,
        MARK + b"0123abcd 1 1/1 aaaa " + b"0" * 32 + b"\n",
    ]
)
text = st.lists(parts_of_frames | st.binary(max_size=30), max_size=6).map(b"".join)


def read(stream: bytes, decoder: Decoder | None = None) -> tuple[bytes, list[dict[str, Any]]]:
    decoder = decoder or Decoder(KEY, 0)
    kept, found = b"", []
    *lines, rest = stream.split(b"\n")
    for line in lines:
        text, newline, message = decoder.decode(line)
        kept += text + b"\n" * newline
        if message is not None:
            found.append(message)
    return kept + rest, found


def large(frames: int) -> dict[str, Any]:
    """Return a message that makes so many frames."""
    data = random.Random(1).randbytes(2_880 * frames - 1_400)  # base64 leaves zlib 3/4 of itself
    return {"kind": "big", "data": base64.b64encode(data).decode()}


@given(st.lists(st.tuples(text, messages), max_size=5), text)
def test_text_and_messages_come_back_as_they_were(pairs, last):
    stream = b"".join(
        before + b"".join(encode(KEY, 0, INCARNATION, number, message))
        for number, (before, message) in enumerate(pairs, 1)
    )
    kept, found = read(stream + last)
    assert kept == b"".join(before for before, _ in pairs) + last
    assert found == [
        {**message, "frame": [INCARNATION, number]} for number, (_, message) in enumerate(pairs, 1)
    ]


@given(st.lists(text, min_size=7, max_size=7))
def test_text_may_come_between_the_frames_of_one_message(texts):
    message = large(3)
    made = encode(KEY, 0, INCARNATION, 1, message)
    assert len(made) == 3
    stream = b"".join(t + f for t, f in zip(texts, made, strict=False)) + texts[3]
    kept, found = read(stream)
    assert (kept, found) == (b"".join(texts[:4]), [{**message, "frame": [INCARNATION, 1]}])


@given(st.binary(max_size=300) | text, st.sampled_from([KEY, None]))
def test_nothing_raises(line, key):
    Decoder(key, 0).decode(line)


@given(st.data())
@settings(max_examples=300)
def test_a_changed_frame_is_text(data):
    frame = bytearray(encode(KEY, 0, INCARNATION, 1, {"kind": "x"})[0][:-1])
    at = data.draw(st.integers(len(MARK), len(frame) - 1))
    new = data.draw(st.integers(0, 255).filter(lambda b: b != frame[at]))
    frame[at] = new
    assert Decoder(KEY, 0).decode(bytes(frame)) == (bytes(frame), True, None)


def test_a_frame_of_another_key_or_rank_is_text():
    for key, rank in ((b"6" * 64, 0), (KEY, 1)):
        (frame,) = encode(key, rank, INCARNATION, 1, {"kind": "finished"})
        assert read(b"a" + frame) == (b"a" + frame, [])


def test_without_a_key_frames_are_left_out_unread():
    (frame,) = encode(KEY, 0, INCARNATION, 1, {"kind": "finished"})
    assert read(b"50%" + frame + b"60%\n", Decoder(None, 0)) == (b"50%60%\n", [])


def test_frames_fit_an_atomic_write_and_compress():
    size = select.PIPE_BUF
    for message in (large(7), {"kind": "x"}, {"kind": "y", "z": "0" * 10**5}):
        for number in (1, 10**12):
            made = encode(KEY, 10**6, INCARNATION, number, message)
            assert max(map(len, made)) <= frames.MAX_FRAME < size
            assert all(f.startswith(MARK) and f.index(b"\n") == len(f) - 1 for f in made)
    assert len(made) == 1


def test_repeated_frames_are_dropped():
    message = large(7)
    made = encode(KEY, 0, INCARNATION, 1, message)
    more = encode(KEY, 0, INCARNATION, 2, {"kind": "x"})
    # A reader that resumes sees some lines again, within a message as well.
    stream = b"".join(made[:3] + made[1:] + made + more + made + more)
    kept, found = read(stream)
    assert (kept, [m["kind"] for m in found]) == (b"", ["big", "x"])


def test_another_incarnation_begins_anew():
    stream = b"".join(
        encode(KEY, 0, who, 1, {"kind": "hello"})[0] for who in ("0123abcd", "0123abce", "0123abcd")
    )
    assert [m["frame"][0] for m in read(stream)[1]] == ["0123abcd", "0123abce"]


def test_a_reader_goes_on_where_another_stopped():
    made = [b"".join(encode(KEY, 0, INCARNATION, n, large(3))) for n in (1, 2, 3)]
    first = Decoder(KEY, 0)
    read(made[0] + made[1][: len(made[1]) // 2], first)
    assert first.pending
    second = Decoder(KEY, 0)
    second.seen.update(first.seen)
    assert [m["frame"][1] for m in read(b"".join(made), second)[1]] == [2, 3]
    assert not second.pending


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (1, 2, 3), (0, 1, 3), (3,), (0, 1)])
def test_a_message_out_of_order_is_dropped_whole(order):
    made = encode(KEY, 0, INCARNATION, 1, large(4))
    assert len(made) == 4
    stream = b"".join(made[i] for i in order) + encode(KEY, 0, INCARNATION, 2, {"kind": "x"})[0]
    kept, found = read(stream)
    assert (kept, [m["kind"] for m in found]) == (b"", ["x"])


def frame(piece: bytes, part: int = 1, parts: int = 1, number: int = 1) -> bytes:
    body = b"%s %d %d/%d %s" % (INCARNATION.encode(), number, part, parts, piece)
    return MARK + body + b" " + frames._mac(KEY, 0, body)


@pytest.mark.parametrize(
    "piece",
    [
        b"",
        b"a",
        b"====",
        b"aaaa",
        b"eJw=",
        *(
            base64.b64encode(zlib.compress(text))[:3840]
            for text in (
                b"[" * 3_000_000,
                b"[" * 900_000,
                b"[1]",
                b'{"a": 1}',
                b"\xff",
                b"0" * 10_000,
            )
        ),
    ],
)
def test_what_holds_no_message_gives_none(piece):
    assert Decoder(KEY, 0).decode(frame(piece)) == (b"", False, None)


def test_what_is_held_is_bounded():
    decoder = Decoder(KEY, 0)
    tracemalloc.start()
    for part in range(1, 200):
        decoder.decode(frame(b"a" * 3840, part, 999_999))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 100_000 and not decoder.pending
    assert decoder.decode(frame(b"a" * 3840, 1, 17_000)) == (b"", False, None)
    assert decoder.pending  # 62 MiB are taken


def test_decoders_are_quick_about_text():
    """A line without a mark costs next to nothing: it is most of what jobs print."""
    line, decoder = b"x" * 150, Decoder(KEY, 0)
    assert all(decoder.decode(line)[0] is line for _ in range(1_000))


def test_writers_in_threads_do_not_split_frames(tmp_path):
    reader, writer = os.pipe()
    made = [encode(KEY, 0, INCARNATION, n, large(1))[0] for n in range(1, 200)]

    def write(pieces: list[bytes]) -> None:
        for piece in pieces:
            os.write(writer, piece)

    threads = [threading.Thread(target=write, args=(w,)) for w in (made, [b"text\n" * 9] * 200)]
    for thread in threads:
        thread.start()
    stream = b""
    while len(stream) < sum(map(len, made)) + 200 * 45:
        stream += os.read(reader, 1 << 16)
    os.close(reader)
    os.close(writer)
    kept, found = read(stream)
    assert kept == b"text\n" * 1800
    assert [json.dumps(m["frame"][1]) for m in found] == [str(n) for n in range(1, 200)]
