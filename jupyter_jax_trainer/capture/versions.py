"""Which packages are installed here, by the names of their folders: nothing is opened."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress

_INFO = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*?)-(?P<version>[^-]+)\.(?:dist|egg)-info")


def installed() -> dict[str, str]:
    """Return the versions of all packages by their names, normalized as PEP 503 has it."""
    found: dict[str, str] = {}
    for place in sys.path:
        with suppress(OSError):
            for name in os.listdir(place or "."):
                if name.endswith("-info") and (parts := _INFO.fullmatch(name)):
                    known = re.sub(r"[-_.]+", "-", parts["name"]).lower()
                    found.setdefault(known, parts["version"])
    return dict(sorted(found.items()))
