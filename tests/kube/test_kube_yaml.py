"""YAML as kubectl reads it: words, numbers, anchors, and texts that mean harm."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.fieldpath import TextProblem, path_text
from fairway.kube.yamltext import (
    MAX_BROKEN_DOCUMENTS,
    MAX_DEPTH,
    first_value,
    line_in_document,
    read_documents,
)


def only(text: str) -> Any:
    documents, problems = read_documents(text)
    assert not problems
    assert len(documents) == 1
    return documents[0].value


def problem(text: str) -> TextProblem:
    _, problems = read_documents(text)
    assert len(problems) == 1, problems
    return problems[0]


SCALARS: dict[str, tuple[str, Any]] = {
    "true": ("true", True),
    "yes is true": ("yes", True),
    "On is true": ("On", True),
    "y is true": ("y", True),
    "no is false": ("no", False),
    "OFF is false": ("OFF", False),
    "N is false": ("N", False),
    "mixed case is text": ("yEs", "yEs"),
    "quoted words are text": ('"yes"', "yes"),
    "null": ("null", None),
    "tilde": ("~", None),
    "nothing": ("", None),
    "an integer": ("42", 42),
    "a negative integer": ("-7", -7),
    "underscores in a number": ("1_000", 1000),
    "octal with a leading zero": ("010", 8),
    "octal with 0o": ("0o10", 8),
    "hexadecimal": ("0x1F", 31),
    "binary": ("0b101", 5),
    "08 is no octal, so a float, so 8": ("08", 8),
    "a float": ("1.5", 1.5),
    "a whole float is an integer in JSON": ("3.0", 3),
    "an exponent": ("1e3", 1000),
    "a float without leading digit": (".5", 0.5),
    "too large for 64 bits becomes a float": (
        "123456789012345678901234567890",
        123456789012345678901234567890.0,
    ),
    "the largest unsigned integer": ("18446744073709551615", 2**64 - 1),
    "a float too large is text": ("1e999", "1e999"),
    "base 60 is text": ("12:30:45", "12:30:45"),
    "a date is text": ("2026-01-31", "2026-01-31"),
    "a time is text": ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00Z"),
    "a version is text": ("1.2.3", "1.2.3"),
    "a quantity is text": ("500m", "500m"),
    "a tagged string": ("!!str 12", "12"),
    "a tagged integer": ('!!int "12"', 12),
    "a tagged float takes an integer": ("!!float 2", 2),
    "binary data": ("!!binary aGk=", "hi"),
    "two arrows that merge nothing": ("<<", "<<"),
    "an unknown tag leaves text": ("!vault secret", "secret"),
    "a non-specific tag leaves text": ("! 12", "12"),
    "a literal block": ("|\n  a\n  b\n", "a\nb\n"),
    "a folded block": (">\n  a\n  b\n", "a b\n"),
}


@pytest.mark.parametrize(("text", "want"), SCALARS.values(), ids=SCALARS.keys())
def test_scalars(text: str, want: Any) -> None:
    got = only(f"- {text}\n")[0]
    assert got == want
    assert type(got) is type(want)


def test_keys_become_text() -> None:
    assert only("1: a\nfalse: b\n1.5: c\n") == {"1": "a", "false": "b", "1.5": "c"}


def test_anchors_and_merge_keys() -> None:
    text = """
base: &base {cpu: 1, memory: 1Gi}
copy: *base
merged: {<<: *base, memory: 2Gi}
explicit first: {memory: 3Gi, <<: *base}
several: {<<: [{cpu: 9}, *base]}
quoted: {"<<": 1}
"""
    got = only(text)
    assert got["copy"] is got["base"]
    assert got["merged"] == {"cpu": 1, "memory": "2Gi"}
    assert got["explicit first"] == {"cpu": 1, "memory": "3Gi"}
    assert got["several"] == {"cpu": 9, "memory": "1Gi"}
    assert got["quoted"] == {"<<": 1}


BROKEN: dict[str, tuple[str, int, str, str]] = {
    "an unclosed bracket": ("a: [1\nb: 2\n", 2, "a[1]", "expected valid YAML"),
    "two colons in a line": ("a: b: c", 1, "", "mapping values are not allowed"),
    "a tab for indentation": ("a:\n\tb: 1", 2, "a", "never tabs"),
    "an unclosed quote": ('a: "b', 1, "a", "unexpected end of stream"),
    "a control character": ("a: \x07", 1, "", "control characters"),
    "a duplicate key": ("a: 1\nb: 2\na: 3\n", 3, "a", "duplicate key"),
    "a duplicate key below": ("a:\n  b: 1\n  b: 2\n", 3, "a.b", "duplicate key"),
    "keys that are equal as text": ("1: a\n'1': b\n", 2, "1", "duplicate key"),
    "an unknown alias": ("a: *b", 1, "a", "expected an anchor &b"),
    "an alias to itself": ("a: &x [*x]", 1, "a[0]", "expected an anchor &x"),
    "a list as key": ("? [1, 2]\n: 3", 1, "", "cannot be a key"),
    "a null key": ("~: 1", 1, "", "null key"),
    "infinity": ("a: .inf", 1, "a", "finite number"),
    "not a number": ("a: .nan", 1, "a", "finite number"),
    "a tag that lies": ("a: !!int many", 1, "a", "cannot decode"),
    "broken base64": ("a: !!binary '?'", 1, "a", "base64"),
    "merging a number": ("a: {<<: 3}", 1, "a", "to merge"),
}


@pytest.mark.parametrize(("text", "line", "path", "expected"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_text_is_located(text: str, line: int, path: str, expected: str) -> None:
    got = problem(text)
    assert (got.line, path_text(got.path)) == (line, path)
    assert expected in got.expected


def test_the_other_documents_of_a_broken_text_are_read() -> None:
    documents, problems = read_documents("a: 1\n---\nb: [\n---\nc: 3\n---\nd: 1\nd: 2\n---\ne: 5\n")
    assert [d.value for d in documents] == [{"a": 1}, {"c": 3}, {"e": 5}]
    assert [p.line for p in problems] == [4, 8]
    assert [d.line for d in documents] == [1, 5, 10]


def test_empty_documents_are_left_out() -> None:
    documents, problems = read_documents("---\n# nothing\n---\na: 1\n---\nnull\n---\n")
    assert [d.value for d in documents] == [{"a": 1}]
    assert not problems


def test_an_alias_bomb_is_refused() -> None:
    text = "a: &a [x,x,x,x,x,x,x,x,x]\n"
    for previous, name in zip("abcdefgh", "bcdefghi", strict=True):
        text += f"{name}: &{name} [{','.join(['*' + previous] * 9)}]\n"
    assert "aliases expand to more than" in problem(text).expected


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 50_000, "? " * 50_000])
def test_depth_is_capped(text: str) -> None:
    assert f"more than {MAX_DEPTH} levels" in problem(text).expected


def test_a_text_of_nothing_but_errors_is_given_up_on() -> None:
    _, problems = read_documents("a: [\n---\n" * 1000)
    assert len(problems) == MAX_BROKEN_DOCUMENTS


def test_lines_of_fields() -> None:
    text = """# a comment
apiVersion: v1
spec:
  containers:
  - name: a
    resources: {limits: {cpu: 1,
      memory: 1Gi}}
  - name: b
  "on": here
"""
    document = read_documents(text)[0][0]

    def line(*path: str | int) -> int:
        return line_in_document(text, document, path)

    assert line() == 2
    assert line("spec") == 3
    assert line("spec", "containers", 0) == 5
    assert line("spec", "containers", 0, "resources", "limits", "memory") == 7
    assert line("spec", "containers", 1, "name") == 8
    assert line("spec", "on") == 9
    assert line("spec", "containers", 1, "image") == 8, "the nearest ancestor that is there"
    assert line("spec", "containers", 7, "name") == 4
    assert line("nowhere") == 2


@pytest.mark.parametrize("indent", ["", "  "])
def test_lines_inside_the_items_of_a_list(indent: str) -> None:
    item = "{i}- kind: Pod\n{i}  spec:\n{i}    nodeName: n{n}\n"
    text = (
        "---\nkind: List\nitems:\n" + "".join(item.format(i=indent, n=n) for n in range(3)) + "metadata: {}\n"
    )
    document = read_documents(text)[0][0]
    for n in range(3):
        assert line_in_document(text, document, ("items", n)) == 4 + 3 * n
        assert line_in_document(text, document, ("items", n, "spec", "nodeName")) == 6 + 3 * n
    assert line_in_document(text, document, ("metadata",)) == 13


def test_lines_inside_a_list_in_flow_style() -> None:
    text = "kind: List\nitems: [{kind: Pod,\n  spec: {a: 1}}, {kind: Pod,\n  spec: {b: 2}}]\n"
    document = read_documents(text)[0][0]
    assert line_in_document(text, document, ("items", 1, "spec", "b")) == 4


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "aliases expand to more than 100000 nodes: refused"),
        ("[" * 5_000, "line 1: "),
        ("a: 1\nb: [", "line "),
    ],
)
def test_one_value_of_a_text_from_anybody(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^line [0-9]+: .*") as refused:
        first_value(text)
    assert said in str(refused.value)


def test_one_value() -> None:
    assert first_value("a: {b: [1, no]}\n---\nc: 2\n") == {"a": {"b": [1, False]}}
    assert first_value("# nothing\n") is None
