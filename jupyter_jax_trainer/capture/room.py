"""How much may travel with a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class Room:
    """What fits, asked where it matters alone: the answer may take a request.

    Attributes
    ----------
    most
        Bytes that fit in any case; None for any number.
    for_more
        Whether more can be sent by another way.
    """

    most: int | None = None
    for_more: Callable[[], bool] = lambda: False

    def fits(self, size: float) -> bool:
        """Return whether so many bytes can be sent."""
        return self.most is None or size <= self.most or self.for_more()

    def without(self, size: int) -> Self:
        """Return what is left when so many bytes are taken."""
        return self if self.most is None else replace(self, most=self.most - size)
