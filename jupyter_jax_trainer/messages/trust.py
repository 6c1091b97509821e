"""What is said of trust: other people's results, the user's keys, secrets in what is shown."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Message, identify

MADE_BY_OTHERS = Message(
    "not submitted from here, but by somebody else; its results and HTML are withheld"
)
MADE_BY_CLAIMED = Message(
    "not submitted from here; it claims to be made by {maker}; its results and HTML are withheld"
)
WITHHELD = Message("withheld: {kinds}")
RESULTS_WITHHELD = Message(
    "The results of job {job} are withheld. It was not submitted from this job store. Loading them "
    "may run their author's code."
)
RESULTS_WITHHELD_CLAIMED = Message(
    "The results of job {job} are withheld. It was not submitted from this job store. It claims to "
    "be made by {maker}; the cluster keeps no proof of that. Loading them may run their author's "
    "code."
)
SESSION_WITHHELD = Message(
    "Session {session} was not started from this job store. Its ranks would get this notebook's "
    "variables, and what comes back may run code of whoever started it."
)
TRUST_MAKER = Message("If you trust its maker: `%jaxtrain attach {job} --trust`")
TRUST_MAKER_OR_IMPORT = Message(
    "If you trust its maker: `%jaxtrain attach {job} --trust`. If key {key} is yours on another "
    "machine: `%jaxtrain key import FILE`"
)
FORBIDDEN = Message(
    "The administrator forbids results of others' jobs ({variable}). The job's state, logs and "
    "metrics can be seen."
)
CANNOT_TRUST = Message(
    "Job {job} can't be trusted here: the administrator forbids results of others' jobs "
    "({variable}).",
    "The job's state, logs and metrics can be seen.",
)

KEY_FILE_EXISTS = Message("{path} already exists.", "Choose another file name.")
KEYS_UNWRITABLE = Message("The key file {path} can't be written: {error}.")
KEYS_UNREADABLE = Message("The key file {path} can't be read: {error}.")
NO_KEYS = Message("{path} has no keys in it.", "`jaxtrain key export FILE` writes them.")
KEYS_DAMAGED = Message(
    "{path} is not a key file of jaxtrain, or it is damaged.",
    "Import a copy of it, or remove {keys}: the next job makes a new key.",
)
KEYS_BELONG_TO = Message(
    "The keys in {path} belong to {owner}.",
    "Whoever put them there could sign as you. Remove the file: the next job makes a new key.",
)
KEYS_READABLE = Message("Others can read the keys in {path}.", "To close it: chmod 600 {path}")

SECRET_IN_ENV = Message(
    "--env {name} looks like a secret; it is saved in the notebook and the job's files. {advice}"
)
SECRETS_IN_ENV = Message(
    "--env {names} look like secrets; they are saved in the notebook and the job's files. {advice}"
)
USE_SECRET = Message("Use --env-from-secret SECRET instead.")
USE_ENVIRONMENT = Message(
    "Use the environment of Jupyter instead; jobs on this machine inherit it."
)

identify(globals())
