"""A page of JupyterLab, with the verbs that tests need."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Locator, expect
from playwright.sync_api import Error as PlaywrightError

from ui.labs import ROOT, Lab

# What JupyterLab and Notebook say themselves; anything else is ours, or is news.
KNOWN = [
    # Notebook 7.6, while it loads its shortcuts, with and without this extension.
    r"reading 'schema'\)\s+at \S+notebook_core",
    # JupyterLab, when a widget of a busy kernel moves before a page that was just loaded knows it.
    r"Comm not found for comm id",
    # anywidget, of a model that was closed before it was loaded, or took two seconds; it shows it all the same.
    r"\[anywidget\] Failed to initialize model",
]

LOAD = "%load_ext jupyter_jax_trainer"


def unfold(part: Locator, title: str) -> None:
    """Open a section of a job's page.

    A page that is laid out just now may take it from under the mouse: then it is clicked again.
    """
    button = part.get_by_role("button", name=title, exact=True)
    for _ in range(5):
        button.click()
        with contextlib.suppress(AssertionError):
            expect(button).to_have_attribute("aria-expanded", "true", timeout=5_000)
            return
    raise AssertionError(f"{title} does not open")


# From now on take down what is commanded.
RAN = """() => {
    const { commands } = window.jupyterapp;
    if (!window.__ran) {
        commands.commandExecuted.connect((_, { id, args }) => {
            window.__ran.push(commands.label(id, args));
        });
    }
    window.__ran = [];
}"""


class LabPage:
    """A tab of the browser with JupyterLab in it.

    Attributes
    ----------
    errors
        What was said on the console as an error, and what was raised and not caught.
    dialogs
        What the page asked in a dialog of the browser; log text must never manage that.
    """

    def __init__(self, context: BrowserContext, lab: Lab, port: int | None = None) -> None:
        self.page = context.new_page()
        self.server = lab
        self.port = port
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self._allowed: list[str] = list(KNOWN)
        self.page.set_default_timeout(20_000)
        self.page.on("console", self._on_console)
        self.page.on(
            "pageerror", lambda error: self.errors.append(f"raised: {error.stack or error}")
        )
        self.page.on("dialog", self._on_dialog)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} [{message.location.get('url', '')}]")

    def _on_dialog(self, dialog: Dialog) -> None:
        if dialog.type == "beforeunload":  # JupyterLab's own, of a document that is not saved
            dialog.accept()
        else:
            self.dialogs.append(dialog.message)
            dialog.dismiss()

    def allow(self, *patterns: str) -> None:
        """Let errors pass that what the test does to the page must cause."""
        self._allowed += patterns

    def check(self) -> None:
        """Fail when something went wrong in the page that nobody looked at."""
        wrong = [
            error for error in self.errors if not any(re.search(p, error) for p in self._allowed)
        ]
        assert not wrong, "errors in the page:\n" + "\n".join(wrong)
        assert not self.dialogs, f"the page opened dialogs: {self.dialogs}"

    @property
    def origin(self) -> str:
        """Of whom the browser takes the page to be."""
        address = urlsplit(self.server.page_url("", self.port))
        return f"{address.scheme}://{address.netloc}"

    # -- the page itself ----------------------------------------------------------------------

    def open(self, path: str = "lab?reset") -> None:
        """Load the page, and wait until JupyterLab stands."""
        self.page.goto(self.server.page_url(path, self.port))
        self.ready()

    def reload(self) -> None:
        self.page.reload()
        self.ready()

    def ready(self) -> None:
        self.page.wait_for_function("window.jupyterapp", timeout=60_000)
        self.evaluate("() => window.jupyterapp.restored.then(() => true)")

    def evaluate(self, script: str, value: Any = None) -> Any:
        return self.page.evaluate(script, value)

    def command(self, name: str, **args: Any) -> None:
        """Execute a command, and wait for it."""
        self.evaluate(
            "async ([name, args]) => { await window.jupyterapp.commands.execute(name, args); }",
            [name, args],
        )

    def palette(self, label: str) -> None:
        """Choose a command in the palette by the keyboard."""
        field = self.page.locator("#modal-command-palette input")
        found = self.page.locator(".lm-CommandPalette-item.lm-mod-active")
        # JupyterLab gives the focus back to the notebook when a cell has run, and so may close it;
        # keys would then go to the notebook, and a palette that is gone is no sign that it was used.
        for _ in range(4):
            if not field.is_visible():
                self.page.keyboard.press("ControlOrMeta+Shift+C")
            with contextlib.suppress(AssertionError, PlaywrightError):
                field.fill(label, timeout=3000)
                expect(found).to_contain_text(label, timeout=3000)
                self.evaluate(RAN)
                field.press("Enter", timeout=3000)
                self.page.wait_for_function(
                    "label => window.__ran.some(each => each.includes(label))",
                    arg=label,
                    timeout=3000,
                )
                break
        else:
            raise AssertionError(f"the palette does not give {label!r}")
        expect(field).to_be_hidden()

    def theme(self, name: str) -> None:
        """Switch the theme, to `JupyterLab Light` for one."""
        # JupyterLab can't bear another theme while its splash stands: of its start, or of this one.
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_selector(f"body[data-jp-theme-name='{name}']", state="attached")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def side_bar(self, width: int) -> None:
        """Make the left side bar so wide, past the least width that Lab gives it."""
        self.evaluate(
            """async width => {
                const { documentElement } = document;
                documentElement.style.setProperty('--jp-sidebar-min-width', '150px');
                const { _hsplitPanel: split, _leftHandler: left } = window.jupyterapp.shell;
                left.stackedPanel.fit();
                for (let frame = 0; frame < 3; frame++) {
                    await new Promise(requestAnimationFrame);
                }
                const all = split.node.clientWidth;
                split.setRelativeSizes([width, all - width, 0]);
            }""",
            width,
        )
        self.page.wait_for_function(
            "width => Math.abs(document.querySelector('#jp-left-stack').clientWidth - width) < 20",
            arg=width,
        )

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def tab_to(self, target: Locator, most: int = 60) -> None:
        """Press Tab until the focus is there."""
        for _ in range(most):
            if target.evaluate("element => element === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not come to {target}; it is at {self.focus()}")

    def focus(self) -> str:
        return str(self.evaluate("() => document.activeElement.outerHTML.slice(0, 200)"))

    # -- notebooks ----------------------------------------------------------------------------

    def notebook(self, name: str, *cells: str) -> None:
        """Make a notebook, open it, and wait for its kernel."""
        write_notebook(self.server.root / f"{name}.ipynb", *cells)
        self.command("docmanager:open", path=f"{name}.ipynb")
        self._is_in_front(f"{name}.ipynb")
        self.kernel_is("idle")

    def _is_in_front(self, path: str) -> None:
        """Wait until a notebook is the current one; JupyterLab may leave the focus elsewhere."""
        self.page.wait_for_function(
            """path => {
                const { shell } = window.jupyterapp;
                const found = [...shell.widgets('main')].find(one => one.context?.path === path);
                if (found && shell.currentWidget !== found) {
                    shell.activateById(found.id);
                }
                return found && shell.currentWidget === found;
            }""",
            arg=path,
            timeout=60_000,
        )

    def kernel_is(self, status: str) -> None:
        self.page.wait_for_function(
            """status => {
                const session = window.jupyterapp.shell.currentWidget?.sessionContext;
                return session?.session?.kernel?.status === status;
            }""",
            arg=status,
            timeout=60_000,
        )

    def restart_kernel(self) -> None:
        """Restart the kernel of the notebook in front."""
        self.allow("Could not restore the debugger state")  # JupyterLab's own, when it is too quick
        self.page.get_by_role("button", name="Restart the kernel", exact=True).click()
        self.page.get_by_role("button", name="Confirm Kernel Restart").click()
        self.kernel_is("idle")

    def cell(self, number: int) -> Locator:
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell").nth(number)

    def source(self, number: int) -> str:
        return str(
            self.evaluate(
                """number => window.jupyterapp.shell.currentWidget.content.widgets[number]
                    .model.sharedModel.getSource()""",
                number,
            )
        )

    def run(self, number: int) -> None:
        """Run a cell as most people do."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def has_run(self, number: int) -> None:
        """Wait until a cell has been run to its end."""
        prompt = self.cell(number).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=60_000)

    # -- ours ---------------------------------------------------------------------------------

    @property
    def jobs(self) -> Locator:
        return self.page.locator("#jaxtrain-panel")

    @property
    def picker(self) -> Locator:
        return self.page.locator("#jaxtrain-runtimes")

    def row(self, key: str) -> Locator:
        return self.jobs.locator(f".jaxtrain-row[data-key='{key}']")

    def job(self, key: str) -> Locator:
        return self.page.locator(f"[id='jaxtrain-job-{key}']")

    def log(self, key: str) -> LogPane:
        return LogPane(self, self.page.locator(f"[id='jaxtrain-log-{key}']"))

    def axe(self, selector: str) -> list[str]:
        """Return what is against the rules of accessibility within an element."""
        if not self.evaluate("() => 'axe' in window"):
            self.page.add_script_tag(
                path=ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
            )
        found = self.evaluate(
            "selector => window.axe.run(selector, { resultTypes: ['violations'] })", selector
        )
        return [
            f"{each['id']}: {node['html'][:160]} | {node['failureSummary'][:300]}"
            for each in found["violations"]
            for node in each["nodes"]
        ]


class LogPane:
    """The log viewer of a job."""

    def __init__(self, lab: LabPage, node: Locator) -> None:
        self._lab = lab
        self.node = node
        self.list = node.locator(".jaxtrain-log-list")
        self.rows = node.locator(".jaxtrain-log-row")
        self.status = node.locator(".jaxtrain-log-status")

    def last_is(self, text: str, seconds: float = 30) -> None:
        """Wait until the viewer shows this as its last line."""
        expect(self.rows.last).to_contain_text(text, timeout=seconds * 1000)

    def lines(self) -> list[str]:
        """Read all lines, from the first one to the last one, as somebody who scrolls does."""
        found: dict[int, str] = self._lab.evaluate(
            """async list => {
                const found = {};
                const frame = () => new Promise(requestAnimationFrame);
                const take = () => {
                    const rows = [...list.querySelectorAll('[data-index]')];
                    const texts = rows.map(row => [
                        row.dataset.index,
                        row.querySelector('.jaxtrain-log-text').textContent
                    ]);
                    const first = Math.floor(list.scrollTop / rows[0]?.offsetHeight) + 1;
                    const drawn = Number(rows[0]?.getAttribute('aria-posinset')) === first;
                    if (!drawn || texts.some(([, text]) => text === '…')) {
                        return false; // the lines for this place are on their way
                    }
                    texts.forEach(([index, text]) => { found[index] = text; });
                    return true;
                };
                list.focus();
                // The intent is what lets go of following, not a scroll event alone.
                list.dispatchEvent(new WheelEvent('wheel', { deltaY: -1 }));
                await frame();
                await frame();
                for (let at = 0; ; at += list.clientHeight - 36) {
                    const end = list.scrollHeight - list.clientHeight;
                    do {
                        list.scrollTop = at; // again: what is drawn meanwhile may put it back
                        await frame();
                    } while (Math.abs(list.scrollTop - Math.min(at, end)) > 1 || !take());
                    if (at >= end) {
                        return found;
                    }
                }
            }""",
            self.list.element_handle(),
        )
        numbers = sorted(int(number) for number in found)
        missing = set(range(numbers[-1] + 1)) - set(numbers)
        assert not missing, f"lines are missing in the viewer: {sorted(missing)}"
        return [found[str(number)] for number in numbers]  # type: ignore[index]


def write_notebook(path: Path, *cells: str) -> None:
    """Write a notebook with code cells."""
    path.write_text(
        json.dumps(
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "execution_count": None,
                        "id": f"cell-{number}",
                        "metadata": {},
                        "outputs": [],
                        "source": text,
                    }
                    for number, text in enumerate(cells)
                ],
                "metadata": {
                    "kernelspec": {
                        "display_name": "Python 3",
                        "language": "python",
                        "name": "python3",
                    }
                },
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        )
    )
