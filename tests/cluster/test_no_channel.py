"""Jobs whose ranks can't be reached by the channel: they run, and it is said what that costs."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest
from harness import answers, eventually

from cluster import people
from cluster.faults import LONG_S, begin, process_of, require_own
from cluster.made_runtimes import make
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.doctor.doctor import FORWARDS
from jupyter_jax_trainer.doctor import report
from jupyter_jax_trainer.doctor.finding import WARN
from jupyter_jax_trainer.messages import channel as say
from jupyter_jax_trainer.messages import cluster as of_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PORT = 29_777


def test_a_blocked_port_between_pods_costs_the_answers_of_all_ranks_but_the_first(place, cluster):
    require_own(cluster)
    job = begin(place, f"-n 2 --env JAXTRAIN_CHANNEL_PORT={PORT} --env JAXTRAIN_WHERE_INTERVAL=1")
    assert [one.unasked for one in job.where()] == [None, None]
    rule = f"-I INPUT ! -i lo -p tcp --dport {PORT} -j REJECT --reject-with tcp-reset"
    inside = ["nsenter", "--target", str(process_of(job, 1)), "--net"]
    subprocess.run([*inside, "iptables", *rule.split()], check=True)
    first, second = job.where()
    assert first.unasked is None and first.answered
    assert second.unasked == say.NO_WAY_THERE(port=PORT)
    eventually(lambda: job.where()[1].line == first.line, LONG_S)  # it says so now and then
    job.cancel()


def test_where_another_container_has_the_port_another_one_does(place, namespace):
    taken = f"import socket, time; end = socket.create_server(('', {PORT})); time.sleep(1000)"

    def beside(pod):
        rank = pod["containers"][0]
        one = {"name": "beside", "restartPolicy": "Always", "command": ["python3", "-c", taken]}
        alike = {key: rank[key] for key in ("image", "securityContext") if key in rank}
        pod.setdefault("initContainers", []).append({**one, **alike})

    runtime = make(namespace, "port-taken", beside)
    job = begin(place, f"-n 2 --runtime {runtime} --env JAXTRAIN_CHANNEL_PORT={PORT}")
    answers(job)
    job.cancel()


@contextlib.contextmanager
def breaks_upgrades(kubectl: tuple[str, ...]) -> Iterator[str]:
    """Give the address of a proxy before the API that knows HTTP and no WebSockets."""
    serving = subprocess.Popen([*kubectl, "proxy", "--port=0"], stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    found = re.search(r":(\d+)$", serving.stdout.readline().strip())
    assert found is not None

    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                for header in (b"Upgrade: websocket\r\n", b"Connection: Upgrade\r\n"):
                    data = data.replace(header, b"")
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", int(found[1]))) as api:
            back = threading.Thread(target=carry, args=(api, client), daemon=True)
            back.start()
            carry(client, api)
            back.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.kill()
            serving.wait()
            serving.stdout.close()


def test_a_proxy_that_breaks_upgrades_costs_the_channel_alone(
    cluster, namespace, place, tmp_path, monkeypatch
):
    with breaks_upgrades(cluster.kubectl) as server:
        config = people.kubeconfig(tmp_path / "config", {"server": server}, {}, namespace.name)
        monkeypatch.setenv("KUBECONFIG", str(config))
        connection._clients.clear()
        found = list(report.examine("kubernetes", namespace=namespace.name))
        (said,) = [one for one in found if one.subject == FORWARDS()]
        assert said.status == WARN and str(of_cluster.NO_FORWARD()) in said.advice
        job = begin(place, "-n 2 --env JAXTRAIN_WHERE_INTERVAL=1")
        reason, _, _ = say.NO_FORWARD(error="…").partition("…")
        assert all(str(one.unasked).startswith(reason) for one in job.where())
        eventually(lambda: all(one.line for one in job.where()), LONG_S)
        job.cancel()
    connection._clients.clear()
