"""What `fairway up --fleet FILE` takes: manifests, a Scenario, or `nodes:` alone, as scenarios write them."""

from __future__ import annotations

from pathlib import Path

import yaml

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.objects import Obj


def read_fleet_file(path: Path) -> list[Obj]:
    """The objects to create.

    Raises: InvalidInput with every problem.
    """
    from fairway.scenario.loading import load_scenario

    bare = _bare_nodes(path)
    if bare is not None:
        return _described(path, bare)
    return list(load_scenario(path).objects)


def _bare_nodes(path: Path) -> Obj | None:
    """The document, where it is a mapping with `nodes` and no kind."""
    if path.is_dir() or path.suffix.lower() not in (".yaml", ".yml", ".json"):
        return None
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as unreadable:
        raise InvalidInput(
            (FieldProblem(str(path), 0, "--fleet", "", f"cannot be read: {unreadable}"),)
        ) from None
    except yaml.YAMLError:
        return None  # several documents, or none that is YAML: the manifest reader says so in place
    return found if isinstance(found, dict) and "nodes" in found and "kind" not in found else None


def _described(path: Path, document: Obj) -> list[Obj]:
    from fairway.kube.located import Reading
    from fairway.kube.manifest import Manifest
    from fairway.scenario.fleet import read_fleet

    reading = Reading(Manifest(document, str(path)))
    parts = reading.root().members("nodes", required=("nodes",))
    nodes = [node for item in parts["nodes"].one_or_many() for node in read_fleet(item)]
    reading.finish()
    return nodes
