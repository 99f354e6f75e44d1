"""Which nodes would do for a task, and which of them is best?

Source: volcano-sh/volcano pkg/scheduler/util/predicate_helper.go, scheduler_helper.go; actions/allocate predicate.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from fairway.volcano.facts import Bools, Ints
from fairway.volcano.session import Session
from fairway.volcano.state import FitErrors, Task
from fairway.volcano.vectors import fits

# ServerOption: min-nodes-to-find, min-percentage-of-nodes-to-find; percentage-nodes-to-find 0 adapts.
_MIN_NODES = 100
_MIN_PERCENT = 5
_BASE_PERCENT = 50


def find_nodes(session: Session, task: Task, only: int | None = None) -> tuple[Ints, FitErrors]:
    """Nodes where the task fits now or once those who are leaving have left, and what the others say.

    `only`: look at this node alone.
    """
    world = session.world
    over = task.asked > world.future_idle
    short = over.any(axis=1)
    code, words, final = _predicates(session, task)
    fit = ~short & (code == 0)
    if only is not None:
        alone = np.zeros_like(fit)
        alone[only] = True
        fit &= alone
    nodes = _searched(session, fit)
    if len(nodes):
        return nodes, FitErrors()
    reasons: Counter[str] = Counter()
    for column in np.argmax(over, axis=1)[short].tolist():
        reasons[f"Insufficient {world.columns.names[column]}"] += 1
    for at in code[~short].tolist():
        if at:
            reasons[words[at]] += 1
    return nodes, FitErrors(len(fit), tuple(sorted(reasons.items())), is_final=final & ~short)


def find_nodes_to_empty(session: Session, task: Task) -> Ints:
    """Nodes where evictions may help: not refused for good, and not found to be so before."""
    _, _, final = _predicates(session, task)
    known = task.owner.fit_errors.get(task.id)
    if known is not None and known.is_final is not None:
        final = final | known.is_final
    return _searched(session, ~final)


def is_refused(session: Session, task: Task, node: int) -> bool:
    """Whether the predicates (resources aside) refuse the node now."""
    return bool(_predicates(session, task)[0][node])


def _predicates(session: Session, task: Task) -> tuple[Ints, dict[int, str], Bools]:
    world = session.world
    count = len(world.node_names)
    if not session.has_predicates:
        return np.zeros(count, np.int64), {}, np.zeros(count, np.bool_)
    said = world.feasibility.refusals(task.id)
    return said.code, dict(said.words), said.is_final


def _searched(session: Session, fit: Bools) -> Ints:
    """The fitting nodes from where the last search stopped, no more than are wanted."""
    count = len(fit)
    if not count:
        return np.zeros(0, np.int64)
    start = session.search_from % count
    order = np.roll(np.arange(count), -start)
    found = np.flatnonzero(fit[order])
    wanted = nodes_to_find(count)
    looked_at = count if len(found) <= wanted else int(found[wanted]) + 1
    session.search_from = (start + looked_at) % count
    nodes: Ints = order[found[:wanted]]
    return nodes


def nodes_to_find(count: int) -> int:
    """Source: CalculateNumOfFeasibleNodesToFind."""
    if count <= _MIN_NODES:
        return count
    percent = max(_BASE_PERCENT - count // 125, _MIN_PERCENT)
    return max(count * percent // 100, _MIN_NODES)


def best_node(session: Session, task: Task, nodes: Ints) -> int | None:
    """Of the nodes that are free, else of those that will be, the one with the best score; a draw among equals."""
    world = session.world
    idle = ~(task.asked > world.idle[nodes]).any(axis=1)
    for group in (nodes[idle], nodes[~idle]):
        if len(group) == 1:
            return int(group[0])
        if len(group):
            return best_of(session, task, group)
    return None


def best_of(session: Session, task: Task, nodes: Ints) -> int:
    scores = session.scores(task, nodes)
    equal = nodes if scores is None else nodes[scores == scores.max()]
    return int(equal[session.draw(len(equal)) if len(equal) > 1 else 0])


def by_score(session: Session, task: Task, nodes: Ints) -> list[int]:
    """Best first; equals in the order in which they were found."""
    scores = session.scores(task, nodes)
    if scores is None:
        return [int(n) for n in nodes]
    return [int(n) for n in nodes[np.argsort(-scores, kind="stable")]]


def has_enough(session: Session, task: Task, node: int, victims: list[Task]) -> bool:
    """Whether the task fits once all of these left. Source: ValidateVictims."""
    room = session.world.future_idle[node].copy()
    for victim in victims:
        room += victim.asked
    return fits(task.asked, room)
