"""What watchers see: everything from where they began, as their selectors have it, and nothing twice."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from apiserver_serving import CONFIG_MAPS, Served, config_map


@contextmanager
def watching(api: Served, query: str, accept: str = "") -> Iterator[http.client.HTTPResponse]:
    with closing(api.connect()) as connection:
        connection.request(
            "GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=20&{query}", headers={"Accept": accept}
        )
        response = connection.getresponse()
        assert response.status == 200
        with response:
            yield response


def events(response: http.client.HTTPResponse, count: int) -> list[tuple[str, str]]:
    """Types and names of the next events."""
    return [(e["type"], e["object"]["metadata"].get("name", "")) for e in raw(response, count)]


def raw(response: http.client.HTTPResponse, count: int) -> list[dict[str, Any]]:
    return [json.loads(response.readline()) for _ in range(count)]


def version(api: Served) -> str:
    found: str = api.ask("GET", CONFIG_MAPS)[1]["metadata"]["resourceVersion"]
    return found


def test_changes_after_a_version_come_in_order(api: Served) -> None:
    since = version(api)
    api.ask("POST", CONFIG_MAPS, config_map("w", a="1"))
    with watching(api, f"resourceVersion={since}") as response:
        api.ask("PUT", f"{CONFIG_MAPS}/w", config_map("w", a="2"))
        api.ask("DELETE", f"{CONFIG_MAPS}/w")
        assert events(response, 3) == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]


def test_without_a_version_what_is_there_comes_first(api: Served) -> None:
    with watching(api, "") as response:
        assert ("ADDED", "kube-root-ca.crt") in events(response, 1)
        api.ask("POST", CONFIG_MAPS, config_map("first"))
        assert events(response, 1) == [("ADDED", "first")]
    api.ask("DELETE", f"{CONFIG_MAPS}/first")


def test_initial_events_end_with_a_bookmark_that_says_so(api: Served) -> None:
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with watching(api, query) as response:
        assert events(response, 1) == [("ADDED", "kube-root-ca.crt")]
        bookmark = raw(response, 1)[0]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_an_object_that_begins_or_ceases_to_match_is_added_or_deleted(api: Served) -> None:
    since = version(api)
    labelled = {**config_map("moves"), "metadata": {"name": "moves", "labels": {"tier": "gold"}}}
    with watching(api, f"resourceVersion={since}&labelSelector=tier%3Dgold") as response:
        api.ask("POST", CONFIG_MAPS, config_map("moves"))
        api.ask("PUT", f"{CONFIG_MAPS}/moves", labelled)
        api.ask("PUT", f"{CONFIG_MAPS}/moves", config_map("moves"))
        assert events(response, 2) == [("ADDED", "moves"), ("DELETED", "moves")]
    api.ask("DELETE", f"{CONFIG_MAPS}/moves")


def test_a_version_that_is_gone_is_said_to_be_gone(api: Served) -> None:
    store = api.server.api.store
    api.ask("POST", CONFIG_MAPS, config_map("old"))
    api.call(lambda: store.log.compact(store.version))
    with watching(api, "resourceVersion=1") as response:
        event = raw(response, 1)[0]
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_tables_are_watched_row_by_row_with_columns_once(api: Served) -> None:
    since = version(api)
    with watching(
        api, f"resourceVersion={since}", "application/json;as=Table;v=v1;g=meta.k8s.io"
    ) as response:
        api.ask("POST", CONFIG_MAPS, config_map("row-1", a="1"))
        api.ask("POST", CONFIG_MAPS, config_map("row-2"))
        first, second = raw(response, 2)
    assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["object"]["rows"][0]["cells"][:2] == ["row-1", 1]
    assert not second["object"]["columnDefinitions"]


def test_a_hundred_watchers_all_hear_it(api: Served) -> None:
    since = version(api)
    connections = [api.connect() for _ in range(100)]
    responses = []
    for connection in connections:
        connection.request("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={since}")
        responses.append(connection.getresponse())
    api.ask("POST", CONFIG_MAPS, config_map("news"))
    assert [events(r, 1) for r in responses] == [[("ADDED", "news")]] * 100
    for response, connection in zip(responses, connections, strict=True):
        response.close()
        connection.close()


def test_an_object_that_cannot_be_shown_ends_one_watch_with_a_word(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(api.server.api.representation)
    shown = kind.table

    def table(self: Any, objects: list[dict[str, Any]], *rest: Any) -> Any:
        if any(obj["metadata"]["name"] == "odd" for obj in objects):
            raise KeyError("spec")
        return shown(self, objects, *rest)

    since = version(api)
    monkeypatch.setattr(kind, "table", table)
    with (
        watching(api, f"resourceVersion={since}") as plain,
        watching(
            api, f"resourceVersion={since}", accept="application/json;as=Table;g=meta.k8s.io;v=v1"
        ) as other,
    ):
        for name in ("even", "odd", "last"):
            assert api.ask("POST", CONFIG_MAPS, config_map(name))[0] == 201
        told = raw(other, 2)
        assert [e["type"] for e in told] == ["ADDED", "ERROR"]
        assert (told[1]["object"]["code"], told[1]["object"]["reason"]) == (500, "InternalError")
        assert other.readline() == b""
        assert [name for _, name in events(plain, 3)] == ["even", "odd", "last"]
    monkeypatch.undo()
    for name in ("even", "odd", "last"):
        api.ask("DELETE", f"{CONFIG_MAPS}/{name}")
