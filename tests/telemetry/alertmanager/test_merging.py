"""What the Prometheus Operator makes of a Secret and of AlertmanagerConfigs, held against amtool."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.kube.objects import Obj
from fairway.telemetry.alertmanager.dispatching import routes_of
from fairway.telemetry.alertmanager.merging import Merged, merged

BASE = """
global: {smtp_smarthost: "mail:25", smtp_from: a@b}
route:
  receiver: root
  group_by: [alertname]
  routes:
  - receiver: pages
    matchers: [severity="page"]
receivers:
- name: root
- name: pages
  webhook_configs: [{url: http://pages.example}]
"""
SECRETS = {
    ("am", "alertmanager-main"): {"alertmanager.yaml": BASE},
    ("am", "broken"): {"alertmanager.yaml": "route: {receiver: gone}"},
    ("am", "bomb"): {
        "alertmanager.yaml": "a: &a [1]\n"
        + "".join(
            f"{y}: &{y} [{','.join([f'*{x}'] * 10)}]\n" for x, y in zip("abcdefgh", "bcdefghi", strict=True)
        )
    },
    ("am", "deep"): {"alertmanager.yaml": "route: " + "{routes: [" * 20_000},
    ("am", "text"): {"alertmanager.yaml": "just words"},
    ("vision", "hooks"): {"url": "http://hook.vision.example/x", "bad": "ftp://x"},
}
EVERY: dict[str, Any] = {"alertmanagerConfigSelector": {}, "alertmanagerConfigNamespaceSelector": {}}
NAMESPACES: dict[str, Obj] = {
    name: {"metadata": {"name": name, "labels": {"tier": tier}}}
    for name, tier in (("am", "system"), ("vision", "team"), ("speech", "team"))
}


def secret_of(namespace: str, name: str) -> Mapping[str, str] | None:
    return SECRETS.get((namespace, name))


def config(name: str, namespace: str, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "monitoring.coreos.com/v1alpha1",
        "kind": "AlertmanagerConfig",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": spec,
    }


def alertmanager(**spec: Any) -> Obj:
    return {"metadata": {"name": "main", "namespace": "am"}, "spec": {**EVERY, **spec}}


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"receiver": "hook"}
    for _ in range(depth):
        found = {"receiver": "hook", "routes": [found]}
    return found


HOOK: dict[str, Any] = {"name": "hook", "webhookConfigs": [{"url": "http://hook.example"}]}
ROUTE: dict[str, Any] = {"receiver": "hook"}
INSIDE: dict[str, Any] = {
    "receiver": "hook",
    "groupBy": ["job"],
    "groupWait": "10s",
    "repeatInterval": "0s",
    "matchers": [{"name": "team", "value": "a|b", "matchType": "=~"}],
    "muteTimeIntervals": ["nights"],
    "routes": [{"receiver": "hook", "matchers": [{"name": "x", "value": 'a\\b"c'}], "continue": True}],
}
NIGHTS: dict[str, Any] = {
    "name": "nights",
    "timeIntervals": [
        {
            "times": [{"startTime": "22:00", "endTime": "24:00"}],
            "weekdays": ["monday:friday"],
            "daysOfMonth": [{"start": 1, "end": -1}],
            "months": ["1:12"],
            "years": ["2026:2030"],
        }
    ],
}


def made(*configs: Obj, **spec: Any) -> Merged:
    return merged(alertmanager(**spec), configs, NAMESPACES, secret_of)


def test_a_config_becomes_a_route_of_its_namespace_before_all_others() -> None:
    inhibit = {"sourceMatch": [{"name": "a", "value": "1"}], "targetMatch": [], "equal": ["node"]}
    one = config(
        "own",
        "vision",
        receivers=[HOOK],
        route=INSIDE,
        muteTimeIntervals=[NIGHTS],
        inhibitRules=[inhibit],
    )
    found = made(one, config("b", "speech", receivers=[HOOK], route=ROUTE))
    assert not found.fault and not found.rejected
    only = 'namespace="vision"'
    assert found.raw["route"]["routes"] == [
        {"receiver": "speech/b/hook", "matchers": ['namespace="speech"'], "continue": True},
        {
            "receiver": "vision/own/hook",
            "group_by": ["job"],
            "group_wait": "10s",
            "matchers": ['team=~"a|b"', only],
            "continue": True,
            "mute_time_intervals": ["vision/own/nights"],
            "routes": [{"receiver": "vision/own/hook", "matchers": ['x="a\\\\b\\"c"'], "continue": True}],
        },
        {"receiver": "pages", "matchers": ['severity="page"']},
    ]
    assert found.raw["inhibit_rules"] == [
        {"target_matchers": [only], "source_matchers": ['a="1"', only], "equal": ["node"]}
    ]
    assert [r["name"] for r in found.raw["receivers"]] == [
        "root",
        "pages",
        "speech/b/hook",
        "vision/own/hook",
    ]
    (interval,) = found.raw["mute_time_intervals"]
    assert interval["name"] == "vision/own/nights"
    assert found.configuration().intervals["vision/own/nights"][0].times == ((1320, 1440),)


@pytest.mark.parametrize(
    ("strategy", "namespace", "want"),
    [
        ("OnNamespace", "am", ['namespace="am"']),
        ("None", "vision", None),
        ("OnNamespaceExceptForAlertmanagerNamespace", "am", None),
        ("OnNamespaceExceptForAlertmanagerNamespace", "vision", ['namespace="vision"']),
    ],
)
def test_the_strategy_says_whose_alerts(strategy: str, namespace: str, want: list[str] | None) -> None:
    one = config("one", namespace, receivers=[HOOK], route=ROUTE)
    found = made(one, alertmanagerConfigMatcherStrategy={"type": strategy})
    assert found.raw["route"]["routes"][0].get("matchers") == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, {"am", "vision", "speech"}),
        ({"alertmanagerConfigNamespaceSelector": None}, {"am"}),
        ({"alertmanagerConfigNamespaceSelector": {"matchLabels": {"tier": "team"}}}, {"vision", "speech"}),
        ({"alertmanagerConfigSelector": {"matchLabels": {"take": "me"}}}, {"vision"}),
        ({"alertmanagerConfigSelector": None}, set()),
    ],
)
def test_which_are_selected(spec: dict[str, Any], want: set[str]) -> None:
    every = [
        config("one", name, {"take": "me"} if name == "vision" else {}, receivers=[HOOK], route=ROUTE)
        for name in NAMESPACES
    ]
    receivers = {r["name"].partition("/")[0] for r in made(*every, **spec).raw["receivers"]}
    assert receivers - {"root", "pages"} == want


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"receivers": [HOOK, HOOK], "route": ROUTE}, '"hook" receiver is not unique'),
        ({"receivers": [HOOK], "route": {}}, ""),
        ({"receivers": [HOOK], "route": {"groupBy": ["a"]}}, "root route must define a receiver"),
        ({"receivers": [HOOK], "route": {"receiver": "x"}}, 'receiver "x" not found'),
        (
            {"receivers": [HOOK], "route": {**ROUTE, "groupBy": ["a", "a"]}},
            "duplicate values not permitted in route 'groupBy': [a a]",
        ),
        (
            {"receivers": [HOOK], "route": {**ROUTE, "groupBy": ["a", "..."]}},
            "'...' must be a sole value in route 'groupBy': [a ...]",
        ),
        (
            {"receivers": [HOOK], "route": {**ROUTE, "muteTimeIntervals": ["x"]}},
            'mute time interval "x" not found',
        ),
        (
            {"receivers": [HOOK], "route": {**ROUTE, "routes": [{"receivers": "x"}]}},
            'route[0]: json: unknown field "receivers"',
        ),
        (
            {"receivers": [HOOK], "route": {**ROUTE, "routes": [{"groupBy": 3}]}},
            "route[0]: json: cannot unmarshal into Go struct field Route.groupBy",
        ),
        (
            {"receivers": [{"name": "hook", "webhookConfigs": [{}]}], "route": ROUTE},
            "failed to validate receiver \"hook\": 'webhookConfigs'[0]: one of 'url' or 'urlSecret' must be specified",
        ),
        (
            {
                "receivers": [
                    {"name": "hook", "webhookConfigs": [{"urlSecret": {"name": "hooks", "key": "nothing"}}]}
                ],
                "route": ROUTE,
            },
            'key "nothing" in secret "hooks" not found',
        ),
        (
            {
                "receivers": [
                    {"name": "hook", "webhookConfigs": [{"urlSecret": {"name": "hooks", "key": "bad"}}]}
                ],
                "route": ROUTE,
            },
            'failed to validate URL: validate url from string failed with error: unsupported scheme "ftp" for URL',
        ),
        (
            {"receivers": [{"name": "hook", "emailConfigs": [{}]}], "route": ROUTE},
            "failed to validate receiver \"hook\": 'emailConfigs'[0]: missing 'to' address",
        ),
        (
            {"receivers": [{"name": "hook", "slackConfigs": [{"fields": [{"title": "x"}]}]}], "route": ROUTE},
            "failed to validate receiver \"hook\": 'slackConfigs'[0]: missing 'value' in Slack field configuration",
        ),
        (
            {
                "receivers": [HOOK],
                "route": {**ROUTE, "matchers": [{"name": "x", "value": "(", "matchType": "=~"}]},
            },
            "missing closing )",
        ),
        ({"receivers": [HOOK], "route": {**ROUTE, "groupInterval": "soon"}}, "soon"),
        ({"receivers": [HOOK], "route": {**ROUTE, "routes": [nested(200)]}}, "nested too deep"),
    ],
)
def test_what_is_left_out_and_why(spec: dict[str, Any], said: str) -> None:
    good = config("good", "vision", receivers=[HOOK], route=ROUTE)
    found = made(config("bad", "vision", **spec), good)
    assert "vision/good/hook" in {r["name"] for r in found.raw["receivers"]}
    if not said:
        assert not found.rejected
        return
    ((_, why),) = found.rejected
    assert why.startswith("AlertmanagerConfig bad was rejected due to invalid configuration: ")
    assert said in why


def test_a_whole_configuration_of_an_object() -> None:
    whole = config("whole", "am", receivers=[HOOK], route={**ROUTE, "groupBy": ["job"]})
    other = config("one", "vision", receivers=[HOOK], route=ROUTE)
    found = made(whole, other, alertmanagerConfiguration={"name": "whole"})
    assert found.raw["route"]["receiver"] == "am/whole/hook"
    assert [r["receiver"] for r in found.raw["route"]["routes"]] == ["vision/one/hook"]
    assert made(alertmanagerConfiguration={"name": "gone"}).fault.startswith("failed to get global")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "undefined receiver"),
        ("none", ""),
        ("bomb", "aliases expand to more than"),
        ("deep", "failed to initialize from secret: line 1: "),
        ("text", "expected a mapping with route and receivers"),
    ],
)
def test_secrets_that_are_not_there_and_that_cannot_be_read(name: str, said: str) -> None:
    found = made(configSecret=name)
    assert said in found.fault and bool(said) == bool(found.fault)
    if not said:
        assert found.raw["route"] == {"receiver": "null", "routes": []}


@pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed")
def test_amtool_reads_it_and_routes_alike(tmp_path: Path) -> None:
    slack = {"name": "slack", "slackConfigs": [{"channel": "#x", "apiURL": {"name": "hooks", "key": "url"}}]}
    mail = {"name": "mail", "emailConfigs": [{"to": "a@b", "headers": [{"key": "Subject", "value": "x"}]}]}
    routes = [{"receiver": "slack", "matchers": [{"name": "team", "value": "a.*", "regex": True}]}]
    inside = {"receiver": "mail", "muteTimeIntervals": ["nights"], "routes": routes}
    one = config("own", "vision", receivers=[slack, mail], route=inside, muteTimeIntervals=[NIGHTS])
    found = made(one, config("b", "speech", receivers=[HOOK], route=INSIDE, muteTimeIntervals=[NIGHTS]))
    assert not found.rejected
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(found.raw, sort_keys=False))
    subprocess.run(["amtool", "check-config", str(file)], check=True, capture_output=True)
    for namespace in ("vision", "speech", "other"):
        for team in ("a", "ab", "b", "c"):
            for severity in ("page", "info"):
                pairs = {"namespace": namespace, "team": team, "severity": severity}
                words = [f"{name}={value}" for name, value in pairs.items()]
                command = ["amtool", "config", "routes", "test", f"--config.file={file}", *words]
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                ours = routes_of(found.configuration().route, tuple(sorted(pairs.items())))
                assert ",".join(r.receiver for r in ours) == "".join(said), words
