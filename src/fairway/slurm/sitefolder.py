"""A site's folder: slurm.conf and its companions, accounts from `sacctmgr dump`, QOS from `sacctmgr show qos`.

The accounts' file is told by its first words (`Cluster - '…'`), that of QOS by its header (`Name|Priority|…`, as
`sacctmgr -P show qos` prints it), whatever they are called. Without them there are no accounts, and nobody is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from fairway.errors import FieldProblem, InvalidInput
from fairway.slurm.administration import Slurmctld
from fairway.slurm.commands.accountdump import DumpProblem, read_dump
from fairway.slurm.commands.call import Call
from fairway.slurm.commands.site import Site
from fairway.slurm.conf import Configuration, check_usable, read_configuration
from fairway.slurm.lifecycle import Behaviour
from fairway.slurm.model.association import Accounts, Qos, add_association, add_qos, empty_accounts
from fairway.slurm.model.job import Job
from fairway.slurm.words import durations
from fairway.slurm.words.sizes import parse_tres, whole

MAX_BYTES = 64 << 20
SLURM_CONF = "slurm.conf"
SECRETS = "slurmdbd.conf"
"""Has the database's password and nothing of a cluster: it is not read."""


@dataclass(slots=True)
class SiteFolder:
    """`files`: file name → text of all that was read; `accounts_file`, `qos_file`: which ones, '' for none."""

    place: str
    conf: Configuration
    accounts: Accounts
    files: dict[str, str] = field(default_factory=dict)
    accounts_file: str = ""
    qos_file: str = ""

    def controller(self, now_us: int, *, enforce: bool = True) -> Slurmctld:
        """A slurmctld with all nodes idle. `enforce` False: nobody needs an account."""
        conf = self.conf
        if not enforce or not self.accounts_file:
            conf = replace(conf, settings=dict(conf.settings), read={})
            conf.set("AccountingStorageEnforce", "")
        return Slurmctld(conf, self.accounts, _over_at_limit, now_us)


def _over_at_limit(job: Job, now: int) -> Behaviour:
    return Behaviour(None)


def is_site(folder: Path) -> bool:
    return folder.is_dir() and (folder / SLURM_CONF).is_file()


def read_site(folder: Path, now_us: int = 0) -> SiteFolder:
    """Raises: InvalidInput with file and line."""
    path = folder / SLURM_CONF if folder.is_dir() else folder
    if not path.is_file():
        raise InvalidInput((FieldProblem(str(folder), 0, "", "", f"expected a {SLURM_CONF} here"),))
    texts: dict[str, str] = {}
    others: dict[str, str] = {}
    for file in sorted(path.parent.iterdir()):
        if (
            file.suffix not in (".conf", ".cfg", ".txt", ".dump")
            or file.name == SECRETS
            or not file.is_file()
        ):
            continue
        if file.stat().st_size > MAX_BYTES:
            raise InvalidInput((FieldProblem(str(file), 0, "", "", f"is over {MAX_BYTES} bytes"),))
        try:
            (texts if file.suffix == ".conf" else others)[file.name] = file.read_text("utf-8")
        except UnicodeDecodeError as wrong:
            raise InvalidInput((FieldProblem(str(file), 0, "", "", f"is no UTF-8 text: {wrong}"),)) from None
    if path.name != SLURM_CONF:
        texts[SLURM_CONF] = texts.pop(path.name, path.read_text("utf-8"))
    conf = read_configuration(texts)
    check_usable(conf)
    found = SiteFolder(str(path.parent), conf, empty_accounts(conf.get("ClusterName", "cluster")), texts)
    for name, text in others.items():
        if _is_qos(text):
            found.qos_file, found.files[name] = name, text
            _read_qos(found, name, text)
    for name, text in others.items():
        if _is_dump(text):
            found.accounts_file, found.files[name] = name, text
            _read_accounts(found, name, text, now_us)
    return found


def _is_dump(text: str) -> bool:
    return any(line.startswith("Cluster - ") for line in text.splitlines()[:40])


def _is_qos(text: str) -> bool:
    return text.startswith("Name|Priority|")


def _read_accounts(site: SiteFolder, name: str, text: str, now_us: int) -> None:
    controller = Slurmctld(site.conf, site.accounts, _over_at_limit, now_us)
    call = Call(Site(controller), "sacctmgr", [], {}, "root", "/")
    try:
        read_dump(call, text)
    except DumpProblem as wrong:
        said = str(wrong)
        line = int(said.split()[1].rstrip(":")) if said.startswith("line ") else 0
        raise InvalidInput((FieldProblem(f"{site.place}/{name}", line, "", "", said),)) from None


def add_user(accounts: Accounts, account: str, user: str) -> None:
    """An account and a user of it, unless they are there."""
    from fairway.slurm.model.association import Account, User

    if (account, "", "") not in accounts.by_key:
        accounts.accounts.setdefault(account, Account(account, account, account))
        add_association(accounts, account, parent="root").qos = tuple(accounts.qos)
    accounts.users.setdefault(user, User(user, account))
    if (account, user, "") not in accounts.by_key:
        add_association(accounts, account, user, parent=account)


def _read_qos(site: SiteFolder, name: str, text: str) -> None:
    lines = text.splitlines()
    header = lines[0].split("|")
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        row = dict(zip(header, line.split("|"), strict=False))
        if not row.get("Priority", "").isdecimal():
            problem = FieldProblem(
                f"{site.place}/{name}", number, "Priority", row.get("Priority", ""), "expected a number"
            )
            raise InvalidInput((problem,))
        word = row["Name"].strip().lower()
        qos = site.accounts.qos.get(word) or add_qos(site.accounts, word)
        _set_qos(qos, row)


def _set_qos(qos: Qos, row: dict[str, str]) -> None:
    qos.priority = whole(row["Priority"])
    qos.flags = tuple(flag for flag in row.get("Flags", "").split(",") if flag)
    qos.preempt = tuple(one for one in row.get("Preempt", "").split(",") if one)
    qos.preempt_mode = (row.get("PreemptMode") or "cluster").lower()
    limits = qos.limits
    limits.max_wall = durations.minutes(row.get("MaxWall", "")) or None
    for column, key in (("MaxTRES", "max_tres_per_job"), ("MaxTRESPU", "max_tres_per_user"), ("GrpTRES", "grp_tres"),
                        ("MaxTRESPA", "max_tres_per_account")):  # fmt: skip
        if row.get(column):
            setattr(limits, key, parse_tres(row[column]))
    for column, key in (("MaxJobsPU", "max_jobs"), ("MaxSubmitPU", "max_submit"), ("GrpJobs", "grp_jobs")):
        if row.get(column, "").isdecimal():
            setattr(limits, key, whole(row[column]))
