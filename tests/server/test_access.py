"""What the server's configuration refuses: rights, origins, contexts and namespaces."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import websocket
from harness import eventually
from made_jobs import held, made_elsewhere, make_job

from jupyter_jax_trainer.jobdir import files
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.waiting import Waiting
from jupyter_jax_trainer.messages import queries as say
from server.servers import TOKEN, Server
from server.silent import Silent

CONFIG = """
from pathlib import Path
from jupyter_server.auth import Authorizer


class Listed(Authorizer):
    async def is_authorized(self, handler, user, action, resource):
        return f"{{action}} {{resource}}" not in Path({refused!r}).read_text().splitlines()


c.ServerApp.authorizer_class = Listed
c.ServerApp.allow_origin = "*"  # as in Kubeflow's images: Jupyter itself lets all pages in
c.JaxTrain.allowed_origins = ["https://Hub.Example.org/"]
c.JaxTrain.allowed_contexts = ["dev-*"]
c.JaxTrain.allowed_namespaces = ["team-?", "mine"]
c.JaxTrain.allow_foreign_results = False
c.JaxTrain.allow_pickled_results = False
c.JaxTrain.allow_on_end = False
c.JaxTrain.session_idle = "20m"
c.JaxTrain.max_session_idle = "2h"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Silent]:
    cluster = Silent()
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def _strict(
    _module_store: Path, tmp_path_factory: pytest.TempPathFactory, cluster: Silent
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("strict")
    refused, config = folder / "refused", folder / "config"
    refused.write_text("")
    config.mkdir()
    (config / "jupyter_server_config.py").write_text(CONFIG.format(refused=str(refused)))
    cluster.kubeconfig(folder / "kubeconfig", "team-a", "dev-1", "live")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
        server = Server(folder, _module_store)
    yield server
    server.stop()


@pytest.fixture
def strict(_strict, store):
    refuse(_strict, "")
    return _strict


def refuse(server, what):
    (server.root.parent / "refused").write_text(what)


# ---------------------------------------------------------------------------- rights

ASKED = {
    "read": [
        ("GET", "jobs"),
        ("GET", "jobs/one"),
        ("GET", "jobs/one/metrics"),
        ("GET", "jobs/one/events"),
        ("GET", "jobs/one/yaml"),
        ("GET", "jobs/one/log"),
        ("GET", "jobs/one/log?source=0"),
        ("GET", "places"),
        ("GET", "health?place=local"),
        ("GET", "runtimes?place=local"),
        ("GET", "queues?place=local"),
        ("GET", "options"),
        ("POST", "line/read"),
        ("POST", "line/write"),
        ("GET", "nonsense"),
    ],
    "write": [("DELETE", "jobs/one")],
    "execute": [
        ("POST", f"jobs/one/{act}") for act in ("detach", "cancel", "suspend", "resume", "trust")
    ],
}


@pytest.mark.parametrize("right", ASKED)
def test_who_lacks_a_right_is_refused_and_nothing_is_done(strict, right):
    directory = make_job("one", "Running", logs={0: ["a"]})
    with held(directory), Waiting(directory) as waiting:
        before = contents(directory)
        refuse(strict, f"{right} jaxtrain\n")
        for method, path in ASKED[right]:
            body = {"source": "%%jaxtrain"} if method == "POST" else None
            status, said = strict.ask(method, path, body)
            assert status == 403 and json.loads(said)["message"] == "Forbidden", (method, path)
        assert contents(directory) == before and not waiting.over()
        if right == "read":
            with pytest.raises(websocket.WebSocketBadStatusException) as refused, strict.page():
                pass
            assert refused.value.status_code == 403
        else:  # what else the user may do goes on
            assert strict.ask("GET", "jobs/one")[0] == 200
            with strict.page() as page:
                page.say(op="open", id=1, topic="jobs")
                assert page.hear("jobs")["rows"][0]["key"] == "one"
        refuse(strict, "")
        assert strict.ask("POST", "jobs/one/detach", {})[0] == 200
        assert waiting.over()  # so it could be seen above


def test_other_rights_than_ours_are_not_asked_for(strict):
    make_job("one")
    refuse(strict, "read contents\nwrite contents\nexecute kernels\n")
    assert strict.ask("GET", "jobs/one")[0] == 200
    assert strict.ask("DELETE", "jobs/one")[0] == 200


def contents(directory):
    return {path: path.read_bytes() for path in directory.path.rglob("*") if path.is_file()}


# ---------------------------------------------------------------------------- results of others


def test_the_administrator_can_forbid_results_of_others(strict):
    directory = made_elsewhere(make_job("fit"))
    row = strict.get("jobs/fit")["row"]
    assert row["trust"] == "forbidden" and "trust" not in row["actions"]
    status, said = strict.ask("POST", "jobs/fit/trust", {"uid": row["uid"]})
    assert status == 400 and "JAXTRAIN_ALLOW_FOREIGN_RESULTS" in json.loads(said)["message"]
    assert not directory.trust.exists()
    Job(directory).trust()  # as if it had been said before the administrator forbade it
    assert strict.get("jobs/fit")["row"]["trust"] == "forbidden"


def test_kernels_of_the_server_get_what_administrators_set(strict):
    url = strict.url.removesuffix("jaxtrain/api/")
    kernel = json.loads(strict.ask("POST", "api/kernels", {}, url=url)[1])["id"]
    try:
        process = eventually(lambda: kernel_process(kernel), 20)
        assert {
            "JAXTRAIN_ALLOW_FOREIGN_RESULTS=0",
            "JAXTRAIN_ALLOW_PICKLED_RESULTS=0",
            "JAXTRAIN_ALLOW_ON_END=0",
            "JAXTRAIN_SESSION_IDLE=20m",
            "JAXTRAIN_SESSION_IDLE_MAX=2h",
        } <= set(environment_of(process))
    finally:
        assert strict.ask("DELETE", f"api/kernels/{kernel}", url=url)[0] == 204


def kernel_process(kernel):
    """Find a kernel by its connection file."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if kernel in path.read_text():
                return path.parent
    return None


def environment_of(process):
    return (process / "environ").read_bytes().decode(errors="replace").split("\0")


# ---------------------------------------------------------------------------- origins

LISTED, OTHER = "https://hub.example.org", "https://hub.example.org.evil.example"


@pytest.fixture
def signed_in(strict):
    """Give the cookie of somebody who is signed in, as a browser has it."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    opener.open(f"{strict.url.removesuffix('jaxtrain/api/')}api/status?token={TOKEN}").close()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


@pytest.mark.parametrize(("origin", "welcome"), [(LISTED, True), (OTHER, False), ("null", False)])
def test_pages_of_listed_origins_may_ask_and_others_may_not(strict, signed_in, origin, welcome):
    make_job("one")
    page = {"Cookie": signed_in, "Origin": origin}
    status = 200 if welcome else 403
    assert strict.ask("GET", "jobs/one", headers=page)[0] == status
    referred = {"Cookie": signed_in, "Referer": f"{origin}/lab"}
    assert strict.ask("GET", "jobs/one", headers=referred)[0] == status
    said = (
        contextlib.nullcontext()
        if welcome
        else pytest.raises(websocket.WebSocketBadStatusException)
    )
    with said as refused, strict.page(Authorization="", **page) as live:
        live.say(op="open", id=1, topic="jobs")
        assert live.hear("jobs")["rows"][0]["key"] == "one"
    assert welcome or refused.value.status_code == 403
    token = {"Authorization": f"token {TOKEN}", "Origin": origin}
    assert strict.ask("DELETE", "jobs/one", headers=token)[0] == status


def test_a_cookie_alone_changes_nothing(strict, signed_in):
    """A foreign page can have a browser send it; the word that goes with it is in our pages only."""
    directory = make_job("one")
    cookies = f"{signed_in}; _xsrf=0123456789abcdef"
    page = {"Cookie": cookies, "Origin": strict.url.partition("/hub")[0]}
    for method, path in (("POST", "jobs/one/cancel"), ("DELETE", "jobs/one")):
        status, text = strict.ask(method, path, headers=page)
        assert status == 403 and b"_xsrf" in text and directory.path.is_dir()
    with_word = {**page, "X-XSRFToken": "0123456789abcdef"}
    assert (
        strict.ask("DELETE", "jobs/one", headers=with_word)[0] == 200
        and not directory.path.exists()
    )


# ---------------------------------------------------------------------------- clusters


def test_no_error_tells_the_password_of_a_cluster(strict):
    directory = make_job("one", "Running")
    manifest = directory.read_manifest()
    plan = {
        "context": "dev-1",
        "namespace": "team-a",
        "cluster": "another",
        "server": "https://jo:hush@c.example",
    }
    files.write_json(directory.manifest, {**manifest, "backend": "kubernetes", "plan": plan})
    with held(directory):
        status, said = strict.ask("POST", "jobs/one/cancel", {})
    assert status == 400 and b"c.example" in said and b"hush" not in said


def test_contexts_that_are_not_allowed_are_not_told(strict):
    assert [place["id"] for place in strict.get("places")["places"]] == ["local", "context:dev-1"]


FORBIDDEN = {"context": say.CONTEXT_FORBIDDEN, "namespace": say.NAMESPACE_FORBIDDEN}


@pytest.mark.parametrize("what", ["health", "runtimes", "runtimes/jax-cpu/yaml", "queues"])
def test_no_cluster_is_asked_about_what_is_not_allowed(strict, cluster, what):
    for place, named, kind in (
        ("context:dev-1&namespace=kube-system", "kube-system", "namespace"),
        ("context:live", "live", "context"),
        ("context:live&namespace=mine", "live", "context"),
    ):
        status, said = strict.ask("GET", f"{what}?place={place}")
        refused = FORBIDDEN[kind](name=repr(named))
        assert status == 400 and json.loads(said) == {"message": refused, "hint": refused.hint}
        assert f"allowed_{kind}s" in str(refused.hint)
    assert not cluster.asked


@pytest.mark.parametrize(
    ("context", "namespace", "named", "kind"),
    [
        ("live", "team-a", "live", "context"),
        ("dev-1", "kube-system", "kube-system", "namespace"),
    ],
)
def test_jobs_on_clusters_that_are_not_allowed_are_seen_and_not_touched(
    strict, cluster, context, namespace, named, kind
):
    directory = make_job(context, "Running", log="hello\n")
    plan = {
        **directory.read_manifest()["plan"],
        "context": context,
        "namespace": namespace,
        "cluster": "another",
    }
    manifest = {**directory.read_manifest(), "backend": "kubernetes", "plan": plan}
    files.write_json(directory.manifest, manifest)
    with held(directory):
        assert strict.get(f"jobs/{context}")["row"]["name"] == context
        for method, path in (
            ("GET", f"jobs/{context}/yaml"),
            ("POST", f"jobs/{context}/cancel"),
            ("POST", f"jobs/{context}/suspend"),
            ("POST", f"jobs/{context}/resume"),
            ("DELETE", f"jobs/{context}"),
        ):
            status, said = strict.ask(method, path, None if method == "GET" else {})
            message = json.loads(said)["message"]
            assert (status, message) == (400, FORBIDDEN[kind](name=repr(named))), path
        assert strict.ask("POST", f"jobs/{context}/detach", {})[0] == 200  # no cluster is asked
    assert directory.path.is_dir() and not directory.cancel.exists() and not cluster.asked
