"""Kueue's queues: what is checked before a job is sent, what is told of them, who is before whom."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jupyter_jax_trainer.backends.base import Target
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api.answers import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.cache import Store
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainJob, Workload
from jupyter_jax_trainer.backends.kubernetes.api.rights import QUEUE_RIGHTS, find, missing
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED, GONE
from jupyter_jax_trainer.backends.kubernetes.diagnosis.causes.queued import QUEUED
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import Seen, judge
from jupyter_jax_trainer.backends.kubernetes.doctor import doctor
from jupyter_jax_trainer.backends.kubernetes.submit import queues, quota
from jupyter_jax_trainer.doctor.finding import OK, WARN
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import cluster
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.amounts import quantity
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.queries import asking, targets
from jupyter_jax_trainer.queries.requests import Asked, route

REPOSITORY = Path(__file__).parents[2]
BASE = "/apis/kueue.x-k8s.io/v1beta2"
LOCAL = f"{BASE}/namespaces/team-a/localqueues"
WORKLOADS = f"{BASE}/namespaces/team-a/workloads"
CLASSES = f"{BASE}/workloadpriorityclasses"
DEPLOYMENT = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NEEDS = {"scratch": True, "mesh": True, "restricted": True}


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


def image(text: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"image": text}]}}}}


class Api:
    """Answers in place of a client: objects by their paths, and 403 for those that are None."""

    server, namespace = "https://10.0.0.1", "team-a"

    def __init__(self, objects: dict[str, Any] | None = None, version: str = "v0.16.2") -> None:
        self.objects: dict[str, Any] = {
            "/apis/kueue.x-k8s.io": {
                "preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"}
            },
            DEPLOYMENT: image(f"registry.example:5000/kueue/kueue:{version}"),
            LOCAL: {"items": [named("fast", spec={"clusterQueue": "all"}), named("slow", spec={})]},
            f"{LOCAL}/fast": named("fast"),
            CLASSES: {"items": []},
            REVIEW: {"status": {"allowed": True}},
            **(objects or {}),
        }
        self.patched: list[tuple[str, Any]] = []

    def request(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        if path not in self.objects or self.objects[path] is None:
            status = 403 if path in self.objects else 404
            raise ApiError(status, "", "no", "get", "things")
        if method == "PATCH":
            self.patched.append((path, given["body"]))
        return dict(self.objects[path])


def spec(line: str) -> Any:
    return parse_cell_line(f"--backend kubernetes {line}")


# -- before a job is sent -------------------------------------------------------------------------


def test_a_cluster_without_kueue_refuses_a_queue():
    api = Api()
    del api.objects["/apis/kueue.x-k8s.io"]
    with pytest.raises(UsageError) as told:
        queues.check(api, spec("--queue fast"))
    assert told.value.id == "submit.no-kueue" and "--queue" in told.value.hint


def test_a_queue_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(UsageError) as told:
        queues.check(Api(), spec("--queue fats"))
    assert told.value.message == say.NO_QUEUE(queue="fats", namespace="team-a")
    assert told.value.hint == say.AVAILABLE(names="fast, slow")
    with pytest.raises(UsageError) as told:
        queues.check(Api({LOCAL: {"items": []}}), spec("--queue fats"))
    assert told.value.hint == say.MAKE_QUEUE()


def test_a_priority_class_that_is_not_there_is_told():
    api = Api({CLASSES: {"items": [named("urgent")]}, f"{CLASSES}/urgent": named("urgent")})
    assert queues.check(api, spec("--queue fast --priority urgent")).version == "v0.16.2"
    with pytest.raises(UsageError) as told:
        queues.check(api, spec("--queue fast --priority nope"))
    assert told.value.message == say.NO_PRIORITY(priority="nope")
    assert told.value.hint == say.AVAILABLE(names="urgent")


def test_those_who_may_not_look_are_believed():
    api = Api({f"{LOCAL}/secret": None, f"{CLASSES}/urgent": None, DEPLOYMENT: None})
    assert queues.check(api, spec("--queue secret --priority urgent")).version is None


@pytest.mark.parametrize(
    ("name", "keeps"),
    [
        ("kueue:v0.16.2", False),
        ("kueue:v0.9.0", False),
        ("kueue:0.17.0", True),
        ("kueue:v0.17.3@sha256:0123", True),
        ("example:5000/kueue:v1.0.0-rc.1", True),
        # What can't be known is taken for the worse.
        ("kueue:main", False),
        ("example:5000/kueue", False),
        ("kueue@sha256:0123", False),
    ],
)
def test_the_version_says_whether_patches_are_kept(name, keeps):
    assert queues.find(Api({DEPLOYMENT: image(name)})).keeps_patches is keeps


def allowed(version: str, line: str = "", meshed: bool = False, **patches: bool) -> dict[str, bool]:
    kueue = queues.Kueue(BASE, version)
    given = {**dict.fromkeys(NEEDS, False), **patches}
    return queues.allowed_patches(kueue, spec(f"--queue fast {line}"), given, "own", meshed)


def test_what_needs_a_patch_is_refused_with_the_reason():
    with pytest.raises(
        UsageError, match=r"--volume and --service-account can't .* Kueue v0\.16\.2"
    ):
        allowed("v0.16.2", "--volume c:/data --service-account me")
    with pytest.raises(UsageError, match="--accelerator and --topology") as told:
        allowed("v0.16.2", "--device tpu --accelerator v5e --topology 2x4")
    assert told.value.id == "submit.options-not-in-queue"
    with pytest.raises(UsageError, match=f"own lacks {say.RESTRICTED_SETTINGS()}"):
        allowed("v0.16.2", restricted=True)
    with pytest.raises(UsageError, match=f"own lacks {say.MESH_LABEL()}"):
        allowed("v0.16.2", mesh=True, meshed=True)
    # What a job can do without is left out, so that it starts.
    assert not any(allowed("v0.16.2", mesh=True, scratch=True).values())


def test_a_newer_kueue_takes_all_patches():
    assert allowed("v0.17.0", "--volume c:/data --service-account me", True, **NEEDS) == NEEDS


def test_the_roles_for_queues_have_what_is_listed_and_nothing_else():
    text = (REPOSITORY / "runtimes/queue-rights.yaml").read_text()
    role, cluster_role = yaml.safe_load_all(text)
    assert (role["kind"], cluster_role["kind"]) == ("Role", "ClusterRole")

    def granted(document: dict[str, Any]) -> list[tuple[str, str, str, str]]:
        return sorted(
            (group, resource, verb, name)
            for rule in document["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            for name in rule.get("resourceNames", [""])
        )

    def listed(everywhere: bool) -> list[tuple[str, str, str, str]]:
        return sorted(
            (right.group, right.resource, right.verb, right.name)
            for right in QUEUE_RIGHTS
            if (right.namespace is not None) == everywhere
        )

    assert (granted(role), granted(cluster_role)) == (listed(False), listed(True))
    assert "in its queue" in find("watch", "workloads").lack


def test_the_page_on_queues_has_a_row_for_each_right():
    page = (REPOSITORY / "docs/guides/platform-engineer/queues.md").read_text()
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| ")]
    for right in QUEUE_RIGHTS:
        found = [row for row in rows if f"`{right.resource}`" in row]
        assert any(re.search(rf"\b{right.verb}\b", row) for row in found), right


def test_rights_are_asked_for_where_they_are_needed():
    asked = []

    class Asked(Api):
        def request(self, method: str, path: str, **given: Any) -> dict[str, Any]:
            if path == REVIEW:
                asked.append(given["body"]["spec"]["resourceAttributes"])
            return super().request(method, path, **given)

    assert not missing(Asked(), QUEUE_RIGHTS)
    (deployment,) = (one for one in asked if one["resource"] == "deployments")
    assert (deployment["namespace"], deployment["name"]) == (
        "kueue-system",
        "kueue-controller-manager",
    )
    wide = {one["resource"] for one in asked if not one["namespace"]}
    assert wide == {"workloadpriorityclasses", "clusterqueues"}
    assert {one["namespace"] for one in asked} == {"", "team-a", "kueue-system"}


# -- what is told of them -------------------------------------------------------------------------


def test_doctor_names_version_trap_and_queues():
    found = {finding.subject: finding for finding in doctor._queues(Api())}
    assert (found["Kueue"].status, found["Kueue"].detail) == (WARN, "v0.16.2")
    assert found["Kueue"].advice.id == doctor.DROPS_PATCHES.id
    assert (found["Queues"].status, found["Queues"].detail) == (OK, "fast, slow")
    assert doctor.QUEUE_RIGHTS() not in found
    found = {finding.subject: finding for finding in doctor._queues(Api(version="v0.17.0"))}
    assert found["Kueue"].status == OK
    denied = Api({REVIEW: {"status": {"allowed": False}}, LOCAL: None})
    found = {finding.subject: finding for finding in doctor._queues(denied)}
    lacking = found[doctor.QUEUE_RIGHTS()]
    assert "watch workloads" in lacking.detail and "Queues" not in found
    assert lacking.advice.id == "doctor.lost-in-queues"
    for words in (
        f"{cluster.NO_FREE_QUOTA()} (get clusterqueues)",
        f"{cluster.NO_KUEUE_VERSION()} (get deployments kueue-controller-manager in kueue-system)",
        "runtimes/queue-rights.yaml",
    ):
        assert words in lacking.advice
    nobody = Api()
    del nobody.objects["/apis/kueue.x-k8s.io"]
    assert not list(doctor._queues(nobody))


@pytest.mark.parametrize(
    ("allowed", "why"),
    [
        (
            False,
            doctor.NO_VERSION_RIGHT(
                right="get deployments kueue-controller-manager in kueue-system"
            ),
        ),
        (
            True,
            doctor.NO_DEPLOYMENT(name="kueue-controller-manager", namespace="kueue-system"),
        ),
    ],
)
def test_who_may_not_read_the_version_is_not_told_to_install_another(allowed, why):
    api = Api({REVIEW: {"status": {"allowed": allowed}}, DEPLOYMENT: None})
    (found,) = (one for one in doctor._queues(api) if one.subject == "Kueue")
    assert (found.status, found.detail) == (WARN, doctor.NO_VERSION())
    assert found.advice == doctor.ASSUMED_VERSION(reason=why)
    assert "install" not in found.advice


def test_a_page_is_told_of_queues_quota_and_priorities():
    api = Api(
        {
            LOCAL: {
                "items": [
                    named(
                        "fast",
                        spec={"clusterQueue": "all"},
                        status={
                            "pendingWorkloads": 2,
                            "admittedWorkloads": 1,
                            "conditions": [{"type": "Active", "status": "True"}],
                        },
                    ),
                    named(
                        "held",
                        spec={"clusterQueue": "hidden"},
                        status={
                            "conditions": [
                                {"type": "Active", "status": "False", "message": "closed"}
                            ]
                        },
                    ),
                ]
            },
            f"{BASE}/clusterqueues/all": named(
                "all",
                spec={
                    "resourceGroups": [
                        {
                            "flavors": [
                                {
                                    "name": "small",
                                    "resources": [
                                        {"name": "cpu", "nominalQuota": "2"},
                                        {"name": "memory", "nominalQuota": "4Gi"},
                                    ],
                                }
                            ]
                        }
                    ]
                },
                status={
                    "flavorsReservation": [
                        {
                            "name": "small",
                            "resources": [
                                {"name": "cpu", "total": "500m"},
                                {"name": "memory", "total": "1Gi"},
                            ],
                        }
                    ]
                },
            ),
            f"{BASE}/clusterqueues/hidden": None,
            CLASSES: {
                "items": [named("low", value=-5), named("high", value=10, description="now")]
            },
        }
    )
    assert quota.describe(api) == {
        "version": "v0.16.2",
        "keeps_patches": False,
        "queues": [
            {
                "name": "fast",
                "problem": None,
                "waiting": 2,
                "admitted": 1,
                "free": [
                    {"flavor": "small", "resource": "cpu", "total": "2", "free": "1500m"},
                    {"flavor": "small", "resource": "memory", "total": "4Gi", "free": "3Gi"},
                ],
            },
            {"name": "held", "problem": "closed", "waiting": 0, "admitted": 0, "free": None},
        ],
        "priorities": [
            {"name": "high", "value": 10, "description": "now"},
            {"name": "low", "value": -5, "description": None},
        ],
    }
    assert json.dumps(quota.describe(Api({LOCAL: None, CLASSES: None})))  # nothing may be read
    nobody = Api()
    del nobody.objects["/apis/kueue.x-k8s.io"]
    assert quota.describe(nobody) is None


def test_what_a_queue_has_is_told_by_the_cluster_or_by_the_queue_itself():
    def queue(*names: str) -> dict[str, Any]:
        used = [{"name": "small", "resources": [{"name": name, "total": "0"} for name in names]}]
        return named("fast", spec={"clusterQueue": "all"}, status={"flavorsReservation": used})

    def whole(**spec: Any) -> Api:
        return Api({behind: named("all", spec=spec), fast: queue("memory")})

    def group(flavor: str, **resource: str) -> dict[str, Any]:
        return {"flavors": [{"name": flavor, "resources": [{"name": "cpu", **resource}]}]}

    behind, fast = f"{BASE}/clusterqueues/all", f"{LOCAL}/fast"
    # A pod has one flavor, so their quotas are not added up.
    two = [group("small", nominalQuota="2"), group("large", nominalQuota="5", borrowingLimit="3")]
    assert quota.most(whole(resourceGroups=two), "fast") == {"cpu": 5}
    assert quota.most(whole(resourceGroups=two[1:], cohortName="both"), "fast") == {"cpu": 8}
    assert quota.most(whole(resourceGroups=two, cohort="both"), "fast") == {"cpu": None}
    # Of ClusterQueues a user often has no right; Kueue writes into the namespace's what there is.
    hidden = Api({behind: None, fast: queue("cpu", "memory")})
    assert quota.most(hidden, "fast") == {"cpu": None, "memory": None}
    assert quota.most(Api({behind: None, fast: queue()}), "fast") is None  # not written yet
    assert quota.most(Api({fast: None}), "fast") is None


def test_the_server_tells_a_page(monkeypatch):
    monkeypatch.setattr(connection, "get_client", lambda context, namespace: Api())
    asking._answers.clear()
    place = Target("context:one", "kubernetes", "one", context="one", namespace="team-a")
    found, names = route("GET", "queues")
    monkeypatch.setattr(targets, "find", lambda *_: place)
    told = found.answer(Asked(None, names, {"place": "context:one"}, None))
    assert [queue["name"] for queue in told["kueue"]["queues"]] == ["fast", "slow"]
    assert targets.queues(Target("local", "local", "this machine")) is None
    asking._answers.clear()


@given(st.decimals(0, 10**6, places=3), st.sampled_from(["8", "500m", "4Gi", "1e3", "7k"]))
def test_what_is_left_is_written_as_the_amount_that_it_is(amount, like):
    assert quantity(quota._written(amount, like)) == amount


# -- stopping a job in a queue --------------------------------------------------------------------


def trainjob(**labels: str) -> TrainJob:
    return TrainJob({"metadata": {"name": "j", "uid": "uid-now", "labels": labels}})


def workload(name: str, *conditions: str, created: str = "1", **more: Any) -> dict[str, Any]:
    true = [{"type": kind, "status": "True"} for kind in conditions]
    owner = {"kind": "TrainJob", "name": name, "uid": f"uid-{name}"}
    return {
        "metadata": {
            "name": f"w-{name}",
            "uid": f"w-{name}",
            "ownerReferences": [owner],
            "creationTimestamp": f"2026-01-01T00:00:0{created}Z",
        },
        "spec": {"queueName": "fast", "podSets": ["long"], **more},
        "status": {"conditions": true},
    }


def test_a_job_in_a_queue_is_stopped_by_its_workload():
    items = [workload("old", "Finished", created="2"), workload("now")]
    api = Api({WORKLOADS: {"items": items}, f"{WORKLOADS}/w-now": {}})
    queued = trainjob(**{queues.QUEUE: "fast"})
    assert queues.set_active(api, queued, False)
    assert api.patched == [(f"{WORKLOADS}/w-now", {"spec": {"active": False}})]
    with pytest.raises(UsageError) as caught:
        queues.set_active(api, queued, True)
    assert caught.value.id == "kubernetes.not-suspended"
    items[1]["spec"]["active"] = False
    with pytest.raises(UsageError) as caught:
        queues.set_active(api, queued, False)
    assert caught.value.id == "kubernetes.already-suspended"
    assert not queues.set_active(api, trainjob(), False)


# -- who is before whom ---------------------------------------------------------------------------


def waiting(mine: dict[str, Any], others: list[dict[str, Any]], *, looked_at: bool = True) -> str:
    labels = {queues.QUEUE: "fast"}
    metadata = {"name": "me", "uid": "uid-me", "labels": labels}
    job = TrainJob({"metadata": metadata, "spec": {"suspend": True}})
    store = Store()
    for item in (mine, *others):
        if looked_at:
            item["status"]["conditions"].append(
                {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "full"}
            )
        store.put(ADDED, Workload(item))
    found = store.workloads(job)
    assert "podSets" not in found[0].spec.json
    seen = Seen(
        trainjob=job,
        jobs=[],
        jobset=None,
        pods=[],
        events=[],
        workloads=found,
        nodes=1,
        now=0.0,
        others=store.others(found),
    )
    verdict = judge(seen)
    assert verdict.state == "Queued" and verdict.reason
    return verdict.reason


def told(cause, **facts):
    """Return the sentence of a cause."""
    (row,) = (one for one in QUEUED if one.id == cause)
    return row.say(facts)


def test_the_place_in_the_queue_goes_by_priority_then_age():
    assert waiting(workload("me"), []) == told("kueue-pending", queue="fast", what="full")
    others = [
        workload("before", created="0"),
        workload("after", created="2"),
        workload("urgent", created="3", priority=9),
        workload("low", created="0", priority=-1),
        workload("runs", "QuotaReserved", created="0"),
        workload("over", "Finished", created="0"),
        workload("stopped", created="0", active=False),
        workload("elsewhere", created="0", queueName="slow"),
    ]
    place = "fast (place 3 of 5 jobs of this namespace)"
    words = told("kueue-pending", queue=place, what="full")
    assert waiting(workload("me"), others) == words


def test_who_waits_behind_others_in_strict_order_is_told_its_place():
    """Kueue looks at the first one only, and says nothing of the others."""
    words = told("queued", queue="fast (place 2 of 2 jobs of this namespace)")
    assert waiting(workload("me"), [workload("before", created="0")], looked_at=False) == words


def test_workloads_come_and_go():
    store, mine = Store(), workload("me")
    assert store.put(ADDED, Workload(mine)) == "me"
    job = TrainJob({"metadata": {"uid": "uid-me"}})
    assert len(store.workloads(job)) == 1 and not store.workloads(None)
    # After a new list there is but a stub of what has gone.
    assert store.put(GONE, Workload({"metadata": {"uid": "w-me", "name": "w-me"}})) == "me"
    assert not store.workloads(job)
