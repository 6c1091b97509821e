"""The arrays of a session on disk: what ranks hold together by orbax, what each has by itself.

Only arrays, and trees of arrays and numbers, are saved. Beside them stands how they were spread
over devices, which are found again by their numbers.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib
import io
import json
import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import cloudpickle

from jupyter_jax_trainer.datatypes import Namespace
from jupyter_jax_trainer.messages import worker as say
from jupyter_jax_trainer.worker.exceptions import WorkerError
from jupyter_jax_trainer.worker.livearrays import is_lost
from jupyter_jax_trainer.worker.records import Saved
from jupyter_jax_trainer.worker.reporting import CHECKPOINTS_VARIABLE, checkpoint_dir
from jupyter_jax_trainer.worker.serialization import jaxvalues
from jupyter_jax_trainer.worker.serialization.describe import kind_of

_FOLDER = "session"
_ARRAYS = "arrays"
_NOTE = "saved.json"
_KEPT = 2  # the last one is not known to everybody before the cell has ended

_OWNER = "session.owner"

last: Saved | None = None  # what this process has saved last
_claimed: str | None = None  # by which name this process is the session's


class SaveError(WorkerError):
    """The variables can't be saved, or can't be restored."""


@dataclass
class _Leaf:
    """An array as it is written: `value` is None for one that orbax has."""

    value: Any
    shape: tuple[int, ...] = ()
    dtype: Any = None
    sharding: Any = None
    random_key: str | None = None  # the generator of one that holds keys
    committed: bool = True  # to its devices


@dataclass
class _Tree:
    """A variable: itself with numbers in place of its arrays, and those."""

    skeleton: Any
    leaves: list[_Leaf]


def claim() -> None:
    """Stop earlier ranks from saving: those on a node that was cut off may come back later."""
    global _claimed
    name = uuid4().hex
    with contextlib.suppress(OSError):
        part = checkpoint_dir() / f"{_OWNER}.{name}"
        part.write_text(name)
        part.replace(part.with_name(_OWNER))
        _claimed = name


def _is_owner() -> bool:
    """Return whether no later ranks have taken over from these."""
    if _claimed is None:
        return True
    try:
        return (checkpoint_dir() / _OWNER).read_text() == _claimed
    except OSError:
        return True


def save(namespace: Namespace) -> list[str]:
    """Save the variables of a session that are arrays; all ranks have to call it.

    Returns
    -------
    list of str
        Their names.

    Raises
    ------
    SaveError
        Ranks hold different ones, or none, or orbax is missing; or others have taken their place.
    """
    global last
    if b"0" in _told(b"1" if _is_owner() else b"0"):
        raise SaveError(say.OTHERS_GO_ON())
    together: dict[str, Any] = {}
    trees: dict[str, _Tree] = {}
    left_out, total = [], 0
    for name, value in sorted((k, v) for k, v in namespace.items() if isinstance(k, str)):
        if name.startswith("__") or kind_of(value) not in ("array", "value"):
            continue
        if (found := _tree(name, value, together)) is None:
            left_out.append(name)
        else:
            trees[name] = found
            total += _size(value)
    outline = repr([(k, a.shape, str(a.dtype), str(a.sharding)) for k, a in together.items()])
    if len(set(_told(_digest(outline.encode())))) > 1:
        raise SaveError(say.RANKS_HOLD_DIFFERENT())
    if b"1" not in _told(b"1" if trees else b"0"):
        raise SaveError(say.NOTHING_TO_SAVE())  # what was saved before stays the last
    orbax = _orbax() if together else None
    now = time.time()
    stamp = _told(f"{time.time_ns():020}".encode())[0].decode()
    written = _pickled(trees)
    problem = _problem_of_writing(stamp, written)
    if b"0" in _told(b"0" if problem else b"1"):
        _take_back(stamp)
        raise SaveError(say.NOT_WRITTEN()) from problem
    folder = _folder(stamp)
    if orbax is not None:
        with orbax.StandardCheckpointer() as checkpointer:
            checkpointer.save(folder / _ARRAYS, together)
    digests = _told(_digest(written))
    last = {
        "time": now,
        "folder": f"{_FOLDER}/{stamp}",
        "digest": _digest(b"".join(digests)).hex(),
        "nodes": len(digests),
        "names": sorted(trees),
        "left_out": left_out,
        "size": total,
    }
    _forget_older(folder)
    return sorted(trees)


def _folder(stamp: str) -> Path:
    return checkpoint_dir() / _FOLDER / stamp


def _problem_of_writing(stamp: str, written: bytes) -> OSError | None:
    """Write what this rank alone has; all ranks hear of what keeps from it."""
    try:
        folder = _folder(stamp)
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{_own()}.part"
        part.write_bytes(written)
        part.rename(folder / _own())
    except OSError as error:
        return error
    return None


def _take_back(stamp: str) -> None:
    """Delete what this rank has written of a save that another could not write."""
    with contextlib.suppress(OSError):
        folder = _folder(stamp)
        for path in (folder / f"{_own()}.part", folder / _own()):
            path.unlink(missing_ok=True)
        folder.rmdir()


def restore(namespace: Namespace, folder: str, digest: str, job: str | None = None) -> list[str]:
    """Bring saved variables back; all ranks have to call it.

    Parameters
    ----------
    folder, digest
        What `save` has noted.
    job
        The job whose ranks have saved them, if it is not this one.

    Returns
    -------
    list of str
        Their names.

    Raises
    ------
    SaveError
        What was saved is gone or was changed, or orbax is missing.
    """
    written, place = b"", None
    with contextlib.suppress(OSError):
        place = checkpoint_dir(job) / folder
        written = (place / _own()).read_bytes()
    # What is unpickled has to be what was written: others may write to a volume, too.
    if _digest(b"".join(_told(_digest(written)))).hex() != digest or place is None:
        raise SaveError(say.SAVE_IS_GONE(folder=folder))
    trees: dict[str, _Tree] = pickle.loads(written)
    together = _restored_together(trees, place)
    for name, tree in trees.items():
        namespace[name] = _value(name, tree, together)
    return sorted(trees)


def keeps() -> bool:
    """Return whether what is saved outlives this process's pod."""
    return bool(os.environ.get(CHECKPOINTS_VARIABLE))


def note(saved: Saved, sign: Callable[[bytes], bytes]) -> None:
    """Leave word of a save for the pods that come after this one.

    Parameters
    ----------
    saved
        What `save` has noted.
    sign
        Shows that one knows the job's key.
    """
    text = json.dumps(saved)
    path = checkpoint_dir() / saved["folder"] / _NOTE
    path.write_text(json.dumps({"saved": text, "mac": _mac(text, sign)}))


def noted(sign: Callable[[bytes], bytes]) -> Saved | None:
    """Return what pods of this job have saved last; None where nothing was.

    Others may write to a volume, too: what they leave there is passed over.
    """
    for path in sorted((checkpoint_dir() / _FOLDER).glob(f"*/{_NOTE}"), reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            found = json.loads(path.read_text())
            if hmac.compare_digest(_mac(found["saved"], sign), found["mac"]):
                return cast(Saved, json.loads(found["saved"]))
    return None


def _mac(text: str, sign: Callable[[bytes], bytes]) -> str:
    return sign(b"saved " + text.encode()).decode()


def _restored_together(trees: dict[str, _Tree], place: Path) -> dict[str, Any]:
    import jax

    wanted = {
        f"{name}.{number}": jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)
        for name, tree in trees.items()
        for number, leaf in enumerate(tree.leaves)
        if leaf.value is None
    }
    if not wanted:
        return {}
    is_wide = any(one.dtype.itemsize >= 8 for one in wanted.values())
    with _orbax().StandardCheckpointer() as checkpointer, _wide_everywhere(is_wide):
        found: dict[str, Any] = checkpointer.restore(place / _ARRAYS, wanted)
    return found


@contextlib.contextmanager
def _wide_everywhere(is_wide: bool) -> Iterator[None]:
    """Have arrays of 64 bits stay so in all threads: orbax has some of its own."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", before or is_wide)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def _tree(name: str, value: Any, together: dict[str, Any]) -> _Tree | None:
    """Take a variable apart, and add its arrays that ranks hold together; None for others."""
    from jax import tree_util

    try:
        found, structure = tree_util.tree_flatten(value)
        if not any(map(_is_array, found)) or not all(map(_is_kept, found)):
            return None
        skeleton = tree_util.tree_unflatten(structure, range(len(found)))
        _pickled(skeleton)
    except Exception:  # a class of the user's may raise whatever it likes
        return None
    leaves = []
    for number, leaf in enumerate(found):
        one, array = _leaf(leaf)
        if one.value is None:
            together[f"{name}.{number}"] = array
        leaves.append(one)
    return _Tree(skeleton, leaves)


def _is_array(leaf: Any) -> bool:
    import jax
    import numpy as np

    return isinstance(leaf, (jax.Array, np.ndarray))


def _is_kept(leaf: Any) -> bool:
    import numpy as np

    if isinstance(leaf, (bool, int, float, complex, np.number, np.bool_)):
        return True
    if not _is_array(leaf) or leaf.dtype == object:
        return False
    return not is_lost(leaf)


def _leaf(value: Any) -> tuple[_Leaf, Any]:
    import jax
    import numpy as np

    if not isinstance(value, jax.Array):
        return _Leaf(value), value
    generator = None
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        generator, value = str(jax.random.key_impl(value)), jax.random.key_data(value)
    own = value.is_fully_addressable
    array = np.asarray(value) if own else None
    committed = getattr(value, "_committed", True)
    return _Leaf(array, value.shape, value.dtype, value.sharding, generator, committed), value


def _value(name: str, tree: _Tree, together: dict[str, Any]) -> Any:
    import jax

    values = []
    for number, leaf in enumerate(tree.leaves):
        value = leaf.value if leaf.value is not None else together[f"{name}.{number}"]
        if leaf.value is not None and leaf.sharding is not None:
            with jaxvalues.wide_enough(value.dtype):
                value = (
                    jax.device_put(value, leaf.sharding)
                    if leaf.committed
                    else jax.numpy.asarray(value)
                )
        if leaf.random_key is not None:
            value = jax.random.wrap_key_data(value, impl=leaf.random_key)
        values.append(value)
    structure = jax.tree_util.tree_structure(tree.skeleton)
    return jax.tree_util.tree_unflatten(structure, values)


def _size(value: Any) -> int:
    from jax import tree_util

    return sum(int(getattr(leaf, "nbytes", 0)) for leaf in tree_util.tree_leaves(value))


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles devices by number, and refuses the notebook's classes and functions.

    A copy of a class would not be the class that later cells bring along.
    """

    def reducer_override(self, obj: Any) -> Any:
        import jax

        if kind_of(obj) in ("class", "function") and obj.__module__ == "__main__":
            raise pickle.PicklingError(obj.__qualname__)
        if isinstance(obj, jax.Device):
            return _device, (obj.id,)
        return super().reducer_override(obj)


def _device(number: int) -> Any:
    import jax

    return next(device for device in jax.devices() if device.id == number)


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()


def _told(data: bytes) -> list[bytes]:
    """Gather the bytes of all ranks, equally many from each."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    if jax.process_count() == 1:
        return [data]
    found = multihost_utils.process_allgather(np.frombuffer(data, np.uint8))
    return [row.tobytes() for row in np.asarray(found)]


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _own() -> str:
    import jax

    return f"rank-{jax.process_index()}"


def _orbax() -> Any:
    try:
        return importlib.import_module("orbax.checkpoint")
    except ImportError:
        raise SaveError(say.NO_ORBAX()) from None


def _forget_older(folder: Path) -> None:
    """Delete saves before the last ones."""
    import jax

    if jax.process_index() == 0:
        for one in sorted(folder.parent.iterdir())[:-_KEPT]:
            shutil.rmtree(one, ignore_errors=True)
