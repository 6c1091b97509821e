"""What a page looks like, as the browser has worked it out."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator

from ui.pages import LabPage

LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
HIGH_CONTRAST = "JupyterLab Dark High Contrast"

RUNS = """import os, time
from jupyter_jax_trainer import report
for step in range({steps}):
    if os.path.exists({end!r}):
        break
    report(step=step, total=100_000, loss=1 / (step + 1), accuracy=1 - 1 / (step + 1))
    print(f"step {{step}} of \\x1b[31mmany\\x1b[0m")
    time.sleep(0.02)
"""

SHIFTS = """() => {
    window.__shifts = [];
    new PerformanceObserver(list => {
        for (const entry of list.getEntries()) {
            for (const { node, previousRect: a, currentRect: b } of entry.sources ?? []) {
                const element = node?.nodeType === 1 ? node : node?.parentElement;
                const placed = element?.closest('.jp-StatusBar-Item');  // by JupyterLab, after its own
                if (element?.closest('.jaxtrain') && !placed) {
                    const name = element.className || element.outerHTML.slice(0, 100);
                    const way = [a.x, a.y, b.x, b.y].map(Math.round).join(' ');
                    window.__shifts.push({ at: entry.startTime, said: `${name} | ${way}` });
                }
            }
        }
    }).observe({ type: 'layout-shift' });
}"""


def runs(end: Path | str, steps: int = 100_000) -> str:
    """Return a cell that trains until a file is there, or for so many steps."""
    return RUNS.format(end=str(end), steps=steps)


def watch_shifts(lab: LabPage) -> None:
    """From now on take down what of ours jumps."""
    lab.evaluate("() => new Promise(done => setTimeout(done, 600))")  # input excuses shifts
    lab.evaluate(SHIFTS)


def reload_watching_shifts(lab: LabPage) -> None:
    """Load the page again, and take down what of ours jumps from its very begin."""
    lab.page.add_init_script(f"({SHIFTS})()")
    lab.reload()


def nothing_jumped(lab: LabPage, part: str) -> None:
    """Fail when something of ours has jumped since; `part` is one that is seen, and jumps then."""
    now = lab.evaluate(
        """async part => {
            const frame = () => new Promise(requestAnimationFrame);
            await frame();
            await frame();
            const now = performance.now();
            await frame();
            const more = document.createElement('div');
            more.style.height = '90px';
            document.querySelector(part).prepend(more);
            return now;
        }""",
        part,
    )
    # The observer sees what does jump, and has told by then of all that did before.
    lab.page.wait_for_function("now => window.__shifts.some(({ at }) => at >= now)", arg=now)
    shifts = lab.evaluate("() => window.__shifts")
    wrong = [shift["said"] for shift in shifts if shift["at"] < now]
    assert not wrong, "\n".join(wrong)


def beyond(view: Locator) -> list[str]:
    """Return what one can use, or has to read, of a view and does not lie within it."""
    found: list[str] = view.evaluate(
        """view => {
            const { left, right } = view.getBoundingClientRect();
            const seen = [...view.querySelectorAll('button, input, select, [role=status], .jaxtrain-name')];
            return seen.filter(one => {
                const box = one.getBoundingClientRect();
                return one.checkVisibility() && !one.closest('.jaxtrain-unseen, [hidden]')
                    && (box.right > right + 1 || box.left < left - 1);
            }).map(one => one.outerHTML);
        }"""
    )
    return found


def colours(lab: LabPage, selector: str) -> list[float]:
    """Return background and text colour of an element as the browser has worked them out."""
    found: list[float] = lab.evaluate(
        """selector => {
            const style = getComputedStyle(document.querySelector(selector));
            return [style.backgroundColor, style.color].map(colour => {
                const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
                return parts.reduce((sum, part) => sum + part, 0) / 3;
            });
        }""",
        selector,
    )
    return found
