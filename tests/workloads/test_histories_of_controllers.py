"""Whole lives of workloads, from stories in `histories/`: all that controllers write, say and plan, as it is on file.

A story is a list of steps: `apply`, `patch`, `delete`, `status` (of an object), `finish`, `fail`, `ready`, `unready`,
`kill` (of a pod, by name, or of those whose names begin so with `*`), `wait`, `hold` and `refuse` (see `tinyworld`), or
`chance`: so many random ones of a seed. With `digests`, which makes long ones short, a digest a step says for each kind
that all was the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.histories import check_history, digests, told
from tinyworld import START_US, World, is_over, pod_key

from fairway.kube.objects import Key, Obj

STORIES = sorted((Path(__file__).parent / "histories").glob("*.yaml"))


def test_there_are_stories() -> None:
    assert len(STORIES) >= 10


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_nothing_else_happens_than_did(story: Path) -> None:
    check_history(story.with_suffix(".txt"), _lived(yaml.safe_load(story.read_text(encoding="utf-8"))))


def _lived(story: dict[str, Any]) -> Iterator[str]:
    world = World(seed=3, nodes=story.get("nodes", 2))
    chance = random.Random(5)
    seen, said = world.store.version, 0
    for step in story["steps"]:
        for name, value in [(n, v) for n, v in step.items()]:
            times = value if name == "chance" else 1
            for _ in range(times):
                done, what = (name, value) if name != "chance" else _drawn(world, chance)
                yield f"== +{(world.now_us - START_US) // 1_000_000}s {done}: {_short(what)}"
                _do(world, done, what)
                pairs = [(c.key.gk, line) for c in world.store.log.since(seen) for line in told(c)]
                seen = world.store.version
                pairs += [("says", f"says {event}") for event in world.events[said:]]
                said = len(world.events)
                pairs += [
                    ("again", f"again {controller} {key.name} +{(at_us - START_US) / 1_000_000:g}s")
                    for (controller, key), at_us in sorted(world._timers.items())
                ]
                yield from digests(pairs) if story.get("digests") else (line for _, line in pairs)


def _short(what: Any) -> str:
    if isinstance(what, dict) and "kind" in what:
        return f"{what['kind']} {what['metadata']['name']}"
    return ", ".join(map(_short, what)) if isinstance(what, list) else str(what)


def _drawn(world: World, chance: random.Random) -> tuple[str, Any]:
    """A pod ends, fails, goes or is not ready any more; or time goes by."""
    pods = [p["metadata"]["name"] for p in world.store.objects("Pod") if not is_over(p)]
    done = chance.choice(("finish", "fail", "kill", "unready", "ready", "wait", "wait"))
    if done == "wait" or not pods:
        return "wait", chance.choice((1, 5, 60, 700))
    return done, chance.choice(pods)


def _do(world: World, done: str, what: Any) -> None:
    if done == "apply":
        for obj in what if isinstance(what, list) else [what]:
            obj["metadata"].setdefault("namespace", "default")
            world.apply(obj)
    elif done in ("patch", "status"):
        for name, change in what.items():
            key = _key(name)
            if done == "patch":
                world.patch(key, change)
            else:
                status = {**(world.get(key).get("status") or {}), **change}
                world.store.set_status(key, {k: v for k, v in status.items() if v is not None})
                world.settle()
    elif done == "delete":
        world.delete(_key(what))
    elif done == "wait":
        world.advance(what)
    elif done == "hold":
        world.hold = tuple(what)
    elif done == "refuse":
        world.refuse = what
    else:
        for pod in _pods(world, what):
            if world.store.get(pod_key(pod)) is None:  # gone with one that ended before
                continue
            if done in ("finish", "fail"):
                world.finish(pod, int(done == "fail"))
            elif done == "kill":
                world.delete(pod_key(pod))
            else:
                world.make_ready(pod, ready=done == "ready")


def _key(text: str) -> Key:
    gk, name = text.split("/")
    return Key(gk, "" if gk in ("Node", "Namespace") else "default", name)


def _pods(world: World, name: str) -> list[Obj]:
    found = [p for p in world.store.objects("Pod") if not is_over(p)]
    if name.endswith("*"):
        return [p for p in found if p["metadata"]["name"].startswith(name[:-1])]
    return [p for p in found if p["metadata"]["name"] == name]
