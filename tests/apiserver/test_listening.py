"""Where a server listens: loopback unless asked, and beyond it only with TLS and authentication."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
from pathlib import Path

import pytest
from apiserver_serving import Served, served
from cryptography import x509

from fairway.apiserver.serving import Server, Settings
from fairway.errors import WorldError

# Beyond the address that every certificate names, and still on this machine.
OTHER = "127.0.0.2"


def bound_to(home: Served) -> str:
    return str(home.server._listener.sockets[0].getsockname()[0])


def test_a_server_listens_on_loopback_unless_asked(tmp_path: Path) -> None:
    with served(tmp_path) as home:
        assert bound_to(home) == "127.0.0.1"


def test_a_server_that_listens_everywhere_lets_nobody_in_without_saying_who_they_are(tmp_path: Path) -> None:
    with served(tmp_path, listen="0.0.0.0") as home:
        assert bound_to(home) == "0.0.0.0"
        assert home.server.url == f"https://127.0.0.1:{home.server.port}"
        context = ssl.create_default_context(cafile=str(home.pki / "ca.crt"))
        stranger = http.client.HTTPSConnection("127.0.0.1", home.server.port, context=context, timeout=20)
        stranger.request("GET", "/api/v1/namespaces")
        response = stranger.getresponse()
        assert (response.status, json.loads(response.read())["reason"]) == (401, "Unauthorized")
        stranger.close()
        context.load_cert_chain(home.pki / "admin.crt", home.pki / "admin.key")
        known = http.client.HTTPSConnection("127.0.0.1", home.server.port, context=context, timeout=20)
        known.request("GET", "/api/v1/namespaces/default")
        assert known.getresponse().status == 200
        known.close()


def test_nothing_is_said_in_plain_text(tmp_path: Path) -> None:
    with served(tmp_path, listen="0.0.0.0") as home:
        connection = http.client.HTTPConnection("127.0.0.1", home.server.port, timeout=20)
        with pytest.raises((http.client.HTTPException, OSError)):
            connection.request("GET", "/version")
            connection.getresponse()
        connection.close()


def test_a_strangers_certificate_is_refused_in_the_handshake(tmp_path: Path) -> None:
    """Signed by another cluster's authority: the handshake ends, or the request that follows it."""
    theirs = tmp_path / "theirs"
    with served(theirs):
        pass
    with served(tmp_path / "ours", listen="0.0.0.0") as home:
        context = ssl.create_default_context(cafile=str(home.pki / "ca.crt"))
        context.load_cert_chain(theirs / "pki" / "admin.crt", theirs / "pki" / "admin.key")
        connection = http.client.HTTPSConnection("127.0.0.1", home.server.port, context=context, timeout=20)
        with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
            connection.request("GET", "/api/v1/namespaces")
            connection.getresponse()
        connection.close()


def test_the_certificate_names_the_address_and_is_made_anew_when_that_changes(tmp_path: Path) -> None:
    named = []
    for listen in ("127.0.0.1", OTHER):
        with served(tmp_path, listen=listen) as home:
            certificate = x509.load_pem_x509_certificate((home.pki / "server.crt").read_bytes())
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            named.append({str(ip) for ip in names.get_values_for_type(x509.IPAddress)})
            assert home.server.url == f"https://{listen}:{home.server.port}"
    assert OTHER not in named[0]
    assert OTHER in named[1]


@pytest.mark.parametrize("listen", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_this_machines_is_said(tmp_path: Path, listen: str) -> None:
    async def start() -> None:
        server = Server(Settings(data=tmp_path, listen=listen))
        await server.start()

    with pytest.raises(WorldError, match=f"cannot listen on {listen}"):
        asyncio.run(start())


def test_no_suite_with_cbc_is_spoken(api: Served) -> None:
    context = ssl.create_default_context(cafile=str(api.pki / "ca.crt"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA384:@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", api.server.port)) as plain,
        pytest.raises(ssl.SSLError),
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        pass
    context.set_ciphers("ECDHE+AESGCM")
    with (
        socket.create_connection(("127.0.0.1", api.server.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        assert secure.cipher()[0].endswith("SHA256") or secure.cipher()[0].endswith("SHA384")  # type: ignore[index]
