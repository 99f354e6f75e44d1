"""A Slurm cluster as it is now: the site's own commands, run read-only, and its configuration.

`slurm` is the cluster whose commands are on PATH (slurm.conf: that of $SLURM_CONF, else /etc/slurm); the folder of
`fairway slurm up` is the one served from there. What the commands print is read as a dump of it would be.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fairway.errors import UserError, WorldError
from fairway.ground.opening import is_served_slurm
from fairway.ground.slurmground import SlurmGround
from fairway.slurm.records.sacct import ADVICE
from fairway.slurm.serving.host import install
from fairway.slurm.serving.journal import head_of
from fairway.slurm.sitefolder import MAX_BYTES, SECRETS, SLURM_CONF

_HISTORY_DAYS = 28
_TIMEOUT_S = 300.0
_SACCT = tuple(ADVICE.replace("2025-01-01", f"now-{_HISTORY_DAYS}days").split())
_JOBS, _NODES = ("scontrol", "show", "job"), ("scontrol", "show", "node")
_QOS = ("sacctmgr", "-P", "show", "qos")


def live_ground(path: Path) -> SlurmGround:
    """Raises: UserError, WorldError where a command is missing or does not answer."""
    served = is_served_slurm(path)
    texts = head_of(path)["texts"] if served else _configured()
    environment = dict(os.environ) | {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
    with TemporaryDirectory(prefix="fairway-slurm-") as name:
        folder = Path(name)
        if served:
            environment |= _asking(path, folder / "bin")
        for file, text in texts.items():
            (folder / Path(file).name).write_text(text, encoding="utf-8")
        stamp = re.search(r"\((\d{1,12})\)", _printed(("sdiag",), environment))
        for file, words in (("sacct.csv", _SACCT), ("jobs.txt", _JOBS), ("nodes.txt", _NODES)):
            said = _printed(words, environment)
            if words is not _SACCT or said.count("\n") > 1:
                (folder / file).write_text(said, encoding="utf-8")
        _accounts(folder, texts[SLURM_CONF], environment)
        return SlurmGround(folder, str(path), int(stamp[1]) if stamp else 0)


def _asking(path: Path, commands: Path) -> dict[str, str]:
    """Variables for asking the cluster served from a folder. Nothing that lies there is run: whoever made the folder
    could have put anything into it. Raises: UserError for a socket that is somebody else's.
    """
    where = path.absolute() / "bin" / "socket"
    if where.exists() and where.stat().st_uid != os.geteuid():
        raise UserError(f"{where}: is another user's; ask as the one who started the cluster")
    install(commands)
    paths = f"{commands}:{os.environ.get('PATH', os.defpath)}"
    return {"PATH": paths, "FAIRWAY_AS": "root", "FAIRWAY_SOCKET": str(where)}


def _configured() -> dict[str, str]:
    """The *.conf files of this machine. Raises: UserError."""
    conf = Path(os.environ.get("SLURM_CONF") or f"/etc/slurm/{SLURM_CONF}")
    if not conf.is_file():
        raise UserError(f"{conf}: no such file; SLURM_CONF names the site's {SLURM_CONF}")
    try:
        texts = {SLURM_CONF: conf.read_text("utf-8", "replace")}
    except OSError as failed:
        raise UserError(f"{conf}: {failed.strerror}") from None
    for file in sorted(conf.parent.glob("*.conf")):
        with contextlib.suppress(OSError):  # what its owner alone may read is not for the commands
            if file.name not in (SECRETS, SLURM_CONF) and file.is_file():
                texts[file.name] = file.read_text("utf-8", "replace")
    return texts


def _accounts(folder: Path, conf: str, environment: Mapping[str, str]) -> None:
    """Accounts and QOS, where there is a slurmdbd; else nobody is refused for them."""
    cluster = re.search(r"^\s*ClusterName=(\S+)", conf, re.IGNORECASE | re.MULTILINE)
    dump = ("sacctmgr", "-i", "dump", cluster[1] if cluster else "cluster", f"file={folder / 'accounts.cfg'}")
    try:
        _printed(dump, environment)
        (folder / "qos.txt").write_text(_printed(_QOS, environment), encoding="utf-8")
    except WorldError:
        (folder / "accounts.cfg").unlink(missing_ok=True)


def _printed(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a command prints. Raises: WorldError."""
    said = " ".join(words)
    try:
        ran = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as failed:
        raise WorldError(f"{words[0]}: {failed.strerror}; is this a machine of a Slurm cluster?") from None
    except subprocess.TimeoutExpired:
        raise WorldError(f"{said}: no answer after {_TIMEOUT_S:g} s") from None
    if ran.returncode:
        raise WorldError(
            f"{said}: exit code {ran.returncode}: {ran.stderr.decode('utf-8', 'replace')[:500].strip()}"
        )
    if len(ran.stdout) > MAX_BYTES:
        raise WorldError(f"{said}: printed {len(ran.stdout)} bytes, expected at most {MAX_BYTES}")
    return ran.stdout.decode("utf-8", "replace")
