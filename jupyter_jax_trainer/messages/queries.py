"""What pages and widgets are told: refused questions, patterns, the line of a cell in a form."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

CONTEXT_FORBIDDEN = Message(
    "Pages of this server may not ask about the context {name}.",
    "Whoever runs the server can allow it with c.JaxTrain.allowed_contexts.",
)
NAMESPACE_FORBIDDEN = Message(
    "Pages of this server may not ask about the namespace {name}.",
    "Whoever runs the server can allow it with c.JaxTrain.allowed_namespaces.",
)
CLUSTER_TIMED_OUT = Message(
    "Cluster request timed out after {seconds:.0f} s.",
    "Is the cluster up, and are you signed in? `jaxtrain doctor` checks, and waits longer.",
)
UNKNOWN_PLACE = Message("Unknown place {place}.")
NO_PLACE = Message("The place is missing.")
THE_NAMESPACE = Label("The namespace")
THE_RUNTIME = Label("The runtime")

NOT_A_START = Message(
    "The parameter from={given!r} is not a number.", "Give the number of the first item."
)
UNKNOWN_ACTION = Message("Unknown action {action!r}.")
NOT_POSSIBLE_NOW = Message("Job {job} is {state}: it can't be {done} now.")
NOT_A_SESSION = Message("Job {job} is not a session.")
REQUEST_NOT_AN_OBJECT = Message("The request is not a JSON object.")
CHANGES_NOT_AN_OBJECT = Message("The changes are not a JSON object.")
NO_CELL = Message("The text of the cell is missing or too long.")
BODY_NOT_TEXT = Message("The body of the request is not valid UTF-8.")
FOREIGN_PAGE = Message("This request comes from a page of another server.")
TOO_MANY_PAGES = Label("Too many pages are connected")
NOT_UNDERSTOOD = Message("not understood, or too much at once")
NO_LOG = Message("Job {job} has no log {source!r}.")
NOTHING_PRINTED = Message("Nothing has been printed there yet.")

SPACE_NEEDED = Message("{magic} must be followed by a space, not by a tab.")
HELP_IN_LINE = Message("--help shows the help, and nothing runs.", "Remove it from the line.")
UNKNOWN_OPTION = Message("Unknown option name {name}.")
CANNOT_CHANGE = Message(
    "{option} can't be changed here: the meaning of other words in the line would change.",
    "Edit the line by hand.",
)
LINE_BREAK_IN_VALUE = Message(
    "{option}: a value in the line of a cell can't contain a line break.",
    "Set it in the cell itself, or take it from a Secret.",
)

INTERNAL_ERROR = Message("Internal error; see the log of the server.")
NO_ID = Message("A message needs a number as its id.")
UNKNOWN_OPERATION = Message("Unknown operation {operation!r}.")
UNKNOWN_TOPIC = Message("Unknown topic {topic!r}.")
TOO_MANY_TOPICS = Message("A page can have at most {most} topics open.")
LOG_NOT_OPEN = Message("This log is not open.")
SEARCH_NOT_OPEN = Message("This search is not open.")

NO_SUCH_LOGS = Message("Job {job} has no such logs: {sources!r}.")
NO_LINE = Message("This log has no line {position}.")
LINE_GONE = Message("this line is gone: its log was deleted or changed")
NOT_A_LINE_NUMBER = Message("{value!r} is not a line number.")
CANNOT_LOOK_FOR = Message("Can't look for {what!r}.")
NOTHING_TO_SEARCH = Message("There is nothing to search for.")
NOT_TEXTS = Message("`texts` is not a list of strings.")

NO_PATTERN = Message("The pattern is empty.", "Enter what to search for.")
PATTERN_TOO_LONG = Message(
    "The pattern has {count:,} characters; it can have at most {most:,}.",
    "Search for a shorter part of the line.",
)
LINE_BREAK_IN_PATTERN = Message(
    "The pattern contains a line break, but each line of a log is searched by itself.",
    "Search for a part of one line.",
)
BAD_PATTERN = Message(
    "The pattern is not a valid RE2 regular expression: {error}.",
    "RE2 has no look-around and no back-references: github.com/google/re2/wiki/Syntax. To search "
    "for the characters literally, turn regular expressions off.",
)
NO_RE2 = Message(
    "Regular expressions need RE2, which is not installed where the Jupyter server runs.",
    "Install it there: pip install google-re2. Until then, search for plain text.",
)

identify(globals())
