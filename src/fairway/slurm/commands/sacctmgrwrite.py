"""sacctmgr add, modify and delete. What is refused changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.slurm.commands import accountlimits as limits_of
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.sacctmgr import Asked, Conditions, answered, forbid, privileged
from fairway.slurm.commands.sacctmgrshow import newest_first
from fairway.slurm.model.association import (
    FAIRSHARE_PARENT,
    Account,
    Accounts,
    Association,
    Limits,
    Qos,
    User,
    add_association,
    add_qos,
    remove_association,
)
from fairway.slurm.words import durations

_ADMIN = {"none": "None", "notset": "None", "operator": "Operator", "administrator": "Administrator"}


def _accounts_of(call: Call) -> Accounts:
    return call.site.cluster.accounts


def _done(call: Call) -> None:
    call.site.controller.accounts_changed()


def _unknown(call: Call, key: str, sign: str, value: str) -> None:
    call.say(f" Unknown option: {key}{sign}{value}")
    call.say(" Use keyword 'where' to modify condition")
    call.quit(1)


def _bad_qos(call: Call, name: str) -> None:
    names = ",".join(_accounts_of(call).qos)
    call.error(f"You gave a bad qos '{name}'. Valid QOS's are {names}")


class _Settings:
    """What is set on associations: shares, limits, QOS, parent. Read before anything changes."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.limits: list[tuple[limits_of.Limit, str]] = []
        self.values: dict[str, Any] = {}
        self.qos: list[tuple[str, list[str]]] = []

    def read(self, key: str, sign: str, value: str) -> bool:
        """One `key=value`; False for a key of something else. What cannot be read ends the command."""
        call = self.call
        limit = limits_of.find(limits_of.ASSOCIATION, key)
        if limit is not None:
            try:
                limits_of.change(call.site, Limits(), limit, value)
            except limits_of.BadLimit as bad:
                if str(bad).startswith(" "):
                    call.say(str(bad))
                else:
                    call.error(str(bad))
                call.quit(1)
            self.limits.append((limit, value))
        elif _is(key, "fairshare", 1) or _is(key, "shares", 1):
            shares = (
                FAIRSHARE_PARENT
                if value.lower() == "parent"
                else 1
                if value == "-1"
                else int(value)
                if value.isdigit()
                else None
            )
            if shares is None:
                call.say(f" Bad fairshare value: {value}")
                call.quit(1)
            self.values["shares"] = shares
        elif _is(key, "priority", 3):
            self.values["priority"] = int(value) if value.isdigit() else 0
        elif _is(key, "parent", 1):
            self.values["parent"] = value.lower()
        elif _is(key, "defaultqos", 8):
            if value not in ("", "-1"):
                self._check_qos([value], key, sign)
            self.values["default_qos"] = "" if value == "-1" else value
        elif _is(key, "qoslevel", 1):
            words = [w.strip().lstrip("+-") for w in value.split(",") if w.strip()]
            self._check_qos(words, key, sign)
            self.qos.append((sign, words))
        else:
            return False
        return True

    def _check_qos(self, words: list[str], key: str, sign: str) -> None:
        for word in words:
            if word not in _accounts_of(self.call).qos:
                _bad_qos(self.call, word)
                _unknown(self.call, key, sign, ",".join(words))

    def apply(self, one: Association) -> None:
        for limit, value in self.limits:
            limits_of.change(self.call.site, one.limits, limit, value)
        if "shares" in self.values:
            one.shares = self.values["shares"]
        if "priority" in self.values:
            one.priority = self.values["priority"]
        if "default_qos" in self.values:
            one.default_qos = self.values["default_qos"]
        for sign, words in self.qos:
            own = one.qos or _accounts_of(self.call).allowed_qos(one)
            one.qos = limits_of.changed_words(own, sign, words)

    def tell(self, heading: str, always: bool) -> None:
        """The settings, as `add` repeats them."""
        lines = []
        if "shares" in self.values:
            lines.append(("Fairshare", limits_of.shares_text(self.values["shares"])))
        own = Limits()
        for limit, value in self.limits:
            limits_of.change(self.call.site, own, limit, value)
        for limit in limits_of.ASSOCIATION:
            text = limits_of.text_of(own, limit) if limit.printed else ""
            if text:
                lines.append((limit.printed, text))
        if "parent" in self.values:
            lines.append(("Parent", self.values["parent"]))
        if self.qos:
            lines.append(("QOS", ",".join(self.qos[-1][1])))
        if "default_qos" in self.values:
            lines.append(("DefQOS", self.values["default_qos"]))
        if lines or always:
            self.call.print(f" {heading}")
        for label, text in lines:
            self.call.print(f"  {label:<13} = {text}")


def _is(key: str, name: str, least: int) -> bool:
    return len(key) >= least and name.startswith(key.lower())


def _names(words: list[str], key: tuple[str, int], where: Conditions) -> list[str]:
    found = where.take(("names", 1), key)
    if found is None:
        found = [
            n for w in words if "=" not in w and w.lower() not in ("where", "set") for n in w.split(",") if n
        ]
    return [n.lower() for n in found]


def _add_account(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = _accounts_of(call), Conditions(words)
    names = _names(words, ("accounts", 1), where)
    settings, description, organization = _Settings(call), "", ""
    for key, sign, value in where.pairs:
        if _is(key, "names", 1) or _is(key, "accounts", 1) or _is(key, "clusters", 1):
            continue
        if _is(key, "description", 1):
            description = value
        elif _is(key, "organization", 1):
            organization = value
        elif not settings.read(key, sign, value):
            _unknown(call, key, sign, value)
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
        call.print(" Problem adding accounts: Access/permission denied")
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
    settings.tell("Settings", False)
    if call.code or not answered(call, asked):
        return
    for name in new:
        organized = organization or (parent if parent != "root" else name)
        accounts.accounts[name] = Account(name, description or name, organized)
        settings.apply(add_association(accounts, name, parent=parent))
    _done(call)


def _add_user(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = _accounts_of(call), Conditions(words)
    names = list(_names(words, ("users", 1), where))
    settings, into, partitions, admin, default = _Settings(call), [], [""], "", ""
    for key, sign, value in where.pairs:
        if _is(key, "names", 1) or _is(key, "users", 1) or _is(key, "clusters", 1):
            continue
        if _is(key, "accounts", 2):
            into = [a.lower() for a in value.split(",") if a]
        elif _is(key, "adminlevel", 2):
            admin = next((v for k, v in _ADMIN.items() if k.startswith(value.lower())), "")
        elif _is(key, "defaultaccount", 8):
            default = value.lower()
        elif _is(key, "partitions", 4):
            partitions = [p for p in value.split(",") if p]
        elif not settings.read(key, sign, value):
            _unknown(call, key, sign, value)
    if default and not into:
        into = [default]
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
    if not privileged(call):
        call.print(" Problem adding users: Access/permission denied")
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
    settings.tell("Non Default Settings", True)
    if call.code or not answered(call, asked):
        return
    for name in new:
        uid = call.site.uid(name)
        accounts.users[name] = User(name, default or into[0], admin or "None", uid if uid is not None else 0)
    for user, account, partition in wanted:
        settings.apply(add_association(accounts, account, user, parent=account, partition=partition))
    _done(call)


class _QosSettings:
    """What is set on a QOS."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.changes: list[tuple[str, str, str]] = []

    def read(self, key: str, sign: str, value: str) -> bool:
        call = self.call
        if _is(key, "flags", 2):
            known = {f.lower(): f for f in limits_of.QOS_FLAGS}
            for flag in value.split(","):
                if flag and flag != "-1" and not any(k.startswith(flag.lower()) for k in known):
                    call.say(f" Unknown QOS flag used in:\n  '{value}'")
                    call.say(f" Valid QOS flags are\n  '{','.join(limits_of.QOS_FLAGS)}'")
                    call.quit(1)
        elif _is(key, "preempt", 3) and not _is(key, "preemptmode", 8):
            for name in filter(None, value.split(",")):
                if name not in _accounts_of(call).qos:
                    _bad_qos(call, name)
                    call.quit(1)
        elif not (
            _is(key, "description", 1)
            or _is(key, "priority", 3)
            or _is(key, "gracetime", 3)
            or _is(key, "preemptmode", 8)
            or _is(key, "preemptexempttime", 8)
            or _is(key, "usagefactor", 6)
            or _is(key, "usagethreshold", 6)
            or _is(key, "limitfactor", 6)
        ):
            limit = limits_of.find(limits_of.QOS, key)
            if limit is None:
                return False
            try:
                limits_of.change(call.site, Limits(), limit, value)
            except limits_of.BadLimit as bad:
                if str(bad).startswith(" "):
                    call.say(str(bad))
                else:
                    call.error(str(bad))
                call.quit(1)
        self.changes.append((key, sign, value))
        return True

    def apply(self, one: Qos) -> None:
        for key, sign, value in self.changes:
            if _is(key, "description", 1):
                one.description = value.lower()
            elif _is(key, "flags", 2):
                flags = [
                    f
                    for w in value.split(",")
                    for f in limits_of.QOS_FLAGS
                    if w and f.lower().startswith(w.lower())
                ]
                one.flags = () if value == "-1" else limits_of.changed_words(one.flags, sign, flags)
            elif _is(key, "priority", 3):
                one.priority = max(_int(value), 0)
            elif _is(key, "gracetime", 3):
                one.grace_s = (
                    max(_int(value), 0) if value.lstrip("-").isdigit() else durations.seconds(value) or 0
                )
            elif _is(key, "preemptmode", 8):
                one.preempt_mode = value.lower()
            elif _is(key, "preemptexempttime", 8):
                one.preempt_exempt_s = None if value == "-1" else durations.seconds(value)
            elif _is(key, "preempt", 3):
                one.preempt = limits_of.changed_words(one.preempt, sign, [w for w in value.split(",") if w])
            elif _is(key, "usagefactor", 6):
                one.usage_factor = 1.0 if value == "-1" else float(value)
            elif _is(key, "usagethreshold", 6):
                one.usage_threshold = None if value == "-1" else float(value)
            elif _is(key, "limitfactor", 6):
                one.limit_factor = None if value == "-1" else float(value)
            else:
                limit = limits_of.find(limits_of.QOS, key)
                assert limit is not None
                limits_of.change(self.call.site, one.limits, limit, value)

    def tell(self, name: str) -> None:
        call, one = self.call, Qos(name, 0)
        self.apply(one)
        description = next((v for k, _, v in self.changes if _is(k, "description", 1)), name)
        call.print(f"  Description    = {description}")
        if one.flags:
            call.print(f"  {'Flags':<24} = {','.join(one.flags)}")
        if one.grace_s:
            call.print(f"  GraceTime      = {one.grace_s}")
        for limit in limits_of.QOS:
            text = limits_of.text_of(one.limits, limit) if limit.printed else ""
            if text:
                wide = 14 if limit.kind == "count" else 24
                call.print(f"  {limit.printed:<{wide}} = {text}")
        if one.preempt:
            call.print(f"  {'Preempt':<24} = {limits_of.preempt_text(one)}")
        if any(_is(k, "priority", 3) for k, _, _ in self.changes):
            call.print(f"  {'Priority':<24} = {one.priority}")


def _int(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0


def _add_qos(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = _accounts_of(call), Conditions(words)
    names = _names(words, ("qos", 3), where)
    settings = _QosSettings(call)
    for key, sign, value in where.pairs:
        if not _is(key, "names", 1) and not settings.read(key, sign, value):
            _unknown(call, key, sign, value)
    if not names:
        call.say(" Need name of qos to add.")
        call.quit(1)
    new = [n for n in names if n not in accounts.qos]
    if not new:
        call.print(" Nothing new added.")
        call.quit(1)
    if not privileged(call):
        call.print(" Problem adding QOS: Access/permission denied")
        call.code = 1
    call.print(" Adding QOS(s)")
    for name in new:
        call.print(f"  {name}")
    call.print(" Settings")
    settings.tell(new[0])
    if call.code or not answered(call, asked):
        return
    for name in new:
        made = add_qos(accounts, name)
        made.description = name
        settings.apply(made)
    _done(call)


def _add_cluster(call: Call, asked: Asked, words: list[str]) -> None:
    """The cluster of these accounts is there from the beginning; another one is only told."""
    names = _names(words, ("clusters", 1), Conditions(words))
    new = [n for n in names if n != _accounts_of(call).cluster]
    if not new:
        for name in names:
            call.print(f" This cluster {name} already exists.  Not adding.")
        call.quit(1)
    call.print(" Adding Cluster(s)")
    for name in new:
        call.print(f"  {'Name':<14} = {name}")


def _add_coordinator(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = _accounts_of(call), Conditions(words)
    names, into = where.take(("names", 1), ("users", 1)) or [], where.take(("accounts", 1)) or []
    if not privileged(call):
        forbid(call)
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
    where, settings, own = Conditions(where_words), _Settings(call), {}
    names = _names(where_words, (f"{kind}s", 1), where)
    for key, sign, value in Conditions(change).pairs:
        if kind == "account" and (_is(key, "description", 1) or _is(key, "organization", 1)):
            own["description" if _is(key, "description", 1) else "organization"] = value
        elif kind == "user" and _is(key, "adminlevel", 2):
            own["admin_level"] = next((v for k, v in _ADMIN.items() if k.startswith(value.lower())), "None")
        elif kind == "user" and _is(key, "defaultaccount", 8):
            own["default_account"] = value.lower()
        elif not settings.read(key, sign, value):
            _unknown(call, key, sign, value)
    if not own and not settings.limits and not settings.values and not settings.qos:
        _nothing_set(call)
    accounts = _accounts_of(call)
    things: dict[str, Any] = dict(accounts.users if kind == "user" else accounts.accounts)
    mine = [things[n] for n in names if n in things] if own else []
    found = chosen(where, names)
    if not mine and not (found if own == {} or settings.limits or settings.values or settings.qos else []):
        call.print(" Nothing modified")
        call.quit(1)
    if not privileged(call):
        forbid(call)
    changes_associations = bool(settings.limits or settings.values or settings.qos)
    if mine:
        call.print(f" Modified {kind}s...")
        for one in mine:
            call.print(f"  {one.name}")
    told = newest_first(call, _touched(call, found, settings)) if changes_associations else []
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
            _move(accounts, association, settings.values["parent"])
    _done(call)


def _touched(call: Call, found: list[Association], settings: _Settings) -> list[Association]:
    """What is told: QOS reach the users below, too."""
    if not settings.qos:
        return found
    below = [
        a for a in _accounts_of(call).associations.values() if a.user and any(a.parent == f.id for f in found)
    ]
    return [*found, *(a for a in below if a not in found)]


def _told(accounts: Accounts, one: Association) -> str:
    if one.user:
        return f"  C = {accounts.cluster:<10.10} A = {one.account:<20.20} U = {one.user:<9}".rstrip("\n")
    above = accounts.associations[one.parent].account if one.parent is not None else ""
    return f"  C = {accounts.cluster:<10.10} A = {one.account} of {above}"


def _move(accounts: Accounts, one: Association, parent: str) -> None:
    above = accounts.by_key.get((parent, "", ""))
    if above is None or one.parent is None or above in (one.id, one.parent):
        return
    accounts.associations[one.parent].children.remove(one.id)
    accounts.associations[above].children.append(one.id)
    one.parent = above


def _modify_account(call: Call, asked: Asked, words: list[str]) -> None:
    def chosen(where: Conditions, names: list[str]) -> list[Association]:
        return [a for a in _accounts_of(call).associations.values() if not a.user and a.account in names]

    _modify_associations(call, asked, words, chosen, "account")


def _modify_user(call: Call, asked: Asked, words: list[str]) -> None:
    def chosen(where: Conditions, names: list[str]) -> list[Association]:
        accounts, partitions = where.take(("accounts", 2)), where.take(("partitions", 1))
        return [
            a
            for a in _accounts_of(call).associations.values()
            if a.user
            and a.user in names
            and (accounts is None or a.account in accounts)
            and (partitions is None or a.partition in partitions)
        ]

    _modify_associations(call, asked, words, chosen, "user")


def _modify_qos(call: Call, asked: Asked, words: list[str]) -> None:
    where_words, change = _split(words)
    names = _names(where_words, ("qos", 3), Conditions(where_words))
    settings = _QosSettings(call)
    for key, sign, value in Conditions(change).pairs:
        if not settings.read(key, sign, value):
            _unknown(call, key, sign, value)
    if not settings.changes:
        _nothing_set(call)
    found = [q for n, q in _accounts_of(call).qos.items() if n in names]
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
        _done(call)


def _delete_check(call: Call, found: list[Any], words: list[str]) -> None:
    if not words:
        call.say(" No conditions given to remove, not executing.")
        call.quit(1)
    if not found:
        call.print(" Nothing deleted")
        call.quit(1)
    if not privileged(call):
        forbid(call)


def _delete_user(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = _accounts_of(call), Conditions(words)
    names = _names(words, ("users", 1), where)
    of = where.take(("accounts", 2))
    found = [
        a
        for a in accounts.associations.values()
        if a.user and a.user in names and (of is None or a.account in of)
    ]
    _delete_check(call, found, words)
    left = {a.user for a in accounts.associations.values() if a.user and a not in found}
    gone = [n for n in names if n in accounts.users and n not in left]
    if of is None:
        call.print(" Deleting users...")
        for name in gone:
            call.print(f"  {name}")
    else:
        call.print(" Deleting user associations...")
        for one in found:
            call.print(f"  C = {accounts.cluster:<10.10} A = {one.account:<10.10} U = {one.user:<9.9}")
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
    _done(call)


def _delete_account(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = _accounts_of(call), Conditions(words)
    names = [n for n in _names(words, ("accounts", 1), where) if n in accounts.accounts and n != "root"]
    _delete_check(call, names, words)
    call.print(" Deleting accounts...")
    for name in names:
        call.print(f"  {name}")
    if not answered(call, asked):
        return
    for name in names:
        _remove_account(accounts, name)
    _done(call)


def _remove_account(accounts: Accounts, name: str) -> None:
    """The account with everything below it in the tree; users without another association go, too."""
    at = accounts.by_key.get((name, "", ""))
    if at is None:
        return
    for child in list(accounts.associations[at].children):
        one = accounts.associations[child]
        if one.user:
            remove_association(accounts, one)
            if not any(a.user == one.user for a in accounts.associations.values()):
                accounts.users.pop(one.user, None)
        else:
            _move(accounts, one, "root") if one.account in accounts.accounts else None
    remove_association(accounts, accounts.associations[at])
    accounts.accounts.pop(name, None)


def _delete_qos(call: Call, asked: Asked, words: list[str]) -> None:
    accounts = _accounts_of(call)
    names = [n for n in _names(words, ("qos", 3), Conditions(words)) if n in accounts.qos]
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
    _done(call)


def _delete_cluster(call: Call, asked: Asked, words: list[str]) -> None:
    _delete_check(call, [], words)


def _delete_coordinator(call: Call, asked: Asked, words: list[str]) -> None:
    accounts, where = _accounts_of(call), Conditions(words)
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
    if answered(call, asked):
        for one in found:
            one.coordinators = tuple(c for c in one.coordinators if c not in names)


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
        "accounts": _delete_account,
        "users": _delete_user,
        "qos": _delete_qos,
        "clusters": _delete_cluster,
        "coordinators": _delete_coordinator,
    },
}
