"""What does a query in PromQL answer, over series in memory or derived when asked, at any times?

In: a `SeriesSource`, a query's text, the times. Out: a `Matrix` (series by steps), a scalar, a text, or a range
vector's samples. The rules are those of Prometheus 3 (ranges leave their start out). What is not answered (native
histograms, `info`, `limit_ratio`, `smoothed`/`anchored`) is refused by name.

Reading order: `parsing` (text to `nodes`; where is a query wrong: `lexing`, `syntax`, `signatures`, `checking`;
`durations`), `evaluating` (every part over all steps), `rowwise` (what needs no series, over tables), `selecting`
(series to blocks), `windows` and `rangefunctions` (range vectors), `functions`, `labelling`, `overhistograms`,
`quantiles`, `binary`, `aggregating`, `asking` (the two questions below, and their answers as JSON).
"""

from fairway.telemetry.promql.asking import (
    Result,
    as_json,
    query_instant,
    query_range,
)
from fairway.telemetry.promql.matrix import Matrix
from fairway.telemetry.promql.nodes import PromQLError
from fairway.telemetry.promql.parsing import parse

__all__ = ["Matrix", "PromQLError", "Result", "as_json", "parse", "query_instant", "query_range"]
