"""All checks, or those of one symptom, on one cluster: in order, each contained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fairway.answers.doctor import capacity, containers, rules, waiting
from fairway.answers.doctor.findings import ILL, UNKNOWN, Finding, Look, Patient, unknown
from fairway.answers.doctor.symptoms import Check, Symptom, symptoms
from fairway.errors import UserError
from fairway.kube.located import did_you_mean

CHECKS: Final[dict[str, Look]] = {
    look.__name__: look
    for look in (
        waiting.pending,
        waiting.refused_pods,
        containers.not_created,
        containers.crashes,
        containers.host_memory,
        containers.gpu_memory,
        containers.few_cpus,
        capacity.hot_nodes,
        capacity.fragments,
        capacity.idle_holders,
        capacity.churn,
        waiting.unhelped,
        waiting.lost_queues,
        waiting.lost_quotas,
        rules.headless,
        rules.dns,
        waiting.blocked_system,
    )
}


@dataclass(frozen=True, slots=True)
class Result:
    """One check of one symptom, and what it found."""

    symptom: Symptom
    check: Check
    finding: Finding

    def as_json(self) -> dict[str, Any]:
        return {
            "symptom": self.symptom.name,
            "title": self.symptom.title,
            "check": self.check.name,
            "state": self.finding.state,
            "count": self.finding.count,
            "evidence": list(self.finding.evidence),
            "objects": list(self.finding.objects),
            "command": self.check.command,
            "signal": self.check.signal,
            "fix": self.check.fix,
        }


def checkup(patient: Patient, names: Iterable[str] = ()) -> list[Result]:
    """Every check of these symptoms, of all without names.

    Raises: UserError for a symptom nobody knows.
    """
    known = {s.name: s for s in symptoms()}
    for name in names:
        if name not in known:
            raise UserError(f"no symptom {name!r}: {did_you_mean(name, list(known))}")
    wanted = [known[n] for n in names] or list(symptoms())
    return [Result(s, c, _looked(patient, c)) for s in wanted for c in s.checks]


def _looked(patient: Patient, check: Check) -> Finding:
    """One odd object costs one check its answer, not the others."""
    try:
        return CHECKS[check.name](patient)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as odd:
        return unknown(f"an object could not be understood: {type(odd).__name__} {odd}")


def is_well(results: Iterable[Result]) -> bool:
    return not any(r.finding.state == ILL for r in results)


__all__ = ["CHECKS", "ILL", "UNKNOWN", "Result", "checkup", "is_well"]
