"""What a change is made of: steps that a copy of the cluster takes, and the commands that do the same to the real one.

A step goes through the same door as kubectl would: what may not be changed in place is replaced, and the command says
so (`kubectl replace --force`). What a server wrote into a Job's selector is taken out then, or it would be refused.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from fairway.answers.naming import ref, workload_of
from fairway.answers.templatepaths import at_path, escaped, pointer, templates_of
from fairway.cluster.errors import ApiError
from fairway.cluster.jsonpatch import json_patch
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, gk_of, key_of, meta_of, name_of, namespace_of
from fairway.scenario.entering import create_or_replace
from fairway.scenario.objects import as_new
from fairway.twin.twin import Twin

Operations = tuple[dict[str, Any], ...]
_OF_JOBS = (
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
)
# Their operators make pods or Jobs once, or refuse such a change. Source: JobSet's jobset_webhook.go ValidateUpdate.
_MADE_ONCE = (".jobset.x-k8s.io", ".kubeflow.org", ".ray.io")
_OF_PODS = ("emplate", "Replica", "replicas", "replicatedJobs", "workerGroupSpecs")


@dataclass(frozen=True)
class Patch:
    """JSON patch operations on one object. `is_anew`: it has to be made anew, as nobody hears of the change."""

    key: Key
    operations: Operations
    is_anew: bool = False

    def take(self, twin: Twin) -> list[str]:
        """Do it; the command that does the same. Raises: ApiError."""
        old = twin.store.require(self.key)
        if self.is_anew or self._is_past_its_pods():
            return self._replaced(twin, old)
        patch = json.dumps(list(self.operations), separators=(",", ":"))
        try:
            create_or_replace(twin.host, json_patch(old, list(self.operations)))
            return [f"kubectl patch {_named(self.key)} --type json -p {shlex.quote(patch)}"]
        except ApiError as refused:
            if refused.code not in (403, 422):
                raise
        return self._replaced(twin, old)

    def _is_past_its_pods(self) -> bool:
        """Whether its controller makes the pods once, and would not hear of the change."""
        paths = [str(operation["path"]) for operation in self.operations]
        return self.key.gk.endswith(_MADE_ONCE) and any(part in path for path in paths for part in _OF_PODS)

    def _replaced(self, twin: Twin, old: Obj) -> list[str]:
        operations = [*_clean(old), *_without_kueues(twin.store, old, self.operations), *self.operations]
        fresh = as_new(json_patch(old, operations))
        _remove(twin, self.key)
        create_or_replace(twin.host, fresh)
        patch = shlex.quote(json.dumps(operations, separators=(",", ":")))
        get = f"kubectl get {_named(self.key)} -o json"
        return [
            f"{get} | kubectl patch --local -f - --type json -p {patch} -o json | kubectl replace --force -f -"
        ]


@dataclass(frozen=True)
class Delete:
    """One object goes, with what it owns."""

    key: Key

    def take(self, twin: Twin) -> list[str]:
        _remove(twin, self.key)
        return [f"kubectl delete {_named(self.key)}"]


@dataclass(frozen=True)
class Apply:
    """An object that was not there."""

    obj: Obj

    def take(self, twin: Twin) -> list[str]:
        create_or_replace(twin.host, self.obj)
        return [f"kubectl apply -f - <<'EOF'\n{json.dumps(self.obj)}\nEOF"]


@dataclass(frozen=True)
class Open:
    """A node like another one, which somebody opens outside of Kubernetes."""

    node: Obj
    what: str

    def take(self, twin: Twin) -> list[str]:
        node, number = self.node, 1
        while twin.store.get(key_of(node)) is not None:
            number += 1
            again = f"{name_of(self.node)}-{number}"
            said = {**meta_of(node)["labels"], "kubernetes.io/hostname": again}
            node = {**node, "metadata": {**meta_of(node), "name": again, "labels": said}}
        twin.store.create(node)
        meta = meta_of(self.node)
        like = meta["annotations"].get(LIKE)
        own = ("kubernetes.io/hostname",) if like else _BY_THEMSELVES
        labels = ",".join(f"{k}={v}" for k, v in meta["labels"].items() if not k.startswith(own))
        told = f" like node {like}" if like else ""
        return [f"# open {self.what}{told}, with labels {labels or 'of its own'}"]


LIKE = "fairway.dev/like"
# Labels that a machine of a type gets without being told.
_BY_THEMSELVES = (
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.",
    "nvidia.com/mig.capable",
)
Step = Patch | Delete | Apply | Open


def another_node(node: Obj, number: int, labels: dict[str, str], like: str) -> Obj:
    """A node that offers what this one does, empty and Ready; `labels` are others than it has. `like`: its name, if it
    is there."""
    name = f"{name_of(node)}-more-{number}"
    labels = {**(meta_of(node).get("labels") or {}), **labels, "kubernetes.io/hostname": name}
    spec = {k: v for k, v in (node.get("spec") or {}).items() if k in ("taints",)}
    status = {k: v for k, v in (node.get("status") or {}).items() if k in ("capacity", "allocatable")}
    meta = {"name": name, "labels": labels, "annotations": {LIKE: like}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def _clean(old: Obj) -> list[dict[str, Any]]:
    """Out with what the server put into a Job: a new one gets its own."""
    if gk_of(old) != "Job.batch" or (old.get("spec") or {}).get("manualSelector"):
        return []
    found = [{"op": "remove", "path": "/spec/selector"}] if "selector" in old["spec"] else []
    template = old["spec"].get("template") or {}
    for where, labels in (
        ("/metadata", meta_of(old)),
        ("/spec/template/metadata", template.get("metadata") or {}),
    ):
        found += [
            {"op": "remove", "path": f"{where}/labels/{escaped(name)}"}
            for name in _OF_JOBS
            if name in (labels.get("labels") or {})
        ]
    return found


def _without_kueues(store: Store, old: Obj, operations: Operations) -> list[dict[str, Any]]:
    """Out with what Kueue wrote into the templates of a job that it let start: to a new one it would be the user's.

    The Workload has them as they were.
    """
    key = workload_of(store, key_of(old))
    workload = None if key is None or key_of(old).gk == "Pod" else store.get(key)
    pod_sets = [] if workload is None else (workload.get("spec") or {}).get("podSets") or []
    found: list[dict[str, Any]] = []
    for path, pod_set in zip(templates_of(old), pod_sets, strict=False):
        template, was = at_path(old, path), pod_set.get("template") or {}
        for part, names in (("metadata", _METADATA), ("spec", _PLACED)):
            for name in names:
                now, then = ((at.get(part) or {}).get(name) for at in (template, was))
                where = pointer((*path, part, name))
                if now and not then and any(str(o["path"]).startswith(f"{where}/") for o in operations):
                    found.append({"op": "replace", "path": where, "value": type(now)()})
                elif now and not then:
                    found.append({"op": "remove", "path": where})
                elif now and now != then:
                    found.append({"op": "replace", "path": where, "value": then})
    return found


_METADATA, _PLACED = ("labels", "annotations"), ("nodeSelector", "tolerations", "schedulingGates")


def _remove(twin: Twin, key: Key) -> None:
    """Gone at once, finalizers and grace aside, with everything it owns."""
    store = twin.store
    obj = store.get(key)
    if obj is None:
        return
    below = store.dependents(meta_of(obj)["uid"])
    if meta_of(obj).get("finalizers"):
        store.set_finalizers(key, [])
    if store.get(key) is not None:
        store.delete(key, grace_s=0)
    for dependent in below:
        _remove(twin, dependent)


def _named(key: Key) -> str:
    return ref(key) + (f" -n {shlex.quote(key.namespace)}" if key.namespace else "")


__all__ = ["Apply", "Delete", "Open", "Patch", "Step", "another_node", "namespace_of"]
