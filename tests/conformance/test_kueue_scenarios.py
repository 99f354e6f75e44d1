"""How recorded scenarios of Kueue are read, and how differences are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.main import main
from fairway.conformance.kueue_player import Player, by_their_jobs
from fairway.conformance.kueue_scenarios import verify_scenarios
from fairway.errors import InvalidInput
from fairway.kube.objects import Obj


def _scenario(observed: object) -> str:
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "x"},
        "spec": {},
    }
    step = {"do": [{"verb": "apply", "object": flavor}], "observed": observed, "rejected": []}
    return json.dumps({"name": "small", "steps": [step]}) + "\n"


def test_a_difference_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenarios.jsonl"
    file.write_text(_scenario({"jobs": {"a/train": {"active": 1}}}))
    assert main(["verify", "kueue-scenarios", str(file), "-v"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "line 1 small step 0: jobs a/train"
    assert printed[-1] == "agree 0 of 1"


def test_agreement_exits_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenarios.jsonl"
    file.write_text(_scenario({"jobs": {}, "pods": {}, "workloads": {}}))
    assert main(["verify", "kueue-scenarios", str(file), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"agreed": 1, "total": 1, "differences": []}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no scenarios"),
        ("nonsense\n", "expected a JSON object"),
        ('{"name": "x"}\n', "expected a scenario with a list of steps"),
        ('{"steps": [{"do": [{"verb": "apply"}]}]}\n', "expected an object with kind and metadata.name"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=says):
        verify_scenarios(file)


def test_workloads_in_messages_go_by_their_jobs() -> None:
    """Their own names end in a hash of a UID: what was recorded can never be equal."""
    names = {"job-big-0a1b2": "big", "job-bigger-99999": "bigger", "p1": "p1"}
    recorded = "Exceeded the PodsReady timeout a/job-big-ffffe"
    ours = "Exceeded the PodsReady timeout a/job-big-0a1b2"
    assert (
        by_their_jobs(recorded, names) == by_their_jobs(ours, names) == "Exceeded the PodsReady timeout a/big"
    )
    assert by_their_jobs("a/job-bigger-12345 and n-12345", names) == "a/bigger and n-12345"


def test_another_workload_in_a_message_is_a_difference() -> None:
    names = {"job-big-0a1b2": "big", "job-small-0a1b2": "small"}
    assert by_their_jobs("timeout a/job-small-ffffe", names) != by_their_jobs(
        "timeout a/job-big-0a1b2", names
    )


GROUP = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-name": "group"}


def _group_recorded_as(name: str) -> str:
    """Two pods in a group whose queue is missing; the recorder named their Workload so."""
    kueue = "kueue.x-k8s.io/v1beta2"
    objects: list[Obj] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        {"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": "x"}, "spec": {}},
    ]
    for pod in ("p1", "p2"):
        annotations = {"kueue.x-k8s.io/pod-group-total-count": "2"}
        meta = {"name": pod, "namespace": "a", "labels": GROUP, "annotations": annotations}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    said = {
        "Admitted": ("NoReservation", "The workload has no reservation"),
        "PodsReady": ("WaitForStart", "Not all pods are ready or succeeded"),
        "QuotaReserved": ("Misconfigured", "LocalQueue lq doesn't exist"),
    }
    conditions = {t: {"status": "False", "reason": r, "message": m} for t, (r, m) in said.items()}
    observed = {"workloads": {name: {"active": True, "admission": None, "conditions": conditions}}}
    step = {"do": [{"verb": "apply", "object": o} for o in objects], "observed": observed, "rejected": []}
    return json.dumps({"name": "group", "steps": [step]}) + "\n"


@pytest.mark.parametrize(("name", "agrees"), [("a/group", 1), ("a/p1", 1), ("a/other", 0)])
def test_a_workload_without_a_controller_is_found_by_any_name_of_its(
    tmp_path: Path, name: str, agrees: int
) -> None:
    file = tmp_path / "scenarios.jsonl"
    file.write_text(_group_recorded_as(name))
    assert verify_scenarios(file).agreed == agrees


def test_an_edit_that_the_api_server_refuses_changes_nothing() -> None:
    container = {"name": "c", "image": "i"}
    spec = {
        "parallelism": 2,
        "completions": 2,
        "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
    }
    meta = {"name": "fixed", "namespace": "default"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
    player = Player({})
    player.play({"do": [{"verb": "apply", "object": job}]})
    change = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"completions": 4}}
    player.play({"do": [{"verb": "patch", "object": change}]})
    (refused,) = player.refused
    assert refused["message"] == (
        'Job.batch "fixed" is invalid: spec.completions: Invalid value: 4: field is immutable'
    )
    player.play({"do": [{"verb": "apply", "object": {**job, "metadata": {**meta, "namespace": "nowhere"}}}]})
    assert [r["message"] for r in player.refused] == ['namespaces "nowhere" not found']


def test_pods_of_a_deployment_are_known_by_whatever_was_made_up(tmp_path: Path) -> None:
    """Their names hold a hash of the template and random letters; the one that waits is told from the others."""
    kueue = "kueue.x-k8s.io/v1beta2"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}
    offers = {"cpu": "9", "memory": "9Gi", "pods": "9"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": offers}}
    flavor = {"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}}
    quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "2"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    queue_spec = {"namespaceSelector": {}, "resourceGroups": groups}
    queue = {"apiVersion": kueue, "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": queue_spec}
    local = {
        "apiVersion": kueue,
        "kind": "LocalQueue",
        "metadata": {"name": "lq", "namespace": "a"},
        "spec": {"clusterQueue": "q"},
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "a", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }
    objects = [space, node, flavor, queue, local, deployment]
    step: dict[str, object] = {"do": [{"verb": "apply", "object": o} for o in objects], "rejected": []}
    seen = Player({}).play(step)
    assert len(seen["workloads"]) == 3
    (replica_set,) = (name for name in seen["pods"] if name.startswith("a/web-"))
    step["observed"] = seen
    row = json.dumps({"name": "web", "steps": [step]}).replace(replica_set, "a/web-6b8c9d5f7b")
    for number, workload in enumerate(sorted(seen["workloads"])):
        made_up = workload.rpartition("-")[2]
        row = row.replace(f'-{made_up}"', f'-{number}zzzz"')
    file = tmp_path / "scenarios.jsonl"
    file.write_text(row + "\n")
    assert verify_scenarios(file).differences == []


def _bare(pods: dict[str, dict[str, int]], *, nodes: int, replicas: int, pinned: bool = False) -> str:
    """A ReplicaSet of pods with 4 CPUs on nodes that have 4 each, and where they were seen."""
    offers = {"cpu": "4", "memory": "9Gi", "pods": "9"}
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    objects: list[Obj] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}]
    for number in range(nodes):
        status = {"allocatable": offers, "capacity": offers, "conditions": ready}
        meta: Obj = {"name": f"n{number}", "labels": {"zone": f"z{number}"}}
        objects.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
    spec: Obj = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}]}
    if pinned:
        spec["nodeSelector"] = {"zone": "z0"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    selector = {"matchLabels": {"app": "web"}}
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "a"},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }
    doing = [{"verb": "apply", "object": o} for o in [*objects, made]]
    return (
        json.dumps({"name": "s", "steps": [{"do": doing, "observed": {"pods": pods}, "rejected": []}]}) + "\n"
    )


SEEN: dict[str, tuple[dict[str, int], int, int, bool, int]] = {
    "one runs, one waits": ({"n0": 1, "null": 1}, 1, 2, False, 1),
    "one runs, one waits for no node": ({"n0": 1, "": 1}, 1, 2, False, 1),
    "who waits was not seen": ({"n0": 1}, 1, 2, False, 0),
    "nobody waits": ({"n0": 2}, 1, 2, False, 0),
    "either node will do": ({"n1": 1}, 2, 1, False, 1),
    "and the other": ({"n0": 1}, 2, 1, False, 1),
    "one node alone will do": ({"n1": 1}, 2, 1, True, 0),
    "it was that one": ({"n0": 1}, 2, 1, True, 1),
    "too many": ({"n0": 1, "n1": 1}, 2, 1, False, 0),
}


@pytest.mark.parametrize("name", SEEN)
def test_pods_with_and_without_nodes(tmp_path: Path, name: str) -> None:
    """Under another hash than was recorded."""
    pods, nodes, replicas, pinned, agreed = SEEN[name]
    file = tmp_path / "scenarios.jsonl"
    file.write_text(_bare({"a/web-6b8c9d5f7b": pods}, nodes=nodes, replicas=replicas, pinned=pinned))
    assert verify_scenarios(file).agreed == agreed
    file.write_text(_bare({"a/wab-6b8c9d5f7b": pods}, nodes=nodes, replicas=replicas, pinned=pinned))
    assert verify_scenarios(file).agreed == 0
