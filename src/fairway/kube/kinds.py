"""Which kinds exist, what they are called in the plural, and whether they live in a namespace.

A kind is named by its *group kind*, written as Kubernetes prints it: `Pod`, `Job.batch`,
`Workload.kueue.x-k8s.io`. The version is left out: it says how an object is spelled, not what it is.
Kinds not listed here are legal everywhere; `kind_of_unknown` guesses their plural and scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairway.kube import published


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind's names. `versions` lists known versions, the preferred one first."""

    group: str
    kind: str
    plural: str
    namespaced: bool
    versions: tuple[str, ...]
    short_names: tuple[str, ...] = ()

    @property
    def group_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]


def _kinds(group: str, versions: str, *rows: str) -> list[Kind]:
    """Each row: `Kind plural scope [short,short]` with scope `ns` or `cluster`."""
    kinds = []
    for row in rows:
        kind, plural, scope, *short = row.split()
        kinds.append(
            Kind(
                group,
                kind,
                plural,
                scope == "ns",
                tuple(versions.split()),
                tuple(short[0].split(",")) if short else (),
            )
        )
    return kinds


def _published(kind: published.Published) -> Kind:
    versions = tuple(version.name for version in kind.versions)
    return Kind(kind.group, kind.kind, kind.plural, kind.namespaced, versions, kind.short_names)


# Source: kubectl api-resources of Kubernetes 1.36; other projects' kinds as their definitions have them.
_ALL: Final[list[Kind]] = [
    *_kinds(
        "",
        "v1",
        "ComponentStatus componentstatuses cluster cs",
        "ConfigMap configmaps ns cm",
        "Endpoints endpoints ns ep",
        "Event events ns ev",
        "LimitRange limitranges ns limits",
        "Namespace namespaces cluster ns",
        "Node nodes cluster no",
        "PersistentVolume persistentvolumes cluster pv",
        "PersistentVolumeClaim persistentvolumeclaims ns pvc",
        "Pod pods ns po",
        "PodTemplate podtemplates ns",
        "ReplicationController replicationcontrollers ns rc",
        "ResourceQuota resourcequotas ns quota",
        "Secret secrets ns",
        "Service services ns svc",
        "ServiceAccount serviceaccounts ns sa",
    ),
    *_kinds(
        "apps",
        "v1",
        "ControllerRevision controllerrevisions ns",
        "DaemonSet daemonsets ns ds",
        "Deployment deployments ns deploy",
        "ReplicaSet replicasets ns rs",
        "StatefulSet statefulsets ns sts",
    ),
    *_kinds("batch", "v1", "CronJob cronjobs ns cj", "Job jobs ns"),
    *_kinds("autoscaling", "v2 v1", "HorizontalPodAutoscaler horizontalpodautoscalers ns hpa"),
    *_kinds("policy", "v1", "PodDisruptionBudget poddisruptionbudgets ns pdb"),
    *_kinds("scheduling.k8s.io", "v1", "PriorityClass priorityclasses cluster pc"),
    *_kinds("coordination.k8s.io", "v1", "Lease leases ns"),
    *_kinds("discovery.k8s.io", "v1", "EndpointSlice endpointslices ns"),
    *_kinds("node.k8s.io", "v1", "RuntimeClass runtimeclasses cluster"),
    *_kinds(
        "storage.k8s.io",
        "v1",
        "CSIDriver csidrivers cluster",
        "CSINode csinodes cluster",
        "CSIStorageCapacity csistoragecapacities ns",
        "StorageClass storageclasses cluster sc",
        "VolumeAttachment volumeattachments cluster",
        "VolumeAttributesClass volumeattributesclasses cluster vac",
    ),
    *_kinds(
        "networking.k8s.io",
        "v1",
        "Ingress ingresses ns ing",
        "IngressClass ingressclasses cluster",
        "IPAddress ipaddresses cluster ip",
        "NetworkPolicy networkpolicies ns netpol",
        "ServiceCIDR servicecidrs cluster",
    ),
    *_kinds("apiregistration.k8s.io", "v1", "APIService apiservices cluster"),
    *_kinds("certificates.k8s.io", "v1", "CertificateSigningRequest certificatesigningrequests cluster csr"),
    *_kinds(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "FlowSchema flowschemas cluster",
        "PriorityLevelConfiguration prioritylevelconfigurations cluster",
    ),
    *_kinds(
        "resource.k8s.io",
        "v1",
        "DeviceClass deviceclasses cluster",
        "ResourceClaim resourceclaims ns",
        "ResourceClaimTemplate resourceclaimtemplates ns",
        "ResourceSlice resourceslices cluster",
    ),
    *_kinds(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole clusterroles cluster",
        "ClusterRoleBinding clusterrolebindings cluster",
        "Role roles ns",
        "RoleBinding rolebindings ns",
    ),
    *_kinds(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingAdmissionPolicy mutatingadmissionpolicies cluster",
        "MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings cluster",
        "ValidatingAdmissionPolicy validatingadmissionpolicies cluster",
        "ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings cluster",
        "MutatingWebhookConfiguration mutatingwebhookconfigurations cluster",
        "ValidatingWebhookConfiguration validatingwebhookconfigurations cluster",
    ),
    *_kinds(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition customresourcedefinitions cluster crd,crds"
    ),
    *(_published(kind) for kind in published.kinds().values()),
    *_kinds("fairway.dev", "v1alpha1", "PriceBook pricebooks cluster", "Scenario scenarios cluster"),
]

BY_GROUP_KIND: Final[dict[str, Kind]] = {k.group_kind: k for k in _ALL}


def group_kind(api_version: str, kind: str) -> str:
    """The name a kind goes by in the store: `Job.batch`, `Pod`."""
    group = api_version.rpartition("/")[0]
    return f"{kind}.{group}" if group else kind


def find_kind(name: str) -> Kind | None:
    """A kind by any of its names, as kubectl takes them: `Pod`, `pods`, `po`, `jobs.batch`, `cq`."""
    found = BY_GROUP_KIND.get(name)
    if found is not None:
        return found
    return _BY_ANY_NAME.get(name.lower())


def kind_of_unknown(gk: str) -> Kind:
    """A guess for a kind nobody declared: namespaced, plural by the usual English rule."""
    kind, _, group = gk.partition(".")
    return Kind(group, kind, guess_plural(kind), True, ("v1",))


def kind_named(gk: str) -> Kind:
    """The declared kind, or the guess for an undeclared one."""
    return BY_GROUP_KIND.get(gk) or kind_of_unknown(gk)


def guess_plural(kind: str) -> str:
    """Source: apimachinery meta.UnsafeGuessKindToResource."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch")):
        return lower + "es"
    if lower.endswith("y"):
        return lower[:-1] + "ies"
    return lower + "s"


def _index_names() -> dict[str, Kind]:
    index: dict[str, Kind] = {}
    for k in _ALL:
        names = [k.kind.lower(), k.plural, *k.short_names]
        for n in names:
            index.setdefault(n, k)
            if k.group:
                index.setdefault(f"{n}.{k.group}", k)
    return index


_BY_ANY_NAME: Final = _index_names()
