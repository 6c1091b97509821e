"""Nothing that is printed is lost, doubled or moved, or it is said how much: on a real cluster."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from harness import eventually, pattern, text, wait_for_text

from cluster.faults import LONG_S, require_own
from cluster.jobs import followers, run, stop_followers, submit
from cluster.kubernetes_cluster import Cluster
from jupyter_jax_trainer.backends.kubernetes.submit import launch
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.messages import follow as say

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NUMBERED = """
import time
began = time.monotonic()
for number in range({lines}):
    print("line", number)
    if number % 100 == 99:
        time.sleep(max(0, began + number * {seconds} / {lines} - time.monotonic()))
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("pods", "lines", "seconds", "most"),
    [(3, 5_000, 25, 6), pytest.param(8, 20_000, 40, 20, marks=pytest.mark.release)],
    ids=["some", "many"],
)
def test_a_follower_that_is_killed_again_and_again_loses_and_doubles_nothing(
    place, store, pods, lines, seconds, most
):
    cell = NUMBERED.format(lines=lines, seconds=seconds)
    job = submit(cell, place, f"-n {pods} --cpu 10m")
    wait_for_text(job, "line 99")
    rng = random.Random(1)
    kills = 0
    while job.active and kills < most:
        launch.start_follower(job.manifest["plan"])
        eventually(lambda: followers(store) or not job.active)
        time.sleep(rng.uniform(0.1, 1.5))
        for pid in followers(store):
            os.kill(pid, signal.SIGKILL)
            kills += 1
    during = job.active
    job.wait(LONG_S)
    assert during and kills >= most, f"only {kills} kills fell into the job's time"
    wanted = "".join(f"line {number}\n" for number in range(lines))
    for rank in range(pods):
        assert (job.directory / "logs" / f"rank-{rank}.log").read_text() == wanted, rank
    assert not [event for event in job.events() if event["kind"] in ("gap", "warning")]
    assert not (job.directory / "logs" / ".wal").exists()


def test_a_job_that_ends_within_a_second_is_told_whole(place):
    job = run(
        "from jupyter_jax_trainer import report\nreport(1, 1, loss=2.5)\nfor i in range(500): print(i)\n"
        "made = list(range(10))",
        place,
        "-o made",
    )
    assert text(job).split() == [str(i) for i in range(500)]
    assert job.result("made") == list(range(10))
    assert [entry["values"] for entry in job.metrics()] == [{"loss": 2.5}]
    assert (job.ranks[0].state, job.ranks[0].exit in (0, None)) == ("Finished", True)


def test_a_job_that_ends_while_no_follower_lives_is_told_whole(place, store, namespace):
    job = submit("for i in range(500): print(i)\nmade = 7", place, "-o made")
    eventually(lambda: followers(store))
    stop_followers(store)
    namespace.until_condition(job.name, "Complete", LONG_S)
    assert job.wait(30).result("made") == 7
    assert text(job).split() == [str(i) for i in range(500)]


# ---- rotation

LOST = re.compile(
    pattern(f"[jaxtrain: {say.LINES_LOST_HERE(lines='LINES')}]", LINES=r"(\d+) lines?")
)
WHOLE = re.compile(r"line (\d+) x{80}")


def added_up(job: Job, printed: int) -> int:
    """Check that no line is missing but those that are said to be, there; give how many.

    What is missing just before a marker shows in the next whole line alone. Of a line that was cut by
    the loss a part may be there: it counts as seen, though it isn't whole.
    """
    torn = said = missing = expected = 0
    marker = ""
    for line in (job.directory / "logs" / "rank-0.log").read_text().splitlines():
        if lost := LOST.fullmatch(line):
            marker = line
            said += int(lost[1])
            assert missing - said <= torn, f"{marker}, and {missing} are missing up to here"
        elif whole := WHOLE.fullmatch(line):
            number = int(whole[1])
            assert number >= expected, f"{line} is doubled, or out of order"
            missing += number - expected
            expected = number + 1
            assert said <= missing, f"{marker}, and {missing} are missing up to {line}"
        else:
            torn += 1
    missing += printed - expected
    assert 0 <= missing - said <= torn, (said, missing, torn)
    return said


BURST = """
import os, time
pad = "x" * 80
for number in range({count}):
    print("line", number, pad)
    if number % 1000 == 999:
        time.sleep({pause})
"""


def test_a_log_that_is_rotated_while_it_is_read(place):
    """The node renames the file at 10 MiB and begins another; whoever reads along may miss some."""
    count = 250_000
    job = run(BURST.format(count=count, pause=0.03), place)
    added_up(job, count)


def test_lines_that_are_rotated_away_while_nobody_reads_are_counted(place, cluster, store):
    require_own(cluster)
    count = 200_000
    job = submit(BURST.format(count=count, pause=0.03) + "time.sleep(3)", place)
    wait_for_text(job, "line 1000 ")
    folder = node_logs(cluster, job)
    stop_followers(store)  # who looks at the job from now on would start another
    eventually(lambda: len(list(folder.iterdir())) > 1, LONG_S)
    job.wait(LONG_S)
    assert added_up(job, count) > 0
    assert any("has lost" in event["message"] for event in job.events() if event["kind"] == "gap")


def node_logs(cluster: Cluster, job: Job) -> Path:
    """Return the folder with the log files of a job's first rank, as the node has it."""
    pod = eventually(lambda: job.snapshot()["ranks"][0]["pod"])
    logs = cluster.kubeconfig.resolve().parent / "log" / "pods"
    (folder,) = logs.glob(f"*_{pod}_*/node")
    return folder
