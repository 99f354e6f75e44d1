"""sreport: what was used in a period, by cluster, account and user; how large jobs were.

Periods are whole hours, yesterday unless said. Of reservations those are told that there are still; WCKeys are not
tracked, so their reports are empty.
"""

from __future__ import annotations

import pwd
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from fairway.slurm.cluster import cluster_tres
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.fields import Column, Style, heading_lines, joined
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.commands.prompt import interactive
from fairway.slurm.commands.sshare import tree
from fairway.slurm.utilization import runs_of, utilization
from fairway.slurm.words import durations, hostlist
from fairway.slurm.words.sizes import whole

_OPTIONS = short_table(
    "all_clusters:a cluster:M: federation help:h immediate:i local noheader:n parsable:p parsable2:P quiet:Q sort:s: "
    "time:t: tres:T: usage:h verbose:v version:V"
)
_TIMES = {
    "SecPer": (6, "Seconds/Percentage of Total"),
    "MinPer": (6, "Minutes/Percentage of Total"),
    "HourPer": (6, "Hours/Percentage of Total"),
    "Seconds": (1, "Seconds"),
    "Minutes": (1, "Minutes"),
    "Hours": (1, "Hours"),
    "Percent": (1, "Percentage of Total"),
}
_RULE = "-" * 80
_TOP_USERS = 10
_SIZES = (50, 250, 500, 1000)
_LEAST_WIDTH, _SHARE_WIDTH = 8, 9
"""Usage columns: eight wide, one more for every digit above, nine more where a percentage follows."""

# Name, letters that are enough, heading, width (0: as wide as the largest usage needs).
_FIELDS: dict[str, tuple[tuple[str, int, str, int], ...]] = {
    "usage": (
        ("Accounts", 1, "Account", 15),
        ("Cluster", 1, "Cluster", 9),
        ("Energy", 1, "Energy", 0),
        ("Login", 1, "Login", 9),
        ("Proper", 1, "Proper Name", 15),
        ("TresName", 5, "TRES Name", 14),
        ("Used", 1, "Used", 0),
    ),
    "cluster": (
        ("Allocated", 2, "Allocated", 0),
        ("Cluster", 2, "Cluster", 9),
        ("Down", 1, "Down", 0),
        ("Idle", 1, "Idle", 0),
        ("Overcommitted", 1, "Over Comm", 0),
        ("PlannedDown", 2, "PLND Down", 0),
        ("Reported", 3, "Reported", 0),
        ("Reserved", 3, "Planned", 0),
        ("Planned", 4, "Planned", 0),
        ("TresCount", 5, "TRES Count", 10),
        ("Count", 2, "TRES Count", 10),
        ("TresName", 5, "TRES Name", 14),
    ),
    "wckey": (
        ("Cluster", 1, "Cluster", 9),
        ("Login", 1, "Login", 9),
        ("Proper", 1, "Proper Name", 15),
        ("TresName", 5, "TRES Name", 14),
        ("Used", 1, "Used", 0),
        ("WCKey", 1, "WCKey", 15),
    ),
    "reservation": (
        ("Allocated", 1, "Allocated", 20),
        ("Associations", 2, "Associations", 15),
        ("Cluster", 2, "Cluster", 9),
        ("End", 1, "End", 19),
        ("Flags", 1, "Flags", 20),
        ("Idle", 1, "Idle", 20),
        ("Name", 2, "Name", 9),
        ("Nodes", 2, "Nodes", 15),
        ("ReservationId", 1, "Id", 8),
        ("Start", 1, "Start", 19),
        ("TotalTime", 2, "TotalTime", 9),
        ("TresCount", 5, "TRES count", 10),
        ("CpuCount", 4, "TRES count", 10),
        ("TresName", 5, "TRES Name", 14),
    ),
}


@dataclass(slots=True)
class Asked:
    """Options, which keep their values over the lines of an interactive call, and one report's conditions."""

    style: Style = field(default_factory=Style)
    time: str = "Minutes"
    tres: str = ""
    by_name: bool = False
    quiet: int = 0
    start: int = 0
    end: int = 0
    users: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    format: list[str] = field(default_factory=list)
    top: int = _TOP_USERS
    grouping: tuple[int, ...] = _SIZES
    flags: set[str] = field(default_factory=set)


def sreport(call: Call) -> None:
    asked = Asked(tres=call.environment.get("SREPORT_TRES", ""))
    parsed = parse(call, _OPTIONS, call.arguments)
    for name, value in parsed:
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("help", "usage"):
            call.print("sreport [<OPTION>] [<COMMAND>]")
            call.quit(0)
        _set(call, asked, name, value or "")
    _names(call, asked)
    if parsed.rest:
        _do(call, asked, parsed.rest)
        return
    interactive(call, lambda words: _do(call, asked, words))


def _set(call: Call, asked: Asked, name: str, value: str) -> None:
    if name in ("parsable", "parsable2"):
        asked.style = replace(asked.style, parsable=1 if name == "parsable" else 2)
    elif name == "noheader":
        asked.style = replace(asked.style, header=False)
    elif name == "quiet":
        asked.quiet = 1
    elif name == "sort":
        asked.by_name = "name".startswith(value.lower())
    elif name == "time":
        found = next((n for n, (least, _) in _TIMES.items() if _is(value, n, least)), None)
        if found is None:
            call.errors.append(f"unknown time format {value}")
        else:
            asked.time = found
    elif name == "tres":
        asked.tres = value


def _is(word: str, name: str, least: int) -> bool:
    return len(word) >= least and name.lower().startswith(word.lower())


Report = Callable[[Call, Asked], None]


def _do(call: Call, asked: Asked, words: list[str]) -> None:
    """One command: cluster, job, user; or a setting."""
    word, rest = words[0], words[1:]
    kinds = (("cluster", 2), ("job", 1), ("reservation", 2), ("resv", 4), ("user", 1))
    kind = next((name for name, least in kinds if _is(word, name, least)), "").replace("resv", "reservation")
    if kind and not rest:
        call.code = 1
        if not asked.quiet:
            call.say(f"too few arguments for keyword:{word}")
    elif kind:
        found = _report(kind, rest[0])
        if found is None:
            call.code = 1
            call.say(f"Not valid report {rest[0]}")
            call.say(_VALID[kind])
            return
        one = replace(asked, users=[], accounts=[], format=[], flags=set(), start=0, end=0)
        _conditions(call, one, rest[1:], kind)
        found(call, one)
    elif word in ("parsable", "parsable2", "quiet"):
        _set(call, asked, word, "")
    elif _is(word, "nonparsable", 4):
        asked.style = replace(asked.style, parsable=0)
    elif rest and (_is(word, "time", 1) or _is(word, "sort", 1)):
        _set(call, asked, "time" if word[0] == "t" else "sort", rest[0])
    elif _is(word, "version", 4):
        call.print(VERSION)
    else:
        call.code = 1
        call.say(f"invalid keyword: {word}")


_VALID = {
    "cluster": 'Valid cluster reports are, "AccountUtilizationByUser", "UserUtilizationByAccount", '
    '"UserUtilizationByWckey", "Utilization", and "WCKeyUtilizationByUser"',
    "job": 'Valid job reports are, "SizesByAccount, SizesByAccountAndWcKey, and  SizesByWckey"',
    "reservation": 'Valid reservation reports are, "Utilization"',
    "user": 'Valid user reports are, "Top"',
}


def _report(kind: str, word: str) -> Report | None:
    lower = word.lower()
    if kind == "user":
        return _top if lower.startswith("t") else None
    if kind == "job":
        if len(lower) > 7 and "sizesbywckey".startswith(lower):
            return _sizes_by_wckey
        return _sizes if "sizesbyaccount".startswith(lower) else None
    if kind == "reservation":
        return _reservations if lower.startswith("u") else None
    if lower.startswith("a"):
        return _account_by_user
    if lower.startswith(("ua", "userutilizationbya")):
        return _user_by_account
    if lower.startswith(("uw", "userutilizationbyw")):
        return _user_by_wckey
    if lower.startswith("w"):
        return _wckey_by_user
    return _cluster if lower.startswith("ut") else None


def _conditions(call: Call, asked: Asked, words: list[str], kind: str) -> None:
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            flag = next(
                (f for f in ("all_clusters", "tree", "group", "printjobcount", "flatview") if _is(key, f, 1)),
                "",
            )
            if flag:
                asked.flags.add(flag)
            elif kind != "cluster" or key:
                asked.users += key.split(",")
        elif _is(key, "Start", 1) or _is(key, "End", 1):
            try:
                moment = durations.parse_time(value, call.now, past=True)
            except durations.TimeError as bad:
                call.say(str(bad))  # and goes on without it
                continue
            if key[:1].lower() == "s":
                asked.start = moment
            else:
                asked.end = min(moment, call.now)
        elif _is(key, "Format", 1):
            asked.format += value.split(",")
        elif _is(key, "Users", 1) or (kind == "reservation" and _is(key, "Names", 1)):
            asked.users += value.split(",")
        elif _is(key, "Accounts", 2) or _is(key, "Acct", 4):
            asked.accounts += value.split(",")
        elif _is(key, "TopCount", 1) and value.isdecimal():
            asked.top = whole(value)
        elif _is(key, "grouping", 1) and all(part.isdecimal() for part in value.split(",")):
            asked.grouping = tuple(whole(part) for part in value.split(","))
        elif not _is(key, "Clusters", 1):
            call.code = 1
            call.say(f" Unknown condition: {word}")
            call.say("Use keyword set to modify value")
    midnight = call.now - call.now % 86400
    asked.start = _to_hour(asked.start) if asked.start else midnight - 86400
    asked.end = _to_hour(asked.end) if asked.end else midnight
    if asked.end - asked.start < 3600:
        asked.end = asked.start + 3600


def _to_hour(moment: int) -> int:
    return (moment + 1800) // 3600 * 3600


def _names(call: Call, asked: Asked) -> list[str]:
    """The TRES asked for, CPUs unless others are."""
    known = call.site.tres_names
    if not asked.tres:
        return ["cpu"]
    if "all" in asked.tres.lower().split(","):
        return known
    found = [word for word in asked.tres.lower().split(",") if word in known]
    if not found:
        call.fatal("No valid TRES given")
    return found


def _head(call: Call, asked: Asked, title: str, seconds: bool = True) -> None:
    if not asked.style.header:
        return
    period = f" ({asked.end - asked.start} secs)" if seconds else ""
    what = "" if asked.time == "Percent" else "TRES " if asked.tres else "CPU "
    call.print(_RULE)
    call.print(f"{title} {durations.stamp(asked.start)} - {durations.stamp(asked.end - 1)}{period}")
    call.print(f"Usage reported in {what}{_TIMES[asked.time][1]}")
    call.print(_RULE)


def _columns(call: Call, asked: Asked, kind: str, default: str, most: Mapping[str, float]) -> list[Column]:
    """`most`: the largest TRES-seconds under a heading."""
    found = []
    for word in asked.format or default.split(","):
        name, _, size = word.partition("%")
        match = next((f for f in _FIELDS[kind] if _is(name, f[0], f[1])), None)
        if match is None:
            call.code = 1
            call.say(f" Unknown field '{name}'")
            continue
        width = max(_LEAST_WIDTH, len(str(int(most.get(match[2], 0)))))
        width += _SHARE_WIDTH if asked.time.endswith("Per") else 0
        wide = int(size) if size.lstrip("-").isdecimal() and int(size) else match[3] or width
        found.append(Column(match[2], match[2], wide))
    return found


def amount(asked: Asked, value: float, total: float) -> str:
    """TRES-seconds in the units asked for."""
    count, share = int(value), f"{100 * value / (total or 1):.2f}%"
    per = {"Sec": 1, "Min": 60, "Hou": 3600}.get(asked.time[:3], 60)
    text = str(count) if per == 1 else f"{count / per:.0f}"
    if asked.time == "Percent":
        return share
    return f"{text}({share})" if asked.time.endswith("Per") else text


def _print(call: Call, asked: Asked, columns: Sequence[Column], rows: Sequence[dict[str, str]]) -> None:
    for line in heading_lines(columns, asked.style):
        call.print(line)
    for row in rows:
        call.print(joined([row.get(c.field, "") for c in columns], columns, asked.style))


def _cluster(call: Call, asked: Asked) -> None:
    names = _names(call, asked)
    if "node" in asked.tres.lower().split(","):
        call.fatal(
            "TRES node usage is no longer reported in the Cluster Utilization report.  Please use TRES CPU instead."
        )
    sums = utilization(call.site.cluster, asked.start, min(asked.end, _rolled(call)), call.now)
    _head(call, asked, "Cluster Utilization", False)
    kinds: dict[str, dict[str, float]] = {
        "Allocated": sums.allocated,
        "Down": sums.down,
        "PLND Down": sums.planned_down,
        "Idle": sums.idle,
        "Planned": sums.planned,
        "Over Comm": sums.over,
    }
    most = {heading: max(values[name] for name in names) for heading, values in kinds.items()}
    most["Reported"] = max(sums.reported[name] for name in names)
    default = "Cl,TresName,al,d,planned,i,res,rep" if asked.tres else "Cl,al,d,planned,i,res,rep"
    columns = _columns(call, asked, "cluster", default, most)
    there = cluster_tres(call.site.cluster.nodes)
    rows = []
    for name in names if any(sums.reported.values()) else ():
        total, count = sums.reported[name], there.get(name, 0)
        row = {heading: amount(asked, values[name], total) for heading, values in kinds.items()}
        row["Reported"] = amount(asked, total, count * (asked.end - asked.start))
        rows.append(row | {"Cluster": call.site.name, "TRES Name": name, "TRES Count": str(count)})
    _print(call, asked, columns, rows)


def _reservations(call: Call, asked: Asked) -> None:
    """How much of each reservation's CPUs its jobs held."""
    _head(call, replace(asked, tres="all"), "Reservation Utilization", False)
    columns = _columns(call, asked, "reservation", "Cl,name,start,end,TresName,al,i", {})
    if asked.time.endswith("Per"):
        columns = [replace(c, width=29) if c.field in ("Allocated", "Idle") else c for c in columns]
    cluster, rows = call.site.cluster, []
    for one in cluster.reservations.values():
        begin, end = max(one.start, asked.start), min(one.end, asked.end, _rolled(call))
        if begin >= end or "cpu" not in _names(call, asked) or (asked.users and one.name not in asked.users):
            continue
        cpus = sum(
            one.cores[at].bit_count() if at in one.cores else cluster.nodes[at].conf.cpus for at in one.nodes
        )
        held = sum(
            (min(run.end, end) - max(run.start, begin)) * run.rate * run.job.alloc_tres.get("cpu", 0)
            for run in runs_of(cluster, begin, end, call.now)
            if run.job.reservation == one.name
        )
        total = cpus * (end - begin)
        rows.append(
            {
                "Cluster": call.site.name,
                "Name": one.name,
                "Start": durations.stamp(one.start),
                "End": durations.stamp(one.end),
                "Flags": ",".join(one.flags),
                "Nodes": hostlist.compress(cluster.nodes[at].conf.name for at in one.nodes),
                "Associations": ",".join((*one.accounts, *one.users)),
                "TotalTime": amount(asked, end - begin, end - begin),
                "TRES count": str(cpus),
                "TRES Name": "cpu",
                "Allocated": amount(asked, held, total),
                "Idle": amount(asked, total - held, total),
            }
        )
    _print(call, asked, columns, rows)


def _may_see_wckeys(call: Call) -> bool:
    may: bool = call.site.cluster.is_operator(call.user)
    if not may:
        call.error("Your user doesn't have privilege to perform this action")
    return may


def _by_wckey(title: str, order: str, query: str) -> Report:
    def report(call: Call, asked: Asked) -> None:
        if not _may_see_wckeys(call):
            call.say(f"slurmdb_report_cluster_{query}: Problem with get query.")
            call.code = 1
            return
        _head(call, asked, f"Cluster/{title} Utilization")
        order_of = f"Cluster,{order}," + ("TresName,Used" if asked.tres else "Used")
        _print(call, asked, _columns(call, asked, "wckey", order_of, {}), [])

    return report


_user_by_wckey = _by_wckey("User/WCKey", "Login,Proper,WCKey", "user_by_wckey")
_wckey_by_user = _by_wckey("WCKey/User", "WCKey,Login,Proper", "wckey_by_user")


def _sizes_by_wckey(call: Call, asked: Asked) -> None:
    _may_see_wckeys(call)
    _sizes(call, replace(asked, flags=asked.flags | {"wckey"}))


def _rolled(call: Call) -> int:
    """Usage is there by whole hours that are over (as slurmdbd rolls it up)."""
    return call.now - call.now % 3600


def _held(call: Call, asked: Asked) -> tuple[dict[tuple[str, str], dict[str, float]], dict[str, float]]:
    """What every user of every account held, and everything that the cluster had."""
    sums = utilization(call.site.cluster, asked.start, min(asked.end, _rolled(call)), call.now)
    held = {
        key: tres
        for key, tres in sums.by_holder.items()
        if (not asked.accounts or key[0] in asked.accounts) and (not asked.users or key[1] in asked.users)
    }
    return held, sums.reported


def _usage_rows(
    call: Call, asked: Asked, named: Sequence[tuple[str, str, dict[str, float]]], reported: dict[str, float]
) -> list[dict[str, str]]:
    """Rows of (account, user, TRES-seconds), one for every TRES asked for."""
    energy = "0(0.00%)" if asked.time.endswith("Per") else "0.00%" if asked.time == "Percent" else "0"
    return [
        {
            "Cluster": call.site.name,
            "Account": account,
            "Login": user,
            "Proper Name": _proper(user),
            "TRES Name": name,
            "Used": amount(asked, tres.get(name, 0), reported[name]),
            "Energy": energy,
        }
        for account, user, tres in named
        for name in _names(call, asked)
    ]


def _proper(user: str) -> str:
    try:
        return pwd.getpwnam(user).pw_gecos.split(",")[0] if user else ""
    except KeyError:
        return ""


def _usage(
    call: Call,
    asked: Asked,
    title: str,
    order: str,
    named: list[tuple[str, str, dict[str, float]]],
    total: dict[str, float],
) -> None:
    _head(call, asked, title)
    most = max((tres.get(name, 0) for _, _, tres in named for name in _names(call, asked)), default=0)
    order += ",TresName,Used" if asked.tres else ",Used,Energy"
    columns = _columns(call, asked, "usage", order, {"Used": most})
    _print(call, asked, columns, _usage_rows(call, asked, named, total))


def _account_by_user(call: Call, asked: Asked) -> None:
    """The tree: an account has what all below it have."""
    held, reported = _held(call, asked)
    accounts = call.site.cluster.accounts
    above: dict[str, dict[str, float]] = {}
    for (account, _), tres in held.items():
        one = next((a for a in accounts.associations.values() if a.account == account and not a.user), None)
        while one is not None:
            sums = above.setdefault(one.account, defaultdict(float))
            for name, value in tres.items():
                sums[name] += value
            one = accounts.associations.get(one.parent) if one.parent is not None else None
    named = []
    for one, level in tree(call):
        indent = " " * level if "tree" in asked.flags else ""
        if not one.user and one.account in above:
            named.append((indent + one.account, "", above[one.account]))
        elif one.user and (one.account, one.user) in held and not one.partition:
            named.append((indent + one.account, one.user, held[one.account, one.user]))
    _usage(call, asked, "Cluster/Account/User Utilization", "Cluster,Ac,Login,Proper", named, reported)


def _user_by_account(call: Call, asked: Asked) -> None:
    held, reported = _held(call, asked)
    named = sorted(
        ((a, u, tres) for (a, u), tres in held.items()), key=lambda row: _order(call, asked, row[1:])
    )
    _usage(call, asked, "Cluster/User/Account Utilization", "Cluster,Login,Proper,Ac", named, reported)


def _order(call: Call, asked: Asked, row: tuple[str, dict[str, float]]) -> tuple[float, str]:
    """The largest of the first TRES asked for first, or by name."""
    return (0.0 if asked.by_name else -row[1].get(_names(call, asked)[0], 0.0)), row[0]


def _top(call: Call, asked: Asked) -> None:
    held, reported = _held(call, asked)
    users: dict[tuple[str, str], dict[str, float]] = {}
    lists: dict[tuple[str, str], list[str]] = {}
    for (account, user), tres in sorted(held.items()):
        key = (user, "" if "group" in asked.flags else account)
        lists.setdefault(key, []).append(account)
        sums = users.setdefault(key, defaultdict(float))
        for name, value in tres.items():
            sums[name] += value
    named = [(", ".join(lists[key]), key[0], tres) for key, tres in users.items()]
    named.sort(key=lambda row: _order(call, asked, row[1:]))
    _usage(
        call, asked, f"Top {asked.top} Users", "Cluster,Login,Proper,Account", named[: asked.top], reported
    )


def _sizes(call: Call, asked: Asked) -> None:
    """How much of the time went to jobs of how many CPUs, by the accounts next to the root."""
    names = _names(call, asked)
    if len(names) > 1:
        call.say(" Job report only supports a single --tres type.")
        call.say(" Generate a separate report for each TRES type.")
        call.quit(1)
    name, bounds = names[0], (0, *asked.grouping)
    sums: dict[str, list[float]] = {}
    counts: dict[str, list[int]] = {}
    wckeys = "wckey" in asked.flags
    for run in () if wckeys else runs_of(call.site.cluster, asked.start, asked.end, call.now):
        account = run.job.account if "flatview" in asked.flags else _highest(call, run.job.account)
        size = run.job.alloc_tres.get(name, 0)
        at = sum(size >= bound for bound in asked.grouping)
        seconds = (min(run.end, asked.end) - max(run.start, asked.start)) * run.rate
        sums.setdefault(account, [0.0] * len(bounds))[at] += seconds * size
        counts.setdefault(account, [0] * len(bounds))[at] += 1
    kind = "CPUs" if asked.tres.lower() in ("", "cpu") else "TRES"
    groups = [f"{low}-{high - 1} {kind}" for low, high in pairwise(bounds)]
    groups.append(f">= {bounds[-1]} {kind}")
    wide = 20 if asked.time.endswith("Per") else 13
    columns = [Column("Cluster", "Cluster", 9), Column("Account", "Wckey" if wckeys else "Account", 9)]
    columns += [Column(group, group, wide) for group in groups] + [Column("share", "% of cluster", 12)]
    total = sum(sum(values) for values in sums.values())
    rows: list[dict[str, Any]] = []
    for account, values in sorted(sums.items()):
        shown = [amount(asked, value, sum(values)) for value in values]
        if "printjobcount" in asked.flags:
            shown = [str(count) for count in counts[account]]
        share = {"share": f"{100 * sum(values) / (total or 1):.2f}%"}
        rows.append(
            {"Cluster": call.site.name, "Account": account} | dict(zip(groups, shown, strict=True)) | share
        )
    if asked.style.header:
        call.print(_RULE)
        period = f"{durations.stamp(asked.start)} - {durations.stamp(asked.end - 1)}"
        call.print(f"Job Sizes {'by Wckey ' if wckeys else ''}{period} ({asked.end - asked.start} secs)")
        if asked.tres:
            call.print(f"TRES type is {asked.tres}")
        counted = "printjobcount" in asked.flags
        call.print(
            "Units are in number of jobs ran" if counted else f"Time reported in {_TIMES[asked.time][1]}"
        )
        call.print(_RULE)
    _print(call, asked, columns, rows)


def _highest(call: Call, account: str) -> str:
    """The account above this one that stands right below the root."""
    associations = call.site.cluster.accounts.associations
    one = next((a for a in associations.values() if a.account == account and not a.user), None)
    while one is not None and one.parent is not None and associations[one.parent].parent is not None:
        one = associations[one.parent]
    return one.account if one is not None else account
