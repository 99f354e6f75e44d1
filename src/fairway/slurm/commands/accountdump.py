"""sacctmgr dump and load: a cluster's accounts as a text file that people edit.

A line is `Account - 'name':Description='…':Fairshare=10:QOS='high,low'`; users and accounts stand below the last
`Parent - 'name'`.
"""

from __future__ import annotations

import re

from fairway.slurm.commands import accountlimits as limits_of
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.sacctmgr import Conditions, forbid, privileged
from fairway.slurm.model.association import (
    FAIRSHARE_PARENT,
    Account,
    Accounts,
    Association,
    User,
    add_association,
    add_qos,
)
from fairway.slurm.words.sizes import whole

_HEAD = """\
# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxTRESPerJob=node=50
# Followed by Accounts you want in this fashion (root is created by default)...
# Parent - 'root'
# Account - 'cs':MaxTRESPerJob=node=5:MaxJobs=4:FairShare=399:Description='Computer Science':Organization='LC'
# Any of the options after a ':' can be left out and they can be in any order.
# If you want to add any sub accounts just list the Parent THAT HAS ALREADY
# BEEN CREATED before the account line in this fashion...
# Parent - 'cs'
# Account - 'test':MaxJobs=1:FairShare=1:Description='Test Account':Organization='Test'
# To add users to a account add a line like this after a Parent - 'line'
# User - 'lipari':MaxTRESPerJob=node=2:MaxJobs=3:FairShare=1
"""


def dump(call: Call, words: list[str]) -> None:
    accounts, where = call.site.cluster.accounts, Conditions(words)
    name = next(iter(where.bare), "") or next(iter(where.take(("clusters", 1)) or ()), "") or accounts.cluster
    file = next(iter(where.take(("file", 1)) or ()), f"{name}.cfg")
    if name != accounts.cluster:
        call.print(f" Cluster {name} not found.")
        call.quit(1)
    lines = list(dump_lines(accounts))
    for line in lines:
        call.info(line)
    try:
        call.site.write_file(call, file, _HEAD + "\n".join(lines) + "\n")
    except OSError as failed:
        call.say(f"Unable to open file {file}: {failed.strerror}")
        call.quit(1)


def dump_lines(accounts: Accounts) -> list[str]:
    """The tree in Slurm's order: an account's users, then its accounts, then those one by one."""
    root = next(a for a in accounts.associations.values() if a.parent is None)
    lines = [f"Cluster - '{accounts.cluster}':Fairshare={limits_of.shares_text(root.shares)}"]

    def walk(one: Association) -> None:
        children = [accounts.associations[c] for c in one.children]
        if not children:
            return
        lines.append(f"Parent - '{one.account}'")
        users = sorted((c for c in children if c.user), key=lambda c: c.user)
        lines.extend(_user_line(accounts, child) for child in users)
        below = sorted((c for c in children if not c.user), key=lambda c: c.account)
        lines.extend(_account_line(accounts, child) for child in below)
        for child in below:
            walk(child)

    walk(root)
    return lines


def _user_line(accounts: Accounts, one: Association) -> str:
    user = accounts.users[one.user]
    parts = [f"User - '{one.user}'"]
    if one.partition:
        parts.append(f"Partition='{one.partition}'")
    parts.append(f"DefaultAccount='{user.default_account}'")
    if user.admin_level != "None":
        parts.append(f"AdminLevel='{user.admin_level}'")
    return ":".join(parts + _settings(one))


def _account_line(accounts: Accounts, one: Association) -> str:
    account = accounts.accounts[one.account]
    parts = [f"Account - '{one.account}'", f"Description='{account.description}'"]
    return ":".join([*parts, f"Organization='{account.organization}'", *_settings(one)])


def _settings(one: Association) -> list[str]:
    parts = [f"Fairshare={limits_of.shares_text(one.shares)}"]
    for limit in limits_of.ASSOCIATION:
        text = limits_of.text_of(one.limits, limit) if limit.printed else ""
        if text:
            parts.append(f"{limit.printed}={text}")
    if one.default_qos:
        parts.append(f"DefaultQOS='{one.default_qos}'")
    if one.qos:
        parts.append(f"QOS='{','.join(sorted(one.qos))}'")
    return parts


class DumpProblem(ValueError):
    """A line that cannot be read: the message says which and why."""


def load(call: Call, words: list[str]) -> None:
    where = Conditions(words)
    file = next(iter(where.take(("file", 1)) or ()), "") or next((w for w in where.bare if w != "clean"), "")
    if not privileged(call):
        forbid(call)
    text = call.site.read_file(call, file)
    if text is None:
        call.say(f' error: Unable to read "{file}": No such file or directory')
        call.quit(1)
    try:
        read_dump(call, text)
    except DumpProblem as bad:
        call.say(f" error: {file}: {bad}")
        call.quit(1)
    call.site.controller.accounts_changed()


_LINE = re.compile(r"\s*(\w+)\s*-\s*'?([^':]+)'?\s*(?::(.*))?$")


def read_dump(call: Call, text: str) -> None:
    """Add what a dump says to the accounts. Raises: DumpProblem, with nothing changed by its line."""
    accounts, parent = call.site.cluster.accounts, "root"
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise DumpProblem(f"line {number}: expected KIND - 'NAME':OPTION=VALUE…, not {line[:60]!r}")
        kind, name, options = match[1].lower(), match[2].strip().lower(), _options(match[3] or "")
        if kind == "parent":
            if name not in accounts.accounts:
                raise DumpProblem(f"line {number}: the parent {name!r} stands nowhere before")
            parent = name
        elif kind == "account":
            accounts.accounts.setdefault(
                name, Account(name, options.get("description", name), options.get("organization", parent))
            )
            if (name, "", "") not in accounts.by_key:
                _set(call, add_association(accounts, name, parent=parent), options, number)
        elif kind == "user":
            default = options.get("defaultaccount", parent)
            admin = options.get("adminlevel", "None").capitalize()
            accounts.users.setdefault(name, User(name, default, admin, call.site.uid(name) or 0))
            partition = options.get("partition", "")
            if (parent, name, partition) not in accounts.by_key:
                _set(
                    call,
                    add_association(accounts, parent, name, parent=parent, partition=partition),
                    options,
                    number,
                )
        elif kind != "cluster":
            raise DumpProblem(f"line {number}: no {match[1]}: expected Cluster, Parent, Account or User")


def _options(text: str) -> dict[str, str]:
    found = {}
    for part in re.findall(r"(?:[^:']|'[^']*')+", text):
        key, _, value = part.partition("=")
        found[key.strip().lower()] = value.strip().strip("'\"")
    return found


def _set(call: Call, one: Association, options: dict[str, str], number: int) -> None:
    accounts = call.site.cluster.accounts
    for key, value in options.items():
        if key in (
            "description",
            "organization",
            "defaultaccount",
            "adminlevel",
            "partition",
            "coordinator",
            "defaultwckey",
        ):
            continue
        if key in ("fairshare", "shares"):
            one.shares = (
                FAIRSHARE_PARENT if value.lower() == "parent" else whole(value) if value.isdecimal() else 1
            )
        elif key in ("qos", "qoslevel"):
            for name in filter(None, value.split(",")):
                if name not in accounts.qos:
                    add_qos(accounts, name).description = name
            one.qos = tuple(q for q in value.split(",") if q)
        elif key == "defaultqos":
            one.default_qos = value
        else:
            limit = limits_of.find(limits_of.ASSOCIATION, key)
            if limit is None:
                raise DumpProblem(f"line {number}: {key} is no option of an association")
            try:
                limits_of.change(call.site, one.limits, limit, value)
            except limits_of.BadLimit as bad:
                raise DumpProblem(f"line {number}: {str(bad).strip()}") from None
