"""Takes the measurements that AnalysisRuns ask for, and writes what they come to.

Only the `prometheus` provider is answered, from the twin's series (`twin.queries`); others are errors, as an address
where nobody answers would be. What measurements mean is `fairway.workloads.rollouts.measuring`'s.
"""

from __future__ import annotations

import math
from typing import Any, Final

from fairway.cluster.actions import SetStatus, perform
from fairway.cluster.changes import DELETED, Change
from fairway.kube.objects import Key, Obj
from fairway.twin.components import Host
from fairway.workloads.rollouts import measuring
from fairway.workloads.rollouts.analyses import RUN

NAME: Final = "analysis-runs"


class AnalysisRuns:
    """One for all runs of a twin. `_due`: when each is looked at next, in µs."""

    name = NAME
    kinds: tuple[str, ...] = (RUN,)

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}

    def attach(self, host: Host) -> None:
        self.host = host
        self._h_look = host.loop.register("analysisruns.look", self._on_look)

    def start(self) -> None:
        """Runs come later."""

    def fork(self) -> AnalysisRuns:
        twin = AnalysisRuns()
        twin._due = dict(self._due)
        return twin

    def observe(self, change: Change) -> None:
        if change.type == DELETED:
            self._due.pop(change.key, None)
        elif (change.obj.get("status") or {}).get("phase") not in measuring.DONE:
            self._look_at(change.key, self.host.loop.now_us)

    def _look_at(self, key: Key, at_us: int) -> None:
        planned = self._due.get(key)
        if planned is None or at_us < planned:
            self._due[key] = at_us
            self.host.loop.at(at_us, self._h_look, key)

    def _on_look(self, key: Key) -> None:
        """Measure what is due; plan the next look."""
        now_us = self.host.loop.now_us
        if self._due.get(key) != now_us:
            return
        del self._due[key]
        run = self.host.store.get(key)
        if run is None or (run.get("status") or {}).get("phase") in measuring.DONE:
            return
        results = measuring.results_of(run)
        is_ending = bool(run["spec"].get("terminate"))
        for metric in run["spec"].get("metrics") or ():
            at_us = None if is_ending else measuring.due_us(run, metric, now_us)
            if at_us is not None and at_us <= now_us:
                one = self._measured(run, metric, now_us)
                before = results.get(metric["name"], {"name": metric["name"]})
                results[metric["name"]] = measuring.with_measurement(before, one)
        status = measuring.status_of_run(run, results, now_us)
        if status != run.get("status"):
            perform(self.host.store, SetStatus(key, status))
        if status["phase"] in measuring.DONE:
            said = f"Analysis Completed. Result: {status['phase']}"
            good = status["phase"] in (measuring.SUCCESSFUL, measuring.INCONCLUSIVE)
            self._tell(run, key, "Normal" if good else "Warning", f"AnalysisRun{status['phase']}", said)
            return
        fresh: Obj = {"status": status}
        times = [measuring.due_us(fresh, metric, now_us) for metric in run["spec"].get("metrics") or ()]
        later = [at for at in times if at is not None and at > now_us]
        if later:
            self._look_at(key, min(later))

    def _tell(self, run: Obj, key: Key, type_: str, reason: str, message: str) -> None:
        uid = run["metadata"].get("uid", "")
        self.host.events.emit(self.host.loop.now_us, key, uid, type_, reason, message, "rollouts-controller")

    def _measured(self, run: Obj, metric: dict[str, Any], now_us: int) -> dict[str, Any]:
        arguments = measuring.argument_values(run)
        try:
            value: Any = self._asked(metric.get("provider") or {}, arguments)
        except Exception as wrong:
            value = wrong
            if not isinstance(wrong, ValueError | ArithmeticError) and type(wrong).__name__ != "PromQLError":
                raise
        return measuring.measured(metric, value, arguments, now_us)

    def _asked(self, provider: dict[str, Any], arguments: dict[str, str]) -> Any:
        """A number, or the numbers of a vector. Raises: ValueError, PromQLError."""
        given = provider.get("prometheus")
        if not given:
            raise ValueError(
                f"no provider {', '.join(provider) or '(none)'} answers here; expected prometheus"
            )
        from fairway.telemetry.promql import Matrix
        from fairway.twin.queries import ask

        answer = ask(self.host, measuring.filled(str(given.get("query", "")), arguments)).result
        if isinstance(answer, Matrix):
            return [float(v) for v in answer.values[:, 0]]
        if isinstance(answer, float):
            return answer if not math.isnan(answer) else math.nan
        raise ValueError("Prometheus metric type not supported")
