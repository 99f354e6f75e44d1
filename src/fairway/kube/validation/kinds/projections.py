"""Projected volumes: several sources in one folder, whose paths must not meet.

Source: pkg/apis/core/validation/validation.go validateProjectionSources (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.internals import Typed
from fairway.kube.problem import Faults
from fairway.kube.validation.kinds import texts
from fairway.kube.validation.kinds.selectors import label_selector_of, shown

Source = Mapping[str, Any]
Check = Callable[[Source, Path, Faults], None]
_MIN_TOKEN_S = 600
_CONFLICT = "conflicting duplicate paths"
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_MAX_CERTIFICATE_S = 7862400
_MAX_KUBE_CERTIFICATE_S = 86400


def projected(volume: Source, at: Path, out: Faults, key_to_path: Check, downward_file: Check) -> None:
    """`at`: the volume's `projected`; paths that meet are told of there."""
    taken: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        where = (*at, "sources", index)
        for member in ("secret", "configMap"):
            if source.get(member) is not None:
                _keys(source[member], (*where, member), at, taken, out, key_to_path)
        if source.get("downwardAPI") is not None:
            for item in source["downwardAPI"].get("items") or ():
                downward_file(item, (*where, "downwardAPI"), out)
                _take(item.get("path"), item.get("path"), at, taken, out)
        if source.get("serviceAccountToken") is not None:
            _token(source["serviceAccountToken"], (*where, "serviceAccountToken"), at, out)
        if source.get("clusterTrustBundle") is not None:
            _trust_bundle(source["clusterTrustBundle"], (*where, "clusterTrustBundle"), at, taken, out)
        if source.get("podCertificate") is not None:
            _certificate(source["podCertificate"], (*where, "podCertificate"), at, taken, out)
        if sum(value is not None for value in source.values()) > 1:
            out.forbidden(where, "may not specify more than 1 volume type per source")


def _take(path: str | None, shown_value: Any, at: Path, taken: set[str], out: Faults) -> None:
    if path and path in taken:
        out.invalid(at, shown_value, _CONFLICT)
    elif path:
        taken.add(path)


def _keys(source: Source, where: Path, at: Path, taken: set[str], out: Faults, key_to_path: Check) -> None:
    if not source.get("name"):
        out.required((*where, "name"))
    for index, item in enumerate(source.get("items") or ()):
        key_to_path(item, (*where, "items", index), out)
        _take(item.get("path"), source.get("name") or "", at, taken, out)


def _token(source: Source, where: Path, at: Path, out: Faults) -> None:
    seconds = source.get("expirationSeconds")
    seconds = 3600 if seconds is None else seconds
    token_seconds(seconds, (*where, "expirationSeconds"), out)
    if not source.get("path"):
        out.required((*at, "path"))
    else:
        texts.local_path(source["path"], (*at, "path"), out)


def token_seconds(seconds: int, at: Path, out: Faults) -> None:
    """How long a token may be good for."""
    if seconds < _MIN_TOKEN_S:
        out.invalid(at, seconds, "may not specify a duration less than 10 minutes")
    if seconds > 2**32:
        out.invalid(at, seconds, "may not specify a duration larger than 2^32 seconds")


def _trust_bundle(source: Source, where: Path, at: Path, taken: set[str], out: Faults) -> None:
    name, signer, selector = source.get("name"), source.get("signerName"), source.get("labelSelector")
    if name is not None and signer is not None:
        value = Typed("core.ClusterTrustBundleProjection", source)
        out.invalid(where, value, "only one of name and signerName may be used")
    elif name is not None:
        _bundle_name(name, (*where, "name"), out)
        if selector is not None:
            said = "labelSelector must be unset if name is specified"
            out.invalid((*where, "labelSelector"), shown(selector), said)
    elif signer is not None:
        if not signer:
            out.required((*where, "signerName"), "must be a valid signer name")
        signer_name(signer, (*where, "signerName"), out)
        label_selector_of(selector, (*where, "labelSelector"), out)
    else:
        out.required(where, "either name or signerName must be specified")
    path = source.get("path") or ""
    if not path:
        out.required((*where, "path"))
    texts.local_path(path, (*where, "path"), out)
    if path in taken:
        out.invalid(at, path, _CONFLICT)
    taken.add(path)


def _bundle_name(name: str, at: Path, out: Faults) -> None:
    if not name:
        out.required(at, "must be a valid object name")
    complaints = names.dns_subdomain(name.rpartition(":")[2])
    out.invalids(at, name, [f"not a valid clustertrustbundlename: {said}" for said in complaints])


def signer_name(name: str, at: Path, out: Faults) -> None:
    if not name:
        out.required(at)
        return
    domain, slash, path = name.partition("/")
    if not slash or "/" in path:
        out.invalid(
            at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        )
        return
    if len(domain) > 253:
        out.too_long(at, 253)
    _labels(domain, names.dns_label, at, out)
    if "." not in domain:
        out.invalid(at, domain, "should be a domain with at least two segments separated by dots")
    _labels(path, names.dns_subdomain, at, out)
    if len(name) > 571:
        out.too_long(at, 571)


def _labels(text: str, check: Callable[[str], names.Complaints], at: Path, out: Faults) -> None:
    for label in text.split("."):
        if complaints := check(label):
            out.invalids(at, text, [f'validating label "{label}": {said}' for said in complaints])
            return


def _certificate(source: Source, where: Path, at: Path, taken: set[str], out: Faults) -> None:
    signer = source.get("signerName") or ""
    signer_name(signer, (*where, "signerName"), out)
    for key in source.get("userAnnotations") or ():
        texts.domain_prefixed_key(key.lower(), (*where, "userAnnotations"), out)
    if source.get("keyType") not in _KEY_TYPES:
        out.unsupported((*where, "keyType"), source.get("keyType") or "", _KEY_TYPES)
    seconds = source.get("maxExpirationSeconds")
    if seconds is not None:
        domain = signer.partition("/")[0]
        is_kube = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
        longest = _MAX_KUBE_CERTIFICATE_S if is_kube else _MAX_CERTIFICATE_S
        if seconds < 3600:
            said = "if provided, maxExpirationSeconds must be >= 3600"
            out.invalid((*where, "maxExpirationSeconds"), seconds, said)
        if seconds > longest:
            said = f"if provided, maxExpirationSeconds must be <= {longest}"
            out.invalid((*where, "maxExpirationSeconds"), seconds, said)
    paths = [m for m in ("credentialBundlePath", "keyPath", "certificateChainPath") if source.get(m)]
    for member in paths:
        texts.local_path(source[member], (*where, member), out)
        _take(source[member], source[member], at, taken, out)
    if not paths:
        said = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        out.required(where, said)
