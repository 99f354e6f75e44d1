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


@pytest.mark.parametrize("text", ["NodeName", "ClusterName=a =b", "Include gone.conf"])
def test_what_is_no_list_of_pairs_is_located(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"slurm\.conf:2"):
        read_configuration({"slurm.conf": "\n" + text})


def test_counts_are_written_as_scontrol_does() -> None:
    counts = parse_tres("gres/gpu=8,node=1,mem=10G,cpu=2,billing=2")
    assert tres.written(counts, ("gres/gpu",)) == "cpu=2,mem=10G,node=1,billing=2,gres/gpu=8"
    assert tres.written({"mem": 1500, "cpu": 0}) == "mem=1500M"
