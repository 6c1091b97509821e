"""How this copy of the package was installed, for texts that say how to add to it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

NAME = "jupyter-jax-trainer"
EXTRAS = {"kubernetes": ("kubernetes>=35,!=36.*,<38", "pyyaml>=6")}  # as in pyproject.toml

_HIDDEN = "****"


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this copy.

    The name alone is never installed: on an index it may be anybody's. What did not come from a
    place that is known gets the packages of the extra instead.
    """
    what = _source(extra) or shlex.join(EXTRAS[extra])
    return f"pip install {what}"


def _source(extra: str) -> str | None:
    """Return what pip is to install for this copy to have the extra; None when it can't be told."""
    origin = _origin()
    url = urlsplit(str(origin.get("url", "")))
    if (folder := origin.get("dir_info")) is not None:
        path = Path(unquote(url.path))
        if not (path / "pyproject.toml").is_file():
            return None
        editable = "-e " if folder.get("editable") else ""
        return f"{editable}{shlex.quote(f'{path}[{extra}]')}"
    if (vcs := origin.get("vcs_info")) is not None:
        commit = vcs.get("commit_id") or vcs.get("requested_revision")
        place = f"{vcs.get('vcs', 'git')}+{_masked(url)}{f'@{commit}' if commit else ''}"
    elif "archive_info" in origin:
        if url.scheme == "file" and not Path(unquote(url.path)).is_file():
            return None
        place = _masked(url)
    else:
        return None
    if inside := origin.get("subdirectory"):
        place += f"#subdirectory={inside}"
    return shlex.quote(f"{NAME}[{extra}] @ {place}")


def _origin() -> Mapping[str, Any]:
    """Return what pip noted of where this copy is from (direct_url.json), empty if nothing."""
    try:
        noted = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def _masked(url: SplitResult) -> str:
    """Return a URL with credentials masked, except ``git`` and names of variables."""
    user, at, host = url.netloc.rpartition("@")
    if at and not re.fullmatch(r"git|\$\{\w+\}(:\$\{\w+\})?", user):
        user = _HIDDEN
    query = _HIDDEN if url.query else ""
    return url._replace(netloc=f"{user}{at}{host}", query=query, fragment="").geturl()
