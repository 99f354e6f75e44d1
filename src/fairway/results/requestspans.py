"""What happened to requests of served models, as OpenTelemetry's spans: queue, prefill, decode, and how it ended.

A trace is one request. Of a model with more requests than are asked for, every so many-th is taken, in the order of
their arrival: what is written is a fair sample, and says how many requests each stands for. A request that was sent
again when its replica died shows where it was answered; how often it was sent is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from fairway.kube.timestamps import SECOND_US
from fairway.results.spans import ERROR, OK, request_line, span, trace_id
from fairway.serving import batching as b

if TYPE_CHECKING:
    from fairway.twin.serving.component import Room, Serving

FILE: Final = "requests.otlp.jsonl"
_A_LINE: Final = 500
_ENDS: Final = {
    b.DONE_WELL: "ok",
    b.REFUSED: "refused",
    b.LOST: "lost",
    b.TIMED_OUT: "timed out",
    b.TOO_LONG: "too long",
    b.FAILED: "failed",
}
_CODES: Final = {
    b.DONE_WELL: 200,
    b.REFUSED: 503,
    b.LOST: 502,
    b.TIMED_OUT: 504,
    b.TOO_LONG: 400,
    b.FAILED: 500,
}


def request_lines(serving: Serving, most: int) -> Iterator[str]:
    """Export requests, one a line; at most so many requests of each served model."""
    serving.finish()
    spans: list[dict[str, Any]] = []
    for room in serving.rooms:
        for found in _of_room(room, serving.began_us, most):
            spans += found
            while len(spans) >= _A_LINE:
                yield request_line(spans[:_A_LINE])
                del spans[:_A_LINE]
    if spans:
        yield request_line(spans)


def _of_room(room: Room, began_us: int, most: int) -> Iterator[list[dict[str, Any]]]:
    when, what = room.fleet.tables()
    come = room.fleet.arrived
    step = max(-(-come // most), 1)
    last_us = began_us + round(room.fleet.now_s * SECOND_US)
    for number in range(0, come, step):
        times = [None if at != at else began_us + round(at * SECOND_US) for at in when[number].tolist()]
        yield _trace(room, number, step, times, what[number].tolist(), last_us)


def _trace(
    room: Room, number: int, step: int, times: list[int | None], what: list[int], last_us: int
) -> list[dict[str, Any]]:
    served, status = room.served, what[b.STATUS]
    arrived = times[b.ARRIVED] or 0
    is_over = status in _ENDS
    reached = [at for at in times if at is not None]
    end = max(reached) if is_over else last_us
    trace = trace_id("request", served.namespace, served.name, str(number))
    told: dict[str, str | int] = {
        "k8s.namespace.name": served.namespace,
        "k8s.service.name": served.name,
        "gen_ai.request.model": served.deployed.model.name,
        "gen_ai.usage.input_tokens": what[b.PROMPT],
        "gen_ai.usage.output_tokens": what[b.OUTPUT],
        "k8s.pod.name": room.labels.get(what[b.WHERE], {}).get("pod", ""),
        "fairway.end": _ENDS.get(status, ""),
        "fairway.stands_for": step,
    }
    if is_over:
        told["http.response.status_code"] = _CODES[status]
    top = span(trace, "", f"request {served.name}", (arrived, end), told, is_over=is_over)
    if is_over:
        top["status"] = {"code": OK} if status == b.DONE_WELL else {"code": ERROR, "message": _ENDS[status]}
    found = [top]
    # Each phase ends where the next begins, or where the request does.
    begins = (("queue", arrived), ("prefill", times[b.BEGAN]), ("decode", times[b.FIRST]))
    for place, (name, begin) in enumerate(begins):
        if begin is not None and begin <= end:
            later = next((at for _, at in begins[place + 1 :] if at is not None), None)
            until = end if later is None else later
            found.append(
                span(trace, top["spanId"], name, (begin, until), {}, is_over=later is not None or is_over)
            )
    return found
