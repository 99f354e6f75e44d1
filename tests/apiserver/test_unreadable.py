"""Requests that once ended in a failure of ours: each has an answer of its kind, and nothing is logged."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map

DIGITS = "9" * 5000
HOME = "/api/v1/namespaces/default"
QUERIES = (
    "resourceVersion",
    "limit",
    "timeoutSeconds",
    "gracePeriodSeconds",
    "continue",
    "resourceVersionMatch",
    "sendInitialEvents",
    "watch",
    "labelSelector",
    "fieldSelector",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "propagationPolicy",
    "includeObject",
    "tailLines",
    "limitBytes",
    "sinceSeconds",
    "sinceTime",
    "container",
    "command",
    "ports",
    "pretty",
    "timeout",
    "orphanDependents",
    "allowWatchBookmarks",
)
VALUES = (
    "%C2%B2",
    DIGITS,
    f"-{DIGITS}",
    "1e400",
    "%00",
    "%FF",
    "%ED%A0%80",
    "a%2Cb%3D",
    "%5C",
    "..",
    "1_0",
    "",
)
TARGETS = (
    ("GET", CONFIG_MAPS),
    ("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1"),
    ("GET", f"{CONFIG_MAPS}/kube-root-ca.crt"),
    ("POST", CONFIG_MAPS),
    ("PUT", f"{CONFIG_MAPS}/kube-root-ca.crt"),
    ("DELETE", f"{CONFIG_MAPS}/none"),
    ("GET", f"{HOME}/pods/none/log"),
    ("POST", f"{HOME}/pods/none/exec"),
    ("POST", f"{HOME}/pods/none/eviction"),
    ("GET", "/readyz"),
    ("GET", "/openapi/v2"),
    ("GET", "/apis/metrics.k8s.io/v1beta1/nodes"),
)


@pytest.fixture(autouse=True)
def no_failure_of_ours(api: Served, caplog: pytest.LogCaptureFixture) -> Any:
    api.until_ready()
    with caplog.at_level(logging.ERROR):
        yield
    assert not [r.getMessage() for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]


@pytest.mark.parametrize("name", QUERIES)
def test_no_value_of_an_option_is_too_much(api: Served, name: str) -> None:
    connection = api.connect()
    for method, path in TARGETS:
        if method == "GET" and "watch" in path and name == "timeoutSeconds":
            continue
        for value in VALUES:
            target = f"{path}{'&' if '?' in path else '?'}{name}={value}"
            if name == "watch" and "watch=1" not in path:
                target += "&timeoutSeconds=1"
            body = json.dumps(config_map("q")) if method in ("POST", "PUT") else None
            connection.request(method, target, body, {"Content-Type": "application/json"})
            with connection.getresponse() as response:
                is_whole = response.headers.get("Transfer-Encoding") != "chunked"
                said = response.read() if is_whole else b""
                # A refusal that upstream calls an error, too, but no stumbling.
                assert b" while serving " not in said, (target[:120], response.status)
                if is_whole:
                    continue
            # A watch or a log that goes on is not waited for.
            connection.close()
            connection = api.connect()
    connection.close()


def nested(depth: int, in_lists: bool = False) -> str:
    return "[" * depth + "]" * depth if in_lists else '{"a":' * depth + "1" + "}" * depth


NAMED = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w"'
BODIES: dict[str, str] = {
    "metadata a text": '{"apiVersion":"v1","kind":"ConfigMap","metadata":"x"}',
    "metadata a list": '{"apiVersion":"v1","kind":"ConfigMap","metadata":["x"]}',
    "metadata a number": '{"apiVersion":"v1","kind":"ConfigMap","metadata":7}',
    "managedFields of nonsense": f'{NAMED},"managedFields":[{{"manager":"m","operation":"Apply","apiVersion":"v1",'
    '"fieldsType":"FieldsV1","fieldsV1":{"f:data":7,"k:x":{}}}]}}',
    "metadata false": '{"apiVersion":"v1","kind":"ConfigMap","metadata":false}',
    "a name that is a list": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":["w"]}}',
    "labels a list": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w","labels":["x"]}}',
    "owners a text": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w","ownerReferences":"x"}}',
    "an owner that is null": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w","ownerReferences":[null]}}',
    "managedFields of numbers": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w","managedFields":[1]}}',
    "a version of 5,000 digits": f'{NAMED},"resourceVersion":"{DIGITS}"}}}}',
    "a number of 5,000 digits": f'{NAMED},"generation":{DIGITS}}}}}',
    "deep": nested(900),
    "deeper": nested(20_000),
    "deep lists": nested(20_000, in_lists=True),
    "kind a list": '{"apiVersion":"v1","kind":["ConfigMap"],"metadata":{"name":"w"}}',
    "version a number": '{"apiVersion":1,"kind":"ConfigMap","metadata":{"name":"w"}}',
    "half a surrogate": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"w"},"data":{"a":"\\ud800"}}',
    "operations a number": "7",
    "operations of numbers": "[1]",
    "paths that are lists": '[{"op":"add","path":["a"],"value":1}]',
    "an operation that is an object": '[{"op":{},"path":"/data"}]',
    "no operation": '[{"path":"/data"}]',
    "a value as deep as it goes": f'[{{"op":"add","path":"/data","value":{nested(900)}}}]',
    "metadata taken away": '[{"op":"remove","path":"/metadata"}]',
    "everything replaced": '[{"op":"replace","path":"","value":[]}]',
    "metadata replaced": '[{"op":"add","path":"/metadata","value":"x"}]',
    "labels replaced": '[{"op":"add","path":"/metadata/labels","value":[1]}]',
    "an index of 5,000 digits": f'[{{"op":"add","path":"/metadata/managedFields/{DIGITS}","value":1}}]',
    "an index that is none": '[{"op":"add","path":"/metadata/managedFields/\\u00b2","value":1}]',
    "directives": '{"metadata":{"$patch":["x"],"labels":{"$patch":7}},"data":{"$retainKeys":1}}',
    "an order that is none": '{"$setElementOrder/data":7,"$setElementOrder/secrets":[7,"x",null],"secrets":7}',
    "keys kept that are a number": '{"metadata":{"$retainKeys":1}}',
    "a directive in a list": '{"metadata":{"ownerReferences":[{"$patch":"delete"},7,null,"x"]}}',
    "deletion of what is no list": '{"metadata":{"$deleteFromPrimitiveList/managedFields":7}}',
    "deletion from what is no list": '{"$deleteFromPrimitiveList/data":7}',
}
MEDIA = (
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
)


@pytest.mark.parametrize("name", BODIES)
def test_no_body_is_too_much(api: Served, name: str) -> None:
    body, connection = BODIES[name].encode(), api.connect()
    api.ask("POST", CONFIG_MAPS, config_map("w", a="1"))
    for media in MEDIA:
        for method, path in (
            ("POST", CONFIG_MAPS),
            ("PUT", f"{CONFIG_MAPS}/w"),
            ("PATCH", f"{CONFIG_MAPS}/w?fieldManager=m"),
            ("PATCH", f"{CONFIG_MAPS}/new?fieldManager=m"),
            ("PATCH", f"{HOME}/serviceaccounts/default?fieldManager=m"),
            ("DELETE", f"{CONFIG_MAPS}/none"),
            ("POST", f"{HOME}/serviceaccounts/default/token"),
            ("POST", f"{HOME}/pods/none/eviction"),
            ("POST", f"{HOME}/pods/none/binding"),
            ("POST", f"{HOME}/bindings"),
            ("PUT", "/apis/apps/v1/namespaces/default/deployments/none/scale"),
            ("PATCH", "/apis/apps/v1/namespaces/default/deployments/none/scale"),
            ("POST", "/fairway/clock"),
        ):
            connection.request(method, path, body, {"Content-Type": media})
            with connection.getresponse() as response:
                assert b" while serving " not in response.read(), (method, path, media)
    connection.close()
    api.ask("DELETE", f"{CONFIG_MAPS}/w")
    api.ask("DELETE", f"{CONFIG_MAPS}/new")


REVIEWS = {
    "SelfSubjectAccessReview": "authorization.k8s.io",
    "SubjectAccessReview": "authorization.k8s.io",
    "SelfSubjectRulesReview": "authorization.k8s.io",
    "TokenReview": "authentication.k8s.io",
    "SelfSubjectReview": "authentication.k8s.io",
}
SPECS: tuple[Any, ...] = (
    7,
    "x",
    [1],
    {"user": ["x"], "groups": "x", "extra": 7},
    {"user": "x", "groups": [["x"]], "resourceAttributes": {"verb": "get"}},
    {"user": "x", "extra": {"a": 7}, "resourceAttributes": {"verb": "get"}},
    {"user": "x", "extra": {"a": [["b"]]}, "resourceAttributes": {"verb": "get"}},
    {"user": "x", "resourceAttributes": {"verb": ["get"], "namespace": {}}},
    {"resourceAttributes": "x"},
    {"nonResourceAttributes": {"path": ["x"]}},
    {"namespace": ["default"]},
    {"namespace": 7},
    {"token": 7},
    {"token": ["x"], "audiences": "x"},
    {"token": "a.b.c", "audiences": [7]},
    {"token": f"{'a' * 9000}.b.c"},
    {"token": "\ud83d\ude00.\u00e9.x"},
)


@pytest.mark.parametrize("kind", REVIEWS)
def test_no_question_is_too_much(api: Served, kind: str) -> None:
    group = REVIEWS[kind]
    path = f"/apis/{group}/v1/{kind.lower()}s"
    for spec in SPECS:
        code, said = api.ask("POST", path, {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
        assert code < 500, (spec, said)


def _token(claims: Any, header: Any = None) -> str:
    parts = ({"alg": "ES256", "typ": "JWT"} if header is None else header, claims)
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), "AAAA"]
    )


HEADERS: dict[str, dict[str, str]] = {
    "no scheme": {"Authorization": "x"},
    "an empty bearer": {"Authorization": "Bearer"},
    "letters that are not ASCII": {"Authorization": "Bearer \xe9\xff"},
    "a token of nobody": {"Authorization": f"Bearer {_token({'iss': 'x'})}"},
    "a token signed by nobody": {"Authorization": f"Bearer {_token({'iss': 'x'}, {'alg': 'none'})}"},
    "claims that are a list": {"Authorization": f"Bearer {_token([1])}"},
    "a header that is a list": {"Authorization": f"Bearer {_token({}, [1])}"},
    "nobody impersonated": {"Impersonate-User": ""},
    "a group and nobody": {"Impersonate-Group": "system:masters"},
    "an account that is none": {"Impersonate-User": "system:serviceaccount:"},
    "an account of three parts": {"Impersonate-User": "system:serviceaccount:a:b:c"},
    "extra of nothing": {"Impersonate-User": "x", "Impersonate-Extra-": "y"},
    "extra that is no text": {"Impersonate-User": "x", "Impersonate-Extra-%ff%00": "\xff"},
    "forms that are none": {"Accept": "application/json;as=Table;g=x;v=" + "y" * 500},
    "a thousand forms": {"Accept": ",".join(["a/b;q=x"] * 1000)},
    "ranges that are none": {"If-None-Match": "\xff", "Content-Encoding": "gzip", "Range": "bytes=0-"},
}


@pytest.mark.parametrize("name", HEADERS)
def test_no_header_is_too_much(api: Served, name: str) -> None:
    for path in (CONFIG_MAPS, "/openapi/v2", "/api", "/version"):
        code, said = api.ask("GET", path, headers=HEADERS[name])
        assert code < 500 or name == "a group and nobody", said
