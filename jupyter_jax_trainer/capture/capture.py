"""Capture what a cell or a function needs: code, variables, the user's own modules."""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from jupyter_jax_trainer.capture import names as analysis
from jupyter_jax_trainer.capture.files import Files
from jupyter_jax_trainer.capture.imports import Imports
from jupyter_jax_trainer.capture.kernelonly import check_needs_no_kernel
from jupyter_jax_trainer.capture.ledger import Ledger, Selection
from jupyter_jax_trainer.capture.modules import collect, differences, is_own
from jupyter_jax_trainer.capture.source import for_analysis, parse_cell
from jupyter_jax_trainer.capture.values import describe_failure, globals_used
from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.errors import CaptureError, UsageError
from jupyter_jax_trainer.jobdir.layout import RETURNED
from jupyter_jax_trainer.jobdir.manifest import Held
from jupyter_jax_trainer.messages import Text, options
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.text import duration, joined, ranks_text, runs_text
from jupyter_jax_trainer.worker.serialization.archive import Offer
from jupyter_jax_trainer.worker.serialization.describe import kind_of, type_name
from jupyter_jax_trainer.worker.serialization.pickling import Pickler, stays_behind

_PROVIDED = {"get_ipython", "display", "exit", "quit"}
_IMPORTED = {"report", "checkpoint_dir"}  # what cells import of this package
_RECORDS = {"In", "Out", "_", "__", "___"}
_MOST_OUTSIDE = 500
_NAMED = 6  # variables that a sentence lists
_FLAG = "xla_force_host_platform_device_count"

OnSize = Callable[[int], None]


@dataclass(frozen=True)
class Sent:
    """One thing that is sent, as it is shown to the user.

    Attributes
    ----------
    name, type
        The variable and what it is: ``float32[60000,784]``, ``dict of 3``.
    kind
        ``function``, ``class``, ``module``, ``array``, ``value`` or ``files``; ``package`` for a
        distribution, whose type is its version.
    size
        Bytes that it added to the stream and the buffers.
    """

    name: str
    kind: str
    type: str
    size: int


@dataclass
class Capture:
    """All that a job needs from here.

    Attributes
    ----------
    code, label
        Source to run, with the line numbers that the user sees; and what tracebacks call it.
    names
        The variables in `stream`, in order.
    sent
        What is worth showing.
    stream, buffers
        (name, value) pairs for `worker.pickling.Unpickler`, one after another.
    modules
        The user's own modules: path → content.
    files
        Files that the cell finds in its working directory.
    imports
        What all that imports, without what the modules do.
    sources
        File name → (label, text) of code that was sent by value, for tracebacks.
    python_bound
        Variables whose pickles hold code, which only the same Python minor can read.
    outside
        Names of the notebook's variables that were not sent, for hints; not all, if many.
    notes
        What the user should know before the job runs, a sentence each.
    offers
        Packages that go along in case the image lacks them; None where it is known what it has.
    binds
        Names that the cell may assign.
    kept, held
        What a cell of a session reads that the session has, and how large that is.
    remarks
        What its card says to the end.
    selection, ledger
        What of the notebook goes with such a cell, and what this kernel knows of the session.
    """

    code: str
    names: list[str] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    stream: bytes = b""
    buffers: list[memoryview] = field(default_factory=list)
    modules: dict[str, bytes] = field(default_factory=dict)
    files: Files = field(default_factory=Files)
    imports: Imports = field(default_factory=Imports)
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    python_bound: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    offers: list[Offer] | None = None
    label: str = "Cell"
    binds: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    held: Held | None = None
    remarks: list[str] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)
    ledger: Ledger | None = None

    def tokens(self) -> dict[str, str]:
        """Return what stands for the content of each variable that goes to a session."""
        found = self.selection.entries
        return {name: found[name].content for name in self.names if name in found}

    @property
    def total(self) -> int:
        """Bytes of everything."""
        return (
            len(self.code)
            + len(self.stream)
            + sum(b.nbytes for b in self.buffers)
            + sum(map(len, self.modules.values()))
            + self.files.size
        )


def capture_cell(
    cell: str,
    namespace: Namespace,
    *,
    use: Sequence[str] = (),
    out: Sequence[str] = (),
    shell: Any = None,
    file: str | None = None,
    bare: bool = False,
    on_size: OnSize | None = None,
    ledger: Ledger | None = None,
) -> Capture:
    """Capture a cell with the variables of the notebook that it reads.

    Parameters
    ----------
    cell
        The cell without the line of the magic.
    namespace
        The notebook's globals.
    use
        Variables to send besides those that the cell reads.
    out
        Variables that are wanted back; checked here, so that a misspelt name costs nothing.
    shell
        The IPython shell, if there is one.
    file
        The name of the file of which this is the text, when it is no cell.
    bare
        It is a whole cell of the notebook, as opposed to what is below the line of a magic.
    on_size
        Called with the bytes so far before the next ones are copied. May raise.
    ledger
        What the session has in which the cell is to run; what is as it has it is not sent.

    Raises
    ------
    UsageError
        The code or a name is wrong.
    CaptureError
        A variable can't travel.
    """
    first_line = 1 if file or bare else 2
    source = parse_cell(cell, shell, first_line=first_line)
    tree = for_analysis(source.tree, namespace)
    if bare:
        check_needs_no_kernel(tree, namespace)
    reach = _Outside(namespace)
    free = analysis.analyze(tree, reach)
    has = ledger.has if ledger is not None else {}
    _check_undefined(tree, {**has, **namespace}, cell, first_line, ledger)
    for name in use:
        if name not in namespace:
            raise UsageError(say.USE_UNDEFINED(name=name), _did_you_mean(name, namespace))
    for name in free.certain & _RECORDS & namespace.keys():
        raise UsageError(say.HISTORY(line=free.lines[name], name=name))
    needed = [n for n in free.lines if n in namespace and not stays_behind(n, namespace[n])]
    assigned = analysis.assigned_names(tree)
    wanted = [*needed, *(name for name in use if name not in needed)]
    left_out = assigned - set(wanted)
    selection = Selection(dict.fromkeys(wanted))
    if ledger is not None:
        selection = ledger.select(wanted, namespace, reach)
        left_out |= has.keys() - selection.sent.keys()
    packer = _Packer(namespace, namespace, on_size, left_out=left_out)
    packer.add(selection.sent, optional=set(needed) - free.certain - set(use), via=free.via)
    for name in out:
        if name not in assigned and name not in packer.capture.names and name not in has:
            raise UsageError(
                say.OUT_NEVER_SET(name=name),
                _did_you_mean(name, {*assigned, *packer.capture.names, *has}),
            )
    captured = packer.finish(source.code, tree, shell)
    captured.binds, captured.selection = sorted(assigned), selection
    captured.ledger = ledger
    if ledger is not None:
        _note_kept(captured, ledger, [*free.lines, *use], namespace)
    captured.label = file or captured.label
    return captured


def capture_call(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Namespace | None = None,
    *,
    on_size: OnSize | None = None,
    ledger: Ledger | None = None,
) -> Capture:
    """Capture a call: a function and its arguments. The code binds what it returns to `RETURNED`.

    Raises
    ------
    CaptureError
        The function, an argument or a global that the function uses can't travel.
    """
    inner = inspect.unwrap(func)
    namespace = getattr(inner, "__globals__", {})
    if namespace.get("__name__") != "__main__":
        namespace = vars(sys.modules["__main__"])
    shown = str(getattr(func, "__name__", type(func).__name__))
    call = {"__jaxtrain_func__": func}
    labels = {"__jaxtrain_func__": shown if shown.isidentifier() else say.FUNCTION()}
    parts = []
    for index, value in enumerate(args):
        call[f"__jaxtrain_{index}__"] = value
        labels[f"__jaxtrain_{index}__"] = say.ARGUMENT(which=index + 1)
        parts.append(f"__jaxtrain_{index}__")
    for key, value in (kwargs or {}).items():
        name = f"__jaxtrain_arg_{key}__"  # it may be called `func`, too
        call[name] = value
        labels[name] = say.ARGUMENT(which=key)
        parts.append(f"{key}={name}")
    code = f"{RETURNED} = __jaxtrain_func__({', '.join(parts)})\n"
    tree = ast.parse(code)
    values = {**namespace, **call}
    reach = _Outside(values)
    free = analysis.analyze(tree, reach)
    wanted = [n for n in free.lines if n in values and not stays_behind(n, values[n])]
    selection, left_out = Selection(dict.fromkeys(wanted)), set[str]()
    if ledger is not None:
        selection = ledger.select(wanted, values, reach)
        left_out = ledger.has.keys() - selection.sent.keys()
    packer = _Packer(namespace, values, on_size, labels=labels, left_out=left_out)
    packer.add(selection.sent, optional=set(), via=free.via)
    captured = packer.finish(code, tree, None)
    captured.selection, captured.ledger = selection, ledger
    if ledger is not None:
        _note_kept(captured, ledger, [name for name in free.lines if name not in call], namespace)
    return captured


def _note_kept(
    captured: Capture, ledger: Ledger, read: Iterable[str], namespace: Namespace
) -> None:
    """Note what a cell reads that its session has, and what there is to say of that."""
    selection = captured.selection
    captured.kept = kept = ledger.shown_as_kept(read, selection.sent)
    captured.held = ledger.size_of(kept)
    notes = [say.DELETED_IN_SESSION(name=name) for name in kept if name in ledger.deleted]
    for name in (name for name in kept if name in ledger.apart):
        notes.append(say.DIFFERS_IN_SESSION(name=name, ranks=ranks_text(ledger.apart[name])))
    if slow := selection.slow():
        spent = duration(sum(selection.compared.values()))
        notes.append(say.COMPARING_TOOK(names=joined(slow, most=4), time=spent))
    captured.notes += notes
    captured.remarks += notes
    if others := ledger.differing(kept, selection.entries, namespace):
        captured.remarks.append(say.MAY_DIFFER(names=joined(others, most=_NAMED)))


def _did_you_mean(name: str, candidates: Iterable[str]) -> Text | None:
    nearest = analysis.nearest_name(name, candidates)
    return options.DID_YOU_MEAN(name=repr(nearest)) if nearest else None


def _check_undefined(
    tree: ast.Module,
    namespace: Mapping[str, Any],
    cell: str,
    first_line: int,
    ledger: Ledger | None,
) -> None:
    known = {*namespace, *_PROVIDED}
    missing = analysis.undefined_names(tree, known)
    if not missing:
        return
    lines = cell.splitlines()
    lost = ledger.lost if ledger else frozenset[str]()
    elsewhere = ledger.elsewhere if ledger else {}
    found = []
    for name, line in missing:
        text = lines[line - first_line].strip() if 0 <= line - first_line < len(lines) else ""
        if name in elsewhere:
            ranks = elsewhere[name]
            on, option = ranks_text(ranks), runs_text(ranks).replace(" ", "")
            found.append(
                say.ON_SOME_RANKS(line=line, name=name, source=text, ranks=on, option=option)
            )
            continue
        if name in lost:
            found.append(say.LOST_IN_SESSION(line=line, name=name, source=text))
            continue
        if name in _IMPORTED:
            found.append(say.NOT_IMPORTED(line=line, name=name, source=text))
            continue
        candidates = {*known, *analysis.assigned_names(tree), *dir(builtins)}
        near = analysis.nearest_name(name, candidates)
        found.append(
            say.MISSPELT(line=line, name=name, near=near, source=text)
            if near
            else say.UNDEFINED(line=line, name=name, source=text)
        )
    raise UsageError(found[0] if len(found) == 1 else say.SEVERAL_UNDEFINED(each="\n".join(found)))


class _Outside:
    """Looks up which globals a variable of the notebook will read when it is called."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._known: dict[str, dict[str, None]] = {}

    def __call__(self, name: str) -> Mapping[str, None]:
        if name not in self._known:
            value = self._values.get(name)
            self._known[name] = {} if stays_behind(name, value) else globals_used(value)
        return self._known[name]


def _goes_by_name(value: Any) -> bool:
    """Return whether the job can import a value by its name, so that nothing is sent."""
    if isinstance(value, ModuleType):
        return not is_own(value)
    if kind_of(value) not in ("class", "function"):
        return False
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    return module is not None and module.__name__ != "__main__" and not is_own(module)


class _Watched(Pickler):
    """Notes what the functions import that it pickles, and which modules go by their names."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.imports = Imports()
        self._named: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is ModuleType and obj.__name__ not in self.modules:
            self._named.add(obj.__name__)
        return super().reducer_override(obj)

    def _note_code(self, code: CodeType) -> None:
        super()._note_code(code)
        self.imports.add_function(code)

    def all_imports(self, tree: ast.Module) -> Imports:
        """Return what all that was pickled imports, and a cell."""
        found = self.imports
        found.add_code(tree)
        found.certain |= self.modules
        found.objects = self.modules - self._named
        return found


class _Bound:
    """Asks whether so much may be sent, and keeps the objection."""

    def __init__(self, on_size: OnSize | None) -> None:
        self._on_size = on_size
        self.objection: BaseException | None = None

    def __call__(self, size: int) -> None:
        if self._on_size is not None:
            try:
                self._on_size(size)
            except BaseException as error:
                self.objection = error
                raise


class _Packer:
    """Pickles variables one after another, and keeps account."""

    def __init__(
        self,
        namespace: Namespace,
        values: Mapping[str, Any],
        on_size: OnSize | None,
        *,
        labels: Mapping[str, str] | None = None,
        left_out: Iterable[str] = (),
    ) -> None:
        self.capture = Capture("")
        self._namespace = namespace
        self._values, self._labels = values, labels or {}
        self._file = io.BytesIO()
        self._bound = _Bound(on_size)
        self._pickler = _Watched(self._file, main_globals=namespace, on_size=self._bound)
        self._pickler.left_out.update(left_out)

    def add(
        self, wanted: Mapping[str, str | None], *, optional: set[str], via: Mapping[str, str]
    ) -> None:
        """Pack variables, which may be there again, and why; leave those out that need not travel.

        Plain data goes first, so that its size is not counted with the function that uses it.

        Parameters
        ----------
        wanted
            The variables; and of those that are sent again, why.
        optional
            Those that are left out if they can't travel.
        via
            For those that are read because something is called: that one's name.
        """
        found: dict[str, Sent] = {}
        order = {"array": 0, "value": 1}
        for name in sorted(wanted, key=lambda n: order.get(kind_of(self._values[n]), 2)):
            sent = self._pack(name, name in optional, via)
            if sent is not None and not _goes_by_name(self._values[name]):
                if (why := wanted[name]) is not None:
                    sent = replace(sent, type=say.SENT_AGAIN(type=sent.type, why=why))
                found[name] = sent
        self.capture.sent = [
            found[name]
            for name in wanted
            if name in found and (name not in via or found[name].kind in order)
        ]

    def _pack(self, name: str, optional: bool, via: Mapping[str, str]) -> Sent | None:
        value = self._values[name]
        pickler = self._pickler
        before, pickler.has_code = pickler.total, False
        mark = pickler.mark() if optional else None
        try:
            pickler.dump((name, value))
        except Exception as error:
            if self._bound.objection is not None:
                raise self._bound.objection from None
            if mark is not None:
                pickler.rollback(mark)
                pickler.left_out.add(name)
                return None
            chain = [name]
            while chain[0] in via:
                chain.insert(0, via[chain[0]])
            root = self._labels.get(chain[0], chain[0])
            path = "".join(f" -> global {inner}" for inner in chain[1:])
            culprit = getattr(error, "culprit", pickler.current)
            raise CaptureError(*describe_failure(root, path, value, error, culprit)) from None
        shown = self._labels.get(name, name)
        if pickler.has_code:
            self.capture.python_bound.append(shown)
        self.capture.names.append(name)
        kind = type_name(value) + (f" (via {via[name]})" if name in via else "")
        return Sent(shown, kind_of(value), kind, pickler.total - before)

    def finish(self, code: str, tree: ast.Module, shell: Any) -> Capture:
        """Close the account."""
        capture, pickler = self.capture, self._pickler
        capture.code = code
        capture.stream, capture.buffers = self._file.getvalue(), pickler.buffers
        left_out: list[str] = []
        capture.modules = collect(sorted(pickler.modules), tree, left_out)
        capture.imports = pickler.all_imports(tree)
        capture.notes = differences(capture.modules)
        if left_out:
            capture.notes.append(say.FILES_LEFT_OUT(files=", ".join(left_out)))
        if _FLAG in code:
            capture.notes.append(say.VIRTUAL_DEVICES())
        capture.outside = [
            name
            for name, value in self._namespace.items()
            if not name.startswith("_")
            and name not in capture.names
            and not stays_behind(name, value)
        ][:_MOST_OUTSIDE]
        capture.sources = {
            file: (_label(file, shell), text) for file, text in pickler.sources.items()
        }
        return capture


def _label(file: str, shell: Any) -> str:
    """Name a piece of code as IPython's tracebacks do: ``Cell In[3]``."""
    name = getattr(getattr(shell, "compile", None), "format_code_name", lambda file: None)(file)
    return " ".join(name) if name else Path(file).name
