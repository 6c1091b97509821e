"""Kubernetes with Kubeflow Trainer as a backend.

What it takes is imported when it is asked for: a notebook that trains on its own machine needs
none of it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.backends.base import (
    Backend,
    Capabilities,
    ClusterJob,
    Converted,
    InstallRequest,
    Queues,
    RuntimeReport,
    Submission,
    Target,
)
from jupyter_jax_trainer.backends.kubernetes.api import kubeconfig
from jupyter_jax_trainer.backends.kubernetes.api.plan import plan_of
from jupyter_jax_trainer.errors import BackendError, JaxTrainError, JobNotFound, UsageError
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.jobdir.state import JobState, submitting
from jupyter_jax_trainer.messages import channel
from jupyter_jax_trainer.messages import kubernetes as say
from jupyter_jax_trainer.messages import session as of_sessions
from jupyter_jax_trainer.options.spec import JobSpec

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture
    from jupyter_jax_trainer.channel.protocol import ProfileName, RankPlace
    from jupyter_jax_trainer.doctor.finding import Finding
    from jupyter_jax_trainer.runtime import Runtime


class KubernetesBackend(Backend):
    """TrainJobs in the clusters of the kubeconfig, or in that of the pod in which this runs."""

    name = "kubernetes"
    capabilities = Capabilities(
        suspend=True,
        clusters=True,
        where=True,
        profiles=True,
        sessions=True,
    )
    cancel_timeout = timeouts.CLUSTER_CANCEL

    # -- before a job ------------------------------------------------------------------------

    def submission(self, spec: JobSpec) -> Submission:
        """Begin a submission."""
        from jupyter_jax_trainer.backends.kubernetes.submission import KubernetesSubmission

        return KubernetesSubmission(spec)

    def device_of(self, spec: JobSpec) -> str | None:
        """Return the kind of device that a job asks for: an accelerator's name tells it, too."""
        from jupyter_jax_trainer.backends.kubernetes.submit import devices

        return devices.kind(spec)

    def targets(self) -> list[Target]:
        """List the contexts of the kubeconfig.

        The cluster of a pod in which this runs is listed where there is no kubeconfig: with one it
        can't be chosen.
        """
        try:
            return self._targets()
        except JaxTrainError as error:
            return [
                Target(self.name, self.name, "Kubernetes", problem=error.message, hint=error.hint)
            ]

    def _targets(self) -> list[Target]:
        stamp, in_pod = kubeconfig.stamp(), kubeconfig.in_cluster()
        named = os.environ.get("KUBECONFIG")
        if not stamp and not in_pod:
            if named:
                raise BackendError(say.KUBECONFIG_MISSING(path=named))
            return []
        if find_spec("kubernetes") is None:
            raise kubeconfig.not_installed()
        if not stamp:
            from jupyter_jax_trainer.backends.kubernetes import connection

            target = Target("pod", self.name, "", current=True)
            return [self.in_namespace(target, connection.get_client().namespace)]
        contexts, current = kubeconfig.contexts()
        return [
            self.in_namespace(
                Target(f"context:{name}", self.name, "", context=name, current=name == current),
                context.namespace,
            )
            for name, context in contexts.items()
        ]

    def has_targets(self) -> bool:
        """Return whether there is a kubeconfig, or this is a pod."""
        return kubeconfig.is_configured()

    def in_namespace(self, target: Target, namespace: str) -> Target:
        """Return a target in another namespace."""
        label = f"{namespace} · {target.context or say.THIS_POD()}"
        return replace(target, namespace=namespace, label=label)

    def stamp(self) -> object:
        """Return what changes with the kubeconfig."""
        return kubeconfig.stamp()

    def runtimes(
        self, context: str | None = None, namespace: str | None = None
    ) -> Sequence[Runtime]:
        """List the JAX runtimes of a cluster.

        Raises
        ------
        BackendError
            The cluster refuses it, or does not answer.
        """
        from jupyter_jax_trainer.backends.kubernetes import connection
        from jupyter_jax_trainer.backends.kubernetes.submit import runtimes

        client = connection.get_client(context, namespace)
        with connection.said_plainly(client):
            return [runtimes.describe(item) for item in runtimes.list_runtimes(client)]

    def runtime_yaml(self, target: Target, name: str) -> str:
        """Return a runtime as its cluster has it, without what may be secret."""
        from jupyter_jax_trainer.backends.kubernetes import connection
        from jupyter_jax_trainer.backends.kubernetes.submit import runtimes
        from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import shown_yaml

        client = connection.get_client(target.context, target.namespace)
        with connection.said_plainly(client):
            return shown_yaml(runtimes.get_runtime(client, name))

    def runtime_reports(
        self, names: Sequence[str], context: str | None, namespace: str | None
    ) -> Iterator[RuntimeReport]:
        """Check runtimes of a cluster: those that are named, else all for JAX."""
        from jupyter_jax_trainer.backends.kubernetes import connection
        from jupyter_jax_trainer.backends.kubernetes.doctor import checkup
        from jupyter_jax_trainer.backends.kubernetes.submit import podgroups, runtimes
        from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import shown_yaml

        client = connection.get_client(context, namespace)
        with connection.said_plainly(client):
            items = (
                [runtimes.get_runtime(client, name) for name in names]
                if names
                else runtimes.list_runtimes(client)
            )
        if not items:
            raise UsageError(say.NO_RUNTIMES(namespace=client.namespace, install=runtimes.INSTALL))
        for item in items:
            with connection.said_plainly(client):
                findings = [*checkup.examine(item), *podgroups.examine(client, item)]
            title = f"{item.kind} {item.name}"
            yield RuntimeReport(title=title, findings=findings, yaml=shown_yaml(item))

    def install_runtimes(self, asked: InstallRequest) -> Iterator[str]:
        """Install our runtimes."""
        from jupyter_jax_trainer.backends.kubernetes.installing import install

        return install(asked)

    def convert(self, text: str, source: str, runtime: str | None, *, ended: bool) -> Converted:
        """Convert JAXJobs of the training operator."""
        from jupyter_jax_trainer.backends.kubernetes import jaxjob

        return jaxjob.convert_all(text, source, runtime, ended=ended)

    def queues(self, target: Target) -> Queues | None:
        """Return Kueue's queues as `quota.describe` has them; None where there is no Kueue."""
        from jupyter_jax_trainer.backends.kubernetes import connection
        from jupyter_jax_trainer.backends.kubernetes.submit import quota

        client = connection.get_client(target.context, target.namespace)
        with connection.said_plainly(client):
            return quota.describe(client)

    def examine(
        self, context: str | None, namespace: str | None, *, asked: bool
    ) -> Iterator[Finding]:
        """Check a cluster for what jobs need there."""
        from jupyter_jax_trainer.backends.kubernetes.doctor import doctor

        return doctor.examine(context, namespace, asked=asked)

    def metrics(self) -> list[Path]:
        """Return what each follower that lives has written for Prometheus."""
        from jupyter_jax_trainer.backends.kubernetes.api.counts import FILE
        from jupyter_jax_trainer.backends.kubernetes.submit.launch import has_follower
        from jupyter_jax_trainer.jobdir import store

        root = store.home() / "followers"
        folders = sorted(root.iterdir()) if root.is_dir() else []
        return [folder / FILE for folder in folders if has_follower(folder.name)]

    # -- a job -------------------------------------------------------------------------------

    def state(self, directory: JobDir, state: JobState | None) -> JobState:
        """Return the state of a job that nobody follows; a follower is started."""
        from jupyter_jax_trainer.backends.kubernetes import control

        return control.see_to_it(plan_of(directory.read_manifest()), state or submitting())

    def cancel(self, directory: JobDir) -> None:
        """Delete the TrainJob, and with it pods and Secrets; a cell has its mark alone."""
        from jupyter_jax_trainer.backends.kubernetes import control

        manifest = directory.read_manifest()
        if "cell_of" not in manifest:
            control.cancel(manifest, directory)

    def set_suspended(self, directory: JobDir, suspended: bool) -> None:
        """Suspend or resume the TrainJob."""
        from jupyter_jax_trainer.backends.kubernetes import control

        manifest = _of_own_pods(directory)
        control.set_suspended(manifest, directory, suspended)

    def delete(self, directory: JobDir) -> None:
        """Delete the TrainJob, and files in a store; a cell has neither."""
        from jupyter_jax_trainer.backends.kubernetes import control

        manifest = directory.read_manifest()
        if "cell_of" not in manifest:
            control.delete(manifest, directory)

    def place(self, manifest: Manifest) -> str:
        """Return the namespace and the context of a job."""
        plan = plan_of(manifest)
        return " · ".join(str(plan[what]) for what in ("namespace", "context") if plan.get(what))

    def cluster_of(self, manifest: Manifest) -> tuple[str | None, str | None]:
        """Return the context and the namespace of a job."""
        plan = plan_of(manifest)
        return plan.get("context"), plan.get("namespace")

    def place_in_full(self, manifest: Manifest) -> str:
        """Return namespace, server, runtime and image of a job."""
        plan = plan_of(manifest)
        server = masking.text(plan["server"])
        words: list[str] = [say.PLACE(namespace=plan["namespace"], server=server)]
        words += [f"{what} {plan[what]}" for what in ("runtime", "image") if plan.get(what)]
        return ", ".join(words)

    def job_yaml(self, directory: JobDir) -> str:
        """Return the TrainJob of a job as the cluster has it now, without what may be secret."""
        from jupyter_jax_trainer.backends.kubernetes import control

        return control.job_yaml(_of_own_pods(directory), directory)

    def where(self, directory: JobDir) -> Sequence[RankPlace]:
        """Ask the job's follower; else return the places that stationary ranks last reported."""
        from jupyter_jax_trainer.channel import asking
        from jupyter_jax_trainer.channel.places import rank_place

        manifest = directory.read_manifest()
        uid = manifest["cell_of"]["uid"] if "cell_of" in manifest else manifest["uid"]
        with contextlib.suppress(BackendError):
            return asking.where(uid, directory.path.name)
        state, why = directory.read_state(), channel.NO_FOLLOWER()
        return [rank_place(rank, time.time(), why) for rank in state["ranks"]] if state else []

    def packages_for_cell(self, session: JobDir, capture: Capture) -> Mapping[str, bytes]:
        """Pack what a cell imports, and the image of its session lacks."""
        from jupyter_jax_trainer.backends.kubernetes.submit import latepackages

        return latepackages.add(session, capture)

    def profile(self, directory: JobDir, seconds: float) -> ProfileName:
        """Ask the job's follower, or that of the session that runs the cell."""
        from jupyter_jax_trainer.channel import asking

        manifest = directory.read_manifest()
        uid = manifest["cell_of"]["uid"] if "cell_of" in manifest else manifest["uid"]
        return asking.profile(uid, directory.path.name, seconds)

    def run_in_session(self, session: JobDir, cell: JobDir, lock: int) -> None:
        """Hand a cell to the session's follower; one is started where there is none."""
        from jupyter_jax_trainer.backends import cells
        from jupyter_jax_trainer.backends.kubernetes import control

        plan = plan_of(session.read_manifest())

        def has_ended() -> str | None:
            state = session.read_state() or submitting()
            if state["state"].ended:
                return state["reason"] or str(state["state"])
            if not session.is_live():
                control.see_to_it(plan, state)
            return None

        cells.hand_over(session, cell, lock, has_ended)

    def restart_session(self, session: JobDir) -> None:
        """Have the session's follower restart its ranks."""
        from jupyter_jax_trainer.backends import cells

        cells.restart(session)

    def prolong_session(self, session: JobDir, seconds: float | None) -> None:
        """Have the pods of the session wait for longer."""
        from jupyter_jax_trainer.backends import cells

        cells.prolong(session, seconds)

    def take_over(self, directory: JobDir) -> None:
        """Have the job's follower take over the channel, as soon as there are pods."""
        from jupyter_jax_trainer.trust import policy

        manifest = _of_own_pods(directory)
        if not policy.standing(directory, manifest).mine or not manifest.get("frame_key"):
            raise UsageError(channel.NOT_TO_BE_TAKEN(job=directory.path.name))
        directory.take_over.touch(mode=0o600)

    # -- jobs of the cluster -----------------------------------------------------------------

    def attach(self, name: str, context: str | None, namespace: str | None) -> JobDir:
        """Make a TrainJob known on this machine, and have it followed."""
        from jupyter_jax_trainer.backends.kubernetes.follow.attach import attach

        return attach(name, context, namespace)

    def cluster_jobs(
        self, context: str | None, namespace: str | None
    ) -> tuple[str, Sequence[ClusterJob]]:
        """List all TrainJobs of a namespace, whoever made them."""
        from jupyter_jax_trainer.backends.kubernetes import connection, overview

        client = connection.get_client(context, namespace)
        with connection.said_plainly(client):
            return client.namespace, overview.rows(client)

    def cluster_job(
        self, name: str, context: str | None, namespace: str | None
    ) -> JobDir | tuple[str, ClusterJob]:
        """Find a TrainJob by its name: the job of this machine that it is, else what it shows."""
        from jupyter_jax_trainer.backends.kubernetes import connection, overview
        from jupyter_jax_trainer.backends.kubernetes.follow import attach

        client = connection.get_client(context, namespace)
        with connection.said_plainly(client):
            found = attach.find(client, name)
            known = attach.known_here(client, found)
            if known is not None:
                return known
            rows = [row for row in overview.rows(client) if row.name == name]
        if not rows:
            raise JobNotFound(say.JUST_DELETED(name=name))
        return client.namespace, rows[0]


def _of_own_pods(directory: JobDir) -> Manifest:
    """Return the manifest of a job; `UsageError` for a cell, which has the pods of its session."""
    manifest = directory.read_manifest()
    if "cell_of" in manifest:
        session = manifest["cell_of"]["session"]
        raise UsageError(of_sessions.PODS_OF_SESSION(job=directory.path.name, session=session))
    return manifest
