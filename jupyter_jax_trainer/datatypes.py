"""Types of data without a fixed shape; what has one is a `TypedDict` or a dataclass of its owner.

The worker's processes use this, too.
"""

from __future__ import annotations

from typing import Any, TypeAlias

JsonValue: TypeAlias = str | int | float | bool | list["JsonValue"] | dict[str, "JsonValue"] | None
"""Anything that JSON can say."""

MimeBundle: TypeAlias = dict[str, JsonValue]
"""What is displayed, or its metadata, by MIME type."""

Namespace: TypeAlias = dict[str, Any]
"""Python objects by their names, each of them anything.

The variables of a notebook or of a cell, the globals of a module, arguments given by keyword, the
attributes of an object.
"""
