"""Lists in pages: one state of the store, whatever happens between two pages."""

from __future__ import annotations

from typing import Any

from apiserver_serving import Served, config_map

PATH = "/api/v1/namespaces/kube-public/configmaps"


def names(page: dict[str, Any]) -> list[str]:
    return [o["metadata"]["name"] for o in page["items"]]


def test_objects_created_changed_and_deleted_between_pages_are_as_they_were(api: Served) -> None:
    for i in range(6):
        api.ask("POST", PATH, config_map(f"p{i}", a="old"))
    _, first = api.ask("GET", f"{PATH}?limit=3")
    assert names(first) == ["kube-root-ca.crt", "p0", "p1"]
    assert first["metadata"]["remainingItemCount"] == 4
    api.ask("POST", PATH, config_map("p2a"))
    api.ask("DELETE", f"{PATH}/p3")
    api.ask("DELETE", f"{PATH}/p5")
    api.ask("PUT", f"{PATH}/p4", config_map("p4", a="new"))
    _, second = api.ask("GET", f"{PATH}?limit=2&continue={first['metadata']['continue']}")
    assert names(second) == ["p2", "p3"]
    assert second["metadata"]["remainingItemCount"] == 2
    _, last = api.ask("GET", f"{PATH}?limit=9&continue={second['metadata']['continue']}")
    assert names(last) == ["p4", "p5"]
    assert last["items"][0]["data"] == {"a": "old"}
    assert "continue" not in last["metadata"]
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, last)}
    assert len(versions) == 1
    exactly = f"resourceVersion={versions.pop()}&resourceVersionMatch=Exact"
    assert names(api.ask("GET", f"{PATH}?{exactly}")[1]) == names(first) + names(second) + names(last)
    assert names(api.ask("GET", PATH)[1]) == ["kube-root-ca.crt", "p0", "p1", "p2", "p2a", "p4"]


def test_a_list_begun_too_long_ago_gets_a_token_for_what_is_there_now(api: Served) -> None:
    for i in range(3):
        api.ask("POST", PATH, config_map(f"z{i}"))
    _, first = api.ask("GET", f"{PATH}?limit=2")
    api.ask("POST", PATH, config_map("z9"))
    api.call(lambda: api.server.api.store.log.compact(api.server.api.store.version))
    code, expired = api.ask("GET", f"{PATH}?limit=2&continue={first['metadata']['continue']}")
    assert (code, expired["reason"]) == (410, "Expired")
    assert expired["message"].startswith("The provided continue parameter is too old to display a consistent")
    code, rest = api.ask("GET", f"{PATH}?continue={expired['metadata']['continue']}")
    assert code == 200
    assert names(rest)[-4:] == ["z0", "z1", "z2", "z9"]
    version = first["metadata"]["resourceVersion"]
    code, gone = api.ask("GET", f"{PATH}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert (code, gone["message"]) == (410, "The resourceVersion for the provided list is too old.")
