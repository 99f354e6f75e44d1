"""Who holds which device of which node on the exporters' pages, by annotations or the lowest that are free."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fairway.cluster.store import Store
from fairway.kube.objects import Obj, key_of
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.twin.gpupages import GpuPages

H100, T4 = "NVIDIA-H100-80GB-HBM3", "Tesla-T4"
MIG = "nvidia.com/mig-1g.10gb"
Found = list[tuple[str, str, str, str, str]]


def node(name: str, gpus: str = "", layout: str = "") -> Obj:
    notes = {"fairway.dev/gpus": gpus, "fairway.dev/gpu-layout": layout}
    meta = {"name": name, "annotations": {k: v for k, v in notes.items() if v}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


def pod(name: str, on: str = "b", gpus: int = 1, phase: str = "Running", **more: Any) -> Obj:
    asks = {"resources": {"limits": {more.pop("resource", "nvidia.com/gpu"): str(gpus)}}} if gpus else {}
    containers = [
        {"name": "side", "image": "i"},
        {"name": "main", "image": "i", **asks},
        *more.pop("others", ()),
    ]
    notes = {f"fairway.dev/{k.replace('_', '-')}": v for k, v in more.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "annotations": notes},
        "spec": {"containers": containers, **({"nodeName": on} if on else {})},
        "status": {"phase": phase},
    }


def stored(*objects: Obj, after_s: int = 3600) -> Store:
    store = Store()
    for obj in (node("a"), node("b", f"3 {H100}"), node("c"), node("d", f"2 {T4}"), *objects):
        made = store.create({k: v for k, v in obj.items() if k != "status"})
        if "status" in obj:
            store.set_status(key_of(made), obj["status"])
    store.now_us += after_s * SECOND_US
    return store


def holders(store: Store, metric: str = "DCGM_FI_DEV_FB_USED") -> Found:
    """Node, GPU, instance's profile, pod and container of every series, in their order."""
    names = ("Hostname", "gpu", "GPU_I_PROFILE", "pod", "container")
    found = [dict(labels) for labels, _ in GpuPages(store).samples(metric)]
    return [tuple(d.get(n, "") for n in names) for d in found]  # type: ignore[misc]


def row(gpu: int, pod: str = "", container: str = "main", on: str = "b") -> tuple[str, str, str, str, str]:
    return on, str(gpu), "", pod, container if pod else ""


T4S = [row(0, on="d"), row(1, on="d")]
CASES: dict[str, tuple[list[Obj], Found]] = {
    "nobody": ([], [row(0), row(1), row(2), *T4S]),
    "the lowest that are free": ([pod("p", gpus=2), pod("q")], [row(0, "p"), row(1, "p"), row(2, "q"), *T4S]),
    "those that it names, before who names none": (
        [pod("p", gpus=1), pod("q", gpu_index="0")],
        [row(0, "q"), row(1, "p"), row(2), *T4S],
    ),
    "several that it names": (
        [pod("p", gpus=2, gpu_index=" 2, 0")],
        [row(0, "p"), row(1), row(2, "p"), *T4S],
    ),
    "one that is not there": ([pod("p", gpu_index="7")], [row(0, "p"), row(1), row(2), *T4S]),
    "words that name none": ([pod("p", gpu_index="x,-1")], [row(0, "p"), row(1), row(2), *T4S]),
    "two of one card": (
        [pod("p", gpu_index="1"), pod("q", gpu_index="1")],
        [row(0), row(1, "p"), row(1, "q"), row(2), *T4S],
    ),
    "more than there are": (
        [pod("p", gpus=2), pod("q", gpus=1), pod("r", gpus=1)],
        [row(0, "p"), row(0, "r"), row(1, "p"), row(2, "q"), *T4S],
    ),
    "who is over": (
        [pod("p", phase="Succeeded"), pod("q", phase="Failed"), pod("r", phase="Pending")],
        [row(0, "r"), row(1), row(2), *T4S],
    ),
    "who has no node, another, or one without GPUs": (
        [pod("p", on=""), pod("q", on="gone"), pod("r", on="a"), pod("s", on="d")],
        [row(0), row(1), row(2), row(0, "s", on="d"), row(1, on="d")],
    ),
    "who asks for none": ([pod("p", gpus=0), pod("q")], [row(0, "q"), row(1), row(2), *T4S]),
    "its first container that asks, and all that they ask": (
        [
            pod(
                "p",
                others=[{"name": "third", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            )
        ],
        [row(0, "p"), row(1, "p"), row(2), *T4S],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_holds_what(name: str) -> None:
    objects, want = CASES[name]
    assert holders(stored(*objects)) == want


CUT = node("e", f"2 {H100}", "1=1g.10gb@0,1g.10gb@1,3g.40gb@4")


@pytest.mark.parametrize(
    ("said", "who"),
    [
        ("1/1g.10gb@0", [0]),
        ("1/1g.10gb@1", [1]),
        ("1/1g.10gb@4", [0]),
        ("1/1g.10gb@7", [0]),
        ("1/1g.10gb", [0]),
        ("1/3g.40gb@4", [2]),
        ("1/3g.40gb@0", [2]),
        ("1/1g.10gb@1, 1/1g.10gb@0", [0, 1]),
        ("1/1g.10gb@0, 1/3g.40gb@4", [0, 2]),
        ("1/2g.20gb@0", [0]),
        ("0/1g.10gb@0", [0]),
    ],
)
def test_instances_that_a_pod_names(said: str, who: list[int]) -> None:
    """The one at that place of the card; where none of that profile is there, the card's first that is."""
    named = pod("p", on="e", resource=MIG, gpu_instances=said)
    found = [one for one in holders(stored(CUT, named)) if one[0] == "e"]
    profiles = ["1g.10gb", "1g.10gb", "3g.40gb"]
    if said in ("1/2g.20gb@0", "0/1g.10gb@0"):
        assert found[0] == ("e", "0", "", "p", "main")
        assert [one[3] for one in found[1:]] == [""] * 3
    else:
        assert found[0] == ("e", "0", "", "", "")
        assert [(one[1], one[2], one[3]) for one in found[1:]] == [
            ("1", profile, "p" if place in who else "") for place, profile in enumerate(profiles)
        ]


def test_pages_say_what_samples_say() -> None:
    """Each node's page has its own devices, whole GPUs alone where a field is one of theirs."""
    store = stored(CUT, pod("p", gpus=2), pod("q", on="d"))
    pages = GpuPages(store)
    for name, rows in (("a", 0), ("b", 3), ("d", 2), ("e", 4), ("gone", 0)):
        blocks = {block.name: block for block in pages.blocks(name)}
        assert len(blocks["DCGM_FI_DEV_FB_USED"].lines) == rows
        assert all(f'Hostname="{name}"' in line for block in blocks.values() for line in block.lines)
        wholes = len(blocks["DCGM_FI_DEV_GPU_UTIL"].lines)
        assert wholes == (1 if name == "e" else rows)
        for metric in ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"):
            said = [float(line.rpartition(" ")[2]) for line in blocks[metric].lines]
            ours = [v for labels, v in GpuPages(store).samples(metric) if dict(labels)["Hostname"] == name]
            assert said == pytest.approx(ours, rel=1e-6)
    assert list(pages.samples("none_of_these")) == []


def test_pages_of_another_moment_are_written_anew() -> None:
    store = stored(pod("p", gpus=2))
    pages, name = GpuPages(store), "DCGM_FI_DEV_POWER_USAGE"
    seen = []
    for _ in range(3):
        lines, fresh = (
            next(list(block.lines) for block in one.blocks("b") if block.name == name)
            for one in (pages, GpuPages(store))
        )
        assert lines == fresh
        seen.append(lines)
        store.now_us += MINUTE_US
    assert seen[0] != seen[1] != seen[2]


def test_counters_go_on_from_look_to_look() -> None:
    """They begin with the first look, count what is between two looks once, and stay as they are within a tick."""
    store = stored(pod("p", gpus=3))
    pages = GpuPages(store)
    seen = []
    for _ in range(4):
        values = [v for _, v in pages.samples("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")]
        assert values == [v for _, v in pages.samples("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")]
        seen.append(values[0])
        store.now_us += MINUTE_US
    steps = [after - before for before, after in pairwise(seen)]
    powers = [v for _, v in pages.samples("DCGM_FI_DEV_POWER_USAGE")]
    # Thousandths of a joule; what a GPU draws does not change much from minute to minute.
    assert all(0.5 * powers[0] < step / 1000 / 60 < 2 * powers[0] for step in steps)
    assert seen[0] < steps[0]


def test_a_gpu_that_broke_says_so_on_its_own_row() -> None:
    store = stored(pod("p", gpus=3))
    at_us = store.now_us - MINUTE_US
    broken = {
        ("b", 1, "xid-79", at_us): None,
        ("b", 9, "xid-79", at_us): None,
        ("a", 0, "xid-79", at_us): None,
    }
    errors = [v for _, v in GpuPages(store, lambda: broken).samples("DCGM_FI_DEV_XID_ERRORS")]
    assert errors == [0.0, 79.0, 0.0, 0.0, 0.0]
    assert [v for _, v in GpuPages(store).samples("DCGM_FI_DEV_XID_ERRORS")] == [0.0] * 5
