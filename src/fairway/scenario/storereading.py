"""The `stores:` section: where init containers fetch models from, how fast, and what nodes keep.

stores:
  - name: hub
    bandwidth: 10Gi                 # bytes a second, of all readers together
    perReader: 1Gi                  # bytes a second of one; absent: no limit of its own
    cache: 200Gi                    # what each node keeps; absent: nothing
    models: {"s3://models/llama-3.1-8b": 16Gi}   # names, or storageUris of InferenceServices, and their bytes
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fairway.kube.located import Field, did_you_mean
from fairway.kube.quantity import whole_ceil
from fairway.twin.behaviour import PREFIX, BehaviourError
from fairway.twin.kubelet.stores import WEIGHTS, Store

# An exabyte: more is a slip of the pen, and numbers stay short.
_LARGEST = 2**60
_BYTES = "expected bytes, such as 16Gi, above 0 and at most 1Ei"
_RATE = "expected bytes a second, such as 10Gi, above 0 and at most 1Ei"


def read_stores(field: Field) -> tuple[Store, ...]:
    """What was read; the reading knows what is wrong with the rest."""
    found: list[Store] = []
    homes: dict[str, str] = {}
    for item in field.items():
        parts = item.members(
            *("name", "bandwidth", "perReader", "cache", "models"), required=("name", "bandwidth", "models")
        )
        name = parts["name"].text()
        if any(store.name == name for store in found):
            parts["name"].reject("a store of this name is there already")
        models: list[tuple[str, int]] = []
        for model, size in parts["models"].entries():
            if model in homes:
                size.reject(f"the store {homes[model]} has a model of this name")
            homes[model] = name
            if size.value is None:
                size.reject(_BYTES)
            models.append((model, size.parsed(_amount, _BYTES, 1)))
        if parts["models"].value == {}:
            parts["models"].reject("expected one model at least")
        rate = parts["bandwidth"].parsed(_amount, _RATE, 1)
        reader_rate = parts["perReader"].parsed(_amount, _RATE, 0)
        cache_bytes = parts["cache"].parsed(_amount, _BYTES, 0)
        found.append(Store(name, rate, reader_rate, cache_bytes, tuple(models)))
    return tuple(found)


def _amount(value: Any) -> int:
    """Raises: ValueError."""
    if isinstance(value, bool):
        raise ValueError
    amount = whole_ceil(value)
    if not 0 < amount <= _LARGEST:
        raise ValueError
    return amount


def unknown_weights(annotations: Mapping[str, str], models: Collection[str]) -> Iterator[BehaviourError]:
    """Annotations that name no init container, or a model that no store has."""
    for name, value in annotations.items():
        if name == WEIGHTS[:-1] or name == WEIGHTS:
            yield BehaviourError(name, str(value), f"expected {PREFIX}weights.<init container>: <model>")
        elif name.startswith(WEIGHTS) and value not in models:
            expected = (
                f"no store has this model; {did_you_mean(str(value), sorted(models))}"
                if models
                else "no store has this model; name it under stores[].models"
            )
            yield BehaviourError(name, str(value), expected)
