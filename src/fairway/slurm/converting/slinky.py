"""Slurm itself on Kubernetes: objects of SchedMD's slurm-operator (Controller, NodeSets), and nodes for slurm-bridge.

Nodes of one kind are one NodeSet, a pod a node; partitions of several kinds are lines of the Controller's extraConf
over the NodeSets' features. Source: SlinkyProject slurm-operator 1.3.0-rc1 (api/v1beta1), slurm-bridge docs/config.md
and docs/workload.md.
"""

from __future__ import annotations

import re
from typing import Any

from fairway.kube.objects import Obj
from fairway.slurm.converting.jobs import object_name
from fairway.slurm.converting.layouts import GPU, MIB
from fairway.slurm.converting.notes import CHANGED, LOST, Note
from fairway.slurm.converting.sitenodes import KIND_LABEL, Kind
from fairway.slurm.sitefolder import SiteFolder

GROUP = "slinky.slurm.net/v1beta1"
NAMESPACE = "slurm"
SLURM_VERSION = "25.11"
BRIDGE_PREFIX = "slurmjob.slinky.slurm.net/"
BRIDGE_SCHEDULER = "slurm-bridge-scheduler"
EXTERNAL_NODE = "scheduler.slinky.slurm.net/external-node"
# What the operator writes into slurm.conf itself.
_OPERATORS = re.compile(
    r"\s*(NodeName|PartitionName|NodeSet|ClusterName|Slurmctld\w*|Slurmd\w*|SlurmUser|StateSaveLocation|Auth\w+|Cred\w+|"
    r"AccountingStorage(Host|Port|Type|Pass)\w*|GresTypes|Prolog|Epilog|PrologSlurmctld|EpilogSlurmctld)\s*=",
    re.IGNORECASE,
)


def operator_objects(site: SiteFolder, kinds: list[Kind]) -> tuple[list[Obj], list[Note]]:
    """Namespace, Controller and NodeSets."""
    notes = [
        Note("slurm.conf", 0, CHANGED, "Slurm 22.05", f"the operator runs Slurm {SLURM_VERSION} and later",
             "Upgrade through two releases at a time, slurmdbd first"),
        Note("slurm.conf", 0, CHANGED, "AuthType", "the operator needs auth/slurm and auth/jwt",
             "Make the secrets slurm-key and slurm-jwt in the namespace"),
    ]  # fmt: skip
    lines = []
    for number, line in enumerate(site.conf.texts["slurm.conf"].splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#") or _OPERATORS.match(line):
            if re.match(r"\s*(Prolog|Epilog)", line):
                why = "scripts of nodes are ConfigMaps here"
                do = "Put it into one and name it in prologScriptRefs or epilogScriptRefs"
                notes.append(Note("slurm.conf", number, LOST, line.strip()[:60], why, do))
            continue
        lines.append(line.strip())
    lines += [f"NodeSet={kind.name} Feature={kind.name}" for kind in kinds]
    for part in site.conf.partitions:
        sets = [kind.name for kind in kinds if part.name in kind.partitions]
        rest = " ".join(f"{k}={v}" for k, v in part.settings.items() if k not in ("partitionname", "nodes"))
        lines.append(f"PartitionName={part.name} Nodes={','.join(sets)} {rest}".rstrip())
    spec: dict[str, Any] = {
        "clusterName": site.conf.get("ClusterName", "cluster"),
        "slurmKeyRef": {"name": "slurm-key", "key": "slurm.key"},
        "jwtKeyRef": {"name": "slurm-jwt", "key": "jwt.key"},
        "slurmctld": {"image": f"ghcr.io/slinkyproject/slurmctld:{SLURM_VERSION}-ubuntu24.04"},
        "persistence": {
            "enabled": True,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "4Gi"}},
        },
        "extraConf": "\n".join(lines) + "\n",
    }
    name = object_name(site.conf.get("ClusterName", "cluster"))
    objects: list[Obj] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": GROUP,
            "kind": "Controller",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        },
    ]
    return objects + [_node_set(kind, name) for kind in kinds], notes


def _node_set(kind: Kind, controller: str) -> Obj:
    """`replicas` pods, one a node, on nodes of the kind."""
    requests = {"cpu": str(kind.capacity["cpu"]), "memory": f"{kind.capacity['memory'] // MIB}Mi"}
    limits: dict[str, str] = {}
    for resource, count in kind.capacity.items():
        if resource == GPU or resource.startswith("nvidia.com/mig-"):
            limits[resource] = str(count)
    gres = kind.nodes[0].conf.gres_text
    features = ",".join([kind.name, *kind.nodes[0].conf.features])
    conf = f"Feature={features} Weight={max(kind.weight, 1)}" + (f" Gres={gres}" if gres else "")
    slurmd: dict[str, Any] = {
        "image": f"ghcr.io/slinkyproject/slurmd:{SLURM_VERSION}-ubuntu24.04",
        "resources": {"requests": {**requests, **limits}, "limits": limits}
        if limits
        else {"requests": requests},
    }
    spec = {
        "controllerRef": {"name": controller},
        "replicas": len(kind.nodes),
        "slurmd": slurmd,
        "extraConf": conf,
        "partition": {"enabled": False},
        "template": {"spec": {"nodeSelector": {KIND_LABEL: kind.name}}},
    }
    return {
        "apiVersion": GROUP,
        "kind": "NodeSet",
        "metadata": {"name": kind.name, "namespace": NAMESPACE},
        "spec": spec,
    }


def bridge_nodes(kinds: list[Kind]) -> list[Obj]:
    """Nodes as slurm-bridge registers them with a slurmctld: labelled, with their partitions."""
    found: list[Obj] = []
    for kind in kinds:
        for node in kind.nodes:
            labels = {"kubernetes.io/hostname": node.name, EXTERNAL_NODE: "true", **kind.labels}
            annotations = {f"{EXTERNAL_NODE}-partitions": ",".join(kind.partitions)}
            meta = {"name": node.name, "labels": labels, "annotations": annotations}
            found.append({"apiVersion": "v1", "kind": "Node", "metadata": meta})
    return found
