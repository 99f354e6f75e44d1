"""Alertmanagers of a served cluster: who is told of what, and what a restart remembers."""

import base64
import http.server
import json
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from apiserver_serving import Served, served

from fairway.apiserver.notified import MOST_FILES, Sent
from fairway.telemetry.alertmanager.configuration import Integration
from fairway.telemetry.alertmanager.dispatching import FIRST, Notification
from fairway.telemetry.rules.alerts import Alert
from fairway.telemetry.rules.reading import read_text

(RULE,) = read_text("groups: [{name: g, rules: [{alert: A, expr: up}]}]", "f")[0][0].rules
MONITORING = "/apis/monitoring.coreos.com"
BASE = """
route:
  {receiver: nobody, group_by: [alertname], group_wait: 30s, group_interval: 5m, repeat_interval: 2h,
   routes: [{receiver: everybody}]}
receivers:
- name: nobody
- name: everybody
  slack_configs: [{channel: "#gpus", send_resolved: true}]
"""


def advance(api: Served, seconds: int) -> None:
    assert api.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})[0] == 200


def made(api: Served, path: str, obj: dict[str, Any]) -> None:
    code, said = api.ask("POST", path, obj)
    assert code == 201, said


def named(kind: str, name: str, namespace: str, **more: Any) -> dict[str, Any]:
    version = "v1alpha1" if kind == "AlertmanagerConfig" else "v1"
    return {
        "apiVersion": f"monitoring.coreos.com/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {"team": "yes"}},
        "spec": more,
    }


def waiting(for_: str) -> dict[str, Any]:
    query = 'kube_pod_status_phase{phase="Pending"} == 1'
    rule = {"alert": "PodWaits", "expr": query, "for": for_, "labels": {"severity": "page"}}
    return named(
        "PrometheusRule", "rules", "default", groups=[{"name": "g", "interval": "30s", "rules": [rule]}]
    )


def furnish(api: Served, for_: str) -> None:
    """Two namespaces with a pod each that waits, an Alertmanager, and a rule."""
    for namespace in ("vision", "speech"):
        made(api, "/api/v1/namespaces", {"metadata": {"name": namespace}})
        container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        pod = {"metadata": {"name": "waits"}, "spec": {"containers": [container]}}
        made(api, f"/api/v1/namespaces/{namespace}/pods", pod)
    secret = {"metadata": {"name": "alertmanager-main"}, "data": {}}
    secret["data"] = {"alertmanager.yaml": base64.b64encode(BASE.encode()).decode()}
    made(api, "/api/v1/namespaces/default/secrets", secret)
    chosen: dict[str, Any] = {"alertmanagerConfigSelector": {}, "alertmanagerConfigNamespaceSelector": {}}
    made(
        api,
        f"{MONITORING}/v1/namespaces/default/alertmanagers",
        named("Alertmanager", "main", "default", **chosen),
    )
    made(api, f"{MONITORING}/v1/namespaces/default/prometheusrules", waiting(for_))


def alerts(api: Served) -> dict[str, str]:
    found = {}
    for line in str(api.ask("GET", "/metrics")[1]).splitlines():
        if line.startswith("ALERTS{"):
            labels = dict(part.split("=", 1) for part in line[7 : line.index("}")].split(","))
            found[labels["namespace"].strip('"')] = labels["alertstate"].strip('"')
    return found


def sent(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Payloads by receiver, the oldest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted((folder / "alerts" / "sent").glob("*/*/*.json")):
        found.setdefault(file.parent.name, []).append(json.loads(file.read_text()))
    return found


def test_tenants_hear_of_their_own_alerts_only(tmp_path: Path) -> None:
    with served(tmp_path / "a", paused=True) as api:
        api.until_ready()
        furnish(api, "1m")
        configs = f"{MONITORING}/v1alpha1/namespaces"
        webhook = {"name": "../../hook", "webhookConfigs": [{"url": "http://team.example/x"}]}
        route = {"receiver": "../../hook", "groupBy": ["..."], "groupWait": "0s", "groupInterval": "1ms"}
        tenant = named("AlertmanagerConfig", "own", "vision", receivers=[webhook], route=route)
        made(api, f"{configs}/vision/alertmanagerconfigs", tenant)
        # It matches every namespace there is, and asks for a Secret that is not its own.
        greedy = {**route, "matchers": [{"name": "namespace", "matchType": "=~", "value": ".*"}]}
        made(
            api,
            f"{configs}/speech/alertmanagerconfigs",
            named("AlertmanagerConfig", "greedy", "speech", receivers=[webhook], route=greedy),
        )
        secret = {"urlSecret": {"name": "alertmanager-main", "key": "alertmanager.yaml"}}
        thief = {"name": "thief", "webhookConfigs": [secret]}
        made(
            api,
            f"{configs}/speech/alertmanagerconfigs",
            named("AlertmanagerConfig", "thief", "speech", receivers=[thief], route={"receiver": "thief"}),
        )
        advance(api, 180)
        found = sent(tmp_path / "a")
        assert set(found) == {
            "vision%2Fown%2F%2E%2E%2F%2E%2E%2Fhook",
            "speech%2Fgreedy%2F%2E%2E%2F%2E%2E%2Fhook",
            "everybody",
        }
        for namespace, name in (("vision", "own"), ("speech", "greedy")):
            (note,) = found[f"{namespace}%2F{name}%2F%2E%2E%2F%2E%2E%2Fhook"]
            assert [a["labels"]["namespace"] for a in note["alerts"]] == [namespace]
            assert note["receiver"] == f"{namespace}/{name}/../../hook"
        (slack,) = found["everybody"]
        assert slack["channel"] == "#gpus" and slack["attachments"][0]["title"].startswith(
            "[FIRING:2] PodWaits"
        )
        assert not list(tmp_path.glob("hook*"))
        said = api.ask("GET", "/api/v1/namespaces/speech/events")[1]["items"]
        words = [e["message"] for e in said if e["reason"] == "InvalidConfiguration"]
        assert words == [
            "AlertmanagerConfig thief was rejected due to invalid configuration: "
            'unable to get secret "alertmanager-main": secrets "alertmanager-main" not found'
        ]
        # What ends is told five minutes after the group last spoke.
        assert api.ask("DELETE", "/api/v1/namespaces/vision/pods/waits")[0] == 200
        advance(api, 400)
        assert [n["attachments"][0]["title"][:18] for n in sent(tmp_path / "a")["everybody"]] == [
            "[FIRING:2] PodWait",
            "[FIRING:1] PodWait",
        ]


def test_timers_go_on_after_a_restart(tmp_path: Path) -> None:
    with served(tmp_path / "a", paused=True) as api:
        api.until_ready()
        furnish(api, "1h")
        advance(api, 3300)
        assert alerts(api) == {"vision": "pending", "speech": "pending"}
    with served(tmp_path / "a", paused=True) as api:
        api.until_ready()
        # Two evaluations until alerts are what they were; then ten minutes at least.
        advance(api, 90)
        assert alerts(api) == {"vision": "pending", "speech": "pending"}
        advance(api, 510)
        assert alerts(api) == {"vision": "pending", "speech": "pending"}
        advance(api, 90)
        assert alerts(api) == {"vision": "firing", "speech": "firing"}
        advance(api, 60)
        assert len(sent(tmp_path / "a")["everybody"]) == 1
    with served(tmp_path / "a", paused=True) as api:
        api.until_ready()
        # It fired when the server ended: it fires with the third evaluation, and who was told knows.
        advance(api, 60)
        assert alerts(api) == {"vision": "pending", "speech": "pending"}
        advance(api, 30)
        assert alerts(api) == {"vision": "firing", "speech": "firing"}
        advance(api, 600)
        assert len(sent(tmp_path / "a")["everybody"]) == 1
        advance(api, 7200)
        assert len(sent(tmp_path / "a")["everybody"]) == 2


class _Hook(http.server.BaseHTTPRequestHandler):
    got: ClassVar[list[dict[str, Any]]] = []
    came = threading.Event()

    def do_POST(self) -> None:
        _Hook.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()
        _Hook.came.set()

    def log_message(self, *args: Any) -> None:
        """Nothing to say."""


def note(url: str) -> Notification:
    way = Integration("webhook", True, {"url": url})
    alert = Alert(RULE, "g", (("alertname", "A"),), 0, 1.0, 0)
    return Notification(0, "hook", way, FIRST, "{}:{}", (), (alert,), ())


@pytest.mark.parametrize("is_named", [True, False])
def test_webhooks_of_loopback_are_called_where_they_are_named(tmp_path: Path, is_named: bool) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Hook)
    port = server.server_address[1]
    _Hook.got.clear()
    _Hook.came.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    calls = (f"127.0.0.1:{port}", "192.0.2.1") if is_named else ("127.0.0.1:1",)
    box = Sent(tmp_path, calls)
    box.deliver("default/main", [note("http://192.0.2.1/"), note(f"http://127.0.0.1:{port}/x")])
    assert _Hook.came.wait(10) is is_named if is_named else not _Hook.came.wait(0.2)
    box.stop()
    server.shutdown()
    server.server_close()
    assert len(_Hook.got) == int(is_named)
    assert len(list(tmp_path.rglob("*-webhook.json"))) == 2


def test_a_receiver_keeps_its_newest(tmp_path: Path) -> None:
    box = Sent(tmp_path, ())
    box.deliver("default/main", [note("")] * (MOST_FILES + 7))
    names = sorted(file.name for file in tmp_path.rglob("*.json"))
    assert len(names) == MOST_FILES and names[0] == "00000008-webhook.json"
    # Another one goes on where this one was.
    Sent(tmp_path, ()).deliver("default/main", [note("")])
    assert sorted(file.name for file in tmp_path.rglob("*.json"))[-1] == f"{MOST_FILES + 8:08d}-webhook.json"
