"""``IPython.display`` for images without IPython: what notebooks commonly use of it.

Nothing here is used where IPython can be imported.
"""

from __future__ import annotations

import base64
import html
import importlib.abc
import importlib.machinery
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from jupyter_jax_trainer.datatypes import MimeBundle
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.display import Displayer, Handle

_FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".svg": "svg+xml"}


class DisplayObject:
    """Something to display, in one MIME type.

    Parameters
    ----------
    data
        The text or the bytes.
    filename
        A file to read them from.
    metadata
        Goes with them.
    """

    mime = "text/plain"
    _binary = False

    def __init__(
        self,
        data: Any = None,
        url: str | None = None,
        filename: str | None = None,
        metadata: MimeBundle | None = None,
    ) -> None:
        if url is not None:
            raise NotImplementedError(say.NO_URL_DISPLAY(type=type(self).__name__))
        if filename is not None:
            path = Path(filename)
            data = path.read_bytes() if self._binary else path.read_text(encoding="utf-8")
        self.data, self.filename, self.metadata = data, filename, metadata or {}

    def _content(self) -> Any:
        return self.data

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        metadata = {self.mime: self.metadata} if self.metadata else {}
        return {"text/plain": repr(self), self.mime: self._content()}, metadata

    def __repr__(self) -> str:
        return f"<IPython.core.display.{type(self).__name__} object>"


class Pretty(DisplayObject):
    """Plain text."""

    def __repr__(self) -> str:
        return str(self.data)


class HTML(DisplayObject):
    """HTML."""

    mime = "text/html"


class Markdown(DisplayObject):
    """Markdown."""

    mime = "text/markdown"


class Latex(DisplayObject):
    """LaTeX, with its dollar signs."""

    mime = "text/latex"


class Math(Latex):
    """A formula."""

    def _content(self) -> str:
        return f"$\\displaystyle {str(self.data).strip('$')}$"


class SVG(DisplayObject):
    """A drawing."""

    mime = "image/svg+xml"


class JSON(DisplayObject):
    """A tree of values."""

    mime = "application/json"

    def _content(self) -> Any:
        return json.loads(self.data) if isinstance(self.data, str) else self.data


class Javascript(DisplayObject):
    """A script."""

    mime = "application/javascript"


class Code(DisplayObject):
    """Source code."""

    mime = "text/html"

    def __init__(
        self, data: Any = None, *arguments: Any, language: str = "", **options: Any
    ) -> None:
        super().__init__(data, *arguments, **options)
        self.language = language

    def _content(self) -> str:
        return f"<pre>{html.escape(str(self.data))}</pre>"


class Image(DisplayObject):
    """A picture.

    Parameters
    ----------
    data
        Its bytes, or the name of its file.
    format
        ``png``, ``jpeg``, ``gif`` or ``svg+xml``; by the name of the file where it is left out.
    width, height
        Pixels.
    """

    _binary = True

    def __init__(
        self,
        data: Any = None,
        url: str | None = None,
        filename: str | None = None,
        format: str | None = None,
        width: int | None = None,
        height: int | None = None,
        **_options: Any,
    ) -> None:
        if isinstance(data, (str, Path)):
            data, filename = None, str(data)
        super().__init__(data, url, filename)
        suffix = Path(filename or "").suffix.lower()
        self.mime = f"image/{(format or _FORMATS.get(suffix, 'png')).replace('jpg', 'jpeg')}"
        size = {"width": width, "height": height}
        self.metadata = {name: value for name, value in size.items() if value is not None}

    def _content(self) -> str:
        return base64.b64encode(self.data).decode()


_CLASSES = (DisplayObject, Pretty, HTML, Markdown, Latex, Math, SVG, JSON, Javascript, Code, Image)


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives ``IPython`` and ``IPython.display`` where nothing else does.

    Parameters
    ----------
    displayer
        Takes what is displayed.
    get_ipython
        The cell's own.
    """

    def __init__(self, displayer: Displayer, get_ipython: Callable[[], Any]) -> None:
        display: dict[str, Any] = {
            "display": displayer.display,
            "update_display": displayer.update_display,
            "clear_output": displayer.clear_output,
            "DisplayHandle": Handle,
            **{one.__name__: one for one in _CLASSES},
        }
        self._modules: dict[str, dict[str, Any]] = {
            "IPython": {"get_ipython": get_ipython, "display": displayer.display},
            "IPython.core": {},
            **dict.fromkeys(_HOMES, display),
            **_FOR_LIBRARIES,
        }

    def install(self) -> None:
        """Be asked last."""
        sys.meta_path.append(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the modules, and those that libraries import once they have found IPython."""
        if fullname not in self._modules:
            return None
        package = fullname in ("IPython", "IPython.core")
        return importlib.machinery.ModuleSpec(fullname, self, is_package=package)

    def exec_module(self, module: ModuleType) -> None:
        """Put the names into a module."""
        module.__dict__.update(self._modules[module.__name__])


def _mark(what: Any = None, *_arguments: Any) -> Any:
    """Decorate nothing: there are no magics."""
    return what if callable(what) else _mark


_HOMES = ("IPython.display", "IPython.core.display", "IPython.core.display_functions")
_FOR_LIBRARIES: dict[str, dict[str, Any]] = {
    "IPython.core.formatters": {
        name: type(name, (), {}) for name in ("BaseFormatter", "DisplayFormatter")
    },
    "IPython.core.magic": {
        "Magics": type("Magics", (), {}),
        **dict.fromkeys(("magics_class", "line_magic", "cell_magic", "line_cell_magic"), _mark),
    },
}
