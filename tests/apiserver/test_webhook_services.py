"""Admission webhooks that are named by a Service: reached over TLS as that Service, or refused in kube's words."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, config_map
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/watched/configmaps"


class Hook:
    """A webhook on this machine: refuses objects named `bad`, and remembers what it was asked."""

    def __init__(self, folder: Path, host: str) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.authority = _certificate(folder, host)
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = body["request"]
                hook.asked.append((self.path, self.headers["Host"], request["name"]))
                allowed = not request["name"].startswith("bad")
                answer: dict[str, Any] = {"uid": request["uid"], "allowed": allowed}
                if not allowed:
                    answer["status"] = {"message": "not that name"}
                text = json.dumps({**body, "request": None, "response": answer}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "hook.crt", folder / "hook.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port: int = self.server.server_address[1]


def _certificate(folder: Path, host: str) -> str:
    """Writes a certificate for a host; returns it as a caBundle."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, SHA256())
    )
    text = made.public_bytes(Encoding.PEM)
    (folder / "hook.crt").write_bytes(text)
    (folder / "hook.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return b64encode(text).decode()


@contextmanager
def hook_for(folder: Path, host: str) -> Iterator[Hook]:
    hook = Hook(folder, host)
    thread = threading.Thread(target=hook.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.server.shutdown()
        hook.server.server_close()
        thread.join(10)


@pytest.fixture
def watched(api: Served) -> Iterator[Served]:
    meta = {"name": "watched", "labels": {"hooked": "yes"}}
    api.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    yield api
    api.ask("DELETE", f"{CONFIGURATIONS}/hook")
    for path in ("services/hook", "services/other"):
        api.ask("DELETE", f"/api/v1/namespaces/watched/{path}")
    api.ask("DELETE", "/apis/discovery.k8s.io/v1/namespaces/watched/endpointslices/hook-1")
    for name in ("good", "bad"):
        api.ask("DELETE", f"{MAPS}/{name}")


def configure(api: Served, authority: str, resource: str = "configmaps", **service: Any) -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [resource],
    }
    webhook = {
        "name": "names.example.com",
        "clientConfig": {
            "caBundle": authority,
            "service": {"namespace": "watched", "name": "hook", **service},
        },
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"hooked": "yes"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    meta = {"name": "hook"}
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": meta,
        "webhooks": [webhook],
    }
    code, answer = api.ask("POST", CONFIGURATIONS, body)
    assert code == 201, answer


def create(api: Served, name: str, kind: str = "services", **body: Any) -> None:
    singular = {"services": "Service"}[kind]
    obj = {"apiVersion": "v1", "kind": singular, "metadata": {"name": name}, **body}
    code, answer = api.ask("POST", f"/api/v1/namespaces/watched/{kind}", obj)
    assert code == 201, answer


def test_a_service_of_another_name_elsewhere_is_reached_as_itself(watched: Served, tmp_path: Path) -> None:
    with hook_for(tmp_path, "hook.watched.svc") as hook:
        create(watched, "hook", spec={"type": "ExternalName", "externalName": "localhost"})
        configure(watched, hook.authority, path="/check", port=hook.port)
        assert watched.ask("POST", MAPS, config_map("good"))[0] == 201
        code, said = watched.ask("POST", MAPS, config_map("bad"))
        assert code == 400
        assert said["message"] == 'admission webhook "names.example.com" denied the request: not that name'
        host = f"hook.watched.svc:{hook.port}"
        assert [(p.partition("?")[0], h) for p, h, _ in hook.asked] == [("/check", host)] * 2


def test_pods_that_a_controller_creates_are_asked_about_too(watched: Served, tmp_path: Path) -> None:
    watched.until_ready()
    with hook_for(tmp_path, "hook.watched.svc") as hook:
        create(watched, "hook", spec={"type": "ExternalName", "externalName": "localhost"})
        configure(watched, hook.authority, "pods", port=hook.port)
        for name in ("bad", "good"):
            labels = {"app": name}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
            body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}
            watched.ask("POST", "/apis/apps/v1/namespaces/watched/replicasets", body)
        watched.ask("POST", "/fairway/clock", {"advanceUs": 1_000_000})
        _, pods = watched.ask("GET", "/api/v1/namespaces/watched/pods")
        assert [p["metadata"]["labels"]["app"] for p in pods["items"]] == ["good"]
        _, events = watched.ask("GET", "/api/v1/namespaces/watched/events?fieldSelector=reason=FailedCreate")
        want = 'admission webhook "names.example.com" denied the request: not that name'
        assert events["items"][0]["message"] == f"Error creating: {want}"
        for name in ("bad", "good"):
            watched.ask("DELETE", f"/apis/apps/v1/namespaces/watched/replicasets/{name}")


def test_a_services_port_leads_to_its_ready_endpoint(watched: Served, tmp_path: Path) -> None:
    with hook_for(tmp_path, "hook.watched.svc") as hook:
        create(watched, "hook", spec={"ports": [{"name": "https", "port": 443}]})
        slices = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
            # As an address it would be refused: it leads nowhere but here.
            "addressType": "FQDN",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": hook.port, "protocol": "TCP"}],
        }
        path = "/apis/discovery.k8s.io/v1/namespaces/watched/endpointslices"
        assert watched.ask("POST", path, slices)[0] == 201
        configure(watched, hook.authority)
        assert watched.ask("POST", MAPS, config_map("good"))[0] == 201
        assert [(p.partition("?")[0], h) for p, h, _ in hook.asked] == [("/", "hook.watched.svc")]


def test_a_certificate_for_another_name_is_not_believed(watched: Served, tmp_path: Path) -> None:
    with hook_for(tmp_path, "localhost") as hook:
        create(watched, "hook", spec={"type": "ExternalName", "externalName": "localhost"})
        configure(watched, hook.authority, port=hook.port)
        code, said = watched.ask("POST", MAPS, config_map("good"))
        assert code == 500
        assert "tls: failed to verify certificate" in said["message"]
        assert hook.asked == []


NOWHERE: dict[str, tuple[dict[str, Any] | None, str]] = {
    "no service": (None, 'service "hook" not found'),
    "another port": ({"ports": [{"port": 8443}]}, 'no service port 443 found for service "hook"'),
    "nobody behind it": ({"ports": [{"port": 443}]}, 'no endpoints available for service "hook"'),
}


@pytest.mark.parametrize("name", NOWHERE)
def test_a_service_that_leads_nowhere(watched: Served, tmp_path: Path, name: str) -> None:
    spec, want = NOWHERE[name]
    if spec is not None:
        create(watched, "hook", spec=spec)
    configure(watched, _certificate(tmp_path, "hook.watched.svc"), path="/x")
    code, said = watched.ask("POST", MAPS, config_map("good"))
    assert code == 500
    assert said["message"] == (
        'Internal error occurred: failed calling webhook "names.example.com": failed to call webhook: Post '
        f'"https://hook.watched.svc:443/x?timeout=10s": {want}'
    )
