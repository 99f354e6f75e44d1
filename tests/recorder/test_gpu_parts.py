"""How many GPUs parts of them come to."""

from __future__ import annotations

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.cluster.gpurequests import DEFAULT_GPUS, unit_of
from fairway.kube.resources import parse_resources
from fairway.metering.devices import gpus_of

CARDS = [(m.name, p.name, m.compute_slices, p.compute_slices) for m in load_catalog().gpus() for p in m.mig]


@pytest.mark.parametrize(("model", "profile", "most", "slices"), CARDS)
def test_a_bill_counts_instances_by_the_slices_of_their_card(
    model: str, profile: str, most: int, slices: int
) -> None:
    resource = f"nvidia.com/mig-{profile.replace('+', '.')}"
    assert gpus_of(resource, most, load_catalog().gpu(model)) == pytest.approx(slices)


@pytest.mark.parametrize(
    ("requests", "milli"),
    [
        ({"nvidia.com/mig-1g.6gb": "4"}, 1000),
        ({"nvidia.com/mig-2g.12gb": "1", "nvidia.com/mig-1g.6gb": "2"}, 1000),
        ({"nvidia.com/mig-1g.5gb": "7"}, 1000),
        ({"nvidia.com/mig-1g.5gb": "1", "nvidia.com/mig-1g.6gb": "1"}, 142 + 250),
        ({"nvidia.com/mig-3g.20gb": "1"}, 428),
    ],
)
def test_pods_ask_for_parts_of_their_cards(requests: dict[str, str], milli: int) -> None:
    assert DEFAULT_GPUS.asked(parse_resources(requests)) == milli


def test_renamed_shares_are_parts_of_gpus() -> None:
    unit = unit_of({"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"})
    offers = parse_resources({"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"})
    assert DEFAULT_GPUS.capacity(offers, unit) == 2000
    assert DEFAULT_GPUS.asked(parse_resources({"nvidia.com/gpu.shared": "1"}), unit) == 250
