"""`nvidia-smi` in a simulated container agrees with the pod's annotations and its node's labels."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.kubelets import nvidiasmi
from fairway.apiserver.kubelets.place import Place
from fairway.cluster.store import Store
from fairway.kube.timestamps import parse_rfc3339

NOW_US = parse_rfc3339("2026-01-05T01:00:00Z")


def place(
    gpus: int = 2, product: str = "NVIDIA-H100-80GB-HBM3", limits: dict[str, Any] | None = None, **says: str
) -> Place:
    store = Store()
    labels = {"nvidia.com/gpu.product": product}
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}})
    container = {"name": "c", "resources": {"limits": limits or {"nvidia.com/gpu": str(gpus)}}}
    annotations = {f"fairway.dev/{name.replace('_', '-')}": value for name, value in says.items()}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [container]},
        "status": {
            "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "2026-01-05T00:00:00Z"}}}]
        },
    }
    return Place(pod, "c", "n", store, NOW_US)


def run(at: Place, *arguments: str) -> nvidiasmi.Printed:
    found = nvidiasmi.shown(list(arguments), at)
    assert found is not None
    return found


BUSY = {"gpu_utilization": "0s:10%,30m:85%", "gpu_memory": "0s:10Gi,30m:40Gi", "gpu_index": "3-5"}


def test_what_the_annotations_say_is_what_is_asked() -> None:
    at = place(**BUSY)
    query = "--query-gpu=index,name,memory.used,memory.total,utilization.gpu,mig.mode.current"
    assert run(at, query, "--format=csv").text.splitlines() == [
        "index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%], mig.mode.current",
        "0, NVIDIA H100 80GB HBM3, 40960 MiB, 81559 MiB, 85 %, Disabled",
        "1, NVIDIA H100 80GB HBM3, 40960 MiB, 81559 MiB, 85 %, Disabled",
    ]
    earlier = at._replace(at_us=NOW_US - 40 * 60 * 1_000_000)
    bare = run(earlier, "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits")
    assert bare.text == "10240, 10\n" * 2
    table = run(at).text
    assert "40960MiB /  81559MiB" in table
    assert "85%      Default" in table
    assert {len(line) for line in table.splitlines()[1:] if line} == {91}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--query-gpu=colour", "--format=csv"], 'Field "colour" is not a valid field to query.'),
        (["--query-gpu=name"], '"--format=" switch is missing.'),
    ],
)
def test_a_question_it_does_not_know(arguments: list[str], words: str) -> None:
    said = run(place(), *arguments)
    assert said.code == 2
    assert said.text.startswith(words)


def test_the_list_names_each_gpu_of_the_node_once() -> None:
    first, other = run(place(), "-L").text, run(place(gpu_index="1-2"), "-L").text
    assert first.splitlines()[0].startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")
    assert first.splitlines()[1].split()[-1] == other.splitlines()[0].split()[-1], (
        "the second GPU of the node"
    )


def test_dmon_counts() -> None:
    lines = run(place(**BUSY), "dmon", "-c", "3").text.splitlines()
    assert len(lines) == 2 + 3 * 2
    assert lines[2].split()[:6] == ["0", "612", "63", "-", "85", "42"]


@pytest.mark.parametrize(
    ("product", "link"),
    [("NVIDIA-H100-80GB-HBM3", "NV18"), ("NVIDIA-A100-SXM4-80GB", "NV12"), ("NVIDIA-L4", "PHB")],
)
def test_the_topology_has_the_links_of_the_model(product: str, link: str) -> None:
    lines = run(place(product=product), "topo", "-m").text.splitlines()
    assert lines[1].split("\t")[:3] == ["GPU0", " X ", link]


def test_a_mig_device() -> None:
    at = place(product="NVIDIA-A100-SXM4-40GB", limits={"nvidia.com/mig-1g.5gb": 2})
    listed = run(at, "-L").text.splitlines()
    assert listed[0].startswith("GPU 0: NVIDIA A100 SXM4 40GB (UUID: GPU-")
    assert [line.split()[:4] for line in listed[1:]] == [["MIG", "1g.5gb", "Device", n] for n in ("0:", "1:")]
    table = run(at).text
    assert "MIG devices:" in table
    assert "Enabled" in table
    assert {len(line) for line in table.splitlines()[1:] if line} == {91}
    profiles = run(at, "mig", "-lgip").text
    assert "|   0  MIG 1g.5gb          19     5/7        4.75       No     14     0     0   |" in profiles
    assert {len(line) for line in profiles.splitlines()} == {81}
    assert (
        run(at, "mig", "-lgipp").text.splitlines()[0] == "GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1"
    )
    made = run(at, "mig", "-lgi").text.splitlines()
    assert made[5] == "|   0  MIG 1g.5gb            19       11          4:1     |"
    assert {len(line) for line in made} == {59}
    assert run(at, "mig", "-cgi", "9").text == "Insufficient Permissions\n"
    assert run(at, "--query-gpu=mig.mode.current", "--format=csv,noheader").text == "Enabled\n"


CUT = "0=3g.40gb@4,2g.20gb@0,1g.10gb@2,1g.10gb@3"


def node_place(**pod: Any) -> Place:
    """On a node with two H100s, the first cut."""
    store = Store()
    notes = {"fairway.dev/gpus": "2 NVIDIA-H100-80GB-HBM3", "fairway.dev/gpu-layout": CUT}
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": notes}})
    spec = {"nodeName": "n", "containers": [{"name": "c"}]}
    body = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d", **pod}, "spec": spec}
    return Place({"apiVersion": "v1", **body}, "c", "n", store, NOW_US)


def test_a_pod_sees_the_instances_it_was_given_and_no_others() -> None:
    at = node_place(annotations={"fairway.dev/gpu-instances": "0/1g.10gb@3"})
    listed = run(at, "-L").text.splitlines()
    assert len(listed) == 2 and listed[1].split()[:4] == ["MIG", "1g.10gb", "Device", "0:"]
    other = run(node_place(annotations={"fairway.dev/gpu-instances": "0/1g.10gb@2"}), "-L").text.splitlines()
    assert other[0] == listed[0] and other[1] != listed[1]
    assert "|   0  MIG 1g.10gb         19     0/7" in run(at, "mig", "-lgip").text


def test_the_operators_pods_see_every_card_and_instance() -> None:
    owner = [{"kind": "DaemonSet", "name": "nvidia-driver-daemonset"}]
    at = node_place(labels={"app": "nvidia-driver-daemonset"}, ownerReferences=owner)
    listed = run(at, "-L").text.splitlines()
    want = ["0:", "2g.20gb", "1g.10gb", "1g.10gb", "3g.40gb", "1:"]
    assert [line.split()[1] for line in listed] == want
    made = run(at, "mig", "-lgi").text
    assert "|   0  MIG 2g.20gb           14        3          0:2     |" in made
    assert "|   0  MIG 3g.40gb            9        1          4:4     |" in made
    only = run(at, "-i", "1", "-L").text.splitlines()
    assert len(only) == 1 and only[0].startswith("GPU 1:")
    assert run(at, "--id=7", "-L") == nvidiasmi.Printed("No devices were found\n", 6)


def test_a_debugger_of_the_node_sees_its_cards() -> None:
    at = node_place()
    at.pod["metadata"]["name"] = "node-debugger-n-x7x2p"
    at.pod["spec"]["hostPID"] = True
    assert run(at, "-L").text.count("GPU ") == 2


def test_without_mig_there_is_nothing_to_list() -> None:
    assert run(place(), "mig", "-lgip") == nvidiasmi.Printed("No MIG-enabled devices found.\n", 6)


def test_without_a_gpu_there_is_no_nvidia_smi() -> None:
    assert nvidiasmi.shown([], place(limits={"cpu": 1})) is None
