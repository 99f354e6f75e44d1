"""Claims, classes and slices that the API server refuses, and some that look wrong and are taken."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.kube.validation.devices.statuses import status_problems, without_deallocated
from fairway.kube.validation.devices.updates import spec_problems
from fairway.kube.validation.validating import validate

GROUP = "resource.k8s.io/v1"


def claim(*requests: dict[str, Any], **devices: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests), **devices}}
    return {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}


def exactly(name: str = "gpu", **fields: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", **fields}}


def resource_slice(*devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    full = {
        "driver": "gpu.nvidia.com",
        "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n0",
        "devices": list(devices),
        **spec,
    }
    return {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": full}


TAKEN = {
    "no requests": claim(),
    "both attributes": claim(
        exactly(), constraints=[{"matchAttribute": "a.b/c", "distinctAttribute": "a.b/d"}]
    ),
    "Equal without a key": claim(exactly(tolerations=[{"operator": "Equal", "value": "x"}])),
    "many tolerations": claim(
        exactly(tolerations=[{"operator": "Exists", "key": f"k{i}"} for i in range(17)])
    ),
    "a negative capacity": claim(exactly(capacity={"requests": {"Bad Name": "-1Gi"}})),
    "a name with two slashes": resource_slice({"name": "g", "attributes": {"a/b/c": {"int": 1}}}),
    "a list, which is dropped": resource_slice({"name": "g", "attributes": {"a": {"int": 1, "ints": [1]}}}),
}

REFUSED = {
    "a subrequest that is not there": (
        claim(exactly(), config=[{"requests": ["gpu/x"], "opaque": {"driver": "d", "parameters": {"a": 1}}}]),
        'spec.devices.config[0].requests[0]: Invalid value: "gpu/x": must be the name of a request in the claim '
        "or the name of a request and a subrequest separated by '/'",
    ),
    "an empty constraint": (
        claim(exactly(), constraints=[{}]),
        'spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is '
        "required, but multiple fields are set",
    ),
    "a bare attribute in a constraint": (
        claim(exactly(), constraints=[{"matchAttribute": "numa"}]),
        'spec.devices.constraints[0].matchAttribute: Invalid value: "numa": a fully qualified name must be a domain '
        "and a name separated by a slash",
    ),
    "an expensive selector": (
        claim(
            exactly(
                selectors=[
                    {"cel": {"expression": "device.attributes['x'].all(a, " * 5 + "a == 'y'" + ")" * 5}}
                ]
            )
        ),
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit",
    ),
    "a policy of a device that is not shared": (
        resource_slice({"name": "g", "capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}}),
        "spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
    ),
    "a range without a default": (
        resource_slice(
            {
                "name": "g",
                "allowMultipleAllocations": True,
                "capacity": {"m": {"value": "4Gi", "requestPolicy": {"validRange": {"min": "1Gi"}}}},
            }
        ),
        "spec.devices[0].capacity[m].requestPolicy.default: Required value: required when validRange is defined",
    ),
    "a max that no step reaches": (
        resource_slice(
            {
                "name": "g",
                "allowMultipleAllocations": True,
                "capacity": {
                    "m": {
                        "value": "8Gi",
                        "requestPolicy": {
                            "default": "1Gi",
                            "validRange": {"min": "1Gi", "max": "4Gi", "step": "2Gi"},
                        },
                    }
                },
            }
        ),
        'spec.devices[0].capacity[m].requestPolicy.validRange.step: Invalid value: "4Gi": value is not a multiple of '
        "a given step (2Gi) from (1Gi)",
    ),
    "overlapping binding conditions": (
        resource_slice({"name": "g", "bindingConditions": ["a"], "bindingFailureConditions": ["a"]}),
        'spec.devices[0].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap '
        "with bindingConditions",
    ),
    "two places at once": (
        resource_slice({"name": "g"}, allNodes=True),
        'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, '
        "`perDeviceNodeSelection` is required, but multiple fields are set",
    ),
}


@pytest.mark.parametrize("obj", TAKEN.values(), ids=TAKEN)
def test_what_looks_wrong_and_is_taken(obj: dict[str, Any]) -> None:
    assert [str(p) for p in validate(obj)] == []


@pytest.mark.parametrize(("obj", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(obj: dict[str, Any], words: str) -> None:
    assert [str(p) for p in validate(obj)] == [words]


def test_a_claims_spec_never_changes_and_is_shown_as_go_shows_it() -> None:
    problems = spec_problems("ResourceClaim.resource.k8s.io", claim(), claim(exactly()))
    assert [str(p) for p in problems] == [
        'spec: Invalid value: {"Devices":{"Requests":null,"Constraints":null,"Config":null}}: field is immutable'
    ]


def test_a_claim_that_is_going_takes_no_more_pods() -> None:
    user = {"resource": "pods", "name": "p", "uid": "1"}
    old = {**claim(exactly()), "status": {"allocation": {}, "reservedFor": [user]}}
    old["metadata"] = {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    new = {**old, "status": {"allocation": {}, "reservedFor": [user, {**user, "uid": "2"}]}}
    assert [str(p) for p in status_problems(new, old, None)] == [
        "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or "
        "`deletionTimestamp` are set"
    ]


def test_what_drivers_said_goes_with_the_devices() -> None:
    device = {"driver": "d", "pool": "p", "device": "x"}
    before = {"allocation": {"devices": {"results": [{"request": "gpu", **device}]}}, "devices": [device]}
    assert without_deallocated({"devices": [device]}, before) == {}
    assert without_deallocated(before, before) is before
