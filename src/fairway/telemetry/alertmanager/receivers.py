"""Is a receiver of an AlertmanagerConfig as the operator wants it, and what does Alertmanager get of it?

Source: pkg/alertmanager/validation/v1alpha1/validation.go, pkg/apis/monitoring/v1alpha1/validation.go,
pkg/alertmanager/amcfg.go (prometheus-operator v0.93).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from fairway.telemetry.rules import gotemplates

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
# Lists of pairs in the object, mappings in the file.
_PAIRS: Final = ("headers", "details", "customFields")
# How and by whom it is sent, of which nothing is needed here but that it can be found.
_TRANSPORT: Final = ("httpConfig", "tlsConfig", "sigv4")
_NAMED: Final = {"urlSecret": "url", "appURL": "app_url"}
_WORDS: Final = {
    "apiURL": "api_url",
    "titleLink": "title_link",
    "mrkdwnIn": "mrkdwn_in",
    "requireTLS": "require_tls",
}
_OPSGENIE: Final = ("team", "teams", "user", "escalation", "schedule")
_RESERVED: Final = (
    *("routing_key", "message_type", "state_message", "entity_display_name", "monitoring_tool"),
    *("entity_id", "entity_state"),
)
_ONE_OF: Final = "at most one of 'basicAuth', 'oauth2' and '{}' must be configured"
_MISSING: Final = (
    "SMTP {} is a mandatory field, it is neither specified at global config nor at receiver level"
)
ValueOf = Callable[[Mapping[str, Any]], str]


class Rejected(ValueError):
    """Why an object is left out."""


def check_receivers(receivers: Sequence[Mapping[str, Any]]) -> None:
    """Raises: Rejected."""
    known = set()
    for receiver in receivers:
        name = str(receiver.get("name") or "")
        if name in known:
            raise Rejected(f'"{name}" receiver is not unique')
        known.add(name)
        for field, listed in receiver.items():
            for place, settings in enumerate(listed if field.endswith("Configs") else ()):
                if said := _fault(field.removesuffix("Configs"), settings):
                    where = f"failed to validate receiver \"{name}\": '{field}'[{place}]"
                    raise Rejected(f"{where}: {said}")


def _fault(kind: str, one: Mapping[str, Any]) -> str:
    said = _CHECKS[kind](one) if kind in _CHECKS else ""
    if not said and (wrong := _http_fault(one.get("httpConfig") or {})):
        return f"'httpConfig': {wrong}"
    return said


def _webhook(one: Mapping[str, Any]) -> str:
    if one.get("url") is None and one.get("urlSecret") is None:
        return "one of 'url' or 'urlSecret' must be specified"
    wrong = _template_url_fault(str(one.get("url") or ""))
    return f"invalid 'url': {wrong}" if wrong else ""


def _slack(one: Mapping[str, Any]) -> str:
    for action in one.get("actions") or ():
        for field in ("type", "text"):
            if not action.get(field):
                return f"missing '{field}' in Slack action configuration"
        if not action.get("url") and not action.get("name"):
            return "missing 'name' or 'url' in Slack action configuration"
        if action.get("confirm") is not None and not action["confirm"].get("text"):
            return "missing 'text' in Slack confirmation configuration"
    for field in one.get("fields") or ():
        for name in ("title", "value"):
            if not field.get(name):
                return f"missing '{name}' in Slack field configuration"
    return ""


def _email(one: Mapping[str, Any]) -> str:
    if not one.get("to"):
        return "missing 'to' address"
    host = str(one.get("smarthost") or "")
    if host and (wrong := _host_fault(host)):
        return f"invalid 'smarthost' \"{host}\": {wrong}"
    names = set()
    for header in one.get("headers") or ():
        name = str(header.get("key") or "").lower()
        if name in names:
            return f'duplicate header "{name}"'
        names.add(name)
    return ""


def _host_fault(host: str) -> str:
    if ":" not in host:
        return f"address {host}: missing port in address"
    return f"address {host}: too many colons in address" if host.count(":") > 1 and "]" not in host else ""


def _pagerduty(one: Mapping[str, Any]) -> str:
    if one.get("routingKey") is None and one.get("serviceKey") is None:
        return "one of 'routingKey' or 'serviceKey' is required"
    return ""


def _opsgenie(one: Mapping[str, Any]) -> str:
    for responder in one.get("responders") or ():
        if not any(responder.get(name) for name in ("id", "name", "username")):
            return "responder must have at least an ID, a Name or an Username defined"
        kind = str(responder.get("type") or "")
        if "{{" not in kind and kind.lower() not in _OPSGENIE:
            return f"opsGenieConfig responder type does not match valid options ^({'|'.join(_OPSGENIE)})$"
    return ""


def _victorops(one: Mapping[str, Any]) -> str:
    for field in one.get("customFields") or ():
        if field.get("key") in _RESERVED:
            return f'usage of reserved word "{field["key"]}" is not allowed in custom fields'
    return "" if one.get("routingKey") else "missing 'routingKey' key"


def _pushover(one: Mapping[str, Any]) -> str:
    for field in ("userKey", "token"):
        if one.get(field) is None and one.get(f"{field}File") is None:
            return f"one of '{field}' or '{field}File' must be configured"
    if one.get("html") and one.get("monospace"):
        return "'html' and 'monospace' options are mutually exclusive"
    return ""


def _telegram(one: Mapping[str, Any]) -> str:
    if one.get("botToken") is None and one.get("botTokenFile") is None:
        return "mandatory field botToken or botTokenfile is empty"
    if one.get("botToken") is not None and one.get("botTokenFile") is not None:
        return "only one of 'botToken' or 'botTokenfile' must be configured"
    return "" if one.get("chatID") else "mandatory field 'chatID' is empty"


_CHECKS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "webhook": _webhook,
    "slack": _slack,
    "email": _email,
    "pagerduty": _pagerduty,
    "opsgenie": _opsgenie,
    "victorops": _victorops,
    "pushover": _pushover,
    "telegram": _telegram,
}


def _http_fault(one: Mapping[str, Any]) -> str:
    has = {
        name
        for name in ("basicAuth", "oauth2", "bearerTokenSecret", "authorization")
        if one.get(name) is not None
    }
    if "bearerTokenSecret" in has and has & {"basicAuth", "oauth2"}:
        return _ONE_OF.format("bearerTokenSecret")
    if {"authorization", "bearerTokenSecret"} <= has:
        return "'authorization' is not compatible with 'bearerTokenSecret'"
    if ("authorization" in has and has & {"basicAuth", "oauth2"}) or {"basicAuth", "oauth2"} <= has:
        return _ONE_OF.format("authorization")
    return ""


def _template_url_fault(url: str) -> str:
    """A template, or an address."""
    if not url:
        return ""
    if "{{" in url:
        try:
            gotemplates.check(url, {}, "")
        except gotemplates.TemplateError as wrong:
            return str(wrong)
        return ""
    try:
        read = urlsplit(url)
    except ValueError as wrong:
        return f"validate url from string failed with error: {wrong}"
    if read.scheme not in ("http", "https"):
        return f'validate url from string failed with error: unsupported scheme "{read.scheme}" for URL'
    return "" if read.netloc else "validate url from string failed with error: missing host for URL"


def receiver_of(
    receiver: Mapping[str, Any], prefix: str, shared: Mapping[str, Any], value_of: ValueOf
) -> dict[str, Any]:
    """As Alertmanager's file has it. `shared`: its `global`. Raises: Rejected."""
    found: dict[str, Any] = {"name": prefix + str(receiver["name"])}
    for field, listed in receiver.items():
        if not field.endswith("Configs"):
            continue
        kind = field.removesuffix("Configs")
        found[f"{kind}_configs"] = [_settings(kind, one, shared, value_of) for one in listed]
    return found


def _settings(
    kind: str, one: Mapping[str, Any], shared: Mapping[str, Any], value_of: ValueOf
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in one.items():
        read = _with_secrets(value, value_of)
        if name in _TRANSPORT or value is None:
            continue
        if name in _PAIRS and isinstance(value, list):
            read = {str(pair.get("key") or ""): str(pair.get("value") or "") for pair in value}
        found[_snake(name)] = read
    if kind == "webhook" and one.get("urlSecret") is not None:
        found["url"] = str(found["url"]).strip()
        if wrong := _template_url_fault(found["url"]):
            raise Rejected(f"failed to validate URL: {wrong}")
    if kind == "email":
        for field, word in (("smarthost", "smarthost"), ("from", "from")):
            if not one.get(field) and not shared.get(f"smtp_{word}"):
                raise Rejected(_MISSING.format(word))
    return found


def _with_secrets(value: Any, value_of: ValueOf) -> Any:
    """What selectors of Secrets inside it select."""
    if isinstance(value, dict):
        if "key" in value and set(value) <= {"key", "name", "optional"} and "value" not in value:
            return value_of(value)
        return {_snake(str(name)): _with_secrets(one, value_of) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_secrets(one, value_of) for one in value]
    return value


def _snake(name: str) -> str:
    if name in _NAMED:
        return _NAMED[name]
    return _WORDS.get(name) or _CAPITAL.sub(lambda m: f"_{m[1]}", name).lower()


def settings_of(base: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without its routes."""
    return {name: value for name, value in base.items() if name != "route"}
