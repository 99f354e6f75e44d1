"""`fairway queue`, as a stranger uses it: a scenario, a run directory, a dump, and wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairway.cli.main import main
from fairway.results.queuestate import pending_lines, state_of
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
NIGHT = EXAMPLES / "09-night-borrowing"
GANG = EXAMPLES / "07-training-gang"
_HOUR_US = 3_600_000_000


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main(["queue", *arguments, "-o", "json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What kubectl would have written in the night."""
    scenario = load_scenario(NIGHT)
    twin = build_twin(scenario)
    twin.run(scenario.start_us + 8 * _HOUR_US)
    items = [obj for gk in twin.store.kinds() if "kueue" in gk for obj in twin.store.objects(gk)]
    path = tmp_path_factory.mktemp("dump") / "kueue.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return path


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    production, research = asked(capsys, "list", str(NIGHT), "--at", "8h")
    assert (production["name"], production["cohort"], production["admitted"]) == ("production", "company", 8)
    gpus = next(q for q in research["quotas"] if q["resource"] == "nvidia.com/gpu")
    assert (gpus["nominal"], gpus["used"], gpus["borrowed"], gpus["free"]) == (8, 24, 16, 0)
    assert next(q["lent"] for q in production["quotas"] if q["resource"] == "nvidia.com/gpu") == 16


def test_the_ground_stands_first_or_after_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    at = ("--at", "8h")
    assert asked(capsys, "list", "--on", str(NIGHT), *at) == asked(capsys, "list", str(NIGHT), *at)
    assert asked(capsys, "borrow", "--on", str(NIGHT), *at) == asked(capsys, "borrow", str(NIGHT), *at)
    after = asked(capsys, "pending", "research", "--on", str(NIGHT), *at, code=1)
    assert after == asked(capsys, "pending", str(NIGHT), "research", *at, code=1)
    assert after
    for command in ("fragmentation", "cost", "report"):
        said = []
        for ground in ([str(GANG)], ["--on", str(GANG)]):
            code = main([command, *ground, "-o", "json"])
            said.append((code, capsys.readouterr().out))
        assert said[0] == said[1] and said[0][1]
        assert main([command, str(GANG), "--on", str(NIGHT)]) == 2
        assert "expected one ground" in capsys.readouterr().err


def test_borrow(capsys: pytest.CaptureFixture[str]) -> None:
    loans = asked(capsys, "borrow", str(NIGHT), "--at", "8h")
    of_gpus = [x for x in loans if x["resource"] == "nvidia.com/gpu"]
    assert [(x["borrower"], x["lender"], x["amount"]) for x in of_gpus] == [("research", "production", 16)]
    assert main(["queue", "borrow", str(NIGHT), "--at", "1h"]) == 0
    assert "nobody borrows" in capsys.readouterr().out


def test_pending_in_order_with_the_reason_of_now(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "pending", str(GANG), "shared", "--at", "2h", code=1)
    assert [x["position"] for x in found] == list(range(1, len(found) + 1))
    assert [x["priority"] for x in found] == sorted((x["priority"] for x in found), reverse=True)
    ablation = found[-1]
    assert (ablation["pods"], ablation["requests"]["nvidia.com/gpu"]) == (4, 8)
    assert ablation["verdict"] == "Waits" and ablation["reason"] == "WaitingForQuota"
    assert "nvidia.com/gpu" in ablation["message"]
    assert asked(capsys, "pending", str(GANG), "research/shared", "--at", "2h", code=1) == [ablation]


def test_a_dump_says_the_same(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("list", "borrow"):
        ours = asked(capsys, command, str(NIGHT), "--at", "8h")
        assert asked(capsys, command, str(dump)) == ours
    ours = asked(capsys, "pending", str(NIGHT), "--at", "8h", code=1)
    theirs = asked(capsys, "pending", str(dump), code=1)
    keys = ("name", "position", "reason", "message", "verdict", "cluster_queue", "condition")
    assert [[x[k] for k in keys] for x in theirs] == [[x[k] for k in keys] for x in ours]


def test_a_run_directory_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(NIGHT), "-q", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    ours = asked(capsys, "list", str(NIGHT))
    assert asked(capsys, "list", str(tmp_path)) == ours
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    (tmp_path / "summary.json").write_text(json.dumps({**summary, "source": "gone"}), encoding="utf-8")
    assert main(["queue", "list", str(tmp_path)]) == 2
    assert "gone is not there" in capsys.readouterr().err


def test_asking_changes_nothing() -> None:
    scenario = load_scenario(GANG)
    twin = build_twin(scenario)
    twin.run(scenario.start_us + 2 * _HOUR_US)
    other = twin.fork()
    pending_lines(state_of(twin))
    for one in (twin, other):
        one.run(scenario.start_us + 7 * _HOUR_US)
    assert twin.digest() == other.digest()


def test_whoever_fits_is_told_so_and_who_would_have_to_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dump with what nobody has decided on yet."""
    (tmp_path / "dump.yaml").write_text(_DUMP, encoding="utf-8")
    found = {x["name"]: x for x in asked(capsys, "pending", str(tmp_path), code=1)}
    assert found["small"]["verdict"] == "Fits"
    assert (found["urgent"]["verdict"], found["urgent"]["preempts"]) == ("Preempts", ["team/running"])
    assert (found["huge"]["verdict"], found["huge"]["reason"]) == ("Waits", "ExceedsMaxQuota")
    assert (found["lost"]["position"], found["lost"]["reason"]) == (0, "Misconfigured")
    assert found["lost"]["message"] == "LocalQueue nowhere doesn't exist"
    assert found["stopped"]["reason"] == "Deactivated"
    assert main(["queue", "pending", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "would preempt 1" in text and "would have to go: team/running" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "nowhere"], "no such file or directory"),
        (["list", str(NIGHT), "--at", "soon"], "expected a duration such as 8h"),
        (["pending", str(NIGHT), "reserch", "--at", "1h"], "research"),
        (["list", str(NIGHT), "-o", "csv"], "expected one of table, json"),
        (["list", str(NIGHT), "--config", "kueue.yaml"], "goes with a dump"),
    ],
)
def test_wrong_input(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queue", *arguments]) == 2
    assert said in capsys.readouterr().err


def _workload(name: str, gpus: int, more: str = "", queue: str = "main", status: str = "") -> str:
    return f"""---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {{name: {name}, namespace: team, uid: u-{name}, creationTimestamp: "2026-01-05T08:00:00Z"}}
spec:
  queueName: {queue}
  {more}
  podSets:
    - name: main
      count: 1
      template:
        spec:
          containers: [{{name: c, image: i, resources: {{requests: {{nvidia.com/gpu: "{gpus}"}}}}}}]
{status}
"""


_HELD = """status:
  admission:
    clusterQueue: team
    podSetAssignments:
      - name: main
        count: 1
        flavors: {nvidia.com/gpu: h100}
        resourceUsage: {nvidia.com/gpu: "6"}
  conditions:
    - {type: QuotaReserved, status: "True", reason: QuotaReserved, lastTransitionTime: "2026-01-05T08:00:00Z"}
    - {type: Admitted, status: "True", reason: Admitted, lastTransitionTime: "2026-01-05T08:00:00Z"}
"""
_DUMP = f"""apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: h100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: team}}
spec:
  namespaceSelector: {{}}
  queueingStrategy: BestEffortFIFO
  preemption: {{withinClusterQueue: LowerPriority, reclaimWithinCohort: Never}}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{{name: h100, resources: [{{name: nvidia.com/gpu, nominalQuota: 8}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: main, namespace: team}}
spec: {{clusterQueue: team}}
{_workload("running", 6, "priority: 1", status=_HELD)}
{_workload("small", 2)}
{_workload("urgent", 4, "priority: 100")}
{_workload("huge", 16)}
{_workload("lost", 1, queue="nowhere")}
{_workload("stopped", 1, "active: false")}
"""


def test_a_dump_says_when_it_was_taken_and_names_jobs_nobody_queues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    conditions = [
        {
            "type": "Requeued",
            "status": "False",
            "reason": "EvictedByCheck",
            "message": "no",
            "lastTransitionTime": "2026-01-05T08:00:10Z",
        }
    ]
    backed_off = _workload("backed-off", 1, status=f"status: {{conditions: {json.dumps(conditions)}}}\n")
    lease = """---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: n, namespace: kube-node-lease}
spec: {renewTime: "2026-01-05T11:00:00.000000Z"}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: forgotten, namespace: team, uid: u-f, labels: {kueue.x-k8s.io/queue-name: nowhere}}
spec: {}
"""
    (tmp_path / "dump.yaml").write_text(_DUMP + backed_off + lease, encoding="utf-8")
    assert main(["queue", "pending", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("as of 2026-01-05T11:00:00Z\n")
    assert "not requeued (condition Requeued is False)" in text
    assert "PyTorchJob team/forgotten waits in queue nowhere: no LocalQueue nowhere is there" in text
    assert "3h" in text
