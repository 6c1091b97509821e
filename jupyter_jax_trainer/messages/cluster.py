"""What is said of the Kubernetes API: rights, connections, kubeconfigs, what TrainJobs claim."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

NO_PERMISSION = Message("no permission to {right}, so {lost}")
RIGHT_ON_ONE = Message("{verb} {resource} {name} in {namespace}")
NO_START = Message("no job can be started")
LATE_CHANGES = Message("changes are only seen every two seconds")
NO_PATCH = Message(
    "jobs can't be suspended or resumed, and runtimes that rerun failed cells can't be stopped"
)
NO_CANCEL = Message("jobs can't be cancelled")
NO_OWN_RUNTIMES = Message("runtimes of the namespace can't be used")
NO_LIST_OF_OWN_RUNTIMES = Message("runtimes of the namespace are not found")
NO_RUNTIMES_BY_NAME = Message("runtimes of the cluster can't be chosen by name")
NO_LIST_OF_RUNTIMES = Message("runtimes of the cluster are only found by name (--runtime)")
LOGS_MIXED = Message("logs of restarted containers may be mixed up")
NO_RANKS = Message("ranks, logs and results can't be shown")
LATE_RANKS = Message("ranks are only seen every two seconds")
NO_LOGS = Message("logs, progress and results can't be shown")
NO_FORWARD = Message(
    "data over 8 MiB and results over 4 MiB need a --store, and ranks can't be asked where they are"
)
NO_WAIT_REASON = Message("the reason why a job waits is often unknown")
NO_POD_REASON = Message("the reason why pods are not created is unknown")
NO_OWNERS = Message("pods can't be matched to jobs, and only logs and the state are shown")
NO_JOBS = Message(
    "the reason why pods are not created is unknown, pods can't be matched to jobs, and only logs "
    "and the state are shown"
)
NO_SECRETS = Message(
    "attaching to a job from another machine and --env-from-secret work only in part"
)
NO_RESTARTS = Message("jobs can't restart automatically (--max-restarts)")
NO_QUEUE_REASON = Message(
    "the reason why a job waits in its queue, and how many are ahead of it, are unknown"
)
NO_QUEUE_CHECK = Message("a queue that doesn't exist is only reported after submission")
NO_CLASS_CHECK = Message("a priority class that doesn't exist is only reported after submission")
NO_QUEUE_SUSPEND = Message("jobs in a queue can't be suspended or resumed")
NO_FREE_QUOTA = Message("the picker can't show free quota")
NO_KUEUE_VERSION = Message("the version is unknown and assumed to be 0.16")
NOT_SHOWN = Message("something can't be shown")

WEB_PAGE = Message(
    "it answers with a web page instead of the API: the address is wrong, or there is a login page "
    "or a proxy in between"
)
REFUSED_BY_PAGE = Message("a web page instead of the API")
REFUSED_BY_TITLED_PAGE = Message("a web page ({title}) instead of the API")
REDIRECTS = Message("it redirects: there may be a login page or a proxy in between")
REDIRECTS_TO = Message("it redirects to {target}: there may be a login page or a proxy in between")
NO_REASON = Message("no reason given")
FORWARD_REFUSED = Message("the connection to the pod was refused ({reason})")
NO_CONNECTION = Message("no connection")
UNKNOWN_HOST = Message("its host name can't be resolved")
CONNECT_TIMEOUT = Message("connecting timed out")
ANSWER_TIMEOUT = Message("it took too long to answer")
PROXY_UNREACHABLE = Message("the configured proxy can't be reached: {error}")
CUT_OFF = Message("the connection was cut off")
NO_TLS = Message("it does not speak TLS (http:// instead of https://?)")
UNTRUSTED_CERTIFICATE = Message("its certificate can't be trusted: {error}")
TLS_FAILED = Message("TLS failed: {error}")
BODY_DAMAGED = Message("the response body is damaged")
NOT_JSON = Message("its answer is not JSON")
NOT_AN_OBJECT = Message("its answer is not a JSON object")
UNEXPECTED_ANSWER = Message("its answer has an unexpected form ({error})")
WATCH_CUT_OFF = Message("the watch was cut off: {error}")

UNVERIFIED = Message(
    "The kubeconfig sets insecure-skip-tls-verify for this cluster: the identity of {server} is "
    "not verified, but it receives your token and jobs."
)
OTHER_CLUSTER = Message("Context {context} now points to another cluster ({server}).")
NOT_RENEWED = Message("your credentials can't be renewed: {error}")
SIGN_IN_SLOW = Message("signing in takes too long: the kubeconfig's sign-in program is still busy")

NOT_INSTALLED = Message("The package kubernetes is not installed.", "Install it: {command}")
NO_KUBECONFIG = Message(
    "There is no context {context}: no kubeconfig was found.", "Set KUBECONFIG to the file."
)
NO_CLUSTER = Message(
    "No cluster is configured: there is no kubeconfig, and this is not a pod.",
    "Set KUBECONFIG to the file; without --backend, jobs train on this machine.",
)
NO_CLUSTER_NO_FILE = Message(
    "No cluster is configured: KUBECONFIG is {path}, which does not exist, and this is not a pod.",
    "Set KUBECONFIG to the file; without --backend, jobs train on this machine.",
)
BAD_SERVICE_ACCOUNT = Message("This pod's service account can't be used: {error}")
NO_CURRENT_CONTEXT = Message(
    "The kubeconfig has no current context.", "Choose one with --context: {contexts}."
)
NO_CONTEXTS = Message("The kubeconfig has no contexts.")
UNKNOWN_CONTEXT = Message("The kubeconfig has no context {context}.")
BAD_CONTEXT = Message("Context {context} can't be used: {error}")
NO_CREDENTIALS = Message(
    "{program}, the kubeconfig's sign-in program, gave no credentials ({reason}).",
    "Sign in with it; `kubectl auth whoami` shows whether that worked.",
)
UNREADABLE_KUBECONFIG = Message("The kubeconfig {path} can't be read: {error}.")
BAD_KUBECONFIG = Message("The kubeconfig can't be used: {path} is not a kubeconfig.")
BAD_KUBECONFIG_LINE = Message(
    "The kubeconfig can't be used: {path} is not a kubeconfig (line {line})."
)
BAD_YAML = Message("line {line}: {problem}")
NOT_A_KUBECONFIG = Message("it is not a kubeconfig")

NOT_OURS = Message(
    "TrainJob {name} was not made by this version of jupyter_jax_trainer.",
    "To see its logs: kubectl logs -l jobset.sigs.k8s.io/jobset-name={name}",
)
INVALID_ANNOTATION = Message(
    "TrainJob {name} can't be attached: invalid annotation. {reason}",
    "It must have been written by jupyter_jax_trainer. "
    "To see its logs: kubectl logs -l jobset.sigs.k8s.io/jobset-name={name}",
)
NESTED_TOO_DEEPLY = Message("Nested too deeply.")
INVALID_FIELD = Message("Field {field} can't be {value}.")

identify(globals())
