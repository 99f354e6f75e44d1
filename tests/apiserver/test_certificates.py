"""The certificates a served cluster makes for itself: all that each says, and when they are made anew."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fairway.apiserver.auth import certificates
from fairway.apiserver.auth.certificates import ensure

NAMES = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
]


def said(path: Path) -> dict[str, Any]:
    found = x509.load_pem_x509_certificate(path.read_bytes())
    extensions = {e.value.__class__.__name__: (e.critical, e.value) for e in found.extensions}
    told: dict[str, Any] = {
        "subject": found.subject.rfc4514_string(),
        "issuer": found.issuer.rfc4514_string(),
    }
    critical, basic = extensions.pop("BasicConstraints")
    told["basic"] = (critical, basic.ca, basic.path_length)
    critical, usage = extensions.pop("KeyUsage")
    flags = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
    )
    told["usage"] = [flag for flag in (*flags, "key_cert_sign", "crl_sign") if getattr(usage, flag)]
    assert critical
    _, own = extensions.pop("SubjectKeyIdentifier")
    _, above = extensions.pop("AuthorityKeyIdentifier")
    assert own == x509.SubjectKeyIdentifier.from_public_key(found.public_key())
    told["signed by itself"] = own.digest == above.key_identifier
    if "ExtendedKeyUsage" in extensions:
        critical, uses = extensions.pop("ExtendedKeyUsage")
        told["uses"] = (critical, [use._name for use in uses])
    if "SubjectAlternativeName" in extensions:
        critical, names = extensions.pop("SubjectAlternativeName")
        told["names"] = (critical, [str(name.value) for name in names])
        assert all(isinstance(n, x509.DNSName) is not _is_address(str(n.value)) for n in names)
    assert extensions == {}
    told["lasts"] = found.not_valid_after_utc - found.not_valid_before_utc
    return told


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def test_what_each_certificate_says(tmp_path: Path) -> None:
    pki = ensure(tmp_path / "pki", "127.0.0.1")
    lasts = timedelta(days=3650) + certificates._BACKDATED
    authority = {"issuer": "CN=kubernetes", "signed by itself": False, "lasts": lasts}
    assert said(pki.ca) == {
        **authority,
        "subject": "CN=kubernetes",
        "signed by itself": True,
        "basic": (True, True, None),
        "usage": ["digital_signature", "key_cert_sign", "crl_sign"],
    }
    assert said(pki.server) == {
        **authority,
        "subject": "CN=kube-apiserver",
        "basic": (True, False, None),
        "usage": ["digital_signature"],
        "uses": (False, ["serverAuth"]),
        "names": (False, [*NAMES, "10.96.0.1", "127.0.0.1", "::1"]),
    }
    assert said(pki.admin) == {
        **authority,
        "subject": f"CN={certificates.ADMIN},O={certificates.ADMIN_GROUP}",
        "basic": (True, False, None),
        "usage": ["digital_signature"],
        "uses": (False, ["clientAuth"]),
    }
    ca = x509.load_pem_x509_certificate(pki.ca.read_bytes())
    for path, key in ((pki.server, pki.server_key), (pki.admin, pki.admin_key), (pki.ca, pki.ca_key)):
        found = x509.load_pem_x509_certificate(path.read_bytes())
        found.verify_directly_issued_by(ca)
        assert load_pem_private_key(key.read_bytes(), None).public_key() == found.public_key()
    assert oct(pki.folder.stat().st_mode & 0o777) == "0o700"
    keys = (pki.ca_key, pki.server_key, pki.admin_key, pki.account_key)
    assert {oct(key.stat().st_mode & 0o777) for key in keys} == {"0o600"}


@pytest.mark.parametrize(
    ("listen", "names"),
    [
        ("localhost", ["10.96.0.1", "127.0.0.1", "::1"]),
        ("::1", ["10.96.0.1", "127.0.0.1", "::1"]),
        ("10.0.0.7", ["10.0.0.7", "10.96.0.1", "127.0.0.1", "::1"]),
        ("gpu.example.com", ["10.96.0.1", "127.0.0.1", "::1", "gpu.example.com"]),
    ],
)
def test_the_server_is_known_by_where_it_listens(tmp_path: Path, listen: str, names: list[str]) -> None:
    assert said(ensure(tmp_path, listen).server)["names"] == (False, [*NAMES, *names])


def test_only_the_servers_certificate_is_made_anew_and_only_elsewhere(tmp_path: Path) -> None:
    pki = ensure(tmp_path, "127.0.0.1")
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    ensure(tmp_path, "localhost")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept
    ensure(tmp_path, "10.0.0.7")
    changed = {path for path in tmp_path.iterdir() if path.read_bytes() != kept[path]}
    assert changed == {pki.server, pki.server_key, tmp_path / "server.names"}
    pki.admin.unlink()
    ensure(tmp_path, "10.0.0.7")
    assert pki.admin.exists() and pki.ca.read_bytes() == kept[pki.ca]
    assert pki.account_key.read_bytes() == kept[pki.account_key]
