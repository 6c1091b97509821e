"""One job as its follower knows it: what cluster and ranks say goes into its directory."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import asdict, replace
from typing import Any

from jupyter_jax_trainer import files
from jupyter_jax_trainer.backends.kubernetes import fetch, launch, trainjob
from jupyter_jax_trainer.backends.kubernetes.client import (
    MERGE_PATCH,
    ApiError,
    Client,
    Unreachable,
)
from jupyter_jax_trainer.backends.kubernetes.diagnosis import PodEnd, Seen, judge, rank_ends
from jupyter_jax_trainer.backends.kubernetes.seen import deleted_at
from jupyter_jax_trainer.backends.kubernetes.store import Store
from jupyter_jax_trainer.backends.kubernetes.streams import Streams
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.failure import (
    CANCELLED,
    Failure,
    RankEnd,
    diagnose,
    positions,
    summary,
)
from jupyter_jax_trainer.files import LineReader
from jupyter_jax_trainer.jobdir import RETURNED, JobDir
from jupyter_jax_trainer.logs import last_lines
from jupyter_jax_trainer.record import Recorder
from jupyter_jax_trainer.spec import JobSpec

_DRAIN = 15.0  # seconds after a job's end in which more of its logs has to come, else they are over
_LAST_WORDS = 20
_SAID = "jaxtrain: "  # begins what the command of a pod says for itself (payload.py)
_TAIL = 200  # lines at the end of a file, among which the last frames of all ranks are found
_LATE = 15.0  # seconds in which the request of a submitter that was killed may still be granted
_ACTED = 2.0  # seconds between tries of what the API refuses
_NOTHING = Seen(
    trainjob=None, jobs=[], jobset=None, pods=[], events=[], workloads=[], nodes=0, now=0.0
)
_NO_MODULE = "The pods' image does not have it: --package brings it along, --image chooses another."
DELETED = "its TrainJob was deleted from the cluster"


class Followed:
    """One job.

    Parameters
    ----------
    directory, lock
        The job's directory, and the open file that holds its lock.
    client
        The cluster.
    """

    def __init__(self, directory: JobDir, lock: int, client: Client) -> None:
        self.directory = directory
        self.lock = lock
        self.manifest = directory.read_manifest()
        self.name: str = self.manifest.get("trainjob") or self.manifest["name"]
        self.spec = JobSpec.from_json(self.manifest["spec"])
        self._client = client
        self._guard = threading.RLock()
        nodes = self.spec.nodes
        ranks = [launch.new_rank(number) for number in range(nodes)]
        self.record = Recorder(directory, ranks, directory.read_state())
        self._ends = [RankEnd(rank=number) for number in range(nodes)]
        self._held: dict[str, Any] | None = None
        self._stored: dict[str, Any] | None = None
        self._order = 0
        self._spoken = False  # a rank has said something that may change the job's state
        self._submitting = False  # it may lack its Secrets; its submitter is gone
        self._load()
        key = self.manifest.get("frame_key")
        self.streams = Streams(
            client, directory, nodes, key.encode() if key else None, self._applied(), self.take,
            self.problem,
        )  # fmt: skip
        self.trouble: str | None = None
        self.lacking: list[str] = []  # what is lost for want of rights
        self.unseen: str | None = None  # the part of that which leaves the card without words
        self.polled = True
        self._said: set[str] = set()
        self._trainjob: dict[str, Any] | None = None
        self._pods: dict[str, dict[str, Any]] = {}  # all that were ever seen
        self._past: set[str] = set()  # those from before a suspension
        self._where: dict[int, dict[str, Any]] = {}
        self._seen = _NOTHING
        self._over_at: float | None = None
        self._length, self._grown_at = 0, 0.0
        self._acted_at = 0.0
        self._asked_at = 0.0
        self._refused = False  # the right to end it is missing
        self._gone = False
        self._finishing: threading.Thread | None = None
        self._began = time.monotonic()
        self._fetching: fetch.Fetch | None = None

    def begin(self, watched: bool) -> None:
        """Begin to follow.

        Parameters
        ----------
        watched
            The store knows all TrainJobs; else each is asked for by its name.
        """
        self.polled = watched
        if self.record.state["reason"] == launch.WAITS:
            self._submitting = True
            self._keep()

    def _go_on(self) -> None:
        """Finish a submission that was cut off after the TrainJob was made, before its Secret."""
        if self._submitting and self._finishing is None and not self.directory.cancel.exists():
            self._finishing = threading.Thread(
                target=self._finish, args=[self._trainjob], daemon=True
            )
            self._finishing.start()

    def _finish(self, found: dict[str, Any]) -> None:
        """Create the Secrets, however long the API is away."""
        while self.directory.path.is_dir() and not self.directory.cancel.exists():
            try:
                launch.finish(self._client, self.directory, self.manifest, found)
                break
            except Unreachable:
                time.sleep(_ACTED)
            except (ApiError, JaxTrainError, OSError) as error:
                self.problem(f"the submission could not be finished: {error}")
                break
        with self._guard:
            self._submitting = False
            self._keep()

    # -- what is kept for the next follower ----------------------------------------------------

    def _load(self) -> None:
        with contextlib.suppress(Exception):
            kept = files.read_json(self.directory.path / "follower.json", {"ends": list})
            known = RankEnd.__dataclass_fields__
            self._ends = [
                RankEnd(**{k: v for k, v in end.items() if k in known}) for end in kept["ends"]
            ]
            self._held, self._stored = kept.get("held"), kept.get("stored")
            self._submitting = bool(kept.get("submitting"))
            self._order = max(
                (end.order for end in self._ends if end.order < 1 << 30), default=0
            )

    def _keep(self) -> None:
        kept = {
            "format": files.FORMAT, "ends": [asdict(end) for end in self._ends],
            "held": self._held, "stored": self._stored, "submitting": self._submitting,
        }  # fmt: skip
        with contextlib.suppress(OSError):
            files.write_json(self.directory.path / "follower.json", kept)

    def _applied(self) -> dict[int, dict[str, int]]:
        """Find, in what is on disk, which messages of each rank were applied last."""
        found: dict[int, dict[str, int]] = {}
        for path in (self.directory.events, self.directory.metrics, self.directory.displays):
            for line in list(LineReader(path).read())[-_TAIL * self.spec.nodes :]:
                frame, rank = line.get("frame"), line.get("rank")
                if isinstance(frame, list) and len(frame) == 2 and isinstance(rank, int):
                    incarnation, number = frame
                    of_rank = found.setdefault(rank, {})
                    of_rank[incarnation] = max(number, of_rank.get(incarnation, 0))
        return found

    # -- what the ranks say ------------------------------------------------------------------

    def take(self, rank: int, message: dict[str, Any], offset: int) -> None:
        """Take a message of a rank; called in the order of its log, by the thread that reads it."""
        with self._guard:
            try:
                self._take(rank, message, offset)
            except (ValueError, TypeError, KeyError, AttributeError):
                self.record.event("warning", "a record can't be read; left out", rank)

    def _take(self, rank: int, message: dict[str, Any], offset: int) -> None:
        kind, frame = message.pop("kind"), message.get("frame")
        end = self._ends[rank]
        if kind == "reports":
            self.record.reports(rank, message["reports"], frame)
        elif kind == "display":
            self.record.display(rank, {**message, "log_offset": offset})
        elif kind in ("arrived", "joined", "running", "finished", "stopped"):
            end.joined |= kind == "joined"
            end.finished |= kind == "finished"
            end.stopped |= kind == "stopped"
            self.record.rank(rank, state=kind.capitalize())
        elif kind == "error":
            if end.error is None:
                # Its pod may have looked as if it was stopped, to a follower that came later.
                end.error, end.order, end.stopped = message, self._next(), False
            self.record.rank(rank, state="Failed")
            self.record.event("error", f"{message['type']}: {message['message']}", rank, frame)
        elif kind == "where":
            self._where[rank] = message
        elif kind in ("gap", "frames_lost"):
            self.record.event("gap", _gap(kind, message), rank, frame)
        elif kind == "node_says":
            self.problem(f"the node says of rank {rank}'s log: {message['text']}")
        elif kind == "result_part":
            fetch.add_part(self.directory, message)
        elif kind == "result_held":
            self._held = {**message, "rank": rank, "since": time.time()}
        elif kind == "result_stored":
            self._stored = message
        elif kind == "result_lost":
            self.record.event("error", "the results were not fetched in time", rank, frame)
        elif kind == "results":
            self.record.results(message["results"])
        else:
            return  # hello, lines: nothing to write
        if kind not in ("reports", "display", "where", "result_part"):
            self._spoken = True
            self._keep()
            self.record.save()

    def _next(self) -> int:
        self._order += 1
        return self._order

    def problem(self, text: str) -> None:
        """Note what can't be done, once."""
        with self._guard:
            if text not in self._said:
                self._said.add(text)
                self.record.event("warning", text)

    # -- what the cluster says -----------------------------------------------------------------

    def wants_look(self) -> bool:
        """Tell whether something has happened that the cluster does not tell."""
        return self._spoken or self.streams.changed or (
            self._trainjob is not None and self.directory.cancel.exists()
        ) or not self.directory.path.is_dir()

    def save(self) -> None:
        """Write what is not urgent."""
        with self._guard:
            self.record.save()

    def update(self, store: Store) -> bool:
        """Bring the directory up to date; tell whether the job is over and all is written."""
        with self._guard:
            self._spoken = False
            self._look(store)
            if not self.directory.path.is_dir():
                return self._forget()
            if self._trainjob is not None:
                if self.directory.cancel.exists():
                    self._delete()
                else:
                    self._go_on()
            self._note_pods()
            self.streams.sync(self._pods, store.pods(self.name, self.manifest["uid"]))
            self._fetch_held()
            for text in self.lacking:
                self.problem(text)
            over = self._over()
            if over is None:
                self._over_at = None
                self._say()
                self.record.save()
                return False
            now = time.monotonic()
            self._over_at = self._over_at or now
            late = now - self._over_at > _DRAIN
            busy = self._fetching is not None and self._fetching.is_alive()
            if self._fetching is not None and (late or self._trainjob is None):
                self._fetching.give_up()
            if busy or not (self.streams.idle or self._is_quiet(now)):
                self.record.save()
                return False
            if not self.streams.idle:
                self.problem(f"the last lines of a log may be missing: none came for {_DRAIN:g} s")
            self._end(*over)
            return True

    def _is_quiet(self, now: float) -> bool:
        """Tell whether for a while no more has come of the logs."""
        length = self.streams.length
        if length != self._length:
            self._length, self._grown_at = length, now
        return now - max(self._grown_at, self._over_at or now) > _DRAIN

    def _look(self, store: Store) -> None:
        """Take what the cluster has; a TrainJob of our name may be somebody else's by now."""
        found = store.trainjobs.get(self.name)
        if found is not None and launch.uid_of(found) != self.manifest["uid"]:
            found = None
        self._trainjob = found
        pods = store.pods(self.name, self.manifest["uid"])
        self._pods.update(store.take_gone(self.name, self.manifest["uid"]))
        self._pods.update(pods)
        jobs = store.jobs(self.name, self.manifest["uid"])
        uids = {*self._pods, *(job["metadata"]["uid"] for job in jobs)}
        if found is not None:
            uids.add(found["metadata"]["uid"])
        self._seen = Seen(
            trainjob=found, jobs=jobs, jobset=None, pods=list(pods.values()),
            events=store.events(self.name, uids), workloads=[], nodes=self.spec.nodes,
            now=time.time(),
        )  # fmt: skip

    def _delete(self) -> None:
        assert self._trainjob is not None
        conditions = {"uid": self._trainjob["metadata"]["uid"]}
        self._act("DELETE", {"preconditions": conditions, "propagationPolicy": "Background"})

    def _act(self, method: str, body: dict[str, Any]) -> None:
        """Change the TrainJob; tried again until it is seen to have changed."""
        now = time.monotonic()
        if now - self._acted_at < _ACTED:
            return
        self._acted_at = now
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        path = self._client.trainer("trainjobs", self.name)
        try:
            self._client.request(method, path, body=body, content_type=kind, timeout=5)
        except ApiError as error:
            if error.status not in (404, 409):
                self._refused = error.status == 403
                self.problem(f"can't {error.verb} {error.resource}: {error.message}")
        except Unreachable:
            pass  # the next look tries again

    def _note_pods(self) -> None:
        """Take over what the pods say of the ranks."""
        # Those that are gone, too: they say how they went.
        if self._suspended:
            return  # they end because of that
        pods = [pod for uid, pod in self._pods.items() if uid not in self._past]
        for found in rank_ends(replace(self._seen, pods=pods)):
            if not 0 <= found.rank < len(self._ends):
                continue
            known = self.record.state["ranks"][found.rank]
            fields: dict[str, Any] = {
                "pod": found.pod, "host": found.node, "restarts": found.restarts
            }
            if self._note_end(self._ends[found.rank], found):
                fields["exit"] = self._ends[found.rank].exit
                if known["state"] not in ("Finished", "Failed", "Stopped"):
                    fields["state"] = (
                        "Finished" if found.exit == 0 else "Stopped" if found.stopped else "Failed"
                    )
            elif known["state"] == "Waiting" and found.running:
                fields["state"] = "Starting"
            if any(known.get(name) != value for name, value in fields.items()):
                self.record.rank(found.rank, **fields)

    def _note_end(self, end: RankEnd, found: PodEnd) -> bool:
        """Note how a rank has ended, once; what the rank itself has said comes first."""
        ended = found.exit is not None or found.cause is not None or found.stopped
        if not ended or end.exit is not None or end.cause is not None:
            return False
        end.exit = found.exit
        end.out_of_memory = found.out_of_memory
        if found.stopped:
            end.stopped = end.error is None and not end.finished
        elif found.exit != 0:
            end.cause, end.hint = found.cause, found.hint
        if end.error is None:
            end.order = self._next()
        self._keep()
        return True

    def _say(self) -> None:
        """Say how the job is."""
        if self.trouble is not None:
            self.record.change(
                self.record.state["state"], f"the cluster does not answer: {self.trouble}",
                "The job may go on; this is looked at again every few seconds.",
            )  # fmt: skip
            return
        states = [rank["state"] for rank in self.record.state["ranks"]]
        verdict = judge(self._seen, self.manifest["spec"], states)
        if verdict.state == "Suspended":
            self._begin_anew()
        reason = verdict.reason
        if self._held is not None and self._fetching is not None:
            reason = self._fetching.trouble or "its results are being fetched"
        if reason is None:
            reason = self.unseen
        self.record.change(verdict.state, reason, verdict.hint)

    @property
    def _suspended(self) -> bool:
        """Whether somebody has suspended the job, other than we to keep it from running again."""
        found = self._trainjob
        return bool(
            found is not None and found["spec"].get("suspend") and launch.marked(found) is None
        )

    def _begin_anew(self) -> None:
        """Forget the ranks of a suspended job: when it is resumed, there are others."""
        if self._seen.pods or not self.streams.idle or self._past == self._pods.keys():
            return
        self._past = set(self._pods)
        self._ends = [RankEnd(rank=number) for number in range(self.spec.nodes)]
        for number in range(self.spec.nodes):
            self.record.rank(number, **launch.new_rank(number))
        self._keep()

    # -- the end -------------------------------------------------------------------------------

    def _over(self) -> tuple[str, str | None, Failure | None] | None:
        """Give how the job has ended; None while it has not."""
        if self._trainjob is None:
            if not self.polled or self.trouble is not None or not self._is_gone():
                return None
            if self.directory.cancel.exists():
                return "Cancelled", CANCELLED, None
            if self._submitting and not self._pods:
                if time.monotonic() - self._began < _LATE:
                    return None
                failure = Failure(kind="start", message=launch.CUT_OFF, hint="Run the cell again.")
                return "Failed", launch.CUT_OFF, failure
            return "Cancelled", DELETED, None
        if self._suspended:
            return None
        marked = launch.marked(self._trainjob)
        verdict = judge(self._seen, self.manifest["spec"], [])
        once = self.manifest["plan"]["runs_once"]
        broken = any(
            end.error or ((end.exit or end.cause) and not end.finished) for end in self._ends
        )
        # A rank whose work is done has succeeded, whatever happens to its pod afterwards; and what
        # all ranks have said is known some seconds before the controllers have worked it out.
        if all(end.finished for end in self._ends):
            return "Succeeded", None, None
        if verdict.state == "Succeeded" and not broken:
            return "Succeeded", None, None
        spoken = once and broken and self._all_have_spoken()
        if spoken or verdict.state in ("Succeeded", "Failed") or marked is not None:
            failure = self._failure(verdict)
            return "Failed", summary(failure), failure
        if broken and not once:
            self._stop_reruns()
        return None

    def _is_gone(self) -> bool:
        """Ask for the TrainJob itself: the watch may not have told of it yet."""
        now = time.monotonic()
        if self._gone or now - self._asked_at < _ACTED:
            return self._gone
        self._asked_at = now
        try:
            path = self._client.trainer("trainjobs", self.name)
            found = self._client.request("GET", path, timeout=5)
            self._gone = launch.uid_of(found) != self.manifest["uid"]
        except ApiError as error:
            self._gone = error.status in (403, 404)
        except Unreachable:
            pass
        return self._gone

    def _all_have_spoken(self) -> bool:
        """Tell whether each rank has said how it ended."""
        return all(end.error or end.finished or end.stopped for end in self._ends)

    def _failure(self, verdict: Any) -> Failure:
        """Name the first cause: a rank's, where one has failed, else the cluster's."""
        told = any(end.error or end.exit or end.cause for end in self._ends)
        if not told or verdict.cause == "deadline":
            message = verdict.reason or "it failed"
            if where := positions([(end, self._where.get(end.rank)) for end in self._ends]):
                message += f"; {where}"
            return Failure(
                kind="timeout" if verdict.cause == "deadline" else "cluster", message=message,
                hint=verdict.hint,
            )  # fmt: skip
        failure = diagnose(self._ends)
        if failure.error is None and failure.rank is not None:
            failure.log = last_lines(self.directory.log(failure.rank), _LAST_WORDS)
            if failure.log and failure.log[-1].startswith(_SAID):  # before there was a worker
                failure.kind, failure.hint = "start", None
                failure.message = failure.log[-1].removeprefix(_SAID)
        if (failure.error or {}).get("type") == "ModuleNotFoundError" and not failure.hint:
            failure.hint = _NO_MODULE
        return failure

    def _stop_reruns(self) -> None:
        """Suspend a job that this runtime would run again, and mark it as failed."""
        words = summary(diagnose(self._ends))[:1000]
        self._act(
            "PATCH",
            {"metadata": {"annotations": {trainjob.FAILED: words}}, "spec": {"suspend": True}},
        )

    def _end(self, state: str, reason: str | None, failure: Failure | None) -> None:
        """Write the end. Whoever sees it finds the results there."""
        table = self.record.state["results"]
        if state == "Succeeded" and not table:
            # The ranks always say what they send; nothing of that was heard.
            why = self.unseen or "the end of the log could not be read"
            names = [RETURNED] if self.manifest["returns"] else self.spec.out
            lost = [{"name": n, "error": f"{n!r} did not come back: {why}"} for n in names]
            self.record.results(lost)
        elif table:
            self.record.results(fetch.settle(self.directory, table, self._stored))
        self.streams.close()
        (self.directory.path / "follower.json").unlink(missing_ok=True)
        self.record.end(state, reason, failure)

    def _fetch_held(self) -> None:
        """Fetch results that rank 0 holds until somebody takes them."""
        if self._held is None or self._fetching is not None:
            return
        pod = self.record.state["ranks"][self._held["rank"]]["pod"]
        key = self.manifest.get("frame_key")
        if pod and key:
            self._fetching = fetch.Fetch(
                self._client, pod, self._held, key, self.directory, self.problem
            )
            self._fetching.start()

    def _forget(self) -> bool:
        """End a job whose directory was deleted: nothing is left that could show it."""
        if self._trainjob is not None and deleted_at(self._trainjob) is None and not self._refused:
            self._delete()
            return False
        self.streams.close()
        return True


def _gap(kind: str, message: dict[str, Any]) -> str:
    if kind == "gap":
        return f"the cluster has lost {message.get('lines')} lines of the log (rotation)"
    return f"the cluster has lost messages {message.get('from')} to {message.get('to')}"
