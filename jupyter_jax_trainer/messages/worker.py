"""What a rank says: errors of the worker, and notices in its log. It travels with the worker."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

ANOTHER_PYTHON = Message(
    "{names} came from Python {sent}, but this job runs Python {here}: functions and classes can't "
    "be sent from one to the other. Choose a runtime with the same Python, or define them inside "
    "the cell."
)
NOT_IN_A_JOB = Message(
    "Inside a job, jupyter_jax_trainer.{name} is not available: only report() and checkpoint_dir() "
    "are."
)
CANNOT_LOAD = Message("{name!r} can't be loaded in this job: {error}")
INVALID_TIMEOUT = Message(
    "{variable} must be a positive number of seconds, not {value!r}.",
    "Unset it for the default, {usual:g}.",
)

PORT_TAKEN = Message(
    "Port {port} on 127.0.0.1 is taken by another process.",
    "Unset JAX_COORDINATOR_PORT to use a free port.",
)
NO_COORDINATOR_ADDRESS = Message(
    "JAX_COORDINATOR_ADDRESS is not set in this pod: its runtime has no policy for JAX.",
)
_ADVICE = "Check the pods and logs of the other ranks; {variable} sets the timeout."
RANKS_MISSING = Message(
    "Rank {rank} waited {timeout:g} s at {address}, but not all {nodes} ranks joined.", _ADVICE
)
NO_ANSWER = Message(
    "Rank {rank} waited {timeout:g} s for rank 0 at {address}, which did not answer ({problem}).",
    _ADVICE,
)
ALREADY_INITIALIZED = Message(
    "jax.distributed.initialize(): already done for this job, nothing to do"
)

STOPPED = Message("stopped: rank {rank} failed first ({summary})")
TERMINATED = Message("stopped: this pod was told to terminate (SIGTERM)")
ALREADY_RUN = Message(
    "This container was restarted, but its cell has already run. It does not run a second time."
)
NO_URL_DISPLAY = Message("{type}(url=…) needs IPython, which this image lacks.")
RANKS_DID_NOT_MEET = Message(
    "the ranks of the session can't reach each other in a collective",
    "See the logs of all ranks: `jaxtrain logs NAME`.",
)
_WITHOUT_RANK = "Run the cell without --rank. A rank's own part of an array: x.addressable_data(0)."
NEEDS_RANK = Message(
    "the program {program} needs rank {other}, too, which --rank left out of this cell",
    _WITHOUT_RANK,
)
NEEDS_RANKS = Message(
    "the program {program} needs the ranks {others}, too, which --rank left out of this cell",
    _WITHOUT_RANK,
)
GATHERED_BY_ALL = Message("it is spread over ranks that --rank left out")
CELL_BEGINS = Label("[jaxtrain: cell {number}: {folder}]")
EARLIER_CELL = Label("Cell {name}")
CALLED_EXIT = Message("the cell called sys.exit({code!r})")
NO_EXCEPTION_TEXT = Message("no message: str() fails on this exception")
OMITTED = Message("{start}\n… {count:,} characters omitted …\n{end}")
NOT_SENT = Message(
    "The notebook has {name!r}, but the cell doesn't mention it. Send it with `--use {name}`."
)

_DEVICES = (
    "Choose a --runtime or an --image for them, or --device cpu. "
    "With --env JAX_PLATFORMS= JAX chooses the device itself."
)
NO_LIBTPU = Message("The job asks for TPUs, but its image has no libtpu.", _DEVICES)
NO_GPU_PLUGIN = Message(
    "The job asks for GPUs, but its image has no JAX plugin for them.", _DEVICES
)
NO_GPU_DRIVER = Message(
    "The job asks for GPUs, but its pod has no driver for them: {error}.",
    "Each pod with a GPU gets the driver of its node. If that is in an unusual directory, such as "
    "/usr/local/nvidia/lib64 on GKE, add the directory to LD_LIBRARY_PATH in the image.",
)
_SLICE = "Set --topology to that of the slice, and --nodes to its number of hosts."
SLICE_SIZE = Message("The TPU slice has {hosts} hosts, but the job has --nodes {nodes}.", _SLICE)
SLICE_ORDER = Message(
    "This pod is rank {rank} of the job (JAX_PROCESS_ID), but host {host} of the TPU slice "
    "(TPU_WORKER_ID).",
    _SLICE,
)

_PACKAGES = (
    "Use an --image that has packages which fit, or start the job with what the image has "
    "(--no-packages)."
)
LACKS_PACKAGES = Message(
    "The image lacks packages that the cell imports, and they were not sent: {problems}.",
    "Add them with {options}, use an --image that has them, or start the job without them "
    "(--no-packages).",
)
FOR_OTHERS = Message("is compiled for {tag}, and this pod has Python {python} on {machine}")
NEEDS_OTHER = Message(
    "{package} was sent because the image lacks it, but it needs {needed}, and the job would have "
    "{there}.",
    _PACKAGES,
)
BREAKS_OTHER = Message(
    "{package} was sent with the objects of the cell, but {other} of the image needs {needed}.",
    _PACKAGES,
)
INSTALLED = Message("jaxtrain: installed, because the image lacks it or has another: {packages}")
NOT_INSTALLED = Message(
    "jaxtrain: {package}, which the job may import, is not installed: {problem}"
)
VERSION_DIFFERS = Message(
    "jaxtrain: the job gets objects of {package} {version}, but its image has {package} {there}, "
    "and the other version was not sent"
)
NO_PACKAGE_DIRECTORY = Message(
    "The packages of the job need a writable directory, and this pod has none.",
    "Use a runtime with an emptyDir volume, or add the packages to the image.",
)
WRONG_WHEEL = Message(
    "{wheel} is not for this pod's Python {version} on {machine}.",
    "Choose a runtime with the same Python, or install the package from an index.",
)
PIP_FAILED = Message(
    "--package {packages}: pip failed.\n{output}",
    "If the pods can't reach an index, pass wheels (--package ./some.whl), or add the packages to "
    "the image.",
)

NO_FILES_DIRECTORY = Message(
    "--files needs a writable directory, and this pod has none.",
    "Use a runtime with an emptyDir volume, or mount the files as a volume.",
)
FILE_OUTSIDE = Message("{file!r} would not be in the job's working directory.")

_MORE_ROOM = (
    "Use a runtime with more ephemeral storage or memory, load the data inside the cell from a "
    "volume, or use --store."
)
NO_ROOM_ON_DISK = Message(
    "The job's data takes {size}, but {folder} in the pod has {free} free.", _MORE_ROOM
)
_MORE_MEMORY = (
    "Raise the limit (--memory), use a runtime with an emptyDir volume on disk, or use --store."
)
NO_ROOM_IN_MEMORY = Message(
    "The job's data takes {size} of memory in the pod, which may use {free} more.", _MORE_MEMORY
)
POD_DISK_FULL = Message(
    "The pod's disk is full: the job's data takes {size} ({error}).", _MORE_ROOM
)
POD_MEMORY_FULL = Message(
    "The pod's memory is full: the job's data takes {size} ({error}).", _MORE_MEMORY
)
POD_CANNOT_WRITE = Message("The job's data ({size}) can't be written in the pod: {error}.")
BUNDLE_DAMAGED = Message("The bundle that arrived is not the one that was sent.")
PACKAGE_CHANGED = Message(
    "{path} on the shared volume is not the package that was kept there: its sha256 differs.",
    "Start the job again to resend it. The changed file is now named {aside} (if not, delete "
    "it). Find out who can write to this volume.",
)
NOT_FINITE = Message(
    "{metric} was {value} at step {step}",
    "--stop-on-nan ended the job here. Look at the metrics before, or find the operation with "
    "jax_debug_nans in a job of one process.",
)
CACHE_OF_OTHERS = Message("the folder {path} belongs to somebody else, or others can write to it")
INVALID_BYTES = Message(
    "{variable} must be a number of bytes such as 2G, not {value!r}.",
    "Unset it for the default; 0 turns the package cache off.",
)
BUNDLE_NEVER_CAME = Message(
    "The pod got {have} of the job's {size}, and nothing more for {seconds:g} s.",
    "The notebook's machine sends it and has to be on and connected. JAXTRAIN_BUNDLE_TIMEOUT sets "
    "how long pods wait.",
)

NOTEBOOK_LINE_MAGIC = Message(
    "%{name} is a notebook command. In a job, only !commands, {known} work."
)
NOTEBOOK_CELL_MAGIC = Message("%%{name} is a notebook command and does not work in a job.")
NO_SHELL = Message(
    "get_ipython().{name} does not exist in a job, which supports only !commands and %time"
)

REPORT_ARGUMENTS = Message(
    "report() takes a step, a total and named metrics: report(10, 100, loss=x)"
)
NOT_A_NUMBER = Message(
    "report(): {name!r} is {what}, not a number; pass a single number, such as a mean"
)
RESERVED_NAME = Message(
    "report(): {name!r} is the name of a resource: what begins with {reserved} is sampled, not "
    "reported; give the metric another name"
)
ARRAY = Message("an array of shape {shape}")
RANKS_HOLD_DIFFERENT = Message(
    "The ranks hold different sharded arrays, so these can't be saved.",
    "Assign variables that are spread over ranks on all of them.",
)
OTHERS_GO_ON = Message("Other ranks have taken the place of these, and go on with what was saved.")
NOT_WRITTEN = Message(
    "A rank could not write what it saves.", "Its error is in its log. Then save again."
)
NOTHING_TO_SAVE = Message("There are no arrays to save.")
SAVED_BEFORE_END = Label("[jaxtrain: saved before this pod ends: {names}]")
NOT_SAVED = Label("[jaxtrain: nothing was saved before this pod ends: {error}]")
STOPPED_TO_SAVE = Message("stopped at a report(), so that the variables can be saved")
BEGINS_AS_SAVED = Label("[jaxtrain: the session begins with what it had saved: {names}]")
NOT_RESTORED = Label("[jaxtrain: what the session had saved did not come back: {error}]")
NO_ORBAX = Message(
    "Arrays that ranks hold together are saved by Orbax, which is not installed here.",
    "Install orbax-checkpoint where the ranks run; on a cluster, add --package orbax-checkpoint to "
    "the first cell of the session.",
)
SAVE_IS_GONE = Message(
    "What was saved in {folder} is not there any more, or was changed.",
    "Save again once the variables are there.",
)
NO_CHECKPOINTS = Message(
    "No checkpoints of job {job!r} next to those of this job ({folder}). "
    "A job whose name was in use has a number: fit, fit-2."
)
CHECKPOINTS_OF_POD = Message(
    "Checkpoints in {folder} belong to this pod alone and are deleted with it. "
    "Use --volume PVC:/path for a directory that all ranks share and that is kept."
)
STATUS_SERVER = Message(
    "jaxtrain: Kubeflow's status server does not accept this job's progress ({error}); "
    "the job continues without it"
)

DISPLAY_TOO_LARGE = Message("This display is too large to show: {megabytes:.0f} MB.")
DISPLAY_FAILED = Message("<{type}: {error!r} on display>")
MESSAGE_TOO_LARGE = Message(
    "jaxtrain: dropped a message ({kind}) of {megabytes:.0f} MB, which is too large"
)

NEVER_SET = Message("the cell never set {name!r}")
RESULT_NOT_SENT = Message("{name!r} ({type}) can't be sent: {error}")
RESULT_NOT_GATHERED = Message("{name!r} can't be gathered: {reason}")
ONLY_ON_OTHERS = Message("rank 0 holds no sharded arrays, but other ranks do")
DIFFERENT_ARRAYS = Message("ranks 0 and {rank} hold different sharded arrays")
STORE_NEEDS_PACKAGE = Message(
    "The results can't be written to {url}: {error}. The image needs fsspec and the package for "
    "this kind of store, such as s3fs or gcsfs."
)
STORE_LACKS_PACKAGE = Message(
    "the image needs fsspec and the package for this kind of store, such as s3fs or gcsfs: {error}"
)
STORE_SILENT = Message("the store has not answered for {seconds} s")
STORE_FAILED = Message("The results can't be written to {url}: {error}")

MANIFEST_NO_OBJECT = Message("its manifest is not a JSON object")
ARCHIVE_DAMAGED = Message("{path} is damaged or not an archive: {error}")
ARCHIVE_DIFFERS = Message("{path} is not the archive that was sent: its sha256 differs.")
ARCHIVE_FORMAT = Message("{path} has format {format!r}; this version reads format {known}.")
MEMBER_UNREADABLE = Message("{path} has no readable {name}: {error}")
MEMBER_CHANGED = Message(
    "{name} in {path} does not match the manifest: the file was changed or damaged."
)
EMPTY_DTYPE = Message("dtype {dtype!r} has no bytes")
NO_DTYPE = Message("not a dtype: {dtype!r}")
FIELD_NAMES = Message("the names of fields are not strings")
FIELDS = Message("the fields of a structure are not a list")
NO_SHAPE = Message("not a shape: {shape!r}")
KEY_TYPE = Message("it has a key of type {type}")

_MESH = "Create the mesh, and shardings on it, inside the cell: devices belong to a process."
_OPEN = "Open it inside the cell."
_START = "Start it inside the cell."
_LOCK = "Create it inside the cell, or exclude it from the object's pickled state (__getstate__)."
_COMPILED = "Send the function itself, and compile it inside the cell."
_LIST_DEVICES = "Call jax.devices() inside the cell."
_FUTURE = "Send its result()."
MESH = Message("a jax Mesh", _MESH)
SHARDING = Message("a jax sharding", _MESH)
DEVICE = Message("a jax device", _LIST_DEVICES)
JAX_BACKEND = Message("a jax backend", _LIST_DEVICES)
TRACER = Message(
    "a jax tracer", "It leaked out of a transformed function; return the value from there."
)
COMPILED = Message("a compiled function", _COMPILED)
LOWERED = Message("a lowered function", _COMPILED)
TRACED = Message("a traced function", _COMPILED)
DELETED_ARRAY = Message(
    "an array whose buffer was deleted or donated to a jitted function",
    "Use the value that the function returned instead.",
)
SHARDED_ARRAY = Message(
    "an array that is sharded over several processes",
    "Gather it first (jax.experimental.multihost_utils.process_allgather).",
)
LOCK = Message("a thread lock", _LOCK)
THREAD_LOCAL = Message("thread-local data", _LOCK)
THREAD = Message("a thread", _START)
CONDITION = Message("a thread condition", _LOCK)
EVENT = Message("a thread event", _LOCK)
SEMAPHORE = Message("a semaphore", _LOCK)
BARRIER = Message("a thread barrier", _LOCK)
QUEUE = Message("a queue between threads", _LOCK)
EXECUTOR = Message("an executor", _START)
FUTURE = Message("a future", _FUTURE)
ASYNCIO_FUTURE = Message("an asyncio future", _FUTURE)
EVENT_LOOP = Message("an event loop", _START)
MULTIPROCESSING = Message("a multiprocessing {type}", _START)
PROCESS = Message("a running process", _START)
SOCKET = Message("a network connection", _OPEN)
SSL_CONTEXT = Message("an SSL context", _OPEN)
DATABASE = Message("a database connection", _OPEN)
DATABASE_CURSOR = Message("a database cursor", _OPEN)
MAPPED_FILE = Message("a memory-mapped file", _OPEN)
OPEN_FILE = Message("an open file", "Send its path, and open it inside the cell.")
SHELL = Message(
    "the IPython shell", "A job has no shell; its get_ipython() supports only !commands and %time."
)
HISTORY = Message("the notebook's history", "Assign the value to a variable.")
JOB = Message("a Job of this notebook", "Send what the cell needs of it, such as its result().")
GENERATOR = Message(
    "a generator", "Send the function that creates it, and call that inside the cell."
)
COROUTINE = Message("a coroutine", "Send the async function, and call it inside the cell.")
FRAME = Message("a stack frame", "Leave it out.")
TRACEBACK = Message("a traceback", "Send traceback.format_exc() instead.")
NOTEBOOK_CODE = Message(
    "code of jupyter_jax_trainer that works in a notebook only ({name})",
    "In a job, jupyter_jax_trainer provides only report() and checkpoint_dir().",
)
BY_NAME = Message(
    "an object of type {type}, which is pickled by its name {name!r}, and a job doesn't have the "
    "notebook's names",
    "Create it inside the cell, or in a module of your own.",
)
TOO_DEEP = Message("nested too deeply", "Flatten it, or build it inside the cell.")
CANNOT_PICKLE = Message("an object of type {type} ({error})", "Create it inside the cell.")

PROFILE_RUNS = Message("the profile {name!r} is still being taken")
NO_ROOM_FOR_PROFILE = Message(
    "it needs {needed} MiB of disk space, but only {free} MiB are free; {variable} limits its size"
)
PROFILE_NOT_FETCHED = Message("its pod held it for {seconds:g} s, and nobody fetched it")
NO_PROFILE_WRITTEN = Message("jax has written no file")

identify(globals())
