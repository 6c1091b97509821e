"""What the local backend says: before a job starts, in its queue, and of its end."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

THIS_MACHINE = Message("this machine")

CPU_RUNTIME = Label("Processes on this machine, with as many virtual devices as requested")
GPU_RUNTIME = Label("Processes on this machine that share its GPUs")
NO_JAX = Message("jax is not installed: pip install jax")
NO_GPU_PLUGIN = Message("jax has no GPU plugin: pip install 'jax[cuda13]'")
UNKNOWN_RUNTIME = Message("There is no runtime {name}.")

NO_NAMESPACES = Message("This machine has no namespaces.")
RUNTIMES_HAVE_NO_YAML = Message("Local runtimes are not cluster objects and have no YAML.")
JOB_HAS_NO_TRAINJOB = Message("Job {job} is local and has no TrainJob.")
SUSPEND_NEEDS_CLUSTER = Message(
    "`{verb}` only works on Kubernetes, and job {job} is local.",
    "`cancel {job}` ends it; what it has saved in checkpoint_dir() is kept.",
)

OTHER_DEVICE = Message(
    "Runtime {runtime} is for {device}, but --device asks for {asked}.",
    "Remove one of the two options.",
)
TOO_FEW_GPUS = Message(
    "The job needs {gpus} ({nodes} × {each}), but this machine has {found}.",
    "Ask for fewer, or use --device cpu.",
)
TOO_MANY_PROCESSES = Message(
    "The job needs {nodes} processes, but the memory available on this machine ({free}) is enough "
    "for about {most}, even if they do nothing.",
    "Use fewer nodes; --devices-per-node gives each of them more devices.",
)
ON_CPU = Message("on CPU: {wanted} GPUs would be needed, this machine has {found}")
ON_GPU = Message("on GPU (use --device cpu for the CPU)")
CORES_NOT_A_NUMBER = Message("{variable} must be a positive number of cores, not {value!r}.")
DIRECTORY_GONE = Message(
    "The notebook's working directory no longer exists.",
    "Change to an existing one with `%cd PATH`.",
)
TOO_LARGE_FOR_DISK = Message(
    "The cell's variables take {total}, but {home} has only {free} free.",
    "Load the data inside the cell, or set JAXTRAIN_HOME to a larger disk.",
)
TOO_LARGE_FOR_MEMORY = Message(
    "The cell's variables take {total}, but this machine has only {free} of memory available.",
    "Load the data inside the cell, in each process only its own part.",
)

DRY_RUN = Message(
    "Nothing was started. The job would be:\n"
    "  {shape} on this machine ({runtime})\n"
    "  sent, {total} in total:"
)
BROUGHT_BACK = Message("brought back: {names}")

STARTING = Message("starting Python and JAX")
SUPERVISOR_DID_NOT_START = Message("The supervisor did not start (exit code {code}).", "See {log}.")

BEHIND = Message("waiting in the queue behind {names}")
WAITS_FOR_GPUS = Message("waiting for {wanted} of {total} GPUs: {free} free, in use by {names}")
WAITS_FOR_CORES = Message(
    "waiting for {wanted:g} of {total} cores: {free:g} free, in use by {names}"
)

SIGNALLED = Message("the supervisor received {signal}")
KEEPER_KILLED = Message("its keeper process was killed")
SUPERVISOR_KILLED = Message("the process that ran the job was killed (signal {number})")
SUPERVISOR_CRASHED = Message("the process that ran the job crashed; see {log}")
DISK_FULL = Message(
    "no space left in {path}", "Free some space; `jaxtrain delete NAME` removes old jobs."
)
NEVER_ARRIVED = Message(
    "{ranks} did not arrive at the rendezvous within {limit}",
    "Check their logs; {variable} sets the timeout.",
)
NEVER_JOINED = Message(
    "{ranks} did not complete the rendezvous within {limit}",
    "Check their logs; {variable} sets the timeout.",
)
TIMED_OUT = Message("took longer than its --timeout of {timeout:g} s")
TIMED_OUT_AT = Message("took longer than its --timeout of {timeout:g} s; {where}")
GIVE_IT_MORE = Message("Give it more time or fewer steps; checkpoints are kept.")
NO_REQUESTS = Message("the ranks of this job can't be asked where they are: {error}")
BAD_RECORD = Message("skipped a malformed record")
EXITED_LATE = Message("rank {rank} exited with code {code} after finishing its work")

identify(globals())
