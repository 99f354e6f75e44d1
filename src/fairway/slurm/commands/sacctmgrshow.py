"""sacctmgr list: accounts, associations, users, QOS, TRES, events …"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fairway.slurm.commands import accountlimits as limits_of
from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.fields import Column, Style, find_column, heading_lines, joined
from fairway.slurm.commands.sacctmgr import Asked, Conditions, privileged
from fairway.slurm.model import tres as names_of
from fairway.slurm.model.association import Association, Qos
from fairway.slurm.words import durations

_ASSOCIATION = (
    "Cluster,Account,User,Part,Share,Priority,GrpJ,GrpTRES,GrpS,GrpWall,GrpTRESMins,MaxJ,MaxTRES,MaxTRESPerN,MaxS,"
    "MaxW,MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins"
)
_ACCOUNT_WITH = (
    "Cl,ParentN,U,Share,Priority,GrpJ,GrpN,GrpCPUs,GrpMEM,GrpS,GrpWall,GrpCPUMins,"
    "MaxJ,MaxN,MaxCPUs,MaxS,MaxW,MaxCPUMins,QOS,DefaultQOS"
)
_USER_WITH = "Cl,Acc,Part,Share,Priority,MaxJ,MaxN,MaxCPUs,MaxS,MaxW,MaxCPUMins,QOS,DefaultQOS"
_QOS = (
    "Name,Prio,GraceT,Preempt,PreemptE,PreemptM,Flags%40,UsageThres,UsageFactor,GrpTRES,GrpTRESMins,GrpTRESRunMins,"
    "GrpJ,GrpS,GrpW,MaxTRES,MaxTRESPerN,MaxTRESMins,MaxW,MaxTRESPerUser,MaxJobsPerUser,MaxSubmitJobsPerUser,"
    "MaxTRESPerAcct,MaxJobsPerAcct,MaxSubmitJobsPerAcct,MinTRES"
)
Values = Callable[[Any, str], str]


def _print(
    call: Call,
    asked: Asked,
    where: Conditions,
    default: str,
    things: Sequence[Any],
    values: Values,
    tree_view: bool = False,
) -> None:
    """The table of things, with the columns of `format=`."""
    words = where.take(("format", 1)) or default.split(",")
    columns = []
    for word in words:
        column = find_column("sacctmgr", word)
        if column is None:
            call.say(f"Unknown field '{word.partition('%')[0]}'")
            call.quit(1)
        if column.field == "acct" and "%" not in word:
            column = replace(column, width=-20 if tree_view else 10)
        if column.field == "wckeys" and default.startswith("WCKey,"):
            column = replace(column, heading="WCKey", width=10)
        columns.append(column)
    style = Style(asked.parsable, "noheader" not in asked.flags)
    for line in heading_lines(columns, style):
        call.print(line)
    for thing in things:
        call.print(joined([_field(values, thing, column) for column in columns], columns, style))


def _field(values: Values, thing: Any, column: Column) -> str:
    return values(thing, column.field)


_LIMITS = {
    "grpj": "GrpJobs",
    "grpja": "GrpJobsAccrue",
    "grpt": "GrpTRES",
    "grptm": "GrpTRESMins",
    "grptrm": "GrpTRESRunMins",
    "grps": "GrpSubmitJobs",
    "grpw": "GrpWall",
    "grpc": "GrpCPUs",
    "grpcm": "GrpCPUMins",
    "grpcrm": "GrpCPURunMins",
    "grpn": "GrpNodes",
    "grpmem": "GrpMemory",
    "maxj": "MaxJobs",
    "maxja": "MaxJobsAccrue",
    "maxt": "MaxTRESPerJob",
    "maxtn": "MaxTRESPerNode",
    "maxtm": "MaxTRESMinsPerJob",
    "maxs": "MaxSubmitJobs",
    "maxw": "MaxWallDurationPerJob",
    "maxc": "MaxCPUsPerJob",
    "maxn": "MaxNodesPerJob",
    "maxcm": "MaxCPUMinsPerJob",
    "minpt": "MinPrioThresh",
}
_QOS_LIMITS = {
    "maxj": "MaxJobsPerUser",
    "maxjau": "MaxJobsAccruePerUser",
    "maxjpa": "MaxJobsPerAccount",
    "maxs": "MaxSubmitJobsPerUser",
    "maxsa": "MaxSubmitJobsPerAccount",
    "maxtu": "MaxTRESPerUser",
    "maxta": "MaxTRESPerAccount",
    "maxtrm": "MaxTRESRunMinsPU",
    "maxtrma": "MaxTRESRunMinsPA",
    "mint": "MinTRESPerJob",
    "minc": "MinCPUsPerJob",
    "maxcu": "MaxCPUsPerUser",
    "maxnu": "MaxNodesPerUser",
}


def association_value(call: Call, one: Association, name: str, level: int = 0) -> str:
    accounts = call.site.cluster.accounts
    parent = accounts.associations[one.parent] if one.parent is not None else None
    if name in _LIMITS:
        limit = limits_of.find(limits_of.ASSOCIATION, _LIMITS[name])
        assert limit is not None
        return limits_of.effective(accounts, one, limit)
    allowed = limits_of.qos_text(accounts, one)
    known = {
        "cluster": accounts.cluster,
        "acct": " " * level + one.account,
        "user": one.user,
        "part": one.partition,
        "fairshare": limits_of.shares_text(one.shares),
        "prio": str(accounts.priority(one) or ""),
        "qos": allowed,
        "qos_raw": ",".join(str(accounts.qos[q].id) for q in allowed.split(",") if q in accounts.qos),
        "dqos": limits_of.default_qos(accounts, one),
        "id": str(one.id),
        "pname": parent.account if parent is not None and not one.user else "",
        "pid": str(parent.id) if parent is not None else "",
    }
    return known.get(name, "")


def _associations(call: Call, asked: Asked, where: Conditions) -> None:
    known = (
        ("accounts", 2),
        ("users", 1),
        ("clusters", 1),
        ("partitions", 1),
        ("format", 1),
        ("ids", 1),
        ("parent", 4),
        ("qos", 2),
    )
    for key, _, value in where.pairs:
        if not any(len(key) >= least and name.startswith(key) for name, least in known):
            call.say(f" Unknown condition: {key}={value}")
            call.quit(1)
    users, accounts, ids = where.take(("users", 1)), where.take(("accounts", 2)), where.take(("ids", 1))
    as_tree = where.has("tree", 4)
    chosen = [
        one
        for one in call.site.cluster.accounts.nested()
        if (accounts is None or one.account in accounts)
        and (users is None or one.user in users)
        and (ids is None or str(one.id) in ids)
    ]
    found = _as_tree(chosen)
    _print(
        call,
        asked,
        where,
        _ASSOCIATION,
        found,
        lambda pair, name: association_value(call, pair[0], name, pair[1] if as_tree else 0),
        as_tree,
    )


def _as_tree(chosen: list[Association]) -> list[tuple[Association, int]]:
    """Each with its depth among these: below the one it belongs to, users first, by name.

    Source: slurmdb_defs.c, slurmdb_get_acct_hierarchical_rec_list.
    """
    here = {one.id for one in chosen}
    below: dict[int | None, list[Association]] = {}
    for one in chosen:
        below.setdefault(one.parent if one.parent in here else None, []).append(one)
    found: list[tuple[Association, int]] = []

    def walk(parent: int | None, level: int) -> None:
        for one in sorted(below.get(parent, ()), key=lambda c: (not c.user, c.user or c.account)):
            found.append((one, level))
            walk(one.id, level + 1)

    walk(None, 0)
    return found


def _accounts(call: Call, asked: Asked, where: Conditions) -> None:
    accounts = call.site.cluster.accounts
    names = where.take(("names", 1), ("accounts", 1)) or [
        n for w in where.bare if not w.lower().startswith(("with", "tree")) for n in w.split(",")
    ]
    chosen = [a for n, a in sorted(accounts.accounts.items()) if not names or n in names]
    described, organized = where.take(("descriptions", 1)), where.take(("organizations", 1))
    chosen = [
        a
        for a in chosen
        if (described is None or a.description in described)
        and (organized is None or a.organization in organized)
    ]
    with_associations = "associations" in asked.flags or where.has("withassoc", 5)
    default = "Acc,Des,O" + (",Coord" if where.has("withcoord", 5) else "")
    if not with_associations:

        def plain(one: Any, name: str) -> str:
            known: dict[str, str] = {
                "acct": one.name,
                "desc": one.description,
                "org": one.organization,
                "coords": ",".join(one.coordinators),
                "cluster": accounts.cluster,
            }
            return known.get(name, "")

        _print(call, asked, where, default, chosen, plain)
        return
    rows = [(account, one) for account in chosen for one in accounts.nested() if one.account == account.name]

    def value(row: Any, name: str) -> str:
        account, one = row
        if name in ("desc", "org"):
            return str(account.description if name == "desc" else account.organization)
        return association_value(call, one, name)

    _print(call, asked, where, f"{default},{_ACCOUNT_WITH}", rows, value)


def _users(call: Call, asked: Asked, where: Conditions) -> None:
    accounts = call.site.cluster.accounts
    names = where.take(("names", 1), ("users", 1)) or [
        n for w in where.bare if not w.lower().startswith("with") for n in w.split(",")
    ]
    levels = where.take(("adminlevel", 2))
    in_accounts = where.take(("accounts", 2))
    chosen = [u for n, u in sorted(accounts.users.items()) if not names or n in names]
    defaults = where.take(("defaultaccount", 8))
    if defaults is not None:
        chosen = [u for u in chosen if u.default_account in defaults]
    if levels is not None:
        chosen = [u for u in chosen if any(u.admin_level.lower().startswith(v.lower()) for v in levels)]
    with_associations = "associations" in asked.flags or where.has("withassoc", 5)
    default = "U,DefaultA,Ad" + (",Coord" if where.has("withcoord", 5) else "")

    def plain(user: Any, name: str) -> str:
        known: dict[str, str] = {
            "user": user.name,
            "dacct": user.default_account,
            "admin": user.admin_level,
            "dwckey": user.default_wckey,
            "coords": ",".join(a.name for a in accounts.accounts.values() if user.name in a.coordinators),
        }
        return known.get(name, "")

    if not with_associations:
        _print(call, asked, where, default, chosen, plain)
        return
    rows = [
        (user, one)
        for user in chosen
        for one in accounts.nested()
        if one.user == user.name and (in_accounts is None or one.account in in_accounts)
    ]
    _print(
        call,
        asked,
        where,
        f"{default},{_USER_WITH}",
        rows,
        lambda row, name: plain(row[0], name) or association_value(call, row[1], name),
    )


def qos_value(call: Call, one: Qos, name: str) -> str:
    word = _QOS_LIMITS.get(name) or _LIMITS.get(name)
    if word:
        limit = limits_of.find(limits_of.QOS, word)
        return limits_of.text_of(one.limits, limit) if limit is not None else ""
    known = {
        "name": one.name,
        "id": str(one.id),
        "desc": one.description,
        "prio": str(one.priority),
        "grace": durations.clock(one.grace_s),
        "pree": limits_of.preempt_text(one),
        "prxmpt": "" if one.preempt_exempt_s is None else durations.clock(one.preempt_exempt_s),
        "preem": one.preempt_mode,
        "flags": ",".join(f for f in limits_of.QOS_FLAGS if f in one.flags),
        "ut": "" if one.usage_threshold is None else f"{one.usage_threshold:.6f}",
        "uf": f"{one.usage_factor:.6f}",
        "lf": "" if one.limit_factor is None else f"{one.limit_factor:.6f}",
    }
    return known.get(name, "")


def _qos(call: Call, asked: Asked, where: Conditions) -> None:
    names = where.take(("names", 1)) or [n for w in where.bare for n in w.split(",")]
    chosen = list(call.site.cluster.accounts.qos.values())
    if names:
        chosen = sorted((q for q in chosen if q.name in names), key=lambda q: q.name)
    _print(call, asked, where, _QOS, chosen, lambda one, name: qos_value(call, one, name))


def _tres(call: Call, asked: Asked, where: Conditions) -> None:
    rows = []
    for at, name in enumerate(names_of.order(call.site.tres_names, call.site.conf.tracked)):
        kind, _, rest = name.partition("/")
        rows.append((kind, rest, str(at + 1 if at < 8 else at - 8 + 1001)))
    order = list(call.site.conf.tracked)
    extra = sorted((r for r in rows[8:]), key=lambda r: order.index(f"{r[0]}/{r[1]}"))
    rows = rows[:8] + [(k, n, str(1001 + at)) for at, (k, n, _) in enumerate(extra)]
    kinds, named = where.take(("types", 1)), where.take(("names", 1))
    rows = [r for r in rows if (kinds is None or r[0] in kinds) and (named is None or r[1] in named)]
    _print(
        call,
        asked,
        where,
        "Type,Name%15,ID",
        rows,
        lambda r, name: {"type": r[0], "name": r[1], "id": r[2]}.get(name, ""),
    )


def _clusters(call: Call, asked: Asked, where: Conditions) -> None:
    root = call.site.cluster.accounts.associations[1]
    host = call.site.conf.get("SlurmctldHost", call.site.host)
    address = host.partition("(")[2].rstrip(")") or "127.0.0.1"
    known = {"chost": address, "cport": call.site.conf.get("SlurmctldPort", "6817"), "rpc_version": "9728"}
    default = "Cl,Controlh,Controlp,RPC,Fa,GrpJ,GrpTRES,GrpS,MaxJ,MaxTRES,MaxS,MaxW,QOS,DefaultQOS"
    _print(
        call,
        asked,
        where,
        default,
        [root],
        lambda one, name: known.get(name) or association_value(call, one, name),
    )


def _events(call: Call, asked: Asked, where: Conditions) -> None:
    """What happened to nodes: the registration, and states an administrator set."""
    names = where.take(("nodes", 1))
    site = call.site
    slurm = site.conf.get("SlurmUser", "root")
    rows: list[tuple[str, str, str, str, int, int]] = []
    if names is None:
        rows.append(("", "", "Cluster Registered TRES", "", site.cluster.boot_time, 0))
    for node in sorted(site.cluster.nodes, key=lambda n: n.name):
        if names is not None and node.name not in names:
            continue
        rows.append(
            (
                node.name,
                "UNK",
                "cold-start",
                f"{slurm}({site.uid(slurm)})",
                site.cluster.boot_time,
                site.cluster.boot_time + 1,
            )
        )
        for start, end, state, reason, user in getattr(node, "events", ()):
            who = f"{user}({site.uid(user)})" if user else ""
            rows.append((node.name, state, reason, who, start, end))

    def value(row: Any, name: str) -> str:
        known: dict[str, str] = {
            "cluster": site.name,
            "nodename": row[0],
            "state": row[1],
            "reason": row[2],
            "user": row[3],
            "timestart": call.stamp(row[4]),
            "timeend": call.stamp(row[5]),
        }
        return known.get(name, "")

    _print(call, asked, where, "Cluster,NodeName,Start,End,State,Reason,User", rows, value)


def _empty(default: str) -> Callable[[Call, Asked, Conditions], None]:
    """Kinds of things that this store never has any of."""

    def show(call: Call, asked: Asked, where: Conditions) -> None:
        _print(call, asked, where, default, [], lambda one, name: "")

    return show


def _only_operators(said: str, default: str) -> Callable[[Call, Asked, Conditions], None]:
    """As `_empty`; others may not even ask."""

    def show(call: Call, asked: Asked, where: Conditions) -> None:
        if not privileged(call):
            call.error(said)
            call.say(" Error with request: Access/permission denied")
            call.quit(1)
        _empty(default)(call, asked, where)

    return show


def _runaway(call: Call, asked: Asked, where: Conditions) -> None:
    if not privileged(call):
        call.error("You must have an AdminLevel>=Operator to fix runaway jobs")
        call.quit(1)
    call.print(f"Runaway Jobs: No runaway jobs found on cluster {call.site.name}")


def _configuration(call: Call, asked: Asked, where: Conditions) -> None:
    """What slurm.conf says of accounts; slurmdbd.conf, which has a password, is not read."""
    conf = call.site.conf
    user = conf.get("SlurmUser", "root")
    known = {
        "AccountingStorageBackupHost ": conf.get("AccountingStorageBackupHost", "(null)"),
        "AccountingStorageHost ": conf.get("AccountingStorageHost", "localhost"),
        "AccountingStorageParameters": conf.get("AccountingStorageParameters", "(null)"),
        "AccountingStoragePass ": "(null)",
        "AccountingStoragePort ": conf.get("AccountingStoragePort", "6819"),
        "AccountingStorageType ": conf.get("AccountingStorageType", "accounting_storage/none"),
        "AccountingStorageUser ": conf.get("AccountingStorageUser", "N/A"),
        "AuthType": conf.get("AuthType", "auth/munge"),
        "MessageTimeout": f"{conf.get('MessageTimeout', '10')} sec",
        "PluginDir": conf.get("PluginDir", "/usr/lib/x86_64-linux-gnu/slurm-wlm"),
        "PrivateData": conf.get("PrivateData", "none"),
        "SlurmUserId": f"{user}({call.site.uid(user)})",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_VERSION": VERSION.rpartition(" ")[2],
        "TCPTimeout": f"{conf.get('TCPTimeout', '2')} sec",
        "TrackWCKey": "Yes" if conf.get("TrackWCKey", "no").lower() in ("yes", "1") else "No",
    }
    call.print(f"Configuration data as of {call.stamp(call.now)}")
    for key, value in known.items():
        call.print(f"{key:<22} = {value}" if not key.endswith(" ") else f"{key} = {value}")


SHOWN: dict[str, Callable[[Call, Asked, Conditions], None]] = {
    "accounts": _accounts,
    "associations": _associations,
    "clusters": _clusters,
    "configuration": _configuration,
    "events": _events,
    "federations": _empty("Federation,Cluster,ID%2,Features,FedState"),
    "problems": _only_operators("Access/permission denied", "Cl,Acct,User,Problem"),
    "qos": _qos,
    "reservations": _empty("Cluster,Name%15,TRES%30,TimeStart,TimeEnd,Unused"),
    "resources": _empty("Name,Server,Type,Count,Allocated,ServerType"),
    "runawayjobs": _runaway,
    "transactions": _empty("Time,Action,Actor,Where,Info"),
    "tres": _tres,
    "users": _users,
    "wckeys": _only_operators(
        "Your user doesn't have privilege to perform this action", "WCKey,Cluster,User"
    ),
}
