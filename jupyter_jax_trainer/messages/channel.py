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
    "A rank that can't be asked reports where it is after it has stood still for {seconds:g} s."
)
NO_RANKS_YET = Message("Job {job} has no ranks yet: it is {state}.")
NO_CHANNEL = Message("Ranks of the backend {backend} can't be asked where they are.")

ANOTHER_USER = Message("the socket belongs to another user")
NOT_PROVEN = Message("the other end does not know the job's key")
OTHER_VERSION = Message("its pods speak another version of the protocol")
NOT_SUPPORTED = Message("its pods run an older version, which does not know {ask!r}")
NOT_THE_OWNER = Message("another job store has taken over this job")
CONNECTION_CLOSED = Message("the connection was closed")

identify(globals())
