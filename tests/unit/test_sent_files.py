"""Files beside the notebook that go along with a job: which ones, and how they arrive."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from apiscene import submission_scene
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_jax_trainer import api
from jupyter_jax_trainer.bundle import write_bundle
from jupyter_jax_trainer.capture import capture_cell
from jupyter_jax_trainer.capture import files as sent_files
from jupyter_jax_trainer.capture.files import check_bounds, gather, left_out_note
from jupyter_jax_trainer.errors import CaptureError, JobDirError, UsageError
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.options.spec import parse_cell_line
from jupyter_jax_trainer.worker.files import FilesError, enter
from jupyter_jax_trainer.worker.serialization.archive import Archive, write_archive


def make(root: Path, *names: str, **more: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"in {name}")
    for name, text in more.items():
        (root / f".{name}").write_text(text)


def found(root: Path, *patterns: str) -> list[str]:
    return list(gather(patterns, root).paths)


def refused(root: Path, *patterns: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        gather(patterns, root)
    return caught.value


def too_much(root: Path, pattern: str, *, allow_large: bool = False) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        check_bounds(gather([pattern], root), allow_large=allow_large)
    return caught.value


# ---------------------------------------------------------------------------- patterns

TREE = ("a.csv", "b.txt", "data/x.csv", "data/deep/y.csv", "data/deep/z.txt", ".hidden", "odd[1].t")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.csv", ["a.csv"]),
        ("./data//x.csv", ["data/x.csv"]),
        ("*.csv", ["a.csv"]),
        ("data/*.csv", ["data/x.csv"]),
        ("**/*.csv", ["a.csv", "data/deep/y.csv", "data/x.csv"]),
        ("**/**/*.txt", ["b.txt", "data/deep/z.txt"]),
        ("data/**/z.txt", ["data/deep/z.txt"]),
        ("data", ["data/deep/y.csv", "data/deep/z.txt", "data/x.csv"]),
        ("data/", ["data/deep/y.csv", "data/deep/z.txt", "data/x.csv"]),
        ("data/*", ["data/deep/y.csv", "data/deep/z.txt", "data/x.csv"]),
        ("d*/deep/[yz].*", ["data/deep/y.csv", "data/deep/z.txt"]),
        ("data/deep/**", ["data/deep/y.csv", "data/deep/z.txt"]),
        ("odd[1].t", ["odd[1].t"]),  # what is there is meant as it is written
        (".hidden", [".hidden"]),
        (".h*", [".hidden"]),
        ("?.csv", ["a.csv"]),
    ],
)
def test_what_a_pattern_means(tmp_path, pattern, names):
    make(tmp_path, *TREE)
    assert found(tmp_path, pattern) == names


def test_a_dot_is_all_but_what_nobody_means(tmp_path):
    junk = ("__pycache__/m.pyc", "node_modules/n.js", ".venv/v.py", ".ipynb_checkpoints/c.ipynb")
    make(tmp_path, *TREE, *junk, "data/__pycache__/m.pyc", ".git/config")
    assert set(found(tmp_path, ".")) == set(TREE) - {".hidden"}
    assert found(tmp_path, "node_modules") == ["node_modules/n.js"]  # somebody means it


def test_several_patterns_add_up_to_one_order(tmp_path):
    make(tmp_path, *TREE)
    assert found(tmp_path, "b.txt", "*.csv", "**/x.csv", "a.csv") == [
        "a.csv",
        "b.txt",
        "data/x.csv",
    ]
    files = gather(["a.csv", "b.txt"], tmp_path)
    assert (files.count, files.size) == ("2 files", len("in a.csv") + len("in b.txt"))


def test_a_pattern_that_finds_nothing_says_where_it_looked(tmp_path):
    make(tmp_path, *TREE)
    (tmp_path / "empty").mkdir()
    for pattern in ("*.npy", "empty", "data/a.csv", "a.csv/b"):
        error = refused(tmp_path, "a.csv", pattern)
        assert error.id == "cell.no-files" and pattern in str(error) and str(tmp_path) in str(error)


# ---------------------------------------------------------------------------- ignore files


def test_ignore_files_hold_for_what_is_not_named_in_full(tmp_path):
    make(tmp_path, *TREE, gitignore="data/\n*.txt\n")
    assert found(tmp_path, "**/*.csv") == ["a.csv"]
    assert found(tmp_path, "data/x.csv", "b.txt") == ["b.txt", "data/x.csv"]
    assert found(tmp_path, "data") == ["data/deep/y.csv", "data/x.csv"]
    for pattern, named in (("*.txt", "b.txt"), ("**/y.csv", "data"), ("*/*.csv", "data")):
        error = refused(tmp_path, pattern)
        assert error.id == "cell.files-ignored" and named in str(error)
    assert refused(tmp_path, "**/*.npy", "x").id == "cell.files-ignored"  # perhaps it is there
    make(tmp_path, "conf/.x", "conf/.git/config")
    assert refused(tmp_path, "conf").id == "cell.files-ignored"
    assert refused(tmp_path, "conf/**/*.npy").id == "cell.no-files"


def test_our_own_ignore_file_decides_before_that_of_git(tmp_path):
    make(tmp_path, *TREE, gitignore="*.csv", jaxtrainignore="!a.csv\nb.txt")
    make(tmp_path / "data", gitignore="*")
    assert found(tmp_path, "*") == ["a.csv", "odd[1].t"]


def test_the_ignore_files_of_a_repository_hold_in_its_folders(tmp_path):
    (tmp_path / ".git").mkdir()
    make(tmp_path, gitignore="*.csv\n/notes/b.txt\n")
    notes = tmp_path / "notes"
    make(notes, *TREE)
    assert found(notes, "*") == ["data/deep/z.txt", "odd[1].t"]


PARTS = st.sampled_from(["a", "b", "ab", "b.c", "[x]"])
LINES = st.lists(
    st.text(st.sampled_from("ab.c*?/!#[]^- \\"), min_size=1, max_size=7).filter(
        lambda line: not line.endswith("\\") and "[]" not in line and "\\]" not in line
    ),
    max_size=4,
)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@settings(max_examples=25)
@given(
    st.lists(st.lists(PARTS, min_size=1, max_size=3), min_size=1, max_size=6),
    LINES,
    LINES,
)
def test_git_ignores_the_same(tmp_path_factory, paths, top, inner):
    root = tmp_path_factory.mktemp("repository").resolve()
    subprocess.run(["git", "init", "-q", root], check=True)
    for parts in paths:
        path = root.joinpath(*parts)
        if not path.exists() and not any(one.is_file() for one in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    make(root, gitignore="\n".join(top))
    if (root / "a").is_dir():
        make(root / "a", gitignore="\n".join(inner))
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [name for name in listed.stdout.split("\0") if name and ".gitignore" not in name]
    try:
        assert found(root, ".") == sorted(expected)
    except UsageError:
        assert expected == []


# ---------------------------------------------------------------------------- what stays here


def test_what_looks_like_a_secret_stays_and_is_named(tmp_path):
    make(tmp_path, "data/x.csv", "data/id_rsa", "data/.env", "data/secrets/a.csv", "data/k.txt")
    (tmp_path / "data/k.txt").write_text("-----BEGIN RSA PRIVATE KEY-----")
    files = gather(["data"], tmp_path)
    assert list(files.paths) == ["data/x.csv"]
    assert files.left_out == ["data/id_rsa", "data/k.txt", "data/secrets/a.csv"]
    note = left_out_note(files.left_out)
    assert note is not None and note.id == "cell.files-stay" and "data/id_rsa" in note
    assert refused(tmp_path, "data/.env").id == "cell.files-all-stay"
    assert left_out_note([]) is None


def test_links_that_lead_out_are_refused(tmp_path):
    root, outside = tmp_path / "notebooks", tmp_path / "outside"
    make(root, "a.csv", "inside/b.csv", "secrets/c.csv")
    make(outside, "o.csv", "m.py")
    for name, target in {
        "file.csv": outside / "o.csv",
        "code.py": outside / "m.py",
        "folder": outside,
        "innocent": root / "secrets/c.csv",
        "own.csv": root / "a.csv",
        "own": root / "inside",
        "loop": root,
        "self": "self",
        "gone": "nowhere",
    }.items():
        (root / name).symlink_to(target)
    for name in ("file.csv", "code.py", "folder", "folder/o.csv", "folder/*.csv", "innocent"):
        assert refused(root, name).id == "cell.files-all-stay"
    for name in ("self", "gone"):
        assert refused(root, name).id == "cell.no-files"
    assert found(root, "own.csv", "own") == ["own.csv", "own/b.csv"]
    files = gather(["."], root)
    assert list(files.paths) == ["a.csv", "inside/b.csv", "own.csv"]
    assert {"folder", "loop", "file.csv", "code.py", "innocent"} < set(files.left_out)


def test_what_is_no_file_is_not_sent(tmp_path):
    make(tmp_path, "a.csv")
    os.mkfifo(tmp_path / "pipe")
    assert found(tmp_path, "*") == ["a.csv"]
    assert refused(tmp_path, "pipe").id == "cell.no-files"


# ---------------------------------------------------------------------------- bounds


def test_too_much_is_refused_with_the_way_out(tmp_path, monkeypatch):
    make(tmp_path, *TREE)
    monkeypatch.setattr(sent_files, "MOST_FILES", 2)
    error = too_much(tmp_path, "data")
    assert error.id == "cell.files-too-large" and "--allow-large" in str(error.hint)
    check_bounds(gather(["data"], tmp_path), allow_large=True)
    monkeypatch.setattr(sent_files, "_BUNDLE_BYTES", 10)
    assert too_much(tmp_path, "data", allow_large=True).id == "cell.files-too-large-at-all"


def test_size_is_known_before_anything_is_read(tmp_path):
    with (tmp_path / "sparse.bin").open("wb") as file:
        file.truncate(1 << 40)
    assert too_much(tmp_path, "sparse.bin").id == "cell.files-too-large"


@pytest.mark.parametrize("name", ["a\nb", "a\udcffb"])
def test_a_name_that_no_manifest_can_hold_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    assert refused(tmp_path, "*").id == "cell.file-name-unfit"


# ---------------------------------------------------------------------------- on their way


def pack(folder: Path, path: Path, *patterns: str, cell: str = "") -> str:
    capture = capture_cell(cell, {"__name__": "__main__"})
    capture.files = gather(patterns, folder)
    return write_bundle(path, "sending", capture)


def test_they_arrive_as_they_were(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks"
    make(folder, *TREE, "run.sh")
    (folder / "data/x.csv").write_bytes(bytes(range(256)))
    (folder / "run.sh").chmod(0o755)
    digest = pack(folder, tmp_path / "b.pyz", ".", ".hidden")
    assert pack(folder, tmp_path / "again.pyz", ".hidden", ".") == digest
    assert (tmp_path / "b.pyz").read_bytes() == (tmp_path / "again.pyz").read_bytes()
    monkeypatch.chdir(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    enter(Archive(tmp_path / "b.pyz", digest), scratch)
    place = Path.cwd()
    assert place.parent == scratch and place.stat().st_mode & 0o077 == 0
    arrived = {p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file()}
    assert arrived == {*TREE, "run.sh"}
    assert Path("data/x.csv").read_bytes() == bytes(range(256))
    assert os.access("run.sh", os.X_OK) and not os.access("a.csv", os.X_OK)
    enter(Archive(tmp_path / "b.pyz", digest), scratch)  # a container that was started again
    assert place != Path.cwd() and Path("a.csv").read_text() == "in a.csv"


def test_a_job_without_files_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_archive(tmp_path / "b.pyz", {"cell.py": b""}, [], {})
    enter(Archive(tmp_path / "b.pyz"), tmp_path / "nowhere")
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize(
    "name",
    ["../x", "/x", "a/../../x", "a/./x", "a//x", "", "..", "a/"],
)
def test_no_name_leads_out_of_the_directory(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    scratch = tmp_path / "scratch/inner"
    scratch.mkdir(parents=True)
    write_archive(tmp_path / "b.pyz", {f"job-files/{name}": b"x"}, [], {"executable": []})
    with pytest.raises(FilesError):
        enter(Archive(tmp_path / "b.pyz"), scratch)
    assert not list(tmp_path.rglob("x"))


@settings(max_examples=50)
@given(st.text(st.sampled_from("a./\\"), max_size=8))
def test_all_that_is_written_is_in_the_directory(tmp_path_factory, name):
    top = tmp_path_factory.mktemp("top")
    scratch, before = top / "a/a/a", os.getcwd()
    scratch.mkdir(parents=True)
    write_archive(top / "b.pyz", {f"job-files/{name}": b"x"}, [], {"executable": []})
    try:
        enter(Archive(top / "b.pyz"), scratch)
    except FilesError:
        pass
    finally:
        os.chdir(before)
    written = [path for path in top.rglob("*") if path.is_file() and path.name != "b.pyz"]
    assert all(path.relative_to(scratch).parts[0].startswith("jaxtrain-files-") for path in written)


def test_a_file_that_was_changed_on_its_way_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_archive(tmp_path / "b.pyz", {"job-files/a": b"x"}, [], {"executable": []})
    archive = Archive(tmp_path / "b.pyz")
    archive.manifest["members"]["job-files/a"] = "0" * 64
    with pytest.raises(JobDirError):
        enter(archive, tmp_path)


def test_without_a_place_to_write_it_says_so(tmp_path):
    write_archive(tmp_path / "b.pyz", {"job-files/a": b"x"}, [], {"executable": []})
    with pytest.raises(FilesError) as caught:
        enter(Archive(tmp_path / "b.pyz"), tmp_path / "gone")
    assert caught.value.id == "worker.no-files-directory"


def test_a_file_that_is_gone_when_it_is_packed_is_named(tmp_path):
    make(tmp_path, "a.csv")
    files = gather(["a.csv"], tmp_path)
    (tmp_path / "a.csv").unlink()
    with pytest.raises(CaptureError, match=r"a\.csv"):
        files.read()


# ---------------------------------------------------------------------------- said before


@pytest.fixture
def notebooks(home, tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "notebooks"
    make(folder, *TREE, "data/token.txt")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def scene(notebooks, tmp_path, monkeypatch):
    with submission_scene(tmp_path, monkeypatch) as found:
        yield found


def dry_run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, list[dict]]:
    spec = parse_cell_line(f"fit --dry-run {line}")
    submission, plan = api.prepare(spec)
    capture = capture_cell("x = 1", {})
    api.check(spec, submission, plan, capture)
    api.say_notes(capture)
    shown = api.dry_run(spec, submission, plan, capture)
    return shown, capsys.readouterr().err, [dict(one) for one in api.sent_records(capture)]


def test_on_a_cluster_number_size_and_names_are_said_before(scene, notebooks, capsys):
    shown, said, sent = dry_run("--backend kubernetes --files data", capsys)
    total = sum(len(f"in {name}") for name in TREE if name.startswith("data"))
    assert sent == [{"name": "files", "kind": "files", "type": "3 files", "size": total}]
    assert f"# files  files  3 files  {total} B" in shown and "# data/deep/y.csv" in shown
    assert "data/token.txt" in said and "token.txt" not in shown


def test_of_many_files_a_dry_run_names_the_first(scene, notebooks, capsys):
    make(notebooks, *(f"many/{number}.txt" for number in range(40)))
    shown, _, _ = dry_run("--backend kubernetes --files many", capsys)
    assert "# files  files  40 files" in shown and "# and 20 more files" in shown
    assert shown.count("# many/") == 20


def test_what_no_secret_can_hold_is_refused_before_it_is_read(scene, notebooks, monkeypatch):
    with (notebooks / "large.bin").open("wb") as file:
        file.truncate(30 << 20)
    monkeypatch.setattr(sent_files.Files, "read", None)
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    scene.answers[review] = {"status": {"allowed": False}}
    spec = parse_cell_line("fit --backend kubernetes --files large.bin")
    submission, plan = api.prepare(spec)
    with pytest.raises(CaptureError) as caught:
        api.check(spec, submission, plan, capture_cell("x = 1", {}))
    assert caught.value.id == "submit.too-large" and "31 MB" in str(caught.value)


def test_on_this_machine_nothing_is_copied_and_that_is_said(notebooks, capsys, monkeypatch):
    monkeypatch.setattr(sent_files, "MOST_FILES", 1)  # no bound where nothing travels
    shown, said, sent = dry_run("-d cpu --files data,*.txt", capsys)
    assert sent == [] and "x.csv" not in shown
    taken = ("b.txt", "data/x.csv", "data/deep/y.csv", "data/deep/z.txt")
    total = sum(len(f"in {name}") for name in taken)
    assert say.FILES_IN_PLACE(count="4 files", size=f"{total} B") in said
    assert "data/token.txt" in said
    with pytest.raises(UsageError) as caught:
        dry_run("-d cpu --files nothing/*.csv", capsys)
    assert caught.value.id == "cell.no-files"
