"""Certificates and keys that a kubeconfig holds: the files that are made of them may be removed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from webserver import Quiet, WebServer

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import keyfiles, kubeconfig
from jupyter_jax_trainer.backends.kubernetes.api.client import Client, Unreachable


class Handler(Quiet):
    def do_GET(self) -> None:
        self.give(200, {"Content-Type": "application/json", "Connection": "close"}, b'{"a": 1}')


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "9",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            folder / "key",
            "-out",
            folder / "crt",
        ],
        check=True,
        capture_output=True,
    )
    return folder / "crt", folder / "key"


@pytest.fixture
def server(certificate) -> Iterator[str]:
    found = WebServer(Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    found._http.socket = context.wrap_socket(found._http.socket, server_side=True)
    yield found.url.replace("http", "https")
    found.close()


@pytest.fixture
def config(home, server, certificate, tmp_path, monkeypatch) -> Iterator[Path]:
    keyfiles.clean_up()  # those of another test lie in its job store
    crt, key = (base64.b64encode(path.read_bytes()).decode() for path in certificate)
    path = written(
        tmp_path / "config",
        server,
        {"certificate-authority-data": crt},
        {"client-certificate-data": crt, "client-key-data": key},
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    keyfiles.clean_up()  # what tests before have left in this process
    yield path
    keyfiles.clean_up()


def written(path: Path, server: str, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "one",
                "clusters": [{"name": "one", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "one", "user": user}],
                "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
            }
        )
    )
    return path


def test_keys_lie_in_the_job_store_and_are_written_again_when_they_are_gone(home, config):
    client = Client()
    assert client.request("GET", "/x") == {"a": 1}
    files = [path for path in (home / "run" / "keys").rglob("*") if path.is_file()]
    assert len(files) >= 3 and all(path.stat().st_mode & 0o077 == 0 for path in files)
    for path in files:
        path.unlink()
    assert client.request("GET", "/x") == {"a": 1}
    shutil.rmtree(home / "run" / "keys")
    client._renew_after = 0.0
    assert client.request("GET", "/x") == {"a": 1}


def test_keys_that_the_kubeconfig_names_and_that_are_gone_are_told(
    home, server, certificate, tmp_path, monkeypatch
):
    crt, key = (shutil.copy(path, tmp_path) for path in certificate)
    path = written(
        tmp_path / "config",
        server,
        {"certificate-authority": str(crt)},
        {"client-certificate": str(crt), "client-key": str(key)},
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    client = Client()
    assert client.request("GET", "/x") == {"a": 1}
    os.unlink(key)
    with pytest.raises(Unreachable) as error:
        client.request("GET", "/x")
    assert error.value.args[0].id == "cluster.not-renewed"
    shutil.copy(certificate[1], tmp_path)
    client._renew_after = 0.0
    assert client.request("GET", "/x") == {"a": 1}


def test_what_a_killed_process_has_left_is_removed_and_that_of_a_live_one_is_not(home, config):
    program = (
        "from jupyter_jax_trainer.backends.kubernetes.api.kubeconfig import find_access\n"
        "find_access(None, 1); print('there', flush=True); input()"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    try:
        for other in others:
            assert other.stdout is not None and other.stdout.readline()
        keys = home / "run" / "keys"
        assert len(list(keys.iterdir())) == 3
        others[0].send_signal(signal.SIGKILL)
        others[0].wait()
        others[1].communicate(b"\n", timeout=20)
        assert len(list(keys.iterdir())) == 2  # an orderly end leaves nothing
        kubeconfig.find_access(None, 1)
        assert len(list(keys.iterdir())) == 2  # the live one's, and ours
        foreign = keys / "12345678-other"
        foreign.mkdir()
        keyfiles._sweep(keys, "x")
        assert foreign.exists()
        os.utime(foreign, (1, 1))
        keyfiles._sweep(keys, "x")
        assert not foreign.exists()
    finally:
        for other in others:
            other.kill()
            other.wait()
            for pipe in (other.stdin, other.stdout):
                if pipe is not None and not pipe.closed:
                    pipe.close()


def test_a_job_store_that_cannot_be_used_does_not_keep_from_the_cluster(home, config):
    home.chmod(0o777)
    assert Client().request("GET", "/x") == {"a": 1}
    assert not (home / "run").exists()


def test_a_silent_server_does_not_hold_up_a_port_forward(home, tmp_path, monkeypatch):
    import websocket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(4)
        written(
            tmp_path / "config", f"http://127.0.0.1:{silent.getsockname()[1]}", {}, {"token": "t"}
        )
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        monkeypatch.setenv(timeouts.FORWARD.variable, "0.5")
        client, found = Client(), []

        def forward() -> None:
            try:
                with client.forward("pod", 1):
                    pass
            except Unreachable as error:
                found.append(error)

        thread = threading.Thread(target=forward, daemon=True)
        began = time.monotonic()
        thread.start()
        thread.join(0.2)
        assert websocket.getdefaulttimeout() is None  # that of others is left as it is
        thread.join(10)
        assert found and time.monotonic() - began < 5
