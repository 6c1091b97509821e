"""What the commands of ``%jaxtrain`` and ``jaxtrain`` say."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

OPTION_FIRST = Message(
    "Expected a command, but got the option {option}.",
    "Put the options of a job on the first line of its cell: %%jaxtrain {words}",
)
UNKNOWN_COMMAND = Message("Unknown command {name}.", "`%jaxtrain help` lists the commands.")
OPTIONS_OF_SCRIPT = Message(
    "Options of the script itself follow a `--`: `jaxtrain run train.py -- --lr 0.1`."
)
TOO_FEW_WORDS = Message("`{command}` needs more arguments.", "Usage: jaxtrain {usage}")
TOO_MANY_WORDS = Message(
    "`{command}` got an unexpected argument: {word}.", "Usage: jaxtrain {usage}"
)
UNKNOWN_ACTION = Message("`{command}` has no action {action}.")
CANNOT_READ = Message("Can't read {file}: {error}.")

NO_JOBS_YET = Message(
    "There are no jobs yet.", "To start one, put %%jaxtrain on the first line of a cell."
)
NO_MATCH = Message("No job matches {pattern!r}.", "`%jaxtrain jobs --all` lists all jobs.")
ATTACH_WHICH = Message("`attach` needs the name of a job to look for in the cluster.")

NO_JOBS = Message("There are no jobs.")
NO_JOBS_IN_STATE = Message("There are no jobs in state {state}.")
OLDER_JOBS = Message("… and {count} older; `jobs --all` lists them.")
NO_TRAINJOBS = Message("No matching TrainJobs in namespace {namespace}.")
MADE_ELSEWHERE = Message("other tools")
AT_STEP = Message("{value} at step {step}")

NO_SESSIONS = Message(
    "There are no sessions.", "To start one, put %%jaxtrain -s NAME on the first line of a cell."
)
NO_VARIABLES = Message("Session {session} has no variables yet.")
ALL_CELLS_ON = Message(
    "All cells of this notebook now run in session {session}. A cell below %%here runs in this "
    "kernel; `%jaxtrain use --no-all-cells` turns this off."
)
ALL_CELLS_OFF = Message("Cells of this notebook run in this kernel again.")
ALL_CELLS_WITHOUT_SESSION = Message(
    "--all-cells needs a session.", "Name it, as in `%jaxtrain use -s lab --all-cells`."
)
INSTALLS_HERE = Message(
    "`{line}` runs in this kernel; session {session} does not change.",
    "On this machine, `%jaxtrain restart {session}` lets its ranks import what is new; on "
    "Kubernetes, name packages with --package when the session starts.",
)
CHANGES_KERNEL = Message("`{line}` changes this kernel; session {session} does not change.")
DIFFERS = Message("differs on {ranks}")
SESSION_RESTARTS = Message("The ranks of session {session} are being restarted.")
SESSION_INTERRUPTED = Message("The cell that ran in session {session} was stopped.")
IDLE_OF = Message("{spent}, ends in {left}")
SAVED = Message("Saved {names} ({size}).")
RESTORED = Message("Restored {names} as of {time}, {age} ago.")
NOT_SAVED = Message("Not saved: {names}. Only arrays that still have their values are saved.")
NOT_RESTORED = Message("Not restored, as only arrays are saved: {names}.")
SESSION_PROLONGED = Message("Session {session} may be idle for longer.")
BUFFERS_GONE = Message("deleted")
SESSION = Label("Session")
ITS_JOB = Label("Job")
RUNS = Label("Runs")
WAIT = Label("Waiting")
IDLE = Label("Idle")
VARIABLES = Label("Holds")
LOST = Label("Lost")
CAME_BACK = Label("Restored")
AS_SAVED = Label("{names}, as saved {age} ago")

SHOW_WHICH = Message(
    "`show` needs the name of a TrainJob.", "`jobs --backend kubernetes` lists them."
)
STEP = Message("step {step}")
HOW_TO_ATTACH = Message("`jaxtrain attach {name}` follows it.")

RANK_AND_CONTAINER = Message("--rank and --container can't be used together.")
NOTHING_PRINTED = Message("Job {name} has printed nothing.")
OTHER_CONTAINERS = Message("Logs of other containers: --container {names}")
LAST_LINES = Message("These are the last {count} lines; --tail N shows more.")

ATTACH_NEEDS_NAME = Message("{option} needs a job name.")
TAKES_OVER = Message("Job {name}: its ranks answer to this machine from now on.")
DETACHED = Message(
    "Detached. Job {name} keeps running.\n"
    "`jaxtrain attach {name}` follows it again, `jaxtrain cancel {name}` cancels it."
)
LOADED_IN_NOTEBOOK = Message("Loaded into the notebook: {names}")
LOADED_IN_SESSION = Message("Loaded into the session: {names}")
HOW_TO_PRINT = Message("`jaxtrain result {name}` prints {names}.")

WAITING_FOR_END = Message("Job {name} is {state}; waiting for it to end.")
RESULT_HAS_NO_NAME = Message(
    "Job {name} was started by train(), so its result has no name.",
    "value = jupyter_jax_trainer.job({name!r}).result()",
)
NO_RESULTS = Message("The job returned no variables.")

ENDED_ALREADY = Message("Job {name} has already ended: {state}.")
NAMESAKE_ACTIVE = Message("The last job of that name is active: `cancel {name}` stops it.")
ASK_CANCEL = Message("Job {name} has been running for {time}. Cancel it?")
NOT_CANCELLED = Message("Job {name} was not cancelled.")
CANCELLED = Message("Job {name} was cancelled.")

DELETE_WHICH = Message("`delete` takes job names, or --all for all jobs that have ended.")
ASK_DELETE_ACTIVE = Message("Job {name} is {state}. Cancel and delete it?")
WOULD_DELETE_ACTIVE = Message(
    "Job {name} is {state}; deleting it would cancel it.", "To confirm: `delete {name} --yes`"
)
NOT_DELETED = Message("Job {name} was not deleted.")
DELETED = Message("Job {name} was deleted.")
DELETED_HERE = Message(
    "Job {name} was deleted on this machine only. Somebody else submitted it, so its TrainJob "
    "was kept."
)
NONE_ENDED = Message("No jobs have ended.")
ENDED_JOB = Message("the only job that has ended")
ENDED_JOBS = Message("all {count} jobs that have ended")
ASK_DELETE_ENDED = Message("Delete {jobs} ({size})?")
WOULD_DELETE_ENDED = Message(
    "This would delete {jobs} ({size}).", "To confirm: `delete --all --yes`"
)
NOTHING_DELETED = Message("Nothing was deleted.")

KEPT = Message("Job {name} is kept: only `delete` removes it.")
NOT_KEPT = Message("Job {name} is no longer kept.")
PRUNE_WHAT = Message(
    "`prune` needs a limit.",
    "For example: `prune --older-than 30d`. To set a permanent limit, use {days} or {bytes}.",
)
NOTHING_TO_PRUNE = Message("There is nothing to delete.")
ASK_PRUNE = Message("Delete {jobs} with logs, results and checkpoints ({size})?")
WOULD_PRUNE = Message(
    "This would delete {jobs} with logs, results and checkpoints ({size}).",
    "To confirm, add --yes.",
)
PRUNED = Message("Deleted {jobs}.")

SUSPENDED = Message(
    "Job {name} is suspended: its pods are being stopped. `resume {name}` restarts it from the "
    "beginning of its cell."
)
RESUMED = Message("Job {name} was resumed.")

USE_WITHOUT_NOTEBOOK = Message(
    "`use` sets defaults for a notebook, so it does nothing here.",
    "In a terminal, give the options with each command.",
)
DEFAULTS = Message("Defaults of this notebook: {line}")
NO_DEFAULTS = Message("No defaults are set.")

KEY_USAGE = Message("Usage: `jaxtrain key export FILE` or `jaxtrain key import FILE`.")
KEY_EXPORTED = Message(
    "Wrote key {keys} to {file}. Anyone who has it can make jobs that count as yours: copy it "
    "only to your other machines, then delete it."
)
KEY_IMPORT_FORBIDDEN = Message(
    "Importing keys is not allowed: the administrator forbids results of other people's jobs "
    "({setting}), and everything signed with an imported key would count as yours."
)
NO_NEW_KEY = Message("The file has no new keys.")
KEY_IMPORTED = Message(
    "Imported key {keys}: all jobs signed with it, now or later, count as yours here. Their "
    "results are loaded and their HTML is shown without asking, and both may run code. If it is "
    "not your own key, remove it from {file}."
)
SIGNED_WITH_IMPORTED = Message(
    "Your jobs from this machine are now signed with it, too: anyone who has it can make jobs "
    "that count as yours."
)
STILL_SIGNED_WITH = Message(
    "Your jobs from this machine are still signed with key {key}; `key export` copies that one "
    "to your other machines."
)

INSTALL_ONLY = Message("{option} is only for `runtimes install`.")
INSTALL_TAKES_NO_NAMES = Message(
    "`runtimes install` takes no names.", "--device selects the runtimes."
)
SHOW_WHICH_RUNTIME = Message(
    "`runtimes show` needs the name of a runtime.", "`runtimes` lists them."
)
CANNOT_LIST_CLUSTER = Message("Can't list the runtimes of the cluster: {error}")
NO_RUNTIME = Message("There is no runtime {name} on this machine, and no cluster is configured.")
UNUSABLE_RUNTIME = Message("{name} can't be used: {problem}")

NO_PROBLEMS = Message("No problems found.")
WHAT_TO_DO = Message("What to do:")
CHECKS_FAILED = Message("Jobs can't run here yet: {failed} of {count} checks failed.")

identify(globals())
