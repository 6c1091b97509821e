"""Objects of a cluster as YAML for a page, without what may be secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_jax_trainer import masking
from jupyter_jax_trainer.backends.kubernetes.submit import trainjob

_NOTE = f"# Secrets are masked as {masking.HIDDEN}.\n"


def shown_yaml(item: Mapping[str, Any]) -> str:
    """Write an object as YAML, without its managed fields and what may be secret."""
    metadata = {
        name: value
        for name, value in (item.get("metadata") or {}).items()
        if name != "managedFields"
    }
    shown = masking.manifest({**item, **({"metadata": metadata} if "metadata" in item else {})})
    return (_NOTE if shown.hidden else "") + trainjob.to_yaml([shown.item], exact=False)
