"""Every kind of request against a server: what it answers, and what it refuses in which words."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}}}]
    },
}

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s"},
    "spec": {"ports": [{"port": 80}]},
}


def test_nobody_is_let_in_without_a_certificate_or_token(api: Served) -> None:
    code, status = api.ask("GET", "/api/v1/pods", certificate=False)
    assert (code, status["message"], status["reason"]) == (401, "Unauthorized", "Unauthorized")
    wrong = {"Authorization": "Bearer nonsense"}
    assert api.ask("GET", "/api/v1/pods", headers=wrong, certificate=False)[0] == 401


def test_the_administrators_token_opens_the_door(api: Served) -> None:
    token = (api.pki / "admin.token").read_text()
    headers = {"Authorization": f"Bearer {token}"}
    assert api.ask("GET", "/api/v1/namespaces/default", headers=headers, certificate=False)[0] == 200


def test_a_service_accounts_token_is_its_user_and_may_do_little(api: Served) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    code, answer = api.ask("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
    assert code == 201
    headers = {"Authorization": f"Bearer {answer['status']['token']}"}
    code, status = api.ask("GET", "/api/v1/namespaces/default/pods", headers=headers, certificate=False)
    assert code == 403
    assert status["message"] == (
        'pods is forbidden: User "system:serviceaccount:default:default" cannot list resource "pods" in API group "" '
        'in the namespace "default"'
    )


def test_what_is_nothing_at_all_and_what_is_no_resource_are_told_apart(api: Served) -> None:
    assert api.ask("GET", "/apis/nowhere.example/v1/things") == (404, "404 page not found\n")
    assert api.ask("GET", "/apis/nowhere.example/v1") == (404, "404 page not found\n")
    code, status = api.ask("GET", "/api/v1/nothing")
    assert (code, status["message"]) == (404, "the server could not find the requested resource")


def test_unknown_fields_are_warned_of_and_dropped_unless_refused(api: Served) -> None:
    body = {**config_map("extra", a="1"), "dat": {"b": "2"}}
    connection = api.connect()
    connection.request("POST", CONFIG_MAPS, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    made = json.loads(response.read())
    assert response.headers["Warning"] == '299 - "unknown field \\"dat\\""'
    assert "dat" not in made
    connection.close()
    code, status = api.ask("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    assert code == 400
    assert status["message"].endswith('strict decoding error: unknown field "dat"')


def test_a_status_is_written_through_its_subresource_alone(api: Served) -> None:
    api.ask("POST", "/api/v1/namespaces/default/services", {**SERVICE, "status": {"conditions": []}})
    path = "/api/v1/namespaces/default/services/s"
    condition = {"type": "Ready", "status": "True", "reason": "Told", "message": ""}
    told = {"loadBalancer": {}, "conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    merge = {"Content-Type": "application/merge-patch+json"}
    code, after = api.ask("PATCH", f"{path}/status", {"status": told}, headers=merge)
    assert (code, after["status"]) == (200, told)
    after["status"], after["spec"]["sessionAffinity"] = {}, "ClientIP"
    code, kept = api.ask("PUT", path, after)
    assert (code, kept["status"], kept["spec"]["sessionAffinity"]) == (200, told, "ClientIP")


def test_an_object_lives_from_create_to_delete(api: Served) -> None:
    code, made = api.ask("POST", CONFIG_MAPS, config_map("life", a="1"))
    assert (code, made["data"], made["metadata"]["namespace"]) == (201, {"a": "1"}, "default")
    code, read = api.ask("GET", f"{CONFIG_MAPS}/life")
    assert (code, read) == (200, made)
    code, patched = api.ask(
        "PATCH",
        f"{CONFIG_MAPS}/life",
        {"data": {"b": "2"}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    assert (code, patched["data"]) == (200, {"a": "1", "b": "2"})
    assert int(patched["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    code, put = api.ask("PUT", f"{CONFIG_MAPS}/life", {**config_map("life", c="3")})
    assert (code, put["data"], put["metadata"]["uid"]) == (200, {"c": "3"}, made["metadata"]["uid"])
    code, status = api.ask("DELETE", f"{CONFIG_MAPS}/life")
    assert (code, status["status"], status["details"]["name"]) == (200, "Success", "life")
    code, status = api.ask("GET", f"{CONFIG_MAPS}/life")
    assert (code, status["message"]) == (404, 'configmaps "life" not found')


REFUSED: dict[str, tuple[str, str, Any, dict[str, str], int, str]] = {
    "twice": (
        "POST",
        CONFIG_MAPS,
        config_map("kube-root-ca.crt"),
        {},
        409,
        'configmaps "kube-root-ca.crt" already exists',
    ),
    "a capital in its name": (
        "POST",
        CONFIG_MAPS,
        config_map("Bad"),
        {},
        422,
        'ConfigMap "Bad" is invalid: metadata.name: ',
    ),
    "no name": (
        "POST",
        CONFIG_MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {},
        422,
        "name or generateName is required",
    ),
    "another namespace": (
        "POST",
        CONFIG_MAPS,
        {**config_map("x"), "metadata": {"name": "x", "namespace": "other"}},
        {},
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "a namespace that is not there": (
        "POST",
        "/api/v1/namespaces/nowhere/configmaps",
        config_map("x"),
        {},
        404,
        'namespaces "nowhere" not found',
    ),
    "another kind": (
        "POST",
        CONFIG_MAPS,
        POD,
        {},
        400,
        'Pod in version "v1" cannot be handled as a ConfigMap',
    ),
    "not JSON": ("POST", CONFIG_MAPS, b"{nope", {}, 400, "the object provided is unrecognized"),
    "a list": ("POST", CONFIG_MAPS, b"[]", {}, 400, "the object provided is unrecognized"),
    "bytes that are no UTF-8": (
        "POST",
        CONFIG_MAPS,
        b'{"a": "\xff"}',
        {},
        400,
        "the object provided is unrecognized",
    ),
    "brackets without end": ("POST", CONFIG_MAPS, b'{"a":' * 5000 + b"1" + b"}" * 5000, {}, 400, ""),
    "protobuf that is none": (
        "POST",
        CONFIG_MAPS,
        b"k8s\x00\xff\xff",
        {"Content-Type": "application/vnd.kubernetes.protobuf"},
        400,
        "the protobuf body of the request cannot be read",
    ),
    "a form nobody speaks": (
        "POST",
        CONFIG_MAPS,
        b"x",
        {"Content-Type": "text/csv"},
        415,
        "accepted media types include",
    ),
    "an answer nobody gives": (
        "GET",
        CONFIG_MAPS,
        None,
        {"Accept": "application/vnd.kubernetes.protobuf"},
        406,
        "only the following media types are accepted",
    ),
    "a page for people": (
        "GET",
        f"{CONFIG_MAPS}/nobody",
        None,
        {"Accept": "text/html, application/*"},
        406,
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
    ),
    "a list for people": (
        "GET",
        CONFIG_MAPS,
        None,
        {"Accept": "text/html"},
        406,
        "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch",
    ),
    "a form of no kind": (
        "GET",
        f"{CONFIG_MAPS}/kube-root-ca.crt",
        None,
        {"Accept": "application/json;as=Foo;v=v1;g=meta.k8s.io"},
        406,
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
    ),
    "a watch in YAML": (
        "GET",
        f"{CONFIG_MAPS}?watch=1",
        None,
        {"Accept": "application/yaml"},
        406,
        "only the following media types are accepted: application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch",
    ),
    "an old watch of what is not watched": (
        "GET",
        "/api/v1/watch/componentstatuses",
        None,
        {},
        404,
        "the server could not find the requested resource",
    ),
    "an old watch of a part": (
        "GET",
        "/api/v1/watch/namespaces/default/pods/x/log",
        None,
        {},
        404,
        "the server could not find the requested resource",
    ),
    "a patch of no form": (
        "PATCH",
        f"{CONFIG_MAPS}/kube-root-ca.crt",
        {},
        {},
        415,
        "415: Unsupported Media Type",
    ),
    "an old version": (
        "PUT",
        f"{CONFIG_MAPS}/kube-root-ca.crt",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "resourceVersion": "1"},
        },
        {},
        409,
        "the object has been modified; please apply your changes to the latest version and try again",
    ),
    "a kind nobody has": (
        "GET",
        "/api/v1/widgets",
        None,
        {},
        404,
        "the server could not find the requested resource",
    ),
    "a method it has not": (
        "POST",
        f"{CONFIG_MAPS}/kube-root-ca.crt",
        config_map("x"),
        {},
        405,
        "does not allow this method",
    ),
    "a field selector it has not": (
        "GET",
        f"{CONFIG_MAPS}?fieldSelector=data.a%3D1",
        None,
        {},
        400,
        "not a known field selector",
    ),
    "a label selector that is none": (
        "GET",
        f"{CONFIG_MAPS}?labelSelector=%21%21",
        None,
        {},
        400,
        "unable to parse",
    ),
    "a version from the future": (
        "GET",
        f"{CONFIG_MAPS}?resourceVersion=99999999",
        None,
        {},
        504,
        "Too large resource version",
    ),
    "a path that climbs": ("GET", "/api/v1/namespaces/../secrets", None, {}, 400, "invalid path segment"),
    "a climb in disguise": (
        "GET",
        "/api/v1/namespaces/%2e%2e/secrets",
        None,
        {},
        400,
        "invalid path segment",
    ),
    "a dry run of nothing known": (
        "POST",
        f"{CONFIG_MAPS}?dryRun=Some",
        config_map("x"),
        {},
        422,
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
    "an unknown field, strictly": (
        "POST",
        "/api/v1/namespaces/default/pods?fieldValidation=Strict",
        {**POD, "spec": {"containers": [{"name": "c", "image": "i", "resorces": {}}]}},
        {},
        400,
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
        '"spec.containers[0].resorces"',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_and_in_which_words(api: Served, name: str) -> None:
    method, path, body, headers, want_code, want_words = REFUSED[name]
    code, status = api.ask(method, path, body, headers=headers)
    assert (code, status["kind"], status["code"]) == (want_code, "Status", want_code)
    assert want_words in status["message"]


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(api: Served) -> None:
    context = ssl.create_default_context(cafile=str(api.pki / "ca.crt"))
    context.load_cert_chain(api.pki / "admin.crt", api.pki / "admin.key")
    with (
        socket.create_connection(("127.0.0.1", api.server.port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as client,
    ):
        client.sendall(f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n".encode())
        assert client.recv(200).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "line", [b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 70_000 + b"\r\n\r\n"]
)
def test_what_is_no_http_is_answered_and_hung_up_on(api: Served, line: bytes) -> None:
    context = ssl.create_default_context(cafile=str(api.pki / "ca.crt"))
    with (
        socket.create_connection(("127.0.0.1", api.server.port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as client,
    ):
        client.sendall(line)
        assert client.recv(200).startswith(b"HTTP/1.1 4")
    assert api.ask("GET", "/version")[0] == 200


def test_several_requests_sent_at_once_are_answered_in_order(api: Served) -> None:
    context = ssl.create_default_context(cafile=str(api.pki / "ca.crt"))
    context.load_cert_chain(api.pki / "admin.crt", api.pki / "admin.key")
    with (
        socket.create_connection(("127.0.0.1", api.server.port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as client,
    ):
        for path in ("/version", "/api", "/healthz"):
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        text = b""
        while not text.endswith(b"ok"):
            text += client.recv(65536)
    assert text.index(b"gitVersion") < text.index(b"APIVersions") < text.index(b"text/plain")


def test_a_limit_range_without_a_name_gets_one(api: Served) -> None:
    body = {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [{"type": "Pod"}]}}
    code, made = api.ask("POST", "/api/v1/namespaces/default/limitranges?dryRun=All", body)
    assert code == 201
    assert len(made["metadata"]["name"]) == 36


def test_an_address_that_is_none_is_refused_alone(api: Served) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "bogus"}}
    code, said = api.ask("POST", "/api/v1/namespaces/default/services?dryRun=All", body)
    assert (code, [cause["field"] for cause in said["details"]["causes"]]) == (422, ["spec.clusterIPs[0]"])


def test_a_dry_run_leaves_nothing_behind(api: Served) -> None:
    before = api.server.api.store.version
    code, made = api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("dry"))
    assert (code, "resourceVersion" in made["metadata"]) == (201, False)
    assert api.ask("GET", f"{CONFIG_MAPS}/dry")[0] == 404
    assert api.server.api.store.version == before


def test_quantities_are_kept_in_their_canonical_form(api: Served) -> None:
    code, pod = api.ask("POST", "/api/v1/namespaces/default/pods", POD)
    assert code == 201
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    api.ask("DELETE", "/api/v1/namespaces/default/pods/p")


def test_pages_of_a_list_have_every_object_once(api: Served) -> None:
    for i in range(7):
        api.ask("POST", "/api/v1/namespaces/kube-public/configmaps", config_map(f"page-{i}"))
    seen: list[str] = []
    token, path = "", "/api/v1/namespaces/kube-public/configmaps"
    while True:
        _, page = api.ask("GET", f"{path}?limit=3&continue={token}")
        seen += [o["metadata"]["name"] for o in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
        assert page["metadata"]["remainingItemCount"] == 8 - len(seen)
    assert seen == ["kube-root-ca.crt", *(f"page-{i}" for i in range(7))]
    api.ask("DELETE", f"{path}?fieldSelector=metadata.name!=kube-root-ca.crt")
    _, left = api.ask("GET", path)
    assert [o["metadata"]["name"] for o in left["items"]] == ["kube-root-ca.crt"]


def test_server_side_apply_creates_and_then_conflicts(api: Served) -> None:
    headers = {"Content-Type": "application/apply-patch+yaml"}
    path = f"{CONFIG_MAPS}/owned"
    assert api.ask("PATCH", f"{path}?fieldManager=one", config_map("owned", a="1"), headers=headers)[0] == 201
    code, status = api.ask("PATCH", f"{path}?fieldManager=two", config_map("owned", a="2"), headers=headers)
    assert code == 409
    assert status["details"]["causes"][0]["field"] == ".data.a"
    code, forced = api.ask(
        "PATCH", f"{path}?fieldManager=two&force=true", config_map("owned", a="2"), headers=headers
    )
    assert (code, forced["data"]) == (200, {"a": "2"})


def test_events_are_one_object_in_two_groups(api: Served) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested",
        "message": "hello",
        "type": "Normal",
    }
    assert api.ask("POST", "/api/v1/namespaces/default/events", event)[0] == 201
    code, same = api.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events/e")
    assert (code, same["note"], same["regarding"]["name"]) == (200, "hello", "p")


def test_discovery_in_both_forms_names_the_same_resources(api: Served) -> None:
    _, legacy = api.ask("GET", "/apis/batch/v1")
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    _, aggregated = api.ask("GET", "/apis", headers={"Accept": accept})
    batch = next(g for g in aggregated["items"] if g["metadata"]["name"] == "batch")
    names = [r["resource"] for r in batch["versions"][0]["resources"]]
    assert names == [r["name"] for r in legacy["resources"] if "/" not in r["name"]] == ["cronjobs", "jobs"]


def test_a_bodys_words_survive_as_yaml(api: Served) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-yaml}\ndata: {answer: 'yes'}\n"
    code, made = api.ask("POST", CONFIG_MAPS, body, headers={"Content-Type": "application/yaml"})
    assert (code, made["data"]) == (201, {"answer": "yes"})
    code, text = api.ask("GET", f"{CONFIG_MAPS}/from-yaml", headers={"Accept": "application/yaml"})
    assert code == 200 and "kind: ConfigMap" in text


def test_reviews_answer_who_and_whether(api: Served) -> None:
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    asked = {**review, "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert api.ask("POST", path, asked)[1]["status"]["allowed"] is True
    as_alice = {"Impersonate-User": "alice"}
    assert api.ask("POST", path, asked, headers=as_alice)[1]["status"]["allowed"] is False
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    _, said = api.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", who)
    assert said["status"]["userInfo"]["username"] == "kubernetes-admin"


def test_bodies_of_chance_never_take_the_server_down(api: Served) -> None:
    import random

    draw = random.Random(7)
    good = json.dumps(POD).encode()
    for _ in range(150):
        body = bytearray(good)
        for _ in range(draw.randint(1, 8)):
            body[draw.randrange(len(body))] = draw.randrange(256)
        code, _ = api.ask("POST", "/api/v1/namespaces/default/pods?dryRun=All", bytes(body))
        assert code in (201, 400, 403, 409, 422), bytes(body)
    assert api.ask("GET", "/livez")[0] == 200
