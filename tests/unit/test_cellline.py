"""The line of a cell, as a form reads and changes it."""

from __future__ import annotations

import ast
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_jax_trainer.devices import DEVICES
from jupyter_jax_trainer.errors import UsageError
from jupyter_jax_trainer.messages import options as say
from jupyter_jax_trainer.messages import queries
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.options.table import BY_FIELD, OPTIONS, one_of
from jupyter_jax_trainer.queries import cellline
from jupyter_jax_trainer.queries.cellline import options, read, write
from jupyter_jax_trainer.queries.linewords import locate, parts


def values(line: str) -> dict[str, Any]:
    found = read(f"%%jaxtrain {line}\nx = 1\n")
    assert found["errors"] == []
    return found["values"]


def errors(line: str) -> dict[str | None, str]:
    return {e["option"]: e["message"] for e in read(f"%%jaxtrain {line}\nx = 1")["errors"]}


def changed(line: str, **changes: Any) -> str:
    """Change a line, see that nothing else of the cell changes, and give the new line."""
    head, rest = f"\n  %%jaxtrain{line}", "\nx = '%%jaxtrain -n 1'\n"
    found = write(head + rest, changes)
    text = found["source"]
    assert text.startswith("\n  %%jaxtrain") and text.endswith(rest)
    assert found == {"source": text, **read(text)}
    return text.removeprefix("\n  %%jaxtrain").removesuffix(rest)


# ---------------------------------------------------------------------------- where the line is


@pytest.mark.parametrize(
    "cell",
    [
        "%%jaxtrain",
        "%%jaxtrain\n",
        "%%jaxtrain -n 4\nx",
        "\n \n%%jaxtrain a \t\nx",
        "  %%jaxtrain -n 4  \n  x",
        "%%jaxtrain -n 4\x0bx",
        "%%jaxtrain -n 4 \\\n --cpu 3",
        "%%time\n%%jaxtrain -n 2\nx",
        "%%capture out --no-stderr\n\n%%jaxtrain -n 2\nx",
        "# c\n%%jaxtrain",
        "x\n%%jaxtrain",
        "%%jaxtrainer",
        "%%jaxtrain?",
        "%% jaxtrain",
        "%jaxtrain a",
        "%%bash\n%%jaxtrain",
        "",
        " \n",
        "'%%jaxtrain'",
        "x = 1",
    ],
)
def test_the_line_is_found_where_ipython_finds_it(cell):
    text, line = cell, None
    while line is None:
        tree = ast.parse(TransformerManager().transform_cell(text))
        calls = [n.value for n in tree.body if isinstance(n, ast.Expr)]
        magic = [c for c in calls if isinstance(c, ast.Call) and "cell_magic" in ast.dump(c.func)]
        if not magic:
            break
        name, given, text = (ast.literal_eval(argument) for argument in magic[0].args)
        if name == "jaxtrain":
            line = given
        elif name not in ("time", "capture"):  # those run their cell as IPython does
            break
    place = locate(cell)
    assert (None if place is None else cell[slice(*place)].strip()) == (line and line.strip()) or (
        line == "" and place is not None and not cell[slice(*place)].strip()
    )
    assert read(cell)["found"] == (line is not None)


def test_a_tab_is_no_blank_for_ipython():
    found = read("%%jaxtrain\t-n 4")
    assert found["values"] == {"nodes": 4}
    assert found["errors"][0]["message"] == queries.SPACE_NEEDED(magic="%%jaxtrain")


def test_a_cell_without_the_line():
    found = read("x = 1")
    assert found == {"found": False, "line": "", "values": {}, "errors": [], "ask": None}
    assert write("\nx = 1", {"nodes": 2})["source"] == "%%jaxtrain -n 2\n\nx = 1"
    assert write("", {"nodes": 2})["source"] == "%%jaxtrain -n 2\n"
    for nothing in ({}, {"nodes": None, "out": [], "env": {}}):
        assert write("x = 1", nothing) == {"source": "x = 1", **found}


# ---------------------------------------------------------------------------- reading


def test_only_what_is_given_is_a_value():
    assert values("") == {}
    line = "demo -n 4 --no-detach --env A=1 --env 'B=x y' -o a,b -o c --timeout 1h # it's a"
    assert values(line) == {
        "name": "demo",
        "nodes": 4,
        "env": {"A": "1", "B": "x y"},
        "out": ["a", "b", "c"],
        "timeout": 3600.0,
        "detach": False,
    }
    assert read(f"%%jaxtrain  {line} \n")["line"] == line


def test_all_that_is_wrong_is_told():
    found = errors("-n x --nodse 4 --cpu --memory 512m --out a,,b a b --detach=yes")
    assert found.keys() == {None, "nodes", "cpu", "memory", "out", "detach", "name"}
    assert found[None] == say.UNKNOWN(option="--nodse")
    assert found["cpu"] == say.NEEDS_VALUE(option="--cpu")
    assert found["name"] == say.EXTRA_WORD(word="'b'", name="'a'")
    (wrong,) = read("%%jaxtrain demo --env A=1 --env B --cpu 2")["errors"]
    assert (wrong["option"], wrong["value"]) == ("env", ["A=1", "B"])
    assert "no '='" in wrong["message"]
    assert wrong["hint"] == say.EMPTY_ASSIGNMENT(option="--env", assignment="B=")
    assert read("%%jaxtrain demo -n x --cpu 2")["values"] == {"name": "demo", "cpu": "2"}


def test_what_is_wrong_only_together_and_help_and_quotes():
    assert errors("--device cpu --topology 2x4") == {None: say.NOT_WITH_CPU(option="--topology")}
    assert "--memory" in errors("--backend local --memory 4Gi")[None]
    assert errors("a --name b") == {"name": say.TWO_NAMES(name="'a'", other="'b'")}
    assert errors("-n 2 --help") == {None: queries.HELP_IN_LINE()}
    assert errors("-n 2 'a b") == {
        None: say.UNREADABLE_LINE(line='"-n 2 \'a b"', error="No closing quotation")
    }


def test_words_that_may_belong_to_another_option_are_no_name():
    assert errors("--nodse 4 5") == {None: say.UNKNOWN(option="--nodse")}
    assert errors("--out a, B c").keys() == {"out"}


@pytest.mark.parametrize(
    ("line", "nodes", "device", "each", "rest"),
    [
        ("", 1, None, None, []),
        ("-n 4", 4, None, None, []),
        (
            "-n 4 -d gpu --devices-per-node 8 --cpu 32 --memory 256Gi",
            4,
            "gpu",
            8,
            ["128 CPU", "1 TiB"],
        ),
        ("-n 4 --devices-per-node 8", 4, None, 8, []),
        ("-d tpu --topology 4x4", 4, "tpu", 4, []),
        ("--topology 2x4", 1, "tpu", 8, []),
        ("--topology 4x4x4 --accelerator v5p", 16, "tpu", 4, []),
        ("-n 3 --accelerator h100", 3, "gpu", None, []),
        ("-n 3 --cpu 500m --memory 10G", 3, None, None, ["1.5 CPU", "30 GB"]),
        ("-n 100 --cpu 10", 100, None, None, ["1000 CPU"]),
        ("-n 3 --memory 512Mi", 3, None, None, ["1.5 GiB"]),
    ],
)
def test_what_a_job_asks_for(line, nodes, device, each, rest):
    asked = {"nodes": nodes, "device": device, "each": each, "rest": rest}
    assert read(f"%%jaxtrain {line}")["ask"] == asked


def test_of_a_line_with_an_error_it_is_not_known_what_it_asks_for():
    assert read("%%jaxtrain -n x --cpu 10")["ask"] is None


def test_a_form_knows_all_options():
    found = {option["name"]: option for option in options()}
    assert list(found) == list(BY_FIELD) and all(o["help"] and o["group"] for o in options())
    assert found["device"] == {
        "name": "device",
        "flag": "--device",
        "short": "d",
        "kind": "choice",
        "metavar": one_of(DEVICES),
        "help": BY_FIELD["device"].help,
        "choices": list(DEVICES),
        "group": "The job",
        "cluster_only": False,
        "repeated": False,
        "of_cell": False,
        "default": None,
    }
    assert found["memory"]["cluster_only"] and found["env"]["repeated"]
    assert (found["detach"]["metavar"], found["detach"]["default"]) == (None, False)
    assert (found["nodes"]["default"], found["env"]["default"]) == (1, {})


def test_a_form_knows_how_to_ask_for_an_option():
    kinds = {option["name"]: option["kind"] for option in options()}
    numbers = {name for name, kind in kinds.items() if kind == "number"}
    assert numbers >= {"nodes", "devices_per_node", "max_restarts"}
    assert {name for name, kind in kinds.items() if kind == "names"} == {"out", "use", "files"}
    assert kinds["env"] == kinds["volume"] == "lines"
    assert (kinds["detach"], kinds["device"]) == ("switch", "choice")
    assert (kinds["timeout"], kinds["image"]) == ("duration", "text")


# ---------------------------------------------------------------------------- writing


@pytest.mark.parametrize(
    ("line", "changes", "expected"),
    [
        (" -n 4", {"nodes": 8}, " -n 8"),
        (" --nodes=4  --cpu   2", {"nodes": 8, "cpu": "3"}, " --nodes=8  --cpu 3"),
        (" -n4 # four", {"nodes": 8}, " -n8 # four"),
        (" '-n'  \"4\" x", {"nodes": 8}, " '-n' 8 x"),
        (" -n 2 -n 4", {"nodes": 4}, " -n 2 -n 4"),
        (" -n 2 a -n 4", {"nodes": 8}, " -n 8 a"),
        (" a -n 4  --cpu 2", {"nodes": None}, " a  --cpu 2"),
        (" -n 2 a --nodes=4", {"nodes": None}, " a"),
        (" --timeout 120m", {"timeout": 7200}, " --timeout 120m"),
        (" --timeout 120m", {"timeout": "90m"}, " --timeout 90m"),
        (" --timeout 120m", {"timeout": 5400.0}, " --timeout 1h30m"),
        ("", {"nodes": 1, "backend": "auto"}, " -n 1 --backend auto"),
        (" # c", {"cpu": 2}, " --cpu 2 # c"),
        # names
        ("", {"name": "a", "nodes": 2}, " a -n 2"),
        (" -n 2 a", {"name": "b"}, " -n 2 b"),
        (" -n 2 --name=a", {"name": "b"}, " -n 2 --name=b"),
        (" a -n 2 --name a", {"name": "b"}, " b -n 2"),
        (" a -n 2 --name a", {"name": None}, " -n 2"),
        (" -n 2", {"name": "a"}, " a -n 2"),
        (" -n 2 -- a", {"name": "b", "cpu": 1}, " -n 2 --cpu 1 -- b"),
        # switches
        ("", {"detach": True}, " --detach"),
        ("", {"detach": False}, " --no-detach"),
        ("", {"no_packages": False}, " --packages"),
        (" --packages a", {"no_packages": True}, " --no-packages a"),
        (" --detach a", {"detach": False}, " --no-detach a"),
        (" --no-detach a --detach", {"detach": True}, " --no-detach a --detach"),
        (" --no-detach a --detach", {"detach": None}, " a"),
        # lists
        (" -o a a -o b,c", {"out": ["a", "b", "c"]}, " -o a a -o b,c"),
        (" -o a a -o b,c", {"out": ["c", "d"]}, " -o c,d a"),
        (" -oa", {"out": "c,d"}, " -oc,d"),
        (" --use=a a", {"use": []}, " a"),
        (" --env A=1 a --env=B=2", {"env": {"A": "1", "C": "x y"}}, " --env A=1 --env 'C=x y' a"),
        (" --env=A=1 a", {"env": {"A": "1", "C": "x y"}}, " --env=A=1 --env='C=x y' a"),
        (
            " --package flax",
            {"package": ["flax", "optax>=0.2"]},
            " --package flax --package 'optax>=0.2'",
        ),
        # a value that looks like an option
        ("", {"context": "-x"}, " --context=-x"),
        (" --context a", {"context": "-x"}, " --context=-x"),
        # a tab after %%jaxtrain is no blank for IPython
        (" a\t-n 2", {"name": None}, " \t-n 2"),
        ("\t-n 2", {"nodes": 3}, " \t-n 3"),
        # an escaped blank before what is taken away
        (" --env A=\\  -n 4", {"nodes": None}, " --env A=\\ "),
        # lines with errors
        (" -n --cpu 4", {"nodes": 2}, " -n 2 --cpu 4"),
        (" --cpu 4 --cpu", {"cpu": 4}, " --cpu 4"),
        (" -n x a", {"nodes": None, "cpu": 2}, " a --cpu 2"),
        (" --nodse 4 a", {"name": "b", "cpu": 2}, " b --nodse 4 a --cpu 2"),
        (" --nodse=4 a", {"name": "b"}, " --nodse=4 b"),
        (" --out a, b", {"name": "c"}, " c --out a, b"),
        (" a b", {"name": "c"}, " c b"),
        (" a a", {"name": None}, " a a"),
        (" --name a a b", {"name": "c"}, " --name c a b"),
        (" --detach=yes", {"detach": True}, " --detach"),
        (" -n 4 'a b", {"nodes": 2, "name": None}, " -n 4 'a b"),
    ],
)
def test_only_the_words_of_what_changes_are_touched(line, changes, expected):
    # An escaped blank at the end is kept from IPython's rstrip() by what follows it.
    end = " x" if expected.endswith("\\ ") else ""
    assert changed(line + end, **changes) == expected + end


def test_a_change_that_cannot_be_is_told_and_not_made():
    found = write("%%jaxtrain -n 4", {"nodes": "x", "cpu": 2, "env": {"A": "a\nb"}})
    assert found["source"] == "%%jaxtrain -n 4 --cpu 2"
    assert [(e["option"], e["value"]) for e in found["errors"]] == [
        ("nodes", "x"),
        ("env", {"A": "a\nb"}),
    ]
    assert found["errors"][1]["message"] == queries.LINE_BREAK_IN_VALUE(option="--env")
    found = write("x = 1", {"nodes": 0})
    assert (found["source"], found["found"]) == ("x = 1", False)
    assert [e["option"] for e in found["errors"]] == ["nodes"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "--env A=\\  -n 4",
            "nodes",
        ),  # IPython would take away the blank, which is then at the end
        ("-n --cpu 2 fit", "cpu"),  # the job's name would be the value that -n lacks
        ("--nodse --cpu 2 fit", "cpu"),  # the job's name might be the value of --nodse
    ],
)
def test_nothing_is_taken_away_where_other_words_would_change_their_meaning(line, name):
    source = f"%%jaxtrain {line}\nx"
    found = write(source, {name: None})
    assert (found["source"], found["values"]) == (source, read(source)["values"])
    assert found["errors"][0]["option"] == name
    assert found["errors"][0]["message"] == queries.CANNOT_CHANGE(option=f"--{name}")
    assert write(source, {name: 3})["values"][name] in (3, "3")


def test_there_has_to_be_such_an_option():
    with pytest.raises(UsageError, match="'node'") as refused:
        write("%%jaxtrain", {"node": 4})
    assert refused.value.id == "queries.unknown-option" and "nodes" in refused.value.hint


# ---------------------------------------------------------------------------- any line

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from(["a", "fit-2"]),
    "nodes": st.integers(1, 4096),
    "device": st.sampled_from(["gpu", "tpu"]),
    "backend": st.sampled_from(["auto", "kubernetes"]),
    "cpu": st.sampled_from(["1", "500m"]),
    "env": st.dictionaries(
        st.sampled_from("AB"), st.text("a '\"#\\=$%-\t\N{NO-BREAK SPACE}é", max_size=5), min_size=1
    ),
    "out": st.lists(st.sampled_from(["a", "b_1", "größe"]), min_size=1, unique=True),
    "timeout": st.one_of(st.integers(1, 10**6).map(float), st.floats(0.01, 10**5)),
    "detach": st.booleans(),
    "dry_run": st.booleans(),
    "context": st.sampled_from(["me@there", "-x", "two words", "-", "#", "it's"]),
    "package": st.lists(st.sampled_from(["flax", "optax>=0.2,<1"]), min_size=1, unique=True),
    "runtime": st.sampled_from(["jax-cpu", "team.gpu"]),
}
CHANGES = {name: st.one_of(st.none(), values) for name, values in VALUES.items()}


@st.composite
def written(draw: Any) -> tuple[str, dict[str, Any], list[tuple[str, str]]]:
    """Return a line, what it says, and its pieces with their options; with any spelling."""
    wanted = draw(st.fixed_dictionaries({}, optional=VALUES))
    pieces = []
    for name in draw(st.permutations(list(wanted))):
        value, option = wanted[name], BY_FIELD[name]
        if isinstance(value, bool):
            pieces.append((name, option.flag if value else option.opposite))
            continue
        words = (
            [f"{k}={v}" for k, v in value.items()]
            if isinstance(value, dict)
            else [",".join(value)]
            if option.commas
            else [str(v) for v in value]
            if isinstance(value, list)
            else [f"{value:.6f}" if name == "timeout" else str(value)]
        )
        for word in words:
            quoted = draw(
                st.sampled_from([shlex.quote(word), "'" + word.replace("'", "'\"'\"'") + "'"])
            )
            heads = [f"{option.flag}="] + ([f"{option.flag} "] if word[0] != "-" else [])
            heads += [f"-{option.short}", f"-{option.short}   "] if option.short else []
            heads += [""] if name == "name" else []
            pieces.append((name, draw(st.sampled_from(heads)) + quoted))
    blanks = st.sampled_from([" ", "  ", "\t"])
    line = "".join(draw(blanks) + text for _, text in pieces)
    if line[:1] == "\t":
        line = " " + line
    line += draw(st.sampled_from(["", " ", " # it's so", "  #"]))
    said = {**wanted}
    if "timeout" in said:
        said["timeout"] = float(f"{said['timeout']:.6f}")
    return line, said, pieces


@given(written(), st.fixed_dictionaries({}, optional=CHANGES), st.sampled_from(["", "\n", "\nx\n"]))
@settings(max_examples=60)
def test_the_changes_are_made_and_all_else_stays(cell, changes, rest):
    line, said, pieces = cell
    source = f"%%jaxtrain{line}{rest}"
    before = read(source)
    assert (before["values"], before["errors"]) == (said, [])
    assert write(source, {}) == {"source": source, **before}
    after = write(source, changes)
    assert after["errors"] == []
    assert after["values"] == {
        name: value for name, value in {**said, **changes}.items() if value is not None
    }
    text = after["source"]
    assert text.startswith("%%jaxtrain") and text.endswith(rest)
    at = 0
    for name, piece in pieces:  # they stay as they are, and in their order
        if name not in changes or changes[name] == said[name]:
            at = text.index(piece, at) + len(piece)
    assert write(text, changes)["source"] == text


TROUBLE = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "-n",
            "4",
            "-n4",
            "--nodes=x",
            "--nodse",
            "--nodse=1",
            "--cpu",
            "2",
            "-1",
            "-",
            "--",
            "-h",
            "--detach",
            "--no-detach",
            "--detach=1",
            "--out",
            "a,",
            "a,b",
            ",",
            "-ob",
            "--env",
            "A=1",
            "'A=x y'",
            "''",
            '"a',
            "it's",
            "#",
            "#x",
            "\\",
            "\\ ",
            "-d",
            "cpu",
            "--topology",
            "2x4",
            "--backend",
            "local",
            "--name",
            "--name=a",
            "-=",
            "--=",
            "--context",
            "'-a b'",
            "-x y",
            "\u2003",
        ]
    ),
    max_size=7,
)


@given(TROUBLE, st.fixed_dictionaries({}, optional=CHANGES))
@settings(max_examples=100)
def test_a_line_with_errors_is_never_destroyed(words, changes):
    line = " ".join(["", *words])
    source = f"%%jaxtrain{line}\nx"
    before, after = read(source), write(source, changes)
    assert write(source, {})["source"] == source
    assert after["source"].startswith("%%jaxtrain") and after["source"].endswith("\nx")
    if not any("other words" in error["message"] for error in after["errors"]):
        assert write(after["source"], changes)["source"] == after["source"]
    try:
        was = parts(line.rstrip())
    except UsageError:
        assert after["source"] == source and before["errors"]
        return
    left = [line[p.start : p.end] for p in was if p.option not in changes]
    is_now = after["source"].splitlines()[0].removeprefix("%%jaxtrain").rstrip()
    assert left == [is_now[p.start : p.end] for p in parts(is_now) if p.option not in changes]
    untouched = before["values"].keys() - changes.keys()
    assert {n: after["values"].get(n) for n in untouched} == {
        n: before["values"][n] for n in untouched
    }


@given(TROUBLE)
@settings(max_examples=100)
def test_what_is_read_piece_by_piece_is_what_the_parser_reads(words):
    line = " ".join(words).rstrip()
    first = UsageError("the first")
    try:
        spec = parse_cell_line(line)
    except UsageError:
        assert read(f"%%jaxtrain {line}")["errors"]
        return
    found, wrong = cellline._read_piecewise(line, first)
    assert (found, found.explicit) == (spec, spec.explicit)
    assert [error["message"] for error in wrong] == ["the first"]


def test_every_option_can_be_written():
    spec = parse_cell_line(
        "demo -n 4 -d tpu --devices-per-node 2 --accelerator tpu-v5e --topology 2x4 -r jax-tpu "
        "-o params --use x --files data,*.csv --allow-large --backend kubernetes --context me --namespace team "
        "--cpu 500m --memory 16Gi --image ghcr.io/me/jax:1 --env A=1 --env-from-secret token "
        "--package flax --volume data:/data --store s3://bucket/x --service-account me --queue q "
        "--priority high --timeout 1h30m --hang-timeout 20m --max-restarts 3 --dataset hf://a/b --model s3://c/d "
        "--detach --dry-run --show-secrets --package-from-pods --no-packages --stop-on-nan "
        "--no-compile-cache --profile steps=1:2 -s lab --idle never --rank 0-3"
    )
    found = write("x", spec.to_json())
    assert found["values"] == spec.to_json() and len(found["values"]) == len(OPTIONS)
    assert found["errors"] == []
    taken = write(found["source"], dict.fromkeys(found["values"]))
    assert taken["source"] == "%%jaxtrain\nx" and JobSpec.from_json(taken["values"]) == JobSpec()
