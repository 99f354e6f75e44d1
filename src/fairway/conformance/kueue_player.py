"""Playing one recorded Kueue scenario in a twin, and looking at what the recorder looked at.

Actions of a step come one after another, a second after each job; then the step's wait; then the world is left
to settle. Containers that nothing says an end of run for ever, as they did when this was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fairway.cluster.errors import ApiError
from fairway.cluster.patches import merge_patch
from fairway.kube.defaults import apply_defaults
from fairway.kube.objects import (
    Key,
    Obj,
    controller_of,
    gk_of,
    key_of,
    labels_of,
    meta_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from fairway.kube.problem import TYPE_INVALID, UNKNOWN_FIELD, WRONG_TYPE
from fairway.kube.timestamps import SECOND_US
from fairway.kube.validation.validating import changed, validate
from fairway.queueing.configuration import configured
from fairway.queueing.control.kinds import CLUSTER_QUEUE
from fairway.queueing.integrations.ownership import WORKLOAD
from fairway.scenario.entering import create_or_replace, stored_key
from fairway.twin.latency import NONE
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

Observed = dict[str, Any]

# Kinds whose creation the recorder paused after.
_PAUSED_AFTER = ("Job.batch", "Pod", "JobSet.jobset.x-k8s.io", "RayJob.ray.io", "RayCluster.ray.io")
# Settled: nothing was written for this long. Kueue batches twice, a second each.
_QUIET_US = 2_500_000
_LONGEST_US = 30 * SECOND_US
_FOREVER = "fairway.dev/run-time"
_SPOKEN = ("rec/seconds", _FOREVER)
_UID = re.compile(r"\(UID: [^)]*\)")
# What ends a name the API server or Kueue made up: random letters, or a hash of the owner's UID.
_MADE_UP = re.compile(r"-[a-z0-9]{5}$")
# What ends the name of a Deployment's pod: the hash of its template (in the letters Kubernetes uses), and five more.
_OF_REPLICA_SET = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[a-z0-9]{5}$")

# What ends the name of a ReplicaSet, or of an object whose name was generated.
_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}$")


class Player:
    """One scenario being played."""

    def __init__(self, row: Mapping[str, Any], *, seed: int = 0) -> None:
        settings = configured(row.get("configuration") or {}).kueue_settings()
        self.twin = Twin(seed=seed, latency=NONE, components=standard_components(kueue=settings))
        # Kueue was there before the first of its objects.
        self.twin.host.put_door(lambda: settings.webhooks)
        self.refused: list[dict[str, Any]] = []

    def play(self, step: Mapping[str, Any]) -> Observed:
        """Do what the step says; what there is to see once settled."""
        self.refused = []
        for action in step.get("do") or ():
            obj = action["object"]
            try:
                self._act(str(action.get("verb") or "apply"), obj)
            except ApiError as refused:
                name = name_of(obj)
                self.refused.append({"kind": obj.get("kind"), "name": name, "message": refused.message})
            self.twin.run_for(SECOND_US if gk_of(obj) in _PAUSED_AFTER else 0)
        self.twin.run_for(round(float(step.get("wait_s") or 0) * SECOND_US))
        self._settle()
        return self.observe()

    def _act(self, verb: str, obj: Obj) -> None:
        store = self.twin.store
        if verb in ("apply", "create"):
            self._check_namespace(obj)
            _check(obj, store.get(stored_key(obj)))
            stored = create_or_replace(self.twin.host, endless(obj))
            if obj.get("status"):
                # The recorder writes a status that comes along by itself: applying leaves it out.
                store.set_status(key_of(stored), {**(stored.get("status") or {}), **obj["status"]})
        elif verb == "delete":
            store.delete(self._key(obj))
        elif verb == "patch":
            self._patch(obj)
        elif "status" in verb:
            store.patch(self._key(obj), {"status": obj.get("status")})
        else:
            raise ApiError(400, "BadRequest", f"unknown verb {verb!r} in the recording")
        self.twin.wake()

    def _check_namespace(self, obj: Obj) -> None:
        name = namespace_of(obj)
        if name and name != "default" and self.twin.store.get(Key("Namespace", "", name)) is None:
            raise ApiError(404, "NotFound", f'namespaces "{name}" not found')

    def _key(self, obj: Obj) -> Key:
        """The object's key; recordings of patches leave the API version out."""
        if obj.get("apiVersion"):
            return self._known(stored_key(obj))
        gk = self._group_kind(str(obj.get("kind")))
        namespace = "" if gk in _CLUSTER_SCOPED else namespace_of(obj) or "default"
        return self._known(Key(gk, namespace, name_of(obj)))

    def _known(self, key: Key) -> Key:
        """The key here: Workloads and pods were given other names than when this was recorded.

        A Workload may also go by its job's name.
        """
        store = self.twin.store
        if key.gk not in (WORKLOAD, "Pod") or store.get(key) is not None:
            return key
        wanted = base_name(key.name)
        for obj in store.objects(key.gk):
            name, owner = name_of(obj), controller_of(obj)
            is_owners = key.gk == WORKLOAD and owner is not None and owner.get("name") == key.name
            if namespace_of(obj) == key.namespace and (is_owners or base_name(name) == wanted):
                return Key(key.gk, key.namespace, name)
        return key

    def _group_kind(self, kind: str) -> str:
        known = [gk for gk in self.twin.store.kinds() if gk.partition(".")[0] == kind]
        return known[0] if known else kind

    def _patch(self, obj: Obj) -> None:
        key = self._key(obj)
        change = {k: v for k, v in obj.items() if k in ("spec", "status", "value")}
        meta = {k: v for k, v in meta_of(obj).items() if k in ("labels", "annotations")}
        if meta:
            change["metadata"] = meta
        store = self.twin.store
        if "status" in change:
            store.patch(key, {"status": change.pop("status")})
        if change:
            old = store.require(key)
            patched = merge_patch(old, change)
            _check(patched, old)
            create_or_replace(self.twin.host, patched)

    def _settle(self) -> None:
        until_us = self.twin.now_us + _LONGEST_US
        quiet_us = 0
        while quiet_us < _QUIET_US and self.twin.now_us < until_us:
            before = self.twin.store.version
            self.twin.run_for(SECOND_US // 2)
            quiet_us = quiet_us + SECOND_US // 2 if self.twin.store.version == before else 0

    # Looking

    def observe(self) -> Observed:
        store = self.twin.store
        return {
            "clusterQueues": {name_of(q): _queue(q) for q in store.objects(CLUSTER_QUEUE)},
            "jobs": {_name(j): _job(j) for j in store.objects("Job.batch")},
            "pods": self._pods(),
            "workloads": {_workload_name(w): _workload(w) for w in store.objects(WORKLOAD)},
        }

    def workload_names(self) -> dict[str, str]:
        """The job of every Workload, by the Workload's name."""
        found = ((name_of(w), controller_of(w)) for w in self.twin.store.objects(WORKLOAD))
        return {name: str(owner["name"]) for name, owner in found if owner is not None}

    def aliases(self) -> dict[str, list[str]]:
        """Other names a Workload may be recorded under: its own without what was made up, its first owner's."""
        found = {}
        for workload in self.twin.store.objects(WORKLOAD):
            owners = [str(o.get("name")) for o in meta_of(workload).get("ownerReferences") or ()]
            names = [base_name(name_of(workload)), *owners[:1], *(set_name(o) for o in owners[:1])]
            found[_workload_name(workload)] = [f"{namespace_of(workload)}/{n}" for n in names]
        return found

    def _pods(self) -> dict[str, dict[str, int]]:
        """Pods of every job by node; `""`: those without."""
        found: dict[str, dict[str, int]] = {}
        for pod in self.twin.store.objects("Pod"):
            node = spec_of(pod).get("nodeName") or ""
            of_job = found.setdefault(job_of(pod), {})
            of_job[node] = of_job.get(node, 0) + 1
        return found


_CLUSTER_SCOPED = (
    CLUSTER_QUEUE,
    "Cohort.kueue.x-k8s.io",
    "ResourceFlavor.kueue.x-k8s.io",
    "AdmissionCheck.kueue.x-k8s.io",
    "Topology.kueue.x-k8s.io",
    "WorkloadPriorityClass.kueue.x-k8s.io",
    "Node",
    "Namespace",
    "PriorityClass.scheduling.k8s.io",
)


def _check(obj: Obj, old: Obj | None) -> None:
    """What the API server refuses of its own kinds. `old`: what it replaces. Raises: ApiError."""
    gk = gk_of(obj)
    found = [p for p in validate(obj) if p.reason not in (TYPE_INVALID, UNKNOWN_FIELD, WRONG_TYPE)]
    if old is not None and not found:
        # What the server keeps in the metadata of old ones, a recorded manifest does not have.
        whole = changed(apply_defaults(endless(obj)), apply_defaults(old))
        found = [p for p in whole if p.path[:1] != ("metadata",)]
    if gk.endswith(".kueue.x-k8s.io"):
        # The rest is said by their schemas and webhooks.
        found = [p for p in found if p.path[:1] == ("metadata",)]
    problems = [str(p) for p in found]
    if problems:
        said = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise ApiError(422, "Invalid", f'{gk} "{name_of(obj)}" is invalid: {said}')


def endless(obj: Obj) -> Obj:
    """With pods that run for ever unless something says how long."""
    if gk_of(obj) == "Pod":
        return _endless_template(obj)
    spec = spec_of(obj)
    if not spec or gk_of(obj) == "Workload.kueue.x-k8s.io":
        return obj
    return {**obj, "spec": _endless_in(spec)}


def _endless_in(value: Any) -> Any:
    """Every pod template below."""
    if isinstance(value, dict):
        if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
            return _endless_template(value)
        return {k: _endless_in(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_endless_in(v) for v in value]
    return value


def _endless_template(template: Obj) -> Obj:
    meta = meta_of(template)
    annotations = meta.get("annotations") or {}
    if any(name in annotations for name in _SPOKEN):
        return template
    return {**template, "metadata": {**meta, "annotations": {**annotations, _FOREVER: "forever"}}}


def _name(obj: Obj) -> str:
    return f"{namespace_of(obj)}/{name_of(obj)}"


def job_of(pod: Obj) -> str:
    """The job a pod belongs to: by its label, its controller, or itself."""
    labels = labels_of(pod)
    owner = controller_of(pod)
    name = (
        labels.get("batch.kubernetes.io/job-name")
        or labels.get("jobset.sigs.k8s.io/jobset-name")
        or (owner or {}).get("name")
        or name_of(pod)
    )
    return f"{namespace_of(pod)}/{name}"


def _workload_name(workload: Obj) -> str:
    """A Workload goes by its job's name."""
    owner = controller_of(workload)
    return f"{namespace_of(workload)}/{(owner or {}).get('name') or name_of(workload)}"


def _queue(queue: Obj) -> dict[str, Any]:
    status = status_of(queue)
    return {
        "admitted": status.get("admittedWorkloads", 0),
        "pending": status.get("pendingWorkloads", 0),
        "usage": {
            flavor["name"]: {
                r["name"]: {"borrowed": r.get("borrowed", "0"), "total": r.get("total", "0")}
                for r in flavor.get("resources") or ()
            }
            for flavor in status.get("flavorsUsage") or ()
        },
    }


def _job(job: Obj) -> dict[str, Any]:
    spec, status = spec_of(job), status_of(job)
    return {
        "active": status.get("active", 0) or 0,
        "failed": status.get("failed", 0) or 0,
        "nodeSelector": ((spec.get("template") or {}).get("spec") or {}).get("nodeSelector"),
        "parallelism": spec.get("parallelism", 1),
        "succeeded": status.get("succeeded", 0) or 0,
        "suspend": bool(spec.get("suspend")),
    }


def base_name(name: str) -> str:
    """The name without the part that was made up."""
    return _MADE_UP.sub("", name)


def set_name(name: str) -> str:
    """The name of a pod's Deployment: without the hash of the template, too. Of any other the base name."""
    return _OF_REPLICA_SET.sub("", name) if _OF_REPLICA_SET.search(name) else base_name(name)


def owner_name(name: str) -> str:
    """The name of who owns pods, without what was made up: a ReplicaSet's hash, a generated name's letters."""
    return _GENERATED.sub("", name)


def by_their_jobs(text: str, workloads: Mapping[str, str]) -> str:
    """The text with Workloads named by their jobs: their own names depend on UIDs. `workloads`: name → job."""
    for name, job in workloads.items():
        base = base_name(name)
        if base != name and base in text:
            text = re.sub(rf"\b{re.escape(base)}-(?:[a-z0-9]{{5}}\b|…)", job, text)
    return text


def _workload(workload: Obj) -> dict[str, Any]:
    spec, status = spec_of(workload), status_of(workload)
    admission = status.get("admission")
    return {
        "active": spec.get("active", True),
        "admission": None if admission is None else admission.get("podSetAssignments"),
        "clusterQueue": None if admission is None else admission.get("clusterQueue"),
        "conditions": {
            c["type"]: {
                "message": without_uids(c.get("message") or ""),
                "reason": c.get("reason"),
                "status": c.get("status"),
            }
            for c in status.get("conditions") or ()
        },
        "priority": spec.get("priority"),
        "requeueCount": (status.get("requeueState") or {}).get("count"),
    }


def without_uids(text: str) -> str:
    return _UID.sub("(UID: …)", text)
