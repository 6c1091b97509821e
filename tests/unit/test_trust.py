"""What a job that somebody else submitted may do here, until the user trusts its maker."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pickle
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_jobs import made_elsewhere, make_job, uid_of
from test_about import Cluster, ended
from test_trainjob import a_bundle, objects

from jupyter_jax_trainer import api, cli, sessions
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainJob
from jupyter_jax_trainer.backends.kubernetes.follow import attach, fetch
from jupyter_jax_trainer.backends.kubernetes.submit import launch, trainjob
from jupyter_jax_trainer.commands import Context, run_command, which
from jupyter_jax_trainer.commands.completion import complete
from jupyter_jax_trainer.errors import BackendError, JobNotFound, ResultsWithheld, UsageError
from jupyter_jax_trainer.jobdir import files, session
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.rows import row_of
from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.options.spec import JobSpec, spec_from_options
from jupyter_jax_trainer.trust import policy, signing
from jupyter_jax_trainer.trust.policy import Trust
from jupyter_jax_trainer.trust.signing import Statement
from jupyter_jax_trainer.views.card import Facts
from jupyter_jax_trainer.views.source import Source
from jupyter_jax_trainer.worker.serialization.archive import write_archive

PNG = base64.b64encode(b"\x89PNG\r\n").decode()
STATEMENT = Statement.of(
    trainjob_uid="t-1",
    uid=uid_of("fit"),
    namespace="ns",
    trainjob="fit",
    about="{}",
    frame_key="a2V5",
)


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.fixture
def pwned(tmp_path: Path) -> Path:
    return tmp_path / "pwned"


def brings(directory: JobDir, value: Any, name: str = "open") -> JobDir:
    """Return a job a result, as the maker of the job packed it."""
    results = [{"name": name, "type": "int", "size": 1}]
    write_archive(
        directory.result,
        {"arrays.pkl": pickle.dumps([]), "group-0.pkl": pickle.dumps(value)},
        [],
        {
            "python": [3, 11],
            "array_buffers": 0,
            "groups": [{"names": [name], "buffers": 0}],
            "results": results,
        },
    )
    state = json.loads(directory.state.read_text())
    files.write_json(directory.state, {**state, "results": results})
    return directory


@pytest.fixture
def foreign(home: Path, pwned: Path) -> JobDir:
    return brings(made_elsewhere(make_job("fit")), Evil(pwned))


def run(line: str, **context: Any) -> str:
    out = io.StringIO()
    run_command(line.split(), Context(print=lambda text: print(text, file=out), **context))
    return out.getvalue()


# ---------------------------------------------------------------------------- results


@pytest.mark.parametrize("command", ["attach fit", "result fit", "result fit open"])
def test_results_of_others_are_neither_loaded_nor_bound(foreign, pwned, command):
    names = {"open": open}
    with pytest.raises(ResultsWithheld) as withheld:
        run(command, in_notebook=True, namespace=names)
    assert "mallory@laptop" in withheld.value.message and "--trust" in str(withheld.value.hint)
    assert not pwned.exists() and names == {"open": open}


def test_the_python_interface_withholds_them_too(foreign, pwned):
    job = Job(foreign)
    for name in (None, "open"):
        with pytest.raises(ResultsWithheld):
            job.result(name)
    assert not job.trusted and not pwned.exists()
    assert job.trust().result("open") is None and pwned.exists()


def test_nobody_waits_for_results_that_are_withheld(foreign, monkeypatch):
    monkeypatch.setattr(Job, "_state", lambda job: {**job._dir.read_state(), "state": "Running"})
    for ask in (Job(foreign).result, lambda: run("result fit", namespace={})):
        with pytest.raises(ResultsWithheld):
            ask()


def test_attach_with_trust_brings_them(foreign, pwned):
    names: dict[str, Any] = {}
    run("attach fit --trust", in_notebook=True, namespace=names)
    assert pwned.exists() and "open" in names
    assert stat.S_IMODE(foreign.trust.stat().st_mode) == 0o600
    run("result fit", in_notebook=True, namespace={})  # the user has said so for good


def test_a_terminal_says_how_to_get_them(foreign, capfd):
    assert cli.main(["attach", "fit"]) == 0
    said = capfd.readouterr().err
    assert "`jaxtrain attach fit --trust`" in said and "mallory@laptop" in said
    assert cli.main(["result", "fit"]) == 1
    assert "`jaxtrain attach fit --trust`" in capfd.readouterr().err


def test_trust_needs_a_name(foreign):
    with pytest.raises(UsageError) as refused:
        run("attach --trust")
    assert refused.value.id == "commands.attach-needs-name"
    assert not Job(foreign).trusted


def test_jobs_of_this_store_need_no_trust(home):
    own = make_job("own")
    for manifest in (own.read_manifest(), {**own.read_manifest(), "backend": "kubernetes"}):
        files.write_json(own.manifest, manifest)
        job = Job(own)
        assert policy.of(job) is Trust.OWN and policy.notice(job) is None
        job.trust()
        assert not own.trust.exists()


def test_what_version_0_1_attached_is_somebody_elses(home):
    directory = made_elsewhere(make_job("fit"), None)
    manifest = directory.read_manifest()
    del manifest["maker"]
    files.write_json(directory.manifest, manifest)
    job = Job(directory)
    assert policy.of(job) is Trust.FOREIGN and policy.claimed_maker(job) is None
    assert job.trust().trusted
    # Once the uid of the TrainJob is known, the word is asked for again.
    files.write_json(directory.trainjob, {"format": 1, "uid": "t-1"})
    assert not Job(directory).trusted


# ---------------------------------------------------------------------------- names

LATER = 4e9


def test_a_name_that_somebody_elses_job_claims_goes_on_to_mean_ones_own(home):
    claims = JobSpec(nodes=1, name="fit")
    own = make_job("fit", spec=claims, results=[])
    foreign = made_elsewhere(make_job("fit-2", spec=claims, created=LATER, results=[]))
    assert api.job("fit").directory == own.path and api.job("fit-2").directory == foreign.path
    run("attach fit --trust", namespace={})
    assert not Job(foreign).trusted and which.named([]).directory == own.path
    again = make_job("fit-3", spec=claims)
    assert api.job("fit").directory == again.path


def test_ones_own_namesake_is_meant_though_somebody_else_has_the_name_here(home):
    foreign = made_elsewhere(make_job("fit", spec=JobSpec(nodes=1), created=LATER))
    own = make_job("fit-2", spec=JobSpec(nodes=1, name="fit"))
    assert api.job("fit").directory == own.path
    assert which.named([]).directory == own.path
    assert (
        which.named_anywhere(["fit"], None, None, here=True, exact=True).directory == foreign.path
    )
    own.remove()
    assert api.job("fit").directory == which.named([]).directory == foreign.path


# ---------------------------------------------------------------------------- the user's word


@pytest.mark.parametrize(
    "change",
    [
        lambda note: {**note, "uid": "another"},
        lambda note: {**note, "trainjob_uid": "another"},
        lambda note: {name: note[name] for name in note if name != "trainjob_uid"},
        lambda note: {**note, "granted": "yes"},
        lambda note: {**note, "format": 99},
        lambda note: {},
        lambda note: [note],
    ],
)
def test_a_changed_note_is_worth_nothing(foreign, change):
    Job(foreign).trust()
    foreign.trust.write_text(json.dumps(change(json.loads(foreign.trust.read_text()))))
    assert policy.of(Job(foreign)) is Trust.FOREIGN
    foreign.trust.write_bytes(b"\xff{")
    assert policy.of(Job(foreign)) is Trust.FOREIGN
    foreign.trust.unlink()
    Job(foreign).trust()
    foreign.trainjob.write_text("{")
    assert policy.of(Job(foreign)) is Trust.FOREIGN


def test_the_word_holds_for_one_trainjob(foreign):
    Job(foreign).trust()
    other = made_elsewhere(make_job("other"))
    other.trust.write_bytes(foreign.trust.read_bytes())
    assert not Job(other).trusted
    made_elsewhere(foreign, trainjob_uid="made-anew")
    assert not Job(foreign).trusted


def test_a_job_that_was_deleted_meanwhile_is_not_there(foreign):
    job = Job(foreign)
    assert not job.trusted
    foreign.remove()
    with pytest.raises(JobNotFound):
        job.trust()


@pytest.mark.parametrize("value", ["0", "no", "false", "off", "nonsense"])
def test_the_administrator_wins(foreign, monkeypatch, value, pwned):
    Job(foreign).trust()
    monkeypatch.setenv(policy.ALLOW, value)
    job = Job(foreign)
    assert policy.of(job) is Trust.FORBIDDEN
    with pytest.raises(ResultsWithheld, match=policy.ALLOW):
        job.result()
    with pytest.raises(UsageError, match=policy.ALLOW):
        run("attach fit --trust", namespace={})
    assert cli.main(["attach", "fit", "--trust"]) == 2
    assert "trust" not in row_of(job, None)["actions"] and not pwned.exists()
    monkeypatch.setenv(policy.ALLOW, "1")
    assert Job(foreign).trusted


# ---------------------------------------------------------------------------- displays


class Shown:
    def __init__(self) -> None:
        self.data: list[tuple[Any, Any]] = []

    def log(self, lines: list[bytes], unfinished: bytes) -> None:
        pass

    def show(self, data: Any, metadata: Any, name: Any, update: bool) -> None:
        self.data.append((data, metadata))


ACTIVE = {
    "text/html": "<script>fetch('//evil')</script>",
    "application/javascript": "alert(1)",
    "image/svg+xml": "<svg onload='alert(1)'/>",
    "text/markdown": "<img src=x onerror=alert(1)>",
    "text/latex": r"\href{javascript:alert(1)}{x}",
    "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
    "application/vnd.jaxtrain.job+json": {"key": "x"},
}


def displayed(directory: JobDir, *bundles: dict[str, Any]) -> list[tuple[Any, Any]]:
    lines = [
        {"log_offset": 0, "data": data, "metadata": {"isolated": True}, "rank": 0, "time": 1.0}
        for data in bundles
    ]
    directory.displays.write_text("".join(json.dumps(line) + "\n" for line in lines))
    view, job = Shown(), Job(directory)
    Source(job).pump(view, job.snapshot())  # type: ignore[arg-type]
    return view.data


def test_html_and_scripts_of_others_are_not_shown(foreign):
    harmless = {"text/plain": "x", "image/png": PNG, "image/jpeg": f"{PNG}\n"}
    assert displayed(foreign, {**ACTIVE, **harmless}) == [(harmless, {})]
    (data, _), *rest = displayed(foreign, ACTIVE)
    assert list(data) == ["text/plain"] and "text/html" in data["text/plain"] and not rest
    assert "evil" not in data["text/plain"]


@pytest.mark.parametrize("image", ['"><script>alert(1)</script>', "", 5, ["x"], None, "a"])
def test_an_image_that_is_none_is_not_shown(foreign, image):
    (data, _), *_ = displayed(foreign, {"image/png": image, "text/plain": {"no": "text"}})
    assert list(data) == ["text/plain"] and data["text/plain"].startswith("[withheld")


def test_what_is_trusted_is_shown_as_it_is(foreign, home):
    own = make_job("own")
    Job(foreign).trust()
    for directory in (foreign, own):
        assert displayed(directory, ACTIVE) == [(ACTIVE, {"isolated": True})]


def test_the_card_says_what_is_withheld(foreign, home):
    assert "mallory@laptop" in Facts.of(Job(foreign)).notes[0]
    assert "mallory@laptop" in run("show fit")
    row = row_of(Job(foreign), None)
    assert (row["trust"], row["maker"]) == ("foreign", "mallory@laptop")
    assert row["actions"] == ["trust", "delete"]
    assert row_of(Job(make_job("own")), None)["trust"] == "own"
    Job(foreign).trust()
    row = row_of(Job(foreign), None)
    assert (row["trust"], row["actions"]) == ("granted", ["delete"])


@pytest.mark.parametrize(
    "maker", ["\x1b]52;c;x\x07me\n", "x" * 1000, "\u202eem", 5, None, [], "\n"]
)
def test_who_claims_to_have_made_it_is_one_harmless_line(home, maker):
    job = Job(made_elsewhere(make_job("fit"), maker=maker))
    said = policy.claimed_maker(job)
    assert said is None or (said.isprintable() and 0 < len(said) <= 100)


# ---------------------------------------------------------------------------- signatures


def signed(directory: JobDir, signature: str, statement: Statement = STATEMENT, **more: Any) -> Job:
    origin = {"attached": 1.0, "signature": signature, "statement": statement.to_json()}
    return Job(made_elsewhere(directory, origin=origin, **more))


def test_what_my_key_has_signed_is_mine(foreign):
    job = signed(foreign, signing.sign(STATEMENT))
    assert policy.of(job) is Trust.SIGNED and policy.notice(job) is None
    assert row_of(job, None)["actions"] == ["delete"]


@pytest.mark.parametrize("field", list(Statement.__dataclass_fields__))
def test_a_signature_covers_every_field(foreign, field):
    signature = signing.sign(STATEMENT)
    other = replace(STATEMENT, **{field: "another"})
    assert not signing.is_mine(other, signature)
    fits = {"uid": other.uid, "trainjob_uid": other.trainjob_uid}
    assert policy.of(signed(foreign, signature, other, **fits)) is Trust.FOREIGN


def test_a_copied_signature_proves_nothing_of_another_trainjob(foreign):
    signature = signing.sign(STATEMENT)
    # The statement with it, too: it is about the first TrainJob.
    assert policy.of(signed(foreign, signature, trainjob_uid="t-2")) is Trust.FOREIGN
    assert policy.of(signed(foreign, signature, uid="uid-of-another")) is Trust.FOREIGN


def test_another_key_signs_for_another(foreign, tmp_path, monkeypatch, pwned):
    mine = signing.ensure_key()
    job = signed(foreign, STATEMENT.signed_with("ab" * 32))
    assert policy.of(job) is Trust.FOREIGN
    with pytest.raises(ResultsWithheld, match=signing.key_id("ab" * 32)):
        job.result()
    (tmp_path / "k").write_text(f"jaxtrain-key-v1:{'ab' * 32}\n")
    said = run(f"key import {tmp_path / 'k'}")
    imported = say.KEY_IMPORTED(keys=signing.key_id("ab" * 32), file=signing.key_file())
    assert said == f"{imported}\n{say.STILL_SIGNED_WITH(key=signing.key_id(mine))}\n"
    assert policy.of(job) is Trust.SIGNED
    assert signing.ensure_key() == mine, "whose key it is can't be told"
    assert signing.is_mine(STATEMENT, STATEMENT.signed_with(mine))
    assert "no new key" in run(f"key import {tmp_path / 'k'}")


@pytest.mark.parametrize("signature", ["", "v1:", "v1:aa:bb", "ünsigned", "v2:" + "0" * 77])
def test_what_is_no_signature_signs_nothing(foreign, signature):
    signing.ensure_key()
    assert policy.of(signed(foreign, signature)) is Trust.FOREIGN


@pytest.mark.parametrize(
    "statement",
    [None, {}, [], {**STATEMENT.to_json(), "more": "x"}, {**STATEMENT.to_json(), "uid": 5}],
)
def test_what_is_no_statement_says_nothing(foreign, statement):
    origin = {"attached": 1.0, "signature": signing.sign(STATEMENT), "statement": statement}
    assert policy.of(Job(made_elsewhere(foreign, origin=origin))) is Trust.FOREIGN


# ---------------------------------------------------------------------------- from submission on


class Namespace(Cluster):
    """A namespace that keeps the Secrets that are made."""

    namespace = "me"

    def request(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        if method == "POST":
            self.objects[body["metadata"]["name"]] = body
            return body
        return super().request(method, path, **more)


def with_uid(job: TrainJob, uid: str) -> dict[str, Any]:
    """Return a TrainJob as the API has created it."""
    return {**job.json, "metadata": {**job.metadata.json, "uid": uid}}


@pytest.fixture
def there(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """Give a cluster on which this store has submitted a job, to another store of the same user."""
    _, job, secrets = objects(a_bundle(tmp_path, 1000))
    created = ended(with_uid(job, "k8s-1"))
    found = Namespace(fit=created)
    monkeypatch.setattr(attach, "get_client", lambda *_: found)
    monkeypatch.setattr(attach.launch, "start_follower", lambda plan: None)
    launch.add_secrets(found, TrainJob(created), job, secrets, 0.0)  # type: ignore[arg-type]
    signing.export_keys(tmp_path / "key")
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "elsewhere"))
    return found


def test_ones_own_job_on_another_machine_is_told_by_the_key(there, tmp_path):
    job = Job(attach.attach("fit", None, None))
    assert policy.of(job) is Trust.FOREIGN and not signing.key_file().exists()
    signing.import_keys(tmp_path / "key")  # after it was attached, too
    assert policy.of(job) is Trust.SIGNED
    job.directory.joinpath("trainjob.json").write_text('{"format": 1, "uid": "k8s-2"}')
    assert policy.of(job) is Trust.FOREIGN


def test_no_request_and_no_pod_is_needed_for_the_signature(there, tmp_path):
    job, *_ = there.objects.values()
    assert [method for method, _ in there.asked] == [] and "signature" not in json.dumps(job)
    secret, *parts = (each for each in there.objects.values() if each["kind"] == "Secret")
    assert not any("signature" in each["data"] for each in parts)
    assert secret["immutable"] and signing.signer(
        base64.b64decode(secret["data"]["signature"]).decode()
    )


def copied_to_another_trainjob(there: Namespace) -> None:
    there.objects["fit"]["metadata"]["uid"] = "k8s-2"
    for each in there.objects.values():
        for owner in each["metadata"].get("ownerReferences", []):
            owner["uid"] = "k8s-2"


def with_other_options(there: Namespace) -> None:
    notes = there.objects["fit"]["metadata"]["annotations"]
    said = json.loads(notes[trainjob.ABOUT])
    notes[trainjob.ABOUT] = json.dumps({**said, "spec": {**said["spec"], "out": ["open"]}})


def with_another_bundle(there: Namespace) -> None:
    notes = there.objects["fit"]["metadata"]["annotations"]
    notes[trainjob.ABOUT] = json.dumps({**json.loads(notes[trainjob.ABOUT]), "digest": "1" * 64})


def with_another_frame_key(there: Namespace) -> None:
    for each in there.objects.values():
        if each["kind"] == "Secret":
            each["data"]["frame-key"] = base64.b64encode(b"ab" * 32).decode()


@pytest.mark.parametrize(
    "change",
    [
        copied_to_another_trainjob,
        with_other_options,
        with_another_bundle,
        with_another_frame_key,
    ],
)
def test_a_copied_signature_makes_no_job_ones_own(there, tmp_path, change):
    signing.import_keys(tmp_path / "key")
    change(there)
    job = Job(attach.attach("fit", None, None))
    assert job.manifest["origin"]["signature"], "it is there, and was looked at"
    assert policy.of(job) is Trust.FOREIGN


def test_what_a_trainjob_says_of_trust_is_not_taken(there):
    notes = there.objects["fit"]["metadata"]["annotations"]
    said = {"origin": {}, "trust": "own", "host": "here", "backend": "local"}
    notes[trainjob.ABOUT] = json.dumps({**json.loads(notes[trainjob.ABOUT]), **said})
    assert policy.of(Job(attach.attach("fit", None, None))) is Trust.FOREIGN


def test_a_session_of_others_takes_no_cells_until_its_maker_is_trusted(home, monkeypatch):
    spec = JobSpec(nodes=2, session="lab", name="lab")
    directory = made_elsewhere(make_job("lab", "Running", spec=spec))
    session.write(directory, {**session.first(None), "variables": {"x": {}}})
    monkeypatch.setattr(Job, "_state", lambda job: job._dir.read_state())
    lab = sessions.session("lab")
    uses = [
        lambda: api.in_session(spec_from_options(session="lab")),
        lambda: api.prepare(spec_from_options(session="lab")),
        lambda: lab.run(int),
        lab.vars,
        lambda: lab.get("x"),
        lab.save,
        lab.restore,
        lab.restart,
        lab.prolong,
        lab.interrupt,
    ]
    for use in uses:
        with pytest.raises(UsageError) as refused:
            use()
        assert refused.value.id == "trust.session-withheld"
        assert "attach lab --trust" in refused.value.hint
    assert sessions.live() == [] and complete("%jaxtrain vars la", 17) == []
    assert "lab" in run("jobs")  # its state may be seen
    policy.grant(Job(directory))
    assert lab.vars() == {"x": {}} and [job.name for job in sessions.live()] == ["lab"]


def test_results_in_a_store_are_read_for_signed_jobs_alone(foreign, tmp_path):
    results, where = foreign.result.read_bytes(), tmp_path / "store" / uid_of("fit")
    where.mkdir(parents=True)
    (where / "result.jtz").write_bytes(results)
    said = {
        "size": len(results),
        "sha256": hashlib.sha256(results).hexdigest(),
        "url": "/elsewhere",
    }
    spec = JobSpec(store=str(tmp_path / "store")).to_json()
    table = [{"name": "open", "type": "int", "size": 1}]
    for signature, came in (
        ("v1:" + "0" * 12 + ":" + "0" * 64, False),
        (signing.sign(STATEMENT), True),
    ):
        foreign.result.unlink(missing_ok=True)
        signed(foreign, signature, spec=spec)
        assert ("error" not in fetch.settle(foreign, table, said)[0]) is came
        assert foreign.result.exists() is came
    assert foreign.result.read_bytes() == results


def test_a_job_whose_maker_has_a_damaged_key_is_submitted_all_the_same_by_the_follower(
    home, tmp_path
):
    signing.ensure_key()
    signing.key_file().write_text("x")
    _, job, secrets = objects(a_bundle(tmp_path, 1000))
    found, created = Namespace(), TrainJob(with_uid(job, "u"))
    launch.add_secrets(found, created, job, secrets, 0.0)  # type: ignore[arg-type]
    assert len(found.objects) == len(secrets)
    assert not any("signature" in secret["data"] for secret in found.objects.values())


# ---------------------------------------------------------------------------- the key


def test_the_key_is_made_once_and_for_this_user_only(home):
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(signing.ensure_key())) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 16
    assert stat.S_IMODE(signing.key_file().stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir() if "key" in path.name] == ["signing-keys"]


def test_a_file_system_without_hard_links_has_a_key_too(home, monkeypatch):
    def refuses(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuses)
    assert signing.ensure_key() == signing.ensure_key()


def test_a_key_goes_to_another_machine_in_a_private_file(home, tmp_path, monkeypatch):
    key, path = signing.ensure_key(), tmp_path / "mine"
    assert signing.key_id(key) in run(f"key export {path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(UsageError) as refused:
        run(f"key export {path}")
    assert refused.value.id == "trust.key-file-exists"
    monkeypatch.setenv("JAXTRAIN_HOME", str(tmp_path / "elsewhere"))
    assert say.SIGNED_WITH_IMPORTED() in run(f"key import {path}")
    assert signing.ensure_key() == key


def test_no_key_is_imported_where_others_results_are_forbidden(home, tmp_path, monkeypatch):
    (tmp_path / "k").write_text(f"jaxtrain-key-v1:{'ab' * 32}\n")
    monkeypatch.setenv(policy.ALLOW, "0")
    with pytest.raises(UsageError, match=policy.ALLOW):
        run(f"key import {tmp_path / 'k'}")
    assert not signing.key_file().exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "jaxtrain-key-v1:",
        f"jaxtrain-key-v1:{'zz' * 32}",
        f"jaxtrain-key-v1:{'ab' * 32} x",
        "ü",
    ],
)
def test_what_is_no_key_is_refused_and_changes_nothing(home, tmp_path, text):
    key, path = signing.ensure_key(), tmp_path / "k"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        run(f"key import {path}")
    with pytest.raises(UsageError):
        run(f"key import {tmp_path / 'none'}")
    assert signing.ensure_key() == key


@pytest.mark.parametrize(
    "harm, said",
    [
        (lambda path: path.write_text("x"), "trust.keys-damaged"),
        (lambda path: path.chmod(0o640), "trust.keys-readable"),
    ],
)
def test_a_damaged_or_open_key_is_said_and_signs_nothing(foreign, harm, said):
    job = signed(foreign, signing.sign(STATEMENT))
    harm(signing.key_file())
    with pytest.raises(UsageError) as refused:
        signing.ensure_key()
    assert refused.value.id == said
    assert policy.of(job) is Trust.FOREIGN, "and lists go on"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_of_somebody_else_is_said_and_signs_nothing(foreign):
    job = signed(foreign, signing.sign(STATEMENT))
    os.chown(signing.key_file(), 12345, -1)
    with pytest.raises(UsageError, match="12345") as refused:
        signing.ensure_key()
    assert refused.value.id == "trust.keys-belong-to"
    assert policy.of(job) is Trust.FOREIGN


def test_a_store_that_others_can_write_to_has_no_key(home):
    signature = signing.sign(STATEMENT)
    home.chmod(0o777)
    for ask in (signing.ensure_key, lambda: signing.sign(STATEMENT)):
        with pytest.raises(BackendError) as refused:
            ask()
        assert refused.value.id == "jobs.store-writable"
    assert not signing.is_mine(STATEMENT, signature)


def test_a_volume_that_the_kubelet_opens_to_the_group_of_the_pod_may_hold_the_key(
    home, monkeypatch
):
    key = signing.ensure_key()
    signing.key_file().chmod(0o660)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert signing.ensure_key() == key
    signing.key_file().chmod(0o664)
    with pytest.raises(UsageError, match="chmod 600"):
        signing.ensure_key()


@pytest.mark.parametrize("line", ["key", "key export", "key show x", "key export a b"])
def test_key_says_how_it_is_used(home, line):
    with pytest.raises(UsageError):
        run(line)
    assert not os.listdir(home)


def test_key_is_completed():
    assert complete("%jaxtrain key ", 14) == ["export", "import"]
    assert complete("%jaxtrain key export ", 21) == []
    assert "--trust" in complete("%jaxtrain attach --", 19)
