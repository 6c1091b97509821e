"""Track what a kernel has sent to a session, and select what the next cell has to send.

What a session has assigned stays there. A variable of the notebook is sent when the session has
none of its name, and again when a cell of the notebook that assigns it has run, or its content has
changed, since it was last sent or brought back. Functions and classes are sent again only when
they, or what they use, have changed, so that others keep their compiled programs.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import sys
import time
import uuid
import weakref
from collections import ChainMap
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import IO, Any, cast

from jupyter_jax_trainer.capture.modules import collect, is_own
from jupyter_jax_trainer.capture.names import assigned_names
from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.jobdir.manifest import Held
from jupyter_jax_trainer.jobdir.session import Variable
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.worker.serialization.describe import kind_of
from jupyter_jax_trainer.worker.serialization.pickling import Pickler

Reach = Callable[[str], Mapping[str, None]]
_OF_CALL = "__jaxtrain_"  # how the names of a function and its arguments begin
_LONG = 0.5  # seconds of comparing from which it is said
_PART = 16 << 20  # bytes of a large buffer that a thread hashes at a time
_HASHERS = 4
_MAGICS = ("jaxtrain", "_jaxtrain_bare")


@dataclass
class _Entry:
    """What was sent or brought back last under a name.

    Attributes
    ----------
    token
        What the session was told of its content; None where it was brought back.
    content
        Stands for the value that the notebook had then.
    uses
        What code uses of the notebook, with the contents of that.
    """

    token: str | None
    content: str
    uses: dict[str, str | None] = field(default_factory=dict)


@dataclass
class Selection:
    """What goes with a cell.

    Attributes
    ----------
    sent
        The variables to send, and why again; None for those that the session has not.
    kept
        Those that stay as the session has them.
    entries
        What each of both has now.
    compared
        How many seconds it took to find that out, by variables.
    """

    sent: dict[str, str | None] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    entries: dict[str, _Entry] = field(default_factory=dict)
    compared: dict[str, float] = field(default_factory=dict)

    def slow(self) -> list[str]:
        """Return the variables with which comparing took long, if it did; the slowest first."""
        if sum(self.compared.values()) < _LONG:
            return []
        found = sorted(self.compared, key=lambda name: -self.compared[name])
        return [name for name in found if self.compared[name] > _LONG / 10]


@dataclass
class _Going:
    """What a cell changes of the ledger that has not ended yet.

    Attributes
    ----------
    entries
        What was sent with it.
    touched
        What was sent or is to be assigned: name → kernel cells that there were then.
    least
        Its number in the session is at least this one.
    """

    entries: dict[str, _Entry]
    touched: dict[str, int]
    least: int


class Ledger:
    """What this kernel knows of one session.

    Attributes
    ----------
    has
        The names that the session has, or will have when its waiting cells have run; with the
        token of what was sent last under each.
    lost
        Names that it had before its ranks were last restarted.
    deleted
        Arrays of it whose buffers are gone.
    elsewhere
        Names that not all ranks have which run the cell, with the ranks that do.
    apart
        Names that some ranks bound last while others keep an earlier value, with these ranks.
    there
        Modules that nothing has to be sent for.
    """

    def __init__(self) -> None:
        self.has: dict[str, str | None] = {}
        self.lost: frozenset[str] = frozenset()
        self.deleted: frozenset[str] = frozenset()
        self.elsewhere: dict[str, Sequence[int]] = {}
        self.apart: dict[str, Sequence[int]] = {}
        self.there: set[str] = set()
        self._modules: set[str] = set()
        self._entries: dict[str, _Entry] = {}
        self._assigned: dict[str, int] = {}  # name → the last kernel cell that assigns it
        self._touched: dict[str, int] = {}  # name → cells there were when it was sent
        self._going: dict[Hashable, _Going] = {}
        self._variables: Mapping[str, Variable] = {}
        self._equal: dict[str, int] = {}  # name → the session's cell that brought it back
        self._seen = self._restarts = 0

    @property
    def going(self) -> list[Hashable]:
        """The cells that were sent and have not been settled, in this order."""
        return list(self._going)

    def look(
        self,
        variables: Mapping[str, Variable],
        binds: Iterable[tuple[Iterable[str], Sequence[int] | None]] = (),
        tokens: Mapping[str, str] | None = None,
        ranks: Sequence[int] | None = None,
    ) -> None:
        """Take note of what the session has.

        Parameters
        ----------
        variables
            As of its last cell.
        binds, tokens
            What cells that have not ended may assign, each on these ranks, and what they bring.
        ranks
            The ranks that run the cell; None for all.
        """
        self._variables = variables
        held = {name: one["ranks"] for name, one in variables.items() if "ranks" in one}
        self.elsewhere = {name: on for name, on in held.items() if not _covers(on, ranks)}
        last = {name: one["bound_on"] for name, one in variables.items() if "bound_on" in one}
        self.apart = {name: on for name, on in last.items() if not _covers(on, ranks)}
        self.has = {n: one["token"] for n, one in variables.items() if n not in self.elsewhere}
        self.deleted = frozenset(name for name, one in variables.items() if one["deleted"])
        self._modules = {name for name, one in variables.items() if one["kind"] == "module"}
        for names, on in binds:
            new = [name for name in names if name not in self.has]
            if on is None or _covers(on, ranks):
                self.has.update(dict.fromkeys(new))
            else:
                self.elsewhere.update(dict.fromkeys(new, on))
        self.has.update(tokens or {})
        for name in [name for name in self.has if name.startswith(_OF_CALL)]:
            del self.has[name]  # it is gone when its call has ended
        self.elsewhere = {n: on for n, on in self.elsewhere.items() if n not in self.has}

    def note_restarts(self, number: int, lost: Iterable[str]) -> None:
        """Take note of how often the ranks were restarted, and what was lost the last time."""
        self.lost = frozenset(lost)
        if number != self._restarts:
            self._restarts = number
            self.there.clear()
            for entries in self._sent_last.maps:
                for entry in entries.values():
                    entry.token = None  # what has the name now did not come from here

    def select(self, wanted: Sequence[str], values: Namespace, reach: Reach) -> Selection:
        """Decide which variables go with a cell.

        Parameters
        ----------
        wanted
            Variables of the notebook that the cell reads, or that what it calls reads.
        values
            The notebook's variables.
        reach
            Gives the globals that a variable reads when it is called.
        """
        self.note_assignments(values)
        found = Selection()
        for name in wanted:
            began = time.thread_time()
            entry = self._entry(name, values)
            found.compared[name] = time.thread_time() - began
            why = self._why(name, values[name], entry)
            found.entries[name] = entry
            if why is None:
                found.kept.append(name)
            else:
                found.sent[name] = why or None
        for name in [name for name in wanted if _is_code(values[name])]:
            uses = self._uses(name, values, reach, found)
            found.entries[name].uses = uses
            before = self._sent_last.get(name)
            if name in found.kept and before is not None and before.uses != uses:
                found.kept.remove(name)
                found.sent[name] = say.USES_CHANGED()
        return found

    def shown_as_kept(self, names: Iterable[str], sent: Container[str]) -> list[str]:
        """Return which of the names that a cell reads stay as the session has them."""
        return [n for n in names if n in self.has and n not in sent and n not in self._modules]

    def size_of(self, names: Iterable[str]) -> Held | None:
        """Return how large the arrays in variables of the session are; None where it has none."""
        found = [self._variables[name] for name in names if name in self._variables]
        sizes = [one["size"] for one in found if one["size"] is not None]
        devices = max((one.get("devices", 0) for one in found), default=0)
        return {"size": sum(sizes), "devices": devices} if sizes else None

    def differing(
        self, names: Iterable[str], entries: Mapping[str, _Entry], values: Namespace
    ) -> list[str]:
        """Return which of the session's variables may differ from the notebook's.

        Parameters
        ----------
        names
            Variables that stay as the session has them.
        entries
            What the notebook has now.
        values
            Its variables.
        """
        return [n for n in names if n in entries and self._differs(n, entries[n], values[n])]

    def _differs(self, name: str, now: _Entry, value: Any) -> bool:
        variable = self._variables.get(name)
        if variable is None or self._equal.get(name, 0) >= variable["cell"]:
            return False
        if any(name in going.touched for going in self._going.values()):
            return False  # nobody knows yet
        if _is_code(value) and getattr(value, "__module__", None) != "__main__":
            return False  # both import it
        return variable.get("own", False) or variable["token"] not in (None, now.content)

    def sent(
        self,
        selection: Selection,
        names: Iterable[str],
        binds: Iterable[str],
        cell: Hashable = None,
    ) -> None:
        """Take note that a cell went off.

        Parameters
        ----------
        selection
            What was to go with it.
        names
            What did.
        binds
            What the cell may assign.
        cell
            What it is settled by when it has ended; None for one that is taken as successful.
        """
        entries = {name: selection.entries[name] for name in names}
        touched = dict.fromkeys((*names, *binds), self._seen)
        last = max((one["cell"] for one in self._variables.values()), default=0)
        self._going[cell] = _Going(entries, touched, last + 1)
        if cell is None:
            self.settle(cell, None, succeeded=True)

    def settle(self, cell: Hashable, number: int | None, *, succeeded: bool) -> None:
        """Take note of how a cell has ended, after a look at what the session has.

        What did not arrive counts as unsent, what a failed cell did not reach as unassigned.

        Parameters
        ----------
        cell
            As it was given to `sent`.
        number
            Its number in the session; 0 if it has not begun, None if that is not known.
        succeeded
            It has run to its end.
        """
        found = self._going.pop(cell, None)
        if found is None or number == 0:
            return
        first = found.least if number is None else number
        for name, touched in found.touched.items():
            variable = self._variables.get(name)
            arrived = succeeded or (variable is not None and variable.get("brought", 0) >= first)
            if arrived and name in found.entries:
                self._entries[name] = found.entries[name]
            if arrived or (variable is not None and variable["cell"] >= first):
                self._touched[name] = touched

    def brought_back(self, names: Iterable[str], values: Namespace, number: int = 0) -> None:
        """Take note that the notebook has variables as a cell of the session has left them.

        Parameters
        ----------
        names
            The variables.
        values
            The notebook's variables.
        number
            The number of the cell.
        """
        for name in names:
            entry = self._entry(name, values)
            entry.token = None
            for going in self._going.values():
                going.entries.pop(name, None)
                going.touched.pop(name, None)
            self._entries[name] = entry
            self._touched[name] = self._seen
            self._equal[name] = number

    # -- one variable ------------------------------------------------------------------------

    @property
    def _sent_last(self) -> ChainMap[str, _Entry]:
        """What was sent last of each name; of cells that have not ended, too."""
        return ChainMap(*(one.entries for one in reversed(self._going.values())), self._entries)

    def _entry(self, name: str, values: Namespace) -> _Entry:
        """Describe the value that a variable has now."""
        content = fingerprint(values[name], values)
        return _Entry(content, content)

    def _why(self, name: str, value: Any, now: _Entry) -> str | None:
        """Return why a variable is sent, empty where the session lacks it; None if it is not."""
        if name not in self.has:
            return ""
        before, theirs = self._sent_last.get(name), self.has[name]
        going = (one.touched for one in reversed(self._going.values()))
        touched = ChainMap(*going, self._touched).get(name, 0)
        again = self._assigned.get(name, 0) > touched
        if before is None:
            return say.ASSIGNED_AGAIN() if again else None
        if before.content != now.content:
            return say.CHANGED()
        if before.token not in (None, theirs):
            return say.CHANGED()  # another notebook's, or ours did not arrive
        if again and (not _is_code(value) or self._is_theirs(name, touched)):
            return say.ASSIGNED_AGAIN()
        return None

    def _is_theirs(self, name: str, touched: int) -> bool:
        """Return whether the session has given the name another value than it was sent."""
        variable = self._variables.get(name)
        binds = any(
            one.touched.get(name) == touched and name not in one.entries
            for one in self._going.values()
        )
        return binds or (variable is not None and variable.get("own", False))

    def _uses(
        self, name: str, values: Namespace, reach: Reach, found: Selection
    ) -> dict[str, str | None]:
        """Return what code uses of the notebook, directly or not, with what stands for that."""
        uses: dict[str, str | None] = {}
        queue = list(reach(name))
        while queue:
            one = queue.pop()
            if one in uses or one not in values:
                continue
            if one in found.sent:
                uses[one] = found.entries[one].content
            else:
                entry = self._sent_last.get(one)
                uses[one] = entry.content if entry is not None else None
            queue += reach(one)
        return uses

    # -- the notebook's cells ----------------------------------------------------------------

    def note_assignments(self, values: Namespace) -> None:
        """Look through the cells that the kernel has run since the last time.

        Parameters
        ----------
        values
            The notebook's names.
        """
        cells = values.get("In")
        if not isinstance(cells, list):
            return
        for number in range(self._seen, len(cells)):
            for name in _assigned(str(cells[number])):
                self._assigned[name] = number + 1
        self._seen = len(cells)


def _covers(held: Sequence[int], ranks: Sequence[int] | None) -> bool:
    """Return whether all ranks that run a cell are among these."""
    return ranks is not None and set(ranks) <= set(held)


def _assigned(source: str) -> set[str]:
    """Return the names that a cell of the kernel assigns, below a magic such as %%time, too."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    found = assigned_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="run_cell_magic"),
                args=[ast.Constant(value=str(magic)), _, ast.Constant(value=str(body))],
            ) if magic not in _MAGICS:
                found |= _assigned(body)
            case ast.Call(
                func=ast.Attribute(attr="run_line_magic"),
                args=[ast.Constant(value="time" | "timeit"), ast.Constant(value=str(body))],
            ):
                found |= _assigned(body)
    return found


def _is_code(value: Any) -> bool:
    """Return whether a value is code, or code in a wrapper such as `jit` makes."""
    if kind_of(value) in ("function", "class"):
        return True
    return callable(value) and "__wrapped__" in getattr(value, "__dict__", {})


_arrays: dict[int, tuple[weakref.ref[Any], str]] = {}


def _array_token(value: Any) -> str | None:
    """Return what stands for a jax array, which can't change; None for what is none."""
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(value, jax.Array):
        return None
    key = id(value)
    known = _arrays.get(key)
    if known is None or known[0]() is not value:
        reference = weakref.ref(value, lambda _: _arrays.pop(key, None))
        known = _arrays[key] = (reference, uuid.uuid4().hex)
    return known[1]


# -- contents ------------------------------------------------------------------------------


def fingerprint(value: Any, values: Namespace) -> str:
    """Return what stands for the content of a value: equal for equal contents.

    Of functions of the notebook it is the code, the defaults and the closure, without the names and
    places of cells; what they use of its globals is not in it. Arrays of jax, which can't change,
    count by identity. A value that can't be pickled has none: it is always another.
    """
    digest = hashlib.sha256()
    pickler = _Hasher(cast(IO[bytes], _Digest(digest)), value, values)
    try:
        pickler.dump(value)
    except Exception:
        return uuid.uuid4().hex
    for buffer in pickler.buffers:
        _add_buffer(digest, buffer)
    # What goes by reference is as the files of its module say.
    for name, data in sorted(collect(filter(_is_own_module, pickler.modules)).items()):
        digest.update(name.encode() + hashlib.sha256(data).digest())
    return digest.hexdigest()


def _add_buffer(digest: Any, buffer: memoryview) -> None:
    """Take a buffer into a hash: a large one by the hashes of its parts, on several cores."""
    if buffer.nbytes < 2 * _PART:
        digest.update(buffer)
        return
    from concurrent.futures import ThreadPoolExecutor

    parts = [buffer[start : start + _PART] for start in range(0, buffer.nbytes, _PART)]
    with ThreadPoolExecutor(_HASHERS, "hash") as pool:
        for found in pool.map(lambda part: hashlib.sha256(part).digest(), parts):
            digest.update(found)


class _Digest:
    """Takes a stream into a hash."""

    def __init__(self, digest: Any) -> None:
        self._digest = digest

    def write(self, data: Any) -> int:
        self._digest.update(data)
        return len(data)


class _Hasher(Pickler):
    """Pickles what makes up the content of a value, and nothing that changes with each run."""

    def __init__(self, file: IO[bytes], root: Any, values: Namespace) -> None:
        super().__init__(file, main_globals=values)
        self._root, self._values = root, values
        self._functions: set[int] = set()
        self._classes: set[type] = set()

    def reducer_override(self, obj: Any) -> Any:
        if (token := _array_token(obj)) is not None:
            return str, (token,)
        if type(obj) is CodeType:
            return tuple, (_code_parts(obj),)
        if isinstance(obj, type) and obj is not self._root and obj.__module__ == "__main__":
            return self._reduce_class(obj)
        if type(obj) is FunctionType and obj.__module__ == "__main__":
            return self._reduce_function(obj)
        return super().reducer_override(obj)

    def _reduce_class(self, cls: type) -> Any:
        """Reduce a class that something else is or uses: to its bases, its code and its numbers."""
        if cls in self._classes:
            return str, (cls.__qualname__,)
        self._classes.add(cls)
        parts = [
            (name, part)
            for name, value in vars(cls).items()
            if name not in _OF_PLACES
            for part in _parts_of(value)
            if isinstance(part, _PLAIN) or getattr(part, "__module__", None) == "__main__"
        ]
        digest = hashlib.sha256()
        inner = _Hasher(cast(IO[bytes], _Digest(digest)), self._root, self._values)
        inner._functions, inner._classes = self._functions, self._classes
        try:
            inner.dump([*cls.__bases__, *parts])
        except Exception:  # what a library has put there: not all of it can be pickled
            return str, (cls.__qualname__,)
        self.buffers += inner.buffers
        self.modules |= inner.modules
        return str, (f"{cls.__qualname__} {digest.hexdigest()}",)

    def _reduce_function(self, function: FunctionType) -> Any:
        if id(function) in self._functions:  # it is in its own closure
            return str, (function.__qualname__,)
        self._functions.add(id(function))
        cells = [_content_of(cell) for cell in function.__closure__ or ()]
        attributes = {k: v for k, v in vars(function).items() if k != "__wrapped__"}
        parts = (
            function.__code__,
            function.__defaults__,
            function.__kwdefaults__,
            cells,
            attributes,
            vars(function).get("__wrapped__"),
        )
        return tuple, (list(parts),)


_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OF_PLACES = ("__module__", "__doc__", "__firstlineno__", "__qualname__")


def _parts_of(value: Any) -> Iterator[Any]:
    """Return what of an attribute of a class makes a difference: functions, and what is plain."""
    if isinstance(value, property):
        yield from (one for one in (value.fget, value.fset, value.fdel) if one is not None)
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _parts_of(value.__func__)
    elif isinstance(value, (FunctionType, *_PLAIN)):
        yield value
    else:  # what wraps a function, as `jit` and `cached_property` do
        for name in ("__wrapped__", "func"):
            with contextlib.suppress(Exception):
                inner = getattr(value, name)
                if isinstance(inner, FunctionType):
                    yield inner


def _content_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _code_parts(code: CodeType) -> list[Any]:
    """Return what of code makes a difference when it runs; not where it was written."""
    return [
        code.co_code,
        list(code.co_consts),
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_flags,
        code.co_argcount,
        code.co_kwonlyargcount,
        code.co_posonlyargcount,
        code.co_qualname,
        getattr(code, "co_exceptiontable", b""),  # what a `try` covers; from Python 3.11 on
    ]


def _is_own_module(name: str) -> bool:
    module = sys.modules.get(name)
    return isinstance(module, ModuleType) and is_own(module)
