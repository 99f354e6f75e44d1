"""What can be asserted of alerts: that they fire, when, for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairway.scenario.assertions.terms import ALERTS, DURATION, TEXT, FieldOf, Metric, Set


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One time that a rule of the scenario found something. `fired_us`: None if its `for` was never over."""

    alert: str
    labels: Mapping[str, str]
    created_us: int
    """When it became active."""
    fired_us: int | None
    ended_us: int | None
    value: float
    summary: str = ""

    @property
    def namespace(self) -> str:
        return self.labels.get("namespace", "")

    @property
    def name(self) -> str:
        """With the labels that tell it from others."""
        more = [f"{k}={v}" for k, v in sorted(self.labels.items()) if k not in ("alertname", "namespace")]
        return f"{self.alert}{{{','.join(more)}}}" if more else self.alert

    @property
    def reason(self) -> str:
        return self.summary


METRICS = (Metric("firing time", ALERTS, (DURATION,), "from an alert's firing until it is over"),)

SETS = (
    Set("alerts", ALERTS, "alerts that fired", lambda r: r.fired_us is not None, lambda r: r.fired_us),
    Set(
        "pending alerts",
        ALERTS,
        "alerts that never fired",
        lambda r: r.fired_us is None,
        lambda r: r.created_us,
    ),
)

FIELDS = {
    "alert": FieldOf(TEXT, lambda r: r.alert, "the rule's name"),
    "severity": FieldOf(TEXT, lambda r: r.labels.get("severity", ""), "label severity"),
    "namespace": FieldOf(TEXT, lambda r: r.namespace, "label namespace"),
    "summary": FieldOf(TEXT, lambda r: r.summary, "annotation summary, or description"),
}
