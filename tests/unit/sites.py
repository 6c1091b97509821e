"""Folders of installed distributions, made up."""

from __future__ import annotations

import base64
import hashlib
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Site:
    """A folder of installed distributions that Python imports from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)

    def install(
        self,
        name: str,
        version: str = "1.0",
        *requires: str,
        files: dict[str, str | bytes] | None = None,
        tag: str | None = "py3-none-any",
        record: bool = True,
        meta: dict[str, str] | None = None,
        more: str = "",
        entry: str | None = None,
    ) -> None:
        """Install a distribution as pip does; `entry` are lines of its metadata."""
        module = name.replace("-", "_")
        given = (
            {f"{module}/__init__.py": f"word = '{name} {version}'\n"} if files is None else files
        )
        info = f"{module}-{version}.dist-info"
        lines = [f"Requires-Dist: {line}" for line in requires] + ([more] if more else [])
        text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines])
        all_files: dict[str, str | bytes] = {**given, f"{info}/METADATA": f"{text}\n"}
        if tag is not None:
            all_files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nTag: {tag}\n"
        if entry is not None:
            all_files[f"{info}/entry_points.txt"] = entry
        all_files |= {f"{info}/{key}": value for key, value in (meta or {}).items()}
        rows = []
        for file, content in all_files.items():
            data = content.encode() if isinstance(content, str) else content
            path = self.path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            quoted = f'"{file}"' if "," in file else file
            rows.append(f"{quoted},sha256={digest},{len(data)}\n")
        if record:
            (self.path / info / "RECORD").write_text("".join(rows) + f"{info}/RECORD,,\n")
        importlib.invalidate_caches()


@contextmanager
def on_path(path: Path) -> Iterator[Site]:
    """Have Python import from a new folder; what it has imported there is forgotten in the end."""
    found = Site(path)
    before = set(sys.modules)
    sys.path.insert(0, str(path))
    try:
        yield found
    finally:
        sys.path.remove(str(path))
        for name in set(sys.modules) - before:
            del sys.modules[name]
