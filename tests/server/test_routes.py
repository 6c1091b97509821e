"""Lists, details and actions over HTTP, and who may ask for them."""

from __future__ import annotations

import gzip
import io
import json
import urllib.error
import urllib.request
import zipfile

import pytest
from harness import eventually, submit, text
from made_jobs import held, made_cell, made_elsewhere, make_job, running_job, uid_of

from jupyter_jax_trainer import api
from jupyter_jax_trainer.jobdir import files, session
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.messages import queries as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.profiles.reading import PERFETTO
from jupyter_jax_trainer.queries.requests import _MAX_SOURCE
from jupyter_jax_trainer.server.access import is_from_here
from jupyter_jax_trainer.worker.profiling import TRACE


def test_jobs_are_listed_newest_first(server):
    make_job("older", created=1000.0)
    make_job("newer", "Failed", created=2000.0, reason="rank 0: ValueError: no")
    rows = server.get("jobs")["jobs"]
    assert [row["key"] for row in rows] == ["newer", "older"]
    first = rows[0]
    assert (first["state"], first["reason"], first["active"]) == (
        "Failed",
        "rank 0: ValueError: no",
        False,
    )
    assert first["elapsed"] == 61.0 and first["ended"] == 2061.0
    assert first["nodes"] == 2 and first["shape"] == "2 nodes" and first["place"] == "this machine"
    assert first["progress"]["metrics"] == {"loss": 0.23123} and first["actions"] == ["delete"]


def test_a_damaged_job_is_a_row_like_others(server):
    make_job("good")
    make_job("bad").state.write_text("{")
    worse = make_job("worse")
    worse.manifest.write_text("{")
    states = {row["key"]: row["state"] for row in server.get("jobs")["jobs"]}
    assert states == {"good": "Succeeded", "bad": "damaged", "worse": "damaged"}
    assert server.ask("DELETE", "jobs/worse")[0] == 200 and not worse.path.exists()


def test_where_a_job_was_launched(server):
    for name, where in (("here", server.root / "a" / "n.ipynb"), ("else", "/elsewhere/n.ipynb")):
        directory = make_job(name)
        manifest = directory.read_manifest()
        manifest["origin"] = {"notebook": str(where), "cell": "c-1"}
        files.write_json(directory.manifest, manifest)
    rows = {row["key"]: (row["notebook"], row["cell"]) for row in server.get("jobs")["jobs"]}
    assert rows == {"here": ("a/n.ipynb", "c-1"), "else": (None, "c-1")}


def test_all_about_a_job_and_nothing_secret(server):
    directory = make_job("one", logs={0: ["a"]}, spec=JobSpec(nodes=2, env=(("KEY", "hush"),)))
    manifest = directory.read_manifest()
    manifest["frame_key"] = "very-secret"
    manifest["plan"] |= {"kubeconfig": "/home/jo/.kube/config", "server": "https://1.2.3.4"}
    files.write_json(directory.manifest, manifest)
    directory.cell.write_text("print(1)")
    found = server.get("jobs/one")
    assert found["code"] == "print(1)" and found["state"]["state"] == "Succeeded"
    assert [log["size"] for log in found["logs"]] == [2, 0]
    assert found["sent"][0]["name"] == "data" and found["row"]["key"] == "one"
    text = json.dumps(found)
    assert (
        "very-secret" not in text
        and "hush" not in text
        and "kubeconfig" not in text
        and "1.2.3.4" not in text
    )


def test_reports_and_events(server):
    directory = make_job("one")
    directory.metrics.write_text(
        json.dumps({"time": 1.0, "rank": 0, "step": 3, "total": 9, "values": {"loss": 0.5}}) + "\n"
    )
    directory.events.write_text(
        json.dumps({"time": 1.0, "kind": "state", "rank": None, "message": "it runs"}) + "\n"
    )
    assert server.get("jobs/one/metrics")["points"][0]["values"] == {"loss": 0.5}
    assert server.get("jobs/one/metrics")["next"] is None
    assert server.get("jobs/one/events")["events"][0]["message"] == "it runs"


def test_many_reports_come_in_parts(server):
    directory = make_job("one")
    line = '{{"time": 1.0, "rank": 0, "step": {}, "total": null, "values": {{}}}}\n'
    directory.metrics.write_text("".join(map(line.format, range(30_000))))
    first = server.get("jobs/one/metrics")
    rest = server.get(f"jobs/one/metrics?from={first['next']}")
    steps = [point["step"] for part in (first, rest) for point in part["points"]]
    assert (len(first["points"]), rest["next"]) == (20_000, None) and steps == [*range(30_000)]
    status, said = server.ask("GET", "jobs/one/metrics?from=-1")
    assert status == 400 and json.loads(said)["message"] == say.NOT_A_START(given="-1")


def test_logs_as_files(server):
    directory = make_job("one", logs={0: ["a"], 1: ["b"]})
    (directory.logs / "rank-0.proxy.log").write_text("c\n")
    assert server.ask("GET", "jobs/one/log?source=1") == (200, b"b\n")
    assert server.ask("GET", "jobs/one/log?source=rank-0.proxy") == (200, b"c\n")
    packed = server.ask("GET", "jobs/one/log")[1]
    with zipfile.ZipFile(io.BytesIO(packed)) as pack:
        assert sorted(pack.namelist()) == ["rank-0.log", "rank-0.proxy.log", "rank-1.log"]
    for source in ("2", "..%2Fmanifest", "index", "0" * 5000, "%00", "%D9%A2", "-1"):
        assert server.ask("GET", f"jobs/one/log?source={source}")[0] == 404


def test_a_profile_of_a_job_and_of_somebody_elses(server):
    def profiled(name: str) -> JobDir:
        directory = make_job(name)
        state = json.loads(directory.state.read_text())
        rank = {"seconds": 1.0, "files": {}, "left_out": {}, "problem": None}
        ranks = [{"rank": 0, **rank}]
        state["profiles"] = [{"name": "1", "time": 1.0, "whole": True, "ranks": ranks}]
        directory.state.write_text(json.dumps(state))
        folder = directory.profiles / "1" / "rank-0"
        folder.mkdir(parents=True)
        (folder / PERFETTO).write_bytes(b"trace")
        return directory

    profiled("one")
    assert server.get("jobs/one")["state"]["profiles"][0]["name"] == "1"
    (rank,) = server.get("jobs/one/profiles/1")["ranks"]
    assert rank["problem"] and not rank["operations"]  # its trace is not there
    assert server.ask("GET", "jobs/one/profiles/1/trace?rank=0") == (200, b"trace")
    for path in ("2", "1/trace?rank=1", "1/trace?rank=..%2F0", "..%2F1/trace", "x"):
        assert server.ask("GET", f"jobs/one/profiles/{path}")[0] == 404, path
    made_elsewhere(profiled("fit"))
    for path in ("1", "1/trace?rank=0"):
        assert server.ask("GET", f"jobs/fit/profiles/{path}")[0] == 400, path
    assert server.ask("POST", "jobs/one/profile", {})[0] == 400  # it has ended


TRAINS = """
import time, jax, jax.numpy as jnp
from jupyter_jax_trainer import report
step = jax.jit(lambda x: jnp.tanh(x @ x).sum())
for n in range(1_000_000):
    report(loss=float(step(jnp.ones((64, 64)))))
    time.sleep(0.05)
"""


def test_a_job_that_runs_is_profiled(server):
    job = submit(TRAINS, line="-n 2")
    try:
        eventually(lambda: job.state == "Running" and job.steps)
        assert server.get("jobs")["jobs"][0]["profiles"] is True
        assert server.ask("POST", f"jobs/{job.name}/profile", {}) == (200, b"{}")

        def profiles():
            return server.get(f"jobs/{job.name}")["state"].get("profiles")

        eventually(lambda: (found := profiles()) and found[0]["whole"])
        (profile,) = profiles()
        assert [TRACE in one["files"] for one in profile["ranks"]] == [True, True]
        found = server.get(f"jobs/{job.name}/profiles/{profile['name']}")
        assert [(one["rank"], one["problem"]) for one in found["ranks"]] == [(0, None), (1, None)]
        assert all(4 < one["seconds"] < 60 for one in found["ranks"]) and found["operations"]
        status, trace = server.ask(
            "GET", f"jobs/{job.name}/profiles/{profile['name']}/trace?rank=1"
        )
        assert status == 200 and json.loads(gzip.decompress(trace))["traceEvents"]
        assert job.state == "Running"  # it goes on
    finally:
        job.cancel()


def test_a_job_that_runs_is_cancelled_and_deleted(server):
    job = submit("import time\ntime.sleep(600)", line="-n 1")
    eventually(lambda: job.state == "Running")
    row = server.get("jobs")["jobs"][0]
    assert row["actions"] == ["cancel", "delete"] and row["active"] and row["elapsed"] is None
    status, body = server.ask("POST", f"jobs/{job.name}/suspend", {})
    said = say.NOT_POSSIBLE_NOW(job=job.name, state="Running", done="suspended")
    assert status == 400 and json.loads(body)["message"] == said
    assert server.ask("POST", f"jobs/{job.name}/cancel", {})[0] == 200
    assert job.state == "Cancelled"
    assert server.ask("DELETE", f"jobs/{job.name}")[0] == 200
    assert not job.directory.exists() and server.get("jobs")["jobs"] == []


@pytest.mark.parametrize("path", ["line/read", "line/write"])
def test_the_text_of_a_cell_has_a_bound(server, path):
    line = "%%jaxtrain -n 2\n"
    longest = line + "é" * (_MAX_SOURCE - len(line))  # characters, not bytes
    status, body = server.ask("POST", path, {"source": longest})
    assert status == 200 and json.loads(body)["values"]["nodes"] == 2
    for source in (longest + "x", None, 7):
        status, body = server.ask("POST", path, {"source": source})
        assert (status, json.loads(body)["message"]) == (400, say.NO_CELL())


@pytest.mark.parametrize(
    "path", ["jobs/none", "jobs/none/metrics", "jobs/none/log", "jobs/..", "no"]
)
def test_what_there_is_not(server, path):
    assert server.ask("GET", path)[0] == 404


@pytest.mark.parametrize(
    "data", [b"{", b"[" * 100_000, b"\xff", b"1" * 10_000, b"[]", b"null", b'{"source": 1}']
)
def test_a_body_that_is_none_is_refused(server, data):
    for method, path in (("POST", "line/read"), ("POST", "line/write")):
        request = urllib.request.Request(
            server.url + path, data, {"Authorization": f"token {server.token}"}, method=method
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code == 400 and json.load(refused.value)["message"]


# ---- who may ask


ROUTES = [
    ("GET", "jobs"),
    ("GET", "jobs/one"),
    ("DELETE", "jobs/one"),
    ("GET", "jobs/one/metrics"),
    ("GET", "jobs/one/log"),
    ("POST", "jobs/one/cancel"),
    ("POST", "jobs/one/detach"),
    ("GET", "places"),
    ("GET", "health?place=local"),
    ("GET", "runtimes?place=local"),
    ("GET", "options"),
    ("GET", "runtimes/jax-cpu/yaml?place=local"),
    ("POST", "line/read"),
    ("GET", "live"),
    ("GET", "jobs/one/events"),
    ("GET", "jobs/one/yaml"),
    ("POST", "jobs/one/suspend"),
    ("POST", "jobs/one/resume"),
    ("GET", "queues?place=local"),
    ("POST", "line/write"),
    ("POST", "jobs/one/profile"),
    ("POST", "jobs/one/profiles/1/xprof"),
    ("GET", "jobs/one/profiles/1"),
    ("GET", "jobs/one/profiles/1/trace"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nothing_without_a_token_or_for_a_foreign_page(server, method, path):
    make_job("one")
    body = {} if method == "POST" else None
    assert server.ask(method, path, body, headers={})[0] == 403
    token = {"Authorization": f"token {server.token}"}
    for more in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Referer": "http://127.0.0.1.evil.example/"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": f"http://127.0.0.1:{server.port + 1}"},
        {"Origin": "http://["},
        # A name of somebody else that leads to this machine.
        {"Origin": "http://evil.example", "Host": "evil.example"},
        {"Host": "evil.example"},
    ):
        # What is no WebSocket's request gets a 400 from that route, whoever asks.
        refused = (400, 403) if path == "live" else (403,)
        assert server.ask(method, path, body, headers={**token, **more})[0] in refused, more
    assert make_job("one").path.exists()


@pytest.mark.parametrize(
    ("headers", "welcome"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://lab:8888", "Host": "lab:8888"}, True),
        ({"Origin": "https://lab", "Host": "lab:443"}, True),
        ({"Origin": "https://LAB", "Host": "lab"}, True),
        ({"Origin": "https://lab:8888", "Host": "lab"}, False),
        ({"Origin": "http://[::1]:8888", "Host": "[::1]:8888"}, True),
        ({"Referer": "https://lab/hub/user/jo/lab?x=1", "Host": "lab"}, True),
        ({"Origin": "https://proxy.example", "Host": "inner:8888"}, True),
        ({"Origin": "https://proxy.example.evil", "Host": "inner:8888"}, False),
        ({"Origin": "null", "Host": ""}, False),
        ({"Origin": "", "Host": ""}, True),
        ({"Origin": "http://[", "Host": "["}, False),
        ({"Origin": "http://lab]", "Host": "lab]"}, False),
        ({"Referer": "//[", "Host": "lab"}, False),
        ({"Origin": "file://", "Host": ""}, False),
    ],
)
def test_from_where_a_page_comes(headers, welcome):
    assert is_from_here(headers, ["https://proxy.example"]) is welcome


def test_a_job_of_somebody_else_is_trusted_by_its_uid(server):
    directory = made_elsewhere(make_job("fit"))
    row = server.get("jobs")["jobs"][0]
    assert (row["trust"], row["maker"]) == ("foreign", "mallory@laptop")
    assert row["actions"] == ["trust", "delete"] and server.get("jobs/fit")["row"] == row
    for body in (None, {}, {"uid": "of-another"}, {"uid": 5}, [], "uid-of-fit"):
        assert server.ask("POST", "jobs/fit/trust", body)[0] == 404, body
    assert not directory.trust.exists()
    assert server.ask("POST", "jobs/fit/trust", {"uid": row["uid"]}) == (200, b"{}")
    row = server.get("jobs/fit")["row"]
    assert row["trust"] == "granted" and "trust" not in row["actions"]
    assert server.ask("POST", "jobs/none/trust", {"uid": row["uid"]})[0] == 404


VARIABLE = {
    "kind": "array",
    "type": "float32[4]",
    "size": 16,
    "sharding": "P()",
    "device_size": 8,
    "cell": 2,
    "token": "stands-for-content",
    "deleted": False,
}


def make_session(running: str | None = None) -> JobDir:
    directory = make_job("lab", "Running", spec=JobSpec(nodes=2, session="lab", name="lab"))
    record = session.first(600.0)
    variables = {"w": VARIABLE, "np": {**VARIABLE, "kind": "module"}}
    record.update(running=running, waiting=["lab-cell-2"], variables=variables, lost=["gone"])
    session.write(directory, record)
    return directory


def test_a_session_and_its_cells_are_told_by_their_rows(server):
    with held(make_session("lab-cell-1")):
        made_cell(make_job("lab-cell-1", spec=JobSpec(nodes=2, session="lab")), "lab")
        make_job("other")
        rows = {row["key"]: row for row in server.get("jobs")["jobs"]}
        assert rows["lab"]["session"] == {
            "idle_since": None,
            "idle_ends": None,
            "running": "lab-cell-1",
            "waiting": 1,
        }
        can = ["cancel", "restart", "interrupt", "save", "restore", "delete"]
        assert rows["lab"]["actions"] == can
        assert rows["lab-cell-1"]["cell_of"] == {"key": "lab", "uid": uid_of("lab")}
        assert (rows["lab"]["cell_of"], rows["lab-cell-1"]["session"]) == (None, None)
        assert (rows["other"]["cell_of"], rows["other"]["session"]) == (None, None)


def test_a_session_has_its_variables_without_what_stands_for_content(server):
    with held(make_session()):
        detail, look = server.get("jobs/lab")["session"], server.get("jobs/lab/session")
        shown = {**VARIABLE, "ranks": None}
        del shown["token"]
        assert detail["variables"] == [{"name": "w", **shown}] and detail["lost"] == ["gone"]
        assert look == {"session": detail, "memory": [None, None]}
        assert "stands-for-content" not in json.dumps([detail, look])
    make_job("other")
    assert server.get("jobs/other")["session"] is None
    status, said = server.ask("GET", "jobs/other/session")
    assert (status, json.loads(said)["message"]) == (400, say.NOT_A_SESSION(job="other"))


def test_a_session_that_is_damaged_or_idle_has_a_row_and_offers_no_interrupt(server):
    directory = make_session()
    with held(directory):
        assert "interrupt" not in server.get("jobs")["jobs"][0]["actions"]
        assert server.ask("POST", "jobs/lab/interrupt", {})[0] == 400
        directory.session.write_text("{")
        assert server.get("jobs/lab")["row"]["session"]["waiting"] == 0


@pytest.mark.parametrize("action", ["restart", "interrupt", "prolong", "save", "restore"])
def test_what_is_done_to_sessions_is_not_done_to_jobs(server, action):
    with running_job("goes"):
        assert server.ask("POST", f"jobs/goes/{action}", {})[0] == 400
    assert server.ask("POST", f"jobs/lab/{action}", {}, {})[0] == 403


def test_a_session_is_looked_at_interrupted_and_restarted(server):
    array = "import time, jax.numpy as jnp\nweights = jnp.ones(8)\n"
    cell = submit(f"{array}print('made')\ntime.sleep(600)", line="-s lab")
    lab = api.job("lab")
    eventually(lambda: server.get("jobs/lab")["row"]["session"]["running"] == cell.name)
    eventually(lambda: server.get("jobs/lab/session")["memory"][0])
    eventually(lambda: "made" in text(cell))
    assert server.ask("POST", "jobs/lab/interrupt", {})[0] == 200
    eventually(lambda: cell.state == "Cancelled")
    eventually(lambda: "prolong" in server.get("jobs/lab")["row"]["actions"])
    before = server.get("jobs/lab")["row"]["session"]["idle_ends"]
    assert server.ask("POST", "jobs/lab/prolong", {})[0] == 200
    eventually(lambda: server.get("jobs/lab")["row"]["session"]["idle_ends"] > before)
    assert server.ask("POST", "jobs/lab/restore", {})[0] == 400  # nothing was saved
    assert server.get("jobs/lab")["session"]["saved"] is None
    assert server.ask("POST", "jobs/lab/save", {})[0] == 200
    eventually(lambda: server.get("jobs/lab")["session"]["saved"])
    assert server.get("jobs/lab-cell-2")["row"]["cell_of"]["key"] == "lab"
    assert server.ask("POST", "jobs/lab/restart", {})[0] == 200
    eventually(lambda: server.get("jobs/lab")["session"]["restarts"] == 1)
    assert server.ask("POST", "jobs/lab/cancel", {})[0] == 200
    eventually(lambda: lab.state == "Cancelled")
    assert server.ask("DELETE", "jobs/lab")[0] == 200
    assert server.get("jobs")["jobs"] == []
