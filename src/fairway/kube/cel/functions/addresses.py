"""`ip()`, `cidr()` and `url()`.

Source: apiserver pkg/cel/library/ip.go, cidr.go, urls.go (v1.36).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from fairway.kube.cel.functions.overloads import (
    BOOL,
    INT,
    MAP,
    STRING,
    FunctionError,
    member,
    plain,
    tagged,
)

IP = "net.IP"
CIDR = "net.CIDR"
URL = "kubernetes.URL"

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _parsed_ip(text: str) -> _Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise FunctionError(f"IP Address {text!r} parse error during conversion from string") from None
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        what = "IPv4-mapped IPv6 address" if address.ipv4_mapped else "IP address with zone value"
        raise FunctionError(f'{what} "{text}" is not allowed')
    return address


def _ip(text: str) -> dict[str, str]:
    return {IP: str(_parsed_ip(text))}


def _is_ip(text: str, family: int = 0) -> bool:
    try:
        return family in (0, _parsed_ip(text).version)
    except FunctionError:
        return False


def _is_canonical(text: str) -> bool:
    return str(_parsed_ip(text)) == text


def _address(value: Any) -> _Address:
    return ipaddress.ip_address(tagged(value, IP))


def _asks(test: Callable[[_Address], bool]) -> Callable[[Any], bool]:
    return lambda value: test(_address(value))


def _is_link_local_multicast(address: _Address) -> bool:
    block = "224.0.0.0/24" if address.version == 4 else "ff02::/16"
    return address in ipaddress.ip_network(block)


def _is_global_unicast(address: _Address) -> bool:
    broadcast = address.version == 4 and str(address) == "255.255.255.255"
    others = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (others or broadcast)


def _family(value: Any) -> int:
    return _address(value).version


def _cidr(text: str) -> dict[str, str]:
    try:
        interface = ipaddress.ip_interface(text)
        if "/" not in text:
            raise ValueError
    except ValueError:
        raise FunctionError("network address parse error during conversion from string") from None
    return {CIDR: str(interface)}


def _is_cidr(text: str) -> bool:
    try:
        _cidr(text)
    except FunctionError:
        return False
    return True


def _interface(value: Any) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    return ipaddress.ip_interface(tagged(value, CIDR))


def _network(value: Any) -> _Network:
    return _interface(value).network


def _contains_ip(value: Any, other: Any) -> bool:
    address = _parsed_ip(other) if isinstance(other, str) else _address(other)
    return address in _network(value)


def _contains_cidr(value: Any, other: Any) -> bool:
    inner = _network(_cidr(other) if isinstance(other, str) else other)
    outer = _network(value)
    if isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return False


def _ip_of(value: Any) -> dict[str, str]:
    return {IP: str(_interface(value).ip)}


def _masked(value: Any) -> dict[str, str]:
    return {CIDR: str(_network(value))}


def _prefix_length(value: Any) -> int:
    return _network(value).prefixlen


def _parsed_url(text: str) -> str:
    """A URL as Go's `url.ParseRequestURI` takes it: absolute, or an absolute path."""
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - reading it is the check
    except ValueError as bad:
        raise FunctionError(f"URL parse error during conversion from string: parse {text!r}: {bad}") from bad
    is_absolute = bool(parts.scheme) and bool(parts.netloc or parts.path)
    if not text or not (is_absolute or text.startswith("/")) or any(ord(c) < 33 for c in text):
        raise FunctionError(
            f'URL parse error during conversion from string: parse "{text}": invalid URI for request'
        )
    return text


def _url(text: str) -> dict[str, str]:
    return {URL: _parsed_url(text)}


def is_url(text: str) -> bool:
    try:
        _parsed_url(text)
    except FunctionError:
        return False
    return True


def _split(value: Any) -> SplitResult:
    return urlsplit(str(tagged(value, URL)))


def _scheme(value: Any) -> str:
    return _split(value).scheme


def _host(value: Any) -> str:
    return _split(value).netloc.rpartition("@")[2]


def _hostname(value: Any) -> str:
    host = _host(value)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(value: Any) -> str:
    port = _split(value).port
    return "" if port is None else str(port)


def _escaped_path(value: Any) -> str:
    return _split(value).path


def _query(value: Any) -> dict[str, list[str]]:
    query = _split(value).query
    return {unquote(k): v for k, v in parse_qs(query, keep_blank_values=True).items()}


_V = (MAP,)

OVERLOADS = (
    plain("ip", (STRING,), MAP, _ip),
    plain("isIP", (STRING,), BOOL, _is_ip),
    plain("isIP", (STRING, INT), BOOL, _is_ip),
    plain("ip.isCanonical", (STRING,), BOOL, _is_canonical),
    member("family", _V, INT, _family),
    member("isUnspecified", _V, BOOL, _asks(lambda a: a.is_unspecified)),
    member("isLoopback", _V, BOOL, _asks(lambda a: a.is_loopback)),
    member("isLinkLocalMulticast", _V, BOOL, _asks(_is_link_local_multicast)),
    member("isLinkLocalUnicast", _V, BOOL, _asks(lambda a: a.is_link_local)),
    member("isGlobalUnicast", _V, BOOL, _asks(_is_global_unicast)),
    plain("cidr", (STRING,), MAP, _cidr),
    plain("isCIDR", (STRING,), BOOL, _is_cidr),
    member("containsIP", (MAP, MAP), BOOL, _contains_ip),
    member("containsIP", (MAP, STRING), BOOL, _contains_ip),
    member("containsCIDR", (MAP, MAP), BOOL, _contains_cidr),
    member("containsCIDR", (MAP, STRING), BOOL, _contains_cidr),
    member("ip", _V, MAP, _ip_of),
    member("masked", _V, MAP, _masked),
    member("prefixLength", _V, INT, _prefix_length),
    plain("url", (STRING,), MAP, _url),
    plain("isURL", (STRING,), BOOL, is_url),
    member("getScheme", _V, STRING, _scheme),
    member("getHost", _V, STRING, _host),
    member("getHostname", _V, STRING, _hostname),
    member("getPort", _V, STRING, _port),
    member("getEscapedPath", _V, STRING, _escaped_path),
    member("getQuery", _V, MAP, _query),
)
