"""Pods that read prompts and pods that write answers: both are needed, each comes and goes on its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairway.errors import InvalidInput
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import Finished, run_scenario
from fairway.serving import batching as b

SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: apart}
spec:
  seed: 3
  startTime: 2026-01-05T00:00:00Z
  duration: 20m
  nodes: [{name: "gpu-{i}", count: 2, capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}]
  manifests: [pods.yaml]
  serving:
    - service: chat
      model: llama-3.1-8b
      gpu: L40S
      PREFILL
      traffic: {rate: {0s: 0, 3m: 0, 3m1s: 3, 18m: 3}, prompt: 2000, output: 100}
  timeline: [TIMELINE]
"""
PODS = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ROLE}
spec:
  replicas: COUNT
  selector: {matchLabels: {app: chat, llm-d.ai/role: ROLE}}
  template:
    metadata: {labels: {app: chat, llm-d.ai/role: ROLE}, annotations: {fairway.dev/startup-time: 60s}}
    spec:
      terminationGracePeriodSeconds: 90
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.10.0
        resources: {limits: {nvidia.com/gpu: 1}}
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5}
        lifecycle: {preStop: {sleep: {seconds: 45}}}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: chat}\nspec: {selector: {app: chat}, ports: [{port: 80}]}\n"
APART = "prefill: {linkGBPerSecond: 10}"


def write(folder: Path, prefill: int = 2, decode: int = 1, timeline: str = "", field: str = APART) -> None:
    text = SCENARIO.replace("TIMELINE", timeline).replace("PREFILL", field)
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    pods = [
        PODS.replace("ROLE", role).replace("COUNT", str(n))
        for role, n in (("prefill", prefill), ("decode", decode))
    ]
    (folder / "pods.yaml").write_text(SERVICE + "".join(pods), encoding="utf-8")


def played(folder: Path, **given: int | str) -> Finished:
    write(folder, **given)  # type: ignore[arg-type]
    return run_scenario(load_scenario(folder))


def test_everybody_is_answered_and_prompts_do_not_hold_up_tokens(tmp_path: Path) -> None:
    (row,) = played(tmp_path).outcome.services
    assert row.ok == row.requests > 2500
    (together,) = played(tmp_path, field="slowdown: 1.0", prefill=0, decode=3).outcome.services
    assert together.ok == together.requests == row.requests
    assert row.tpot_us_p99 is not None and together.tpot_us_p99 is not None
    assert row.tpot_us_p99 < together.tpot_us_p99


@pytest.mark.parametrize(("prefill", "decode"), [(0, 1), (1, 0)])
def test_without_either_kind_nobody_is_answered(tmp_path: Path, prefill: int, decode: int) -> None:
    (row,) = played(tmp_path, prefill=prefill, decode=decode).outcome.services
    assert (row.ok, row.refused) == (0, row.requests)


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_scaling_either_down_loses_nobody(tmp_path: Path, role: str) -> None:
    down = f"{{at: 8m, scale: {{target: deployment/{role}, replicas: 1}}}}"
    (row,) = played(tmp_path, prefill=2, decode=2, timeline=down).outcome.services
    assert (row.ok, row.lost) == (row.requests, 0)


def test_the_way_between_takes_its_time(tmp_path: Path) -> None:
    finished = played(tmp_path, field="prefill: {linkGBPerSecond: 0.1}")
    (room,) = finished.twin.host.parts["serving"].rooms  # type: ignore[attr-defined]
    when, what = room.fleet.tables()
    second = (
        room.fleet.when[: room.fleet._come, b.ARRIVED] - when[room.fleet._origin[: room.fleet._come], b.FIRST]
    )
    # 2,000 tokens of 131,072 bytes each at 0.1 GB/s.
    assert second == pytest.approx(np.full(len(second), 2.62144))
    assert (what[:, b.STATUS] == b.DONE_WELL).all()


def test_a_copy_goes_on_as_the_original(tmp_path: Path) -> None:
    write(tmp_path)
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(8 * 60 * 1_000_000)
    copy = twin.fork()
    tables = []
    for one in (twin, copy):
        one.run_for(7 * 60 * 1_000_000)
        serving = next(part for part in one.components if part.name == "serving")
        tables.append(serving.rooms[0].fleet.tables())  # type: ignore[attr-defined]
    for mine, theirs in zip(*tables, strict=True):
        assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
    assert (tables[0][1][:, b.STATUS] == b.DONE_WELL).sum() > 1000


def test_what_is_wrong_is_located(tmp_path: Path) -> None:
    for field, said in (
        ("prefill: {gpu: L41}", "catalog"),
        ("prefill: {tensorParallel: 3}", "divided"),
        ("prefill: {x: 1}", "x"),
    ):
        with pytest.raises(InvalidInput) as wrong:
            played(tmp_path, field=field)
        assert said in str(wrong.value) and "scenario.yaml:" in str(wrong.value)
