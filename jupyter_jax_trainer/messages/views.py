"""What the views of a job say: the card, the terminal's lines, the widgets."""

from __future__ import annotations

from jupyter_jax_trainer.messages import Label, Message, identify

NEW_JOB = Label("New job")
TIME_LEFT = Message("about {time} left")
BY_USER = Message("by the user")
SENDING = Message("sending {things}")
SENT = Message("sent {things}")
BROUGHT_BACK = Message("brought back {things}")
KEEPS_RUNNING = Message("Keeps running if you close this page. Reattach: %jaxtrain attach {name}")
COURSE = Message("{name} from {first:.4g} to {last:.4g}")

SENDING_SIZE = Message("Sending {size}.")
SENDING_THINGS = Message("Sending {size}: {things}")
TOTAL_SIZE = Message("total {size}")
STARTED = Message(
    "Job {name} was started.\n"
    "`{command} attach {name}` follows it, `{command} cancel {name}` cancels it."
)

SOME_FINISHED = Message("{finished} finished; still running: {running}")
SOME_LEFT_OUT = Message("still running: {running}; {others} were left out, so don't wait for them")
INTERRUPT_AGAIN = Message(
    "interrupt again within {seconds} s to cancel the job; otherwise it continues without this cell"
)
CANCELLING = Message("cancelling")
INTERRUPTING = Message(
    "interrupting all ranks; interrupt again to restart them, without the session's variables"
)
RESTARTING = Message("restarting all ranks")
LEFT_RUNNING = Message("detached")
DETACHED = Message(
    "Detached. Job {name!r} keeps running.",
    "`%jaxtrain attach {name}` follows it again, `%jaxtrain cancel {name}` cancels it.",
)
ENDED_MEANWHILE = Message("Interrupted, but job {name!r} has ended and its results are loaded.")

DISPLAYS_LEFT_OUT = Message("… only the first {count} displays of a job are shown.")
LINES_LEFT_OUT = Message("… {count:,} lines are not shown here; all are in {where}")

NO_WIDGET = Message(
    "The widget is not available: its script has not been built.",
    "In a clone, run `make labextension`; a wheel includes it.",
)
UNKNOWN_PATH = Message("There is no {path!r} here.")
INTERNAL_ERROR = Message("Internal error; the kernel's log has the details.")
CANNOT_INSERT_CELL = Message("Cells can't be inserted in this front end.", "Copy the code instead.")
INSERTED_LATER = Message("The cell will be inserted below the next one that you run.")

identify(globals())
