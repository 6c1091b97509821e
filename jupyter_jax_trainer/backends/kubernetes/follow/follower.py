"""The follower: one process for each user, cluster and namespace, which writes job directories.

It watches the cluster, reads the logs of the jobs that this user has started or attached to, and
can be killed at any moment: the next one goes on from what is on disk.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from jupyter_jax_trainer import masking, timeouts
from jupyter_jax_trainer.backends.kubernetes.api import keyfiles, rights
from jupyter_jax_trainer.backends.kubernetes.api.cache import JOB_SET, Store, Watched
from jupyter_jax_trainer.backends.kubernetes.api.client import ApiError, Client, Unreachable
from jupyter_jax_trainer.backends.kubernetes.api.counts import COUNTS
from jupyter_jax_trainer.backends.kubernetes.api.lineage import JobSetRef, job_set_path
from jupyter_jax_trainer.backends.kubernetes.api.objects import (
    Event,
    Job,
    JobSet,
    Pod,
    TrainJob,
    Workload,
)
from jupyter_jax_trainer.backends.kubernetes.api.rights import Right
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED, GONE, Watch
from jupyter_jax_trainer.backends.kubernetes.follow.answering import Answering
from jupyter_jax_trainer.backends.kubernetes.follow.followed import Followed
from jupyter_jax_trainer.backends.kubernetes.overview import Overview
from jupyter_jax_trainer.backends.kubernetes.submit import launch, queues
from jupyter_jax_trainer.backends.kubernetes.submit.launch import LOG
from jupyter_jax_trainer.errors import JaxTrainError, JobDirError
from jupyter_jax_trainer.jobdir import endrunner, files, layout, locks, store
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Manifest
from jupyter_jax_trainer.log import bound as bound_log
from jupyter_jax_trainer.log import log
from jupyter_jax_trainer.messages import cluster as of_cluster
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.states import ENDED

_TICK = 0.05  # seconds between looks at the job directories
_AGAIN = 1.0  # seconds after which each job is looked at, though nothing was heard
_POLL = 2.0  # seconds between looks at single TrainJobs, where all may not be watched
_KINDS = ("trainjobs", "pods", "jobs", "events")  # of objects that are watched
_Found = TypeVar("_Found", TrainJob, Pod, Job, Event, Workload)
_ASK_AGAIN = 60.0  # seconds between questions for rights, while some are missing


class Follower:
    """Follows the jobs of one namespace.

    Parameters
    ----------
    client
        The cluster and namespace.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._store = Store()
        self._answering = Answering()
        self._printed: set[str] = set()
        # What other threads have heard: the main loop takes it.
        self._heard: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._followed: dict[str, Followed] = {}  # by the names of their directories
        # Directories that are not ours, or whose jobs have ended: names are used again.
        self._passed: dict[str, files.Stamp | None] = {}
        self._unknown = set(_KINDS)  # kinds of objects that have not been listed yet
        self._lacking: dict[str, Right] = {}  # by what can't be listed or watched
        self._missing: list[Right] = []  # of all rights
        self._away: dict[str, tuple[float, str]] = {}
        self._dirty: set[str] = set()
        self._jobs = layout.jobs_directory()
        self._looked = -1
        self._waiting = False
        self._polled = 0.0
        self._sees_queues = False
        self._unasked: queue.SimpleQueue[JobSetRef] = queue.SimpleQueue()
        self._asked: dict[str, float] = {}  # when for a JobSet, by its uid

    def run(self) -> None:
        """Follow until there has been nothing to follow for a while."""
        self._answering.start()
        self._watch("trainjobs", TrainJob, self._client.trainer("trainjobs"))
        self._watch("pods", Pod, self._client.core("pods"), JOB_SET)
        self._watch("jobs", Job, self._client.batch("jobs"), JOB_SET)
        self._watch("events", Event, self._client.core("events"))
        threading.Thread(target=self._ask, name="rights", daemon=True).start()
        threading.Thread(target=self._look_up, name="owners", daemon=True).start()
        directory = launch.follower_directory(self._client.identity)
        overview = Overview(directory / "trainjobs.jsonl")
        log("info", f"follows {self._client.namespace} of {self._client.server}")
        idle = timeouts.FOLLOWER_IDLE.seconds
        busy = looked = time.monotonic()
        while time.monotonic() - busy < idle:
            self._listen()
            self._adopt()
            now = time.monotonic()
            every = now - looked > _AGAIN
            looked = now if every else looked
            if every:
                endrunner.start(store.home())
            self._poll()
            for key, followed in list(self._followed.items()):
                self._look(key, followed, every)
            self._want_owners()
            self._list(overview)
            self._count(directory)
            if self._followed or self._waiting:
                busy = now
        log("info", f"exiting: nothing to follow for {idle:g} s")

    def _count(self, directory: Path) -> None:
        """Write down how the work goes; a full disk must not end it."""
        COUNTS.put("jobs", len(self._followed))
        COUNTS.put("cluster_silent", int(self._silent() is not None))
        labels = f'cluster="{directory.name}",namespace="{self._client.namespace}"'
        with contextlib.suppress(OSError):
            COUNTS.save(directory, labels)
            bound_log(directory / LOG)

    def _list(self, overview: Overview) -> None:
        """Keep the list of all TrainJobs; some may have been made with other tools, and be odd."""
        try:
            overview.update(self._store, self._dirty)
        except Exception:
            self._print_error()
        self._dirty.clear()

    def _look(self, key: str, followed: Followed, every: bool) -> None:
        """Look after a job; one that can't be shown must not stop the others."""
        over = False
        try:
            followed.look_after_ranks()
            if every or followed.name in self._dirty or followed.wants_look():
                over = followed.update(self._store)
            else:
                followed.save()
        except Exception:
            self._print_error()
        if over:
            log("info", f"is done with job {key}")
            del self._followed[key]
            self._answering.remove(followed.manifest["uid"])
            self._pass(followed.directory)
            os.close(followed.lock)

    def _print_error(self) -> None:
        """Print an error into our own log, once: it may come again at each look."""
        text = traceback.format_exc()
        COUNTS.add("errors_total")
        if text not in self._printed:
            self._printed.add(text)
            log("error", text)

    # -- the cluster ---------------------------------------------------------------------------

    def _watch(
        self, resource: str, kind: type[_Found], path: str, labels: str | None = None
    ) -> None:
        put = self._heard.put

        def changed(change: str, item: _Found) -> None:
            put(partial(self._take, change, item))

        Watch(
            self._client,
            path,
            kind,
            changed,
            lambda: put(partial(self._unknown.discard, resource)),
            lambda error: put(partial(self._note_problem, resource, error)),
            labels,
        ).start()

    def _watch_queues(self) -> None:
        """Watch Kueue's Workloads, from the first TrainJob in a queue on; in a thread."""
        while True:
            try:
                path = queues.workloads(self._client)
            except (ApiError, Unreachable):
                time.sleep(_POLL)
                continue
            if path is not None:
                self._watch("workloads", Workload, path)
            return

    def _ask(self) -> None:
        """Ask which rights are missing; some are needed only when it is too late to say so."""
        while True:
            with contextlib.suppress(ApiError, Unreachable):
                missing = rights.missing(self._client)
                self._heard.put(partial(self._note_rights, missing))
                if not missing:
                    return
            time.sleep(_ASK_AGAIN)

    def _want_owners(self) -> None:
        """Have the owners of JobSets looked up that have not been; once, where that is answered."""
        now = time.monotonic()
        for followed in self._followed.values():
            for one in followed.wanted:
                if now - self._asked.get(one.uid, -_ASK_AGAIN) >= _ASK_AGAIN:
                    self._asked[one.uid] = now
                    self._unasked.put(one)

    def _look_up(self) -> None:
        """Look at JobSets, in a thread; the followed jobs wait for this before they trust pods."""
        while True:
            one = self._unasked.get()
            path = job_set_path(self._client.namespace, one)
            while True:
                try:
                    found = JobSet(self._client.request("GET", path))
                    self._heard.put(partial(self._take_owner, one, found))
                    break
                except ApiError as error:
                    if error.status in (403, 404):
                        self._heard.put(partial(self._take_owner, one, error))
                        break
                except Unreachable:
                    pass
                time.sleep(_POLL)

    def _take_owner(self, one: JobSetRef, answer: JobSet | ApiError) -> None:
        """Take over what a JobSet has shown, or that it may not be looked at."""
        if isinstance(answer, ApiError) and answer.status == 403:
            self._lacking["jobsets"] = rights.find("get", "jobsets")
        else:
            self._lacking.pop("jobsets", None)
            found = None if isinstance(answer, ApiError) else answer
            self._store.lineage.note_job_set(one.uid, found)
        self._dirty.add(one.name)
        self._tell()

    def _listen(self) -> None:
        """Take what the watches have heard, waiting a moment for it."""
        with contextlib.suppress(queue.Empty):
            self._heard.get(timeout=_TICK)()
            while True:
                self._heard.get_nowait()()

    def _take(self, change: str, item: Watched) -> None:
        """Take a change of an object."""
        name = self._store.put(change, item)
        if isinstance(item, TrainJob) and not self._sees_queues and queues.queue_of(item):
            self._sees_queues = True
            threading.Thread(target=self._watch_queues, name="queues", daemon=True).start()
        if name is not None:
            self._dirty.add(name)
        else:
            self._dirty.update(followed.name for followed in self._followed.values())

    def _note_rights(self, missing: list[Right]) -> None:
        self._missing = missing
        self._tell()

    def _note_problem(self, resource: str, error: Exception | None) -> None:
        log("info", f"{resource}: {error or 'are heard again'}")
        if isinstance(error, ApiError) and error.status == 403:
            self._unknown.discard(resource)
            self._lacking[resource] = rights.find(error.verb, error.resource)
            self._away.pop(resource, None)
        elif error is not None and resource in _KINDS:
            since = self._away.get(resource, (time.monotonic(), ""))[0]
            refused = isinstance(error, ApiError) and error.status == 401
            self._away[resource] = (since, say.SIGNED_OUT() if refused else str(error))
        else:
            self._away.pop(resource, None)
            self._lacking.pop(resource, None)
        self._tell()

    def _tell(self) -> None:
        """Tell the jobs what of the cluster can't be seen now."""
        silent = self._silent()
        lacking = {
            right.resource
            for right in (*self._lacking.values(), *self._missing)
            if right.verb != "watch"
        }
        self._store.lineage.blind = not lacking.isdisjoint(("jobs", "jobsets"))
        for followed in self._followed.values():
            followed.trouble = silent
            self._tell_rights(followed)
            self._dirty.add(followed.name)

    def _silent(self) -> str | None:
        """Return why the cluster has not answered for a while; None where it does."""
        silent_since = time.monotonic() - timeouts.SILENCE.seconds
        silent = [text for since, text in self._away.values() if since < silent_since]
        return silent[0] if silent else None

    def _tell_rights(self, followed: Followed) -> None:
        lacking = dict(self._lacking)
        if not followed.spec.queue:
            lacking.pop("workloads", None)
        found = [*lacking.values(), *self._missing]
        followed.lacking = list(dict.fromkeys(right.lack for right in found))
        followed.unseen = next((right.lack for right in found if right.shown), None)

    def _poll(self) -> None:
        """Look at each TrainJob by its name, where all of them may not be watched."""
        now = time.monotonic()
        if "trainjobs" not in self._lacking or now - self._polled < _POLL:
            return
        self._polled = now
        for followed in self._followed.values():
            name = followed.name
            try:
                path = self._client.trainer("trainjobs", name)
                item = self._client.request("GET", path, timeout=timeouts.API.seconds)
                self._take(ADDED, TrainJob(item))
                followed.polled = True
            except ApiError as error:
                if error.status == 404 and name in self._store.trainjobs:
                    self._take(GONE, self._store.trainjobs[name])
                followed.polled |= error.status == 404
            except Unreachable as error:
                followed.trouble = str(error)
                return  # neither will it answer for the others

    # -- the job directories ---------------------------------------------------------------------

    def _adopt(self) -> None:
        """Take over the jobs that have appeared, or that nobody follows any more."""
        if self._unknown and not self._silent():
            return
        try:
            changed = self._jobs.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if changed == self._looked and not self._waiting:
            return
        self._looked, self._waiting = changed, False
        for directory in layout.list_all():
            key = directory.path.name
            stamp = files.stamp_of(directory.manifest)
            if key in self._followed or self._passed.get(key, 0) == stamp:
                continue
            try:
                self._consider(key, directory)
            except Exception:
                self._print_error()  # its files are damaged in a way that nobody foresaw
                self._pass(directory)

    def _pass(self, directory: JobDir) -> None:
        """Look at a directory no more."""
        self._passed[directory.path.name] = files.stamp_of(directory.manifest)

    def _see_to_cell(self, key: str, directory: JobDir, manifest: Manifest) -> None:
        """End a cell that nobody runs: whoever sent it died before its session had it."""
        name = manifest["cell_of"]["session"]
        holder = self._followed.get(name)
        if holder is not None and holder.session is not None and holder.session.has(key):
            return
        if holder is None:
            state = JobDir(directory.path.with_name(name)).read_state()
            if state is not None and not state["state"].ended:
                self._waiting = True  # its session is not followed yet
                return
        if (lock := directory.take_lock()) is None:
            self._waiting = True  # it is being sent
            return
        os.close(lock)
        layout.end_abandoned(directory)

    def _consider(self, key: str, directory: JobDir) -> None:
        try:
            manifest = directory.read_manifest()
            state = directory.read_state()
        except JobDirError:
            self._waiting |= directory.is_live()  # is being submitted
            return
        ours = manifest.get("backend") == "kubernetes" and (
            manifest["plan"].get("cluster") == self._client.identity
        )
        if not ours or (state is not None and state["state"] in ENDED):
            self._pass(directory)
            return
        if "cell_of" in manifest:
            self._see_to_cell(key, directory, manifest)
            return
        lock = directory.take_lock()
        if lock is None:
            self._waiting = True
            return
        try:
            if directory.read_state() is None:  # its submitter died before it had made anything
                files.write_json(directory.state, launch.submitted_state(manifest["spec"]["nodes"]))
            self._followed[key] = followed = Followed(directory, lock, self._client)
        except BaseException:
            os.close(lock)
            raise
        log("info", f"follows job {key}")
        followed.begin(self._lacking.get("trainjobs") is None)
        self._answering.add(
            followed.manifest["uid"], followed.asker, followed.profile, followed.session
        )
        followed.trouble = self._silent()
        self._tell_rights(followed)
        self._dirty.add(followed.name)


def main(cluster: str, context: str, namespace: str, lock: str) -> NoReturn:
    """Be the follower of a namespace.

    Parameters
    ----------
    cluster
        The identity of cluster and namespace.
    context, namespace
        How to get there; the kubeconfig is in the environment.
    lock
        The number of the open file whose lock says that there is a follower.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    directory = store.private_directory(launch.follower_directory(cluster))
    os.set_inheritable(int(lock), False)
    if not locks.try_lock(int(lock)):  # it was not given with the file
        os._exit(0)
    os.write(int(lock), str(os.getpid()).encode())
    problem = directory / "problem"
    try:
        client = Client(context or None, namespace)
        if client.identity != cluster:
            raise JaxTrainError(of_cluster.OTHER_CLUSTER(context=context, server=client.server))
        problem.unlink(missing_ok=True)
        if client.warning is not None:
            log("warning", client.warning)
        Follower(client).run()
    except JaxTrainError as error:
        files.write_private(problem, masking.text(str(error)).encode())
        log("error", str(error))
    except BaseException as error:
        log("error", traceback.format_exc())
        words = masking.text(f"{type(error).__name__}: {error}")
        told = f"{words}\n{say.FULL_ERROR(path=directory / LOG)}"
        files.write_private(problem, told.encode())
    finally:
        keyfiles.clean_up()
        sys.stderr.flush()
        os._exit(0)
