"""The page of the clock: what it says, what may be asked of it, and in which words it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map, served

CLOCK = "/fairway/clock"
SECOND = 1_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("clock")
    with served(data, paused=True, speed=3.0) as api:
        api.until_ready()
        yield api


def said(api: Served, **command: Any) -> dict[str, Any]:
    code, answer = api.ask("POST", CLOCK, command)
    assert code == 200, answer
    found: dict[str, Any] = answer
    return found


def test_what_it_says(home: Served) -> None:
    """Pods of the control plane count, too."""
    for name in ("n1", "n2"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        assert home.ask("POST", "/api/v1/nodes", node)[0] == 201
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert home.ask("POST", "/api/v1/namespaces/default/pods", pod)[0] == 201
    code, answer = home.ask("GET", CLOCK)
    store = home.server.api.store
    components = answer.pop("components")
    assert components["kubelet"] and components["kube-scheduler"]
    assert (code, answer) == (
        200,
        {
            "nowUs": store.now_us,
            "speed": 3.0,
            "paused": True,
            "lagUs": 0,
            "resourceVersion": str(store.version),
            "objects": sum(store.count(kind) for kind in store.kinds()),
            "nodes": 2,
            "pods": 3,
            "watchers": 0,
            "failures": 0,
            "failing": [],
        },
    )


def test_while_components_are_loaded_it_says_how_the_clock_will_go(home: Served) -> None:
    cluster = home.server.api.cluster
    pump = cluster.pump
    assert pump is not None
    before = home.ask("GET", CLOCK)[1]
    said(home, speed=5)
    cluster.pump = None
    try:
        assert home.ask("GET", CLOCK)[1] == before
        page = home.ask("GET", "/metrics")[1]
    finally:
        cluster.pump = pump
    now = home.ask("GET", "/metrics")[1]
    for text, speed in ((page, 3), (now, 5)):
        assert f"fairway_clock_speed {speed}.0\n" in text
        assert "fairway_clock_paused 1.0\n" in text and "fairway_clock_lag_seconds 0.0\n" in text


def test_time_goes_as_far_as_it_is_told(home: Served) -> None:
    now_us = home.ask("GET", CLOCK)[1]["nowUs"]
    assert said(home, advanceUs=5 * SECOND)["nowUs"] == now_us + 5 * SECOND
    there = said(home, untilUs=now_us + 9 * SECOND)
    assert (there["nowUs"], there["held"]) == (now_us + 9 * SECOND, True)
    assert said(home, untilUs=0)["nowUs"] == now_us + 9 * SECOND, "never back"
    assert said(home, advanceUs=0)["nowUs"] == now_us + 9 * SECOND
    assert said(home)["nowUs"] == now_us + 9 * SECOND


def test_speed_and_pause_are_set_apart_and_together(home: Served) -> None:
    said(home, speed=2)
    for command, want in (
        ({"paused": True}, (2, True)),
        ({"speed": 0.5}, (0.5, True)),
        ({"speed": None, "paused": True}, (0.5, True)),
        ({"speed": 7, "paused": False}, (7, False)),
        ({"paused": True, "speed": 4}, (4, True)),
    ):
        answer = said(home, **command)
        assert (answer["speed"], answer["paused"], answer["held"]) == (*want, True)


def test_until_something_holds(home: Served) -> None:
    home.ask("POST", CONFIG_MAPS, config_map("there"))
    now_us = home.ask("GET", CLOCK)[1]["nowUs"]
    wait = {"target": "configmap/there", "namespace": "default"}
    assert said(home, advanceUs=SECOND, condition={**wait, "for": "create"})["nowUs"] == now_us
    answer = said(home, advanceUs=SECOND, condition={**wait, "for": "delete"})
    assert (answer["nowUs"], answer["held"]) == (now_us + SECOND, False)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a speed that is no number": ({"speed": "2"}, "speed: expected a number, not '2'"),
    "a speed that is a yes": ({"speed": True}, "speed: expected a number, not True"),
    "no speed": ({"speed": 0}, "a speed is more than 0 and at most 1000000, not 0"),
    "backwards": ({"advanceUs": -1}, "advanceUs: expected microseconds, 0 or more, not -1"),
    "a part of a microsecond": ({"advanceUs": 1.5}, "advanceUs: expected microseconds, 0 or more, not 1.5"),
    "a yes": ({"untilUs": True}, "untilUs: expected microseconds, 0 or more, not True"),
    "before all time": ({"untilUs": -5}, "untilUs: expected microseconds, 0 or more, not -5"),
    "until what nobody knows": ({"advanceUs": 1, "condition": {"for": "other", "target": "pod/p"}}, ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses(home: Served, name: str) -> None:
    command, want = REFUSED[name]
    before = home.ask("GET", CLOCK)[1]
    code, answer = home.ask("POST", CLOCK, command)
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert answer["message"] == want or not want
    assert home.ask("GET", CLOCK)[1] == before


def test_it_is_read_and_told_and_no_more(home: Served) -> None:
    for method in ("PUT", "DELETE", "PATCH"):
        assert home.ask(method, CLOCK, {})[0] == 405
