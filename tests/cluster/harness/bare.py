"""A cluster with nothing in it: a second API server on the store of the first, with keys of its own.

`python bare.py up` prints the path of its kubeconfig, `python bare.py down` ends it. It is for what a
cluster in use can't be brought into: one without Trainer, or without runtimes. Nothing watches it: no
controllers, no webhooks, no node.
"""

from __future__ import annotations

import signal
import sys
import uuid
from pathlib import Path

import build
import certs
import layout
import parts
import space
import up
from layout import NODE_ADDRESS, STATE, ClusterError

NAME = "kube-apiserver-bare"
PORT = 6444
KUBECONFIG = STATE / "bare.kubeconfig"


def start() -> Path:
    """Start it, empty, and wait until it answers; return its kubeconfig."""
    stop()
    name, *flags = parts.commands(build.binaries() / "kube")["kube-apiserver"]
    # What an earlier one has written stays in the store, where nobody looks for it.
    own = [f"--secure-port={PORT}", f"--etcd-prefix=/bare-{uuid.uuid4().hex[:8]}"]
    space.start(NAME, [name, *flags, *own])
    content = certs.kubeconfig(parts.CERTIFICATES, "admin")
    content["clusters"][0]["cluster"]["server"] = f"https://{NODE_ADDRESS}:{PORT}"  # type: ignore[index]
    layout.write_json(KUBECONFIG, content, mode=0o600)
    ask = (layout.KUBECTL, f"--kubeconfig={KUBECONFIG}", "get", "--raw", "/readyz")
    up.until("the bare API server", lambda: layout.run(*ask), NAME)
    return KUBECONFIG


def stop() -> None:
    """End it, if it runs; told to end in peace it would take a minute."""
    space.stop(NAME, signal.SIGKILL)
    KUBECONFIG.unlink(missing_ok=True)


def main(action: str) -> None:
    """Start or end it."""
    layout.require_root()
    if not layout.KUBECONFIG.exists():
        raise ClusterError("There is no cluster: `make cluster` starts one.")
    if action not in ("up", "down"):
        raise ClusterError("Say up or down.")
    with layout.only_one():
        if action == "up":
            print(start())
        else:
            stop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ClusterError as error:
        sys.exit(f"bare: {error}")
