"""The client against a real HTTP server that answers in all the ways that servers have."""

from __future__ import annotations

import base64
import gc
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml
from harness import eventually
from webserver import Quiet, WebServer

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api import client as clients
from jupyter_jax_trainer.backends.kubernetes.api import kubeconfig
from jupyter_jax_trainer.backends.kubernetes.api.answers import forward_refusal, right_for
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.api.objects import Secret
from jupyter_jax_trainer.backends.kubernetes.api.rights import RESTARTS, RIGHTS, find
from jupyter_jax_trainer.backends.kubernetes.submit import launch, runtimes
from jupyter_jax_trainer.errors import BackendError, BackendUnavailable, UsageError
from jupyter_jax_trainer.messages import cluster as say

REPOSITORY = Path(__file__).parents[2]
Answer = tuple[int, dict[str, str], bytes]
VERSION = "/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public"
SCHEMA = "/openapi/v3/apis/trainer.kubeflow.org/v1alpha1"


class Server(WebServer):
    """Answers with what `answer` says of a request."""

    def __init__(self) -> None:
        self.answer: Callable[[str, str], Answer] = lambda path, token: told({"path": path})
        self.tokens: list[str] = []
        outer = self

        class Handler(Quiet):
            def do_GET(self) -> None:
                token = self.headers.get("Authorization", "")
                outer.tokens.append(token)
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.give(*outer.answer(self.path, token))

            do_POST = do_GET

        super().__init__(Handler)


def told(found: dict[str, Any], status: int = 200, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"Content-Type": "application/json", **given}, json.dumps(found).encode()


def page(title: str, status: int = 200, **headers: str) -> Answer:
    text = f"<html><head><title>{title}</title></head></html>".encode()
    return status, {"Content-Type": "text/html; charset=utf-8", **headers}, text


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def written(path: Path, server: str, user: dict[str, Any] | None = None, **more: Any) -> Path:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "one",
                "clusters": [{"name": "one", "cluster": {"server": server}}],
                "users": [{"name": "one", "user": user or {"token": "first"}}],
                "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
                **more,
            }
        )
    )
    return path


@pytest.fixture
def config(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return written(tmp_path / "config", server.url)


# -- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (page("Sign in"), say.WEB_PAGE()),
        (
            page("", 302, Location="https://login.example/?token=secret"),
            say.REDIRECTS_TO(target="login.example"),
        ),
        ((200, {}, b"hello"), say.NOT_JSON()),
        ((200, {}, b"[1]"), say.NOT_AN_OBJECT()),
    ],
)
def test_what_is_not_the_api(server, config, answer, said):
    server.answer = lambda path, token: answer
    with pytest.raises(Unreachable) as error:
        Client().request("GET", "/version")
    assert str(error.value) == said and "secret" not in said


def test_a_page_is_no_log(server, config):
    server.answer = lambda path, token: page("Sign in")
    with pytest.raises(Unreachable, match="web page"):
        Client().open("/api/v1/namespaces/default/pods/a/log", None, 60)


def test_an_error_page_of_a_load_balancer(server, config):
    server.answer = lambda path, token: page("502 Bad Gateway", 502)
    with pytest.raises(ApiError) as error:
        Client().request("GET", "/version")
    assert error.value.status == 502
    assert error.value.message == say.REFUSED_BY_TITLED_PAGE(title="502 Bad Gateway")


def test_the_server_says_when_to_ask_again(server, config):
    begun = time.monotonic()
    busy = told({"message": "busy"}, 429, Retry_After="1")
    server.answer = lambda path, token: busy if len(server.tokens) < 2 else told({"is": "fine"})
    client = Client()
    found = launch._patiently(lambda: client.request("GET", "/version"), begun + 30)
    assert found == {"is": "fine"} and time.monotonic() - begun >= 1


def test_no_answer_is_put_into_words(server, config, tmp_path, monkeypatch):
    written(config, "http://127.0.0.1:1")
    with pytest.raises(Unreachable, match="^connection refused$"):
        Client().request("GET", "/version")
    written(config, server.url.replace("http:", "https:"))
    with pytest.raises(Unreachable) as error:
        Client().request("GET", "/version")
    assert error.value.args[0].id in (say.NO_TLS.id, say.TLS_FAILED.id)
    written(config, "http://no-such-host.invalid")
    with pytest.raises(Unreachable, match=str(say.UNKNOWN_HOST())):
        Client().request("GET", "/version")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        written(config, f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unreachable, match=str(say.ANSWER_TIMEOUT())):
            Client().request("GET", "/version", timeout=0.2)
        monkeypatch.setenv(timeouts.REQUEST.variable, "0.2")
        with pytest.raises(Unreachable, match=str(say.ANSWER_TIMEOUT())):
            Client().request("GET", "/version")


def test_a_server_that_dies_before_the_handshake(server, config, monkeypatch):
    """CPython leaves the socket to the collector then: a warning in whatever runs at the time."""
    wrap = ssl.SSLContext.wrap_socket
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def late(context: ssl.SSLContext, sock: socket.socket, *more: Any, **options: Any) -> Any:
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()
            return wrap(context, sock, *more, **options)

        monkeypatch.setattr(ssl.SSLContext, "wrap_socket", late)
        written(config, f"https://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(Unreachable, match="connection"):
            Client().request("GET", "/version")
    gc.collect()


@pytest.mark.parametrize(
    ("request_", "right"),
    [
        (("GET", "/api/v1/namespaces/x/pods/p/log", False), ("get", "pods/log")),
        (("GET", "/api/v1/namespaces/x/pods", False), ("list", "pods")),
        (("GET", "/apis/batch/v1/namespaces/x/jobs", True), ("watch", "jobs")),
        (("GET", "/api/v1/namespaces/x", False), ("get", "namespaces")),
        (
            ("PATCH", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/x/trainjobs/t", False),
            ("patch", "trainjobs"),
        ),
        (
            ("GET", "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes", False),
            ("list", "clustertrainingruntimes"),
        ),
    ],
)
def test_what_a_request_needs(request_, right):
    assert right_for(*request_) == right


def test_a_refused_port_forward_names_the_right():
    """The words are those of Kubernetes 1.36: without the right to get, and to create."""
    body = '-+-+- {"kind":"Status","message":"pods \\"p\\" is forbidden: %s","code":403}'
    said = 'User \\"x\\" cannot get resource \\"pods/portforward\\" in API group'
    for words, verb in ((said, "get"), ("", "create")):
        error = forward_refusal(f"Handshake status 403 Forbidden -+-+- {{}} {body % words}")
        assert isinstance(error, ApiError)
        assert (error.status, error.verb, error.resource) == (403, verb, "pods/portforward")
    assert isinstance(forward_refusal("timed out"), Unreachable)


# -- credentials ----------------------------------------------------------------------------------


def test_many_threads_renew_a_refused_token_once(server, config, monkeypatch):
    def answer(path: str, token: str) -> Answer:
        good = token == "Bearer second"
        return told({"is": "fine"}) if good else told({"message": "Unauthorized"}, 401)

    server.answer = answer
    client, loads = Client(), []
    written(config, server.url, {"token": "second"})
    find_access = clients.find_access
    monkeypatch.setattr(
        clients, "find_access", lambda *given: loads.append(1) or find_access(*given)
    )
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(client.request("GET", "/version")))
        for _ in range(30)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [{"is": "fine"}] * 30
    assert len(loads) == 1


def test_credentials_that_stay_refused_are_not_asked_for_each_time(server, config, tmp_path):
    written(config, server.url, sign_in_program(tmp_path, CREDENTIAL))
    server.answer = lambda path, token: told({"message": "Unauthorized"}, 401)
    client = Client()
    for _ in range(20):
        with pytest.raises(ApiError) as error:
            client.request("GET", "/version")
        assert error.value.status == 401
    assert len((tmp_path / "calls").read_text().split()) <= 3


def sign_in_program(folder: Path, *lines: str) -> dict[str, Any]:
    """Write a program that writes down each time that it is run, and then does what is said."""
    script = folder / "plugin"
    script.write_text("\n".join(["#!/bin/sh", f"echo x >> {folder}/calls", *lines, ""]))
    script.chmod(0o700)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(script), "args": []}}


CREDENTIAL = (
    'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
    '"status": {"token": "old"}}\''
)


@pytest.mark.parametrize("then", [CREDENTIAL, "exit 1"], ids=["signs in", "fails"])
def test_somebody_signs_in_once_for_all_who_ask_meanwhile(
    server, config, tmp_path, monkeypatch, then
):
    monkeypatch.setattr(connection, "_clients", {})
    go = tmp_path / "go"
    program = sign_in_program(tmp_path, f"while [ ! -e {go} ]; do sleep 0.01; done", then)
    written(config, server.url, program)
    results: list[object] = []

    def ask() -> None:
        try:
            results.append(connection.get_client())
        except BackendError as error:
            results.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    eventually(lambda: signing_in() == len(threads), 30)
    go.touch()
    for thread in threads:
        thread.join(30)
    assert len(results) == 5 and len(set(results)) == 1
    assert (tmp_path / "calls").read_text().split() == ["x"]
    assert isinstance(results[0], Client) == (then == CREDENTIAL)
    if then != CREDENTIAL:  # whoever asks later tries again
        ask()
        assert len((tmp_path / "calls").read_text().split()) == 2


def signing_in() -> int:
    """Return how many threads want a client, and have taken down since when."""
    found = 0
    for frame in sys._current_frames().values():
        stack: FrameType | None = frame
        while stack is not None and stack.f_code is not connection.get_client.__code__:
            stack = stack.f_back
        found += stack is not None and "began" in stack.f_locals
    return found


def test_no_thread_gets_a_key_that_another_is_still_writing(config, tmp_path, monkeypatch):
    from kubernetes.config import kube_config

    monkeypatch.setattr(connection, "_clients", {})
    authority = f"the authority of {tmp_path}"  # in no file of the official client yet
    cluster = {
        "server": "https://127.0.0.1:1",
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
    }
    written(config, "", clusters=[{"name": "one", "cluster": cluster}])
    writing, go = threading.Event(), threading.Event()

    def slowly(path: str, mode: str = "r") -> Any:
        if mode == "wb":
            writing.set()
            go.wait(30)
        return open(path, mode)

    monkeypatch.setattr(kube_config, "open", slowly, raising=False)
    found: list[str] = []

    def ask(namespace: str) -> None:
        client = connection.get_client(None, namespace)
        found.append(Path(client._configuration.ssl_ca_cert).read_text())

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("team-a", "team-b")]
    threads[0].start()
    assert writing.wait(30)
    threads[1].start()
    threads[1].join(0.5)  # with a file that is not written it is done
    go.set()
    for thread in threads:
        thread.join(30)
    assert found == [authority, authority]


def test_who_cannot_wait_for_somebody_else_to_sign_in_is_told(config, monkeypatch):
    monkeypatch.setattr(connection, "_clients", {})
    monkeypatch.setenv(timeouts.SIGN_IN.variable, "0.1")
    busy = connection._sign_ins.setdefault((None, None), connection._SignIn())
    with busy.lock, pytest.raises(BackendUnavailable, match="sign-in program"):
        connection.get_client()


@pytest.mark.parametrize(
    ("status", "kind"), [(403, BackendError), (429, BackendUnavailable), (503, BackendUnavailable)]
)
def test_a_refusal_is_told_from_what_may_pass(server, config, status, kind):
    server.answer = lambda path, token: told({"message": "no", "reason": "so"}, status)
    client = Client()
    with pytest.raises(BackendError) as error, connection.said_plainly(client):
        client.request("GET", "/version")
    assert type(error.value) is kind


def test_a_cluster_that_is_gone_may_come_back_and_credentials_do_not(server, config, monkeypatch):
    client = Client()
    server.close()
    with pytest.raises(BackendUnavailable), connection.said_plainly(client):
        client.request("GET", "/version")

    def auth_settings() -> None:
        raise OSError("no ticket")

    monkeypatch.setattr(client._configuration, "auth_settings", auth_settings)
    client._known = (0.0, {})
    with pytest.raises(BackendError, match="no ticket") as error, connection.said_plainly(client):
        client.request("GET", "/version")
    assert type(error.value) is BackendError


def test_another_cluster_under_the_same_name_is_not_taken_for_ours(server, config):
    server.answer = lambda path, token: told({"message": "Unauthorized"}, 401)
    client = Client()
    before = len(server.tokens)
    written(config, "http://127.0.0.1:1", {"token": "second"})
    with pytest.raises(Unreachable, match="another cluster"):
        client.request("GET", "/version")
    assert client.server == server.url and len(server.tokens) == before + 1


def test_a_program_that_hangs_does_not_hang_the_others(server, config, monkeypatch):
    monkeypatch.setenv(timeouts.SIGN_IN.variable, "0.1")
    client = Client()
    with client._lock, pytest.raises(Unreachable, match=str(say.SIGN_IN_SLOW())):
        client.request("GET", "/version")


# -- kubeconfigs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [secret-token", "line 1|line 2"),
        ("- secret-token", "not a kubeconfig|can't be used"),
        ("", "kubeconfig"),
        ("contexts: [{}]\ncurrent-context: secret-token", "kubeconfig"),
    ],
)
def test_broken_kubeconfigs(tmp_path, monkeypatch, text, words):
    path = tmp_path / "config"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises((BackendError, UsageError), match=words) as error:
        Client()
    assert "secret-token" not in str(error.value)


def test_a_context_can_be_named_where_none_is_current(server, config):
    written(config, server.url, **{"current-context": ""})
    assert Client("one").context == "one"
    with pytest.raises(UsageError) as error:
        Client()
    assert error.value.id == say.NO_CURRENT_CONTEXT.id
    assert "one" in str(error.value.hint)


def test_a_relative_kubeconfig_is_handed_on_as_an_absolute_one(config, monkeypatch):
    monkeypatch.chdir(config.parent)
    monkeypatch.setenv("KUBECONFIG", f"config{os.pathsep}none")
    assert kubeconfig.paths() == str(config)


# -- versions of Trainer --------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v2.0.0", "v2.1.4", "1.9.2"])
def test_an_old_trainer_is_refused(server, config, version):
    server.answer = lambda path, token: told({"data": {"kubeflow_trainer_version": version}})
    with pytest.raises(BackendError, match=version) as error:
        runtimes.check_trainer(Client())
    assert error.value.id == "submit.old-trainer" and "2.2" in str(error.value.hint)


@pytest.mark.parametrize("version", ["v2.2.0", "v2.3.0", "v2.10.1", "3.0"])
def test_a_new_trainer_is_taken(server, config, version):
    server.answer = lambda path, token: told({"data": {"kubeflow_trainer_version": version}})
    assert runtimes.check_trainer(Client()) == version


@pytest.mark.parametrize("status", [403, 404])
def test_without_the_config_map_the_schema_tells(server, config, status):
    properties: dict[str, Any] = {"runtimePatches": {}}
    spec = {"properties": properties}
    name = "com.github.kubeflow.trainer.v2.pkg.apis.trainer.v1alpha1.TrainJob"
    schema = {"components": {"schemas": {name: {"properties": {"spec": spec}}}}}

    def answer(path: str, token: str) -> Answer:
        return told(schema) if path == SCHEMA else told({"message": "no"}, status)

    server.answer = answer
    assert runtimes.check_trainer(Client()) == "2.2 or newer"
    properties.clear()
    properties["podTemplateOverrides"] = {}  # of 2.0 and 2.1
    with pytest.raises(BackendError) as error:
        runtimes.check_trainer(Client())
    assert error.value.id == "submit.unpatched-trainer"
    server.answer = lambda path, token: told({"message": "no"}, 404)
    with pytest.raises(BackendError) as error:
        runtimes.check_trainer(Client())
    assert error.value.id == "submit.no-trainer"


# -- rights and imports ---------------------------------------------------------------------------


def test_the_role_has_what_is_listed_and_nothing_else():
    role, optional, cluster_role = yaml.safe_load_all(
        (REPOSITORY / "runtimes/rights.yaml").read_text()
    )
    assert (role["kind"], cluster_role["kind"]) == (optional["kind"], "ClusterRole")

    def single(document: dict[str, Any]) -> list[tuple[str, str, str]]:
        return [
            (group, resource, verb)
            for rule in document["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]

    wide = "clustertrainingruntimes"
    listed = [(right.group, right.resource, right.verb) for right in RIGHTS]
    assert len(set(listed)) == len(listed)
    assert sorted(single(role)) == sorted(r for r in listed if r[1] != wide)
    for_restarts = [(right.group, right.resource, right.verb) for right in RESTARTS]
    assert single(optional) == for_restarts and not set(for_restarts) & set(listed)
    assert sorted(single(cluster_role)) == sorted(r for r in listed if r[1] == wide)


def test_what_is_lost_names_verb_and_resource():
    said = say.NO_PERMISSION(right="get pods/log", lost=say.NO_LOGS())
    assert find("get", "pods/log").lack == said
    assert "list nodes" in find("list", "nodes").lack
    for right in (*RIGHTS, *RESTARTS):  # "secrets:" would mask the word after it
        assert masking.text(right.lack) == right.lack


LATE = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_jax_trainer")
shell.run_line_magic("jaxtrain", "jobs")
shell.run_cell_magic("jaxtrain", "-n 1", "answer = 42")
shell.run_line_magic("jaxtrain", "jobs")
print("SAW", sorted({"kubernetes", "kubeflow", "yaml", "urllib3"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_the_official_client_is_imported_only_for_a_cluster(home, config):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "JAXTRAIN_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, env=environment, timeout=100
    )
    assert "SAW []" in done.stdout, done.stdout + done.stderr


def test_kubeflow_is_no_dependency():
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(line for extra in extras for line in extra)]
    assert not [line for line in wanted if line.startswith("kubeflow")]


@pytest.mark.parametrize("allowed", [False, True])
def test_a_refusal_that_a_long_request_has_lost_is_asked_for(allowed):
    """A server does not read to its end what it refuses, and cuts the connection."""

    class Cut:
        namespace = "x"

        def core(self, *names: str) -> str:
            return "/".join(names)

        def request(self, _method: str, path: str, **_: Any) -> dict[str, Any]:
            if path.endswith("/selfsubjectaccessreviews"):
                return {"status": {"allowed": allowed}}
            raise Unreachable("TLS failed")

    secret = Secret({"metadata": {"name": "s"}, "data": {}})
    with pytest.raises((ApiError, Unreachable)) as raised:
        launch._post_secret(Cut(), secret)  # type: ignore[arg-type]
    if allowed:
        assert isinstance(raised.value, Unreachable)
    else:
        assert (raised.value.status, raised.value.resource) == (403, "secrets")
