"""What every backend says: of a name that is none, and of what this backend can't do."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

UNKNOWN = Message("Unknown backend {name!r}; this version has {known}.")

NO_NAMESPACES = Message("The backend {backend} has no namespaces.")
RUNTIMES_HAVE_NO_YAML = Message("Runtimes of the backend {backend} have no YAML.")
CHECKS_NO_RUNTIMES = Message("The backend {backend} can't check runtimes.")
INSTALLS_NO_RUNTIMES = Message("The backend {backend} can't install runtimes.")
CONVERTS_NOTHING = Message("The backend {backend} can't convert jobs of other tools.")
CANNOT_SUSPEND = Message(
    "Jobs of the backend {backend} can't be suspended.",
    "`cancel {job}` ends it; what it has saved in checkpoint_dir() is kept.",
)
NO_SESSIONS = Message(
    "The backend {backend} has no sessions.",
    "Leave out --session, or choose another --backend.",
)
IDLE_TOO_LONG = Message("A session may be idle for {most} at most here.", "Use --idle {most}.")
IDLE_WITHOUT_SESSION = Message("--idle needs --session: it says when a session ends.")
RANK_WITHOUT_SESSION = Message(
    "--rank needs --session: only a cell of a session can run on some of its ranks."
)
NO_SUCH_RANK = Message(
    "--rank {rank}: the session has the ranks 0 to {last}.", "Leave --rank out to run on all."
)
NOT_WITH_SESSION = Message(
    "{option} can't be combined with --session.", "--idle says when a session ends by itself."
)
TO_SESSION = Message("goes to its session")
SESSION_HAS_OPTIONS = Message(
    "Session {session} is already running with other values of {options}.",
    "Leave them out, or end it with `%jaxtrain cancel {session}`; the next cell then starts a "
    "new one.",
)
NAME_OF_JOB = Message(
    "The name {session} belongs to a running job that is not a session.",
    "Choose another name for --session.",
)
JOB_HAS_NO_YAML = Message("Job {job} is not a cluster object and has no YAML.")
SILENT = Message(
    "no report, output or change of line for {time}: {where}",
    "If the job is meant to be quiet, ignore this. --hang-timeout ends jobs that are stuck.",
)
NO_ANSWER = Message("no answer from {ranks}")
HUNG = Message(
    "hung for {time} (--hang-timeout): {where}",
    "Every collective must run on all ranks; checkpoints are kept.",
)
ONLY_JOBS_OF_THIS_MACHINE = Message("The backend {backend} only has the jobs of this machine.")

identify(globals())
