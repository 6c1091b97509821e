"""Every cell of a notebook in a session (``%jaxtrain use -s NAME --all-cells``), but ``%%here``.

The text of a cell is rewritten before IPython looks at it: as a cell magic that runs it in the
session. Magics, ``!`` and ``?`` at its top stay what they are, and run in the kernel before.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jupyter_jax_trainer.messages import commands as say
from jupyter_jax_trainer.text import plain

BARE = "_jaxtrain_bare"  # not offered where somebody completes `%%jaxtrain`
_CELL_MAGIC = re.compile(r"\s*%%(\S+)")
_HERE = re.compile(r"\s*%%here\s*$")
_HELP = re.compile(r"\s*(?:\?.*|%{0,2}[^\W\d][\w.*\[\]]*\?{1,2})\s*$")
_USE = re.compile(r"\s*%jaxtrain\s+use\b")
_INSTALLS = re.compile(
    r"\s*[!%]{1,2}\s*(?:\S*python\S*\s+-m\s+)?(?:pip3?|uv|conda|mamba|micromamba)\s"
    r".*?\b(?:(?:un)?install|add|remove|sync|update)\b"
)
_CHANGES = re.compile(r"\s*%(?:cd|env|set_env)\s+\S")
_AROUND = ("time", "capture")  # magics that run the cell below them as a cell
_OF_PYTHON = ("timeit", "prun", "debug")  # those that do something else with its code
_OF_CODE = ("time", *_OF_PYTHON)  # line magics that run code


class AllCells:
    """Rewrites cells, as one of IPython's input transformers.

    Attributes
    ----------
    shell
        The IPython shell.
    session
        The session in which cells run; None where they run in the kernel.
    """

    has_side_effects = True  # not for cells of which IPython asks whether they are complete

    def __init__(self, shell: Any) -> None:
        self.session: str | None = None
        self.shell = shell
        self._executing = self._submitting = False

    def install(self) -> None:
        """Be the first to see the text of each cell."""
        self.shell.input_transformers_cleanup.insert(0, self)
        self.shell.events.register("pre_execute", self._begin)
        self.shell.events.register("post_execute", self._end)

    def remove(self) -> None:
        """Leave cells as they are."""
        if self not in self.shell.input_transformers_cleanup:
            return
        self.shell.input_transformers_cleanup.remove(self)
        self.shell.events.unregister("pre_execute", self._begin)
        self.shell.events.unregister("post_execute", self._end)

    def _begin(self) -> None:
        self._executing = True

    def _end(self) -> None:
        self._executing = False

    @contextlib.contextmanager
    def submitting(self) -> Iterator[None]:
        """Suspend rewriting while a cell is submitted to a job."""
        self._submitting = True
        try:
            yield
        finally:
            self._submitting = False

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines of a cell as IPython is to see them."""
        if self._submitting:
            return lines
        lines = here(lines)
        if self.session is None or not self._is_cell("".join(lines)):
            return lines
        return rewritten(lines, self.session, self._is_automagic)

    def _is_cell(self, text: str) -> bool:
        """Return whether a text is a cell of the notebook, and no part of one or of a program."""
        kernel = getattr(self.shell, "kernel", None)
        try:
            asked = kernel.get_parent()["content"] if kernel is not None else {}
        except (AttributeError, KeyError, TypeError):
            asked = {}
        if "code" not in asked:
            return not self._executing
        # Front ends run code of their own that the history of the notebook does not get.
        of_notebook = asked.get("store_history", True) and not asked.get("silent")
        return bool(of_notebook) and str(asked["code"]).rstrip("\n") == text.rstrip("\n")

    def _is_automagic(self, line: str) -> bool:
        """Return whether a line that is no Python is a magic whose ``%`` was left out."""
        with self.shell.builtin_trap:
            found = self.shell.prefilter_manager.prefilter_lines(line)
        return str(found).startswith("get_ipython().run_line_magic(")


def here(lines: list[str]) -> list[str]:
    """Return a cell without its ``%%here``; line numbers stay."""
    at = _first(lines)
    if at is None or not _HERE.match(lines[at]):
        return lines
    return [*lines[:at], "# %%here\n", *lines[at + 1 :]]


def rewritten(
    lines: list[str], session: str, is_automagic: Callable[[str], bool] = lambda line: False
) -> list[str]:
    """Return a cell that runs in a session.

    Parameters
    ----------
    lines
        The cell.
    session
        The name of the session, for what there is to say.
    is_automagic
        Tells whether a line is a magic without its ``%``.
    """
    at = _first(lines)
    if at is None or lines[at].startswith("# %%here"):
        return lines
    if found := _CELL_MAGIC.match(lines[at]):
        return _below_magic(found[1], lines, at)
    end = _head(lines, is_automagic)
    if any(map(_USE.match, lines[:end])):
        return lines  # `use` applies from the next cell on
    said = [f"print({str(note)!r})\n" for note in _notes(lines[:end], session)]
    if _first(lines[end:]) is None or _is_comment(lines[end:]):
        return [*_ended(lines), *said] if said else lines
    return [*lines[:end], *said, _call(["\n"] * end + lines[end:])]


def _below_magic(name: str, lines: list[str], at: int) -> list[str]:
    """Rewrite a cell that begins with a cell magic: most are the kernel's."""
    if name in _OF_PYTHON:
        return [_call(lines)]  # which is refused as in any cell of a job
    body = lines[at + 1 :]
    first = _first(body)
    nested = first is not None and _CELL_MAGIC.match(body[first])
    if name not in _AROUND or nested or _is_comment(body):
        return lines
    return [*_ended(lines[: at + 1]), "%%jaxtrain\n", *body]


def _call(lines: Sequence[str]) -> str:
    return f"get_ipython().run_cell_magic({BARE!r}, '', {''.join(lines)!r})\n"


def _ended(lines: list[str]) -> list[str]:
    """Return lines of which the last one has an end."""
    return lines if lines[-1].endswith("\n") else [*lines[:-1], lines[-1] + "\n"]


def _head(lines: list[str], is_automagic: Callable[[str], bool]) -> int:
    """Return how many lines at the top of a cell are the kernel's: magics, and what is between."""
    end = at = 0
    while at < len(lines):
        if _is_comment([lines[at]]):
            at += 1
            continue
        if not _is_magic(lines[at]):
            break
        while lines[at].rstrip("\r\n").endswith("\\") and at + 1 < len(lines):
            at += 1
        end = at = at + 1
    code = [line for line in lines if not _is_comment([line])]
    if len(code) == 1 and not end and not _is_python(code[0]) and is_automagic(code[0].strip()):
        return len(lines)
    return end


def _is_magic(line: str) -> bool:
    text = line.strip()
    if text.startswith("!") or _HELP.match(text):
        return True
    return text.startswith("%") and text[1:].split()[:1] not in [[name] for name in _OF_CODE]


def _is_python(line: str) -> bool:
    try:
        compile(line.strip(), "<cell>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _is_comment(lines: Sequence[str]) -> bool:
    """Return whether there is nothing but comments."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in lines)


def _first(lines: Sequence[str]) -> int | None:
    """Return the number of the first line that is not empty."""
    return next((number for number, line in enumerate(lines) if line.strip()), None)


def _notes(head: Sequence[str], session: str) -> list[str]:
    """Say which lines change the kernel, as those may expect who mean the session."""
    found = []
    for line in head:
        shown = plain(line.strip())
        if _INSTALLS.match(line):
            found.append(f"{(note := say.INSTALLS_HERE(line=shown, session=session))} {note.hint}")
        elif _CHANGES.match(line):
            found.append(say.CHANGES_KERNEL(line=shown, session=session))
    return found
