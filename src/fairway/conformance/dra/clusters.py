"""Plays recorded clusters with devices in a twin: the same nodes, devices, claims, conditions, scores and events?

A recording is one JSON object a line: `objects` that are there from the start, and `steps`: what was done, and what had
changed when all was quiet again. Names the cluster made up stand as what they are (`gen:POD/CLAIM`, `ext:POD`). Where
the best scores tied and the scheduler drew, it is given the recorded node.

When a pod ended within a step is not recorded: a row agrees if it does for one such moment. Of FailedScheduling events
only the last word on a pod is compared: what a try in between said depends on who was faster. Of a row marked `racy`
only the end counts.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any, Final

from fairway.cluster.errors import ApiError
from fairway.conformance.dra.observing import Look, merged, observe
from fairway.conformance.dra.playing import Player
from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.verification import Difference, Verification
from fairway.kube.objects import Obj

# Steps in which pods ended, of one row, for which both ways are tried.
_MOST_ENDS: Final = 3
_RETRIED: Final = "FailedScheduling"
_MADE_UP: Final = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")


def verify_clusters(file: Path) -> Verification:
    """Play a recording.

    Raises: InvalidInput (no recording).
    """
    result = Verification()
    for number, row in read_rows(file, _wrong):
        result.count(_play(number, row))
    if not result.total:
        raise nothing_recorded(file, "recorded cluster")
    return result


def _wrong(row: Any) -> tuple[str, str] | None:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return "name", "expected an object with name, objects and steps"
    for name in ("objects", "steps"):
        if not isinstance(row.get(name), list) or not all(isinstance(o, dict) for o in row[name]):
            return name, "expected a list of objects"
    for index, obj in enumerate(row["objects"]):
        if not isinstance((obj.get("metadata") or {}).get("name"), str):
            return f"objects[{index}].metadata.name", "expected text"
    for index, step in enumerate(row["steps"]):
        if not isinstance(step.get("observed"), dict) or not isinstance(step.get("do"), list):
            return f"steps[{index}]", "expected do and observed"
        for at, action in enumerate(step["do"]):
            obj = action.get("object") if isinstance(action, dict) else None
            if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str) or "verb" not in action:
                return f"steps[{index}].do[{at}]", "expected a verb and an object"
    return None


def _play(number: int, row: Obj) -> list[Difference]:
    """What differs; nothing, if nothing does for one way in which pods may have ended before or during a step."""
    ends = [i for i, step in enumerate(row["steps"]) if _has_end(step["observed"])][:_MOST_ENDS]
    found: list[Difference] = []
    for chosen in product((False, True), repeat=len(ends)):
        early = {step for step, is_early in zip(ends, chosen, strict=True) if is_early}
        differs = _played(number, row, early)
        if not differs:
            return []
        found = found or differs
    return found


def _has_end(observed: Obj) -> bool:
    return any(pod.get("phase") for pod in (observed.get("pods") or {}).values())


def _played(number: int, row: Obj, early: set[int]) -> list[Difference]:
    player = Player(row["objects"])
    wanted = Look()
    found: list[Difference] = []
    for index, step in enumerate(row["steps"]):
        where = f"{row['name']} step {index}"
        recorded = step["observed"]
        merged(wanted, recorded)
        player.follows(recorded)
        try:
            refused = player.play(step["do"], is_early=index in early)
        except ApiError as failed:
            return [*found, Difference(number, where, "do", "done", failed.message)]
        seen = observe(player)
        for aspect, want, got in [
            *_refusals(step["do"], refused),
            *_states(wanted, seen),
            *_scores(recorded.get("scores") or {}, player.scores),
            *_events(recorded, player.new_events(), player.events),
        ]:
            found.append(Difference(number, where, aspect, str(want), str(got)))
        if found and not row.get("racy"):
            break
        if index < len(row["steps"]) - 1 and row.get("racy"):
            found.clear()
    if row.get("racy"):
        found = [f for f in found if not f.aspect.startswith("event")]
    return found


_Pairs = list[tuple[str, Any, Any]]


def _refusals(do: list[Obj], refused: list[str | None]) -> _Pairs:
    return [
        (f"refusal of {d['object'].get('kind')}", want, got)
        for d, got in zip(do, refused, strict=True)
        if (want := (d.get("refused") or {}).get("message")) != got
    ]


def _states(wanted: Look, seen: Look) -> _Pairs:
    pairs: _Pairs = []
    for kind, want, got in (("pod", wanted.pods, seen.pods), ("claim", wanted.claims, seen.claims)):
        for name in sorted({*want, *got}):
            a, b = want.get(name), got.get(name)
            if a != b and _plain(a) != _plain(b):
                pairs.append((f"{kind} {name}", a, b))
    return pairs


def _plain(value: Any) -> Any:
    """Claims that are gone could not be called by what they were for when this was written down."""
    if isinstance(value, dict):
        return {
            k: ("<made>" if k == "resourceClaimName" and _is_made_up(v) else _plain(v))
            for k, v in value.items()
        }
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _is_made_up(name: Any) -> bool:
    return isinstance(name, str) and (name.startswith(("gen:", "ext:")) or bool(_MADE_UP.search(name)))


def _scores(recorded: Obj, ours: Obj) -> _Pairs:
    pairs: _Pairs = []
    for pod, scores in recorded.items():
        got = ours.get(pod) or {}
        pairs += [
            (f"scores of {pod} ({part})", scores[part], got.get(part))
            for part in ("total", "dra")
            if scores.get(part) != got.get(part)
        ]
    return pairs


def _events(recorded: Obj, new: list[Obj], ours: list[Obj]) -> _Pairs:
    """A FailedScheduling counts where it is the last word on its pod; others came with timing, or with a retry."""
    last = {
        f"Pod/{name}": (pod.get("condition") or {}).get("message")
        for name, pod in (recorded.get("pods") or {}).items()
    }
    want = [{k: e.get(k) for k in ("on", "type", "reason", "message")} for e in recorded.get("events") or ()]
    missing: _Pairs = [
        ("event", e, "(nothing)")
        for e in want
        if e not in ours and (e["reason"] != _RETRIED or e["message"] == last.get(e["on"]))
    ]
    extra = [e for e in new if e["reason"] != _RETRIED and e not in want]
    return [*missing, *(("event", "(nothing)", e) for e in extra)]
