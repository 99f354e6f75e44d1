"""Which requests a policy, a binding or a webhook is about: rules, namespace selector, object selector.

Source: apiserver pkg/admission/plugin/policy/matching/matching.go, webhook/predicates (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fairway.admission.request import CREATE, UPDATE, AdmissionRequest, Gvk, Gvr
from fairway.cluster.actions import View
from fairway.kube.kinds import kind_named
from fairway.kube.labels import EVERYTHING, Selector, label_selector
from fairway.kube.objects import Key, Obj, labels_of

ALL = "*"
NAME_LABEL = "kubernetes.io/metadata.name"

# Configuration of admission is never subject to admission by configuration, or it could not be mended.
_EXEMPT_GROUP = "admissionregistration.k8s.io"
_EXEMPT_KINDS = frozenset(
    f"{how}{what}"
    for how in ("Validating", "Mutating")
    for what in ("WebhookConfiguration", "AdmissionPolicy", "AdmissionPolicyBinding")
)


class Match(NamedTuple):
    """The resource and kind under which a request matched: another version, for an equivalent match."""

    resource: Gvr
    kind: Gvk


class _Rule(NamedTuple):
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    names: frozenset[str]
    scope: str


class Matcher(NamedTuple):
    """Compiled match constraints. `rules` None: every resource."""

    rules: tuple[_Rule, ...] | None
    excluded: tuple[_Rule, ...]
    namespaces: Selector
    objects: Selector
    is_exact: bool

    def match(self, view: View, request: AdmissionRequest) -> Match | None:
        """How a request matches, or that it does not. Cheapest tests first."""
        found = Match(request.resource, request.kind) if self.rules is None else None
        if self.rules is not None:
            found = self._matched(self.rules, request)
        if found is None or self._matched(self.excluded, request) is not None:
            return None
        if self.objects.requirements and not self._selects_object(request):
            return None
        if self.namespaces.requirements and not self._selects_namespace(view, request):
            return None
        return found

    def _matched(self, rules: tuple[_Rule, ...], request: AdmissionRequest) -> Match | None:
        for rule in rules:
            if _is_about(rule, request) and _has(rule.versions, request.resource.version):
                return Match(request.resource, request.kind)
        if self.is_exact:
            return None
        return next((m for rule in rules if (m := _equivalent(rule, request)) is not None), None)

    def _selects_object(self, request: AdmissionRequest) -> bool:
        return any(
            obj is not None and self.objects.matches(labels_of(obj)) for obj in (request.obj, request.old)
        )

    def _selects_namespace(self, view: View, request: AdmissionRequest) -> bool:
        if not request.namespace and request.resource.resource != "namespaces":
            return True
        return self.namespaces.matches(namespace_labels(view, request))


def is_exempt(request: AdmissionRequest) -> bool:
    """Whether neither policies nor webhooks see this request."""
    return request.kind.group == _EXEMPT_GROUP and request.kind.kind in _EXEMPT_KINDS


def matcher_of(constraints: Mapping[str, Any] | None) -> Matcher:
    """From `matchConstraints` or `matchResources`."""
    raw = constraints or {}
    rules = raw.get("resourceRules")
    return Matcher(
        tuple(_rule(r) for r in rules) if rules else None,
        tuple(_rule(r) for r in raw.get("excludeResourceRules") or ()),
        _selector(raw.get("namespaceSelector")),
        _selector(raw.get("objectSelector")),
        raw.get("matchPolicy") == "Exact",
    )


def webhook_matcher(webhook: Mapping[str, Any]) -> Matcher:
    """From a webhook's own fields; one without rules is never called."""
    return Matcher(
        tuple(_rule(r) for r in webhook.get("rules") or ()),
        (),
        _selector(webhook.get("namespaceSelector")),
        _selector(webhook.get("objectSelector")),
        webhook.get("matchPolicy") == "Exact",
    )


def namespace_labels(view: View, request: AdmissionRequest) -> Mapping[str, str]:
    """Labels of the request's namespace; of a namespace being written, those it is about to have."""
    is_namespace = request.resource.resource == "namespaces" and not request.resource.group
    if is_namespace and not request.subresource and request.operation in (CREATE, UPDATE):
        return labels_of(request.obj or {})
    namespace = namespace_of_request(view, request)
    # Every namespace has its name as a label; one nobody created (simulations leave them out) has that alone.
    return {NAME_LABEL: request.namespace} if namespace is None else labels_of(namespace)


def namespace_of_request(view: View, request: AdmissionRequest) -> Obj | None:
    return view.get(Key("Namespace", "", request.namespace or request.name))


def _selector(raw: Any) -> Selector:
    return label_selector(raw) if raw else EVERYTHING


def _rule(raw: Mapping[str, Any]) -> _Rule:
    resources = tuple((r.partition("/")[0], r.partition("/")[2]) for r in raw.get("resources") or ())
    return _Rule(
        frozenset(raw.get("operations") or ()),
        frozenset(raw.get("apiGroups") or ()),
        frozenset(raw.get("apiVersions") or ()),
        resources,
        frozenset(raw.get("resourceNames") or ()),
        raw.get("scope") or ALL,
    )


def _has(members: frozenset[str], wanted: str) -> bool:
    return wanted in members or ALL in members


def _is_about(rule: _Rule, request: AdmissionRequest) -> bool:
    """Everything but the version."""
    resource = request.resource
    if not _has(rule.groups, resource.group) or not _has(rule.operations, request.operation):
        return False
    if not any(r in (ALL, resource.resource) and s in (ALL, request.subresource) for r, s in rule.resources):
        return False
    if rule.names and request.name not in rule.names:
        return False
    if rule.scope == ALL:
        return True
    is_cluster = not request.namespace or (resource.resource == "namespaces" and not resource.group)
    return is_cluster == (rule.scope == "Cluster")


def _equivalent(rule: _Rule, request: AdmissionRequest) -> Match | None:
    """The same resource in another served version.

    Unlike kube: the object is handed over as it came, not converted to the version the rule asks for.
    """
    if not _is_about(rule, request):
        return None
    kind = kind_named(
        f"{request.kind.kind}.{request.kind.group}" if request.kind.group else request.kind.kind
    )
    version = next((v for v in kind.versions if v in rule.versions), None)
    if version is None:
        return None
    return Match(request.resource._replace(version=version), request.kind._replace(version=version))
