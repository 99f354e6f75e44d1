"""What volume does a provisioner make for a claim?

It reaches what the claim's class allows: of the chosen node's labels those that the class names, or its zone. Where no
node was chosen (Immediate), the first of the class' allowed topologies, if it has any.

Source: sigs.k8s.io/sig-storage-lib-external-provisioner controller.go; csi-provisioner's topology (strict, by zone).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairway.kube.objects import Obj, name_of, spec_of
from fairway.kube.volumes import CLAIM, VOLUME

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_ZONE: Final = "topology.kubernetes.io/zone"


def volume_name(claim: Obj) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def reference_to(claim: Obj) -> dict[str, Any]:
    """What a volume's claimRef says of its claim."""
    meta = claim["metadata"]
    return {
        "kind": CLAIM,
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
        "apiVersion": "v1",
        "resourceVersion": meta["resourceVersion"],
    }


def volume_for(claim: Obj, storage_class: Obj, node_labels: Mapping[str, str] | None) -> Obj:
    """The PersistentVolume. `node_labels`: of the node its first pod goes to; None: nobody chose one."""
    wanted, driver = spec_of(claim), storage_class["provisioner"]
    spec: dict[str, Any] = {
        "capacity": {"storage": ((wanted.get("resources") or {}).get("requests") or {}).get("storage", "0")},
        "accessModes": list(wanted.get("accessModes") or ()),
        "csi": {"driver": driver, "volumeHandle": volume_name(claim)},
        "claimRef": reference_to(claim),
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": name_of(storage_class),
        "volumeMode": wanted.get("volumeMode") or "Filesystem",
    }
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = list(storage_class["mountOptions"])
    term = _topology(storage_class, node_labels)
    if term:
        expressions = [{"key": k, "operator": "In", "values": [v]} for k, v in sorted(term.items())]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return {
        "apiVersion": "v1",
        "kind": VOLUME,
        "metadata": {"name": volume_name(claim), "annotations": {PROVISIONED_BY: driver}},
        "spec": spec,
    }


def _topology(storage_class: Obj, node_labels: Mapping[str, str] | None) -> dict[str, str]:
    topologies = [t.get("matchLabelExpressions") or () for t in storage_class.get("allowedTopologies") or ()]
    if node_labels is None:
        return {e["key"]: e["values"][0] for e in topologies[0] if e.get("values")} if topologies else {}
    keys = {e["key"] for expressions in topologies for e in expressions} or {_ZONE}
    return {key: node_labels[key] for key in sorted(keys) if key in node_labels}
