"""The roles of kube-controller-manager's controllers, and the Roles in kube-system and kube-public.

Fairway's own controllers need none of them; whoever reads, copies or binds them finds what every cluster has. Roles
behind feature gates that are off by default in 1.36 (pod certificates, trust bundles, storage versions) are left out.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{controller_policy,namespace_policy}.go (v1.36).
"""

from __future__ import annotations

PREFIX = "system:controller:"
# (verbs, groups, resources[, names]): one rule. Groups are separated by commas; the empty one is core.
Row = tuple[str, ...]
Rows = tuple[Row, ...]

READ = "get list watch"
EVENTS: Row = ("create patch update", ",events.k8s.io", "events")
_APPS = "apps,extensions"
_CERTIFICATES = "certificates.k8s.io"
_SIGNERS = (
    "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet "
    "kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown"
)

OF_CONTROLLERS: dict[str, Rows] = {
    "attachdetach-controller": (
        ("list watch", "", "persistentvolumeclaims persistentvolumes"),
        (READ, "", "nodes"),
        ("patch update", "", "nodes/status"),
        ("list watch", "", "pods"),
        EVENTS,
        ("create delete get list watch", "storage.k8s.io", "volumeattachments"),
        (READ, "storage.k8s.io", "csidrivers"),
        (READ, "storage.k8s.io", "csinodes"),
    ),
    "certificate-controller": (
        ("delete get list watch", _CERTIFICATES, "certificatesigningrequests"),
        ("update", _CERTIFICATES, "certificatesigningrequests/approval certificatesigningrequests/status"),
        ("approve", _CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
        ("sign", _CERTIFICATES, "signers", _SIGNERS),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
        EVENTS,
    ),
    "clusterrole-aggregation-controller": (
        ("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles"),
    ),
    "cronjob-controller": (
        ("get list update watch", "batch", "cronjobs"),
        ("create delete get list patch update watch", "batch", "jobs"),
        ("update", "batch", "cronjobs/status"),
        ("update", "batch", "cronjobs/finalizers"),
        ("delete list watch", "", "pods"),
        EVENTS,
    ),
    "daemon-set-controller": (
        (READ, _APPS, "daemonsets"),
        ("update", _APPS, "daemonsets/status"),
        ("update", _APPS, "daemonsets/finalizers"),
        ("list watch", "", "nodes"),
        ("create delete list patch watch", "", "pods"),
        ("create", "", "pods/binding"),
        ("create delete get list patch update watch", "apps", "controllerrevisions"),
        EVENTS,
    ),
    "deployment-controller": (
        ("get list update watch", _APPS, "deployments"),
        ("update", _APPS, "deployments/status"),
        ("update", _APPS, "deployments/finalizers"),
        ("create delete get list patch update watch", _APPS, "replicasets"),
        ("get list update watch", "", "pods"),
        EVENTS,
    ),
    "device-taint-eviction-controller": (
        ("delete get list watch", "", "pods"),
        ("patch update", "", "pods/status"),
        (READ, "resource.k8s.io", "resourceclaims"),
        (READ, "resource.k8s.io", "resourceslices"),
        (READ, "resource.k8s.io", "deviceclasses"),
        (READ, "resource.k8s.io", "devicetaintrules"),
        EVENTS,
    ),
    "disruption-controller": (
        (READ, _APPS, "deployments"),
        (READ, _APPS, "replicasets"),
        (READ, "", "replicationcontrollers"),
        (READ, "policy", "poddisruptionbudgets"),
        (READ, "apps", "statefulsets"),
        ("update", "policy", "poddisruptionbudgets/status"),
        ("patch update", "", "pods/status"),
        ("get", "*", "*/scale"),
        EVENTS,
    ),
    "endpoint-controller": (
        (READ, "", "pods services"),
        ("create delete get list update watch", "", "endpoints"),
        ("create", "", "endpoints/restricted"),
        EVENTS,
    ),
    "endpointslice-controller": (
        (READ, "", "nodes pods services"),
        ("update", "", "services/finalizers"),
        ("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
        EVENTS,
    ),
    "endpointslicemirroring-controller": (
        (READ, "", "endpoints services"),
        ("update", "", "services/finalizers"),
        ("update", "", "endpoints/finalizers"),
        ("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
        EVENTS,
    ),
    "ephemeral-volume-controller": (
        (READ, "", "pods"),
        ("update", "", "pods/finalizers"),
        ("create get list watch", "", "persistentvolumeclaims"),
        EVENTS,
    ),
    "expand-controller": (
        ("get list patch update watch", "", "persistentvolumes"),
        ("patch update", "", "persistentvolumeclaims/status"),
        (READ, "", "persistentvolumeclaims"),
        EVENTS,
        ("get", "", "services"),
    ),
    "generic-garbage-collector": (("delete get list patch update watch", "*", "*"), EVENTS),
    "horizontal-pod-autoscaler": (
        (READ, "autoscaling", "horizontalpodautoscalers"),
        ("update", "autoscaling", "horizontalpodautoscalers/status"),
        ("get update", "*", "*/scale"),
        ("list watch", "", "pods"),
        ("list watch", "metrics.k8s.io", "pods"),
        (READ, "custom.metrics.k8s.io", "*"),
        (READ, "external.metrics.k8s.io", "*"),
        EVENTS,
    ),
    "job-controller": (
        ("get list patch update watch", "batch", "jobs"),
        ("update", "batch", "jobs/status"),
        ("update", "batch", "jobs/finalizers"),
        ("create delete list patch watch", "", "pods"),
        EVENTS,
    ),
    "legacy-service-account-token-cleaner": (
        ("get", "", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
        ("delete patch", "", "secrets"),
    ),
    "namespace-controller": (
        ("delete get list watch", "", "namespaces"),
        ("update", "", "namespaces/finalize namespaces/status"),
        ("delete deletecollection get list watch", "*", "*"),
    ),
    "node-controller": (
        ("delete get list patch update watch", "", "nodes"),
        ("patch update", "", "nodes/status"),
        ("patch update", "", "pods/status"),
        ("delete get list watch", "", "pods"),
        EVENTS,
    ),
    "persistent-volume-binder": (
        ("create delete get list update watch", "", "persistentvolumes"),
        ("update", "", "persistentvolumes/status"),
        ("get list update watch", "", "persistentvolumeclaims"),
        ("update", "", "persistentvolumeclaims/status"),
        ("create delete get list watch", "", "pods"),
        (READ, "storage.k8s.io", "storageclasses"),
        ("list watch", "", "nodes"),
        EVENTS,
        ("watch", "", "events"),
        ("get", "", "services"),
    ),
    "pod-garbage-collector": (
        ("delete list watch", "", "pods"),
        (READ, "", "nodes"),
        ("patch", "", "pods/status"),
    ),
    "pv-protection-controller": (("get list update watch", "", "persistentvolumes"), EVENTS),
    "pvc-protection-controller": (
        ("get list update watch", "", "persistentvolumeclaims"),
        (READ, "", "pods"),
        EVENTS,
    ),
    "replicaset-controller": (
        ("get list update watch", _APPS, "replicasets"),
        ("update", _APPS, "replicasets/status"),
        ("update", _APPS, "replicasets/finalizers"),
        ("create delete list patch watch", "", "pods"),
        EVENTS,
    ),
    "replication-controller": (
        ("get list update watch", "", "replicationcontrollers"),
        ("update", "", "replicationcontrollers/status"),
        ("update", "", "replicationcontrollers/finalizers"),
        ("create delete list patch watch", "", "pods"),
        EVENTS,
    ),
    "resource-claim-controller": (
        (READ, "", "pods"),
        ("update", "", "pods/finalizers"),
        ("create delete get list watch", "resource.k8s.io", "resourceclaims"),
        ("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
        ("patch update", "", "pods/status"),
        EVENTS,
    ),
    "resourcequota-controller": (
        ("list watch", "*", "*"),
        ("update", "", "resourcequotas/status"),
        EVENTS,
    ),
    "root-ca-cert-publisher": (("create update", "", "configmaps"), EVENTS),
    "route-controller": (("list watch", "", "nodes"), ("patch", "", "nodes/status"), EVENTS),
    "selinux-warning-controller": (
        EVENTS,
        (READ, "", "persistentvolumes"),
        (READ, "", "persistentvolumeclaims"),
        (READ, "", "pods"),
        (READ, "storage.k8s.io", "csidrivers"),
    ),
    "service-account-controller": (("create", "", "serviceaccounts"), EVENTS),
    "service-cidrs-controller": (
        ("get list patch update watch", "networking.k8s.io", "servicecidrs"),
        ("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
        ("patch update", "networking.k8s.io", "servicecidrs/status"),
        (READ, "networking.k8s.io", "ipaddresses"),
        EVENTS,
    ),
    "service-controller": (
        (READ, "", "services"),
        ("patch update", "", "services/status"),
        ("list watch", "", "nodes"),
        EVENTS,
    ),
    "statefulset-controller": (
        ("list watch", "", "pods"),
        (READ, "apps", "statefulsets"),
        ("update", "apps", "statefulsets/status"),
        ("update", "apps", "statefulsets/finalizers"),
        ("create delete get patch update", "", "pods"),
        ("create delete get list patch update watch", "apps", "controllerrevisions"),
        ("create get list watch", "", "persistentvolumeclaims"),
        ("delete update", "", "persistentvolumeclaims"),
        ("update", "", "pods/finalizers"),
        EVENTS,
    ),
    "ttl-after-finished-controller": (("delete get list watch", "batch", "jobs"), EVENTS),
    "ttl-controller": (("list patch update watch", "", "nodes"), EVENTS),
    "validatingadmissionpolicy-status-controller": (
        (READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
        EVENTS,
    ),
    "volumeattributesclass-protection-controller": (
        (READ, "", "persistentvolumeclaims"),
        (READ, "", "persistentvolumes"),
        ("get list update watch", "storage.k8s.io", "volumeattributesclasses"),
        EVENTS,
    ),
}

# Namespace → role → its rules.
IN_NAMESPACES: dict[str, dict[str, Rows]] = {
    "kube-public": {
        f"{PREFIX}bootstrap-signer": (
            (READ, "", "configmaps"),
            ("update", "", "configmaps", "cluster-info"),
            EVENTS,
        ),
    },
    "kube-system": {
        "extension-apiserver-authentication-reader": (
            (READ, "", "configmaps", "extension-apiserver-authentication"),
        ),
        "system::leader-locking-kube-controller-manager": (
            ("watch", "", "configmaps"),
            ("get update", "", "configmaps", "kube-controller-manager"),
        ),
        "system::leader-locking-kube-scheduler": (
            ("watch", "", "configmaps"),
            ("get update", "", "configmaps", "kube-scheduler"),
        ),
        f"{PREFIX}bootstrap-signer": ((READ, "", "secrets"),),
        f"{PREFIX}cloud-provider": (("create get list watch", "", "configmaps"),),
        f"{PREFIX}token-cleaner": (("delete get list watch", "", "secrets"), EVENTS),
    },
}

# (namespace, binding, role, users, service accounts of kube-system)
BOUND_IN_NAMESPACES: tuple[tuple[str, str, str, str, str], ...] = (
    ("kube-public", f"{PREFIX}bootstrap-signer", f"{PREFIX}bootstrap-signer", "", "bootstrap-signer"),
    (
        "kube-system",
        "system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        "system:kube-controller-manager system:kube-scheduler",
        "",
    ),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        "system:kube-controller-manager",
        "kube-controller-manager",
    ),
    (
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        "system:kube-scheduler",
        "kube-scheduler",
    ),
    ("kube-system", f"{PREFIX}bootstrap-signer", f"{PREFIX}bootstrap-signer", "", "bootstrap-signer"),
    ("kube-system", f"{PREFIX}cloud-provider", f"{PREFIX}cloud-provider", "", "cloud-provider"),
    ("kube-system", f"{PREFIX}token-cleaner", f"{PREFIX}token-cleaner", "", "token-cleaner"),
)
