"""Certificate requests: who may approve, what the built-in signers make of them, and that the result opens the door."""

from __future__ import annotations

import http.client
import json
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("signing")
    with served(data, paused=True) as api:
        api.until_ready()
        yield api


def pem(name: str, organization: str = "", dns: str = "") -> str:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if dns:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns)]), critical=False)
    return b64encode(builder.sign(KEY, SHA256()).public_bytes(Encoding.PEM)).decode()


def request(name: str, text: str, signer: str = CLIENT, *usages: str, **spec: Any) -> dict[str, Any]:
    body = {"request": text, "signerName": signer, "usages": list(usages or ("client auth",)), **spec}
    meta = {"name": name}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": meta,
        "spec": body,
    }


def decided(home: Served, name: str, kind: str = "Approved", **headers: str) -> tuple[int, dict[str, Any]]:
    _, found = home.ask("GET", f"{PATH}/{name}")
    conditions = [*(found.get("status") or {}).get("conditions", ()), {"type": kind, "status": "True"}]
    found["status"] = {"conditions": conditions}
    answer = home.ask("PUT", f"{PATH}/{name}/approval", found, headers=headers)
    home.ask("POST", "/fairway/clock", {"advanceUs": 1_000_000})
    return answer


def status(home: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = home.ask("GET", f"{PATH}/{name}")[1]["status"]
    return found


def test_an_approved_request_becomes_a_certificate_that_lets_its_user_in(
    home: Served, tmp_path: Path
) -> None:
    code, made = home.ask("POST", PATH, request("bob", pem("bob", "dev"), CLIENT, expirationSeconds=86400))
    assert (code, made["spec"]["username"]) == (201, "kubernetes-admin")
    assert made["spec"]["groups"] == ["system:masters", "system:authenticated"]
    home.ask("POST", "/fairway/clock", {"advanceUs": 1_000_000})
    assert "certificate" not in status(home, "bob")
    decided(home, "bob")
    text = b64decode(status(home, "bob")["certificate"])
    certificate = x509.load_pem_x509_certificate(text)
    extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds() == 86400
    (tmp_path / "bob.crt").write_bytes(text)
    (tmp_path / "bob.key").write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.create_default_context(cafile=str(home.pki / "ca.crt"))
    context.load_cert_chain(tmp_path / "bob.crt", tmp_path / "bob.key")
    connection = http.client.HTTPSConnection("127.0.0.1", home.server.port, context=context, timeout=20)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    connection.request(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        json.dumps(review),
        {"Content-Type": "application/json"},
    )
    user = json.loads(connection.getresponse().read())["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("bob", ["dev", "system:authenticated"])
    connection.close()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no request in it": (
        request("x", b64encode(b"hello").decode()),
        "PEM block type must be CERTIFICATE REQUEST",
    ),
    "an unknown usage": (
        request("x", pem("a"), CLIENT, "magic"),
        'spec.usages[0]: Unsupported value: "magic"',
    ),
    "a signer without a domain": (
        request("x", pem("a"), "signer"),
        'spec.signerName: Invalid value: "signer": must be a fully qualified domain and path of the form '
        "'example.com/signer-name'",
    ),
    "the legacy signer": (
        request("x", pem("a"), "kubernetes.io/legacy-unknown"),
        "the legacy signerName is not allowed via this API version",
    ),
    "too short": (
        request("x", pem("a"), CLIENT, expirationSeconds=60),
        "spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 600 seconds (10 minutes)",
    ),
    "the administrators' group": (
        request("x", pem("a", "system:masters")),
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_at_once(home: Served, name: str) -> None:
    body, want = WRONG[name]
    code, said = home.ask("POST", PATH, body)
    assert code in (403, 422)
    assert want in said["message"]


FAILED: dict[str, tuple[dict[str, Any], str]] = {
    "a client that wants to serve": (
        request("f", pem("a"), CLIENT, "server auth"),
        "invalid usage for client certificate: server auth",
    ),
    "a kubelet outside the nodes' group": (
        request("f", pem("system:node:n"), KUBELET),
        "subject organization is not system:nodes",
    ),
    "a serving kubelet without a name": (
        request("f", pem("system:node:n", "system:nodes"), SERVING, "digital signature", "server auth"),
        "DNS or IP subjectAltName is required",
    ),
}


@pytest.mark.parametrize("name", FAILED)
def test_what_a_signer_fails(home: Served, name: str) -> None:
    body, want = FAILED[name]
    home.ask("POST", PATH, body)
    decided(home, "f")
    found = status(home, "f")
    home.ask("DELETE", f"{PATH}/f")
    failed = found["conditions"][-1]
    assert (failed["type"], failed["reason"], failed["message"]) == (
        "Failed",
        "SignerValidationFailure",
        want,
    )
    assert "certificate" not in found


def test_a_serving_kubelet_gets_the_names_it_asked_for(home: Served) -> None:
    text = pem("system:node:n", "system:nodes", dns="n.example")
    home.ask("POST", PATH, request("serving", text, SERVING, "digital signature", "server auth"))
    decided(home, "serving")
    certificate = x509.load_pem_x509_certificate(b64decode(status(home, "serving")["certificate"]))
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == ["n.example"]


def test_a_kubelets_own_client_certificate_needs_no_person(home: Served) -> None:
    user = {"Impersonate-User": "system:node:n", "Impersonate-Group": "system:nodes"}
    role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
    for suffix in (role, "system:node-bootstrapper"):
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": suffix},
            "roleRef": {"kind": "ClusterRole", "name": suffix, "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "Group", "name": "system:nodes", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        home.ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    usages = ("client auth", "digital signature")
    body = request("own", pem("system:node:n", "system:nodes"), KUBELET, *usages)
    assert home.ask("POST", PATH, body, headers=user)[0] == 201
    home.ask("POST", "/fairway/clock", {"advanceUs": 2_000_000})
    found = status(home, "own")
    assert found["conditions"][0]["reason"] == "AutoApproved"
    assert found["certificate"]


def test_only_who_may_approve_for_the_signer_approves(home: Served) -> None:
    home.ask("POST", PATH, request("guarded", pem("eve")))
    rules = [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["*"], "verbs": ["get", "update"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    roles = "/apis/rbac.authorization.k8s.io/v1"
    home.ask("POST", f"{roles}/clusterroles", {**role, "metadata": {"name": "clerk"}, "rules": rules})
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "clerk"},
        "roleRef": {"kind": "ClusterRole", "name": "clerk"},
        "subjects": [{"kind": "User", "name": "carol"}],
    }
    home.ask("POST", f"{roles}/clusterrolebindings", binding)
    code, said = decided(home, "guarded", **{"Impersonate-User": "carol"})
    assert code == 403
    assert said["message"].endswith(f'user not permitted to approve requests with signerName "{CLIENT}"')
    code, said = decided(home, "guarded", "Denied")
    assert code == 200
    code, said = decided(home, "guarded", "Approved")
    assert code == 422
    assert "Approved and Denied conditions are mutually exclusive" in said["message"]
