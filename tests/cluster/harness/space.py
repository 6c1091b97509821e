"""The namespaces that the cluster lives in, and the processes in them.

One process, ``pause``, is the first in a PID, a mount and a network namespace of their own. The
cluster's mounts, bridges and packet filters are in there, not on this machine; ending that one
process ends every part and every pod, and takes all of it away. A cable (a pair of virtual
interfaces) leads to the node's address.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import layout
from layout import ClusterError, run

SETUP = """
set -e
read recorded  # ends with the command that should have recorded this process
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/state /mnt/cache
mount --bind "$STATE" /mnt/state
mount --bind "$CACHE" /mnt/cache
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns
mount --bind /mnt/state/lib /var/lib
mount --bind /mnt/state/log /var/log
mount --bind /mnt/state/config/resolv.conf /etc/resolv.conf
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
exec "$INIT" </dev/null
"""

CABLED = layout.STATE / "cabled"

# The kubelet sets these for the whole machine; `down` sets them back.
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def started(pid: int) -> str | None:
    """Return when the process began, in clock ticks: with its id, that names it for good."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]


def _child(pid: int) -> int | None:
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                return int(entry.name)
    return None


def _wait_child(parent: subprocess.Popen[bytes], what: str, log: Path) -> int:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and parent.poll() is None:
        child = _child(parent.pid)
        if child is not None:
            return child
        time.sleep(0.01)
    raise ClusterError(f"{what} did not start:\n{tail(log)}")


def tail(log: Path, lines: int = 15) -> str:
    """Return the end of a log, and where it is."""
    text = log.read_text(errors="replace").splitlines()[-lines:] if log.exists() else []
    return "\n".join([*text, f"({log})"])


def recorded() -> dict[str, dict[str, str]]:
    """Return the processes that were started and not stopped: name → pid and when it began."""
    try:
        return dict(json.loads(layout.PROCESSES.read_text()))
    except FileNotFoundError:
        return {}


def _record(name: str, pid: int | None) -> None:
    processes = recorded()
    processes.pop(name, None)
    if pid is not None:
        processes[name] = {"pid": str(pid), "began": started(pid) or ""}
    layout.write_json(layout.PROCESSES, processes)


def pid_of(name: str) -> int | None:
    """Return the id of a part that runs, as this machine sees it."""
    entry = recorded().get(name)
    if entry is None or started(int(entry["pid"])) != entry["began"]:
        return None
    return int(entry["pid"])


def running() -> bool:
    """Return whether the cluster's namespaces are there, complete with the cable into them."""
    return pid_of("space") is not None and CABLED.exists()


def refuse_second() -> None:
    """Refuse to make a cluster next to one that is not ours: the addresses would be the same."""
    if Path("/sys/class/net", layout.HOST_LINK).exists():
        raise ClusterError(
            f"A cluster of this kind is up already: the network interface {layout.HOST_LINK} is "
            "there. Take it down with `make cluster-down`, as the user who started it."
        )


def make(init: Path) -> None:
    """Make the namespaces, held by ``init``, and the cable into them."""
    for folder in ("lib", "log", "logs"):
        (layout.STATE / folder).mkdir(parents=True, exist_ok=True)
    log = layout.STATE / "logs" / "space.log"
    values = {name: Path("/proc/sys", name).read_text().strip() for name in SYSCTLS}
    layout.write_json(layout.STATE / "sysctls.json", values)
    environment = {
        "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin",
        "STATE": str(layout.STATE),
        "CACHE": str(layout.CACHE),
        "INIT": str(layout.INSIDE_CACHE / init.relative_to(layout.CACHE)),
    }
    unshare = ["unshare", "--net", "--mount", "--propagation", "private"]
    unshare += ["--pid", "--fork", "--mount-proc", "sh", "-c", SETUP]
    with log.open("wb") as sink:
        parent = subprocess.Popen(
            unshare,
            env=environment,
            stdout=sink,
            stderr=sink,
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    pid = _wait_child(parent, "the namespaces", log)
    _record("space", pid)
    try:
        assert parent.stdin is not None
        with parent.stdin as pipe:
            pipe.write(b"recorded\n")
        _wait_for(init.name, pid, log)
        _lay_cable(pid)
    except BaseException:
        unmake()
        raise


def _wait_for(init: str, pid: int, log: Path) -> None:
    deadline = time.monotonic() + 10
    comm = Path(f"/proc/{pid}/comm")
    while started(pid) is None or comm.read_text().strip() != init:
        if started(pid) is None or time.monotonic() > deadline:
            raise ClusterError(f"The cluster's namespaces could not be made:\n{tail(log)}")
        time.sleep(0.02)


def _lay_cable(pid: int) -> None:
    run(
        "ip",
        "link",
        "add",
        layout.HOST_LINK,
        "type",
        "veth",
        "peer",
        "name",
        layout.NODE_LINK,
        "netns",
        str(pid),
    )
    run("ip", "address", "add", f"{layout.HOST_ADDRESS}/30", "dev", layout.HOST_LINK)
    run("ip", "link", "set", layout.HOST_LINK, "up")
    inside("ip", "address", "add", f"{layout.NODE_ADDRESS}/30", "dev", layout.NODE_LINK)
    inside("ip", "link", "set", layout.NODE_LINK, "up")
    # To services, and nowhere else: what would leave the cluster fails at once.
    inside("ip", "route", "add", layout.SERVICES, "dev", layout.NODE_LINK)
    CABLED.touch()


def enter() -> list[str]:
    """Return the start of a command that runs in the namespaces."""
    pid = pid_of("space")
    if pid is None:
        raise ClusterError("The cluster is not up. Start it with `make cluster`.")
    return ["nsenter", "--target", str(pid), "--mount", "--net", "--pid", "--"]


def inside(*command: str | Path, text: str | None = None) -> str:
    """Run a command in the cluster's namespaces and return its output."""
    return run(*enter(), *command, text=text)


def start(name: str, command: list[str]) -> int:
    """Start a part in the namespaces, unless it runs; return its id on this machine."""
    pid = pid_of(name)
    if pid is not None:
        return pid
    log = layout.STATE / "logs" / f"{name}.log"
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    with log.open("ab") as sink:
        parent = subprocess.Popen(
            enter() + command,
            env=environment,
            stdout=sink,
            stderr=sink,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
    pid = _wait_child(parent, name, log)
    _record(name, pid)
    return pid


def stop(name: str, how: signal.Signals = signal.SIGTERM, wait_s: float = 90) -> None:
    """End a part, and wait until it is gone: an API server takes up to a minute."""
    pid = pid_of(name)
    if pid is not None:
        os.kill(pid, how)
        deadline = time.monotonic() + wait_s
        while pid_of(name) is not None:
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} (process {pid}) does not end.")
            time.sleep(0.02)
    _record(name, None)


def unmake() -> None:
    """End everything in the namespaces, and with it their mounts and networks."""
    if "space" in recorded():
        stop("space", signal.SIGKILL, wait_s=30)
        with contextlib.suppress(ClusterError):  # it goes with the namespace, a little later
            run("ip", "link", "delete", layout.HOST_LINK)
    saved = layout.STATE / "sysctls.json"
    if saved.exists():
        for name, value in json.loads(saved.read_text()).items():
            Path("/proc/sys", name).write_text(value)
    layout.PROCESSES.unlink(missing_ok=True)
