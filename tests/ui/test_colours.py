"""What a program prints in colours and styles, as the browser draws it, in light and dark."""

from __future__ import annotations

from harness import submit
from made_jobs import make_job
from playwright.sync_api import expect

from jupyter_jax_trainer.options.spec import JobSpec
from ui.looks import DARK, LIGHT

NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
NAMED = {
    **{name: f"{30 + number}" for number, name in enumerate(NAMES)},
    **{f"bright {name}": f"{90 + number}" for number, name in enumerate(NAMES)},
}
BEHIND = {
    **{f"on {name}": f"{40 + number}" for number, name in enumerate(NAMES)},
    **{f"on bright {name}": f"{100 + number}" for number, name in enumerate(NAMES)},
}
PAIRS = {
    f"{front} on {name}": f"{NAMED[front]};{40 + number}"
    for front in ("black", "white", "bright white")
    for number, name in enumerate(NAMES)
}
STYLES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "strikethrough": "9",
    "bold, underlined and green": "1;4;32",
    "reversed": "7",
    "reversed red": "31;7",
}
# Readable or not: these a program has chosen itself, and has.
EXACT = {
    "exact": ("38;2;12;34;56;48;2;250;240;230", [12, 34, 56], [250, 240, 230]),
    "orange of 256": ("38;5;208;48;5;16", [255, 135, 0], [0, 0, 0]),
    "grey of 256": ("38;5;244;48;5;255", [128, 128, 128], [238, 238, 238]),
}
READABLE = {"plain": "", **NAMED, **BEHIND, **PAIRS, **STYLES}
CODES = {**READABLE, **{name: code for name, (code, *_) in EXACT.items()}}
MAIN = {"red": 0, "green": 1, "blue": 2}

# What is seen of parts of a list: colours as pixels, in whatever notation the browser gives them.
SEEN = """(list, what) => {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const context = canvas.getContext('2d', { willReadFrequently: true });
    const paint = (colour, opacity) => {
        context.globalAlpha = opacity;
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    };
    return Object.fromEntries([...list.querySelectorAll(what)].map(text => {
        const around = [];
        for (let part = text.querySelector('span') ?? text; part; part = part.parentElement) {
            around.unshift(getComputedStyle(part));
        }
        const style = around.at(-1);
        const behind = around.map(each => paint(each.backgroundColor, each.opacity)).at(-1);
        return [text.textContent, {
            behind,
            front: paint(style.color, style.opacity),
            weight: style.fontWeight,
            style: style.fontStyle,
            line: style.textDecorationLine,
        }];
    }));
}"""


def luminance(colour: list[int]) -> float:
    parts = [part / 255 for part in colour]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(seen) -> float:
    """Return the contrast of a text by WCAG's measure, in which 4.5 is enough to read it."""
    low, high = sorted(luminance(seen[part]) for part in ("front", "behind"))
    return (high + 0.05) / (low + 0.05)


def test_colours_and_styles(open_page):
    lab = open_page(viewport={"width": 1200, "height": 1700})
    lines = "\n".join(f"\x1b[{code}m{name}\x1b[0m" for name, code in CODES.items())
    job = submit(f"print({lines!r})", line="-n 1").wait(60)
    lab.command("jaxtrain:open-log", key=job.name)
    log = lab.log(job.name)
    expect(log.rows).to_have_count(len(CODES))
    for theme, dark in ((DARK, True), (LIGHT, False)):
        lab.theme(theme)
        seen = log.list.evaluate(SEEN, ".jaxtrain-log-text")
        assert list(seen) == list(CODES)
        plain = seen["plain"]
        assert max(plain["behind"]) < 60 if dark else min(plain["behind"]) > 240

        found = {name: round(contrast(seen[name]), 2) for name in READABLE}
        poor = {name: number for name, number in found.items() if number < 4.5}
        assert not poor, f"{theme}: {poor}"
        assert found["dim"] < found["plain"]

        assert len({tuple(seen[name]["front"]) for name in ("plain", *NAMED)}) == 17
        assert len({tuple(seen[name]["behind"]) for name in ("plain", *list(BEHIND)[:8])}) == 9
        for name, main in MAIN.items():
            for part in ("front", "behind"):
                shown = seen[f"on {name}" if part == "behind" else name][part]
                assert shown.index(max(shown)) == main, f"{theme}: {name} is {shown}"
        for name, (_, front, behind) in EXACT.items():
            assert (seen[name]["front"], seen[name]["behind"]) == (front, behind)

        bold = seen["bold, underlined and green"]
        assert (plain["weight"], seen["bold"]["weight"], bold["weight"]) == ("400", "700", "700")
        assert {each["line"] for each in (seen["underline"], bold)} == {"underline"}
        assert bold["front"] == seen["green"]["front"]
        assert seen["italic"]["style"] == "italic"
        assert seen["strikethrough"]["line"] == "line-through"
        assert seen["reversed"]["behind"] != plain["behind"]
        assert seen["reversed red"]["behind"] == seen["on red"]["behind"]


def test_the_names_of_ranks(open_page):
    lab = open_page()
    make_job("ranks", spec=JobSpec(nodes=9), logs={rank: ["one line"] for rank in range(9)})
    lab.command("jaxtrain:open-log", key="ranks")
    log = lab.log("ranks")
    expect(log.rows).to_have_count(9)
    for theme in (DARK, LIGHT):
        lab.theme(theme)
        seen = log.list.evaluate(SEEN, ".jaxtrain-rank")
        poor = {
            name: number for name, one in seen.items() if (number := round(contrast(one), 2)) < 4.5
        }
        assert len(seen) == 9 and not poor, f"{theme}: {poor}"
        assert len({tuple(one["front"]) for one in seen.values()}) == 7
