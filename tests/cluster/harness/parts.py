"""The parts of the cluster: their settings, and the command that each is started with.

`python parts.py start NAME` and `python parts.py stop NAME [SIGNAL]` are for tests of faults. (Told
to end by SIGTERM, the API server takes a minute; SIGKILL is what a crash looks like.)
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import build
import certs
import layout
import space
from layout import INSIDE_STATE, NODE, NODE_ADDRESS, STATE, ClusterError, write, write_json

CONFIG = STATE / "config"
CERTIFICATES = STATE / "certificates"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
ETCD = "http://127.0.0.1:2379"
CRI = "io.containerd.grpc.v1.cri"

# restrict_oom_score_adj: a machine without CAP_SYS_RESOURCE can't start a sandbox otherwise.
CONTAINERD = f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."{CRI}"]
  sandbox_image = "{build.PAUSE_NAME}"
  restrict_oom_score_adj = true
[plugins."{CRI}".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{INSIDE_STATE}/config/cni"
[plugins."{CRI}".containerd]
  snapshotter = "overlayfs"
[plugins."{CRI}".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."{CRI}".containerd.runtimes.runc.options]
  BinaryName = "{INSIDE_STATE}/config/runc"
"""
# On a busy machine what answers, or passes a log on, goes before what the pods compute.
FIRST = ["nice", "-n", "-8"]
RUNC = '#!/bin/sh\nexec nice -n 8 runc "$@"\n'
# Memory is there, and to collect it less often saves the API server a tenth of its work.
SPARSELY = ["env", "GOGC=400"]


def _inside(path: Path) -> str:
    """Return the name that a file of ours has in the cluster's namespaces."""
    return str(INSIDE_STATE / path.relative_to(STATE))


def _certificate(name: str) -> tuple[str, str]:
    return _inside(CERTIFICATES / f"{name}.crt"), _inside(CERTIFICATES / f"{name}.key")


def _kubelet() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": _inside(CERTIFICATES / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDomain": "cluster.local",
        "clusterDNS": [layout.DNS_SERVICE],
        "resolvConf": _inside(CONFIG / "resolv.conf"),
        # Otherwise it takes two minutes until webhooks see their certificates.
        "syncFrequency": "2s",
        # Images can't be fetched again, so a full disk must not remove them.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi"},
        # After the API server was away for long, controllers are back in seconds, not minutes.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "10s"},
        # The node says every 2 s that it is alive: after 16 s of silence (40 elsewhere) it counts as gone.
        "nodeLeaseDurationSeconds": 8,
        # Logs are rotated soon after they have reached this (its default), so that tests see it.
        "containerLogMaxSize": "10Mi",
        "containerLogMonitorInterval": "3s",
    }


def _bridge() -> dict[str, Any]:
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods0",
                "isGateway": True,
                "ipMasq": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": layout.PODS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def configure() -> None:
    """Write the certificates and the settings of all parts."""
    certs.make(CERTIFICATES)
    for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"):
        write_json(CONFIG / f"{name}.kubeconfig", certs.kubeconfig(CERTIFICATES, name), 0o600)
    write_json(CONFIG / "kubelet.json", _kubelet())
    write_json(CONFIG / "cni" / "10-pods.conflist", _bridge())
    write(CONFIG / "containerd.toml", CONTAINERD)
    write(CONFIG / "runc", RUNC, 0o755)
    write(CONFIG / "resolv.conf", "nameserver 127.0.0.1\n")
    write_json(layout.KUBECONFIG, certs.kubeconfig(CERTIFICATES, "admin"), mode=0o600)


def _apiserver() -> list[str]:
    server, server_key = _certificate("kube-apiserver")
    client, client_key = _certificate("kubelet-client")
    accounts = _inside(CERTIFICATES / "service-account.key")
    return [
        f"--etcd-servers={ETCD}",
        f"--advertise-address={NODE_ADDRESS}",
        "--bind-address=0.0.0.0",
        "--secure-port=6443",
        f"--service-cluster-ip-range={layout.SERVICES}",
        f"--client-ca-file={_inside(CERTIFICATES / 'ca.crt')}",
        f"--tls-cert-file={server}",
        f"--tls-private-key-file={server_key}",
        f"--kubelet-client-certificate={client}",
        f"--kubelet-client-key={client_key}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={accounts}",
        f"--service-account-signing-key-file={accounts}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
    ]


def commands(kube: Path) -> dict[str, list[str]]:
    """Return the command of each part, in the order in which they start."""

    def part(name: str, *flags: str) -> list[str]:
        return [str(layout.INSIDE_CACHE / kube.relative_to(layout.CACHE)), name, *flags]

    def kubeconfig(name: str) -> str:
        return f"--kubeconfig={_inside(CONFIG / f'{name}.kubeconfig')}"

    return {
        "etcd": part(
            "etcd",
            "--data-dir=/var/lib/etcd",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ),
        "containerd": ["containerd", "--config", _inside(CONFIG / "containerd.toml")],
        "kube-apiserver": part("kube-apiserver", *_apiserver()),
        "kube-controller-manager": part(
            "kube-controller-manager",
            kubeconfig("kube-controller-manager"),
            "--leader-elect=false",
            "--node-monitor-grace-period=16s",
            "--node-monitor-period=2s",
            "--use-service-account-credentials=true",
            "--controllers=*,-nodeipam",
            f"--root-ca-file={_inside(CERTIFICATES / 'ca.crt')}",
            f"--service-account-private-key-file={_inside(CERTIFICATES / 'service-account.key')}",
        ),
        "kube-scheduler": part(
            "kube-scheduler", kubeconfig("kube-scheduler"), "--leader-elect=false"
        ),
        "kubelet": part(
            "kubelet",
            kubeconfig("kubelet"),
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_ADDRESS}",
            f"--config={_inside(CONFIG / 'kubelet.json')}",
        ),
        "kube-proxy": part(
            "kube-proxy",
            kubeconfig("kube-proxy"),
            f"--hostname-override={NODE}",
            "--proxy-mode=iptables",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ),
    }


def start(name: str, kube: Path) -> int:
    """Start one part, unless it runs; return its process id."""
    return space.start(name, [*SPARSELY, *FIRST, *commands(kube)[name]])


def main(action: str, name: str, how: str = "SIGTERM") -> None:
    """Start or stop one part of a cluster that is up."""
    layout.require_root()
    with layout.only_one():
        kube = build.binaries() / "kube"
        known = commands(kube)
        if action not in ("start", "stop") or name not in known:
            raise ClusterError(f"Say start or stop, and one of {', '.join(known)}.")
        if action == "start":
            print(start(name, kube))
        else:
            space.stop(name, signal.Signals[how])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
