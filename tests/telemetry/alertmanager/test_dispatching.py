"""Who is told of which alerts, when, and why."""

from datetime import UTC, datetime

import pytest

from fairway.errors import InvalidInput
from fairway.telemetry.alertmanager.configuration import Configuration, Silence, parse_matchers, read_text
from fairway.telemetry.alertmanager.dispatching import Notification, notifications, routes_of
from fairway.telemetry.alertmanager.intervals import read_interval
from fairway.telemetry.alertmanager.payloads import fingerprint, payload, subject
from fairway.telemetry.rules.alerts import Alert
from fairway.telemetry.rules.reading import read_text as read_rules

MINUTE = 60_000
(RULE,) = read_rules("groups: [{name: g, rules: [{alert: A, expr: up}]}]", "f")[0][0].rules
RECEIVERS = """
receivers:
- name: all
  webhook_configs: [{url: http://all}]
- name: quiet
  slack_configs: [{channel: "#q"}]
- name: both
  email_configs: [{to: a@b, send_resolved: true}]
  webhook_configs: [{url: http://both}]
"""


def alert(name: str, fired: int, ended: int | None, **labels: str) -> Alert:
    """Minutes."""
    pairs = tuple(sorted({"alertname": name, **labels}.items()))
    over = None if ended is None else ended * MINUTE
    return Alert(RULE, "g", pairs, fired * MINUTE, 1.0, fired * MINUTE, over, {"summary": f"{name} is on"})


def configured(text: str) -> Configuration:
    return read_text(text + RECEIVERS, "alertmanager.yml")


def told(notes: list[Notification]) -> list[tuple[float, str, str, int, int]]:
    return [(n.at_ms / MINUTE, n.receiver, n.reason, len(n.firing), len(n.resolved)) for n in notes]


PLAIN = (
    "route: {receiver: all, group_by: [alertname], group_wait: 30s, group_interval: 5m, repeat_interval: 1h}"
)


@pytest.mark.parametrize(
    ("alerts", "minutes", "want"),
    [
        ([alert("A", 0, 3)], 30, [(0.5, "first notification", 1, 0), (5.5, "all alerts resolved", 0, 1)]),
        (
            [alert("A", 0, 20, pod="x"), alert("A", 2, 20, pod="y")],
            15,
            [(0.5, "first notification", 1, 0), (5.5, "new alerts in group", 2, 0)],
        ),
        (
            [alert("A", 0, 3, pod="x"), alert("A", 0, None, pod="y")],
            15,
            [(0.5, "first notification", 2, 0), (5.5, "new resolved alerts", 1, 1)],
        ),
        # Over after more than the interval; exactly the interval is not over.
        (
            [alert("A", 0, None)],
            70,
            [(0.5, "first notification", 1, 0), (65.5, "repeat interval elapsed", 1, 0)],
        ),
        # Fired and ended between two looks: nobody knew of it.
        (
            [alert("A", 0, None, pod="x"), alert("A", 1, 2, pod="y")],
            15,
            [(0.5, "first notification", 1, 0), (5.5, "new resolved alerts", 1, 1)],
        ),
        # A group whose alerts are all over is gone; the next one waits anew.
        (
            [alert("A", 0, 3), alert("A", 20, 23)],
            30,
            [
                (0.5, "first notification", 1, 0),
                (5.5, "all alerts resolved", 0, 1),
                (20.5, "first notification", 1, 0),
                (25.5, "all alerts resolved", 0, 1),
            ],
        ),
    ],
)
def test_when_a_group_speaks(
    alerts: list[Alert], minutes: int, want: list[tuple[float, str, int, int]]
) -> None:
    notes = notifications(configured(PLAIN), alerts, minutes * MINUTE)
    assert told(notes) == [(at, "all", *rest) for at, *rest in want]


def test_a_receiver_that_wants_no_ends_hears_of_none() -> None:
    notes = notifications(configured("route: {receiver: quiet}"), [alert("A", 0, 3)], 60 * MINUTE)
    assert told(notes) == [(0.5, "quiet", "first notification", 1, 0)]


TREE = """
route:
  receiver: all
  routes:
  - matchers: ['severity="critical"']
    receiver: both
    continue: true
    routes:
    - matchers: [team=~"a|b"]
      receiver: quiet
  - match: {team: a}
    receiver: quiet
"""


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({}, ["all"]),
        ({"severity": "critical"}, ["both"]),
        ({"severity": "critical", "team": "b"}, ["quiet"]),
        ({"severity": "critical", "team": "a"}, ["quiet", "quiet"]),
        ({"team": "a"}, ["quiet"]),
    ],
)
def test_the_tree_of_routes(labels: dict[str, str], want: list[str]) -> None:
    assert [r.receiver for r in routes_of(configured(TREE).route, tuple(sorted(labels.items())))] == want


def test_inhibition_asks_for_equal_labels_and_spares_both_sided_alerts() -> None:
    rule = '\ninhibit_rules: [{source_matchers: [severity=critical], target_matchers: [severity=~".+"], equal: [node]}]'
    alerts = [
        alert("Down", 0, None, severity="critical", node="a"),
        alert("Slow", 0, None, severity="warning", node="a"),
        alert("Slow", 0, None, severity="warning", node="b"),
    ]
    notes = notifications(configured(PLAIN + rule), alerts, MINUTE)
    assert [[dict(a.labels)["node"] for a in n.firing] for n in notes] == [["a"], ["b"]]


def test_silences_and_muted_times() -> None:
    silence = Silence(tuple(parse_matchers('pod="x"')), 0, 10 * MINUTE)
    configuration = configured(PLAIN)
    silenced = Configuration(configuration.route, configuration.receivers, silences=(silence,))
    assert told(notifications(silenced, [alert("A", 0, None, pod="x")], 20 * MINUTE))[0][0] == 10.5
    muted = PLAIN[:-1] + ", mute_time_intervals: [early]}\ntime_intervals: [{name: early, time_intervals: "
    muted += "[{times: [{start_time: '00:00', end_time: '00:20'}]}]}]"
    with pytest.raises(InvalidInput):
        configured(muted.replace("[early]", "[late]"))
    assert told(notifications(configured(muted), [alert("A", 0, None)], 40 * MINUTE))[0][0] == 20.5


@pytest.mark.parametrize(
    ("interval", "at", "want"),
    [
        ({"weekdays": ["monday:friday"]}, "2026-01-09T12:00", True),
        ({"weekdays": ["monday:friday"]}, "2026-01-10T12:00", False),
        ({"days_of_month": ["-1"]}, "2026-02-28T12:00", True),
        ({"days_of_month": ["-3:-1"]}, "2026-02-25T12:00", False),
        ({"days_of_month": ["31"]}, "2026-02-28T12:00", False),
        ({"months": ["january:march", "12"], "years": ["2026"]}, "2026-12-01T00:00", True),
        ({"times": [{"start_time": "09:00", "end_time": "17:00"}]}, "2026-01-01T17:00", False),
        (
            {"times": [{"start_time": "09:00", "end_time": "17:00"}], "location": "Europe/Berlin"},
            "2026-01-01T08:00",
            True,
        ),
    ],
)
def test_times_of_day_and_year(interval: dict[str, object], at: str, want: bool) -> None:
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert read_interval(interval).holds(int(moment.timestamp() * 1000)) is want


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("route: {receiver: gone}", 'undefined receiver "gone" used in route'),
        ("route: {receiver: all, matchers: [a=b]}", "root route must not have any matchers"),
        ("route: {}", "root route must specify a default receiver"),
        ("x: 1", "no routes provided"),
        ("route: {receiver: all, routes: [{matchers: ['a!b']}]}", "bad matcher format"),
        ("route: {receiver: all, routes: [{matchers: ['a=~\"(\"']}]}", "missing closing )"),
        ("route: {receiver: all, group_wait: soon}", 'not a valid duration string: "soon"'),
        ("route: {receiver: all, group_interval: 0s}", "group_interval cannot be zero"),
        (
            "route: {receiver: all}\ntime_intervals: [{name: x, time_intervals: [{weekdays: [someday]}]}]",
            "weekdays",
        ),
        ("route: [", "alertmanager.yml:"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        configured(text)
    assert said in str(refused.value)


def test_payloads() -> None:
    template = "'{{ .Status | toUpper }}: {{ range .Alerts }}{{ .Labels.pod }} {{ end }}'"
    settings = f"\nreceivers: [{{name: s, slack_configs: [{{channel: c, title: {template}, text: '{{{{ nope }}}}'}}]}}]"
    slack = read_text("route: {receiver: s, group_by: [alertname]}" + settings, "f")
    (note,) = notifications(slack, [alert("A", 0, None, pod="x")], 5 * MINUTE)
    (attachment,) = payload(note)["attachments"]
    assert (attachment["title"], attachment["color"]) == ("FIRING: x ", "danger")
    assert 'function "nope" not defined' in attachment["text"]
    first, second = notifications(configured(PLAIN), [alert("A", 0, 3, pod="x")], 30 * MINUTE)
    body = payload(second)
    assert (body["status"], body["version"], body["groupKey"]) == ("resolved", "4", '{}:{alertname="A"}')
    assert body["alerts"][0]["endsAt"] == "1970-01-01T00:03:00Z"
    assert body["commonLabels"] == {"alertname": "A", "pod": "x"}
    assert (subject(first), subject(second)) == ("[FIRING:1] A (x)", "[RESOLVED] A (x)")


def test_a_fingerprint_is_fnv() -> None:
    assert fingerprint(()) == 0xCBF29CE484222325
    assert fingerprint((("a", "b"),)) != fingerprint((("ab", ""),))
