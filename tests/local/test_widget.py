"""Jobs as widgets: what a real kernel sends over its comms, and takes, while cells wait or not."""

import json

import kernels
import pytest
from conftest import end_processes_of

from jupyter_jax_trainer.messages import views as say

pytestmark = pytest.mark.filterwarnings("ignore")  # of the kernel's client, not of this package

JOB = "application/vnd.jaxtrain.job+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
LONG = "%%jaxtrain {} -n 2\nimport time\nprint('running', flush=True)\ntime.sleep(60)"
STEPS = """%%jaxtrain steps
import time
from jupyter_jax_trainer import report
for i in range(30):
    report(step=i + 1, total=30, lr=0.1, loss=1 / (i + 1))
    print('at', i, flush=True)
    time.sleep(0.15)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A kernel with scripts of widgets, built or not: nobody draws them here."""
    home, work = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
    for name in ("job.js", "job.css", "panel.js", "panel.css"):
        (work / name).write_text("export default {}")
    with kernels.running(home, work) as kernel:
        kernel.run(
            "from pathlib import Path\nfrom jupyter_jax_trainer.widget import built\n"
            "built.STATIC = Path().absolute()"
        )
        yield kernel
    assert end_processes_of(home) == {}


class Comms:
    """The comms that were opened while a cell ran, and what came over them."""

    def __init__(self, kernel):
        self._client = kernel.client

    def heard(self, cell, kind="comm_msg"):
        return [m["content"] for _, m in cell.messages if m["msg_type"] == kind]

    def opened(self, cell, name):
        """Return the id of the model of one of our classes."""
        for content in self.heard(cell, "comm_open"):
            if name in content["data"].get("state", {}).get("_anywidget_id", ""):
                return content["comm_id"]
        raise AssertionError(f"no {name} among {self.heard(cell, 'comm_open')}")

    def say(self, comm, content):
        """Send a custom message, as a page that knows no subshells does."""
        session = self._client.session
        data = {"method": "custom", "content": content}
        message = session.msg("comm_msg", {"comm_id": comm, "data": data})
        self._client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def until(self, comm, wanted, timeout=20):
        """Wait for a message of a comm that satisfies a condition, whoever's message it answers."""
        for message in kernels.received(self._client, timeout):
            content = message["content"]
            if message["msg_type"] == "comm_msg" and content["comm_id"] == comm:
                data = content["data"]
                found = wanted(data.get("content") or data.get("state") or {})
                if found:
                    return found
        raise AssertionError("not seen")


@pytest.fixture
def comms(kernel):
    return Comms(kernel)


def summaries(comms, cell):
    comm = comms.opened(cell, "JobWidget")
    first = [
        c["data"]["state"]["summary"]
        for c in comms.heard(cell, "comm_open")
        if c["comm_id"] == comm
    ]
    later = [
        c["data"]["state"]["summary"]
        for c in comms.heard(cell)
        if c["comm_id"] == comm and "summary" in c["data"].get("state", {})
    ]
    return first + later


def test_the_widget_moves_and_the_document_does_not(kernel, comms):
    cell = kernel.run(STEPS)
    seen = summaries(comms, cell)
    assert len(seen) > 3
    steps = [g["row"]["progress"]["step"] for g in seen if g["row"]["progress"]]
    assert steps == sorted(steps) and len(set(steps)) > 3
    printed = {text for g in seen for source, _, text in g["tail"] if source == 0}
    assert len(printed & {f"at {n}" for n in range(30)}) > 5, printed  # a summary has five at most
    assert any(
        g["spark"]["name"] == "loss" and len(g["spark"]["points"]) > 3 for g in seen if g["spark"]
    )
    assert any(g["awaited"] for g in seen) and all(len(g["tail"]) <= 5 for g in seen)
    # The document: announced, submitted, with its widget, ended.
    cards = [data for _, data in cell.cards()]
    assert len(cards) <= 4 and cards[0][JOB] == {"key": None}
    assert any(WIDGET in data for data in cards[1:-1])
    last = cards[-1]
    assert WIDGET not in last, "it would be dead in the saved notebook"
    assert last[JOB]["key"] == "steps" and last[JOB]["printed"] is True
    assert last[JOB]["last"]["row"]["state"] == "Succeeded"
    assert last[JOB]["last"]["spark"]["points"][-1] == [30, 1 / 30]
    assert "<svg" in last["text/html"] and "Succeeded" in last["text/plain"]
    json.dumps(last)


@pytest.mark.parametrize(("action", "error"), [("cancel", "JobFailed"), ("detach", "JobDetached")])
def test_a_button_works_while_the_cell_waits(kernel, comms, action, error):
    cell = kernel.start(LONG.format(action))
    cell.until_text(WIDGET)
    queued = kernel.client.execute("after = 1", store_history=False)
    comms.say(comms.opened(cell, "JobWidget"), {"op": "act", "action": action})
    cell.finish(10)
    assert cell.reply["ename"] == error
    # What was queued behind the cell is not run, as ever when a cell fails.
    reply = kernel.client.get_shell_msg(timeout=10)
    assert reply["parent_header"]["msg_id"] == queued and reply["content"]["status"] == "aborted"
    active = kernel.value(f"__import__('jupyter_jax_trainer').job({action!r}).active")
    kernel.run(f"__import__('jupyter_jax_trainer').job({action!r}).cancel()")
    # A job that goes on keeps its view; that of one that has ended would be dead in the notebook.
    assert (active == "True") == (WIDGET in cell.card) == (action == "detach")


def test_what_else_comes_while_a_cell_waits_is_done_afterwards_in_order(kernel, comms):
    cell = kernel.start("%%jaxtrain\nimport time\ntime.sleep(1.5)")
    cell.until_text(WIDGET)
    wanted = [
        kernel.client.execute(f"order = {before}", store_history=False)
        for before in ("[1]", "[*order, 2]", "[*order, 3]")
    ]
    cell.finish()
    assert cell.reply["status"] == "ok"
    replies = [kernel.client.get_shell_msg(timeout=10) for _ in wanted]
    assert [r["parent_header"]["msg_id"] for r in replies] == wanted
    assert kernel.value("order") == "[1, 2, 3]"


def test_what_can_t_be_done_is_said(kernel, comms):
    cell = kernel.run("job = __import__('jupyter_jax_trainer').job('steps')\nview = job.widget()")
    comm = comms.opened(cell, "JobWidget")
    comms.say(comm, {"op": "act", "action": "suspend"})
    said = comms.until(comm, lambda content: content if content.get("kind") == "error" else None)
    assert "can't be suspended now" in said["message"]
    for wrong in ("_state", "delete", None):
        comms.say(comm, {"op": "act", "action": wrong})
        said = comms.until(
            comm, lambda content: content if content.get("kind") == "error" else None
        )
        assert "Unknown action" in said["message"]


def test_a_job_at_the_end_of_a_cell_is_its_view(kernel, comms):
    cell = kernel.run("__import__('jupyter_jax_trainer').job('steps')")
    data = cell.outputs[-1]["data"]
    assert data[JOB]["last"]["row"]["name"] == "steps" and "printed" not in data[JOB]
    assert "<svg" in data["text/html"] and data["text/plain"] == "<Job steps: Succeeded>"


def test_detached_cells_show_the_view_too(kernel, comms):
    cell = kernel.run("%%jaxtrain alone --detach\nimport time\ntime.sleep(60)")
    assert cell.card[JOB]["key"] == "alone" and WIDGET in cell.card
    assert "%jaxtrain attach alone" in cell.text
    comm = comms.opened(cell, "JobWidget")
    comms.say(comm, {"op": "act", "action": "cancel"})
    comms.until(
        comm, lambda state: state.get("summary", {}).get("row", {}).get("state") == "Cancelled"
    )


def test_the_panel_asks_and_hears_as_a_page_does(kernel, comms):
    cell = kernel.run("from jupyter_jax_trainer import panel\np = panel()\np")
    assert WIDGET in cell.outputs[-1]["data"]
    comm = comms.opened(cell, "Panel")
    states = [content["data"].get("state", {}) for content in comms.heard(cell, "comm_open")]
    assert [state["patience"] for state in states if "patience" in state] == [5.0]

    def ask(number, method, path, body=None):
        comms.say(comm, {"page": "a", "ask": number, "method": method, "path": path, "body": body})
        return comms.until(comm, lambda c: c if c.get("answer") == number else None)

    answer = ask(1, "GET", "jobs")
    assert answer["status"] == 200 and "steps" in [row["key"] for row in answer["body"]["jobs"]]
    assert ask(2, "GET", "runtimes?place=local")["body"]["runtimes"]
    assert (
        ask(3, "POST", "line/read", {"source": "%%jaxtrain -n 3\n1"})["body"]["values"]["nodes"]
        == 3
    )
    assert ask(4, "GET", "jobs/none")["status"] == 404
    assert ask(5, "GET", "nothing")["status"] == 404
    assert ask(6, "POST", "line/read", [1])["status"] == 400
    answer = ask(7, "POST", "next-cell", {"source": "%%jaxtrain"})
    assert answer["body"]["when"] == say.INSERTED_LATER()

    comms.say(comm, {"page": "a", "say": {"op": "open", "id": 1, "topic": "log", "key": "steps"}})
    comms.until(comm, lambda c: any(m.get("length") == 30 for m in c.get("hear", [])))
    comms.say(comm, {"page": "b", "say": {"op": "open", "id": 1, "topic": "jobs"}})
    comms.until(comm, lambda c: c["page"] == "b" and c["hear"][0]["all"] if "hear" in c else None)
    comms.say(comm, {"page": "a", "end": True})
    kernel.run(
        "import threading, time\nfor _ in range(100):\n"
        "    pages = [t for t in threading.enumerate() if t.name == 'jaxtrain page']\n"
        "    if len(pages) == 1: break\n    time.sleep(0.1)\nassert len(pages) == 1\np.close()"
    )
    reply = kernel.run("1")  # the line came with the reply to the cell that ran next
    assert reply.reply["status"] == "ok"


def test_views_of_the_panel_that_never_said_goodbye_make_room(kernel, comms):
    comm = comms.opened(
        kernel.run("from jupyter_jax_trainer import panel\np = panel()\np"), "Panel"
    )
    for number in range(40):
        comms.say(comm, {"page": f"view {number}", "say": {"op": "open", "id": 1, "topic": "jobs"}})
        comms.until(
            comm, lambda c, page=f"view {number}": c["page"] == page if "hear" in c else None
        )
    kernel.run(
        "import threading, time\nfor _ in range(100):\n"
        "    pages = [t for t in threading.enumerate() if t.name == 'jaxtrain page']\n"
        "    if len(pages) == 32: break\n    time.sleep(0.1)\nassert len(pages) == 32, pages\np.close()"
    )
