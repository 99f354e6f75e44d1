"""How many GPUs vectors of resources come to, and which part of one a node's labels say: against fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from random import Random

import pytest

from fairway.cluster.gpurequests import (
    DEFAULT_GPUS,
    MODEL_LABELS,
    SHARED,
    WHOLE,
    GpuResources,
    Part,
    kept_for_itself,
    label_of,
    node_resources,
    unit_of,
)

GPU, MILLI = "nvidia.com/gpu", "fairway.dev/gpu-milli"
# Compute slices of an instance, and of the cards that have such.
_INSTANCES = {
    "nvidia.com/mig-1g.5gb": (1, 7),
    "nvidia.com/mig-3g.20gb": (3, 7),
    "nvidia.com/mig-7g.40gb": (7, 7),
    "nvidia.com/mig-1g.5gb.shared": (1, 7),
    "nvidia.com/mig-1g.6gb": (1, 4),
    "nvidia.com/mig-2g.12gb": (2, 4),
    "nvidia.com/mig-2g.12gb.shared": (2, 4),
    # On no card there is: sevenths.
    "nvidia.com/mig-2g.1gb": (2, 7),
}
_OTHERS = ("cpu", "example.com/gpu", "nvidia.com/mig-9g.1gb", "nvidia.com/migrated")
_UNITS: tuple[Part, ...] = (WHOLE, (1, 4), (2, 7), (3, 28))


def _drawn(draw: Random) -> dict[str, int]:
    names = draw.sample((GPU, SHARED, MILLI, *_INSTANCES, *_OTHERS), draw.randint(0, 6))
    return {name: draw.choice((0, 1, 2, 3, 7)) * (150 if name == MILLI else 1) for name in names}


def _of_instances(vector: dict[str, int]) -> int:
    by_card = dict.fromkeys((4, 7), Fraction(0))
    for name, count in vector.items():
        slices, most = _INSTANCES.get(name, (0, 7))
        by_card[most] += 1000 * count * Fraction(slices, most)
    return sum(map(floor, by_card.values()))


@pytest.mark.parametrize("seed", range(40))
def test_vectors_come_to_what_fractions_say(seed: int) -> None:
    vector = _drawn(Random(seed))
    milli = vector.get(MILLI, 0)
    for unit in _UNITS:
        whole = floor(1000 * (vector.get(GPU, 0) + vector.get(SHARED, 0)) * Fraction(*unit))
        assert DEFAULT_GPUS.asked(vector, unit) == whole + _of_instances(vector) + milli
        assert DEFAULT_GPUS.capacity(vector, unit) == max(whole + _of_instances(vector), milli)
    gpus = {n: c for n, c in vector.items() if c and n not in _OTHERS[:2] and n != "nvidia.com/migrated"}
    assert DEFAULT_GPUS.devices(vector) == tuple(sorted(gpus.items()))
    assert DEFAULT_GPUS.units(vector) == sum(c for n, c in gpus.items() if n != MILLI) + -(-milli // 1000)


def test_other_resources_can_be_gpus() -> None:
    both = GpuResources(whole=("amd.com/gpu", GPU), milli=("a/milli", "b/milli"))
    vector = {"amd.com/gpu": 2, GPU: 1, "a/milli": 400, "b/milli": 900, MILLI: 7}
    assert both.asked(vector) == 4300
    assert both.capacity(vector) == 3000
    assert both.capacity({"a/milli": 400, "b/milli": 900}) == 1300
    assert both.units(vector) == 5
    assert both.devices(vector) == (("a/milli", 400), ("amd.com/gpu", 2), ("b/milli", 900), (GPU, 1))


SHARING, REPLICAS = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"
STRATEGY, SLICES, PRODUCT = "nvidia.com/mig.strategy", "nvidia.com/gpu.slices.gi", "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        ({}, WHOLE),
        ({REPLICAS: "4"}, WHOLE),
        ({SHARING: "none", REPLICAS: "4"}, WHOLE),
        ({SHARING: "mps", REPLICAS: "4"}, (7, 28)),
        ({SHARING: "time-slicing", REPLICAS: "2"}, (7, 14)),
        ({SHARING: "time-slicing", REPLICAS: "1"}, WHOLE),
        ({SHARING: "time-slicing", REPLICAS: "0"}, WHOLE),
        ({SHARING: "time-slicing"}, WHOLE),
        ({SHARING: "time-slicing", REPLICAS: "many"}, WHOLE),
        ({STRATEGY: "mixed", SLICES: "3"}, WHOLE),
        ({STRATEGY: "single", SLICES: "3"}, (3, 7)),
        ({STRATEGY: "single", SLICES: "7"}, WHOLE),
        ({STRATEGY: "single", SLICES: "9"}, WHOLE),
        ({STRATEGY: "single"}, WHOLE),
        ({STRATEGY: "single", SLICES: "1", PRODUCT: "NVIDIA-A30"}, (1, 4)),
        ({STRATEGY: "single", SLICES: "4", PRODUCT: "NVIDIA-A30"}, WHOLE),
        ({STRATEGY: "single", PRODUCT: "NVIDIA-A30"}, WHOLE),
        ({STRATEGY: "single", SLICES: "2", PRODUCT: "nobody's"}, (2, 7)),
        ({STRATEGY: "single", SLICES: "2", PRODUCT: "NVIDIA-A100-SXM4-40GB"}, (2, 7)),
        ({STRATEGY: "single", SLICES: "3", SHARING: "mps", REPLICAS: "2"}, (3, 14)),
        ({STRATEGY: "single", SLICES: "9", SHARING: "mps", REPLICAS: "2"}, (7, 14)),
        ({STRATEGY: "single", SHARING: "mps", REPLICAS: "3", PRODUCT: "NVIDIA-A30"}, (4, 12)),
    ],
)
def test_labels_say_which_part_of_a_gpu_one_is(labels: dict[str, str], part: Part) -> None:
    assert unit_of(labels) == part


@pytest.mark.parametrize(
    ("node", "offers", "kept"),
    [
        ({}, {}, (0, 0)),
        ({"status": None}, {}, (0, 0)),
        ({"status": {}}, {}, (0, 0)),
        ({"status": {"capacity": {"cpu": "2"}}}, {"cpu": 2000}, (0, 0)),
        ({"status": {"allocatable": {"cpu": "2"}}}, {"cpu": 2000}, (0, 0)),
        (
            {
                "status": {
                    "capacity": {"cpu": "2", "memory": "9"},
                    "allocatable": {"cpu": "1500m", "memory": "7"},
                }
            },
            {"cpu": 1500, "memory": 7},
            (500, 2),
        ),
        ({"status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "2", "memory": "7"}}}, None, (0, 0)),
        (
            {"status": {"capacity": {"cpu": "1", "memory": "7"}, "allocatable": {"pods": "2"}}},
            None,
            (1000, 7),
        ),
    ],
)
def test_what_a_node_offers_and_keeps(
    node: dict[str, object], offers: dict[str, int] | None, kept: tuple[int, int]
) -> None:
    if offers is not None:
        assert node_resources(node) == offers
    assert kept_for_itself(node) == kept


def test_the_first_label_that_is_there_names_the_model() -> None:
    assert label_of({}, MODEL_LABELS) == ""
    assert label_of({MODEL_LABELS[2]: "", MODEL_LABELS[3]: "d"}, MODEL_LABELS) == ""
    assert label_of({MODEL_LABELS[3]: "d", MODEL_LABELS[1]: "b"}, MODEL_LABELS) == "b"
