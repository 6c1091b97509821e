"""The pictures in docs/images of what is chosen and asked: a cluster's runtimes, filters, a question."""

from __future__ import annotations

import re
from functools import partial

import pytest
from harness import submit
from playwright.sync_api import Page, Route, expect

from ui.pages import LOAD
from ui.shots import DATA, NARROW, WIDE, cluster, code, data, in_all, pictures, save, save_page

__all__ = ["pictures"]  # a fixture

pytestmark = [pytest.mark.release, pytest.mark.timeout(240)]

BARS, HEIGHTS = {"wide": 340, "narrow": 230}, {"wide": 880, "narrow": 1060}
LOGS = {"wide": {**WIDE, "height": 480}, "narrow": {**NARROW, "height": 480}}
LINE = "%%jaxtrain -n 4 -r jax-gpu -o weights --queue team-a"


def runtime(
    name: str, device: str, nodes: list[int], devices: int | None, words: str, old: bool = False
):
    return {
        "name": name,
        "backend": "kubernetes",
        "device": device,
        "nodes": nodes,
        "description": words,
        "python": "3.13",
        "jax": "0.10.2",
        "devices": devices,
        "image": f"example.com/{name}:0.10.2-py3.13",
        "deprecated": old,
        "problem": None,
    }


ANSWERS = {
    "health": {
        "findings": [
            {"level": "ok", "title": "Cluster", "detail": "Kubernetes 1.36", "hint": None},
            {"level": "ok", "title": "Kubeflow Trainer", "detail": "2.3.0", "hint": None},
            {"level": "ok", "title": "Kueue", "detail": "0.16.2", "hint": None},
        ]
    },
    "runtimes": {
        "runtimes": [
            runtime("jax-gpu", "gpu", [1, 32], 8, "JAX on NVIDIA GPUs, eight to a node"),
            runtime("jax-tpu", "tpu", [4, 4], 4, "JAX on a TPU slice of 4x4"),
            runtime("jax-cpu", "cpu", [1, 64], None, "JAX on CPUs"),
            runtime("jax-gpu-a100", "gpu", [1, 8], 4, "JAX on A100 GPUs", old=True),
        ]
    },
    "queues": {
        "kueue": {
            "version": "0.16.2",
            "keeps_patches": False,
            "priorities": [],
            "queues": [
                {
                    "name": "team-a",
                    "problem": None,
                    "waiting": 2,
                    "admitted": 3,
                    "free": [
                        {
                            "flavor": "h100",
                            "resource": "nvidia.com/gpu",
                            "total": "64",
                            "free": "40",
                        }
                    ],
                }
            ],
        }
    },
}


def answer(page: Page) -> None:
    """Say what a cluster would say that cannot be here: one with GPUs, TPUs and a queue."""
    for name, said in ANSWERS.items():
        page.route(re.compile(rf"/jaxtrain/api/{name}\?"), partial(Route.fulfill, json=said))


def test_pictures_of_the_runtimes_of_a_cluster(open_page, pictures, lab_server):
    with cluster(lab_server, "research", "https://research.example.com", "team-a"):
        lab = open_page()
        answer(lab.page)
        lab.notebook("far", LOAD, DATA, f"{LINE}\nimport jax")
        lab.cell(2).locator(".cm-content").click()
        lab.command("jaxtrain:show-runtimes")
        expect(lab.picker.locator(".jaxtrain-ask")).to_contain_text("32")
        runtimes = lab.picker.locator(".jaxtrain-offers")

        def fit(kind: str) -> None:
            lab.page.set_viewport_size({"width": 1200, "height": HEIGHTS[kind]})
            lab.side_bar(BARS[kind])
            runtimes.evaluate("it => it.scrollTo(0, it.scrollHeight)")

        in_all(lab, fit, lambda how: save(lab.picker, f"runtimes-cluster-{how}", pictures))


def test_pictures_of_filters_a_question_and_the_settings(open_page, pictures):
    submit(code(200, 0, 10), data(), "sweep-16 -n 4").wait(90)
    lab = open_page(viewport=WIDE)
    lab.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    lab.command("jaxtrain:open-log", key="sweep-16")
    log = lab.log("sweep-16").node
    log.get_by_role("button", name="filter").click()
    log.get_by_role("searchbox", name="without", exact=True).fill("step 1")
    lab.keys("Enter")
    expect(lab.log("sweep-16").rows.filter(has_text=re.compile("step 1[0-9]"))).to_have_count(0)

    def fit(kind: str) -> None:
        lab.page.set_viewport_size(LOGS[kind])

    in_all(lab, fit, lambda how: save(log.locator(".jaxtrain"), f"log-filters-{how}", pictures))
    lab.command("jaxtrain:show-jobs")
    lab.command("jaxtrain:open-job", key="sweep-16")
    lab.job("sweep-16").get_by_role("button", name="Delete", exact=True).click()
    expect(lab.page.get_by_role("dialog")).to_contain_text("sweep-16")
    in_all(lab, fit, lambda how: save_page(lab.page, f"question-{how}", pictures))
    lab.keys("Escape")
    expect(lab.page.get_by_role("dialog")).to_have_count(0)
    lab.command("jaxtrain:settings")
    expect(lab.page.locator(".jp-SettingsPanel")).to_contain_text("Notifications when a job ends")
    in_all(lab, fit, lambda how: save_page(lab.page, f"settings-{how}", pictures))
