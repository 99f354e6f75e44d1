"""Lines of role bindings, webhooks, admission policies and request priorities.

Source: pkg/printers/internalversion/printers.go; pkg/apis/rbac/helpers.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.apiserver.tables.wording import NONE, UNSET, age, condition_status, name
from fairway.kube.labels import label_selector
from fairway.kube.objects import Obj, spec_of, status_of

BINDING = "Name:name | Role | Age | Users* | Groups* | ServiceAccounts*"
WEBHOOKS = "Name:name | Webhooks:integer | Age"
VALIDATING_POLICY = "Name:name | Validations:integer | ParamKind | Age"
MUTATING_POLICY = "Name:name | Mutations:integer | ParamKind | Age"
POLICY_BINDING = "Name:name | PolicyName | ParamRef | Age"
FLOW_SCHEMA = "Name:name | PriorityLevel | MatchingPrecedence | DistinguisherMethod | Age | MissingPL"
PRIORITY_LEVEL = "Name:name | Type | NominalConcurrencyShares | Queues | HandSize | QueueLengthLimit | Age"


def binding(obj: Obj, now_us: int) -> list[Any]:
    role = obj.get("roleRef") or {}
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        text = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            text = f"{subject.get('namespace', '')}/{text}"
        found.setdefault(subject.get("kind", ""), []).append(text)
    return [
        name(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now_us),
        *(", ".join(found[kind]) for kind in ("User", "Group", "ServiceAccount")),
    ]


def webhooks(obj: Obj, now_us: int) -> list[Any]:
    return [name(obj), len(obj.get("webhooks") or ()), age(obj, now_us)]


def validating_policy(obj: Obj, now_us: int) -> list[Any]:
    return _policy(obj, "validations", now_us)


def mutating_policy(obj: Obj, now_us: int) -> list[Any]:
    return _policy(obj, "mutations", now_us)


def _policy(obj: Obj, rules: str, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    kind = spec.get("paramKind")
    text = UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
    return [name(obj), len(spec.get(rules) or ()), text, age(obj, now_us)]


def policy_binding(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    reference, text = spec.get("paramRef"), UNSET
    if reference is not None and reference.get("name"):
        text = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference is not None and reference.get("selector") is not None:
        # Unlike kube: a selector is written as kubectl writes selectors, not as Go dumps the struct.
        text = str(label_selector(reference["selector"]))
    return [name(obj), spec.get("policyName") or "", text, age(obj, now_us)]


def flow_schema(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    method = spec.get("distinguisherMethod")
    return [
        name(obj),
        (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
        spec.get("matchingPrecedence") or 0,
        NONE if method is None else method.get("type", ""),
        age(obj, now_us),
        condition_status(status_of(obj).get("conditions"), "Dangling") or "?",
    ]


def priority_level(obj: Obj, now_us: int) -> list[Any]:
    spec = spec_of(obj)
    limited = spec.get("limited")
    shares = NONE if limited is None else limited.get("nominalConcurrencyShares", 0)
    queuing = ((limited or {}).get("limitResponse") or {}).get("queuing")
    sizes = [
        NONE if queuing is None else queuing.get(key, 0) for key in ("queues", "handSize", "queueLengthLimit")
    ]
    return [name(obj), spec.get("type") or "", shares, *sizes, age(obj, now_us)]
