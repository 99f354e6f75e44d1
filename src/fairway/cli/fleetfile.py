"""What `fairway up --fleet FILE` takes: manifests, a Scenario, or `nodes:` alone, as scenarios write them."""

from __future__ import annotations

from pathlib import Path

from fairway.kube.objects import Obj


def read_fleet_file(path: Path) -> list[Obj]:
    """The objects to create.

    Raises: InvalidInput with every problem.
    """
    from fairway.scenario.cloudfile import bare_document
    from fairway.scenario.loading import load_scenario

    is_file = not path.is_dir() and path.suffix.lower() in (".yaml", ".yml", ".json")
    bare = bare_document(path, "nodes", "--fleet") if is_file else None
    if bare is not None:
        return _described(path, bare)
    return list(load_scenario(path).objects)


def _described(path: Path, document: Obj) -> list[Obj]:
    from fairway.kube.located import Reading
    from fairway.kube.manifest import Manifest
    from fairway.scenario.fleet import read_fleet

    reading = Reading(Manifest(document, str(path)))
    parts = reading.root().members("nodes", required=("nodes",))
    nodes = [node for item in parts["nodes"].one_or_many() for node in read_fleet(item)]
    reading.finish()
    return nodes
