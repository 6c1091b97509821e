"""Start jobs as TrainJobs.

The order is: intent on disk, TrainJob, its Secrets with an owner reference to it. Pods can't start
without the Secret, and the Secret can't outlive the TrainJob. Whoever dies in between leaves what
the next follower finishes (`follow/follower.py`).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.backends.kubernetes.api import identity, kubeconfig
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.observed import condition
from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan, plan_of
from jupyter_jax_trainer.backends.kubernetes.connection import get_client, said_plainly
from jupyter_jax_trainer.backends.kubernetes.submit import (
    choosing,
    devices,
    launch,
    payload,
    podgroups,
    podsecurity,
    queues,
    restarts,
    runtimes,
    trainjob,
    wheels,
)
from jupyter_jax_trainer.errors import CaptureError, JaxTrainError, UsageError
from jupyter_jax_trainer.jobdir import files, layout
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, Plan
from jupyter_jax_trainer.jobdir.state import JobState
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import ENDED
from jupyter_jax_trainer.text import size
from jupyter_jax_trainer.trust import signing
from jupyter_jax_trainer.worker.durable import sync_folder

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture

_DRY_RUN = {"dryRun": "All", "fieldManager": trainjob.PREFIX}
_TO_APPLY = ("# `kubectl apply --server-side -f -` starts it; `kubectl delete -f -` removes it.",)
_TO_READ = (
    f"# Secrets are masked as {masking.HIDDEN}, so this can't be applied.",
    "# Add --show-secrets for YAML that can be applied: `kubectl apply --server-side -f -`.",
)
_ONCE_MORE = "# Apply it once more if Trainer does not know the runtime yet."
_LARGE_RESULT = 4 << 20


class KubernetesSubmission:
    """One submission to a namespace of a cluster with Kubeflow Trainer."""

    backend = "kubernetes"
    bundle_travels = True

    def __init__(self, spec: JobSpec) -> None:
        self._client = get_client(spec.context, spec.namespace)
        self.wheels: Mapping[str, bytes] = {}
        self._notes: list[str] = []
        self._mounts = True  # whether a volume can be patched into a job's runtime

    def plan(self, spec: JobSpec) -> KubernetesPlan:
        """Check a spec against the cluster and say what the job will get."""
        if spec.priority and not spec.queue:
            raise UsageError(
                "--priority is Kueue's, and needs a --queue.",
                "Without a queue the priority of pods is set in the runtime.",
            )
        with said_plainly(self._client):
            version = runtimes.check_trainer(self._client)
            runtime, chosen = choosing.runtime(self._client, spec)
            podgroups.check(self._client, runtime)
            device = devices.kind(spec) or runtimes.device_of(runtime)
            nodes = devices.list_nodes(self._client) if device in devices.RESOURCES else None
            secret_keys = {name: self._secret_keys(name) for name in spec.env_from_secret}
            around = self._namespace_labels()
            restricted = podsecurity.is_restricted(self._client, around)
            lacking = patched = runtimes.patches(
                runtime, restricted=bool(restricted), device=device
            )
            if spec.queue:
                kueue = queues.check(self._client, spec)
                self._mounts = kueue.keeps_patches
                patched = _patches_in_queue(kueue, spec, lacking, runtime, around or {})
            if spec.max_restarts:
                restarts.check_rights(self._client)
        container = runtimes.container(runtime)
        own = container.get("resources") or {}
        placed = devices.place(spec, device, own, runtimes.node_labels(runtime), nodes)
        labels = runtime["metadata"].get("labels") or {}
        max_name = trainjob.max_name(runtimes.replicated_jobs(runtime), spec.nodes)
        if spec.name and len(spec.name) > max_name:
            raise UsageError(
                f"The name {spec.name} has {len(spec.name)} characters, and with this runtime and "
                f"{spec.nodes} nodes it may have {max_name}.",
                "The names of the pods are made from it, and may have 63 characters.",
            )
        python = None if spec.image else labels.get(f"{trainjob.PREFIX}/python")
        taken = wheels.gather(
            spec.package,
            python or runtimes.PYTHON,
            payload.room(spec, self._mounts),
            from_pods=spec.package_from_pods,
        )
        if taken.pip and not spec.image and f"{trainjob.PREFIX}/device" in labels:
            raise UsageError(
                f"--package {' '.join(taken.pip)} can't be sent along: {taken.problem}.",
                "The image of this runtime has no pip. A --store takes wheels of any size; or name "
                "an --image that has the packages.",
            )
        self.wheels = taken.files
        self._notes = [
            note
            for note in (
                runtimes.deprecation(runtime),
                *placed.notes,
                taken.note,
                *masking.environment_notes(spec.env, secrets=True),
            )
            if note
        ]
        tolerated = patched.get("tolerations", False)
        if lacking.get("tolerations") and not tolerated:
            self._notes.append(
                f"The runtime {runtime['metadata']['name']} does not tolerate the taint "
                f"{runtimes.taint(runtime, device)}, and in a queue of this Kueue that can't be "
                "added: nodes that have it will not take the job, unless the cluster adds it"
            )
        return {
            "runtime": runtime["metadata"]["name"],
            "runtime_kind": runtime["kind"],
            "runs_once": bool(spec.max_restarts) or runtimes.runs_once(runtime),
            "own_runtime": restarts.spec_from(runtime, spec.max_restarts)
            if spec.max_restarts
            else None,
            "device": device,
            "devices_per_node": placed.per_node,
            "selector": placed.selector,
            "resources": own,
            "python": python,
            "jax": None if spec.image else labels.get(f"{trainjob.PREFIX}/jax"),
            "image": spec.image or container.get("image"),
            "trainer": version,
            "server": self._client.server,
            "context": self._client.context,
            "namespace": self._client.namespace,
            "cluster": self._client.identity,
            "kubeconfig": kubeconfig.paths(),
            "patches": patched,
            "loose": podsecurity.lacking(runtime) if patched["restricted"] else {},
            "mounts": self._mounts,
            "tolerations": runtimes.tolerations(runtime, device) if tolerated else [],
            "shared": runtimes.shared_folder(runtime),
            "pip": taken.pip,
            "secret_keys": secret_keys,
            "max_name": max_name,
            "note": f"on Kubernetes, namespace {self._client.namespace}, runtime "
            f"{runtime['metadata']['name']}{chosen}",
        }

    def check_size(self, total: int, spec: JobSpec) -> None:
        """Refuse what won't fit through."""
        payload.check_size(total, spec, self._mounts)

    def check_capture(self, capture: Capture, spec: JobSpec, plan: Plan) -> None:
        """Refuse objects that the runtime's Python can't read; note what may be too large."""
        made = cast(KubernetesPlan, plan)
        if capture.python_bound and made["python"] not in (None, runtimes.PYTHON):
            raise CaptureError(
                f"{', '.join(capture.python_bound)} came from Python {runtimes.PYTHON}, but the "
                f"runtime {plan['runtime']} has Python {made['python']}, and functions and classes "
                "can't be moved between the two.",
                "Choose a --runtime or --image with the same Python, or define them inside the "
                "cell.",
            )
        capture.notes += self._notes
        large = [
            f"{sent.name} ({size(sent.size)})"
            for sent in capture.sent
            if sent.name in spec.out and sent.size > _LARGE_RESULT
        ]
        if large and not spec.store:
            capture.notes.append(
                f"What --out brings back may be large: {', '.join(large)}. Up to "
                f"{size(_LARGE_RESULT)} travel with the log; more is fetched through the API at "
                "the end, for 10 minutes. With --store it stays there"
            )

    def is_free(self, name: str) -> bool:
        """Return whether no TrainJob has this name; `UsageError` where one has it that runs."""
        with said_plainly(self._client):
            try:
                found = self._client.request("GET", self._client.trainer("trainjobs", name))
            except ApiError as error:
                if error.status == 404:
                    return True
                raise
        ended = condition(found, "Complete", "Failed")
        if not ended and not launch.marked(found) and not _has_ended_here(found):
            raise UsageError(
                f"There is an active TrainJob {name} in namespace {self._client.namespace}.",
                f"`%jaxtrain attach {name}` follows it; or choose another --name.",
            )
        return False

    def dry_run(
        self,
        spec: JobSpec,
        plan: Plan,
        capture: Capture,
        manifest: Manifest,
        write: Callable[[Path], str],
    ) -> str:
        """Return the YAML of what would be created, after the cluster itself has looked at it.

        What may be secret is masked, the payload of the Secrets too: a notebook keeps what it
        shows. With ``--show-secrets`` it is what kubectl can apply.
        """
        made = cast(KubernetesPlan, plan)
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(folder) / "bundle.pyz"
            manifest["digest"] = write(bundle)
            packed, documents = launch.manifests(bundle, manifest, spec, made)
        job, own = documents[0], restarts.runtime_of(manifest)
        with said_plainly(self._client):
            if own is not None:
                path = self._client.trainer("trainingruntimes")
                self._client.request("POST", path, query=_DRY_RUN, body=own)
                documents.insert(0, own)
                # It isn't there yet: the cluster looks at the job with what it is made from.
                job = trainjob.with_runtime(job, made["runtime_kind"], made["runtime"])
            path = self._client.trainer("trainjobs")
            self._client.request("POST", path, query=_DRY_RUN, body=job)
        lines = [f"# {s.name}  {s.kind}  {s.type}  {size(s.size)}".rstrip() for s in capture.sent]
        lines += [f"# {name}  module file" for name in capture.modules]
        if packed.upload:
            target = packed.upload if spec.show_secrets else masking.text(packed.upload)
            lines.append(f"# The bundle itself would be copied to {target}")
        head = "\n".join(
            [
                f"# Nothing was started. Sent with the job, {size(capture.total)} in all:",
                *lines,
                *(_TO_APPLY if spec.show_secrets else _TO_READ),
                *([] if own is None else [_ONCE_MORE]),
                "",
            ]
        )
        if spec.show_secrets:
            return head + trainjob.to_yaml(documents)
        shown = [masking.manifest(document).item for document in documents]
        return head + trainjob.to_yaml(shown, exact=False)

    def start(self, directory: JobDir, lock: int, manifest: Manifest) -> None:
        """Create the TrainJob and its Secrets, and see that there is a follower.

        What was begun and can neither be finished nor taken back now is left to the follower: the
        directory stays, with a mark that the job is to be cancelled.
        """
        spec = JobSpec.from_json(manifest["spec"])
        plan = plan_of(manifest)
        signing.ensure_key()  # a damaged one is said before anything starts
        packed, documents = launch.manifests(directory.bundle, manifest, spec, plan)
        manifest["frame_key"] = packed.key
        # The pods go on when this machine loses power, and their words are worth nothing then
        # without the key.
        files.write_json(directory.manifest, manifest, durable=True)
        sync_folder(directory.path.parent)
        state = launch.submitted_state(spec.nodes)
        files.write_json(directory.state, state)
        launch.start_follower(plan)
        try:
            if packed.upload:
                payload.upload(directory.bundle, packed.upload, manifest["uid"])
            with said_plainly(self._client):
                own = restarts.runtime_of(manifest)
                patience = timeouts.SUBMIT.seconds
                created = launch.create(self._client, documents, patience, directory.cancel, own)
            with contextlib.suppress(OSError):  # else the follower notes it at first sight
                identity.note(directory, created["metadata"]["uid"])
            # From now on nothing is missing that a follower would have to create.
            with contextlib.suppress(OSError):
                submitted: JobState = {**state, "reason": None, "submitting": False}
                files.write_json(directory.state, submitted)
        except BaseException:
            if packed.upload:
                payload.remove(packed.upload, manifest["uid"])
            raise

    def _secret_keys(self, name: str) -> list[str]:
        try:
            found = self._client.request("GET", self._client.core("secrets", name))
        except ApiError as error:
            if error.status == 404:
                raise UsageError(
                    f"There is no Secret {name} in namespace {self._client.namespace} "
                    "(--env-from-secret).",
                    f"kubectl create secret generic {name} --from-literal=KEY=VALUE",
                ) from None
            raise
        return sorted(found.get("data") or {})

    def _namespace_labels(self) -> dict[str, str] | None:
        """Return the labels of the namespace; None where it may not be read."""
        try:
            found = self._client.request("GET", f"/api/v1/namespaces/{self._client.namespace}")
        except ApiError:
            return None
        return dict(found["metadata"].get("labels") or {})


def _patches_in_queue(
    kueue: queues.Kueue,
    spec: JobSpec,
    patches: dict[str, bool],
    runtime: Mapping[str, Any],
    around: Mapping[str, str],
) -> dict[str, bool]:
    """Refuse what this cluster's Kueue would drop."""
    meshed = around.get("istio-injection") == "enabled" or "istio.io/rev" in around
    name = str(runtime["metadata"]["name"])
    return queues.allowed_patches(kueue, spec, patches, name, meshed)


def _has_ended_here(found: Mapping[str, Any]) -> bool:
    """Return whether a TrainJob is one whose end we know before the cluster has worked it out."""
    directory = layout.with_uid(launch.uid_of(found))
    if directory is None:
        return False
    with contextlib.suppress(JaxTrainError):
        state = directory.read_state()
        ended = state is not None and state["state"] in ENDED
        return ended and identity.is_jobs(directory, directory.read_manifest(), found)
    return False
