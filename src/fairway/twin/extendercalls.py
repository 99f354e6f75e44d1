"""Calls to extenders: a POST with JSON, as kube-scheduler sends it. Time in the twin stands still meanwhile.

An extender that is slow costs real time, up to its timeout for each call.
"""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

from fairway.scheduling.extenders import Extender, ExtenderError

_MOST_BYTES: Final = 64 << 20


def call(extender: Extender, verb: str, args: Any) -> Any:
    """Its answer. Raises: ExtenderError, in the words of Go's client."""
    address = f"{extender.url.rstrip('/')}/{verb}"
    try:
        parts = urlsplit(address)
        connection = _connection(extender, parts.scheme, parts.hostname or "", parts.port)
    except (OSError, ValueError) as failed:
        raise ExtenderError(f'Post "{address}": {failed}') from failed
    try:
        connection.request(
            "POST", parts.path or "/", json.dumps(args).encode(), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        body = response.read(_MOST_BYTES + 1)
    except TimeoutError as failed:
        what = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        raise ExtenderError(f'Post "{address}": {what}') from failed
    except (OSError, http.client.HTTPException, ValueError) as failed:
        raise ExtenderError(f'Post "{address}": {_words(failed, parts.hostname, parts.port)}') from failed
    finally:
        connection.close()
    if response.status != 200:
        raise ExtenderError(f"failed {verb} with extender at URL {address}, code {response.status}")
    if len(body) > _MOST_BYTES:
        raise ExtenderError(f'Post "{address}": an answer of more than {_MOST_BYTES >> 20} MiB')
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as failed:
        raise ExtenderError("invalid character looking for beginning of value") from failed


def _connection(extender: Extender, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=extender.timeout_s)
    context = ssl.create_default_context(cafile=extender.ca_file or None)
    if extender.is_unverified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=extender.timeout_s, context=context)


def _words(failed: Exception, host: str | None, port: int | None) -> str:
    if isinstance(failed, ConnectionRefusedError):
        return f"dial tcp {host}:{port or 80}: connect: connection refused"
    return str(failed) or type(failed).__name__
