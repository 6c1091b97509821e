"""What is said of results: why one is not there or can't be read."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

_BRING_BACK = "`-o NAME` brings a variable back; run the cell again with it."
NO_RESULT = Message("Job {job!r} has no result {name!r}; it brought back: {names}.", _BRING_BACK)
NO_RESULTS = Message("Job {job!r} has no result {name!r}; it brought back nothing.", _BRING_BACK)
NEVER_CAME = Message("{name!r} did not come back.", "`%jaxtrain show {job}` says why.")
OTHERS_CAME_BACK = Message("{names} came back.")
CANNOT_READ = Message("{name!r} can't be read here: {error}")
NOT_IN_FILE = Message("{name!r} is not in {path}.")
OTHER_KIND = Message(
    "{name!r} is not loaded: its format in {path} is {found}, but the job's table of results says "
    "{said}."
)
NEEDS_PICKLE = Message("it needs pickle, which {variable} forbids")
OTHER_PYTHON = Message("it holds functions or classes of Python {there}, but this is Python {here}")

CAME_AS_DICTIONARIES = Message(
    "{names}: loaded as dictionaries instead of {classes}, which this process has not imported or "
    "has with other fields. To get the objects, {steps}, and load the results of {job} again."
)
IMPORT_PACKAGES = Message("import their packages")
RUN_DEFINING_CELL = Message("run the cell that defines it")
RETURN_VALUE = Message("its value")

FILE_GONE = Message("{path} is missing: the results no longer exist.")
FILE_DAMAGED = Message("The results in {path} are damaged: {error}.")
OTHER_FORMAT = Message(
    "The results in {path} have format {found!r}; this version reads format {known}."
)
OTHER_TABLE_FORMAT = Message("their format is {found!r}; this version reads {known}")
PART_UNREADABLE = Message("{part} in {path} can't be read: {error}.")
PART_CHANGED = Message("{part} of {path} was changed or damaged: its sha256 differs.")
BUFFER = Message("buffer {number}")
BUFFER_MISSING = Message("a buffer is missing")
GROUP_BUFFERS_MISSING = Message("buffers of a group are missing")
BUFFER_MISPLACED = Message("the manifest has a buffer at an invalid position")
BUFFER_OUTSIDE = Message("the manifest has a buffer outside the file")
BUFFERS_OVERLAP = Message("the manifest has buffers that overlap")
NO_TABLES = Message("the manifest has no tables")
TOO_MANY_NODES = Message("{path} has more than {most:,} nodes.")

UNKNOWN_COMPRESSION = Message("its compression method is not supported")
TOO_LARGE = Message("it is too large ({size} bytes)")
CUT_OFF = Message("it is truncated")

TOO_DEEP = Message("it is nested too deeply or too large")
UNKNOWN_NODE = Message("node {number} is of an unknown kind")
NODE_TOO_LONG = Message("node {number} is too long")
NOT_A_VALUE = Message("not a valid value: a {type}")
KEY_OF_NO_ARRAY = Message("a random key has no array as its data")
NOT_A_KEY = Message("not a random key")
BUFFER_USED_TWICE = Message("buffer {number} is used twice")
ARRAY_SIZE = Message("the size of an array does not match its data")
SCALAR_SIZE = Message("the size of a scalar does not match its data")
NOT_AN_ORDER = Message("not a memory order: {order!r}")
JAX_CHANGES_ARRAY = Message("jax turns {sent} into {made} here")
FIELDS_DIFFER = Message("an object does not have the fields that it names")
NOT_A_REFERENCE = Message("not a reference to a node: {value}")
NOT_A_STRING = Message("not a string: {value!r}")
NOT_AN_ITEM_DTYPE = Message("not a dtype of items: {dtype}")
KEY_WITHOUT_VALUE = Message("a dictionary has a key without a value")
NOT_A_NUMBER = Message("not a hexadecimal number")

identify(globals())
