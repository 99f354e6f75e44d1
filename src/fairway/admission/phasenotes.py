"""What goes along with a write through both phases of admission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from fairway.admission.intree import Options
from fairway.admission.policies.index import PolicyIndex
from fairway.admission.rbac.attributes import Attributes, Decision
from fairway.admission.request import Denial, Outcome
from fairway.cluster.actions import View

if TYPE_CHECKING:
    from fairway.admission.webhooks.phases import Called


class Configured(NamedTuple):
    """What users have configured, and what it is asked with. `ask`: may somebody do this; None: nobody knows."""

    view: View
    ask: Callable[[Attributes], Decision] | None
    policies: PolicyIndex
    options: Options


@dataclass(slots=True)
class Notes:
    """What a phase has gathered for the client and the audit log."""

    warnings: list[str]
    audit: dict[str, str]
    spoken: tuple[Denial, ...] = ()

    def add(self, called: Called) -> None:
        self.warnings += called.warnings
        self.audit.update(called.audit)

    def on(self, outcome: Outcome) -> Outcome:
        if not (self.warnings or self.audit or self.spoken):
            return outcome
        warnings = tuple(dict.fromkeys((*self.warnings, *outcome.warnings)))
        audit = {**self.audit, **outcome.audit}
        return replace(outcome, warnings=warnings, audit=audit, spoken=self.spoken)
