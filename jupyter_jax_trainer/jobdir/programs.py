"""Whether ranks compile the same programs, where they run them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from jupyter_jax_trainer.messages import Text
from jupyter_jax_trainer.messages import jobs as say
from jupyter_jax_trainer.text import joined, ranks_text, shorten
from jupyter_jax_trainer.worker.records import PROGRAMS, Program

_LONGEST = 80  # characters of a function's name
_PASSED = 2  # reports of two ranks after which the one does not come to a program of the other


_Function = tuple[str, str, int | None]  # its name, and the cell and the line that call it


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
        self._reports: Counter[int] = Counter()  # of each rank
        self._opened: dict[str, Counter[int]] = {}  # reports when a program was first compiled
        self._functions: dict[int, set[_Function]] = {}  # that each rank has compiled
        self._suspect: Program | None = None
        self._said: tuple[Program, Text] | None = None

    def take(self, rank: int, program: Program) -> Text | None:
        """Take a program of a rank; return in words how those of others differ, once.

        All that comes after the first difference differs, too.
        """
        together, digest = tuple(program["ranks"]), program["digest"]
        self._over |= program["number"] + 1 >= PROGRAMS  # it tells of no more
        if self._over or rank not in together:
            return None
        self._opened.setdefault(digest, self._reports.copy())
        self._functions.setdefault(rank, set()).add(_function(program))
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

    @property
    def has_doubts(self) -> bool:
        """Whether a rank runs a program that another one, which has to run it, has not compiled."""
        return any(self._missing())

    def pass_step(self, rank: int, reports: int) -> Text | None:
        """Take note of reports; return in words if ranks have run different programs, once.

        They have where two ranks went on, and one has run a function anew, as for other shapes,
        that the other had compiled as well, and not anew. What only some ranks run by design is
        another function.
        """
        self._reports[rank] += reports
        for program in self._missing():
            before, known = self._opened[program["digest"]], self._open[tuple(program["ranks"])]
            on = [r for r in program["ranks"] if self._reports[r] - before[r] >= _PASSED]
            has = [r for r in on if program["digest"] in known.get(r, {})]
            same = _function(program)
            others = [r for r in on if r not in has and same in self._functions.get(r, ())]
            if has and others:
                self._over = True
                return say.RAN_BESIDE(
                    found=_compile_this(program, has),
                    others=ranks_text(others),
                    name=_name(program),
                )
        return None

    def look(self, waiting: Collection[int]) -> Text | None:
        """Take which ranks wait in jax for others; return in words where they hang, once.

        They do where all ranks that run a program together wait, and some have not compiled it, at
        two looks: else one of them may still come to it.
        """
        found = [one for one in self._missing() if set(one["ranks"]) <= set(waiting)]
        before, self._suspect = self._suspect, found[-1] if found else None
        if self._suspect is None or self._suspect != before or self._said is not None:
            return None
        self._said = self._suspect, self._text(self._suspect)
        return self._said[1]

    def withdraw(self) -> Text | None:
        """Return what was said and has turned out to be wrong; None for nothing."""
        if self._said is None or any(one == self._said[0] for one in self._missing()):
            return None
        words, self._said = self._said[1], None
        return words

    def _text(self, program: Program) -> Text:
        """Say which ranks have compiled a program, and which have not."""
        known = self._open[tuple(program["ranks"])]
        has = sorted(rank for rank, own in known.items() if program["digest"] in own)
        others = [rank for rank in program["ranks"] if rank not in has]
        return say.WAIT_BESIDE(found=_compile_this(program, has), others=ranks_text(others))

    def _missing(self) -> Iterator[Program]:
        """Give the programs that a rank runs, and another has not compiled."""
        if not self._over:
            ranks = (own for known in self._open.values() for own in known.values())
            yield from (one for own in ranks for one in own.values() if one["runs"])


def _function(program: Program) -> _Function:
    """Return which function became a program, and where."""
    return program["name"], program["cell"], program["cell_line"]


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
