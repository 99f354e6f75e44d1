"""Manifests: which objects do these files hold, and what is said of files that hold none?"""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import InvalidInput, UserError, WorldError
from fairway.kube import manifest
from fairway.kube.manifest import Manifest, read_path, read_text, write_json, write_yaml

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


def names(manifests: list[Manifest]) -> list[str]:
    return [m.obj["metadata"]["name"] for m in manifests]


def told(text: str | bytes, file: str = "f.yaml", tmp_path: Path | None = None) -> str:
    """What is said about this text."""
    with pytest.raises(InvalidInput) as caught:
        if isinstance(text, bytes):
            assert tmp_path is not None
            (tmp_path / file).write_bytes(text)
            read_path(tmp_path / file)
        else:
            read_text(text, file)
    return str(caught.value)


def test_documents_lists_and_typed_lists_become_objects() -> None:
    text = f"""{POD}---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {{name: b}}
- apiVersion: v1
  kind: List
  items:
  - apiVersion: batch/v1
    kind: Job
    metadata: {{name: c}}
---
apiVersion: v1
kind: PodList
items:
- metadata: {{name: d}}
"""
    got = read_text(text, "f.yaml")
    assert names(got) == ["a", "b", "c", "d"]
    assert [m.line for m in got] == [1, 8, 14, 21]
    assert got[3].obj == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d"}}
    assert got[2].line_of(("metadata", "name")) == 16


def test_a_list_without_items_holds_nothing() -> None:
    assert read_text("apiVersion: v1\nkind: List\nitems: null\n", "f.yaml") == []
    assert names(read_text(f"{POD}---\napiVersion: v1\nkind: PodList\nitems: []\n", "f.yaml")) == ["a"]


def test_a_custom_kind_called_something_list_is_an_object() -> None:
    text = "apiVersion: shop.example.com/v1\nkind: ShoppingList\nmetadata: {name: a}\nspec: {milk: 1}\n"
    assert names(read_text(text, "f.yaml")) == ["a"]


def test_json_one_object_a_list_and_a_stream() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    other = {**pod, "metadata": {"name": "b"}}
    whole = {"apiVersion": "v1", "kind": "List", "items": [pod, other]}
    assert names(read_text(json.dumps(pod), "f.json")) == ["a"]
    assert names(read_text(json.dumps(whole, indent=4), "f.json")) == ["a", "b"]
    assert names(read_text(f"{json.dumps(pod)}\n{json.dumps(other)}\n", "f.json")) == ["a", "b"]
    assert names(read_text(json.dumps(pod), "-")) == ["a"]
    assert names(read_text("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "-")) == ["a"]


def test_lines_in_json() -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}"}} for n in range(3)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}, indent=2)
    lines = text.splitlines()
    for n, got in enumerate(read_text(text, "f.json")):
        assert f'"name": "p{n}"' in lines[got.line_of(("metadata", "name")) - 1]
        assert lines[got.line - 1].strip() == "{"
        assert got.line_of(("spec", "containers")) == got.line
    stream = '{"apiVersion": "v1", "kind": "Pod", "a": 1}\n{"apiVersion": "v1", "kind": "Pod",\n "b": 2}'
    assert read_text(stream, "f.json")[1].line_of(("b",)) == 3


REFUSED: dict[str, tuple[str, str, str]] = {
    "nothing at all": ("", "f.yaml", "f.yaml: the file is empty: expected at least one Kubernetes object"),
    "blank": (" \n\n", "f.json", "f.json: the file is empty"),
    "a number": ("42", "f.yaml", "f.yaml:1: 42: expected a mapping"),
    "a list": ("- a\n- b\n", "f.yaml", 'f.yaml:1: ["a","b"]: expected a mapping'),
    "no kind": ("apiVersion: v1\n", "f.yaml", "f.yaml:1: kind: required"),
    "a kind that is a number": ("apiVersion: v1\nkind: 3\n", "f.yaml", "f.yaml:2: kind: 3: required"),
    "no apiVersion": ("\nkind: Pod\n", "f.yaml", "f.yaml:2: apiVersion: required: expected text such as v1"),
    "items that are no list": (
        "apiVersion: v1\nkind: List\nitems: 3\n",
        "f.yaml",
        "f.yaml:3: items: 3: expected",
    ),
    "an item that is no object": (
        "apiVersion: v1\nkind: List\nitems:\n- 3\n",
        "f.yaml",
        "f.yaml:4: items[0]: 3: expected a mapping",
    ),
    "broken YAML": (f"{POD}---\na: [\n", "f.yaml", "f.yaml:6: a[0]: expected valid YAML"),
    "broken JSON": ('{"a": 1,\n "b": }', "f.json", 'f.json:2: "}": expected valid JSON: invalid character'),
    "truncated JSON": (
        '{"a": 1,\n "b": ',
        "f.json",
        "f.json:2: expected valid JSON: the text ends too early",
    ),
    "JSON with a trailing comma": ('{"a": 1,}', "f.json", "trailing comma"),
    "JSON with NaN": ('{"a": NaN}', "f.json", "f.json:1:"),
    "a stream that breaks": ('{"apiVersion":"v1","kind":"Pod"}\n{"a"', "f.json", "f.json:2:"),
    "a duplicate key in JSON": (
        '{"apiVersion": "v1",\n"kind": "Pod", "metadata": {"labels": {"a": "1",\n"a": "2"}}}',
        "f.json",
        'f.json:3: metadata.labels.a: "a": duplicate key',
    ),
    "JSON nested too deep": ("[" * 300 + "]" * 300, "f.json", "nested more than 128 levels"),
    "JSON nested far too deep": ("[" * 100_000, "f.json", "nested more than 128 levels"),
    "a lone surrogate": ('{"a": "\\ud800"}', "f.json", "f.json:1:"),
}


@pytest.mark.parametrize(("text", "file", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_object_is_told_with_its_place(text: str, file: str, want: str) -> None:
    assert want in told(text, file)


BYTES: dict[str, tuple[bytes, str]] = {
    "a binary file": (b"\x7fELF\x00\x01\x02", "expected a text file: this is binary"),
    "an image": (b"\x89PNG\r\n\x1a\n\x00\x00", "f.yaml:1: byte 0x89: expected UTF-8 text"),
    "Latin-1": (
        "apiVersion: v1\nkind: Pod\n# caf\u00e9".encode("latin-1"),
        "f.yaml:3: byte 0xe9: expected UTF-8",
    ),
    "broken UTF-16": (b"\xff\xfea", "broken UTF-16"),
}


@pytest.mark.parametrize(("data", "want"), BYTES.values(), ids=BYTES.keys())
def test_files_that_are_no_text(data: bytes, want: str, tmp_path: Path) -> None:
    assert want in told(data, tmp_path=tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_marks_are_fine(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(POD.encode(encoding))
    got = read_path(tmp_path / "f.yaml")
    assert names(got) == ["a"]
    assert got[0].line_of(("metadata",)) == 3


def test_a_directory_is_read_in_order_and_deep(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for path, name in (
        ("b.yml", "b"),
        ("a.yaml", "a"),
        ("sub/c.YAML", "c"),
        (".git/x.yaml", "x"),
        (".y.yaml", "y"),
    ):
        (tmp_path / path).write_text(POD.replace("name: a", f"name: {name}"))
    (tmp_path / "notes.txt").write_text("not YAML: [")
    (tmp_path / "z.json").write_text('{"apiVersion":"v1","kind":"Pod","metadata":{"name":"z"}}')
    (tmp_path / "only-comments.yaml").write_text("# later\n---\n")
    assert names(read_path(tmp_path)) == ["a", "b", "z", "c"]


def test_a_directory_tells_all_its_problems_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Pod\n")
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.yaml").write_text(POD)
    with pytest.raises(InvalidInput) as caught:
        read_path(tmp_path)
    assert [Path(p.file).name for p in caught.value.problems] == ["a.yaml", "b.json"]
    lenient = read_path(tmp_path, lenient=True)
    assert [m.broken is None for m in lenient] == [False, False, True]


def test_a_long_list_of_problems_is_capped() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_text("---\nkind: Pod\n" * 60, "f.yaml")
    assert len(caught.value.problems) == 51
    assert caught.value.problems[-1].expected == "… and 10 more problems"


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_path(tmp_path / "absent.yaml")
    with pytest.raises(UserError, match="expected at least one Kubernetes object"):
        read_path(tmp_path)
    (tmp_path / "a.yaml").write_text("# nothing\n")
    with pytest.raises(UserError, match="expected at least one Kubernetes object in it"):
        read_path(tmp_path / "a.yaml")


def test_a_file_that_cannot_be_read_is_the_worlds_fault(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="cannot be read"):
        read_path(tmp_path / ("x" * 300))


def test_files_over_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_YAML_BYTES", 10)
    assert "of YAML: refused" in told(POD)
    monkeypatch.setattr(manifest, "MAX_FILE_BYTES", 10)
    assert "refused" in told(POD, "f.json")


def test_writing_keeps_the_order_and_quotes_what_could_be_misread() -> None:
    obj = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "a", "labels": {"on": "yes", "version": "1.10"}, "annotations": {}},
        "spec": {
            "containers": [{"name": "c", "command": ["sleep", "600"], "args": [], "image": "a/b:1.2"}],
            "nodeSelector": None,
            "overhead": {"cpu": "1e3", "memory": "1Gi"},
            "startTime": "2026-01-31T08:00:00Z",
        },
        "data": {"script": "#!/bin/sh\necho hi\n", "trailing ": "a "},
    }
    want = """kind: Pod
apiVersion: v1
metadata:
  name: a
  labels:
    "on": "yes"
    version: "1.10"
  annotations: {}
spec:
  containers:
  - name: c
    command:
    - sleep
    - "600"
    args: []
    image: a/b:1.2
  nodeSelector: null
  overhead:
    cpu: "1e3"
    memory: 1Gi
  startTime: "2026-01-31T08:00:00Z"
data:
  script: |
    #!/bin/sh
    echo hi
  "trailing ": "a "
"""
    assert write_yaml([obj]) == want
    assert write_yaml([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"


def test_several_objects_are_written_as_a_json_list() -> None:
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "é"}}
    assert json.loads(write_json([pod])) == pod
    assert write_json([pod]).startswith('{\n    "apiVersion": "v1"')
    assert json.loads(write_json([pod, pod]))["items"] == [pod, pod]


SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.sampled_from(
        ["yes", "010", "1_0", "1:30", "2026-01-31", "~", "=", "<<", "- a", "a: b", "#", "\n", " x", "x\n\n"]
    )
    | st.from_regex(r"[-+]?[0-9._:xobeE_]{1,12}", fullmatch=True)
)
KEY = st.text(max_size=12) | st.sampled_from(["on", "n", "1", "1.5", "null", "<<", "a/b", "x y"])
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEY, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(KEY, VALUE, max_size=5))
def test_unknown_kinds_and_fields_survive_a_round_trip(extra: dict[str, Any]) -> None:
    obj = {**extra, "apiVersion": "example.com/v1", "kind": "Whatever", "metadata": {"name": "a"}}
    for text, file in ((write_yaml([obj, obj]), "f.yaml"), (write_json([obj, obj]), "f.json")):
        got = [m.obj for m in read_text(text, file)]
        assert got == [obj, obj]
        assert list(got[0]) == list(obj)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.text(alphabet="[]{}:,-&*#!|>'\"\n \tab0<?%@`", max_size=60))
def test_any_text_is_objects_or_problems_never_a_traceback(text: str) -> None:
    for file in ("f.yaml", "f.json", "-"):
        for got in read_text(text, file, lenient=True):
            assert isinstance(got.obj, dict)
            assert got.broken is None or got.broken.expected
            assert got.line >= 0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_objects_or_problems(data: bytes) -> None:
    got = manifest._read_bytes(data, "f.yaml")
    assert all(isinstance(m.obj, dict) for m in got)


def test_the_collector_is_on_again_after_a_large_file() -> None:
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}", "note": "x" * 500}}
        for n in range(8000)
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    assert len(read_text(text, "f.json")) == 8000
    assert gc.isenabled()
