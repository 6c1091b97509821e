"""What others get of a job's channel, on the network of the pods and through the API."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from harness import answers
from pace import within

from cluster.faults import begin
from cluster.made_runtimes import image
from jupyter_jax_trainer.backends.kubernetes import connection
from jupyter_jax_trainer.backends.kubernetes.follow.line import Line, Target
from jupyter_jax_trainer.worker.pod.wire import Owner

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PORT = 29_779

# Says how many bytes it has received on each connection, and for how long each was open. It comes
# with more connections at once than are served.
STRANGER = f"""
import json, socket, sys, threading, time
told = []
def ask(data):
    begun, received = time.monotonic(), 0
    try:
        with socket.create_connection((sys.argv[1], {PORT}), 30) as end:
            end.settimeout(60)
            end.sendall(data)
            while piece := end.recv(1000):
                received += len(piece)
    except OSError:
        pass
    told.append([received, time.monotonic() - begun])
asks = [b"", b"GET / HTTP/1.1\\r\\n\\r\\n", bytes(100_000)] + [b""] * 60
threads = [threading.Thread(target=ask, args=(data,)) for data in asks]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(json.dumps(told))
"""


def test_a_strangers_pod_gets_nothing_and_keeps_nobody_out(place, namespace, cluster):
    job = begin(place, f"-n 2 --env JAXTRAIN_CHANNEL_PORT={PORT}")
    pod = namespace.pods(job.name)[1]
    container = {
        "name": "stranger",
        "image": image(cluster),
        "command": ["python3", "-c", STRANGER, pod["status"]["podIP"]],
        "securityContext": pod["spec"]["containers"][0]["securityContext"],
    }
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "securityContext": pod["spec"]["securityContext"],
    }
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger"},
        "spec": spec,
    }
    namespace("create", "-f", "-", stdin=stranger)

    def phase():
        return namespace.get("pod", "stranger")["status"]["phase"]

    while phase() in ("Pending", "Running"):
        answers(job)
    assert phase() == "Succeeded", namespace("logs", "stranger")
    told = json.loads(namespace("logs", "stranger"))
    assert len(told) == 63
    assert {received for received, _ in told} <= {0, 48}, "a nonce, and no more"
    assert within(max(seconds for _, seconds in told), 10)
    answers(job)
    job.cancel()


def test_who_has_another_key_gets_nothing_through_the_api_either(place, namespace, cluster):
    job = begin(place, f"-n 2 --env JAXTRAIN_CHANNEL_PORT={PORT}")
    answers(job)
    pod = namespace.pods(job.name)[0]["metadata"]["name"]
    client = connection.get_client(None, namespace.name)
    target = Target(pod=pod, port=PORT, key="f" * 64, addresses={})
    with closing(Line(client, Owner("ab" * 16, 1 << 40))) as line, pytest.raises(OSError):
        line.where(target)
    answers(job)  # it took nothing over
    job.cancel()
