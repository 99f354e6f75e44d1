"""Which of the cluster's own components are left out, so that a real one can take their place?

    check_names(("scheduler", "job"))      # ("job-controller", "kube-scheduler")
    left = LeftOut(names)
    components = left.of(components)       # those that stay; some of them do less

Names are those that users know: programs, and kube-controller-manager's controllers as its `--controllers` has them.
Three pairs that do their work in one place go together: endpoints with endpointslice, serviceaccount with
root-ca-certificate-publisher, the signing of certificate requests with their approving.

Source: cmd/kube-controller-manager/names/controller_names.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fairway.errors import UserError

MANAGER: Final = "kube-controller-manager"
NOTHING: Final = "none"
_SUFFIX: Final = "-controller"


class Part(NamedTuple):
    """What can be left out: whole components of the twin, controllers of one, kinds of the autoscaling component."""

    components: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    scalers: tuple[str, ...] = ()
    adopts: tuple[str, ...] = ()
    """Whose orphans it takes in, and for which kind of owner."""


PROGRAMS: Final[dict[str, Part]] = {
    "kube-scheduler": Part(("default-scheduler",)),
    "kubelet": Part(("kubelet", "node-lease")),
    "nvidia-dra-driver": Part(("nvidia-dra-driver", "compute-domain-controller")),
    "gpu-partitioner": Part(("gpu-partitioner",)),
    "kueue": Part(("kueue",)),
    "volcano": Part(("volcano", "vc-controller-manager")),
    "jobset": Part(controllers=("jobset",)),
    "leaderworkerset": Part(controllers=("leaderworkerset", "leaderworkerset-pod")),
    "training-operator": Part(
        controllers=("pytorchjob-controller", "tfjob-controller", "xgboostjob-controller")
    ),
    "mpi-operator": Part(controllers=("mpi-operator",)),
    "kuberay": Part(controllers=("raycluster", "rayjob")),
    "kserve": Part(controllers=("inferenceservice", "llminferenceservice")),
    "gateways": Part(controllers=("gateway", "httproute", "inferencepool")),
    "argo-rollouts": Part(("analysis-runs",), controllers=("rollouts",)),
    "keda": Part(scalers=("keda",)),
    "knative": Part(("knative-serving",), scalers=("kpa",)),
    "vpa": Part(scalers=("vpa",)),
    "prometheus": Part(("prometheus",)),
    "karpenter": Part(("karpenter",)),
    "cluster-autoscaler": Part(("cluster-autoscaler",)),
}
OF_MANAGER: Final[dict[str, Part]] = {
    "certificatesigningrequest-signing-controller": Part(("certificate-controller",)),
    "cronjob-controller": Part(controllers=("cronjob",)),
    "daemonset-controller": Part(controllers=("daemonset",), adopts=("DaemonSet",)),
    "deployment-controller": Part(controllers=("deployment", "replicaset-adoption")),
    "device-taint-eviction-controller": Part(("device-taint-eviction",)),
    "disruption-controller": Part(controllers=("disruption",)),
    "endpoints-controller": Part(("endpoints-controller",)),
    "garbage-collector-controller": Part(("garbage-collector",)),
    "horizontal-pod-autoscaler-controller": Part(scalers=("hpa",)),
    "job-controller": Part(controllers=("job", "job-pod-release")),
    "namespace-controller": Part(controllers=("namespace",)),
    "node-lifecycle-controller": Part(("node-controller",)),
    "persistentvolume-binder-controller": Part(("persistentvolume-controller",)),
    "pod-garbage-collector-controller": Part(("pod-garbage-collector",)),
    "replicaset-controller": Part(controllers=("replicaset",), adopts=("ReplicaSet",)),
    "resourceclaim-controller": Part(("resource-claim-controller",)),
    "resourcequota-controller": Part(controllers=("resourcequota",)),
    "serviceaccount-controller": Part(("serviceaccount-controller",)),
    "statefulset-controller": Part(controllers=("statefulset",), adopts=("StatefulSet",)),
    "taint-eviction-controller": Part(("taint-eviction-controller",)),
    "ttl-after-finished-controller": Part(controllers=("ttl-after-finished",)),
    "ttl-controller": Part(("ttl-controller",)),
}
PARTS: Final = {**PROGRAMS, **OF_MANAGER}
_ALIASES: Final[dict[str, str]] = {
    "scheduler": "kube-scheduler",
    "controllers": MANAGER,
    "hpa": "horizontal-pod-autoscaler-controller",
    "lws": "leaderworkerset",
    "kuberay-operator": "kuberay",
    "kueue-controller-manager": "kueue",
    "garbage-collector": "garbage-collector-controller",
    "endpointslice-controller": "endpoints-controller",
    "root-ca-certificate-publisher-controller": "serviceaccount-controller",
    "certificatesigningrequest-approving-controller": "certificatesigningrequest-signing-controller",
}
_OWNERS: Final = frozenset(kind for part in OF_MANAGER.values() for kind in part.adopts)
_ON_DEMAND: Final = ("karpenter", "cluster-autoscaler")
"""Run only where a cloud has them."""


def check_names(said: Iterable[str]) -> tuple[str, ...]:
    """The names of parts, sorted, each once. `none`: nothing is left out.

    Raises: UserError (a name that nobody bears).
    """
    names = [name.strip() for one in said for name in one.split(",") if name.strip()]
    found: set[str] = set()
    for name in names:
        full = _ALIASES.get(name, name)
        full = _ALIASES.get(f"{full}{_SUFFIX}", full)
        if full == MANAGER:
            found.update(OF_MANAGER)
        elif full in PARTS:
            found.add(full)
        elif f"{full}{_SUFFIX}" in OF_MANAGER:
            found.add(f"{full}{_SUFFIX}")
        elif full != NOTHING:
            short = ", ".join(one.removesuffix(_SUFFIX) for one in OF_MANAGER)
            raise UserError(
                f"--without {name}: expected some of {', '.join(PROGRAMS)}; {MANAGER}, or of its controllers: "
                f"{short}; or {NOTHING}"
            )
    if found and NOTHING in names:
        raise UserError(f"--without {','.join(names)}: expected {NOTHING} alone, or names without it")
    return tuple(sorted(found))


class LeftOut:
    """`names`: of parts, as `check_names` gives them."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = frozenset(names)
        parts = [PARTS[name] for name in sorted(self.names)]
        self.components = frozenset(c for p in parts for c in p.components)
        self.scalers = frozenset(s for p in parts for s in p.scalers)
        self.owners = frozenset(kind for p in parts for kind in p.adopts)
        adopters = () if self.owners < _OWNERS else ("pod-adoption",)
        self.controllers = frozenset((*adopters, *(c for p in parts for c in p.controllers)))

    def __contains__(self, name: object) -> bool:
        """Whether a program or controller is left out; kube-controller-manager: all its controllers are."""
        return name in self.names or (name == MANAGER and self.names >= OF_MANAGER.keys())

    def told(self, running: Sequence[str]) -> dict[str, bool]:
        """Every part, and whether it is on: programs, then controllers. `running`: the components that are there."""
        return {
            name: name not in self.names and (name not in _ON_DEMAND or name in running) for name in PARTS
        }


EVERYTHING: Final = LeftOut()
"""Nothing is left out."""


def summary(told: dict[str, bool]) -> tuple[list[str], list[str]]:
    """What runs and what was left out, kube-controller-manager as one where all of its controllers are alike."""
    of_manager = {told.get(name, True) for name in OF_MANAGER}
    on = [name for name in PROGRAMS if told.get(name)]
    off = [name for name in PROGRAMS if not told.get(name, True)]
    (on if True in of_manager else off).insert(0, MANAGER)
    if len(of_manager) > 1:
        off += [name for name in OF_MANAGER if not told[name]]
    return on, off
