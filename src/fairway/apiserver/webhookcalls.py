"""Calling an admission webhook for real: HTTPS to its URL, or to its service where that is reachable.

Runs in a worker thread: the server goes on answering meanwhile, the webhook's own requests to it included.
Services of simulated pods have no address to connect to; those calls fail as on a cluster without endpoints.

Source: apiserver pkg/admission/plugin/webhook, pkg/util/webhook/client.go (v1.36).
"""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairway.admission.request import CallWebhook, WebhookAnswer
from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj, labels_of

_PORT = 443
_MAX_ANSWER_BYTES = 3 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Target:
    """`url` is what is asked for, and what messages show; `address` where to connect instead of its host."""

    url: str
    address: tuple[str, int] | None = None


class _Unresolved(ValueError):
    """There is nowhere to send the call. The text is kube-apiserver's."""


def call(view: View, wanted: CallWebhook) -> WebhookAnswer:
    """The webhook's answer, or why there is none. Never raises."""
    config = wanted.client_config
    service = config.get("service") or {}
    url = config.get("url") or _service_url(service)
    shown = f"{url}{'&' if '?' in url else '?'}timeout={wanted.timeout_s}s"
    try:
        target = _Target(shown, None if config.get("url") else _resolved(view, service))
        body = msgspec.json.encode(wanted.body)
        status, answer = _post(target, config.get("caBundle"), body, wanted.timeout_s)
    except TimeoutError:
        return WebhookAnswer(error=f'Post "{shown}": context deadline exceeded')
    except _Unresolved as nowhere:
        return WebhookAnswer(error=f'Post "{shown}": {nowhere}')
    except (OSError, http.client.HTTPException, ValueError) as failed:
        where = target.address or _host_and_port(url)
        return WebhookAnswer(error=f'Post "{shown}": {_go_words(failed, where)}')
    if status != 200:
        return WebhookAnswer(error=f"the server rejected our request for an unknown reason (status {status})")
    try:
        review: Any = msgspec.json.decode(answer)
    except msgspec.DecodeError as broken:
        return WebhookAnswer(error=f"couldn't get version/kind; json parse error: {broken}")
    if not isinstance(review, dict):
        return WebhookAnswer(error="couldn't get version/kind; json parse error: not an object")
    return WebhookAnswer(review=review)


def _service_url(service: dict[str, Any]) -> str:
    """Certificates are checked against the Service's name in the cluster, whatever answers there."""
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    return f"https://{host}:{service.get('port') or _PORT}/{(service.get('path') or '').lstrip('/')}"


def _resolved(view: View, service: dict[str, Any]) -> tuple[str, int]:
    """Where the Service's port leads: its first ready endpoint, or the host of an ExternalName.

    Raises: _Unresolved.
    """
    namespace, name = service.get("namespace", ""), service.get("name", "")
    port = service.get("port") or _PORT
    found = view.get(Key("Service", namespace, name))
    if found is None:
        raise _Unresolved(f'service "{name}" not found')
    spec = found.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName")), port
    declared = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
    if declared is None:
        raise _Unresolved(f'no service port {port} found for service "{name}"')
    for endpoints in view.objects("EndpointSlice.discovery.k8s.io", namespace):
        if labels_of(endpoints).get("kubernetes.io/service-name") != name:
            continue
        number = _port_of(endpoints, declared)
        for endpoint in endpoints.get("endpoints") or ():
            if number and (endpoint.get("conditions") or {}).get("ready") is not False:
                return str(endpoint["addresses"][0]), number
    raise _Unresolved(f'no endpoints available for service "{name}"')


def _port_of(endpoints: Obj, declared: dict[str, Any]) -> int:
    """The endpoints' port that goes by the Service port's name."""
    for port in endpoints.get("ports") or ():
        if (port.get("name") or "") == (declared.get("name") or ""):
            return int(port.get("port") or 0)
    return 0


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORT


class _Connection(http.client.HTTPSConnection):
    """To an address, as the host of the URL."""

    def __init__(
        self, url: str, address: tuple[str, int] | None, timeout_s: int, tls: ssl.SSLContext
    ) -> None:
        host, port = _host_and_port(url)
        super().__init__(host, port, timeout=timeout_s, context=tls)
        self._address = address or (host, port)
        self._tls = tls

    def connect(self) -> None:
        plain = socket.create_connection(self._address, self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


def _post(target: _Target, ca_bundle: str | None, body: bytes, timeout_s: int) -> tuple[int, bytes]:
    parts = urlsplit(target.url)
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"webhook URL must be https: {target.url}")
    context = ssl.create_default_context()
    if ca_bundle:
        context = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    connection = _Connection(target.url, target.address, timeout_s, context)
    try:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "kube-apiserver-admission",
        }
        connection.request("POST", f"{parts.path or '/'}?{parts.query}", body, headers)
        response = connection.getresponse()
        answer = response.read(_MAX_ANSWER_BYTES + 1)
        if len(answer) > _MAX_ANSWER_BYTES:
            raise ValueError("webhook answer is too large")
        return response.status, answer
    finally:
        connection.close()


def _go_words(failed: Exception, where: tuple[str, int]) -> str:
    """As Go's dialer says it."""
    if isinstance(failed, ConnectionRefusedError):
        return f"dial tcp {where[0]}:{where[1]}: connect: connection refused"
    if isinstance(failed, ssl.SSLCertVerificationError):
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if isinstance(failed, socket.gaierror):
        return f"dial tcp: lookup {where[0]}: no such host"
    return f"{type(failed).__name__}: {failed}"
