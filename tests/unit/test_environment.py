"""Which packages go along with a job: what it imports and its image lacks, and nothing that breaks."""

from __future__ import annotations

import ast
import hashlib
import importlib
import io
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sites
from apiscene import RUNTIMES, runtime, submission_scene
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import Site

from jupyter_jax_trainer import api, timeouts
from jupyter_jax_trainer.backends.kubernetes.api.objects import TrainingRuntime
from jupyter_jax_trainer.backends.kubernetes.submit import images, manifests, runtimes, wheels
from jupyter_jax_trainer.bundle import write_bundle
from jupyter_jax_trainer.capture import Capture, capture_cell, environment, packing
from jupyter_jax_trainer.capture.environment import Image
from jupyter_jax_trainer.capture.imports import Imports
from jupyter_jax_trainer.capture.packing import Platform
from jupyter_jax_trainer.capture.room import Room
from jupyter_jax_trainer.errors import CaptureError
from jupyter_jax_trainer.jobdir.describe import things_text
from jupyter_jax_trainer.options.spec import parse_cell_line

ROOT = Path(__file__).parents[2]
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
CP = HERE.replace(".", "")
SO = "stuff.abi3.so"


@pytest.fixture
def site(tmp_path):
    with sites.on_path(tmp_path / "lib" / "site-packages") as found:
        yield found


def image(python: str | None = HERE, **distributions: str) -> Image:
    listed = {"jax": "0.10.2", "numpy": "2.0"} | {
        name.replace("_", "-"): version for name, version in distributions.items()
    }
    platform = Platform(python=python, machine="x86_64", glibc=(2, 36))
    return Image(distributions=listed, platform=platform)


def gather(code: str, there: Image | None = None, **more: Any) -> environment.Packed:
    return environment.gather(imports(code), there or image(), **more)


def imports(code: str) -> Imports:
    found = Imports()
    found.add_code(ast.parse(code))
    return found


def named(packed: environment.Packed) -> list[str]:
    return [f"{wheel.name} {wheel.version}" for wheel in packed.wheels]


def members(wheel: environment.Wheel) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(wheel.data)) as file:
        return set(file.namelist())


REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def refused(code: str, there: Image | None = None, **more: Any) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        gather(code, there, **more)
    return caught.value


def in_pod(packed: environment.Packed, program: str, folder: Path) -> Any:
    """Install the wheels as a pod does, in a Python that has no packages, and run a program there."""
    files = {wheel.file: wheel.data for wheel in packed.wheels}
    digest = write_bundle(folder / "bundle.pyz", "x", Capture(""), wheels=files)
    code = (
        "import json, pathlib, sys\n"
        "from jupyter_jax_trainer.worker.pod import packages\n"
        "from jupyter_jax_trainer.worker.serialization.archive import Archive\n"
        "packages.add(Archive(sys.argv[1], sys.argv[2]), pathlib.Path(sys.argv[3]))\n"
        f"{program}\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, folder / "bundle.pyz", digest, folder],
        env={"PYTHONPATH": str(folder / "bundle.pyz")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- what is imported


def test_what_a_cell_surely_imports_and_what_it_may():
    found = imports(
        "import a.b, c as d\nfrom e import f, g\nfrom h import *\n"
        "def one():\n    import i\n"
        "try:\n    import j\nexcept ImportError:\n    import k\n"
        "try:\n    import l\nexcept KeyError:\n    pass\nfinally:\n    import m\n"
        "if here:\n    import n\n"
        "if TYPE_CHECKING:\n    import o\nelse:\n    import p\n"
        "with x:\n    import q\n"
        "class C:\n    import r\n"
        "try:\n    import s\nexcept (OSError, builtins.ModuleNotFoundError):\n    pass\n"
        "try:\n    import t\nexcept:\n    pass\n"
    )
    assert found.certain == {"a.b", "c", "e", "e.f", "e.g", "h", "l", "m", "q", "r"}
    assert found.possible == {"i", "j", "k", "n", "p", "s", "t"}


def test_of_own_modules_that_counts_which_is_reached():
    found = imports("from mine.sub import thing\ndef f():\n    import late")
    found.follow(
        {
            "mine/__init__.py": b"import a",
            "mine/sub.py": b"from . import other\nfrom .deep.er import x\ndef g():\n    import b",
            "mine/other.py": b"import c",
            "mine/deep/__init__.py": b"from ..other import y\nimport d",
            "mine/deep/er.py": b"import e\nif __name__ == '__main__':\n    import nowhere",
            "mine/tests.py": b"import pytest",
            "mine/broken.py": b"import (",
            "late.py": b"import f, mine.broken",
        }
    )
    assert {"a", "c", "d", "e"} <= found.certain and {"b", "f"} <= found.possible
    assert not {"pytest", "nowhere"} & (found.certain | found.possible)
    assert not {"b", "f"} & found.certain


def test_functions_and_objects_of_the_notebook_say_what_they_import(site):
    site.install("stuff", files={"stuff/__init__.py": "class Thing: pass\n", "stuff/deep.py": ""})
    stuff = importlib.import_module("stuff")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def late():\n    from some.thing import word\n    return word, stuff", namespace)
    namespace |= {"thing": stuff.Thing(), "stuff": stuff}
    found = capture_cell("late()", namespace).imports
    assert {"some.thing", "some.thing.word"} <= found.possible
    assert "stuff" in found.certain and "stuff" not in found.objects
    found = capture_cell("print(thing)", namespace).imports
    assert "stuff" in found.certain and "stuff" in found.objects


# ---- which go along


def test_what_the_image_lacks_goes_along_with_what_that_needs(site):
    site.install(
        "stuff",
        "1.2",
        "helper>=1",
        "there>=2",
        "jax>=0.1",
        'old-only; python_version < "3"',
        'elsewhere; sys_platform == "win32"',
        'on-linux; sys_platform == "linux" and platform_machine == "x86_64"',
        'extra-only; extra == "more"',
        "not-installed-anywhere",
    )
    for name in ("helper", "old-only", "elsewhere", "extra-only", "unused"):
        site.install(name)
    site.install("on-linux", "1.0", "fancy[color]")
    site.install("fancy", "1.0", "base", 'paint; extra == "color"')
    site.install("base")
    site.install("paint", "1.0", "stuff")  # a circle
    site.install("there", "3.0")
    packed = gather("import stuff, json, jax", image(there="2.5"))
    assert named(packed)[0] == "stuff 1.2"
    assert set(named(packed)[1:]) == {
        f"{name} 1.0" for name in ("helper", "on-linux", "fancy", "base", "paint")
    }
    # Of a package that the image has, an extra is followed.
    packed = gather("import on_linux", image(fancy="1.0"))
    assert set(named(packed)) == {
        f"{name} 1.0" for name in ("on-linux", "paint", "helper", "on-linux")
    } | {"stuff 1.2", "there 3.0"}


def test_markers_are_those_of_the_pods(site):
    site.install("stuff", "1.0", 'backport; python_version < "3.10"')
    site.install("backport")
    assert named(gather("import stuff")) == ["stuff 1.0"]
    assert named(gather("import stuff", image("3.9"))) == ["stuff 1.0", "backport 1.0"]


def test_what_the_image_has_stays_unless_objects_of_it_are_sent(site):
    site.install("stuff", "2.0")
    for version, sent in (("2.0", []), ("2.0.0", []), ("1.0", ["stuff 2.0"])):
        there = image(stuff=version)
        assert named(gather("import stuff", there)) == []
        found = imports("import stuff")
        found.objects = {"stuff"}
        assert named(environment.gather(found, there)) == sent


@pytest.mark.parametrize("name", ["jax", "jaxlib", "numpy", "scipy", "ml-dtypes", "opt-einsum"])
def test_jax_and_what_it_needs_come_from_the_image(site, name):
    module = name.replace("-", "_")
    site.install(name, "9.9")
    site.install("stuff", "1.0", f"{name}>=1")
    found = imports("import stuff")
    found.certain.add(module)
    found.objects = {module}
    there = image(**{module: "1.5"})
    packed = environment.gather(found, there)
    assert named(packed) == ["stuff 1.0"]
    notes = {name} - {"opt-einsum"}  # of which no objects are sent
    assert [note.id for note in packed.notes] == ["environment.versions-differ"] * len(notes)
    assert environment.gather(imports(f"import {module}, stuff"), there).notes == []


def test_packages_that_only_resemble_those_of_jax_are_sent(site):
    for name in ("jax-stuff", "jaxstuff"):
        site.install(name)
    assert len(gather("import jax_stuff, jaxstuff").wheels) == 2


def test_what_the_worker_brings_is_not_sent(site):
    code = "from IPython.display import display, HTML\nimport cloudpickle, jupyter_jax_trainer"
    assert gather(code).wheels == []


def test_what_somebody_has_named_for_the_job_is_not_packed(site):
    site.install("stuff", "1.0", "helper<2")
    site.install("helper")
    given = wheels.named(["helper-1.5-py3-none-any.whl", "other>=2", "./some.whl"])
    assert given == {"helper": "1.5", "other": ""}
    assert named(gather("import stuff", given=given)) == ["stuff 1.0"]
    assert refused("import stuff", given={"helper": "3.0"}).id == "environment.needs-another"


def test_editable_ones_travel_as_own_modules_and_those_of_repositories_always(site, tmp_path):
    own = tmp_path / "project"
    own.mkdir()
    (own / "mine.py").write_text("import stuff\n")
    sys.path.append(str(own))
    try:
        url = json.dumps({"url": f"file://{own}", "dir_info": {"editable": True}})
        site.install("mine", files={"_mine.pth": f"{own}\n"}, meta={"direct_url.json": url})
        vcs = json.dumps({"url": "https://x/y", "vcs_info": {"vcs": "git", "commit_id": "1"}})
        site.install("stuff", "1.0", "mine", meta={"direct_url.json": vcs})
        captured = capture_cell("import mine", {})
        assert set(captured.modules) == {"mine.py"}
        # Its number says little of what is in it: another commit has the same.
        captured.imports.follow(captured.modules)
        packed = environment.gather(captured.imports, image(stuff="1.0"), own=["mine"])
        assert named(packed) == ["stuff 1.0", "mine 1.0"]
        inside = members(packed.wheels[1])
        assert inside == {f"mine-1.0.dist-info/{file}" for file in ("METADATA", "WHEEL", "RECORD")}
        found = environment.gather(captured.imports, image(stuff="1.0"), own=["other"])
        assert named(found) == ["stuff 1.0"]
        assert not {"direct_url.json", "INSTALLER"} & {
            Path(n).name for n in members(packed.wheels[0])
        }
    finally:
        sys.path.remove(str(own))


# ---- how they travel


def test_all_of_a_package_arrives_and_is_found(site, tmp_path):
    site.install(
        "stuff",
        "1.2",
        files={
            "stuff/__init__.py": "word = 'hello'\n",
            "stuff/data/table, one.csv": "1,2\n",
            "stuff/__pycache__/x.pyc": b"",
            "../../bin/stuff": "#!python",
            "stuff_more.py": "more = 1\n",
            "stuff.pth": "import os; os.abort()\n",
        },
        entry="[stuff.plugins]\nfirst = stuff:word\n",
        meta={"INSTALLER": "pip", "licenses/LICENSE": "free"},
    )
    packed = gather("import stuff")
    assert gather("import stuff").wheels[0].data == packed.wheels[0].data, (
        "the same bytes each time"
    )
    inside = members(packed.wheels[0])
    assert not any("bin" in name or name.endswith((".pyc", ".pth", "INSTALLER")) for name in inside)
    (note,) = packed.notes
    assert note.id == "environment.pth-left-out" and "stuff.pth" in note
    found = in_pod(
        packed,
        "import stuff, stuff_more\n"
        "from importlib import metadata, resources\n"
        "(entry,) = metadata.entry_points(group='stuff.plugins')\n"
        "table = resources.files('stuff') / 'data' / 'table, one.csv'\n"
        "files = sorted(str(f) for f in metadata.files('stuff') if f.locate().exists())\n"
        "print(json.dumps([metadata.version('stuff'), entry.load(), table.read_text(), files]))",
        tmp_path,
    )
    assert found == ["1.2", "hello", "1,2\n", sorted(inside)]


def test_byte_code_goes_along_where_the_same_python_runs_it(site, tmp_path):
    """It takes a second and a half of each pod to compile Flax and what that needs."""
    files = {f"stuff/{name}.py": f"name = {name!r}\n" for name in ("kept", "changed", "older")}
    site.install("stuff", files={"stuff/__init__.py": "", **files})
    names = {name: site.path / f"stuff/{name}.py" for name in ("__init__", "kept", "changed")}
    for path in names.values():
        py_compile.compile(str(path), doraise=True)
    names["changed"].write_text("name = 'other one'\n")
    packed = gather("import stuff.kept")
    compiled = {name for name in members(packed.wheels[0]) if name.endswith(".pyc")}
    tag = sys.implementation.cache_tag
    assert compiled == {f"stuff/__pycache__/{name}.{tag}.pyc" for name in ("__init__", "kept")}
    program = (
        "import sys; from importlib import machinery as m\n"
        "read = []\n"
        "class Loader(m.SourceFileLoader):\n"
        "    def source_to_code(self, data, path, **_):\n"
        "        read.append(path.rpartition('/')[2]); return super().source_to_code(data, path)\n"
        "sys.path_hooks.insert(0, m.FileFinder.path_hook((Loader, ['.py'])))\n"
        "sys.path_importer_cache.clear()\n"
        "import stuff.kept, stuff.changed\n"
        "print(json.dumps([stuff.changed.name, read]))"
    )
    assert in_pod(packed, program, tmp_path) == ["other one", ["changed.py"]]
    other = gather("import stuff.kept", image(python="3.99"))
    assert not any(name.endswith(".pyc") for name in members(other.wheels[0]))


def test_of_a_namespace_the_parts_go_that_are_named(site, tmp_path):
    for part in ("one", "two", "three"):
        site.install(f"space-{part}", files={f"space/{part}/__init__.py": f"word = '{part}'\n"})
    site.install("space-deep", files={"space/deep/er/leaf.py": "word = 'leaf'\n"})
    packed = gather("import space.one.x\nfrom space import two\nfrom space.deep.er import leaf")
    assert named(packed) == ["space-deep 1.0", "space-one 1.0", "space-two 1.0"]
    program = "import space.one, space.two, space.deep.er.leaf as leaf\n"
    program += "print(json.dumps([space.one.word, space.two.word, leaf.word]))"
    assert in_pod(packed, program, tmp_path) == ["one", "two", "leaf"]
    assert gather("import space").wheels == []


def test_files_that_are_named_outside_of_the_folder_stay(site, tmp_path):
    (tmp_path / "secret").write_text("x")
    site.install("stuff")
    record = site.path / "stuff-1.0.dist-info" / "RECORD"
    record.write_text(f"{record.read_text()}../../secret,,\n{tmp_path}/secret,,\ngone.py,,\n")
    assert not any(
        "secret" in name or "gone" in name for name in members(gather("import stuff").wheels[0])
    )


@pytest.mark.parametrize("folder", ["stuff-1.0.dist-info", "stuff-1.0.egg-info"])
def test_without_a_record_nobody_knows_the_files(site, folder):
    """As Debian leaves it."""
    site.install("stuff", record=False)
    (site.path / "stuff-1.0.dist-info").rename(site.path / folder)
    if folder.endswith(".egg-info"):
        (site.path / folder / "METADATA").rename(site.path / folder / "PKG-INFO")
    error = refused("import stuff")
    assert error.id == "environment.cannot-pack" and "RECORD" in error.message
    assert "--package stuff==1.0" in error.hint and "--no-packages" in error.hint
    assert gather("import stuff", image(stuff="1.0")).wheels == []
    # Where it may not be imported at all, the job starts.
    (note,) = gather("def f():\n    import stuff").notes
    assert note.id == "environment.not-sent" and "RECORD" in note


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        (f"cp{CP}-cp{CP}-manylinux_2_17_x86_64.manylinux2014_x86_64", True),
        (f"cp{CP}-cp{CP}-manylinux_2_36_x86_64", True),
        ("cp37-abi3-manylinux2014_x86_64", True),
        ("py3-none-manylinux1_x86_64", True),
        (f"cp{CP}-cp{CP}-manylinux_2_37_x86_64", False),
        (f"cp{CP}-cp{CP}-manylinux_2_17_aarch64", False),
        (f"cp{CP}-cp{CP}-musllinux_1_1_x86_64", False),
        (f"cp{CP}-cp{CP}-linux_x86_64", False),
        (f"cp{CP}-cp{CP}-macosx_11_0_arm64", False),
        (f"cp{CP}t-cp{CP}t-manylinux_2_17_x86_64", False),
        ("cp39-cp39-manylinux_2_17_x86_64", False),
        ("cp399-abi3-manylinux2014_x86_64", False),
        ("py3-none-any", False),
        (None, False),
    ],
)
def test_compiled_ones_go_where_they_run(site, tag, fits):
    site.install("stuff", files={"stuff/__init__.py": "", f"stuff/{SO}": b"\x7fELF"}, tag=tag)
    if fits:
        (wheel,) = gather("import stuff").wheels
        assert wheel.file.endswith("_x86_64.whl") and f"stuff/{SO}" in members(wheel)
    else:
        assert refused("import stuff").id == "environment.cannot-pack"


def test_compiled_ones_need_a_known_python_and_none_of_condas_goes(site):
    files: dict[str, str | bytes] = {"stuff/__init__.py": "", f"stuff/{SO}": b"\x7fELF"}
    tag = f"cp{CP}-cp{CP}-manylinux_2_17_x86_64"
    site.install("stuff", files=files, tag=tag)
    assert refused("import stuff", image(None)).id == "environment.cannot-pack"
    assert refused("import stuff", image("3.99")).id == "environment.cannot-pack"
    site.install("stuff", files=files, tag=tag, meta={"INSTALLER": "conda\n"})
    assert "conda" in refused("import stuff").message


def test_one_for_another_python_is_refused(site):
    site.install("stuff", more="Requires-Python: >=3.10")
    assert named(gather("import stuff")) == ["stuff 1.0"]
    assert "3.9" in refused("import stuff", image("3.9")).message


# ---- what is remembered from one submission to the next


@pytest.fixture
def reads(site, monkeypatch):
    """Names of the files of the folder that are read, RECORD for one."""
    names: list[str] = []
    original = Path.read_text

    def read(path: Path, *arguments: Any, **more: Any) -> str:
        if path.is_relative_to(site.path):
            names.append(path.name)
        return original(path, *arguments, **more)

    monkeypatch.setattr(Path, "read_text", read)
    return names


def test_records_and_metadata_are_read_once_as_long_as_they_are_the_same(site, reads, monkeypatch):
    site.install("stuff", "1.0", "helper", files={"other.py": "", "stuff_b.py": ""})
    for name in ("helper", *(f"a{number}" for number in range(20))):
        site.install(name)
    first = gather("import other, stuff_b")
    assert named(first) == ["stuff 1.0", "helper 1.0"]
    assert reads.count("RECORD") > 20 and reads.count("METADATA") >= 2
    reads.clear()
    monkeypatch.setattr(packing, "_compressed", lambda members: pytest.fail("packed anew"))
    assert [w.data for w in gather("import other, stuff_b").wheels] == [
        w.data for w in first.wheels
    ]
    assert not {"RECORD", "METADATA"} & set(reads)


def test_what_is_installed_anew_is_read_anew(site):
    site.install("stuff", "1.0", files={"stuff.py": "x = 1"})
    assert "stuff.py" in members(gather("import stuff").wheels[0])
    (site.path / "stuff.py").write_text("x = 2")
    with zipfile.ZipFile(io.BytesIO(gather("import stuff").wheels[0].data)) as file:
        assert file.read("stuff.py") == b"x = 2", "a changed file is sent as it is now"
    shutil.rmtree(site.path / "stuff-1.0.dist-info")
    site.install("stuff", "1.0", "helper", files={"stuff.py": "x = 1", "stuff_b.py": ""})
    site.install("helper")
    packed = gather("import stuff, stuff_b")
    assert named(packed) == ["stuff 1.0", "helper 1.0"]
    assert "stuff_b.py" in members(packed.wheels[0])
    shutil.rmtree(site.path / "stuff-1.0.dist-info")
    site.install("another", files={"stuff_b.py": ""})
    assert named(gather("import stuff_b")) == ["another 1.0"]


def test_packed_wheels_are_kept_within_bounds(site, monkeypatch):
    monkeypatch.setattr(packing, "_PACKED", {})
    for name in ("one", "two", "three"):
        site.install(name)
    sizes = [len(gather(f"import {name}").wheels[0].data) for name in ("one", "two", "three")]
    assert len(packing._PACKED) == 3
    monkeypatch.setattr(packing, "_MOST_KEPT", sum(sizes) - 1)
    gather("import one")  # used last
    kept = [wheel.data for _, wheel in packing._PACKED.values()]
    assert gather("import one").wheels[0].data in kept
    assert len(packing._PACKED) == 2
    monkeypatch.setattr(packing, "_MOST_KEPT", 0)
    assert len(gather("import one").wheels) == 1 and packing._PACKED == {}


# ---- what comes from an index

ELSEWHERE = f"cp{CP}-cp{CP}-macosx_11_0_arm64"
FITS = f"cp{CP}-cp{CP}-manylinux_2_28_x86_64"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Have a folder be the only index of pip; the function that is returned puts a wheel there."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    def offer(name: str, version: str = "1.0", tag: str = FITS, more: str = "") -> Path:
        info = f"{name}-{version}.dist-info"
        path = folder / f"{name}-{version}-{tag}.whl"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(f"{name}/__init__.py", f"word = '{name} {version} of the index'\n")
            meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
            file.writestr(f"{info}/METADATA", meta)
            file.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            file.writestr(f"{info}/RECORD", "")
        return path

    return offer


def compiled(site: Site, name: str = "stuff", tag: str = ELSEWHERE, **more: Any) -> None:
    site.install(name, files={f"{name}/__init__.py": "", f"{name}/{SO}": b"\x7f"}, tag=tag, **more)


def test_what_cannot_be_packed_comes_from_the_index(site, index, tmp_path):
    compiled(site)
    site.install("plain", "1.0", "silent")
    site.install("silent", record=False)
    compiled(site, "built", FITS, meta={"INSTALLER": "conda", "direct_url.json": OF_FEEDSTOCK})
    index("stuff", "2.0")
    index("stuff", more="Requires-Dist: nowhere\n")
    index("stuff", tag=f"cp{CP}-cp{CP}-manylinux_2_37_x86_64")
    index("silent", tag="py3-none-any")
    index("built", tag=f"cp{CP}-cp{CP}-manylinux2014_x86_64")
    packed = gather("import built, stuff, plain", index=wheels.Index())
    assert named(packed) == ["built 1.0", "plain 1.0", "stuff 1.0", "silent 1.0"]
    assert [wheel.is_fetched for wheel in packed.wheels] == [True, False, True, True]
    (note,) = packed.notes
    assert note.id == "environment.from-index" and "built 1.0, stuff 1.0 and silent 1.0" in note
    program = "import built, silent, stuff\n"
    program += "print(json.dumps([built.word, silent.word, stuff.word]))"
    assert in_pod(packed, program, tmp_path) == [
        f"{name} 1.0 of the index" for name in ("built", "silent", "stuff")
    ]


def test_an_index_is_asked_for_the_image_and_for_nothing_that_it_has(site, index):
    compiled(site)
    index("stuff", tag="cp39-cp39-manylinux_2_17_x86_64")
    index("stuff", tag=f"cp{CP}-cp{CP}-manylinux_2_17_x86_64")
    (wheel,) = gather("import stuff", image("3.9"), index=wheels.Index()).wheels
    assert "cp39" in wheel.file
    assert gather("import stuff", image(stuff="1.0"), index=refuse).wheels == []


def refuse(pins: Any, platform: Any) -> Any:
    raise AssertionError(f"asked for {pins}")


@pytest.mark.slow
def test_what_the_index_does_not_have_is_refused_before_anything_starts(site, index):
    compiled(site)
    index("stuff", "2.0")
    index("stuff", tag=f"cp{CP}-cp{CP}-manylinux_2_37_x86_64")
    error = refused("import stuff", index=wheels.Index())
    assert error.id == "environment.not-in-index"
    assert "macosx" in error.message and "stuff==1.0" in error.message
    assert "--package stuff," in str(error.hint)
    # Where it may not be imported at all, the job starts.
    (note,) = gather("def f():\n    import stuff", index=wheels.Index()).notes
    assert note.id == "environment.not-sent"
    index("stuff")
    packed = gather("def f():\n    import stuff", index=wheels.Index())
    assert named(packed) == ["stuff 1.0"]
    assert refused("import stuff", index=wheels.Index(), room=Room(10)).id.endswith("too-large")


OF_FEEDSTOCK = json.dumps({"url": "file:///home/conda/feedstock_root/x", "dir_info": {}})


@pytest.mark.parametrize(
    "source",
    [
        {"url": "file:///home/me/stuff", "dir_info": {}},
        {"url": "https://x/y", "vcs_info": {"vcs": "git", "commit_id": "1"}},
        {"url": "file:///home/me/stuff.whl", "archive_info": {}},
    ],
)
def test_of_what_is_from_elsewhere_an_index_has_another_one(site, source):
    compiled(site, meta={"direct_url.json": json.dumps(source)})
    assert "--package stuff==1.0" in str(refused("import stuff", index=refuse).hint)


def test_an_index_is_not_asked_for_what_another_python_needs(site):
    site.install("stuff", more="Requires-Python: >=3.10", record=False)
    assert "3.9" in refused("import stuff", image("3.9"), index=refuse).message


def test_what_conda_has_built_is_not_the_users_own(site):
    site.install("stuff", meta={"INSTALLER": "conda", "direct_url.json": OF_FEEDSTOCK})
    assert gather("import stuff", image(stuff="1.0")).wheels == []


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"stuff.whl": b""},
        {f"other-1.0-{FITS}.whl": b""},
        {f"stuff-1.0-{ELSEWHERE}.whl": b""},
    ],
)
def test_another_file_than_what_was_asked_for_does_not_go(site, answer):
    compiled(site)
    assert refused("import stuff", index=lambda *_: answer).id == "environment.not-in-index"


def test_an_index_that_does_not_answer_costs_its_time_once(site, monkeypatch):
    for name in ("one", "two", "three"):
        compiled(site, name)
    monkeypatch.setattr(wheels, "_PIP", [sys.executable, "-c", "import time; time.sleep(30)"])
    monkeypatch.setenv(timeouts.PIP.variable, "0.3")
    began = time.monotonic()
    code = "def f():\n    import one, two, three"
    notes = gather(code, index=wheels.Index()).notes
    assert [note.id for note in notes] == ["environment.not-sent"] * 3
    assert time.monotonic() - began < 3


# ---- what must not break


def test_what_is_sent_fits_what_the_image_has(site):
    site.install("stuff", "1.0", "jax>=0.11")
    error = refused("import stuff", image(jax="0.9"))
    assert error.id == "environment.needs-another"
    assert "jax>=0.11" in error.message and "jax 0.9" in error.message
    assert named(gather("import stuff", image(jax="0.11.1"))) == ["stuff 1.0"]


def test_what_is_false_here_as_well_is_no_reason(site):
    site.install("stuff", "1.0", "broken>=2")
    site.install("broken", "1.0")
    assert named(gather("import stuff")) == ["stuff 1.0", "broken 1.0"]


def test_what_the_image_has_keeps_what_it_needs(site):
    site.install("stuff", "2.0")
    site.install("user", "1.0", "stuff<2")
    found = imports("import stuff")
    found.objects = {"stuff"}
    there = image(stuff="1.0", user="1.0")
    with pytest.raises(CaptureError) as caught:
        environment.gather(found, there)
    assert caught.value.id == "environment.breaks" and "user 1.0" in caught.value.message
    # Needed in another version than the image's, it is sent as well, and as carefully.
    site.install("other", "1.0", "stuff>=2")
    assert refused("import other", there).id == "environment.breaks"
    assert named(gather("import other", image(stuff="1.0"))) == ["other 1.0", "stuff 2.0"]
    # What may be imported stops nothing.
    (note,) = gather("def f():\n    import other", there).notes
    assert note.id == "environment.not-sent"


def test_too_large_is_said_before_it_is_packed(site):
    site.install("stuff", "1.0", "helper", files={"stuff.py": "", "noise": bytes(5000)})
    site.install("helper")
    error = refused("import stuff", room=Room(100))
    assert error.id == "environment.too-large" and "stuff 1.0 (5.4 kB)" in error.message
    assert "--no-packages" in error.hint and "--store" in error.hint
    noise = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(100))
    site.install("dense", files={"dense.py": f"x = '{noise}'"})
    assert refused("import dense", room=Room(2000)).id == "environment.too-large"
    assert named(gather("import dense", room=Room(20_000))) == ["dense 1.0"]
    packed = gather("import helper\ndef f():\n    import dense", room=Room(2000))
    assert named(packed) == ["helper 1.0"] and [n.id for n in packed.notes] == [
        "environment.not-sent"
    ]


# ---- what is known of an image


@pytest.mark.parametrize("device", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("slim", [False, True])
def test_runtimes_say_what_their_images_install(device, slim):
    sys.path.insert(0, str(ROOT / "images"))
    try:
        packages = importlib.import_module("packages")
    finally:
        sys.path.pop(0)
    kind = {device: kind for kind, device in packages.DEVICES.items()}[device]
    there = packages.packages(kind, slim=slim)
    text = (ROOT / "runtimes" / device / f"jax-{device}.yaml").read_text()
    if slim:
        made = packages.annotated(packages.slimmed(text), there)
        text = (ROOT / "runtimes" / "slim" / device / f"jax-{device}-slim.yaml").read_text()
    else:
        made = packages.annotated(text, there)
    assert made == text, "make requirements"
    import yaml

    item = TrainingRuntime(yaml.safe_load(text))
    found = images.known(item, item.container.image)
    assert found is not None and found.distributions == there
    assert found.platform.glibc == (2, 36) and found.platform.python == "3.11"
    assert "3.12-slim-bookworm" in (ROOT / "images" / "Containerfile").read_text()


def test_runtimes_that_are_installed_keep_what_they_say_of_our_images(monkeypatch):
    def made(**options: Any) -> Image | None:
        item = manifests.manifest("cpu", **options)
        return images.known(item, item.container.image)

    monkeypatch.setattr(manifests, "_pinned", lambda folder: {})
    usual = made()
    assert usual is not None and usual.distributions["optax"]
    for options in ({"registry": "ghcr.io/team"}, {"python": "3.13"}, {"volume": "claim:/data"}):
        found = made(**options)
        assert found is not None and found.distributions == usual.distributions
    assert found.platform == usual.platform
    assert made(python="3.13").platform.python == "3.13"
    name = manifests.manifest("cpu").container.image
    monkeypatch.setattr(manifests, "_pinned", lambda folder: {name: f"ghcr.io/{name}@sha256:1"})
    assert made() == usual
    slim = made(slim=True, registry="ghcr.io/team")
    assert slim is not None and slim.distributions.items() < usual.distributions.items()
    item = manifests.manifest("cpu", image="mine/jax:1")
    assert images.known(item, "mine/jax:1") is None and item.annotations == {}


def test_what_the_guide_prints_of_an_image_can_be_read():
    page = (ROOT / "docs" / "guides" / "platform-engineer" / "runtimes.md").read_text()
    (program,) = re.findall(r"python3 -c '\n(.*?)'\)", page, re.DOTALL)
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    found = images.read(said.stdout)
    assert found is not None and "jax" in found[0] and found[1] > (2, 16)


def annotated(packages: Any, of: str = "jax:1") -> dict[str, Any]:
    body = runtime()
    said = packages if isinstance(packages, str) else json.dumps(packages)
    body["metadata"]["annotations"] = {images.PACKAGES: said, images.PACKAGES_OF: of}
    return body


FINE = {"glibc": "2.36", "distributions": {"Ml_Dtypes": "0.5", "jax": "0.10.2"}}


def test_what_a_runtime_says_counts_for_the_image_that_it_names():
    item = TrainingRuntime(annotated(FINE))
    found = images.known(item, "jax:1")
    assert found is not None and found.distributions == {"ml-dtypes": "0.5", "jax": "0.10.2"}
    assert found.platform.python is None
    for other in ("jax:2", "", None, "registry.example/jax:1"):
        assert images.known(item, other) is None
    assert images.known(TrainingRuntime(annotated(FINE, of="")), "") is None
    assert images.known(TrainingRuntime(runtime()), "jax:1") is None


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        '"x"',
        {},
        {"distributions": {"jax": "1"}},
        {**FINE, "glibc": "2.036"},
        {**FINE, "glibc": 2.36},
        {**FINE, "distributions": ["jax"]},
        {**FINE, "distributions": {}},
        {**FINE, "distributions": {"jax": 1}},
        {**FINE, "distributions": {"jax": None}},
        {**FINE, "distributions": {"jax": "new"}},
        {**FINE, "distributions": {"jax": "1" * 65}},
        {**FINE, "distributions": {"../jax": "1"}},
        {**FINE, "distributions": {"jax\n": "1"}},
        {**FINE, "distributions": {"": "1"}},
        {**FINE, "distributions": {f"a{n}": "1" for n in range(2001)}},
        {**FINE, "more": "x" * 70_000},
    ],
    ids=lambda said: str(said)[:30],
)
def test_what_is_wrong_counts_for_nothing(said):
    assert images.known(TrainingRuntime(annotated(said)), "jax:1") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["glibc", "distributions", "x"]), VALUES) | VALUES)
@settings(max_examples=100)
def test_whatever_is_said_is_read_or_passed_over(said):
    found = images.read(json.dumps(said))
    assert found is None or all(found[0].values())


# ---- a submission


@pytest.fixture
def scene(home, tmp_path, monkeypatch):
    with submission_scene(tmp_path, monkeypatch) as found:
        yield found


def submitted(line: str = "") -> tuple[Capture, str]:
    spec = parse_cell_line(f"fit --backend kubernetes --dry-run {line}")
    own, plan = api.prepare(spec)
    capture = capture_cell("import stuff", {})
    own.check_capture(capture, spec, plan)
    return capture, api.dry_run(spec, own, plan, capture)


def test_a_dry_run_and_the_card_show_what_goes_along(scene, site):
    site.install("stuff", "1.2", "helper")
    site.install("helper")
    scene.answers[RUNTIMES] = {"items": [annotated(FINE)]}
    capture, shown = submitted()
    assert [(one.name, one.kind, one.type) for one in capture.sent] == [
        ("stuff", "package", "1.2"),
        ("helper", "package", "1.0"),
    ]
    assert "# stuff  package  1.2  " in shown and "# helper  package  1.0  " in shown
    total = sum(one.size for one in capture.sent)
    text = things_text(
        [*api.sent_records(capture), {"name": "x", "kind": "value", "type": "int", "size": 9}]
    )
    assert (
        text.startswith("stuff 1.2 and 1 more (") and text.endswith(", x int 9 B") and total > 400
    )
    for line in ("--no-packages", "--image jax:2 --no-packages"):
        capture, shown = submitted(line)
        assert capture.sent == [] and "stuff" not in shown
        assert capture.offers is None


def test_what_does_not_fit_is_refused_before_anything_starts(scene, site, monkeypatch):
    site.install("stuff", files={"stuff.py": "", "noise": bytes(5000)})
    scene.answers[RUNTIMES] = {"items": [annotated(FINE)]}
    monkeypatch.setattr(
        "jupyter_jax_trainer.backends.kubernetes.submit.payload._IN_VOLUME", 127_000
    )
    assert submitted()[0].sent != [], "the channel takes it"
    scene.answers[REVIEW] = {"status": {"allowed": False}}
    with pytest.raises(CaptureError) as caught:
        submitted()
    assert caught.value.id == "environment.too-large"
    assert submitted("--store /some/where")[0].sent != []
    assert runtimes.PYTHON == HERE
