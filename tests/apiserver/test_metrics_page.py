"""/metrics and the health pages: what they say, in whose words, and who may ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map, served
from prometheus_client.parser import text_string_to_metric_families

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
KUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: {kind}
metadata: {{name: {name}{where}}}
spec: {spec}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("metrics-page")
    with served(data, paused=True) as api:
        api.until_ready()
        yield api


def samples(api: Served) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    code, text = api.ask("GET", "/metrics")
    assert code == 200
    return {
        (s.name, frozenset(s.labels.items())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def value(found: Any, metric: str, /, **labels: str) -> float:
    """The sum over the samples with these labels among theirs."""
    matching = [v for (n, has), v in found.items() if n == metric and frozenset(labels.items()) <= has]
    assert matching, (metric, labels)
    return sum(matching)


def test_requests_are_counted_by_what_they_were(home: Served) -> None:
    labels = {"resource": "configmaps", "version": "v1", "group": "", "component": "apiserver"}
    before = samples(home)
    assert home.ask("POST", CONFIG_MAPS, config_map("counted", a="1"))[0] == 201
    assert home.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("dry", a="1"))[0] == 201
    assert home.ask("GET", f"{CONFIG_MAPS}/counted")[0] == 200
    assert home.ask("GET", f"{CONFIG_MAPS}/nobody")[0] == 404
    assert home.ask("GET", CONFIG_MAPS)[0] == 200
    apply = {"Content-Type": "application/apply-patch+yaml"}
    body = config_map("counted", b="2")
    assert home.ask("PATCH", f"{CONFIG_MAPS}/counted?fieldManager=f", body, headers=apply)[0] == 200
    found = samples(home)
    name = "apiserver_request_total"
    for want in (
        {"verb": "POST", "code": "201", "dry_run": "", "scope": "resource"},
        {"verb": "POST", "code": "201", "dry_run": "All", "scope": "resource"},
        {"verb": "GET", "code": "200", "scope": "resource"},
        {"verb": "GET", "code": "404", "scope": "resource"},
        {"verb": "LIST", "code": "200", "scope": "namespace"},
        {"verb": "APPLY", "code": "200", "scope": "resource"},
    ):
        assert value(found, name, **labels, **want) == 1, want
    duration = "apiserver_request_duration_seconds"
    assert value(found, f"{duration}_bucket", verb="LIST", le="+Inf", **labels) == 1
    assert value(found, f"{duration}_count", verb="LIST", **labels) == 1
    assert (
        value(found, "apiserver_response_sizes_count", verb="LIST", **{**labels, "scope": "namespace"}) == 1
    )
    stored = "apiserver_storage_objects"
    assert value(found, stored, resource="configmaps") == value(before, stored, resource="configmaps") + 1


def test_series_do_not_grow_with_what_strangers_ask(home: Served) -> None:
    home.ask("GET", CONFIG_MAPS)
    before = len(home.server.api.meter.series)
    for i in range(20):
        home.ask("GET", f"/apis/g{i}.example.com/v1/things{i}")
        home.ask("GET", f"/api/v1/namespaces/default/pods/p/sub{i}")
        home.ask("GET", f"/page{i}")
        home.ask("GET", CONFIG_MAPS, headers={"Impersonate-User": f"u{i}"})
        home.ask("GET", f"{CONFIG_MAPS}/name{i}")
    assert len(home.server.api.meter.series) <= before + 2


def test_watches_are_long_running_and_their_events_counted(home: Served) -> None:
    labels = {"verb": "WATCH", "resource": "configmaps"}
    connection = home.connect()
    try:
        connection.request("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=30")
        response = connection.getresponse()
        assert b"ADDED" in response.readline()
        during = samples(home)
        assert value(during, "apiserver_longrunning_requests", **labels) == 1
        assert value(during, "apiserver_watch_events_total", group="", resource="configmaps") >= 1
    finally:
        connection.close()
    # The server hears of the hang-up in its own time, between two of our requests.
    assert any(not value(samples(home), "apiserver_longrunning_requests", **labels) for _ in range(200))
    assert value(samples(home), "apiserver_request_total", code="200", **labels) == 1


def test_the_process_the_scheduler_and_the_clock(home: Served) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    gated = {**pod, "schedulingGates": [{"name": "example.com/wait"}]}
    for name, spec in (("pending", pod), ("gated", gated)):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        assert home.ask("POST", "/api/v1/namespaces/default/pods", body)[0] == 201
    home.ask("POST", "/fairway/clock", {"advanceUs": 30_000_000})
    found = samples(home)
    assert value(found, "scheduler_pending_pods", queue="unschedulable") == 1
    assert value(found, "scheduler_pending_pods", queue="gated") == 1
    assert value(found, "process_resident_memory_bytes") > 10**6
    assert value(found, "fairway_clock_paused") == 1
    assert value(found, "fairway_clock_time_seconds") == home.server.api.store.now_us / 1e6
    assert value(found, "kubernetes_healthcheck", name="etcd", type="readyz") == 1
    assert value(found, "kubernetes_build_info", major="1") == 1


def test_kueues_families(home: Served) -> None:
    assert "kueue_" not in home.ask("GET", "/metrics")[1]
    quota = '{nominalQuota: "2", name: cpu}'
    group = f"[{{coveredResources: [cpu], flavors: [{{name: f, resources: [{quota}]}}]}}]"
    for kind, name, spec in (
        ("ResourceFlavor", "f", "{}"),
        ("ClusterQueue", "cq", f"{{namespaceSelector: {{}}, resourceGroups: {group}}}"),
        ("LocalQueue", "lq", "{clusterQueue: cq}"),
    ):
        where = ", namespace: default" if kind == "LocalQueue" else ""
        scope = "namespaces/default/" if where else ""
        path = f"/apis/kueue.x-k8s.io/v1beta2/{scope}{kind.lower()}s"
        body = KUEUE.format(kind=kind, name=name, where=where, spec=spec).encode()
        code, said = home.ask("POST", path, body, headers={"Content-Type": "application/yaml"})
        assert code == 201, said
    for name in ("a", "b", "c"):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        }
        assert home.ask("POST", "/apis/batch/v1/namespaces/default/jobs", job)[0] == 201
    home.ask("POST", "/fairway/clock", {"advanceUs": 30_000_000})
    found = samples(home)
    queue = {"cluster_queue": "cq"}
    assert value(found, "kueue_admitted_workloads_total", **queue) == 2
    assert value(found, "kueue_admission_wait_time_seconds_count", **queue) == 2
    assert value(found, "kueue_pending_workloads", **queue) == 1
    assert value(found, "kueue_cluster_queue_resource_usage", flavor="f", resource="cpu", **queue) == 2
    assert value(found, "kueue_admission_attempt_duration_seconds_count", result="success") >= 1


CLOUD = """
cloud:
  provider: aws
  instanceTypes: [m5.xlarge, m5.2xlarge]
  bootTime: 20s
  nodeGroups:
    - {name: fixed, instanceType: m5.xlarge, min: 0, max: 3}
"""
NODE_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "limits": {"cpu": "10"},
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
                ],
            }
        },
    },
}


def test_karpenter_and_the_autoscaler_where_there_is_a_cloud(tmp_path: Path) -> None:
    """A pod of 3 cores gets an m5.xlarge, at 0.192 $ an hour; the server comes back and goes on with it."""
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD, encoding="utf-8")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container], "nodeSelector": {"karpenter.sh/nodepool": "default"}},
    }
    with served(tmp_path / "data", paused=True, cloud=file) as api:
        api.until_ready()
        assert api.ask("POST", "/apis/karpenter.sh/v1/nodepools", NODE_POOL)[0] == 201
        assert api.ask("POST", "/api/v1/namespaces/default/pods", pod)[0] == 201
        api.ask("POST", "/fairway/clock", {"advanceUs": 10_000_000})
        found = samples(api)
        assert value(found, "karpenter_pods_unbound_time_seconds", name="p", namespace="default") >= 9
        api.ask("POST", "/fairway/clock", {"advanceUs": 50_000_000})
        found = samples(api)
        assert (
            value(found, "karpenter_nodeclaims_created_total", reason="provisioned", nodepool="default") == 1
        )
        assert value(found, "karpenter_nodepools_cost_total", nodepool="default") == 0.192
        assert value(found, "karpenter_nodes_total_pod_requests", resource_type="cpu", managed="true") == 3
        assert value(
            found, "karpenter_pods_state", name="p", phase="Running", ready="true", nodepool="default"
        )
        # A second for the batch, twenty for the boot.
        assert value(found, "karpenter_pods_bound_duration_seconds_bucket", le="20") == 0
        assert value(found, "karpenter_pods_bound_duration_seconds_bucket", le="25") == 1
        took = value(found, "karpenter_pods_startup_duration_seconds_sum")
        assert value(found, "karpenter_pods_startup_duration_seconds", quantile="0.99") == took
        assert not [name for name, _ in found if name == "karpenter_pods_unbound_time_seconds"]
        assert value(found, "cluster_autoscaler_node_group_max_count", node_group="fixed") == 3
        assert value(found, "cluster_autoscaler_nodes_count", state="ready") == 1
        assert value(found, "cluster_autoscaler_old_unregistered_nodes_removed_count") == 0
        again = {**pod, "metadata": {"name": "q"}}
        assert api.ask("POST", "/api/v1/namespaces/default/pods", again)[0] == 201
        api.ask("POST", "/fairway/clock", {"advanceUs": 5_000_000})
    with served(tmp_path / "data", cloud=file) as api:
        api.until_ready()
        api.ask("POST", "/fairway/clock", {"advanceUs": 60_000_000})
        found = samples(api)
        # The machine that was booting when the server stopped.
        assert value(found, "karpenter_nodes_created_total", nodepool="default") == 1
        assert value(found, "karpenter_pods_state", scheduled="true") == 2
        code, text = api.ask("GET", "/metrics", headers=OPENMETRICS)
        assert code == 200 and "karpenter_nodepools_usage" in text and text.endswith("# EOF\n")


def test_without_a_cloud_nobody_provisions(home: Served) -> None:
    text = home.ask("GET", "/metrics")[1]
    assert "karpenter_" not in text and "cluster_autoscaler_" not in text


def test_openmetrics_where_it_is_asked_for(home: Served) -> None:
    code, text = home.ask("GET", "/metrics", headers=OPENMETRICS)
    assert code == 200 and text.endswith("# EOF\n")


def test_metrics_take_a_right(home: Served) -> None:
    as_eve = {"Impersonate-User": "eve"}
    code, said = home.ask("GET", "/metrics", headers=as_eve)
    assert (code, said["message"]) == (403, 'forbidden: User "eve" cannot get path "/metrics"')
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "eve-watches"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:monitoring"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": group}],
    }
    assert home.ask("POST", f"/apis/{group}/v1/clusterrolebindings", binding)[0] == 201
    assert home.ask("GET", "/metrics", headers=as_eve)[0] == 200


HEALTH: dict[str, tuple[str, int, str]] = {
    "short": ("/healthz", 200, "ok"),
    "in full": (
        "/livez?verbose",
        200,
        "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]journal ok\nlivez check passed\n",
    ),
    "without some": (
        "/livez?verbose&exclude=etcd&exclude=nope",
        200,
        "[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]journal ok\n"
        'warn: some health checks cannot be excluded: no matches for "nope"\nlivez check passed\n',
    ),
    "one": ("/readyz/informer-sync", 200, "ok"),
}


@pytest.mark.parametrize("name", HEALTH)
def test_health(home: Served, name: str) -> None:
    path, code, want = HEALTH[name]
    assert home.ask("GET", path) == (code, want)


def test_health_that_fails_says_which_but_not_why(home: Served) -> None:
    ready = home.server.api.cluster.ready
    home.call(ready.clear)
    try:
        code, said = home.ask("GET", "/readyz")
        assert (code, said.splitlines()[-2:]) == (
            500,
            ["[-]components failed: reason withheld", "readyz check failed"],
        )
        one = home.ask("GET", "/readyz/components")
        assert one == (500, "internal server error: components are being loaded\n")
        assert home.ask("GET", "/readyz?exclude=components&exclude=informer-sync") == (200, "ok")
        assert home.ask("GET", "/livez") == (200, "ok")
    finally:
        home.call(ready.set)


def test_unknown_checks_are_not_found(home: Served) -> None:
    assert home.ask("GET", "/readyz/nope")[0] == 404
    assert home.ask("POST", "/readyz", {})[0] == 405
