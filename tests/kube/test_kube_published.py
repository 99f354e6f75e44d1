"""The facts of other projects' definitions: all of them can be read, and all their rules be run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairway.admission.crdrules import rule_problems
from fairway.kube import goregexp, published
from fairway.kube.schema.structural import custom_schema

KINDS = sorted(published.kinds())


def entries(gk: str) -> Iterator[dict[str, Any]]:
    for version in published.kinds()[gk].versions:
        entry = published.entry(gk, version.name)
        assert entry is not None
        yield entry["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize("gk", KINDS)
def test_every_schema_is_one(gk: str) -> None:
    for schema in entries(gk):
        assert schema["type"] == "object"
        assert custom_schema(schema).properties["metadata"].go_type.endswith("ObjectMeta")


def test_every_rule_and_pattern_compiles() -> None:
    seen: dict[int, Any] = {}
    rules = 0

    def walk(part: Any) -> None:
        nonlocal rules
        if not isinstance(part, dict) or id(part) in seen:
            return
        seen[id(part)] = part
        rules += len(part.get("x-kubernetes-validations", ()))
        if "pattern" in part:
            goregexp.compiled(part["pattern"])
        leaf = {k: v for k, v in part.items() if k not in ("properties", "items", "additionalProperties")}
        assert rule_problems(leaf, "") == []
        for below in (
            *part.get("properties", {}).values(),
            part.get("items"),
            part.get("additionalProperties"),
        ):
            walk(below)

    for gk in KINDS:
        for schema in entries(gk):
            walk(schema)
    assert rules > 500


def test_a_kind_of_two_components_has_the_versions_of_both() -> None:
    versions = {gk: [v.name for v in published.kinds()[gk].versions] for gk in KINDS}
    assert versions["NodePool.karpenter.sh"] == ["v1", "v1beta1"]
    assert versions["MPIJob.kubeflow.org"] == ["v2beta1", "v1"]


def test_what_nobody_publishes_has_no_entry() -> None:
    assert published.entry("Pod", "v1") is None
    assert published.entry("ClusterQueue.kueue.x-k8s.io", "v9") is None


def test_no_sentences_of_others_are_kept() -> None:
    for schema in entries("Workload.kueue.x-k8s.io"):
        assert "description" not in schema
        assert "description" not in schema["properties"]["spec"]
