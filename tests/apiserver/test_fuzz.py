"""Thousands of requests that nobody should send, seeded: no answer is a 500, and the controllers are alive afterwards.

`fairway bench fuzz` sends hundreds of thousands. What that found is below, one request each.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served

from fairway.bench.fuzzing.attack import Attack
from fairway.bench.fuzzing.requests import Requests, seeds

REQUESTS = 2_000
SEED = 20_260_105


@contextmanager
def attacking(api: Served, seed: int = 1) -> Iterator[Attack]:
    api.until_ready()
    with closing(Attack(api.connect, seed)) as attack:
        yield attack


def test_thousands_of_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        served(tmp_path, paused=True) as api,
        caplog.at_level(logging.WARNING),
        attacking(api, SEED) as attack,
    ):
        assert attack.requests.kinds_tried == len(seeds())
        attack.send(REQUESTS)
        assert attack.failed == [] and attack.broken == []
        assert attack.failures() == []
        assert attack.dead() == []
        # A good part of it got in, of nearly every kind: else nothing was tried but the front door.
        assert attack.codes[201] > REQUESTS / 15 and attack.codes[200] > REQUESTS / 6
        store = api.server.api.store
        kinds = sum(store.count(gk) > 0 for gk in store.kinds())
        attack.clear()
        left = sum(store.count(gk) for gk in store.kinds())
        assert kinds > 50 and left < 400
    assert [r for r in caplog.records if r.exc_info] == []


def test_what_it_starts_from_is_valid(tmp_path: Path) -> None:
    with served(tmp_path, paused=True) as api, attacking(api) as attack:
        refused = {}
        for kind in attack.kinds:
            for obj in [o for o in seeds() if (o["apiVersion"], o["kind"]) == (kind.api_version, kind.kind)]:
                code, said = attack.ask("POST", kind.path("default"), obj)
                if code != 201:
                    refused[kind.kind] = said
        assert refused == {}
        attack.advance(600_000_000)
        assert attack.failures() == [] and attack.dead() == []


def lacking(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The object without its spec, and without each field of it and each field of those; and with these empty."""
    spec = obj["spec"]
    yield {k: v for k, v in obj.items() if k != "spec"}
    for given in ({}, None):
        yield {**obj, "spec": given}
    for name, value in spec.items():
        yield {**obj, "spec": {k: v for k, v in spec.items() if k != name}}
        if isinstance(value, dict | list):
            yield {**obj, "spec": {**spec, name: type(value)()}}
        for inner in value if isinstance(value, dict) else ():
            yield {**obj, "spec": {**spec, name: {k: v for k, v in value.items() if k != inner}}}


def test_whatever_is_left_out(tmp_path: Path) -> None:
    """A LocalQueue without a spec, relabelled, once stopped all controllers."""
    with served(tmp_path, paused=True) as api, attacking(api) as attack:
        assert attack.dead() == []
        made = 0
        for kind in attack.kinds:
            found = [o for o in seeds() if (o["apiVersion"], o["kind"]) == (kind.api_version, kind.kind)]
            for number, obj in enumerate(v for o in found if "spec" in o for v in lacking(o)):
                meta = {**obj["metadata"], "name": f"v-{number}"}
                code, said = attack.ask("POST", kind.path("fuzz-a"), {**obj, "metadata": meta})
                assert code != 500, (obj, said)
                if code == 201:
                    made += 1
                    label = {"metadata": {"labels": {"a": "b"}}}
                    attack.ask("PATCH", kind.path("fuzz-a", meta["name"]), label, MERGE["Content-Type"])
                    path = kind.path("fuzz-a", meta["name"], "status")
                    attack.ask("PATCH", path, {"status": {"conditions": []}}, MERGE["Content-Type"])
            attack.advance(20_000_000)
        attack.advance(300_000_000)
        assert attack.failures() == [] and attack.dead() == []
        assert made > 250
        attack.clear()
        assert attack.failures() == []


LIVING = "/apis/apps/v1/namespaces/alive/deployments/alive"


def test_what_is_dead_is_noticed(tmp_path: Path) -> None:
    with served(tmp_path, paused=True) as api, attacking(api, 1) as attack:
        assert attack.dead() == []
        patch = json.dumps({"spec": {"replicas": 3}}).encode()
        assert api.ask("PATCH", LIVING, patch, headers=MERGE)[0] == 200
        attack.advance(60_000_000)
        assert attack.dead() == ["the Deployment has 3 of 2 pods ready"]


def test_one_seed_is_one_attack(tmp_path: Path) -> None:
    with served(tmp_path, paused=True) as api, attacking(api, 7) as attack:
        streams = [Requests(seed, attack.kinds) for seed in (7, 7, 8)]
    sent = [list(islice(stream, 50)) for stream in streams]
    assert sent[0] == sent[1] != sent[2]


MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
JSON = {"Content-Type": "application/json"}
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
LEADER_WORKER_SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


def seed(kind: str, **spec: Any) -> dict[str, Any]:
    """A valid object with some of its spec's fields replaced."""
    obj = next(o for o in seeds() if o["kind"] == kind)
    return {**obj, "metadata": {**obj["metadata"], "name": "found"}, "spec": {**obj.get("spec", {}), **spec}}


def managed(*entries: Any) -> dict[str, Any]:
    meta = {"name": "found", "managedFields": list(entries)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


ENTRY = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
# What it is → (method, path, headers, body, code, words of the message).
FOUND: dict[str, tuple[str, str, dict[str, str], Any, int, str]] = {
    "metadata that is none, applied": (
        "PATCH",
        f"{CONFIG_MAPS}/found?fieldManager=f",
        APPLY,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"},
        500,  # As kube-apiserver.
        "failed to create typed patch object",
    ),
    "fields that are no set": (
        *("POST", f"{CONFIG_MAPS}?dryRun=All", JSON),
        *(managed({**ENTRY, "fieldsV1": {"f:data": {"f:a": [1]}}}), 201, ""),
    ),
    "elements that nobody knows": (
        *("POST", f"{CONFIG_MAPS}?dryRun=All", JSON),
        *(managed({**ENTRY, "fieldsV1": {"k:x": {}, "i:²": {}}}), 201, ""),
    ),
    "an owner that is null": (
        *("POST", JOB_SETS, JSON),
        {**seed("JobSet"), "metadata": {"name": "found", "ownerReferences": [None]}},
        *(422, "ownerReferences.apiVersion: Invalid value"),
    ),
    "a label of a custom object that is null": (
        *("POST", f"{JOB_SETS}?dryRun=All", JSON),
        *({**seed("JobSet"), "metadata": {"name": "found", "labels": {"a": None}}}, 201, ""),
    ),
    "a surge of five thousand digits": (
        *("POST", "/apis/apps/v1/namespaces/default/daemonsets", JSON),
        seed(
            "DaemonSet", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "9" * 5000}}
        ),
        *(422, "maxSurge"),
    ),
    "a surge of another script": (
        *("POST", "/apis/apps/v1/namespaces/default/daemonsets", JSON),
        seed(
            "DaemonSet", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "²%"}}
        ),
        *(422, "maxUnavailable"),
    ),
    "jobs that are texts": (
        "POST",
        JOB_SETS,
        JSON,
        seed("JobSet", replicatedJobs=["x"]),
        422,
        "replicatedJobs",
    ),
    "groups that are lists": (
        *("POST", LEADER_WORKER_SETS, JSON, seed("LeaderWorkerSet", leaderWorkerTemplate=[1]), 422),
        "leaderWorkerTemplate",
    ),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with served(tmp_path_factory.mktemp("found"), paused=True) as api:
        with attacking(api) as attack:
            assert attack.dead() == []  # Kueue is awake: its webhooks answer.
        yield api


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(home: Served, name: str) -> None:
    method, path, headers, body, code, words = FOUND[name]
    answer = home.ask(method, path, json.dumps(body).encode(), headers=headers)
    assert answer[0] == code and words in str(answer[1].get("message", "")), answer


def test_managed_fields_that_do_not_decode_give_way(home: Served) -> None:
    """Source: managedfields fieldmanager.go Update."""
    body = managed({**ENTRY, "fieldsV1": {"f:data": [1]}}, {**ENTRY, "fieldsV1": {"f:data": {}}})
    code, made = home.ask("POST", f"{CONFIG_MAPS}?dryRun=All&fieldManager=f", {**body, "data": {"a": "1"}})
    assert code == 201
    assert [e["manager"] for e in made["metadata"]["managedFields"]] == ["f"]


@pytest.mark.parametrize("operation", ["remove", "replace"])
def test_a_patch_of_the_kind(home: Served, operation: str) -> None:
    """What it takes away is put back, what it changes is refused."""
    name = f"kind-{operation}"
    body = {**seed("JobSet"), "metadata": {"name": name}}
    assert home.ask("POST", JOB_SETS, body)[0] == 201
    patch = [{"op": operation, "path": "/apiVersion", "value": ["x"]}]
    code, said = home.ask("PATCH", f"{JOB_SETS}/{name}", patch, headers=JSON_PATCH)
    if operation == "remove":
        assert code == 200 and said["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    else:
        assert code == 400, said


def test_a_condition_without_a_type_stops_nobody(home: Served) -> None:
    """Go writes the type of every condition, if only as an empty text."""
    conditions = [{"status": "True"}, {"type": "Ready"}]
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "untyped"},
        "status": {"conditions": conditions},
    }
    code, made = home.ask("POST", "/api/v1/nodes", node)
    assert code == 201
    assert [(c["type"], c["status"]) for c in made["status"]["conditions"][:2]] == [
        ("", "True"),
        ("Ready", ""),
    ]
    with attacking(home) as attack:
        attack.advance(60_000_000)
        assert attack.failures() == []


def test_an_operators_children_are_checked_like_anybodys(home: Served) -> None:
    """A StatefulSet that could not be is refused to its LeaderWorkerSet, and nobody has to make sense of it."""
    strategy = {
        "type": "RollingUpdate",
        "rollingUpdateConfiguration": {"maxUnavailable": "a lot", "maxSurge": 0},
    }
    code, _ = home.ask("POST", LEADER_WORKER_SETS, seed("LeaderWorkerSet", rolloutStrategy=strategy))
    assert code in (201, 422)
    with attacking(home) as attack:
        attack.advance(60_000_000)
        assert attack.failures() == []
