"""Every way in which a client can know the cluster and say who it is; and tokens stay where they are."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from harness import eventually, text, wait_for_text
from pace import within

from cluster import people
from cluster.jobs import CAUSES, PATIENCE, run, stop_followers, submit
from cluster.kubernetes_cluster import Namespace
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.doctor import doctor
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import FAIL, Finding
from jupyter_jax_trainer.errors import BackendError, UsageError
from jupyter_jax_trainer.messages import cluster as say
from jupyter_jax_trainer.messages import kubernetes as say_of_kubernetes

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
REPOSITORY = Path(__file__).parents[2]
CELL = "print('hello')\nanswer = 42"
LONG = """
import time
for n in range(100):
    print("line", n, flush=True)
    time.sleep(0.1)
answer = 42
"""


@pytest.fixture
def user(namespace: Namespace) -> Any:
    """Create a user with the least rights, and give a function for tokens of theirs."""
    people.create(namespace, people.objects(namespace.name, "someone", *people.minimal()))
    yield lambda: people.token(namespace, "someone")
    people.forget(namespace)


@pytest.fixture
def home(store: Path) -> Any:
    """End the followers of the test's jobs."""
    yield store
    connection._clients.clear()
    stop_followers(store)


def examined(**options: Any) -> dict[str, Finding]:
    given = {"context": None, "namespace": None, **options}
    return {finding.subject: finding for finding in report.examine("kubernetes", **given)}


# -- kubeconfigs ----------------------------------------------------------------------------------


def test_contexts_namespaces_and_several_files(
    cluster, namespace, user, home, tmp_path, monkeypatch
):
    """--context and --namespace choose; without them the current context and its namespace count."""
    about = people.about(cluster)
    first = people.kubeconfig(tmp_path / "first", about, {"token": "no good"}, name="wrong")
    right = people.kubeconfig(
        tmp_path / "right", about, {"token": user()}, namespace.name, name="right"
    )
    several = os.pathsep.join(map(str, (first, right, tmp_path / "none")))
    monkeypatch.setenv("KUBECONFIG", several)
    assert Client().context == "wrong"  # the first one that a file names
    job = submit(CELL, "--backend kubernetes --context right", "-o answer")
    assert job.manifest["plan"]["namespace"] == namespace.name
    assert job.wait(PATIENCE).result("answer") == 42  # the follower knows both files, too
    with pytest.raises(BackendError) as error:
        submit(CELL, f"--backend kubernetes --namespace {namespace.name}")
    assert error.value.hint == CAUSES["signed-out"].hint
    with pytest.raises(UsageError, match="no context 'rigth'") as error:
        submit(CELL, "--backend kubernetes --context rigth")
    assert "right" in str(error.value.hint)
    assert examined(context="other")["Cluster"].status == FAIL
    found = examined(context="right")
    assert f"namespace {namespace.name}, context right" in found["Cluster"].detail
    assert examined(context="right", namespace="kube-nothing")["Rights"].status == FAIL
    # Another current context counts from the next job on, in the same kernel.
    monkeypatch.setenv("KUBECONFIG", str(right))
    assert connection.get_client().context == "right"
    people.kubeconfig(right, about, {"token": user()}, name="renamed")
    assert connection.get_client().context == "renamed"


def test_client_certificates(cluster, namespace, home, tmp_path, monkeypatch):
    """As files next to the kubeconfig; the key is left nowhere."""
    read = json.loads(cluster("config", "view", "--raw", "--minify", "--output=json"))
    user = read["users"][0]["user"]
    if "client-certificate-data" not in user:
        return  # of another cluster
    for kind in ("certificate", "key"):
        (tmp_path / kind).write_bytes(base64.b64decode(user[f"client-{kind}-data"]))
    config = people.kubeconfig(
        tmp_path / "config",
        people.about(cluster),
        {"client-certificate": "certificate", "client-key": "key"},
    )
    monkeypatch.setenv("KUBECONFIG", str(config))
    run(CELL, f"--backend kubernetes --namespace {namespace.name}", "-o answer")
    key = base64.b64decode(user["client-key-data"]).decode().splitlines()[1]
    assert not people.seen_in(key, home)


# -- tokens that change ---------------------------------------------------------------------------


def plugin(folder: Path, seconds: int | None) -> tuple[Path, dict[str, Any]]:
    """Make a program that prints what is in the file `token`, and counts how often."""
    script = folder / "plugin"
    status = "{'token': open(here + '/token').read().strip()}"
    if seconds is not None:
        status = status[:-1] + (
            f", 'expirationTimestamp': time.strftime('%Y-%m-%dT%H:%M:%SZ', "
            f"time.gmtime(time.time() + {seconds}))}}"
        )
    script.write_text(
        textwrap.dedent(f"""\
        #!{sys.executable}
        import json, os, sys, time
        here = os.path.dirname(os.path.abspath(__file__))
        open(here + "/calls", "a").write("x")
        if os.path.exists(here + "/broken"):
            sys.exit("please sign in again")
        print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1",
                          "kind": "ExecCredential", "status": {status}}}))
        """)
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(script),
        "args": [],
        "interactiveMode": "Never",
    }
    return folder / "calls", {"exec": run}


def test_a_job_outlives_the_token_of_an_exec_plugin(
    cluster, namespace, user, home, tmp_path, monkeypatch
):
    began = time.monotonic()
    calls, credentials = plugin(tmp_path, seconds=3)
    token = user()
    (tmp_path / "token").write_text(token)
    config = people.kubeconfig(tmp_path / "config", people.about(cluster), credentials)
    monkeypatch.setenv("KUBECONFIG", str(config))
    place = f"--backend kubernetes --namespace {namespace.name}"
    job = submit(LONG.replace("100", "200"), place, "-o answer")  # the log may come late
    wait_for_text(job, "line 3")
    before = len(calls.read_text())
    assert job.wait(PATIENCE).result("answer") == 42
    assert [f"line {n}" for n in range(200)] == text(job).splitlines()
    took = time.monotonic() - began
    assert before < len(calls.read_text()) < max(60, took)  # asked again, not for every request
    log = "".join(path.read_text() for path in (home / "followers").glob("*/follower.log"))
    assert not people.seen_in(token, home, log, str(examined()))


def test_a_token_that_is_refused_is_read_again(cluster, namespace, home, tmp_path, monkeypatch):
    """Its user is deleted and created anew, so that the old token is worth nothing at once."""
    about = people.about(cluster)
    items = people.objects(namespace.name, "someone", *people.minimal())
    people.create(namespace, items)
    (tmp_path / "token").write_text(people.token(namespace, "someone"))
    config = people.kubeconfig(tmp_path / "config", about, {"tokenFile": str(tmp_path / "token")})
    monkeypatch.setenv("KUBECONFIG", str(config))
    place = f"--backend kubernetes --namespace {namespace.name}"
    job = submit(LONG.replace("100", "200"), place, "-o answer")
    try:
        wait_for_text(job, "line 3")
        namespace("delete", "serviceaccount", "someone")
        people.create(namespace, items[:1])
        client = Client(None, namespace.name)
        eventually(lambda: refused(client))
        (tmp_path / "token").write_text(people.token(namespace, "someone"))
        run("pass", place, "--name second")  # by the client that has the old token
        assert job.wait(PATIENCE).result("answer") == 42
        assert [f"line {n}" for n in range(200)] == text(job).splitlines()
    finally:
        people.forget(namespace)


def refused(client: Client) -> bool:
    from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError

    try:
        client.request("GET", client.trainer("trainjobs"))
    except ApiError as error:
        return error.status == 401
    return False


def test_a_plugin_that_fails_is_said(cluster, namespace, user, home, tmp_path, monkeypatch, capfd):
    _calls, credentials = plugin(tmp_path, seconds=None)
    (tmp_path / "broken").touch()
    config = people.kubeconfig(tmp_path / "config", people.about(cluster), credentials)
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(BackendError) as error:
        submit(CELL, f"--backend kubernetes --namespace {namespace.name}")
    assert "gave no credentials (exec: process returned 1. please sign in again)" in str(
        error.value
    )
    assert examined()["Cluster"].status == FAIL
    assert capfd.readouterr().err == ""  # the client's own words would go there


# -- a pod ----------------------------------------------------------------------------------------

IN_POD = """
import os, sys
from pathlib import Path
sys.path[:0] = [os.environ["TESTS"], os.environ["TESTS"] + "/local"]
from cluster.jobs import run, stop_followers
from jupyter_jax_trainer.queries import targets as places
home = Path(os.environ["JAXTRAIN_HOME"])
try:
    job = run("print('hello')\\nanswer = 42", "--backend kubernetes", "-o answer")
    assert job.result("answer") == 42
    plan = job.manifest["plan"]
    print("SAW", plan["namespace"], plan["context"], plan["server"])
    _, there = places.places()
    names = [runtime["name"] for runtime in places.runtimes(places.find(there["id"]))]
    print("PAGE SEES", there["id"], there["namespace"], there["problem"], "jax-cpu" in names)
finally:
    stop_followers(home)
"""


def test_in_a_pod_its_service_account_is_used(cluster, namespace, user, home, tmp_path):
    """Under the paths and variables that a pod has: in a mount namespace of our own."""
    about = people.about(cluster)
    account = tmp_path / "serviceaccount"
    account.mkdir()
    token = user()
    (account / "token").write_text(token)
    (account / "ca.crt").write_bytes(base64.b64decode(about["certificate-authority-data"]))
    (account / "namespace").write_text(namespace.name)
    host, _, port = about["server"].removeprefix("https://").partition(":")
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port or "443",
        "JAXTRAIN_HOME": str(home),
        "HOME": str(tmp_path),
        "TESTS": str(REPOSITORY / "tests"),
        "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'tests'}",
    }
    user_namespace = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    there = "/run/secrets/kubernetes.io/serviceaccount"
    done = subprocess.run(
        [
            "unshare",
            *user_namespace,
            "--mount",
            "sh",
            "-ec",
            f'mount -t tmpfs tmpfs /run && mkdir -p {there} && cp "$1"/* {there} && shift && exec "$@"',
            "sh",
            str(account),
            sys.executable,
            "-c",
            IN_POD,
        ],
        capture_output=True,
        text=True,
        env=environment,
        timeout=110,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert f"SAW {namespace.name} None https://{host}:{port}" in done.stdout
    assert f"PAGE SEES pod {namespace.name} None True" in done.stdout  # what the picker shows
    assert not people.seen_in(token, home, done.stdout, done.stderr)


# -- no cluster -----------------------------------------------------------------------------------


def test_no_cluster_a_dead_one_and_one_of_somebody_else(cluster, tmp_path, monkeypatch, home):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert examined()["Kubernetes"].detail == doctor.NO_KUBECONFIG()
    with pytest.raises(UsageError) as error:
        submit(CELL, "--backend kubernetes")
    assert error.value.id == "cluster.no-cluster-no-file"
    server = "https://127.0.0.1:1"
    dead = people.kubeconfig(tmp_path / "dead", {"server": server}, {"token": "x"})
    monkeypatch.setenv("KUBECONFIG", str(dead))
    began = time.monotonic()
    found = examined()["Cluster"]
    silent = say_of_kubernetes.UNREACHABLE(server=server, error="connection refused")
    assert (found.status, found.detail) == (FAIL, silent)
    assert within(time.monotonic() - began, 30)
    about = {"server": people.about(cluster)["server"]}  # without its authority
    strange = people.kubeconfig(tmp_path / "strange", about, {"token": "x"})
    monkeypatch.setenv("KUBECONFIG", str(strange))
    untrusted = say.UNTRUSTED_CERTIFICATE(error="")
    with pytest.raises(BackendError, match=re.escape(untrusted)):
        submit(CELL, "--backend kubernetes")
