"""Which instances does a named MIG configuration ask for on each card? mig-parted's files, in its words.

A file that says nothing wrong names configurations; MIG Manager makes one from the cards it finds where nobody gives
it another: `all-disabled`, `all-enabled`, `all-balanced` and `all-<profile>`.

Source: NVIDIA/mig-parted 0.15 api/spec/v1, pkg/mig/{builder,config}, cmd/nvidia-mig-parted/{assert,apply}.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from fairway.catalog.gpus import GpuModel
from fairway.catalog.placements import Layout, laid_out
from fairway.errors import UserError

_PROFILE: Final = re.compile(r"(?:[1-7]c\.)?[1-7]g\.\d{1,4}gb(?:[+-][a-z0-9.]+)?")
_BALANCED: Final = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}
_KEYS: Final = ("device-filter", "devices", "mig-enabled", "mig-devices")
# Bytes of a file that are read; a ConfigMap has at most 1 MiB.
_BYTES_MOST: Final = 2**20


class MigConfigError(UserError):
    """What nvidia-mig-parted says before it exits."""


@dataclass(frozen=True, slots=True)
class MigSpec:
    """One entry of a configuration. `devices` None: all of them."""

    devices: tuple[int, ...] | None
    filters: tuple[str, ...]
    enabled: bool
    counts: Mapping[str, int]

    def concerns(self, index: int, device_id: str) -> bool:
        if self.devices is not None and index not in self.devices:
            return False
        return not self.filters or device_id.lower() in [f.lower() for f in self.filters]


MigConfigs = dict[str, tuple[MigSpec, ...]]


def read_mig_configs(text: str) -> MigConfigs:
    """The configurations of a file. Raises: MigConfigError."""
    if len(text) > _BYTES_MOST:
        raise MigConfigError(f"error parsing config file: {len(text)} bytes, expected at most {_BYTES_MOST}")
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as wrong:
        raise MigConfigError(
            f"error parsing config file: unmarshal error: {' '.join(str(wrong).split())}"
        ) from None
    try:
        return _spec(raw)
    except MigConfigError as wrong:
        raise MigConfigError(f"error parsing config file: unmarshal error: {wrong}") from None


def _spec(raw: Any) -> MigConfigs:
    if not isinstance(raw, dict):
        raise MigConfigError("expected a mapping with 'version' and 'mig-configs'")
    if "version" not in raw:
        raise MigConfigError("unable to parse with missing 'version' field")
    if raw["version"] != "v1":
        raise MigConfigError(f"unknown version: {raw['version']}")
    unexpected = next((k for k in raw if k not in ("version", "mig-configs")), None)
    if unexpected is not None:
        raise MigConfigError(f"unexpected field: {unexpected}")
    configs = raw.get("mig-configs")
    if not isinstance(configs, dict) or not configs:
        raise MigConfigError("at least one entry in 'mig-configs' is required")
    found: MigConfigs = {}
    for name, entries in configs.items():
        if not isinstance(entries, list) or not entries:
            raise MigConfigError(f"at least one entry in '{name}' is required")
        found[str(name)] = tuple(_entry(e) for e in entries)
    return found


def _entry(raw: Any) -> MigSpec:
    if not isinstance(raw, dict):
        raise MigConfigError(f"cannot unmarshal {type(raw).__name__} into MigConfigSpec")
    for required in ("devices", "mig-enabled"):
        if required not in raw:
            raise MigConfigError(f"missing required field: {required}")
    unexpected = next((k for k in raw if k not in _KEYS), None)
    if unexpected is not None:
        raise MigConfigError(f"unexpected field: {unexpected}")
    devices = raw["devices"]
    if isinstance(devices, str) and devices != "all":
        raise MigConfigError(f"invalid string input for 'devices': {devices}")
    if devices != "all" and not (isinstance(devices, list) and all(type(d) is int for d in devices)):
        raise MigConfigError(f"cannot unmarshal {devices!r} into devices: expected all or a list of numbers")
    if type(raw["mig-enabled"]) is not bool:
        raise MigConfigError(
            f"cannot unmarshal {raw['mig-enabled']!r} into mig-enabled: expected true or false"
        )
    filters = raw.get("device-filter") or []
    filters = [filters] if isinstance(filters, str) else filters
    if not isinstance(filters, list) or not all(isinstance(f, str) for f in filters):
        raise MigConfigError(
            f"cannot unmarshal {filters!r} into device-filter: expected a string or a list of strings"
        )
    counts = raw.get("mig-devices")
    if raw["mig-enabled"] and counts is None:
        raise MigConfigError("missing required field 'mig-devices' when 'mig-enabled' is true")
    counts = _counts(counts or {})
    if not raw["mig-enabled"] and counts:
        raise MigConfigError("MIG devices included when 'mig-enabled' is false")
    return MigSpec(None if devices == "all" else tuple(devices), tuple(filters), raw["mig-enabled"], counts)


def _counts(raw: Any) -> dict[str, int]:
    problem = "error validating values in 'mig-devices' field: "
    if not isinstance(raw, dict):
        raise MigConfigError(f"{problem}expected profiles with counts")
    for name, count in raw.items():
        if not isinstance(name, str) or not _PROFILE.fullmatch(name):
            raise MigConfigError(f"{problem}invalid format for '{name}': cannot parse as a MIG profile")
        if type(count) is not int or count < 0:
            raise MigConfigError(f"{problem}invalid count for '{name}': {count}")
    if raw and not any(raw.values()):
        raise MigConfigError(f"{problem}all counts for all MigProfiles are 0")
    return {name: count for name, count in raw.items() if count}


def generated_configs(model: GpuModel) -> MigConfigs:
    """What MIG Manager writes for a node with cards of this model."""
    configs: MigConfigs = {"all-disabled": (MigSpec(None, (), False, {}),)}
    if not model.mig:
        return configs
    configs["all-enabled"] = (MigSpec(None, (), True, {}),)
    formula = _BALANCED.get(model.compute_slices)
    if formula is not None:
        plain = [p for p in model.mig if not p.has_media]
        most = {
            g: max((p for p in plain if p.compute_slices == g), key=lambda p: p.instances_most)
            for g in formula
        }
        configs["all-balanced"] = (MigSpec(None, (), True, {most[g].name: n for g, n in formula.items()}),)
    for p in model.mig:
        configs[f"all-{p.name.replace('+', '.')}"] = (MigSpec(None, (), True, {p.name: p.instances_most}),)
    return configs


def selected(configs: MigConfigs, name: str) -> tuple[MigSpec, ...]:
    """Raises: MigConfigError."""
    found = configs.get(name)
    if found is None:
        raise MigConfigError(f"error selecting MIG config: selected mig-config not present: {name}")
    return found


def applied(
    specs: Sequence[MigSpec], model: GpuModel, current: Sequence[Layout | None]
) -> list[Layout | None]:
    """The layout of every card after it: None with MIG disabled. Cards that no entry concerns stay as they are, and
    so do those that already have the instances asked for, wherever they are.

    Raises: MigConfigError where the card cannot have that.
    """
    after = list(current)
    for spec in specs:
        for index in range(len(after)):
            if spec.concerns(index, model.device_id):
                after[index] = _cut(spec, model, after[index])
    return after


def _cut(spec: MigSpec, model: GpuModel, current: Layout | None) -> Layout | None:
    if not model.is_mig_capable:
        if spec.enabled and spec.devices is not None:
            raise MigConfigError("cannot set MIG config on non MIG-capable GPU")
        return None
    if not spec.enabled:
        return None
    wanted = {}
    for name, count in spec.counts.items():
        profile = model.profile(name)
        if profile is None:
            raise MigConfigError(
                "error setting MIGConfig: error attempting multiple config orderings: all orderings failed "
                f'(MIG profile "{name}" not found on this GPU; a {model.product} has '
                f"{', '.join(p.name for p in model.mig)})"
            )
        wanted[profile] = count
    if current is not None and wanted == Counter(at.profile for at in current):
        return current
    layout = laid_out(model, wanted)
    if layout is None:
        asked = ", ".join(f"{n} x {name}" for name, n in spec.counts.items())
        raise MigConfigError(
            "error setting MIGConfig: error attempting multiple config orderings: all orderings failed "
            f"({asked} do not fit on a {model.product}: Insufficient Resources)"
        )
    return layout
