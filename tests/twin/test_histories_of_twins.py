"""Whole runs of twins, from stories in `histories/` and from the examples: every write and event, as it is on file.

Of a story all changes are told, field by field. Of a long one and of an example, which may write thousands of objects,
a digest a stretch of time says for each kind, and for what each component notes, that they were the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.histories import check_history, digests, told

from fairway.kube.timestamps import MINUTE_US
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.twin.eventlog import Record
from fairway.twin.twin import Twin

HERE = Path(__file__).parent / "histories"
EXAMPLES = Path(__file__).parents[2] / "examples"
STORIES = sorted(HERE.glob("*.yaml"))
# Between them they have every component of a twin; each is over in a moment.
CHOSEN = (
    "01-two-teams/scenario",
    "02-rollout-scarce-gpus/scenario",
    "04-anti-affinity/strict",
    "05-node-failure-checkpoints/scenario",
    "07-training-gang/scenario",
    "08-three-teams-cohort/fair",
    "09-night-borrowing/scenario",
    "11-spot-exercise/scenario",
    "12-two-gangs/scenario",
    "13-autoscaling/scenario",
    "14-device-claims/scenario",
    "15-fifty-services/scenario",
    "20-queue-pools/scenario",
    "22-hami/scenario",
)
# Of each: enough to have seen all of its kinds.
WRITES_MOST = 600
_WEEK_MIN = 7 * 24 * 60


def test_there_are_stories() -> None:
    assert len(STORIES) >= 5


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_nothing_else_happens_in_a_story(story: Path) -> None:
    is_whole = not story.stem.startswith("long-")
    check_history(story.with_suffix(".txt"), _lived(story, is_whole=is_whole))


@pytest.mark.parametrize("name", CHOSEN)
def test_nothing_else_happens_in_an_example(name: str) -> None:
    file = HERE / f"example-{name.partition('/')[0]}.txt"
    check_history(file, _lived(EXAMPLES / f"{name}.yaml", is_whole=False, most=WRITES_MOST))


def _lived(file: Path, *, is_whole: bool, most: int | None = None) -> Iterator[str]:
    scenario = load_scenario(file)
    twin = build_twin(scenario)
    noted: list[Record] = []
    twin.host.log.sinks.append(noted.extend)
    minutes = _WEEK_MIN if scenario.duration_us is None else scenario.duration_us // MINUTE_US
    seen = 0
    minute = 0
    while minute < minutes and (most is None or twin.store.version < most):
        if twin.loop.next_time() is None:
            break
        step = 1 if minute < 30 else 10
        minute += step
        twin.run(scenario.start_us + minute * MINUTE_US)
        twin.host.log.flush()
        changes = twin.store.log.since(seen)
        pairs = [(c.key.gk, line) for c in changes for line in told(c, is_brief=is_whole)]
        pairs += [(one.component, " ".join(map(str, one))) for one in noted]
        noted.clear()
        seen = twin.store.version
        if pairs:
            yield f"== until {minute} min"
            yield from (line for _, line in pairs) if is_whole else digests(pairs)
    said = list(_said(twin))
    yield from said if is_whole else digests([("events", line) for line in said])


def _said(twin: Twin) -> Iterator[str]:
    for one in twin.host.events.told():
        yield (
            f"{one.component} said of {one.about.gk} {one.about.name}: {one.type} {one.reason} ×{one.times} "
            f"[{one.first_us - twin.store.now_us}, {one.last_us - twin.store.now_us}] {one.message}"
        )
