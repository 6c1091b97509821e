"""Objects of a cluster as YAML for a page, without what may be secret."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_jax_trainer.backends.kubernetes import trainjob

# Annotations with a copy of the object, or of the job's options: with all environment variables.
_COPIES = ("kubectl.kubernetes.io/last-applied-configuration", trainjob.ABOUT)
# Anything may be in an environment variable, a token above all; these have no use for one, unless
# they say so: NVIDIA_API_KEY is one.
_HARMLESS = re.compile(
    "(JAX|XLA|NCCL|CUDA|NVIDIA|TPU|LIBTPU|OMP|TF_CPP|LC)_.*"
    "|PYTHON[A-Z]*|HOME|PATH|LD_LIBRARY_PATH|TMPDIR|LANG|TZ"
)
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CRED|AUTH|PRIVATE", re.IGNORECASE)
_HIDDEN = "…"
_NOTE = f"# Values of environment variables may be secret, and are shown as {_HIDDEN} here.\n"


def shown_yaml(item: Mapping[str, Any]) -> str:
    """Write an object as YAML, without its managed fields and what may be secret."""
    shown = copy.deepcopy(dict(item))
    metadata = shown.get("metadata") or {}
    metadata.pop("managedFields", None)
    annotations = metadata.get("annotations") or {}
    for name in _COPIES:
        if name in annotations:
            annotations[name] = _HIDDEN
    hidden = False
    for variable in _variables(shown):
        name = str(variable.get("name"))
        harmless = _HARMLESS.fullmatch(name) and not _SECRET.search(name)
        if "value" in variable and not harmless:
            variable["value"], hidden = _HIDDEN, True
    return (_NOTE if hidden else "") + trainjob.to_yaml([shown])


def _variables(node: Any) -> Iterator[dict[str, Any]]:
    """Find all environment variables, wherever containers stand."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "env" and isinstance(value, list):
                yield from (variable for variable in value if isinstance(variable, dict))
            else:
                yield from _variables(value)
    elif isinstance(node, list):
        for value in node:
            yield from _variables(value)
