"""What is said while a job is submitted to a cluster: refusals, notes, and the dry run."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

PRIORITY_NEEDS_QUEUE = Message(
    "--priority sets the priority in Kueue and requires --queue.",
    "Without a queue, the runtime sets the priority of the pods.",
)
OLD_TRAINER = Message(
    "This cluster has Kubeflow Trainer {version}, but 2.2 or newer is required.",
    "Ask the platform engineer to install Kubeflow Trainer 2.2 or newer.",
)
UNPATCHED_TRAINER = Message(
    "This cluster's Kubeflow Trainer is older than 2.2.",
    "Ask the platform engineer to install Kubeflow Trainer 2.2 or newer.",
)
NO_TRAINER = Message(
    "This cluster has no Kubeflow Trainer (no API trainer.kubeflow.org/v1alpha1).",
    "Ask the platform engineer to install it (2.2 or newer), or omit --backend.",
)

NO_SUCH_RUNTIME = Message("No runtime {name} is available in namespace {namespace}.")
NOT_FOR_JAX = Message("The runtime {name} is not for JAX: it has no mlPolicy.jax.")
AVAILABLE = Message("Available: {names}.")
INSTALL_OURS = Message("The platform engineer can install ours: {install}")
WRONG_DEVICE = Message(
    "The runtime {runtime} is for {device}, but {wanted} was requested.", "Omit one of the two."
)
NO_RUNTIME = Message(
    "Namespace {namespace} has no JAX runtime for {device}.",
    "Ask the platform engineer to install ours: {install} --device {device}",
)
NO_RUNTIME_AMONG = Message(
    "Namespace {namespace} has no JAX runtime for {device}; available: {names}.",
    "Choose one with --runtime, or ask the platform engineer to install ours: {install} --device "
    "{device}",
)
ON_GPU = Message("on GPU by default (--device cpu for the CPU)")
ON_CPU = Message("on CPU: {reason}")
NO_SUCH_INITIALIZERS = Message("no GPU runtime has exactly the initializers of this job")
QUEUE_WITHOUT_GPUS = Message("the queue {queue} has no GPUs")
QUEUE_TOO_SMALL = Message(
    "{nodes} × {each} GPUs would be needed, but the queue {queue} has {count}"
)
CLUSTER_TOO_SMALL = Message("{nodes} × {each} GPUs would be needed, but the cluster has {count}")
DEPRECATED = Message(
    "The runtime {name} is deprecated. Choose another; `%jaxtrain runtimes` lists them."
)
RUNTIME = Message("{kind}, image {image}")
RUNTIME_WITHOUT_IMAGE = Label("{kind}, no image")
DEPRECATED_RUNTIME = Message("deprecated; {description}")

NO_INITIALIZER = Message("--{option} needs a runtime with a {initializer}, but {runtime} has none.")
OTHER_RUNTIMES = Message("Choose another --runtime: {names}.")
INSTALL_INITIALIZER = Message(
    "The platform engineer can install one; docs/guides/platform-engineer/runtimes.md has an "
    "example."
)
INITIALIZER_FAILS = Message(
    "The runtime {runtime} starts its {initializers} for every job, which fails without {options}."
)
ADD_OR_CHOOSE = Message("Add {options}, or choose another --runtime: {names}.")
ADD_OR_INSTALL = Message(
    "Add {options}, or choose another --runtime; docs/guides/platform-engineer/runtimes.md says "
    "which can be installed."
)

GANG_UNAVAILABLE = Message(
    "The runtime {runtime} has podGroupPolicy.{policy}, but {scheduler} is not installed.",
    "Choose another --runtime. {advice}",
)
GANGS = Label("Gang scheduling")
GANG_POLICY = Message("podGroupPolicy.{policy}")
GANG_POLICY_UNMET = Message("podGroupPolicy.{policy}: {scheduler} is not installed")
INSTALL_SCHEDULER = Message(
    "Install it, or remove podGroupPolicy from the runtime: until then, Trainer never creates the "
    "pods of its jobs."
)

LABEL_GUESSED = Message(
    "No permission to list nodes, so --accelerator {accelerator} is taken as {label}={value}. Use "
    "LABEL=VALUE to select another label."
)
UNKNOWN_PRODUCT = Message(
    "No node has {label}={value}. To match a node that is added later, give the full product name "
    "as NVIDIA writes it, such as NVIDIA-B200."
)
AMBIGUOUS_ACCELERATOR = Message(
    "--accelerator {accelerator} matches several: {values}.", "Name one of them."
)
WRONG_DIMENSIONS = Message(
    "--topology {topology} has {dimensions} dimensions, but slices of {accelerator} have "
    "{expected}.",
    "Topologies of v5e and v6e are written AxB, those of v4, v5p and tpu7x AxBxC.",
)
NO_NODE_WITH = Message("There is currently no node with {resource}, so the job waits for one.")
NO_NODE_LABELLED = Message(
    "There is currently no node labelled {labels}, so the job waits for one."
)
NO_NODE_LABELLED_BUT = Message(
    "There is currently no node labelled {labels} (available: {others}), so the job waits for one."
)
NO_LABELLED_NODE_WITH = Message(
    "There is currently no node labelled {labels} with {resource}, so the job waits for one."
)
NODES_TOO_SMALL = Message(
    "No node currently has {each} of {resource} (matching nodes: {count}, with at most {most}), "
    "so the job waits for one."
)
LABELLED_NODES_TOO_SMALL = Message(
    "No node labelled {labels} currently has {each} of {resource} (matching nodes: {count}, with "
    "at most {most}), so the job waits for one."
)
TOO_FEW_NODES = Message(
    "The job needs {nodes} nodes with {each} of {resource} each, but the cluster has room for "
    "{room}, so the job waits for more."
)

NO_SECRET = Message(
    "Namespace {namespace} has no Secret {name} (--env-from-secret).",
    "kubectl create secret generic {name} --from-literal=KEY=VALUE",
)
HOST_FIELD_OF = Message("{field} of {job}")
VOLUME_OF = Message("volume {name} of {job}")
SYSCTL_OF = Message("sysctl {name} of {job}")
HOST_PORT_OF = Message("hostPort {port} of container {name} of {job}")
CONTAINER_OF = Message("container {name} of {job}")

NO_KUEUE = Message(
    "--queue {queue} can't be used: this cluster has no Kueue.",
    "Omit --queue; the job then starts as soon as its pods fit.",
)
NO_QUEUE = Message("Namespace {namespace} has no queue {queue}.")
MAKE_QUEUE = Message("It has no queues; the platform engineer can create a LocalQueue.")
NO_PRIORITY = Message("This cluster has no WorkloadPriorityClass {priority} (--priority).")
OMIT_PRIORITY = Message("It has none; omit --priority.")
KUEUE = Label("Kueue {version}")
UNKNOWN_KUEUE = Label("Kueue (version unknown, assumed 0.16)")
OPTIONS_NOT_IN_QUEUE = Message(
    "{options} can't be used with --queue: {kueue} drops the TrainJob's runtimePatches.",
    "Use a --runtime that includes these settings. Kueue 0.17 and newer keeps runtimePatches.",
)
RUNTIME_NOT_IN_QUEUE = Message(
    "The runtime {runtime} lacks {settings}. With --queue that can't be added: {kueue} drops the "
    "TrainJob's runtimePatches.",
    "Choose a --runtime that includes it, such as ours.",
)
RESTRICTED_SETTINGS = Message(
    "the settings of PodSecurity restricted, which the namespace enforces"
)
MESH_LABEL = Message("the label that keeps its pods out of the namespace's mesh")
INACTIVE_QUEUE = Message("the queue is not active")
TAINT_NOT_TOLERATED = Message(
    "The runtime {runtime} does not tolerate the taint {taint}, and the toleration can't be added "
    "in a queue of this Kueue. Nodes with the taint won't run the job unless the cluster adds the "
    "toleration."
)
NO_RIGHT_TO_RESTART = Message(
    "--max-restarts needs a TrainingRuntime made for the job, but you have no permission to "
    "{verbs} trainingruntimes in namespace {namespace}.",
    "The Role jupyter-jax-trainer-restarts of runtimes/rights.yaml grants it. Without "
    "--max-restarts, the job runs once.",
)

NAME_TOO_LONG = Message(
    "The name {name} has {length} characters, but this runtime allows {most} with --nodes {nodes}.",
    "Pod names are made from it and are limited to 63 characters.",
)
NAME_IS_ACTIVE = Message(
    "Namespace {namespace} already has an active TrainJob {name}.",
    "Follow it with `%jaxtrain attach {name}`, or choose another --name.",
)
PYTHON_DIFFERS = Message(
    "{names} came from Python {here}, but the runtime {runtime} has Python {there}: functions and "
    "classes can't be sent from one to the other.",
    "Choose a --runtime or --image with the same Python, or define them inside the cell.",
)
LARGE_RESULTS = Message(
    "The results of --out may be large: {results}. Up to {most} travel with the log; more is "
    "fetched through the API for up to 10 minutes at the end. With --store, it stays in the store."
)
TOO_LARGE = Message(
    "The job takes {size}, but a Kubernetes Secret carries {most}, and you may not send more "
    "through port-forwards (create pods/portforward).",
    "Ask for that permission, load the data inside the cell, for example from a volume "
    "(--volume PVC:/path), or use --store with a path or URL that this machine and the pods can "
    "access.",
)
TOO_LARGE_IN_QUEUE = Message(
    "The job takes {size}, but a Kubernetes Secret carries {most} with --queue (Kueue up to 0.16 "
    "drops volumes from TrainJobs), and you may not send more through port-forwards (create "
    "pods/portforward).",
    "Ask for that permission, load the data inside the cell, for example from a volume of the "
    "runtime, or use --store with a path or URL that this machine and the pods can access.",
)

UNREADABLE_WHEEL = Message("--package {path} can't be read: {error}.")
WHEELS_TOO_LARGE = Message("the wheels take {size}, and the limit is {most}")
NO_HASH = Message("the index gives no sha256 for {name} {version}")
PIP_FAILED = Message("pip failed")
PIP_TIMED_OUT = Message("pip timed out after {seconds:.0f} s")
WHEEL_NOT_BUNDLED = Message(
    "The wheels of --package {packages} can't be bundled: {problem}.",
    "Use an image that has the packages.",
)
NOT_BUNDLED = Message(
    "--package {packages} can't be bundled: {problem}.",
    "With --package-from-pods, pip in the pods installs it from the index configured there. Or "
    "give wheels (--package ./some.whl), a --store, or an --image that has it.",
)
NO_PIP = Message(
    "--package {packages} can't be sent with the job: {problem}.",
    "The image of this runtime has no pip. Use a --store, which takes wheels of any size, or an "
    "--image that has the packages.",
)
DEPENDENCIES_NOT_BUNDLED = Message("The dependencies of {packages} are not bundled: {problem}.")
OFFERED = Message(
    "The packages in image {image} are unknown: {packages} ({size} in all) are sent in case it "
    "lacks them."
)
OFFERED_TO_TAG = Message(
    "{packages} ({size} in all) are sent in case image {image} lacks them. To send only what it "
    "lacks, name it by its digest: --image {digest}."
)
PIP_IN_PODS = Message(
    "The pods install {packages} with pip and need access to an index: the wheels can't be "
    "bundled, because {problem}."
)

ON_KUBERNETES = Message("on Kubernetes, namespace {namespace}, runtime {runtime}")
DRY_RUN = Message("Nothing was started. Sent with the job ({size}):")
MODULE_FILE = Message("module file")
MORE_FILES = Message("and {count:,} more files")
WOULD_UPLOAD = Message("The bundle itself would be copied to {target}")
WOULD_SEND_LATER = Message(
    "The pods would get {size} from this machine while they start; with kubectl apply, "
    "they never get it."
)
WOULD_OMIT = Message(
    "Packages ({size}) would not be sent: an earlier job has left them on the volume of the pods."
)
HOW_TO_APPLY = Message(
    "Start it with `kubectl apply --server-side -f -`; remove it with `kubectl delete -f -`."
)
MASKED_YAML = Message("Secrets are masked as {masked}, so this can't be applied.")
SHOW_SECRETS = Message(
    "Add --show-secrets for YAML that can be applied with `kubectl apply --server-side -f -`."
)
APPLY_AGAIN = Message("Apply it again if Trainer does not know the runtime yet.")
SECRETS_MASKED = Message("Secrets are masked as {masked}.")

STORE_NOT_WRITABLE = Message(
    "Cannot write to the store {url} from here: {error}.",
    "--store takes a URL, or a path that this machine and all nodes can access.",
)
NO_FSSPEC = Message(
    "Reading and writing {url} requires fsspec, which is not installed.",
    "pip install fsspec and the package for this kind of store (s3fs, gcsfs, …)",
)
FOLDER_NOT_DELETED = Message(
    "The job's folder {folder} was not deleted: {reason}. Delete it yourself if it belongs to the "
    "job."
)
ANOTHER_JOBS_FOLDER = Message("it belongs to another job")
UNMARKED_FOLDER = Message("it has no file {name} (version 0.1 did not write one)")
TRAINJOB_STAYS = Message("the TrainJob can't be deleted: {error}")
RUNTIME_STAYS = Message("the runtime {name} can't be deleted: {error}")

identify(globals())
