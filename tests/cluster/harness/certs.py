"""The cluster's keys and certificates, made by openssl; they live and go with the cluster."""

from __future__ import annotations

import base64
from pathlib import Path

import layout
from layout import run

DAYS = "365"
CLIENTS = {  # name of the files → user and group that Kubernetes sees
    "admin": "/O=system:masters/CN=admin",
    "kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
    "kubelet": f"/O=system:nodes/CN=system:node:{layout.NODE}",
}
SERVER_NAMES = (
    "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
    "DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,"
    f"IP:{layout.NODE_ADDRESS},IP:{layout.APISERVER_SERVICE}"
)


def _key(path: Path) -> None:
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def _sign(folder: Path, name: str, subject: str, extensions: str) -> None:
    _key(folder / f"{name}.key")
    request = run("openssl", "req", "-new", "-key", folder / f"{name}.key", "-subj", subject)
    extension_file = folder / f"{name}.ext"
    extension_file.write_text(extensions)
    run(
        "openssl",
        "x509",
        "-req",
        "-days",
        DAYS,
        "-CA",
        folder / "ca.crt",
        "-CAkey",
        folder / "ca.key",
        "-CAcreateserial",
        "-extfile",
        extension_file,
        "-out",
        folder / f"{name}.crt",
        text=request,
    )
    extension_file.unlink()


def make(folder: Path) -> None:
    """Make an authority and all that it signs, once."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    _key(folder / "ca.key")
    run(
        "openssl",
        "req",
        "-x509",
        "-new",
        "-key",
        folder / "ca.key",
        "-days",
        DAYS,
        "-subj",
        "/CN=jaxtrain-cluster",
        "-out",
        folder / "ca.crt",
    )
    _key(folder / "service-account.key")
    _sign(
        folder,
        "kube-apiserver",
        "/CN=kube-apiserver",
        f"extendedKeyUsage=serverAuth\nsubjectAltName={SERVER_NAMES}\n",
    )
    for name, subject in CLIENTS.items():
        _sign(folder, name, subject, "extendedKeyUsage=clientAuth\n")
    (folder / "done").touch()


def kubeconfig(folder: Path, name: str) -> dict[str, object]:
    """Return a kubeconfig, complete in itself, for one of the users above."""

    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    cluster = {
        "server": f"https://{layout.NODE_ADDRESS}:6443",
        "certificate-authority-data": data(folder / "ca.crt"),
    }
    credentials = {
        "client-certificate-data": data(folder / f"{name}.crt"),
        "client-key-data": data(folder / f"{name}.key"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "jaxtrain", "cluster": cluster}],
        "users": [{"name": name, "user": credentials}],
        "contexts": [{"name": "jaxtrain", "context": {"cluster": "jaxtrain", "user": name}}],
        "current-context": "jaxtrain",
    }
