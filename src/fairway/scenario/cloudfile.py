"""Which cloud does a file describe? A Scenario's, that of NodePools in it, or `cloud:` alone, as scenarios write it."""

from __future__ import annotations

from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.located import Field, Reading
from fairway.kube.manifest import Manifest, read_path
from fairway.kube.objects import Obj, gk_of
from fairway.kube.yamltext import read_documents
from fairway.scenario.loading import SCENARIO_GK
from fairway.scenario.model import CloudPlan
from fairway.scenario.reading import cloud_of


def read_cloud_file(path: Path, start_us: int) -> CloudPlan:
    """`start_us`: what times that are durations count from.

    Raises: InvalidInput with every problem.
    """
    bare = bare_document(path, "cloud")
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


def bare_document(path: Path, field: str, option: str = "") -> Obj | None:
    """A file's document, where it is one mapping with this field and no kind. Raises: InvalidInput."""
    try:
        documents, broken = read_documents(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as unreadable:
        raise InvalidInput(
            (FieldProblem(str(path), 0, option, "", f"cannot be read: {unreadable}"),)
        ) from None
    if broken or len(documents) != 1:
        return None  # the manifest reader says where it is broken
    found = documents[0].value
    return found if isinstance(found, dict) and field in found and "kind" not in found else None
