"""The way over in figures: both sides play the same jobs, and the plan says no more than its replays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fairway.answers.onslurm.migrating import components, migrate
from fairway.answers.onslurm.otherside import played_on_kubernetes
from fairway.answers.onslurm.texts import migration_rows, phase_rows
from fairway.cli.main import main
from fairway.cli.output import table
from fairway.slurm.conf import read_configuration
from fairway.slurm.converting.sites import convert_site
from fairway.slurm.converting.slinky import bridge_nodes, operator_objects
from fairway.slurm.records.sacct import read_sacct
from fairway.slurm.sitefolder import read_site

SITE = Path(__file__).parents[2] / "examples" / "19-leaving-slurm" / "site"
# Fields of the CRDs of slurm-operator 1.3.0-rc1 (config/crd/bases).
CONTROLLER = frozenset(
    ("accountingRef", "clusterName", "configFileRefs", "epilogScriptRefs", "epilogSlurmctldScriptRefs", "external",
     "externalConfig", "extraConf", "ha", "inplaceReconfigure", "jwksKeyRef", "jwtHs256KeyRef", "jwtKeyRef", "logfile",
     "metrics", "persistence", "prologScriptRefs", "prologSlurmctldScriptRefs", "reconfigure", "service", "slurmKeyRef",
     "slurmctld", "template")
)  # fmt: skip
NODE_SET = frozenset(
    ("controllerRef", "extraConf", "logfile", "minReadySeconds", "ordinalPadding", "oversubscribeNode", "partition",
     "persistentVolumeClaimRetentionPolicy", "pinToNode", "pruneSlurmNodeRecords", "replicas", "revisionHistoryLimit",
     "scalingMode", "slurmd", "ssh", "template", "updateStrategy", "volumeClaimTemplates",
     "workloadDisruptionProtection")
)  # fmt: skip


def two_days() -> list:  # type: ignore[type-arg]
    records = read_sacct(SITE / "sacct.csv")
    return [r for r in records if r.submit < records[0].submit + 2 * 86_400]


def test_both_sides_run_every_job_as_long() -> None:
    site, records = read_site(SITE), two_days()
    found = migrate(site, records, bridge=False)
    was, slurm, kueue = found.sides
    assert not found.notes
    assert was.told.jobs == slurm.told.jobs == kueue.told.jobs == len(records)
    # The accounting was made by the same engine: its replay says the same.
    assert abs(slurm.told.all.wait_mean_s - was.told.all.wait_mean_s) <= 60
    for side in found.sides:
        assert side.told.all.gpu_hours == pytest.approx(was.told.all.gpu_hours, rel=0.01)
        assert 0 <= side.idle_micros <= side.micros
        assert {g.name for g in side.told.accounts} == {"vision", "nlp", "ops"}
    assert [set(phase.partitions) for phase in found.phases] == [{"cpu", "dev"}, {"train"}]
    assert sum(phase.jobs for phase in found.phases) == len(records)
    assert sum(phase.nodes for phase in found.phases) == len(site.conf.nodes)
    last = found.phases[-1]
    assert last.mean_wait_s == kueue.told.all.wait_mean_s
    for rows in (migration_rows(found), phase_rows(found)):
        assert all(len(line) <= 100 for line in table(*rows))


def test_jobs_stay_in_their_partition_on_kubernetes() -> None:
    """With nothing but the nodes of one partition moved, only its jobs run."""
    site, records = read_site(SITE), two_days()
    train = frozenset(f"h0{n}" for n in range(1, 5))
    stays, left_out = played_on_kubernetes(site, records, train)
    there = {r.label for r in records if r.partition == "train"}
    assert {stay.label for stay in stays} == there
    assert left_out == [f"{len(records) - len(there)} jobs never start on Kubernetes"]


def test_a_job_that_no_node_could_hold_is_told_and_holds_no_quota() -> None:
    """Kueue admits by sums over nodes: its pods would wait for ever, and its quota with them."""
    site, records = read_site(SITE), two_days()[:60]
    at = next(at for at, r in enumerate(records) if r.partition == "train")
    tres = records[at].tres
    large = replace(records[at], label="huge", tres=tres | {"mem": 1 << 40, "cpu": tres["cpu"] * 100})
    stays, left_out = played_on_kubernetes(site, [*records, large])
    plain, _ = played_on_kubernetes(site, records)
    assert [(s.label, s.start, s.end) for s in stays] == [(s.label, s.start, s.end) for s in plain]
    assert len(left_out) == 1
    assert left_out[0].startswith("job huge: asks for more than a node of its partition has: cpu ")
    assert "memory " in left_out[0] and "nvidia.com/gpu" not in left_out[0]


def test_no_more_gpus_are_held_than_there_are() -> None:
    site, records = read_site(SITE), two_days()
    stays, _ = played_on_kubernetes(site, records)
    edges = sorted([(s.start, s.gpus) for s in stays] + [(s.end, -s.gpus) for s in stays])
    held = most = 0
    for _, change in edges:
        held += change
        most = max(most, held)
    assert 0 < most <= 48 and held == 0


def test_partitions_that_share_nodes_or_jobs_move_together() -> None:
    site, records = read_site(SITE), two_days()
    assert components(site, records) == [("cpu", "dev"), ("train",)]
    both = replace(records[0], partition="train,cpu")
    assert components(site, [*records, both]) == [("cpu", "dev", "train")]


def test_slinkys_objects_have_the_fields_of_their_crds() -> None:
    site = read_site(SITE)
    made = convert_site(site, site.controller(0, enforce=False).cluster)
    objects, notes = operator_objects(site, made.kinds)
    assert any(note.line == 14 and note.kind == "lost" for note in notes)
    (controller,) = [obj for obj in objects if obj["kind"] == "Controller"]
    sets = [obj for obj in objects if obj["kind"] == "NodeSet"]
    assert set(controller["spec"]) <= CONTROLLER
    assert sum(obj["spec"]["replicas"] for obj in sets) == len(site.conf.nodes)
    for obj in sets:
        assert set(obj["spec"]) <= NODE_SET
        assert obj["spec"]["controllerRef"]["name"] == controller["metadata"]["name"]
    # What is left of slurm.conf is still one that Slurm's parser reads, with all partitions.
    again = read_configuration({"slurm.conf": controller["spec"]["extraConf"]})
    assert {part.name for part in again.partitions} == {"train", "dev", "cpu"}
    assert len(bridge_nodes(made.kinds)) == len(site.conf.nodes)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "sacct.csv"
    lines = (SITE / "sacct.csv").read_text().splitlines()
    trace.write_text("\n".join(lines[:60]) + "\n")
    slinky = tmp_path / "slinky.yaml"
    words = ["slurm", "migrate", "--trace", str(trace), "--conf", str(SITE), "--slinky", str(slinky)]
    assert main([*words, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [side["name"] for side in told["sides"]] == ["accounting", "Slurm", "Kueue", "slurm-bridge"]
    assert "kind: NodeSet" in slinky.read_text()
    trace.write_text("JobID|Submit\n")
    assert main(words) == 2
    assert f"{trace}:1" in capsys.readouterr().err
