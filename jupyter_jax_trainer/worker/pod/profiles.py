"""The way of a profile out of a pod: small ones through the log, others are held until fetched."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.pod.podchannel import PodChannel
from jupyter_jax_trainer.worker.records import Profiled


class Carrier:
    """Brings profiles out of this pod.

    Parameters
    ----------
    channel
        Where the messages go.
    """

    def __init__(self, channel: PodChannel) -> None:
        self._channel = channel
        self._holds: list[threading.Thread] = []

    def carry(self, folder: Path, taken: Profiled) -> None:
        """Bring away the files of a profile, in the log or by somebody who fetches them."""
        import zipfile  # few jobs need it, and none at its start

        from jupyter_jax_trainer.worker.pod import delivery

        file = delivery.open_file()
        with zipfile.ZipFile(file, "w") as pack:  # what is large in it is packed already
            for name in taken["files"]:
                pack.write(folder / name, name, zipfile.ZIP_DEFLATED, compresslevel=1)
        size, digest = file.seek(0, os.SEEK_END), delivery.sha256(file)
        if size <= delivery.IN_LOG:
            delivery.send_parts(
                self._channel, file, size, digest, kind="profile_part", name=taken["name"]
            )
            self._channel.send("profiled", **taken)
            file.close()
            return
        hold = threading.Thread(
            target=self._hold, args=(file, taken, size, digest), name="jaxtrain-hold", daemon=True
        )
        self._holds.append(hold)
        hold.start()

    def _hold(self, file: io.FileIO, taken: Profiled, size: int, digest: str) -> None:
        from jupyter_jax_trainer.worker.pod import delivery

        def announce(port: int, seconds: float) -> None:
            self._channel.send(
                "profile_held", port=port, size=size, sha256=digest, seconds=seconds, taken=taken
            )

        def lose(seconds: float) -> None:
            problem = say.PROFILE_NOT_FETCHED(seconds=seconds)
            self._channel.send("profiled", **{**taken, "files": {}, "problem": problem})

        with file:
            delivery.Held(self._channel, file, size, digest, announce, lose).serve()

    def close(self) -> None:
        """Wait until what is held was fetched, or nobody has done so for long."""
        while self._holds:
            self._holds.pop().join()
