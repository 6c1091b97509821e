"""From a job's options to a TrainJob: plain dictionaries, never text."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.backends.kubernetes.api.marks import ABOUT as ABOUT
from jupyter_jax_trainer.backends.kubernetes.api.marks import FAILED as FAILED
from jupyter_jax_trainer.backends.kubernetes.api.marks import JOB_LABEL as JOB_LABEL
from jupyter_jax_trainer.backends.kubernetes.api.marks import PREFIX as PREFIX
from jupyter_jax_trainer.backends.kubernetes.api.marks import UID as UID
from jupyter_jax_trainer.backends.kubernetes.api.marks import UID_FORM as UID_FORM
from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan
from jupyter_jax_trainer.backends.kubernetes.submit import devices, payload, podsecurity, queues
from jupyter_jax_trainer.backends.kubernetes.submit.payload import Payload
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec, masked

API = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"  # by it Trainer finds a runtime's parts
CONVERTED = f"{PREFIX}/converted"  # a label of runtimes that `jaxtrain convert` makes
_MANAGER = f"{PREFIX}/submit"
_SCRATCH = "/jaxtrain-scratch"
_MESH = "sidecar.istio.io/inject"  # a mesh breaks the rendezvous
_ABOUT = ("format", "created", "sent", "returns", "digest", "python", "package")
_ABOUT_PLAN = ("runtime", "runtime_kind", "runs_once", "device", "devices_per_node", "note")
_MAX_ABOUT = 100_000  # characters; annotations have 256 KiB together


def max_name(replicated_jobs: list[str], nodes: int) -> int:
    """Return how long a job's name may be, so that the longest pod name has 63 characters."""
    longest = max(
        len(f"-{name}-0-{nodes - 1 if name == 'node' else 0}-xxxxx") for name in replicated_jobs
    )
    return 63 - longest


def build(
    manifest: Manifest,
    spec: JobSpec,
    plan: KubernetesPlan,
    packed: Payload,
    secret: str,
) -> dict[str, Any]:
    """Make the TrainJob of a job.

    Parameters
    ----------
    manifest
        The job's manifest: name, uid, digest.
    spec, plan
        What was asked for, and what the backend made of it.
    packed
        The bundle.
    secret
        The name of its (first) Secret.
    """
    trainer: dict[str, Any] = {
        "numNodes": spec.nodes,
        "command": payload.COMMAND,
        "args": [PREFIX],  # the shell's name for itself; without it the runtime's would stay
        "env": _environment(manifest, spec, plan, packed),
    }
    if spec.image:
        trainer["image"] = spec.image
    if resources := _resources(spec, plan):
        trainer["resourcesPerNode"] = resources
    kind, runtime = plan["runtime_kind"], plan["runtime"]
    if plan.get("own_runtime"):
        kind, runtime = "TrainingRuntime", own_name(manifest)
    body: dict[str, Any] = {
        "runtimeRef": {"apiGroup": API.split("/")[0], "kind": kind, "name": runtime},
        "trainer": trainer,
    }
    if initializer := _initializer(spec):
        body["initializer"] = initializer
    if spec.timeout:
        body["activeDeadlineSeconds"] = max(1, round(spec.timeout))
    if patch := _patch(spec, plan, packed, secret):
        body["runtimePatches"] = [patch]
    labels = {JOB_LABEL: manifest["name"]}
    if spec.queue:
        labels[queues.QUEUE] = spec.queue
    if spec.priority:
        labels["kueue.x-k8s.io/priority-class"] = spec.priority
    return {
        "apiVersion": API,
        "kind": "TrainJob",
        "metadata": {
            "name": manifest["name"],
            "namespace": plan["namespace"],
            "labels": labels,
            "annotations": {UID: manifest["uid"], ABOUT: _about(manifest)},
        },
        "spec": body,
    }


def with_runtime(job: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    """Return a TrainJob with another runtime."""
    reference = {**job["spec"]["runtimeRef"], "kind": kind, "name": name}
    return {**job, "spec": {**job["spec"], "runtimeRef": reference}}


def own_name(manifest: Manifest) -> str:
    """Return the name of what belongs to a job alone: its Secret, its runtime."""
    return f"{manifest['name']}-{manifest['uid'][:8]}"


def own_labels(manifest: Manifest) -> dict[str, str]:
    """Return the labels of what belongs to a job alone."""
    return {JOB_LABEL: manifest["name"], UID: manifest["uid"]}


def owner(trainjob: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference that makes the cluster delete a Secret together with its TrainJob."""
    return {
        "apiVersion": API,
        "kind": "TrainJob",
        "name": trainjob["metadata"]["name"],
        "uid": trainjob["metadata"]["uid"],
    }


def belongs(thing: Mapping[str, Any], own: str, trainjob_uid: str | None) -> bool:
    """Return whether a Secret or a runtime is a job's alone: by its owner, or else by our label.

    Our id of an attached job is what its TrainJob claims, so the label of something that another
    TrainJob owns proves nothing. Nobody owns what was applied from a dry run's YAML, or is so new
    that its TrainJob is not there yet. Version 0.1 wrote our id into an annotation of runtimes.

    Parameters
    ----------
    own
        Our own id of the job.
    trainjob_uid
        The uid of its TrainJob, where that is known.
    """
    metadata = thing.get("metadata") or {}
    ids = [(metadata.get(kind) or {}).get(UID) for kind in ("labels", "annotations")]
    owners = {one.get("uid") for one in metadata.get("ownerReferences") or []}
    return trainjob_uid in owners if owners else own in ids


def to_yaml(documents: list[dict[str, Any]], *, exact: bool = True) -> str:
    """Write objects as YAML: `exact` for `kubectl apply --server-side`, else to be read."""
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        def represent_str(self, text: str) -> Any:
            style = "|" if "\n" in text else None
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(str, Dumper.represent_str)
    Dumper.add_multi_representer(str, Dumper.represent_str)  # messages, which are a kind of str
    texts = [
        yaml.dump(d, Dumper=Dumper, sort_keys=False, width=100, allow_unicode=not exact)
        for d in documents
    ]
    return "---\n".join(texts)


def _about(manifest: Manifest) -> str:
    """Return what another machine needs to show the job; nothing of this machine is in it."""
    spec = JobSpec.from_json(manifest["spec"])
    fields: Mapping[str, object] = manifest
    plan: Mapping[str, object] = manifest["plan"]
    about = {
        **{name: fields[name] for name in _ABOUT},
        # Of variables the other machine needs no more than it shows.
        "spec": {"nodes": spec.nodes, **spec.given(), "env": dict(masked(spec).env)},
        "plan": {name: plan[name] for name in _ABOUT_PLAN},
    }
    if maker := manifest.get("maker"):
        about["maker"] = maker
    text = json.dumps(about)
    return text if len(text) <= _MAX_ABOUT else json.dumps({**about, "sent": []})


def _environment(
    manifest: Manifest, spec: JobSpec, plan: KubernetesPlan, packed: Payload
) -> list[dict[str, Any]]:
    own = {
        "JAXTRAIN_JOB": manifest["name"],
        "JAXTRAIN_JOB_UID": manifest["uid"],
        "JAX_TRACEBACK_FILTERING": "remove_frames",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if plan["device"] == "cpu":
        own["JAX_PLATFORMS"] = "cpu"
        own["JAX_NUM_CPU_DEVICES"] = str(plan["devices_per_node"])
    else:
        own["JAXTRAIN_DEVICE"] = plan["device"]
    if plan["patches"]["scratch"]:
        own["JAXTRAIN_SCRATCH"] = own["TMPDIR"] = _SCRATCH
    if spec.max_restarts:
        own["JAXTRAIN_MAX_RESTARTS"] = str(spec.max_restarts)
    if folder := _checkpoints(spec, plan):
        own["JAXTRAIN_CHECKPOINT_DIR"] = f"{folder}/{manifest['name']}/checkpoints"
    if spec.store:
        own["JAXTRAIN_RESULT_STORE"] = spec.store
    # Where nothing is set, the runtime may say it; what is written here would hide that.
    if patience := timeouts.RENDEZVOUS.given(os.environ):
        own[timeouts.RENDEZVOUS.variable] = str(patience)
    if plan["pip"]:
        own["JAXTRAIN_PIP"] = json.dumps(plan["pip"])
    own.update(spec.env)  # the user's word is the last
    # An empty value is left out, as Go does it: Kueue writes a TrainJob back, and what then differs
    # from what it was is refused.
    plain: list[dict[str, Any]] = [
        {"name": name, **({"value": value} if value else {})} for name, value in own.items()
    ]
    taken = set(own)
    for secret, keys in plan["secret_keys"].items():
        for key in keys:
            if key not in taken:
                taken.add(key)
                source = {"secretKeyRef": {"name": secret, "key": key}}
                plain.append({"name": key, "valueFrom": source})
    return [*plain, *packed.env]


def _checkpoints(spec: JobSpec, plan: KubernetesPlan) -> str | None:
    """Return a folder that all pods see and that outlives them; None where there is none."""
    if spec.volume:
        return spec.volume[0].partition(":")[2].rstrip("/") + "/jaxtrain"
    shared = spec.store.rstrip("/") if spec.store and "://" not in spec.store else None
    if shared := shared or plan.get("shared"):  # which other namespaces may see as well
        return f"{shared}/jaxtrain/{plan['namespace']}"
    return None


def _resources(spec: JobSpec, plan: KubernetesPlan) -> dict[str, Any]:
    """Return what each node gets, the runtime's own amounts with it: Trainer replaces them all."""
    own = plan.get("resources") or {}
    asked: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    if spec.cpu:
        asked["requests"]["cpu"] = spec.cpu
    if spec.memory:
        # What a process may use has to be there for it, or it is killed when others need it.
        asked["requests"]["memory"] = asked["limits"]["memory"] = spec.memory
    if resource := devices.resource(plan["device"], own):
        amount = str(plan["devices_per_node"])
        asked["requests"][resource] = asked["limits"][resource] = amount
    if not any(asked.values()):
        return {}
    found = {name: {**(own.get(name) or {}), **values} for name, values in asked.items()}
    if spec.cpu and "cpu" in found["limits"]:
        found["limits"]["cpu"] = spec.cpu  # a request may not be more than the limit
    return {name: values for name, values in found.items() if values}


def _initializer(spec: JobSpec) -> dict[str, Any]:
    found = {"dataset": spec.dataset, "model": spec.model}
    return {name: {"storageUri": uri} for name, uri in found.items() if uri}


def _patch(
    spec: JobSpec, plan: KubernetesPlan, packed: Payload, secret: str
) -> dict[str, Any] | None:
    """Return what is changed in the runtime for this job; None where nothing is.

    Kueue drops patches from TrainJobs, so there must be none where nothing needs them.
    """
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    if packed.mounted:
        projected, mount = payload.volume(secret, len(packed.data))
        volumes.append(projected)
        mounts.append(mount)
    if plan["patches"]["scratch"]:
        volumes.append({"name": "jaxtrain-scratch", "emptyDir": {}})
        mounts.append({"name": "jaxtrain-scratch", "mountPath": _SCRATCH})
    for number, item in enumerate(spec.volume):
        claim, _, path = item.partition(":")
        name = f"jaxtrain-volume-{number}"
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": name, "mountPath": path})
    pod: dict[str, Any] = {}
    container: dict[str, Any] = {}
    if volumes:
        pod["volumes"] = volumes
        container["volumeMounts"] = mounts
    if spec.service_account:
        pod["serviceAccountName"] = spec.service_account
    if selector := plan.get("selector"):
        pod["nodeSelector"] = selector
    if tolerations := plan.get("tolerations"):
        pod["tolerations"] = tolerations
    if container:
        pod["containers"] = [{"name": "node", **container}]
    pods = {"node": pod}
    # A plan of 0.1 has no list of them, and means this one.
    loosest = {"node": {"containers": ["node"]}} if plan["patches"]["restricted"] else {}
    for name, loose in plan.get("loose", loosest).items():
        _restrict(pods.setdefault(name, {}), loose)
    templates: dict[str, dict[str, Any]] = {
        name: {"spec": one} for name, one in pods.items() if one
    }
    if plan["patches"]["mesh"]:
        labelled = templates.setdefault("node", {})
        labelled["metadata"] = {"labels": {_MESH: "false"}, "annotations": {_MESH: "false"}}
    if not templates:
        return None
    jobs = [
        {"name": name, "template": {"spec": {"template": template}}}
        for name, template in templates.items()
    ]
    return {
        "manager": _MANAGER,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
    }


def _restrict(pod: dict[str, Any], loose: Mapping[str, list[str]]) -> None:
    """Have a pod and its containers meet PodSecurity ``restricted``."""
    pod["securityContext"] = podsecurity.OF_POD
    for kind, names in loose.items():
        patched = {one["name"]: one for one in pod.get(kind, [])}
        for name in names:
            patched.setdefault(name, {"name": name})["securityContext"] = podsecurity.OF_CONTAINER
        if patched:
            pod[kind] = [*patched.values()]


def shown_yaml(item: Mapping[str, Any]) -> str:
    """Write an object as YAML, without its managed fields and what may be secret."""
    metadata = {
        name: value
        for name, value in (item.get("metadata") or {}).items()
        if name != "managedFields"
    }
    shown = masking.manifest({**item, **({"metadata": metadata} if "metadata" in item else {})})
    note = f"# {say.SECRETS_MASKED(masked=masking.HIDDEN)}\n" if shown.hidden else ""
    return note + to_yaml([shown.item], exact=False)
