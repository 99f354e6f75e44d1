"""Shared GPUs against a model in plain lists: who holds which device, and how much is left of each."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from builders import GPU, node, pod
from fairway.cluster.devices import (
    GPU_INDEX_ANNOTATION,
    MAX_DEVICES,
    GpuDevices,
    annotation_of,
    devices_of,
    indexes,
)
from fairway.cluster.records import LabelSet, PodRecord
from fairway.cluster.shapes import PodShape, Shapes, gpus_asked
from fairway.cluster.store import Store
from fairway.kube.objects import Key
from fairway.kube.resources import GPU_MILLI, NVIDIA_GPU

_ROWS = 3


def _shape(shapes: Shapes, **asked: object) -> PodShape:
    made = pod("p")
    for name, amount in asked.items():
        made.asks(GPU_MILLI if name == "milli" else GPU, amount)
    return shapes.of(made.build())


class _Model:
    """Devices by row: free milli of each of sixteen, and how many of them are there."""

    def __init__(self) -> None:
        self.free = [[0] * MAX_DEVICES for _ in range(_ROWS)]
        self.count = [0] * _ROWS

    def describe(self, row: int, count: int) -> None:
        for i in range(MAX_DEVICES):
            self.free[row][i] += 1000 * ((i < count) - (i < self.count[row]))
        self.count[row] = min(count, MAX_DEVICES)

    def tightest(self, row: int, shape: PodShape) -> list[int]:
        fitting = [i for i in range(self.count[row]) if self.free[row][i] >= shape.gpu_each]
        fitting.sort(key=lambda i: (self.free[row][i], i))
        return sorted(fitting[: shape.gpu_count]) if len(fitting) >= shape.gpu_count else []


@pytest.mark.parametrize("seed", range(12))
def test_devices_are_counted_as_in_plain_lists(seed: int) -> None:
    draw, shapes = Random(seed), Shapes()
    asked = [_shape(shapes, milli=m) for m in (1, 300, 460, 1000, 2500)] + [
        _shape(shapes, whole=w) for w in (1, 2, 8)
    ]
    asked.append(_shape(shapes))
    devices, model, held = GpuDevices(), _Model(), list[tuple[PodRecord, int]]()
    for step in range(120):
        row = draw.randrange(_ROWS)
        act = draw.choice(("describe", "take", "take", "take", "give"))
        if act == "describe" and not any(at == row for _, at in held):
            count = draw.choice((0, 1, 2, 8, 16, 20))
            devices.describe(row, count)
            model.describe(row, min(count, MAX_DEVICES))
        elif act == "take":
            shape = draw.choice(asked)
            record = PodRecord(
                key=Key("Pod", "default", f"p{step}"), uid=str(step), shape=shape, labels=LabelSet(0, "", {})
            )
            if draw.random() < 0.2 and shape.gpu_count == 1:
                record.devices = 1 << draw.randrange(4)
            named = record.devices
            want = model.tightest(row, shape)
            assert devices.tightest(row, shape) == sum(1 << i for i in want)
            devices.take(record, row)
            if not model.count[row] or not shape.gpu_count:
                # A node that shares none keeps no account of them, whatever the pod names.
                assert record.devices == named
                devices.give(record, row)
                assert devices.free[:_ROWS].tolist() == model.free
                continue
            assert indexes(record.devices) == (indexes(named) if named else want)
            for i in indexes(record.devices):
                model.free[row][i] -= shape.gpu_each
            held.append((record, row))
        elif act == "give" and held:
            record, row = held.pop(draw.randrange(len(held)))
            devices.give(record, row)
            for i in indexes(record.devices):
                model.free[row][i] += record.shape.gpu_each
        assert devices.free[:_ROWS].tolist() == model.free
        assert devices.count[:_ROWS].tolist() == model.count
        assert devices.shared_rows == sum(count > 0 for count in model.count)
        for shape in asked:
            able = [sum(f >= max(shape.gpu_each, 1) for f in model.free[row]) for row in range(_ROWS)]
            short = [bool(count) and n < shape.gpu_count for count, n in zip(model.count, able, strict=True)]
            assert devices.short(shape, slice(0, _ROWS)).tolist() == short
            assert devices.short(shape, np.array([2, 0])).tolist() == [short[2], short[0]]
        twin = devices.copy()
        assert twin.shared_rows == devices.shared_rows
        assert (twin.free == devices.free).all()
        assert (twin.count == devices.count).all()


def test_a_pod_counted_anew_gets_back_what_it_held_while_that_is_free() -> None:
    shapes, devices = Shapes(), GpuDevices()
    devices.describe(0, 2)
    labels = LabelSet(0, "", {})
    half = _shape(shapes, milli=500)

    def record(uid: str) -> PodRecord:
        return PodRecord(key=Key("Pod", "default", uid), uid=uid, shape=half, labels=labels)

    first, second, third = record("1"), record("2"), record("3")
    for one in (first, second, third):
        devices.take(one, 0)
    assert [one.devices for one in (first, second, third)] == [1, 1, 2]
    devices.give(first, 0)
    again = record("1")
    devices.copy().take(again, 0)
    assert again.devices == 1, "a copy remembers, too"
    devices.give(third, 0)
    returned = record("3")
    devices.take(returned, 0)
    assert returned.devices == 2, "its own device, though another is tighter"
    devices.give(returned, 0)
    full = PodRecord(key=Key("Pod", "default", "f"), uid="f", shape=_shape(shapes, whole=1), labels=labels)
    devices.take(full, 0)
    assert full.devices == 2
    late = record("3")
    devices.take(late, 0)
    assert late.devices == 1, "its own is taken by now"


def test_devices_that_were_held_are_given_back_together_or_not_at_all() -> None:
    shapes, devices, labels = Shapes(), GpuDevices(), LabelSet(0, "", {})
    devices.describe(0, 4)

    def take(uid: str, **asked: int) -> PodRecord:
        key = Key("Pod", "default", uid)
        record = PodRecord(key=key, uid=uid, shape=_shape(shapes, **asked), labels=labels)
        devices.take(record, 0)
        return record

    both = take("both", whole=2)
    assert both.devices == 0b11
    devices.give(both, 0)
    share = take("share", milli=300)
    assert share.devices == 0b1
    assert take("both", whole=2).devices == 0b110, "one of its two is no longer whole"
    assert devices.free[0].tolist()[:4] == [700, 0, 0, 1000]


def test_devices_written_and_read() -> None:
    for mask in (*range(64), 1 << 15, (1 << 16) - 1):
        text = annotation_of(mask)
        assert text == ",".join(str(i) for i in range(16) if mask & 1 << i)
        assert devices_of({GPU_INDEX_ANNOTATION: text}) == mask
        assert indexes(mask) == [i for i in range(16) if mask & 1 << i]
    for text, want in {
        "0, 3": 9,
        "3,3": 8,
        "1,,": 2,
        "15": 1 << 15,
        "16": 0,
        "1,16": 0,
        "-1": 0,
        "a": 0,
    }.items():
        assert devices_of({GPU_INDEX_ANNOTATION: text}) == want, text
    assert devices_of(None) == devices_of({}) == devices_of({GPU_INDEX_ANNOTATION: ""}) == 0


def test_how_many_devices_and_how_much_of_each() -> None:
    for milli in (1, 999, 1000, 1001, 2000, 2001, 16000):
        each = min(milli, 1000)
        assert gpus_asked({GPU_MILLI: milli}) == ((milli + 999) // 1000, each)
        assert gpus_asked({GPU_MILLI: milli, NVIDIA_GPU: 3}) == (3, 1000), "whole ones go first"
    assert gpus_asked({}) == gpus_asked({GPU_MILLI: 0, NVIDIA_GPU: 0}) == (0, 0)


@pytest.mark.parametrize(
    ("whole", "milli", "shared"),
    [
        (None, None, 0),
        (4, None, 0),
        (4, 4000, 4),
        (None, 2500, 3),
        (2, 4000, 2),
        (8, 3000, 3),
        (None, 40000, 16),
    ],
)
def test_a_node_shares_what_it_says(whole: int | None, milli: int | None, shared: int) -> None:
    made = node("n")
    if whole is not None:
        made.gpu(whole)
    if milli is not None:
        made.has(GPU_MILLI, milli)
    store = Store()
    store.create(made.build())
    devices = store.accounts.devices
    assert int(devices.count[store.accounts.row_of["n"]]) == shared
    assert devices.shared_rows == (shared > 0)


def test_more_nodes_than_there_was_room_for_keep_their_devices() -> None:
    store = Store()
    for i in range(40):
        store.create(node(f"n{i}").gpu(i % 3).has(GPU_MILLI, 1000 * (i % 3)).build())
        store.create(pod(f"p{i}").asks(GPU_MILLI, 300).spec(nodeName=f"n{i}").build())
    accounts = store.accounts
    for i in range(40):
        row = accounts.row_of[f"n{i}"]
        free = [1000] * (i % 3) + [0] * (16 - i % 3)
        free[0] -= 300 * (i % 3 > 0)
        assert accounts.devices.free[row].tolist() == free
    store.delete(Key("Pod", "default", "p2"), grace_s=0)
    store.delete(Key("Node", "", "n1"))
    assert accounts.devices.free[accounts.row_of["n2"]].tolist() == [1000, 1000] + [0] * 14
    assert accounts.devices.shared_rows == sum(1 for i in range(40) if i % 3 and i != 1)
