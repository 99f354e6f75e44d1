"""FlowSchemas and PriorityLevelConfigurations.

Source: pkg/apis/flowcontrol/validation/validation.go (v1.36).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.objects import Obj, name_of, spec_of
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.metadata import object_meta

Part = Mapping[str, Any]
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_METHODS = ("ByNamespace", "ByUser")
_SUBJECTS = ("Group", "ServiceAccount", "User")
_SUBJECT_MEMBERS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_MAX_PRECEDENCE = 10_000
_MAX_QUEUES = 10_000_000
_MAX_ENTROPY_BITS = 60


def flow_schema(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    spec, at = spec_of(obj), ("spec",)
    precedence, where = spec.get("matchingPrecedence", 1000), (*at, "matchingPrecedence")
    if precedence <= 0:
        out.invalid(where, precedence, "must be a positive value")
    if precedence > _MAX_PRECEDENCE:
        out.invalid(where, precedence, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence == 1 and name_of(obj) != "exempt":
        said = "only the schema named 'exempt' may have matchingPrecedence 1"
        out.invalid(where, precedence, said)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        shown = Typed("flowcontrol.FlowDistinguisherMethod", method)
        out.unsupported((*at, "distinguisherMethod", "type"), shown, _METHODS)
    level = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
    place = (*at, "priorityLevelConfiguration", "name")
    if level:
        texts.dns_subdomain(level, place, out)
    else:
        out.required(place, "must reference a priority level")
    for index, rule in enumerate(spec.get("rules") or ()):
        _rules(rule, (*at, "rules", index), out)


def flow_schema_update(new: Obj, _old: Obj, out: Faults) -> None:
    flow_schema(new, out)


def _rules(rule: Part, at: Path, out: Faults) -> None:
    if not rule.get("subjects"):
        out.required((*at, "subjects"), "subjects must contain at least one value")
    for index, subject in enumerate(rule.get("subjects") or ()):
        _subject(subject, (*at, "subjects", index), out)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        out.required(at, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, found in enumerate(rule.get("resourceRules") or ()):
        _resource_rule(found, (*at, "resourceRules", index), out)
    for index, found in enumerate(rule.get("nonResourceRules") or ()):
        _url_rule(found, (*at, "nonResourceRules", index), out)


def _subject(subject: Part, at: Path, out: Faults) -> None:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECT_MEMBERS:
        out.unsupported((*at, "kind"), kind, _SUBJECTS)
        return
    member = _SUBJECT_MEMBERS[kind]
    found, where = subject.get(member), (*at, member)
    if found is None:
        out.required(where, f"{member} is required when subject kind is '{kind}'")
    else:
        name = found.get("name") or ""
        if not name:
            out.required((*where, "name"))
        elif kind == "ServiceAccount" and name != "*":
            texts.dns_subdomain(name, (*where, "name"), out)
        if kind == "ServiceAccount" and found.get("namespace"):
            texts.dns_label(found["namespace"], (*where, "namespace"), out)
        elif kind == "ServiceAccount":
            out.required((*where, "namespace"), "must specify namespace for service account")
    for other in ("serviceAccount", "user", "group"):
        if other != member and subject.get(other) is not None:
            needed = next(k for k, m in _SUBJECT_MEMBERS.items() if m == other)
            out.forbidden((*at, other), f"{other} is forbidden when subject kind is not '{needed}'")


def _verbs(verbs: Sequence[str], at: Path, out: Faults) -> None:
    if not verbs:
        out.required(at, "verbs must contain at least one value")
    elif "*" in verbs:
        if len(verbs) > 1:
            out.invalid(at, verbs, "if '*' is present, must not specify other verbs")
    elif not set(verbs) <= set(_VERBS):
        out.unsupported(at, verbs, _VERBS)


def _resource_rule(rule: Part, at: Path, out: Faults) -> None:
    _verbs(rule.get("verbs") or (), (*at, "verbs"), out)
    for name, one, other in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        found = rule.get(name) or ()
        if not found:
            out.required((*at, name), f"resource rules must supply at least one {one}")
        elif len(found) > 1 and "*" in found:
            out.invalid((*at, name), found, f"if '*' is present, must not specify other {other}")
    spaces, where = rule.get("namespaces") or (), (*at, "namespaces")
    if not spaces and not rule.get("clusterScope"):
        said = "resource rules that are not cluster scoped must supply at least one namespace"
        out.required(where, said)
    elif "*" in spaces:
        if len(spaces) > 1:
            out.invalid(where, spaces, "if '*' is present, must not specify other namespaces")
    else:
        for index, space in enumerate(spaces):
            said = "each member of this list must be '*' or a DNS-1123 label; "
            out.invalids((*where, index), space, [said + why for why in names.dns_label(space)])


def _url_rule(rule: Part, at: Path, out: Faults) -> None:
    _verbs(rule.get("verbs") or (), (*at, "verbs"), out)
    urls, where = rule.get("nonResourceURLs") or (), (*at, "nonResourceURLs")
    if not urls:
        out.required(where, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        if len(urls) > 1:
            out.invalid(where, urls, "if '*' is present, must not specify other non-resource URLs")
    else:
        for index, url in enumerate(urls):
            if said := _wrong_url(url):
                out.invalid((*where, index), url, said)


def _wrong_url(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    is_suffix = url.count("*") == 1 and url.endswith("/*")
    return "" if "*" not in url or is_suffix else "wildcard can only do suffix matching"


def priority_level(obj: Obj, out: Faults) -> None:
    object_meta(obj, out, namespaced=False)
    spec, at, name = spec_of(obj), ("spec",), name_of(obj)
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    if (name == "exempt") != (kind == "Exempt"):
        out.invalid((*at, "type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Exempt":
        if limited is not None:
            out.forbidden((*at, "limited"), "must be nil if the type is not Limited")
        if exempt is not None:
            _shares(exempt, (*at, "exempt"), out)
            _percent(exempt, (*at, "exempt"), out)
    elif kind == "Limited":
        if exempt is not None:
            out.forbidden((*at, "exempt"), "must be nil if the type is Limited")
        if limited is None:
            out.required((*at, "limited"), "must not be empty when type is Limited")
        else:
            _limited(limited, (*at, "limited"), out)
    else:
        out.unsupported((*at, "type"), kind, ("Exempt", "Limited"))


def priority_level_update(new: Obj, _old: Obj, out: Faults) -> None:
    priority_level(new, out)


def _shares(found: Part, at: Path, out: Faults) -> None:
    if (found.get("nominalConcurrencyShares") or 0) < 0:
        said = "must be a non-negative integer"
        out.invalid((*at, "nominalConcurrencyShares"), found["nominalConcurrencyShares"], said)


def _percent(found: Part, at: Path, out: Faults) -> None:
    share = found.get("lendablePercent")
    if share is not None and not 0 <= share <= 100:
        out.invalid((*at, "lendablePercent"), share, "must be between 0 and 100, inclusive")


def _limited(found: Part, at: Path, out: Faults) -> None:
    _shares(found, at, out)
    response, where = found.get("limitResponse") or {}, (*at, "limitResponse")
    kind, queuing = response.get("type") or "", response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            said = "must be nil if limited.limitResponse.type is not Limited"
            out.forbidden((*where, "queuing"), said)
    elif kind == "Queue":
        if queuing is None:
            said = "must not be empty if limited.limitResponse.type is Limited"
            out.required((*where, "queuing"), said)
        else:
            _queuing(queuing, (*where, "queuing"), out)
    else:
        out.unsupported((*where, "type"), kind, ("Queue", "Reject"))
    _percent(found, at, out)
    borrowing = found.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        said = "if specified, must be a non-negative integer"
        out.invalid((*at, "borrowingLimitPercent"), borrowing, said)


def _queuing(found: Part, at: Path, out: Faults) -> None:
    length, queues, hand = (
        found.get("queueLengthLimit", 50),
        found.get("queues", 64),
        found.get("handSize", 8),
    )
    if length <= 0:
        out.invalid((*at, "queueLengthLimit"), length, "must be positive")
    if queues <= 0:
        out.invalid((*at, "queues"), queues, "must be positive")
    elif queues > _MAX_QUEUES:
        out.invalid((*at, "queues"), queues, f"must not be greater than {_MAX_QUEUES}")
    where = (*at, "handSize")
    if hand <= 0:
        out.invalid(where, hand, "must be positive")
    elif hand > queues:
        out.invalid(where, hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _MAX_ENTROPY_BITS:
        said = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than "
            f"{_MAX_ENTROPY_BITS}"
        )
        out.invalid(where, hand, said)
