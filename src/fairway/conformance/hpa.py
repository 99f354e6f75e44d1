"""Does Fairway scale as a recorded kube-controller-manager did?

A recording has one scenario a line: `objects` (a target, autoscalers), `flags` of the controller, `steps` (its inputs
at every change), `observed` (what the autoscaler's status, the target's scale and the events were, whenever they
changed), `syncs` (when it asked for metrics). The controller is run at those times over those inputs; what it writes
must be what was observed, in the same order, and each soon after the look that caused it.

What no recording can tell is left open: where within a second it began (the API cuts times to seconds), how many
milliseconds a look took, which of several pods without a request is named, and in which order competing autoscalers
are listed (Go's maps).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.autoscaling.hpa.settings import Settings, from_flags
from fairway.conformance.hpa_player import Played, Timing, canonical_message, play, state_of
from fairway.conformance.rows import nothing_recorded, read_rows
from fairway.conformance.verification import Difference, Verification
from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.kinds import kind_named
from fairway.kube.objects import Obj, gk_of, name_of
from fairway.kube.validation.validating import validate

# Where within a second a recording may have begun, and how much later than asked a look may have read, in µs.
_PHASES_US: Final = (0, 250_000, 500_000, 750_000)
_SHIFTS_US: Final = (0, 120_000, -120_000)
# How long after a look the change it made was noted: policies count from then.
_LAGS_US: Final = (0, 40_000, 90_000)
# A status is seen within this many seconds of the look that wrote it: polling every 0.15 s, and a busy machine.
_SEEN_S: Final = 1.6
# A scale is written within this many seconds of the look, and polled like the status.
_SCALE_LAG_S: Final = 0.8
# Events are written some time after they were said: those of the last looks may be missing.
_EVENT_LAG_S: Final = 1.2


def verify_hpa(file: Path) -> Verification:
    """Replay a recording.

    Raises: InvalidInput for a file that is not such a recording.
    """
    result = Verification()
    for number, row in read_rows(file, _shape_problem):
        result.count(_judge(file, number, row))
    if not result.total:
        raise nothing_recorded(file, "recorded scenarios")
    return result


def _shape_problem(row: Any) -> tuple[str, str] | None:
    for member in ("objects", "steps", "observed", "syncs"):
        if not isinstance(row, dict) or not isinstance(row.get(member), list):
            return (member, "expected a list")
    return None


def _judge(file: Path, number: int, row: dict[str, Any]) -> list[Difference]:
    name = str(row.get("name") or f"line {number}")
    try:
        settings = from_flags(row.get("flags") or ())
        refusal = next((text for o in row["objects"] if (text := _refusal(o))), "")
        if row.get("rejected") or refusal:
            wanted = _message(str(row.get("rejected") or ""))
            differs = wanted != refusal
            return [Difference(number, name, "refusal", wanted, refusal)] if differs else []
        return _closest(number, name, row, settings)
    except (KeyError, TypeError, ValueError, AttributeError) as broken:
        text = f"not a scenario of the autoscaler: {type(broken).__name__}: {broken}"
        raise InvalidInput((FieldProblem(str(file), number, "", "", text),)) from broken


def _closest(number: int, name: str, row: dict[str, Any], settings: Settings) -> list[Difference]:
    """The differences where it could have begun; none if there are none for one such time."""
    first: list[Difference] | None = None
    for variant in product(_SHIFTS_US, _LAGS_US, _PHASES_US):
        found = list(_differences(number, name, row, play(row, settings, Timing(*variant))))
        if not found:
            return []
        first = found if first is None else first
    return first or []


def _refusal(obj: Obj) -> str:
    """The API server's words about an object that it does not take."""
    if obj.get("kind") != "HorizontalPodAutoscaler":
        return ""
    problems = [str(p) for p in validate({"apiVersion": "autoscaling/v2", **obj})]
    if not problems:
        return ""
    listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    kind = kind_named(gk_of({"apiVersion": "autoscaling/v2", **obj}))
    return f'{kind.kind}.autoscaling "{name_of(obj)}" is invalid: {listed}'


def _message(text: str) -> str:
    """The message of the Status in a recorded refusal."""
    start = text.find("{")
    return str(msgspec.json.decode(text[start:].strip())["message"]) if start >= 0 else text


def _differences(number: int, name: str, row: dict[str, Any], played: Played) -> Iterator[Difference]:
    def differing(aspect: str, wanted: object, got: object) -> Difference:
        return Difference(number, name, aspect, str(wanted), str(got))

    pods = {p["name"] for step in row["steps"] for p in step["pods"]}
    wanted = _changes((o["t"], state_of(o, pods)) for o in row["observed"])
    ours = _changes((0.0 if t < 0 else t, s) for t, s in played.states)
    end = max([s["t"] for s in row["syncs"]] + [o["t"] for o in row["observed"]] + [0.0])
    if len(ours) == len(wanted) + 1 and ours[-1][0] > end - _EVENT_LAG_S:
        ours.pop()
    for (seen, recorded), (done, written) in zip(wanted, ours, strict=False):
        if recorded != written:
            yield differing("status", f"{seen} s: {recorded}", f"{done:.2f} s: {written}")
            break
        if not done - 0.2 <= seen <= done + _SEEN_S:
            yield differing("time", f"seen at {seen} s", f"written at {done:.2f} s: {written}")
    else:
        if len(wanted) != len(ours):
            left = (wanted[len(ours) :], ours[len(wanted) :])
            yield differing("status", left[0] or "nothing more", left[1] or "nothing more")
    scales = sorted(played.scales, key=lambda at: at[0])
    for seen in row["observed"]:
        lately = _lately(scales, seen["t"])
        if seen["scaleReplicas"] not in lately:
            yield differing("scale", f"{seen['scaleReplicas']} at {seen['t']} s", f"{sorted(lately)}")
            break
    yield from (differing("events", *pair) for pair in _event_differences(row, played, pods, end))


def _lately(scales: list[tuple[float, int]], at: float) -> set[int]:
    """What the target was scaled to when it was looked at, and just before."""
    before = [replicas for done, replicas in scales if done <= at - _SCALE_LAG_S][-1:]
    return {*before, *(replicas for done, replicas in scales if at - _SCALE_LAG_S < done <= at + 0.1)}


def _changes(timed: Iterable[tuple[float, Any]]) -> list[tuple[float, Any]]:
    """Without repetitions."""
    found: list[tuple[float, Any]] = []
    for at, value in timed:
        if not found or found[-1][1] != value:
            found.append((at, value))
    return found


def _event_differences(
    row: dict[str, Any], played: Played, pods: set[str], end: float
) -> Iterator[tuple[str, str]]:
    """How often each event was said, as often as it was written."""
    recorded: Counter[tuple[str, str, str]] = Counter()
    last: dict[tuple[str, str, str], int] = {}
    several = sum(o.get("kind") == "HorizontalPodAutoscaler" for o in row["objects"]) > 1
    for seen in row["observed"]:
        for event in seen["events"]:
            raw = (event["type"], event["reason"], event["message"])
            said = (raw[0], raw[1], canonical_message(raw[2], pods))
            # Of several autoscalers only their number can be told; of one, the counts.
            step = 1 if several else event["count"] - last.get(raw, 0)
            last[raw] = event["count"]
            recorded[said] += step
    ours = Counter(said for _, said in played.events)
    late = Counter(said for at, said in played.events if at > end - _EVENT_LAG_S)
    for said in sorted(recorded.keys() | ours.keys()):
        if not ours[said] - late[said] <= recorded[said] <= ours[said]:
            yield f"{recorded[said]} times {said}", f"{ours[said]} times {said}"
