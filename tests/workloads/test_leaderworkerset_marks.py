"""What the pods of a LeaderWorkerSet bear: indexes, keys that no two groups share, addresses, subgroups.

Source: lws pkg/webhooks/pod_webhook.go, pkg/utils/pod/pod_utils.go.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from fairway.kube.objects import Obj
from fairway.workloads.leaderworkerset import marks

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(
    name: str, *, leader: bool = False, size: str | None = "4", group: str | None = None, **notes: str
) -> Obj:
    labels = {marks.SET_NAME: "lws"}
    if leader:
        labels[marks.WORKER_INDEX] = "0"
    if group is not None:
        labels[marks.GROUP_INDEX] = group
    annotations = {marks.PREFIX + k.replace("_", "-"): v for k, v in notes.items()}
    if size is not None:
        annotations[marks.SIZE] = size
    meta = {"name": name, "namespace": "ns", "labels": labels, "annotations": annotations}
    env = [{"name": "OWN", "value": "1"}, {"name": "LWS_GROUP_SIZE", "value": "9"}]
    return {"metadata": meta, "spec": {"subdomain": "lws", "containers": [{"name": "c", "env": env}]}}


def sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def test_a_leader_is_marked_with_its_group() -> None:
    made = marks.injected(pod("lws-3", leader=True))
    labels = made["metadata"]["labels"]
    assert labels[marks.GROUP_INDEX] == "3"
    assert labels[marks.GROUP_KEY] == sha("ns/lws-3")
    assert made["spec"]["subdomain"] == "lws"
    assert made["spec"]["containers"][0]["env"] == [
        {"name": "LWS_LEADER_ADDRESS", "value": "lws-3.lws.ns"},
        {"name": "LWS_GROUP_SIZE", "value": "4"},
        {"name": "LWS_WORKER_INDEX", "value": "0"},
        {"name": "OWN", "value": "1"},
    ]
    keys = {
        marks.injected(pod(f"lws-{i}", leader=True))["metadata"]["labels"][marks.GROUP_KEY] for i in range(20)
    }
    assert len(keys) == 20


def test_a_worker_has_its_index_and_its_leaders_address() -> None:
    made = marks.injected(pod("lws-3-2", group="3"))
    labels = made["metadata"]["labels"]
    assert labels[marks.WORKER_INDEX] == "2"
    assert marks.GROUP_KEY not in labels
    env = {e["name"]: e["value"] for e in made["spec"]["containers"][0]["env"]}
    assert env == {
        "LWS_LEADER_ADDRESS": "lws-3.lws.ns",
        "LWS_GROUP_SIZE": "4",
        "LWS_WORKER_INDEX": "2",
        "OWN": "1",
    }


@pytest.mark.parametrize(
    ("name", "size"), [("lws", "4"), ("lws-x", "4"), ("lws-1", None), ("lws-1", "0"), ("lws-1", "x")]
)
def test_what_is_no_member_is_left_alone(name: str, size: str | None) -> None:
    given = pod(name, size=size)
    assert marks.injected(given) is given


def test_a_group_may_have_a_domain_and_a_subdomain_of_its_own() -> None:
    other = {"labelSelector": {}, "topologyKey": "zone"}
    given = pod("lws-1", leader=True, exclusive_topology="rack", subdomainPolicy="UniquePerReplica")
    given["spec"]["affinity"] = {"podAffinity": {REQUIRED: [other]}, "nodeAffinity": {"x": 1}}
    spec = marks.injected(given)["spec"]
    key = sha("ns/lws-1")
    assert spec["subdomain"] == "lws-1"
    affinity: Any = spec["affinity"]
    assert affinity["nodeAffinity"] == {"x": 1}
    here = {"matchExpressions": [{"key": marks.GROUP_KEY, "operator": "In", "values": [key]}]}
    assert affinity["podAffinity"][REQUIRED] == [other, {"labelSelector": here, "topologyKey": "rack"}]
    others = [
        {"key": marks.GROUP_KEY, "operator": "Exists"},
        {"key": marks.GROUP_KEY, "operator": "NotIn", "values": [key]},
    ]
    assert affinity["podAntiAffinity"][REQUIRED] == [
        {"labelSelector": {"matchExpressions": others}, "topologyKey": "rack"}
    ]


@pytest.mark.parametrize(
    ("size", "of_subgroup", "want"),
    [
        ("4", "2", "0011"),
        ("5", "2", "00011"),
        ("9", "4", "000001111"),
        ("8", "4", "00001111"),
        ("3", "1", "012"),
    ],
)
def test_subgroups(size: str, of_subgroup: str, want: str) -> None:
    """Where the leader is one more than whole subgroups, it is with the first."""
    for worker, index in enumerate(want):
        if worker == 0:
            made = marks.injected(pod("lws-1", leader=True, size=size, subgroup_size=of_subgroup))
        else:
            given = pod(f"lws-1-{worker}", size=size, subgroup_size=of_subgroup, leader_name="lws-1")
            made = marks.injected(given)
        labels = made["metadata"]["labels"]
        assert (labels[marks.SUBGROUP_INDEX], labels[marks.SUBGROUP_KEY]) == (index, sha(f"lws-1/{index}"))
