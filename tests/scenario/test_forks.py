"""A copy of a twin goes on as its original: whatever component a scenario can have, whatever it holds by then."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fairway.recorder
import fairway.scenario
import fairway.traces
import fairway.twin
from fairway.recorder.recorder import Recorder
from fairway.recorder.table import Table
from fairway.recorder.tables import COMPLETE
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.scenario.model import Scenario
from fairway.scenario.running import run_scenario
from fairway.twin.twin import Twin

EXAMPLES = sorted(p.parent for p in Path(__file__).parents[2].glob("examples/*/scenario.yaml"))
# Jobs on a spot market with a Cluster Autoscaler, on nodes that fail: the components that no example has.
EVERYTHING_ELSE = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: others}
spec:
  seed: 5
  startTime: 2026-03-02T08:00:00Z
  duration: 4h
  nodes: [{name: "own-{i}", count: 2, capacity: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 1}, labels: {pool: own}}]
  cloud:
    provider: aws
    regions: [us-east-1]
    interruptions: [{meanTimeBetween: 40m}]
    nodeGroups: [{name: g5, instanceType: g5.xlarge, capacityType: spot, min: 0, max: 4}]
  faults: [{kind: NodeFailure, selector: pool=own, meanTimeBetween: 30m, repairTime: 5m}]
  manifests:
    - apiVersion: batch/v1
      kind: Job
      metadata: {name: train}
      spec:
        completions: 6
        parallelism: 6
        template:
          metadata: {annotations: {fairway.dev/run-time: 50m}}
          spec:
            restartPolicy: Never
            containers: [{name: c, image: "i:1", resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}}]
"""
# Components that live inside another one and are copied with it.
_PARTS = {"Gangs", "Reservations", "VolumeWaits"}


@cache
def scenario_of(name: str, folder: Path) -> tuple[Scenario, int]:
    """A scenario and when it ends, in µs: run once where it does not say."""
    if name == "others":
        (folder / "scenario.yaml").write_text(EVERYTHING_ELSE, encoding="utf-8")
        scenario = load_scenario(folder)
    else:
        scenario = load_scenario(folder / name)
    if scenario.duration_us is not None:
        return scenario, scenario.start_us + scenario.duration_us
    return scenario, run_scenario(scenario).twin.now_us


def told(twin: Twin) -> dict[str, Any]:
    """Everything a run is judged by."""
    recorder = next(part for part in twin.components if isinstance(part, Recorder))
    outcome = recorder.outcome(COMPLETE)
    held = {f.name: getattr(outcome, f.name) for f in fields(outcome)}
    tables = {
        name: {column: list(values) for column, values in table.columns.items()}
        for name, table in held.items()
        if isinstance(table, Table)
    }
    return {
        "digest": twin.digest(),
        "events": twin.host.events.told(),
        "reasons": outcome.reasons,
        "integrals": outcome.integrals,
        "queues": [
            list(getattr(outcome.queues, f.name))
            for f in fields(outcome.queues)
            if isinstance(getattr(outcome.queues, f.name), Table)
        ],
        **tables,
    }


@pytest.mark.parametrize("name", [*(p.name for p in EXAMPLES), "others"])
def test_a_copy_goes_on_as_the_original(name: str, tmp_path: Path) -> None:
    scenario, end_us = scenario_of(name, tmp_path if name == "others" else EXAMPLES[0].parent)
    twin = build_twin(scenario)
    twin.run(scenario.start_us + (end_us - scenario.start_us) // 2)
    copy = twin.fork()
    twin.run(end_us)
    copy.run(end_us)
    mine, its = told(twin), told(copy)
    assert [what for what in mine if mine[what] != its[what]] == []


def test_every_component_is_in_one_of_these_twins(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(EVERYTHING_ELSE, encoding="utf-8")
    here = {
        type(part).__name__
        for folder in [*EXAMPLES, tmp_path]
        for part in build_twin(load_scenario(folder)).components
    }
    assert all_components() - _PARTS == here


def all_components() -> set[str]:
    rooms = (fairway.twin, fairway.scenario, fairway.recorder, fairway.traces)
    modules = [
        importlib.import_module(found.name)
        for room in rooms
        for found in pkgutil.walk_packages(room.__path__, room.__name__ + ".")
    ]
    return {
        name
        for module in modules
        for name, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__ == module.__name__
        and name != "Component"
        and all(hasattr(found, method) for method in ("attach", "start", "observe", "fork"))
    }
