"""Before a write from outside the clock stands at now, and after it components hear of it; a dry run is none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map, served

PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def about(kind: str, name: str, **more: Any) -> dict[str, Any]:
    api = {"Binding": "v1", "Eviction": "policy/v1"}[kind]
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **more}


NODE = {"target": {"kind": "Node", "name": "n"}}
WRITES: dict[str, tuple[str, str, Any, dict[str, str]]] = {
    "create": ("POST", CONFIG_MAPS, config_map("new"), {}),
    "update": ("PUT", f"{CONFIG_MAPS}/there", config_map("there", a="2"), {}),
    "patch": ("PATCH", f"{CONFIG_MAPS}/there", {"data": {"a": "3"}}, MERGE),
    "delete": ("DELETE", f"{CONFIG_MAPS}/there", None, {}),
    "delete several": ("DELETE", CONFIG_MAPS, None, {}),
    "bind": ("POST", f"{PODS}/p/binding", about("Binding", "p", **NODE), {}),
    "evict": ("POST", f"{PODS}/p/eviction", about("Eviction", "p"), {}),
    "status": ("PATCH", f"{PODS}/p/status", {"status": {"message": "m"}}, MERGE),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("heard")
    with served(data, paused=True) as api:
        api.until_ready()
        api.server.api.cluster.events = None  # which expire every second, and that is heard of, too
        yield api


def _until_judged(home: Served) -> None:
    """The scheduler has said that there is no node: it writes no more."""
    until = time.monotonic() + 30
    while not home.ask("GET", f"{PODS}/p")[1]["status"].get("conditions"):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_heard_of_and_a_dry_run_is_not(home: Served, name: str) -> None:
    method, path, body, headers = WRITES[name]
    home.ask("POST", CONFIG_MAPS, config_map("there", a="1"))
    home.ask("POST", PODS, pod("p"))
    _until_judged(home)
    cluster = home.server.api.cluster
    store, told = home.server.api.store, list[tuple[str, int]]()
    cluster.touch = lambda: told.append(("touch", store.version))  # type: ignore[method-assign]
    cluster.poke = lambda: told.append(("poke", store.version))  # type: ignore[method-assign]
    try:
        before = store.version
        code, said = home.ask(method, f"{path}?dryRun=All", body, headers=headers)
        assert code in (200, 201), said
        assert store.version == before and not [what for what, _ in told if what == "poke"]
        told.clear()
        code, said = home.ask(method, path, body, headers=headers)
        assert code in (200, 201), said
        after = store.version
        assert after > before
        assert [told[0], told[-1]] == [("touch", before), ("poke", after)]
    finally:
        del cluster.touch, cluster.poke
    home.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    home.ask("DELETE", CONFIG_MAPS)
