"""What is kept of a namespace: enough for each job, and no more than a bounded amount."""

from __future__ import annotations

from jupyter_jax_trainer.backends.kubernetes import store as module
from jupyter_jax_trainer.backends.kubernetes.store import JOB_SET, Store
from jupyter_jax_trainer.backends.kubernetes.trainjob import UID
from jupyter_jax_trainer.backends.kubernetes.watch import ADDED, GONE


def thing(name: str, uid: str, job: str = "", **more: object) -> dict:
    labels = {"labels": {JOB_SET: job}} if job else {}
    metadata = {"name": name, "uid": uid, "resourceVersion": "1", **labels, "managedFields": ["x"]}
    return {"metadata": metadata, **more}


def about(kind: str, name: str, uid: str, number: int, event: str = "") -> dict:
    involved = {"kind": kind, "name": name, "uid": uid}
    return thing(f"e{number}", event or f"event-{number}", involvedObject=involved, reason="R")


def test_objects_are_found_by_job():
    store = Store()
    assert store.put("trainjobs", ADDED, thing("fit", "t1")) == "fit"
    assert store.put("pods", ADDED, thing("fit-node-0-0-x", "p1", "fit")) == "fit"
    assert store.put("jobs", ADDED, thing("fit-node-0", "j1", "fit")) == "fit"
    store.put("pods", ADDED, thing("other-node-0-0-x", "p2", "other"))
    assert store.pods("fit").keys() == {"p1"} and [j["metadata"]["uid"] for j in store.jobs("fit")] == ["j1"]
    assert store.pods("none") == {} and store.jobs("none") == []


def test_the_last_form_of_a_pod_that_has_gone_is_given_once():
    store = Store()
    pod = thing("fit-node-0-0-x", "p1", "fit", status={"phase": "Running"})
    store.put("pods", ADDED, pod)
    store.put("pods", GONE, {**pod, "status": {"phase": "Failed", "reason": "Evicted"}})
    assert store.pods("fit") == {}
    assert store.take_gone("fit")["p1"]["status"]["reason"] == "Evicted"
    assert store.take_gone("fit") == {}


def test_of_a_pod_that_went_while_nobody_watched_the_last_known_form_is_given():
    store = Store()
    store.put("pods", ADDED, thing("fit-node-0-0-x", "p1", "fit", status={"phase": "Running"}))
    store.put("pods", GONE, thing("fit-node-0-0-x", "p1", "fit"))  # a new list has but a stub of it
    assert store.take_gone("fit")["p1"]["status"] == {"phase": "Running"}
    store.put("pods", GONE, thing("fit-node-0-0-y", "p9", "fit"))  # never seen, nothing to tell
    assert store.take_gone("fit") == {}


def test_a_namesake_that_goes_late_does_not_take_the_new_one_along():
    store = Store()
    store.put("trainjobs", ADDED, thing("fit", "old"))
    store.put("trainjobs", ADDED, thing("fit", "new"))
    store.put("trainjobs", GONE, thing("fit", "old"))
    assert store.trainjobs["fit"]["metadata"]["uid"] == "new"
    store.put("trainjobs", GONE, thing("fit", "new"))
    assert store.trainjobs == {}


def of(uid: str, name: str, **more: object) -> dict:
    containers = [{"name": "node", "env": [{"name": "JAXTRAIN_JOB_UID", "value": uid}]}]
    return thing(name, name, "fit", spec={"containers": containers}, **more)


def test_pods_and_jobs_of_an_earlier_job_of_the_same_name_are_told_apart():
    store = Store()
    for uid, name in (("old", "p1"), ("new", "p2"), ("old", "p3"), ("new", "p4")):
        store.put("pods", ADDED, of(uid, name))
    for pod in (of("old", "p3", status={}), of("new", "p4", status={})):
        store.put("pods", GONE, pod)
    template = {"spec": of("old", "x")["spec"]}
    store.put("jobs", ADDED, thing("j1", "j1", "fit", spec={"template": template}))
    store.put("jobs", ADDED, thing("j2", "j2", "fit", spec={}))  # of an initializer
    assert store.pods("fit", "new").keys() == {"p2"} and store.pods("fit").keys() == {"p1", "p2"}
    assert [job["metadata"]["name"] for job in store.jobs("fit", "new")] == ["j2"]
    assert store.take_gone("fit", "new").keys() == {"p4"}
    assert store.take_gone("fit", "old").keys() == {"p3"}


def test_initializers_are_of_the_trainjob_that_is_older_than_they():
    def at(second: int, **of: object) -> dict:
        made = f"2026-01-01T00:00:{second:02}Z"
        return thing(str(second), str(second), "fit", spec={}, **of) | {
            "metadata": {"name": str(second), "uid": str(second), "creationTimestamp": made,
                         "labels": {JOB_SET: "fit"}}}  # fmt: skip

    store = Store()
    store.put("pods", ADDED, at(10))
    store.put("pods", GONE, at(11, status={}))
    store.put("jobs", ADDED, at(12))
    trainjob = at(20)
    trainjob["metadata"] |= {"name": "fit", "annotations": {UID: "new"}}
    store.put("trainjobs", ADDED, trainjob)
    assert store.pods("fit", "new") == {} and store.jobs("fit", "new") == []
    assert store.take_gone("fit", "new") == {} and store.take_gone("fit", "old").keys() == {"11"}
    store.put("pods", ADDED, at(20))
    store.put("jobs", ADDED, at(25))
    assert store.pods("fit", "new").keys() == {"20"} and store.pods("fit", "old").keys() == {"10"}
    assert [job["metadata"]["name"] for job in store.jobs("fit", "new")] == ["25"]


def test_events_are_found_by_object_and_told_with_the_job_where_that_is_known():
    store = Store()
    assert store.put("events", ADDED, about("TrainJob", "fit", "t1", 1)) == "fit"
    assert store.put("events", ADDED, about("JobSet", "fit", "s1", 2)) == "fit"
    assert store.put("events", ADDED, about("Pod", "fit-node-0-0-x", "p1", 3)) is None
    store.put("events", ADDED, about("Pod", "other", "p2", 4))
    found = {event["metadata"]["name"] for event in store.events("fit", {"t1", "p1"})}
    assert found == {"e1", "e2", "e3"}
    store.put("events", GONE, about("Pod", "fit-node-0-0-x", "p1", 3))
    assert len(store.events("fit", {"t1", "p1"})) == 3  # it expired, and stays true


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_EVENTS", 10)
    monkeypatch.setattr(module, "_GONE", 5)
    store = Store()
    for number in range(100):
        store.put("events", ADDED, about("Pod", "p", f"uid-{number}", number))
        store.put("events", ADDED, about("Pod", "p", f"uid-{number}", number))  # once more: the same
        pod = thing("x", f"p{number}", f"job-{number}", status={})
        store.put("pods", ADDED, pod)
        store.put("pods", GONE, pod)
    kept = [n for n in range(100) if store.events("", {f"uid-{n}"})]
    assert kept == list(range(90, 100))
    gone = [n for n in range(100) if store.take_gone(f"job-{n}")]
    assert gone == list(range(95, 100))


def test_what_is_large_and_not_needed_is_left_out():
    store = Store()
    environment = [{"name": "JAXTRAIN_FRAME_KEY", "valueFrom": {}}, {"name": "BIG", "value": "x" * 9999}]
    job = thing("fit", "t1", spec={"trainer": {"numNodes": 2, "command": ["x"], "args": [], "env": environment}})
    job["metadata"]["annotations"] = {"small": "1", "large": "x" * 5000}
    store.put("trainjobs", ADDED, job)
    kept = store.trainjobs["fit"]
    assert kept["spec"]["trainer"] == {"numNodes": 2, "env": environment[:1]}
    assert kept["metadata"]["annotations"] == {"small": "1"} and "managedFields" not in kept["metadata"]
    pod = thing("x", "p1", "fit", spec={"containers": [{"name": "node", "env": environment, "resources": {}}]})
    store.put("pods", ADDED, pod)
    assert store.pods("fit")["p1"]["spec"]["containers"] == [{"name": "node", "resources": {}}]
    store.put("jobs", ADDED, thing("j", "j1", "fit", spec={"template": {"large": 1}, "completions": 2}))
    assert store.jobs("fit")[0]["spec"] == {"completions": 2}
    assert "BIG" in str(job) and "template" not in str(store.jobs("fit"))
