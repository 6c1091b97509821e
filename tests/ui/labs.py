"""A JupyterLab server (or a Notebook 7 one) with the built extension."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import policy
from server.servers import Server

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "jupyter_jax_trainer" / "labextension"

# The oldest JupyterLab that the wheel asks for, and the oldest Notebook whose JupyterLab that may be.
(PROMISED,) = re.findall(r'"jupyterlab>=([\d.]+),', (ROOT / "pyproject.toml").read_text())
NOTEBOOK = "7.5.0"

# Measuring coverage in servers and kernels would slow them; their own tests do that.
MEASURING = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


def need_built() -> None:
    """Skip the test where the extension is not built."""
    if not (BUILT / "package.json").exists():
        policy.skip_or_fail(
            "labextension", "the JupyterLab extension is not built: make labextension"
        )


class Lab(Server):
    """A JupyterLab server; it can be stopped, and started again on the same port."""

    program = "jupyterlab"

    def __init__(self, folder: Path, home: Path, kubeconfig: Path | None = None) -> None:
        self.kubeconfig = kubeconfig or folder / "no-kubeconfig"
        self.extend(folder / "share" / "labextensions")
        self._config = config = folder / "config"
        (config / "labconfig").mkdir(parents=True)
        # Tests wait for `window.jupyterapp`.
        exposed = {"expose_app_in_browser": True}
        for name, values in {
            "jupyter_lab_config": {"LabApp": exposed},
            "jupyter_notebook_config": {"JupyterNotebookApp": exposed},
        }.items():
            (config / f"{name}.json").write_text(json.dumps(values))
        self._page_config = config / "labconfig" / "page_config.json"
        self.disable()
        super().__init__(folder, home)

    def extend(self, folder: Path) -> None:
        """Put the built extension where pages find it."""
        need_built()
        folder.mkdir(parents=True)
        (folder / "jupyter-jax-trainer").symlink_to(BUILT)

    def environment(self) -> dict[str, str]:
        folder = self._folder
        own = {
            "JUPYTER_PATH": str(folder / "share"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "run"),
            "JAXTRAIN_CORES": "64",  # these tests do not wait for each other's jobs
            "KUBECONFIG": str(self.kubeconfig),
        }
        kept = {k: v for k, v in super().environment().items() if k not in MEASURING}
        return {**kept, **own}

    def disable(self, *plugins: str) -> None:
        """Leave out these plugins of pages that are loaded from now on."""
        # The announcements would ask whether they may fetch news.
        all_of_them = ["@jupyterlab/apputils-extension:announcements", *plugins]
        self._page_config.write_text(
            json.dumps({"disabledExtensions": dict.fromkeys(all_of_them, True)})
        )

    def set(self, plugin: str, settings: Any) -> None:
        """Write a user's settings of one of our plugins, for pages that are loaded from now on."""
        self._settings.mkdir(parents=True, exist_ok=True)
        (self._settings / f"{plugin}.jupyterlab-settings").write_text(json.dumps(settings))

    def forget_settings(self) -> None:
        """Forget what tests have set of this extension, likewise."""
        shutil.rmtree(self._settings, ignore_errors=True)

    @property
    def _settings(self) -> Path:
        return self._config / "lab" / "user-settings" / "jupyter-jax-trainer"

    def page_url(self, path: str, port: int | None = None) -> str:
        """Return the address of a page."""
        base = self.url.removesuffix("jaxtrain/api/").replace(
            str(self.port), str(port or self.port), 1
        )
        return f"{base}{path}{'&' if '?' in path else '?'}token={self.token}"


class Notebook7(Lab):
    """A server whose pages are those of Notebook 7."""

    program = "notebook"


PAGE_TIMEOUT = 35.0  # seconds that a page hears nothing, before it connects again


class Installed(Lab):
    """JupyterLab and Notebook 7 of an environment in which the wheel is; nothing leads to the clone."""

    enabling = ()

    def __init__(
        self, folder: Path, home: Path, python: Path, kubeconfig: Path | None = None
    ) -> None:
        self.python = str(python)
        super().__init__(folder, home, kubeconfig)

    def extend(self, folder: Path) -> None:
        """Leave that to the wheel."""

    def environment(self) -> dict[str, str]:
        own = super().environment() | {
            "PATH": str(Path(self.python).parent),  # no Node there
            "JAXTRAIN_PAGE_TIMEOUT": str(PAGE_TIMEOUT),
        }
        own.pop("PYTHONPATH", None)
        return own
