"""What is said of options: a line that can't be read, a value that an option does not take."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

UNREADABLE_LINE = Message("The line {line} can't be read: {error}.")
HELP_REQUESTED = Message("Help was requested.")
UNKNOWN = Message("Unknown option {option}.", "--help lists the options.")
NEEDS_VALUE = Message("{option} needs a value.")
REFUSED = Message("{option}: {error}.")
DID_YOU_MEAN = Message("Did you mean {name}?")
KNOWN = Message("Known: {names}.")

EXTRA_WORD = Message(
    "Unexpected word {word}: the job's name is already {name}.",
    "Write lists without spaces (--out a,b), and put values with spaces in quotes.",
)
TWO_NAMES = Message("The job has two names, {name} and {other}.")

NOT_TEXT = Message("{option} takes a string, not {value}.")
EMPTY = Message("{option} is empty.")
TOO_LONG = Message("{option} takes at most {most:,} characters, not {length:,}.")
NOT_A_LIST = Message("{option} takes a string or a list of strings, not {value}.")
EXTRA_COMMA = Message(
    "{option} has an extra comma in {value}.",
    "Separate names with commas, without spaces: {option} a,b.",
)
TOO_MANY = Message("{option} takes at most {most:,} values, not {count:,}.")

NOT_A_CHOICE = Message("{option} must be one of {choices}, not {value}.")
NOT_A_FLAG = Message("{option} takes True or False, not {value}.")
NOT_A_WORD = Message("{option} {value} has surrounding whitespace or unprintable characters.")
NOT_WHOLE = Message("{option} takes a whole number from {low} to {high}, not {value}.")
NOT_RANKS = Message(
    "{option} takes ranks, such as 2, 0,3 or 0-3, or all, not {value}.",
)
NOT_CORES = Message(
    "{option} takes a number of cores, such as 4, 1.5 or 500m (half a core), not {value}."
)
NOT_BYTES = Message("{option} takes a number of bytes, such as 512Mi or 16Gi, not {value}.")
TOO_FEW_BYTES = Message(
    "{option} {value} is less than 1 MiB.", "A unit may be missing, as in 16Gi."
)
THOUSANDTHS = Message("'m' means thousandths in Kubernetes. Did you mean {value}?")
NOT_A_DURATION = Message(
    "{option} takes a duration such as 90s, 1h30m, 2h, 2d or a number of seconds, more than zero "
    "and at most 365d, not {value}."
)

NOT_A_JOB_NAME = Message(
    "{name} is not a valid job name: {fault}. A job name has only lowercase letters, digits and "
    "hyphens, at most {most} of them.",
    "A valid name: {valid}",
)
NOT_A_LABEL = Message("{option} {value} is not a valid Kubernetes name: {fault}.")
FAULT_CHARACTER = Message("character {place} ({character}) is not allowed")
FAULT_NO_LETTER_FIRST = Message("it begins with {character}, not with a lowercase letter")
FAULT_FIRST = Message("it begins with {character}, not with a lowercase letter or a digit")
FAULT_LAST = Message("it ends with '-'")
FAULT_LENGTH = Message("it has {length} characters, more than {most}")
NOT_A_SUBDOMAIN = Message(
    "{option} {value} is not a valid Kubernetes name: it must have only lowercase letters, "
    "digits, hyphens and dots, at most {most} of them, and begin and end with a letter or a digit."
)
NOT_A_LABEL_VALUE = Message(
    "{option} {value} is not a valid value of a node label: it must have only letters, digits, "
    "'-', '_' and '.', at most 63 of them. The label's key may precede it: "
    "{option} example.com/gpu=h100."
)
NOT_A_VARIABLE = Message("{option} takes variable names, and {value} is not one.")
NAME_THE_VALUE = Message(
    "Assign the value to a variable in the cell, and give that name: {option} NAME."
)
NOT_A_TOPOLOGY = Message("{option} takes AxB or AxBxC, such as 2x4, not {value}.")
NOT_AN_ASSIGNMENT = Message("{option} takes NAME=VALUE, and {value} has no '='.")
EMPTY_ASSIGNMENT = Message("For an empty value: {option} {assignment}")
NOT_AN_ENVIRONMENT_VARIABLE = Message(
    "{option}: {name} is not a valid name of an environment variable."
)
SETTING_TOO_LONG = Message("{option} {name}: the name or the value is too long.")
SETTING_UNFIT = Message(
    "{option} {name}: the value has a character that an environment variable can't hold."
)
NOT_A_VOLUME = Message(
    "{option} takes a claim and a mount path, such as my-claim:/data, not {value}."
)
NOT_FILES = Message(
    "{option} takes paths and patterns below the notebook's folder, such as data/*.csv or configs, "
    "not {value}.",
    "Copy or move what is elsewhere into that folder, or mount it with --volume.",
)
NOT_A_STORE = Message(
    "{option} takes a URL or an absolute path, such as s3://bucket/folder or /data/store, "
    "not {value}."
)
NOT_AN_INITIALIZER = Message("{option} takes hf://OWNER/NAME or s3://BUCKET/PATH, not {value}.")
NOT_AN_IMAGE = Message("{option} takes an image such as ghcr.io/me/jax:1.2, not {value}.")
NOT_A_PACKAGE = Message(
    "{option} takes one package as pip names it, such as 'optax>=0.2', not {value}."
)

NOT_A_FIELD = Message("A job's {name} can't be {value}.")
NOT_WITH_CPU = Message("{option} can't be combined with --device cpu.")
TOPOLOGY_OF_OTHERS = Message("--topology is for TPUs, but --device is {device}.")
TWO_CLAIMS = Message(
    "--volume mounts two claims at {path}: {claim} and {other}.", "Give them different paths."
)
SLICE_OF_OTHER_PRODUCT = Message(
    "--topology {topology} is a TPU slice of {chips} chips, but --nodes {nodes} with "
    "--devices-per-node {per_node} makes {made}."
)
SLICE_OF_OTHER_SHAPE = Message(
    "--topology {topology} is a TPU slice of {chips} chips, which {option} {value} does not fit."
)
SLICE_OF_NO_MACHINES = Message(
    "--topology {topology} is a TPU slice of {chips} chips, which can't be made of machines "
    "with {each} chips."
)
SLICE_WAYS = Message("The topology determines both: omit the other options, or give {ways}.")
SLICE_SHAPES = Message(
    "4x4, 4x8 and 8x8 are shapes of v5e and v6e; 2x2x2, 2x2x4 and 4x4x4 of v4 and v5p."
)

DEVICE_NEEDS_KUBERNETES = Message(
    "--device {device} needs Kubernetes: jobs on this machine run on its CPU or its GPUs.",
    "Omit it, or add --backend kubernetes.",
)
ONLY_ON_KUBERNETES = Message(
    "{option} only works on Kubernetes, but this job would run on this machine.",
    "Omit it, or add --backend kubernetes.",
)
SEVERAL_ONLY_ON_KUBERNETES = Message(
    "{options} only work on Kubernetes, but this job would run on this machine.",
    "Omit them, or add --backend kubernetes.",
)
NOT_STEPS = Message(
    "{option} takes steps such as steps=10:15, the first and the one after the last, not {value}.",
    "Without a value, the whole cell is profiled.",
)

identify(globals())
