"""sshare: shares and usage of the associations, as a tree."""

from __future__ import annotations

from typing import Any

from fairway.slurm.commands.call import VERSION, Call
from fairway.slurm.commands.fields import (
    Column,
    Style,
    fields_of,
    find_column,
    heading_lines,
    help_lines,
    joined,
)
from fairway.slurm.commands.getopt import parse, short_table
from fairway.slurm.model.association import FAIRSHARE_PARENT, Association

_OPTIONS = short_table(
    "accounts:A: all:a helpformat:e long:l partition:m cluster:M: clusters:M: :h noheader:n format:o: parsable:p "
    "parsable2:P :q users:u: Users:U verbose:v version:V help usage"
)
_DEFAULT = "A,User,RawShares,NormShares,RawUsage,Eff,FairShare"
_LONG = "A,User,RawShares,NormShares,RawUsage,NormUsage,Eff,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
_PARTITION = "A,User,Partition,RawShares,NormShares,RawUsage,Eff,FairShare"
_LONG_PARTITION = (
    "A,User,Partition,RawShares,NormShares,RawUsage,NormUsage,Eff,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
)


def sshare(call: Call) -> None:
    asked: dict[str, Any] = {}
    for name, value in parse(call, _OPTIONS, call.arguments):
        if name == "version":
            call.print(VERSION)
            call.quit(0)
        if name in ("help", "usage"):
            call.print("Usage:  sshare [OPTION]")
            call.quit(0)
        if name == "helpformat":
            call.print(help_lines([n for n, _, _ in fields_of("sshare")], 18))
            call.quit(0)
        if name == "all" or (name == "users" and value == "-1"):
            asked.pop("users", None)
        elif name == "users":
            asked.pop("all", None)
            value = f"{asked['users']},{value}" if "users" in asked else value
        if name in ("parsable", "parsable2"):
            asked["style"] = 1 if name == "parsable" else 2
        if name == "format" and "format" in asked:
            value = f"{asked['format']},{value}"
        asked["noheader" if name == "h" else name] = True if value is None else value
    call.check_clusters(asked.get("clusters") or asked.get("cluster"))
    if "verbose" in asked:
        _say_what_is_asked(call, asked)
    call.print_cluster({name: value for name, value in asked.items() if name != "noheader"})
    style = Style(asked.get("style", 0), "noheader" not in asked)
    text = _DEFAULT
    if "format" in asked:
        text = str(asked["format"]).strip(",") or "Account"
    elif "long" in asked:
        text = _LONG_PARTITION if "partition" in asked else _LONG
    elif "partition" in asked:
        text = _PARTITION
    columns = []
    for word in filter(None, text.split(",")):
        column = find_column("sshare", word)
        if column is None:
            call.fail(f'Invalid field requested: "{word}"')
        columns.append(column)
    for line in heading_lines(columns, style):
        call.print(line)
    for association, level in _chosen(call, asked):
        call.print(joined([_value(call, association, level, c) for c in columns], columns, style))


def _say_what_is_asked(call: Call, asked: dict[str, Any]) -> None:
    """-v"""
    users = "all" if "all" in asked else asked.get("users", call.user)
    for what, words in (("Users", users), ("Accounts", asked.get("accounts", "all"))):
        call.say(f"{what} requested:")
        for word in filter(None, words.split(",")):
            call.say(f"\t: {word}")


def tree(call: Call) -> list[tuple[Association, int]]:
    """Every association with its depth: an account, its users by name, then its accounts by name."""
    accounts = call.site.cluster.counted()
    found: list[tuple[Association, int]] = []

    def walk(one: Association, level: int) -> None:
        found.append((one, level))
        children = [accounts.associations[c] for c in one.children]
        for child in sorted((c for c in children if c.user), key=lambda c: (c.user, c.partition)):
            walk(child, level + 1)
        for child in sorted((c for c in children if not c.user), key=lambda c: c.account):
            walk(child, level + 1)

    for one in accounts.associations.values():
        if one.parent is None:
            walk(one, 0)
    return found


def _chosen(call: Call, asked: dict[str, Any]) -> list[tuple[Association, int]]:
    whole = tree(call)
    users: list[str] | None = asked["users"].split(",") if "users" in asked else None
    if "all" in asked:
        users = None
    elif users is None:
        users = [call.user]
    accounts = asked["accounts"].split(",") if "accounts" in asked else None
    found = []
    depth: dict[str, int] = {}
    for one, level in whole:
        if accounts is not None and one.account not in accounts:
            continue
        if one.user and users is not None and one.user not in users:
            continue
        if "Users" in asked and not one.user:
            continue
        if accounts is not None:
            level -= depth.setdefault(one.account, level)
        if "Users" in asked:
            level = 0
        found.append((one, level))
    return found


def _value(call: Call, one: Association, level: int, column: Column) -> str:
    field = column.field
    root = one.parent is None
    if field == "account":
        return " " * level + one.account
    if field == "user":
        return one.user
    if field == "partition":
        return one.partition
    if field == "cluster":
        return call.site.name
    if field == "id":
        return str(one.id)
    if field == "rawshares":
        return "" if root else "parent" if one.shares == FAIRSHARE_PARENT else str(one.shares)
    if field == "normshares":
        return f"{0.0 if root else one.shares_norm:.6f}"
    if field == "rawusage":
        return str(int(one.usage.raw))
    if field == "normusage":
        return "" if root else f"{one.usage_norm:.6f}"
    if field == "effectvusage":
        return f"{1.0 if root else one.usage_efctv:.6f}"
    if field == "fairshare":
        return f"{one.fs_factor:.6f}" if one.user else ""
    if field == "levelfs":
        return "" if root else _level(one.level_fs)
    tracked = call.site.tres_names
    if field == "tresrunmins":
        return ",".join(f"{n}={int(one.counts.run_secs.get(n, 0) // 60)}" for n in tracked)
    if field == "grptresmins":
        return ",".join(
            f"{n}={one.limits.grp_tres_mins[n]}" for n in tracked if n in one.limits.grp_tres_mins
        )
    return ",".join(f"{n}={int(one.usage.tres.get(n, 0) // 60)}" for n in tracked)


def _level(value: float) -> str:
    return "inf" if value == float("inf") or value > 1e300 else f"{value:.6f}"
