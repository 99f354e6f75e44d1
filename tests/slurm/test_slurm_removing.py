"""sacctmgr delete: default accounts and associations with jobs are kept, in Slurm's words; nothing goes by half."""

from __future__ import annotations

import pytest
from tests.slurm.slurmworld import World, world

from fairway.slurm.model.association import Account, add_association

DEFAULT = " Error with request: You can not remove the default account of a user\n"
ACTIVE = " Error with request: Job(s) active, cancel job(s) before remove\n"
ACCOUNTS = (
    " Please either remove the accounts listed above from list and resubmit,\n"
    " or change these users' default accounts to remove the account(s).\n Changes Discarded\n"
)
USERS = (
    " You must change the default account of these users or remove the users completely from the affected clusters"
    " to allow these changes.\n Changes Discarded\n"
)


def named() -> World:
    """alice and bob have accta as their default, carol acctb."""
    w = world()
    for name in ("accta", "acctb"):
        w.ctl.cluster.accounts.accounts[name] = Account(name, name, name)
    return w


def shared() -> World:
    """alice is in acctb, too."""
    w = named()
    add_association(w.ctl.cluster.accounts, "acctb", "alice", parent="acctb")
    return w


def told(account: str, user: str) -> str:
    return f"  C = {'c':<15} A = {account:<10} U = {user:<9}\n"


ROWS = (("accta", "alice"), ("accta", "bob"), ("acctb", "carol"))


def tree(w: World) -> list[tuple[str, str]]:
    return sorted((one.account, one.user) for one in w.ctl.cluster.accounts.associations.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("account acctb", DEFAULT + told("acctb", "carol") + ACCOUNTS),
        ("account accta,acctb", DEFAULT + "".join(told(*row) for row in ROWS) + ACCOUNTS),
        ("user alice account=accta,acctb", DEFAULT + told("accta", "alice") + USERS),
        ("user alice,bob account=accta,acctb", DEFAULT + told("accta", "alice") + told("accta", "bob") + USERS),
    ],
)  # fmt: skip
def test_a_default_account_behind_another_association_is_kept(words: str, said: str) -> None:
    w = shared()
    before = tree(w)
    assert w.type(f"sacctmgr -i delete {words}", "root") == (1, "", said)
    assert tree(w) == before


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("account accta", {("accta", ""), ("accta", "alice"), ("accta", "bob")}),
        ("user alice account=acctb", {("acctb", "alice")}),
        ("user alice account=accta", {("accta", "alice")}),
        ("user alice", {("accta", "alice"), ("acctb", "alice")}),
    ],
)
def test_what_may_go(words: str, gone: set[tuple[str, str]]) -> None:
    w = shared()
    before = tree(w)
    code, _, said = w.type(f"sacctmgr -i delete {words}", "root")
    assert (code, said) == (0, "")
    assert tree(w) == sorted(set(before) - gone)


@pytest.mark.parametrize("words", ["account accta", "user alice", "user alice account=accta"])
@pytest.mark.parametrize("held", [True, False])
def test_associations_with_jobs_are_kept(words: str, held: bool) -> None:
    w = named()
    w.submit(5, "alice", hold="user" if held else "")
    w.submit(5, "carol")
    w.run(2)
    job = f"  JobID = {1:<10} C = {'c':<10} A = {'accta':<10} U = {'alice':<9}\n"
    assert w.type(f"sacctmgr -i delete {words}", "root") == (1, "", ACTIVE + job)
    w.type("scancel 1")
    assert w.type(f"sacctmgr -i delete {words}", "root")[0] == 0


def test_jobs_below_an_account_keep_it() -> None:
    w = named()
    accounts = w.ctl.cluster.accounts
    add_association(accounts, "team", parent="accta")
    add_association(accounts, "team", "alice", parent="team")
    w.submit(50, "alice", account="team")
    assert w.type("sacctmgr -i delete account accta", "root")[2].startswith(ACTIVE)


def test_a_user_whose_account_goes_stays() -> None:
    w = named()
    accounts = w.ctl.cluster.accounts
    w.type("sacctmgr -i add account top", "root")
    w.type("sacctmgr -i add account sub parent=top", "root")
    w.type("sacctmgr -i add user zoe account=sub", "root")
    assert w.type("sacctmgr -i delete account top", "root")[0] == 0
    assert not [one for one in accounts.associations.values() if one.user == "zoe"]
    assert "zoe" in accounts.users
