"""Files beside the notebook that go along with a job (``--files``).

What a pattern names in full is sent. What it finds by a wildcard, or in a folder, is sent unless it
is hidden or an ignore file names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from jupyter_jax_trainer.capture.modules import looks_secret
from jupyter_jax_trainer.errors import CaptureError, UsageError
from jupyter_jax_trainer.messages import Text
from jupyter_jax_trainer.messages import cell as say
from jupyter_jax_trainer.text import counted, joined, size

MOST_FILES, MOST_BYTES = 10_000, 64 << 20  # without --allow-large
# A bundle is a zip file without zip64, which Python before 3.13 can't import from.
_BUNDLE_FILES, _BUNDLE_BYTES = 60_000, 2 << 30
_IGNORE_FILES = (".jaxtrainignore", ".gitignore")  # the first one that names a file decides
_NEVER = {".git", ".hg", ".svn", ".venv", ".ipynb_checkpoints", "__pycache__", "node_modules"}
_WILDCARD = re.compile(r"[*?[]")
_SHOWN = 5


@dataclass
class Files:
    """The files that patterns mean.

    Attributes
    ----------
    paths
        Path from the notebook's folder, with slashes → the file, in the order of the names.
    size
        Bytes of all of them.
    left_out
        What was found and stays here: it looks like a secret, for instance.
    """

    paths: dict[str, Path] = field(default_factory=dict)
    size: int = 0
    left_out: list[str] = field(default_factory=list)

    @property
    def count(self) -> str:
        """How many there are: ``3 files``."""
        return counted(len(self.paths), "file")

    def executable(self) -> list[str]:
        """Return the files that can be run as programs."""
        return [name for name, path in self.paths.items() if os.access(path, os.X_OK)]

    def read(self) -> dict[str, bytes]:
        """Return what is in them.

        Raises
        ------
        CaptureError
            One of them can't be read any more.
        """
        content = {}
        for name, path in self.paths.items():
            try:
                content[name] = path.read_bytes()
            except OSError as error:
                reason = error.strerror or str(error)
                raise CaptureError(say.FILE_UNREADABLE(file=name, error=reason)) from None
        return content


def gather(patterns: Iterable[str], folder: Path) -> Files:
    """Find the files that some patterns mean.

    Parameters
    ----------
    patterns
        Paths from the folder, each part of which may have wildcards; ``**`` is any number of
        folders. A folder means all below it.
    folder
        The notebook's.

    Raises
    ------
    UsageError
        A pattern finds nothing to send, or a name can't be sent.
    """
    root = folder.resolve()
    found, left_out = Files(), dict[str, None]()
    for pattern in patterns:
        search = _Search(root)
        matched = sorted(set(search.find(pattern)))
        unfit = [name for name in matched if _stays(root / name, root)]
        search.left_out += unfit
        fit = set(matched).difference(unfit)
        if not fit:
            raise _nothing(pattern, root, search)
        found.paths.update((name, root / name) for name in fit)
        left_out.update(dict.fromkeys(search.left_out))
    found.paths = dict(sorted(found.paths.items()))
    found.left_out = sorted(left_out)
    found.size = sum(path.stat().st_size for path in found.paths.values())
    for name in found.paths:
        if not name.isprintable():  # bytes that are no UTF-8 are unprintable, too
            raise UsageError(say.FILE_NAME_UNFIT(file=ascii(name)))
    return found


def left_out_note(left_out: Sequence[str]) -> Text | None:
    """Return what to say of files that were found and are not sent."""
    return say.FILES_STAY(files=joined(left_out, most=20)) if left_out else None


def _stays(path: Path, root: Path) -> bool:
    """Return whether a file must stay: a secret, unreadable, or outside the folder."""
    return (
        not path.resolve().is_relative_to(root)
        or not os.access(path, os.R_OK)
        or looks_secret(path, root)
        or looks_secret(path.resolve(), root)
    )


def check_bounds(found: Files, *, allow_large: bool) -> None:
    """Refuse what is too much for a job to take along.

    Raises
    ------
    CaptureError
        There are too many files, or they are too large.
    """
    count, most, bytes_ = len(found.paths), MOST_FILES, MOST_BYTES
    if allow_large:
        most, bytes_ = _BUNDLE_FILES, _BUNDLE_BYTES
    if count > most or found.size > bytes_:
        what = say.FILES_TOO_LARGE_AT_ALL if allow_large else say.FILES_TOO_LARGE
        raise CaptureError(
            what(count=found.count, size=size(found.size), most=most, bytes=size(bytes_))
        )


def _nothing(pattern: str, root: Path, search: _Search) -> UsageError:
    if search.left_out:
        files = joined(search.left_out, most=_SHOWN)
        return UsageError(say.FILES_ALL_STAY(pattern=pattern, files=files))
    if search.ignored:
        files = joined(search.ignored, most=_SHOWN)
        return UsageError(say.FILES_IGNORED(pattern=pattern, folder=root, files=files))
    return UsageError(say.NO_FILES(pattern=pattern, folder=root))


class _Search:
    """A search for what one pattern means.

    Attributes
    ----------
    ignored
        What an ignore file, or its name, kept from being found.
    left_out
        Links to folders that were found, which are not followed, and folders that can't be read.
    """

    def __init__(self, root: Path) -> None:
        self.ignored: list[str] = []
        self.left_out: list[str] = []
        self._root = root
        self._rules = _Ignored(root)

    def find(self, pattern: str) -> Iterator[str]:
        """Yield paths from the root, some perhaps twice."""
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        twice = {at for at in range(1, len(parts)) if parts[at - 1] == parts[at] == "**"}
        yield from self._match("", [part for at, part in enumerate(parts) if at not in twice])

    def _match(self, folder: str, parts: Sequence[str]) -> Iterator[str]:
        """Yield what the parts of a pattern mean in a folder; without parts, all below it."""
        part, rest = (parts[0], parts[1:]) if parts else ("**", [])
        if part == "**":
            if rest:
                yield from self._match(folder, rest)
            for name, is_folder in self._entries(folder, "*", bool(rest)):
                if is_folder:
                    yield from self._match(name, parts)
                elif not rest:
                    yield name
        elif _WILDCARD.search(part) and not os.path.lexists(self._root / folder / part):
            for name, is_folder in self._entries(folder, part, bool(rest)):
                yield from self._step(name, rest, is_folder)
        else:
            name = _under(folder, part)
            yield from self._step(name, rest, os.path.isdir(self._root / name))

    def _step(self, name: str, rest: Sequence[str], is_folder: bool) -> Iterator[str]:
        if is_folder:
            if (self._root / name).resolve().is_relative_to(self._root):
                yield from self._match(name, rest)
            else:
                self.left_out.append(name)
        elif not rest and os.path.isfile(self._root / name):
            yield name

    def _entries(self, folder: str, part: str, more: bool) -> Iterator[tuple[str, bool]]:
        """Yield the entries of a folder that match a part, and whether each is a folder.

        Hidden ones are noted as ignored only for the last part, when no `more` follow.
        """
        try:
            entries = sorted(os.scandir(self._root / folder), key=lambda entry: entry.name)
        except NotADirectoryError:
            return
        except OSError:
            self.left_out.append(folder)
            return
        for entry in entries:
            if not fnmatchcase(entry.name, part):
                continue
            name = _under(folder, entry.name)
            is_folder = os.path.isdir(entry.path)
            if not is_folder and not os.path.isfile(entry.path):
                continue  # a socket, or a link to nothing
            hidden = entry.name.startswith(".") and not part.startswith(".")
            if hidden or entry.name in _NEVER:
                self.ignored += [] if more else [name]
            elif self._rules.match(name, is_folder):
                self.ignored.append(name)
            elif is_folder and entry.is_symlink():
                self.left_out.append(name)
            else:
                yield name, is_folder


def _under(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


# ---- ignore files, as in gitignore(5)


@dataclass(frozen=True)
class _Rule:
    """A line of an ignore file. A pattern without a slash is one for names, at any depth."""

    pattern: re.Pattern[str]
    negated: bool
    only_folders: bool
    only_name: bool


class _Ignored:
    """The rules for a folder: of the ignore files in it, below it, and above it in its repository.

    Parameters
    ----------
    root
        The folder.
    """

    def __init__(self, root: Path) -> None:
        self._top = next((one for one in (root, *root.parents) if (one / ".git").exists()), root)
        self._prefix = "" if root == self._top else root.relative_to(self._top).as_posix()
        self._known: dict[str, list[_Rule]] = {}

    def match(self, name: str, is_folder: bool) -> bool:
        """Return whether a path from the root is to be ignored; its folders are not asked for."""
        parts = _under(self._prefix, name).split("/")
        for file in _IGNORE_FILES:
            for depth in reversed(range(len(parts))):  # the nearest file decides, its last line
                inner = "/".join(parts[depth:])
                for rule in reversed(self._rules("/".join((*parts[:depth], file)))):
                    if rule.only_folders and not is_folder:
                        continue
                    if rule.pattern.fullmatch(parts[-1] if rule.only_name else inner):
                        return not rule.negated
        return False

    def _rules(self, file: str) -> list[_Rule]:
        if file not in self._known:
            try:
                text = (self._top / file).read_text("utf-8", "surrogateescape")
            except OSError:
                text = ""
            self._known[file] = [rule for line in text.split("\n") if (rule := _rule(line))]
        return self._known[file]


def _rule(line: str) -> _Rule | None:
    """Read a line of an ignore file; None where it says nothing."""
    line = re.sub(r"(?<!\\) +$", "", line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[negated:]
    only_folders = line.endswith("/")
    line = line[: len(line) - only_folders]
    only_name = "/" not in line
    if not line:
        return None
    pattern = re.compile(_expression(line.removeprefix("/")), re.DOTALL)
    return _Rule(pattern, negated, only_folders, only_name)


_TOKEN = re.compile(
    r"(?P<any>(?:^|(?<=/))\*\*/)"  # any number of folders
    r"|(?P<all>(?<=/)\*\*$)"
    r"|(?P<some>\*+)"
    r"|(?P<one>\?)"
    r"|\[(?P<not>[!^]?)(?P<set>(?:\]|\\.|[^]\\])(?:\\.|[^]\\])*)\]"
    r"|\\(?P<escaped>.)"
    r"|(?P<open>\[|\\$)"
    r"|(?P<plain>.)",
    re.DOTALL,
)
_EXPRESSIONS: Mapping[str, str] = {
    "any": "(?:.*/)?",
    "all": ".+",
    "some": "[^/]*",
    "one": "[^/]",
    "open": "(?!)",  # what has no end matches nothing
}


def _expression(pattern: str) -> str:
    """Return the regular expression of a pattern."""
    made = []
    for token in _TOKEN.finditer(pattern):
        kind = str(token.lastgroup)
        if kind == "set":
            made.append(f"(?!/)[{'^' if token['not'] else ''}{_set(token['set'])}]")
        else:
            made.append(_EXPRESSIONS.get(kind) or re.escape(token[kind]))
    return "".join(made)


def _set(inside: str) -> str:
    """Return what is in a set as a regular expression has it; a range backwards is its start."""
    made, first = "", ""
    signs = iter(re.findall(r"\\.|.", inside, re.DOTALL))
    for sign in signs:
        if sign == "-" and first and (last := next(signs, "")):
            if first <= last[-1]:
                made += f"{re.escape(first)}-{re.escape(last[-1])}"
            first = ""
        else:
            first = sign[-1]
            made += re.escape(first)
    return made
