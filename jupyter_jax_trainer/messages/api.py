"""What is said at a submission, whatever it comes from: a cell, a function, a command line."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

NOT_A_FUNCTION = Message(
    "The first argument of train() must be a function, not {type}.",
    "To run the text of a cell, use %%jaxtrain.",
)
ARGUMENT_OF_FUNCTION = Message(
    "{name!r} is an argument of the function, not an option of train().",
    "Pass it in func_args: train({call}).",
)
ONLY_WITH_DRY_RUN = Message("--show-secrets only works with --dry-run.")
LARGE = Message(
    "Sending {size} with the cell: {variables}. Data that the cell loads itself need not be sent."
)
NO_SESSION = Message(
    "There is no session {session!r}, or it has ended.",
    "`%%jaxtrain -s {session}` on the first line of a cell starts one.",
)
NO_SESSION_STATE = Message("not started")
NOTHING_SAVED = Message(
    "No variables of session {session} were saved here.", "`%jaxtrain save {session}` saves them."
)
SAVED_BY_OTHERS = Message(
    "The save is from a session with {nodes} ranks, and this one has {now}.",
    "Start the session with -n {nodes}.",
)
NOTHING_RUNS = Message("No cell runs in session {session}.")
CANNOT_WRITE = Message(
    "The job's directory can't be written: {error} ({path}).",
    "Remove old jobs with `jaxtrain delete NAME`, or set JAXTRAIN_HOME to another disk.",
)
NAME_ACTIVE = Message(
    "There is an active job {name!r}.",
    "Follow it with `%jaxtrain attach {name}`, end it with `%jaxtrain cancel {name}`, or choose "
    "another --name.",
)
DEBUG_NOT_SENT = Message(
    "{names}, which is set in the notebook, is not sent to {nodes} processes: where one finds a "
    "NaN, the others may wait for it for ever.",
    "Use --stop-on-nan, one process, or set it in the cell.",
)

identify(globals())
