"""What `kubectl explain` finds below the top of Kueue's kinds."""

from __future__ import annotations

import pytest

from fairway.apiserver.openapi.kueue import definition


def test_fields_have_types_and_say_whether_they_are_required() -> None:
    found = definition("ClusterQueue", "v1beta2")
    assert found is not None
    groups = found["properties"]["spec"]["properties"]["resourceGroups"]
    resources = groups["items"]["properties"]["flavors"]["items"]["properties"]["resources"]
    assert resources["x-kubernetes-list-map-keys"] == ["name"]
    assert resources["items"]["required"] == ["name", "nominalQuota"]
    assert resources["items"]["properties"]["nominalQuota"] == {"x-kubernetes-int-or-string": True}
    strategy = found["properties"]["spec"]["properties"]["queueingStrategy"]
    assert strategy == {"type": "string", "enum": ["StrictFIFO", "BestEffortFIFO"]}


@pytest.mark.parametrize(("kind", "version"), [("ClusterQueue", "v9"), ("Pod", "v1beta2")])
def test_what_kueue_does_not_have_has_no_definition(kind: str, version: str) -> None:
    assert definition(kind, version) is None
