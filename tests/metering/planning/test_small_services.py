"""Which slice a service gets, and what cutting saves: every model with MIG, both sides of every slice's size."""

from __future__ import annotations

from itertools import product
from math import ceil, exp, inf

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.catalog.gpus import GpuModel
from fairway.errors import UserError
from fairway.metering.devices import MigRule, gpu_memory_of, gpus_of
from fairway.metering.planning.hours import cost_of, scale_to_zero
from fairway.metering.planning.rightsizing import Service, rightsize
from fairway.metering.planning.spot import (
    Checkpoints,
    break_even_hazard,
    daly_interval_h,
    slowdown,
    spot_economics,
    young_interval_h,
)

_MODELS = ("A30", "A100-SXM4-40GB", "H100-SXM5-80GB")


def _model(name: str) -> GpuModel:
    found = load_catalog().gpu(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", _MODELS)
def test_a_service_gets_the_smallest_slice_with_enough(name: str) -> None:
    model = _model(name)
    slices = max(p.compute_slices for p in model.mig)
    assert slices == (4 if name == "A30" else 7)
    for at, more, share in product(model.mig, (0, 1), range(slices + 1)):
        memory = at.memory_bytes + more
        if memory > model.memory_bytes:
            continue
        fitting = [
            p for p in model.mig if not p.has_media and p.memory_bytes >= memory and p.compute_slices >= share
        ]
        want = min(fitting, key=lambda p: (p.compute_slices, p.memory_slices, p.name), default=None)
        is_cut = want is not None and want.compute_slices < slices
        for replicas in (1, 2, 9):
            answer = rightsize([Service("s", memory, share / slices, replicas)], model, 10)
            assert answer.profiles == (("s", want.name if want is not None and is_cut else ""),)
            cut = ceil(replicas / want.instances_most) if want is not None and is_cut else replicas
            assert (answer.gpus_whole, answer.gpus_cut) == (replicas, cut), (want, replicas)
            assert (answer.micros_whole, answer.micros_cut) == (10 * replicas, 10 * cut)
            assert answer.saving_share == pytest.approx(1 - cut / replicas)
    for service in (Service("s", model.memory_bytes + 1), Service("s", 1, 1.01)):
        with pytest.raises(UserError, match="service s: needs"):
            rightsize([service], model, 1)
    assert rightsize([Service("s", model.memory_bytes, 1.0)], model, 1).gpus_cut == 1
    assert rightsize([], model, 1).saving_share == 0.0


@pytest.mark.parametrize("name", _MODELS)
def test_parts_of_a_gpu_are_its_slices(name: str) -> None:
    model = _model(name)
    slices = max(p.compute_slices for p in model.mig)
    for profile, replicas, count in product(model.mig, (0, 1, 4), (1, 3)):
        units = count / max(replicas, 1)
        assert gpus_of(profile.resource, count, model, replicas=replicas) == pytest.approx(
            units * profile.compute_slices / slices
        )
        by_memory = gpus_of(profile.resource, count, model, replicas=replicas, rule=MigRule.MEMORY)
        assert by_memory == pytest.approx(units * profile.memory_slices / model.memory_slices)
        memory = gpu_memory_of(profile.resource, count, model, replicas=replicas)
        assert memory == pytest.approx(units * profile.memory_bytes)
    for resource in ("nvidia.com/gpu", "nvidia.com/gpu.shared"):
        assert gpus_of(resource, 3, model, replicas=2) == 1.5
        assert gpu_memory_of(resource, 3, model, replicas=2) == 1.5 * model.memory_bytes
    assert gpus_of("fairway.dev/gpu-milli", 250, model, replicas=4) == 0.25
    assert (
        gpus_of("1g.6gb", 1, model)
        == 0.0
        == gpu_memory_of("1g.6gb", 1, model)
        == gpu_memory_of("cpu", 1, model)
    )


def test_hours_that_nobody_needs() -> None:
    for machines, price, needed, span, warm, starts in product(
        (0, 3), (7, 100), (0, 5), (10,), (0.0, 0.25), (0, 1, 3)
    ):
        answer = scale_to_zero(machines, price, needed, span, warm, starts)
        assert answer.always_micros == machines * price * span == cost_of(machines, price, span)
        warmup = ceil(machines * price * warm * starts)
        assert answer.needed_micros == machines * price * needed + warmup
        assert answer.saving_micros == answer.always_micros - answer.needed_micros
    assert scale_to_zero(2, 5, 1, 4) == scale_to_zero(2, 5, 1, 4, 0.0, 0)
    # A start that takes no time, and hours to start for what never does.
    assert scale_to_zero(2, 5, 1, 4, starts=3) == scale_to_zero(2, 5, 1, 4, 1.5) == scale_to_zero(2, 5, 1, 4)


def test_spot_at_its_limits() -> None:
    plain = Checkpoints(2.0, 0.5, 0.25)
    calm = spot_economics(10, 4, 0.0, plain, 3)
    assert (calm.slowdown, calm.lost_share) == (1.25, pytest.approx(0.2))
    assert (calm.on_demand_micros, calm.spot_micros, calm.effective_micros) == (30, 12, 15)
    assert calm.kept_saving == pytest.approx(15 / 18)
    assert calm.best_interval_h is None and calm.young_interval_h is None
    assert spot_economics(10, 10, 0.1, plain).kept_saving is None
    assert spot_economics(10, 0, 0.1, plain).break_even_hazard_per_h == inf
    one, many = spot_economics(10, 4, 0.1, plain), spot_economics(10, 4, 0.1, plain, 5)
    assert many.break_even_hazard_per_h == pytest.approx(one.break_even_hazard_per_h / 5)
    assert slowdown(many.break_even_hazard_per_h * 5, plain) == pytest.approx(2.5)
    assert many.slowdown == slowdown(0.5, plain) > one.slowdown
    assert daly_interval_h(1.0, 1.99) != 1.0 and daly_interval_h(1.0, 2.0) == daly_interval_h(1.0, 3.0) == 1.0
    assert daly_interval_h(0.0, 1.0) is None and daly_interval_h(1.0, 0.0) is None
    # Daly's equation 37: δ half an hour, M ten hours.
    ratio = 0.5 / 20
    want = (2 * 0.5 * 10) ** 0.5 * (1 + ratio**0.5 / 3 + ratio / 9) - 0.5
    assert daly_interval_h(0.1, 0.5) == pytest.approx(want)
    assert slowdown(280.0, plain) == inf and slowdown(250.0, plain) < inf
    assert slowdown(1.0, Checkpoints(0.5, 0.5, 699.0)) < inf == slowdown(1.0, Checkpoints(0.5, 0.5, 800.0))
    assert break_even_hazard(1.25, plain) == 0.0 < break_even_hazard(1.26, plain)
    for zero in (Checkpoints(1.0), Checkpoints(1.0, 0.0, 0.0)):
        assert spot_economics(0, 0, 0.0, zero).slowdown == 1.0
    for wrong, why in (
        ((-1, 1, 0.1, plain), "the on-demand price is -1"),
        ((1, -1, 0.1, plain), "the spot price is -1"),
        ((1, 1, -0.1, plain), "the hazard is -0.1"),
        ((1, 1, 0.1, Checkpoints(1.0, -1.0)), "the time to save is -1"),
        ((1, 1, 0.1, Checkpoints(1.0, 0.0, -1.0)), "the time to restore is -1"),
        ((1, 1, 0.1, plain, 0), "the number of machines is 0: expected 1 or more"),
    ):
        with pytest.raises(UserError, match=why):
            spot_economics(*wrong)


def test_break_even_is_the_last_hazard_that_pays() -> None:
    """On either side of it, and for prices that need many interruptions or next to none."""
    for ratio, checkpoints in product(
        (1.2600001, 1.5, 2.0, 8.0, 1e6),
        (Checkpoints(2.0, 0.5, 0.25), Checkpoints(0.01), Checkpoints(50.0, 1.0)),
    ):
        hazard = break_even_hazard(ratio, checkpoints)
        assert slowdown(hazard, checkpoints) < ratio
        assert slowdown(hazard * (1 + 1e-9), checkpoints) > ratio
    # Twice the time undisturbed, and a price of half: it pays at no hazard.
    assert break_even_hazard(2.0, Checkpoints(1.0, 1.0)) == 0.0
    assert spot_economics(10, 5, 0.1, Checkpoints(1.0)).break_even_hazard_per_h == break_even_hazard(
        2.0, Checkpoints(1.0)
    )


@pytest.mark.parametrize("large_first", [True, False])
@pytest.mark.parametrize(("share", "memory_gib"), [(3 / 7, 18), (2 / 7, 9)])
def test_larger_slices_are_placed_before_smaller_ones(
    share: float, memory_gib: int, large_first: bool
) -> None:
    """However they are listed: a 4g fits in the first half of a GPU alone, which smaller slices would take."""
    small, large = Service("small", memory_gib << 30, share, 2), Service("large", 18 << 30, 4 / 7, 2)
    services = [large, small] if large_first else [small, large]
    assert rightsize(services, _model("A100-SXM4-40GB"), 1).gpus_cut == 2


def test_work_is_hopeless_beyond_seven_hundred() -> None:
    """Interruptions within one interval, its saving and the restoring: as many are work still, a few more are none."""
    for hazard, step, save, restore in (
        (1.0, 0.5, 0.5, 699.0),
        (2.0, 0.25, 0.25, 349.5),
        (0.25, 4.0, 36.0, 2760.0),
    ):
        at_limit = slowdown(hazard, Checkpoints(step, save, restore))
        expected = exp(restore * hazard) * (exp((step + save) * hazard) - 1) / hazard / step
        assert at_limit == pytest.approx(expected, rel=1e-9)
        beyond = Checkpoints(step, save, restore + 0.5 / hazard)
        assert slowdown(hazard, beyond) == inf > at_limit


def test_intervals_of_one_an_hour_and_of_an_hour() -> None:
    for hazard, save in ((1.0, 0.5), (0.5, 1.0), (1.0, 1.0)):
        assert young_interval_h(hazard, save) == pytest.approx((2 * save / hazard) ** 0.5)
        found, ratio = daly_interval_h(hazard, save), save * hazard / 2
        first = (2 * save / hazard) ** 0.5
        assert found == pytest.approx(first * (1 + ratio**0.5 / 3 + ratio / 9) - save)
    for hazard, save in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0)):
        assert young_interval_h(hazard, save) is None is daly_interval_h(hazard, save)
    assert slowdown(1.0, Checkpoints(1.0)) == pytest.approx(exp(1) - 1)


def test_a_share_that_was_rounded_is_the_slice_it_was_rounded_from() -> None:
    """To nine digits: three sevenths written as 0.428571429 are three slices, and what is more is four."""
    model = _model("A100-SXM4-40GB")
    for share, want in ((0.428571429, "3g.20gb"), (3 / 7 + 0.9e-9, "3g.20gb"), (3 / 7 + 1.2e-9, "4g.20gb")):
        assert rightsize([Service("s", 1, share)], model, 1).profiles == (("s", want),)
