"""What a job ran with, as far as it was noted: versions, image, packages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_jax_trainer.capture.distributions import by_modules
from jupyter_jax_trainer.errors import JaxTrainError
from jupyter_jax_trainer.jobdir.files import read_json
from jupyter_jax_trainer.jobdir.formats import Shape
from jupyter_jax_trainer.jobdir.layout import JobDir

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

_NOTED: dict[str, Shape] = {"packages": dict, "imports": [str]}
_ALWAYS = ("jax", "jaxlib")
_OURS = "jupyter-jax-trainer"  # what a job needs of it travels with the job


@dataclass(frozen=True)
class Environment:
    """What a job ran with.

    Attributes
    ----------
    rows
        A few words on it: each with a title.
    packages
        What was installed for the notebook, by name; empty for a job of version 0.1.
    imports
        The modules that the job may import.
    """

    rows: list[tuple[str, str]]
    packages: dict[str, str]
    imports: list[str]

    @property
    def requirements(self) -> dict[str, str]:
        """The packages that the job needs, by name; what these need comes with them."""
        names = {*_ALWAYS, *(one.name for one in by_modules(self.imports).values())} - {_OURS}
        return {name: self.packages[name] for name in sorted(names) if name in self.packages}


def known(job: Job) -> Environment:
    """Return what is known of a job's environment."""
    manifest = job.manifest
    packages: dict[str, str] = {}
    imports: list[str] = []
    with suppress(JaxTrainError, OSError):
        noted = read_json(JobDir(job.directory).packages, _NOTED)
        match noted:
            case {"packages": dict(found), "imports": list(names)}:
                packages = {str(name): str(version) for name, version in found.items()}
                imports = [str(name) for name in names]
    rows = [
        ("Python", manifest.get("python")),
        ("runtime", manifest["plan"].get("runtime")),
        ("image", manifest["plan"].get("image")),
        ("jupyter-jax-trainer", manifest.get("package")),
        *((name, packages.get(name)) for name in _ALWAYS),
        *((one["name"], one["type"]) for one in job.sent if one["kind"] == "package"),
    ]
    return Environment([(name, str(text)) for name, text in rows if text], packages, imports)
