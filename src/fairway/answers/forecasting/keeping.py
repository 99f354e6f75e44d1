"""What a backtest learnt, kept for the forecasts that follow.

A run directory has it as `calibration.json` beside its summary, with the digest of the run it is of; a data folder of
`fairway up` with the cluster's UID, or was given one learnt elsewhere. Scenarios, dumps and kubeconfigs are the
user's own: nothing is kept there. What is found is believed only within the bounds of what `calibrated` gives; anything
else is told, and the forecast goes on with its intervals as drawn.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from fairway.answers.forecasting.calibration import LEAST_CASES, RAW, WIDEST, Calibration
from fairway.errors import FieldProblem, InvalidInput, WorldError
from fairway.ground.ground import RUN, SERVED, Ground
from fairway.kube.objects import Key, meta_of
from fairway.kube.timestamps import SECOND_US, parse_rfc3339, rfc3339
from fairway.results.atomic import replace_text
from fairway.results.rundir import load_run

if TYPE_CHECKING:
    from fairway.answers.forecasting.backtest import Backtest

FILE: Final = "calibration.json"
_MOST_BYTES: Final = 1 << 16
# Beside which grounds there is room for it, in words.
_KEEPING: Final = {RUN: "run", SERVED: "cluster"}
_FIRST: Final = Key("Namespace", "", "kube-system")

_Factor = Annotated[float, msgspec.Meta(ge=-WIDEST, le=WIDEST)]


class _Kept(msgspec.Struct):
    """`of`: the digest of the run, or the UID of the served cluster, that it was learnt from."""

    cases: Annotated[int, msgspec.Meta(ge=0, le=10**9)]
    shift: _Factor
    below: _Factor
    above: _Factor
    until: Annotated[str, msgspec.Meta(max_length=40)] = ""
    coverage: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    of: Annotated[str, msgspec.Meta(max_length=200)] = ""


def text_of(calibration: Calibration, of: str = "") -> str:
    return msgspec.json.encode({**calibration.as_json(), "of": of}).decode() + "\n"


def kept(ground: Ground, found: Backtest) -> Backtest:
    """Written beside a run or a served cluster's state; a note says where, or why not. Anywhere else nothing is."""
    if ground.kind not in _KEEPING:
        return found
    path = Path(ground.name) / FILE
    try:
        replace_text(path, text_of(found.calibration, _identity(ground)))
        note = f"{path}: kept for later forecasts of this {_KEEPING[ground.kind]}"
    except WorldError as failed:
        note = f"not kept: {failed}"
    return replace(found, notes=(*found.notes, note))


def found_beside(ground: Ground, now_us: int) -> tuple[Calibration, tuple[str, ...]]:
    """What was kept, and what there is to say of it; never an error. It is used at moments at which all that it was
    learnt from had come; what a served cluster was given from elsewhere whenever that is asked."""
    path = Path(ground.name) / FILE
    if ground.kind not in _KEEPING or not path.is_file():
        return RAW, ()
    try:
        calibration, of = _read(path)
    except InvalidInput as wrong:
        return RAW, (f"{wrong}: intervals are not calibrated",)
    why = ""
    if calibration.cases < LEAST_CASES:
        why = f"{calibration.cases} earlier forecasts were usable, and {LEAST_CASES} are needed"
    elif ground.kind == RUN and of != _identity(ground):
        why = "it is of another run; expected what `fairway forecast --backtest` keeps here"
    elif of and of == _identity(ground) and _knows_later(calibration, now_us):
        why = f"it knows what came until {calibration.until}, which is after {rfc3339(now_us)}"
    return (RAW, (f"{path}: {why}: intervals are not calibrated",)) if why else (calibration, ())


def _knows_later(calibration: Calibration, now_us: int) -> bool:
    return bool(calibration.until) and parse_rfc3339(calibration.until) >= now_us + SECOND_US


def _identity(ground: Ground) -> str:
    """Which run, or which served cluster: as Kubernetes' own tools have it, that is its first namespace's UID."""
    if ground.kind == RUN:
        return load_run(Path(ground.name)).info.digest
    namespace = ground.at().store.get(_FIRST)
    return "" if namespace is None else str(meta_of(namespace).get("uid") or "")


def read_calibration(path: Path) -> Calibration:
    """Raises: InvalidInput."""
    return _read(path)[0]


def _read(path: Path) -> tuple[Calibration, str]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        said = msgspec.json.decode(data, type=_Kept)
        until = rfc3339(parse_rfc3339(said.until)) if said.until else ""
    except (OSError, ValueError, OverflowError, RecursionError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else wrong
        expected = f"expected what `fairway forecast --backtest --calibration FILE` writes ({why})"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),)) from wrong
    return Calibration(said.shift, said.below, said.above, said.cases, until, said.coverage), said.of
