"""What must hold? A small typed language over the outcome of a run.

    wait p95 < 10m where priorityClass == "prod"
    gpu allocated >= 40% between 1h and 5h
    count(evicted) == 0 where namespace == "serving"
    always pending < 50
    eventually job/train Complete within 2h
    never pod/web-* Failed

`docs/assertions.md` is its manual. Reading order: `grammar` (what an assertion is), `vocabulary` (metrics, sets
and fields, with types and meanings), `tokens`, `parsing` (text to grammar, types checked), `curves` (values
over time), `evidence` (what is looked at), `judging` (does it hold?), `watching` (objects that reach a state).
"""

from __future__ import annotations

from fairway.scenario.assertions.parsing import BadAssertion, parse, read_assertion

__all__ = ["BadAssertion", "parse", "read_assertion"]
