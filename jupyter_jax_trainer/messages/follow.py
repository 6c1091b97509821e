"""What is said of a job in a cluster while it is followed: states, logs, results, attaching."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

LOOKED_UP = Message("being looked up in the cluster")
NO_ANSWER = Message(
    "the cluster does not answer: {error}",
    "The job itself may be fine; the cluster is asked again every few seconds.",
)
SIGNED_OUT = Message("it rejects your credentials; sign in again")
ALL_START_AGAIN = Message("all ranks start again")
POD_LOST = Message("a pod was lost")
OLD_PODS = Message("its previous pods are still terminating")
ONE_OTHER = Message("while 1 other runs and waits")
OTHERS = Message("while {count} others run and wait")
THE_TRAINJOB = Message("the TrainJob")
THE_SECRET = Message("the Secret")
THE_POD = Message("the pod")

DELETED = Message("its TrainJob was deleted from the cluster")
FAILED = Message("it failed")
RUN_AGAIN = Message("Run the cell again.")
NO_MODULE = Message(
    "It is not in the pods' image: add it with --package {package}, or choose another image with "
    "--image."
)
OWN_MODULE_NOT_SENT = Message(
    "`{module}` is in the notebook's folder, but nothing that was sent imports it by this name: "
    "write `import {module}` in the cell."
)
FILE_NOT_SENT = Message("`{file}` is in the notebook's folder; send it with `--files {pattern}`.")

CANT_CHANGE = Message("can't {right}: {error}")
RUNTIME_KEPT = Message("the runtime {name} does not belong to the job and is kept")
NOT_FINISHED = Message("the submission could not be finished: {error}")
BAD_RECORD = Message("an unreadable record was left out")
LOST_LINES = Message("the cluster has lost {lines} of the log (rotation)")
LOST_MESSAGES = Message("the cluster has lost messages {first} to {last}")
NODE_REPORTS = Message("the node reports about the log of {log}: {text}")
FULL_ERROR = Message("The full error is in {path}.")

NOT_BACK = Message("{name!r} did not come back: {reason}")
LOG_END_LOST = Message("the end of the log could not be read")
OWNER_UNKNOWN = Message("the owner of its pods was unknown when they started")
UNTRUSTED = Message("results of an untrusted submitter are not fetched from the pod")
NOT_FETCHED_IN_TIME = Message("the results were not fetched in time")
NEVER_SENT = Message("the job ended before it was sent or fetched")
PARTS_MISSING = Message(
    "parts are missing ({missing} of {count}): log rotation removed them; --store has no such limit"
)
NOT_YOUR_STORE = Message("it is in a --store, which is only read for your own jobs")
DAMAGED = Message("the results were damaged on the way (their sha256 differs)")
FETCHING = Message("fetching its results")
FETCHED_FOR_OTHERS = Message("results fetched; the pod waits until the job's submitter has them")
TOO_LARGE = Message("results of {size} are not fetched: the limit for other users' jobs is {most}")
NO_FETCH_RIGHT = Message("the results can't be fetched: no permission to {right}")
FETCH_REFUSED = Message("the results can't be fetched: {right}: {error}")
FETCH_FAILED = Message("the results can't be fetched now: {error}")
NO_ROOM = Message("they need {needed} more, but only {free} is free here")
POD_CUT_OFF = Message("the connection to the pod was cut off")

SENDING = Message("sending {size} to its pods")
SENDING_SHARE = Message("sending {size} to its pods: {share} % done")
NOT_CACHED = Message(
    "the job's packages can't be kept on the volume that its pods share ({problem}): they are sent "
    "with each job"
)
NO_SEND_RIGHT = Message("its data can't be sent to the pods: no permission to {right}")
SEND_REFUSED = Message("its data can't be sent to the pods: {right}: {error}")
SEND_FAILED = Message("its data can't be sent to the pods now: {error}")
BUNDLE_SHORT = Message("the job's bundle was cut short on this machine")
NOT_HANDED_ON = Message(
    "rank 0 can't reach other pods (rank {ranks}): their data is sent through the cluster's API"
)

RANK = Message("rank {rank}")
POD = Message("pod {pod}")
CONTAINER = Message("container {container} of pod {pod}")
ATTEMPT = Message("attempt {number}, pod {pod}")
RESTART = Message("restart {number}, pod {pod}")
STARTED_AGAIN = Message("started again, pod {pod}")
LINES_LOST_HERE = Message("the cluster has lost {lines} here (log rotation)")
PART_OF_LINE = Message("a part of a line ({size})")
LOG_END_GONE = Message("the end of the log of {log} was gone before it could be read")
LOG_GONE = Message("the log of attempt {number} was gone before it was read")
LOG_OF_GONE = Message(
    "the log of attempt {number} of {log} was gone before it could be read: its node keeps the "
    "last two"
)
LATER_OUTPUT_LOST = Message("the job has ended; later output of this container is not in this log")
NO_END_MARKER = Message(
    "the last lines of the log of {log} may be missing: the worker's end marker never arrived"
)
LAST_LINES_LATE = Message("the last lines of a log may be missing: nothing arrived for {seconds} s")
LOG_OF_NOBODY = Message("a pod's log was left out: its owner is unknown")
LOG_END_UNREADABLE = Message("the end of a log can't be read: {error}")
LOG_NOT_WRITTEN = Message("the log can't be written ({error})")

NO_TRAINJOB = Message(
    "There is no TrainJob {name} in namespace {namespace}.",
    "Choose another cluster or namespace with --context and --namespace.",
)
NO_JOB_HERE = Message("There is no job {name!r} on this machine. {reason}")
ANOTHER_TRAINJOB = Message(
    "TrainJob {name} has the id of job {job}, but is another one: it was recreated, or somebody "
    "copied its annotations.",
    "If it is yours, run `jaxtrain delete {job}`, then attach again.",
)
WAITS_FOR_SECRET = Message(
    "TrainJob {name} still waits for its Secret {secret}.",
    "Attach again when it exists; the YAML of a dry run contains both.",
)
CELL_FORBIDDEN = Message("# The Secret with the cell can't be read: no permission to get secrets.")
NO_CELL = Message("# The job's Secret contains no cell of this package.")
CELL_UNREADABLE = Message("# The bundle with the cell can't be read.")

PACKAGES_AT_FIRST = Message(
    "What a cell imports is sent if it is installed in the notebook. Else end the session with "
    "`%jaxtrain cancel {session}`, and name the package with --package on its first cell."
)
PODS_LEAVE = Message("its pods were stopped, and others may replace them")
STARTED_BY_NODE = Message("was started again by its node")
NO_ROOM_FOR_CELL = Message("a pod has no room for the cell")

identify(globals())
