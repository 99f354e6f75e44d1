"""What is no write meets admission as well: sessions in containers, tokens, bindings; and what a request may carry."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served

from fairway.apiserver.auth.tokens import ISSUER

POLICIES = "/apis/admissionregistration.k8s.io/v1"
HOME = "/api/v1/namespaces/default"
# What is asked for → operation, resource, body, and what CEL may see of it.
ASKED: dict[str, tuple[str, str, Any, str]] = {
    "pods/p/exec?command=sh&stdout=true&container=c": (
        "CONNECT",
        "pods/exec",
        None,
        'object.command == ["sh"] && object.stdout && object.container == "c" && request.kind.kind == "PodExecOptions"',
    ),
    "pods/p/attach?stdin=true&stdout=true": ("CONNECT", "pods/attach", None, "object.stdin"),
    "pods/p/portforward?ports=80": ("CONNECT", "pods/portforward", None, "object.ports == [80]"),
    "serviceaccounts/default/token": (
        "CREATE",
        "serviceaccounts/token",
        {"spec": {"audiences": [ISSUER]}},
        'request.kind.group == "authentication.k8s.io" && object.spec.audiences.size() == 1',
    ),
    "pods/p/binding": (
        "CREATE",
        "pods/binding",
        {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n"}},
        'object.target.name == "n"',
    ),
}


@pytest.fixture(scope="module")
def pod(api: Served) -> Iterator[Served]:
    api.until_ready()
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"},
    }
    assert api.ask("POST", f"{HOME}/pods", body)[0] == 201
    yield api
    api.ask("DELETE", f"{HOME}/pods/p?gracePeriodSeconds=0")


@pytest.mark.parametrize("path", ASKED)
def test_admission_is_asked_about_it(pod: Served, path: str) -> None:
    operation, resource, body, seen = ASKED[path]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
    validation = {"expression": f"!({seen})", "message": "not here"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "closed"},
        "spec": spec,
    }
    binding = {**policy, "kind": "ValidatingAdmissionPolicyBinding"}
    binding["spec"] = {"policyName": "closed", "validationActions": ["Deny"]}
    assert pod.ask("POST", f"{POLICIES}/validatingadmissionpolicies", policy)[0] == 201
    assert pod.ask("POST", f"{POLICIES}/validatingadmissionpolicybindings", binding)[0] == 201
    code, said = pod.ask("POST", f"{HOME}/{path}", body)
    pod.ask("DELETE", f"{POLICIES}/validatingadmissionpolicies/closed")
    pod.ask("DELETE", f"{POLICIES}/validatingadmissionpolicybindings/closed")
    assert code == 422 and "not here" in said["message"], said


def spoken(api: Served, text: bytes) -> bytes:
    """The answer to these very bytes, sent with the administrator's certificate."""
    context = ssl.create_default_context(cafile=str(api.pki / "ca.crt"))
    context.load_cert_chain(api.pki / "admin.crt", api.pki / "admin.key")
    with (
        socket.create_connection(("127.0.0.1", api.server.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.settimeout(20)
        secure.sendall(text)
        answer = b""
        while part := secure.recv(65536):
            answer += part
        return answer


END = b"Connection: close\r\n\r\n"
GET = f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\n".encode()
SMUGGLED = {
    "two lengths": (GET + b"Content-Length: 1\r\nContent-Length: 2\r\n" + END + b"ab", b" 400 "),
    "a length and chunks": (
        GET + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + END + b"0\r\n\r\n",
        b" 400 ",
    ),
    "chunks by another name": (GET + b"Transfer-Encoding: xchunked\r\n" + END + b"0\r\n\r\n", b" 400 "),
    "a length that is negative": (GET + b"Content-Length: -1\r\n" + END, b" 400 "),
    "a length of 5,000 digits": (GET + b"Content-Length: " + b"9" * 5000 + b"\r\n" + END, b" 400 "),
    "a space before the colon": (GET + b"Content-Length : 0\r\n" + END, b" 400 "),
    "a header that goes on": (GET + b"X: a\r\n b\r\n" + END, b" 400 "),
    "a line end alone": (GET + b"X: a\nImpersonate-User: x\r\n" + END, b" 400 "),
    "a null in a header": (GET + b"X: a\0b\r\n" + END, b" 400 "),
    "headers without end": (GET + b"X: " + b"a" * 70_000 + b"\r\n" + END, b" 431 "),
    "many headers": (GET + b"".join(b"X%d: y\r\n" % n for n in range(20_000)) + END, b" 431 "),
    "a target without end": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + END, b" 431 "),
    "no method": (b"\x16\x03\x01\x02\x00" + END, b" 400 "),
    "another protocol": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b" 400 "),
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_what_two_readers_could_read_otherwise_is_refused(api: Served, name: str) -> None:
    text, want = SMUGGLED[name]
    answer = spoken(api, text)
    assert want in answer.split(b"\r\n", 1)[0], answer[:200]
    assert answer.count(b"HTTP/1.1") == 1


def test_a_trailer_says_nothing_of_who_asks(api: Served) -> None:
    path = b"/apis/authentication.k8s.io/v1/selfsubjectreviews"
    head = (
        b"POST "
        + path
        + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Impersonate-User\r\n"
        + END
    )
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    chunks = b"%x\r\n%b\r\n0\r\nImpersonate-User: eve\r\n\r\n" % (len(body), body)
    answer = spoken(api, head + chunks)
    assert b" 201 " in answer.split(b"\r\n", 1)[0] and b"kubernetes-admin" in answer and b"eve" not in answer
