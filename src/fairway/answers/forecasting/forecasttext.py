"""A forecast and a backtest as text, at most 100 columns."""

from __future__ import annotations

from fairway.answers.forecasting.backtest import Backtest, Score
from fairway.answers.forecasting.forecast import Forecast, Quantiles
from fairway.kube.timestamps import SECOND_US, format_duration

_SHOWN = 40
_NAME = 38
_WORDS = {"start": "starts", "finish": "finishes"}


def forecast_lines(found: Forecast) -> list[str]:
    lines = [
        f"{found.ground} at {found.now}: {len(found.objects)} pending, {found.futures} futures, seed {found.seed}",
        f"by {found.engine}; later than {_duration(found.horizon_s)} is not looked at",
    ]
    if found.objects:
        lines += ["", _row("object", "gpus", ("start p10", "p50", "p90"), ("finish p10", "p50", "p90"))]
        for one in found.objects[:_SHOWN]:
            lines.append(_row(one.object, f"{one.gpus:g}", _three(one.start), _three(one.finish)))
        if len(found.objects) > _SHOWN:
            lines.append(f"… and {len(found.objects) - _SHOWN} more; -o json has them all")
        lines += ["", f"intervals are {found.objects[0].calibration}"]
    if found.ahead:
        held_of = f"GPUs held of {found.gpus:g}"
        lines += ["", f"{'ahead':>6}  {'queued p50 (p10 to p90)':<26}  {held_of:<24}  spend"]
        for hour in found.ahead:
            queued = f"{_number(hour.queued.p50)} ({_number(hour.queued.p10)} to {_number(hour.queued.p90)})"
            held = hour.allocated_gpus
            gpus = f"{_number(held.p50)} ({_number(held.p10)} to {_number(held.p90)})"
            spend = "no price known" if hour.spend_usd is None else f"${hour.spend_usd:,.2f}"
            lines.append(f"{hour.hours:>5}h  {queued:<26}  {gpus:<24}  {spend}")
    return [line.rstrip() for line in lines]


def _row(name: str, gpus: str, start: tuple[str, str, str], finish: tuple[str, str, str]) -> str:
    name = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    cells = "".join(f"{cell:>8}" for cell in start)
    return f"{name:<{_NAME}} {gpus:>5} {cells}  " + "".join(f"{cell:>9}" for cell in finish)


def _three(of: Quantiles) -> tuple[str, str, str]:
    low, middle, high = ("later" if v is None else _duration(v) for v in (of.p10, of.p50, of.p90))
    return low, middle, high


def _duration(seconds: float) -> str:
    """Two units at most: what is forecast is not known to the second."""
    unit = 1 if seconds < 3600 else 60 if seconds < 86_400 else 3600
    return format_duration(round(seconds / unit) * unit * SECOND_US)


def _number(value: float | None) -> str:
    return "later" if value is None else f"{value:,.0f}"


def backtest_lines(found: Backtest) -> list[str]:
    lines = [
        f"{found.ground}: {len(found.moments)} moments from {found.moments[0]} to {found.moments[-1]}, "
        f"{found.futures} futures each",
        "",
        f"{'':<18}{'cases':>6}{'within':>7}{'inside':>8}{'raw':>7}{'error':>9}{'pinball':>9}   best plain rule",
    ]
    for name, one in (
        *((_WORDS[what], s) for what, s in found.scores.items()),
        *((f"{_WORDS[what]}, later", s) for what, s in found.lately.items()),
        *((f"started {name}", s) for name, s in found.horizons.items()),
    ):
        lines.append(_score(name, one))
    lines += [
        "",
        "within: the horizon; inside: truths between P10 and P90 (80 % is right), raw: before calibration; error:",
        "median absolute error of P50; pinball: mean loss of P10, P50 and P90; later: of the second half.",
    ]
    start = found.scores["start"]
    for rule, error in start.rules.items():
        said = (
            "nothing to go by"
            if error is None
            else f"{_duration(error)} over {start.rules_cases[rule]} cases"
        )
        lines.append(f"  {rule}: {said}")
    return lines


def _score(name: str, one: Score) -> str:
    if not one.cases:
        return f"{name:<18}{0:>6}{0:>7}"
    best = one.best_rule
    error = "later" if one.median_error_s is None else _duration(one.median_error_s)
    loss = "" if one.pinball_s is None else _duration(one.pinball_s)
    rule = f"{_duration(best[1])} ({best[0]})" if best else ""
    inside = f"{one.coverage:>7}%{one.raw_coverage:>6}%"
    return f"{name:<18}{one.cases:>6}{one.within:>7}{inside}{error:>9}{loss:>9}   {rule}".rstrip()
