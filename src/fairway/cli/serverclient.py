"""Talking to the server of a data folder, as its administrator."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairway.apiserver.folders import Running, default_folder, running
from fairway.errors import UserError, WorldError

# Advancing a large cluster by days takes its time; everything else answers at once.
_LONG_S = 24 * 3600.0
_SHORT_S = 30.0


def folder(data: Path | None) -> Path:
    return (data or default_folder()).expanduser().absolute()


def found(data: Path) -> Running:
    """Raises: UserError where none runs."""
    server = running(data)
    if server is None:
        raise UserError(f"no server runs on {data}; start one with fairway up")
    return server


def ask(
    data: Path,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    is_long: bool = False,
    content_type: str = "application/json",
) -> Any:
    """The decoded answer.

    Raises: UserError (the server refused), WorldError (it cannot be reached).
    """
    server = found(data)
    parts = urlsplit(server.url)
    pki = data / "pki"
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port, timeout=_LONG_S if is_long else _SHORT_S, context=context
    )
    try:
        sent = None if body is None else msgspec.json.encode(body)
        connection.request(method, path, sent, {"Content-Type": content_type})
        response = connection.getresponse()
        answer: Any = msgspec.json.decode(response.read())
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as failed:
        raise WorldError(f"{server.url}: {failed}") from failed
    finally:
        connection.close()
    if response.status >= 400:
        raise UserError(str(answer.get("message", answer)))
    return answer
