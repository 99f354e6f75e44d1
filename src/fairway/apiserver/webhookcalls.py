"""Calling an admission webhook for real: HTTPS to its URL, or to its service where that is reachable.

Runs in a worker thread: the server goes on answering meanwhile, the webhook's own requests to it included.
Services of simulated pods have no address to connect to; those calls fail as on a cluster without endpoints.

Source: apiserver pkg/admission/plugin/webhook, pkg/util/webhook/client.go (v1.36).
"""

from __future__ import annotations

import base64
import http.client
import ssl
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairway.admission.request import CallWebhook, WebhookAnswer
from fairway.cluster.actions import View
from fairway.kube.objects import Key

_MAX_ANSWER_BYTES = 3 * 1024 * 1024


def call(view: View, wanted: CallWebhook) -> WebhookAnswer:
    """The webhook's answer, or why there is none. Never raises."""
    config = wanted.client_config
    url = config.get("url") or _service_url(view, config.get("service") or {})
    if url.startswith("!"):
        return WebhookAnswer(error=url[1:])
    shown = f"{url}{'&' if '?' in url else '?'}timeout={wanted.timeout_s}s"
    try:
        status, body = _post(
            shown, config.get("caBundle"), msgspec.json.encode(wanted.body), wanted.timeout_s
        )
    except TimeoutError:
        return WebhookAnswer(error=f'Post "{shown}": context deadline exceeded')
    except (OSError, http.client.HTTPException, ValueError) as failed:
        return WebhookAnswer(error=f'Post "{shown}": {_go_words(failed, url)}')
    if status != 200:
        return WebhookAnswer(error=f"the server rejected our request for an unknown reason (status {status})")
    try:
        review: Any = msgspec.json.decode(body)
    except msgspec.DecodeError as broken:
        return WebhookAnswer(error=f"couldn't get version/kind; json parse error: {broken}")
    if not isinstance(review, dict):
        return WebhookAnswer(error="couldn't get version/kind; json parse error: not an object")
    return WebhookAnswer(review=review)


def _service_url(view: View, service: dict[str, Any]) -> str:
    """The URL of a Service's first ready address; `!` and the reason where there is none."""
    namespace, name = service.get("namespace", ""), service.get("name", "")
    port = service.get("port") or 443
    path = (service.get("path") or "").lstrip("/")
    found = view.get(Key("Service", namespace, name))
    if found is None:
        return f'!service "{name}" not found'
    spec = found.get("spec") or {}
    if spec.get("type") == "ExternalName" and spec.get("externalName"):
        return f"https://{spec['externalName']}:{port}/{path}"
    endpoints = view.get(Key("Endpoints", namespace, name)) or {}
    for subset in endpoints.get("subsets") or ():
        for address in subset.get("addresses") or ():
            target = next((p.get("port") for p in subset.get("ports") or ()), port)
            return f"https://{address['ip']}:{target}/{path}"
    return f'!no endpoints available for service "{name}"'


def _post(url: str, ca_bundle: str | None, body: bytes, timeout_s: int) -> tuple[int, bytes]:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"webhook URL must be https: {url}")
    context = ssl.create_default_context()
    if ca_bundle:
        context = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
    try:
        path = f"{parts.path or '/'}?{parts.query}"
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "kube-apiserver-admission",
        }
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = response.read(_MAX_ANSWER_BYTES + 1)
        if len(answer) > _MAX_ANSWER_BYTES:
            raise ValueError("webhook answer is too large")
        return response.status, answer
    finally:
        connection.close()


def _go_words(failed: Exception, url: str) -> str:
    """As Go's dialer says it."""
    parts = urlsplit(url)
    where = f"dial tcp {parts.hostname}:{parts.port or 443}: connect"
    if isinstance(failed, ConnectionRefusedError):
        return f"{where}: connection refused"
    if isinstance(failed, ssl.SSLCertVerificationError):
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    return f"{type(failed).__name__}: {failed}"
