"""Whether results that need pickle may be loaded: unpickling runs code that came with them."""

from __future__ import annotations

import os

ALLOW = "JAXTRAIN_ALLOW_PICKLED_RESULTS"


def allowed() -> bool:
    """Return whether they may; a setting that makes no sense means no."""
    return os.environ.get(ALLOW, "").strip().lower() in ("", "1", "on", "yes", "true")
