"""Whether ranks compile the same programs, where they run them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_jax_trainer.messages import Text
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.text import joined, ranks_text, shorten
from jupyter_jax_trainer.worker.records import PROGRAMS, Program

_LONGEST = 80  # characters of a function's name


class ProgramWatch:
    """Compares what ranks are about to compile.

    Processes that run programs together run them in one order, and compile each when they come to
    it. So one of two ranks may be ahead of the other. That each has compiled what the other has not
    can only be where they run different programs, or in another order. What a rank compiles for
    itself, with other ranks, or without running it does not count; nothing is asked of the ranks.
    """

    def __init__(self) -> None:
        # Those that not all have compiled, by the processes that run them together, and by ranks.
        self._open: dict[tuple[int, ...], dict[int, dict[str, Program]]] = {}
        self._over = False

    def take(self, rank: int, program: Program) -> Text | None:
        """Take a program of a rank; return in words how those of others differ, once.

        All that comes after the first difference differs, too.
        """
        together, digest = tuple(program["ranks"]), program["digest"]
        self._over |= program["number"] + 1 >= PROGRAMS  # it tells of no more
        if self._over or rank not in together:
            return None
        known = self._open.setdefault(together, {})
        own = known.setdefault(rank, {})
        own[digest] = program
        if all(digest in known.get(other, {}) for other in together):
            for programs in known.values():
                programs.pop(digest, None)
            return None
        for other, theirs in known.items():
            this = _first_missing(own, theirs)
            that = _first_missing(theirs, own)
            if other != rank and this is not None and that is not None:
                self._over = True
                return _difference(known, this, that)
        return None


def _first_missing(own: Mapping[str, Program], others: Mapping[str, Program]) -> Program | None:
    """Return the first program that one rank runs and another has not compiled."""
    missing = (one for digest, one in own.items() if digest not in others and one["runs"])
    return next(missing, None)


def _difference(known: Mapping[int, Mapping[str, Program]], *programs: Program) -> Text:
    """Say which ranks compile what."""
    found = []
    for one, other in (programs, programs[::-1]):
        ranks = [
            rank
            for rank, compiled in known.items()
            if one["digest"] in compiled and other["digest"] not in compiled
        ]
        found.append((min(ranks), _compile_this(one, ranks)))
    named = {(one["name"], one["cell_line"]) for one in programs}
    message = say.SAME_FUNCTION_DIFFERS if len(named) == 1 else say.PROGRAMS_DIFFER
    return message(found=joined(text for _, text in sorted(found)), name=_name(programs[0]))


def _compile_this(program: Program, ranks: Sequence[int]) -> Text:
    """Say which ranks compile a program."""
    told = {"name": _name(program), "ranks": ranks_text(ranks)}
    if program["cell_line"] is None:
        return say.COMPILE_THIS(**told)
    cell = "cell" if program["cell"] == "Cell" else program["cell"]
    return say.COMPILE_THIS_AT(**told, line=say.CELL_LINE(cell=cell, line=program["cell_line"]))


def _name(program: Program) -> str:
    return shorten(program["name"], _LONGEST)
