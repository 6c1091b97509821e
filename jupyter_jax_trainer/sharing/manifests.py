"""An exported job for a cluster: a Job with an index, of Kubernetes alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jupyter_jax_trainer.backends.kubernetes.submit import devices, podsecurity

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_MOST = 900_000  # bytes that fit into a ConfigMap as base64
_LONGEST = 50  # characters of a job's name, to which a word and the number of a pod are added
_PORT = 29500
_IMAGE = "IMAGE-WITH-PYTHON-AND-JAX"
_CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
binaryData:
  job.pyz: {data}
---
"""
_JOB = """\
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    job-name: {name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {nodes}
  parallelism: {nodes}
  backoffLimit: 0
  template:
    spec:
      subdomain: {name}
      restartPolicy: Never
      automountServiceAccountToken: false
      enableServiceLinks: false
      securityContext: {pod_security}
      containers:
        - name: node
          image: {image}
          command:
            - sh
            - -c
            - JAX_PROCESS_ID=$JOB_COMPLETION_INDEX exec python3 /job/job.pyz
          env:
{env}
          resources:
            limits: {limits}
            requests: {requests}
          securityContext: {security}
          volumeMounts:
            - name: job
              mountPath: /job
              readOnly: true
{mounts}      volumes:
        - name: job
          {source}
{volumes}"""


def name_of(job: Job) -> str:
    """Return the objects' name, not the job's: that one has a Service where the job ran."""
    return f"{job.name[:_LONGEST].rstrip('-')}-again"


def write(
    job: Job, environment: Mapping[str, str], needed: list[str], bundle: bytes
) -> tuple[str, str]:
    """Return the YAML, and a phrase on what has to be done before it is applied."""
    name, spec, plan = name_of(job), job.spec, job.manifest["plan"]
    image = plan.get("image")
    fits = len(bundle) * 4 // 3 < _MOST
    source = {"configMap": {"name": name}}
    if not fits:
        source = {"persistentVolumeClaim": {"claimName": f"{name}-job"}}
    own = {
        "JAX_COORDINATOR_ADDRESS": f"{name}-0.{name}:{_PORT}",
        "JAX_NUM_PROCESSES": str(spec.nodes),
        "PYTHONUNBUFFERED": "1",
    }
    if plan["device"] == "cpu":
        own.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(plan["devices_per_node"]))
    variables: list[Mapping[str, object]] = [
        {"name": key, "value": value}
        for key, value in {"HOME": "/tmp", **environment, **own}.items()
    ]
    variables += [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": f"{name}-secrets", "key": key}}}
        for key in needed
    ]
    limits, requests = {}, {}
    if (device := devices.RESOURCES.get(plan["device"])) is not None:
        limits[device] = str(plan["devices_per_node"])
    if spec.memory:
        limits["memory"] = requests["memory"] = spec.memory
    if spec.cpu:
        requests["cpu"] = spec.cpu
    claims = [item.partition(":") for item in spec.volume]
    text = _JOB.format(
        name=name,
        nodes=spec.nodes,
        image=_value(image or _IMAGE),
        env="\n".join(f"            - {_value(item)}" for item in variables),
        limits=_value(limits),
        requests=_value(requests),
        pod_security=_value(podsecurity.OF_POD.json),
        security=_value(podsecurity.OF_CONTAINER.json),
        source=_value(source)[1:-1],
        mounts="".join(
            f"            - {_value({'name': f'data-{number}', 'mountPath': path})}\n"
            for number, (_, _, path) in enumerate(claims)
        ),
        volumes="".join(
            "        - "
            + _value({"name": f"data-{number}", "persistentVolumeClaim": {"claimName": claim}})
            + "\n"
            for number, (claim, _, _) in enumerate(claims)
        ),
    )
    if fits:
        text = _CONFIG.format(name=name, data=base64.b64encode(bundle).decode()) + text
    todo = [] if image else [f"replace {_IMAGE} with an image that has the requirements"]
    if needed:
        todo.append(f"create the Secret `{name}-secrets` with {', '.join(needed)}")
    if not fits:
        todo.append(f"put `job.pyz` on a volume, and make the claim `{name}-job` of it")
    return text, f"first {', and '.join(todo)}" if todo else "apply it"


def _value(value: object) -> str:
    """Return a value in YAML's flow style, which is JSON's."""
    return json.dumps(value)
