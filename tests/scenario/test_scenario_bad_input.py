"""What is wrong with a scenario is said with file, line, path, value and what is expected, before it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.errors import InvalidInput
from fairway.scenario.loading import load_scenario

HEAD = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: bad}
spec:
  duration: 4h
  nodes: [{name: gpu-0, capacity: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}]
  manifests:
    - {apiVersion: v1, kind: Pod, metadata: {name: web-0}, spec: {containers: [{name: c, image: i}]}}
    - {apiVersion: v1, kind: Namespace, metadata: {name: team-a}}
"""
# What follows HEAD begins on this line.
FIRST = 10
JOBS = "job_id,submit_time,run_time,gpus\na,0,60,1\nb,3600,60,1\n"


def problems_of(text: str, tmp_path: Path, *, head: str = HEAD) -> list[str]:
    (tmp_path / "scenario.yaml").write_text(head + text, encoding="utf-8")
    (tmp_path / "jobs.csv").write_text(JOBS, encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        load_scenario(tmp_path)
    assert caught.value.exit_code == 2
    return [str(p).replace(f"{tmp_path}/", "") for p in caught.value.problems]


def at(line: int) -> str:
    return f"scenario.yaml:{FIRST + line}:"


# name → (text after HEAD, the start of the first message, words in it)
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "an unknown field": (
        "  timelime: []\n",
        f"{at(0)} spec.timelime: []:",
        ("unknown field; did you mean timeline?",),
    ),
    "an unknown action": (
        "  timeline:\n    - at: 1h\n      cordn: gpu-0\n",
        f"{at(2)} spec.timeline[0].cordn:",
        ("did you mean cordon",),
    ),
    "an entry without an action": (
        "  timeline:\n    - at: 1h\n",
        f"{at(1)} spec.timeline[0]:",
        ("expected an action",),
    ),
    "an entry without a time": (
        "  timeline:\n    - cordon: gpu-0\n",
        f"{at(1)} spec.timeline[0].at:",
        ("required",),
    ),
    "a time that is none": (
        "  timeline:\n    - at: soon\n      cordon: gpu-0\n",
        f'{at(1)} spec.timeline[0].at: "soon":',
        ("expected a duration such as 90s, 1h30m or 2d",),
    ),
    "deleting what never existed": (
        "  timeline:\n    - at: 1h\n      delete: job/train\n",
        f"{at(1)} spec.timeline[0]: Job/default/train:",
        ("no Job of this name is ever there",),
    ),
    "deleting what almost existed": (
        "  timeline:\n    - at: 1h\n      delete: pod/wep-0\n",
        f"{at(1)} spec.timeline[0]: Pod/default/wep-0:",
        ("did you mean Pod/default/web-0",),
    ),
    "deleting twice": (
        "  timeline:\n    - at: 1h\n      delete: pod/web-0\n    - at: 2h\n      delete: pod/web-0\n",
        f"{at(3)} spec.timeline[1]: Pod/default/web-0:",
        ("not there any more", f"scenario.yaml:{FIRST + 1} deletes it"),
    ),
    "an unknown node": (
        "  timeline:\n    - at: 1h\n      drain: gpu-1\n",
        f"{at(1)} spec.timeline[0]: Node/gpu-1:",
        ("did you mean Node/gpu-0",),
    ),
    "a node removed before": (
        "  timeline:\n    - at: 1h\n      removeNode: gpu-0\n    - at: 2h\n      uncordon: gpu-0\n",
        f"{at(3)} spec.timeline[1]: Node/gpu-0:",
        ("not there any more",),
    ),
    "an unknown kind": (
        "  timeline:\n    - at: 1h\n      delete: jbo/train\n",
        f'{at(2)} spec.timeline[0].delete: "jbo/train":',
        ("unknown kind 'jbo'",),
    ),
    "something that has no replicas": (
        "  timeline:\n    - at: 1h\n      scale: {target: pod/web-0, replicas: 2}\n",
        f"{at(2)} spec.timeline[0].scale.target:",
        ("expected something with replicas",),
    ),
    "a selector that would take everything": (
        "  timeline:\n    - at: 1h\n      killPod: {namespace: default}\n",
        f"{at(2)} spec.timeline[0].killPod:",
        ("would take all of them",),
    ),
    "a repetition without an end": (
        "  timeline:\n    - at: 1h\n      every: 5m\n      cordon: gpu-0\n",
        f"{at(1)} spec.timeline[0].times:",
        ("required with every",),
    ),
    "an action beyond the end": (
        "  timeline:\n    - at: 5h\n      cordon: gpu-0\n",
        f"{at(1)} spec.timeline[0].at: 5h:",
        ("before the scenario ends, 4h after it starts",),
    ),
    "a trace beyond the end": (
        "  traces:\n    - path: jobs.csv\n      start: 6h\n",
        f"{at(1)} spec.traces[0]: 6h:",
        ("expected its first job before the scenario ends",),
    ),
    "an assertion's window beyond the end": (
        "  assertions:\n    - pending < 5 after 6h\n",
        f"{at(1)} spec.assertions[0]: 6h:",
        ("a window that begins before the scenario ends",),
    ),
    "overlapping traces": (
        "  traces:\n    - path: jobs.csv\n    - path: jobs.csv\n      start: 2h\n",
        f"{at(2)} spec.traces[1]: Job/default/a:",
        (f"overlaps with {{tmp}}scenario.yaml:{FIRST + 1}", "2 objects of the same name", "a prefix"),
    ),
    "a trace that is not there": (
        "  traces:\n    - path: job.csv\n",
        "job.csv:",
        ("expected a readable file",),
    ),
    "a trace and a recipe at once": (
        "  traces:\n    - path: jobs.csv\n      generate: {}\n",
        f"{at(1)} spec.traces[0]:",
        ("either path or generate",),
    ),
    "a window that holds no job": (
        "  traces:\n    - path: jobs.csv\n      window: 10m..20m\n",
        f"{at(1)} spec.traces[0]:",
        ("expected at least one job after window",),
    ),
    "a bad rate": (
        "  traces:\n    - generate: {rate: 40}\n",
        f"{at(1)} spec.traces[0].generate.rate: 40:",
        ("such as 40/h",),
    ),
    "bad GPU counts": (
        "  traces:\n    - generate: {gpus: {1.5: 1}}\n",
        f"{at(1)} spec.traces[0].generate.gpus:",
        ("expected GPU counts with weights",),
    ),
    "an assertion that names an unknown field": (
        '  assertions:\n    - wait p95 < 10m where priorityClas == "prod"\n',
        f"scenario.yaml:{FIRST + 1}:28: spec.assertions[0]:",
        ("unknown field of pods: did you mean priorityClass",),
    ),
    "an assertion that names an unknown metric": (
        "  assertions:\n    - name: waits\n      assert: waits p95 < 10m\n",
        f"scenario.yaml:{FIRST + 2}:15: spec.assertions[0].assert:",
        ("did you mean wait",),
    ),
    "an assertion about what never is": (
        "  assertions:\n    - eventually job/train Complete\n",
        f"{at(1)} spec.assertions[0]: Job/default/train:",
        ("no Job of this name is ever there",),
    ),
    "a behaviour nobody has": (
        "  behaviours:\n    - set: {run-tim: 5m}\n",
        f"{at(1)} spec.behaviours[0].set.run-tim:",
        ("did you mean run-time",),
    ),
    "a behaviour that says nothing": (
        "  behaviours:\n    - set: {run-time: long}\n",
        f'{at(1)} spec.behaviours[0].set.run-time: "long":',
        ("expected a duration",),
    ),
    "an unknown latency": (
        "  latency: {imagePul: 5s}\n",
        f"{at(0)} spec.latency.imagePul:",
        ("unknown name",),
    ),
    "a fault without a time": (
        "  faults:\n    - kind: NodeFailure\n",
        f"{at(1)} spec.faults[0]:",
        ("either meanTimeBetween",),
    ),
    "a fault of a node that is not there": (
        "  faults:\n    - {kind: NodeFailure, meanTimeBetween: 1d, nodes: [gpu-9]}\n",
        f"{at(0)} spec.faults: gpu-9:",
        ("did you mean Node/gpu-0",),
    ),
    "manifests that are not there": (
        "",
        "scenario.yaml:7: spec.manifests[0]:",
        ("no such file or directory",),
    ),
    "a negative seed": ("  seed: -1\n", f"{at(0)} spec.seed: -1:", ("expected an integer, 0 or more",)),
    "a quota without a number": (
        "  timeline:\n    - at: 1h\n      setQuota: {namespace: team-a, name: q, hard: {cpu: many}}\n",
        f"{at(2)} spec.timeline[0].setQuota.hard[cpu]:",
        ("expected a quantity",),
    ),
    "a taint that is none": (
        "  timeline:\n    - at: 1h\n      taint: {nodes: gpu-0, taints: [a=b:Never]}\n",
        f"{at(2)} spec.timeline[0].taint.taints[0]:",
        ("key=value:NoSchedule",),
    ),
    "an inline object that is wrong": (
        "  timeline:\n    - at: 1h\n      apply:\n"
        "        {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {container: []}}\n",
        f"{at(3)} Pod p:",
        ('unknown field "spec.container"',),
    ),
    "a fleet without numbers": (
        "",
        "scenario.yaml:6: spec.nodes[0].name:",
        ("expected a pattern with {i}",),
    ),
}
HEADS = {
    "manifests that are not there": HEAD.split("  manifests:")[0] + "  manifests: [nowhere]\n",
    "a fleet without numbers": HEAD.replace("{name: gpu-0,", "{name: gpu, count: 2,"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name: str, tmp_path: Path) -> None:
    text, start, words = CASES[name]
    first = problems_of(text, tmp_path, head=HEADS.get(name, HEAD))[0]
    assert first.startswith(start), first
    for word in words:
        assert word.replace("{tmp}", "") in first


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    text = "  seed: x\n  latency: {imagePul: 1s}\n  assertions:\n    - nonsense\n    - wait p95 < 5\n"
    assert len(problems_of(text, tmp_path)) == 4


def test_a_rule_about_a_whole_object_shows_no_value(tmp_path: Path) -> None:
    queue = {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}
    text = (
        "    - {apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: q}, "
        f"spec: {{preemption: {json.dumps(queue)}}}}}\n"
    )
    (told,) = problems_of(text, tmp_path)
    assert "ClusterQueue q: spec.preemption: reclaimWithinCohort=Never and borrow" in told


def test_nothing_to_simulate(tmp_path: Path) -> None:
    head = HEAD.split("  duration")[0] + "  seed: 1\n"
    assert "nothing to simulate" in problems_of("", tmp_path, head=head)[0]


def test_two_scenarios_and_no_main_one(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(HEAD, encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"a\.yaml, b\.yaml"):
        load_scenario(tmp_path)


def test_two_scenarios_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(f"{HEAD}---\n{HEAD}", encoding="utf-8")
    with pytest.raises(InvalidInput, match="expected one Scenario a file"):
        load_scenario(tmp_path)


def test_broken_yaml(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(
        "apiVersion: fairway.dev/v1alpha1\nkind: [Scenario\n", encoding="utf-8"
    )
    with pytest.raises(InvalidInput, match=r"scenario\.yaml:\d"):
        load_scenario(tmp_path)


def test_a_trace_row_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "cut.csv").write_text("job_id,submit_time,run_time\na,0,60\nb,10\n", encoding="utf-8")
    message = problems_of("  traces: [{path: cut.csv}]\n", tmp_path)[0]
    assert message.startswith("cut.csv:3: run_time: b,10:") and "truncated" in message


CRON = """\
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  timeZone: Mars/Olympus
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
"""


def test_cron_in_an_unknown_zone(tmp_path: Path) -> None:
    message = problems_of(CRON, tmp_path)[0]
    assert message.startswith(f"{at(6)} CronJob nightly: spec.timeZone:") and "Mars/Olympus" in message


def test_lenient_reading_skips_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(f"{HEAD}  traces: [{{path: cut.csv}}]\n", encoding="utf-8")
    (tmp_path / "cut.csv").write_text("job_id,submit_time,run_time\na,0,60\nb,10\n", encoding="utf-8")
    scenario = load_scenario(tmp_path, lenient=True)
    assert len(scenario.skipped) == 1 and "truncated" in str(scenario.skipped[0])
