"""What ships with Fairway: models, profiles and types hang together."""

from __future__ import annotations

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import GpuModel

CATALOG = load_catalog()
WITH_MIG = {
    *("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB", "A30"),
    *("H100-NVL-94GB", "GH200-96GB", "B200-180GB", "GB200-186GB"),
}
WITHOUT = {"T4", "L4", "A10G", "L40S", "V100-SXM2-16GB", "V100-SXM2-32GB"}


def test_the_models_with_and_without_mig() -> None:
    assert {m.name for m in CATALOG.gpus() if m.is_mig_capable} == WITH_MIG
    assert {m.name for m in CATALOG.gpus() if not m.is_mig_capable} == WITHOUT


@pytest.mark.parametrize("model", CATALOG.gpus(), ids=lambda m: m.name)
def test_mig_profiles_fit_their_gpu(model: GpuModel) -> None:
    for profile in model.mig:
        assert profile.sms <= model.sms
        assert profile.memory_bytes < model.memory_bytes
        assert all(start + profile.memory_slices <= model.memory_slices for start in profile.starts)
        apart = 0
        for start in profile.starts:
            apart += start >= apart * profile.memory_slices
        assert profile.instances_most == (1 if profile.name.endswith("+me") else apart), profile


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("nvidia-a100-80gb-pcie", "A100-PCIE-80GB"),
        ("Tesla-T4", "T4"),
        ("H100", "H100-SXM5-80GB"),
        ("NVIDIA H200", "H200-SXM5-141GB"),
        ("V100M32", "V100-SXM2-32GB"),
    ],
)
def test_a_model_goes_by_many_names(name: str, want: str) -> None:
    found = CATALOG.gpu(name)
    assert found is not None and found.name == want


def test_a_profile_is_found_by_its_resource_name() -> None:
    a100 = CATALOG.gpu("A100")
    assert a100 is not None
    for name in ("1g.5gb", "mig-1g.5gb", "nvidia.com/mig-1g.5gb"):
        assert a100.profile(name) is not None
    media = a100.profile("nvidia.com/mig-1g.5gb.me")
    assert media is not None and media.resource == "nvidia.com/mig-1g.5gb.me" and media.id == 20
    assert a100.profile("1g.10gb+me") is None


def test_every_type_names_a_known_model_and_zones_of_its_regions() -> None:
    for kind in CATALOG.instance_types():
        assert bool(kind.gpu) == bool(kind.gpus)
        assert not kind.gpu or CATALOG.gpu(kind.gpu) is not None
        assert kind.zones and {CATALOG.region_of(z) for z in kind.zones} == set(kind.regions)


def test_azure_sizes_are_known_with_and_without_their_prefix() -> None:
    assert CATALOG.instance_type("Standard_NC24ads_A100_v4") == CATALOG.instance_type("NC24ads_A100_v4")
    assert CATALOG.instance_type("p6.48xlarge") is None
