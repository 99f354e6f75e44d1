"""In which order nodes are looked at, where a search ends and the next begins; how many what-ifs are tried."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from builders import node, pod
from fairway.cluster.store import Store
from fairway.compiled import loading
from fairway.kube.objects import key_of
from fairway.scheduling import preemption
from fairway.scheduling.cycle import Scheduler, feasible_nodes_to_find
from fairway.scheduling.evictions import Candidate
from fairway.scheduling.filters import Filters
from fairway.scheduling.profile import DEFAULT_PROFILE, PreemptionArgs
from fairway.scheduling.verdict import Refusal

_NO_STAND_INS = pytest.mark.skipif(
    loading.is_active(), reason="compiled code takes no stand-ins: the run as pure Python has it"
)


def test_how_many_feasible_nodes_end_a_search() -> None:
    """kube-scheduler's numFeasibleNodesToFind."""
    for count, percentage, want in (
        (0, 0, 0),
        (99, 0, 99),
        (99, 10, 99),
        (100, 0, 100),
        (100, 1, 100),
        (250, 0, 120),
        (1000, 0, 420),
        (1000, 9, 100),
        (1000, 11, 110),
        (1000, 100, 1000),
        (5624, 0, 5624 * 6 // 100),
        (5625, 0, 5625 * 5 // 100),
        (9000, 0, 450),
    ):
        assert feasible_nodes_to_find(count, percentage) == want, (count, percentage)


class _Said:
    """Filters that say this of rows; `asked`: rows that devices were asked about."""

    def __init__(self, codes: Any) -> None:
        self.codes, self.asked = codes, set[int]()

    def ask_devices(self, rows: Any) -> None:
        self.asked |= set(rows.tolist())


@_NO_STAND_INS
def test_a_search_goes_round_and_stops_where_enough_is_found() -> None:
    store = Store()
    for i in range(230):
        store.create(node(f"n{i}").zone(f"z{i % 3}").build())
    order = store.accounts.order_twice().tolist()
    order = order[: len(order) // 2]
    plain = replace(DEFAULT_PROFILE, percentage_of_nodes_to_score=50)
    first_will_do = replace(plain, weights={})
    draw = Random(5)
    for number in range(150):
        profile = draw.choice((plain, plain, first_will_do))
        scheduler = Scheduler(store.accounts, profile)
        scheduler.next_start = start = draw.randrange(500)
        share = draw.choice((0.0, 0.02, 0.3, 0.7, 1.0))
        codes = np.zeros(len(store.accounts.alive), np.int64)
        for row in order:
            codes[row] = 0 if draw.random() < share else 1 + draw.randrange(3)
        outside = None
        left = order
        if draw.random() < 0.4:
            size = draw.choice((0, 1, 3, 110, 200))
            inside = set(draw.sample(order, size))
            left = [row for row in order if row in inside]
            outside = np.array([row not in inside for row in range(len(codes))], np.bool_)
        wanted = feasible_nodes_to_find(len(left), 50) if profile.weights else 1
        found: list[int] = []
        looked_at = 0
        begin = start % len(left) if left else 0
        for row in left[begin:] + left[:begin]:
            if len(found) >= wanted:
                break
            looked_at += 1
            if codes[row] == 0:
                found.append(row)
        said = _Said(codes)
        rows, evaluated = scheduler._search(said, outside)  # type: ignore[arg-type]
        assert (rows.tolist(), evaluated) == (found, looked_at), number
        if left:
            assert scheduler.next_start == (start + looked_at) % len(order), number
            ahead = left[begin:] + left[:begin]
            assert said.asked >= set(ahead[:looked_at]), "all that were looked at were asked"


@_NO_STAND_INS
@pytest.mark.parametrize(("percent", "least"), [(10, 2), (50, 1), (100, 1), (1, 3), (100, 200), (34, 1)])
def test_as_many_what_ifs_as_are_asked_for(monkeypatch: pytest.MonkeyPatch, percent: int, least: int) -> None:
    args = PreemptionArgs(min_candidate_nodes_percentage=percent, min_candidate_nodes_absolute=least)
    scheduler: Any = SimpleNamespace(profile=SimpleNamespace(preemption=args), accounts=None)
    draw = Random(percent)
    for number in range(60):
        count = draw.choice((1, 2, 3, 7, 10, 100))
        rows = draw.sample(range(200), count)
        kinds = {row: draw.choice(("clean", "violating", "clean", "no")) for row in rows}
        tried: list[int] = []

        def found(
            _accounts: Any, _filters: Any, row: int, _budgets: Any, kinds: Any = kinds, to: Any = tried
        ) -> Any:
            to.append(row)
            if kinds[row] == "no":
                return (f"too small {row % 2}", "other")
            return Candidate(row, (), 2 if kinds[row] == "violating" else 0)

        monkeypatch.setattr(preemption, "victims_on", found)
        begin = draw.randrange(1000)
        candidates, said = preemption._dry_run(scheduler, None, rows, (), begin)  # type: ignore[arg-type]
        wanted = min(count, max(least, count * percent // 100))
        expected: list[int] = []
        for row in rows[begin % count :] + rows[: begin % count]:
            expected.append(row)
            good = [r for r in expected if kinds[r] != "no"]
            if len(good) >= wanted and any(kinds[r] == "clean" for r in good):
                break
        assert tried == expected, number
        clean = [r for r in expected if kinds[r] == "clean"]
        assert [c.row for c in candidates] == clean + [r for r in expected if kinds[r] == "violating"]
        no = [r for r in expected if kinds[r] == "no"]
        assert said == {
            k: v
            for k, v in (
                ("too small 0", sum(r % 2 == 0 for r in no)),
                ("too small 1", sum(r % 2 for r in no)),
                ("other", len(no)),
            )
            if v
        }


def _filters(*, spreads: bool, apart: bool) -> tuple[Filters, Store]:
    """Of a pod of which nodes `full` has one of its kind and `free` none; each is a room of its own."""
    store = Store()
    for name in ("full", "free"):
        store.create(node(name).label(room=name).build())
    web = {"matchLabels": {"app": "web"}}
    store.create(pod("other").label(app="web").spec(nodeName="full").build())
    asking = pod("p").label(app="web")
    if spreads:
        asking = asking.spread("room", labelSelector=web)
    if apart:
        asking = asking.apart("room", labelSelector=web)
    raw = asking.build()
    store.create(raw)
    record = store.accounts.record(raw, key_of(raw))
    scheduler = Scheduler(store.accounts)
    made = scheduler._filters(record, scheduler.local(record), {}, None)
    return made, store


@_NO_STAND_INS
def test_the_first_filter_that_refuses_a_node_is_named() -> None:
    """Volumes, then spread, then other pods, then devices; each alone and all before those after it."""
    order = ("volumes", "spreads", "apart", "devices")
    codes = {
        "volumes": int(Refusal.VOLUME_ZONE),
        "spreads": int(Refusal.SPREAD_SKEW),
        "apart": int(Refusal.POD_ANTI_AFFINITY),
        "devices": int(Refusal.DEVICES),
    }
    hopeless = {codes["volumes"], codes["devices"]}
    for chosen in product((False, True), repeat=4):
        refuses = dict(zip(order, chosen, strict=True))
        filters, store = _filters(spreads=refuses["spreads"], apart=refuses["apart"])
        asked: list[str] = []

        def says(name: str, asked: list[str] = asked, refuses: dict[str, bool] = refuses) -> int:
            asked.append(name)
            return codes[name] if refuses[name] else 0

        filters._volumes = SimpleNamespace(at=lambda row, moved, says=says: says("volumes"))  # type: ignore[assignment]
        filters.devices = SimpleNamespace(at=lambda row, says=says: says("devices"))  # type: ignore[assignment]
        full, free = store.accounts.row_of["full"], store.accounts.row_of["free"]
        want = next((codes[name] for name in order if refuses[name]), 0)
        told = filters.at(full)
        assert tuple(told) == (want, 0, want in hopeless), refuses
        assert asked == ["volumes"] + ["devices"] * (not any(chosen[:3])), refuses
        here = [codes[n] for n in ("volumes", "devices") if refuses[n]]
        assert filters.at(free).code == (here[0] if here else 0), refuses
