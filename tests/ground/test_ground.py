"""One seam: every ground of one cluster gives the same answers, says what it lacks, and its twin goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairway.answers.explanation import NOTED
from fairway.answers.podlinks import provisioning_links
from fairway.apiserver.bodies import Bodies
from fairway.apiserver.journal import Journal, fill
from fairway.errors import InvalidInput, UserError
from fairway.ground import Moment, open_ground
from fairway.ground.dumps import NO_RECORD
from fairway.kube.objects import Obj, name_of, spec_of, status_of
from fairway.results.queuestate import as_json, pending_lines, state_of

EXAMPLES = Path(__file__).parents[2] / "examples"
NIGHT = EXAMPLES / "09-night-borrowing"
_AT = "8h"
_HOUR_US = 3_600_000_000


@pytest.fixture(scope="module")
def night() -> Moment:
    return open_ground(NIGHT).at(_AT)


def everything(moment: Moment) -> list[Obj]:
    return [obj for gk in moment.store.kinds() for obj in moment.store.objects(gk)]


TEMPLATE: Obj = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def dumped(path: Path, items: list[Obj]) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return path


def bound(moment: Moment) -> dict[str, str]:
    return {name_of(p): spec_of(p).get("nodeName", "") for p in moment.store.objects("Pod")}


def waiting(moment: Moment) -> list[Any]:
    return [
        {k: line[k] for k in ("name", "position", "verdict", "reason", "message")}
        for line in map(as_json, pending_lines(state_of(moment.twin)))
    ]


def test_a_dump_and_a_journal_say_what_the_scenario_says(night: Moment, tmp_path: Path) -> None:
    dump = open_ground(dumped(tmp_path / "dump.json", everything(night)))
    folder = tmp_path / "data"
    folder.mkdir()
    fill(Journal(folder, Bodies()), night.store)
    before = {f.name: f.read_bytes() for f in folder.iterdir()}
    journal = open_ground(folder)
    assert (dump.kind, journal.kind) == ("dump", "served")
    for moment in (dump.at(), journal.at()):
        assert bound(moment) == bound(night)
        assert waiting(moment) == waiting(night) != []
    assert journal.at().now_us == night.now_us and not journal.at().unseen
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == before, "a journal is only read"


def test_who_opens_nodes_is_assumed_of_a_dump_and_known_of_what_is_served(
    night: Moment, tmp_path: Path
) -> None:
    moment = night.fork()
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpus"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpus"},
                    "requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
                    ],
                }
            }
        },
    }
    (folder := tmp_path / "data").mkdir()
    dump = open_ground(dumped(tmp_path / "dump.json", [*everything(moment), pool])).at()
    fill(Journal(folder, Bodies()), dump.store)
    journal = open_ground(folder).at()
    assert "karpenter" in dump.twin.host.parts and "karpenter" not in journal.twin.host.parts
    (nowhere,) = provisioning_links(journal, next(iter(journal.store.objects("Pod"))))
    assert nowhere.state == NOTED and "nothing opens nodes" in nowhere.message


def test_its_twin_goes_on_and_the_moment_stays(night: Moment, tmp_path: Path) -> None:
    moment = open_ground(dumped(tmp_path / "dump.json", everything(night))).at()
    was = waiting(moment)
    later = moment.fork()
    later.run_for(12 * _HOUR_US)
    finished = [p for p in later.store.objects("Pod") if status_of(p).get("phase") == "Succeeded"]
    assert finished and waiting(Moment(later)) != was
    assert waiting(moment) == was


def test_what_comes_later_has_a_uid_of_its_own(tmp_path: Path) -> None:
    # Written down by a cluster of seed 0, and long before the newest of what it made.
    old = {"name": "old", "namespace": "default", "uid": "00000002-0000-4000-8000-000000000000"}
    there: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": old}
    twin = open_ground(dumped(tmp_path / "dump.json", [there])).at().fork()
    for name in ("new", "newer", "newest"):
        meta = {"name": name, "namespace": "default"}
        twin.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}])
    uids = [o["metadata"]["uid"] for o in twin.store.objects("ConfigMap")]
    assert len(set(uids)) == len(uids) == 4


def test_one_bad_object_is_left_out_and_named(night: Moment, tmp_path: Path) -> None:
    odd: list[Any] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "uid": "u1"},
            "spec": {"containers": 5},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u2"}},
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n", "uid": "u3"},
            "status": {"capacity": []},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": "none", "status": 7},
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "w", "uid": "u4"},
            "spec": 1,
        },
    ]
    moment = open_ground(dumped(tmp_path / "dump.json", [*odd, *everything(night)])).at()
    assert bound(moment) == bound(night)
    assert sum("left out" in note for note in moment.notes) == 4  # three are named, the others counted


def test_a_dump_says_what_it_lacks(night: Moment, tmp_path: Path) -> None:
    some = [o for o in everything(night) if o["kind"] in ("Workload", "Pod", "Job")]
    moment = open_ground(dumped(tmp_path / "dump.json", some)).at()
    assert {"Node", "ClusterQueue.kueue.x-k8s.io"} <= moment.unseen
    assert any("holds no nodes" in note for note in moment.notes)
    assert any("holds no ClusterQueues" in note for note in moment.notes)
    ahead = open_ground(tmp_path / "dump.json").at("2026-01-05T00:00:01Z")
    assert any("clocks differ" in note for note in ahead.notes)


def test_objects_tell_their_own_past(night: Moment, tmp_path: Path) -> None:
    """What a recorder that looked all along wrote down, and what is left in the objects: the same within seconds."""
    seen = {row.uid: row for row in open_ground(NIGHT).history(_AT).outcome.pods}
    ground = open_ground(dumped(tmp_path / "dump.json", everything(night)))
    told = ground.history()
    assert told.info.notes == (NO_RECORD,) and len(told.outcome.nodes) == len(night.store.objects("Node"))
    rows = list(told.outcome.pods)
    assert len(rows) == night.store.count("Pod") > 20
    for row in rows:
        for name in ("created_us", "scheduled_us", "started_us", "finished_us"):
            ours, theirs = getattr(row, name), getattr(seen[row.uid], name)
            assert (ours is None) == (theirs is None), (row.name, name)
            assert ours is None or abs(ours - theirs) <= 2_000_000, (row.name, name)


def test_a_past_that_contradicts_itself_is_put_in_order(tmp_path: Path) -> None:
    terminated = {"startedAt": "2026-01-05T12:00:00Z", "finishedAt": "2026-01-05T09:00:00Z", "exitCode": 0}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "team",
            "uid": "u",
            "creationTimestamp": "2026-01-05T10:00:00Z",
        },
        "spec": {"nodeName": "gone", "containers": [{"name": "c", "image": "i"}]},
        "status": {
            "phase": "Succeeded",
            "startTime": "2026-01-05T08:00:00Z",
            "containerStatuses": [{"name": "c", "state": {"terminated": terminated}}],
        },
    }
    (row,) = open_ground(dumped(tmp_path / "dump.json", [pod])).history("2026-01-05T11:00:00Z").outcome.pods
    assert row.created_us <= row.scheduled_us <= row.started_us <= row.finished_us


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "expected at least one Kubernetes object"),
        ("{", "expected"),
        ("kind: Config\napiVersion: v1\nclusters: []\n", "current-context"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {uid: u}\n", "none of its 1 documents can be used"),
    ],
)
def test_what_is_no_ground(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises((InvalidInput, UserError), match=said):
        open_ground(path).at()
    with pytest.raises(InvalidInput, match="no such file"):
        open_ground(tmp_path / "nowhere")


def test_what_an_unread_owner_or_node_holds_stays(night: Moment, tmp_path: Path) -> None:
    """`kubectl get nodes,pods` names owners that were not asked for, `kubectl get pods` nodes."""
    pods, nodes = night.store.objects("Pod"), night.store.objects("Node")
    running = {name_of(p) for p in pods if status_of(p).get("phase") == "Running"}
    assert running and all(p["metadata"].get("ownerReferences") for p in pods if name_of(p) in running)
    for number, items in enumerate(([*nodes, *pods], [*pods])):
        twin = open_ground(dumped(tmp_path / f"{number}.json", items)).at().fork()
        twin.wake()
        twin.run_for(120_000_000)
        ended = {name_of(p) for p in pods} - {name_of(p) for p in twin.store.objects("Pod")}
        assert not running & ended


def test_a_dump_without_pods_says_that_it_does_not_know_what_is_free(night: Moment, tmp_path: Path) -> None:
    moment = open_ground(dumped(tmp_path / "nodes.json", list(night.store.objects("Node")))).at()
    assert any("holds no pods" in note for note in moment.notes)


@pytest.mark.parametrize(
    "api, kind, spec",
    [
        ("batch/v1", "Job", {"parallelism": 999_999_999, "template": TEMPLATE}),
        ("apps/v1", "Deployment", {"replicas": 100_001, "selector": {}, "template": TEMPLATE}),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "w", "replicas": 100_001, "template": {"spec": {"template": TEMPLATE}}}
                ]
            },
        ),
    ],
)
def test_more_pods_than_can_be_played_are_left_out_and_named(
    api: str, kind: str, spec: Obj, tmp_path: Path
) -> None:
    meta = {"name": "many", "namespace": "d", "uid": "u-1"}
    many = {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}
    one = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}}
    moment = open_ground(dumped(tmp_path / "dump.json", [one, many])).at()
    assert [note for note in moment.notes if "100,000 are played" in note]
    assert not any(
        moment.store.count(gk) for gk in ("Job.batch", "Deployment.apps", "JobSet.jobset.x-k8s.io")
    )
