"""What `sacctmgr add` and `modify` are told to set, on associations and on QOS: read before anything changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairway.slurm.commands import accountlimits as limits_of
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.sacctmgr import Conditions
from fairway.slurm.model.association import (
    FAIRSHARE_PARENT,
    Accounts,
    Association,
    Limits,
    Qos,
)
from fairway.slurm.words import durations
from fairway.slurm.words.sizes import whole


def accounts_of(call: Call) -> Accounts:
    return call.site.cluster.accounts


def unknown(
    call: Call,
    key: str,
    sign: str,
    value: str,
    tell: Callable[[str], None] | None = None,
    *,
    hint: bool = True,
) -> None:
    tell = tell or call.say
    tell(f" Unknown option: {key}{sign}{value}")
    if hint:
        tell(" Use keyword 'where' to modify condition")
    call.quit(1)


def _bad_limit(call: Call, bad: limits_of.BadLimit, key: str, sign: str, value: str) -> None:
    if str(bad).startswith(" "):
        call.say(f"{bad} {key}{sign}{value}")
    else:
        call.error(str(bad))


def bad_qos(call: Call, name: str) -> None:
    names = ",".join(accounts_of(call).qos)
    call.error(f"You gave a bad qos '{name}'. Valid QOS's are {names}")


class Settings:
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
                _bad_limit(call, bad, key, sign, value)
                return False
            self.limits.append((limit, value))
        elif is_key(key, "fairshare", 1) or is_key(key, "shares", 1):
            return self._read_count("shares", "FairShare", value)
        elif is_key(key, "priority", 2):
            return self._read_count("priority", "Priority", value)
        elif is_key(key, "parent", 2):
            self.values["parent"] = value.lower()
        elif is_key(key, "defaultqos", 8):
            if value not in ("", "-1"):
                self._check_qos([value], key, sign)
            self.values["default_qos"] = "" if value == "-1" else value
        elif is_key(key, "qoslevel", 1):
            words = [w.strip().lstrip("+-") for w in value.split(",") if w.strip()]
            self._check_qos(words, key, sign)
            self.qos.append((sign, words))
        else:
            return False
        return True

    def _read_count(self, name: str, told: str, value: str) -> bool:
        if name == "shares" and value.lower().startswith("parent"):
            self.values[name] = FAIRSHARE_PARENT
            return True
        try:
            number = limits_of.count(value, told)
        except limits_of.BadLimit as bad:
            self.call.error(str(bad))
            return False
        self.values[name] = number if number is not None else 1 if name == "shares" else 0
        return True

    def _check_qos(self, words: list[str], key: str, sign: str) -> None:
        for word in words:
            if word not in accounts_of(self.call).qos:
                bad_qos(self.call, word)
                unknown(self.call, key, sign, ",".join(words))

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
            allowed = accounts_of(self.call).allowed_qos(one)
            own = limits_of.changed_words(one.qos or allowed, sign, words)
            if one.qos and not own:  # nothing of its own is left: what is above holds again, without these
                one.qos = ()
                own = limits_of.changed_words(accounts_of(self.call).allowed_qos(one), sign, words)
            one.qos = own

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


def is_key(key: str, name: str, least: int) -> bool:
    return len(key) >= least and name.startswith(key.lower())


_MODES = ("off", "cluster", "cancel", "requeue", "suspend", "gang", "within", "suspend,gang", "gang,suspend")
_FACTORS = ("UsageFactor", "UsageThreshold", "LimitFactor")


def names_of(words: list[str], key: tuple[str, int], where: Conditions) -> list[str]:
    found = where.take(("names", 1), key)
    if found is None:
        found = [
            n for w in words if "=" not in w and w.lower() not in ("where", "set") for n in w.split(",") if n
        ]
    return [n.lower() for n in found]


class QosSettings:
    """What is set on a QOS."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.changes: list[tuple[str, str, str]] = []

    def read(self, key: str, sign: str, value: str) -> bool:
        call = self.call
        if is_key(key, "flags", 2):
            known = {f.lower(): f for f in limits_of.QOS_FLAGS}
            for flag in value.split(","):
                if flag and flag != "-1" and not any(k.startswith(flag.lower()) for k in known):
                    call.print(f" Unknown QOS flag used in:\n  '{value}'")
                    call.print(f" Valid QOS flags are\n  '{','.join(limits_of.QOS_FLAGS)}'")
                    call.quit(1)
        elif is_key(key, "preempt", 3) and not is_key(key, "preemptmode", 8):
            for name in filter(None, value.split(",")):
                if name not in accounts_of(call).qos:
                    bad_qos(call, name)
                    call.quit(1)
        elif any(is_key(key, name.lower(), 6) and not _is_float(value) for name in _FACTORS):
            name = next(one for one in _FACTORS if is_key(key, one.lower(), 6))
            call.say(f"Invalid value for {name} ({value})")
            return True
        elif is_key(key, "preemptmode", 8) and value.lower() not in _MODES:
            call.say(f" Bad Preempt Mode given: {key}{sign}{value}")
            call.quit(1)
        elif is_key(key, "priority", 3):
            try:
                limits_of.count(value, "Priority")
            except limits_of.BadLimit as bad:
                call.error(str(bad))
                return True
        elif not (
            is_key(key, "description", 1)
            or is_key(key, "priority", 3)
            or is_key(key, "gracetime", 3)
            or is_key(key, "preemptmode", 8)
            or is_key(key, "preemptexempttime", 8)
            or is_key(key, "usagefactor", 6)
            or is_key(key, "usagethreshold", 6)
            or is_key(key, "limitfactor", 6)
        ):
            limit = limits_of.find(limits_of.QOS, key)
            if limit is None:
                return False
            try:
                limits_of.change(call.site, Limits(), limit, value)
            except limits_of.BadLimit as bad:
                _bad_limit(call, bad, key, sign, value)
                if limit.kind == "count":  # one that is no number is told and left out
                    return True
                call.quit(1)
        self.changes.append((key, sign, value))
        return True

    def apply(self, one: Qos) -> None:
        for key, sign, value in self.changes:
            if is_key(key, "description", 1):
                one.description = value.lower()
            elif is_key(key, "flags", 2):
                flags = [
                    f
                    for w in value.split(",")
                    for f in limits_of.QOS_FLAGS
                    if w and f.lower().startswith(w.lower())
                ]
                one.flags = () if value == "-1" else limits_of.changed_words(one.flags, sign, flags)
            elif is_key(key, "priority", 3):
                one.priority = max(whole_number(value), 0)
            elif is_key(key, "gracetime", 3):
                one.grace_s = (
                    max(whole_number(value), 0)
                    if value.lstrip("-").isdecimal()
                    else durations.seconds(value) or 0
                )
            elif is_key(key, "preemptmode", 8):
                one.preempt_mode = value.lower()
            elif is_key(key, "preemptexempttime", 8):
                one.preempt_exempt_s = None if value == "-1" else durations.seconds(value)
            elif is_key(key, "preempt", 3):
                one.preempt = limits_of.changed_words(one.preempt, sign, [w for w in value.split(",") if w])
            elif is_key(key, "usagefactor", 6):
                one.usage_factor = 1.0 if value == "-1" else float(value)
            elif is_key(key, "usagethreshold", 6):
                one.usage_threshold = None if value == "-1" else float(value)
            elif is_key(key, "limitfactor", 6):
                one.limit_factor = None if value == "-1" else float(value)
            else:
                limit = limits_of.find(limits_of.QOS, key)
                assert limit is not None
                limits_of.change(self.call.site, one.limits, limit, value)

    def tell(self, name: str) -> None:
        call, one = self.call, Qos(name, 0)
        self.apply(one)
        description = next((v.lower() for k, _, v in self.changes if is_key(k, "description", 1)), name)
        call.print(f"  Description    = {description}")
        if one.flags:
            call.print(f"  {'Flags':<24} = {','.join(f for f in limits_of.QOS_FLAGS if f in one.flags)}")
        if one.grace_s:
            call.print(f"  {'GraceTime':<24} = {one.grace_s}")
        for limit in limits_of.QOS:
            text = limits_of.text_of(one.limits, limit) if limit.printed else ""
            if text:
                wide = 14 if limit.printed == "MaxJobsPerUser" else 24  # as Slurm has it
                call.print(f"  {limit.printed:<{wide}} = {text}")
        if one.preempt:
            call.print(f"  {'Preempt':<24} = {limits_of.preempt_text(one)}")
        if any(is_key(k, "preemptmode", 8) for k, _, _ in self.changes):
            call.print(f"  {'PreemptMode':<24} = {one.preempt_mode.upper()}")
        if one.preempt_exempt_s is not None:
            call.print(f"  {'PreemptExemptTime':<24} = {durations.clock(one.preempt_exempt_s)}")
        if any(is_key(k, "priority", 3) for k, _, _ in self.changes):
            call.print(f"  {'Priority':<24} = {one.priority}")
        factors = (one.usage_factor, one.usage_threshold, one.limit_factor)
        for word, factor in zip(_FACTORS, factors, strict=True):
            if any(is_key(k, word.lower(), 6) for k, _, _ in self.changes) and factor is not None:
                call.print(f"  {word:<24} = {factor:.4f}")


def whole_number(text: str) -> int:
    return whole(text) if text.removeprefix("-").isdecimal() else 0


def _is_float(text: str) -> bool:
    try:
        return float(text) is not None
    except ValueError:
        return False


def done(call: Call) -> None:
    call.site.controller.accounts_changed()


def move(accounts: Accounts, one: Association, parent: str) -> None:
    above = accounts.by_key.get((parent, "", ""))
    if above is None or one.parent is None or above in (one.id, one.parent):
        return
    accounts.associations[one.parent].children.remove(one.id)
    accounts.associations[above].children.append(one.id)
    accounts.next_run += 1
    one.parent, one.run = above, accounts.next_run
