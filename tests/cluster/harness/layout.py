"""Where the test cluster's files and addresses are, and which versions it is made of."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
GO = HERE / "go"

KUBERNETES = "v1.36.3"
JOBSET = "v0.12.0"
TRAINER = "v2.3.0"
KUEUE = "v0.16.2"
DEBIAN = "bookworm"
BASE_PACKAGES = ("ca-certificates", "python3", "python3-pip", "python3-venv")


def _xdg(variable: str, default: str) -> Path:
    root = Path(os.environ.get(variable) or Path.home() / default)
    return root.resolve() / "jupyter-jax-trainer" / "cluster"


CACHE = _xdg("XDG_CACHE_HOME", ".cache")  # what is built: kept
STATE = _xdg("XDG_STATE_HOME", ".local/state")  # what the running cluster writes: removed by down
KUBECONFIG = STATE / "kubeconfig"
KUBECTL = STATE / "kubectl"  # the one that goes with the cluster, and speaks to it
PROCESSES = STATE / "processes.json"

# The cluster lives in namespaces of its own (see space.py), where these are the names of its files.
INSIDE_CACHE = Path("/mnt/cache")
INSIDE_STATE = Path("/mnt/state")

NODE = "node0"
HOST_LINK = "jaxtrain0"  # this machine's end of the cable to the node
NODE_LINK = "eth0"
HOST_ADDRESS = "10.247.0.1"
NODE_ADDRESS = "10.247.0.2"
PODS = "10.247.1.0/24"
SERVICES = "10.247.128.0/20"
APISERVER_SERVICE = "10.247.128.1"
DNS_SERVICE = "10.247.128.10"
CGROUP = "jaxtrain-cluster"


class ClusterError(Exception):
    """The cluster can't be made or used; the message says why and what to do."""


def digest(*contents: str | bytes | Path) -> str:
    """Return a short name for these contents; a path stands for its file's."""
    total = sha256()
    for content in contents:
        if isinstance(content, Path):
            content = content.read_bytes()
        part = content.encode() if isinstance(content, str) else content
        total.update(sha256(part).digest())
    return total.hexdigest()[:12]


def say(text: str) -> None:
    """Report progress. The last line of standard output is the kubeconfig's, so this is not it."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


class Stopwatch:
    """Says how long each step took."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()

    def step(self, what: str) -> None:
        """Say that ``what`` is done, and in what time."""
        now = time.monotonic()
        say(f"{now - self.began:6.1f} s  {what} ({now - self.last:.1f} s)")
        self.last = now


def run(*command: str | Path, text: str | None = None, **options: Any) -> str:
    """Run a command and return its output; what it says on failure is in the error."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(word) for word in command], input=text, capture_output=True, text=True, **options
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-3000:]
        words = " ".join(str(word) for word in command)
        raise ClusterError(f"`{words[:300]}` ended with {done.returncode}:\n{said}")
    return done.stdout


def forget_but(kept: int, wanted: Path, archives: Iterable[Path]) -> None:
    """Remove archives, but for the ``kept`` last used ones; ``wanted``, made or not, is one."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(wanted)
    ages = {}
    for path in set(archives) - {wanted}:
        with contextlib.suppress(FileNotFoundError):  # another checkout does the same
            ages[path] = time.time() - path.stat().st_mtime
    for path in sorted(ages, key=lambda path: ages[path])[kept - 1 :]:
        if ages[path] > 3600:  # else somebody may be about to import it
            path.unlink(missing_ok=True)


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file at once, unless it says that already: some are watched by those who read them."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.touch(mode)
    part.chmod(mode)
    part.write_text(text)
    part.replace(path)


def write_json(path: Path, content: Any, mode: int = 0o644) -> None:
    """Write a settings file; YAML readers take JSON."""
    write(path, json.dumps(content, indent=1) + "\n", mode)


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Let one command at a time change the cluster."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another command that builds, starts or stops the cluster")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def require_root() -> None:
    """Refuse where the cluster can't work, with the reason."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise ClusterError(
            "A cluster of its own needs Linux and root: it makes network namespaces and mounts. "
            "Elsewhere, name a cluster that exists: export KUBECONFIG=… (kind will do)."
        )
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


PACKAGES = {  # a command, and the Debian package that has it
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
}


def require_packages() -> None:
    """Install the Debian packages that are missing."""
    missing = sorted({name for tool, name in PACKAGES.items() if not shutil.which(tool)})
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise ClusterError(f"Install {', '.join(missing)} first: there is no apt-get here.")
    say(f"installing {', '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", "-qq", env=environment)
    run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, env=environment)
