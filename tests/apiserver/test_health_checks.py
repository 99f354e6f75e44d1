"""healthz, livez and readyz line by line, and the APIServices of a cluster; without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairway.apiserver import apiservices
from fairway.apiserver.health import Health
from fairway.apiserver.resources import Resources
from fairway.apiserver.statuses import StatusError
from fairway.apiserver.wire.messages import Request, Response
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339


class World:
    """A server as far as its health goes."""

    def __init__(self, *, backlog: int = 0, ready: bool = True, components: tuple[str, ...] = ()) -> None:
        self.stopped, self.out = set[str](), dict[str, int]()
        contained = SimpleNamespace(
            is_stopped=self.stopped.__contains__, left_out=lambda name: self.out.get(name, 0)
        )
        twin = SimpleNamespace(components=[SimpleNamespace(name=name) for name in components])
        cluster = SimpleNamespace(
            twin=twin if components else None,
            containment=contained if components else None,
            ready=SimpleNamespace(is_set=lambda: ready),
        )
        api: Any = SimpleNamespace(cluster=cluster, journal=SimpleNamespace(backlog=backlog))
        self.health = Health(api)

    def ask(self, path: str, query: str = "", method: str = "GET") -> Response:
        return self.health.answer(Request(method, path, query, {}, b""))

    def said(self, path: str, query: str = "verbose") -> tuple[int, list[str]]:
        response = self.ask(path, query)
        return response.status, bytes(response.body).decode().splitlines()


ALWAYS = ["[+]ping ok", "[+]log ok", "[+]etcd ok", "[+]journal ok"]


def test_what_each_page_checks() -> None:
    world = World(components=("a", "b"))
    world.out = {"a": 1, "b": 2}
    for page in ("healthz", "livez"):
        assert world.said(f"/{page}") == (200, [*ALWAYS, f"{page} check passed"])
        assert world.ask(f"/{page}/").body == world.ask(f"/{page}", method="HEAD").body == b"ok"
    assert world.said("/readyz") == (
        200,
        [
            *ALWAYS,
            "[+]informer-sync ok",
            "[+]components ok",
            "[+]component/a ok: 1 object left out",
            "[+]component/b ok: 2 objects left out",
            "readyz check passed",
        ],
    )
    assert [(name, page) for name, page, _ in world.health.results()] == [
        *((name, page) for page in ("healthz", "livez") for name in ("ping", "log", "etcd", "journal")),
        *((name, "readyz") for name in ("ping", "log", "etcd", "journal", "informer-sync", "components")),
        ("component/a", "readyz"),
        ("component/b", "readyz"),
    ]
    assert all(is_well for _, _, is_well in world.health.results())


def test_what_is_wrong_is_withheld_from_the_list_and_told_by_its_own_page() -> None:
    world = World(components=("a", "b"))
    world.stopped.add("b")
    code, lines = world.said("/readyz", "")
    assert code == 500
    assert lines[-3:] == [
        "[+]component/a ok",
        "[-]component/b failed: reason withheld",
        "readyz check failed",
    ]
    assert world.said("/livez", "") == (200, ["ok"])
    found = world.ask("/readyz/component/b")
    assert (found.status, found.body) == (500, b"internal server error: b fails\n")
    found = world.ask("/readyz/component/a")
    assert (found.status, found.body, found.content_type) == (200, b"ok", "text/plain; charset=utf-8")
    assert ("component/b", "readyz", False) in world.health.results()


@pytest.mark.parametrize(("ready", "twin"), [(False, True), (False, False), (True, False)])
def test_while_components_are_being_loaded(ready: bool, twin: bool) -> None:
    world = World(ready=ready, components=("a",) if twin else ())
    code, lines = world.said("/readyz")
    assert code == (200 if ready else 500)
    word = "ok" if ready else "failed: reason withheld"
    sign = "+" if ready else "-"
    assert lines[4:] == [
        f"[{sign}]informer-sync {word}",
        f"[{sign}]components {word}",
        f"readyz check {'passed' if ready else 'failed'}",
    ]
    if not ready:
        body = b"internal server error: components are being loaded\n"
        assert world.ask("/readyz/components").body == body
    assert world.said("/livez")[0] == 200


def test_a_disk_that_lags_is_unhealthy_beyond_its_bound() -> None:
    from fairway.apiserver.health import MAX_BACKLOG

    assert World(backlog=MAX_BACKLOG).said("/livez", "") == (200, ["ok"])
    world = World(backlog=MAX_BACKLOG + 1)
    code, lines = world.said("/livez", "exclude=ping&exclude=nothing&exclude=else")
    assert (code, lines) == (
        500,
        [
            "[+]ping excluded: ok",
            "[+]log ok",
            "[-]etcd failed: reason withheld",
            "[-]journal failed: reason withheld",
            'warn: some health checks cannot be excluded: no matches for "else","nothing"',
            "livez check failed",
        ],
    )
    body = f"internal server error: {MAX_BACKLOG + 1} changes wait for the disk\n".encode()
    assert world.ask("/livez/etcd").body == body
    assert world.said("/livez", "exclude=etcd&exclude=journal") == (200, ["ok"])


def test_pages_and_methods_that_there_are_not() -> None:
    world = World()
    for path, method, code in (
        ("/healthz/nothing", "GET", 404),
        ("/livez/components", "GET", 404),
        ("/livez", "POST", 405),
    ):
        with pytest.raises(StatusError) as refused:
            world.ask(path, method=method)
        assert refused.value.code == code


# APIServices

GK, READER = "APIService.apiregistration.k8s.io", "system:aggregated-metrics-reader"
AUTOMANAGED = {"kube-aggregator.kubernetes.io/automanaged": "true"}


def crd(group: str) -> Obj:
    return {
        "metadata": {"name": f"gears.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": "gears", "kind": "Gear"},
            "scope": "Namespaced",
            "versions": [{"name": "v2", "served": True, "storage": True}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }


def test_groups_that_are_served_have_a_service_each() -> None:
    resources, store = Resources(), Store(now_us=parse_rfc3339("2026-01-05T08:00:00Z"))
    try:
        resources.set_definitions([crd("a.example.com")])
        apiservices.register(store, resources)
        metrics = store.require(Key(GK, "", "v1beta1.metrics.k8s.io"))
        assert metrics["metadata"]["labels"] == {"k8s-app": "metrics-server"}
        assert metrics["spec"] == {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "metrics-server", "namespace": "kube-system", "port": 443},
        }
        (condition,) = metrics["status"]["conditions"]
        assert condition == {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": "2026-01-05T08:00:00Z",
            "reason": "Passed",
            "message": "all checks passed",
        }
        own = store.require(Key(GK, "", "v2.a.example.com"))
        assert own["metadata"]["labels"] == AUTOMANAGED
        assert own["spec"] == {
            "group": "a.example.com",
            "version": "v2",
            "groupPriorityMinimum": 1000,
            "versionPriority": 100,
        }
        (condition,) = own["status"]["conditions"]
        assert (condition["reason"], condition["message"]) == (
            "Local",
            "Local APIServices are always available",
        )
        role = store.require(Key("ClusterRole.rbac.authorization.k8s.io", "", READER))
        aggregate = "rbac.authorization.k8s.io/aggregate-to-"
        assert role["metadata"]["labels"] == {
            "k8s-app": "metrics-server",
            **{f"{aggregate}{name}": "true" for name in ("admin", "edit", "view")},
        }
        assert role["rules"] == [
            {
                "apiGroups": ["metrics.k8s.io"],
                "resources": ["pods", "nodes"],
                "verbs": ["get", "list", "watch"],
            }
        ]
        before = store.version
        apiservices.register(store, resources)
        assert store.version == before, "what is there stays"
        others = {"name": "v1.other.example.com"}
        store.create({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": others})
        resources.set_definitions([crd("b.example.com")])
        apiservices.register(store, resources)
        names = {obj["metadata"]["name"] for obj in store.objects(GK)}
        assert {"v2.b.example.com", "v1.other.example.com", "v1beta1.metrics.k8s.io"} <= names
        assert "v2.a.example.com" not in names and "v1.apiregistration.k8s.io" not in names
    finally:
        resources.set_definitions([])


def test_without_a_metrics_server_its_service_goes() -> None:
    store = Store()
    apiservices.register(store, Resources())
    apiservices.register(store, Resources(False))
    assert store.get(Key(GK, "", "v1beta1.metrics.k8s.io")) is None
    bare = Store()
    apiservices.register(bare, Resources(False))
    assert bare.get(Key(GK, "", "v1beta1.metrics.k8s.io")) is None
    assert bare.get(Key("ClusterRole.rbac.authorization.k8s.io", "", READER)) is None
