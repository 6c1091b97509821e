"""Packages for an image of which nothing is known: they go along, and are used if it lacks them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sites
from apiscene import RUNTIMES, runtime, submission_scene
from podruns import start
from sites import Site

from jupyter_jax_trainer import api
from jupyter_jax_trainer.backends.kubernetes.logs import messages
from jupyter_jax_trainer.backends.kubernetes.submit import images, packagecache, runtimes
from jupyter_jax_trainer.bundle import write_bundle
from jupyter_jax_trainer.capture import Capture, capture_cell, offering
from jupyter_jax_trainer.capture.imports import Imports
from jupyter_jax_trainer.capture.offering import Offered
from jupyter_jax_trainer.capture.room import Room
from jupyter_jax_trainer.errors import CaptureError
from jupyter_jax_trainer.options.spec import JobSpec, parse_cell_line
from jupyter_jax_trainer.worker.pod.parcel import AWAITED_VARIABLE, WITHOUT_PACKAGES

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
CP = HERE.replace(".", "")
SO = "stuff.abi3.so"
DIGEST = "sha256:" + "ab" * 32
NAMED = f"registry.example/team/jax@{DIGEST}"


@pytest.fixture
def site(tmp_path):
    with sites.on_path(tmp_path / "lib" / "site-packages") as found:
        yield found


@pytest.fixture
def there(tmp_path):
    """What the image has."""
    found = Site(tmp_path / "image")
    found.install("jax", "0.10.2")
    return found


def offer(code: str, objects: tuple[str, ...] = (), **more: Any) -> Offered:
    found = Imports()
    found.add_code(ast.parse(code))
    found.objects |= set(objects)
    given: dict[str, str] = more.pop("given", {})
    room: Room = more.pop("room", Room())
    return offering.offer(found, images.unknown(HERE), given, room, **more)


def by_name(offered: Offered) -> dict[str, Any]:
    return {one["name"]: one for one in offered.offers}


def in_pod(offered: Offered, there: Site, folder: Path, program: str = "found = []") -> Any:
    """Choose and install as a pod does, in a Python that has the image's packages alone."""
    files = {wheel.file: wheel.data for wheel in offered.wheels}
    path = folder / "bundle.pyz"
    digest = write_bundle(path, "x", Capture("", offers=offered.offers), wheels=files)
    code = (
        "import json, pathlib, sys\n"
        "from jupyter_jax_trainer.worker.pod import offers, packages\n"
        "from jupyter_jax_trainer.worker.serialization.archive import Archive\n"
        "archive = Archive(sys.argv[1], sys.argv[2])\n"
        "try:\n"
        "    chosen, lines = offers.choose(archive)\n"
        "except offers.OfferError as error:\n"
        "    print(json.dumps([error.id, str(error), error.hint]))\n"
        "    sys.exit()\n"
        "packages.add(archive, pathlib.Path(sys.argv[3]), chosen)\n"
        f"{program}\n"
        "left = [name for name in sys.modules if name.startswith('packaging')]\n"
        "names = [file.split('-')[0] for file in chosen]\n"
        "print(json.dumps([names, lines, found, left]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, path, digest, folder],
        env={"PYTHONPATH": f"{path}:{there.path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def installed(offered: Offered, there: Site, folder: Path) -> set[str]:
    names, _, _, left = in_pod(offered, there, folder)
    assert left == [], "the cell gets the image's packaging, or none"
    return set(names)


# ---- what goes along


def test_what_is_imported_goes_along_with_what_it_needs_but_for_what_images_have(site):
    site.install("stuff", "1.2", "helper>=1", "jax>=0.1", "numpy", 'more; extra == "x"')
    for name in ("helper", "jax", "numpy", "maybe", "more"):
        site.install(name)
    found = offer("import stuff, jax, numpy, IPython\ndef f():\n    import maybe", ("stuff",))
    assert {name: (one["use"], one["replaces"]) for name, one in by_name(found).items()} == {
        "stuff": ("certain", "others"),
        "helper": ("needed", "none"),
        "maybe": ("possible", "none"),
    }
    assert by_name(found)["stuff"]["requires"][:2] == ["helper>=1", "jax>=0.1"]
    assert len(found.wheels) == 3 and found.notes == []


def test_what_cannot_go_is_listed_with_the_reason(site):
    files: dict[str, str | bytes] = {"stuff/__init__.py": "", f"stuff/{SO}": b"\x7f"}
    site.install("stuff", files=files, tag=f"cp{CP}-cp{CP}-macosx_11_0_arm64")
    site.install("plain", "1.0", "silent")
    site.install("silent", record=False)
    found = offer("import stuff, plain")
    assert {name: bool(one["file"]) for name, one in by_name(found).items()} == {
        "plain": True,
        "stuff": False,
        "silent": False,
    }
    assert "macosx" in by_name(found)["stuff"]["problem"]
    (note,) = found.notes
    assert note.id == "environment.not-offered" and "stuff 1.0" in note and "silent 1.0" in note


def test_what_is_large_stays_unless_all_is_asked_for(site, monkeypatch):
    monkeypatch.setattr(offering, "_MOST", 10_000)
    for name, size in (("large", 20_000), ("a_half", 6_000), ("b_half", 6_000)):
        site.install(name, files={f"{name}.py": "", f"{name}.bin": bytes(size)})
    code = "import a_half, b_half, large"
    files = {name: one["file"] for name, one in by_name(offer(code)).items()}
    assert files["a-half"] and not files["b-half"] and not files["large"]
    assert "--allow-large" in by_name(offer(code))["large"]["problem"]
    assert all(one["file"] for one in offer(code, large=True).offers)
    # What the Secrets don't take and no channel sends is no reason to refuse the job.
    found = offer(code, large=True, room=Room(300))
    assert [one["file"] for one in found.offers] == [None] * 3


def test_what_somebody_has_named_is_not_offered_and_has_to_fit(site):
    site.install("stuff", "1.0", "helper<2")
    site.install("helper")
    assert set(by_name(offer("import stuff", given={"helper": "1.5"}))) == {"stuff"}
    with pytest.raises(CaptureError) as caught:
        offer("import stuff", given={"helper": "3.0"})
    assert caught.value.id == "environment.needs-another"


def test_what_else_goes_along_with_offers_has_its_room(site, tmp_path):
    for number in range(100):
        needs = [f"a{other}>=1.0; python_version >= '3.8'" for other in range(number % 10)]
        site.install(f"a{number}", "1.0", *needs)
    offered = offer("\n".join(f"import a{number}" for number in range(100)))
    sizes = []
    for offers in (None, offered.offers):
        files = {wheel.file: wheel.data for wheel in offered.wheels}
        path = tmp_path / "bundle.pyz"
        write_bundle(path, "x", Capture("", offers=offers), wheels=files)
        sizes.append(path.stat().st_size)
    assert sizes[1] - sizes[0] < offering.BESIDES


# ---- what the worker installs


def test_what_the_image_lacks_is_installed_with_what_that_needs(site, there, tmp_path):
    site.install("stuff", "1.2", "helper>=1", "old>=2", "fine", 'never; python_version < "3"')
    site.install("unneeded", "1.0", "of_unneeded")
    for name, version in (("helper", "1.0"), ("old", "2.1"), ("fine", "1.0"), ("never", "1.0")):
        site.install(name, version)
    site.install("of_unneeded")
    there.install("unneeded", "0.5")
    there.install("old", "1.0")
    there.install("fine", "0.9")
    offered = offer("import stuff, unneeded")
    program = (
        "import fine, old, stuff, unneeded\nfrom importlib import metadata\n"
        "found = [one.word for one in (fine, old, stuff, unneeded)] + [metadata.version('old')]"
    )
    names, lines, found, left = in_pod(offered, there, tmp_path, program)
    assert set(names) == {"stuff", "helper", "old"}
    assert found == ["fine 0.9", "old 2.1", "stuff 1.2", "unneeded 0.5", "2.1"] and left == []
    (line,) = lines
    assert "stuff 1.2" in line and "helper 1.0" in line and "fine" not in line


def test_another_version_stays_unless_objects_of_it_are_sent(site, there, tmp_path):
    site.install("stuff", "2.0")
    there.install("stuff", "1.0")
    assert installed(offer("import stuff"), there, tmp_path) == set()
    assert installed(offer("import stuff", ("stuff",)), there, tmp_path) == {"stuff"}
    there.install("stuff", "2.0.0")
    (there.path / "stuff-1.0.dist-info" / "METADATA").unlink()
    assert installed(offer("import stuff", ("stuff",)), there, tmp_path) == set()


def test_what_is_from_a_repository_is_always_installed(site, there, tmp_path):
    vcs = json.dumps({"url": "https://x/y", "vcs_info": {"vcs": "git", "commit_id": "1"}})
    site.install("stuff", meta={"direct_url.json": vcs})
    there.install("stuff")
    assert installed(offer("import stuff"), there, tmp_path) == {"stuff"}


def test_what_could_not_be_sent_is_refused_where_the_image_lacks_it(site, there, tmp_path):
    site.install("stuff", "1.0", "silent")
    site.install("silent", "1.5", record=False)
    offered = offer("import stuff")
    kind, said, hint = in_pod(offered, there, tmp_path)
    assert kind == "worker.lacks-packages" and "silent 1.5" in said and "RECORD" in said
    assert "--package silent==1.5" in hint and "--no-packages" in hint
    there.install("silent", "1.0")
    assert installed(offered, there, tmp_path) == {"stuff"}
    # Objects of it may be readable in another version: nobody knows, and it is said.
    _, (line,), _, _ = in_pod(offer("import silent", ("silent",)), there, tmp_path)
    assert "silent 1.5" in line and "silent 1.0" in line


def test_what_may_be_imported_stops_nothing(site, there, tmp_path):
    site.install("silent", record=False)
    site.install("jax", "99", files={})
    site.install("stuff", "1.0", "jax>=99")
    site.install("fine")
    offered = offer("def f():\n    import fine, silent, stuff")
    names, lines, _, _ = in_pod(offered, there, tmp_path)
    assert names == ["fine"] and len(lines) == 3
    assert "silent" in lines[0] and "jax>=99" in lines[1]


def test_only_wheels_for_this_pod_are_installed(site, there, tmp_path):
    files: dict[str, str | bytes] = {"stuff/__init__.py": "", f"stuff/{SO}": b"\x7f"}
    site.install("stuff", files=files, tag=f"cp{CP}-cp{CP}-manylinux_2_98_x86_64")
    offered = offer("import stuff")
    assert by_name(offered)["stuff"]["file"]
    kind, said, _ = in_pod(offered, there, tmp_path)
    assert kind == "worker.lacks-packages" and "manylinux_2_98" in said
    there.install("stuff")
    assert installed(offered, there, tmp_path) == set()


def test_what_is_installed_fits_the_image_and_leaves_it_whole(site, there, tmp_path):
    site.install("jax", "0.12", files={})
    site.install("stuff", "1.0", "jax>=0.11")
    kind, said, hint = in_pod(offer("import stuff"), there, tmp_path)
    assert kind == "worker.needs-other" and "jax>=0.11" in said and "jax 0.10.2" in said
    assert "--no-packages" in hint
    site.install("other", "2.0")
    there.install("other", "1.0")
    there.install("user", "1.0", "other<2")
    kind, said, _ = in_pod(offer("import other", ("other",)), there, tmp_path)
    assert kind == "worker.breaks-other" and "user 1.0" in said
    assert installed(offer("import other"), there, tmp_path) == set()


def test_what_is_false_here_as_well_is_no_reason(site, there, tmp_path):
    site.install("stuff", "1.0", "broken>=2")
    site.install("broken", "1.0")
    assert installed(offer("import stuff"), there, tmp_path) == {"stuff", "broken"}
    site.install("jax", "0.10.2", files={})
    site.install("user", "1.0", "jax<0.10")
    assert installed(offer("import user"), there, tmp_path) == {"user"}


def test_extras_are_followed(site, there, tmp_path):
    site.install("stuff", "1.0", "fancy[color]")
    site.install("fancy", "1.0", 'paint; extra == "color"', 'other; extra == "more"')
    site.install("paint")
    site.install("other")
    there.install("fancy")
    assert installed(offer("import stuff"), there, tmp_path) == {"stuff", "paint"}


def test_wheels_that_somebody_has_named_count_as_there(site, there, tmp_path):
    site.install("stuff", "1.0", "helper>=2")
    site.install("helper", "2.0")
    offered = offer("import stuff", given={"helper": "2.0"})
    offered.wheels += offer("import helper").wheels
    there.install("helper", "1.0")
    names, _, found, _ = in_pod(offered, there, tmp_path, "import helper\nfound = helper.word")
    assert names == ["stuff"] and found == "helper 2.0"


# ---- a job, and what is remembered of it


def test_a_job_says_once_what_its_image_has_and_runs_with_what_it_lacked(site, tmp_path):
    site.install("stuff", "1.2")
    capture = capture_cell("import stuff\nprint(stuff.word)", {})
    offered = offer("import stuff")
    capture.offers = offered.offers
    path = tmp_path / "job.pyz"
    files = {wheel.file: wheel.data for wheel in offered.wheels}
    digest = write_bundle(path, "podded", capture, wheels=files)
    done = start(tmp_path, path, digest)
    assert done.end() == 0, done.text
    assert "stuff 1.2\n" in done.text and done.kinds().count("image") == 1
    assert done.kinds().index("image") < done.kinds().index("joined")
    said = messages.read(done.get("image"))
    assert isinstance(said, messages.ImageSeen)
    assert said.contents.python == HERE and said.contents.machine == images.machine()
    assert "stuff" not in said.contents.distributions
    capture.offers = None
    done = start(tmp_path, path, write_bundle(path, "podded", capture, wheels=files))
    assert done.end() == 0 and not done.has("image")


CONTENTS = images.Contents(
    python=HERE, glibc="2.36", machine=images.machine(), distributions={"jax": "0.10.2", "a": "1"}
)


def test_an_image_is_remembered_by_its_digest(home):
    assert images.remembered(NAMED) is None
    images.remember(f"docker-pullable://{NAMED}", "team/jax:1", CONTENTS)
    found = images.remembered(f"elsewhere/jax@{DIGEST}")
    assert found is not None and found.distributions == {"jax": "0.10.2", "a": "1"}
    assert found.platform.python == HERE and found.platform.glibc == (2, 36)
    assert images.digest_of("team/jax:1") == NAMED
    for other in ("team/jax:1", f"jax@sha256:{'cd' * 32}", f"jax@{DIGEST}0", None, ""):
        assert images.remembered(other) is None
    assert images.digest_of("team/jax:2") is None


@pytest.mark.parametrize("reported", [f"jax@sha256:{'cd' * 32}", f"sha256:{'ef' * 32}"])
def test_the_digest_that_a_job_has_asked_for_counts_too(home, reported):
    """A pod may have the one of a list's images, or one that was never in a registry."""
    images.remember(reported, NAMED, CONTENTS)
    assert images.remembered(NAMED) is not None
    assert (images.remembered(reported) is not None) == ("@" in reported)


@pytest.mark.parametrize(
    "change",
    [
        {"python": "3"},
        {"python": "../3.11"},
        {"glibc": ""},
        {"machine": "riscv"},
        {"distributions": {}},
        {"distributions": {f"a{n}": "1" for n in range(2001)}},
    ],
)
def test_what_no_image_has_counts_for_nothing(home, change):
    images.remember(NAMED, None, images.Contents(**{**vars(CONTENTS), **change}))
    assert images.remembered(NAMED) is None


def test_of_what_an_image_has_the_odd_is_left_out(home):
    odd = {"jax": "0.10.2", "../x": "1", "b": "new", "c": "1" * 65}
    images.remember(NAMED, None, images.Contents(**{**vars(CONTENTS), "distributions": odd}))
    found = images.remembered(NAMED)
    assert found is not None and found.distributions == {"jax": "0.10.2"}


def test_damaged_and_many_records_do_no_harm(home, monkeypatch):
    images.remember(NAMED, "team/jax:1", CONTENTS)
    (record,) = (home / "images").iterdir()
    record.write_text("{")
    assert images.remembered(NAMED) is None and images.digest_of("team/jax:1") is None
    monkeypatch.setattr(images, "_MOST_IMAGES", 3)
    for number in range(5):
        images.remember(f"jax@sha256:{number:064}", None, CONTENTS)
    assert len(list((home / "images").iterdir())) == 3
    images.remember("sha256:" + "1" * 64, None, CONTENTS)  # of no registry
    assert len(list((home / "images").iterdir())) == 3


@pytest.fixture
def scene(home, tmp_path, monkeypatch):
    with submission_scene(tmp_path, monkeypatch) as found:
        found.answers[RUNTIMES] = {"items": [runtime()]}
        yield found


def submitted(line: str = "") -> tuple[Capture, Any]:
    spec = parse_cell_line(f"fit --backend kubernetes --dry-run {line}")
    own, plan = api.prepare(spec)
    capture = capture_cell("import stuff", {})
    own.check_capture(capture, spec, plan)
    return capture, own


def test_a_submission_to_an_unknown_image_says_what_goes_along(scene, site):
    site.install("stuff", "1.2")
    for line, image in (("", "jax:1"), ("--image team/jax:2", "team/jax:2")):
        capture, own = submitted(line)
        assert [one.name for one in capture.sent] == ["stuff"] and len(own.wheels) == 1
        assert capture.offers is not None and capture.offers[0]["use"] == "certain"
        (note,) = capture.notes
        assert note.id == "submit.offered" and image in note and "stuff 1.2" in note
    # The tag may be another image's tomorrow.
    images.remember(
        NAMED,
        "team/jax:2",
        images.Contents(**{**vars(CONTENTS), "distributions": {"stuff": "1.2"}}),
    )
    capture, _ = submitted("--image team/jax:2")
    assert capture.offers is not None and [one.name for one in capture.sent] == ["stuff"]
    (note,) = capture.notes
    assert note.id == "submit.offered-to-tag" and f"--image {NAMED}" in note
    capture, own = submitted(f"--image {NAMED}")
    assert capture.offers is None and capture.sent == [] and own.wheels == {}


def test_nothing_is_noted_where_nothing_goes_along(scene):
    spec = parse_cell_line("fit --backend kubernetes --dry-run")
    own, plan = api.prepare(spec)
    capture = capture_cell("import json", {})
    own.check_capture(capture, spec, plan)
    assert capture.offers == [] and capture.notes == []


def test_packages_that_the_pods_have_are_not_sent_again(scene, site, tmp_path):
    site.install("stuff", "1.2")
    shared = runtime()
    shared["metadata"].setdefault("annotations", {})[runtimes.SHARED] = "/data"
    scene.answers[RUNTIMES] = {"items": [shared]}
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    def sent(line: str = "") -> tuple[str, JobSpec, Any]:
        spec = parse_cell_line(f"fit --backend kubernetes --dry-run {line}")
        own, plan = api.prepare(spec)
        capture = capture_cell("import stuff", {})
        own.check_capture(capture, spec, plan)
        write_bundle(tmp_path / "bundle", "fit", capture, wheels=own.wheels)
        return api.dry_run(spec, own, plan, capture), spec, plan

    yaml, spec, plan = sent()
    assert "/data/.jaxtrain-packages/" in yaml and AWAITED_VARIABLE not in yaml
    packagecache.note(tmp_path / "bundle", spec, plan, there=True)
    yaml, _, _ = sent()
    assert AWAITED_VARIABLE in yaml and WITHOUT_PACKAGES in yaml
    yaml, _, _ = sent("--show-secrets")
    assert AWAITED_VARIABLE not in yaml, "kubectl would not send what is gone by then"
    scene.answers[review] = {"status": {"allowed": False}}
    yaml, _, _ = sent()
    assert AWAITED_VARIABLE not in yaml, "what is gone by then could not be sent"
