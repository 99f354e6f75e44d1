"""The importer of published facts, on a repository made here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tools.importing import __main__ as program
from tools.importing.nodes import Nodes, places, spelled_out
from tools.importing.openapi import generated_facts

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList, shortNames: [wi]}
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, description: Old.}}
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size, description: How big.}]
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        description: A widget.
        properties:
          description: {type: string, description: What it says of itself.}
          spec:
            type: object
            properties: {size: {type: integer, default: DEFAULT, enum: [1, 2, =]}}
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    clone = tmp_path / "clones/acme/widgets"
    clone.mkdir(parents=True)
    release(clone, "v1", "1")
    release(clone, "v2", "2")
    pin(tmp_path, "v1")
    for name, path in (("PINS", "pins.toml"), ("KINDS", "kinds.json"), ("SCHEMAS", "schemas.txt")):
        monkeypatch.setattr(program, name, tmp_path / path)
    monkeypatch.setattr(program, "DATA", tmp_path / "a/b/c/d")
    return tmp_path


def release(clone: Path, tag: str, default: str) -> None:
    (clone / "crds").mkdir(exist_ok=True)
    (clone / "crds/widget.yaml").write_text(CRD.replace("DEFAULT", default))
    (clone / "crds/deeper").mkdir(exist_ok=True)
    (clone / "crds/deeper/other.yaml").write_text("{")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", tag], ["tag", tag]):
        subprocess.run(["git", "-C", str(clone), *arguments], check=True)


def pin(world: Path, revision: str) -> None:
    row = f'repository = "acme/widgets"\nrevision = "{revision}"\nfiles = ["crds/*.yaml"]\n'
    (world / "pins.toml").write_text(f"[widgets]\n{row}[again]\n{row}versions = ['v1beta1']\n")


def run(world: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["importing", "--from", str(world / "clones"), *arguments])
    return program.main()


def test_facts_are_taken_and_sentences_left(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(world, monkeypatch) == 0
    first, again = json.loads((world / "kinds.json").read_text())
    assert first["source"] == "acme/widgets@v1"
    (widget,) = first["kinds"]
    assert widget["shortNames"] == ["wi"]
    v1, v1beta1 = widget["versions"]
    assert v1["columns"] == [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    assert (v1["storage"], v1["status"]) == (True, True)
    assert [v["name"] for v in again["kinds"][0]["versions"]] == ["v1beta1"]
    lines = places((world / "schemas.txt").read_text())
    assert spelled_out(lines, v1beta1["schema"]) == {"type": "object"}
    assert spelled_out(lines, v1["schema"]) == {
        "type": "object",
        "properties": {
            "description": {"type": "string"},
            "spec": {
                "type": "object",
                "properties": {"size": {"type": "integer", "default": 1, "enum": [1, 2, "="]}},
            },
        },
    }


def test_a_component_moves_alone(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(world, monkeypatch)
    before = (world / "schemas.txt").read_text()
    pin(world, "v2")
    assert run(world, monkeypatch, "--check") == 1
    assert (world / "schemas.txt").read_text() == before
    assert run(world, monkeypatch, "widgets") == 0
    first, again = json.loads((world / "kinds.json").read_text())
    assert (first["source"], again["source"]) == ("acme/widgets@v2", "acme/widgets@v1")
    assert '"default":2' in (world / "schemas.txt").read_text()
    run(world, monkeypatch)
    assert run(world, monkeypatch, "--check") == 0


@pytest.mark.parametrize(
    ("revision", "said"), [("v9", "v9"), ("v1", "no file crds/none.yaml")], ids=["revision", "file"]
)
def test_a_pin_that_points_nowhere_says_so(
    world: Path, monkeypatch: pytest.MonkeyPatch, revision: str, said: str
) -> None:
    pin(world, revision)
    if revision == "v1":
        text = (world / "pins.toml").read_text().replace("crds/*.yaml", "crds/none.yaml")
        (world / "pins.toml").write_text(text)
    with pytest.raises(FileNotFoundError, match=said):
        run(world, monkeypatch)


def test_the_same_schema_is_kept_once() -> None:
    nodes = Nodes()
    part = {"type": "array", "items": {"type": "string"}}
    name = nodes.name({"type": "object", "properties": {"a": part, "b": dict(part)}})
    assert len(nodes.places) == 3
    assert spelled_out(nodes.places, name) == {"type": "object", "properties": {"a": part, "b": part}}


GENERATED = """
func schema_k8sio_api_core_v1_Volume(ref common.ReferenceCallback) common.OpenAPIDefinition {
\treturn common.OpenAPIDefinition{
\t\tSchema: spec.Schema{
\t\t\tSchemaProps: spec.SchemaProps{
\t\t\t\tProperties: map[string]spec.Schema{
\t\t\t\t\t"kind": {
\t\t\t\t\t\tSchemaProps: spec.SchemaProps{
\t\t\t\t\t\t\tDefault:     corev1.Shared,
\t\t\t\t\t\t\tEnum:        []interface{}{"Own", "Shared"},
\t\t\t\t\t\t},
\t\t\t\t\t},
\t\t\t\t\t"modes": {
\t\t\t\t\t\tSchemaProps: spec.SchemaProps{
\t\t\t\t\t\t\tItems: &spec.SchemaOrArray{
\t\t\t\t\t\t\t\tSchema: &spec.Schema{
\t\t\t\t\t\t\t\t\tSchemaProps: spec.SchemaProps{
\t\t\t\t\t\t\t\t\t\tDefault: "",
\t\t\t\t\t\t\t\t\t\tEnum:    []interface{}{"R", "W"},
\t\t\t\t\t\t\t\t\t},
\t\t\t\t\t"source": {
\t\t\t\t\t\tSchemaProps: spec.SchemaProps{
\t\t\t\t\t\t\tDefault: map[string]interface{}{},
func schema_k8sio_api_core_v1_Unknown(ref common.ReferenceCallback) common.OpenAPIDefinition {
\t\t\t\t\t"kind": {
\t\t\t\t\t\t\tDefault:     0,
"""


def test_enums_and_defaults_of_generated_code(tmp_path: Path) -> None:
    for file, text in (
        ("pkg/generated/openapi/zz_generated.openapi.go", GENERATED),
        ("staging/src/k8s.io/api/core/v1/types.go", 'const Shared Kind = "Shared"\n'),
    ):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
    assert generated_facts(tmp_path, ["io.k8s.api.core.v1.Volume", "io.k8s.api.core.v1.Pod"]) == {
        "io.k8s.api.core.v1.Volume": {
            "kind": {"default": "Shared", "enum": ["Own", "Shared"]},
            "modes": {"items": {"enum": ["R", "W"]}},
            "source": {"default": {}},
        }
    }
