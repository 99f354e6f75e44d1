"""What one object breaks in a served cluster: who sees it, and that all else goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

from fairway.apiserver.endpoints import EndpointsController
from fairway.cli.main import main
from fairway.cluster.changes import Change

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str, **labels: str) -> dict[str, Any]:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server whose endpoints controller cannot read Services that say so."""
    observe = EndpointsController.observe

    def observed(self: EndpointsController, change: Change) -> None:
        if change.key.gk == "Service" and "odd" in (change.obj["metadata"].get("labels") or {}):
            raise KeyError("spec")
        observe(self, change)

    monkeypatch.setattr(EndpointsController, "observe", observed)
    with served(tmp_path) as found:
        found.until_ready()
        yield found


def has_endpoints(api: Served, name: str) -> bool:
    return api.ask("GET", f"/api/v1/namespaces/default/endpoints/{name}")[0] == 200


def advance(api: Served, seconds: int = 5) -> None:
    assert api.ask("POST", "/fairway/clock", {"advanceUs": seconds * 1_000_000})[0] == 200


def test_everybody_else_is_served_and_it_is_named(
    api: Served, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert api.ask("POST", SERVICES, service("odd", odd="1"))[0] == 201
    for i in range(3):
        assert api.ask("POST", SERVICES, service(f"even-{i}"))[0] == 201
    advance(api)
    assert [has_endpoints(api, f"even-{i}") for i in range(3)] == [True] * 3
    assert not has_endpoints(api, "odd")
    # Said once, though it was tried again.
    said = [r.getMessage() for r in caplog.records if r.name == "fairway.components"]
    assert len(said) == 1 and "endpoints-controller: Service default/odd: KeyError: 'spec'" in said[0]
    # Ready: what one user broke must not take the server from the others. Whose object it was is not for everybody.
    assert api.ask("GET", "/readyz") == (200, "ok")
    code, text = api.ask("GET", "/readyz?verbose")
    assert code == 200 and "[+]component/endpoints-controller ok: 1 object left out\n" in text
    assert "odd" not in text
    assert "[+]component/kube-controller-manager ok\n" in text
    assert api.ask("GET", "/readyz/component/kueue") == (200, "ok")
    metrics = api.ask("GET", "/metrics")[1]
    assert 'fairway_component_objects_left_out{component="endpoints-controller"} 1.0' in metrics
    count = metrics.split('fairway_component_failures_total{component="endpoints-controller"} ')[1].split()[0]
    assert float(count) >= 3
    data = str(api.server.settings.data)
    assert main(["status", "--data", data]) == 0
    text = capsys.readouterr().out
    assert "failing     endpoints-controller: Service default/odd (" in text and "again in" in text
    assert "KeyError: 'spec' at " in text
    assert main(["status", "--data", data, "-o", "json"]) == 0
    (failing,) = json.loads(capsys.readouterr().out)["failing"]
    assert (failing["component"], failing["object"]) == ("endpoints-controller", "Service default/odd")


def test_mended_it_is_like_any_other(api: Served) -> None:
    assert api.ask("POST", SERVICES, service("odd", odd="1"))[0] == 201
    advance(api)
    patch = json.dumps({"metadata": {"labels": {"odd": None}}}).encode()
    media = {"Content-Type": "application/merge-patch+json"}
    assert api.ask("PATCH", f"{SERVICES}/odd", patch, headers=media)[0] == 200
    advance(api)
    assert has_endpoints(api, "odd")
    assert api.ask("GET", "/fairway/clock")[1]["failing"] == []
    assert "left out" not in api.ask("GET", "/readyz?verbose")[1]


def test_a_component_that_fails_at_its_own_work_is_not_ready(api: Served) -> None:
    twin = api.server.api.cluster.twin
    assert twin is not None
    controller = twin.component("endpoints-controller")
    assert isinstance(controller, EndpointsController)
    api.call(lambda: twin.loop.at(twin.now_us, controller._sync, None))
    advance(api)
    assert api.ask("GET", "/readyz")[0] == 500
    code, text = api.ask("GET", "/readyz?verbose")
    assert code == 500 and "[-]component/endpoints-controller failed: reason withheld\n" in text
    assert api.ask("GET", "/readyz/component/endpoints-controller")[0] == 500
    assert api.ask("GET", "/livez") == (200, "ok")


def test_a_watcher_that_stumbles_keeps_nobody_waiting(api: Served) -> None:
    """The journal tells watchers, and then writes on."""

    def stumbles(_version: int) -> None:
        raise KeyError("spec")

    api.call(lambda: api.server.api.journal.advanced.insert(0, stumbles))
    for i in range(3):
        assert api.ask("POST", SERVICES, service(f"after-{i}"))[0] == 201
