"""Why did no node do: per node, and added up into the reasons kube-scheduler prints.

Source: pkg/scheduler/framework/types.go Diagnosis, FitError (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts
from fairway.scheduling.filters import Filters
from fairway.scheduling.verdict import PLUGINS, REASONS, TOO_MANY_PODS, Refusal

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass
class Diagnosis:
    """Arrays over rows. `filters` is None where nothing was filtered (no nodes).

    `short`: bits as in `NodeLocal.short`; `outside`: rows that required node names exclude, if any are;
    `prefilter`: what a PreFilter said that refused the pod everywhere; `error`: what ended the attempt before it could
    be told whether any node would do; `said`: what extenders said of rows (EXTENDER; some say nothing).
    """

    refusal: Ints
    short: Ints
    is_hopeless: Bools
    filters: Filters | None = None
    outside: Bools | None = None
    prefilter: str = ""
    prefilter_plugin: str = ""
    error: str = ""
    said: Mapping[int, str] = field(default_factory=dict)


def reasons_of(diagnosis: Diagnosis, accounts: NodeAccounts) -> tuple[dict[str, int], tuple[str, ...]]:
    """How many nodes say each reason, and which plugins said no (sorted)."""
    alive = accounts.alive
    counted = alive if diagnosis.outside is None else alive & ~diagnosis.outside
    refusal = diagnosis.refusal[counted]
    reasons: dict[str, int] = {}
    plugins: dict[str, None] = {}
    for code, count in enumerate(np.bincount(refusal).tolist()):
        if not count or code == Refusal.NONE:
            continue
        plugins[PLUGINS[Refusal(code)]] = None
        if code == Refusal.FIT:
            _add_shortages(reasons, diagnosis, diagnosis.short[counted][refusal == code])
        elif code == Refusal.EXTENDER:
            reasons.update(Counter(diagnosis.said.values()))
        else:
            reasons[REASONS[Refusal(code)]] = count
    if diagnosis.outside is not None:
        plugins["NodeAffinity"] = None
        rest = int((alive & diagnosis.outside).sum())
        if rest:
            reasons["node(s) didn't satisfy plugin(s) [NodeAffinity]"] = rest
    return reasons, tuple(sorted(plugins))


def _add_shortages(reasons: dict[str, int], diagnosis: Diagnosis, short: Ints) -> None:
    """A node short of several things counts under each."""
    if diagnosis.filters is None:
        return
    for bit, name in enumerate(shortage_names(diagnosis.filters.local.resources)):
        count = int(np.count_nonzero(short & (1 << bit)))
        if count:
            reasons[name] = count


def shortage_names(resources: Sequence[str]) -> tuple[str, ...]:
    """What each bit of `NodeLocal.short` is called."""
    return (TOO_MANY_PODS, *(f"Insufficient {r}" for r in resources))
