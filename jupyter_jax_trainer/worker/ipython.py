"""What a cell finds in a job instead of the IPython shell: the few commands that make sense there.

``!command`` and ``%time`` in a cell become calls of ``get_ipython()``; so does code of earlier
cells that came along.
"""

from __future__ import annotations

import ast
import re
import string
import subprocess
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.messages import worker as say

LINE_MAGICS = ("time", "matplotlib")
"""The line magics that a job knows."""

_VARIABLE = re.compile(r"(?<!\$)\$(\w+)")


class Lines(list[str]):
    """The lines that a command printed, as IPython gives them: ``.s``, ``.n`` and ``.l`` work."""

    @property
    def l(self) -> list[str]:  # noqa: E743, D102
        return list(self)

    @property
    def n(self) -> str:  # noqa: D102
        return "\n".join(self)

    @property
    def s(self) -> str:  # noqa: D102
        return " ".join(self)


class Shell:
    """Stands in for the IPython shell.

    Parameters
    ----------
    namespace
        The namespace in which the cell runs.
    """

    def __init__(self, namespace: Namespace) -> None:
        self.user_ns = namespace

    def system(self, command: str) -> None:
        """Run ``!command``; what it prints goes where the cell's own output goes."""
        code = subprocess.call(
            _expand(command, self._variables()), shell=True, stdin=subprocess.DEVNULL
        )
        self.user_ns["_exit_code"] = code

    def getoutput(self, command: str, split: bool = True) -> Lines | str:
        """Run ``x = !command`` and give the lines that it printed."""
        done = subprocess.run(
            _expand(command, self._variables()),
            shell=True,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            errors="replace",
            check=False,
        )
        self.user_ns["_exit_code"] = done.returncode
        return Lines(done.stdout.splitlines()) if split else done.stdout

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> Any:
        """Run one of the line magics that a job knows."""
        if magic_name == "time":
            return self._time(line, self._frame())
        if magic_name == "matplotlib":
            return None  # figures are always shown in the notebook
        known = " and ".join(f"%{name}" for name in LINE_MAGICS)
        raise NotImplementedError(say.NOTEBOOK_LINE_MAGIC(name=magic_name, known=known))

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> Any:
        """Refuse: cell magics are the notebook's."""
        raise NotImplementedError(say.NOTEBOOK_CELL_MAGIC(name=magic_name))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(say.NO_SHELL(name=name))

    def _frame(self) -> FrameType:
        """Return the nearest frame outside of this module."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals is globals():
            frame = frame.f_back
        assert frame is not None
        return frame

    def _variables(self) -> Mapping[str, Any]:
        frame = self._frame()
        return {**self.user_ns, **frame.f_globals, **frame.f_locals}

    def _time(self, line: str, frame: FrameType) -> Any:
        tree = ast.parse(line)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        wall, cpu = time.perf_counter(), time.process_time()
        exec(compile(tree, "<timed>", "exec"), frame.f_globals, frame.f_locals)
        value = None
        if isinstance(last, ast.Expr):
            code = compile(ast.Expression(last.value), "<timed>", "eval")
            value = eval(code, frame.f_globals, frame.f_locals)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"CPU times: {_seconds(cpu)}\nWall time: {_seconds(wall)}")
        return value


def _seconds(value: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def _expand(command: str, variables: Mapping[str, Any]) -> str:
    """Put values into ``{expression}`` and ``$name``, and leave alone what is none of ours."""

    def dollar(match: re.Match[str]) -> str:
        name = match.group(1)
        return str(variables[name]) if name in variables else match.group(0)

    try:
        parts = []
        for text, field, form, conversion in string.Formatter().parse(command):
            parts.append(_VARIABLE.sub(dollar, text))
            if field is not None:
                value = eval(field, dict(variables))
                if conversion is not None:
                    value = repr(value) if conversion == "r" else str(value)
                parts.append(format(value, form or ""))
    except Exception:  # braces of the shell's own: ${HOME}, awk '{print}'
        return _VARIABLE.sub(dollar, command).replace("$$", "$")
    return "".join(parts).replace("$$", "$")
