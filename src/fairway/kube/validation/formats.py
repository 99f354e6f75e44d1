"""The named formats that tables refer to with `@`: what is wrong with this value?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.kube import names
from fairway.kube.names import Complaints

_MAX_ID = 2**31 - 1
_MAX_MODE = 0o777


def _port(value: Any) -> Complaints:
    return names.port_number(value) if value != 0 else ()


def _port_reference(value: Any) -> Complaints:
    """A port by number or by name."""
    return names.port_name(value) if isinstance(value, str) else names.port_number(value)


def _id(value: Any) -> Complaints:
    return () if 0 <= value <= _MAX_ID else (f"must be between 0 and {_MAX_ID}, inclusive",)


def _mode(value: Any) -> Complaints:
    if 0 <= value <= _MAX_MODE:
        return ()
    return ("must be a number between 0 and 0777 (octal), both inclusive",)


FORMATS: dict[str, Callable[[Any], Complaints]] = {
    "subdomain": names.dns_subdomain,
    "label": names.dns_label,
    "key": names.label_key,
    "port": _port,
    "portref": _port_reference,
    "portname": names.port_name,
    "env": names.env_name,
    "configkey": names.config_key,
    "id": _id,
    "mode": _mode,
}
