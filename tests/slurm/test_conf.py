"""slurm.conf and gres.conf as Slurm reads them."""

from __future__ import annotations

import pytest

from fairway.errors import InvalidInput
from fairway.slurm.conf import read_configuration
from fairway.slurm.model import tres
from fairway.slurm.words.sizes import parse_tres

CONF = """
ClusterName=c  # a comment
GresTypes=gpu,shard
SchedulerParameters=bf_interval=2,nonsense=1
AccountingStorageEnforce=safe
AccountingStorageTRES=gres/gpu,gres/gpu:h100
NodeName=DEFAULT CPUs=32 SocketsPerBoard=2 \\
  CoresPerSocket=16 RealMemory=256000
NodeName=n[1-2] Gres=gpu:h100:8 Feature=h100,ib Port=[7001-7002] Colour=red
NodeName=n3 Weight=5 Gres=gpu:h100:2,gpu:a100:2,fpga:1
NodeSet=fast Feature=ib
PartitionName=p Nodes=fast,n3 Default=YES MaxTime=1-0 OverSubscribe=FORCE:2 TRESBillingWeights="CPU=1,Mem=0.5G"
PartitionName=q Nodes=n[3-4] MaxTime=soon
"""
GRES = """
NodeName=n[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-15
NodeName=n[1-2] Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=16-31
"""


def test_nodes_are_numbered_by_name_whatever_their_order_in_the_file() -> None:
    text = "ClusterName=c\nNodeName=gpu[9-10]\nNodeName=a2\nPartitionName=p Nodes=gpu[9-10],a2\n"
    conf = read_configuration({"slurm.conf": text})
    assert [node.name for node in conf.nodes] == ["a2", "gpu9", "gpu10"]
    assert conf.partitions[0].nodes == (0, 1, 2)


def test_a_site_is_read_and_what_is_wrong_is_named() -> None:
    conf = read_configuration({"slurm.conf": CONF, "gres.conf": GRES})
    assert [node.name for node in conf.nodes] == ["n1", "n2", "n3"]
    first, _, third = conf.nodes
    assert (first.cpus, first.cores, first.port, first.features) == (32, 32, 7001, ("h100", "ib"))
    assert first.gres[0].count == 8 and first.gres[0].files[7] == "/dev/nvidia7"
    assert first.gres[0].cores[0] == 0xFFFF and first.gres[0].cores[7] == 0xFFFF0000
    assert third.gres[0].types == ("h100", "h100", "a100", "a100") and third.gres[0].mask("a100") == 0b1100
    p, q = conf.partitions
    assert (p.nodes, p.max_time, p.oversubscribe, p.max_share) == ((0, 1, 2), 1440, "FORCE", 2)
    assert p.tres_billing_weights == {"cpu": 1.0, "mem": 0.5 / 1024}
    assert q.nodes == (2,)
    assert conf.parameter("bf_interval", 30) == 2 and conf.enforce == {"safe", "limits", "associations"}
    assert conf.tracked == ("gres/gpu", "gres/gpu:h100")
    assert sorted((p.line, p.path) for p in conf.problems) == [
        (4, "SchedulerParameters"), (9, "colour"), (10, "Gres"), (13, "maxtime"), (13, "nodes"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NodeName", "should be Key=Value"),
        ("ClusterName=a =b", "should be Key=Value"),
        ("ClusterName=a\0b", "has a control character"),
        ("KillWait=x", "is no number"),
        ("KillWait=²", "is no number"),
        ("PriorityWeightAge=" + "9" * 5_000, "is no number"),
        ("SchedulerParameters=bf_interval=abc,defer", "is no number"),
        ("NodeName=n[1-99999999]", "cannot be read: Invalid hostlist: n[1-99999999]"),
        ("NodeName=n7 CPUs=four", "cannot be read: cpus=four is no number up to 65535"),
        ("NodeSet=a Nodes=n[1-99999999]", "cannot be read: Invalid hostlist: n[1-99999999]"),
        ("PartitionName=q Nodes=ALL PriorityTier=²", "is no number"),
    ],
)
def test_what_cannot_be_read_is_located_and_the_rest_is_read(text: str, said: str) -> None:
    conf = read_configuration({"slurm.conf": f"\n{text}\nNodeName=n1 CPUs=4\nPartitionName=p Nodes=ALL\n"})
    assert [(p.file, p.line, p.expected) for p in conf.problems] == [("slurm.conf", 2, said)]
    assert conf.nodes[0].cpus == 4 and "p" in [part.name for part in conf.partitions]


def test_includes_that_cannot_be_followed_are_told() -> None:
    with pytest.raises(InvalidInput, match=r"slurm\.conf:2.*no file gone\.conf"):
        read_configuration({"slurm.conf": "\nInclude gone.conf"})
    with pytest.raises(InvalidInput, match="nests over 64 deep"):
        read_configuration({"slurm.conf": "Include slurm.conf"})


def test_companions_that_cannot_be_read_are_located() -> None:
    conf = read_configuration(
        {
            "slurm.conf": "NodeName=n1 CPUs=4\nPartitionName=p Nodes=ALL\n",
            "topology.conf": "SwitchName=s Nodes=n[1-99999999]\nfoo\n",
            "gres.conf": "Name=gpu Count=²\n",
        }
    )
    assert sorted((p.file, p.line) for p in conf.problems) == [
        ("gres.conf", 1), ("topology.conf", 1), ("topology.conf", 2),
    ]  # fmt: skip


def test_counts_are_written_as_scontrol_does() -> None:
    counts = parse_tres("gres/gpu=8,node=1,mem=10G,cpu=2,billing=2")
    assert tres.written(counts, ("gres/gpu",)) == "cpu=2,mem=10G,node=1,billing=2,gres/gpu=8"
    assert tres.written({"mem": 1500, "cpu": 0}) == "mem=1500M"
