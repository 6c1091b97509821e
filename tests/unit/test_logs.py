"""Logs: each line once, however the file grows; long lines cut; one merged order."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import new_rank
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.logs.reader import MAX_LINE, LogReader, MergedReader, is_noise


def directory(tmp_path):
    (tmp_path / "logs").mkdir(exist_ok=True)
    return JobDir(tmp_path)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40), max_size=20))
def test_lines_come_once_however_the_file_grows(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("log") / "rank-0.log"
    reader = LogReader(path, raw=True)
    found = []
    with path.open("ab", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
            found += [line for lines in reader.read() for line in lines]
    found += reader.finish()
    expected = b"".join(pieces).split(b"\n")
    assert found == (expected if expected[-1] else expected[:-1])


def test_a_long_line_is_cut_and_says_how_long_it_was(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"short\n" + b"x" * 5_000_000 + b"\nafter\n")
    lines = [line for lines in LogReader(path).read() for line in lines]
    assert lines[0] == b"short"
    assert lines[2] == b"after"
    assert len(lines[1]) < MAX_LINE + 100
    assert b"cut" in lines[1]


def test_a_line_without_an_end_is_shown_while_it_grows(tmp_path):
    path = tmp_path / "log"
    reader = LogReader(path)
    path.write_bytes(b"one\n 50%")
    assert list(reader.read()) == [[b"one"]]
    assert reader.unfinished == b" 50%"


def test_chatter_is_left_out_but_kept_in_the_file(tmp_path):
    path = tmp_path / "log"
    noise = b"[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"
    torn = noise.replace(b"Rank 0", b"Rank [Gloo] Rank 1") + noise.replace(b"[Gloo] Rank ", b"\n")
    path.write_bytes(noise + b"\n[Gloo] is what I print\n" + torn + b"\n")
    assert is_noise(noise)
    assert [line for lines in LogReader(path).read() for line in lines] == [
        b"[Gloo] is what I print"
    ]
    assert [line for lines in LogReader(path, raw=True).read() for line in lines][0] == noise


def test_what_jax_says_of_its_end_is_left_out(tmp_path):
    """As a rank on a GPU printed it, with jax 0.11.2."""
    said = (
        b"5 steps\n"
        b"W1126 16:01:57.892925     604 pjrt_client.cc:1605] WatchTasksAsync failed for task 0\n"
        b"Additional GRPC error information from remote target coordination_service while calling "
        b"/xla.coordination.CoordinationService/WatchTasks:\n"
        b":CANCELLED:CANCELLED [type.googleapis.com/tensorflow.DerivedStatus='']\n"
        b"=== Source Location Trace: === \n"
        b"external/xla+/xla/tsl/distributed_runtime/rpc/grpc_util.h:89\n"
    )
    path = tmp_path / "log"
    path.write_bytes(said)
    assert [line for lines in LogReader(path).read() for line in lines] == [b"5 steps"]
    assert len([line for lines in LogReader(path, raw=True).read() for line in lines]) == 6


def test_the_merged_order_is_that_of_the_index(tmp_path):
    job = directory(tmp_path)
    job.log(0).write_bytes(b"a\nd\n")
    job.log(1).write_bytes(b"b\nc\ne\n")
    index = [[0, 2, 1.0], [1, 4, 2.0], [0, 4, 3.0]]
    job.log_index.write_text("".join(json.dumps(line) + "\n" for line in index))
    reader = MergedReader(job, [0, 1])
    lines = [*reader.read()]
    assert [(line.text, line.time) for line in lines] == [
        ("a", 1.0),
        ("b", 2.0),
        ("c", 2.0),
        ("d", 3.0),
    ]
    assert [line.text for line in reader.finish()] == ["e"]


def test_lines_are_indexed_as_wholes_and_one_without_an_end_after_a_moment(tmp_path, monkeypatch):
    job, now = directory(tmp_path), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    record = Recorder(job, [new_rank(0)])

    def indexed(more, later=0.0):
        with job.log(0).open("ab") as log:
            log.write(more)
        now[0] += later
        record.index_logs()
        return [end for _, end, _ in map(json.loads, job.log_index.read_text().splitlines())]

    assert indexed(b"a\n") == [2]
    assert indexed(b"b\nc", 0.05) == [2, 4]
    assert indexed(b"d\ne", 0.05) == [2, 4, 7]
    assert indexed(b"", 0.05) == [2, 4, 7]
    assert indexed(b"", 0.2) == [2, 4, 7, 8]
    assert [line.text for line in MergedReader(job, [0]).read()] == ["a", "b", "cd"]


def test_other_containers_have_logs_of_their_own(tmp_path):
    job = directory(tmp_path)
    job.log(0).write_bytes(b"a\n")
    job.log("rank-0.proxy").write_bytes(b"b\nc\n")
    index = [["rank-0.proxy", 2, 1.0], [0, 2, 2.0], ["rank-0.proxy", 4, 3.0], [None, 1, 2.0], ["x"]]
    job.log_index.write_text("".join(json.dumps(line) + "\n" for line in index))
    assert job.containers() == ["rank-0.proxy"]
    found = [*MergedReader(job, ["rank-0.proxy"]).finish()]
    assert [(line.text, line.time, line.rank) for line in found] == [
        ("b", 1.0, None),
        ("c", 3.0, None),
    ]
    assert [line.text for line in MergedReader(job, [0]).finish()] == ["a"]


def test_bytes_that_are_no_text_are_replaced(tmp_path):
    job = directory(tmp_path)
    job.log(0).write_bytes(b"caf\xc3\xa9 \xff\xfe\n")
    assert [line.text for line in MergedReader(job, [0]).finish()] == ["café ��"]


def test_a_long_line_says_how_much_of_it_was_cut_once(tmp_path):
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"y" * 300_000 + b"\nz\n" + b"x" * (3 << 20) + b"\nend\n")
    lines = [line for lines in LogReader(path).read() for line in lines]
    assert lines[0][MAX_LINE:] == b" ... (%d bytes more, cut)" % (300_000 - MAX_LINE)
    assert lines[2][MAX_LINE:] == b" ... (%d bytes more, cut)" % ((3 << 20) - MAX_LINE)
    assert lines[1::2] == [b"z", b"end"]
