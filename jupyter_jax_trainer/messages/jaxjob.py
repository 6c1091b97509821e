"""What is said of JAXJobs that are converted: what refuses one, and the report beside the YAML."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

NO_OBJECT = Message(
    "Expected a JAXJob of kubeflow.org/v1, but this is no Kubernetes object.",
    "Get one with `kubectl get jaxjob NAME -o yaml`.",
)
ANOTHER_KIND = Message(
    "Expected a JAXJob of kubeflow.org/v1, but this is a {kind} of {version}.",
    "Get one with `kubectl get jaxjob NAME -o yaml`.",
)
INCOMPLETE = Message("The JAXJob is incomplete: {error} is missing or misplaced.")
ONLY_WORKER = Message("Expected Worker and nothing else in spec.jaxReplicaSpecs.")
BAD_REPLICAS = Message("Worker.replicas must be 1 or more, not {replicas!r}.")
NO_CONTAINER = Message("The Worker's pod has no container.")
NO_JAX_CONTAINER = Message(
    "The Worker's pod has several containers, and none is named jax.",
    "Name the training container jax, as the training operator requires.",
)
NOT_STRINGS = Message(
    "The container's {field} must be a list of strings, not {value!r}.",
    'Quote numbers: ["--steps", "100"].',
)
UNNAMED_VARIABLE = Message("An environment variable has no name: {variable!r}.")
NAME_TOO_LONG = Message(
    "The name {name} is too long: pod names would exceed 63 characters.",
    "Give the JAXJob a name of at most {longest} characters.",
)

BEFORE = Label("Before applying:")
CHANGED = Label("Changed:")
LOST = Label("Not carried over:")
NOTHING_TO_KNOW = Message("Everything was converted.")

DELETE = Message(
    "Delete the JAXJob {name}: it is still in its cluster, and both would run otherwise."
)
DELETE_OR_SUSPEND = Message(
    "Delete or suspend the JAXJob {name}: it is still in its cluster, and both would run otherwise."
)
HAS_ENDED = Message(
    "The whole job, which has {end}: it would run again and might overwrite its files. Use --all "
    "to convert it anyway."
)

CONTAINER_RENAMED = Message("The container {old} is now named {new}.")
PORT_MOVED = Message("The coordinator's port is {port}, no longer {old}, and need not be declared.")
PORT_NAMED = Message("Port {number} is now named {name}.")
OLD_HOST = Message(
    "A command, argument or variable refers to {old}, but no pod has that name. Rank 0 is at "
    "$COORDINATOR_ADDRESS."
)
OLD_PORT = Message(
    "A command, argument or variable refers to :{port}; the coordinator's port is "
    "$COORDINATOR_PORT."
)

NO_TTL = Message(
    "Finished TrainJobs stay until they are deleted; ttlSecondsAfterFinished has no counterpart."
)
NO_CLEANUP = Message(
    "The pods of a finished job stay until the job is deleted; cleanPodPolicy: All has no "
    "counterpart."
)
NO_SCHEDULING = Message(
    "Gang scheduling needs a queue (label {label}) or the runtime's podGroupPolicy; "
    "schedulingPolicy.{field} has no counterpart."
)

BACKOFF_UNUSED = Message("With restartPolicy: Never, backoffLimit had no effect.")
WAS_UNLIMITED = Message("The job restarted without limit; now it fails after {most} restarts.")
ALL_RESTART = Message(
    "With restartPolicy: {policy}, all ranks now restart when one fails (restart limit: {most}), "
    "since one rank alone can't rejoin."
)
SUCCESS_IS_FINAL = Message("A rank that succeeded is not restarted.")

QUEUE_DROPS_PATCHES = Message(
    "Kueue up to 0.16 drops runtimePatches from jobs with the label {label}, and JobSet rejects "
    "what is left. Move these settings to the runtime {runtime}, or convert without --runtime."
)
RUNTIME_RESTARTS = Message(
    "The runtime {runtime} decides about restarts, not restartPolicy and backoffLimit."
)
RUNTIME_DECIDES = Message(
    "A TrainJob can't set {what}; the runtime {runtime} decides. Without --runtime, the job gets "
    "its own runtime."
)
POD_FIELD = Message("spec.{field} of the pod")
OTHER_CONTAINER = Message("the container {name}")
CONTAINER_FIELD = Message("the field {field} of the container")

NO_JAXJOB = Message(
    "There is no JAXJob in {file}.", "`kubectl get jaxjobs -o yaml` prints those of a namespace."
)
NO_YAML = Message("PyYAML is needed to read YAML.")
NOT_YAML = Message("{file} is not valid YAML: {error}.")

identify(globals())
