"""What is kept of a namespace: enough for each job, and no more than a bounded amount."""

from __future__ import annotations

import pytest

from jupyter_jax_trainer.backends.kubernetes.api import cache as module
from jupyter_jax_trainer.backends.kubernetes.api import lineage
from jupyter_jax_trainer.backends.kubernetes.api.cache import JOB_SET, Store
from jupyter_jax_trainer.backends.kubernetes.api.lineage import job_set_path
from jupyter_jax_trainer.backends.kubernetes.api.objects import Event, Job, JobSet, Pod, TrainJob
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED, GONE
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import API, UID

OLD, NEW = "0" * 32, "1" * 32


def by(kind: str, name: str, uid: str) -> dict:
    """Return what an object has that this one controls."""
    group = {"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2"}.get(kind, API)
    return {
        "ownerReferences": [
            {"apiVersion": group, "kind": kind, "name": name, "uid": uid, "controller": True}
        ]
    }


def job_of(item: dict) -> dict:
    """Return an object as a Job of a JobSet."""
    return {**item, "metadata": {**item["metadata"], **by("JobSet", "fit", "s1")}}


def thing(name: str, uid: str, job: str = "", **more: object) -> dict:
    labels = {"labels": {JOB_SET: job}, **by("Job", "fit-node-0", "unknown")} if job else {}
    metadata = {"name": name, "uid": uid, "resourceVersion": "1", **labels, "managedFields": ["x"]}
    return {"metadata": metadata, **more}


def about(kind: str, name: str, uid: str, number: int, event: str = "") -> dict:
    involved = {"kind": kind, "name": name, "uid": uid}
    return thing(f"e{number}", event or f"event-{number}", involvedObject=involved, reason="R")


def test_objects_are_found_by_job():
    store = Store()
    assert store.put(ADDED, TrainJob(thing("fit", "t1"))) == "fit"
    assert store.put(ADDED, Pod(thing("fit-node-0-0-x", "p1", "fit"))) == "fit"
    assert store.put(ADDED, Job(job_of(thing("fit-node-0", "j1", "fit")))) == "fit"
    store.put(ADDED, Pod(thing("other-node-0-0-x", "p2", "other")))
    assert store.pods("fit").keys() == {"p1"} and [j.uid for j in store.jobs("fit")] == ["j1"]
    assert store.pods("none") == {} and store.jobs("none") == []


def test_the_last_form_of_a_pod_that_has_gone_is_given_once():
    store = Store()
    pod = thing("fit-node-0-0-x", "p1", "fit", status={"phase": "Running"})
    store.put(ADDED, Pod(pod))
    store.put(GONE, Pod({**pod, "status": {"phase": "Failed", "reason": "Evicted"}}))
    assert store.pods("fit") == {}
    assert store.take_gone("fit")["p1"].reason == "Evicted"
    assert store.take_gone("fit") == {}


def test_of_a_pod_that_went_while_nobody_watched_the_last_known_form_is_given():
    store = Store()
    store.put(ADDED, Pod(thing("fit-node-0-0-x", "p1", "fit", status={"phase": "Running"})))
    store.put(GONE, Pod(thing("fit-node-0-0-x", "p1", "fit")))  # a new list has but a stub of it
    assert store.take_gone("fit")["p1"].phase == "Running"
    store.put(GONE, Pod(thing("fit-node-0-0-y", "p9", "fit")))  # never seen, nothing to tell
    assert store.take_gone("fit") == {}


def test_a_namesake_that_goes_late_does_not_take_the_new_one_along():
    store = Store()
    store.put(ADDED, TrainJob(thing("fit", "old")))
    store.put(ADDED, TrainJob(thing("fit", "new")))
    store.put(GONE, TrainJob(thing("fit", "old")))
    assert store.trainjobs["fit"].uid == "new"
    store.put(GONE, TrainJob(thing("fit", "new")))
    assert store.trainjobs == {}


def of(uid: str, name: str, **more: object) -> dict:
    containers = [{"name": "node", "env": [{"name": "JAXTRAIN_JOB_UID", "value": uid}]}]
    return thing(name, name, "fit", spec={"containers": containers}, **more)


def test_pods_and_jobs_of_an_earlier_job_of_the_same_name_are_told_apart():
    store = Store()
    for uid, name in (("old", "p1"), ("new", "p2"), ("old", "p3"), ("new", "p4")):
        store.put(ADDED, Pod(of(uid, name)))
    for pod in (of("old", "p3", status={}), of("new", "p4", status={})):
        store.put(GONE, Pod(pod))
    template = {"spec": of("old", "x")["spec"]}
    store.put(ADDED, Job(job_of(thing("j1", "j1", "fit", spec={"template": template}))))
    store.put(ADDED, Job(job_of(thing("j2", "j2", "fit", spec={}))))  # of an initializer
    assert store.pods("fit", "new").keys() == {"p2"} and store.pods("fit").keys() == {"p1", "p2"}
    assert [job.name for job in store.jobs("fit", "new")] == ["j2"]
    assert store.take_gone("fit", "new").keys() == {"p4"}
    assert store.take_gone("fit", "old").keys() == {"p3"}


def test_initializers_are_of_the_trainjob_that_is_older_than_they():
    def at(second: int, **of: object) -> dict:
        made = f"2026-01-01T00:00:{second:02}Z"
        return thing(str(second), str(second), "fit", spec={}, **of) | {
            "metadata": {
                "name": str(second),
                "uid": str(second),
                "creationTimestamp": made,
                "labels": {JOB_SET: "fit"},
                **by("Job", "fit", "unknown"),
            }
        }

    store = Store()
    store.put(ADDED, Pod(at(10)))
    store.put(GONE, Pod(at(11, status={})))
    store.put(ADDED, Job(job_of(at(12))))
    trainjob = at(20)
    trainjob["metadata"] |= {"name": "fit", "annotations": {UID: NEW}}
    store.put(ADDED, TrainJob(trainjob))
    assert store.pods("fit", NEW) == {} and store.jobs("fit", NEW) == []
    assert store.take_gone("fit", NEW) == {} and store.take_gone("fit", OLD).keys() == {"11"}
    store.put(ADDED, Pod(at(20)))
    store.put(ADDED, Job(job_of(at(25))))
    assert store.pods("fit", NEW).keys() == {"20"} and store.pods("fit", OLD).keys() == {"10"}
    assert [job.name for job in store.jobs("fit", NEW)] == ["25"]


def chain(store: Store, job_set: dict | None = None) -> None:
    """Let the store hear of a Job and its JobSet."""
    store.put(
        ADDED,
        Job(
            {
                "metadata": {
                    "name": "fit-node-0",
                    "uid": "j1",
                    "labels": {JOB_SET: "fit"},
                    **by("JobSet", "fit", "s1"),
                }
            }
        ),
    )
    if job_set is not None:
        store.lineage.note_job_set("s1", JobSet(job_set))


def pod(name: str, owners: dict, uid: str = NEW) -> dict:
    found = of(uid, name, status={"phase": "Running"})
    return {**found, "metadata": {"labels": {JOB_SET: "fit"}, "name": name, "uid": name, **owners}}


OURS = {"metadata": {"name": "fit", "uid": "s1", **by("TrainJob", "fit", "t1")}}


def test_a_pod_is_of_a_job_by_its_owners_alone():
    store = Store()
    chain(store, OURS)
    right = by("Job", "fit-node-0", "j1")
    wrong = [
        {},
        by("Job", "fit-node-0", "j2"),
        by("JobSet", "fit", "s1"),
        by("TrainJob", "fit", "t1"),
        {"ownerReferences": [{**right["ownerReferences"][0], "controller": False}]},
        {"ownerReferences": [{**right["ownerReferences"][0], "apiVersion": "mine/v1"}]},
        {"ownerReferences": [{**right["ownerReferences"][0], "kind": "ReplicaSet"}]},
    ]
    for number, owners in enumerate([right, *wrong]):  # label and variable are right in all of them
        store.put(ADDED, Pod(pod(f"p{number}", owners)))
        store.put(ADDED, Pod(pod(f"gone{number}", owners)))
        store.put(GONE, Pod(pod(f"gone{number}", owners)))
    assert store.pods("fit", NEW, "t1").keys() == {"p0"}
    assert store.take_gone("fit", NEW, "t1").keys() == {"gone0"}
    assert store.pods("fit", NEW, "t2") == {}, "it was made anew under the same name"
    assert [job.uid for job in store.jobs("fit", NEW, "t1")] == ["j1"]
    assert store.jobs("fit", NEW, "t2") == []


@pytest.mark.parametrize(
    "job_set",
    [
        {"metadata": {"name": "fit", "uid": "s1"}},
        {"metadata": {"name": "fit", "uid": "s1", **by("TrainJob", "fit", "t2")}},
        {
            "metadata": {"name": "fit", "uid": "s2", **by("TrainJob", "fit", "t1")}
        },  # made anew since
        {"metadata": {"name": "fit", "uid": "s1", **by("Job", "fit", "t1")}},
    ],
)
def test_a_job_set_of_nobody_or_another_gives_no_pods(job_set):
    store = Store()
    chain(store, job_set)
    store.put(ADDED, Pod(pod("p1", by("Job", "fit-node-0", "j1"))))
    assert store.pods("fit", NEW, "t1") == {} and store.jobs("fit", NEW, "t1") == []
    assert not store.pending("fit", NEW, "t1") and store.wanted("fit") == set()


def test_pods_whose_owners_are_not_known_yet_wait_for_that():
    store = Store()
    store.put(ADDED, Pod(pod("p1", by("Job", "fit-node-0", "j1"))))
    assert store.pods("fit", NEW, "t1") == {} and store.pending("fit", NEW, "t1")
    chain(store)
    (wanted,) = store.wanted("fit")
    assert (wanted.name, wanted.uid, wanted.version) == ("fit", "s1", "v1alpha2")
    assert job_set_path("team a", wanted) == (
        "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team%20a/jobsets/fit"
    )
    store.lineage.note_job_set("s1", JobSet(OURS))
    assert store.pods("fit", NEW, "t1").keys() == {"p1"} and not store.pending("fit", NEW, "t1")
    assert store.wanted("fit") == set(), "it is looked at once"


def test_without_the_right_to_look_what_may_be_ours_is_shown_and_never_what_is_not():
    store = Store()
    store.lineage.blind = True
    chain(store)
    store.put(ADDED, Pod(pod("p1", by("Job", "fit-node-0", "j1"))))
    store.put(ADDED, Pod(pod("old", by("Job", "fit-node-0", "j1"), OLD)))
    store.put(ADDED, Pod(pod("bare", {})))
    assert store.pods("fit", NEW, "t1").keys() == {"p1"} and not store.pending("fit", NEW, "t1")
    assert store.lineage.of_pod(store.pods("fit", NEW, "t1")["p1"]) is None


def test_job_sets_of_other_names_and_odd_versions_are_not_asked_for():
    store = Store()
    for number, (version, name) in enumerate(
        [("v1/../../../secrets", "fit"), ("v1", "other"), ("../x", "fit")]
    ):
        owner = by("JobSet", name, f"s{number}")
        owner["ownerReferences"][0]["apiVersion"] = f"jobset.x-k8s.io/{version}"
        metadata = {"name": "j", "uid": f"j{number}", "labels": {JOB_SET: "fit"}, **owner}
        store.put(ADDED, Job({"metadata": metadata}))
    assert store.wanted("fit") == set()


def test_what_is_known_of_owners_is_bounded(monkeypatch):
    monkeypatch.setattr(lineage, "_KEPT", 3)
    found = lineage.Lineage()
    for number in range(10):
        found.note_job(Job(job_of(thing("j", f"j{number}", "fit"))))
        found.note_job_set(f"s{number}", None)
    assert len(found._jobs) == len(found._job_sets) == 3


def test_events_are_found_by_object_and_told_with_the_job_where_that_is_known():
    store = Store()
    assert store.put(ADDED, Event(about("TrainJob", "fit", "t1", 1))) == "fit"
    assert store.put(ADDED, Event(about("JobSet", "fit", "s1", 2))) == "fit"
    assert store.put(ADDED, Event(about("Pod", "fit-node-0-0-x", "p1", 3))) is None
    store.put(ADDED, Event(about("Pod", "other", "p2", 4)))
    found = {event.name for event in store.events("fit", {"t1", "p1"})}
    assert found == {"e1", "e2", "e3"}
    store.put(GONE, Event(about("Pod", "fit-node-0-0-x", "p1", 3)))
    assert len(store.events("fit", {"t1", "p1"})) == 3  # it expired, and stays true


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_EVENTS", 10)
    monkeypatch.setattr(module, "_GONE", 5)
    store = Store()
    for number in range(100):
        store.put(ADDED, Event(about("Pod", "p", f"uid-{number}", number)))
        store.put(ADDED, Event(about("Pod", "p", f"uid-{number}", number)))  # once more: the same
        pod = thing("x", f"p{number}", f"job-{number}", status={})
        store.put(ADDED, Pod(pod))
        store.put(GONE, Pod(pod))
    kept = [n for n in range(100) if store.events("", {f"uid-{n}"})]
    assert kept == list(range(90, 100))
    gone = [n for n in range(100) if store.take_gone(f"job-{n}")]
    assert gone == list(range(95, 100))


def test_what_is_large_and_not_needed_is_left_out():
    store = Store()
    environment = [
        {"name": "JAXTRAIN_FRAME_KEY", "valueFrom": {}},
        {"name": "BIG", "value": "x" * 9999},
    ]
    job = thing(
        "fit",
        "t1",
        spec={"trainer": {"numNodes": 2, "command": ["x"], "args": [], "env": environment}},
    )
    job["metadata"]["annotations"] = {"small": "1", "large": "x" * 5000}
    store.put(ADDED, TrainJob(job))
    kept = store.trainjobs["fit"].json
    assert kept["spec"]["trainer"] == {"numNodes": 2, "env": environment[:1]}
    assert (
        kept["metadata"]["annotations"] == {"small": "1"}
        and "managedFields" not in kept["metadata"]
    )
    pod = thing(
        "x",
        "p1",
        "fit",
        spec={"containers": [{"name": "node", "env": environment, "resources": {}}]},
    )
    store.put(ADDED, Pod(pod))
    assert store.pods("fit")["p1"].json["spec"]["containers"] == [{"name": "node", "resources": {}}]
    store.put(
        ADDED, Job(thing("j", "j1", "fit", spec={"template": {"large": 1}, "completions": 2}))
    )
    assert store.jobs("fit")[0].json["spec"] == {"completions": 2}
    assert "BIG" in str(job) and "template" not in str(store.jobs("fit"))
