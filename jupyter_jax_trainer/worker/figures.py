"""A matplotlib backend for jobs: ``plt.show()`` sends the figures to the notebook."""

from __future__ import annotations

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

from jupyter_jax_trainer.worker.display import current

__all__ = ["FigureCanvas", "show"]


def show(*_args: Any, **_kwargs: Any) -> None:
    """Send the open figures and close them."""
    displayer = current()
    if displayer is not None:
        displayer.close_figures()
