"""A value as Go shows a struct in a message: every field, under its Go name, in the order of the type.

The table: a type's name on a line of its own, then `json:Go type` for each field. Types: `str int bool` with Go's zero
values, `*x` (null where absent), `[T]` and `{T}` (null where empty), `raw` (JSON as it is), names of other types.

Source: pkg/apis/resource/types.go, pkg/apis/core/types.go (v1.36).
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

from fairway.kube import quantity
from fairway.kube.problem import GoText

_TABLE: Final = """
DeviceAttribute
  int:IntValue *, bool:BoolValue *, string:StringValue *, version:VersionValue *, ints:IntValues [any],
  bools:BoolValues [any], strings:StringValues [any], versions:VersionValues [any]
ResourceClaimSpec
  devices:Devices DeviceClaim
DeviceClaim
  requests:Requests [DeviceRequest], constraints:Constraints [DeviceConstraint],
  config:Config [DeviceClaimConfiguration]
DeviceRequest
  name:Name str, exactly:Exactly *ExactDeviceRequest, firstAvailable:FirstAvailable [DeviceSubRequest]
ExactDeviceRequest
  deviceClassName:DeviceClassName str, selectors:Selectors [DeviceSelector], allocationMode:AllocationMode str,
  count:Count int, adminAccess:AdminAccess *, tolerations:Tolerations [DeviceToleration],
  capacity:Capacity *CapacityRequirements
DeviceSubRequest
  name:Name str, deviceClassName:DeviceClassName str, selectors:Selectors [DeviceSelector],
  allocationMode:AllocationMode str, count:Count int, tolerations:Tolerations [DeviceToleration],
  capacity:Capacity *CapacityRequirements
CapacityRequirements
  requests:Requests {qty}
DeviceSelector
  cel:CEL *CELDeviceSelector
CELDeviceSelector
  expression:Expression str
DeviceToleration
  key:Key str, operator:Operator str, value:Value str, effect:Effect str, tolerationSeconds:TolerationSeconds *
DeviceConstraint
  requests:Requests [any], matchAttribute:MatchAttribute *, distinctAttribute:DistinctAttribute *
DeviceClaimConfiguration
  requests:Requests [any], opaque:Opaque *OpaqueDeviceConfiguration
OpaqueDeviceConfiguration
  driver:Driver str, parameters:Parameters raw
ResourceClaimTemplateSpec
  metadata: meta, spec:Spec ResourceClaimSpec
AllocationResult
  devices:Devices DeviceAllocationResult, nodeSelector:NodeSelector *NodeSelector,
  allocationTimestamp:AllocationTimestamp *
DeviceAllocationResult
  results:Results [DeviceRequestAllocationResult], config:Config [DeviceAllocationConfiguration]
DeviceRequestAllocationResult
  request:Request str, driver:Driver str, pool:Pool str, device:Device str, adminAccess:AdminAccess *,
  tolerations:Tolerations [DeviceToleration], bindingConditions:BindingConditions [any],
  bindingFailureConditions:BindingFailureConditions [any], shareID:ShareID *, consumedCapacity:ConsumedCapacity {qty}
DeviceAllocationConfiguration
  source:Source str, requests:Requests [any], opaque:Opaque *OpaqueDeviceConfiguration
NodeSelector
  nodeSelectorTerms:NodeSelectorTerms [NodeSelectorTerm]
NodeSelectorTerm
  matchExpressions:MatchExpressions [NodeSelectorRequirement], matchFields:MatchFields [NodeSelectorRequirement]
NodeSelectorRequirement
  key:Key str, operator:Operator str, values:Values [any]
SharedDeviceID
  driver:Driver str, pool:Pool str, device:Device str, shareID:ShareID str
PodResourceClaim
  name:Name str, resourceClaimName:ResourceClaimName *, resourceClaimTemplateName:ResourceClaimTemplateName *
"""
_ZEROS: Final[dict[str, Any]] = {"str": "", "int": 0, "bool": False}


def go_text(type_name: str, value: Any) -> GoText:
    """The value as Go's JSON. `[T]`: a list of them."""
    return GoText(json.dumps(_shown(type_name, value), ensure_ascii=False, separators=(",", ":")))


def _shown(type_name: str, value: Any) -> Any:
    if type_name.startswith("*"):
        return None if value is None else _shown(type_name[1:] or "any", value)
    if type_name[0] in "[{":
        if not value:
            return None
        inner = type_name[1:-1]
        if isinstance(value, dict):
            return {key: _shown(inner, value[key]) for key in sorted(value)}
        return [_shown(inner, item) for item in value]
    if type_name in ("any", "raw"):
        return value
    if type_name == "qty":
        return quantity.canonical(value)
    if type_name in _ZEROS:
        return _ZEROS[type_name] if value is None else value
    return _struct(type_name, value or {})


def _struct(type_name: str, value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for member, go_name, kind in _types()[type_name]:
        if kind == "meta":
            # Metadata is embedded, and carries JSON names of its own.
            found.update(value.get(member) or {})
        else:
            found[go_name] = _shown(kind, value.get(member))
    return found


@cache
def _types() -> dict[str, tuple[tuple[str, str, str], ...]]:
    bodies: dict[str, str] = {}
    name = ""
    for line in _TABLE.strip().splitlines():
        if line.startswith("  "):
            bodies[name] += line.strip() + " "
        else:
            name = line
            bodies[name] = ""
    return {name: tuple(map(_field, body.rstrip(", ").split(","))) for name, body in bodies.items()}


def _field(text: str) -> tuple[str, str, str]:
    names, _, kind = text.strip().rpartition(" ")
    member, _, go_name = names.partition(":")
    return member.strip(), go_name.strip(), kind.strip()
