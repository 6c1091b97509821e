"""What a page looks like, as the browser has worked it out."""

from __future__ import annotations

from ui.pages import LabPage

LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"

SHIFTS = """() => {
    window.__shifts = [];
    new PerformanceObserver(list => {
        for (const entry of list.getEntries()) {
            for (const { node, previousRect: a, currentRect: b } of entry.sources ?? []) {
                const element = node?.nodeType === 1 ? node : node?.parentElement;
                if (element?.closest('.jaxtrain')) {
                    window.__shifts.push([element.className || element.outerHTML.slice(0, 100),
                        entry.value, [a.x, a.y, b.x, b.y].map(Math.round).join(' ')].join(' | '));
                }
            }
        }
    }).observe({ type: 'layout-shift' });
}"""


def watch_shifts(lab: LabPage) -> None:
    """From now on take down what of ours jumps."""
    lab.evaluate("() => new Promise(done => setTimeout(done, 600))")  # input excuses shifts
    lab.evaluate(SHIFTS)


def nothing_jumped(lab: LabPage, part: str) -> None:
    """Fail when something of ours has jumped since; `part` is one that would be seen to."""
    frames = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    lab.evaluate(frames)
    shifts = lab.evaluate("() => window.__shifts")
    assert not shifts, "\n".join(shifts)
    # The observer sees what does jump.
    lab.evaluate(
        """part => {
            const more = document.createElement('div');
            more.style.height = '90px';
            document.querySelector(part).prepend(more);
        }""",
        part,
    )
    lab.page.wait_for_function("() => window.__shifts.length > 0")


def colours(lab: LabPage, selector: str) -> list[float]:
    """Give background and text colour of an element as the browser has worked them out."""
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
