"""What an LLMInferenceService says of Gateways, routes, pools and workloads that are not all there, or not all ready.

Source: kserve v0.20 router.go, router_validation.go, router_discovery.go, llm_inference_service_lifecycle.go.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads.knative.conditions import Conditions
from fairway.workloads.kserve.llm import readiness, routing
from fairway.workloads.kserve.llm.presets import Settings, settings_of
from fairway.workloads.kserve.llm.workloads import size_of

NOW = parse_rfc3339("2026-01-05T08:00:00Z")
SERVICE: Obj = {"metadata": {"name": "chat", "namespace": "ns", "uid": "u"}, "spec": {}}
API = "gateway.networking.k8s.io/v1"
RULES = [
    {"matches": [{"path": {"value": "/ns/chat"}}], "backendRefs": [{"kind": "InferencePool", "name": "x"}]}
]


def said_by(type_: str, status: str, **more: Any) -> Obj:
    return {"type": type_, "status": status, "reason": "R", "message": "m", **more}


class World:
    def __init__(self) -> None:
        self.store = Store(seed=1, now_us=NOW)
        self.conditions = Conditions({}, ("WorkloadsReady", "RouterReady"), NOW)

    def make(
        self,
        api: str,
        kind: str,
        name: str,
        spec: Obj | None = None,
        status: Obj | None = None,
        namespace: str = "ns",
    ) -> Obj:
        self.store.create(
            {
                "apiVersion": api,
                "kind": kind,
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec or {},
            }
        )
        key = Key(f"{kind}.{api.partition('/')[0]}", namespace, name)
        if status is not None:
            self.store.set_status(key, status)
        return self.store.require(key)

    def gateway(
        self, name: str = "gw", programmed: str | None = "True", namespace: str = "ns", **spec: Any
    ) -> Obj:
        if self.store.get(Key(routing.CLASS, "", "c")) is None:
            self.store.create(
                {"apiVersion": API, "kind": "GatewayClass", "metadata": {"name": "c"}, "spec": {}}
            )
        listeners = [{"name": "http", "port": 80, "protocol": "HTTP"}]
        conditions = [
            said_by("Accepted", "True"),
            *([said_by("Programmed", programmed)] if programmed else []),
        ]
        status = {"conditions": conditions, "addresses": [{"value": "1.2.3.4"}]}
        return self.make(
            API, "Gateway", name, {"gatewayClassName": "c", "listeners": listeners, **spec}, status, namespace
        )

    def route(self, parents: list[Obj], said: list[list[Obj]], name: str = "chat-kserve-route") -> Obj:
        status = {"parents": [{"parentRef": p, "conditions": c} for p, c in zip(parents, said, strict=False)]}
        return self.make(API, "HTTPRoute", name, {"parentRefs": parents, "rules": RULES}, status)

    def pool(self, accepted: dict[str, list[Obj]], **ref: str) -> Obj:
        status = {
            "parents": [{"parentRef": {"name": n, **ref}, "conditions": c} for n, c in accepted.items()]
        }
        return self.make("inference.networking.k8s.io/v1", "InferencePool", "chat-inference-pool", {}, status)

    def router(self, router: Obj, settings: Settings | None = None, **spec: Any) -> Obj:
        given = {"model": {"name": "llama"}, "router": router, **spec}
        return readiness.of_router(self.store, SERVICE, given, settings or Settings(), self.conditions)

    def said(self, type_: str) -> tuple[str, str, str] | None:
        found = self.conditions.get(type_)
        return None if found is None else (found["status"], found.get("reason", ""), found.get("message", ""))


def own_route(*parents: Obj) -> Obj:
    return {"http": {"spec": {"parentRefs": list(parents), "rules": RULES}}}


MET = [said_by("Accepted", "True"), said_by("ResolvedRefs", "True")]


def test_without_a_route_the_service_is_the_address() -> None:
    world = World()
    assert world.router({}) == {
        "addresses": [{"url": "http://chat-kserve-workload-svc.ns.svc.cluster.local"}]
    }
    assert world.router({}, Settings(has_tls=True))["addresses"][0]["url"].startswith("https://")
    assert world.said("RouterReady") == ("True", "", "")
    for type_ in ("GatewaysReady", "HTTPRoutesReady", "InferencePoolReady", "SchedulerWorkloadReady"):
        assert world.said(type_) is None


@pytest.mark.parametrize("where", ["", "infra"])
@pytest.mark.parametrize("which", ["gateway", "route", "parent"])
def test_what_is_named_has_to_be_there(which: str, where: str) -> None:
    world = World()
    ref = {"name": "gw", **({"namespace": where} if where else {})}
    full = f"{where or 'ns'}/gw"
    router: Obj = {
        "gateway": {"gateway": {"refs": [ref]}},
        "route": {"route": {"http": {"refs": [{"name": "r"}, {"name": "s"}]}}},
        "parent": {"route": own_route(ref)},
    }[which]
    want = {
        "gateway": ("GatewaysReady", f"Gateway {full} does not exist"),
        "route": ("HTTPRoutesReady", "HTTPRoute ns/r does not exist; HTTPRoute ns/s does not exist"),
        "parent": ("HTTPRoutesReady", f"Managed HTTPRoute references non-existent Gateway {full}"),
    }[which]
    with pytest.raises(readiness.NotReconciled) as told:
        world.router(router)
    assert str(told.value) == want[1]
    assert world.said(want[0]) == ("False", "RefsInvalid", want[1])
    assert world.said("RouterReady") == ("False", "RefsInvalid", want[1])


@pytest.mark.parametrize("missing", ["class", "gateway"])
def test_a_route_that_is_named_hangs_on_gateways_that_are_there(missing: str) -> None:
    world = World()
    if missing == "class":
        world.gateway(gatewayClassName="none")
    world.route([{"name": "gw"}], [MET], "r")
    with pytest.raises(readiness.NotReconciled, match="failed to reconcile HTTP routes"):
        world.router({"route": {"http": {"refs": [{"name": "r"}]}}})
    status, reason, message = world.said("HTTPRoutesReady") or ("", "", "")
    assert (status, reason) == ("False", "HTTPRouteReconcileError")
    assert "failed to discover gateways for route ns/r: failed to get Gateway" in message
    assert (f"gateways.{routing.GATEWAY.partition('.')[2]}" in message) is (missing == "gateway")


@pytest.mark.parametrize("programmed", ["True", "False", None])
@pytest.mark.parametrize("is_named", [True, False])
def test_gateways_are_ready_once_programmed(programmed: str | None, is_named: bool) -> None:
    world = World()
    for name in ("gw", "late"):
        world.gateway(name, "True" if name == "gw" else programmed)
    parents = [{"name": "gw"}, {"name": "late"}]
    world.route(parents, [MET, MET])
    refs = {"gateway": {"refs": parents}} if is_named else {}
    world.router({"route": own_route(*parents), **refs})
    want: tuple[str, str, str] | None = ("True", "", "")
    if programmed != "True":
        want = ("False", "GatewaysNotReady", "The following Gateways are not ready: [ns/late]")
    assert world.said("GatewaysReady") == (want if is_named else None)


@pytest.mark.parametrize("first", ["True", "False"])
@pytest.mark.parametrize("second", ["True", "False", "stale", "absent", "nobody"])
def test_routes_are_ready_once_every_parent_took_them(first: str, second: str) -> None:
    world = World()
    parents = [{"name": "gw"}, {"name": "other"}]
    for parent in parents:
        world.gateway(parent["name"])
    told = {
        "True": [*MET[:1], said_by("ResolvedRefs", "True", observedGeneration=1)],
        "False": [*MET[:1], said_by("ResolvedRefs", "False")],
        "stale": [*MET[:1], said_by("ResolvedRefs", "True", observedGeneration=1)],
        "absent": MET[:1],
    }
    route = world.route(parents, [told[first], *([told[second]] if second != "nobody" else [])])
    if second == "stale":
        world.store.patch(Key(routing.ROUTE, "ns", "chat-kserve-route"), {"spec": {"hostnames": ["h"]}})
        world.store.set_status(Key(routing.ROUTE, "ns", "chat-kserve-route"), route["status"])
    world.router({"route": own_route(*parents)})
    status, _, message = world.said("HTTPRoutesReady") or ("", "", "")
    assert status == ("True" if (first, second) == ("True", "True") else "False")
    if second == "nobody":
        assert "ns/chat-kserve-route: v1.HTTPRouteStatus" in message
    elif first == "False" or second == "False":
        assert 'ns/chat-kserve-route: "False" (reason "R", message "m")' in message
    elif second == "absent":
        assert '"Unknown" (reason "ConditionMissing", message "")' in message


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("first", ["True", "False", None])
@pytest.mark.parametrize("second", ["True", None])
def test_a_pool_is_ready_once_every_gateway_took_it(
    is_there: bool, first: str | None, second: str | None
) -> None:
    world = World()
    parents = [{"name": "gw"}, {"name": "other"}]
    for parent in parents:
        world.gateway(parent["name"])
    world.route(parents, [MET, MET])
    if is_there:
        told = {n: [said_by("Accepted", s)] for n, s in (("gw", first), ("other", second)) if s is not None}
        world.pool({**told, "stranger": [said_by("Accepted", "False")]})
    world.router({"route": own_route(*parents), "scheduler": {}})
    name = "Inference Pool ns/chat-inference-pool"
    if not is_there:
        want = ("False", "InferencePoolFetchError", f"{name} not found (checked v1 and v1alpha2)")
    elif first is None and second is None:
        want = ("False", "WaitingForGateway", f"{name} exists but no Gateway controller has accepted it yet")
    elif first is None or second is None:
        late = "gw" if first is None else "other"
        want = ("False", "WaitingForGateway", f"{name} is not yet accepted by gateway ns/{late}")
    elif first == "False":
        want = (
            "False",
            "InferencePoolNotReady",
            'ns/chat-inference-pool: Accepted="False" (reason "R", message "m")',
        )
    else:
        want = ("True", "", "")
    assert world.said("InferencePoolReady") == want
    assert world.said("RouterReady") == want


@pytest.mark.parametrize("progressing", [None, "True", "False"])
@pytest.mark.parametrize("reason", ["ProgressDeadlineExceeded", "Other"])
@pytest.mark.parametrize("available", [None, "True", "False"])
@pytest.mark.parametrize("replicas", [0, 1])
def test_a_scheduler_serves_with_one_replica(
    progressing: str | None, reason: str, available: str | None, replicas: int
) -> None:
    world = World()
    conditions = [said_by("Available", available)] if available else []
    conditions += [said_by("Progressing", progressing, reason=reason)] if progressing else []
    world.make(
        "apps/v1",
        "Deployment",
        "chat-kserve-router-scheduler",
        {},
        {"conditions": conditions, "availableReplicas": replicas},
    )
    spec = {"scheduler": {"template": {"containers": []}}}
    world.router(spec)
    if replicas or (available == "True" and not (progressing == "False" and reason.startswith("Progress"))):
        want = ("True", "", "")
    elif progressing == "False" and reason == "ProgressDeadlineExceeded":
        want = ("False", reason, "m")
    elif available is None:
        want = ("False", "Progressing", "Deployment rollout in progress")
    else:
        want = ("False", "R", "m")
    assert world.said("SchedulerWorkloadReady") == want


def test_addresses_by_every_listener_and_way() -> None:
    """The scheme of the settings first; internal names, other ports, hostnames and wildcards each as a client asks."""
    world = World()
    listeners = [
        {"name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com"},
        {"name": "http", "port": 8080, "protocol": "HTTP"},
        {"name": "tcp", "port": 99, "protocol": "TCP"},
    ]
    world.gateway(listeners=listeners)
    key = Key(routing.GATEWAY, "ns", "gw")
    world.store.set_status(
        key, {"addresses": [{"value": "gw.ns.svc.cluster.local"}, {"value": ""}, {"value": "1.2.3.4"}]}
    )
    world.route([{"name": "gw"}], [MET])
    found = world.router({"route": own_route({"name": "gw"}), "scheduler": {}})
    assert [(a["url"], a["name"]) for a in found["addresses"]] == [
        ("http://1.2.3.4:8080/ns/chat", "gateway-external"),
        ("http://gw.ns.svc.cluster.local:8080/ns/chat", "gateway-internal"),
        ("https://inference.example.com/ns/chat", "gateway-external"),
    ]
    full = "publishers/ns/models/llama"
    assert found["addresses"][0]["models"] == [{"name": full}, {"name": "llama"}]
    assert found["url"] == "http://1.2.3.4:8080/ns/chat"
    (gateway,) = found["router"]["gateways"]
    assert (gateway["name"], gateway["namespace"]) == ("gw", "ns")
    assert [r["name"] for r in gateway["httpRoutes"]] == ["chat-kserve-route"]
    assert "listeners" not in gateway
    scheduler = found["router"]["scheduler"]
    assert scheduler["inferencePool"]["name"] == "chat-inference-pool"
    assert scheduler["service"] == {"group": "", "kind": "Service", "name": "chat-epp-service"}


def test_a_route_of_one_listener_is_reached_by_that_alone() -> None:
    world = World()
    listeners = [{"name": "b", "port": 80, "protocol": "HTTP"}, {"name": "a", "port": 81, "protocol": "HTTP"}]
    world.gateway(listeners=listeners)
    parents = [{"name": "gw", "sectionName": "b"}, {"name": "gw", "sectionName": "a"}]
    world.route(parents, [MET, MET])
    found = world.router({"route": own_route(*parents)})
    assert sorted(a["url"] for a in found["addresses"]) == [
        "http://1.2.3.4/ns/chat",
        "http://1.2.3.4:81/ns/chat",
    ]
    assert found["router"]["gateways"][0]["listeners"] == ["a", "b"]
    assert "scheduler" not in found["router"]


@pytest.mark.parametrize(
    ("rules", "want"),
    [
        ([], ["/"]),
        ([("Service", "/a/b"), ("Service", "/a")], ["/a"]),
        ([("InferencePool", "/a"), ("Service", "/a/b/c")], ["/a/b/c"]),
        ([("Service", "/publishers/x"), ("Service", "/a")], ["/a", "/publishers/x"]),
        ([("Service", "/z", "X-Gateway-Model-Name"), ("Service", "/a")], ["/a", "/z"]),
        ([("Service", "/z", "Other"), ("Service", "/a/b")], ["/a/b"]),
        ([("Service", "/bb"), ("Service", "/a")], ["/a"]),
        ([("InferencePool+Service", "/a/b"), ("InferencePool", "/a")], ["/a/b"]),
        ([("", "/a/b"), ("InferencePool", "/a")], ["/a/b"]),
    ],
)
def test_the_shallowest_path_of_each_way_to_ask(rules: list[tuple[str, ...]], want: list[str]) -> None:
    gateway: Obj = {
        "metadata": {"name": "gw", "namespace": "ns"},
        "spec": {"listeners": [{"name": "h", "port": 80, "protocol": "HTTP"}]},
        "status": {"addresses": [{"value": "h"}]},
    }
    made = [
        {
            "backendRefs": [{"kind": one} if one else {} for one in kind.split("+")],
            "matches": [
                {"path": {"value": path}, **({"headers": [{"name": h} for h in header]} if header else {})}
            ],
        }
        for kind, path, *header in rules
    ]
    found = routing.urls_of(
        {"metadata": {}, "spec": {"rules": made}}, [(gateway, {"name": "gw"})], Settings()
    )
    assert [url.removeprefix("http://h") for url, _, _ in found] == sorted(want)
    kinds = {path: kind for (_, kind, _), path in zip(found, sorted(want), strict=True)}
    assert all(kind.endswith("-model-routing") is (path == "/") for path, kind in kinds.items())


@pytest.mark.parametrize("which", list(product(("True", "False", None), repeat=2)))
def test_workloads_are_ready_when_all_are(which: tuple[str | None, str | None]) -> None:
    world = World()
    main, prefill = which
    pods = {"template": {"containers": [{"name": "main"}]}}
    for name, status in (("chat-kserve", main), ("chat-kserve-prefill", prefill)):
        conditions = [] if status is None else [said_by("Available", status)]
        world.make("apps/v1", "Deployment", name, {}, {"conditions": conditions, "availableReplicas": 2})
    spec = {"model": {"name": "llama"}, **pods, "prefill": pods}
    readiness.of_workloads(world.store, SERVICE, spec, world.conditions)
    want = {"True": ("True", "", ""), "False": ("False", "R", "m"), None: ("False", "Progressing", "")}
    assert world.said("MainWorkloadReady") == want[main]
    assert world.said("PrefillWorkloadReady") == want[prefill]
    assert world.said("WorkerWorkloadReady") is None
    worst = next((want[s] for s in which if s != "True"), want["True"])
    assert world.said("WorkloadsReady") == worst
    observed = readiness.observed_workloads(world.store, SERVICE, spec)
    assert {k: v.get("readyReplicas") for k, v in observed.items()} == {
        "service": None,
        "primary": 2,
        "prefill": 2,
    }


@pytest.mark.parametrize(
    ("parallelism", "want"),
    [
        (None, 1),
        ({"pipeline": 3}, 3),
        ({"data": 8, "dataLocal": 4}, 2),
        ({"data": 8}, 8),
        ({"dataLocal": 4}, 1),
        ({"data": 2, "dataLocal": 4}, 1),
        ({"data": 8, "dataLocal": 4, "pipeline": 5}, 2),
    ],
)
def test_pods_of_a_group(parallelism: Obj | None, want: int) -> None:
    assert size_of({} if parallelism is None else {"parallelism": parallelism}) == want


@pytest.mark.parametrize(
    ("http", "want"),
    [
        ({}, []),
        ({"refs": [{"name": "a"}, {"name": "gone"}, {"name": "b"}]}, ["a", "b"]),
        ({"spec": {"rules": []}}, ["chat-kserve-route"]),
        ({"spec": {"rules": []}, "refs": [{"name": "a"}]}, ["a"]),
        ({"spec": {}}, []),
    ],
)
@pytest.mark.parametrize("is_there", [False, True])
def test_which_routes_lead_to_a_service(http: Obj, want: list[str], is_there: bool) -> None:
    world = World()
    for name in ("a", "b", *(["chat-kserve-route"] if is_there else [])):
        world.route([{"name": "gw"}], [], name)
    found = routing.routes_of(world.store, SERVICE, {"router": {"route": {"http": http}}})
    assert [one["metadata"]["name"] for one in found] == want
    if want == ["chat-kserve-route"]:
        assert found[0]["spec"] == (
            {"parentRefs": [{"name": "gw"}], "rules": RULES} if is_there else http["spec"]
        )
    assert routing.routes_of(world.store, SERVICE, {}) == []


def test_an_installation_that_says_nothing_is_as_kserve_installs_it() -> None:
    assert settings_of(Store()) == Settings()
