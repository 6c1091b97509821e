"""A small line that shows the course of a series, as SVG without scripts."""

from __future__ import annotations

import html
from collections.abc import Sequence

from jupyter_jax_trainer.messages import views as say
from jupyter_jax_trainer.queries.protocol import Spark

_WIDTH, _HEIGHT, _EDGE = 120, 22, 2


def sparkline(spark: Spark | None, colour: str) -> str:
    """Draw the series of a summary; empty where there is no course to see."""
    if not spark or len(points := spark["points"]) < 2:
        return ""
    course = say.COURSE(name=spark["name"], first=points[0][1], last=points[-1][1])
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{html.escape(course)}" style="flex:none">'
        f'<polyline points="{_places(points)}" fill="none" stroke="{colour}" '
        'stroke-width="1.5" stroke-linejoin="round"/></svg>'
    )


def _places(points: Sequence[Sequence[float]]) -> str:
    """Return the points as places of the picture."""
    (left, right), (low, high) = ((min(c), max(c)) for c in zip(*points, strict=True))
    across = (_WIDTH - 2 * _EDGE) / ((right - left) or 1)
    up = (_HEIGHT - 2 * _EDGE) / ((high - low) or 1)
    return " ".join(
        f"{_EDGE + (x - left) * across:.1f},{_HEIGHT - _EDGE - (y - low) * up:.1f}"
        for x, y in points
    )
