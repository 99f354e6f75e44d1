"""KServe's ClusterServingRuntimes, as its installation has them: `python -m tools.importing.runtimes --from CLONES`."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tools.importing.pins import pins

OUT = Path(__file__).parents[2] / "src/fairway/workloads/kserve/data/runtimes.json"
PINS = Path(__file__).parent / "pins.toml"
FOLDER = "config/runtimes"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.importing.runtimes")
    parser.add_argument("--from", dest="clones", type=Path, required=True, metavar="CLONES")
    pin = next(pin for pin in pins(PINS) if pin.name == "kserve")
    clone = parser.parse_args().clones / pin.repository
    revision = pin.source.partition("@")[2]

    def read(name: str) -> Any:
        said = ["git", "-C", str(clone), "show", f"{revision}:{FOLDER}/{name}"]
        return yaml.safe_load(subprocess.run(said, check=True, capture_output=True, text=True).stdout)

    custom = read("kustomization.yaml")
    images = {one["name"]: f"{one['newName']}:{one['newTag']}" for one in custom["images"]}
    found = [_runtime(read(name), images) for name in custom["resources"]]
    OUT.write_text(json.dumps({"source": pin.source, "runtimes": found}, separators=(",", ":")) + "\n")


def _runtime(given: dict[str, Any], images: dict[str, str]) -> dict[str, Any]:
    for container in given["spec"].get("containers") or []:
        name = re.sub(r":replace$", "", container["image"])
        container["image"] = images.get(name, container["image"])
    meta = given["metadata"]
    return {
        "metadata": {k: meta[k] for k in ("name", "annotations", "labels") if k in meta},
        "spec": given["spec"],
    }


if __name__ == "__main__":
    main()
