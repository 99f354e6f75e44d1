"""A Slurm cluster asked itself: which commands are run, and what is made of what they print."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from slurmtyped import Typed

from fairway.answers.onslurm.explaining import explain_job
from fairway.cli.slurmanswers import slurm_on
from fairway.errors import UserError, WorldError
from fairway.ground import slurmlive
from fairway.slurm.serving.journal import head_of
from fairway.slurm.sitefolder import read_site

SCRIPT = "#!/bin/sh\n#FAIRWAY runtime=1h\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """A served cluster; the commands that are run are typed to it in this process."""
    (tmp_path / "c").mkdir()
    cluster = Typed(tmp_path / "c")
    ran: list[str] = []

    def printed(words: tuple[str, ...], environment: dict[str, str]) -> str:
        ran.append(" ".join(words[:3]))
        assert environment["TZ"] == "UTC"
        code, out, err = cluster.type(*words)
        if code:
            raise WorldError(err)
        return out

    monkeypatch.setattr(slurmlive, "_printed", printed)
    cluster.type("sbatch", "-w", "gpu01", "--gres=gpu:8", stdin=SCRIPT)
    cluster.run(5)
    cluster.type("sbatch", "-w", "gpu01", "--gres=gpu:8", stdin=SCRIPT)
    cluster.run(60)
    cluster.ran = ran  # type: ignore[attr-defined]
    return cluster


def test_a_served_cluster_is_asked_by_its_folder(site: Typed) -> None:
    ground = slurm_on(site.folder)
    assert ground is not None
    assert site.ran == [  # type: ignore[attr-defined]
        "sdiag",
        "sacct -aX -P",
        "scontrol show job",
        "scontrol show node",
        "sacctmgr -i dump",
        "sacctmgr -P show",
    ]
    moment = ground.at()
    assert (ground.name, moment.now, moment.notes) == (str(site.folder), site.server.host.site.now, ())
    assert {one.name for one in ground.site.accounts.accounts.values()} >= {"root", "research", "prod"}
    found = explain_job(moment, "2", changes=False)
    assert found.blocked and "0 of 4 nodes have that free (most: 0 on gpu01; 0 in all): 1 node short" in str(
        found.facts
    )
    site.end()


def test_the_cluster_of_this_machine_has_its_own_configuration(
    site: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none.conf"))
    with pytest.raises(UserError, match=r"none\.conf: no such file"):
        slurm_on(Path("slurm"))
    for name, text in head_of(site.folder)["texts"].items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    ground = slurm_on(Path("slurm"))
    assert ground is not None and [one.label for one in ground.current] == ["1", "2"]
    assert [one.wanted for one in ground.current] == ["gpu01", "gpu01"]
    site.end()


def test_a_cluster_without_jobs_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c").mkdir()
    cluster = Typed(tmp_path / "c")
    monkeypatch.setattr(slurmlive, "_printed", lambda words, environment: cluster.type(*words)[1])
    ground = slurm_on(cluster.folder)
    assert ground is not None
    moment = ground.at()
    assert (moment.now, list(moment.records), moment.notes) == (cluster.server.host.site.now, [], ())
    assert ground.end().records == moment.records
    cluster.end()


def test_nothing_that_lies_in_a_folder_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that somebody sent: its commands are not those that are run, nor is another user's socket asked."""
    (tmp_path / "c").mkdir()
    cluster = Typed(tmp_path / "c")
    cluster.type("sbatch", "-w", "gpu01", stdin=SCRIPT)
    for name in ("sdiag", "sacct", "scontrol", "sacctmgr"):
        there = cluster.folder / "bin" / name
        there.unlink(missing_ok=True)
        there.write_text(f"#!/bin/sh\ntouch {tmp_path / 'harm'}\n")
        there.chmod(0o755)
    seen: list[Path] = []

    def printed(words: tuple[str, ...], environment: dict[str, str]) -> str:
        found = shutil.which(words[0], path=environment["PATH"])
        assert found is not None and environment["FAIRWAY_SOCKET"] == str(cluster.folder / "bin" / "socket")
        seen.append(Path(found))
        return cluster.type(*words)[1]

    monkeypatch.setattr(slurmlive, "_printed", printed)
    assert slurm_on(cluster.folder) is not None
    assert {one.name for one in seen} == {"sdiag", "sacct", "scontrol", "sacctmgr"}
    assert not any(cluster.folder in one.parents for one in seen) and not (tmp_path / "harm").exists()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UserError, match="is another user's"):
        slurm_on(cluster.folder)
    cluster.end()


def test_secrets_and_what_cannot_be_read_stay_where_they_are(
    site: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in head_of(site.folder)["texts"].items():
        (tmp_path / name).write_text(text)
    (tmp_path / "slurmdbd.conf").write_bytes(b"StoragePass=secret\xff\n")
    (tmp_path / "folder.conf").mkdir()
    (tmp_path / "gone.conf").symlink_to(tmp_path / "nowhere")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    assert set(slurmlive._configured()) == set(head_of(site.folder)["texts"])
    assert "slurmdbd.conf" not in read_site(tmp_path).files
    site.end()


def test_other_folders_are_none(tmp_path: Path) -> None:
    assert slurm_on(tmp_path) is None and slurm_on(None) is None
    (tmp_path / "journal").write_text("x\n")
    assert slurm_on(tmp_path) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("no-such-command",),
            "no-such-command: No such file or directory; is this a machine of a Slurm cluster",
        ),
        (("sh", "-c", "echo why >&2; exit 3"), "exit code 3: why"),
    ],
)
def test_commands_that_do_not_answer_are_named(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(WorldError, match=said):
        slurmlive._printed(words, dict(os.environ))


def test_commands_print_no_more_than_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurmlive, "MAX_BYTES", 3)
    assert slurmlive._printed(("echo", "ab"), dict(os.environ)) == "ab\n"
    with pytest.raises(WorldError, match="printed 4 bytes, expected at most 3"):
        slurmlive._printed(("echo", "abc"), dict(os.environ))
