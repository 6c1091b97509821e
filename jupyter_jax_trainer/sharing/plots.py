"""The metrics of a job as SVG without scripts, bounded whatever was reported."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jupyter_jax_trainer.jobdir.records import Metric
from jupyter_jax_trainer.messages import follow
from jupyter_jax_trainer.text import metric, uncoloured

MOST_METRICS, _MOST_RANKS, _POINTS = 24, 8, 400
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 200, 64, 12, 10, 22
_COLOURS = (
    "#1565c0",
    "#c62828",
    "#2e7d32",
    "#b26a00",
    "#6a1b9a",
    "#00838f",
    "#5d4037",
    "#455a64",
)


@dataclass
class Series:
    """What one rank has reported of one metric, thinned out as it grows.

    What is not finite is a gap.
    """

    points: list[tuple[int, float]] = field(default_factory=list)
    _every: int = 1
    _count: int = 0
    _last: tuple[int, float] | None = None

    def add(self, step: int, value: float) -> None:
        """Add a point."""
        self._last = (step, value)
        if self._count % self._every == 0:
            self.points.append(self._last)
        self._count += 1
        if len(self.points) >= _POINTS:
            self.points, self._every = self.points[::2], 2 * self._every

    def whole(self) -> list[tuple[int, float]]:
        """Return the points, with the last one."""
        ends = self._last is None or (self.points and self.points[-1] is self._last)
        return list(self.points) if ends or self._last is None else [*self.points, self._last]


def series(reports: Iterable[Metric]) -> dict[str, dict[int, Series]]:
    """Return the series of all metrics by their names and ranks; no more ranks than are drawn."""
    found: dict[str, dict[int, Series]] = {}
    for report in reports:
        for name, value in report["values"].items():
            if isinstance(value, str):  # JSON has no NaN
                value = math.nan
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            ranks = found.setdefault(name, {})
            if report["rank"] in ranks or len(ranks) < _MOST_RANKS:
                ranks.setdefault(report["rank"], Series()).add(report["step"], float(value))
    return found


def plot(name: str, ranks: Mapping[int, Series]) -> str:
    """Draw one metric; empty where none of its values has a place."""
    lines = {rank: one.whole() for rank, one in sorted(ranks.items())}
    finite = [(x, y) for line in lines.values() for x, y in line if math.isfinite(y)]
    if not finite:
        return ""
    xs, ys = zip(*finite, strict=True)
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    across = (_WIDTH - _LEFT - _RIGHT) / ((right - left) or 1)
    up = (_HEIGHT - _TOP - _BOTTOM) / ((high - low) or 1)
    bottom = _HEIGHT - _BOTTOM

    def place(x: float, y: float) -> str:
        return f"{_LEFT + (x - left) * across:.1f},{bottom - (y - low) * up:.1f}"

    shapes = [f'<path d="M{_LEFT},{_TOP}V{bottom}H{_WIDTH - _RIGHT}" class="axis"/>']
    for number, line in enumerate(lines.values()):
        colour = _COLOURS[number % len(_COLOURS)]
        for part in _unbroken(line):
            places = " ".join(place(x, y) for x, y in part)
            shapes.append(f'<polyline points="{places}" stroke="{colour}"/>')
    for value, y in {metric(low): bottom, metric(high): _TOP + 8}.items():
        shapes.append(f'<text x="{_LEFT - 6}" y="{y}" class="left">{_e(value)}</text>')
    shapes.append(f'<text x="{_LEFT}" y="{_HEIGHT - 6}">{left}</text>')
    shapes.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" class="left">{right}</text>')
    legend = "".join(
        f'<span style="color:{_COLOURS[number % len(_COLOURS)]}">— {follow.RANK(rank=rank)}</span> '
        for number, rank in enumerate(lines)
    )
    return (
        f"<figure><figcaption><b>{_e(name)}</b> {legend if len(lines) > 1 else ''}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_e(name)}">'
        f"{''.join(shapes)}</svg></figure>"
    )


def _unbroken(line: Iterable[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    """Cut a line where a value is not finite."""
    parts: list[list[tuple[int, float]]] = [[]]
    for x, y in line:
        if math.isfinite(y):
            parts[-1].append((x, y))
        elif parts[-1]:
            parts.append([])
    return [part if len(part) > 1 else part * 2 for part in parts if part]


def _e(text: str) -> str:
    return html.escape(uncoloured(text))
