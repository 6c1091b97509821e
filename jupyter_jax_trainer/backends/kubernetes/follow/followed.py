"""One job as its follower knows it: what cluster and ranks say goes into its directory."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from functools import partial

from jupyter_jax_trainer import timeouts
from jupyter_jax_trainer.backends.kubernetes.api import identity
from jupyter_jax_trainer.backends.kubernetes.api.cache import Store
from jupyter_jax_trainer.backends.kubernetes.api.client import Client
from jupyter_jax_trainer.backends.kubernetes.api.lineage import JobSetRef
from jupyter_jax_trainer.backends.kubernetes.api.marks import uid_of
from jupyter_jax_trainer.backends.kubernetes.api.objects import Pod, TrainJob
from jupyter_jax_trainer.backends.kubernetes.api.plan import plan_of
from jupyter_jax_trainer.backends.kubernetes.api.watch import ADDED
from jupyter_jax_trainer.backends.kubernetes.diagnosis.diagnosis import (
    Seen,
    Verdict,
    judge,
    judge_end,
)
from jupyter_jax_trainer.backends.kubernetes.follow import fetch, profiles
from jupyter_jax_trainer.backends.kubernetes.follow.asker import Asker
from jupyter_jax_trainer.backends.kubernetes.follow.attempts import Attempts
from jupyter_jax_trainer.backends.kubernetes.follow.ending import failure_of, nothing_came
from jupyter_jax_trainer.backends.kubernetes.follow.line import Reach, Target, owner_of
from jupyter_jax_trainer.backends.kubernetes.follow.ownership import Ownership
from jupyter_jax_trainer.backends.kubernetes.follow.profiles import HeldProfile
from jupyter_jax_trainer.backends.kubernetes.follow.ranks import Ranks
from jupyter_jax_trainer.backends.kubernetes.follow.saved import applied
from jupyter_jax_trainer.backends.kubernetes.follow.sending import Sending, Waiting
from jupyter_jax_trainer.backends.kubernetes.follow.session import Session
from jupyter_jax_trainer.backends.kubernetes.follow.steering import Steering
from jupyter_jax_trainer.backends.kubernetes.logs.streams import Streams
from jupyter_jax_trainer.backends.kubernetes.submit import (
    images,
    initializers,
    launch,
    packagecache,
)
from jupyter_jax_trainer.backends.kubernetes.submit.trainjob import own_name
from jupyter_jax_trainer.backends.silence import SilenceWatch
from jupyter_jax_trainer.channel.protocol import ProfileName
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.failure import (
    CANCELLED,
    Failure,
    after_restarts,
    summary,
)
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.state import not_taken
from jupyter_jax_trainer.messages import channel
from jupyter_jax_trainer.messages import follow as say
from jupyter_jax_trainer.options.spec import JobSpec
from jupyter_jax_trainer.states import Phase, State
from jupyter_jax_trainer.trust import policy
from jupyter_jax_trainer.worker.records import Position

_UNSEEN = "unseen"  # in place of a TrainJob's uid
_NOTHING = Seen(
    trainjob=None, jobs=[], jobset=None, pods=[], events=[], workloads=[], nodes=0, now=0.0
)


class Followed:
    """One job.

    Parameters
    ----------
    directory, lock
        The job's directory, and the open file that holds its lock.
    client
        The cluster.

    Attributes
    ----------
    asker
        Asks its ranks where they are.
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
        self.ranks = Ranks(directory, nodes, self._guard, self.problem)
        self.record, self._kept = self.ranks.record, self.ranks.kept
        key = self.manifest.get("frame_key")
        self.ownership = Ownership(directory, self.manifest, self.event)
        self.asker = Asker(client, self.reach, self.ownership, self._lack_channel)
        self.record.lack_channel(None)  # it was another process that found none
        self._silence = SilenceWatch(self.spec.hang_timeout)
        self._asking: threading.Thread | None = None  # because of a silence
        self._places: list[Position | None] | None = None
        self.session: Session | None = None
        written = [directory]
        if self.spec.session is not None and key:
            self.session = Session(
                directory,
                self.manifest,
                client,
                self.ownership,
                self.ranks,
                self._guard,
                self.reach,
            )
            written += [self.session.running] if self.session.running is not None else []
        taker = self.ranks if self.session is None else self.session
        self.streams = Streams(
            client,
            directory,
            nodes,
            key.encode() if key else None,
            applied(written, nodes),
            taker.take,
            self.problem,
            *([] if self.session is None else [self.session.on_text]),
        )
        self._steering = Steering(client, self.name, self._is_ours, self.problem)
        self._uid = directory.read_trainjob_uid()  # of its TrainJob
        self.trouble: str | None = None
        self.lacking: list[str] = []  # what is lost for want of rights
        self.unseen: str | None = None  # the part of it that the card would not mention
        self.polled = True
        self.wanted: set[JobSetRef] = set()  # JobSets whose owners have to be looked up
        self._said: set[str] = set()
        self._trainjob: TrainJob | None = None
        self._most = self.spec.max_restarts or 0
        self._attempts = Attempts(self.ranks, self.streams, self._most, self._leave)
        self._seen = _NOTHING
        self._over_at: float | None = None
        self._rid = False  # of its own runtime
        self._knows = False  # all pods, since the job is over
        self._listed_at: float | None = None
        self._length, self._grown_at = 0, 0.0
        self._began = time.monotonic()
        self._fetching: fetch.Fetch | None = None
        self._profiles: dict[tuple[str, int, str], fetch.Fetch] = {}
        self._sending: Sending | None = None
        self._settling: threading.Thread | None = None

    def begin(self, watched: bool) -> None:
        """Begin to follow.

        Parameters
        ----------
        watched
            The store knows all TrainJobs; else each is asked for by its name.
        """
        self.polled = watched
        if self.session is not None:
            self.session.start()
        if self.record.state.pop("submitting", False):
            self._kept.submitting = True
            self._kept.save()

    def _has_secrets(self) -> None:
        with self._guard:
            self._kept.submitting = False
            self._kept.save()

    def problem(self, text: str) -> None:
        """Note what can't be done, once."""
        with self._guard:
            if text not in self._said:
                self._said.add(text)
                self.record.event("warning", text)

    def _lack_channel(self, words: str | None) -> None:
        """Show on the card why the ranks' channel is unavailable; None once it works."""
        with self._guard:
            self.record.lack_channel(words)
            self.ranks.spoken = True

    def event(self, kind: str, text: str) -> None:
        """Note that something has happened."""
        with self._guard:
            self.record.event(kind, text)

    def reach(self) -> Reach:
        """Return where the job's channel is, for its own user, and what is known of its ranks."""
        with self._guard:
            ranks = [rank.copy() for rank in self.record.state["ranks"]]
            names = {pod.name: pod for pod in self._attempts.pods.values()}
            ports = list(self._kept.ports)
        key, port = self.manifest.get("frame_key"), ports[0]
        pods = [names.get(rank.get("pod") or "") for rank in ranks]
        if not policy.standing(self.directory, self.manifest).mine:
            return Reach(None, ranks, channel.NOT_YOURS())
        if not key or not port or not pods[0]:
            return Reach(None, ranks, channel.NOT_SAID())
        addresses = {
            rank: (pod.address, at)
            for rank, (pod, at) in enumerate(zip(pods, ports, strict=True))
            if rank and pod is not None and pod.address and at
        }
        target = Target(pod=pods[0].name, port=port, key=key, addresses=addresses)
        return Reach(target, ranks)

    # -- the follower's look -----------------------------------------------------------------

    def wants_look(self) -> bool:
        """Return whether something has happened that the cluster does not tell."""
        return (
            self.ranks.spoken
            or self.streams.changed
            or (self._trainjob is not None and self.directory.cancel.exists())
            or self.directory.deleted
        )

    def look_after_ranks(self) -> None:
        """Look after the ranks as they run: the cells of a session, or whether they are silent."""
        if self.session is not None:
            self.session.trouble = self.trouble
            self.session.look()
            return
        with self._guard:
            self._look_for_silence()

    def _look_for_silence(self) -> None:
        """Say where the ranks are when nothing was heard of them for long, or end the job."""
        watch, said = self._silence, self._silence.said
        states = self.ranks.states()
        runs = self.record.state["state"] == State.RUNNING and Phase.RUNNING in states
        works = runs and all(one in (Phase.RUNNING, Phase.FINISHED) for one in states)
        if not works or self.trouble is not None or self._kept.held or self._kept.hung:
            watch.hear()
        watch.look(self.streams.length, self.record.reported)
        places, self._places = self._places, None
        if places is not None and works:
            known = list(zip(self._kept.ends, places, strict=True))
            self.record.look_at_programs(known)
            found = watch.take(known)
            if found is not None and found.failure is not None and not self._steering.refused:
                self._kept.hung = found.failure.to_json()
                self._kept.save()
                self.ranks.spoken = True
            elif found is not None and found.is_news:
                self.record.event("silence", found.text)
        elif (self._asking is None or not self._asking.is_alive()) and watch.asks(
            self.record.has_doubts
        ):
            self._asking = threading.Thread(target=self._ask, name="silence", daemon=True)
            self._asking.start()
        self.ranks.spoken |= watch.said is not said

    def _ask(self) -> None:
        """Ask the ranks where they are, in a thread: a cluster may take its time."""
        found = self.asker.positions()
        with self._guard:
            self._places = found

    def save(self) -> None:
        """Write what is not urgent."""
        with self._guard:
            self.record.save()

    def update(self, store: Store) -> bool:
        """Bring the directory up to date; tell whether the job is over and all is written."""
        with self._guard:
            self.ranks.spoken = False
            self._look(store)
            if self.directory.deleted:
                return self._forget()
            if self._trainjob is not None:
                if self.directory.cancel.exists():
                    self._steering.delete(self._trainjob)
                elif self._kept.submitting:
                    self._steering.finish(
                        self.directory, self.manifest, self._trainjob, self._has_secrets
                    )
            present = store.pods(*self._known_as)
            self._attempts.look(self._seen, present, self._suspended)
            if self._starts_again:  # as soon as a rank is lost, not when other pods are there
                self._leave()
            if self._attempts.leaving is None:
                ours = replace(self._seen, pods=self._attempts.present_ones())
                self.record.initializers(initializers.look(ours))
            self._fetch_held()
            self._fetch_profiles()
            self._send_bundle()
            self._remember_image()
            self._remember_packages()
            for text in self.lacking:
                self.problem(text)
            over = self._over()
            if over is None:
                self._over_at, self._knows, self._listed_at = None, False, None
                self._say()
                self.record.save()
                return False
            if not self._knows_pods(store):
                self.record.save()
                return False
            now = time.monotonic()
            self._over_at = self._over_at or now
            late = now - self._over_at > timeouts.DRAIN.seconds
            busy = self._fetching is not None and self._fetching.is_alive()
            if self._fetching is not None and (late or self._trainjob is None):
                self._fetching.give_up()
            if busy or not (self.streams.idle or self._is_quiet(now)):
                self.record.save()
                return False
            if not self._has_results():
                return False
            # A sidecar may never end.
            waited = now - self._over_at
            if not self.streams.others_idle and waited < timeouts.LOG_END.seconds:
                return False
            if not self.streams.idle:
                self.problem(say.LAST_LINES_LATE(seconds=f"{timeouts.DRAIN.seconds:g}"))
            self._end(*over)
            return True

    def _leave(self) -> None:
        """Tell a session that its ranks are gone, or about to be."""
        if self.session is None:
            return
        if self._suspended:
            why = judge(self._seen, self.ranks.states()).reason or say.PODS_LEAVE()
        else:
            why = self.ranks.why_lost
        self.session.leave(why)

    def _knows_pods(self, store: Store) -> bool:
        """Make sure, once a job is over, that none of its pods is unknown: their logs are wanted.

        Each kind of object has a watch of its own, and after the API was away that of the pods may
        come back later than that of the TrainJobs.
        """
        if self._knows or self._trainjob is None or self._kept.all_have_spoken:
            return True
        found = self._steering.pods()
        if found is not None:
            for pod in found:
                store.put(ADDED, pod)
            now = time.monotonic()
            self._listed_at = self._listed_at or now
            # Whose they are may be known a moment later.
            self._knows = not store.pending(*self._known_as)
            if not self._knows and now - self._listed_at > timeouts.DRAIN.seconds:
                self._knows = True
                self.problem(say.LOG_OF_NOBODY())
            self.ranks.spoken = True  # they are looked at next
        return False

    def _has_results(self) -> bool:
        """Fetch the results from a store, in a thread: that may take long."""
        table = self.record.state["results"]
        if not table or self._kept.stored is None:
            return True
        if self._settling is None:
            self._settling = threading.Thread(target=self._settle, daemon=True)
            self._settling.start()
        return not self._settling.is_alive()

    def _settle(self) -> None:
        told = self.record.state["results"] or []
        table = fetch.settle(self.directory, told, self._kept.stored)
        with self._guard:
            self.record.results(table)
            self.ranks.spoken = True

    def _is_quiet(self, now: float) -> bool:
        """Return whether for a while no more has come of the logs."""
        length = self.streams.length
        if length != self._length or self.trouble is not None:
            self._length, self._grown_at = length, now
        return now - max(self._grown_at, self._over_at or now) > timeouts.DRAIN.seconds

    def _look(self, store: Store) -> None:
        """Take what the cluster has; a TrainJob of our name may be somebody else's by now."""
        found = store.trainjobs.get(self.name)
        if found is not None and not self._is_ours(found):
            found = None
        self._trainjob = found
        self.wanted = store.wanted(self.name)
        pods, gone = store.pods(*self._known_as), store.take_gone(*self._known_as)
        self._attempts.pods.update(gone)
        self._attempts.pods.update(pods)
        # Messages of other pods don't count as this job's: only their logs are shown.
        if self._uid is not None:
            self.streams.proven.update(
                uid
                for uid, pod in {**gone, **pods}.items()
                if store.lineage.of_pod(pod) == self._uid
            )
        jobs = store.jobs(*self._known_as)
        uids = {*self._attempts.pods, *(job.uid for job in jobs)}
        if found is not None:
            uids.add(found.uid)
        workloads = store.workloads(found)
        self._seen = Seen(
            trainjob=found,
            jobs=jobs,
            jobset=None,
            pods=list(pods.values()),
            events=store.events(self.name, uids),
            workloads=workloads,
            nodes=self.spec.nodes,
            now=time.time(),
            max_restarts=self._most,
            others=store.others(workloads),
        )

    def _is_ours(self, found: TrainJob) -> bool:
        """Return whether a TrainJob of our name is the job's; at first sight its uid is noted."""
        uid = found.uid
        if uid and self._uid is None and uid_of(found) == self.manifest["uid"]:
            self._uid = uid
            with contextlib.suppress(OSError):
                identity.note(self.directory, uid)
        return bool(uid) and uid == self._uid

    @property
    def _known_as(self) -> tuple[str, str, str]:
        """Name, own id and TrainJob uid by which the store finds our pods and Jobs."""
        return self.name, self.manifest["uid"], self._uid or _UNSEEN

    def _say(self) -> None:
        """Say how the job is."""
        if self.trouble is not None:
            silent = say.NO_ANSWER(error=self.trouble)
            self.record.change(self.record.state["state"], silent, silent.hint)
            return
        verdict = judge(self._seen, self.ranks.states())
        again, held = self.record.about_restart(), verdict.state in (State.SUSPENDED, State.QUEUED)
        if self._starts_again and not held:
            lost = f"{self.ranks.why_lost}; {say.ALL_START_AGAIN()}"
            verdict = Verdict(state=State.STARTING, reason=lost)
        elif self._attempts.leaving is not None and not held:
            verdict = Verdict(state=State.PENDING, reason=say.OLD_PODS())
        elif again is not None and verdict.state in (State.PENDING, State.STARTING, State.RUNNING):
            words = f"{again}: {verdict.reason}" if verdict.reason else again
            verdict = replace(verdict, reason=words)
        if verdict.state.ended:  # it is not over before all of it is written: see `_end`
            verdict = replace(verdict, state=self.record.state["state"])
        reason = verdict.reason
        if self._kept.held is not None and self._fetching is not None:
            reason = self._fetching.trouble or self._fetching.doing
        elif self._sending is not None and self._sending.is_alive():
            reason = self._sending.doing
        if self._silence.said is not None and verdict.state == State.RUNNING:
            silence = self._silence.said
            self.record.change(verdict.state, silence.text, silence.hint)
            return
        if reason is None:
            reason = self.unseen
        self.record.change(verdict.state, reason, verdict.hint)

    @property
    def _suspended(self) -> bool:
        """Whether the job is suspended, other than by us to keep it from running again.

        A job that had ended before stays ended.
        """
        found = self._trainjob
        return (
            found is not None and found.suspended and launch.marked(found) is None and self._goes_on
        )

    @property
    def _starts_again(self) -> bool:
        """Whether a rank is lost, and the cluster will start all of them again."""
        return self.ranks.will_start_again(self._most)

    @property
    def _lost_a_rank(self) -> bool:
        """Whether a restartable job has lost a rank through no fault of the cell."""
        return bool(self._most and self.ranks.lost_one)

    # -- the end -------------------------------------------------------------------------------

    def _over(self) -> tuple[State, str | None, Failure | None] | None:
        """Return how the job has ended; None while it has not."""
        if self._trainjob is None:
            if not self.polled or self.trouble is not None or not self._steering.is_gone():
                return None
            cut_off = self._kept.submitting and not self._attempts.pods
            cancelled = self.directory.cancel.exists()
            early = time.monotonic() - self._began < timeouts.SUBMITTER.seconds
            if cut_off and not cancelled and early:
                return None
            if (cut_off or cancelled) and not self._has_no_runtime():
                return None
            if cancelled:
                return State.CANCELLED, CANCELLED, None
            if cut_off:
                failure = Failure(kind="start", message=launch.CUT_OFF, hint=say.RUN_AGAIN())
                return State.FAILED, launch.CUT_OFF, failure
            return State.CANCELLED, say.DELETED(), None
        if self._suspended or self._attempts.leaving is not None:
            return None
        marked = launch.marked(self._trainjob)
        if self._kept.hung is not None and not self._steering.refused:
            hung = Failure.from_json(self._kept.hung)
            if marked is None and self._goes_on:
                self._steering.stop_reruns(self._trainjob, summary(hung))
                return None
            return State.FAILED, summary(hung), hung
        # JobSet deletes the pod of an initializer as soon as it has failed.
        seen = replace(self._seen, pods=[*self._seen.pods, *self._gone_initializers()])
        ended = judge_end(seen)
        once = plan_of(self.manifest)["runs_once"]
        # A rank whose work is done has succeeded, whatever happens to its pod afterwards; and what
        # all ranks have said is known some seconds before the controllers have worked it out.
        succeeded = ended is not None and ended.state == State.SUCCEEDED
        if self._kept.all_finished or (succeeded and not self._kept.broken):
            return State.SUCCEEDED, None if self.session is None else self.session.farewell, None
        final = once and self._kept.broken and not self._lost_a_rank
        spoken = final and self._kept.all_have_spoken
        failed = spoken or ended is not None or marked is not None
        if not failed and (once or not self._kept.broken):
            return None
        verdict = ended or judge(seen)
        if marked is not None and verdict.state != State.FAILED:
            verdict = Verdict(state=State.FAILED, reason=marked)
        failure = failure_of(
            self.directory,
            self._kept.ends,
            self.ranks.where,
            verdict,
            self._attempts.present_ones(),
        )
        failure = after_restarts(failure, self.record.restarts)
        if not once and marked is None and self._goes_on and not self._steering.refused:
            self._steering.stop_reruns(self._trainjob, summary(failure))
            return None
        return (State.FAILED, summary(failure), failure) if failed else None

    def _gone_initializers(self) -> list[Pod]:
        there = {pod.uid for pod in self._seen.pods}
        return [
            pod
            for pod in self._attempts.present_ones()
            if pod.uid not in there and pod.rank is None
        ]

    @property
    def _goes_on(self) -> bool:
        """Whether the cluster may start pods of the job again."""
        found = self._trainjob
        return found is not None and found.condition("Complete", "Failed") is None

    def _has_no_runtime(self) -> bool:
        """See to it that no runtime is left of a job that has no TrainJob to own it."""
        own = plan_of(self.manifest).get("own_runtime")
        self._rid = (
            self._rid
            or not own
            or self._steering.drop_runtime(own_name(self.manifest), self.manifest["uid"], self._uid)
        )
        return self._rid

    def _end(self, state: State, reason: str | None, failure: Failure | None) -> None:
        """Write the end. Whoever sees it finds the results there."""
        table = self.record.state["results"]
        if state == State.SUCCEEDED and not table:
            unseen = self.unseen or (say.OWNER_UNKNOWN() if self.streams.unproven else None)
            lost = nothing_came(self.spec, self.manifest["returns"], unseen)
            self.record.results(lost)
        elif table and self._kept.stored is None:
            self.record.results(fetch.settle(self.directory, table, None))
        self.streams.close()
        self._kept.remove()
        self.ownership.forget()
        self.record.end(state, reason, failure)
        if self.session is not None:
            self.session.finish()

    def _fetch_held(self) -> None:
        """Fetch results that rank 0 holds until somebody takes them; of others only trusted ones.

        The user may grant trust while they are held, so it is checked at each look.
        """
        if self._kept.held is None or self._fetching is not None:
            return
        standing = policy.standing(self.directory, self.manifest)
        if not standing.complete:
            self.problem(say.UNTRUSTED())
            return
        pod = self.record.state["ranks"][self._kept.held["rank"]]["pod"]
        key = self.manifest.get("frame_key")
        if pod and key:
            self._fetching = fetch.Fetch(
                self._client,
                pod,
                self._kept.held,
                key,
                self.directory.result,
                self.problem,
                mine=standing.mine,
            )
            self._fetching.start()

    def _fetch_profiles(self) -> None:
        """Fetch profiles that ranks hold, of the job or of a cell on its ranks."""
        key = self.manifest.get("frame_key")
        for held in self._kept.profiles:
            known = (held["job"], held["rank"], held["taken"]["name"])
            pod = self.record.state["ranks"][held["rank"]].get("pod")
            standing = policy.standing(self.directory, self.manifest)
            if known in self._profiles or not pod or not key or not standing.complete:
                continue
            directory = JobDir(self.directory.path.with_name(held["job"]))
            self._profiles[known] = fetch.Fetch(
                self._client,
                pod,
                held,
                key,
                profiles.archive_of(directory, held["rank"], held["taken"]["name"]),
                self.problem,
                mine=standing.mine,
                on_taken=partial(self._settle_profile, directory, held),
                on_end=partial(self._forget_profile, directory, held),
            )
            self._profiles[known].start()

    def _settle_profile(self, directory: JobDir, held: HeldProfile) -> None:
        """Unpack a fetched profile while the rank waits, so that it is there when the job ends."""
        found = profiles.unpack(directory, held["rank"], held["taken"])
        with self._guard:
            record = self.record
            cell = None if self.session is None else self.session.running_cell
            if cell is not None and cell.directory.path == directory.path:
                record = cell.record
            elif directory.path != self.directory.path:
                return  # the cell has ended without it: the rank has waited for long enough
            record.profiled(held["taken"]["name"], found)

    def _forget_profile(self, directory: JobDir, held: HeldProfile) -> None:
        """Finish with a profile that a rank held; if it is missing, say so."""
        folder = directory.profiles / held["taken"]["name"] / f"rank-{held['rank']}"
        if not folder.exists():
            self._settle_profile(directory, held)
        with self._guard:
            self._kept.profiles.remove(held)
            self._kept.save()
            self.ranks.spoken = True

    def profile(self, asker: Asker, seconds: float) -> tuple[ProfileName | None, str | None]:
        """Have all ranks profiled, for the job or the cell that runs on them; or say why not."""
        with self._guard:
            record = self.record
            if self.session is not None:
                if (cell := self.session.running_cell) is None:
                    return None, channel.NO_CELL_RUNS()
                record = cell.record
            if record.state["state"] != State.RUNNING:
                return None, channel.NOT_RUNNING()
            name = record.begin_profile()
        if name is None:
            return None, channel.TOO_MANY_PROFILES()
        barred = asker.profile(name, seconds)
        with self._guard:
            for rank, why in barred.items():
                record.profiled(name, not_taken(rank, why))
            record.save()
        return {"job": record.job, "name": name}, None

    def _send_bundle(self) -> None:
        """Send the bundle to pods that wait for it."""
        if not self._kept.awaiting or (self._sending is not None and self._sending.is_alive()):
            return
        # A store that attached the job has the cell alone.
        if identity.submitted_here(self.manifest) and self._waiting() is not None:
            self._sending = Sending(
                self._client,
                owner_of(self.ownership.epoch),
                self.directory.bundle,
                self._waiting,
                self._note_progress,
                self.problem,
            )
            self._sending.start()

    def _remember_image(self) -> None:
        """Note what rank 0 has said of its image, when its pod says which one that is."""
        said = self.ranks.image
        name = self.record.state["ranks"][0].get("pod")
        pods = [
            self._attempts.pods[uid] for uid in self.streams.proven & self._attempts.pods.keys()
        ]
        image = next((pod.image for pod in pods if pod.name == name and pod.image), None)
        if said is None or image is None:
            return
        self.ranks.image = None
        if policy.standing(self.directory, self.manifest).mine:
            with contextlib.suppress(OSError, JaxTrainError):  # a full disk: it is sent again
                images.remember(image, plan_of(self.manifest).get("image"), said)
                if self.session is not None:
                    images.note(self.directory, image, said)

    def _remember_packages(self) -> None:
        """Note whether the pods of later jobs have the packages of this one."""
        cached, self.ranks.cached = self.ranks.cached, None
        if cached is None or not identity.submitted_here(self.manifest):
            return
        with contextlib.suppress(OSError, JaxTrainError):  # a full disk: they are sent again
            packagecache.note(
                self.directory.bundle, self.spec, plan_of(self.manifest), there=cached
            )

    def _note_progress(self) -> None:
        self.ranks.spoken = True

    def _waiting(self) -> Waiting | None:
        """Return which pods wait for the bundle."""
        reach = self.reach()
        with self._guard:
            awaiting = set(self._kept.awaiting)
        if reach.target is None or not awaiting:
            return None
        target = reach.target
        addresses = {rank: at for rank, at in target.addresses.items() if rank in awaiting}
        pods = {rank["rank"]: name for rank in reach.ranks if (name := rank.get("pod"))}
        return Waiting(replace(target, addresses=addresses), pods)

    def _forget(self) -> bool:
        """End a job whose directory was deleted: nothing is left that could show it.

        What came from elsewhere goes on in the cluster.
        """
        if not identity.submitted_here(self.manifest):
            self._close()
            return True
        found = self._trainjob
        if found is not None and found.deleted is None and not self._steering.refused:
            self._steering.delete(found)
            return False
        if not self._has_no_runtime() and found is None:
            return False
        self._close()
        return True

    def _close(self) -> None:
        self.streams.close()
        if self.session is not None:
            self.session.finish()
