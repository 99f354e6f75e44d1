"""The questions as a Python API: `from fairway import Ground`.

    ground = Ground("examples/06-load-130")
    ground.forecast(at="30h", futures=50).objects[0].start.p50
    ground.what_if("nodes=+2", seeds=3).effects
    ground.explain("job/train-1", at="2h").sentence

Every answer is a frozen dataclass with `as_json()`; `schemas` describes what that returns. Nothing is written to what
is asked, but `calibration.json` into a run's directory by `backtest`. Raises what the commands say:
`fairway.errors.FairwayError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairway.ground import open_ground
from fairway.kube.timestamps import parse_duration

if TYPE_CHECKING:
    from fairway.answers.check import Check
    from fairway.answers.explanation import Explanation
    from fairway.answers.forecasting.backtest import Backtest
    from fairway.answers.forecasting.forecast import Forecast
    from fairway.answers.whatif.comparing import WhatIf


class Ground:
    """A cluster that can be asked: a scenario, a run, a dump, the data folder of `fairway up`, a kubeconfig.

    `at` is, everywhere, a duration since a simulation's start or an RFC 3339 time; None: its end, or now.
    """

    def __init__(self, path: str | Path, *, kueue_config: str | Path | None = None) -> None:
        """Raises: InvalidInput, UserError."""
        self.opened = open_ground(
            Path(path), kueue_config=None if kueue_config is None else Path(kueue_config)
        )

    @property
    def kind(self) -> str:
        """scenario, run, dump, served or cluster"""
        return self.opened.kind

    def explain(
        self, name: str, *, namespace: str | None = None, at: str | None = None, changes: bool = True
    ) -> Explanation:
        """Why it waits; with `changes`, what was tried and makes it start."""
        from fairway.answers.changes import with_changes
        from fairway.answers.explain import explain_named

        moment = self.opened.at(at)
        found = explain_named(moment, name, namespace)
        return with_changes(moment, found) if changes else found

    def check(self, manifests: str, *, at: str | None = None) -> Check:
        """What would become of this YAML text (one document or several) if it were submitted."""
        from fairway.admission.request import ADMIN
        from fairway.answers.check import check
        from fairway.kube.manifest import read_text

        return check(self.opened.at(at), read_text(manifests, "manifests"), ADMIN)

    def forecast(
        self,
        *,
        at: str | None = None,
        futures: int = 0,
        seed: int = 0,
        horizon: str = "72h",
        processes: int = 0,
        calibration: str | Path | None = None,
    ) -> Forecast:
        """Start and end of everything pending, and what lies ahead. `futures` 0: as many as the engine allows.
        `calibration`: a file that --backtest wrote; None: what is kept beside a run."""
        from fairway.answers.forecasting.forecast import Options, forecast
        from fairway.answers.forecasting.keeping import read_calibration

        known = None if calibration is None else read_calibration(Path(calibration))
        options = Options(futures, seed, parse_duration(horizon), processes)
        return forecast(self.opened, at, options, calibration=known)

    def backtest(self, moments: Sequence[str], *, futures: int = 40, horizon: str = "72h") -> Backtest:
        """How good forecasts would have been at these moments of a scenario, ascending."""
        from fairway.answers.forecasting.backtest import backtest
        from fairway.answers.forecasting.forecast import Options
        from fairway.answers.forecasting.keeping import kept

        options = Options(futures, horizon_us=parse_duration(horizon))
        return kept(self.opened, backtest(self.opened, moments, options=options))

    def what_if(
        self, *changes: str, at: str | None = None, seeds: int = 5, span: str = "24h", processes: int = 0
    ) -> WhatIf:
        """The same luck with and without the changes (`nodes=+4`, `quota/QUEUE/FLAVOR/RESOURCE=+8`, `load=2`)."""
        from fairway.answers.whatif.changes import read_change
        from fairway.answers.whatif.comparing import what_if
        from fairway.answers.whatif.playing import World
        from fairway.catalog.catalog import load_catalog

        world = World(self.opened, at, parse_duration(span))
        asked = tuple(read_change(text) for text in changes)
        return what_if(world, asked, seeds=seeds, processes=processes, catalog=load_catalog())
