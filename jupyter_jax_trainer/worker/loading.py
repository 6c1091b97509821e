"""What a bundle brings: whether this Python can read it, and its variables."""

from __future__ import annotations

import io
import pickle
import sys

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.serialization.archive import Archive, BundleManifest


class PythonMismatch(RuntimeError):  # noqa: N818
    """The bundle holds code of another Python minor version."""


def check_python(manifest: BundleManifest) -> None:
    """Refuse objects that only another Python can read: unpickling them would crash or lie.

    Raises
    ------
    PythonMismatch
        With the names of these objects and what to do.
    """
    sent, here = tuple(manifest["python"]), sys.version_info[:2]
    bound = manifest["python_bound"]
    if sent != here and bound:
        raise PythonMismatch(
            say.ANOTHER_PYTHON(
                names=", ".join(bound),
                sent=f"{sent[0]}.{sent[1]}",
                here=f"{here[0]}.{here[1]}",
            )
        )


def load_variables(archive: Archive, namespace: Namespace) -> None:
    """Unpickle the captured variables into the namespace."""
    if not archive.manifest["names"]:
        return
    from jupyter_jax_trainer.worker.serialization.pickling import Unpickler

    stream = io.BytesIO(archive.read("variables.pkl"))
    with Unpickler(stream, buffers=archive.buffers(), main_globals=namespace) as unpickler:
        for name in archive.manifest["names"]:
            try:
                sent_name, value = unpickler.load()
            except (ModuleNotFoundError, AttributeError, pickle.UnpicklingError) as error:
                raise RuntimeError(say.CANNOT_LOAD(name=name, error=error)) from error
            if isinstance(value, type):  # a session may have it from an earlier cell
                unpickler.renew(value)
            namespace[sent_name] = value
