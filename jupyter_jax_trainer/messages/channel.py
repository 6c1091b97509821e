"""What is said where the writer of a job is asked something."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

NOBODY_ANSWERS = Message(
    "The process that runs {job} can't be reached: {error}",
    "It may have been started by an older version, or run on another machine.",
)
SILENT = Message(
    "The process that runs {job} did not answer within {seconds} s.",
    "The machine may be overloaded; JAXTRAIN_ASK_TIMEOUT sets the limit.",
)
IN_CALL = Message("{line} in {call}")
NO_ANSWER = Message("no answer")
ON_CLUSTERS = Message(
    "A rank that can't be asked reports where it is after {seconds:g} s at the same line."
)
NO_RANKS_YET = Message("Job {job} has no ranks yet: it is {state}.")
ONE_OWNER = Message("Jobs of the backend {backend} have one job store: {job} can't be taken over.")
NOT_TO_BE_TAKEN = Message(
    "Job {job} can't be taken over: somebody else submitted it, so only its state and log are "
    "shown.",
    "If it is yours, copy your key to this machine: `jaxtrain key import FILE`.",
)
NO_CHANNEL = Message("Ranks of the backend {backend} can't be asked where they are.")

NO_PROFILE = Message("No profile of {job}: {reason}.")
OLD_WRITER = Message("the process that runs it is of an older version")
TOO_MANY_PROFILES = Message("it already has the maximum number")
NOT_RUNNING = Message("its ranks are not running")
NO_CELL_RUNS = Message("no cell runs in the session")
CANNOT_PROFILE = Message("Jobs of the backend {backend} can't be profiled while they run.")
ONLY_WHERE = Message("the process that runs the job can only say where its ranks are")

ANOTHER_USER = Message("the socket belongs to another user")
NOT_PROVEN = Message("the other end does not know the job's key")
OTHER_VERSION = Message("its pods speak another version of the protocol")
NOT_SUPPORTED = Message("its pods run an older version, which does not know {ask!r}")
NOT_THE_OWNER = Message("another job store has taken over this job")
TAKEN_OVER = Message(
    "another job store has taken over the channel of this job; "
    "`jaxtrain attach {job} --take-over` takes it back"
)
ASKED_ELSEWHERE = Message(
    "another job store has the channel of this job; "
    "`jaxtrain attach {job} --take-over` takes it over"
)
TOOK_OVER = Message("this job store has taken over the channel of the job")
NOT_TAKEN = Message("other job stores keep taking over")
NO_RIGHT = Message("no permission to {right}; `jaxtrain doctor` says where to get it")
NO_FORWARD = Message("port-forwarding fails: {error}; `jaxtrain doctor` checks the connection")
FAILED = Message("the channel failed: {error}")
NO_WAY_THERE = Message(
    "rank 0 can't reach their pods on port {port}; `jaxtrain doctor` checks the NetworkPolicies"
)
NOT_LISTENING = Message("their pods don't listen on any port")
NOT_YOURS = Message("somebody else submitted the job")
NOT_SAID = Message("its first pod has not said where its channel is; it may be of an older version")
NO_FOLLOWER = Message("the process that follows the job does not answer")

ALL_RANKS = Message("the ranks")
UNASKED = Message("Can't ask {ranks}: {reason}. This is what they last reported.")
NO_CHANNEL_TO = Message(
    "No channel to {ranks}: {reason}. Without it, there are no profiles, and ranks report where "
    "they are only when stuck."
)
NOT_REACHED = Message("no connection to {ranks}; `jaxtrain doctor` checks the NetworkPolicies")
BUSY = Message("its ranks are being asked something else")
CONNECTION_CLOSED = Message("the connection was closed")

identify(globals())
