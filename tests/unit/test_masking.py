"""What may be secret is masked wherever a job is shown, and in the time that a long text takes."""

from __future__ import annotations

import base64
import json
import re
import time
from typing import Any

import pytest
import yaml
from apiscene import submission_scene
from hypothesis import given, settings
from hypothesis import strategies as st
from made_jobs import make_job

from jupyter_jax_trainer import api, masking
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.api.objects import ApiObject
from jupyter_jax_trainer.backends.kubernetes.submit import trainjob
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import shown_yaml
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.commands import Context, run_command
from jupyter_jax_trainer.doctor.finding import OK, Finding
from jupyter_jax_trainer.doctor.report import report
from jupyter_jax_trainer.errors import BackendError, JobFailed, UsageError
from jupyter_jax_trainer.jobdir import comparison, files
from jupyter_jax_trainer.jobdir.failure import Failure, failed
from jupyter_jax_trainer.jobdir.job import Job
from jupyter_jax_trainer.jobdir.writer import Recorder
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.queries.details import detail
from jupyter_jax_trainer.states import State
from jupyter_jax_trainer.views import bundle

LEAK = "hunter2"


def run(line: str, **context: Any) -> str:
    said: list[str] = []
    run_command(line.split(), Context(print=said.append, **context))
    return "\n".join(said)


# ---------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("at https://jo:hunter2@host/api", "at https://…@host/api"),
        (
            "s3://b/x?X-Amz-Signature=hunter2&X-Amz-Date=1",
            "s3://b/x?X-Amz-Signature=…&X-Amz-Date=1",
        ),
        ("https://a/b?sv=1&sig=hunter2%3D", "https://a/b?sv=1&sig=…"),
        ("https://a/b?token=hunter2#top", "https://a/b?token=…"),
        ("fit --password=hunter2 --lr 1", "fit --password=… --lr 1"),
        ("fit --api-key hunter2 --lr 1", "fit --api-key … --lr 1"),
        ("curl -H 'Authorization: Token hunter2' u", "curl -H 'Authorization: …' u"),
        ("export DB_PASSWORD='hunter2 too'; run", "export DB_PASSWORD='…'; run"),
        ('{"api_key": "hunter2", "n": 1}', '{"api_key": "…", "n": 1}'),
        (
            "AccountName=a;AccountKey=hunter2;EndpointSuffix=b",
            "AccountName=a;AccountKey=…;EndpointSuffix=b",
        ),
        ("storageKey: hunter2", "storageKey: …"),
        ("fit --encryptionKey=hunter2", "fit --encryptionKey=…"),
        ("token=hunter2: no", "token=…: no"),
        ("curl -u jo:hunter2 u", "curl -u jo:… u"),
        ("//jo:hunter2@host/a", "//…@host/a"),
        ("by jo:hunter2@proxy.lan:3128", "by …@proxy.lan:3128"),
        ("fit --token -hunter2", "fit --token …"),
        ("password=hun,ter2;x y", "password=… y"),
        ("password=hunter2, n=1", "password=…, n=1"),
        ('HF_TOKEN="hun\\"ter2" n', 'HF_TOKEN="…" n'),
        ("https://a/cb?code=hunter2&n=1", "https://a/cb?code=…&n=1"),
        ("https://a/b;jsessionid=hunter2?n=1", "https://a/b;jsessionid=…"),
        ("https://hooks.slack.com/services/T0/B0/hunter2", "https://hooks.slack.com/services/…"),
        ("with ghp_hunter2hunter2", "with …"),
        ("with hf_hunter2hunter2", "with …"),
        ("with sk-hunter2hunter2", "with …"),
        ("with AKIAHUNTER2HUNTER2", "with …"),
        ("with glpat-hunter2hunter2", "with …"),
        ("with xoxb-hunter2-hunter2", "with …"),
        ("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY----- end", "… end"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2", "…"),
        ("a_eyJhbGciOiJSUzI1.hunter2.hunter2 b", "a_… b"),
    ],
)
def test_credentials_in_text(said, shown):
    assert masking.text(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "it gave no credentials: exec: process returned 1",
        "KeyError: 'loss'",
        "There is no Secret db (--env-from-secret).",
        "key: a",
        "sk-learn, hf_tokenizer",
        say.NO_SECRET(namespace="ns", name="db").hint,
        "max_tokens=2048 and n_tokens: 12",
        "image ghcr.io/a/b@sha256:" + "0a1b" * 16,
        "--show-secrets (the values)",
        "--nodes 2 --cpu 1",
        "…",
        "topologyKey: kubernetes.io/hostname, secretName: db",
        "pin_memory=True",
        "https://a/b?code=404",
        "registry:5000/a@sha256:" + "0a1b" * 16,
        "git@host:path",
        "a,b;c",
        "publicKey: abc",
    ],
)
def test_what_is_no_credential_stays(said):
    assert masking.text(said) == said


# What has cost the square of its length, or might: each at the beginning of something that is never
# there in the end.
HOSTILE = [
    "eyJ",
    "eyJ-",
    "eyJaaaaaaaa.",
    "-eyJaaaaaaaa",
    "://",
    "://a@",
    "@",
    "a",
    "-",
    "_",
    ".",
    "%",
    " ",
    "\t",
    "token ",
    "token=",
    "token\t",
    "--token ",
    "--token -",
    "password='",
    'password="a',
    "a=",
    "?a",
    "a:",
    "//",
    "a:b@",
    "a:b@c",
    "a.",
    "-u a:",
    "-u ",
    "?code=",
    ";sid=a",
    "password=a,",
    "token=;a",
    'token="\\',
    "token='\\'",
    "hooks.slack.com/services/",
    "bearer ",
    "basic ",
    "basic a",
    "hf_",
    "sk-a",
    "sk-aaaaaaaa ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "-----END PRIVATE KEY-----",
    "Authorization: ",
    "\"'",
    "token: '",
    "a\n",
    "\n",
]


def steps(text: str) -> float:
    """Return the least processor time of some runs: what else runs here only adds to it."""
    found = []
    for _ in range(3):
        began = time.process_time()
        masking.text(text)
        found.append(time.process_time() - began)
    return min(found)


@pytest.mark.parametrize("piece", HOSTILE, ids=repr)
def test_masking_is_linear(piece):
    """Of 16 times the text 16 times the time; the square of it would be 256 times."""
    short, long = ((piece * length)[:length] for length in (20_000, 320_000))
    assert steps(long) < 64 * max(steps(short), 0.001)


@settings(max_examples=100)
@given(st.text("eyJ.-_:/@= '\"\ntoken?&", max_size=200))
def test_masking_twice_is_masking_once(said):
    once = masking.text(said)
    assert masking.text(once) == once


# ---------------------------------------------------------------------------- variables, commands


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("HF_TOKEN", LEAK, False),
        ("WANDB_API_KEY", LEAK, False),
        ("DATABASE_URL", LEAK, False),
        ("PASS", "1234", False),
        ("SIM_PIN", "1234", False),
        ("OTP", "123456", False),
        ("X", LEAK, False),
        ("NVIDIA_API_KEY", LEAK, False),
        ("LR", "0.001", True),
        ("N", "-1e-3", True),
        ("DEBUG", "true", True),
        ("MAX_TOKENS", "2048", True),
        ("XLA_FLAGS", "--xla_a=b", True),
        ("JAX_PLATFORMS", "cpu", True),
        ("EMPTY", "", True),
    ],
)
def test_variables(name, value, shown):
    assert masking.variable(name, value) == (value if shown else masking.HIDDEN)


def test_a_harmless_variable_may_hold_an_address_with_a_password():
    assert masking.variable("JAX_PROXY", f"http://jo:{LEAK}@host") == "http://…@host"


def test_words_of_a_command():
    words = [
        "run",
        "--token",
        LEAK,
        f"--password={LEAK}",
        "--lr",
        "0.1",
        "--name=fit",
        f"API_KEY={LEAK}",
        "dGhpcyBpcyBhIHNlY3JldCBrZXkgMTIzNDU2Nzg5MA==",
    ]
    assert masking.arguments(words) == [
        "run",
        "--token",
        "…",
        "--password=…",
        "--lr",
        "0.1",
        "--name=fit",
        "API_KEY=…",
        "…",
    ]
    assert masking.arguments(
        ["python", "-m", "team.train_model", "/data/some/long/path/of/files1"]
    ) == ["python", "-m", "team.train_model", "/data/some/long/path/of/files1"]


PLANTED = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {
        "name": "fit",
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": LEAK,
            trainjob.ABOUT: LEAK,
            "mine": LEAK,
            "team.kubernetes.io/token": LEAK,
            trainjob.UID: "0" * 32,
            "kueue.x-k8s.io/note": "stays",
        },
    },
    "spec": {
        "trainer": {
            "env": [
                {"name": "HF_TOKEN", "value": LEAK},
                {"name": "ANY", "value": LEAK},
                {"name": "XLA_FLAGS", "value": "--stays=1"},
                {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "stays"}}},
            ],
            "command": ["sh", "-c", f"curl -H 'Authorization: {LEAK}' https://jo:{LEAK}@host"],
            "args": [f"--token={LEAK}", "--password", LEAK, "stays"],
        },
        "initializer": {"dataset": {"storageUri": f"https://jo:{LEAK}@h/x?sig={LEAK}"}},
        "runtimePatches": [
            {
                "trainingRuntimeSpec": {
                    "template": {
                        "metadata": {"annotations": {"vault": LEAK}},
                        "spec": {
                            "containers": [
                                {
                                    "livenessProbe": {
                                        "httpGet": {
                                            "httpHeaders": [
                                                {"name": "Authorization", "value": LEAK},
                                                {"name": "Accept", "value": "stays"},
                                            ]
                                        },
                                        "exec": {"command": ["check", "--api-key", LEAK]},
                                    }
                                }
                            ]
                        },
                    }
                }
            }
        ],
    },
}


def test_no_planted_secret_is_in_a_yaml():
    before = json.dumps(PLANTED)
    text = shown_yaml(ApiObject(PLANTED))
    assert LEAK not in text and text.count("stays") == 5 and trainjob.UID in text
    assert json.dumps(PLANTED) == before and yaml.safe_load(text)["kind"] == "TrainJob"
    secret = {"kind": "Secret", "data": {"key": LEAK}, "stringData": {"a": LEAK}}
    assert LEAK not in shown_yaml(ApiObject(secret))


def test_nothing_is_said_to_be_hidden_where_nothing_is():
    shown = shown_yaml(ApiObject({"kind": "A", "spec": {"n": 1}}))
    assert shown == "kind: A\nspec:\n  n: 1\n"


# ---------------------------------------------------------------------------- views of a job

SPEC = parse_cell_line(
    f"fit --env HF_TOKEN={LEAK} --env DB=postgres://jo:{LEAK}@h --env LR=0.1 "
    f"--package git+https://jo:{LEAK}@host/lib --dataset s3://b/x?X-Amz-Signature={LEAK} "
    f"--store s3://jo:{LEAK}@host/x --backend kubernetes"
)


def test_show_use_compare_and_the_page_agree_and_show_no_secret(home):
    make_job("one", spec=SPEC)
    other = parse_cell_line(f"fit --env HF_TOKEN={LEAK}-other --env LR=0.2")
    make_job("two", spec=other)
    shown, compared = run("show one"), run("compare one two", width=300)
    page = detail(Job(make_job("one", spec=SPEC)), None)
    assert LEAK not in shown + compared + json.dumps(page)
    assert "HF_TOKEN=…" in shown and "LR=0.1" in shown and "HF_TOKEN=…" in compared
    assert page["line"] in shown
    assert LEAK not in json.dumps(comparison.compare("one", "two"))
    # That they differ is said, though not in what.
    values = comparison.differences("one", "two")["env"]
    assert len(set(values)) == 2 and LEAK not in "".join(values)
    same = parse_cell_line(f"fit --env HF_TOKEN={LEAK} --env A=x")
    make_job("three", spec=same)
    make_job("four", spec=parse_cell_line(f"fit --env HF_TOKEN={LEAK} --env A=y"))
    assert comparison.differences("three", "four")["env"] == [
        "HF_TOKEN=… A=… (1)",
        "HF_TOKEN=… A=… (2)",
    ]
    assert "env" not in comparison.differences("three", "three")


def test_sentences_about_a_job_are_kept_without_secrets(home):
    """Reasons and events quote what others wrote: addresses of images, commands of probes."""
    said = f"pull of https://me:{LEAK}@reg/x?token={LEAK}: exec train --api-key {LEAK}"
    directory = make_job("one", "Running")
    record = Recorder(directory, [], json.loads(directory.state.read_text()))
    record.change(State.PENDING, said, said)
    record.event("warning", said, rank=0)
    record.restart(3, said)
    shown = json.dumps(detail(Job(directory), None)) + run("show one") + run("jobs")
    record.end(State.FAILED, said, Failure(kind="start", message=said, hint=said))
    with pytest.raises(JobFailed) as failed:
        Job(directory).wait(1)
    told = str(failed.value) + directory.state.read_text() + directory.events.read_text()
    assert "https://…@reg/x?token=…: exec train --api-key …" in told
    assert LEAK not in told + shown + json.dumps(detail(Job(directory), None)) + run("show one")


def test_a_cell_that_fails_keeps_its_own_words(home):
    directory = make_job("one", "Running")
    error = {"type": "ValueError", "traceback": f"token={LEAK}"}
    own = Failure(kind="error", message=f"ValueError: token={LEAK}", rank=0, error=error)
    record = Recorder(directory, [], json.loads(directory.state.read_text()))
    record.end(State.FAILED, own.message, own)
    assert Job(directory).failure == own and LEAK not in str(Job(directory).reason)


def test_notes_of_what_is_sent_show_no_secret(capsys):
    capture = capture_cell("1", {"__name__": "__main__"})
    capture.notes.append(f"pip can't fetch acme @ https://me:{LEAK}@host/acme.whl")
    api.say_notes(capture)
    assert "https://…@host/acme.whl." in capsys.readouterr().err


def test_the_address_of_a_cluster_is_shown_without_its_password(home):
    directory = make_job("one")
    manifest = directory.read_manifest()
    plan = {**manifest["plan"], "namespace": "team", "server": f"https://jo:{LEAK}@host"}
    files.write_json(directory.manifest, {**manifest, "backend": "kubernetes", "plan": plan})
    shown = run("show one")
    assert LEAK not in shown and "@host" in shown
    assert LEAK not in report([Finding(OK, "Cluster", plan["server"], plan["server"])], 100)


def test_use_shows_no_secret_and_keeps_the_values(home):
    defaults: dict[str, Any] = {}
    said = run(f"use --env HF_TOKEN={LEAK} --env LR=0.1", defaults=defaults)
    assert LEAK not in said and "HF_TOKEN=…" in said and "LR=0.1" in said
    assert dict(defaults["env"])["HF_TOKEN"] == LEAK
    assert LEAK not in run("use", defaults=defaults)


def test_what_a_notebook_keeps_of_a_job_has_no_secret(home):
    for name, state in (("one", "Succeeded"), ("two", "Running")):
        found = bundle.whole(Job(make_job(name, state, spec=SPEC)))
        assert LEAK not in repr(found) and found["text/html"]


def test_a_cell_that_ends_in_the_options_of_a_job_shows_no_secret(home):
    shown = repr(Job(make_job("one", spec=SPEC)).spec)
    assert LEAK not in shown and LEAK in str(SPEC.env)
    assert shown.startswith("JobSpec(name='fit', nodes=1") and "explicit" not in shown
    assert "('HF_TOKEN', '…')" in shown and "('LR', '0.1')" in shown
    same = parse_cell_line(f"--env HF_TOKEN={LEAK}")
    other = parse_cell_line("--env HF_TOKEN=another")
    assert repr(same) == repr(other) and same != other and len({same, other}) == 2


def test_the_annotation_for_other_machines_has_no_value_of_a_variable():
    manifest = {
        **dict.fromkeys(("format", "created", "sent", "returns", "digest", "python", "package")),
        "spec": parse_cell_line(f"--env HF_TOKEN={LEAK} --env ANY={LEAK}").to_json(),
        "plan": dict.fromkeys(
            (
                "runtime",
                "runtime_kind",
                "runs_once",
                "device",
                "devices_per_node",
                "note",
            )
        ),
    }
    about = trainjob._about(manifest)
    assert LEAK not in about
    assert dict(JobSpec.from_json(json.loads(about)["spec"]).env) == {"HF_TOKEN": "…", "ANY": "…"}


# ---------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "line",
    [
        "--env hunter2-pasted",
        "--env 'HF_TOKEN=hunter2",
        "a --token=hunter2",
        "--dataset http://jo:hunter2@h",
        "--package 'pip https://jo:hunter2@h'",
        "--image https://jo:hunter2@h/x",
    ],
)
def test_a_line_that_is_refused_shows_no_secret(line):
    with pytest.raises(UsageError) as refused:
        parse_cell_line(line)
    rendered = "\n".join(refused.value._render_traceback_())
    assert LEAK not in rendered + str(refused.value) + repr(refused.value)


def test_an_error_shows_no_credentials_and_a_failed_cell_its_own_words():
    error = BackendError(f"https://jo:{LEAK}@host does not answer.", f"Try --password={LEAK}")
    assert LEAK not in str(error) + repr(error) + str(error.args)
    error = failed("fit", Failure(kind="error", message="KeyError: password='x'"))
    assert "password='x'" in str(error)


# ---------------------------------------------------------------------------- before submission


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--env HF_TOKEN=x", ["HF_TOKEN"]),
        ("--env A=ghp_hunter2hunter2", ["A"]),
        ("--env LR=0.1 --env MODE=fast --env MAX_TOKENS=12", []),
        ("--env A_SECRET= ", []),
        ("--env A_SECRET=x --env B_KEY=y", ["A_SECRET", "B_KEY"]),
    ],
)
def test_a_variable_that_looks_like_a_secret_gets_a_hint(line, named):
    spec = parse_cell_line(line)
    for on_cluster in (True, False):
        notes = masking.environment_notes(spec.env, secrets=on_cluster)
        assert len(notes) == bool(named) and all(name in notes[0] for name in named)
        assert LEAK not in "".join(notes)
        assert not notes or ("--env-from-secret" in notes[0]) == on_cluster


def test_the_hint_is_among_the_notes_of_a_job_on_this_machine(home, capsys):
    spec = parse_cell_line(f"-d cpu --env HF_TOKEN={LEAK} --dry-run")
    own, plan = api.prepare(spec)
    capture = capture_cell("x = 1", {})
    own.check_capture(capture, spec, plan)
    api.say_notes(capture)
    said = capsys.readouterr().err
    assert "HF_TOKEN" in said and LEAK not in said
    assert LEAK not in api.dry_run(spec, own, plan, capture)


@pytest.fixture
def scene(home, tmp_path, monkeypatch):
    with submission_scene(tmp_path, monkeypatch) as found:
        yield found


def dry_run(line: str) -> tuple[str, list[str]]:
    spec = parse_cell_line(f"fit --backend kubernetes --dry-run {line}")
    own, plan = api.prepare(spec)
    capture = capture_cell("made = given", {"given": LEAK}, out=("made",))
    own.check_capture(capture, spec, plan)
    return api.dry_run(spec, own, plan, capture), capture.notes


def test_the_values_are_only_asked_for_with_a_dry_run():
    with pytest.raises(UsageError) as caught:
        api.prepare(parse_cell_line("--backend kubernetes --show-secrets"))
    assert caught.value.id == "api.only-with-dry-run"


def test_a_dry_run_is_masked_and_can_be_applied_where_that_is_asked_for(scene):
    line = f"--env HF_TOKEN={LEAK} --env LR=0.1"
    masked, notes = dry_run(line)
    assert LEAK not in masked and any("--env-from-secret" in note for note in notes)
    assert "--show-secrets" in masked
    job, *secrets = yaml.safe_load_all(masked)
    env = {one["name"]: one.get("value") for one in job["spec"]["trainer"]["env"]}
    assert env["HF_TOKEN"] == masking.HIDDEN and env["LR"] == "0.1"
    said = {value for secret in secrets for value in secret["data"].values()}
    assert said == {masking.HIDDEN}  # no API takes this for base64
    whole, _ = dry_run(f"{line} --show-secrets")
    job, *secrets = yaml.safe_load_all(whole)
    env = {one["name"]: one.get("value") for one in job["spec"]["trainer"]["env"]}
    assert env["HF_TOKEN"] == LEAK and whole.isascii()
    said = [value for secret in secrets for value in secret["data"].values()]
    assert len(said) > 1 and all(base64.b64decode(value, validate=True) for value in said)


def test_a_cluster_that_is_not_verified_is_said_once_whatever_is_asked(
    scene, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(connection, "_told_unverified", set())
    run("jobs --backend kubernetes")
    assert "tls" not in capsys.readouterr().err
    config = scene.kubeconfig(tmp_path / "unverified", **{"insecure-skip-tls-verify": True})
    monkeypatch.setenv("KUBECONFIG", str(config))
    run("jobs --backend kubernetes")
    assert "insecure-skip-tls-verify" in capsys.readouterr().err
    dry_run("")
    assert "insecure-skip-tls-verify" not in capsys.readouterr().err


def test_no_group_is_possessive():
    """Python before 3.11.5 gives back too much of it, and secrets would be cut at other places."""
    patterns = [value for value in vars(masking).values() if isinstance(value, re.Pattern)]
    assert len(patterns) > 10
    assert [one.pattern for one in patterns if re.search(r"\)[*+?]\+", one.pattern)] == []
