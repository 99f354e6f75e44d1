"""Is this text a legal name, label, port, variable…, and if not, what does Kubernetes say about it?

Each function returns the complaints, none for a legal text. Source: apimachinery pkg/util/validation and
pkg/api/validate/content (v1.36): patterns, limits and sentences are the API server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_DNS1035_RE = re.compile(_DNS1035)
_KEY_RE = re.compile(_KEY)
_CONFIG_KEY_RE = re.compile(r"[-._a-zA-Z0-9]+")
_HEADER_RE = re.compile("[-A-Za-z0-9]+")
_PERCENT_RE = re.compile("[0-9]+%")
_PORT_NAME_RE = re.compile("[-a-z0-9]+")
_DECIMAL_RE = re.compile("0|-?[1-9][0-9]*")
_PRINTABLE_RE = re.compile(r"[ -<>-~]+")

_ALNUM_DASH = "lower case alphanumeric characters or '-'"
_ENDS = "must start and end with an alphanumeric character"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    f"and {_ENDS} (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    f"a lowercase RFC 1123 label must consist of {_ALNUM_DASH}, and {_ENDS} "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_DNS1035_TEXT = (
    f"a DNS-1035 label must consist of {_ALNUM_DASH}, start with an alphabetic character, and end with an "
    f"alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_DNS1035}')"
)
_KEY_TEXT = (
    f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
    f"{_ENDS} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_KEY})?')"
)
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_HEADER_TEXT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)
_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"

_WILDCARD_RE = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    f"regex used for validation is '{_WILDCARD_RE.pattern}')"
)

_SEARCH_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH_RE = re.compile(rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*")
_SEARCH_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and "
    f"{_ENDS} (e.g. 'example.com', regex used for validation is '{_SEARCH_RE.pattern}')"
)

Complaints = tuple[str, ...]
_FINE: Complaints = ()
# Texts longer than any that is right are judged anew each time, so that what is remembered is bounded in bytes, too.
_REMEMBERED_CHARS = 512

Judge = Callable[[str], Complaints]


def remembered(texts: int) -> Callable[[Judge], Judge]:
    """As `lru_cache`, for texts of ordinary length."""

    def remembering(judge: Judge) -> Judge:
        known = lru_cache(maxsize=texts)(judge)
        return wraps(judge)(lambda text: known(text) if len(text) <= _REMEMBERED_CHARS else judge(text))

    return remembering


@remembered(65536)
def dns_subdomain(text: str) -> Complaints:
    """The name of most objects."""
    if len(text) <= 253 and _SUBDOMAIN_RE.fullmatch(text):
        return _FINE
    long = ("must be no more than 253 characters",) if len(text) > 253 else ()
    return long if _SUBDOMAIN_RE.fullmatch(text) else (*long, _SUBDOMAIN_TEXT)


def long_name(text: str) -> Complaints:
    """A subdomain where Kubernetes' newer checks look at it: they count bytes."""
    return tuple(
        c.replace("characters", "bytes") if c.startswith("must be") else c for c in dns_subdomain(text)
    )


def wildcard_subdomain(text: str) -> Complaints:
    """A host name whose first label is `*`."""
    if _WILDCARD_RE.fullmatch(text):
        return ("must be no more than 253 characters",) if len(text) > 253 else _FINE
    return (_WILDCARD_TEXT,)


@remembered(4096)
def dns_search(text: str) -> Complaints:
    """A search domain of a resolver: a subdomain in which labels may hold underscores."""
    long = ("must be no more than 253 characters",) if len(text) > 253 else ()
    return long if _SEARCH_RE.fullmatch(text) else (*long, _SEARCH_TEXT)


def path_segment(text: str) -> Complaints:
    """Roles and bindings: whatever can stand in a URL's path."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{c}'" for c in "/%" if c in text)


@remembered(65536)
def dns_label(text: str) -> Complaints:
    """Containers, volumes, namespaces."""
    if len(text) <= 63 and _LABEL_RE.fullmatch(text):
        return _FINE
    long = ("must be no more than 63 characters",) if len(text) > 63 else ()
    if _LABEL_RE.fullmatch(text):
        return long
    return (*long, "must not contain dots" if _SUBDOMAIN_RE.fullmatch(text) else _LABEL_TEXT)


def dns1035_label(text: str) -> Complaints:
    """Services: a label that starts with a letter."""
    long = ("must be no more than 63 characters",) if len(text) > 63 else ()
    return long if _DNS1035_RE.fullmatch(text) else (*long, _DNS1035_TEXT)


@remembered(65536)
def label_key(text: str) -> Complaints:
    """A qualified name: `[domain/]name`."""
    parts = text.split("/")
    if len(parts) > 2:
        prefixed = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_KEY_TEXT}{prefixed}",)
    out: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            out.append("prefix part must be non-empty")
        else:
            out.extend(f"prefix part {c}" for c in long_name(parts[0]))
    name = parts[-1]
    if not name:
        out.append("name part must be non-empty")
    elif len(name) > 63:
        out.append("name part must be no more than 63 bytes")
    if not _KEY_RE.fullmatch(name):
        out.append(f"name part {_KEY_TEXT}")
    return tuple(out)


@remembered(65536)
def label_value(text: str) -> Complaints:
    long = ("must be no more than 63 bytes",) if len(text) > 63 else ()
    return long if not text or _KEY_RE.fullmatch(text) else (*long, _VALUE_TEXT)


def port_number(value: int) -> Complaints:
    return _FINE if 1 <= value <= 65535 else ("must be between 1 and 65535, inclusive",)


def port_name(text: str) -> Complaints:
    """The name of a container or service port as a probe or targetPort refers to it."""
    out = []
    if len(text) > 15:
        out.append("must be no more than 15 characters")
    if not _PORT_NAME_RE.fullmatch(text):
        out.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        out.append("must contain at least one letter (a-z)")
    if "--" in text:
        out.append("must not contain consecutive hyphens")
    if text and "-" in (text[0], text[-1]):
        out.append("must not begin or end with a hyphen")
    return tuple(out)


def env_name(text: str) -> Complaints:
    return _FINE if _PRINTABLE_RE.fullmatch(text) else (_ENV_TEXT,)


def config_key(text: str) -> Complaints:
    """A key of a ConfigMap or Secret."""
    out = []
    if len(text) > 253:
        out.append("must be no more than 253 characters")
    if not _CONFIG_KEY_RE.fullmatch(text):
        out.append(_CONFIG_KEY_TEXT)
    if text in (".", ".."):
        out.append(f"must not be '{text}'")
    elif text.startswith(".."):
        out.append("must not start with '..'")
    return tuple(out)


def http_header(text: str) -> Complaints:
    return _FINE if _HEADER_RE.fullmatch(text) else (_HEADER_TEXT,)


def percent(text: str) -> Complaints:
    return _FINE if _PERCENT_RE.fullmatch(text) else (_PERCENT_TEXT,)


def mask_trailing_dash(prefix: str) -> str:
    """A generateName may end in a dash: what follows is appended."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
