"""May a job be submitted, may it start, by the limits of its QOS, its partition's QOS and its associations?

The first QOS asked has the word; a limit it sets hides the same limit of what comes after. Then the association and
its parents: group limits of all, the job's own limits of the association only. Decisions are pure; `charge` and
`release` keep the counts. Source: src/slurmctld/acct_policy.c, 22.05.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from fairway.slurm.model import tres
from fairway.slurm.model.association import Accounts, Association, Counts, Limits, Qos
from fairway.slurm.model.tres import Tres
from fairway.slurm.words.durations import INFINITE

_COLUMNS = ("cpu", "mem", "node", "billing", "gres", "license", "other")


@cache
def _reasons() -> dict[str, dict[str, str]]:
    rows = files("fairway.slurm").joinpath("data/reasons.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {row[0]: dict(zip(_COLUMNS, row[1:], strict=True)) for row in (line.split("\t") for line in rows)}


def tres_reason(limit: str, name: str) -> str:
    """Why a job waits for a limit (`QOSGrp`) of one resource (`gres/gpu`)."""
    kind = name.partition("/")[0]
    return _reasons()[limit].get(kind, _reasons()[limit]["other"])


@dataclass(slots=True, init=False)
class Ask:
    """What one job would take. `limit`: minutes (INFINITE none); `nodes`: those it would get, if known."""

    user: str
    account: str
    limit: int
    tres: Tres
    nodes: tuple[int, ...]
    jobs: int

    def __init__(
        self, user: str, account: str, limit: int, tres: Tres, nodes: tuple[int, ...] = (), jobs: int = 1,
    ) -> None:  # fmt: skip
        self.user, self.account, self.limit, self.tres, self.nodes = user, account, limit, tres, nodes
        self.jobs = jobs


@dataclass(slots=True)
class Policy:
    """Whose limits a job is under: QOS in the order they are asked, and the association."""

    accounts: Accounts
    qos: tuple[Qos, ...]
    association: Association | None
    tracked: tuple[str, ...] = ()
    safe: bool = False
    set_by: set[str] = field(default_factory=set)
    """Limits already set by a QOS asked earlier: `grp_tres:cpu`, `max_wall`."""
    line: tuple[Association, ...] = field(init=False)
    """The association and all above it."""
    free: bool = field(init=False)
    """No limit is set anywhere."""
    headings: dict[tuple[str, str], tuple[Counts, ...]] = field(default_factory=dict)
    """User and account → what counts their jobs."""
    apart: dict[tuple[str, str], Counts] = field(default_factory=dict)
    """The same where no limit looks at the counts: jobs not told to the headings yet (`settle`)."""

    def __post_init__(self) -> None:
        self.line = () if self.association is None else tuple(self.accounts.up(self.association))
        none = Limits()
        self.free = all(q.limits == none for q in self.qos) and all(one.limits == none for one in self.line)


def qos_order(job_qos: Qos | None, partition_qos: Qos | None) -> tuple[Qos, ...]:
    """The partition's QOS first, unless the job's has OverPartQOS."""
    if job_qos is None or partition_qos is None or job_qos.name == partition_qos.name:
        return tuple(q for q in (job_qos or partition_qos,) if q is not None)
    if "OverPartQOS" in job_qos.flags:
        return job_qos, partition_qos
    return partition_qos, job_qos


def before_select(policy: Policy, ask: Ask, max_time: int) -> str:
    """The reason the job may not even look for nodes, or ''. `max_time`: the partition's, minutes."""
    if policy.free:
        return ""
    policy.set_by.clear()
    for qos in policy.qos:
        reason = _qos_before(policy, qos, ask, max_time)
        if reason:
            return reason
    return _associations_before(policy, ask, max_time)


def _effective(limit: int, max_time: int, other: int) -> int:
    """A job without a limit gets the smaller of these two (_set_time_limit)."""
    return min(max_time, other) if limit >= INFINITE else limit


def _qos_before(policy: Policy, qos: Qos, ask: Ask, max_time: int) -> str:
    limits, set_by = qos.limits, policy.set_by
    if limits.grp_jobs is not None and "grp_jobs" not in set_by:
        set_by.add("grp_jobs")
        if qos.counts.jobs >= limits.grp_jobs:
            return "QOSGrpJobsLimit"
    if limits.grp_wall is not None and "grp_wall" not in set_by:
        set_by.add("grp_wall")
        wall = int(qos.usage.wall / 60)
        limit = _effective(ask.limit, max_time, limits.grp_wall)
        if wall >= limits.grp_wall or (policy.safe and wall + limit > limits.grp_wall):
            return "QOSGrpWallLimit"
    if limits.max_jobs_per_account is not None and "max_jobs_pa" not in set_by:
        set_by.add("max_jobs_pa")
        if qos.of_account(ask.account).jobs >= limits.max_jobs_per_account:
            return "MaxJobsPerAccount"
    if limits.max_jobs is not None and "max_jobs_pu" not in set_by:
        set_by.add("max_jobs_pu")
        if qos.of_user(ask.user).jobs >= limits.max_jobs:
            return "QOSMaxJobsPerUserLimit"
    if limits.max_wall is not None and "max_wall" not in set_by:
        set_by.add("max_wall")
        if _effective(ask.limit, max_time, limits.max_wall) > limits.max_wall:
            return "QOSMaxWallDurationPerJobLimit"
    return ""


def _associations_before(policy: Policy, ask: Ask, max_time: int) -> str:
    set_by = policy.set_by
    for depth, one in enumerate(policy.line):
        limits = one.limits
        if limits.grp_jobs is not None and "grp_jobs" not in set_by and one.counts.jobs >= limits.grp_jobs:
            return "AssocGrpJobsLimit"
        if limits.grp_wall is not None and "grp_wall" not in set_by:
            wall = int(one.usage.wall / 60)
            limit = _effective(ask.limit, max_time, limits.grp_wall)
            if wall >= limits.grp_wall or (policy.safe and wall + limit > limits.grp_wall):
                return "AssocGrpWallLimit"
        if depth:
            continue
        max_jobs = _inherited(policy, "max_jobs")
        if (
            max_jobs is not None
            and not set_by & {"max_jobs_pa", "max_jobs_pu"}
            and one.counts.jobs >= max_jobs
        ):
            return "AssocMaxJobsLimit"
        max_wall = _inherited(policy, "max_wall")
        if (
            max_wall is not None
            and "max_wall" not in set_by
            and _effective(ask.limit, max_time, max_wall) > max_wall
        ):
            return "AssocMaxWallDurationPerJobLimit"
    return ""


def _inherited(policy: Policy, name: str) -> int | None:
    """A per-job limit of the association: its own, else the nearest parent's."""
    for one in policy.line:
        value: int | None = getattr(one.limits, name)
        if value is not None:
            return value
    return None


def _inherited_tres(policy: Policy, name: str) -> Tres:
    found: Tres = {}
    for one in policy.line:
        found = getattr(one.limits, name) | found
    return found


def after_select(policy: Policy, ask: Ask) -> str:
    """The reason the job may not start with these resources, or ''. `ask.tres` is what it would get."""
    if policy.free:
        return ""
    policy.set_by.clear()
    minutes = {name: ask.limit * count for name, count in ask.tres.items()}
    for qos in policy.qos:
        reason = _qos_after(policy, qos, ask, minutes)
        if reason:
            return reason
    for depth, one in enumerate(policy.line):
        reason = _group(policy, "Assoc", one.limits.grp_tres_mins, one.limits.grp_tres, one.limits.grp_tres_run_mins,
                        one.counts, _used_minutes(one.usage.tres), ask, minutes)  # fmt: skip
        if reason or depth:
            if reason:
                return reason
            continue
        reason = (
            _over(
                policy,
                "max_mins",
                _inherited_tres(policy, "max_tres_mins_per_job"),
                minutes,
                "AssocMaxJobMins",
            )
            or _over(policy, "max_job", _inherited_tres(policy, "max_tres_per_job"), ask.tres, "AssocMaxJob")
            or _over(
                policy,
                "max_node",
                _inherited_tres(policy, "max_tres_per_node"),
                _per_node(ask),
                "AssocMaxNode",
            )
        )
        if reason:
            return reason
    return ""


def _used_minutes(usage: Mapping[str, float]) -> Tres:
    return {name: int(seconds / 60) for name, seconds in usage.items()}


def _per_node(ask: Ask) -> Tres:
    nodes = max(ask.tres.get("node", 1), 1)
    return {name: count // nodes for name, count in ask.tres.items()}


def _qos_after(policy: Policy, qos: Qos, ask: Ask, minutes: Tres) -> str:
    limits = qos.limits
    return (
        _group(policy, "QOS", limits.grp_tres_mins, limits.grp_tres, limits.grp_tres_run_mins, qos.counts,
               _used_minutes(qos.usage.tres), ask, minutes)
        or _over(policy, "max_mins", limits.max_tres_mins_per_job, minutes, "QOSMaxJobMins", mark=True)
        or _over(policy, "max_job", limits.max_tres_per_job, ask.tres, "QOSMaxJob", mark=True)
        or _over(policy, "max_node", limits.max_tres_per_node, _per_node(ask), "QOSMaxNode", mark=True)
        or _under(policy, limits.min_tres_per_job, ask.tres)
        or _held(policy, "pa", limits.max_tres_per_account, qos.of_account(ask.account), ask, "QOSMaxAccount")
        or _held(policy, "pu", limits.max_tres_per_user, qos.of_user(ask.user), ask, "QOSMaxUser")
    )  # fmt: skip


def _free(policy: Policy, kind: str, limits: Tres, mark: bool) -> Iterator[tuple[str, int]]:
    """Limits no earlier QOS has set, in the order of resources; `mark`: they are set now."""
    for name in tres.order(limits, policy.tracked):
        key = f"{kind}:{name}"
        if key in policy.set_by:
            continue
        if mark:
            policy.set_by.add(key)
        yield name, limits[name]


def _over(
    policy: Policy, kind: str, limits: Tres, asked: Mapping[str, int], reason: str, *, mark: bool = False
) -> str:
    for name, most in _free(policy, kind, limits, mark):
        if asked.get(name, 0) > most:
            return tres_reason(reason, name)
    return ""


def _under(policy: Policy, limits: Tres, asked: Mapping[str, int]) -> str:
    for name, least in _free(policy, "min", limits, mark=True):
        if asked.get(name, 0) < least:
            return tres_reason("QOSMin", name)
    return ""


def _unique(ask: Ask, counts: Counts) -> Mapping[str, int]:
    """What is asked, nodes this heading has already not counted again."""
    if not ask.nodes:
        return ask.tres
    return ask.tres | {"node": sum(1 for node in ask.nodes if node not in counts.nodes)}


def _held(policy: Policy, kind: str, limits: Tres, counts: Counts, ask: Ask, reason: str) -> str:
    """Limits on what runs at the same time."""
    asked = _unique(ask, counts)
    for name, most in _free(policy, kind, limits, mark=True):
        count = asked.get(name, 0)
        held = len(counts.nodes) if name == "node" else counts.tres.get(name, 0)
        if count > most or (count and count + held > most):
            return tres_reason(reason, name)
    return ""


def _group(
    policy: Policy,
    who: str,
    mins: Tres,
    group: Tres,
    run_mins: Tres,
    counts: Counts,
    used: Tres,
    ask: Ask,
    minutes: Tres,
) -> str:
    mark = who == "QOS"
    running = {name: seconds // 60 for name, seconds in counts.run_secs.items()}
    for name, most in _free(policy, "grp_mins", mins, mark):
        asked = minutes.get(name, 0)
        if asked and used.get(name, 0) >= most:
            return tres_reason(f"{who}GrpMins", name)
        if policy.safe and (
            asked > most or (asked and asked + running.get(name, 0) > most - used.get(name, 0))
        ):
            return tres_reason(f"{who}GrpMins", name)
    reason = (
        _held(policy, "grp", group, counts, ask, f"{who}Grp")
        if mark
        else _group_held(policy, group, counts, ask)
    )
    if reason:
        return reason
    for name, most in _free(policy, "grp_run", run_mins, mark):
        asked = minutes.get(name, 0)
        if asked > most or (asked and asked + running.get(name, 0) > most):
            return tres_reason(f"{who}GrpRunMins", name)
    return ""


def _group_held(policy: Policy, limits: Tres, counts: Counts, ask: Ask) -> str:
    asked = _unique(ask, counts)
    for name, most in _free(policy, "grp", limits, mark=False):
        count = asked.get(name, 0)
        held = len(counts.nodes) if name == "node" else counts.tres.get(name, 0)
        if count > most or (count and count + held > most):
            return tres_reason("AssocGrp", name)
    return ""


def at_submit(policy: Policy, ask: Ask, max_time: int, *, strict: bool) -> str:
    """Why a submission is refused, or ''. Counts of submitted jobs always; the rest only `strict` (DenyOnLimit)."""
    if policy.free:
        return ""
    policy.set_by.clear()
    for qos in policy.qos:
        reason = _qos_submit(policy, qos, ask, max_time, strict)
        if reason:
            return reason
    set_by = policy.set_by
    for depth, one in enumerate(policy.line):
        limits = one.limits
        if (
            limits.grp_submit is not None
            and "grp_submit" not in set_by
            and one.counts.submitted + ask.jobs > limits.grp_submit
        ):
            return "AssocGrpSubmitJobsLimit"
        if strict:
            reason = _over(policy, "grp", limits.grp_tres, ask.tres, "AssocGrp")
            if reason:
                return reason
        if depth:
            continue
        most = _inherited(policy, "max_submit")
        if (
            most is not None
            and not set_by & {"max_submit_pu", "max_submit_pa"}
            and one.counts.submitted + ask.jobs > most
        ):
            return "AssocMaxSubmitJobLimit"
        if strict:
            wall = _inherited(policy, "max_wall")
            if wall is not None and "max_wall" not in set_by and _effective(ask.limit, max_time, wall) > wall:
                return "AssocMaxWallDurationPerJobLimit"
            reason = _over(
                policy, "max_job", _inherited_tres(policy, "max_tres_per_job"), ask.tres, "AssocMaxJob"
            )
            if reason:
                return reason
    return ""


def _qos_submit(policy: Policy, qos: Qos, ask: Ask, max_time: int, strict: bool) -> str:
    limits, set_by = qos.limits, policy.set_by
    if strict:
        reason = (
            _over(policy, "pa", limits.max_tres_per_account, ask.tres, "QOSMaxAccount", mark=True)
            or _over(policy, "pu", limits.max_tres_per_user, ask.tres, "QOSMaxUser", mark=True)
            or _over(policy, "grp", limits.grp_tres, ask.tres, "QOSGrp", mark=True)
        )
        if reason:
            return reason
    if limits.grp_submit is not None and "grp_submit" not in set_by:
        set_by.add("grp_submit")
        if qos.counts.submitted + ask.jobs > limits.grp_submit:
            return "QOSGrpSubmitJobsLimit"
    if strict and limits.max_wall is not None and "max_wall" not in set_by:
        set_by.add("max_wall")
        if _effective(ask.limit, max_time, limits.max_wall) > limits.max_wall:
            return "QOSMaxWallDurationPerJobLimit"
    if strict:
        reason = _over(policy, "max_job", limits.max_tres_per_job, ask.tres, "QOSMaxJob", mark=True) or _over(
            policy, "max_node", limits.max_tres_per_node, _per_node(ask), "QOSMaxNode", mark=True
        )
        if reason:
            return reason
    if limits.max_submit_per_account is not None and "max_submit_pa" not in set_by:
        set_by.add("max_submit_pa")
        if qos.of_account(ask.account).submitted + ask.jobs > limits.max_submit_per_account:
            return "MaxSubmitJobsPerAccount"
    if limits.max_submit is not None and "max_submit_pu" not in set_by:
        set_by.add("max_submit_pu")
        if qos.of_user(ask.user).submitted + ask.jobs > limits.max_submit:
            return "QOSMaxSubmitJobPerUserLimit"
    return _under(policy, limits.min_tres_per_job, ask.tres) if strict else ""


def _headings(policy: Policy, user: str, account: str) -> tuple[Counts, ...]:
    key = (user, account)
    found = policy.headings.get(key)
    if found is None:
        of_qos = [one for q in policy.qos for one in (q.counts, q.of_user(user), q.of_account(account))]
        found = policy.headings[key] = (*of_qos, *[one.counts for one in policy.line])
    return found


def _charged(policy: Policy, user: str, account: str) -> tuple[Counts, ...]:
    if not policy.free:
        return _headings(policy, user, account)
    found = policy.apart.get((user, account))
    if found is None:
        found = policy.apart[user, account] = Counts()
    return (found,)


def settle(policies: Iterable[Policy]) -> None:
    """Tell the headings what was counted apart: before anybody reads their counts."""
    for policy in policies:
        for (user, account), apart in policy.apart.items():
            for counts in _headings(policy, user, account):
                counts.add(apart)
        policy.apart.clear()


def count_submitted(policy: Policy, user: str, account: str, jobs: int) -> None:
    """So many more jobs are in the queue or running (fewer: negative)."""
    for counts in _charged(policy, user, account):
        counts.submitted += jobs


def charge(policy: Policy, ask: Ask, sign: int = 1) -> None:
    """A job starts (sign 1) or ends (-1) with these resources."""
    seconds = min(ask.limit, 525_600) * 60
    amounts = [(name, sign * count, sign * count * seconds) for name, count in ask.tres.items()]
    for counts in _charged(policy, ask.user, ask.account):
        counts.jobs += sign
        held, run_secs, nodes = counts.tres, counts.run_secs, counts.nodes
        for name, count, used in amounts:
            held[name] += count
            run_secs[name] += used
        for node in ask.nodes:
            left = nodes.get(node, 0) + sign
            if left:
                nodes[node] = left
            else:
                del nodes[node]
