"""What the doctor says of this machine: what each check is called, and what it found."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

NOT_CHECKED = Message("could not be checked: {error}")
NOT_INSTALLED = Message("not installed")
FREE = Message("free: {free}")

SYSTEM = Label("Operating system")
MACOS = Message("macOS", "Jobs work, but always start cold.")
UNSUPPORTED_SYSTEM = Message("unsupported: {name}", "Jobs can't run locally on this system.")

JAX = Label("jax")
INSTALL_JAX = Message("Install it: `pip install jax`.")
UPGRADE_JAX = Message("Upgrade to jax 0.6 or newer: `pip install -U jax`.")

JAXLIB = Label("jaxlib")
INSTALL_JAXLIB = Message("Install it with jax: `pip install -U jax`.")
JAXLIB_FITS = Message("{jaxlib}, with jax {jax}")
JAXLIB_MISMATCH = Message(
    "{jaxlib}, but jax is {jax}", "The versions don't match: `pip install 'jaxlib=={jax}'`."
)

CLOUDPICKLE = Label("cloudpickle")
INSTALL_CLOUDPICKLE = Message(
    "Version 3.1 or a newer 3.x is required: `pip install -U 'cloudpickle>=3.1,<4'`."
)

IPYTHON = Label("IPython")
INSTALL_IPYTHON = Message("The magics need IPython 8.20 or newer: `pip install -U ipython`.")

CORES = Label("Cores")
CORES_OF_MACHINE = Message("at most {cores} for all jobs")
CORES_SET = Message("at most {cores} for all jobs (set by {variable})")

MEMORY = Label("Memory")
MEMORY_UNKNOWN = Message("unknown on this system")
LITTLE_MEMORY = Message(
    "only {free} free",
    "A process with jax takes about 500 MB. Close other programs, or use fewer nodes.",
)

GPUS = Label("GPUs")
NO_GPUS = Message("none; jobs run on the CPU")
GPUS_USABLE = Message("{gpus}, jax plugin {plugin}")
GPUS_WITHOUT_PLUGIN = Message(
    "found {gpus}, but no jax plugin for them",
    "Install it: `pip install 'jax[cuda13]'`, or `'jax[cuda12]'` for an older driver.",
)

JOB_STORE = Label("Job store")
STORE_NOT_WRITABLE = Message(
    "can't write to {home}: {error}", "Set JAXTRAIN_HOME to a directory that you can write to."
)

LOCKS = Label("Locks")
LOCKS_WORK = Message("flock works in the job store")
LOCKS_HOLD_NOBODY = Message(
    "flock in the job store does not exclude other processes",
    "Set JAXTRAIN_HOME to a directory on a local disk.",
)
LOCKS_SUBSTITUTED = Message(
    "flock unavailable: {error}; using locks in {folder} (this machine only)",
    "Use the job store from this machine only, or set JAXTRAIN_HOME to a directory on a local "
    "disk.",
)

DISK = Label("Disk")
LITTLE_DISK = Message(
    "only {free} free in the job store",
    "Free some space; `jaxtrain prune --older-than 30d` removes old jobs.",
)

PORTS = Label("Ports")
PORTS_WORK = Message("processes can connect on 127.0.0.1")
PORTS_FAIL = Message(
    "processes can't connect on 127.0.0.1: {error}",
    "The ranks of a job connect there. Check the loopback interface and its firewall.",
)

SETTINGS = Label("Settings")
SETTINGS_VALID = Message("environment variables are valid")
CORRECT_SETTING = Message("Correct it, or unset it.")
UNKNOWN_LEVEL = Message("{variable} is {value!r}", "Set it to one of {levels}.")

DIRECTORIES = Label("Job directories")
NONE_DAMAGED = Message("found {count}, none damaged")
DAMAGED = Message("damaged: {count}", "Delete the unreadable ones in {directory}: {names}.")
ABANDONED = Message("abandoned, without a process: {count}")
DELETE_ABANDONED = Message("Delete the abandoned jobs: `jaxtrain delete {names}`.")
DELETE_SOME = Message("Delete the abandoned jobs: `jaxtrain delete {names}`, and {rest} more.")

WARM_START = Label("Warm start")
WARM_OFF = Message(
    "off, because of {variable}, a JAX_ or XLA_ variable, or the system; jobs start cold"
)
WARM_READY = Message("ready: the next job on the CPU starts at once")
WARM_NOT_RUNNING = Message("not running; the next job on the CPU starts it")

identify(globals())
