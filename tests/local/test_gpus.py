"""How GPUs are shared out among jobs and ranks, with a driver's listing that a script prints."""

from __future__ import annotations

import pytest

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.local import runtimes, workers
from jupyter_jax_trainer.backends.local.slots import Ticket, Turn
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import local as say
from jupyter_jax_trainer.options.spec import parse_cell_line


@pytest.fixture
def four_gpus(home, tmp_path, monkeypatch):
    """Put an `nvidia-smi` that lists four GPUs on PATH."""
    listing = "".join(f"GPU {n}: NVIDIA H200 (UUID: GPU-00{n}-aa)\n" for n in range(4))
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncat <<END\n{listing}END\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(runtimes, "gpu_plugin", lambda: "0.10")


def plan_of(line: str) -> dict:
    return api.prepare(parse_cell_line(line))[1]


def visible(line: str, gpus: list[str]) -> list[str | None]:
    spec = parse_cell_line(line)
    manifest = {
        "name": "j",
        "uid": "u",
        "digest": "d",
        "plan": plan_of(line),
        "spec": spec.to_json(),
    }
    return [
        workers.environment({}, JobDir("/nowhere"), manifest, rank, gpus).get(
            "CUDA_VISIBLE_DEVICES"
        )
        for rank in range(spec.nodes)
    ]


@pytest.mark.parametrize(
    ("line", "device", "each", "shares"),
    [
        ("-n 2", "gpu", 2, ["0,1", "2,3"]),
        ("-n 4", "gpu", 1, ["0", "1", "2", "3"]),
        ("-n 3", "gpu", 1, ["0", "1", "2"]),
        ("-n 1", "gpu", 4, ["0,1,2,3"]),
        ("-n 2 --devices-per-node 1", "gpu", 1, ["0", "1"]),
        ("-n 2 --device cpu", "cpu", 1, [None, None]),
        ("-n 2 --runtime local-gpu", "gpu", 2, ["0,1", "2,3"]),
    ],
)
def test_gpus_are_shared_out_among_the_ranks(four_gpus, line, device, each, shares):
    plan = plan_of(line)
    assert (plan["device"], plan["devices_per_node"]) == (device, each)
    assert visible(line, plan["all_gpus"]) == shares
    environment = workers.environment(
        {},
        JobDir("/nowhere"),
        {
            "name": "j",
            "uid": "u",
            "digest": "d",
            "plan": plan,
            "spec": parse_cell_line(line).to_json(),
        },
        0,
        plan["all_gpus"],
    )
    assert ("JAX_PLATFORMS" in environment) == (device == "cpu")


def test_too_few_gpus_mean_the_cpu_unless_they_were_asked_for(four_gpus):
    plan = plan_of("-n 8")
    assert plan["device"] == "cpu"
    assert plan["note"] == say.ON_CPU(wanted=8, found=4)
    with pytest.raises(UsageError, match="8 GPUs"):
        plan_of("-n 8 -d gpu")


def test_two_jobs_get_different_gpus_and_a_third_waits(four_gpus, tmp_path):
    all_gpus = plan_of("-n 2")["all_gpus"]
    tickets = [Ticket(tmp_path / "queue", f"job-{n}", 1, 2, all_gpus, limit=64) for n in range(3)]
    first, second, third = (ticket.turn() for ticket in tickets)
    assert (first, second) == (Turn(["0", "1"]), Turn(["2", "3"]))
    assert third == say.WAITS_FOR_GPUS(wanted=2, total=4, free=0, names="job-0, job-1")
    tickets[0].close()
    assert tickets[2].turn() == Turn(["0", "1"])
    for ticket in tickets[1:]:
        ticket.close()


@pytest.mark.parametrize(
    ("option", "expected"), [({}, None), ({"JAX_PLATFORMS": "cuda,cpu"}, "cuda,cpu")]
)
def test_a_kernel_that_leaves_the_gpus_to_jobs_does_not_keep_jobs_from_them(
    four_gpus, option, expected
):
    plan = plan_of("-d gpu")
    manifest = {"name": "x", "uid": "0" * 32, "digest": "", "plan": plan}
    manifest["spec"] = {"nodes": 1, "env": option}
    found = workers.environment(
        {"JAX_PLATFORMS": "cpu"}, JobDir("/nowhere"), manifest, 0, ["0", "1", "2", "3"]
    )
    assert found.get("JAX_PLATFORMS") == expected
