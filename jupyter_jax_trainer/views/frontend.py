"""Where output goes: to a notebook, or elsewhere."""

from __future__ import annotations

import sys
from typing import Any


def running_shell() -> Any:
    """Return the IPython shell, None where there is none."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def in_notebook() -> bool:
    """Return whether output goes to a Jupyter front end."""
    return hasattr(running_shell(), "kernel")
