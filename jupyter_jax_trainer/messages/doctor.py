"""What several checks of ``doctor`` say; the texts of one check stand beside it."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

CLUSTER = Label("Cluster")
IMAGE = Label("Image")
MESH = Label("Service mesh")
POD_SECURITY = Label("PodSecurity")
PYTHON = Label("Python")

NONE = Message("none")
NO_NODE = Message(
    "no replicated job node with a container node",
    "Trainer runs the job's command there: name both node, or use another runtime.",
)

identify(globals())
