"""What a certificate says that the cluster's authority signs: usages, names, and how long it lasts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fairway.apiserver.auth import signing
from fairway.apiserver.auth.certificates import Pki, ensure

KEY = ec.generate_private_key(ec.SECP256R1())
NAMES = x509.SubjectAlternativeName([x509.DNSName("n.example"), x509.RFC822Name("n@example")])


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    folder: Path = tmp_path_factory.mktemp("authority")
    return ensure(folder / "pki", "127.0.0.1")


def request(*extensions: Any) -> x509.CertificateSigningRequest:
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dev"), x509.NameAttribute(NameOID.COMMON_NAME, "bob")]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(KEY, SHA256())


def signed(
    pki: Pki, usages: tuple[str, ...], seconds: int | None = None, *extensions: Any
) -> x509.Certificate:
    return x509.load_pem_x509_certificate(signing.signed(pki, request(*extensions), usages, seconds))


def said(certificate: x509.Certificate) -> dict[str, tuple[bool, Any]]:
    return {e.value.__class__.__name__: (e.critical, e.value) for e in certificate.extensions}


FLAGS = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
)


def test_it_is_of_whom_was_asked_by_the_authority(pki: Pki) -> None:
    found, authority = signed(pki, ("client auth",)), x509.load_pem_x509_certificate(pki.ca.read_bytes())
    assert found.subject == request().subject and found.issuer == authority.subject
    assert found.public_key() == KEY.public_key()
    assert found.signature_hash_algorithm is not None and found.signature_hash_algorithm.name == "sha256"
    found.verify_directly_issued_by(authority)
    assert found.serial_number != signed(pki, ("client auth",)).serial_number
    extensions = said(found)
    assert sorted(extensions) == ["AuthorityKeyIdentifier", "BasicConstraints", "ExtendedKeyUsage"]
    critical, basic = extensions["BasicConstraints"]
    assert (critical, basic.ca, basic.path_length) == (True, False, None)
    critical, above = extensions["AuthorityKeyIdentifier"]
    assert not critical
    assert above.key_identifier == x509.SubjectKeyIdentifier.from_public_key(authority.public_key()).digest  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("usages", "flags", "extended"),
    [
        (("signing",), ["digital_signature"], []),
        (("digital signature", "key encipherment"), ["digital_signature", "key_encipherment"], []),
        (("content commitment", "data encipherment"), ["content_commitment", "data_encipherment"], []),
        (("cert sign", "crl sign", "key agreement"), ["key_agreement", "key_cert_sign", "crl_sign"], []),
        (("client auth", "server auth"), None, ["1.3.6.1.5.5.7.3.2", "1.3.6.1.5.5.7.3.1"]),
        (("s/mime", "email protection"), None, ["1.3.6.1.5.5.7.3.4"]),
        (("any", "signing"), ["digital_signature"], ["2.5.29.37.0"]),
        (("code signing", "timestamping", "ocsp signing"), None, [f"1.3.6.1.5.5.7.3.{n}" for n in (3, 8, 9)]),
        (
            ("ipsec end system", "ipsec tunnel", "ipsec user"),
            None,
            [f"1.3.6.1.5.5.7.3.{n}" for n in (5, 6, 7)],
        ),
        (("microsoft sgc", "netscape sgc"), None, ["1.3.6.1.4.1.311.10.3.3", "2.16.840.1.113730.4.1"]),
        ((), None, []),
        (("magic",), None, []),
    ],
)
def test_what_it_may_be_used_for(
    pki: Pki, usages: tuple[str, ...], flags: list[str] | None, extended: list[str]
) -> None:
    found = said(signed(pki, usages))
    assert ("KeyUsage" in found) is (flags is not None)
    if flags is not None:
        critical, usage = found["KeyUsage"]
        assert critical and [flag for flag in FLAGS if getattr(usage, flag)] == flags
    critical, uses = found.get("ExtendedKeyUsage", (False, []))
    assert not critical and [use.dotted_string for use in uses] == extended


@pytest.mark.parametrize(
    ("usages", "only"),
    [
        (("key agreement", "encipher only"), (True, False)),
        (("key agreement", "decipher only"), (False, True)),
        (("key agreement",), (False, False)),
    ],
)
def test_an_agreed_key_may_be_for_one_direction(
    pki: Pki, usages: tuple[str, ...], only: tuple[bool, bool]
) -> None:
    _, usage = said(signed(pki, usages))["KeyUsage"]
    assert (usage.encipher_only, usage.decipher_only) == only


def test_a_direction_without_an_agreed_key_says_nothing(pki: Pki) -> None:
    _, usage = said(signed(pki, ("encipher only", "signing")))["KeyUsage"]
    assert [flag for flag in FLAGS if getattr(usage, flag)] == ["digital_signature"]


def test_other_names_are_those_that_were_asked_for(pki: Pki) -> None:
    critical, names = said(signed(pki, ("client auth",), None, NAMES))["SubjectAlternativeName"]
    assert (critical, names) == (False, NAMES)


@pytest.mark.parametrize(
    ("seconds", "lasts_s", "counts_from_now"),
    [
        (600, 600, True),
        (599, 600, True),
        (1, 600, True),
        (601, 601, True),
        (8 * 3600 - 1, 8 * 3600 - 1, True),
        (8 * 3600, 8 * 3600, False),
        (86_400, 86_400, False),
        (365 * 86_400, 365 * 86_400, False),
        (365 * 86_400 + 1, 365 * 86_400, False),
        (None, 365 * 86_400, False),
    ],
)
def test_how_long_it_lasts(pki: Pki, seconds: int | None, lasts_s: int, counts_from_now: bool) -> None:
    """Ten minutes to a year. It begins five minutes ago; a short one lasts what was asked for from now on."""
    before = datetime.now(UTC)
    found = signed(pki, ("client auth",), seconds)
    after = datetime.now(UTC)
    five = timedelta(minutes=5)
    assert before.replace(microsecond=0) - five <= found.not_valid_before_utc <= after - five
    whole = found.not_valid_after_utc - found.not_valid_before_utc
    assert whole == timedelta(seconds=lasts_s) + (five if counts_from_now else timedelta())


def test_a_text_that_is_no_request() -> None:
    pem = request().public_bytes(Encoding.PEM)
    assert signing.common_name(signing.parsed(pem)) == "bob" and signing.organizations(
        signing.parsed(pem)
    ) == ["dev"]
    nobody = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(KEY, SHA256())
    assert signing.common_name(nobody) == "" and signing.organizations(nobody) == []
    for text, why in (
        (b"hello", "PEM block type must be CERTIFICATE REQUEST"),
        (pem.replace(b"CERTIFICATE REQUEST", b"NEW REQUEST"), "PEM block type must be CERTIFICATE REQUEST"),
        (pem.replace(pem[60:64], b"AAAA"), "asn1: structure error: malformed certificate request"),
    ):
        with pytest.raises(signing.BadRequest) as refused:
            signing.parsed(text)
        assert str(refused.value) == why


def test_a_kubelets_request_may_be_granted_by_the_approver() -> None:
    kubelet = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, "system:node:n"),
        ]
    )
    own = x509.CertificateSigningRequestBuilder().subject_name(kubelet).sign(KEY, SHA256())
    usages = ("client auth", "digital signature")
    assert signing.is_node_client(own, signing.KUBELET_CLIENT, usages)
    assert not signing.is_node_client(own, signing.CLIENT, usages)
    assert not signing.is_node_client(own, signing.KUBELET_CLIENT, ("client auth",))
    assert not signing.is_node_client(request(), signing.KUBELET_CLIENT, usages)
