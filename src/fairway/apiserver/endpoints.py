"""Which pods stand behind a Service? Keeps its Endpoints and its EndpointSlice.

Both carry the addresses of the pods its selector finds; a Service without a selector keeps what others wrote.
Unlike kube: one slice a Service, however many pods (there, a hundred a slice).

Source: pkg/controller/endpoint/endpoints_controller.go, pkg/controller/endpointslice (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.changes import DELETED, Change
from fairway.cluster.errors import ApiError
from fairway.cluster.metadata import generated_name
from fairway.kube.conditions import is_condition_true
from fairway.kube.objects import Key, Obj, annotations_of, labels_of, spec_of, status_of
from fairway.kube.timestamps import rfc3339
from fairway.twin.components import Host
from fairway.twin.loop import CONTROLLERS

_SLICE = "EndpointSlice.discovery.k8s.io"
# Source: v1.EndpointsLastChangeTriggerTime.
_CHANGED_AT = "endpoints.kubernetes.io/last-change-trigger-time"
_SERVICE_NAME = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_SLICE_MANAGER = "endpointslice-controller.k8s.io"
_ENDPOINTS_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_HEADLESS = "service.kubernetes.io/headless"
_ENDED = ("Succeeded", "Failed")

Address = dict[str, Any]


class EndpointsController:
    """Both controllers in one: they look at the same pods at the same moments."""

    name = "endpoints-controller"
    kinds: tuple[str, ...] = ("Service", "Pod")

    def __init__(self) -> None:
        self._selectors: dict[str, dict[str, dict[str, str]]] = {}
        """Namespace → Service → selector."""
        self._due: set[tuple[str, str]] = set()

    def attach(self, host: Host) -> None:
        self.host = host
        self._sync = host.loop.register("endpoints.sync", self._on_sync)
        self._delay = host.latency.controller_reconcile.sampler(host.streams.stream("endpoints"))

    def start(self) -> None:
        """Services come as changes."""

    def fork(self) -> EndpointsController:
        twin = EndpointsController()
        twin._selectors = {ns: dict(known) for ns, known in self._selectors.items()}
        twin._due = set(self._due)
        return twin

    def observe(self, change: Change) -> None:
        key = change.key
        if key.gk == "Service":
            known = self._selectors.setdefault(key.namespace, {})
            known.pop(key.name, None)
            selector = spec_of(change.obj).get("selector")
            if selector and change.type != DELETED and spec_of(change.obj).get("type") != "ExternalName":
                known[key.name] = selector
            self._plan(key.namespace, key.name)
            return
        known = self._selectors.get(key.namespace) or {}
        if known:
            seen = [labels_of(pod) for pod in (change.obj, change.old) if pod is not None]
            for name, selector in known.items():
                if any(all(labels.get(k) == v for k, v in selector.items()) for labels in seen):
                    self._plan(key.namespace, name)

    def _plan(self, namespace: str, name: str) -> None:
        if (namespace, name) not in self._due:
            self._due.add((namespace, name))
            loop = self.host.loop
            loop.at(loop.now_us + self._delay(), self._sync, (namespace, name), CONTROLLERS)

    def _on_sync(self, named: tuple[str, str]) -> None:
        self._due.discard(named)
        namespace, name = named
        service = self.host.store.get(Key("Service", namespace, name))
        if service is None:
            self._forget(namespace, name)
        elif spec_of(service).get("selector") and spec_of(service).get("type") != "ExternalName":
            pods = self._pods(namespace, spec_of(service)["selector"])
            self._write(Key("Endpoints", namespace, name), _endpoints(service, pods))
            self._write_slice(service, pods)

    def _forget(self, namespace: str, name: str) -> None:
        """The slice goes with its owner."""
        key = Key("Endpoints", namespace, name)
        found = self.host.store.get(key)
        if found is not None and labels_of(found).get(_ENDPOINTS_MANAGED_BY) == "endpoint-controller":
            self.host.store.delete(key)

    def _pods(self, namespace: str, selector: dict[str, str]) -> list[Obj]:
        found = []
        for pod in self.host.store.walk("Pod", namespace):
            labels, status = labels_of(pod), status_of(pod)
            is_there = status.get("podIP") and status.get("phase") not in _ENDED
            if is_there and all(labels.get(k) == v for k, v in selector.items()):
                found.append(pod)
        return found

    def _write(self, key: Key, wanted: Obj) -> None:
        """Create or replace, where it differs; with the time of the change."""
        store = self.host.store
        found = store.get(key)
        notes = {_CHANGED_AT: rfc3339(self.host.loop.now_us)}
        try:
            if found is None:
                store.create({**wanted, "metadata": {**wanted["metadata"], "annotations": notes}})
            elif {**found, "metadata": None} != {**wanted, "metadata": None} or labels_of(found) != labels_of(
                wanted
            ):
                meta = {**found["metadata"], "labels": labels_of(wanted)}
                meta["annotations"] = {**annotations_of(found), **notes}
                store.replace({**wanted, "metadata": meta})
        except ApiError:
            # Its namespace is on its way out.
            return

    def _write_slice(self, service: Obj, pods: list[Obj]) -> None:
        meta = service["metadata"]
        wanted = _slice(service, pods)
        for found in self.host.store.walk(_SLICE, meta["namespace"]):
            labels = labels_of(found)
            if labels.get(_SERVICE_NAME) == meta["name"] and labels.get(_MANAGED_BY) == _SLICE_MANAGER:
                wanted["metadata"]["name"] = found["metadata"]["name"]
                break
        else:
            store = self.host.store
            wanted["metadata"]["name"] = generated_name(f"{meta['name']}-", store.seed, store.serial + 1)
        self._write(Key(_SLICE, meta["namespace"], wanted["metadata"]["name"]), wanted)


def _endpoints(service: Obj, pods: list[Obj]) -> Obj:
    meta = service["metadata"]
    labels = {**labels_of(service), _ENDPOINTS_MANAGED_BY: "endpoint-controller"}
    if spec_of(service).get("clusterIP") == "None":
        labels[_HEADLESS] = ""
    out: Obj = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "labels": labels},
    }
    subsets: dict[tuple[Any, ...], dict[str, Any]] = {}
    for pod in pods:
        if pod["metadata"].get("deletionTimestamp"):
            continue
        ports = _ports(service, pod)
        if not ports and spec_of(service).get("ports"):
            continue
        shape = tuple((p.get("name", ""), p["port"], p["protocol"]) for p in ports)
        group = subsets.setdefault(shape, {"ports": ports})
        kind = "addresses" if _is_ready(service, pod) else "notReadyAddresses"
        group.setdefault(kind, []).append({"ip": status_of(pod)["podIP"], **_target(pod)})
    if subsets:
        out["subsets"] = [_ordered(subsets[shape]) for shape in sorted(subsets)]
    return out


def _ordered(subset: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for kind in ("addresses", "notReadyAddresses"):
        if kind in subset:
            out[kind] = sorted(subset[kind], key=lambda a: [int(part) for part in a["ip"].split(".")])
    if subset["ports"]:
        out["ports"] = subset["ports"]
    return out


def _slice(service: Obj, pods: list[Obj]) -> Obj:
    meta = service["metadata"]
    labels = {**labels_of(service), _MANAGED_BY: _SLICE_MANAGER, _SERVICE_NAME: meta["name"]}
    if spec_of(service).get("clusterIP") == "None":
        labels[_HEADLESS] = ""
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "generateName": f"{meta['name']}-",
        "namespace": meta["namespace"],
        "labels": labels,
        "ownerReferences": [owner],
    }
    ports = _ports(service, pods[0]) if pods else []
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        # Go writes no list where there is nothing.
        "endpoints": [_endpoint(service, pod) for pod in pods] or None,
        "ports": [{"name": "", **port} for port in ports] or None,
    }


def _endpoint(service: Obj, pod: Obj) -> dict[str, Any]:
    is_ending = bool(pod["metadata"].get("deletionTimestamp"))
    is_serving = is_condition_true(status_of(pod).get("conditions"), "Ready")
    conditions = {
        "ready": _is_ready(service, pod) and not is_ending,
        "serving": is_serving,
        "terminating": is_ending,
    }
    return {"addresses": [status_of(pod)["podIP"]], "conditions": conditions, **_target(pod)}


def _target(pod: Obj) -> Address:
    meta = pod["metadata"]
    reference = {"kind": "Pod", "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
    return {"nodeName": spec_of(pod).get("nodeName", ""), "targetRef": reference}


def _is_ready(service: Obj, pod: Obj) -> bool:
    if spec_of(service).get("publishNotReadyAddresses"):
        return True
    return is_condition_true(status_of(pod).get("conditions"), "Ready")


def _ports(service: Obj, pod: Obj) -> list[dict[str, Any]]:
    """Where the Service's ports lead in this pod; one that it does not name is left out."""
    found = []
    for port in spec_of(service).get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _named_port(pod, target, port.get("protocol", "TCP"))
        if number:
            named = {"name": port["name"]} if port.get("name") else {}
            found.append({**named, "port": number, "protocol": port.get("protocol", "TCP")})
    return found


def _named_port(pod: Obj, name: str, protocol: str) -> int:
    for container in spec_of(pod).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return 0
