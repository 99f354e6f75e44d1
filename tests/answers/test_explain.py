"""One cluster per layer: the layer that says no is named, in its engine's words, with its numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import answerworlds as worlds
import pytest
from answerworlds import job, moment_of, namespace, node, pod
from contestedworlds import OPEN_POOL
from variedworlds import cloud

from fairway.answers.changes import with_changes
from fairway.answers.explain import explain_named
from fairway.answers.explaintext import NOTHING_HELPS, explanation_lines
from fairway.answers.trials import has_started
from fairway.cli.main import main
from fairway.errors import UserError
from fairway.ground import Moment, open_ground
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import MINUTE_US
from fairway.results.textlayout import as_text
from fairway.scheduling.profile import DEFAULT_PROFILE
from fairway.twin.latency import latency_named
from fairway.twin.provisioner.component import Provisioner
from fairway.twin.standard import standard_components
from fairway.twin.twin import Twin

EXAMPLES = Path(__file__).parents[2] / "examples"
_QUEUES = [
    namespace("team"),
    worlds.flavor("gpus"),
    worlds.cluster_queue("a", {"gpus": 4}, "c", preemption={"withinClusterQueue": "LowerPriority"}),
    worlds.cluster_queue("b", {"gpus": 4}, "c"),
    worlds.local_queue("main", "a"),
]
_TEAM_OF_A = [namespace("team"), worlds.local_queue("main", "a")]


def asked(text: str, *waves: list[Obj], home: str | None = None) -> dict[str, Any]:
    return explain_named(moment_of(*waves), text, home).as_json()


def test_quota_says_how_much_where_and_who_may_not_be_evicted() -> None:
    found = asked("job/late", [node("n", 16), *_QUEUES], [job("early", 8)], [job("late", 2)])
    blocker = found["blocker"]
    assert (blocker["layer"], blocker["reason"]) == ("quota", "WaitingForQuota")
    assert "insufficient unused quota for nvidia.com/gpu in flavor gpus, 2 more needed" in blocker["message"]
    (flavor,) = blocker["numbers"]["flavors"]
    assert (flavor["asked"], flavor["free"], flavor["short"], flavor["limited_by"]) == (2, 0, 2, "Cohort c")
    preemption = found["chain"][-1]
    assert (
        preemption["layer"] == "preemption"
        and "withinClusterQueue LowerPriority spares" in preemption["message"]
    )
    assert found["sentence"].startswith("Job team/late waits for quota: ")


def test_without_kueue_a_queues_name_is_a_label_like_any_other() -> None:
    plain = job("big", 16)
    del plain["spec"]["suspend"]
    found = asked("job/big", [node("n"), namespace("team")], [plain])
    assert found["blocker"]["layer"] == "scheduler"
    assert "Insufficient nvidia.com/gpu" in found["blocker"]["message"]
    found = asked("job/big", [node("n"), namespace("team"), worlds.flavor("gpus")], [plain])
    assert (found["blocker"]["layer"], found["blocker"]["message"]) == (
        "queue",
        "LocalQueue main doesn't exist",
    )


_TAINT = {"key": "team", "value": "x", "effect": "NoSchedule"}
_KUEUE_FLAVORS = {
    "quota alone": ([], {}, 2, ["quota"]),
    "taint alone": ([_TAINT], {}, 8, ["scheduler"]),
    "quota and taint": ([_TAINT], {}, 2, ["quota", "scheduler"]),
    "labels alone": ([], {"gpu": "h100"}, 8, ["scheduler"]),
    "quota and labels": ([], {"gpu": "h100"}, 2, ["quota", "scheduler"]),
}


@pytest.mark.parametrize("case", _KUEUE_FLAVORS)
def test_what_flavors_refuse_is_not_quota(case: str) -> None:
    taints, labels, quota, want_layers = _KUEUE_FLAVORS[case]
    flavor = worlds.flavor("gpus", **labels)
    flavor["spec"]["nodeTaints"] = taints
    queue = worlds.cluster_queue("a", {"gpus": quota})
    work = job("j", 4, nodeSelector={"gpu": "a100"})
    found = asked("job/j", [node("n"), *_TEAM_OF_A, flavor, queue], [work])
    blocked = [link for link in found["chain"] if link["state"] == "blocked"]
    assert [link["layer"] for link in blocked] == want_layers
    assert found["blocker"]["layer"] == want_layers[0]
    if "quota" in want_layers:
        assert "insufficient quota for nvidia.com/gpu in flavor gpus" in found["blocker"]["message"]
    if "scheduler" in want_layers:
        assert list(blocked[-1]["numbers"]["mismatches"]) == ["gpus"]
        assert blocked[-1]["reason"] == "NoMatchingFlavor"


def test_a_topology_that_is_full_is_not_quota() -> None:
    flavor = worlds.flavor("gpus", gpu="a100")
    flavor["spec"]["topologyName"] = "racks"
    levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    api = {"apiVersion": worlds.KUEUE, "kind": "Topology", "metadata": {"name": "racks"}}
    nodes = [node(f"n{i}", 4, {"gpu": "a100", "rack": f"r{i}"}) for i in range(2)]
    wide = job("wide", 4, 2)
    wide["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"] = "rack"
    queue = worlds.cluster_queue("a", {"gpus": 8})
    moment = moment_of([*nodes, {**api, "spec": {"levels": levels}}, *_TEAM_OF_A, flavor, queue], [wide])
    found = explain_named(moment, "job/wide")
    assert (found.blocker.layer, found.blocker.reason) == ("scheduler", "TopologyPlacementFailed")
    assert 'topology "racks" allows to fit only 1 out of 2 pod(s)' in found.blocker.message
    assert [link.state for link in found.chain if link.layer == "quota"] == []
    changed = with_changes(moment, found)
    assert "no topology asked for" in [c.what for c in changed.changes or ()]


def test_what_makes_a_queue_inactive_is_said() -> None:
    stopped = worlds.cluster_queue("a", {"gpus": 8, "gone": 8}, stopPolicy="Hold")
    found = asked("job/j", [*_TEAM_OF_A, worlds.flavor("gpus"), stopped], [job("j", 1)])
    said = "ClusterQueue a is inactive: its stopPolicy is Hold, references missing ResourceFlavor(s): gone"
    assert found["blocker"]["message"] == said
    local = worlds.local_queue("main", "a")
    local["spec"]["stopPolicy"] = "HoldAndDrain"
    queue = worlds.cluster_queue("a", {"gpus": 8})
    found = asked("job/j", [namespace("team"), local, worlds.flavor("gpus"), queue], [job("j", 1)])
    assert found["blocker"]["message"] == "LocalQueue main is inactive: its stopPolicy is HoldAndDrain"


def test_pods_that_kueue_gates_one_by_one_wait_for_quota() -> None:
    template = worlds.template(2, restartPolicy="Always")
    template["metadata"]["labels"] = {"app": "web"}
    meta = {"name": "web", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    queue = worlds.cluster_queue("a", {"gpus": 3})
    found = asked("deployment/web", [node("n"), *_TEAM_OF_A, worlds.flavor("gpus"), queue], [web])
    assert (found["blocker"]["layer"], found["blocker"]["reason"]) == ("quota", "WaitingForQuota")
    assert "1 more needed" in found["blocker"]["message"]


def test_a_queue_that_is_elsewhere() -> None:
    found = asked("job/lost", [*_QUEUES, namespace("other")], [job("lost", 1, namespace="other")])
    assert found["blocker"]["layer"] == "queue"
    assert found["blocker"]["message"] == "LocalQueue main doesn't exist"
    assert found["chain"][0]["details"] == ["a LocalQueue main is in team, not in other"]


def test_strict_order_names_the_head() -> None:
    strict = worlds.cluster_queue("s", {"gpus": 4}, queueingStrategy="StrictFIFO")
    found = asked(
        "job/small",
        [node("n"), *_QUEUES, strict, worlds.local_queue("strict", "s")],
        [job("large", 16, queue="strict")],
        [job("small", 1, queue="strict")],
    )
    assert (found["blocker"]["layer"], found["blocker"]["reason"]) == ("queue", "StrictFIFO")
    assert "large" in found["blocker"]["numbers"]["behind"]


def test_every_nodes_filter_and_the_nearest_node() -> None:
    taint = [{"key": "team", "value": "infra", "effect": "NoSchedule"}]
    nodes = [node("n1", 4), node("n2", 8, taints=taint), node("n3", 0)]
    found = asked("pod/p", nodes, [pod("held", 2), pod("p", 4)])
    assert found["blocker"]["layer"] == "scheduler"
    assert found["blocker"]["message"].startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu."
    )
    assert found["blocker"]["numbers"]["nearest"] == {
        "node": "n1",
        "short": {"nvidia.com/gpu": {"asked": 4, "free": 2, "short": 2}},
    }
    assert "node(s) had untolerated taint(s): n2" in found["chain"][0]["details"]


def test_refused_pods_are_an_admission() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": "team"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "1"}},
    }
    moment = moment_of([node("n"), namespace("team"), quota], [job("big", 4, queue="")])
    found = with_changes(moment, explain_named(moment, "job/big"))
    assert found.blocker.layer == "admission"
    assert "exceeded quota: small" in found.blocker.message
    assert found.changes is not None and "nvidia.com/gpu in container main" in found.changes[0].what


def test_a_kubelet_that_misses_a_secret_and_the_secret_that_helps() -> None:
    container = {"name": "main", "image": "i", "envFrom": [{"secretRef": {"name": "token"}}]}
    made = pod("p", 0, containers=[container])
    moment = moment_of([node("n")], [made])
    found = with_changes(moment, explain_named(moment, "p"))
    assert (found.blocker.layer, found.blocker.reason) == ("kubelet", "CreateContainerConfigError")
    assert found.blocker.message == 'secret "token" not found'
    assert found.changes is not None and found.changes[0].what == "Secret token created"


def test_a_claim_that_is_not_there() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    found = asked("pod/p", [node("n")], [pod("p", 0, volumes=[volume])])
    assert found["blocker"]["layer"] == "volumes"
    assert 'persistentvolumeclaim "data" not found' in found["blocker"]["message"]


def _storage_class(name: str, *, is_default: bool = False) -> Obj:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if is_default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def test_what_a_missing_claim_hides_of_nodes_comes_first() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]
    found = asked("pod/p", [namespace("team"), node("n", 1)], [pod("p", 4, "team", volumes=volumes)])
    assert [(link["layer"], link["state"]) for link in found["chain"]] == [
        ("scheduler", "blocked"),
        ("volumes", "blocked"),
    ]
    assert "1 Insufficient nvidia.com/gpu" in found["blocker"]["message"]


@pytest.mark.parametrize("claimed", [False, True])
def test_a_claim_of_a_class_there_is_starts_it(claimed: bool) -> None:
    """It is not there, or is of a class that is not there; the default class is taken."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gone",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": "data", "namespace": "default"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    there = [node("n"), _storage_class("a-slow"), _storage_class("fast", is_default=True)]
    moment = moment_of([*there, *([claim] if claimed else [])], [pod("p", 0, volumes=[volume])])
    found = with_changes(moment, explain_named(moment, "pod/p"))
    assert found.blocker.layer == "volumes" and found.changes
    assert "StorageClass fast" in found.changes[0].what
    verb = "kubectl replace --force" if claimed else "kubectl apply"
    assert verb in found.changes[0].commands[0]


def _gang(kind: str, least: int) -> Obj:
    meta = {"name": "g", "namespace": "default"}
    if kind == "Coscheduling":
        version, spec = "scheduling.x-k8s.io/v1alpha1", {"minMember": least}
    else:
        version, spec = "scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": least}}}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}


def _member(kind: str, index: int) -> Obj:
    if kind == "GangScheduling":
        return pod(f"m-{index}", 4, schedulingGroup={"podGroupName": "g"})
    made = pod(f"m-{index}", 4)
    made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    return made


@pytest.mark.parametrize("kind", ["Coscheduling", "GangScheduling"])
def test_a_gang_that_lacks_members_or_room_is_what_its_pods_wait_for(kind: str) -> None:
    """Each pod by itself would fit."""
    profile = replace(DEFAULT_PROFILE, permits=frozenset({kind}))
    group = _gang(kind, 3)
    few = moment_of([node("n", 16), group], [_member(kind, i) for i in range(2)], profile=profile)
    found = explain_named(few, "pod/m-0")
    assert (found.blocker.layer, found.blocker.reason) == ("gang", kind)
    tight = moment_of([node("n", 8), group], [_member(kind, i) for i in range(3)], profile=profile)
    found = with_changes(tight, explain_named(tight, "pod/m-0"))
    assert (found.blocker.layer, found.blocker.reason) == ("gang", kind)
    assert found.blocker.numbers == {"group": "g", "least": 3, "placed": 0, "fit": 2, "pods": 3}
    fewer = ["PodGroup g asks for 2 pods instead of 3"] if kind == "Coscheduling" else []
    assert [change.what for change in found.changes or ()] == [*fewer, "1 more node (like n)"]
    # What was named is what holds it: with as many pods as fit it is no gang's matter.
    room = moment_of([node("n", 12), group], [_member(kind, i) for i in range(3)], profile=profile)
    assert explain_named(room, "pod/m-0").state == "Running"


@pytest.mark.parametrize(
    ("missing", "more"),
    [(1, ["1 more pod in PodGroup g"]), (256, ["256 more pods in PodGroup g"]), (257, []), (2**31 - 2, [])],
)
def test_as_many_more_pods_are_proposed_as_can_be_tried(missing: int, more: list[str]) -> None:
    profile = replace(DEFAULT_PROFILE, permits=frozenset({"Coscheduling"}))
    one = pod("m-0", 0)
    one["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    large = node("n")
    large["status"] = {"allocatable": {"cpu": "64", "pods": "500"}}
    moment = moment_of([large, _gang("Coscheduling", 1 + missing)], [one], profile=profile)
    found = with_changes(moment, explain_named(moment, "pod/m-0"))
    fewer = f"PodGroup g asks for 1 pods instead of {1 + missing}"
    assert [change.what for change in found.changes or ()] == [*more, fewer]


def test_a_group_that_is_not_there() -> None:
    profile = replace(DEFAULT_PROFILE, permits=frozenset({"Coscheduling"}))
    moment = moment_of([node("n", 8)], [_member("Coscheduling", 0)], profile=profile)
    found = with_changes(moment, explain_named(moment, "pod/m-0"))
    assert (found.blocker.layer, found.blocker.message) == ("gang", "PodGroup not found")
    assert [change.what for change in found.changes or ()] == ["a PodGroup g of 1 pods"]


_PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}


def test_a_group_that_is_tried_as_one_preempts_nobody() -> None:
    profile = replace(DEFAULT_PROFILE, permits=frozenset({"GangScheduling"}))
    gang = [_member("GangScheduling", i) for i in range(2)]
    for one in gang:
        one["spec"]["priorityClassName"] = "high"
    waves = [[node("n", 8), _PRIORITY, _gang("GangScheduling", 2)], [pod("low", 8)], gang]
    found = explain_named(moment_of(*waves, profile=profile), "pod/m-0")
    assert (found.blocker.layer, found.blocker.numbers["fit"]) == ("gang", 0)
    assert "nearest" in found.blocker.numbers, "what the pod lacks by itself is told, too"


def test_who_preempts_needs_no_node_to_be_opened() -> None:
    limits = {"template": OPEN_POOL["spec"]["template"], "limits": {"cpu": "0"}}
    parts = [*standard_components(), Provisioner(cloud())]
    twin = Twin(seed=1, latency=latency_named("zero"), components=parts)
    twin.apply([node("n", 8), {**OPEN_POOL, "spec": limits}, pod("low", 8)])
    twin.run_for(MINUTE_US)
    twin.apply([pod("late", 8, priority=1000)])
    found = explain_named(Moment(twin), "pod/late")
    assert (found.blocker.layer, found.blocker.state) == ("preemption", "waits")
    assert [link.state for link in found.chain if link.layer == "provisioning"] == ["noted"]


def test_a_crash_is_the_kubelets_to_tell() -> None:
    crash = pod("p", 0, restartPolicy="Always")
    crash["metadata"]["annotations"] = {"fairway.dev/run-time": "5s", "fairway.dev/exit-code": "137"}
    found = asked("pod/p", [node("n")], [crash])
    assert found["blocker"]["layer"] == "kubelet" and found["blocker"]["reason"] == "CrashLoopBackOff"
    assert found["blocker"]["numbers"]["exit_code"] == 137


def test_a_node_that_does_not_empty() -> None:
    kept = pod("kept", 1)
    kept["metadata"]["labels"] = {"app": "kept"}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    found = asked("node/n", [node("n")], [kept, budget])
    assert found["sentence"].startswith(
        "Node n does not empty: 1 of 1 pods may not be evicted: default/kept: "
    )
    assert "disruption budget" in found["sentence"]
    alone = asked("node/n", [node("n")], [pod("p", 1, volumes=[{"name": "v", "emptyDir": {}}])])
    assert alone["blocker"]["layer"] == "none"
    assert (
        alone["chain"][1]["message"]
        == "kubectl drain asks for --force (1 pods), --delete-emptydir-data (1 pods)"
    )


def test_queues_say_whether_they_admit() -> None:
    held = {**worlds.cluster_queue("h", {"gpus": 4}, stopPolicy="Hold")}
    found = asked("clusterqueue/h", [*_QUEUES, held])
    assert (found["state"], found["blocker"]["layer"]) == ("Inactive", "queue")
    full = asked("localqueue/main", [node("n", 16), *_QUEUES], [job("early", 8)], [job("late", 2)])
    assert full["blocker"]["layer"] == "quota" and "the first is team/job-late" in full["chain"][1]["message"]


def test_a_nodepool_says_why_it_opens_nothing() -> None:
    spec = {
        "template": {"spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "x"}, "requirements": []}}
    }
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpus"}, "spec": spec}
    moment = moment_of([node("n")])
    moment.twin.apply([pool])
    assert "no Karpenter runs here" in explain_named(moment, "nodepool/gpus").sentence


def test_nothing_helps_is_said() -> None:
    moment = moment_of(
        [node("n", 1)], [pod("p", 0, nodeSelector={"kubernetes.io/hostname": "gone", "a": "b"}, nodeName="")]
    )
    found = with_changes(moment, explain_named(moment, "pod/p"))
    nobodys = pod("q", 0)
    nobodys["spec"]["containers"][0]["resources"] = {
        "requests": {"example.com/x": "1"},
        "limits": {"example.com/x": "1"},
    }
    empty = moment_of([], [nobodys])
    impossible = with_changes(empty, explain_named(empty, "pod/q"))
    assert found.tried > 1
    text = as_text(explanation_lines(impossible, 80))
    assert NOTHING_HELPS.split("{")[0] in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_a_type_of_the_catalog_where_no_node_offers_it() -> None:
    moment = moment_of([node("n", 0, {"topology.kubernetes.io/zone": "us-east-1a"})], [pod("p", 8)])
    found = with_changes(moment, explain_named(moment, "pod/p"))
    by_node = [c for c in found.changes or () if "more node" in c.what]
    assert by_node and all(c.cost_micro_usd for c in by_node), "a node of the region, at its price"
    zone = "topology.kubernetes.io/zone=us-east-1a,topology.kubernetes.io/region=us-east-1"
    assert f"# open g6.48xlarge, with labels {zone}" in [c.commands[0] for c in by_node]


def test_a_rayjob_whose_submitter_is_refused_has_not_started() -> None:
    head = {"spec": {"containers": [{"name": "head", "image": "ray", "resources": {}}]}}
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "r", "namespace": "team"},
        "spec": {
            "entrypoint": "true",
            "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": head}},
        },
    }
    few = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "team"},
        "spec": {"hard": {"pods": "1"}},
    }
    moment = moment_of([node("n"), namespace("team"), few], [ray])
    key = Key("RayJob.ray.io", "team", "r")
    status = moment.store.require(key)["status"]
    assert (status["jobDeploymentStatus"], status["jobStatus"]) == ("Running", "")
    assert not has_started(moment.store, key)
    assert "exceeded quota: few" in explain_named(moment, "rayjob/r", None).sentence
    twin = moment.fork()
    twin.store.delete(Key("ResourceQuota", "team", "few"))
    twin.wake()
    twin.run_for(15 * MINUTE_US)
    assert has_started(twin.store, key)


def test_what_runs_is_not_explained_away() -> None:
    found = asked("pod/p", [node("n")], [pod("p", 1)])
    assert (found["blocker"]["layer"], found["state"]) == ("none", "Running")


def test_a_dump_without_nodes_says_that_it_does_not_know(tmp_path: Path) -> None:
    moment = moment_of([node("n", 1)], [pod("p", 4)])
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": moment.store.objects("Pod")}))
    found = explain_named(open_ground(path).at(), "pod/p")
    assert found.blocker.layer == "none" and "no nodes were read" in found.sentence
    assert any("holds no nodes" in note for note in found.unknown)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pod/nobody", "not there"),
        ("thing/x/y", "no kind"),
        ("twice", "say which, such as pod/twice -n default"),
        ("pod/heldd", "did you mean held"),
    ],
)
def test_names(text: str, said: str) -> None:
    moment = moment_of(
        [node("n")], [pod("held", 1), pod("twice", 0), namespace("team"), pod("twice", 0, "team")]
    )
    with pytest.raises(UserError, match=said):
        explain_named(moment, text)


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ground = str(EXAMPLES / "07-training-gang")
    arguments = ["explain", "jobset/ablation", "-n", "research", "--on", ground, "--at", "2h"]
    assert main(arguments) == 1
    text = capsys.readouterr().out
    assert "waits for quota" in text and "kubectl patch jobset.jobset.x-k8s.io/ablation" in text
    assert main([*arguments, "--no-changes", "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert list(found["blocker"]) == ["layer", "reason", "message", "numbers"] and found["changes"] is None
    monkeypatch.setenv("FAIRWAY_DATA", str(tmp_path / "none"))
    assert main(["explain", "pod/x"]) == 2
    assert "--on is needed" in capsys.readouterr().err


def test_asking_is_not_acting() -> None:
    moment = moment_of([node("n", 1)], [pod("p", 4), pod("q", 1)])
    was = moment.twin.digest()
    with_changes(moment, explain_named(moment, "pod/p"))
    assert moment.twin.digest() == was and isinstance(moment, Moment)
