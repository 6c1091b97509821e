"""What is said in a report of a job, and in the folder that runs it again."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

WRITTEN = Message("Wrote {path}.")
EXPORTED = Message("Wrote {path}; its README.md says how to run the job.")
CANNOT_WRITE = Message("{path} can't be written: {error}.")
NOT_EMPTY = Message("{path} exists and is not empty.", "Name a new folder.")
NO_BUNDLE = Message(
    "What was sent to job {job!r} is not on this machine, so it can't be rerun from here.",
    "Export it on the machine that submitted it.",
)
IS_SESSION = Message(
    "{job!r} is a session, or a cell of one: it needs the variables of the cells before.",
    "Run the code as a job of its own, without -s, and export that.",
)

OPTIONS = Label("Options")
CREATED = Label("Created")
TOOK = Label("Took")
WHERE = Label("Where")
COMPILER = Label("XLA")
FAILURE = Label("Failure")
METRICS = Label("Metrics")
MORE_METRICS = Label("… and {count} more")
RANKS = Label("Ranks")
RANK = Label("Rank")
STATE = Label("State")
EXIT = Label("Exit code")
RESTARTS = Label("Restarted")
HOST = Label("Host")
SENT = Label("Sent")
RESULTS = Label("Results")
NAME = Label("Name")
TYPE = Label("Type")
SIZE = Label("Size")
EVENTS = Label("Events")
LOG = Label("End of the log")
NO_LOG = Message("Nothing was printed.")
ENVIRONMENT = Label("Environment")
PACKAGES = Label("All {count} packages of the notebook")
MADE_BY = Label("jupyter-jax-trainer {version}; what looks like a secret is hidden")

identify(globals())
