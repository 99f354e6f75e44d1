"""What does this server serve: which resources, in which versions, with which verbs and subresources?

Built-in kinds come from `kube.kinds`; custom ones from the CustomResourceDefinitions that are established, and
win over a built-in of the same name. `Resources.generation` rises when the set changes: discovery and OpenAPI
documents are cached by it.

Source: kube-apiserver's installed APIs and kubectl api-resources, v1.36.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fairway.kube import published
from fairway.kube.kinds import BY_GROUP_KIND, Kind
from fairway.kube.objects import Obj

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CRD = "CustomResourceDefinition.apiextensions.k8s.io"
_READ_WRITE = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """`status`, `scale`, …: its verbs, and the kind it speaks where that is another one (`group/version`, kind)."""

    name: str
    verbs: tuple[str, ...]
    api_version: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one version. `crd` is the definition of a custom one, `given` its entry there.

    Kinds that other projects publish are custom ones too: without a `crd`, as long as nobody installs one.
    """

    kind: Kind
    version: str
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    crd: Obj | None = None
    given: Obj | None = None
    is_published: bool = False
    storage_kind: str = ""
    """The group kind it is stored under, where another API shows the same objects (events)."""

    @property
    def group(self) -> str:
        return self.kind.group

    @property
    def api_version(self) -> str:
        return f"{self.kind.group}/{self.version}" if self.kind.group else self.version

    @property
    def is_custom(self) -> bool:
        """Whether it follows a CustomResourceDefinition: an installed one, or a published one."""
        return self.crd is not None or self.is_published

    @property
    def crd_version(self) -> Obj | None:
        """What its definition says of this version. A published one is read when it is first asked for."""
        return published.entry(self.kind.group_kind, self.version) if self.is_published else self.given

    @property
    def has_strategic_merge(self) -> bool:
        """Kubernetes' own kinds have; custom ones have not."""
        return not self.is_custom and not is_extra(self.group)

    @property
    def gk(self) -> str:
        return self.storage_kind or self.kind.group_kind

    def subresource(self, name: str) -> Subresource | None:
        return next((s for s in self.subresources if s.name == name), None)


_STATUS = Subresource("status", _READ_WRITE)
_SCALE = Subresource("scale", _READ_WRITE, "autoscaling/v1", "Scale")
_WITH_STATUS = frozenset(
    (
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "ReplicationController",
        "ResourceQuota",
        "Service",
        "DaemonSet.apps",
        "Deployment.apps",
        "ReplicaSet.apps",
        "StatefulSet.apps",
        "CronJob.batch",
        "Job.batch",
        "HorizontalPodAutoscaler.autoscaling",
        "PodDisruptionBudget.policy",
        "Ingress.networking.k8s.io",
        "CustomResourceDefinition.apiextensions.k8s.io",
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
        "CertificateSigningRequest.certificates.k8s.io",
        "ResourceClaim.resource.k8s.io",
        "VolumeAttachment.storage.k8s.io",
        "APIService.apiregistration.k8s.io",
        "FlowSchema.flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
        "ServiceCIDR.networking.k8s.io",
    )
)
_WITH_SCALE = frozenset(["Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "ReplicationController"])
_CONNECT = ("create", "get")
_VERBS = {
    "ComponentStatus": ("get", "list"),
    "Namespace": ("create", "delete", "get", "list", "patch", "update", "watch"),
}
_PROXY = ("create", "delete", "get", "patch", "update")
_SPECIAL: dict[str, tuple[Subresource, ...]] = {
    "Pod": (
        Subresource("attach", _CONNECT, "v1", "PodAttachOptions"),
        Subresource("binding", ("create",), "v1", "Binding"),
        Subresource("ephemeralcontainers", _READ_WRITE),
        Subresource("eviction", ("create",), "policy/v1", "Eviction"),
        Subresource("exec", _CONNECT, "v1", "PodExecOptions"),
        Subresource("log", ("get",)),
        Subresource("portforward", _CONNECT, "v1", "PodPortForwardOptions"),
        Subresource("proxy", _PROXY, "v1", "PodProxyOptions"),
        Subresource("resize", _READ_WRITE),
    ),
    "Service": (Subresource("proxy", _PROXY, "v1", "ServiceProxyOptions"),),
    "Node": (Subresource("proxy", _PROXY, "v1", "NodeProxyOptions"),),
    "Namespace": (Subresource("finalize", ("update",)),),
    "ServiceAccount": (Subresource("token", ("create",), "authentication.k8s.io/v1", "TokenRequest"),),
    "CertificateSigningRequest.certificates.k8s.io": (Subresource("approval", _READ_WRITE),),
}
_ALL_CATEGORY = frozenset(
    (
        "Pod",
        "ReplicationController",
        "Service",
        "DaemonSet.apps",
        "Deployment.apps",
        "ReplicaSet.apps",
        "StatefulSet.apps",
        "CronJob.batch",
        "Job.batch",
        "HorizontalPodAutoscaler.autoscaling",
    )
)
_EXTENSIONS = frozenset(("apiextensions.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io"))

# Kinds that only answer questions: POSTed, never stored. `kind plural scope`.
REVIEWS = {
    "authentication.k8s.io": (
        ("SelfSubjectReview", "selfsubjectreviews", False),
        ("TokenReview", "tokenreviews", False),
    ),
    "authorization.k8s.io": (
        ("LocalSubjectAccessReview", "localsubjectaccessreviews", True),
        ("SelfSubjectAccessReview", "selfsubjectaccessreviews", False),
        ("SelfSubjectRulesReview", "selfsubjectrulesreviews", False),
        ("SubjectAccessReview", "subjectaccessreviews", False),
    ),
    "": (("Binding", "bindings", True),),
}

METRICS_GROUP = "metrics.k8s.io"
# Resources that are worked out, never stored: `kind plural scope`.
_COMPUTED = (("NodeMetrics", "nodes", False), ("PodMetrics", "pods", True))

# Discovery lists groups in this order, then the others by name. Source: kube-aggregator's APIService priorities.
_GROUP_ORDER = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
)


@dataclass(slots=True)
class Resources:
    """Every resource served, by `(group, version, plural)`. `serves_metrics`: whether metrics-server is there."""

    serves_metrics: bool = True
    generation: int = 0
    by_route: dict[tuple[str, str, str], Resource] = field(default_factory=dict)
    preferred: dict[str, list[str]] = field(default_factory=dict)
    """Versions of every group in order of preference; groups in discovery's order."""
    _builtin: dict[tuple[str, str, str], Resource] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._builtin = _built_in()
        if self.serves_metrics:
            for name, plural, namespaced in _COMPUTED:
                computed = Kind(METRICS_GROUP, name, plural, namespaced, ("v1beta1",))
                self._builtin[(METRICS_GROUP, "v1beta1", plural)] = Resource(
                    computed, "v1beta1", ("get", "list")
                )
        self.set_definitions([])

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self.by_route.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        group, _, version = api_version.rpartition("/")
        for resource in self.by_route.values():
            if resource.kind.kind == kind and resource.group == group and resource.version == version:
                return resource
        return None

    def of_group(self, group: str, version: str) -> list[Resource]:
        found = [r for (g, v, _), r in self.by_route.items() if g == group and v == version]
        return sorted(found, key=lambda r: r.kind.plural)

    def set_definitions(self, definitions: list[Obj]) -> None:
        """Serve these established CustomResourceDefinitions besides the built-in kinds."""
        routes = dict(self._builtin)
        custom_kinds: dict[str, Kind] = {}
        for crd in definitions:
            for resource in _custom(crd):
                routes[(resource.group, resource.version, resource.kind.plural)] = resource
                custom_kinds[resource.kind.group_kind] = resource.kind
        self._declare(custom_kinds)
        self.by_route = routes
        self.preferred = _versions(routes)
        self.generation += 1

    def _declare(self, kinds: dict[str, Kind]) -> None:
        """Tell `kube.kinds`, which names resources in the sentences of every other room."""
        for gk in _DECLARED - kinds.keys():
            BY_GROUP_KIND.pop(gk, None)
            if gk in _SHADOWED:
                BY_GROUP_KIND[gk] = _SHADOWED.pop(gk)
        for gk, kind in kinds.items():
            before = BY_GROUP_KIND.get(gk)
            if before is not None and gk not in _DECLARED:
                _SHADOWED[gk] = before
            BY_GROUP_KIND[gk] = kind
        _DECLARED.clear()
        _DECLARED.update(kinds)


# Which kinds of `kube.kinds` come from definitions, and the built-in ones they stand in front of. The registry of
# kinds is one per process, and so is a server's set of definitions.
_DECLARED: set[str] = set()
_SHADOWED: dict[str, Kind] = {}


def _built_in() -> dict[tuple[str, str, str], Resource]:
    routes = {}
    for kind in list(BY_GROUP_KIND.values()):
        for version in kind.versions:
            known = published.kinds().get(kind.group_kind)
            resource = _standard(kind, version) if known is None else _published(kind, known, version)
            routes[(kind.group, version, kind.plural)] = resource
    for group, rows in REVIEWS.items():
        for name, plural, namespaced in rows:
            review = Kind(group, name, plural, namespaced, ("v1",))
            routes[(group, "v1", plural)] = Resource(review, "v1", ("create",), singular=name.lower())
    events = Kind("events.k8s.io", "Event", "events", True, ("v1",), ("ev",))
    routes[("events.k8s.io", "v1", "events")] = Resource(events, "v1", singular="event", storage_kind="Event")
    return routes


def _standard(kind: Kind, version: str) -> Resource:
    gk = kind.group_kind
    subresources = list(_SPECIAL.get(gk, ()))
    # Kinds outside Kubernetes' own groups are custom resources elsewhere, and most of those have a status.
    if gk in _WITH_STATUS or is_extra(kind.group):
        subresources.append(_STATUS)
    if gk in _WITH_SCALE:
        subresources.append(_SCALE)
    categories: tuple[str, ...] = ("all",) if gk in _ALL_CATEGORY else ()
    if kind.group in _EXTENSIONS:
        categories = ("api-extensions",)
    return Resource(
        kind,
        version,
        _VERBS.get(gk, ALL_VERBS),
        subresources=tuple(sorted(subresources, key=lambda s: s.name)),
        categories=categories,
        singular=kind.kind.lower(),
    )


def _published(kind: Kind, known: published.Published, name: str) -> Resource:
    version = known.version(name)
    assert version is not None
    subresources = [_SCALE] if version.scale is not None else []
    subresources += [_STATUS] if version.status else []
    return Resource(
        kind,
        name,
        subresources=tuple(subresources),
        categories=known.categories,
        singular=known.singular or kind.kind.lower(),
        is_published=True,
    )


def is_extra(group: str) -> bool:
    """Whether a group is none of Kubernetes' own: its kinds are custom resources elsewhere."""
    return ("." in group and not group.endswith(".k8s.io")) or group.endswith(".x-k8s.io")


def is_established(crd: Obj) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def _custom(crd: Obj) -> list[Resource]:
    if not is_established(crd):
        return []
    spec = crd["spec"]
    names: dict[str, Any] = (crd.get("status") or {}).get("acceptedNames") or spec["names"]
    served = [v for v in spec["versions"] if v.get("served")]
    served.sort(key=lambda v: version_order(v["name"]))
    kind = Kind(
        spec["group"],
        names["kind"],
        names["plural"],
        spec.get("scope") == "Namespaced",
        tuple(v["name"] for v in served),
        tuple(names.get("shortNames") or ()),
    )
    return [
        Resource(
            kind,
            version["name"],
            subresources=_custom_subresources(version),
            categories=tuple(names.get("categories") or ()),
            singular=names.get("singular") or kind.kind.lower(),
            crd=crd,
            given=version,
        )
        for version in served
    ]


def _custom_subresources(version: Obj) -> tuple[Subresource, ...]:
    wanted = version.get("subresources") or {}
    found = []
    if wanted.get("scale") is not None:
        found.append(_SCALE)
    if wanted.get("status") is not None:
        found.append(_STATUS)
    return tuple(found)


def version_order(version: str) -> tuple[int, int, int, str]:
    """GA before beta before alpha, newer first. Source: apimachinery version.CompareKubeAwareVersionStrings."""
    import re

    m = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if m is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[m[2]]
    return (stage, -int(m[1]), -int(m[3] or 0), "")


def _versions(routes: dict[tuple[str, str, str], Resource]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for group, version, _ in routes:
        versions = found.setdefault(group, [])
        if version not in versions:
            versions.append(version)

    def place(group: str) -> tuple[int, str]:
        if group in _GROUP_ORDER:
            return _GROUP_ORDER.index(group), ""
        return len(_GROUP_ORDER) + (group == METRICS_GROUP), group

    return {group: sorted(found[group], key=version_order) for group in sorted(found, key=place)}
