"""What is said of a cluster as a whole: reaching it, jobs in it, our runtimes in it."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

KUBECONFIG_MISSING = Message(
    "KUBECONFIG names {path}, which does not exist.", "Set it to another file."
)
UNREACHABLE = Message(
    "The cluster at {server} does not answer: {error}.",
    "Check that it is up and that this machine can reach it; `jaxtrain doctor` diagnoses it.",
)
SIGNING_IN = Message(
    "Signing in to the cluster takes too long: the kubeconfig's sign-in program is still running.",
    "Finish signing in; `kubectl get pods` in a terminal shows what it waits for.",
)
THIS_POD = Message("the cluster of this pod")
PLACE = Message("namespace {namespace} of {server}")
NO_RUNTIMES = Message("Namespace {namespace} has no runtimes for JAX.", "Install ours: {install}")
JUST_DELETED = Message("The TrainJob {name} was just deleted.")

CANNOT_FOLLOW = Message("it can't be followed: {problem}")
ANOTHER_CLUSTER = Message(
    "The context {context} now points to another cluster ({server}); the job is on {old}.",
    "Set KUBECONFIG to the file that was used to start the job.",
)
NOT_DELETED = Message("The TrainJob was not deleted: {error}")
GONE = Message("The TrainJob of job {name} no longer exists in the cluster.")
GONE_FROM_CONTEXT = Message("The TrainJob of job {name} no longer exists in the context {context}.")
ALREADY_SUSPENDED = Message("Job {name} is already suspended.")
NOT_SUSPENDED = Message("Job {name} is not suspended.")

ONE_IMAGE = Message(
    "--image names one image, but each device needs its own.",
    "Add --device, or use --registry if the images there have our names.",
)
IMAGE_ALONE = Message("--image can't be combined with --registry, --python or --slim.")
VOLUME_NEEDS_NAMESPACE = Message(
    "--volume names a claim, which belongs to one namespace.", "Add --namespace."
)
PATH_IS_MOUNTED = Message(
    "The runtime already mounts something at {path}.", "Choose another path for --volume."
)
FOR_ONE_NAMESPACE = Message("With --namespace, they are installed for that namespace only.")
CHANGED_BY_OTHERS = Message(
    "The {kind} {name} was changed by others, and installing would overwrite that: {error}",
    "Use --force to overwrite it. Nothing was changed.",
)
APPLIED = Message("{kind} {name}: {what}, {image}")
WOULD_APPLY = Message("{kind} {name}: would be {what}, {image}")
FIELD_CHANGED = Message("{path}: {old} → {new}")
NOTHING = Message("nothing")
IMAGES_MUST_BE_FOUND = Message(
    "The nodes must be able to pull these images, or have them already; --registry sets where to "
    "pull them from."
)

identify(globals())
