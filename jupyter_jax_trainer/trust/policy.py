"""Whether what a job brings back may run code here: the one place that is asked.

Results may be pickles, and HTML has scripts. Those of a job that this store submitted are the
user's own. A job that was attached is somebody else's, until its signature shows that the same
user submitted it, or the user says that its maker is trusted.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from jupyter_jax_trainer.datatypes import JsonValue, MimeBundle
from jupyter_jax_trainer.errors import JobDirError, JobNotFound, ResultsWithheld, UsageError
from jupyter_jax_trainer.jobdir.files import read_json, write_json
from jupyter_jax_trainer.jobdir.formats import Shape
from jupyter_jax_trainer.jobdir.layout import JobDir
from jupyter_jax_trainer.jobdir.manifest import Attached, Manifest, attached_of
from jupyter_jax_trainer.messages import Text, jobs
from jupyter_jax_trainer.messages import trust as say
from jupyter_jax_trainer.trust import signing
from jupyter_jax_trainer.trust.signing import Statement

if TYPE_CHECKING:
    from jupyter_jax_trainer.jobdir.job import Job

ALLOW = "JAXTRAIN_ALLOW_FOREIGN_RESULTS"
_GRANT: dict[str, Shape] = {"uid": str, "granted": (int, float)}
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MAKER = 100  # characters


class Trust(StrEnum):
    """How far a job is trusted."""

    OWN = "own"  # submitted from this store
    SIGNED = "signed"  # submitted by the same user from another machine
    GRANTED = "granted"  # somebody else's, and the user trusts its maker
    FOREIGN = "foreign"  # somebody else's, as far as can be told
    FORBIDDEN = "forbidden"  # the same, and the administrator lets nobody change that

    @property
    def mine(self) -> bool:
        """Whether the user submitted it: paths and URLs in its options are the user's, too."""
        return self in (Trust.OWN, Trust.SIGNED)

    @property
    def complete(self) -> bool:
        """Whether results are loaded, and HTML is shown."""
        return self.mine or self is Trust.GRANTED


def allowed() -> bool:
    """Return whether the administrator leaves it to the users whom they trust."""
    return os.environ.get(ALLOW, "").strip().lower() in ("", "1", "on", "yes", "true")


def of(job: Job) -> Trust:
    """Return how far a job is trusted.

    Raises
    ------
    JobDirError
        Its manifest can't be read.
    """
    return standing(JobDir(job.directory), job.manifest)


def is_mine(job: Job) -> bool:
    """Return whether the user submitted a job; a damaged one is no more than what lies here."""
    try:
        return of(job).mine
    except JobDirError:
        return True


def standing(directory: JobDir, manifest: Manifest) -> Trust:
    """Return how far a job is trusted, by its directory and manifest."""
    origin = attached_of(manifest)
    if origin is None:
        return Trust.OWN
    if _is_signed(directory, manifest, origin):
        return Trust.SIGNED
    if not allowed():
        return Trust.FORBIDDEN
    return Trust.GRANTED if _is_granted(directory, manifest) else Trust.FOREIGN


def grant(job: Job) -> None:
    """Note that the user trusts whoever made a job; one of the user's own needs no note.

    Raises
    ------
    UsageError
        The administrator forbids it.
    """
    now = of(job)
    if now.complete:
        return
    if now is Trust.FORBIDDEN:
        raise UsageError(say.CANNOT_TRUST(job=job.name, variable=ALLOW))
    directory = JobDir(job.directory)
    note: dict[str, JsonValue] = {
        "uid": job.uid,
        "trainjob_uid": directory.read_trainjob_uid(),
        "granted": time.time(),
    }
    try:
        write_json(directory.trust, note)
    except FileNotFoundError:
        raise JobNotFound(jobs.NO_LONGER_EXISTS(job=job.name)) from None


def require(job: Job) -> None:
    """Refuse to load the results of a job that is not trusted.

    Raises
    ------
    ResultsWithheld
        With the way out.
    """
    now = of(job)
    if not now.complete:
        maker = claimed_maker(job)
        if maker:
            said = say.RESULTS_WITHHELD_CLAIMED(job=job.name, maker=maker)
        else:
            said = say.RESULTS_WITHHELD(job=job.name)
        raise ResultsWithheld(said, _way_out(job, now))


def require_session(job: Job) -> None:
    """Raise where cells may not go to a session, nor anything come from it: it is not trusted.

    Cells take variables of the notebook along, and what they bring back is loaded here.

    Raises
    ------
    UsageError
        With the way out.
    """
    now = of(job)
    if not now.complete:
        raise UsageError(say.SESSION_WITHHELD(session=job.name), _way_out(job, now))


def notice(job: Job) -> str | None:
    """Say that something of a job is withheld; None where nothing is."""
    if of(job).complete:
        return None
    maker = claimed_maker(job)
    return say.MADE_BY_CLAIMED(maker=maker) if maker else say.MADE_BY_OTHERS()


def _way_out(job: Job, now: Trust) -> Text:
    """Return what lets the results of a job be loaded."""
    if now is Trust.FORBIDDEN:
        return say.FORBIDDEN(variable=ALLOW)
    origin = attached_of(job.manifest)
    key = signing.signer(str(origin and origin.get("signature")))
    if key:
        return say.TRUST_MAKER_OR_IMPORT(job=job.name, key=key)
    return say.TRUST_MAKER(job=job.name)


def claimed_maker(job: Job) -> str | None:
    """Return who made an attached job, as its TrainJob says; anybody can write anything there."""
    manifest = job.manifest
    maker = manifest.get("maker")
    if attached_of(manifest) is None or not isinstance(maker, str):
        return None
    return "".join(filter(str.isprintable, maker))[:_MAKER].strip() or None


def harmless(data: MimeBundle) -> MimeBundle:
    """Leave of something displayed what can run no code: plain text, and images of pixels."""
    kept: MimeBundle = {name: data[name] for name in _IMAGES if _is_base64(data.get(name))}
    text = data.get("text/plain")
    if isinstance(text, str):
        kept["text/plain"] = text
    return kept or {"text/plain": f"[{say.WITHHELD(kinds=', '.join(sorted(map(str, data))))}]"}


def _is_base64(value: JsonValue) -> bool:
    """Return whether it is strictly base64, and so safe wherever a front end may put it."""
    if not isinstance(value, str):
        return False
    try:
        return bool(base64.b64decode("".join(value.split()), validate=True))
    except (binascii.Error, ValueError):
        return False


def _is_signed(directory: JobDir, manifest: Manifest, origin: Attached) -> bool:
    """Return whether a key of this store has signed this very TrainJob."""
    statement, signature = Statement.from_json(origin.get("statement")), origin.get("signature")
    if statement is None or not isinstance(signature, str):
        return False
    try:
        this = (manifest["uid"], directory.read_trainjob_uid())
    except JobDirError:
        return False
    return (statement.uid, statement.trainjob_uid) == this and signing.is_mine(statement, signature)


def _is_granted(directory: JobDir, manifest: Manifest) -> bool:
    """Return whether the user has said so of this very TrainJob."""
    try:
        note = read_json(directory.trust, _GRANT)
        this = (manifest["uid"], directory.read_trainjob_uid())
    except JobDirError:
        return False
    return (note["uid"], note.get("trainjob_uid")) == this
