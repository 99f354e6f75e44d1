"""What do the built-in signers make of a certificate request: a certificate, or a reason why not?

The text of a request is PKCS#10 in PEM. Which usages and subjects each signer takes is Kubernetes'; the certificate is
signed by the cluster's own authority, so that a client certificate is one this server lets in.

Source: pkg/controller/certificates/{signer,authority,approver}, pkg/apis/certificates/helpers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fairway.apiserver.auth.certificates import Pki

if TYPE_CHECKING:
    from cryptography import x509

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY = "kubernetes.io/legacy-unknown"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY)

_NODES = "system:nodes"
_NODE_PREFIX = "system:node:"
_CLIENT_USAGES = ("client auth", "digital signature", "key encipherment")
_SERVING_USAGES = ("digital signature", "key encipherment", "server auth")
# Source: kube-controller-manager --cluster-signing-duration; signer.go sign and duration.
_LONGEST = timedelta(days=365)
_SHORTEST = timedelta(minutes=10)
_BACKDATED = timedelta(minutes=5)
_SHORT = timedelta(hours=8)

# Usage → the flag of x509's KeyUsage, or the dotted number of an extended usage. Source: crypto/x509, csr.go.
_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED_USAGES = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}
USAGES = tuple(sorted((*_KEY_USAGES, *_EXTENDED_USAGES)))


class BadRequest(ValueError):
    """The text is no certificate request. Its message is Go's."""


def parsed(text: bytes) -> x509.CertificateSigningRequest:
    """Raises: BadRequest."""
    from cryptography import x509

    if b"-----BEGIN CERTIFICATE REQUEST-----" not in text:
        raise BadRequest("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(text)
    except ValueError as broken:
        raise BadRequest("asn1: structure error: malformed certificate request") from broken
    if not request.is_signature_valid:
        raise BadRequest("x509: ECDSA verification failure")
    return request


def organizations(request: x509.CertificateSigningRequest) -> list[str]:
    from cryptography.x509.oid import NameOID

    return [str(a.value) for a in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def common_name(request: x509.CertificateSigningRequest) -> str:
    from cryptography.x509.oid import NameOID

    found = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def complaint(signer: str, request: x509.CertificateSigningRequest, usages: Iterable[str]) -> str | None:
    """Why this signer fails the request; None where it signs."""
    wanted = set(usages)
    if signer == CLIENT:
        return _client_complaint(usages)
    if signer == KUBELET_CLIENT:
        return _kubelet_client_complaint(request, wanted)
    if signer == KUBELET_SERVING:
        return _kubelet_serving_complaint(request, wanted)
    return None


def _client_complaint(usages: Iterable[str]) -> str | None:
    for usage in usages:
        if usage not in _CLIENT_USAGES:
            return f"invalid usage for client certificate: {usage}"
    return None if "client auth" in usages else "missing required usage for client certificate: client auth"


def _kubelet_client_complaint(request: x509.CertificateSigningRequest, usages: set[str]) -> str | None:
    names = _alternative_names(request)
    if organizations(request) != [_NODES]:
        return "subject organization is not system:nodes"
    for kind, word in (("dns", "DNS"), ("email", "Email"), ("ip", "IP"), ("uri", "URI")):
        if names[kind]:
            return f"{word} subjectAltNames are not allowed"
    if not common_name(request).startswith(_NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return _usage_complaint(usages, _CLIENT_USAGES)


def _kubelet_serving_complaint(request: x509.CertificateSigningRequest, usages: set[str]) -> str | None:
    names = _alternative_names(request)
    if organizations(request) != [_NODES]:
        return "subject organization is not system:nodes"
    if not names["dns"] and not names["ip"]:
        return "DNS or IP subjectAltName is required"
    for kind, word in (("email", "Email"), ("uri", "URI")):
        if names[kind]:
            return f"{word} subjectAltNames are not allowed"
    wrong = _usage_complaint(usages, _SERVING_USAGES)
    if wrong is None and not common_name(request).startswith(_NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return wrong


def _usage_complaint(usages: set[str], wanted: tuple[str, ...]) -> str | None:
    without_rsa = {u for u in wanted if u != "key encipherment"}
    return None if usages in (set(wanted), without_rsa) else f"usages did not match [{' '.join(wanted)}]"


def _alternative_names(request: x509.CertificateSigningRequest) -> dict[str, list[Any]]:
    from cryptography import x509

    try:
        held = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return {"dns": [], "email": [], "ip": [], "uri": []}
    return {
        "dns": list(held.get_values_for_type(x509.DNSName)),
        "email": list(held.get_values_for_type(x509.RFC822Name)),
        "ip": list(held.get_values_for_type(x509.IPAddress)),
        "uri": list(held.get_values_for_type(x509.UniformResourceIdentifier)),
    }


def is_node_client(request: x509.CertificateSigningRequest, signer: str, usages: Iterable[str]) -> bool:
    """Whether a kubelet asks for what the approver may grant by itself."""
    return signer == KUBELET_CLIENT and complaint(signer, request, usages) is None


def signed(
    pki: Pki, request: x509.CertificateSigningRequest, usages: Iterable[str], seconds: int | None
) -> bytes:
    """The certificate in PEM, by the cluster's authority. It lasts as long as asked for, ten minutes to a year."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

    authority = x509.load_pem_x509_certificate(pki.ca.read_bytes())
    key: Any = load_pem_private_key(pki.ca_key.read_bytes(), None)
    now = datetime.now(UTC)
    lasts = _LONGEST if seconds is None else max(min(timedelta(seconds=seconds), _LONGEST), _SHORTEST)
    before = now - _BACKDATED
    # A long one counts from before now, a short one lasts as long as was asked for from now on.
    until = (now if lasts < _SHORT else before) + lasts
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(authority.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(before)
        .not_valid_after(min(until, authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    for extension in (_key_usage(usages), _extended_usage(usages), _same_names(request)):
        if extension is not None:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.KeyUsage))
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def _key_usage(usages: Iterable[str]) -> x509.KeyUsage | None:
    from cryptography import x509

    flags = dict.fromkeys(_KEY_USAGES.values(), False)
    flags.update({_KEY_USAGES[u]: True for u in usages if u in _KEY_USAGES})
    if not any(flags.values()):
        return None
    if not flags["key_agreement"]:
        flags["encipher_only"] = flags["decipher_only"] = False
    return x509.KeyUsage(**flags)


def _extended_usage(usages: Iterable[str]) -> x509.ExtendedKeyUsage | None:
    from cryptography import x509

    found = dict.fromkeys(_EXTENDED_USAGES[u] for u in usages if u in _EXTENDED_USAGES)
    return x509.ExtendedKeyUsage([x509.ObjectIdentifier(o) for o in found]) if found else None


def _same_names(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    from cryptography import x509

    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
