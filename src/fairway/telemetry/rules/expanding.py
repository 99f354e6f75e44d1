"""Labels and annotations of alerts, filled in: the functions that Prometheus gives its templates.

Source: template/template.go (Prometheus 3.14), helpers/templates (prometheus/common).
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import isfinite
from typing import Any, Final

from fairway.kube.goregexp import compiled
from fairway.telemetry.promql import Matrix, Result
from fairway.telemetry.promql.nodes import PromQLError
from fairway.telemetry.promql.parsing import duration_ms
from fairway.telemetry.rules import gotemplates
from fairway.telemetry.rules.gotemplates import TemplateError, float_text

DEFINITIONS: Final = (
    "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}"
    "{{$externalURL := .ExternalURL}}{{$value := .Value}}"
)
_NO_VECTOR: Final = "query in a template must be an instant vector"


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of a query's answer, with Go's names of its fields."""

    Labels: Mapping[str, str]
    Value: float


def expand(
    text: str, alert: str, labels: Mapping[str, str], value: float, at_ms: int, ask: Callable[[str], Result]
) -> str:
    """The text, or what Prometheus puts in its place where it fails. `ask`: an instant query at this time."""
    if "{{" not in text:
        return text
    data = {"Labels": labels, "ExternalLabels": {}, "ExternalURL": "", "Value": value}
    name = f"__alert_{alert}"
    try:
        return gotemplates.render(DEFINITIONS + text, data, functions(at_ms, ask), name)
    except TemplateError as wrong:
        return f"<error expanding template: error executing template {name}: {wrong}>"
    except PromQLError as wrong:
        said = f"error calling query: {wrong}"
        return f"<error expanding template: error executing template {name}: template: {name}:1: {said}>"


def check(text: str, alert: str) -> str:
    """What is wrong with a text before anything is known; empty where nothing is."""
    name = f"__alert_{alert}"
    try:
        gotemplates.check(DEFINITIONS + text, functions(0, lambda query: ""), name)
    except TemplateError as wrong:
        return f"error parsing template {name}: {wrong}"
    return ""


def functions(at_ms: int, ask: Callable[[str], Result]) -> dict[str, Callable[..., Any]]:
    return {**_FUNCTIONS, "query": partial(_query, ask), "now": lambda: at_ms / 1000}


def _query(ask: Callable[[str], Result], query: str) -> list[Sample]:
    found = ask(query)
    if isinstance(found, float):
        return [Sample({}, found)]
    if not isinstance(found, Matrix):
        raise ValueError(_NO_VECTOR)
    return [Sample(dict(m), float(v)) for m, v in zip(found.labels, found.values[:, 0], strict=True)]


def _first(found: list[Sample]) -> Sample:
    if not found:
        raise ValueError("first() called on vector with no elements")
    return found[0]


def _number(value: Any) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"can't convert {gotemplates.type_name(value)} to float")
    try:
        return float(value)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{value}": invalid syntax') from None


def _scaled(value: float, larger: str, smaller: str, unit: int, tail: str = "") -> str:
    if not value or not isfinite(value):
        return float_text(value, ".4g") + tail
    prefix = ""
    if abs(value) >= 1:
        for prefix_ in larger:
            if abs(value) < unit:
                break
            prefix, value = prefix_, value / unit
    else:
        for prefix_ in smaller:
            if abs(value) >= 1:
                break
            prefix, value = prefix_, value * unit
    return f"{value:.4g}{prefix}{tail}"


def _humanize(value: Any) -> str:
    return _scaled(_number(value), "kMGTPEZY", "munpfazy", 1000)


def _humanize_1024(value: Any) -> str:
    number = _number(value)
    text = _scaled(number, "kMGTPEZY", "", 1024)
    return text + "i" if abs(number) >= 1024 and isfinite(number) else text


def _humanize_duration(value: Any) -> str:
    number = _number(value)
    if not isfinite(number):
        return float_text(number, ".4g")
    if abs(number) < 1:
        return _scaled(number, "", "munpfazy", 1000, "s")
    sign, number = ("-" if number < 0 else ""), abs(number)
    whole = int(number)
    days, hours, minutes, seconds = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    if days:
        return f"{sign}{days}d {hours}h {minutes}m {seconds}s"
    if hours:
        return f"{sign}{hours}h {minutes}m {seconds}s"
    if minutes:
        return f"{sign}{minutes}m {seconds}s"
    return f"{sign}{number:.4g}s"


def _to_time(value: Any) -> datetime:
    try:
        return datetime.fromtimestamp(round(_number(value) * 1000) / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        raise ValueError(f"{value} cannot be represented as a nanoseconds timestamp") from None


def _humanize_timestamp(value: Any) -> str:
    number = _number(value)
    return gotemplates.shown(_to_time(number)) if isfinite(number) else float_text(number, ".4g")


def _replace_all(pattern: str, replacement: str, text: str) -> str:
    def of(found: Any) -> str:
        out, at = [], 0
        while at < len(replacement):
            sign = replacement[at]
            digit = replacement[at + 1 : at + 2]
            if sign == "$" and digit.isdigit():
                out.append(found.group(int(digit)) or "")
                at += 2
            else:
                out.append(sign)
                at += 1
        return "".join(out)

    parts, at = [], 0
    for found in compiled(pattern).finditer(text):
        parts += [text[at : found.start()], of(found)]
        at = found.end()
    return "".join(parts) + text[at:]


def _split_port(text: str) -> tuple[str, str]:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        return text, ""
    return host.strip("[]"), port


def _strip_domain(text: str) -> str:
    host, port = _split_port(text)
    if ":" in host or all(part.isdigit() for part in host.split(".")):
        return text
    short = host.split(".")[0]
    return f"{short}:{port}" if port else short


def _link(kind: str, query: str) -> str:
    return f"/graph?g0.expr={urllib.parse.quote_plus(query)}&g0.tab={kind}"


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "args": lambda *values: {f"arg{place}": value for place, value in enumerate(values)},
    "externalURL": lambda: "",
    "first": _first,
    "graphLink": lambda query: _link("0", query),
    "humanize": _humanize,
    "humanize1024": _humanize_1024,
    "humanizeDuration": _humanize_duration,
    "humanizePercentage": lambda value: float_text(_number(value) * 100, ".4g") + "%",
    "humanizeTimestamp": _humanize_timestamp,
    "label": lambda name, sample: sample.Labels.get(name, ""),
    "match": lambda pattern, text: compiled(pattern).search(text) is not None,
    "parseDuration": lambda text: duration_ms(text) / 1000,
    "pathPrefix": lambda: "",
    "reReplaceAll": _replace_all,
    "safeHtml": lambda text: text,
    "sortByLabel": lambda name, found: sorted(found, key=lambda sample: sample.Labels.get(name, "")),
    "stripDomain": _strip_domain,
    "stripPort": lambda text: _split_port(text)[0],
    "strvalue": lambda sample: sample.Labels.get("__value__", ""),
    "tableLink": lambda query: _link("1", query),
    "title": lambda text: "".join(
        c.upper() if not place or not text[place - 1].isalnum() else c for place, c in enumerate(text)
    ),
    "toDuration": lambda value: timedelta(seconds=_number(value)),
    "toLower": lambda text: text.lower(),
    "toTime": _to_time,
    "toUpper": lambda text: text.upper(),
    "urlQueryEscape": urllib.parse.quote_plus,
    "value": lambda sample: sample.Value,
}
