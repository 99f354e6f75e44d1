"""Sending the requests, counting the answers, clearing up, and asking in the end who is still alive."""

from __future__ import annotations

import http.client
import json
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from fairway.bench.fuzzing.requests import NAMESPACES, Kind, Requests, Sent, encoded

Connect = Callable[[], http.client.HTTPSConnection]
SECOND_US: Final = 1_000_000
# Requests between two moments at which time goes on, and how far it then goes.
_ADVANCE_EVERY: Final = 25
_ADVANCE_US: Final = 3 * SECOND_US
# Requests between two times at which everything made so far is removed.
CLEAR_EVERY: Final = 5_000
_WATCH_EVERY: Final = 500
_KEPT: Final = 50
# Answers of 500 in kube-apiserver's own words. Source: structuredmerge.go Apply, mergepatch ErrNoMergeKey,
# storage ErrResourceVersionSetOnCreate, etcd rpctypes, webhook/errors.
_UPSTREAMS: Final = (
    b"failed to create typed patch object",
    b"does not contain declared merge key",
    b"resourceVersion should not be set on objects to be created",
    b"etcdserver: request is too large",
    b"failed calling webhook",
)
_QUOTA: Final = "limits"
_COUNTED: Final = (
    *("pods", "services", "secrets", "persistentvolumeclaims", "count/jobs.batch", "count/statefulsets.apps"),
    *("count/replicasets.apps", "count/podgroups.scheduling.volcano.sh", "count/workloads.kueue.x-k8s.io"),
)
_HARD: Final = dict.fromkeys(_COUNTED, "60")
_GROUPS_APART: Final = ("metrics.k8s.io", "authentication.k8s.io", "authorization.k8s.io")


class Attack:
    """One client against one server whose clock stands."""

    def __init__(self, connect: Connect, seed: int) -> None:
        self._connect = connect
        self._connection: http.client.HTTPSConnection | None = None
        self.codes: Counter[int] = Counter()
        self.faults = 0
        """Answers of 500; `upstreams`: those that kube-apiserver answers so, too."""
        self.upstreams = 0
        self.failed: list[tuple[Sent, bytes]] = []
        """Requests that were answered with 500, the first of them."""
        self.broken: list[Sent] = []
        """Requests after which the server hung up."""
        self.kinds = served_kinds(self.ask)
        self.requests = Requests(seed, self.kinds)
        self._stream = iter(self.requests)
        for namespace in NAMESPACES:
            meta = {"name": namespace}
            self.ask(
                "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
            )
        self._limit()
        self._before = {k.plural: self._names(k) for k in self.kinds if not k.namespaced}
        self._sent = 0
        self._watching: http.client.HTTPSConnection | None = None

    def _limit(self) -> None:
        """A quota in every namespace, as tenants have one: two billion replicas are asked for, and not had."""
        for namespace in NAMESPACES:
            quota = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": _QUOTA},
                "spec": {"hard": _HARD},
            }
            self.ask("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)

    def close(self) -> None:
        for connection in (self._connection, self._watching):
            if connection is not None:
                connection.close()

    def send(self, count: int) -> None:
        """So many requests."""
        for sent in islice(self._stream, count):
            self._sent += 1
            code, body = self._answer(sent)
            self.codes[code] += 1
            if code == 500 and any(words in body for words in _UPSTREAMS):
                self.upstreams += 1
            elif code == 500:
                self.faults += 1
                self.failed = [*self.failed, (sent, body)][:_KEPT]
            self.requests.heard(sent, code, body)
            if self._sent % _ADVANCE_EVERY == 0:
                self.advance(_ADVANCE_US)
            if self._sent % _WATCH_EVERY == 0:
                self._watch()

    def _answer(self, sent: Sent) -> tuple[int, bytes]:
        headers = {"Content-Type": sent.media, "Accept": sent.accept}
        try:
            return self._exchange(sent.method, sent.path, sent.body, headers)
        except (OSError, http.client.HTTPException):
            self.broken = [*self.broken, sent][:_KEPT]
            self._connection = None
            return 0, b""

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        found = response.read()
        if response.will_close:
            self._connection.close()
            self._connection = None
        return response.status, found

    def ask(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> tuple[int, Any]:
        """An honest request."""
        data = None if body is None else encoded(body)
        code, found = self._exchange(
            method, path, data, {"Content-Type": media, "Accept": "application/json"}
        )
        return code, json.loads(found) if found[:1] in (b"{", b"[") else found.decode()

    def advance(self, by_us: int) -> None:
        self.ask("POST", "/fairway/clock", {"advanceUs": by_us})

    def _watch(self) -> None:
        """A watcher that reads nothing and leaves without a word."""
        self._limit()
        if self._watching is not None:
            self._watching.close()
        kind = self.requests.draw.choice(self.kinds)
        self._watching = self._connect()
        accept = self.requests.draw.choice(
            ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io")
        )
        with suppress(OSError, http.client.HTTPException, ssl.SSLError):
            self._watching.request("GET", f"{_everywhere(kind)}?watch=1", headers={"Accept": accept})

    # Clearing up

    def clear(self) -> None:
        """Remove everything that was made, whatever finalizers it has, and let that happen."""
        left = [k for k in self.kinds if "delete" in k.verbs and "list" in k.verbs]
        for _ in range(3):
            left = [kind for kind in left if self._clear(kind)]
            self.advance(120 * SECOND_US)

    def _clear(self, kind: Kind) -> int:
        """How many were asked to go."""
        count = 0
        _, found = self.ask("GET", _everywhere(kind))
        for obj in found.get("items") or () if isinstance(found, dict) else ():
            meta = obj["metadata"]
            namespace, name = meta.get("namespace", ""), meta["name"]
            if namespace not in NAMESPACES if kind.namespaced else name in self._before[kind.plural]:
                continue
            if name == _QUOTA:
                continue
            path = kind.path(namespace, name)
            if meta.get("finalizers"):
                empty = {"metadata": {"finalizers": None}}
                self.ask("PATCH", path, empty, "application/merge-patch+json")
            self.ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
            count += 1
        return count

    def _names(self, kind: Kind) -> set[str]:
        if "list" not in kind.verbs:
            return set()
        _, found = self.ask("GET", _everywhere(kind))
        return {o["metadata"]["name"] for o in found.get("items") or ()}

    # Asking who is alive

    def failures(self) -> list[str]:
        """What components failed at, as the server says it."""
        _, page = self.ask("GET", "/metrics")
        lines = [t for t in page.splitlines() if t.startswith("fairway_component_failures_total{")]
        _, clock = self.ask("GET", "/fairway/clock")
        standing = [
            f"{f['component']}: {f['object']}: {f['error']} at {f['where']}" for f in clock["failing"]
        ]
        return [*lines, *standing]

    def dead(self) -> list[str]:
        """What does not work: a Deployment gets its pods, and Kueue admits a job, which runs to its end."""
        self._disarm()
        for obj in _LIVING:
            kind = next(k for k in self.kinds if (k.api_version, k.kind) == (obj["apiVersion"], obj["kind"]))
            path = kind.path(obj["metadata"].get("namespace", ""))
            code, said = self.ask("POST", path, obj)
            if code not in (201, 409):
                return [f"{obj['kind']} was refused: {code} {said}"]
        for _ in range(10):
            self.advance(60 * SECOND_US)
            problems = self._problems()
            if not problems:
                break
        return problems

    def _problems(self) -> list[str]:
        _, deployment = self.ask("GET", "/apis/apps/v1/namespaces/alive/deployments/alive")
        _, job = self.ask("GET", "/apis/batch/v1/namespaces/alive/jobs/alive")
        ready, done = deployment["status"].get("readyReplicas", 0), job["status"].get("succeeded", 0)
        return [
            *([] if ready == 2 else [f"the Deployment has {ready} of 2 pods ready"]),
            *([] if done == 1 else [f"the Kueue Job has not ended: {job['status']}"]),
        ]

    def _disarm(self) -> None:
        """What may rightly refuse everybody's objects, or take everybody's place, goes first."""
        for kind in self.kinds:
            if kind.kind in _MAY_REFUSE:
                self._clear(kind)


def served_kinds(ask: Callable[[str, str], tuple[int, Any]]) -> list[Kind]:
    """What discovery says, as it says it."""
    _, groups = ask("GET", "/apis")
    versions = ["v1"]
    for group in groups["groups"]:
        if group["name"] not in _GROUPS_APART:
            versions += [v["groupVersion"] for v in group["versions"]]
    found = []
    for version in versions:
        _, said = ask("GET", f"/apis/{version}" if "/" in version else f"/api/{version}")
        for r in said["resources"]:
            if "/" not in r["name"]:
                verbs = frozenset(r["verbs"])
                found.append(Kind(version, r["kind"], r["name"], bool(r["namespaced"]), verbs))
    return found


def _everywhere(kind: Kind) -> str:
    root = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
    return f"{root}/{kind.plural}"


_MAY_REFUSE: Final = (
    *("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"),
    *("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    *("PriorityClass", "RuntimeClass", "Node"),
)
_ALONE: Final[dict[str, Any]] = {
    "nodeSelector": {"alive": "alive"},
    "tolerations": [{"key": "alive", "operator": "Exists"}],
    "priority": None,
    "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}],
}
_HELD: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def _living() -> Iterable[dict[str, Any]]:
    meta = {"name": "alive", "namespace": "alive"}
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "alive"}}
    yield {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "alive", "labels": {"alive": "alive"}},
        "spec": {"taints": [{"key": "alive", "effect": "NoSchedule"}]},
        "status": {"capacity": _HELD, "allocatable": _HELD},
    }
    template = {"metadata": {"labels": {"app": "alive"}}, "spec": _ALONE}
    spec: dict[str, Any] = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "alive"}},
        "template": template,
    }
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    kueue = "kueue.x-k8s.io/v1beta2"
    yield {"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": "alive"}, "spec": {}}
    quota = {"name": "alive", "resources": [{"name": "cpu", "nominalQuota": "8"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    yield {"apiVersion": kueue, "kind": "ClusterQueue", "metadata": {"name": "alive"}, "spec": spec}
    yield {"apiVersion": kueue, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": "alive"}}
    labels = {"kueue.x-k8s.io/queue-name": "alive"}
    template = {
        "metadata": {"annotations": {"fairway.dev/run-time": "30s"}},
        "spec": {**_ALONE, "restartPolicy": "Never"},
    }
    spec = {"suspend": True, "template": template}
    yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**meta, "labels": labels}, "spec": spec}


_LIVING: Final = tuple(_living())
