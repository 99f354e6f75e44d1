"""Where is room? The nodes of a future, either by what is taken of each (`States`), or as kube-scheduler sees them.

Equal nodes of which the same is taken are one state: what a pod shape makes of a state (whether it fits, and the score
kube-scheduler would give it) is worked out once for all futures, and so is which state comes of placing or removing
such a pod. A placement is then a look at the states there are, and no node is looked at.

`States` speaks where nodes are judged one by one by their resources: no spreading, affinity between pods, preferences
of nodes, host ports, volumes, parts of GPUs, policies; `why_not` says why not. Then `Scheduler` is asked itself.

Unlike kube: which images a node holds is of no account here, and of many nodes with room the best of all is taken,
where kube-scheduler stops its search early.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

import numpy as np

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.records import LabelSet, PodRecord
from fairway.cluster.shapes import PodShape
from fairway.kube.objects import Key
from fairway.kube.resources import NVIDIA_GPU
from fairway.kube.taints import PREFER_NO_SCHEDULE
from fairway.scheduling.cycle import Scheduler
from fairway.scheduling.plainscores import PlainScores, is_plain
from fairway.scheduling.profile import GPU_POLICIES
from fairway.scheduling.resourcescores import balanced_scores, fit_scores
from fairway.scheduling.verdict import Scheduled

NOWHERE: Final = -1
_UNKNOWN: Final = -2


class Board(ABC):
    """A cluster on which futures are played, one after another. Shapes are known by numbers, nodes by rows; a token
    stands for a pod that was placed."""

    @abstractmethod
    def line_of(self, shape: PodShape, labels: LabelSet) -> int: ...

    @abstractmethod
    def begin(self) -> None:
        """All is as it was at first."""

    @abstractmethod
    def seat(self, record: PodRecord) -> int:
        """The token of a pod that runs from the beginning."""

    @abstractmethod
    def place(self, line: int, draw: int) -> int:
        """Anywhere: its token, or `NOWHERE`. `draw` picks among equals."""

    @abstractmethod
    def place_on(self, row: int, line: int, draw: int) -> int:
        """On this node, where `fits` says that it may: its token, or `NOWHERE`."""

    @abstractmethod
    def fits(self, row: int, line: int) -> bool: ...

    @abstractmethod
    def leave(self, token: int, line: int) -> int:
        """The row it was on."""

    @abstractmethod
    def held(self) -> int:
        """GPUs in use."""

    @abstractmethod
    def turn(self, row: int) -> None:
        """A node is lost, or there again: nothing fits on one that is lost. What is on it leaves by `leave`."""


class States(Board):
    """Tokens are rows."""

    def __init__(self, accounts: NodeAccounts, scheduler: Scheduler) -> None:
        self.accounts, self.scheduler = accounts, scheduler
        self._line_of: dict[int, int] = {}
        self._shapes: list[PodShape] = []
        self._allowed: list[list[bool]] = []
        self._plain: list[PlainScores | None] = []
        self._is_sealed = False
        self._gpu = accounts.column(NVIDIA_GPU)

    def line_of(self, shape: PodShape, labels: LabelSet) -> int:
        found = self._line_of.get(shape.id)
        if found is not None:
            return found
        self._is_sealed = False
        line = self._line_of[shape.id] = len(self._shapes)
        for name in shape.requests:
            self.accounts.column(name)
        profile = self.scheduler.profile
        record = PodRecord(key=Key("Pod", "", "any"), uid="", shape=shape, labels=labels)
        local = self.scheduler.local(record)
        alive = self.accounts.alive.tolist()
        self._shapes.append(shape)
        self._allowed.append([alive[row] and not local.static_refusal(row) for row in range(len(alive))])
        weights = profile.weight("NodeResourcesFit"), profile.weight("NodeResourcesBalancedAllocation")
        self._plain.append(PlainScores(shape, *weights) if is_plain(shape, profile) else None)
        return line

    def _seal(self) -> None:
        """All shapes are known: nodes that none of them tells apart are of one class."""
        accounts, count = self.accounts, self.accounts.row_count
        width = len(accounts.columns)
        self._needs = [[shape.requests.get(name, 0) for name in accounts.columns] for shape in self._shapes]
        self._asked = [[(c, v) for c, v in enumerate(need) if v] for need in self._needs]
        # By line and state: the score, and which state one pod more or less makes of it; `_UNKNOWN` before it is asked.
        self._score: list[list[int]] = [[] for _ in self._shapes]
        self._with: list[list[int]] = [[] for _ in self._shapes]
        self._without: list[list[int]] = [[] for _ in self._shapes]
        self._members: list[list[int]] = []
        self._state_of_key: dict[tuple[int, ...], int] = {}
        self._states: list[tuple[int, ...]] = []
        self._sample: list[int] = []
        """By class: one of its rows, of which a copy of the accounts is used to try things on."""
        self._tried = accounts.copy()
        classes: dict[tuple[object, ...], int] = {}
        first: list[int] = []
        self._gpus_held = 0
        for row in range(count):
            allowed = tuple(may[row] for may in self._allowed)
            look = (tuple(accounts.allocatable[row].tolist()), int(accounts.allowed_pods[row]), allowed)
            if look not in classes:
                classes[look] = len(self._sample)
                self._sample.append(row)
            taken = accounts.requested[row].tolist()
            self._gpus_held += taken[self._gpu]
            key = (classes[look], *taken, *accounts.non_zero[row].tolist(), int(accounts.pod_count[row]))
            first.append(self._number_of(key))
        self._width = width
        self._first = first
        self._is_sealed = True

    def _number_of(self, key: tuple[int, ...]) -> int:
        found = self._state_of_key.get(key)
        if found is None:
            found = self._state_of_key[key] = len(self._states)
            self._states.append(key)
            self._members.append([])
            for tables in (self._score, self._with, self._without):
                for table in tables:
                    table.append(_UNKNOWN)
        return found

    def begin(self) -> None:
        if not self._is_sealed:
            self._seal()
        self._state_at = list(self._first)
        self._place_at = [0] * len(self._first)
        self._members = [[] for _ in self._states]
        self._live: list[int] = []
        """States that some node is in; draws among equals go by the order in which they came up."""
        self._held = self._gpus_held
        for row, state in enumerate(self._first):
            self._join(row, state)

    def seat(self, record: PodRecord) -> int:
        return record.row

    def place(self, line: int, draw: int) -> int:
        scores, members = self._score[line], self._members
        best = NOWHERE
        tied: list[int] = []
        for state in self._live:
            score = scores[state]
            if score < best:
                if score != _UNKNOWN:
                    continue
                score = scores[state] = self._judge(line, state)
            if score > best:
                best, tied = score, [state]
            elif score == best:
                tied.append(state)
        if best < 0:
            return NOWHERE
        pick = draw % sum([len(members[state]) for state in tied])
        for state in tied:
            rows = members[state]
            if pick < len(rows):
                row = rows[pick]
                return self.place_on(row, line, draw)
            pick -= len(rows)
        raise AssertionError("a draw beyond the last of those that are equal")

    def place_on(self, row: int, line: int, draw: int) -> int:
        self._move(row, self._moved(line, self._state_at[row], 1))
        self._held += self._needs[line][self._gpu]
        return row

    def fits(self, row: int, line: int) -> bool:
        state = self._state_at[row]
        score = self._score[line][state]
        if score == _UNKNOWN:
            score = self._score[line][state] = self._judge(line, state)
        return score >= 0

    def leave(self, token: int, line: int) -> int:
        self._move(token, self._moved(line, self._state_at[token], -1))
        self._held -= self._needs[line][self._gpu]
        return token

    def held(self) -> int:
        return self._held

    def turn(self, row: int) -> None:
        key = self._states[self._state_at[row]]
        self._move(row, self._number_of((~key[0], *key[1:])))

    def _moved(self, line: int, state: int, sign: int) -> int:
        """The state that comes of one pod more, or less."""
        known = self._with[line] if sign > 0 else self._without[line]
        found = known[state]
        if found == _UNKNOWN:
            key, need, shape = self._states[state], self._needs[line], self._shapes[line]
            width = self._width
            taken = [key[1 + c] + sign * need[c] for c in range(width)]
            cpu = key[1 + width] + sign * shape.non_zero_cpu
            memory = key[2 + width] + sign * shape.non_zero_memory
            found = self._number_of((key[0], *taken, cpu, memory, key[3 + width] + sign))
            known[state] = found
        return found

    def _move(self, row: int, state: int) -> None:
        old, at = self._state_at[row], self._place_at[row]
        rows = self._members[old]
        last = rows.pop()
        if last != row:
            rows[at] = last
            self._place_at[last] = at
        elif not rows:
            self._live.remove(old)
        self._join(row, state)

    def _join(self, row: int, state: int) -> None:
        rows = self._members[state]
        if not rows:
            self._live.append(state)
        self._state_at[row] = state
        self._place_at[row] = len(rows)
        rows.append(row)

    def _judge(self, line: int, state: int) -> int:
        """What kube-scheduler's scores for a node in this state come to; `NOWHERE` where the pod does not fit."""
        accounts, key, width = self._tried, self._states[state], self._width
        if key[0] < 0:
            # A lost node's class is the complement of its own.
            return NOWHERE
        row = self._sample[key[0]]
        if not self._allowed[line][row] or key[3 + width] >= int(accounts.allowed_pods[row]):
            return NOWHERE
        allocatable = accounts.allocatable[row].tolist()
        taken = list(key[1 : 1 + width])
        for column, value in self._asked[line]:
            if value > allocatable[column] - taken[column]:
                return NOWHERE
        non_zero = [key[1 + width], key[2 + width]]
        plain = self._plain[line]
        if plain is not None:
            return plain.of(allocatable, taken, non_zero)
        accounts.requested[row] = taken
        accounts.non_zero[row] = non_zero
        return self._score_of_row(line, row)

    def _score_of_row(self, line: int, row: int) -> int:
        profile, shape, rows = self.scheduler.profile, self._shapes[line], np.array([row], np.int64)
        total = profile.weight("NodeResourcesFit") * int(fit_scores(self._tried, shape, profile.fit, rows)[0])
        balanced = balanced_scores(self._tried, shape, profile.balanced_resources, rows)
        if balanced is not None:
            total += profile.weight("NodeResourcesBalancedAllocation") * int(balanced[0])
        return total


class Asking(Board):
    """Asks kube-scheduler for every pod. Tokens are the numbers of pods in the order in which they came."""

    def __init__(self, accounts: NodeAccounts, scheduler: Scheduler) -> None:
        self.accounts, self.scheduler = accounts, scheduler
        self._line_of: dict[int, int] = {}
        self._of_line: list[tuple[PodShape, LabelSet]] = []
        self._pods: list[PodRecord] = []
        self._gone: list[tuple[PodRecord, int]] = []
        self._seated = 0

    def line_of(self, shape: PodShape, labels: LabelSet) -> int:
        found = self._line_of.get(shape.id)
        if found is None:
            found = self._line_of[shape.id] = len(self._of_line)
            self._of_line.append((shape, labels))
        return found

    def begin(self) -> None:
        for record in self._pods[self._seated :]:
            if record.row >= 0:
                self.accounts.displace(record)
        for record, row in reversed(self._gone):
            self.accounts.place(record, row)
        self._pods, self._gone, self._seated = [], [], 0

    def seat(self, record: PodRecord) -> int:
        self._pods.append(record)
        self._seated += 1
        return self._seated - 1

    def place(self, line: int, draw: int) -> int:
        shape, labels = self._of_line[line]
        number = len(self._pods)
        key = Key("Pod", labels.namespace, f"future-{number}")
        record = PodRecord(key=key, uid=key.name, shape=shape, labels=labels)
        verdict = self.scheduler.place(record, draw)
        if not isinstance(verdict, Scheduled):
            return NOWHERE
        record.devices = verdict.devices
        self.accounts.place(record, self.accounts.row_of[verdict.node])
        self._pods.append(record)
        return number

    def place_on(self, row: int, line: int, draw: int) -> int:
        return self.place(line, draw)

    def fits(self, row: int, line: int) -> bool:
        """As far as amounts go: the scheduler has the last word."""
        accounts, column_of = self.accounts, self.accounts.column_of
        free = (accounts.allocatable[row] - accounts.requested[row]).tolist()
        return all(free[column_of[n]] >= v for n, v in self._of_line[line][0].requests.items() if v)

    def leave(self, token: int, line: int) -> int:
        record = self._pods[token]
        row = record.row
        self.accounts.displace(record)
        if token < self._seated:
            self._gone.append((record, row))
        return row

    def turn(self, row: int) -> None:
        raise AssertionError("nodes are lost where states of nodes speak; else all engines play")

    def held(self) -> int:
        column = self.accounts.column_of.get(NVIDIA_GPU)
        return 0 if column is None else int(self.accounts.requested[:, column].sum())


def why_not(scheduler: Scheduler, shapes: Iterable[PodShape]) -> str:
    """Why `States` would not do, as a phrase; empty where it does."""
    accounts, profile = scheduler.accounts, scheduler.profile
    if any(profile.weight(name) for name in GPU_POLICIES):
        return "a policy for shared GPUs chooses nodes"
    if accounts.counts.has_carried or any(s.spread or s.has_pod_terms for s in shapes):
        return "pods look at where other pods are"
    prefers = any(t.effect == PREFER_NO_SCHEDULE for taints in accounts.taint_sets for t in taints)
    if prefers or profile.added_preferred or any(s.selection.preferred for s in shapes):
        return "pods prefer some nodes"
    if any(s.host_ports or s.claims or s.has_devices for s in shapes):
        return "pods ask for ports, volumes or devices"
    if accounts.devices.shared_rows and any(s.gpu_count for s in shapes):
        return "GPUs are shared"
    return "" if profile.filters_with("NodeResourcesFit") else "the scheduler does not look at resources"
