from __future__ import annotations

import contextlib
import gc
import json
import re
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import jupyter_jax_trainer
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import options as say
from jupyter_jax_trainer.options import amounts
from jupyter_jax_trainer.options.amounts import cores, quantity, ranks_in
from jupyter_jax_trainer.options.checks import MAX_ITEMS, MAX_SETTING, MAX_TEXT, valid_name
from jupyter_jax_trainer.options.spec import (
    CLUSTER_ONLY,
    HelpRequested,
    JobSpec,
    parse_cell_line,
    refuse_for_local,
    spec_from_options,
)
from jupyter_jax_trainer.options.table import BY_FIELD, OPTIONS, Option


def refused(line: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse_cell_line(line)
    return caught.value


def refusal(line: str) -> str:
    return str(refused(line))


# ---------------------------------------------------------------------------- reading a line


def test_every_option_of_the_design_is_read():
    spec = parse_cell_line(
        "demo -n 4 -d tpu --devices-per-node 2 --accelerator tpu-v5e --topology 2x4 "
        "-r jax-tpu -o params,loss --out acc --use x,y --files data,*.csv --allow-large --backend kubernetes "
        "--context me@cluster --namespace team --cpu 500m --memory 16Gi --image ghcr.io/me/jax:1 "
        "--env A=1 --env 'B=two words' --env-from-secret token --package 'optax>=0.2,<1' "
        "--package flax --volume data:/data --store s3://bucket/x --service-account me "
        "--queue team-a --priority high --timeout 1h30m --hang-timeout 20m --max-restarts 3 "
        "--dataset hf://a/b --model s3://c/d --detach --dry-run "
        "--show-secrets --package-from-pods --no-packages --stop-on-nan --no-compile-cache "
        "--profile steps=10:15 "
        "-s lab --idle never --rank 3,0-1"
    )
    assert spec == JobSpec(
        name="demo",
        nodes=4,
        device="tpu",
        devices_per_node=2,
        accelerator="tpu-v5e",
        topology="2x4",
        runtime="jax-tpu",
        out=("params", "loss", "acc"),
        use=("x", "y"),
        files=("data", "*.csv"),
        allow_large=True,
        backend="kubernetes",
        context="me@cluster",
        namespace="team",
        cpu="500m",
        memory="16Gi",
        image="ghcr.io/me/jax:1",
        env=(("A", "1"), ("B", "two words")),
        env_from_secret=("token",),
        package=("optax>=0.2,<1", "flax"),
        volume=("data:/data",),
        store="s3://bucket/x",
        service_account="me",
        queue="team-a",
        priority="high",
        timeout=5400.0,
        hang_timeout=1200.0,
        max_restarts=3,
        dataset="hf://a/b",
        model="s3://c/d",
        detach=True,
        dry_run=True,
        show_secrets=True,
        package_from_pods=True,
        no_packages=True,
        stop_on_nan=True,
        profile="steps=10:15",
        no_compile_cache=True,
        session="lab",
        idle=0.0,
        rank="0-1,3",
    )
    assert spec.explicit == set(BY_FIELD)


@pytest.mark.parametrize(
    ("given", "kept", "of_four"),
    [
        ("2", "2", [2]),
        (2, "2", [2]),
        ([0, 3], "0,3", [0, 3]),
        ("3,0", "0,3", [0, 3]),
        ("0-2,1", "0-2", [0, 1, 2]),
        ("all", "all", [0, 1, 2, 3]),
    ],
)
def test_ranks_of_a_cell(given, kept, of_four):
    spec = spec_from_options(session="lab", rank=given)
    assert spec.rank == kept and ranks_in(kept, 4) == of_four
    assert parse_cell_line(spec.to_line()) == spec


@pytest.mark.parametrize("given", ["", "-1", "3-1", "4096", "0,", "any", "0;1", True, 1.5, [], "²"])
def test_what_are_no_ranks_is_refused(given):
    with pytest.raises(UsageError):
        spec_from_options(session="lab", rank=given)


@given(st.text("0123456789-,al ", max_size=12) | st.lists(st.integers(-2, 5000), max_size=4))
def test_ranks_are_read_or_refused(text):
    with contextlib.suppress(UsageError):
        kept = amounts.ranks("--rank", text)
        assert amounts.ranks("--rank", kept) == kept
        assert ranks_in(kept, 2) == sorted(set(ranks_in(kept, 2)))


@pytest.mark.parametrize(
    ("text", "seconds", "written"),
    [("never", 0, "never"), ("0", 0, "never"), ("0s", 0, "never"), ("90m", 5400, "1h30m")],
)
def test_a_session_may_be_idle_for_a_while_or_for_ever(text, seconds, written):
    spec = parse_cell_line(f"-s lab --idle {text}")
    assert spec.idle == seconds and spec.to_line() == f"-s lab --idle {written}"
    assert JobSpec.from_json(spec.to_json()) == spec
    assert spec_from_options(session="lab", idle=seconds) == spec


def test_a_switch_that_turns_something_off_can_be_taken_back():
    defaults = parse_cell_line("--no-packages")
    assert defaults.no_packages and parse_cell_line("-n 2", defaults).no_packages
    assert not parse_cell_line("--packages", defaults).no_packages


def test_an_empty_line_is_all_defaults():
    assert parse_cell_line("") == JobSpec()
    assert parse_cell_line("").explicit == frozenset()


@pytest.mark.parametrize(
    "line",
    ["demo --nodes 2", "--nodes 2 demo", "--nodes=2 --name demo", "demo --name demo -n2"],
)
def test_the_name_may_stand_anywhere(line):
    spec = parse_cell_line(line)
    assert (spec.name, spec.nodes) == ("demo", 2)
    assert spec.explicit == {"name", "nodes"}


def test_two_different_names_are_refused():
    error = refused("a --name b")
    assert error.id == "options.two-names" and "'a' and 'b'" in error.message


def test_a_word_too_many_is_named():
    error = refused("--out a, b c")
    assert error.id == "options.extra-comma" and "--out a,b" in str(error)
    assert refused("b c").message == say.EXTRA_WORD(word="'c'", name="'b'")


def test_quotes_are_honoured_and_hashes_are_not_comments():
    assert parse_cell_line("--env 'A=x y'").env == (("A", "x y"),)
    assert parse_cell_line("--env A=#1").env == (("A", "#1"),)


def test_a_comment_may_follow_and_is_one_only_after_a_blank_and_outside_quotes():
    assert parse_cell_line("c3 -n 2 # it isn't \"quick") == JobSpec(name="c3", nodes=2)
    assert parse_cell_line("# nothing") == JobSpec() == parse_cell_line("#")
    assert parse_cell_line("--env 'A=x # y' -n 2 #").env == (("A", "x # y"),)
    assert parse_cell_line("--env A=x\\ # -n 2").env == (("A", "x #"),)
    assert parse_cell_line("--env A=x#").env == (("A", "x#"),)
    assert "No closing quotation" in refusal("--env 'A=x")


def test_help_is_asked_for():
    with pytest.raises(HelpRequested):
        parse_cell_line("--nodes 2 --help")


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("--nodse 2", "--nodes"),
        ("--ouput x", "--out"),
        ("--devices-per-nodes 2", "--devices-per-node"),
        ("--time-out 3", "--timeout"),
        ("--detached", "--detach"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest_one(line, near):
    error = refused(line)
    assert error.message == say.UNKNOWN(option=line.split()[0])
    assert error.hint == say.DID_YOU_MEAN(name=near)


def test_abbreviations_are_not_options():
    for line in ("--node 2", "--dev cpu", "--detac", "--all"):
        assert refused(line).id == "options.unknown"


def test_a_missing_value_is_said():
    assert refusal("--nodes") == say.NEEDS_VALUE(option="--nodes")
    assert refusal("--name --nodes 2") == say.NEEDS_VALUE(option="--name")


# ---------------------------------------------------------------------------- values

BAD = [
    ("--nodes 0", "not-whole", "0"),
    ("--nodes -1", "not-whole", "-1"),
    ("--nodes 1000000", "not-whole", "1000000"),
    ("--nodes two", "not-whole", "two"),
    ("--nodes 1_0", "not-whole", "1_0"),
    ("--nodes ٣", "not-whole", "٣"),
    ("--device gpus", "not-a-choice", say.DID_YOU_MEAN(name="gpu")),
    ("--devices-per-node 0", "not-whole", "0"),
    ("--backend k8s", "not-a-choice", "k8s"),
    ("--out params[0]", "not-a-variable", "params[0]"),
    ("--out class", "not-a-variable", "class"),
    ("--out a,,b", "extra-comma", "a,,b"),
    ("--use 1x", "not-a-variable", "1x"),
    ("--files /data/x.csv", "not-files", "/data/x.csv"),
    ("--files ~/x.csv", "not-files", "~/x.csv"),
    ("--files a/../../x", "not-files", "a/../../x"),
    ("--files 'a\\b'", "not-files", "b"),
    ("--files a,", "extra-comma", "a,"),
    ("--cpu many", "not-cores", "many"),
    ("--cpu 0", "not-cores", "0"),
    ("--cpu 2cores", "not-cores", "2cores"),
    ("--memory 16GB", "not-bytes", say.DID_YOU_MEAN(name="16Gi")),
    ("--memory 512m", "too-few-bytes", say.THOUSANDTHS(value="512Mi")),
    ("--memory 16", "too-few-bytes", "unit"),
    ("--memory 9999E", "not-bytes", "9999E"),
    ("--timeout 0", "not-a-duration", "0"),
    ("--timeout soon", "not-a-duration", "soon"),
    ("--timeout 1h2h", "not-a-duration", "1h2h"),
    ("--timeout -5", "not-a-duration", "-5"),
    ("--timeout 999999d", "not-a-duration", "999999d"),
    ("--env HOME", "not-an-assignment", "no '='"),
    ("--env 1A=2", "not-an-environment-variable", "1A"),
    ("--volume data", "not-a-volume", "data"),
    ("--volume data:relative", "not-a-volume", "relative"),
    ("--volume data:/a/../b", "not-a-volume", "data:/a/../b"),
    ("--volume Data:/x", "not-a-subdomain", "Data"),
    ("--topology 2", "not-a-topology", "2"),
    ("--topology 2x0", "not-a-topology", "2x0"),
    ("--topology 2x2x2x2", "not-a-topology", "2x2x2x2"),
    ("--package=--index-url", "not-a-package", "--index-url"),
    ("--package 'a b'", "not-a-package", "a b"),
    ("--priority High", "not-a-subdomain", "High"),
    ("--queue a_b", "not-a-subdomain", "a_b"),
    ("--service-account -x", "needs-value", "--service-account"),
    ("--namespace a.b", "not-a-label", "character 2 ('.')"),
    ("--store folder/x", "not-a-store", "folder/x"),
    ("--dataset http://x/y", "not-an-initializer", "http://x/y"),
    ("--model hf://", "not-an-initializer", "hf://"),
    ("--image 'a b'", "not-an-image", "a b"),
    ("--image Upper", "not-an-image", "Upper"),
    ("--max-restarts -1", "not-whole", "-1"),
    ("--accelerator 'a b'", "not-a-label-value", "a b"),
    ("--context ''", "empty", "--context"),
    ("-d cpu --accelerator h200", "not-with-cpu", "--accelerator"),
    ("-d gpu --topology 2x2", "topology-of-others", "gpu"),
    ("--volume a:/x --volume b:/x", "two-claims", "/x"),
]


@pytest.mark.parametrize(("line", "rule", "culprit"), BAD, ids=[line for line, *_ in BAD])
def test_a_wrong_value_is_refused_with_the_rule_and_the_value(line, rule, culprit):
    error = refused(line)
    assert error.id == f"options.{rule}"
    assert culprit in str(error)


@pytest.mark.parametrize(
    ("name", "why", "proposal"),
    [
        ("My_Job", "character 1 ('M')", "my-job"),
        ("my_job", "character 3 ('_')", "my-job"),
        ("2fast", "begins with '2'", "job-2fast"),
        ("end-", "ends with '-'", "end"),
        ("x" * 64, "64 characters", "x" * 63),
        ("größe", "character 3 ('ö')", "groe"),
        ("../../etc", "character 1 ('.')", "etc"),
    ],
)
def test_a_wrong_name_says_what_is_wrong_and_proposes_one(name, why, proposal):
    error = refused(f"'{name}'")
    assert error.id == "options.not-a-job-name"
    assert why in error.message
    assert (error.hint or "").endswith(f": {proposal}")


@given(st.text(max_size=100))
def test_a_proposed_name_is_always_valid(text):
    assert spec_from_options(name=valid_name(text)).name == valid_name(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90s", 90),
        ("1h30m", 5400),
        ("2d", 172800),
        ("45", 45),
        ("0.5", 0.5),
        ("1.5h", 5400),
        ("1d2h3m4s", 93784),
    ],
)
def test_times(text, seconds):
    assert parse_cell_line(f"--timeout {text}").timeout == seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", 0.5), ("2", 2), ("1.5", 1.5), (".5", 0.5), ("1e1", 10), ("1k", 1000)],
)
def test_cores_of_a_quantity(text, value):
    assert cores(parse_cell_line(f"--cpu {text}").cpu) == value


def test_binary_quantities():
    assert quantity("1Ki") == 1024
    assert quantity("2Gi") == 2 * 1024**3
    assert quantity("12GB") is None


# ---------------------------------------------------------------------------- Python


def test_python_values_mean_the_same_as_words():
    assert spec_from_options(
        nodes=2,
        out=["a", "b"],
        use="c,d",
        env={"A": "1"},
        timeout=timedelta(hours=2),
        cpu=4,
        topology=(2, 4),
        volume="data:/x",
        package="optax>=0.2,<1",
        device=None,
    ) == parse_cell_line(
        "-n 2 -o a,b --use c,d --env A=1 --timeout 2h --cpu 4 --topology 2x4 "
        "--volume data:/x --package 'optax>=0.2,<1'"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": 0},
        {"nodes": True},
        {"nodes": 2.5},
        {"nodes": "x"},
        {"name": "A"},
        {"out": [1]},
        {"out": 3},
        {"env": ["A"]},
        {"detach": "yes"},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": True},
        {"timeout": b"1"},
        {"cpu": float("inf")},
        {"image": 3},
        {"env": {"A": "a\0b"}},
        {"memory": None, "nodes": []},
    ],
    ids=repr,
)
def test_wrong_python_values_are_refused(options):
    with pytest.raises(UsageError):
        spec_from_options(**options)


def test_an_unknown_keyword_names_the_nearest_one():
    with pytest.raises(UsageError) as caught:
        spec_from_options(node=2)
    assert caught.value.id == "options.unknown"
    assert caught.value.hint == say.DID_YOU_MEAN(name="nodes")


# ---------------------------------------------------------------------------- defaults


def test_a_line_comes_on_top_of_defaults():
    defaults = parse_cell_line("-n 4 --device cpu --detach --env A=1 --env B=1 --out a")
    spec = parse_cell_line("demo -n 1 --no-detach --env A=2 --out b", defaults)
    assert spec == JobSpec(
        name="demo", nodes=1, device="cpu", env=(("A", "2"), ("B", "1")), out=("a", "b")
    )
    assert {"nodes", "device", "name"} <= spec.explicit
    assert parse_cell_line("", {"nodes": 3}).nodes == 3


def test_defaults_are_checked_together_with_the_line():
    with pytest.raises(UsageError) as caught:
        parse_cell_line("-d cpu", {"accelerator": "h200"})
    assert caught.value.id == "options.not-with-cpu"


# ---------------------------------------------------------------------------- this machine


@pytest.mark.parametrize("option", CLUSTER_ONLY)
def test_what_only_kubernetes_knows_is_refused_here(option):
    values = {
        "memory": "1Gi",
        "topology": "2x2",
        "volume": "a:/b",
        "store": "/x",
        "dataset": "hf://a",
        "model": "hf://a",
    }
    spec = parse_cell_line(f"--{option} {values.get(option, 'abc')}")
    with pytest.raises(UsageError) as caught:
        refuse_for_local(spec)
    assert caught.value.id == "options.only-on-kubernetes"
    assert f"--{option} (" in caught.value.message


def test_the_list_of_what_only_kubernetes_knows():
    assert set(CLUSTER_ONLY) == {
        "context",
        "namespace",
        "memory",
        "image",
        "env-from-secret",
        "package-from-pods",
        "no-packages",
        "show-secrets",
        "package",
        "volume",
        "store",
        "service-account",
        "queue",
        "priority",
        "accelerator",
        "topology",
        "dataset",
        "model",
    }


def test_several_are_listed_in_one_sentence_and_cpu_and_env_are_fine_here():
    with pytest.raises(UsageError, match=r"--memory \(.*\) and --image \(") as caught:
        refuse_for_local(parse_cell_line("--image x --memory 1Gi"))
    assert caught.value.id == "options.several-only-on-kubernetes"
    refuse_for_local(parse_cell_line("-n 2 --cpu 2 --env A=1 --timeout 1h -d gpu --detach"))
    with pytest.raises(UsageError) as caught:
        refuse_for_local(parse_cell_line("-d tpu"))
    assert caught.value.id == "options.device-needs-kubernetes"


# ---------------------------------------------------------------------------- round trips

names = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
identifiers = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name.isidentifier() and name not in __import__("keyword").kwlist
)
values = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
optional = {
    "name": names,
    "nodes": st.integers(1, 4096),
    "device": st.sampled_from(["cpu", "gpu", "tpu"]),
    "devices_per_node": st.integers(1, 1024),
    "runtime": names,
    "out": st.lists(identifiers, max_size=3),
    "use": st.lists(identifiers, max_size=3),
    "files": st.lists(st.sampled_from(["a.csv", "**/*.txt", "a b/[!c]?"]), max_size=3),
    "allow_large": st.booleans(),
    "backend": st.sampled_from(["auto", "local", "kubernetes"]),
    "context": st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1).filter(
        lambda text: text.isprintable() and text == text.strip()
    ),
    "namespace": names,
    "cpu": st.sampled_from(["1", "500m", "2.5", "1e1"]),
    "memory": st.sampled_from(["1Gi", "512M", "2e9"]),
    "env": st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True), values),
    "package": st.lists(st.sampled_from(["jax", "optax>=0.2,<1", "flax[all]==1 ; os_name=='x'"])),
    "volume": st.lists(st.sampled_from(["a:/b", "c:/d e/f"]), max_size=2),
    "env_from_secret": st.lists(names, max_size=2),
    "timeout": st.one_of(
        st.integers(1, 365 * 86400),
        st.floats(0, 365 * 86400, exclude_min=True, allow_subnormal=False),
    ),
    "max_restarts": st.integers(0, 1000),
    "dataset": st.sampled_from(["hf://a/b", "s3://c"]),
    "detach": st.booleans(),
    "dry_run": st.booleans(),
}


@settings(max_examples=150)
@given(st.fixed_dictionaries({}, optional=optional))
def test_a_spec_survives_its_line_and_its_json(options):
    if isinstance(seconds := options.get("timeout"), float):
        assume(seconds >= 1e-60)
    spec = spec_from_options(**options)
    line = spec.to_line()
    assert parse_cell_line(line) == spec
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_the_line_is_as_short_as_it_can_be():
    line = "demo -n 2 -o a,b --timeout 1h30m --detach"
    full = "--name demo --nodes 2 --backend auto --out a --out b --timeout 5400 --detach --out a"
    assert parse_cell_line(full).to_line() == line
    assert JobSpec().to_line() == ""
    assert spec_from_options(context="-x").to_line() == "--context=-x"


def test_json_of_other_versions_is_read():
    data = {**JobSpec(nodes=3).to_json(), "colour": "blue", "backend": "slurm"}
    del data["detach"]
    spec = JobSpec.from_json(data)
    assert (spec.nodes, spec.backend, spec.detach) == (3, "slurm", False)


@pytest.mark.parametrize(
    "damage",
    [{"nodes": "2"}, {"nodes": True}, {"out": "x"}, {"out": [1]}, {"env": [1]}, {"detach": 1}],
    ids=repr,
)
def test_damaged_json_is_refused(damage):
    with pytest.raises(UsageError, match=next(iter(damage))):
        JobSpec.from_json(damage)


@given(st.text(max_size=60))
def test_no_line_does_worse_than_a_usage_error(line):
    try:
        spec = parse_cell_line(line)
    except UsageError as error:
        assert str(error)
    else:
        assert parse_cell_line(spec.to_line()) == spec


def test_reading_a_line_imports_nothing_heavy():
    code = (
        "import sys; from jupyter_jax_trainer.options.spec import parse_cell_line as p; p('a -n 2'); "
        "print([m for m in ('jax', 'IPython', 'kubernetes', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# ---------------------------------------------------------------------------- long values

# Each is repeated between a beginning and an end that no option takes.
PIECES = [
    "1",
    "1.",
    ".",
    "0",
    "a",
    "A",
    "-",
    "_",
    "a-",
    "a.",
    "a/",
    "/",
    ":",
    "x",
    "1x",
    " ",
    "a ",
    "[",
    "[]",
    "a,",
    "=",
    "(",
    "@",
    "1d",
    "1.5",
    "1e",
    "https://a",
    "s3://",
    "\u0301",
    "é",
]
BEGINNINGS = ["", "a", "a=", "a:/", "a[", "1", "s3://a", "/"]
OF_TEXT = [option for option in OPTIONS if option.metavar is not None]


def steps(option: Option, text: str) -> float:
    """Return the least processor time of some readings: what else runs here only adds to it."""
    found = []
    for _ in range(3):
        began = time.process_time()
        with contextlib.suppress(UsageError):
            option.read(text)
        found.append(time.process_time() - began)
        if found[-1] < 0.01:
            break
    return min(found)


@pytest.mark.parametrize("option", OF_TEXT, ids=lambda option: option.name)
def test_reading_an_option_is_linear(option):
    """Of 16 times the text 16 times the time; the square of it would be 256 times."""
    for beginning in BEGINNINGS:
        for piece in PIECES:
            short, long = (f"{beginning}{(piece * length)[:length]}^" for length in (250, 4_000))
            assert steps(option, long) < 64 * max(steps(option, short), 0.001), (beginning, piece)


@pytest.mark.parametrize("option", OF_TEXT, ids=lambda option: option.name)
def test_every_text_and_list_has_a_bound(option):
    most = MAX_SETTING if option.field == "env" else MAX_TEXT
    for piece in "1", "a", "/":
        for beginning in "", "a=", "/", "s3://a", "a:/":
            with pytest.raises(UsageError):
                option.read(beginning + piece * (most + 1))
    if option.repeat:
        with pytest.raises(UsageError):
            option.read([f"a{number}" for number in range(MAX_ITEMS + 1)])


def test_a_value_as_long_as_its_bound_is_read():
    assert spec_from_options(store="/" + "a" * (MAX_TEXT - 1)).store
    setting = "a" * MAX_SETTING
    assert spec_from_options(env={"A": setting}).env == (("A", setting),)
    assert len(spec_from_options(use=[f"a{n}" for n in range(MAX_ITEMS)]).use) == MAX_ITEMS


PACKAGE = Path(jupyter_jax_trainer.__file__).parent
READERS = "\n".join(
    path.read_text(encoding="utf-8")
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] not in ("options", "messages")
)


@pytest.mark.parametrize("field", BY_FIELD)
def test_every_option_has_an_effect(field):
    assert re.search(rf"\bspec\.{field}\b", READERS) or f'"{field}"' in READERS


def test_a_line_leaves_nothing_to_the_garbage_collector():
    parse_cell_line("fit -n 2 -o a,b")
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            parse_cell_line("fit -n 2 -o a,b")
        assert gc.collect() < 100
    finally:
        gc.enable()
