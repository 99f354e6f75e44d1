"""What was acknowledged is there again, however the process ended; torn logs are read as far as they are whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from apiserver_serving import CONFIG_MAPS, config_map, served

from fairway.apiserver.segments import AROUND_BYTES, SEGMENT_BYTES, Segments, read
from fairway.bench.kills import trial_run


def test_twenty_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged, lost = trial_run(tmp_path, 20, seed=3)
    assert lost == []
    assert acknowledged > 20


def test_a_restart_goes_on_with_objects_versions_and_the_clock(tmp_path: Path) -> None:
    with served(tmp_path) as api:
        _, made = api.ask("POST", CONFIG_MAPS, config_map("kept", a="1"))
        api.until_ready()
        api.ask("POST", "/fairway/clock", {"advanceUs": 3_600_000_000})
        api.ask("POST", "/fairway/clock", {"speed": 7, "paused": True})
        now_us = api.ask("GET", "/fairway/clock")[1]["nowUs"]
    with served(tmp_path) as api:
        code, read = api.ask("GET", f"{CONFIG_MAPS}/kept")
        assert (code, read) == (200, made)
        _, clock = api.ask("GET", "/fairway/clock")
        assert (clock["speed"], clock["paused"]) == (7, True)
        assert clock["nowUs"] >= now_us
        _, later = api.ask("POST", CONFIG_MAPS, config_map("later"))
        assert int(later["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"]) + 1000
        assert later["metadata"]["uid"] != made["metadata"]["uid"]


def test_running_pods_go_on_where_they_were(tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {
            "capacity": {"cpu": "8", "memory": "8Gi", "pods": "10"},
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"},
        },
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i:1", "command": ["sleep", "3600"]}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    path = "/api/v1/namespaces/default/pods/p"
    with served(tmp_path, paused=True) as api:
        api.until_ready()
        api.ask("POST", "/api/v1/nodes", node)
        api.ask("POST", "/api/v1/namespaces/default/pods", pod)
        api.ask("POST", "/fairway/clock", {"advanceUs": 1_800_000_000})
        _, before = api.ask("GET", path)
        assert before["status"]["phase"] == "Running"
    with served(tmp_path) as api:
        api.until_ready()
        api.ask("POST", "/fairway/clock", {"advanceUs": 1_000_000_000})
        _, during = api.ask("GET", path)
        assert during["status"]["phase"] == "Running"
        assert during["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        condition = {"target": "pod/p", "for": "jsonpath={.status.phase}=Succeeded"}
        _, clock = api.ask("POST", "/fairway/clock", {"advanceUs": 7_200_000_000, "condition": condition})
        assert clock["held"]
        _, after = api.ask("GET", path)
        ended = after["status"]["containerStatuses"][0]["state"]["terminated"]
        assert ended["startedAt"] == before["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]


def test_more_than_a_log_file_holds_survives(tmp_path: Path) -> None:
    text = "x" * 900_000
    with served(tmp_path) as api:
        for i in range(45):
            assert api.ask("POST", CONFIG_MAPS, config_map(f"big-{i}", text=text))[0] == 201
    with served(tmp_path) as api:
        assert (
            sum(
                1
                for o in api.server.api.store.walk("ConfigMap", "default")
                if o["metadata"]["name"].startswith("big")
            )
            == 45
        )


def test_records_of_an_earlier_turn_are_not_read(tmp_path: Path) -> None:
    segments = Segments(tmp_path, 2)
    for payload in (b"old", b"old too"):
        segments.append(payload)
    segments.turn()
    segments.append(b"between")
    segments.turn()
    segments.append(b"new")
    segments.close()
    assert [(log.epoch, log.payloads, log.gaps) for log in read(tmp_path, 2)] == [
        (3, [b"between"], []),
        (4, [b"new"], []),
    ]


@pytest.mark.parametrize("size", [SEGMENT_BYTES - AROUND_BYTES, SEGMENT_BYTES - AROUND_BYTES + 1])
def test_a_record_fits_only_where_it_fits_whole(tmp_path: Path, size: int) -> None:
    segments = Segments(tmp_path, 0)
    assert segments.has_room(size) == (size <= SEGMENT_BYTES - AROUND_BYTES)
    segments.close()
