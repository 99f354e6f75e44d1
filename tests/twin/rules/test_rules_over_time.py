"""A served cluster's rules, tick by tick: what is scraped, told, kept, handed on, taken up again and forgotten."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from prometheus_client.core import Metric

from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import HOUR_US, SECOND_US
from fairway.scenario.entering import create_or_replace
from fairway.telemetry.alertmanager.dispatching import Log, Notification
from fairway.telemetry.rules.evaluating import Past
from fairway.telemetry.store import Labels, Matcher, MemoryStore, is_stale
from fairway.twin.latency import NONE
from fairway.twin.rules.component import Rules, Sample
from fairway.twin.twin import EPOCH_US, Twin

RULE = "PrometheusRule.monitoring.coreos.com"
MANAGER = "Alertmanager.monitoring.coreos.com"
EPOCH_MS = EPOCH_US // 1000
Shown = dict[str, float | str]
Curve = Callable[[int], Mapping[str, float]]


def seconds(at_ms: int | None) -> int | None:
    return None if at_ms is None else (at_ms - EPOCH_MS) // 1000


class Outside:
    """Pages that say `heat{room="…"}` by a curve of seconds, and a disk in memory."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.now_s: Callable[[], int] = lambda: 0
        self.kept: list[tuple[int, Shown, Shown, dict[str, tuple[int, float]]]] = []
        self.past: Past = {}
        self.log: Log = {}
        self.before: list[tuple[str, int, float]] = []
        self.forgot: list[int] = []
        self.told: list[tuple[int, str, str, list[str], list[str]]] = []
        self.loaded_at: list[int] = []
        self.nodes: list[Sample] | None = None
        self.wanted: list[list[str]] = []

    def pages(self) -> Iterator[Metric]:
        heat, other = Metric("heat", "", "gauge"), Metric("others_do_not_ask", "", "gauge")
        other.add_sample("others_do_not_ask", {}, 1.0)
        for room, value in self.curve(self.now_s()).items():
            heat.add_sample("heat", {"room": room}, value)
        yield heat
        yield other

    def of_nodes(self, wanted: frozenset[str]) -> Iterator[Sample]:
        assert self.nodes is not None, wanted
        self.wanted.append(sorted(wanted))
        yield from self.nodes

    def load(self, now_ms: int, scraped: MemoryStore, recorded: MemoryStore) -> tuple[Past, Log]:
        self.loaded_at.append(now_ms)
        for text, at_s, value in self.before:
            found = (("__name__", text),)
            (recorded if ":" in text else scraped).append(found, EPOCH_MS + at_s * 1000, value)
        return self.past, self.log

    def keep(
        self, at_ms: int, scraped: Iterable[Sample], recorded: Iterable[Sample], past: Past, log: Log
    ) -> None:
        states = {text(k): (seconds(at) or 0, since - EPOCH_MS // 1000) for k, (at, since) in past.items()}
        self.kept.append((seconds(at_ms) or 0, shown(scraped), shown(recorded), states))
        self.past, self.log = dict(past), log

    def forget(self, before_ms: int) -> None:
        self.forgot.append(seconds(before_ms) or 0)

    def deliver(self, alertmanager: str, notes: Iterable[Notification]) -> None:
        for note in notes:
            firing, resolved = ([text(a.labels) for a in side] for side in (note.firing, note.resolved))
            self.told.append((seconds(note.at_ms) or 0, alertmanager, note.reason, firing, resolved))


def text(found: Labels) -> str:
    """`heat{room=a}`"""
    pairs = dict(found)
    name = pairs.pop("__name__", "")
    inside = ",".join(f"{k}={v}" for k, v in sorted(pairs.items()))
    return f"{name}{{{inside}}}" if inside else name


def shown(samples: Iterable[Sample]) -> Shown:
    import numpy as np

    return {text(k): "over" if is_stale(np.array([v]))[0] else v for k, v in samples}


class World:
    def __init__(self, curve: Curve, *objects: Obj, start_s: int = 0, before: Outside | None = None) -> None:
        self.outside = Outside(curve)
        if before is not None:
            self.outside.past, self.outside.log = before.past, before.log
        self.rules = Rules(is_served=True)
        self.rules.outside = self.outside
        self.twin = Twin(latency=NONE, components=[self.rules], start_us=EPOCH_US + start_s * SECOND_US)
        self.outside.now_s = lambda: (self.twin.now_us - EPOCH_US) // SECOND_US
        self.apply(*objects)

    def apply(self, *objects: Obj) -> None:
        for obj in objects:
            create_or_replace(self.twin.host, copy.deepcopy(obj))
        self.twin.wake()

    def until(self, at_s: int) -> World:
        self.twin.run(EPOCH_US + at_s * SECOND_US)
        return self

    def said(self, gk: str = RULE) -> list[tuple[int, str, str, str, str, int]]:
        return [
            ((t.last_us - EPOCH_US) // SECOND_US, t.about.name, t.type, t.reason, t.message, t.times)
            for t in self.twin.host.events.told()
            if t.about.gk == gk and t.component in ("prometheus", "prometheus-operator") and t.uid
        ]

    def series(self, name: str, until_s: int) -> dict[str, list[tuple[int, float]]]:
        found = self.rules.select((Matcher("__name__", "=", name),), EPOCH_MS, EPOCH_MS + until_s * 1000)
        return {
            text(s.labels): [
                (seconds(int(at)) or 0, float(value))
                for at, value in zip(s.times, s.values, strict=True)
                if value == value
            ]
            for s in found
        }


def rule(*rules: dict[str, Any], name: str = "r", **group: Any) -> Obj:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"groups": [{"name": "g", "interval": "30s", "rules": list(rules), **group}]},
    }


def manager(name: str = "main", receiver: str = "hook", **route: Any) -> tuple[Obj, Obj]:
    """An Alertmanager and its Secret. It looks as soon as an alert fires, then every minute."""
    waits = {"group_wait": "0s", "group_interval": "1m", "repeat_interval": "1h", **route}
    lines = "".join(f"  {key}: {value}\n" for key, value in waits.items())
    config = (
        f"route:\n  receiver: {receiver}\n{lines}"
        f"receivers:\n- name: {receiver}\n  webhook_configs: [{{url: 'http://x.example'}}]\n"
    )
    meta = {"name": name, "namespace": "default"}
    return (
        {"apiVersion": "monitoring.coreos.com/v1", "kind": "Alertmanager", "metadata": meta, "spec": {}},
        secret(name, config),
    )


def secret(name: str, config: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"alertmanager-{name}", "namespace": "default"},
        "stringData": {"alertmanager.yaml": config},
    }


def gpu_node() -> Obj:
    amounts = {"cpu": "8", "nvidia.com/gpu": "4"}
    meta = {"name": "n", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


HOT = {"alert": "Hot", "expr": "heat > 5", "for": "1m"}
TWICE = {"record": "heat:twice", "expr": "heat * 2"}
HOT_A, TOLD_A = "{alertname=Hot,room=a}", "Hot: room=a"


def between(first: int, last: int, room: str = "a") -> Curve:
    """Hot from one second to another, cool otherwise; always there."""
    return lambda now: {room: 9.0 if first <= now <= last else 1.0}


def test_a_life_of_an_alert() -> None:
    world = World(between(60, 150), rule(HOT, TWICE), *manager()).until(0)
    seen = []
    for at in range(30, 241, 30):
        world.until(at)
        seen.append([(a.fired_ms is not None, world.rules.until_us) for a in world.rules.alerts()])
    # Hot at 60; a minute later it fires; at 180 it is over.
    assert seen == [[], [(False, 0)], [(False, 0)], [(True, 0)], [(True, 0)], [], [], []]
    assert world.said() == [
        (120, "r", "Warning", "AlertFiring", TOLD_A, 1),
        (180, "r", "Normal", "AlertResolved", TOLD_A, 1),
    ]
    assert world.outside.told == [
        (120, "default/main", "first notification", [HOT_A], []),
        (180, "default/main", "all alerts resolved", [], [HOT_A]),
    ]
    state = f"ALERTS_FOR_STATE{HOT_A}"
    hot = {"heat{room=a}": 9.0}, {"heat:twice{room=a}": 18.0}
    cool = {"heat{room=a}": 1.0}, {"heat:twice{room=a}": 2.0}
    assert [
        (at, s, r, p.get(HOT_A.replace("{", "ALERTS_FOR_STATE{"))) for at, s, r, p in world.outside.kept
    ] == [
        (30, *cool, None),
        *[(at, *hot, (at, 60.0)) for at in (60, 90, 120, 150)],
        *[(at, *cool, None) for at in (180, 210, 240)],
    ]
    assert world.series("ALERTS", 240) == {
        "ALERTS{alertname=Hot,alertstate=pending,room=a}": [(60, 1.0), (90, 1.0)],
        "ALERTS{alertname=Hot,alertstate=firing,room=a}": [(120, 1.0), (150, 1.0)],
    }
    assert world.series("ALERTS_FOR_STATE", 240) == {
        state: [(at, EPOCH_MS / 1000 + 60.0) for at in (60, 90, 120, 150)]
    }
    assert world.outside.loaded_at == [EPOCH_MS + 30_000] and world.outside.forgot == []
    assert (world.rules.has("heat:twice"), world.rules.has("heat")) == (True, False)
    watch = world.rules._watch
    assert watch is not None and not watch.notifying.is_stale, "it is configured once"
    assert world.rules.names() == ["ALERTS", "ALERTS_FOR_STATE", "heat:twice"]


def test_alerts_as_a_page_has_them() -> None:
    both = {"a": 9.0, "b": 1.0}
    world = World(lambda now: {**both, "b": 9.0 if now >= 90 else 1.0}, rule(HOT)).until(30)
    world.until(120)
    (family,) = world.rules.families()
    assert (family.name, family.type) == ("ALERTS", "gauge")
    assert [(s.name, s.labels, s.value) for s in family.samples] == [
        ("ALERTS", {"alertname": "Hot", "room": "a", "alertstate": "firing"}, 1.0),
        ("ALERTS", {"alertname": "Hot", "room": "b", "alertstate": "pending"}, 1.0),
    ]
    assert list(World(between(0, 0), rule(HOT)).until(60).rules.families()) == []
    assert World(between(0, 0), rule(HOT)).until(0).rules.alerts() == [], "before the first look"
    named = [{**HOT, "alert": name} for name in "CAB"]
    some = World(lambda _: {"b": 9.0, "a": 9.0}, rule(*named)).until(60)
    assert [text(a.labels) for a in some.rules.alerts()] == [
        f"{{alertname={name},room={room}}}" for name in "ABC" for room in "ab"
    ]
    assert list(World(between(0, 0)).rules.families()) == []


def test_what_is_no_longer_there_is_marked_once() -> None:
    world = World(lambda now: {"a": 1.0} if now < 60 else {"b": 2.0} if now < 120 else {}, rule(TWICE))
    world.until(150)
    assert [scraped for _, scraped, _, _ in world.outside.kept] == [
        {"heat{room=a}": 1.0},
        {"heat{room=b}": 2.0, "heat{room=a}": "over"},
        {"heat{room=b}": 2.0},
        {"heat{room=b}": "over"},
        {},
    ]
    assert world.series("heat:twice", 150) == {
        "heat:twice{room=a}": [(30, 2.0)],
        "heat:twice{room=b}": [(60, 4.0), (90, 4.0)],
    }


def test_a_restart_takes_up_what_was_kept() -> None:
    """An alert that waits for twenty minutes waits as long as it still had to, and ten at least (RestoreForState)."""
    slow = {"alert": "Slow", "expr": "heat > 5", "for": "20m"}
    objects = (rule(slow, TWICE), *manager())
    world = World(between(60, 9999), *objects).until(900)
    assert [seconds(a.active_ms) for a in world.rules.alerts()] == [60]
    again = World(between(60, 9999), *objects, start_s=960, before=world.outside)
    # Until its second evaluation (1,020) an alert is new; 360 s it still had to wait, so ten minutes from then.
    assert [seconds(a.active_ms) for a in again.until(990).rules.alerts()] == [990]
    assert again.outside.loaded_at == [EPOCH_MS + 990_000]
    key = "ALERTS_FOR_STATE{alertname=Slow,room=a}"
    assert again.outside.kept[0][3] == {key: (900, 60.0)}
    assert [seconds(a.active_ms) for a in again.until(1020).rules.alerts()] == [1020 + 600 - 1200]
    assert again.outside.kept[1][3] == {key: (1020, 420.0)}
    again.until(1590)
    assert again.said() == [] and again.rules.alerts()[0].fired_ms is None
    assert again.until(1620).said() == [(1620, "r", "Warning", "AlertFiring", "Slow: room=a", 1)]
    # Without what was kept it waits from the start.
    other = World(between(60, 9999), *objects, start_s=960).until(2160)
    assert other.said() == [] and len(other.until(2190).said()) == 1


def test_who_was_told_before_a_restart_is_not_told_again() -> None:
    objects = (rule(HOT), *manager())
    world = World(between(0, 99999), *objects).until(120)
    assert [at for at, *_ in world.outside.told] == [90]
    again = World(between(0, 99999), *objects, start_s=120, before=world.outside).until(3600)
    assert again.outside.told == []
    # An hour after it was told first it is told again, at a look beyond it.
    assert [(reason, at > 3690) for at, _, reason, *_ in again.until(3900).outside.told] == [
        ("repeat interval elapsed", True)
    ]
    # Somebody who has lost it tells it anew.
    lost = World(between(0, 99999), *objects, start_s=120).until(300)
    assert [(at, reason) for at, _, reason, *_ in lost.outside.told] == [(210, "first notification")]


def test_records_from_before_are_there() -> None:
    """What a rule asks for of the past is the scraped past; its records of then are kept, too."""
    world = World(lambda now: {}, rule({"record": "x:y", "expr": "sum_over_time(heat[10m])"}), start_s=600)
    world.outside.before = [("heat", 300, 5.0), ("heat", 450, 7.0), ("x:y", 570, 3.0)]
    assert world.until(630).series("x:y", 630) == {"x:y": [(570, 3.0), (630, 12.0)]}
    # At 900 the first sample is ten minutes old, and no longer in the range.
    assert world.until(900).series("x:y", 900)["x:y"][-2:] == [(870, 12.0), (900, 7.0)]


def test_a_rule_that_goes_takes_its_alert_with_it_four_minutes_later() -> None:
    """Nobody resolves it: an Alertmanager that hears no more of it for four resends takes it for over."""
    world = World(between(0, 99999), rule(HOT), *manager()).until(120)
    world.twin.store.delete(Key(RULE, "default", "r"))
    world.twin.wake()
    assert world.until(150).rules.alerts() == []
    assert [(at, why) for at, _, why, *_ in world.until(900).outside.told] == [
        (90, "first notification"),
        # At 150 it was read anew: over at 390, and the group looks each minute after its first.
        (390, "all alerts resolved"),
    ]
    assert [s[3] for s in world.said()] == ["AlertFiring"]
    # Nothing is left to do: no tick, nothing kept.
    kept = len(world.outside.kept)
    assert world.until(1200).outside.kept[kept:] == [] and world.twin.loop.next_time() is None
    # A rule that comes later starts it again.
    world.apply(rule(TWICE, name="s"))
    world.until(1260)
    assert [(at, recorded) for at, _, recorded, _ in world.outside.kept[kept:]] == [
        (1230, {"heat:twice{room=a}": 18.0}),
        (1260, {"heat:twice{room=a}": 18.0}),
    ]


@pytest.mark.parametrize(
    ("at_s", "want"),
    [
        # Looked at from 180 on: it hears of the alert that is over at 390, and looks each minute.
        (151, [(180, "first notification"), (420, "all alerts resolved")]),
        (331, [(360, "first notification"), (420, "all alerts resolved")]),
        (361, []),
    ],
)
def test_who_is_configured_anew_hears_of_an_alert_whose_rule_went_until_it_is_over(
    at_s: int, want: list[tuple[int, str]]
) -> None:
    world = World(between(0, 99999), rule(HOT), *manager()).until(120)
    world.twin.store.delete(Key(RULE, "default", "r"))
    world.twin.wake()
    world.until(at_s)
    world.apply(*manager(receiver="other"))
    assert [(at, why) for at, _, why, *_ in world.until(900).outside.told[1:]] == want


def test_when_an_alert_without_a_rule_is_over_is_settled_once() -> None:
    world = World(between(0, 400), rule(HOT), rule({**HOT, "alert": "Warm"}, name="s"), *manager()).until(120)
    world.twin.store.delete(Key(RULE, "default", "r"))
    world.twin.wake()
    world.until(300)
    # Other rules: what is there goes on, what is gone is over when it was to be.
    world.apply(rule(TWICE, name="t"))
    told = [(at, why, [*firing, *over]) for at, _, why, firing, over in world.until(900).outside.told]
    warm_a = "{alertname=Warm,room=a}"
    assert told == [
        (90, "first notification", [HOT_A, warm_a]),
        (390, "new resolved alerts", [warm_a, HOT_A]),
        (450, "all alerts resolved", [warm_a]),
    ]


def test_with_no_rules_left_it_goes_on_until_each_alertmanager_has_told_all() -> None:
    """One that came when all was over has nothing to tell; the first one looks again ten minutes after it spoke."""
    slow = manager(group_interval="10m")
    world = World(between(0, 99999), rule(HOT), *slow, start_s=3300).until(3390)
    world.twin.store.delete(Key(RULE, "default", "r"))
    world.twin.wake()
    world.until(3661)
    world.apply(*manager("other"))
    assert [(at, who, why) for at, who, why, *_ in world.until(9000).outside.told] == [
        (3390, "default/main", "first notification"),
        (3990, "default/main", "all alerts resolved"),
    ]
    assert world.outside.kept[-1][0] == 3990
    # What is kept of an hour, when there is no rule.
    assert world.outside.forgot == [0]


def test_what_was_told_is_forgotten_when_it_is_long_over() -> None:
    world = World(between(0, 150), rule(HOT), *manager()).until(3600)
    assert [(told.at_ms - EPOCH_MS) // 1000 for told in world.outside.log.values()] == [210]
    assert world.until(2 * 3600).outside.log == {}


def test_a_changed_rule_begins_anew_and_an_equal_one_goes_on() -> None:
    world = World(between(0, 99999), rule(HOT, TWICE), *manager()).until(60)
    world.apply(rule(HOT, {**TWICE, "expr": "heat * 3"}))
    world.until(90)
    assert world.said() == [(90, "r", "Warning", "AlertFiring", TOLD_A, 1)]
    assert world.outside.kept[-1][2] == {"heat:twice{room=a}": 27.0}
    world.apply(rule({**HOT, "labels": {"severity": "page"}}, TWICE))
    world.until(330)
    paged = "{alertname=Hot,room=a,severity=page}"
    assert [(seconds(a.active_ms), seconds(a.fired_ms)) for a in world.rules.alerts()] == [(120, 180)]
    assert world.outside.told[1:] == [(210, "default/main", "new alerts in group", [HOT_A, paged], [])]
    # The one of the rule before is over four minutes after it went.
    assert world.until(420).outside.told[2:] == [
        (390, "default/main", "new resolved alerts", [paged], [HOT_A])
    ]


def test_what_is_wrong_with_a_rule_is_said_at_once() -> None:
    bad = rule({"record": "x", "expr": "sum("}, {"alert": "A", "expr": "heat", "for": "soon"}, TWICE)
    world = World(between(0, 0), bad).until(0)
    said = world.said()
    assert [(at, name, kind, reason, times) for at, name, kind, reason, _, times in said] == [
        (0, "r", "Warning", "InvalidRule", 1)
    ] * 2
    paths = [message.partition(": ")[0] for *_, message, _ in said]
    assert paths == ["spec.groups[0].rules[0].expr", "spec.groups[0].rules[1].for"]
    assert all(message.partition(": ")[2] for *_, message, _ in said)
    # What can be read of it goes on, and is read once.
    assert world.until(30).outside.kept[-1][2] == {"heat:twice{room=a}": 2.0}
    assert len(world.said()) == 2
    world.twin.store.delete(Key(RULE, "default", "r"))
    world.twin.wake()
    assert [times for *_, times in world.until(60).said()] == [1, 1]


def test_what_an_event_of_an_alert_says() -> None:
    cases = {
        "summary": ({"summary": "S {{ $labels.room }}", "description": "D"}, "A: S a"),
        "description": ({"description": "D {{ $value }}"}, "A: D 9"),
        "labels": ({}, "A: room=a,team=x"),
        "long": ({"summary": "s" * 300}, "A: " + "s" * 197),
    }
    for noted, want in cases.values():
        one = {
            "alert": "A",
            "expr": "heat > 5",
            "annotations": noted,
            "labels": {"team": "x", "severity": "p"},
        }
        world = World(between(0, 30), rule(one)).until(60)
        said = want.replace("room=a,team=x", "room=a, team=x")
        assert [(at, reason, message) for at, _, _, reason, message, _ in world.said()] == [
            (30, "AlertFiring", said),
            (60, "AlertResolved", said),
        ]
    bare = {"alert": "A", "expr": "vector(1)"}
    assert [m for *_, m, _ in World(between(0, 0), rule(bare)).until(30).said()] == ["A"]


def test_a_copy_goes_on_alone_and_tells_nobody() -> None:
    world = World(between(60, 150), rule(HOT, TWICE), *manager()).until(90)
    rules_before = world.rules
    # Rules of a copy are looked at only if somebody asked before.
    fork = world.twin.fork()
    part = fork.component("prometheus")
    assert isinstance(part, Rules) and part.is_copy and part is not rules_before
    fork.run_for(120 * SECOND_US)
    assert part.alerts() == [] and part.notes == []
    asked = list(world.rules.select((Matcher("__name__", "=", "ALERTS"),), EPOCH_MS, EPOCH_MS + 90_000))
    assert len(asked) == 1
    fork = world.twin.fork()
    part = fork.component("prometheus")
    assert isinstance(part, Rules)
    kept, told = len(world.outside.kept), list(world.outside.told)
    world.outside.now_s = lambda: (fork.now_us - EPOCH_US) // SECOND_US
    fork.run_for(60 * SECOND_US)
    assert (len(world.outside.kept), world.outside.told, world.said()) == (kept, told, [])
    world.outside.now_s = lambda: (world.twin.now_us - EPOCH_US) // SECOND_US
    assert [a.fired_ms is None for a in rules_before.alerts()] == [True]
    # The copy has no pages of others: what they said is over there, at once.
    assert part.alerts() == [] and part.outside is None
    assert [(t.reason, t.message) for t in fork.host.events.told() if t.about.gk == RULE] == []
    world.until(150)
    assert [s[3] for s in world.said()] == ["AlertFiring"]


def test_every_hour_what_is_older_than_rules_ask_for_is_forgotten() -> None:
    ten = {"record": "x:y", "expr": "avg_over_time(heat[10m])"}
    world = World(between(0, 0), rule(ten, TWICE)).until(2 * 3600)
    # An hour, and as far back as the furthest of them looks.
    assert world.outside.forgot == [3600 - 4200, 7200 - 4200]
    assert world.series("x:y", 7200)["x:y{room=a}"][0][0] == 3000
    assert [at for at, _ in world.series("heat:twice", 7200)["heat:twice{room=a}"]][:2] == [3000, 3030]
    plain = World(between(0, 0), rule(TWICE)).until(3600)
    assert plain.outside.forgot == [0]
    bare = World(between(0, 0), rule({"alert": "A", "expr": "vector(1)"})).until(3600)
    assert bare.outside.forgot == [0]


def test_an_alert_that_ended_is_forgotten_by_who_is_new() -> None:
    """An Alertmanager that comes later hears of what fires, and of nothing that ended before."""
    curve: Curve = lambda now: {"a": 9.0 if now <= 150 else 1.0, "b": 9.0}  # noqa: E731
    world = World(curve, rule(HOT)).until(300)
    world.apply(*manager())
    world.until(600)
    assert world.outside.told == [(330, "default/main", "first notification", ["{alertname=Hot,room=b}"], [])]
    # Another configuration: it hears of what fires, but was told before.
    alertmanager, _ = manager()
    world.apply(*manager(receiver="other"))
    assert [(at, why) for at, _, why, *_ in world.until(900).outside.told[1:]] == [
        (630, "first notification")
    ]
    # One that says the same thing goes on as it was.
    world.apply({**alertmanager, "spec": {"replicas": 2}})
    assert world.until(1800).outside.told[2:] == []


def test_alertmanagers_that_are_too_many_or_wrong_are_named() -> None:
    objects = [rule(HOT)]
    for name in ("m0", "m1", "m2", "m3"):
        objects += manager(name)
    # Another namespace has its own.
    elsewhere = [{**o, "metadata": {**o["metadata"], "namespace": "x"}} for o in manager("m4")]
    fifth = World(between(0, 99999), *objects, *elsewhere).until(90)
    assert [who for _, who, *_ in fifth.outside.told] == [
        *("default/m0", "default/m1", "default/m2", "x/m4"),
    ]
    world = World(between(0, 99999), *objects).until(90)
    assert [who for _, who, *_ in world.outside.told] == ["default/m0", "default/m1", "default/m2"]
    assert world.said(MANAGER) == [
        (30, "m3", "Warning", "InvalidConfiguration", "not told of alerts: its namespace has 3 before it", 1)
    ]
    # One that can no longer be read goes on as it was, and it is said once; mended, nothing is said.
    world.apply(secret("m0", "route: [\n"))
    world.until(150)
    (_, name, kind, reason, message, times) = world.said(MANAGER)[-1]
    assert (name, kind, reason, times) == ("m0", "Warning", "InvalidConfiguration", 1)
    assert message.startswith("failed to initialize from secret: ")
    world.apply(secret("m0", "route: {receiver: nobody}\nreceivers: []\n"))
    world.until(180)
    assert [s[1] for s in world.said(MANAGER)] == ["m3", "m0", "m0"] and "nobody" in world.said(MANAGER)[-1][
        4
    ]
    assert len(world.said(MANAGER)) == 3
    # The last one goes on: it tells again after an hour, as the others do.
    world.until(3600 + 240)
    assert [who for _, who, *_ in world.outside.told[3:]] == ["default/m0", "default/m1", "default/m2"]
    # With one of them gone, the fourth has its place.
    world.twin.store.delete(Key(MANAGER, "default", "m1"))
    world.twin.wake()
    world.until(3600 + 300)
    assert [who for _, who, *_ in world.outside.told[6:]] == ["default/m3"]


def test_a_configuration_that_is_refused_is_named_beside_those_that_are_taken() -> None:
    alertmanager, own = manager()
    alertmanager["spec"] = {"alertmanagerConfigSelector": {}}
    config = {
        "apiVersion": "monitoring.coreos.com/v1alpha1",
        "kind": "AlertmanagerConfig",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"receivers": [], "route": {"receiver": "nobody"}},
    }
    world = World(between(0, 99999), alertmanager, own, config, rule(HOT)).until(60)
    (said,) = world.said("AlertmanagerConfig.monitoring.coreos.com")
    assert (said[:4], said[5]) == ((30, "c", "Warning", "InvalidConfiguration"), 1) and "nobody" in said[4]
    assert [at for at, *_ in world.until(90).outside.told] == [90]


def test_an_alertmanager_alone_keeps_a_cluster_of_no_rules_asleep() -> None:
    world = World(between(0, 0), *manager()).until(300)
    assert world.outside.kept == [] and world.twin.loop.next_time() is None
    assert "Secret" in world.rules.kinds and "Namespace" in world.rules.kinds
    config: Obj = {
        "apiVersion": "monitoring.coreos.com/v1alpha1",
        "kind": "AlertmanagerConfig",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {},
    }
    for alone in (rule(HOT), config):
        assert "Secret" not in World(between(0, 0), alone).until(30).rules.kinds
    # A copy tells nobody, and needs no Secret for it.
    fork = World(between(0, 0), rule(HOT)).until(30).twin.fork()
    fork.apply(manager())
    fork.run_for(30 * SECOND_US)
    assert "Secret" not in fork.component("prometheus").kinds


def test_ticks_are_at_whole_half_minutes() -> None:
    world = World(between(0, 0), rule(TWICE), start_s=44).until(130)
    assert [at for at, *_ in world.outside.kept] == [60, 90, 120]
    # One that comes at a tick's time waits for the next.
    exact = World(between(0, 0), rule(TWICE), start_s=60).until(100)
    assert [at for at, *_ in exact.outside.kept] == [90]
    assert HOUR_US % (30 * SECOND_US) == 0


def test_one_tick_is_planned_whatever_happens() -> None:
    world = World(between(0, 0), rule(TWICE), rule(HOT, name="s"), *manager())
    for at in (0, 10, 30, 60):
        world.until(at)
        assert world.twin.loop.queued == 1
        world.apply(rule(HOT, {**TWICE, "expr": f"heat * {at}"}, name="t"))


def test_a_simulation_that_is_over_is_asked_again() -> None:
    """Rules do not keep it going; who asks later has what they say then, and another tick comes."""
    part = Rules()
    twin = Twin(latency=NONE, components=[part])
    create_or_replace(twin.host, rule({"record": "one", "expr": "vector(1)"}))
    twin.wake()

    def asked() -> list[int]:
        now_ms = twin.now_us // 1000
        found = list(part.select((Matcher("__name__", "=", "one"),), EPOCH_MS, now_ms))
        return [(int(at) - EPOCH_MS) // 1000 for series in found for at in series.times.tolist()]

    twin.run_for(10 * SECOND_US)
    assert twin.loop.next_time() is None, "nobody asked"
    assert asked() == []
    twin.run_for(45 * SECOND_US)
    assert twin.loop.next_time() is None, "it has come to its end"
    assert asked() == [30]
    twin.run_for(5 * SECOND_US)
    assert asked() == [30, 60], "once, though there was a tick just now"
    twin.run_for(540 * SECOND_US)
    assert asked() == [30, 60, 90, 600]
    twin.run_for(25 * SECOND_US)
    assert asked() == [30, 60, 90, 600]
    twin.run_for(5 * SECOND_US)
    assert asked() == [30, 60, 90, 600, 630]
    # The first question at a moment of evaluation has an answer at once.
    part, twin = Rules(), Twin(latency=NONE, components=[])
    twin = Twin(latency=NONE, components=[part])
    twin.apply([rule({"record": "one", "expr": "vector(1)"})])
    twin.run_for(30 * SECOND_US)
    assert asked() == [30]


def test_a_simulation_goes_on_until_alerts_fire_and_are_told() -> None:
    """Which takes five minutes, and 45 seconds; or until a time that it was given."""

    def ended_s(*objects: Obj, until_s: int = 0) -> tuple[int, list[int | None]]:
        part = Rules()
        twin = Twin(latency=NONE, components=[part])
        part.until_us = EPOCH_US + until_s * SECOND_US
        for obj in objects:
            twin.apply([obj])
            twin.run(twin.now_us)
        twin.loop.run_until_idle(1000)
        return (twin.now_us - EPOCH_US) // SECOND_US, [seconds(note.at_ms) for _, note in part.notes]

    always = rule({"alert": "Always", "expr": "vector(1)", "for": "5m"})
    never = rule({"alert": "Never", "expr": "vector(1) > 1"})
    waits = manager(group_wait="45s")
    # Neither an order of objects nor what is written first decides.
    for objects in ((always, *waits), (*waits, always)):
        assert ended_s(*objects) == (390, [375])
    assert ended_s(never, *waits) == (30, [])
    assert [ended_s(never, *waits, until_s=at)[0] for at in (89, 90, 91)] == [90, 90, 120]


def test_names_of_rules_that_nobody_can_read_whole() -> None:
    world = World(between(0, 0))
    part = world.rules
    odd = rule(TWICE)
    odd["spec"]["groups"] += [
        {"name": "h"},
        {"name": "i", "rules": "x"},
        "j",
        {"rules": ["k", {"record": 5}, {}]},
    ]
    world.apply(odd, {**rule(HOT), "metadata": {"name": "second", "namespace": "default"}})
    world.until(1)
    assert part.names() == ["5", "ALERTS", "ALERTS_FOR_STATE", "heat:twice"]
    world.twin.store.delete(Key(RULE, "default", "second"))
    world.twin.wake()
    world.until(2)
    assert part.names() == ["5", "heat:twice"] and not part.has("ALERTS")
    none: list[Any] = [None, {"groups": None}, {"groups": "x"}]
    for number, spec in enumerate(none):
        world.apply({**rule(), "metadata": {"name": f"n{number}", "namespace": "default"}, "spec": spec})
    assert world.until(3).rules.names() == ["5", "heat:twice"]


def test_whom_a_scrape_asks() -> None:
    """Objects and GPUs by their own metrics, each series once; kubelets where a metric is theirs; others' pages."""
    asks = ("node_load1", "kube_node_info", "kube_namespace_created", "heat", "DCGM_FI_DEV_FB_FREE")
    world = World(between(0, 0), rule(*({"record": f"of:{n}", "expr": f"sum({n})"} for n in asks)))
    world.outside.nodes = [((("__name__", "node_load1"), ("node", n)), 3.0) for n in "nmn"]
    world.apply(gpu_node(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    world.until(60)
    assert world.outside.wanted == [["heat", "node_load1"]] * 2
    _, scraped, recorded, _ = world.outside.kept[-1]
    state = "instance=kube-state-metrics:8080,job=kube-state-metrics"
    cards = {name: value for name, value in scraped.items() if name.startswith("DCGM")}
    assert len(cards) == 4 and all(float(free) > 80_000 for free in cards.values())
    assert {name: value for name, value in scraped.items() if name not in cards} == {
        "heat{room=a}": 1.0,
        f"kube_namespace_created{{{state},namespace=x}}": EPOCH_MS / 1000,
        f"kube_node_info{{{state},kubeproxy_version=deprecated,node=n}}": 1.0,
        "node_load1{node=n}": 3.0,
        "node_load1{node=m}": 3.0,
    }
    assert recorded["of:node_load1"] == 6.0 and recorded["of:heat"] == 1.0
    assert recorded["of:DCGM_FI_DEV_FB_FREE"] == sum(map(float, cards.values()))
    # Name by name.
    names = [
        "kube_node_info",
        *(f"kube_node_{n}" for n in ("created", "status_capacity", "spec_unschedulable")),
    ]
    names += ["kube_namespace_created", "kube_namespace_status_phase", "kube_node_labels"]
    world.apply(rule(*({"record": f"of:{n}", "expr": f"sum({n})"} for n in names)))
    scraped = world.until(90).outside.kept[-1][1]
    found = [name.partition("{")[0] for name, value in scraped.items() if value != "over"]
    assert list(dict.fromkeys(found)) == sorted(set(found)) and len(set(found)) > 4


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("container_x", True),
        ("kubelet_x", True),
        ("machine_x", True),
        ("node_x", True),
        ("nodes_x", False),
        ("x_node_", False),
        ("kube_node_info", False),
    ],
)
def test_kubelets_are_asked_for_what_is_theirs(name: str, asks: bool) -> None:
    world = World(between(0, 0), rule({"record": "x:y", "expr": name}))
    world.outside.nodes = []
    assert world.until(30).outside.wanted == ([[name]] if asks else [])


def test_what_is_wrong_with_a_configuration_is_said_in_a_thousand_characters() -> None:
    world = World(between(0, 99999), rule(HOT), *manager())
    world.apply(secret("main", f"route: {{receiver: {'x' * 2000}}}\nreceivers: []\n"))
    (said,) = world.until(90).said(MANAGER)
    assert len(said[4]) == 1000 and said[4].endswith("xxx")


def test_a_copy_made_before_the_first_look() -> None:
    one = {"record": "one", "expr": "vector(1)"}
    world = World(between(0, 0), rule(one)).until(0)
    assert world.series("one", 0) == {}
    fork = world.twin.fork()
    part = fork.component("prometheus")
    assert isinstance(part, Rules)
    fork.run_for(60 * SECOND_US)
    (found,) = part.select((Matcher("__name__", "=", "one"),), EPOCH_MS, EPOCH_MS + 60_000)
    assert [seconds(int(at)) for at in found.times] == [30, 60]


def test_records_are_not_scraped() -> None:
    of_it = {"record": "b", "expr": "sum(a)"}
    world = World(between(0, 0), rule({"record": "a", "expr": "vector(1)"}, of_it)).until(60)
    assert [(scraped, recorded) for _, scraped, recorded, _ in world.outside.kept] == [
        ({}, {"a": 1.0, "b": 1.0})
    ] * 2
    # Nor is that a question, after which a copy would go on.
    fork = world.twin.fork()
    fork.run_for(60 * SECOND_US)
    assert fork.loop.next_time() is None


def test_a_copy_hears_of_changed_rules_and_says_nothing_of_them() -> None:
    world = World(between(0, 0), rule({"record": "one", "expr": "vector(1)"})).until(30)
    assert world.series("one", 30) == {"one": [(30, 1.0)]}
    fork = world.twin.fork()
    part = fork.component("prometheus")
    assert isinstance(part, Rules)
    fork.run_for(30 * SECOND_US)
    fork.apply([rule({"record": "one", "expr": "vector(2)"}, {"record": "x", "expr": "sum("})])
    fork.run_for(30 * SECOND_US)
    (found,) = part.select((Matcher("__name__", "=", "one"),), EPOCH_MS, EPOCH_MS + 90_000)
    assert (found.times.tolist()[-3:], found.values.tolist()[-3:]) == (
        [EPOCH_MS + at for at in (30_000, 60_000, 90_000)],
        [1.0, 1.0, 2.0],
    )
    assert [t.reason for t in fork.host.events.told() if t.about.gk == RULE] == []


def test_a_rule_that_looks_further_back_than_any_before_finds_what_was_kept() -> None:
    """An hour, forgotten hour by hour."""
    count = {"record": "n", "expr": "count_over_time(heat[4h])"}
    world = World(between(0, 0), rule(TWICE)).until(3 * 3600)
    world.apply(rule(count))
    # From two hours on, every 30 seconds until 3 h and the tick after it.
    assert world.until(3 * 3600 + 30).outside.kept[-1][2] == {"n{room=a}": 122.0}
