"""A cell with packages that the image lacks runs in pods as it does here."""

from __future__ import annotations

import base64
import hashlib
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from harness import text

from cluster import made_runtimes
from cluster.faults import PARTS, require_own
from cluster.jobs import SLIM, fails, run
from jupyter_jax_trainer.errors import CaptureError
from jupyter_jax_trainer.worker.pod.parcel import AWAITED_VARIABLE, WITHOUT_PACKAGES

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def install(site: Path, name: str, *requires: str, **files: str) -> None:
    """Install a distribution that no index has."""
    info = f"{name}-1.5.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    whole = {
        **{file.replace("__", "/", 1) + ".py": content for file, content in files.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[cluster.test]\n{name} = {name}:word\n",
    }
    rows = []
    for file, content in whole.items():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).decode()
        rows.append(f"{file},sha256={digest.rstrip('=')},{len(content)}\n")
    (site / info / "RECORD").write_text("".join(rows))


@pytest.fixture
def site(tmp_path, monkeypatch):
    found = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(found)
    install(found, "leaf", 'nowhere; sys_platform == "win32"', leaf="word = 'leaf'")
    install(
        found,
        "tree",
        "leaf>=1",
        "jax",
        tree____init__="import jax, leaf\nword = 'tree'\nclass Thing:\n    size = 3\n",
        tree__deep="word = 'deep'",
    )
    importlib.invalidate_caches()
    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] in ("leaf", "tree")]:
        del sys.modules[name]


CELL = """
import tree
from tree import deep
from importlib.metadata import entry_points, version
words = sorted(entry.load() for entry in entry_points(group="cluster.test"))
print(tree.leaf.word, deep.word, version("tree"), words, thing.size)
"""


def test_a_cell_runs_unchanged_with_packages_that_the_image_lacks(place, site):
    variables = {"__name__": "__main__", "thing": importlib.import_module("tree").Thing()}
    job = run(CELL, place, "-n 2", variables)
    assert text(job).splitlines() == ["leaf deep 1.5 ['leaf', 'tree'] 3"] * 2
    sent = {one["name"]: (one["kind"], one["type"]) for one in job.sent}
    assert sent["tree"] == sent["leaf"] == ("package", "1.5")


def test_an_image_of_which_nothing_is_known_gets_what_it_lacks(place, site, cluster):
    """Its runtime says nothing; it has optax, and neither of ours."""
    variables = {"__name__": "__main__", "thing": importlib.import_module("tree").Thing()}
    line = f"-n 2 --runtime jax-distributed --image {made_runtimes.image(cluster)}"
    job = run(f"import optax\n{CELL}", place, line, variables)
    said = text(job).splitlines()
    assert said.count("leaf deep 1.5 ['leaf', 'tree'] 3") == 2
    (installed,) = [one for one in said if one.startswith("jaxtrain: installed")]
    assert "tree 1.5" in installed and "leaf 1.5" in installed and "optax" not in installed
    assert {"tree", "leaf", "optax"} <= {one["name"] for one in job.sent}
    (site / "leaf-1.5.dist-info" / "RECORD").unlink()
    _, failure = fails("import tree", place, line)
    assert failure.error is not None and "leaf 1.5" in failure.error["message"]
    assert "--package leaf==1.5" in str(failure.hint)


def node_images(*words: str) -> str:
    """Run a command on the images that the node of our own cluster has."""
    code = "import sys, space, up; print(space.inside(*up.IMAGES, *sys.argv[1:]))"
    asked = [sys.executable, "-c", code, *words]
    return subprocess.check_output(asked, cwd=PARTS.parent, text=True)


@pytest.fixture
def by_digest(cluster):
    """Name the slim image by its digest, as a registry would; what has that name is known again."""
    require_own(cluster)
    image = f"{made_runtimes.image(cluster)}-slim"
    listed = node_images("list").splitlines()
    name, _, digest, *_ = next(line for line in listed if line.split()[0].endswith(image)).split()
    found = f"{name.rpartition(':')[0]}@{digest}"
    node_images("tag", "--force", name, found)
    yield found
    node_images("remove", found)


def test_what_an_image_has_is_known_once_a_rank_of_it_has_said_so(place, site, by_digest):
    line = f"--runtime jax-distributed --image {by_digest}"
    sent = []
    for _ in range(2):
        job = run("import optax, leaf; print(leaf.word)", place, line)
        sent.append({one["name"] for one in job.sent})
        assert text(job).splitlines()[-1] == "leaf"
    assert {"optax", "leaf"} <= sent[0] and sent[1] == {"leaf"}
    assert text(job) == "leaf", "nothing had to be chosen there"


def test_what_one_job_was_sent_is_on_the_volume_for_the_next(place, site, namespace, shared):
    line = f"-n 2 --volume {shared.claim}:{shared.path}"

    def awaited(number: int) -> list[str]:
        job = run("import leaf; print(leaf.word)", place, line)
        assert text(job).splitlines() == ["leaf"] * 2, number
        env = namespace.get("trainjob", job.name)["spec"]["trainer"]["env"]
        return [one["value"] for one in env if one["name"] == AWAITED_VARIABLE]

    assert awaited(1) == []
    (said,) = awaited(2)
    assert said.endswith(WITHOUT_PACKAGES)


def test_without_them_it_fails_with_what_to_do(place, site):
    _, failure = fails("import leaf", place, "--no-packages")
    assert failure.error is not None and failure.error["type"] == "ModuleNotFoundError"
    assert "--package leaf" in str(failure.hint)


def test_what_cannot_be_sent_is_refused_before_anything_starts(place, site, namespace, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (site / "leaf-1.5.dist-info" / "RECORD").unlink()
    with pytest.raises(CaptureError) as refused:
        run("import tree", place)
    assert refused.value.id == "environment.not-in-index" and "leaf 1.5" in refused.value.message
    assert not namespace.get("trainjobs")["items"]


MODEL = """
from flax import nnx
from tqdm.auto import tqdm
import jax.numpy as jnp
model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
for _ in tqdm(range(3)):
    shape = model(jnp.ones((1, 3))).shape
print(shape)
"""


@pytest.mark.parametrize(("image", "sent"), [("", set()), (SLIM, {"flax", "tqdm"})])
def test_flax_and_tqdm_run_unchanged_and_are_sent_where_the_image_lacks_them(place, image, sent):
    pytest.importorskip("flax")
    job = run(MODEL, place, image)
    assert "(1, 2)" in text(job)
    assert {"flax", "tqdm"} & {one["name"] for one in job.sent if one["kind"] == "package"} == sent


USED = """
import importlib
from importlib.metadata import distributions
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
names = "chex einops equinox flax.nnx grain IPython matplotlib.pyplot pandas safetensors tqdm optax orbax.checkpoint"
for name in names.split():
    importlib.import_module(name)
print("all imported")
there = {canonicalize_name(one.name): one.version for one in distributions()}
for one in distributions():
    for wanted in map(Requirement, one.requires or ()):
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            version = there.get(canonicalize_name(wanted.name))
            if version is None or not wanted.specifier.contains(version, prereleases=True):
                print(one.name, "wants", wanted, "and gets", version)
"""


def test_the_standard_image_has_what_notebooks_commonly_use_and_all_that_this_needs(place):
    said = text(run(USED, place, "--no-packages"))
    assert "all imported" in said and "wants" not in said
