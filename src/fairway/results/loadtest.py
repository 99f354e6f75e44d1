"""What did the requests of a run cost, and which setting of an autoscaler answers them in time for the least?

A Service's pods are those that its selector finds; their share of the bill is what its requests cost. To tune, the
targets and the least replicas of whoever scales those pods are varied, each variant is run, and the cheapest that keeps
the SLO wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairway.catalog.catalog import Catalog
from fairway.errors import UserError
from fairway.extras import have
from fairway.kube.objects import Obj, gk_of, name_of, namespace_of, spec_of
from fairway.kube.timestamps import HOUR_US
from fairway.recorder.tables import ServiceRow
from fairway.results.run import Run, RunInfo
from fairway.scenario.model import Scenario
from fairway.scenario.running import run_scenario

FACTORS: Final = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
_ROUTE, _KNATIVE = "HTTPRoute.gateway.networking.k8s.io", "Service.serving.knative.dev"
_HPA, _SCALED = "HorizontalPodAutoscaler.autoscaling", "ScaledObject.keda.sh"


@dataclass(frozen=True, slots=True)
class Served:
    """A Service's requests and what they cost. `micros` None: nobody says what its machines cost."""

    row: ServiceRow
    gpu_hours: float
    micros: int | None

    @property
    def micros_per_1000(self) -> float | None:
        return None if self.micros is None or not self.row.ok else 1000 * self.micros / self.row.ok

    @property
    def micros_per_million_tokens(self) -> float | None:
        tokens = self.row.tokens_written
        return None if self.micros is None or not tokens else 1e6 * self.micros / tokens

    def as_json(self) -> dict[str, Any]:
        row = self.row
        return {
            "service": f"{row.namespace}/{row.name}",
            **{name: getattr(row, name) for name in row.__slots__ if name not in ("namespace", "name")},
            "gpu_hours": self.gpu_hours,
            "usd": None if self.micros is None else self.micros / 1e6,
            "usd_per_1000_requests": None if self.micros_per_1000 is None else self.micros_per_1000 / 1e6,
            "usd_per_million_tokens": _dollars(self.micros_per_million_tokens),
        }


def _dollars(micros: float | None) -> float | None:
    return None if micros is None else micros / 1e6


def loadtest(scenario: Scenario, catalog: Catalog, seed: int | None = None) -> tuple[Run, list[Served]]:
    """Run it. Raises: UserError where nothing is served."""
    if not scenario.serving:
        raise UserError(
            f"{scenario.file}: no serving: section: nothing is asked of anybody (docs/serving.md)"
        )
    outcome = run_scenario(scenario, seed=seed).outcome
    run = Run(RunInfo(scenario.name, scenario.seed if seed is None else seed, source=scenario.file), outcome)
    micros = _micros_by_workload(run, catalog)
    return run, [_served(row, scenario, run, micros) for row in outcome.services]


def _served(
    row: ServiceRow, scenario: Scenario, run: Run, micros: dict[tuple[str, str], int | None]
) -> Served:
    selectors = _selectors(scenario, row)
    pods = [
        pod
        for pod in run.outcome.pods
        if pod.namespace == row.namespace and any(found.items() <= pod.labels.items() for found in selectors)
    ]
    ended_us = run.outcome.ended_us
    held = sum(p.gpu_milli * ((p.finished_us or ended_us) - p.scheduled_us) for p in pods if p.scheduled_us)
    workloads = {(p.namespace, f"{p.root_kind}/{p.root_name}") for p in pods}
    priced = [micros.get(workload) for workload in workloads]
    known = [value for value in priced if value is not None]
    return Served(row, held / 1000 / HOUR_US, sum(known) if known and len(known) == len(priced) else None)


def _selectors(scenario: Scenario, row: ServiceRow) -> list[dict[str, str]]:
    """Labels of the pods behind it: of a Service, a Knative Service, a route's Services, or one that KServe makes."""
    names = {row.name}
    for obj in scenario.objects:
        if gk_of(obj) == _ROUTE and (_space(obj), name_of(obj)) == (row.namespace, row.name):
            rules = spec_of(obj).get("rules") or ()
            names |= {str(b.get("name")) for rule in rules for b in rule.get("backendRefs") or ()}
    found = [{"app": f"isvc.{row.name}"}]
    for obj in scenario.objects:
        if _space(obj) != row.namespace or name_of(obj) not in names:
            continue
        if gk_of(obj) == "Service" and spec_of(obj).get("selector"):
            found.append(dict(spec_of(obj)["selector"]))
        elif gk_of(obj) == _KNATIVE:
            found.append({"serving.knative.dev/service": name_of(obj)})
    return found


def _space(obj: Obj) -> str:
    return namespace_of(obj) or "default"


def _micros_by_workload(run: Run, catalog: Catalog) -> dict[tuple[str, str], int | None]:
    """What each workload owes; empty where bills cannot be made here."""
    if not have("polars"):
        return {}
    from fairway.results.costs.breakdown import breakdown
    from fairway.results.costs.costing import costed

    lines = breakdown(costed(run, catalog), ("namespace", "workload")).lines
    return {(line.key[0], line.key[1]): None if line.unpriced_rows else line.owed for line in lines}


# Tuning


@dataclass(frozen=True, slots=True)
class Variant:
    """What was tried, and what came of it. `patch` makes it so."""

    factor: float
    least: int
    patch: str
    served: Served

    def keeps(self, attained_permille: int) -> bool:
        row = self.served.row
        return row.attained_permille >= attained_permille and not row.lost and not row.refused

    @property
    def price(self) -> tuple[float, float]:
        return (self.served.micros or 0.0, self.served.gpu_hours)

    def as_json(self) -> dict[str, Any]:
        return {"factor": self.factor, "min": self.least, "patch": self.patch, **self.served.as_json()}


def tuned(
    scenario: Scenario, service: str, catalog: Catalog, seed: int | None, tell: Callable[[str], None]
) -> list[Variant]:
    """Every variant of its scaler, cheapest first. Raises: UserError where nobody scales it."""
    scaler = _scaler(scenario, service)
    alone = replace(scenario, serving=tuple(s for s in scenario.serving if s.name == service), assertions=())
    found = []
    variants = list(_variants(scaler))
    for number, (factor, least, changed, patch) in enumerate(variants, 1):
        tell(f"{number}/{len(variants)} target × {factor:g}, at least {least}")
        objects = tuple(changed if obj is scaler else obj for obj in scenario.objects)
        _, (served,) = loadtest(replace(alone, objects=objects), catalog, seed)
        found.append(Variant(factor, least, patch, served))
    return sorted(found, key=lambda v: (v.price, v.factor, v.least))


def _scaler(scenario: Scenario, service: str) -> Obj:
    if all(one.name != service for one in scenario.serving):
        known = ", ".join(one.name for one in scenario.serving)
        raise UserError(f"--tune {service!r}: expected one of {known}")
    namespace = next(one.namespace for one in scenario.serving if one.name == service)
    selector: dict[str, str] = next(
        (
            dict(spec_of(o).get("selector") or {})
            for o in scenario.objects
            if gk_of(o) == "Service" and (_space(o), name_of(o)) == (namespace, service)
        ),
        {},
    )
    here = [obj for obj in scenario.objects if _space(obj) == namespace]
    targets = {name_of(obj) for obj in here if selector and selector.items() <= _template_labels(obj).items()}
    for obj in here:
        if gk_of(obj) in (_HPA, _SCALED) and spec_of(obj)["scaleTargetRef"]["name"] in targets:
            return obj
    raise UserError(f"--tune {service}: no HorizontalPodAutoscaler and no ScaledObject scales its pods")


def _template_labels(obj: Obj) -> dict[str, str]:
    template = (obj.get("spec") or {}).get("template")
    return (
        dict(((template or {}).get("metadata") or {}).get("labels") or {})
        if isinstance(template, dict)
        else {}
    )


def _variants(scaler: Obj) -> Iterator[tuple[float, int, Obj, str]]:
    spec = spec_of(scaler)
    is_keda = gk_of(scaler) == _SCALED
    field, most = ("minReplicaCount", "maxReplicaCount") if is_keda else ("minReplicas", "maxReplicas")
    least = spec.get(field, 0 if is_keda else 1)
    for lower in dict.fromkeys(
        (least, min(least + 1, spec.get(most, 100)), min(least + 2, spec.get(most, 100)))
    ):
        for factor in FACTORS:
            scaled = _triggers(spec["triggers"], factor) if is_keda else _metrics(spec["metrics"], factor)
            changes = {field: lower, ("triggers" if is_keda else "metrics"): scaled}
            yield factor, lower, {**scaler, "spec": {**spec, **changes}}, _patch(scaler, changes)


def _patch(scaler: Obj, changes: dict[str, Any]) -> str:
    import msgspec

    kind = scaler["kind"].lower()
    text = msgspec.json.encode({"spec": changes}).decode()
    return f"kubectl patch {kind} {name_of(scaler)} -n {_space(scaler)} --type merge -p '{text}'"


def _triggers(triggers: Sequence[Obj], factor: float) -> list[Obj]:
    return [
        {**t, "metadata": {**t["metadata"], **_times(t["metadata"], ("threshold", "value"), factor)}}
        for t in triggers
    ]


def _metrics(metrics: Sequence[Obj], factor: float) -> list[Obj]:
    found = []
    for metric in metrics:
        part = next(name for name in metric if name != "type")
        target = metric[part]["target"]
        scaled = _times(target, ("averageValue", "value", "averageUtilization"), factor)
        found.append({**metric, part: {**metric[part], "target": {**target, **scaled}}})
    return found


def _times(given: Obj, names: Iterable[str], factor: float) -> Obj:
    """The amounts of these names, as many times as large, at least 1."""
    found: Obj = {}
    for name in names:
        if name in given:
            try:
                value = max(round(float(given[name]) * factor), 1)
            except (TypeError, ValueError):
                raise UserError(f"{name}: {given[name]!r}: only plain numbers are tuned") from None
            found[name] = value if isinstance(given[name], int) else str(value)
    return found
