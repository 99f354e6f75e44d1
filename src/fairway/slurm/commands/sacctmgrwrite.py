"""sacctmgr add and modify; who does what of the writing commands. What is refused changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.slurm.commands.call import Call
from fairway.slurm.commands.sacctmgr import Asked, Conditions, answered, forbid, privileged
from fairway.slurm.commands.sacctmgrdelete import (
    delete_account,
    delete_cluster,
    delete_coordinator,
    delete_qos,
    delete_user,
)
from fairway.slurm.commands.sacctmgrsettings import (
    QosSettings,
    Settings,
    accounts_of,
    done,
    is_key,
    move,
    names_of,
    unknown,
)
from fairway.slurm.model.association import (
    Account,
    Accounts,
    Association,
    User,
    add_association,
    add_qos,
)

_ADMIN = {"none": "None", "notset": "None", "operator": "Operator", "administrator": "Administrator"}


_NOT_AFFECTED = (
    "sacctmgr: accounting_storage/slurmdbd: acct_storage_p_modify_users: Request didn't affect anything or your user "
    "doesn't have privilege to perform this action"
)


def _add_account(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = accounts_of(call), Conditions(words)
    names = names_of(words, ("accounts", 1), where)
    settings, description, organization = Settings(call), "", ""
    for key, sign, value in where.pairs:
        if is_key(key, "names", 1) or is_key(key, "accounts", 1) or is_key(key, "clusters", 1):
            continue
        if is_key(key, "description", 1):
            description = value
        elif is_key(key, "organization", 1):
            organization = value
        elif not settings.read(key, sign, value):
            unknown(call, key, sign, value)
    if not names:
        call.say(" Need name of account to add.")
        call.quit(1)
    parent = settings.values.get("parent", "root")
    new = [n for n in names if n not in accounts.accounts]
    if not new:
        call.print(" Nothing new added.")
        call.quit(1)
    if parent not in accounts.accounts:
        call.say(f" Parent account '{parent}' doesn't exist on cluster {accounts.cluster}")
        call.say("        Contact your admin to add this account.")
        call.say(" No associations created.")
        call.quit(1)
    if not privileged(call):
        call.say(" Problem adding accounts: Access/permission denied")
        call.code = 1
    call.print(" Adding Account(s)")
    for name in new:
        call.print(f"  {name}")
    call.print(" Settings")
    call.print(f"  Description     = {description or 'Account Name'}")
    call.print(f"  Organization    = {organization or 'Parent/Account Name'}")
    call.print(" Associations")
    for name in new:
        call.print(f"  A = {name:<10.10} C = {accounts.cluster:<10.10}")
    if settings.values or settings.limits or settings.qos:
        settings.values["parent"] = parent
    settings.tell("Settings", False)
    if call.code or not answered(call, asked):
        return
    made = None
    for name in new:
        organized = organization or (parent if parent != "root" else name)
        accounts.accounts[name] = Account(name, description or name, organized)
        made = add_association(accounts, name, parent=parent, after=made)
        settings.apply(made)
    done(call)


def _add_user(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = accounts_of(call), Conditions(words)
    names = list(names_of(words, ("users", 1), where))
    settings, into, partitions, admin, default = Settings(call), [], [""], "", ""
    for key, sign, value in where.pairs:
        if is_key(key, "names", 1) or is_key(key, "users", 1) or is_key(key, "clusters", 1):
            continue
        if is_key(key, "accounts", 2):
            into = [a.lower() for a in value.split(",") if a]
        elif is_key(key, "adminlevel", 2):
            admin = next((v for k, v in _ADMIN.items() if k.startswith(value.lower())), "")
        elif is_key(key, "defaultaccount", 8):
            default = value.lower()
        elif is_key(key, "partitions", 4):
            partitions = [p for p in value.split(",") if p]
        elif not settings.read(key, sign, value):
            unknown(call, key, sign, value, hint=False)
    if default:  # it is put at the end of the list, also where it stood there
        into = [*(account for account in into if account != default), default]
    if not names:
        call.say(" Need name of user to add.")
        call.quit(1)
    if not into:
        call.say(" Need name of account to add user to.")
        call.quit(1)
    missing = [a for a in into if a not in accounts.accounts]
    for account in missing:
        call.say(f" This account '{account}' doesn't exist.")
        call.say("        Contact your admin to add this account.")
    wanted = [
        (user, account, partition)
        for user in names
        for account in into
        if account not in missing
        for partition in partitions
        if (account, user, partition) not in accounts.by_key
    ]
    if not wanted:
        call.print(" Nothing new added.")
        call.quit(1)
    new = [n for n in names if n not in accounts.users]
    if not (privileged(call) or coordinates(accounts, call.user, [account for _, account, _ in wanted])):
        call.say(" Problem adding users: Access/permission denied")
        call.code = 1
    if new:
        call.print(" Adding User(s)")
        for name in new:
            call.print(f"  {name}")
        if default or admin:
            call.print(" Settings =")
        if default:
            call.print(f"  Default Account = {default}")
        if admin:
            call.print(f"  Admin Level     = {admin}")
    call.print(" Associations =")
    for user, account, partition in wanted:
        text = f"  U = {user:<9.9} A = {account:<10.10} C = {accounts.cluster:<10.10}"
        call.print(text + (f" P = {partition:<10.10}" if partition else ""))
    own = (("names", 1), ("users", 1), ("adminlevel", 2), ("defaultaccount", 8))
    settings.tell("Non Default Settings", not all(any(is_key(k, *o) for o in own) for k, _, _ in where.pairs))
    if call.code or not answered(call, asked):
        return
    for name in new:
        uid = call.site.uid(name)
        accounts.users[name] = User(name, default or into[0], admin or "None", uid if uid is not None else 0)
    made = None
    for user, account, partition in wanted:
        made = add_association(accounts, account, user, parent=account, partition=partition, after=made)
        settings.apply(made)
    done(call)


def coordinates(accounts: Accounts, user: str, names: list[str]) -> bool:
    """Is the user a coordinator of all of these accounts, or of one above each?"""

    def is_one(name: str) -> bool:
        above = accounts.up(accounts.associations[accounts.by_key[(name, "", "")]])
        return any(
            user in accounts.accounts[one.account].coordinators
            for one in above
            if one.account in accounts.accounts
        )

    return all(is_one(name) for name in names)


def _add_qos(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = accounts_of(call), Conditions(words)
    names = names_of(words, ("qos", 3), where)
    settings = QosSettings(call)
    for key, sign, value in where.pairs:
        if not is_key(key, "names", 1) and not settings.read(key, sign, value):
            unknown(call, key, sign, value, call.print)
    if not names:
        call.say(" Need name of qos to add.")
        call.quit(1)
    new = [n for n in names if n not in accounts.qos]
    if not new:
        call.print(" Nothing new added.")
        call.quit(1)
    if not privileged(call):
        call.say(" Problem adding QOS: Access/permission denied")
        call.code = 1
    call.print(" Adding QOS(s)")
    for name in new:
        call.print(f"  {name}")
    call.print(" Settings")
    settings.tell(new[-1])
    if call.code or not answered(call, asked):
        return
    for name in new:
        made = add_qos(accounts, name)
        made.description = name
        settings.apply(made)
    done(call)


def _add_cluster(call: Call, asked: Asked, words: list[str]) -> None:
    """The cluster of these accounts is there from the beginning; another one is only told."""
    names = names_of(words, ("clusters", 1), Conditions(words))
    new = [n for n in names if n != accounts_of(call).cluster]
    if not new:
        for name in names:
            call.print(f" This cluster {name} already exists.  Not adding.")
        call.quit(1)
    call.print(" Adding Cluster(s)")
    for name in new:
        call.print(f"  {'Name':<14} = {name}")


def _add_coordinator(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = accounts_of(call), Conditions(words)
    names, into = where.take(("names", 1), ("users", 1)) or [], where.take(("accounts", 1)) or []
    if not names and not into:
        call.say(" You need to specify conditions to to add the coordinator.")
        call.quit(1)
    if not privileged(call):
        forbid(call)
    for article, given in (("a user", names), ("an account", into)):
        if not given:
            call.say(f" You need to specify {article} list here.")
            call.quit(1)
    wrong = [f"account '{name}'" for name in into if name not in accounts.accounts]
    wrong += [f"user '{name}'" for name in names if name not in accounts.users]
    for one in wrong:
        call.say(f" You specified a non-existent {one}.")
    if wrong:
        call.quit(1)
    call.print(" Adding Coordinator User(s)")
    for name in names:
        call.print(f"  {name}")
    call.print(" To Account(s) and all sub-accounts")
    for account in into:
        call.print(f"  {account}")
    if answered(call, asked):
        for account in into:
            held = accounts.accounts[account]
            held.coordinators = tuple(dict.fromkeys([*held.coordinators, *names]))


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words of `where` and of `set`."""
    where: list[str] = []
    change: list[str] = []
    into = where
    for word in words:
        if word.lower() == "set":
            into = change
        elif word.lower() == "where":
            into = where
        else:
            into.append(word)
    return where, change


def _nothing_set(call: Call) -> None:
    call.say(" You didn't give me anything to set")
    call.quit(1)


def _modify_associations(
    call: Call,
    asked: Asked,
    words: list[str],
    chosen: Callable[[Conditions, list[str]], list[Association]],
    kind: str,
) -> None:
    where_words, change = _split(words)
    where, settings, own = Conditions(where_words), Settings(call), {}
    names = names_of(where_words, (f"{kind}s", 1), where)
    for key, sign, value in Conditions(change).pairs:
        if kind == "account" and (is_key(key, "description", 1) or is_key(key, "organization", 1)):
            own["description" if is_key(key, "description", 1) else "organization"] = value
        elif kind == "user" and is_key(key, "adminlevel", 2):
            own["admin_level"] = next((v for k, v in _ADMIN.items() if k.startswith(value.lower())), "")
        elif kind == "user" and is_key(key, "defaultaccount", 8):
            own["default_account"] = value.lower()
        elif not settings.read(key, sign, value):
            unknown(call, key, sign, value)
    if not own and not settings.limits and not settings.values and not settings.qos:
        _nothing_set(call)
    accounts = accounts_of(call)
    things: dict[str, Any] = dict(accounts.users if kind == "user" else accounts.accounts)
    mine = [things[n] for n in names if n in things] if own else []
    found = chosen(where, names)
    if not mine and not (found if own == {} or settings.limits or settings.values or settings.qos else []):
        call.print(" Nothing modified")
        call.quit(1)
    if not privileged(call):
        forbid(call)
    if "admin_level" in own and not own["admin_level"]:
        call.say(_NOT_AFFECTED)
        call.print(" Nothing modified")
        call.quit(1)
    if settings.values.get("parent", "root") not in accounts.accounts:
        call.say(f" Parent Account {settings.values['parent']} doesn't exist.")
        call.quit(1)
    changes_associations = bool(settings.limits or settings.values or settings.qos)
    _check_default(call, mine, own.get("default_account", ""))
    if mine:
        call.print(f" Modified {kind}s...")
        for one in mine:
            call.print(f"  {one.name}")
    told = _touched(call, found, settings) if changes_associations else []
    _check_default_qos(call, told, str(settings.values.get("default_qos", "")), settings)
    if told:
        call.print(f" Modified {kind} associations...")
        for association in told:
            call.print(_told(accounts, association))
    if not answered(call, asked):
        return
    for one in mine:
        for name, value in own.items():
            setattr(one, name, value)
    for association in found if changes_associations else []:
        settings.apply(association)
        if "parent" in settings.values:
            move(accounts, association, settings.values["parent"])
    done(call)


def _check_default(call: Call, users: list[User], account: str) -> None:
    """A default account is one that the user is in (_check_default_assocs)."""
    accounts = accounts_of(call)
    without = [u.name for u in users if account and (account, u.name, "") not in accounts.by_key]
    if without:
        call.print(
            f" Can't modify because these users aren't associated with new default account '{account}'..."
        )
        for name in without:
            call.print(f"  U = {name} C = {accounts.cluster}")
        call.quit(1)


def _check_default_qos(call: Call, told: list[Association], qos: str, settings: Settings) -> None:
    """A default QOS is one that they may use (sacctmgr_check_default_qos); where it is not, nothing changes."""
    accounts = accounts_of(call)
    without = [one for one in told if qos and not settings.qos and qos not in accounts.allowed_qos(one)]
    if not without:
        return
    call.say(" These associations don't have access to their default qos.")
    call.say(" Please give them access before they the default can be set to this.")
    for one in without:
        call.say(f"  DefQOS = {qos:<10} {_told(accounts, one).lstrip()}")
    call.quit(0)


def _touched(call: Call, found: list[Association], settings: Settings) -> list[Association]:
    """What is told: QOS and limits of jobs reach the users below, too."""
    accounts, ids = accounts_of(call), {one.id for one in found}
    if settings.qos or any(limit.word.startswith("Max") for limit, _ in settings.limits):
        users = [a for a in accounts.associations.values() if a.user]
        ids |= {a.id for a in users if any(above.id in ids for above in accounts.up(a)[1:])}
    return [a for a in accounts.nested() if a.id in ids]


def _told(accounts: Accounts, one: Association) -> str:
    if one.user:
        told = f"  C = {accounts.cluster:<10.10} A = {one.account:<20.20} U = {one.user:<9}"
        return told + (f" P = {one.partition}" if one.partition else "")
    if one.parent is None:
        return f"  C = {accounts.cluster:<10.10} A = {one.account}"
    above = accounts.associations[one.parent].account
    return f"  C = {accounts.cluster:<10.10} A = {one.account} of {above}"


def _modify_account(call: Call, asked: Asked, words: list[str]) -> None:
    def chosen(where: Conditions, names: list[str]) -> list[Association]:
        every = not names and not where.pairs
        return [
            a for a in accounts_of(call).associations.values() if not a.user and (every or a.account in names)
        ]

    _modify_associations(call, asked, words, chosen, "account")


def _modify_user(call: Call, asked: Asked, words: list[str]) -> None:
    def chosen(where: Conditions, names: list[str]) -> list[Association]:
        accounts, partitions = where.take(("accounts", 2)), where.take(("partitions", 1))
        return [
            a
            for a in accounts_of(call).associations.values()
            if a.user
            and (a.user in names or (not names and accounts is not None))
            and (accounts is None or a.account in accounts)
            and (partitions is None or a.partition in partitions)
        ]

    _modify_associations(call, asked, words, chosen, "user")


def _modify_qos(call: Call, asked: Asked, words: list[str]) -> None:
    where_words, change = _split(words)
    names = names_of(where_words, ("qos", 3), Conditions(where_words))
    settings = QosSettings(call)
    for key, sign, value in Conditions(change).pairs:
        if not settings.read(key, sign, value):
            unknown(call, key, sign, value, call.print)
    if not settings.changes:
        _nothing_set(call)
    found = [q for n, q in accounts_of(call).qos.items() if n in names]
    if not found:
        call.print(" Nothing modified")
        call.quit(1)
    if not privileged(call):
        forbid(call)
    call.print(" Modified qos...")
    for one in found:
        call.print(f"  {one.name}")
    if answered(call, asked):
        for one in found:
            settings.apply(one)
        done(call)


Writer = Callable[[Call, Asked, list[str]], None]
WRITERS: dict[str, dict[str, Writer]] = {
    "add": {
        "accounts": _add_account,
        "users": _add_user,
        "qos": _add_qos,
        "clusters": _add_cluster,
        "coordinators": _add_coordinator,
    },
    "modify": {"accounts": _modify_account, "users": _modify_user, "qos": _modify_qos},
    "delete": {
        "accounts": delete_account,
        "users": delete_user,
        "qos": delete_qos,
        "clusters": delete_cluster,
        "coordinators": delete_coordinator,
    },
}
