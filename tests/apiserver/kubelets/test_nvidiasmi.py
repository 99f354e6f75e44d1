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
    assert "MIG 1g.5gb        19     5/7" in profiles
    assert {len(line) for line in profiles.splitlines()} == {79}
    assert run(at, "--query-gpu=mig.mode.current", "--format=csv,noheader").text == "Enabled\n"


def test_without_mig_there_is_nothing_to_list() -> None:
    assert run(place(), "mig", "-lgip") == nvidiasmi.Printed("No MIG-enabled devices found.\n", 6)


def test_without_a_gpu_there_is_no_nvidia_smi() -> None:
    assert nvidiasmi.shown([], place(limits={"cpu": 1})) is None
