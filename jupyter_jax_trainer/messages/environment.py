"""What is said about the packages that go along with a job."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

CANNOT_PACK = Message(
    "The image lacks packages that the cell imports, and they can't be sent: {problems}.",
    "Fetch wheels from this machine's index with {options}, use an --image that has the packages, "
    "or start the job without them (--no-packages).",
)
ONE_PROBLEM = Message("{package} {problem}")
NOT_IN_INDEX = Message(
    "The image lacks packages that the cell imports, and they can't be sent: {problems}. This "
    "machine's package index has no wheels of these versions for the pods: {answer}.",
    "Send any version with {options}, use an --image that has the packages, or start the job "
    "without them (--no-packages).",
)
WRONG_WHEEL = Message("the wheel {file} does not run in the pods")
NO_WHEEL = Message("pip got no wheel for {package}")
FROM_INDEX = Message(
    "Fetched from this machine's package index, because the installed files can't be sent: "
    "{packages}."
)
NO_RECORD = Message("has no list of its files (RECORD)")
UNREADABLE_FILE = Message("can't be read ({file}: {error})")
COMPILED_BY_CONDA = Message("is compiled by conda, for this environment alone")
COMPILED_FOR_UNKNOWN = Message("is compiled for an unknown platform")
COMPILED_FOR_OTHERS = Message(
    "is compiled for {tags}, and the pods have Python {python} on {machine}"
)
OTHER_PYTHON = Message("needs Python {wanted}, and the pods have {python}")
TOO_LARGE = Message(
    "The image lacks packages that are too large to be sent: {packages}. At most {most} "
    "can be sent, packed.",
    "Use an --image that has them, or --store with a path or URL that this machine and the pods "
    "can access. With --no-packages, the job starts without them.",
)
NEEDS_ANOTHER = Message(
    "{package} would be sent, but it needs {needed}, and the job would have {other} {there}.",
    "Use an --image that has packages which fit, install a version here that fits the image, or "
    "start the job without it (--no-packages).",
)
BREAKS = Message(
    "{package} {version} would be sent, but {other} {there} of the image needs {needed}.",
    "Use an --image that has packages which fit, install a version here that fits the image, or "
    "keep the image's (--no-packages).",
)
NOT_SENT = Message(
    "{package}, which the job may import, is not in the image and is not sent: {problem}."
)
NOT_OFFERED = Message("Not sent, so the image must have them: {problems}.")
EXCEEDS = Message(
    "takes {size}, and of an unknown image only {most} in all are sent without --allow-large"
)
NO_ROOM = Message("does not fit into the job's Secrets ({size})")
PTH_LEFT_OUT = Message(
    "Not sent with {package}, because Python would run it at each start: {files}."
)
VERSIONS_DIFFER = Message(
    "The job gets objects of {package} {here}, but its image has {package} {there}: they may not "
    "be readable there."
)

identify(globals())
