"""What the tests that make the pictures in docs/images have in common."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, Page

from ui.conftest import SHOTS, failed
from ui.labs import ROOT, Lab
from ui.pages import LabPage

if TYPE_CHECKING:
    from PIL import Image

IMAGES = ROOT / "docs" / "images"
COMPARED = ROOT / "build" / "pictures"  # before and after, side by side
NOISE = 0.01  # of the pixels: times and numbers of steps, which differ each time
MOST = 150_000  # bytes of a picture
WIDE, NARROW = {"width": 1360, "height": 820}, {"width": 600, "height": 820}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

DATA = """from sklearn.datasets import load_digits
images, labels = load_digits(return_X_y=True)
images, labels = (images[:1796] / 16).astype("float32"), labels[:1796]
images.shape, labels.shape"""

STEP = """import jax, jax.numpy as jnp, time
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jupyter_jax_trainer import report

@jax.jit
def train_step(weights, x, y):
    def loss(w):
        return -jnp.mean(jax.nn.log_softmax(x @ w)[jnp.arange(len(y)), y])
    value, slope = jax.value_and_grad(loss)(weights)
    return weights - {rate} * slope, value

rows = NamedSharding(Mesh(jax.devices(), "rows"), P("rows"))
rank, ranks = jax.process_index(), jax.process_count()
x, y = (
    jax.make_array_from_process_local_data(rows, data[rank::ranks]) for data in (images, labels)
)
weights = jnp.zeros((64, 10))
for step in range(1, {steps} + 1):
    weights, loss = train_step(weights, x, y)
    time.sleep({pause})
    if step % {every} == 0:
        hits = (x @ weights).argmax(1) == y
        report(step=step, total={steps}, loss=float(loss), accuracy=float(hits.mean()))
        here = hits.addressable_data(0).mean()
        print(f"step {{step}} loss {{loss:.4f}} accuracy {{here:.3f}} here")
"""


def code(steps: int, pause: float, every: int, rate: float = 0.2) -> str:
    return STEP.format(steps=steps, pause=pause, every=every, rate=rate)


def data() -> dict[str, object]:
    """Return the variables of a notebook that has the data."""
    values: dict[str, object] = {"__name__": "__main__"}
    exec(DATA, values)
    return values


@pytest.fixture
def pictures(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Give a folder for pictures; where it was asked for, those that have changed are kept."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    yield folder
    if os.environ.get("JAXTRAIN_PICTURES") == "1" and not failed(request):
        said = request.config.stash.setdefault(SHOTS, {})
        for path in folder.glob("*.png"):
            said[path.name] = keep(path)


def keep(path: Path) -> str:
    """Put a picture into docs/images unless it shows what is there; return what is new about it."""
    known = IMAGES / path.name
    if not known.exists():
        shutil.copy(path, known)
        return "new"
    share = changed(known, path)
    if share <= NOISE:
        return "as before"
    COMPARED.mkdir(parents=True, exist_ok=True)
    beside(known, path).save(COMPARED / path.name)
    shutil.copy(path, known)
    return f"changed: {share:.0%} of the pixels"


def changed(before: Path, after: Path) -> float:
    """Return the share of pixels in which two pictures differ; 1 when their sizes do."""
    from PIL import Image, ImageChops

    with Image.open(before) as old, Image.open(after) as new:
        if old.size != new.size:
            return 1.0
        apart = ImageChops.difference(old.convert("RGB"), new.convert("RGB")).convert("L")
    return sum(apart.histogram()[16:]) / (apart.width * apart.height)  # colours are reduced


def beside(before: Path, after: Path) -> Image.Image:
    """Return one picture of two, the older one on the left."""
    from PIL import Image

    with Image.open(before) as old, Image.open(after) as new:
        both = Image.new("RGB", (old.width + new.width, max(old.height, new.height)))
        both.paste(old.convert("RGB"), (0, 0))
        both.paste(new.convert("RGB"), (old.width, 0))
    return both


def save(target: Locator, name: str, folder: Path) -> None:
    """Take a picture, in as few bytes as it needs."""
    target.page.mouse.move(0, 0)
    path = folder / f"{name}.png"
    target.screenshot(path=path, animations="disabled")
    shrink(path)


def save_part(page: Page, clip: dict[str, float], name: str, folder: Path) -> None:
    """Take a picture of a part of the page; the pointer stays where it is."""
    path = folder / f"{name}.png"
    page.screenshot(path=path, animations="disabled", clip=clip)  # type: ignore[arg-type]
    shrink(path)


def save_page(page: Page, name: str, folder: Path) -> None:
    """Take a picture of the whole page."""
    page.mouse.move(0, 0)
    size = page.viewport_size
    assert size
    save_part(page, {"x": 0, "y": 0, **size}, name, folder)


@contextlib.contextmanager
def cluster(lab: Lab, name: str, address: str, namespace: str) -> Iterator[None]:
    """Let the server have a kubeconfig with one cluster, to which no way leads."""
    lab.kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": name, "cluster": {"server": address}}],
                "contexts": [
                    {
                        "name": name,
                        "context": {"cluster": name, "user": "me", "namespace": namespace},
                    }
                ],
                "users": [{"name": "me", "user": {}}],
                "current-context": name,
            }
        )
    )
    try:
        yield
    finally:
        lab.kubeconfig.unlink()


def in_all(lab: LabPage, fit: Callable[[str], None], take: Callable[[str], None]) -> None:
    """Take a picture in both themes, wide and narrow; `fit` makes it so."""
    for theme, title in THEMES.items():
        lab.theme(title)
        lab.page.wait_for_timeout(300)  # plots take the colours of a theme a little later
        for kind in ("wide", "narrow"):
            fit(kind)
            lab.evaluate(
                "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
            take(f"{theme}-{kind}")


def shrink(path: Path) -> None:
    """Make a picture as small as it can be, and look that it is one."""
    from PIL import Image

    with Image.open(path) as image:
        # So the colours of dots and bars stay what they are, rare as they are.
        how = Image.Quantize.MAXCOVERAGE
        few = image.convert("RGB").quantize(256, method=how, kmeans=2, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    assert 2_000 < path.stat().st_size < MOST, f"{path.name}: {path.stat().st_size} bytes"
