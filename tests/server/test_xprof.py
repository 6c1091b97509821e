"""XProf beside the notebook: who gets in, what it can reach, and when it ends."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import eventually
from made_jobs import made_elsewhere, make_job, uid_of
from procfs import open_files

from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import profiles as say
from jupyter_jax_trainer.profiles import xprof
from jupyter_jax_trainer.profiles.xprofserver import alone
from jupyter_jax_trainer.worker.profiling import TRACE
from server.servers import BASE, Server

FAKE = Path(__file__).parents[1] / "fake_xprof"
SECRETS = {
    "JPY_API_TOKEN": "a-token-of-the-hub",
    "AWS_SECRET_ACCESS_KEY": "a-key-of-a-cloud",
    "GOOGLE_APPLICATION_CREDENTIALS": "/a/key",
}


def with_fake(patch: pytest.MonkeyPatch) -> None:
    """Let servers that are started now find the fake package."""
    paths = [str(FAKE), *filter(None, [os.environ.get("PYTHONPATH")])]
    patch.setenv("PYTHONPATH", os.pathsep.join(paths))
    for name, value in SECRETS.items():
        patch.setenv(name, value)


@pytest.fixture(scope="module")
def _server(_module_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        with_fake(patch)
        patch.setenv("JAXTRAIN_XPROF_TIMEOUT", "20")
        server = Server(tmp_path_factory.mktemp("server"), _module_store)
    yield server
    server.stop()


def profiled(name: str, *traces: str, whole: bool = True) -> JobDir:
    directory = make_job(name)
    state = json.loads(directory.state.read_text())
    rank = {"seconds": 1.0, "files": {TRACE: 5}, "left_out": {}, "problem": None}
    ranks = [{"rank": number, **rank} for number in range(len(traces))]
    state["profiles"] = [{"name": "1", "time": 1.0, "whole": whole, "ranks": ranks}]
    directory.state.write_text(json.dumps(state))
    shutil.rmtree(directory.profiles, ignore_errors=True)  # of another test
    for number, text in enumerate(traces):
        folder = directory.profiles / "1" / f"rank-{number}"
        folder.mkdir(parents=True)
        (folder / TRACE).write_text(text)
    return directory


def opened(server: Server, key: str, profile: str = "1", **headers: str) -> str:
    """Open the profile of a job; give the path of the page below the server's base."""
    given = {"Authorization": f"token {server.token}", **headers}
    status, body = server.ask("POST", f"jobs/{key}/profiles/{profile}/xprof", {}, headers=given)
    assert status == 200, body
    path: str = json.loads(body)["path"]
    return path


def fetch(server: Server, path: str, method: str = "GET", **headers: str):
    """Ask as a frame without cookies does; give status, headers and body."""
    request = urllib.request.Request(server.base + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            body = answer.read()
            if answer.headers.get("Content-Encoding") == "gzip" and body:
                body = gzip.decompress(body)
            return answer.status, answer.headers, body
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def process(server: Server, path: str):
    """Ask the process what it is."""
    return json.loads(fetch(server, f"{path}self")[2])


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


# ---------------------------------------------------------------------------- its pages


def test_a_profile_is_opened_and_opened_again(server):
    profiled("one", "first", "second")
    assert server.get("jobs/one/profiles/1")["xprof"] is True
    path = opened(server, "one")
    status, _, page = fetch(server, path)
    assert status == 200 and page.index(b"localStorage") < page.index(b'id="found"')
    assert json.loads(fetch(server, f"{path}runs")[2]) == {
        "one-1/rank-0.xplane.pb": "first",
        "one-1/rank-1.xplane.pb": "second",
    }
    query = "tag=overview&run=one-1&event_name=%2Fa&search=%C3%A4+%26"
    assert json.loads(fetch(server, f"{path}data?{query}")[2]) == {
        "tag": ["overview"],
        "run": ["one-1"],
        "event_name": ["/a"],
        "search": ["ä &"],
    }
    status, _, body = fetch(server, f"{path}runs", "HEAD")
    assert (status, body) == (200, b"")
    assert fetch(server, f"{path}nothing")[0] == 404
    assert opened(server, "one") == path


def test_pages_have_no_rights_and_load_only_what_is_theirs(server):
    profiled("one", "trace")
    origin = f"http://127.0.0.1:{server.port}"
    path = opened(server, "one", Origin=origin)
    own = f"{origin}{BASE}{path.partition('data/')[0]}"
    unknown = path.replace("xprof/", "xprof/x")
    for asked in (path, f"{path}runs", f"{path}nothing", f"{path}capture_profile", unknown):
        _, headers, _ = fetch(server, asked)
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert policy["sandbox"] == "allow-scripts allow-downloads allow-popups"
        assert policy["default-src"] == "'none'" and policy["form-action"] == "'none'"
        assert policy["frame-ancestors"] == "'self'"
        if asked != unknown and "capture" not in asked:
            assert policy["connect-src"] == f"{own} data: blob:"
        assert headers["Access-Control-Allow-Origin"] == "null"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Set-Cookie"] is None and headers["Access-Control-Allow-Credentials"] is None
        assert len(headers.get_all("Content-Security-Policy")) == 1
    # A page within its page: that one has no origin that could be named.
    _, headers, _ = fetch(server, f"{path}trace_viewer_index.html", **{"Sec-Fetch-Dest": "iframe"})
    assert "frame-ancestors" not in headers["Content-Security-Policy"]
    _, headers, _ = fetch(server, path, **{"Sec-Fetch-Dest": "iframe"})
    assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]


def test_a_page_gets_what_it_lacks_before_its_own_scripts():
    assert alone(b"<!DOCTYPE html><html><HEAD lang=x><script>").split(b"<script>")[0] == (
        b"<!DOCTYPE html><html><HEAD lang=x>"
    )
    assert alone(b"<!doctype html>text").startswith(b"<!doctype html><script>")
    assert alone(b"text").startswith(b"<script>")


# ---------------------------------------------------------------------------- who gets in


def test_without_a_token_or_for_a_foreign_page_nothing_is_opened(server):
    profiled("one", "trace")
    where = "jobs/one/profiles/1/xprof"
    assert server.ask("POST", where, {}, headers={})[0] == 403
    token = {"Authorization": f"token {server.token}"}
    for more in ({"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert server.ask("POST", where, {}, headers={**token, **more})[0] == 403
    assert server.ask("GET", where)[0] == 405
    for other in ("jobs/none/profiles/1/xprof", "jobs/one/profiles/2/xprof"):
        assert server.ask("POST", other, {})[0] == 404


def test_an_unknown_secret_opens_nothing(server):
    profiled("one", "trace")
    path = opened(server, "one")
    head, _, secret = path.partition("/data/")[0].rpartition("/")
    assert len(secret) >= 40
    for wrong in ("x", secret[:-1], secret + "x", secret.swapcase()):
        status, _, body = fetch(server, f"{head}/{wrong}/data/plugin/profile/")
        assert (status, body.decode()) == (404, say.XPROF_GONE())


def test_of_somebody_elses_job_nothing_is_opened_until_it_is_trusted(server):
    made_elsewhere(profiled("fit", "trace"))
    status, body = server.ask("POST", "jobs/fit/profiles/1/xprof", {})
    assert status == 400 and "fit" in json.loads(body)["message"]
    assert server.ask("POST", "jobs/fit/trust", {"uid": uid_of("fit")})[0] == 200
    assert fetch(server, opened(server, "fit"))[0] == 200


def test_it_answers_only_for_its_profile_and_writes_nothing(server):
    profiled("one", "trace")
    path = opened(server, "one")
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert fetch(server, f"{path}data", method)[0] in (403, 405)  # first XSRF
    for wrong in (
        "capture_profile",
        "capture_profile/",
        "generate_cache",
        "data?session_path=/x",
        "data?run_path=x",
        "data?run=two-1",
        "data?run=one-1&run=..%2Ftwo",
        "data?host=..%2F..%2Fx",
        "data?module_name=%2Fetc%2Fpasswd",
        "data?anything=gs%3A%2F%2Fx",
    ):
        assert fetch(server, path + wrong)[0] == 403, wrong
    assert fetch(server, f"{path}data?run=%ff")[0] == 400


# ---------------------------------------------------------------------------- its process


def test_its_process_is_out_of_reach_of_others_and_has_no_secrets(server):
    profiled("one", "trace")
    found = process(server, opened(server, "one"))
    pid, folder = found["pid"], Path(found["cwd"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and (folder / "socket").is_socket()
    mine = {file.removeprefix("socket:[").rstrip("]") for file in open_files(pid)}
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        rows = Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
        assert not {row.split()[9] for row in rows} & mine, kind
    given = "\n".join(f"{name}={value}" for name, value in found["env"].items())
    assert server.token not in given and not any(value in given for value in SECRETS.values())
    assert not any(name.startswith(("JPY", "JUPYTER", "JAXTRAIN", "KUBE")) for name in found["env"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_server(number, store, tmp_path, monkeypatch):
    with_fake(monkeypatch)
    profiled("one", "trace")
    server = Server(tmp_path, store)
    try:
        found = process(server, opened(server, "one"))
    finally:
        server.process.send_signal(number)
        server.process.wait(20)
    eventually(lambda: is_gone(found["pid"]))
    eventually(lambda: not Path(found["cwd"]).exists())


@pytest.mark.slow
def test_it_ends_when_nobody_asks_and_is_started_again(store, tmp_path, monkeypatch):
    with_fake(monkeypatch)
    monkeypatch.setenv("JAXTRAIN_XPROF_IDLE", "4")
    profiled("one", "trace")
    server = Server(tmp_path, store)
    try:
        path = opened(server, "one")
        found = process(server, path)
        eventually(lambda: is_gone(found["pid"]))
        eventually(lambda: not Path(found["cwd"]).exists())
        assert fetch(server, path)[0] == 404
        again = opened(server, "one")
        assert again != path and fetch(server, again)[0] == 200
    finally:
        server.stop()


def test_of_many_that_are_open_the_first_one_goes(server):
    paths = []
    for number in range(xprof._MOST + 1):
        profiled(f"many-{number}", "trace")
        paths.append(opened(server, f"many-{number}"))
    assert [fetch(server, path)[0] for path in paths] == [404, *[200] * xprof._MOST]


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("trouble: the trace is odd", say.XPROF_NOT_STARTED(why="RuntimeError: the trace is odd")),
        ("trouble: exit", say.XPROF_NOT_STARTED(why=say.ENDED_SILENTLY(code=3))),
    ],
)
def test_why_it_does_not_start_is_said(server, trace, said):
    profiled("bad", trace)
    status, body = server.ask("POST", "jobs/bad/profiles/1/xprof", {})
    assert (status, json.loads(body)["message"]) == (502, said)


def test_what_does_not_get_ready_is_given_up(store, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JAXTRAIN_XPROF_TIMEOUT", "2")
    monkeypatch.setattr(xprof, "is_installed", lambda: True)
    job = Job(profiled("one", "trouble: wait"))
    viewers = xprof.Viewers()
    with pytest.raises(Exception, match="JAXTRAIN_XPROF_TIMEOUT"):
        viewers.open(job.profiles[0], None)
    assert viewers.find("") is None


def test_what_can_not_be_opened_is_said(store, monkeypatch):
    viewers = xprof.Viewers()
    monkeypatch.setattr(xprof, "is_installed", lambda: False)
    with pytest.raises(UsageError) as refused:
        viewers.open(Job(profiled("one", "trace")).profiles[0], None)
    assert refused.value.id == say.NO_XPROF.id and say.NO_XPROF().hint in str(refused.value)
    monkeypatch.setattr(xprof, "is_installed", lambda: True)
    with pytest.raises(UsageError) as refused:
        viewers.open(Job(profiled("two", "trace", whole=False)).profiles[0], None)
    assert refused.value.id == say.NOT_FINISHED.id
    directory = profiled("three", "trace")
    (directory.profiles / "1" / "rank-0" / TRACE).unlink()
    (directory.profiles / "1" / "rank-0" / TRACE).symlink_to("/etc/passwd")
    with pytest.raises(LookupError):
        viewers.open(Job(directory).profiles[0], None)
