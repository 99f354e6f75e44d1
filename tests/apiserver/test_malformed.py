"""What nobody should send: bodies, paths, sizes. The server refuses, stays up, and says nothing of secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map, served
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.sampled_from(
        (
            "metadata",
            "spec",
            "status",
            "data",
            "roleRef",
            "subjects",
            "rules",
            "webhooks",
            "value",
            "template",
        )
    ),
    JSON,
    max_size=4,
)
KINDS = (
    ("v1", "Pod", "/api/v1/namespaces/default/pods"),
    ("v1", "Service", "/api/v1/namespaces/default/services"),
    ("v1", "Secret", "/api/v1/namespaces/default/secrets"),
    ("batch/v1", "Job", "/apis/batch/v1/namespaces/default/jobs"),
    ("apps/v1", "Deployment", "/apis/apps/v1/namespaces/default/deployments"),
    ("v1", "Node", "/api/v1/nodes"),
    (
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    ),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"),
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    ),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("malformed")
    with served(data, paused=True) as api:
        api.until_ready()
        yield api


def answered(
    api: Served, method: str, path: str, body: Any, media: str = "application/json"
) -> tuple[int, Any]:
    return api.ask(method, path, body, headers={"Content-Type": media})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), fields=FIELDS, named=st.booleans())
def test_no_object_makes_the_server_stumble(
    home: Served, kind: Any, fields: dict[str, Any], named: bool
) -> None:
    body = {"apiVersion": kind[0], "kind": kind[1], **fields}
    if named and not isinstance(body.get("metadata"), dict):
        body["metadata"] = {"name": "x"}
    code, said = answered(home, "POST", f"{kind[2]}?dryRun=All", body)
    assert code < 500, (body, said)


NULLS = {
    "Pod": ("/api/v1/namespaces/default/pods", "v1", {"spec": {"containers": [None]}}),
    "Service": ("/api/v1/namespaces/default/services", "v1", {"spec": {"ports": [None]}}),
    "ValidatingWebhookConfiguration": (KINDS[9][2], KINDS[9][0], {"webhooks": [None]}),
}


@pytest.mark.parametrize("kind", NULLS)
def test_null_in_a_list_is_an_empty_item(home: Served, kind: str) -> None:
    """As Go decodes it: validation then has the words for what it lacks."""
    path, api_version, fields = NULLS[kind]
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "nulls"}, **fields}
    code, said = home.ask("POST", f"{path}?dryRun=All", body)
    assert (code, said["reason"]) == (422, "Invalid"), said
    assert "[0]" in said["message"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=60) | JSON.map(lambda v: json.dumps(v).encode()),
    method=st.sampled_from(("POST", "PUT")),
)
def test_no_bytes_make_the_server_stumble(home: Served, body: bytes, method: str) -> None:
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/x"
    for media in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
        code, said = answered(home, method, path, body, media)
        assert 400 <= code < 500, (media, body, said)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    patch=JSON,
    media=st.sampled_from(
        (
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        )
    ),
)
def test_no_patch_makes_the_server_stumble(home: Served, patch: Any, media: str) -> None:
    home.ask("POST", CONFIG_MAPS, config_map("patched", a="1"))
    body = json.dumps(patch).encode()
    code, said = answered(home, "PATCH", f"{CONFIG_MAPS}/patched?dryRun=All&fieldManager=f", body, media)
    assert code < 500, (media, patch, said)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/pods/../../../../etc/passwd",
        "/api/v1/namespaces/../secrets",
        "/api/v1/namespaces/default/pods/%2e%2e",
        "/api/v1/namespaces/default/pods/..%2f..%2fpasswd/log",
        "/openapi/v3/../../../etc/passwd",
        "/api/v1/namespaces/default/pods/a%00b",
        "/logs/../../etc/passwd",
    ],
)
def test_paths_lead_nowhere_else(home: Served, path: str) -> None:
    code, said = home.ask("GET", path)
    assert code in (400, 403, 404)
    assert "root:" not in str(said)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../x", "a%2fb", "A", "x" * 254])
def test_names_are_one_segment(home: Served, name: str) -> None:
    code, said = home.ask("POST", CONFIG_MAPS, config_map(name))
    assert code == 422
    assert "metadata.name" in said["message"]


def test_too_large_a_body_is_refused(home: Served) -> None:
    body = json.dumps(config_map("big", a="x" * (4 << 20))).encode()
    try:
        code, _ = answered(home, "POST", CONFIG_MAPS, body)
    except OSError:
        # It hung up before everything was sent.
        code = 413
    assert code == 413
    assert home.ask("GET", "/healthz")[0] == 200


def test_too_deep_a_body_is_refused(home: Served) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":' + b'{"a":' * 3000 + b"1" + b"}" * 3001
    assert answered(home, "POST", CONFIG_MAPS, body)[0] == 400


@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/version", "/healthz", "/metrics", CONFIG_MAPS, "/fairway/clock"]
)
def test_nobody_gets_in_without_a_name(home: Served, path: str) -> None:
    code, said = home.ask("GET", path, certificate=False)
    assert (code, said["reason"]) == (401, "Unauthorized")
    assert home.ask("GET", path, headers={"Authorization": "Bearer nonsense"}, certificate=False)[0] == 401


def test_secrets_are_not_logged(home: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "stringData": {"password": "correct-horse"},
        }
        assert home.ask("POST", "/api/v1/namespaces/default/secrets", secret)[0] == 201
        home.ask("POST", "/api/v1/namespaces/default/secrets", {**secret, "data": 7})
        home.ask("GET", CONFIG_MAPS, headers={"Authorization": "Bearer sesame-token"}, certificate=False)
    assert "correct-horse" not in caplog.text and "sesame-token" not in caplog.text
