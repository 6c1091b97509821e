"""What is said of this machine's runtimes."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

CPU_RUNTIME = Label("Processes on this machine, with as many virtual devices as requested")
GPU_RUNTIME = Label("Processes on this machine that share its GPUs")
NO_JAX = Message("jax is not installed: pip install jax")
NO_GPU_PLUGIN = Message("jax has no GPU plugin: pip install 'jax[cuda13]'")
UNKNOWN_RUNTIME = Message("There is no runtime {name}.")

identify(globals())
