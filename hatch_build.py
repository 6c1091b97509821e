"""Puts the built JupyterLab extension into the wheel, where there is one, and the runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BUILT = "jupyter_jax_trainer/labextension"
_PLACE = "share/jupyter/labextensions/jupyter-jax-trainer"


class LabExtension(BuildHookInterface[Any]):
    """A clone without Node can be installed for development; a wheel is never made without it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder as shared data, and what `jaxtrain runtimes install` applies."""
        if self.target_name == "wheel" and version != "editable":  # that one sees the clone's own
            build_data["force_include"]["runtimes"] = "jupyter_jax_trainer/manifests"
        if (Path(self.root) / _BUILT / "package.json").exists():
            if self.target_name == "wheel":
                build_data["shared_data"][_BUILT] = _PLACE
        elif version != "editable":
            raise FileNotFoundError(f"{_BUILT} is not built. Run `make labextension` first.")
