"""The Jupyter Server extension: what pages show comes from here (docs/reference/server.md)."""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from jupyter_jax_trainer.server.extension import JaxTrain

    return [{"module": "jupyter_jax_trainer.server", "app": JaxTrain}]
