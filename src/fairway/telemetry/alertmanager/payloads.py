"""What receivers would have got: a webhook's JSON, a Slack message, a mail.

Source: notify/webhook, notify/slack, template/default.tmpl (Alertmanager main, August 2026). Titles and texts of the
configuration are filled in where they are templates; Alertmanager's own are written here anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fairway.kube.timestamps import rfc3339
from fairway.telemetry.alertmanager.dispatching import Notification
from fairway.telemetry.rules import gotemplates
from fairway.telemetry.rules.alerts import Alert
from fairway.telemetry.rules.gotemplates import TemplateError
from fairway.telemetry.store import Labels

MOST_ALERTS: Final = 1_000
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "join": lambda separator, values: separator.join(values),
    "title": lambda text: text.title(),
    "toLower": lambda text: text.lower(),
    "toUpper": lambda text: text.upper(),
    "trimSpace": lambda text: text.strip(),
}


def payload(note: Notification) -> dict[str, Any]:
    """Of its kind; what has no form of its own here is as a webhook's."""
    data = webhook(note)
    settings = note.integration.settings
    match note.integration.kind:
        case "slack":
            title = _filled(settings.get("title"), note, data) or subject(note)
            color = "danger" if note.firing else "good"
            attachment = {
                "title": title,
                "title_link": f"/#/alerts?receiver={note.receiver}",
                "text": _filled(settings.get("text"), note, data),
                "fallback": f"{title} | /#/alerts?receiver={note.receiver}",
                "color": color,
                "mrkdwn_in": ["fallback", "pretext", "text"],
            }
            return {
                "channel": settings.get("channel", ""),
                "username": "Alertmanager",
                "attachments": [attachment],
            }
        case "email":
            headers = settings.get("headers")
            given = headers.get("Subject") if isinstance(headers, Mapping) else None
            return {
                "to": settings.get("to", ""),
                "subject": _filled(given, note, data) or subject(note),
                "text": _filled(settings.get("text"), note, data) or _plain(note),
            }
        case _:
            return data


def webhook(note: Notification) -> dict[str, Any]:
    """Version 4 of a webhook's body. Its `max_alerts` are in it, and a thousand at most."""
    alerts = [*note.firing, *note.resolved]
    most = note.integration.settings.get("max_alerts")
    shown = alerts[: min(most, MOST_ALERTS) if isinstance(most, int) and most > 0 else MOST_ALERTS]
    resolved = {id(alert) for alert in note.resolved}
    return {
        "receiver": note.receiver,
        "status": "firing" if note.firing else "resolved",
        "alerts": [_alert(alert, id(alert) in resolved) for alert in shown],
        "groupLabels": dict(note.group_labels),
        "commonLabels": _common([dict(a.labels) for a in alerts]),
        "commonAnnotations": _common([dict(a.annotations) for a in alerts]),
        "externalURL": "",
        "version": "4",
        "groupKey": note.group_key,
        "truncatedAlerts": len(alerts) - len(shown),
    }


def _alert(alert: Alert, is_resolved: bool) -> dict[str, Any]:
    ended = rfc3339((alert.ended_ms or 0) * 1000) if is_resolved else "0001-01-01T00:00:00Z"
    return {
        "status": "resolved" if is_resolved else "firing",
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": rfc3339((alert.fired_ms or 0) * 1000),
        "endsAt": ended,
        "generatorURL": "",
        "fingerprint": f"{fingerprint(alert.labels):016x}",
    }


def fingerprint(labels: Labels) -> int:
    """FNV-1a over names and values, as model.LabelSet has it."""
    found = 14695981039346656037
    for name, value in labels:
        for byte in name.encode() + b"\xff" + value.encode() + b"\xff":
            found = (found ^ byte) * 1099511628211 & (1 << 64) - 1
    return found


def _common(each: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = each
    return {name: value for name, value in first.items() if all(o.get(name) == value for o in others)}


def subject(note: Notification) -> str:
    """`[FIRING:2] GPUIdle vision (gpu-0 warning)`"""
    status = f"FIRING:{len(note.firing)}" if note.firing else "RESOLVED"
    common = _common([dict(a.labels) for a in (*note.firing, *note.resolved)])
    rest = [value for name, value in sorted(common.items()) if (name, value) not in note.group_labels]
    tail = f"({' '.join(rest)})" if len(common) > len(note.group_labels) else ""
    return f"[{status}] {' '.join(value for _, value in note.group_labels)} {tail}".strip()


def _plain(note: Notification) -> str:
    parts = []
    for word, alerts in (("Firing", note.firing), ("Resolved", note.resolved)):
        if alerts:
            parts.append(f"Alerts {word}:")
        for alert in alerts[:MOST_ALERTS]:
            parts.append("Labels:")
            parts += [f" - {name} = {value}" for name, value in alert.labels]
            parts.append("Annotations:")
            parts += [f" - {name} = {value}" for name, value in sorted(alert.annotations.items())]
    return "\n".join(parts)


def _filled(text: Any, note: Notification, data: Mapping[str, Any]) -> str:
    """A template of the configuration; what is wrong with it stands in its place."""
    if not isinstance(text, str) or "{{" not in text:
        return text if isinstance(text, str) else ""
    alerts = [{name[0].upper() + name[1:]: value for name, value in a.items()} for a in data["alerts"]]
    given = {
        "Receiver": note.receiver,
        "Status": data["status"],
        "Alerts": alerts,
        "GroupLabels": data["groupLabels"],
        "CommonLabels": data["commonLabels"],
        "CommonAnnotations": data["commonAnnotations"],
        "ExternalURL": "",
    }
    try:
        return gotemplates.render(text, given, _FUNCTIONS, note.receiver)
    except TemplateError as wrong:
        return f"<{wrong}>"
