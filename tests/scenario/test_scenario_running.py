"""A scenario runs to its end, the same every time, and its answer can be handed on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairway.kube.objects import Key
from fairway.kube.timestamps import DAY_US, HOUR_US, MINUTE_US
from fairway.recorder.tables import INTERRUPTED
from fairway.scenario.loading import load_scenario
from fairway.scenario.model import Scenario
from fairway.scenario.repeating import run_seeds
from fairway.scenario.running import (
    DURATION,
    HORIZON,
    IDLE,
    SETTLED,
    STOPPED,
    Finished,
    run_scenario,
)
from fairway.scenario.verdicts import (
    finished_json,
    junit,
    junit_repeated,
    repeated_json,
    spread_lines,
    verdict_lines,
)
from fairway.twin.twin import Progress, Twin

NODE = "  nodes: [{name: 'gpu-{i}', count: 2, capacity: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}]\n"
HEAD = (
    f"apiVersion: fairway.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: small}}\nspec:\n  seed: 3\n{NODE}"
)
JOB = """\
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata: {annotations: {fairway.dev/run-time: "lognormal(30m, 0.5)"}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "i:1", resources: {limits: {nvidia.com/gpu: 1}}}]
"""
ASSERTIONS = "  assertions: [wait p95 < 5m, {name: early, assert: makespan < 1m}]\n"


def load(text: str, tmp_path: Path) -> Scenario:
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    return load_scenario(tmp_path)


def run(text: str, tmp_path: Path) -> Finished:
    return run_scenario(load(text, tmp_path))


def test_without_a_duration_it_ends_when_nothing_is_left(tmp_path: Path) -> None:
    finished = run(HEAD + ASSERTIONS + JOB, tmp_path)
    assert finished.status.ended == IDLE
    assert 10 * MINUTE_US < finished.status.duration_us < 3 * HOUR_US
    assert [v.passed for v in finished.verdicts] == [True, False] and not finished.passed


def test_with_a_duration_it_runs_for_that_long(tmp_path: Path) -> None:
    finished = run(HEAD + "  duration: 5h\n" + JOB, tmp_path)
    assert (finished.status.ended, finished.status.duration_us) == (DURATION, 5 * HOUR_US)
    assert finished.outcome.ended_us == finished.status.ended_us


CRON = """\
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {fairway.dev/run-time: 10m}}
        spec: {restartPolicy: Never, containers: [{name: c, image: "i:1"}]}
"""


def test_what_never_ends_is_cut_at_the_horizon(tmp_path: Path) -> None:
    finished = run(HEAD + CRON, tmp_path)
    assert finished.status.ended == HORIZON
    assert finished.status.duration_us == 7 * DAY_US
    assert len(finished.outcome.pods) == 7


def test_random_faults_end_when_the_work_is_done(tmp_path: Path) -> None:
    faults = "  faults: [{kind: NodeFailure, meanTimeBetween: 40m, repairTime: 5m}]\n"
    finished = run(
        HEAD + faults + JOB.replace("spec:\n  parallelism", "spec:\n  backoffLimit: 99\n  parallelism"),
        tmp_path,
    )
    assert finished.status.ended == SETTLED
    assert finished.outcome.workloads[0].outcome == "Complete"


def test_spot_nodes_are_taken_back_and_replaced(tmp_path: Path) -> None:
    faults = (
        "  duration: 1d\n"
        "  faults: [{kind: SpotPreemption, meanTimeBetween: 3h, warning: 2m, replaceAfter: 10m, nodes: [gpu-0]}]\n"
    )
    finished = run(HEAD + faults + JOB, tmp_path)
    lives = [n for n in finished.outcome.nodes if n.name == "gpu-0"]
    assert len({n.uid for n in lives}) >= 2
    assert next(n for n in finished.outcome.nodes if n.name == "gpu-1").deleted_us is None


def test_a_directory_without_a_scenario_is_one(tmp_path: Path) -> None:
    node = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}}"
    (tmp_path / "node.yaml").write_text(node, encoding="utf-8")
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {restartPolicy: Never, containers: [{name: c, image: i, command: [sleep, '60']}]}\n",
        encoding="utf-8",
    )
    finished = run_scenario(load_scenario(tmp_path))
    assert finished.passed and finished.outcome.pods[0].phase == "Succeeded"


def test_a_dump_begins_anew(tmp_path: Path) -> None:
    """Identity and state of another cluster are left out, and pods that a controller will create again."""
    dump = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "n", "uid": "u0", "resourceVersion": "5"},
                "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
            },
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "j", "namespace": "default", "uid": "u1"},
                "spec": {
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "c", "image": "i", "command": ["true"]}],
                        }
                    }
                },
                "status": {"active": 1},
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "j-abcde",
                    "namespace": "default",
                    "uid": "u2",
                    "ownerReferences": [
                        {
                            "apiVersion": "batch/v1",
                            "kind": "Job",
                            "name": "j",
                            "uid": "u1",
                            "controller": True,
                        }
                    ],
                },
                "spec": {
                    "nodeName": "n",
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i"}],
                },
                "status": {"phase": "Running"},
            },
        ],
    }
    (tmp_path / "dump.json").write_text(json.dumps(dump), encoding="utf-8")
    scenario = load_scenario(tmp_path)
    assert [o["kind"] for o in scenario.objects] == ["Node", "Job"]
    finished = run_scenario(scenario)
    assert finished.outcome.workloads[0].outcome == "Complete"
    assert len(finished.outcome.pods) == 1


PRIORITIES = """\
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: batch/v1
kind: Job
metadata: {name: urgent}
spec:
  template:
    metadata: {annotations: {fairway.dev/run-time: 5m}}
    spec:
      restartPolicy: Never
      priorityClassName: high
      containers: [{name: c, image: "i:1", resources: {limits: {nvidia.com/gpu: 4}}}]
"""


def test_controllers_create_through_admission(tmp_path: Path) -> None:
    """Priorities, defaults and quotas apply to pods that controllers make."""
    quota = (
        "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: default}\n"
        "spec: {hard: {requests.nvidia.com/gpu: 5}}\n"
    )
    finished = run(HEAD + PRIORITIES + quota + JOB.replace("parallelism: 2", "parallelism: 2"), tmp_path)
    pods = {p.owner_name: p for p in finished.outcome.pods}
    assert pods["urgent"].priority == 1000
    assert pods["urgent"].gpu_milli == 4000
    trains = sorted(p.created_us for p in finished.outcome.pods if p.owner_name == "train")
    assert trains[1] - trains[0] > MINUTE_US, "the quota had room for one of them at first"


BEHAVIOURS = """\
  behaviours:
    - match: {kinds: [Job], names: ["tr*"]}
      set: {run-time: 10m}
    - match: {namespaces: [default]}
      set: {run-time: 20m}
      override: true
"""


def test_behaviours_fill_in_and_override(tmp_path: Path) -> None:
    plain = JOB.replace(
        'metadata: {annotations: {fairway.dev/run-time: "lognormal(30m, 0.5)"}}', "metadata: {}"
    )
    scenario = load(HEAD + BEHAVIOURS.split("    - match: {namespaces")[0] + plain, tmp_path)
    assert _run_times(run_scenario(scenario)) == [10 * MINUTE_US]
    scenario = load(HEAD + BEHAVIOURS + JOB, tmp_path)
    assert _run_times(run_scenario(scenario)) == [20 * MINUTE_US]


def _run_times(finished: Finished) -> list[int]:
    found = {round((p.run_us or 0) / MINUTE_US) * MINUTE_US for p in finished.outcome.pods}
    return sorted(found)


# Determinism


def test_same_seed_same_digest_under_another_hash_seed(tmp_path: Path) -> None:
    trace = "  traces: [{generate: {rate: 30/h, duration: 6h, gpus: {1: 3, 4: 1}, users: {count: 3}}, load: 1.2}]\n"
    faults = "  faults: [{kind: NodeFailure, meanTimeBetween: 2h, repairTime: 10m}]\n  duration: 8h\n"
    (tmp_path / "scenario.yaml").write_text(HEAD + trace + faults, encoding="utf-8")
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from fairway.scenario.loading import load_scenario\n"
        "from fairway.scenario.running import run_scenario\n"
        "print(run_scenario(load_scenario(Path(sys.argv[1]))).status.digest)\n"
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1] and len(digests[0]) > 30


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    scenario = load(HEAD + JOB, tmp_path)
    assert run_scenario(scenario, seed=1).status.digest != run_scenario(scenario, seed=2).status.digest


# Ctrl-C


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    scenario = load(HEAD + ASSERTIONS + CRON, tmp_path)

    def stop(twin: Twin) -> None:
        def halt(_data: object) -> None:
            twin.loop.stopping = True

        twin.loop.at(twin.now_us + DAY_US, twin.loop.register("test.stop", halt))

    finished = run_scenario(scenario, prepare=stop)
    assert finished.status.ended == STOPPED
    assert finished.outcome.status == INTERRUPTED
    assert finished.status.duration_us == DAY_US
    assert not finished.passed
    assert "interrupted" in junit([finished])


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[Progress] = []
    run_scenario(load(HEAD + "  duration: 1d\n" + CRON, tmp_path), progress=seen.append)
    assert all(p.until_us is not None for p in seen)


# Handing on


def test_verdicts_as_text_json_and_junit(tmp_path: Path) -> None:
    finished = run(HEAD + ASSERTIONS + JOB, tmp_path)
    lines = verdict_lines(finished.verdicts, 80)
    assert lines[0].startswith("pass  wait p95 < 5m ") and all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("FAIL  early ")
    data = finished_json(finished)
    assert json.loads(json.dumps(data)) == data
    assert [a["passed"] for a in data["assertions"]] == [True, False]
    assert data["assertions"][0]["where"].endswith("scenario.yaml:7")
    suite = ElementTree.fromstring(junit([finished])).find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("2", "1")
    names = [case.get("name") for case in suite.iter("testcase")]
    assert names == ["wait p95 < 5m", "early"]


@pytest.mark.parametrize("processes", [1, 2])
def test_seeds_and_their_spread(processes: int, tmp_path: Path) -> None:
    scenario = load(HEAD + ASSERTIONS + JOB, tmp_path)
    heard: list[int] = []
    repeated = run_seeds(scenario, 3, processes=processes, done=lambda r: heard.append(r.seed))
    assert heard == [3, 4, 5] == [run.seed for run in repeated.runs]
    assert len({run.digest for run in repeated.runs}) == 3
    spread = repeated.spreads[1]
    assert (spread.passed, spread.runs, spread.failed_seeds) == (0, 3, (3, 4, 5))
    assert spread.lowest is not None and spread.median is not None and spread.highest is not None
    assert spread.lowest <= spread.median <= spread.highest
    assert all(len(line) <= 100 for line in spread_lines(repeated.spreads))
    assert json.loads(json.dumps(repeated_json(repeated)))["passed"] is False
    suite = ElementTree.fromstring(junit_repeated(repeated)).find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_watching_objects_reach_states(tmp_path: Path) -> None:
    text = (
        "  assertions:\n    - eventually job/train Complete within 4h\n    - eventually pod/train-* Succeeded\n"
        "    - never pod/* Failed\n    - never node/gpu-* NotReady\n    - eventually job/train Started before 1m\n"
        "    - never job/train Suspended\n"
    )
    finished = run(HEAD + text + JOB, tmp_path)
    assert [v.passed for v in finished.verdicts] == [True] * 6
    assert finished.verdicts[1].samples == 2
    assert finished.twin.store.get(Key("Job.batch", "default", "train")) is not None
