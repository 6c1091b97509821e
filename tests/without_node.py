"""A PATH on which all programs of this machine are but those of Node."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

OF_NODE = ("node", "nodejs", "npm", "npx", "corepack", "jlpm", "yarn", "yarnpkg", "pnpm")


def environment(folder: Path) -> dict[str, str]:
    """Return this process's variables with such a PATH, whose links lie in ``folder``."""
    folder.mkdir()
    for source in ("/usr/local/bin", "/usr/bin", "/bin"):
        for path in Path(source).iterdir():
            link = folder / path.name
            if path.name not in OF_NODE and path.is_file() and not link.is_symlink():
                link.symlink_to(path)
    assert not any(shutil.which(name, path=str(folder)) for name in OF_NODE)
    return {**os.environ, "PATH": str(folder)}
