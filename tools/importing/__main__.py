"""The program: reads the pins, writes the data files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tools.importing import definitions
from tools.importing.nodes import Nodes, places, spelled_out
from tools.importing.pins import Pin, pins

DATA = Path(__file__).parents[2] / "src/fairway/kube/data"
KINDS, SCHEMAS = DATA / "kinds.json", DATA / "schemas.txt"
PINS = Path(__file__).parent / "pins.toml"
Component = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.importing")
    parser.add_argument("--from", dest="clones", type=Path, required=True, metavar="CLONES")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where a file would change"
    )
    parser.add_argument("components", nargs="*", help="only these; the others stay as the files have them")
    asked = parser.parse_args()
    known = pins(PINS)
    unknown = set(asked.components) - {pin.name for pin in known}
    if unknown:
        parser.error(f"no such component: {', '.join(sorted(unknown))}")
    components = [_component(pin, asked.clones, asked.components) for pin in known]
    kinds, schemas = _written(components)
    changed = [
        p for p, text in ((KINDS, kinds), (SCHEMAS, schemas)) if not p.exists() or p.read_text() != text
    ]
    for path in changed:
        said = "would change" if asked.check else "written"
        sys.stdout.write(f"{path.relative_to(DATA.parents[4])}: {said}\n")
        if not asked.check:
            path.write_text(kinds if path is KINDS else schemas)
    return 1 if changed and asked.check else 0


def _component(pin: Pin, clones: Path, wanted: list[str]) -> Component:
    """A component with its kinds, schemas spelled out: from its source, or as the files have it."""
    if wanted and pin.name not in wanted:
        return _kept(pin.name)
    return {"component": pin.name, "source": pin.source, "kinds": list(definitions.kinds(pin, clones))}


def _kept(name: str) -> Component:
    known = places(SCHEMAS.read_text())
    for component in json.loads(KINDS.read_text()):
        if component["component"] == name:
            for kind in component["kinds"]:
                for version in kind["versions"]:
                    version["schema"] = spelled_out(known, version["schema"])
            return dict(component)
    raise SystemExit(f"{name} was never imported: name it, or import everything")


def _written(components: list[Component]) -> tuple[str, str]:
    """The texts of both files. One kind a line, so that a change shows what changed."""
    nodes = Nodes()
    blocks = []
    for component in components:
        rows = []
        for kind in component["kinds"]:
            versions = [v | {"schema": nodes.name(v["schema"])} for v in kind["versions"]]
            rows.append(json.dumps(kind | {"versions": versions}, separators=(",", ":"), ensure_ascii=False))
        head = json.dumps({"component": component["component"], "source": component["source"]})[:-1]
        blocks.append(f'{head}, "kinds": [\n' + ",\n".join(rows) + "\n]}")
    return "[\n" + ",\n".join(blocks) + "\n]\n", nodes.text()


if __name__ == "__main__":
    sys.exit(main())
