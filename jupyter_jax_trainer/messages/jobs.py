"""What is said of a job: why it failed, its restarts, its directory, and the store of all jobs."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

NO_JOB = Message("There is no job {job!r}.", "`%jaxtrain jobs` lists them.")
NO_LONGER_EXISTS = Message("Job {job!r} no longer exists.")
HAS_ENDED = Message("Job {job} has already ended: {state}.")
NOT_ENDED_IN_TIME = Message("Job {job!r} has not ended after {timeout:g} s.")
DOES_NOT_END = Message(
    "Job {job!r} does not end after it was cancelled.", "Cancel it again, or kill its processes."
)
CANCEL_ELSEWHERE = Message("Cancel it from the machine that runs it, or kill its processes there.")
SENT_AND_KEPT = Label("{things}; kept {names} (session)")
SENT_AND_KEPT_LARGE = Label("{things}; kept {names} (session, {size})")
ON_DEVICES = Label("{size} on {devices} devices")
NOTHING = Message("nothing new")
RENAMED = Message("{wanted} is taken by an ended job; this one is {job}")

NOT_FINITE = Label("{metric} was {value} at step {step} (rank {rank})")
USES_CPU = Label("CPU {cores} cores")
USES_MEMORY = Message("memory {memory}")
USED_IN_ALL = Label("{memory} used by all")
USES_GPU = Label("GPU {percent} %")
USES_DEVICE = Message("device memory {memory}")
USES_POWER = Label("{watts} W")
PART_OF = Label("{used} of {limit}")
OF_RANK = Label("{what} (rank {rank})")
TIGHT = Label("{ranks} uses {share} % of its {limit} and grows")
TIGHT_DEVICE = Label("{ranks} uses {share} % of the {limit} of its device {device} and grows")
TIGHT_MACHINE = Label("{share} % of the {limit} of the machine of {ranks} are in use, and it grows")
NO_SAMPLES = Message("the resources of this rank are not known: {problem}")
LAST_MINUTE = Message("Memory of rank {rank} in its last {seconds} s: {course} of {limit}.")
LAST_MINUTE_SHARED = Message(
    "Memory of rank {rank} in its last {seconds} s: {course}; {used} of {limit} used by all."
)
LAST_MINUTE_OF_DEVICE = Message(
    "Memory of device {device} of rank {rank} in its last {seconds} s: {course} of {limit}."
)
LARGEST_ARRAYS = Message("Largest arrays: {arrays}.")
NO_NAME = Label("(no name)")
UNKNOWN = Message("an unknown amount")

PROGRAMS_DIFFER = Message(
    "different programs: {found}; all ranks must run the same programs in the same order, or they "
    "hang"
)
SAME_FUNCTION_DIFFERS = Message(
    "different programs: {found}; shapes, dtypes or constants of `{name}` differ, and the ranks "
    "may hang"
)
WAIT_BESIDE = Message(
    "different programs: {found} but not on {others}, and all of them wait for each other; shapes "
    "may differ, as with a smaller last batch"
)
RAN_BESIDE = Message(
    "different programs: {found}, while {others} ran another `{name}`; shapes or dtypes differ, "
    "and results may be wrong"
)
COMPILE_THIS = Message("`{name}` on {ranks}")
COMPILE_THIS_AT = Message("`{name}` ({line}) on {ranks}")
STRAGGLER = Message(
    "rank {rank} costs up to {percent} % of each step: it spends {late} more outside jax than any "
    "other rank"
)
WAITING = Message("waiting")
STARTING = Message("starting")
IMPORTING = Message("importing")
COMPILING = Message("compiling")
LOADING = Message("data")
ON_HOST = Message("other Python")
IN_STEPS = Message("steps")
SAVING = Message("checkpoints")
ELSE = Message("other")
PART_OF_TIME = Message("{part} {time}")
GOODPUT = Message("goodput {percent} %: {parts}")
COMPILED_FUNCTION = Message("`{name}` {time}")
NO_COMPILE_CACHE = Message("compiled programs are not kept for later jobs: {problem}")
COMPILED = Message("compiled {misses} in {seconds}")
FOUND_COMPILED = Message("{hits} from the compile cache saved {saved}")

NO_CONTAINER_LOG = Message("Job {job!r} has no log of container {container!r}.")
NO_RANK = Message("Job {job!r} has no rank {rank}; its ranks are 0 to {last}.")
ONLY_RANK_0 = Message("Job {job!r} has no rank {rank}, only rank 0.")
METRIC_NOT_REPORTED = Message(
    "None of these jobs has reported {metric!r}.", "Reported metrics: {known}."
)
NO_METRICS = Message("None of these jobs has reported a metric.")

SUBMITTING = Message("is being submitted")
SUBMISSION_CUT_OFF = Message(
    "its submission was cut off; nothing was started", "Run the cell again."
)
DIRECTORY_DELETED = Message("its directory was deleted")
PROCESS_GONE = Message("the process that ran the job is gone: killed, or the machine was restarted")
RUN_AGAIN_FROM_CHECKPOINTS = Message(
    "Run the cell again; checkpoints are kept in the job's directory."
)

ALL_START_AGAIN = Message("all ranks start again: {restart}")
RESTART = Message("restart {number} of {most}, {reason}")
RESTART_CONTINUES = Message("restart {number} of {most} continues at step {step}")
RESTART_CONTINUED = Message("restart {number} of {most} continued at step {step}")
ATTEMPT_HAD_REACHED = Message("{restart}; the previous attempt had reached {reached}")
RESUMED = Message("resumed at step {step}; it had reached {reached} before")

TOLD_BY_OTHERS = Message(
    "failed first: {error}", "Reported by the other ranks; this rank's log is unavailable."
)
OUT_OF_MEMORY = Message(
    "was killed by the system: out of memory",
    "Use smaller batches or fewer processes on this machine, or send less.",
)
NEVER_STARTED = Message("never started")
KILLED = Message(
    "was killed (signal 9)",
    "The system kills processes when memory runs out; otherwise somebody killed it.",
)
ABORTED = Message("aborted (signal 6)", "Native code aborted; see the end of the rank's log.")
CRASHED_EARLY = Message(
    "crashed (signal 11) before the rendezvous: most likely its port was taken",
    "Run the cell again.",
)
ENDED_BY_SIGNAL = Message("was ended by signal {number} ({name})")
_EXITED = (
    "The process was ended by os._exit() or native code, without an exception; see the end of its "
    "log."
)
EXITED = Message("ended with exit code {code}")
EXITED_IN_CELL = Message(
    "ended with exit code {code} before the cell was finished",
    _EXITED,
)
EXITED_BEFORE_JOINING = Message(
    "ended with exit code {code} before it joined the others",
    _EXITED,
)
NO_JAX = Message(
    "found no jax in the chosen image or Python ({error})",
    "Choose a --runtime or an --image with Python and JAX.",
)
FREE_SPACE = Message("Free some space; `jaxtrain delete NAME` removes old jobs.")
ONLY_RANKS = Message("rank {ranks} of {nodes}")
USE_LESS_MEMORY = Message("Use smaller batches, more nodes, or send less.")
USE_LESS_DEVICE_MEMORY = Message(
    "Use smaller batches, more nodes, or send less. A kernel that has used the same GPU keeps most "
    "of its memory: restart it."
)
LOST_RANK = Message(
    "lost another rank ({error})",
    "If none of the ranks was lost, check that all of them run every collective, in the same "
    "order.",
)
OUT_OF_RESTARTS = Message("{message}, after {restarts}")

RANK_FINISHED = Message("rank {rank} has finished")
RANKS_FINISHED = Message("ranks {ranks} have finished")
RANK_IS_AT = Message("rank {rank} is {place}")
WAITED_FOR_FINISHED = Message(
    "Ranks are waiting for others that have finished: every collective must run on all ranks."
)
RANKS_ARE_AT = Message("ranks {ranks} are {place}")
RANK_WAITS = Message("rank {rank} waits in a collective {place}")
RANKS_WAIT = Message("ranks {ranks} wait in a collective {place}")
RANK_COMPILES = Message("rank {rank} compiles `{function}` {place}")
RANKS_COMPILE = Message("ranks {ranks} compile `{function}` {place}")
IN_CALL = Message("in {call} ({line})")
AT_LINE = Message("at {line}")
CELL_LINE = Message("{cell} line {line}")

RANK_FAILED_FIRST = Message("rank {rank} failed first: {error}")
RANK_FAILED = Message("rank {rank}: {error}")
RANK_ENDED = Message("rank {rank} {how}")
JOB_FAILED = Message("Job {job!r} failed: {failure}")
NO_REASON = Message("the reason is not known")
JOB_CANCELLED = Message("Job {job!r} was cancelled.")
JOB_CANCELLED_BECAUSE = Message("Job {job!r} was cancelled: {reason}.")
STOPPED_BECAUSE_OF_IT = Message("{ranks} stopped because of it.")
LAST_LINES = Message("The last lines of {whose}:")
FULL_CONTAINER_LOG = Message("`%jaxtrain logs {job} --container {container}` shows the full log.")
FULL_LOGS = Message("`%jaxtrain logs {job}` shows what the ranks printed.")
LEFT_OUT = Message("left out: {count:,} characters")
REST_IN_LOG = Message("see the log of rank {rank}")

_DAMAGED = (
    "The job's other files can still be read by hand. To get rid of the job, delete {directory}."
)
FILE_MISSING = Message("{path} is missing.", _DAMAGED)
FILE_DAMAGED = Message("{path} is damaged: {error}.", _DAMAGED)
FIELD_DAMAGED = Message("{path} is damaged: {field} is missing or has the wrong type.", _DAMAGED)
OTHER_FORMAT = Message(
    "{path} has format {found!r}; this version reads format {known}.",
    "Use the version of jupyter_jax_trainer that wrote it, or delete the directory.",
)
NOT_A_JSON_OBJECT = Message("not a JSON object")
NOT_A_REGULAR_FILE = Message("not a regular file")
CODE_UNREADABLE = Message("The cell's code in {path} can't be read: {error}.")
DAMAGED = Message("damaged: {error}")

STORE_ID_DAMAGED = Message(
    "{path} does not hold the id of the job store.", "Delete it; a new one is made."
)
STORE_UNUSABLE = Message(
    "The job store {path} can't be used: {error}.",
    "Set JAXTRAIN_HOME to another directory, one that you can write to.",
)
STORE_BELONGS_TO = Message(
    "The job store can't be trusted: {path} belongs to {owner}.",
    "Its owner could run code as you. Set JAXTRAIN_HOME to a directory of your own, or, if "
    "everything in it is yours: sudo chown -R {me} {quoted}",
)
STORE_WRITABLE = Message(
    "The job store can't be trusted: others can write to {path} (mode {mode:04o})."
)
CHECK_AND_CLOSE_STORE = Message(
    "Whoever can write there can run code as you. Check that nothing in it is suspicious, then: "
    "chmod go-w {quoted}"
)
MOVE_STORE = Message("Set JAXTRAIN_HOME to a directory of your own.")
MOVE_STORE_BELOW = Message("Set JAXTRAIN_HOME to a directory of your own, below it if you like.")
STORE_PATH_BELONGS_TO = Message(
    "The job store can't be trusted: {path}, on the path to it, belongs to {owner}.",
    "Its owner could put another store in its place. Set JAXTRAIN_HOME to a directory outside it.",
)
STORE_PATH_WRITABLE = Message(
    "The job store can't be trusted: others can write to {path}, on the path to it "
    "(mode {mode:04o})."
)
CLOSE_STORE_PATH = Message("They could put another store in its place: chmod go-w {quoted}")
LEAVE_STORE_PATH = Message(
    "They could put another store in its place. Set JAXTRAIN_HOME to a directory outside it."
)
STORE_DAYS = Message("{variable} takes a number of days such as 30, not {value}.")

CANNOT_LOCK = Message(
    "Files in the job store {path} can't be locked: {error}.",
    "Set JAXTRAIN_HOME to a directory on a local disk.",
)
_LOCKS = (
    "Remove it, or ask an administrator to: the next job makes a new one. It isn't needed where "
    "JAXTRAIN_HOME is on a local disk."
)
LOCKS_ARE_A_LINK = Message("The directory of job locks, {path}, is a symbolic link.", _LOCKS)
LOCKS_ARE_NO_DIRECTORY = Message("The path of job locks, {path}, is not a directory.", _LOCKS)
LOCKS_BELONG_TO = Message("The directory of job locks, {path}, belongs to {owner}.", _LOCKS)
LOCKS_WRITABLE = Message("Others can write to the directory of job locks, {path}.", _LOCKS)

_SETTINGS = "Its format is in the documentation: Settings, On the end of a job."
SETTINGS_WRITABLE = Message(
    "Others can write to {path}, which names a command.", "Close it: `chmod go-w {path}`."
)
SETTINGS_UNREADABLE = Message("{path} can't be read: {error}.")
SETTINGS_NO_TOML = Message("{path} is not valid TOML in UTF-8.", _SETTINGS)
ON_END_UNKNOWN = Message("The table on_end of {path} takes {keys}, and nothing else.", _SETTINGS)
ON_END_NEITHER = Message("The table on_end of {path} needs one of command and url.", _SETTINGS)
ON_END_WRONG = Message("The value of {key} in the table on_end of {path} is invalid.", _SETTINGS)
ON_END_TEXT = Label("Job {job} {state} after {time}")
ON_END_COMMAND = Message("the on_end command ran for {took}")
ON_END_URL = Message("the on_end webhook accepted the notification in {took}")
ON_END_FAILED = Message("the on_end notification failed: {error}")
ON_END_EXIT = Message("the command ended with exit code {code}; its output is in {output}")
ON_END_ANSWER = Message("the webhook answered with status {status}")
ON_END_NO_CONNECTION = Message("no connection to the webhook: {error}")
ON_END_LATE = Message("stopped after {limit} ({variable})")
ON_END_CUT_OFF = Message(
    "the on_end notification was cut off when its process was killed; it is not sent again"
)
ENDED_BEFORE_PROFILE = Message("the rank ended before its profile was taken")
PROFILE_TAKEN = Message("profile {name}: {size} from {ranks}")
PROFILE_OF_NONE = Message("profile {name}: no rank delivered one")
PROFILE_LACKS = Message("{ranks}: {problem}")
PROFILE_LEFT_OUT = Message("too large for JAXTRAIN_PROFILE_BYTES: {files} of {ranks}")

identify(globals())
