"""The authority of one cluster, its server's certificate and its administrator's, made once and kept in files.

All keys are P-256. Private keys are readable by their owner alone.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography import x509

ADMIN = "kubernetes-admin"
ADMIN_GROUP = "system:masters"
_YEARS = 10
# A certificate is made valid from a little before now, for clients whose clock is behind.
_BACKDATED = timedelta(hours=1)
_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, slots=True)
class Pki:
    """Where everything lies."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def server(self) -> Path:
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"

    @property
    def admin(self) -> Path:
        return self.folder / "admin.crt"

    @property
    def admin_key(self) -> Path:
        return self.folder / "admin.key"

    @property
    def account_key(self) -> Path:
        """Signs service accounts' tokens."""
        return self.folder / "sa.key"


def ensure(folder: Path, listen: str) -> Pki:
    """The cluster's certificates, made where they are missing; the server's anew when it listens elsewhere."""
    pki = Pki(folder)
    names = ",".join([*_SERVER_NAMES, *_addresses(listen)])
    note = folder / "server.names"
    if pki.admin.exists() and note.exists() and note.read_text(encoding="utf-8") == names:
        return pki
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = _Authority.open(pki)
    if not pki.account_key.exists():
        _write_key(pki.account_key, _new_key())
    authority.issue(pki.server, pki.server_key, "kube-apiserver", "", server_names=_addresses(listen))
    if not pki.admin.exists():
        authority.issue(pki.admin, pki.admin_key, ADMIN, ADMIN_GROUP)
    note.write_text(names, encoding="utf-8")
    return pki


def _addresses(listen: str) -> list[str]:
    """IP addresses clients may reach the server by."""
    found = ["127.0.0.1", "::1", "10.96.0.1"]
    if listen in ("0.0.0.0", "::"):
        with contextlib.suppress(OSError):  # a host whose own name nobody knows
            found += [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)]
    elif listen not in ("localhost", "127.0.0.1", "::1"):
        found.append(listen)
    return sorted(set(found))


class _Authority:
    def __init__(self, certificate: x509.Certificate, key: Any) -> None:
        self.certificate = certificate
        self.key = key

    @classmethod
    def open(cls, pki: Pki) -> _Authority:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if pki.ca.exists() and pki.ca_key.exists():
            key = load_pem_private_key(pki.ca_key.read_bytes(), None)
            return cls(x509.load_pem_x509_certificate(pki.ca.read_bytes()), key)
        key = _new_key()
        certificate = _signed("kubernetes", "", key.public_key(), None, key, [])
        _write_key(pki.ca_key, key)
        pki.ca.write_bytes(_pem(certificate))
        return cls(certificate, key)

    def issue(
        self, path: Path, key_path: Path, name: str, group: str, server_names: list[str] | None = None
    ) -> None:
        key = _new_key()
        issuer = self.certificate.subject
        certificate = _signed(name, group, key.public_key(), issuer, self.key, server_names)
        _write_key(key_path, key)
        path.write_bytes(_pem(certificate))


def _signed(
    name: str, group: str, public: Any, issuer: Any, key: Any, server_names: list[str] | None
) -> x509.Certificate:
    """A certificate; without an issuer, its own (the authority's)."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    is_ca = issuer is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if is_ca else issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(_key_usage(is_ca), critical=True)
    )
    if not is_ca:
        use = ExtendedKeyUsageOID.SERVER_AUTH if server_names is not None else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    if server_names and not is_ca:
        names: list[x509.GeneralName] = [x509.DNSName(n) for n in _SERVER_NAMES]
        names += [_general_name(n) for n in server_names]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, SHA256())


def _general_name(text: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _key_usage(is_ca: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _write_key(path: Path, key: Any) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
