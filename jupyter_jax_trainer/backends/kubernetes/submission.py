"""Start jobs as TrainJobs.

The order is: intent on disk, TrainJob, its Secrets with an owner reference to it. Pods can't start
without the Secret, and the Secret can't outlive the TrainJob. Whoever dies in between leaves what
the next follower finishes (`follow/follower.py`).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.backends import idle
from jupyter_jax_trainer.backends.kubernetes.api import identity, kubeconfig, rights
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    ApiObject,
    Secret,
    TrainingRuntime,
    TrainJob,
)
from jupyter_jax_trainer.backends.kubernetes.api.plan import KubernetesPlan, plan_of
from jupyter_jax_trainer.backends.kubernetes.connection import get_client, said_plainly
from jupyter_jax_trainer.backends.kubernetes.submit import (
    choosing,
    devices,
    images,
    launch,
    packagecache,
    payload,
    podgroups,
    podsecurity,
    queues,
    restarts,
    runtimes,
    trainjob,
    wheels,
)
from jupyter_jax_trainer.capture import Sent, environment, offering
from jupyter_jax_trainer.capture.environment import Image
from jupyter_jax_trainer.errors import CaptureError, JaxTrainError, UsageError
from jupyter_jax_trainer.jobdir import files, layout
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest, Plan
from jupyter_jax_trainer.jobdir.state import JobState
from jupyter_jax_trainer.messages import submit as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import ENDED
from jupyter_jax_trainer.text import joined, size
from jupyter_jax_trainer.trust import signing
from jupyter_jax_trainer.worker.durable import sync_folder

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture

_DRY_RUN = {"dryRun": "All", "fieldManager": trainjob.PREFIX}

_LARGE_RESULT = 4 << 20
_FILES_SHOWN = 20  # of --files, in a dry run


class KubernetesSubmission:
    """One submission to a namespace of a cluster with Kubeflow Trainer."""

    backend = "kubernetes"
    bundle_travels = True

    def __init__(self, spec: JobSpec) -> None:
        self._client = get_client(spec.context, spec.namespace)
        self.wheels: Mapping[str, bytes] = {}
        self._notes: list[str] = []
        self._image: Image | None = None
        self._sends_later: bool | None = None
        self._mounts = True  # whether a volume can be patched into a job's runtime

    def plan(self, spec: JobSpec) -> KubernetesPlan:
        """Check a spec against the cluster and say what the job will get."""
        if spec.priority and not spec.queue:
            raise UsageError(say.PRIORITY_NEEDS_QUEUE())
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
        own, labels = runtime.container.resources, runtime.labels
        placed = devices.place(spec, device, own, runtimes.node_labels(runtime), nodes)
        max_name = trainjob.max_name(runtimes.replicated_jobs(runtime), spec.nodes)
        if spec.name and len(spec.name) > max_name:
            raise UsageError(
                say.NAME_TOO_LONG(
                    name=spec.name, length=len(spec.name), most=max_name, nodes=spec.nodes
                )
            )
        image = spec.image or runtime.container.image
        known = images.known(runtime, image) or images.remembered(image)
        python = None if spec.image else labels.get(f"{trainjob.PREFIX}/python")
        if python is None and known is not None:
            python = known.platform.python
        taken = wheels.gather(
            spec.package,
            python or runtimes.PYTHON,
            payload.room(spec, self._mounts, self._has_channel),
            from_pods=spec.package_from_pods,
        )
        if taken.pip and not spec.image and f"{trainjob.PREFIX}/device" in labels:
            raise UsageError(say.NO_PIP(packages=" ".join(taken.pip), problem=taken.problem))
        self.wheels = taken.files
        self._image = known
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
        name, tolerated = runtime.name, patched.get("tolerations", False)
        tolerations = runtimes.tolerations(runtime, device) if tolerated else []
        if lacking.get("tolerations") and not tolerated:
            self._notes.append(
                say.TAINT_NOT_TOLERATED(runtime=name, taint=runtimes.taint(runtime, device))
            )
        place = say.ON_KUBERNETES(namespace=self._client.namespace, runtime=name)
        plan: KubernetesPlan = {
            "runtime": name,
            "runtime_kind": runtime.kind,
            "runs_once": bool(spec.max_restarts) or runtimes.runs_once(runtime),
            "own_runtime": dict(restarts.spec_from(runtime, spec.max_restarts).json)
            if spec.max_restarts
            else None,
            "device": device,
            "devices_per_node": placed.per_node,
            "selector": placed.selector,
            "resources": {"requests": own.requests, "limits": own.limits},
            "python": python,
            "jax": None if spec.image else labels.get(f"{trainjob.PREFIX}/jax"),
            "image": image or None,
            "trainer": version,
            "server": self._client.server,
            "context": self._client.context,
            "namespace": self._client.namespace,
            "cluster": self._client.identity,
            "kubeconfig": kubeconfig.paths(),
            "patches": patched,
            "loose": podsecurity.lacking(runtime) if patched["restricted"] else {},
            "mounts": self._mounts,
            "tolerations": [dict(one.json) for one in tolerations],
            "shared": runtimes.shared_folder(runtime),
            "compile_cache": runtimes.shares_compiled(runtime),
            "pip": taken.pip,
            "secret_keys": secret_keys,
            "max_name": max_name,
            "note": f"{place}, {chosen}" if chosen else place,
        }
        idle.put_into(plan, spec, lambda: runtimes.idle_limits(runtime))
        return plan

    def check_size(self, total: int, spec: JobSpec) -> None:
        """Refuse what won't fit through."""
        payload.check_size(total, spec, self._mounts, self._has_channel)

    def check_capture(self, capture: Capture, spec: JobSpec, plan: Plan) -> None:
        """Refuse objects that the runtime's Python can't read; note what may be too large."""
        made = cast(KubernetesPlan, plan)
        if capture.python_bound and made.get("python") not in (None, runtimes.PYTHON):
            raise CaptureError(
                say.PYTHON_DIFFERS(
                    names=", ".join(capture.python_bound),
                    here=runtimes.PYTHON,
                    runtime=plan["runtime"],
                    there=made["python"],
                )
            )
        self._add_packages(capture, spec, made)
        capture.notes += self._notes
        large = [
            f"{sent.name} ({size(sent.size)})"
            for sent in capture.sent
            if sent.name in spec.out and sent.kind != "files" and sent.size > _LARGE_RESULT
        ]
        if large and not spec.store:
            capture.notes.append(
                say.LARGE_RESULTS(results=", ".join(large), most=size(_LARGE_RESULT))
            )

    def _add_packages(self, capture: Capture, spec: JobSpec, plan: KubernetesPlan) -> None:
        """Take along what the job imports and its image lacks, or may lack."""
        if spec.no_packages:
            return
        taken = sum(map(len, self.wheels.values()))
        room = payload.room(spec, self._mounts, self._has_channel).without(taken + capture.total)
        given = wheels.named([*self.wheels, *spec.package])
        capture.imports.follow(capture.modules)
        own = {path.partition("/")[0].removesuffix(".py") for path in capture.modules}
        packed: environment.Packed
        if self._image is not None:
            packed = environment.gather(
                capture.imports, self._image, given, room, own, wheels.Index()
            )
        else:
            packed = offered = offering.offer(
                capture.imports,
                images.unknown(plan["python"] or runtimes.PYTHON),
                given,
                room.without(offering.BESIDES),
                own,
                large=spec.allow_large,
            )
            capture.offers = offered.offers
            capture.notes += _offer_notes(offered, plan["image"])
        self.wheels = {**self.wheels, **{wheel.file: wheel.data for wheel in packed.wheels}}
        capture.sent += [
            Sent(wheel.name, "package", wheel.version, len(wheel.data)) for wheel in packed.wheels
        ]
        capture.notes += packed.notes

    def is_free(self, name: str) -> bool:
        """Return whether no TrainJob has this name; `UsageError` where one has it that runs."""
        with said_plainly(self._client):
            try:
                path = self._client.trainer("trainjobs", name)
                found = TrainJob(self._client.request("GET", path))
            except ApiError as error:
                if error.status == 404:
                    return True
                raise
        ended = found.condition("Complete", "Failed")
        if not ended and not launch.marked(found) and not _has_ended_here(found):
            raise UsageError(say.NAME_IS_ACTIVE(name=name, namespace=self._client.namespace))
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
            self._plan_packages(bundle, spec, made)
            if spec.show_secrets:  # kubectl sends nothing later
                made["without_packages"] = False
            packed, job, secrets = launch.manifests(bundle, manifest, spec, made)
        documents: list[ApiObject] = [job, *secrets]
        own = restarts.runtime_of(manifest)
        with said_plainly(self._client):
            if own is not None:
                path = self._client.trainer("trainingruntimes")
                self._client.request("POST", path, query=_DRY_RUN, body=own.json)
                documents.insert(0, own)
                # It isn't there yet: the cluster looks at the job with what it is made from.
                job = trainjob.with_runtime(job, made["runtime_kind"], made["runtime"])
            path = self._client.trainer("trainjobs")
            self._client.request("POST", path, query=_DRY_RUN, body=job.json)
        lines: list[str] = [say.DRY_RUN(size=size(capture.total))]
        lines += [f"{s.name}  {s.kind}  {s.type}  {size(s.size)}".rstrip() for s in capture.sent]
        lines += [f"{name}  {say.MODULE_FILE()}" for name in capture.modules]
        names = list(capture.files.paths)
        lines += names[:_FILES_SHOWN]
        if len(names) > _FILES_SHOWN:
            lines.append(say.MORE_FILES(count=len(names) - _FILES_SHOWN))
        if packed.upload:
            target = packed.upload if spec.show_secrets else masking.text(packed.upload)
            lines.append(say.WOULD_UPLOAD(target=target))
        if made["without_packages"]:
            lines.append(say.WOULD_OMIT(size=size(made["packages"])))
        if packed.later:
            lines.append(say.WOULD_SEND_LATER(size=size(packed.later)))
        if spec.show_secrets:
            lines.append(say.HOW_TO_APPLY())
        else:
            lines += [say.MASKED_YAML(masked=masking.HIDDEN), say.SHOW_SECRETS()]
        if own is not None:
            lines.append(say.APPLY_AGAIN())
        head = "".join(f"# {line}\n" for line in lines)
        if spec.show_secrets:
            return head + trainjob.to_yaml(documents)
        shown = [ApiObject(masking.manifest(document.json).item) for document in documents]
        return head + trainjob.to_yaml(shown, exact=False)

    def start(self, directory: JobDir, lock: int, manifest: Manifest) -> None:
        """Create the TrainJob and its Secrets, and see that there is a follower.

        What was begun and can neither be finished nor taken back now is left to the follower: the
        directory stays, with a mark that the job is to be cancelled.
        """
        spec = JobSpec.from_json(manifest["spec"])
        plan = plan_of(manifest)
        signing.ensure_key()  # a damaged one is said before anything starts
        self._plan_packages(directory.bundle, spec, plan)
        packed, job, secrets = launch.manifests(directory.bundle, manifest, spec, plan)
        manifest["frame_key"] = packed.key
        # The pods keep running if this machine loses power; without the key, their messages
        # can't be trusted then.
        files.write_json(directory.manifest, manifest, durable=True)
        sync_folder(directory.path.parent)
        state = launch.submitted_state(spec.nodes)
        files.write_json(directory.state, state)
        if spec.session is not None and self._image is not None:
            images.note(directory, plan["image"], images.contents(self._image))
        launch.start_follower(plan)
        try:
            if packed.upload:
                payload.upload(directory.bundle, packed.upload, manifest["uid"])
            with said_plainly(self._client):
                own = restarts.runtime_of(manifest)
                patience = timeouts.SUBMIT.seconds
                create = partial(
                    launch.create,
                    self._client,
                    patience=patience,
                    undo=directory.cancel,
                    runtime=own,
                )
                try:
                    created = create(job, secrets)
                except launch.QueuedError:
                    plan["mounts"] = False
                    packed, job, secrets = launch.manifests(directory.bundle, manifest, spec, plan)
                    files.write_json(directory.manifest, manifest, durable=True)
                    created = create(job, secrets)
            with contextlib.suppress(OSError):  # else the follower notes it at first sight
                identity.note(directory, created.uid)
            # From now on nothing is missing that a follower would have to create.
            with contextlib.suppress(OSError):
                submitted: JobState = {**state, "reason": None, "submitting": False}
                files.write_json(directory.state, submitted)
        except BaseException:
            if packed.upload:
                payload.remove(packed.upload, manifest["uid"])
            raise

    def _plan_packages(self, bundle: Path, spec: JobSpec, plan: KubernetesPlan) -> None:
        """Leave packages out where pods have them already, and can get those that are gone."""
        plan["packages"] = sum(map(len, self.wheels.values()))
        plan["without_packages"] = (
            bool(plan["packages"])
            and spec.store is None
            and packagecache.has(bundle, spec, plan)
            and self._has_channel()
        )

    def _has_channel(self) -> bool:
        """Return whether what is too large for Secrets can follow through the channel."""
        if self._sends_later is None:
            with said_plainly(self._client):
                self._sends_later = not rights.missing(self._client, rights.CHANNEL)
        return self._sends_later

    def _secret_keys(self, name: str) -> list[str]:
        try:
            found = Secret(self._client.request("GET", self._client.core("secrets", name)))
        except ApiError as error:
            if error.status == 404:
                raise UsageError(
                    say.NO_SECRET(name=name, namespace=self._client.namespace)
                ) from None
            raise
        return sorted(found.data)

    def _namespace_labels(self) -> dict[str, str] | None:
        """Return the labels of the namespace; None where it may not be read."""
        try:
            path = f"/api/v1/namespaces/{self._client.namespace}"
            return ApiObject(self._client.request("GET", path)).labels
        except ApiError:
            return None


def _offer_notes(offered: offering.Offered, image: str | None) -> Iterator[str]:
    """Say what is sent for an unknown image, and how to send less."""
    names = {one["file"]: f"{one['name']} {one['version']}" for one in offered.offers}
    sent = [wheel for wheel in offered.wheels if wheel.file in names]
    if not sent or not image:
        return
    packages = joined([names[wheel.file] for wheel in sent], most=4)
    total = size(sum(len(wheel.data) for wheel in sent))
    digest = images.digest_of(image)
    if digest is None:
        yield say.OFFERED(image=image, packages=packages, size=total)
    else:
        yield say.OFFERED_TO_TAG(image=image, packages=packages, size=total, digest=digest)


def _patches_in_queue(
    kueue: queues.Kueue,
    spec: JobSpec,
    patches: dict[str, bool],
    runtime: TrainingRuntime,
    around: Mapping[str, str],
) -> dict[str, bool]:
    """Refuse what this cluster's Kueue would drop."""
    meshed = around.get("istio-injection") == "enabled" or "istio.io/rev" in around
    return queues.allowed_patches(kueue, spec, patches, runtime.name, meshed)


def _has_ended_here(found: TrainJob) -> bool:
    """Return whether we know that a TrainJob has ended, though the cluster may not show it yet."""
    directory = layout.with_uid(launch.uid_of(found))
    if directory is None:
        return False
    with contextlib.suppress(JaxTrainError):
        state = directory.read_state()
        ended = state is not None and state["state"] in ENDED
        return ended and identity.is_jobs(directory, directory.read_manifest(), found)
    return False
