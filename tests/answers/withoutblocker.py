"""The same cluster without the one thing that is said to be in the way, whatever layer it is of.

Everything else stays, but for work that waits beside the object: it might take what is given.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import answerworlds as worlds
from variedworlds import RACK, ZONE

from fairway.answers.admissionlinks import suspended_at
from fairway.answers.explain import explain
from fairway.answers.explanation import (
    ADMISSION,
    BLOCKED,
    LAYERS,
    NONE,
    QUEUE,
    QUOTA,
    SCHEDULER,
    VOLUMES,
    Explanation,
)
from fairway.answers.naming import job_of, pods_of
from fairway.answers.templatepaths import at_path, templates_of
from fairway.cluster.jsonpatch import json_patch
from fairway.ground import Moment
from fairway.kube.objects import Key, Obj, key_of, name_of, namespace_of, spec_of
from fairway.scenario.entering import create_or_replace
from fairway.scenario.objects import as_new
from fairway.scheduling import coscheduling, gangscheduling
from fairway.twin.twin import Twin

KUEUE_GROUP = "kueue.x-k8s.io"
JOBS = (
    "Job.batch",
    "JobSet.jobset.x-k8s.io",
    "PyTorchJob.kubeflow.org",
    "RayJob.ray.io",
    "Deployment.apps",
)
_PLENTY = "1000000"
_MEMORY = "1000000Gi"
_TOPOLOGY = re.compile(r"kueue.x-k8s.io/podset-.*-topology")


def work(moment: Moment) -> list[Key]:
    """What users made: jobs of every kind, and pods of their own."""
    found = [o for gk in (*JOBS, "Pod") for o in moment.store.objects(gk)]
    return [key_of(o) for o in found if not o["metadata"].get("ownerReferences")]


def passes(again: Explanation, before: Explanation) -> bool:
    """Whether it is past the layer that said no. Pods of what a queue holds come to the door once it lets them."""
    if again.blocker.layer == NONE or again.blocker.state != BLOCKED:
        return True
    by_queue = before.blocker.layer in (QUEUE, QUOTA) or "mismatches" in before.blocker.numbers
    if by_queue and again.blocker.layer == ADMISSION:
        return True
    if "mismatches" in before.blocker.numbers and "reasons" in again.blocker.numbers:
        return True
    if before.blocker.layer == VOLUMES and again.blocker.layer == SCHEDULER:
        # One of its pods has got the claim and the last place.
        return any(link.numbers.get("pods", 0) > 1 for link in before.chain)
    if "deployment" in before.object and again.blocker.layer == QUOTA and before.blocker.layer == SCHEDULER:
        # Each of its pods is in the queue by itself: that one is placed, and the next one waits for quota.
        return any(link.numbers.get("pods", 0) > 1 for link in before.chain)
    return LAYERS.index(again.blocker.layer) > LAYERS.index(before.blocker.layer)


def without(moment: Moment, key: Key, found: Explanation) -> Explanation:
    """What is said once the named blocker is gone; of a layer with several doors, once each that is named is."""
    twin = moment.fork()
    if found.blocker.layer in ("queue", "quota", "gang", "scheduler"):
        _alone(twin, key)
    now, named = found, set[str]()
    while now.blocker.layer == found.blocker.layer and now.blocker.state == BLOCKED:
        if now.blocker.message in named or len(named) > 5:
            break
        named.add(now.blocker.message)
        _LIFT[now.blocker.layer](twin, key, now)
        twin.wake()
        # The scheduler may not bind before it is asked.
        twin.run_for(0 if "reasons" in now.blocker.numbers else 10_000_000)
        now = explain(Moment(twin), key)
    return now


def _alone(twin: Twin, key: Key) -> None:
    """Work that waits beside it goes."""
    mine = job_of(twin.store, key)
    gangs = {groups_of(p) for p in pods_of(twin.store, mine)} - {None}
    for other in work(Moment(twin)):
        obj = twin.store.require(other)
        if gangs & {groups_of(p) for p in pods_of(twin.store, other)}:
            continue
        waiting = [p for p in pods_of(twin.store, other) if not spec_of(p).get("nodeName")]
        if other != mine and (suspended_at(obj) or waiting):
            gone(twin, other)
    twin.wake()
    twin.run_for(1)


def groups_of(pod: Obj) -> Key | None:
    return coscheduling.group_key(pod) or gangscheduling.group_key(pod)


def gone(twin: Twin, key: Key) -> None:
    obj = twin.store.get(key)
    if obj is None:
        return
    below = twin.store.dependents(obj["metadata"]["uid"])
    twin.store.set_finalizers(key, [])
    if twin.store.get(key) is not None:
        twin.store.delete(key, grace_s=0)
    for dependent in below:
        gone(twin, dependent)


def put(twin: Twin, obj: Obj) -> None:
    create_or_replace(twin.host, obj)


def _patched(twin: Twin, obj: Obj, *operations: Obj) -> None:
    put(twin, json_patch(obj, list(operations)))


def _anew(twin: Twin, key: Key, obj: Obj) -> None:
    """As `kubectl replace --force` does."""
    made = as_new(obj)
    if key.gk == "Job.batch":
        made["spec"].pop("selector", None)
        for meta in (made["metadata"], made["spec"]["template"].get("metadata") or {}):
            labels = meta.get("labels") or {}
            meta["labels"] = {
                k: v for k, v in labels.items() if "controller-uid" not in k and "job-name" not in k
            }
    gone(twin, key)
    put(twin, made)


# Admission


def _door(twin: Twin, key: Key, found: Explanation) -> None:
    said, home = found.blocker.message, key.namespace
    if "exceeded quota" in said or "failed quota" in said:
        for quota in twin.store.objects("ResourceQuota", home):
            if name_of(quota) in said:
                gone(twin, key_of(quota))
    if " usage per " in said:
        for limits in list(twin.store.objects("LimitRange", home)):
            gone(twin, key_of(limits))
    space = twin.store.require(Key("Namespace", "", home))
    if "PodSecurity" in said:
        put(twin, {**space, "metadata": {**space["metadata"], "labels": {}}})
    for binding in list(twin.store.objects("ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io")):
        if f"'{name_of(binding)}'" in said:
            gone(twin, key_of(binding))
    if "must be less than or equal to" in said:
        _anew(twin, key, _each_container(twin, key, _within_limits))
    _tried_again(twin, key)


def _within_limits(container: Obj) -> Obj:
    resources = container.get("resources") or {}
    limits = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    requests = resources.get("requests") or {}
    return {**container, "resources": {"limits": {**limits, **requests}, "requests": requests}}


def _each_container(twin: Twin, key: Key, change: Any) -> Obj:
    job = deepcopy(twin.store.require(key))
    for path in templates_of(job):
        template = at_path(job, path)
        spec = spec_of(template)
        spec["containers"] = [change(c) for c in spec.get("containers") or ()]
    return job


def _tried_again(twin: Twin, key: Key) -> None:
    """Controllers that were refused wait longer and longer before they ask again."""
    twin.wake()
    twin.run_for(20 * 60 * 1_000_000)


# Queues


def _queue(twin: Twin, key: Key, found: Explanation) -> None:
    link, store = found.blocker, twin.store
    said, numbers = link.message, link.numbers
    job_key = job_of(store, key)
    job = store.require(job_key)
    if link.reason in ("Suspended", "NotLookedAfter") and suspended_at(job) in _fields(said):
        _patched(twin, job, {"op": "replace", "path": suspended_at(job), "value": False})
        return
    if "behind" in numbers:
        gone(twin, job_of(store, Key(f"Workload.{KUEUE_GROUP}", *numbers["behind"].split("/"))))
        return
    local_key = Key(f"LocalQueue.{KUEUE_GROUP}", *numbers["local_queue"].split("/"))
    local = store.get(local_key)
    if local is None:
        assert "doesn't exist" in said, said
        some = store.objects(f"ClusterQueue.{KUEUE_GROUP}")[0]
        put(twin, worlds.local_queue(local_key.name, name_of(some), local_key.namespace))
        return
    if said.startswith("LocalQueue") and "stopPolicy" in said:
        put(twin, {**local, "spec": {**local["spec"], "stopPolicy": "None"}})
        return
    queue = store.require(Key(f"ClusterQueue.{KUEUE_GROUP}", "", numbers["cluster_queue"]))
    spec = dict(queue["spec"])
    if "namespace doesn't match" in said:
        spec["namespaceSelector"] = {}
    if "stopPolicy" in said:
        spec["stopPolicy"] = "None"
    if "AdmissionCheck" in said:
        spec.pop("admissionChecksStrategy")
    put(twin, {**queue, "spec": spec})
    for name in re.findall(r"missing ResourceFlavor\(s\): ([\w,]+)", said):
        for one in filter(None, name.split(",")):
            put(twin, worlds.flavor(one))
    if "no Topology" in said:
        levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
        put(
            twin,
            {
                "apiVersion": worlds.KUEUE,
                "kind": "Topology",
                "metadata": {"name": "racks"},
                "spec": {"levels": levels},
            },
        )
    if "LimitRange" in said:
        for limits in list(store.objects("LimitRange", key.namespace)):
            gone(twin, key_of(limits))
    if "resources validation failed" in said:
        _anew(twin, job_key, _each_container(twin, job_key, _within_limits))


def _fields(said: str) -> list[str]:
    return [f"/{f.replace('.', '/')}" for f in re.findall(r"has ([\w.]+): true", said)]


def _quota(twin: Twin, key: Key, found: Explanation) -> None:
    """As much as anybody may want of all that it asks, in every flavor."""
    numbers = found.blocker.numbers
    short = [f for f in numbers["flavors"] if f["short"]]
    assert short or numbers["uncovered"], f"nothing is short: {found.sentence}"
    queue = twin.store.require(Key(f"ClusterQueue.{KUEUE_GROUP}", "", numbers["cluster_queue"]))
    groups = []
    for at, group in enumerate(queue["spec"].get("resourceGroups") or ()):
        new = list(numbers["uncovered"]) if not at else []
        flavors = [
            {
                **flavor,
                "resources": [_plenty(r) for r in (*(r["name"] for r in flavor["resources"]), *new)],
            }
            for flavor in group["flavors"]
        ]
        groups.append({"coveredResources": [*group["coveredResources"], *new], "flavors": flavors})
    put(twin, {**queue, "spec": {**queue["spec"], "resourceGroups": groups}})


def _plenty(resource: str) -> Obj:
    return {"name": resource, "nominalQuota": _MEMORY if resource == "memory" else _PLENTY}


# Places


def _placement(twin: Twin, key: Key, found: Explanation) -> None:
    if "mismatches" not in found.blocker.numbers:
        _roomy_node(twin, key)
        return
    for flavor in list(twin.store.objects(f"ResourceFlavor.{KUEUE_GROUP}")):
        gone(twin, key_of(flavor))
        put(twin, worlds.flavor(name_of(flavor)))
    job_key = job_of(twin.store, key)
    job = deepcopy(twin.store.require(job_key))
    for path in templates_of(job):
        meta = at_path(job, path).get("metadata") or {}
        notes = meta.get("annotations") or {}
        meta["annotations"] = {k: v for k, v in notes.items() if not _TOPOLOGY.match(k)}
    _anew(twin, job_key, job)


def _gang(twin: Twin, key: Key, found: Explanation) -> None:
    """The group is there, and asks for no more pods than it has; or there is room for all of them."""
    pods = [p for p in pods_of(twin.store, key) if not spec_of(p).get("nodeName")]
    name = groups_of(pods[0]) if pods else None
    if name is None:
        # It has started, since others are gone.
        return
    members = [p for p in twin.store.objects("Pod", key.namespace) if groups_of(p) == name]
    if "least" in found.blocker.numbers:
        _room(twin, [p for p in members if not spec_of(p).get("nodeName")])
        return
    if name.gk == coscheduling.POD_GROUP:
        api, spec = "scheduling.x-k8s.io/v1alpha1", {"minMember": len(members)}
    else:
        api, spec = "scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": len(members)}}}
    meta = {"name": name.name, "namespace": name.namespace}
    gone(twin, name)
    put(twin, {"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": spec})


def _roomy_node(twin: Twin, key: Key) -> None:
    _room(twin, [p for p in pods_of(twin.store, key) if not spec_of(p).get("nodeName")])


def _room(twin: Twin, waiting: list[Obj]) -> None:
    # More than it needs: what ran out of room elsewhere may come, too.
    for number, pod in enumerate(2 * waiting):
        zone = _zone_of_volumes(twin, pod) or f"us-east-1-{number}"
        labels = {ZONE: zone, **(spec_of(pod).get("nodeSelector") or {})}
        one = worlds.node(f"roomy-{number}", 512, labels)
        offers = {"cpu": "512", "nvidia.com/mig-1g.10gb": "512", "nvidia.com/gpu.shared": "512"}
        for part in ("allocatable", "capacity"):
            one["status"][part] = one["status"][part] | offers
        put(twin, one)


def _zone_of_volumes(twin: Twin, pod: Obj) -> str:
    for volume in spec_of(pod).get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        claim = twin.store.get(Key("PersistentVolumeClaim", namespace_of(pod), name))
        bound = spec_of(claim or {}).get("volumeName")
        there = twin.store.get(Key("PersistentVolume", "", bound)) if bound else None
        terms = ((spec_of(there or {}).get("nodeAffinity") or {}).get("required") or {}).get(
            "nodeSelectorTerms"
        )
        for term in terms or ():
            for wanted in term.get("matchExpressions") or ():
                if wanted["key"] == ZONE:
                    return str(wanted["values"][0])
    return ""


def _volumes(twin: Twin, key: Key, found: Explanation) -> None:
    """Claims of their own, each with a class that makes volumes."""
    api = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "some"}}
    put(twin, {**api, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"})
    names: dict[str, None] = {}
    for pod in pods_of(twin.store, key):
        for volume in spec_of(pod).get("volumes") or ():
            names[(volume.get("persistentVolumeClaim") or {}).get("claimName", "")] = None
    holders = [
        p
        for p in twin.store.objects("Pod", key.namespace)
        if job_of(twin.store, key_of(p)) != job_of(twin.store, key)
    ]
    for pod in holders:
        if "VolumeRestrictions" in found.blocker.reason and spec_of(pod).get("volumes"):
            gone(twin, job_of(twin.store, key_of(pod)))
    for name in filter(None, names):
        claim = Key("PersistentVolumeClaim", key.namespace, name)
        old = twin.store.get(claim)
        if old is not None and spec_of(old).get("volumeName"):
            continue
        gone(twin, claim)
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        meta = {"name": name, "namespace": key.namespace}
        made = {
            "apiVersion": "v1",
            "kind": claim.gk,
            "metadata": meta,
            "spec": spec | {"storageClassName": "some"},
        }
        put(twin, made)


def _kubelet(twin: Twin, key: Key, found: Explanation) -> None:
    numbers = found.blocker.numbers
    if "kind" in numbers:
        meta = {"name": numbers["name"], "namespace": key.namespace}
        put(twin, {"apiVersion": "v1", "kind": numbers["kind"], "metadata": meta, "data": {}})
    twin.wake()
    twin.run_for(120_000_000)


_LIFT = {
    "admission": _door,
    "queue": _queue,
    "quota": _quota,
    "gang": _gang,
    "scheduler": _placement,
    "volumes": _volumes,
    "kubelet": _kubelet,
}
