"""A guess at what might start something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairway.answers.naming import job_of
from fairway.answers.steps import Delete, Step
from fairway.cluster.store import Store
from fairway.kube.objects import Key

_HOLDERS = 4


@dataclass(frozen=True)
class Proposal:
    """Steps, and what they are called. `family`: proposals of one are alternatives; `evicts`: whose work goes;
    `loses`: the work becomes less."""

    what: str
    steps: tuple[Step, ...]
    family: str
    evicts: tuple[str, ...] = ()
    loses: bool = False


def gone(store: Store, holders: list[Key]) -> Iterator[Proposal]:
    jobs = list(dict.fromkeys(job_of(store, k) for k in holders))
    sets = [jobs[i : i + 1] for i in range(min(len(jobs), _HOLDERS))] + [
        jobs[:n] for n in (2, 4, 8) if len(jobs) >= n
    ]
    for some in sets:
        names = tuple(f"{k.namespace}/{k.name}" for k in some)
        what = f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''} finished or deleted"
        yield Proposal(what, tuple(Delete(k) for k in some), f"holders/{len(some)}", evicts=names)
