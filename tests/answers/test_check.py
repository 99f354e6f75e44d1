"""What would become of a manifest: every verdict, with its policy, place, victims, time and price."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import answerworlds as worlds
import pytest
from answerworlds import job, moment_of, namespace, node, pod

from fairway.admission.request import ADMIN
from fairway.answers.check import NEVER, REFUSED, STARTS, WAITS, Check, check
from fairway.answers.checktext import check_lines
from fairway.cli.main import main
from fairway.ground import Moment, open_ground
from fairway.kube.manifest import Manifest, read_path
from fairway.kube.objects import Obj

_PRIORITIES = [
    {"apiVersion": worlds.KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("low", 10), ("high", 1000))
]


def asked(moment: Moment, *objects: Obj) -> Check:
    return check(moment, [Manifest(o, "x.yaml") for o in objects], ADMIN)


def team(quota: int = 8, gpus: int = 8) -> list[Obj]:
    preemption = {"withinClusterQueue": "LowerPriority"}
    queue = worlds.cluster_queue("a", {"gpus": quota}, preemption=preemption)
    machine = node("n", gpus, {"node.kubernetes.io/instance-type": "p5.48xlarge"})
    return [
        machine,
        namespace("team"),
        worlds.flavor("gpus"),
        queue,
        worlds.local_queue("main", "a"),
        *_PRIORITIES,
    ]


def test_it_starts_where_when_and_at_what_price() -> None:
    found = asked(moment_of(team()), job("train", 4))
    (one,) = found.documents
    assert (one.verdict, one.queue, one.flavors, one.nodes) == (STARTS, "a", ("gpus",), ("n",))
    assert one.starts_s is not None and one.starts_s <= 60 and found.is_fine(60) and not found.is_fine(0.5)
    # Half of a machine of $55.04 an hour (us-east-1).
    assert one.micro_usd_per_hour is not None and 20_000_000 < one.micro_usd_per_hour < 60_000_000


def test_it_says_whom_it_preempts() -> None:
    held = job("held", 8)
    held["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "low"
    urgent = job("urgent", 8)
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    found = asked(moment_of(team(), [held]), urgent)
    assert found.documents[0].verdict == STARTS and found.preempts == ("team/held",)


def test_an_immutable_field_is_not_printed_whole() -> None:
    there = job("train", 4)
    moment = moment_of(team(), [there])
    other = job("train", 2)
    found = asked(moment, other)
    assert found.documents[0].verdict == REFUSED and '"Containers"' in found.documents[0].message
    text = " ".join(line.text for line in check_lines(found, 200))
    assert "spec.template: Invalid value: {…}: field is immutable" in text and "Containers" not in text


def test_waiting_is_no_failure_and_never_is_one() -> None:
    moment = moment_of(team(), [job("held", 8)])
    waits, never, lost = asked(
        moment, job("late", 2), job("huge", 64), job("lost", 1, queue="gone")
    ).documents
    assert (waits.verdict, waits.blocker and waits.blocker.layer) == (WAITS, "quota")
    assert (never.verdict, never.blocker and never.blocker.reason) == (NEVER, "ExceedsMaxQuota")
    assert (lost.verdict, lost.blocker and lost.blocker.layer) == (NEVER, "queue")
    assert asked(moment, job("late", 2)).is_fine() and not asked(moment, job("late", 2)).is_fine(600)


def test_a_pod_for_which_no_node_was_made_never_starts() -> None:
    moment = moment_of([node("n", 4)], [pod("held", 4)])
    large, small = asked(moment, pod("large", 8), pod("small", 2)).documents
    assert (large.verdict, small.verdict) == (NEVER, WAITS)
    assert moment.store.count("Pod") == 1


_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-workers}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}]
  validations: [{expression: "object.spec.parallelism < 3", message: "at most two workers"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-workers}
spec: {policyName: few-workers, validationActions: [Deny]}
"""


def test_who_refuses_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(_POLICY)
    policies = [m.obj for m in read_path(tmp_path / "policy.yaml")]
    found = asked(moment_of([*team(), *policies]), job("many", 1, 3), job("few", 1, 2))
    many, few = found.documents
    assert (many.verdict, many.policy) == (REFUSED, "few-workers") and "at most two workers" in many.message
    assert few.verdict == STARTS and not found.is_fine()


def test_a_namespace_that_is_not_there_is_refused_where_namespaces_are_known(tmp_path: Path) -> None:
    moment = moment_of(team())
    items = [o for gk in moment.store.kinds() for o in moment.store.objects(gk)]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (one,) = asked(open_ground(path).at(), pod("p", 0, "nowhere")).documents
    assert (one.verdict, one.message) == (REFUSED, 'namespaces "nowhere" not found')


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    moment = moment_of(team())
    items = [o for gk in moment.store.kinds() for o in moment.store.objects(gk)]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    named: Any = job("", 2)
    named["metadata"] = {"generateName": "train-", "namespace": "team", "labels": named["metadata"]["labels"]}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(named)))
    assert main(["check", "-f", "-", "--on", str(dump), "--within", "10m", "-o", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["documents"]
    assert one["object"].startswith("Job team/train-") and one["cluster_queue"] == "a"
    (tmp_path / "jobs").mkdir()
    for i, gpus in enumerate((2, 64)):
        (tmp_path / "jobs" / f"{i}.json").write_text(json.dumps(job(f"j{i}", gpus)))
    assert main(["check", "-f", str(tmp_path / "jobs"), "--on", str(dump)]) == 1
    text = capsys.readouterr().out
    assert "Job team/j0: starts" in text and "Job team/j1: never starts as it is (quota)" in text
    assert main(["check", "-f", str(tmp_path / "jobs"), "--on", str(dump), "--within", "soon"]) == 2
    assert "--within 'soon'" in capsys.readouterr().err
