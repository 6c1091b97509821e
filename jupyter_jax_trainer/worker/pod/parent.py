"""Process 1 of a pod: starts the rank and outlives it, so that its end is seen and told.

The kernel keeps signals without a handler from process 1, even its own SIGKILL, and orphans fall to
it: that is nothing for a rank. Here neither jax nor the user's code is imported, and nothing is
unpickled. One thread does all, so that a rank can be forked at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from jupyter_jax_trainer.worker import timeouts
from jupyter_jax_trainer.worker.pod.drain import wait_for_reader
from jupyter_jax_trainer.worker.pod.parcel import Parcel, Source
from jupyter_jax_trainer.worker.pod.podchannel import PodChannel
from jupyter_jax_trainer.worker.pod.relay import Relay
from jupyter_jax_trainer.worker.pod.restart import Restart
from jupyter_jax_trainer.worker.pod.transfer import Transfer
from jupyter_jax_trainer.worker.processes import end_descendants, memory_kills

if TYPE_CHECKING:
    from jupyter_jax_trainer.worker.pod.cells import Cells

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_TICK = 0.1  # seconds
_LONGEST = 1 << 20  # bytes of a line that the rank says
_UNSENT = 1 << 20  # bytes that wait for the rank to take them
_RECENT = 30.0  # seconds after which a rank that the kernel has killed is gone
_SIGNALS = (*_FORWARDED, signal.SIGCHLD)
# Of the second and the first version of cgroups; each is the container's own.
_KILLS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class Parent:
    """The parent of a rank.

    Parameters
    ----------
    key, rank
        The job's key, and which rank it is.

    Attributes
    ----------
    port
        Where the channel is; None where there is none.
    attempt
        How often the rank was started.
    """

    def __init__(self, key: bytes, rank: int) -> None:
        self._key = key
        self._rank = rank
        self._pid = 0
        self._count_kills()
        self._signals = socket.socketpair()
        self._starts = self._is_told_to_end = False
        self.attempt = 0
        self._selector = selectors.DefaultSelector()
        self._relay = Relay(key, rank, self._selector, self._ask)
        self._relay.restart = Restart(key, rank, self._selector, self._stop, self._start_anew)
        self._relay.tell = self._tell
        self._cells = self._relay.cells = self._keep_session(os.environ.get("JAXTRAIN_IDLE"))
        self._connection: socket.socket | None = None  # to the rank
        self._unread, self._unsent = b"", bytearray()
        self.port = self._relay.listen()

    def _keep_session(self, idle: str | None) -> Cells | None:
        """Return what passes on the cells of a session; None for a job that is none."""
        if not idle:
            return None
        from jupyter_jax_trainer.worker.pod.cells import Cells

        def say_idle(seconds: float) -> None:
            PodChannel(self._key, self._rank, None).send("idle", seconds=seconds)

        return Cells(
            self._key, self._rank, float(idle), self._selector, self._tell, say_idle, self._find
        )

    def _tell(self, line: bytes) -> None:
        """Tell the rank something, as soon as it takes it.

        Raises
        ------
        OSError
            There is no rank, or too much waits for it: whoever asked has to tell it again.
        """
        if self._connection is None or len(self._unsent) > _UNSENT:
            raise BlockingIOError
        self._unsent += line
        self._flush(self._connection)

    def _flush(self, connection: socket.socket) -> None:
        """Send what the rank takes now; the loop sends the rest."""
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: connection.send(self._unsent)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        with contextlib.suppress(KeyError):  # it was closed at the other end
            self._selector.modify(connection, events, self._serve)

    def _find(self, root: str) -> str | None:
        """Return where the bundle is that came last, if it is this one."""
        transfer = self._relay.transfer
        return None if transfer is None else transfer.path_of(root)

    def start(self) -> socket.socket:
        """Start the rank; return in it alone, with its connection to this process."""
        self._watch_signals()
        while True:
            self.attempt += 1
            ours, theirs = socket.socketpair()
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            self._pid = self._relay.pid = os.fork()
            if self._pid == 0:
                ours.close()
                self._leave_to_the_rank()
                return theirs
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            theirs.close()
            ours.setblocking(False)
            self._connection, self._unread, self._unsent = ours, b"", bytearray()
            self._selector.register(ours, selectors.EVENT_READ, self._serve)
            self._run()

    def _leave_to_the_rank(self) -> None:
        """Give up, in the rank's own process, all that is process 1's."""
        self._relay.abandon()
        self._selector.close()
        signal.set_wakeup_fd(-1)
        for end in self._signals:
            end.close()
        for number in _SIGNALS:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def receive(self, parcel: Parcel, sources: Iterable[Source]) -> None:
        """Wait until the job's bundle is here, before the rank is started.

        Later other pods may still get it from this one.

        Parameters
        ----------
        parcel
            The bundle; it may be here already.
        sources
            What of it need not be sent.

        Raises
        ------
        TransferError
            Nothing came for too long, or it can't be kept here.
        UsageError
            A setting of the sources is wrong.
        """

        def leave(number: int, _: object) -> NoReturn:
            os._exit(128 + number)

        before = {number: signal.signal(number, leave) for number in _FORWARDED}
        parcel.fill(sources)
        transfer = self._relay.transfer = Transfer(self._key, self._rank, self._selector, parcel)
        if not parcel.is_whole:
            channel = PodChannel(self._key, self._rank, None)
            channel.send("awaits", channel=self.port, size=parcel.size)
        while not parcel.is_whole:
            for key, _ in self._selector.select(_TICK):
                key.data()
            self._relay.tick()
            transfer.check()
        for number, handler in before.items():
            signal.signal(number, handler)

    def _watch_signals(self) -> None:
        """Have signals wake the loop."""
        reader, writer = self._signals
        reader.setblocking(False)
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        self._selector.register(reader, selectors.EVENT_READ, self._take_signals)

    def _run(self) -> None:
        """Look after the rank: end with its exit code, or return when it is to be restarted."""
        self._starts = False
        while not self._starts:
            patience = self._relay.patience
            for key, _ in self._selector.select(min(_RECENT, patience or _RECENT)):
                key.data()
            self._relay.tick()
            self._forget_kills()
            if self._cells is not None and self._cells.is_done and not self._pid:
                self._leave(0)  # the session has ended well, though this rank has not

    def _count_kills(self) -> None:
        """Count the kills for lack of memory from now on."""
        self._kills = self._recent_kills = memory_kills(*_KILLS)
        self._counted = time.monotonic()

    def _forget_kills(self) -> None:
        """Discount old kills: the rank survived them, so they hit children of the cell."""
        before = self._recent_kills
        if time.monotonic() - self._counted > _RECENT:
            self._count_kills()
            self._kills = before

    def _stop(self) -> None:
        """End the rank and all that it has started."""
        self._pid = self._relay.pid = 0  # its end is none of this process
        if self._cells is not None:
            self._cells.note_gone()
        end_descendants()
        if self._connection is not None:
            with contextlib.suppress(KeyError):  # it was closed at the other end
                self._selector.unregister(self._connection)
            self._connection.close()
            self._connection = None

    def _start_anew(self) -> None:
        self._starts = True

    def _ask(self) -> None:
        """Ask the rank where it is, unless it does not even take what it was told before."""
        if not self._unsent:
            with contextlib.suppress(OSError):
                self._tell(b'{"kind":"where"}\n')

    def _serve(self) -> None:
        """Send the rank what waits for it, and take what it says."""
        if self._connection is None:  # it was stopped a moment ago
            return
        try:
            self._flush(self._connection)
            data = self._connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._unread) > _LONGEST:
            self._selector.unregister(self._connection)
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
                found = json.loads(line)
                kind = found.pop("kind")
                if kind == "where":
                    self._relay.take_place(found)
                elif kind in ("works", "rests") and self._cells is not None:
                    self._cells.note(kind)
                    if kind == "rests":
                        self._relay.forget_cell()

    def _take_signals(self) -> None:
        for number in self._signals[0].recv(4096):
            if number in _FORWARDED:
                if not self._pid:  # it is being restarted
                    os._exit(128 + number)
                self._is_told_to_end |= number == signal.SIGTERM
                os.kill(self._pid, number)
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._pid:
                    self._end(os.waitstatus_to_exitcode(found[1]))

    def _end(self, status: int) -> None:
        """Say how the rank was ended where it could not do so itself, and end likewise.

        That of a session may be restarted; where that has ended, it does not matter.
        """
        starved = status == -signal.SIGKILL and memory_kills(*_KILLS) > self._kills
        channel = PodChannel(self._key, self._rank, None)
        if self._cells is not None and not self._is_told_to_end:
            anew = self._cells.can_start_anew
            if anew or self._cells.is_over:
                self._stop()
                self._count_kills()
                if anew:
                    channel.send("gone", exit=status, out_of_memory=starved)
                return
        if status < 0:
            channel.send("killed", signal=-status, out_of_memory=starved)
        self._leave(status if status >= 0 else 128 - status)

    def _leave(self, status: int) -> NoReturn:
        wait_for_reader(1, timeouts.PIPE.seconds)
        os._exit(status)
