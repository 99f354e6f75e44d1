"""Kubernetes' own definitions without their descriptions: `python -m tools.importing.openapi CHECKOUT`.

Reads the API server's document as the package `kubernetes-validate` ships it, and writes the facts of it (names, types,
references, list keys) to `src/fairway/kube/data/definitions.json.gz`. Descriptions stay in the package.

That document has no enums and no defaults. Those are read from a checkout of Kubernetes, from the Go code that its
servers' OpenAPI is generated as, and written to `choices.json.gz` beside it: definition → field → facts.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairway.kube.schema.document import CHOICES, SHIPPED, described_file

# What is not a fact of the API.
_DROPPED = ("description",)
_GENERATED = "pkg/generated/openapi/zz_generated.openapi.go"
_TYPES = "staging/src/k8s.io/api/*/*/types.go"
_FUNCTION = re.compile(r"func (schema_\w+)\(")
_FIELD = re.compile(r'\t{5}"([^"]+)": \{$')
_FACT = re.compile(r"(\t+)(Default|Enum): +(.*),$")
# How deep a fact stands: of the field itself, of its items (or of a map's values), as gofmt lays them out.
_OF_FIELD, _OF_MEMBERS = 7, 10


def main(arguments: list[str]) -> int:
    source = described_file()
    if len(arguments) != 1 or not (Path(arguments[0]) / _GENERATED).is_file():
        sys.stderr.write("usage: python -m tools.importing.openapi CHECKOUT (of kubernetes/kubernetes)\n")
        return 2
    if source is None:
        sys.stderr.write("kubernetes-validate is not installed, or lacks the release\n")
        return 3
    document = json.loads(source.read_bytes())
    facts = {"$defs": {name: _plain(body) for name, body in sorted(document["$defs"].items())}}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    SHIPPED.write_bytes(gzip.compress(text, mtime=0))
    choices = generated_facts(Path(arguments[0]), facts["$defs"])
    CHOICES.write_bytes(
        gzip.compress(json.dumps(choices, sort_keys=True, separators=(",", ":")).encode(), mtime=0)
    )
    sys.stdout.write(f"{len(text):,} bytes of facts, choices of {len(choices)} definitions\n")
    return 0


def generated_facts(checkout: Path, names: Iterable[str]) -> dict[str, Any]:
    """Definition → field → its `default` and `enum`, and under `items` or `additionalProperties` the enum there."""
    wanted = {_function(name): name for name in names}
    constants: dict[str, str] = {}
    for file in sorted(checkout.glob(_TYPES)):
        constants |= dict(re.findall(r'(\w+)\s+\w*\s*= ("[^"]*")', file.read_text()))
    found: dict[str, Any] = {}
    name, field, members = None, "", "items"
    for line in (checkout / _GENERATED).read_text().splitlines():
        if function := _FUNCTION.match(line):
            name = wanted.get(function[1])
        elif name is None:
            continue
        elif opened := _FIELD.match(line):
            field = opened[1]
        elif line.strip().startswith(("Items:", "AdditionalProperties:")):
            members = "items" if line.strip().startswith("Items:") else "additionalProperties"
        elif fact := _FACT.match(line):
            key, depth = fact[2].lower(), len(fact[1])
            if depth != _OF_FIELD and (key == "default" or depth < _OF_MEMBERS):
                continue
            of_field = found.setdefault(name, {}).setdefault(field, {})
            of = of_field if depth == _OF_FIELD else of_field.setdefault(members, {})
            of[key] = _value(fact[3], constants)
    return found


def _function(name: str) -> str:
    """The Go function that makes a definition: the last parts of its package, joined."""
    package, _, kind = name.removeprefix("io.k8s.").rpartition(".")
    parts = package.split(".")
    if parts[-1] == "version":
        return f"schema_k8sio_{'_'.join(parts)}_{kind}"
    if "pkg" not in parts:
        return "_".join(("schema_k8sio", *parts, kind))
    return "_".join(("schema", *parts[parts.index("pkg") :], kind))


def _value(text: str, constants: dict[str, str]) -> Any:
    if text.startswith("[]interface{}{"):
        return json.loads("[" + text.removeprefix("[]interface{}{").removesuffix("}") + "]")
    if text == "map[string]interface{}{}":
        return {}
    return json.loads(constants.get(text.rpartition(".")[2], text) if text[0].isalpha() else text)


def _plain(node: Any, is_named: bool = False) -> Any:
    """The node without descriptions. `is_named`: its keys are names of fields, none of them a description."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _plain(value, key == "properties" and not is_named)
        for key, value in node.items()
        if is_named or key not in _DROPPED
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
