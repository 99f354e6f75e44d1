"""sacctmgr delete: what goes, and what stays as a default or for its jobs. What is refused changes nothing."""

from __future__ import annotations

from typing import Any

from fairway.slurm.commands.call import Call
from fairway.slurm.commands.sacctmgr import Asked, Conditions, answered, forbid, privileged
from fairway.slurm.commands.sacctmgrsettings import accounts_of, done, names_of
from fairway.slurm.model.association import Accounts, Association, remove_association
from fairway.slurm.words.errors import refusals


def _delete_check(call: Call, found: list[Any], words: list[str]) -> None:
    if not words:
        call.say(" No conditions given to remove, not executing.")
        call.quit(1)
    if not found:
        call.print(" Nothing deleted")
        call.quit(1)
    if not privileged(call):
        forbid(call)


def _keep_defaults(call: Call, found: list[Association], advice: str) -> None:
    """A default account is kept if an association that is none goes with it, or goes before it, by user.

    That another user's counts is how the database asks, which never sees a user end: _check_is_def_acct_before_remove.
    """
    accounts = accounts_of(call)
    rows = sorted(
        (
            one.user,
            one.user in accounts.users and accounts.users[one.user].default_account == one.account,
            one.account,
        )
        for one in found
    )
    first = next((at for at, row in enumerate(rows) if not row[1]), len(rows))
    kept = [
        f"C = {accounts.cluster:<15} A = {account:<10} U = {user:<9}"
        for user, default, account in rows[first:]
        if default
    ]
    if kept:
        _refuse(call, "NO_REMOVE_DEFAULT_ACCOUNT", kept, f"{advice}\n Changes Discarded")


def _keep_jobs(call: Call, found: list[Association]) -> None:
    """What has jobs that wait or run is kept (_check_jobs_before_remove)."""
    accounts, ids = accounts_of(call), {one.id for one in found}
    active = [
        f"JobID = {job.job_id:<10} C = {accounts.cluster:<10} A = {job.account:<10} U = {job.user:<9}"
        for job in call.site.cluster.jobs.values()
        if job.assoc_id in ids and not job.finished
    ]
    if active:
        _refuse(call, "JOBS_RUNNING_ON_ASSOC", active, "")


def _refuse(call: Call, why: str, lines: list[str], after: str) -> None:
    call.say(f" Error with request: {refusals()[why][1]}")
    for line in lines:
        call.say(f"  {line}")
    if after:
        call.say(after)
    call.quit(1)


def delete_user(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = accounts_of(call), Conditions(words)
    names = names_of(words, ("users", 1), where)
    of, parts = where.take(("accounts", 2)), where.take(("partitions", 4))
    whole = of is None and parts is None
    found = [
        a
        for a in accounts.associations.values()
        if a.user
        and a.user in names
        and (of is None or a.account in of)
        and (parts is None or a.partition in parts)
    ]
    _delete_check(call, found, words)
    if not whole:
        advice = (
            " You must change the default account of these users or "
            "remove the users completely from the affected clusters to allow these changes."
        )
        _keep_defaults(call, found, advice)
    _keep_jobs(call, found)
    left = {a.user for a in accounts.associations.values() if a.user and a not in found}
    gone = [n for n in names if n in accounts.users and n not in left]
    if whole:
        call.print(" Deleting users...")
        for name in gone:
            call.print(f"  {name}")
    else:
        call.print(" Deleting user associations...")
        for one in found:
            call.print(
                f"  C = {accounts.cluster:<10.10} A = {one.account:<10.10} U = {one.user:<9.9}"
                + (f" P = {one.partition}" if one.partition else "")
            )
        if gone:
            call.print(" Deleting users (No Associations)...")
            for name in gone:
                call.print(f"  {name}")
    if not answered(call, asked):
        return
    for one in found:
        remove_association(accounts, one)
    for name in gone:
        del accounts.users[name]
    done(call)


def delete_account(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = accounts_of(call), Conditions(words)
    names = names_of(words, ("accounts", 1), where)
    if "root" in names:
        call.say(" You are not allowed to remove the root account.\n Use remove cluster instead.")
        call.quit(1)
    names = [n for n in names if n in accounts.accounts]
    _delete_check(call, names, words)
    advice = (
        " Please either remove the accounts listed above from list and resubmit,\n"
        " or change these users' default accounts to remove the account(s)."
    )
    every = accounts.associations.values()
    _keep_defaults(call, [one for one in every if one.user and one.account in names], advice)
    _keep_jobs(call, [one for one in every if any(up.account in names for up in accounts.up(one))])
    call.print(" Deleting accounts...")
    for name in names:
        call.print(f"  {name}")
    if not answered(call, asked):
        return
    for name in names:
        _remove_account(accounts, name)
    done(call)


def _remove_account(accounts: Accounts, name: str) -> None:
    """The account, with every association below it; its users stay, be it without any."""
    at = accounts.by_key.get((name, "", ""))
    if at is not None:
        _remove_tree(accounts, accounts.associations[at])
    accounts.accounts.pop(name, None)


def _remove_tree(accounts: Accounts, one: Association) -> None:
    for child in list(one.children):
        _remove_tree(accounts, accounts.associations[child])
    remove_association(accounts, one)


def delete_qos(call: Call, asked: Asked, words: list[str]) -> None:
    accounts = accounts_of(call)
    names = [n for n in names_of(words, ("qos", 3), Conditions(words)) if n in accounts.qos]
    _delete_check(call, names, words)
    call.print(" Deleting QOS(s)...")
    for name in names:
        call.print(f"  {name}")
    if not answered(call, asked):
        return
    for name in names:
        del accounts.qos[name]
        for one in accounts.associations.values():
            one.qos = tuple(q for q in one.qos if q != name)
            one.default_qos = "" if one.default_qos == name else one.default_qos
    done(call)


def delete_cluster(call: Call, asked: Asked, words: list[str]) -> None:
    _delete_check(call, [], words)


def delete_coordinator(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = accounts_of(call), Conditions(words)
    names, of = where.take(("names", 1), ("users", 1)) or [], where.take(("accounts", 1))
    found = [
        a
        for a in accounts.accounts.values()
        if (of is None or a.name in of) and set(a.coordinators) & set(names)
    ]
    _delete_check(call, found, words)
    call.print(" Removing Coordinators with user name")
    for name in names:
        call.print(f"  {name}")
    if of is not None:
        call.print(" From Account(s)")
        for account in of:
            call.print(f"  {account}")
    call.print(" Removed Coordinators (sub accounts not listed)...")
    for one in found:
        for name in one.coordinators:
            if name in names:
                call.print(f"  U = {name:<9.9} A = {one.name:<10.10}")
    if answered(call, asked):
        for one in found:
            one.coordinators = tuple(c for c in one.coordinators if c not in names)
