"""Which modules are the user's own, and which files go with them."""

from __future__ import annotations

import ast
import importlib
import json
import sys

import numpy
import pytest

import jupyter_jax_trainer.errors
from jupyter_jax_trainer.capture import capture_cell, modules
from jupyter_jax_trainer.errors import CaptureError


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Files of the user's own, importable; forgotten afterwards."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/", 1) if "__" in name else tmp_path / name
            path = path.with_suffix(".py") if not path.suffix else path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        importlib.invalidate_caches()
        return tmp_path

    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_is_own(tree):
    tree(mine_a="x = 1")
    assert modules.is_own(importlib.import_module("mine_a"))
    for other in (json, numpy, sys, jupyter_jax_trainer.errors, sys.modules["__main__"]):
        assert not modules.is_own(other)


def test_single_modules_and_what_they_import(tree):
    tree(
        mine_a="import mine_b\nimport json, numpy",
        mine_b="def f():\n    from mine_c import g",
        mine_c="",
        mine_d="raise SystemExit",
    )
    found = modules.collect(["mine_a"], ast.parse("import mine_d"))
    assert set(found) == {"mine_a.py", "mine_b.py", "mine_c.py", "mine_d.py"}
    assert "mine_d" not in sys.modules


def test_packages_go_whole(tree):
    root = tree(minepkg____init__="from . import sub", minepkg__sub="import mine_b", mine_b="")
    package = root / "minepkg"
    (package / "data").mkdir()
    (package / "data" / "table.csv").write_text("1,2")
    (package / "big.bin").write_bytes(b"x" * (modules.MAX_DATA_FILE + 1))
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "sub.pyc").write_bytes(b"")
    (package / ".git").mkdir()
    (package / ".git" / "config").write_text("")
    found = modules.collect(["minepkg.sub"])
    assert set(found) == {
        "minepkg/__init__.py",
        "minepkg/sub.py",
        "minepkg/data/table.csv",
        "mine_b.py",
    }
    assert found["minepkg/data/table.csv"] == b"1,2"


def test_a_package_called_like_a_folder_of_tools_goes(tree):
    root = tree(minepkg____init__="")
    for name in ("dist/__init__.py", "dist/deep.py", "build/made.py"):
        path = root / "minepkg" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert set(modules.collect(["minepkg"])) == {
        "minepkg/__init__.py",
        "minepkg/dist/__init__.py",
        "minepkg/dist/deep.py",
    }


def test_files_that_look_like_secrets_stay_here_and_are_named(tree, tmp_path):
    package = tree(minepkg____init__="", minepkg__credentials="x = 1") / "minepkg"
    (package / "conf").mkdir()
    secret = [
        "credentials.json",
        "id_rsa",
        "conf/kubeconfig",
        "server.key",
        "prod.env",
        ".env",
        ".netrc",
        "conf/service-account-team.json",
        "client_secret_1.json",
        "secrets.yaml",
        "own.pem",
        "store.p12",
        "token.json",
    ]
    for name in secret:
        (package / name).write_text("x")
    inside = {
        "a.txt": "-----BEGIN RSA PRIVATE KEY-----\nx",
        "b.json": '{"private_key": "-----BEGIN PRIVATE"}',
        "conf/c.yaml": "users:\n- user:\n    client-key-data: eA==\n",
        "d": "aws_secret_access_key = x",
    }
    fine = {
        "id_rsa.pub": "x",
        "vocab_tokens.txt": "x",
        "ca.pem": "-----BEGIN CERTIFICATE-----\nx",
        "tokenizer.json": "{}",
        "conf/model.yaml": "key: 1",
        "environment.yml": "x",
        "keys.csv": "1",
    }
    for name, text in (inside | fine).items():
        (package / name).write_text(text)
    (tmp_path / "outside.txt").write_text("x")
    (package / "link.txt").symlink_to(tmp_path / "outside.txt")
    (package / "to_inside.txt").symlink_to(package / "keys.csv")
    left_out: list[str] = []
    found = modules.collect(["minepkg"], left_out=left_out)
    assert set(found) == {
        f"minepkg/{name}" for name in ("__init__.py", "credentials.py", "to_inside.txt", *fine)
    }
    assert set(left_out) == {f"minepkg/{name}" for name in (*secret, *inside, "link.txt")}
    # They are named before anything is sent, in the notes that every way of submitting shows.
    captured = capture_cell("import minepkg", {})
    assert not set(left_out) & set(captured.modules)
    assert [all(name in note for name in left_out) for note in captured.notes].count(True) == 1


RANDOM = "Zq7RtX2mPv9KbLw4NcYs8HdJf3Gu"  # what follows the prefix of a token
KUBECONFIG = "apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    token: {}\n"


@pytest.fixture
def stays(tree):
    """Tell whether a file of a package stays here, of what name and with what in it."""
    package = tree(minepkg____init__="") / "minepkg"

    def ask(name, text="x"):
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        left_out: list[str] = []
        found = modules.collect(["minepkg"], left_out=left_out)
        assert (f"minepkg/{name}" in left_out) != (f"minepkg/{name}" in found)
        return bool(left_out)

    return ask


@pytest.mark.parametrize(
    "name",
    [
        "passwords.txt",
        "password.txt",
        "tokens.json",
        "access_tokens.json",
        "api_keys.json",
        "apikeys.yaml",
        "creds.json",
        "auth.json",
        "pgpass.conf",
        "kube_config.yml",
        "secrets.yaml.bak",
        "secrets.yaml~",
        "secrets.xml",
        "id_rsa.bak",
        "id_ed25519.old.bak",
        "env.local",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "cookies.txt",
        "accessKeys.csv",
        "Secrets/db",
        "conf/secrets/deep/er/x.txt",
        "ssh/config",
        "credentials/me",
    ],
)
def test_secrets_are_told_by_their_names_and_folders(stays, name):
    assert stays(name)


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "tokens.txt",
        "tokens.csv",
        "vocab.txt",
        "token_map.json",
        "env.yaml",
        "author.json",
        "authors.txt",
        "passage.txt",
        "keyboard.json",
        "id_rsa.pub",
        "id_rsa.pub.bak",
        "state.tf",
        "cookie_cutter.json",
        "secretary.txt",
        "secrets/__init__.py",
        "secrets.py",
        "ssh/client.py",
        "secrets/stub.pyi",
        "kubernetes/config.yaml",
        "docker/Dockerfile",
        "credits.txt",
    ],
)
def test_names_that_only_resemble_those_of_secrets_travel(stays, name):
    assert not stays(name)


@pytest.mark.parametrize(
    "text",
    [
        KUBECONFIG.format("abc"),
        KUBECONFIG.format("'abc'"),
        json.dumps({"apiVersion": "v1", "kind": "Config", "users": [{"user": {"token": "abc"}}]}),
        json.dumps({"kind": "Config", "users": [{"user": {"client-key-data": "eA=="}}]}, indent=2),
        json.dumps({"users": [{"user": {"client-key-data": "eA=="}}]}),
        json.dumps({"auths": {"registry.example": {"auth": "abc"}}}),
        json.dumps({"auths": {"registry.example": {"auth": "abc"}}}, indent="\t"),
        f"login: hf_{RANDOM}",
        f"gho_{RANDOM}",
        f"x = '{'AKIA'}{RANDOM[:16].upper()}'",
        f"sk-proj-{RANDOM}-x",
        f"caf\xe9 glpat-{RANDOM}",
        f"\0\0hf_{RANDOM}".encode(),
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nx",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nx",
        "[default]\naws_session_token = x",
        "export AWS_SESSION_TOKEN=x",
        'a: 1\nAWS_SECRET_ACCESS_KEY: "x"',
        '{"a": 1, "aws_session_token": "x"}',
    ],
)
def test_secrets_are_told_by_what_is_in_them(stays, text):
    assert stays("config", text)


@pytest.mark.parametrize(
    "text",
    [
        KUBECONFIG.format(""),
        KUBECONFIG.format("${TOKEN}"),
        "kind: Deployment\ntoken: abc",
        "token: abc",
        '{"auths": {}}',
        "the auths: {",
        "pip install sk-learn-extra==0.3.1 npm_config_2 pypi-publish-v2",
        "hf_transformers_4_57_1",
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nx",
        "the PRIVATE KEY is not here",
        "aws_secret_access_key = ${KEY}",
        json.dumps({"source": ["    aws_session_token=found.token,"]}, indent=1),
        b"\xff\xfe\0\x01" * 100,
    ],
)
def test_what_only_resembles_a_secret_travels(stays, text):
    assert not stays("config", text)


@pytest.mark.parametrize(
    "text, secret",
    [
        (f"{RANDOM}\n", True),
        (f"alice {RANDOM}\nbob {RANDOM[::-1]}\n", True),
        (f"hf_{RANDOM}", True),
        ("", False),
        ("<blk> 0\n\u2581bearer 1\nbasic 2\n\u2581password 3\n", False),
        (
            "\n".join(
                f"reserved_special_token_{number}x" if number == 7 else f"word{number}"
                for number in range(100)
            ),
            False,
        ),
    ],
)
def test_a_list_of_tokens_is_a_vocabulary_unless_they_look_random(stays, text, secret):
    assert stays("tokens.txt", text) is secret


def test_code_travels_whatever_is_in_it(stays):
    assert not stays("auth.py", f"TOKEN = 'hf_{RANDOM}'")


def test_only_the_beginning_of_a_file_is_read(stays):
    assert stays("a.txt", "x\n" * 30_000 + f"hf_{RANDOM}")
    assert not stays("a.txt", "x\n" * 40_000 + f"hf_{RANDOM}")


def test_the_version_on_disk_is_sent(tree):
    root = tree(mine_a="x = 1")
    importlib.import_module("mine_a")
    (root / "mine_a.py").write_text("x = 2")
    assert modules.collect(["mine_a"]) == {"mine_a.py": b"x = 2"}


def test_namespace_packages(tree):
    tree(minespace__part="y = 1")
    assert set(modules.collect(["minespace.part"])) == {"minespace/part.py"}


def test_compiled_modules_are_refused(tree):
    root = tree(minepkg____init__="")
    (root / "minepkg" / "fast.so").write_bytes(b"")
    with pytest.raises(CaptureError, match=r"'minepkg'.*fast\.so") as caught:
        modules.collect(["minepkg"])
    assert caught.value.id == "cell.compiled-module"


def test_there_is_a_bound(tree, monkeypatch):
    tree(mine_a="x = 1\n" * 100)
    monkeypatch.setattr(modules, "MAX_TOTAL", 100)
    with pytest.raises(CaptureError) as caught:
        modules.collect(["mine_a"])
    assert caught.value.id == "cell.modules-too-large"


def test_names_that_are_no_modules():
    assert modules.collect(["__main__", "builtins", "no_such_module", "numpy", ""]) == {}
