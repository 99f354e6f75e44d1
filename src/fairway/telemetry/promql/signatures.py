"""What functions of PromQL take and return, and which of them Prometheus has only where a feature is enabled.

Source: promql/parser/functions.go, lex.go (Prometheus 3.14).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairway.telemetry.promql.nodes import SCALAR, VECTOR

EXPERIMENTAL_AGGREGATORS: Final = ("limitk", "limit_ratio")
EXPERIMENTAL: Final = frozenset(
    (
        *(
            "start",
            "end",
            "step",
            "range",
            "max_of",
            "min_of",
            "info",
            "start_timestamp",
            "histogram_quantiles",
        ),
        *("mad_over_time", "ts_of_first_over_time", "ts_of_last_over_time", "ts_of_max_over_time"),
        *("ts_of_min_over_time", "sort_by_label", "sort_by_label_desc", "double_exponential_smoothing"),
    )
)


class Function(NamedTuple):
    """`arguments`: a letter each. `more`: how often the last may be left out or repeated; -1: any number of times."""

    arguments: str
    more: int
    returns: str


_TABLE: Final = (
    (
        "v",
        0,
        VECTOR,
        "abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg histogram_count "
        "histogram_sum histogram_stddev histogram_stdvar ln log10 log2 rad sgn sin sinh sort sort_desc sqrt tan tanh "
        "timestamp start_timestamp",
    ),
    (
        "m",
        0,
        VECTOR,
        "absent_over_time avg_over_time changes count_over_time delta deriv first_over_time idelta increase irate "
        "last_over_time max_over_time min_over_time present_over_time rate resets stddev_over_time stdvar_over_time "
        "sum_over_time mad_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time "
        "ts_of_min_over_time",
    ),
    ("vss", 0, VECTOR, "clamp"),
    ("vs", 0, VECTOR, "clamp_max clamp_min"),
    ("v", 1, VECTOR, "days_in_month day_of_month day_of_week day_of_year hour minute month year"),
    ("", 0, SCALAR, "end range start step pi time"),
    ("ssv", 0, VECTOR, "histogram_fraction"),
    ("sv", 0, VECTOR, "histogram_quantile"),
    ("vtss", 9, VECTOR, "histogram_quantiles"),
    ("mss", 0, VECTOR, "double_exponential_smoothing holt_winters"),
    ("vv", 1, VECTOR, "info"),
    ("vtttt", 0, VECTOR, "label_replace"),
    ("vttt", -1, VECTOR, "label_join"),
    ("ss", 0, SCALAR, "max_of min_of"),
    ("ms", 0, VECTOR, "predict_linear"),
    ("sm", 0, VECTOR, "quantile_over_time"),
    ("vs", 1, VECTOR, "round"),
    ("v", 0, SCALAR, "scalar"),
    ("vt", -1, VECTOR, "sort_by_label sort_by_label_desc"),
    ("s", 0, VECTOR, "vector"),
)
FUNCTIONS: Final = {
    name: Function(arguments, more, returns)
    for arguments, more, returns, names in _TABLE
    for name in names.split()
}
