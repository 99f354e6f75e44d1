"""Which pods the stable and canary Services lead to, and how an HTTPRoute splits requests between them.

Traffic routing here is the Gateway API's (the plugin `argoproj-labs/gatewayAPI`); other routers are left out.

Source: rollout/trafficrouting.go, rollout/service.go; argoproj-labs/rollouts-plugin-trafficrouter-gatewayapi.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.cluster.actions import Action, Patch, View
from fairway.kube.objects import Key, Obj, labels_of, spec_of
from fairway.workloads.rollouts.counts import is_at_wanted
from fairway.workloads.rollouts.facts import HASH, MOST_WEIGHT, Facts, available_of, service_of

ROUTE: Final = "HTTPRoute.gateway.networking.k8s.io"
PLUGIN: Final = "argoproj-labs/gatewayAPI"


def route_names(facts: Facts) -> list[Key]:
    """The HTTPRoutes that are to have the weights."""
    given = ((facts.canary.get("trafficRouting") or {}).get("plugins") or {}).get(PLUGIN) or {}
    namespace = given.get("namespace") or facts.rollout["metadata"]["namespace"]
    names = [one.get("name") for one in given.get("httpRoutes") or ()] or [given.get("httpRoute")]
    return [Key(ROUTE, namespace, name) for name in names if name]


def services(view: View, facts: Facts) -> list[Action]:
    """The canary's Service leads to the new version once some of it is there, the stable one to the stable."""
    if not facts.canary.get("canaryService"):
        return []
    actions: list[Action] = []
    to_new = facts.new if available_of(facts.new) > 0 and not facts.is_aborted else None
    first = facts.stable is None
    for which, target in (
        ("stableService", facts.new if first else facts.stable),
        ("canaryService", to_new or facts.stable),
    ):
        service = service_of(view, facts, which)
        if service is None or target is None:
            continue
        hash_ = labels_of(target).get(HASH, "")
        if (spec_of(service).get("selector") or {}).get(HASH) != hash_:
            key = Key("Service", service["metadata"]["namespace"], service["metadata"]["name"])
            actions.append(Patch(key, {"spec": {"selector": {HASH: hash_}}}))
    return actions


def wanted_weight(facts: Facts) -> int:
    """Of the canary, now. Never more than what its pods are there for."""
    if facts.is_promoted or facts.is_aborted or available_of(facts.new) == 0 or facts.stable is None:
        return 0
    if facts.status.get("promoteFull"):
        return int(
            ((facts.status.get("canary") or {}).get("weights") or {}).get("canary", {}).get("weight", 0)
        )
    if not is_at_wanted(facts):
        return facts.weight_before(facts.index - 1)
    return facts.weight_now()


def routed(view: View, facts: Facts, weight: int) -> list[Action]:
    """The HTTPRoutes' weights brought to it."""
    names = {
        facts.canary.get("canaryService"): weight,
        facts.canary.get("stableService"): MOST_WEIGHT - weight,
    }
    actions: list[Action] = []
    for key in route_names(facts):
        route = view.get(key)
        if route is None:
            continue
        rules = [_rule(rule, names) for rule in spec_of(route).get("rules") or ()]
        if rules != spec_of(route).get("rules"):
            actions.append(Patch(key, {"spec": {"rules": rules}}))
    return actions


def _rule(rule: Obj, weights: dict[Any, int]) -> Obj:
    backends = rule.get("backendRefs")
    if not backends:
        return rule
    changed = [{**b, "weight": weights[b["name"]]} if b.get("name") in weights else b for b in backends]
    return {**rule, "backendRefs": changed}


def weights_status(facts: Facts, weight: int) -> dict[str, Any]:
    """For `status.canary.weights`."""
    canary = {"weight": weight, "podTemplateHash": facts.hash}
    if facts.canary.get("canaryService"):
        canary["serviceName"] = facts.canary["canaryService"]
    stable = {"weight": MOST_WEIGHT - weight, "podTemplateHash": facts.status.get("stableRS") or facts.hash}
    if facts.canary.get("stableService"):
        stable["serviceName"] = facts.canary["stableService"]
    return {"canary": canary, "stable": stable}
