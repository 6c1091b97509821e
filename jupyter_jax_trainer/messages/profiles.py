"""What is said about profiles."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

HOST_BOUND = Message(
    "Bound by the host: the devices are idle {idle:.0%} of the time. Load data ahead, do more in "
    "one jitted step, and don't wait for values in each step."
)
DEVICE_BOUND = Message("Bound by the devices: they are idle {idle:.0%} of the time.")
ON_CPU = Message(
    "On a CPU, operations run on the cores of the host: the profile can't tell whether the host or "
    "the device bounds the job, nor what memory bandwidth or kernels of an accelerator would cost."
)
NOTHING_RAN = Message("No operation of XLA ran in this time.")
COLLECTIVES_WAIT = Message("The time of collectives includes waiting for other devices.")
EVENTS_CUT = Message("There are too many events to count all: shares are of those at the start.")

NO_TRACE = Message("its trace was not kept")
TRACE_TOO_LARGE = Message("its trace is larger than {variable} allows here")
TRACE_UNREADABLE = Message("its trace can't be read")
READ_TOO_LONG = Message("not read within {seconds:g} s; {variable} sets the limit")

NO_PROFILES = Message(
    "Job {job} has no profile.",
    "While it runs: `profile {job} --seconds 5`; or run its cell with --profile.",
)
NO_SUCH_PROFILE = Message("Job {job} has no profile {name}: it has {names}.")
NOT_TAKEN = Message("Profile {name} of {job} was not finished within {seconds:g} s.")
NO_SECONDS = Message("A profile takes between 0.1 and {most:g} seconds, not {value}.")
TITLE = Message("Profile {name} of {job}: {seconds:.1f} s on {platform}")
NO_FILE = Message("Profile {name} of {job} has no trace of rank {rank}.")
NOT_EXPORTED = Message(
    "The trace of rank {rank} can't be converted for Perfetto: {why}",
    "XProf and TensorBoard open the trace itself: {path}",
)
NOT_FINISHED = Message("Profile {name} of {job} is not finished: it is still waiting for ranks.")
NO_TRACES = Message("No rank of {job} has a trace in profile {name}.")

NO_XPROF = Message(
    "XProf is not installed where Jupyter runs.",
    "Install it in the environment of the Jupyter server: `pip install xprof`.",
)
XPROF_NOT_STARTED = Message("XProf did not start: {why}")
NOT_READY = Message("not ready within {seconds:g} s; {variable} sets the limit")
ENDED_SILENTLY = Message("it ended with code {code}")
XPROF_GONE = Message(
    "XProf has stopped here because it was idle. Open it again from the job's page."
)

identify(globals())
