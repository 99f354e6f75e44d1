"""What every cluster has from its first second, as far as people look at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from apiserver_serving import Served
from tests.histories import check_history, digests

from fairway.apiserver.bootstrap import furnish
from fairway.cluster.store import Store
from fairway.kube.objects import Key
from fairway.kube.timestamps import parse_rfc3339

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


def test_flow_schemas_refer_to_priority_levels_that_exist(api: Served) -> None:
    _, schemas = api.ask("GET", f"{FLOW}/flowschemas")
    _, levels = api.ask("GET", f"{FLOW}/prioritylevelconfigurations")
    names = {level["metadata"]["name"] for level in levels["items"]}
    assert len(schemas["items"]) == 13
    assert {s["spec"]["priorityLevelConfiguration"]["name"] for s in schemas["items"]} == names
    assert {s["status"]["conditions"][0]["status"] for s in schemas["items"]} == {"False"}
    shares = {i["metadata"]["name"]: i["spec"].get("limited", {}) for i in levels["items"]}
    assert shares["workload-low"]["nominalConcurrencyShares"] == 100
    assert shares["catch-all"]["limitResponse"] == {"type": "Reject"}


def test_component_statuses_are_healthy_deprecated_and_only_to_be_read(api: Served) -> None:
    _, found = api.ask("GET", "/api/v1/componentstatuses")
    assert [c["metadata"]["name"] for c in found["items"]] == ["controller-manager", "etcd-0", "scheduler"]
    connection = api.connect()
    connection.request("GET", "/api/v1/componentstatuses")
    response = connection.getresponse()
    response.read()
    assert response.headers["Warning"] == '299 - "v1 ComponentStatus is deprecated in v1.19+"'
    connection.close()
    code, refused = api.ask("DELETE", "/api/v1/componentstatuses/scheduler")
    assert (code, refused["reason"]) == (405, "MethodNotAllowed")


def test_every_group_has_its_api_service(api: Served) -> None:
    _, found = api.ask("GET", "/apis/apiregistration.k8s.io/v1/apiservices")
    names = {s["metadata"]["name"] for s in found["items"]}
    _, groups = api.ask("GET", "/apis")
    served = {
        f"{version['version']}.{group['name']}" for group in groups["groups"] for version in group["versions"]
    }
    assert served - {"v1.apiregistration.k8s.io"} == names - {"v1."}


def test_bootstrap_roles_are_bound_and_readable(api: Served) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    _, roles = api.ask("GET", f"{rbac}/clusterroles")
    _, bindings = api.ask("GET", f"{rbac}/clusterrolebindings")
    names = {r["metadata"]["name"] for r in roles["items"]}
    assert "system:controller:job-controller" in names
    assert {b["roleRef"]["name"] for b in bindings["items"]} <= names
    _, binding = api.ask("GET", f"{rbac}/clusterrolebindings/system:controller:job-controller")
    account = {"kind": "ServiceAccount", "name": "job-controller", "namespace": "kube-system"}
    assert binding["subjects"] == [account]
    _, role = api.ask("GET", f"{rbac}/namespaces/kube-system/roles/extension-apiserver-authentication-reader")
    assert role["rules"][0]["resourceNames"] == ["extension-apiserver-authentication"]


def test_every_object_of_the_first_second_is_as_on_file() -> None:
    """Roles and their bindings by a digest each kind: they are asked about one by one where they are granted."""
    store = Store(seed=1, now_us=parse_rfc3339("2026-01-05T08:00:00Z"))
    furnish(store, "CA", "10.0.0.1", 6443)

    def told() -> Iterator[str]:
        rights: list[tuple[str, str]] = []
        for kind in sorted(store.kinds()):
            for obj in store.objects(kind):
                kept = ("name", "namespace", "labels", "annotations")
                meta = {name: obj["metadata"][name] for name in kept if name in obj["metadata"]}
                line = json.dumps({**obj, "kind": kind, "metadata": meta}, sort_keys=True)
                if "rbac" in kind:
                    rights.append((kind, line))
                else:
                    yield line
        yield from digests(rights)

    check_history(Path(__file__).parent / "bootstrap.txt", told())


def test_what_is_there_is_left_as_it_is() -> None:
    store = Store(seed=1)
    furnish(store, "CA", "10.0.0.1", 6443)
    of_public = Key("ConfigMap", "kube-public", "kube-root-ca.crt")
    store.patch(of_public, {"data": {"ca.crt": "mine"}})
    store.delete(Key("PriorityClass.scheduling.k8s.io", "", "system-node-critical"))
    before = store.version
    furnish(store, "other", "10.0.0.2", 6443)
    (made,) = store.log.since(before)
    assert made.key.name == "system-node-critical"
    assert store.require(of_public)["data"] == {"ca.crt": "mine"}
