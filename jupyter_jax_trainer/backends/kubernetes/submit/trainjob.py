"""From a job's options to a TrainJob: made as an object, never as text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.backends.kubernetes.api.marks import ABOUT as ABOUT
from jupyter_jax_trainer.backends.kubernetes.api.marks import ABOUT_FORMAT
from jupyter_jax_trainer.backends.kubernetes.api.marks import FAILED as FAILED
from jupyter_jax_trainer.backends.kubernetes.api.marks import JOB_LABEL as JOB_LABEL
from jupyter_jax_trainer.backends.kubernetes.api.marks import PREFIX as PREFIX
from jupyter_jax_trainer.backends.kubernetes.api.marks import UID as UID
from jupyter_jax_trainer.backends.kubernetes.api.marks import UID_FORM as UID_FORM
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    TRAINER,
    ApiObject,
    EnvVar,
    Mount,
    OwnerRef,
    Part,
    Resources,
    TrainJob,
    Volume,
)
from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan
from jupyter_jax_trainer.backends.kubernetes.submit import (
    compilecache,
    devices,
    packagecache,
    payload,
    podsecurity,
    queues,
)
from jupyter_jax_trainer.backends.kubernetes.submit.payload import Payload
from jupyter_jax_trainer.jobdir import session
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec, masked

API = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"  # by it Trainer finds a runtime's parts
CONVERTED = f"{PREFIX}/converted"  # a label of runtimes that `jaxtrain convert` makes
_MANAGER = f"{PREFIX}/submit"
_SCRATCH = "/jaxtrain-scratch"
_MESH = "sidecar.istio.io/inject"  # a mesh breaks the rendezvous
_ABOUT = ("created", "sent", "returns", "digest", "python", "package")
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
) -> TrainJob:
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
        "env": [one.json for one in _environment(manifest, spec, plan, packed)],
    }
    if spec.image:
        trainer["image"] = spec.image
    if resources := _resources(spec, plan).json:
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
        body["runtimePatches"] = [patch.json]
    labels = {JOB_LABEL: manifest["name"]}
    if spec.queue:
        labels[queues.QUEUE] = spec.queue
    if spec.priority:
        labels["kueue.x-k8s.io/priority-class"] = spec.priority
    return TrainJob(
        {
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
    )


def with_runtime(job: TrainJob, kind: str, name: str) -> TrainJob:
    """Return a TrainJob with another runtime."""
    reference = {**job.runtime.json, "kind": kind, "name": name}
    return TrainJob({**job.json, "spec": {**job.spec.json, "runtimeRef": reference}})


def own_name(manifest: Manifest) -> str:
    """Return the name of what belongs to a job alone: its Secret, its runtime."""
    return f"{manifest['name']}-{manifest['uid'][:8]}"


def own_labels(manifest: Manifest) -> dict[str, str]:
    """Return the labels of what belongs to a job alone."""
    return {JOB_LABEL: manifest["name"], UID: manifest["uid"]}


def owner(trainjob: TrainJob) -> OwnerRef:
    """Return the reference that makes the cluster delete a Secret together with its TrainJob."""
    return OwnerRef(
        {"apiVersion": API, "kind": "TrainJob", "name": trainjob.name, "uid": trainjob.uid}
    )


def belongs(thing: ApiObject, own: str, trainjob_uid: str | None) -> bool:
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
    owners = {one.uid for one in thing.owners}
    ids = (thing.labels.get(UID), thing.annotations.get(UID))
    return trainjob_uid in owners if owners else own in ids


def to_yaml(documents: Iterable[ApiObject], *, exact: bool = True) -> str:
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
        yaml.dump(one.json, Dumper=Dumper, sort_keys=False, width=100, allow_unicode=not exact)
        for one in documents
    ]
    return "---\n".join(texts)


def _about(manifest: Manifest) -> str:
    """Return what another machine needs to show the job; nothing of this machine is in it."""
    spec = JobSpec.from_json(manifest["spec"])
    fields: Mapping[str, object] = manifest
    plan: Mapping[str, object] = manifest["plan"]
    about = {
        "format": ABOUT_FORMAT,
        **{name: fields[name] for name in _ABOUT},
        # The other machine only shows variables, so they are masked.
        "spec": {"nodes": spec.nodes, **spec.given(), "env": dict(masked(spec).env)},
        "plan": {name: plan[name] for name in _ABOUT_PLAN},
    }
    if maker := manifest.get("maker"):
        about["maker"] = maker
    text = json.dumps(about)
    return text if len(text) <= _MAX_ABOUT else json.dumps({**about, "sent": []})


def _environment(
    manifest: Manifest, spec: JobSpec, plan: KubernetesPlan, packed: Payload
) -> list[EnvVar]:
    own = {
        "JAXTRAIN_JOB": manifest["name"],
        "JAXTRAIN_JOB_UID": manifest["uid"],
        "JAX_TRACEBACK_FILTERING": "quiet_remove_frames",
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
    if spec.session is not None:
        own["JAXTRAIN_IDLE"] = str(session.first(spec.idle)["idle"])
    if folder := _checkpoints(spec, plan):
        own["JAXTRAIN_CHECKPOINT_DIR"] = f"{folder}/{manifest['name']}/checkpoints"
    if spec.store and spec.session is None:  # cells have results of their own
        own["JAXTRAIN_RESULT_STORE"] = spec.store
    # Where nothing is set, the runtime may say it; what is written here would hide that.
    if patience := timeouts.RENDEZVOUS.given(os.environ):
        own[timeouts.RENDEZVOUS.variable] = str(patience)
    if plan["pip"]:
        own["JAXTRAIN_PIP"] = json.dumps(plan["pip"])
    if plan.get("packages"):
        own.update(packagecache.environment(spec, plan))
    own.update(compilecache.environment(spec, plan))
    own.update(spec.env)  # the user's word is the last
    found = [payload.variable(name, value) for name, value in own.items()]
    taken = set(own)
    for secret, keys in plan["secret_keys"].items():
        for key in keys:
            if key not in taken:
                taken.add(key)
                found.append(payload.from_secret(key, secret, key))
    return [*found, *packed.env]


def _checkpoints(spec: JobSpec, plan: KubernetesPlan) -> str | None:
    """Return a folder that all pods see and that outlives them; None where there is none."""
    if spec.volume:
        return spec.volume[0].partition(":")[2].rstrip("/") + "/jaxtrain"
    shared = spec.store.rstrip("/") if spec.store and "://" not in spec.store else None
    if shared := shared or plan.get("shared"):  # which other namespaces may see as well
        return f"{shared}/jaxtrain/{plan['namespace']}"
    return None


def _resources(spec: JobSpec, plan: KubernetesPlan) -> Resources:
    """Return what each node gets, the runtime's own amounts with it: Trainer replaces them all."""
    own = Resources(plan.get("resources") or {})
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
        return Resources({})
    found = {
        "requests": {**own.requests, **asked["requests"]},
        "limits": {**own.limits, **asked["limits"]},
    }
    if spec.cpu and "cpu" in found["limits"]:
        found["limits"]["cpu"] = spec.cpu  # a request may not be more than the limit
    return Resources({name: values for name, values in found.items() if values})


def _initializer(spec: JobSpec) -> dict[str, dict[str, str]]:
    found = {"dataset": spec.dataset, "model": spec.model}
    return {name: {"storageUri": uri} for name, uri in found.items() if uri}


def _volumes(
    spec: JobSpec, plan: KubernetesPlan, packed: Payload, secret: str
) -> list[tuple[Volume, Mount]]:
    """Return the volumes that a job brings along, each with its mount."""
    found: list[tuple[Volume, Mount]] = []
    if packed.mounted:
        found.append(payload.volume(secret, len(packed.data)))
    if plan["patches"]["scratch"]:
        scratch = Volume({"name": "jaxtrain-scratch", "emptyDir": {}})
        found.append((scratch, Mount({"name": scratch.name, "mountPath": _SCRATCH})))
    for number, item in enumerate(spec.volume):
        claim, _, path = item.partition(":")
        name = f"jaxtrain-volume-{number}"
        claimed = Volume({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        found.append((claimed, Mount({"name": name, "mountPath": path})))
    return found


def _patch(spec: JobSpec, plan: KubernetesPlan, packed: Payload, secret: str) -> Part | None:
    """Return what is changed in the runtime for this job; None where nothing is.

    Kueue up to 0.16 drops patches from TrainJobs: in its queues nothing may need one.
    """
    pod: dict[str, Any] = {}
    if volumes := _volumes(spec, plan, packed, secret):
        pod["volumes"] = [volume.json for volume, _ in volumes]
    if spec.service_account:
        pod["serviceAccountName"] = spec.service_account
    if selector := plan.get("selector"):
        pod["nodeSelector"] = selector
    if tolerations := plan.get("tolerations"):
        pod["tolerations"] = tolerations
    if volumes:
        mounts = [mount.json for _, mount in volumes]
        pod["containers"] = [{"name": TRAINER, "volumeMounts": mounts}]
    pods = {TRAINER: pod}
    # A plan of 0.1 has no list of them, and means this one.
    loosest = {TRAINER: {"containers": [TRAINER]}} if plan["patches"]["restricted"] else {}
    for name, loose in plan.get("loose", loosest).items():
        _restrict(pods.setdefault(name, {}), loose)
    templates: dict[str, dict[str, Any]] = {
        name: {"spec": one} for name, one in pods.items() if one
    }
    if plan["patches"]["mesh"]:
        labelled = templates.setdefault(TRAINER, {})
        labelled["metadata"] = {"labels": {_MESH: "false"}, "annotations": {_MESH: "false"}}
    if not templates:
        return None
    jobs = [
        {"name": name, "template": {"spec": {"template": template}}}
        for name, template in templates.items()
    ]
    return Part(
        {
            "manager": _MANAGER,
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
        }
    )


def _restrict(pod: dict[str, Any], loose: Mapping[str, list[str]]) -> None:
    """Have a pod and its containers meet PodSecurity ``restricted``."""
    pod["securityContext"] = podsecurity.OF_POD.json
    secure = podsecurity.OF_CONTAINER.json
    for kind, names in loose.items():
        patched = {one["name"]: one for one in pod.get(kind, [])}
        for name in names:
            patched.setdefault(name, {"name": name})["securityContext"] = secure
        if patched:
            pod[kind] = [*patched.values()]


def shown_yaml(item: ApiObject) -> str:
    """Write an object as YAML, without its managed fields and what may be secret."""
    told = {name: value for name, value in item.metadata.json.items() if name != "managedFields"}
    shown = masking.manifest({**item.json, **({"metadata": told} if item.metadata.json else {})})
    note = f"# {say.SECRETS_MASKED(masked=masking.HIDDEN)}\n" if shown.hidden else ""
    return note + to_yaml([ApiObject(shown.item)], exact=False)
