"""What KServe's installation brings: ClusterServingRuntimes, and LLMInferenceServiceConfigs (presets).

`python -m tools.importing.runtimes --from CLONES`. Of a preset's shell script only the `exec` at its end is kept: what
comes before looks for network cards and the server's version.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tools.importing.pins import pins

DATA = Path(__file__).parents[2] / "src/fairway/workloads/kserve/data"
PINS = Path(__file__).parent / "pins.toml"
RUNTIMES, PRESETS = "config/runtimes", "config/llmisvcconfig"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.importing.runtimes")
    parser.add_argument("--from", dest="clones", type=Path, required=True, metavar="CLONES")
    pin = next(pin for pin in pins(PINS) if pin.name == "kserve")
    clone = parser.parse_args().clones / pin.repository
    revision = pin.source.partition("@")[2]

    def read(folder: str, name: str) -> Any:
        said = ["git", "-C", str(clone), "show", f"{revision}:{folder}/{name}"]
        return yaml.safe_load(subprocess.run(said, check=True, capture_output=True, text=True).stdout)

    custom = read(RUNTIMES, "kustomization.yaml")
    images = {one["name"]: f"{one['newName']}:{one['newTag']}" for one in custom["images"]}
    found = [_runtime(read(RUNTIMES, name), images) for name in custom["resources"]]
    _write("runtimes.json", {"source": pin.source, "runtimes": found})
    presets = [read(PRESETS, name) for name in read(PRESETS, "kustomization.yaml")["resources"]]
    specs = {one["metadata"]["name"]: _without_scripts(one["spec"]) for one in presets}
    _write("llmpresets.json", {"source": pin.source, "presets": specs})


def _write(name: str, what: dict[str, Any]) -> None:
    (DATA / name).write_text(json.dumps(what, separators=(",", ":")) + "\n")


def _without_scripts(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_scripts(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_scripts(v) for v in value]
    if isinstance(value, str) and "exec vllm serve" in value:
        return value[value.rindex('eval "exec vllm serve') :]
    return value


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
