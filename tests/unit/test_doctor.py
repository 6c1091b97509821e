"""`doctor` and broken set-ups: a test for each row of docs/reference/doctor.md, here or in tests/cluster.

Here are those of this machine, and some of a cluster, for which an HTTP server stands.
"""

from __future__ import annotations

import ast
import errno
import fcntl
import re
import shutil
import socket
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from apiscene import JOB_SETS, RUNTIMES, TRAINER, VERSION, Scene, runtime
from made_jobs import make_job
from nolocks import without_flock

from jupyter_jax_trainer import log
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api import rights
from jupyter_jax_trainer.backends.kubernetes.doctor import doctor as of_cluster
from jupyter_jax_trainer.backends.kubernetes.doctor import netpolicies, readiness
from jupyter_jax_trainer.backends.kubernetes.submit import launch, trainjob
from jupyter_jax_trainer.backends.local import doctor as local
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import FAIL, OK, WARN, Finding
from jupyter_jax_trainer.installation import install_command
from jupyter_jax_trainer.jobdir import files, locks, retention, store
from jupyter_jax_trainer.messages import Text, cluster, kubernetes, submit
from jupyter_jax_trainer.queries import targets

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scene(home, tmp_path, monkeypatch):
    found = Scene()
    monkeypatch.setenv("KUBECONFIG", str(found.kubeconfig(tmp_path / "config")))
    yield found
    connection._clients.clear()
    found.close()


def check(where: str, subject: str, status: str, *words: str) -> Finding:
    """Examine, and find what is wrong under its subject, with what to do about it.

    A message among the words has to be there with its hint.
    """
    found = {one.subject: one for one in report.examine(where)}
    finding = found[subject]
    said = f"{finding.detail} {finding.advice}"
    assert finding.status == status, finding
    assert finding.advice, "it does not say what to do"
    for word in words:
        assert word in said, said
        assert not isinstance(word, Text) or (word.hint or "") in said, said
    return finding


def versions(monkeypatch: Any, **changed: str | None) -> None:
    for module in (local, of_cluster):
        real = module.installed
        monkeypatch.setattr(
            module, "installed", lambda name, real=real: changed.get(name, real(name))
        )


# -- the list -------------------------------------------------------------------------------------


def listed() -> list[tuple[str, str]]:
    """Return the rows of the page: what is broken, and where that is tested."""
    text = (ROOT / "docs" / "reference" / "doctor.md").read_text(encoding="utf-8")
    return re.findall(
        r"^\| `([a-z0-9-]+)` \|.*?(?:\| (cluster|bare|stand-in) )?\|$", text, re.MULTILINE
    )


def broken_in(path: Path) -> set[str]:
    """Return what the tests of a file break."""
    names = (
        one.name
        for one in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(one, ast.FunctionDef)
    )
    return {
        n.removeprefix("test_broken_").replace("_", "-")
        for n in names
        if n.startswith("test_broken_")
    }


def test_each_row_of_the_list_has_a_test_and_each_test_a_row():
    rows = listed()
    where = {
        "cluster": broken_in(ROOT / "tests" / "cluster" / "test_doctor.py"),
        "bare": broken_in(ROOT / "tests" / "cluster" / "test_doctor_bare.py"),
    }
    here = broken_in(Path(__file__))
    assert sorted(name for name, _ in rows) == sorted(set().union(here, *where.values()))
    for name, place in rows:
        assert name in where.get(place, here), name
    real = where["cluster"] | where["bare"]
    assert len(rows) == len(dict(rows)) and len(real) >= 20


def test_a_healthy_machine_and_cluster_have_nothing_to_be_done(scene):
    found = list(report.examine("kubernetes"))
    wrong = [one for one in found if one.status != OK and one.subject != "Package kubernetes"]
    assert not wrong and len(found) > 6


def test_a_runtime_of_the_namespace_with_the_name_of_the_cluster_s_is_named_once(scene):
    found = {one.subject: one.detail for one in report.examine("kubernetes")}
    name = found[of_cluster.RUNTIMES()]
    assert "," not in name
    scene.answers[f"{TRAINER}/namespaces/default/trainingruntimes"] = {"items": [runtime(name)]}
    found = {one.subject: one.detail for one in report.examine("kubernetes")}
    assert found[of_cluster.RUNTIMES()] == name


# -- this machine ---------------------------------------------------------------------------------


def test_a_page_lists_what_this_machine_has_and_what_is_wrong_with_it(home):
    titles = {one["title"] for one in targets.health(targets.find("local"), fresh=True)}
    wrong = {one.subject for one in report.examine("local") if one.status != OK}
    assert titles == {"Python", "jax", "Cores", "Memory", "GPUs", "Disk"} | wrong


def test_broken_store_not_writable(home, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "file" / "below"))
    check("local", "Job store", FAIL, "JAXTRAIN_HOME")


def test_broken_no_locks(home, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", refuse)
    check("local", "Locks", FAIL, "Input/output error", "local disk")


def test_broken_file_system_without_locks(home, monkeypatch, tmp_path):
    without_flock(monkeypatch, home, tmp_path)
    check("local", "Locks", WARN, "No locks available", str(locks.folder()), "local disk")


def test_broken_store_of_others(home):
    home.chmod(0o777)
    check("local", "Job store", FAIL, str(home), "chmod go-w")


def test_broken_locks_that_hold_nobody(home, monkeypatch):
    monkeypatch.setattr(locks, "try_lock", lambda *_: True)  # some network file systems
    check("local", "Locks", FAIL, local.LOCKS_HOLD_NOBODY())


def test_broken_disk_full(home, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12, 10**7))
    check("local", "Disk", WARN, "10 MB free", "jaxtrain prune")


def test_broken_no_jax(home, monkeypatch):
    versions(monkeypatch, jax=None)
    check("local", "jax", FAIL, local.NOT_INSTALLED(), local.INSTALL_JAX())


def test_broken_old_jax(home, monkeypatch):
    versions(monkeypatch, jax="0.4.30", jaxlib="0.4.30")
    check("local", "jax", FAIL, "0.4.30", local.UPGRADE_JAX())


def test_broken_jaxlib_of_another_version(home, monkeypatch):
    versions(monkeypatch, jax="0.7.1", jaxlib="0.8.0")
    check("local", "jaxlib", FAIL, "jax is 0.7.1", "pip install 'jaxlib==0.7.1'")


def test_broken_old_cloudpickle(home, monkeypatch):
    versions(monkeypatch, cloudpickle="2.2.1")
    check("local", "cloudpickle", FAIL, "2.2.1", local.INSTALL_CLOUDPICKLE())


def test_broken_gpu_without_plugin(home, monkeypatch):
    monkeypatch.setattr(local, "local_gpus", lambda: ["0", "1"])
    monkeypatch.setattr(local, "gpu_plugin", lambda: None)
    check("local", "GPUs", WARN, local.GPUS_WITHOUT_PLUGIN(gpus=2))


def test_broken_little_memory(home, monkeypatch):
    monkeypatch.setattr(local.machine, "free_memory", lambda: 10**9)
    check("local", "Memory", WARN, "1 GB free", "fewer nodes")


def test_broken_ports(home, monkeypatch):
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "create_connection", refuse)
    check("local", "Ports", FAIL, "127.0.0.1", "loopback")


def test_broken_damaged_jobs(home):
    make_job("bad").state.write_text("{")
    make_job("dead", "Running")
    check("local", "Job directories", WARN, "damaged: 1", "abandoned", "bad", "delete dead")


def test_broken_settings(home, monkeypatch):
    monkeypatch.setenv(log.LEVEL_VARIABLE, "loud")
    check("local", "Settings", WARN, "'loud'", "debug, info")
    (home / "settings.toml").write_text("[on_end]\nurl = 'ftp://somewhere'")
    check("local", "Settings", WARN, "settings.toml", "url")
    monkeypatch.setenv(retention.DAYS, "a month")
    check("local", "Settings", FAIL, retention.DAYS, "a month")


# -- the way to the cluster -----------------------------------------------------------------------


def test_broken_no_kubeconfig(home, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    check("kubernetes", "Kubernetes", FAIL, "no kubeconfig", "KUBECONFIG")


def test_broken_no_package(scene, monkeypatch):
    versions(monkeypatch, kubernetes=None)
    check("kubernetes", "Kubernetes", FAIL, install_command("kubernetes"))


def test_broken_package_garbles_logs(scene, monkeypatch):
    versions(monkeypatch, kubernetes="36.0.0")
    check("kubernetes", "Package kubernetes", WARN, "36.0.0", "!=36.*")


def test_broken_unreachable(scene):
    scene.close()
    check("kubernetes", "Cluster", FAIL, "refused", kubernetes.UNREACHABLE.hint)


def test_broken_certificate_unchecked(scene, tmp_path, monkeypatch):
    config = scene.kubeconfig(tmp_path / "unverified", **{"insecure-skip-tls-verify": True})
    monkeypatch.setenv("KUBECONFIG", str(config))
    check("kubernetes", "Certificate", WARN, "insecure-skip-tls-verify", "certificate-authority")


def test_broken_clock(scene):
    scene.date = "Sun, 06 Nov 1994 08:49:37 GMT"
    finding = check("kubernetes", "Clock", WARN, readiness.CLOCK_AHEAD.hint)
    assert finding.detail.id == "doctor.clock-ahead"


def test_broken_follower(scene):
    directory = store.private_directory(launch.follower_directory(connection.get_client().identity))
    (directory / "problem").write_text("Context one now points to another cluster.\nLook at it.")
    check("kubernetes", "Follower", WARN, "another cluster", "Look at it.")


# -- the cluster ----------------------------------------------------------------------------------


def test_broken_no_trainer(scene):
    scene.answers[VERSION] = scene.answers["/openapi/v3" + RUNTIMES.rpartition("/")[0]] = 404
    check("kubernetes", "Kubeflow Trainer", FAIL, submit.NO_TRAINER())


@pytest.mark.parametrize("version", ["v2.0.0", "v2.1.1"])
def test_broken_old_trainer(version, scene):
    scene.answers[VERSION] = {"data": {"kubeflow_trainer_version": version}}
    check("kubernetes", "Kubeflow Trainer", FAIL, version, "2.2 or newer")


def test_broken_no_jobset(scene):
    scene.answers[JOB_SETS] = 404
    check("kubernetes", "JobSet", FAIL, readiness.NO_JOB_SET())


def test_broken_no_runtime(scene):
    scene.answers[RUNTIMES] = {"items": []}
    check("kubernetes", "JAX runtimes", FAIL, "none", "Install ours")


def test_broken_converted_runtimes_only(scene):
    converted = runtime("old-job")
    converted["metadata"]["labels"][trainjob.CONVERTED] = "true"
    scene.answers[RUNTIMES] = {"items": [converted]}
    finding = check("kubernetes", "JAX runtimes", FAIL, "old-job", "Install ours")
    assert finding.detail.id == "doctor.converted-runtimes"


def test_broken_runtime_reruns_cells(scene):
    scene.answers[RUNTIMES] = {"items": [runtime("stock", once=False)]}
    finding = check("kubernetes", "JAX runtimes", WARN, "stock")
    assert finding.detail.id == "doctor.rerunning-runtimes"


@pytest.mark.parametrize(
    ("policy", "api"),
    [
        ("coscheduling", "/apis/scheduling.x-k8s.io/v1alpha1"),
        ("volcano", "/apis/scheduling.volcano.sh/v1beta1"),
    ],
)
def test_who_starts_pods_together_is_looked_for_where_a_runtime_wants_it(policy, api, scene):
    gang = runtime("gang")
    gang["spec"]["podGroupPolicy"] = {policy: {}}
    scene.answers[RUNTIMES] = {"items": [gang]}
    check("kubernetes", "Runtime gang", WARN, f"podGroupPolicy.{policy}", "not installed")
    for answer in ({"resources": []}, 403):  # it is there, and: nobody may look
        scene.answers[api] = answer
        assert not [one for one in report.examine("kubernetes") if one.subject == "Runtime gang"]


def test_what_is_lost_without_the_rights_for_restarts_is_no_fault(scene, monkeypatch):
    lacking = rights.RESTARTS[:2]
    with monkeypatch.context() as patch:
        patch.setattr(rights, "_allowed", lambda client, right: right not in lacking)
        check(
            "kubernetes",
            of_cluster.RESTART_RIGHTS(),
            OK,
            "missing: create trainingruntimes, patch",
            str(cluster.NO_RESTARTS()),
            "jupyter-jax-trainer-restarts",
        )
        told = {one.subject: one for one in report.examine("kubernetes")}
        assert told["Rights"].status == OK and not told["Rights"].advice
    subjects = [one.subject for one in report.examine("kubernetes")]
    assert subjects and of_cluster.RESTART_RIGHTS() not in subjects


@pytest.mark.parametrize(
    ("verb", "resource", "lost"),
    [("get", "jobsets", cluster.NO_OWNERS()), ("list", "jobs", cluster.NO_JOBS())],
)
def test_without_the_right_to_look_at_owners_it_is_said_what_is_lost(
    scene, monkeypatch, verb, resource, lost
):
    lacking = rights.find(verb, resource)
    monkeypatch.setattr(rights, "_allowed", lambda client, right: right != lacking)
    check(
        "kubernetes",
        "Rights",
        WARN,
        f"missing: {verb} {resource}",
        f"{lost} ({verb} {resource})",
        "runtimes/rights.yaml",
    )


def test_without_the_right_to_port_forwards_it_is_said_what_is_lost(scene, monkeypatch):
    lacking = rights.find("create", "pods/portforward")
    monkeypatch.setattr(rights, "_allowed", lambda client, right: right != lacking)
    check(
        "kubernetes",
        "Rights",
        WARN,
        "missing: create pods/portforward",
        "ranks can't be asked where they are (create pods/portforward)",
        "runtimes/rights.yaml",
    )


def test_broken_no_upgrades(scene):
    scene.upgrades = False
    check(
        "kubernetes",
        of_cluster.FORWARDS(),
        WARN,
        "HTTP 200",
        str(cluster.NO_FORWARD()),
        "websocket",
    )
    scene.upgrades = True
    (found,) = [one for one in report.examine("kubernetes") if one.subject == of_cluster.FORWARDS()]
    assert (found.status, found.detail) == (OK, of_cluster.UPGRADES())


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_watch_pods_is_told_nothing_of_upgrades(scene, status):
    scene.upgrades = False
    scene.answers["/api/v1/namespaces/default/pods"] = status
    assert of_cluster.FORWARDS() not in [one.subject for one in report.examine("kubernetes")]


def test_broken_channel_closed(scene):
    rule = {"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": 29500}]}
    scene.answers["/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"] = {
        "items": [{"metadata": {"name": "few"}, "spec": {"podSelector": {}, "ingress": [rule]}}]
    }
    check(
        "kubernetes",
        netpolicies.NETWORK_POLICY(),
        WARN,
        "few (ingress) close TCP port 29510",
        "{protocol: TCP, port: 29510}",
    )


def test_broken_image_without_jax(scene):
    missing = {"type": "ModuleNotFoundError", "message": "No module named 'jax'", "traceback": ""}
    directory = make_job(
        "fit", "Failed", failure={"kind": "error", "message": "rank 0", "error": missing}
    )
    manifest = directory.read_manifest()
    manifest["plan"].update(cluster=connection.get_client().identity, image="python:3.11")
    files.write_json(directory.manifest, manifest)
    check("kubernetes", "Image", WARN, readiness.NO_JAX(name="fit", image="python:3.11"))


def test_an_api_that_falls_silent_in_between_is_one_line_and_the_rest_is_looked_at(scene):
    scene.answers[JOB_SETS] = 503
    found = [(one.subject, one.status) for one in report.examine("kubernetes")]
    assert ("Cluster", WARN) in found and ("Rights", OK) in found and ("Trial", OK) in found


def test_broken_pod_security_for_good(scene):
    scene.answers["/api/v1/namespaces/default"] = {
        "metadata": {
            "name": "default",
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        }
    }
    item = runtime("root")
    (job,) = item["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["initContainers"] = [
        {"name": "set-up", "securityContext": {"privileged": True}}
    ]
    scene.answers[RUNTIMES] = {"items": [item]}
    check("kubernetes", "PodSecurity", WARN, "root", "set-up of node", "another runtime")
