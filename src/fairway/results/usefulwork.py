"""How much of what was paid for became work, and what did a useful GPU-hour cost?

Useful: work that was finished, or saved for the next run. Lost: done since the last checkpoint of a run that ended
early.
Overhead: startup, saves, restores. The rest of what the machines cost is idle.
"""

from __future__ import annotations

from fairway.catalog.catalog import load_catalog
from fairway.results.billing import metered
from fairway.scenario.running import Finished
from fairway.twin.kubelet.component import Kubelet
from fairway.twin.markets.component import SpotMarket

_GPU_HOUR = 1000 * 3600 * 1_000_000


def useful_work_notes(finished: Finished) -> list[str]:
    """Sentences for the reader; none where no GPU did any work, no price where a machine has none."""
    kubelet, market = (finished.twin.host.parts.get(name) for name in ("kubelet", "market"))
    if not isinstance(kubelet, Kubelet):
        return []
    totals = kubelet.progress.totals
    useful, lost, overhead = (
        n / _GPU_HOUR for n in (totals.useful_gpu_us, totals.lost_gpu_us, totals.overhead_gpu_us)
    )
    if not useful + lost:
        return []
    notes = [f"{useful:.2f} useful GPU-hours, {lost:.2f} lost, {overhead:.2f} of startup, saves and restores"]
    if isinstance(market, SpotMarket):
        notes.append(f"{market.taken} spot machines were taken back")
    cloud = finished.scenario.cloud
    ledger = metered(finished.outcome, load_catalog(cloud.books if cloud else ())).ledger
    if useful and ledger.total:
        notes.append(
            f"a useful GPU-hour cost ${ledger.total / 1e6 / useful:.4f}, idle, lost and system included"
        )
    return notes
