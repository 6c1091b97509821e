"""Packages that a later cell of a session takes along: its ranks lack them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jupyter_jax_trainer.backends import cells
from jupyter_jax_trainer.backends.kubernetes.submit import images, wheels
from jupyter_jax_trainer.capture import Sent, environment
from jupyter_jax_trainer.jobdir.layout import JobDir

if TYPE_CHECKING:
    from jupyter_jax_trainer.capture import Capture


def add(session: JobDir, capture: Capture) -> Mapping[str, bytes]:
    """Pack what a cell imports and the ranks of its session lack, as far as that is known.

    What they have stays, in whatever version: it may be in use.

    Parameters
    ----------
    session
        The session's job.
    capture
        What the cell needs; what goes along is noted there.

    Returns
    -------
    Mapping of str to bytes
        Wheels by their file names.

    Raises
    ------
    CaptureError
        Something can't be packed, or doesn't fit what the image has.
    """
    ledger = capture.ledger
    assert ledger is not None, "it is a cell of a session"
    capture.imports.follow(capture.modules)
    wanted = capture.imports.without(ledger.there)
    if not wanted or (image := images.noted(session)) is None:
        return {}
    own = {path.partition("/")[0].removesuffix(".py") for path in capture.modules}
    given = cells.packages_of(session)
    packed = environment.gather(wanted, image, given, own=own, index=wheels.Index())
    if not packed.wheels:
        ledger.there |= wanted.certain | wanted.possible
    capture.sent += [
        Sent(wheel.name, "package", wheel.version, len(wheel.data)) for wheel in packed.wheels
    ]
    capture.notes += packed.notes
    return {wheel.file: wheel.data for wheel in packed.wheels}
