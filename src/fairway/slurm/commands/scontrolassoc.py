"""scontrol show assoc_mgr: users, associations and QOS as the controller has them, with what is used of each limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fairway.slurm.commands import jobtext
from fairway.slurm.commands.call import Call
from fairway.slurm.model.association import FAIRSHARE_PARENT, Association, Counts, Limits, Qos


def show_assoc_mgr(call: Call, name: str, detail: bool, line: bool) -> None:
    wanted = {k.lower(): v.split(",") for k, _, v in (w.partition("=") for w in name.split())}
    flags = {f.lower() for f in wanted.get("flags", ["users", "assoc", "qos"])}
    for word in wanted.get("flags", ()):
        if not word.lower().startswith(("user", "assoc", "qos")):
            call.say(f"invalid flag '{word}', valid options are 'Assoc, QOS, and/or Users'")
            return
    users = wanted.get("users") or wanted.get("user")
    accounts = wanted.get("accounts") or wanted.get("account")
    qos = wanted.get("qos")
    call.print("Current Association Manager state")
    if not line:
        call.print()
    if any(f.startswith("user") for f in flags):
        _users(call, users, line)
    if any(f.startswith("assoc") for f in flags):
        _associations(call, users, accounts, line)
    if any(f.startswith("qos") for f in flags):
        _qos(call, qos, line)


def _users(call: Call, wanted: list[str] | None, line: bool) -> None:
    call.print("User Records" + ("" if line else "\n"))
    for user in sorted(call.site.cluster.accounts.users.values(), key=lambda u: u.name):
        if wanted is None or user.name in wanted:
            call.print(
                f"UserName={user.name}({call.site.uid(user.name)}) DefAccount={user.default_account} "
                f"DefWckey={user.default_wckey} AdminLevel={user.admin_level}"
            )


def _associations(call: Call, users: list[str] | None, accounts: list[str] | None, line: bool) -> None:
    call.print("Association Records" + ("" if line else "\n"))
    lefts, accruing = lineage(call), _accruing(call)
    for one, left in lefts.items():
        association = call.site.cluster.accounts.associations[one]
        if (users and association.user and association.user not in users) or (
            accounts and association.account not in accounts
        ):
            continue
        text = _association(call, association, left, accruing["assoc", str(one)])
        call.write((" ".join(part.strip() for part in text) if line else "\n    ".join(text)) + "\n")


def _accruing(call: Call) -> Counter[tuple[str, ...]]:
    """Pending jobs that gather age, by association, QOS, and its users and accounts."""
    cluster, found = call.site.cluster, Counter[tuple[str, ...]]()
    for job in cluster.pending.values():
        full = job.reason == "JobArrayTaskLimit"
        if not job.priority or not (full or jobtext.accrue_time(job, call.now)):
            continue
        count, own = max(len(job.array_left), 1), cluster.accounts.associations.get(job.assoc_id)
        count = min(count, job.array_max_running or count)
        for above in cluster.accounts.up(own) if own else ():
            found["assoc", str(above.id)] += count
        for key in (("qos", job.qos), ("PU", job.qos, job.user), ("PA", job.qos, job.account)):
            found[key] += count
    return found


def lineage(call: Call) -> dict[int, int]:
    """Association → its left edge in the tree (`Lft`), in the order Slurm lists them: newest account first."""
    accounts = call.site.cluster.counted()
    found: dict[int, int] = {}
    edge = 0

    def walk(one: Association) -> None:
        nonlocal edge
        edge += 1
        found[one.id] = edge
        children = [accounts.associations[c] for c in one.children]
        for child in [c for c in children if not c.user and c.id != one.id][::-1] + [
            c for c in children if c.user
        ][::-1]:
            walk(child)
        edge += 1

    for one in accounts.associations.values():
        if one.parent is None:
            walk(one)
    tree = [accounts.associations[a] for a in found]
    return {a.id: found[a.id] for a in _by_account(call, tree)}


def _by_account(call: Call, tree: list[Association]) -> list[Association]:
    """An account, its accounts below by name, then its users by name."""
    accounts = call.site.cluster.counted()
    out: list[Association] = []

    def walk(one: Association) -> None:
        out.append(one)
        children = [accounts.associations[c] for c in one.children]
        for child in sorted((c for c in children if c.user), key=lambda c: c.user):
            walk(child)
        for child in sorted((c for c in children if not c.user), key=lambda c: c.account):
            walk(child)

    for one in tree:
        if one.parent is None:
            walk(one)
    return out


def _limit(limit: int | None, used: object) -> str:
    return f"{'N' if limit is None else limit}({used})"


def _tres(call: Call, limits: Mapping[str, int], used: Mapping[str, float]) -> str:
    return ",".join(f"{n}={_limit(limits.get(n), int(used.get(n, 0)))}" for n in call.site.tres_names)


def _now(counts: Counts) -> dict[str, int]:
    """A node that several jobs are on counts once."""
    return {**counts.tres, "node": len(counts.nodes)}


def _plain(value: int | None) -> str:
    return "" if value is None else str(value)


def _minutes(used: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds / 60 for name, seconds in used.items()}


def _association(call: Call, one: Association, left: int, accruing: int) -> list[str]:
    accounts, limits, counts = call.site.cluster.accounts, one.limits, one.counts
    user = f"{one.user}({call.site.uid(one.user)})" if one.user else ""
    parent = accounts.associations[one.parent] if one.parent is not None else None
    above = f"{parent.account}({parent.id})" if parent is not None and not one.user else ""
    default = bool(one.user) and accounts.users[one.user].default_account == one.account
    shares = "parent" if one.shares == FAIRSHARE_PARENT else one.shares
    level = sum(accounts.associations[c].shares for c in parent.children) if parent is not None else 1
    return [
        f"ClusterName={accounts.cluster} Account={one.account} UserName={user} Partition={one.partition} "
        f"Priority={accounts.priority(one)} ID={one.id}",
        f"SharesRaw/Norm/Level/Factor={shares}/{one.shares_norm if parent else 0:.2f}/{level}/{one.fs_factor:.2f}",
        f"UsageRaw/Norm/Efctv={one.usage.raw:.2f}/{one.usage_norm:.2f}/{one.usage_efctv:.2f}",
        f"ParentAccount={above} Lft={left} DefAssoc={'Yes' if default else 'No'}",
        f"GrpJobs={_limit(limits.grp_jobs, counts.jobs)} "
        f"GrpJobsAccrue={_limit(limits.grp_jobs_accrue, accruing)}",
        f"GrpSubmitJobs={_limit(limits.grp_submit, counts.submitted)} "
        f"GrpWall={_limit(limits.grp_wall, f'{one.usage.wall / 60:.2f}')}",
        f"GrpTRES={_tres(call, limits.grp_tres, _now(counts))}",
        f"GrpTRESMins={_tres(call, limits.grp_tres_mins, _minutes(one.usage.tres))}",
        f"GrpTRESRunMins={_tres(call, limits.grp_tres_run_mins, _minutes(counts.run_secs))}",
        f"MaxJobs={_limit(limits.max_jobs, counts.jobs) if limits.max_jobs is not None else ''} "
        f"MaxJobsAccrue={_plain(limits.max_jobs_accrue)} "
        f"MaxSubmitJobs={_limit(limits.max_submit, counts.submitted) if limits.max_submit is not None else ''} "
        f"MaxWallPJ={_plain(limits.max_wall)}",
        f"MaxTRESPJ={_amounts(limits.max_tres_per_job)}",
        f"MaxTRESPN={_amounts(limits.max_tres_per_node)}",
        f"MaxTRESMinsPJ={_amounts(limits.max_tres_mins_per_job)}",
        f"MinPrioThresh={_plain(limits.min_prio_thresh)}",
    ]


def _amounts(tres: Mapping[str, int]) -> str:
    return ",".join(f"{n}={c}" for n, c in tres.items())


def _qos(call: Call, wanted: list[str] | None, line: bool) -> None:
    call.print("QOS Records" + ("" if line else "\n"))
    accruing = _accruing(call)
    for one in call.site.cluster.counted().qos.values():
        if wanted is None or one.name in wanted:
            call.print((" " if line else "\n    ").join(_qos_lines(call, one, line, accruing)))


def _qos_lines(call: Call, one: Qos, line: bool, accruing: Counter[tuple[str, ...]]) -> list[str]:
    limits, counts = one.limits, one.counts
    lines = [
        f"QOS={one.name}({one.id})",
        f"UsageRaw={one.usage.raw:.6f}",
        f"GrpJobs={_limit(limits.grp_jobs, counts.jobs)} "
        f"GrpJobsAccrue={_limit(limits.grp_jobs_accrue, accruing['qos', one.name])} "
        f"GrpSubmitJobs={_limit(limits.grp_submit, counts.submitted)} "
        f"GrpWall={_limit(limits.grp_wall, f'{one.usage.wall / 60:.2f}')}",
        f"GrpTRES={_tres(call, limits.grp_tres, _now(counts))}",
        f"GrpTRESMins={_tres(call, limits.grp_tres_mins, _minutes(one.usage.tres))}",
        f"GrpTRESRunMins={_tres(call, limits.grp_tres_run_mins, _minutes(counts.run_secs))}",
        f"MaxWallPJ={_plain(limits.max_wall)}",
        f"MaxTRESPJ={_amounts(limits.max_tres_per_job)}",
        f"MaxTRESPN={_amounts(limits.max_tres_per_node)}",
        f"MaxTRESMinsPJ={_amounts(limits.max_tres_mins_per_job)}",
        f"MinPrioThresh={_plain(limits.min_prio_thresh)} ",
        f"MinTRESPJ={_amounts(limits.min_tres_per_job)}",
        f"PreemptMode={one.preempt_mode.upper() if one.preempt_mode != 'cluster' else 'OFF'}",
        f"Priority={one.priority}",
    ]
    accounts = [
        (name, _held(call, held, "PA", limits, accruing["PA", one.name, name]))
        for name, held in one.by_account.items()
    ]
    users = [
        (str(call.site.uid(name)), _held(call, held, "PU", limits, accruing["PU", one.name, name]))
        for name, held in one.by_user.items()
    ]
    for what, held_by in (("Account", accounts), ("User", users)):
        if line:
            told = "".join(f" {name}={{{' '.join(held)}}}" for name, held in held_by)
            lines.append(f"{what} Limits={told or f'No {what}s'}")
        else:
            within = [f"      {name}" + "".join(f"\n        {one}" for one in held) for name, held in held_by]
            lines.append("\n".join((f"{what} Limits", *(within or [f"        No {what}s"]))))
    return lines


def _held(call: Call, held: Counts, of: str, limits: Limits, accruing: int) -> tuple[str, str]:
    most, jobs, submit = (
        limits.max_tres_per_account,
        limits.max_jobs_per_account,
        limits.max_submit_per_account,
    )
    if of == "PU":
        most, jobs, submit = limits.max_tres_per_user, limits.max_jobs, limits.max_submit
    return (
        f"MaxJobs{of}={_limit(jobs, held.jobs)} MaxJobsAccrue{of}=N({accruing}) "
        f"MaxSubmitJobs{of}={_limit(submit, held.submitted)}",
        f"MaxTRES{of}={_tres(call, most, _now(held))}",
    )
