"""What is said of sessions and their cells, whoever has the ranks."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

SESSION_ENDED = Message(
    "Session {session} has ended: {reason}.",
    "Run the cell again: it starts a new session of that name.",
)
SESSION_REFUSED = Message("Session {session} refused this: {reason}.")
SESSION_ENDS = Message("it is about to end")
SESSION_IS_OVER = Message("session {session} has ended")
PODS_OF_SESSION = Message(
    "{job} runs in the pods of session {session}.", "Name the session: `{session}`."
)
IS_SUSPENDED = Message("it is suspended; `%jaxtrain resume {session}` starts its ranks again")
RESUME = Message(
    "`%jaxtrain resume {session}` starts its ranks again, with any saved variables; then the cell "
    "runs.",
)
NO_CELL = Message("this is not one of its cells")
RANKS_START = Message("its ranks are not ready yet")
RANKS_STARTING = Message("its ranks are starting")
IDLE = Message("idle for {time}")
ENDS_SOON = Message(
    "idle: the session ends in {time}", "A cell, or `%jaxtrain prolong {session}`, keeps it."
)
PROLONGED = Message("prolonged: it may be idle for another {time}")
PROLONGED_FOR_EVER = Message("prolonged: it may be idle for ever")
NOT_IDLE = Message("it is not idle; the limit counts from the end of its last cell")
BEHIND_CELLS = Message("waiting behind {names}")
OF_ANOTHER = Message("{cell} from {place}")
WAITS_FOR_SESSION = Message("waiting for session {session}: {why}")
CELL_TAKEN_BACK = Message("not run, because {cell} before it was taken back")
CELL_BEFORE_FAILED = Message("not run, because {cell} before it did not succeed")
RANKS_RESTARTED = Message("not run, because the ranks of session {session} were restarted")
RANKS_LEFT = Message("not run, because session {session} lost its ranks: {why}")
RESTART_ASKED = Message("a restart was asked for")
RESTARTED = Message("ranks restarted: {reason}")
OUT_OF_STEP = Message(
    "the ranks were out of step after the cell: something that it started runs on some of them only"
)
WAITS_IN_VAIN = Message(
    "no progress: {where}; if this lasts {time}, all ranks are restarted, "
    "without the session's variables"
)
WAITED_IN_VAIN = Message("no progress for {time}: {where}")
LOST = Message("The ranks of the session were restarted, without its variables: {names}.")
NO_LONGER_SHARED = Message(
    "Sent again, and no longer shared with {others} of the session: {names}."
)
DONATED = Message(
    "The values of {names} are lost: this cell donated their buffers to a call and ended before it "
    "bound the result, or the call that computes them failed."
)
READ_DONATED = Message(
    "The cell reads {names}, whose values an earlier cell lost: it donated their buffers to a "
    "call, or the call that computes them failed. Assign {names} again."
)
SAVED_BEFORE_END = Message("saved before its pods end: {names}")
BEGINS_AS_SAVED = Message("The session continues with {names} as saved at {time}.")
DID_NOT_COME_BACK = Message("Lost: {names}.")
LAST_SAVE = Message("`%jaxtrain restore {session}` brings back {names} as saved at {time}.")
COMES_BACK = Message(
    "With checkpoint_dir() on a volume, the next ranks begin with {names} as saved at {time}."
)
LOST_WITH_SESSION = Message("The session was lost with its variables: {names}.")
LAST_SAVE_OF_ENDED = Message(
    "With checkpoint_dir() on a volume, `%jaxtrain restore {session}` in a new session of that "
    "name brings back {names} as saved at {time}."
)
CANCELLED_WITH_RANKS = Message(
    "cancelled by the user; the ranks did not stop in sync and were restarted"
)
CANCELLED_AND_LOST = Message(
    "cancelled by the user; the ranks did not stop in sync and were restarted, without {names}"
)

identify(globals())
