"""What a cell displays in a job: the last expression, ``display()``, figures.

The records go to the job directory as MIME bundles; the notebook shows them as if the cell had run
there. IPython is not needed for it, but where it is loaded its ``display`` is led here, too.
"""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
}
_MAX_BYTES = 16 << 20

Send = Callable[[dict[str, Any], dict[str, Any]], None]


def bundle(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the MIME bundle of a value and its metadata, by the methods that IPython looks for."""
    data: dict[str, Any] = {"text/plain": repr(value)}
    metadata: dict[str, Any] = {}
    if isinstance(value, type):
        return data, metadata
    if hasattr(type(value), "_repr_mimebundle_"):
        _add(data, metadata, value._repr_mimebundle_(include=None, exclude=None))
    for method, mime in _METHODS.items():
        if mime not in data and hasattr(type(value), method):
            _add(data, metadata, getattr(value, method)(), mime)
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    if figure is not None and isinstance(value, figure) and "image/png" not in data:
        data["image/png"] = _png(value)
    for mime, content in data.items():
        if isinstance(content, bytes):
            data[mime] = base64.b64encode(content).decode()
    return data, metadata


def _add(
    data: dict[str, Any], metadata: dict[str, Any], found: Any, mime: str | None = None
) -> None:
    """Take what a ``_repr_…_`` method gave: None, content, or content and metadata."""
    if found is None:
        return
    content, extra = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if mime is not None:
        data[mime] = content
        if extra:
            metadata[mime] = extra
    else:
        data.update(content)
        metadata.update(extra or {})


def _png(figure: Any) -> bytes:
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()


class Displayer:
    """Takes what the cell displays and passes it on.

    Parameters
    ----------
    send
        Gets (data, metadata) of each display; None on ranks other than 0, whose displays appear
        in their logs as plain text.
    """

    def __init__(self, send: Send | None) -> None:
        self._send = send

    def display(self, *values: Any, raw: bool = False, **_options: Any) -> None:
        """Display values: the ``display`` of the cell."""
        for value in values:
            if raw:
                self.publish(value, None)
            else:
                self.show(value)

    def show(self, value: Any) -> None:
        """Display one value; a value whose representation fails is not the end of a training."""
        try:
            data, metadata = bundle(value)
        except Exception as error:
            data, metadata = {"text/plain": f"<{type(value).__name__}: {error!r} on display>"}, {}
        self.publish(data, metadata)

    def publish(self, data: dict[str, Any] | None, metadata: dict[str, Any] | None) -> None:
        """Pass a MIME bundle on."""
        data = data or {}
        if self._send is None:
            print(data.get("text/plain", ""))
            return
        size = sum(len(str(content)) for content in data.values())
        if size > _MAX_BYTES:
            data = {"text/plain": f"(a display of {size / 1e6:.0f} MB: too large to be shown)"}
        self._send(data, metadata or {})

    def hook(self, value: Any) -> None:
        """Show the value of the cell's last expression."""
        if value is not None:
            self.show(value)

    def show_figures(self) -> None:
        """Show and close the figures that the cell left open, as a notebook does."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums():
            self.show(pyplot.figure(number))
        pyplot.close("all")

    def install(self, namespace: dict[str, Any]) -> None:
        """Give the cell its ``display``, and lead IPython's and matplotlib's here."""
        import os

        global _current
        _current = self
        namespace["display"] = self.display
        sys.displayhook = self.hook
        os.environ["MPLBACKEND"] = "module://jupyter_jax_trainer.worker.figures"
        sys.meta_path.insert(0, _LeadIPython(self))


_current: Displayer | None = None


def current() -> Displayer | None:
    """Give the displayer of this job, for the matplotlib backend."""
    return _current


class _LeadIPython(importlib.abc.MetaPathFinder):
    """Replaces IPython's ``display`` when IPython is imported, not before: that takes 0.3 s."""

    _NAME = "IPython.core.display_functions"

    def __init__(self, displayer: Displayer) -> None:
        self._displayer = displayer
        if self._NAME in sys.modules:
            self._replace(sys.modules[self._NAME])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._NAME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            self._replace(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _replace(self, module: Any) -> None:
        displayer = self._displayer

        def publish_display_data(
            data: dict[str, Any], metadata: dict[str, Any] | None = None, **_options: Any
        ) -> None:
            displayer.publish(data, metadata)

        module.display = displayer.display
        module.publish_display_data = publish_display_data
