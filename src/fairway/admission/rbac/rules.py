"""Policy rules: does one rule allow a request, and do rules cover other rules?

Source: pkg/apis/rbac/v1/evaluation_helpers.go, component-helpers auth/rbac/validation/policy_comparator.go,
pkg/registry/rbac/validation/policy_compact.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fairway.admission.rbac.attributes import Attributes, quoted

ALL = "*"


class Rule(NamedTuple):
    """A PolicyRule. Membership is asked of the frozen sets, order is kept in the tuples."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def raw(self) -> dict[str, Any]:
        """The rule as an object has it."""
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {name: list(values) for name, values in fields.items() if values}


def parse_rules(raw: Iterable[Any] | None) -> tuple[Rule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(
        Rule(
            tuple(r.get("verbs") or ()),
            tuple(r.get("apiGroups") or ()),
            tuple(r.get("resources") or ()),
            tuple(r.get("resourceNames") or ()),
            tuple(r.get("nonResourceURLs") or ()),
        )
        for r in raw or ()
    )


def allows(rule: Rule, a: Attributes) -> bool:
    """Whether a rule permits a request."""
    if a.verb not in rule.verbs and ALL not in rule.verbs:
        return False
    if not a.resource:
        return _matches_url(rule, a.path)
    if a.group not in rule.groups and ALL not in rule.groups:
        return False
    if rule.names and a.name not in rule.names:
        return False
    return _matches_resource(rule, a.resource, a.subresource)


def _matches_resource(rule: Rule, resource: str, subresource: str) -> bool:
    if ALL in rule.resources:
        return True
    if not subresource:
        return resource in rule.resources
    return f"{resource}/{subresource}" in rule.resources or f"*/{subresource}" in rule.resources


def _matches_url(rule: Rule, path: str) -> bool:
    return any(
        url in (ALL, path) or (url.endswith(ALL) and path.startswith(url.rstrip(ALL))) for url in rule.urls
    )


def uncovered(owned: Iterable[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The smallest pieces of `wanted` that no rule of `owned` covers. O(owned × pieces)."""
    having = list(owned)
    return [piece for rule in wanted for piece in _pieces(rule) if not any(_covers(r, piece) for r in having)]


def _pieces(rule: Rule) -> Iterable[Rule]:
    """One group, resource, verb and name each; one URL and verb each."""
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for name in rule.names or (None,):
                    yield Rule((verb,), (group,), (resource,), () if name is None else (name,))
    for url in rule.urls:
        for verb in rule.verbs:
            yield Rule((verb,), urls=(url,))


def _covers(owned: Rule, piece: Rule) -> bool:
    if ALL not in owned.verbs and piece.verbs[0] not in owned.verbs:
        return False
    if piece.urls:
        return _covers_url(owned, piece.urls[0])
    if ALL not in owned.groups and piece.groups[0] not in owned.groups:
        return False
    if owned.names and (not piece.names or piece.names[0] not in owned.names):
        return False
    if piece.resources[0] in owned.resources or ALL in owned.resources:
        return True
    _, slash, subresource = piece.resources[0].partition("/")
    return bool(slash) and f"*/{subresource}" in owned.resources


def _covers_url(owned: Rule, url: str) -> bool:
    return any(own == url or (own.endswith(ALL) and url.startswith(own.rstrip(ALL))) for own in owned.urls)


def described(missing: Iterable[Rule]) -> list[str]:
    """The missing pieces, verbs of one resource joined, as `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`."""
    joined: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for piece in missing:
        verbs = joined.setdefault((piece.groups, piece.resources, piece.urls, piece.names), [])
        verbs += [v for v in piece.verbs if v not in verbs]
    return sorted({_compact(g, r, u, n, tuple(verbs)) for (g, r, u, n), verbs in joined.items()})


def _compact(
    groups: tuple[str, ...],
    resources: tuple[str, ...],
    urls: tuple[str, ...],
    names: tuple[str, ...],
    verbs: tuple[str, ...],
) -> str:
    parts = (
        ("APIGroups", groups),
        ("Resources", resources),
        ("NonResourceURLs", urls),
        ("ResourceNames", names),
        ("Verbs", verbs),
    )
    return "{" + ", ".join(f"{name}:{quoted_list(values)}" for name, values in parts if values) + "}"


def quoted_list(values: Iterable[str]) -> str:
    """As Go prints a string slice with %q: `["a" "b"]`."""
    return f"[{' '.join(quoted(v) for v in values)}]"
