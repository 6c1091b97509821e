"""Builds the JupyterLab extension unless it is built, and adds it and the runtimes to the wheel."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BUILT = "jupyter_jax_trainer/labextension"
_WIDGETS = "jupyter_jax_trainer/widget/static"
_PLACE = "share/jupyter/labextensions/jupyter-jax-trainer"


class LabExtension(BuildHookInterface[Any]):
    """Node is a build requirement, where there is something to build: an sdist needs none."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the extension is built with, unless it is built."""
        if self._builder().is_built():
            return []
        extras: dict[str, list[str]] = self.metadata.core.optional_dependencies
        return extras["labextension"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the extension as shared data, and what `jaxtrain runtimes install` applies."""
        builder = self._builder()
        if not builder.is_built():
            try:
                builder.build()
            except builder.BuildError as error:
                self.app.abort(str(error))
        # Git ignores what is built, so hatchling would leave it out.
        if self.target_name == "sdist":
            build_data["force_include"].update({_BUILT: _BUILT, _WIDGETS: _WIDGETS})
            return
        build_data["shared_data"][_BUILT] = _PLACE
        if version != "editable":  # that one sees the clone's own
            manifests = "jupyter_jax_trainer/manifests"
            build_data["force_include"].update({_WIDGETS: _WIDGETS, "runtimes": manifests})

    def _builder(self) -> ModuleType:
        """Load labextension/build.py."""
        path = Path(self.root, "labextension", "build.py")
        spec = importlib.util.spec_from_file_location("build_labextension", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
