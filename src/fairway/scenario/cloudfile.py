"""Which cloud does a file describe? A Scenario's, that of NodePools in it, or `cloud:` alone, as scenarios write it."""

from __future__ import annotations

from pathlib import Path

import yaml

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.located import Field, Reading
from fairway.kube.manifest import Manifest, read_path
from fairway.kube.objects import Obj, gk_of
from fairway.scenario.loading import SCENARIO_GK
from fairway.scenario.model import CloudPlan
from fairway.scenario.reading import cloud_of


def read_cloud_file(path: Path, start_us: int) -> CloudPlan:
    """`start_us`: what times that are durations count from.

    Raises: InvalidInput with every problem.
    """
    bare = _bare_cloud(path)
    if bare is not None:
        reading = Reading(Manifest(bare, str(path)))
        field, manifests = reading.root().members("cloud", required=("cloud",))["cloud"], []
    else:
        manifests = read_path(path)
        scenario = next((m for m in manifests if gk_of(m.obj) == SCENARIO_GK), None)
        reading = Reading(manifests[0] if scenario is None else scenario)
        section = None if scenario is None else (scenario.obj.get("spec") or {}).get("cloud")
        field = Field(reading, ("spec", "cloud"), section)
    plan = cloud_of(field, manifests, path.parent, start_us)
    reading.finish()
    if plan is None:
        expected = "expected a cloud: a Scenario with spec.cloud, NodePools, or a mapping with cloud"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),))
    return plan


def _bare_cloud(path: Path) -> Obj | None:
    """The document, where it is a mapping with `cloud` and no kind."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as unreadable:
        raise InvalidInput((FieldProblem(str(path), 0, "", "", f"cannot be read: {unreadable}"),)) from None
    except yaml.YAMLError:
        return None  # several documents, or none that is YAML: the manifest reader says so in place
    return found if isinstance(found, dict) and "cloud" in found and "kind" not in found else None
