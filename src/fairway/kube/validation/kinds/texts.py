"""Fields that are names, labels, addresses, paths or urls: what is wrong with this one?

Each function adds to the faults found. Source: apimachinery pkg/util/validation, pkg/apis/meta/v1/validation;
apiserver pkg/util/webhook/validation.go (v1.36).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from fairway.kube import names
from fairway.kube.fieldpath import Path
from fairway.kube.names import Complaints
from fairway.kube.problem import Faults

MAX_INT32 = 2**31 - 1
_ANNOTATION_BYTES = 256 * 1024
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_HTTP_PATH_TEXT = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"
_LEADING_ZERO = re.compile(r"(?:^|\.)0[0-9]")
_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_URL_FORM = "; desired format: https://host[/path]"
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
_STATUSES = ("False", "True", "Unknown")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def dns_label(value: str, at: Path, out: Faults) -> None:
    out.invalids(at, value, names.dns_label(value))


def dns_subdomain(value: str, at: Path, out: Faults) -> None:
    out.invalids(at, value, names.dns_subdomain(value))


def qualified_name(value: str, at: Path, out: Faults) -> None:
    out.invalids(at, value, names.label_key(value))


def label_map(found: Mapping[str, str | None] | None, at: Path, out: Faults) -> None:
    for key, value in (found or {}).items():
        out.invalids(at, key, names.label_key(key))
        out.invalids(at, value or "", names.label_value(value or ""))


def annotation_map(found: Mapping[str, str | None] | None, at: Path, out: Faults) -> None:
    total = 0
    for key, value in (found or {}).items():
        out.invalids(at, key, names.label_key(key.lower()))
        total += len(key.encode()) + len((value or "").encode())
    if total > _ANNOTATION_BYTES:
        out.too_long(at, _ANNOTATION_BYTES)


def one_of(
    value: str | None, choices: Sequence[str], at: Path, out: Faults, *, listed: Iterable[str] = ()
) -> None:
    """A choice that must be made. `listed`: the order in which the message has the choices, where it is another."""
    if not value:
        out.required(at)
    elif value not in choices:
        out.unsupported(at, value, listed or choices)


def user_or_group_id(value: int | None, at: Path, out: Faults) -> None:
    if value is not None and not 0 <= value <= MAX_INT32:
        out.invalid(at, value, f"must be between 0 and {MAX_INT32}, inclusive")


def port_reference(value: Any, at: Path, out: Faults) -> None:
    """A port by number or name."""
    complaints = names.port_name(value) if isinstance(value, str) else names.port_number(value or 0)
    out.invalids(at, value or 0 if not isinstance(value, str) else value, complaints)


def path_without_backsteps(path: str, at: Path, out: Faults) -> None:
    if ".." in path.split("/"):
        out.invalid(at, path, "must not contain '..'")


def descending_path(path: str, at: Path, out: Faults) -> None:
    if path.startswith("/"):
        out.invalid(at, path, "must be a relative path")
    path_without_backsteps(path, at, out)


def local_path(path: str, at: Path, out: Faults) -> None:
    descending_path(path, at, out)
    if path.startswith("..") and not path.startswith("../"):
        out.invalid(at, path, "must not start with '..'")


def path_segment(value: str, at: Path, out: Faults) -> None:
    out.invalids(at, value, names.path_segment(value))


def fully_qualified_name(value: str, at: Path, out: Faults) -> None:
    complaints: Complaints = names.dns_subdomain(value)
    if not value:
        out.required(at)
    elif complaints:
        out.invalid(at, value, ",".join(complaints))
    elif len(value.split(".")) < 3:
        out.invalid(at, value, "should be a domain with at least three segments separated by dots")


def fully_qualified_domain(value: str, at: Path, out: Faults) -> None:
    if not value:
        out.required(at)
        return
    name = value.removesuffix(".")
    if complaints := names.dns_subdomain(name):
        out.invalid(at, name, ",".join(complaints))
    elif "." not in name:
        out.invalid(at, name, "should be a domain with at least two segments separated by dots")
    else:
        for label in name.split("."):
            if complaints := names.dns_label(label):
                out.invalid(at, label, ",".join(complaints))
                return


def domain_prefixed_path(value: str, at: Path, out: Faults) -> None:
    host, slash, path = value.partition("/")
    if not value:
        out.required(at)
    elif not slash or not host or not path:
        out.invalid(at, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        dns_subdomain(host, at, out)
        if not _HTTP_PATH.fullmatch(path):
            out.invalid(at, path, _HTTP_PATH_TEXT)


def domain_prefixed_key(value: str, at: Path, out: Faults) -> None:
    if not value:
        out.required(at)
    elif complaints := names.label_key(value):
        out.invalids(at, value, complaints)
    elif "/" not in value:
        out.invalid(at, value, 'must be a domain-prefixed key (such as "acme.io/foo")')


def address_of(text: str) -> Address | None:
    """Leading zeros are read as decimals, as Go's older parser did."""
    try:
        return ipaddress.ip_address(_without_zeros(text))
    except ValueError:
        return None


def _without_zeros(text: str) -> str:
    if ":" in text:
        return text
    return ".".join(part.lstrip("0") or "0" if part.isdigit() else part for part in text.split("."))


def address(text: str, at: Path, out: Faults, known: Iterable[str] = ()) -> bool:
    """Whether it is a fine IP address. `known`: those that the object has already."""
    if text in known:
        return True
    found, before = address_of(text), len(out)
    if found is None or "%" in text:
        out.invalid(at, text, _NO_ADDRESS)
    elif _LEADING_ZERO.search(text) and ":" not in text:
        out.invalid(at, text, "must not have leading 0s")
    elif isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        out.invalid(at, text, "must not be an IPv4-mapped IPv6 address")
    return len(out) == before


def canonical_address(text: str, at: Path, out: Faults) -> bool:
    if not address(text, at, out):
        return False
    written = str(address_of(text))
    if written != text:
        out.invalid(at, text, f'must be in canonical form ("{written}")')
    return written == text


def network_of(text: str) -> Network | None:
    host, slash, bits = text.partition("/")
    if not slash or not bits.isdigit():
        return None
    try:
        return ipaddress.ip_network(f"{_without_zeros(host)}/{int(bits)}", strict=False)
    except ValueError:
        return None


def network(text: str, at: Path, out: Faults, known: Iterable[str] = ()) -> bool:
    """Whether it is a fine CIDR."""
    if text in known:
        return True
    found, before = network_of(text), len(out)
    host, _, bits = text.partition("/")
    if found is None:
        out.invalid(at, text, _NO_CIDR)
    elif (_LEADING_ZERO.search(host) and ":" not in host) or (bits.startswith("0") and bits != "0"):
        out.invalid(at, text, "must not have leading 0s in IP or prefix length")
    elif isinstance(found, ipaddress.IPv6Network) and ipaddress.IPv6Address(host).ipv4_mapped is not None:
        out.invalid(at, text, "must not have an IPv4-mapped IPv6 address")
    elif ipaddress.ip_address(host) != found.network_address:
        out.invalid(at, text, "must not have bits set beyond the prefix length")
    return len(out) == before


def canonical_network(text: str, at: Path, out: Faults) -> None:
    if network(text, at, out) and str(network_of(text)) != text:
        out.invalid(at, text, f'must be in canonical form ("{network_of(text)}")')


def endpoint_address(text: str, at: Path, out: Faults) -> None:
    """An address that traffic can be sent to."""
    found = address_of(text)
    if found is None:
        out.invalid(at, text, "must be a valid IP address")
        return
    if found.is_unspecified:
        out.invalid(at, text, f"may not be unspecified ({text})")
    if found.is_loopback:
        out.invalid(at, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if found.is_link_local:
        out.invalid(at, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if found.is_multicast and (
        found in ipaddress.ip_network("224.0.0.0/24") or text.lower().startswith("ff02:")
    ):
        out.invalid(at, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def is_one_of_each_family(texts: Sequence[str]) -> bool:
    """Two addresses or networks, of different families."""
    return len(texts) == 2 and len({":" in text for text in texts}) == 2


def webhook_url(text: str, at: Path, out: Faults) -> None:
    try:
        url = urlsplit(text)
        host = url.netloc.rpartition("@")[2] if url.port != -1 else ""
    except ValueError as broken:
        out.required(at, f"url must be a valid URL: {broken}{_URL_FORM}")
        return
    if url.scheme != "https":
        out.invalid(at, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not host:
        out.invalid(at, host, f"host must be specified{_URL_FORM}")
    if "@" in url.netloc:
        out.invalid(at, url.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if url.fragment:
        out.invalid(at, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        out.invalid(at, url.query, "query parameters are not permitted in the URL")


def webhook_service(service: Mapping[str, Any], at: Path, out: Faults) -> None:
    """Upstream passes name and namespace the other way round where it is called."""
    if not service.get("namespace"):
        out.required((*at, "name"))
    if not service.get("name"):
        out.required((*at, "namespace"))
    port = service.get("port", 443)
    if complaints := names.port_number(port or 0):
        out.invalid((*at, "port"), port, "port is not valid: " + ", ".join(complaints))
    path = service.get("path")
    if path and path != "/":
        _service_path(path, (*at, "path"), out)


def _service_path(path: str, at: Path, out: Faults) -> None:
    if path == "//":
        out.invalid(at, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        out.invalid(at, path, "must start with a '/'")
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            out.invalid(at, path, f"segment[{index}] may not be empty")
        else:
            out.invalids(at, path, [f"segment[{index}]: {said}" for said in names.dns_subdomain(step)])


def conditions(found: Sequence[Mapping[str, Any]] | None, at: Path, out: Faults) -> None:
    """metav1.Conditions."""
    seen = set()
    for index, condition in enumerate(found or ()):
        where, kind, reason = (*at, index), condition.get("type") or "", condition.get("reason") or ""
        if kind in seen:
            out.duplicate((*where, "type"), kind)
        seen.add(kind)
        qualified_name(kind, (*where, "type"), out)
        if condition.get("status") not in _STATUSES:
            out.unsupported((*where, "status"), condition.get("status") or "", _STATUSES)
        if (condition.get("observedGeneration") or 0) < 0:
            said = "must be greater than or equal to zero"
            out.invalid((*where, "observedGeneration"), condition["observedGeneration"], said)
        if not condition.get("lastTransitionTime"):
            out.required((*where, "lastTransitionTime"))
        if not reason:
            out.required((*where, "reason"))
        elif not _REASON.fullmatch(reason):
            out.invalid((*where, "reason"), reason, _REASON_TEXT)
        if len(reason) > 1024:
            out.too_long((*where, "reason"), 1024)
        if len(condition.get("message") or "") > 32768:
            out.too_long((*where, "message"), 32768)
