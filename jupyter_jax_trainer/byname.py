"""Load objects by name, so that nothing is imported before it is needed.

There are two such kinds, which `tests/unit/test_layers.py` lists: backends, each of which is a line
of `backends/registry.py`, and the widget of a job, which stands above all that it shows.
"""

from __future__ import annotations

import importlib
from typing import Any


def load(place: str) -> Any:
    """Return what a place names, such as ``package.module:Class``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
