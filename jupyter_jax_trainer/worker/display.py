"""What a cell displays in a job: the last expression, ``display()``, figures.

The records go to the job directory as MIME bundles; the notebook shows them as if the cell had run
there. IPython is not needed for it, but where it is loaded its ``display`` is led here, too.
"""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import sys
import uuid
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol

from jupyter_jax_trainer.datatypes import JsonValue, MimeBundle, Namespace
from jupyter_jax_trainer.messages import worker as say

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


class Send(Protocol):
    """Passes a display on; `more` has ``id`` and ``update`` where the cell gave them."""

    def __call__(self, data: MimeBundle, metadata: MimeBundle, /, **more: JsonValue) -> None:
        """Pass one on."""


def bundle(value: Any) -> tuple[MimeBundle, MimeBundle]:
    """Return the MIME bundle of a value and its metadata, by the methods that IPython looks for."""
    data: dict[str, Any] = {"text/plain": repr(value)}  # bytes, too, until the end
    metadata: MimeBundle = {}
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


def _add(data: dict[str, Any], metadata: MimeBundle, found: Any, mime: str | None = None) -> None:
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


class Handle:
    """What ``display(…, display_id=…)`` gives: shows something in the place of what was shown.

    Attributes
    ----------
    display_id
        The name of the place.
    """

    def __init__(self, displayer: Displayer, display_id: str) -> None:
        self._displayer = displayer
        self.display_id = display_id

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, value: Any, **options: Any) -> None:
        """Show a value once more, under the same name."""
        self._displayer.display(value, display_id=self.display_id, **options)

    def update(self, value: Any, **options: Any) -> None:
        """Show a value in the place of what was shown."""
        self._displayer.display(value, display_id=self.display_id, update=True, **options)


class Displayer:
    """Takes what the cell displays and passes it on.

    Parameters
    ----------
    send
        Gets (data, metadata) of each display; None where nobody does.
    passes_on
        Whether this rank passes displays on; else they appear in its log as plain text.
    """

    def __init__(self, send: Send | None, passes_on: bool = True) -> None:
        self._send = send
        self.passes_on = passes_on

    def display(
        self,
        *values: Any,
        metadata: MimeBundle | None = None,
        transient: dict[str, JsonValue] | None = None,
        display_id: str | bool | None = None,
        raw: bool = False,
        update: bool = False,
        **_options: Any,
    ) -> Handle | None:
        """Display values: the ``display`` of the cell, with IPython's options."""
        name = display_id or (transient or {}).get("display_id")
        if update and not name:
            raise TypeError("display_id required for update_display")
        name = uuid.uuid4().hex if name is True else str(name) if name else None
        for value in values:
            if raw:
                self.publish(value, metadata, name, update)
            else:
                self.show(value, metadata, name, update)
        return Handle(self, name) if name else None

    def update_display(self, value: Any, *, display_id: str, **options: Any) -> None:
        """Show a value in the place of what was displayed under a name."""
        self.display(value, display_id=display_id, **{**options, "update": True})

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing: what a job has printed and displayed stays."""

    def show(
        self,
        value: Any,
        metadata: MimeBundle | None = None,
        name: str | None = None,
        update: bool = False,
    ) -> None:
        """Display one value; a value whose representation fails is not the end of a training."""
        try:
            data, own = bundle(value)
        except Exception as error:
            said = say.DISPLAY_FAILED(type=type(value).__name__, error=error)
            data, own = {"text/plain": said}, {}
        self.publish(data, {**own, **(metadata or {})}, name, update)

    def publish(
        self,
        data: MimeBundle | None,
        metadata: MimeBundle | None,
        name: str | None = None,
        update: bool = False,
    ) -> None:
        """Pass a MIME bundle on; with a name, what was shown under it can be replaced."""
        data = data or {}
        if self._send is None or not self.passes_on:
            print(data.get("text/plain", ""))
            return
        size = sum(len(str(content)) for content in data.values())
        if size > _MAX_BYTES:
            data = {"text/plain": say.DISPLAY_TOO_LARGE(megabytes=size / 1e6)}
        more: dict[str, JsonValue] = {"id": name} if name else {}
        if name and update:
            more["update"] = True
        try:
            self._send(data, metadata or {}, **more)
        except (TypeError, ValueError) as error:  # it is no JSON: keys of other types, circles
            said = say.DISPLAY_FAILED(type=", ".join(map(str, data)), error=error)
            self._send({"text/plain": said}, {}, **more)

    def hook(self, value: Any) -> None:
        """Show the value of the cell's last expression."""
        if value is not None:
            self.show(value)

    def close_figures(self, *, show: bool = True) -> None:
        """Show and close the figures that the cell left open, as a notebook does."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums() if show else ():
            self.show(pyplot.figure(number))
        pyplot.close("all")

    def install(self, namespace: Namespace) -> None:
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
    """Return the displayer of this job, for the matplotlib backend."""
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
            data: MimeBundle,
            metadata: MimeBundle | None = None,
            *,
            transient: dict[str, Any] | None = None,
            update: bool = False,
            **_options: Any,
        ) -> None:
            displayer.publish(data, metadata, (transient or {}).get("display_id"), update)

        module.display = displayer.display
        module.update_display = displayer.update_display
        module.clear_output = displayer.clear_output
        module.publish_display_data = publish_display_data
