"""Small runs with prices, for the tests of costs."""

from __future__ import annotations

from pathlib import Path

from fairway.catalog.catalog import Catalog, catalog_of, load_catalog
from fairway.kube.manifest import read_text
from fairway.results.costs.costing import Costed, CostRules, costed
from fairway.results.run import Run, RunInfo
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario
from recorded import Recorded

CATALOG = load_catalog()
P4D = {"node.kubernetes.io/instance-type": "p4d.24xlarge"}
LABELS = "node_kubernetes_io__instance-type"

H100_AT_40 = """
apiVersion: fairway.dev/v1alpha1
kind: InstanceCatalog
metadata: {name: ours}
spec:
  provider: ours
  types: [{name: one-h100, cpu: 8, memory: 64, gpu: H100-SXM5-80GB, gpus: 1}]
---
apiVersion: fairway.dev/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  currency: USD
  unit: instance-hour
  prices: [{instanceType: one-h100, onDemand: 40}]
"""


def with_prices(text: str) -> Catalog:
    return catalog_of(read_text(text, "prices.yaml"))


def run_of(world: Recorded, name: str = "small", **info: object) -> Run:
    return Run(RunInfo(name, **info), world.outcome())  # type: ignore[arg-type]


def bill(
    world: Recorded, rules: CostRules | None = None, catalog: Catalog = CATALOG, **info: object
) -> Costed:
    return costed(run_of(world, **info), catalog, rules)


def simulated(text: str, folder: Path, seed: int | None = None) -> Run:
    file = folder / "scenario.yaml"
    file.write_text(text)
    return Run(RunInfo("simulated"), run_scenario(load_scenario(file), seed=seed).outcome)
