"""A rank of a session: it stays, and runs one cell after another with the variables of before."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import cell, exceptions, files, output, rendezvous
from jupyter_jax_trainer.worker.channel import Channel, Handler
from jupyter_jax_trainer.worker.compiling import Meter
from jupyter_jax_trainer.worker.display import Displayer
from jupyter_jax_trainer.worker.livearrays import is_lost
from jupyter_jax_trainer.worker.loading import check_python, load_variables
from jupyter_jax_trainer.worker.modules import unpack
from jupyter_jax_trainer.worker.profiling import FOLDER, Profiler
from jupyter_jax_trainer.worker.records import ErrorRecord, Instruction, Saved, Variable
from jupyter_jax_trainer.worker.reporting import Reporter
from jupyter_jax_trainer.worker.sampler import Sampler
from jupyter_jax_trainer.worker.serialization.archive import Archive
from jupyter_jax_trainer.worker.serialization.describe import kind_of, type_name
from jupyter_jax_trainer.worker.shared import Shared
from jupyter_jax_trainer.worker.timing import Timing
from jupyter_jax_trainer.worker.whereabouts import Lookout

if TYPE_CHECKING:
    from jupyter_jax_trainer.worker.pod.notice import Notice
    from jupyter_jax_trainer.worker.pod.pod import Pod

_MODULES = "modules/"
_MOST = 10_000  # leaves of a tree that are looked at
_OF_CALL = "__jaxtrain_"
_SAVING = "jupyter_jax_trainer.worker.saving"


class SessionError(exceptions.WorkerError):
    """The ranks of a session can't work together."""


class Session:
    """What a rank has between cells, and how it runs the next one.

    Parameters
    ----------
    rank, nodes
        This process, of how many.
    channel
        Where cells come from, and where their outcomes go.
    lookout, reporter, displayer, meter, profiler, sampler, timing
        Those of the process.
    namespace
        The variables.
    folder
        Where files of the session can stay; None for wherever temporary files are.
    pod
        The pod that this runs in, if it does.
    place
        The directory with the files that came along; None where none did.

    Attributes
    ----------
    handlers
        What is done, for some kinds of instruction, while a cell runs.
    """

    def __init__(
        self,
        rank: int,
        nodes: int,
        channel: Channel,
        lookout: Lookout,
        reporter: Reporter,
        displayer: Displayer,
        meter: Meter,
        profiler: Profiler,
        sampler: Sampler,
        timing: Timing,
        namespace: Namespace,
        folder: Path | None,
        pod: Pod | None = None,
        place: Path | None = None,
    ) -> None:
        self._pod, self._place = pod, place
        self._rank, self._nodes = rank, nodes
        self._channel, self._lookout = channel, lookout
        self._reporter, self._displayer = reporter, displayer
        self._meter, self._timing = meter, timing
        self._profiler, self._sampler = profiler, sampler
        self._namespace, self._folder = namespace, folder
        self._provided = set(namespace)
        self._chosen: list[int] | None = None  # the ranks that run the cell, if not all do
        self._labels: dict[str, str] = {}
        self._settings = rendezvous.settings()  # those of the notebook, as far as it has said
        self._modules: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._brought: dict[str, _Binding] = {}
        self._parted: tuple[list[str], list[str]] = [], []
        self._bound: dict[str, _Binding] = {}
        self._broken: list[weakref.ref[Any]] = []
        self._failed = False  # the last cell
        self._saved: Saved | None = None
        self._runs = False
        self._number = self._interrupted = 0  # cells: the current one, and the last to be stopped
        self.handlers: dict[str, Handler] = {
            "hold": self._hold,
            "stop_at": self._stop_at,
            "interrupt": self._interrupt,
        }
        self._pid = os.getpid()
        signal.signal(signal.SIGINT, self._on_interrupt)
        self._notice: Notice | None = None
        self._stopped = False  # because of it

    def meet(self) -> None:
        """Meet the other ranks for the first time, which takes the longest.

        Raises
        ------
        SessionError
            They can't be reached in a collective.
        """
        if self._nodes > 1 and not rendezvous.in_step(0):
            raise SessionError(say.RANKS_DID_NOT_MEET())
        self._meter.end()

    def take_over(self, pod: Pod) -> None:
        """Begin with what pods before this one have saved, and save what there is before it ends.

        Where nothing outlives pods, nothing is saved either.
        """
        from jupyter_jax_trainer.worker import saving
        from jupyter_jax_trainer.worker.pod.notice import Notice

        if not saving.keeps():
            return
        if self._rank == 0:
            saving.claim()
        if not pod.started_anew:
            found = saving.noted(pod.channel.sign) if self._rank == 0 else None
            if (saved := rendezvous.share("noted", self._rank, self._nodes, found)[0]) is not None:
                self._restore(saved)
        self._notice = Notice(self._rank, self._nodes, self._reporter, self._channel.wake)
        pod.before_end = self._notice.give

    def _restore(self, saved: Saved) -> None:
        """Bring back what was saved: on all ranks, or on none."""
        from jupyter_jax_trainer.worker import saving

        problem = None
        try:
            saving.restore(self._namespace, saved["folder"], saved["digest"])
        except Exception as error:
            problem = str(error)
        problems = rendezvous.share("restored", self._rank, self._nodes, problem)
        problem = next((one for one in problems if one is not None), None)
        if problem is None:
            self._saved = saved
            self._channel.send("restored", saved=saved, **self._holdings(0))
            told = say.BEGINS_AS_SAVED(names=", ".join(saved["names"]))
        else:
            for name in saved["names"]:
                self._namespace.pop(name, None)
            told = say.NOT_RESTORED(error=problem)
        if self._rank == 0:
            print(told)

    def serve(self) -> None:
        """Run cells until told to end."""
        self._channel.answer("rests")
        while (told := self._channel.receive())["kind"] != "end":
            if told["kind"] == "cell":
                if self._notice is None or self._notice.may_begin(told["cell"]):
                    self._run(told)
            elif told["kind"] == "check":
                self._check(told["cell"])
            if self._notice is not None and self._notice.due:
                self._save_at_last(self._notice)

    def _save_at_last(self, notice: Notice) -> None:
        """Save what there is, because a pod of the session is about to end."""
        from jupyter_jax_trainer.worker import saving

        try:
            names = saving.save(self._namespace)
            self._note_save()
            if self._rank == 0:
                print(say.SAVED_BEFORE_END(names=", ".join(names)))
                self._channel.send("saved", saved=self._saved)
        except Exception as error:
            if self._rank == 0:
                print(say.NOT_SAVED(error=error))
        notice.end()

    def _note_save(self) -> None:
        """Take note of what a cell has saved, and leave word for the next pods."""
        saving = sys.modules.get(_SAVING)  # it is seldom needed
        if self._rank or saving is None or saving.last in (None, self._saved):
            return
        self._saved = saving.last
        if self._pod is not None and saving.keeps():
            with contextlib.suppress(OSError):
                saving.note(self._saved, self._pod.channel.sign)

    def _hold(self, told: Instruction) -> None:
        """Say how many reports the cell has made; the next one waits to hear whether it is last."""
        self._channel.send("held", cell=told["cell"], reports=self._reporter.hold())

    def _stop_at(self, told: Instruction) -> None:
        self._reporter.stop_at(told["reports"])

    def _interrupt(self, told: Instruction) -> None:
        """Interrupt the main thread, also in a call of the system; or the cell once it begins."""
        self._interrupted = told["cell"]
        if told["cell"] == self._number:
            self._reporter.stop_at(sys.maxsize)  # no report waits to hear whether it is the last
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Interrupt a cell; between cells there is nothing to interrupt."""
        if self._runs:
            self._runs = False
            raise KeyboardInterrupt

    # -- a cell ------------------------------------------------------------------------------

    def _run(self, told: Instruction) -> None:
        """Run a cell and say how it ended; whatever it raises, this process stays."""
        number = self._number = told["cell"]
        self._channel.answer("works")
        self._reporter.begin()
        self._meter.begin()
        self._timing.begin()
        output.open_again()
        if self._rank == 0:
            with contextlib.suppress(Exception):  # a stream that an earlier cell has put there
                print(say.CELL_BEGINS(number=number, folder=told["name"]))
        try:
            with self._log_of(told):
                error = self._outcome(told)
                self._reporter.flush()
        except OSError as lost:  # its directory is gone
            error = exceptions.describe(lost, "", {})
        self._failed = error is not None
        self._timing.end()
        self._meter.end()
        if self._rank == 0:
            rendezvous.forget(_scope(number - 1))
        if self._notice is not None:
            self._notice.note_end()
            if self._stopped:  # its end is that of the pods
                self._notice.note_done(number)
                return
            if self._nodes == 1:
                self._notice.note_done(number)
        self._note_save()
        ended = {"cell": number, "error": error, "saved": self._saved, "parted": self._parted}
        self._channel.send("ended", **ended, **self._holdings(number))
        self._channel.answer("rests")

    @contextlib.contextmanager
    def _log_of(self, told: Instruction) -> Iterator[None]:
        """Have all that is printed be the cell's: in its log, or in a pod between two messages."""
        if self._pod is None:
            with output.led_into(told["log"]):
                yield
            return
        self._channel.send("began", cell=told["cell"])
        yield
        with contextlib.suppress(OSError):
            os.unlink(told["bundle"])

    def _outcome(self, told: Instruction) -> ErrorRecord | None:
        """Run a cell; give the error that it ends with, if there is one."""
        file, outside = "", list[str]()
        if self._failed:  # what the last cell had dispatched may have failed since
            with contextlib.suppress(Exception):
                rendezvous.settle(self._broken)
        try:
            archive = Archive(told["bundle"], told["digest"])
            file, outside = archive.manifest["cell_file"], archive.manifest["outside"]
            self._chosen = archive.manifest.get("ranks")
            self._displayer.passes_on = self._rank in (self._chosen or [0])
            self._enter(archive, told["cell"])
            home = Path(told["result"]).with_name(FOLDER) if "result" in told else None
            self._profiler.begin(archive.manifest.get("profile"), home)
            if self._chosen is None or self._rank in self._chosen:
                self._execute(archive, file)
            self._profiler.end()
            self._bring_back(archive.manifest["out"], told)
        except BaseException as error:
            self._runs = False
            if isinstance(error, SystemExit) and not error.code:
                return None
            if isinstance(error, KeyboardInterrupt) and self._notice and self._notice.stops:
                self._stopped = True
                print(say.STOPPED_TO_SAVE(), file=sys.stderr)
                rendezvous.settle(self._broken)
                return None
            with contextlib.suppress(Exception):
                # The others may already wait: they don't wait for long for one that draws.
                draws = self._nodes == 1 and not isinstance(error, KeyboardInterrupt)
                self._displayer.close_figures(show=draws)
            return self._describe(error, file, outside)
        finally:
            self._profiler.end()
            self._forget_call()
            if file:
                archive.forget()
                self._labels[file] = say.EARLIER_CELL(name=archive.manifest["name"])
        return None

    def _enter(self, archive: Archive, number: int) -> None:
        """Take over what came with a cell: settings, modules, sources and variables."""
        manifest = archive.manifest
        check_python(manifest)
        # What a cell has set itself stays, as long as the notebook does not change it.
        before, given = self._settings, manifest["jax_config"]
        self._settings = {**before, **given}
        rendezvous.configure({k: v for k, v in given.items() if before.get(k) != v})
        if manifest["argv"]:
            sys.argv = list(manifest["argv"])
        if archive.packages:
            from jupyter_jax_trainer.worker.pod import packages

            packages.bring(archive, self._folder, number)
        self._place = files.enter(archive, self._folder, self._place)
        self._take_modules(archive, number)
        file, code = manifest["cell_file"], archive.read("cell.py").decode()
        self._labels.update(manifest["labels"])
        cell.remember_sources({**json.loads(archive.read("sources.json")), file: code})
        self._lookout.look_for(file, self._labels)
        self._load(archive)
        self._reporter.stop_on_nan(manifest.get("stop_on_nan", False))
        self._tokens.update(manifest.get("tokens", {}))
        for name in manifest["names"]:
            self._brought[name] = _Binding(self._namespace[name], number)

    def _load(self, archive: Archive) -> None:
        """Take over the variables, and note which no longer share objects with those that stay."""
        self._parted = [], []
        names = archive.manifest["names"]
        again = [] if self._rank else [name for name in names if name in self._namespace]
        staying = [name for name in self._variables() if name not in names]
        shared = None
        with contextlib.suppress(Exception):  # a thread of the user's may change what is looked at
            shared = Shared(again, staying, self._namespace)
        load_variables(archive, self._namespace)
        with contextlib.suppress(Exception):
            self._parted = ([], []) if shared is None else shared.parted(self._namespace)

    def _take_modules(self, archive: Archive, number: int) -> None:
        """Find modules that came along, and forget those whose files have changed."""
        members = archive.manifest["members"]
        came = {name: digest for name, digest in members.items() if name.startswith(_MODULES)}
        changed = {name for name, digest in came.items() if self._modules.get(name) != digest}
        if not changed:
            return
        self._modules.update(came)
        folder = self._folder and self._folder / "cells" / str(number)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        place = unpack(archive, folder)
        assert place is not None, "there are modules"
        sys.path.insert(0, place)
        tops = {Path(name.removeprefix(_MODULES)).parts[0].partition(".")[0] for name in changed}
        for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
            del sys.modules[name]

    def _execute(self, archive: Archive, file: str) -> None:
        """Run the code, and wait for all that it has dispatched."""
        code = archive.read("cell.py").decode()
        chosen = range(self._nodes) if self._chosen is None else self._chosen
        self._runs = True
        if self._interrupted == self._number:
            self._runs = False
            raise KeyboardInterrupt
        with rendezvous.alone(chosen, self._nodes):
            try:
                cell.run_cell(code, file, self._namespace, self._displayer.hook)
            except SystemExit as error:
                if error.code:
                    raise
            finally:
                if os.getpid() != self._pid:
                    _leave_child(sys.exc_info()[1])
            self._displayer.close_figures()
            rendezvous.settle(self._broken)
        self._runs = False

    def _bring_back(self, names: list[str], told: Instruction) -> None:
        if not names:
            return
        from jupyter_jax_trainer.worker.results import collect

        scope = _scope(told["cell"])
        rank, nodes = self._among_gatherers()
        if rank < nodes:
            try:
                if self._pod is not None:
                    self._deliver(self._pod, names, rank, nodes, scope)
                else:
                    target = Path(told["result"])
                    table = collect(names, self._namespace, rank, nodes, target, scope)
                    if rank == 0:
                        self._channel.send("results", results=table)
            except OSError as error:  # rank 0 alone writes: all are to end the cell alike
                failed = [{"name": name, "error": str(error)} for name in names]
                self._channel.send("results", results=failed)

    def _forget_call(self) -> None:
        """Let go of the function that a call has brought, its arguments and what it returned."""
        names = [name for name in list(self._namespace) if isinstance(name, str)]
        for name in [name for name in names if name.startswith(_OF_CALL)]:
            del self._namespace[name]

    def _among_gatherers(self) -> tuple[int, int]:
        """Return which of the ranks that gather results this is, and how many they are.

        Of a cell that leaves ranks out, the first one that runs it has nobody to gather with; all
        others come after it.
        """
        if self._chosen is None or len(self._chosen) == self._nodes:
            return self._rank, self._nodes
        return (0 if self._rank == self._chosen[0] else 1), 1

    def _deliver(self, pod: Pod, names: list[str], rank: int, nodes: int, scope: str) -> None:
        """Bring variables out of the pod; large ones are waited for until they are fetched."""
        from jupyter_jax_trainer.worker.pod import delivery
        from jupyter_jax_trainer.worker.results import collect

        if rank:
            collect(names, self._namespace, rank, nodes, None, scope)
            return
        with delivery.open_file() as file:
            table = collect(names, self._namespace, 0, nodes, file, scope)
            held = delivery.deliver(pod.channel, file, table)
            if held is not None:
                held.serve()

    def _describe(self, error: BaseException, file: str, outside: list[str]) -> ErrorRecord:
        """Describe an exception, and print it as the last word of the cell."""
        self._sampler.look_at(error)
        record = exceptions.describe(error, file, self._labels, outside)
        if isinstance(error, SystemExit):
            record["message"] = say.CALLED_EXIT(code=error.code)
        with contextlib.suppress(Exception):  # a stream that the cell closed
            print(record["traceback"], file=sys.stderr)
        return record

    def _check(self, number: int) -> None:
        """Say whether the ranks are in step after a cell."""
        with contextlib.suppress(Exception):  # of a cell that failed: it has told its error
            rendezvous.settle(self._broken)
        # The queue of a GPU may be long, and nobody sees that it gets shorter.
        self._lookout.meets = rendezvous.computes_here()
        agreed = rendezvous.in_step(number)
        self._lookout.meets = False
        self._channel.send("checked", cell=number, agreed=agreed)
        if self._notice is not None:
            self._notice.note_done(number)

    # -- its variables -----------------------------------------------------------------------

    def _holdings(self, number: int) -> dict[str, Any]:
        """Say which variables a cell has bound and deleted here.

        Rank 0 describes all of them, or where the cell left it out, another those that are new.
        """
        values = self._variables()
        before = self._bound
        self._bound = {
            name: before[name]
            if name in before and before[name].is_still(value)
            else _Binding(value, number)
            for name, value in values.items()
        }
        bound = [name for name, binding in self._bound.items() if binding.cell == number]
        shown: Iterable[str] = values if self._rank == 0 else ()
        if self._chosen is not None and self._rank == self._chosen[0] > 0:
            shown = bound
        return {
            "bound": bound,
            "gone": [name for name in before if name not in values],
            "variables": {name: self._described(name, values[name]) for name in shown},
        }

    def _variables(self) -> Namespace:
        return {
            name: value
            for name, value in list(self._namespace.items())
            if isinstance(name, str)
            and name not in self._provided
            and not (name.startswith("__") and name.endswith("__"))
        }

    def _described(self, name: str, value: Any) -> Variable:
        found = _described(value, self._bound[name].cell, self._tokens.get(name))
        if (brought := self._brought.get(name)) is not None:
            found["brought"] = brought.cell
        found["own"] = brought is None or not brought.is_still(value)
        return found


class _Binding:
    """Which value a cell has bound to a name; the value may go away."""

    def __init__(self, value: Any, cell: int) -> None:
        self.cell = cell
        self._id = id(value)
        self._reference: weakref.ref[Any] | None = None
        with contextlib.suppress(TypeError):  # of lists and numbers there are none
            self._reference = weakref.ref(value)

    def is_still(self, value: Any) -> bool:
        """Return whether this is the value, and no new one in its place in memory."""
        same = self._id == id(value)
        return same and (self._reference is None or self._reference() is value)


def _leave_child(error: BaseException | None) -> NoReturn:
    """End a process that the cell has forked, and that has come to the end of it."""
    if error is not None and not isinstance(error, SystemExit):
        with contextlib.suppress(Exception):  # a stream that the cell closed
            traceback.print_exception(error)
    code = error.code if isinstance(error, SystemExit) else int(error is not None)
    output.flush()
    os._exit(code if isinstance(code, int) else 1)


def _scope(number: int) -> str:
    """Return where the ranks put what they tell each other in a cell."""
    return f"cell-{number}/"


def _described(value: Any, number: int, token: str | None) -> Variable:
    found: Variable = {
        "kind": kind_of(value),
        "type": "",
        "size": None,
        "sharding": None,
        "device_size": None,
        "cell": number,
        "token": token,
        "deleted": False,
    }
    with contextlib.suppress(Exception):  # a class of the user's may raise whatever it likes
        found["type"] = type_name(value)
        arrays = _arrays(value)
        if arrays:
            found["size"] = sum(int(array.nbytes) for array in arrays)
            found["device_size"] = sum(map(_on_a_device, arrays))
            found["deleted"] = any(map(is_lost, arrays))
            sharded = [array.sharding for array in arrays if hasattr(array, "sharding")]
            if sharded:
                found["devices"] = max(len(one.device_set) for one in sharded)
        if arrays and arrays[0] is value and hasattr(value, "sharding"):
            spec = getattr(value.sharding, "spec", None)
            found["sharding"] = type(value.sharding).__name__ if spec is None else str(spec)
    return found


def _arrays(value: Any) -> list[Any]:
    """Return the arrays that a value is or has: one array, or a tree of them that is not huge."""
    if kind_of(value) == "array":
        return [value]
    from jax import tree_util

    if tree_util.all_leaves([value]) or (hasattr(value, "__len__") and len(value) > _MOST):
        return []
    leaves = tree_util.tree_leaves(value)
    return [leaf for leaf in leaves if kind_of(leaf) == "array"] if len(leaves) <= _MOST else []


def _on_a_device(array: Any) -> int:
    """Return the most bytes that one device has of an array."""
    shape = array.sharding.shard_shape(array.shape) if hasattr(array, "sharding") else array.shape
    return int(math.prod(shape) * array.dtype.itemsize)
