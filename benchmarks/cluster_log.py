"""One pod's log on a real cluster: lines per CPU second, against kubectl writing it to a file.

The pod prints at once more than the kubelet keeps after a rotation, and ends: the log of a
container that has ended is not rotated.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from common import Measured, in_turn, ratio_of, sized, spread
from follow_logs import spooled
from kube import RUNTIME, Place, place, until

LINES = sized(400_000, 2_000)
POD = "chatter"
PRINT = (
    "import sys\n"
    "line = 'step %08d loss 0.123456 accuracy 0.987 ' + 'x' * 82 + '\\n'\n"
    f"for i in range(0, {LINES}, 1000):\n"
    "    sys.stdout.write(''.join(line % n for n in range(i, i + 1000)))\n"
)


def measure(runs: int) -> list[Measured]:
    """Compare CPU time for one log, read again and again."""
    with place() as there, tempfile.TemporaryDirectory() as name:
        home, uid = Path(name), _print(there)
        path = home / "kubectl.log"

        def kubectl(*more: str) -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with path.open("wb") as file:
                subprocess.run(
                    [*there.kubectl, "logs", "--timestamps", *more, POD], stdout=file, check=True
                )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        def ours() -> float:
            shutil.rmtree(home / "job", ignore_errors=True)
            return spooled(there.client, POD, "node", uid, home / "job")

        ours_taken, theirs_taken = in_turn(runs, ours, kubectl)
        with path.open("rb") as file:
            lines = sum(1 for _ in file)
        with (home / "job/logs/rank-0.log").open("rb") as file:
            assert lines == sum(1 for _ in file)
        starting = statistics.median(kubectl("--tail=1") for _ in range(runs))
    ratio = 1 / ratio_of(ours_taken, theirs_taken)
    rates = [
        spread([lines / seconds for seconds in taken], "k/s", 1e-3)
        for taken in (ours_taken, theirs_taken)
    ]
    reading = lines / (statistics.median(theirs_taken) - starting)
    return [
        Measured(
            "one pod's log, lines per CPU second, against kubectl",
            ratio,
            ">= 1.0",
            f"{lines} lines; ours {rates[0]}, kubectl {rates[1]}, without its start "
            f"{reading / 1e3:.0f} k/s",
            ratio >= 1.0,
        )
    ]


def _print(there: Place) -> str:
    """Run the pod; give its uid."""
    runtime = there.client.request(
        "GET", f"/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/{RUNTIME}"
    )
    job = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]
    image = job["template"]["spec"]["template"]["spec"]["containers"][0]["image"]
    container = {"name": "node", "image": image, "command": ["python3", "-c", PRINT]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    made = there.client.request(
        "POST",
        there.client.core("pods"),
        body={
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD},
            "spec": spec,
        },
    )
    asked = there.client.core("pods", POD)
    until(lambda: there.client.request("GET", asked)["status"]["phase"] == "Succeeded", 0.25)
    return str(made["metadata"]["uid"])
