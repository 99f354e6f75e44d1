"""How many pods of a kind are on each node: per selector, and per term that pods carry.

Affinity and spreading ask "how many pods matching this are in each zone". Each distinct question gets a count
per row when first asked and is kept from then on, so a placement costs a few increments and a question a sum
over rows by domain. `domains` numbers the values of a topology key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.cluster.records import LabelSet, PodRecord
from fairway.cluster.shapes import PodShape, PodTerm
from fairway.kube.labels import Selector

if TYPE_CHECKING:
    from fairway.cluster.accounts import NodeAccounts

# Shapes whose terms are remembered.
_MEMO_LIMIT: Final = 4096

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class PodQuestion(NamedTuple):
    """Which pods count: those that match every (namespaces, selector) pair; `namespaces` None means all.

    `is_live`: leave out pods that are being deleted.
    """

    parts: tuple[tuple[tuple[str, ...] | None, Selector], ...]
    is_live: bool

    @property
    def home(self) -> str:
        """The one namespace whose pods it may count; empty where there are several."""
        for namespaces, _ in self.parts:
            if namespaces is not None and len(namespaces) == 1:
                return namespaces[0]
        return ""

    def matches(self, labels: LabelSet) -> bool:
        for namespaces, selector in self.parts:
            if namespaces is not None and labels.namespace not in namespaces:
                return False
            if not selector.matches(labels.labels):
                return False
        return True


class CarriedTerm(NamedTuple):
    """A term that pods on nodes carry: `REQUIRED_ANTI`, `REQUIRED`, `PREFERRED` or `PREFERRED_ANTI`."""

    role: str
    term: PodTerm
    weight: int


REQUIRED_ANTI: Final = "required-anti"
REQUIRED: Final = "required"
PREFERRED: Final = "preferred"
PREFERRED_ANTI: Final = "preferred-anti"


class Domains:
    """The values of one topology key: `of_row` int64[row], -1 where a node lacks the label."""

    def __init__(self, rows: int) -> None:
        self.id_of: dict[str, int] = {}
        self.of_row: Ints = np.full(rows, -1, np.int64)

    def label(self, row: int, value: str | None) -> None:
        self.of_row[row] = -1 if value is None else self.id_of.setdefault(value, len(self.id_of))

    def sums(self, counts: Ints) -> Ints:
        """int64[domain]: the counts of each domain's rows. Never empty."""
        # Nodes without the label count into a domain before the first, which is cut off.
        found = np.bincount(self.of_row + 1, weights=counts, minlength=max(len(self.id_of), 1) + 1)
        return found[1:].astype(np.int64)

    def present(self, inside: Bools) -> Bools:
        """bool[domain]: whether any of these rows, all of them labelled, is in it. Never empty."""
        found = np.zeros(max(len(self.id_of), 1), np.bool_)
        found[self.of_row[inside]] = True
        return found


class _Placed:
    """Pods with one label set: how many by row and whether they are being deleted."""

    __slots__ = ("labels", "rows")

    def __init__(self, labels: LabelSet) -> None:
        self.labels = labels
        self.rows: dict[tuple[int, bool], int] = {}


class PodCounts:
    """Counts per row, kept up to date.

    Most questions are about one namespace (those of default spreading, one for each ReplicaSet): they are kept by
    it, as are label sets, so that a new question costs O(label sets of its namespace).
    """

    def __init__(self, accounts: NodeAccounts) -> None:
        self._accounts = accounts
        self._rows = 16
        self._questions: dict[PodQuestion, Ints] = {}
        self._asked: dict[str, list[PodQuestion]] = {}
        self._answers: dict[str, dict[int, list[tuple[Ints, bool]]]] = {}
        self._placed: dict[str, dict[int, _Placed]] | None = None
        self._carried: dict[CarriedTerm, Ints] = {}
        self._carried_by_shape: dict[int, tuple[CarriedTerm, ...]] = {}
        self._term_matches: dict[int, dict[CarriedTerm, bool]] = {}
        self._domains: dict[str, Domains] = {}

    def grow(self, rows: int) -> None:
        def longer(a: Ints, fill: int = 0) -> Ints:
            return np.concatenate([a, np.full(rows - len(a), fill, np.int64)])

        self._rows = rows
        self._questions = {q: longer(a) for q, a in self._questions.items()}
        self._carried = {t: longer(a) for t, a in self._carried.items()}
        self._answers.clear()
        for domains in self._domains.values():
            domains.of_row = longer(domains.of_row, -1)

    def domains(self, key: str) -> Domains:
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domains(self._rows)
            for row, labels in enumerate(self._accounts.labels):
                found.label(row, labels.get(key))
        return found

    def relabel(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        for key, domains in self._domains.items():
            if old.get(key) != new.get(key):
                domains.label(row, new.get(key))

    def matching(self, question: PodQuestion) -> Ints:
        """int64[row]: how many pods the question counts on each node. Read only."""
        found = self._questions.get(question)
        if found is None:
            found = self._questions[question] = np.zeros(self._rows, np.int64)
            home = question.home
            self._asked.setdefault(home, []).append(question)
            if home:
                self._answers.pop(home, None)
            else:
                self._answers.clear()
            placed = self._placed_pods()
            for namespace in (home,) if home else list(placed):
                for one in placed.get(namespace, {}).values():
                    if question.matches(one.labels):
                        for (row, is_terminating), count in one.rows.items():
                            if not (question.is_live and is_terminating):
                                found[row] += count
        return found

    def _placed_pods(self) -> dict[str, dict[int, _Placed]]:
        """By namespace and label set; kept from the first question on."""
        if self._placed is None:
            self._placed = {}
            for record in self._accounts.records.values():
                if record.row >= 0:
                    self._place(record, record.row, 1)
        return self._placed

    def _place(self, record: PodRecord, row: int, sign: int) -> None:
        if self._placed is None:
            return
        labels = record.labels
        here = self._placed.setdefault(labels.namespace, {})
        one = here.get(labels.id)
        if one is None:
            one = here[labels.id] = _Placed(labels)
        at = (row, record.is_terminating)
        left = one.rows.get(at, 0) + sign
        if left:
            one.rows[at] = left
        else:
            del one.rows[at]
            if not one.rows:
                del here[labels.id]

    def count(self, record: PodRecord, row: int, sign: int) -> None:
        """A pod came to a row (+1) or left it (-1)."""
        if self._questions:
            self._place(record, row, sign)
            for counts, is_live in self._questions_about(record.labels):
                if not (is_live and record.is_terminating):
                    counts[row] += sign
        if record.shape.has_pod_terms:
            for term in self._terms_of(record.shape):
                if term not in self._carried:
                    self._carried[term] = np.zeros(self._rows, np.int64)
                self._carried[term][row] += sign

    def carried(self, labels: LabelSet, roles: tuple[str, ...]) -> list[tuple[CarriedTerm, Ints]]:
        """The terms that pods on nodes carry and that match a pod with these labels, with counts per row."""
        if not self._carried:
            return []
        known = self._term_matches.setdefault(labels.id, {})
        found = []
        for term, counts in self._carried.items():
            if term.role not in roles:
                continue
            matches = known.get(term)
            if matches is None:
                namespace_labels = self._accounts.labels_of_namespace(labels.namespace)
                matches = term.term.matches(labels.namespace, labels.labels, namespace_labels)
                known[term] = matches
            if matches and counts.any():
                found.append((term, counts))
        return found

    @property
    def has_carried(self) -> bool:
        """Whether any pod ever carried a term."""
        return bool(self._carried)

    def copy(self, accounts: NodeAccounts) -> PodCounts:
        """The same counts for a copy of the accounts; memos, and domains, start empty."""
        twin = PodCounts(accounts)
        twin._rows = self._rows
        twin._questions = {q: a.copy() for q, a in self._questions.items()}
        twin._asked = {home: list(asked) for home, asked in self._asked.items()}
        twin._carried = {t: a.copy() for t, a in self._carried.items()}
        return twin

    def forget_namespace_matches(self) -> None:
        self._term_matches.clear()

    def _questions_about(self, labels: LabelSet) -> list[tuple[Ints, bool]]:
        known = self._answers.setdefault(labels.namespace, {})
        found = known.get(labels.id)
        if found is None:
            asked = [*self._asked.get(labels.namespace, ()), *self._asked.get("", ())]
            found = [(self._questions[q], q.is_live) for q in asked if q.matches(labels)]
            known[labels.id] = found
        return found

    def _terms_of(self, shape: PodShape) -> tuple[CarriedTerm, ...]:
        found = self._carried_by_shape.get(shape.id)
        if found is None:
            found = (
                *(CarriedTerm(REQUIRED_ANTI, t, 1) for t in shape.required_anti_affinity),
                *(CarriedTerm(REQUIRED, t, 1) for t in shape.required_affinity),
                *(CarriedTerm(PREFERRED, t.term, t.weight) for t in shape.preferred_affinity),
                *(CarriedTerm(PREFERRED_ANTI, t.term, t.weight) for t in shape.preferred_anti_affinity),
            )
            if len(self._carried_by_shape) >= _MEMO_LIMIT:
                self._carried_by_shape.clear()
            self._carried_by_shape[shape.id] = found
        return found
