"""Pickling between a notebook and a job, both ways.

`Pickler` is cloudpickle's, with arrays out of band, the semantics of a notebook for functions, and
refusals in plain words. Several values go through one pickler into one stream, so what they share
stays shared; `Unpickler` reads them back in the same order.

Names of cloudpickle that are not public are used here and in `classes` only. Both sides have the
same cloudpickle: it travels with the job.
"""

from __future__ import annotations

import importlib
import io
import linecache
import pickle
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Self

import cloudpickle

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.serialization import classes, jaxvalues, wrappers
from jupyter_jax_trainer.worker.serialization.describe import type_name
from jupyter_jax_trainer.worker.serialization.refusals import CannotTravel, refusal_for

__all__ = ["INLINE", "Pickler", "Unpickler", "load_pairs", "stays_behind", "type_name"]

INLINE = 512
"""Arrays of fewer bytes stay in the stream: an entry in the index of buffers costs as much."""

_NO_FILE = "<dynamic-code>"
_PACKAGE = __name__.partition(".")[0]
# Where version 0.1 had the functions that rebuild values: its results name them.
_MOVED = {
    f"{_PACKAGE}.worker.{module}": f"{__package__}.{module}"
    for module in ("classes", "jaxvalues", "pickling", "wrappers")
}
_SHELL_NAMES = {"get_ipython", "display", "exit", "quit", "open", "input", "print"}
_HISTORY = {"In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh", "_dh"}


def stays_behind(name: str, value: Any) -> bool:
    """Return whether a global belongs to the notebook's shell: the job has or needs none."""
    if name in _HISTORY:
        return True
    if name not in _SHELL_NAMES:
        return False
    # IPython's own `open` calls itself that of io: its globals tell.
    home = getattr(value, "__globals__", {}).get("__name__")
    module = home or getattr(value, "__module__", None) or type(value).__module__
    return str(module).partition(".")[0] in ("IPython", "ipykernel")


class _Globals:
    """Stands for the namespace of a module; `_module_globals` finds that on the other side."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __reduce__(self) -> tuple[Any, ...]:
        return _module_globals, (self.module,)


def _module_globals(module: str) -> Namespace:
    return vars(importlib.import_module(module))


class _Sink:
    """Passes a stream on, and tells its length before anything large is copied."""

    def __init__(self, file: IO[bytes], count: Callable[[int], None]) -> None:
        self.file, self.count = file, count

    def write(self, data: Any) -> int:
        self.count(len(data))
        return self.file.write(data)


def _there(pickler: weakref.ref[Pickler]) -> Pickler:
    found = pickler()
    assert found is not None, "it is pickling"
    return found


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickle values one after another, the large parts out of band.

    Parameters
    ----------
    file
        Takes the stream.
    main_globals
        The notebook's namespace. Functions that have it as their globals get the namespace that
        the `Unpickler` was given, so they see what is rebound or defined there later. Without it
        (from a job back to the notebook) they get a private copy of the globals that they use.
    on_size
        Called with the bytes so far, before the next ones are copied. May raise.

    Attributes
    ----------
    buffers
        The buffers, without copies, in the order in which the `Unpickler` wants them.
    total
        Bytes of the stream and of the buffers.
    has_code
        Set when a function or class goes by value, which binds the stream to this Python minor.
        The caller resets it.
    modules
        Names of the modules of what goes by reference.
    sources
        File name → text, for code that goes by value.
    current
        The object that was reduced last: where it failed, if it failed.
    left_out
        Globals of the notebook that functions don't bring along.
    """

    def __init__(
        self,
        file: IO[bytes],
        *,
        main_globals: Namespace | None = None,
        on_size: Callable[[int], None] | None = None,
    ) -> None:
        # It knows all that it has pickled, which in a cycle would stay until it is collected.
        this = weakref.ref(self)
        super().__init__(
            _Sink(file, lambda size: _there(this)._count(size)),
            protocol=5,
            buffer_callback=lambda buffer: _there(this)._take(buffer),
        )
        self.buffers: list[memoryview] = []
        self.total = 0
        self.has_code = False
        self.modules: set[str] = set()
        self.sources: dict[str, str] = {}
        self.current: Any = None
        self.left_out: set[str] = set()
        self._file = file
        self._on_size = on_size
        self._main_globals = main_globals
        if main_globals is not None:
            self.globals_ref[id(main_globals)] = _Globals("__main__")

    # ---- sizes

    def _count(self, size: int) -> None:
        self._expect(size)
        self.total += size

    def _expect(self, size: int) -> None:
        if self._on_size is not None:
            self._on_size(self.total + size)

    def _take(self, buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < INLINE:
            return True
        self._count(view.nbytes)
        self.buffers.append(view)
        return False

    def mark(self) -> tuple[Any, ...]:
        """Remember the state before a value that may fail; see `rollback`."""
        return self.memo.copy(), self._file.tell(), len(self.buffers), self.total

    def rollback(self, mark: tuple[Any, ...]) -> None:
        """Forget everything since `mark`, so that other values can follow."""
        memo, position, buffers, self.total = mark
        self.memo = memo
        self._file.seek(position)
        self._file.truncate()
        del self.buffers[buffers:]

    # ---- values

    def reducer_override(self, obj: Any) -> Any:
        """Reduce what pickle and cloudpickle would refuse, copy or get wrong."""
        self.current = obj
        kind = type(obj)
        if isinstance(obj, types.FunctionType | type):
            return self._reduce_code(obj)
        if kind is types.ModuleType:
            self.modules.add(obj.__name__)
            return NotImplemented
        if kind is types.CodeType:
            self._note_code(obj)
            # cloudpickle 3.1.3 leaves out the file, which tracebacks name.
            make, arguments = self.dispatch_table[kind](obj)
            return make, tuple(obj.co_filename if one == _NO_FILE else one for one in arguments)
        for stream in ("stdout", "stderr"):
            if obj is getattr(sys, stream):
                return getattr, (sys, stream)
        refusal = refusal_for(obj)
        if refusal is not None:
            raise CannotTravel(refusal, obj)
        package = jaxvalues.package_of(obj)
        if package == "jax":
            reduced = jaxvalues.reduce_jax(obj, self._expect)
            if reduced is not None:
                return reduced
        elif package == "numpy" and kind.__name__ in ("ndarray", "memmap"):
            reduced = self._reduce_ndarray(obj)
            if reduced is not None:
                return reduced
        return wrappers.reduce_wrapper(obj) or self._reduce_plainly(obj)

    def _reduce_plainly(self, obj: Any) -> Any:
        """Do what pickle would do, and see whether it is by reference."""
        registered = self.dispatch_table.get(type(obj))
        reduced = registered(obj) if registered else obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if isinstance(reduced, str):
            self.modules.add(wrappers.check_reference(obj, reduced))
        return reduced

    def _reduce_ndarray(self, array: Any) -> Any:
        import numpy

        if array.dtype.hasobject or array.dtype.itemsize == 0:
            return None
        order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else None
        if order is None:
            self._expect(array.nbytes)
            array, order = numpy.ascontiguousarray(array), "C"
        # As plain bytes: not every dtype (bfloat16, dates) has a buffer format of its own.
        plain = numpy.asarray(array).reshape(-1, order=order).view(numpy.uint8)
        return make_ndarray, (pickle.PickleBuffer(plain), array.dtype, array.shape, order)

    # ---- functions and classes

    def _reduce_code(self, obj: Any) -> Any:
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented:  # by reference
            self._note_reference(obj)
        elif isinstance(obj, types.FunctionType):
            return wrappers.reduce_dispatch(obj) or self._finish_function(obj, reduced)
        elif classes.is_class_by_value(reduced):
            self.has_code = True
            self.modules.add(obj.__module__)
            return classes.finish_class(obj, reduced)
        return reduced

    def _finish_function(self, function: types.FunctionType, reduced: tuple[Any, ...]) -> Any:
        self.has_code = True
        make, arguments, (attributes, slots), *rest = reduced
        namespace = function.__globals__
        module = str(namespace.get("__name__"))
        if namespace is self._main_globals:
            slots["__globals__"] = {
                name: value
                for name, value in slots["__globals__"].items()
                if name not in self.left_out and not stays_behind(name, value)
            }
        elif module != "__main__" and vars(sys.modules.get(module, types)) is namespace:
            # A function made inside an importable module finds that module's globals there, too.
            self.modules.add(module)
            stub = self.globals_ref.get(id(namespace))
            if not isinstance(stub, _Globals):
                stub = self.globals_ref[id(namespace)] = _Globals(module)
            arguments = (arguments[0], stub, *arguments[2:])
            slots["__globals__"] = {}
        return (make, arguments, (attributes, slots), *rest)

    def _note_reference(self, obj: Any) -> None:
        module = getattr(obj, "__module__", None) or "builtins"
        package, _, rest = module.partition(".")
        if package == _PACKAGE and not rest.startswith(("worker", "errors", "messages")):
            raise CannotTravel(say.NOTEBOOK_CODE(name=f"{module}.{obj.__qualname__}"), obj)
        self.modules.add(module)

    def _note_code(self, code: types.CodeType) -> None:
        self.has_code = True
        name = code.co_filename
        if name not in self.sources and "site-packages" not in name:
            text = "".join(linecache.getlines(name))
            if text and not name.startswith(sys.base_prefix):
                self.sources[name] = text


def make_ndarray(buffer: Any, dtype: Any, shape: tuple[int, ...], order: str) -> Any:
    """Make a numpy array on a buffer, writable: on a copy if the buffer is not."""
    import numpy

    plain = numpy.frombuffer(buffer, dtype=numpy.uint8)
    if not plain.flags.writeable:
        plain = plain.copy()
    return plain.view(dtype).reshape(shape, order=order)


class Unpickler(pickle.Unpickler):
    """Load values that `Pickler` wrote, one per `load`; a context manager.

    It refers to itself. Left open, it would keep what it has loaded, and the buffers, until the
    next garbage collection: of arrays in a session's mapped files that may be never.

    Parameters
    ----------
    file
        The stream.
    buffers
        The out-of-band buffers; arrays stay on them, so writable ones give writable arrays.
    main_globals
        What functions of the notebook get as their globals. Without it the stream must not ask.
    find
        Gives what a persistent id stands for.
    """

    def __init__(
        self,
        file: IO[bytes],
        *,
        buffers: Iterable[Any] = (),
        main_globals: Namespace | None = None,
        find: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._main_globals = main_globals
        self._find = find
        self._kept: dict[type, Any] = {}  # and what would fill them
        self._own: dict[Any, Any] = {
            (__name__, "_module_globals"): self._module_globals,
            (classes.__name__, "make_class"): self._make_class,
            (classes.__name__, "set_class"): self._set_class,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._own.clear()
        self._kept.clear()
        self.memo.clear()

    def persistent_load(self, pid: Any) -> Any:
        """Find what a persistent id stands for."""
        if self._find is None:
            return super().persistent_load(pid)
        return self._find(pid)

    def find_class(self, module: str, name: str) -> Any:
        """Find a global; those that depend on the loader are its own."""
        module = _MOVED.get(module, module)
        return self._own.get((module, name)) or super().find_class(module, name)

    def _module_globals(self, module: str) -> Namespace:
        if module == "__main__" and self._main_globals is not None:
            return self._main_globals
        return _module_globals(module)

    def _make_class(self, make: Callable[..., type], arguments: tuple[Any, ...]) -> type:
        # A class that this process has, because it came from here, is left as it is.
        known = classes.existing_class(arguments)
        if known is not None:
            self._kept[known] = None
            return known
        return classes.make_class(make, arguments)

    def _set_class(self, cls: type, state: Any) -> None:
        if cls in self._kept:
            self._kept[cls] = state
        else:
            classes.set_class(cls, state)

    def renew(self, cls: type) -> None:
        """Give a class that this process had what it has now on the other side."""
        if (state := self._kept.get(cls)) is not None:
            classes.set_class(cls, state)


def load_pairs(
    stream: Any, buffers: Iterable[Any], main_globals: Namespace | None = None
) -> Iterator[tuple[str, Any]]:
    """Load the (name, value) pairs of a stream, in order."""
    with Unpickler(io.BytesIO(stream), buffers=buffers, main_globals=main_globals) as unpickler:
        while True:
            try:
                pair = unpickler.load()
            except EOFError:
                return
            yield pair
