"""Parts of GPUs add up to whole ones."""

from __future__ import annotations

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.metering.devices import MigRule, gpu_memory_of, gpus_of

CASES = [
    ("a whole GPU", "nvidia.com/gpu", 3, 1, MigRule.COMPUTE, 3.0),
    ("seven smallest slices are one GPU", "nvidia.com/mig-1g.5gb", 7, 1, MigRule.COMPUTE, 1.0),
    ("by memory they leave an eighth", "nvidia.com/mig-1g.5gb", 7, 1, MigRule.MEMORY, 7 / 8),
    ("3g is three sevenths", "nvidia.com/mig-3g.20gb", 1, 1, MigRule.COMPUTE, 3 / 7),
    ("3g is half the memory", "nvidia.com/mig-3g.20gb", 1, 1, MigRule.MEMORY, 1 / 2),
    ("one of four time slices", "nvidia.com/gpu", 1, 4, MigRule.COMPUTE, 0.25),
    ("shared, renamed by the device plugin", "nvidia.com/gpu.shared", 2, 4, MigRule.COMPUTE, 0.5),
    ("shared instances, renamed", "nvidia.com/mig-1g.5gb.shared", 2, 4, MigRule.COMPUTE, 0.5 / 7),
    ("a profile of another model is nothing", "nvidia.com/mig-1g.10gb.gfx", 1, 1, MigRule.COMPUTE, 0.0),
    ("no GPU at all", "cpu", 8, 1, MigRule.COMPUTE, 0.0),
]


@pytest.mark.parametrize(
    ("resource", "count", "replicas", "rule", "want"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_parts_of_an_a100(resource: str, count: int, replicas: int, rule: MigRule, want: float) -> None:
    model = load_catalog().gpu("A100-SXM4-40GB")
    assert gpus_of(resource, count, model, replicas=replicas, rule=rule) == pytest.approx(want)


def test_of_a_model_nobody_knows_the_name_of_a_slice_says_its_size() -> None:
    assert gpus_of("nvidia.com/mig-2g.20gb", 1, None) == pytest.approx(2 / 7)
    assert gpus_of("nvidia.com/mig-odd", 1, None) == 0.0
    assert gpus_of("fairway.dev/gpu-milli", 460, None) == pytest.approx(0.46)


def test_memory_comes_with_the_part() -> None:
    model = load_catalog().gpu("A100-SXM4-40GB")
    assert model is not None
    profile = model.profile("3g.20gb")
    assert profile is not None
    assert gpu_memory_of("nvidia.com/mig-3g.20gb", 2, model) == 2 * profile.memory_bytes
    assert gpu_memory_of("nvidia.com/gpu", 1, model, replicas=4) == model.memory_bytes / 4
