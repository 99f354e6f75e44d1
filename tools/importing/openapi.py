"""Kubernetes' own definitions without their descriptions: `python -m tools.importing.openapi`.

Reads the API server's document as the package `kubernetes-validate` ships it, and writes the facts of it (names, types,
references, list keys) to `src/fairway/kube/data/definitions.json.gz`. Descriptions stay in the package.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from fairway.kube.schema.document import SHIPPED, described_file

# What is not a fact of the API.
_DROPPED = ("description",)


def main() -> int:
    source = described_file()
    if source is None:
        sys.stderr.write("kubernetes-validate is not installed, or lacks the release\n")
        return 3
    document = json.loads(source.read_bytes())
    facts = {"$defs": {name: _plain(body) for name, body in sorted(document["$defs"].items())}}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    Path(SHIPPED).write_bytes(gzip.compress(text, mtime=0))
    sys.stdout.write(f"{len(text):,} bytes of facts\n")
    return 0


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
    sys.exit(main())
