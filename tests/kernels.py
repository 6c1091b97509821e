"""A real kernel for tests, and what its cells put out."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from pace import Deadline

CELL_S = 60.0

Message = dict[str, Any]


def received(client: Any, timeout: float) -> Iterator[Message]:
    """Yield the messages on IOPub as they come, until the time is up."""
    deadline = Deadline(timeout)
    while left := deadline.left:
        try:
            message = client.get_iopub_msg(timeout=left)
        except queue.Empty:
            continue
        yield message


class Cell:
    """A cell that runs or has run in a kernel: its messages, and the outputs as a notebook has them.

    Attributes
    ----------
    messages
        (time of receipt, message) of everything on IOPub, in order.
    reply
        The content of the reply; None until the cell has ended.
    """

    def __init__(self, client: Any, code: str, history: bool = False) -> None:
        self._client = client
        self.began = time.monotonic()
        self.id = client.execute(code, store_history=history)
        self.messages: list[tuple[float, Message]] = []
        self.reply: dict[str, Any] | None = None

    def until(self, seen: Callable[[Message], bool], timeout: float = CELL_S) -> Message:
        """Wait for a message."""
        for message in received(self._client, timeout):
            if message["parent_header"].get("msg_id") != self.id:
                continue
            self.messages.append((time.monotonic(), message))
            if seen(message):
                return message
        raise AssertionError(f"not seen within {timeout} s; there was:\n{self.text}")

    def until_text(self, text: str, timeout: float = CELL_S) -> Message:
        """Wait for an output that holds a text."""
        kinds = ("stream", "display_data", "update_display_data")
        return self.until(lambda m: m["msg_type"] in kinds and text in str(m["content"]), timeout)

    def finish(self, timeout: float = CELL_S) -> Cell:
        """Wait for the end."""
        if self.reply is None:
            self.until(lambda m: m["content"].get("execution_state") == "idle", timeout)
            while self.reply is None:
                message = self._client.get_shell_msg(timeout=timeout)
                if message["parent_header"].get("msg_id") == self.id:
                    self.reply = message["content"]
        self.took = time.monotonic() - self.began
        return self

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The outputs that a notebook would keep: texts joined, displays as updated last."""
        found: list[dict[str, Any]] = []
        for _, message in self.messages:
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                if found and found[-1].get("name") == content["name"]:
                    found[-1]["text"] += content["text"]
                else:
                    found.append(dict(content))
            elif kind in ("display_data", "execute_result", "error"):
                found.append(dict(content))
            elif kind == "update_display_data":
                name = content["transient"]["display_id"]
                for output in found:
                    if output.get("transient", {}).get("display_id") == name:
                        output["data"] = content["data"]
        return found

    @property
    def shown(self) -> list[str]:
        """The outputs as plain text, in order; those of an error are its lines."""
        return [
            output.get("text")
            or output.get("data", {}).get("text/plain")
            or "\n".join(output["traceback"])
            for output in self.outputs
        ]

    @property
    def text(self) -> str:
        """All of them as one text."""
        return "\n".join(self.shown)

    def updates(self) -> dict[str, list[tuple[float, dict[str, Any]]]]:
        """Every state of each display: display id → (when the kernel sent it, data)."""
        found: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        for _, message in self.messages:
            name = message["content"].get("transient", {}).get("display_id")
            if name:
                found.setdefault(name, []).append(
                    (message["header"]["date"].timestamp(), message["content"]["data"])
                )
        return found

    def cards(self) -> list[tuple[float, dict[str, Any]]]:
        """Every state of the status card, which is the first display."""
        return next(iter(self.updates().values()))

    @property
    def card(self) -> dict[str, Any]:
        """The card as it was last."""
        return self.cards()[-1][1]


class Kernel:
    """A kernel with the extension loaded.

    Attributes
    ----------
    history
        Whether its cells are those of a notebook, which the history gets.
    """

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home, self.history = home, False
        self.manager = KernelManager(kernel_name="python3")
        environment = {
            **os.environ,
            "JAXTRAIN_HOME": str(home),
            "IPYTHONDIR": str(home / "ipy"),
            "JUPYTER_PREFER_ENV_PATH": "1",
        }
        self.manager.start_kernel(env=environment, cwd=str(cwd))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=CELL_S)

    def start(self, code: str) -> Cell:
        """Start a cell."""
        return Cell(self.client, code, self.history)

    def run(self, code: str, *, fails: bool = False, timeout: float = CELL_S) -> Cell:
        """Run a cell to its end."""
        cell = self.start(code).finish(timeout)
        assert cell.reply is not None
        assert (cell.reply["status"] == "error") == fails, cell.text
        return cell

    @contextmanager
    def without_widgets(self) -> Iterator[None]:
        """Have no widgets, as in a clone in which their scripts were not built."""
        self.run(
            "from pathlib import Path\nfrom jupyter_jax_trainer.widget import built\n"
            "static, built.STATIC = built.STATIC, Path('/nowhere')"
        )
        yield
        self.run("built.STATIC = static")

    def value(self, expression: str) -> str:
        """Return the repr of an expression."""
        return str(self.run(f"print(repr({expression}))").outputs[0]["text"].rstrip("\n"))

    def interrupt(self) -> None:
        """Press ■."""
        self.manager.interrupt_kernel()

    def ask(self, what: str, *args: Any) -> dict[str, Any]:
        """Send a complete or inspect request and give the content of the reply."""
        wanted = getattr(self.client, what)(*args)
        while True:
            message = self.client.get_shell_msg(timeout=CELL_S)
            if message["parent_header"].get("msg_id") == wanted:
                return dict(message["content"])

    def stop(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@contextmanager
def running(home: Path, cwd: Path) -> Iterator[Kernel]:
    """Start a kernel and end it."""
    kernel = Kernel(home, cwd)
    try:
        kernel.run("%load_ext jupyter_jax_trainer")
        yield kernel
    finally:
        kernel.stop()
