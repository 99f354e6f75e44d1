"""What one request may take and make: bytes, members, copies, aliases, warnings; and what the server remembers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map, served

from fairway.apiserver import bodies, memory
from fairway.apiserver.protobuf.sizing import size_of
from fairway.kube.schema.node import schema_for

PODS = "/api/v1/namespaces/default/pods"
WIDGETS = "/apis/x.dev/v1/namespaces/default/ws"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
YAML = {"Content-Type": "application/yaml"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("limits")
    with served(data) as api:
        api.until_ready()
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"type": "object", "properties": {"spec": anything}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": "W", "plural": "ws"}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "ws.x.dev"},
            "spec": {"group": "x.dev", "scope": "Namespaced", "names": names, "versions": [version]},
        }
        assert api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)[0] == 201
        yield api


def pod(name: str, containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


def widget(name: str, size: int) -> dict[str, Any]:
    return {"apiVersion": "x.dev/v1", "kind": "W", "metadata": {"name": name}, "spec": {"a": "x" * size}}


# Bytes, and the answer of kube-apiserver 1.36 with etcd 3.5 to an object of that size and a name of eight letters.
SIZES: dict[str, tuple[int, int, str]] = {
    "what just fits": (1_572_545, 201, ""),
    "a byte more": (1_572_546, 500, "etcdserver: request is too large"),
    "more than a message may have": (
        2_200_000,
        500,
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (",
    ),
    "more than a body may have": (3_200_000, 413, "Request entity too large: limit is 3145728"),
}


@pytest.mark.parametrize("name", SIZES)
def test_an_object_has_the_bytes_etcd_allows(home: Served, name: str) -> None:
    size, want_code, want_message = SIZES[name]
    code, answer = home.ask("POST", WIDGETS, widget(f"p{size}", size))
    assert code == want_code
    assert answer.get("message", "").startswith(want_message)
    assert "reason" not in answer or want_code == 413
    if code == 201:
        assert "managedFields" not in answer["metadata"]


def test_what_is_too_large_changes_nothing(home: Served) -> None:
    home.ask("POST", WIDGETS, widget("kept", 10))
    code, answer = home.ask(
        "PATCH",
        f"{WIDGETS}/kept",
        {"spec": {"a": "x" * 1_600_000}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert (code, answer["message"]) == (500, "etcdserver: request is too large")
    assert home.ask("GET", f"{WIDGETS}/kept")[1]["spec"] == {"a": "x" * 10}


def test_bytes_are_counted_as_protobuf_has_them() -> None:
    """A pod as kube-apiserver 1.36 answered it in protobuf: 1,572,421 bytes."""
    waits = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    meta = {
        "name": "p1571999",
        "namespace": "default",
        "uid": "918872e5-f17a-4fec-9cdb-6d2215ecbe3d",
        "resourceVersion": "264",
        "generation": 1,
        "creationTimestamp": "2026-11-23T02:28:43Z",
    }
    container = {
        "name": "c0",
        "image": "i",
        "args": ["x" * 1_571_999],
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }
    spec = {
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", **waits},
            {"key": "node.kubernetes.io/unreachable", **waits},
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    status = {"phase": "Pending", "qosClass": "BestEffort"}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}
    schema = schema_for("v1", "Pod")
    assert schema is not None
    assert size_of(obj, schema) == 1_572_421


MANY: dict[str, tuple[list[dict[str, Any]], int, str]] = {
    "30,000 containers": (
        [{"name": f"c{i}", "image": "i"} for i in range(30_000)],
        500,
        "etcdserver: request is too large",
    ),
    "empty ones": (
        [{} for _ in range(60_000)],
        500,
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max",
    ),
    "more than are looked at": (
        [{} for _ in range(500_000)],
        413,
        "Request entity too large: limit is 200000 objects and lists",
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_many_small_things_are_refused_before_they_are_looked_at(home: Served, name: str) -> None:
    containers, want_code, want_message = MANY[name]
    code, answer = home.ask("POST", PODS, pod("many", containers))
    assert code == want_code
    assert answer["message"].startswith(want_message)
    assert "details" not in answer


def test_copies_do_not_double_without_end(home: Served) -> None:
    home.ask("POST", CONFIG_MAPS, config_map("copied", a="x" * 100_000))
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/b{i}"} for i in range(30)]
    code, answer = home.ask("PATCH", f"{CONFIG_MAPS}/copied", doubling, headers=JSON_PATCH)
    assert (code, answer["message"]) == (
        422,
        "the server rejected our request due to an error in our request",
    )
    few = [{"op": "copy", "from": "/data/a", "path": f"/data/b{i}"} for i in range(9)]
    assert home.ask("PATCH", f"{CONFIG_MAPS}/copied", few, headers=JSON_PATCH)[0] == 200
    many = [{"op": "copy", "from": "/data/a", "path": f"/data/b{i}"} for i in range(40)]
    assert home.ask("PATCH", f"{CONFIG_MAPS}/copied", many, headers=JSON_PATCH)[0] == 422


def test_a_patch_has_so_many_operations(home: Served) -> None:
    home.ask("POST", CONFIG_MAPS, config_map("tested"))
    tests = [{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001
    code, answer = home.ask("PATCH", f"{CONFIG_MAPS}/tested", tests, headers=JSON_PATCH)
    assert (code, answer["message"]) == (
        413,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


def test_aliases_count_what_they_expand_to(home: Served) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\ndata:\n"
    text += f"  a: &a {'x' * 10_000}\n" + "".join(f"  b{i}: *a\n" for i in range(1_000))
    code, answer = home.ask("POST", CONFIG_MAPS, text.encode(), headers=YAML)
    assert code == 400
    assert "aliases expand to more than 4194304 characters" in answer["message"]


def test_warnings_are_cut_short(home: Served) -> None:
    unknown = {f"f{i:04d}{'x' * 300}": 1 for i in range(500)}
    connection = home.connect()
    connection.request(
        "POST",
        CONFIG_MAPS,
        json.dumps({**config_map("warned"), **unknown}),
        {"Content-Type": "application/json"},
    )
    found = connection.getresponse()
    said = found.headers.get_all("Warning") or []
    found.read()
    connection.close()
    assert found.status == 201
    assert sum(map(len, said)) < 8192
    assert all(len(text) <= 256 + len('299 - ""') + 2 for text in said)


def test_the_past_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LOG_BYTES", 4_000_000)
    monkeypatch.setattr(bodies, "KEPT_BYTES", 4_000_000)
    with served(tmp_path) as api:
        api.until_ready()
        _, first = api.ask("POST", CONFIG_MAPS, config_map("large"))
        for i in range(20):
            assert (
                api.ask("PUT", f"{CONFIG_MAPS}/large", config_map("large", a=f"{i:07d}" * 100_000))[0] == 200
            )
        log = api.server.api.store.log
        api.call(lambda: None)
        assert api.server.api.memory.kept_bytes <= 4_000_000 + 800_000
        assert log.first > int(first["metadata"]["resourceVersion"])
        held = sum(len(made) for _, made in api.server.api.bodies._made.values())
        assert held <= 4_000_000
        version = first["metadata"]["resourceVersion"]
        code, answer = api.ask("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=1")
        assert (code, answer["object"]["code"]) == (200, 410)


def test_changes_that_wait_for_time_to_go_on_are_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LOG_BYTES", 100_000)
    monkeypatch.setattr(memory, "MOST_LOG_BYTES", 1_000_000)
    with served(tmp_path, paused=True, latency="served") as api:
        api.until_ready()
        codes = [api.ask("POST", CONFIG_MAPS, config_map(f"c{i}", a="x" * 100_000))[0] for i in range(20)]
        assert codes[:9] == [201] * 9
        assert codes[-1] == 429
        api.ask("POST", "/fairway/clock", {"advanceUs": 1_000_000})
        assert api.ask("POST", CONFIG_MAPS, config_map("after"))[0] == 201
