"""Is this text of that named format? The formats a custom schema may ask for.

Unknown formats are ignored. Source: kube-openapi pkg/validation/strfmt/default.go, the list in
apiextensions.k8s.io/v1 JSONSchemaProps.format (v1.36).
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable

from fairway.kube import goregexp

_HEX = "[0-9a-f]"
_PATTERNS = {
    "bsonobjectid": r"[0-9a-fA-F]{24}",
    "email": r"[^@\s<>]+@[^@\s<>]+",
    "hostname": r"([a-zA-Z0-9\x{a1}-\x{ffff}](?:[a-zA-Z0-9\x{a1}-\x{ffff}-]{0,62})?)"
    r"(\.[a-zA-Z0-9\x{a1}-\x{ffff}](?:[a-zA-Z0-9\x{a1}-\x{ffff}-]{0,62})?)*",
    "mac": rf"(?i:({_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}(([:-]{_HEX}{{2}}){{2}})?)|({_HEX}{{4}}(\.{_HEX}{{4}}){{2,3}}))",
    "uuid": rf"(?i:{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}})",
    "uuid3": rf"(?i:{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}})",
    "uuid4": rf"(?i:{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}})",
    "uuid5": rf"(?i:{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}})",
    "ssn": r"\d{3}[- ]?\d{2}[- ]?\d{4}",
    "hexcolor": r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})",
    "rgbcolor": r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)",
    "date": r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])",
    "date-time": r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?"
    r"([Zz]|[+-]\d\d:?\d\d)",
    "datetime": r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?"
    r"([Zz]|[+-]\d\d:?\d\d)",
    "duration": r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*"
    r"|0|\d+\s*(ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|s|sec|secs|seconds?"
    r"|m|min|mins|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)",
    "uri": r"(/.*|[a-zA-Z][a-zA-Z0-9+.-]*:\S*)",
}


def _is_ipv4(text: str) -> bool:
    return _parses(ipaddress.IPv4Address, text)


def _is_ipv6(text: str) -> bool:
    return _parses(ipaddress.IPv6Address, text)


def _is_cidr(text: str) -> bool:
    return "/" in text and _parses(lambda value: ipaddress.ip_network(value, strict=False), text)


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


_CHECKS: dict[str, Callable[[str], bool]] = {
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "byte": _is_base64,
}


def fits_format(text: str, name: str) -> bool:
    """True for every text where the format is unknown."""
    check = _CHECKS.get(name)
    if check is not None:
        return check(text)
    pattern = _PATTERNS.get(name)
    return pattern is None or goregexp.compiled(pattern).fullmatch(text) is not None
