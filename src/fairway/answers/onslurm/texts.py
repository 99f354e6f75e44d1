"""Answers about a Slurm site as lines of at most 100 columns."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.answers.onslurm.checking import CheckedScript
from fairway.answers.onslurm.explaining import SlurmExplanation
from fairway.answers.onslurm.forecasting import Backtest, Estimate
from fairway.answers.onslurm.free import Fragmentation
from fairway.answers.onslurm.migrating import Migration
from fairway.answers.onslurm.owing import SlurmCost
from fairway.answers.onslurm.telling import Group, Told
from fairway.slurm.words.durations import clock, stamp

Rows = tuple[Sequence[str], list[list[str]], tuple[int, ...]]
"""Header, rows, columns aligned right."""


def took(seconds: float) -> str:
    """`2h14m`, `35s`, `3d4h`."""
    total = int(abs(seconds))
    sign = "-" if seconds < 0 else ""
    days, rest = divmod(total, 86_400)
    hours, minutes = rest // 3600, rest // 60 % 60
    if days:
        return f"{sign}{days}d{hours}h"
    if hours:
        return f"{sign}{hours}h{minutes:02d}m"
    return f"{sign}{minutes}m{rest % 60:02d}s" if minutes else f"{sign}{rest}s"


def explanation_lines(found: SlurmExplanation, now: int) -> list[str]:
    lines = [f"Job {found.label} {found.name} of {found.user} ({found.account}) in {found.partition}"]
    if not found.blocked:
        lines.append(
            f"{found.state}: nothing holds it" + (f" (waited {took(found.waits_s)})" if found.waits_s else "")
        )
        return lines + [f"  {fact}" for fact in found.facts]
    detail = f" ({found.detail})" if found.detail else ""
    lines.append(f"PENDING for {took(found.waits_s)}: {found.reason}{detail}, priority {found.priority}")
    lines += ["", *(f"  {line}" for fact in found.facts for line in _wrapped(fact))]
    if found.ahead:
        lines += ["", "Before it"]
        lines += [f"  {line}" for one in found.ahead for line in _wrapped(one)]
    if found.changes:
        lines += ["", "What would start it sooner, tried on a copy"]
        for number, one in enumerate(found.changes, 1):
            when = "starts at once" if one.now else f"planned for {stamp(one.start)}"
            sooner = "" if one.now or not found.start else f", {took(found.start - one.start)} sooner"
            lines.append(f"  {number}. {one.text}: {when}{sooner}")
    return lines + [f"note: {note}" for note in found.notes]


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 96, subsequent_indent="  ")


def estimate_rows(found: Sequence[Estimate], now: int) -> Rows:
    header = ("JOBID", "NAME", "USER", "PARTITION", "GPUS", "WAITED", "SLURM SAYS", "P10", "P50", "P90")
    rows = [
        [e.label, e.name[:10], e.user, e.partition[:9], str(e.gpus), took(e.waits_s),
         stamp(e.slurm)[5:16] if e.slurm else "N/A", *(stamp(v)[5:16] if v else "later" for v in e.ours)]
        for e in found
    ]  # fmt: skip
    return header, rows, (4, 5)


def backtest_lines(found: Backtest) -> list[str]:
    return [
        f"{found.asked} forecasts of waiting jobs at {found.moments} moments, against when they started",
        f"  ours           median error {took(found.ours_median_s)}, mean {took(found.ours_mean_s)}; "
        f"{found.covered:.0%} within P10 to P90",
        f"  squeue --start {found.slurm_planned} of {found.asked} have an estimate: median error "
        f"{took(found.slurm_median_s)}, mean {took(found.slurm_mean_s)}",
        f"  ours on those  median error {took(found.ours_median_where_planned_s)}",
        f"  jobs started {took(abs(found.early_s))} {'sooner' if found.early_s < 0 else 'later'} than Slurm said "
        "(median)",
    ]


def cost_rows(found: SlurmCost) -> Rows:
    header = (found.by.upper(), "JOBS", "GPU-HOURS", "CPU-HOURS", "USD", "SHARE")
    total = max(found.total_micros, 1)
    rows = [
        [r.owner, str(r.jobs), f"{r.gpu_s / 3600:,.1f}", f"{r.cpu_s / 3600:,.1f}", f"{r.micros / 1e6:,.2f}",
         f"{r.micros / total:.1%}"]
        for r in found.rows
    ]  # fmt: skip
    rows.append(["idle", "", "", "", f"{found.idle_micros / 1e6:,.2f}", f"{found.idle_micros / total:.1%}"])
    rows.append(["all nodes", "", "", "", f"{found.total_micros / 1e6:,.2f}", ""])
    return header, rows, (1, 2, 3, 4, 5)


def cost_notes(found: SlurmCost) -> list[str]:
    said = ", ".join(f"{kind or 'gpu'} ${rate / 1e6:.2f}" for kind, rate in found.rates.gpus.items())
    lines = [
        f"a GPU-hour: {said or 'none'}; a CPU-hour ${found.rates.cpu / 1e6:.4f}; over {clock(found.span_s)}"
    ]
    if found.rates.unpriced:
        lines.append(f"no price is known for {', '.join(found.rates.unpriced)}: charged as a plain GPU")
    return lines


def told_rows(found: Told) -> Rows:
    header = ("", "JOBS", "WAIT P50", "P90", "MEAN", "GPU-HOURS", "CPU-HOURS", "SHARE")
    rows = [_group_row("all", found.all)]
    rows += [_group_row(f"partition {g.name}", g) for g in found.partitions]
    rows += [_group_row(f"account {g.name}", g) for g in found.accounts]
    return header, rows, tuple(range(1, 8))


def _group_row(name: str, group: Group) -> list[str]:
    return [
        name, str(group.jobs), took(group.wait_p50_s), took(group.wait_p90_s), took(group.wait_mean_s),
        f"{group.gpu_hours:,.0f}", f"{group.cpu_hours:,.0f}", f"{group.share:.1%}",
    ]  # fmt: skip


def told_lines(found: Told) -> list[str]:
    return [
        f"{found.jobs} jobs over {took(found.span_s)}: {found.allocated_gpus:.1%} of GPU time and "
        f"{found.allocated_cpus:.1%} of CPU time held",
        f"fairness among accounts, of time waited and held over time held (Jain): {found.jain:.2f}",
    ]


def fragmentation_rows(found: Fragmentation) -> Rows:
    header = ("NODE", "GPUS", "FREE", "USABLE", "WHY NOT")
    rows = [[n.node, str(n.gpus), str(n.free), str(n.usable), n.why] for n in found.nodes]
    return header, rows, (1, 2, 3)


def check_lines(found: CheckedScript) -> list[str]:
    lines = [f"{found.file}: {found.verdict}: {found.message}"]
    if found.nodes:
        lines.append(f"  on {', '.join(found.nodes[:6])}")
    if found.verdict == "waits":
        lines.append(
            f"  Slurm plans it for {stamp(found.slurm) if found.slurm else 'no time within its window'}"
        )
        ours = (
            f"{stamp(found.ours)}, in {took(found.ours - found.now)}" if found.ours else "not within 7 days"
        )
        lines.append(f"  with jobs as long as such jobs are: {ours}")
    return lines


def migration_rows(found: Migration) -> Rows:
    header = ("", *(side.name for side in found.sides))
    sides = found.sides
    groups: list[tuple[str, list[Group | None]]] = [("all", [side.told.all for side in sides])]
    for kind in ("partitions", "accounts"):
        names = [group.name for group in getattr(sides[0].told, kind)]
        for name in names:
            of = [next((g for g in getattr(side.told, kind) if g.name == name), None) for side in sides]
            groups.append((f"{kind[:-1]} {name}", of))
    rows = [["jobs", *(str(side.told.jobs) for side in sides)]]
    rows += [
        [f"mean wait, {name}", *("none" if g is None else took(g.wait_mean_s) for g in of)]
        for name, of in groups
    ]
    rows.append(["wait p50, all", *(took(side.told.all.wait_p50_s) for side in sides)])
    rows.append(["wait p90, all", *(took(side.told.all.wait_p90_s) for side in sides)])
    rows.append(["GPU time held", *(f"{side.told.allocated_gpus:.1%}" for side in sides)])
    rows.append(["CPU time held", *(f"{side.told.allocated_cpus:.1%}" for side in sides)])
    rows.append(["fairness (Jain)", *(f"{side.told.jain:.2f}" for side in sides)])
    rows.append(["all done after", *(took(side.told.span_s) for side in sides)])
    rows.append(["nodes, USD", *(f"{side.micros / 1e6:,.0f}" for side in sides)])
    rows.append(["of it idle, USD", *(f"{side.idle_micros / 1e6:,.0f}" for side in sides)])
    return header, rows, tuple(range(1, len(sides) + 1))


def phase_rows(found: Migration) -> Rows:
    header = ("PHASE", "PARTITIONS", "NODES", "JOBS", "ONE NODE", "THEIR WAIT", "WAS", "ALL WAIT", "WAS", "")
    rows = [
        [str(number), ",".join(p.partitions)[:24], str(p.nodes), str(p.jobs), f"{p.fit:.0%}", took(p.moved_wait_s),
         took(p.moved_before_s), took(p.mean_wait_s), took(p.before_s), "holds" if p.holds else "waits longer"]
        for number, p in enumerate(found.phases, 1)
    ]  # fmt: skip
    return header, rows, (2, 3, 4, 5, 6, 7, 8)


THIRD_WAY = """\
Slinky, the third way
  slurm-operator   Slurm decides: its column is Slurm's. Scripts, shares, limits, dependencies and
                   reservations stay; nodes are pods, each takes a whole node, and what they hold
                   Kubernetes cannot use. It runs Slurm 25.11 and later.
  slurm-bridge     Kubernetes' pods are Slurm's jobs: one queue for both. A job gets whole nodes
                   unless its annotation says exclusive: "false"; its annotations know no arrays
                   and no dependencies. Its column has whole nodes for every job.
Kueue              no slurmctld left to run; what is lost is in the notes of fairway slurm convert."""
