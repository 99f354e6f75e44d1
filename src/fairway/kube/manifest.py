"""Which Kubernetes objects do these files hold?

In: YAML or JSON files, one or many documents each, `List`s of any kind, kubectl dumps. Out: one `Manifest` per
object, in the order of the files, which knows on which line each of its fields stands. Every file is
untrusted: what is too large, too deep or blown up by aliases is refused, what is broken becomes a located
problem, never a traceback. Whether an object makes sense is not asked here: see `validation`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fairway.errors import FieldProblem, InvalidInput, WorldError
from fairway.kube import fieldpath, jsontext, yamltext
from fairway.kube.collectorpause import collector_paused
from fairway.kube.fieldpath import TextProblem, value_text
from fairway.kube.manifestwriting import write_json, write_yaml
from fairway.kube.objects import Obj

__all__ = ["Manifest", "read_path", "read_text", "write_json", "write_yaml"]

SUFFIXES = (".yaml", ".yml", ".json")
# A dump of 100,000 pods is about 600 MB. YAML is read fifty times slower than JSON, so it gets less.
MAX_FILE_BYTES = 2 * 1024**3
MAX_YAML_BYTES = 256 * 1024**2
# How many problems one error lists.
MAX_PROBLEMS = 50
# Lists may hold lists; nobody writes them deeper.
_MAX_LIST_DEPTH = 4


class Lines(Protocol):
    """Finds lines in the text an object came from."""

    def line_of(self, path: fieldpath.Path) -> int: ...


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object and where it was read.

    `broken` is set, and `obj` empty, where lenient reading met a document it could not use.
    """

    obj: Obj
    file: str
    _lines: Lines | None = field(default=None, repr=False, compare=False)
    _prefix: fieldpath.Path = field(default=(), repr=False, compare=False)
    broken: FieldProblem | None = None

    @property
    def line(self) -> int:
        """The 1-based line on which the object starts; 0 where unknown."""
        return self.line_of(())

    def line_of(self, path: fieldpath.Path) -> int:
        """The line of the field at this path, or of its nearest ancestor that is in the file."""
        return self._lines.line_of((*self._prefix, *path)) if self._lines is not None else 0


def read_path(path: Path, *, lenient: bool = False) -> list[Manifest]:
    """The objects of a file, or of all .yaml, .yml and .json files below a directory in the order of names.

    Raises: InvalidInput listing everything unreadable (lenient: such documents come back as `broken`).
    """
    is_directory = os.path.isdir(path)  # Path.is_dir raises for a name too long
    files = _files_below(path) if is_directory else iter((path,))
    manifests = [m for file in files for m in _read_file(file, path if is_directory else None)]
    if not manifests:
        where = "in a .yaml, .yml or .json file below it" if is_directory else "in it"
        expected = f"expected at least one Kubernetes object {where}"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),))
    return _settled(manifests, lenient)


def read_text(text: str, file: str, *, lenient: bool = False) -> list[Manifest]:
    """The objects of a text; `file` is what messages call it.

    Raises: InvalidInput.
    """
    return _settled(_read_bytes(text.encode("utf-8", "surrogatepass"), file), lenient)


def _settled(manifests: list[Manifest], lenient: bool) -> list[Manifest]:
    problems = [m.broken for m in manifests if m.broken is not None]
    if problems and not lenient:
        raise InvalidInput(capped(problems))
    return manifests


def capped(problems: list[FieldProblem]) -> tuple[FieldProblem, ...]:
    """The first 50 problems, and a line that says how many more there are."""
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    more = len(problems) - MAX_PROBLEMS
    last = FieldProblem(problems[MAX_PROBLEMS].file, 0, "", "", f"… and {more} more problems")
    return (*problems[:MAX_PROBLEMS], last)


# A folder with this file in it holds no manifests: results of a run, say, written among them.
IGNORE_MARK = ".fairway-ignore"


def _files_below(directory: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(directory, onerror=_unreadable):
        if IGNORE_MARK in files:
            names[:] = []
            continue
        names[:] = sorted(n for n in names if not n.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and name.lower().endswith(SUFFIXES):
                yield Path(folder, name)


def stranger(path: Path, directory: Path) -> str:
    """Why a file found below a directory is not read: it is none, or lies elsewhere. "" where it is."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if path.is_symlink() and not path.resolve().is_relative_to(directory.resolve()):
        return "a symbolic link that leads out of the folder: name the file itself"
    return "" if stat.S_ISREG(found.st_mode) else _NOT_A_FILE


_NOT_A_FILE = "not a file: expected one with YAML or JSON in it"
# Pipes that a shell has opened for us: `fairway simulate <(helm template …)`.
_OPENED = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


def _endless(path: Path) -> str:
    """A pipe or a device may never say a word, or never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    return "" if stat.S_ISREG(mode) or str(path).startswith(_OPENED) else _NOT_A_FILE


def _unreadable(error: OSError) -> None:
    raise WorldError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _read_file(path: Path, below: Path | None) -> list[Manifest]:
    """`below`: the directory it was found in; None for a file that was named."""
    file = str(path)
    why = stranger(path, below) if below is not None else _endless(path)
    if why:
        return [_broken(file, TextProblem(0, (), "", why))]
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return [_broken(file, TextProblem(0, (), "", "no such file or directory"))]
    except OSError as error:
        raise WorldError(f"{file}: cannot be read: {error.strerror}") from error
    return _read_bytes(data, file)


def _read_bytes(data: bytes, file: str) -> list[Manifest]:
    with collector_paused(len(data)):
        return _read_any(data, file)


def _read_any(data: bytes, file: str) -> list[Manifest]:
    try:
        data = _decodable(data)
        if _is_json(data, file):
            return list(_from_json(data, file))
        if len(data) > MAX_YAML_BYTES:
            raise TextProblem(
                0, (), "", f"larger than {MAX_YAML_BYTES // 2**20} MiB of YAML: refused; use JSON"
            )
        return list(_from_yaml(data.decode(), file))
    except TextProblem as problem:
        return [_broken(file, problem)]


def _decodable(data: bytes) -> bytes:
    """The bytes as UTF-8 without a byte order mark.

    Raises: TextProblem for binary files, other encodings, empty and oversized files.
    """
    if len(data) > MAX_FILE_BYTES:
        raise TextProblem(0, (), "", f"larger than {MAX_FILE_BYTES // 2**30} GiB: refused")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16").encode()
        except UnicodeError:
            raise TextProblem(1, (), "", "expected UTF-8 text: this is broken UTF-16") from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        value = f"byte 0x{data[error.start]:02x}"
        raise TextProblem(line, (), value, "expected UTF-8 text") from None
    if b"\0" in data[:8192]:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise TextProblem(line, (), "byte 0x00", "expected a text file: this is binary")
    if not data.strip():
        raise TextProblem(0, (), "", "the file is empty: expected at least one Kubernetes object")
    return data


def _is_json(data: bytes, file: str) -> bool:
    """By name, or by the first character; `{a: b}` is YAML and told apart by its first key."""
    if file.lower().endswith(".json"):
        return True
    if file.lower().endswith((".yaml", ".yml")) and len(data) < jsontext.STRICT_BYTES:
        return False  # YAML reads JSON too, and knows its own rules for it
    return data[:64].lstrip()[:1] == b"{" and data.lstrip()[1:64].lstrip()[:1] == b'"'


class _YamlLines:
    __slots__ = ("_document", "_text")

    def __init__(self, text: str, document: yamltext.Document) -> None:
        self._text = text
        self._document = document

    def line_of(self, path: fieldpath.Path) -> int:
        return yamltext.line_in_document(self._text, self._document, path)


class _JsonLinesAt:
    __slots__ = ("_lines", "_start")

    def __init__(self, lines: jsontext.JsonLines, start: int) -> None:
        self._lines = lines
        self._start = start

    def line_of(self, path: fieldpath.Path) -> int:
        return self._lines.line_of(self._start, path)


def _from_yaml(text: str, file: str) -> Iterator[Manifest]:
    documents, problems = yamltext.read_documents(text)
    for document in documents:
        yield from _unwrapped(document.value, file, _YamlLines(text, document), ())
    for problem in problems:
        yield _broken(file, problem)


def _from_json(data: bytes, file: str) -> Iterator[Manifest]:
    lines = jsontext.JsonLines(data)
    for value, start in jsontext.read_values(data):
        yield from _unwrapped(value, file, _JsonLinesAt(lines, start), ())


def _unwrapped(value: Any, file: str, lines: Lines, prefix: fieldpath.Path) -> Iterator[Manifest]:
    """The object, or the items of a list of objects."""
    if not isinstance(value, dict):
        yield _refused(file, lines, prefix, value, "expected a mapping: a Kubernetes object")
        return
    kind, api_version = value.get("kind"), value.get("apiVersion")
    for name, of_kind in (("kind", kind), ("apiVersion", api_version)):
        if not isinstance(of_kind, str) or not of_kind:
            expected = "required: expected text such as " + ("Pod" if name == "kind" else "v1 or batch/v1")
            yield _refused(file, lines, (*prefix, name), of_kind, expected)
            return
    if not (str(kind).endswith("List") and "items" in value):
        yield Manifest(value, file, lines, prefix)
        return
    items = value["items"] if value["items"] is not None else []
    if not isinstance(items, list) or len(prefix) >= 2 * _MAX_LIST_DEPTH:
        yield _refused(file, lines, (*prefix, "items"), value["items"], "expected a list of objects")
        return
    for index, item in enumerate(items):
        yield from _unwrapped(_typed(item, value), file, lines, (*prefix, "items", index))


def _typed(item: Any, of_list: Obj) -> Any:
    """An item of a typed list (`PodList`) as the API server sends it may leave out its kind: fill it in."""
    if not isinstance(item, dict) or item.get("kind") or of_list["kind"] == "List":
        return item
    kind = of_list["kind"].removesuffix("List")
    return {"apiVersion": of_list["apiVersion"], "kind": kind, **item}


def _refused(file: str, lines: Lines, path: fieldpath.Path, value: Any, expected: str) -> Manifest:
    text = "" if value is None else value_text(value)
    return _broken(file, TextProblem(lines.line_of(path), path, text, expected))


def _broken(file: str, problem: TextProblem) -> Manifest:
    path = fieldpath.path_text(problem.path)
    return Manifest({}, file, broken=FieldProblem(file, problem.line, path, problem.value, problem.expected))
