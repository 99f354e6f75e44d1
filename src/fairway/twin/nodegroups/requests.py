"""ProvisioningRequests on the loop: which is tried next, what it is told, what is kept for whom.

Each scan tries one request, the oldest that is due, on the cluster as it will be; pods of Provisioned ones hold their
places in the simulation for ten minutes, or until all real ones have theirs.

Unlike kube: requests come by age and name, where upstream's come from a cache without order; and one that found no
room is tried again only after something changed, so that a twin comes to an end.

Source: processors/provreq (injector.go, processor.go, pods_filter.go), provisioningrequest (orchestrator,
checkcapacity, besteffortatomic).
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.kube.objects import Key, Obj, meta_of, name_of, namespace_of
from fairway.kube.provisioningrequests import CHECK_CAPACITY, POD_TEMPLATE, REQUEST
from fairway.provisioning.clusterautoscaler.groups import Options
from fairway.provisioning.clusterautoscaler.requests import (
    CONSUMED,
    FOUND,
    GIVEN_UP,
    IS_ACCEPTED,
    NOT_FOUND,
    RESERVATION_US,
    Request,
    Words,
    available_at_us,
    consumed_request,
    failed,
    is_booked,
    is_outdated,
    is_supported,
    missing_templates,
    overdue,
    pods_of,
    said,
    template_names,
)
from fairway.provisioning.clusterautoscaler.snapshot import Snapshot
from fairway.provisioning.karpenter.podfacts import PodFacts, Shapes, facts_of
from fairway.twin.components import Host

FAILED_TO_CREATE, FAILED_TO_BOOK = "FailedToCreatePods", "FailedToBookCapacity"
# Source: processor.go defaultMaxUpdated; pods_filter.go maxProvReqEvent.
MOST_UPDATED, MOST_EVENTS = 20, 50


class Asked(NamedTuple):
    """The request of this scan, and its pods."""

    request: Request
    pods: list[PodFacts]


class CapacityRequests:
    """Holds how long each request waits for its next try; the requests themselves are in the store."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.backoffs: dict[str, int] = {}
        self.tried: dict[str, None] = {}
        """Requests that were tried since the cluster changed, by uid."""
        self.has_turn = False
        """Whether requests, not pods that wait, are served next where both are there."""

    def copy(self) -> CapacityRequests:
        twin = CapacityRequests(self.options)
        twin.backoffs, twin.tried, twin.has_turn = dict(self.backoffs), dict(self.tried), self.has_turn
        return twin

    @property
    def is_on(self) -> bool:
        return self.options.provisioning_requests

    def changed(self) -> None:
        """The cluster did: what was tried in vain may be found now."""
        self.tried.clear()

    # One scan, step by step

    def refresh(self, host: Host) -> None:
        """End what was kept or waited too long, remove what is long over."""
        told = 0
        for request in self._all(host) if self.is_on else ():
            if is_outdated(request, host.loop.now_us):
                host.store.delete(_key(request))
                continue
            words = overdue(request, host.loop.now_us)
            if words is not None and told < MOST_UPDATED:
                told += 1
                self.say(host, request, words)

    def next(self, host: Host, shapes: Shapes, objects: dict[str, Obj]) -> Asked | None:
        """The first that may be tried now, accepted; its pods are noted in `objects` by uid."""
        for request in self._all(host):
            if not is_supported(request) or not self._is_due(request, host.loop.now_us):
                continue
            missing = missing_templates(request)
            if missing:
                self.say(host, request, failed(FAILED_TO_CREATE, missing))
                continue
            self.tried[request.uid] = None
            return Asked(self.say(host, request, IS_ACCEPTED), _facts(request, shapes, objects))
        return None

    def _is_due(self, request: Request, now_us: int) -> bool:
        initial_us, most_us = self.options.request_backoff_us, self.options.most_request_backoff_us
        backoff_us = self.backoffs.get(request.uid, initial_us)
        at_us = available_at_us(request, backoff_us)
        if at_us is None:
            self.backoffs.pop(request.uid, None)
        if at_us is None or at_us > now_us:
            return False
        if at_us > request.created_us:
            self.backoffs[request.uid] = min(2 * backoff_us, most_us)
        return True

    def book(self, host: Host, snapshot: Snapshot, shapes: Shapes, objects: dict[str, Obj]) -> None:
        """Put the pods of Provisioned requests where there is room: nobody else's plan counts on it."""
        used: dict[str, int] = {}
        for pod in self._there(host, snapshot, objects):
            name = consumed_request(pod)
            if name:
                key = f"{namespace_of(pod)}/{name}"
                used[key] = used.get(key, 0) + 1
        pods: list[PodFacts] = []
        for request in self._all(host):
            if not is_booked(request):
                continue
            if used.get(request.key, 0) >= request.pod_count:
                self.say(host, request, CONSUMED)
                continue
            missing = missing_templates(request)
            if missing:
                self.say(host, request, failed(FAILED_TO_BOOK, f"Couldn't create pods, err: {missing}"))
                continue
            pods += _facts(request, shapes, objects)
        snapshot.place(pods)

    def _there(self, host: Host, snapshot: Snapshot, objects: dict[str, Obj]) -> list[Obj]:
        """Pods that have a node, and those that would get one."""
        accounts = host.store.accounts
        bound = (host.store.get(key) for row in accounts.row_of.values() for key in accounts.pods[row])
        return [p for p in bound if p is not None] + [objects[p.uid] for _, p in snapshot.placed]

    def check(self, host: Host, asked: Asked, snapshot: Snapshot) -> bool:
        """Whether the cluster has room for all of them as it is; the request is told."""
        if not snapshot.copy().place(asked.pods):
            self.say(host, asked.request, FOUND)
            return True
        self.say(host, asked.request, NOT_FOUND if asked.request.may_retry else GIVEN_UP)
        return False

    def say(self, host: Host, request: Request, words: Words) -> Request:
        changed = said(request, words, host.loop.now_us)
        key = _key(request)
        host.store.set_status(key, changed.obj["status"])
        host.log.record(
            host.loop.now_us,
            "cluster-autoscaler",
            key.gk,
            key.namespace,
            key.name,
            words.reason,
            words.message,
        )
        return changed

    # When to look again

    def next_look_us(self, host: Host) -> int | None:
        """When a request is due, or what is kept runs out; None: nothing of the kind. O(requests)."""
        times = []
        for request in self._all(host) if self.is_on else ():
            if not is_supported(request):
                continue
            if is_booked(request):
                times.append((request.since_us("Provisioned") or 0) + RESERVATION_US + 1)
                continue
            backoff_us = self.backoffs.get(request.uid, self.options.request_backoff_us)
            at_us = available_at_us(request, backoff_us)
            if at_us is not None and request.uid not in self.tried:
                times.append(at_us)
        return min(times, default=None)

    # The store

    def _all(self, host: Host) -> list[Request]:
        store = host.store
        found = [
            Request(obj, _templates(host, obj))
            for obj in store.objects(REQUEST)
            if "deletionTimestamp" not in meta_of(obj)
        ]
        return sorted(found, key=lambda r: (r.created_us, r.key))


def _templates(host: Host, obj: Obj) -> dict[str, Obj]:
    names = template_names(obj)
    found = ((n, host.store.get(Key(POD_TEMPLATE, namespace_of(obj), n))) for n in names)
    return {name: template for name, template in found if template is not None}


def _facts(request: Request, shapes: Shapes, objects: dict[str, Obj]) -> list[PodFacts]:
    pods = pods_of(request)
    objects.update({meta_of(p)["uid"]: p for p in pods})
    return [facts_of(p, shapes.of(p)) for p in pods]


def _key(request: Request) -> Key:
    return Key(REQUEST, namespace_of(request.obj), name_of(request.obj))


def is_check(request: Request) -> bool:
    return request.class_name == CHECK_CAPACITY
