"""The worker: one process of a job, from the bundle to the end.

Nothing is unpickled before the manifest says that this Python can read it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from jupyter_jax_trainer.datatypes import JsonValue, MimeBundle, Namespace
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker import (
    compiling,
    exceptions,
    files,
    output,
    rendezvous,
    timeouts,
)
from jupyter_jax_trainer.worker.channel import Channel, Handler
from jupyter_jax_trainer.worker.compiling import Meter
from jupyter_jax_trainer.worker.display import Displayer
from jupyter_jax_trainer.worker.loading import check_python, load_variables
from jupyter_jax_trainer.worker.profiling import FOLDER, Profiler
from jupyter_jax_trainer.worker.programs import Programs
from jupyter_jax_trainer.worker.records import RESULT_VARIABLE, Instruction
from jupyter_jax_trainer.worker.reporting import Reporter
from jupyter_jax_trainer.worker.sampler import Sampler
from jupyter_jax_trainer.worker.serialization.archive import DIGEST_VARIABLE, Archive
from jupyter_jax_trainer.worker.timing import Timing
from jupyter_jax_trainer.worker.whereabouts import Lookout

if TYPE_CHECKING:
    from jupyter_jax_trainer.worker.pod.delivery import Held
    from jupyter_jax_trainer.worker.pod.pod import Pod
    from jupyter_jax_trainer.worker.pod.trainerstatus import TrainerStatus

KEY_VARIABLE = "JAXTRAIN_FRAME_KEY"  # there in a pod only


class Worker:
    """One rank of a job.

    Parameters
    ----------
    path
        The bundle.
    prepare
        Called when jax is about to be used; the warm start sets options there that a cold process
        reads from its environment.
    pod
        The pod that this runs in, if it does.
    """

    def __init__(
        self, path: str, prepare: Callable[[], None] | None = None, pod: Pod | None = None
    ) -> None:
        self.path = path
        self.rank = own_rank()
        self.nodes = int(os.environ.get("JAX_NUM_PROCESSES") or 1)
        self.pod = pod
        self.channel = Channel.from_environment() if pod is None else pod.channel
        self._status: TrainerStatus | None = None
        self._alone = pod is None and not self.channel.connected  # run by hand
        self._held: Held | None = None
        self._meter: Meter | None = None
        self._sampler: Sampler | None = None
        self._waits = False  # rank 0 stays until its results are fetched
        self._prepare = prepare
        self._ending = threading.Lock()
        self._cell_file = "<cell>"
        self._labels: dict[str, str] = {}
        self._outside: list[str] = []
        self._programs = Programs(self.channel, lambda: self._lookout.place())
        self._lookout = Lookout(self._programs.current)
        self._timing = Timing(self.channel)
        self._profiler = self._make_profiler()
        self._handlers: dict[str, Handler] = {
            "where": self._answer_where,
            "profile": self._profiler.ask,
        }

    def run(self) -> NoReturn:
        """Run the job's part of this rank and leave the process."""
        output.set_up(counted=self.pod is not None)
        self.channel.listen(self._handlers)
        if self.pod is not None:
            self.pod.begin(self._leave)
            self.pod.watch_termination(self._tell_where, self._ending)
        try:
            self._run()
        except BaseException as error:
            self._fail(error)
        self._leave(0)

    def _run(self) -> None:
        archive = Archive(self.path, os.environ.get(DIGEST_VARIABLE))
        manifest = archive.manifest
        check_python(manifest)
        if self.pod is not None:
            self._prepare_in_pod(archive)
        place = files.enter(archive, self.pod.scratch if self.pod is not None else None)
        if self._prepare is not None:
            self._prepare()
        rendezvous.configure(manifest["jax_config"])
        scratch = None if self.pod is None else str(self.pod.scratch)
        store = None if self.pod is None else self.pod.compile_store()
        self._meter = compiling.install(self.channel, scratch, store)
        self._programs.watch()
        rendezvous.join(self.rank, self.nodes, self.channel, self._fail)
        if self.pod is not None:
            self.pod.after_join(rendezvous.watch_preemption())
        if not manifest.get("stays"):  # in a session an error ends its cell, and no rank
            rendezvous.watch_errors(self.rank, self._stop_because)
        self.channel.send("joined", pid=os.getpid())

        from jupyter_jax_trainer.worker import cell
        from jupyter_jax_trainer.worker.modules import unpack

        reporter, displayer, namespace = self._set_up()
        if manifest.get("stays"):
            self._serve(reporter, displayer, namespace, place)
            return
        if manifest["argv"]:
            sys.argv = list(manifest["argv"])
        result = os.environ.get(RESULT_VARIABLE)
        modules = unpack(archive, Path(result).parent if result else None)
        if modules is not None:
            sys.path.insert(0, modules)
        self._cell_file = manifest["cell_file"]
        self._labels = manifest["labels"]
        self._outside = manifest["outside"]
        code = archive.read("cell.py").decode()
        cell.remember_sources({**json.loads(archive.read("sources.json")), self._cell_file: code})
        unasked = self._tell_where if self.pod is not None else None
        self._lookout.start(self._cell_file, self._labels, unasked)
        load_variables(archive, namespace)
        reporter.stop_on_nan(manifest.get("stop_on_nan", False))
        if self.pod is not None:
            self.pod.begin_cell()
        self.channel.send("running", pid=os.getpid())
        self._profiler.begin(manifest.get("profile"))
        self._timing.begin()
        try:
            cell.run_cell(code, self._cell_file, namespace, displayer.hook)
        except SystemExit as error:
            if error.code:
                raise
        finally:
            reporter.flush()
        if rendezvous.devices_in_use():
            rendezvous.settle([])
        self._profiler.end()
        displayer.close_figures()
        self._send_results(manifest["out"], namespace)
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.main_thread():
                thread.join()
        self._finish(reporter)

    def _make_profiler(self) -> Profiler:
        result = os.environ.get(RESULT_VARIABLE)
        home = Path(result).with_name(FOLDER) if result and self.pod is None else None
        if self.pod is None:
            return Profiler(self.channel, home)
        from jupyter_jax_trainer.worker.pod.profiles import Carrier

        return Profiler(self.channel, None, Carrier(self.pod.channel))

    def _set_up(self) -> tuple[Reporter, Displayer, Namespace]:
        """Make the world of a cell: its namespace, and what it reports and displays with."""
        from jupyter_jax_trainer.worker import cell
        from jupyter_jax_trainer.worker.ipython import Shell
        from jupyter_jax_trainer.worker.standin import StandIn

        also = [self._status.add] if self._status else []
        steps = (self._timing.step, self._profiler.on_report)
        reporter = Reporter(self.channel, self._lookout.moved, *steps, *also)
        if not self._alone:
            reporter.install()  # else reports are printed
        displayer = Displayer(self._send_display, self.rank == 0)
        namespace = cell.main_module()
        displayer.install(namespace)
        shell = Shell(namespace)
        namespace["get_ipython"] = lambda: shell
        StandIn(displayer, namespace["get_ipython"]).install()
        self._sampler = Sampler(self.channel, self.nodes, contained=self.pod is not None)
        self._sampler.start(namespace)
        return reporter, displayer, namespace

    def _serve(
        self, reporter: Reporter, displayer: Displayer, namespace: Namespace, place: Path | None
    ) -> None:
        """Run one cell after another until the session ends; `place` has its files."""
        from jupyter_jax_trainer.worker.session import Session

        assert self._meter is not None and self._sampler is not None
        self._lookout.start(self._cell_file, self._labels)
        result = os.environ.get(RESULT_VARIABLE)
        scratch = None if self.pod is None else self.pod.scratch
        session = Session(
            self.rank,
            self.nodes,
            self.channel,
            self._lookout,
            reporter,
            displayer,
            self._meter,
            self._profiler,
            self._sampler,
            self._timing,
            namespace,
            Path(result).parent if result else scratch,
            self.pod,
            place,
        )
        self._handlers.update(session.handlers)
        session.meet()
        if self.pod is not None:
            session.take_over(self.pod)
        self.channel.send("running", pid=os.getpid())
        session.serve()
        self._finish(reporter, rendezvous.finish_session)

    def _prepare_in_pod(self, archive: Archive) -> None:
        assert self.pod is not None
        from jupyter_jax_trainer.worker.pod import devices, packagecache, packages, tpu

        tpu.check(self.rank, self.nodes)
        if self.rank == 0:
            packagecache.keep(archive, self.channel)
        packages.add(archive, self.pod.scratch, self._choose_packages(archive))
        devices.check(os.environ.get("JAXTRAIN_DEVICE"))
        if self.rank == 0:
            from jupyter_jax_trainer.worker.pod.trainerstatus import TrainerStatus

            self._status = TrainerStatus.from_environment()

    def _choose_packages(self, archive: Archive) -> list[str]:
        """Return which packages are installed of those that came for an unknown image."""
        if "offers" not in archive.manifest:
            return []
        from jupyter_jax_trainer.worker.pod import offers

        if self.rank == 0:
            self.channel.send("image", **offers.look())
        chosen, lines = offers.choose(archive)
        if self.rank == 0:
            for line in lines:
                print(line)
        return chosen

    def _answer_where(self, _asked: Instruction) -> None:
        self.channel.answer("where", **self._lookout.tell())

    def _tell_where(self) -> None:
        """Say at which line of the cell this rank is."""
        place = self._lookout.tell()
        # Messages in a log have a field `frame` of their own.
        self.channel.send("where", **place, own_frame=place["frame"])

    def _send_display(self, data: MimeBundle, metadata: MimeBundle, /, **more: JsonValue) -> None:
        if self._alone:
            print(data.get("text/plain", ""))
            return
        if self.pod is None:
            output.flush()
            try:
                more["log_offset"] = os.fstat(1).st_size  # where in the log the display belongs
            except OSError:
                more["log_offset"] = 0
        self.channel.send("display", time=time.time(), data=data, metadata=metadata, **more)

    def _send_results(self, names: list[str], namespace: Namespace) -> None:
        if not names:
            return
        from jupyter_jax_trainer.worker.results import collect

        if self.pod is not None:
            self._deliver(names, namespace)
            return
        path = os.environ.get(RESULT_VARIABLE)
        table = collect(names, namespace, self.rank, self.nodes, Path(path) if path else None)
        if self.rank == 0:
            self.channel.send("results", results=table)

    def _deliver(self, names: list[str], namespace: Namespace) -> None:
        """Bring the results out of this pod, or keep them here; all ranks learn which."""
        assert self.pod is not None
        from jupyter_jax_trainer.worker.pod import delivery
        from jupyter_jax_trainer.worker.results import collect

        if self.rank == 0:
            file = delivery.open_file()
            table = collect(names, namespace, self.rank, self.nodes, file)
            self._held = delivery.deliver(self.pod.channel, file, table)
            self._waits = self._held is not None
            rendezvous.exchange("held", 0, str(self._waits))
        else:
            collect(names, namespace, self.rank, self.nodes, None)
            self._waits = rendezvous.read("held", 0) == str(True)

    def _finish(self, reporter: Reporter, meet: Callable[[], bool] = rendezvous.finish) -> None:
        """Do what a normal end of the interpreter does, while errors can still be told."""
        reporter.flush()
        self._timing.end()
        if self._meter is not None:
            self._meter.flush()
            self._meter.end()
        if self._sampler is not None:
            self._sampler.flush()
        if self._status is not None:
            self._status.close()
        if self._held is None:
            self._say_finished()
        together = meet()
        if self._waits:
            rendezvous.dissolve()
        if self._held is not None:
            self._held.serve()
            self._say_finished()
        if self.pod is not None:
            self.pod.finished = True
        # From here on the work is done, whatever happens: leave without jax's own teardown, which
        # waits for ranks that have already left.
        self._ending.acquire()
        if together:  # else jax's own end would wait once more
            atexit._run_exitfuncs()

    def _say_finished(self) -> None:
        self.channel.send("finished")
        if self.pod is not None:
            self.pod.drain()

    def _fail(self, error: BaseException) -> NoReturn:
        """Tell the supervisor, then the other ranks, and leave without any teardown.

        jax's teardown is a barrier, in which a rank that failed would wait for those that go on.
        """
        record = exceptions.describe(error, self._cell_file, self._labels, self._outside)
        lost = record["secondary"]  # perhaps: another rank may have been the first to fail
        late = isinstance(error, rendezvous.RendezvousTimeout)
        again = lost or (late and self.pod is not None and self.pod.may_run_again())
        status = exceptions.TRY_AGAIN if again else 1
        if isinstance(error, SystemExit):
            if isinstance(error.code, int):
                status = error.code & 0xFF or 1
            record["message"] = say.CALLED_EXIT(code=error.code)
            record["status"] = status  # it may be killed before it can leave with that
        with self._ending:
            with contextlib.suppress(Exception):  # a full disk, or a stream that the cell closed
                print(record["traceback"], file=sys.stderr)
            output.flush()
            self._timing.end()
            if self._meter is not None:
                self._meter.end()
            if self._sampler is not None:
                self._sampler.look_at(error)
                self._sampler.flush()
            self.channel.send("error", time=time.time(), **record)
            summary = f"{record['type']}: {record['message']}".splitlines()[0][:500]
            # When ranks are late nobody is there to hear it.
            first = not late and rendezvous.announce_error(self.rank, summary, status)
            if lost and not first and rendezvous.first_status() not in (None, status):
                status = 1  # it is lost because of an error, not of a broken node
            if first and self.rank == 0 and self.nodes > 1:
                # Rank 0 holds the store from which the others learn of it.
                self.channel.wait_for_leave(timeouts.LEAVE.seconds)
            if self.pod is not None and status == exceptions.TRY_AGAIN:
                self.pod.wait_for_cause()
            self._leave(status)

    def _stop_because(self, first: int, summary: str, status: int) -> None:
        self._ending.acquire()  # whoever holds it ends this process
        print(exceptions.stopped_line(first, summary), file=sys.stderr)
        self.channel.send("stopped", because=first, summary=summary)
        if self.rank == 0:
            # It holds the store, without which the one that failed would be aborted in mid-word.
            self.channel.wait_for_leave(timeouts.LEAVE.seconds)
        self._leave(exceptions.TRY_AGAIN if status == exceptions.TRY_AGAIN else 1)

    def _leave(self, status: int) -> NoReturn:
        output.flush()
        if self.pod is not None:
            self.pod.end(status)
        os._exit(status)


def main() -> NoReturn:
    """Run the bundle that is the first entry of ``sys.path`` (``python3 job.pyz``)."""
    pod = None
    if KEY_VARIABLE in os.environ:
        from jupyter_jax_trainer.worker.pod.pod import Pod

        pod = Pod(own_rank())
    Worker((pod and pod.bundle) or sys.path[0], pod=pod).run()


def own_rank() -> int:
    """Return the number of this process in the job."""
    return int(os.environ.get("JAX_PROCESS_ID") or 0)
