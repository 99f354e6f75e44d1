"""Requests that few clients send: other forms of one object, preconditions, devices with admin access, quotas that are
charged, bugs that are told, pages of the control plane."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map, served

from fairway.apiserver.asking import _is_misshapen
from fairway.apiserver.discovery import Discovery
from fairway.apiserver.handling import Handling
from fairway.apiserver.statuses import StatusError
from fairway.apiserver.wire.messages import Request
from fairway.kube.objects import Key, Obj

HOME = "/api/v1/namespaces/default"
META = "application/json;as={};v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Nobody corrects what a quota counts."""
    data: Path = tmp_path_factory.mktemp("seldom")
    with served(data, paused=True, without=("resourcequota",)) as api:
        api.until_ready()
        yield api


def told(
    home: Served, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    import json

    connection = home.connect()
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


# Forms


def test_one_object_as_a_table_and_as_its_metadata(home: Served) -> None:
    code, made = home.ask("POST", CONFIG_MAPS, config_map("formed", a="1"))
    assert code == 201
    path, version = f"{CONFIG_MAPS}/formed", made["metadata"]["resourceVersion"]
    code, table = home.ask("GET", path, headers={"Accept": META.format("Table")})
    assert (code, table["kind"], table["metadata"]) == (200, "Table", {"resourceVersion": version})
    (row,) = table["rows"]
    assert row["cells"][:2] == ["formed", 1]
    assert (row["object"]["kind"], row["object"]["metadata"]) == ("PartialObjectMetadata", made["metadata"])
    code, partial = home.ask("GET", path, headers={"Accept": META.format("PartialObjectMetadata")})
    assert (code, partial["kind"], partial["metadata"]) == (200, "PartialObjectMetadata", made["metadata"])
    assert "data" not in partial
    again = config_map("formed-too")
    code, table = home.ask("POST", CONFIG_MAPS, again, headers={"Accept": META.format("Table")})
    assert (code, table["kind"]) == (201, "Table")


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"])
def test_a_document_that_is_known_is_not_sent_again(home: Served, path: str) -> None:
    code, headers, body = told(home, "GET", path)
    assert code == 200 and body and headers["Vary"] == "Accept" and headers["Etag"].startswith('"')
    code, again, body = told(home, "GET", path, **{"If-None-Match": headers["Etag"]})
    assert (code, again["Etag"], body) == (304, headers["Etag"], b"")
    assert told(home, "GET", path, **{"If-None-Match": '"other"'})[0] == 200


# Writes


STORED: dict[str, tuple[str, Obj, str]] = {
    "configmaps": (f"{HOME}/configmaps", {"kind": "ConfigMap", "apiVersion": "v1"}, "configmaps/default/"),
    "services": (
        f"{HOME}/services",
        {"kind": "Service", "apiVersion": "v1", "spec": {"ports": [{"port": 1}]}},
        "services/specs/default/",
    ),
    "endpoints": (
        f"{HOME}/endpoints",
        {"kind": "Endpoints", "apiVersion": "v1"},
        "services/endpoints/default/",
    ),
    "nodes": ("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1"}, "minions/"),
    "leases": (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1"},
        "leases/default/",
    ),
    "ingresses": (
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        {
            "kind": "Ingress",
            "apiVersion": "networking.k8s.io/v1",
            "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}},
        },
        "ingress/default/",
    ),
    "apiservices": (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {
            "kind": "APIService",
            "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": {"name": "v1.stored.example.com"},
            "spec": {
                "group": "stored.example.com",
                "version": "v1",
                "groupPriorityMinimum": 1,
                "versionPriority": 1,
                "insecureSkipTLSVerify": True,
                "service": {"name": "s", "namespace": "default"},
            },
        },
        "apiregistration.k8s.io/apiservices/",
    ),
    "flavors": (
        "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
        {"kind": "ResourceFlavor", "apiVersion": "kueue.x-k8s.io/v1beta2"},
        "kueue.x-k8s.io/resourceflavors/",
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_another_uid_is_refused_with_the_key_in_etcd(home: Served, name: str) -> None:
    path, body, key = STORED[name]
    at = (body.get("metadata") or {}).get("name") or "stored"
    code, made = home.ask("POST", path, {"metadata": {"name": at}, **body})
    assert code == 201, made
    try:
        # Whoever adds to a new object has done so by then.
        home.ask("POST", "/fairway/clock", {"advanceUs": 1_000})
        made = home.ask("GET", f"{path}/{at}")[1]
        made["metadata"]["uid"] = "mine"
        code, said = home.ask("PUT", f"{path}/{at}", made)
        uid = home.ask("GET", f"{path}/{at}")[1]["metadata"]["uid"]
        assert (code, said["reason"]) == (409, "Conflict")
        assert said["message"].endswith(
            f"StorageError: invalid object, Code: 4, Key: /registry/{key}{at}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: mine, UID in object meta: {uid}"
        )
    finally:
        home.ask("DELETE", f"{path}/{at}")


MERGE = {"Content-Type": "application/merge-patch+json"}


def test_a_patch_may_say_the_uid_and_no_other(home: Served) -> None:
    _, made = home.ask("POST", CONFIG_MAPS, config_map("patched"))
    uid, path = made["metadata"]["uid"], f"{CONFIG_MAPS}/patched"
    for given in (uid, None, ""):
        code, said = home.ask(
            "PATCH", path, {"metadata": {"uid": given}, "data": {"a": str(given)}}, headers=MERGE
        )
        assert (code, said["metadata"]["uid"]) == (200, uid)
    code, said = home.ask("PATCH", path, {"metadata": {"uid": "mine"}}, headers=MERGE)
    assert code in (409, 422) and "mine" in said["message"]
    assert home.ask("GET", path)[1]["metadata"]["uid"] == uid


def test_a_request_for_a_certificate_keeps_what_it_asked_for(home: Served) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jane")])
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    from base64 import b64encode

    pem = b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": pem, "signerName": "example.com/s", "usages": ["client auth"]}
    body = {
        "kind": "CertificateSigningRequest",
        "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"name": "jane"},
    }
    code, made = home.ask("POST", path, {**body, "spec": spec})
    assert code == 201
    change = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"username": "eve", "signerName": "example.com/other"},
    }
    code, said = home.ask("PATCH", f"{path}/jane", change, headers=MERGE)
    assert (code, said["spec"], said["metadata"]["labels"]) == (200, made["spec"], {"a": "b"})


def test_a_name_that_is_taken_is_refused_last(home: Served) -> None:
    """As etcd does: whoever may not create such an object at all is told so first."""
    assert home.ask("POST", CONFIG_MAPS, config_map("taken"))[0] == 201
    for query in ("", "?dryRun=All"):
        code, said = home.ask("POST", f"{CONFIG_MAPS}{query}", config_map("taken"))
        assert (code, said["message"]) == (409, 'configmaps "taken" already exists')
    space, maps = "/api/v1/namespaces", "/api/v1/namespaces/full/configmaps"
    assert (
        home.ask("POST", space, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "full"}})[0]
        == 201
    )
    assert home.ask("POST", maps, config_map("taken"))[0] == 201
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}}
    hard = {"count/configmaps": "1"}
    assert home.ask("POST", f"{space}/full/resourcequotas", {**quota, "spec": {"hard": hard}})[0] == 201
    store = home.server.api.store
    home.call(
        lambda: store.set_status(
            Key("ResourceQuota", "full", "q"), {"hard": hard, "used": {"count/configmaps": "1"}}
        )
    )
    code, said = home.ask("POST", maps, config_map("taken"))
    assert code == 403 and "exceeded quota: q" in said["message"]


def test_what_is_let_in_is_charged_at_once(home: Served) -> None:
    quotas = f"{HOME}/resourcequotas"
    hard = {"count/secrets": "2"}
    body = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    assert home.ask("POST", quotas, body)[0] == 201
    status = {**body, "status": {"hard": hard, "used": {"count/secrets": "0"}}}
    assert home.ask("PUT", f"{quotas}/q/status", status)[0] == 200

    def used() -> str:
        return str(home.ask("GET", f"{quotas}/q")[1]["status"]["used"]["count/secrets"])

    def secret(name: str, query: str = "") -> int:
        made = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name}}
        return home.ask("POST", f"{HOME}/secrets{query}", made)[0]

    try:
        assert (secret("one"), used()) == (201, "1")
        assert (secret("dry", "?dryRun=All"), used()) == (201, "1")
        assert (secret("one"), used()) == (409, "1"), "what could not be written is not charged"
        assert (secret("two"), used()) == (201, "2")
        assert (secret("three"), used()) == (403, "2")
    finally:
        home.ask("DELETE", f"{quotas}/q")


def claim(kind: str, *requests: Obj) -> Obj:
    spec: Obj = {"devices": {"requests": list(requests)}}
    spec = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}, "spec": spec}


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_admin_access_to_devices_is_for_namespaces_that_say_so(home: Served, kind: str) -> None:
    plain = {"name": "a", "exactly": {"deviceClassName": "gpu"}}
    admin = {"name": "b", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
    space: Obj = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": f"admins-{kind.lower()}"}}
    space["metadata"]["labels"] = {"resource.kubernetes.io/admin-access": "true"}
    assert home.ask("POST", "/api/v1/namespaces", space)[0] == 201
    for name, requests, want in (
        ("default", (plain,), 201),
        ("default", (plain, admin), 422),
        (space["metadata"]["name"], (plain, admin), 201),
    ):
        path = f"/apis/resource.k8s.io/v1/namespaces/{name}/{kind.lower()}s?dryRun=All"
        code, said = home.ask("POST", path, claim(kind, *requests))
        assert code == want, said
        if want == 422:
            (cause,) = said["details"]["causes"]
            assert cause["field"] == "spec.devices.requests[1].adminAccess"


def test_a_claim_status_is_checked(home: Served) -> None:
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    code, made = home.ask(
        "POST", path, claim("ResourceClaim", {"name": "a", "exactly": {"deviceClassName": "gpu"}})
    )
    assert code == 201, made
    made["status"] = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    code, said = home.ask("PUT", f"{path}/c/status", made)
    assert (code, said["reason"]) == (422, "Invalid"), "nobody is reserved what is not allocated"


@pytest.mark.parametrize("query", ["propagationPolicy=Background", "dryRun=All&orphanDependents=false"])
def test_other_options_in_the_query_leave_a_pod_its_grace(home: Served, query: str) -> None:
    container = {"name": "c", "image": "i"}
    spec = {"containers": [container], "nodeName": "nowhere", "terminationGracePeriodSeconds": 17}
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "graced"}, "spec": spec}
    assert home.ask("POST", f"{HOME}/pods", body)[0] in (201, 409)
    code, said = home.ask("DELETE", f"{HOME}/pods/graced?{query}")
    assert (code, said["metadata"]["deletionGracePeriodSeconds"]) == (200, 17)


# What goes wrong


def test_bugs_are_told_by_their_name_and_logged_whole(home: Served, caplog: pytest.LogCaptureFixture) -> None:
    """Neither tells what a body or a header held."""
    api, token = home.server.api, (home.pki / "admin.token").read_text()

    def broken(_request: Request, _user: Any) -> Any:
        raise KeyError("secret")

    def later(_request: Request, _user: Any) -> Any:
        async def coming() -> Any:
            raise ZeroDivisionError("secret")

        return coming()

    def refused(_request: Request, _user: Any) -> Any:
        async def coming() -> Any:
            raise StatusError(409, "Conflict", "no", {})

        return coming()

    pages: dict[str, Any] = {"/broken": broken, "/later": later, "/refused": refused}
    handling = Handling(api, Discovery(api.resources, "x"), pages)

    def ask(path: str) -> Any:
        request = Request("GET", path, "", {"authorization": f"Bearer {token}"}, b"")
        answer = home.call(lambda: handling.answer(request))
        if not isinstance(answer, Awaitable):
            return answer
        with pytest.raises(StopIteration) as end:
            answer.__await__().send(None)
        return end.value.value

    with caplog.at_level(logging.ERROR, "fairway.apiserver"):
        for path, name in (("/broken/x", "KeyError"), ("/later", "ZeroDivisionError")):
            answer = ask(path)
            assert answer.status == 500
            assert f"Internal error occurred: {name} while serving GET {path}".encode() in answer.body
            assert b"secret" not in answer.body
    assert [r.getMessage() for r in caplog.records] == ["GET /broken/x failed", "GET /later failed"]
    assert all(r.exc_info for r in caplog.records)
    assert ask("/refused").status == 409
    assert ask("/brokenly").status == 404


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/v1/namespaces/default/configmaps/%00", "invalid character in path"),
        ("/api/v1/namespaces/../configmaps", "invalid path segment '..'"),
        ("/api/v1/namespaces//./configmaps", "invalid path segment '.'"),
    ],
)
def test_paths_with_what_no_name_has(home: Served, path: str, said: str) -> None:
    code, status = home.ask("GET", path)
    assert (code, status["message"]) == (400, said)


def test_which_objects_of_operators_are_misshapen(home: Served) -> None:
    resources = home.server.api.resources
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    assert not _is_misshapen(resources, {**flavor, "spec": {}})
    assert _is_misshapen(resources, {**flavor, "spec": {"nodeLabels": [1]}})
    assert not _is_misshapen(resources, {**flavor, "kind": "Nobody", "spec": {"nodeLabels": [1]}})
    assert not _is_misshapen(resources, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": []})


def test_an_older_version_that_changes_nothing_writes_nothing(home: Served) -> None:
    """Kueue's kinds pass its webhooks in the version in which they came."""
    path = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
    body = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "older"}}
    code, made = home.ask("POST", path, {**body, "spec": {"cohort": "all", "namespaceSelector": {}}})
    assert (code, made["apiVersion"], made["spec"]["cohort"]) == (201, "kueue.x-k8s.io/v1beta1", "all"), made
    home.ask("POST", "/fairway/clock", {"advanceUs": 1_000})
    found = home.ask("GET", f"{path}/older")[1]
    code, again = home.ask("PUT", f"{path}/older", found)
    assert (code, again) == (200, found)
