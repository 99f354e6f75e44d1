"""What a claim's status says of its devices: results, configuration, and the nodes they can be used on.

Source: allocator_incubating.go Allocate, createNodeSelector (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID, uuid5

from fairway.kube.objects import Obj
from fairway.scheduling.devices.facts import Claim, Class, Request
from fairway.scheduling.devices.search import Chosen, Solution

# Shares of devices are named after their claim: nothing is drawn.
_SHARES = UUID("5c1b1c0e-9d5e-4a53-8f57-3f0a6c1f7a10")


def allocation_of(
    solution: Solution,
    index: int,
    claim: Claim,
    *,
    node: str,
    uid: str,
    class_of: Callable[[str], Class | None],
) -> Obj:
    """The allocation of the `index`-th claim. `uid`: the claim's."""
    chosen = solution.devices[index]
    devices: Obj = {}
    if chosen:
        devices["results"] = [_result(c, uid, number) for number, c in enumerate(chosen)]
    configs = [*_class_configs(solution, index, claim, class_of), *_claim_configs(solution, index, claim)]
    if configs:
        devices["config"] = configs
    selector = _node_selector(chosen, node)
    return {"devices": devices, **({"nodeSelector": selector} if selector is not None else {})}


def _result(chosen: Chosen, uid: str, number: int) -> Obj:
    device, request = chosen.device, chosen.request
    result: Obj = {
        "request": request.full_name,
        "driver": device.id.driver,
        "pool": device.id.pool,
        "device": device.id.device,
    }
    if request.admin:
        result["adminAccess"] = True
    if request.tolerations_obj:
        result["tolerations"] = request.tolerations_obj
    if device.binding:
        result["bindingConditions"] = list(device.binding)
    if device.failing:
        result["bindingFailureConditions"] = list(device.failing)
    if chosen.consumed is not None:
        result["shareID"] = str(uuid5(_SHARES, f"{uid}/{number}"))
        if chosen.consumed:
            result["consumedCapacity"] = {name: a.text for name, a in sorted(chosen.consumed.items())}
    return result


def _taken(solution: Solution, index: int, claim: Claim) -> Iterable[Request]:
    """Of each request the entry that was taken."""
    for number, (_, entries) in enumerate(claim.requests):
        yield entries[solution.alternatives[index][number]]


def _class_configs(
    solution: Solution, index: int, claim: Claim, class_of: Callable[[str], Class | None]
) -> list[Obj]:
    """Those of each class once, with all requests of that class."""
    by_class: dict[str, list[Obj]] = {}
    for request in _taken(solution, index, claim):
        of_class = class_of(request.class_name)
        if of_class is None:
            continue
        known = by_class.get(of_class.name)
        if known is None:
            by_class[of_class.name] = [
                {"source": "FromClass", "requests": [request.full_name], **c.obj} for c in of_class.configs
            ]
            continue
        for config in known:
            config["requests"] = [*config["requests"], request.full_name]
    return [config for configs in by_class.values() for config in configs]


def _claim_configs(solution: Solution, index: int, claim: Claim) -> list[Obj]:
    """In the claim's order; one that names several requests comes once for each."""
    found: list[Obj] = []
    for config in claim.configs:
        if not config.requests:
            found.append({"source": "FromClaim", **config.obj})
            continue
        made = {"source": "FromClaim", "requests": list(config.requests), **config.obj}
        for (name, _), taken in zip(claim.requests, _taken(solution, index, claim), strict=True):
            if name in config.requests or (taken.parent and taken.full_name in config.requests):
                found.append(made)
    return found


def _node_selector(chosen: Sequence[Chosen], node: str) -> Obj | None:
    """One term: the node itself, where a device is there alone; else what the devices' selectors ask together."""
    fields: list[Obj] = []
    expressions: list[Obj] = []
    for one in chosen:
        where = one.slice.where if one.slice.where is not None else one.device.where
        if where.node or one.device.binds_to_node:
            requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
        terms: Sequence[Obj] = (where.selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) == 1:
            _add_new(fields, terms[0].get("matchFields"))
            _add_new(expressions, terms[0].get("matchExpressions"))
    if not fields and not expressions:
        return None
    term: Obj = {}
    if expressions:
        term["matchExpressions"] = expressions
    if fields:
        term["matchFields"] = fields
    return {"nodeSelectorTerms": [term]}


def _add_new(to: list[Obj], requirements: Any) -> None:
    for requirement in requirements or ():
        if not any(_is_same(requirement, known) for known in to):
            to.append(requirement)


def _is_same(a: Obj, b: Obj) -> bool:
    if a.get("key") != b.get("key") or a.get("operator") != b.get("operator"):
        return False
    return set(a.get("values") or ()) == set(b.get("values") or ())
