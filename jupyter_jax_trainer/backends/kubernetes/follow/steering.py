"""What a follower does to a job's objects in the cluster, and asks of them: soon, or not at all.

It is called from the follower's main loop, for which all jobs wait: each request may take some
seconds at most, and is made again at the next look only after a pause.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api.cache import JOB_SET
from jupyter_jax_trainer.backends.kubernetes.api.client import (
    MERGE_PATCH,
    ApiError,
    Client,
    Unreachable,
)
from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod, TrainJob, mappings
from jupyter_jax_trainer.backends.kubernetes.submit import launch, restarts, trainjob
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.messages import submit

_PAUSE = 2.0  # seconds between tries


class Steering:
    """Requests for one job.

    Parameters
    ----------
    client, name
        The cluster, and the name of the TrainJob.
    is_ours
        Tells of a TrainJob of this name whether it is the job's.
    on_problem
        Called with a sentence about what can't be done.

    Attributes
    ----------
    refused
        Whether the right to change the TrainJob is missing.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        is_ours: Callable[[TrainJob], bool],
        on_problem: Callable[[str], None],
    ) -> None:
        self.refused = False
        self._client = client
        self._name = name
        self._is_ours = is_ours
        self._on_problem = on_problem
        self._path = client.trainer("trainjobs", name)
        self._acted_at = self._asked_at = -_PAUSE
        self._gone = False
        self._finishing: threading.Thread | None = None

    def delete(self, found: TrainJob) -> None:
        """Delete the TrainJob; called until it is seen to go."""
        conditions = {"uid": found.uid}
        self._act("DELETE", {"preconditions": conditions, "propagationPolicy": "Background"})

    def stop_reruns(self, found: TrainJob, words: str) -> None:
        """Suspend a job that its runtime would run again, and mark it as failed."""
        # With its uid another TrainJob of this name is left as it is.
        marks = {trainjob.FAILED: words[: launch.WORDS]}
        metadata = {"uid": found.uid, "annotations": marks}
        self._act("PATCH", {"metadata": metadata, "spec": {"suspend": True}})

    def _act(self, method: str, body: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._acted_at < _PAUSE:
            return
        self._acted_at = now
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            self._client.request(
                method, self._path, body=body, content_type=kind, timeout=timeouts.API.seconds
            )
        except ApiError as error:
            renewed = error.status == 422 and "metadata.uid" in error.message
            if error.status not in (404, 409) and not renewed:
                self.refused = error.status == 403
                right = f"{error.verb} {error.resource}"
                self._on_problem(say.CANT_CHANGE(right=right, error=error.message))
        except Unreachable:
            pass  # the next look tries again

    def drop_runtime(self, name: str, own: str, trainjob_uid: str | None) -> bool:
        """Delete the runtime of a job without a TrainJob; tell whether no more has to be done.

        Parameters
        ----------
        own, trainjob_uid
            As for `trainjob.belongs`.
        """
        now = time.monotonic()
        if now - self._acted_at < _PAUSE:
            return False
        self._acted_at = now
        try:
            brief = timeouts.API.seconds
            if not restarts.delete(self._client, name, own, trainjob_uid, timeout=brief):
                self._on_problem(say.RUNTIME_KEPT(name=name))
        except Unreachable:
            return False
        except ApiError as error:
            if error.is_transient:
                return False
            self._on_problem(submit.RUNTIME_STAYS(name=name, error=error.message))
        return True

    def is_gone(self) -> bool:
        """Ask for the TrainJob itself: the watch may not have told of it yet."""
        now = time.monotonic()
        if self._gone or now - self._asked_at < _PAUSE:
            return self._gone
        self._asked_at = now
        try:
            found = self._client.request("GET", self._path, timeout=timeouts.API.seconds)
            self._gone = not self._is_ours(TrainJob(found))
        except ApiError as error:
            self._gone = error.status in (403, 404)
        except Unreachable:
            pass
        return self._gone

    def pods(self) -> list[Pod] | None:
        """List the job's pods, none where that is forbidden; None while they can't be had."""
        now = time.monotonic()
        if now - self._asked_at < _PAUSE:
            return None
        self._asked_at = now
        query = {"labelSelector": f"{JOB_SET}={self._name}"}
        try:
            path = self._client.core("pods")
            brief = timeouts.API.seconds
            found = self._client.request("GET", path, query=query, timeout=brief)
            return [Pod(one) for one in mappings(found.get("items"))]
        except (ApiError, Unreachable) as error:
            return [] if isinstance(error, ApiError) and error.status == 403 else None

    def finish(
        self,
        directory: JobDir,
        manifest: Manifest,
        found: TrainJob,
        on_done: Callable[[], None],
    ) -> None:
        """Create the Secrets of a job whose submitter died, in a thread: much may have to be sent.

        Parameters
        ----------
        found
            The TrainJob.
        on_done
            Called when no more has to be done, in the thread.
        """
        if self._finishing is None:
            self._finishing = threading.Thread(
                target=self._finish, args=[directory, manifest, found, on_done], daemon=True
            )
            self._finishing.start()

    def _finish(
        self,
        directory: JobDir,
        manifest: Manifest,
        found: TrainJob,
        on_done: Callable[[], None],
    ) -> None:
        while not directory.deleted and not directory.cancel.exists():
            try:
                launch.finish(self._client, directory, manifest, found)
                break
            except Unreachable:
                time.sleep(_PAUSE)
            except (ApiError, JaxTrainError, OSError) as error:
                self._on_problem(say.NOT_FINISHED(error=error))
                break
        on_done()
