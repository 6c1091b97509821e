"""What the doctor finds in a cluster: subjects, what was seen, and what to do about it."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

KUBERNETES = Label("Kubernetes")
PACKAGE = Label("Package kubernetes")
CLUSTER = Label("Cluster")
CERTIFICATE = Label("Certificate")
NAMESPACE = Label("Namespace")
TRAINER = Label("Kubeflow Trainer")
RUNTIMES = Label("JAX runtimes")
RUNTIME = Label("Runtime {name}")
JOB_SET = Label("JobSet")
KUEUE = Label("Kueue")
QUEUES = Label("Queues")
RIGHTS = Label("Rights")
QUEUE_RIGHTS = Label("Rights for queues")
RESTART_RIGHTS = Label("Rights for restarts")
FORWARDS = Label("Port-forwards")
TRIAL = Label("Trial")
CLOCK = Label("Clock")
FOLLOWER = Label("Follower")
IMAGE = Label("Image")
SETTINGS = Label("Namespace settings")
MESH = Label("Service mesh")
POD_SECURITY = Label("PodSecurity")
QUOTA = Label("Quota")
LIMIT_RANGE = Label("Limit range")
NETWORK_POLICY = Label("Network policy")
CONTAINER = Label("Container")
POLICY = Label("Policy")
DEVICE = Label("Device")
PYTHON = Label("Python")
RESTARTS = Label("Restarts")
SCRATCH = Label("Scratch space")
TAINTS = Label("Taints")
SHARED_FOLDER = Label("Shared folder")
SUPPORT = Label("Support")

NO_CLUSTER = Message("no kubeconfig; jobs run on this machine")
NO_KUBECONFIG = Message(
    "no kubeconfig, and this is not a pod", "Set KUBECONFIG, or put it into ~/.kube/config."
)
NO_PACKAGE = Message("package not installed")
INSTALL_PACKAGE = Message("pip install '{requirement}' (version 36 corrupts logs)")
AT = Message("{server}, namespace {namespace}")
AT_CONTEXT = Message("{server}, namespace {namespace}, context {context}")
UNVERIFIED = Message(
    "the kubeconfig sets insecure-skip-tls-verify for this cluster",
    "Add the cluster's certificate-authority to the kubeconfig; without it, anyone who intercepts "
    "the connection gets your token and jobs.",
)
NO_NAMESPACE = Message(
    "there is no namespace {namespace}", "Choose another with --namespace, or have it created."
)

NONE = Message("none")
INSTALL_OURS = Message("Install ours: {command}")
CONVERTED_RUNTIMES = Message(
    "only those of converted JAXJobs: {names}",
    "Only jobs that name one (--runtime) use it. Install ours: {command}",
)
RERUNNING_RUNTIMES = Message(
    "all rerun failed cells: {names}",
    "A follower has to stop such jobs. Ours run a cell once: {command}",
)

NO_QUEUES = Message("none in namespace {namespace}")
DROPS_PATCHES = Message(
    "{kueue} drops what a job adds to its runtime: with --queue, --volume, --service-account, "
    "--accelerator and --topology are refused. Put them into a runtime, or install Kueue 0.17.",
)
NO_VERSION = Message("unknown version")
ASSUMED_VERSION = Message(
    "Its version can't be read ({reason}), so it is assumed to be 0.16, which drops what a job "
    "adds to its runtime: with --queue, --volume, --service-account, --accelerator and --topology "
    "are refused. Put them into a runtime.",
)
NO_DEPLOYMENT = Message("no Deployment {name} in namespace {namespace}")
NO_VERSION_RIGHT = Message("no permission to {right}")

ALL_RIGHTS = Message("all that are needed in namespace {namespace}")
MISSING_RIGHTS = Message("missing: {rights}")
LOST = Message("Without them: {lost}. The Role in runtimes/rights.yaml has all.")
LOST_IN_QUEUES = Message("Without them: {lost}. runtimes/queue-rights.yaml has all.")
LOST_RESTARTS = Message(
    "Without them: {lost}. The Role jupyter-jax-trainer-restarts in runtimes/rights.yaml has them."
)

UPGRADES = Message("the API can be reached by WebSockets")
NO_UPGRADE = Message("the API can't be reached by WebSockets ({reason})")
LET_UPGRADES_THROUGH = Message(
    "Without them: {lost}. Have the proxy in front of the API let `Upgrade: websocket` through."
)

NO_JOB_SET = Message(
    "not installed, but Trainer needs it", "Have it installed: Trainer's manifests include it."
)
INSTALLED = Message("installed")
NO_NODE = Message(
    "no replicated job node with a container node",
    "Trainer puts the job's command there: rename them, or use another runtime.",
)
DEPRECATED = Message("is deprecated", "Choose another with --runtime.")
RUNTIME_PYTHON = Message(
    "has Python {there}, but this is {here}",
    "It can't read functions and classes of a notebook: use Python {there} here or another "
    "--runtime, or define them inside the cell.",
)
NO_GANG = Message(
    "has podGroupPolicy.{policy}, but {scheduler} is not installed",
    "Have it installed, or remove podGroupPolicy from the runtime: as it is, Trainer never creates "
    "the pods of its jobs.",
)
REFUSED = Message("a job would be refused: {error}")
ACCEPTED = Message("a job of {runtime} would be accepted")
CLOCK_AHEAD = Message(
    "this clock is {seconds} s ahead of the cluster's",
    "Logs and events have the cluster's times, and credentials may count as expired: set this "
    "machine's clock.",
)
CLOCK_BEHIND = Message(
    "this clock is {seconds} s behind the cluster's",
    "Logs and events have the cluster's times, and credentials may count as expired: set this "
    "machine's clock.",
)
FOLLOWER_ENDED = Message(
    "ended with an error: {error}", "It restarts the next time a job is shown."
)
NO_JAX = Message(
    "job {name} found no jax in {image}",
    "Use an image that has Python and jax (--image, or another --runtime).",
)

NOTHING_IN_THE_WAY = Message("nothing blocks jobs")
NOTHING_SEEN_IN_THE_WAY = Message("nothing blocks jobs (no permission to read {what})")
AMBIENT = Message(
    "all pods of the namespace join Istio's ambient mesh",
    "A mesh can break the rendezvous of the ranks: use a namespace without it.",
)
LINKERD = Message(
    "all pods of the namespace join Linkerd's mesh",
    "A mesh can break the rendezvous of the ranks: use a namespace without it.",
)
ISTIO = Message(
    "pods of {runtimes} join Istio's mesh",
    "Have them labelled {label}, as ours are. Jobs patch that in, but not with --queue; ranks may "
    "not find each other then.",
)
UNKNOWN_LEVEL = Message(
    "unknown whether the namespace enforces restricted (needs get on the namespace, or create on "
    "pods). If it does, the first job of {runtimes} fails and later ones comply"
)
NOT_MET = Message(
    "the namespace enforces restricted; not met by {runtimes}",
    "Use a runtime whose pods meet it, as ours do. Jobs patch it in, but not with --queue; their "
    "pods are refused then.",
)
NEVER_MET = Message(
    "the namespace enforces restricted, which jobs of {runtime} can't meet: {why}",
    "Use another runtime, or have these changed in it: jobs can't override them.",
)
USED_UP = Message(
    "quota {name} is used up: {amounts}",
    "Jobs can't start until others in the namespace end or are deleted, or the ResourceQuota is "
    "raised.",
)
NO_AMOUNTS = Message("pods must state {amounts}, and those of {runtime} don't")
NO_CPU_LIMIT = Message(
    "No option states limits.cpu: have a LimitRange set a default, or state it in the runtime."
)
GIVE_AMOUNTS = Message("Give {options} with each job, or have a LimitRange set a default.")
OUT_OF_RANGE = Message(
    "runtime {runtime} asks for {amount} {resource}, but the namespace allows {most}",
    "Give --{resource} with each job, or have the LimitRange changed.",
)

CUT_OFF = Message("pods of a job are cut off from each other by {policies} ({rules})")
CUT_OFF_OF = Message(
    "pods of a job of {runtimes} are cut off from each other by {policies} ({rules})"
)
CHANNEL_CLOSED = Message(
    "rank 0 can't ask the others where they are: {policies} ({rules}) close TCP port {port}"
)
CHANNEL_CLOSED_OF = Message(
    "rank 0 of jobs of {runtimes} can't ask the others where they are: {policies} ({rules}) close "
    "TCP port {port}"
)
OPEN_PORT = Message(
    "Jobs run without; `where` then shows what ranks last reported. To open it, add "
    "{{protocol: TCP, port: {port}}} to the ports that are open between pods of a job."
)
ALLOW_INGRESS = Message(
    "Jobs of more than one node need that traffic: add a NetworkPolicy with "
    "ingress: [{{from: [{{podSelector: {{}}}}]}}]."
)
ALLOW_EGRESS = Message(
    "Jobs of more than one node need that traffic: add a NetworkPolicy with "
    "egress: [{{to: [{{podSelector: {{}}}}]}}], and one that allows DNS."
)

NAME_AN_IMAGE = Message("Name one; without it, each job needs an --image.")
NO_ML_POLICY = Message(
    "no mlPolicy.jax, only the label",
    "Without it ranks don't find each other, and jobs have one node: add mlPolicy.jax: {{}}.",
)
RUNS_ONCE = Message("a failed cell is not rerun")
RERUNS = Message(
    "a failed cell is rerun until a follower stops it",
    "Set restartPolicy: Never, backoffLimit: 0 and no failurePolicy.maxRestarts.",
)
HAS_SCRATCH = Message("an emptyDir is mounted")
NO_SCRATCH = Message(
    "no emptyDir is mounted: jobs patch it in",
    "Mount one for HOME and TMPDIR; with --queue and Kueue up to 0.16 jobs can't be patched.",
)
OUTSIDE_MESH = Message("excluded")
INSIDE_MESH = Message(
    "may include the pods: jobs patch it in",
    'Label the pods sidecar.istio.io/inject: "false"; with --queue and Kueue up to 0.16 jobs '
    "can't be patched.",
)
RESTRICTED = Message("meets restricted")
NOT_RESTRICTED = Message(
    "does not meet restricted: jobs patch it in",
    "Copy our securityContext; with --queue and Kueue up to 0.16 jobs can't be patched.",
)
TOLERATED = Message("its devices' taint is tolerated")
NOT_TOLERATED = Message(
    "its devices' taint is not tolerated: jobs patch it in",
    "Copy our toleration; with --queue and Kueue up to 0.16 jobs can't be patched.",
)
CHECKPOINTS_THERE = Message("checkpoints go to {folder}")
NOT_SHARED = Message(
    "no volume that outlives the pods contains {folder}",
    "Mount one there, or remove the annotation {annotation}.",
)
RUNTIME_DEPRECATED = Message("deprecated", "Users are told to choose another.")
NO_PYTHON_LABEL = Message(
    "no label states it",
    "Label it {label}: cells that can't be read there are refused before a start.",
)
ANOTHER_PYTHON = Message(
    "{there}; this is {here}", "It can't read functions and classes of a notebook here."
)

identify(globals())
